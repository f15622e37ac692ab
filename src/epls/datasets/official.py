"""The official files of STL-10 and CIFAR-10, downloaded on request.

Every file is checked: its size, its labels, its indices. Downloading needs pooch.
"""

from __future__ import annotations

import os
import shutil
import tarfile
from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath

import numpy as np
from numpy.typing import NDArray

from ..utils.files import atomic_file, existing_folder, open_regular

Bytes = NDArray[np.uint8]
Labels = NDArray[np.int64]
_N_FOLDS = 10  # of STL-10


@dataclass(frozen=True)
class Archive:
    """The official archive of a data set, published by its authors, and the checks of its files."""

    title: str
    url: str
    md5: str
    folder: str  # that it unpacks to
    files: tuple[str, ...]  # in that folder
    side: int  # of its images, which are square and have three colors
    classes: tuple[str, ...]  # in the order of their numbers

    @property
    def advice(self) -> str:
        """Advice about a missing or damaged file."""
        return f"unpack {self.url} again, or delete the file if it exists and load with download=True"

    def locate(self, folder: str | os.PathLike[str], *, download: bool) -> Path:
        """Return the folder of the files: ``folder`` or the one in it. Download missing files if requested."""
        named = Path(folder).expanduser()
        if not download or named.exists():  # a folder to download to may be missing
            named = existing_folder(named)
        is_itself = named.name == self.folder or any((named / name).exists() for name in self.files)
        home = named if is_itself and not (named / self.folder).is_dir() else named / self.folder
        if download and not all((home / name).exists() for name in self.files):
            self._fetch(named, home)
        if not home.is_dir():
            raise FileNotFoundError(
                f"{named} holds neither a folder {self.folder} nor its files ({', '.join(self.files)}): give the "
                f"folder that {self.title} was unpacked to, unpack {self.url} there, or load with download=True"
            )
        return home

    def _fetch(self, folder: Path, home: Path) -> None:
        """Download the archive to a folder, unless it exists with the right checksum, and unpack it."""
        try:
            import pooch
        except ImportError as error:
            raise ImportError(
                f'downloading needs pooch: pip install "epls[data]"; or unpack {self.url} in {folder} by hand'
            ) from error
        packed = folder / PurePosixPath(self.url).name
        was_there = packed.exists()
        try:
            # pooch writes to a temporary file and renames it if the checksum is right.
            pooch.retrieve(self.url, known_hash=f"md5:{self.md5}", fname=packed.name, path=folder)
            self._unpack(packed, home)
        except (OSError, ValueError, EOFError, tarfile.TarError) as error:
            raise OSError(
                f"{self.title} could not be downloaded from {self.url} to {folder} ({error}): try again later, or "
                f"download it another way, unpack it in {folder} and load it without download"
            ) from error
        if not was_there:
            packed.unlink()  # as large as the data, and not needed any more

    def _unpack(self, packed: Path, home: Path) -> None:
        """Unpack only the missing files of the archive."""
        home.mkdir(parents=True, exist_ok=True)
        with tarfile.open(packed) as archive:
            for member in archive:
                target = home / PurePosixPath(member.name).name
                content = archive.extractfile(member) if member.isfile() else None
                if content is not None and target.name in self.files and not target.exists():
                    with atomic_file(target) as file:
                        shutil.copyfileobj(content, file, 1 << 20)

    def read(self, path: Path) -> Bytes:
        """Return the bytes of a file as a read-only memory map. Errors name a file that cannot be read."""
        try:
            with open_regular(path) as file:
                is_empty = os.fstat(file.fileno()).st_size == 0
                return np.zeros(0, np.uint8) if is_empty else np.memmap(file, np.uint8, "r")
        except FileNotFoundError as error:
            raise FileNotFoundError(f"there is no file {path}: {self.advice}") from error
        except OSError as error:
            reason = error.strerror or error
            raise OSError(f"{path} cannot be read ({reason}): check the file and its permissions") from error

    def items(self, path: Path, item_bytes: int, item: str, like: tuple[int, Path] | None = None) -> Bytes:
        """Return a file of items of equal size as a read-only memory map (n_items, item_bytes).

        ``item`` is the name of an item, for errors. ``like`` is the required number of items and the file that
        determines it; any positive number by default.
        """
        content = self.read(path)
        size = len(content)
        found = f"{path} has {size} bytes, which is {size / item_bytes:.10g} times the {item_bytes} of one {item}"
        if like is not None and size != like[0] * item_bytes:
            expected = like[0] * item_bytes
            state = "too short, or the other too long" if size < expected else "too long, or the other too short"
            raise ValueError(
                f"{found}; {like[1]} has {like[0]}, which would be {expected} bytes here. The file is {state}: "
                f"{self.advice}"
            )
        if size == 0 or size % item_bytes:
            raise ValueError(f"{found}; it must hold a whole number of them, at least one: {self.advice}")
        return content.reshape(-1, item_bytes)

    def labels(self, raw: Bytes, path: Path, *, first: int = 0) -> Labels:
        """Return labels counted from 0, given those of a file that counts from ``first``."""
        raw = np.asarray(raw)  # results computed from a memory map would be memory maps
        last = first + len(self.classes) - 1
        bad = np.flatnonzero((raw < first) | (raw > last))
        if bad.size:
            raise ValueError(
                f"{path} has label {raw[bad[0]]} at position {bad[0]} (counted from 0); allowed are {first} to {last}: "
                f"the file is damaged or holds something else, get it again"
            )
        return raw.astype(np.int64) - first


