"""Warm up: compile every kernel once, or load it: each entry of the catalogue is fitted to tiny generated data.

Kernels are compiled for the types that they meet: rows dense or CSR, float64 (float32 only from Python, for what comes
out of preprocessing is float64). An entry is fitted in each of them, and in each way of solving that has kernels of its
own. The reader of svmlight files has kernels too, and the division of groups into folds.
"""

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from aucsolvers.process import one_blas_thread
from tasks import catalogue, svmlight
from tasks.split import make_splits

# Parameters with kernels that the defaults do not reach; of long fits, iterations enough to reach them all.
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "svm_or": ({"max_iter": 4}, {"max_iter": 4, "method": "cutting_plane"}, {"max_iter": 4, "loss": "squared_hinge"}),
    "msgd": ({"max_iter": 2},),
    "opauc": ({}, {"rank": 2}),
    "kernel_svm": ({}, {"loss": "squared_hinge"}),
    "ls_svm": ({}, {"solver": "cg"}),
    "spdam": ({"max_iter": 1},),
    "zovr": ({}, {"schedule": "source"}),
}
READER, DIVISION = "svmlight", "folds"
SHAPE = 500, 5  # and classes that overlap: an easy problem is solved before all kernels are met
# More than 2,000 positive scores are sorted by a kernel of their own, which all solvers share; of more than 2,048 rows
# of a class svm_or samples some; above 1,024 features and rows conjugate gradients take the place of its matrix, and of
# few pairs at the kink it settles all slopes at once; above 2,048 features linear_svm takes no Newton steps; of fewer
# rows than features ls_svm multiplies the former; of more than 4 MiB of rows spdam makes no centred copy.
SHAPES = {
    "ls_svm": ((9000, 5), (60, 300)),
    "svm_or": ((40, 20), (9000, 5), (1100, 1050)),
    "linear_svm": (SHAPE, (60, 2100)),
    "spdam": (SHAPE, (9000, 60)),
}


def entries() -> tuple[str, ...]:
    """Return what there is to warm up, in the order of the catalogue: solvers, samplers; reader and division."""
    return (*_estimators(), READER, DIVISION)


def _estimators() -> dict[str, catalogue.Entry]:
    return catalogue.SOLVERS | {name: entry for name, entry in catalogue.SAMPLERS.items() if entry}


def warm(name: str, float32: bool = False) -> None:
    """Fit one entry to every kind of rows, so that its kernels are in memory and, if they can be, on disk."""
    if name == READER:
        svmlight.parse(b"1 1:0.5\n")
        return
    if name == DIVISION:
        halves = np.arange(4) // 2
        make_splits(np.array([1, -1, 1, -1]), 2, 1, 0, halves)
        return
    entry = _estimators()[name]
    # one thread, as in a run: on tiny data several, where cores are busy, wait for each other longer than they work
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for X, y in _data(SHAPES.get(name, (SHAPE,)), float32):
            for params in VARIANTS.get(name, ({},)):
                estimator = entry.build(**params)
                if name in catalogue.SAMPLERS:
                    estimator.fit_resample(X, y)
                else:
                    estimator.fit(X, y).decision_function(X)


def _data(shapes: tuple[tuple[int, int], ...], float32: bool) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield two classes of each shape, one row in four positive, in each layout and type."""
    rng = np.random.default_rng(0)
    for rows, width in shapes:
        y = np.where(np.arange(rows) % 4 == 0, 1, -1)
        X = rng.normal(size=(rows, width)) + 0.3 * (y > 0)[:, None]
        X[np.abs(X) < 1.0] = 0.0
        for dtype in (np.float64, np.float32) if float32 else (np.float64,):
            yield X.astype(dtype), y
            yield sparse.csr_matrix(X.astype(dtype)), y


def kernels() -> list[Any]:
    """Return the compiled functions of our modules that have been imported."""
    modules = [module for name, module in sys.modules.items() if name.startswith(("aucsolvers.", "tasks."))]
    found = (value for module in modules for value in vars(module).values())
    return list({id(value): value for value in found if hasattr(value, "py_func")}.values())


def tally() -> tuple[int, int]:
    """Return how many kernels this process has compiled so far, and how many it has loaded from disk."""
    told = [kernel.stats for kernel in kernels()]
    return sum(sum(s.cache_misses.values()) for s in told), sum(sum(s.cache_hits.values()) for s in told)


def cache_folders() -> tuple[str, ...]:
    """Return where numba keeps the kernels: none if it has no folder to write, usually one."""
    return tuple(sorted({kernel.stats.cache_path for kernel in kernels()} - {None}))
