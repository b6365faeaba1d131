"""Pairwise square loss, solved exactly (LSSVM).

With the class means m+, m-, their covariances S+, S- (divided by the class sizes) and b = m- - m+,

    Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'(x_i - x_j))^2
         = lam/2 ||w||^2 + 1/2 + b'w + 1/2 w'(S+ + S- + bb')w,

a quadratic whose minimiser solves (S+ + S- + bb' + lam I) w = -b. Where features outnumber rows there is a smaller
system. Let A have a row (x_i - m)/sqrt(n_c) for each x_i, m and n_c being the mean and the size of its class, and a
last one b; then S+ + S- + bb' = A'A, b = A'e with e the last unit vector, and

    w = -(A'A + lam I)^-1 A'e = -A'v,    (AA' + lam I) v = e.

From top to bottom: estimator, drivers, the pieces.
"""

import logging
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.utils import assert_all_finite

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace
from aucsolvers._certify import class_means
from aucsolvers._gram import add_lower, room_for
from aucsolvers._jit import kernel
from aucsolvers._pairwise import mean_pair_square, record_square, row_sum_about, scores_about
from aucsolvers._params import check_choice, check_count, check_non_negative, check_positive
from aucsolvers._ranking import Ranking
from aucsolvers._rows import (
    add,
    add_row_products,
    as_rows,
    check_squares,
    dot,
    inner,
    largest_feature,
    with_short_indices,
)
from aucsolvers._stored import StoredColumns
from aucsolvers._transaction import transactional
from aucsolvers.metrics import square_slopes

logger = logging.getLogger(__name__)

