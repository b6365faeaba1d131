"""Seconds of work, those of compiling kernels apart: a machine compiles them once, and whoever comes first waits."""

import time
from threading import get_ident

from numba.core.event import Event, Listener, register


class _Compiling(Listener):
    """Adds up the seconds that each thread has spent on compiling; a kernel that another one needs is part of it."""

    def __init__(self) -> None:
        self.by_thread: dict[int, float] = {}
        self._begun: dict[int, list[float]] = {}

    def on_start(self, event: Event) -> None:
        self._begun.setdefault(get_ident(), []).append(time.perf_counter())

    def on_end(self, event: Event) -> None:
        thread = get_ident()
        start = self._begun[thread].pop()
        if not self._begun[thread]:
            self.by_thread[thread] = self.by_thread.get(thread, 0.0) + time.perf_counter() - start


# For good: one that came while another thread compiles would see an end without a start.
_COMPILING = _Compiling()
register("numba:compile", _COMPILING)


class Stopwatch:
    """The seconds since it was made, and how many of them were spent on compiling.

    ``threads`` tells whether what other threads compile counts as well: those that share the work.
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
        return _COMPILING.by_thread.get(get_ident(), 0.0)
