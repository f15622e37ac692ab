"""The auction of :mod:`epls.kernels.auction` for many rows and several threads.

It differs in three ways. A row considers only its best few units, its *wishes*, and an upper bound for all other units;
it searches all units again only when the bound exceeds its wishes. Rows bid in rounds, all of a round at the same
prices, so that threads can share the bids by rows and the places by units. And a unit has two kinds of places: those
that must be taken, which start cheap, and those that may be taken.

Rows of a round are settled in order, so the result does not depend on the number of threads. Values are float32 or
float64; everything else is computed in float64.
"""

from collections import namedtuple

import numpy as np

from ..utils.compiling import njit
from .intrinsics import larger
from .places import around, is_lower, largest, replace_lowest, smallest

#: Wishes of row i are ``columns[first[i]:first[i + 1]]``; ``beyond[i]`` bounds the net value of all other units.
Wishes = namedtuple("Wishes", "first columns values beyond")
#: Places of unit j are ``costs[first[j]:first[j + 1]]``. It may open up to ``capacity[j]`` of them, at ``reserves[j]``
#: each; if all open places are taken, it ``is_short`` of places.
Places = namedtuple("Places", "first costs owners prices capacity reserves is_short")
#: A circular queue of rows; the unit, offer and loser of each bid of a round; and rows that need new wishes.
Round = namedtuple("Round", "queue units offers losers parked numbers increment")

# The entries of Round.numbers.
HEAD, N_WAITING, N_PARKED, N_BIDS, PATIENCE, N_DOUBLED, MOST_DOUBLED, N_NUMBERS = range(8)
_NO_WISH, _NOBODY, _PARKED = -1, -1, -2
_SEARCH = 4  # the number of blocks, relative to the root of the number of units: few blocks, with few units each
_HALVINGS, _FEW_MORE = 10, 4  # of the search for a cut
_FEW_PARKED = 256  # this many rows search again without further threads
_LOWEST = np.finfo(np.float64).min


@njit(cache=True)
def _write_maxima(scores, sign, shift, maxima):
    """Find the largest net value of the units ``b``, ``b + maxima.size``, ``b + 2 * maxima.size``..., for each ``b``.

    A block consists of units this far apart so that SIMD instructions can find the maxima of all blocks side by side.
    """
    width = maxima.size
    for b in range(width):
        maxima[b] = sign * scores[b] - shift[b]
    for start in range(width, scores.size, width):
        some, their_shift = scores[start : start + width], shift[start : start + width]
        for b in range(some.size):
            maxima[b] = larger(sign * some[b] - their_shift[b], maxima[b])


@njit(cache=True)
def _cut(maxima, n_wanted):
    """Return a threshold that at least the given number of maxima reach, and few more."""
    some = maxima[:n_wanted].copy()
    for start in range(n_wanted, maxima.size, n_wanted):
        for t in range(min(n_wanted, maxima.size - start)):
            some[t] = larger(maxima[start + t], some[t])
    low, high = smallest(some), largest(some)
    if low == -np.inf:
        return low
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        n_above = 0
        for value in maxima:
            n_above += value >= middle
        if n_above >= n_wanted:
            low = middle
        else:
            high = middle
        if n_wanted <= n_above <= n_wanted + _FEW_MORE:
            break
    return low


#: A search for wishes: the largest net value of each block, and the blocks and units to consider.
Search = namedtuple("Search", "prices shift maxima blocks units nets best")


@njit(cache=True)
def _new_search(n_units, n_wishes, offsets, prices):
    n_blocks = max(min(n_units, _SEARCH * int(np.sqrt(n_units))), n_wishes)
    return Search(
        prices,
        offsets + prices,
        np.empty(n_blocks),
        np.empty(n_blocks + 1, np.int64),
        np.empty(n_units + 1, np.int64),
        np.empty(n_units + 1),
        np.empty(n_wishes),
    )


@njit(cache=True, nogil=True)
def wish(scores, rows, sign, offsets, prices, wishes):
    """Find the best units of each row at these prices: value ``sign * scores[i, j] - offsets[j]`` minus the price.

    ``scores[i]`` belongs to the row ``rows[i]``. Values of -inf are never wishes.
    """
    if rows.size == 0:
        return
    search = _new_search(scores.shape[1], wishes.first[1] - wishes.first[0], offsets, prices)
    for i in range(rows.size):
        _wish_one(scores[i], rows[i], sign, offsets, search, wishes)


