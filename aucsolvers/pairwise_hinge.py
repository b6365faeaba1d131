"""Pairwise hinge loss: dual coordinate descent over the pairs (AUCSDCD) and its memory-free variant (AUCMSGD).

Both minimise, over pairs (i, j) of a positive x_i and a negative x_j with z_ij = x_i - x_j and k = n_pos * n_neg,

    P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'z_ij)

through its dual, to be maximised over 0 <= a_ij <= 1,

    D(a) = 1/k sum_ij a_ij - lam/2 ||w(a)||^2,    w(a) = 1/(lam k) sum_ij a_ij z_ij.

P(w) - D(a) >= P(w) - min P for every feasible a: each solver keeps track of one such a, stored or not.
From top to bottom: estimators, drivers, order of visits, certificates, kernels.
"""

import hashlib
import logging
from functools import partial
from itertools import chain, pairwise

import numpy as np
from scipy import sparse

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace
from aucsolvers._jit import kernel
from aucsolvers._pairs import add_difference, dot_difference, measure_difference, squared_distance
from aucsolvers._pairwise import split_classes
from aucsolvers._params import as_generator, check_choice, check_count, check_flags, check_non_negative, check_positive
from aucsolvers._prefetch import prefetch_line
from aucsolvers._ranking import ascending, bucket_grid, count_below, won_pairs
from aucsolvers._rows import (
    REDUCE,
    as_rows,
    inner,
    own_arrays,
    row_scores,
    stored_once,
    weighted_row_sum,
    zeros_in_lines,
)
from aucsolvers._transaction import all_or_nothing, transactional
from aucsolvers._twofold import weighted_difference
from aucsolvers.metrics import margin_violations

logger = logging.getLogger(__name__)

ORDERS = ("permutation", "random")
CHUNK = 32768  # visits drawn at a time: 512 KiB of indices, so that they stay in the second-level cache
FIRST_EPOCH_POINTS = 10
AHEAD = 16  # visits between asking for a dual variable and using it: at least 150 ns, one trip to memory
BAND_BYTES = 2**18  # of positive and negative rows together that rounds are held to: they stay in the cache meanwhile
LEAST_BAND = 16  # rows: fewer in turn would be learnt by heart
LINE = 8  # dual variables in a cache line
HASHED = 2**20  # numbers that are brought to one type at a time
LINES_AHEAD = 32  # lines between asking for one and adding it up
TO_MULTIPLES = 1.5 * 2.0**26  # added to a dual variable and taken away again, it rounds that to a multiple of 2^-26

# Kernels use numpy's error model: x/0 is inf, with no test for it at each division (6 of 30 ns an update).


# Estimators ------------------------------------------------------------------------------------------------------


