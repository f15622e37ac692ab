"""Vectors from CSV and Parquet tables, and which of their columns are no use for learning."""

from __future__ import annotations

import codecs
import csv
import io
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..utils.files import existing_file, open_regular
from ..utils.optional import require
from ..utils.wording import listed
from .arrays import check_expansion, check_texts, checked_names

TABLES = (".csv", ".parquet")
_TEXTS, _NUMBERS = ("string", "large_string", "binary"), ("integer", "floating", "boolean")  # types of pyarrow
_VALUE_BYTES = 8
_MOST_CSV_COLUMNS = 2**16  # pyarrow needs 13 kB for each column, even with few rows
_FIRST_BLOCK = 2**20  # bytes, in which pyarrow finds the names of the columns
_FEWEST_ROWS = 10  # a few numbers can all differ by chance
_LABELS = {"label", "labels", "class", "classes", "target", "targets", "y", "category", "outcome"}
_IDENTIFIERS = {"id", "ids", "uid", "uuid", "guid", "index", "idx", "row", "key"}
#: Columns with the names of rows, the first that is there. The last two are what pandas makes of an unnamed index.
_NAMES = ("file", "filename", "file_name", "path", "file_path", "filepath", "name", "id", "", "__index_level_0__")


class Table(NamedTuple):
    """The numbers of a table, and the names of its columns and rows."""

    X: NDArray[np.float64] | NDArray[np.float32]  # (n_rows, n_columns)
    columns: list[str]
    names: list[str] | None  # of rows, each different
    key: str | None  # the column that holds them
    left_out: list[str]  # columns that are neither


def load_table(
    path: str | os.PathLike[str],
    drop: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    *,
    only_features: bool = False,
    preferred: Sequence[str] = (),
) -> Table:
    """Load the numbers of a CSV or Parquet table, and the names of its columns and rows.

    Names of rows are in the first of these columns, unless it is dropped or chosen: file, filename, file_name, path,
    file_path, filepath, name, id, and an index that pandas wrote. They are texts or whole numbers.

    Parameters
    ----------
    path : path-like
        A .csv file whose first line names the columns, at most 65,536, or a .parquet file. Needs pyarrow.
    drop : sequence of str
        Columns to leave out, such as labels and names.
    columns : sequence of str or None, default=None
        The columns to load, in this order. By default, all columns.
    only_features : bool, default=False
        Whether columns that are not numbers, or whose names suggest labels, are left out. By default, all others than
        the names of rows must be numbers.
    preferred : sequence of str
        The columns to load if the table has all of them.

    Returns
    -------
    Table
        The numbers, without missing values: float32 if all columns are float32, otherwise float64.
    """
    path = existing_file(path)
    key, left_out = None, []

    def choose(schema: Any) -> list[str]:
        nonlocal key, left_out, columns
        columns = preferred if preferred and set(preferred) <= set(schema.names) else columns
        key = name_column([name for name in schema.names if name not in {*drop, *(columns or ())}])
        if key is not None and not _may_name_rows(schema.field(key).type):
            key = None
        if only_features and columns is None:
            left_out = [
                name for name in schema.names
                if name != key and (is_label_name(name) or not _is_one_of(schema.field(name).type, *_NUMBERS))
            ]  # fmt: skip
        chosen = _chosen_columns(path, schema, drop, columns, {*left_out, key})
        return chosen if key is None else [*chosen, key]

    table = read_columns(path, choose)
    from pyarrow import float32, float64

    names = None if key is None else _names_of_rows(path, table, key)
    table = table if key is None else table.drop_columns(key)
    single = all(field.type == float32() for field in table.schema)
    X = np.empty((table.num_rows, table.num_columns), np.float32 if single else np.float64)
    for number, column in enumerate(table.columns):
        X[:, number] = column.cast(float32() if single else float64(), safe=False).to_numpy()
    n_bad = np.sum(~np.isfinite(X), axis=0)
    if bad := [f"{name} ({n})" for name, n in zip(table.column_names, n_bad, strict=True) if n]:
        raise ValueError(f"{path} has values that are missing or infinite: {listed(bad)}. Fill or drop them")
    return Table(X, list(table.column_names), names, key, left_out)


def name_column(columns: Sequence[str]) -> str | None:
    """Return the column of a table that holds the names of its rows, going by the names of all columns."""
    known = {column.strip().lower(): column for column in reversed(columns)}
    return next((known[name] for name in _NAMES if name in known), None)


