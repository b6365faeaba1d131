"""Two folds on two threads against one after the other: the kernels hold no lock, the results are the same bits."""

import statistics
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numba import njit
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold

from aucsolvers import AUCSDCD, OPAUC, SVMOR, LinearSVM
from aucsolvers._rows import inner
from benchmarks.contest import Gauge, timed
from benchmarks.data import DataSet
from benchmarks.part import Bench, Cell, Part
from benchmarks.parts.online import drawn

LIMIT = 1.8
ROUNDS = 5

Fold = tuple[np.ndarray, np.ndarray]


def cells(bench: Bench) -> Iterator[Cell]:
    yield Cell("arithmetic", "two loops on two threads", partial(_measure_arithmetic, int(1e7 if bench.quick else 2e8)))
    # chosen so that both folds together take some tenths of a second: starting threads is then not what is measured
    scale = 0.1 if bench.quick else 1.0
    rows = drawn(int(100_000 * scale))
    yield Cell("reading", "two sums on two threads", partial(_measure_reading, rows.X, int(200 * scale)))
    plans = [
        (AUCSDCD(lam=1e-4, tol=0.0, max_iter=max(1, int(60 * scale)), random_state=0), rows.head(8_000)),
        (SVMOR(lam=1e-5, tol=1e-9), rows),
        (LinearSVM(C=1.0, tol=0.0, max_iter=30, random_state=0), rows),  # to a tolerance one fold takes a third longer
        (OPAUC(lam=1e-2, max_iter=3, tol=0.0, random_state=0), rows),
    ]
    for model, data in plans:
        # in a quick run there is too little work to judge by
        build = partial(_measure, model, data, None if bench.quick else LIMIT)
        yield Cell(type(model).__name__, "two folds on two threads", build)


@njit(nogil=True)
def _recur(start: float, n: int) -> float:
    """Return the n-th number after ``start``: work that touches no memory."""
    for _ in range(n):
        start = 0.999999 * start + 1e-7
    return start


def _measure_arithmetic(n: int) -> Gauge:
    """Return what two threads are worth on this machine where they share nothing but it."""

    def fit(start: float) -> float:
        return float(_recur(start, n))

    return _as_gauge("arithmetic", "in registers, no memory", fit, [0.0, 1.0])


def _measure_reading(X: np.ndarray, n: int) -> Gauge:
    """Return what they are worth where both read memory, each as much as a fold of X holds."""

    def fit(half: np.ndarray) -> float:
        return sum(inner(half, half) for _ in range(n))

    halves = [half.copy() for half in np.array_split(X.ravel(), 2)]
    return _as_gauge("reading", f"{halves[0].nbytes / 1e6:.0f} MB each, again and again", fit, halves)


def _as_gauge(task: str, setting: str, fit: Callable[[Any], float], folds: list[Any]) -> Gauge:
    fit(folds[0])  # compiles
    ratios, seconds, _, _ = _race(fit, folds)
    note = f"what this machine leaves for the rows below; one after the other {seconds:.2f} s"
    return Gauge(task, setting, statistics.median(ratios), "times as fast", None, note=note)


def _measure(model: Any, data: DataSet, limit: float | None) -> Gauge:
    folds = [
        (np.ascontiguousarray(data.X[train]), data.y[train]) for train, _ in StratifiedKFold(2).split(data.X, data.y)
    ]

    def fit(fold: Fold) -> np.ndarray:
        return clone(model).fit(*fold).coef_

    fit(folds[0])  # compiles
    ratios, seconds, longer, same = _race(fit, folds)
    note = f"{'identical results' if same else 'RESULTS DIFFER'}; one after the other {seconds:.2f} s"
    note += f", the longer of them {longer:.2f}: at most {seconds / longer:.2f} times as fast"
    # a fast wrong answer is worth nothing
    value = statistics.median(ratios) if same else 0.0
    setting = f"{data.X.shape[0]:,} × {data.X.shape[1]}, two folds"
    return Gauge(type(model).__name__, setting, value, "times as fast", limit, at_most=False, note=note)


def _race(fit: Callable[[Any], Any], folds: list[Any]) -> tuple[list[float], float, float, bool]:
    """Return the ratios, the seconds of all folds in turn and of the longest of them, and whether the bits agree."""
    ratios, times, longest, same = [], [], [], True
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(fit, folds))  # a first fit asks the system for the memory that later ones find there
        for _ in range(ROUNDS):
            in_turn = [timed(partial(fit, fold)) for fold in folds]
            threaded_s, threaded = timed(lambda: list(pool.map(fit, folds)))
            seconds = [seconds for seconds, _ in in_turn]
            ratios.append(sum(seconds) / threaded_s)
            times.append(sum(seconds))
            longest.append(max(seconds))
            same = same and all(np.array_equal(a, b) for (_, a), b in zip(in_turn, threaded, strict=True))
    return ratios, statistics.median(times), statistics.median(longest), same


PART = Part(
    "threads",
    "Two folds on two threads",
    "at least 1.8 times as fast as on one, with identical results",
    "Two fits on the two training folds of a drawn set, in a pool of two threads that has made them once, against the "
    f"same fits in turn; median of {ROUNDS}. The BLAS stays at one thread. Needs two idle cores to mean anything, and "
    "two folds that take equally long for 2: the note says what the longer one leaves, and the first two rows, which "
    "are not judged, what two loops get on this machine, of arithmetic and of reading memory.",
    cells,
)
