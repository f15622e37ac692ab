"""The logistic function and the matching loss, in place.

The loops over a row are functions of their own: written inside the loop over rows, LLVM does not vectorise them.
"""

import numpy as np
from numba import njit

from .intrinsics import float32_from_bits

# Sums may be reordered and products fused. The number of threads plays no part: one thread sums a row.
_fast = njit(cache=True, nogil=True, fastmath={"contract", "nnan", "nsz", "arcp", "reassoc"}, error_model="numpy")


@_fast
def _logistic_row(row):
    for j in range(row.size):
        # exp(-z) = 2**y: the whole part of y becomes exponent bits, a minimax polynomial on [-1/2, 1/2] does the rest.
        # The error is a few units in the last place, and unlike a call of exp it vectorises.
        y = min(max(-row[j], np.float32(-87.0)), np.float32(87.0)) * np.float32(1.4426950408889634)
        whole = np.floor(y + np.float32(0.5))
        rest = y - whole
        power = np.float32(1.326472689e-03)
        power = power * rest + np.float32(9.671512910e-03)
        power = power * rest + np.float32(5.550733747e-02)
        power = power * rest + np.float32(2.402224208e-01)
        power = power * rest + np.float32(6.931469776e-01)
        power = power * rest + np.float32(1.0)
        exponent_bits = np.int32((np.int32(whole) + np.int32(127)) << np.int32(23))
        row[j] = np.float32(1.0) / (np.float32(1.0) + power * float32_from_bits(exponent_bits))


@njit(cache=True, nogil=True)
def logistic_float32(rows):
    """Replace net inputs by 1 / (1 + exp(-z)), for float32."""
    for i in range(rows.shape[0]):
        _logistic_row(rows[i])


@_fast
def _subtract_and_sum_squares(row, value):
    total = row.dtype.type(0)
    for j in range(row.size):
        row[j] -= value
        total += row[j] * row[j]
    return total


@njit(cache=True, nogil=True)
def subtract_target(outputs, winners, errors, inactive, active):
    """Replace outputs by ``outputs - T`` and write each row's squared error to ``errors``."""
    for i in range(outputs.shape[0]):
        at_winner = outputs[i, winners[i]]
        total = _subtract_and_sum_squares(outputs[i], inactive)
        outputs[i, winners[i]] = at_winner - active
        errors[i] = total - (at_winner - inactive) ** 2 + (at_winner - active) ** 2