class AUCSDCD(LinearScorer):
    """Linear AUC maximiser by stochastic dual coordinate descent on the pairwise hinge loss, with a duality gap.

    Minimises P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'(x_i - x_j)) over the k = n_pos * n_neg pairs: the loss is
    a mean over pairs, so lam does not depend on the number of rows.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0.
    order : {"permutation", "random"}, default="permutation"
        "permutation" (SDCDperm) visits every pair once an epoch, in a fresh order; "random" (SDCD) draws pairs
        uniformly with replacement.
    tol : float, default=1e-3
        Stop when the duality gap, in units of P(0) = 1, is at most tol, after any epoch. 0 uses up max_iter.
    max_iter : int, default=100
        Largest number of epochs of k updates. The published budget is one.
    random_state : int, Generator, RandomState or None, default=None
        Seeds the order of visits.
    warm_start : bool, default=False
        Go on from the dual variables (and the random stream) of the last fit, if the class sizes are still the same.
        Any lam and any rows may change in between: w is recomputed from the dual variables. They are then kept in
        the estimator, 8 k bytes, and pickled with it. A fit that goes on changes them in place: if it is interrupted,
        the model stays the one before, and the next fit goes on from what had been reached.
    max_bytes : int, default=4 * 1024**3
        Refuse data whose dual variables need more memory than this.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        w(a) for the last dual variables.
    intercept_ : ndarray of shape (1,)
        Minus the threshold of the largest G-mean on the training scores: the loss does not see a bias.
    objective_ : float
        P(coef_).
    dual_gap_ : float
        P(w) - D(a) >= P(w) - min P: certifies the objective, up to rounding.
    gap_unit_ : float
        max(1, objective at w = 0), here always 1. ``dual_gap_ / gap_unit_`` compares fits to different data.
    n_iter_ : int
        Epochs done by this fit; 0 if a warm start was within tol already.
    status_ : {"converged", "max_iter", "diverged"}
        Whether dual_gap_ <= tol; "diverged" where objective_ overflowed.
    history_ : dict of ndarray
        ``updates``, ``objective``, ``dual_gap``, ``auc`` (training), ``time_s``: at the start, about ten times within
        the first epoch, and after each epoch.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, features whose squares overflow, or too many pairs for
        max_bytes.

    Warns
    -----
    ConvergenceWarning
        If max_iter epochs did not bring the gap to tol.

    Notes
    -----
    An epoch costs O(k d), or O(k nnz per row) for CSR; its certificate O(n d + n log n + k). Memory is 8 k bytes and a
    copy of the rows, float32 ones as they are, with zeros for up to a quarter more, in an order drawn once: copies of a
    row side by side would be visited in turn. w is rebuilt from the dual variables after each epoch, so rounding does
    not accumulate. The same seed gives the same bits on the same machine and library versions, and a warm-started fit
    of 5 + 5 epochs the same bits as one of 10.

    A pair of identical rows has z_ij = 0 and loss 1 whatever w is. Its dual optimum is a_ij = 1: it moves no weight,
    but leaving it at 0 would keep the gap open by 1/k.

    References
    ----------
    .. [1] Jiang, Tao, Gao, Chu, "Dual Coordinate Descent Method for Solving AUC Optimization Problem", Journal of
       Software 25(10), 2014: eqs. 5 and 6, algorithms 1 and 2.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import AUCSDCD
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AUCSDCD(lam=1e-2, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.dual_gap_ <= 1e-3), round(float(model.history_["auc"][-1]), 2)
    ('converged', True, 1.0)
    """

    def __init__(
        self,
        lam=1e-3,
        *,
        order="permutation",
        tol=1e-3,
        max_iter=100,
        random_state=None,
        warm_start=False,
        max_bytes=4 * 1024**3,
    ):
        self.lam = lam
        self.order = order
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.warm_start = warm_start
        self.max_bytes = max_bytes

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        _check_common(self)
        check_count("max_bytes", self.max_bytes)
        check_flags(self, "warm_start")

    @transactional
    def fit(self, X, y):
        """Fit to X, shape (n_samples, n_features), dense or CSR, and two-class labels y; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        self.check_size(np.count_nonzero(y > 0), np.count_nonzero(y < 0))
        state = self._state_to_go_on(y) or {"generator": as_generator(self.random_state)}
        result = dual_coordinate_descent(X, y, float(self.lam), self.order, float(self.tol), int(self.max_iter), state)
        # 8 k bytes: only kept where a later fit can use them
        self._state = result.state if self.warm_start else None
        return self._publish(result, X, y)

    def check_size(self, n_pos, n_neg):
        """Raise ValueError if the dual variables of that many pairs would take more than ``max_bytes``."""
        k = int(n_pos) * int(n_neg)
        if 8 * k > self.max_bytes:
            raise ValueError(
                f"Expected dual variables of at most max_bytes={self.max_bytes} bytes, got "
                f"{n_pos} x {n_neg} = {k} pairs, which need {8 * k} bytes. Raise max_bytes if the memory is "
                "there, or use SVMOR (same objective, memory O(n d)) or LSSVM (pairwise square loss, exact)."
            )

    def _state_to_go_on(self, y):
        state = getattr(self, "_state", None) if self.warm_start else None
        if state is None:
            return None
        shape = (np.count_nonzero(y > 0), np.count_nonzero(y < 0))
        of = tuple(map(len, state.get("orders", ())))
        if of != shape:
            logger.info("starting cold: the dual variables are of %s rows, the data of %s", of, shape)
            return None
        own_arrays(state)
        return state


class AUCMSGD(LinearScorer):
    """Linear AUC maximiser by modified stochastic gradient descent: dual steps that need no dual variables.

    Minimises P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'(x_i - x_j)) over the k = n_pos * n_neg pairs, as AUCSDCD.
    At update t the pair at hand gets the dual step of a problem with t pairs that has not seen it yet.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0.
    order : {"permutation", "random"}, default="permutation"
        "permutation" visits every pair once an epoch, in a fresh order, and has the sharp certificate; "random" draws
        pairs uniformly with replacement, as published, and has the gradient's, which is looser where lam is small, up
        to some 20 times, and often sharper where it is large.
    tol : float, default=1e-3
        Stop when the certificate, in units of P(0) = 1, is at most tol. Looked at after each epoch.
    max_iter : int, default=100
        Largest number of epochs of k updates. The published budget is one.
    random_state : int, Generator, RandomState or None, default=None
        Seeds the order of visits.
    warm_start : bool, default=False
        Go on with the visits of the previous fit, for up to max_iter epochs more: with the same rows and ``order``, for
        whose dual variables the sum of the steps stands, and any lam. Other data, and dense for sparse ones, start
        cold.

    Attributes
    ----------
    coef_, intercept_, objective_, n_iter_, status_, history_, classes_
        As of AUCSDCD; after a warm start the ``updates`` of history_ go on from those of the fit before.
    dual_gap_ : float
        An upper bound on P(w) - min P; see Notes.
    gap_unit_ : float
        max(1, objective at w = 0), here always 1. ``dual_gap_ / gap_unit_`` compares fits to different data.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, or features whose squares overflow.

    Warns
    -----
    ConvergenceWarning
        If max_iter epochs did not bring the certificate to tol: with "permutation" it falls about as 1/epochs.

    Notes
    -----
    Time and order of visits as AUCSDCD, memory O(n d). Certificates: after t updates w = 1/(lam t) sum_s a_s z_s, which
    is w(a) for the dual variables k/t times the sum of the steps that a pair received. Visits by permutation give a
    pair at most ceil(t/k) steps in [0, 1], so a shrunk by t/(k ceil(t/k)), a factor 1 at the end of an epoch, is
    feasible: D costs O(1) from the sum of the steps. Draws with replacement have no such bound; there the slopes of the
    loss at w itself are the dual variables, whose gap is ||dP(w)||^2/(2 lam). The best lower bound seen so far counts.

    References
    ----------
    .. [1] Jiang, Tao, Gao, Chu, "Dual Coordinate Descent Method for Solving AUC Optimization Problem", Journal of
       Software 25(10), 2014: eq. 7, algorithm 3.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import AUCMSGD
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AUCMSGD(lam=1e-2, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.dual_gap_ <= 1e-3), round(float(model.history_["auc"][-1]), 2)
    ('converged', True, 1.0)
    """

    def __init__(self, lam=1e-3, *, order="permutation", tol=1e-3, max_iter=100, random_state=None, warm_start=False):
        self.lam = lam
        self.order = order
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.warm_start = warm_start

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        _check_common(self)
        check_flags(self, "warm_start")

    @transactional
    def fit(self, X, y):
        """Fit to X, shape (n_samples, n_features), dense or CSR, and two-class labels y; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        visited = (self.order, _fingerprint(X, y)) if self.warm_start else None
        state = self._state_to_go_on(visited) or {"generator": as_generator(self.random_state)}
        with all_or_nothing(state):
            result = modified_gradient_descent(
                X, y, float(self.lam), self.order, float(self.tol), int(self.max_iter), state
            )
        self._state = {"visited": visited, "lam": self.lam, "run": result.state} if self.warm_start else None
        return self._publish(result, X, y)

    def _state_to_go_on(self, visited):
        state = getattr(self, "_state", None) if self.warm_start else None
        if state is None:
            return None
        if state["visited"] != visited:
            logger.info("starting cold: the steps so far were made with other rows or in another order")
            return None
        return state["run"] | ({} if state["lam"] == self.lam else {"lower_bound": 0.0})


