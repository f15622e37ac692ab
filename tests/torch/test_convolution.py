"""A convolutional layer in one call: against EPLS on patches that are cut out one by one."""

import numpy as np
import pytest
import torch
from scipy.special import expit
from sklearn.datasets import load_sample_images
from torch.utils.data import TensorDataset

from epls import EPLS
from epls.torch import fit_convolution

SETTINGS = {"n_patches": 2000, "max_iter": 4, "random_state": 0}


@pytest.fixture(scope="module")
def images():
    photographs = load_sample_images().images
    crops = [p[top : top + 30, left : left + 34] for p in photographs for top, left in [(0, 0), (200, 300), (350, 90)]]
    return torch.tensor(np.stack(crops)).movedim(3, 1)


def test_outputs_are_those_of_the_learner_for_every_patch(images, monkeypatch):
    learners = []
    fit_samples = EPLS.fit_samples

    def noting(self, samples):
        learners.append((self, samples))
        return fit_samples(self, samples)

    monkeypatch.setattr(EPLS, "fit_samples", noting)
    layer = fit_convolution(images, 12, 6, stride=3, **SETTINGS)
    ((model, samples),) = learners
    outputs = layer(images.float()).detach().numpy()
    assert outputs.shape == (6, 12, 9, 10)
    pixels = images.double().numpy()
    patches = np.stack(
        [
            pixels[n, :, 3 * i : 3 * i + 6, 3 * j : 3 * j + 6].transpose(1, 2, 0).ravel()
            for n in range(6)
            for i in range(9)
            for j in range(10)
        ]
    )
    patches -= patches.mean(axis=1, keepdims=True)
    factor = np.abs(samples.array()).max() / 255  # pixels were brought to another scale; by which power of two?
    powers = 2.0 ** np.arange(-40, 10)
    plain = {
        power: expit((power * patches - model.mean_) / model.scale_ @ model.components_.T + model.intercept_)
        for power in powers[(powers > factor / 4) & (powers < factor * 8)]
    }
    expected = outputs.transpose(0, 2, 3, 1).reshape(-1, 12)
    assert min(np.abs(found - expected).max() for found in plain.values()) < 1e-4


def test_brightness_does_not_matter_and_contrast_does(images):
    layer, pixels = fit_convolution(images, 12, 6, **SETTINGS), images.float()
    outputs = layer(pixels)
    torch.testing.assert_close(layer(pixels + 40), outputs, atol=1e-4, rtol=1e-3)
    assert (layer(pixels * 0.5) - outputs).abs().max() > 0.05


def test_units_are_balanced_over_images_and_active_somewhere(images):
    layer = fit_convolution(images, 12, 6, n_patches=2000, random_state=0, max_iter=60)
    outputs = layer(images.float()).detach()
    assert outputs.amax(dim=(0, 2, 3)).min() > 0.3
    np.testing.assert_allclose(outputs.mean(dim=(0, 2, 3)), 1 / 12, atol=0.05)


def test_images_in_every_form_give_the_same(images):
    expected = fit_convolution(images, 8, 5, **SETTINGS)[0]
    for form in (list(images), TensorDataset(images, torch.zeros(6)), images.float()):
        layer = fit_convolution(form, 8, 5, **SETTINGS)[0]
        torch.testing.assert_close(layer.weight, expected.weight, atol=1e-5, rtol=1e-3)


def test_the_scale_of_pixels_does_not_matter(images):
    expected = fit_convolution(images.float(), 8, 5, **SETTINGS)(images.float())
    scaled = images.float() / 256  # nothing is rounded
    torch.testing.assert_close(fit_convolution(scaled, 8, 5, **SETTINGS)(scaled), expected, atol=1e-5, rtol=0)


def test_mixed_sizes_and_settings_of_the_learner(images):
    mixed = [images[0], images[1][:, :20], images[2][:, :, :15]]
    layer = fit_convolution(mixed, 8, 5, activation="tanh", device="cpu", **SETTINGS)
    assert isinstance(layer[1], torch.nn.Tanh)
    assert layer(mixed[1].float()[None]).shape == (1, 8, 16, 30)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (
            torch.zeros(3, 20, 20),
            ValueError,
            r"shape \(3, 20, 20\), but must have shape \(N, channels, height, width\)",
        ),
        ([torch.zeros(20, 20)], ValueError, r"image 0 must be a tensor of shape .* got \(20, 20\)"),
        ([np.zeros((3, 20, 20))], ValueError, "image 0 must be a tensor of shape .* got ndarray"),
        (7, TypeError, "images must be a tensor, a sequence of tensors or a Dataset, got int"),
    ],
)
def test_errors(given, error, message):
    with pytest.raises(error, match=message):
        fit_convolution(given, 4, 5)
