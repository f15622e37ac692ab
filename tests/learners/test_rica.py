"""RICA: its objective against the definition, and what its users rely on."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls.learners.rica import RICA, objective, objective_of_directions
from epls.solvers import lbfgs


@parametrize_with_checks([RICA(max_iter=3)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def by_definition(components, X, penalty, epsilon):
    """The objective, sample by sample."""
    total = 0.0
    for x in X:
        codes = components @ x
        total += penalty * np.sum((components.T @ codes - x) ** 2) + np.sum(np.sqrt(codes**2 + epsilon))
    return total / len(X)


problems = st.tuples(
    st.integers(0, 2**32 - 1),  # the seed
    st.integers(1, 12),  # samples
    st.integers(1, 6),  # features
    st.integers(1, 9),  # units
)
weights = st.tuples(st.floats(0, 10), st.sampled_from([1e-8, 1e-2, 1.0]))  # penalty, epsilon


def problem(seed, n_samples, n_features, n_units):
    random = np.random.RandomState(seed)
    return random.normal(size=(n_units, n_features)), random.normal(size=(n_samples, n_features))


class TestObjective:
    @given(problems, weights)
    def test_value_is_that_of_the_definition(self, sizes, weights):
        components, X = problem(*sizes)
        value, _ = objective(components, X, X.T @ X / len(X), *weights)
        assert value == pytest.approx(by_definition(components, X, *weights), rel=1e-9)

    @pytest.mark.parametrize("n_units", [2, 5, 9])
    @pytest.mark.parametrize(("penalty", "epsilon"), [(0, 1e-8), (0.5, 1e-8), (10, 1e-2)])
    def test_gradient_is_that_of_finite_differences(self, n_units, penalty, epsilon):
        components, X = problem(n_units, 30, 5, n_units)
        _, gradient = objective(components, X, X.T @ X / len(X), penalty, epsilon)
        step = 1e-6
        for place in np.ndindex(components.shape):
            moved = np.zeros_like(components)
            moved[place] = step
            ahead, behind = (by_definition(components + sign * moved, X, penalty, epsilon) for sign in (1, -1))
            assert gradient[place] == pytest.approx((ahead - behind) / (2 * step), rel=1e-4, abs=1e-6)

    @pytest.mark.parametrize("n_units", [2, 5, 9])
    def test_gradient_by_directions_is_that_of_finite_differences(self, n_units):
        rows, X = problem(n_units, 30, 5, n_units)

        def expected(rows):
            return by_definition(rows / np.linalg.norm(rows, axis=1, keepdims=True), X, 0.5, 1e-8)

        value, gradient = objective_of_directions(rows, X, X.T @ X / len(X), 0.5)
        assert value == pytest.approx(expected(rows), rel=1e-9)
        step = 1e-6
        for place in np.ndindex(rows.shape):
            moved = np.zeros_like(rows)
            moved[place] = step
            slope = (expected(rows + moved) - expected(rows - moved)) / (2 * step)
            assert gradient[place] == pytest.approx(slope, rel=1e-4, abs=1e-6)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_blocks_do_not_matter(self, dtype, monkeypatch):
        components, X = problem(0, 400, 8, 12)
        value, gradient = objective(components, X, X.T @ X / 400, 0.5)
        monkeypatch.setattr(lbfgs, "_BLOCK_ROWS", 64)  # 400 = 6 * 64 + 16
        value_in_blocks, gradient_in_blocks = objective(components, X.astype(dtype), X.T @ X / 400, 0.5)
        tolerance = 10 * float(np.finfo(dtype).eps)
        assert value_in_blocks == pytest.approx(value, rel=tolerance)
        np.testing.assert_allclose(gradient_in_blocks, gradient, atol=tolerance * abs(gradient).max())

    @given(problems, weights, st.floats(0.01, 100))
    def test_the_unit_of_the_data_divides_the_penalty(self, sizes, weights, unit):
        components, X = problem(*sizes)
        penalty, epsilon = weights
        value, gradient = objective(components, X, X.T @ X / len(X), penalty, epsilon)
        scaled = objective(components, unit * X, unit**2 * X.T @ X / len(X), penalty / unit, epsilon * unit**2)
        assert scaled[0] == pytest.approx(unit * value, rel=1e-9)
        np.testing.assert_allclose(scaled[1], unit * gradient, rtol=1e-6, atol=1e-9 * unit * abs(gradient).max())


@pytest.fixture(scope="module")
def sources():
    return np.random.RandomState(0).laplace(scale=np.sqrt(0.5), size=(3000, 8))  # of unit variance


@pytest.fixture(scope="module")
def rotation():
    return np.linalg.qr(np.random.RandomState(1).normal(size=(8, 8)))[0]


@pytest.fixture(scope="module")
def white(sources, rotation):
    return sources @ rotation


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sources_of_whitened_samples_are_found(white, rotation, dtype):
    model = RICA(8, reconstruction_penalty=1, random_state=0).fit(white.astype(dtype))
    cosines = np.abs(model.components_ @ rotation.T)
    assert sorted(cosines.argmax(axis=0)) == list(range(8))
    assert cosines.max(axis=0).min() > 0.99


def test_a_large_penalty_makes_complete_components_orthonormal(white):
    def away(penalty):
        components = RICA(8, reconstruction_penalty=penalty, random_state=0).fit(white).components_
        return np.abs(components @ components.T - np.eye(8)).max()

    assert away(1000) < 1e-3
    assert away(0.01) > 0.1


def test_a_large_penalty_makes_overcomplete_components_a_tight_frame(white):
    """W'W cannot be the identity, whose trace is 8, where 12 components have unit norm: it becomes a multiple."""
    components = RICA(12, reconstruction_penalty=1000, random_state=0).fit(white).components_
    np.testing.assert_allclose(components.T @ components, np.eye(8) * 12 / 8, atol=0.1)


