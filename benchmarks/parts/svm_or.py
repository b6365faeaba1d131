"""SVMOR, hinge and squared hinge, against the pairwise solvers that people use: time to the same accuracy of P."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, lru_cache, partial
from time import perf_counter

import numpy as np
from scipy.optimize import OptimizeResult, minimize

from aucsolvers import SVMOR, ordinal
from benchmarks.contest import BETWEEN, Contest, Side, fixed, timed, tune
from benchmarks.data import DataSet
from benchmarks.part import Bench, Cell, Part
from benchmarks.peers import named_file, rank_svm

LAMS = (1e-2, 1e-4)
TARGET = 1e-6  # (P - min P) / min P
ACCURACY = 0.02  # of the reference optimum, in units of the target
# Tolerances of gaps, in units of TARGET * min P: at 1 the certificate says it, a looser one may do.
LADDER = (1e3, 300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3)
NO_DLIB = "not importable here: pip install -e '.[bench]' builds it (some minutes, needs cmake and a C++ compiler)"


def objective(w: np.ndarray, data: DataSet, lam: float, loss: str) -> float:
    """Return P(w), the squared hinge halved, by sorted searches and prefix sums: no code of the solvers is used."""
    scores = data.X @ w
    scores = scores - scores.mean()
    positives, edges = np.sort(scores[data.y > 0]), scores[data.y < 0] + 1.0
    below = np.searchsorted(positives, edges)
    sums = np.append(0.0, np.cumsum(positives))[below]
    if loss == "hinge":
        total = np.sum(below * edges - sums)
    else:
        squares = np.append(0.0, np.cumsum(positives**2))[below]
        total = 0.5 * np.sum(below * edges**2 - 2.0 * edges * sums + squares)
    return 0.5 * lam * float(w @ w) + float(total) / (len(positives) * len(edges))


@cache
def optimum(data: DataSet, lam: float, loss: str) -> float:
    """Return min P up to a fiftieth of the target: the objective of a run that goes on until its certificate says so.

    Rounding may end it before; up to half the target the value still serves, beyond that there is nothing to compare.
    """
    tol = 1e-2
    while True:
        model = SVMOR(lam, loss=loss, tol=tol, max_iter=3000).fit(data.X, data.y)
        value = objective(model.coef_.ravel(), data, lam, loss)
        accuracy = model.dual_gap_ / (TARGET * value)
        if accuracy <= ACCURACY or (model.status_ != "converged" and accuracy <= 0.5):
            return value
        if model.status_ != "converged":
            raise RuntimeError(f"Expected min P within half the target, got {accuracy:.2g} times the target.")
        tol = min(ACCURACY * TARGET, 0.1 * tol)


def excess(data: DataSet, lam: float, loss: str) -> Callable[[np.ndarray], float]:
    """Return the function of weights that gives their relative suboptimality."""
    least = optimum(data, lam, loss)
    return lambda w: max(0.0, objective(w, data, lam, loss) / least - 1.0)


# Sides -----------------------------------------------------------------------------------------------------------


def ours(data: DataSet, lam: float, loss: str) -> tuple[Side, str]:
    """Return our side and how long the fit takes that certifies the target instead of reaching it only."""

    def fit(multiple: float) -> np.ndarray:
        return SVMOR(lam, loss=loss, tol=multiple * TARGET).fit(data.X, data.y).coef_.ravel()

    side = tune("SVMOR", fit, LADDER, excess(data, lam, loss), TARGET, math.inf, BETWEEN)
    return side, f"certified: {1e3 * timed(partial(fit, 1.0))[0]:.1f} ms"


@lru_cache(maxsize=1)
def _pair(data: DataSet) -> object:
    return rank_svm.dlib_pair(data)


def dlib_side(data: DataSet, lam: float, patience_s: float) -> Side:
    pair, unit = _pair(data), TARGET * optimum(data, lam, "hinge")

    def fit(multiple: float) -> np.ndarray:
        return rank_svm.dlib_fit(pair, data.X.shape[1], lam, multiple * unit)

    return tune("dlib svm_rank_trainer", fit, LADDER, excess(data, lam, "hinge"), TARGET, patience_s, BETWEEN)


def program_side(
    name: str, loss: str, start: Callable, program: str, ladder: tuple, data: DataSet, lam: float, patience_s: float
) -> Side:
    """Return the side of an external program, whose tolerance means what ``ladder`` says."""
    fit = partial(start(data, program).fit, lam)
    side = tune(name, fit, ladder, excess(data, lam, loss), TARGET, patience_s, BETWEEN)
    return replace(side, is_least=True)


def lbfgs_side(data: DataSet, lam: float, patience_s: float) -> Side:
    """Return scipy's L-BFGS on our own oracle, ended by whoever knows the optimum as soon as it is near enough."""
    problem = ordinal._pose(data.X, data.y, lam, "squared_hinge")
    enough = (1.0 + TARGET) * optimum(data, lam, "squared_hinge")

    def oracle(w: np.ndarray) -> tuple[float, np.ndarray]:
        point = problem.look(w, 0.0)
        return point.objective, point.gradient

    def call() -> np.ndarray:
        started = perf_counter()

        def stop(intermediate_result: OptimizeResult) -> None:
            if intermediate_result.fun <= enough or perf_counter() - started > 2.0 * patience_s:
                raise StopIteration

        options = {"maxiter": 100_000, "maxfun": 200_000, "ftol": 0.0, "gtol": 0.0}
        start = np.zeros(data.X.shape[1])
        return minimize(oracle, start, jac=True, method="L-BFGS-B", callback=stop, options=options).x

    return fixed("SciPy L-BFGS, same oracle", call, excess(data, lam, "squared_hinge"))


