"""What is particular to Newton's method; what both solvers must do is in test_svms.py."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from svm_problems import made_up, relative_gap, signs_of, solved

from epls.solvers.newton_svm import NewtonSVMs


@pytest.mark.parametrize("shape", [(60, 100), (300, 20)])
def test_almost_hard_margins_from_a_cold_start(shape):
    X, y = made_up(*shape, 3)
    model = solved(NewtonSVMs, X, y, 1e6, intercept_scaling=1)
    assert (relative_gap(model, X, y, 1e6, 1) <= 1.1e-6).all()
    assert model.problems.most_steps < 50


def test_the_start_does_not_decide_the_end():
    X, y = made_up(90, 40, 3)
    problems = NewtonSVMs(X, signs_of(y), tol=1e-10)
    cold, _ = problems.solve(np.ones((1, 90)), 1.0, problems.start(1))
    far = np.random.RandomState(0).standard_normal(cold.shape)
    warm, _ = problems.solve(np.ones((1, 90)), 1.0, far)
    np.testing.assert_allclose(problems.weights(warm[0])[0], problems.weights(cold[0])[0], atol=1e-4)


def test_too_few_steps():
    X, y = made_up(60, 10, 3)
    with pytest.warns(
        ConvergenceWarning, match=r"\d of 3 problems with C=10 did not converge to .* max_iter=1 Newton steps"
    ):
        assert solved(NewtonSVMs, X, y, 10.0, max_iter=1).problems.most_steps == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert solved(NewtonSVMs, X, y, 10.0).problems.most_steps > 1
