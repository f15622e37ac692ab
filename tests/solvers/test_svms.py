"""The solver of many SVMs at once, against scikit-learn's and against plain NumPy."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning
from svm_problems import (
    fold_weights,
    free_scaling,
    hinges,
    linear_svc,
    made_up,
    objectives,
    relative_gap,
    signs_of,
    solved,
)

from epls.solvers import svms
from epls.solvers.svms import LinearSVMs

SHAPES = pytest.mark.parametrize("shape", [(40, 100), (60, 100), (60, 59), (300, 20)])
WITHOUT_ROTATION = pytest.mark.parametrize("shape", [(60, 100), (60, 59), (300, 20)])
WIDE_AND_TALL = pytest.mark.parametrize("shape", [(40, 100), (300, 20)])


@pytest.fixture
def single_gram(monkeypatch):
    """The Gram matrix and its factor in single precision, as with thousands of features."""
    monkeypatch.setattr(svms, "_MANY_FEATURES", 0)


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

    @WIDE_AND_TALL
    @pytest.mark.parametrize("scaling", [0.3, 30.0])
    def test_intercept_scaling_is_that_of_linear_svc(self, shape, scaling):
        X, y = made_up(*shape, 3)
        theirs = linear_svc(0.1, intercept_scaling=scaling).fit(X, y)
        ours = solved(X, y, 0.1, intercept_scaling=scaling, tol=1e-9)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)

    def test_by_default_the_intercept_is_free(self):
        """At the optimum of a free intercept the hinges of both kinds balance, however far the samples are from 0."""
        X, y = made_up(300, 20, 3)
        model = solved(X, y, 0.01, tol=1e-10)
        hinge = hinges(model, X, y)
        np.testing.assert_allclose((signs_of(y) * hinge).sum(axis=1) / hinge.sum(axis=1), 0, atol=5e-3)
        np.testing.assert_allclose(model.objective, objectives(model, X, y, 0.01, free_scaling(X)), rtol=1e-9)

    @SHAPES
    @pytest.mark.parametrize("C", [1e-6, 0.01, 1.0, 100.0])
    @pytest.mark.parametrize("tol", [1e-3, 1e-9])
    def test_gradient_of_the_objective_is_as_small_as_stated(self, shape, C, tol):
        X, y = made_up(*shape, 3)
        model = solved(X, y, C, intercept_scaling=1, tol=tol)
        assert (relative_gap(model, X, y, C, 1) <= 1.01 * tol).all()

    @pytest.mark.slow
    @WIDE_AND_TALL
    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e20])
    def test_whatever_the_units_of_the_data(self, shape, scale):
        X, y = made_up(*shape, 3)
        C = 1 / scale**2
        model = solved(scale * X, y, C, intercept_scaling=1)
        assert (relative_gap(model, scale * X, y, C, 1) <= 1.01e-6).all()
        guesses = (scale * X @ model.coef_.T + model.intercept_).argmax(axis=1)
        assert np.mean(guesses == y) > 0.6

    @WIDE_AND_TALL
    def test_data_in_several_blocks_and_in_single_precision(self, shape):
        X, y = made_up(*shape, 3)
        expected = solved(X, y, 0.1, tol=1e-10)
        blocks = solved(X, y, 0.1, tol=1e-10, in_blocks=True)
        np.testing.assert_allclose(blocks.coef_, expected.coef_, atol=1e-5)
        single = solved(X.astype(np.float32), y, 0.1, in_blocks=True)
        assert single.coef_.dtype == np.float32
        np.testing.assert_allclose(single.objective, expected.objective, rtol=3e-6)

    @WITHOUT_ROTATION
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_with_all_that_large_data_go_through(self, shape, dtype, single_gram):
        X, y = made_up(*shape, 3)
        X = X.astype(dtype)
        for order in "CF":
            model = solved(np.asarray(X, order=order), y, 0.1, in_blocks=True)
            assert model.coef_.dtype == model.intercept_.dtype == dtype
            assert (relative_gap(model, X.astype(np.float64), y, 0.1, free_scaling(X)) <= 1.1e-6).all()

    @WITHOUT_ROTATION
    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e20])
    def test_whatever_the_units_of_large_data(self, shape, scale, single_gram):
        X, y = made_up(*shape, 3)
        C = 1 / scale**2
        model = solved(scale * X, y, C, intercept_scaling=1)
        assert (relative_gap(model, scale * X, y, C, 1) <= 1.01e-6).all()

    @WITHOUT_ROTATION
    @pytest.mark.parametrize("mean", [30.0, 1000.0])
    def test_features_far_from_zero(self, shape, mean, single_gram):
        """A Gram matrix that single precision cannot factorise as it is."""
        X, y = made_up(*shape, 3)
        X, C = X + mean, 0.1
        model = solved(X, y, C)
        assert (relative_gap(model, X, y, C, free_scaling(X)) <= 1.1e-6).all()

    @SHAPES
    def test_almost_hard_margins_from_a_cold_start(self, shape):
        X, y = made_up(*shape, 3)
        model = solved(X, y, 1e6, intercept_scaling=1)
        assert (relative_gap(model, X, y, 1e6, 1) <= 1.1e-6).all()


class TestFolds:
    def test_the_way_does_not_decide_the_end(self):
        """Upwards, downwards and by way of what was learned for another C and in single precision."""
        X, y = made_up(90, 40, 3)
        problems, all_samples = LinearSVMs(X, signs_of(y), tol=1e-10), np.ones((1, 90))
        cold, _ = problems.solve(all_samples, 1.0, problems.start(1))
        for Cs in ([0.01, 0.1, 0.3], [100.0, 10.0]):
            path = problems.start(1)
            for C in Cs:
                path, _ = problems.solve(all_samples, C, path, problems.fold_tol)
            path, _ = problems.solve(all_samples, 1.0, path)
            np.testing.assert_allclose(problems.weights(path)[0], problems.weights(cold)[0], atol=1e-4)

    def test_a_start_is_left_as_it_is(self):
        X, y = made_up(60, 10, 3)
        problems = LinearSVMs(X, signs_of(y))
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
            problems = LinearSVMs(X, signs_of(y))
            path = problems.start(1)
            for C in np.logspace(-3, 2, 11):
                path, _ = problems.solve(np.ones((1, 600)), C, path, problems.fold_tol)
                if forget:
                    path.memory = type(path.memory)()
            counts.append(problems.n_products)
        assert counts[0] < 0.95 * counts[1]


def test_each_fold_is_the_problem_of_its_samples():
    """Solved together, with weight 0 for samples that a fold does not have."""
    X, y = made_up(60, 10, 3)
    problems = LinearSVMs(X, signs_of(y), intercept_scaling=1, tol=1e-10)
    weights = np.ones((2, 60))
    weights[0, :20] = weights[1, 40:] = 0
    solution, values = problems.solve(weights, 0.1, problems.start(2))
    found = fold_weights(problems, solution)
    for (coef, intercept), value, kept in zip(found, values, weights > 0, strict=True):
        theirs = linear_svc(0.1).fit(X[kept], y[kept])
        np.testing.assert_allclose(value, objectives(theirs, X[kept], y[kept], 0.1, 1), rtol=1e-6)
        np.testing.assert_allclose(coef, theirs.coef_, atol=1e-3)
        np.testing.assert_allclose(intercept, theirs.intercept_, atol=1e-3)
    predicted = [(X @ coef.T + intercept).argmax(axis=1) for coef, intercept in found]
    np.testing.assert_array_equal(problems.predict(solution), predicted)


class TestProperties:
    PROBLEMS = given(
        n_samples=st.integers(6, 30),
        n_features=st.integers(1, 30),
        n_classes=st.integers(2, 4),
        C=st.floats(1e-4, 10),
        seed=st.integers(0, 1000),
    )

    @PROBLEMS
    def test_all_rows_twice_is_twice_c(self, n_samples, n_features, n_classes, C, seed):
        X, y = made_up(n_samples, n_features, n_classes, seed)
        twice = solved(np.r_[X, X], np.r_[y, y], C, tol=1e-10)
        once = solved(X, y, 2 * C, tol=1e-10)
        np.testing.assert_allclose(twice.objective, once.objective, rtol=1e-8)
        np.testing.assert_allclose(twice.coef_, once.coef_, atol=1e-3)

    @PROBLEMS
    def test_order_of_samples_and_features_does_not_matter(self, n_samples, n_features, n_classes, C, seed):
        X, y = made_up(n_samples, n_features, n_classes, seed)
        random = np.random.RandomState(seed)
        rows, columns = random.permutation(n_samples), random.permutation(n_features)
        model = solved(X, y, C, tol=1e-10)
        shuffled = solved(X[rows][:, columns], y[rows], C, tol=1e-10)
        np.testing.assert_allclose(shuffled.objective, model.objective, rtol=1e-8)
        np.testing.assert_allclose(shuffled.coef_, model.coef_[:, columns], atol=1e-3)


def test_what_cannot_be_squared_is_told():
    with pytest.raises(ValueError, match="too large to be squared: scale them"):
        LinearSVMs(np.array([[1e200], [-1e200]]), np.array([[1.0, -1.0]]))


def test_too_few_steps():
    X, y = made_up(60, 100, 3)
    with pytest.warns(
        ConvergenceWarning, match=r"\d of 3 problems with C=100 did not converge to .* max_iter=10 steps"
    ):
        assert solved(X, y, 100.0, max_iter=10).problems.most_steps == 10
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solved(X, y, 100.0).problems.most_steps > 10
