"""The rounds of balanced k-means: assign samples to centres by auction, move centres to the means of their samples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..utils.threads import Crew
from ..utils.types import Array, Float64, Indices
from .assignment import first_prices
from .auction import Limits, hold_from, hold_loosely
from .bidders import NearBidders, squared_norms

# Of the mean squared distance: from the mean of all in the first round, then from centres.
_FIRST_INCREMENT, _INCREMENT = 0.01, 0.03
_MOST_PHASES = 8  # where it takes longer to find prices
# Centres are first found with a part of the samples: the more rounds, the fewer samples.
_PART, _FEWEST_PER_GROUP = 16, 50
# The last few samples of an auction take most of its time. With many samples, they wait for the last rounds.
_MANY_SAMPLES = 5000


@dataclass
class State:
    """What a round leaves to the next."""

    centers: Array
    prices: Float64
    labels: Indices
    inertia: float
    n_rounds: int = 0


class Rounds:
    """Samples to be put into groups.

    Parameters
    ----------
    X : array or csr_array of shape (n_samples, n_features)
        The samples, near the origin if possible: products are computed in their type.
    limits : Limits
        The sizes of groups.
    crew : Crew
        The threads.
    distance : float or None, default=None
        The mean squared distance of samples from their centres, if it is known.
    """

    def __init__(self, X: Any, limits: Limits, crew: Crew, distance: float | None = None) -> None:
        self._X = X
        self._limits = limits
        self._crew = crew
        self._bidders = NearBidders(X, len(limits.capacity))
        self._size = float(squared_norms(X).sum())
        self._least_increment = max(1e-12 * self._size / X.shape[0], 1e-290)
        first = _FIRST_INCREMENT * self._size / X.shape[0] if distance is None else _INCREMENT * distance
        self._increment = max(first, self._least_increment)

    def assign(self, centers: Array, prices: Float64 | None, loosely: bool = False) -> tuple[Indices, Float64]:
        """The groups of all samples, and the prices of places in the groups; those before, or None for the first.

        Loosely, a few samples are in groups that are full.
        """
        self._check(centers, prices)
        self._bidders.approach(centers)
        if prices is None:
            prices = first_prices(self._bidders, self._limits, self._increment, self._crew)
        rows, increment = np.arange(self._X.shape[0]), self._increment
        if loosely:
            return hold_loosely(self._bidders, rows, self._limits, prices, increment, self._crew)
        for _ in range(_MOST_PHASES):
            outcome = hold_from(self._bidders, rows, self._limits, prices, increment, self._crew, lambda: None)
            if outcome.increment <= 2 * self._increment:  # it was not raised because of many equal samples
                break
            prices, increment = outcome.prices, outcome.increment / 5
        return outcome.winners, outcome.prices

    def _check(self, centers: Array, prices: Float64 | None) -> None:
        """Refuse what does not go together, which compiled code would not notice."""
        n_groups, (n_samples, n_features) = len(self._limits.capacity), self._X.shape
        if centers.shape != (n_groups, n_features) or (prices is not None and prices.shape != (n_groups,)):
            raise ValueError(
                f"there are {len(centers)} centres, but n_clusters={n_groups} was set after fit: call fit again"
            )
        n_places = int(self._limits.capacity.sum()) if self._limits.capacity.min() >= 0 else 0
        if n_places < n_samples or self._limits.minimum.sum() > n_samples:
            raise ValueError(f"groups have room for {n_places} of {n_samples} samples: the model is damaged")

    def run(self, centers: Array, prices: Float64 | None, tol: float, epochs: Iterator[int]) -> State:
        """Rounds until the sum of squared distances falls by less than a share of ``tol``, or there are no more."""
        if self._X.shape[0] < _MANY_SAMPLES:
            return self._until_settled(centers, prices, tol, epochs, loosely=False)
        loose = self._until_settled(centers, prices, tol, epochs, loosely=True)
        state = self._until_settled(loose.centers, loose.prices, tol, epochs, loosely=False)
        state.n_rounds += loose.n_rounds
        return state

    def _until_settled(
        self, centers: Array, prices: Float64 | None, tol: float, epochs: Iterator[int], *, loosely: bool
    ) -> State:
        best: State | None = None
        n_rounds = 0
        for _ in epochs:
            n_rounds += 1
            state = self._round(centers, prices, loosely)
            has_moved = best is None or state.inertia < (1 - tol) * best.inertia
            if best is None or state.inertia < best.inertia:
                best = state
            if not has_moved or np.array_equal(state.centers, centers):
                break
            centers, prices = state.centers, state.prices
        if best is None:  # a callback has ended the fit: samples have groups all the same
            best = self._round(centers, prices, loosely)
        best.n_rounds = n_rounds
        return best

    def _round(self, centers: Array, prices: Float64 | None, loosely: bool = False) -> State:
        """The groups at these centres, and the means of the groups; that of an empty one is its centre."""
        labels, prices = self.assign(centers, prices, loosely)
        sums = group_sums(self._X, labels, len(centers))
        counts = np.bincount(labels, minlength=len(centers))
        means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], centers)
        inertia = self._size - float((counts * squared_norms(means)).sum())
        self._increment = min(max(_INCREMENT * inertia / len(labels), self._least_increment), self._increment)
        return State(means.astype(centers.dtype), prices, labels, max(inertia, 0.0))


def group_sums(X: Any, labels: Indices, n_groups: int) -> Float64:
    """The sum of the samples of each group, in float64."""
    n_samples = X.shape[0]
    is_in = sparse.csr_array((np.ones(n_samples), labels, np.arange(n_samples + 1)), shape=(n_samples, n_groups))
    sums = is_in.T @ X
    return np.asarray(sums.toarray() if sparse.issparse(sums) else sums, np.float64)


def part_of(X: Any, limits: Limits, random: np.random.RandomState) -> tuple[Any, Limits] | None:
    """Some of the samples, with sizes of groups in proportion; None if there are too few to be worth it."""
    n_samples, n_groups = X.shape[0], len(limits.capacity)
    n_part = max(n_samples // _PART, _FEWEST_PER_GROUP * n_groups)
    if n_samples < 4 * n_part:
        return None
    rows = np.sort(random.permutation(n_samples)[:n_part])
    least = limits.minimum * n_part // n_samples
    most = -(-limits.capacity * n_part // n_samples)
    return X[rows], Limits(most, least)
