"""The auction of :mod:`epls.kernels.auction` for many rows and several threads.

It differs in three ways. A row does not look at all units but at the few that it likes best, its *wishes*, and knows an
upper bound of what any other could leave it; it looks at all units again only when the bound is the better. Rows bid in
rounds, all of a round at the same prices, so that threads can share the bids by rows and the places by units. And a
unit's places come in two kinds: those that must be taken, which start cheap, and those that may be taken.

Rows of a round are settled in their order, whoever computes what: the result is the same for any number of threads.
Values are float32 or float64, all else is computed in float64.
"""

from collections import namedtuple

import numpy as np
from numba import njit

from .intrinsics import larger
from .places import is_lower, replace_lowest
from .scan import largest, smallest

#: Wishes of row i are ``columns[first[i]:first[i + 1]]``; ``beyond[i]`` is at least what any other unit leaves it.
Wishes = namedtuple("Wishes", "first columns values beyond")
#: Places of unit j are ``costs[first[j]:first[j + 1]]``. It may open up to ``capacity[j]`` of them, at ``reserves[j]``
#: each; if those that are open are taken, it ``is_short`` of places.
Places = namedtuple("Places", "first costs owners prices capacity reserves is_short")
#: A circular queue of rows; unit and offer of each bid of a round, who lost by it, and rows that need other wishes.
Round = namedtuple("Round", "queue units offers losers parked numbers increment")

# What Round.numbers holds.
HEAD, N_WAITING, N_PARKED, N_BIDS, PATIENCE, N_DOUBLED, MOST_DOUBLED, N_NUMBERS = range(8)
_NO_WISH, _NOBODY, _PARKED = -1, -1, -2
_MOST_BLOCK = 32
_MAXIMUM = {"nnan", "nsz", "reassoc"}  # see kernels/scan.py


@njit(cache=True, fastmath=_MAXIMUM)
def _largest_net(scores, sign, shift, start, stop):
    result = sign * scores[start] - shift[start]
    for j in range(start, stop):
        result = larger(sign * scores[j] - shift[j], result)
    return result


@njit(cache=True)
def _cut(maxima, top):
    """The smallest of the largest so many maxima: at least so many units are no lower."""
    top[:] = -np.inf
    for value in maxima:
        t = top.size - 1
        if value > top[t]:
            while t > 0 and top[t - 1] < value:
                top[t] = top[t - 1]
                t -= 1
            top[t] = value
    return top[top.size - 1]


@njit(cache=True, nogil=True)
def wish(scores, rows, sign, offsets, prices, first, columns, values, beyond):
    """Give each row its best units at these prices: value ``sign * scores[i, j] - offsets[j]``, less the price.

    ``scores[i]`` belongs to the row ``rows[i]``. A value of -inf is no wish.
    """
    n_units = scores.shape[1]
    shift = offsets + prices
    for i in range(rows.size):
        start, stop = first[rows[i]], first[rows[i] + 1]
        beyond[rows[i]] = _wish_one(scores[i], sign, shift, columns[start:stop])
        for t in range(start, stop):
            j = columns[t]
            if j == _NO_WISH:
                columns[t], values[t] = 0, -np.inf
            else:
                values[t] = sign * scores[i, j] - offsets[j]
        if n_units <= stop - start:
            beyond[rows[i]] = -np.inf


