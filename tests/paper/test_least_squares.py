"""The least-squares classifier against scikit-learn's ridge regression, and against samples left out one at a time."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks
from svm_problems import made_up, signs_of

from epls.paper import least_squares
from epls.paper.least_squares import LeastSquaresCV
from epls.solvers import symmetric


@parametrize_with_checks([LeastSquaresCV()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def left_out_error(X, y, alpha):
    """By a loop: each sample's squared error by a model of all others."""
    targets, total = signs_of(y).T, 0.0
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        found = Ridge(alpha=alpha).fit(X[others], targets[others]).predict(X[i : i + 1])
        total += np.square(targets[i] - found).sum()
    return total / len(X)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("n_features", [5, 20, 80])
def test_weights_are_those_of_ridge_regression(n_features, n_classes):
    X, y = made_up(40, n_features, n_classes)
    ours = LeastSquaresCV().fit(X, y)
    theirs = RidgeClassifier(alpha=ours.alpha_).fit(X, y)
    np.testing.assert_allclose(ours.coef_, np.atleast_2d(theirs.coef_), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.intercept_, np.atleast_1d(theirs.intercept_), rtol=1e-6, atol=1e-9)
    assert (ours.predict(X) == theirs.predict(X)).all()


@pytest.mark.parametrize("n_classes", [2, 3])
def test_error_is_that_of_samples_left_out(n_classes):
    X, y = made_up(30, 50, n_classes)
    model = LeastSquaresCV().fit(X, y)
    expected = [left_out_error(X, y, alpha) for alpha in model.alphas_]
    np.testing.assert_allclose(model.errors_, expected, rtol=1e-6)
    assert model.alpha_ == model.alphas_[np.argmin(expected)]


@pytest.mark.parametrize("n_features", [10, 80])
@pytest.mark.parametrize("noise", [0.0, 0.1, 1.0])
def test_penalty_has_the_least_error_of_all(noise, n_features):
    """Whether it is smaller or larger than the one that the search begins with."""
    X, y = made_up(30, n_features, 3)
    random = np.random.RandomState(1)
    y = np.where(random.uniform(size=len(y)) < noise, random.permutation(y), y)
    model = LeastSquaresCV().fit(X, y)
    mean_square = np.square(X - X.mean(axis=0)).sum(axis=1).mean()
    found = {alpha: left_out_error(X, y, alpha * mean_square) for alpha in np.logspace(2, -5, 15)}
    assert left_out_error(X, y, model.alpha_) <= min(found.values()) * (1 + (1e-9 if n_features > 30 else 0.02))


def test_error_of_many_samples_is_near_that_of_samples_left_out():
    """Generalised cross-validation takes the mean share of a sample in its output for that of each."""
    X, y = made_up(150, 20, 3)
    model = LeastSquaresCV().fit(X, y)
    expected = [left_out_error(X, y, alpha) for alpha in model.alphas_]
    np.testing.assert_allclose(model.errors_, expected, rtol=0.02)


def test_free_parameters_of_many_features_are_estimated(monkeypatch):
    X, y = made_up(150, 40, 3)
    exact = LeastSquaresCV().fit(X, y)
    monkeypatch.setattr(least_squares, "_EXACT_FEATURES", 10)
    monkeypatch.setattr(least_squares, "_PROBES", 500)
    np.testing.assert_allclose(LeastSquaresCV().fit(X, y).errors_, exact.errors_, rtol=0.02)


@pytest.mark.parametrize("n_samples", [40, 400])
def test_blocks_do_not_matter(n_samples, monkeypatch):
    X, y = made_up(n_samples, 60, 3)
    whole = LeastSquaresCV().fit(X, y)
    monkeypatch.setattr(least_squares, "_BLOCK_ELEMENTS", 1000)
    monkeypatch.setattr(least_squares, "_LEAST_ROWS", 1)
    monkeypatch.setattr(least_squares, "_TRIANGLE_ROWS", 7)
    monkeypatch.setattr(symmetric, "_ROWS", 7)
    np.testing.assert_allclose(LeastSquaresCV().fit(X, y).coef_, whole.coef_, rtol=1e-8, atol=1e-12)


def test_single_precision_is_near_double():
    X, y = load_digits(return_X_y=True)
    double, single = (LeastSquaresCV().fit(X.astype(kind), y) for kind in (np.float64, np.float32))
    assert single.coef_.dtype == np.float32
    np.testing.assert_allclose(single.decision_function(X), double.decision_function(X), atol=1e-3)


def test_units_do_not_matter():
    X, y = made_up(60, 90, 3)
    plain, scaled = LeastSquaresCV().fit(X, y), LeastSquaresCV().fit(1000 * X + 5, y)
    np.testing.assert_allclose(scaled.coef_ * 1000, plain.coef_, rtol=1e-5)


def test_one_class_is_an_error():
    with pytest.raises(ValueError, match="all 3 samples belong to one class"):
        LeastSquaresCV().fit(np.eye(3), [1, 1, 1])


def test_features_too_large_are_an_error():
    X = np.full((4, 2), 1e200)
    X[::2] *= -1
    with pytest.raises(ValueError, match="too large to be squared"):
        LeastSquaresCV().fit(X, [0, 1, 0, 1])


def test_samples_that_are_all_equal_give_the_most_frequent_class():
    assert (LeastSquaresCV().fit(np.ones((5, 3)), [0, 0, 1, 1, 1]).predict(np.ones((2, 3))) == 1).all()