def _fingerprint(X, y):
    """Return a digest of rows and labels, which tells whether they are those of another fit, stored as other types."""
    digest = hashlib.sha256(repr((X.shape, sparse.issparse(X))).encode())
    X = stored_once(X)
    for array in (X.data, X.indices, X.indptr, y) if sparse.issparse(X) else (X.reshape(-1), y):
        wide = np.float64 if array.dtype.kind == "f" else np.int64
        for start in range(0, len(array), HASHED):
            digest.update(np.ascontiguousarray(array[start : start + HASHED], dtype=wide).data)
    return digest.digest()


def _check_common(solver):
    check_positive("lam", solver.lam)
    check_choice("order", solver.order, ORDERS)
    check_non_negative("tol", solver.tol)
    check_count("max_iter", solver.max_iter)


# Drivers ---------------------------------------------------------------------------------------------------------


def dual_coordinate_descent(X, y, lam, order, tol, max_iter, state):
    """Minimise P by coordinate ascent on D; y is +-1. Return a SolverResult whose ``state`` continues the run.

    ``state`` holds ``generator`` and, to go on, the classes' ``orders`` and ``alpha`` of their pairs, in lines (see
    "Lines of dual variables" below); alpha is updated in place.
    """
    # 1. the classes as blocks, the dual variables, and the w that belongs to them
    generator, orders = state["generator"], _orders_of_classes(y, state)
    pos, neg = split_classes(X, y, *orders)
    shape, alpha = (pos.shape[0], neg.shape[0]), state.get("alpha")
    if alpha is None:
        alpha, w, alpha_sum = zeros_in_lines(shape[0] * shape[1]), zeros_in_lines(pos.shape[1]), 0.0
    else:
        w, alpha_sum = _primal_of(alpha, pos, neg, lam)
    sweep, band = _bind(_dual_sweep_dense, _dual_sweep_sparse, pos, neg), _rows_in_band(pos, neg)
    trace, updates = Trace(), 0
    objective, gap = _record_dual(trace, updates, w, alpha_sum / alpha.size, pos, neg, lam)

    n_iter = 0
    while gap > tol and n_iter < max_iter:
        points = () if n_iter else _first_epoch_points(alpha.size)
        # 2. one epoch of updates, w and sum(alpha) carried along
        for rows, columns, pairs in epoch_visits(order, *shape, generator, points, band):
            alpha_sum += sweep(rows, columns, pairs, alpha, w, lam * alpha.size)
            updates += len(rows)
            if updates in points:
                _record_dual(trace, updates, w, alpha_sum / alpha.size, pos, neg, lam)
        # 3. w afresh from alpha, O(k) after O(k d): rounding cannot pile up, and the certificate is that of this alpha
        w, alpha_sum = _primal_of(alpha, pos, neg, lam)
        objective, gap = _record_dual(trace, updates, w, alpha_sum / alpha.size, pos, neg, lam)
        n_iter += 1
    status = CONVERGED if gap <= tol else MAX_ITER
    state = {"generator": generator, "orders": orders, "alpha": alpha}
    return SolverResult(w[: X.shape[1]].copy(), None, objective, gap, n_iter, status, trace.as_history(), state)