@njit(cache=True)
def _wish_one(scores, sign, shift, columns):
    """Write the units with the largest nets, -1 where there are no more; return a bound of the others."""
    n_units, n_wishes = scores.size, columns.size
    width = max(1, min(_MOST_BLOCK, n_units // (2 * n_wishes)))
    n_blocks = (n_units + width - 1) // width
    maxima = np.empty(n_blocks)
    for block in range(n_blocks):
        maxima[block] = _largest_net(scores, sign, shift, block * width, min((block + 1) * width, n_units))
    nets = np.empty(n_wishes)
    cut = _cut(maxima, nets)
    beyond, n_found = cut, 0
    columns[:] = _NO_WISH
    for block in range(n_blocks):
        if maxima[block] < cut:
            continue
        for j in range(block * width, min((block + 1) * width, n_units)):
            net = sign * scores[j] - shift[j]
            if net < cut or net == -np.inf:
                continue
            t = n_found
            if n_found < n_wishes:
                n_found += 1
            else:
                t = n_wishes - 1
                beyond = max(beyond, min(net, nets[t]))
                if net <= nets[t]:
                    continue
            while t > 0 and nets[t - 1] < net:
                nets[t], columns[t] = nets[t - 1], columns[t - 1]
                t -= 1
            nets[t], columns[t] = net, j
    return beyond


@njit(cache=True, nogil=True)
def bid(part, n_parts, n_rows, wishes, prices, round_, far):
    """The units and offers of a part of the first rows in the queue.

    An offer is what would make the second best unit as good, plus the increment. Where a row has no other unit, it
    is ``far`` above the price.
    """
    head, size = round_.numbers[HEAD], round_.queue.size
    for q in range(n_rows * part // n_parts, n_rows * (part + 1) // n_parts):
        row = round_.queue[(head + q) % size]
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
    """Give places of a part of the units to those who offer most, and write who has lost by each bid."""
    head, size, n_units = round_.numbers[HEAD], round_.queue.size, places.prices.size
    for q in range(n_rows):
        unit, row = round_.units[q], round_.queue[(head + q) % size]
        if unit == _NO_WISH:
            if part == 0:
                round_.losers[q] = _PARKED
            continue
        if unit * n_parts // n_units != part:
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
    """Take the rows of a round from the queue, and put those that lost at its end."""
    queue, numbers = round_.queue, round_.numbers
    head = numbers[HEAD]
    after, n_waiting = (head + n_rows) % queue.size, numbers[N_WAITING] - n_rows
    for q in range(n_rows):
        loser = round_.losers[q]
        if loser == _PARKED:
            round_.parked[numbers[N_PARKED]] = queue[(head + q) % queue.size]
            numbers[N_PARKED] += 1
    for q in range(n_rows):
        if round_.losers[q] >= 0:
            queue[(after + n_waiting) % queue.size] = round_.losers[q]
            n_waiting += 1
    numbers[HEAD], numbers[N_WAITING] = after, n_waiting
    numbers[N_BIDS] += n_rows
    if numbers[N_BIDS] > numbers[PATIENCE]:
        numbers[PATIENCE] += queue.size
        numbers[N_DOUBLED] += 1
        round_.increment[0] *= 2


@njit(cache=True, nogil=True)
def rounds(most_rows, few, enough, may_grow, wishes, places, round_, far, winners):
    """Rounds of up to so many rows, until ``few`` or ``enough`` are waiting, or there is something else to do first."""
    while round_.numbers[N_WAITING] > few:
        n_rows = min(most_rows, round_.numbers[N_WAITING])
        if n_rows >= enough or round_.numbers[N_DOUBLED] > round_.numbers[MOST_DOUBLED]:
            return
        bid(0, 1, n_rows, wishes, places.prices, round_, far)
        settle(0, 1, n_rows, places, round_, winners)
        queue_losers(n_rows, round_)
        if may_grow and places.is_short.any():
            return


@njit(cache=True, nogil=True)
def regret(rows, wishes, prices, winners):
    """The sum over rows of what the best unit could leave them at these prices, above what their own does; and the sum
    of the values of their own."""
    total, total_value = 0.0, 0.0
    for row in rows:
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
    """Of some values: the number that are finite, their sum, smallest and largest, and how many are not allowed."""
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
    """Of a part of the rows: how many values are forbidden (-inf once the sign is right) and how many are no numbers;
    the smallest and the largest of the finite; the sum of the best value of each row, less its mean."""
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
