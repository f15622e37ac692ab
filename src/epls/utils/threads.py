"""One place that decides how many threads work, and cuts rows into blocks for them.

The BLAS library's own threads wait for each other in a loop. On a machine that does other things, too, one of them is
not scheduled and the others burn their time waiting for it: small fits took up to 20 times as long with one other
process running. So the library holds the BLAS at one thread while it computes (:func:`one_blas_thread`), and shares
work by itself: ranges of rows go to Python threads, which run compiled code without the interpreter's lock and sleep
while they wait. Whoever is free takes the next range, so that a thread on a busy core does less of the work. And the
number of threads follows from the work: a product of few multiply-adds is done by the caller alone.

What the ranges are depends on the shapes and on how many threads are allowed, never on time: a result has the same bits
on a busy machine. Ranges begin at multiples of ``ROW_QUANTUM``, where the products of OpenBLAS are the same as those of
all rows at once. As many threads are allowed as the BLAS library has: whoever limits it, with
``threadpoolctl.threadpool_limits``, through joblib or by ``OPENBLAS_NUM_THREADS``, limits both.

Numba's own parallel loops are not used: their OpenMP threads keep spinning after a loop, and die in a forked child.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from typing import Any, TypeVar

import numpy as np

from .blas import allowed_threads, become_helper, is_held, is_helper, one_blas_thread, sharing, thread_setting
from .types import Array

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Rows that are encoded at a time: products of so many run at full speed, and their results stay in the cache.
BLOCK_ROWS = 512
#: Ranges of rows begin at multiples of this. OpenBLAS takes rows in groups of 4, 8, 12 or 16 at a time, and those left
#: over in another order of sums.
ROW_QUANTUM = 48

# Multiply-adds of a product for each thread: about a fifth of a millisecond at 40 billion a second. To wake a thread
# should take less than half of that; where the gain begins was not measured.
_WORTH_A_PRODUCT = 2**23
# Elements of a pass for each thread.
_WORTH_A_PASS = 2**20


def do_all(work: Callable[[Task], Result], tasks: Sequence[Task], n_threads: int | None = None) -> list[Result]:
    """The results of all tasks, in their order, made by this thread and its helpers: whoever is free takes the next.

    A helper that has not begun when nothing is left to do is not waited for. None is as many threads as are allowed.
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
                left.clear()  # nobody begins another task
                raise

    with one_blas_thread():
        # In the caller's context: NumPy's errstate is part of it.
        helpers = [_helpers().submit(copy_context().run, take_tasks) for _ in range(n_threads - 1)]
        try:
            with sharing():
                take_tasks()
        finally:
            begun = [helper for helper in helpers if not helper.cancel()]
            errors = [helper.exception() for helper in begun]
    for error in filter(None, errors):
        raise error
    return [results[number] for number in range(len(tasks))]


