"""What a user names is opened as vectors or images, or refused with a reason."""

import json
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import zarr
from made_up_bands import cube
from numpy.testing import assert_array_equal
from PIL import Image

from epls import ImageFolder
from epls.datasets.arrays import ChunkedImages
from epls.datasets.opening import ParameterError, Vectors, is_part_of, matched_rows, open_data, rows_have_names

X = np.random.RandomState(0).normal(size=(30, 3)).astype(np.float32)


@pytest.fixture
def images(tmp_path):
    """A folder of three images, one of which is too small for most purposes."""
    folder = tmp_path / "images"
    folder.mkdir()
    for number, side in enumerate((8, 9, 2)):
        Image.fromarray(np.full((side, side), 50 * number, np.uint8)).save(folder / f"{number}.png")
    return folder


def zarr_array(path, content):
    zarr.create_array(str(path), shape=content.shape, chunks=(4, *content.shape[1:]), dtype=content.dtype)[:] = content
    return path


def test_vectors_of_every_kind(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.savez(tmp_path / "x.npz", X=X, other=np.zeros(3))
    (tmp_path / "x.CSV").write_text("a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in X.tolist()))
    (tmp_path / "parts").mkdir()
    np.save(tmp_path / "parts" / "0.npy", X[:20])
    np.save(tmp_path / "parts" / "1.npy", X[20:])
    zarr_array(tmp_path / "x.zarr", X)
    for name in ("x.npy", "x.npz", "x.CSV", "parts", "x.zarr"):
        opened = open_data(tmp_path / name)
        assert isinstance(opened, Vectors), name
        assert len(opened) == 30
        assert sorted(opened.in_memory()[:, 0]) == sorted(X[:, 0]), name
        assert len(opened.some(7)) == 7
        assert {tuple(row) for row in opened.some(7).tolist()} <= {tuple(row) for row in X.tolist()}
        assert len(opened.some(100)) == 30
    assert open_data(tmp_path / "x.CSV").columns == ["a", "b", "c"]
    assert open_data(tmp_path / "x.CSV", drop=["a"]).columns == ["b", "c"]
    assert open_data(tmp_path / "x.CSV", columns=["c", "a"]).columns == ["c", "a"]
    assert open_data(tmp_path / "x.npy").columns is None


NAMES = [f"{k:03}.png" for k in range(30)]


def write_rows(path, order, names=NAMES, key="file"):
    """Write rows of X in another order, with their names."""
    if path.suffix == ".npz":
        np.savez(path, embeddings=X[order], names=np.array(names)[order])
    else:
        frame = pd.DataFrame(X[order], columns=["a", "b", "c"])
        frame.insert(0, key, np.array(names)[order])
        getattr(frame, f"to_{path.suffix[1:]}")(path, index=False)
    return path


@pytest.mark.parametrize("ending", [".npz", ".csv", ".parquet"])
class TestRowsByName:
    def test_names_in_any_order(self, tmp_path, ending):
        order = np.random.RandomState(1).permutation(30)
        path = write_rows(tmp_path / f"f{ending}", order)
        opened = open_data(path)
        assert opened.names == [NAMES[k] for k in order]
        assert opened.part(slice(3, 5)).names == opened.names[3:5]
        rows, remarks = matched_rows(path, NAMES, 30, "here", n_columns=None)
        np.testing.assert_allclose(rows, X, rtol=1e-6)
        assert remarks == []
        rows, remarks = matched_rows(path, NAMES[20:], 10, "here", n_columns=3)
        np.testing.assert_allclose(rows, X[20:], rtol=1e-6)
        assert len(remarks) == 1
        assert "20 rows of" in remarks[0]
        assert repr(opened.names[0]) in remarks[0] or opened.names[0] in NAMES[20:]

    def test_missing_names_are_listed(self, tmp_path, ending):
        path = write_rows(tmp_path / f"f{ending}", np.arange(27))
        with pytest.raises(ValueError, match=r"lacks 3 of the 30 samples of here: '027.png', '028.png', '029.png'; it"):
            matched_rows(path, NAMES, 30, "here", n_columns=None)

    def test_names_that_are_numbers_keep_their_zeros(self, tmp_path, ending):
        path = write_rows(tmp_path / f"f{ending}", np.arange(30)[::-1], [f"{k:03}" for k in range(30)], "id")
        rows, _ = matched_rows(path, [f"{k:03}" for k in range(30)], 30, "here", n_columns=None)
        np.testing.assert_allclose(rows, X, rtol=1e-6)

    def test_whole_numbers_name_samples_without_names(self, tmp_path, ending):
        path = write_rows(tmp_path / f"f{ending}", np.arange(30)[::-1], range(30), "id")
        np.testing.assert_allclose(matched_rows(path, None, 30, "here", n_columns=None)[0], X, rtol=1e-6)

    @pytest.mark.parametrize(
        ("name", "message"), [("001.png", "names several rows '001.png'"), ("", "lacks the names of 1 of")]
    )
    def test_names_that_are_none(self, tmp_path, ending, name, message):
        path = write_rows(tmp_path / f"f{ending}", np.arange(30), [name, *NAMES[1:]])
        with pytest.raises(ValueError, match=message):
            open_data(path)

    def test_rows_without_names_need_the_number_of_samples(self, tmp_path, ending):
        if ending == ".npz":
            np.savez(tmp_path / "f.npz", X)
        else:
            getattr(pd.DataFrame(X).add_prefix("x"), f"to_{ending[1:]}")(tmp_path / f"f{ending}", index=False)
        np.testing.assert_allclose(
            matched_rows(tmp_path / f"f{ending}", NAMES, 30, "here", n_columns=3)[0], X, rtol=1e-6
        )
        with pytest.raises(ValueError, match="has 30 rows without names, but here has 29 samples"):
            matched_rows(tmp_path / f"f{ending}", NAMES[1:], 29, "here", n_columns=None)
        with pytest.raises(ValueError, match=r"shape \(30, 3\), but \(30, 2\) is needed"):
            matched_rows(tmp_path / f"f{ending}", NAMES, 30, "here", n_columns=2)


def test_columns_that_are_no_features(tmp_path):
    frame = pd.DataFrame(
        {"name": ["b", "a"], "color": ["red", "blue"], "label": [1, 2], "y": [3.0, 4.0], "x": [5.0, 6.0]}
    )
    frame["height"] = 7.0
    frame.to_csv(tmp_path / "t.csv", index=False)
    rows, remarks = matched_rows(tmp_path / "t.csv", ["a", "b"], 2, "here", n_columns=None)
    assert_array_equal(rows, [[6, 7], [5, 7]])
    assert remarks == [f"columns of {tmp_path / 't.csv'} that are no features are left out: color, label, y"]
    assert_array_equal(matched_rows(tmp_path / "t.csv", ["a", "b"], 2, "here", n_columns=2)[0], [[6, 4], [5, 3]])


def test_the_index_of_pandas_names_rows(tmp_path):
    frame = pd.DataFrame(X, columns=["a", "b", "c"], index=NAMES)
    frame.to_csv(tmp_path / "t.csv")
    frame.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        opened = open_data(tmp_path / name)
        assert (opened.names, opened.columns, opened.key) == (NAMES, ["a", "b", "c"], "file")


@pytest.mark.parametrize("names", [NAMES[1:], np.ones(30), np.array([NAMES])])
def test_arrays_that_are_no_names(tmp_path, names):
    np.savez(tmp_path / "f.npz", features=X, names=names)
    with pytest.raises(
        ValueError, match=r"has 30 rows, but its array names has shape .*: give a text or a whole number"
    ):
        open_data(tmp_path / "f.npz")


def test_images_of_every_kind(images, tmp_path):
    folder = open_data(images)
    assert isinstance(folder, ImageFolder)
    assert folder.shapes == [(8, 8), (9, 9), (2, 2)]
    array = np.arange(6 * 4 * 5, dtype=np.uint8).reshape(6, 4, 5)
    np.save(tmp_path / "i.npy", array)
    assert_array_equal(open_data(tmp_path / "i.npy"), array)
    chunked = open_data(zarr_array(tmp_path / "i.zarr", array))
    assert isinstance(chunked, ChunkedImages)
    assert chunked.shape == (6, 4, 5)
    for number in (0, 5, 3):
        assert_array_equal(chunked[number], array[number])
    with pytest.raises(IndexError, match="there is no image 6 of 6"):
        chunked[6]


def test_what_is_skipped_is_on_the_folder_and_not_printed(images, capsys):
    with pytest.raises(ValueError, match=r"2\.png: 2 x 2 pixels"):
        open_data(images, smallest_side=5)
    folder = open_data(images, smallest_side=5, skip_bad=True, channels="color")
    assert [(path.name, reason) for path, reason in folder.skipped] == [
        ("2.png", "2 x 2 pixels, but at least 5 x 5 are needed")
    ]
    assert folder[0].shape == (8, 8, 3)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("images", {"drop": ["a"]}, "drop is for .csv and .parquet files"),
        ("images", {"key": "a"}, "key is for .npz files"),
        ("x.npy", {"key": "a"}, "key is for .npz files"),
        ("x.npy", {"channels": "gray"}, "channels is for folders of images"),
        ("x.npy", {"skip_bad": True}, "skip_bad is for folders of images"),
        ("x.npy", {"longest_side": 9}, "longest_side is for folders of images"),
    ],
)
def test_parameters_without_meaning_are_refused(images, name, given, message):
    np.save(images.parent / "x.npy", X)
    with pytest.raises(ParameterError) as caught:
        open_data(images.parent / name, **given)
    assert str(caught.value) == f"{message}, and {images.parent / name} is not one: leave it out"
    assert caught.value.parameter == next(iter(given))