SOLVERS = ("auto", "cholesky", "cg")
LARGEST_FACTORED = 2**14  # features that "cholesky" takes: 4 GiB for two matrices
LARGEST_CHOLESKY = 4096  # features that "auto" factors: the matrix then takes 128 MiB
FACTORED_AT_ONCE = 256  # features, however few the rows are: in less time than most conjugate gradients take
MOST_ROWS = 2**13  # of wider X, whose products with each other "auto" factors: two matrices of 512 MiB
LONGER_AT_MOST = 2.0  # than max_iter iterations: to factor that
COLUMNS = 1024  # of dense rows that are centred and multiplied at a time
MAX_REFINEMENTS = 5
OBJECTIVE_KNOWN_TO = 1e-11  # beside Q(0) = 1/2
EPSILON = float(np.finfo(np.float64).eps)
CENTRE_ROWS = 256  # about so many, evenly spaced, tell where the rows are


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
        a diagonal preconditioner if d <= n. "auto" factors dense X of d <= min(n, 4096) or d <= 256. Of wider X, up
        to 8192 rows, dense or CSR, it factors an (n + 1) x (n + 1) system of the rows' products with each other, where
        conjugate gradients are not there in the time that this takes.
    tol : float, default=1e-10
        Stop when the certificate is at most tol; Q(0) = 1/2.
    max_iter : int, default=1000
        Largest number of conjugate-gradient iterations; of wide X no factorisation is made that takes more than twice
        as long. A factorisation needs no iterations, but is refined by at most min(5, max_iter) residual corrections
        if its certificate asks for it.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The minimiser.
    intercept_ : ndarray of shape (1,)
        Minus the threshold of the largest G-mean on the training scores: the loss does not see a bias.
    objective_ : float
        Q(coef_).
    dual_gap_ : float
        ||dQ(w)||^2/(2 lam) >= Q(w) - min Q, because Q is lam-strongly convex, or Q(w) itself if that is less, because
        Q >= 0: certifies the objective. The gradient is taken from the class moments where they are exact enough, with
        a bound on their rounding; otherwise from the rows, of dense ones with what the rounding of scores and sums
        mostly comes to: of sparse ones, which are not centred, that would be far too much where they are far from 0.
    gap_unit_ : float
        max(1, objective at w = 0), here always 1. ``dual_gap_ / gap_unit_`` compares fits to different data.
    gradient_norm_ : float
        ||dQ(w)||, or a bound on it.
    n_iter_ : int
        Conjugate-gradient iterations, factorisations (1 at most) and refinements: of the last run, like history_, where
        rounding spoiled a factorisation and conjugate gradients began again.
    status_ : {"converged", "max_iter", "diverged"}
        Whether dual_gap_ <= tol; "diverged" where objective_ overflowed.
    history_ : dict of ndarray
        ``updates`` (n_iter_), ``objective``, ``dual_gap``, ``auc`` (training), ``time_s``: at w = 0 and after each
        iteration.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, features whose squares overflow, or with "cholesky" sparse X
        or more than 16,384 features.

    Warns
    -----
    ConvergenceWarning
        If the certificate stayed above tol.

    Notes
    -----
    Cholesky: O(n d^2 + d^3) time and O(n + d^2) memory beside X, which is read twice, for its moments and its scores;
    of wide X O(n^2 d + n^3) and O(n^2), of CSR n^3 and the squares of the columns' numbers of entries. Where rounding
    hides lam, so that it fails or does not lead to the end, conjugate gradients take over. Those need four products
    with X and one sort per iteration, and O(n + d) memory, d being the columns of a sparse X that have an entry if many
    have none. No X is copied whole to be centred or, being float32, converted.
    Nothing is drawn, and BLAS is kept to one thread: the same machine and library versions give the same bits.

    References
    ----------
    .. [1] Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in Applied
       Mathematics and Statistics, 2019: the baseline B-LS-SVM.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import LSSVM
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
        check_non_negative("tol", self.tol)
        check_count("max_iter", self.max_iter)

    @transactional
    def fit(self, X, y):
        """Fit to X, shape (n_samples, n_features), dense or CSR, and two-class labels y; return self."""
        self.check_parameters()
        X, positive = self._validate_classes(X, y, read=False)
        moments = class_moments(X, positive) if self._factors(X) else None
        # nan, infinity and overflow show in the moments: only for words about them, and without moments, read X again
        if moments is None or not moments.reach <= largest_feature(X):
            assert_all_finite(X, estimator_name=type(self).__name__, input_name="X")
            check_squares(X)
        problem = X, positive, float(self.lam), float(self.tol)
        if moments is not None:
            result = solve_by_cholesky(moments, *problem, int(self.max_iter))
        else:
            columns = StoredColumns.of(X)
            rows = columns.rows(X)
            solve = solve_wide if self.solver == "auto" and _is_wide(rows) else solve_by_conjugate_gradients
            result = columns.widened(solve(rows, *problem[1:], int(self.max_iter)))
        self.gradient_norm_ = float(np.sqrt(2.0 * self.lam * result.dual_gap))
        return self._publish(_at_most_objective(result, float(self.tol)), X, positive)

    def _factors(self, X):
        """Return whether to factor the Hessian of X."""
        if self.solver == "auto":
            return not sparse.issparse(X) and X.shape[1] <= max(min(X.shape[0], LARGEST_CHOLESKY), FACTORED_AT_ONCE)
        if self.solver == "cholesky" and sparse.issparse(X):
            raise ValueError("Expected dense X for solver='cholesky', got a sparse matrix. Use solver='cg' or 'auto'.")
        if self.solver == "cholesky" and X.shape[1] > LARGEST_FACTORED:
            raise ValueError(
                f"Expected at most {LARGEST_FACTORED} features for solver='cholesky', got {X.shape[1]}: matrices of "
                f"{16 * X.shape[1] ** 2} bytes. Use solver='cg' or 'auto'."
            )
        return self.solver == "cholesky"


def _at_most_objective(result, tol):
    """Return the result with certificates of at most Q, which is never negative: raw features make gradients long."""
    history = result.history | {"dual_gap": np.minimum(result.history["dual_gap"], result.history["objective"])}
    gap = min(result.dual_gap, result.objective)
    return replace(result, dual_gap=gap, status=CONVERGED if gap <= tol else result.status, history=history)


# Drivers ---------------------------------------------------------------------------------------------------------


def _is_wide(X):
    """Return whether the system of the rows' products is smaller than that of the features."""
    return X.shape[0] < X.shape[1] and X.shape[0] <= MOST_ROWS


def solve_wide(X, positive, lam, tol, max_iter):
    """Minimise Q for X, dense or CSR, of more features than rows; ``positive`` is a mask. Return a SolverResult.

    Conjugate gradients are the faster way where few eigenvalues of AA' stand out of the others. So they go on for about
    as long as to factor takes, and then that is done. Where rounding keeps it from the end, as with rows that are
    copies of each other and a lam far below their squares, they begin again.
    """
    trace, patience = Trace(), _patience(X)
    found = solve_by_conjugate_gradients(X, positive, lam, tol, min(patience, max_iter), trace)
    if found.status == CONVERGED or max_iter < patience / LONGER_AT_MOST:
        return found
    exact = _solve_by_rows(X, positive, lam, tol, max_iter, trace, found.n_iter)
    if exact is not None and (exact.status == CONVERGED or (tol == 0.0 and exact.dual_gap <= found.dual_gap)):
        return exact
    logger.info("conjugate gradients instead of cholesky: lam=%g is lost in the rounding of the rows' products", lam)
    found = solve_by_conjugate_gradients(X, positive, lam, tol, max_iter, trace.begun_anew())
    return found if exact is None or found.dual_gap <= exact.dual_gap else exact


