"""The tree along which shards pass on weights and add up what they found.

Shard k has the shards 2k + 1 and 2k + 2 below it; shard 0 is at the top. Weights go down. On the way up, every shard
adds to its own array first that of shard 2k + 1 and then that of shard 2k + 2, in which those below are included. So
the order of additions, and with it every bit of the sum, follows from the number of shards alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..utils.types import Array

_N_BELOW = 2
# Arrays travel in chunks of rows, so that a shard passes on the first while the next one is still on its way.
_CHUNK_BYTES = 2**17


def below(number: int, n_shards: int) -> range:
    """The shards directly below one."""
    return range(min(_N_BELOW * number + 1, n_shards), min(_N_BELOW * (number + 1) + 1, n_shards))


def branch(number: int, n_shards: int) -> list[int]:
    """A shard and all shards below it.

    Examples
    --------
    >>> branch(1, 10)
    [1, 3, 7, 8, 4, 9]
    """
    return [number] + [other for child in below(number, n_shards) for other in branch(child, n_shards)]


def chunks(shape: tuple[int, ...], dtype: np.dtype[np.floating]) -> list[slice]:
    """Ranges of rows of an array that travel together; one, which is empty, if there are none."""
    n_rows = max(1, _CHUNK_BYTES // max(1, dtype.itemsize * int(np.prod(shape[1:]))))
    return [slice(start, start + n_rows) for start in range(0, max(shape[0], 1), n_rows)]


def combine_along_tree(arrays: Sequence[Array], combine: np.ufunc) -> Array:
    """What arrives at the top of the tree, given the array of every shard; the arrays are changed."""
    for number in reversed(range(len(arrays))):
        for child in below(number, len(arrays)):
            combine(arrays[number], arrays[child], out=arrays[number])
    return arrays[0]
