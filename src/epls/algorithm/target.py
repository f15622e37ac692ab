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

The target has three properties: one unit is active per sample, all units are active equally often, and it is the
nearest to the outputs of all such targets. Nearest in the squared norm means that the sum of the outputs at the winners
is largest.

The paper means equally often in an epoch. :class:`AuctionTarget`, the default, is balanced in every batch. It is within
a few thousandths of the best sum of the batch, but if a batch has only as many samples as units, it reaches only 0.75
to 0.99 of the best sum of the epoch. :class:`ExactTarget` finds the best sum of each batch, and takes 33 to 162 times
as long. :class:`LiteralTarget` is the rule as printed in the paper, which balances only roughly: the inhibitor of a
unit that has had its share is 1, and outputs can exceed it. :class:`LargestTarget` has the first and the third
property, without balance. docs/lab/training.md has the figures.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from ..kernels.auction import auction, literal_rule
from ..utils.types import Array
from .state import Stateful

Winners = NDArray[np.intp]

# The sum at the winners is below the best by at most this fraction of the sum of the rows' ranges. This is the bound;
# measured results are at least eight times better (benchmarks/bench_target.py).
_RELATIVE_INCREMENT = 0.02
# In a batch of few rows, a single bad bargain weighs more. Below this many, increments shrink in proportion.
_MANY_ROWS = 400


class Target(Stateful):
    """Find winners, batch after batch."""

    def __init__(self, n_components: int) -> None:
        self.n_components = n_components
        self.start_epoch(n_components)

    @abstractmethod
    def start_epoch(self, n_samples: int) -> None:
        """Start a new epoch of this many samples."""

    @abstractmethod
    def assign(self, outputs: Array) -> Winners:
        """Return the winner of each row."""


class BalancedTarget(Target):
    """Count the wins so that, after every batch, the wins of any two units differ by at most one.

    Batches may have any size, and the number of samples need not be known, because the balance holds after every batch:
    at the end of an epoch and at any moment of a stream. In a batch that is a multiple of ``n_components``, every unit
    wins equally often. Other batches are cut in two where a round of wins is complete.
    """

    state_names = ("counts",)  # the wins of each unit since the epoch began

    def start_epoch(self, n_samples: int) -> None:
        self.counts = np.zeros(self.n_components, dtype=np.int64)

    def assign(self, outputs: Array) -> Winners:
        winners = np.empty(len(outputs), dtype=np.intp)
        for rows, capacity in self._shares(len(outputs)):
            winners[rows] = self.fill(outputs[rows], capacity)
            self.counts += np.bincount(winners[rows], minlength=self.n_components)
        return winners

    def _shares(self, n_rows: int) -> Iterator[tuple[slice, NDArray[np.int64]]]:
        """Iterate over ranges of rows, with the number of wins that each unit may have in them."""
        n_wins = int(self.counts.sum())
        complete_rounds = (n_wins + n_rows) // self.n_components
        n_completing = max(complete_rounds * self.n_components - n_wins, 0)
        if n_completing > 0:
            yield slice(0, n_completing), complete_rounds - self.counts
        if n_completing < n_rows:  # the wins of the previous range have been counted by now
            yield slice(n_completing, n_rows), complete_rounds + 1 - self.counts

    @abstractmethod
    def fill(self, outputs: Array, capacity: NDArray[np.int64]) -> Winners:
        """Return the winner of each row, such that no unit wins more often than its capacity."""


class AuctionTarget(BalancedTarget):
    """Find the balanced target nearest to the outputs, to within a few thousandths, by auction.

    The paper's inhibitor is a price: its greedy pass is an auction in which every bid raises the price by a fixed step
    and no row can be outbid. Here a row offers what the unit is worth to it, and a row that is outbid looks elsewhere.
    """

    def fill(self, outputs: Array, capacity: NDArray[np.int64]) -> Winners:
        if capacity.min() < 0 or capacity.sum() < len(outputs):  # the kernel would access memory outside its arrays
            raise ValueError(
                f"units have room for {capacity.clip(0).sum()} of {len(outputs)} samples: the counts are damaged"
            )
        winners = np.empty(len(outputs), dtype=np.intp)
        auction(np.ascontiguousarray(outputs), capacity, relative_increment(len(outputs)), winners)
        return winners


def relative_increment(n_rows: int) -> float:
    """Return the fraction of the desired value by which a row raises a price."""
    return _RELATIVE_INCREMENT * min(1.0, n_rows / _MANY_ROWS)


class ExactTarget(BalancedTarget):
    """Find the balanced target nearest to the outputs with the Hungarian method: slow, for comparison."""

    def fill(self, outputs: Array, capacity: NDArray[np.int64]) -> Winners:
        unit_of_slot = np.repeat(np.arange(self.n_components), capacity)
        _, slots = linear_sum_assignment(outputs[:, unit_of_slot], maximize=True)
        return unit_of_slot[slots].astype(np.intp)


class LiteralTarget(Target):
    """The paper's greedy rule. It balances only roughly, and its arbitrary choices leave noise in the filters.

    The inhibitor is kept from batch to batch, and constant over the units at the start of an epoch.
    """

    state_names = ("inhibitor", "step")

    def start_epoch(self, n_samples: int) -> None:
        self.inhibitor: Array = np.zeros(self.n_components)
        self.step = float(self.n_components / n_samples + np.finfo(np.float32).eps)

    def assign(self, outputs: Array) -> Winners:
        winners = np.empty(len(outputs), dtype=np.intp)
        self.inhibitor = self.inhibitor.astype(outputs.dtype, copy=False)
        literal_rule(np.ascontiguousarray(outputs), self.inhibitor, outputs.dtype.type(self.step), winners)
        return winners


class ScaledLiteralTarget(LiteralTarget):
    """The paper's rule, for outputs that are first scaled so that the smallest of the batch is 0 and the largest 1.

    The inhibitor of a unit rises from 0 to 1 in an epoch. So it compares with outputs of that range, not with those of
    units that are nearly silent. The paper does not say this; the public code of its first author for the same target
    (DietNetworks) does it.
    """

    def assign(self, outputs: Array) -> Winners:
        lowest, highest = outputs.min(), outputs.max()
        return super().assign((outputs - lowest) / max(highest - lowest, np.finfo(outputs.dtype).tiny))


class LargestTarget(Target):
    """Choose the unit with the largest output, without balance. Some units may get no samples at all."""

    def start_epoch(self, n_samples: int) -> None:
        pass

    def assign(self, outputs: Array) -> Winners:
        return np.asarray(outputs.argmax(axis=1), np.intp)


TARGETS: dict[str, type[Target]] = {
    "auction": AuctionTarget,
    "exact": ExactTarget,
    "literal": LiteralTarget,
    "literal_scaled": ScaledLiteralTarget,
    "largest": LargestTarget,
}
