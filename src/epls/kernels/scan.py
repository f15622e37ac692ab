"""Maxima over a row at current prices, as SIMD reductions."""

from numba import njit

from .intrinsics import larger

# A maximum is the same in any order, and there are no NaNs. Nothing else is reordered: the bits are the same.
_MAXIMUM = {"nnan", "nsz", "reassoc"}


@njit(cache=True, fastmath=_MAXIMUM)
def largest(values):
    result = values[0]
    for j in range(values.size):
        result = larger(values[j], result)
    return result


@njit(cache=True, fastmath=_MAXIMUM)
def smallest(values):
    negative = -values[0]
    for j in range(values.size):
        negative = larger(-values[j], negative)
    return -negative


@njit(cache=True, fastmath=_MAXIMUM)
def largest_net(values, prices):
    """Return the largest ``values[j] - prices[j]``."""
    result = values[0] - prices[0]
    for j in range(values.size):
        result = larger(values[j] - prices[j], result)
    return result


@njit(cache=True)
def index_of(values, wanted):
    """Return the first ``j`` with ``values[j] == wanted``, which must exist."""
    j = 0
    while j + 1 < values.size and values[j] != wanted:  # within bounds even if there is a NaN
        j += 1
    return j


@njit(cache=True)
def index_of_net(values, prices, wanted):
    """Return the first ``j`` with ``values[j] - prices[j] == wanted``, which must exist."""
    j = 0
    while j + 1 < values.size and values[j] - prices[j] != wanted:
        j += 1
    return j
