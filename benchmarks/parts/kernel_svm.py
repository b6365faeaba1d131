"""KernelSVM against LIBSVM, the solver inside scikit-learn's SVC: the same kernel and C, the same duality gap."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from scipy import sparse
from sklearn.svm import SVC

from aucsolvers import KernelSVM
from benchmarks.contest import Contest, Side, fixed
from benchmarks.data import DataSet
from benchmarks.part import Bench, Cell, Part

SETS = ("breast cancer", "digits", "pendigits", "letter", "a9a", "covtype.20k")
LARGEST = 10_000  # rows of the two largest sets
COSTS = (1.0, 10.0, 100.0)
CACHE_MB = 512


def libsvm_gap(svc: SVC, data: DataSet, C: float) -> float:
    """Return the duality gap of a fitted SVC, relative to P, at the b that is best for its f: LIBSVM leaves b free."""
    f = svc.decision_function(data.X) - svc.intercept_[0]
    beta = svc.dual_coef_.toarray().ravel() if sparse.issparse(svc.dual_coef_) else svc.dual_coef_.ravel()
    squared_norm = float(beta @ f[svc.support_])
    primal = 0.5 * squared_norm + C * least_hinge(data.y, f)
    return (primal - (float(np.abs(beta).sum()) - 0.5 * squared_norm)) / primal


def least_hinge(y: np.ndarray, f: np.ndarray) -> float:
    """Return min over b of sum_i max(0, 1 - y_i (f_i + b)): convex and piecewise linear, least at a kink y_i - f_i.

    At b the positives with kink above b lose (kink - b) each, the negatives with kink below it (b - kink): the slope is
    the number of the latter minus that of the former, and changes its sign where n_pos kinks are passed.
    """
    kinks = np.sort(y - f)
    b = kinks[int((y > 0).sum()) - 1]
    return float(np.maximum(0.0, 1.0 - y * (f + b)).sum())


def cells(bench: Bench) -> Iterator[Cell]:
    for whole in bench.shelf.take(*SETS):
        data = whole.head(2_000 if bench.quick else LARGEST if whole.name in ("a9a", "covtype.20k") else 20_000)
        for C in COSTS[:1] if bench.quick else COSTS:
            yield Cell("KernelSVM against LIBSVM", f"{data.name}, C = {C:g}", partial(_contest, data, C))


def _contest(data: DataSet, C: float) -> Contest:
    X, y = data.X, data.y

    def fit_peer() -> SVC:
        return SVC(C=C, kernel="rbf", gamma="scale", cache_size=CACHE_MB).fit(X, y)

    peer = fixed("LIBSVM", fit_peer, lambda svc: libsvm_gap(svc, data, C))
    ours = _ours(data, C, peer.quality)
    return Contest(
        "KernelSVM, rbf", data.name, f"C = {C:g}", ours, peer, least_ratio=1.0, target=peer.quality * (1.0 + 1e-9)
    )


def _ours(data: DataSet, C: float, tol: float) -> Side:
    def fit() -> KernelSVM:
        model = KernelSVM(C=C, kernel="rbf", gamma="scale", tol=tol, cache_bytes=CACHE_MB * 1024**2)
        return model.fit(data.X, data.y)

    side = fixed("KernelSVM", fit, lambda model: model.dual_gap_ / model.objective_)
    return Side(side.name, side.call, side.quality, side.seconds, f"{tol:.0e}")


PART = Part(
    "kernel_svm",
    "Kernel SVM: KernelSVM",
    "not slower than LIBSVM on sets under 20,000 rows",
    "Time of a whole fit with the Gaussian kernel, gamma='scale', and 512 MiB of cache on both sides. SVC runs at its "
    "default tolerance; its duality gap, at the best intercept for its weights, relative to P, is the one that "
    "KernelSVM has to certify. (LIBSVM's intercept is free, ours regularised: each side is held to its own optimum.)",
    cells,
    quality="duality gap / P",
)
