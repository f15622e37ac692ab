"""The number of threads: the BLAS library is limited to one while this library's own threads work.

The number of BLAS threads applies to the whole process. This library uses the same number: limiting the BLAS with
``threadpoolctl.threadpool_limits``, through joblib or with ``OPENBLAS_NUM_THREADS`` limits both.
"""

from __future__ import annotations

import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import ThreadpoolController

# From this many multiply-adds of a product, all threads of another library are used: about two milliseconds of one.
_WORTH_ALL_THREADS = 2**26


def blas_threads() -> int:
    """Return the number of threads that the BLAS library currently uses."""
    return max((library.num_threads or 1 for library in _libraries()), default=1)


def allowed_threads() -> int:
    """Return the number of threads that the caller may use: that of :func:`thread_setting`, shared by current "
    "callers."""
    with _held.lock:
        return max(1, thread_setting() // max(1, len(_held.holders)))


def thread_setting() -> int:
    """Return the number of BLAS threads before the BLAS was limited to one; 1 in a helper thread.

    It determines how work is divided. Which thread does which part may vary.
    """
    if is_helper():
        return 1
    with _held.lock:
        return _held.n_threads if _held.holders else blas_threads()


class _Held:
    """The threads that limit the BLAS library to one thread, and how many it had before.

    The number applies to the whole process. Callers in several threads would restore each other's settings, so the
    first one sets it and the last one restores it.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.holders: Counter[int] = Counter()
        self.n_threads = 1
        self.before: list[tuple[Any, int]] = []

    def enter(self, holder: int, n_times: int = 1) -> None:
        with self.lock:
            if not self.holders:
                self.n_threads = blas_threads()
                self.before = [(library, library.num_threads or 1) for library in _libraries()]
                self.set(1)
                if any((library.num_threads or 1) > 1 for library, _ in self.before):
                    self.n_threads = 1  # decided by another thread of the program, whose products the BLAS shares
            self.holders[holder] += n_times

    def leave(self, holder: int, n_times: int = 1) -> None:
        with self.lock:
            self.holders[holder] -= n_times
            if self.holders[holder] <= 0:  # below 0 in a child process that was forked in between
                del self.holders[holder]
            if not self.holders:
                self.set(None)

    def set(self, n_threads: int | None) -> None:
        """Set the number of threads of each library; None restores it."""
        for library, before in self.before:
            wanted = before if n_threads is None else n_threads
            if library.num_threads != wanted:
                library.set_num_threads(wanted)
                if hasattr(library, "clear_controlling_thread"):  # otherwise only this thread could restore it
                    library.clear_controlling_thread()


_held = _Held()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit the BLAS library to one thread; :func:`product` and the maps below share the work instead.

    It can be nested and used by several threads: the last of them restores the number. It takes microseconds.
    """
    if is_helper():  # the thread that it works for limits the library
        yield
        return
    holder = threading.get_ident()
    _held.enter(holder)
    try:
        yield
    finally:
        _held.leave(holder)


def is_held() -> bool:
    """Return whether this thread limits the BLAS library to one thread, or works for one that does."""
    return is_helper() or threading.get_ident() in _held.holders


@contextmanager
def threads_for(multiply_adds: int) -> Iterator[None]:
    """Use all threads of BLAS and OpenMP in other libraries if their products are large, otherwise one.

    Parameters
    ----------
    multiply_adds : int
        Multiply-adds of a product.
    """
    if multiply_adds >= _WORTH_ALL_THREADS and not is_helper():
        holder = threading.get_ident()
        n_times = _held.holders.get(holder, 0)
        if n_times:
            _held.leave(holder, n_times)
        try:
            yield
        finally:
            if n_times:
                _held.enter(holder, n_times)
        return
    before = [(library, library.num_threads) for library in _libraries("openmp")]
    with one_blas_thread():
        try:
            for library, _ in before:
                library.set_num_threads(1)
            yield
        finally:
            for library, n_threads in before:
                library.set_num_threads(n_threads)


def one_openmp_thread() -> None:
    """Keep torch's products in a helper thread from using further threads."""
    if is_helper():
        for library in _libraries("openmp"):  # these numbers apply to the calling thread
            library.set_num_threads(1)


_known: tuple[int, list[Any]] = (-1, [])


def _libraries(kind: str = "blas") -> list[Any]:
    """Return the libraries with threads in this process. Finding them takes a millisecond, so only after new "
    "imports."""
    global _known
    if _known[0] != len(sys.modules):
        _known = len(sys.modules), ThreadpoolController().lib_controllers
    return [library for library in _known[1] if library.user_api == kind]


_this_thread = threading.local()


def become_helper() -> None:
    """Prepare a helper thread."""
    _this_thread.helps = True
    for library in _libraries():
        if getattr(library, "threading_layer", None) == "openmp":  # each thread has its own number
            library.set_num_threads(1)


def is_helper() -> bool:
    """Return whether this is a helper thread, which uses no further threads."""
    return getattr(_this_thread, "helps", False)


@contextmanager
def sharing() -> Iterator[None]:
    """Mark this thread as a helper: work within is not shared again."""
    _this_thread.helps = True
    try:
        yield
    finally:
        _this_thread.helps = False


def _forget_holders() -> None:
    """Reset a forked child: if its parent limited the BLAS library, it stays at one thread."""
    global _held
    _held = _Held()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_holders)
