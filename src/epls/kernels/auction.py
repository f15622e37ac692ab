"""A forward auction for the balanced assignment of rows to units.

Every row of ``values`` wants one unit, unit ``j`` takes at most ``capacity[j]`` rows, and the sum of the values at the
chosen places shall be as large as can be. Bertsekas' auction comes within ``n_rows * increment`` of that sum: a row
without a unit offers, for the unit that it likes best at the going prices, the most it could pay without regret (what
its second best unit would leave it), plus ``increment``. A full unit drops its lowest offer, and its price is the
lowest that remains.

Prices only rise, so the maximum of ``values - prices`` over a block of units, once true, is an upper bound ever after.
A row's first bid computes these block maxima; a later one looks again only at the few blocks that could still matter.
"""

import numpy as np
from numba import njit

from .scan import index_of, index_of_net, largest, largest_net

BLOCK = 32  # units to a bound: near the square root of common widths, and whole SIMD registers


@njit(cache=True)
def _block_net(row, prices, block):
    start = block * BLOCK
    stop = min(start + BLOCK, row.size)
    return largest_net(row[start:stop], prices[start:stop])


@njit(cache=True)
def _best_two(row, prices, bounds):
    """The first unit with the largest net value, and the largest net value among the other units."""
    while True:
        best_value = largest(bounds)
        block = index_of(bounds, best_value)
        exact = _block_net(row, prices, block)
        if exact == best_value:
            break
        bounds[block] = exact

    start = block * BLOCK
    stop = min(start + BLOCK, row.size)
    best = start + index_of_net(row[start:stop], prices[start:stop], best_value)
    second_value = -np.inf
    if best > start:
        second_value = largest_net(row[start:best], prices[start:best])
    if best + 1 < stop:
        second_value = max(second_value, largest_net(row[best + 1 : stop], prices[best + 1 : stop]))

    bounds[block] = -np.inf  # out of the way while the other blocks are searched
    while True:
        upper = largest(bounds)
        if upper <= second_value:
            break
        other = index_of(bounds, upper)
        exact = _block_net(row, prices, other)
        if exact == upper:
            second_value = exact
            break
        bounds[other] = exact
    bounds[block] = best_value
    return best, second_value


@njit(cache=True)
def _is_lower(offer, row, other_offer, other_row):
    return offer < other_offer or (offer == other_offer and row < other_row)


@njit(cache=True)
def _push(offers, rows, size, offer, row):
    """Add an offer to a heap of ``size`` offers that has the lowest first."""
    i = size
    while i > 0:
        parent = (i - 1) // 2
        if not _is_lower(offer, row, offers[parent], rows[parent]):
            break
        offers[i], rows[i] = offers[parent], rows[parent]
        i = parent
    offers[i], rows[i] = offer, row


@njit(cache=True)
def _replace_lowest(offers, rows, offer, row):
    """Put an offer in the place of the heap's lowest."""
    i = 0
    while 2 * i + 1 < offers.size:
        child = 2 * i + 1
        if child + 1 < offers.size and _is_lower(offers[child + 1], rows[child + 1], offers[child], rows[child]):
            child += 1
        if not _is_lower(offers[child], rows[child], offer, row):
            break
        offers[i], rows[i] = offers[child], rows[child]
        i = child
    offers[i], rows[i] = offer, row


@njit(cache=True, nogil=True)
def mean_advantage(values):
    """What the best unit of a row has over the average one, on average over at most 64 rows."""
    n_rows, n_units = values.shape
    stride = (n_rows + 63) // 64
    total, n_seen = 0.0, 0
    for i in range(0, n_rows, stride):
        total += largest(values[i]) - values[i].mean()
        n_seen += 1
    return max(total / n_seen, 0.0)


@njit(cache=True, nogil=True)
def auction(values, capacity, increment, patience, winners):
    """Write the unit of each row to ``winners``; return the number of bids.

    Rows bid in their order, a row that lost its unit at the end of the queue. After every ``patience`` bids the
    increment doubles: units that many rows want equally would otherwise be bid up in ever so many small steps.
    The sum of ``capacity`` must not be less than the number of rows.
    """
    n_rows, n_units = values.shape
    prices = np.zeros(n_units, values.dtype)
    first_slot = np.zeros(n_units + 1, np.int64)
    for j in range(n_units):
        first_slot[j + 1] = first_slot[j] + capacity[j]
        if capacity[j] == 0:
            prices[j] = np.inf
    slot_offer = np.empty(first_slot[n_units], values.dtype)
    slot_row = np.empty(first_slot[n_units], np.int64)
    n_taken = np.zeros(n_units, np.int64)
    bounds = np.empty((n_rows, (n_units + BLOCK - 1) // BLOCK), values.dtype)
    has_bid = np.zeros(n_rows, np.bool_)
    queue = np.arange(n_rows)
    head, n_waiting, n_bids = 0, n_rows, 0
    while n_waiting > 0:
        row = queue[head]
        head = (head + 1) % n_rows
        n_waiting -= 1
        if not has_bid[row]:
            for block in range(bounds.shape[1]):
                bounds[row, block] = _block_net(values[row], prices, block)
            has_bid[row] = True
        best, second_value = _best_two(values[row], prices, bounds[row])
        if second_value == -np.inf:  # a single unit is open: there is no rival to outbid
            offer = prices[best] + increment
        else:
            offer = values[row, best] - second_value + increment
        n_bids += 1
        if n_bids % patience == 0:
            increment *= 2
        winners[row] = best
        start, stop = first_slot[best], first_slot[best + 1]
        offers, rows = slot_offer[start:stop], slot_row[start:stop]
        if n_taken[best] < offers.size:
            _push(offers, rows, n_taken[best], offer, row)
            n_taken[best] += 1
        else:
            queue[(head + n_waiting) % n_rows] = rows[0]
            n_waiting += 1
            _replace_lowest(offers, rows, offer, row)
        if n_taken[best] == offers.size:
            prices[best] = offers[0]
    return n_bids
