"""Pairwise hinge and squared hinge on all pairs at once, to a certified gap, with no pair ever enumerated (SVMOR).

With pairs (i, j) of a positive x_i and a negative x_j, z_ij = x_i - x_j, u_ij = 1 - w'z_ij and k = n_pos * n_neg,

    P(w) = lam/2 ||w||^2 + L(w),    L(w) = 1/k sum_ij phi(u_ij),    phi(u) = max(0, u)  or  max(0, u)^2 / 2

has the dual, with v(a) = 1/k sum_ij a_ij z_ij,

    D(a) = 1/k sum_ij (a_ij - phi*(a_ij)) - ||v(a)||^2 / (2 lam),    phi*(a) = 0 on [0, 1]  or  a^2 / 2 on [0, inf).

Dual variables that are the slopes of a smooth loss at some w come as sums over the pairs in and beyond a *band* of u,
row by row: sorting the scores of the smaller class and locating those of the larger among them finds all of these sums.
Where all slopes are below 1, D depends on their sums per row only: the hard-margin SVM of the rows solves the problem.
From top to bottom: estimator, drivers, certified points, Newton's system, cutting planes, kernels.
"""

import logging
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace
from aucsolvers._box import maximise_in_box
from aucsolvers._by_rows import DescentByRows
from aucsolvers._free_pairs import FreePairs
from aucsolvers._gram import add_both, add_squares, gram, in_span, is_wide, room_for
from aucsolvers._hinge import FLAT, LOSSES, MAX_TRIALS
from aucsolvers._jit import kernel
from aucsolvers._pairwise import split_classes
from aucsolvers._params import check_choice, check_count, check_flags, check_non_negative, check_positive
from aucsolvers._ranking import Ranking, argsort, bucket_grid, count_below, won_pairs
from aucsolvers._rows import (
    add,
    add_scaled,
    as_rows,
    dot,
    inner,
    row_products,
    row_scores,
    squared_norms,
    weighted_row_sum,
    zeros_in_lines,
)
from aucsolvers._stored import StoredColumns
from aucsolvers._transaction import transactional

logger = logging.getLogger(__name__)

METHODS = ("newton", "cutting_plane")

# Half widths of bands: the first holds all pairs at w = 0, so that its Newton step solves least squares; in bands below
# the last, the rounding of scores decides which pairs are in.
WIDEST, NARROWEST = 1.0, 1e-9
# Half width below which sums of slopes begin anew here and there: differences of longer ones round to more than they
# are. In wider bands that would make a fit take up to twice as long.
NARROW = 1e-5
NARROWING, LEAST_NARROWING = 5.0, 2.0  # most and least that a band shrinks at once: one to four Newton steps a band
# Most where all pairs stay in the band: the minimum in the next one is known exactly, or in many features roughly.
PREDICTED_NARROWING, PREDICTED_ROUGHLY = 1000.0, 30.0
# The pairs in a band fall as its width to the power 1 where they are spread evenly, to the power 0 where all stay.
STAYING, ALL_STAYING = 0.75, 0.1
KEPT = 0.5  # part of the pairs that has to be in the narrower band for a step that takes all of them to count
SHARE = 8.0  # Newton's part of the gap, relative to the band's, below which it is the band that has to shrink
# Iterations that neither make the gap smaller nor P, by FALL of it, after which rounding is taken to be the reason
PATIENCE, FALL = 30, 1e-4
SMALL_SLOPES = 0.05  # mean slope up to which classes may be so far apart that weights are better once made shorter
# Of such classes lam is first made so heavy that the mean slope is about the first of these, if that is LIGHT times as
# heavy; then LIGHTER by this factor, as soon as it is known to the part ROUGH of P that the optimum violates margins
HEAVY_SLOPES, LIGHT, LIGHTER, ROUGH = 3e-3, 10.0, 10.0, 1e-2
# In many features the squared hinge goes by ever lighter lams as well, from where the loss does not outweigh lam, each
# solved to this gap relative to P: once so many steps have been short
LIGHTER_STEADILY, HEAVY_TOL, TOO_SHORT = 4.0, 1e-3, 3
# So many pairs in the band, and so many a feature, at most, have their slopes settled at once, which is to leave this
# part of the gap; so many times at most, with those that turn out to cross the kink, and so many in all
MOST_SETTLED, SETTLED_A_FEATURE, SETTLED = 64, 2, 0.5
FEWER = 0.5  # of the pairs, before slopes that did not settle are tried again
MOST_SETTLINGS, MOST_FREE = 8, 512
ENOUGH = 0.5  # of what the gap may be: the band's part of it needs not be smaller
FINEST = 1e-12  # gap relative to P(0) that rounding may leave where lam is tiny
ROUNDING = 2.0**-52  # of slopes, the steepest being 1: no gap below it is certain
LARGEST_THETA = 100.0  # times that slopes are made longer for a bound: what rounding is in them grows as its square
# More than twice as many rows get their first w from this many, evenly spaced, solved to this gap relative to P; then
# from 8 times as many, solved to a gap 8 times smaller, and so on. What comes next starts in a band so many times as
# wide, as the two minima differ by more than the gap; and in the widest where Newton's part is more than FAR times P.
THIN_ROWS, THIN_TOL, THICKENING, THIN_WIDER, FAR = 2_500, 5e-3, 8, 3.0, 100.0
LARGEST_HESSIAN = 1024  # features, or rows in the band: the matrix then takes 8 MiB
LARGEST_SYSTEM = 2048  # rows, where classes are far apart: rough steps take many times as many iterations
LARGEST_SUMS = 2**24  # numbers, 128 MiB: sums of sparse rows for the Hessian's mixed part
SAMPLE, LEAST_SAMPLE = 32, 2048  # rows of either class that make a Hessian: the larger of so many per feature, so many
SHORT, ENLARGING = 0.5, 8  # a step below this part of Newton's tells that they were too few: so many times as many
FAR_APART = 0.005  # mean slope up to which no Newton system of the squared hinge is solved by products
SLOW = 0.3  # a step by products is to leave less than this part of Newton's part of the gap
FEWEST_PRODUCTS = 2  # by which a system may be solved in place of a Hessian: of fewer there is no hope
MASTER_STEPS = 5_000  # moves of weight between two planes per plane added: a bound is valid wherever they end
CG_STEPS, CG_ACCURACY = 250, 0.1  # residual norm, relative: Newton's own error is of that order until the last steps
# Where lam is small, rough steps may never settle which pairs are at the kink: after so many that brought nothing they
# are made finer.
IMPATIENCE, CG_FINER, FINEST_CG, MORE_CG_STEPS = 5, 0.1, 1e-5, 2000


# Estimator -------------------------------------------------------------------------------------------------------


