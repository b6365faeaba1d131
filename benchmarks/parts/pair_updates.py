"""AUCSDCD's time per pair update, beside what the processor's arithmetic and the memory allow at best, and plain C."""

import math
import statistics
from collections.abc import Iterator
from functools import cache, partial

import numpy as np

from aucsolvers import AUCSDCD
from benchmarks.contest import Contest, Gauge, fixed
from benchmarks.data import DataSet
from benchmarks.machine import bandwidth, peak_flops
from benchmarks.part import Bench, Cell, Part
from benchmarks.parts.svm_or import excess
from benchmarks.peers import c_code

LIMITS_NS = {16: 15.0, 64: 25.0, 256: 80.0}
CLASSES = ((500, 3500), (1000, 10_000))  # 1.75 and 10 million pairs
EPOCHS, FITS = 4, 3
SETS = ("breast cancer", "digits", "pendigits", "letter")
LAM = 1e-3


def cells(bench: Bench) -> Iterator[Cell]:
    for n_pos, n_neg in CLASSES[: 1 if bench.quick else 2]:
        for d in LIMITS_NS:
            yield Cell("AUCSDCD", f"d = {d}, k = {n_pos * n_neg:,}", partial(_measure, d, n_pos, n_neg))
    if c_code.library() is None:
        bench.absent["SDCD in C"] = "no C compiler"
        return
    for data in bench.shelf.take(*SETS):
        yield Cell("AUCSDCD against C", data.name, partial(_against_c, data))


def _measure(d: int, n_pos: int, n_neg: int) -> Gauge:
    rng = np.random.default_rng(0)
    y = np.repeat((1.0, -1.0), (n_pos, n_neg))
    X = rng.normal(size=(len(y), d)) + 0.3 * (y > 0)[:, None]
    model = AUCSDCD(lam=LAM, tol=0.0, max_iter=EPOCHS, random_state=0)
    model.fit(X[::10], y[::10])  # compiles
    histories = [model.fit(X, y).history_ for _ in range(FITS)]
    first, later = zip(*(_by_epoch(history, n_pos * n_neg) for history in histories), strict=True)
    whole = [1e9 * history["time_s"][-1] / history["updates"][-1] for history in histories]
    note = (
        f"min {min(whole):.1f}; first epoch {min(first):.1f}, later ones {min(later):.1f}; "
        f"bounds: arithmetic {arithmetic_ns(d):.1f}, memory {memory_ns(d, len(y)):.1f}"
    )
    setting = f"d = {d}, k = {n_pos * n_neg:,}"
    return Gauge("AUCSDCD", setting, statistics.median(whole), "ns per update", LIMITS_NS[d], note=note)


def _against_c(data: DataSet) -> Contest:
    pos, neg = data.X[data.y > 0], data.X[data.y < 0]
    k, rng = len(pos) * len(neg), np.random.default_rng(0)
    multipliers = np.array([_coprime(k, rng) for _ in range(EPOCHS)])
    offsets = rng.integers(k, size=EPOCHS)
    model, missed = AUCSDCD(lam=LAM, tol=0.0, max_iter=EPOCHS, random_state=0), excess(data, LAM, "hinge")
    ours = fixed("AUCSDCD", lambda: model.fit(data.X, data.y), lambda fitted: missed(fitted.coef_.ravel()))
    peer = fixed("C, by us", lambda: c_code.sdcd(pos, neg, multipliers, offsets, LAM), lambda result: missed(result[0]))
    return Contest("AUCSDCD", data.name, f"d = {data.X.shape[1]}, k = {k:,}", ours, peer, least_ratio=None)


def _coprime(k: int, rng: np.random.Generator) -> int:
    """Return a random step below k, not a short one, that visits all of 0 ... k - 1 before it comes back."""
    while True:
        step = int(rng.integers(k // 4, k))
        if math.gcd(step, k) == 1:
            return step


def _by_epoch(history: dict[str, np.ndarray], k: int) -> tuple[float, float]:
    """Return nanoseconds per update in the first epoch and in those after it, certificates included."""
    end = int(np.searchsorted(history["updates"], k))
    first, total = history["time_s"][end] - history["time_s"][0], history["time_s"][-1] - history["time_s"][0]
    return 1e9 * first / k, 1e9 * (total - first) / (history["updates"][-1] - k)


@cache
def _peaks() -> tuple[float, float]:
    return peak_flops(), bandwidth(2**28)


def arithmetic_ns(d: int) -> float:
    """Return the least time for an update's sums: z = x_i - x_j, w'z and z'z are 5 d operations at the peak rate.

    An update that moves w adds 3 d; late in a run most do not.
    """
    return 1e9 * 5 * d / _peaks()[0]


def memory_ns(d: int, n_rows: int) -> float:
    """Return the least time for an update's traffic.

    Two rows come from wherever the block of all rows fits (measured at its size), and a dual variable of 8 bytes is
    read and written in main memory. w stays in the first cache.
    """
    rows = bandwidth(8 * d * n_rows)
    return 1e9 * (16 * d / rows + 16 / _peaks()[1])


PART = Part(
    "pair_updates",
    "One pair update: AUCSDCD",
    "at most 15 ns at d = 16, 25 ns at d = 64, 80 ns at d = 256, α in float64, no permutation stored",
    f"Median over {FITS} fits of {EPOCHS} epochs on drawn data, certificates included; a fit before them has compiled. "
    "The arithmetic bound is 5 d operations at the rate of the BLAS's matrix product; the memory bound two rows at the "
    "measured bandwidth of a block of that size and one dual variable, read and written, at that of main memory. The "
    "limits in ns are of another machine. For this one: the method as straight C of our own (benchmarks/peers/sdcd.c, "
    f"-O3 -march=native), an epoch's pairs by an affine bijection of its own, makes {EPOCHS} epochs of real data "
    f"beside ours, without certificates. λ = {LAM:g}; the ratio is shown, not judged.",
    cells,
    quality="relative suboptimality",
)
