"""Data-parallel training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array

from ..algorithm.engines.numpy import BatchGradient, BatchReport, LayerGradient
from ..algorithm.target import Target
from ..data.blocks import TYPES, ArrayBlocks, Blocks, DaskBlocks, RowRange, as_blocks
from ..data.moments import Moments
from ..data.samples import BUFFER_BYTES
from ..learners.epls import EPLS
from ..utils.threads import RowThreads
from .cluster import DaskShards, LocalShards, Shards, connect, direct
from .shard import Place, Settings, ShardGradient

Array = NDArray[np.floating]

_ALL_BUFFERS_BYTES = 2**30  # of the shards together, so that many in one process do not take all its memory


def fit(model: EPLS, data: Any, client: Any = None, *, n_shards: int | None = None) -> EPLS:
    """Fit a model on several machines.

    Every step takes a batch of each shard, so that the batch as a whole is ``n_shards`` times ``batch_size``. Wins are
    balanced in every shard, and therefore in all. The result depends on the number of shards and not on that of
    workers, nor on what happens to them.

    Parameters
    ----------
    model : EPLS
        Fitted in place. A :class:`epls.Checkpoint` among its callbacks is written by this process.
    data : Blocks, zarr array, dask array or memory map
        What all workers can open: :func:`epls.open_shards` of files on a shared disk or an object store, a zarr array
        there, or a dask array that is made of such. Workers read only their own part, in constant memory. Without a
        client, any array.
    client : distributed.Client, str or None, default=None
        The cluster, or the address of its scheduler. None takes no cluster: this process does all the work.
    n_shards : int or None, default=None
        In how many parts the data are cut; None takes the number of workers there are now.

    Returns
    -------
    EPLS
        The model.

    Raises
    ------
    ConnectionError
        If the scheduler does not answer, or all workers are gone for a minute.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS
    >>> from epls.distributed import fit
    >>> X, _ = load_digits(return_X_y=True)
    >>> model = fit(EPLS(10, max_iter=3, random_state=0), X, n_shards=4)
    """
    blocks = as_blocks(data, smallest_map=0)
    if blocks is None:
        if client is not None:
            raise TypeError(
                f"the workers cannot read a {type(data).__name__} in this process's memory: write it to .npy files "
                f"where they can, and give epls.open_shards of these, or give a zarr or dask array"
            )
        blocks = ArrayBlocks(check_array(data, dtype=TYPES))
    if client is None:
        return model._fit_shards(ShardedData(LocalShards(_parts(blocks, 1 if n_shards is None else n_shards)), blocks))
    if isinstance(blocks, DaskBlocks):
        blocks = blocks.alone()
    with connect(client) if isinstance(client, str) else direct(client) as own, own.as_current():
        if n_shards is None:
            n_shards = max(len(own.scheduler_info(n_workers=-1)["workers"]), 1)
        with closing(DaskShards(own, _parts(blocks, n_shards))) as shards:
            return model._fit_shards(ShardedData(shards, blocks))


def _parts(blocks: Blocks, n_shards: int) -> list[Blocks]:
    n_samples = blocks.shape[0]
    if not 1 <= n_shards <= n_samples:
        raise ValueError(f"n_shards={n_shards}: give 1 to {n_samples}, the number of samples")
    cuts = np.linspace(0, n_samples, n_shards + 1).astype(int)
    return [RowRange(blocks, int(start), int(stop)) for start, stop in pairwise(cuts)]


class ShardedData:
    """Shards as the data of a training."""

    def __init__(self, shards: Shards, blocks: Blocks) -> None:
        self.shards = shards
        self.n_samples, self.n_features = blocks.shape
        self.n_shards = shards.n_shards
        self.dtype = blocks.dtype

    def batches(self, batch_size: int) -> ShardedBatches:
        """Mini-batches that take so many samples of every shard."""
        return ShardedBatches(self.n_samples, self.n_shards, batch_size)

    def parts(
        self, layer: LayerGradient, target: str, batch_size: int, n_components: int
    ) -> tuple[LayerGradient, Target]:
        """What takes the place of a layer and a target in a trainer."""
        # By the number of shards and not by that of workers, on which the order of samples must not depend.
        settings = Settings(layer, target, batch_size, min(BUFFER_BYTES, _ALL_BUFFERS_BYTES // self.n_shards))
        self.shards.check(settings)
        return ShardedGradient(self.shards, settings), ShardCounts(self.n_shards, n_components)

    def center_and_scale(self) -> tuple[Array, float]:
        moments = Moments()
        for part in self.shards.call("moments", [()] * self.shards.n_shards):
            moments.merge(part)
        return moments.center_and_scale()


class ShardedBatches:
    """Places of batches, which are one of every shard together."""

    def __init__(self, n_samples: int, n_shards: int, batch_size: int) -> None:
        self.n_samples = n_samples
        self.batch_size = n_shards * batch_size
        largest_shard = -(-n_samples // n_shards)
        self._n_batches = -(-largest_shard // batch_size)

    def epoch(self, random: np.random.RandomState, skip: int = 0) -> Iterator[Place]:
        seed = random.randint(2**31 - 1)
        return (Place(seed, number) for number in range(skip, self._n_batches))


class ShardCounts:
    """The wins of each unit in each shard; the targets themselves are made where the shards are."""

    def __init__(self, n_shards: int, n_components: int) -> None:
        self.counts = np.zeros((n_shards, n_components), np.int64)

    def start_epoch(self, n_samples: int) -> None:
        self.counts[:] = 0

    def assign(self, outputs: Array) -> NDArray[np.intp]:
        raise NotImplementedError("winners are found in the shards")


class ShardedGradient(LayerGradient):
    """Adds up what the shards find.

    Attributes
    ----------
    compute_seconds : float
        The longest time that any shard took for its last gradient.
    """

    def __init__(self, shards: Shards, settings: Settings) -> None:
        layer = settings.layer
        self.center, self.scale, self.activation, self.matching = (
            layer.center, layer.scale, layer.activation, layer.matching,
        )  # fmt: skip
        self._shards = shards
        self._settings = settings
        self._sum: Array = np.empty((0, 0))
        self.compute_seconds = 0.0

    def gradient(self, weights: Array, batch: Place, target: Target, threads: RowThreads) -> BatchGradient:
        """Outputs, winners, and the derivative of the loss by the weights."""
        assert isinstance(target, ShardCounts)
        found = self._shards.call("gradient", [(weights, counts, batch, self._settings) for counts in target.counts])
        some: list[ShardGradient] = []
        for number, part in enumerate(found):
            if part is not None:
                target.counts[number] = part.counts
                some.append(part)
        # In the order of the shards, whoever was first: the sum has the same bits every time.
        if self._sum.shape != weights.shape:
            self._sum = np.empty_like(weights)
        self._sum[...] = some[0].gradient
        for part in some[1:]:
            self._sum += part.gradient
        self.compute_seconds = max(part.seconds for part in some)
        fields = ("winners", "at_winner", "errors")
        joined = (np.concatenate([getattr(part.report, field) for part in some]) for field in fields)
        return BatchGradient(self._sum, BatchReport(*joined))

    def largest_net(self, weights: Array, batch: Place) -> Array:
        """The largest net input of each unit in a batch."""
        return np.asarray(np.max(self._of_each("largest_net", weights, batch), axis=0))

    def net_quantile(self, weights: Array, batch: Place, share: float) -> Array:
        """What a share of each unit's net inputs in a batch does not exceed; the mean over the shards."""
        return np.asarray(np.mean(self._of_each("net_quantile", weights, batch, share), axis=0))

    def _of_each(self, method: str, weights: Array, batch: Place, *more: Any) -> list[Array]:
        found = self._shards.call(method, [(weights, batch, self._settings, *more)] * self._shards.n_shards)
        return [part for part in found if part is not None]
