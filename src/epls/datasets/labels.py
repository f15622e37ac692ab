"""Labels of samples, given by people or predicted: from a file of their own, or from the file of the samples."""

from __future__ import annotations

import csv
import io
import math
import os
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.files import existing_file, open_regular
from ..utils.wording import counted, listed
from .arrays import archive_keys, load_array, plain_name, texts_of
from .tables import (
    TABLES,
    check_encoding,
    column_texts,
    delimiter_hint,
    is_label_name,
    is_number,
    name_column,
    read_columns,
)
from .writing import FORMULAS, csv_cell, samples_table

LABEL_FILES = (".npy", *TABLES)
GIVEN, PREDICTED = "given", "predicted"
_COLUMNS = ("file", "row", "label", "confidence", "source")
_ARRAYS = ("labels", "y")  # of labels in a .npz file
_LARGEST = 2**28  # bytes
_LONGEST_LINE = 2**20  # characters
_ROWS_OF_SAMPLE, _MORE_ROWS = 10, 1000  # a sample may have the same label several times; lines may be empty
_LONGEST_LABEL = 200  # characters
_N_NAMED = 3


@dataclass(frozen=True)
class Label:
    """The label of a sample: the name of its class."""

    label: str
    confidence: float = 1.0  # the probability that it is correct
    given: bool = True  # by a person, not by a classifier


def read_labels(
    path: str | os.PathLike[str], names: Sequence[str] | None, n_samples: int, where: object
) -> list[Label | None]:
    """Return the label of each sample, or None for those without one, from a .csv, .parquet or .npy file.

    A table has a column "label", or one other whose name suggests labels. Its column "file", or another that
    :func:`epls.datasets.tables.name_column` knows, has the names of samples, or its column "row" their numbers from 0,
    which are also the names of samples that have no others; without these columns, labels are in the order of the
    samples, as in an array.
    There may be "confidence" and "source", as written by `epls classify`. A .csv file is UTF-8; file names that are
    not are kept as Python represents them. ``where`` tells in messages what the samples are from.
    """
    path = existing_file(path)
    lines = _lines(path, n_samples)
    header = next(lines)
    columns = _known_columns(path, header)
    key = "file" if "file" in columns and (names is not None or "row" not in columns) else "row"
    if key == "file" and names is None and "file" in _plain(header):
        raise ValueError(
            f"{path} has labels of files, by its column file, but {where} has samples without names: give a table with "
            f"the columns row, which counts the samples from 0, and label"
        )
    numbered = key == "row" or names is None
    if names is None or numbered:
        names = [str(number) for number in range(n_samples)]
    found: dict[str, Label] = {}
    n_lines = 0
    for number, row in enumerate(lines, 2):
        if not row or (len(header) > 1 and not any(map(str.strip, row))):
            continue
        if len(row) != len(header):
            raise ValueError(
                f"line {number} of {path} has {counted(len(row), 'values')}, but the first line names {len(header)} "
                f"columns: use one value per column, or remove the line"
            )
        cells = dict(zip(columns, row, strict=True))
        name = cells.get(key, str(n_lines))
        name, n_lines = _number(name) if numbered else plain_name(name), n_lines + 1
        label = _label_of(cells, f"line {number} of {path}")
        if label is not None and found.setdefault(name, label).label != label.label:
            raise ValueError(
                f"{path} has two labels for {name!r}, {found[name].label!r} and {label.label!r}: remove one of them"
            )
    if key not in columns and n_lines != n_samples:
        raise ValueError(
            f"{path} has {counted(n_lines, 'labels')} in the order of the samples, but {where} has {n_samples:,}: give "
            f"one for each, or name the samples in a column file, or row"
        )
    there = set(names)
    if unknown := [name for name in found if name not in there]:
        named = listed([repr(name) for name in unknown], most=_N_NAMED)
        raise ValueError(
            f"{len(unknown)} of {len(found)} labelled samples are not in {where}: {named}. Its samples have "
            f"names such as {', '.join(map(repr, names[:2]))}: use the same names, or remove these lines"
            f"{'' if key == 'row' else f' (names are in the column {header[columns.index(key)]!r})'}"
        )
    return [found.get(name) for name in names]


