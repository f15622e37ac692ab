"""Features and the names of their rows come back as they were written, from one file."""

import csv
import os

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from epls.datasets.arrays import load_array
from epls.datasets.tables import load_table
from epls.datasets.writing import check_ending, csv_name, features_file

# All that Linux allows in the name of a file, read with os.fsdecode: bytes that are no UTF-8 become lone surrogates.
NAMES = st.lists(
    st.text(st.characters(exclude_characters="\0", exclude_categories=("Cs",)) | st.characters(
        min_codepoint=0xDC80, max_codepoint=0xDCFF, categories=("Cs",)
    ), min_size=1).filter(lambda name: os.fsdecode(name.encode("utf-8", "surrogateescape")) == name), min_size=1,
)  # fmt: skip


@given(names=NAMES, n_features=st.integers(1, 5), n_parts=st.integers(1, 4))
def test_any_name_survives(tmp_path_factory, names, n_features, n_parts):
    path = tmp_path_factory.mktemp("features") / "f.npz"
    features = np.random.RandomState(0).normal(size=(len(names), n_features)).astype(np.float32)
    with features_file(path, features.shape, names) as write:
        for part in np.array_split(features, n_parts):
            write(part)
    with np.load(path, allow_pickle=False) as found:
        assert found["names"].tolist() == names
        np.testing.assert_array_equal(found["features"], features, strict=True)
    np.testing.assert_array_equal(load_array(path), features)


@given(names=NAMES.filter(lambda names: not any(name.startswith("./") for name in names)), n_parts=st.integers(1, 4))
def test_any_name_survives_in_csv(tmp_path_factory, names, n_parts):
    """Read by another library than it was written with."""
    path = tmp_path_factory.mktemp("features") / "f.csv"
    features = np.random.RandomState(0).normal(size=(len(names), 2)).astype(np.float32)
    with features_file(path, features.shape, names, ["a", "=b"]) as write:
        for part in np.array_split(features, n_parts):
            write(part)
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        header, *lines = csv.reader(file)
    assert header == ["file", "a", "'=b"]
    assert [line[0].removeprefix("./") for line in lines] == names
    np.testing.assert_array_equal(np.array([line[1:] for line in lines], np.float32), features)
    assert not any(line[0][0] in "=+-@\t\r\n" for line in lines)


@pytest.mark.parametrize("name", ["=cmd|' /C calc'!A0.png", "+1.png", "-1.png", "@SUM(1).png", "\t=1.png"])
def test_names_are_no_formulas(name):
    cell = csv_name(name)
    assert cell == f'"./{name}"'
    assert os.path.normpath(cell[1:-1]) == name


def test_cells_stay_whole_where_semicolons_separate(tmp_path):
    with features_file(tmp_path / "f.csv", (1, 1), ["a;=1+2.png"]) as write:
        write(np.ones((1, 1)))
    with (tmp_path / "f.csv").open(newline="") as file:
        assert list(csv.reader(file, delimiter=";"))[1] == ["a;=1+2.png,1.0"]


@given(names=NAMES, n_parts=st.integers(1, 4))
@settings(deadline=None)
def test_any_name_survives_in_parquet(tmp_path_factory, names, n_parts):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path_factory.mktemp("features") / "f.parquet"
    features = np.random.RandomState(0).normal(size=(len(names), 2)).astype(np.float32)
    with features_file(path, features.shape, names) as write:
        for part in np.array_split(features, n_parts):
            write(part)
    table = parquet.read_table(path)
    assert table.column_names == ["file", "feature0", "feature1"]
    assert [os.fsdecode(name) for name in table["file"].to_pylist()] == names
    assert str(table["feature0"].type) == "float"
    np.testing.assert_array_equal(np.column_stack(table.columns[1:]), features)


def test_parquet_is_written_in_groups(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("epls.datasets.writing._GROUP_VALUES", 10)
    with features_file(tmp_path / "f.parquet", (10, 2), [f"{k}.png" for k in range(10)]) as write:
        for k in range(5):
            write(np.full((2, 2), k))
    with parquet.ParquetFile(tmp_path / "f.parquet") as file:
        assert file.metadata.num_row_groups == 2
        table = file.read()
    assert table["file"].to_pylist() == [f"{k}.png" for k in range(10)]
    assert table["feature1"].to_pylist() == [k // 2 for k in range(10)]


def test_tables_are_read_by_pandas_and_by_the_library(tmp_path):
    features = np.random.RandomState(0).normal(size=(3, 4)).astype(np.float32)
    for ending in ("csv", "parquet"):
        with features_file(tmp_path / f"f.{ending}", (3, 4), ["b.png", "a, b.png", "ä.png"]) as write:
            write(features)
        frame = getattr(pd, f"read_{ending}")(tmp_path / f"f.{ending}")
        assert frame["file"].tolist() == ["b.png", "a, b.png", "ä.png"]
        table = load_table(tmp_path / f"f.{ending}")
        assert table.names == ["b.png", "a, b.png", "ä.png"]
        np.testing.assert_array_equal(table.X.astype(np.float32), features)


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_tables_without_names(tmp_path, ending):
    with features_file(tmp_path / f"f{ending}", (3, 2)) as write:
        write(sparse.csr_matrix(np.eye(3, 2)))
    X, names, *_ = load_table(tmp_path / f"f{ending}")
    assert names == ["feature0", "feature1"]
    np.testing.assert_array_equal(X, np.eye(3, 2))


@pytest.mark.parametrize("ending", [".npy", ".npz", ".NPY"])
def test_rows_without_names(tmp_path, ending):
    features = np.eye(3, 4, dtype=np.float64)
    with features_file(tmp_path / f"f{ending}", (3, 4)) as write:
        write(features[:2])
        write(sparse.csr_matrix(features[2:]))
    np.testing.assert_array_equal(load_array(tmp_path / f"f{ending}"), features.astype(np.float32), strict=True)
    if ending == ".npz":
        assert np.load(tmp_path / "f.npz").files == ["features"]


@pytest.mark.parametrize("ending", [".npy", ".npz", ".csv", ".parquet"])
@pytest.mark.parametrize("n_rows", [2, 4])
def test_too_few_or_too_many_rows_leave_nothing(tmp_path, ending, n_rows):
    with (
        pytest.raises(ValueError, match=f"3 rows .* expected, but {n_rows} were"),
        features_file(tmp_path / f"f{ending}", (3, 1)) as w,
    ):
        w(np.zeros((n_rows, 1)))
    assert list(tmp_path.iterdir()) == []


def test_names_have_no_place_in_npy(tmp_path):
    with pytest.raises(ValueError, match=r"choose a name that ends in \.npz"):
        check_ending(tmp_path / "f.npy", has_names=True)
    with pytest.raises(ValueError, match=r"as \.npy, \.npz, \.csv, \.parquet: choose a name"):
        check_ending(tmp_path / "f.txt", has_names=False)


def test_the_same_features_are_the_same_file(tmp_path):
    for name in ("a.npz", "b.npz"):
        with features_file(tmp_path / name, (2, 2), ["x", "y"]) as write:
            write(np.ones((2, 2)))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_as_many_names_as_rows(tmp_path):
    with (
        pytest.raises(ValueError, match="2 names were given for 3 rows"),
        features_file(tmp_path / "f.csv", (3, 1), ["a", "b"]),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
