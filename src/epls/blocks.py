"""Data that are too large for memory, as blocks of samples: memory maps, zarr and dask arrays."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

_FILE_BLOCK_BYTES = 2**20
_LARGE_FILE_BYTES = 2**30
# Types that are taken as they are; others become the first.
_TYPES = [np.dtype(t) for t in (np.float64, np.float32, np.uint8, np.int8, np.uint16, np.int16)]


class Blocks(Protocol):
    """A table of samples that is read some rows at a time.

    Attributes
    ----------
    shape : (n_samples, n_features)
        Of all blocks together.
    dtype : dtype
        What is read.
    sizes : ndarray of int
        The rows of each block.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    sizes: NDArray[np.intp]

    def read(self, number: int) -> NDArray[Any]:
        """The rows of a block. Several threads may read at the same time."""


class FileBlocks:
    """The rows of a memory map, read from its file: pages that are mapped stay in memory, what is read does not."""

    def __init__(self, X: np.memmap[Any, Any]) -> None:
        if X.filename is None:
            raise ValueError("the memory map has no file")
        self._path, self._offset = X.filename, X.offset
        self.shape = (X.shape[0], X.shape[1])
        self.dtype = X.dtype
        self._row_bytes = max(self.shape[1] * self.dtype.itemsize, 1)
        self._rows = max(1, _FILE_BLOCK_BYTES // self._row_bytes)
        self.sizes = _equal_sizes(self.shape[0], self._rows)

    def read(self, number: int) -> NDArray[Any]:
        n_rows, start = int(self.sizes[number]), number * self._rows
        values = np.fromfile(
            self._path, self.dtype, count=n_rows * self.shape[1], offset=self._offset + start * self._row_bytes
        )
        if values.size != n_rows * self.shape[1]:
            raise OSError(
                f"{self._path} ends before row {start + n_rows} of {self.shape[0]}: it was shortened while it was read"
            )
        return values.reshape(n_rows, self.shape[1])


class ChunkedBlocks:
    """The chunks of a zarr array, or of another one that has ``chunks`` of equal height and can be sliced."""

    def __init__(self, X: Any) -> None:
        self._X = X
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self._rows = int(X.chunks[0])
        self.dtype = _type_of(X)
        self.sizes = _equal_sizes(self.shape[0], self._rows)

    def read(self, number: int) -> NDArray[Any]:
        start = number * self._rows
        return np.asarray(self._X[start : start + int(self.sizes[number])], self.dtype)


class DaskBlocks:
    """The blocks of a dask array, each computed when it is needed, by whatever scheduler is set."""

    def __init__(self, X: Any) -> None:
        self._X = X.rechunk({1: -1})
        if any(np.isnan(size) for size in self._X.chunks[0]):
            raise ValueError("the dask array does not know the sizes of its blocks: call compute_chunk_sizes() on it")
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.dtype = _type_of(X)
        self.sizes = np.array(self._X.chunks[0], np.intp)

    def read(self, number: int) -> NDArray[Any]:
        return np.asarray(self._X.blocks[number, 0].compute(), self.dtype)


def as_blocks(X: Any) -> Blocks | None:
    """Data as blocks, if they are large or know blocks themselves; None for all else, which is taken as an array.

    A memory map is read as blocks if it has a gigabyte or more, and its rows lie one after the other in the file.
    """
    kind = type(X).__module__.partition(".")[0]
    blocks: Blocks
    if isinstance(X, np.memmap):
        if X.ndim != 2 or X.nbytes < _LARGE_FILE_BYTES or not X.flags.c_contiguous or X.filename is None:
            return None
        base: Any = X.base  # a view of a map has the offset of the whole: there is no telling where in the file it is
        if X.dtype not in _TYPES or not isinstance(base, mmap.mmap):
            return None
        blocks = FileBlocks(X)
    elif kind == "zarr" and hasattr(X, "chunks"):
        blocks = ChunkedBlocks(_two_dimensional(X))
    elif kind == "dask" and hasattr(X, "rechunk"):
        blocks = DaskBlocks(_two_dimensional(X))
    else:
        return None
    return blocks


def checked_blocks(blocks: Blocks) -> Iterator[NDArray[Any]]:
    """The blocks one after the other; an error where a value is not finite."""
    first = 0
    for number, size in enumerate(blocks.sizes):
        block = blocks.read(number)
        if block.dtype.kind == "f" and not np.isfinite(block).all():
            row = first + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
            raise ValueError(f"X has a value that is NaN or infinite in row {row}: remove or replace it")
        first += int(size)
        yield block


def _two_dimensional(X: Any) -> Any:
    if len(X.shape) != 2 or 0 in X.shape:
        raise ValueError(f"X has shape {tuple(X.shape)}, and must be (n_samples, n_features) with at least one of each")
    return X


def _type_of(X: Any) -> np.dtype[Any]:
    dtype = np.dtype(X.dtype)
    if dtype.kind not in "fiub":
        raise ValueError(f"X holds values of type {dtype}: samples must be numbers")
    return dtype if dtype in _TYPES else _TYPES[0]


def _equal_sizes(n_rows: int, rows_in_block: int) -> NDArray[np.intp]:
    starts = np.arange(0, n_rows, rows_in_block)
    return np.minimum(n_rows - starts, rows_in_block).astype(np.intp)
