"""What the solvers of the pairwise objectives share: the two classes as blocks of rows, the trace of Q."""

import math

import numpy as np
from scipy import sparse

from aucsolvers._jit import kernel
from aucsolvers._rows import (
    REDUCE,
    inner,
    row_scores,
    weighted_row_sum,
    width_in_lines,
    with_short_indices,
    zeros_in_lines,
)
from aucsolvers.metrics import square_slopes

ROUNDED = 2.0**-53  # of the terms of a sum over rows; of n that err at random, about as much
COPIED = 4096  # rows at a time that a block takes in, by a copy in between


def split_classes(X, y, order_pos=slice(None), order_neg=slice(None)):
    """Return the positive and the negative rows as blocks of their own, each in an order, C-ordered or canonical CSR.

    Contiguous blocks let a kernel address a row by its class index. Dense ones begin with a cache line and may have
    columns of zeros behind, as ``width_in_lines`` tells. CSR blocks have short indices, and their columns are sorted
    and unique, which the merge of two rows relies on. The input is not changed.
    """
    return _block(X, np.flatnonzero(y > 0)[order_pos]), _block(X, np.flatnonzero(y < 0)[order_neg])


def _block(X, places):
    if not sparse.issparse(X):
        rows = zeros_in_lines(len(places), width_in_lines(X), dtype=X.dtype)
        for start in range(0, len(places), COPIED):
            stop = start + COPIED
            rows[start:stop, : X.shape[1]] = X[places[start:stop]]
        return rows
    rows = sparse.csr_array(X[places])
    rows.sum_duplicates()
    return with_short_indices(rows)


# Pairwise square -------------------------------------------------------------------------------------------------


def record_square(trace, updates, w, X, positive, lam, size, centre=None):
    """Add a point to the trace; return the gradient of Q, Q, the certificate ||dQ||^2/(2 lam) and its floor.

    Q does not see a shift of all rows, rounding does: a dense X may come with a ``centre`` to be taken from each row.
    ``size`` is M, M^2 being the mean square of such rows' lengths, summed over the classes: rounding of scores s and
    sums changes the gradient by some eps M (1 + max |s|), which the certificate allows for: that is its floor.
    """
    scores = scores_about(centre, X, w)
    s_pos, s_neg = scores[positive], scores[~positive]
    gradient = lam * w + row_sum_about(centre, X, square_slopes(scores, positive, margin=1.0))
    objective = 0.5 * lam * inner(w, w) + mean_pair_square(s_pos, s_neg)
    rounding = ROUNDED * size * (1.0 + float(np.abs(scores).max()))
    bound = math.sqrt(inner(gradient, gradient)) + rounding
    gap, floor = bound * bound / (2.0 * lam), rounding * rounding / (2.0 * lam)
    trace.add(updates, objective, gap, s_pos, s_neg)
    return gradient, objective, gap, floor


def mean_pair_square(s_pos, s_neg):
    """Return 1/2k sum_ij (1 - s_i + s_j)^2: half the squared mean error and the variances of the two classes."""
    (m_pos, v_pos), (m_neg, v_neg) = _mean_and_variance(s_pos), _mean_and_variance(s_neg)
    error = 1.0 - (m_pos - m_neg)
    return 0.5 * (error * error + v_pos + v_neg)


@kernel(fastmath=REDUCE)
def _mean_and_variance(values):
    total = square = 0.0
    for i in range(values.size):
        total += values[i]
    mean = total / values.size
    for i in range(values.size):
        deviation = values[i] - mean
        square += deviation * deviation
    return mean, square / values.size


def scores_about(centre, X, w):
    """Return (x_i - centre)'w of every row, without a centred copy of X; a centre of None is 0."""
    if centre is None:
        return row_scores(X, w)
    scores = np.empty(X.shape[0])
    _score_rows_about(centre, X, w, scores)
    return scores


def row_sum_about(centre, X, weights):
    """Return sum_i weights_i (x_i - centre), without a centred copy of X; a centre of None is 0."""
    if centre is None:
        return weighted_row_sum(X, weights)
    total = np.zeros(X.shape[1])
    _add_rows_about(centre, X, weights, total)
    return total


@kernel(fastmath=REDUCE)
def _score_rows_about(centre, rows, w, scores):
    for i in range(rows.shape[0]):
        total = 0.0
        for f in range(rows.shape[1]):
            total += (rows[i, f] - centre[f]) * w[f]
        scores[i] = total


@kernel(fastmath={"contract"})
def _add_rows_about(centre, rows, weights, total):
    for i in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            total[f] += weights[i] * (rows[i, f] - centre[f])