@njit(cache=True)
def _wish_one(scores, row, sign, offsets, search, wishes):
    """Write the units with the largest net values, and a bound for the others."""
    start, stop = wishes.first[row], wishes.first[row + 1]
    columns, values = wishes.columns[start:stop], wishes.values[start:stop]
    _write_maxima(scores, sign, search.shift, search.maxima)
    cut = _cut(search.maxima, columns.size)
    n_found = _collect(scores, sign, cut, search)
    n_listed, wishes.beyond[row] = 0, cut if scores.size > columns.size else -np.inf
    for c in range(n_found):
        net, t = search.nets[c], n_listed
        if n_listed < columns.size:
            n_listed += 1
        else:
            t = columns.size - 1
            wishes.beyond[row] = max(wishes.beyond[row], min(net, search.best[t]))
            if net <= search.best[t]:
                continue
        while t > 0 and search.best[t - 1] < net:
            search.best[t], columns[t] = search.best[t - 1], columns[t - 1]
            t -= 1
        search.best[t], columns[t] = net, search.units[c]
    best_net = -np.inf
    for t in range(n_listed):
        values[t] = sign * scores[columns[t]] - offsets[columns[t]]
        best_net = max(best_net, np.float64(values[t]) - search.prices[columns[t]])
    # Values are rounded to their type. With a best wish below the bound, the row would search again forever.
    wishes.beyond[row] = min(wishes.beyond[row], best_net)
    columns[n_listed:] = 0
    values[n_listed:] = -np.inf


@njit(cache=True)
def _collect(scores, sign, cut, search):
    """Write the units whose net value reaches the cut and is not -inf; return how many. There are no branches, since
    the processor could not predict them."""
    cut = max(cut, _LOWEST)
    n_blocks, n_found = 0, 0
    for block in range(search.maxima.size):
        search.blocks[n_blocks] = block
        n_blocks += search.maxima[block] >= cut
    for block in search.blocks[:n_blocks]:
        for j in range(block, scores.size, search.maxima.size):
            net = sign * scores[j] - search.shift[j]
            search.units[n_found], search.nets[n_found] = j, net
            n_found += net >= cut
    return n_found