class SVMOR(LinearScorer):
    """Linear AUC maximiser by the pairwise hinge loss, solved in batch to a certified gap (ordinal-regression SVM).

    Minimises P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'(x_i - x_j)) over the k = n_pos * n_neg pairs, as AUCSDCD;
    with loss="squared_hinge" lam/2 ||w||^2 + 1/2k sum_ij max(0, 1 - w'(x_i - x_j))^2: half the mean square, as LSSVM.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0.
    method : {"newton", "cutting_plane"}, default="newton"
        Newton's method on the loss smoothed in a shrinking band around its kink, or cutting planes with a line search.
        Both reach the same optimum, Newton's in some 5 to 30 iterations. Cutting planes take tens where features have
        like scales, and may reach max_iter where they have not.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    tol : float, default=1e-6
        Stop when duality gap <= tol * min(P, P(0)), P(0) being 1 for the hinge and 1/2 for the squared hinge: P is then
        within the part tol of min P, also where the classes are far apart and min P is far below P(0). A gap of
        1e-12 P(0) will do: rounding may leave that. 0 goes on until rounding stops all progress, or max_iter.
    max_iter : int, default=1000
        Largest number of iterations; see n_iter_.
    warm_start : bool, default=False
        Start from the weights of the last fit, if the data have as many features. lam, loss and rows may change.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The weights of least objective among those visited.
    intercept_ : ndarray of shape (1,)
        Minus the threshold of the largest G-mean on the training scores: the loss does not see a bias.
    objective_ : float
        P(coef_), of the loss itself, not of the smoothed one.
    dual_gap_ : float
        P(coef_) - D(a) >= P(coef_) - min P for the best feasible a seen, or, if that is more, what the rounding of the
        scores may make of it: certifies the objective.
    gap_unit_ : float
        max(1, objective at w = 0), here always 1. ``dual_gap_ / gap_unit_`` compares fits to different data.
    n_iter_ : int
        Newton steps, settlings of slopes, looks at descent on its way, or cutting planes. Newton takes 0 where a warm
        start was within tol already; planes and descent are made anew.
    status_ : {"converged", "max_iter", "diverged"}
        Whether dual_gap_ came down to what tol asks for. "max_iter" also if rounding stopped progress before,
        "diverged" where objective_ overflowed.
    history_ : dict of ndarray
        ``updates`` (iterations), ``objective``, ``dual_gap``, ``auc`` (training), ``time_s``: at the start and after
        each iteration, of the best weights so far.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, or features whose squares overflow.

    Warns
    -----
    ConvergenceWarning
        If the gap stayed above tol.

    Notes
    -----
    An iteration sorts the smaller class, n_min rows, and locates the larger one's scores in a bucket grid:
    O(n d + n + n_min log n_min), plus that for each trial of the line search, without the n d. Newton adds its matrix
    up to 1024 features, O(r d^2 + d^3) for the r rows in the band (stored values instead of one of the d if CSR), of
    either class at first a sample of at most 2048 or 32 d, after short steps more; with more features an r x r
    system in O(r^3) where r <= 1024, of classes far apart 2048, else conjugate gradients, one product with these rows
    and their transpose each. With the squared hinge these are tried before a matrix, for half of its price at most,
    with the last one's factor as preconditioner. With the hinge, up to 1024 features, the slopes of at most 64 pairs in
    the band, and of those that turn out to cross the kink, are settled together as a quadratic programme in the unit
    box: O(p^2 d + p^3) for p pairs.
    With the hinge and more features, descent along the rows' dual variables comes before Newton's steps, or beside them
    where rows are dense, O(stored values) a pass: where no pair's slope has to be 1 it solves the pairs' problem, in
    tens to hundreds of passes. Of outliers, rows whose pairs may have slopes of 1, it takes the pairs near the kink as
    rows, if they are few; else it is given up. It works on a copy of the rows of its own.
    At most 1024 dense rows of more features are first brought into coordinates of their span, O(n^2 d), and sparse rows
    into the columns that have an entry, if many have none.
    Data of more than 5,000 rows are first solved on 2,500 evenly spaced ones, of more than 40,000 then on 20,000, and
    so on. Where no margin is violated at the optimum, a heavier regulariser is solved in place of a tiny lam; where
    Newton's steps turn out short (squared hinge, more than 1024 features), ever lighter ones down to lam. None of this
    touches the certificate, which is of all rows. Memory: a copy of the rows (for conjugate gradients a second one
    of those in the band), in float64 also where X is float32 (the products with them run at BLAS's speed in one
    precision only, and a gap of 1e-6 is out of float32's reach), the n_min x d sums behind the matrix, or planes x d.
    Nothing but the order of descent is drawn, from a fixed seed: the same input gives the same bits on the same machine
    and library versions.

    References
    ----------
    .. [1] Joachims, "Training linear SVMs in linear time", KDD 2006: the cutting planes and the oracle by sorting.
    .. [2] Franc, Sonnenburg, "Optimized cutting plane algorithm for support vector machines", ICML 2008: the line
       search towards the master problem's optimum, and the next plane between the two.
    .. [3] Lee, Lin, "Large-scale linear RankSVM", Neural Computation 26(4), 2014: Newton's method without pairs, for
       the squared hinge.
    .. [4] Hsieh, Chang, Lin, Keerthi, Sundararajan, "A dual coordinate descent method for large-scale linear SVM", ICML
       2008: the descent. Rockafellar, SIAM J. Control Optim. 14, 1976: the bias by proximal points. Gale, Pacific J.
       Math. 7, 1957; Ryser, Canad. J. Math. 9, 1957: which sums per row are those of slopes in [0, 1].

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import SVMOR
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SVMOR(lam=1e-2).fit(scale(X), y == 0)
    >>> model.status_, bool(model.dual_gap_ <= 1e-6), round(float(model.history_["auc"][-1]), 2)
    ('converged', True, 1.0)
    """

    def __init__(self, lam=1e-3, *, method="newton", loss="hinge", tol=1e-6, max_iter=1000, warm_start=False):
        self.lam = lam
        self.method = method
        self.loss = loss
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_positive("lam", self.lam)
        check_choice("method", self.method, METHODS)
        check_choice("loss", self.loss, LOSSES)
        check_flags(self, "warm_start")
        check_non_negative("tol", self.tol)
        check_count("max_iter", self.max_iter)

    @transactional
    def fit(self, X, y):
        """Fit to X, shape (n_samples, n_features), dense or CSR, and two-class labels y; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        drive = newton if self.method == "newton" else cutting_planes
        columns, weights = StoredColumns.of(X), ("w", "w_of_bound")
        result = drive(
            columns.rows(X),
            y,
            float(self.lam),
            self.loss,
            float(self.tol),
            int(self.max_iter),
            columns.narrowed(self._state_to_go_on(X.shape[1]), weights),
        )
        result = columns.widened(result, weights)
        self._state = result.state if self.warm_start else None  # a stored model does without
        return self._publish(result, X, y)

    def _state_to_go_on(self, n_features):
        state = getattr(self, "_state", None) if self.warm_start else None
        if state is not None and len(state["w"]) != n_features:
            logger.info("starting cold: the weights are of %d features, the data of %d", len(state["w"]), n_features)
            return None
        return state


# Drivers ---------------------------------------------------------------------------------------------------------


def newton(X, y, lam, loss, tol, max_iter, state=None):
    """Minimise P by Newton's method in bands of shrinking width; X is dense or CSR, y is +-1. Return a SolverResult.

    ``state`` holds, to go on, the weights ``w``, and those that gave the lower bound with their band's half width, or
    with the ``sums`` of their slopes where no band tells these.
    """
    if is_wide(X):
        centre = X.mean(axis=0, dtype=np.float64)
        rows, basis = in_span(X - centre)
        known = None if state is None else state | {name: basis.T @ state[name] for name in ("w", "w_of_bound")}
        found = newton(rows, y, lam, loss, tol, max_iter, known)
        state = found.state | {name: basis @ found.state[name] for name in ("w", "w_of_bound")}
        w = basis @ found.w
        return replace(found, w=w, bias=found.bias - centre @ w, state=state)
    problem = _pose(X, y, lam, loss)
    run = _Run(problem, tol, max_iter)
    point = _first_point(run, problem, state)
    by_rows = DescentByRows(problem, run) if problem.has_many_features and not problem.squared else None
    if by_rows is not None:
        by_rows.begin()
    # warm or small: start here; large and cold: the optimum on fewer rows is near, and comes at their price
    near = None if point.w.any() or run.done else _optimum_of_fewer(problem, max_iter)
    if near is not None:
        point = problem.balance(_look_near(problem, near), run.target)
    _descend(run, problem, point, by_rows)
    return run.result(X, y)


def cutting_planes(X, y, lam, loss, tol, max_iter, state=None):
    """Minimise P by cutting planes on L; arguments and result as of ``newton``.

    The master problem minimises lam/2 ||w||^2 + the largest of the planes below L: its value bounds min P from below.
    """
    problem = _pose(X, y, lam, loss)
    run = _Run(problem, tol, max_iter)
    point = _first_point(run, problem, state)
    best, master = problem.change_width(point, 0.0), _Master(X.shape[1], lam)
    while not run.done:
        # 1. the plane at the newest point, and the optimum under all planes
        master.add(point)
        w, lower_bound = master.solve(0.1 * run.target)
        # 2. from the best point towards that optimum, as far as P falls
        falls = best.gradient @ (w - best.w) < 0.0
        if falls:
            step, *_ = problem.search_line(best, w - best.w)
            best = problem.look(best.w + step * (w - best.w), width=0.0)
        # 3. the next plane: at a point between the two, to cut off w and be sharp near the best; where P has a kink and
        #    the one slope known there does not point down, at w itself
        point = problem.look(0.9 * best.w + 0.1 * w if falls else w, width=0.0)
        run.count(point, best, lower_bound=lower_bound)
        best = run.best
    return run.result(X, y)


def _first_point(run, problem, state=None):
    """Show the run the point at w = 0, or, if P is no larger there, at the state's; return where to start from."""
    known = () if state is None else [problem.look(state["w"], state["width"]), problem.bounding_point(state)]
    # weights of rows in other units may have a loss that is many times that of none; none need their widest band
    is_start = bool(known) and known[0].w.any() and known[0].objective <= problem.at_zero
    point = known[0] if is_start else problem.origin()
    for seen in (point, *known[1:]):
        run.see(seen)
    run.log()
    if run.done or not point.w.any():
        return point
    # a narrow band is one to end in: from weights that are not its optimum it takes more steps than wide ones before it
    return problem.balance(problem.change_width(point, WIDEST), run.target)


def _optimum_of_fewer(problem, max_iter):
    """Return about the optimal point of evenly spaced rows, found by way of that of still fewer; None for few rows."""
    near, rows = None, THIN_ROWS
    while 2 * rows < problem.few.shape[0] + problem.many.shape[0]:
        thin, run = problem.thinned(rows), _Run(problem, THIN_TOL * THIN_ROWS / rows, max_iter)
        point = thin.origin() if near is None else _look_near(thin, near)
        run.see(point)
        near, rows = _descend(run, thin, thin.balance(point, run.target)), THICKENING * rows
    return near


def _look_near(problem, near):
    """Return the point at the optimum of fewer rows, in about its band, or the widest where it turns out to be far."""
    point = problem.look(near.w, min(WIDEST, THIN_WIDER * near.width))
    return point if point.newton_part <= FAR * point.objective else problem.change_width(point, WIDEST)


def _descend(run, problem, point, by_rows=None):
    """Take Newton steps from the point until the run is done, and some of descent by rows; return the last point."""
    settled, by_heavier, n_short = None, False, 0
    while not run.done:
        if by_rows is not None and point.w.any():  # at w = 0 they began
            by_rows.go_on(point)
            if run.done:
                break
        n_short += point.step < SHORT
        path = None if by_heavier else _path_by_heavier(run, problem, point, n_short)
        if path is not None:
            point, settled, by_heavier = _descend_heavier(run, problem, *path), None, True
            continue
        there = _settle(run, problem, point)
        if there is not None:
            point, settled = there, None
            continue
        problem, point, settled = _step(run, problem, point, settled)
        run.count(point)
    return point


def _settle(run, problem, point):
    """Return the next point by way of the few pairs in the band; None if they are many, or it brings too little."""
    if not (problem.has_few_pairs(point) and point.n_pairs < run.few_pairs):
        return None
    there = problem.settle(point, run.target)
    if there is None or not there.gap <= SETTLED * run.gap:  # nor where it overflowed
        run.few_pairs = FEWER * point.n_pairs
        if there is not None:
            run.see(there)
        return None
    run.count(there)
    return there if run.done else problem.change_width(there, point.width)


