"""Data that are too large for memory, as blocks of samples: memory maps, zarr and dask arrays."""

from __future__ import annotations

import glob
import mmap
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..utils.files import open_regular
from ..utils.npy import read_npy_header

_FILE_BLOCK_BYTES = 2**20
#: Arrays on disk of at least this many bytes are read in parts; smaller ones are read as a whole.
LARGE_FILE_BYTES = 2**30
# Types that are kept, so that pixels stay bytes until they are in a batch. Others are converted to the first.
TYPES = [np.dtype(t) for t in (np.float64, np.float32, np.uint8, np.int8, np.uint16, np.int16)]


@runtime_checkable
class Blocks(Protocol):
    """A table of samples that is read some rows at a time.

    Attributes
    ----------
    shape : (n_samples, n_features)
        The shape of all blocks together.
    dtype : dtype
        The type of the values.
    sizes : ndarray of int
        The number of rows of each block.
    """

    shape: tuple[int, int]
    dtype: np.dtype[Any]
    sizes: NDArray[np.intp]

    def read(self, number: int) -> NDArray[Any]:
        """Read the rows of a block. Several threads may read at the same time."""


class FileBlocks:
    """Contiguous rows of a file, read on demand. Unlike pages of a memory map, they do not stay in memory.

    ``offset`` is the position of the first row. ``path`` may be an address in an object store (``s3://...``).
    """

    def __init__(self, path: str, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.path = path
        self.shape = shape
        self.dtype = _read_as(dtype)
        self._stored_as = dtype
        self._offset = offset
        self._row_bytes = max(shape[1] * dtype.itemsize, 1)
        self._rows = max(1, _FILE_BLOCK_BYTES // self._row_bytes)
        self.sizes = _equal_sizes(shape[0], self._rows)

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> FileBlocks:
        """Open the rows of a .npy file. Only its header is read."""
        path = os.fspath(path)
        try:
            with _opened(path) as file:
                n_bytes = file.seek(0, os.SEEK_END)
                file.seek(0)
                shape, fortran_order, dtype, offset = read_npy_header(file, n_bytes)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"there is no file {path}: every process must be able to read all files at their paths"
            ) from None
        except ValueError as error:
            raise ValueError(f"{path} is not a .npy file that can be read: {error}") from error
        _check_table(path, shape)
        if dtype.kind not in "fiub" or (fortran_order and shape[1] > 1):
            raise ValueError(
                f"{path} holds {dtype} in {'columns' if fortran_order else 'rows'}; only rows of real numbers can be "
                f"read in parts: write np.ascontiguousarray(X, np.float32)"
            )
        return cls(path, offset, (shape[0], shape[1]), dtype)

    def read(self, number: int) -> NDArray[Any]:
        return self.rows(number * self._rows, int(self.sizes[number])).astype(self.dtype, copy=False)

    def rows(self, start: int, n_rows: int) -> NDArray[Any]:
        """Read some rows, in the type in which they are stored."""
        values = np.empty((n_rows, self.shape[1]), self._stored_as)
        with _opened(self.path) as file:
            file.seek(self._offset + start * self._row_bytes)
            n_read = file.readinto(values.reshape(-1).view(np.uint8).data)
        if n_read != values.nbytes:
            raise OSError(
                f"{self.path} ends before row {start + n_rows} of {self.shape[0]}: it was shortened while it was read"
            )
        return values


class ChunkedBlocks:
    """The chunks of a zarr array."""

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
    """The blocks of a dask array. The current scheduler computes each block on demand."""

    def __init__(self, X: Any) -> None:
        self.X = whole_rows(X)
        self.shape = (int(X.shape[0]), int(X.shape[1]))
        self.dtype = _type_of(X)
        self.sizes = np.array(self.X.chunks[0], np.intp)

    def read(self, number: int) -> NDArray[Any]:
        return np.asarray(self.X.blocks[number, 0].compute(), self.dtype)


def whole_rows(X: Any) -> Any:
    """Return a dask array whose blocks hold whole samples. Their sizes must be known."""
    if any(np.isnan(size) for size in X.chunks[0]):
        raise ValueError("the sizes of the dask array's blocks are unknown: call its compute_chunk_sizes()")
    return X.rechunk(dict.fromkeys(range(1, X.ndim), -1))


class JoinedBlocks:
    """Several tables of equal width, stacked into one."""

    def __init__(self, parts: Sequence[Blocks]) -> None:
        self._parts = list(parts)
        self._first_blocks = np.cumsum([0, *(len(part.sizes) for part in parts)])
        self.shape = (sum(part.shape[0] for part in parts), parts[0].shape[1])
        self.dtype = np.result_type(*(part.dtype for part in parts))
        if self.dtype not in TYPES:
            self.dtype = TYPES[0]
        self.sizes = np.concatenate([part.sizes for part in parts])

    def read(self, number: int) -> NDArray[Any]:
        part = int(np.searchsorted(self._first_blocks, number, side="right")) - 1
        return self._parts[part].read(number - int(self._first_blocks[part])).astype(self.dtype, copy=False)


class RowRange:
    """Consecutive rows of other blocks, such as those of one shard. Only blocks that contain such rows are read."""

    def __init__(self, blocks: Blocks, start: int, stop: int) -> None:
        ends = np.cumsum(blocks.sizes)
        self._blocks = blocks
        self._first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, stop, side="left"))
        starts = ends[self._first : last + 1] - blocks.sizes[self._first : last + 1]
        self._cuts = np.column_stack(
            [np.maximum(start - starts, 0), np.minimum(ends[self._first : last + 1], stop) - starts]
        )
        self.start = start
        self.shape = (stop - start, blocks.shape[1])
        self.dtype = blocks.dtype
        self.sizes = (self._cuts[:, 1] - self._cuts[:, 0]).astype(np.intp)

    def read(self, number: int) -> NDArray[Any]:
        start, stop = self._cuts[number]
        return self._blocks.read(self._first + number)[start:stop]


