"""A target that is balanced over an epoch: units keep prices from batch to batch."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..kernels.auction import mean_margin
from ..utils.types import Array
from .target import Target, Winners, hold_auction

# Gains are in margins per win.
_FIRST_GAIN, _LEAST_GAIN, _LARGEST_GAIN = 1 / 8, 1 / 256, 1.0
_MANY_UNITS = 64  # the excess of fewer units says little about the gain
_PULL = 0.5  # margins for each win that a unit is behind, over the rounds left to catch up
_MOST_AHEAD = 16  # rounds, in a stream
_MEASURED_ROWS, _MEMORY, _LEAST_MARGIN = 256, 0.2, 1e-30


class EpochTarget(Target):
    """A target that is balanced over an epoch, though not in every batch, and near the outputs of all its samples.

    Every unit has a price, which rows pay out of their outputs: the paper's inhibitor, with steps that follow from the
    data. A row takes the unit with the largest output minus price. The price of a unit that wins more often than its
    share rises. So units may run ahead while their samples come, and the pull on units that are behind grows towards
    the end of the epoch. No unit wins more than its share of the epoch: at the end, the wins of any two units differ by
    at most one. Prices are kept from epoch to epoch.

    The size of price changes is not a setting. Their unit is the ``margin``: the difference between a row's best and
    second-best unit. The ``gain`` is right if excess wins in one batch say nothing about the next. If they continue,
    prices lag, and the gain rises; if they reverse, prices overshoot, and the gain falls.

    In a stream, where the number of samples is unknown, no unit is ever more than 16 wins ahead of its share.

    Attributes
    ----------
    counts : ndarray of shape (n_components,)
        The wins since the epoch began.
    prices : ndarray of shape (n_components,)
        The prices, in the unit of the outputs.
    excess : ndarray of shape (n_components,)
        The wins beyond those due, in the previous batch.
    margin, gain : float
        See above. A margin of 0 is not known yet.
    n_samples : int
        The number of samples in the epoch; 0 if unknown.

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
        self.n_samples = 0  # a stream, until an epoch begins

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
        """Return the number of wins allowed by the end of the epoch: equal, or one more for a unit that is ahead."""
        n_wins = int(self.counts.sum())
        if n_wins + n_rows > self.n_samples:  # a stream
            return np.full(self.n_components, (n_wins + n_rows) // self.n_components + _MOST_AHEAD)
        share, n_more = divmod(self.n_samples, self.n_components)
        shares = np.full(self.n_components, share)
        shares[np.argsort(-self.counts, kind="stable")[:n_more]] += 1
        return shares

    def _measure(self, outputs: Array) -> None:
        """Update the margin."""
        prices = self.prices.astype(outputs.dtype)
        sample = np.ascontiguousarray(outputs[:: max(len(outputs) // _MEASURED_ROWS, 1)])
        least = max(float(np.finfo(outputs.dtype).eps * np.abs(sample).max()), _LEAST_MARGIN)  # where all are equal
        margin = max(float(mean_margin(sample, prices)), least)
        self.margin += (margin - self.margin) * (_MEMORY if self.margin > 0 else 1.0)

    def _learn(self, excess: Array) -> None:
        """Update prices and gain with the wins of a batch beyond those due."""
        self.prices = self.prices + self.gain * self.margin * excess
        size = math.sqrt(float(np.square(excess).sum() * np.square(self.excess).sum()))
        if size > 0:
            trust = min(1.0, self.n_components / _MANY_UNITS)
            gain = self.gain * math.exp(trust * float(excess @ self.excess) / size)
            self.gain = min(max(gain, _LEAST_GAIN), _LARGEST_GAIN)
        self.excess = excess


def _places(due: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Limit what is due to a few times the share of a batch: prices rise earlier, and places take memory."""
    most = 8 * -(-n_rows // len(due))
    while np.minimum(due, most).sum() < n_rows:
        most *= 2
    return np.minimum(due, most)