def _path_by_heavier(run, problem, point, n_short):
    """Return the arguments of ``_descend_heavier`` after the problem, if that is the shorter way by now; else None."""
    if problem.is_light(point):
        return point, HEAVY_SLOPES / inner(point.shorter.w, point.shorter.w), LIGHTER, run.tol
    if problem.squared and problem.has_many_features and n_short >= TOO_SHORT:
        origin = problem.origin()
        return origin, problem.curvature_along(origin.gradient), LIGHTER_STEADILY, HEAVY_TOL
    return None


def _step(run, problem, point, settled):
    """Return the problem with its Newton systems as they have to be by now, the next point, and the one settled in."""
    if point.step < SHORT:
        problem = problem.with_larger_sample()
    if run.idle and run.idle % IMPATIENCE == 0:
        problem = replace(problem, finer=max(FINEST_CG, CG_FINER * problem.finer))
    # the gap is the sum of two parts: Newton steps remove the one, only a narrower band the other
    if point.newton_dominates or point.band_part <= ENOUGH * run.target or point.width <= NARROWEST:
        return problem, problem.move(point, problem.newton_direction(point)), settled
    return problem, problem.narrow(point, run.target, point.power_of_width(settled)), point


def _descend_heavier(run, problem, point, lam, lighter, tol):
    """Take Newton steps for heavier regularisers, from lam on each ``lighter`` times as light as the one before.

    Return the last point, which is as near to the problem's own optimum as ``tol`` says.

    Weights that violate no margin are as near to the optimum for every lighter lam as for a heavier one: P and the best
    multiple of a scale with lam. With a heavier one slopes are larger, and fewer steps tell which pairs have any. With
    the squared hinge in many features the optima are what counts: from each to the next one the pairs in the band
    change by so little that rough steps are whole ones, where from afar most are cut short by pairs not in it.
    """
    while lam > problem.lam and not run.done:
        heavier = replace(problem, lam=lam)
        part, settled = _Run(heavier, tol, run.max_iter), None
        point = heavier.weigh(point)
        part.see(point)
        point = heavier.balance(point, part.target)
        while not (run.done or part.done or (part.violates and not problem.squared)):
            heavier, point, settled = _step(part, heavier, point, settled)
            part.count(point)
            run.count(problem.weigh(point))
            run.idle = 0  # the part's own tells
        lam /= lighter
    return problem.balance(problem.weigh(point), run.target)


class _Run:
    """The best point and the best lower bound so far, their trace, and when to stop."""

    def __init__(self, problem, tol, max_iter):
        self.squared, self.at_zero, self.tol, self.max_iter = problem.squared, problem.at_zero, tol, max_iter
        self.trace, self.n_iter, self.idle = Trace(), 0, 0
        self.best, self.lower_bound = None, 0.0  # a = 0 is feasible
        self.last = None  # the point that the last iteration came to
        self.bounding = None  # the point whose slopes gave the bound
        self.few_pairs = np.inf  # settling is tried with fewer pairs than these

    @property
    def gap(self):
        return max(ROUNDING * self.at_zero, self.best.objective - self.lower_bound)

    @property
    def target(self):
        """What the gap has to fall to."""
        return max(self.tol * min(self.best.objective, self.at_zero), min(self.tol, FINEST) * self.at_zero)

    @property
    def done(self):
        if self.n_iter == 0 and not self.best.w.any():
            # w = 0 may be within tol (large lam, tiny features) but ranks nothing: at least one step, if there is one
            return not self.best.gradient.any()
        return self.is_met or self.n_iter >= self.max_iter or self.idle >= PATIENCE

    @property
    def is_met(self):
        """Whether the gap is what it has to be: with what rounding adds, unless that alone is more."""
        if self.gap > self.target:
            return False
        rounding = self.rounding_of(self.best.s_few, self.best.s_many)
        return self.gap + rounding <= self.target or rounding > self.target

    @property
    def violates(self):
        """Whether the optimal weights, by what is known of them, violate margins: not to be had from a heavier lam."""
        return self.gap <= ROUGH * self.best.objective and self.best.band.loss > self.target

    def rounding_of(self, *scores):
        """Return what the rounding of the best weights' scores may make of the gap."""
        magnified = max(1.0, self.bounding.theta * self.bounding.band.magnified)
        return ROUNDING * magnified * max(float(np.abs(part).max()) for part in scores)

    def see(self, point, lower_bound=0.0):
        """Take what is better than before of this point and of the bounds; its own counts too."""
        for seen in (point, point.shorter):
            if self.best is None or (seen is not None and seen.objective <= self.best.objective):
                self.best = seen
        if self.bounding is None or point.lower_bound > self.lower_bound:
            self.bounding = point
        self.lower_bound = max(self.lower_bound, lower_bound, point.lower_bound)

    def count(self, *points, lower_bound=0.0):
        """Count an iteration that came by these points."""
        gap, last, self.last = self.gap, self.last, points[-1]
        for point in points:
            self.see(point, lower_bound)
        # on the way down in a band, gaps may be many times the best one
        same_band = last is not None and last.width == self.last.width
        falls = same_band and self.last.objective <= (1.0 - FALL) * last.objective
        self.n_iter += 1
        self.idle = 0 if self.gap < gap or falls else self.idle + 1
        self.log()

    def log(self):
        self.trace.add_with_auc(self.n_iter, self.best.objective, self.gap, self.best.auc())

    def result(self, X, y):
        w, bounding = self.best.w, self.bounding
        state = {"w": w, "w_of_bound": bounding.w, "width": bounding.width}
        if bounding.width == 0.0 and not self.squared:  # slopes that the weights do not tell, all in [0, 1]
            state["sums"] = bounding.band.of_few, bounding.band.of_many
        scores = row_scores(X, w)
        # sparse rows are not centred: their scores are rounded as they are
        rounded = (scores,) if sparse.issparse(X) else (self.best.s_few, self.best.s_many)
        gap = self.gap + self.rounding_of(*rounded)
        status = CONVERGED if gap <= self.target else MAX_ITER
        if status == MAX_ITER and self.idle >= PATIENCE:
            logger.info("no progress in %d iterations: rounding limits the gap to %.3g", self.idle, gap)
        (area, threshold), history = Ranking(scores, y > 0).auc_and_threshold(), self.trace.as_history()
        history["auc"][-1] = area  # of the rows as they are: moved ones are rounded otherwise
        history["dual_gap"][-1] = gap
        found = w, -threshold, self.best.objective, gap, self.n_iter, status, history, state
        return SolverResult(*found, at_zero=self.at_zero, target=self.target)


# Certified points ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Band:
    """Which pairs lie in and beyond the band, and the sums of their slopes per row.

    The band is -width < u < width: the smoothed hinge has slope 0 before it, (u + width) / (2 width) in it, 1 beyond.
    The squared hinge needs no smoothing: its band is u > 0 with slope u, whatever the width says. The pairs
    of the j-th of the many with the sorted few at places first[j] <= q < last[j] are in the band, those with
    q < first[j] beyond it.
    """

    width: float
    order: np.ndarray  # of the few by score
    grid: tuple  # the sorted scores and their bucket grid
    first: np.ndarray
    last: np.ndarray
    members: np.ndarray  # per place: how many of the many share the band with it
    beyond: np.ndarray  # per place: with how many of the many it is beyond the band
    of_few: np.ndarray  # sums of slopes, rows in their own order
    of_many: np.ndarray
    loss: float  # L(w), of the loss itself
    slope: float  # the mean of the slopes
    magnified: float  # how many times the scores' rounding may be in the slopes: differences of sums, over the width

    @cached_property
    def n_pairs(self):
        """The number of pairs in the band."""
        return float(self.members.sum())

    def steeper(self, ratio):
        """Return the sums of slopes if those in the band were lines 1/ratio times as steep, below 0 and above 1 too."""
        few_middle, many_middle = np.empty_like(self.of_few), 0.5 * (self.first + self.last)
        few_middle[self.order] = self.beyond + 0.5 * self.members
        of_few = few_middle + (self.of_few - few_middle) / ratio
        return of_few, many_middle + (self.of_many - many_middle) / ratio


@dataclass(frozen=True)
class _Point:
    """Weights with the slopes of the smoothed loss at them as dual variables, hence with a certificate.

    P(w) - D(a) = (L(w) - mean a + mean phi*(a) + w'v) + ||lam w - v||^2 / (2 lam): ``band_part``, 0 but for the slopes
    inside the band, plus ``newton_part``, 0 at the minimum of the smoothed objective.
    """

    w: np.ndarray
    s_few: np.ndarray
    s_many: np.ndarray
    band: _Band
    v: np.ndarray
    gradient: np.ndarray  # lam w - v
    linear: float  # mean a - mean phi*(a): L(w') >= linear - w'v for every w'
    objective: float
    lower_bound: float
    theta: float  # the multiple of the slopes that gives the lower bound
    band_part: float
    newton_part: float
    step: float = 1.0  # along Newton's direction, which has led here
    shorter: "_Point | None" = None  # the point of a multiple of w that is nearer to the optimum: both parts are its

    @property
    def width(self):
        return self.band.width

    @property
    def newton_dominates(self):
        return self.newton_part >= SHARE * self.band_part

    @property
    def gap(self):
        """P(w) - D(a), a being the slopes as they are."""
        return self.newton_part + self.band_part

    @property
    def n_pairs(self):
        return self.band.n_pairs

    def power_of_width(self, wider):
        """Return the power of the width as which the pairs in the band fell from a wider point's; None if unknown."""
        if wider is None or min(self.n_pairs, wider.n_pairs) == 0:
            return None
        return np.log(wider.n_pairs / self.n_pairs) / np.log(wider.width / self.width)

    def auc(self):
        if not self.w.any():
            return 0.5
        lost = _count_lost_pairs(*self.band.grid, self.s_many, self.band.last)
        return 1.0 - lost / (len(self.s_few) * len(self.s_many))


