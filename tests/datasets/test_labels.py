"""Tables of labels: what is written is read again, and what is wrong is said."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv as pa_csv
from pyarrow import parquet
from refusals import result_or_reason

from epls.datasets import arrays
from epls.datasets.labels import Label, labels_beside, labels_table, read_labels

# File names as Python has them: anything but NUL and "/", and bytes that are not valid UTF-8 as surrogates.
_CHARACTERS = st.one_of(
    st.characters(exclude_characters="\0", exclude_categories=("Cs",)),
    st.sampled_from("\udc80\udcff\",\n\r;=<>&'"),
)
NAMES = st.text(_CHARACTERS, min_size=1).map(lambda name: name.removeprefix("./")).filter(bool)
LABELS = st.builds(
    Label,
    st.text(st.characters(exclude_categories=("Cs", "Cc")) | st.sampled_from("=+-@'"), min_size=1, max_size=200)
    .map(str.strip)
    .filter(bool),
    st.integers(0, 10_000).map(lambda part: part / 10_000),
    st.booleans(),
)


@given(labels=st.dictionaries(NAMES, LABELS, max_size=8))
def test_what_is_written_is_read(tmp_path_factory, labels):
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    path.write_bytes(labels_table(list(labels), list(labels.values())))
    assert read_labels(path, list(labels), len(labels), "here") == list(labels.values())


@pytest.mark.parametrize("label", ["=1+1", "+cmd", "@x", "-a", "'=x", "''-5", "\uff1d1"])
def test_no_cell_is_a_formula(tmp_path, label):
    path = tmp_path / "labels.csv"
    path.write_bytes(labels_table(["=top.png", "plain.png"], [Label(label), Label("-1")]))
    cells = [row.split(",")[:2] for row in path.read_text().splitlines()[1:]]
    assert cells == [['"./=top.png"', f'"\'{label}"'], ['"plain.png"', '"-1"']]
    assert read_labels(path, ["plain.png", "=top.png"], 2, "here") == [Label("-1"), Label(label)]


@pytest.mark.parametrize(
    "content",
    [
        "sep=,\nrow,label\n0,a\n1,b\n",
        "row,label\n0 ,a\n1.0,b\n  ,  \n \n",
        "row,label,source\n0,a,\n1,b,given\n",
    ],
)
def test_what_a_spreadsheet_makes_of_it(tmp_path, content):
    path = tmp_path / "labels.csv"
    path.write_text(content)
    assert read_labels(path, None, 3, "here") == [Label("a"), Label("b"), None]


def test_a_table_by_hand(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(
        b'\xef\xbb\xbfFile, Label,note\r\n"a,b.jpg",cat,x\r\nc.jpg, dog ,\r\n\r\nd.jpg,,\r\n\xff.jpg,cat,\r\n'
    )
    names = ["a,b.jpg", "c.jpg", "d.jpg", "\udcff.jpg"]
    assert read_labels(path, names, 4, "here") == [Label("cat"), Label("dog"), None, Label("cat")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"title,label\na,b\nc,d\n", "has 2 labels in the order of the samples, but here has 1: give one for each"),
        (b"file,kind,name\na,b,c\n", "which column of .* has the labels. It has kind, name. Name one, or call it"),
        (b"file\na\n", "which column of .* has the labels"),
        (b"file,label\na.jpg\n", "line 2 of .* has 1 value, but the first line names 2 columns"),
        (b"\nfile,label\na,b\n", "the first line of .* is empty: it must name"),
        (b"file,label,label\na,x,y\n", "2 columns named label"),
        (b"file,label\na,Caf\xe9\n", "not valid UTF-8: save the table as UTF-8"),
        (b"file,label\na,x\0\n", "control characters"),
        (b"file,label\na,x\na,y\n", "two labels for 'a'"),
        (b"file,label,confidence\na,x,2\n", "confidence '2'"),
        (b"file,label,confidence\na,x,nan\n", "confidence 'nan'"),
        (b"file,label,source\na,x,guess\n", "source 'guess'"),
        (b'file,label\n"a,x\n', "not a .csv table"),
        (b"file,label\na," + 300 * b"x" + b"\n", "300 characters"),
        (
            b"file;label\na;x\n",
            r"which column of .* It has file;label\. .* label \(are its values separated by semicol",
        ),
        ("file,label\na,x\n".encode("utf-16"), "is UTF-16 text: save it as UTF-8"),
    ],
)
def test_what_is_refused(tmp_path, content, message):
    path = tmp_path / "labels.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_labels(path, ["a"], 1, "here")


@given(st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: f"file,label\n{text}".encode())))
def test_any_content_gives_labels_or_a_reason(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "any.csv"
    path.write_bytes(content)
    found = result_or_reason(read_labels, path, ["a"], 1, "here")
    assert (
        str(path) in found or "labelled samples are not in here" in found if isinstance(found, str) else len(found) == 1
    )


SAMPLES = [Label("x"), None, Label("y")]


@pytest.mark.parametrize(
    "columns",
    [
        {"file": ["c", "a"], "label": ["y", "x"]},
        {"Class": ["y", "x"], "row": [2, 0]},
        {"row": [2.0, 0.0], "file": ["other", "names"], "label": ["y", "x"]},
        {"label": ["x", "", "y"]},
        {"species": ["x", " ", "y"]},
        {"x": [1.5, 2, 3], "target": ["x", " ", "y"]},
    ],
)
def test_all_forms_of_a_file(tmp_path, columns):
    table = pa.table(columns)
    parquet.write_table(table, tmp_path / "t.parquet")
    pa_csv.write_csv(table, tmp_path / "t.csv")
    names = ["a", "b", "c"] if "row" not in columns else None
    for path in (tmp_path / "t.parquet", tmp_path / "t.csv"):
        assert read_labels(path, names, 3, "here") == SAMPLES


def test_an_array_is_in_the_order_of_the_samples(tmp_path):
    for values in (["x", " ", "y"], np.array([b"x", b"", b"y"])):
        np.save(tmp_path / "y.npy", values)
        assert read_labels(tmp_path / "y.npy", ["a", "b", "c"], 3, "here") == SAMPLES
    np.save(tmp_path / "y.npy", [1, np.nan])
    assert read_labels(tmp_path / "y.npy", None, 2, "here") == [Label("1.0"), None]
    np.save(tmp_path / "y.npy", np.eye(2))
    with pytest.raises(ValueError, match=r"labels of shape \(2, 2\): give one label for each"):
        read_labels(tmp_path / "y.npy", None, 2, "here")


def test_names_that_do_not_fit(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("file,label\na,x\nc,y\n")
    with pytest.raises(ValueError, match=r"1 of 2 labelled samples are not in here: 'c'\. Its samples .* 'a', 'b'"):
        read_labels(path, ["a", "b"], 2, "here")
    with pytest.raises(ValueError, match="labels of files, by its column file, but here has samples without names"):
        read_labels(path, None, 2, "here")


class TestLabelsBesideSamples:
    @pytest.mark.parametrize(
        ("column", "expected"),
        [
            (["b", "a ", "b"], ["b", "a", "b"]),
            ([3, 1, 3], ["3", "1", "3"]),
            ([True, False, True], ["true", "false", "true"]),
            ([1.5, 2.0, 1.5], ["1.5", "2", "1.5"]),
            (pa.array(["b", "a", "b"]).dictionary_encode(), ["b", "a", "b"]),
            (pa.array(["b", None, " "]).dictionary_encode(), ["b", None, None]),
        ],
    )
    def test_columns_of_all_kinds(self, tmp_path, column, expected):
        table = pa.table({"x": [1, 2, 3], "class": column})
        parquet.write_table(table, tmp_path / "t.parquet", row_group_size=2)
        expected = [label and Label(label) for label in expected]
        assert labels_beside(tmp_path / "t.parquet", None) == (expected, "class")
        if not pa.types.is_dictionary(table["class"].type):
            pa_csv.write_csv(table, tmp_path / "t.csv")
            assert labels_beside(tmp_path / "t.csv", "class") == (expected, "class")

    def test_columns_that_are_no_labels(self, tmp_path):
        parquet.write_table(pa.table({"class": pa.array([[1], [2]])}), tmp_path / "t.parquet")
        with pytest.raises(ValueError, match=r"class of .* has values of type list.*: they must be numbers or texts"):
            labels_beside(tmp_path / "t.parquet", None)

    def test_which_column(self, tmp_path):
        (tmp_path / "t.csv").write_text("label;x\n1;2\n")
        with pytest.raises(ValueError, match=r"no column y; it has label;x \(are its values separated by semicolons"):
            labels_beside(tmp_path / "t.csv", "y")
        (tmp_path / "t.csv").write_text("label,class\n1,2\n")
        with pytest.raises(ValueError, match=r"which column of .* has the labels"):
            labels_beside(tmp_path / "t.csv", None)

    def test_a_text_that_many_rows_share_is_kept_once(self, tmp_path):
        """Gigabytes of text in a file of a few bytes may be the same text millions of times."""
        labels = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), pa.array([" " + "a" * 200]))
        parquet.write_table(pa.table({"label": labels}), tmp_path / "t.parquet")
        found, _ = labels_beside(tmp_path / "t.parquet", None)
        assert len(found) == 100_000
        assert len({id(label.label) for label in found}) == 1

    def test_compressed_text_is_refused_before_it_is_read(self, tmp_path, monkeypatch):
        table = pa.table({"label": ["a" * 1000 + str(k) for k in range(2000)]})
        parquet.write_table(table, tmp_path / "t.parquet", use_dictionary=False, compression="zstd")
        monkeypatch.setattr(arrays, "LARGE_CONTENT", 2**19)
        with pytest.raises(ValueError, match="fill the memory"):
            labels_beside(tmp_path / "t.parquet", None)

    def test_a_label_that_no_page_can_hold_is_refused(self, tmp_path):
        parquet.write_table(pa.table({"x": [1.0, 2.0], "label": ["a", "b\x1b[31m"]}), tmp_path / "t.parquet")
        with pytest.raises(ValueError, match="control characters: remove them"):
            labels_beside(tmp_path / "t.parquet", None)


class TestFilesThatFillMemory:
    """Few bytes that are many or long texts. Each would take minutes, or tens of gigabytes."""

    @pytest.mark.parametrize("column", ["file", "label", "confidence"])
    def test_a_long_text_many_times(self, tmp_path, column):
        long = pa.DictionaryArray.from_arrays(pa.array(np.zeros(100_000, np.int32)), ["./" + "0" * 10_000_000])
        columns = {"row": np.arange(100_000), "label": ["a"] * 100_000} | {column: long}
        parquet.write_table(pa.table(columns), tmp_path / "t.parquet", compression="zstd")
        with pytest.raises(ValueError, match="a text of 10,000,002 characters; a name or label may have 4,096"):
            read_labels(tmp_path / "t.parquet", ["a"] * 100_000, 100_000, "x")

    def test_more_rows_than_samples(self, tmp_path):
        ones = pa.DictionaryArray.from_arrays(pa.array(np.zeros(20_000_000, np.int8)), ["a"])
        parquet.write_table(pa.table({"label": ones}), tmp_path / "t.parquet")
        np.save(tmp_path / "t.npy", np.zeros(20_000_000, np.int8))
        (tmp_path / "t.csv").write_bytes(b"row,label\n" + b"\n" * 20_000_000)
        for ending in ("parquet", "npy", "csv"):
            with pytest.raises(ValueError, match="rows or more for 40 samples: give one for each"):
                read_labels(tmp_path / f"t.{ending}", None, 40, "x")

    def test_a_line_without_end(self, tmp_path):
        (tmp_path / "t.csv").write_bytes(b"row,label" + b"," * 2**21)
        with pytest.raises(ValueError, match="a line of 1,048,576 characters or more"):
            read_labels(tmp_path / "t.csv", None, 40, "x")

    def test_arrays_of_odd_types(self, tmp_path):
        np.save(tmp_path / "t.npy", np.full(40, b"a", "S5000"))
        with pytest.raises(ValueError, match="a text of 5,000 characters"):
            read_labels(tmp_path / "t.npy", None, 40, "x")
        np.save(tmp_path / "t.npy", np.zeros(40, [("a", "i4")]))
        with pytest.raises(ValueError, match="they must be numbers or texts"):
            read_labels(tmp_path / "t.npy", None, 40, "x")
        np.save(tmp_path / "t.npy", np.full(40, 2**31, np.uint32).view("U1"))
        with pytest.raises(ValueError, match="characters that do not exist"):
            read_labels(tmp_path / "t.npy", None, 40, "x")
        np.save(tmp_path / "t.npy", np.array(["é".encode()] * 40))
        assert {label.label for label in read_labels(tmp_path / "t.npy", None, 40, "x")} == {"é"}
