"""What a look at a linear model costs: one reading of the rows where the loss allows it, and one sort of the scores.

A look yields the objective lam/2 ||w||^2 + loss, the bound ||gradient||^2/(2 lam) on its distance to the optimum
(every loss here is convex in w, so the objective is lam-strongly convex), the AUC, and the threshold of the largest
G-mean. Losses, over the k pairs of a positive i and a negative j:

    HINGE        1/k  sum_ij max(0, 1 - s_i + s_j)
    SQUARE       1/2k sum_ij (1 - s_i + s_j)^2
    EXPONENTIAL  1/2 mean_i exp(-s_i) + 1/2 mean_j exp(s_j)
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from aucsolvers._jit import kernel
from aucsolvers._ranking import Ranking
from aucsolvers._rows import REDUCE, add, add_rows, as_rows, dot, row_scores, weighted_row_sum

BLOCK = 8  # rows scored before they are added up: few, because meanwhile nothing is read ahead from memory


class Look(NamedTuple):
    """A model as a look finds it; ``gap`` >= objective - minimum."""

    objective: float
    gap: float
    auc: float
    threshold: float


def class_means(X, positive):
    """Return the means of the negative and the positive rows, summed in float64."""
    sums = np.zeros((2, X.shape[1]))
    _add_by_class(as_rows(X), positive, sums)
    return sums / np.bincount(positive, minlength=2)[:, None]


class Rows(NamedTuple):
    """Rows of both classes with their class moments, negatives first."""

    X: object
    positive: np.ndarray
    counts: np.ndarray
    means: np.ndarray


class Loss(NamedTuple):
    """A loss: ``measure(rows, w)`` returns its value, gradient and Ranking.

    At w = 0 it has the value ``at_zero`` and the gradient -``pull`` (m+ - m-), m+ and m- the class means.
    """

    measure: Callable
    at_zero: float
    pull: float


class Objective:
    """lam/2 ||w||^2 + loss on the given rows, dense or CSR, float64 or float32; ``positive`` is a mask."""

    def __init__(self, X, positive, lam, loss):
        self.lam, self.loss = lam, loss
        self.rows = Rows(X, positive, np.bincount(positive, minlength=2), class_means(X, positive))

    def look(self, w):
        """Return the Look at w; infinite where a score overflowed: nothing is known of such a model."""
        value, gradient, ranking = self.loss.measure(self.rows, w)
        if not ranking.is_finite:
            return Look(np.inf, np.inf, 0.5, 0.0)
        gradient += self.lam * w
        area, threshold = ranking.auc_and_threshold()
        return Look(0.5 * self.lam * float(w @ w) + value, self._gap(gradient), area, threshold)

    def look_at_zero(self):
        """Return the Look at w = 0, which needs no row."""
        negatives, positives = self.rows.means
        return Look(self.loss.at_zero, self._gap(self.loss.pull * (positives - negatives)), 0.5, 0.0)

    def _gap(self, gradient):
        return float(gradient @ gradient) / (2.0 * self.lam)


# Losses ----------------------------------------------------------------------------------------------------------


def _measure_hinge(rows, w):
    # the slope of a row depends on how all others are ranked: the rows are read twice
    ranking = Ranking(row_scores(rows.X, w), rows.positive)
    value, slopes = ranking.pair_hinge()
    return value, weighted_row_sum(rows.X, slopes), ranking


def _measure_square(rows, w):
    """Return value, gradient and Ranking; with class means m_c, covariances S_c and e = 1 - w'(m+ - m-), these are

        1/2 (e^2 + w'S+ w + w'S- w),    S+ w + S- w - e (m+ - m-),

    and S_c w is the mean of (s_i - w'm_c) x_i. What rounding leaves in the mean of s_i - w'm_c is put right.
    """
    n, d = rows.X.shape
    scores, product, moments, centres = np.empty(n), np.zeros(d), np.zeros((2, 2)), rows.means @ w
    _read_square(as_rows(rows.X), rows.positive, w, centres, 1.0 / rows.counts, scores, product, moments)
    rest, square = moments / rows.counts
    error = 1.0 - (centres[1] + rest[1] - centres[0] - rest[0])
    value = 0.5 * (error * error + float(np.maximum(square - rest * rest, 0.0).sum()))
    gradient = product - rest @ rows.means
    return value, gradient - error * (rows.means[1] - rows.means[0]), Ranking(scores, rows.positive)


def _measure_exponential(rows, w):
    scores, products, totals = np.empty(len(rows.positive)), np.zeros(rows.means.shape), np.zeros(2)
    _read_exponential(as_rows(rows.X), rows.positive, w, scores, products, totals)
    value, gradient = 0.5 * float((totals / rows.counts).sum()), 0.5 * (products / rows.counts[:, None]).sum(axis=0)
    return value, gradient, Ranking(scores, rows.positive)


HINGE = Loss(_measure_hinge, 1.0, 1.0)
SQUARE = Loss(_measure_square, 0.5, 1.0)
EXPONENTIAL = Loss(_measure_exponential, 1.0, 0.5)


# Kernels: one reading of the rows, arrays by class negatives first -------------------------------------------------


@kernel()
def _add_by_class(rows, positive, sums):
    for i in range(np.uint32(positive.size)):
        add(rows, i, 1.0, sums[np.uint8(positive[i])])


@kernel(fastmath=REDUCE)
def _read_square(rows, positive, w, centres, shares, scores, product, moments):
    """Fill the scores; add share (s_i - centre) x_i to product, and s_i - centre and its square to moments."""
    block, slopes = np.empty(BLOCK, np.uint32), np.empty(BLOCK)
    for start in range(0, positive.size, BLOCK):
        size = min(BLOCK, positive.size - start)
        for k in range(size):
            i = block[k] = np.uint32(start + k)
            group = np.uint8(positive[i])
            scores[i] = dot(rows, i, w)
            deviation = scores[i] - centres[group]
            slopes[k] = shares[group] * deviation
            moments[0, group] += deviation
            moments[1, group] += deviation * deviation
        add_rows(rows, block[:size], slopes[:size], product)


@kernel(fastmath=REDUCE)
def _read_exponential(rows, positive, w, scores, products, totals):
    """Fill the scores; add -y exp(-y s_i) x_i to products and exp(-y s_i) to totals."""
    for i in range(np.uint32(positive.size)):
        group = np.uint8(positive[i])
        sign = 2.0 * group - 1.0
        scores[i] = dot(rows, i, w)
        charge = np.exp(-sign * scores[i])
        add(rows, i, -sign * charge, products[group])
        totals[group] += charge
