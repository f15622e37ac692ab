import os
import signal
import threading
import time
from itertools import chain

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from epls.utils.threads import blas_threads, by_rows, map_blocks, map_in_rounds, map_tasks


def test_whoever_limits_the_blas_limits_the_rows():
    calls = []
    with threadpool_limits(1):
        assert blas_threads() == 1
        by_rows(lambda rows: calls.append(len(rows)), (np.zeros((1000, 4000)),))
    assert calls == [1000]


@pytest.mark.parametrize("n_rows", [1, 3, 1001])
def test_every_row_is_visited_once(n_rows):
    rows, seen = np.zeros((n_rows, 4000)), np.arange(n_rows)

    def add(block, numbers, amount):
        block += numbers[:, None] + amount

    by_rows(add, (rows, seen), 5)
    assert (rows == np.arange(n_rows)[:, None] + 5).all()


def test_an_error_in_a_thread_reaches_the_caller():
    def fail(block):
        if block[0, 0] > 0:
            raise RuntimeError("no")

    rows = np.zeros((1000, 4000))
    rows[500:] = 1
    if blas_threads() == 1:
        rows[:] = 1
    with pytest.raises(RuntimeError, match="no"):
        by_rows(fail, (rows,))


@pytest.fixture
def two_threads():
    with threadpool_limits(2, user_api="blas"):
        if blas_threads() != 2:
            pytest.skip("the BLAS library has one thread here")
        yield


@pytest.mark.parametrize("mapped", [map_tasks, map_in_rounds])
def test_maps_keep_order_and_one_worker_a_thread(mapped, two_threads):
    made = []

    def new_worker():
        made.append(threading.get_ident())
        return lambda task: (task, threading.get_ident())

    results = list(mapped(new_worker, range(50)))
    assert [task for task, _ in results] == list(range(50))
    assert len(made) == len(set(made)) <= blas_threads()
    assert {thread for _, thread in results} <= set(made)


@pytest.mark.parametrize("mapped", [map_tasks, map_in_rounds])
def test_maps_stop_at_an_error_and_give_the_threads_back(mapped, two_threads):
    before = blas_threads()
    done = []

    def worker(task):
        if task == 3:
            raise ValueError("task 3")
        done.append(task)

    with pytest.raises(ValueError, match="task 3"):
        list(mapped(lambda: worker, range(1000)))
    assert len(done) < 100
    assert blas_threads() == before


@pytest.mark.parametrize("mapped", [map_tasks, map_in_rounds])
def test_maps_end_when_nobody_wants_more(mapped, two_threads):
    before, done = blas_threads(), []
    results = mapped(lambda: done.append, range(1000))
    next(results)
    results.close()
    assert len(done) < 100
    assert blas_threads() == before


def test_an_iterator_that_is_held_limits_nobody(two_threads):
    """Neither the threads of the BLAS library, nor by work that goes on meanwhile."""
    seen, done = [], []

    def worker(task):
        seen.append(blas_threads())
        done.append(task)
        return task

    results = map_in_rounds(lambda: worker, range(20))
    for expected in range(20):
        assert next(results) == expected
        assert blas_threads() == 2
        n_done = len(done)
        time.sleep(0.002)
        assert len(done) == n_done
    assert set(seen) == {1}


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


@pytest.mark.parametrize("n_rows", [0, 1, 7, 8, 9, 50])
def test_blocks_cover_all_rows_in_their_order(n_rows):
    blocks = list(map_blocks(lambda: lambda rows: list(range(n_rows))[rows], n_rows, 8))
    assert list(chain(*blocks)) == list(range(n_rows))
    assert all(len(block) == 8 for block in blocks[:-1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_threads_of_its_own():
    rows = np.zeros((1000, 4000))

    def add(block):
        block += 1

    by_rows(add, (rows,))
    child = os.fork()
    if child == 0:  # threads of the parent would never answer here
        signal.alarm(20)
        by_rows(add, (rows,))
        os._exit(int(not (rows == 2).all()))
    assert os.waitpid(child, 0)[1] == 0
