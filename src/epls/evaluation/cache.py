"""Results of long work on the disk, by what went into it: a second run takes them up where the first was interrupted.

Whatever is under its final name is complete. What is not yet complete has a journal beside it that says how far it is,
written after the data are on the disk: after ``kill -9`` at any moment the journal never claims too much.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from ..persistence import load_model, save_model, write_atomically

Array = NDArray[np.floating]


def fingerprint(images: Any) -> str:
    """A short name for the content of images, from their number and a hundred of them."""
    digest = hashlib.sha256(str(len(images)).encode())
    for number in np.unique(np.linspace(0, len(images) - 1, 100).astype(int)):
        image = np.ascontiguousarray(images[number])
        digest.update(f"{image.shape}{image.dtype}".encode())
        digest.update(image.tobytes())
    return digest.hexdigest()[:16]


class Cache:
    """A folder of results, each under the name of its stage and of what went into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For one process at a time. The lock ends with the process, however it ends."""
        with (self.folder / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RuntimeError(
                    f"another run is using {self.folder}: wait for it to end, or give another output folder"
                ) from error
            yield

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
                return load_model(path), float(_read_json(record, {}).get("seconds", np.nan))
            except ValueError:
                path.unlink()  # damaged; it can be made again
        started = time.perf_counter()
        model = make()
        seconds = time.perf_counter() - started
        write_atomically(record, json.dumps({"inputs": inputs, "seconds": seconds}).encode())
        save_model(model, path)
        return model, seconds

    def rows(
        self, inputs: dict[str, Any], shape: tuple[int, ...], block: int, make: Callable[[int, int], Array]
    ) -> tuple[NDArray[np.float32], float]:
        """An array as a memory map and the seconds that it took, in all runs together.

        ``make(start, stop)`` gives rows of it. Those that were made before are kept.
        """
        path = self.path("codes", inputs, ".npy")
        partial, record = path.with_suffix(".part"), path.with_suffix(".json")
        journal = _read_json(record, {})
        if not path.exists():
            if not partial.exists() or not {"rows", "seconds"} <= set(journal):
                journal = {"inputs": inputs, "rows": 0, "seconds": 0.0}
            with partial.open("r+b" if journal["rows"] else "w+b") as file:
                npy_format.write_array_header_2_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
                file.seek(file.tell() + journal["rows"] * 4 * int(np.prod(shape[1:])))
                file.truncate()  # rows after these may be incomplete
                # Written, not mapped: on a full disk a map kills the process, a write raises an error.
                for start in range(journal["rows"], shape[0], block):
                    started = time.perf_counter()
                    stop = min(start + block, shape[0])
                    file.write(np.ascontiguousarray(make(start, stop), "<f4").tobytes())
                    file.flush()
                    os.fsync(file.fileno())
                    journal |= {"rows": stop, "seconds": journal["seconds"] + time.perf_counter() - started}
                    write_atomically(record, json.dumps(journal).encode())
            os.replace(partial, path)
        found: NDArray[np.float32] = np.load(path, mmap_mode="r")
        return found, float(journal.get("seconds", np.nan))

    def items(self, stage: str, inputs: dict[str, Any], makers: list[Callable[[], Any]]) -> list[Any]:
        """A list of plain values, each from its maker; those that were made before are kept."""
        path = self.path(stage, inputs, ".json")
        found = _read_json(path, [])
        for make in makers[len(found) :]:
            found.append(make())
            write_atomically(path, json.dumps(found).encode())
        return list(found)


def _read_json(path: Path, default: Any) -> Any:
    try:
        return json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return default
