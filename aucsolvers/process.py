"""Settings of the whole process that several threads may need at a time, such as how many threads BLAS has."""

import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from functools import cache, lru_cache
from threading import Lock

from threadpoolctl import OpenBLASController, ThreadpoolController


class ProcessWide(AbstractContextManager):
    """A setting made by the first thread that enters and undone by the last that leaves; calling it returns itself.

    With one context manager per thread, the first to leave would undo the setting while others still rely on it.
    """

    def __init__(self, setting: Callable[[], AbstractContextManager]):
        self._setting, self._lock, self._inside = setting, Lock(), 0
        self.__doc__ = setting.__doc__
        os.register_at_fork(after_in_child=self._unlock)

    def __call__(self) -> "ProcessWide":
        return self

    def _unlock(self) -> None:
        """Free a forked child from the lock of a thread that it has not got."""
        self._lock = Lock()

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                held = self._setting()
                held.__enter__()
                self._held = held
            self._inside += 1

    def __exit__(self, *_) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._held.__exit__(None, None, None)


@contextmanager
def one_blas_thread():
    """Let BLAS work on one thread: several would divide a product where they like, and its last bits with it."""
    # OpenMP's limit is each thread's own, a pool that all threads share has one limit for all
    with _openmp(len(sys.modules)).limit(limits=1), one_thread_in_shared_pools():
        yield


@ProcessWide
@contextmanager
def one_thread_in_shared_pools():
    """Let BLAS work on one thread, but where its threads are OpenMP's: at the price of microseconds."""
    if all(library.num_threads == 1 for library in _blas().lib_controllers):
        yield
        return
    _take_blas()
    limits = _blas().limit(limits=1)
    try:
        yield
    finally:
        _take_blas()  # the last to leave may be another thread than the first to enter
        limits.restore_original_limits()
        _take_blas()


@lru_cache(maxsize=1)
def _openmp(n_modules):
    """Return what sets the threads of the OpenMP libraries; looked for again when modules were imported since."""
    return ThreadpoolController().select(user_api="openmp")


@cache
def _blas():
    """Return what sets the threads of NumPy's BLAS and SciPy's; looking for libraries takes milliseconds."""
    import scipy.linalg  # noqa: F401 - here, for who wants no number of threads needs no SciPy

    return ThreadpoolController().select(user_api="blas")


def _take_blas():
    """Let this thread set BLAS's: a newer threadpoolctl ignores all but the first without a word."""
    take = getattr(OpenBLASController, "clear_controlling_thread", None)
    if take is not None:
        take(force=True)
