"""Warm up: compile every kernel once, or load it, by fitting each entry of the catalogue to tiny generated data.

Kernels are compiled for the types that they meet: rows dense or CSR, float64 (float32 only from Python, for what comes
out of preprocessing is float64). An entry is fitted in each of them, and in each way of solving that has kernels of its
own.
"""

import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

from tasks import catalogue

# Parameters and widths with kernels that the defaults on narrow data do not reach.
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "svm_or": ({}, {"method": "cutting_plane"}, {"loss": "squared_hinge"}),
    "opauc": ({}, {"rank": 2}),
    "kernel_svm": ({}, {"loss": "squared_hinge"}),
}
WIDTHS = {"svm_or": (5, 1100)}  # above 1,024 features conjugate gradients take the place of a matrix
ROWS = 500  # and classes that overlap: an easy problem is solved before all kernels are met
# More than 2,000 positive scores are sorted by a kernel of their own, which all solvers share, and of more than 2,048
# rows of a class svm_or samples some. For the first width only.
TALL = {"ls_svm": 9000, "svm_or": 9000}


def entries() -> tuple[str, ...]:
    """Return what there is to warm up, in the order of the catalogue: solvers, then samplers."""
    return (*catalogue.SOLVERS, *(name for name, entry in catalogue.SAMPLERS.items() if entry))


def warm(name: str, float32: bool = False) -> None:
    """Fit one entry to every kind of rows, so that its kernels are in memory and, if they can be, on disk."""
    entry = catalogue.SOLVERS.get(name) or catalogue.sampler(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for X, y in _rows(TALL.get(name, ROWS), WIDTHS.get(name, (5,)), float32):
            for params in VARIANTS.get(name, ({},)):
                estimator = entry.build(**params)
                if name in catalogue.SAMPLERS:
                    estimator.fit_resample(X, y)
                else:
                    estimator.fit(X, y).decision_function(X)


def _rows(rows: int, widths: tuple[int, ...], float32: bool) -> Iterator[tuple[Any, np.ndarray]]:
    """Yield two classes, one row in four positive, in each layout and type; ``rows`` of the first width."""
    rng = np.random.default_rng(0)
    for width in widths:
        y = np.where(np.arange(rows if width == widths[0] else ROWS) % 4 == 0, 1, -1)
        X = rng.normal(size=(len(y), width)) + 0.3 * (y > 0)[:, None]
        for dtype in (np.float64, np.float32) if float32 else (np.float64,):
            yield X.astype(dtype), y
            yield sparse.csr_matrix(X.astype(dtype)), y


def kernels() -> list[Any]:
    """Return the compiled functions of the modules of aucsolvers that have been imported."""
    modules = [module for name, module in sys.modules.items() if name.startswith("aucsolvers.")]
    found = (value for module in modules for value in vars(module).values())
    return list({id(value): value for value in found if hasattr(value, "py_func")}.values())


def tally() -> tuple[int, int]:
    """Return how many kernels this process has compiled so far, and how many it has loaded from disk."""
    told = [kernel.stats for kernel in kernels()]
    return sum(sum(s.cache_misses.values()) for s in told), sum(sum(s.cache_hits.values()) for s in told)


def cache_folders() -> tuple[str, ...]:
    """Return where numba keeps the kernels: none if it has no folder to write, usually one."""
    return tuple(sorted({kernel.stats.cache_path for kernel in kernels()} - {None}))