def test_misspelled_options_are_refused_for_all_data(images, tmp_path):
    np.save(tmp_path / "x.npy", np.ones((3, 2)))
    for path in (images, tmp_path / "x.npy"):
        with pytest.raises(TypeError, match="chanels"):
            open_data(path, chanels=None)


@pytest.mark.parametrize(
    ("shape", "chunks", "message"),
    [
        ([10**13, 2], [1, 2], "bytes that decompress to"),
        ([4, 10**12], [4, 10**12], "bytes that decompress to"),
        ([10**12, 8, 8], [1, 8, 8], "bytes that decompress to"),
        ([10, 5], [10**12, 5], "bytes that decompress to"),
        ([10, 5], [0, 5], "not a zarr array that can be read"),
    ],
)
def test_zarr_arrays_of_a_stranger_do_not_fill_the_memory(tmp_path, shape, chunks, message):
    stated = {
        "zarr_format": 3, "node_type": "array", "shape": shape, "data_type": "float32", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunks}},
        "chunk_key_encoding": {"name": "default"}, "attributes": {},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}],
    }  # fmt: skip
    (tmp_path / "zarr.json").write_text(json.dumps(stated))
    with pytest.raises(ValueError, match=message):
        open_data(tmp_path)


class _Marks:
    """Unpickled, it makes a file."""

    def __init__(self, path):
        self._path = path

    def __reduce__(self):
        return Path.touch, (self._path,)


