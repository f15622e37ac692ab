"""Codes, features and maps of images against plain loops, and the fast way of units against the exact one."""

import subprocess
import sys
import textwrap
import tracemalloc
from copy import copy

import numpy as np
import pytest
from dense_codes import code_maps
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_images
from threadpoolctl import threadpool_limits

from epls import EPLS, ImageFeatures, KMeansTriangle, Layer, NaturalEncoder, SoftThresholdEncoder, TriangleEncoder
from epls.images.coder import _FoldedEncoder, _stretch_ends, dense_encoders
from epls.images.pooling import Cells, RegionGrid, pool_sums
from epls.utils.threads import BLOCK_ROWS


@pytest.fixture(scope="module")
def photographs():
    """Real images of two sizes. The first has more positions than a block."""
    first, second = load_sample_images().images
    return [first[100:140, 200:230], second[50:62, 60:75]]


@pytest.fixture(scope="module")
def fitted(photographs):
    return ImageFeatures(EPLS(7, max_iter=5), patch_size=6, n_patches=3000, random_state=0).fit(photographs)


def plain_map(features, image, code_of_patch):
    """Every patch by itself, in float64."""
    size, stride = features.patch_size, features.stride
    windows = sliding_window_view(image.astype(np.float64), (size, size), axis=(0, 1))[::stride, ::stride]
    codes = []
    for window in windows.reshape(-1, *windows.shape[2:]):
        patch = window.transpose(1, 2, 0).reshape(-1)
        patch = (patch - patch.mean()) / np.sqrt(patch.var() + features.contrast_floor_)
        if features.whitening_ is not None:
            patch = (patch - features.whitening_.mean_) @ features.whitening_.matrix_.astype(np.float64)
        codes.append(code_of_patch(patch))
    return np.reshape(codes, (*windows.shape[:2], -1))


@pytest.mark.parametrize("stride", [1, 2, 5])
def test_maps_equal_the_plain_loop(fitted, photographs, stride):
    features = copy(fitted).set_params(stride=stride)
    model = features.estimator_

    def code(patch):
        return expit(model.components_ @ ((patch - model.mean_) / model.scale_) + model.intercept_)

    for found, image in zip(code_maps(features.coders()[0], photographs), photographs, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, plain_map(features, image, code), rtol=1e-4, atol=1e-5)


def test_maps_of_whitened_patches_equal_the_plain_loop(photographs):
    features = ImageFeatures(
        KMeans(5, n_init=1), patch_size=6, encoder=TriangleEncoder(), n_patches=1000, whiten=True, random_state=0
    ).fit(photographs)

    def code(patch):
        distances = np.linalg.norm(features.estimator_.cluster_centers_ - patch, axis=1)
        return np.maximum(0, distances.mean() - distances)

    for found, image in zip(code_maps(features.coders()[0], photographs), photographs, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, plain_map(features, image, code), rtol=1e-4, atol=1e-4)


def test_an_image_of_one_patch_has_a_map(fitted, photographs):
    """Even where a region of the grid would be empty."""
    patch = photographs[0][:6, :6]
    (found,) = code_maps(fitted.coders()[0], [patch])
    expected = fitted.encoder_.transform(fitted.prepare_patches(patch.reshape(1, -1)))
    np.testing.assert_allclose(found, expected[None], rtol=1e-5, atol=1e-6)


def test_positions_come_in_blocks_and_each_once(fitted, photographs):
    seen, sizes = [], []

    def see(first, positions, codes):
        assert first == 0
        assert codes.shape == (len(positions), 7)
        seen.extend(positions)
        sizes.append(len(positions))

    dense_encoders(fitted.coders()[0], exact=True)().encode(photographs[0], 2, False, see)
    assert sizes == [BLOCK_ROWS, 35 * 25 - BLOCK_ROWS]
    assert sorted(seen) == list(range(35 * 25))


def views(features, images, start=0):
    return list(features.views(features.fitting_images(images), start, held=False))