def _lines(path: Path, n_samples: int) -> Iterator[Sequence[str]]:
    """Yield the cells of each line, from the one that names the columns."""

    def check(n_rows: int) -> None:
        if n_rows > _MORE_ROWS + _ROWS_OF_SAMPLE * n_samples:
            raise ValueError(
                f"{path} has {n_rows:,} rows or more for {counted(n_samples, 'samples')}: give one for each"
            )

    ending = path.suffix.lower()
    if ending == ".npy":
        values = load_array(path)
        check(values.size)
        yield from (["label"], *([text] for text in _array_texts(values, path)))
    elif ending == ".parquet":
        table = read_columns(path, lambda schema: _used_columns(path, schema.names))
        check(table.num_rows)
        cells = [column_texts(path, table, name) for name in table.column_names]
        yield from (table.column_names, *zip(*cells, strict=True))
    else:
        for number, line in enumerate(_csv_lines(path)):
            check(number)
            yield line


def _csv_lines(path: Path) -> Iterator[Sequence[str]]:
    with open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > _LARGEST:
            raise ValueError(
                f"{path} has more than {_LARGEST:,} bytes, too many for a table of labels: give another file"
            )
        check_encoding(path, file.read(2))
        file.seek(0)
        text = io.TextIOWrapper(file, "utf-8-sig", "surrogateescape", newline="")
        lines = csv.reader(iter(partial(_line, text, path), ""), strict=True)
        try:
            first = next(lines, [])
            if first == ["sep=", ""]:  # tells a spreadsheet that commas separate values
                first = next(lines, [])
            if not any(first) and not any(map(any, lines)):
                raise ValueError(f"{path} is empty: give a .csv file with the columns file and label")
            yield first
            yield from lines
        except csv.Error as error:
            raise ValueError(f"{path} is not a .csv table that can be read ({error})") from error


def _line(text: io.TextIOWrapper, path: Path) -> str:
    line = text.readline(_LONGEST_LINE)
    if len(line) == _LONGEST_LINE:
        raise ValueError(f"{path} has a line of {_LONGEST_LINE:,} characters or more: give a table of labels")
    return line


def _known_columns(path: Path, header: Sequence[str]) -> list[str]:
    """Return the names of the columns in lower case, with that of the labels as "label", and of names as "file"."""
    names = _plain(header)
    if not any(names):
        raise ValueError(f"the first line of {path} is empty: it must name the columns file (or row) and label")
    if "file" not in names and "row" not in names:
        others = [name for name in header if not is_label_name(name)]
        if (key := name_column(others)) is not None and len(header) > 1:
            names[header.index(key)] = "file"
    if "label" not in names:
        others = [name for name, known in zip(header, names, strict=True) if known not in _COLUMNS]
        names[header.index(_label_column(path, others, None))] = "label"
    for name in _COLUMNS:
        if names.count(name) > 1:
            raise ValueError(f"{path} has {names.count(name)} columns named {name}: remove or rename all but one")
    return names


def _used_columns(path: Path, header: Sequence[str]) -> list[str]:
    known = _known_columns(path, header)
    return [name for name, meaning in zip(header, known, strict=True) if meaning in _COLUMNS]


def _plain(header: Sequence[str]) -> list[str]:
    return [name.strip().lower() for name in header]


def _number(name: str) -> str:
    """Return the number of a row as Python writes it, from a table that a spreadsheet may have rewritten."""
    number, _, zeros = name.strip().partition(".")
    return number if number.isdecimal() and not zeros.strip("0") else name


def _label_of(cells: dict[str, str], where: str) -> Label | None:
    label = _without_guard(cells["label"].strip())
    if not label:
        return None
    check_label(label, where)
    source = cells.get("source", "").strip() or GIVEN
    if source not in (GIVEN, PREDICTED):
        raise ValueError(f"{where} has the source {source[:40]!r}: it must be {GIVEN} or {PREDICTED}")
    text = cells.get("confidence", "")
    try:
        confidence = float(text or 1)
    except ValueError:
        confidence = math.nan
    if not 0 <= confidence <= 1:
        raise ValueError(f"{where} has the confidence {text[:40]!r}: it must be a number from 0 to 1")
    return Label(label, confidence, source == GIVEN)


