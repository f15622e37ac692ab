"""Features written to one file, with the names of their rows if they have some: complete, or not there at all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from ..utils.files import atomic_file
from ..utils.npy import npy_header

_Names = Sequence[str] | None
_Write = Callable[[bytes], Any]
_NAMES_AT_A_TIME = 4096


@contextmanager
def features_file(path: Path, shape: tuple[int, int], names: _Names = None) -> Iterator[Callable[[Any], None]]:
    """Give a function that writes some rows of features; it is called until all are written.

    Parameters
    ----------
    path : Path
        The file. Its ending says how it is written:

        - ``.npy`` holds the features alone; rows that have names are refused.
        - ``.npz`` holds the arrays ``features`` and, if rows have names, ``names``. ``numpy.load`` reads both.
    shape : (n_rows, n_features)
        Of all rows.
    names : sequence of str or None, default=None
        A name for each row: that of the file that an image was read from. Any file name is kept as it is; where it is
        not valid UTF-8, as Python writes it, so that ``os.fsencode`` returns its bytes.

    Raises
    ------
    ValueError
        If the ending is not known, if names have no place, or if the rows written are not as many as promised.
    """
    check_ending(path, has_names=names is not None)
    n_rows = 0
    with atomic_file(path) as file, _WRITERS[path.suffix.lower()](file, shape, names) as write:

        def write_rows(rows: Any) -> None:
            nonlocal n_rows
            n_rows += rows.shape[0]
            write(np.asarray(rows.toarray() if sparse.issparse(rows) else rows, "<f4").tobytes())

        yield write_rows
        if n_rows != shape[0] or (names is not None and len(names) != n_rows):
            raise ValueError(f"{shape[0]} rows of features were expected, and {n_rows} were made")


def check_ending(path: Path, *, has_names: bool) -> None:
    """Refuse a file name that features cannot be written under, before they are computed."""
    ending = path.suffix.lower()
    if ending not in _WRITERS:
        raise ValueError(f"features are written as {' or '.join(_WRITERS)}, so give a name that ends in one of them")
    if has_names and ending == ".npy":
        raise ValueError(
            "each row belongs to a file, and .npy has no room for the names of these files: give a name that ends in "
            ".npz"
        )


@contextmanager
def _npy(file: BinaryIO, shape: tuple[int, int], names: _Names) -> Iterator[_Write]:
    file.write(npy_header(shape))
    yield file.write


@contextmanager
def _npz(file: BinaryIO, shape: tuple[int, int], names: _Names) -> Iterator[_Write]:
    # Members carry no time, so that the same features are the same file.
    with ZipFile(file, "w") as archive:
        if names is not None:
            of_names = ZipInfo("names.npy")
            of_names.compress_type = ZIP_DEFLATED  # every name takes the room of the longest
            with archive.open(of_names, "w", force_zip64=True) as member:
                _write_names(member.write, names)
        with archive.open(ZipInfo("features.npy"), "w", force_zip64=True) as member:
            member.write(npy_header(shape))
            yield member.write


def _write_names(write: _Write, names: Sequence[str]) -> None:
    kind = f"<U{max(1, max(map(len, names)))}"
    write(npy_header((len(names),), kind))
    for start in range(0, len(names), _NAMES_AT_A_TIME):
        some: NDArray[Any] = np.array(names[start : start + _NAMES_AT_A_TIME], kind)
        write(some.tobytes())


_WRITERS: dict[str, Callable[[BinaryIO, tuple[int, int], _Names], AbstractContextManager[_Write]]] = {
    ".npy": _npy,
    ".npz": _npz,
}
