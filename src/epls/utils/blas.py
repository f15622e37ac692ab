"""How many threads there are, and whose: the BLAS library is held at one while the library's own threads work.

Its number of threads is the same for the whole process. It is also how many threads the library may use: whoever limits
the BLAS, with ``threadpoolctl.threadpool_limits``, through joblib or by ``OPENBLAS_NUM_THREADS``, limits both.
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

# Multiply-adds of a product from which on all threads of another library are used: about two milliseconds of one.
_WORTH_ALL_THREADS = 2**26


def blas_threads() -> int:
    """The number of threads that the BLAS library uses at this moment."""
    return max((library.num_threads or 1 for library in _libraries()), default=1)


def allowed_threads() -> int:
    """How many threads may work for the caller: those of :func:`thread_setting`, divided among all callers just now."""
    with _held.lock:
        return max(1, thread_setting() // max(1, len(_held.holders)))


def thread_setting() -> int:
    """As many threads as the BLAS library had before it was held at one; one in a thread that works for somebody here.

    It decides how work is divided. Who does the parts may depend on time.
    """
    if is_helper():
        return 1
    with _held.lock:
        return _held.n_threads if _held.holders else blas_threads()


class _Held:
    """Who holds the BLAS library at one thread, and how many it had before.

    Its number of threads is the same for the whole process. Callers in several threads would restore each other's, so
    the first to come sets it and the last to go restores it.
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
                    self.n_threads = 1  # another thread of the program decides, and the BLAS shares its products
            self.holders[holder] += n_times

    def leave(self, holder: int, n_times: int = 1) -> None:
        with self.lock:
            self.holders[holder] -= n_times
            if self.holders[holder] <= 0:  # less than 0 in a child that was forked in between
                del self.holders[holder]
            if not self.holders:
                self.set(None)

    def set(self, n_threads: int | None) -> None:
        """So many threads of each library; None is as many as before."""
        for library, before in self.before:
            wanted = before if n_threads is None else n_threads
            if library.num_threads != wanted:
                library.set_num_threads(wanted)
                if hasattr(library, "clear_controlling_thread"):  # else nobody but this thread could restore it
                    library.clear_controlling_thread()


_held = _Held()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the BLAS library at one thread; :func:`product` and the maps below share the work instead.

    May be entered again, and by several threads: the last of them gives the threads back. It takes microseconds.
    """
    if is_helper():  # whoever it works for holds the library
        yield
        return
    holder = threading.get_ident()
    _held.enter(holder)
    try:
        yield
    finally:
        _held.leave(holder)


def is_held() -> bool:
    """Whether this thread holds the BLAS library at one thread, or works for one that does."""
    return is_helper() or threading.get_ident() in _held.holders


@contextmanager
def threads_for(multiply_adds: int) -> Iterator[None]:
    """For what other libraries compute: all threads of BLAS and OpenMP if their products are large, and else one.

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
    """In a thread that works for another one: products of torch use no further threads in their turn."""
    if is_helper():
        for library in _libraries("openmp"):  # their numbers are those of the calling thread
            library.set_num_threads(1)


_known: tuple[int, list[Any]] = (-1, [])


def _libraries(kind: str = "blas") -> list[Any]:
    """The libraries with threads in this process. To look for them takes a millisecond: only after modules came."""
    global _known
    if _known[0] != len(sys.modules):
        _known = len(sys.modules), ThreadpoolController().lib_controllers
    return [library for library in _known[1] if library.user_api == kind]


_this_thread = threading.local()


def become_helper() -> None:
    """What a thread does first that works for others."""
    _this_thread.helps = True
    for library in _libraries():
        if getattr(library, "threading_layer", None) == "openmp":  # where each thread has a number of its own
            library.set_num_threads(1)


def is_helper() -> bool:
    """Whether this thread works for another one here; it then takes no threads in its turn."""
    return getattr(_this_thread, "helps", False)


@contextmanager
def sharing() -> Iterator[None]:
    """While this thread does its part of shared work: what is within is not shared again."""
    _this_thread.helps = True
    try:
        yield
    finally:
        _this_thread.helps = False


def _forget_holders() -> None:
    """In a forked child: if the BLAS library was held by its parent, it stays at one thread."""
    global _held
    _held = _Held()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_holders)
