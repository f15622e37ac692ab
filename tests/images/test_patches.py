import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from epls.images.patches import normalize_patches, sample_patches


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


@pytest.mark.parametrize(
    ("images", "message"),
    [
        ([], "no images"),
        ([np.zeros((3, 9))], r"image 0 has shape \(3, 9\).*at least 4"),
        ([np.zeros(9)], "image 0 has shape"),
        ([np.zeros((9, 9)), np.zeros((9, 9, 3))], "image 1 has 3 channel"),
        ([np.zeros((9, 9)), np.zeros((9, 9), np.uint8)], "type"),
    ],
)
def test_bad_images_are_named(images, message):
    with pytest.raises(ValueError, match=message):
        sample_patches(images, 50, 4, random_state=0)


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
