"""Commands that ``torchrun`` starts in several processes: each process does its part, and the first one prints."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from .optional import torch_room

#: The commands that can run in several processes.
TOGETHER = ("fit", "transform")


def n_processes() -> int:
    """Return the number of processes that run this command."""
    return _number("WORLD_SIZE", 1)


def rank() -> int:
    """Return the rank of this process, from 0."""
    return _number("RANK", 0)


def own_rows(n_rows: int) -> slice:
    """Return the rows of this process. The sizes of any two parts differ by at most one."""
    if n_rows < n_processes():
        raise ValueError(f"{n_rows} samples are too few for {n_processes()} processes: start fewer")
    return slice(n_rows * rank() // n_processes(), n_rows * (rank() + 1) // n_processes())


def own_file(path: Path) -> Path:
    """Return the name of the part of a file that this process writes: features.part0.npy, features.part1.npy."""
    digits = len(str(n_processes() - 1))
    return path if n_processes() == 1 else path.with_name(f"{path.stem}.part{rank():0{digits}}{path.suffix}")


def was_written(path: Path, force: bool) -> bool:
    """Return whether this command wrote a file before ``torchrun`` restarted it; at the first start, there was none."""
    return _number("TORCHELASTIC_RESTART_COUNT", 0) > 0 and path.exists() and not force


def connected(device: Any) -> Any:
    """Return the connected processes that learn together; None if this one is alone."""
    if n_processes() == 1:
        return None
    distributed = torch_room("distributed")
    distributed.connect(device)
    return distributed.Processes()


def _number(name: str, otherwise: int) -> int:
    text = os.environ.get(name, str(otherwise))
    if not text.isdigit():
        raise ValueError(f"{name}={text!r} in the environment is not a number: start the processes with torchrun")
    return int(text)
