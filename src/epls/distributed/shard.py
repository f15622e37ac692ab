"""What a worker does: a shard's part of every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..algorithm.engine import BatchReport, Engine, Objective, new_engine
from ..data.blocks import Blocks
from ..data.moments import Moments
from ..data.samples import BUFFER_BYTES, BlockSamples
from ..data.shuffling import Batch
from ..utils.types import Array


@dataclass(frozen=True)
class Place:
    """A batch: the same number of each shard, in an epoch whose order the seed decides."""

    seed: int
    number: int
    batch_size: int


@dataclass(frozen=True)
class Settings:
    """What is the same in all steps."""

    objective: Objective
    device: str | None = None
    buffer_bytes: int = BUFFER_BYTES


@dataclass(frozen=True)
class Step:
    """What all shards are asked for at a time: each finds an array, and these are combined to one.

    Attributes
    ----------
    method : {"gradient", "largest_net", "net_quantile"}
        The method of :class:`Shard`.
    place : Place
        The batch.
    settings : Settings
        Those of the training.
    more : tuple
        Further arguments of the method.
    """

    method: Literal["gradient", "largest_net", "net_quantile"]
    place: Place
    settings: Settings
    more: tuple[Any, ...] = ()

    @property
    def combine(self) -> np.ufunc:
        """What makes one array of two."""
        return np.maximum if self.method == "largest_net" else np.add

    def neutral(self, weights: Array) -> Array:
        """The array of a shard that has no batch at this place: it leaves those of the others as they are."""
        shape = weights.shape if self.method == "gradient" else weights.shape[:1]
        return np.full(shape, -np.inf if self.combine is np.maximum else 0, weights.dtype)


@dataclass(frozen=True)
class Found:
    """What a shard found, besides the array that is combined with those of others.

    Attributes
    ----------
    seconds : float
        Time taken.
    report : BatchReport or None
        As in :class:`epls.algorithm.engine.BatchGradient`; None if that was not asked for.
    """

    seconds: float
    report: BatchReport | None = None


class Shard:
    """The samples of a shard. All that it keeps are buffers: its answers follow from the arguments alone.

    Parameters
    ----------
    blocks : Blocks
        The samples.
    number : int
        Which of the shards it is, for each must be shuffled in its own way.
    """

    def __init__(self, blocks: Blocks, number: int) -> None:
        self._blocks = blocks
        self._number = number
        self._engine: Engine | None = None
        self._next: Place | None = None
        self._coming: Iterator[Batch] = iter(())

    def moments(self) -> Moments:
        """Mean and spread of the samples, all of which must be finite."""
        return BlockSamples(self._blocks).moments

    def part(self, step: Step, weights: Array, own: Any) -> tuple[Array, Found | None]:
        """A shard's part of a step: an array, valid until the next one, and what else it found.

        None is in the second place, and the array is neutral, if the shard has fewer batches than others.

        Parameters
        ----------
        step : Step
            What is asked for.
        weights : ndarray of shape (n_components, n_features + 1)
            The weights.
        own : object
            What this shard alone is given: an argument of the method, or None.
        """
        started = perf_counter()
        batch = self._batch(step.place, step.settings)
        if batch is None:
            return step.neutral(weights), None
        if self._engine is None:  # it keeps its buffers
            self._engine = new_engine(step.settings.objective, len(weights), step.settings.device)
        if step.method == "gradient":
            array, report = self.gradient(weights, batch, own)
            return array, Found(perf_counter() - started, report)
        found = getattr(self, step.method)(weights, batch, *step.more)
        return found.astype(weights.dtype, copy=False), Found(perf_counter() - started)

    def gradient(self, weights: Array, batch: Batch, counts: NDArray[np.integer]) -> tuple[Array, BatchReport]:
        """The gradient and the winners of a batch, given the wins of each unit before it."""
        assert self._engine is not None
        self._engine.target.restore({"counts": counts.astype(np.int64)})
        found = self._engine.gradient(weights, batch)
        # Winners are stored in as few bytes as they need: at the top of the tree, those of all shards pass by.
        winners = found.report.winners.astype(np.min_scalar_type(len(weights) - 1))
        return found.gradient, BatchReport(winners, found.report.at_winner, found.report.errors)

    def largest_net(self, weights: Array, batch: Batch) -> Array:
        """The largest net input of each unit in a batch."""
        assert self._engine is not None
        return self._engine.largest_net(weights, batch)

    def net_quantile(self, weights: Array, batch: Batch, share: float) -> Array:
        """What a share of each unit's net inputs in a batch does not exceed."""
        assert self._engine is not None
        return self._engine.net_quantile(weights, batch, share)

    def _batch(self, place: Place, settings: Settings) -> Batch | None:
        """The batch at a place. Going on to the next one is cheap; any other can be had as well."""
        if place != self._next:
            random = np.random.RandomState([place.seed, self._number])
            samples = BlockSamples(self._blocks, settings.buffer_bytes)
            self._coming = samples.epoch(random, place.batch_size, skip=place.number)
        self._next = Place(place.seed, place.number + 1, place.batch_size)
        return next(self._coming, None)
