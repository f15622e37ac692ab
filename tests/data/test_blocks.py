"""Data in parts: files, zarr and dask arrays give what the array gives."""

import dask
import dask.array as da
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from epls import EPLS, OMP, DeepFeatures, ImageFeatures, Layer, open_shards
from epls.data.blocks import Blocks, array_blocks, as_blocks, checked_blocks, joined


@pytest.fixture(name="X")
def samples():
    return np.random.RandomState(0).normal(size=(300, 6)).astype(np.float32)


@pytest.fixture
def shards(X, tmp_path):
    """Four files of different lengths."""
    folder = tmp_path / "shards"
    folder.mkdir()
    for number, part in enumerate(np.split(X, [50, 130, 131])):
        np.save(folder / f"{number}.npy", part)
    return folder


def whole(blocks):
    return np.concatenate(list(checked_blocks(blocks)))


def forms_of(X, folder):
    """The same data in every form that is read in parts."""
    np.save(folder / "x.npy", X)
    yield open_shards(folder / "x.npy")
    store = str(folder / "x.zarr")
    stored = zarr.create_array(store, shape=X.shape, chunks=(70, X.shape[1]), dtype=X.dtype, overwrite=True)
    stored[:] = X
    yield stored
    yield da.from_array(X, chunks=(90, 4))
    yield joined([array_blocks(X[:100]), array_blocks(X[100:])])


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.data())
def test_any_range_of_rows(sizes, data):
    X = np.arange(2 * sum(sizes)).reshape(-1, 2)
    blocks = joined([array_blocks(part) for part in np.split(X, np.cumsum(sizes)[:-1])])
    start = data.draw(st.integers(0, len(X) - 1))
    stop = data.draw(st.integers(start + 1, len(X)))
    rows = blocks.part(start, stop)
    assert rows.shape == (stop - start, 2)
    assert sum(rows.sizes) == stop - start
    assert (rows.sizes > 0).all()
    assert_array_equal(whole(rows), X[start:stop])


@pytest.mark.parametrize("cut", [np.s_[:-3], np.s_[:, :-1]])
def test_functions_must_return_the_rows_of_a_block(X, cut):
    blocks = Blocks(lambda start, stop: X[start:stop][cut], X.shape, X.dtype, [100, 200])
    for use in (EPLS(5, max_iter=1).fit, EPLS(5, max_iter=1).fit(X).transform):
        with pytest.raises(ValueError, match=r"rows from 0 to 100 have shape .*: they must have shape \(100, 6\)"):
            use(blocks)


def test_shards_by_folder_pattern_and_names(X, shards):
    names = [str(shards / f"{number}.npy") for number in range(4)]
    for paths in (shards, f"{shards}/*.npy", names):
        blocks = open_shards(paths)
        assert blocks.shape == X.shape
        assert_array_equal(whole(blocks), X)


def test_shards_of_different_types_meet_in_one_that_holds_both(tmp_path):
    np.save(tmp_path / "0.npy", np.full((3, 2), 200, np.uint8))
    np.save(tmp_path / "1.npy", np.full((3, 2), 0.5, np.float32))
    blocks = open_shards(tmp_path)
    assert blocks.dtype == np.float32
    assert whole(blocks)[:, 0].tolist() == [200, 200, 200, 0.5, 0.5, 0.5]


def test_bad_shards_are_named(X, shards, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"9\.npy"):
        open_shards([shards / "0.npy", shards / "9.npy"])
    with pytest.raises(FileNotFoundError, match="no shards"):
        open_shards(tmp_path / "*.npz")
    with pytest.raises(FileNotFoundError, match="no shards"):
        open_shards([])
    np.save(shards / "4.npy", X[:, :5])
    with pytest.raises(ValueError, match=r"4\.npy has 5 features, but .*0\.npy has 6"):
        open_shards(shards)
    np.save(shards / "4.npy", X[0])
    with pytest.raises(ValueError, match=r"4\.npy has shape \(6,\)"):
        open_shards(shards)
    np.save(shards / "4.npy", np.asfortranarray(X))
    with pytest.raises(ValueError, match=r"4\.npy holds float32 in columns"):
        open_shards(shards)
    np.save(shards / "4.npy", X.astype(complex))
    with pytest.raises(ValueError, match=r"4\.npy holds complex128"):
        open_shards(shards)
    content = (shards / "0.npy").read_bytes()
    for length in (0, 5, 90, len(content) - 1):
        (shards / "4.npy").write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"4\.npy is (truncated|not a \.npy file)"):
            open_shards(shards)


