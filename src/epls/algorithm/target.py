"""Algorithm 1: the ideal target of a mini-batch, as the number of the winning unit of each sample.

=====  ==================  ==========================================================================
paper  here                what it is
=====  ==================  ==========================================================================
N      ``n_samples``       samples in an epoch
N_h    ``n_components``    units
N_b    ``len(outputs)``    samples in a mini-batch
H      ``outputs``         (N_b, N_h), the output of the system
T      ``winners``         (N_b,), the column of the one active entry of each row of the target matrix
a      ``inhibitor``       (N_h,), how much each unit is held back
=====  ==================  ==========================================================================

The target has three properties: one active unit per sample, every unit active equally often, and, of all such targets,
the one nearest to the outputs. Nearest in the squared norm is the same as: the sum of the outputs at the winners is
largest.

The paper means equally often in an epoch. :class:`EpochTarget` is balanced over that, to within one win, and reaches
0.95 to 0.999 of the best sum over all samples of the epoch. :class:`AuctionTarget`, the default, is balanced in every
batch: it reaches all but a few thousandths of the best sum of the batch, but with as many samples as units in it only
0.75 to 0.99 of that of the epoch. :class:`ExactTarget` has the best sum of each batch, and takes 33 to 162 times
as long. :class:`LiteralTarget` is the rule as the paper prints it, which balances only roughly: the inhibitor of a unit
that has had its share is 1, and outputs can beat it. :class:`LargestTarget` has the first and the third property,
without balance. docs/training.md has the figures.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ..kernels.auction import auction, mean_margin
from ..kernels.greedy import literal_rule
from ..utils.types import Array
from .state import Stateful

Winners = NDArray[np.intp]

# The sum at the winners is less than the best by no more than this share of the sum of the rows' ranges. That is the
# bound; what is measured is eight times better or more (benchmarks/bench_target.py).
_RELATIVE_INCREMENT = 0.02
# In a batch of few rows a single bad bargain weighs more: below so many, the increments are smaller in proportion.
_MANY_ROWS = 400

# Of EpochTarget. Gains are in margins per win.
_FIRST_GAIN, _LEAST_GAIN, _LARGEST_GAIN = 1 / 8, 1 / 256, 1.0
_MANY_UNITS = 64  # the excess of fewer says little about the gain
_PULL = 0.5  # margins for each win that a unit is behind, over the rounds that are left to make it up
_MOST_AHEAD = 16  # rounds, in a stream
_MEASURED_ROWS, _MEMORY, _LEAST_MARGIN = 256, 0.2, 1e-30


class Target(Stateful):
    """Finds winners, batch after batch.

    Parameters
    ----------
    n_components : int
        The number of units.
    """

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components
        self.start_epoch(n_components)

    @abstractmethod
    def start_epoch(self, n_samples: int, n_dropped: int = 0) -> None:
        """Forget the epoch before; the batches to come have this many samples in all, less those dropped."""

    @abstractmethod
    def assign(self, outputs: Array) -> Winners:
        """The winner of each row."""


class BalancedTarget(Target):
    """Keeps count of the wins so that, after every batch, no two units differ by more than one.

    Batches may have any sizes, and the number of samples need not be known: what holds after every batch holds at the
    end of an epoch and at any moment of a stream. A batch that is a whole multiple of ``n_components`` gives every
    unit the same number of wins; another one is cut in two where a round of wins is complete.

    Attributes
    ----------
    counts : ndarray of shape (n_components,)
        Wins since the epoch began.
    """

    state_names = ("counts",)

    def start_epoch(self, n_samples: int, n_dropped: int = 0) -> None:
        self.counts = np.zeros(self.n_components, dtype=np.int64)

    def assign(self, outputs: Array) -> Winners:
        winners = np.empty(len(outputs), dtype=np.intp)
        for rows, capacity in self._shares(len(outputs)):
            winners[rows] = self._fill(outputs[rows], capacity)
            self.counts += np.bincount(winners[rows], minlength=self.n_components)
        return winners

    def _shares(self, n_rows: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Ranges of rows and the number of wins that each unit may have in them."""
        n_wins = int(self.counts.sum())
        complete_rounds = (n_wins + n_rows) // self.n_components
        n_completing = max(complete_rounds * self.n_components - n_wins, 0)
        if n_completing > 0:
            yield slice(0, n_completing), complete_rounds - self.counts
        if n_completing < n_rows:  # the wins of the range before have been counted by now
            yield slice(n_completing, n_rows), complete_rounds + 1 - self.counts

    @abstractmethod
    def _fill(self, outputs: Array, capacity: NDArray[np.int64]) -> Winners:
        """The winner of each row, with no more wins of a unit than its capacity."""


