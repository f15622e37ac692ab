"""Auctions: assign rows to units at the largest total value, with limits on the number of rows of each unit.

Unit ``j`` has ``capacity[j]`` places, of which ``minimum[j]`` must be taken. Rows bid for places, and each unit has a
price. An assignment is optimal if every row has the unit with its largest value minus price, units with a price above 0
are full, and units with a price below 0 have their minimum. An auction ends with such prices, up to its increment, if
they start low enough: at 0 for a place that may be taken, and below any value for a place that must be taken. Starting
there takes long. Prices of an earlier auction, or of an auction among some of the rows, are nearly right. So an auction
starts a little below these, and starts again from lower prices where places that should be taken stay empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..kernels import market
from ..utils.threads import BLOCK_ROWS, do_all, row_blocks, share
from ..utils.types import Array, Float64, Indices

Counts = NDArray[np.int64]

_N_WISHES = 16  # measured: with fewer, rows search all units again too often; with more, every bid takes longer
# Rows of a round: a share of all. More would bid at prices that are out of date, fewer cannot be shared.
_SHARE_OF_A_ROUND, _LEAST_ROUND = 8, 64
_WORTH_SHARING = 512  # rows of a round; with fewer, waking threads takes longer than bidding
# One in this many rows is left out if only prices are needed, or if groups are not final yet.
_LEFT_OUT, _LOOSELY_LEFT = 1000, 250
_PATIENCE = 256  # bids per row, on average, after which the increment doubles with every further bid per row
_SLACK = 4.0  # increments below earlier prices to start at, where the level of prices matters
_RESTARTS = 10
_LEVELS = (16, 4)  # prices are first found for a sixteenth of the rows, then for a quarter
_FEWEST_ROWS, _FEWEST_PER_UNIT = 500, 4  # of such a part


@dataclass(frozen=True)
class Limits:
    """The limits on the number of rows of each unit: arrays of shape (n_units,)."""

    capacity: Counts
    minimum: Counts

    @property
    def exact(self) -> NDArray[np.bool_]:
        """Whether the number of rows is fixed: such a unit is full in the end, whatever its first price was."""
        return self.capacity == self.minimum

    def scaled(self, n_rows: int, n_all: int) -> Limits:
        """Return limits for some of the rows, with a little more room."""
        capacity = -(-self.capacity * n_rows // n_all)
        return Limits(capacity, np.where(self.exact, 0, self.minimum * n_rows // n_all))


class Bidders:
    """Rows that bid for one unit each, at values ``sign * scores[i, j] - offsets[j]``.

    ``wishes`` are the units that are best for each row, ``far`` is an upper bound for the difference of any two values,
    and ``restricted`` tells whether some units are forbidden for some rows. ``matrix`` has the scores of all rows; it
    has no rows if they are not stored.
    """

    def __init__(self, matrix: Array, sign: float, far: float, restricted: bool = False) -> None:
        self.matrix, self.sign, self.far, self.restricted = matrix, sign, far, restricted
        self._start(matrix.shape[0], matrix.shape[1])

    def _start(self, n_rows: int, n_units: int) -> None:
        """Allocate the wishes: a few for each row."""
        n_wishes = min(_N_WISHES, n_units)
        self.shape, self.offsets = (n_rows, n_units), np.zeros(n_units)
        self.wishes = market.Wishes(
            np.arange(n_rows + 1, dtype=np.int64) * n_wishes,
            np.empty(n_rows * n_wishes, np.int32),
            np.empty(n_rows * n_wishes, self.matrix.dtype),
            np.empty(n_rows),
        )

    def look(self, rows: Indices, prices: Float64, n_threads: int) -> None:
        """Find the wishes of some rows at these prices."""

        def work(block: slice) -> None:
            numbers = rows[block]
            market.wish(self._scores(numbers), numbers, self.sign, self.offsets, prices, self.wishes)

        do_all(work, list(row_blocks(len(rows), BLOCK_ROWS)), n_threads)

    def _scores(self, rows: Indices) -> Array:
        return np.asarray(_taken(self.matrix, rows))


class ListedBidders(Bidders):
    """Rows with lists of allowed units, from a csr_array of values without duplicate entries."""

    def __init__(self, values: Any, far: float) -> None:
        self.matrix, self.sign, self.far, self.restricted = np.empty((0, 0), values.dtype), 1.0, far, True
        self.shape, self.offsets = values.shape, np.empty(0)
        beyond = np.full(values.shape[0], -np.inf)
        self.wishes = market.Wishes(
            values.indptr.astype(np.int64), values.indices.astype(np.int32), values.data, beyond
        )

    def look(self, rows: Indices, prices: Float64, n_threads: int) -> None:
        pass  # all allowed units are wishes


class NearBidders(Bidders):
    """Samples that bid for a near centre: the value is minus the squared distance, up to a constant of the sample.

    Samples are rows of an array or a csr_array. :meth:`approach` sets the centres.
    """

    def __init__(self, X: Any, n_centers: int) -> None:
        self.matrix, self.sign, self.restricted = np.empty((0, 0), X.dtype), 1.0, False
        self._start(X.shape[0], n_centers)
        self._X = X
        self._largest = float(np.sqrt(squared_norms(X).max()))

    def approach(self, centers: Array, fees: Float64 | float = 0.0) -> None:
        """Set the centres, and what each costs in addition to the squared distance."""
        self._twice = np.ascontiguousarray(2 * centers.T, self._X.dtype)
        norms = squared_norms(centers)
        self.offsets = norms + fees
        largest = float(np.sqrt(norms.max()))
        self.far = 4 * self._largest * largest + largest**2 + float(np.ptp(fees))

    def values_of(self, rows: Indices, units: Indices) -> Float64:
        """Return the values of pairs of rows and units."""
        some, twice = self._X[rows], self._twice.T[units]
        products = some.multiply(twice).sum(axis=1) if sparse.issparse(some) else np.einsum("ij,ij->i", some, twice)
        return np.asarray(products, np.float64).ravel() - self.offsets[units]

    def _scores(self, rows: Indices) -> Array:
        return np.ascontiguousarray(dense(_taken(self._X, rows) @ self._twice))


def _taken(X: Any, rows: Indices) -> Any:
    """Return some rows, given in ascending order; without a copy if they are consecutive."""
    first, last = int(rows[0]), int(rows[-1])
    return X[first : last + 1] if last - first == len(rows) - 1 else X[rows]


def dense(X: Any) -> Array:
    """Return an array or a sparse array as an array."""
    return np.asarray(X.toarray() if sparse.issparse(X) else X)


def squared_norms(X: Any) -> Float64:
    """Return the squared length of each row, in float64."""
    if sparse.issparse(X):
        return np.asarray(X.multiply(X).sum(axis=1), np.float64).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


@dataclass(frozen=True)
class Outcome:
    """The result of an auction."""

    winners: Indices  # the unit of each row
    prices: Float64
    gap: float  # the best assignment has a total value that is larger by at most this much
    value: float  # the total value
    increment: float  # larger than at the start if the auction took long


@dataclass(frozen=True)
class _Run:
    """The state at the end of an auction: the places, the unit of each row (-1 for none), and the last increment."""

    places: market.Places
    winners: Indices
    increment: float

    @property
    def prices(self) -> Float64:
        """The prices of units, 0 for those without places."""
        return np.where(self.places.capacity > 0, self.places.prices, 0.0)


@dataclass(frozen=True)
class Auction:
    """Auctions among the same rows with the same limits.

    An offer exceeds the price at which the second-best unit would be equally good by the ``increment``. ``check`` is
    called if an auction takes long; it should raise an error if no assignment meets the limits.
    """

    bidders: Bidders
    limits: Limits
    n_threads: int
    check: Callable[[], None] = lambda: None

    def first_prices(self, increment: float) -> Float64:
        """Return prices found by a part of the rows, then by a larger part; 0 if there are too few rows.

        The last rows, which take the longest, are left without a unit.
        """
        (n_rows, n_units), limits = self.bidders.shape, self.limits
        prices = np.zeros(n_units)
        order = np.random.RandomState(0).permutation(n_rows)
        for divisor in _LEVELS:
            n_part = n_rows // divisor
            if n_part >= max(_FEWEST_ROWS, _FEWEST_PER_UNIT * n_units) and not self.bidders.restricted:
                may = np.where(limits.exact, prices, np.maximum(prices, 0))
                places = _opened(limits.scaled(n_part, n_rows), prices, may, n_part)
                prices = self._run(np.sort(order[:n_part]), places, increment, n_part // _LEFT_OUT).prices
        return prices

    def hold(self, prices: Float64, increment: float) -> Outcome:
        """Hold an auction among all rows that starts near nearly right prices. All limits are met in the end."""
        limits, rows = self.limits, np.arange(self.bidders.shape[0])
        slack = base = np.where(limits.exact, 0.0, _SLACK * increment)
        for _ in range(_RESTARTS):
            start = self._leveled(prices) - slack
            run = self._run(rows, _opened(limits, start, np.maximum(start, 0), len(rows)), increment)
            unmet = self._unmet(run)
            if not unmet.any():
                return self._outcome(run)
            self.check()
            prices, slack = run.prices, np.where(unmet, 8 * slack + increment, base)
        floor = np.full(len(prices), -(len(prices) + 1) * (self.bidders.far + increment) - np.abs(prices).max())
        return self._outcome(self._run(rows, _opened(limits, floor, np.zeros(len(prices)), len(rows)), increment))

    def hold_loosely(self, prices: Float64, increment: float) -> tuple[Indices, Float64]:
        """Return the winners and prices of an auction that ends while a few rows still wait: several times as fast.

        These rows get the unit they lost last, which may break the limits.
        """
        limits, rows = self.limits, np.arange(self.bidders.shape[0])
        start = self._leveled(prices) - np.where(limits.exact, 0.0, _SLACK * increment)
        places = _opened(limits, start, np.maximum(start, 0), len(rows))
        run = self._run(rows, places, increment, few_left=len(rows) // _LOOSELY_LEFT)
        wishes = self.bidders.wishes
        return np.where(run.winners < 0, wishes.columns[wishes.first[:-1]], run.winners), run.prices

    def _run(self, rows: Indices, places: market.Places, increment: float, few_left: int = 0) -> _Run:
        """Let some rows, in ascending order, bid until at most ``few_left`` of them wait."""
        n_rows, bidders = len(rows), self.bidders
        winners = np.full(bidders.shape[0], -1, np.intp)
        numbers = np.zeros(market.N_NUMBERS, np.int64)
        numbers[[market.N_WAITING, market.PATIENCE]] = n_rows, _PATIENCE * n_rows
        units, losers, parked = (np.empty(n_rows, np.int64) for _ in range(3))
        round_ = market.Round(
            rows.astype(np.int64), units, np.empty(n_rows), losers, parked, numbers, np.array([increment])
        )
        bidders.look(rows, places.prices, self.n_threads)
        while numbers[market.N_WAITING] > few_left:
            self._advance(places, round_, winners, few_left)
            if numbers[market.N_DOUBLED] > numbers[market.MOST_DOUBLED]:
                self.check()
                numbers[market.MOST_DOUBLED] = np.iinfo(np.int64).max
            if places.is_short.any():
                places = _grown(places)
            if numbers[market.N_WAITING] <= few_left and numbers[market.N_PARKED] > 0:
                bidders.look(np.sort(parked[: numbers[market.N_PARKED]]), places.prices, self.n_threads)
                market.queue_parked(round_)
        return _Run(places, winners, float(round_.increment[0]))

    def _advance(self, places: market.Places, round_: market.Round, winners: Indices, few_left: int) -> None:
        """Do one round that threads share, or as many rounds as one thread does faster."""
        bidders, n_threads = self.bidders, self.n_threads
        most_rows = max(len(round_.queue) // _SHARE_OF_A_ROUND, _LEAST_ROUND)
        n_rows = min(most_rows, int(round_.numbers[market.N_WAITING]))
        if n_threads > 1 and n_rows >= _WORTH_SHARING:
            share(market.bid, n_threads, n_rows, bidders.wishes, places.prices, round_, bidders.far)
            share(market.settle, n_threads, n_rows, places, round_, winners)
            market.queue_losers(n_rows, round_)
            return
        enough = _WORTH_SHARING if n_threads > 1 else len(round_.queue) + 1
        may_grow = bool((np.diff(places.first) < places.capacity).any())
        matrix = (bidders.matrix, bidders.sign, bidders.offsets)
        market.rounds(
            most_rows, few_left, enough, may_grow, matrix, bidders.wishes, places, round_, bidders.far, winners
        )

    def _unmet(self, run: _Run) -> NDArray[np.bool_]:
        """Return which units have empty places, though by their prices they should have none."""
        places, counts = run.places, np.bincount(run.winners, minlength=len(self.limits.capacity))
        should_be_full = (places.reserves > 0) & (places.capacity > 0)
        return np.asarray((counts < self.limits.minimum) | ((counts < places.capacity) & should_be_full))

    def _outcome(self, run: _Run) -> Outcome:
        """Return the result of an auction among all rows, with the gap that the prices prove."""
        counts, prices = np.bincount(run.winners, minlength=len(self.limits.capacity)), run.prices
        most_paid = np.where(prices > 0, run.places.capacity, self.limits.minimum)
        of_rows, value = market.regret(self.bidders.wishes, run.places.prices, run.winners)
        gap = of_rows + float(((most_paid - counts) * prices).sum())
        return Outcome(run.winners, prices, gap, value, run.increment)

    def _leveled(self, prices: Float64) -> Float64:
        """Shift prices so that as many places that may be taken have a price above 0 as there are rows for them."""
        n_rows, minimum = self.bidders.shape[0], self.limits.minimum
        room = self.limits.capacity - minimum
        if not room.any():  # only differences count, and they must not drift away
            return prices - prices.mean()
        dearest_first = np.argsort(-prices, kind="stable")
        dearest_first = dearest_first[room[dearest_first] > 0]
        last = int(np.searchsorted(np.cumsum(room[dearest_first]), n_rows - minimum.sum()))
        return np.asarray(prices - prices[dearest_first[min(last, len(dearest_first) - 1)]])


def _opened(limits: Limits, must: Float64, may: Float64, n_rows: int) -> market.Places:
    """Open places: those that must be taken at prices ``must``, and a usual number of others at ``may``, not below."""
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
    return market.Places(first, costs, np.full(len(costs), -1), prices, capacity, may, np.zeros(n_units, np.bool_))


def _grown(places: market.Places) -> market.Places:
    """Open twice as many places of the units whose open places are all taken."""
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
            order = np.lexsort((owners[new], costs[new]))  # a sorted array is a heap
            costs[new], owners[new] = costs[new][order], owners[new][order]
            prices[j] = costs[first[j]]
    return market.Places(first, costs, owners, prices, places.capacity, places.reserves, np.zeros(len(sizes), np.bool_))
