"""Pairwise square loss, solved exactly (LSSVM).

With the class means m+, m-, their covariances S+, S- (divided by the class sizes) and b = m- - m+,

    Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'(x_i - x_j))^2
         = lam/2 ||w||^2 + 1/2 + b'w + 1/2 w'(S+ + S- + bb')w,

a quadratic whose minimiser solves (S+ + S- + bb' + lam I) w = -b. From top to bottom: estimator, drivers, the pieces.
"""

import logging
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace
from aucsolvers._jit import kernel
from aucsolvers._pairwise import check_squares, mean_pair_square, record_square, row_sum_about, scores_about
from aucsolvers._params import check_choice, check_count, check_positive, check_tolerance
from aucsolvers._ranking import Ranking
from aucsolvers._rows import FLOATS, inner, row_scores, weighted_row_sum, with_short_indices
from aucsolvers.metrics import square_slopes

logger = logging.getLogger(__name__)

SOLVERS = ("auto", "cholesky", "cg")
LARGEST_CHOLESKY = 4096  # features: the matrix then takes 128 MiB
MAX_REFINEMENTS = 5
BLOCK_BYTES = 2**18  # of rows centred at a time: they are multiplied while in the second-level cache


class LSSVM(LinearScorer):
    """Linear AUC maximiser by the pairwise square loss: the exact minimiser of a quadratic.

    Minimises Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'(x_i - x_j))^2 over the k = n_pos * n_neg pairs: half the mean
    square, so a lam of the form without the half is twice this one.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0.
    solver : {"auto", "cholesky", "cg"}, default="auto"
        "cholesky" factors the d x d system, dense X only; "cg" runs conjugate gradients on products with X alone, with
        a diagonal preconditioner if d <= n. "auto" factors dense X with d <= min(n, 4096).
    tol : float, default=1e-10
        Stop when the certificate is at most tol; Q(0) = 1/2.
    max_iter : int, default=1000
        Largest number of conjugate-gradient iterations. The factorisation needs no iterations, but is refined by at
        most min(5, max_iter) residual corrections if its certificate asks for it.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The minimiser.
    intercept_ : ndarray of shape (1,)
        Minus the threshold of the largest G-mean on the training scores: the loss does not see a bias.
    objective_ : float
        Q(coef_).
    dual_gap_ : float
        ||dQ(w)||^2/(2 lam) >= Q(w) - min Q, because Q is lam-strongly convex: certifies the objective. Taken from the
        class moments where they are exact enough, with a bound on their rounding; otherwise from the rows.
    gradient_norm_ : float
        ||dQ(w)||, or the bound on it that dual_gap_ is from.
    n_iter_ : int
        Conjugate-gradient iterations, or factorisations (1) plus refinements.
    status_ : {"converged", "max_iter"}
        Whether dual_gap_ <= tol.
    history_ : dict of ndarray
        ``updates`` (iterations), ``objective``, ``dual_gap``, ``auc`` (training), ``time_s``: at w = 0 and after each
        iteration.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, features whose squares overflow, or sparse X with "cholesky".

    Warns
    -----
    ConvergenceWarning
        If the certificate stayed above tol.

    Notes
    -----
    Cholesky: O(n d^2 + d^3) time and O(n + d^2) memory beside X, which is read twice, for its moments and its scores;
    where rounding hides lam, so that the factorisation fails, conjugate gradients take over. Those need four products
    with X and one sort per iteration, and O(n + d) memory. No X is copied to be centred or, being float32, converted.
    Nothing is drawn: the same machine, library versions and number of BLAS threads give the same bits.

    References
    ----------
    .. [1] Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in Applied
       Mathematics and Statistics, 2019: the baseline B-LS-SVM.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = LSSVM(lam=1e-2).fit(scale(X), y == 0)
    >>> model.status_, model.n_iter_, round(float(model.history_["auc"][-1]), 2)
    ('converged', 1, 1.0)
    """

    def __init__(self, lam=1e-3, *, solver="auto", tol=1e-10, max_iter=1000):
        self.lam = lam
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_positive("lam", self.lam)
        check_choice("solver", self.solver, SOLVERS)
        check_tolerance(self.tol)
        check_count("max_iter", self.max_iter)

    def fit(self, X, y):
        """Fit to X, shape (n_samples, n_features), dense or CSR, and two-class labels y; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y, dtype=FLOATS)
        check_squares(X)
        drive = solve_by_cholesky if self._factors(X) else solve_by_conjugate_gradients
        result = drive(X, y, self.lam, self.tol, self.max_iter)
        self.gradient_norm_ = float(np.sqrt(2.0 * self.lam * result.dual_gap))
        return self._publish(result, X, y)

    def _factors(self, X):
        """Return whether to factor the Hessian of X."""
        if self.solver == "auto":
            return not sparse.issparse(X) and X.shape[1] <= min(X.shape[0], LARGEST_CHOLESKY)
        if self.solver == "cholesky" and sparse.issparse(X):
            raise ValueError("Expected dense X for solver='cholesky', got a sparse matrix. Use solver='cg' or 'auto'.")
        return self.solver == "cholesky"


# Drivers ---------------------------------------------------------------------------------------------------------


def solve_by_cholesky(X, y, lam, tol, max_iter):
    """Minimise Q by factoring its Hessian; X is dense, y is +-1. Return a SolverResult (nothing to go on from)."""
    trace, positive = Trace(), y > 0
    moments = class_moments(X, positive)
    b, hessian = moments.b, moments.hessian(lam)
    try:
        factor = linalg.cho_factor(hessian, check_finite=False)
    except linalg.LinAlgError:
        logger.info("conjugate gradients instead of cholesky: lam=%g is lost in the rounding of the covariances", lam)
        return solve_by_conjugate_gradients(X, y, lam, tol, max_iter)
    trace.add_with_auc(0, 0.5, float(b @ b) / (2.0 * lam), 0.5)  # w = 0: Q = 1/2, dQ = b, all scores tied
    w, n_iter = -linalg.cho_solve(factor, b, check_finite=False), 1
    # 1. the usual case: the moments certify w, and the rows are read once more, for their scores
    gap = moments.gap_bound(hessian, w, lam)
    if gap <= tol:
        ranking = Ranking(row_scores(X, w), positive)
        area, threshold = ranking.auc_and_threshold()
        objective = 0.5 * lam * float(w @ w) + mean_pair_square(ranking.pos, ranking.neg)
        trace.add_with_auc(n_iter, objective, gap, area)
        return SolverResult(w, -threshold, objective, gap, n_iter, CONVERGED, trace.as_history())
    # 2. rounding may be in the way: the gradient from the rows, and Newton steps that correct the factorisation
    gradient, objective, gap = record_square(trace, n_iter, w, X, positive, lam, moments.centre)
    while gap > tol and n_iter <= min(MAX_REFINEMENTS, max_iter):
        n_iter += 1
        w = w - linalg.cho_solve(factor, gradient, check_finite=False)
        gradient, objective, gap = record_square(trace, n_iter, w, X, positive, lam, moments.centre)
    status = CONVERGED if gap <= tol else MAX_ITER
    return SolverResult(w, None, objective, gap, n_iter, status, trace.as_history())


def solve_by_conjugate_gradients(X, y, lam, tol, max_iter):
    """Minimise Q by preconditioned conjugate gradients; X is dense or CSR, y is +-1. Return a SolverResult.

    Wide X is not preconditioned: its Hessian is lam I plus a matrix of rank below n, so some n iterations are enough
    whatever the features' scales; a diagonal would scatter the d - n + 1 equal eigenvalues that this rests on.

    The gradient is recomputed from w at each iteration instead of carried along by recurrence: the certificate is then
    that of w, at the price of two more products with X.
    """
    trace, positive, w = Trace(), y > 0, np.zeros(X.shape[1])
    X, centre = (with_short_indices(X), None) if sparse.issparse(X) else (X, _centre(X))
    is_wide = X.shape[1] > X.shape[0]
    inverse_diagonal = np.ones_like(w) if is_wide else 1.0 / _hessian_diagonal(X, positive, lam, centre)
    gradient, objective, gap = record_square(trace, 0, w, X, positive, lam, centre)
    direction, old_slope = np.zeros_like(w), np.inf
    n_iter, best = 0, (objective, gap, w)
    # at least one step, if there is one: w = 0 may be within tol (large lam, tiny features) but ranks nothing
    while gap > (tol if n_iter else 0.0) and n_iter < max_iter:
        n_iter += 1
        descent = -inverse_diagonal * gradient
        slope = -inner(descent, gradient)
        direction = descent + (slope / old_slope) * direction
        old_slope = slope
        # the exact minimum along the direction; its slope is read off the gradient, which need not be conjugate
        curved = _hessian_product(X, positive, lam, centre, direction)
        w = w - inner(gradient, direction) / inner(direction, curved) * direction
        gradient, objective, gap = record_square(trace, n_iter, w, X, positive, lam, centre)
        if objective > 0.5 or not np.isfinite(gap):
            break  # no exact step leads above w = 0: large offsets of a sparse X have left nothing but rounding
        best = min(best, (objective, gap, w), key=lambda point: point[0])
    if not gap <= tol:
        objective, gap, w = best
    status = CONVERGED if gap <= tol else MAX_ITER
    return SolverResult(w, None, objective, gap, n_iter, status, trace.as_history())


def _hessian_product(X, positive, lam, centre, v):
    """Return the Hessian times v: the gradient without its constant part, two products with X."""
    slopes = square_slopes(scores_about(centre, X, v), positive, margin=0.0)
    return lam * v + row_sum_about(centre, X, slopes)


def _hessian_diagonal(X, positive, lam, centre):
    """Return the Hessian's diagonal, lam + var+ + var- + b^2, without centring a sparse X.

    The variance as a difference of moments cancels for features far from 0: harmless in a preconditioner, once
    rounding below 0 is clipped.
    """
    shares = [rows / np.count_nonzero(rows) for rows in (positive, ~positive)]
    mean = [row_sum_about(centre, X, share) for share in shares]
    square = [_square_sum_about(centre, X, share) for share in shares]
    spread = sum(np.maximum(s - m * m, 0.0) for m, s in zip(mean, square, strict=True))
    return lam + spread + (mean[1] - mean[0]) ** 2


def _square_sum_about(centre, X, weights):
    """Return sum_i weights_i (x_i - centre)^2 by column; centre is None for sparse X."""
    if centre is None:
        squares = np.square(X.data, dtype=np.float64)
        return weighted_row_sum(sparse.csr_array((squares, X.indices, X.indptr), shape=X.shape), weights)
    total = np.zeros(X.shape[1])
    _add_squares_about(centre, X, weights, total)
    return total


@kernel(fastmath={"contract"})
def _add_squares_about(centre, rows, weights, total):
    for i in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            z = rows[i, f] - centre[f]
            total[f] += weights[i] * z * z


# Class moments ---------------------------------------------------------------------------------------------------


class Moments(NamedTuple):
    """Class means and the sum of the class covariances, of rows from which ``centre`` was taken."""

    centre: np.ndarray
    means: np.ndarray  # m- and m+, each less the centre
    spread: np.ndarray  # S+ + S-, upper triangle
    rounding: float  # bound on the relative rounding error of a sum over the rows

    @property
    def b(self):
        return self.means[0] - self.means[1]

    def hessian(self, lam):
        """Return S+ + S- + bb' + lam I, upper triangle."""
        hessian = self.spread + np.outer(self.b, self.b)
        hessian[np.diag_indices_from(hessian)] += lam
        return hessian

    def gap_bound(self, hessian, w, lam):
        """Return a bound on ||dQ(w)||^2/(2 lam) that allows for the rounding of the moments.

        dQ(w) = H w + b. With M^2 the mean square of the rows' lengths, summed over the classes, the rounding errors of
        H are at most g M^2 in norm and those of b at most g M, where g is ``rounding``: an entry of H is a sum of
        products, whose absolute values sum to at most the lengths of two columns multiplied (Cauchy and Schwarz), and
        the squares of all those lengths sum to M^2.
        """
        residual = linalg.blas.dsymv(1.0, hessian, w) + self.b
        size = np.sqrt(self.spread.trace() + np.vdot(self.means, self.means))
        bound = np.linalg.norm(residual) + self.rounding * size * (1.0 + size * np.linalg.norm(w))
        return float(bound) ** 2 / (2.0 * lam)


