"""Learned layers as modules, against transform and plain loops over patches."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits, load_sample_images
from sklearn.exceptions import NotFittedError

from epls import EPLS, OMP, ImageFeatures, Prototypes, SparseAutoencoder, SparseRBM
from epls.algorithm.activations import ACTIVATIONS
from epls.images.patches import sample_patches
from epls.torch import to_module


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_module_gives_what_transform_gives(name, dtype, digits):
    X = digits.astype(dtype)
    model = EPLS(20, activation=name, max_iter=3, random_state=0).fit(X)
    codes = to_module(model)(torch.tensor(X)).detach().numpy()
    assert codes.dtype == dtype
    np.testing.assert_allclose(codes, model.transform(X), atol=1e-4)


@pytest.mark.parametrize("learner", [SparseAutoencoder(12, max_iter=2), SparseRBM(12, max_iter=2)])
def test_other_layers(learner, digits):
    model = learner.fit(digits)
    codes = to_module(model)(torch.tensor(digits)).detach().numpy()
    np.testing.assert_allclose(codes, model.transform(digits), atol=1e-4)


def test_a_linear_layer_gives_net_inputs(digits):
    model = EPLS(20, max_iter=3, random_state=0).fit(digits)
    linear = to_module(model)[0]
    assert type(linear) is torch.nn.Linear
    expected = (digits - model.mean_) / model.scale_ @ model.components_.T + model.intercept_
    np.testing.assert_allclose(linear(torch.tensor(digits)).detach().numpy(), expected, atol=1e-8)


@pytest.mark.parametrize(("color", "stride"), [(True, 1), (True, 3), (False, 2)])
def test_a_convolution_is_the_layer_at_every_position(color, stride):
    image = load_sample_images().images[0][100:130, 100:140]
    image = image if color else image[:, :, 0]
    shape = (4, 4, 3) if color else (4, 4)
    model = EPLS(7, max_iter=3, random_state=0).fit(sample_patches([image], 300, 4, random_state=0))
    module = to_module(model, patch_shape=shape, stride=stride)
    assert type(module[0]) is torch.nn.Conv2d
    planes = np.atleast_3d(image).transpose(2, 0, 1).astype(np.float32)
    found = module(torch.tensor(planes[None]))[0].detach().numpy()
    assert found.shape == (7, -(-27 // stride), -(-37 // stride))
    for i, row in enumerate(range(0, 27, stride)):
        patches = [image[row : row + 4, column : column + 4].reshape(-1) for column in range(0, 37, stride)]
        np.testing.assert_allclose(found[:, i].T, model.transform(np.stack(patches)), atol=1e-4)


def test_what_prototypes_are_in_torch(digits):
    """The error says it, so it has to be true."""
    model = Prototypes(5, max_iter=1).fit(digits)
    with pytest.raises(ValueError, match="a Prototypes is not one layer of units") as raised:
        to_module(model)
    codes, distances = str(raised.value).split("; its codes are ")[1].split(" with d = ")
    names = {"torch": torch, "X": torch.tensor(digits), "components_": torch.tensor(model.components_)}
    names["d"] = eval(distances, names)
    np.testing.assert_allclose(eval(codes, names).numpy(), model.transform(digits), atol=1e-6)


def test_errors(digits):
    model = EPLS(5, max_iter=1).fit(digits)
    with pytest.raises(ValueError, match=r"components have 64 values, which does not match patch_shape=\(8, 7\)"):
        to_module(model, patch_shape=(8, 7))
    with pytest.raises(ValueError, match="a OMP is not one layer of units: give a fitted EPLS"):
        to_module(OMP(5, max_iter=1).fit(digits))
    with pytest.raises(ValueError, match="patch_shape is for a learner of patches"):
        to_module(ImageFeatures(), patch_shape=(8, 8))
    with pytest.raises(NotFittedError, match="not fitted"):
        to_module(EPLS())
