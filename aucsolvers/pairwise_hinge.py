"""Pairwise hinge loss: dual coordinate descent over the pairs (AUCSDCD) and its memory-free variant (AUCMSGD).

Both minimise, over pairs (i, j) of a positive x_i and a negative x_j with z_ij = x_i - x_j and k = n_pos * n_neg,

    P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'z_ij)

through its dual, to be maximised over 0 <= a_ij <= 1,

    D(a) = 1/k sum_ij a_ij - lam/2 ||w(a)||^2,    w(a) = 1/(lam k) sum_ij a_ij z_ij.

P(w) - D(a) >= P(w) - min P for every feasible a: each solver keeps track of one such a, stored or not.
From top to bottom: estimators, drivers, order of visits, certificates, kernels.
"""

import logging
from functools import partial
from itertools import pairwise

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from scipy import sparse

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace
from aucsolvers._jit import kernel
from aucsolvers._pairwise import check_squares, split_classes
from aucsolvers._params import as_generator, check_choice, check_count, check_positive, check_tolerance
from aucsolvers._rows import REDUCE
from aucsolvers.metrics import margin_violations, mean_pair_hinge

logger = logging.getLogger(__name__)

ORDERS = ("permutation", "random")
CHUNK = 32768  # visits drawn at a time: 256 KiB of indices, so that they stay in the second-level cache
FIRST_EPOCH_POINTS = 10
AHEAD = 8  # visits between asking for a dual variable and using it: some 150 ns, one trip to memory

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
        the estimator, 8 k bytes, and pickled with it.
    max_alpha_bytes : int, default=4 * 1024**3
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
    n_iter_ : int
        Epochs done by this fit; 0 if a warm start was within tol already.
    status_ : {"converged", "max_iter"}
        Whether dual_gap_ <= tol.
    history_ : dict of ndarray
        ``updates``, ``objective``, ``dual_gap``, ``auc`` (training), ``time_s``: at the start, about ten times within
        the first epoch, and after each epoch.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, features whose squares overflow, or too many pairs for
        max_alpha_bytes.

    Warns
    -----
    ConvergenceWarning
        If max_iter epochs did not bring the gap to tol.

    Notes
    -----
    An epoch costs O(k d), or O(k nnz per row) for CSR; its certificate O(n d + n log n + k). Memory is 8 k bytes and a
    copy of the rows. w is rebuilt from the dual variables after each epoch, so rounding does not accumulate. The same
    seed gives the same bits on the same machine, library versions and number of BLAS threads, and a warm-started fit of
    5 + 5 epochs the same bits as one of 10.

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
        max_alpha_bytes=4 * 1024**3,
    ):
        self.lam = lam
        self.order = order
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.warm_start = warm_start
        self.max_alpha_bytes = max_alpha_bytes

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        _check_common(self)
        check_count("max_alpha_bytes", self.max_alpha_bytes)

    def fit(self, X, y):
        """Fit to X, shape (n_samples, n_features), dense or CSR, and two-class labels y; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        check_squares(X)
        self.check_size(np.count_nonzero(y > 0), np.count_nonzero(y < 0))
        state = self._state_to_go_on(y) or {"generator": as_generator(self.random_state)}
        result = dual_coordinate_descent(X, y, self.lam, self.order, self.tol, self.max_iter, state)
        # 8 k bytes: only kept where a later fit can use them
        self._state = result.state if self.warm_start else None
        return self._publish(result, X, y)

    def check_size(self, n_pos, n_neg):
        """Raise ValueError if the dual variables of that many pairs would take more than ``max_alpha_bytes``."""
        k = int(n_pos) * int(n_neg)
        if 8 * k > self.max_alpha_bytes:
            raise ValueError(
                f"Expected dual variables of at most max_alpha_bytes={self.max_alpha_bytes} bytes, got "
                f"{n_pos} x {n_neg} = {k} pairs, which need {8 * k} bytes. Raise max_alpha_bytes if the memory is "
                "there, or use SVMOR (same objective, memory O(n d)) or LSSVM (pairwise square loss, exact)."
            )

    def _state_to_go_on(self, y):
        state = getattr(self, "_state", None) if self.warm_start else None
        if state is None:
            return None
        shape = (np.count_nonzero(y > 0), np.count_nonzero(y < 0))
        if state["alpha"].shape != shape:
            logger.info("starting cold: the dual variables are of %s rows, the data of %s", state["alpha"].shape, shape)
            return None
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
        pairs uniformly with replacement, as published, and has the gradient's, which is often 10 times looser.
    tol : float, default=1e-3
        Stop when the certificate, in units of P(0) = 1, is at most tol. Looked at after each epoch.
    max_iter : int, default=100
        Largest number of epochs of k updates. The published budget is one.
    random_state : int, Generator, RandomState or None, default=None
        Seeds the order of visits.

    Attributes
    ----------
    coef_, intercept_, objective_, n_iter_, status_, history_, classes_
        As of AUCSDCD.
    dual_gap_ : float
        An upper bound on P(w) - min P; see Notes.

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
    Time as AUCSDCD, memory O(n d). Certificates: after t updates w = 1/(lam t) sum_s a_s z_s, which is w(a) for the
    dual variables k/t times the sum of the steps that a pair received. Visits by permutation give a pair at most
    ceil(t/k) steps in [0, 1], so a shrunk by t/(k ceil(t/k)), a factor 1 at the end of an epoch, is feasible: D costs
    O(1) from the sum of the steps. Draws with replacement have no such bound; there the slopes of the loss at w itself
    are the dual variables, whose gap is ||dP(w)||^2/(2 lam). The best lower bound seen so far counts.

    References
    ----------
    .. [1] Jiang, Tao, Gao, Chu, "Dual Coordinate Descent Method for Solving AUC Optimization Problem", Journal of
       Software 25(10), 2014: eq. 7, algorithm 3.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = AUCMSGD(lam=1e-2, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.dual_gap_ <= 1e-3), round(float(model.history_["auc"][-1]), 2)
    ('converged', True, 1.0)
    """

    def __init__(self, lam=1e-3, *, order="permutation", tol=1e-3, max_iter=100, random_state=None):
        self.lam = lam
        self.order = order
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        _check_common(self)

    def fit(self, X, y):
        """Fit to X, shape (n_samples, n_features), dense or CSR, and two-class labels y; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        check_squares(X)
        state = {"generator": as_generator(self.random_state)}
        result = modified_gradient_descent(X, y, self.lam, self.order, self.tol, self.max_iter, state)
        return self._publish(result, X, y)


def _check_common(solver):
    check_positive("lam", solver.lam)
    check_choice("order", solver.order, ORDERS)
    check_tolerance(solver.tol)
    check_count("max_iter", solver.max_iter)


# Drivers ---------------------------------------------------------------------------------------------------------


def dual_coordinate_descent(X, y, lam, order, tol, max_iter, state):
    """Minimise P by coordinate ascent on D; y is +-1. Return a SolverResult whose ``state`` continues the run.

    ``state`` holds ``generator`` and, to go on, ``alpha`` of shape (n_pos, n_neg); alpha is updated in place.
    """
    # 1. the classes as blocks, the dual variables, and the w that belongs to them
    pos, neg = split_classes(X, y)
    generator, alpha = state["generator"], state.get("alpha")
    if alpha is None:
        alpha = np.zeros((pos.shape[0], neg.shape[0]))
    sweep = _bind(_dual_sweep_dense, _dual_sweep_sparse, pos, neg)
    w, alpha_sum = _primal_of(alpha, pos, neg, lam)
    trace, updates = Trace(), 0
    objective, gap = _record_dual(trace, updates, w, alpha_sum / alpha.size, pos, neg, lam)

    n_iter = 0
    while gap > tol and n_iter < max_iter:
        points = () if n_iter else _first_epoch_points(alpha.size)
        # 2. one epoch of updates, w and sum(alpha) carried along
        for rows, columns in epoch_visits(order, *alpha.shape, generator, points):
            alpha_sum += sweep(rows, columns, alpha.reshape(-1), w, lam * alpha.size)
            updates += len(rows)
            if updates in points:
                _record_dual(trace, updates, w, alpha_sum / alpha.size, pos, neg, lam)
        # 3. w afresh from alpha, O(k) after O(k d): rounding cannot pile up, and the certificate is that of this alpha
        w, alpha_sum = _primal_of(alpha, pos, neg, lam)
        objective, gap = _record_dual(trace, updates, w, alpha_sum / alpha.size, pos, neg, lam)
        n_iter += 1
    status = CONVERGED if gap <= tol else MAX_ITER
    state = {"generator": generator, "alpha": alpha}
    return SolverResult(w, None, objective, gap, n_iter, status, trace.as_history(), state)


def modified_gradient_descent(X, y, lam, order, tol, max_iter, state):
    """Minimise P without dual variables; y is +-1. Return a SolverResult whose ``state`` continues the run.

    ``state`` holds ``generator`` and, to go on with the same data, ``step_sum`` = sum_s a_s z_s = lam t w, its number
    of updates t, ``alpha_sum`` = sum_s a_s and the best ``lower_bound`` on min P, which a change of lam makes void.
    """
    # 1. the classes as blocks; w is never stored: step_sum = lam t w saves the shrinking of w at each update
    pos, neg = split_classes(X, y)
    k = pos.shape[0] * neg.shape[0]
    state = {"step_sum": np.zeros(X.shape[1]), "updates": 0, "alpha_sum": 0.0, "lower_bound": 0.0} | state
    sweep = _bind(_gradient_sweep_dense, _gradient_sweep_sparse, pos, neg)
    trace, start = Trace(), state["updates"]
    w, objective, gap = _record_gradient(trace, state, order, pos, neg, lam)

    n_iter = 0
    # at least one epoch: the gradient may certify w = 0 (large lam, tiny features), which ranks nothing
    while (gap > tol or state["updates"] == 0) and n_iter < max_iter:
        points = () if n_iter else _first_epoch_points(k)
        # 2. one epoch of updates
        for rows, columns in epoch_visits(order, pos.shape[0], neg.shape[0], state["generator"], points):
            state["alpha_sum"] += sweep(rows, columns, state["updates"], state["step_sum"], lam)
            state["updates"] += len(rows)
            if state["updates"] - start in points:
                _record_gradient(trace, state, order, pos, neg, lam)
        # 3. the certificate of w = step_sum / (lam t)
        w, objective, gap = _record_gradient(trace, state, order, pos, neg, lam)
        n_iter += 1
    status = CONVERGED if gap <= tol else MAX_ITER
    return SolverResult(w, None, objective, gap, n_iter, status, trace.as_history(), state)


def _bind(dense_kernel, sparse_kernel, pos, neg):
    """Return the kernel for this storage with the rows' arrays filled in."""
    if sparse.issparse(pos):
        return partial(sparse_kernel, pos.data, pos.indices, pos.indptr, neg.data, neg.indices, neg.indptr)
    return partial(dense_kernel, pos, neg)


