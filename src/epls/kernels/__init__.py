"""Compiled inner loops: arrays in, arrays out; no validation, no classes.

numba compiles a kernel when it is first called, and the user waits. Loops compile quickly. Operations on whole arrays
(``a[:] = b``, ``a -= 1``, ``np.where``) take seconds each, because numba compiles broadcasting and its error messages.
A new array, ``min``, ``max`` and a call of another function take some hundredths of a second each.
``benchmarks/first_use.py`` measures the time.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from numba import njit


def kernel(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function for calls from Python and from other kernels.

    Without an entry point for C, it compiles a seventh faster. The result is cached on disk; without a writable folder,
    every process compiles it again.
    """
    if function is None:
        return partial(kernel, **options)
    options = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True} | options
    try:
        return njit(function, cache=True, **options)
    except RuntimeError:  # "no locator available": numba found no folder for its cache
        _tell_of_compiling()
        return njit(function, **options)


@lru_cache
def _tell_of_compiling() -> None:
    """Warn once in a process."""
    warnings.warn(
        "there is no writable folder for compiled code, so every process compiles it again, which takes seconds: "
        "set the environment variable NUMBA_CACHE_DIR to a writable folder",
        stacklevel=2,
    )