def _solve_by_rows(X, positive, lam, tol, max_iter, trace, n_iter):
    """Minimise Q by factoring the system of the rows; ``trace`` is that of ``n_iter`` iterations before.

    None if the factorisation fails. Its solution is corrected by what v leaves of e, taken from the rows themselves.
    """
    try:
        lower = np.linalg.cholesky(row_system(X, positive, lam))  # SciPy's would hold Python's lock
    except np.linalg.LinAlgError:
        return None
    X, centre = _with_centre(X)
    size = _size_about(centre, X, positive)
    residual = np.zeros(len(positive) + 1)
    residual[-1] = 1.0
    v, gap, last = np.zeros_like(residual), np.inf, n_iter + min(MAX_REFINEMENTS, max_iter)
    while gap > tol and n_iter <= last:
        n_iter += 1
        v = v + linalg.lapack.dpotrs(lower.T, residual)[0]
        w = -row_sum_about(centre, X, _weights_of_rows(v, positive))
        _, objective, gap, _ = record_square(trace, n_iter, w, X, positive, lam, size, centre)
        residual = _scores_in_system(scores_about(centre, X, w), positive) - lam * v
        residual[-1] += 1.0
    status = CONVERGED if gap <= tol else MAX_ITER
    return SolverResult(w, None, objective, gap, n_iter, status, trace.as_history())


def _patience(X):
    """Return how many iterations of conjugate gradients take as long as to multiply the rows and to factor that.

    From what both were measured to take: some 2.5 and 50 products of numbers a nanosecond.
    """
    n, d = X.shape
    if not sparse.issparse(X):
        return 1 + int((n + n * n / (3.0 * d)) / 80.0)
    entries = np.bincount(X.indices).astype(np.float64)
    return 1 + int((0.5 * (entries @ entries) + n**3 / 150.0) / (2.2 * max(1, X.nnz)))


def solve_by_cholesky(moments, X, positive, lam, tol, max_iter):
    """Minimise Q by factoring its Hessian; X is dense, ``positive`` a mask. Return a SolverResult."""
    trace = Trace()
    b, hessian = moments.b, moments.hessian(lam)
    # LAPACK's own driver: on small data the checks around it would cost as much as all the rest
    factor, solution, failed = linalg.lapack.dposv(hessian, b)
    if failed:
        logger.info("conjugate gradients instead of cholesky: lam=%g is lost in the rounding of the covariances", lam)
        return solve_by_conjugate_gradients(X, positive, lam, tol, max_iter)
    trace.add_with_auc(0, 0.5, float(b @ b) / (2.0 * lam), 0.5)  # w = 0: Q = 1/2, dQ = b, all scores tied
    w, n_iter, last = -solution, 1, min(MAX_REFINEMENTS, max_iter)
    # 1. the usual case: the moments certify w, and the rows are read once more, for their scores; not where these
    # would be rounded to less than the objective is to be known to
    gap = moments.gap_bound(hessian, w, lam)
    offset = EPSILON * float(np.abs(moments.centre) @ np.abs(w))
    if gap <= tol and offset <= OBJECTIVE_KNOWN_TO:
        ranking = _Scores(X, positive, w)
        area, threshold = ranking.auc_and_threshold()
        objective = 0.5 * lam * float(w @ w) + mean_pair_square(ranking.pos, ranking.neg)
        trace.add_with_auc(n_iter, objective, gap, area)
        return SolverResult(w, -threshold, objective, gap, n_iter, CONVERGED, trace.as_history())
    # 2. rounding may be in the way: the gradient from the rows, and Newton steps that correct the factorisation
    settings = positive, lam, moments.size, moments.centre
    gradient, objective, gap, _ = record_square(trace, n_iter, w, X, *settings)
    while gap > tol and n_iter <= last:
        n_iter += 1
        w = w - linalg.lapack.dpotrs(factor, gradient)[0]
        gradient, objective, gap, _ = record_square(trace, n_iter, w, X, *settings)
    status = CONVERGED if gap <= tol else MAX_ITER
    return SolverResult(w, None, objective, gap, n_iter, status, trace.as_history())


