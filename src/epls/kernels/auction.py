"""A forward auction for the balanced assignment of rows to units.

Every row of ``values`` gets one unit, unit ``j`` has at most ``capacity[j]`` rows, and the sum of the values at the
chosen places should be as large as possible. In Bertsekas' auction, a row without a unit bids for the unit that is best
for it at current prices. It offers as much as would make its second-best unit equally good, plus an increment. A full
unit drops its lowest offer, and its price is the lowest that remains. The final sum is below the optimum by at most the
sum of the increments.

A row's increment is a fraction of the difference between the value it bids for and a low value of the row. A single
increment for all rows would be too coarse for those with low values: their winners would be arbitrary.

Prices only rise, so the maximum of ``values - prices`` over a block of units remains an upper bound. A row's first bid
computes these block maxima; later bids recompute only the few blocks that could still matter.
"""

import numpy as np

from ..utils.compiling import njit
from .places import around, index_of, index_of_net, largest, largest_net, replace_lowest, smallest

# Bids per row, on average, after which the increments double with every further bid per row. Real batches need 2 to 20.
# More are needed only if many rows value the same units equally, and then a coarser auction is good enough.
PATIENCE = 32
# By then the increments have doubled so many times that any number is outbid, so the values are not finite.
_MOST_BIDS = PATIENCE + 300
_TINY = 1e-30  # an increment for rows of zeros
BLOCK = 128  # units per bound; measured with 1600 units


@njit(cache=True, nogil=True)
def literal_rule(outputs, inhibitor, step, winners):
    """Write each row's winner and raise its ``inhibitor`` by ``step``: Algorithm 1 exactly as printed, no auction."""
    for n in range(outputs.shape[0]):
        k = index_of_net(outputs[n], inhibitor, largest_net(outputs[n], inhibitor))
        winners[n] = k
        inhibitor[k] += step


@njit(cache=True)
def _block_net(row, prices, block):
    start = block * BLOCK
    stop = min(start + BLOCK, row.size)
    return largest_net(row[start:stop], prices[start:stop])


@njit(cache=True)
def _best_two(row, prices, bounds):
    """Return the first unit with the largest net value, and the largest net value among the other units."""
    block, best_value = 0, bounds[0]
    for _ in range(bounds.size + 1):  # a block is recomputed at most once
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
    prices[best] = np.inf  # excludes it, and its block, from the search for the second
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
    """Return a fraction of the value's distance from a low value of the row, large enough to change the value."""
    low = smallest(row[:BLOCK])
    least = max(precision * max(abs(row[best]), abs(low), abs(price)), _TINY)
    return max(relative_increment * (row[best] - low), row.dtype.type(least))


@njit(cache=True)
def _open_places(capacity, zero):
    """Return each unit's places, an empty heap: their costs, their owners (-1: nobody), and each unit's first place."""
    first = np.empty(capacity.size + 1, np.int64)
    first[0] = 0
    for j in range(capacity.size):
        first[j + 1] = first[j] + capacity[j]
    costs = np.full(first[capacity.size], zero)
    owners = np.full(costs.size, -1, np.int64)
    return costs, owners, first


@njit(cache=True, nogil=True)
def auction(values, capacity, relative_increment, precision, winners):
    """Write the unit of each row to ``winners``; return the final prices of the units.

    Rows bid in order; a row that loses its unit goes to the end of the queue. The sum of ``capacity`` must be at least
    the number of rows. ``precision`` is that of the type; scalars have the type of ``values``.
    """
    n_rows, n_units = values.shape
    costs, owners, first_place = _open_places(capacity, values.dtype.type(0))
    prices = np.empty(n_units, values.dtype)
    for j in range(n_units):
        prices[j] = 0 if capacity[j] > 0 else np.inf
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
            increments[row] = _increment(values[row], best, prices[best], relative_increment, precision)
        increment = growth * increments[row]
        if second_value == -np.inf:
            second_value = values[row, best] - prices[best]  # only one unit is open, so there is no second-best
        offer = values[row, best] - second_value + increment
        n_bids += 1
        if n_bids > _MOST_BIDS * n_rows:
            raise FloatingPointError("the values to be assigned are not finite")
        if n_bids >= PATIENCE * n_rows and n_bids % n_rows == 0:
            growth += growth  # doubled; a product with an integer would have another type
        winners[row] = best
        start, stop = first_place[best], first_place[best + 1]
        if owners[start] >= 0:
            queue[around(head + n_waiting, n_rows)] = owners[start]
            n_waiting += 1
        replace_lowest(costs[start:stop], owners[start:stop], offer, row)
        prices[best] = costs[start]
    return prices
