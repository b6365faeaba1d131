"""Linear support vector machines by dual coordinate descent: estimator, driver, kernels.

With x~_i = (x_i, 1) where an intercept is asked for (and x_i where not), w~ = (w, b) and costs C_i > 0, the primal and
its dual are (Hsieh et al. 2008, eq. 1-4; their C may differ from row to row without changing a line of the argument)

    P(w~)    = 1/2 ||w~||^2 + sum_i C_i loss(1 - y_i w~'x~_i),        loss(t) = max(0, t)  or  max(0, t)^2
    D(alpha) = sum_i alpha_i - 1/2 ||w~(alpha)||^2 - 1/2 sum_i D_ii alpha_i^2,  0 <= alpha_i <= U_i
    w~(alpha) = sum_i alpha_i y_i x~_i

    hinge: D_ii = 0, U_i = C_i          squared hinge: D_ii = 1 / (2 C_i), U_i = infinity
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace
from aucsolvers._hinge import LOSSES, dual_bounds, loss_and_gap, row_costs
from aucsolvers._jit import kernel
from aucsolvers._params import as_generator, check_choice, check_count, check_positive, check_tolerance
from aucsolvers._rows import FLOATS, REDUCE, add, as_rows, dot, row_scores, squared_norms, weighted_row_sum

FIRST_RANGE = 0.1  # of projected gradients, whose natural scale is 1: loose, the gap decides how much it is tightened
# A visit costs about 1.2 ns per dense column and 3 ns per stored entry of a sparse row (measured).
SPARSE_PAYS_BELOW = 0.3


# Estimator -------------------------------------------------------------------------------------------------------


class LinearSVM(LinearScorer):
    """Linear SVM with hinge or squared hinge loss, by dual coordinate descent with shrinking.

    Minimises, with LIBLINEAR's scaling (a sum over rows, not a mean; the intercept is regularised, being the weight of
    a constant feature 1),

        1/2 (||w||^2 + b^2) + C sum_i v_i loss(1 - y_i (w'x_i + b)),    loss(t) = max(0, t)  or  max(0, t)^2

    where v_i is the class weight times the sample weight of row i, 1 by default.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of loss, > 0.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        The L1-SVM or the L2-SVM of Hsieh et al.
    fit_intercept : bool, default=True
        Whether b is fitted; otherwise it is 0.
    class_weight : None, "balanced" or dict, default=None
        Multiplies C by class. "balanced" gives class c the weight n / (2 n_c), counting sample weights.
    tol : float, default=1e-4
        Stop when duality gap <= tol * P(0), where P(0) = C sum_i v_i is the objective at w = 0. This implies the
        project's gap / max(1, P(0)) <= tol, which alone would accept w = 0 as soon as C n <= tol.
    max_iter : int, default=10_000
        Most outer passes; a pass visits the rows that shrinking has left active, so a late pass may be very short.
    random_state : None, int, RandomState or Generator, default=None
        Draws the order of visits.
    warm_start : bool, default=False
        Start from the dual variables of the last fit if that had as many rows, clipped to the bounds of this one.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features), float64
    intercept_ : ndarray of shape (1,), float64
    classes_ : ndarray of shape (2,)
        ``classes_[1]`` is the positive class.
    objective_ : float
        P at the solution, intercept included in the norm.
    dual_gap_ : float
        P(w) - D(alpha) >= P(w) - min P: the certificate.
    n_iter_ : int
        Outer passes made.
    status_ : {"converged", "max_iter"}
    history_ : dict of ndarrays
        ``updates`` (rows visited), ``objective``, ``dual_gap``, ``auc`` (training rows), ``time_s``, each time that the
        certificate was computed: at the start, at n rows visited, then at least at every doubling.

    Raises
    ------
    ValueError
        On parameters, weights or data for which the problem is not defined.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` passes did not bring the gap under ``tol``: usually features on very different scales.

    Notes
    -----
    A visit costs O(stored entries of the row); the certificate costs O(nnz + n log n). Memory: some 7 vectors of n rows
    beside X; dense X with less than 30 % non-zero entries is copied to CSR, which is then faster. Rows with zero weight
    are left out. The same integer ``random_state`` gives the same bits on the same machine; dense and sparse input give
    the same solution up to rounding.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008). A dual coordinate descent method for large-scale linear SVM. ICML.
    Algorithm 3; eq. 4 (dual), 8-9 (projected gradient and update), section 3.2 (shrinking).

    Examples
    --------
    Two points at x = 1 and x = -1: hinge loss vanishes at w = 1, where the objective is 1/2.

    >>> from aucsolvers.svm import LinearSVM
    >>> svm = LinearSVM(fit_intercept=False, tol=1e-12, random_state=0).fit([[1.0], [-1.0]], [1, 0])
    >>> svm.coef_, svm.status_, round(svm.objective_, 12)
    (array([[1.]]), 'converged', 0.5)
    """

    def __init__(
        self,
        C=1.0,
        *,
        loss="hinge",
        fit_intercept=True,
        class_weight=None,
        tol=1e-4,
        max_iter=10_000,
        random_state=None,
        warm_start=False,
    ):
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.warm_start = warm_start

    def fit(self, X, y, sample_weight=None):
        """Fit to rows X, shape (n_samples, n_features), dense or CSR, and labels y of two classes; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y, dtype=FLOATS)
        cost = row_costs(self.C, self.class_weight, self.classes_, y, sample_weight)
        weighted = cost > 0
        if not weighted.all():
            X, y, cost = X[weighted], y[weighted], cost[weighted]
        result = solve_linear_svm(
            X,
            y,
            cost,
            squared=self.loss == "squared_hinge",
            fit_intercept=self.fit_intercept,
            tol=self.tol,
            max_iter=self.max_iter,
            rng=as_generator(self.random_state),
            alpha=getattr(self, "_alpha", None) if self.warm_start else None,
        )
        # n numbers that a stored model does not need, unless it is to go on from here
        if self.warm_start:
            self._alpha = result.state["alpha"]
        return self._publish(result, X, y)

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_positive("C", self.C)
        check_choice("loss", self.loss, LOSSES)
        check_tolerance(self.tol)
        check_count("max_iter", self.max_iter)


# Driver ----------------------------------------------------------------------------------------------------------


def solve_linear_svm(X, y, cost, *, squared, fit_intercept, tol, max_iter, rng, alpha=None):
    """Minimise P of this module's docstring from the dual point ``alpha`` (0 by default); return a SolverResult.

    X is C-ordered float64 or CSR, y is +-1.0, ``cost`` holds C_i > 0, ``rng`` is a Generator. Rows are visited in a
    fresh random order in every pass. ``state`` holds ``alpha``, all that is needed to go on.
    """
    problem = _pose(X, y, cost, squared, fit_intercept)
    n = len(y)
    # 1. A feasible dual point, whatever it was feasible for before, and its primal point.
    alpha = np.zeros(n) if alpha is None or len(alpha) != n else np.clip(alpha, 0.0, problem.upper)
    w = problem.primal(alpha)
    certifier = _Certifier(problem, tol)
    certifier.certify(0, alpha, w)

    fixed = as_rows(problem.X), y, problem.bias, problem.upper, problem.diagonal, problem.inverse
    order = np.arange(n, dtype=np.uint32)
    n_active, high, low = n, np.inf, -np.inf
    pg_range, passes, updates, checkpoint = FIRST_RANGE, 0, 0, n
    while not certifier.converged and passes < max_iter:
        # 2. As many passes over the active rows as n random numbers shuffle: one at first, hundreds after shrinking.
        draws = rng.integers(2**32, size=n, dtype=np.uint32)
        done, visits, n_active, high, low, spread = _passes(
            *fixed, alpha, w, order, n_active, high, low, draws, pg_range, max_iter - passes
        )
        passes, updates = passes + done, updates + visits
        closed = spread <= pg_range
        # 3. Solved on the active rows only: look at all of them before believing it.
        if closed and n_active < n:
            n_active, high, low = n, np.inf, -np.inf
        # 4. Ask for the certificate where it may pass. If it does not, the range of projected gradients was too wide.
        elif closed or updates >= checkpoint or passes == max_iter:
            gap = certifier.certify(updates, alpha, w)
            checkpoint = 2 * updates
            if closed:
                pg_range *= min(0.5, max(0.1, certifier.target / gap)) if gap > 0 else 0.5
    if certifier.updates < updates:
        certifier.certify(updates, alpha, w)
    return certifier.result(alpha, w, passes)


@dataclass(frozen=True)
class _Problem:
    """The data of one fit, with the constants that the dual attaches to every row."""

    X: object
    y: np.ndarray
    cost: np.ndarray
    squared: bool
    bias: float  # the constant feature: 1, or 0 where no intercept is asked for
    upper: np.ndarray  # U_i
    diagonal: np.ndarray  # D_ii
    inverse: np.ndarray  # 1 / (||x~_i||^2 + D_ii), the step length of coordinate i

    def primal(self, alpha):
        """Return w~(alpha), the weight of the constant feature last."""
        signed = self.y * alpha
        return np.append(weighted_row_sum(self.X, signed), self.bias * signed.sum())

    def scores(self, w):
        return row_scores(self.X, w[:-1]) + self.bias * w[-1]

    def certificate(self, alpha, w, scores):
        """Return P(w) and P(w) - D(alpha) for w = w~(alpha)."""
        loss, gap = loss_and_gap(self.y * scores, alpha, self.cost, self.squared)
        return 0.5 * w @ w + loss, gap


def _pose(X, y, cost, squared, fit_intercept):
    """Return the _Problem: X in the faster of its two forms, D_ii, U_i and the step lengths."""
    if sparse.issparse(X):
        if not X.has_canonical_format:  # an entry stored in two parts would spoil ||x_i||^2
            X = X.copy()
            X.sum_duplicates()
    elif np.count_nonzero(X) < SPARSE_PAYS_BELOW * X.size:
        X = sparse.csr_array(X)
    square_norms = squared_norms(X)
    if not np.isfinite(square_norms).all():
        raise ValueError("Expected rows of finite squared length, got an overflow: scale the features first.")
    bias = 1.0 if fit_intercept else 0.0
    upper, diagonal = dual_bounds(cost, squared)
    with np.errstate(divide="ignore"):
        # An all-zero row has gradient -1 always: with an infinite step it goes to its bound U_i, its optimum, at once.
        inverse = 1.0 / (square_norms + bias + diagonal)
    return _Problem(X, y, cost, squared, bias, upper, diagonal, inverse)


class _Certifier:
    """Certifies points on the way, keeps their trace, and knows when the gap is small enough."""

    def __init__(self, problem, tol):
        self.problem = problem
        self.target = tol * problem.cost.sum()  # P(0) = sum C_i for both losses
        self.trace = Trace()
        self.updates = self.objective = self.gap = None

    @property
    def converged(self):
        return self.gap <= self.target

    def certify(self, updates, alpha, w):
        """Record the objective, gap and training AUC of (alpha, w); return the gap."""
        scores = self.problem.scores(w)
        self.updates, (self.objective, self.gap) = updates, self.problem.certificate(alpha, w, scores)
        positive = self.problem.y > 0
        self.trace.add(updates, self.objective, self.gap, scores[positive], scores[~positive])
        return self.gap

    def result(self, alpha, w, passes):
        status = CONVERGED if self.converged else MAX_ITER
        bias, history = float(w[-1]), self.trace.as_history()
        return SolverResult(w[:-1].copy(), bias, self.objective, self.gap, passes, status, history, {"alpha": alpha})


# Kernels ---------------------------------------------------------------------------------------------------------
# One algorithm for dense and CSR rows, float64 and float32: numba picks the row operations by type when it compiles.


@kernel(fastmath=REDUCE)
def _passes(rows, y, bias, upper, diagonal, inverse, alpha, w, order, n_active, high, low, draws, pg_range, max_passes):
    """Make passes over ``order[:n_active]`` until one closes (range <= pg_range), or draws or max_passes are used up.

    ``draws`` holds at least n_active uint32. Updates alpha, w and order in place. Returns passes made, rows visited,
    and the active count, shrinking window and range of projected gradients to go on with.
    """
    done, used, spread = 0, 0, np.inf
    while done < max_passes and used + n_active <= draws.size:
        _shuffle(order, n_active, draws[used:])
        used += n_active
        n_active, top, bottom = _pass(rows, y, bias, upper, diagonal, inverse, alpha, w, order, n_active, high, low)
        done += 1
        spread = top - bottom  # -inf if every row was shrunk
        if spread <= pg_range:
            break
        # The window of the next pass: M and m of this one, infinite where they have the wrong sign (section 3.2).
        high = top if top > 0.0 else np.inf
        low = bottom if bottom < 0.0 else -np.inf
    return done, used, n_active, high, low, spread


@kernel(fastmath=REDUCE)
def _pass(rows, y, bias, upper, diagonal, inverse, alpha, w, order, n_active, high, low):
    """Visit each active row once, in order; return the rows left active and the largest and smallest gradient met."""
    top, bottom = -np.inf, np.inf
    position = 0
    while position < n_active:
        i = order[position]
        # 1. Gradient of the dual, eq. 7 and its diagonal: y_i w~'x~_i - 1 + D_ii alpha_i.
        old = alpha[i]
        gradient = y[i] * (dot(rows, i, w) + bias * w[-1]) - 1.0 + diagonal[i] * old
        # 2. Projected gradient, eq. 8; at a bound and pressed against it harder than the last pass saw: shrink.
        projected = gradient
        shrink = False
        if old == 0.0:
            projected = min(gradient, 0.0)
            shrink = gradient > high
        elif old == upper[i]:
            projected = max(gradient, 0.0)
            shrink = gradient < low
        if shrink:
            n_active -= 1
            order[position], order[n_active] = order[n_active], order[position]
            continue  # with the row swapped in, which this pass has not visited yet
        top = max(top, projected)
        bottom = min(bottom, projected)
        # 3. Exact minimisation along the coordinate, eq. 9, and w~ kept up to date.
        if projected != 0.0:
            alpha[i] = min(max(old - gradient * inverse[i], 0.0), upper[i])
            step = (alpha[i] - old) * y[i]
            add(rows, i, step, w)
            w[-1] += step * bias
        position += 1
    return n_active, top, bottom


@kernel()
def _shuffle(order, n_active, draws):
    """Permute order[:n_active] uniformly: Fisher-Yates, the s-th draw scaled to [s, n_active).

    Taking the high half of draw * range instead of a remainder leaves a bias below n_active / 2^32.
    """
    for s in range(n_active):
        t = s + np.int64((np.uint64(draws[s]) * np.uint64(n_active - s)) >> np.uint64(32))
        order[s], order[t] = order[t], order[s]