# Order of visits -------------------------------------------------------------------------------------------------


def epoch_visits(order, n_pos, n_neg, generator, points=()):
    """Yield one epoch's n_pos * n_neg visits as (positive rows, negative rows), int32, in chunks that end at points."""
    k = n_pos * n_neg
    if order == "permutation":
        key = [generator.permutation(np.arange(size, dtype=np.int32)) for size in (n_pos, n_neg, n_neg)]
    for start, stop in pairwise(sorted({*range(0, k, CHUNK), *points, k})):
        if order == "random":
            # bounded integers without modulo bias; the two draws are independent, so every pair has chance 1/k
            yield tuple(generator.integers(size, size=stop - start, dtype=np.int32) for size in (n_pos, n_neg))
        else:
            rows, columns = np.empty((2, stop - start), dtype=np.int32)
            _round_robin(*key, start, rows, columns)
            yield rows, columns


def _first_epoch_points(k):
    """Return the update numbers, geometrically spaced from 1 to k, at which the first epoch is looked at."""
    return set(np.geomspace(1, k, FIRST_EPOCH_POINTS + 1).astype(int).tolist()) - {k}


# Certificates ----------------------------------------------------------------------------------------------------


def _primal_of(alpha, pos, neg, lam):
    """Return w(alpha) and sum(alpha): sum_ij a_ij (x_i - x_j) needs only alpha's row and column sums."""
    of_pos, of_neg = alpha.sum(axis=1), alpha.sum(axis=0)
    return (pos.T @ of_pos - neg.T @ of_neg) / (lam * alpha.size), float(of_pos.sum())