# Cells -----------------------------------------------------------------------------------------------------------


def _hinge_peers(bench: Bench) -> dict[str, Callable[[DataSet, float, float], Side]]:
    peers: dict[str, Callable] = {}
    if rank_svm.has_dlib():
        peers["dlib"] = dlib_side
    else:
        bench.absent["dlib svm_rank_trainer"] = NO_DLIB
    if program := named_file(rank_svm.SVM_PERF):
        ladder = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
        peers["SVM-perf"] = partial(program_side, "SVM-perf", "hinge", rank_svm.svm_perf, program, ladder)
    else:
        bench.absent["SVM-perf"] = f"{rank_svm.SVM_PERF} names no program"
    return peers


def _squared_peers(bench: Bench) -> dict[str, Callable[[DataSet, float, float], Side]]:
    peers: dict[str, Callable] = {"L-BFGS": lbfgs_side}
    if program := named_file(rank_svm.LIBLINEAR_RANKSVM):
        ladder, name = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6), "liblinear-ranksvm"
        peers[name] = partial(program_side, name, "squared_hinge", rank_svm.liblinear_ranksvm, program, ladder)
    else:
        bench.absent["liblinear-ranksvm"] = f"{rank_svm.LIBLINEAR_RANKSVM} names no program"
    return peers


def _cells(peers_of: Callable[[Bench], dict], loss: str, bench: Bench) -> Iterator[Cell]:
    peers = peers_of(bench)
    for data in bench.shelf.take():
        for lam in LAMS:
            for name, side in peers.items():
                build = partial(_contest, data, lam, loss, side, bench.budget.patience_s)
                yield Cell(f"SVMOR {loss} against {name}", f"{data.name}, λ = {lam:g}", build)


def _contest(data: DataSet, lam: float, loss: str, peer: Callable, patience_s: float) -> Contest:
    side, note = ours(data, lam, loss)
    return Contest(
        "SVMOR", data.name, f"λ = {lam:g}", side, peer(data, lam, patience_s), least_ratio=1.0, target=TARGET, note=note
    )


METHOD = """Time of a whole fit to (P − min P)/min P ≤ 1e-6, at λ = 1e-2 and 1e-4. min P is the objective of a long run
with a certified gap below a fiftieth of that. Each side runs at the loosest tolerance that gets there. Ours may stop
before its certificate says so, as the peer may; the last column has the time with the certificate. Of a program counts
the least of several runs in a row (as many as come to 0.2 s, at most 20), less what starting, reading and writing take;
and of ours beside it the least of as many."""

HINGE = Part(
    "svm_or",
    "Pairwise hinge: SVMOR",
    "faster than dlib and SVM-perf in every cell; geometric mean at least 15",
    METHOD + " dlib's conversion of the rows is not counted; its C is 1/λ.",
    partial(_cells, _hinge_peers, "hinge"),
    quality="relative suboptimality",
    least_mean=15.0,
)
SQUARED = Part(
    "svm_or_squared",
    "Pairwise squared hinge: SVMOR",
    "at least level with L-BFGS on the same oracle and with liblinear-ranksvm in every cell",
    METHOD + " L-BFGS is stopped in the iteration that reaches the known optimum within the target: it pays for no "
    "stopping rule, and for no validation of the input.",
    partial(_cells, _squared_peers, "squared_hinge"),
    quality="relative suboptimality",
)
