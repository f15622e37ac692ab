"""A target that is balanced over an epoch: prices that units keep from batch to batch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..kernels.auction import mean_margin
from ..utils.types import Array
from .target import Target, Winners, hold_auction

# Gains are in margins per win.
_FIRST_GAIN, _LEAST_GAIN, _LARGEST_GAIN = 1 / 8, 1 / 256, 1.0
_MANY_UNITS = 64  # the excess of fewer says little about the gain
_PULL = 0.5  # margins for each win that a unit is behind, over the rounds that are left to make it up
_MOST_AHEAD = 16  # rounds, in a stream
_MEASURED_ROWS, _MEMORY, _LEAST_MARGIN = 256, 0.2, 1e-30


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
