"""Compiled functions, kept on the disk if there is a place for them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numba


def njit(*function: Callable[..., Any], cache: bool = False, **options: Any) -> Any:
    """Compile a function as ``numba.njit`` does. If nothing can be kept, every process compiles it anew."""
    if not function:
        return lambda found: njit(found, cache=cache, **options)
    try:
        return numba.njit(*function, cache=cache, **options)
    except RuntimeError:  # "no locator available": numba has looked for a place; it compiles only when called
        if not cache:
            raise
        _tell_of_compiling()
        return numba.njit(*function, **options)


@lru_cache
def _tell_of_compiling() -> None:
    """Warn once in a process."""
    warnings.warn(
        "there is no writable folder for compiled code, so every process compiles it anew, which takes seconds: "
        "set the environment variable NUMBA_CACHE_DIR to a writable folder",
        stacklevel=2,
    )
