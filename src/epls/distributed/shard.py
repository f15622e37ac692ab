"""What a worker does: a shard's part of every step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from ..algorithm.engines.base import BatchReport, LayerSettings, LocalEngine, new_engine
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

    layer: LayerSettings
    buffer_bytes: int = BUFFER_BYTES


@dataclass(frozen=True)
class ShardGradient:
    """A shard's part of a step.

    Attributes
    ----------
    gradient, report
        As in :class:`epls.algorithm.engines.base.BatchGradient`.
    counts : ndarray of int of shape (n_components,)
        The wins of each unit in this shard, with this batch.
    seconds : float
        Time taken.
    """

    gradient: Array
    report: BatchReport
    counts: NDArray[np.int64]
    seconds: float


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
        self._engine: LocalEngine | None = None
        self._next: Place | None = None
        self._coming: Iterator[Batch] = iter(())

    def moments(self) -> Moments:
        """Mean and spread of the samples, all of which must be finite."""
        return BlockSamples(self._blocks).moments

    def gradient(
        self, weights: Array, counts: NDArray[np.int64], place: Place, settings: Settings
    ) -> ShardGradient | None:
        """The gradient and the winners of a batch; None if the shard has fewer batches than others."""
        started = perf_counter()
        batch = self._batch(place, settings)
        if batch is None:
            return None
        engine = self._own_engine(weights, settings)
        engine.target.restore({"counts": counts.copy()})
        found = engine.gradient(weights, batch)
        return ShardGradient(found.gradient, found.report, engine.target.state()["counts"], perf_counter() - started)

    def largest_net(self, weights: Array, place: Place, settings: Settings) -> Array | None:
        """The largest net input of each unit in a batch."""
        batch = self._batch(place, settings)
        return None if batch is None else self._own_engine(weights, settings).largest_net(weights, batch)

    def net_quantile(self, weights: Array, place: Place, settings: Settings, share: float) -> Array | None:
        """What a share of each unit's net inputs in a batch does not exceed."""
        batch = self._batch(place, settings)
        return None if batch is None else self._own_engine(weights, settings).net_quantile(weights, batch, share)

    def _own_engine(self, weights: Array, settings: Settings) -> LocalEngine:
        """An engine that keeps its buffers."""
        self._engine = self._engine or new_engine(settings.layer, len(weights))
        return self._engine

    def _batch(self, place: Place, settings: Settings) -> Batch | None:
        """The batch at a place. Going on to the next one is cheap; any other can be had as well."""
        if place != self._next:
            random = np.random.RandomState([place.seed, self._number])
            samples = BlockSamples(self._blocks, settings.buffer_bytes)
            self._coming = samples.epoch(random, place.batch_size, skip=place.number)
        self._next = Place(place.seed, place.number + 1, place.batch_size)
        return next(self._coming, None)
