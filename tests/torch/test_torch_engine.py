"""Training and encoding of vectors in torch, against NumPy; the tests of both engines are in test_training.py."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from epls import EPLS, ImageFeatures, load_model, save_model
from epls.algorithm.activations import ACTIVATIONS, LOGISTIC, Activation
from epls.algorithm.engine import Objective, new_engine
from epls.algorithm.settings import TrainingSettings
from epls.algorithm.training import Training, initial_weights
from epls.torch.engine import resolve_device, to_device

ARCTAN = Activation("arctan", np.arctan, lambda z: 1 / (1 + z * z), lambda z: -2 * z / (1 + z * z) ** 2)

WITHOUT_TORCH = """
import sys
from importlib import import_module
from epls import EPLS

class Missing:
    def find_spec(name, path=None, target=None):
        if name == "torch":
            raise ModuleNotFoundError("No module named 'torch'")

sys.meta_path.insert(0, Missing)
for attempt in (lambda: import_module("epls.torch"), lambda: EPLS(2, device="cpu").fit([[0.0], [1.0]])):
    try:
        attempt()
    except ImportError as error:
        print(error)
"""


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.mark.parametrize("loss", ["matching", "squared"])
@pytest.mark.parametrize("name", ACTIVATIONS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_of_a_batch_is_the_same(name, loss, dtype, digits):
    weights = initial_weights(20, 64, np.random.RandomState(0), np.dtype(dtype))
    settings = TrainingSettings(loss=loss, optimizer="vsgd")  # which needs the factors
    objective = Objective(digits.mean(axis=0), 4.0, ACTIVATIONS[name], settings)
    batch = (digits.astype(dtype), np.arange(100, 200))
    expected, found = (new_engine(objective, 20, device).gradient(weights, batch) for device in (None, "cpu"))
    tolerance = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_array_equal(found.report.winners, expected.report.winners)
    pairs = [(found.gradient, expected.gradient)]
    pairs += [(getattr(found.factors, n), getattr(expected.factors, n)) for n in ("inputs", "slopes", "curvatures")]
    for ours, theirs in pairs:
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found.report.error, expected.report.error, rtol=tolerance)
    np.testing.assert_array_equal(found.report.live, expected.report.live)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_steps_are_the_same(dtype, digits):
    def after_steps(device):
        objective = Objective(digits.mean(axis=0), 4.0, LOGISTIC)
        weights = initial_weights(20, 64, np.random.RandomState(0), np.dtype(dtype))
        training = Training(weights, new_engine(objective, 20, device), n_steps=100)
        for start in range(0, 300, 30):
            training.step((digits.astype(dtype), np.arange(start, start + 30)))
        return training.weights

    np.testing.assert_allclose(after_steps("cpu"), after_steps(None), atol=1e-4)


@pytest.mark.slow
def test_a_fit_in_float64_is_the_same(digits):
    ours, other = (EPLS(30, max_iter=100, random_state=0, device=device).fit(digits) for device in (None, "cpu"))
    np.testing.assert_allclose(other.components_, ours.components_, atol=1e-6)
    np.testing.assert_allclose(other.intercept_, ours.intercept_, atol=1e-6)
    np.testing.assert_allclose(other.loss_curve_, ours.loss_curve_, rtol=1e-6)
    np.testing.assert_allclose(other.transform(digits), ours.transform(digits), atol=1e-6)


@pytest.mark.slow
def test_a_fit_in_float32_is_as_good(digits):
    """Rounding may let another unit win, and from there on weights differ; the error they reach does not."""
    ours, other = (
        EPLS(30, max_iter=100, random_state=0, device=device).fit(digits.astype(np.float32)) for device in (None, "cpu")
    )
    np.testing.assert_allclose(other.loss_curve_, ours.loss_curve_, rtol=1e-2)
    np.testing.assert_allclose(other.loss_curve_[0], ours.loss_curve_[0], rtol=1e-4)
    assert [report.win_spread for report in other.epoch_reports_] == [1] * other.n_iter_


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_transform_is_the_same(name, dtype, digits):
    X = digits.astype(dtype)
    model = EPLS(20, activation=name, max_iter=3, random_state=0).fit(X)
    expected, winners = model.transform(X), model.winners(X)
    model.set_params(device="cpu")
    assert model.transform(X).dtype == expected.dtype
    np.testing.assert_allclose(model.transform(X), expected, atol=1e-5)
    assert (model.winners(X) == winners).mean() > 0.99


def test_a_stream_goes_on_elsewhere(digits):
    expected = EPLS(10, random_state=0).partial_fit(digits).partial_fit(digits)
    for devices in ((None, "cpu"), ("cpu", None)):
        model = EPLS(10, random_state=0)
        for device in devices:
            model.set_params(device=device).partial_fit(digits)
            assert model._training.engine.device == device
        np.testing.assert_allclose(model.components_, expected.components_, atol=1e-6)


def test_the_processor_shares_the_memory_of_arrays():
    array = np.zeros(4)
    to_device(array, torch.device("cpu"))[1] = 7
    assert array.tolist() == [0, 7, 0, 0]
    array.flags.writeable = False
    to_device(array, torch.device("cpu"))[1] = 8  # a copy, without a warning
    assert array.tolist() == [0, 7, 0, 0]


def test_a_device_is_not_saved(digits, tmp_path):
    """What was trained on one machine is used on another, which may have neither the device nor torch."""
    model = EPLS(8, max_iter=2, random_state=0, device="cpu").fit(digits)
    save_model(model, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.device is None
    np.testing.assert_allclose(loaded.transform(digits), model.transform(digits), atol=1e-6)

    images = load_digits().images[:50]
    features = ImageFeatures(EPLS(6, max_iter=2, device="cpu"), patch_size=4, n_patches=300, device="cpu").fit(images)
    save_model(features, tmp_path / "features")
    loaded = load_model(tmp_path / "features")
    assert loaded.device is loaded.estimator.device is loaded.estimator_.device is None
    np.testing.assert_allclose(loaded.transform(images), features.transform(images), rtol=1e-4, atol=1e-5)


class TestErrors:
    @pytest.mark.parametrize("device", ["nonsense", "meta", "cpu:x", ""])
    def test_a_device_that_cannot_be_used(self, device, digits):
        with pytest.raises(ValueError, match=rf"device='{device}' cannot be used here .*'cpu'.*or None .*NumPy"):
            EPLS(5, device=device).fit(digits)

    @pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
    def test_a_pickle_from_a_machine_with_a_gpu(self, digits):
        model = pickle.loads(pickle.dumps(EPLS(5, max_iter=1).fit(digits).set_params(device="cuda")))
        with pytest.raises(ValueError, match=r"device='cuda' cannot be used here.*set_params\(device=None\)"):
            model.transform(digits)
        assert model.set_params(device=None).transform(digits).shape == (1797, 5)

    def test_an_activation_of_ones_own(self, digits):
        with pytest.raises(ValueError, match=r"'arctan' is defined by NumPy functions.*'tanh'.*device=None"):
            EPLS(5, activation=ARCTAN, device="cpu").fit(digits)

    def test_float64_where_there_is_none(self):
        with pytest.raises(ValueError, match="'mps' does not support float64: give float32"):
            to_device(np.zeros(3), torch.device("mps"))

    def test_outputs_that_are_not_finite(self, digits):
        model = EPLS(5, activation="identity", max_iter=1, device="cpu").fit(digits)
        model.components_[0, 0] = np.inf
        with pytest.raises(ValueError, match="outputs of 'identity' are not finite"):
            model.transform(digits)

    @pytest.mark.slow
    def test_without_torch(self):
        run = subprocess.run([sys.executable, "-c", WITHOUT_TORCH], capture_output=True, text=True, check=True)
        expected = 'epls.torch, or device=... of a model, needs torch: pip install "epls[torch]"'
        assert run.stdout.splitlines() == [expected, expected]

    def test_the_processor_is_a_device(self):
        assert resolve_device("cpu").type == "cpu"