def test_every_form_is_learned_from_alike(X, tmp_path):
    """The order of samples differs, what is learned does not by much."""
    reference = EPLS(5, max_iter=30, random_state=0).fit(X)
    for data in forms_of(X, tmp_path):
        model = EPLS(5, max_iter=30, random_state=0).fit(data)
        assert model.n_features_in_ == 6
        assert_allclose(model.mean_, reference.mean_, atol=1e-6)
        assert abs(model.loss_curve_[-1] - reference.loss_curve_[-1]) < 0.05
        assert all(report.win_spread <= 1 for report in model.epoch_reports_)


def test_every_form_is_encoded_alike(X, tmp_path):
    for model in (EPLS(5, random_state=0, max_iter=3).fit(X), OMP(5, random_state=0).fit(X)):
        expected = model.transform(X)
        for data in forms_of(X, tmp_path):
            codes = model.transform(data)
            assert codes.dtype == expected.dtype
            assert_allclose(np.asarray(codes), expected, rtol=1e-5, atol=1e-6)
    model = EPLS(5, random_state=0, max_iter=3).fit(X)
    for data in (X, *forms_of(X, tmp_path)):
        assert_allclose(np.concatenate(list(model.iter_transform(data))), model.transform(X), rtol=1e-5, atol=1e-6)


def test_a_dask_array_is_encoded_when_it_is_needed(X):
    read = []

    def block(number):
        read.append(number)
        return X[100 * number : 100 * (number + 1)]

    blocks = [da.from_delayed(dask.delayed(block)(number), (100, 6), np.float32) for number in range(3)]
    model = EPLS(5, random_state=0, max_iter=3).fit(X)
    codes = model.transform(da.concatenate(blocks))
    assert read == []
    assert codes.shape == (300, 5)
    assert_array_equal(codes[250].compute(scheduler="synchronous"), model.transform(X[200:])[50])
    assert read == [2]


def test_images_in_dask_and_zarr_arrays(tmp_path):
    images = np.random.RandomState(0).randint(256, size=(12, 16, 16, 3)).astype(np.uint8)
    stored = zarr.create_array(str(tmp_path / "i.zarr"), shape=images.shape, chunks=(5, 16, 16, 3), dtype=images.dtype)
    stored[:] = images
    features = ImageFeatures(EPLS(4, max_iter=2), patch_size=5, n_patches=200, random_state=0).fit(stored)
    same = ImageFeatures(EPLS(4, max_iter=2), patch_size=5, n_patches=200, random_state=0).fit(images)
    assert_array_equal(features.estimator_.components_, same.estimator_.components_)
    expected = same.transform(images)
    assert_array_equal(features.transform(stored), expected)
    assert_array_equal(
        ImageFeatures(features.estimator, patch_size=5, n_patches=200, random_state=0)
        .fit(da.from_array(images, chunks=(5, 8, 16, 3)))
        .estimator_.components_,
        same.estimator_.components_,
    )
    lazy = features.transform(da.from_array(images, chunks=(5, 8, 16, 3)))
    assert isinstance(lazy, da.Array)
    assert_array_equal(lazy.compute(), expected)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_deep_features_of_dask_and_zarr_arrays(device, tmp_path):
    if device is not None:
        pytest.importorskip("torch")
    images = np.random.RandomState(0).randint(256, size=(12, 16, 18, 3)).astype(np.uint8)
    stored = zarr.create_array(str(tmp_path / "i.zarr"), shape=images.shape, chunks=(5, 16, 18, 3), dtype=images.dtype)
    stored[:] = images
    layers = [
        Layer(EPLS(8, max_iter=2), patch_size=4, pool=3, pool_stride=2, n_patches=200),
        Layer(EPLS(4, max_iter=2), patch_size=2, n_groups=2, group_size=3, n_patches=200),
    ]
    features = DeepFeatures(layers, mirror=True, random_state=0, device=device).fit(images)
    expected = features.transform(images)
    read = []

    def block(number):
        read.append(number)
        return images[4 * number : 4 * (number + 1)]

    blocks = [da.from_delayed(dask.delayed(block)(k), (4, *images.shape[1:]), images.dtype) for k in range(3)]
    lazy = features.transform(da.concatenate(blocks))
    assert isinstance(lazy, da.Array)
    assert read == []
    assert (lazy.shape, lazy.dtype) == (expected.shape, expected.dtype)
    assert_allclose(lazy[4:8].compute(scheduler="synchronous"), expected[4:8], atol=1e-6)
    assert read == [1]
    assert_allclose(lazy.compute(), expected, atol=1e-6)
    assert_allclose(features.transform(da.from_array(images, chunks=(5, 8, 9, 3))).compute(), expected, atol=1e-6)
    assert_allclose(features.transform(stored), expected, atol=1e-6)
    again = DeepFeatures(layers, random_state=0).fit(da.from_array(images, chunks=(5, 8, 18, 3)))
    for found, known in zip(again.layers_[1].features_, features.layers_[1].features_, strict=True):
        assert_array_equal(found.estimator_.components_, known.estimator_.components_)


