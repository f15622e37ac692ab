"""The sparse restricted Boltzmann machine: its statistics, its energy, what training reaches, and how it is used."""

from itertools import product

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import expit, logsumexp
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls.callbacks import Callback
from epls.kernels.steps import momentum_step
from epls.learners.sparse_rbm import SparseRBM, contrastive_divergence


@parametrize_with_checks([SparseRBM(max_iter=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.fixture(scope="module")
def model(digits):
    return SparseRBM(30, sparseness=0.1, max_iter=60, random_state=0).fit(digits)


@pytest.fixture
def batch():
    """6 samples of 4 features, the weights and biases of 3 hidden units and of the visible ones, and random numbers."""
    random = np.random.RandomState(1)
    v, W, b, c = (random.normal(size=shape) for shape in [(6, 4), (3, 4), 3, 4])
    return v, W, b, c, random.uniform(size=(6, 3))


def computed(v, W, b, c, draws):
    inputs, weights = np.c_[v, np.ones(len(v), v.dtype)], np.c_[W, b]
    return contrastive_divergence(inputs, weights, c, draws.copy())


def energy(v, h, W, b, c):
    return np.sum((v - c) ** 2) / 2 - b @ h - h @ W @ v


def free_energy(v, W, b, c):
    """By enumeration of all states of the hidden units."""
    return -logsumexp([-energy(v, np.array(h), W, b, c) for h in product([0, 1], repeat=len(b))])


class TestContrastiveDivergence:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_is_the_plain_form_with_the_same_random_numbers(self, batch, dtype):
        v, W, b, c, draws = batch
        result = computed(*(array.astype(dtype) for array in batch))
        weights, biases, visible, error, activity = np.zeros((3, 4)), np.zeros(3), np.zeros(4), 0.0, np.zeros(3)
        n_active = 0
        for x, u in zip(v, draws, strict=True):
            h = 1 / (1 + np.exp(-(W @ x + b)))
            state = (u < h).astype(float)
            n_active += state.sum()
            y = c + state @ W
            h_y = 1 / (1 + np.exp(-(W @ y + b)))
            weights += (np.outer(h, x) - np.outer(h_y, y)) / len(v)
            biases += (h - h_y) / len(v)
            visible += (x - y) / len(v)
            activity += h / len(v)
            error += sum((x - y) ** 2) / len(v)
        assert 0 < n_active < draws.size  # both states occur
        tolerance = {"rtol": 1e-12, "atol": 1e-12} if dtype == np.float64 else {"rtol": 1e-4, "atol": 1e-5}
        np.testing.assert_allclose(result.weights[:, :-1], weights, **tolerance)
        np.testing.assert_allclose(result.weights[:, -1], biases, **tolerance)
        np.testing.assert_allclose(result.visible, visible, **tolerance)
        np.testing.assert_allclose(result.activity, activity, **tolerance)
        np.testing.assert_allclose(result.error, error, **tolerance)
        assert result.weights.dtype == result.visible.dtype == result.activity.dtype == dtype

    def test_is_the_difference_of_the_gradients_of_the_free_energy(self, batch):
        """Of -F: at the samples, less that at their reconstructions."""
        v, W, b, c, draws = batch
        result = computed(*batch)
        states = draws < expit(v @ W.T + b)
        rebuilt = c + states @ W
        for shape, name, start in ((W.shape, "W", W), (b.shape, "b", b), (c.shape, "c", c)):

            def mean_difference(flat, name=name, shape=shape):
                parts = {"W": W, "b": b, "c": c} | {name: flat.reshape(shape)}
                both = zip(v, rebuilt, strict=True)
                return np.mean([free_energy(y, **parts) - free_energy(x, **parts) for x, y in both])

            gradient = approx_fprime(start.ravel(), mean_difference, 1e-6).reshape(shape)
            expected = {"W": result.weights[:, :-1], "b": result.weights[:, -1], "c": result.visible}[name]
            np.testing.assert_allclose(gradient, expected, atol=1e-4)

    def test_reconstruction_is_where_the_energy_is_least(self, batch):
        """Given h the visible units are normal: their mean is the minimum of the energy, in which it is quadratic."""
        v, W, b, c, _ = batch
        for state in product([0.0, 1.0], repeat=3):
            # A number below 0 switches a unit on, one above 1 off.
            draws = np.tile(1.5 - 2 * np.array(state), (len(v), 1))
            rebuilt = v.mean(axis=0) - computed(v, W, b, c, draws).visible
            gradient = approx_fprime(rebuilt, lambda y, h=state: energy(y, np.array(h), W, b, c), 1e-7)
            np.testing.assert_allclose(gradient, 0, atol=1e-5)


def test_step_repeats_a_share_of_the_last_one():
    random = np.random.RandomState(0)
    weights, gradient, velocity = random.normal(size=(3, 4, 5))
    rates, decays = random.uniform(size=(2, 5))
    moved, last = weights.copy(), velocity.copy()
    momentum_step(moved, gradient, last, rates, decays, 0.7)
    np.testing.assert_allclose(last, 0.7 * velocity + rates * (gradient - decays * weights), rtol=1e-12)
    np.testing.assert_allclose(moved, weights + last, rtol=1e-12)


def test_codes_are_the_expected_states_given_the_energy(digits):
    X = digits[:, 20:24]
    model = SparseRBM(3, sparseness=0.3, max_iter=20, random_state=0).fit(X)
    parts = model.components_, model.intercept_, model.visible_intercept_
    states = np.array(list(product([0.0, 1.0], repeat=3)))
    for x, code in zip(X[:20], model.transform(X[:20]), strict=True):
        v = (x - model.mean_) / model.scale_
        weights = np.exp([-energy(v, h, *parts) for h in states])
        np.testing.assert_allclose(code, weights @ states / weights.sum(), atol=1e-5)


def test_transform_is_the_formula_of_the_attributes(model, digits):
    standard = (digits - model.mean_) / model.scale_
    expected = expit(standard @ model.components_.T + model.intercept_)
    np.testing.assert_allclose(model.transform(digits), expected, atol=1e-5)  # inputs are rounded to a grid of 1e-6


def test_layer_gives_what_transform_gives(model, digits):
    layer = model.as_layer().folded()
    outputs = layer.activation.value(digits @ layer.weights.T - layer.center + layer.intercept)
    np.testing.assert_allclose(outputs, model.transform(digits), atol=1e-5)


def test_attributes(model, digits):
    assert model.components_.shape == (30, 64)
    assert model.components_.flags.c_contiguous
    assert model.intercept_.shape == (30,)
    assert model.visible_intercept_.shape == model.mean_.shape == (64,)
    np.testing.assert_allclose(model.mean_, digits.mean(axis=0))
    np.testing.assert_allclose(model.scale_, np.sqrt(digits.var(axis=0).mean()))
    assert model.n_iter_ == len(model.loss_curve_) == 60
    assert all(type(loss) is float for loss in model.loss_curve_)


@pytest.mark.parametrize(("sparseness", "sparsity_penalty"), [(0.05, 5.0), (0.3, 5.0), (0.1, 200.0)])
def test_mean_activation_is_near_what_is_asked_for(digits, sparseness, sparsity_penalty):
    model = SparseRBM(20, sparseness=sparseness, sparsity_penalty=sparsity_penalty, max_iter=60, random_state=0)
    np.testing.assert_allclose(model.fit_transform(digits).mean(axis=0), sparseness, rtol=0.2)


def test_without_a_penalty_it_is_not(digits):
    codes = SparseRBM(20, sparseness=0.05, sparsity_penalty=0.0, max_iter=60, random_state=0).fit_transform(digits)
    assert np.abs(codes.mean(axis=0) - 0.05).max() > 0.05


@pytest.mark.slow
def test_training_lowers_the_error_of_reconstruction(digits):
    model = SparseRBM(30, sparseness=0.1, max_iter=100, random_state=0).fit(digits)
    assert model.loss_curve_[-1] < 0.75 * model.loss_curve_[0]
    assert model.loss_curve_[-1] < 0.7 * 64  # the mean sample's error is the number of features


def test_components_of_clusters_are_found(blobs):
    """With a hidden unit for about every cluster, the reconstructions are much nearer than the mean sample is."""
    model = SparseRBM(30, sparseness=0.15, max_iter=300, random_state=0).fit(blobs)
    assert model.loss_curve_[-1] < 0.5 * blobs.shape[1]


@pytest.mark.parametrize("n_features", [1, 2, 100])
@pytest.mark.parametrize("sparseness", [0.02, 0.5])
@pytest.mark.slow
def test_the_default_rate_suits_strongly_correlated_data_of_any_size(n_features, sparseness):
    """One direction has nearly all the variance, which is where steps overshoot first."""
    random = np.random.RandomState(0)
    X = np.outer(random.normal(size=500), np.ones(n_features)) + 0.01 * random.normal(size=(500, n_features))
    model = SparseRBM(100, sparseness=sparseness, max_iter=100, random_state=0).fit(X.astype(np.float32))
    assert max(model.loss_curve_) < 2 * n_features
    assert model.loss_curve_[-1] < n_features


def test_weights_that_diverge_are_an_error_that_says_what_to_do(digits):
    for rate in (1e4, 1e35):
        with pytest.raises(ValueError, match=r"learning_rate=.* lower"):
            SparseRBM(20, learning_rate=rate, random_state=0).fit(digits.astype(np.float32))


def test_weight_decay_makes_weights_shorter(digits):
    short, long = (SparseRBM(10, weight_decay=decay, max_iter=60, random_state=0).fit(digits) for decay in (1.0, 0.0))
    assert np.linalg.norm(short.components_) < 0.5 * np.linalg.norm(long.components_)
    # A unit that looks at nothing is still as active as asked for: biases do not decay.
    np.testing.assert_allclose(short.transform(digits).mean(axis=0), 0.02, rtol=0.2)


def test_momentum_carries_steps_on(digits):
    """Over the same few batches, steps that are repeated lead further."""
    slow, fast = (
        SparseRBM(10, momentum=momentum, max_iter=10, random_state=0).fit(digits).loss_curve_[-1]
        for momentum in (0.0, 0.9)
    )
    assert fast < 0.98 * slow


def test_the_same_seed_gives_the_same_bits(digits):
    codes = [SparseRBM(10, max_iter=3, random_state=seed).fit_transform(digits) for seed in (3, 3, 4)]
    assert (codes[0] == codes[1]).all()
    assert (codes[0] != codes[2]).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_type_of_the_result(digits, dtype):
    names = ("weight_decay", "sparseness", "sparsity_penalty", "momentum", "learning_rate")
    settings = dict.fromkeys(names, np.float64(0.1))
    model = SparseRBM(5, max_iter=3, random_state=0, **settings).fit(digits.astype(dtype))
    for name in ("components_", "intercept_", "visible_intercept_"):
        assert getattr(model, name).dtype == dtype
    assert model.transform(digits.astype(dtype)).dtype == dtype


def test_origin_and_units_of_the_data_do_not_matter(digits):
    expected = SparseRBM(10, max_iter=5, random_state=0).fit_transform(digits)
    changed = SparseRBM(10, max_iter=5, random_state=0).fit_transform(3.7 * digits + 1000)
    np.testing.assert_allclose(changed, expected, atol=1e-4)


def test_constant_columns_and_constant_data_do_no_harm(digits):
    X = np.c_[digits, np.full(len(digits), 7.0)]
    assert (X.std(axis=0) == 0).sum() > 1
    for data in (X, X.astype(np.float32), np.full((30, 4), 3.0), np.zeros((30, 4), np.float32)):
        model = SparseRBM(5, max_iter=20, random_state=0).fit(data)
        assert np.isfinite(model.transform(data)).all()
        assert np.isfinite(model.components_).all()
        assert np.isfinite(model.loss_curve_).all()


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((10, 3), np.nan), "NaN"),
        (np.full((10, 3), np.inf), "infinity"),
        (np.ones((1, 3)), "minimum of 2 is required"),
        (np.random.RandomState(0).normal(size=(4, 3)), "n_components=5 is more than n_samples=4"),
    ],
)
def test_bad_data(X, message):
    with pytest.raises(ValueError, match=message):
        SparseRBM(5).fit(X)


