"""Seconds of work, those of compiling kernels apart: a machine compiles them once, and whoever comes first waits."""

import time
from threading import get_ident

from numba.core.event import Event, Listener, register


class _Times(Listener):
    """Adds up the seconds that each thread has spent in what numba tells the start and the end of, nested or not."""

    def __init__(self, kind: str) -> None:
        self.by_thread: dict[int, float] = {}
        self._begun: dict[int, list[float]] = {}
        register(kind, self)  # for good: one that came while another thread compiles would see an end without a start

    def on_start(self, event: Event) -> None:
        self._begun.setdefault(get_ident(), []).append(time.perf_counter())

    def on_end(self, event: Event) -> None:
        thread = get_ident()
        start = self._begun[thread].pop()
        if not self._begun[thread]:
            self.by_thread[thread] = self.by_thread.get(thread, 0.0) + time.perf_counter() - start


_COMPILING = _Times("numba:compile")
_LOCKED = _Times("numba:compiler_lock")  # that, reading kernels from disk, and waiting until another thread has done so


class Stopwatch:
    """The seconds since it was made, and those among them that went into compiling.

    Of the thread that reads it these are all in which it compiled or waited for kernels. With ``threads`` they are what
    any thread compiled meanwhile: one kernel is compiled at a time, so it is part of the time of all that share a work.
    """

    def __init__(self, threads: bool = False) -> None:
        self._threads = threads
        self._start, self._compiled = time.perf_counter(), self._compiling_s()

    def read(self) -> tuple[float, float]:
        """Return the seconds without those of compiling, and those of compiling."""
        compile_s = self._compiling_s() - self._compiled
        return time.perf_counter() - self._start - compile_s, compile_s

    def _compiling_s(self) -> float:
        if self._threads:
            return sum(list(_COMPILING.by_thread.values()))
        return _LOCKED.by_thread.get(get_ident(), 0.0)
