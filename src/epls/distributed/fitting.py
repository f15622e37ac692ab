"""Data-parallel training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from copy import copy
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from ..algorithm.engine import BatchGradient, BatchReport, Engine, Objective
from ..algorithm.state import Stateful
from ..algorithm.target import TARGETS, BalancedTarget
from ..data.blocks import TYPES, ArrayBlocks, Blocks, DaskBlocks, RowRange, as_blocks
from ..data.moments import Moments
from ..data.samples import BUFFER_BYTES, Samples, working_type
from ..learners.epls import EPLS
from ..utils.types import Array
from .cluster import DaskShards, LocalShards, Shards, connect, direct
from .shard import Place, Settings, Step

_ALL_BUFFERS_BYTES = 2**30  # of the shards together, so that many in one process do not take all its memory


def fit(model: EPLS, data: Any, client: Any = None, *, n_shards: int | None = None) -> EPLS:
    """Fit a model on several machines.

    Every step uses a batch of each shard, so the total batch has ``n_shards`` times ``batch_size`` samples. Wins are
    balanced in every shard, and therefore overall. The result depends on the number of shards, but not on the number of
    workers or on failures.

    Parameters
    ----------
    model : EPLS
        The model, which is fitted in place. This process writes a :class:`epls.Checkpoint` among its callbacks.
    data : Blocks, zarr array, dask array or memory map
        Data that all workers can open: the result of :func:`epls.open_shards` for files on a shared disk or an object
        store, a zarr array there, or a dask array made from such data. Workers read only their own part, in constant
        memory. Without a client, any array is supported.
    client : distributed.Client, str or None, default=None
        The cluster, or the address of its scheduler. None uses no cluster: this process does all the work.
    n_shards : int or None, default=None
        The number of parts to cut the data into. None uses the current number of workers.

    Returns
    -------
    EPLS
        The fitted model.

    Raises
    ------
    ConnectionError
        If the scheduler does not answer, or no worker is available for a minute.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS
    >>> from epls.distributed import fit
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = fit(EPLS(10, max_iter=3, random_state=0), X, n_shards=4)
    """
    if not isinstance(model, EPLS):
        raise TypeError(f"only EPLS can be trained on several machines, got {type(model).__name__}")
    blocks = as_blocks(data, smallest_map=0)
    if blocks is None:
        if client is not None:
            raise TypeError(
                f"the workers cannot read a {type(data).__name__} in this process's memory: write it to .npy files "
                f"where they can, and give epls.open_shards of these, or give a zarr or dask array"
            )
        blocks = ArrayBlocks(check_array(data, dtype=TYPES))
    if client is None:
        return _fit(model, LocalShards(_parts(blocks, 1 if n_shards is None else n_shards)), blocks)
    if isinstance(blocks, DaskBlocks):
        blocks = _for_workers(blocks)
    with connect(client) if isinstance(client, str) else direct(client) as own, own.as_current():
        if n_shards is None:
            n_shards = max(len(own.scheduler_info(n_workers=-1)["workers"]), 1)
        with closing(DaskShards(own, _parts(blocks, n_shards))) as shards:
            return _fit(model, shards, blocks)


def _parts(blocks: Blocks, n_shards: int) -> list[Blocks]:
    n_samples = blocks.shape[0]
    if not 1 <= n_shards <= n_samples:
        raise ValueError(f"n_shards={n_shards}: give 1 to {n_samples}, the number of samples")
    cuts = np.linspace(0, n_samples, n_shards + 1).astype(int)
    return [RowRange(blocks, int(start), int(stop)) for start, stop in pairwise(cuts)]


def _for_workers(blocks: DaskBlocks) -> DaskBlocks:
    """The same blocks for a worker of a cluster, where one must not wait for other workers."""
    from distributed.client import futures_of

    if futures_of(blocks.X):
        raise TypeError(
            "the dask array is persisted: its blocks are in the memory of workers, where a training cannot use "
            "them. Give the array that it was before, or write it with to_zarr and give that"
        )
    other = copy(blocks)
    other.scheduler = "synchronous"
    return other


def _fit(model: EPLS, shards: Shards, blocks: Blocks) -> EPLS:
    samples = ShardedSamples(shards, blocks)
    return model.fit_with_engine(samples, samples.new_engine)


class ShardedSamples(Samples):
    """Samples in shards, each of which computes with its own where it is.

    A batch is a place: the same number of a batch in each shard.
    """

    def __init__(self, shards: Shards, blocks: Blocks) -> None:
        self.shards = shards
        self.shape = blocks.shape
        self.dtype = working_type(blocks.dtype)
        self.n_parts = shards.n_shards

    @cached_property
    def moments(self) -> Moments:
        moments = Moments()
        for part in self.shards.call("moments"):
            moments.merge(part)
        return moments

    def epoch(
        self, random: np.random.RandomState, batch_size: int, *, skip: int = 0, even: bool = False
    ) -> Iterator[Place]:
        seed = random.randint(2**31 - 1)
        return (Place(seed, number, batch_size) for number in range(skip, self.n_batches(batch_size)))

    def array(self) -> Array:
        raise TypeError("samples in shards cannot be had in one place")

    def new_engine(self, objective: Objective, n_components: int, device: str | None = None) -> Engine:
        """What adds up the gradients of the shards; refuses what they cannot compute by themselves."""
        if objective.needs_factors:
            raise ValueError("the optimizer must see each sample's gradient, and shards send their sums: use 'adam'")
        if not issubclass(TARGETS[objective.settings.target], BalancedTarget):
            raise ValueError(
                f"target={objective.settings.target!r} does not balance the batches of every shard: use 'auction'"
            )
        # By the number of shards and not by that of workers, on which the order of samples must not depend.
        shared = Settings(objective, device, min(BUFFER_BYTES, _ALL_BUFFERS_BYTES // self.n_parts))
        self.shards.check(shared)
        return ShardedEngine(self.shards, shared, n_components)


class ShardCounts(Stateful):
    """The wins of each unit in each shard; the targets themselves are made where the shards are."""

    state_names = ("counts",)

    def __init__(self, n_shards: int, n_components: int) -> None:
        self.counts = np.zeros((n_shards, n_components), np.int64)

    def start_epoch(self, n_samples: int) -> None:
        self.counts[:] = 0

    def of_shards(self) -> list[NDArray[np.unsignedinteger]]:
        """What a balanced target needs of them: how many more wins a unit has than that with the fewest, 0 or 1."""
        more = self.counts - self.counts.min(axis=1, keepdims=True)
        return list(more.astype(np.min_scalar_type(more.max())))


class ShardedEngine(Engine):
    """Adds up what the shards find.

    Attributes
    ----------
    compute_seconds : float
        The longest time that any shard took for its last gradient.
    """

    def __init__(self, shards: Shards, settings: Settings, n_components: int) -> None:
        self.objective = settings.objective
        self.target = ShardCounts(shards.n_shards, n_components)
        self._shards = shards
        self._shared = settings
        self.compute_seconds = 0.0

    def gradient(self, weights: Array, batch: Place) -> BatchGradient:
        """Outputs, winners, and the derivative of the loss by the weights."""
        step = Step("gradient", batch, self._shared)
        gradient, found = self._shards.combine(step, weights, self.target.of_shards())
        reports: list[BatchReport] = []
        for number, part in found.items():
            assert part.report is not None
            self.target.counts[number] += np.bincount(part.report.winners, minlength=len(weights))
            reports.append(part.report)
        self.compute_seconds = max(part.seconds for part in found.values())
        winners = np.concatenate([report.winners for report in reports]).astype(np.intp)
        at_winner, errors = (np.concatenate([getattr(r, field) for r in reports]) for field in ("at_winner", "errors"))
        return BatchGradient(gradient, BatchReport(winners, at_winner, errors))

    def largest_net(self, weights: Array, batch: Place) -> Array:
        """The largest net input of each unit in a batch."""
        return self._shards.combine(Step("largest_net", batch, self._shared), weights)[0]

    def net_quantile(self, weights: Array, batch: Place, share: float) -> Array:
        """What a share of each unit's net inputs in a batch does not exceed; the mean over the shards."""
        total, found = self._shards.combine(Step("net_quantile", batch, self._shared, (share,)), weights)
        return total / len(found)