@njit(cache=True, nogil=True)
def bid(part, n_parts, n_rows, wishes, prices, round_, far):
    """Compute the units and offers of a part of the first rows in the queue.

    An offer is the price at which the second-best unit would be equally good, plus the increment. If a row has no other
    unit, it is ``far`` above the price.
    """
    head, size = round_.numbers[HEAD], round_.queue.size
    for q in range(n_rows * part // n_parts, n_rows * (part + 1) // n_parts):
        row = round_.queue[around(head + q, size)]
        best, best_net, best_value = _NO_WISH, -np.inf, 0.0
        second_net = wishes.beyond[row]
        for t in range(wishes.first[row], wishes.first[row + 1]):
            value = np.float64(wishes.values[t])
            net = value - prices[wishes.columns[t]]
            if net > best_net:
                second_net = max(second_net, best_net)
                best, best_net, best_value = wishes.columns[t], net, value
            elif net > second_net:
                second_net = net
        if best_net < wishes.beyond[row]:
            best = _NO_WISH
        if second_net == -np.inf:
            second_net = best_net - far
        round_.units[q] = best
        round_.offers[q] = best_value - second_net + round_.increment[0]


@njit(cache=True, nogil=True)
def settle(part, n_parts, n_rows, places, round_, winners):
    """Assign the places of a part of the units to the highest offers, and write the row that lost by each bid."""
    head, size, n_units = round_.numbers[HEAD], round_.queue.size, places.prices.size
    own_first, own_end = n_units * part // n_parts, n_units * (part + 1) // n_parts
    for q in range(n_rows):
        unit, row = round_.units[q], round_.queue[around(head + q, size)]
        if unit == _NO_WISH:
            if part == 0:
                round_.losers[q] = _PARKED
            continue
        if not own_first <= unit < own_end:
            continue
        start, stop = places.first[unit], places.first[unit + 1]
        offer = round_.offers[q]
        if places.is_short[unit] or not is_lower(places.costs[start], places.owners[start], offer, row):
            round_.losers[q] = row
            continue
        round_.losers[q] = places.owners[start]
        winners[row] = unit
        replace_lowest(places.costs[start:stop], places.owners[start:stop], offer, row)
        places.prices[unit] = places.costs[start]
        is_taken = places.owners[start] != _NOBODY and places.costs[start] >= places.reserves[unit]
        places.is_short[unit] = is_taken and stop - start < places.capacity[unit]


@njit(cache=True, nogil=True)
def queue_losers(n_rows, round_):
    """Remove the rows of a round from the queue, and append those that lost."""
    queue, numbers = round_.queue, round_.numbers
    head = numbers[HEAD]
    after, n_waiting = around(head + n_rows, queue.size), numbers[N_WAITING] - n_rows
    for q in range(n_rows):
        loser = round_.losers[q]
        if loser == _PARKED:
            round_.parked[numbers[N_PARKED]] = queue[around(head + q, queue.size)]
            numbers[N_PARKED] += 1
    for q in range(n_rows):
        if round_.losers[q] >= 0:
            queue[around(after + n_waiting, queue.size)] = round_.losers[q]
            n_waiting += 1
    numbers[HEAD], numbers[N_WAITING] = after, n_waiting
    numbers[N_BIDS] += n_rows
    if numbers[N_BIDS] > numbers[PATIENCE]:
        numbers[PATIENCE] += queue.size
        numbers[N_DOUBLED] += 1
        round_.increment[0] *= 2


@njit(cache=True)
def queue_parked(round_):
    """Append the parked rows to the queue."""
    numbers, queue = round_.numbers, round_.queue
    for row in np.sort(round_.parked[: numbers[N_PARKED]]):
        queue[around(numbers[HEAD] + numbers[N_WAITING], queue.size)] = row
        numbers[N_WAITING] += 1
    numbers[N_PARKED] = 0


@njit(cache=True, nogil=True)
def rounds(most_rows, few, enough, may_grow, matrix, wishes, places, round_, far, winners):
    """Run rounds of up to ``most_rows`` rows until at most ``few`` wait, ``enough`` can bid, or the caller must act.

    ``matrix`` has the scores of all rows, their sign and the offsets of units, for rows that must search again. If it
    is empty, or many rows are parked, the search is left to the caller.
    """
    scores, sign, offsets = matrix
    numbers = round_.numbers
    while True:
        while numbers[N_WAITING] > few:
            n_rows = min(most_rows, numbers[N_WAITING])
            if n_rows >= enough or numbers[N_DOUBLED] > numbers[MOST_DOUBLED]:
                return
            bid(0, 1, n_rows, wishes, places.prices, round_, far)
            settle(0, 1, n_rows, places, round_, winners)
            queue_losers(n_rows, round_)
            if may_grow and places.is_short.any():
                return
        if not 0 < numbers[N_PARKED] <= _FEW_PARKED or scores.shape[0] == 0:
            return
        search = _new_search(scores.shape[1], wishes.first[1] - wishes.first[0], offsets, places.prices)
        for row in round_.parked[: numbers[N_PARKED]]:
            _wish_one(scores[row], row, sign, offsets, search, wishes)
        queue_parked(round_)


@njit(cache=True, nogil=True)
def regret(wishes, prices, winners):
    """Return the sum over rows of the best net value minus that of their own unit, and the sum of the values of their
    own units."""
    total, total_value = 0.0, 0.0
    for row in range(winners.size):
        best, own, own_value = wishes.beyond[row], -np.inf, 0.0
        for t in range(wishes.first[row], wishes.first[row + 1]):
            value = np.float64(wishes.values[t])
            net = value - prices[wishes.columns[t]]
            best = max(best, net)
            if wishes.columns[t] == winners[row] and net > own:
                own, own_value = net, value
        total += best - own
        total_value += own_value
    return total, total_value


@njit(cache=True, fastmath={"reassoc"})
def _sum(values):
    total = 0.0
    for j in range(values.size):
        total += np.float64(values[j])
    return total


@njit(cache=True)
def _finite(values, sign):
    """Return the number of finite values, their sum, minimum and maximum, and the number that are not allowed."""
    n_finite, n_bad, total, least, most = 0, 0, 0.0, np.inf, -np.inf
    for value in values:
        if np.isfinite(value):
            n_finite += 1
            total += value
            least, most = min(least, np.float64(value)), max(most, np.float64(value))
        elif sign * value != -np.inf:
            n_bad += 1
    return n_finite, total, least, most, n_bad


@njit(cache=True, nogil=True)
def spread(part, n_parts, scores, sign, totals):
    """Describe a part of the rows: the numbers of forbidden values (-inf, after applying the sign) and of NaNs; the
    smallest and largest finite value; and the sum over rows of the best value minus the mean."""
    n_rows, n_units = scores.shape
    n_forbidden, n_bad, lowest, highest, total = 0.0, 0.0, np.inf, -np.inf, 0.0
    for i in range(n_rows * part // n_parts, n_rows * (part + 1) // n_parts):
        row_sum, n_finite = _sum(scores[i]), n_units
        if np.isfinite(row_sum):
            least, most = np.float64(smallest(scores[i])), np.float64(largest(scores[i]))
        else:
            n_finite, row_sum, least, most, n_row_bad = _finite(scores[i], sign)
            n_bad += n_row_bad
            n_forbidden += n_units - n_finite - n_row_bad
        if n_finite > 0:
            lowest, highest = min(lowest, least), max(highest, most)
            mean = row_sum / n_finite
            total += most - mean if sign > 0 else mean - least
    for t, value in enumerate((n_forbidden, n_bad, lowest, highest, total)):
        totals[part, t] = value
