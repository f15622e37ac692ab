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

The paper means equally often in an epoch. The target of :mod:`epls.algorithm.epoch_target` is balanced over that, to
within one win, and reaches 0.95 to 0.999 of the best sum over all samples of the epoch. :class:`AuctionTarget`, the
default, is balanced in every batch: it reaches all but a few thousandths of the best sum of the batch, but with as many
samples as units in it only 0.75 to 0.99 of that of the epoch. :class:`ExactTarget` has the best sum of each batch, and
takes 33 to 162 times as long. :class:`LiteralTarget` is the rule as the paper prints it, which balances only roughly:
the inhibitor of a unit that has had its share is 1, and outputs can beat it. :class:`LargestTarget` has the first and
the third property, without balance. docs/training.md has the figures.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ..kernels.auction import auction
from ..kernels.greedy import literal_rule
from ..utils.types import Array
from .state import Stateful

Winners = NDArray[np.intp]

# The sum at the winners is less than the best by no more than this share of the sum of the rows' ranges. That is the
# bound; what is measured is eight times better or more (benchmarks/bench_target.py).
_RELATIVE_INCREMENT = 0.02
# In a batch of few rows a single bad bargain weighs more: below so many, the increments are smaller in proportion.
_MANY_ROWS = 400


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
    if capacity.min() < 0 or capacity.sum() < len(outputs):  # the kernel would leave its arrays
        raise ValueError(f"units have room for {capacity.clip(0).sum()} of {len(outputs)} samples: counts are damaged")
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
