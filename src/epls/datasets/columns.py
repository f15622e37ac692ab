"""Columns of tables that are usually no use for learning: labels, identifiers, constants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_FEWEST_ROWS = 10  # a few numbers can all differ by chance
_LABELS = {"label", "labels", "class", "classes", "target", "targets", "y", "category", "outcome"}
_IDENTIFIERS = {"id", "ids", "uid", "uuid", "guid", "index", "idx", "row", "key"}


def listed(names: Sequence[str], most: int = 5) -> str:
    """Join names with commas; if there are many, show the first ones and count the rest.

    Examples
    --------
    >>> listed(["a", "b", "c"])
    'a, b, c'
    >>> listed([f"c{k}" for k in range(64)])
    'c0, c1, c2, c3, c4 and 59 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def delimiter_hint(names: Sequence[str]) -> str:
    """Return advice for the end of an error message, if a table has other delimiters than commas; otherwise nothing.

    Examples
    --------
    >>> delimiter_hint(["width;height"]), delimiter_hint(["width", "height"])
    (' (are its values separated by semicolons or tabs? Use commas)', '')
    """
    other = len(names) == 1 and any(delimiter in names[0] for delimiter in ";\t")
    return " (are its values separated by semicolons or tabs? Use commas)" if other else ""


def doubtful_columns(X: NDArray[Any], names: Sequence[str]) -> dict[str, list[str]]:
    """Find the columns that do not look like measurements, grouped by what they look like.

    Parameters
    ----------
    X : ndarray of shape (n_rows, n_columns)
        The values.
    names : sequence of str
        The names of the columns.

    Returns
    -------
    dict of str to list of str
        "label": columns with a name such as label, class, target or y. "identifier": columns with a name such as id, or
        with whole numbers that are all different. "constant": columns with a single value. Each column is listed once.

    Examples
    --------
    >>> X = np.column_stack([np.linspace(0, 1, 20), np.arange(20), np.arange(20) % 2, np.ones(20)])
    >>> doubtful_columns(X, ["height", "number", "Class", "planet"])
    {'label': ['Class'], 'identifier': ['number'], 'constant': ['planet']}
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
    """Return whether the name of a column suggests that it holds labels.

    Examples
    --------
    >>> [is_label_name(name) for name in ("Class", "true_label", "classic", "x_y")]
    [True, True, False, False]
    """
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
