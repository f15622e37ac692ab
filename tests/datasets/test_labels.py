"""Tables of labels: what is written is read again, and what is wrong is said."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from epls.datasets.labels import Label, labels_of, labels_table, read_labels

# File names as Python has them: anything but NUL and "/", and bytes that are not valid UTF-8 as surrogates.
_CHARACTERS = st.one_of(
    st.characters(exclude_characters="\0", exclude_categories=("Cs",)),
    st.sampled_from("\udc80\udcff\",\n\r;=<>&'"),
)
NAMES = st.text(_CHARACTERS, min_size=1)
LABELS = st.builds(
    Label,
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=200)
    .map(str.strip)
    .filter(bool),
    st.integers(0, 10_000).map(lambda part: part / 10_000),
    st.booleans(),
)


@given(labels=st.dictionaries(NAMES, LABELS, max_size=8))
def test_what_is_written_is_read(tmp_path_factory, labels):
    path = tmp_path_factory.mktemp("labels") / "labels.csv"
    path.write_bytes(labels_table(list(labels), list(labels.values())))
    assert read_labels(path) == labels


def test_a_table_by_hand(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_bytes(
        b'\xef\xbb\xbfFile, Label,note\r\n"a,b.jpg",cat,x\r\nc.jpg, dog ,\r\n\r\nd.jpg,,\r\n\xff.jpg,cat,\r\n'
    )
    assert read_labels(path) == {"a,b.jpg": Label("cat"), "c.jpg": Label("dog"), "\udcff.jpg": Label("cat")}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"name,label\na,b\n", "has no column row"),
        (b"file,class\na,b\n", "has no column label"),
        (b"file,label\na.jpg\n", "row 2 of .* has 1 values"),
        (b"file,label\na,x\na,y\n", "two labels for 'a'"),
        (b"file,label,confidence\na,x,2\n", "confidence '2'"),
        (b"file,label,confidence\na,x,nan\n", "confidence 'nan'"),
        (b"file,label,source\na,x,guess\n", "source 'guess'"),
        (b'file,label\n"a,x\n', "not a .csv table"),
        (b"file,label\na," + 300 * b"x" + b"\n", "300 characters"),
    ],
)
def test_what_is_refused(tmp_path, content, message):
    path = tmp_path / "labels.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_labels(path)


def test_labels_by_sample():
    labels = {"a": Label("x"), "c": Label("y", 0.5, False)}
    assert labels_of(labels, ["a", "b", "c"], "here") == [Label("x"), None, labels["c"]]
    with pytest.raises(ValueError, match=r"1 of 2 labelled samples are not in here: 'c'\. Its samples .* 'a', 'b'"):
        labels_of(labels, ["a", "b"], "here")
