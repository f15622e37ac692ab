from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from epls.algorithm.activations import LOGISTIC
from epls.algorithm.engine import subtract_target


@given(
    st.integers(1, 6),
    st.integers(1, 50),
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([-1.0, 0.0]),
    st.integers(0, 99),
)
def test_subtract_target_is_outputs_minus_the_dense_target(n_rows, n_units, dtype, inactive, seed):
    random = np.random.RandomState(seed)
    H = random.uniform(-1, 1, size=(n_rows, n_units)).astype(dtype)
    winners = random.randint(n_units, size=n_rows)
    T = np.full((n_rows, n_units), inactive)
    T[np.arange(n_rows), winners] = 1.0
    differences = H.copy()
    at_winner, errors = subtract_target(differences, (H**2).sum(axis=1), winners, replace(LOGISTIC, inactive=inactive))
    assert errors.dtype == dtype
    np.testing.assert_array_equal(at_winner, H[np.arange(n_rows), winners])
    np.testing.assert_allclose(differences, H - T, rtol=1e-6)
    np.testing.assert_allclose(errors, ((H - T) ** 2).sum(axis=1), rtol=1e-4)
