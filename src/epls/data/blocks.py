"""Data that are too large for memory, as blocks of samples: memory maps, zarr and dask arrays."""

from __future__ import annotations

import glob
import mmap
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..utils.files import open_regular
from ..utils.npy import read_npy_header

_Rows: TypeAlias = Callable[[int, int], NDArray[Any]]
_BLOCK_BYTES = 2**20
#: Arrays on disk of at least this many bytes are read in parts; smaller ones are read as a whole.
LARGE_FILE_BYTES = 2**30
# Types that are kept, so that pixels stay bytes until they are in a batch. Others are converted to the first.
TYPES = [np.dtype(t) for t in (np.float64, np.float32, np.uint8, np.int8, np.uint16, np.int16)]


class Blocks:
    """A table of samples that is read some rows at a time.

    Parameters
    ----------
    rows : callable
        Returns the rows from ``start`` to ``stop``, given both, which are in the same block. Threads may call it at the
        same time.
    shape : (n_samples, n_features)
        The shape of all blocks together.
    dtype : dtype
        The type of the values. Those of :data:`TYPES` are kept; others become float64 when they are read.
    sizes : sequence of int
        The number of rows of each block.
    first_row : int, default=0
        The number of the first row, for error messages, if these blocks are a part of other data.
    """

    def __init__(
        self, rows: _Rows, shape: Sequence[int], dtype: Any, sizes: Sequence[int] | NDArray[Any], first_row: int = 0
    ) -> None:
        self.rows = rows
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = np.dtype(dtype) if dtype in TYPES else TYPES[0]
        self.sizes = np.asarray(sizes, np.intp)
        self.first_row = first_row
        self._ends = np.cumsum(self.sizes)

    def read(self, number: int) -> NDArray[Any]:
        """Read the rows of a block. Several threads may read at the same time."""
        stop = int(self._ends[number])
        start = stop - int(self.sizes[number])
        block = np.asarray(self.rows(start, stop), self.dtype)
        if block.shape != (stop - start, self.shape[1]):
            raise ValueError(
                f"the rows from {start} to {stop} have shape {block.shape}: they must have shape "
                f"{(stop - start, self.shape[1])}, as the sizes of the blocks say"
            )
        return block

    def part(self, start: int, stop: int) -> Blocks:
        """Return consecutive rows, such as those of one process. Only blocks that contain such rows are read."""
        sizes = np.diff(self._ends.clip(start, stop), prepend=start)
        shape = (stop - start, self.shape[1])
        return Blocks(partial(_after, self.rows, start), shape, self.dtype, sizes[sizes > 0], self.first_row + start)


# Functions for ``rows``. They are not nested, so that blocks can be pickled.
def _after(rows: _Rows, first: int, start: int, stop: int) -> NDArray[Any]:
    return rows(first + start, first + stop)


def _slice(X: Any, start: int, stop: int) -> Any:
    return X[start:stop]


def _computed(X: Any, start: int, stop: int) -> Any:
    return X[start:stop].compute()  # by dask's current scheduler


def _of_parts(parts: Sequence[Blocks], ends: NDArray[Any], start: int, stop: int) -> NDArray[Any]:
    number = int(np.searchsorted(ends, start, side="right"))
    first = int(ends[number]) - parts[number].shape[0]
    return parts[number].rows(start - first, stop - first)


