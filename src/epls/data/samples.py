"""Samples to learn from: in an array, or in blocks that are read when needed.

Every source returns each sample once per epoch, in an order that depends only on the random state. It can start in the
middle of an epoch, so interrupted training continues as if it had not stopped.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.threads import row_blocks
from .blocks import Blocks, checked_blocks, stacked
from .moments import Moments, moments_of
from .shuffling import Batch, ahead, batch_cuts, cut, shuffled

Array = NDArray[Any]  # in the stored type, including small integers

BUFFER_BYTES = 2**27  # size of the buffer that samples are shuffled in; there are two
_ROWS_IN_ORDER = 16_384
_TOLD_ROWS = 64  # rows that identify the data


def working_type(dtype: np.dtype[Any]) -> np.dtype[np.floating]:
    """Return the type to compute in: float64 for float64, float32 for all other accepted types."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)


class Samples(ABC):
    """The samples that a learner learns from."""

    shape: tuple[int, int]  # (n_samples, n_features) of all samples
    dtype: np.dtype[np.floating]  # to compute in
    n_parts: int = 1  # the number of processes that learn together, each from its own samples
    part: int = 0  # which of them this process is; only the first writes files

    @property
    @abstractmethod
    def moments(self) -> Moments:
        """Mean and spread, found in a pass over all samples, which checks that blocks are finite."""

    @abstractmethod
    def epoch(
        self, random: np.random.RandomState, batch_size: int, *, skip: int = 0, n_even: int | None = None
    ) -> Iterator[Any]:
        """Iterate over mini-batches until every sample has been used once.

        The first ``skip`` batches are left out. All random numbers are drawn before the first batch. See
        :func:`epls.data.shuffling.batch_cuts` for the sizes and ``n_even``. A batch is an array and the rows of it that
        are used, :data:`epls.data.shuffling.Batch`; that of a shard also has the number of rows in each process.
        """

    @abstractmethod
    def array(self) -> Array:
        """Return all samples in memory, as a C-contiguous array of :attr:`dtype`."""

    def blocks_in_order(self) -> Iterator[Array]:
        """Iterate over all samples in their order, in arrays of the stored type."""
        yield self.array()

    def n_batches(self, batch_size: int, *, drop_last: bool = False) -> int:
        """Return the number of mini-batches of an epoch, with ``batch_size`` samples of every part in each."""
        n_whole, n_left = divmod(self.shape[0], self.n_parts * batch_size)
        return n_whole + (n_left > 0 and not drop_last)

    def shared_engine(self, engine: Any) -> Any:
        """Return the engine that computes the gradient of all processes, given the one of this process."""
        return engine

    def add_up(self, *arrays: NDArray[Any]) -> None:  # noqa: B027 (there is one process)
        """Replace arrays by their sums over all processes, in place."""

    def average(self, n_rows: int, *arrays: NDArray[Any]) -> None:  # noqa: B027
        """Replace means over ``n_rows`` of this process by the means over the rows of all processes, in place."""

    def from_first(self, content: bytes) -> bytes:
        """Return the value of the first process."""
        return content

    def describe(self) -> dict[str, Any]:
        """Describe these samples, to check whether training can continue with them."""
        center, scale = self.moments.center_and_scale()
        return {
            "source of the data": type(self).__name__,
            "number of samples": self.shape[0],
            "number of features": self.shape[1],
            "mean of the data": sha256(center.tobytes()).hexdigest(),
            "scale of the data": float(scale),
            "some rows of the data": self.some_rows(),
        }

    def some_rows(self) -> str:
        """Return a checksum of some rows, since different data may have the same mean. Empty if that is not cheap."""
        return ""


class PartOfSamples(ABC):
    """The part of the samples that this process passes to ``fit``, as ``X`` of :class:`epls.torch.Shard`."""

    X: Any

    @abstractmethod
    def samples(self, own: Callable[[], Samples], learner: str) -> Samples:
        """Return the samples of all processes; ``own`` opens those of this one for a learner."""


