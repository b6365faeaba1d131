"""Drift: how far a model's scores on new rows are from those that it gave on the day of its training.

Of rows that were held out then: a model scores those that it was fitted on better than any others, and one that knows
them by heart would seem to drift at once. The scores are kept as a `ScoreProfile`, a few kilobytes whatever the number
of rows. Both measures see ranks alone: a strictly increasing change of all scores leaves them as they are.

A file that grows still has the rows of that day, whose scores are the very same: among them what has come since would
drown. The keys of those rows are kept too, and `new_rows` tells which are others.
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import kolmogi

from tasks.errors import BadInput

SCHEMA = "aucflow-scores/1"
KNOTS = 500  # a profile is wrong by less than one part in so many
BINS = 10
ROWS_A_BIN = 20


@dataclass(frozen=True)
class ScoreProfile:
    """The distribution of some scores, known exactly at its knots: some of the scores, ascending, ends included.

    Between two knots lies less than a share 1/KNOTS of the scores, and of up to KNOTS + 1 scores each one is a knot. In
    JSON every float keeps its bits.
    """

    scores: tuple[float, ...]  # the knots
    below: tuple[int, ...]  # rows with a score below each knot
    up_to: tuple[int, ...]  # rows with a score of each knot or below it

    def __post_init__(self) -> None:
        try:
            proper = _is_profile(*(np.asarray(column) for column in (self.scores, self.below, self.up_to)))
        except (TypeError, ValueError):  # columns of texts, or of lists
            proper = False
        if not proper:
            raise BadInput(
                "Expected a profile of scores: ascending finite scores and whole numbers of rows below and up to each, "
                "got columns that are not. Make the profile again from the model's training rows."
            )

    @classmethod
    def of(cls, scores: np.ndarray, knots: int = KNOTS) -> "ScoreProfile":
        """Return the profile of some scores."""
        ordered = _ascending(scores)
        # the ranks are at most (n - 1)/knots + 1 apart, so that at most (n - 1)/knots scores lie between two of them
        steps = max(1, min(knots, len(ordered) - 1))
        chosen = np.unique(ordered[np.arange(steps + 1) * (len(ordered) - 1) // steps])
        below, up_to = (np.searchsorted(ordered, chosen, side) for side in ("left", "right"))
        return cls(tuple(chosen.tolist()), tuple(below.tolist()), tuple(up_to.tolist()))

    @classmethod
    def from_dict(cls, data: Any) -> "ScoreProfile":
        """Return the profile that `as_dict` gave, read back from JSON."""
        known = {"schema", "scores", "below", "up_to"}
        if not isinstance(data, Mapping) or set(data) != known or data["schema"] != SCHEMA:
            raise BadInput(
                f"Expected a profile of scores of schema {SCHEMA}, got something else. Make the profile again from the "
                "model's training rows."
            )
        columns = (data[name] for name in ("scores", "below", "up_to"))
        return cls(*(tuple(column) if isinstance(column, list | tuple) else column for column in columns))

    def as_dict(self) -> dict[str, Any]:
        """Return the profile as JSON holds it."""
        return {"schema": SCHEMA} | {name: list(column) for name, column in asdict(self).items()}

    @property
    def n_rows(self) -> int:
        """The number of scores."""
        return self.up_to[-1]

    @property
    def error(self) -> float:
        """The largest share of the scores between two knots: what `kolmogorov_smirnov` can be too small by."""
        between = np.subtract(self.below[1:], self.up_to[:-1])
        return float(between.max(initial=0) / self.n_rows)


def kolmogorov_smirnov(expected: ScoreProfile, actual: np.ndarray) -> float:
    """Return the largest difference between the two distribution functions, from 0 to 1.

    It is looked for at the knots, on both sides of each. Between two of them the expected function rises by
    ``expected.error`` at most and the other one does not fall, so the true statistic is between the value returned and
    that plus ``expected.error``: less than 1/KNOTS = 0.002 more, and nothing where every score is a knot.
    """
    ordered = _ascending(actual)
    knots, n, m = np.asarray(expected.scores), expected.n_rows, len(ordered)
    below, up_to = np.searchsorted(ordered, knots, "left"), np.searchsorted(ordered, knots, "right")
    gaps = [
        np.abs(np.asarray(counts) * m - found * n).max()
        for counts, found in ((expected.below, below), (expected.up_to, up_to))
    ]
    return float(max(gaps) / (n * m))


def new_rows(known: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Return True for the rows that are not the known ones, by the keys of both: of copies as many are as there were.

    So of a file that grows, or a window that moves along, those that have come. Of rows with few values, of which a
    wholly other file has as many, those are new of which there are more than there were.
    """
    distinct, counts = np.unique(known, return_counts=True)
    if not len(distinct):
        return np.ones(len(keys), dtype=bool)
    at = np.minimum(np.searchsorted(distinct, keys), len(distinct) - 1)
    of_known = np.where(distinct[at] == keys, counts[at], 0)
    return pd.Series(keys).groupby(keys).cumcount().to_numpy() >= of_known