@pytest.mark.parametrize(
    "settings",
    [{"sparseness": 0.0}, {"weight_decay": -1.0}, {"sparsity_penalty": -1.0}, {"momentum": 1.0}, {"learning_rate": 0}],
)
def test_bad_settings(blobs, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        SparseRBM(5, **settings).fit(blobs)


def test_meta_parameters_are_parameters():
    assert set(SparseRBM.meta_parameters) == {"weight_decay", "sparseness", "sparsity_penalty", "momentum"}
    assert set(SparseRBM.meta_parameters) <= set(SparseRBM().get_params())


def test_callbacks_see_every_epoch_and_can_stop(digits):
    class Watcher(Callback):
        def setup(self, estimator, context):
            self.n_epochs = 0

        def on_fit_task_end(self, estimator, context):
            self.n_epochs += context.task_name == "epoch"
            return context.task_name == "epoch" and self.n_epochs == 4

    watcher = Watcher()
    model = SparseRBM(10, max_iter=9, random_state=0).set_callbacks(watcher).fit(digits)
    assert watcher.n_epochs == model.n_iter_ == len(model.loss_curve_) == 4


def test_a_restored_state_must_fit_together(model, digits):
    arrays, plain = model._fitted_state()
    restored = SparseRBM()
    restored._restore_fitted_state(arrays, plain)
    assert (restored.transform(digits) == model.transform(digits)).all()
    with pytest.raises(ValueError, match=r"visible_intercept_ has shape \(63,\)"):
        SparseRBM()._restore_fitted_state(arrays | {"visible_intercept_": arrays["visible_intercept_"][1:]}, plain)
