"""A setting of the whole process holds until the last of the threads that need it has left, and not longer."""

import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from threading import Barrier, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from aucsolvers import ZOVR, KernelFeatures, KernelSVM, LinearSVM, MarginMeanSVM
from aucsolvers.process import ProcessWide, one_blas_thread


def overlapping(setting, look):
    """Return what two threads see: both inside, the second after the first has left, and the caller at the end."""
    seen, step = [], [Barrier(2, timeout=60) for _ in range(2)]

    def first():
        with setting():
            step[0].wait()
            seen.append(look())
        step[1].wait()

    thread = Thread(target=first)
    thread.start()
    with setting():
        step[0].wait()
        step[1].wait()
        seen.append(look())
    thread.join()
    return *seen, look()


def blas_threads():
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.mark.parametrize("times", range(3))
def test_blas_keeps_to_one_thread_while_anybody_asks_for_that(times):
    """Also where the caller's thread has set another number, or the last to leave is not the first that entered."""
    with threadpool_limits(2, user_api="blas"):
        assert overlapping(one_blas_thread, blas_threads) == ({1}, {1}, {2})


def test_it_is_made_once_and_undone_once_and_may_be_made_again():
    log = []

    @ProcessWide
    @contextmanager
    def setting():
        """What it is."""
        log.append("made")
        yield
        log.append("undone")

    assert overlapping(setting, lambda: list(log)) == (["made"], ["made"], ["made", "undone"])
    with setting(), setting():
        pass
    assert log == ["made", "undone"] * 2 and setting.__doc__ == "What it is."


def test_one_that_cannot_be_made_is_tried_again():
    @ProcessWide
    @contextmanager
    def setting():
        if fails:
            raise OSError("no")
        yield

    fails = True
    with pytest.raises(OSError, match="no"), setting():
        pass
    fails = False
    with setting():
        pass


def test_an_error_inside_undoes_it():
    with threadpool_limits(2, user_api="blas"):
        with pytest.raises(KeyError), one_blas_thread():
            raise KeyError
        assert blas_threads() == {2}


def test_a_child_can_enter_whose_parent_forked_while_another_thread_held_the_lock():
    setting = ProcessWide(nullcontext)
    with setting._lock:
        pid = os.fork()
        if pid == 0:
            free = setting._lock.acquire(timeout=10)
            os._exit(0 if free else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    with setting():
        pass


FORKED = """
import os, sys
import numpy as np
from sklearn.neighbors import NearestNeighbors
from aucsolvers import MWMOTE

X = np.random.default_rng(0).normal(size=(3000, 20))
NearestNeighbors(n_neighbors=5, algorithm="brute").fit(X).kneighbors(X)  # starts OpenMP's threads
if os.fork() == 0:
    MWMOTE(random_state=0).fit_resample(X, X[:, 0] > 1.3)
    print("done", flush=True)
    os._exit(0)
os.wait()
"""


def test_neighbours_are_found_in_a_child_of_a_process_that_had_openmps_threads():
    """These are not there after a fork, and would be waited for until the end of days."""
    env = os.environ | {"OMP_NUM_THREADS": "2"}
    done = subprocess.run([sys.executable, "-c", FORKED], env=env, capture_output=True, text=True, timeout=60)
    assert done.stdout == "done\n", done.stderr


class Looking(LinearSVM):
    """Sees, at the moment its parameters are checked, how many threads BLAS has."""

    def check_parameters(self):
        self.seen = blas_threads()
        super().check_parameters()


def test_a_fit_keeps_blas_to_one_thread_and_gives_the_others_back():
    """NumPy's threads and SciPy's are in each other's way: with two on two cores, this took twenty times as long."""
    X, y = np.eye(4), [0, 0, 1, 1]
    with threadpool_limits(2, user_api="blas"):
        assert Looking().fit(X, y).seen == {1} and blas_threads() == {2}
        with pytest.raises(ValueError, match="C"):
            Looking(C=-1.0).fit(X, y)
        assert blas_threads() == {2}


@pytest.mark.parametrize("model", [KernelSVM(), MarginMeanSVM(kernel="rbf"), ZOVR(kernel="rbf", random_state=0)])
def test_a_row_has_one_score_whichever_rows_and_threads_there_are(model, rows_in_noise):
    X, y = rows_in_noise
    with threadpool_limits(2, user_api="blas"):
        scores = model.fit(X, y).decision_function(X)
        alone = [model.decision_function(X[[i]])[0] for i in range(0, len(y), 7)]
        assert blas_threads() == {2}
    assert np.array_equal(alone, scores[::7])
    with threadpool_limits(1, user_api="blas"):
        assert np.array_equal(model.decision_function(X), scores)


def test_a_row_has_the_same_features_too():
    X = np.random.default_rng(0).normal(size=(301, 1500))
    kernel = KernelFeatures(n_components=100, random_state=0).fit(X)
    with threadpool_limits(2, user_api="blas"):
        features = kernel.transform(X)
    with threadpool_limits(1, user_api="blas"):
        assert np.array_equal(kernel.transform(X), features)


@pytest.fixture
def rows_in_noise():
    """Of a shape for which two threads of OpenBLAS round otherwise than one."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(301, 57))
    return X, (X[:, 0] + 0.7 * rng.normal(size=301) > 1.2).astype(int)
