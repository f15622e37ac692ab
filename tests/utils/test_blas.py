import threading

import pytest

from epls.utils.blas import allowed_threads, blas_threads, one_blas_thread, threads_for
from epls.utils.threads import row_ranges


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
