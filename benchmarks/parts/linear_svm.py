"""LinearSVM against LIBLINEAR, the solver inside scikit-learn's LinearSVC: the same objective to the same accuracy."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from sklearn.svm import LinearSVC

from aucsolvers import LinearSVM
from benchmarks.contest import BETWEEN, Contest, tune
from benchmarks.data import DataSet
from benchmarks.part import Bench, Cell, Part

SETS = ("digits", "pendigits", "letter", "ijcnn1", "a9a", "w8a", "covtype.20k", "cover", "sector")
COSTS = (0.1, 1.0)
TARGET = 1e-4  # (P - min P) / min P
LADDER = tuple(m * 10.0**-k for k in range(8) for m in (1.0, 0.3))
LARGEST_WORK = 1.5e9  # entries visited: ends a run of LIBLINEAR that would take minutes, short of the target


def objective(model: LinearSVC | LinearSVM, data: DataSet, C: float, loss: str) -> float:
    """Return P at a model, from its weights alone."""
    w, b = model.coef_.ravel(), float(model.intercept_[0])
    slack = np.maximum(0.0, 1.0 - data.y * (data.X @ w + b))
    return 0.5 * (float(w @ w) + b * b) + C * float(np.sum(slack if loss == "hinge" else slack**2))


def lower_bound(data: DataSet, C: float, loss: str) -> float:
    """Return a certified lower bound of min P, within a fiftieth of the target."""
    model = LinearSVM(C=C, loss=loss, tol=0.02 * TARGET, max_iter=1_000_000, random_state=0).fit(data.X, data.y)
    return model.objective_ - model.dual_gap_


def cells(bench: Bench) -> Iterator[Cell]:
    for data in bench.shelf.take(*SETS):
        for loss in ("hinge", "squared_hinge"):
            for C in COSTS[:1] if bench.quick else COSTS:
                build = partial(_contest, data, loss, C, bench.budget.patience_s)
                yield Cell(f"LinearSVM {loss} against LIBLINEAR", f"{data.name}, C = {C:g}", build)


def _contest(data: DataSet, loss: str, C: float, patience_s: float) -> Contest:
    X, y = data.X, data.y
    floor = lower_bound(data, C, loss)
    passes = max(1000, int(LARGEST_WORK / data.n_stored))

    def quality(model: LinearSVC | LinearSVM) -> float:
        return objective(model, data, C, loss) / floor - 1.0

    def ours(tol: float) -> LinearSVM:
        return LinearSVM(C=C, loss=loss, tol=tol, max_iter=1_000_000, random_state=0).fit(X, y)

    def peer(tol: float) -> LinearSVC:
        return LinearSVC(C=C, loss=loss, dual=True, tol=tol, max_iter=passes, random_state=0).fit(X, y)

    return Contest(
        f"LinearSVM, {loss}",
        data.name,
        f"C = {C:g}",
        tune("LinearSVM", ours, LADDER, quality, TARGET, patience_s, BETWEEN),
        tune("LIBLINEAR", peer, LADDER, quality, TARGET, patience_s, BETWEEN),
        least_ratio=1.3,
        target=TARGET,
    )


PART = Part(
    "linear_svm",
    "Linear SVM: LinearSVM",
    "at least 1.3 times as fast as LIBLINEAR on each set, both losses",
    "Time of a whole fit, as scikit-learn's LinearSVC(dual=True) and with an intercept in both, to "
    "(P − P_low)/P_low ≤ 1e-4, where P_low is a lower bound of min P, certified to 2e-6. Each side runs at the loosest "
    "tolerance that gets there.",
    cells,
    quality="relative suboptimality",
)
