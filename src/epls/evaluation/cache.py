"""Results of long work on the disk, by what went into it: a second run takes them up where the first was interrupted.

Whatever is under its final name is complete. What is not yet complete has a journal beside it that says how far it is,
written after the data are on the disk: after ``kill -9`` at any moment the journal never claims too much.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.typing import NDArray

from ..persistence import load_model, save_model
from ..utils.files import npy_header, write_atomically
from ..utils.types import Array


def fingerprint(items: Any) -> str:
    """A short name for the content of an array, or of a sequence of arrays such as images, read one at a time."""
    digest = hashlib.sha256(str(len(items)).encode())
    for item in items:
        array = np.ascontiguousarray(item)
        digest.update(f"{array.shape}{array.dtype}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()[:16]


class Cache:
    """A folder of results, each under the name of its stage and of what went into it.

    Parameters
    ----------
    folder : Path
        Where the results are; created if it does not exist.
    seconds : float, default=3
        From one entry in a journal to the next. After a kill, the work of at most that time is done again.
    """

    def __init__(self, folder: Path, *, seconds: float = 3.0) -> None:
        self.folder = folder
        self.seconds = seconds
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For one process at a time. The lock ends with the process, however it ends."""
        lock = FileLock(self.folder / ".lock")
        try:
            lock.acquire(timeout=0)
        except Timeout as error:
            raise RuntimeError(
                f"another run is using {self.folder}: wait for it to end, or give another output folder"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def path(self, stage: str, inputs: dict[str, Any], suffix: str) -> Path:
        """Where the result of a stage with these inputs has its place."""
        digest = hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:16]
        return self.folder / f"{stage}-{digest}{suffix}"

    def model(self, inputs: dict[str, Any], make: Callable[[], Any]) -> tuple[Any, float]:
        """A fitted model and the seconds that it took: loaded if it was saved before and is whole, else made."""
        path = self.path("learned", inputs, ".safetensors")
        record = path.with_suffix(".json")
        if path.exists():
            try:
                return load_model(path), float(_read_dict(record).get("seconds", np.nan))
            except ValueError:
                path.unlink()  # damaged; it can be made again
        started = time.perf_counter()
        model = make()
        seconds = time.perf_counter() - started
        write_atomically(record, json.dumps({"inputs": inputs, "seconds": seconds}).encode())
        save_model(model, path)
        return model, seconds

    def rows(
        self, inputs: dict[str, Any], shape: tuple[int, ...], make: Callable[[int], Iterator[Array]]
    ) -> tuple[NDArray[np.float32], float]:
        """An array as a memory map and the seconds that it took, in all runs together.

        ``make(start)`` gives its rows from ``start`` on. Those that were made before are kept.
        """
        path = self.path("codes", inputs, ".npy")
        record = path.with_suffix(".json")
        if not path.exists():
            self._make_rows(path.with_suffix(".part"), record, inputs, shape, make)
            os.replace(path.with_suffix(".part"), path)
        seconds = float(_read_dict(record).get("seconds", np.nan))
        try:
            return np.load(path, mmap_mode="r"), seconds
        except (ValueError, EOFError):
            path.unlink()  # damaged; it can be made again
            return self.rows(inputs, shape, make)

    def _make_rows(
        self,
        partial: Path,
        record: Path,
        inputs: dict[str, Any],
        shape: tuple[int, ...],
        make: Callable[[int], Iterator[Array]],
    ) -> None:
        header = npy_header(shape)
        row_bytes = 4 * int(np.prod(shape[1:]))
        journal = _read_dict(record)
        done = journal.get("rows", 0)
        end = len(header) + done * row_bytes
        if not {"rows", "seconds"} <= set(journal) or not partial.exists() or partial.stat().st_size < end:
            journal, done, end = {"inputs": inputs, "rows": 0, "seconds": 0.0}, 0, len(header)
            partial.write_bytes(header)
        rows, before, started = make(done), journal["seconds"], time.perf_counter()
        last_entry = started
        # Written, not mapped: on a full disk a map kills the process, a write raises an error.
        with partial.open("r+b") as file:
            file.seek(end)
            file.truncate()  # what follows may be incomplete
            for number, row in enumerate(rows, done + 1):
                file.write(np.ascontiguousarray(row, "<f4").tobytes())
                now = time.perf_counter()
                if now - last_entry >= self.seconds or number == shape[0]:
                    last_entry = now
                    file.flush()
                    os.fsync(file.fileno())
                    journal |= {"rows": number, "seconds": before + now - started}
                    write_atomically(record, json.dumps(journal).encode())

    def items(self, stage: str, inputs: dict[str, Any], makers: Sequence[Callable[[], Any]]) -> list[Any]:
        """A list of plain values, each from its maker; those that were made before are kept."""
        path = self.path(stage, inputs, ".json")
        found = _read_json(path)
        found = found if isinstance(found, list) else []
        for make in makers[len(found) :]:
            found.append(make())
            write_atomically(path, json.dumps(found).encode())
        return found


def _read_json(path: Path) -> Any:
    """What a JSON file holds; None if it is not there, or damaged."""
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None


def _read_dict(path: Path) -> dict[str, Any]:
    found = _read_json(path)
    return found if isinstance(found, dict) else {}
