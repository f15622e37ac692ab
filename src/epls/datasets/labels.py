"""Labels of samples: by name in a CSV table, given by people or predicted, or as a column of a table of vectors."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..utils.files import open_regular
from .arrays import existing_file
from .columns import delimiter_hint, is_label_name, listed
from .tables import check_encoding, read_columns

GIVEN, PREDICTED = "given", "predicted"
_LARGEST = 2**28  # bytes
_LONGEST_LABEL = 200  # characters
_N_NAMED = 3
_BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"


@dataclass(frozen=True)
class Label:
    """The label of a sample.

    Attributes
    ----------
    label : str
        The name of its class.
    confidence : float
        The probability that the label is correct, from 0 to 1. It is 1 for labels given by people.
    given : bool
        Whether a person, not a classifier, gave the label.
    """

    label: str
    confidence: float = 1.0
    given: bool = True


def read_labels(path: str | os.PathLike[str]) -> dict[str, Label]:
    """Read labels from a table. The keys are the names of the samples.

    Parameters
    ----------
    path : path-like
        A .csv file in UTF-8 with the columns "file" (or "row", for vectors) and "label", as saved by the page of `epls
        explore`. Files written by `epls classify` also have the columns "confidence" and "source". Samples with an
        empty label are skipped. File names that are not valid UTF-8 are kept as Python represents them.

    Returns
    -------
    dict of str to Label
        The labels.

    Raises
    ------
    ValueError
        If the file is not such a table, or has two labels for one sample.
    """
    path = existing_file(path)
    with open_regular(path) as file:
        content = file.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise ValueError(f"{path} has more than {_LARGEST:,} bytes, too many for a table of labels: give another file")
    check_encoding(path, content)
    text = io.StringIO(content.decode("utf-8", "surrogateescape").removeprefix(_BOM), newline="")
    try:
        header, *rows = csv.reader(text, strict=True)
    except ValueError:
        raise ValueError(f"{path} is empty: give a .csv file with the columns file and label") from None
    except csv.Error as error:
        raise ValueError(f"{path} is not a .csv table that can be read ({error})") from error
    place = {name.strip().lower(): k for k, name in enumerate(header)}
    name_column = "file" if "file" in place else "row"
    if missing := [name for name in (name_column, "label") if name not in place]:
        raise ValueError(
            f"{path} has no column {missing[0]}; it has {listed(header)}: the first line must name file (or row, for "
            f"vectors) and label{delimiter_hint(header)}"
        )
    found: dict[str, Label] = {}
    for number, row in enumerate(rows, 2):
        if not row:
            continue
        if len(row) != len(header):
            raise ValueError(
                f"row {number} of {path} has {len(row)} values, but the first line has {len(header)} names"
            )
        name, label = row[place[name_column]], _label_of(row, place, f"row {number} of {path}")
        if label is None:
            continue
        if found.setdefault(name, label).label != label.label:
            raise ValueError(
                f"{path} has two labels for {name!r}, {found[name].label!r} and {label.label!r}: remove one of them"
            )
    return found


def _label_of(row: list[str], place: dict[str, int], where: str) -> Label | None:
    label = row[place["label"]].strip()
    if not label:
        return None
    if len(label) > _LONGEST_LABEL:
        raise ValueError(f"{where} has a label of {len(label)} characters; at most {_LONGEST_LABEL} are allowed")
    source = row[place["source"]] if "source" in place else GIVEN
    if source not in (GIVEN, PREDICTED):
        raise ValueError(f"{where} has the source {source[:40]!r}: it must be {GIVEN} or {PREDICTED}")
    text = row[place["confidence"]] if "confidence" in place else ""
    try:
        confidence = float(text or 1)
    except ValueError:
        confidence = math.nan
    if not 0 <= confidence <= 1:
        raise ValueError(f"{where} has the confidence {text[:40]!r}: it must be a number from 0 to 1")
    return Label(label, confidence, source == GIVEN)


def labels_of(labels: dict[str, Label], names: Sequence[str], where: object) -> list[Label | None]:
    """Return the label of each sample, or None for samples without a label.

    Raises
    ------
    ValueError
        If a label belongs to none of the samples.
    """
    there = set(names)
    if unknown := [name for name in labels if name not in there]:
        named = ", ".join(map(repr, unknown[:_N_NAMED])) + (", ..." if len(unknown) > _N_NAMED else "")
        raise ValueError(
            f"{len(unknown)} of {len(labels)} labelled samples are not in {where}: {named}. Its samples have names "
            f"such as {', '.join(map(repr, names[:2]))}: use the same names, or remove these lines"
        )
    return [labels.get(name) for name in names]


def labels_table(names: Sequence[str], labels: Sequence[Label], name_column: str = "file") -> bytes:
    """Return a .csv file with the columns file (or row), label, confidence and source, for :func:`read_labels`.

    Examples
    --------
    >>> labels_table(["a.jpg"], [Label("cat", 0.91, given=False)]).decode().split()
    ['file,label,confidence,source', 'a.jpg,cat,0.9100,predicted']
    """
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\r\n")  # so that names with one of these characters are quoted
    writer.writerow([name_column, "label", "confidence", "source"])
    for name, label in zip(names, labels, strict=True):
        source = GIVEN if label.given else PREDICTED
        writer.writerow([name, label.label, f"{label.confidence:.4f}", source])
    return text.getvalue().encode("utf-8", "surrogateescape")


def load_label_column(path: str | os.PathLike[str], column: str | None = None) -> tuple[NDArray[Any], str]:
    """Load the labels in a column of a table, numbers or texts, and the name of the column.

    Parameters
    ----------
    path : path-like
        A .csv or .parquet file, as for :func:`epls.datasets.tables.load_table`.
    column : str or None, default=None
        The column. None uses the only column, or the only one whose name suggests labels, such as "label" or "class".
    """
    path = existing_file(path)
    table = read_columns(path, lambda schema: [_label_column(path, schema.names, column)])
    from pyarrow import ArrowException, string, types

    (name,), (labels,) = table.column_names, table.columns
    if labels.null_count:
        raise ValueError(f"{path} has {labels.null_count} rows without {name}: fill or remove them")
    if types.is_integer(labels.type) or types.is_boolean(labels.type):
        return np.asarray(labels.to_numpy()), name
    try:
        if not types.is_dictionary(labels.type):
            return np.asarray(labels.cast(string()).to_numpy()), name
        labels = labels.unify_dictionaries().combine_chunks()
        texts = np.asarray(labels.dictionary.cast(string()).to_numpy(zero_copy_only=False), dtype=object)
        return texts[labels.indices.to_numpy()], name
    except ArrowException as error:
        raise ValueError(
            f"the column {name} of {path} has values of type {labels.type}: labels must be numbers or texts"
        ) from error


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
