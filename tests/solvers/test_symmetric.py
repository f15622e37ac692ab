"""Products and factors in parts, against NumPy's own of the whole."""

import numpy as np
import pytest

from epls.solvers import symmetric


@pytest.fixture(params=[1, 7, 1000])
def rows_of_a_part(request, monkeypatch):
    monkeypatch.setattr(symmetric, "_ROWS", request.param)


@pytest.mark.usefixtures("rows_of_a_part")
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_lower_triangle_becomes_the_factor_and_all_else_stays(order, dtype, rtol):
    X = np.random.RandomState(0).normal(size=(20, 50)).astype(dtype)
    expected = np.linalg.cholesky((X @ X.T).astype(float))
    matrix = np.array(np.tril(X @ X.T) + np.triu(np.full((20, 20), 5, dtype), 1), order=order)
    symmetric.factor_lower(matrix)
    assert matrix.dtype == dtype
    np.testing.assert_allclose(np.tril(matrix), expected, rtol=rtol, atol=rtol)
    np.testing.assert_array_equal(matrix[np.triu_indices(20, 1)], 5)


@pytest.mark.usefixtures("rows_of_a_part")
def test_inner_products_are_added_to_the_lower_triangle():
    X = np.random.RandomState(0).normal(size=(20, 6))
    products = np.ones((20, 20))
    symmetric.add_inner_products(products, X)
    np.testing.assert_allclose(np.tril(products), np.tril(1 + X @ X.T), rtol=1e-12)


def test_a_matrix_that_is_not_positive_definite_is_an_error():
    with pytest.raises(np.linalg.LinAlgError):
        symmetric.factor_lower(-np.eye(4))
