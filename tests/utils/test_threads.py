import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import chain

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from epls.utils.threads import (
    ROW_QUANTUM,
    allowed_threads,
    blas_threads,
    by_rows,
    do_all,
    map_blocks,
    map_in_rounds,
    map_tasks,
    one_blas_thread,
    product,
    row_ranges,
    threads_for,
)


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


@pytest.mark.parametrize("n_threads", [1, 2, 3, 8])
@pytest.mark.parametrize("n_rows", [1, 47, 97, 500, 1600, 6401])
def test_ranges_cover_all_rows_and_begin_at_multiples(n_rows, n_threads, monkeypatch):
    monkeypatch.setattr("epls.utils.threads.blas_threads", lambda: n_threads)
    ranges = row_ranges(n_rows, 10**9)
    assert list(chain(*(range(n_rows)[rows] for rows in ranges))) == list(range(n_rows))
    assert all(rows.start % ROW_QUANTUM == 0 and rows.start < rows.stop for rows in ranges)
    assert len(ranges) <= 3 * n_threads
    assert row_ranges(n_rows, 10**6) == [slice(0, n_rows)]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(1000, 301, 500), (301, 1000, 500), (5, 3, 4)])
def test_a_product_does_not_depend_on_threads(shape, dtype, monkeypatch):
    n, m, k = shape
    random = np.random.default_rng(0)
    A, B = random.normal(size=(n, m)).astype(dtype), random.normal(size=(k, m)).astype(dtype).T
    expected = A.astype(np.float64) @ B
    found = {}
    for n_threads in (1, 2, 3):
        monkeypatch.setattr("epls.utils.threads.blas_threads", lambda n_threads=n_threads: n_threads)
        found[n_threads] = [product(A, B), product(np.ascontiguousarray(A.T).T, B, np.empty((n, k), dtype))]
        for result in found[n_threads]:
            assert result.dtype == dtype
            assert np.allclose(result, expected, rtol=0, atol=100 * np.finfo(dtype).eps * np.abs(expected).max())
    if all(library["internal_api"] == "openblas" for library in threadpool_info() if library["user_api"] == "blas"):
        for n_threads in (2, 3):
            assert all((a == b).all() for a, b in zip(found[1], found[n_threads], strict=True))


def test_a_product_is_shared(two_threads):
    assert len(row_ranges(1600, 1600 * 300 * 1600)) == 6
    seen = set()
    started = threading.Barrier(2)

    def work(task):
        if task < 2:
            started.wait(20)  # neither goes on without the other
        seen.add(threading.get_ident())
        return -task, allowed_threads(), blas_threads()

    assert do_all(work, range(10)) == [(-task, 1, 1) for task in range(10)]
    assert len(seen) == 2


def test_all_tasks_stop_at_an_error(two_threads):
    done = []

    def work(task):
        if task == 3:
            raise ValueError("task 3")
        done.append(task)
        time.sleep(0.001)

    with pytest.raises(ValueError, match="task 3"):
        do_all(work, range(1000))
    assert len(done) < 100
    assert (blas_threads(), allowed_threads()) == (2, 2)


def test_a_helper_that_comes_late_is_not_waited_for(two_threads, monkeypatch):
    with ThreadPoolExecutor(1) as pool:
        free = threading.Event()
        pool.submit(free.wait, 20)  # the only helper has something else to do
        monkeypatch.setattr("epls.utils.threads._helpers", lambda: pool)
        try:
            assert do_all(abs, [-1, -2, -3]) == [1, 2, 3]
        finally:
            free.set()


def test_threads_ignore_what_the_caller_ignores(two_threads):
    started = threading.Barrier(2)

    def work(value):
        started.wait(20)
        return np.float32(value) * np.float32(value)

    with np.errstate(over="ignore"):
        assert do_all(work, [1e30, 1e30]) == [np.inf, np.inf]


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


def test_callers_in_threads_hold_the_blas_until_the_last_has_gone(two_threads):
    seen, entered, leave = [], threading.Barrier(3), [threading.Event() for _ in range(2)]
    with one_blas_thread():  # after that, this thread is no longer the only one that may set limits
        pass

    def call(number):
        with one_blas_thread():
            entered.wait(20)
            seen.append((blas_threads(), allowed_threads(), len(row_ranges(1600, 10**9))))
            entered.wait(20)
            leave[number].wait(20)

    callers = [threading.Thread(target=call, args=(number,)) for number in range(2)]
    for caller in callers:
        caller.start()
    entered.wait(20)
    entered.wait(20)
    assert seen == [(1, 1, 6)] * 2  # two threads, divided between two callers, for the parts of two threads
    leave[0].set()
    callers[0].join()
    assert blas_threads() == 1
    leave[1].set()
    callers[1].join()
    assert blas_threads() == 2


def test_threads_are_given_back_after_an_error(two_threads):
    def fail():
        with one_blas_thread(), one_blas_thread():
            assert (blas_threads(), allowed_threads()) == (1, 2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert blas_threads() == 2


def test_whoever_controls_the_blas_in_another_thread_keeps_it(two_threads):
    seen = []

    def call():
        with one_blas_thread():
            seen.append((blas_threads(), allowed_threads()))

    caller = threading.Thread(target=call)
    caller.start()
    caller.join()
    assert seen in ([(2, 1)], [(1, 2)])  # the latter with a threadpoolctl before 3.7, where anybody may set limits
    assert blas_threads() == 2


@pytest.mark.parametrize(("multiply_adds", "n_threads"), [(1000, 1), (10**9, 2)])
def test_other_libraries_get_threads_for_large_products_only(multiply_adds, n_threads, two_threads):
    with one_blas_thread():
        with threads_for(multiply_adds):
            assert blas_threads() == n_threads
        assert blas_threads() == 1
    assert blas_threads() == 2