class ArrayBlocks:
    """An array in memory."""

    def __init__(self, X: NDArray[Any]) -> None:
        self._X = X
        self.shape = (X.shape[0], X.shape[1])
        self.dtype = X.dtype
        self._rows = max(1, _FILE_BLOCK_BYTES // max(X[:1].nbytes, 1))
        self.sizes = _equal_sizes(len(X), self._rows)

    def read(self, number: int) -> NDArray[Any]:
        return self._X[number * self._rows : (number + 1) * self._rows]


def open_shards(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Blocks:
    """Open several .npy files of rows as one table that ``fit`` and ``transform`` read in parts.

    Parameters
    ----------
    paths : path, pattern, or sequence of paths
        A folder, whose .npy files are used in the order of their names; a pattern such as ``"shards/*.npy"``; or the
        files themselves. A name that contains ``://`` is an address in an object store, which is read with fsspec.

    Returns
    -------
    Blocks
        The table, for ``fit``, ``transform`` and ``iter_transform`` of a learner, and for :class:`epls.torch.Shard`.
        Only the headers of the files have been read.

    Raises
    ------
    FileNotFoundError
        If a file does not exist.
    ValueError
        If a file is not a .npy file, is truncated, or differs from the first in its number of features.
    """
    files = _files(paths)
    parts = [FileBlocks.open(file) for file in files]
    for part in parts:
        if part.shape[1] != parts[0].shape[1]:
            raise ValueError(
                f"{part.path} has {part.shape[1]} features, but {parts[0].path} has {parts[0].shape[1]}: all must have "
                f"the same number; leave out files that do not belong to the data"
            )
    return parts[0] if len(parts) == 1 else JoinedBlocks(parts)


def _files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    if not isinstance(paths, str | os.PathLike):
        files = [os.fspath(path) for path in paths]
    elif "://" in (name := os.fspath(paths)):
        files = [name]
    elif os.path.isdir(name):
        files = sorted(glob.glob(os.path.join(glob.escape(name), "*.npy")))
    else:
        files = sorted(glob.glob(name)) if glob.has_magic(name) and not os.path.exists(name) else [name]
    if not files:
        raise FileNotFoundError(f"there are no shards in {paths!r}: give .npy files, a folder of them or a pattern")
    # Workers have their own working directories.
    return [file if "://" in file else os.path.abspath(file) for file in files]


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    if "://" not in path:
        with open_regular(path) as file:
            yield file
        return
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f'reading {path} needs fsspec: pip install "epls[distributed]"') from error
    with fsspec.open(path, "rb") as file:
        yield file


def package_of(X: Any) -> str:
    """Return the package that defines the class of the data, such as zarr or dask, without importing it."""
    return type(X).__module__.partition(".")[0]


def as_blocks(X: Any, smallest_map: int | None = None) -> Blocks | None:
    """Return data as blocks if they are large or already in blocks. Otherwise return None: they are used as an array.

    A memory map is read as blocks if it has at least a gigabyte, or ``smallest_map`` bytes, its rows are contiguous in
    the file, and it has no unsaved changes.
    """
    smallest_map = LARGE_FILE_BYTES if smallest_map is None else smallest_map
    kind = package_of(X)
    if isinstance(X, Blocks):
        return X
    if isinstance(X, np.memmap):
        if X.ndim != 2 or X.nbytes < smallest_map or not X.flags.c_contiguous or X.filename is None:
            return None
        base: Any = X.base  # a view has the offset of the whole map, so its place in the file is unknown
        if X.dtype.kind not in "fiub" or X.mode == "c" or not isinstance(base, mmap.mmap):
            return None
        return FileBlocks(str(X.filename), X.offset, (X.shape[0], X.shape[1]), X.dtype)
    if kind == "zarr" and hasattr(X, "chunks"):
        _check_table("X", X.shape)
        return ChunkedBlocks(X)
    if kind == "dask" and hasattr(X, "rechunk"):
        _check_table("X", X.shape)
        return DaskBlocks(X)
    if kind == "polars" and hasattr(X, "collect"):
        raise TypeError("a polars LazyFrame has not been computed yet: give X.collect()")
    return None


def refuse_blocks(X: Any, who: str) -> None:
    """Raise an error for data in parts where all data are needed at once."""
    if isinstance(X, Blocks):
        raise TypeError(
            f"{who} needs its samples in memory, but got a {type(X).__name__}, which is read in parts: give an "
            f"array, or learn with fit"
        )


def checked_blocks(blocks: Blocks) -> Iterator[NDArray[Any]]:
    """Iterate over the blocks. Raise an error if a value is not finite."""
    first = getattr(blocks, "start", 0)  # the row in the whole data, if these blocks are a part of it
    for number, size in enumerate(blocks.sizes):
        block = blocks.read(number)
        if block.dtype.kind == "f" and not np.isfinite(block).all():
            row = first + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0])
            raise ValueError(f"X has a value that is NaN or infinite in row {row}: remove or replace it")
        first += int(size)
        yield block


def _check_table(name: str, shape: Sequence[int]) -> None:
    if len(shape) != 2 or 0 in shape:
        raise ValueError(
            f"{name} has shape {tuple(shape)}, but must have shape (n_samples, n_features), with at least one of each"
        )


def _type_of(X: Any) -> np.dtype[Any]:
    dtype = np.dtype(X.dtype)
    if dtype.kind not in "fiub":
        raise ValueError(f"X holds values of type {dtype}: samples must be numbers")
    return _read_as(dtype)


def _read_as(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return dtype if dtype in TYPES else TYPES[0]


def _equal_sizes(n_rows: int, rows_in_block: int) -> NDArray[np.intp]:
    starts = np.arange(0, n_rows, rows_in_block)
    return np.minimum(n_rows - starts, rows_in_block).astype(np.intp)
