"""Write features to one file, with the names of their rows if any. An incomplete file never appears."""

from __future__ import annotations

import os
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
from .tables import require_pyarrow

_Names = Sequence[str] | None
_Rows = NDArray[np.float32]
_Write = Callable[[_Rows], Any]
_NAMES_AT_A_TIME = 4096
_GROUP_VALUES = 2**22  # in a row group of a Parquet file, which is built in memory and needs a few times 16 MB
#: Characters that start a formula in a spreadsheet. The last ones are full-width.
FORMULAS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


@contextmanager
def features_file(
    path: Path, shape: tuple[int, int], names: _Names = None, columns: _Names = None
) -> Iterator[Callable[[Any], None]]:
    """Provide a function that writes some rows of features. Call it until all rows of ``shape`` are written.

    The ending of the file determines the format. ``.npy`` holds the features alone; rows that have names are refused.
    ``.npz`` holds the arrays ``features`` and, if rows have names, ``names``. ``.csv`` and ``.parquet`` hold a table
    with a column for each feature, after the column ``file`` if rows have names. Names that are not valid UTF-8 are
    written as Python represents them, so ``os.fsencode`` recovers their bytes; if there is one, all names in
    ``.parquet`` are bytes.
    """
    check_ending(path, has_names=names is not None)
    if names is not None and len(names) != shape[0]:
        raise ValueError(f"{len(names)} names were given for {shape[0]} rows of features: give one for each")
    n_rows = 0
    columns = [f"feature{k}" for k in range(shape[1])] if columns is None else columns
    with atomic_file(path) as file, _WRITERS[path.suffix.lower()](file, shape, names, columns) as write:

        def write_rows(rows: Any) -> None:
            nonlocal n_rows
            n_rows += rows.shape[0]
            if n_rows <= shape[0]:  # otherwise an error follows below
                write(np.ascontiguousarray(rows.toarray() if sparse.issparse(rows) else rows, "<f4"))

        yield write_rows
        if n_rows != shape[0]:
            raise ValueError(f"{shape[0]} rows of features were expected, but {n_rows} were written")


def check_ending(path: Path, *, has_names: bool) -> None:
    """Reject a file name that features cannot be written to, before they are computed."""
    ending = path.suffix.lower()
    if ending not in _WRITERS:
        raise ValueError(f"features are written as {', '.join(_WRITERS)}: choose a name that ends in one of them")
    if has_names and ending == ".npy":
        raise ValueError(
            "each row belongs to a file, but a .npy file cannot hold the file names: choose a name that ends in "
            ".npz, .csv or .parquet"
        )
    if ending == ".parquet":
        require_pyarrow(ending)


def csv_name(name: str) -> str:
    """Return the name of a file as a quoted cell of a CSV table.

    A spreadsheet would run a name that begins with "=", "+", "-" or "@" as a formula. Such a name gets "./" in front:
    it still names the same file, and ``os.path.normpath`` recovers the original.
    """
    return csv_cell(("./" if name.startswith(FORMULAS) else "") + name)


def samples_table(names: _Names, key: str = "file", /, **columns: Sequence[str]) -> bytes:
    """Return a CSV table with a line for each sample: its name in the column ``key``, or else its number in "row"."""
    n_samples = len(next(iter(columns.values())))
    first = [str(number) for number in range(n_samples)] if names is None else map(csv_name, names)
    lines = [",".join(["row" if names is None else key, *columns])]
    lines += map(",".join, zip(first, *columns.values(), strict=True))
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def csv_cell(text: str) -> str:
    """Return a quoted cell of a CSV table. Some spreadsheets also split lines at semicolons; quotes prevent that."""
    return '"' + text.replace('"', '""') + '"'


@contextmanager
def _npy(file: BinaryIO, shape: tuple[int, int], names: _Names, columns: Sequence[str]) -> Iterator[_Write]:
    file.write(npy_header(shape))
    yield lambda rows: file.write(rows.tobytes())


@contextmanager
def _npz(file: BinaryIO, shape: tuple[int, int], names: _Names, columns: Sequence[str]) -> Iterator[_Write]:
    # Members carry no time stamp, so the same features give the same file.
    with ZipFile(file, "w") as archive:
        if names is not None:
            of_names = ZipInfo("names.npy")
            of_names.compress_type = ZIP_DEFLATED  # every name takes as much room as the longest
            with archive.open(of_names, "w", force_zip64=True) as member:
                _write_names(member.write, names)
        with archive.open(ZipInfo("features.npy"), "w", force_zip64=True) as member:
            member.write(npy_header(shape))
            yield lambda rows: member.write(rows.tobytes())


def _write_names(write: Callable[[bytes], Any], names: Sequence[str]) -> None:
    kind = f"<U{max(1, max(map(len, names)))}"
    write(npy_header((len(names),), kind))
    for start in range(0, len(names), _NAMES_AT_A_TIME):
        some: NDArray[Any] = np.array(names[start : start + _NAMES_AT_A_TIME], kind)
        write(some.tobytes())


@contextmanager
def _csv(file: BinaryIO, shape: tuple[int, int], names: _Names, columns: Sequence[str]) -> Iterator[_Write]:
    first = [] if names is None else ["file"]
    file.write((",".join([*first, *map(_csv_header, columns)]) + "\n").encode("utf-8", "surrogateescape"))
    cells = None if names is None else map(csv_name, names)

    def write(rows: _Rows) -> None:
        for row in rows.astype(str):  # with enough digits to identify each number
            name = [] if cells is None else [next(cells)]
            file.write((",".join([*name, *row]) + "\n").encode("utf-8", "surrogateescape"))

    yield write


def _csv_header(column: str) -> str:
    """Return the name of a column. A name from an untrusted model that a spreadsheet would run is turned into text."""
    guarded = ("'" if column.startswith(FORMULAS) else "") + column.replace('"', '""')
    return guarded if guarded.isidentifier() else f'"{guarded}"'


@contextmanager
def _parquet(file: BinaryIO, shape: tuple[int, int], names: _Names, columns: Sequence[str]) -> Iterator[_Write]:
    pa = require_pyarrow(".parquet")
    fields = [(column, pa.float32()) for column in columns]
    cells: Sequence[Any] = []
    if names is not None:
        valid = all(name.isascii() or _is_utf8(name) for name in names)
        fields.insert(0, ("file", pa.string() if valid else pa.binary()))
        cells = names if valid else [os.fsencode(name) for name in names]
    schema = pa.schema(fields)
    waiting: list[_Rows] = []
    n_written = 0

    def write_group() -> None:
        nonlocal n_written
        rows = np.concatenate(waiting)
        arrays = list(np.ascontiguousarray(rows.T))
        if names is not None:
            arrays.insert(0, pa.array(cells[n_written : n_written + len(rows)], schema.field(0).type))
        writer.write_table(pa.Table.from_arrays([pa.array(array) for array in arrays], schema=schema))
        n_written += len(rows)
        waiting.clear()

    def write(rows: _Rows) -> None:
        waiting.append(rows)
        if sum(map(len, waiting)) * shape[1] >= _GROUP_VALUES:
            write_group()

    with pa.parquet.ParquetWriter(file, schema) as writer:
        yield write
        if waiting:
            write_group()


def _is_utf8(name: str) -> bool:
    return not any("\ud800" <= letter <= "\udfff" for letter in name)


_WRITERS: dict[str, Callable[[BinaryIO, tuple[int, int], _Names, Sequence[str]], AbstractContextManager[_Write]]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv,
    ".parquet": _parquet,
}