def modified_gradient_descent(X, y, lam, order, tol, max_iter, state):
    """Minimise P without dual variables; y is +-1. Return a SolverResult whose ``state`` continues the run.

    ``state`` holds ``generator`` and, to go on with the same data, the classes' ``orders``, ``step_sum`` = sum_s a_s
    z_s = lam t w, its number of updates t, ``alpha_sum`` = sum_s a_s and the best ``lower_bound`` on min P, which a
    change of lam makes void.
    """
    # 1. the classes as blocks; w is never stored: step_sum = lam t w saves the shrinking of w at each update
    orders = _orders_of_classes(y, state)
    pos, neg = split_classes(X, y, *orders)
    shape, band = (pos.shape[0], neg.shape[0]), _rows_in_band(pos, neg)
    state = {"step_sum": zeros_in_lines(pos.shape[1]), "updates": 0, "alpha_sum": 0.0, "lower_bound": 0.0} | state
    state["orders"] = orders
    state["step_sum"] = state["step_sum"].copy()  # an interrupt leaves the state that was given as it was
    sweep = partial(_gradient_sweep, as_rows(pos), as_rows(neg))
    trace, start = Trace(), state["updates"]
    w, objective, gap = _record_gradient(trace, state, order, pos, neg, lam)

    n_iter = 0
    # at least one epoch: the gradient may certify w = 0 (large lam, tiny features), which ranks nothing
    while (gap > tol or state["updates"] == 0) and n_iter < max_iter:
        points = () if n_iter else _first_epoch_points(shape[0] * shape[1])
        # 2. one epoch of updates
        for rows, columns, _ in epoch_visits(order, *shape, state["generator"], points, band):
            state["alpha_sum"] = sweep(rows, columns, state["updates"], state["alpha_sum"], state["step_sum"], lam)
            state["updates"] += len(rows)
            if state["updates"] - start in points:
                _record_gradient(trace, state, order, pos, neg, lam)
        # 3. the certificate of w = step_sum / (lam t)
        w, objective, gap = _record_gradient(trace, state, order, pos, neg, lam)
        n_iter += 1
    status = CONVERGED if gap <= tol else MAX_ITER
    return SolverResult(w[: X.shape[1]].copy(), None, objective, gap, n_iter, status, trace.as_history(), state)


def _orders_of_classes(y, state):
    """Return the order of the positives and that of the negatives, drawn once for all epochs and warm starts.

    Neighbours are visited together. Those of the data are often alike, and learn little from each other.
    """
    if "orders" in state:
        return state["orders"]
    return tuple(state["generator"].permutation(np.count_nonzero(chosen)) for chosen in (y > 0, y < 0))


def _bind(dense_kernel, sparse_kernel, pos, neg):
    """Return the kernel for this storage with the rows filled in."""
    return partial(sparse_kernel if sparse.issparse(pos) else dense_kernel, as_rows(pos), as_rows(neg))


# Order of visits -------------------------------------------------------------------------------------------------


