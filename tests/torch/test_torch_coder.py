"""Features of images in torch, against NumPy and, for their slopes, finite differences."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, reject
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_sample_images
from torch import nn

from epls import EPLS, DeepFeatures, ImageFeatures, Layer, NaturalEncoder, SoftThresholdEncoder, TriangleEncoder
from epls.images.pooling import smallest_side
from epls.torch import coder, to_module

ENCODERS = {
    "natural": NaturalEncoder,
    "soft_threshold": SoftThresholdEncoder,
    "triangle": TriangleEncoder,
}
SMALL = {"n_patches": 400}
LIMITS = {"size": (2, 5), "stride": (1, 4), "grid": (1, 3)}


@pytest.fixture(scope="module")
def photographs():
    return load_sample_images().images


@pytest.fixture(scope="module")
def photograph(photographs):
    return photographs[0]


def both(features, images):
    """Features by NumPy and by torch."""
    return features.set_params(device=None).transform(images), features.set_params(device="cpu").transform(images)


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
        monkeypatch.setattr(coder, "_STRIP_ELEMENTS", n_elements)
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
    found = to_module(features)(torch.tensor(images).movedim(3, 1)).detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_state_dicts(photograph):
    """They have the scale of patches and codes."""
    settings = {"patch_size": 5, "n_patches": 500, "random_state": 0}
    image = torch.tensor(photograph[:30, :40]).movedim(2, 0)[None]
    module = to_module(ImageFeatures(EPLS(12, max_iter=2), **settings).fit([photograph]))
    other = to_module(ImageFeatures(EPLS(12, max_iter=3), **settings).fit([photograph // 2]))
    other.load_state_dict(module.state_dict())
    torch.testing.assert_close(other(image), module(image))


@pytest.fixture(scope="module")
def crops(photographs):
    corners = [(0, 0), (200, 300), (350, 90), (100, 500)]
    return np.stack([p[top : top + 36, left : left + 40] for p in photographs for top, left in corners])


def two_layers(pooling="log", **settings):
    """A stack with groups of channels and overlapping cells."""
    first = Layer(EPLS(12, max_iter=3), patch_size=5, pool=4, pool_stride=3, pooling=pooling, **SMALL)
    second = Layer(EPLS(6, max_iter=3), patch_size=3, n_groups=3, group_size=5, pool=2, pooling=pooling, **SMALL)
    return DeepFeatures([first, second], random_state=0, **settings)


def in_torch(features, images):
    with torch.no_grad():
        return to_module(features)(as_tensor(images)).numpy()


def as_tensor(images):
    images = images[..., None] if images.ndim == 3 else images
    return torch.tensor(np.asarray(images, np.float32)).movedim(3, 1)


def draw_layer(draw, number):
    encoder = ENCODERS[draw(st.sampled_from(list(ENCODERS)), "encoder")](split_sign=draw(st.booleans(), "split"))
    n_groups = draw(st.sampled_from([None, 1, 2]), "groups")
    # A patch of one value is 0 when its mean is subtracted.
    smallest = 1 if number > 0 and n_groups is None else 2
    return Layer(
        EPLS(4, max_iter=1, activation=draw(st.sampled_from(["logistic", "tanh"]), "activation")),
        patch_size=draw(st.integers(smallest, 3), "size"),
        stride=draw(st.integers(1, 2), "stride"),
        encoder=encoder,
        n_groups=n_groups,
        group_size=draw(st.integers(1, 4), "group size"),
        pool=draw(st.integers(1, 3), "pool"),
        pool_stride=draw(st.sampled_from([None, 1, 2, 4]), "pool stride"),
        pooling=draw(st.sampled_from(["log", "mean", "max"]), "pooling"),
        whiten=draw(st.booleans(), "whiten"),
        n_patches=60,
    )


@given(data=st.data())
def test_stacks_are_equal_to_numpy_whatever_the_settings(data):
    draw = data.draw
    layers = [draw_layer(draw, number) for number in range(draw(st.integers(1, 3), "layers"))]
    random = np.random.RandomState(draw(st.integers(0, 99), "seed"))
    n_channels = draw(st.sampled_from([1, 3]), "channels")
    grid, mirror = draw(st.integers(1, 2), "grid"), draw(st.booleans(), "mirror")
    least = smallest_side([layer.geometry for layer in layers], grid)
    assume(least < 120)
    shapes = draw(st.lists(st.tuples(*[st.integers(least, least + 9)] * 2), min_size=1, max_size=3), "shapes")
    shapes.append((least + 20, least + 20))  # where patches differ in all layers
    images = [random.randint(256, size=(*shape, n_channels)).astype(np.uint8) for shape in shapes]
    features = DeepFeatures(layers, grid=grid, mirror=mirror, random_state=0)
    try:
        features.fit(images)
    except ValueError as error:
        if "all codes of patches" in str(error):  # whose units are never active
            reject()
        raise
    expected = features.transform(images)
    found = features.set_params(device="cpu").transform(images)
    assert found.dtype == np.float32
    atol = 1e-4 * 2 ** (len(layers) - 1)  # whitening enlarges what the layers below have rounded
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=atol)


@pytest.mark.parametrize("pooling", ["log", "mean", "max"])
@pytest.mark.parametrize("mirror", [False, True])
def test_stacks_of_photographs(pooling, mirror, crops):
    features = two_layers(pooling, mirror=mirror).fit(crops)
    np.testing.assert_allclose(in_torch(features, crops), features.transform(crops), rtol=1e-4, atol=1e-4)


def test_stacks_of_fractions_and_gray_images(crops):
    for images in (crops / 255, crops[..., 1], crops[..., 1].astype(np.float32) / 100):
        features = two_layers().fit(images)
        np.testing.assert_allclose(in_torch(features, images), features.transform(images), rtol=1e-4, atol=1e-4)


def test_three_layers_with_other_learners(photographs):
    crops = np.stack([photographs[k % 2][40 * k : 40 * k + 48, 60 * k : 60 * k + 48] for k in range(8)])
    layers = [
        Layer(KMeans(10, n_init=1), patch_size=6, encoder="triangle", whiten=True, pool=3, pool_stride=2, **SMALL),
        Layer(EPLS(6, max_iter=3), patch_size=3, encoder="soft_threshold", n_groups=2, group_size=4, **SMALL),
        Layer(EPLS(8, max_iter=3, activation="tanh"), patch_size=2, stride=2, pooling="max", **SMALL),
    ]
    features = DeepFeatures(layers, grid=1, random_state=0).fit(crops)
    np.testing.assert_allclose(in_torch(features, crops), features.transform(crops), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("layer", [1, 2])
def test_maps_of_the_network(layer, crops):
    features = two_layers().fit(crops)
    expected = np.stack(list(features.maps(crops, layer)))
    with torch.no_grad():
        found = to_module(features).maps(as_tensor(crops), layer).movedim(1, 3).numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


class TestOnADevice:
    def test_mixed_sizes_and_mirror_images(self, photographs):
        images = [photographs[k % 2][50 * k : 90 + 50 * k, : 40 + 7 * (k // 2)] for k in range(6)]
        features = two_layers(mirror=True).fit(images)
        expected, views = features.transform(images), list(features.views(features.fitting_images(images), held=False))
        features.set_params(device="cpu")
        np.testing.assert_allclose(features.transform(images), expected, rtol=1e-4, atol=1e-4)
        found = list(features.views(features.fitting_images(images), start=1, held=True))
        assert [view.shape for view in found] == [(2, features._n_features_out)] * 5
        np.testing.assert_allclose(found, views[1:], rtol=1e-4, atol=1e-4)

    def test_strips_and_batches_change_nothing(self, photographs, monkeypatch):
        images = [photographs[k % 2][k : k + 50, : 40 + k % 3] for k in (0, 3, 6, 7, 8)]
        features = two_layers("max", device="cpu").fit(images)
        whole = features.transform(images)
        for n_elements in (1, 5000, 60_000):
            monkeypatch.setattr(coder, "_STRIP_ELEMENTS", n_elements)
            np.testing.assert_allclose(features.transform(images), whole, atol=1e-4)

    def test_images_with_patches_for_the_features_of_the_last_layer_but_no_map_of_it(self, crops):
        layers = [Layer(EPLS(5, max_iter=2), patch_size=5, pool=2, **SMALL), Layer(EPLS(4), pool=9, **SMALL)]
        features = DeepFeatures(layers, random_state=0).fit(crops)
        small = crops[:2, :16, :16]
        np.testing.assert_allclose(in_torch(features, small), features.transform(small), rtol=1e-4, atol=1e-4)
        with pytest.raises(ValueError, match=r"must have shape .* at least 30"):
            to_module(features).maps(as_tensor(small), 2)


class TestTraining:
    @pytest.mark.parametrize("encoder", ["natural", "triangle"])
    @pytest.mark.slow
    def test_slopes(self, encoder, photographs):
        first = Layer(EPLS(3, max_iter=2), patch_size=3, encoder=encoder, stride=2, pool=2, pool_stride=1, **SMALL)
        second = Layer(EPLS(2, max_iter=2), patch_size=2, encoder=encoder, n_groups=2, group_size=2, **SMALL)
        features = DeepFeatures([first, second], mirror=True, random_state=0).fit(photographs)
        network = to_module(features).double()
        image = torch.tensor(photographs[0][100:110, 100:110].transpose(2, 0, 1)[None], dtype=torch.float64)
        assert torch.autograd.gradcheck(network, image.requires_grad_(), eps=1e-3, atol=1e-6)

    @pytest.mark.parametrize("pooling", ["log", "mean", "max"])
    def test_the_features_of_the_last_layer_train_all_layers(self, pooling, crops):
        network = to_module(two_layers(pooling).fit(crops))
        network(as_tensor(crops))[:, -18:].square().sum().backward()
        slopes = {name: p.grad for name, p in network.named_parameters()}
        assert len(slopes) == 3 * (1 + 3)
        assert all(torch.isfinite(slope).all() and slope.abs().max() > 0 for slope in slopes.values())

    def test_all_parameters_take_part_in_fine_tuning(self, crops):
        torch.manual_seed(0)
        network = to_module(two_layers().fit(crops))
        pixels, labels = as_tensor(crops), torch.tensor([0, 1, 1, 0, 1, 0, 0, 1])
        head = nn.Linear(network.n_features, 2)
        before = [parameter.clone() for parameter in network.parameters()]
        optimizer = torch.optim.Adam([*network.parameters(), *head.parameters()], lr=3e-3)
        losses = []
        for _ in range(40):
            loss = nn.functional.cross_entropy(head(network(pixels)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        assert losses[-1] < 0.3 * losses[0]
        assert all((old != new).any() for old, new in zip(before, network.parameters(), strict=True))

    def test_a_state_dict_has_all_that_was_learned(self, crops):
        features, others = two_layers().fit(crops), two_layers().set_params(random_state=1).fit(crops[:4] // 2)
        network, other = to_module(features), to_module(others)
        expected = network(as_tensor(crops))
        assert (other(as_tensor(crops)) - expected).abs().max() > 0.1
        other.load_state_dict(network.state_dict())
        torch.testing.assert_close(other(as_tensor(crops)), expected)


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

    def test_an_encoder_of_a_stack_that_is_no_layer(self, crops):
        layers = [Layer(EPLS(5, max_iter=2), encoder="sparse_coding", **SMALL)]
        features = DeepFeatures(layers, device="cpu").fit(crops)
        with pytest.raises(ValueError, match=r"Encoder with the components of EPLS are not .* soft threshold"):
            features.transform(crops)

    @pytest.mark.parametrize("shape", [(3, 36, 40), (1, 36, 40, 3), (1, 3, 16, 40)])
    def test_images_of_another_shape_for_a_stack(self, shape, crops):
        network = to_module(two_layers().fit(crops))
        with pytest.raises(ValueError, match=r"must have shape \(N, 3, height, width\) .* at least 17"):
            network(torch.zeros(shape))

    def test_a_layer_that_there_is_not(self, crops):
        with pytest.raises(ValueError, match="layer=3: there are layers 1 to 2"):
            to_module(two_layers().fit(crops)).maps(as_tensor(crops), 3)