class FileRows:
    """Contiguous rows of a file, read on demand. Unlike pages of a memory map, they do not stay in memory.

    ``offset`` is the position of the first row.
    """

    def __init__(self, path: str, offset: int, shape: tuple[int, int], dtype: np.dtype[Any]) -> None:
        self.path, self.shape, self.dtype = path, shape, dtype
        self._offset = offset

    @classmethod
    def open(cls, path: str) -> FileRows:
        """Open the rows of a .npy file. Only its header is read."""
        try:
            with open_regular(path) as file:
                shape, fortran_order, dtype, offset = read_npy_header(file, os.fstat(file.fileno()).st_size)
        except FileNotFoundError:
            raise FileNotFoundError(
                f"there is no file {path}: every process must be able to read all files at their paths. For rows in an "
                f"object store, give a zarr or dask array, or Blocks with a function that returns rows"
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

    def blocks(self) -> Blocks:
        """Return the rows in blocks of about a megabyte."""
        return Blocks(self, self.shape, self.dtype, _sizes(self.shape, self.dtype))

    def __call__(self, start: int, stop: int) -> NDArray[Any]:
        """Read some rows, in the type in which they are stored."""
        values = np.empty((stop - start, self.shape[1]), self.dtype)
        with open_regular(self.path) as file:
            file.seek(self._offset + start * self.shape[1] * self.dtype.itemsize)
            n_read = file.readinto(values.reshape(-1).view(np.uint8).data)
        if n_read != values.nbytes:
            raise OSError(f"{self.path} ends before row {stop} of {self.shape[0]}: it was shortened while it was read")
        return values


def whole_rows(X: Any) -> Any:
    """Return a dask array whose blocks hold whole samples. Their sizes must be known."""
    if any(np.isnan(size) for size in X.chunks[0]):
        raise ValueError("the sizes of the dask array's blocks are unknown: call its compute_chunk_sizes()")
    return X.rechunk(dict.fromkeys(range(1, X.ndim), -1))


def array_blocks(X: NDArray[Any]) -> Blocks:
    """Return an array in memory as blocks."""
    return Blocks(partial(_slice, X), X.shape, X.dtype, _sizes(X.shape, X.dtype))


def joined(parts: Sequence[Blocks]) -> Blocks:
    """Return several tables of equal width as one."""
    if len(parts) == 1:
        return parts[0]
    ends = np.cumsum([part.shape[0] for part in parts])
    dtype = np.result_type(*(part.dtype for part in parts))
    sizes = np.concatenate([part.sizes for part in parts])
    return Blocks(partial(_of_parts, parts, ends), (ends[-1], parts[0].shape[1]), dtype, sizes)


def open_shards(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> Blocks:
    """Open several .npy files of rows as one table that ``fit`` and ``transform`` read in parts.

    Parameters
    ----------
    paths : path, pattern, or sequence of paths
        A folder, whose .npy files are used in the order of their names; a pattern such as ``"shards/*.npy"``; or the
        files themselves.

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
    files = [FileRows.open(path) for path in _files(paths)]
    for file in files:
        if file.shape[1] != files[0].shape[1]:
            raise ValueError(
                f"{file.path} has {file.shape[1]} features, but {files[0].path} has {files[0].shape[1]}: all must have "
                f"the same number; leave out files that do not belong to the data"
            )
    return joined([file.blocks() for file in files])


def _files(paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]) -> list[str]:
    if not isinstance(paths, str | os.PathLike):
        files = [os.fspath(path) for path in paths]
    elif os.path.isdir(name := os.fspath(paths)):
        files = sorted(glob.glob(os.path.join(glob.escape(name), "*.npy")))
    else:
        files = sorted(glob.glob(name)) if glob.has_magic(name) and not os.path.exists(name) else [name]
    if not files:
        raise FileNotFoundError(f"there are no shards in {paths!r}: give .npy files, a folder of them or a pattern")
    return list(map(os.path.abspath, files))  # workers have their own working directories


def package_of(X: Any) -> str:
    """Return the package that defines the class of the data, such as zarr or dask, without importing it."""
    return type(X).__module__.partition(".")[0]


def is_dask(X: Any) -> bool:
    """Return whether data are a dask array."""
    return package_of(X) == "dask" and hasattr(X, "to_delayed")


def as_blocks(X: Any) -> Blocks | None:
    """Return data as blocks if they are large or already in blocks. Otherwise return None: they are used as an array.

    A memory map is read as blocks if it has at least a gigabyte, its rows are contiguous in the file, and it has no
    unsaved changes.
    """
    kind = package_of(X)
    if isinstance(X, Blocks):
        return X
    if isinstance(X, np.memmap):
        if X.ndim != 2 or X.nbytes < LARGE_FILE_BYTES or not X.flags.c_contiguous or X.filename is None:
            return None
        base: Any = X.base  # a view has the offset of the whole map, so its place in the file is unknown
        if X.dtype.kind not in "fiub" or X.mode == "c" or not isinstance(base, mmap.mmap):
            return None
        return FileRows(str(X.filename), X.offset, (X.shape[0], X.shape[1]), X.dtype).blocks()
    if (kind == "zarr" and hasattr(X, "chunks")) or (kind == "dask" and hasattr(X, "rechunk")):
        _check_table("X", X.shape)
        if np.dtype(X.dtype).kind not in "fiub":
            raise ValueError(f"X holds values of type {X.dtype}: samples must be numbers")
        if kind == "zarr":
            return Blocks(partial(_slice, X), X.shape, X.dtype, _equal_sizes(X.shape[0], X.chunks[0]))
        X = whole_rows(X)
        return Blocks(partial(_computed, X), X.shape, X.dtype, X.chunks[0])
    if kind == "polars" and hasattr(X, "collect"):
        raise TypeError("a polars LazyFrame has not been computed yet: give X.collect()")
    return None


def stacked(parts: Iterable[NDArray[Any]], shape: tuple[int, int], dtype: np.dtype[Any]) -> NDArray[Any]:
    """Return the rows of all parts in one array, of which the shape is known; only one part is read at a time."""
    rows, end = np.empty(shape, dtype), 0
    for part in parts:
        rows[end : end + len(part)] = part
        end += len(part)
    return rows


def joined_rows(blocks: Blocks, n_rows: int) -> Iterator[NDArray[Any]]:
    """Iterate over the rows of consecutive blocks that have at most ``n_rows`` together. Each block is read once."""
    waiting: list[NDArray[Any]] = []
    n_waiting = 0
    for number, size in enumerate(blocks.sizes):
        if waiting and n_waiting + size > n_rows:
            yield np.concatenate(waiting)
            waiting, n_waiting = [], 0
        waiting.append(blocks.read(number))
        n_waiting += int(size)
    yield np.concatenate(waiting)


def refuse_blocks(X: Any, who: str) -> None:
    """Raise an error for data in parts where all data are needed at once."""
    if isinstance(X, Blocks):
        raise TypeError(
            f"{who} needs its samples in memory, but got Blocks, which are read in parts: give an array, or "
            f"learn with fit"
        )


def checked_blocks(blocks: Blocks) -> Iterator[NDArray[Any]]:
    """Iterate over the blocks. Raise an error if a value is not finite."""
    first = blocks.first_row
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


def _sizes(shape: Sequence[int], dtype: np.dtype[Any]) -> NDArray[np.intp]:
    """Return the sizes of blocks of about a megabyte."""
    return _equal_sizes(shape[0], max(1, _BLOCK_BYTES // max(shape[1] * dtype.itemsize, 1)))


def _equal_sizes(n_rows: int, rows_in_block: int) -> NDArray[np.intp]:
    starts = np.arange(0, n_rows, rows_in_block)
    return np.minimum(n_rows - starts, rows_in_block).astype(np.intp)
