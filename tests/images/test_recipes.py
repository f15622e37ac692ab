"""Features that nobody chooses."""

import numpy as np
import pytest

from epls import DeepFeatures, ImageFeatures
from epls.images.reading import ImageCollection, of_one_size, resized
from epls.images.recipes import learned_features, quick_features


@pytest.mark.parametrize(
    ("n_images", "side", "kind"),
    [(200, 96, DeepFeatures), (60_000, 28, ImageFeatures), (20_000, 96, ImageFeatures), (1797, 8, ImageFeatures)],
)
def test_many_and_tiny_images_have_one_layer(n_images, side, kind):
    assert isinstance(quick_features(n_images, side, side), kind)


@pytest.mark.filterwarnings("ignore:all 120 samples are equal|all 30 samples are equal")  # patches of one pixel
@pytest.mark.parametrize("side", [1, 2, 3, 5, 8])
def test_tiny_images_have_features(side, monkeypatch):
    monkeypatch.setattr("epls.algorithm.settings.usual_epochs.__defaults__", (4, 4, 0))
    images = np.random.RandomState(0).randint(256, size=(30, side, side), dtype=np.uint8)
    features, model = learned_features(images)
    assert features.shape == (30, len(model.get_feature_names_out()))
    assert np.isfinite(features).all()


def test_images_of_one_size_are_taken_as_they_are():
    images = np.zeros((4, 20, 30, 3), np.uint8)
    assert of_one_size(ImageCollection(images, 1)) is images


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.uint16])
@pytest.mark.parametrize("n_channels", [1, 3, 5])
def test_images_of_several_sizes_are_brought_to_one(dtype, n_channels):
    images = [np.full((20 + 9 * k, 300, n_channels), 10 + k, dtype) for k in range(3)]
    told = []
    small = of_one_size(ImageCollection(images, 1), lambda *progress: told.append(progress))
    assert small.shape == (3, 38, 96, n_channels)
    assert [np.unique(image).tolist() for image in small] == [[10], [11], [12]]
    assert told[-1] == ("shrink", 3, 3)


def test_pixels_are_means_of_what_they_cover():
    image = np.arange(16, dtype=np.float32).reshape(4, 4, 1)
    np.testing.assert_allclose(resized(image, 2, 2)[..., 0], [[2.5, 4.5], [10.5, 12.5]])


def test_small_images_are_not_enlarged():
    images = [np.zeros((20, 10), np.uint8), np.zeros((12, 31), np.uint8)]
    assert of_one_size(ImageCollection(images, 1)).shape == (2, 20, 31, 1)


def test_thin_images_stay_thin_and_get_few_units(monkeypatch):
    """As squares of 96 pixels they would get two layers of 3,328 units, which take half a minute to learn."""
    monkeypatch.setattr("epls.algorithm.settings.usual_epochs.__defaults__", (4, 4, 0))
    images = np.random.RandomState(0).randint(256, size=(6, 1, 300, 3), dtype=np.uint8)
    features, model = learned_features(images)
    assert of_one_size(ImageCollection(images, 1)).shape == (6, 1, 96, 3)
    assert isinstance(model, ImageFeatures)
    assert features.shape == (6, 28)


def test_layers_can_be_chosen():
    assert isinstance(quick_features(60_000, 32, 32, layers=2), DeepFeatures)
    assert isinstance(quick_features(10, 96, 96, layers=1), ImageFeatures)
    with pytest.raises(ValueError, match="n_layers=2 is too many for images of 8 x 8"):
        quick_features(10, 8, 8, layers=2)


@pytest.mark.slow
def test_two_layers_are_learned_from_a_few_images(monkeypatch):
    monkeypatch.setattr("epls.algorithm.settings.usual_epochs.__defaults__", (4, 4, 0))
    monkeypatch.setattr("epls.images.recipes._PATCHES_OF_A_GROUP", 300)
    images = np.random.RandomState(0).randint(256, size=(4, 48, 48), dtype=np.uint8)
    features, model = learned_features(images)
    assert isinstance(model, DeepFeatures)
    assert features.shape == (4, len(model.get_feature_names_out()))
