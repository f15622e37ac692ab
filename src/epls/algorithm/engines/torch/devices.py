"""Torch devices, and conversion between arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

_COMMON = ("cpu", "cuda", "mps", "xpu")
_WITHOUT_FLOAT64 = {"mps"}


def resolve_device(name: str) -> torch.device:
    """Return the device with this name, if it can be used."""
    try:
        device = torch.device(name)
        torch.ones(1, device=device).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0].split(". ")[0]
        raise ValueError(
            f"device={name!r} cannot be used here ({reason}): give one of {[d for d in _COMMON if _usable(d)]}, or "
            f"None to compute with NumPy, as in set_params(device=None)"
        ) from error
    return device


def to_device(array: np.ndarray[Any, Any], device: torch.device) -> torch.Tensor:
    """Return an array as a tensor, which shares its memory on the processor."""
    if array.dtype == np.float64 and device.type in _WITHOUT_FLOAT64:
        raise ValueError(
            f"device={device.type!r} does not support float64: give float32, as in X.astype('float32'), or another "
            f"device"
        )
    # torch warns about read-only memory, such as that of a memory map.
    return torch.from_numpy(array if array.flags.writeable else array.copy()).to(device)


def _usable(name: str) -> bool:
    try:
        torch.ones(1, device=name).item()
    except (RuntimeError, AssertionError, NotImplementedError):
        return False
    return True
