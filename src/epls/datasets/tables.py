"""Vectors from files: NumPy arrays, CSV and Parquet tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TABLES = (".csv", ".parquet")
ARRAYS = (".npy", ".npz")


def load_array(path: str | os.PathLike[str], key: str | None = None) -> NDArray[Any]:
    """The array of a .npy file, as a memory map, or one array of a .npz file.

    Parameters
    ----------
    path : path-like
        The file.
    key : str or None, default=None
        The array's name in a .npz file; not needed where it has only one, or one that is called "X" or "images".

    Returns
    -------
    ndarray
        The array, of any shape.
    """
    path = _existing(path)
    try:
        if path.suffix.lower() == ".npy":
            return np.load(path, mmap_mode="r", allow_pickle=False)
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            chosen = _chosen_key(archive.files, key)
            if chosen is not None:
                return np.asarray(archive[chosen])
            names = ", ".join(archive.files)
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        # zipfile, struct and NumPy have errors of their own for damaged files.
        raise ValueError(f"{path} is damaged, or not an array that NumPy can read without pickle ({error})") from error
    raise ValueError(f"{path} holds the arrays {names}: say which one with key (on the command line, --key)")


def load_table(
    path: str | os.PathLike[str], drop: Sequence[str] = (), columns: Sequence[str] | None = None
) -> tuple[NDArray[np.float64] | NDArray[np.float32], list[str]]:
    """The numbers of a CSV or Parquet table, and the names of its columns.

    Parameters
    ----------
    path : path-like
        A .csv file whose first line has the names of the columns, or a .parquet file. Needs pyarrow.
    drop : sequence of str
        Columns to leave out, such as labels and names.
    columns : sequence of str or None, default=None
        The columns to take, in this order; by default all.

    Returns
    -------
    X : ndarray of shape (n_rows, n_columns)
        The numbers; float32 if all columns are, else float64. None is missing.
    names : list of str
        The names.
    """
    path = _existing(path)
    try:
        import pyarrow as pa
        from pyarrow import csv, parquet
    except ImportError as error:
        raise ImportError(f'{path.suffix} files need pyarrow: pip install "epls[tables]"') from error
    try:
        table = csv.read_csv(path) if path.suffix.lower() == ".csv" else parquet.read_table(path)
        names = table.column_names
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a {path.suffix[1:]} table that can be read: {error}") from error
    _check_names(path, names)
    if missing := [name for name in (*drop, *(columns or ())) if name not in table.column_names]:
        raise ValueError(f"{path} has no column {', '.join(missing)}; it has {', '.join(table.column_names)}")
    table = table.drop_columns(list(drop))
    if columns is not None:
        table = table.select(list(columns))
    texts = [
        field.name
        for field in table.schema
        if not (pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_boolean(field.type))
    ]
    if texts:
        raise ValueError(
            f"{path} has columns that are not numbers: {', '.join(texts)}. Leave them out with drop=[{texts[0]!r}] (on "
            f"the command line, --drop {texts[0]}), or turn them into numbers"
        )
    if table.num_columns == 0 or table.num_rows == 0:
        raise ValueError(f"{path} has {table.num_rows} rows and {table.num_columns} columns of numbers: nothing to use")
    single = all(field.type == pa.float32() for field in table.schema)
    X = np.empty((table.num_rows, table.num_columns), np.float32 if single else np.float64)
    for number, column in enumerate(table.columns):
        X[:, number] = column.cast(pa.float64() if not single else pa.float32(), safe=False).to_numpy()
    if not np.isfinite(X).all():
        bad = [
            f"{name} ({n_bad})"
            for name, n_bad in zip(table.column_names, np.sum(~np.isfinite(X), axis=0), strict=True)
            if n_bad
        ]
        raise ValueError(f"{path} has values that are missing or infinite: {', '.join(bad)}. Fill or drop them")
    return X, list(table.column_names)


def _check_names(path: Path, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        called = ", ".join(map(repr, twice))
        raise ValueError(f"{path} has several columns called {called}: give each a name of its own")
    if names and all(_is_number(name) for name in names):
        raise ValueError(
            f"the first line of {path} holds numbers, {', '.join(names[:3])} and so on, where the names of the columns "
            f"are expected: add a line of names"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _chosen_key(keys: list[str], key: str | None) -> str | None:
    if key is not None:
        return key if key in keys else None
    usual = keys if len(keys) == 1 else [name for name in ("X", "images") if name in keys]
    return usual[0] if len(usual) == 1 else None


def _existing(path: str | os.PathLike[str]) -> Path:
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}")
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    return path
