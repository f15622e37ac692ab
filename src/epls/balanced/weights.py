"""Whole samples of different weights in groups whose total weights have limits.

If samples could be divided, this would be a linear program, the transportation problem: shares of samples go to groups
at the largest total value. Its shares become whole samples by the rounding of Shmoys and Tardos (1993): the shares in a
group, heaviest samples first, fill slots of one sample each, and a matching gives each divided sample one of its slots.
The total value does not decrease. No sample of a slot is lighter than those of the next slot, so the weight of a group
changes by less than the largest weight.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from ..utils.threads import allowed_threads
from ..utils.types import Array, Float64, Indices
from .auction import Limits, NearBidders

# Draws that bid for samples, auctions until the weights of groups are nearly right, and groups that a sample may move
# to after that.
_FEWEST_DRAWS, _AUCTIONS, _NEAR = 1000, 4, 8
_DIGITS, _TINY = 9, 1e-6  # of a share; the tolerance of the solver is 1e-7
_DROPPED = 1e-9  # weights, in largest weights, that the solver takes for 0
# Samples that may move: weight that leaves or enters a group, in multiples of what is too much, and moves at least.
_FIRST_AMOUNT, _MORE, _FEWEST_PAIRS = 2.0, 4.0, 2000
_LIMITINGS = 100  # at most; each takes a share of what is still too much


class WholeSamples:
    """Assignments of samples with weights: limits are total weights, and no sample is divided.

    Samples are drawn in proportion to their weights, and these draws bid for places in groups. A sample that is too
    heavy for any group is drawn as often as a group has places: its draws would push all others out of several groups.
    """

    def __init__(self, X: Any, limits: Limits, weights: Float64) -> None:
        self._X, self._all_weights = X, weights
        self._limits = limits.minimum.astype(np.float64), limits.capacity.astype(np.float64)
        self._weights = limited(weights, self._limits[1].max() / weights.sum())
        self._low, self._high = (limit * (self._weights.sum() / weights.sum()) for limit in self._limits)

    def draws(self, at_least: int = 0) -> Indices:
        """Return the samples that are drawn, each as often as it is."""
        return drawn(self._weights, max(len(self._weights), _FEWEST_DRAWS), at_least)

    def places(self, n_draws: int, more: Float64 | float = 0.0) -> Limits:
        """Return the limits for draws, with ``more`` weight for each group."""
        unit = self._weights.sum() / n_draws
        least, most = np.floor((self._low + more) / unit), np.ceil((self._high + more) / unit)
        return Limits(np.clip(most, 0, n_draws).astype(np.int64), np.clip(least, 0, n_draws).astype(np.int64))

    def assign(self, centers: Array, prices: Float64, of_equals: Callable[..., Any]) -> tuple[Indices, Float64]:
        """Return the group of each sample and the prices of groups, given earlier prices.

        ``of_equals(X, limits).assign(centers, prices)`` does the same for samples of one weight.
        """
        n_samples, n_groups = self._X.shape[0], len(centers)
        rows, more = self.draws(at_least=1), np.zeros(n_groups)
        draws = self._X[rows]
        bidders = NearBidders(self._X, n_groups)
        bidders.approach(centers)
        for _ in range(_AUCTIONS):
            places = self.places(len(rows), more)
            if places.capacity.sum() < len(rows) or places.minimum.sum() > len(rows):
                break
            of_draws, prices = of_equals(draws, places).assign(centers, prices)
            bidders.look(np.arange(n_samples), prices, allowed_threads())
            near, values = (wish.reshape(n_samples, -1)[:, :_NEAR].copy() for wish in bidders.wishes[1:3])
            groups = near[:, 0].astype(np.intp)  # for those of weight 0
            groups[rows] = of_draws
            loads = np.bincount(groups, self._weights, n_groups)
            more += np.clip(loads, self._low, self._high) - loads
        others = np.flatnonzero((near != groups[:, None]).all(axis=1))  # where many groups are equally near
        near[others, -1], values[others, -1] = groups[others], bidders.values_of(others, groups[others])
        pairs = groups, near, values, bidders.values_of
        return whole_samples(*pairs, prices, self._all_weights, *self._limits), prices


def drawn(weights: Float64, n_draws: int, at_least: int = 0, offset: float = 0.5) -> Indices:
    """Return the numbers of samples, each repeated in proportion to its weight, to within one, or ``at_least`` times.

    A random ``offset`` from 0 to 1 makes them random. Samples of weight 0 are not drawn.
    """
    ends = np.floor(np.cumsum(weights) / weights.sum() * n_draws + offset).astype(np.intp)
    times = np.maximum(np.diff(ends, prepend=0), np.where(weights > 0, at_least, 0))
    return np.repeat(np.arange(len(weights)), times)


def limited(weights: Float64, share: float) -> Float64:
    """Return weights of which none exceeds a share of their total, by making the heaviest equally heavy."""
    for _ in range(_LIMITINGS):
        most = share * weights.sum()
        if weights.max() <= (1 + _TINY) * most:
            break
        weights = np.minimum(weights, most)
    return weights


def whole_samples(
    groups: Indices,
    near: Indices,
    values: Float64,
    value_of: Callable[[Indices, Indices], Float64],
    prices: Float64,
    weights: Float64,
    low: Float64,
    high: Float64,
) -> Indices:
    """Return groups with total weights within their limits, up to the largest weight, by moving few samples.

    ``groups`` (n_samples,) are good for the samples, with total weights near the limits ``low`` and ``high``
    (n_groups,). ``near`` and ``values`` (n_samples, n_near) are the best groups of each sample, its own among them, and
    its value in each, per weight; ``value_of(samples, groups)`` returns the values of other pairs. Samples to which
    another group is almost worth its price may move.
    """
    n_groups, largest = len(low), weights.max()
    if n_groups == 1:
        return groups
    weights, low, high = weights / largest, low / largest, high / largest
    is_own = near == groups[:, None]
    groups, own = groups.copy(), values[is_own].astype(np.float64)
    samples, to = np.nonzero(~is_own & (weights > 0)[:, None])
    losses, to = own[samples] - values[samples, to], near[samples, to]
    left = groups[samples]
    regrets = losses + prices[to] - prices[left]
    is_least = np.zeros(len(regrets), np.bool_)
    is_least[np.argsort(regrets, kind="stable")[:_FEWEST_PAIRS]] = True
    before = np.minimum(_sums_before(weights[samples], left, regrets), _sums_before(weights[samples], to, regrets))
    loads = np.bincount(groups, weights, n_groups)
    amount = _FIRST_AMOUNT * (weights.mean() + max((loads - high).max(), (low - loads).max(), 0.0))
    targets = None
    while targets is None:
        may = is_least | (before < amount)
        movable = np.unique(samples[may]) if amount < weights.sum() else np.flatnonzero(weights)
        fixed = loads - np.bincount(groups[movable], weights[movable], n_groups)
        targets = _targets(low - fixed, high - fixed, weights[movable].sum())
        amount *= _MORE
    # The pairs of the linear program: samples where they are, moves of little regret, and some that meet the limits.
    movable = movable[np.argsort(groups[movable], kind="stable")]
    filling, filled = _filled(weights[movable], targets)
    filling = movable[filling]
    rows, columns = np.concatenate([movable, samples[may], filling]), np.concatenate([groups[movable], to[may], filled])
    gains = np.concatenate([np.zeros(len(movable)), -losses[may], value_of(filling, filled) - own[filling]])
    _, once = np.unique(rows * n_groups + columns, return_index=True)
    rows, columns, gains = rows[once], columns[once], gains[once] * weights[rows[once]]
    shares = _shares(rows, columns, gains, weights[rows], low - fixed, high - fixed)
    chosen = _rounded(rows, columns, gains, weights[rows], shares)
    groups[rows[chosen]] = columns[chosen]
    return groups


def _sums_before(values: Float64, groups: Indices, order_by: Float64) -> Float64:
    """Return, for each value, the sum of the earlier values of its group."""
    order = np.lexsort((order_by, groups))
    values, groups = values[order], groups[order]
    before = np.cumsum(values) - values
    is_first = np.diff(groups, prepend=-1) != 0
    sums = np.empty(len(values))
    sums[order] = before - before[is_first][np.cumsum(is_first) - 1]
    return sums


def _targets(low: Float64, high: Float64, total: float) -> Float64 | None:
    """Return numbers within limits, not negative, that add up to the total; None if there are none."""
    low = np.maximum(low, 0)
    room, rest = high - low, total - low.sum()
    tiny = 1e-9 * (1 + total)
    if room.min() < -tiny or rest < -tiny or rest > room.sum() + tiny:
        return None
    return np.asarray(low + np.maximum(room, 0) * (rest / max(room.sum(), tiny)))


def _filled(weights: Float64, targets: Float64) -> tuple[Indices, Indices]:
    """Return the pairs of samples and groups if samples fill one group after the other."""
    sample_ends, group_ends = np.cumsum(weights), np.cumsum(targets)
    starts = np.unique(np.concatenate([[0.0], sample_ends[:-1], group_ends[:-1]]))
    starts = starts[starts < sample_ends[-1]]
    groups = np.searchsorted(group_ends[:-1], starts, side="right")
    return np.searchsorted(sample_ends[:-1], starts, side="right"), groups


def _shares(
    rows: Indices, columns: Indices, gains: Float64, weights: Float64, low: Float64, high: Float64, whole: bool = False
) -> Float64:
    """Return the share of each pair in the assignment of rows to columns with the largest total gain.

    In each column, shares times weights add up to between ``low`` and ``high``.
    """
    pairs, is_exact = np.arange(len(rows)), low == high
    numbers, row = np.unique(rows, return_inverse=True)
    of_rows = sparse.csr_array((np.ones(len(rows)), (row, pairs)), shape=(len(numbers), len(rows)))
    of_columns = sparse.csr_array((weights, (columns, pairs)), shape=(len(low), len(rows)))
    limited = of_columns[~is_exact]
    problem = {
        "c": -gains / max(np.abs(gains).max(), np.finfo(float).tiny),
        "A_eq": sparse.vstack([of_rows, of_columns[is_exact]], format="csc"),
        "b_eq": np.concatenate([np.ones(len(numbers)), low[is_exact]]),
        "A_ub": sparse.vstack([limited, -limited], format="csc"),
        "b_ub": np.concatenate([high[~is_exact], -low[~is_exact]]),
        "bounds": (0, 1),
    }
    if whole:
        found = linprog(**problem, integrality=1)
    else:  # measured: without presolve, the interior point method takes a tenth of the time of any other
        found = linprog(**problem, method="highs-ipm", options={"presolve": False})
    if found.x is None and not whole:  # the solver drops coefficients below _DROPPED: limits then cannot be met exactly
        slack = _DROPPED * len(rows)
        problem |= {
            "A_eq": of_rows,
            "b_eq": np.ones(len(numbers)),
            "A_ub": sparse.vstack([of_columns, -of_columns], format="csc"),
            "b_ub": np.concatenate([high + slack, slack - low]),
        }
        found = linprog(**problem)
    if found.x is None:
        raise RuntimeError(f"the linear program of the weights was not solved: {found.message}")
    return np.asarray(found.x)


def _rounded(rows: Indices, columns: Indices, gains: Float64, weights: Float64, shares: Float64) -> Indices:
    """Return one pair of each row: the whole ones, and those that a matching of divided rows and slots chooses."""
    is_whole = shares > 1 - _TINY
    split = np.flatnonzero((shares > _TINY) & ~is_whole)
    if len(split) == 0:
        return np.flatnonzero(is_whole)
    of_row = np.bincount(rows[split], shares[split])
    parts = shares[split] / of_row[rows[split]]
    starts = np.round(_sums_before(parts, columns[split], -weights[split]), _DIGITS)
    ends = np.round(starts + parts, _DIGITS)
    in_two = ends > np.floor(starts) + 1  # slots
    pairs = np.concatenate([split, split[in_two]])
    number = np.concatenate([np.floor(starts), np.floor(starts[in_two]) + 1])
    filled = np.zeros(columns.max() + 1)
    np.maximum.at(filled, columns[split], ends)
    slots, slot = np.unique(np.stack([columns[pairs], number]), axis=1, return_inverse=True)
    is_full = filled[slots[0].astype(np.intp)] >= slots[1] + 1
    once = np.ones(len(is_full))
    taken = _shares(rows[pairs], slot.ravel(), gains[pairs], np.ones(len(pairs)), 1.0 * is_full, once, whole=True)
    return np.concatenate([np.flatnonzero(is_whole), pairs[taken > 0.5]])