class AuctionTarget(BalancedTarget):
    """The balanced target nearest to the outputs, to a few thousandths, by auction.

    The paper's inhibitor is a price: its greedy pass is an auction in which every bid raises the price by a fixed step
    and nobody can be outbid. Here a row offers what the unit is worth to it, and a row that is outbid looks elsewhere.

    Examples
    --------
    >>> import numpy as np
    >>> target = AuctionTarget(2)
    >>> target.assign(np.array([[0.9, 0.8], [0.9, 0.1], [0.6, 0.5], [0.7, 0.2]]))
    array([1, 0, 1, 0])
    """

    def _fill(self, outputs: Array, capacity: NDArray[np.int64]) -> Winners:
        return hold_auction(outputs, capacity, np.zeros(self.n_components))


def hold_auction(
    outputs: Array, capacity: NDArray[np.int64], reserves: Array, rise: float = 0.0, least_increment: float = 0.0
) -> Winners:
    """The winner of each row; the k-th win of unit j costs ``reserves[j] + k * rise`` at least."""
    winners, dtype = np.empty(len(outputs), dtype=np.intp), outputs.dtype
    auction(
        np.ascontiguousarray(outputs),
        capacity,
        reserves.astype(dtype),
        dtype.type(rise),
        dtype.type(relative_increment(len(outputs))),
        dtype.type(least_increment),
        np.finfo(dtype).eps,
        winners,
    )
    return winners


def relative_increment(n_rows: int) -> float:
    """By what share of the value that it wants a row raises a price."""
    return _RELATIVE_INCREMENT * min(1.0, n_rows / _MANY_ROWS)