def test_parts_that_cannot_be_used(X):
    model = EPLS(5, random_state=0, max_iter=2).fit(X)
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        EPLS(5).fit(da.from_array(X)[da.from_array(X)[:, 0] > 0])
    with pytest.raises(ValueError, match="compute_chunk_sizes"):
        model.transform(da.from_array(X)[da.from_array(X)[:, 0] > 0])
    with pytest.raises(ValueError, match="6 features"):
        model.transform(da.from_array(X[:, :5])).compute(scheduler="synchronous")
    with pytest.raises(ValueError, match=r"shape \(300,\)"):
        EPLS(5).fit(da.from_array(X[:, 0]))
    with pytest.raises(ValueError, match="must be numbers"):
        EPLS(5).fit(da.from_array(np.array([["a"], ["b"]])))
    with pytest.raises(ValueError, match="1 sample"):
        EPLS(5).fit(da.from_array(X[:1]))
    with pytest.raises(ValueError, match="n_components=400 is more than"):
        EPLS(400).fit(da.from_array(X))
    bad = X.copy()
    bad[210, 3] = np.inf
    with pytest.raises(ValueError, match="row 210"):
        EPLS(5).fit(da.from_array(bad, chunks=(100, 6)))


def test_an_earlier_fit_stays_if_blocks_fail(X):
    model = EPLS(5, random_state=0, max_iter=2).fit(X)
    with pytest.raises(ValueError, match="n_components=5 is more"):
        model.fit(da.from_array(X[:4, :3]))
    assert model.n_features_in_ == 6
    assert model.transform(X).shape == (300, 5)


def test_file_blocks_know_when_a_map_is_large(X, tmp_path):
    np.save(tmp_path / "x.npy", X)
    assert as_blocks(np.load(tmp_path / "x.npy", mmap_mode="r")) is None
    assert isinstance(as_blocks(open_shards(tmp_path / "x.npy")), Blocks)


@pytest.mark.parametrize("dtype", ["float16", "int64", "bool", "uint8", ">f4"])
def test_other_types_are_converted_as_they_are_read(X, tmp_path, dtype):
    other = (10 * X).astype(dtype)
    model = EPLS(5, max_iter=2, random_state=0).fit(X)
    expected = model.transform(other)
    for data in forms_of(other, tmp_path) if dtype != ">f4" else [open_shards(saved(other, tmp_path))]:
        codes = model.transform(data)
        assert codes.dtype == expected.dtype
        codes = np.asarray(codes)
        assert codes.dtype == expected.dtype
        assert_allclose(codes, expected, rtol=1e-5, atol=1e-6)
    codes = OMP(5, random_state=0).fit(X).transform(da.from_array(other))
    assert codes.compute().dtype == codes.dtype


def saved(X, folder):
    np.save(folder / "other.npy", X)
    return folder / "other.npy"


def test_each_block_is_read_once(X):
    tall = np.repeat(X, 50, axis=0)  # one block of more rows than are encoded at a time
    model = EPLS(5, max_iter=2, random_state=0).fit(X)
    for n_blocks, data in ((1, tall), (300, X)):
        read = []

        def rows(start, stop, data=data, read=read):
            read.append(start)
            return data[start:stop]

        blocks = Blocks(rows, data.shape, data.dtype, [len(data) // n_blocks] * n_blocks)
        parts = list(model.iter_transform(blocks))
        assert len(read) == n_blocks
        assert max(map(len, parts)) <= 4096
        assert_allclose(np.concatenate(parts), model.transform(data), rtol=1e-5, atol=1e-6)


def test_data_in_parts_are_refused_where_all_are_needed(shards):
    blocks = open_shards(shards)
    model = EPLS(5, max_iter=2, random_state=0).fit(blocks)
    for call in (model.winners, model.partial_fit):
        with pytest.raises(TypeError, match=r"needs its samples in memory, but got Blocks"):
            call(blocks)


def test_codes_as_a_table_do_not_disturb_parts(X):
    model = EPLS(5, max_iter=2, random_state=0).fit(X)
    expected = model.transform(X)
    model.set_output(transform="pandas")
    parts = np.concatenate(list(model.iter_transform(joined([array_blocks(X[:100]), array_blocks(X[100:])]))))
    assert_array_equal(parts, expected)