STL10_ARCHIVE = Archive(
    title="STL-10",
    url="http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz",
    md5="91f7769df0f17e558f3565bffb0c7dfb",
    folder="stl10_binary",
    files=("train_X.bin", "train_y.bin", "fold_indices.txt", "test_X.bin", "test_y.bin", "unlabeled_X.bin"),
    side=96,
    classes=("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck"),
)
CIFAR10_ARCHIVE = Archive(
    title="CIFAR-10",
    url="https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
    md5="c32a1d4ab5d03f1284b67883e8d87530",
    folder="cifar-10-batches-bin",
    files=(*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"),
    side=32,
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
)


class _Described:
    """A dataclass of arrays whose ``repr`` shows shapes instead of pixels."""

    def __repr__(self) -> str:
        values = ((field.name, getattr(self, field.name)) for field in fields(self))  # type: ignore[arg-type]
        shown = (
            f"{name}={value.dtype} {value.shape}" if isinstance(value, np.ndarray) else f"{name}={value!r}"
            for name, value in values
        )
        return f"{type(self).__name__}({', '.join(shown)})"


# Without eq=False, dataclass would compare arrays with ==, whose result has no truth value.
@dataclass(frozen=True, eq=False, repr=False)
class STL10(_Described):
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
    home = STL10_ARCHIVE.locate(folder, download=download)
    train_images, train_labels = _stl10_part(home, "train")
    has_test = any((home / name).exists() for name in ("test_X.bin", "test_y.bin"))
    test_images, test_labels = _stl10_part(home, "test") if has_test else (None, None)
    unlabelled = home / "unlabeled_X.bin"
    return STL10(
        train_images=train_images,
        train_labels=train_labels,
        folds=_stl10_folds(home / "fold_indices.txt", len(train_labels)),
        test_images=test_images,
        test_labels=test_labels,
        unlabelled_images=_stl10_images(unlabelled) if unlabelled.exists() else None,
        class_names=STL10_ARCHIVE.classes,
    )


def _stl10_part(home: Path, part: str) -> tuple[Bytes, Labels]:
    path = home / f"{part}_y.bin"
    labels = STL10_ARCHIVE.labels(STL10_ARCHIVE.items(path, 1, "label")[:, 0], path, first=1)
    return _stl10_images(home / f"{part}_X.bin", like=(len(labels), path)), labels


def _stl10_images(path: Path, like: tuple[int, Path] | None = None) -> Bytes:
    items = STL10_ARCHIVE.items(path, 3 * STL10_ARCHIVE.side**2, "image of 96 x 96 x 3", like)
    # The file has one plane per color for each image, stored column by column.
    return items.reshape(-1, 3, STL10_ARCHIVE.side, STL10_ARCHIVE.side).transpose(0, 3, 2, 1)


def _stl10_folds(path: Path, n_train: int) -> Labels:
    lines = STL10_ARCHIVE.read(path).tobytes().decode("ascii", "replace").splitlines()
    try:
        rows = [[int(word) for word in line.split()] for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} must hold only integers ({error}): {STL10_ARCHIVE.advice}") from error
    lengths = sorted({len(row) for row in rows})
    if len(rows) != _N_FOLDS or len(lengths) != 1 or lengths == [0]:
        raise ValueError(
            f"{path} has {len(rows)} lines of {' or '.join(map(str, lengths)) or 'no'} indices; it must have "
            f"{_N_FOLDS} of the same length: {STL10_ARCHIVE.advice}"
        )
    for number, row in enumerate(rows, 1):
        if outside := [index for index in row if not 0 <= index < n_train]:
            raise ValueError(
                f"{path}, line {number}, has index {outside[0]}, but the training images are 0 to "
                f"{n_train - 1}: {STL10_ARCHIVE.advice}"
            )
        if len(set(row)) < len(row):
            index = max(row, key=row.count)
            raise ValueError(
                f"{path}, line {number}, has index {index} {row.count(index)} times, but a fold contains each image "
                f"only once: {STL10_ARCHIVE.advice}"
            )
    return np.array(rows, dtype=np.int64)


@dataclass(frozen=True, eq=False, repr=False)
class CIFAR10(_Described):
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

    train_images: Bytes
    train_labels: Labels
    test_images: Bytes
    test_labels: Labels
    class_names: tuple[str, ...]


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
    home = CIFAR10_ARCHIVE.locate(folder, download=download)
    *train, test = (home / name for name in CIFAR10_ARCHIVE.files)
    # All batches have the same size, so a file that was cut off between two images is noticed too.
    like = (len(_cifar10_records(test)), test)
    return CIFAR10(*_cifar10_part(train, like), *_cifar10_part([test], like), CIFAR10_ARCHIVE.classes)


def _cifar10_records(path: Path, like: tuple[int, Path] | None = None) -> Bytes:
    n_bytes = 1 + 3 * CIFAR10_ARCHIVE.side**2
    return CIFAR10_ARCHIVE.items(path, n_bytes, "label and image of 32 x 32 x 3", like)


def _cifar10_part(paths: list[Path], like: tuple[int, Path]) -> tuple[Bytes, Labels]:
    n_images, side = like[0], CIFAR10_ARCHIVE.side
    images = np.empty((len(paths) * n_images, side, side, 3), np.uint8)
    labels = np.empty(len(paths) * n_images, np.int64)
    for k, path in enumerate(paths):
        records = _cifar10_records(path, like)
        batch = slice(k * n_images, (k + 1) * n_images)
        labels[batch] = CIFAR10_ARCHIVE.labels(records[:, 0], path)
        # The label comes first, then one plane per color, row by row.
        images[batch] = records[:, 1:].reshape(-1, 3, side, side).transpose(0, 2, 3, 1)
    return images, labels
