"""The online solvers, one pass over the rows: SOLAM and OPAUC against C, the others beside them."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from aucsolvers import OPAUC, SOLAM, OAMGra, OAMInf, OAMSeq, UniExp
from aucsolvers.metrics import auc
from benchmarks.contest import Contest, Gauge, fixed, timed
from benchmarks.data import DataSet
from benchmarks.part import Bench, Cell, Part
from benchmarks.peers import c_code

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
    if c_code.library() is None:
        bench.absent["SOLAM and OPAUC in C"] = "no C compiler"
        return
    for data in (rows, *map(_mixed, bench.shelf.take(*SETS))):
        for solver in (SOLAM, OPAUC):
            for method in ("fit", "partial_fit"):
                build = partial(_against_c, solver, method, data)
                yield Cell(f"{solver.__name__}.{method} against C", data.name, build)


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


def _against_c(solver: Any, method: str, data: DataSet) -> Contest:
    X, y = data.X, data.y

    def peer() -> np.ndarray:
        # step lengths are the authors' to tune; the time does not depend on them
        return c_code.solam(X, y, LAM, zeta=0.1) if solver is SOLAM else c_code.opauc(X, y, LAM, eta=1e-3)

    return Contest(
        f"{solver.__name__}.{method}",
        data.name,
        f"{X.shape[0]:,} × {X.shape[1]}",
        fixed(
            solver.__name__, partial(_pass, solver, method, data), lambda model: 1.0 - auc(y, X @ model.coef_.ravel())
        ),
        fixed("C, by us", peer, lambda w: 1.0 - auc(y, X @ w)),
        least_ratio=1.0,
    )


PART = Part(
    "online",
    "Online solvers, one pass",
    "not slower than C for SOLAM and OPAUC: 0.15 and 3.6 µs a row at d = 64",
    "One pass over the rows in a drawn order, the same for both. The peers are the published algorithms as straight C "
    "of our own (benchmarks/peers/*.c, -O3 -march=native): bare loops on an array, one result. partial_fit is the "
    "fair match, though it validates its input; fit adds the certificate, the AUC and the G-mean threshold. 1 − AUC "
    "(training rows) is there to show that both learn; step lengths differ.",
    cells,
    quality="1 − AUC",
)
