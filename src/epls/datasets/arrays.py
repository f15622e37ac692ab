"""Arrays from NumPy files, .npy and .npz, and images of arrays that are too large for memory.

Headers are checked against the files before memory is allocated.
"""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

from ..data.blocks import LARGE_FILE_BYTES, FileRows
from ..utils.files import existing_file, open_regular
from ..utils.npy import read_npy, read_npy_header
from ..utils.wording import counted, listed

ARRAYS = (".npy", ".npz")
#: For files with at least this many bytes of content: the largest allowed ratio of content to stored bytes.
LARGE_CONTENT, LARGEST_RATIO = 2**30, 100
#: Names and labels of samples: the longest, in characters, and the bytes that Python needs for each.
LONGEST_TEXT, TEXT_BYTES = 2**12, 200
_BLOCK_VALUES = 2**20  # checked at a time, so that a large array is not copied
_USUAL_NAMES = ("X", "images", "features", "embeddings")
_NAMES = "names"  # the array with the name of each row


def load_array(path: str | os.PathLike[str], key: str | None = None) -> NDArray[Any]:
    """Load the array of a .npy file, or one array of a .npz file.

    A .npy file of less than a gigabyte is read; a larger one is memory-mapped. If a mapped file is shortened, the
    operating system kills the process that reads it, so do not change a large file until the work is done.

    Parameters
    ----------
    path : path-like
        The file.
    key : str or None, default=None
        The name of the array in a .npz file. It is not needed if the file has only one array beside "names", or one
        that is called "X", "images", "features" or "embeddings".

    Returns
    -------
    ndarray
        The array, of any shape.

    Raises
    ------
    ValueError
        If the file is damaged or truncated, if it holds Python objects, which only pickle can read, or if an array of a
        .npz file has a gigabyte or more and was compressed to less than a hundredth. A small file could then fill the
        memory. Save such an array as .npy.
    """
    path = existing_file(path)
    if path.suffix.lower() == ".npz":
        with _opened_archive(path) as archive:
            chosen = _chosen_key(list(archive), key)
            if chosen is not None:
                return archive[chosen]()
            raise ValueError(
                f"{path} holds the arrays {listed(list(archive))}: choose one with key (on the command line, --key)"
            )
    with _explained(path), open_regular(path) as file:
        n_bytes = os.fstat(file.fileno()).st_size
        if n_bytes < LARGE_FILE_BYTES:
            return read_npy(file, n_bytes)
        read_npy_header(file, n_bytes)
        return np.load(path, mmap_mode="r", allow_pickle=False)


def check_expansion(path: Path, content: int, stored: int, used: int = 0) -> None:
    """Reject a small file that expands to fill the memory. Sizes are in bytes: content, as stored, and as used."""
    if max(content, used) >= LARGE_CONTENT and content > LARGEST_RATIO * stored:
        raise ValueError(
            f"{path} has {stored:,} bytes that decompress to {content:,}: a gigabyte or more of data is not read if it "
            f"was compressed to less than 1/{LARGEST_RATIO}, because a small file could then fill the "
            f"memory; if you trust the file, save the data as .npy"
        )


def check_texts(path: Path, longest: int, n_rows: int) -> None:
    """Reject texts that Python could not hold: a small file may store a long one once, or the same one many times."""
    if longest > LONGEST_TEXT:
        raise ValueError(f"{path} has a text of {longest:,} characters; a name or label may have {LONGEST_TEXT:,}")
    check_expansion(path, TEXT_BYTES * n_rows, path.stat().st_size)


