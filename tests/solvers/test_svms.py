"""Both solvers of many SVMs at once, against scikit-learn's and against plain NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from svm_problems import (
    SOLVERS,
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

EACH_SOLVER = pytest.mark.parametrize("solver", SOLVERS)
SHAPES = pytest.mark.parametrize("shape", [(60, 100), (60, 60), (60, 59), (300, 20)])
WIDE_AND_TALL = pytest.mark.parametrize("shape", [(60, 100), (300, 20)])


@EACH_SOLVER
class TestOptimum:
    @SHAPES
    @pytest.mark.parametrize("n_classes", [2, 10])
    @pytest.mark.parametrize("C", [1e-4, 0.03, 3.0])
    def test_is_that_of_linear_svc(self, solver, shape, n_classes, C):
        X, y = made_up(*shape, n_classes)
        ours, theirs = solved(solver, X, y, C, intercept_scaling=1), linear_svc(C).fit(X, y)
        assert ours.coef_.shape == theirs.coef_.shape
        np.testing.assert_allclose(ours.objective, objectives(theirs, X, y, C, 1), rtol=2e-6)
        np.testing.assert_allclose(ours.objective, objectives(ours, X, y, C, 1), rtol=1e-9)
        margins = (X @ ours.coef_.T + ours.intercept_).reshape(theirs.decision_function(X).shape)
        np.testing.assert_allclose(margins, theirs.decision_function(X), atol=0.01)

    @WIDE_AND_TALL
    @pytest.mark.parametrize("scaling", [0.3, 30.0])
    def test_intercept_scaling_is_that_of_linear_svc(self, solver, shape, scaling):
        X, y = made_up(*shape, 3)
        theirs = linear_svc(0.1, intercept_scaling=scaling).fit(X, y)
        ours = solved(solver, X, y, 0.1, intercept_scaling=scaling, tol=1e-9)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-3)
        np.testing.assert_allclose(ours.intercept_, theirs.intercept_, atol=1e-3)

    def test_by_default_the_intercept_is_free(self, solver):
        """At the optimum of a free intercept the hinges of both kinds balance, however far the samples are from 0."""
        X, y = made_up(300, 20, 3)
        model = solved(solver, X, y, 0.01, tol=1e-10)
        hinge = hinges(model, X, y)
        np.testing.assert_allclose((signs_of(y) * hinge).sum(axis=1) / hinge.sum(axis=1), 0, atol=5e-3)
        np.testing.assert_allclose(model.objective, objectives(model, X, y, 0.01, free_scaling(X)), rtol=1e-9)

    @SHAPES
    @pytest.mark.parametrize("C", [1e-6, 0.01, 1.0, 100.0])
    @pytest.mark.parametrize("tol", [1e-3, 1e-9])
    def test_gradient_of_the_objective_is_as_small_as_stated(self, solver, shape, C, tol):
        X, y = made_up(*shape, 3)
        model = solved(solver, X, y, C, intercept_scaling=1, tol=tol)
        assert (relative_gap(model, X, y, C, 1) <= 1.01 * tol).all()

    @WIDE_AND_TALL
    @pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e20])
    def test_whatever_the_units_of_the_data(self, solver, shape, scale):
        X, y = made_up(*shape, 3)
        C = 1 / scale**2
        model = solved(solver, scale * X, y, C, intercept_scaling=1)
        assert (relative_gap(model, scale * X, y, C, 1) <= 1.01e-6).all()
        guesses = (scale * X @ model.coef_.T + model.intercept_).argmax(axis=1)
        assert np.mean(guesses == y) > 0.6

    @WIDE_AND_TALL
    def test_data_in_several_blocks_and_in_single_precision(self, solver, shape):
        X, y = made_up(*shape, 3)
        expected = solved(solver, X, y, 0.1, tol=1e-10)
        blocks = solved(solver, X, y, 0.1, tol=1e-10, in_blocks=True)
        np.testing.assert_allclose(blocks.coef_, expected.coef_, atol=1e-5)
        single = solved(solver, X.astype(np.float32), y, 0.1, in_blocks=True)
        assert single.coef_.dtype == np.float32
        np.testing.assert_allclose(single.objective, expected.objective, rtol=3e-6)


@EACH_SOLVER
def test_each_fold_is_the_problem_of_its_samples(solver):
    """Solved together, with weight 0 for samples that a fold does not have."""
    X, y = made_up(60, 10, 3)
    problems = solver(X, signs_of(y), intercept_scaling=1, tol=1e-10)
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


@EACH_SOLVER
class TestProperties:
    PROBLEMS = given(
        n_samples=st.integers(6, 30),
        n_features=st.integers(1, 30),
        n_classes=st.integers(2, 4),
        C=st.floats(1e-4, 10),
        seed=st.integers(0, 1000),
    )

    @PROBLEMS
    def test_all_rows_twice_is_twice_c(self, solver, n_samples, n_features, n_classes, C, seed):
        X, y = made_up(n_samples, n_features, n_classes, seed)
        twice = solved(solver, np.r_[X, X], np.r_[y, y], C, tol=1e-10)
        once = solved(solver, X, y, 2 * C, tol=1e-10)
        np.testing.assert_allclose(twice.objective, once.objective, rtol=1e-8)
        np.testing.assert_allclose(twice.coef_, once.coef_, atol=1e-3)

    @PROBLEMS
    def test_order_of_samples_and_features_does_not_matter(self, solver, n_samples, n_features, n_classes, C, seed):
        X, y = made_up(n_samples, n_features, n_classes, seed)
        random = np.random.RandomState(seed)
        rows, columns = random.permutation(n_samples), random.permutation(n_features)
        model = solved(solver, X, y, C, tol=1e-10)
        shuffled = solved(solver, X[rows][:, columns], y[rows], C, tol=1e-10)
        np.testing.assert_allclose(shuffled.objective, model.objective, rtol=1e-8)
        np.testing.assert_allclose(shuffled.coef_, model.coef_[:, columns], atol=1e-3)


@EACH_SOLVER
def test_what_cannot_be_squared_is_told(solver):
    with pytest.raises(ValueError, match="too large to be squared: scale them"):
        solver(np.array([[1e200], [-1e200]]), np.array([[1.0, -1.0]]))
