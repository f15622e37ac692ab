"""How many threads there are, and how work is divided among them. No other file decides how many there may be.

The number is that of the BLAS library, which applies to the whole process: limiting the BLAS with
``threadpoolctl.threadpool_limits``, through joblib or with ``OPENBLAS_NUM_THREADS`` limits this library, too.

The BLAS library's own threads wait for each other in a busy loop. On a machine with other work, one of them is not
scheduled and the others waste their time waiting for it: small fits took up to 20 times as long with one other process
running. So this library limits the BLAS to one thread while it computes (:func:`one_blas_thread`), and divides the work
itself: ranges of rows go to Python threads, which run compiled code without the interpreter's lock and sleep while they
wait. A free thread takes the next range, so a thread on a busy core does less of the work. The number of threads
depends on the work: the caller alone computes a product of few multiply-adds.

The ranges depend on the shapes and on the allowed number of threads, never on time: a result has the same bits on a
busy machine. Ranges begin at multiples of ``ROW_QUANTUM``, where the products of OpenBLAS are the same as those of all
rows at once.

Numba's own parallel loops are not used: their OpenMP threads keep spinning after a loop, and die in a forked child.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import cache
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from .types import Array

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Rows that are encoded at a time: products of this many run at full speed, and their results stay in the cache.
BLOCK_ROWS = 512
#: Ranges of rows begin at multiples of this. OpenBLAS processes rows in groups of 4, 8, 12 or 16, and the remaining
#: rows with another order of sums.
ROW_QUANTUM = 48

# Multiply-adds of a product for each thread: about a fifth of a millisecond at 40 billion a second. Waking a
# thread should take less than half of that; the break-even point was not measured.
_WORTH_A_PRODUCT = 2**23
# Elements of a pass for each thread.
_WORTH_A_PASS = 2**20
# From this many multiply-adds of a product, all threads of another library are used: about two milliseconds of one.
_WORTH_ALL_THREADS = 2**26


def blas_threads() -> int:
    """Return the number of threads that the BLAS library currently uses."""
    return max((library.num_threads or 1 for library in _libraries()), default=1)


def allowed_threads() -> int:
    """Return the number of threads that the caller may use: its share of :func:`thread_setting`."""
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


# The number applies to the whole process. Callers in several threads would restore each other's settings, so the first
# one sets it and the last one restores it.
class _Held:
    """The threads that limit the BLAS library to one thread, and how many it had before."""

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
                _set_threads((library, 1) for library, _ in self.before)
                if any((library.num_threads or 1) > 1 for library, _ in self.before):
                    self.n_threads = 1  # decided by another thread of the program, whose products the BLAS shares
            self.holders[holder] += n_times

    def leave(self, holder: int, n_times: int = 1) -> None:
        with self.lock:
            self.holders[holder] -= n_times
            if self.holders[holder] <= 0:  # below 0 in a child process that was forked in between
                del self.holders[holder]
            if not self.holders:
                _set_threads(self.before)


_held = _Held()


def _set_threads(wanted: Iterable[tuple[Any, int]]) -> None:
    for library, n_threads in wanted:
        if library.num_threads != n_threads:
            library.set_num_threads(n_threads)
            if hasattr(library, "clear_controlling_thread"):  # otherwise only this thread could restore it
                library.clear_controlling_thread()


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


@contextmanager
def threads_for(multiply_adds: int) -> Iterator[None]:
    """Use all threads of BLAS and OpenMP in other libraries for products of many multiply-adds, otherwise one."""
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
            _set_threads((library, 1) for library, _ in before)
            yield
        finally:
            _set_threads(before)


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


_known: tuple[int, list[Any]] = (-1, [])


def _libraries(kind: str = "blas") -> list[Any]:
    """Return the libraries with threads in this process. They are searched again only after new imports."""
    global _known
    if _known[0] != len(sys.modules):
        _known = len(sys.modules), ThreadpoolController().lib_controllers
    return [library for library in _known[1] if library.user_api == kind]


def do_all(work: Callable[[Task], Result], tasks: Sequence[Task], n_threads: int | None = None) -> list[Result]:
    """Return the results of all tasks, in order. This thread and its helpers take the next task when they are free.

    A helper that has not started when no tasks are left is not waited for. None means all allowed threads.
    """
    if len(tasks) <= 1 or is_helper():
        n_threads = 1
    n_threads = min(allowed_threads() if n_threads is None else n_threads, len(tasks))
    if n_threads <= 1:
        return [work(task) for task in tasks]
    left, results = deque(enumerate(tasks)), dict[int, Result]()

    def take_tasks() -> None:
        while left:
            try:
                number, task = left.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                results[number] = work(task)
            except BaseException:
                left.clear()  # no thread starts another task
                raise

    with one_blas_thread():
        # In the caller's context, which includes NumPy's errstate.
        helpers = [_helpers().submit(copy_context().run, take_tasks) for _ in range(n_threads - 1)]
        _this_thread.helps = True  # what it does is not shared again
        try:
            take_tasks()
        finally:
            _this_thread.helps = False
            begun = [helper for helper in helpers if not helper.cancel()]
            errors = [helper.exception() for helper in begun]
    for error in filter(None, errors):
        raise error
    return [results[number] for number in range(len(tasks))]


def row_ranges(n_rows: int, multiply_adds: int) -> list[slice]:
    """Return the ranges of rows for a product of this many multiply-adds; a single one if sharing does not pay.

    The first ranges, one for each thread, make up half of the rows; the others are half as long. There are few, since
    each costs a copy of the shared factor, and they are short at the end, so that no thread waits long.
    """
    n_threads = min(multiply_adds // _WORTH_A_PRODUCT, n_rows // ROW_QUANTUM)
    n_threads = min(n_threads, thread_setting()) if n_threads > 1 else 1
    if n_threads == 1:
        return [slice(0, n_rows)]
    quarters = [*range(0, 2 * n_threads, 2), *range(2 * n_threads, 4 * n_threads)]
    cuts = [round(k * n_rows / (4 * n_threads * ROW_QUANTUM)) * ROW_QUANTUM for k in quarters]
    return [slice(start, stop) for start, stop in itertools.pairwise([*cuts, n_rows]) if start < stop]


def product(A: Array, B: Array, out: Array | None = None) -> Array:
    """Return the matrix product ``A @ B`` of factors of one type, computed by as many threads as are useful."""
    multiply_adds = A.size * B.shape[1]
    is_limited = is_helper() or threading.get_ident() in _held.holders
    if multiply_adds < 2 * _WORTH_A_PRODUCT and is_limited:  # limiting it again takes as long as a small product
        return np.matmul(A, B, out=out)
    with one_blas_thread():
        ranges = row_ranges(len(A), multiply_adds)
        if len(ranges) == 1:
            return np.matmul(A, B, out=out)
        found = np.empty((len(A), B.shape[1]), np.result_type(A, B)) if out is None else out
        do_all(lambda rows: np.matmul(A[rows], B, out=found[rows]), ranges)
        return found


def by_rows(kernel: Callable[..., object], arrays: tuple[Any, ...], *common: Any) -> None:
    """Call ``kernel(*arrays, *common)``, with the arrays divided into ranges of rows, one for each thread.

    The first array determines the amount of work. The result does not depend on the number of threads, because a kernel
    treats every row separately.
    """
    n_rows, n_threads = len(arrays[0]), arrays[0].size // _WORTH_A_PASS
    n_threads = min(n_threads, allowed_threads(), n_rows) if n_threads > 1 else 1
    if n_threads == 1:
        kernel(*arrays, *common)
        return
    cuts = [n_rows * k // n_threads for k in range(n_threads + 1)]
    ranges = [slice(start, stop) for start, stop in itertools.pairwise(cuts)]
    do_all(lambda rows: kernel(*(array[rows] for array in arrays), *common), ranges)


def share(kernel: Callable[..., object], n_threads: int, *arguments: Any) -> None:
    """Call ``kernel(part, n_threads, *arguments)`` for all parts, one for each thread."""
    do_all(lambda part: kernel(part, n_threads, *arguments), range(n_threads), n_threads)


def row_blocks(n_rows: int, block_rows: int) -> Iterator[slice]:
    """Return consecutive ranges of ``block_rows`` rows; the last one may be shorter."""
    return (slice(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, block_rows))


def map_blocks(
    new_worker: Callable[[], Callable[[slice], Result]], n_rows: int, block_rows: int = BLOCK_ROWS
) -> Iterator[Result]:
    """Iterate over the results for all blocks of rows, in order, with all threads; see :func:`map_tasks`."""
    return map_tasks(new_worker, list(row_blocks(n_rows, block_rows)))


def map_tasks(new_worker: Callable[[], Callable[[Task], Result]], tasks: Iterable[Task]) -> Iterator[Result]:
    """Iterate over the results of all tasks, in order, with all allowed threads.

    It is for tasks with products and passes of their own: every thread uses one BLAS thread, and none waits for
    another. ``new_worker()`` is called once in each thread, so that a worker can keep buffers. Only a few tasks are in
    progress at a time, however many there are. The caller does a single task itself, and its products are shared.

    The BLAS library is limited to one thread until the last result is taken, so the caller must take all of them
    without delay; :func:`map_in_rounds` is for iterators that are returned to users.
    """
    with one_blas_thread():
        n_threads = allowed_threads() if not isinstance(tasks, Sequence) or len(tasks) > 1 else 1
        if n_threads == 1:
            yield from map(new_worker(), tasks)
            return
        work = _with_worker_of_thread(new_worker)
        waiting: deque[Future[Result]] = deque()
        with ThreadPoolExecutor(n_threads, initializer=become_helper) as pool:
            try:
                for task in tasks:
                    waiting.append(pool.submit(work, task))
                    if len(waiting) > 2 * n_threads:
                        yield waiting.popleft().result()
                while waiting:
                    yield waiting.popleft().result()
            finally:
                pool.shutdown(cancel_futures=True)


def map_in_rounds(new_worker: Callable[[], Callable[[Task], Result]], tasks: Iterable[Task]) -> Iterator[Result]:
    """Do the same as :func:`map_tasks`, but restore the BLAS library before each result is returned.

    Two tasks per thread are done at a time. While the caller uses their results, nothing is computed, and the threads
    of other code are not limited: the caller may take as long as it likes.
    """
    n_threads, left = allowed_threads(), iter(tasks)
    work = _with_worker_of_thread(new_worker)
    with ThreadPoolExecutor(n_threads, initializer=become_helper) as pool:
        while some := list(itertools.islice(left, 2 * n_threads)):
            with one_blas_thread():
                results = list(pool.map(work, some))
            yield from results


def _with_worker_of_thread(new_worker: Callable[[], Callable[[Task], Result]]) -> Callable[[Task], Result]:
    """Return a function that passes a task to the worker of the calling thread."""
    local = threading.local()

    def work(task: Task) -> Result:
        if not hasattr(local, "worker"):
            local.worker = new_worker()
        return local.worker(task)

    return work


@cache
def _helpers() -> ThreadPoolExecutor:
    """Return the threads of :func:`do_all`. They are kept: a training step is too short to start new ones."""
    return ThreadPoolExecutor(max(32, os.cpu_count() or 1), thread_name_prefix="epls", initializer=become_helper)


def _forget_threads() -> None:
    """Reset a forked child, which has none of its parent's threads. A BLAS that was limited stays at one thread."""
    global _held
    _held = _Held()
    _helpers.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