def texts_of(path: Path, values: NDArray[Any]) -> list[str]:
    """Return the values of an array of texts or numbers as texts. Bytes are file names, or UTF-8."""
    if values.dtype.kind not in "biufSUM":
        raise ValueError(f"{path} has names or labels of type {values.dtype}: they must be numbers or texts")
    longest = {"S": values.itemsize, "U": values.itemsize // 4}.get(values.dtype.kind, 0)
    check_texts(path, longest, values.size)
    texts = values if longest else values.astype(str)
    try:
        return [os.fsdecode(text) if isinstance(text, bytes) else text for text in texts.tolist()]
    except SystemError as error:
        raise ValueError(f"{path} is damaged: it has texts with characters that do not exist") from error


def archive_keys(path: Path) -> list[str]:
    """Return the names of the arrays in a .npz file."""
    with _opened_archive(existing_file(path)) as archive:
        return list(archive)


def archived_names(path: Path, n_rows: int) -> list[str] | None:
    """Return the names of rows from the array "names" of a .npz file, or None if it has no such array."""
    with _opened_archive(existing_file(path)) as archive:
        names = archive[_NAMES]() if _NAMES in archive else None
    if names is None:
        return None
    if names.shape != (n_rows,) or names.dtype.kind not in "UiuS":
        raise ValueError(
            f"{path} has {counted(n_rows, 'rows')}, but its array {_NAMES} has shape {names.shape} and type "
            f"{names.dtype}: give a text or a whole number for each row, or remove the array"
        )
    return checked_names(texts_of(path, names), f"the array {_NAMES} of {path}")


def checked_names(names: list[str], where: str) -> list[str]:
    """Return the names of rows, after checking that none is empty and that no two are the same."""
    names = [plain_name(name) for name in names]
    if "" in names:
        n_empty = names.count("")
        raise ValueError(
            f"{where} lacks the names of {n_empty:,} of {counted(len(names), 'rows')}, the first in row "
            f"{names.index('')} (from 0): give each row a name"
        )
    if len(set(names)) < len(names):
        repeated = [repr(name) for name, n_rows in Counter(names).items() if n_rows > 1]
        raise ValueError(f"{where} names several rows {listed(repeated, most=3)}: give each row a name of its own")
    return names


def plain_name(name: str) -> str:
    """Return the name of a file as the library has it. Tables have "./" before names that a spreadsheet would run."""
    return name.removeprefix("./")


def check_finite(path: Path, X: NDArray[Any]) -> None:
    """Raise an error if the vectors of a file have no values, or if one of them is NaN or infinite."""
    if 0 in X.shape:
        raise ValueError(f"{path} has {X.shape[0]} rows and {X.shape[1]} columns: give at least one of each")
    if X.dtype.kind != "f":
        return
    n_rows = max(1, _BLOCK_VALUES // X.shape[1])
    for start in range(0, len(X), n_rows):
        finite = np.isfinite(X[start : start + n_rows])
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise ValueError(
                f"{path} has values that are NaN or infinite, the first in row {start + row}, column {column} (from "
                f"0): replace them, or remove their rows"
            )


@contextmanager
def _opened_archive(path: Path) -> Iterator[dict[str, Callable[[], NDArray[Any]]]]:
    """Open a .npz file, and provide for each array a function that reads it."""
    with _explained(path), open_regular(path) as file, ZipFile(file) as archive:
        stored = os.fstat(file.fileno()).st_size

        def read(member: ZipInfo) -> NDArray[Any]:
            if member.compress_type not in (ZIP_STORED, ZIP_DEFLATED):  # others expand far more, and slowly
                raise ValueError(f"{member.filename} is not compressed as NumPy does it")
            check_expansion(path, member.file_size, min(stored, member.compress_size))
            with archive.open(member) as content:
                array = read_npy(content, member.file_size)
                if content.read(1):  # reads to the end, where the checksum is compared
                    raise ValueError("there are more bytes after the array")
            return array

        yield {member.filename.removesuffix(".npy"): partial(read, member) for member in archive.infolist()}


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Name the file in errors about it; zipfile, zlib, struct and NumPy raise errors of their own."""
    try:
        yield
    except MemoryError as error:
        raise ValueError(f"{path} holds an array that does not fit in memory: use less data") from error
    except Exception as error:
        if (isinstance(error, OSError) and error.errno is not None) or str(path) in str(error):
            raise
        raise ValueError(f"{path} is damaged, or not an array that NumPy can read without pickle ({error})") from error


def _chosen_key(keys: list[str], key: str | None) -> str | None:
    if key is not None:
        return key if key in keys else None
    others = [name for name in keys if name != _NAMES]
    usual = others if len(others) == 1 else [name for name in _USUAL_NAMES if name in keys]
    return usual[0] if len(usual) == 1 else None


class ChunkedImages:
    """The images of a zarr or dask array, or of a memory map. One chunk is kept for the images that follow.

    A map is of a whole .npy file in C order. Its images are read from the file one at a time: if it is shortened
    meanwhile, an error is raised. With the map itself, the operating system would kill the process.
    """

    def __init__(self, images: Any) -> None:
        self.shape = tuple(images.shape)
        self.ndim = len(self.shape)
        n_images = len(self)
        if isinstance(images, np.memmap):
            table = (n_images, int(np.prod(self.shape[1:])))
            self._rows: Callable[[int, int], Any] = FileRows(str(images.filename), images.offset, table, images.dtype)
            self._ends = np.arange(1, n_images + 1)
        else:
            self._rows = lambda start, stop: images[start:stop]
            sizes = images.chunks[0]  # of zarr, a number
            per_chunk = [sizes] * -(-n_images // sizes) if isinstance(sizes, int) else sizes
            self._ends = np.minimum(np.cumsum(per_chunk), n_images)
        self._kept: tuple[int, Any] = (-1, None)
        self._reading = threading.Lock()

    def __len__(self) -> int:
        return int(self.shape[0])

    def __getitem__(self, number: int) -> NDArray[Any]:
        if not 0 <= number < len(self):
            raise IndexError(f"there is no image {number} of {len(self)}")
        chunk = int(np.searchsorted(self._ends, number, side="right"))
        start = int(self._ends[chunk - 1]) if chunk > 0 else 0
        with self._reading:  # threads that encode neighbouring images need the same chunk
            if self._kept[0] != chunk:
                read = np.asarray(self._rows(start, int(self._ends[chunk])))
                self._kept = (chunk, read.reshape(-1, *self.shape[1:]))
            return self._kept[1][number - start]
