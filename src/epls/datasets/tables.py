"""Vectors from CSV and Parquet tables."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.files import open_regular
from .arrays import check_expansion, existing_file
from .columns import is_label_name, listed

TABLES = (".csv", ".parquet")
_VALUE_BYTES = 8
_MOST_CSV_COLUMNS = 2**16  # pyarrow needs 13 kB for each column, even with few rows


def load_table(
    path: str | os.PathLike[str], drop: Sequence[str] = (), columns: Sequence[str] | None = None
) -> tuple[NDArray[np.float64] | NDArray[np.float32], list[str]]:
    """Load the numbers of a CSV or Parquet table, and the names of its columns.

    Parameters
    ----------
    path : path-like
        A .csv file whose first line names the columns, at most 65,536, or a .parquet file. Needs pyarrow.
    drop : sequence of str
        Columns to leave out, such as labels and names.
    columns : sequence of str or None, default=None
        The columns to load, in this order. By default, all columns.

    Returns
    -------
    X : ndarray of shape (n_rows, n_columns)
        The numbers, without missing values: float32 if all columns are float32, otherwise float64.
    names : list of str
        The names of the columns.
    """
    path = existing_file(path)
    pa, csv, parquet = _pyarrow(path)
    try:
        if path.suffix.lower() == ".csv":
            _check_width(path)
            table = csv.read_csv(path)
            table = table.select(_chosen_columns(path, table.schema, drop, columns))
        else:
            with parquet.ParquetFile(path) as file:
                # Before reading: a text that many rows share may be stored only once.
                chosen = _chosen_columns(path, file.schema_arrow, drop, columns)
                check_expansion(path, file.metadata.num_rows * len(chosen) * _VALUE_BYTES, path.stat().st_size)
                table = file.read(columns=chosen).select(chosen)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a {path.suffix[1:]} table that can be read: {error}") from error
    if table.num_columns == 0 or table.num_rows == 0:
        raise ValueError(
            f"{path} has {table.num_rows} rows and {table.num_columns} columns of numbers: at least one of each is "
            f"needed"
        )
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
        raise ValueError(f"{path} has values that are missing or infinite: {listed(bad)}. Fill or drop them")
    return X, list(table.column_names)


def load_labels(path: str | os.PathLike[str], column: str | None = None) -> tuple[NDArray[Any], str]:
    """Load the labels in a column of a table, numbers or texts, and the name of the column.

    Parameters
    ----------
    path : path-like
        A .csv or .parquet file, as for :func:`load_table`.
    column : str or None, default=None
        The column. None uses the only column, or the only one whose name suggests labels, such as "label" or "class".
    """
    path = existing_file(path)
    pa, csv, parquet = _pyarrow(path)
    is_csv = path.suffix.lower() == ".csv"
    try:
        if is_csv:
            _check_width(path)
            table = csv.read_csv(path)
            names = table.column_names
        else:
            names = parquet.read_schema(path).names
        _check_names(path, names)
        column = _label_column(path, names, column)
        if not is_csv:
            with parquet.ParquetFile(path) as file:
                check_expansion(path, file.metadata.num_rows * _VALUE_BYTES, path.stat().st_size)
                table = file.read(columns=[column])
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a {path.suffix[1:]} table that can be read: {error}") from error
    labels = table[column]
    if labels.null_count:
        raise ValueError(f"{path} has {labels.null_count} rows without {column}: fill or remove them")
    if not (pa.types.is_integer(labels.type) or pa.types.is_boolean(labels.type)):
        labels = labels.cast(pa.string())
    return np.asarray(labels.to_numpy()), column


def _pyarrow(path: Path) -> tuple[Any, Any, Any]:
    """Return the library and the function that reads this kind of table."""
    try:
        import pyarrow
        from pyarrow import csv, parquet
    except ImportError as error:
        raise ImportError(f'{path.suffix} files need pyarrow: pip install "epls[tables]"') from error
    return pyarrow, csv, parquet


def _label_column(path: Path, names: list[str], column: str | None) -> str:
    if column is not None:
        if column not in names:
            raise ValueError(f"{path} has no column {column}; it has {listed(names)}")
        return column
    found = names if len(names) == 1 else [name for name in names if is_label_name(name)]
    if len(found) != 1:
        raise ValueError(f"which column of {path} has the labels? It has {listed(names)}. Name one")
    return found[0]


def _chosen_columns(path: Path, schema: Any, drop: Sequence[str], columns: Sequence[str] | None) -> list[str]:
    """Return the names of the columns to load, after checking that all of them hold numbers."""
    from pyarrow import types

    _check_names(path, schema.names)
    there = set(schema.names)
    if missing := [name for name in (*drop, *(columns or ())) if name not in there]:
        similar = get_close_matches(missing[0], schema.names, n=1)
        meant = f" (did you mean {similar[0]}?)" if similar else ""
        raise ValueError(f"{path} has no column {listed(missing)}{meant}; it has {listed(schema.names)}")
    chosen = [name for name in (schema.names if columns is None else columns) if name not in drop]
    kinds = dict(zip(schema.names, schema.types, strict=True))
    texts = [
        name
        for name in chosen
        if not (types.is_integer(kinds[name]) or types.is_floating(kinds[name]) or types.is_boolean(kinds[name]))
    ]
    if texts:
        raise ValueError(
            f"{path} has columns that are not numbers: {listed(texts)}. Leave them out with drop=[{texts[0]!r}] (on "
            f"the command line, --drop {texts[0]}), or turn them into numbers"
        )
    return chosen


def _check_width(path: Path) -> None:
    with open_regular(path) as file:
        n_columns = file.readline(2**24).count(b",") + 1
    if n_columns > _MOST_CSV_COLUMNS:
        raise ValueError(
            f"{path} has {n_columns:,} columns; a .csv table may have at most {_MOST_CSV_COLUMNS:,}: save it as "
            f".parquet, or the numbers as .npy"
        )


def _check_names(path: Path, names: list[str]) -> None:
    if twice := sorted(name for name, n_columns in Counter(names).items() if n_columns > 1):
        raise ValueError(
            f"{path} has several columns called {listed(list(map(repr, twice)))}: rename all but one of them"
        )
    if names and all(_is_number(name) for name in names):
        raise ValueError(
            f"the first line of {path} must hold the names of the columns, but holds numbers: {', '.join(names[:3])} "
            f"and so on. Add a line of names"
        )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
