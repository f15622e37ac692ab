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

BUFFER_BYTES = 2**27  # that samples are shuffled in; there are two of them


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
    """Mini-batches from arrays of any sizes that come one after the other, shuffled as far as little memory allows.

    Arrays are copied to a buffer of 128 MiB, and the samples in it are shuffled once it is full. While one buffer is
    trained on, the next one is filled.

    Parameters
    ----------
    arrays : callable
        Gives a new iterator over all arrays whenever it is called.
    n_samples : int
        Their rows in all.
    batch_size : int
        Rows of a batch; the last one of an epoch may have fewer.
    buffer_bytes : int
        Of the samples that are shuffled together, at most.
    """

    def __init__(
        self,
        arrays: Callable[[], Iterable[Array]],
        n_samples: int,
        batch_size: int,
        buffer_bytes: int = BUFFER_BYTES,
    ) -> None:
        self.arrays = arrays
        self.n_samples = n_samples
        self.batch_size = batch_size
        self._buffer_bytes = buffer_bytes

    def epoch(self, random: np.random.RandomState, skip: int = 0) -> Iterator[Batch]:
        seed = random.randint(2**31 - 1)
        return _shuffled(enumerate(_ahead(self._buffers())), self.batch_size, seed, skip * self.batch_size)

    def _buffers(self) -> Iterator[Array]:
        buffer: Array | None = None
        end = 0
        for array in self.arrays():
            if buffer is not None and array.dtype != buffer.dtype:
                yield buffer[:end]
                buffer = None
            start = 0
            while start < len(array):
                if buffer is None:
                    n_rows = max(1, self._buffer_bytes // max(array[:1].nbytes, 1))
                    buffer, end = np.empty((min(n_rows, self.n_samples), array.shape[1]), array.dtype), 0
                n_taken = min(len(array) - start, len(buffer) - end)
                buffer[end : end + n_taken] = array[start : start + n_taken]
                start, end = start + n_taken, end + n_taken
                if end == len(buffer):
                    yield buffer
                    buffer = None
        if buffer is not None:
            yield buffer[:end]


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
    buffer_bytes : int
        Of the samples that are shuffled together, to a block.
    """

    def __init__(self, blocks: Blocks, batch_size: int, buffer_bytes: int = BUFFER_BYTES) -> None:
        self.blocks = blocks
        self.n_samples = blocks.shape[0]
        self.batch_size = batch_size
        self._buffer_rows = max(1, buffer_bytes // (blocks.shape[1] * blocks.dtype.itemsize))

    def epoch(self, random: np.random.RandomState, skip: int = 0) -> Iterator[Batch]:
        groups = self._groups(random.permutation(len(self.blocks.sizes)))
        seed = random.randint(2**31 - 1)
        ends = np.cumsum([self.blocks.sizes[group].sum() for group in groups])
        first = int(np.searchsorted(ends, skip * self.batch_size, side="right"))  # what is before need not be read
        skipped_rows = skip * self.batch_size - (int(ends[first - 1]) if first > 0 else 0)
        buffers = zip(range(first, len(groups)), _ahead(map(self._read, groups[first:])), strict=True)
        return _shuffled(buffers, self.batch_size, seed, skipped_rows)

    def _groups(self, order: NDArray[np.intp]) -> list[NDArray[np.intp]]:
        """Blocks that go into a buffer together, in the order of the epoch."""
        ends = np.cumsum(self.blocks.sizes[order])
        buffer_of_block = (ends - 1) // self._buffer_rows
        return np.split(order, np.flatnonzero(np.diff(buffer_of_block)) + 1)

    def _read(self, group: NDArray[np.intp]) -> Array:
        sizes = self.blocks.sizes[group]
        rows = np.empty((int(sizes.sum()), self.blocks.shape[1]), self.blocks.dtype)
        end = 0
        for block, size in zip(group, sizes, strict=True):
            rows[end : end + size] = self.blocks.read(int(block))
            end += int(size)
        return rows


def _ahead(items: Iterator[Array]) -> Iterator[Array]:
    """The same items; each is made in a thread while the one before it is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="epls-read") as reader:
        coming = reader.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = reader.submit(next, items, None)
            yield item


def _shuffled(buffers: Iterable[tuple[int, Array]], batch_size: int, seed: int, skipped_rows: int) -> Iterator[Batch]:
    """Batches of buffers that are shuffled one by one, each by its number; what is left of one goes with the next."""
    waiting: Array | None = None  # the end of a buffer that is less than a batch
    for number, rows in buffers:
        order = np.random.RandomState([seed, number]).permutation(len(rows))[skipped_rows:]
        skipped_rows = max(skipped_rows - len(rows), 0)
        if waiting is not None:
            n_missing = batch_size - len(waiting)
            waiting = np.concatenate([waiting, rows[order[:n_missing]]])
            order = order[n_missing:]
            if len(waiting) < batch_size:
                continue
            yield waiting, np.arange(batch_size)
        n_whole = len(order) // batch_size * batch_size
        for start in range(0, n_whole, batch_size):
            yield rows, order[start : start + batch_size]
        waiting = rows[order[n_whole:]] if n_whole < len(order) else None
    if waiting is not None:
        yield waiting, np.arange(len(waiting))