class ArraySamples(Samples):
    """An array or a memory map of floats or small integers, shuffled by index. It is never copied."""

    def __init__(self, X: Array) -> None:
        self.X = X
        self.shape = (X.shape[0], X.shape[1])
        self.dtype = working_type(X.dtype)

    @cached_property
    def moments(self) -> Moments:
        return moments_of([self.X])

    def epoch(
        self, random: np.random.RandomState, batch_size: int, *, skip: int = 0, n_even: int | None = None
    ) -> Iterator[Batch]:
        n_samples = len(self.X)
        return cut(self.X, random.permutation(n_samples), batch_cuts(n_samples, batch_size, n_even=n_even, skip=skip))

    def some_rows(self) -> str:
        numbers = np.linspace(0, len(self.X) - 1, min(len(self.X), _TOLD_ROWS)).astype(int)
        return sha256(np.ascontiguousarray(self.X[numbers]).tobytes()).hexdigest()

    def in_order(self, batch_size: int) -> Iterator[Batch]:
        """Iterate over mini-batches without shuffling."""
        return cut(self.X, np.arange(len(self.X)), batch_cuts(len(self.X), batch_size))

    def array(self) -> Array:
        return np.ascontiguousarray(self.X, self.dtype)

    def blocks_in_order(self) -> Iterator[Array]:
        return (self.X[rows] for rows in row_blocks(len(self.X), _ROWS_IN_ORDER))


class BlockSamples(Samples):
    """Data that are read block by block, and shuffled well in little memory.

    Each epoch reads the blocks in a new order, collects as many as fit in a buffer of 128 MiB, and shuffles the samples
    in it. Blocks of data on disk have a megabyte, so a buffer mixes samples from a hundred places or more. While one
    buffer is used for training, the next is read.
    """

    def __init__(self, blocks: Blocks, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.blocks = blocks
        self.shape = blocks.shape
        self.dtype = working_type(blocks.dtype)
        self._buffer_rows = max(1, buffer_bytes // (blocks.shape[1] * blocks.dtype.itemsize))

    @cached_property
    def moments(self) -> Moments:
        return moments_of(checked_blocks(self.blocks))

    def epoch(
        self, random: np.random.RandomState, batch_size: int, *, skip: int = 0, n_even: int | None = None
    ) -> Iterator[Batch]:
        groups = self._groups(random.permutation(len(self.blocks.sizes)))
        seed = random.randint(2**31 - 1)
        cuts = batch_cuts(self.shape[0], batch_size, n_even=n_even, skip=skip)
        ends = np.cumsum([self.blocks.sizes[group].sum() for group in groups])
        first = int(np.searchsorted(ends, cuts[0], side="right"))  # earlier blocks need not be read
        n_before = int(ends[first - 1]) if first > 0 else 0
        buffers = zip(range(first, len(groups)), ahead(map(self._read, groups[first:])), strict=True)
        return shuffled(buffers, cuts - n_before, seed)

    def array(self) -> Array:
        return stacked(self.blocks_in_order(), self.shape, self.dtype)

    def blocks_in_order(self) -> Iterator[Array]:
        return checked_blocks(self.blocks)

    def some_rows(self) -> str:
        numbers = sorted({0, len(self.blocks.sizes) // 2, len(self.blocks.sizes) - 1})
        digest = sha256()
        for number in numbers:
            digest.update(np.ascontiguousarray(self.blocks.read(number)[:_TOLD_ROWS]).tobytes())
        return digest.hexdigest()

    def _groups(self, order: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Return the blocks that share a buffer, in the order of the epoch."""
        ends = np.cumsum(self.blocks.sizes[order])
        buffer_of_block = (ends - 1) // self._buffer_rows
        return np.split(order, np.flatnonzero(np.diff(buffer_of_block)) + 1)

    def _read(self, group: NDArray[np.intp]) -> Array:
        shape = (int(self.blocks.sizes[group].sum()), self.shape[1])
        return stacked((self.blocks.read(int(block)) for block in group), shape, self.blocks.dtype)