def row_ranges(n_rows: int, multiply_adds: int) -> list[slice]:
    """Ranges of rows to share a product of so many multiply-adds; one if it is not worth sharing.

    The first ranges, one for each thread, are half of the rows, and the others are half as long: few ranges, each of
    which costs a copy of what all have in common, and short ones in the end, so that nobody waits for long.
    """
    n_threads = min(multiply_adds // _WORTH_A_PRODUCT, n_rows // ROW_QUANTUM)
    n_threads = min(n_threads, thread_setting()) if n_threads > 1 else 1
    if n_threads == 1:
        return [slice(0, n_rows)]
    quarters = [*range(0, 2 * n_threads, 2), *range(2 * n_threads, 4 * n_threads)]
    cuts = [round(k * n_rows / (4 * n_threads * ROW_QUANTUM)) * ROW_QUANTUM for k in quarters]
    return [slice(start, stop) for start, stop in itertools.pairwise([*cuts, n_rows]) if start < stop]


def product(A: Array, B: Array, out: Array | None = None) -> Array:
    """The matrix product ``A @ B``, by as many threads as it is worth, none of which spins.

    Parameters
    ----------
    A, B : ndarray of shape (n, m), (m, k)
        The factors, of the same type.
    out : ndarray of shape (n, k) or None, default=None
        Where to write the product.

    Returns
    -------
    ndarray of shape (n, k)
        The product.

    Examples
    --------
    >>> import numpy as np
    >>> product(np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]]))
    array([[11.]])
    """
    multiply_adds = A.size * B.shape[1]
    if multiply_adds < 2 * _WORTH_A_PRODUCT and is_held():  # to hold it once more takes as long as a small product
        return np.matmul(A, B, out=out)
    with one_blas_thread():
        ranges = row_ranges(len(A), multiply_adds)
        if len(ranges) == 1:
            return np.matmul(A, B, out=out)
        found = np.empty((len(A), B.shape[1]), np.result_type(A, B)) if out is None else out
        do_all(lambda rows: np.matmul(A[rows], B, out=found[rows]), ranges)
        return found


def by_rows(kernel: Callable[..., object], arrays: tuple[Any, ...], *common: Any) -> None:
    """Call ``kernel(*arrays, *common)``, with the arrays cut in ranges of rows, one to each thread.

    The first array tells the size of the work. The result does not depend on the number of threads: a kernel treats
    every row by itself.
    """
    n_rows, n_threads = len(arrays[0]), arrays[0].size // _WORTH_A_PASS
    n_threads = min(n_threads, allowed_threads(), n_rows) if n_threads > 1 else 1
    if n_threads == 1:
        kernel(*arrays, *common)
        return
    cuts = [n_rows * k // n_threads for k in range(n_threads + 1)]
    ranges = [slice(start, stop) for start, stop in itertools.pairwise(cuts)]
    do_all(lambda rows: kernel(*(array[rows] for array in arrays), *common), ranges)


class Crew:
    """Threads that share the work of many short kernels, with the BLAS library at one thread; a context manager.

    Parameters
    ----------
    n_threads : int or None, default=None
        None is as many as are allowed.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = allowed_threads() if n_threads is None else n_threads
        self._held = ExitStack()

    def __enter__(self) -> Crew:
        self._held.enter_context(one_blas_thread())
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def share(self, kernel: Callable[..., object], *arguments: Any) -> None:
        """Call ``kernel(part, n_parts, *arguments)`` for all parts."""
        do_all(lambda part: kernel(part, self.n_threads, *arguments), range(self.n_threads), self.n_threads)

    def each(self, work: Callable[[Task], Result], tasks: list[Task]) -> list[Result]:
        """The results of all tasks, in their order."""
        return do_all(work, tasks, self.n_threads)


def row_blocks(n_rows: int, block_rows: int) -> Iterator[slice]:
    """All rows in ranges of so many, the last of what is left."""
    return (slice(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, block_rows))


def map_blocks(
    new_worker: Callable[[], Callable[[slice], Result]], n_rows: int, block_rows: int = BLOCK_ROWS
) -> Iterator[Result]:
    """The results for all blocks of so many rows, in their order, by all threads; see :func:`map_tasks`."""
    return map_tasks(new_worker, list(row_blocks(n_rows, block_rows)))


def map_tasks(new_worker: Callable[[], Callable[[Task], Result]], tasks: Iterable[Task]) -> Iterator[Result]:
    """The results of all tasks, in their order, by as many threads as are allowed.

    For tasks that each hold products and passes: every thread does its own with one BLAS thread, and nobody waits for
    anybody. ``new_worker()`` is called once in each thread, so that a worker can keep buffers. Only a few tasks are
    under way at a time, however many there are. A single task is done by the caller, and its products are shared.

    The BLAS library is held at one thread until the last result was taken. So the caller takes all of them without
    delay; :func:`map_in_rounds` is for iterators that are handed to users.
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
    """The same as :func:`map_tasks`, with the BLAS library as it was whenever a result is given.

    Two tasks a thread are done at a time. While the caller has the results of these, nothing is computed, and there is
    no limit on the threads of anybody else: the iterator may be held for as long as one likes.
    """
    n_threads, left = allowed_threads(), iter(tasks)
    if n_threads == 1:
        work = new_worker()
        for task in left:
            with one_blas_thread():
                result = work(task)
            yield result
        return
    work = _with_worker_of_thread(new_worker)
    with ThreadPoolExecutor(n_threads, initializer=become_helper) as pool:
        while some := list(itertools.islice(left, 2 * n_threads)):
            with one_blas_thread():
                results = list(pool.map(work, some))
            yield from results


def _with_worker_of_thread(new_worker: Callable[[], Callable[[Task], Result]]) -> Callable[[Task], Result]:
    """A function that gives a task to the worker of the thread that it is called in."""
    local = threading.local()

    def work(task: Task) -> Result:
        if not hasattr(local, "worker"):
            local.worker = new_worker()
        result: Result = local.worker(task)
        return result

    return work


_pool: ThreadPoolExecutor | None = None


def _helpers() -> ThreadPoolExecutor:
    """The threads of :func:`do_all`, which wait for work as long as the process lives: a step is too short for new."""
    global _pool
    if _pool is None:
        n_most = max(32, os.cpu_count() or 1)
        _pool = ThreadPoolExecutor(n_most, thread_name_prefix="epls", initializer=become_helper)
    return _pool


def _forget_threads() -> None:
    """In a forked child, which has none of its parent's threads."""
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_threads)
