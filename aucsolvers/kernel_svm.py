"""Kernel support vector machines by greedy dual coordinate descent (KernelSVM).

With a positive semidefinite kernel k, K_ij = k(x_i, x_j) + 1 where an intercept is asked for (and k(x_i, x_j) where
not), costs C_i > 0, offsets g_i and signed dual variables beta_i = y_i alpha_i, the primal and its dual are

    P(f)    = 1/2 ||f||^2 + sum_i C_i loss(1 - y_i (g_i + f(x_i))),    loss(t) = max(0, t)  or  max(0, t)^2
    D(beta) = sum_i (y_i - g_i) beta_i - 1/2 beta'K beta - 1/2 sum_i D_ii beta_i^2,    0 <= y_i beta_i <= U_i
    f(x_i)  = sum_j K_ij beta_j

    hinge: D_ii = 0, U_i = C_i          squared hinge: D_ii = 1 / (2 C_i), U_i = infinity

as in ``aucsolvers.svm``, whose rows (x_i, 1) have this K with the linear kernel. KernelSVM has no offsets; with them
the driver minimises 1/2 ||h||^2 - <g, h> + sum_i C_i loss(1 - y_i h(x_i)) + 1/2 ||g||^2 over h = g + f. With the bias
in the kernel there is no equality constraint, so one coordinate can move alone. The gradient
v_i = dD/dbeta_i = y_i - g_i - f(x_i) - D_ii beta_i is kept up to date. From top to bottom: estimator, driver, the
kernel and its columns, compiled kernels.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from aucsolvers import _jit
from aucsolvers._base import CONVERGED, MAX_ITER, BinaryScorer, Trace, validate_rows
from aucsolvers._hinge import (
    LOSSES,
    as_numbers,
    dual_bounds,
    is_certified,
    is_no_better_than_a_constant,
    loss_and_gap,
    may_have_loss,
    row_costs,
)
from aucsolvers._pairs import squared_distance
from aucsolvers._params import (
    check_choice,
    check_class_weight,
    check_count,
    check_flags,
    check_gamma,
    check_non_negative,
    check_positive,
)
from aucsolvers._ranking import TIED_WITHIN, tied
from aucsolvers._rows import FULL, as_rows, filled_up, row_scores, squared_norms, stored_once
from aucsolvers._stored import StoredColumns
from aucsolvers._transaction import transactional
from aucsolvers._width import leave_one_out_gamma
from aucsolvers.process import one_thread_in_shared_pools

KERNELS = ("rbf", "linear", "poly")
BLOCK_BYTES = 32 * 1024**2  # of temporary kernel values
# Columns are computed a block at a time: more would be faster each, but fewer of them used. Where they are short the
# call itself costs as much as BLOCK_ENTRIES; of short ones, once a quarter is held, most will be: 1/16 of those held.
# Where points are few, most are from the start.
SHORT_COLUMN, MANY_HELD, HELD_PER_COLUMN = 2048, 0.25, 16
SMALLEST_BLOCK, SMALLEST_SPARSE_BLOCK, LARGEST_BLOCK, BLOCK_ENTRIES = 2, 3, 16, 4 * 1024
FEW_POINTS, BLOCK_OF_FEW = 768, 128
FEW_COLUMNS = 8  # so many, from two on, are computed without BLAS,
CHUNK = 512  # entries of each at a time, which stay in the nearest cache
SPREAD_BYTES, LEAST_SPREAD = 2**28, 8  # sparse rows that are made dense at a time: so many bytes, or rows if wider
# Of more rows none is made dense where a lower share of values meet another; wide ones are slow to run through.
FEWEST_SPARSE, MEETING, MEETING_OF_WIDE = 16, 0.05, 0.25
# Exponents of a Gaussian that rounding spoils by more are computed from differences of rows, one by one, where they are
# above NOTHING; of sparse rows, from dense ones moved to where they are small, if these take at most so many times
# their memory.
DISTANCES_KNOWN_TO, NOTHING, MOST_MOVED = 1e-9, -750.0, 10
MOVED_FROM = 1e-12  # such rounding of exponents on: where C is huge, far less than a billionth tells
MEDIAN_ROWS = 255  # at most, evenly spaced, tell where Gaussian rows are
SMALLEST_CURVATURE = 1e-12  # between equal rows, which only rounding tells apart
SCAN = 128  # rows whose maximum is taken before its place is looked for
FIRST_PAUSE, STEPS_PER_PAUSE = 64, 16  # steps between looks at the gap, O(n) each: so many, and 1/16 of those made
SHRINK_FROM = 1000  # rows: fewer are not worth the trouble
SHRINK_BELOW = 0.75  # of the working rows: leaving some out moves all columns held
# From so many rows on, every fourth is solved first, to a gap of 0.03 P(0) on them.
SAMPLE_FROM, SAMPLE_STEP, SAMPLE_GAP = 10_000, 4, 0.03
ROUNDINGS = 4  # of a score: no step is made for a gradient below
UNKNOWN_SCORES = 1e-3  # of rounding: so much of a margin hides what a step would gain
MOST_REFRESHED = 10  # times that the gradient is computed afresh: where rounding is the limit, steps do not help


# Estimator -------------------------------------------------------------------------------------------------------


class KernelSVM(BinaryScorer):
    """Kernel SVM with hinge or squared hinge loss, by greedy dual coordinate descent with a duality gap.

    Minimises, with LIBSVM's scaling (a sum over rows, not a mean) and a regularised intercept, as LinearSVM does,

        1/2 (||w||^2 + b^2) + C sum_i v_i loss(1 - y_i f(x_i)),    f(x) = w'phi(x) + b,    phi(x)'phi(z) = k(x, z)

    with loss(t) = max(0, t) or max(0, t)^2, and v_i the class weight times the sample weight of row i, 1 by default.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of loss, > 0.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        k(x, z) = exp(-gamma ||x - z||^2), x'z, or (gamma x'z + coef0)^degree. For x'z, LinearSVM has the same optimum,
        often a hundred times sooner.
    gamma : "scale", "spread", "loo" or float, default="scale"
        > 0; "scale" is scikit-learn's, 1/(n_features * variance of all entries of X). "spread" is 1/(sum of the
        columns' variances): the same where the columns have one mean, and unlike it no smaller where one of them, of
        years say, is far from the others. Rows are counted by their sample weight; either is 1 if that variance is 0.
        "loo", for "rbf", is that of 1/16, 1/8, ..., 4 times "spread" which MarginMeanSVM's "loo" takes, by errors of
        rows left out, all of the same weight.
    degree : int, default=3
        >= 1.
    coef0 : float, default=0.0
        >= 0: below, "poly" would not be positive semidefinite.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    fit_intercept : bool, default=True
        Whether b is fitted: it is the weight of a constant feature, a 1 added to k. Otherwise it is 0. LIBSVM's b is
        not regularised, and differs the less the larger C is.
    class_weight : None, "balanced" or dict, default=None
        Multiplies C by class. "balanced" gives class c the weight n / (2 n_c), counting sample weights.
    tol : float, default=1e-4
        Stop when duality gap <= tol * min(P, P(0)), where P(0) = C sum_i v_i is the objective at f = 0, as LinearSVM.
    max_iter : int, default=1_000_000
        Most steps.
    cache_bytes : int, default=512 * 1024**2
        For kernel columns of n rows, 8 bytes an entry, the least recently used making way; at least two columns.
        Memory is taken as columns are computed. Where rows are left out for a time, columns are as much shorter.
    warm_start : bool, default=False
        Start from the dual variables of the last fit if that had as many rows, clipped to the bounds of this one.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors in the X of fit.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
    dual_coef_ : ndarray of shape (1, n_support)
        beta_i = y_i alpha_i of the support vectors.
    intercept_ : ndarray of shape (1,)
        b = sum_i beta_i, or 0.
    coef_ : ndarray of shape (1, n_features)
        w, for kernel="linear" only.
    gamma_ : float
        The gamma in use, for "rbf" and "poly".
    classes_ : ndarray of shape (2,)
        ``classes_[1]`` is the positive class.
    objective_ : float
        P at the solution, intercept included in the norm.
    dual_gap_ : float
        P(f) - D(alpha) >= P(f) - min P: the certificate; for the hinge, what the rounding of scores may add included,
        but not what that of kernel values may: of a polynomial of rows far from 0 that can be half as much again, of
        "linear" with rows far from 0 that hardly differ, more.
    gap_unit_ : float
        P(0) = sum_i C_i, or 1 where that is less: in units of it, gaps of different data compare.
    n_iter_ : int
        Steps made; each moves one or two dual variables.
    status_ : {"converged", "max_iter", "diverged"}
        "diverged" where objective_ overflowed.
    found_nothing_ : bool
        Whether the optimum is w = 0, up to tol: then the ranking is arbitrary.
    history_ : dict of ndarrays
        ``updates`` (steps), ``objective``, ``dual_gap``, ``auc`` (training), ``time_s``, each time that the certificate
        was computed: at the start, where it was expected to pass, and, as long as no row was left out, after n steps
        and at each doubling.

    Raises
    ------
    ValueError
        On parameters, weights or data for which the problem is not defined, or a cache for less than two columns.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` steps did not bring the gap under ``tol``.
    UserWarning
        If the objective is no lower than that of w = 0 with the best b, up to rounding, as is typical of a small C and
        a rare class: w is then what rounding and the order of the rows make it.

    Notes
    -----
    A step costs O(m) on the m rows that may still move and needs one or two kernel columns, O(m d) each if the cache
    does not hold them; they come from matrix products of a few columns. Every so often rows at a bound that press
    against it are left out, and their scores brought up to date before the certificate, O(n d) for each dual variable
    that moved since. The certificate itself costs O(n log n), for the AUC. Of 10,000 rows or more every fourth is
    solved first, roughly.
    Memory: ``cache_bytes``, temporary kernel values in blocks of 32 MiB, some 30 vectors of n rows, and X once more in
    float64 (CSR rows only if they are float32), those rows that are not left out twice; never n x n above that. All is
    computed in float64. Scores take O(n_support d) a row, 192 rows at a time, and O(d) with the linear kernel.
    Nothing is drawn, and BLAS is kept to one thread: the same machine and library versions give the same bits.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008). A dual coordinate descent method for large-scale linear SVM. ICML.
    Eq. 4 (dual), 8-9 (projected gradient and update).
    Fan, Chen, Lin (2005). Working set selection using second order information for training SVM. JMLR 6. WSS 2.
    Chang, Lin (2011). LIBSVM: a library for support vector machines. ACM TIST 2(3). Section 4.1.4 (shrinking).
    Steinwart, Hush, Scovel (2011). Training SVMs without offset. JMLR 12. On pairs where single steps would do.

    Examples
    --------
    Exclusive or, which no linear score can rank:

    >>> from aucsolvers import KernelSVM
    >>> svm = KernelSVM(C=10.0, gamma=1.0, tol=1e-9).fit([[0, 0], [1, 1], [0, 1], [1, 0]], [0, 0, 1, 1])
    >>> svm.predict([[0.1, 0.2], [0.1, 0.8]]), svm.status_
    (array([0, 1]), 'converged')
    """

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        loss="hinge",
        fit_intercept=True,
        class_weight=None,
        tol=1e-4,
        max_iter=1_000_000,
        cache_bytes=512 * 1024**2,
        warm_start=False,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_bytes = cache_bytes
        self.warm_start = warm_start

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_positive("C", self.C)
        check_class_weight(self.class_weight)
        check_choice("kernel", self.kernel, KERNELS)
        check_gamma(self.gamma, (*GAMMAS, "loo"))
        if isinstance(self.gamma, str) and self.gamma == "loo" and self.kernel != "rbf":
            raise ValueError(f"Expected gamma='loo' with kernel='rbf' only, got kernel={self.kernel!r}. Set a number.")
        check_count("degree", self.degree)
        check_non_negative("coef0", self.coef0)
        check_choice("loss", self.loss, LOSSES)
        check_non_negative("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_count("cache_bytes", self.cache_bytes)
        check_flags(self, "fit_intercept", "warm_start")

    @transactional
    def fit(self, X, y, sample_weight=None):
        """Fit to rows X, shape (n_samples, n_features), dense or CSR, and labels y of two classes; return self."""
        self._publish(*self._solve(X, y, sample_weight))
        return self

    @transactional
    def fit_scores(self, X, y):
        """Fit, and return the scores of the rows of X, up to rounding: the solver knows them."""
        result, *fitted = self._solve(X, y, None)
        self._publish(result, *fitted)
        return result.scores

    def _solve(self, X, y, sample_weight):
        """Return the driver's result, the rows of X that have weight, and their numbers."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        X = stored_once(X)
        sample_weight = None if sample_weight is None else as_numbers(sample_weight)
        cost = row_costs(self.C, self.class_weight, self.classes_, y, sample_weight)
        weighted = np.flatnonzero(cost > 0)
        if len(weighted) < len(y):
            X, y, cost = X[weighted], y[weighted], cost[weighted]
        self._kernel = Kernel.of(self, X, y, None if sample_weight is None else sample_weight[weighted])
        with np.errstate(over="ignore", invalid="ignore"):  # the objective tells
            result = solve_kernel_svm(
                X,
                y,
                cost,
                self._kernel,
                squared=self.loss == "squared_hinge",
                tol=float(self.tol),
                relative=True,
                max_iter=int(self.max_iter),
                cache_bytes=int(self.cache_bytes),
                beta=getattr(self, "_beta", None) if self.warm_start else None,
            )
        is_nothing = result.status == CONVERGED and is_no_better_than_a_constant(self, result.objective, cost, y > 0)
        self._tell_of_nothing(is_nothing, "raise C or set class_weight")
        self._beta = result.beta if self.warm_start else None  # n numbers that a stored model does without
        return result, X, weighted

    def _publish(self, result, X, rows):
        """Set the fitted attributes from the driver's result; ``rows`` are the input's row numbers of X."""
        support = np.flatnonzero(result.beta)
        signed = result.beta[support]
        self.support_ = rows[support]
        self.support_vectors_ = X[support]
        self.dual_coef_ = signed.reshape(1, -1)
        self.intercept_ = np.array([self._kernel.constant * signed.sum()])
        vars(self).pop("_weights", None)  # of an earlier fit
        if self._kernel.name == "linear":
            points = self._kernel.points(self.support_vectors_)
            self._weights = self._kernel.weights(points, self.dual_coef_.ravel())
        self._publish_certificate(result)

    @property
    def gamma_(self):
        """The gamma in use, of the kernels that have one."""
        if self._kernel_in_use() == "linear":
            raise AttributeError("gamma_ exists for kernel='rbf' and 'poly' only, not for 'linear'")
        check_is_fitted(self)
        return self._kernel.gamma

    @property
    def coef_(self):
        """The weight vector, shape (1, n_features), of the linear kernel; no other has one in the space of X."""
        if self._kernel_in_use() != "linear":
            raise AttributeError(f"coef_ exists for kernel='linear' only, not for {self._kernel_in_use()!r}")
        check_is_fitted(self)
        return self._weights[np.newaxis]

    def _kernel_in_use(self):
        """Return the kernel's name: of a fitted model the one that it was fitted with, whatever was set since."""
        return self._kernel.name if "_kernel" in vars(self) else self.kernel

    def decision_function(self, X):
        """Return the scores, shape (n_samples,): positive means ``classes_[1]``."""
        check_is_fitted(self)
        X = validate_rows(self, X)
        if self._kernel.name == "linear":
            return row_scores(X, self._weights) + self.intercept_[0]
        return self._kernel.scores(X, self.support_vectors_, self.dual_coef_.ravel())


# Driver ----------------------------------------------------------------------------------------------------------


class KernelResult(NamedTuple):
    """What the driver returns: ``SolverResult`` with beta, all that is needed to go on, in place of w and bias."""

    beta: np.ndarray
    scores: np.ndarray  # g + f at the rows
    objective: float
    dual_gap: float
    n_iter: int
    status: str
    history: dict[str, np.ndarray]
    at_zero: float
    target: float


def solve_kernel_svm(X, y, cost, kernel, *, squared, tol, relative, max_iter, cache_bytes, beta=None, offset=None):
    """Minimise P of this module's docstring from the dual point ``beta`` (0 by default); return a KernelResult.

    X is C-ordered or CSR, y is +-1.0, ``cost`` holds C_i > 0, ``kernel`` is a Kernel; ``offset`` holds the g_i, 0 by
    default. The gap is to fall to tol * P(0), or, if ``relative``, to tol * min(P, P(0)). Nothing is drawn.
    """
    # 1. a feasible dual point, whatever it was feasible for before, and its gradient
    points = kernel.points_among_themselves(X)
    dual = _pose(points, y, cost, kernel, squared, beta, offset)
    certifier = _Certifier(dual, kernel.constant, tol, relative)
    certifier.certify(0)
    if offset is None and certifier.objective < certifier.gap:
        # D is below D(0) = 0: what the dual point was optimal for had other units, or another loss
        dual.beta[:], dual.pull[:] = 0.0, y
        certifier.certify(0)
    working = _WorkingSet(dual, kernel, points, cache_bytes)
    updates, checkpoint, goal, refreshed = 0, len(y), certifier.goal, 0
    if len(y) >= SAMPLE_FROM and not dual.beta.any():
        # roughly, on a sample: where many rows are to be left out, their columns are never computed in full
        working.narrow(np.arange(0, len(y), SAMPLE_STEP))
        goal = max(goal, SAMPLE_GAP * working.dual.cost.sum())
    while not certifier.converged and updates < max_iter:
        # 2. greedy steps among the working rows; ``stuck`` where rounding is all that is left of the gradient
        pause = min(max(FIRST_PAUSE, updates // STEPS_PER_PAUSE), max_iter - updates)
        done = working.ascend(pause)
        updates, stuck = updates + done, done < pause
        # 3. their part of the gap is the whole gap if the other rows stay where they are: look when it is small enough
        if working.gap() > goal and not stuck and updates < max_iter:
            working.shrink()
            if not working.is_whole or updates < checkpoint:
                continue
        # 4. the certificate, of all rows
        stuck = stuck and working.is_whole
        working.reopen()
        certifier.certify(updates)
        fails = not certifier.converged and (stuck or updates >= max_iter)
        if fails or (certifier.converged and working.drift * certifier.at_zero > certifier.gap):
            # what the steps have rounded might be more than the gap: the last word is that of the dual point itself
            working.refresh()
            certifier.certify(updates)
            refreshed += 1
        checkpoint = 2 * updates
        if stuck or refreshed == MOST_REFRESHED or not np.isfinite(certifier.objective):
            break
        if goal > certifier.goal:
            working.shrink()
        goal = certifier.goal
    astray = not np.isfinite(certifier.objective) or working.rounding_of(dual.beta) > UNKNOWN_SCORES
    if offset is None and astray and not certifier.objective <= certifier.at_zero:
        # steps went by differences of kernels too large for them: no score at all is better
        dual.beta[:], dual.pull[:] = 0.0, y
        certifier.certify(updates)
    return certifier.result(updates)


class Dual(NamedTuple):
    """A dual point, its gradient, and what the dual attaches to every row; beta and pull are updated in place."""

    y: np.ndarray
    cost: np.ndarray
    low: np.ndarray  # low <= beta <= high: [0, U_i] for a positive, [-U_i, 0] for a negative row
    high: np.ndarray
    diagonal: np.ndarray  # D_ii
    curvature: np.ndarray  # k(x_i, x_i) + D_ii
    offset: np.ndarray  # g_i
    beta: np.ndarray
    pull: np.ndarray  # v_i = y_i - g_i - f(x_i) - D_ii beta_i

    def refresh(self, kernel, points):
        """Compute the pull from beta alone."""
        used = np.flatnonzero(self.beta)
        scores = kernel.expand(points, points.take(used), self.beta[used])
        self.pull[:] = self.y - self.offset - scores - self.diagonal * self.beta

    def take(self, rows):
        """Return a copy of the part of these rows."""
        return Dual(*(array[rows] for array in self))

    def largest_term(self):
        """Return a bound on the terms that sum to a score, y, g_i and beta_i k(x_i, .): their rounding is in it."""
        lengths = np.sqrt(self.curvature)  # |k(x_i, x)| <= length_i length
        return max(1.0, np.abs(self.offset).max(), np.abs(self.beta * lengths).max() * lengths.max())

    def rounding_of_losses(self, scores, constant):
        """Return what rounding may change in the sum of the hinge losses: eps times a bound on each score.

        That is |g_i| + ||f|| sqrt(k(x_i, x_i) + constant). Squared losses are small where their rounding is.
        """
        if self.diagonal.any():
            return 0.0
        lossy = may_have_loss(self.y * scores)
        norm = np.sqrt(max(float(self.beta @ (scores - self.offset)), 0.0))
        bounds = np.abs(self.offset[lossy]) + norm * np.sqrt(self.curvature[lossy] + constant)
        return float(np.finfo(np.float64).eps * (self.cost[lossy] @ bounds))

    def scores(self):
        """Return g + f."""
        return self.y - self.pull - self.diagonal * self.beta

    def certificate(self, scores):
        """Return P and P - D, or the part of these rows in the latter; ||f||^2 = beta'f."""
        squared = bool(self.diagonal.any())
        loss, gap = loss_and_gap(self.y * scores, np.abs(self.beta), self.cost, squared)
        return float(0.5 * self.beta @ (scores - self.offset)) + loss, gap


def _pose(points, y, cost, kernel, squared, beta, offset):
    """Return the Dual at ``beta`` clipped to its bounds, or at 0."""
    curvature = kernel.diagonal(points)
    if not np.isfinite(curvature).all():
        raise ValueError("Expected finite kernel values k(x, x), got an overflow: scale the features first.")
    upper, diagonal = dual_bounds(cost, squared)
    low, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
    beta = np.zeros(len(y)) if beta is None or len(beta) != len(y) else np.clip(beta, low, high)
    offset = np.zeros(len(y)) if offset is None else np.asarray(offset, dtype=np.float64)
    dual = Dual(y, cost, low, high, diagonal, curvature + diagonal, offset, beta, np.empty(len(y)))
    dual.refresh(kernel, points)
    return dual


class _Certifier:
    """Certifies the dual point on the way, keeps the trace, and knows when the gap is small enough."""

    def __init__(self, dual, constant, tol, relative):
        self.dual, self.constant, self.tol, self.relative, self.trace = dual, constant, tol, relative, Trace()
        self.at_zero = dual.cost.sum()  # P(0) = sum C_i for both losses
        self.objective = self.gap = self.rounding = None

    @property
    def target(self):
        """What the gap has to fall to, as far as the last certificate tells."""
        return self.tol * (min(self.objective, self.at_zero) if self.relative else self.at_zero)

    @property
    def goal(self):
        """What to let the gap fall to before the next certificate, which costs many steps: what is enough for any P."""
        return self.tol * max(self.objective - self.gap, 0.1 * self.objective) if self.relative else self.target

    @property
    def converged(self):
        return is_certified(self.gap, self.rounding, self.target)

    def certify(self, updates):
        """Record the objective, gap and training AUC of the dual point."""
        scores, positive = self.dual.scores(), self.dual.y > 0
        self.objective, self.gap = self.dual.certificate(scores)
        self.rounding = self.dual.rounding_of_losses(scores, self.constant)
        told = tied(scores, TIED_WITHIN * self.dual.largest_term())
        self.trace.add(updates, self.objective, self.gap, told[positive], told[~positive])

    def result(self, updates):
        history = self.trace.as_history()
        gap = history["dual_gap"][-1] = self.gap + self.rounding
        status = CONVERGED if gap <= self.target else MAX_ITER
        found = self.dual.beta, self.dual.scores(), self.objective, gap, updates, status, history
        return KernelResult(*found, self.at_zero, self.target)


class _WorkingSet:
    """The rows whose dual variables may move, with a copy of their part of the dual and the columns of K between them.

    The others, shrunk, are at a bound and pressed against it, or not in the sample that is looked at first; their
    gradient is not kept up to date.
    """

    def __init__(self, dual, kernel, points, cache_bytes):
        self.whole, self.kernel, self.all_points = dual, kernel, points
        self.known_beta = None  # where the gradient of the shrunk rows was last up to date
        self.largest_entry = dual.curvature.max()
        self.drift = self.rounding_of(dual.beta)  # of the gradient, about as much as it may be in all
        self.cache = ColumnCache(kernel, points, cache_bytes)
        self._open()

    def _open(self):
        """Work on all rows, whose gradient is up to date."""
        self.rows, self.dual = np.arange(len(self.whole.y)), self.whole
        self._block_moves()

    def rounding_of(self, change):
        """Return about as much as the scores of a change of beta may be rounded by."""
        return np.finfo(float).eps * float(np.abs(change).sum() * self.largest_entry)

    @property
    def is_whole(self):
        return self.dual is self.whole

    def _block_moves(self):
        """Set what, added to the gradient, takes rows at a bound out of a maximum: 0 or -infinity."""
        dual = self.dual
        self.rise, self.fall = (np.where(free, 0.0, -np.inf) for free in (dual.beta < dual.high, dual.beta > dual.low))

    def ascend(self, limit):
        """Make up to ``limit`` steps, fewer only if nothing but rounding is left of the gradient; return their number.

        A step rounds a gradient by eps times the scores, so nothing below a few times that can be removed.
        """
        dual, cache, done, missing, before = self.dual, self.cache, 0, 0, self.dual.beta.copy()
        largest = max(1.0, np.abs(dual.scores()).max())
        stop = ROUNDINGS * np.finfo(float).eps * largest
        state = dual.low, dual.high, dual.diagonal, dual.curvature, self.rise, self.fall, dual.beta, dual.pull
        while missing >= 0 and done < limit:
            steps, missing = _ascend(
                cache.values, cache.slots, cache.last_use, self.kernel.constant, *state, stop, limit - done
            )
            done += steps
            if missing >= 0:
                cache.load(missing, self.rise, self.fall, dual.pull)
        self.drift += done * np.finfo(float).eps * max(largest, np.abs(dual.pull).max())
        self.drift += self.rounding_of(dual.beta - before)  # the columns are rounded as well
        return done

    def gap(self):
        """Return the working rows' part of the duality gap."""
        return self.dual.certificate(self.dual.scores())[1]

    def shrink(self):
        """Leave out the rows that are at a bound and pressed against it, if they are many.

        A row that can only rise moves with v > 0, alone, or with v > v_j, paired with a j that may fall: it is left out
        if v is below 0 and below all v_j; and the other way round (LIBSVM's rule, which has pairs alone).
        """
        pull = self.dual.pull
        if len(pull) < SHRINK_FROM:
            return
        highest, lowest = np.max(pull + self.rise, initial=0.0), np.min(pull - self.fall, initial=0.0)
        keep = np.flatnonzero((pull + self.rise >= lowest) | (pull - self.fall <= highest))
        if len(keep) <= SHRINK_BELOW * len(pull) and len(keep) >= 2:
            self.narrow(keep)

    def narrow(self, keep):
        """Go on with these of the working rows alone."""
        if self.is_whole:
            self.known_beta = self.whole.beta.copy()
        self.whole.beta[self.rows] = self.dual.beta
        self.rows, self.dual = self.rows[keep], self.dual.take(keep)
        self.cache.restrict(keep)
        self._block_moves()

    def refresh(self):
        """Compute the gradient of all rows, which are at work, from the dual point alone."""
        self.whole.refresh(self.kernel, self.all_points)
        self.drift = 0.0

    def reopen(self):
        """Bring the gradient of the shrunk rows up to date and work on all rows again."""
        if self.is_whole:
            return
        self.whole.beta[self.rows], self.whole.pull[self.rows] = self.dual.beta, self.dual.pull
        shrunk = np.delete(np.arange(len(self.whole.y)), self.rows)
        change = self.whole.beta - self.known_beta
        self.drift += self.rounding_of(change)
        moved = np.flatnonzero(change)
        points = self.all_points
        self.whole.pull[shrunk] -= self.kernel.expand(points.take(shrunk), points.take(moved), change[moved])
        self.whole.pull[shrunk] -= self.whole.diagonal[shrunk] * change[shrunk]  # of rows left out later than others
        self.cache.reset(points)
        self._open()


# The kernel and its columns --------------------------------------------------------------------------------------


class Points(NamedTuple):
    """Rows as columns of a dense float64 matrix, or as a CSR matrix; and their squared lengths."""

    X: object
    square_norms: np.ndarray
    longest: float  # no square norm is larger

    def take(self, chosen):
        """Return those of an index array or of a slice; C-ordered if dense, but for a slice, which is a view."""
        if sparse.issparse(self.X):
            return Points(self.X[chosen], self.square_norms[chosen], self.longest)
        X = self.X[:, chosen] if isinstance(chosen, slice) else self.X.take(chosen, axis=1)
        return Points(X, self.square_norms[chosen], self.longest)


@dataclass(frozen=True)
class Kernel:
    """k(x, z), and the constant that goes with it."""

    name: str
    gamma: float
    degree: int
    coef0: float
    constant: float  # 1, or 0 where no intercept is asked for
    origin: np.ndarray | None  # Gaussian rows are moved by it: distances stay, their rounding becomes small

    @classmethod
    def of(cls, svm, X, y=None, weight=None):
        """Return the kernel that the parameters of ``svm`` describe, for training rows X and their sample weights.

        The labels, +-1, are for gamma="loo" alone.
        """
        X = stored_once(X)
        by_rows = isinstance(svm.gamma, str) and svm.gamma == "loo"
        gamma = given_gamma("spread" if by_rows else svm.gamma, X, weight)
        origin = origin_of(X, gamma) if svm.kernel == "rbf" else None
        kernel = cls(svm.kernel, gamma, int(svm.degree), float(svm.coef0), 1.0 if svm.fit_intercept else 0.0, origin)
        return replace(kernel, gamma=leave_one_out_gamma(kernel, X, y)) if by_rows else kernel

    def points_among_themselves(self, X):
        """Return ``points``, for rows that are only compared with each other: columns without a value are left out."""
        return self.points(StoredColumns.of(X).rows(X) if self.origin is None else X)

    def points(self, X):
        """Return the rows of X as the other methods take them: dense, as a copy, if X is or there is an origin."""
        if sparse.issparse(X) and self.origin is None:
            X = stored_once(X).astype(np.float64, copy=False)
            square_norms = squared_norms(X)
        else:
            X = (X.toarray() if sparse.issparse(X) else X).T.astype(np.float64, order="C")
            if self.origin is not None:
                X -= self.origin[:, None]
            square_norms = np.einsum("ij,ij->j", X, X)
        return Points(X, square_norms, square_norms.max(initial=0.0))

    def diagonal(self, points):
        """Return k(x, x) of each row."""
        if self.name == "rbf":
            return np.ones(len(points.square_norms))
        with np.errstate(over="ignore"):
            return self._of_products(points.square_norms.copy())

    def between(self, few, many, out=None):
        """Return k between every row of ``few`` and every row of ``many``, shape (len(few), len(many))."""
        values = _products(few.X, many.X, out)
        if self.name != "rbf":
            return self._of_products(values)
        _negate_distances(values, few.square_norms, many.square_norms, self.gamma)
        longest = self.gamma * (few.longest + many.longest)
        if np.finfo(np.float64).eps * longest > DISTANCES_KNOWN_TO:
            rows = (as_rows(points.X if sparse.issparse(points.X) else points.X.T.copy()) for points in (few, many))
            _measure_near(*rows, few.square_norms, many.square_norms, many.longest, self.gamma, values)
        return np.exp(values, out=values)

    def _of_products(self, products):
        """Return k from x'z, in the same array."""
        if self.name == "poly":
            products *= self.gamma
            products += self.coef0
            _raise_to(self.degree, products)
        return products

    def expand(self, points, support, coefficients):
        """Return sum_j coefficients_j (k(x_j, x) + constant) for each point x, in blocks of bounded memory."""
        scores = np.full(len(points.square_norms), self.constant * coefficients.sum())
        if self.name == "linear":
            w = self.weights(support, coefficients)
            return scores + (points.X @ w if sparse.issparse(points.X) else w @ points.X)
        width = 1 if sparse.issparse(points.X) else _width(points)
        for block in _blocks(len(scores), max(len(coefficients), width)):
            scores[block] += row_scores(self.between(points.take(block), support), coefficients)
        return scores

    def weights(self, support, coefficients):
        """Return w = sum_j coefficients_j x_j of the linear kernel.

        Summed in extended precision, where the machine has it: of columns far from 0 the terms all but cancel.
        """
        w = np.zeros(_width(support), dtype=np.longdouble)
        for block in _blocks(len(coefficients), 2 * len(w)):
            X, precise = support.take(block).X, coefficients[block].astype(np.longdouble)
            w += (X.T if sparse.issparse(X) else X).astype(np.longdouble) @ precise
        return w.astype(np.float64)

    def scores(self, X, support, coefficients):
        """Return what ``expand`` does for the rows of X and of ``support``, FULL rows at a time.

        Products of one shape alone, on one thread, are the same to the last bit whichever rows come together.
        """
        support, scores = self.points(support), np.empty(X.shape[0])
        with one_thread_in_shared_pools():
            for start in range(0, len(scores), FULL):
                block = slice(start, start + FULL)
                rows = X[block]
                scores[block] = self.expand(self.points(filled_up(rows)), support, coefficients)[: rows.shape[0]]
        return scores


def _raise_to(degree, values):
    """Take a power, a whole number above 0, of each value in place, by products: a tenth of the time of NumPy's."""
    factor = None  # of the powers that are done with
    while degree > 1:
        if degree % 2:
            factor = values.copy() if factor is None else np.multiply(factor, values, out=factor)
        values *= values
        degree //= 2
    if factor is not None:
        values *= factor


def _width(points):
    return points.X.shape[1] if sparse.issparse(points.X) else points.X.shape[0]


def _blocks(n, width):
    """Yield slices of n rows in order, each for BLOCK_BYTES of ``width`` numbers a row."""
    size = max(1, BLOCK_BYTES // (8 * width)) if width else n
    return (slice(start, start + size) for start in range(0, n, size))


def origin_of(X, gamma):
    """Return a point among most rows of X, or None for sparse ones that are to stay where they are.

    Squared distances are differences of squared norms, whose rounding may hide them. Columns far from 0, of dates say,
    are stored in full: such data are narrow, and become dense. It is the median of each column, of up to so many rows:
    the mean is nowhere near any of them if one is remote enough.
    """
    if sparse.issparse(X):
        rounding = np.finfo(np.float64).eps * gamma * squared_norms(X).max(initial=0.0)
        if rounding <= MOVED_FROM or 8 * X.shape[0] * X.shape[1] > MOST_MOVED * X.data.nbytes:
            return None
    some = X[:: -(-X.shape[0] // MEDIAN_ROWS)].astype(np.float64)
    return np.median(some.toarray() if sparse.issparse(some) else some, axis=0)


def scale_gamma(X, weight=None):
    """Return what "scale" means as gamma, for rows repeated ``weight`` times: 1/(n_features * variance of all entries).

    1 if they are all the same, up to rounding, or so small that 1/variance overflows.
    """
    mean = np.average(np.ravel(X.mean(axis=1, dtype=np.float64)), weights=weight)
    if sparse.issparse(X):
        stored = sparse.csr_array((X.data - mean, X.indices, X.indptr), shape=X.shape)
        absent = 1.0 - np.diff(X.indptr) / X.shape[1]
        square_distances = squared_norms(stored) / X.shape[1] + absent * mean**2
    else:
        blocks = _blocks(len(X), X.shape[1])
        square_distances = np.concatenate([np.square(X[block] - mean).mean(axis=1) for block in blocks])
    variance = np.average(square_distances, weights=weight)
    spread = X.shape[1] * variance
    return float(1.0 / spread) if variance > (1e-14 * mean) ** 2 and spread >= np.finfo(np.float64).tiny else 1.0


def spread_gamma(X, weight=None):
    """Return what "spread" means as gamma, for rows repeated ``weight`` times: 1/(sum of the columns' variances).

    That is 1/E||x - E x||^2, which moving a column does not change, as it does not change distances. Of columns with
    one mean it is ``scale_gamma``. A column that is the same everywhere, up to rounding, has no part in it. 1 if all
    are, or so nearly that 1/spread overflows.
    """
    weight = np.ones(X.shape[0]) if weight is None else np.asarray(weight, dtype=np.float64)
    if sparse.issparse(X):
        of_entries = np.repeat(weight, np.diff(X.indptr))
        mean = np.bincount(X.indices, of_entries * X.data, X.shape[1]) / weight.sum()
        squares = np.bincount(X.indices, of_entries * np.square(X.data - mean[X.indices]), X.shape[1])
        has_zeros = np.bincount(X.indices, minlength=X.shape[1]) < X.shape[0]
        absent = np.where(has_zeros, weight.sum() - np.bincount(X.indices, of_entries, X.shape[1]), 0.0)
        squares = squares + absent * np.square(mean)
    else:
        blocks = list(_blocks(len(X), X.shape[1]))
        mean = sum(weight[block] @ X[block] for block in blocks) / weight.sum()
        squares = sum(weight[block] @ np.square(X[block] - mean) for block in blocks)
    variances = squares / weight.sum()
    spread = variances[variances > np.square(1e-14 * mean)].sum()
    return float(1.0 / spread) if spread >= np.finfo(np.float64).tiny else 1.0


GAMMAS = {"scale": scale_gamma, "spread": spread_gamma}


def given_gamma(gamma, X, weight=None):
    """Return a gamma that is given as a number or by its name."""
    return GAMMAS[gamma](X, weight) if isinstance(gamma, str) else float(gamma)


def _products(few, many, out=None):
    """Return x'z between all rows of the Points' matrices as a C-ordered array, ``out`` if given."""
    if sparse.issparse(few) and sparse.issparse(many):
        return _sparse_products(few, many, np.empty((few.shape[0], many.shape[0])) if out is None else out)
    if not (sparse.issparse(few) or sparse.issparse(many)):
        if not 1 < few.shape[1] <= FEW_COLUMNS:
            return np.matmul(few.T, many, out=out)
        out = np.empty((few.shape[1], many.shape[1])) if out is None else out
        _multiply_few(np.ascontiguousarray(few), np.ascontiguousarray(many), out)
        return out
    products = (many @ np.ascontiguousarray(few)).T if sparse.issparse(many) else few @ many
    if out is None:
        return np.ascontiguousarray(products)
    out[:] = products
    return out


def _sparse_products(few, many, out):
    """Set ``out`` to x'z between all rows of two CSR matrices and return it; the way there does not show in its bits.

    Rows of ``few`` are made dense, some at a time: each time takes one run through the stored values of ``many``. Where
    so few values meet others that to look for these takes less time, they stay as they are.
    """
    share = MEETING if 8 * few.shape[0] * few.shape[1] <= SPREAD_BYTES else MEETING_OF_WIDE
    stay = few.shape[0] > FEWEST_SPARSE and _meetings(few, many) <= share * few.shape[0] * many.nnz
    columns = many.T.tocsr() if stay else None
    width = max(1, many.shape[0]) if stay else many.shape[1]
    size = max(LEAST_SPREAD, SPREAD_BYTES // (8 * width))
    for start in range(0, few.shape[0], size):
        block = slice(start, start + size)
        if stay:
            (few[block] @ columns).toarray(out=out[block])
        else:
            out[block] = (many @ _dense_transpose(few[block])).T
    return out


def _meetings(few, many):
    """Return how many products of two stored values all x'z are sums of."""
    each = (np.bincount(X.indices, minlength=X.shape[1]).astype(np.float64) for X in (few, many))
    return float(np.dot(*each))


def _dense_transpose(X):
    """Return X' of a CSR X as a C-ordered array."""
    dense = np.zeros(X.shape[::-1])
    dense[X.indices, np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))] = X.data
    return dense


def check_cache(n, size_bytes):
    """Raise ValueError if so many bytes do not hold two columns of n rows."""
    if min(n, size_bytes // (8 * n)) < 2:
        raise ValueError(
            f"Expected cache_bytes for at least two columns of {n} rows, {16 * n} bytes, got {size_bytes}. "
            "Raise cache_bytes."
        )


class ColumnCache:
    """Columns of k between some points in a fixed number of bytes; the least recently used make way for new ones."""

    def __init__(self, kernel, points, size_bytes):
        n = len(points.square_norms)
        check_cache(n, size_bytes)
        self.kernel = kernel
        self._memory = np.empty(min(n * n, size_bytes // 8))  # the system gives memory to what is written only
        self.reset(points)

    def reset(self, points):
        """Forget all columns; hold columns between these points from now on."""
        self.points = points
        self._lay_out()
        n = len(points.square_norms)
        self.slots = np.full(n, -1)  # of each column, -1: not held
        self.last_use = np.zeros(self.capacity, dtype=np.int64)
        self._column = np.full(self.capacity, -1)  # in each slot, -1: free
        self._filled = 0

    def _lay_out(self):
        n = len(self.points.square_norms)
        self.capacity = min(n, self._memory.size // n)
        self.values = self._memory[: self.capacity * n].reshape(self.capacity, n)
        if sparse.issparse(self.points.X):
            least = SMALLEST_SPARSE_BLOCK
        else:
            least = BLOCK_OF_FEW if n <= FEW_POINTS else SMALLEST_BLOCK
        self._block = max(1, min(max(least, min(LARGEST_BLOCK, BLOCK_ENTRIES // n)), self.capacity // 2))

    def restrict(self, keep):
        """Go on with the points ``keep``, ascending, alone: their columns stay, shortened, and more of them fit."""
        column, last_use, n = self._column, self.last_use, len(self.slots)
        place = np.full(n, -1)
        place[keep] = np.arange(len(keep))
        held = np.flatnonzero(column[: self._filled] >= 0)
        held = held[place[column[held]] >= 0]
        _compact(self._memory, n, held, keep)
        self.reset(self.points.take(keep))
        self._filled = len(held)
        self._column[: len(held)] = place[column[held]]
        self.last_use[: len(held)] = last_use[held]
        self.slots[self._column[: len(held)]] = np.arange(len(held))

    def _block_to_load(self):
        n = len(self.slots)
        if n > SHORT_COLUMN or self._filled < MANY_HELD * n:
            return self._block
        return max(self._block, min(self._filled // HELD_PER_COLUMN, self.capacity // 2))

    def load(self, wanted, rise, fall, pull):
        """Compute the wanted column and, as one product makes many, those of steep coordinates not held.

        They fill at most half of the slots, the oldest: what the step at hand has just used stays.
        """
        columns = np.empty(self._block_to_load(), dtype=np.int64)
        columns = columns[: _steep_columns(wanted, rise, fall, pull, self.slots, columns)]
        if self._filled + len(columns) <= self.capacity:
            slots = np.arange(self._filled, self._filled + len(columns))
            self._filled += len(columns)
            self.kernel.between(self.points.take(columns), self.points, out=self.values[slots[0] : self._filled])
        else:
            # slots that are free yet count as filled: they are among the oldest, so that these are all there is to take
            self._filled = self.capacity
            slots = np.argpartition(self.last_use, len(columns) - 1)[: len(columns)]
            evicted = self._column[slots]
            self.slots[evicted[evicted >= 0]] = -1
            self.values[slots] = self.kernel.between(self.points.take(columns), self.points)
        self.slots[columns], self._column[slots], self.last_use[slots] = slots, columns, self.last_use.max()


# Compiled kernels ------------------------------------------------------------------------------------------------


@intrinsic
def _larger(typing_context, a, b):
    """Return the larger of two floats, neither nan: LLVM's maxnum, which unlike a comparison makes a SIMD reduction.

    The flags are the call's own: a maximum does not depend on the order, so no re-association is asked for.
    """

    def codegen(context, builder, signature, arguments):
        double = ir.DoubleType()
        kind = ir.FunctionType(double, [double, double])
        function = builder.module.declare_intrinsic("llvm.maxnum", [double], kind)
        return builder.call(function, arguments, fastmath=("nnan", "nsz"))

    return types.float64(types.float64, types.float64), codegen


@_jit.kernel(error_model="numpy")
def _ascend(values, slots, last_use, constant, low, high, diagonal, curvature, rise, fall, beta, pull, stop, limit):
    """Step along the steepest direction; update beta, pull and last_use in place. Return (steps, missing column or -1).

    A step moves one coordinate, or a pair by +t and -t if that is steeper. Single ones alone would do, but slowly: they
    zigzag against the part that is common to all of K, such as the constant, which a pair does not see. Ends after
    ``limit`` steps, where no direction is steeper than ``stop``, or at a step whose column is not held.
    """
    clock = 0
    for slot in range(last_use.size):
        clock = max(clock, last_use[slot])
    for update in range(limit):
        # 1. the steepest way up and the steepest way down
        i, j, up, down = _steepest(rise, fall, pull)
        if max(up, down, up + down) <= stop:
            return update, -1
        is_pair = up + down > max(up, down)
        if not is_pair and down > up:
            i = j
        if slots[i] < 0:
            return update, i
        column = values[slots[i]]
        last_use[slots[i]] = clock + update + 1
        # 2. the exact minimum along it, within the bounds
        if is_pair:
            j = _partner(column, curvature, fall, pull, curvature[i], up)
            if slots[j] < 0:
                return update, j
            last_use[slots[j]] = clock + update + 1
            bend = max(curvature[i] + curvature[j] - 2.0 * column[j], SMALLEST_CURVATURE)
            step = min((pull[i] - pull[j]) / bend, high[i] - beta[i], beta[j] - low[j])
            i_step = _move(low, high, diagonal, rise, fall, beta, pull, i, step)
            j_step = _move(low, high, diagonal, rise, fall, beta, pull, j, -step)
            _follow(column, values[slots[j]], i_step, j_step, constant * (i_step + j_step), pull)
        else:
            step = _move(low, high, diagonal, rise, fall, beta, pull, i, pull[i] / (curvature[i] + constant))
            _follow(column, column, step, 0.0, constant * step, pull)
    return limit, -1


@_jit.kernel()
def _steepest(rise, fall, pull):
    """Return the coordinate of largest gradient that may grow, that of smallest that may shrink, and their slopes.

    The maxima are taken block by block, without positions, which SIMD can; then one block is searched for each.
    """
    n = pull.size
    up, down, up_from, down_from = -np.inf, -np.inf, 0, 0
    for start in range(0, n, SCAN):
        block, up_block, down_block = pull[start : start + SCAN], rise[start : start + SCAN], fall[start : start + SCAN]
        top, bottom = -np.inf, -np.inf
        for t in range(block.size):
            top = _larger(top, block[t] + up_block[t])
            bottom = _larger(bottom, down_block[t] - block[t])
        if top > up:
            up, up_from = top, start
        if bottom > down:
            down, down_from = bottom, start
    while up_from < n - 1 and pull[up_from] + rise[up_from] != up:
        up_from += 1
    while down_from < n - 1 and fall[down_from] - pull[down_from] != down:
        down_from += 1
    return up_from, down_from, up, down


@_jit.kernel(error_model="numpy")
def _partner(column, curvature, fall, pull, bend_i, up):
    """Return the j that may shrink for which moving i by t and j by -t gains most (Fan et al., WSS 2).

    The gain is (v_i - v_j)^2 / (K_ii + K_jj - 2 K_ij), 0 where v_j is not below v_i = up.
    """
    best, best_from = -1.0, 0
    for start in range(0, pull.size, SCAN):
        stop = start + SCAN
        gain = _largest_gain(column[start:stop], curvature[start:stop], fall[start:stop], pull[start:stop], bend_i, up)
        if gain > best:
            best, best_from = gain, start
    best, j = -1.0, best_from
    for t in range(best_from, min(best_from + SCAN, pull.size)):
        difference = up - pull[t] + fall[t]
        if difference > 0.0:
            gain = difference * difference / max(bend_i + curvature[t] - 2.0 * column[t], SMALLEST_CURVATURE)
            if gain > best:
                best, j = gain, t
    return j


@_jit.kernel(error_model="numpy")
def _largest_gain(column, curvature, fall, pull, bend_i, up):
    best = -1.0
    for t in range(pull.size):
        difference = _larger(up - pull[t] + fall[t], 0.0)
        bend = _larger(bend_i + curvature[t] - 2.0 * column[t], SMALLEST_CURVATURE)
        best = _larger(best, difference * difference / bend)
    return best


@_jit.kernel()
def _move(low, high, diagonal, rise, fall, beta, pull, s, step):
    """Add step to beta_s, but stay within its bounds, and to v_s the part of D_ss; return the step made."""
    moved = min(max(beta[s] + step, low[s]), high[s])
    step = moved - beta[s]
    beta[s] = moved
    rise[s] = 0.0 if moved < high[s] else -np.inf
    fall[s] = 0.0 if moved > low[s] else -np.inf
    pull[s] -= step * diagonal[s]
    return step


@_jit.kernel(fastmath={"contract"})
def _follow(i_column, j_column, i_step, j_step, shift, pull):
    """Update the gradient after two steps along K's columns i and j, which are those of k and a constant."""
    for t in range(pull.size):
        pull[t] -= shift + i_step * i_column[t] + j_step * j_column[t]


@_jit.kernel()
def _steep_columns(wanted, rise, fall, pull, slots, columns):
    """Fill columns with the wanted one and the steepest not held in each of equal parts of the rows."""
    columns[0], count, parts, n = wanted, 1, columns.size - 1, pull.size
    for part in range(parts):
        steepest, best = -1, 0.0
        for t in range(n * part // parts, n * (part + 1) // parts):
            slope = max(pull[t] + rise[t], fall[t] - pull[t])
            if slope > best and slots[t] < 0 and t != wanted:
                steepest, best = t, slope
        if steepest >= 0:
            columns[count] = steepest
            count += 1
    return count


@_jit.kernel()
def _compact(memory, n, held, keep):
    """Move the entries ``keep`` of the columns ``held`` of n rows to the front, in order; all indices ascend."""
    for k in range(held.size):
        for t in range(keep.size):
            memory[k * keep.size + t] = memory[held[k] * n + keep[t]]


@_jit.kernel(fastmath={"contract"})
def _multiply_few(few, many, products):
    """Set products to few' many: a CHUNK of them at a time, for two columns of few and four rows of many at once.

    BLAS first packs all of many for its own order of things, which for so few columns takes longer than the product.
    """
    d, n = many.shape
    whole, last, unpaired = d - d % 4, few.shape[1] - 1, np.empty(CHUNK)
    for start in range(0, n, CHUNK):
        stop = min(start + CHUNK, n)
        for j in range(0, few.shape[1], 2):
            k = min(j + 1, last)
            p, q = products[j, start:stop], products[k, start:stop] if k > j else unpaired[: stop - start]
            for t in range(p.size):
                p[t] = q[t] = 0.0
            for f in range(0, whole, 4):
                a, b = many[f, start:stop], many[f + 1, start:stop]
                c, e = many[f + 2, start:stop], many[f + 3, start:stop]
                pa, pb, pc, pe = few[f, j], few[f + 1, j], few[f + 2, j], few[f + 3, j]
                qa, qb, qc, qe = few[f, k], few[f + 1, k], few[f + 2, k], few[f + 3, k]
                for t in range(p.size):
                    p[t] = p[t] + pa * a[t] + pb * b[t] + pc * c[t] + pe * e[t]
                    q[t] = q[t] + qa * a[t] + qb * b[t] + qc * c[t] + qe * e[t]
            for f in range(whole, d):
                a, pa, qa = many[f, start:stop], few[f, j], few[f, k]
                for t in range(p.size):
                    p[t] += pa * a[t]
                    q[t] += qa * a[t]


@_jit.kernel(fastmath={"contract"})
def _negate_distances(products, few, many, gamma):
    """Turn x'z into -gamma ||x - z||^2, given the squared lengths; above 0 it would be by rounding only."""
    for r in range(products.shape[0]):
        row, square = products[r], few[r]
        for t in range(many.size):
            row[t] = min(gamma * (2.0 * row[t] - square - many[t]), 0.0)


@_jit.kernel()
def _measure_near(few, many, few_squares, many_squares, longest, gamma, exponents):
    """Set the exponents that _negate_distances left to rounding to what the differences of the two rows say.

    Whether those of a row of ``few`` are asked for hangs on the row and on ``longest``, the largest of many_squares:
    not on what comes with it.
    """
    eps = 2.0**-52
    for r in range(np.uint32(few_squares.size)):
        if eps * gamma * (few_squares[r] + longest) > DISTANCES_KNOWN_TO:
            for t in range(np.uint32(many_squares.size)):
                rounding = 8.0 * eps * gamma * (few_squares[r] + many_squares[t])
                if exponents[r, t] > NOTHING - rounding:
                    exponents[r, t] = -gamma * squared_distance(few, r, many, t)