def _record_dual(trace, updates, w, alpha_mean, pos, neg, lam):
    """Add a point to the trace; return P(w) and P(w) - D(alpha), where w = w(alpha)."""
    s_pos, s_neg = pos @ w, neg @ w
    hinge, norm = mean_pair_hinge(s_pos, s_neg), float(w @ w)
    objective = 0.5 * lam * norm + hinge
    gap = max(0.0, hinge + lam * norm - alpha_mean)
    trace.add(updates, objective, gap, s_pos, s_neg)
    return objective, gap


def _record_gradient(trace, state, order, pos, neg, lam):
    """Add a point to the trace and raise the state's lower bound; return w, P(w) and the certificate."""
    t = state["updates"]
    w = state["step_sum"] / (lam * max(t, 1))
    s_pos, s_neg = pos @ w, neg @ w
    norm = float(w @ w)
    objective = 0.5 * lam * norm + mean_pair_hinge(s_pos, s_neg)
    if order == "permutation":
        # a pair has had at most ceil(t/k) steps: shrunk by this factor, the dual variables behind w are <= 1
        k = len(s_pos) * len(s_neg)
        shrink = t / (k * -(-t // k)) if t else 0.0
        lower_bound = shrink * state["alpha_sum"] / max(t, 1) - 0.5 * lam * shrink**2 * norm
    else:
        gradient = lam * w + _hinge_slope(s_pos, s_neg, pos, neg)
        lower_bound = objective - float(gradient @ gradient) / (2 * lam)
    state["lower_bound"] = max(state["lower_bound"], lower_bound)
    gap = max(0.0, objective - state["lower_bound"])
    trace.add(t, objective, gap, s_pos, s_neg)
    return w, objective, gap


def _hinge_slope(s_pos, s_neg, pos, neg):
    """Return the gradient of the mean pair hinge: each violated pair pulls along -z_ij."""
    c_pos, c_neg = margin_violations(s_pos, s_neg)
    return (neg.T @ c_neg - pos.T @ c_pos) / (len(s_pos) * len(s_neg))


# Kernels ---------------------------------------------------------------------------------------------------------


@intrinsic
def _prefetch(typing_context, address):
    """Ask for the cache line at an address, to be written soon (LLVM's prefetch; never faults, changes nothing)."""

    def codegen(context, builder, signature, arguments):
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        i32 = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [pointer.type], kind)
        for_writing, keep, data = i32(1), i32(3), i32(1)
        builder.call(function, [pointer, for_writing, keep, data])
        return context.get_dummy_value()

    return types.void(types.intp), codegen


@kernel()
def _round_robin(pos_order, neg_order, shifts, start, rows, columns):
    """Fill rows and columns with visits start, start + 1, ... of an epoch that visits each pair exactly once.

    As in a round-robin tournament: round r pairs the positive at place p with the negative at place (p + shifts[r]) mod
    n_neg. For a fixed p the n_neg shifts reach every negative once, so the visits are a bijection on the pairs,
    without storing k of anything. Each round visits every positive once: more even than draws.
    """
    n_pos, n_neg = len(pos_order), len(neg_order)
    turn, place = start // n_pos, start % n_pos
    opponent = (place + shifts[turn]) % n_neg
    for t in range(len(rows)):
        if place == n_pos:
            place = 0
            turn += 1
            opponent = shifts[turn]
        rows[t] = pos_order[place]
        columns[t] = neg_order[opponent]
        place += 1
        opponent += 1
        if opponent == n_neg:
            opponent = 0


@kernel(error_model="numpy")
def _dual_step(old, dot, squared_norm, lam_k):
    """Return the a in [0, 1] that maximises D along one coordinate: clip(old + lam k (1 - w'z)/||z||^2)."""
    if squared_norm == 0.0:
        return 1.0  # z = 0: D rises with a and w does not move
    # lam k / ||z||^2 first: it does not wait for the dot product
    return min(1.0, max(0.0, old + (lam_k / squared_norm) * (1.0 - dot)))


@kernel(fastmath=REDUCE, error_model="numpy")
def _dual_sweep_dense(pos, neg, rows, columns, alpha, w, lam_k):
    """Update alpha (flat, row i of n_neg) and w at each visited pair in turn; return the change of sum(alpha).

    The pairs' dual variables lie far apart in memory: each is asked for AHEAD visits before its turn.
    """
    n_neg, d, last = neg.shape[0], w.shape[0], rows.shape[0] - 1
    base = alpha.ctypes.data
    change = 0.0
    for t in range(rows.shape[0]):
        soon = min(t + AHEAD, last)
        _prefetch(base + 8 * (np.int64(rows[soon]) * n_neg + columns[soon]))
        x_pos, x_neg = pos[rows[t]], neg[columns[t]]
        dot = squared_norm = 0.0
        for f in range(d):
            z = x_pos[f] - x_neg[f]
            dot += w[f] * z
            squared_norm += z * z
        pair = np.int64(rows[t]) * n_neg + columns[t]
        old = alpha[pair]
        new = _dual_step(old, dot, squared_norm, lam_k)
        if new == old:
            continue
        alpha[pair] = new
        change += new - old
        step = (new - old) / lam_k
        for f in range(d):
            w[f] += step * (x_pos[f] - x_neg[f])
    return change


@kernel(fastmath=REDUCE, error_model="numpy")
def _dual_sweep_sparse(p_data, p_cols, p_ptr, n_data, n_cols, n_ptr, rows, columns, alpha, w, lam_k):
    """Do what ``_dual_sweep_dense`` does on CSR rows, at a cost of the two rows' stored values."""
    n_neg, last = n_ptr.shape[0] - 1, rows.shape[0] - 1
    base = alpha.ctypes.data
    change = 0.0
    for t in range(rows.shape[0]):
        soon = min(t + AHEAD, last)
        _prefetch(base + 8 * (np.int64(rows[soon]) * n_neg + columns[soon]))
        p_from, p_to = p_ptr[rows[t]], p_ptr[rows[t] + 1]
        n_from, n_to = n_ptr[columns[t]], n_ptr[columns[t] + 1]
        dot = _dot(p_data, p_cols, p_from, p_to, w) - _dot(n_data, n_cols, n_from, n_to, w)
        pair = np.int64(rows[t]) * n_neg + columns[t]
        old = alpha[pair]
        # at its bound and pushed outwards: no norm can change that, and the merge below is what costs
        if (old == 0.0 and dot >= 1.0) or (old == 1.0 and dot <= 1.0):
            continue
        squared_norm = _squared_distance(p_data, p_cols, p_from, p_to, n_data, n_cols, n_from, n_to)
        new = _dual_step(old, dot, squared_norm, lam_k)
        alpha[pair] = new
        change += new - old
        step = (new - old) / lam_k
        _add(p_data, p_cols, p_from, p_to, step, w)
        _add(n_data, n_cols, n_from, n_to, -step, w)
    return change


@kernel(fastmath=REDUCE, error_model="numpy")
def _gradient_sweep_dense(pos, neg, rows, columns, t, step_sum, lam):
    """Add each visited pair's step to step_sum = lam t w; return the sum of the steps. t updates were done before.

    Update t + 1 has a = clip(lam (t + 1)(1 - w'z)/||z||^2, 0, 1) and w <- (1 - 1/(t + 1)) w + a z/(lam (t + 1)),
    which multiplied by lam (t + 1) reads step_sum <- step_sum + a z. Before the first update step_sum is 0, as is w.
    """
    d = step_sum.shape[0]
    total = 0.0
    for visit in range(rows.shape[0]):
        x_pos, x_neg = pos[rows[visit]], neg[columns[visit]]
        dot = squared_norm = 0.0
        for f in range(d):
            z = x_pos[f] - x_neg[f]
            dot += step_sum[f] * z
            squared_norm += z * z
        a = _dual_step(0.0, dot / (lam * max(t, 1)), squared_norm, lam * (t + 1))
        t += 1
        if a == 0.0:
            continue
        total += a
        for f in range(d):
            step_sum[f] += a * (x_pos[f] - x_neg[f])
    return total


@kernel(fastmath=REDUCE, error_model="numpy")
def _gradient_sweep_sparse(p_data, p_cols, p_ptr, n_data, n_cols, n_ptr, rows, columns, t, step_sum, lam):
    """Do what ``_gradient_sweep_dense`` does on CSR rows, at a cost of the two rows' stored values."""
    total = 0.0
    for visit in range(rows.shape[0]):
        p_from, p_to = p_ptr[rows[visit]], p_ptr[rows[visit] + 1]
        n_from, n_to = n_ptr[columns[visit]], n_ptr[columns[visit] + 1]
        dot = _dot(p_data, p_cols, p_from, p_to, step_sum) - _dot(n_data, n_cols, n_from, n_to, step_sum)
        margin = dot / (lam * max(t, 1))
        t += 1
        if margin >= 1.0:
            continue  # a = 0 without the merge of the two rows
        squared_norm = _squared_distance(p_data, p_cols, p_from, p_to, n_data, n_cols, n_from, n_to)
        a = _dual_step(0.0, margin, squared_norm, lam * t)
        total += a
        _add(p_data, p_cols, p_from, p_to, a, step_sum)
        _add(n_data, n_cols, n_from, n_to, -a, step_sum)
    return total


@kernel(fastmath=REDUCE, error_model="numpy")
def _dot(data, cols, start, stop, w):
    total = 0.0
    for q in range(start, stop):
        total += data[q] * w[cols[q]]
    return total


@kernel()
def _add(data, cols, start, stop, factor, w):
    for q in range(start, stop):
        w[cols[q]] += factor * data[q]


@kernel()
def _squared_distance(p_data, p_cols, p, p_to, n_data, n_cols, n, n_to):
    """Return ||x_i - x_j||^2 by merging two rows of sorted columns.

    The union is walked rather than ||x_i||^2 + ||x_j||^2 - 2 x_i'x_j summed: it costs the same merge, does not cancel,
    and is exactly 0 for identical rows.
    """
    total = 0.0
    while p < p_to and n < n_to:
        p_col, n_col = p_cols[p], n_cols[n]
        z = 0.0
        if p_col <= n_col:
            z += p_data[p]
            p += 1
        if n_col <= p_col:
            z -= n_data[n]
            n += 1
        total += z * z
    for q in range(p, p_to):
        total += p_data[q] * p_data[q]
    for q in range(n, n_to):
        total += n_data[q] * n_data[q]
    return total