def _pose(X, y, lam, loss):
    """Return the problem with z = few - many, the smaller class first.

    z_ij = x_i - x_j = (-x_j) - (-x_i): if the negatives are fewer, they take the positives' place with their signs
    changed. Differences do not see a common shift, rounding does: dense rows are moved to where it is small.
    """
    in_few, sign = _smaller_class(y)
    if sparse.issparse(X):
        few, many = split_classes(X, np.where(in_few, 1.0, -1.0))
        few = few.astype(np.float64, copy=False)
        many = many.astype(np.float64, copy=False)
        few *= sign  # in place: the blocks are copies
        many *= sign
    else:
        n_few = np.count_nonzero(in_few)
        centre = weighted_row_sum(X, np.where(in_few, 0.0, 1.0 / (len(y) - n_few)))
        few, many = zeros_in_lines(n_few, X.shape[1]), zeros_in_lines(len(y) - n_few, X.shape[1])
        _split_about(centre, sign, X, in_few, few, many)
    sample = max(LEAST_SAMPLE, SAMPLE * X.shape[1])
    return _Problem(few, many, lam, loss == "squared_hinge", sample)


def _smaller_class(y):
    """Return which rows are of the smaller class, and 1.0, or -1.0 if that is the negative one."""
    positive = y > 0
    swapped = 2 * np.count_nonzero(positive) > len(y)
    return positive != swapped, -1.0 if swapped else 1.0


class _LastHessian:
    """What conjugate gradients of one fit know of the steps before."""

    def __init__(self):
        self.cholesky = None  # the last Hessian's factor, which tells the next ones' shape
        self.newton_part = np.inf  # of the gap, where the last step was by products
        self.failures = 0  # systems that half a Hessian's time in products did not solve, and steps that brought little


