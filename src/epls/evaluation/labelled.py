"""Labelled samples from files: images of one size, or vectors; and labels as the numbers of classes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..datasets import ImageFolder
from ..datasets.arrays import archive_keys, archived_names, load_archive, load_array
from ..datasets.folder import Channels
from ..datasets.labels import PREDICTED, Label, labels_of, load_label_column, plain_name
from ..datasets.opening import Vectors, open_data
from ..datasets.tables import TABLES, read_columns
from ..utils.types import Progress
from ..utils.wording import counted

_NAMES = ("labels", "y")  # of labels in a .npz file
_LABEL_FILES = (".npy", *TABLES)


@dataclass(frozen=True)
class Labelled:
    """Samples with the number of a class for each."""

    X: Any  # vectors (n_samples, n_features), or images (n_samples, height, width[, channels])
    labels: NDArray[np.int64]
    names: list[str] | None = None  # of the columns of a table
    skipped: Sequence[tuple[Path, Any]] = ()  # images that could not be used, with the reasons


def are_vectors(path: Path) -> bool:
    """Return whether a file holds vectors: a table, an array with two dimensions, or a .npz file without "images"."""
    ending = path.suffix.lower()
    if not path.is_file():
        return False
    if ending == ".npz":
        try:
            return "images" not in archive_keys(path)
        except (OSError, ValueError):
            return False  # opening it reports what is wrong
    return ending in TABLES or (ending == ".npy" and load_array(path).ndim == 2)


def load_labelled_images(
    path: Path,
    *,
    channels: Channels | None = None,
    skip_bad: bool = False,
    follow_links: bool = False,
    progress: Progress | None = None,
) -> Labelled:
    """Load images of one size with their classes.

    ``path`` is a folder with a sub-folder of images for each class, or an .npz file with "images" and "labels". The
    other parameters are those of :class:`epls.ImageFolder`.
    """
    if path.suffix.lower() == ".npz" and path.is_file():
        return _archived_images(path)
    if path.is_dir():
        folder = ImageFolder(path, channels=channels, skip_bad=skip_bad, follow_links=follow_links, progress=progress)
        return _of_folder(folder, path)
    raise ValueError(f"{path} is neither a folder nor an .npz file: give a folder with a sub-folder for each class")


def _archived_images(path: Path) -> Labelled:
    images, labels = load_archive(path, ("images", "labels"))
    if images.ndim not in (3, 4) or labels.shape != images.shape[:1]:
        raise ValueError(
            f"{path}: images of shape {images.shape} and labels of shape {labels.shape} do not match: give "
            f"(n, height, width[, channels]) and (n,)"
        )
    return Labelled(images, class_numbers(labels, path))


def _of_folder(folder: ImageFolder, path: Path) -> Labelled:
    if folder.labels is None or folder.class_names is None:
        raise ValueError(
            f"{path} has images outside of sub-folders: give one with a sub-folder of images for each class"
        )
    skipped = {file.relative_to(path).parts[0] for file, _ in folder.skipped if file.parent != path}
    if lost := sorted(skipped - set(folder.class_names)):
        raise ValueError(
            f"{path} has no image of the class {lost[0]} that can be used: repair its images, or remove this sub-folder"
        )
    sizes = sorted({shape[:2] for shape in folder.shapes})
    if len(sizes) > 1:
        raise ValueError(
            f"the images of {path} have {len(sizes)} sizes, from {sizes[0]} to {sizes[-1]}: resize all to the same size"
        )
    images = np.stack([folder[k] for k in range(len(folder))])
    return Labelled(images, folder.labels, skipped=folder.skipped)


def load_labelled_vectors(
    path: Path,
    labels: str | None,
    *,
    key: str | None = None,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
) -> Labelled:
    """Load vectors with their classes: a .csv or .parquet table, a .npy array, or a .npz file.

    ``labels`` is the column of a table with the labels, by default the one called "label", "class", "target" or "y"; or
    a file: .npy, or a table with a column of labels. If this table has a column "row", as those of `epls classify` and
    of the page of `epls explore`, it says which vector each label belongs to, counted from 0; a column "file" does so
    for features that `epls transform` wrote with their names. Otherwise, labels are in the order of the vectors. A .npz
    file may contain them as the array "labels" or "y". For the other parameters, see
    :func:`epls.datasets.opening.open_data`.
    """
    source = path
    if labels is not None and _is_file_name(labels) and Path(labels).is_file():
        source = Path(labels)
        found = load_label_column(source)[0] if source.suffix.lower() in TABLES else load_array(source)
    elif path.suffix.lower() in TABLES:
        if labels is not None and _is_file_name(labels) and not read_columns(path, _called(labels)).column_names:
            raise ValueError(f"{path} has no column {labels}, and there is no file {labels}: name one that exists")
        found, column = load_label_column(path, labels)
        drop = [*drop, *([column] if columns is None or column in columns else [])]
    elif path.suffix.lower() == ".npz":
        found = _archived_labels(path, labels)
    else:
        raise ValueError(_no_labels(path, labels))
    if key is None and path.suffix.lower() == ".npz":
        others = [name for name in archive_keys(path) if name not in _NAMES]
        key = others[0] if len(others) == 1 else None
    data = open_data(path, key=key, columns=columns, drop=drop)
    if not isinstance(data, Vectors):
        raise ValueError(f"{path} holds images, not vectors: give (n, n_features)")
    if source != path and source.suffix.lower() in TABLES:
        found = _in_order(found, source, path, len(data))
    if found.shape != (len(data),):
        raise ValueError(f"there are {len(data):,} vectors, but labels of shape {found.shape}: give one label for each")
    return Labelled(np.asarray(data.X), class_numbers(found, source), data.names)


def _called(*names: str) -> Callable[[Any], list[str]]:
    """Return a function that chooses the columns with these names, whatever their case, from a schema."""
    return lambda schema: [name for name in schema.names if name.strip().lower() in map(str.lower, names)]


def _is_file_name(name: str) -> bool:
    return Path(name).suffix.lower() in _LABEL_FILES


def _no_labels(path: Path, labels: str | None) -> str:
    """Return the error message for an array whose labels are not in a file."""
    advice = "name a .npy, .csv or .parquet file with a label for each row"
    if labels is None:
        return f"{path} has no labels: {advice}"
    return f"{labels} has another ending: {advice}" if Path(labels).exists() else f"there is no file {labels}: {advice}"


def _in_order(labels: NDArray[Any], source: Path, path: Path, n_vectors: int) -> NDArray[Any]:
    """Return labels in the order of the vectors, if their table says which vector each belongs to."""
    table = read_columns(source, _called("file", "row", "source"))
    keys = {
        name.strip().lower(): values.to_pylist() for name, values in zip(table.column_names, table.columns, strict=True)
    }
    if n_predicted := keys.pop("source", []).count(PREDICTED):
        raise ValueError(
            f"{source} has {counted(n_predicted, 'labels')} that a classifier predicted, by its column source: compare "
            f"by labels that people gave"
        )
    if not keys:
        return labels
    names = archived_names(path, n_vectors) if "file" in keys else None
    if names is None and "row" not in keys:
        raise ValueError(
            f"{source} has labels of files, by its column file, but {path} has vectors without names: give a table "
            f"with the columns row, which counts the vectors from 0, and label"
        )
    column = "row" if names is None else "file"
    given = [plain_name(str(key), column) for key in keys[column]]
    return _by_name(labels, given, source, names or [str(number) for number in range(n_vectors)], path)


def _by_name(labels: NDArray[Any], given: list[str], source: Path, names: list[str], path: Path) -> NDArray[Any]:
    """Return the label of each name; ``given`` are the names that the labels belong to."""
    name, n_labels = Counter(given).most_common(1)[0] if given else ("", 0)
    if n_labels > 1:
        raise ValueError(f"{source} has {n_labels} labels for {name!r}: remove all but one of them")
    by_name = {name: Label(str(label)) for name, label in zip(given, labels, strict=True)}
    found = [label.label for label in labels_of(by_name, names, path) if label is not None]
    if len(found) < len(names):
        raise ValueError(
            f"{source} has labels for {len(found):,} of the {len(names):,} vectors of {path}: label all of them, or "
            f"give only vectors that have a label"
        )
    return np.array(found, dtype=object)


def _archived_labels(path: Path, name: str | None) -> NDArray[Any]:
    there = archive_keys(path)
    wanted = next((n for n in ([name] if name is not None else _NAMES) if n in there), None)
    if wanted is None:
        nor = f", and there is no file {name}" if name is not None and _is_file_name(name) else ""
        raise ValueError(
            f"{path} has the arrays {', '.join(there)}, but no {name or ' or '.join(_NAMES)}{nor}: name the array of "
            f"labels"
        )
    return load_archive(path, [wanted])[0]


def class_numbers(labels: ArrayLike, where: object) -> NDArray[np.int64]:
    """Return the number of each label among the sorted classes. Spaces around texts do not count.

    Raise a ValueError that names ``where`` the labels are from if one is missing: None, NaN, an empty text, or the text
    "nan", which other programs write for NaN.
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
