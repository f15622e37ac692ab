"""CIFAR-10 (Krizhevsky 2009): 32 x 32 color photographs in ten classes."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ._download import Archive
from ._files import Bytes, Labels, TrainTest, checked_labels, map_items

CLASS_NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
TRAIN_FILES = tuple(f"data_batch_{k}.bin" for k in range(1, 6))
TEST_FILE = "test_batch.bin"
ARCHIVE = Archive(
    title="CIFAR-10",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    folder="cifar-10-batches-bin",
    files=(*TRAIN_FILES, TEST_FILE),
)
_SIDE = 32


@dataclass(frozen=True, eq=False, repr=False)
class CIFAR10(TrainTest):
    """The parts of CIFAR-10, in memory.

    Attributes
    ----------
    train_images, test_images : uint8 of shape (n, 32, 32, 3)
        The images; 50,000 and 10,000 in the official files.
    train_labels, test_labels : int64 of shape (n,)
        The class of each image, from 0.
    class_names : tuple of str
        The names of the ten classes.
    """


def load_cifar10(folder: str | os.PathLike[str], *, download: bool = False) -> CIFAR10:
    """Read the official binary files of CIFAR-10.

    Parameters
    ----------
    folder : path-like
        The folder ``cifar-10-batches-bin``, or its parent folder.
    download : bool, default=False
        Whether to download missing files from the author's archive (170 MB). Needs pooch (``pip install
        "epls[data]"``).

    Returns
    -------
    CIFAR10
        Images and labels, 184 MB in memory.

    Raises
    ------
    FileNotFoundError
        If the folder or one of the files is missing.
    ValueError
        If a file is damaged: it has a wrong size, or labels out of range.

    Examples
    --------
    With the official files in ``data/cifar-10-batches-bin``::

        load_cifar10("data").train_images  # (50000, 32, 32, 3)
    """
    home = ARCHIVE.locate(folder, download=download)
    # All batches have the same size, so a file that was cut off between two images is noticed too.
    like = (len(_records(home / TEST_FILE)), home / TEST_FILE)
    train_images, train_labels = _read([home / name for name in TRAIN_FILES], like)
    test_images, test_labels = _read([home / TEST_FILE], like)
    return CIFAR10(train_images, train_labels, test_images, test_labels, CLASS_NAMES)


def _records(path: Path, like: tuple[int, Path] | None = None) -> Bytes:
    return map_items(path, 1 + 3 * _SIDE * _SIDE, "label and image of 32 x 32 x 3", ARCHIVE.advice, like)


def _read(paths: list[Path], like: tuple[int, Path]) -> tuple[Bytes, Labels]:
    n_images = like[0]
    images = np.empty((len(paths) * n_images, _SIDE, _SIDE, 3), np.uint8)
    labels = np.empty(len(paths) * n_images, np.int64)
    for k, path in enumerate(paths):
        records = _records(path, like)
        batch = slice(k * n_images, (k + 1) * n_images)
        labels[batch] = checked_labels(records[:, 0], path, len(CLASS_NAMES))
        # The label comes first, then one plane per color, row by row.
        images[batch] = records[:, 1:].reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1)
    return images, labels
