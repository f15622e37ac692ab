import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import inv, sqrtm
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls import ZCAWhitening


@parametrize_with_checks([ZCAWhitening()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.floats(1e-3, 10))
def test_equals_the_inverse_root_of_the_covariance(seed, n_features, regularization):
    random = np.random.RandomState(seed)
    X = random.standard_normal((50, n_features)) @ random.standard_normal((n_features, n_features)) + 3
    whitening = ZCAWhitening(regularization).fit(X)
    covariance = np.atleast_2d(np.cov(X.T)) + regularization * np.eye(n_features)
    expected = (X - X.mean(axis=0)) @ np.atleast_2d(inv(sqrtm(covariance)).real)
    np.testing.assert_allclose(whitening.transform(X), expected, atol=1e-7)


def test_constant_columns_become_zero():
    X = np.c_[np.random.RandomState(0).standard_normal(100), np.full(100, 7.0)]
    np.testing.assert_allclose(ZCAWhitening().fit_transform(X)[:, 1], 0, atol=1e-12)


def test_single_precision_stays():
    X = np.random.RandomState(0).standard_normal((20_000, 5)).astype(np.float32)
    white = ZCAWhitening().fit_transform(X)
    assert white.dtype == np.float32
    np.testing.assert_allclose(white, ZCAWhitening().fit_transform(X.astype(np.float64)), atol=1e-5)


def test_one_sample_has_no_covariance():
    with pytest.raises(ValueError, match="minimum of 2 is required"):
        ZCAWhitening().fit([[1.0, 2.0]])
