"""A forward auction for the balanced assignment of rows to units.

Every row of ``values`` wants one unit, unit ``j`` takes at most ``capacity[j]`` rows, and the sum of the values at the
chosen places shall be as large as can be. In Bertsekas' auction a row without a unit offers, for the unit that it likes
best at the going prices, the most it could pay without regret (what its second best unit would leave it), plus an
increment. A full unit drops its lowest offer, and its price is the lowest that remains. The sum reached falls short of
the best by no more than the sum of the increments.

A row's increment is a share of what the value that it wants has over a low one of its own. A single increment of the
same sum for all rows would be coarse for those with low values: their winners would be arbitrary.

Prices only rise, so the maximum of ``values - prices`` over a block of units, once true, is an upper bound ever after.
A row's first bid computes these block maxima; a later one looks again only at the few blocks that could still matter.
"""

import numpy as np
from numba import njit

from .scan import index_of, index_of_net, largest, largest_net, smallest

# Bids per row, on average, after which the increments double with every further bid per row. Real batches need 2 to 20.
# Only where many rows want the same units equally does it come to this, and there a coarser auction ends as well.
PATIENCE = 32
# By then the increments have doubled so often that any number is outbid: what has not ended is not made of numbers.
_MOST_BIDS = PATIENCE + 300
_TINY = 1e-30  # an increment for rows of zeros
BLOCK = 128  # units to a bound: measured, on 1600 units


@njit(cache=True)
def _block_net(row, prices, block):
    start = block * BLOCK
    stop = min(start + BLOCK, row.size)
    return largest_net(row[start:stop], prices[start:stop])


@njit(cache=True)
def _best_two(row, prices, bounds):
    """The first unit with the largest net value, and the largest net value among the other units."""
    block, best_value = 0, bounds[0]
    for _ in range(bounds.size + 1):  # a block is looked at again once at the most
        best_value = largest(bounds)
        block = index_of(bounds, best_value)
        exact = _block_net(row, prices, block)
        if exact == best_value:
            break
        bounds[block] = exact

    start = block * BLOCK
    stop = min(start + BLOCK, row.size)
    best = start + index_of_net(row[start:stop], prices[start:stop], best_value)
    price = prices[best]
    prices[best] = np.inf  # out of the way while the second is searched, and so is its block
    second_value = _block_net(row, prices, block)
    prices[best] = price
    bounds[block] = -np.inf
    for _ in range(bounds.size + 1):
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


@njit(cache=True)
def _increment(row, best, price, relative_increment, precision):
    """A share of what the value wanted has over a low one of the row, but no less than makes a difference to it."""
    low = smallest(row[:BLOCK])
    least = max(precision * max(abs(row[best]), abs(low), price), _TINY)
    return max(relative_increment * (row[best] - low), row.dtype.type(least))


@njit(cache=True, nogil=True)
def auction(values, capacity, relative_increment, precision, winners):
    """Write the unit of each row to ``winners``; return the number of bids.

    Rows bid in their order, a row that lost its unit at the end of the queue. The sum of ``capacity`` must not be less
    than the number of rows. ``precision`` is the type's, and the scalars are of the type of ``values``.
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
    increments = np.zeros(n_rows, values.dtype)
    growth = values.dtype.type(1)
    queue = np.arange(n_rows)
    head, n_waiting, n_bids = 0, n_rows, 0
    while n_waiting > 0:
        row = queue[head]
        head = (head + 1) % n_rows
        n_waiting -= 1
        is_first_bid = increments[row] == 0
        if is_first_bid:
            for block in range(bounds.shape[1]):
                bounds[row, block] = _block_net(values[row], prices, block)
        best, second_value = _best_two(values[row], prices, bounds[row])
        if is_first_bid:
            increments[row] = _increment(values[row], best, prices[best], relative_increment, precision)
        increment = growth * increments[row]
        if second_value == -np.inf:
            second_value = values[row, best] - prices[best]  # a single unit is open: there is no rival to outbid
        offer = values[row, best] - second_value + increment
        n_bids += 1
        if n_bids > _MOST_BIDS * n_rows:
            raise FloatingPointError("the values to be assigned are not finite")
        if n_bids >= PATIENCE * n_rows and n_bids % n_rows == 0:
            growth += growth  # twice; a product with an integer would be of another type
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
