"""STL-10 (Coates, Ng, Lee 2011): 96 x 96 color photographs, a few with labels and many without."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ._download import Archive
from ._files import Bytes, Described, Labels, checked_labels, map_items, read_file

CLASS_NAMES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")
ARCHIVE = Archive(
    title="STL-10",
    url="http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
    md5="91f7769df0f17e558f3565bffb0c7dfb",
    folder="stl10_binary",
    files=(
        "train_X.bin",
        "train_y.bin",
        "fold_indices.txt",
        "test_X.bin",
        "test_y.bin",
        "unlabeled_X.bin",
        "class_names.txt",
    ),
)
_SIDE = 96
_N_FOLDS = 10


@dataclass(frozen=True, eq=False, repr=False)
class STL10(Described):
    """The parts of STL-10. Images are read-only memory maps, which are read only when accessed.

    Attributes
    ----------
    train_images : uint8 of shape (n_train, 96, 96, 3)
        Images with labels; 5000 in the official files.
    train_labels : int64 of shape (n_train,)
        The class of each image, from 0.
    folds : int64 of shape (10, n_fold)
        The indices of the training images in each of the ten official training runs, 1000 each.
    test_images, test_labels : as for training, or None
        8000 images and their classes; None if the files do not exist.
    unlabelled_images : uint8 of shape (n_unlabelled, 96, 96, 3), or None
        100,000 images; None if the file does not exist.
    class_names : tuple of str
        The names of the ten classes.
    """

    train_images: Bytes
    train_labels: Labels
    folds: Labels
    test_images: Bytes | None
    test_labels: Labels | None
    unlabelled_images: Bytes | None
    class_names: tuple[str, ...]


def load_stl10(folder: str | os.PathLike[str], *, download: bool = False) -> STL10:
    """Open the official binary files of STL-10.

    Parameters
    ----------
    folder : path-like
        The folder ``stl10_binary``, or its parent folder.
    download : bool, default=False
        Whether to download missing files from the authors' archive (2.6 GB). Needs pooch (``pip install
        "epls[data]"``).

    Returns
    -------
    STL10
        Images, labels and folds. The test and unlabelled images are None if their files are missing.

    Raises
    ------
    FileNotFoundError
        If the folder or a file of the training part is missing.
    ValueError
        If a file is damaged: it has a wrong size, or labels or indices out of range.

    Examples
    --------
    With the official files in ``data/stl10_binary``::

        data = load_stl10("data")
        data.train_images[data.folds[0]]  # (1000, 96, 96, 3), read into memory
    """
    home = ARCHIVE.locate(folder, download=download)
    train_images, train_labels = _labelled(home, "train")
    has_test = any((home / name).exists() for name in ("test_X.bin", "test_y.bin"))
    test_images, test_labels = _labelled(home, "test") if has_test else (None, None)
    unlabelled = home / "unlabeled_X.bin"
    return STL10(
        train_images=train_images,
        train_labels=train_labels,
        folds=_folds(home / "fold_indices.txt", len(train_labels)),
        test_images=test_images,
        test_labels=test_labels,
        unlabelled_images=_images(unlabelled) if unlabelled.exists() else None,
        class_names=_class_names(home / "class_names.txt"),
    )


def _labelled(home: Path, part: str) -> tuple[Bytes, Labels]:
    path = home / f"{part}_y.bin"
    labels = checked_labels(map_items(path, 1, "label", ARCHIVE.advice)[:, 0], path, len(CLASS_NAMES), first=1)
    return _images(home / f"{part}_X.bin", like=(len(labels), path)), labels


def _images(path: Path, like: tuple[int, Path] | None = None) -> Bytes:
    items = map_items(path, 3 * _SIDE * _SIDE, "image of 96 x 96 x 3", ARCHIVE.advice, like)
    # The file has one plane per color for each image, stored column by column.
    return items.reshape(-1, 3, _SIDE, _SIDE).transpose(0, 3, 2, 1)


def _folds(path: Path, n_train: int) -> Labels:
    lines = read_file(path, lambda p: p.read_text("ascii", errors="replace"), ARCHIVE.advice).splitlines()
    try:
        rows = [[int(word) for word in line.split()] for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} must hold only integers ({error}): {ARCHIVE.advice}") from error
    lengths = sorted({len(row) for row in rows})
    if len(rows) != _N_FOLDS or len(lengths) != 1 or lengths == [0]:
        raise ValueError(
            f"{path} has {len(rows)} lines of {' or '.join(map(str, lengths)) or 'no'} indices; it must have "
            f"{_N_FOLDS} of the same length: {ARCHIVE.advice}"
        )
    for number, row in enumerate(rows, 1):
        outside = [index for index in row if not 0 <= index < n_train]
        if outside:
            raise ValueError(
                f"{path}, line {number}, has index {outside[0]}, but the training images are 0 to "
                f"{n_train - 1}: {ARCHIVE.advice}"
            )
        if len(set(row)) < len(row):
            index = max(row, key=row.count)
            raise ValueError(
                f"{path}, line {number}, has index {index} {row.count(index)} times, but a fold contains each image "
                f"only once: {ARCHIVE.advice}"
            )
    return np.array(rows, dtype=np.int64)


def _class_names(path: Path) -> tuple[str, ...]:
    if not path.exists():
        return CLASS_NAMES
    names = tuple(read_file(path, lambda p: p.read_text("utf-8", errors="replace"), ARCHIVE.advice).split())
    if len(names) != len(CLASS_NAMES):
        raise ValueError(f"{path} has {len(names)} names for {len(CLASS_NAMES)} classes: {ARCHIVE.advice}")
    return names