def solve_by_conjugate_gradients(X, positive, lam, tol, max_iter, trace=None):
    """Minimise Q by preconditioned conjugate gradients; X is dense or CSR, ``positive`` a mask. Return a SolverResult.

    Wide X is not preconditioned: its Hessian is lam I plus a matrix of rank below n, so some n iterations are enough
    whatever the features' scales; a diagonal would scatter the d - n + 1 equal eigenvalues that this rests on.

    The gradient is recomputed from w at each iteration instead of carried along by recurrence: the certificate is then
    that of w, at the price of two more products with X.
    """
    trace, w = Trace() if trace is None else trace, np.zeros(X.shape[1])
    X, centre = _with_centre(X)
    is_wide = X.shape[1] > X.shape[0]
    inverse_diagonal = np.ones_like(w) if is_wide else 1.0 / _hessian_diagonal(X, positive, lam, centre)
    settings = positive, lam, _size_about(centre, X, positive), centre
    gradient, objective, gap, _ = record_square(trace, 0, w, X, *settings)
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
        curved = inner(direction, _hessian_product(X, positive, lam, centre, direction))
        if not curved > 0.0:
            break  # rounded to 0
        w = w - inner(gradient, direction) / curved * direction
        gradient, objective, gap, floor = record_square(trace, n_iter, w, X, *settings)
        if objective > 0.5 or not np.isfinite(gap):
            # no exact step leads above w = 0: large offsets of a sparse X have left nothing but rounding
            objective, gap, w = best
            break
        best = min(best, (objective, gap, w), key=lambda point: point[0])
        if inner(gradient, gradient) <= 0.5 * lam * tol or tol < floor >= 0.25 * gap:
            break  # if the gap will not do, it is what it allows for rounding, which no step makes less
    if not gap <= tol:
        w = best[2]
        _, objective, gap, _ = record_square(trace, n_iter, w, X, *settings)  # the trace ends with it
    history = trace.as_history()
    gap = history["dual_gap"][-1] = max(gap, objective - best[0])
    status = CONVERGED if gap <= tol else MAX_ITER
    return SolverResult(w, None, objective, gap, n_iter, status, history)


def _with_centre(X):
    """Return X as kernels take it, and the point that its rows are centred about: None of a sparse X."""
    return (with_short_indices(X), None) if sparse.issparse(X) else (X, _centre(X))


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


def _size_about(centre, X, positive):
    """Return M of ``record_square`` for rows that are centred; 0 of sparse ones, whose lengths tell too little."""
    if centre is None:
        return 0.0
    n_pos = np.count_nonzero(positive)
    shares = np.where(positive, 1.0 / n_pos, 1.0 / (len(positive) - n_pos))
    return float(np.sqrt(_square_sum_about(centre, X, shares).sum()))


def _square_sum_about(centre, X, weights):
    """Return sum_i weights_i (x_i - centre)^2 by column; centre is None for sparse X."""
    total = np.zeros(X.shape[1])
    if centre is None:
        _add_stored_squares(*as_rows(X), weights, total)
    else:
        _add_squares_about(centre, X, weights, total)
    return total


@kernel()
def _add_stored_squares(data, indices, indptr, weights, total):
    for i in range(weights.size):
        for place in range(indptr[i], indptr[i + 1]):
            total[indices[place]] += weights[i] * np.float64(data[place]) ** 2


@kernel(fastmath={"contract"})
def _add_squares_about(centre, rows, weights, total):
    for i in range(rows.shape[0]):
        for f in range(rows.shape[1]):
            z = rows[i, f] - centre[f]
            total[f] += weights[i] * z * z


# The system of the rows ------------------------------------------------------------------------------------------


def row_system(X, positive, lam):
    """Return AA' + lam I, lower triangle; the rows of the module's A are those of X, dense or CSR, and b."""
    n, group, means = len(positive), positive.view(np.uint8), class_means(X, positive)
    scale = 1.0 / np.sqrt(np.bincount(group))
    system = np.zeros((n + 1, n + 1))
    if sparse.issparse(X):
        add_row_products(X, system)
        of_means = np.column_stack([scores_about(None, X, mean) for mean in means])
        _centre_products(system, group, scale, of_means, means @ means.T)
    else:
        for start in range(0, X.shape[1], COLUMNS):
            some = slice(start, start + COLUMNS)
            A = np.empty((n + 1, means[:, some].shape[1]))
            A[:n] = (X[:, some] - means[group, some]) * scale[group, None]
            A[n] = means[0, some] - means[1, some]
            system += np.dot(A, A.T)  # not @, which would hold Python's lock
    system[np.diag_indices(n + 1)] += lam
    return system


