"""The order of an epoch, and how it is cut into mini-batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.types import Indices

Array = NDArray[Any]  # in the stored type, including small integers
Batch = tuple[Array, Indices]  # an array and the rows of it that make up the batch


def batch_cuts(n_samples: int, batch_size: int, *, n_even: int | None = None, skip: int = 0) -> Indices:
    """Return where an epoch is cut into mini-batches: the first sample of each, and the end.

    Batches have ``batch_size`` samples, and the last one has the rest. With ``n_even``, there are this many batches
    instead, whose sizes differ by at most one. The first ``skip`` batches are left out.
    """
    n_batches = -(-n_samples // batch_size) if n_even is None else n_even
    numbers = np.arange(min(skip, n_batches), n_batches + 1)
    if n_even is None:
        return np.minimum(numbers * batch_size, n_samples)
    size, n_larger = divmod(n_samples, n_batches)
    return numbers * size + np.minimum(numbers, n_larger)


def cut(X: Array, order: Indices, cuts: Indices) -> Iterator[Batch]:
    """Iterate over the mini-batches of an array, in the given order."""
    for start, stop in pairwise(cuts):
        yield X, order[start:stop]


def shuffled(buffers: Iterable[tuple[int, Array]], cuts: Indices, seed: int) -> Iterator[Batch]:
    """Iterate over mini-batches of buffers. Each is shuffled with its own seed, and its last rows go to the next.

    ``cuts`` count from the first row of the first buffer; rows before the first cut are left out.
    """
    sizes = iter(np.diff(cuts).tolist())
    size, n_left_out = next(sizes, 1), int(cuts[0])
    waiting: Array | None = None  # the end of a buffer, smaller than a batch
    for number, rows in buffers:
        order = np.random.RandomState([seed, number]).permutation(len(rows))[n_left_out:]
        n_left_out = max(n_left_out - len(rows), 0)
        if waiting is not None:
            n_missing = size - len(waiting)
            waiting = np.concatenate([waiting, rows[order[:n_missing]]])
            order = order[n_missing:]
            if len(waiting) < size:
                continue
            yield waiting, np.arange(size)
            waiting, size = None, next(sizes, 1)
        while size <= len(order):
            yield rows, order[:size]
            order, size = order[size:], next(sizes, 1)
        if len(order) > 0:
            waiting = rows[order]
    if waiting is not None:
        yield waiting, np.arange(len(waiting))


def ahead(items: Iterator[Array]) -> Iterator[Array]:
    """Iterate over the same items; a thread computes each while the previous one is used."""
    with ThreadPoolExecutor(1, thread_name_prefix="epls-read") as reader:
        coming = reader.submit(next, items, None)
        while (item := coming.result()) is not None:
            coming = reader.submit(next, items, None)
            yield item
