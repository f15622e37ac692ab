"""Where mini-batches come from: arrays, streams, and data that are read block by block because they are too large.

Every source gives each sample once an epoch, in an order that follows from the random state alone, and can begin in the
middle of an epoch: a training that was stopped there goes on as if it had not been.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from .blocks import Blocks

Array = NDArray[np.floating]
Batch = tuple[Array, NDArray[np.intp]]  # an array, and which of its rows

_BUFFER_BYTES = 2**27  # that samples are shuffled in; there are two of them


class Batches(Protocol):
    """A source of mini-batches."""

    n_samples: int
    batch_size: int

    def epoch(self, random: np.random.RandomState, skip: int = 0) -> Iterator[Any]:
        """Arrays and which of their rows make a batch, until every sample was given once.

        The first ``skip`` batches are left out. All that is random is drawn before the first batch.
        """


class ArrayBatches:
    """Mini-batches of an array or a memory map, shuffled by index: the data are never copied."""

    def __init__(self, X: Array, batch_size: int) -> None:
        self.X = X
        self.n_samples = len(X)
        self.batch_size = batch_size

    def epoch(self, random: np.random.RandomState, skip: int = 0) -> Iterator[Batch]:
        return self._cut(random.permutation(self.n_samples), skip)

    def in_order(self) -> Iterator[Batch]:
        """The same without shuffling."""
        return self._cut(np.arange(self.n_samples))

    def _cut(self, order: NDArray[np.intp], skip: int = 0) -> Iterator[Batch]:
        for start in range(skip * self.batch_size, self.n_samples, self.batch_size):
            yield self.X, order[start : start + self.batch_size]


class StreamBatches:
    """Mini-batches of equal size from arrays of any sizes, in the order in which they come.

    Parameters
    ----------
    arrays : callable
        Gives a new iterator over all arrays whenever it is called.
    n_samples : int
        Their rows in all.
    batch_size : int
        Rows of a batch; the last one of an epoch may have fewer.
    """

    def __init__(self, arrays: Callable[[], Iterable[Array]], n_samples: int, batch_size: int) -> None:
        self.arrays = arrays
        self.n_samples = n_samples
        self.batch_size = batch_size

    def epoch(self, random: np.random.RandomState, skip: int = 0) -> Iterator[Batch]:
        for number, batch in enumerate(self._in_order()):
            if number >= skip:
                yield batch

    def _in_order(self) -> Iterator[Batch]:
        waiting: Array | None = None
        for array in self.arrays():
            rows = array if waiting is None else np.concatenate([waiting, array])
            n_whole = len(rows) - len(rows) % self.batch_size
            for start in range(0, n_whole, self.batch_size):
                yield rows, np.arange(start, start + self.batch_size)
            waiting = rows[n_whole:]
        if waiting is not None and len(waiting) > 0:
            yield waiting, np.arange(len(waiting))


class BlockBatches:
    """Mini-batches of data that are read block by block, well shuffled in little memory.

    Each epoch takes the blocks in a new order, gathers as many of them as fill a buffer of 128 MiB, and shuffles the
    samples in it. Blocks of data on disk are a megabyte, so a buffer mixes samples from a hundred places or more. While
    one buffer is trained on, the next is read.

    Parameters
    ----------
    blocks : Blocks
        The data.
    batch_size : int
        Rows of a batch; the last one of an epoch may have fewer.
    buffer_rows : int or None
        Samples that are shuffled together at least; by default what fills the buffer.
    """

    def __init__(self, blocks: Blocks, batch_size: int, buffer_rows: int | None = None) -> None:
        self.blocks = blocks
        self.n_samples = blocks.shape[0]
        self.batch_size = batch_size
        self._buffer_rows = buffer_rows or max(1, _BUFFER_BYTES // (blocks.shape[1] * blocks.dtype.itemsize))

    def epoch(self, random: np.random.RandomState, skip: int = 0) -> Iterator[Batch]:
        order = random.permutation(len(self.blocks.sizes))
        seed = random.randint(2**31 - 1)
        return self._batches(self._groups(order), seed, skip)

    def _groups(self, order: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Blocks that go into a buffer together, in the order of the epoch."""
        ends = np.cumsum(self.blocks.sizes[order])
        buffer_of_block = (ends - 1) // self._buffer_rows
        return np.split(order, np.flatnonzero(np.diff(buffer_of_block)) + 1)

    def _batches(self, groups: list[NDArray[np.intp]], seed: int, skip: int) -> Iterator[Batch]:
        sizes = np.array([self.blocks.sizes[group].sum() for group in groups])
        position = skip * self.batch_size
        first = int(np.searchsorted(np.cumsum(sizes), position, side="right"))
        position -= int(sizes[:first].sum())
        waiting: Array | None = None  # the end of a buffer that is less than a batch
        for number, rows in self._read_ahead(groups, first):
            order = np.random.RandomState([seed, number]).permutation(len(rows))
            if waiting is not None:
                position = self.batch_size - len(waiting)
                joined = np.concatenate([waiting, rows[order[:position]]])
                if len(joined) < self.batch_size and number + 1 < len(groups):
                    waiting = joined
                    continue
                yield joined, np.arange(len(joined))
            n_whole = max(len(order) - position, 0) // self.batch_size * self.batch_size
            for start in range(position, position + n_whole, self.batch_size):
                yield rows, order[start : start + self.batch_size]
            rest = order[position + n_whole :]
            waiting = rows[rest] if len(rest) > 0 else None
            position = 0
        if waiting is not None:
            yield waiting, np.arange(len(waiting))

    def _read_ahead(self, groups: list[NDArray[np.intp]], first: int) -> Iterator[tuple[int, Array]]:
        """The rows of one group after the other; the next is read meanwhile."""
        with ThreadPoolExecutor(1, thread_name_prefix="epls-read") as reader:
            coming = reader.submit(self._read, groups[first]) if first < len(groups) else None
            for number in range(first, len(groups)):
                assert coming is not None
                rows = coming.result()
                coming = reader.submit(self._read, groups[number + 1]) if number + 1 < len(groups) else None
                yield number, rows

    def _read(self, group: NDArray[np.intp]) -> Array:
        sizes = self.blocks.sizes[group]
        rows = np.empty((int(sizes.sum()), self.blocks.shape[1]), self.blocks.dtype)
        end = 0
        for block, size in zip(group, sizes, strict=True):
            rows[end : end + size] = self.blocks.read(int(block))
            end += int(size)
        return rows