@kernel()
def _centre_products(system, group, scale, of_means, means):
    """Turn the products of rows, in the lower triangle, into those of A, given x_i'm and m'm for the class means m."""
    n = group.size
    for i in range(n):
        g = group[i]
        for j in range(i + 1):
            h = group[j]
            product = system[i, j] - of_means[i, h] - of_means[j, g] + means[g, h]
            system[i, j] = scale[g] * scale[h] * product
        system[n, i] = scale[g] * (of_means[i, 0] - of_means[i, 1] - means[g, 0] + means[g, 1])
    system[n, n] = means[0, 0] - 2.0 * means[0, 1] + means[1, 1]


def _weights_of_rows(v, positive):
    """Return the weights of the rows x_i whose sum is A'v; they sum to 0."""
    weights = np.empty(len(positive))
    for rows, sign in ((~positive, 1.0), (positive, -1.0)):
        count = np.count_nonzero(rows)
        own = v[:-1][rows] / np.sqrt(count)
        weights[rows] = own - own.mean() + sign * v[-1] / count
    return weights


def _scores_in_system(scores, positive):
    """Return A w, given the scores X w, or those of the rows about a centre."""
    products, means = np.empty(len(positive) + 1), []
    for rows in (~positive, positive):
        own = scores[rows]
        means.append(own.mean())
        products[:-1][rows] = (own - means[-1]) / np.sqrt(len(own))
    products[-1] = means[0] - means[1]
    return products


# Class moments ---------------------------------------------------------------------------------------------------


class Moments(NamedTuple):
    """Class means and the sum of the class covariances, of rows from which ``centre`` was taken."""

    centre: np.ndarray
    means: np.ndarray  # m- and m+, each less the centre
    spread: np.ndarray  # S+ + S-, upper triangle
    size: float  # M, with M^2 the mean square of the rows' lengths, summed over the classes
    n: int  # rows
    rounding: float  # bound on the relative rounding error of a sum over the rows

    @property
    def b(self):
        return self.means[0] - self.means[1]

    def hessian(self, lam):
        """Return S+ + S- + bb' + lam I, upper triangle."""
        hessian = np.empty_like(self.spread)
        _add_ridge(self.spread.T, self.b, lam, hessian.T)
        return hessian

    @property
    def reach(self):
        """A bound on the magnitude of features; nan or infinite if any of them is."""
        return float(np.abs(self.centre).max() + np.sqrt(self.n) * self.size)

    def gap_bound(self, hessian, w, lam):
        """Return a bound on ||dQ(w)||^2/(2 lam) that allows for the rounding of the moments.

        dQ(w) = H w + b. With M^2 the mean square of the rows' lengths, summed over the classes, the rounding errors of
        H are at most g M^2 in norm and those of b at most g M, where g is ``rounding``: an entry of H is a sum of
        products, whose absolute values sum to at most the lengths of two columns multiplied (Cauchy and Schwarz), and
        the squares of all those lengths sum to M^2.
        """
        residual = linalg.blas.dsymv(1.0, hessian, w) + self.b
        bound = float(np.sqrt(residual @ residual) + self.rounding * self.size * (1.0 + self.size * np.sqrt(w @ w)))
        return bound * bound / (2.0 * lam)  # ** would raise OverflowError


def class_moments(X, positive):
    """Return the Moments of dense X, float64 or float32, read once: about the cost of X'X.

    With c a point among the rows, T = 1/n+ sum_+ (x - c)(x - c)' + 1/n- sum_- (x - c)(x - c)' and m the class means
    less c, S+ + S- = T - m+ m+' - m- m-'. What that cancels is no more than bb' brings back to the Hessian.
    Blocks of rows are centred and transposed in the cache, with the two classes' indicators as further columns, whose
    products with the others are the means.
    """
    n, d = X.shape
    centre, means, spread, size, at_once = _gather_moments(X, positive.view(np.uint8))
    # a sum of m terms has a relative error of at most m/2 eps; 8 sums and products in a row, generously counted
    longest = at_once + n / at_once + d
    return Moments(centre, means, spread.T, size, n, 4.0 * longest * EPSILON)