def test_sums_over_regions_are_sums_of_the_codes(fitted, photographs, device):
    features = copy(fitted).set_params(device=device, pooling="sum")
    for (sums,), codes in zip(views(features, photographs), code_maps(features.coders()[0], photographs), strict=True):
        halves = [part for rows in np.array_split(codes, 2) for part in np.array_split(rows, 2, axis=1)]
        expected = [part.sum(axis=(0, 1), dtype=float) for part in halves]
        np.testing.assert_allclose(sums.reshape(4, 7), expected, rtol=1e-5)


def test_sums_can_begin_at_any_image_and_be_pooled_later(fitted, photographs, device):
    features = copy(fitted).set_params(device=device, pooling="sum", mirror=True)
    (later,) = views(features, photographs, start=1)
    np.testing.assert_array_equal(later, views(features, photographs)[1])
    features.set_params(pooling="log")
    regions = RegionGrid(features.geometry.positions(*photographs[1].shape[:2]), 2)
    pooled = pool_sums(later.reshape(2, 4, 7), regions.counts, "log", features.typical_code_)
    found = features.transform(photographs)[1]
    np.testing.assert_allclose(pooled.reshape(2, -1).mean(axis=0), found, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:all 500 samples are equal")  # patches of one pixel
def test_a_large_image_needs_no_room_for_its_map():
    """A million positions of 20 codes are 80 MB, and their indices alone 8."""
    features = ImageFeatures(EPLS(20, max_iter=1), patch_size=1, n_patches=500, random_state=0)
    features.fit(np.arange(64, dtype=np.uint8).reshape(1, 8, 8))
    image = np.zeros((1, 1000, 1000), np.uint8)
    features.transform(image[:, :9, :9])
    with threadpool_limits(1):
        tracemalloc.start()
        features.transform(image)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 2e6


@pytest.mark.parametrize(
    ("part", "shape"),
    [(np.s_[:, 1:], r"\(512, 6\)"), (np.s_[1:], r"\(511, 7\)"), (np.s_[:, :, None], r"\(512, 7, 1\)")],
)
def test_codes_of_another_shape_than_promised_are_refused(fitted, photographs, part, shape):
    """As from a stranger's model file: kernels would write past the end of an array."""

    class Damaged(TriangleEncoder):
        def block_encoders(self, dtype):
            new_encoder = super().block_encoders(dtype)
            return lambda: lambda patches: new_encoder()(patches)[part]

    features = copy(fitted)
    features.encoder_ = Damaged(fitted.estimator_)
    message = rf"Damaged with the components of EPLS returned codes of shape {shape} for 512 samples, but must return 7"
    with pytest.raises(ValueError, match=message):
        features.transform(photographs)


@pytest.mark.parametrize("whiten", [False, True])
def test_the_layer_of_patches_contains_the_whitening(photographs, whiten):
    features = ImageFeatures(
        EPLS(5, max_iter=2), patch_size=4, encoder=SoftThresholdEncoder(alpha=0.1, split_sign=False), n_patches=500,
        whiten=whiten, random_state=0,
    ).fit(photographs)  # fmt: skip
    layer = features.group_coder().folded()
    pixels = photographs[0][:4, :4].reshape(1, -1)
    normalized = (pixels - pixels.mean()) / np.sqrt(pixels.var() + features.contrast_floor_)
    net = normalized @ layer.weights.T - layer.center + layer.intercept
    expected = features.encoder_.transform(features.prepare_patches(pixels))
    assert expected.max() > 0
    np.testing.assert_allclose(np.maximum(net, 0), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_a_device_without_torch_says_what_to_install():
    code = """
        import sys
        from importlib.abc import MetaPathFinder
        import numpy as np
        from epls import EPLS, ImageFeatures

        class Missing(MetaPathFinder):
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] == "torch":
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)

        sys.meta_path.insert(0, Missing())
        images = np.arange(128, dtype=np.uint8).reshape(2, 8, 8)
        features = ImageFeatures(EPLS(3, max_iter=1), patch_size=3, n_patches=50, device="cpu").fit(images)
        try:
            features.transform(images)
        except ImportError as error:
            print(error)
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert 'device=... of a model, needs torch: pip install "epls[torch]"' in run.stdout


IMAGES = np.stack(load_sample_images().images)[:, 100:140, 200:250]


def fitted_layer(images=IMAGES, estimator=None, **settings):
    estimator = EPLS(11, max_iter=2) if estimator is None else estimator
    return Layer(estimator, n_patches=1000, random_state=0, **{"patch_size": 5, **settings}).fit(images)


def is_fast(coder):
    return isinstance(dense_encoders(coder)(), _FoldedEncoder)


@pytest.mark.parametrize("images", [IMAGES, IMAGES.astype(np.float32) / 255], ids=["bytes", "fractions"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"pool": 3, "pool_stride": 2},
        {"pool": 1, "patch_size": 7, "stride": 3},
        {"pool": 2, "pool_stride": 5},
        {"pooling": "mean"},
        {"whiten": True},
        {"n_groups": 4, "group_size": 2},
        {"estimator": EPLS(11, max_iter=2, activation="relu")},
        {"encoder": "soft_threshold", "whiten": True, "pool": 3, "pool_stride": 2},
        {"encoder": SoftThresholdEncoder(split_sign=False)},
    ],
    ids=str,
)
@pytest.mark.parametrize("grid", [1, 3])
def test_fast_features_and_maps_are_those_of_the_exact_encoder(images, settings, grid):
    coder = fitted_layer(images, **settings).coder()
    assert is_fast(coder)
    fast, exact = dense_encoders(coder)(), dense_encoders(coder, exact=True)()
    for size in ((40, 50), (31, 33)):
        image = np.ascontiguousarray(images[1][: size[0], : size[1]])
        features, map_of_image = fast.encode(image, grid, with_map=True)
        expected, expected_map = exact.encode(image, grid, with_map=True)
        np.testing.assert_allclose(features, expected, atol=1e-5)
        np.testing.assert_allclose(map_of_image, expected_map, atol=3e-5)
        alone, nothing = fast.encode(image, grid, with_map=False)
        assert nothing is None
        np.testing.assert_allclose(alone, expected, atol=1e-5)


def test_a_map_with_many_channels_is_encoded_as_by_the_exact_encoder():
    below = dense_encoders(fitted_layer(estimator=EPLS(40, max_iter=2)).coder())()
    maps = [below.encode(image, 2, with_map=True)[1] for image in IMAGES]
    coder = fitted_layer(maps, n_groups=5, group_size=16, patch_size=3).coder()
    found = [dense_encoders(coder, exact=exact)().encode(maps[0], 2, with_map=True) for exact in (False, True)]
    for fast, exact in zip(*found, strict=True):
        np.testing.assert_allclose(fast, exact, atol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"pooling": "max"},
        {"estimator": KMeansTriangle(11)},
        {"encoder": NaturalEncoder(split_sign=True)},
    ],
    ids=str,
)
def test_all_else_is_encoded_in_the_usual_way(settings):
    assert not is_fast(fitted_layer(**settings).coder())


def test_weights_that_might_overflow_are_encoded_in_the_usual_way():
    layer = fitted_layer()
    assert is_fast(layer.coder())
    layer.features_[0].estimator_.components_[0, 0] = 1e30
    assert not is_fast(layer.coder())


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 9), st.integers(1, 9))
def test_positions_of_a_stretch_are_in_the_same_region_and_cells(n_columns, grid, size, step):
    cuts = [int(k * n_columns / grid + 0.5) for k in range(grid + 1)]
    cells = Cells((n_columns, n_columns), size, step, largest=False)
    ends = _stretch_ends(n_columns, {*cuts, *cells.column_cuts})

    def where(column):
        cells = {c for c in range(n_columns) if c * step <= column < c * step + size}
        return np.searchsorted(cuts, column, side="right"), cells

    for column, end in enumerate(ends):
        assert column < end <= min(n_columns, column + 16)
        assert all(where(other) == where(column) for other in range(column, end))
