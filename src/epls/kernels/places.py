"""Shared parts of the auctions: the best unit at current prices, places with offers, and a queue of rows.

The places of a unit are a heap of offers, whose lowest is the unit's price. The queue is circular.
"""

from . import kernel
from .intrinsics import larger

# A maximum is the same in any order, and there are no NaNs. Nothing else is reordered: the bits are the same.
_MAXIMUM = {"nnan", "nsz", "reassoc"}


@kernel(fastmath=_MAXIMUM)
def largest(values):
    result = values[0]
    for j in range(values.size):
        result = larger(values[j], result)
    return result


@kernel(fastmath=_MAXIMUM)
def smallest(values):
    negative = -values[0]
    for j in range(values.size):
        negative = larger(-values[j], negative)
    return -negative


@kernel(fastmath=_MAXIMUM)
def largest_net(values, prices):
    """Return the largest ``values[j] - prices[j]``."""
    result = values[0] - prices[0]
    for j in range(values.size):
        result = larger(values[j] - prices[j], result)
    return result


@kernel
def index_of_net(values, prices, wanted):
    """Return the first ``j`` with ``values[j] - prices[j] == wanted``, which must exist."""
    j = 0
    while j + 1 < values.size and values[j] - prices[j] != wanted:  # within bounds even if there is a NaN
        j += 1
    return j


@kernel
def is_lower(offer, row, other_offer, other_row):
    return offer < other_offer or (offer == other_offer and row < other_row)


@kernel
def replace_lowest(offers, rows, offer, row):
    """Replace the lowest offer by another."""
    i = 0
    while 2 * i + 1 < offers.size:
        child = 2 * i + 1
        if child + 1 < offers.size and is_lower(offers[child + 1], rows[child + 1], offers[child], rows[child]):
            child += 1
        if not is_lower(offers[child], rows[child], offer, row):
            break
        offers[i], rows[i] = offers[child], rows[child]
        i = child
    offers[i], rows[i] = offer, row


@kernel
def around(position, size):
    """Wrap a position, less than twice the size of a circular queue; a division would take longer."""
    return position - size if position >= size else position
