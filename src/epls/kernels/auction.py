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
from numpy.typing import NDArray

from ..utils.types import Array
from . import kernel
from .intrinsics import larger
from .places import index_of_net, largest_net, replace_lowest

# Bids per row, on average, after which the increments double with every further bid per row. Real batches need 2 to 20.
# More are needed only if many rows value the same units equally, and then a coarser auction is good enough.
PATIENCE = 32
# By then the increments have doubled so many times that any number is outbid, so the values are not finite.
_MOST_BIDS = PATIENCE + 300
_TINY = 1e-30  # the increment of rows of zeros
BLOCK = 128  # units per bound; measured with 1600 units


@kernel
def literal_rule(outputs, inhibitor, step, winners):
    """Write each row's winner and raise its ``inhibitor`` by ``step``: Algorithm 1 exactly as printed, no auction."""
    for n in range(outputs.shape[0]):
        k = index_of_net(outputs[n], inhibitor, largest_net(outputs[n], inhibitor))
        winners[n] = k
        inhibitor[k] += step


@kernel
def _block_net(row, prices, block):
    start = block * BLOCK
    return largest_net(row[start : start + BLOCK], prices[start : start + BLOCK])


@kernel
def _largest_block(bounds):
    """Return the first block with the largest bound."""
    block = 0
    for other in range(1, bounds.size):
        if bounds[other] > bounds[block]:
            block = other
    return block


@kernel
def _best_two(row, prices, bounds):
    """Return the first unit with the largest net value, and the largest net value among the other units."""
    block = 0
    for _ in range(bounds.size + 1):  # a block is recomputed at most once
        block = _largest_block(bounds)
        exact = _block_net(row, prices, block)
        if exact == bounds[block]:
            break
        bounds[block] = exact

    start, best_value = block * BLOCK, bounds[block]
    best = start + index_of_net(row[start : start + BLOCK], prices[start : start + BLOCK], best_value)
    price = prices[best]
    prices[best] = np.inf  # excludes it, and its block, from the search for the second
    second_value = _block_net(row, prices, block)
    prices[best] = price
    bounds[block] = -np.inf
    for _ in range(bounds.size + 1):
        other = _largest_block(bounds)
        if bounds[other] <= second_value:
            break
        exact = _block_net(row, prices, other)
        if exact == bounds[other]:
            second_value = exact
            break
        bounds[other] = exact
    bounds[block] = best_value
    return best, second_value


@kernel
def _hold(
    values, relative_increment, precision, prices, bounds, increments, queue, costs, owners, first_place, winners
):
    """Run the auction in these arrays; return whether it ended, which it does if the values are finite."""
    n_rows = values.shape[0]
    tiny = values.dtype.type(_TINY)
    growth = values.dtype.type(1)
    head, n_waiting, n_bids = 0, n_rows, 0
    while n_waiting > 0:
        row = queue[head]
        head = head + 1 if head + 1 < n_rows else 0
        n_waiting -= 1
        own_values, own_bounds = values[row], bounds[row]
        is_first_bid = increments[row] == 0
        if is_first_bid:
            for block in range(own_bounds.size):
                own_bounds[block] = _block_net(own_values, prices, block)
        best, second_value = _best_two(own_values, prices, own_bounds)
        value, price = own_values[best], prices[best]
        if is_first_bid:
            some = own_values[:BLOCK]
            minus_low = -some[0]
            for j in range(some.size):
                minus_low = larger(-some[j], minus_low)
            size = larger(larger(abs(value), abs(minus_low)), price)  # the increment must change value and price
            least = larger(precision * size, tiny)
            increments[row] = larger(relative_increment * (value + minus_low), least)
        if second_value == -np.inf:
            second_value = value - price  # only one unit is open, so there is no second-best
        offer = value - second_value + growth * increments[row]
        n_bids += 1
        if n_bids > _MOST_BIDS * n_rows:
            return False
        if n_bids >= PATIENCE * n_rows and n_bids % n_rows == 0:
            growth += growth  # doubled; a product with an integer would have another type
        winners[row] = best
        start, stop = first_place[best], first_place[best + 1]
        if owners[start] >= 0:
            tail = head + n_waiting
            queue[tail if tail < n_rows else tail - n_rows] = owners[start]
            n_waiting += 1
        replace_lowest(costs[start:stop], owners[start:stop], offer, row)
        prices[best] = costs[start]
    return True


def auction(values: Array, capacity: NDArray[np.int64], relative_increment: float, winners: NDArray[np.intp]) -> Array:
    """Write the unit of each row to ``winners``; return the final prices of the units.

    Rows bid in order; a row that loses its unit goes to the end of the queue. The sum of ``capacity`` must be at least
    the number of rows.
    """
    (n_rows, n_units), dtype = values.shape, values.dtype
    prices, bounds = np.zeros(n_units, dtype), np.empty((n_rows, -(-n_units // BLOCK)), dtype)
    prices[capacity == 0] = np.inf
    increments, queue = np.zeros(n_rows, dtype), np.arange(n_rows)
    first_place = np.zeros(n_units + 1, np.int64)
    np.cumsum(capacity, out=first_place[1:])
    costs, owners = np.zeros(first_place[-1], dtype), np.full(first_place[-1], -1)  # -1: none
    scalars = dtype.type(relative_increment), np.finfo(dtype).eps
    if not _hold(values, *scalars, prices, bounds, increments, queue, costs, owners, first_place, winners):
        raise FloatingPointError("the values to be assigned are not finite")
    return prices
