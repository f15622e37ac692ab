"""``epls cache``: features of images on disk, so that the next command on the same files need not compute them again.

A set of features is named by the files it is of (path, size, time of change), all settings, and the code that computed
it. It is a checked container; one that is damaged, or has the name but not the inputs, is ignored and written again.
Each file is complete or absent, so any number of commands may run at the same time.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import options

if TYPE_CHECKING:
    from ..utils.types import Array

_FORMAT = 1
_MOST_BYTES = 2**30  # of all sets; those not used for the longest time are removed
_BEHIND = 2.0  # seconds that the time of a file may lag behind the clock; file systems round it down
_FEATURES, _MODEL = ".features", ".model"


@click.command("cache")
@click.option("--clear", is_flag=True, help="Remove all of them.")
@options.as_json
def command(clear: bool, as_json: bool) -> None:
    """Show how many features of images are kept for later commands on the same files, and where.

    `epls explore`, `classify`, `cluster` and `transform` keep up to a gigabyte; what was not used for the longest time
    is removed. The folder is the usual one for caches, or the one that the environment variable EPLS_CACHE_DIR names.
    """
    from ..utils.wording import counted

    there = _folder()
    sets = _sets(there)
    n_bytes = sum(size for _, size, _ in sets)
    if clear:
        for name, _, _ in sets:
            _remove(there, name)
    facts = {"folder": str(there), "sets": len(sets), "bytes": n_bytes, "cleared": clear}
    told = f"{counted(len(sets), 'sets')} of features, {n_bytes / 1e6:.1f} MB, in {there}"
    options.print_result(as_json, facts, f"removed {told}" if clear else told)


def kept_features(
    files: list[Path], settings: dict[str, Any], opened: float, compute: Callable[[], tuple[Array, Any]]
) -> tuple[Array, Any]:
    """Return features of files with these settings, and the model of them or None: those kept, or computed and kept.

    ``opened`` is the time when the files were about to be read: what changed since then is not kept.
    """
    inputs = _inputs(files, settings, opened)
    if inputs is None:
        return compute()
    there = _folder()
    name = hashlib.sha256(json.dumps(inputs, sort_keys=True, allow_nan=False).encode()).hexdigest()[:32]
    found = _read(there / name, inputs)
    if found is not None:
        options.tell("features that an earlier command computed are used; --no-cache computes them again", err=True)
        return found
    found = compute()
    if inputs == _inputs(files, settings, opened):
        try:
            _write(there / name, inputs, *found)
        except OSError as error:
            options.tell(f"the features are not kept for later commands ({error})", err=True)
    return found


def _folder() -> Path:
    from ..utils.optional import require

    chosen = os.environ.get("EPLS_CACHE_DIR")
    return Path(chosen or require("platformdirs", "cli", "the cache").user_cache_dir("epls", appauthor=False))


def _inputs(files: list[Path], settings: dict[str, Any], opened: float) -> dict[str, Any] | None:
    """Return what features depend on, as plain values; None if a file changed while the command was running."""
    from .._version import __version__

    code, data = _stamp(sorted(Path(__file__).parents[1].rglob("*.py"))), _stamp(files, opened)
    return None if code is None or data is None else settings | {"epls": __version__, "code": code, "files": data}


def _stamp(files: list[Path], opened: float = math.inf) -> str | None:
    """Return a digest of the paths, sizes and times of files; None if one is gone, or was written since ``opened``."""
    digest, now = hashlib.sha256(), time.time()
    try:
        for file in files:
            about = file.stat()
            if opened - _BEHIND <= about.st_mtime <= now:
                return None
            digest.update(os.fsencode(os.path.abspath(file)) + f"\0{about.st_size} {about.st_mtime_ns}\n".encode())
    except OSError:
        return None
    return digest.hexdigest()


def _read(path: Path, inputs: dict[str, Any]) -> tuple[Array, Any] | None:
    """Return the features with these inputs and their model, if they are there and undamaged."""
    import numpy as np

    from ..persistence import load_model
    from ..utils.container import read_container

    features, model = path.with_suffix(_FEATURES), path.with_suffix(_MODEL)
    try:
        if features.stat().st_size > _MOST_BYTES:
            return None
        header, arrays = read_container(features, _FORMAT)
        rows: Array = arrays["rows"]
        fits = header["inputs"] == inputs and rows.ndim == 2 and rows.dtype == np.float32
        if not fits or len(rows) != inputs["n_samples"] or not np.isfinite(rows).all():
            return None
        found = rows, load_model(model) if header["has_model"] else None
        os.utime(features)
    except (OSError, ValueError, KeyError):  # one that cannot be used is written again
        return None
    return found


def _write(path: Path, inputs: dict[str, Any], rows: Array, model: Any) -> None:
    """Write features, and remove those not used for the longest time if all need too much room."""
    from ..persistence import save_model
    from ..utils.container import write_container

    if rows.nbytes > _MOST_BYTES // 2:
        return
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if model is not None:
        save_model(model, path.with_suffix(_MODEL))
    header = {"format": _FORMAT, "inputs": inputs, "has_model": model is not None}
    write_container(path.with_suffix(_FEATURES), header, {"rows": rows})
    sets = _sets(path.parent)
    n_bytes = sum(size for _, size, _ in sets)
    for name, size, _ in sets:
        if n_bytes > _MOST_BYTES:
            _remove(path.parent, name)
            n_bytes -= size


def _sets(folder: Path) -> list[tuple[str, int, float]]:
    """Return name, size and time of the last use of each set of features; the one not used for longest comes first."""
    sets: dict[str, tuple[int, float]] = {}
    for file in folder.glob("*"):
        if file.suffix in (_FEATURES, _MODEL):
            with suppress(OSError):  # another command may just have removed it
                size, used = sets.get(file.stem, (0, 0.0))
                about = file.stat()
                sets[file.stem] = size + about.st_size, max(used, about.st_mtime)
    return sorted(((name, size, used) for name, (size, used) in sets.items()), key=lambda one: one[2])


def _remove(folder: Path, name: str) -> None:
    for suffix in (_FEATURES, _MODEL):
        with suppress(OSError):
            (folder / f"{name}{suffix}").unlink(missing_ok=True)
