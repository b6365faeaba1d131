"""The online solvers, one pass over the rows: SOLAM and OPAUC against C code, the others beside them."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from aucsolvers import OPAUC, SOLAM, OAMGra, OAMInf, OAMSeq, UniExp
from aucsolvers.metrics import auc
from benchmarks.contest import Contest, Gauge, fixed, timed
from benchmarks.data import DataSet
from benchmarks.part import Bench, Cell, Part
from benchmarks.peers import c_code, sparse_auc

LAM = 1e-2
SETS = ("digits", "pendigits", "letter", "ijcnn1", "covtype.20k", "cover")
ROWS = 50_000  # of the drawn set, 64 columns
LIMITS_US = {SOLAM: 0.15, OPAUC: 3.6}  # a row at d = 64: the public C code on the machine where the goal was set
REPEATS = 5


def drawn(n: int = ROWS, d: int = 64) -> DataSet:
    rng = np.random.default_rng(0)
    y = np.where(rng.random(n) < 0.1, 1.0, -1.0)
    return DataSet("drawn", rng.normal(size=(n, d)) + 0.3 * (y > 0)[:, None], y)


def _mixed(data: DataSet) -> DataSet:
    """Return the rows in a drawn order: files come sorted, in part, and one pass is of use to no such stream."""
    order = np.random.default_rng(0).permutation(len(data.y))
    return DataSet(data.name, data.X[order], data.y[order])


def cells(bench: Bench) -> Iterator[Cell]:
    rows = drawn(ROWS // 10 if bench.quick else ROWS)
    for solver in (SOLAM, OPAUC, OAMSeq, OAMGra, UniExp):
        yield Cell(solver.__name__, "per row", partial(_per_row, solver, rows))
    # every row is kept and met by all that come later: O(n) a row, so fewer of them
    yield Cell("OAMInf", "per row", partial(_per_row, OAMInf, rows.head(2_000)))
    peers = _peers(bench)
    for data in (rows, *map(_mixed, bench.shelf.take(*SETS))):
        for solver in (SOLAM, OPAUC):
            for method in ("fit", "partial_fit"):
                for peer in peers:
                    build = partial(_against, peer, solver, method, data)
                    yield Cell(f"{solver.__name__}.{method} against {peer.name}", data.name, build)


class _Peer(NamedTuple):
    """Code of both methods, one pass over X and y each; our own is judged only where the public code is absent."""

    name: str
    passes: Mapping[Any, Callable[[np.ndarray, np.ndarray], np.ndarray]]
    is_judged: bool


def _peers(bench: Bench) -> list[_Peer]:
    """Return those that are here. Step lengths are the authors' to tune: the time does not depend on them."""
    peers = []
    if (code := sparse_auc.library()) is None:
        bench.absent["SOLAM and OPAUC, public C code"] = f"{sparse_auc.LIBRARY} names no library"
    else:
        passes = {
            SOLAM: partial(sparse_auc.solam, code, zeta=1.0, radius=10.0),
            OPAUC: partial(sparse_auc.opauc, code, lam=LAM, eta=1e-3),
        }
        peers.append(_Peer("sparse-auc", passes, is_judged=True))
    if c_code.library() is None:
        bench.absent["SOLAM and OPAUC in C of our own"] = "no C compiler"
    else:
        own = {SOLAM: partial(c_code.solam, lam=LAM, zeta=0.1), OPAUC: partial(c_code.opauc, lam=LAM, eta=1e-3)}
        peers.append(_Peer("C, by us", own, is_judged=code is None))
    return peers


def _per_row(solver: Any, data: DataSet) -> Gauge:
    n, d = data.X.shape
    learn = partial(_pass, solver, "partial_fit", data)
    learn()  # compiles
    stream = [1e6 * timed(learn)[0] / n for _ in range(REPEATS)]
    whole = [1e6 * timed(partial(_pass, solver, "fit", data))[0] / n for _ in range(REPEATS)]
    note = f"a pass by partial_fit, {n:,} rows; with validation and certificates, by fit: {np.median(whole):.2f}"
    return Gauge(solver.__name__, f"d = {d}", float(np.median(stream)), "µs per row", LIMITS_US.get(solver), note=note)


def _pass(solver: Any, method: str, data: DataSet) -> Any:
    """Return a model after one pass over the rows in their order."""
    if method == "partial_fit":
        return solver(lam=LAM).partial_fit(data.X, data.y)
    return solver(lam=LAM, max_iter=1, shuffle=False).fit(data.X, data.y)


def _against(peer: _Peer, solver: Any, method: str, data: DataSet) -> Contest:
    X, y = data.X, data.y
    return Contest(
        f"{solver.__name__}.{method}",
        data.name,
        f"{X.shape[0]:,} × {X.shape[1]}",
        fixed(
            solver.__name__, partial(_pass, solver, method, data), lambda model: 1.0 - auc(y, X @ model.coef_.ravel())
        ),
        fixed(peer.name, partial(peer.passes[solver], X, y), lambda w: 1.0 - auc(y, X @ w)),
        least_ratio=1.0 if peer.is_judged else None,
    )


PART = Part(
    "online",
    "Online solvers, one pass",
    "not slower than the public C code of SOLAM and OPAUC: 0.15 and 3.6 µs a row at d = 64",
    "One pass over the rows in a drawn order, the same for both. sparse-auc is the public C code that "
    f"{sparse_auc.LIBRARY} names (benchmarks/peers/sparse_auc.py tells how to build it). Beside it stand the published "
    "algorithms as straight C of our own (benchmarks/peers/*.c, -O3 -march=native), leaner than the public code, which "
    "calls the BLAS for each step and forms a matrix for each of OPAUC's products: judged where that is absent. Both "
    "are bare loops on an array with one result. partial_fit is the fair match, though it validates its input; fit "
    "adds the certificate, the AUC and the G-mean threshold. 1 − AUC (training rows) is there to show that both "
    "learn; step lengths differ.",
    cells,
    quality="1 − AUC",
)
