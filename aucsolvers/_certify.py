"""What a look at a linear model costs: one reading of the rows where the loss allows it, and one sort of the scores.

A look yields the objective lam/2 ||w||^2 + loss, the bound ||gradient||^2/(2 lam) on its distance to the optimum
(every loss here is convex in w, so the objective is lam-strongly convex), the AUC, and the threshold of the largest
G-mean. Looks at several models share a reading, and only the last one has a gradient. Losses, over the k pairs of a
positive i and a negative j:

    HINGE        1/k  sum_ij max(0, 1 - s_i + s_j)
    SQUARE       1/2k sum_ij (1 - s_i + s_j)^2
    EXPONENTIAL  1/2 mean_i exp(-s_i) + 1/2 mean_j exp(s_j)
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from aucsolvers._jit import kernel
from aucsolvers._pairwise import mean_pair_square
from aucsolvers._ranking import Ranking
from aucsolvers._rows import REDUCE, add, add_four, as_rows, dot, weighted_row_sum

# Rows scored before they are added up: what the nearest cache holds.
BLOCK_ENTRIES, FEWEST, MOST = 4096, 8, 256
NARROW = 32  # features, up to which eight rows at a time are added up in two sums


class Look(NamedTuple):
    """A model as a look finds it; ``gap`` >= objective - minimum, infinite if nothing is known of it."""

    objective: float
    gap: float
    auc: float
    threshold: float


def class_means(X, positive):
    """Return the means of the negative and the positive rows, summed in float64."""
    sums = np.zeros((2, X.shape[1]))
    _add_by_class(as_rows(X), positive, sums)
    return sums / _class_counts(positive)[:, None]


def _class_counts(positive):
    n_pos = np.count_nonzero(positive)
    return np.array([len(positive) - n_pos, n_pos])


class Rows(NamedTuple):
    """Rows of both classes with their class moments, negatives first."""

    X: object
    positive: np.ndarray
    counts: np.ndarray
    means: np.ndarray


class Loss(NamedTuple):
    """A loss: ``measure(rows, models)`` returns its gradient at the last one and, of each, its value and Ranking.

    The latter come one by one, so that two Rankings at most take up memory at a time.

    At w = 0 it has the value ``at_zero`` and the gradient -``pull`` (m+ - m-), m+ and m- the class means.
    """

    measure: Callable
    at_zero: float
    pull: float


class Objective:
    """lam/2 ||w||^2 + loss on the given rows, dense or CSR, float64 or float32; ``positive`` is a mask.

    ``means`` are those of the classes, negatives first, for who has them.
    """

    def __init__(self, X, positive, lam, loss, means=None):
        self.lam, self.loss = lam, loss
        self.rows = Rows(X, positive, _class_counts(positive), class_means(X, positive) if means is None else means)

    def look(self, w):
        """Return the Look at w; infinite where a score or the loss overflowed: nothing is known of such a model."""
        return self.looks(w[None])[-1]

    def looks(self, models):
        """Return the Looks at several w, shape (n_models, n_features), of which only the last one has a finite gap."""
        with np.errstate(over="ignore", invalid="ignore"):  # of steps that diverged: the Look says so
            gradient, measured = self.loss.measure(self.rows, models)
            gaps = [np.inf] * (len(models) - 1) + [self._gap(gradient + self.lam * models[-1])]
            return [self._look(w, gap, *told) for w, gap, told in zip(models, gaps, measured, strict=True)]

    def _look(self, w, gap, value, ranking):
        if not ranking.is_finite:
            return Look(np.inf, np.inf, 0.5, 0.0)
        objective = 0.5 * self.lam * float(w @ w) + value
        if not objective < np.inf:  # overflowed as well, or inf - inf on the way
            objective = gap = np.inf
        return Look(objective, gap, *ranking.auc_and_threshold())

    def look_at_zero(self):
        """Return the Look at w = 0, which needs no row."""
        negatives, positives = self.rows.means
        return Look(self.loss.at_zero, self._gap(self.loss.pull * (positives - negatives)), 0.5, 0.0)

    def _gap(self, gradient):
        return float(gradient @ gradient) / (2.0 * self.lam)


# Losses ----------------------------------------------------------------------------------------------------------


def _measure_hinge(rows, models):
    # the slope of a row depends on how all others are ranked: the rows are read twice
    scores = np.empty((len(models), len(rows.positive)))
    _score_models(as_rows(rows.X), models, scores)
    rankings = list(_rankings(scores, rows))
    values, slopes = zip(*(ranking.pair_hinge() for ranking in rankings), strict=True)
    return weighted_row_sum(rows.X, slopes[-1]), zip(values, rankings, strict=True)


def _measure_square(rows, models):
    """Return values, gradient and Rankings; with class means m_c, covariances S_c and e = 1 - w'(m+ - m-), these are

        1/2 (e^2 + w'S+ w + w'S- w),    S+ w + S- w - e (m+ - m-),

    and S_c w is the mean of (s_i - w'm_c) x_i. What rounding leaves in the mean of s_i - w'm_c is put right.
    """
    scores, product, rest = np.empty((len(models), len(rows.positive))), np.zeros(models.shape[1]), np.zeros(2)
    centres = rows.means @ models[-1]
    group = rows.positive.view(np.uint8)
    _read_square(as_rows(rows.X), group, models, centres, 1.0 / rows.counts, scores, product, rest)
    error = 1.0 - (centres[1] + rest[1] - centres[0] - rest[0])
    gradient = product - rest @ rows.means - error * (rows.means[1] - rows.means[0])
    return gradient, ((mean_pair_square(ranking.pos, ranking.neg), ranking) for ranking in _rankings(scores, rows))


def _measure_exponential(rows, models):
    scores, gradient = np.empty((len(models), len(rows.positive))), np.zeros(models.shape[1])
    _read_exponential(as_rows(rows.X), rows.positive.view(np.uint8), models, 0.5 / rows.counts, scores, gradient)
    return gradient, ((_mean_exponentials(ranking.pos, ranking.neg), ranking) for ranking in _rankings(scores, rows))


def _mean_exponentials(pos, neg):
    with np.errstate(over="ignore"):
        return 0.5 * float(np.exp(-pos).mean() + np.exp(neg).mean())


def _rankings(scores, rows):
    return (Ranking(one, rows.positive) for one in scores)


HINGE = Loss(_measure_hinge, 1.0, 1.0)
SQUARE = Loss(_measure_square, 0.5, 1.0)
EXPONENTIAL = Loss(_measure_exponential, 1.0, 0.5)


# Kernels: one reading of the rows, arrays by class negatives first -------------------------------------------------


@kernel()
def _add_by_class(rows, positive, sums):
    for i in range(np.uint32(positive.size)):
        add(rows, i, 1.0, sums[np.uint8(positive[i])])


@kernel()
def _score_models(rows, models, scores):
    for i in range(np.uint32(scores.shape[1])):
        for m in range(models.shape[0]):
            scores[m, i] = dot(rows, i, models[m])


@kernel(fastmath=REDUCE)
def _read_square(rows, group, models, centres, shares, scores, product, rest):
    """Fill the scores of all models; add t_i x_i to product and t_i to rest, t_i = share (s_i - centre) by the last."""
    size, last, total, of_pos = _block_size(product), models.shape[0] - 1, 0.0, 0.0
    slopes, spare = np.empty(size), _spare(product)
    for start in range(0, group.size, size):
        stop = min(start + size, group.size)
        _score_block(rows, models, start, stop, scores)
        # arithmetic for a choice, and below two sums in registers for one of each class: done eight at once
        for i in range(start, stop):
            is_pos = np.float64(group[i])
            is_neg = 1.0 - is_pos
            deviation = scores[last, i] - (is_neg * centres[0] + is_pos * centres[1])
            slopes[i - start] = (is_neg * shares[0] + is_pos * shares[1]) * deviation
        # (a loop of its own, lest bits depend on addresses: see _rows.py)
        for i in range(start, stop):
            total += slopes[i - start]
            of_pos += np.float64(group[i]) * slopes[i - start]
        _add_block(rows, start, stop, slopes, product, spare)
    _add_spare(spare, product)
    rest[0] += total - of_pos
    rest[1] += of_pos


@kernel(fastmath=REDUCE)
def _read_exponential(rows, group, models, shares, scores, product):
    """Fill the scores of all models; by the last one's, add -y share exp(-y s_i) x_i to product."""
    size, last = _block_size(product), models.shape[0] - 1
    slopes, spare = np.empty(size), _spare(product)
    for start in range(0, group.size, size):
        stop = min(start + size, group.size)
        _score_block(rows, models, start, stop, scores)
        for i in range(start, stop):
            sign = 2.0 * group[i] - 1.0
            slopes[i - start] = -sign * shares[group[i]] * np.exp(-sign * scores[last, i])
        _add_block(rows, start, stop, slopes, product, spare)
    _add_spare(spare, product)


@kernel(forceinline=True)
def _block_size(product):
    return min(MOST, max(FEWEST, BLOCK_ENTRIES // product.size))


@kernel(forceinline=True)
def _score_block(rows, models, start, stop, scores):
    for m in range(models.shape[0]):
        w = models[m]
        for i in range(np.uint32(start), np.uint32(stop)):
            scores[m, i] = dot(rows, i, w)


@kernel(forceinline=True)
def _spare(product):
    """Return a second array to sum up in, or the same: of narrow rows each sum waits for the one before."""
    return np.zeros(product.size) if product.size <= NARROW else product


@kernel(forceinline=True)
def _add_block(rows, start, stop, slopes, product, spare):
    """Add slope_i x_i over a block of rows, four to product and four to spare in turn."""
    first, size = np.uint32(start), stop - start
    whole = size - size % 8
    for k in range(0, whole, 8):
        i, j, p, q = first + np.uint32(k), first + np.uint32(k + 1), first + np.uint32(k + 2), first + np.uint32(k + 3)
        add_four(rows, i, j, p, q, slopes[k], slopes[k + 1], slopes[k + 2], slopes[k + 3], product)
        i, j, p, q = i + np.uint32(4), j + np.uint32(4), p + np.uint32(4), q + np.uint32(4)
        add_four(rows, i, j, p, q, slopes[k + 4], slopes[k + 5], slopes[k + 6], slopes[k + 7], spare)
    for k in range(whole, size):
        add(rows, first + np.uint32(k), slopes[k], product)


@kernel(forceinline=True)
def _add_spare(spare, product):
    if product.size <= NARROW:
        for f in range(product.size):
            product[f] += spare[f]
