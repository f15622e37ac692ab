"""The logistic function and the matching loss, in place.

The target of a logistic unit that lost is 0, so its output is its difference from the target. The logistic function
also returns the sums of squares that the error needs; afterwards only the winners' entries change.
"""

import numpy as np

from ..utils.compiling import njit
from .intrinsics import float32_from_bits

# Sums may be reordered and products fused. The result does not depend on the number of threads: one thread sums a row.
_FAST = {"contract", "nnan", "nsz", "arcp", "reassoc"}


# One function, without calls: LLVM compiles a call differently if the callee was compiled in this process or came from
# the cache, and with fast-math the last bits of the outputs would differ, too.
@njit(cache=True, nogil=True, fastmath=_FAST, error_model="numpy")
def logistic_float32(rows, squares):
    """Replace float32 net inputs by 1 / (1 + exp(-z)), and write the sum of their squares over each row."""
    for i in range(rows.shape[0]):
        row = rows[i]
        total = np.float32(0.0)
        for j in range(row.size):
            # exp(-z) = 2**y: the integer part of y becomes exponent bits, and a minimax polynomial on [-1/2, 1/2]
            # computes the rest. The error is a few units in the last place. Unlike a call of exp, this vectorises.
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
            output = np.float32(1.0) / (np.float32(1.0) + power * float32_from_bits(exponent_bits))
            row[j] = output
            total += output * output
        squares[i] = total


@njit(cache=True, nogil=True, fastmath=_FAST)
def _sum_of_squares(row):
    total = row.dtype.type(0)
    for j in range(row.size):
        total += row[j] * row[j]
    return total


@njit(cache=True, nogil=True)
def subtract_target(outputs, squares, winners, inactive, active, errors):
    """Replace outputs by ``outputs - T``, given the sums of their ``squares``; write each row's squared error."""
    for i in range(outputs.shape[0]):
        at_winner = outputs[i, winners[i]]
        if inactive == 0:
            without_winner = squares[i] - at_winner * at_winner
        else:
            for j in range(outputs.shape[1]):
                outputs[i, j] -= inactive
            without_winner = _sum_of_squares(outputs[i]) - outputs[i, winners[i]] ** 2
        outputs[i, winners[i]] = at_winner - active
        errors[i] = max(without_winner, outputs.dtype.type(0)) + (at_winner - active) ** 2


@njit(cache=True, nogil=True, error_model="numpy")
def squared_error_of_logistic(differences, outputs, curvatures):
    """Replace ``outputs - T`` by the derivatives of half the squared error by net inputs; write the second ones."""
    one, two = outputs.dtype.type(1), outputs.dtype.type(2)
    for i in range(outputs.shape[0]):
        difference, output, curvature = differences[i], outputs[i], curvatures[i]
        for j in range(output.size):
            slope = output[j] * (one - output[j])
            curvature[j] = slope * slope + difference[j] * (slope * (one - two * output[j]))
            difference[j] *= slope


# One pass: an array of outputs does not fit in the cache, and reading it takes longer than this arithmetic.
@njit(cache=True, nogil=True, error_model="numpy")
def through_logistic(slopes, outputs, added):
    """Replace derivatives by outputs by those by net inputs; ``added`` is the part that all samples share."""
    one = slopes.dtype.type(1)
    for i in range(slopes.shape[0]):
        slope, output = slopes[i], outputs[i]
        for j in range(slope.size):
            slope[j] = (slope[j] + added[j]) * output[j] * (one - output[j])