# Inlined, those that this one calls: as in _gram.py.


@kernel(error_model="numpy")
def _gather_moments(rows, group):
    """Return centre, means, spread (lower triangle) and size of Moments, and how many rows were multiplied at once."""
    n, d = rows.shape
    n_pos = 0
    for i in range(n):
        n_pos += group[i]
    centre = _centre(rows)
    block, total = room_for(n, d + 2)
    _add_products(rows, group, centre, np.sqrt(np.array([1.0 / (n - n_pos), 1.0 / n_pos])), block, total)
    means, square = total[d : d + 2, :d].copy(), 0.0
    for f in range(d):
        square += total[f, f]
    spread = np.empty((d, d))
    _take_means(total, means, spread)
    return centre, means, spread, np.sqrt(square), block.shape[1]


@kernel(error_model="numpy", forceinline=True)
def _centre(rows):
    """Return a point among dense rows: their differences do not see it, the rounding errors of these do."""
    centre = np.zeros(rows.shape[1])
    step = 1 + rows.shape[0] // CENTRE_ROWS
    share = 1.0 / (1 + (rows.shape[0] - 1) // step)
    for i in range(0, rows.shape[0], step):
        add(rows, np.uint32(i), share, centre)
    return centre


@kernel(fastmath={"contract"}, forceinline=True)
def _add_products(rows, group, centre, scale, block, total):
    """Add Z'Z to the lower triangle of total, Z being the rows less the centre and the indicators of both groups.

    The indicators' products with each other may be left out.

    All of it is scaled by group. ``block`` is room for some rows of Z, one a column.
    """
    n, d = rows.shape
    size = block.shape[1]
    factors = np.empty(size)
    for start in range(0, n, size):
        count = min(size, n - start)
        if count < size:
            block[:] = 0.0
        for i in range(count):
            is_second = np.float64(group[start + i])
            block[d, i], block[d + 1, i] = scale[0] * (1.0 - is_second), scale[1] * is_second
            factors[i] = block[d, i] + block[d + 1, i]
        whole = count - count % 4
        for i in range(0, whole, 4):  # what four rows have side by side in the block is stored at once
            x, y, z, u = rows[start + i], rows[start + i + 1], rows[start + i + 2], rows[start + i + 3]
            p, q, r, s = factors[i], factors[i + 1], factors[i + 2], factors[i + 3]
            for f in range(d):
                c, column = centre[f], block[f]
                four = p * (x[f] - c), q * (y[f] - c), r * (z[f] - c), s * (u[f] - c)
                column[i], column[i + 1], column[i + 2], column[i + 3] = four
        for i in range(whole, count):
            for f in range(d):
                block[f, i] = factors[i] * (rows[start + i, f] - centre[f])
        add_lower(block, d, total)


@kernel(forceinline=True)
def _take_means(total, means, spread):
    """Set the lower triangle of spread to total less the products of the means."""
    for f in range(spread.shape[0]):
        for g in range(f + 1):
            spread[f, g] = total[f, g] - means[0, f] * means[0, g] - means[1, f] * means[1, g]


@kernel()
def _add_ridge(spread, b, lam, hessian):
    """Set the lower triangle of hessian to spread + bb' + lam I."""
    for f in range(spread.shape[0]):
        for g in range(f + 1):
            hessian[f, g] = spread[f, g] + b[f] * b[g]
        hessian[f, f] += lam


# Scores ----------------------------------------------------------------------------------------------------------


class _Scores(Ranking):
    """The Ranking of a model's finite scores, which are sorted into classes as they are computed."""

    def __init__(self, X, positive, w):
        n_pos = np.count_nonzero(positive)
        pos, neg = np.empty(n_pos + 1), np.empty(len(positive) - n_pos + 1)
        _score_by_class(X, positive.view(np.uint8), w, pos, neg)
        self.pos, self.neg = pos[:-1], neg[:-1]


@kernel()
def _score_by_class(rows, group, w, pos, neg):
    """Write each score where the next of either class belongs; only the one counted stays. Both have a place to spare.

    A choice by class would be mispredicted at every row of the rare one.
    """
    seen = 0
    for i in range(np.uint32(group.size)):
        pos[seen] = neg[i - seen] = dot(rows, i, w)
        seen += group[i]
