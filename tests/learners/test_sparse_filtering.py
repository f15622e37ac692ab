"""Sparse filtering: its objective against the definition, and what its users rely on."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from epls.callbacks import Callback
from epls.learners.sparse_filtering import SparseFiltering, feature_norms, objective
from epls.solvers import lbfgs


@parametrize_with_checks([SparseFiltering(max_iter=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def mixed():
    """400 samples in 8 dimensions: sparse sources, mixed."""
    random = np.random.RandomState(0)
    return random.laplace(size=(400, 8)) @ random.normal(size=(8, 8))


def by_definition(components, X, epsilon):
    """The codes of all samples, with a whole matrix of features."""
    features = np.sqrt((X @ components.T) ** 2 + epsilon)
    features = features / np.linalg.norm(features, axis=0)
    return features / np.linalg.norm(features, axis=1, keepdims=True)


problems = st.tuples(
    st.integers(0, 2**32 - 1),  # the seed
    st.integers(1, 12),  # samples
    st.integers(1, 6),  # features
    st.integers(1, 7),  # units
    st.sampled_from([1e-8, 1e-2, 1.0]),  # epsilon
)


def problem(seed, n_samples, n_features, n_units):
    random = np.random.RandomState(seed)
    X = random.normal(size=(n_samples, n_features))
    X[random.uniform(size=n_samples) < 0.1] = 0
    return random.normal(size=(n_units, n_features)), X


class TestObjective:
    @given(problems)
    def test_value_is_that_of_the_definition(self, sizes):
        *sizes, epsilon = sizes
        components, X = problem(*sizes)
        value, _ = objective(components, X, X.T @ X, epsilon)
        assert value == pytest.approx(by_definition(components, X, epsilon).sum() / len(X), rel=1e-9)

    @given(problems)
    def test_norms_are_those_of_the_definition(self, sizes):
        *sizes, epsilon = sizes
        components, X = problem(*sizes)
        expected = np.linalg.norm(np.sqrt((X @ components.T) ** 2 + epsilon), axis=0)
        np.testing.assert_allclose(feature_norms(components, X.T @ X, len(X), epsilon), expected, rtol=1e-7)

    @pytest.mark.parametrize("seed", range(5))
    @pytest.mark.parametrize("epsilon", [1e-8, 1e-2, 1.0])
    def test_gradient_is_that_of_finite_differences(self, seed, epsilon):
        components, X = problem(seed, 30, 5, 7)
        X[0] = 0
        moments = X.T @ X
        _, gradient = objective(components, X, moments, epsilon)
        step = 1e-6
        for place in np.ndindex(components.shape):
            moved = np.zeros_like(components)
            moved[place] = step
            ahead, behind = (by_definition(components + sign * moved, X, epsilon).sum() / len(X) for sign in (1, -1))
            assert gradient[place] == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-7)

    def test_float32_agrees_with_float64(self, mixed):
        components = np.random.RandomState(1).normal(size=(20, 8))
        moments = mixed.T @ mixed
        value, gradient = objective(components, mixed, moments)
        value_32, gradient_32 = objective(components, mixed.astype(np.float32), moments)
        assert value_32 == pytest.approx(value, rel=1e-6)
        np.testing.assert_allclose(gradient_32, gradient, atol=1e-5 * abs(gradient).max())

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_blocks_and_threads_do_not_matter(self, mixed, dtype, monkeypatch):
        X = mixed.astype(dtype)
        components = np.random.RandomState(1).normal(size=(20, 8))
        value, gradient = objective(components, X, mixed.T @ mixed)
        monkeypatch.setattr(lbfgs, "_BLOCK_ROWS", 64)  # 400 = 6 * 64 + 16
        with threadpool_limits(1, user_api="blas"):
            in_blocks = objective(components, X, mixed.T @ mixed)
        monkeypatch.setattr("epls.utils.threads.blas_threads", lambda: 3)
        in_threads = objective(components, X, mixed.T @ mixed)
        tolerance = 10 * float(np.finfo(dtype).eps)
        assert in_blocks[0] == pytest.approx(value, rel=tolerance)
        np.testing.assert_allclose(in_blocks[1], gradient, atol=tolerance * abs(gradient).max())
        assert in_threads[0] == pytest.approx(in_blocks[0], rel=1e-14)
        np.testing.assert_allclose(in_threads[1], in_blocks[1], atol=tolerance * abs(gradient).max())

    def test_memory_does_not_grow_with_the_samples(self, monkeypatch):
        components, X = problem(0, 5000, 4, 100)
        monkeypatch.setattr(lbfgs, "_BLOCK_ROWS", 256)
        objective(components, X, X.T @ X)  # compile
        tracemalloc.start()
        objective(components, X, X.T @ X)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < X.nbytes / 4 * 100 / 4  # all features would take four times that

    @given(problems, st.floats(0.1, 10))
    def test_neither_length_nor_order_of_components_matters_but_for_zeros(self, sizes, factor):
        components, X = problem(*sizes[:-1])
        X += 10 * (X == 0)  # of a sample of zeros, only what rounds off the absolute value is left
        value, gradient = objective(components, X, X.T @ X, 1e-15)
        factors = np.linspace(1, factor, len(components))[:, None]
        scaled_value, scaled_gradient = objective((components * factors)[::-1], X, X.T @ X, 1e-15)
        assert scaled_value == pytest.approx(value, rel=1e-5)
        np.testing.assert_allclose(scaled_gradient[::-1] * factors, gradient, rtol=1e-3, atol=1e-5)
        assert np.abs(np.einsum("ij,ij->i", gradient, components)).max() < 1e-5


@pytest.fixture(scope="module")
def model(mixed):
    return SparseFiltering(12, max_iter=100, random_state=0).fit(mixed)


def test_attributes(model, mixed):
    assert model.components_.shape == (12, 8)
    assert model.components_.flags.c_contiguous
    assert model.n_iter_ == len(model.loss_curve_) <= 100
    np.testing.assert_allclose(
        model.feature_norms_, np.linalg.norm(np.sqrt((mixed @ model.components_.T) ** 2 + 1e-8), axis=0)
    )
    assert SparseFiltering.meta_parameters == ()


def test_codes_of_the_training_samples_are_those_of_the_definition(model, mixed):
    codes = model.transform(mixed)
    np.testing.assert_allclose(codes, by_definition(model.components_, mixed, 1e-8), rtol=1e-6)
    assert codes.sum() / len(mixed) == pytest.approx(model.loss_curve_[-1], rel=1e-9)


def test_codes_do_not_depend_on_other_samples(model, mixed):
    alone = np.concatenate([model.transform(sample[None]) for sample in mixed[:20]])
    np.testing.assert_allclose(alone, model.transform(mixed)[:20], rtol=1e-9)


def test_learning_lowers_the_objective(mixed, model):
    start = np.random.RandomState(0).standard_normal((12, 8))
    at_start = by_definition(start, mixed, 1e-8).sum() / len(mixed)
    assert (np.diff(model.loss_curve_) <= 0).all()
    assert model.loss_curve_[-1] < 0.93 * at_start


def test_sparse_coordinates_are_found():
    """Of samples with one active source each, codes can have one active unit each: the least that there is."""
    random = np.random.RandomState(0)
    X = np.eye(6)[random.randint(6, size=600)] * random.normal(size=(600, 1))
    X = X @ np.linalg.qr(random.normal(size=(6, 6)))[0]
    losses = [SparseFiltering(6, max_iter=300, random_state=seed).fit(X).loss_curve_[-1] for seed in range(4)]
    assert min(losses) < 1.01  # there are other minima, in which two units share a source
    assert max(losses) < 1.5


@pytest.mark.parametrize("factor", [2.0**-40, 0.25, 2.0**70])
def test_the_unit_of_the_data_does_not_matter(mixed, factor):
    expected = SparseFiltering(12, max_iter=30, random_state=0).fit_transform(mixed)
    codes = SparseFiltering(12, max_iter=30, random_state=0).fit_transform(mixed * factor)
    np.testing.assert_allclose(codes, expected, rtol=1e-6)  # powers of 2 round nothing


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_types_and_seeds(mixed, dtype):
    X = mixed.astype(dtype)
    models = [SparseFiltering(10, max_iter=5, random_state=seed).fit(X) for seed in (3, 3, 4)]
    assert models[0].components_.dtype == models[0].feature_norms_.dtype == models[0].transform(X).dtype == dtype
    assert (models[0].components_ == models[1].components_).all()
    assert (models[0].components_ != models[2].components_).any()
    assert models[0].transform(mixed).dtype == np.float64


def test_samples_of_zeros_do_no_harm(mixed):
    X = np.concatenate([mixed, np.zeros((5, 8))]).astype(np.float32)
    codes = SparseFiltering(10, max_iter=20, random_state=0).fit_transform(X)
    assert np.isfinite(codes).all()
    nothing = SparseFiltering(3, random_state=0).fit(np.zeros((5, 8)))
    assert nothing.n_iter_ == 1
    assert np.isfinite(nothing.transform(mixed)).all()


def test_tolerance_ends_learning(mixed):
    model = SparseFiltering(12, tol=0.01, random_state=0).fit(mixed)
    assert model.n_iter_ < 30
    assert model.loss_curve_[-2] - model.loss_curve_[-1] <= 0.01 * model.loss_curve_[0] * 1.1


def test_callbacks_see_every_iteration_and_can_stop(mixed):
    class Watcher(Callback):
        def setup(self, estimator, context):
            self.iterations = 0

        def on_fit_task_end(self, estimator, context):
            self.iterations += context.task_name == "epoch"
            return self.iterations == self.last

    watcher = Watcher()
    for watcher.last, max_iter, expected in [(4, 9, 4), (100, 9, 9), (1, 1, 1)]:
        model = SparseFiltering(5, max_iter=max_iter, random_state=0).set_callbacks(watcher).fit(mixed)
        assert watcher.iterations == model.n_iter_ == expected


class TestBadInput:
    @pytest.mark.parametrize(
        ("X", "message"),
        [
            ([[1.0, np.nan], [2.0, 3.0]], "NaN"),
            ([[1.0, np.inf], [2.0, 3.0]], "infinity"),
            ([[1.0, 2.0]], "1 sample"),
            ([[1e200], [-1e200]], "too large"),
            ([[1e-200], [-1e-200]], "too small"),
        ],
    )
    def test_data(self, X, message):
        with pytest.raises(ValueError, match=message):
            SparseFiltering(random_state=0).fit(X)

    def test_more_units_than_samples(self, mixed):
        with pytest.raises(ValueError, match=r"n_components=11 is more than n_samples=10.*at most 10"):
            SparseFiltering(11).fit(mixed[:10])

    @pytest.mark.parametrize("settings", [{"n_components": 0}, {"max_iter": 0}, {"tol": -1}])
    def test_settings(self, settings, mixed):
        (name,) = settings
        with pytest.raises(ValueError, match=f"'{name}' parameter of SparseFiltering must be"):
            SparseFiltering(**settings).fit(mixed)