def check_label(label: str, where: str) -> None:
    """Refuse a label that tables and pages cannot hold: too long, with control characters, or not UTF-8."""
    if len(label) > _LONGEST_LABEL:
        raise ValueError(f"{where} has a label of {len(label)} characters; at most {_LONGEST_LABEL} are allowed")
    kinds = {unicodedata.category(character) for character in label}
    if "Cs" in kinds:
        raise ValueError(f"{where} has the label {label!r}, which is not valid UTF-8: save the table as UTF-8")
    if "Cc" in kinds:
        raise ValueError(f"{where} has the label {label!r} with control characters: remove them")


def _with_guard(label: str) -> str:
    """Return a label that a spreadsheet does not run as a formula: such a label gets an apostrophe in front."""
    return f"'{label}" if label.lstrip("'").startswith(FORMULAS) and not is_number(label) else label


def _without_guard(label: str) -> str:
    return label[1:] if label.startswith("'") and label.lstrip("'").startswith(FORMULAS) else label


def labels_table(names: Sequence[str] | None, labels: Sequence[Label], key: str = "file") -> bytes:
    """Return a .csv file with the columns ``key`` (or row, without names), label, confidence and source."""
    return samples_table(
        names,
        key,
        label=[csv_cell(_with_guard(label.label)) for label in labels],
        confidence=[f"{label.confidence:.4f}" for label in labels],
        source=[GIVEN if label.given else PREDICTED for label in labels],
    )


def labels_beside(path: Path, name: str | None) -> tuple[list[Label | None], str]:
    """Return the labels of samples from the file that holds them, and the name of their column or array.

    In a .csv or .parquet table, by default, they are the only column whose name suggests labels; in a .npz file, the
    array "labels" or "y".
    """
    nor = f", and there is no file {name}" if name is not None and Path(name).suffix.lower() in LABEL_FILES else ""
    if path.suffix.lower() in TABLES:
        table = read_columns(path, lambda schema: [_label_column(path, schema.names, name, nor)])
        found: str = table.column_names[0]
        texts = column_texts(path, table, found)
    else:
        there = archive_keys(path)
        wanted = [found for found in (_ARRAYS if name is None else (name,)) if found in there]
        if not wanted:
            raise ValueError(
                f"{path} has the arrays {listed(there)}, but no {name or ' or '.join(_ARRAYS)}{nor}: name the array "
                f"of labels"
            )
        found = wanted[0]
        texts = _array_texts(load_array(path, found), path)
    labels = {text: Label(text.strip()) if text.strip() else None for text in set(texts)}  # one for many rows
    for label in filter(None, labels.values()):
        check_label(label.label, str(path))
    return [labels[text] for text in texts], found


def _label_column(path: Path, names: Sequence[str], column: str | None, nor: str = "") -> str:
    if column is not None:
        if column not in names:
            raise ValueError(f"{path} has no column {column}{nor}; it has {listed(names)}{delimiter_hint(names)}")
        return column
    found = names if len(names) == 1 else [name for name in names if is_label_name(name)]
    if len(found) != 1 or delimiter_hint(names):
        raise ValueError(
            f"which column of {path} has the labels? It has {listed(names)}. Name one, or call it "
            f"label{delimiter_hint(names)}"
        )
    return found[0]


def _array_texts(values: NDArray[Any], path: Path) -> list[str]:
    if values.ndim != 1:
        raise ValueError(f"{path} has labels of shape {values.shape}: give one label for each sample")
    is_missing = values != values if values.dtype.kind in "fM" else np.zeros(len(values), np.bool_)
    return ["" if missing else text for text, missing in zip(texts_of(path, values), is_missing.tolist(), strict=True)]