@dataclass(frozen=True)
class _Problem:
    """The rows of the smaller class, those of the larger one, and the objective: all that does not change in a fit."""

    few: object
    many: object
    lam: float
    squared: bool
    sample: int  # most rows of either class that make a Hessian
    finer: float = 1.0  # what CG_ACCURACY is multiplied by
    known: _LastHessian = field(default_factory=_LastHessian)

    @property
    def at_zero(self):
        """P(0), where every u is 1."""
        return 0.5 if self.squared else 1.0

    @cached_property
    def k(self):
        return self.few.shape[0] * self.many.shape[0]

    @property
    def has_many_features(self):
        """Whether there are too many features for a Hessian."""
        return self.few.shape[1] > LARGEST_HESSIAN

    def curvature_along(self, gradient):
        """Return g'Hg / g'g of the gradient g and the loss's Hessian H at w = 0, where all pairs are in the band."""
        d_few, d_many = self.scores(gradient)
        mean_square = d_few.var() + d_many.var() + (d_few.mean() - d_many.mean()) ** 2  # of all z'g
        return self.steepness(WIDEST) * mean_square / inner(gradient, gradient)

    @cached_property
    def lengths(self):
        """The squared lengths of the few and of the many."""
        return squared_norms(self.few), squared_norms(self.many)

    def thinned(self, n_rows):
        """Return the problem on so many evenly spaced rows, at most half of them of the smaller class."""
        n_few = min(self.few.shape[0], n_rows // 2)
        sizes = (self.few, n_few), (self.many, n_rows - n_few)
        few, many = (rows[np.linspace(0, rows.shape[0] - 1, size).astype(np.int64)] for rows, size in sizes)
        return _Problem(few, many, self.lam, self.squared, self.sample)

    def with_larger_sample(self):
        """Return the problem with more rows in its Hessians, if there are more."""
        if self.sample >= self.many.shape[0]:
            return self
        return replace(self, sample=min(ENLARGING * self.sample, self.many.shape[0]))

    def scores(self, w):
        """Return the scores of the few and of the many, up to a common shift that keeps rounding small."""
        s_few, s_many = np.empty(self.few.shape[0]), np.empty(self.many.shape[0])
        _score_classes(as_rows(self.few), as_rows(self.many), w, s_few, s_many)
        return s_few, s_many

    def pull(self, of_few, of_many):
        """Return 1/k sum a z from the sums of a over each row's pairs."""
        return (weighted_row_sum(self.few, of_few) - weighted_row_sum(self.many, of_many)) / self.k

    def band(self, s_few, s_many, width):
        return _Band(width, *_survey(s_few, s_many, width, self.squared))

    def origin(self):
        """Return the point w = 0 with the widest band: all u are 1, in the band and as steep as beyond it."""
        n, m = self.few.shape[0], self.many.shape[0]
        s_few, s_many = np.zeros(n), np.zeros(m)
        first, last = np.zeros(m, dtype=np.uint32), np.full(m, n, dtype=np.uint32)
        sums = np.full(n, float(m)), np.full(m, float(n))
        per_place = sums[0], np.zeros(n)
        band = _Band(WIDEST, np.arange(n), bucket_grid(s_few), first, last, *per_place, *sums, self.at_zero, 1.0, 1.0)
        return self._certify(np.zeros(self.few.shape[1]), s_few, s_many, band)

    def look(self, w, width):
        """Return the point at w, certified by the band of this half width."""
        s_few, s_many = self.scores(w)
        return self._certify(w, s_few, s_many, self.band(s_few, s_many, width))

    def bounding_point(self, state):
        """Return the point that gave the lower bound of another fit, with slopes as it had them if they are known."""
        w, sums = state["w_of_bound"], state.get("sums", ())
        if self.squared or [len(own) for own in sums] != [self.few.shape[0], self.many.shape[0]]:
            return self.look(w, state["width"])
        return self._weigh_by_sums(w, *self.scores(w), *sums)

    def balance(self, point, tol):
        """Return the point with the widest band that is not what keeps the gap above tol."""
        while not point.newton_dominates and point.gap > tol and point.width > NARROWEST:
            point = self.change_width(point, point.width * _ratio(point, tol, 2.0, NARROWING))
        return point

    def change_width(self, point, width):
        return self._certify(point.w, point.s_few, point.s_many, self.band(point.s_few, point.s_many, width))

    def _certify(self, w, s_few, s_many, band, step=1.0):
        return self._weigh(w, s_few, s_many, band, self.pull(band.of_few, band.of_many), step)

    def weigh(self, point):
        """Return a point of the problem with another lam as this one has it."""
        return self._weigh(point.w, point.s_few, point.s_many, point.band, point.v, point.step)

    def is_light(self, point):
        """Tell whether the point's weights violate no margin and those for a heavier lam would not either."""
        return point.shorter is not None and LIGHT * self.lam * inner(point.shorter.w, point.shorter.w) < HEAVY_SLOPES

    def _weigh(self, w, s_few, s_many, band, v, step):
        parts = _weigh_up(w, v, self.lam, band.loss, band.slope, self.squared)
        point = _Point(w, s_few, s_many, band, v, *parts, step)
        return self._shortened(point) if self.are_far_apart(point) and band.width > 0.0 else point

    def are_far_apart(self, point):
        """Tell whether the classes are, as far as the slopes at the point tell: few pairs have any."""
        return point.band.slope <= SMALL_SLOPES and not self.squared

    def _shortened(self, point):
        """Return the point with the multiple s w whose smallest margin is 1, if that is shorter and has a smaller gap.

        Where no pair is ranked wrongly and lam is small, the pairs in the band have small slopes a, and with them
        u = -width (1 - 2a): their margins are 1 + width up to little, where 1 is enough. The gap of s w and s a,

            P(s w) - D(s a) = (L(s w) - s mean a + s^2 w'v) + s^2 ||lam w - v||^2 / (2 lam),

        is of order a times what it is with s = 1: the wide bands will do, in which Newton's systems are solved well.
        """
        margin = point.s_few.min() - point.s_many.max()
        if margin <= 1.0:
            return point
        s = 1.0 / margin
        s_few, s_many = s * point.s_few, s * point.s_many
        band = self.band(s_few, s_many, 0.0)
        band_part = max(0.0, band.loss - s * point.band.slope + s * s * inner(point.w, point.v))
        newton_part = s * s * point.newton_part
        if band_part + newton_part >= point.band_part + point.newton_part:
            return point
        w = s * point.w
        objective = 0.5 * self.lam * inner(w, w) + band.loss
        shorter = replace(point, w=w, s_few=s_few, s_many=s_many, band=band, objective=objective)
        return replace(point, band_part=band_part, newton_part=newton_part, shorter=shorter)

    def look_apart(self, w, s_few, s_many, of_few, of_many, is_core):
        """Return the point at the multiple of w whose smallest margin of core rows is 1, certified by these sums.

        None if w does not tell them apart.
        """
        margin = s_few[is_core[: len(s_few)]].min() - s_many[is_core[len(s_few) :]].max()
        if margin <= 0.0:
            return None
        scale = 1.0 / margin
        return self._weigh_by_sums(scale * w, scale * s_few, scale * s_many, of_few, of_many)

    def _weigh_by_sums(self, w, s_few, s_many, of_few, of_many, v=None):
        """Return the point at w, certified by sums of slopes that need not be those at w; v is their pull."""
        slope = of_few.sum() / self.k
        band = replace(self.band(s_few, s_many, 0.0), of_few=of_few, of_many=of_many, slope=slope, magnified=1.0)
        return self._weigh(w, s_few, s_many, band, self.pull(of_few, of_many) if v is None else v, 1.0)

    def has_few_pairs(self, point):
        """Tell whether so few pairs are in the point's band that ``settle`` costs no more than some Newton steps."""
        most = min(MOST_SETTLED, SETTLED_A_FEATURE * self.few.shape[1])
        return not (self.squared or self.has_many_features) and 0 < point.n_pairs <= most

    def settle(self, point, tol):
        """Return about the optimum, by way of the pairs in the point's band: their slopes are free, others' 0 or 1.

        With K = zz' / (lam k) of the free pairs it is a quadratic programme in the unit box: D rises with a as u / k,
        and u falls by K times what a rises. At its optimum fixed pairs may have come to the other side of the kink:
        these are free from then on, and D rises again. Returns the point of least gap, or None if all overflowed.
        """
        free, v, best = FreePairs.in_band(point), point.v, None
        for _ in range(MOST_SETTLINGS):
            z = self.few[free.few] - self.many[free.many]
            with np.errstate(over="ignore", invalid="ignore"):  # of tiny lam
                K, u = row_products(z) / (self.lam * self.k), 1.0 - z @ (v / self.lam)
                maximise_in_box(K, u, free.slopes, ENOUGH * tol * self.k)
                sums = free.sums()
                v = self.pull(*sums)
                w = v / self.lam
            if not np.isfinite(w).all():
                break
            there = self._weigh_by_sums(w, *self.scores(w), *sums, v)
            best = there if best is None or there.gap < best.gap else best
            if there.gap <= tol or not free.take_in_crossed(there) or len(free.few) > MOST_FREE:
                break
        return best

    def narrow(self, point, tol, power):
        """Return the point after a Newton step into a narrower band, from about the minimum in its own.

        The band's part of the gap falls as its width times the number of pairs in it. Where the pairs are spread
        evenly, those in the narrower band are known: the others leave it. Pairs at the kink stay instead: at the
        minimum u = width * (2a - 1) with a that hardly changes, so all u shrink with the width. Where pairs turn out to
        do neither, the next point is the nearest to the optimum of all that were tried.
        """
        tried, ratios = [], [_ratio(point, tol, 1.0, most) for most in self._predictable(point, power)]
        for ratio in dict.fromkeys(ratios):
            there = self._predict(point, ratio)
            if there is not None and there.n_pairs >= KEPT * point.n_pairs:
                return there
            if there is not None:
                tried.append(there)
        start = self.balance(point, tol)
        tried.append(self.move(start, self.newton_direction(start)) if start.newton_dominates else start)
        return min(tried, key=lambda one: one.gap)

    def _predictable(self, point, power):
        """Return how many times narrower a band may be whose pairs are those of the point's, most first; maybe none."""
        if power is None:
            # small lam and classes far apart: a is near 0, and the few u in the band, all of them at its far edge
            narrower = self.band(point.s_few, point.s_many, point.width / NARROWING)
            return (NARROWING,) if NARROWING * narrower.n_pairs < KEPT * point.n_pairs else ()
        if power >= STAYING:
            return ()
        steps_are_exact = min(self.few.shape[1], self.few.shape[0] + self.many.shape[0]) <= LARGEST_HESSIAN
        most = PREDICTED_NARROWING if steps_are_exact else PREDICTED_ROUGHLY
        return (most, NARROWING) if power < ALL_STAYING else (NARROWING,)

    def _predict(self, point, ratio):
        """Return the point after the step that ends in the narrower band's minimum if all pairs stay; None if uphill.

        It takes the pairs of the wider band, with the slopes of the narrower one and not cut off at 0 and 1: none of
        them may leave [0, 1].
        """
        start = self.change_width(point, ratio * point.width)
        gradient = self.lam * point.w - self.pull(*point.band.steeper(ratio))
        direction = self.newton_direction(point, gradient, ratio)
        return self.move(start, direction) if inner(start.gradient, direction) < 0.0 else None

    def move(self, point, direction):
        """Return the point at about the minimum along the direction; its scores are those of the line search."""
        step, *scores_and_band = self.search_line(point, direction)
        return self._certify(point.w + step * direction, *scores_and_band, step)

    def search_line(self, point, direction):
        """Return the step to about the minimum along the direction, the scores there, and their band.

        A trial costs no product with the rows: scores are linear in the step.
        """
        d_few, d_many = self.scores(direction)
        fixed, rising = self.lam * inner(point.w, direction), self.lam * inner(direction, direction)
        scores = point.s_few, d_few, point.s_many, d_many
        origin = point.band.loss, inner(point.gradient, direction)
        step, s_few, s_many, band = _search_line(
            *scores, point.width, self.squared, fixed, rising, *origin, FLAT, MAX_TRIALS
        )
        return step, s_few, s_many, _Band(point.width, *band)

    def steepness(self, width):
        """Return the loss's second derivative in a band of this half width."""
        return 1.0 if self.squared else 0.5 / width

    def newton_direction(self, point, gradient=None, ratio=1.0):
        """Return minus the inverse Hessian times the gradient of the smoothed objective, or times another gradient.

        The Hessian is that of the point's band, of a slope 1/ratio times as steep.
        """
        gradient = point.gradient if gradient is None else gradient
        n_few, d = self.few.shape
        factor = self.steepness(ratio * point.width) / self.k
        if not (self.has_many_features or (sparse.issparse(self.few) and n_few * d > LARGEST_SUMS)):
            direction = self._direction_by_products(point, gradient, factor) if self.squared else None
            if direction is not None:
                return direction
            # LAPACK's own driver: on tiny data the checks around it would cost as much as all the rest
            hessian = _hessian(self, point.band, factor, self.sample)
            cholesky, direction, failed = linalg.lapack.dposv(hessian.T, -gradient, lower=0, overwrite_a=1)
            if not failed:
                self.known.cholesky = cholesky
                return direction
            logger.info("conjugate gradients for this step: lam=%g is lost in the Hessian's rounding", self.lam)
        pairs = _curvature(self, point.band, factor, self.many.shape[0])
        # exactly where it can be: with small lam, rough steps never settle which pairs are at the kink
        largest = LARGEST_SYSTEM if self.are_far_apart(point) else LARGEST_HESSIAN
        if self.has_many_features and 0 < len(pairs.few) + len(pairs.many) <= largest:
            return _solve_by_rows(self, pairs, gradient)
        return _conjugate_gradients(self, pairs, gradient)[0]

    def _direction_by_products(self, point, gradient, factor):
        """Return Newton's direction about, by products with the Hessian, if half of its price will do; else None."""
        most, known = int(self.products_a_hessian // 2), self.known
        known.failures += point.newton_part > SLOW * known.newton_part
        known.newton_part = np.inf
        # where classes are far apart, rough steps never settle which pairs are at the kink
        if most < FEWEST_PRODUCTS or known.failures > 1 or point.band.slope <= FAR_APART:
            return None
        pairs = _curvature(self, point.band, factor, self.many.shape[0])
        direction, is_met = _conjugate_gradients(self, pairs, gradient, most, known.cholesky)
        if not is_met:
            known.failures += 1
            return None
        known.newton_part = point.newton_part
        return direction

    @cached_property
    def products_a_hessian(self):
        """About how many products with the Hessian take as long as the Hessian itself, and its system of equations.

        Both in ns, as measured.
        """
        (n_few, d), n = self.few.shape, self.few.shape[0] + self.many.shape[0]
        n_few, n_counted = min(n_few, self.sample), min(n_few, self.sample) + min(self.many.shape[0], self.sample)
        if sparse.issparse(self.few):
            stored = (self.few.nnz + self.many.nnz) / n
            hessian = 0.5 * n_few * d * stored + 0.25 * n_counted * stored**2
            return (hessian + 0.011 * d**3) / (n * (2.0 * stored + 5.0))
        return (0.05 * n_counted * d * (d + 20.0) + 0.005 * d**3) / (n * (0.35 * d + 10.0))


def _ratio(point, tol, power, most):
    """Return what to multiply the width by: the band's part of the gap falls as that power, and half of tol will do."""
    return min(1.0 / LEAST_NARROWING, max(1.0 / most, (ENOUGH * tol / point.band_part) ** (1.0 / power)))


# Newton's system -------------------------------------------------------------------------------------------------
# With steepness c, the loss's second derivative in the band, H = lam I + c/k sum_band z z', where, f and m being rows
# of the few and many, sum_band z z' = sum_f members ff' + sum_m members mm' - sum_f (f t_f' + t_f f'), t_f = the sum of
# m in the band of f.


class _Curvature(NamedTuple):
    """The pairs whose z z' make up H, by the rows that have any: of the few in order of their scores, of the many."""

    few: np.ndarray  # row numbers
    many: np.ndarray
    few_weights: np.ndarray  # how many rows each of these stands for
    many_weights: np.ndarray
    first: np.ndarray  # per row of the many: it is paired with those at first <= place < last
    last: np.ndarray
    of_few: np.ndarray  # how many pairs, over all of the row
    of_many: np.ndarray
    factor: float  # c/k


def _curvature(problem, band, factor, most):
    """Return the pairs in the band, of at most so many rows of either class.

    A sample stands for all: the Hessian is a mean over pairs, its error turns the direction by little where there are
    many more rows than features, and touches neither the gradient nor the gap. Half of it is spread evenly, half by
    squared length: of a feature that few rows have, these rows are nearly all the curvature, and long once scaled.
    """
    return _Curvature(*_choose_pairs(*_choice(problem, band, most)), factor)


def _choice(problem, band, most):
    """Return the arguments of ``_choose_pairs``."""
    lengths = problem.lengths if max(len(band.members), len(band.first)) > most else (np.empty(0), np.empty(0))
    return band.order, band.members, band.first, band.last, *lengths, most


def _hessian(problem, band, factor, most):
    """Return H as a dense matrix, of at most so many rows; only its lower triangle is right (all that is read)."""
    few, many, d = problem.few, problem.many, problem.few.shape[1]
    if not sparse.issparse(few):
        return _dense_hessian(few, many, _choice(problem, band, most), factor, problem.lam)
    pairs = _curvature(problem, band, factor, most)
    sums, mixed = np.zeros((len(pairs.few) + 1, d)), np.zeros((d, d))
    _sum_bands(as_rows(many), pairs.many, pairs.many_weights, pairs.first, pairs.last, pairs.few_weights, sums)
    _add_mixed(*as_rows(few), pairs.few, sums, mixed)
    hessian = gram(many, pairs.many, pairs.of_many)
    hessian += gram(few, pairs.few, pairs.of_few)
    hessian -= mixed + mixed.T
    hessian *= factor
    hessian.ravel()[:: d + 1] += problem.lam
    return hessian


def _solve_by_rows(problem, pairs, gradient):
    """Solve Newton's system in the space of the rows that have pairs in the band, fewer than features.

    With R the rows, sum_band z z' = R'MR, M being the Laplacian of the graph of their pairs, and with c/k the factor,

        H^-1 g = (g - R'y) / lam,    (k lam/c + M R R') y = M R g      (Sherman, Morrison, Woodbury).
    """
    # the many by their runs: then each of the few shares a band with a run of the many, too
    order = np.lexsort((pairs.last, pairs.first))
    many, first, last, of_many = (of[order] for of in (pairs.many, pairs.first, pairs.last, pairs.of_many))
    places = np.arange(len(pairs.few))
    runs = np.searchsorted(last, places, "right"), np.searchsorted(first, places, "right")
    graph = pairs.of_few, of_many, first, last, *runs
    both = problem.few[pairs.few], problem.many[many]
    rows = sparse.vstack(both, format="csr") if sparse.issparse(both[0]) else np.vstack(both)
    system = _laplacian(*graph, row_products(rows))
    system.ravel()[:: len(system) + 1] += problem.lam / pairs.factor
    lu, pivots, failed = linalg.lapack.dgetrf(system.T, overwrite_a=1)  # LAPACK's matrices are by columns
    if not failed:
        y = linalg.lapack.dgetrs(lu, pivots, _laplacian(*graph, (rows @ gradient)[:, None]), trans=1)[0].ravel()
        direction = (rows.T @ y - gradient) / problem.lam
        # Newton's has d'Hd = -g'd. The system's condition number would not tell: unlike lengths of rows alone spoil it
        along, slope = rows @ direction, -inner(gradient, direction)
        image = _laplacian(*graph, along[:, None]).ravel()
        curvature = problem.lam * inner(direction, direction) + pairs.factor * inner(along, image)
        if abs(curvature - slope) <= CG_ACCURACY * slope:
            return direction
    logger.info("conjugate gradients for this step: lam=%g is lost in the system's rounding", problem.lam)
    return _conjugate_gradients(problem, pairs, gradient)[0]


def _conjugate_gradients(problem, pairs, gradient, most=None, cholesky=None):
    """Solve Newton's system, to the problem's accuracy, by products with the Hessian: truncated Newton.

    Return the direction, and whether it has that accuracy after ``most`` products. ``cholesky`` is another Hessian's
    factor U, H = U'U, and the system is solved in U w.
    """
    if not len(pairs.many):
        return -gradient / problem.lam, True
    if most is None:
        most = CG_STEPS if problem.finer == 1.0 else MORE_CG_STEPS
    few, at_few = _members(problem.few, pairs.few)
    many, at_many = _members(problem.many, pairs.many)
    few_weights, many_weights = np.zeros(few.shape[0]), np.zeros(many.shape[0])
    direction, residual = np.zeros_like(gradient), -gradient
    towards = residual if cholesky is None else _solve_triangles(cholesky, residual)
    search, norm = towards.copy(), inner(residual, towards)
    target, is_met = (problem.finer * CG_ACCURACY) ** 2 * norm, False
    for _ in range(most):
        d_few, d_many = row_scores(few, search)[at_few], row_scores(many, search)[at_many]
        centre = d_many.mean()  # a common shift, which keeps rounding small
        of_few, of_many = _curve_pairs(d_few - centre, d_many - centre, pairs.first, pairs.last, pairs.of_few)
        few_weights[at_few], many_weights[at_many] = pairs.factor * of_few, pairs.factor * of_many
        image = weighted_row_sum(few, few_weights)
        image -= weighted_row_sum(many, many_weights)
        # in place: on wide data fresh memory would cost more than the sums
        add_scaled(image, problem.lam, search)
        curvature = inner(search, image)
        if curvature <= 0.0:  # of gradients whose squares are below the smallest number
            break
        step = norm / curvature
        add_scaled(direction, step, search)
        add_scaled(residual, -step, image)
        towards = residual if cholesky is None else _solve_triangles(cholesky, residual)
        old, norm = norm, inner(residual, towards)
        if norm <= target:
            is_met = True
            break
        search *= norm / old
        search += towards
    return direction, is_met


def _members(rows, chosen):
    """Return rows, and where among them the chosen ones are: all, if a copy of these were half as large."""
    return (rows, chosen) if 2 * len(chosen) > rows.shape[0] else (rows[chosen], slice(None))


def _solve_triangles(cholesky, b):
    """Return the solution of U'U x = b."""
    return linalg.lapack.dpotrs(cholesky, b, lower=0)[0]


# Cutting planes --------------------------------------------------------------------------------------------------


class _Master:
    """min lam/2 ||w||^2 + max_t (b_t - w'v_t) over the planes so far and over L >= 0, by its dual.

    The dual maximises sum_t beta_t b_t - ||sum_t beta_t v_t||^2 / (2 lam) over beta >= 0 with sum 1, and w is
    sum_t beta_t v_t / lam. Every feasible beta gives a lower bound, so it need not be solved to the end.
    """

    def __init__(self, n_features, lam):
        self.lam = lam
        self.v, self.b, self.beta = np.zeros((1, n_features)), np.zeros(1), np.ones(1)  # the plane L >= 0
        self.gram = np.zeros((1, 1))

    def add(self, point):
        """Add the plane of a point's dual variables."""
        self.v, self.b = np.vstack([self.v, point.v]), np.append(self.b, point.linear)
        self.beta = np.append(self.beta, 0.0)
        column = self.v @ point.v / self.lam
        self.gram = np.block([[self.gram, column[:-1, None]], [column[None, :]]])

    def solve(self, tol):
        """Return w and the lower bound on min P of a beta that is optimal up to tol."""
        _solve_on_simplex(self.gram, self.b, self.beta, tol, MASTER_STEPS)
        v = self.beta @ self.v
        return v / self.lam, float(self.beta @ self.b - 0.5 * (v @ v) / self.lam)


# Kernels ---------------------------------------------------------------------------------------------------------


@kernel()
def _split_about(centre, sign, rows, in_few, few, many):
    """Set few and many to sign * (row - centre), each row in the one that it belongs to."""
    seen = 0
    for i in range(len(rows)):
        target = few[seen] if in_few[i] else many[i - seen]
        seen += in_few[i]
        for f in range(rows.shape[1]):
            target[f] = sign * (rows[i, f] - centre[f])


@kernel()
def _score_classes(few, many, w, s_few, s_many):
    """Set the scores of both classes' rows, less the mean score of the many."""
    centre = 0.0
    for j in range(np.uint32(s_many.size)):
        s_many[j] = dot(many, j, w)
        centre += s_many[j]
    centre /= s_many.size
    for i in range(np.uint32(s_few.size)):
        s_few[i] = dot(few, i, w) - centre
    for j in range(s_many.size):
        s_many[j] -= centre


@kernel()
def _weigh_up(w, v, lam, loss, slope, squared):
    """Return gradient, linear, objective, lower_bound, theta, band_part and newton_part of a _Point."""
    gradient = np.empty_like(w)
    for f in range(w.size):
        gradient[f] = lam * w[f] - v[f]
    # mean phi*(a) of the squared hinge is mean u+^2/2 = L(w) at its own slopes a = u+, and no less than (mean a)^2/2
    conjugate = max(loss, 0.5 * slope * slope) if squared else 0.0
    # theta a is feasible as well, and D(theta a) = theta mean a - theta^2 curve/2 largest at theta = mean a / curve
    curve = 2.0 * conjugate + inner(v, v) / lam
    theta = slope / curve if curve > 0.0 else 1.0
    # slopes that add up to rounding are no certificate, however long one makes them
    theta = min(theta, LARGEST_THETA if squared else 1.0)
    objective, dual = 0.5 * lam * inner(w, w) + loss, theta * slope - 0.5 * theta * theta * curve
    lower_bound = min(dual, objective)  # rounding may take it above what every objective bounds
    band_part = 0.0 if squared else max(0.0, loss - slope + inner(w, v))
    newton_part = inner(gradient, gradient) / (2.0 * lam)
    return gradient, slope - conjugate, objective, lower_bound, theta, band_part, newton_part


@kernel(error_model="numpy")
def _search_line(s_few, d_few, s_many, d_many, width, squared, fixed, rising, loss, start, flat, trials):
    """Return the step to about the minimum along a line, the scores there, and what a _Band holds after its width.

    A step of 1 changes the scores by ``d_few`` and ``d_many`` and the slope of lam/2 ||w||^2, ``fixed``, by ``rising``;
    ``loss`` and ``start`` are the loss and the objective's slope at step 0. The slope rises with the step, so a bracket
    of its sign change is kept and cut where the slope's chord crosses 0, or at least at a tenth.
    """
    k = float(len(s_few)) * len(s_many)
    low, slope_low, high, slope_high, side, trial = 0.0, start, np.inf, np.inf, 0, 1.0
    for _ in range(trials):
        step = trial  # what is returned is what the scores and the band belong to, also when trials run out
        at_few, at_many = s_few + step * d_few, s_many + step * d_many
        band = _survey(at_few, at_many, width, squared)
        of_few, of_many, at_loss = band[6], band[7], band[8]
        slope = fixed + step * rising - (inner(of_few, d_few) - inner(of_many, d_many)) / k
        # beyond the minimum a small slope is not enough: where the kink is sharp P may have risen by much
        risen = step * (fixed + 0.5 * step * rising) + at_loss - loss if slope > 0.0 else 0.0
        if (abs(slope) <= flat * abs(start) and risen <= 0.0) or high - low <= 1e-6 * low:
            break
        # an end that stays counts half (Illinois): else the chord to a steep end creeps along from the other one
        if slope < 0.0:
            slope_high *= 0.5 if side < 0 else 1.0
            low, slope_low, side = step, slope, -1
        else:
            slope_low *= 0.5 if side > 0 else 1.0
            high, slope_high, side = step, slope, 1
        cut = slope_low / (slope_low - slope_high)
        trial = 2.0 * step if high == np.inf else low + min(0.9, max(0.1, cut)) * (high - low)
    return step, at_few, at_many, band


@kernel(error_model="numpy")
def _survey(s_few, s_many, width, squared):
    """Return what a _Band holds after its width: of rows in their own order, but for members and beyond."""
    n, m = len(s_few), len(s_many)
    order = argsort(s_few)
    grid = bucket_grid(s_few[order])
    ordered, start, origin, scale = grid
    first, last, members, beyond, of_places, of_many, loss, slope, magnified = _sum_pairs(
        ordered, start, origin, scale, s_many, width, squared
    )
    of_few = np.empty(n)
    for q in range(n):
        of_few[order[q]] = of_places[q]
    k = float(n) * m
    return order, grid, first, last, members, beyond, of_few, of_many, loss / k, slope / k, magnified


@kernel(error_model="numpy")
def _sum_pairs(ordered, start, origin, scale, many, width, squared):
    """Sum loss and slopes over all pairs of a score in a bucket grid and one of ``many``, u = 1 - ordered[q] + many[j].

    Slopes are 0 for u <= -width, 1 for u >= width and (u + width) / (2 width) between; of the squared hinge max(0, u).
    Returns first, last, members, beyond, of_places, of_many as in _Band, the sums of loss and slopes, and magnified.
    """
    n, m = len(ordered) - 1, len(many)
    steep = 1.0 if squared else (0.5 / width if width > 0.0 else 0.0)
    reach = 0.0 if squared else width
    # 1. prefix sums of scores and squares, from the lowest score, so that losses are sums of what is alike in size: the
    #    sums over any run of places are differences
    sums, squares = _sum_prefixes(ordered)
    lowest = ordered[0]
    # 2. each of the many: its run of places in the band and its loss; the run's ends, for step 4
    first, last, of_many = np.zeros(m, dtype=np.uint32), np.zeros(m, dtype=np.uint32), np.zeros(m)
    opened, closed, moment = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1)
    of_places = np.zeros(n)
    loss, total, n_pairs = 0.0, 0.0, 0
    for j in range(m):
        edge = many[j] + 1.0  # u = edge - ordered[q]
        if edge + reach <= ordered[0]:
            opened[0] += 1  # near the optimum the most common case: below all that it is paired with
            closed[0] += 1
            continue
        a = violated = b = count_below(ordered, start, origin, scale, edge + reach)
        # in a narrow band mostly a = b, which one look tells
        if squared:
            a = np.uint32(0)
            above = edge - lowest
            loss += 0.5 * max(0.0, above * (violated * above - 2.0 * sums[violated]) + squares[violated])
        elif ordered[b - np.uint32(1)] >= edge - reach:
            a = count_below(ordered, start, origin, scale, edge - reach)
            violated = count_below(ordered, start, origin, scale, edge)
        if not squared:
            loss += violated * (edge - lowest) - sums[violated]
        first[j], last[j] = a, b
        opened[a] += 1
        closed[b] += 1
        n_pairs += np.int64(b) - np.int64(a)
    # 3. the slopes of their runs, pair by pair where that is no more work than there are rows
    one_by_one = not squared and n_pairs <= n + m
    is_narrow = not squared and not one_by_one and width < NARROW
    if is_narrow:
        _add_slopes_in_narrow_band(ordered, first, last, many, width, of_places, of_many)
    for j in range(m):
        a, b, top = first[j], last[j], many[j] + 1.0 + reach
        if is_narrow:
            of_many[j] += a
        elif one_by_one:
            of_many[j] = a + _add_slopes(ordered, a, b, top, steep, of_places)
        elif b > 0:
            of_many[j] = a + steep * ((b - a) * (top - lowest) - (sums[b] - sums[a]))
            if squared:
                moment[b - np.uint32(1)] += top - ordered[b - np.uint32(1)]
            else:
                moment[a] += many[j] + 1.0
                moment[b] -= many[j] + 1.0
        total += of_many[j]
    # 4. each place
    steepness = 0.0 if one_by_one or is_narrow else steep
    members, beyond = _sum_slopes(ordered, m, opened, closed, moment, steepness, reach, squared, of_places)
    magnified = max(1.0, steep)
    if one_by_one or is_narrow:
        magnified = float(n) if is_narrow else 1.0  # in a narrow band a place's slopes follow from those before it
    return first, last, members, beyond, of_places, of_many, loss, total, magnified


@kernel()
def _add_slopes_in_narrow_band(ordered, first, last, many, width, of_places, of_many):
    """Add the slopes (u + width) / (2 width) of all pairs in the band to of_places and of_many.

    Sums from the lowest score on would be rounded by a part of the band's width. Here they begin anew wherever a score
    is more than four widths above where they began, of which places a run has at most one; and what a place has follows
    from what the one before has, of runs that both are in.
    """
    n, m, steep = len(ordered) - 1, len(many), 0.5 / width
    begin, within, start, total = np.empty(n, dtype=np.int64), np.empty(n), np.int64(0), 0.0
    for q in range(n):
        if ordered[q] - ordered[start] > 4.0 * width:
            start, total = np.int64(q), 0.0
        total += ordered[q] - ordered[start]
        begin[q], within[q] = start, total
    opened, closed = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    opening, closing = np.zeros(n), np.zeros(n)
    for j in range(m):
        a, b, top = np.int64(first[j]), np.int64(last[j]), many[j] + 1.0 + width
        if a == b:
            continue
        start, before = begin[b - 1], begin[a]
        if start > a:  # the run is in two parts
            total = (b - start) * (top - ordered[start]) - within[b - 1]
            total += (start - a) * (top - ordered[before]) - within[start - 1]
        else:
            total = (b - a) * (top - ordered[before]) - within[b - 1]
        of_many[j] += steep * (total + (within[a] - (ordered[a] - ordered[before])))
        opened[a] += 1
        opening[a] += top - ordered[a]
        if b < n:
            closed[b] += 1
            closing[b] += top - ordered[b - 1]
    inside, excess = 0, 0.0  # of the runs that a place is in, their number and the sum of u + width
    for q in range(n):
        inside -= closed[q]
        excess = excess - closing[q] - inside * (ordered[q] - ordered[q - 1]) if inside > 0 else 0.0
        inside += opened[q]
        excess += opening[q]
        of_places[q] += steep * excess


@kernel()
def _sum_slopes(ordered, m, opened, closed, moment, steep, reach, squared, of_places):
    """Add each place's slopes to ``of_places``: of steepness ``steep`` in the band, none if 0, and 1 each beyond it.

    Of m runs of places ``opened`` and ``closed`` count those that begin and end at each, ``moment`` is the sum of what
    they add to a place's slope there. Returns members and beyond, as in _Band.
    """
    n = len(ordered) - 1
    members, beyond = np.empty(n), np.empty(n)
    seen = inside = 0
    inside_moment = 0.0
    for q in range(n):
        # it is beyond the band of the runs that open after it, and in the band of the open ones
        seen += opened[q]
        inside += opened[q] - closed[q]
        inside_moment += moment[q]
        members[q], beyond[q] = inside, m - seen
        of_places[q] += beyond[q]
        if inside > 0 and steep > 0.0 and not squared:
            of_places[q] += steep * (inside_moment + inside * (reach - ordered[q]))
    if squared:  # from above, each place has the slopes of the one before and what it is further below: nothing cancels
        slopes = 0.0
        for q in range(n - 1, -1, -1):
            slopes += moment[q] + (members[q + 1] * (ordered[q + 1] - ordered[q]) if q + 1 < n else 0.0)
            of_places[q] += slopes
    return members, beyond


@kernel()
def _sum_prefixes(ordered):
    """Return the sums of the first q scores of a bucket grid, less the lowest, and of their squares; q = 0 ... n."""
    sums, squares = np.zeros(len(ordered)), np.zeros(len(ordered))
    for q in range(len(ordered) - 1):
        above = ordered[q] - ordered[0]
        sums[q + 1] = sums[q] + above
        squares[q + 1] = squares[q] + above * above
    return sums, squares


@kernel()
def _count_lost_pairs(ordered, start, origin, scale, many, last):
    """Return the pairs that are not won, ties counting one half; rows far from any violated margin have last = 0."""
    near, n = np.empty(many.size), 0
    for j in range(many.size):
        near[n] = many[j]
        n += last[j] > 0
    return n * (len(ordered) - 1.0) - won_pairs(ordered, start, origin, scale, near[:n])


@kernel()
def _add_slopes(ordered, a, b, top, steep, of_places):
    """Add the slopes of a run of pairs in the band to their places; return their sum. Each is a feasible one."""
    total = 0.0
    for q in range(a, b):
        slope = min(1.0, max(0.0, steep * (top - ordered[q])))
        of_places[q] += slope
        total += slope
    return total


@kernel()
def _laplacian(of_few, of_many, first, last, begin, end, values):
    """Return MV, M being the Laplacian of the graph of the pairs in the band and V the values, those of the few first.

    The j-th of the many is paired with the few at first[j] <= q < last[j], the q-th of the few with the many at
    begin[q] <= j < end[q]. All four ascend. Of one vector ``_curve_pairs`` returns the same, sooner, from differences
    of sums: conjugate gradients, but no exact system, put up with what these round off.
    """
    n, image = of_few.size, np.empty_like(values)
    _sum_windows(values[n:], begin, end, image[:n])
    _sum_windows(values[:n], first, last, image[n:])
    for r in range(len(values)):
        degree = of_few[r] if r < n else of_many[r - n]
        for f in range(values.shape[1]):
            image[r, f] = degree * values[r, f] - image[r, f]
    return image


@kernel()
def _sum_windows(values, begin, end, sums):
    """Set sums[k] to the sum of values[begin[k]:end[k]]; both ends ascend.

    Nothing is subtracted: a window is a tail of rows whose sums to their end are known, and the rows after that end.
    """
    tails, after, middle, seen = np.empty_like(values), np.zeros_like(values[0]), 0, 0
    for k in range(len(sums)):
        if begin[k] >= middle:
            middle, seen, after = end[k], end[k], np.zeros_like(after)
            for q in range(end[k] - 1, begin[k] - 1, -1):
                tails[q] = values[q]
                if q + 1 < end[k]:
                    tails[q] += tails[q + 1]
        for q in range(seen, end[k]):
            after += values[q]
        seen = max(seen, end[k])
        sums[k] = after
        if begin[k] < middle:
            sums[k] += tails[begin[k]]


@kernel(fastmath={"contract"})
def _curve_pairs(few, many, first, last, members):
    """Apply sum_band (z'd) z, as sums per place and per row, to z'd = few[q] - many[j]."""
    n, m = len(few), len(many)
    sums, moment = np.zeros(n + 1), np.zeros(n + 1)
    for q in range(n):
        sums[q + 1] = sums[q] + few[q]
    of_places, of_many = np.empty(n), np.empty(m)
    for j in range(m):
        a, b = first[j], last[j]
        of_many[j] = sums[b] - sums[a] - (b - a) * many[j]
        moment[a] += many[j]
        moment[b] -= many[j]
    inside = 0.0
    for q in range(n):
        inside += moment[q]
        of_places[q] = members[q] * few[q] - inside
    return of_places, of_many


@kernel()
def _sample(lengths, most):
    """Return at most so many places, ascending, and how many places each stands for: a systematic sample.

    A place is taken in proportion to 1 + length / mean length, and for certain if it is due more than once.
    """
    n, total = lengths.size, 0.0
    for k in range(n):
        total += lengths[k]
    sample, weights = np.empty(most, dtype=np.int64), np.empty(most)
    size, due = 0, 0.5
    for k in range(n):
        share = 0.5 * most * (1.0 / n + (lengths[k] / total if total > 0.0 else 0.0))
        share = min(share, 1.0)
        due += share
        if due >= 1.0 and size < most:
            sample[size], weights[size] = k, 1.0 / share
            size += 1
            due -= 1.0
    return sample[:size], weights[:size]


@kernel()
def _weigh(rows, lengths, most):
    """Return the places of at most so many rows, and how many each stands for; all of them if there are no more."""
    if rows.size > most:
        own = np.empty(rows.size)
        for k in range(rows.size):
            own[k] = lengths[rows[k]]
        return _sample(own, most)
    taken, weights = np.empty(rows.size, dtype=np.int64), np.empty(rows.size)
    for k in range(rows.size):
        taken[k], weights[k] = k, 1.0
    return taken, weights


@kernel()
def _choose_pairs(order, members, first, last, few_lengths, many_lengths, most):
    """Return the fields of a _Curvature but for the last; the squared lengths are read of more than ``most`` rows."""
    # 1. the rows that have pairs in the band, and those of them that stand for all
    n, m = 0, 0
    places, of_place, in_band = np.empty_like(order), np.empty_like(order), np.empty(first.size, dtype=np.int64)
    for q in range(order.size):
        places[n], of_place[n] = q, order[q]
        n += members[q] > 0.0
    for j in range(first.size):
        in_band[m] = j
        m += first[j] < last[j]
    few, few_weights = _weigh(of_place[:n], few_lengths, most)
    many, many_weights = _weigh(in_band[:m], many_lengths, most)
    # 2. taken[q]: how many of the few come before place q; weight[t]: how many rows the first t of them stand for
    taken, weight = np.zeros(order.size + 1, dtype=np.int64), np.zeros(few.size + 1)
    for t in range(few.size):
        taken[places[few[t]] + 1] = 1
        weight[t + 1] = weight[t] + few_weights[t]
        few[t] = of_place[few[t]]
    for q in range(order.size):
        taken[q + 1] += taken[q]
    # 3. the pairs of each row
    begin, end = np.empty_like(many), np.empty_like(many)
    opened, of_many = np.zeros(few.size + 1), np.empty(many.size)
    for j in range(many.size):
        many[j] = in_band[many[j]]
        begin[j], end[j] = taken[first[many[j]]], taken[last[many[j]]]
        opened[begin[j]] += many_weights[j]
        opened[end[j]] -= many_weights[j]
        of_many[j] = many_weights[j] * (weight[end[j]] - weight[begin[j]])
    of_few, inside = np.empty(few.size), 0.0
    for t in range(few.size):
        inside += opened[t]
        # rounding may leave less than nothing of runs that have all ended
        of_few[t] = max(inside, 0.0) * few_weights[t]
    return few, many, few_weights, many_weights, begin, end, of_few, of_many


@kernel()
def _dense_hessian(few, many, choice, factor, lam):
    """Return H of dense rows, of the pairs that ``_choose_pairs`` takes."""
    few_rows, many_rows, few_weights, many_weights, first, last, of_few, of_many = _choose_pairs(*choice)
    d = few.shape[1]
    sums, (block, total) = np.zeros((few_rows.size + 1, d)), room_for(max(few_rows.size, many_rows.size), d)
    _sum_bands(many, many_rows, many_weights, first, last, few_weights, sums)
    add_squares(many, many_rows, of_many, block, total)
    _add_mixed_products(few, few_rows, of_few, sums, block, total)
    hessian = np.empty((d, d))
    for f in range(d):
        for g in range(d):
            hessian[f, g] = factor * total[f, g]
        hessian[f, f] += lam
    return hessian


@kernel(fastmath={"contract"})
def _sum_bands(rows, which, weights, first, last, place_weights, sums):
    """Set sums[q] to the weighted sum of rows which[j] with first[j] <= q < last[j], times the place's own weight.

    A row is added at one end and removed at the other. The last place is beyond all.
    """
    for j in range(which.size):
        add(rows, which[j], weights[j], sums[first[j]])
        add(rows, which[j], -weights[j], sums[last[j]])
    total = np.zeros(sums.shape[1])
    for q in range(place_weights.size):
        weight = place_weights[q]
        for f in range(total.size):
            total[f] += sums[q, f]
            sums[q, f] = weight * total[f]


@kernel(fastmath={"contract"}, forceinline=True)  # as in _gram
def _add_mixed_products(rows, which, counts, sums, block, total):
    """Add sum_q (counts[q] xx' - x sums[q]' - sums[q] x') to the lower triangle of total, x being rows[which[q]]."""
    size, other = block.shape[1], np.zeros_like(block)
    for start in range(0, which.size, size):
        if start + size > which.size:
            block[:] = 0.0
        for i in range(min(size, which.size - start)):
            row, half, own = rows[which[start + i]], 0.5 * counts[start + i], sums[start + i]
            for f in range(row.size):
                block[f, i] = row[f]
                other[f, i] = half * row[f] - own[f]
        add_both(block, other, total)


@kernel(fastmath={"contract"})
def _add_mixed(data, cols, ptr, which, sums, mixed):
    """Add sum_q x_q sums[q]', x_q being the CSR row which[q]."""
    for q in range(which.size):
        for e in range(ptr[which[q]], ptr[which[q] + 1]):
            target = mixed[cols[e]]
            for f in range(sums.shape[1]):
                target[f] += data[e] * sums[q, f]


@kernel(error_model="numpy")
def _solve_on_simplex(gram, b, beta, tol, max_steps):
    """Minimise beta'gram beta/2 - b'beta on the simplex, in place, by moving weight between two entries at a time.

    Weight goes to the entry of least gradient, from the one that gains most. The difference of the gradients of a used
    entry and of the least bounds the suboptimality, since the weights sum to 1.
    """
    m = len(b)
    gradient = np.empty(m)
    for s in range(m):
        gradient[s] = -b[s]
        for t in range(m):
            gradient[s] += gram[s, t] * beta[t]
    for _ in range(max_steps):
        to = 0
        for s in range(1, m):
            to = s if gradient[s] < gradient[to] else to
        origin, gain, worst, move = -1, 0.0, 0.0, 0.0
        for s in range(m):
            excess = gradient[s] - gradient[to]
            if beta[s] > 0.0 and excess > 0.0:
                worst = max(worst, excess)
                curvature = max(gram[s, s] + gram[to, to] - 2.0 * gram[s, to], 1e-300)
                step = min(beta[s], excess / curvature)
                if step * (excess - 0.5 * step * curvature) > gain:
                    origin, gain, move = s, step * (excess - 0.5 * step * curvature), step
        if worst <= tol or origin < 0:
            break
        beta[origin] -= move
        beta[to] += move
        for s in range(m):
            gradient[s] += move * (gram[s, to] - gram[s, origin])