def class_moments(X, positive):
    """Return the Moments of dense X, float64 or float32, read once: about the cost of X'X.

    Blocks of rows are centred by class about the blocks' own means, in the cache, and added up by symmetric rank-k
    updates. Sets of n_a and n_b rows with means m_a, m_b and scatter S_a, S_b have together the scatter

        S_a + S_b + n_a n_b/(n_a + n_b) (m_a - m_b)(m_a - m_b)'                 (Chan, Golub, LeVeque 1983)

    so that a block brings two more rows: its classes' distances from the means so far.
    """
    n, d = X.shape
    size = min(n, max(d, BLOCK_BYTES // (8 * d)))
    group = positive.view(np.uint8)
    sizes, counts = np.bincount(group, minlength=2), np.zeros(2)
    centre, means, spread = _centre(X), np.zeros((2, d)), np.zeros((d, d), order="F")
    block = np.empty((size + 2, d))
    for start in range(0, n, size):
        rows = X[start : start + size]
        filled = block[: len(rows) + 2]
        _centre_block(rows, group[start : start + size], centre, 1.0 / np.sqrt(sizes), counts, means, filled)
        spread = linalg.blas.dsyrk(1.0, filled.T, beta=1.0, c=spread, overwrite_c=True)
    # a sum of m terms has a relative error of at most m/2 eps; 8 sums and products in a row, generously counted
    longest = size + n / size + d
    return Moments(centre, means, spread, 4.0 * longest * np.finfo(np.float64).eps)


def _centre(X):
    """Return a point among the rows of dense X: differences of rows do not see it, their rounding errors do."""
    return X[: max(1, BLOCK_BYTES // (8 * X.shape[1]))].mean(axis=0, dtype=np.float64)


@kernel(error_model="numpy")
def _centre_block(rows, group, centre, scale, counts, means, block):
    """Fill block: rows less their class's mean, then the two rows of Chan's formula, all times the class's scale.

    ``counts`` and ``means`` (less the centre) of the rows before this block are moved on to include it.
    """
    n, d = rows.shape
    here, sums = np.zeros(2), np.zeros((2, d))
    for i in range(n):
        here[group[i]] += 1.0
        own = sums[group[i]]
        for f in range(d):
            own[f] += rows[i, f] - centre[f]
    for c in range(2):
        before, share = counts[c], here[c] / max(counts[c] + here[c], 1.0)
        weight = scale[c] * np.sqrt(before * share)
        for f in range(d):
            sums[c, f] /= max(here[c], 1.0)
            shift = sums[c, f] - means[c, f]
            block[n + c, f] = weight * shift
            means[c, f] += share * shift
        counts[c] += here[c]
    for i in range(n):
        mean, factor = sums[group[i]], scale[group[i]]
        for f in range(d):
            block[i, f] = factor * ((rows[i, f] - centre[f]) - mean[f])
