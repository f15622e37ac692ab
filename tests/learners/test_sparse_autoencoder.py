"""The sparse auto-encoder: its objective and gradient, what training reaches, and what users do with it."""

import numpy as np
import pytest
from scipy.optimize import approx_fprime, minimize
from scipy.special import expit
from sklearn.datasets import load_digits
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls.algorithm.layer import standardized_batches
from epls.algorithm.settings import enough_epochs
from epls.data.samples import ArraySamples
from epls.learners.sparse_autoencoder import SparseAutoencoder, first_weights, objective

SETTINGS = {"weight_decay": 0.3, "sparseness": 0.2, "sparsity_penalty": 0.7}


@parametrize_with_checks([SparseAutoencoder(max_iter=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    return load_digits().data


@pytest.fixture(scope="module")
def model(digits):
    return SparseAutoencoder(30, sparseness=0.1, max_iter=150, random_state=0).fit(digits)


def by_definition(X, W1, b1, W2, b2, weight_decay, sparseness, sparsity_penalty):
    """The objective in plain loops."""
    total, activity = 0.0, np.zeros(len(b1))
    for x in X:
        h = 1 / (1 + np.exp(-(W1 @ x + b1)))
        rebuilt = b2 + sum(h[j] * W2[j] for j in range(len(h)))
        total += sum((rebuilt - x) ** 2) / 2 / len(X)
        activity += h / len(X)
    total += weight_decay / 2 * (sum(W1.ravel() ** 2) + sum(W2.ravel() ** 2))
    for m in activity:
        divergence = sparseness * np.log(sparseness / m) + (1 - sparseness) * np.log((1 - sparseness) / (1 - m))
        total += sparsity_penalty * divergence
    return total


@pytest.fixture
def batch():
    """A batch of 7 samples of 4 features, and the weights of 5 units, all far from 0."""
    random = np.random.RandomState(1)
    inputs = np.ones((7, 5))
    inputs[:, :-1] = random.normal(size=(7, 4))
    return inputs, random.normal(size=(5, 5)), random.normal(size=(6, 4))


class TestObjective:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_is_the_definition(self, batch, dtype):
        inputs, encoder, decoder = batch
        loss, *_ = objective(*(array.astype(dtype) for array in batch), **SETTINGS)
        parts = inputs[:, :-1], encoder[:, :-1], encoder[:, -1], decoder[:-1], decoder[-1]
        np.testing.assert_allclose(loss, by_definition(*parts, **SETTINGS), rtol=1e-12 if dtype == np.float64 else 1e-5)

    @pytest.mark.parametrize("off", [None, "weight_decay", "sparsity_penalty"])
    def test_gradient_is_that_of_finite_differences(self, batch, off):
        inputs, encoder, decoder = batch
        settings = SETTINGS | ({off: 0.0} if off else {})
        _, by_encoder, by_decoder = objective(inputs, encoder, decoder, **settings)
        differences = approx_fprime(
            encoder.ravel(), lambda flat: objective(inputs, flat.reshape(encoder.shape), decoder, **settings)[0], 1e-7
        )
        np.testing.assert_allclose(by_encoder.ravel(), differences, atol=1e-5)
        differences = approx_fprime(
            decoder.ravel(), lambda flat: objective(inputs, encoder, flat.reshape(decoder.shape), **settings)[0], 1e-7
        )
        np.testing.assert_allclose(by_decoder.ravel(), differences, atol=1e-5)

    def test_float32_gives_the_same_gradient(self, batch):
        expected = objective(*batch, **SETTINGS)
        result = objective(*(array.astype(np.float32) for array in batch), **SETTINGS)
        for single, double in zip(result[1:], expected[1:], strict=True):
            assert single.dtype == np.float32
            np.testing.assert_allclose(single, double, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("bias", [-2000.0, 2000.0])
    def test_is_finite_where_units_are_always_silent_or_active(self, batch, bias):
        inputs, encoder, decoder = batch
        encoder[:, -1] = bias
        for dtype in (np.float32, np.float64):
            loss, *gradients = objective(*(a.astype(dtype) for a in (inputs, encoder, decoder)), **SETTINGS)
            assert np.isfinite(loss)
            assert all(np.isfinite(gradient).all() for gradient in gradients)


class TestMinibatches:
    @pytest.mark.parametrize(("batch_size", "sizes"), [(4, [4, 3, 3]), (10, [10]), (9, [5, 5]), (100, [10])])
    def test_are_of_equal_size_to_within_one(self, batch_size, sizes):
        samples, random = ArraySamples(np.random.RandomState(0).normal(size=(10, 2))), np.random.RandomState(0)
        assert [len(inputs) for inputs in standardized_batches(samples, batch_size, random)] == sizes

    def test_have_every_sample_once_standardised_and_a_column_of_ones(self, blobs):
        samples, random = ArraySamples(blobs), np.random.RandomState(0)
        first, second = (
            np.vstack([inputs.copy() for inputs in standardized_batches(samples, 30, random)]) for _ in range(2)
        )
        expected = (blobs - blobs.mean(axis=0)) / np.sqrt(blobs.var(axis=0).mean())
        for epoch in (first, second):
            assert (epoch[:, -1] == 1).all()
            order = np.argsort(epoch[:, 0])
            np.testing.assert_allclose(epoch[order, :-1], expected[np.argsort(expected[:, 0])], atol=1e-5)
        assert (first != second).any()

    @pytest.mark.parametrize(("n_batches", "expected"), [(10, 20), (1, 50), (3, 20)])
    def test_number_of_epochs(self, n_batches, expected):
        assert enough_epochs(n_batches, 20, 50) == expected


def test_transform_is_the_formula_of_the_attributes(model, digits):
    standard = (digits - model.mean_) / model.scale_
    expected = expit(standard @ model.components_.T + model.intercept_)
    np.testing.assert_allclose(model.transform(digits), expected, atol=1e-5)  # inputs are rounded to a grid of 1e-6


def test_layer_gives_what_transform_gives(model, digits):
    layer = model.as_layer().folded()
    outputs = layer.activation.value(digits @ layer.weights.T - layer.center + layer.intercept)
    np.testing.assert_allclose(outputs, model.transform(digits), atol=1e-5)


def test_attributes(model, digits):
    assert model.components_.shape == model.decoder_.shape == (30, 64)
    assert model.components_.flags.c_contiguous
    assert model.intercept_.shape == (30,)
    assert model.decoder_intercept_.shape == model.mean_.shape == (64,)
    np.testing.assert_allclose(model.mean_, digits.mean(axis=0))
    np.testing.assert_allclose(model.scale_, np.sqrt(digits.var(axis=0).mean()))
    assert model.n_iter_ == len(model.loss_curve_) == 150
    assert all(type(loss) is float for loss in model.loss_curve_)


def test_the_loss_is_that_of_the_attributes(digits):
    """In the last epoch, weights all but stand still; the mean of two halves' objectives is near that of the whole."""
    model = SparseAutoencoder(20, batch_size=900, max_iter=60, random_state=0).fit(digits)
    X = (digits - model.mean_) / model.scale_
    weights = model.components_, model.intercept_, model.decoder_, model.decoder_intercept_
    np.testing.assert_allclose(model.loss_curve_[-1], by_definition(X, *weights, 3e-3, 0.035, 5.0), rtol=0.01)


@pytest.mark.slow
def test_reaches_what_full_batches_and_second_derivatives_reach(digits):
    """L-BFGS is what the method is usually trained with."""
    inputs = next(standardized_batches(ArraySamples(digits), len(digits), np.random.RandomState(0)))
    settings = {"weight_decay": 3e-3, "sparseness": 0.1, "sparsity_penalty": 5.0}
    encoder, decoder = first_weights(20, 64, 0.1, np.random.RandomState(0), np.dtype(float))

    def of_flat(flat):
        parts = flat[: encoder.size].reshape(encoder.shape), flat[encoder.size :].reshape(decoder.shape)
        loss, *gradients = objective(inputs, *parts, **settings)
        return loss, np.concatenate([gradient.ravel() for gradient in gradients])

    start = np.concatenate([encoder.ravel(), decoder.ravel()])
    best = minimize(of_flat, start, jac=True, method="L-BFGS-B", options={"maxiter": 150}).fun
    model = SparseAutoencoder(20, max_iter=300, random_state=0, **settings).fit(digits)
    weights = model.components_, model.intercept_, model.decoder_, model.decoder_intercept_
    assert best < 0.8 * of_flat(start)[0]
    assert by_definition(inputs[:, :-1], *weights, **settings) < 1.05 * best


@pytest.mark.parametrize("sparseness", [0.05, 0.3])
def test_mean_activation_is_near_what_is_asked_for(digits, sparseness):
    asked, free = (
        SparseAutoencoder(20, sparseness=sparseness, sparsity_penalty=penalty, max_iter=150, random_state=0)
        for penalty in (100.0, 0.0)
    )
    np.testing.assert_allclose(asked.fit_transform(digits).mean(axis=0), sparseness, rtol=0.1)
    assert np.abs(free.fit_transform(digits).mean(axis=0) - sparseness).max() > 0.5 * sparseness


def test_rebuilds_data_of_few_dimensions():
    random = np.random.RandomState(0)
    X = random.normal(size=(1500, 3)) @ random.normal(size=(3, 20)) + 5
    model = SparseAutoencoder(40, sparseness=0.2, sparsity_penalty=1.0, max_iter=400, random_state=0)
    rebuilt = model.fit_transform(X) @ model.decoder_ + model.decoder_intercept_
    error = np.mean(((X - model.mean_) / model.scale_ - rebuilt) ** 2)
    assert error < 0.1  # of a variance of 1


def test_training_makes_the_objective_less(model):
    assert model.loss_curve_[-1] < 0.7 * model.loss_curve_[0]


def test_weight_decay_makes_weights_shorter(digits):
    short, long = (
        SparseAutoencoder(10, weight_decay=decay, max_iter=50, random_state=0).fit(digits) for decay in (1.0, 1e-4)
    )
    assert np.linalg.norm(short.components_) < 0.5 * np.linalg.norm(long.components_)
    assert np.linalg.norm(short.decoder_) < 0.5 * np.linalg.norm(long.decoder_)


def test_the_same_seed_gives_the_same_bits(digits):
    codes = [SparseAutoencoder(10, max_iter=3, random_state=seed).fit_transform(digits) for seed in (3, 3, 4)]
    assert (codes[0] == codes[1]).all()
    assert (codes[0] != codes[2]).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_type_of_the_result(digits, dtype):
    settings = {"weight_decay": np.float64(0.01), "sparseness": np.float64(0.1), "sparsity_penalty": np.float64(2)}
    model = SparseAutoencoder(5, max_iter=3, random_state=0, **settings).fit(digits.astype(dtype))
    for name in ("components_", "intercept_", "decoder_", "decoder_intercept_"):
        assert getattr(model, name).dtype == dtype
    assert model.transform(digits.astype(dtype)).dtype == dtype


def test_float32_learns_what_float64_learns(digits):
    single, double = (
        SparseAutoencoder(10, max_iter=5, random_state=0).fit(digits.astype(t)) for t in (np.float32, np.float64)
    )
    np.testing.assert_allclose(single.transform(digits), double.transform(digits), atol=1e-3)


def test_origin_and_units_of_the_data_do_not_matter(digits):
    expected = SparseAutoencoder(10, max_iter=5, random_state=0).fit_transform(digits)
    changed = SparseAutoencoder(10, max_iter=5, random_state=0).fit_transform(3.7 * digits + 1000)
    np.testing.assert_allclose(changed, expected, atol=1e-4)


def test_codes_do_not_depend_on_the_blocks_they_are_computed_in(model, digits, monkeypatch):
    expected = model.transform(digits)
    monkeypatch.setattr(model, "_rows_at_a_time", lambda: 100)
    np.testing.assert_allclose(model.transform(digits), expected, atol=1e-12)


def test_constant_columns_and_constant_data_do_no_harm(digits):
    X = np.c_[digits, np.full(len(digits), 7.0)]
    assert (X.std(axis=0) == 0).sum() > 1
    for data in (X, X.astype(np.float32), np.full((30, 4), 3.0), np.zeros((30, 4), np.float32)):
        model = SparseAutoencoder(5, max_iter=20, random_state=0).fit(data)
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
        SparseAutoencoder(5).fit(X)


@pytest.mark.parametrize(
    "settings",
    [{"sparseness": 0.0}, {"sparseness": 1.0}, {"weight_decay": -1.0}, {"sparsity_penalty": -1.0}, {"batch_size": 0}],
)
def test_bad_settings(blobs, settings):
    with pytest.raises(ValueError, match=next(iter(settings))):
        SparseAutoencoder(5, **settings).fit(blobs)


def test_meta_parameters_are_parameters():
    assert set(SparseAutoencoder.meta_parameters) == {"weight_decay", "sparseness", "sparsity_penalty"}
    assert set(SparseAutoencoder.meta_parameters) <= set(SparseAutoencoder().get_params())


def test_a_restored_state_must_fit_together(model, digits):
    arrays, plain = model._fitted_state()
    restored = SparseAutoencoder()
    restored._restore_fitted_state(arrays, plain)
    assert (restored.transform(digits) == model.transform(digits)).all()
    with pytest.raises(ValueError, match=r"decoder_ has shape \(29, 64\)"):
        SparseAutoencoder()._restore_fitted_state(arrays | {"decoder_": arrays["decoder_"][1:]}, plain)
    with pytest.raises(ValueError, match="scale_"):
        SparseAutoencoder()._restore_fitted_state(arrays, plain | {"scale_": 0.0})
