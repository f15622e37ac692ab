"""Vectors from real files of each kind, and files that are none."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

from epls.datasets.tables import load_array, load_table


@pytest.fixture
def frame():
    return pd.DataFrame({"height": [1.5, 2.0, 2.5], "age": [30, 40, 50], "known": [True, False, True]})


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables(frame, kind, tmp_path):
    path = tmp_path / f"table.{kind}"
    getattr(frame, f"to_{kind}")(path, index=False)
    X, names = load_table(path)
    assert names == ["height", "age", "known"]
    assert X.dtype == np.float64
    assert_array_equal(X, frame.astype(float))
    X, names = load_table(path, drop=("age",))
    assert names == ["height", "known"]
    X, names = load_table(path, columns=["age", "height"])
    assert_array_equal(X, frame[["age", "height"]])


def test_what_is_missing_is_named(frame, tmp_path):
    frame.assign(weight=[1.0, np.nan, np.inf]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"missing or infinite: weight \(2\)"):
        load_table(tmp_path / "t.csv")


def test_single_precision_stays(frame, tmp_path):
    frame[["height"]].astype(np.float32).to_parquet(tmp_path / "t.parquet")
    assert load_table(tmp_path / "t.parquet")[0].dtype == np.float32


def test_text_is_named(frame, tmp_path):
    frame.assign(name=["a", "b", "c"]).to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=r"not numbers: name\. Leave them out with drop=\['name'\] .*--drop name"):
        load_table(tmp_path / "t.csv")
    assert load_table(tmp_path / "t.csv", drop=("name",))[1] == ["height", "age", "known"]
    with pytest.raises(ValueError, match="no column nme; it has height, age, known, name"):
        load_table(tmp_path / "t.csv", drop=("nme",))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"", "not a csv table"),
        ("t.csv", b"a,b\n1,2,3\n", "not a csv table"),
        ("t.csv", b"a,b\n", "nothing to use|not numbers"),
        ("t.parquet", b"PAR1 and no more", "not a parquet table"),
    ],
)
def test_damaged_tables(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_table(tmp_path / name)


def test_arrays(tmp_path):
    X = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "x.npy", X)
    found = load_array(tmp_path / "x.npy")
    assert isinstance(found, np.memmap)
    assert_array_equal(found, X)
    np.savez(tmp_path / "one.npz", whatever=X)
    assert_array_equal(load_array(tmp_path / "one.npz"), X)
    np.savez(tmp_path / "two.npz", X=X, y=np.arange(4))
    assert_array_equal(load_array(tmp_path / "two.npz"), X)
    assert_array_equal(load_array(tmp_path / "two.npz", key="y"), np.arange(4))
    np.savez(tmp_path / "unclear.npz", a=X, b=X)
    with pytest.raises(ValueError, match=r"holds the arrays a, b: say which one with key \(.*--key\)"):
        load_array(tmp_path / "unclear.npz")
    with pytest.raises(ValueError, match=r"say which one with key \(.*--key\)"):
        load_array(tmp_path / "two.npz", key="z")


def test_damaged_arrays(tmp_path):
    np.save(tmp_path / "whole.npy", np.zeros((100, 100)))
    np.savez(tmp_path / "whole.npz", X=np.zeros((100, 100)))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    for kind in ("npy", "npz"):
        content = (tmp_path / f"whole.{kind}").read_bytes()
        (tmp_path / f"cut.{kind}").write_bytes(content[: len(content) // 2])
        (tmp_path / f"text.{kind}").write_text("no array at all")
        for name in ("cut", "text"):
            with pytest.raises(ValueError, match=f"{name}.{kind} is (not an array|damaged)"):
                load_array(tmp_path / f"{name}.{kind}")
    with pytest.raises(ValueError, match="without pickle"):
        load_array(tmp_path / "objects.npy")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load_array(tmp_path / "nothing.npy")
