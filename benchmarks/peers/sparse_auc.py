"""The public C code of SOLAM and OPAUC, which Yang et al. (ICDM 2020) published beside a method of their own.

Their repository, sparse-auc, builds for Python 2; its solvers need nothing of that. As a library of its own, with their
flag and their BLAS:

    cc -O3 -shared -fPIC -std=gnu11 auc_opt_methods.c fast_pcst.c loss.c sort.c -o libsparse_auc.so -lopenblas -lm

``AUCFLOW_SPARSE_AUC`` names that file. It is asked for one pass over dense rows, in the order given.
"""

import contextlib
import ctypes
import os
from collections.abc import Iterator

import numpy as np

from benchmarks.peers import named_file

LIBRARY = "AUCFLOW_SPARSE_AUC"
NO_RECORD = 2**30  # steps between two evaluations


class _Rows(ctypes.Structure):
    """Their ``Data``; what follows ``is_graph`` is for a method that is not called."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("values", "columns", "starts", "lengths", "y")),
        ("is_sparse", ctypes.c_bool),
        *((name, ctypes.c_int) for name in ("n", "d")),
        ("is_graph", ctypes.c_bool),
        ("graph", ctypes.c_void_p * 8),
    )


class _Pass(ctypes.Structure):
    """Their ``GlobalParas``."""

    _fields_ = (
        *((name, ctypes.c_int) for name in ("passes", "verbose", "steps_to_record", "records")),
        ("least_change", ctypes.c_double),
    )


class _Result(ctypes.Structure):
    """Their ``AlgoResults``."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("w", "w_before", "aucs", "times")),
        *((name, ctypes.c_int) for name in ("n_recorded", "n_steps", "n_passes")),
    )


def library() -> ctypes.CDLL | None:
    """Return the library that the environment names, or None if there is none."""
    path = named_file(LIBRARY)
    return ctypes.CDLL(path) if path else None


def solam(code: ctypes.CDLL, X: np.ndarray, y: np.ndarray, zeta: float, radius: float) -> np.ndarray:
    """Return the averaged weights after one pass."""
    return _call(code, "_algo_solam", X, y, ctypes.c_double(zeta), ctypes.c_double(radius))


def opauc(code: ctypes.CDLL, X: np.ndarray, y: np.ndarray, lam: float, eta: float) -> np.ndarray:
    """Return the weights after one pass, with full covariances."""
    rank = ctypes.c_int(1)  # of the sparse form
    with _unheard():
        return _call(code, "_algo_opauc", X, y, rank, ctypes.c_double(eta), ctypes.c_double(lam))


def _call(code: ctypes.CDLL, name: str, X: np.ndarray, y: np.ndarray, *parameters: object) -> np.ndarray:
    X, y = np.ascontiguousarray(X, dtype=np.float64), np.ascontiguousarray(y, dtype=np.float64)
    n, d = X.shape
    starts, w, w_before, record = np.zeros(n, dtype=np.int32), np.zeros(d), np.zeros(d), np.zeros(2)
    pointer = [array.ctypes.data for array in (X, starts, y, w, w_before, record)]
    rows = _Rows(pointer[0], None, pointer[1], None, pointer[2], False, n, d, False)
    result = _Result(pointer[3], pointer[4], pointer[5], pointer[5])
    getattr(code, name)(
        ctypes.byref(rows), ctypes.byref(_Pass(1, 0, NO_RECORD, 0, 0.0)), ctypes.byref(result), *parameters
    )
    return w


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Keep what C code prints off the console: their OPAUC tells of each pass."""
    c = ctypes.CDLL(None)
    c.fflush(None)
    kept, nowhere = os.dup(1), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    try:
        yield
    finally:
        c.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
        os.close(nowhere)
