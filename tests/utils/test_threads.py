import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from epls.utils.threads import RowThreads, blas_threads, map_tasks


def test_whoever_limits_the_blas_limits_the_rows():
    calls = []
    with threadpool_limits(1), RowThreads() as threads:
        assert blas_threads() == 1
        threads.run(lambda rows: calls.append(len(rows)), (np.zeros((1000, 4000)),))
    assert calls == [1000]


@pytest.mark.parametrize("n_rows", [1, 3, 1001])
def test_every_row_is_visited_once(n_rows):
    rows, seen = np.zeros((n_rows, 4000)), np.arange(n_rows)

    def add(block, numbers, amount):
        block += numbers[:, None] + amount

    with RowThreads() as threads:
        threads.run(add, (rows, seen), 5)
    assert (rows == np.arange(n_rows)[:, None] + 5).all()


def test_an_error_in_a_thread_reaches_the_caller():
    def fail(block):
        if block[0, 0] > 0:
            raise RuntimeError("no")

    rows = np.zeros((1000, 4000))
    rows[500:] = 1
    with RowThreads() as threads:
        if blas_threads() == 1:
            rows[:] = 1
        with pytest.raises(RuntimeError, match="no"):
            threads.run(fail, (rows,))


def test_map_tasks_keeps_order_and_one_worker_a_thread():
    made = []

    def new_worker():
        made.append(threading.get_ident())
        return lambda task: (task, threading.get_ident())

    results = list(map_tasks(new_worker, range(50)))
    assert [task for task, _ in results] == list(range(50))
    assert len(made) == len(set(made)) <= blas_threads()
    assert {thread for _, thread in results} <= set(made)


def test_map_tasks_stops_at_an_error_and_gives_the_threads_back():
    before = blas_threads()
    done = []

    def worker(task):
        if task == 3:
            raise ValueError("task 3")
        done.append(task)

    with pytest.raises(ValueError, match="task 3"):
        list(map_tasks(lambda: worker, range(1000)))
    assert len(done) < 100
    assert blas_threads() == before


def test_map_tasks_ends_when_nobody_wants_more():
    before, done = blas_threads(), []
    results = map_tasks(lambda: done.append, range(1000))
    next(results)
    results.close()
    assert len(done) < 100
    assert blas_threads() == before


def test_callers_in_threads_leave_the_limits_alone():
    before = blas_threads()
    seen = []

    def call():
        seen.extend(map_tasks(lambda: lambda task: blas_threads() + 0 * task, range(50)))

    callers = [threading.Thread(target=call) for _ in range(3)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert seen == [before] * 150
    assert blas_threads() == before
