"""The progress of training, and reports of its epochs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .engine import BatchReport


@dataclass(frozen=True)
class EpochReport:
    """A report of one pass over the data."""

    #: The number of the epoch, from 1.
    epoch: int
    #: The mean of ||h - t||² over the samples.
    error: float
    #: The difference between the most and the fewest wins of a unit.
    win_spread: int
    #: The number of units without wins, or whose output was below a tenth of the active value at each of their wins.
    n_never_active: int
    seconds: float


@dataclass
class Progress:
    """Everything, besides the state of training, that is needed to continue in the middle of an epoch."""

    #: The number of completed batches in the current epoch; 0 between two epochs.
    n_batches: int = 0
    #: The state of the random numbers when the epoch began; None before the first epoch.
    random_state: Any = None
    #: For the completed batches: the sum of squared errors, each unit's wins, and those at which it was active.
    error: float = 0.0
    wins: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    live: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    #: The reports of the previous epochs.
    reports: list[EpochReport] = field(default_factory=list)

    def start_epoch(self, n_components: int, random: np.random.RandomState) -> None:
        """Reset the counts for a new epoch."""
        self.random_state = random.get_state()
        self.error = 0.0
        self.wins, self.live = np.zeros(n_components, np.int64), np.zeros(n_components, np.int64)

    def add(self, seen: BatchReport) -> None:
        """Count a batch."""
        self.n_batches += 1
        self.error += seen.error
        self.wins += seen.wins
        self.live += seen.live

    def end_epoch(self, seconds: float) -> EpochReport:
        """Report the epoch, which is complete."""
        report = EpochReport(
            epoch=len(self.reports) + 1,
            error=self.error / int(self.wins.sum()),  # every sample has one winner
            win_spread=int(self.wins.max() - self.wins.min()),
            n_never_active=int(np.count_nonzero(self.live == 0)),
            seconds=seconds,
        )
        self.reports.append(report)
        self.n_batches = 0
        return report


def has_settled(errors: Sequence[float], tol: float) -> bool:
    """Return whether the last of these errors is below the one before by less than a fraction ``tol``.

    This is the paper's stop rule: an epoch that increases the error also ends training.
    """
    return len(errors) > 1 and errors[-2] - errors[-1] < tol * errors[-2]
