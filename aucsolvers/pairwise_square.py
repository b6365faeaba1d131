"""Pairwise square loss, solved exactly (LSSVM).

With the class means m+, m-, their covariances S+, S- (divided by the class sizes) and b = m- - m+,

    Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'(x_i - x_j))^2
         = lam/2 ||w||^2 + 1/2 + b'w + 1/2 w'(S+ + S- + bb')w,

a quadratic whose minimiser solves (S+ + S- + bb' + lam I) w = -b. From top to bottom: estimator, drivers, the pieces.
"""

import logging
from functools import partial

import numpy as np
from scipy import linalg, sparse

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace
from aucsolvers._pairwise import check_squares, record_square
from aucsolvers._params import check_choice, check_count, check_positive, check_tolerance
from aucsolvers.metrics import square_slopes

logger = logging.getLogger(__name__)

SOLVERS = ("auto", "cholesky", "cg")
LARGEST_CHOLESKY = 4096  # features: the matrix then takes 128 MiB
MAX_REFINEMENTS = 5


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
        ||dQ(w)||^2/(2 lam) >= Q(w) - min Q, because Q is lam-strongly convex: certifies the objective, up to rounding.
    gradient_norm_ : float
        ||dQ(w)||.
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
    Cholesky: O(n d^2 + d^3) time, O(n d + d^2) memory; where rounding hides lam, so that the factorisation fails,
    conjugate gradients take over. Those need four products with X and one sort per iteration, and O(n + d) memory; a
    sparse X is never centred or densified, its scores are centred instead. Nothing is drawn: the same machine, library
    versions and number of BLAS threads give the same bits.

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
        solver = self.solver
        X, y = self._validate_fit(X, y)
        check_squares(X)
        if solver == "auto":
            small = X.shape[1] <= min(X.shape[0], LARGEST_CHOLESKY)
            solver = "cholesky" if small and not sparse.issparse(X) else "cg"
        elif solver == "cholesky" and sparse.issparse(X):
            raise ValueError("Expected dense X for solver='cholesky', got a sparse matrix. Use solver='cg' or 'auto'.")
        drive = solve_by_cholesky if solver == "cholesky" else solve_by_conjugate_gradients
        # differences of rows do not see a common shift, rounding does: move dense rows to where it is smallest
        shifted = X if sparse.issparse(X) else X - X.mean(axis=0)
        result = drive(shifted, y, self.lam, self.tol, self.max_iter)
        self.gradient_norm_ = float(np.sqrt(2.0 * self.lam * result.dual_gap))
        return self._publish(result, X, y)


# Drivers ---------------------------------------------------------------------------------------------------------


def solve_by_cholesky(X, y, lam, tol, max_iter):
    """Minimise Q by factoring its Hessian; X is dense, y is +-1. Return a SolverResult (nothing to go on from)."""
    positive = y > 0
    trace, w = Trace(), np.zeros(X.shape[1])
    try:
        factor = linalg.cho_factor(_hessian(X, positive, lam), lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        logger.info("conjugate gradients instead of cholesky: lam=%g is lost in the rounding of the covariances", lam)
        return solve_by_conjugate_gradients(X, y, lam, tol, max_iter)
    gradient, objective, gap = record_square(trace, 0, w, X, positive, lam)
    for n_iter in range(1, 1 + min(1 + MAX_REFINEMENTS, 1 + max_iter)):
        # Newton's step: exact from anywhere, so that repeating it corrects the factorisation's rounding errors
        w = w - linalg.cho_solve(factor, gradient, check_finite=False)
        gradient, objective, gap = record_square(trace, n_iter, w, X, positive, lam)
        if gap <= tol:
            break
    status = CONVERGED if gap <= tol else MAX_ITER
    return SolverResult(w, None, objective, gap, n_iter, status, trace.as_history())


def solve_by_conjugate_gradients(X, y, lam, tol, max_iter):
    """Minimise Q by preconditioned conjugate gradients; X is dense or CSR, y is +-1. Return a SolverResult.

    Wide X is not preconditioned: its Hessian is lam I plus a matrix of rank below n, so some n iterations are enough
    whatever the features' scales; a diagonal would scatter the d - n + 1 equal eigenvalues that this rests on.

    The gradient is recomputed from w at each iteration instead of carried along by recurrence: the certificate is then
    that of w, at the price of two more products with X.
    """
    positive = y > 0
    trace, w = Trace(), np.zeros(X.shape[1])
    is_wide = X.shape[1] > X.shape[0]
    inverse_diagonal = np.ones_like(w) if is_wide else 1.0 / _hessian_diagonal(X, positive, lam)
    curve = partial(_hessian_product, X, positive, lam)
    gradient, objective, gap = record_square(trace, 0, w, X, positive, lam)
    direction, old_slope = np.zeros_like(w), np.inf
    n_iter = 0
    # at least one step, if there is one: w = 0 may be within tol (large lam, tiny features) but ranks nothing
    while gap > (tol if n_iter else 0.0) and n_iter < max_iter:
        n_iter += 1
        descent = -inverse_diagonal * gradient
        slope = -float(descent @ gradient)
        direction = descent + (slope / old_slope) * direction
        old_slope = slope
        # the exact minimum along the direction; its slope is read off the gradient, which need not be conjugate
        w = w - (gradient @ direction) / (direction @ curve(direction)) * direction
        gradient, objective, gap = record_square(trace, n_iter, w, X, positive, lam)
    status = CONVERGED if gap <= tol else MAX_ITER
    return SolverResult(w, None, objective, gap, n_iter, status, trace.as_history())


# The quadratic ---------------------------------------------------------------------------------------------------


def _hessian(X, positive, lam):
    """Return S+ + S- + bb' + lam I, from rows centred by class."""
    means = [X[positive].mean(axis=0), X[~positive].mean(axis=0)]
    b = means[1] - means[0]
    hessian = np.outer(b, b)
    for rows, mean in zip((X[positive], X[~positive]), means, strict=True):
        centred = rows - mean
        hessian += centred.T @ centred / len(rows)
    hessian[np.diag_indices_from(hessian)] += lam
    return hessian


def _hessian_product(X, positive, lam, v):
    """Return the Hessian times v: the gradient without its constant part, two products with X."""
    return lam * v + X.T @ square_slopes(X @ v, positive, margin=0.0)


def _hessian_diagonal(X, positive, lam):
    """Return the Hessian's diagonal, lam + var+ + var- + b^2, without centring a sparse X.

    The variance as a difference of moments cancels for features far from 0: harmless in a preconditioner, once
    rounding below 0 is clipped.
    """
    squares = X.multiply(X).tocsr() if sparse.issparse(X) else X * X
    mean, square = ([np.asarray(A[rows].mean(axis=0)).ravel() for rows in (positive, ~positive)] for A in (X, squares))
    variances = np.maximum(square[0] - mean[0] ** 2, 0.0) + np.maximum(square[1] - mean[1] ** 2, 0.0)
    return lam + variances + (mean[1] - mean[0]) ** 2
