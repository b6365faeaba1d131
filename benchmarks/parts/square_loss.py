"""LSSVM against one symmetric rank-k update of the data, SPDAM against its published algorithm in C."""

from collections.abc import Iterator
from functools import cache, partial

import numpy as np
from scipy.linalg import blas

from aucsolvers import LSSVM, SPDAM
from aucsolvers.metrics import pairwise_square_objective
from benchmarks.contest import Contest, fixed, tune
from benchmarks.data import DataSet
from benchmarks.part import Bench, Cell, Part
from benchmarks.peers import c_code

LAM = 1e-2
DENSE = ("breast cancer", "digits", "pendigits", "letter", "ijcnn1", "covtype.20k", "cover")
TARGET = 1e-6  # (Q - min Q) / min Q
BATCH = 16
LARGEST_WORK = 3e7  # rows visited: ends a run that would take minutes, short of the target
EPOCHS = (0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0)  # of the peer, in units of ours
LOOKS = 8  # tolerances to try, between the gaps of the looks before and after the target is reached
MISSED = 1.0 / 1.5


@cache
def least_square(data: DataSet) -> float:
    """Return min Q, from the closed form."""
    return LSSVM(lam=LAM, tol=1e-12).fit(data.X, data.y).objective_


def excess(w: np.ndarray, data: DataSet) -> float:
    return max(0.0, pairwise_square_objective(w, data.X, data.y, LAM) / least_square(data) - 1.0)


# LSSVM -----------------------------------------------------------------------------------------------------------


def ls_svm_cells(bench: Bench) -> Iterator[Cell]:
    for data in bench.shelf.take(*DENSE):
        yield Cell("LSSVM against dsyrk", data.name, partial(_ls_svm, data))


def _ls_svm(data: DataSet) -> Contest:
    ours = fixed("LSSVM", lambda: LSSVM(lam=LAM).fit(data.X, data.y), lambda model: excess(model.coef_.ravel(), data))
    # X' of a C-ordered X is in Fortran's order: dsyrk copies nothing
    peer = fixed("dsyrk, BLAS of SciPy", lambda: blas.dsyrk(1.0, data.X.T), lambda _: float("nan"))
    setting = f"{data.X.shape[0]:,} × {data.X.shape[1]}"
    return Contest("LSSVM", data.name, setting, ours, peer, least_ratio=MISSED)


LS_SVM = Part(
    "ls_svm",
    "Pairwise square loss, exact: LSSVM",
    "within 1.5 times of one symmetric rank-k update of the data by the same BLAS (ratio at least 0.67)",
    "Time of a whole fit, validation, certificate, AUC and threshold included, against X'X alone.",
    ls_svm_cells,
    quality="relative suboptimality",
)


# SPDAM -----------------------------------------------------------------------------------------------------------


def spdam_cells(bench: Bench) -> Iterator[Cell]:
    if c_code.library() is None:
        bench.absent["SPDAM in C"] = "no C compiler"
        return
    for data in bench.shelf.take(*DENSE):
        yield Cell("SPDAM against C", data.name, partial(_spdam, data, bench.budget.patience_s))


def _spdam(data: DataSet, patience_s: float) -> Contest:
    unit, longest = TARGET * least_square(data), int(LARGEST_WORK / len(data.y))
    fitted = SPDAM(lam=LAM, batch_size=BATCH, tol=unit, max_iter=min(longest, 10_000), random_state=0)

    def fit(tol: float) -> np.ndarray:
        return fitted.set_params(tol=tol).fit(data.X, data.y).coef_.ravel()

    # the certificate, ||dQ||^2/(2 lam), is loose: find out what it says between the looks about the target
    history = fitted.fit(data.X, data.y).history_
    near = np.flatnonzero(history["objective"] <= (1.0 + TARGET) * least_square(data))
    before, after = history["dual_gap"][near[0] - 1 : near[0] + 1] if len(near) else (unit, unit)
    tolerances = np.geomspace(max(before, unit), max(after, unit), LOOKS).tolist()
    ours = tune("SPDAM", fit, tolerances, partial(excess, data=data), TARGET, patience_s)
    ladder = sorted({max(1, round(part * fitted.n_iter_)) for part in EPOCHS})
    peer = tune("C, by us", partial(_spdam_in_c, data), ladder, partial(excess, data=data), TARGET, patience_s)
    setting, note = f"λ = {LAM:g}, batches of {BATCH}", f"{fitted.n_iter_} epochs; in C {peer.tolerance}"
    return Contest("SPDAM", data.name, setting, ours, peer, least_ratio=1.0, target=TARGET, note=note)


def _spdam_in_c(data: DataSet, epochs: int) -> np.ndarray:
    return c_code.spdam(data.X, data.y, LAM, BATCH, epochs)


SPDAM_PART = Part(
    "spdam",
    "Pairwise square loss, stochastic: SPDAM",
    "not slower than plain C to 1e-6 of Q",
    "Time to (Q − min Q)/min Q ≤ 1e-6. The peer is the published algorithm as straight C of our own "
    "(benchmarks/peers/spdam.c, -O3 -march=native), from the rows as they are and with draws of its own, as ours: "
    "it is stopped, without a certificate, after the least number of epochs (on a ladder) that gets there.",
    spdam_cells,
    quality="relative suboptimality",
)
