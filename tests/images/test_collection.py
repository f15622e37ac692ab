"""Images in any form, read one at a time and checked."""

import numpy as np
import pytest
import zarr
from PIL import Image

from epls.images.collection import ImageCollection


@pytest.mark.parametrize(
    ("images", "message"),
    [
        (np.zeros((4, 64)), r"got shape \(4, 64\): reshape rows of pixels to images"),
        (np.zeros((96, 96, 3)), r"image 0 has shape \(96, 3\); needed is .* at least 6"),
        ([np.zeros((5, 9))], r"image 0 has shape \(5, 9\).* at least 6"),
        ([np.zeros(9)], r"image 0 has shape \(9,\)"),
        ([np.zeros((9, 9, 0))], r"image 0 has shape \(9, 9, 0\)"),
        ([], "no images were given"),
        (7, "must be an array, a sequence of arrays, or the path of a folder, got int"),
        ([np.full((9, 9), np.nan)], "image 0 has pixels that are NaN or infinite"),
        ([np.zeros((9, 9), "S1")], "pixels must be numbers"),
        ([np.zeros((9, 9, 3)), np.zeros((9, 9))], r"image 1 has 1 channel\(s\) where 3 are needed"),
        ([np.zeros((9, 9)), np.zeros((9, 9), np.uint8)], "image 1 has values of type uint8, the first image float64"),
    ],
)
def test_bad_images_are_named(images, message):
    with pytest.raises((ValueError, TypeError), match=message):
        list(ImageCollection(images, 6))


@pytest.mark.parametrize(
    ("given", "expected"),
    [(np.uint8, np.uint8), (np.float32, np.float32), (np.float64, np.float32), (np.int64, np.float32)],
)
def test_images_are_contiguous_and_of_two_types(given, expected):
    pixels = np.arange(2 * 4 * 6).reshape(2, 4, 6).astype(given)
    images = ImageCollection(pixels.transpose(0, 2, 1), 3)
    assert (len(images), images.n_channels, images.whole_numbers) == (2, 1, np.issubdtype(given, np.integer))
    assert images[1].flags.c_contiguous
    assert images[1].dtype == expected
    np.testing.assert_array_equal(images[1][:, :, 0], pixels[1].T)


def test_what_was_asked_for_is_demanded():
    images = ImageCollection(np.zeros((1, 5, 5, 3), np.uint8), 5, n_channels=3, whole_numbers=False)
    with pytest.raises(ValueError, match="image 0 has values of type uint8, but features were learned from fractions"):
        images[0]
    with pytest.raises(ValueError, match=r"3 channel\(s\) where 1 are needed"):
        ImageCollection(np.zeros((1, 5, 5, 3), np.uint8), 5, n_channels=1)[0]


def test_a_chunk_is_read_once_for_neighbors(tmp_path):
    pixels = np.random.RandomState(0).randint(256, size=(7, 4, 4)).astype(np.uint8)
    stored = zarr.create_array(str(tmp_path / "i.zarr"), shape=pixels.shape, chunks=(3, 4, 4), dtype=pixels.dtype)
    stored[:] = pixels
    images = ImageCollection(stored, 4)
    np.testing.assert_array_equal(np.stack(list(images))[:, :, :, 0], pixels)
    np.testing.assert_array_equal(images[2][:, :, 0], pixels[2])
    stored[:] = 0  # what was kept of the first chunk is not read again
    np.testing.assert_array_equal(images[1][:, :, 0], pixels[1])
    np.testing.assert_array_equal(images[5][:, :, 0], 0)


def test_images_of_a_folder_are_called_by_their_files(tmp_path):
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(tmp_path / "first.png")
    Image.fromarray(np.zeros((8, 3, 3), np.uint8)).save(tmp_path / "narrow.png")
    assert ImageCollection(tmp_path, 2).name(1) == "narrow.png"
    assert ImageCollection([np.zeros((8, 8))], 2).name(0) == "image 0"
