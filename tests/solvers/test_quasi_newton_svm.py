"""The solver for large data, on small ones, against scikit-learn's and against plain NumPy."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from svm_problems import free_scaling, gradients, linear_svc, made_up, objectives, signs_of

from epls.solvers import quasi_newton_svm
from epls.solvers.newton_svm import NewtonSVMs
from epls.solvers.quasi_newton_svm import QuasiNewtonSVMs, is_large


@pytest.fixture
def single_gram(monkeypatch):
    """The Gram matrix and its factor in single precision, as with thousands of features."""
    monkeypatch.setattr(quasi_newton_svm, "_MANY_FEATURES", 0)


def solved(X, y, C, **options):
    """The solution with all samples, from a cold start."""
    problems = QuasiNewtonSVMs(X, signs_of(y), **options)
    path, (objective,) = problems.solve(np.ones((1, len(X))), C, problems.start(1))
    coef, intercept = problems.weights(path)
    return SimpleNamespace(coef_=coef, intercept_=intercept, objective=objective, problems=problems)


SHAPES = pytest.mark.parametrize("shape", [(60, 100), (60, 59), (300, 20)])


class TestOptimum:
    @SHAPES
    @pytest.mark.parametrize("n_classes", [2, 10])
    @pytest.mark.parametrize("C", [1e-4, 0.03, 3.0])
    def test_is_that_of_linear_svc(self, shape, n_classes, C):
        X, y = made_up(*shape, n_classes)
        ours, theirs = solved(X, y, C, intercept_scaling=1), linear_svc(C).fit(X, y)
        assert ours.coef_.shape == theirs.coef_.shape
        np.testing.assert_allclose(ours.objective, objectives(theirs, X, y, C, 1), rtol=2e-6)
        np.testing.assert_allclose(ours.objective, objectives(ours, X, y, C, 1), rtol=1e-9)
        margins = (X @ ours.coef_.T + ours.intercept_).reshape(theirs.decision_function(X).shape)
        np.testing.assert_allclose(margins, theirs.decision_function(X), atol=0.01)

    @SHAPES
    @pytest.mark.parametrize("C", [1e-6, 0.01, 1.0, 100.0])
    @pytest.mark.parametrize("tol", [1e-3, 1e-9])
    def test_gradient_of_the_objective_is_as_small_as_stated(self, shape, C, tol):
        """In single precision for the larger of the tolerances, in double for the smaller."""
        X, y = made_up(*shape, 3)
        model = solved(X, y, C, intercept_scaling=1, tol=tol)
        gap = 0.5 * np.square(gradients(model, X, y, C, 1)).sum(axis=1)
        assert (gap <= 1.01 * tol * model.objective).all()

    @SHAPES
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_with_all_that_large_data_go_through(self, shape, dtype, single_gram):
        X, y = made_up(*shape, 3)
        X = X.astype(dtype)
        for order in "CF":
            model = solved(np.asarray(X, order=order), y, 0.1, block_elements=700)
            assert model.coef_.dtype == model.intercept_.dtype == dtype
            gap = 0.5 * np.square(gradients(model, X.astype(np.float64), y, 0.1, free_scaling(X))).sum(axis=1)
            assert (gap <= 1.1e-6 * model.objective).all()

    @SHAPES
    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e20])
    def test_whatever_the_units_of_the_data(self, shape, scale, single_gram):
        X, y = made_up(*shape, 3)
        C = 1 / scale**2
        model = solved(scale * X, y, C, intercept_scaling=1)
        gap = 0.5 * np.square(gradients(model, scale * X, y, C, 1)).sum(axis=1)
        assert (gap <= 1.01e-6 * model.objective).all()

    @SHAPES
    @pytest.mark.parametrize("mean", [30.0, 1000.0])
    def test_features_far_from_zero(self, shape, mean, single_gram):
        """A Gram matrix that single precision cannot factorise as it is."""
        X, y = made_up(*shape, 3)
        X, C = X + mean, 0.1
        model = solved(X, y, C)
        gap = 0.5 * np.square(gradients(model, X, y, C, free_scaling(X))).sum(axis=1)
        assert (gap <= 1.1e-6 * model.objective).all()


class TestFolds:
    def test_each_is_the_problem_of_its_samples(self):
        X, y = made_up(60, 10, 3)
        problems = QuasiNewtonSVMs(X, signs_of(y), intercept_scaling=1, tol=1e-10)
        weights = np.ones((2, 60))
        weights[0, :20] = weights[1, 40:] = 0
        path, values = problems.solve(weights, 0.1, problems.start(2))
        coefs, intercepts = (found.reshape(2, 3, -1) for found in problems.weights(path))
        for coef, intercept, value, kept in zip(coefs, intercepts[..., 0], values, weights > 0, strict=True):
            theirs = linear_svc(0.1).fit(X[kept], y[kept])
            np.testing.assert_allclose(value, objectives(theirs, X[kept], y[kept], 0.1, 1), rtol=1e-6)
            np.testing.assert_allclose(coef, theirs.coef_, atol=1e-3)
            np.testing.assert_allclose(intercept, theirs.intercept_, atol=1e-3)
        found = [(X @ coef.T + b[:, 0]).argmax(axis=1) for coef, b in zip(coefs, intercepts, strict=True)]
        np.testing.assert_array_equal(problems.predict(path), found)

    def test_the_way_does_not_decide_the_end(self):
        """Upwards, downwards and by way of what was learned for another C and in single precision."""
        X, y = made_up(90, 40, 3)
        problems, all_samples = QuasiNewtonSVMs(X, signs_of(y), tol=1e-10), np.ones((1, 90))
        cold, _ = problems.solve(all_samples, 1.0, problems.start(1))
        for Cs in ([0.01, 0.1, 0.3], [100.0, 10.0]):
            path = problems.start(1)
            for C in Cs:
                path, _ = problems.solve(all_samples, C, path, problems.fold_tol)
            path, _ = problems.solve(all_samples, 1.0, path)
            np.testing.assert_allclose(problems.weights(path)[0], problems.weights(cold)[0], atol=1e-4)

    def test_a_start_is_left_as_it_is(self):
        X, y = made_up(60, 10, 3)
        problems = QuasiNewtonSVMs(X, signs_of(y))
        first, _ = problems.solve(np.ones((2, 60)), 0.1, problems.start(2))
        kept = first.weights.copy(), first.margins.copy(), len(first.memory.steps)
        problems.solve(np.ones((2, 60)), 10.0, first)
        assert (first.weights == kept[0]).all()
        assert (first.margins == kept[1]).all()
        assert len(first.memory.steps) == kept[2]

    def test_what_was_learned_saves_products(self):
        X, y = made_up(600, 80, 3)
        counts = []
        for forget in (False, True):
            problems = QuasiNewtonSVMs(X, signs_of(y))
            path = problems.start(1)
            for C in np.logspace(-3, 2, 11):
                path, _ = problems.solve(np.ones((1, 600)), C, path, problems.fold_tol)
                if forget:
                    path.memory = type(path.memory)()
            counts.append(problems.n_products)
        assert counts[0] < 0.95 * counts[1]

    def test_fewer_products_than_newtons_method(self):
        X, y = made_up(2000, 50, 3)
        counts = []
        for solver in (QuasiNewtonSVMs, NewtonSVMs):
            problems = solver(X, signs_of(y))
            path = problems.start(1)
            for C in np.logspace(-3, 2, 11):
                path, _ = problems.solve(np.ones((1, 2000)), C, path, 1e-4)
            counts.append(problems.n_products)
        assert counts[0] < 0.7 * counts[1]


class TestProperties:
    @settings(max_examples=20)
    @given(
        n_samples=st.integers(6, 30),
        n_features=st.integers(1, 30),
        n_classes=st.integers(2, 4),
        C=st.floats(1e-4, 10),
        seed=st.integers(0, 1000),
    )
    def test_the_same_as_newtons_method(self, n_samples, n_features, n_classes, C, seed):
        X, y = made_up(n_samples, n_features, n_classes, seed)
        problems = NewtonSVMs(X, signs_of(y), tol=1e-10)
        solution, (objective,) = problems.solve(np.ones((1, n_samples)), C, problems.start(1))
        model = solved(X, y, C, tol=1e-10)
        np.testing.assert_allclose(model.objective, objective, rtol=1e-8)
        np.testing.assert_allclose(model.coef_, problems.weights(solution)[0], atol=1e-3)


def test_too_few_steps():
    X, y = made_up(60, 100, 3)
    with pytest.warns(
        ConvergenceWarning, match=r"\d of 3 problems with C=100 did not converge to .* max_iter=1 times 10 steps"
    ):
        assert solved(X, y, 100.0, max_iter=1).problems.most_steps == 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solved(X, y, 100.0).problems.most_steps > 10


def test_what_cannot_be_squared_is_told():
    with pytest.raises(ValueError, match="too large to be squared: scale them"):
        QuasiNewtonSVMs(np.array([[1e200], [-1e200]]), np.array([[1.0, -1.0]]))


@pytest.mark.parametrize(
    ("shape", "large"),
    [
        ((1000, 6400), False),
        ((1797, 64), False),
        ((50_000, 6400), True),
        ((50_000, 1600), True),
        ((5000, 6400), True),
        ((3000, 50_000), False),
    ],
)
def test_what_is_large(shape, large):
    assert is_large(*shape) == large
