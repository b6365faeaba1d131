"""The width of a Gaussian kernel, chosen by the errors of rows that are left out: no further fit for any of them."""

from dataclasses import replace

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from aucsolvers._rows import row_scores

DOUBLINGS = range(-4, 3)  # of the given gamma: those that are tried
TRIAL_COST = 1000.0  # weight of the mean squared error, beside 1/2 ||w||^2, in the machine that they are tried with
TRIAL_ROWS = 150  # it takes O(n^3) operations
INVERTED_WHOLE = 48  # rows of a triangle
SAME_POINT = 1e-12  # of k(x, z), what two points that are the same one may have less than 1, by rounding
TRIAL_ERRORS = 2.0  # standard errors by which a wider kernel may be worse


def leave_one_out_gamma(gaussian, X, y):
    """Return the gamma out of 1/16, 1/8, ..., 4 times ``gaussian``'s that is chosen by the errors of rows left out.

    The scores are those of the least-squares SVM, both classes of equal weight omega_i = n / (2 n_class): with s = +-1,

        1/2 ||w||^2 + c/(2n) sum_i omega_i (s_i - f(x_i))^2    is least at    f = K beta, (K + n/c Omega^-1) beta = s,

    and without row i its error there is beta_i / (M^-1)_ii, M being that matrix. Best is the least mean of its squares,
    omega-weighted. Chosen is the smallest gamma that is not worse by more than TRIAL_ERRORS standard errors of the
    difference, taken row by row: where the rows do not tell, the wider kernel, whose scores vary less. Of many rows
    TRIAL_ROWS are taken, of the rare class up to half, whatever the order that they come in. Of rows that are copies of
    each other, label and all, one is: to leave the others in would be to leave none out.
    """
    rows = np.arange(len(y))
    if len(y) > TRIAL_ROWS:
        rows = _distinct_rows(X, y)
        rows = rows[some_rows(y[rows], TRIAL_ROWS)]
    signs, points = y[rows], gaussian.points_among_themselves(X[rows])
    gammas = gaussian.gamma * 2.0 ** np.array(DOUBLINGS)
    values = replace(gaussian, gamma=gammas[0]).between(points, points)
    signs, values = _without_copies(signs, values)
    n, n_pos = len(signs), np.count_nonzero(signs > 0)
    weights = np.where(signs > 0, n / (2.0 * n_pos), n / (2.0 * (n - n_pos)))
    losses = np.empty((len(gammas), n))
    for loss in losses:
        system = values + gaussian.constant
        system.flat[:: n + 1] += n / (TRIAL_COST * weights)
        root = _inverse(dpotrf(system.T, lower=True, overwrite_a=True)[0])
        # M^-1 = root' root
        loss[:] = weights * (((root @ signs) @ root) / np.einsum("ij,ij->j", root, root)) ** 2
        values *= values  # exp(-2 gamma ||x - z||^2)
    means = losses.mean(axis=1)
    excess = losses - losses[means.argmin()]
    # both classes are given, their rows drawn
    error = np.sqrt(sum(of.sum() * excess[:, of].var(axis=1) for of in (signs > 0, signs < 0))) / n
    return float(gammas[np.argmax(means - means.min() <= TRIAL_ERRORS * error)])


def _distinct_rows(X, y):
    """Return the numbers of all rows but copies, label and all, in an order that does not depend on the rows'."""
    places = row_scores(X, np.random.default_rng(0).standard_normal(X.shape[1]))  # along a line of no meaning
    order = np.lexsort((y, places))
    differs = (np.diff(places[order]) != 0) | (np.diff(y[order]) != 0)
    return order[np.append(True, differs)]


def _inverse(factor):
    """Return the inverse of a lower triangular matrix, in halves: products of blocks are faster than LAPACK's loops."""
    if len(factor) <= INVERTED_WHOLE:
        return dtrtri(factor, lower=True)[0]
    half, inverse = len(factor) // 2, np.zeros_like(factor)
    first = inverse[:half, :half] = _inverse(factor[:half, :half])
    last = inverse[half:, half:] = _inverse(factor[half:, half:])
    inverse[half:, :half] = -(last @ (factor[half:, :half] @ first))
    return inverse


def _without_copies(signs, values):
    """Return signs and kernel values of the first of all copies alone."""
    is_copy = (values > 1.0 - SAME_POINT) & (signs[:, None] == signs)
    first = np.flatnonzero(~np.tril(is_copy, -1).any(axis=1))
    return (signs, values) if len(first) == len(signs) else (signs[first], values[np.ix_(first, first)])


def some_rows(y, most):
    """Return the numbers of all rows, or of so many: up to half of the rare class, evenly spaced among either."""
    if len(y) <= most:
        return np.arange(len(y))
    rare, common = sorted((np.flatnonzero(y > 0), np.flatnonzero(y < 0)), key=len)
    quota = min(len(rare), most // 2)
    chosen = ((rare, quota), (common, most - quota))
    return np.sort(np.concatenate([rows[np.arange(count) * len(rows) // count] for rows, count in chosen]))
