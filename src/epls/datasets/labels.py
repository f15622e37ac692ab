"""Labels of samples: by name in a CSV table, given by people or predicted, or as a column of a table of vectors."""

from __future__ import annotations

import csv
import io
import math
import os
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.files import existing_file, open_regular
from ..utils.wording import counted, listed
from .tables import check_encoding, delimiter_hint, is_label_name, is_number, read_columns
from .writing import FORMULAS, csv_cell, csv_name

GIVEN, PREDICTED = "given", "predicted"
_LARGEST = 2**28  # bytes
_LONGEST_LABEL = 200  # characters
_N_NAMED = 3
_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


@dataclass(frozen=True)
class Label:
    """The label of a sample: the name of its class."""

    label: str
    confidence: float = 1.0  # the probability that it is correct
    given: bool = True  # by a person, not by a classifier


def read_labels(path: str | os.PathLike[str]) -> dict[str, Label]:
    """Read the labels of samples, by their names, from a .csv file in UTF-8.

    It has the columns "file" (or "row", for vectors) and "label", as saved by the page of `epls explore`, and perhaps
    "confidence" and "source", as written by `epls classify`. Samples with an empty label are skipped. File names that
    are not valid UTF-8 are kept as Python represents them.
    """
    path = existing_file(path)
    header, *rows = _lines(path)
    columns = _checked_columns(path, header)
    name_column = "file" if "file" in columns else "row"
    found: dict[str, Label] = {}
    for number, row in enumerate(rows, 2):
        if not any(map(str.strip, row)):
            continue
        if len(row) != len(header):
            raise ValueError(
                f"line {number} of {path} has {counted(len(row), 'values')}, but the first line names {len(header)} "
                f"columns: use one value per column, or remove the line"
            )
        cells = dict(zip(columns, row, strict=True))
        label = _label_of(cells, f"line {number} of {path}")
        if label is None:
            continue
        name = plain_name(cells[name_column], name_column)
        if found.setdefault(name, label).label != label.label:
            raise ValueError(
                f"{path} has two labels for {name!r}, {found[name].label!r} and {label.label!r}: remove one of them"
            )
    return found


def _lines(path: Path) -> list[list[str]]:
    """Return the cells of all lines, from the one that names the columns."""
    with open_regular(path) as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"{path} has more than {_LARGEST:,} bytes, too many for a table of labels: give another file")
    check_encoding(path, content)
    text = io.StringIO(content.decode("utf-8", "surrogateescape").removeprefix(_BOM), newline="")
    try:
        lines = list(csv.reader(text, strict=True))
    except csv.Error as error:
        raise ValueError(f"{path} is not a .csv table that can be read ({error})") from error
    first = 1 if lines[:1] == [["sep=", ""]] else 0  # tells a spreadsheet that commas separate values
    if not any(map(any, lines[first:])):
        raise ValueError(f"{path} is empty: give a .csv file with the columns file and label")
    return lines[first:]


def _checked_columns(path: Path, header: list[str]) -> list[str]:
    """Return the names of the columns, after checking those that are used."""
    names = [name.strip().lower() for name in header]
    if not any(names):
        raise ValueError(f"the first line of {path} is empty: it must name the columns file (or row) and label")
    for needed, said in ((("file", "row"), "file or row"), (("label",), "label")):
        if not set(needed) & set(names):
            raise ValueError(
                f"{path} has no column {said}; it has {listed(header)}: the first line must name file (or row, for "
                f"vectors) and label{delimiter_hint(header)}"
            )
    for name in ("file", "row", "label", "confidence", "source"):
        if names.count(name) > 1:
            raise ValueError(f"{path} has {names.count(name)} columns named {name}: remove or rename all but one")
    return names


def plain_name(name: str, column: str) -> str:
    """Return the name of a sample as the library has it, from a table that a spreadsheet may have rewritten."""
    if column == "file":
        return name.removeprefix("./")  # see csv_name
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


def labels_of(labels: dict[str, Label], names: Sequence[str], where: object) -> list[Label | None]:
    """Return the label of each sample, or None for samples without one. A label of no sample raises an error."""
    there = set(names)
    if unknown := [name for name in labels if name not in there]:
        named = listed([repr(name) for name in unknown], most=_N_NAMED)
        raise ValueError(
            f"{len(unknown)} of {len(labels)} labelled samples are not in {where}: {named}. Its samples have "
            f"names such as {', '.join(map(repr, names[:2]))}: use the same names, or remove these lines"
        )
    return [labels.get(name) for name in names]


def labels_table(names: Sequence[str], labels: Sequence[Label], name_column: str = "file") -> bytes:
    """Return a .csv file with the columns file (or row), label, confidence and source, for :func:`read_labels`."""
    name_cell = csv_name if name_column == "file" else str
    lines = [f"{name_column},label,confidence,source"]
    for name, label in zip(names, labels, strict=True):
        source = GIVEN if label.given else PREDICTED
        lines.append(f"{name_cell(name)},{csv_cell(_with_guard(label.label))},{label.confidence:.4f},{source}")
    return ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")


def load_label_column(path: str | os.PathLike[str], column: str | None = None) -> tuple[NDArray[Any], str]:
    """Load the labels in a column of a .csv or .parquet table, numbers or texts, and the name of the column.

    By default, it is the only column, or the only one whose name suggests labels, such as "label" or "class".
    """
    path = existing_file(path)
    table = read_columns(path, lambda schema: [_label_column(path, schema.names, column)])
    from pyarrow import ArrowException, string, types

    (name,), (labels,) = table.column_names, table.columns
    _check_missing(labels.null_count, path, name)
    if types.is_integer(labels.type) or types.is_boolean(labels.type):
        return np.asarray(labels.to_numpy()), name
    try:
        # A text that many rows share is kept once.
        labels = labels if types.is_dictionary(labels.type) else labels.cast(string()).dictionary_encode()
        labels = labels.unify_dictionaries().combine_chunks()
        texts = [text.strip() for text in labels.dictionary.cast(string()).to_pylist()]
        found = np.array(texts, dtype=object)[labels.indices.to_numpy()]
        _check_missing(int(np.count_nonzero(found == "")), path, name)
        return found, name
    except ArrowException as error:
        raise ValueError(
            f"the column {name} of {path} has values of type {labels.type}: labels must be numbers or texts"
        ) from error


def _check_missing(n_missing: int, path: Path, name: str) -> None:
    if n_missing:
        raise ValueError(f"{path} has {counted(n_missing, 'rows')} without {name}: fill or remove them")


def _label_column(path: Path, names: list[str], column: str | None) -> str:
    if column is not None:
        if column not in names:
            raise ValueError(f"{path} has no column {column}; it has {listed(names)}{delimiter_hint(names)}")
        return column
    found = names if len(names) == 1 else [name for name in names if is_label_name(name)]
    if len(found) != 1:
        raise ValueError(
            f"which column of {path} has the labels? It has {listed(names)}. Name one{delimiter_hint(names)}"
        )
    return found[0]