def test_attributes(white):
    model = RICA(12, max_iter=40, random_state=0).fit(white)
    assert model.components_.shape == (12, 8)
    assert model.components_.flags.c_contiguous
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    assert model.n_iter_ == len(model.loss_curve_) == 40
    assert (np.diff(model.loss_curve_) <= 0).all()
    assert model.loss_curve_[-1] == pytest.approx(by_definition(model.components_, white, 0.5, 1e-8), rel=1e-9)
    np.testing.assert_allclose(model.transform(white), white @ model.components_.T)
    assert RICA.meta_parameters == ("reconstruction_penalty",)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_types_and_seeds(white, dtype):
    X = white[:300].astype(dtype)
    models = [RICA(10, max_iter=5, random_state=seed).fit(X) for seed in (3, 3, 4)]
    assert models[0].components_.dtype == models[0].transform(X).dtype == dtype
    assert (models[0].components_ == models[1].components_).all()
    assert (models[0].components_ != models[2].components_).any()
    assert models[0].transform(white).dtype == np.float64


def test_zeros_do_no_harm():
    model = RICA(3, random_state=0).fit(np.zeros((5, 4)))
    assert model.n_iter_ == 1
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)


class TestBadInput:
    @pytest.mark.parametrize(
        ("X", "message"),
        [
            ([[1.0, np.nan], [2.0, 3.0]], "NaN"),
            ([[1.0, np.inf], [2.0, 3.0]], "infinity"),
            ([[1.0, 2.0]], "1 sample"),
            ([[1e200], [-1e200]], "too large"),
            ([[1e-200], [-1e-200]], "too small"),
            (np.array([[1e30], [-1e30]], np.float32), "scale the data to about 1"),
        ],
    )
    def test_data(self, X, message):
        with pytest.raises(ValueError, match=message):
            RICA(random_state=0).fit(X)

    def test_more_units_than_samples(self, white):
        with pytest.raises(ValueError, match=r"n_components=11 is more than n_samples=10.*at most 10"):
            RICA(11).fit(white[:10])

    @pytest.mark.parametrize(
        "settings", [{"n_components": 0}, {"reconstruction_penalty": 0}, {"max_iter": 0}, {"tol": -1}]
    )
    def test_settings(self, settings, white):
        (name,) = settings
        with pytest.raises(ValueError, match=f"'{name}' parameter of RICA must be"):
            RICA(**settings).fit(white)