def _names_of_rows(path: Path, table: Any, key: str) -> list[str]:
    """Return the names of rows. Those of a .csv file are texts as they stand there: "007" is not 7."""
    from pyarrow import binary, types
    from pyarrow.csv import ConvertOptions, read_csv

    if path.suffix.lower() == ".csv" and not types.is_string(table[key].type):
        as_text = ConvertOptions(include_columns=[key], column_types={key: binary()})
        table = read_csv(path, convert_options=as_text)
    where = f"the column {key!r} of {path}"
    try:
        return checked_names(column_texts(path, table, key), where)
    except ValueError as error:
        advice = f"leave the column out (on the command line, --drop {shlex.quote(key)})"
        raise ValueError(f"{error}, or {advice}") from error


def column_texts(path: Path, table: Any, name: str) -> list[str]:
    """Return the values of a column of a pyarrow table; missing ones are empty. What many rows share is kept once.

    Bytes that are not UTF-8 are kept as Python represents them.
    """
    from pyarrow import ArrowException, string, types

    check_texts(path, 0, table.num_rows)
    column = table[name]
    try:
        if not types.is_dictionary(column.type):
            column = (column if _is_one_of(column.type, *_TEXTS) else column.cast(string())).dictionary_encode()
        column = column.unify_dictionaries().combine_chunks()
        values = column.dictionary
        values = values if _is_one_of(values.type, *_TEXTS) else values.cast(string())
        texts = [value.decode(errors="surrogateescape") if isinstance(value, bytes) else value or ""
                 for value in values.to_pylist()]  # fmt: skip
        check_texts(path, max(map(len, texts), default=0), table.num_rows)
        texts.append("")
        return [texts[index] for index in column.indices.fill_null(-1).to_pylist()]
    except ArrowException as error:
        raise ValueError(
            f"the column {name} of {path} has values of type {table[name].type}: they must be numbers or texts"
        ) from error


def read_columns(path: Path, choose: Callable[[Any], Sequence[str]]) -> Any:
    """Read some columns of a .csv or .parquet file as a pyarrow table.

    ``choose`` returns the names of the columns, given the schema of the file, whose names have been checked.
    """
    pa = require_pyarrow(path.suffix)
    try:
        if path.suffix.lower() == ".csv":
            _check_width(path)
            table = pa.csv.read_csv(path)
            _check_table(path, table.column_names, table.num_rows)
            return table.select(choose(table.schema))
        with pa.parquet.ParquetFile(path) as file:
            schema = file.schema_arrow  # made anew by each access, which takes long for many columns
            _check_table(path, schema.names, file.metadata.num_rows)
            chosen = choose(schema)
            # Before reading: a value that many rows share may be stored only once.
            # Those of single columns are not asked for: pyarrow ends the process if their metadata are damaged.
            groups = (file.metadata.row_group(number) for number in range(file.metadata.num_row_groups))
            unpacked = sum(group.total_byte_size for group in groups)
            n_bytes = max(file.metadata.num_rows * len(chosen) * _VALUE_BYTES, unpacked)
            check_expansion(path, n_bytes, path.stat().st_size)
            texts = [name for name in chosen if _is_one_of(schema.field(name).type, *_TEXTS)]
        with pa.parquet.ParquetFile(path, read_dictionary=texts) as file:  # keeps one copy of a text that rows share
            return file.read(columns=chosen).select(chosen)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} has text that is not UTF-8 ({error}): save it as UTF-8") from error
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the file could not be opened; pyarrow's own have no number
            raise
        reason = " ".join(str(error).split())
        raise ValueError(f"{path} is not a {path.suffix[1:]} table that can be read: {reason}") from error


def require_pyarrow(ending: str) -> Any:
    """Return pyarrow with its modules csv and parquet, or raise an error that says how to install it."""
    for module in ("pyarrow.csv", "pyarrow.parquet"):
        require(module, "tables", f"a {ending} file")
    return import_module("pyarrow")


def _chosen_columns(
    path: Path, schema: Any, drop: Sequence[str], columns: Sequence[str] | None, others: set[Any]
) -> list[str]:
    """Return the names of the columns to load, after checking that all of them hold numbers."""
    there, left_out = set(schema.names), {*drop, *others}
    if missing := [name for name in (*drop, *(columns or ())) if name not in there]:
        similar = get_close_matches(missing[0], schema.names, n=1)
        meant = f" (did you mean {similar[0]}?)" if similar else ""
        raise ValueError(
            f"{path} has no column {listed(missing)}{meant}; it has {listed(schema.names)}"
            f"{delimiter_hint(schema.names)}"
        )
    chosen = [name for name in (schema.names if columns is None else columns) if name not in left_out]
    if not chosen:
        given = f", because drop leaves out all {len(schema.names)}: drop fewer" if drop else ": add some to the table"
        raise ValueError(f"no columns of {path} are left{given}")
    if texts := [name for name in chosen if not _is_one_of(schema.field(name).type, *_NUMBERS)]:
        raise ValueError(
            f"{path} has columns that are not numbers: {listed(texts)}. Leave them out with drop=[{texts[0]!r}] (on "
            f"the command line, --drop {shlex.quote(texts[0])}), or "
            f"turn them into numbers{delimiter_hint(schema.names)}"
        )
    return chosen


