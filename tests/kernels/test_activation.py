import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.special import expit

from epls.kernels.activation import logistic_float32

FINITE = st.floats(-80, 80, width=32)


@given(arrays(np.float32, st.tuples(st.integers(1, 5), st.integers(1, 70)), elements=FINITE))
def test_logistic_float32_is_expit_to_a_few_units_in_the_last_place(z):
    h, squares = z.copy(), np.empty(len(z), np.float32)
    logistic_float32(h, squares)
    np.testing.assert_allclose(h, expit(z.astype(np.float64)), rtol=2e-5, atol=1e-35)
    np.testing.assert_allclose(squares, (h.astype(np.float64) ** 2).sum(axis=1), rtol=1e-5, atol=1e-30)


def test_logistic_float32_is_accurate_where_outputs_matter_and_saturates_beyond():
    z = np.linspace(-20, 20, 100_001, dtype=np.float32).reshape(1, -1)
    h = z.copy()
    logistic_float32(h, np.empty(1, np.float32))
    np.testing.assert_allclose(h, expit(z.astype(np.float64)), rtol=3e-6)
    extreme = np.array([[-np.float32(3e38), -1000, 1000, np.float32(3e38)]], np.float32)
    logistic_float32(extreme, np.empty(1, np.float32))
    assert (extreme >= 0).all()
    assert extreme[0, :2].max() < 1e-37
    assert (extreme[0, 2:] == 1).all()
