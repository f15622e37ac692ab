"""What is particular to the solver for large data; what both solvers must do is in test_svms.py."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from svm_problems import free_scaling, made_up, relative_gap, signs_of, solved

from epls.solvers import quasi_newton_svm
from epls.solvers.newton_svm import NewtonSVMs
from epls.solvers.quasi_newton_svm import QuasiNewtonSVMs, is_large


@pytest.fixture
def single_gram(monkeypatch):
    """The Gram matrix and its factor in single precision, as with thousands of features."""
    monkeypatch.setattr(quasi_newton_svm, "_MANY_FEATURES", 0)


SHAPES = pytest.mark.parametrize("shape", [(60, 100), (60, 59), (300, 20)])


class TestOptimum:
    @SHAPES
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_with_all_that_large_data_go_through(self, shape, dtype, single_gram):
        X, y = made_up(*shape, 3)
        X = X.astype(dtype)
        for order in "CF":
            model = solved(QuasiNewtonSVMs, np.asarray(X, order=order), y, 0.1, in_blocks=True)
            assert model.coef_.dtype == model.intercept_.dtype == dtype
            assert (relative_gap(model, X.astype(np.float64), y, 0.1, free_scaling(X)) <= 1.1e-6).all()

    @SHAPES
    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e20])
    def test_whatever_the_units_of_the_data(self, shape, scale, single_gram):
        X, y = made_up(*shape, 3)
        C = 1 / scale**2
        model = solved(QuasiNewtonSVMs, scale * X, y, C, intercept_scaling=1)
        assert (relative_gap(model, scale * X, y, C, 1) <= 1.01e-6).all()

    @SHAPES
    @pytest.mark.parametrize("mean", [30.0, 1000.0])
    def test_features_far_from_zero(self, shape, mean, single_gram):
        """A Gram matrix that single precision cannot factorise as it is."""
        X, y = made_up(*shape, 3)
        X, C = X + mean, 0.1
        model = solved(QuasiNewtonSVMs, X, y, C)
        assert (relative_gap(model, X, y, C, free_scaling(X)) <= 1.1e-6).all()


class TestFolds:
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
        model = solved(QuasiNewtonSVMs, X, y, C, tol=1e-10)
        np.testing.assert_allclose(model.objective, objective, rtol=1e-8)
        np.testing.assert_allclose(model.coef_, problems.weights(solution)[0], atol=1e-3)


def test_too_few_steps():
    X, y = made_up(60, 100, 3)
    with pytest.warns(
        ConvergenceWarning, match=r"\d of 3 problems with C=100 did not converge to .* max_iter=1 times 10 steps"
    ):
        assert solved(QuasiNewtonSVMs, X, y, 100.0, max_iter=1).problems.most_steps == 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solved(QuasiNewtonSVMs, X, y, 100.0).problems.most_steps > 10


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
