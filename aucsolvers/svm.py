"""Linear support vector machines by dual coordinate descent with an exact finish: estimator, driver, kernels.

With x~_i = (x_i, 1) where an intercept is asked for (and x_i where not), w~ = (w, b) and costs C_i > 0, the primal and
its dual are (Hsieh et al. 2008, eq. 1-4; their C may differ from row to row without changing a line of the argument)

    P(w~)    = 1/2 ||w~||^2 + sum_i C_i loss(1 - y_i w~'x~_i),        loss(t) = max(0, t)  or  max(0, t)^2
    D(alpha) = sum_i alpha_i - 1/2 ||w~(alpha)||^2 - 1/2 sum_i D_ii alpha_i^2,  0 <= alpha_i <= U_i
    w~(alpha) = sum_i alpha_i y_i x~_i

    hinge: D_ii = 0, U_i = C_i          squared hinge: D_ii = 1 / (2 C_i), U_i = infinity

P may also have a linear term -w0'w~, which LinearSVM has not and MarginMeanSVM has: minimising the Lagrangian over w~
then gives w~(alpha) = w0 + sum_i alpha_i y_i x~_i, and not a line more of the argument changes.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace
from aucsolvers._gram import gram, in_span, is_wide
from aucsolvers._hinge import (
    FLAT,
    LOSSES,
    MAX_TRIALS,
    best_multiple,
    dual_bounds,
    is_certified,
    is_no_better_than_a_constant,
    least_multiple,
    loss_and_gap,
    may_have_loss,
    row_costs,
)
from aucsolvers._jit import kernel
from aucsolvers._params import (
    as_generator,
    check_choice,
    check_class_weight,
    check_count,
    check_flags,
    check_non_negative,
    check_positive,
)
from aucsolvers._prefetch import AHEAD, prefetch_row
from aucsolvers._ranking import auc_of_classes
from aucsolvers._rows import (
    REDUCE,
    add,
    add_rows,
    add_scaled,
    as_rows,
    busy_columns_first,
    dot,
    inner,
    row_scores,
    sparse_if,
    squared_norms,
    stored_once,
    with_short_indices,
)
from aucsolvers._stored import StoredColumns
from aucsolvers._transaction import transactional

# Range of projected gradients, whose natural scale is 1, at which descent first looks whether it has arrived: where the
# gap is about tol * P, which is at some so many times tol, but between these. From there on the gap decides.
FIRST_RANGE, LEAST_RANGE, LARGEST_RANGE = 20.0, 1e-3, 0.1
# Of descent with a free bias: the square of its constant feature, relative to the mean row's and over the root of the
# smaller class, and most passes before the next bias; most products of the first systems of equations, how many times
# more after too few, and how often a step that bounds cut is halved; range of gradients.
FREE_BIAS, FREE_PASSES = 0.05, 10
FREE_PRODUCTS, MORE_PRODUCTS, HALVINGS = 30, 2, 5
FREE_RANGE, FREE_TIGHTENING, LEAST_FREE_RANGE = 1.0, 0.1, 1e-9
LONGEST_BLIND = 8  # times as many visits as at the last look: then look again, whatever the passes meet
LEAST_ERROR = 0.1  # that a look may teach: one that was lucky must not make all others come too early
# After a pass the free rows, mostly few, are swept until their gradients' range is such a part of the pass's, but at
# most so often: the primal's objective is as far off as they are, where the dual's is off by their squares.
SETTLED, SWEEPS = 0.3, 10
FEWEST_DRAWS = 2048  # of random numbers at a time: a call costs as much as a few hundred visits
TIGHTEST = 0.01  # part of the range that is left when it is tightened: the gap falls about as the range does
# A visit costs about 1.2 ns per dense column and 3 ns per stored entry of a sparse row (measured).
SPARSE_PAYS_BELOW = 0.3
CROWDED_ABOVE = 2**16  # columns of sparse rows, whose weights no longer fit into half of the second-level cache

# Newton's steps
SPAN_VISITS = 4  # a visit of n rows in many features takes about so much of 1/n^2 of what finding their span does
LARGEST_HESSIAN = 2048  # features: the matrix then takes 32 MiB
SLOW = 0.3  # a step that leaves more than this part of Newton's part of the gap brought little
ACCURACY, FEWEST_PRODUCTS = 0.1, 4  # relative residual norm of systems so solved; fewer products are no trial
WIDEST, NARROWEST = 1.0, 1e-9  # half widths of the smoothed kink, in margins
NARROWING = 2.0
POLISHED_ENTRIES = 2**11  # at most so many entries of X are solved to rounding: some tens of microseconds
ROUNDED = 1e-15  # of P: what a gap may be that nothing but rounding is left of
# Steps that neither made the gap smaller, by more than its last digits, nor promised to lower P by such a part of it,
# after which rounding is taken to be the reason. Of columns a million times as large as others systems promise more
# than there is: steps that make the gap no smaller, whatever they promise, after which nothing is hoped for.
PATIENCE, PROGRESS, PROMISE, HOPE = 10, 0.01, 1e-12, 500


# Estimator -------------------------------------------------------------------------------------------------------


class LinearSVM(LinearScorer):
    """Linear SVM with hinge or squared hinge loss, by dual coordinate descent with shrinking and a Newton finish.

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
        Stop when duality gap <= tol * min(P, P(0)), where P(0) = C sum_i v_i is the objective at w = 0: P is then
        within the part tol of min P, also where the classes are far apart and min P is far below P(0).
    max_iter : int, default=10_000
        Most outer passes and Newton steps together; a pass visits the rows that shrinking has left active, so a late
        pass may be very short.
    newton : bool, default=True
        Whether Newton steps on the free rows take over once descent has cost half of what they would, with the squared
        hinge a tenth; never above 2048 features, unless there are at most 1024 rows, all dense: if descent alone does
        not do, these are brought into coordinates of their span. False: coordinate descent to the end.
    random_state : None, int, RandomState or Generator, default=None
        Draws the order of visits.
    warm_start : bool, default=False
        Start from the dual variables of the last fit if that had as many rows, clipped to the bounds of this one, and
        from its weights.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features), float64
    intercept_ : ndarray of shape (1,), float64
    classes_ : ndarray of shape (2,)
        ``classes_[1]`` is the positive class.
    objective_ : float
        P at the solution, intercept included in the norm.
    dual_gap_ : float
        P(w) - D(alpha) >= P(w) - min P: the certificate, up to the rounding of scores: for rows 1e8 away from 0 some
        1e-10 of P.
    gap_unit_ : float
        P(0) = sum_i C_i, or 1 where that is less: in units of it, gaps of different data compare.
    n_iter_ : int
        Outer passes and Newton steps made.
    status_ : {"converged", "max_iter", "diverged"}
        "diverged" where objective_ overflowed.
    found_nothing_ : bool
        Whether the optimum is w = 0, up to tol: then the ranking is arbitrary.
    history_ : dict of ndarrays
        ``updates`` (rows visited, n in a Newton step), ``objective``, ``dual_gap``, ``auc`` (training rows),
        ``time_s``, each time that the certificate was computed: at the start, when it may pass or visits are eight
        times as many until Newton steps take over, and at the end.

    Raises
    ------
    ValueError
        On parameters, weights or data for which the problem is not defined.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` passes did not bring the gap under ``tol``: usually features on very different scales.
    UserWarning
        If the objective is no lower than that of w = 0 with the best b, up to rounding, as is typical of a small C and
        a rare class: w is then what rounding and the order of the rows make it.

    Notes
    -----
    A visit costs O(stored entries of the row), a certificate O(nnz + n log n), a Newton step O(nnz + n + f d^2 + d^3)
    for f free rows, 0 < alpha_i < U_i: about d of them with the hinge, all of margin below 1 with the squared hinge.
    Memory: some 20 vectors of n rows beside X, and two d x d matrices; dense X with less than 30 % non-zero entries is
    copied to CSR, which is then faster. Rows with zero weight are left out, and sparse columns without an entry.

    After a pass of algorithm 3 the active rows with 0 < alpha_i < U_i are swept, until their gradients' range is a
    third of the pass's: the primal objective is as far off as they are, the dual's by their squares only. Where no
    Newton steps follow, (w, b) is not w(alpha) itself but the multiple of it that has the least P.

    Descent comes near the optimum fast and then slows down, the more so the larger C; Newton's steps settle which rows
    are free, and solve for their dual variables: 3 to 15 with the squared hinge, 10 to 50 with the hinge. Of sparse
    rows that is by conjugate gradients, as long as they take half of the d^3 that factoring the matrix would.

    The same integer ``random_state`` gives the same bits on the same machine and library versions; dense and sparse
    input give the same solution up to rounding.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008). A dual coordinate descent method for large-scale linear SVM. ICML.
    Algorithm 3; eq. 4 (dual), 8-9 (projected gradient and update), section 3.2 (shrinking).
    Keerthi, DeCoste (2005). A modified finite Newton method for fast solution of large scale linear SVMs. JMLR 6.
    Rockafellar (1976). Monotone operators and the proximal point algorithm. SIAM J. Control Optim. 14.

    Examples
    --------
    Two points at x = 1 and x = -1: hinge loss vanishes at w = 1, where the objective is 1/2.

    >>> from aucsolvers import LinearSVM
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
        newton=True,
        random_state=None,
        warm_start=False,
    ):
        self.C = C
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.newton = newton
        self.random_state = random_state
        self.warm_start = warm_start

    @transactional
    def fit(self, X, y, sample_weight=None):
        """Fit to rows X, shape (n_samples, n_features), dense or CSR, and labels y of two classes; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
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
            tol=float(self.tol),
            relative=True,
            max_iter=int(self.max_iter),
            rng=as_generator(self.random_state),
            newton=self.newton,
            **(getattr(self, "_state", {}) if self.warm_start else {}),
        )
        self._state = result.state if self.warm_start else {}  # n numbers that a stored model does without
        is_nothing = result.status == CONVERGED and is_no_better_than_a_constant(self, result.objective, cost, y > 0)
        self._tell_of_nothing(is_nothing, "raise C or set class_weight")
        return self._publish(result, X, y)

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_positive("C", self.C)
        check_choice("loss", self.loss, LOSSES)
        check_class_weight(self.class_weight)
        check_non_negative("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_flags(self, "fit_intercept", "newton", "warm_start")


# Driver ----------------------------------------------------------------------------------------------------------


def solve_linear_svm(
    X,
    y,
    cost,
    *,
    squared,
    fit_intercept,
    tol,
    relative,
    max_iter,
    rng,
    newton=True,
    alpha=None,
    w=None,
    linear_term=None,
):
    """Minimise P of this module's docstring from a dual point ``alpha`` (0 by default); return a SolverResult.

    X is C-ordered or CSR, float64 or float32, y is +-1.0, ``cost`` holds C_i > 0, ``rng`` is a Generator. ``w`` is the
    weight vector w~ to go with alpha, w~(alpha) by default; ``linear_term`` is w0, the constant feature's part last, 0
    by default. Rows are visited in a fresh random order in every pass, until the gap is at most tol * P(0), or, if
    ``relative``, tol * min(P, P(0)).
    ``state`` holds ``alpha`` and ``w``, all that is needed to go on. Without ``newton`` this is coordinate descent
    alone.
    """
    columns = StoredColumns.of(X)
    X, w, linear_term = columns.rows(X), _in_columns(columns, w), _in_columns(columns, linear_term)
    problem, basis, wide = _pose(X, y, cost, squared, float(fit_intercept), linear_term), None, newton and is_wide(X)
    visits = len(y) ** 2 // SPAN_VISITS if wide else problem.newton_visits() if newton else np.inf
    run = _Run(problem, tol, relative, max_iter, scaling=visits == np.inf)
    alpha = problem.feasible(alpha)
    run.certify(alpha, problem.primal(alpha), None if w is None else problem.weights_to_start_from(w))
    # 1. Coordinate descent, to the end or for half as long as Newton's steps would take.
    _descend(run, alpha, rng, visits)
    if wide and not (run.done and len(y) ** 2 > POLISHED_ENTRIES):
        # few rows of many features: in the coordinates of their span, descent goes on and Newton's steps may follow
        rows, basis = in_span(X)
        start = _turned(basis.T, problem.weights_to_publish(run.point.w))
        term = None if linear_term is None else _turned(basis.T, linear_term)
        problem = _pose(rows, y, cost, squared, float(fit_intercept), term)
        run.move_to(problem, start)
        visits = problem.newton_visits()
        _descend(run, run.point.alpha.copy(), rng, visits)
    # 2. Newton's steps. If rounding stops them short, descent goes on from there, and the better of the two counts.
    if not run.done:
        _polish(run)
        if not run.done:
            _start_over(run)
        polished = run.point
        _descend(run, polished.alpha.copy(), rng, np.inf)
        if polished.gap < run.point.gap:
            run.certify(polished.alpha, problem.primal(polished.alpha), polished.w)
    # 3. Few numbers: what rounding leaves costs little more than what tol does, and the answer then does not depend on
    # the order of visits, nor on whether a row has a weight or is repeated.
    if problem.X.size <= POLISHED_ENTRIES and visits < np.inf and not (wide and basis is None):
        run.tol = min(tol, ROUNDED)
        if not run.done:
            _take_newton_steps(run)
        run.tol = tol
    # 4. Short of the optimum w~(alpha) may be far worse than no model at all: the best point on its line is not.
    #    Where C is huge, rounding of what is at the kink is all the loss there is: a little beyond it there is none.
    if not squared and run.point.objective > run.at_zero:
        run.certify_on_line()
    elif not squared and run.point.gap + run.point.rounding > run.target:
        run.certify_beyond_kink()
    found = run.result()
    if basis is not None:
        found = replace(found, w=basis @ found.w, state=found.state | {"w": _turned(basis, found.state["w"])})
    known = found.state["w"]
    state = found.state | {"w": np.append(columns.widen(known[:-1]), known[-1])}
    return replace(found, w=columns.widen(found.w), state=state)


def _in_columns(columns, w):
    """Return weights of all columns in those that are stored, and the constant feature's; None if they do not fit."""
    if w is None or len(w) != columns.n_columns + 1:
        return None
    return np.append(columns.narrow(w[:-1]), w[-1])


def _turned(matrix, w):
    """Return weights in other coordinates, that of the constant feature as it is."""
    return np.append(matrix @ w[:-1], w[-1])


def _descend(run, alpha, rng, max_visits):
    """Descend from w~(alpha) along the dual's coordinates until run.done, or for about so many visits of rows."""
    if run.done:
        return
    problem, n = run.problem, len(alpha)
    w = problem.primal(alpha)
    fixed = problem.rows, problem.constants, problem.bias
    order, free = np.arange(n, dtype=np.uint32), np.empty(n, dtype=np.uint32)
    n_active, high, low = n, np.inf, -np.inf
    pg_range, end = run.first_range, run.updates + max_visits
    foresight = _Foresight(n, run.updates)
    n_draws = n if max_visits < n else max(2 * n, FEWEST_DRAWS)  # of a pass only, no sweeps: Newton's steps follow
    while not run.done and run.updates < end:
        # 1. As many passes as the random numbers shuffle: one and its sweeps at first, hundreds after shrinking.
        draws = rng.integers(2**32, size=n_draws, dtype=np.uint32)
        done, visits, n_active, high, low, spread, met = _passes(
            *fixed, alpha, w, order, free, n_active, high, low, draws, pg_range, run.max_iter - run.passes
        )
        run.count(done, visits)
        closed = spread <= pg_range
        # 2. Ask for the certificate where it may pass: where shrinking was right, it does before all rows are visited.
        if closed or foresight.is_due(met, n_active, run.updates, run.target_to_come(alpha, w)):
            run.certify(alpha, w)
            foresight.compare(met, run.point.gap, run.updates)
        # 3. Solved on the active rows only: look at all of them. Solved on all: the range was too wide for the gap.
        if closed and n_active < n:
            n_active, high, low = n, np.inf, -np.inf
        elif closed:
            pg_range *= min(0.5, max(TIGHTEST, run.target / run.point.gap)) if run.point.gap > 0 else 0.5
    if run.certified_at < run.updates:
        run.certify(alpha, w)


def descend_with_free_bias(X, place, y, cost, rng, *, alpha, w0, bias):
    """Descend from alpha with the hinge and a bias that is in no norm, yielding the visits of rows and where they led.

    Arguments as of ``solve_linear_svm``, w0 being a linear term. The column ``place`` of X is the bias's own and is
    written to: rows with a 0 there have no bias, which starts at ``bias``. What is yielded beside the visits is None
    or, ever nearer to the optimum, alpha, w(alpha) and the bias; sum_i y_i alpha_i of its rows is 0 there. In place of
    b^2, P has ((b - b_k) / beta)^2, with beta as a feature: b_k follows b (the proximal point algorithm). Between
    passes, a system of equations for the free rows.
    """
    n, beta = len(y), _set_bias_feature(X, place, y)
    linear_term = np.append(w0, 0.0)
    linear_term[place] = bias / beta
    posed = _pose(X, y, cost, False, 0.0, linear_term)
    own, of_bias = np.arange(X.shape[1])[posed.columns][place], np.where(_column(X, place) != 0.0, y, 0.0)
    alpha = posed.feasible(alpha)
    w = posed.primal(alpha)
    order, free = np.arange(n, dtype=np.uint32), np.empty(n, dtype=np.uint32)
    n_active, high, low = n, np.inf, -np.inf
    pg_range, most = FREE_RANGE, FREE_PRODUCTS
    while pg_range >= LEAST_FREE_RANGE:
        draws = rng.integers(2**32, size=max(2 * n, FEWEST_DRAWS), dtype=np.uint32)
        _, visits, n_active, high, low, spread, _ = _passes(
            posed.rows, posed.constants, 0.0, alpha, w, order, free, n_active, high, low, draws, pg_range, FREE_PASSES
        )
        closed = spread <= pg_range
        if not closed:
            inside = np.flatnonzero((alpha > 0.0) & (alpha < posed.upper)).astype(np.uint32)
            products, too_few = _solve_free(posed.rows, posed.constants, alpha, w, inside, most)
            visits += len(inside) * products
            most = MORE_PRODUCTS * most if too_few else FREE_PRODUCTS
        w[own] += beta * float(alpha @ of_bias)
        if closed and n_active == n:
            found = posed.weights_to_publish(w)[:-1]
            yield visits, (alpha, found, beta * found[place])
            pg_range *= FREE_TIGHTENING
        else:
            yield visits, None
        if closed:
            n_active, high, low = n, np.inf, -np.inf


def _set_bias_feature(X, place, y):
    """Set what is not 0 in that column to beta, which is returned."""
    biased = _column(X, place) != 0.0
    entries = X.data if sparse.issparse(X) else X
    own = X.indices == place if sparse.issparse(X) else (biased, place)
    entries[own] = 0.0  # the others' squares alone: of tiny features a difference would leave nothing
    n_smaller = min(np.count_nonzero(biased & (y > 0.0)), np.count_nonzero(biased & (y < 0.0)))
    beta = float(np.sqrt(FREE_BIAS * squared_norms(X)[biased].mean() / np.sqrt(n_smaller))) or 1.0
    entries[own] = beta
    return beta


def _column(X, place):
    return X[:, [place]].toarray().ravel() if sparse.issparse(X) else X[:, place]


class _Foresight:
    """Tells when the certificate may pass, from the gap as passes meet it: row by row, while w moves."""

    def __init__(self, n, visits):
        self.n = n
        self.last_met, self.error, self.latest = np.inf, 1.0, visits + LONGEST_BLIND * n

    def is_due(self, met, n_active, visits, target):
        """Tell whether the gap, falling on as it did, is at its target by now, or nobody has looked for too long."""
        fallen = met / self.last_met if 0.0 < met < self.last_met < np.inf else 1.0
        self.last_met = met
        now = met * fallen ** (0.5 * n_active / self.n)  # its rows were met half a pass ago, on average
        return now * self.error <= target or visits >= self.latest

    def compare(self, met, gap, visits):
        """Learn from a look how many times the sum the gap was: less, where sweeps have come after the pass."""
        self.error = max(LEAST_ERROR, gap / met) if 0.0 < met < np.inf else 1.0
        self.latest = LONGEST_BLIND * visits


@dataclass(frozen=True)
class _Problem:
    """The data of one fit, with the constants that the dual attaches to every row."""

    X: object
    y: np.ndarray
    cost: np.ndarray
    squared: bool
    bias: float  # the constant feature: 1, or 0 where no intercept is asked for; a free bias has its own
    upper: np.ndarray  # U_i
    # Per row y_i, U_i, D_ii and the step length 1 / (||x~_i||^2 + D_ii), which a visit finds in one cache line.
    constants: np.ndarray
    columns: object  # place of each feature's weight in w~, or a slice where all are in their own
    linear_term: np.ndarray  # w0, in that order

    @cached_property
    def rows(self):
        """X as the kernels take it."""
        return as_rows(self.X)

    @property
    def terms(self):
        """What the kernels of Newton's steps have to know of the problem."""
        return self.rows, self.y, self.bias, self.linear_term, self.cost, self.upper, self.squared

    @cached_property
    def lengths(self):
        """||x~_i|| of each row, with the hinge."""
        return 1.0 / np.sqrt(self.constants[:, 3])

    def rounding_of_scores(self, w):
        """Return eps ||x~|| ||w~|| of each row, by which its score is rounded, and what that is at worst.

        At worst it is as many times that as a score has terms: farther beyond the kink a row has no loss.
        """
        rounding = np.finfo(np.float64).eps * np.sqrt(inner(w, w)) * self.lengths
        return rounding, len(w) * rounding

    def rounding_of_losses(self, margins, w):
        """Return what the rounding of scores may change in the sum of the hinge losses."""
        rounding, at_worst = self.rounding_of_scores(w)
        lossy = may_have_loss(margins, at_worst)
        return float(self.cost[lossy] @ rounding[lossy])

    def weights_to_publish(self, w):
        """Return w~ in the order of the features."""
        return np.append(w[:-1][self.columns], w[-1])

    def weights_to_start_from(self, w):
        """Do the reverse; without a constant feature it has no weight, whatever it had before."""
        w = _reordered(w, self.columns)
        return w if self.bias else np.append(w[:-1], 0.0)

    def feasible(self, alpha):
        """Return alpha clipped to its bounds, or 0 if it is not of as many rows."""
        n = len(self.y)
        return np.zeros(n) if alpha is None or len(alpha) != n else np.clip(alpha, 0.0, self.upper)

    def primal(self, alpha):
        """Return w~(alpha), the weight of the constant feature last."""
        return _follow(self.rows, self.y, self.bias, alpha, np.zeros(len(alpha)), self.linear_term)

    def norm_and_linear_term(self, w):
        """Return the part of P that no row has, 1/2 ||w~||^2 - w0'w~."""
        return 0.5 * inner(w, w) - inner(self.linear_term, w)

    def dual(self, alpha, w):
        """Return D(alpha), without a linear term: sum_i alpha_i - D_ii alpha_i^2 / 2, less ||w~(alpha)||^2 / 2."""
        charged = 0.5 * float(alpha @ (self.constants[:, 2] * alpha)) if self.squared else 0.0
        return float(alpha.sum()) - charged - 0.5 * inner(w, w)

    def scores(self, w):
        if not w.any():
            return np.zeros(len(self.y))
        return row_scores(self.X, w[:-1]) + self.bias * w[-1]

    def margins(self, w):
        """Return y_i w~'x~_i of every row."""
        margins = np.empty(len(self.y))
        _measure_margins(self.rows, self.y, self.bias, w, margins)
        return margins

    def newton_visits(self):
        """Return how many rows descent visits before Newton's steps take over.

        With the hinge that is about half of what those steps cost: the better the start, the fewer they are. With the
        squared hinge they are few from anywhere, and a pass or so will do. Measured in visits, a step costs 0.3 n for
        three readings of all rows in their order, 2000 for its calls, and d^2 / 12 for its system of equations; with
        the squared hinge also d / 48 n for the matrix of many free rows, or a sixth of the row's stored entries where
        they are few, and more for the system then, as visits are cheap.
        """
        n, d = self.X.shape
        if d > LARGEST_HESSIAN:
            return np.inf
        a_row = min(d / 48, self.X.nnz / n / 6) if sparse.issparse(self.X) else d / 48
        steps, squares = (0.3, a_row) if self.squared else (8, 0.0)
        system = d * d / 12
        if self.squared and sparse.issparse(self.X):
            system = max(system, _price_of_system(self.X) / (15.0 + 1.5 * self.X.nnz / n))
        return steps * (n * (0.3 + squares) + 2000 + system)


def _reordered(w, columns):
    """Return w~ with the weight of each feature in the place that ``columns`` has for it."""
    own = np.empty(len(w))
    own[:-1][columns], own[-1] = w[:-1], w[-1]
    return own


def _pose(X, y, cost, squared, bias, linear_term=None):
    """Return the _Problem: X in the faster of its two forms, D_ii, U_i and the step lengths."""
    if sparse.issparse(X):
        X = with_short_indices(stored_once(X))  # an entry stored in two parts would spoil ||x_i||^2
    else:
        X = sparse_if(X, SPARSE_PAYS_BELOW)
    columns = slice(None)
    if sparse.issparse(X) and X.shape[1] > CROWDED_ABOVE:
        X, columns = busy_columns_first(X)
    square_norms = squared_norms(X)
    upper, diagonal = dual_bounds(cost, squared)
    with np.errstate(divide="ignore", over="ignore"):
        # An all-zero row has gradient -1 always: with an infinite step it goes to its bound U_i, its optimum, at once.
        inverse = 1.0 / (square_norms + bias**2 + diagonal)
    linear_term = np.zeros(X.shape[1] + 1) if linear_term is None else _reordered(linear_term, columns)
    constants = np.column_stack([y, upper, diagonal, inverse])
    return _Problem(X, y, cost, squared, bias, upper, constants, columns, linear_term)


class _Run:
    """The counts of a fit, its last certified point, the trace of those before, and when to stop."""

    def __init__(self, problem, tol, relative, max_iter, scaling):
        self.problem, self.tol, self.relative, self.max_iter = problem, tol, relative, max_iter
        self.scaling = scaling  # where no Newton steps follow, whose points of the primal are better still
        self.at_zero = problem.cost.sum()  # P(0) = sum C_i for both losses
        self.first_range = min(max(FIRST_RANGE * tol, LEAST_RANGE), LARGEST_RANGE)
        self.classes = np.flatnonzero(problem.y > 0), np.flatnonzero(problem.y < 0)
        self.trace, self.point = Trace(), None
        self.passes = self.updates = self.certified_at = 0

    @property
    def target(self):
        """What the gap has to fall to, as far as the last certified point tells."""
        return self.target_at(self.point)

    def target_to_come(self, alpha, w):
        """Return what the target will be about when the gap is there: as P, then, is little above D(alpha)."""
        return self.tol * self.problem.dual(alpha, w) if self.relative else self.target

    def target_at(self, point):
        return self.tol * (min(point.objective, self.at_zero) if self.relative else self.at_zero)

    @property
    def done(self):
        return is_certified(self.point.gap, self.point.rounding, self.target) or self.passes >= self.max_iter

    def is_certified(self, smooth):
        """Tell whether a certified point with the weights of a _Smooth would be the last."""
        target = self.target_at(smooth)
        if self.problem.squared or smooth.gap > target:  # what rounding may add takes a fifth of a step's time
            return smooth.gap <= target
        return is_certified(smooth.gap, self.problem.rounding_of_losses(smooth.margins, smooth.w), target)

    def move_to(self, problem, w):
        """Go on with the same problem in other coordinates, in which the last certified point has the weights w."""
        self.problem, alpha = problem, self.point.alpha
        self.certify(alpha, problem.primal(alpha), w)

    def count(self, passes, updates):
        self.passes += passes
        self.updates += updates

    def certify(self, alpha, w_of_alpha, w=None):
        """Record objective, gap and training AUC of alpha with w, which is w~(alpha) unless there is a better one."""
        problem, own = self.problem, w is None
        w = w_of_alpha if own else w
        scores = problem.scores(w)
        margins = problem.y * scores
        loss, gap = loss_and_gap(margins, alpha, problem.cost, problem.squared)
        if own and self.scaling:
            square, along = inner(w, w), inner(problem.linear_term, w)
            scale = best_multiple(margins, problem.cost, problem.squared, square, along, gap)
            w, scores = scale * w, scale * scores
            loss, gap = loss_and_gap(scale * margins, alpha, problem.cost, problem.squared)
        with np.errstate(over="ignore", invalid="ignore"):  # rows may have any scale
            gap += 0.5 * float(np.sum((w - w_of_alpha) ** 2))  # eq. 1 below
        objective = problem.norm_and_linear_term(w) + loss
        rounding = 0.0 if problem.squared else problem.rounding_of_losses(problem.y * scores, w)
        self.point, self.certified_at = _Point(alpha, w, objective, gap, rounding), self.updates
        # without a sort at a cold start, where all scores are tied
        area = auc_of_classes(*(scores[rows] for rows in self.classes)) if w.any() else 0.5
        self.trace.add_with_auc(self.updates, self.point.objective, gap, area)

    def certify_on_line(self):
        """Record, with the hinge, the point of least P among the multiples of w~(alpha) at the last certified alpha."""
        problem, alpha = self.problem, self.point.alpha
        w = problem.primal(alpha)
        margins, along = problem.y * problem.scores(w), inner(problem.linear_term, w)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # rows may have any scale
            multiple = least_multiple(margins, problem.cost, along, inner(w, w))
        self.certify(alpha, w, multiple * w)

    def certify_beyond_kink(self):
        """Record the last certified point stretched by more than its margins are rounded, if that will do."""
        point, problem = self.point, self.problem
        w_of_alpha, margins = problem.primal(point.alpha), problem.y * problem.scores(point.w)
        _, at_worst = problem.rounding_of_scores(point.w)
        farthest = at_worst[may_have_loss(margins, at_worst)].max(initial=0.0)
        self.certify(point.alpha, w_of_alpha, (1.0 + 2.0 * farthest) * point.w)
        if not self.point.gap + self.point.rounding <= self.target:
            self.certify(point.alpha, w_of_alpha, point.w)

    def result(self):
        """Return the last certified point as a SolverResult."""
        point, history = self.point, self.trace.as_history()
        gap = history["dual_gap"][-1] = point.gap + point.rounding
        status = CONVERGED if gap <= self.target else MAX_ITER
        w = self.problem.weights_to_publish(point.w)
        state = {"alpha": point.alpha, "w": w}
        found = w[:-1].copy(), float(w[-1]), point.objective, gap, self.passes, status, history, state
        return SolverResult(*found, at_zero=self.at_zero, target=self.target)


@dataclass(frozen=True)
class _Point:
    alpha: np.ndarray
    w: np.ndarray
    objective: float
    gap: float  # P(w) - D(alpha)
    rounding: float  # what the rounding of the scores may make of the losses


# Newton's steps --------------------------------------------------------------------------------------------------
# Near the optimum only the free rows, 0 < alpha_i < U_i, still matter, and they are d or so: a system of equations.
# The hinge is smoothed by the proximal term of its dual, - sum_i (alpha_i - c_i)^2 / (2 k_i), about a dual point c.
# Then min_w max_alpha is a smooth problem in w, whose loss has at t = 1 - y_i w~'x~_i the slope
#
#     alpha_i = clip(c_i + k_i t, 0, U_i),    gradient w~ - w~(alpha),    Hessian I + sum_free k_i x~_i x~_i',
#
# and c = the last alpha and k_i = C_i / (2 width) with a shrinking width end at the hinge's own optimum. The squared
# hinge has that form as it is: D_ii = 1 / k_i, c = 0, k_i = 2 C_i. As w~'w~(alpha) = w0'w~ + sum_i alpha_i y_i w~'x~_i,
# any w~ and feasible alpha have
#
#     P(w~) - D(alpha) = 1/2 ||w~ - w~(alpha)||^2 + the sum over rows of loss_and_gap,                             (1)
#
# of which Newton removes the first part and only a smaller width the second.


def _take_newton_steps(run):
    """Go on from the last certified point; certify the best one found, if it is better than that."""
    problem, start = run.problem, run.point
    centre = np.zeros(len(start.alpha)) if problem.squared else start.alpha
    here = best = _look(problem, start.w, problem.margins(start.w), centre, WIDEST)
    systems, idle, far = _Systems(problem), 0, 0
    while not run.is_certified(best) and run.passes < run.max_iter and idle < PATIENCE and far < HOPE:
        while here.newton_part < here.rows_part and here.width > NARROWEST and not problem.squared:
            here = _look(problem, here.w, here.margins, here.alpha, here.width / NARROWING, here)
        direction = systems.direction(here)
        if direction is None:
            break
        promised = -float(here.gradient @ direction)
        here = _move(problem, here, direction)
        run.count(1, len(here.alpha))
        # in a narrower band the gap is many times as large at first, and for as long as free rows come and go
        nearer = here.gap < (1.0 - PROGRESS) * best.gap
        idle = 0 if nearer or promised > PROMISE * abs(here.objective) else idle + 1
        far = 0 if nearer else far + 1
        best = here if here.gap < best.gap else best
    if best.gap < start.gap:
        run.certify(best.alpha, problem.primal(best.alpha), best.w)
        if start.gap < run.point.gap:  # what the steps kept up to date has drifted
            run.certify(start.alpha, problem.primal(start.alpha), start.w)


def _polish(run):
    """Take Newton's steps from afresh for as long as they get nearer: what they keep up to date drifts."""
    gap = np.inf
    while not run.done and run.point.gap < 0.9 * gap:
        gap = run.point.gap
        _take_newton_steps(run)


def _start_over(run):
    """Take Newton's steps from alpha = 0, free of the rounding that descent met; keep the better of the two ends."""
    stuck, alpha, most = run.point, run.problem.feasible(None), run.max_iter
    run.certify(alpha, run.problem.primal(alpha))
    run.max_iter -= (most - run.passes) // 2  # the rest is for descent
    _polish(run)
    run.max_iter = most
    if stuck.gap < run.point.gap:
        run.certify(stuck.alpha, run.problem.primal(stuck.alpha), stuck.w)


@dataclass(frozen=True)
class _Smooth:
    """A point with the slopes of the smoothed loss as its dual variables, and with its margins y_i w~'x~_i."""

    centre: np.ndarray  # c
    width: float
    w: np.ndarray
    margins: np.ndarray
    alpha: np.ndarray
    free: np.ndarray  # the rows with 0 < alpha_i < U_i
    curvature: np.ndarray  # their k_i
    w_of_alpha: np.ndarray
    gradient: np.ndarray
    objective: float  # P, of the loss itself
    newton_part: float  # of the gap, eq. 1
    rows_part: float

    @property
    def gap(self):
        return self.newton_part + self.rows_part


def _look(problem, w, margins, centre, width, before=None):
    """Return the _Smooth at w; ``before`` is another one, not far from it."""
    start = (np.zeros(len(margins)), problem.linear_term) if before is None else (before.alpha, before.w_of_alpha)
    seen = _look_at(*problem.terms, w, margins, centre, _steepness(problem, width), *start)
    return _Smooth(centre, width, w, margins, *seen)


def _steepness(problem, width):
    """Return k_i / C_i."""
    return 2.0 if problem.squared else 0.5 / width


class _Systems:
    """Newton's systems of one fit: solved by products with the Hessian as long as half of its price will do."""

    def __init__(self, problem):
        self.problem = problem
        self.purse = 0.0  # what products may take
        self.gives_up = not sparse.issparse(problem.X)
        self.newton_part = np.inf  # of the gap, at the last step

    def direction(self, here):
        """Return minus the inverse Hessian times the gradient, or None if rounding makes the Hessian singular."""
        direction = None if self.gives_up else self._by_products(here)
        return _newton_direction(self.problem, here) if direction is None else direction

    def _by_products(self, here):
        """Return about that, or None: steps that bring little may take half of a system's time in all."""
        if here.newton_part <= SLOW * self.newton_part:
            self.purse = 0.5 * _price_of_system(self.problem.X)
        self.newton_part = here.newton_part
        price = _price_of_product(self.problem.X, len(here.free))
        most, direction = int(self.purse / price), np.zeros(len(here.w))
        if most < FEWEST_PRODUCTS:
            return None
        fixed = self.problem.rows, here.free, here.curvature, self.problem.bias, here.gradient
        products, is_met = _solve_by_products(*fixed, ACCURACY, most, direction)
        self.purse -= products * price
        self.gives_up = not is_met
        return direction if is_met else None


def _price_of_system(X):
    """Return about how many ns LAPACK takes for Newton's system."""
    return 0.011 * X.shape[1] ** 3


def _price_of_product(X, n_free):
    """Return about how many ns a product of a sparse X's Hessian takes, n_free rows being free."""
    return n_free * (3.0 * X.nnz / X.shape[0] + 5.0) + 5.0 * X.shape[1]


def _newton_direction(problem, here):
    """Return minus the inverse Hessian times the gradient, or None if rounding makes the Hessian singular."""
    squares = gram(problem.X, here.free, here.curvature)
    hessian = np.empty((len(here.w), len(here.w)))
    _complete_hessian(problem.rows, here.free, here.curvature, problem.bias, squares, hessian)
    # LAPACK's own driver: on small data the checks around it would cost as much as all the rest
    _, direction, failed = linalg.lapack.dposv(hessian.T, -here.gradient, lower=0)
    if failed and len(here.free) >= len(hessian):
        # rows enough, but huge ones on a line, say: it gets what rounding may have taken
        diagonal = hessian.diagonal()
        np.fill_diagonal(hessian, diagonal + len(hessian) * np.finfo(np.float64).eps * diagonal.max())
        _, direction, failed = linalg.lapack.dposv(hessian.T, -here.gradient, lower=0)
    return None if failed else direction


def _move(problem, here, direction):
    """Return the _Smooth at about the minimum along the direction."""
    point = here.w, here.margins, here.centre, _steepness(problem, here.width)
    seen = _move_along(*problem.terms, *point, here.alpha, here.w_of_alpha, here.gradient, direction)
    return _Smooth(here.centre, here.width, *seen)


# Kernels ---------------------------------------------------------------------------------------------------------
# One algorithm for dense and CSR rows, float64 and float32: numba picks the row operations by type when it compiles.


@kernel(fastmath=REDUCE)
def _passes(rows, constants, bias, alpha, w, order, free, n_active, high, low, draws, pg_range, max_passes):
    """Make passes over ``order[:n_active]`` until one closes (range <= pg_range), or draws or max_passes are used up.

    After each that does not, the free rows are swept. ``draws`` holds at least n_active uint32, ``free`` is room for
    n_active of them. Updates alpha, w and order in place. Returns passes made, rows visited, the active count,
    shrinking window and range of projected gradients to go on with, and the gap as the last pass met it.
    """
    done, used, spread, met = 0, 0, np.inf, np.inf
    while done < max_passes and used + n_active <= draws.size:
        _shuffle(order, n_active, draws[used:])
        used += n_active
        n_active, top, bottom, met = _pass(rows, constants, bias, alpha, w, order, n_active, high, low)
        done += 1
        spread = top - bottom  # -inf if every row was shrunk
        if spread <= pg_range:
            break
        used += _sweep_free(rows, constants, bias, alpha, w, order[:n_active], free, draws[used:], pg_range, spread)
        # The window of the next pass: M and m of this one, infinite where they have the wrong sign (section 3.2).
        high = top if top > 0.0 else np.inf
        low = bottom if bottom < 0.0 else -np.inf
    return done, used, n_active, high, low, spread, met


@kernel(fastmath=REDUCE)
def _sweep_free(rows, constants, bias, alpha, w, active, free, draws, pg_range, spread):
    """Visit the active rows with 0 < alpha_i < U_i again and again, until SETTLED; return how many visits that took."""
    count, used = 0, 0
    for i in active:
        free[count] = i
        count += np.int64((alpha[i] > 0.0) & (alpha[i] < constants[i, 1]))
    for _ in range(SWEEPS):
        if used + count > draws.size:
            break
        _shuffle(free, count, draws[used:])
        used += count
        _, top, bottom, _ = _pass(rows, constants, bias, alpha, w, free, count, np.inf, -np.inf)
        if top - bottom <= max(pg_range, SETTLED * spread):
            break
    return used


@kernel(fastmath=REDUCE)
def _pass(rows, constants, bias, alpha, w, order, n_active, high, low):
    """Visit each active row once, in order; return the rows left active and the largest and smallest gradient met.

    Also the sum of what each row, at its visit, adds to the duality gap: see ``loss_and_gap``.
    """
    top, bottom, met = -np.inf, np.inf, 0.0
    position = 0
    while position < n_active:
        i, ahead = order[position], order[min(position + AHEAD, n_active - 1)]
        prefetch_row(rows, ahead)
        prefetch_row(constants, ahead)
        y, upper, diagonal, inverse = constants[i, 0], constants[i, 1], constants[i, 2], constants[i, 3]
        # 1. Gradient of the dual, eq. 7 and its diagonal: y_i w~'x~_i - 1 + D_ii alpha_i.
        old = alpha[i]
        gradient = y * (dot(rows, i, w) + bias * w[-1]) - 1.0 + diagonal * old
        slack = diagonal * old - gradient
        over, under = max(slack, 0.0), max(-slack, 0.0)
        if diagonal > 0.0:
            misfit = over - diagonal * old
            met += old * under + 0.5 * misfit * misfit / diagonal
        else:
            met += old * under + (upper - old) * over
        # 2. Projected gradient, eq. 8; at a bound and pressed against it harder than the last pass saw: shrink.
        projected = gradient
        shrink = False
        if old == 0.0:
            projected = min(gradient, 0.0)
            shrink = gradient > high
        elif old == upper:
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
            alpha[i] = min(max(old - gradient * inverse, 0.0), upper)
            step = (alpha[i] - old) * y
            add(rows, i, step, w)
            w[-1] += step * bias
        position += 1
    return n_active, top, bottom, met


@kernel(fastmath=REDUCE)
def _solve_free(rows, constants, alpha, w, free, most):
    """Move the free rows' alpha to where their gradients are about 0, or as far towards it as the dual rises.

    By conjugate gradients, each variable in units of its own step, and cut at the bounds. Updates alpha and w in place;
    returns the products, and whether more of them, rather than other free rows, would have led further.
    """
    n = free.size
    residual, search, direction, image = np.empty(n), np.empty(n), np.zeros(n), np.empty_like(w)
    norm = 0.0
    for k in range(n):
        i = free[k]
        residual[k] = 1.0 - constants[i, 0] * dot(rows, i, w)
        search[k] = constants[i, 3] * residual[k]
        norm += residual[k] * search[k]
    target, products = ACCURACY * ACCURACY * norm, 0
    while products < most and norm > 0.0:
        products += 1
        image[:] = 0.0
        for k in range(n):
            add(rows, free[k], constants[free[k], 0] * search[k], image)
        along = inner(image, image)
        if not along > 0.0:
            break
        step, old, norm = norm / along, norm, 0.0
        for k in range(n):
            i = free[k]
            direction[k] += step * search[k]
            residual[k] -= step * constants[i, 0] * dot(rows, i, image)
            norm += constants[i, 3] * residual[k] * residual[k]
        if norm <= target:
            break
        for k in range(n):
            search[k] = constants[free[k], 3] * residual[k] + norm / old * search[k]
    reach, moved, is_cut = 1.0, np.empty(n), False
    for halvings in range(HALVINGS + 1):
        if halvings == HALVINGS:  # up to the first bound only, where the dual has risen for certain
            for k in range(n):
                room = constants[free[k], 1] - alpha[free[k]] if direction[k] > 0.0 else alpha[free[k]]
                if reach * abs(direction[k]) > room:
                    reach = room / abs(direction[k])
        image[:] = 0.0
        gained = 0.0
        for k in range(n):
            i = free[k]
            there = alpha[i] + reach * direction[k]
            is_cut |= there < 0.0 or there > constants[i, 1]
            moved[k] = min(max(there, 0.0), constants[i, 1]) - alpha[i]
            gained += moved[k]
            add(rows, i, constants[i, 0] * moved[k], image)
        if gained > inner(w, image) + 0.5 * inner(image, image):
            break
        reach *= 0.5
    for k in range(n):
        alpha[free[k]] = min(max(alpha[free[k]] + moved[k], 0.0), constants[free[k], 1])
    add_scaled(w, 1.0, image)
    return products, norm > target and not is_cut


@kernel()
def _shuffle(order, n_active, draws):
    """Permute order[:n_active] uniformly: Fisher-Yates, the s-th draw scaled to [s, n_active).

    Taking the high half of draw * range instead of a remainder leaves a bias below n_active / 2^32.
    """
    for s in range(n_active):
        t = s + np.int64((np.uint64(draws[s]) * np.uint64(n_active - s)) >> np.uint64(32))
        order[s], order[t] = order[t], order[s]


# Of Newton's steps. Many short kernels would each give up Python's lock and wait for it again, which other threads then
# have: two fits on two threads took longer than one after the other.


@kernel(error_model="numpy")
def _move_along(
    rows, y, bias, linear_term, cost, upper, squared, w, margins, centre, steepness, alpha, w_of_alpha, gradient, along
):
    """Go to about the minimum along a direction; return the new w and margins and what ``_look_at`` does there.

    Margins are linear in the step, so a trial reads no row. The slope rises with the step: a bracket of its sign change
    is kept, and cut where the slope's chord crosses 0 or at least at a tenth.
    """
    change = np.empty(y.size)
    _measure_margins(rows, y, bias, along, change)
    fixed, rising = inner(w, along) - inner(linear_term, along), inner(along, along)
    start = inner(gradient, along)
    low, slope_low, high, slope_high, step = 0.0, start, np.inf, np.inf, 1.0
    for _ in range(MAX_TRIALS):
        slope = fixed + step * rising - _pull(margins, change, step, centre, steepness, cost, upper)
        if abs(slope) <= FLAT * abs(start):
            break
        if slope < 0.0:
            low, slope_low = step, slope
        else:
            high, slope_high = step, slope
        cut = min(0.9, max(0.1, slope_low / (slope_low - slope_high)))
        step = 2.0 * step if high == np.inf else low + cut * (high - low)
    there, margins_there = w.copy(), margins.copy()
    add_scaled(there, step, along)
    add_scaled(margins_there, step, change)
    seen = _look_at(
        rows, y, bias, linear_term, cost, upper, squared, there, margins_there, centre, steepness, alpha, w_of_alpha
    )
    return there, margins_there, *seen


@kernel()
def _look_at(rows, y, bias, linear_term, cost, upper, squared, w, margins, centre, steepness, before, w_before):
    """Return the fields of a _Smooth from alpha on; ``before`` is another alpha, w_before its w~."""
    alpha, free = np.empty(y.size), np.empty(y.size, dtype=np.uint32)
    n_free = _set_slopes(margins, centre, steepness, cost, upper, alpha, free)
    free, curvature = free[:n_free], np.empty(n_free)
    for k in range(n_free):
        curvature[k] = steepness * cost[free[k]]
    loss, rows_part = loss_and_gap(margins, alpha, cost, squared)
    w_of_alpha, gradient = _follow(rows, y, bias, alpha, before, w_before), w.copy()
    add_scaled(gradient, -1.0, w_of_alpha)
    objective = 0.5 * inner(w, w) - inner(linear_term, w) + loss
    return alpha, free, curvature, w_of_alpha, gradient, objective, 0.5 * inner(gradient, gradient), rows_part


@kernel()
def _follow(rows, y, bias, alpha, before, w_before):
    """Return w~(alpha) from another alpha's w~: only the rows whose dual variables differ are read."""
    w, changed, signed = w_before.copy(), np.empty(alpha.size, dtype=np.uint32), np.empty(alpha.size)
    count = _sign_changes(alpha, before, y, changed, signed)
    add_rows(rows, changed[:count], signed[:count], w)
    of_constant = 0.0
    for k in range(count):
        of_constant += signed[k]
    w[-1] += bias * of_constant
    return w


@kernel()
def _complete_hessian(rows, free, curvature, bias, squares, hessian):
    """Set the lower triangle of ``hessian`` to I + sum_k curvature_k x~x~', x = rows[free[k]], given that of xx'."""
    d, of_constant = squares.shape[0], 0.0
    last = np.zeros(d)
    if bias != 0.0:
        add_rows(rows, free, curvature, last)
    for k in range(free.size):
        of_constant += curvature[k]
    for f in range(d):
        for g in range(f + 1):
            hessian[f, g] = squares[f, g]
        hessian[f, f] += 1.0
        hessian[d, f] = bias * last[f]
    hessian[d, d] = 1.0 + bias * bias * of_constant


@kernel(fastmath=REDUCE)
def _solve_by_products(csr, free, curvature, bias, gradient, accuracy, most, direction):
    """Set ``direction`` to about minus the inverse Hessian times the gradient; return the products, and if it is there.

    By conjugate gradients, each weight in units of the root of its own part of the Hessian.
    """
    data, indices, indptr = csr
    size, last = gradient.size, gradient.size - 1
    own = np.ones(size)
    for k in range(free.size):
        for e in range(indptr[free[k]], indptr[free[k] + np.uint32(1)]):
            own[indices[e]] += curvature[k] * data[e] * data[e]
        own[last] += curvature[k] * bias * bias
    residual, search, image = -gradient, -gradient / own, np.empty(size)
    norm = inner(residual, search)
    target = accuracy * accuracy * norm
    for products in range(1, most + 1):
        image[:] = search
        for k in range(free.size):
            start, stop = indptr[free[k]], indptr[free[k] + np.uint32(1)]
            product = bias * search[last]
            for e in range(start, stop):
                product += data[e] * search[indices[e]]
            product *= curvature[k]
            image[last] += bias * product
            for e in range(start, stop):
                image[indices[e]] += product * data[e]
        along = inner(search, image)
        if not along > 0.0:  # of gradients whose squares are below the smallest number
            return products, False
        step, old, norm = norm / along, norm, 0.0
        for f in range(size):
            direction[f] += step * search[f]
            residual[f] -= step * image[f]
        for f in range(size):
            norm += residual[f] * residual[f] / own[f]
        if norm <= target:
            return products, True
        for f in range(size):
            search[f] = residual[f] / own[f] + norm / old * search[f]
    return most, False


@kernel(forceinline=True)
def _sign_changes(alpha, before, y, rows, signed):
    """Put the rows whose alpha is not what it was before into ``rows``, y times the change into ``signed``; count them.

    Written for each row, where the next one belongs: a choice would be mispredicted.
    """
    count = np.uint32(0)
    for i in range(np.uint32(alpha.size)):
        change = alpha[i] - before[i]
        rows[count], signed[count] = i, y[i] * change
        count += np.uint32(change != 0.0)
    return count


@kernel()
def _measure_margins(rows, y, bias, w, margins):
    for i in range(np.uint32(y.size)):
        margins[i] = y[i] * (dot(rows, i, w) + bias * w[-1])


@kernel(forceinline=True)
def _set_slopes(margins, centre, steepness, cost, upper, alpha, free):
    """Set alpha to clip(c + k (1 - margin), 0, U) and ``free`` to the rows strictly between; return their number."""
    count = np.uint32(0)
    for i in range(np.uint32(margins.size)):
        slope = centre[i] + steepness * cost[i] * (1.0 - margins[i])
        alpha[i] = min(max(slope, 0.0), upper[i])
        free[count] = i
        count += np.uint32(0.0 < slope < upper[i])
    return count


@kernel(fastmath=REDUCE, forceinline=True)
def _pull(margins, change, step, centre, steepness, cost, upper):
    """Return sum_i alpha_i change_i, alpha being the slopes at margins + step * change."""
    total = 0.0
    for i in range(margins.size):
        slope = centre[i] + steepness * cost[i] * (1.0 - margins[i] - step * change[i])
        total += min(max(slope, 0.0), upper[i]) * change[i]
    return total