@pytest.mark.parametrize("place", ["filters", "compressor"])
def test_zarr_chunks_are_never_unpickled(tmp_path, place):
    """zarr 3.0 would do it, for numbers, too."""
    codec = {"id": "pickle", "protocol": 5}
    stated = {
        "zarr_format": 2, "shape": [20, 4], "chunks": [20, 4], "dtype": "<f8", "fill_value": 0, "order": "C",
        "filters": None, "compressor": None, place: [codec] if place == "filters" else codec,
    }  # fmt: skip
    folder = tmp_path / "x.zarr"
    folder.mkdir()
    (folder / ".zarray").write_text(json.dumps(stated))
    (folder / "0.0").write_bytes(pickle.dumps(_Marks(tmp_path / "marked")))
    with pytest.raises(ValueError, match="not a zarr array that can be read"):
        open_data(folder)
    assert not (tmp_path / "marked").exists()


def test_small_integers_that_become_many_numbers_are_refused(tmp_path):
    """A file of 150 kB, and a gigabyte and more as float64."""
    np.savez_compressed(tmp_path / "x.npz", features=np.zeros((1000, 150_000), np.uint8))
    with pytest.raises(ValueError, match="fill the memory"):
        open_data(tmp_path / "x.npz")


class TestFoldersOfArrays:
    @pytest.fixture(params=["shards", "zarr"])
    def folder(self, request, tmp_path):
        """A folder, and a place for one more file in it."""
        X = np.arange(40.0).reshape(10, 4)
        if request.param == "zarr":
            return zarr_array(tmp_path / "x.zarr", X), tmp_path / "x.zarr" / "c" / "0" / "0"
        (tmp_path / "shards").mkdir()
        np.save(tmp_path / "shards" / "a.npy", X)
        return tmp_path / "shards", tmp_path / "shards" / "b.npy"

    def test_links_out_of_the_folder(self, folder, tmp_path):
        folder, place = folder
        file = next(path for path in folder.rglob("*") if path == place or path.suffix == ".npy")
        file.rename(tmp_path / "private")
        place.symlink_to(tmp_path / "private")
        with pytest.raises(ValueError, match=r"is a link out of the folder: .* --follow-links"):
            open_data(folder)
        assert open_data(folder, follow_links=True).X.shape == (10, 4)
        place.unlink()
        (tmp_path / "private").rename(folder / ".kept")
        place.symlink_to(os.path.relpath(folder / ".kept", place.parent))
        assert open_data(folder).X.shape == (10, 4)

    def test_pipes_are_refused(self, folder):
        folder, place = folder
        place.unlink(missing_ok=True)
        os.mkfifo(place)
        with pytest.raises(ValueError, match="not a regular file"):
            open_data(folder)


