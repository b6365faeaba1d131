"""The contests. Each names its peer, its data and the number that says both sides solved the same problem."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from imblearn.under_sampling import NearMiss
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from aucsolvers import AUCSDCD, LSSVM, GeometricUnderSampler, LinearSVM
from aucsolvers.metrics import pairwise_square_objective
from benchmarks.contest import Contest

LAM = 1e-2


def data_sets() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield name, X and y of ±1: scikit-learn's, and a9a where ``AUCFLOW_MIRROR`` or ../shared/data has it."""
    for name, (X, labels), positive in (
        ("digits 8", load_digits(return_X_y=True), 8),
        ("breast cancer", load_breast_cancer(return_X_y=True), 0),
    ):
        yield name, StandardScaler().fit_transform(X), np.where(labels == positive, 1, -1)
    mirror = os.environ.get("AUCFLOW_MIRROR", str(Path(__file__).resolve().parents[2] / "shared" / "data"))
    file = Path(mirror.removeprefix("file://"), "libsvm", "a9a")
    if file.is_file():
        X, y = load_svmlight_file(str(file))
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)  # LIBLINEAR takes no wider ones
        yield "a9a (CSR)", X, y.astype(int)


def contests() -> Iterator[Contest]:
    """Yield every contest on every data set that it fits."""
    for name, X, y in data_sets():
        yield from _linear_svm(name, X, y)
        if isinstance(X, np.ndarray):
            yield _ls_svm(name, X, y)
        yield _sampler(name, X, y)


def _linear_svm(name: str, X: np.ndarray, y: np.ndarray) -> Iterator[Contest]:
    """Both sides reach the same objective: LIBLINEAR's tolerance is tightened until its value is ours or better."""
    for loss in ("hinge", "squared_hinge"):
        ours = LinearSVM(C=0.1, loss=loss, tol=1e-4, max_iter=2000, random_state=0)
        target = _svm_objective(ours.fit(X, y), X, y, loss)
        peer = _liblinear_at(target, X, y, loss)
        yield Contest(
            task=f"LinearSVM {loss}",
            data=name,
            peer_name="LIBLINEAR",
            ours=lambda ours=ours: ours.fit(X, y),
            peer=lambda peer=peer: peer.fit(X, y),
            quality=lambda model, loss=loss: _svm_objective(model, X, y, loss),
            quality_name="objective",
        )


def _liblinear_at(target: float, X: np.ndarray, y: np.ndarray, loss: str) -> LinearSVC:
    for tol in (1e-1, 3e-2, 1e-2, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5):
        model = LinearSVC(C=0.1, loss=loss, dual=True, tol=tol, max_iter=100_000, random_state=0)
        if _svm_objective(model.fit(X, y), X, y, loss) <= target * (1 + 1e-9):
            break
    return model


def _svm_objective(model: LinearSVC | LinearSVM, X: np.ndarray, y: np.ndarray, loss: str) -> float:
    slack = np.maximum(0.0, 1.0 - y * model.decision_function(X))
    norm = float(np.sum(model.coef_**2) + model.intercept_[0] ** 2)
    return 0.5 * norm + 0.1 * float(np.sum(slack if loss == "hinge" else slack**2))


def _ls_svm(name: str, X: np.ndarray, y: np.ndarray) -> Contest:
    """The peer is what a user would write: the normal equations in NumPy."""

    def normal_equations() -> np.ndarray:
        pos, neg = X[y > 0], X[y < 0]
        b = neg.mean(axis=0) - pos.mean(axis=0)
        matrix = np.cov(pos.T, bias=True) + np.cov(neg.T, bias=True) + np.outer(b, b) + LAM * np.eye(X.shape[1])
        return np.linalg.solve(matrix, -b)

    def quality(result: object) -> float:
        w = result if isinstance(result, np.ndarray) else result.coef_.ravel()
        return pairwise_square_objective(w, X, y, LAM)

    return Contest(
        "LSSVM",
        name,
        "NumPy normal equations",
        lambda: LSSVM(lam=LAM).fit(X, y),
        normal_equations,
        quality,
        "objective",
    )


def _sampler(name: str, X: np.ndarray, y: np.ndarray) -> Contest:
    """U1 with its SVM against NearMiss; they keep different rows, so the number shown is how many majority rows."""
    return Contest(
        task="GeometricUnderSampler auto",
        data=name,
        peer_name="imbalanced-learn NearMiss",
        ours=lambda: GeometricUnderSampler(random_state=0).fit_resample(X, y),
        peer=lambda: NearMiss().fit_resample(X, y),
        quality=lambda result: float(np.sum(result[1] < 0)) if (y > 0).sum() < (y < 0).sum() else 0.0,
        quality_name="majority rows kept",
    )


def pair_updates() -> Iterator[tuple[int, float]]:
    """Yield dimension and nanoseconds per pair update of AUCSDCD, warm, certificates included."""
    rng = np.random.default_rng(0)
    for d in (16, 64, 256):
        y = np.where(np.arange(4000) < 500, 1, -1)
        X = rng.normal(size=(4000, d)) + 0.3 * (y > 0)[:, None]
        model = AUCSDCD(lam=1e-3, tol=0.0, max_iter=5, random_state=0)
        model.fit(X, y)
        history = model.fit(X, y).history_
        yield d, 1e9 * float(history["time_s"][-1] / history["updates"][-1])