class EpochTarget(Target):
    """The target that is balanced over an epoch, though not in every batch, and near the outputs of all its samples.

    Every unit has a price, which rows pay out of their outputs: the paper's inhibitor, with steps that follow from the
    data. A row takes the unit that leaves it most. A unit that wins more often than its share becomes dearer, so units
    may run ahead for as long as their samples come, and those that are behind are pulled along the more, the nearer the
    end of the epoch is. No unit wins more than its share of the epoch: the wins of any two differ by at most one at
    its end. Prices are kept from epoch to epoch.

    How far prices move is not a setting. Their unit is the ``margin``, what a row's best unit has over its second. The
    ``gain`` is right if what a unit wins too often in one batch says nothing about the next: if it does, prices lag
    and the gain rises; if the opposite follows, they overshoot, and it falls.

    In a stream, where nobody knows how many samples will come, no unit is ever more than 16 wins ahead of its share.

    Attributes
    ----------
    counts : ndarray of shape (n_components,)
        Wins since the epoch began.
    prices : ndarray of shape (n_components,)
        In the unit of the outputs.
    excess : ndarray of shape (n_components,)
        Wins beyond what was due, in the batch before.
    margin, gain : float
        See above; a margin of 0 is not known yet.
    n_samples : int
        In the epoch; 0 is not known.

    Examples
    --------
    >>> import numpy as np
    >>> target = EpochTarget(2)
    >>> target.start_epoch(4)
    >>> target.assign(np.array([[0.9, 0.2], [0.8, 0.1]])), target.assign(np.array([[0.3, 0.9], [0.2, 0.8]]))
    (array([0, 0]), array([1, 1]))
    """

    state_names = ("counts", "prices", "excess", "margin", "gain", "n_samples")

    def __init__(self, n_components: int) -> None:
        super().__init__(n_components)
        self.prices: Array = np.zeros(n_components)
        self.excess: Array = np.zeros(n_components)
        self.margin = 0.0
        self.gain = _FIRST_GAIN
        self.n_samples = 0  # until an epoch begins, it is a stream

    def start_epoch(self, n_samples: int, n_dropped: int = 0) -> None:
        self.counts = np.zeros(self.n_components, dtype=np.int64)
        self.n_samples = n_samples - n_dropped

    def assign(self, outputs: Array) -> Winners:
        n_rows, n_units = outputs.shape
        if n_rows == 0:
            return np.empty(0, dtype=np.intp)
        due = self._shares(n_rows) - self.counts
        n_due = int(due.sum())
        if n_due == n_rows:  # the end of the epoch: every place is taken, whatever it costs
            winners = hold_auction(outputs, due, np.zeros(n_units))
            self.counts += due
            return winners
        self._measure(outputs)
        due_now = due * (n_rows / n_due)
        rounds_left = (n_due - n_rows) / n_units + 1
        pull = _PULL / rounds_left
        rise = max(self.gain, pull)
        reserves = self.prices - self.margin * (pull * (due - n_due / n_units) + rise * (n_rows / n_units - 0.5))
        least_increment = self.gain * self.margin / 2  # less than that, prices do not know
        winners = hold_auction(outputs, _places(due, n_rows), reserves, rise * self.margin, least_increment)
        wins = np.bincount(winners, minlength=n_units)
        self.counts += wins
        self._learn(wins - due_now)
        return winners

    def _shares(self, n_rows: int) -> NDArray[np.int64]:
        """How often each unit may have won by the end of the epoch: equally often, or once more if it is ahead."""
        n_wins = int(self.counts.sum())
        if n_wins + n_rows > self.n_samples:  # a stream
            return np.full(self.n_components, (n_wins + n_rows) // self.n_components + _MOST_AHEAD)
        share, n_more = divmod(self.n_samples, self.n_components)
        shares = np.full(self.n_components, share)
        shares[np.argsort(-self.counts, kind="stable")[:n_more]] += 1
        return shares

    def _measure(self, outputs: Array) -> None:
        """Follow the margin."""
        prices = self.prices.astype(outputs.dtype)
        sample = np.ascontiguousarray(outputs[:: max(len(outputs) // _MEASURED_ROWS, 1)])
        least = max(float(np.finfo(outputs.dtype).eps * np.abs(sample).max()), _LEAST_MARGIN)  # where all are equal
        margin = max(float(mean_margin(sample, prices)), least)
        self.margin += (margin - self.margin) * (_MEMORY if self.margin > 0 else 1.0)

    def _learn(self, excess: Array) -> None:
        """Move prices and gain by the wins of a batch beyond what was due."""
        self.prices = self.prices + self.gain * self.margin * excess
        size = math.sqrt(float(np.square(excess).sum() * np.square(self.excess).sum()))
        if size > 0:
            trust = min(1.0, self.n_components / _MANY_UNITS)
            gain = self.gain * math.exp(trust * float(excess @ self.excess) / size)
            self.gain = min(max(gain, _LEAST_GAIN), _LARGEST_GAIN)
        self.excess = excess


def _places(due: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """What is due, but not many times the share of a batch: prices rise before, and places take memory."""
    most = 8 * -(-n_rows // len(due))
    while np.minimum(due, most).sum() < n_rows:
        most *= 2
    return np.minimum(due, most)


class ExactTarget(BalancedTarget):
    """The balanced target nearest to the outputs, by the Hungarian method: slow, for comparison."""

    def _fill(self, outputs: Array, capacity: NDArray[np.int64]) -> Winners:
        unit_of_slot = np.repeat(np.arange(self.n_components), capacity)
        _, slots = linear_sum_assignment(outputs[:, unit_of_slot], maximize=True)
        return unit_of_slot[slots].astype(np.intp)


class LiteralTarget(Target):
    """The paper's greedy rule: balanced only roughly, and the arbitrary choices it makes leave noise in the filters.

    Attributes
    ----------
    inhibitor : ndarray of shape (n_components,)
        Carried from batch to batch, flat at the start of an epoch.
    """

    state_names = ("inhibitor", "step")

    def start_epoch(self, n_samples: int, n_dropped: int = 0) -> None:
        self.inhibitor: Array = np.zeros(self.n_components)
        self.step = float(self.n_components / n_samples + np.finfo(np.float32).eps)

    def assign(self, outputs: Array) -> Winners:
        winners = np.empty(len(outputs), dtype=np.intp)
        self.inhibitor = self.inhibitor.astype(outputs.dtype, copy=False)
        literal_rule(np.ascontiguousarray(outputs), self.inhibitor, outputs.dtype.type(self.step), winners)
        return winners


class LargestTarget(Target):
    """The unit with the largest output, without balance: units can be left with no sample at all."""

    def start_epoch(self, n_samples: int, n_dropped: int = 0) -> None:
        pass

    def assign(self, outputs: Array) -> Winners:
        return np.asarray(outputs.argmax(axis=1), np.intp)


TARGETS: dict[str, type[Target]] = {
    "auction": AuctionTarget,
    "epoch": EpochTarget,
    "exact": ExactTarget,
    "literal": LiteralTarget,
    "largest": LargestTarget,
}