def test_what_is_no_data_is_refused(images, tmp_path):
    with pytest.raises(ValueError, match="put a single image in a folder"):
        open_data(images / "0.png")
    with pytest.raises(FileNotFoundError, match="nowhere"):
        open_data(tmp_path / "nowhere")
    np.save(tmp_path / "line.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"has an array of shape \(3,\)"):
        open_data(tmp_path / "line.npy")
    np.save(tmp_path / "text.npy", np.array(["a", "b"]))
    with pytest.raises(ValueError, match="must be real numbers"):
        open_data(tmp_path / "text.npy")
    with pytest.raises(ValueError, match='channels=\'grey\': give "gray", "color", "all", "auto" or None'):
        open_data(images, channels="grey")


def test_values_that_are_not_finite_are_found_in_large_arrays_too(tmp_path, monkeypatch):
    monkeypatch.setattr("epls.datasets.arrays._BLOCK_VALUES", 12)  # four rows
    bad = X.copy()
    bad[[9, 20], [2, 0]] = np.nan, np.inf
    np.save(tmp_path / "x.npy", bad)
    with pytest.raises(ValueError, match=r"x\.npy has values that are NaN or infinite, the first in row 9, column 2"):
        open_data(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", X[:, :0])
    with pytest.raises(ValueError, match=r"x\.npy has 30 rows and 0 columns: give at least one of each"):
        open_data(tmp_path / "x.npy")


def test_folders_of_npy_files_are_images_by_their_dimensions(tmp_path):
    for name, shapes in {
        "vectors": [(5, 4), (6, 4)],
        "cubes": [(5, 4, 50), (6, 7, 50)],
        "arrays": [(2, 5, 4, 50)],
    }.items():
        (tmp_path / name).mkdir()
        for number, shape in enumerate(shapes):
            np.save(tmp_path / name / f"{number}.npy", np.ones(shape, np.float32))
    assert isinstance(open_data(tmp_path / "vectors"), Vectors)
    cubes = open_data(tmp_path / "cubes", longest_side=6, skip_bad=True)
    assert isinstance(cubes, ImageFolder)
    assert cubes.shapes == [(5, 4, 50), (5, 6, 50)]
    assert rows_have_names(tmp_path / "cubes")
    assert not rows_have_names(tmp_path / "vectors")
    assert is_part_of(tmp_path / "cubes" / "new.npy", tmp_path / "cubes")
    with pytest.raises(ValueError, match=r"0\.npy: an array of shape \(2, 5, 4, 50\); .* one image"):
        open_data(tmp_path / "arrays")
    (tmp_path / "vectors" / "0.npy").write_bytes(b"damaged")
    with pytest.raises(ValueError, match=r"0\.npy is not a \.npy file"):
        open_data(tmp_path / "vectors")
    np.save(tmp_path / "cubes" / "1.npy", np.ones((6, 7)))
    with pytest.raises(ValueError, match=r"1\.npy: an array of shape \(6, 7\)"):
        open_data(tmp_path / "cubes")


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_arrays_of_50_channels(tmp_path, dtype):
    images = np.stack([cube(6, 7, 50, dtype, seed) for seed in range(3)])
    np.save(tmp_path / "i.npy", images)
    np.savez_compressed(tmp_path / "i.npz", images=images, labels=np.arange(3))
    for name in ("i.npy", "i.npz"):
        opened = open_data(tmp_path / name)
        assert_array_equal(opened, images)
        assert opened.dtype == dtype
