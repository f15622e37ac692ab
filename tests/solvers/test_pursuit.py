"""Orthogonal matching pursuit against scikit-learn's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import orthogonal_mp_gram
from threadpoolctl import threadpool_limits

from epls.solvers.pursuit import dense_coder, pursuit_codes


def unit_rows(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@given(st.integers(0, 2**32 - 1), st.integers(1, 6))
def test_pursuit_is_scikit_learns(seed, n_nonzero):
    random = np.random.default_rng(seed)
    X, components = random.normal(size=(5, 8)), unit_rows(random.normal(size=(15, 8)))
    codes = pursuit_codes(X, components, n_nonzero).toarray()
    expected = orthogonal_mp_gram(components @ components.T, components @ X.T, n_nonzero_coefs=n_nonzero).T
    np.testing.assert_allclose(codes, expected, atol=1e-8)


def test_pursuit_ends_where_all_is_explained():
    codes = pursuit_codes(np.array([[3.0, 0.0], [0.0, 0.0]]), np.array([[1.0, 0.0], [1.0, 0.0], [0.6, 0.8]]), 3)
    np.testing.assert_allclose(codes.toarray(), [[3, 0, 0], [0, 0, 0]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_blocks_threads_and_dense_codes(dtype):
    """Samples of several blocks; as they are stored makes no difference, nor do threads."""
    random = np.random.default_rng(0)
    X, components = random.normal(size=(1300, 8)).astype(dtype), unit_rows(random.normal(size=(20, 8))).astype(dtype)
    with threadpool_limits(1):
        codes = pursuit_codes(X, components, 3)
    with threadpool_limits(3):
        np.testing.assert_array_equal(pursuit_codes(X, components, 3).toarray(), codes.toarray())
    assert codes.dtype == dtype
    assert codes.nnz == 3 * len(X)
    dense = dense_coder(components, 3)(X)
    assert dense.dtype == dtype
    np.testing.assert_allclose(dense, codes.toarray(), atol=1e-5 if dtype == np.float32 else 1e-12)