def epoch_visits(order, n_pos, n_neg, generator, points=(), band=LEAST_BAND):
    """Yield one epoch's n_pos * n_neg visits in chunks that end at points.

    A chunk is (positive rows, negative rows, places of their dual variables), int32, int32 and int64.
    """
    k = n_pos * n_neg
    if order == "permutation":
        key = _round_robin_key(n_pos, n_neg, generator)
    for start, stop in pairwise(chain(range(0, k, CHUNK), [k])):
        pairs = np.empty(stop - start, dtype=np.int64)
        if order == "random":
            # bounded integers without modulo bias; the two draws are independent, so every pair has chance 1/k
            rows, columns = (generator.integers(size, size=stop - start, dtype=np.int32) for size in (n_pos, n_neg))
            _locate_drawn(rows, columns, n_pos, n_neg, pairs)
        else:
            rows, columns = np.empty((2, stop - start), dtype=np.int32)
            _round_robin(*key, n_neg, band, start, rows, columns, pairs)
        # what is drawn must not depend on where somebody looks
        for first, last in pairwise([start, *(point for point in sorted(points) if start < point < stop), stop]):
            yield tuple(side[first - start : last - start] for side in (rows, columns, pairs))


def _round_robin_key(n_pos, n_neg, generator):
    """Draw what ``_round_robin`` takes: by place, and by round.

    In round r the positive at place p, order[p], meets negative (opponents[p] + shifts[r]) mod n_neg. The dual variable
    of the two is at origins[p] + strides[p] s, s = (diagonals[p] + shifts[r]) mod n_neg being its line in its block.
    LINE neighbours stay together, and shifts go in neighbouring twos.
    """
    blocks = generator.permutation(-(-n_pos // LINE))
    groups = generator.permutation(max(1, n_neg // LINE))
    # all negatives in turn, each turn from another one: as evenly as can be, and never in step
    starts = generator.integers(n_neg, size=-(-blocks.size // groups.size))
    by_place = *np.empty((4, n_pos), dtype=np.int32), np.empty(n_pos, dtype=np.int64)
    _set_places(blocks, groups, starts, n_neg, *by_place)
    return *by_place, _shuffled_in_twos(n_neg, generator)


def _shuffled_in_twos(n, generator):
    """Return 0 ... n - 1 in random order but for twos of neighbours; the last of an odd number stays the last."""
    twos = np.arange(n - n % 2, dtype=np.int32).reshape(-1, 2)
    return np.append(generator.permutation(twos), np.arange(n - n % 2, n, dtype=np.int32))


def _rows_in_band(pos, neg):
    """Return how many positives, with as many negatives, are BAND_BYTES on average."""
    n_bytes = sum(rows.data.nbytes + (rows.indices.nbytes if sparse.issparse(rows) else 0) for rows in (pos, neg))
    each = n_bytes / (pos.shape[0] + neg.shape[0])
    return max(LEAST_BAND, int(BAND_BYTES / (2.0 * max(each, 1.0))) // LINE * LINE)


def _first_epoch_points(k):
    """Return the update numbers, geometrically spaced up to k, at which the first epoch is looked at.

    Even ones: visits are made in twos, and which two must not depend on where somebody looks.
    """
    return {
        point + point % 2 for point in np.geomspace(1, k, FIRST_EPOCH_POINTS + 1).astype(int).tolist() if point < k - 1
    }


# Certificates ----------------------------------------------------------------------------------------------------


def _primal_of(alpha, pos, neg, lam):
    """Return w(alpha) and sum(alpha): sum_ij a_ij (x_i - x_j) needs only the sums over j and over i.

    They are twofold: equal rows of both classes have a_ij = 1, which may be far above all that moves w.
    """
    of_pos, of_neg = np.zeros((2, pos.shape[0])), np.zeros((2, neg.shape[0]))
    _add_sums(alpha, of_pos, of_neg)
    pull = weighted_difference(pos, of_pos, neg, of_neg)
    return np.divide(pull, lam * alpha.size, out=zeros_in_lines(pull.size)), float(of_pos.sum())


def _record_dual(trace, updates, w, alpha_mean, pos, neg, lam):
    """Add a point to the trace; return P(w) and P(w) - D(alpha), where w = w(alpha)."""
    hinge, area = _hinge_and_auc(row_scores(pos, w), row_scores(neg, w))
    norm = inner(w, w)
    objective = 0.5 * lam * norm + hinge
    gap = max(0.0, hinge + lam * norm - alpha_mean)
    trace.add_with_auc(updates, objective, gap, area)
    return objective, gap


def _record_gradient(trace, state, order, pos, neg, lam):
    """Add a point to the trace and raise the state's lower bound; return w, P(w) and the certificate."""
    t = state["updates"]
    w = state["step_sum"] / (lam * max(t, 1))
    s_pos, s_neg = row_scores(pos, w), row_scores(neg, w)
    hinge, area = _hinge_and_auc(s_pos, s_neg)
    norm = inner(w, w)
    objective = 0.5 * lam * norm + hinge
    if order == "permutation":
        # a pair has had at most ceil(t/k) steps: shrunk by this factor, the dual variables behind w are <= 1
        k = len(s_pos) * len(s_neg)
        shrink = t / (k * -(-t // k)) if t else 0.0
        lower_bound = shrink * state["alpha_sum"] / max(t, 1) - 0.5 * lam * shrink**2 * norm
    else:
        gradient = lam * w + _hinge_slope(s_pos, s_neg, pos, neg)
        lower_bound = objective - inner(gradient, gradient) / (2 * lam)
    state["lower_bound"] = max(state["lower_bound"], lower_bound)
    gap = max(0.0, objective - state["lower_bound"])
    trace.add_with_auc(t, objective, gap, area)
    return w, objective, gap


def _hinge_and_auc(s_pos, s_neg):
    """Return 1/k sum_ij max(0, 1 - s_i + s_j) and the AUC: the smaller class is sorted, the other located in it.

    Any shift of all scores cancels; centring keeps a large common offset out of the rounding.
    """
    centre = s_neg.mean()
    # s_i - s_j = (-s_j) - (-s_i), so that either class may be the one that wins
    few, many = sorted((s_pos - centre, centre - s_neg), key=len)
    grid, k = bucket_grid(ascending(few)), len(few) * len(many)
    return _sum_hinge(*grid, -many) / k, won_pairs(*grid, -many) / k


def _hinge_slope(s_pos, s_neg, pos, neg):
    """Return the gradient of the mean pair hinge: each violated pair pulls along -z_ij."""
    c_pos, c_neg = margin_violations(s_pos, s_neg)
    return (weighted_row_sum(neg, c_neg) - weighted_row_sum(pos, c_pos)) / (len(s_pos) * len(s_neg))


# Kernels ---------------------------------------------------------------------------------------------------------


# Lines of dual variables: those of pairs visited one after the other lie side by side, for else each visit fetches a
# cache line of its own from memory. LINE neighbouring positives have a block of n_neg lines; line s holds their dual
# variables with the negatives s places further on, counted in a circle. The last block's lines may be shorter.


@kernel()
def _locate_drawn(rows, columns, n_pos, n_neg, pairs):
    """Turn draws of a positive and a line of its block into those of a positive and a negative, and locate the two."""
    for t in range(len(rows)):
        i, line = rows[t], columns[t]
        first = i - i % np.int32(LINE)
        pairs[t] = first * n_neg + np.int64(line) * min(LINE, n_pos - first) + i - first
        columns[t] = _around((i if i < n_neg else np.int32(i % n_neg)) + line, n_neg)


@kernel()
def _add_sums(alpha, of_pos, of_neg):
    """Add to of_pos and of_neg the sums of the dual variables of each positive and each negative: one reading.

    They are twofold: in the first rows sums of multiples of 2^-26, which are exact, in the second of what is left.
    """
    n_pos, n_neg = np.uint64(of_pos.shape[1]), np.uint64(of_neg.shape[1])
    # of a block: by place in the line, by s + place
    here, there = np.zeros((2, LINE)), np.zeros((2, n_neg + np.uint64(LINE)))
    for first in range(np.uint64(0), n_pos, np.uint64(LINE)):
        block, m = first * n_neg, min(np.uint64(LINE), n_pos - first)
        if m == np.uint64(LINE):
            _add_lines(alpha, block, LINE, n_neg, here, there)  # of known length: unrolled
        else:
            _add_lines(alpha, block, m, n_neg, here, there)
        for part in range(2):
            for u in range(m):
                of_pos[part, first + u] += here[part, u]
                here[part, u] = 0.0
            j = first % n_neg
            for c in range(n_neg + m - np.uint64(1)):
                of_neg[part, j] += there[part, c]
                there[part, c] = 0.0
                j = j + np.uint64(1) if j + np.uint64(1) < n_neg else np.uint64(0)


@kernel()
def _add_lines(alpha, block, m, n_neg, here, there):
    """Add the n_neg lines of m dual variables from ``block`` on: place u of line s to here[u] and there[s + u].

    They come from memory in order, and yet in half the time if they are asked for.
    """
    coming = alpha.ctypes.data + np.int64(8) * np.int64(block + np.uint64(LINES_AHEAD * LINE))
    for s in range(n_neg):
        prefetch_line(coming)
        coming += np.int64(8) * np.int64(m)
        for u in range(np.uint64(m)):
            value = alpha[block + np.uint64(m) * s + u]
            main = (value + TO_MULTIPLES) - TO_MULTIPLES
            here[0, u] += main
            here[1, u] += value - main
            there[0, s + u] += main
            there[1, s + u] += value - main


@kernel()
def _sum_hinge(ordered, start, origin, scale, many):
    """Return the sum of max(0, 1 - ordered[q] + many[j]) over all pairs, from a bucket grid."""
    n, loss = len(ordered) - 1, 0.0
    sums = np.zeros(n + 1)  # of the first q scores
    for q in range(n):
        sums[q + 1] = sums[q] + ordered[q]
    for j in range(len(many)):
        edge = many[j] + 1.0
        if edge > ordered[0]:
            violated = count_below(ordered, start, origin, scale, edge)
            loss += violated * edge - sums[violated]
    return loss


@kernel()
def _set_places(blocks, groups, starts, n_neg, order, opponents, diagonals, strides, origins):
    """Set what ``_round_robin_key`` tells of each place, from the order of blocks and which negatives each faces."""
    n_pos, p = order.size, 0
    for q in range(blocks.size):
        turn, group = divmod(q, groups.size)
        first, facing = LINE * blocks[q], LINE * groups[group] + starts[turn]
        m = min(LINE, n_pos - first)  # the last block may be narrower
        for u in range(m):
            order[p], opponents[p] = first + u, (facing + u) % n_neg
            diagonals[p] = (facing - first) % n_neg
            strides[p], origins[p] = m, first * n_neg + u
            p += 1


@kernel()
def _round_robin(order, opponents, diagonals, strides, origins, shifts, n_neg, band, start, rows, columns, pairs):
    """Fill rows, columns and pairs with visits start, start + 1, ... of an epoch that visits each pair exactly once.

    As in a round-robin tournament: round r pairs the positive at place p with negative (opponents[p] + shifts[r]) mod
    n_neg. For a fixed p the n_neg shifts reach every negative once, so the visits are a bijection on the pairs,
    without storing k of anything. Each round visits every positive once: more even than draws.

    Two rounds are played together, ``band`` places of the one, the same places of the other, and so on: with
    neighbouring shifts they meet the same rows, and neighbouring lines of dual variables. Measured on real data, gap
    against epochs is that of a uniform permutation; four rounds together, or square tiles, are behind it for small lam.
    """
    n_pos = len(order)
    t = 0
    while t < len(rows):
        turn, done = divmod(start + t, 2 * n_pos)
        n_rounds = min(2, n_neg - 2 * turn)
        first = done // (n_rounds * band) * band  # the places of this band: first ... first + width - 1
        width = min(band, n_pos - first)
        side, place = divmod(done - n_rounds * first, width)
        shift, p = np.int32(shifts[2 * turn + side]), first + place
        end = min(first + width, p + len(rows) - t)
        _meet(order[p:end], opponents[p:end], shift, n_neg, rows[t:], columns[t:])
        _locate(diagonals[p:end], strides[p:end], origins[p:end], shift, n_neg, pairs[t:])
        t += end - p


@kernel()
def _meet(order, opponents, shift, n_neg, rows, columns):
    for p in range(order.size):
        rows[p] = order[p]
        columns[p] = _around(opponents[p] + shift, n_neg)


@kernel()
def _locate(diagonals, strides, origins, shift, n_neg, pairs):
    for p in range(diagonals.size):
        pairs[p] = origins[p] + np.int64(_around(diagonals[p] + shift, n_neg)) * strides[p]


@kernel()
def _around(number, n):
    """Return a number below 2 n, in 32 bits so that loops of it vectorise, modulo n."""
    number = np.int32(number)
    return number - np.int32(n) if number >= np.int32(n) else number


# Both name their own fastmath, or they would have their callers': re-ordered, the division waits for the dot product.


@kernel(fastmath={"contract"}, error_model="numpy")
def _dual_step(old, dot, squared_norm, lam_k):
    """Return the a in [0, 1] that maximises D along one coordinate: clip(old + lam k (1 - w'z)/||z||^2)."""
    if squared_norm == 0.0:
        return 1.0  # z = 0: D rises with a and w does not move
    # lam k / ||z||^2 first: it does not wait for the dot product
    return min(1.0, max(0.0, old + (lam_k / squared_norm) * (1.0 - dot)))


@kernel(fastmath={"contract"}, error_model="numpy")
def _dual_update(alpha, pair, dot, squared_norm, lam_k):
    """Set a pair's dual variable by its step; return the change."""
    old = alpha[pair]
    alpha[pair] = _dual_step(old, dot, squared_norm, lam_k)
    return alpha[pair] - old


@kernel()
def _prefetch_pair(alpha, pairs, t):
    """Ask for the dual variable of visit t, or the last one."""
    prefetch_line(alpha.ctypes.data + np.int64(8) * pairs[min(t, np.uint64(pairs.size - 1))])


@kernel(fastmath=REDUCE, error_model="numpy")
def _dual_sweep_dense(pos, neg, rows, columns, pairs, alpha, w, lam_k):
    """Update alpha and w at each visited pair in turn; return the change of sum(alpha).

    Visits go in twos: an update cannot begin before the last one's w is there, so that its latency is what costs. Both
    products with w are taken before either update; the first changes w by s1 z1, hence the second by s1 z1'z2.
    """
    n, d = np.uint64(rows.size), w.shape[0]
    last, inverse, change, moved = n - np.uint64(1), 1.0 / lam_k, 0.0, np.uint64(0)
    for t in range(np.uint64(0), n, np.uint64(2)):
        _prefetch_pair(alpha, pairs, t + np.uint64(AHEAD))
        _prefetch_pair(alpha, pairs, t + np.uint64(AHEAD + 1))
        u = min(t + np.uint64(1), last)  # an odd last visit is made twice: the second finds its optimum
        i1, i2 = np.uint64(rows[t]), np.uint64(rows[u])
        j1, j2 = np.uint64(columns[t]), np.uint64(columns[u])
        dot1 = dot2 = square1 = square2 = cross = 0.0
        for f in range(d):
            z1, z2 = np.float64(pos[i1, f]) - neg[j1, f], np.float64(pos[i2, f]) - neg[j2, f]
            dot1 += w[f] * z1
            dot2 += w[f] * z2
            square1 += z1 * z1
            square2 += z2 * z2
            cross += z1 * z2
        change1 = _dual_update(alpha, np.uint64(pairs[t]), dot1, square1, lam_k)
        step1 = inverse * change1
        change2 = _dual_update(alpha, np.uint64(pairs[u]), dot2 + step1 * cross, square2, lam_k)
        step2 = inverse * change2
        moves = abs(step1) + abs(step2) > 0.0
        # One branch: two are twice as often mispredicted. Where more than two in five have moved w, adding zeros costs
        # less than even one; that is asked first, because it hardly changes.
        if np.uint64(5) * moved <= t and not moves:
            continue
        moved += np.uint64(moves)
        change += change1 + change2
        for f in range(d):
            w[f] += step1 * (np.float64(pos[i1, f]) - neg[j1, f]) + step2 * (np.float64(pos[i2, f]) - neg[j2, f])
    return change


@kernel(fastmath=REDUCE, error_model="numpy")
def _dual_sweep_sparse(pos, neg, rows, columns, pairs, alpha, w, lam_k):
    """Do what ``_dual_sweep_dense`` does on CSR rows, one visit at a time: z1'z2 would cost four merges of rows."""
    change = 0.0
    for t in range(np.uint64(rows.size)):
        _prefetch_pair(alpha, pairs, t + np.uint64(AHEAD))
        i, j = np.uint32(rows[t]), np.uint32(columns[t])
        dot = dot_difference(pos, i, neg, j, w)
        pair = np.uint64(pairs[t])
        old = alpha[pair]
        # at its bound and pushed outwards: no norm can change that, and the merge of two rows for it is what costs
        if (old == 0.0 and dot >= 1.0) or (old == 1.0 and dot <= 1.0):
            continue
        moved = _dual_update(alpha, pair, dot, squared_distance(pos, i, neg, j), lam_k)
        change += moved
        add_difference(pos, i, neg, j, moved / lam_k, w)
    return change


@kernel(fastmath=REDUCE, error_model="numpy")
def _gradient_sweep(pos, neg, rows, columns, t, alpha_sum, step_sum, lam):
    """Add each visited pair's step to step_sum = lam t w; return alpha_sum plus the steps. t updates were done before.

    Update t + 1 has a = clip(lam (t + 1)(1 - w'z)/||z||^2, 0, 1) and w <- (1 - 1/(t + 1)) w + a z/(lam (t + 1)),
    which multiplied by lam (t + 1) reads step_sum <- step_sum + a z. Before the first update step_sum is 0, as is w.
    """
    for visit in range(rows.shape[0]):
        i, j = np.uint32(rows[visit]), np.uint32(columns[visit])
        margin, squared_norm = measure_difference(pos, i, neg, j, 1.0 / (lam * max(t, 1)), step_sum)
        t += 1
        if margin >= 1.0:
            continue
        a = _dual_step(0.0, margin, squared_norm, lam * t)
        alpha_sum += a
        add_difference(pos, i, neg, j, a, step_sum)
    return alpha_sum
