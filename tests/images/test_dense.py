"""Maps of codes against a plain loop over patches."""

import subprocess
import sys
import textwrap
import tracemalloc
from copy import copy

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from scipy.special import expit
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_images
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_limits

from epls import EPLS, ImageFeatures, SoftThresholdEncoder, TriangleEncoder
from epls.images.dense import DenseEncoder, code_maps, patch_layer, region_sums
from epls.images.pooling import image_regions, pool_sums
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

    for found, image in zip(code_maps(features, photographs), photographs, strict=True):
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, plain_map(features, image, code), rtol=1e-4, atol=1e-5)


def test_maps_of_whitened_patches_equal_the_plain_loop(photographs):
    features = ImageFeatures(
        KMeans(5, n_init=1), patch_size=6, encoder=TriangleEncoder(), n_patches=1000, whiten=True, random_state=0
    ).fit(photographs)

    def code(patch):
        distances = np.linalg.norm(features.estimator_.cluster_centers_ - patch, axis=1)
        return np.maximum(0, distances.mean() - distances)

    for found, image in zip(code_maps(features, photographs), photographs, strict=True):
        np.testing.assert_allclose(found, plain_map(features, image, code), rtol=1e-4, atol=1e-4)


def test_an_image_of_one_patch_has_a_map(fitted, photographs):
    """Even where a region of the grid would be empty."""
    patch = photographs[0][:6, :6]
    (found,) = code_maps(fitted, [patch])
    expected = fitted.encoder_.transform(fitted.prepare_patches(patch.reshape(1, -1)))
    np.testing.assert_allclose(found, expected[None], rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="at least 6"):
        list(code_maps(fitted, [patch[1:]]))
    with pytest.raises(NotFittedError):
        code_maps(ImageFeatures(), [patch])


def test_blocks_follow_one_another_row_by_row(fitted, photographs):
    encoder = DenseEncoder(fitted, fitted.encoder_.block_encoders(np.dtype(np.float32))())
    blocks = [(positions, codes.copy()) for positions, codes in encoder.blocks(photographs[0])]
    assert [len(codes) for _, codes in blocks] == [BLOCK_ROWS, 35 * 25 - BLOCK_ROWS]
    np.testing.assert_array_equal(np.concatenate([positions for positions, _ in blocks]), np.arange(35 * 25))
    whole = np.concatenate([codes for _, codes in blocks]).reshape(35, 25, 7)
    np.testing.assert_array_equal(next(code_maps(fitted, photographs)), whole)


def test_sums_over_regions_are_sums_of_the_map(fitted, photographs, device):
    features = copy(fitted).set_params(device=device)
    for sums, codes in zip(region_sums(features, photographs), code_maps(features, photographs), strict=True):
        halves = [part for rows in np.array_split(codes, 2) for part in np.array_split(rows, 2, axis=1)]
        np.testing.assert_allclose(sums, [part.sum(axis=(0, 1), dtype=float) for part in halves], rtol=1e-5)


def test_sums_can_begin_at_any_image_and_be_pooled_later(fitted, photographs, device):
    features = copy(fitted).set_params(device=device)
    (later,) = region_sums(features, photographs, start=1)
    np.testing.assert_array_equal(later, list(region_sums(features, photographs))[1])
    regions = image_regions(features, *photographs[1].shape[:2])
    np.testing.assert_array_equal(pool_sums(features, later, regions.counts), features.transform(photographs)[1])


def test_a_large_image_needs_no_room_for_its_map():
    """A million positions of 20 codes are 80 MB, and their indices alone 8."""
    features = ImageFeatures(EPLS(20, max_iter=1), patch_size=1, n_patches=500, random_state=0)
    features.fit(np.arange(64, dtype=np.uint8).reshape(1, 8, 8))
    image = np.zeros((1, 1000, 1000), np.uint8)
    next(region_sums(features, image[:, :9, :9]))
    with threadpool_limits(1):
        tracemalloc.start()
        next(region_sums(features, image))
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
    for encoded in (region_sums, code_maps):
        with pytest.raises(
            ValueError, match=rf"Damaged returned codes of shape {shape} for 512 samples, but must return 7"
        ):
            list(encoded(features, photographs))


@pytest.mark.parametrize("whiten", [False, True])
def test_the_layer_of_patches_contains_the_whitening(photographs, whiten):
    features = ImageFeatures(
        EPLS(5, max_iter=2), patch_size=4, encoder=SoftThresholdEncoder(alpha=0.1, split_sign=False), n_patches=500,
        whiten=whiten, random_state=0,
    ).fit(photographs)  # fmt: skip
    layer = patch_layer(features)
    pixels = photographs[0][:4, :4].reshape(1, -1)
    normalized = (pixels - pixels.mean()) / np.sqrt(pixels.var() + features.contrast_floor_)
    net = normalized @ layer.weights.T - layer.center + layer.intercept
    expected = features.encoder_.transform(features.prepare_patches(pixels))
    assert expected.max() > 0
    np.testing.assert_allclose(np.maximum(net, 0), expected, rtol=1e-4, atol=1e-5)


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
