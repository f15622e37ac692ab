"""Maxima over a row at going prices, as SIMD reductions."""

from numba import njit

from .intrinsics import larger

# A maximum is the same in any order and no NaN gets here. Nothing else is relaxed: results are the plain form's bits.
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
    """The largest ``values[j] - prices[j]``."""
    result = values[0] - prices[0]
    for j in range(values.size):
        result = larger(values[j] - prices[j], result)
    return result


@njit(cache=True)
def index_of(values, wanted):
    """The first ``j`` with ``values[j] == wanted``, which must exist."""
    j = 0
    while j + 1 < values.size and values[j] != wanted:  # in bounds even if NaN got here
        j += 1
    return j


@njit(cache=True)
def index_of_net(values, prices, wanted):
    """The first ``j`` with ``values[j] - prices[j] == wanted``, which must exist."""
    j = 0
    while j + 1 < values.size and values[j] - prices[j] != wanted:
        j += 1
    return j
