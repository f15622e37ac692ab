import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import inv, sqrtm
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls import ZCAWhitening
from epls.images.patches import (
    Preparation,
    contrast_floor_of,
    normalize_patches,
    sample_patches,
    sample_placed_patches,
)


@given(st.integers(1, 5), st.sampled_from([None, 1, 3]), st.integers(0, 50))
def test_every_patch_is_a_window_of_an_image(patch_size, channels, seed):
    random = np.random.RandomState(seed)
    tail = () if channels is None else (channels,)
    images = [random.randint(256, size=(*size, *tail)).astype(np.uint8) for size in ((5, 9), (7, 5))]
    patches = sample_patches(images, 6, patch_size, random_state=seed)
    assert patches.dtype == np.uint8
    windows = {
        image[a : a + patch_size, b : b + patch_size].tobytes()
        for image in images
        for a in range(image.shape[0] - patch_size + 1)
        for b in range(image.shape[1] - patch_size + 1)
    }
    assert {patch.tobytes() for patch in patches} <= windows


def test_all_places_of_all_images_are_drawn():
    images = np.arange(2 * 3 * 3).reshape(2, 3, 3)
    corners = sample_patches(images, 500, 2, random_state=0)[:, 0]
    assert set(corners) == {0, 1, 3, 4, 9, 10, 12, 13}


def test_images_that_a_patch_does_not_fit_in_are_named():
    with pytest.raises(ValueError, match=r"image 0 has shape \(3, 9\).*at least 4"):
        sample_patches([np.zeros((3, 9))], 50, 4, random_state=0)


def test_no_patches_is_an_error():
    with pytest.raises(ValueError, match="n_patches=0"):
        sample_patches([np.zeros((9, 9))], 0, 4)


def test_normalised_patches_have_no_mean_and_unit_contrast():
    patches = np.random.RandomState(0).randint(256, size=(50, 12)).astype(np.uint8)
    normal = normalize_patches(patches)
    assert normal.dtype == np.float32
    centred = patches - patches.mean(axis=1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 10)
    np.testing.assert_allclose(normal, expected, atol=1e-5)


def test_flat_patches_become_zero():
    assert (normalize_patches(np.full((2, 5), 77, np.uint8)) == 0).all()
    assert normalize_patches(np.ones((2, 5))).dtype == np.float64


def test_places_say_where_patches_are():
    images = np.random.RandomState(0).randint(256, size=(3, 9, 8, 2)).astype(np.uint8)
    patches, places = sample_placed_patches(images, 40, 4, random_state=1)
    for patch, (number, top, left) in zip(patches, places, strict=True):
        np.testing.assert_array_equal(patch, images[number, top : top + 4, left : left + 4].reshape(-1))


def test_the_contrast_floor_is_in_proportion_to_the_squared_range():
    assert contrast_floor_of(np.zeros((2, 3), np.uint8)) == pytest.approx(10)
    assert contrast_floor_of(np.array([[0.0, 1.0]])) == pytest.approx(10 / 255**2)
    assert contrast_floor_of(np.full((2, 3), 0.5)) == 1  # of no range, any will do


def test_prepared_patches_are_normalised_and_whitened():
    pixels = np.random.RandomState(0).randint(256, size=(60, 8)).astype(np.uint8)
    normal = normalize_patches(pixels, contrast_floor=5)
    whitening = ZCAWhitening().fit(normal)
    np.testing.assert_array_equal(Preparation(5).prepare(pixels), normal)
    np.testing.assert_array_equal(Preparation.of(5, whitening).prepare(pixels), whitening.transform(normal))


def test_patches_that_cannot_be_squared_are_refused():
    with pytest.raises(ValueError, match=r"values of up to 1e\+30, whose squares and sums overflow in float32"):
        normalize_patches(np.array([[1e30, -1e30]], np.float32))
    np.testing.assert_allclose(normalize_patches(np.array([[1e30, -1e30]])), [[1, -1]])


@parametrize_with_checks([ZCAWhitening()])
def test_scikit_learn_checks_of_whitening(estimator, check):
    check(estimator)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(1e-3, 10))
def test_whitening_equals_the_inverse_root_of_the_covariance(seed, n_features, regularization):
    random = np.random.RandomState(seed)
    X = random.standard_normal((50, n_features)) @ random.standard_normal((n_features, n_features)) + 3
    whitening = ZCAWhitening(regularization).fit(X)
    covariance = np.atleast_2d(np.cov(X.T)) + regularization * np.eye(n_features)
    expected = (X - X.mean(axis=0)) @ np.atleast_2d(inv(sqrtm(covariance)).real)
    np.testing.assert_allclose(whitening.transform(X), expected, atol=1e-7)


def test_constant_columns_are_whitened_to_zero():
    X = np.c_[np.random.RandomState(0).standard_normal(100), np.full(100, 7.0)]
    np.testing.assert_allclose(ZCAWhitening().fit_transform(X)[:, 1], 0, atol=1e-12)


def test_whitening_keeps_single_precision():
    X = np.random.RandomState(0).standard_normal((20_000, 5)).astype(np.float32)
    white = ZCAWhitening().fit_transform(X)
    assert white.dtype == np.float32
    np.testing.assert_allclose(white, ZCAWhitening().fit_transform(X.astype(np.float64)), atol=1e-5)


def test_one_sample_has_no_covariance():
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        ZCAWhitening().fit([[1.0, 2.0]])
