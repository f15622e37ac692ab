"""Open vectors or images from files, folders and arrays on disk."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..data.blocks import as_blocks, open_shards
from ..utils.files import open_regular
from ..utils.npy import read_npy_header
from ..utils.optional import require
from ..utils.wording import counted, listed
from .arrays import ARRAYS, LARGEST_RATIO, ChunkedImages, archived_names, check_expansion, check_finite, load_array
from .folder import SUFFIXES, ImageFolder
from .tables import TABLES, Table, load_table

_BYTES_IN_MEMORY = 2**28
_PLACES = ("x", "y")
_IMAGES, _ZARR, _SHARDS = "folders of images", "zarr", "shards"


class ParameterError(ValueError):
    """A parameter that does not apply to the given data, and the text that follows its name in the message."""

    def __init__(self, parameter: str, reason: str) -> None:
        super().__init__(f"{parameter} {reason}")
        self.parameter = parameter
        self.reason = reason


@dataclass(frozen=True)
class Vectors:
    """Samples in rows, and the names of columns and samples if there are any."""

    X: Any  # an array, memory map, zarr array or Blocks (n_samples, n_features)
    columns: list[str] | None = None
    names: list[str] | None = None
    key: str = "file"  # what the column of the names is called

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def in_memory(self) -> Any:
        """Return the samples as an array or a memory map. For data in blocks, return up to a quarter of a gigabyte."""
        return self.X if as_blocks(self.X) is None else self.some(max(1, _BYTES_IN_MEMORY // (8 * self.X.shape[1])))

    def part(self, rows: slice) -> Vectors:
        """Return consecutive samples. Data in blocks are not read yet, and later only the blocks with these samples."""
        blocks = as_blocks(self.X)
        X = self.X[rows] if blocks is None else blocks.part(rows.start, rows.stop)
        return replace(self, X=X, names=None if self.names is None else self.names[rows])

    def some(self, n_rows: int) -> NDArray[Any]:
        """Return this many samples spread over the data, or all if there are fewer."""
        blocks = as_blocks(self.X)
        if blocks is None:
            return np.asarray(self.X[np.linspace(0, len(self) - 1, min(n_rows, len(self))).astype(int)])
        numbers = np.random.RandomState(0).permutation(len(blocks.sizes))
        n_blocks = int(np.searchsorted(np.cumsum(blocks.sizes[numbers]), n_rows)) + 1
        return np.concatenate([blocks.read(int(number)) for number in numbers[:n_blocks]])[:n_rows]


Opened: TypeAlias = Vectors | ImageFolder | ChunkedImages | NDArray[Any]


def open_data(
    path: str | os.PathLike[str],
    *,
    key: str | None = None,
    drop: Sequence[str] = (),
    columns: Sequence[str] | None = None,
    **folder: Any,
) -> Opened:
    """Open vectors or images: Vectors, or images in one of three forms.

    ``path`` is a folder of image files; a folder of .npy files, each with vectors (n, n_features) or an image (height,
    width, channels); a zarr array; a .npy or .npz array; or a .csv or .parquet table of vectors. Arrays with two
    dimensions hold vectors, and arrays with three or four hold images. Vectors may have names: in a column of the
    table, or in the array "names" beside "features" or the only other one of a .npz file. ``key`` is for .npz files
    (:func:`epls.datasets.arrays.load_array`), ``drop`` and ``columns`` are for tables
    (:func:`epls.datasets.tables.load_table`), and the others for folders of images (:class:`epls.ImageFolder`). One
    that does not apply raises a ParameterError; ``expected``, ``smallest_side`` and ``progress`` are then ignored.
    """
    path = Path(path)
    kind = _kind(path)
    signature(ImageFolder).bind_partial(path, **folder)  # misspelled names are errors for other data, too
    given = {name: value for name, value in folder.items() if name not in ("expected", "smallest_side", "progress")}
    _check_parameters(path, kind, given | {"key": key, "drop": drop, "columns": columns})
    if kind in TABLES:
        return _from_table(load_table(path, drop, columns))
    if kind in (_ZARR, _SHARDS):
        _check_files(path, folder.get("follow_links", False))
    if kind == _SHARDS:
        return Vectors(open_shards(path))
    if kind in (*ARRAYS, _ZARR):
        return _from_array(path, kind, key)
    if path.is_file():
        raise ValueError(
            f"{path} is not a folder of images, and its name does not end in {', '.join((*ARRAYS, *TABLES))}: give one "
            f"of these; put a single image in a folder"
        )
    return ImageFolder(path, **folder)


def _from_table(table: Table) -> Vectors:
    key = table.key if table.key is not None and table.key.isalpha() else "file"  # not an index of pandas
    return Vectors(table.X, table.columns, table.names, key)


def matched_rows(
    path: str | os.PathLike[str], names: Sequence[str] | None, n_samples: int, where: object, *, n_columns: int | None
) -> tuple[NDArray[Any], list[str]]:
    """Return numbers of samples from a .npy, .npz, .csv or .parquet file, a row for each sample in their order.

    Rows that have names (see :func:`open_data`) may be in any order; those of other samples are left out. Without
    names, rows are in the order of the samples. ``names`` are those of the samples, or None if they are only numbered.
    Of a table, columns that are not numbers, or whose names suggest labels, are left out; for two columns, ``x`` and
    ``y`` are used if it has them. ``where`` tells in messages what the samples are from.

    Returns
    -------
    rows : ndarray of shape (n_samples, n_columns)
        The numbers, all finite.
    remarks : list of str
        What was left out.
    """
    path, remarks = Path(path), []
    if path.suffix.lower() in TABLES:
        table = load_table(path, only_features=True, preferred=_PLACES if n_columns == len(_PLACES) else ())
        found: Opened = _from_table(table)
        if table.left_out:
            remarks.append(f"columns of {path} that are no features are left out: {listed(table.left_out)}")
    else:
        found = open_data(path)
    X: NDArray[Any] = np.asarray(found.X if isinstance(found, Vectors) else found)
    if not isinstance(found, Vectors) or X.shape[1] != (n_columns or X.shape[1]):
        needed = f"({n_samples}, {n_columns or 'n_features'})"
        raise ValueError(f"{path} has numbers of shape {X.shape}, but {needed} is needed: give a row for each sample")
    check_finite(path, X)
    if found.names is None:
        if len(X) != n_samples:
            raise ValueError(
                f"{path} has {counted(len(X), 'rows')} without names, but {where} has {counted(n_samples, 'samples')}: "
                f"give one for each, or name the rows in a column file or id (in .npz, in an array names)"
            )
        return X, remarks
    names = [str(number) for number in range(n_samples)] if names is None else names
    place = {name: number for number, name in enumerate(found.names)}
    if missing := [name for name in names if name not in place]:
        raise ValueError(
            f"{path} lacks {len(missing):,} of the {n_samples:,} samples of {where}: {_quoted(missing)}; it has names "
            f"such as {_quoted(found.names[:2])}: use the same names, or add rows for these samples"
        )
    if len(place) > n_samples:
        known = set(names)
        unknown = [name for name in found.names if name not in known]
        left_out = f"{counted(len(unknown), 'rows')} of {path} {'is' if len(unknown) == 1 else 'are'} left out"
        remarks.append(f"{left_out}, because {where} has no such samples: {_quoted(unknown)}")
    return X[[place[name] for name in names]], remarks


def _quoted(names: Sequence[str]) -> str:
    return listed([repr(name) for name in names], most=3)


def rows_have_names(path: str | os.PathLike[str]) -> bool:
    """Return whether :func:`open_data` would read each sample from its own file. The data are not opened."""
    return Path(path).is_dir() and _kind(Path(path)) == _IMAGES


def is_part_of(file: Path, folder: Path) -> bool:
    """Return whether a file belongs to the data that :func:`open_data` opens in a folder."""
    if not file.resolve().is_relative_to(folder.resolve()):
        return False
    kind = _kind(folder)
    return kind == _ZARR or file.suffix.lower() in ({".npy"} if kind == _SHARDS else {*SUFFIXES, ".npy"})


def _kind(path: Path) -> str:
    """Return the kind of data: a known file ending, or a kind of folder."""
    if not path.is_dir():
        ending = path.suffix.lower()
        return ending if ending in (*ARRAYS, *TABLES) else _IMAGES
    if any((path / name).exists() for name in ("zarr.json", ".zarray")):
        return _ZARR
    files = [file for file in path.iterdir() if not file.name.startswith(".")]
    if not files or not all(file.suffix == ".npy" and file.is_file() for file in files):
        return _IMAGES
    return _IMAGES if _n_axes(min(files)) > 2 else _SHARDS


def _n_axes(file: Path) -> int:
    """Return the number of dimensions of a .npy file, or 0 if it cannot be read. Opening it reports the error."""
    try:
        with open_regular(file) as opened:
            return len(read_npy_header(opened, os.fstat(opened.fileno()).st_size).shape)
    except (OSError, ValueError):
        return 0


def _check_parameters(path: Path, kind: str, given: dict[str, Any]) -> None:
    endings = {"key": (".npz",), "drop": TABLES, "columns": TABLES}
    others = {"follow_links": (_IMAGES, _ZARR, _SHARDS)}
    for name, value in given.items():
        if value and kind not in (endings | others).get(name, (_IMAGES,)):
            meant = f"{' and '.join(endings[name])} files" if name in endings else _IMAGES
            raise ParameterError(name, f"is for {meant}, and {path} is not one: leave it out")


def _from_array(path: Path, kind: str, key: str | None) -> Opened:
    array = _zarr_array(path) if kind == _ZARR else load_array(path, key)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"{path} holds values of type {array.dtype}: samples and pixels must be real numbers")
    if array.ndim == 2:
        if as_blocks(array) is None:  # data that are read in parts are checked while they are read
            check_finite(path, array)
        if kind == ".npz":  # small integers become float64 numbers
            check_expansion(path, array.nbytes, path.stat().st_size, 8 * array.size)
        named = kind == ".npz" and key in (None, "features")
        return Vectors(array, names=archived_names(path, len(array)) if named else None)
    if array.ndim not in (3, 4):
        raise ValueError(
            f"{path} has an array of shape {array.shape}; vectors must have shape (n, n_features), images (n, height, "
            f"width) or (n, height, width, channels)"
        )
    in_file = isinstance(array, np.memmap) and array.flags.c_contiguous
    return ChunkedImages(array) if in_file or kind == _ZARR else array


def _check_files(folder: Path, follow_links: bool) -> None:
    """Raise an error if a folder has links out of it, unless they are followed, or pipes and devices."""
    home, left = folder.resolve(), [os.fspath(folder)]
    while left:
        with os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_symlink() and not (follow_links or Path(entry.path).resolve().is_relative_to(home)):
                    raise ValueError(
                        f"{entry.path} is a link out of the folder: if you trust it, follow it with follow_links=True "
                        f"(on the command line, --follow-links)"
                    )
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif not (entry.is_file() or entry.is_dir()):  # reading a pipe could block forever
                    raise ValueError(f"{entry.path} is not a regular file: remove it")


def _zarr_array(path: Path) -> Any:
    zarr = require("zarr", "zarr", f"reading the zarr array {path}")
    try:
        array = zarr.open_array(path, mode="r")
        n_values = max(math.prod(array.shape), math.prod(array.chunks))
        if min(array.chunks, default=1) < 1:
            raise ValueError(f"its chunks have the shape {array.chunks}")
        codecs = (*(getattr(array.metadata, "filters", None) or ()), getattr(array.metadata, "compressor", None))
        if any(getattr(codec, "codec_id", "") == "pickle" for codec in codecs):  # zarr before 3.1 would unpickle chunks
            raise ValueError("it holds pickled objects, which run code when they are read")
    except Exception as error:  # zarr, its codecs and JSON raise errors of their own
        raise ValueError(f"{path} is not a zarr array that can be read ({error})") from error
    # A few bytes can state any shape: chunks that are missing are read as zeros.
    content, stored = n_values * array.dtype.itemsize, 0
    for file in path.rglob("*"):
        stored += file.lstat().st_size
        if content <= LARGEST_RATIO * stored:  # most chunks need not be looked at
            return array
    check_expansion(path, content, stored)
    return array
