"""Published algorithms as short, straight C that we wrote from the papers, compiled when a benchmark runs.

They stand beside the public C code of SOLAM and OPAUC (``sparse_auc``), in its place where it is absent, and for what
the papers of SPDAM and SDCD ran, which was never published in C. The compiler gets the freedoms that our kernels have,
so that its loops are vectorised as ours are; not -ffast-math, for a library linked with it switches the whole process
to arithmetic without subnormal numbers.
"""

import ctypes
import functools
import subprocess
import tempfile
from pathlib import Path

import numpy as np

SOURCES = ("solam.c", "opauc.c", "spdam.c", "sdcd.c")
FREEDOMS = ("-fassociative-math", "-fno-signed-zeros", "-fno-trapping-math", "-fno-math-errno", "-ffp-contract=fast")
FLAGS = ("-O3", *FREEDOMS, "-shared", "-fPIC")


@functools.cache
def library() -> ctypes.CDLL | None:
    """Return the compiled peers, or None where there is no working C compiler."""
    folder = Path(__file__).parent
    with tempfile.TemporaryDirectory() as build:
        target = str(Path(build, "peers.so"))
        for native in (["-march=native"], []):  # some compilers know no such flag
            command = ["cc", *FLAGS, *native, "-o", target, *(str(folder / source) for source in SOURCES), "-lm"]
            try:
                if subprocess.run(command, capture_output=True, check=False).returncode == 0:
                    return ctypes.CDLL(target)  # loaded: the file may go
            except OSError:
                break
    return None


def solam(X: np.ndarray, y: np.ndarray, lam: float, zeta: float) -> np.ndarray:
    """Return the averaged weights after one pass over the rows as given."""
    n, d = X.shape
    average, work = np.empty(d), np.empty(d)
    kappa = float(np.sqrt((X**2).sum(axis=1).max()))
    _call("solam", X, y, n, d, lam, zeta, kappa, average, work)
    return average


def opauc(X: np.ndarray, y: np.ndarray, lam: float, eta: float) -> np.ndarray:
    """Return the weights after one pass over the rows as given."""
    n, d = X.shape
    w = np.empty(d)
    _call("opauc", X, y, n, d, lam, eta, w, np.empty((2, d)), np.empty((2, d, d)), np.empty(d))
    return w


def spdam(X: np.ndarray, y: np.ndarray, lam: float, batch: int, epochs: int) -> np.ndarray:
    """Return the weights after so many epochs from w = 0 and beta = 0, in batches that it draws."""
    n, d = X.shape
    w, order = np.empty(d), np.empty(n, dtype=np.int64)
    _call("spdam", X, y, n, d, epochs, min(n, batch), lam, np.empty((n, d)), np.empty(n), order, w, np.empty(7 * d))
    return w


def sdcd(
    pos: np.ndarray, neg: np.ndarray, multipliers: np.ndarray, offsets: np.ndarray, lam: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights and dual variables after one epoch per multiplier and offset (int64) of its bijection."""
    (n_pos, d), n_neg = pos.shape, neg.shape[0]
    alpha, w = np.zeros(n_pos * n_neg), np.zeros(d)
    _call("sdcd", pos, neg, multipliers, offsets, n_pos, n_neg, d, len(multipliers), lam, alpha, w)
    return w, alpha


def _call(name: str, *arguments: np.ndarray | int | float) -> None:
    """Call a function of the library; arrays go as pointers, whole numbers as long and others as double."""
    # C-ordered, and referred to until the call is over: a pointer alone would not keep a copy alive
    held = [np.ascontiguousarray(value) if isinstance(value, np.ndarray) else value for value in arguments]
    getattr(library(), name)(*map(_as_c, held))


def _as_c(value: np.ndarray | int | float) -> object:
    if isinstance(value, np.ndarray):
        return ctypes.c_void_p(value.ctypes.data)
    return ctypes.c_long(value) if isinstance(value, int) else ctypes.c_double(value)
