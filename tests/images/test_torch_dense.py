"""Features of images in torch, against NumPy and, for their slopes, finite differences."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_sample_images

from epls import EPLS, ImageFeatures, NaturalEncoder, SoftThresholdEncoder, TriangleEncoder
from epls.images import torch_codes
from epls.torch import DenseFeatures, to_module

ENCODERS = {
    "natural": NaturalEncoder,
    "soft_threshold": SoftThresholdEncoder,
    "triangle": TriangleEncoder,
}
LIMITS = {"size": (2, 5), "stride": (1, 4), "grid": (1, 3)}


@pytest.fixture(scope="module")
def photograph():
    return load_sample_images().images[0]


def both(features, images):
    """Features by NumPy and by torch."""
    return features.set_params(device=None).transform(images), features.set_params(device="cpu").transform(images)


@settings(max_examples=40)
@given(data=st.data())
def test_equal_to_numpy_whatever_the_settings(data):
    draw = data.draw
    size, stride, grid = (draw(st.integers(*limits), name) for name, limits in LIMITS.items())
    least = size + (grid - 1) * stride
    n_channels = draw(st.sampled_from([1, 2, 3]), "channels")
    shapes = draw(st.lists(st.tuples(*[st.integers(least, least + 9)] * 2), min_size=1, max_size=3), "shapes")
    random = np.random.RandomState(draw(st.integers(0, 99), "seed"))
    level, contrast = draw(st.sampled_from([(0, 256), (250, 6), (254, 1)]), "brightness")
    images = [(level + contrast * random.uniform(size=(*shape, n_channels))).astype(np.uint8) for shape in shapes]
    images.append(random.randint(256, size=(30, 30, n_channels)).astype(np.uint8))
    activation = draw(st.sampled_from(["logistic", "tanh"]), "activation")
    encoder = ENCODERS[draw(st.sampled_from(list(ENCODERS)), "encoder")](split_sign=draw(st.booleans(), "split"))
    features = ImageFeatures(
        EPLS(4, max_iter=1, activation=activation),
        patch_size=size,
        encoder=encoder,
        stride=stride,
        grid=grid,
        n_patches=60,
        pooling=draw(st.sampled_from(["log", "sum", "mean"]), "pooling"),
        mirror=draw(st.booleans(), "mirror"),
        whiten=draw(st.booleans(), "whiten"),
        random_state=0,
    ).fit(images)
    expected, found = both(features, images)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("encoder", ENCODERS)
def test_bright_patches_of_little_contrast(encoder, photograph):
    """Where the variance is the difference of large numbers, single precision has no digits left."""
    features = ImageFeatures(EPLS(20, max_iter=3), patch_size=6, encoder=encoder, n_patches=2000, random_state=0)
    features.fit([photograph])
    image = 250 + (photograph[:40, :40] > 128).astype(np.uint8)
    image[20:] //= 250
    np.testing.assert_allclose(*both(features, [image]), atol=1e-5)


@pytest.mark.parametrize("encoder", ["natural", "triangle"])
def test_strips_and_groups_change_nothing(encoder, photograph, monkeypatch):
    settings = {"patch_size": 6, "stride": 2, "grid": 3, "n_patches": 500, "random_state": 0, "device": "cpu"}
    images = [photograph[k : k + 40, : 40 + k % 3] for k in (0, 3, 6, 7, 8)]
    features = ImageFeatures(EPLS(10, max_iter=2), encoder=encoder, **settings).fit(images)
    whole = features.transform(images)
    for n_elements in (1, 5000, 60_000):
        monkeypatch.setattr(torch_codes, "_STRIP_ELEMENTS", n_elements)
        np.testing.assert_allclose(features.transform(images), whole, atol=1e-4)


def test_a_unit_that_equals_a_patch(photograph):
    """The distance is 0, where rounding would make it a few thousandths."""
    features = ImageFeatures(
        EPLS(5, max_iter=2), patch_size=6, encoder="triangle", n_patches=500, grid=1, random_state=0
    ).fit([photograph])
    patch = photograph[50:56, 60:66]
    features.estimator_.components_[0] = features.prepare_patches(patch.reshape(1, -1))
    expected, found = both(features, [patch])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("encoder", ["natural", "triangle"])
def test_the_module_is_differentiable(encoder, photograph):
    features = ImageFeatures(
        EPLS(3, max_iter=2), patch_size=3, encoder=encoder, n_patches=200, stride=2, whiten=True, random_state=0
    )
    module = to_module(features.fit([photograph])).double()
    image = torch.tensor(photograph[100:107, 100:108].transpose(2, 0, 1)[None], dtype=torch.float64)
    assert torch.autograd.gradcheck(module, image.requires_grad_(), eps=1e-3, atol=1e-6)
    module(image).sum().backward()
    assert all(torch.isfinite(p.grad).all() and p.grad.abs().max() > 0 for p in module.parameters())


def test_the_module_of_features_gives_what_transform_gives(photograph):
    features = ImageFeatures(EPLS(12, max_iter=2), patch_size=5, n_patches=500, random_state=0)
    images = np.stack([photograph[:30, :40], photograph[100:130, 100:140]])
    expected = features.fit(images).transform(images)
    found = DenseFeatures(features)(torch.tensor(images).movedim(3, 1)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_state_dicts(photograph):
    """They have the scale of patches and codes, which those of version 0.1.0 did not."""
    settings = {"patch_size": 5, "n_patches": 500, "random_state": 0}
    image = torch.tensor(photograph[:30, :40]).movedim(2, 0)[None]
    module = to_module(ImageFeatures(EPLS(12, max_iter=2), **settings).fit([photograph]))
    other = to_module(ImageFeatures(EPLS(12, max_iter=3), **settings).fit([photograph // 2]))
    other.load_state_dict(module.state_dict())
    torch.testing.assert_close(other(image), module(image))
    old = {name: values for name, values in module.state_dict().items() if name.startswith("encode.")}
    assert len(old) == len(module.state_dict()) - 2
    again = to_module(ImageFeatures(EPLS(12, max_iter=2), **settings).fit([photograph]))
    again.load_state_dict(old)
    torch.testing.assert_close(again(image), module(image))


class TestErrors:
    def test_an_encoder_that_is_no_layer(self, photograph):
        features = ImageFeatures(
            EPLS(5, max_iter=2), patch_size=4, encoder="sparse_coding", n_patches=200, pooling="sum"
        )
        features.fit([photograph[:60, :60]]).set_params(device="cpu")
        with pytest.raises(ValueError, match=r"Encoder with the components of EPLS are not .* soft threshold"):
            features.transform([photograph[:60, :60]])

    @pytest.mark.parametrize("shape", [(3, 20, 20), (1, 20, 20, 3), (1, 3, 5, 20)])
    def test_images_of_another_shape(self, shape, photograph):
        features = ImageFeatures(EPLS(5, max_iter=2), patch_size=5, n_patches=200).fit([photograph])
        with pytest.raises(ValueError, match=r"must have shape \(N, 3, height, width\) .* at least 6"):
            to_module(features)(torch.zeros(shape))

    def test_a_device_that_cannot_be_used(self, photograph):
        features = ImageFeatures(EPLS(5, max_iter=2), patch_size=5, n_patches=200, device="nonsense").fit([photograph])
        with pytest.raises(ValueError, match="device='nonsense' cannot be used here"):
            features.transform([photograph])
