"""One place that decides how many threads work, and cuts rows into blocks for them.

The matrix products run on the threads of the BLAS library. The passes between them run on as many Python threads, each
on a range of rows in compiled code without the interpreter's lock. Numba's own parallel loops are not used: their
OpenMP threads keep spinning after a loop and take the cores from the BLAS (an epoch took ten times as long), and they
die in a forked child. Whoever limits the BLAS, with ``threadpoolctl.threadpool_limits`` or through joblib, limits both.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeVar

from threadpoolctl import ThreadpoolController, threadpool_info, threadpool_limits

Task = TypeVar("Task")
Result = TypeVar("Result")

#: Rows that are encoded at a time: products of so many run at full speed, and their results stay in the cache.
BLOCK_ROWS = 512

# Elements of a pass; below that, it takes longer to hand over than to do. The BLAS threads spin for a while after a
# product, so that on two cores a second thread gains nothing on 1600 x 1600 elements (1.2 ms instead of 1.0).
_WORTH_A_THREAD = 3_000_000


def blas_threads() -> int:
    """The number of threads that the BLAS library uses at this moment."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)


def row_blocks(n_rows: int, block_rows: int) -> Iterator[slice]:
    """All rows in ranges of so many, the last of what is left."""
    return (slice(start, min(start + block_rows, n_rows)) for start in range(0, n_rows, block_rows))


def map_blocks(
    new_worker: Callable[[], Callable[[slice], Result]], n_rows: int, block_rows: int = BLOCK_ROWS
) -> Iterator[Result]:
    """The results for all blocks of so many rows, in their order, by all threads; see :func:`map_tasks`."""
    if n_rows <= block_rows:  # to ask how many threads there are takes longer than a single block of few rows
        return (new_worker()(rows) for rows in row_blocks(n_rows, block_rows))
    return map_tasks(new_worker, row_blocks(n_rows, block_rows))


def map_tasks(new_worker: Callable[[], Callable[[Task], Result]], tasks: Iterable[Task]) -> Iterator[Result]:
    """The results of all tasks, in their order, made by as many threads as the BLAS library uses at this moment.

    For tasks that each hold products and passes: every thread does its own with one BLAS thread, and nobody waits for
    anybody. ``new_worker()`` is called once in each thread, so that a worker can keep buffers. Only a few tasks are
    under way at a time, however many there are.

    Called in a thread of somebody's pool, it takes no further threads: limits of the BLAS library are for the whole
    process, and those of several callers would restore each other's. For the same reason the caller takes all results
    without delay; :func:`map_in_rounds` is for iterators that are handed to users.
    """
    n_threads = _free_threads()
    if n_threads == 1:
        yield from map(new_worker(), tasks)
        return
    work = _with_worker_of_thread(new_worker)
    waiting: deque[Future[Result]] = deque()
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
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
    n_threads, left = _free_threads(), iter(tasks)
    if n_threads == 1:
        yield from map(new_worker(), left)
        return
    work, libraries = _with_worker_of_thread(new_worker), ThreadpoolController()  # to find them takes milliseconds
    with ThreadPoolExecutor(n_threads) as pool:
        while some := list(itertools.islice(left, 2 * n_threads)):
            with libraries.limit(limits=1, user_api="blas"):
                results = list(pool.map(work, some))
            yield from results


def _free_threads() -> int:
    """How many threads a map may use, called from this one."""
    return blas_threads() if threading.current_thread() is threading.main_thread() else 1


def _with_worker_of_thread(new_worker: Callable[[], Callable[[Task], Result]]) -> Callable[[Task], Result]:
    """A function that gives a task to the worker of the thread that it is called in."""
    local = threading.local()

    def work(task: Task) -> Result:
        if not hasattr(local, "worker"):
            local.worker = new_worker()
        result: Result = local.worker(task)
        return result

    return work


def by_rows(kernel: Callable[..., object], arrays: tuple[Any, ...], *common: Any) -> None:
    """Call ``kernel(*arrays, *common)``, with the arrays cut in ranges of rows, one to each thread.

    The first array tells the size of the work. The result does not depend on the number of threads: a kernel treats
    every row by itself.
    """
    n_threads = 1 if arrays[0].size < _WORTH_A_THREAD else blas_threads()
    if n_threads == 1:
        kernel(*arrays, *common)
        return
    cuts = [len(arrays[0]) * k // n_threads for k in range(n_threads + 1)]
    own, *others = (slice(start, stop) for start, stop in itertools.pairwise(cuts))
    futures = [_row_threads().submit(kernel, *(array[rows] for array in arrays), *common) for rows in others]
    kernel(*(array[own] for array in arrays), *common)
    for future in futures:
        future.result()


class Crew:
    """Threads that share the work of many short kernels, with the BLAS library at one thread; a context manager.

    Parameters
    ----------
    n_threads : int or None, default=None
        None is as many as the BLAS library uses at this moment, and one in a thread of somebody's pool.
    """

    def __init__(self, n_threads: int | None = None) -> None:
        self.n_threads = _free_threads() if n_threads is None else n_threads
        self._held = ExitStack()

    def __enter__(self) -> Crew:
        if self.n_threads > 1:
            self._held.enter_context(threadpool_limits(1, user_api="blas"))
            self._pool = self._held.enter_context(ThreadPoolExecutor(self.n_threads - 1))
        return self

    def __exit__(self, *error: object) -> None:
        self._held.close()

    def share(self, kernel: Callable[..., object], *arguments: Any) -> None:
        """Call ``kernel(part, n_parts, *arguments)`` for all parts, each in a thread."""
        futures = [self._pool.submit(kernel, part, self.n_threads, *arguments) for part in range(1, self.n_threads)]
        kernel(0, self.n_threads, *arguments)
        for future in futures:
            future.result()

    def each(self, work: Callable[[Task], Result], tasks: list[Task]) -> list[Result]:
        """The results of all tasks, in their order."""
        if self.n_threads == 1 or len(tasks) == 1:
            return [work(task) for task in tasks]
        return list(self._pool.map(work, tasks))


_pool: ThreadPoolExecutor | None = None


def _row_threads() -> ThreadPoolExecutor:
    """The threads of :func:`by_rows`, which wait for work as long as the process lives: a step is too short for new."""
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(thread_name_prefix="epls-rows")
    return _pool


def _forget_threads() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):  # a forked child has none of its parent's threads
    os.register_at_fork(after_in_child=_forget_threads)
