"""MNIST, Fashion-MNIST and other data sets in their format: small gray images in ten classes, as idx files."""

from __future__ import annotations

import gzip
import math
import os
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ._download import RemoteFile, target_folder
from ._files import Bytes, Labels, TrainTest, checked_labels, read_file

_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


def _remote_files(title: str, address: str, *checksums: str) -> dict[str, RemoteFile]:
    return {name: RemoteFile(title, f"{address}/{name}.gz", md5) for name, md5 in zip(_NAMES, checksums, strict=True)}


DOWNLOADS = {
    "mnist": _remote_files(
        "MNIST",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
        "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "d53e105ee54ea40749a09fcbcd1e9432",
        "9fb629c4189551a2d022fa330f9573f3",
        "ec29112dd5afa0611ce80d1b7f02629c",
    ),
    "fashion-mnist": _remote_files(
        "Fashion-MNIST",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "25c81989df183df01b3e8a0aad5dffbe",
        "bef4ecab320f06d8554ea6380940ec79",
        "bb300cfdad3c16e7a12a480ee83cd310",
    ),
}
_N_CLASSES = 10
_ADVICE = "get the file again, as its authors publish it"
_LARGEST = 2**30  # limit for a decompressed file, in bytes; the largest of MNIST has 47 million


@dataclass(frozen=True, eq=False, repr=False)
class MNIST(TrainTest):
    """The parts of a data set in the format of MNIST, in memory.

    Attributes
    ----------
    train_images, test_images : uint8 of shape (n, height, width), read-only
        The images; 60,000 and 10,000 of 28 x 28 in the official files.
    train_labels, test_labels : int64 of shape (n,)
        The class of each image, from 0.
    class_names : tuple of str
        "0" to "9", since the files contain no names.
    """


def load_mnist(folder: str | os.PathLike[str], *, download: str | None = None) -> MNIST:
    """Read the four idx files of MNIST, Fashion-MNIST or another data set in their format.

    Parameters
    ----------
    folder : path-like
        The folder with ``train-images-idx3-ubyte``, ``train-labels-idx1-ubyte``, ``t10k-images-idx3-ubyte`` and
        ``t10k-labels-idx1-ubyte``. Names such as ``train-images.idx3-ubyte`` and files compressed with gzip (``.gz``)
        are also supported.
    download : {"mnist", "fashion-mnist"} or None
        Which data set to download missing files of (12 or 31 MB in total). Existing files are kept and assumed to
        belong to the same data set, so use a separate folder for each. Needs pooch (``pip install "epls[data]"``).

    Returns
    -------
    MNIST
        Images and labels.

    Raises
    ------
    FileNotFoundError
        If the folder or one of the files is missing.
    ValueError
        If a file is damaged: it is not an idx file, has a wrong size, cannot be decompressed, or has labels out of
        range. Also if ``download`` is not one of the values above.
    OSError
        If a file could not be downloaded, or its content is wrong.

    Examples
    --------
    With the official files in ``data/fashion-mnist``::

        load_mnist("data/fashion-mnist").train_images  # (60000, 28, 28)
    """
    if download not in (None, *DOWNLOADS):
        raise ValueError(f'download={download!r}: give "mnist", "fashion-mnist" or None')
    home = target_folder(folder, download=download is not None)
    if download is not None:
        for name, file in DOWNLOADS[download].items():
            if _present(home, name) is None:
                file.fetch(home)
    train_images, train_labels = _labelled(home, "train")
    test_images, test_labels = _labelled(home, "t10k")
    if train_images.shape[1:] != test_images.shape[1:]:
        raise ValueError(
            f"the training images in {home} are {_times(train_images.shape[1:])}, but the test images "
            f"{_times(test_images.shape[1:])}: use the files of one data set"
        )
    return MNIST(train_images, train_labels, test_images, test_labels, tuple(map(str, range(_N_CLASSES))))


def _labelled(home: Path, part: str) -> tuple[Bytes, Labels]:
    images_path, labels_path = _find(home, f"{part}-images-idx3-ubyte"), _find(home, f"{part}-labels-idx1-ubyte")
    images, labels = read_idx(images_path, 3), read_idx(labels_path, 1)
    if len(images) != len(labels):
        raise ValueError(
            f"{images_path} has {len(images)} images, but {labels_path} has {len(labels)} labels: use both from one "
            f"data set"
        )
    return images, checked_labels(labels, labels_path, _N_CLASSES)


def _find(home: Path, name: str) -> Path:
    path = _present(home, name)
    if path is None:
        names = _spellings(name)
        raise FileNotFoundError(
            f"there is no file {names[0]} in {home}, nor {', '.join(names[1:])}: {_ADVICE}, or load MNIST or "
            f'Fashion-MNIST with download="mnist" or "fashion-mnist"'
        )
    return path


def _present(home: Path, name: str) -> Path | None:
    return next((home / spelling for spelling in _spellings(name) if (home / spelling).is_file()), None)


def _spellings(name: str) -> list[str]:
    return [name.replace("-idx", f"{mark}idx") + end for end in ("", ".gz") for mark in ("-", ".")]


def read_idx(path: Path, n_axes: int) -> Bytes:
    """Read an idx file of bytes.

    The file starts with the magic number: 0, 0, 8 (for bytes) and the number of axes. Then follow the length of each
    axis, as four bytes in big-endian order, and the bytes of the array in C order.

    Parameters
    ----------
    path : Path
        The file. It is decompressed if its name ends in ``.gz``.
    n_axes : int
        The number of axes that the array must have.

    Returns
    -------
    ndarray of uint8, read-only
        The array.
    """
    content = read_file(path, _decompressed if path.suffix == ".gz" else Path.read_bytes, _ADVICE)
    magic, start = bytes((0, 0, 8, n_axes)), 4 + 4 * n_axes
    if content[:4] != magic:
        raise ValueError(
            f"{path} begins with the bytes {tuple(content[:4])}, but an idx file of bytes with {n_axes} axes begins "
            f"with {tuple(magic)}: {_ADVICE}"
        )
    if len(content) < start:
        raise ValueError(f"{path} has {len(content)} bytes and ends within its header of {start}: {_ADVICE}")
    shape = tuple(int.from_bytes(content[k : k + 4], "big") for k in range(4, start, 4))
    expected = start + math.prod(shape)
    if expected == start or len(content) != expected:
        raise ValueError(
            f"{path} has {len(content)} bytes, but says that it holds {_times(shape)} bytes after a header of {start}, "
            f"together {expected}: {_ADVICE}"
        )
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)


def _decompressed(path: Path) -> bytes:
    try:
        with gzip.open(path) as file:
            content = file.read(_LARGEST + 1)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} cannot be decompressed ({error}): {_ADVICE}") from error
    if len(content) > _LARGEST:
        raise ValueError(f"{path} has more than {_LARGEST:,} bytes when it is decompressed: {_ADVICE}")
    return content


def _times(shape: tuple[int, ...]) -> str:
    return " x ".join(map(str, shape))
