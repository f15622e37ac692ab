"""Auctions of places: who gets which unit, so that all together get the most, with limits on how many a unit takes.

Unit ``j`` has ``capacity[j]`` places, of which ``minimum[j]`` must be taken. Prices tell how much a place is wanted.
They belong to a best assignment if every row has the unit that leaves it most, prices above 0 are those of full units,
and prices below 0 those of units at their minimum. An auction ends with that, up to its increment, if its prices start
low enough: a place that may be taken, at 0; one that must, below anything. To start there takes long. Prices of an
earlier auction, or of one of a part of the rows, are nearly right: start a little below them, and start lower where
places are left empty that should not be.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..kernels.market import (
    MOST_DOUBLED,
    N_DOUBLED,
    N_NUMBERS,
    N_PARKED,
    N_WAITING,
    PATIENCE,
    Places,
    Round,
    bid,
    queue_losers,
    queue_parked,
    regret,
    rounds,
    settle,
)
from ..utils.threads import Crew
from ..utils.types import Float64, Indices
from .bidders import Bidders

Counts = NDArray[np.int64]

# Rows of a round: a share of all. More would bid at prices that are out of date, fewer cannot be shared.
_SHARE_OF_A_ROUND, _LEAST_ROUND = 8, 64
_WORTH_SHARING = 512  # rows of a round; with fewer, handing over takes longer than bidding
# One in this many rows is left out if only prices are needed, or if groups are not final yet.
_LEFT_OUT, _LOOSELY_LEFT = 1000, 250
_PATIENCE = 256  # bids per row, on average, after which the increment doubles with every further bid per row
_SLACK = 4.0  # increments below earlier prices to start at, where the level of prices matters
_RESTARTS = 10


@dataclass(frozen=True)
class Limits:
    """How many rows each unit takes: arrays of shape (n_units,)."""

    capacity: Counts
    minimum: Counts

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Whether a unit has no choice: it is full in the end, whatever its price was at the start."""
        return self.capacity == self.minimum

    def scaled(self, n_rows: int, n_all: int) -> Limits:
        """For some of the rows only, with a little more room."""
        capacity = -(-self.capacity * n_rows // n_all)
        return Limits(capacity, np.where(self.exact, 0, self.minimum * n_rows // n_all))


@dataclass(frozen=True)
class Outcome:
    """How an auction ended.

    Attributes
    ----------
    winners : ndarray of shape (n_rows,)
        The unit of each row; -1 for rows that did not take part.
    prices : ndarray of shape (n_units,)
        In the end.
    gap : float
        The best assignment is better by no more than this.
    value : float
        The sum of the values.
    unmet : ndarray of shape (n_units,)
        Units with empty places, though the prices say there should be none.
    increment : float
        In the end: larger than at the start if it took long.
    """

    winners: Indices
    prices: Float64
    gap: float
    value: float
    unmet: NDArray[np.bool_]
    increment: float


def hold(
    bidders: Bidders,
    rows: Indices,
    limits: Limits,
    must: Float64,
    may: Float64,
    increment: float,
    crew: Crew,
    check: Callable[[], None],
) -> Outcome:
    """One auction among some rows, in ascending order.

    Parameters
    ----------
    must, may : ndarray of shape (n_units,)
        What places cost at the start: those that must be taken, and the others. ``must`` is never above ``may``.
    increment : float
        What an offer is above what would do.
    check : callable
        Called if it takes long; raises an error if there is no solution.
    """
    places, winners, increment = _run(bidders, rows, limits, must, may, increment, crew, check)
    return _outcome(bidders, rows, limits, places, winners, increment)


def estimate(bidders: Bidders, rows: Indices, limits: Limits, prices: Float64, increment: float, crew: Crew) -> Float64:
    """The prices that some rows, in ascending order, find for the limits of all rows; from prices to start with.

    The last of them, who take the longest, are left without a unit.
    """
    some = limits.scaled(len(rows), bidders.shape[0])
    may = np.where(limits.exact, prices, np.maximum(prices, 0))
    few = len(rows) // _LEFT_OUT
    found = _run(bidders, rows, some, prices, may, increment, crew, lambda: None, few)[0].prices
    return np.where(limits.capacity > 0, found, 0.0)


def hold_loosely(
    bidders: Bidders, rows: Indices, limits: Limits, prices: Float64, increment: float, crew: Crew
) -> tuple[Indices, Float64]:
    """The same as :func:`hold_from`, but for a few rows, which keep the unit they lost last: several times as fast.

    Limits may be broken by these rows.
    """
    start = _leveled(prices, limits, len(rows)) - np.where(limits.exact, 0.0, _SLACK * increment)
    few = len(rows) // _LOOSELY_LEFT
    places, winners, _ = _run(bidders, rows, limits, start, np.maximum(start, 0), increment, crew, lambda: None, few)
    first_wishes = bidders.wishes.columns[bidders.wishes.first[:-1]]
    return np.where(winners < 0, first_wishes, winners), np.where(limits.capacity > 0, places.prices, 0.0)


def _run(
    bidders: Bidders,
    rows: Indices,
    limits: Limits,
    must: Float64,
    may: Float64,
    increment: float,
    crew: Crew,
    check: Callable[[], None],
    few: int = 0,
) -> tuple[Places, Indices, float]:
    """Rounds until no more than a few rows are without a unit: the places, the winners, and the last increment."""
    places = _opened(limits, must, may, len(rows))
    winners = np.full(bidders.shape[0], -1, np.intp)
    round_ = _new_round(rows, increment)
    numbers = round_.numbers
    bidders.look(rows, places.prices, crew)
    while numbers[N_WAITING] > few:
        _advance(bidders, places, round_, winners, crew, few)
        if numbers[N_DOUBLED] > numbers[MOST_DOUBLED]:
            check()
            numbers[MOST_DOUBLED] = np.iinfo(np.int64).max
        if places.is_short.any():
            places = _grown(places)
        if numbers[N_WAITING] <= few and numbers[N_PARKED] > 0:
            bidders.look(np.sort(round_.parked[: numbers[N_PARKED]]), places.prices, crew)
            queue_parked(round_)
    return places, winners, float(round_.increment[0])


def _new_round(rows: Indices, increment: float) -> Round:
    n_rows = len(rows)
    numbers = np.zeros(N_NUMBERS, np.int64)
    numbers[[N_WAITING, PATIENCE]] = n_rows, _PATIENCE * n_rows
    return Round(
        rows.astype(np.int64),
        np.empty(n_rows, np.int64),
        np.empty(n_rows),
        np.empty(n_rows, np.int64),
        np.empty(n_rows, np.int64),
        numbers,
        np.array([increment]),
    )


def _advance(bidders: Bidders, places: Places, round_: Round, winners: Indices, crew: Crew, few: int) -> None:
    """A round that threads share, or as many as one thread does quicker."""
    most_rows = max(len(round_.queue) // _SHARE_OF_A_ROUND, _LEAST_ROUND)
    n_rows = min(most_rows, int(round_.numbers[N_WAITING]))
    if crew.n_threads > 1 and n_rows >= _WORTH_SHARING:
        crew.share(bid, n_rows, bidders.wishes, places.prices, round_, bidders.far)
        crew.share(settle, n_rows, places, round_, winners)
        queue_losers(n_rows, round_)
        return
    enough = _WORTH_SHARING if crew.n_threads > 1 else len(round_.queue) + 1
    may_grow = bool((np.diff(places.first) < places.capacity).any())
    matrix = bidders.matrix()
    rounds(most_rows, few, enough, may_grow, matrix, bidders.wishes, places, round_, bidders.far, winners)


def _opened(limits: Limits, must: Float64, may: Float64, n_rows: int) -> Places:
    """Places of all units: those that must be taken, and a usual number of the others."""
    n_units = len(may)
    capacity = np.minimum(limits.capacity, n_rows)
    usual = 2 * -(-n_rows // n_units) + 16
    open_now = np.minimum(capacity, np.maximum(limits.minimum, usual))
    first = np.concatenate([[0], np.cumsum(open_now)])
    unit = np.repeat(np.arange(n_units), open_now)
    is_must = np.arange(first[-1]) - first[unit] < limits.minimum[unit]
    costs = np.where(is_must, must[unit], may[unit])
    prices = np.where(limits.minimum > 0, must, may)
    prices[capacity == 0] = np.inf
    return Places(first, costs, np.full(len(costs), -1), prices, capacity, may, np.zeros(n_units, np.bool_))


def _grown(places: Places) -> Places:
    """Twice as many places for the units whose open ones are taken."""
    sizes = np.diff(places.first)
    new_sizes = np.where(places.is_short, np.minimum(2 * sizes, places.capacity), sizes)
    first = np.concatenate([[0], np.cumsum(new_sizes)])
    unit = np.repeat(np.arange(len(sizes)), new_sizes)
    costs, owners = places.reserves[unit], np.full(first[-1], -1)
    prices = places.prices.copy()
    for j in range(len(sizes)):
        old, new = slice(places.first[j], places.first[j + 1]), slice(first[j], first[j + 1])
        costs[new][: sizes[j]], owners[new][: sizes[j]] = places.costs[old], places.owners[old]
        if places.is_short[j]:
            order = np.lexsort((owners[new], costs[new]))  # what is sorted is a heap
            costs[new], owners[new] = costs[new][order], owners[new][order]
            prices[j] = costs[first[j]]
    return Places(first, costs, owners, prices, places.capacity, places.reserves, np.zeros(len(sizes), np.bool_))


def _outcome(
    bidders: Bidders, rows: Indices, limits: Limits, places: Places, winners: Indices, increment: float
) -> Outcome:
    counts = np.bincount(winners[rows], minlength=len(limits.capacity))
    is_open = places.capacity > 0
    prices = np.where(is_open, places.prices, 0.0)
    most_paid = np.where(prices > 0, places.capacity, limits.minimum)
    of_rows, value = regret(rows, bidders.wishes, places.prices, winners)
    gap = of_rows + float(((most_paid - counts) * prices).sum())
    unmet = (counts < limits.minimum) | ((counts < places.capacity) & (places.reserves > 0) & is_open)
    return Outcome(winners, prices, gap, value, unmet, increment)


def hold_from(
    bidders: Bidders,
    rows: Indices,
    limits: Limits,
    prices: Float64,
    increment: float,
    crew: Crew,
    check: Callable[[], None],
) -> Outcome:
    """An auction that starts near prices that are nearly right; all limits are met in the end."""
    base = np.where(limits.exact, 0.0, _SLACK * increment)
    slack = base
    for _ in range(_RESTARTS):
        start = _leveled(prices, limits, len(rows)) - slack
        outcome = hold(bidders, rows, limits, start, np.maximum(start, 0), increment, crew, check)
        if not outcome.unmet.any():
            return outcome
        check()
        prices, slack = outcome.prices, np.where(outcome.unmet, 8 * slack + increment, base)
    floor = np.full(len(prices), -(len(prices) + 1) * (bidders.far + increment) - np.abs(prices).max())
    return hold(bidders, rows, limits, floor, np.zeros(len(prices)), increment, crew, check)


def _leveled(prices: Float64, limits: Limits, n_rows: int) -> Float64:
    """The same differences of prices, at the level where as many places that may be taken have a price above 0 as
    there are rows for them."""
    room = limits.capacity - limits.minimum
    if not room.any():  # only differences count, and they must not drift away
        return prices - prices.mean()
    dearest_first = np.argsort(-prices, kind="stable")
    dearest_first = dearest_first[room[dearest_first] > 0]
    last = int(np.searchsorted(np.cumsum(room[dearest_first]), n_rows - limits.minimum.sum()))
    return np.asarray(prices - prices[dearest_first[min(last, len(dearest_first) - 1)]])
