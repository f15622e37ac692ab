"""Whole samples of different weights in groups whose total weights have limits.

If samples could be divided, this would be a linear program, the transportation problem: shares of samples go to groups
at the largest total value. Its shares become whole samples by the rounding of Shmoys and Tardos (1993): the shares in a
group, heaviest samples first, fill slots of one sample each, and a matching gives each divided sample one of its slots.
The total value does not decrease. No sample of a slot is lighter than those of the next slot, so the weight of a group
changes by less than the largest weight.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from ..utils.types import Float64, Indices

_DIGITS, _TINY = 9, 1e-6  # of a share; the tolerance of the solver is 1e-7
_DROPPED = 1e-9  # weights, in largest weights, that the solver takes for 0
# Samples that may move: weight that leaves or enters a group, in multiples of what is too much, and moves at least.
_FIRST_AMOUNT, _MORE, _FEWEST_PAIRS = 2.0, 4.0, 2000
_LIMITINGS = 100  # at most; each takes a share of what is still too much


def drawn(weights: Float64, n_draws: int, at_least: int = 0) -> Indices:
    """Return the numbers of samples, each repeated in proportion to its weight, to within one, or ``at_least`` times.

    Samples of weight 0 are not drawn.
    """
    ends = np.floor(np.cumsum(weights) / weights.sum() * n_draws + 0.5).astype(np.intp)
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

    Parameters
    ----------
    groups : ndarray of shape (n_samples,)
        A good group for each sample, with total weights near the limits.
    near, values : ndarray of shape (n_samples, n_near)
        The best groups of each sample, its own among them, and its value in each, per weight.
    value_of : callable
        Returns the values of any other pairs, given their samples and groups.
    prices : ndarray of shape (n_groups,)
        Nearly right prices of groups, per weight: samples to which another group is almost worth its price may move.
    weights : ndarray of shape (n_samples,)
        The weights, not all 0.
    low, high : ndarray of shape (n_groups,)
        The limits, with ``low.sum() <= weights.sum() <= high.sum()``, up to rounding.
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
