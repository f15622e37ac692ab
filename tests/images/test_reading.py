"""Images in any form, read one at a time and checked."""

import io

import numpy as np
import pytest
import zarr
from PIL import Image, ImageOps
from sklearn.datasets import load_sample_images

from epls import EPLS, ImageFeatures
from epls.images.reading import ImageCollection


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
        ([np.zeros((9, 9, 3)), np.zeros((9, 9))], r"image 1 has 1 channel\(s\), but 3 are needed"),
        (
            [np.zeros((9, 9)), np.zeros((9, 9), np.uint8)],
            "image 1 has values of type uint8, but the first image float64",
        ),
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
    with pytest.raises(ValueError, match=r"3 channel\(s\), but 1 are needed"):
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


@pytest.mark.parametrize(
    ("mode", "same_as"),
    [("L", "L"), ("RGB", "RGB"), ("P", "RGB"), ("RGBA", "RGB"), ("LA", "L"), ("CMYK", "RGB"), ("1", "L")],
)
def test_images_of_pillow(mode, same_as):
    """A palette holds numbers of colors, which are no pixels."""
    photograph = Image.fromarray(load_sample_images().images[0][:20, :30])
    images = ImageCollection([photograph.convert(mode)], 5)
    expected = np.asarray(photograph.convert(mode).convert(same_as))
    np.testing.assert_array_equal(images[0], expected.reshape(20, 30, -1))


def test_palettes_with_transparency():
    picture = Image.fromarray(load_sample_images().images[0][:20, :30]).convert("P")
    picture.info["transparency"] = bytes(range(256))
    assert ImageCollection([picture], 5)[0].shape == (20, 30, 3)


def stored(pixels, orientation, ending):
    """A file whose pixels are to be turned, as a camera writes it, opened by Pillow and not yet decoded."""
    content, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = orientation
    Image.fromarray(pixels).save(content, ending, exif=exif)
    return Image.open(content)


@pytest.mark.parametrize("ending", ["png", "tiff"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_of_pillow_are_turned_upright(orientation, ending):
    pixels = load_sample_images().images[0][:20, :30]
    expected = np.asarray(ImageOps.exif_transpose(stored(pixels, orientation, "png")))
    for image in (stored(pixels, orientation, ending), ImageOps.exif_transpose(stored(pixels, orientation, ending))):
        images = ImageCollection([image], 5)
        np.testing.assert_array_equal(images[0], expected)
        assert list(images.shapes()) == [expected.shape]
    in_palette = stored(pixels, orientation, "png").convert("P")
    assert ImageCollection([in_palette], 5)[0].shape == expected.shape


def test_images_that_are_turned_have_one_size():
    """Two views of 20 x 30 pixels, one of which the camera stored lying on its side."""
    pixels = load_sample_images().images[0][:20, :30]
    lying = np.ascontiguousarray(np.rot90(pixels))
    images = ImageCollection([Image.fromarray(pixels), stored(lying, 6, "png")], 5)
    np.testing.assert_array_equal(images[1], pixels)
    assert images.smallest_size() == (20, 30)
    model = ImageFeatures(EPLS(5, max_iter=2), patch_size=5, n_patches=300, random_state=0).fit([pixels])
    np.testing.assert_array_equal(*model.transform(images))


class Column:
    """As a column of `datasets.Dataset`: images are decoded when they are asked for."""

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, number):
        assert isinstance(number, int | np.integer)  # all at once would fill the memory
        return Image.fromarray(self.images[number])


def test_columns_of_images():
    arrays = [image[:40, :50] for image in load_sample_images().images]
    features = ImageFeatures(EPLS(5, max_iter=2), patch_size=5, n_patches=300, random_state=0)
    expected = features.fit_transform(arrays)
    np.testing.assert_array_equal(features.fit_transform(Column(arrays)), expected)


def test_a_data_set_of_hugging_face():
    datasets = pytest.importorskip("datasets")
    arrays = [image[:40, :50] for image in load_sample_images().images]
    features = datasets.Features({"image": datasets.Image(), "label": datasets.Value("int64")})
    data = datasets.Dataset.from_dict({"image": list(map(Image.fromarray, arrays)), "label": [0, 1]}, features=features)
    model = ImageFeatures(EPLS(5, max_iter=2), patch_size=5, n_patches=300, random_state=0)
    expected = model.fit_transform(arrays)
    np.testing.assert_array_equal(model.fit_transform(data["image"]), expected)
    with pytest.raises(TypeError, match=r"a Dataset has the columns image, label: .* dataset\[\"image\"\]"):
        model.fit(data)


def test_one_image_with_channels_that_would_be_read_as_many_is_noticed():
    image = np.zeros((60, 80, 20), np.float32)
    with pytest.warns(UserWarning, match=r"60 gray images of 80 x 20 .* give \[image\]"):
        assert len(ImageCollection(image, 5)) == 60
    with pytest.raises(ValueError, match=r"height and width of at least 5.*give \[image\]"):
        ImageCollection(np.zeros((9, 9, 4)), 5)[0]
    for certain in ([image], image[..., None], np.zeros((500, 60, 20)), np.zeros((60, 30, 30))):  # no warning
        ImageCollection(certain, 5)
    ImageCollection(image, 5, n_channels=1)  # was told before
