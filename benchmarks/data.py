"""The data sets, each read once a run and handed to both sides as the same arrays.

Sets that come scaled (letter, ijcnn1 and all sparse ones) are taken as they are, the others standardised. What is not
on this machine is skipped, and said so.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.preprocessing import StandardScaler


@dataclass(frozen=True, eq=False)  # one object per set and run: what was derived from it can be cached by identity
class DataSet:
    """Rows, dense C-ordered or CSR float64, and labels ±1.0."""

    name: str
    X: np.ndarray | sparse.csr_matrix
    y: np.ndarray

    @property
    def is_sparse(self) -> bool:
        return sparse.issparse(self.X)

    @property
    def n_stored(self) -> int:
        """How many values are stored: all, of dense rows."""
        return self.X.size if isinstance(self.X, np.ndarray) else self.X.nnz

    @property
    def shape(self) -> str:
        form = f", {self.n_stored / self.X.shape[0]:.0f} stored values a row" if self.is_sparse else ", dense"
        return f"{self.X.shape[0]:,} × {self.X.shape[1]:,}{form}; {int((self.y > 0).sum()):,} positive"

    def head(self, n: int) -> "DataSet":
        """Return the first n rows under a name that says so."""
        return self if len(self.y) <= n else DataSet(f"{self.name}[:{n}]", self.X[:n].copy(), self.y[:n].copy())


Rows = tuple[np.ndarray | sparse.csr_matrix, np.ndarray]


def mirror() -> Path:
    """Return the folder of real data: AUCFLOW_MIRROR, or shared/data beside the checkout."""
    named = os.environ.get("AUCFLOW_MIRROR", str(Path(__file__).resolve().parents[2] / "shared" / "data"))
    return Path(named.removeprefix("file://"))


def _standardised(X: np.ndarray, positive: np.ndarray) -> Rows:
    return np.ascontiguousarray(StandardScaler().fit_transform(X)), positive


def _bundled(load: Callable[..., Rows], positive: int) -> Rows:
    X, labels = load(return_X_y=True)
    return _standardised(X, labels == positive)


def _svmlight(file: str, positive: int = 1, dense: bool = True) -> Rows:
    X, labels = load_svmlight_file(str(mirror() / file))
    if dense:
        return X.toarray(), labels == positive
    # LIBLINEAR takes no wider indices
    X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
    return X, labels == positive


def _pendigits() -> Rows:
    return _standardised(*_svmlight("libsvm/pendigits"))


def _covtype() -> Rows:
    table = np.loadtxt(mirror() / "uci" / "covtype.20k.data", delimiter=",")
    return _standardised(table[:, :-1], table[:, -1] == 1)


def _cover() -> Rows:
    with np.load(mirror() / "odds" / "cover.npz") as arrays:
        return _standardised(arrays["X"].astype(np.float64), arrays["y"].ravel() == 1)


LOADERS: dict[str, Callable[[], Rows]] = {
    "breast cancer": partial(_bundled, load_breast_cancer, 0),
    "digits": partial(_bundled, load_digits, 8),
    "pendigits": _pendigits,
    "letter": partial(_svmlight, "libsvm/letter.scale"),
    "ijcnn1": partial(_svmlight, "libsvm/ijcnn1"),
    "covtype.20k": _covtype,
    "cover": _cover,
    "a9a": partial(_svmlight, "libsvm/a9a", dense=False),
    "w8a": partial(_svmlight, "libsvm/w8a", dense=False),
    "sector": partial(_svmlight, "libsvm/sector.scale", dense=False),
}
QUICK = ("breast cancer", "digits", "letter", "a9a")


class Shelf:
    """The sets of a run: read when first asked for, kept, and the absent ones noted."""

    def __init__(self, quick: bool = False):
        self.quick = quick
        self.read: dict[str, DataSet] = {}
        self.skipped: dict[str, str] = {}

    def take(self, *names: str) -> Iterator[DataSet]:
        """Yield those of the named sets (all by default) that are here; of the quick ones only, in a quick run."""
        for name in names or LOADERS:
            if name in self.skipped or (self.quick and name not in QUICK):
                continue
            if name not in self.read:
                try:
                    X, positive = LOADERS[name]()
                except FileNotFoundError as reason:
                    self.skipped[name] = f"no file {Path(reason.filename or '').name} in the mirror"
                    continue
                self.read[name] = DataSet(name, X, np.where(positive, 1.0, -1.0))
            yield self.read[name]
