"""The classes of samples, as numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


def class_numbers(labels: ArrayLike, where: object) -> NDArray[np.int64]:
    """Return the number of each label among the sorted classes. Spaces around texts do not count.

    Parameters
    ----------
    labels : array-like of shape (n_samples,)
        Numbers or texts.
    where : object
        The source of the labels, for error messages.

    Raises
    ------
    ValueError
        If a label is missing: None, NaN, an empty text, or the text "nan", which other programs write for NaN.

    Examples
    --------
    >>> class_numbers(["dog", "cat ", "cat"], "labels.csv")
    array([1, 0, 0])
    """
    values: NDArray[Any] = np.asarray(labels)
    if values.dtype.kind in "US":
        values = np.char.strip(values)
        missing = np.isin(np.char.lower(values), np.array(["", "nan"], dtype=values.dtype.kind))
    elif values.dtype.kind == "O":
        values = np.array([value.strip() if isinstance(value, str) else value for value in values], dtype=object)
        missing = np.array([_is_missing(value) for value in values], dtype=bool)
    else:
        missing = values != values  # NaN and NaT differ from themselves
    if missing.any():
        raise ValueError(
            f"{where} has no label (empty or NaN) for {missing.sum():,} of {len(values):,} samples: fill in these "
            f"labels, or leave the samples out"
        )
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


def _is_missing(value: Any) -> bool:
    if isinstance(value, str):
        return value.lower() in ("", "nan")
    try:
        return value is None or bool(value != value)
    except TypeError:  # pandas.NA is neither equal nor unequal to anything
        return True
