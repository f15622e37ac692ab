"""Products in bfloat16, computed by torch, if the processor or the device supports them.

Features need fewer than the 24 bits of a float32. A bfloat16 has the same range with 8 bits, and processors with
AVX512_BF16, AMX or ARM's BF16 multiply it faster (2.6 times on two cores with AVX512_BF16). Factors are rounded to it,
and so is the final sum of a product; biases, activations, pooling, weights, the optimiser and the target stay float32.

On other processors, torch emulates it, at less than a fiftieth of the speed. There, and without torch, products are
float32, and one warning says so.
"""

from __future__ import annotations

import platform
import time
import warnings
from functools import cache
from typing import Any

import numpy as np

from ..utils.threads import one_openmp_thread, product
from ..utils.types import Array

PRECISIONS = ("float32", "bfloat16", "auto")

_FAST_ENOUGH = 0.9  # relative to the time in float32
_told: set[str] = set()
# For tests: the same numbers as with bfloat16, computed in float32.
_simulated = False


def uses_half(precision: str, device: str | None = None) -> bool:
    """Return whether to compute in bfloat16. If it is requested but unavailable, one warning says why.

    Parameters
    ----------
    precision : {"float32", "bfloat16", "auto"}
        "auto" uses bfloat16 if it is faster.
    device : str or None, default=None
        Where to compute; None means the processor.

    Examples
    --------
    >>> uses_half("float32")
    False
    """
    if precision == "float32":
        return False
    reason = "" if _simulated and device is None else why_not(device or "cpu")
    if reason and precision == "bfloat16":
        tell_float32(reason)
    return not reason


def tell_float32(reason: str) -> None:
    """Warn that products are float32, once for each reason."""
    if reason not in _told:
        _told.add(reason)
        warnings.warn(f'precision="bfloat16" falls back to float32: {reason}', stacklevel=4)


@cache
def why_not(device: str) -> str:
    """Return the reason why bfloat16 is not faster than float32 on a device; empty if it is."""
    try:
        import torch
    except ImportError:
        return 'torch is not installed: pip install "epls[torch]"'
    kind = torch.device(device).type
    if kind == "cpu" and platform.machine().lower() in ("x86_64", "amd64"):
        flags = [getattr(torch.cpu, f"_is_{name}_supported", lambda: True) for name in ("avx512_bf16", "amx_tile")]
        if not any(flag() for flag in flags):
            return "this processor has neither AVX512_BF16 nor AMX"
    share = _time_against_float32(device)
    return "" if share < _FAST_ENOUGH else f"on {device}, it would take {share:.1f} times the time of float32"


def _time_against_float32(device: str) -> float:
    """Return the time of a product in bfloat16 relative to float32: the best of several alternating runs."""
    import torch

    factors = [torch.ones(512, 512, device=device, dtype=kind) for kind in (torch.float32, torch.bfloat16)]
    best = [np.inf, np.inf]
    for _ in range(6):
        for number, factor in enumerate(factors):
            started = time.perf_counter()
            (factor @ factor)[0, 0].item()  # waits for the device
            best[number] = min(best[number], time.perf_counter() - started)
    return best[1] / best[0]


class HalfWeights:
    """Weights in bfloat16, prepared for many products, for one thread.

    Parameters
    ----------
    weights : ndarray of float32 of shape (n_units, n_inputs)
        A unit per row.
    """

    def __init__(self, weights: Array) -> None:
        if not _simulated:
            import torch

            torch.get_num_threads()  # the first call in a thread sets its number of threads
            one_openmp_thread()
        self._columns = _half(weights).T

    def products(self, inputs: Array, out: Array) -> Array:
        """Write ``inputs @ weights.T`` to ``out``, both float32, and return it."""
        return _to_float32(_half(inputs), self._columns, out)


def half_product(A: Array, B: Array, out: Array) -> Array:
    """Write ``A @ B`` to ``out``, all float32, and return it."""
    return _to_float32(_half(A), _half(B), out)


def _half(array: Array) -> Any:
    if _simulated:
        return rounded(array)
    import torch

    return torch.from_numpy(array if array.flags.writeable else array.copy()).bfloat16()


def _to_float32(A: Any, B: Any, out: Array) -> Array:
    if _simulated:
        out[...] = rounded(product(A, B))
        return out
    import torch

    torch.from_numpy(out).copy_(A @ B)
    return out


def rounded(array: Array) -> Array:
    """Round finite float32 to bfloat16 (to nearest, ties to even); return them as float32.

    Examples
    --------
    >>> rounded(np.array([1.0, 1.001, 1.01], np.float32)).tolist()
    [1.0, 1.0, 1.0078125]
    """
    bits = np.ascontiguousarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)).view(np.float32)
