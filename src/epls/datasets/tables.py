"""Vectors from CSV and Parquet tables."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.files import open_regular
from .arrays import check_expansion, existing_file

TABLES = (".csv", ".parquet")
_VALUE_BYTES = 8
_MOST_CSV_COLUMNS = 2**16  # pyarrow takes 13 kB for each, however few rows there are


def load_table(
    path: str | os.PathLike[str], drop: Sequence[str] = (), columns: Sequence[str] | None = None
) -> tuple[NDArray[np.float64] | NDArray[np.float32], list[str]]:
    """The numbers of a CSV or Parquet table, and the names of its columns.

    Parameters
    ----------
    path : path-like
        A .csv file whose first line has the names of the columns, 65,536 at most, or a .parquet file. Needs pyarrow.
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
    path = existing_file(path)
    try:
        import pyarrow as pa
        from pyarrow import csv, parquet
    except ImportError as error:
        raise ImportError(f'{path.suffix} files need pyarrow: pip install "epls[tables]"') from error
    try:
        if path.suffix.lower() == ".csv":
            _check_width(path)
            table = csv.read_csv(path)
            table = table.select(_chosen_columns(path, table.schema, drop, columns))
        else:
            with parquet.ParquetFile(path) as file:
                # Before anything is read: a text of many rows may be stored once.
                chosen = _chosen_columns(path, file.schema_arrow, drop, columns)
                check_expansion(path, file.metadata.num_rows * len(chosen) * _VALUE_BYTES, path.stat().st_size)
                table = file.read(columns=chosen).select(chosen)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a {path.suffix[1:]} table that can be read: {error}") from error
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


def _chosen_columns(path: Path, schema: Any, drop: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """The names of the columns to take, all of which hold numbers."""
    from pyarrow import types

    _check_names(path, schema.names)
    there = set(schema.names)
    if missing := [name for name in (*drop, *(columns or ())) if name not in there]:
        raise ValueError(f"{path} has no column {', '.join(missing)}; it has {', '.join(schema.names)}")
    chosen = [name for name in (schema.names if columns is None else columns) if name not in drop]
    kinds = dict(zip(schema.names, schema.types, strict=True))
    texts = [
        name
        for name in chosen
        if not (types.is_integer(kinds[name]) or types.is_floating(kinds[name]) or types.is_boolean(kinds[name]))
    ]
    if texts:
        raise ValueError(
            f"{path} has columns that are not numbers: {', '.join(texts)}. Leave them out with drop=[{texts[0]!r}] (on "
            f"the command line, --drop {texts[0]}), or turn them into numbers"
        )
    return chosen


def _check_width(path: Path) -> None:
    with open_regular(path) as file:
        n_columns = file.readline(2**24).count(b",") + 1
    if n_columns > _MOST_CSV_COLUMNS:
        raise ValueError(
            f"{path} has {n_columns:,} columns, and a .csv table may have {_MOST_CSV_COLUMNS:,}: save it as .parquet, "
            f"or the numbers as .npy"
        )


def _check_names(path: Path, names: list[str]) -> None:
    if twice := sorted(name for name, n_columns in Counter(names).items() if n_columns > 1):
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
