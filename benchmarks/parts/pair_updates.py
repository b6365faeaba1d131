"""AUCSDCD's time per pair update, beside what the processor's arithmetic and the memory allow at best."""

import statistics
from collections.abc import Iterator
from functools import cache, partial

import numpy as np

from aucsolvers import AUCSDCD
from benchmarks.contest import Gauge
from benchmarks.machine import bandwidth, peak_flops
from benchmarks.part import Bench, Cell, Part

LIMITS_NS = {16: 15.0, 64: 25.0, 256: 80.0}
CLASSES = ((500, 3500), (1000, 10_000))  # 1.75 and 10 million pairs
EPOCHS, FITS = 4, 3


def cells(bench: Bench) -> Iterator[Cell]:
    for n_pos, n_neg in CLASSES[: 1 if bench.quick else 2]:
        for d in LIMITS_NS:
            yield Cell("AUCSDCD", f"d = {d}, k = {n_pos * n_neg:,}", partial(_measure, d, n_pos, n_neg))


def _measure(d: int, n_pos: int, n_neg: int) -> Gauge:
    rng = np.random.default_rng(0)
    y = np.repeat((1.0, -1.0), (n_pos, n_neg))
    X = rng.normal(size=(len(y), d)) + 0.3 * (y > 0)[:, None]
    model = AUCSDCD(lam=1e-3, tol=0.0, max_iter=EPOCHS, random_state=0)
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
    "measured bandwidth of a block of that size and one dual variable, read and written, at that of main memory.",
    cells,
)
