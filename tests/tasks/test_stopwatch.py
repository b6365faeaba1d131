"""A stopwatch: what was compiled meanwhile is told apart, by the thread that waits or by all that share the work."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from numba import njit

from tasks.stopwatch import Stopwatch

ASLEEP_S = 0.1


def compile_one():
    """Compile a kernel that needs another one, which counts once."""
    inner = njit(lambda x: x + 1.0)
    njit(lambda x: inner(x) * 2.0)(1.0)


def test_work_and_compiling_make_up_the_time():
    start, stopwatch = time.perf_counter(), Stopwatch()
    compile_one()
    time.sleep(ASLEEP_S)
    seconds, compile_s = stopwatch.read()
    whole = time.perf_counter() - start
    assert seconds >= ASLEEP_S and compile_s > 0.0
    assert seconds + compile_s <= whole


def test_what_was_compiled_before_does_not_count():
    compile_one()
    assert Stopwatch().read()[1] == 0.0


@pytest.mark.parametrize("threads", [False, True])
def test_what_another_thread_compiles_counts_where_it_shares_the_work(threads):
    """Of folds side by side each tells its own seconds, a method those of all."""
    stopwatch = Stopwatch(threads)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(compile_one).result()
    assert (stopwatch.read()[1] > 0.0) == threads


def test_a_thread_that_waits_for_what_another_compiles_does_not_work():
    """Of two folds side by side the one that came second seemed to take as long as compiling."""
    kernel = njit(nogil=True)(lambda x: x + 3.0)
    start = threading.Barrier(2)

    def call():
        start.wait()
        stopwatch = Stopwatch()
        kernel(1.0)
        return stopwatch.read()

    with ThreadPoolExecutor(2) as pool:
        told = [one.result() for one in [pool.submit(call) for _ in range(2)]]
    assert max(seconds for seconds, _ in told) < max(compile_s for _, compile_s in told)


def test_a_kernel_that_cannot_be_compiled_ends_its_time():
    with pytest.raises(Exception, match="Failed in nopython mode"):
        njit(lambda x: x.no_such_attribute)(1.0)
    stopwatch = Stopwatch()
    compile_one()
    time.sleep(ASLEEP_S)
    assert stopwatch.read()[0] >= ASLEEP_S
