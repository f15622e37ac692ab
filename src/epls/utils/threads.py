"""One place that decides how many threads work.

The matrix products run on the threads of the BLAS library. The passes between them run on as many Python threads, each
on a range of rows in compiled code without the interpreter's lock. Numba's own parallel loops are not used: their
OpenMP threads keep spinning after a loop and take the cores from the BLAS (an epoch took ten times as long), and they
die in a forked child. Whoever limits the BLAS, with ``threadpoolctl.threadpool_limits`` or through joblib, limits both.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

from threadpoolctl import threadpool_info, threadpool_limits

Task = TypeVar("Task")
Result = TypeVar("Result")

# Elements of a pass; below that, it takes longer to hand over than to do. The BLAS threads spin for a while after a
# product, so that on two cores a second thread gains nothing on 1600 x 1600 elements (1.2 ms instead of 1.0).
_WORTH_A_THREAD = 3_000_000


def blas_threads() -> int:
    """The number of threads that the BLAS library uses at this moment."""
    return max((pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"), default=1)


def map_tasks(new_worker: Callable[[], Callable[[Task], Result]], tasks: Iterable[Task]) -> Iterator[Result]:
    """The results of all tasks, in their order, made by as many threads as the BLAS library uses at this moment.

    For tasks that each hold products and passes: every thread does its own with one BLAS thread, and nobody waits for
    anybody. ``new_worker()`` is called once in each thread, so that a worker can keep buffers. Only a few tasks are
    under way at a time, however many there are.

    Called in a thread of somebody's pool, it takes no further threads: limits of the BLAS library are for the whole
    process, and those of several callers would restore each other's.
    """
    n_threads = blas_threads() if threading.current_thread() is threading.main_thread() else 1
    if n_threads == 1:
        yield from map(new_worker(), tasks)
        return
    local = threading.local()

    def work(task: Task) -> Result:
        if not hasattr(local, "worker"):
            local.worker = new_worker()
        result: Result = local.worker(task)
        return result

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


class RowThreads:
    """Runs a kernel on all rows of some arrays, a range of rows to each thread.

    Results do not depend on the number of threads: a kernel treats every row by itself.
    """

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> RowThreads:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def run(self, kernel: Callable[..., object], by_row: tuple[Any, ...], *common: Any) -> None:
        """Call ``kernel(*by_row, *common)`` with every array of ``by_row`` cut in the same ranges of rows.

        The first of them tells the size of the work.
        """
        n_threads = 1 if by_row[0].size < _WORTH_A_THREAD else blas_threads()
        if n_threads == 1:
            kernel(*by_row, *common)
            return
        if self._pool is None:
            self._pool = ThreadPoolExecutor(n_threads - 1)
        cuts = [len(by_row[0]) * k // n_threads for k in range(n_threads + 1)]
        ranges = [slice(start, stop) for start, stop in itertools.pairwise(cuts)]
        futures = [self._pool.submit(kernel, *(array[r] for array in by_row), *common) for r in ranges[1:]]
        kernel(*(array[ranges[0]] for array in by_row), *common)
        for future in futures:
            future.result()
