"""Shared by the loaders: files of checked size, checked labels, and results that are shown by their shapes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..utils.files import open_regular

Bytes = NDArray[np.uint8]
Labels = NDArray[np.int64]
_Content = TypeVar("_Content")


class Described:
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
class TrainTest(Described):
    """Labelled images for training and testing."""

    train_images: Bytes
    train_labels: Labels
    test_images: Bytes
    test_labels: Labels
    class_names: tuple[str, ...]


def checked_folder(folder: str | os.PathLike[str]) -> Path:
    """Return the folder as a path, after checking that it is one."""
    path = Path(folder).expanduser()
    if not path.exists():
        raise FileNotFoundError(f"there is no folder {path}: check the path")
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is a file: give the folder that holds the data")
    return path


def read_file(path: Path, read: Callable[[Path], _Content], advice: str) -> _Content:
    """Return the result of ``read`` for a file. Errors name a file that is missing or cannot be read."""
    try:
        open_regular(path).close()
        return read(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no file {path}: {advice}") from error
    except OSError as error:
        reason = error.strerror or error
        raise OSError(f"{path} cannot be read ({reason}): check the file and its permissions") from error


def map_items(path: Path, item_bytes: int, item: str, advice: str, like: tuple[int, Path] | None = None) -> Bytes:
    """Return a file of items of equal size as a read-only memory map, one item per row.

    Parameters
    ----------
    path : Path
        The file.
    item_bytes : int
        The size of an item.
    item : str
        The name of an item, in the singular, for errors.
    advice : str
        What to do about a bad file, for errors.
    like : (int, Path), optional
        The required number of items, and the file that determines it; any positive number by default.

    Returns
    -------
    memmap of uint8 of shape (n_items, item_bytes)
    """
    size = read_file(path, os.path.getsize, advice)
    found = f"{path} has {size} bytes, which is {size / item_bytes:.10g} times the {item_bytes} of one {item}"
    if like is not None and size != like[0] * item_bytes:
        expected = like[0] * item_bytes
        state = "too short, or the other too long" if size < expected else "too long, or the other too short"
        raise ValueError(
            f"{found}; {like[1]} has {like[0]}, which would be {expected} bytes here. The file is {state}: {advice}"
        )
    if size == 0 or size % item_bytes:
        raise ValueError(f"{found}; it must hold a whole number of them, at least one: {advice}")
    return read_file(path, lambda p: np.memmap(p, np.uint8, "r", shape=(size // item_bytes, item_bytes)), advice)


def checked_labels(raw: NDArray[Any], path: Path, n_classes: int, *, first: int = 0) -> Labels:
    """Return labels counted from 0, given those of a file that counts from ``first``."""
    raw = np.asarray(raw)  # results computed from a memory map would be memory maps
    bad = np.flatnonzero((raw < first) | (raw >= first + n_classes))
    if bad.size:
        raise ValueError(
            f"{path} has label {raw[bad[0]]} at position {bad[0]} (counted from 0); allowed are {first} to "
            f"{first + n_classes - 1}: the file is damaged or holds something else, get it again"
        )
    return raw.astype(np.int64) - first
