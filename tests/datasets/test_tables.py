"""Vectors from real files of each kind, and files that are none."""

import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from refusals import result_or_reason
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

from epls.datasets import arrays
from epls.datasets.tables import doubtful_columns, load_table


@pytest.fixture
def frame():
    return pd.DataFrame({"height": [1.5, 2.0, 2.5], "age": [30, 40, 50], "known": [True, False, True]})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables(frame, kind, tmp_path):
    path = tmp_path / f"table.{kind}"
    getattr(frame, f"to_{kind}")(path, index=False)
    X, names, *_ = load_table(path)
    assert names == ["height", "age", "known"]
    assert X.dtype == np.float64
    assert_array_equal(X, frame.astype(float))
    X, names, *_ = load_table(path, drop=("age",))
    assert names == ["height", "known"]
    X, names, *_ = load_table(path, columns=["age", "height"])
    assert_array_equal(X, frame[["age", "height"]])


def test_what_is_missing_is_named(frame, tmp_path):
    frame.assign(weight=[1.0, np.nan, np.inf]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"missing or infinite: weight \(2\)"):
        load_table(tmp_path / "t.csv")


def test_single_precision_stays(frame, tmp_path):
    frame[["height"]].astype(np.float32).to_parquet(tmp_path / "t.parquet")
    assert load_table(tmp_path / "t.parquet")[0].dtype == np.float32


def test_text_is_named(frame, tmp_path):
    frame.assign(color=["a", "b", "c"]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"not numbers: color\. Leave them out with drop=\['color'\] .*--drop color"):
        load_table(tmp_path / "t.csv")
    assert load_table(tmp_path / "t.csv", drop=("color",)).columns == ["height", "age", "known"]
    with pytest.raises(ValueError, match=r"no column colr \(did you mean color\?\); it has height, age, known, color"):
        load_table(tmp_path / "t.csv", drop=("colr",))


def test_a_wrong_table_is_told_in_a_line(tmp_path):
    pd.DataFrame(np.ones((2, 64)), columns=[f"c{k}" for k in range(64)]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"no column height; it has c0, c1, c2, c3, c4 and 59 more$"):
        load_table(tmp_path / "t.csv", columns=["height"])
    with pytest.raises(ValueError, match=r"no column x0, x1, x2, x3, x4 and 25 more.*; it has c0, .* and 59 more$"):
        load_table(tmp_path / "t.csv", columns=[f"x{k}" for k in range(30)])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "not a csv table"),
        ("t.csv", b"a,b\n1,2,3\n", "not a csv table"),
        ("t.csv", b"a,b\n", r"t\.csv has no rows below the names of its columns"),
        ("t.csv", b"1,2\n", "Add a line of names"),
        (
            "t.csv",
            b"a;b\n1;2\n",
            r"not numbers: a;b\. .*\(are its values separated by semicolons or tabs\?",
        ),
        ("t.csv", "a,b\n1,2\n".encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
        ("t.csv", b"a\xff,b\n1,2\n", "text that is not UTF-8 .*: save it as UTF-8"),
        ("t.parquet", b"PAR1 and no more", "not a parquet table"),
    ],
)
def test_damaged_tables(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_table(tmp_path / name)


def test_a_table_of_which_nothing_is_left(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match=r"no columns of .*t\.csv are left, because drop leaves out all 2: drop fewer"):
        load_table(tmp_path / "t.csv", drop=["a", "b"])
    pd.DataFrame({"a": [1.0]})[:0].to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"t\.parquet has no rows"):
        load_table(tmp_path / "t.parquet")


def test_advice_for_the_shell_is_quoted(tmp_path):
    (tmp_path / "t.csv").write_text("a b,c\nred,2\n")
    with pytest.raises(ValueError, match=r"drop=\['a b'\] \(on the command line, --drop 'a b'\)"):
        load_table(tmp_path / "t.csv")


