"""Results of long computations on disk, identified by their inputs. An interrupted run continues where it stopped.

A file under its final name is complete. An incomplete file comes with a journal that records its progress. The journal
is written after the data are on disk, so even after ``kill -9`` it never claims too much.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..persistence import load_with_notes, save_model
from ..utils.files import FolderLock, open_regular, read_json, write_atomically
from ..utils.npy import npy_header
from ..utils.types import Array

_SECONDS = 3.0  # from one entry in a journal to the next: after a kill, at most this much work is repeated


def fingerprint(items: Any) -> str:
    """Return a short name for the content of an array, or of a sequence of arrays that are read one at a time."""
    digest = hashlib.sha256(str(len(items)).encode())
    for item in items:
        array = np.ascontiguousarray(item)
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


class Cache:
    """A folder of results, each named by its stage and its inputs. It is created if it does not exist."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def locked(self) -> FolderLock:
        """Lock the folder for one process, as a context manager. The lock ends with the process, however it ends."""
        return FolderLock(self.folder, "run", "give another output folder")

    def path(self, stage: str, inputs: dict[str, Any], suffix: str) -> Path:
        """Return the path of the result of a stage with these inputs."""
        return self.folder / f"{stage}-{_digest_of(inputs)[:16]}{suffix}"

    def model(self, inputs: dict[str, Any], make: Callable[[], Any]) -> tuple[Any, float]:
        """Return a fitted model and the seconds it took: loaded if a complete file exists, otherwise computed."""
        path = self.path("learned", inputs, ".safetensors")
        if path.exists():
            try:
                model, notes = load_with_notes(path)
                return model, float(notes["seconds"])
            except (ValueError, KeyError, TypeError):
                _made_again(path)
        started = time.perf_counter()
        model = make()
        seconds = time.perf_counter() - started
        save_model(model, path, notes={"inputs": inputs, "seconds": seconds})
        return model, seconds

    def rows(
        self, inputs: dict[str, Any], shape: tuple[int, ...], make: Callable[[int], Iterator[Array]]
    ) -> tuple[NDArray[np.float32], float]:
        """Return an array as a memory map, and the seconds it took in all runs together.

        ``make(start)`` returns its rows from ``start`` on. Intact rows from earlier runs are kept.
        """
        path = self.path("codes", inputs, ".npy")
        journal = _Journal(path.with_suffix(".json"), shape)
        if path.exists() and not (journal.rows == shape[0] and journal.tells(path)):
            _made_again(path)
            journal.begin()
        if not path.exists():
            self._make_rows(path.with_suffix(".part"), journal, inputs, make)
            os.replace(path.with_suffix(".part"), path)
        return np.load(path, mmap_mode="r"), journal.seconds

    def _make_rows(
        self, partial: Path, journal: _Journal, inputs: dict[str, Any], make: Callable[[int], Iterator[Array]]
    ) -> None:
        if not (partial.exists() and journal.tells(partial)):
            if partial.exists() and journal.rows > 0:
                _made_again(partial)
            journal.begin()
            partial.write_bytes(journal.header)
        rows, before = make(journal.rows), journal.seconds
        last_entry = started = time.perf_counter()
        # Written, not mapped: on a full disk, a map kills the process, but a write raises an error.
        with partial.open("r+b") as file:
            file.seek(journal.end)
            file.truncate()  # what follows may be incomplete
            for number, row in enumerate(rows, journal.rows + 1):
                content = np.ascontiguousarray(row, "<f4").tobytes()
                file.write(content)
                journal.digest.update(content)
                now = time.perf_counter()
                if now - last_entry >= _SECONDS or number == journal.shape[0]:
                    last_entry = now
                    file.flush()
                    os.fsync(file.fileno())
                    journal.enter(number, before + now - started, inputs)

    def items(self, stage: str, inputs: dict[str, Any], makers: Sequence[Callable[[], Any]]) -> list[Any]:
        """Return a list of plain values, each from its maker. Values from earlier runs are kept."""
        found = self.found(stage, inputs)
        for make in makers[len(found) :]:
            found.append(make())
            self.keep(stage, inputs, found)
        return found

    def found(self, stage: str, inputs: dict[str, Any]) -> list[Any]:
        """Return the plain values from earlier runs."""
        path = self.path(stage, inputs, ".json")
        record = read_json(path)
        found = record.get("items", [])
        if path.exists() and (not isinstance(found, list) or record.get("digest") != _digest_of(found)):
            _made_again(path)
            return []
        return found

    def keep(self, stage: str, inputs: dict[str, Any], items: list[Any]) -> None:
        """Write plain values, instead of those from earlier runs."""
        record = {"items": items, "digest": _digest_of(items)}
        write_atomically(self.path(stage, inputs, ".json"), json.dumps(record, allow_nan=False).encode())


class _Journal:
    """The number of rows of a .npy file on disk, and a checksum of them; written after the rows themselves."""

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self.path = path
        self.shape = shape
        self.header = npy_header(shape)
        self.begin()
        found = read_json(path)
        rows, seconds, digest = (found.get(name) for name in ("rows", "seconds", "digest"))
        if type(rows) is int and 0 <= rows <= shape[0] and isinstance(seconds, float | int) and isinstance(digest, str):
            self.rows, self.seconds, self._told = rows, float(seconds), digest

    def begin(self) -> None:
        """Start with no rows."""
        self.rows, self.seconds, self._told = 0, 0.0, ""
        self.digest = hashlib.sha256(self.header)

    @property
    def end(self) -> int:
        """The position in the file where the rows end."""
        return len(self.header) + self.rows * 4 * int(np.prod(self.shape[1:]))

    def tells(self, path: Path) -> bool:
        """Return whether a file begins with these rows, as they were written. :attr:`digest` continues from there."""
        self.digest = hashlib.sha256()
        left = self.end
        with open_regular(path) as file:
            while left > 0 and (content := file.read(min(left, 2**20))):
                self.digest.update(content)
                left -= len(content)
        return left == 0 and self.digest.hexdigest() == self._told

    def enter(self, rows: int, seconds: float, inputs: dict[str, Any]) -> None:
        """Record the progress."""
        self.rows, self.seconds, self._told = rows, seconds, self.digest.hexdigest()
        record = {"inputs": inputs, "rows": rows, "seconds": seconds, "digest": self._told}
        write_atomically(self.path, json.dumps(record, allow_nan=False).encode())


def _made_again(path: Path) -> None:
    """Remove a damaged result, and warn about it."""
    warnings.warn(f"{path} is damaged and is computed again", stacklevel=3)
    path.unlink()


def _digest_of(items: Any) -> str:
    return hashlib.sha256(json.dumps(items, sort_keys=True, allow_nan=False).encode()).hexdigest()
