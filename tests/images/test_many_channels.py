"""Images of 50 channels, through all that learns from them, computes with them or exports what was learned."""

import numpy as np
import onnxruntime
import pytest
import torch
from made_up_bands import cube
from numpy.testing import assert_allclose, assert_array_equal

from epls import EPLS, ImageFeatures, ImageFolder, load_model, save_model
from epls.images.models import open_data_for
from epls.images.patches import sample_patches
from epls.images.reading import ImageCollection
from epls.onnx import to_onnx
from epls.plotting import false_colors, filter_grid
from epls.report import model_page
from epls.torch import to_module

TYPES = (np.uint8, np.uint16, np.float32)
SIZE = 4


def cubes(dtype, n=5):
    return np.stack([cube(14, 13, 50, dtype, seed) for seed in range(n)])


def learned(images, **settings):
    return ImageFeatures(EPLS(6, max_iter=2), patch_size=SIZE, n_patches=300, random_state=0, **settings).fit(images)


@pytest.fixture(scope="module", params=TYPES, ids=lambda dtype: dtype.__name__)
def images(request):
    return cubes(request.param)


@pytest.fixture(scope="module")
def features(images):
    return learned(images)


def test_patches_have_all_channels_of_each_pixel(images):
    patches = sample_patches(images, 20, SIZE, random_state=0)
    windows = np.lib.stride_tricks.sliding_window_view(images, (SIZE, SIZE), axis=(1, 2))
    every = windows.transpose(0, 1, 2, 4, 5, 3).reshape(-1, SIZE * SIZE * 50)
    assert patches.shape == (20, SIZE * SIZE * 50)
    for patch in patches:
        assert (every == patch).all(axis=1).any()


def test_features_by_hand(features, images):
    """The codes of all patches of an image, one by one, summed."""
    rows = features.with_encoder(images, "natural", pooling="sum", grid=1).transform(images[:1])
    assert features.n_channels_ == 50
    codes = [
        features.estimator_.transform(features.prepare_patches(images[0, i : i + SIZE, j : j + SIZE].reshape(1, -1)))[0]
        for i in range(14 - SIZE + 1)
        for j in range(13 - SIZE + 1)
    ]
    assert_allclose(rows[0], np.sum(codes, axis=0), rtol=1e-3)


@pytest.mark.parametrize("sampling", ["patches", "images"])
@pytest.mark.parametrize("whiten", [False, True])
def test_ways_to_learn(sampling, whiten):
    images = cubes(np.uint16)
    features = learned(images, sampling=sampling, whiten=whiten)
    assert np.isfinite(features.transform(images)).all()


def test_a_model_file_keeps_them(features, images, tmp_path):
    save_model(features, tmp_path / "m.epls")
    assert_array_equal(load_model(tmp_path / "m.epls").transform(images), features.transform(images))


def test_torch(features, images):
    module = to_module(features)
    rows = module(torch.tensor(images.astype(np.float32)).permute(0, 3, 1, 2)).detach().numpy()
    assert_allclose(rows, features.transform(images), rtol=1e-3, atol=1e-3)


def test_onnx(features, images, tmp_path):
    to_onnx(features, tmp_path / "m.onnx", image_shape=(14, 13))
    pixels = np.ascontiguousarray(images.transpose(0, 3, 1, 2), np.float32)
    (rows,) = onnxruntime.InferenceSession(tmp_path / "m.onnx").run(["output"], {"input": pixels})
    assert_allclose(rows, features.transform(images), rtol=1e-3, atol=1e-3)


def test_other_channels_are_refused(features, images, tmp_path):
    with pytest.raises(ValueError, match=r"49 channel.*, but 50 are needed: give images with the same channels"):
        features.transform(images[..., :49])
    collection = ImageCollection([images[0], images[0, :, :, :3]], SIZE)
    with pytest.raises(ValueError, match=r"image 1 has 3 channel.*, but 50 are needed"):
        collection[1]
    np.save(tmp_path / "good.npy", images[0])
    assert isinstance(open_data_for(features, {}, tmp_path), ImageFolder)
    np.save(tmp_path / "fewer.npy", images[0, :, :, :49])
    with pytest.raises(ValueError, match=r"fewer\.npy: 49-channel.*, but 50-channel is needed"):
        open_data_for(features, {}, tmp_path)
    assert open_data_for(features, {}, tmp_path, skip_bad=True).names == ["good.npy"]


def test_pictures(features, images):
    components = features.estimator_.components_
    picture = filter_grid(components, (SIZE, SIZE, 50), n_filters=None)
    # A grid of filters in colors that are averages of thirds of the channels.
    assert_array_equal(
        picture, filter_grid(false_colors(components.reshape(-1, SIZE, SIZE, 50)).reshape(6, -1), (SIZE, SIZE, 3))
    )
    html = model_page(features, images)
    assert "blue is the mean of 0 to 16, green of 16 to 33, red of 33 to 49" in html
    assert "filters and images are shown in false colors" not in model_page(learned(images[..., :3]), images[..., :3])


@pytest.mark.parametrize("n_channels", [2, 4, 5, 50])
def test_false_colors_show_every_channel(n_channels):
    for channel in range(n_channels):
        pixel = np.zeros((1, n_channels), np.uint16)
        pixel[0, channel] = 600
        colors = false_colors(pixel)
        assert colors.shape == (1, 3)
        assert colors.max() > 0
        strongest = {0: 2, n_channels - 1: 0}.get(channel)  # short waves are blue, long ones red
        assert strongest is None or colors[0].argmax() == strongest
    for own in (1, 3):
        pixels = np.arange(12, dtype=np.uint8).reshape(-1, own)
        assert false_colors(pixels) is pixels
