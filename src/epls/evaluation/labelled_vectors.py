"""Load labelled vectors from the usual sources."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from numpy.typing import NDArray

from ..datasets.arrays import load_archive, load_array
from ..datasets.labels import load_label_column
from ..datasets.opening import Vectors, open_data
from ..datasets.tables import TABLES

_NAMES = ("labels", "y")  # of labels in a .npz file


def are_vectors(path: Path) -> bool:
    """Return whether a file holds vectors: a table, an array with two dimensions, or a .npz file without "images"."""
    ending = path.suffix.lower()
    if not path.is_file():
        return False
    if ending == ".npz":
        try:
            with ZipFile(path) as archive:
                return "images.npy" not in archive.namelist()
        except (OSError, BadZipFile):
            return False  # opening it reports what is wrong
    return ending in TABLES or (ending == ".npy" and load_array(path).ndim == 2)


def load_labelled_vectors(
    path: Path,
    labels: str | None,
    *,
    key: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> tuple[Vectors, NDArray[Any]]:
    """Load vectors and their labels.

    Parameters
    ----------
    path : Path
        A .csv or .parquet table, a .npy array, or a .npz file.
    labels : str or None
        For a table, the column with the labels. By default, the one called "label", "class", "target" or "y". Or a
        file: .npy, or a table with a column of labels. A .npz file may contain them as the array "labels" or "y".
    key, columns, drop
        See :func:`epls.datasets.opening.open_data`.
    """
    is_table = path.suffix.lower() in TABLES
    if labels is not None and Path(labels).suffix.lower() in (".npy", *TABLES) and Path(labels).is_file():
        found = _from_file(Path(labels))
    elif is_table:
        found, column = load_label_column(path, labels)
        drop = [*drop, *([column] if columns is None or column in columns else [])]
    elif path.suffix.lower() == ".npz":
        found = _from_archive(path, labels)
    else:
        raise ValueError(f"{path} has no labels: name a .npy, .csv or .parquet file with a label for each row")
    if key is None and path.suffix.lower() == ".npz":
        key = _key_of_vectors(path)
    data = open_data(path, key=key, columns=columns, drop=drop)
    if not isinstance(data, Vectors):
        raise ValueError(f"{path} holds images, not vectors: give (n, n_features)")
    if found.shape != (len(data),):
        raise ValueError(f"there are {len(data):,} vectors, but labels of shape {found.shape}: give one label for each")
    return data, found


def _from_file(path: Path) -> NDArray[Any]:
    return load_label_column(path)[0] if path.suffix.lower() in TABLES else load_array(path)


def _from_archive(path: Path, name: str | None) -> NDArray[Any]:
    with ZipFile(path) as archive:
        there = [member.removesuffix(".npy") for member in archive.namelist()]
    wanted = next((n for n in ([name] if name is not None else _NAMES) if n in there), None)
    if wanted is None:
        raise ValueError(
            f"{path} has the arrays {', '.join(there)}, but no {name or ' or '.join(_NAMES)}: name the array of labels"
        )
    return load_archive(path, [wanted])[0]


def _key_of_vectors(path: Path) -> str | None:
    """Return the only array that is not labels, if there is one."""
    with ZipFile(path) as archive:
        others = [n for n in (m.removesuffix(".npy") for m in archive.namelist()) if n not in _NAMES]
    return others[0] if len(others) == 1 else None