def ks_by_chance(expected: ScoreProfile, n_rows: int) -> float:
    """Return the mean statistic of `n_rows` rows drawn from the very population of the expected ones.

    For large samples it is sqrt(1/n + 1/m) times a variable with Kolmogorov's distribution, of mean sqrt(π/2) ln 2;
    one in twenty is beyond 1.56 times the mean.
    """
    return math.sqrt(math.pi / 2) * math.log(2) * math.sqrt(1.0 / expected.n_rows + 1.0 / n_rows)


def ks_at_most(expected: ScoreProfile, n_rows: int, confidence: float) -> float:
    """Return what the statistic of such rows stays below by chance with that confidence (large samples)."""
    return float(kolmogi(1.0 - confidence)) * math.sqrt(1.0 / expected.n_rows + 1.0 / n_rows)


def psi(expected: ScoreProfile, actual: np.ndarray, bins: int = BINS) -> float:
    """Return the population stability index: the sum over bins of (a - e) ln(a/e), e and a being shares of the rows.

    A bin ends at a quantile of the expected scores, which is itself in the bin; the first and the last bin are open.
    The quantile is taken from the knots, so a bin may hold about 1/KNOTS more or less than its share; e is exact for
    the bin as it is.

    Ties: quantiles that coincide make one bin, so there may be fewer. Where all are the largest score, the bins are
    below it, at it and above it. Empty bins: where one of the two has no row in a bin, it counts as having half a row,
    which keeps the index finite; a bin with rows of neither counts for nothing.

    Without any drift the index is about `psi_by_chance`. It is 0.25 where normal scores move by half a standard
    deviation.
    """
    if bins < 2:
        raise ValueError(f"Expected at least 2 bins, got {bins}.")
    edges, up_to = _edges(expected, bins)
    ordered = _ascending(actual)
    n, m = expected.n_rows, len(ordered)
    rows_expected = np.diff(up_to, prepend=0, append=n)
    rows_actual = np.diff(np.searchsorted(ordered, edges, "right"), prepend=0, append=m)
    some = (rows_expected > 0) | (rows_actual > 0)
    e, a = np.maximum(rows_expected[some], 0.5) / n, np.maximum(rows_actual[some], 0.5) / m
    return float(np.sum((a - e) * np.log(a / e)))


def psi_by_chance(expected: ScoreProfile, n_rows: int, bins: int = BINS) -> float:
    """Return the mean index of `n_rows` rows drawn from the very population of the expected ones.

    For large samples the index is (1/n + 1/m) times a chi-square of as many degrees of freedom as there are bins, less
    one: of those that are left where quantiles coincide.
    """
    return (bins_held(expected, bins) - 1) * (1.0 / expected.n_rows + 1.0 / n_rows)


def bins_held(expected: ScoreProfile, bins: int) -> int:
    """Return how many of the bins hold expected rows: fewer where quantiles coincide."""
    _, up_to = _edges(expected, bins)
    return int(np.count_nonzero(np.diff(up_to, prepend=0, append=expected.n_rows)))


def bins_for(n_rows: int) -> int:
    """Return how many bins to compare so many rows in: those of the smaller sample, earlier scores or today's.

    With 20 rows a bin the index of undrifted rows is beyond 0.25 less than once in ten times; with 40 rows in ten bins
    it is every other time.
    """
    return max(2, min(BINS, n_rows // ROWS_A_BIN))


def _edges(expected: ScoreProfile, bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the upper ends of all bins but the last, and the expected rows up to each."""
    knots, up_to = np.asarray(expected.scores), np.asarray(expected.up_to)
    at = np.unique(np.searchsorted(up_to * bins, np.arange(1, bins) * expected.n_rows))
    at = at[at < len(knots) - 1]  # nothing expected is above the largest score
    if len(at):
        return knots[at], up_to[at]
    largest = knots[-1]
    return np.array([np.nextafter(largest, -np.inf), largest]), np.array([expected.below[-1], expected.n_rows])


def _ascending(scores: np.ndarray) -> np.ndarray:
    """Return scores in ascending order, or refuse what cannot be ordered."""
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=None)
    if not len(ordered):
        raise BadInput("Expected at least one score, got none. Give the rows to score.")
    strange = int(np.count_nonzero(~np.isfinite(ordered)))
    if strange:
        raise BadInput(f"Expected finite scores, got {strange:,} nan or infinite. Check the model that made them.")
    return ordered


def _is_profile(scores: np.ndarray, below: np.ndarray, up_to: np.ndarray) -> bool:
    """Tell whether the columns are those of a profile: as long as each other, ascending, and beginning at no row."""
    if not (scores.ndim == 1 and len(scores) and scores.shape == below.shape == up_to.shape):
        return False
    if scores.dtype != np.float64 or below.dtype.kind != "i" or up_to.dtype.kind != "i":
        return False
    counts = np.column_stack([below, up_to]).ravel()
    ascends = (scores[:-1] < scores[1:]).all() and (below < up_to).all() and (np.diff(counts) >= 0).all()
    return bool(np.isfinite(scores).all() and below[0] == 0 and ascends)
