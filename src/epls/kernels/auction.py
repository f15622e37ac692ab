"""A forward auction for the balanced assignment of rows to units.

Every row of ``values`` wants one unit, unit ``j`` takes at most ``capacity[j]`` rows, and the sum of the values at the
chosen places shall be as large as can be. In Bertsekas' auction a row without a unit offers, for the unit that it likes
best at the going prices, the most it could pay without regret (what its second best unit would leave it), plus an
increment. A full unit drops its lowest offer, and its price is the lowest that remains. The sum reached falls short of
the best by no more than the sum of the increments.

A unit's places can have prices to start from: the first costs ``reserves[j]``, each further one ``rise`` more. An offer
must be above what the cheapest place costs, and what is maximised is the sum of the values less these prices. With all
of them 0, it is the sum of the values.

A row's increment is a share of what the value that it wants has over a low one of its own. A single increment of the
same sum for all rows would be coarse for those with low values: their winners would be arbitrary.

Prices only rise, so the maximum of ``values - prices`` over a block of units, once true, is an upper bound ever after.
A row's first bid computes these block maxima; a later one looks again only at the few blocks that could still matter.
"""

import numpy as np
from numba import njit

from .places import around, replace_lowest
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
def _increment(row, best, price, relative_increment, precision):
    """A share of what the value wanted has over a low one of the row, but no less than makes a difference to it."""
    low = smallest(row[:BLOCK])
    least = max(precision * max(abs(row[best]), abs(low), abs(price)), _TINY)
    return max(relative_increment * (row[best] - low), row.dtype.type(least))


@njit(cache=True)
def _open_places(capacity, reserves, rise):
    """Each unit's places one after another, an empty heap: what they cost, whose they are (-1: nobody's), and where
    those of a unit begin."""
    first = np.empty(capacity.size + 1, np.int64)
    first[0] = 0
    for j in range(capacity.size):
        first[j + 1] = first[j] + capacity[j]
    costs = np.empty(first[capacity.size], reserves.dtype)
    for j in range(capacity.size):
        for k in range(capacity[j]):
            costs[first[j] + k] = reserves[j] + reserves.dtype.type(k) * rise
    owners = np.empty(costs.size, np.int64)
    for k in range(owners.size):
        owners[k] = -1
    return costs, owners, first


@njit(cache=True, nogil=True)
def auction(values, capacity, reserves, rise, relative_increment, least_increment, precision, winners):
    """Write the unit of each row to ``winners``; return the prices of the units in the end.

    Rows bid in their order, a row that lost its unit at the end of the queue. The sum of ``capacity`` must not be less
    than the number of rows. ``precision`` is the type's; reserves and scalars are of the type of ``values``.
    """
    n_rows, n_units = values.shape
    costs, owners, first_place = _open_places(capacity, reserves, rise)
    prices = np.empty(n_units, values.dtype)
    for j in range(n_units):
        prices[j] = reserves[j] if capacity[j] > 0 else np.inf
    bounds = np.empty((n_rows, (n_units + BLOCK - 1) // BLOCK), values.dtype)
    increments, queue = np.empty(n_rows, values.dtype), np.empty(n_rows, np.int64)
    for row in range(n_rows):
        increments[row], queue[row] = 0, row
    growth = values.dtype.type(1)
    head, n_waiting, n_bids = 0, n_rows, 0
    while n_waiting > 0:
        row = queue[head]
        head = around(head + 1, n_rows)
        n_waiting -= 1
        is_first_bid = increments[row] == 0
        if is_first_bid:
            for block in range(bounds.shape[1]):
                bounds[row, block] = _block_net(values[row], prices, block)
        best, second_value = _best_two(values[row], prices, bounds[row])
        if is_first_bid:
            increment = _increment(values[row], best, prices[best], relative_increment, precision)
            increments[row] = max(increment, least_increment)
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
        start, stop = first_place[best], first_place[best + 1]
        if owners[start] >= 0:
            queue[around(head + n_waiting, n_rows)] = owners[start]
            n_waiting += 1
        replace_lowest(costs[start:stop], owners[start:stop], offer, row)
        prices[best] = costs[start]
    return prices


@njit(cache=True, nogil=True)
def mean_margin(values, prices):
    """What the best unit has over the second at these prices, on average over the rows."""
    total = 0.0
    prices = prices.copy()
    for i in range(values.shape[0]):
        best_net = largest_net(values[i], prices)
        best = index_of_net(values[i], prices, best_net)
        price = prices[best]
        prices[best] = np.inf  # out of the way while the second is searched
        second_net = largest_net(values[i], prices)
        prices[best] = price
        if second_net > -np.inf:
            total += best_net - second_net
    return total / max(values.shape[0], 1)
