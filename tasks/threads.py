"""Folds side by side, on threads: kernels and BLAS let go of Python's lock."""

from collections.abc import Callable, Iterable
from contextvars import copy_context
from typing import Any

from joblib import Parallel, delayed

from tasks.fit import reproducible_fits


def each(step: Callable[..., Any], arguments: Iterable[tuple[Any, ...]], workers: int) -> list[Any]:
    """Return what a step makes of each of these arguments, in order, ``workers`` of them at a time.

    Every thread knows which run it works for, so that what it logs is that run's.
    """
    calls = [delayed(copy_context().run)(step, *own) for own in arguments]
    with reproducible_fits():
        return Parallel(n_jobs=workers, backend="threading")(calls)
