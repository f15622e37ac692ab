"""L-BFGS over a matrix of components, and sums over blocks of samples."""

from itertools import pairwise

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from epls.solvers.lbfgs import minimize_over_epochs, sums_over_blocks


def epochs(n_epochs, told):
    """The epochs of a learner: it notes how far it came, and its end."""
    try:
        for epoch in range(n_epochs):
            told.append(epoch)
            yield epoch
    finally:
        told.append("end")


def quadratic(scale=1.0):
    """A bowl with its least value, ``scale``, at the numbers 0 to 5; its axes differ in length."""
    wanted, curvature = np.arange(6.0).reshape(2, 3), np.array([1.0, 10.0, 100.0])

    def objective(components):
        off = components - wanted
        return scale * (1 + 0.5 * float((curvature * off**2).sum())), scale * curvature * off

    return objective, wanted


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_minimum_is_found_in_any_unit(scale):
    objective, wanted = quadratic(scale)
    told = []
    found, curve = minimize_over_epochs(objective, np.zeros((2, 3)), epochs(100, told), 1e-15)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    assert curve[-1] == pytest.approx(scale)
    assert all(after <= before for before, after in pairwise(curve))
    assert told == [*range(len(curve) + 1), "end"]  # the one under way ended without another iteration


@pytest.mark.parametrize("n_epochs", [1, 2, 5])
def test_no_more_iterations_than_epochs(n_epochs):
    objective, _ = quadratic()
    told = []
    _, curve = minimize_over_epochs(objective, np.zeros((2, 3)), epochs(n_epochs, told), 0.0)
    assert len(curve) == n_epochs
    assert told == [*range(n_epochs), "end"]


def test_the_tolerance_is_a_share_of_the_first_value():
    objective, _ = quadratic()
    _, exact = minimize_over_epochs(objective, np.zeros((2, 3)), epochs(100, []), 1e-15)
    _, early = minimize_over_epochs(objective, np.zeros((2, 3)), epochs(100, []), 1e-3)
    assert len(early) < len(exact)
    first = objective(np.zeros((2, 3)))[0]
    assert early[-2] - early[-1] <= 1e-3 * first
    assert early[-3] - early[-2] > 1e-3 * first


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_a_start_that_is_not_finite_is_told(value):
    told = []
    with pytest.raises(ValueError, match="at the start: scale the data to about 1"):
        minimize_over_epochs(lambda components: (value, components), np.ones((1, 2)), epochs(3, told), 0.0)
    assert told == [0, "end"]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_samples", [1, 7, 5000])
def test_sums_over_one_block_or_several(n_samples, dtype):
    random = np.random.RandomState(0)
    X, components = random.normal(size=(n_samples, 4)).astype(dtype), random.normal(size=(3, 4)).astype(dtype)

    def derivatives(products):
        """Of half the squares."""
        return 0.5 * np.square(products, dtype=np.float64).sum(axis=0)

    with threadpool_limits(1):
        sums, gradient = sums_over_blocks(X, components, derivatives)
    with threadpool_limits(3):
        again = sums_over_blocks(X, components, derivatives)
    np.testing.assert_array_equal(again[0], sums)
    np.testing.assert_array_equal(again[1], gradient)
    products = X.astype(np.float64) @ components.T
    rtol = 1e-4 if dtype == np.float32 else 1e-10
    np.testing.assert_allclose(sums, 0.5 * np.square(products).sum(axis=0), rtol=rtol)
    np.testing.assert_allclose(gradient, products.T @ X, rtol=rtol, atol=rtol * n_samples)
    assert gradient.dtype == np.float64