def _is_one_of(kind: Any, *names: str) -> bool:
    """Return whether a type of pyarrow is one of these, going by its functions ``is_NAME``."""
    from pyarrow import types

    return any(getattr(types, f"is_{name}")(kind) for name in names)


def _may_name_rows(kind: Any) -> bool:
    """Return whether names of rows can be of this type: texts, whole numbers, or what was taken for dates."""
    from pyarrow import types

    return _is_one_of(kind.value_type if types.is_dictionary(kind) else kind, *_TEXTS, "integer", "temporal")


def _check_width(path: Path) -> None:
    with open_regular(path) as file:
        content = file.read(_FIRST_BLOCK)
    check_encoding(path, content)
    # Of lines, pyarrow skips empty ones; names of columns may hold line ends.
    lines = csv.reader(io.StringIO(content.decode("latin-1"), newline=""))
    try:
        n_columns = len(next(filter(None, lines), []))
    except csv.Error as error:
        raise ValueError(f"the names of the columns of {path} cannot be read ({error})") from error
    if n_columns > _MOST_CSV_COLUMNS:
        raise ValueError(
            f"{path} has {n_columns:,} columns; a .csv table may have at most {_MOST_CSV_COLUMNS:,}: save it as "
            f".parquet, or the numbers as .npy"
        )


def check_encoding(path: Path, content: bytes) -> None:
    """Raise an error if a .csv file is UTF-16, as some spreadsheets save it."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise ValueError(f"{path} is UTF-16 text: save it as UTF-8")


def _check_table(path: Path, names: list[str], n_rows: int) -> None:
    if twice := sorted(name for name, n_columns in Counter(names).items() if n_columns > 1):
        raise ValueError(
            f"{path} has several columns called {listed(list(map(repr, twice)))}: rename all but one of them"
        )
    if names and all(is_number(name) for name in names):
        raise ValueError(
            f"the first line of {path} must hold the names of the columns, but holds numbers: {', '.join(names[:3])} "
            f"and so on. Add a line of names"
        )
    if n_rows == 0:
        raise ValueError(f"{path} has no rows below the names of its columns: give a table with at least one")


def is_number(text: str) -> bool:
    """Return whether Python reads a text as a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def delimiter_hint(names: Sequence[str]) -> str:
    """Return advice for the end of an error message, if a table has other delimiters than commas; otherwise nothing."""
    other = len(names) == 1 and any(delimiter in names[0] for delimiter in ";\t")
    return " (are its values separated by semicolons or tabs? Use commas)" if other else ""


def doubtful_columns(X: NDArray[Any], names: Sequence[str]) -> dict[str, list[str]]:
    """Find the columns of X that do not look like measurements, grouped by what they look like.

    "label": columns with a name such as label, class, target or y. "identifier": columns with a name such as id, or
    with whole numbers that are all different. "constant": columns with a single value. Each column is listed once.
    """
    found: dict[str, list[str]] = {"label": [], "identifier": [], "constant": []}
    for name, values in zip(names, X.T, strict=True):
        whole, last = _words(name)
        if is_label_name(name):
            found["label"].append(name)
        elif len(values) > 1 and (values == values[0]).all():
            found["constant"].append(name)
        elif whole in _IDENTIFIERS or last == "id" or whole.startswith("unnamed") or _are_numbers_of_rows(values):
            found["identifier"].append(name)
    return {kind: columns for kind, columns in found.items() if columns}


def is_label_name(name: str) -> bool:
    """Return whether the name of a column suggests that it holds labels: Class and true_label do, classic doesn't."""
    whole, last = _words(name)
    return whole in _LABELS or last in _LABELS - {"y"}


def _words(name: str) -> tuple[str, str]:
    """Return a name in lower case, and its last word: "id" for patientId and patient_id."""
    words = re.findall("[A-Z]?[a-z]+|[A-Z]+|[0-9]+", name)
    return name.strip().lower(), words[-1].lower() if words else ""


def _are_numbers_of_rows(values: NDArray[Any]) -> bool:
    """Return whether all values are whole numbers and all are different."""
    if len(values) < _FEWEST_ROWS or not (values == np.rint(values)).all():
        return False
    return len(np.unique(values)) == len(values)