def test_damaged_pages_are_told_with_the_name_of_the_file(frame, tmp_path):
    """pyarrow raises errors of the system without a number or a name for these."""
    frame.to_parquet(tmp_path / "t.parquet")
    content = bytearray((tmp_path / "t.parquet").read_bytes())
    content[4:40] = b"\xff" * 36
    (tmp_path / "t.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"t\.parquet is not a parquet table that can be read: [^\n]+$"):
        load_table(tmp_path / "t.parquet")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_flipped_bytes_give_a_table_or_a_reason(frame, tmp_path, ending):
    """Any other error fails. At random, and on the command line: benchmarks/attack/tables.py."""
    path = tmp_path / f"t.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    content, reasons = path.read_bytes(), 0
    for place in range(0, len(content), 1 if ending == "csv" else 11):
        for mask in (1, 0x80, 0xFF):
            path.write_bytes(content[:place] + bytes([content[place] ^ mask]) + content[place + 1 :])
            found = result_or_reason(load_table, path)
            reasons += isinstance(found, str)
            assert not isinstance(found, str) or str(path) in found
    assert reasons > 20


@pytest.mark.parametrize("before", ["", "\n\r\n", '"a\n",'], ids=["", "empty lines", "a name of two lines"])
def test_wide_csv_tables_are_refused(tmp_path, before):
    names = ",".join(f"c{k}" for k in range(70_000 - before.count(",")))
    (tmp_path / "t.csv").write_text(before + names + "\n" + "1," * 69_999 + "1\n")
    with pytest.raises(
        ValueError, match=r"70,000 columns; a \.csv table may have at most 65,536: save it as \.parquet"
    ):
        load_table(tmp_path / "t.csv")


def test_parquet_bombs_are_refused_before_they_are_read(tmp_path, monkeypatch):
    """A column of one value, and one of one long text, take few bytes for any number of rows."""
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"number": np.zeros(100_000), "text": ["a" * 100] * 100_000})
    parquet.write_table(table, tmp_path / "t.parquet")
    monkeypatch.setattr(arrays, "LARGE_CONTENT", 2**19)
    monkeypatch.setattr(parquet.ParquetFile, "read", lambda *_, **__: pytest.fail("it was read"))
    with pytest.raises(ValueError, match=r"bytes that decompress to 800,000: .* fill the memory"):
        load_table(tmp_path / "t.parquet", drop=["text"])
    with pytest.raises(ValueError, match="not numbers: text"):
        load_table(tmp_path / "t.parquet")


ROWS = np.random.RandomState(0).normal(size=40)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("label", "label"), ("Class", "label"), ("TARGET", "label"), ("y", "label"), ("true_label", "label"),
        ("id", "identifier"), ("patient_id", "identifier"), ("patientId", "identifier"), ("ID", "identifier"),
        ("Unnamed: 0", "identifier"), ("index", "identifier"),
        ("height", None), ("width", None), ("acid", None), ("yield", None), ("identity", None), ("x_y", None),
        ("", None), ("classic", None), ("y1", None),
    ],
)  # fmt: skip
def test_names(name, kind):
    assert doubtful_columns(ROWS[:, None], [name]) == ({} if kind is None else {kind: [name]})


@given(start=st.integers(-(10**6), 10**6), step=st.integers(1, 1000), seed=st.integers(0, 100))
def test_different_whole_numbers_look_like_identifiers(start, step, seed):
    values = np.random.RandomState(seed).permutation(40) * step + start
    X = np.column_stack([ROWS, values, values % 7])
    assert doubtful_columns(X, ["a", "b", "c"]).get("identifier") == ["b"]


def test_few_rows_say_nothing():
    assert doubtful_columns(np.arange(9)[:, None], ["a"]) == {}
    assert doubtful_columns(np.ones((1, 1)), ["a"]) == {}


def test_a_column_is_listed_once():
    assert doubtful_columns(np.ones((20, 2)), ["a", "id"]) == {"constant": ["a", "id"]}
    assert doubtful_columns(np.arange(20)[:, None], ["label"]) == {"label": ["label"]}


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer])
def test_measurements_are_left_alone(load):
    data = load()
    assert doubtful_columns(data.data, list(data.feature_names)) == {}


def test_many_columns_take_no_time(tmp_path):
    names = [f"c{number}" for number in range(4000)]
    pd.DataFrame(np.ones((1, 4000)), columns=names).to_parquet(tmp_path / "x.parquet")
    start = time.thread_time()
    X, found, *_ = load_table(tmp_path / "x.parquet", columns=names)
    assert X.shape == (1, 4000)
    assert found == names
    assert time.thread_time() - start < 5


_DAMAGE = """
import sys
from pathlib import Path
import numpy as np
import pyarrow
from pyarrow import parquet
from epls.datasets.tables import load_table

path = Path(sys.argv[1])
table = pyarrow.table({"a": np.arange(1000.0), "b": np.arange(1000)})
parquet.write_table(table, path, compression="zstd")
content, random = path.read_bytes(), np.random.RandomState(0)
for _ in range(1500):
    damaged = bytearray(content)
    for _ in range(random.randint(1, 4)):
        damaged[random.randint(len(damaged))] = random.randint(256)
    path.write_bytes(damaged)
    try:
        load_table(path)
    except ValueError:
        pass
"""


def test_damaged_metadata_of_parquet_files_do_not_end_the_process(tmp_path):
    run = subprocess.run([sys.executable, "-c", _DAMAGE, tmp_path / "x.parquet"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
