"""Pairwise square loss as a saddle point, solved by stochastic primal-dual steps on batches of rows (SPDAM).

With p = n_pos/n, the class means m+, m- and b = m- - m+, scale each row's offset from the mean of its class,

    x~_i = (x_i - m+)/sqrt(p)  or  (x_i - m-)/sqrt(1 - p),        so that  1/n sum_i x~_i x~_i' = S+ + S-,

and give each row a dual variable beta_i. As max_t (t s - t^2/2) = s^2/2,

    min_w max_beta  1/n sum_i (beta_i w'x~_i - beta_i^2/2) + g(w),    g(w) = 1/2 (b'w)^2 + b'w + lam/2 ||w||^2
    = min_w  1/2 w'(S+ + S-)w + g(w) = min Q - 1/2,

Q being the pairwise square objective of ``aucsolvers.pairwise_square``. (The source's x~_i has a factor 2 and no root:
its saddle point is not where its own objective is least.) From top to bottom: estimator, driver, steps, kernels.
"""

import math
import numbers
from typing import NamedTuple

import numpy as np
from scipy import sparse

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace
from aucsolvers._certify import SQUARE, Objective
from aucsolvers._jit import kernel
from aucsolvers._params import as_generator, check_count, check_flags, check_non_negative, check_positive
from aucsolvers._prefetch import AHEAD, prefetch_row
from aucsolvers._rows import (
    REDUCE,
    add,
    add_four,
    add_rows,
    as_rows,
    dot,
    dot_four,
    inner,
    most_readings,
    squared_norm_about,
    stored_once,
    width_in_lines,
    zeros_in_lines,
)
from aucsolvers._stored import StoredColumns
from aucsolvers._transaction import all_or_nothing, transactional

AFRESH = 32  # epochs: a pass over all rows sums up what the steps of so many have added to
DRAWS = 2**15  # rows drawn at a time: of small data several epochs, for a call to NumPy costs as much as one of them
FEW_BYTES = 2**22  # of dense rows in float64: a centred copy pays within some epochs, and nobody misses the memory
FAR_BYTES = 2**24  # of rows: beyond it they come from so far away that asking ahead pays; below, it costs a tenth
VECTORS = ("w", "ahead", "u")
OF_COLUMNS = (*VECTORS, "means")  # what a state holds a number of, or two, for each feature


class SPDAM(LinearScorer):
    """Linear AUC maximiser by the pairwise square loss: stochastic primal-dual steps with linear convergence.

    Minimises Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'(x_i - x_j))^2 over the k = n_pos * n_neg pairs, as LSSVM: half
    the mean square, so a lam of the form without the half is twice this one.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0.
    batch_size : int or float, default=16
        Rows per step, drawn without replacement: a number, or a fraction of the rows in (0, 1]. The source takes 0.1.
        Small batches need fewer epochs, by the square root of the size on ill-conditioned problems (ijcnn1, lam = 1e-2:
        204 at 0.1, 13 at 16, 9 at 4); below some 10 rows the O(d) beside the rows eats that up.
    tol : float, default=1e-6
        Stop when the certificate is at most tol; Q(0) = 1/2. Looked at where history_ has a point. 0 uses up max_iter.
    max_iter : int or None, default=None
        Largest number of epochs of ceil(n / batch) steps. None is as many as read 8e9 numbers, of X and each step of w,
        some seconds, from 1000 to 300,000: few rows need many epochs. CSR rows in tens of thousands of features take a
        minute for 1000, as each step moves all of w; larger batches make fewer.
    random_state : int, Generator, RandomState or None, default=None
        Draws the batches.
    warm_start : bool, default=False
        Go on from the iterate, the dual variables and the random stream of the last fit, if X has the same shape still.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The last iterate.
    intercept_ : ndarray of shape (1,)
        Minus the threshold of the largest G-mean on the training scores: the loss does not see a bias.
    objective_ : float
        Q(coef_).
    dual_gap_ : float
        ||dQ(w)||^2/(2 lam) >= Q(w) - min Q, because Q is lam-strongly convex, or Q(w) itself if that is less, because
        Q >= 0: certifies the objective, up to rounding.
    gap_unit_ : float
        max(1, objective at w = 0), here always 1. ``dual_gap_ / gap_unit_`` compares fits to different data.
    rate_ : float
        theta: the factor by which theory bounds the expected squared error from step to step.
    n_iter_ : int
        Epochs done by this fit; 0 if a warm start was within tol already.
    status_ : {"converged", "max_iter", "diverged"}
        Whether dual_gap_ <= tol; "diverged" where objective_ overflowed.
    history_ : dict of ndarray
        ``updates`` (steps), ``objective``, ``dual_gap``, ``auc`` (training), ``time_s``: at the start, whenever twice
        as many epochs are done, where dual_gap should have come down to tol, and at the end.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, or features whose squares overflow.

    Warns
    -----
    ConvergenceWarning
        If max_iter epochs did not bring the certificate to tol.

    Notes
    -----
    A step on m rows costs O(m d + d), or O(their stored values + d) for CSR, an epoch's certificate O(n d + n log n).
    Memory: X as given, a centred copy in float64 of a dense one of at most 2^19 numbers, and some 4 numbers a row; no
    other row is ever centred, its offset is folded into the sums. To divide the certificate by e takes about
    1/2 + kappa sqrt(m / (n lam)) epochs, kappa being the longest x~_i: scale features. LSSVM solves the same problem
    exactly and is the better choice where d is below some thousands. The same seed gives the same bits on the same
    machine and library versions, and a warm-started fit of 5 + 5 epochs the same bits as one of 10.

    References
    ----------
    .. [1] Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in Applied
       Mathematics and Statistics, 2019: eq. 13 (saddle point), table 1 (algorithm), theorem 4.1 (rate).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import SPDAM
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SPDAM(lam=1e-2, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.dual_gap_ <= 1e-6), round(float(model.history_["auc"][-1]), 2)
    ('converged', True, 1.0)
    """

    def __init__(self, lam=1e-3, *, batch_size=16, tol=1e-6, max_iter=None, random_state=None, warm_start=False):
        self.lam = lam
        self.batch_size = batch_size
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.warm_start = warm_start

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_positive("lam", self.lam)
        _check_batch_size(self.batch_size)
        check_flags(self, "warm_start")
        check_non_negative("tol", self.tol)
        if self.max_iter is not None:
            check_count("max_iter", self.max_iter)

    @transactional
    def fit(self, X, y):
        """Fit to X, shape (n_samples, n_features), dense or CSR, and two-class labels y; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        X = stored_once(X)
        n = len(y)
        whole = isinstance(self.batch_size, numbers.Integral)
        batch = min(n, int(self.batch_size) if whole else max(1, round(self.batch_size * n)))
        state = self._state_to_go_on(X.shape) or {"generator": as_generator(self.random_state)}
        columns = StoredColumns.of(X)
        rows, state = columns.rows(X), columns.narrowed(state, OF_COLUMNS)
        max_iter = _most_epochs(rows, batch) if self.max_iter is None else int(self.max_iter)
        with all_or_nothing(state):
            result = stochastic_primal_dual(rows, y, float(self.lam), batch, float(self.tol), max_iter, state)
        result = columns.widened(result, OF_COLUMNS)
        # n + 5 d numbers that a stored model does not need, unless it is to go on from here
        self._state = result.state if self.warm_start else None
        self.rate_ = result.state["rate"]
        return self._publish(result, X, y)

    def _state_to_go_on(self, shape):
        state = getattr(self, "_state", None) if self.warm_start else None
        return state if state and (len(state["beta"]), len(state["w"])) == shape else None


def _most_epochs(rows, batch):
    """Return how many epochs a fit makes that is not told: each step moves all of w, however sparse the rows are."""
    n, d = rows.shape
    return most_readings(rows, more=-(-n // batch) * d)


def _check_batch_size(value):
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ValueError(f"Expected batch_size to be an integer or a fraction, got {value!r}. Choose either.")
    if not (value >= 1 if isinstance(value, numbers.Integral) else 0 < value <= 1):
        raise ValueError(
            f"Expected batch_size to be an integer >= 1 or a fraction in (0, 1], got {value!r}. "
            "Set batch_size accordingly."
        )


# Driver ----------------------------------------------------------------------------------------------------------


def stochastic_primal_dual(X, y, lam, batch, tol, max_iter, state):
    """Minimise Q by SPDAM, ``batch`` rows a step; y is +-1. Return a SolverResult whose ``state`` continues the run.

    ``state`` holds ``generator`` and, to go on, ``beta``, ``w`` and ``ahead`` (the extrapolated w); for the same rows
    also ``u`` of the ``epochs`` so far, rows being the same if their class ``means`` are.
    """
    # 1. the class moments that stand for the centred rows, the steps' lengths, and where to start
    n, d = X.shape
    objective = Objective(X, y > 0, lam, SQUARE)
    centring = centring_of(objective.rows)
    steps = step_sizes(centring.kappa2, lam, n, batch)
    generator = state["generator"]
    epochs = state["epochs"] if np.array_equal(state.get("means"), centring.means) else 0
    rows, offsets = centred(X, centring)
    is_far = (X.data if sparse.issparse(X) else X).nbytes > FAR_BYTES
    # as wide as the rows are now; the solver's numbers are in the first d columns
    beta, width = state.get("beta", np.zeros(n)).copy(), rows.shape[1]
    b, *vectors = (zeros_in_lines(width) for _ in ("b", *VECTORS))
    b[:d] = centring.b
    for name, vector in zip(VECTORS, vectors, strict=True):
        vector[:d] = state.get(name, 0.0)
    w, ahead, u = (vector[:d] for vector in vectors)
    trace, n_iter, coming, looks = Trace(), 0, 0, []
    fresh = "w" not in state

    # at least one epoch from a cold start: w = 0 may be within tol (large lam, tiny features) but ranks nothing
    while True:
        # 2. the certificate, when it should have arrived
        if n_iter == coming:
            look = objective.look(w) if w.any() else objective.look_at_zero()
            gap = min(look.gap, look.objective)  # no loss is below 0; how the former falls tells when it will be there
            trace.add_with_auc(n_iter * -(-n // batch), look.objective, gap, look.auc)
            looks.append((n_iter, look.gap))
            coming = min(max_iter, next_look(looks, tol))
            if n_iter == max_iter or (gap <= tol and not (fresh and n_iter == 0)):
                break
        # 3. epochs of steps, now and then from u = 1/n sum_i beta_i x~_i afresh: its rounding cannot pile up
        if epochs % AFRESH == 0:
            _gather_pulls(as_rows(rows), offsets, beta, vectors[-1])
        some = min(coming - n_iter, AFRESH - epochs % AFRESH, max(1, DRAWS // n))
        batches = draw_batches(n, batch, generator, some)
        _make_steps(as_rows(rows), offsets, b, batches, beta, *vectors, lam, *steps, is_far)
        n_iter, epochs = n_iter + some, epochs + some
    status = CONVERGED if gap <= tol else MAX_ITER
    state = {"generator": generator, "beta": beta, "w": w.copy(), "ahead": ahead.copy(), "u": u.copy()}
    state.update(epochs=epochs, means=centring.means, rate=steps.theta)
    history = trace.as_history()
    return SolverResult(w.copy(), -look.threshold, look.objective, gap, n_iter, status, history, state)


def next_look(looks, target):
    """Return after how many epochs the gap will be at its target, if its logarithm goes on falling as it did.

    ``looks`` are those so far, epochs and gap. From one to the next a gap may as well rise; how it falls shows over the
    last quarter of the epochs, or more. One more epoch at least, as many as so far at most: a look costs about two.
    """
    epochs, gap = looks[-1]
    before, gap_before = next((look for look in reversed(looks) if 4 * look[0] <= 3 * epochs), looks[0])
    wait = np.inf
    if 0.0 < target < gap < gap_before < np.inf:
        wait = (epochs - before) * np.log(gap / target) / np.log(gap_before / gap)
    return epochs + max(1, math.ceil(min(wait, epochs)))


# Steps -----------------------------------------------------------------------------------------------------------


class Centring(NamedTuple):
    """x~_i = weight[group[i]] (x_i - means[group[i]]); group 1 is the positive class."""

    group: np.ndarray
    means: np.ndarray
    weight: np.ndarray
    b: np.ndarray  # m- - m+
    kappa2: float  # max_i ||x~_i||^2


def centring_of(rows):
    """Return the Centring of ``rows``, which know their class moments."""
    group, means = rows.positive.astype(np.uint8), rows.means
    weight = np.sqrt(len(group) / rows.counts)  # 1/sqrt(share of the class)
    deviations, squares = np.empty(len(group)), (means**2).sum(axis=1)
    _measure_deviations(as_rows(rows.X), group, means, squares, deviations)
    # of sparse rows they are differences of squared lengths, which rounding may take anywhere near 0
    rounding = 4.0 * np.finfo(np.float64).eps * squares[group] if sparse.issparse(rows.X) else 0.0
    kappa2 = float((weight[group] ** 2 * np.maximum(deviations + rounding, 0.0)).max())
    return Centring(group, means, weight, means[0] - means[1], kappa2)


def centred(X, centring):
    """Return rows for the kernels, with their offsets: x~_i with None, or x_i with what makes x~_i of them.

    The former, in rows of ``width_in_lines``, are a copy, of few dense rows.
    """
    if sparse.issparse(X) or 8 * X.size > FEW_BYTES:
        return X, centring[:3]
    rows = zeros_in_lines(X.shape[0], width_in_lines(X))
    _centre(X, *centring[:3], rows)
    return rows, None


class StepSizes(NamedTuple):
    """Lengths of the dual (sigma) and primal (tau) steps, and theta: extrapolation and rate."""

    sigma: float
    tau: float
    theta: float


def step_sizes(kappa2, lam, n, batch):
    """Return the steps of theorem 4.1, with sigma from the condition that its proof needs (eq. 23).

    A step shrinks the primal part of the error by theta = (1/2 tau) / (lam + 1/2 tau), where tau = 1/(4 sigma kappa^2),
    and the dual part by 1 - (1/n) / (1/m + 1/(2 sigma m)). The fastest sigma makes the two equal,

        4 m kappa^2 sigma^2 - 2 lam (n - m) sigma - n lam = 0,

    whose positive root is sigma below; as printed in the source it has lost a factor lam.
    """
    # with no spread within the classes the dual part is empty: a bound on kappa will do in place of kappa = 0
    kappa2 = max(kappa2, np.finfo(float).eps * lam)
    rest = n - batch
    sigma = lam * (rest + np.sqrt(rest**2 + 4.0 * n * batch * kappa2 / lam)) / (4.0 * batch * kappa2)
    tau = 1.0 / (4.0 * sigma * kappa2)
    return StepSizes(sigma, tau, 1.0 - lam / (lam + 2.0 * sigma * kappa2))


def draw_batches(n, batch, generator, epochs=1):
    """Return the batches of so many epochs, ceil(n / batch) each: uniform subsets of the n rows, all independent."""
    steps = -(-n // batch)
    # numbers below 2^32 are halves of those below 2^64, in less time; an epoch begins with a whole one
    words = generator.integers(2**64, size=(epochs, -(-steps * batch // 2)), dtype=np.uint64)
    draws = words.view(np.uint32)[:, : steps * batch].reshape(epochs * steps, batch)
    _choose(np.empty(n, dtype=np.uint32), steps, draws)
    return draws


# Kernels ---------------------------------------------------------------------------------------------------------


@kernel()
def _measure_deviations(rows, group, means, squares, deviations):
    for i in range(np.uint32(group.size)):
        deviations[i] = squared_norm_about(rows, i, means[group[i]], squares[group[i]])


@kernel()
def _centre(X, group, means, weight, rows):
    for i in range(np.uint32(group.size)):
        mean, factor = means[group[i]], weight[group[i]]
        for f in range(X.shape[1]):
            rows[i, f] = factor * (X[i, f] - mean[f])


@kernel()
def _choose(order, steps, draws):
    """Overwrite each row of draws, numbers in [0, 2^32), by a subset of the rows: the start of a Fisher-Yates shuffle.

    The shuffle's start is a uniform subset whatever order held, so it is put back for an epoch only, which makes epochs
    drawn together those drawn one by one: O(batch) a subset.
    """
    for step in range(draws.shape[0]):
        if step % steps == 0:
            for i in range(order.size):
                order[i] = i
        for s in range(draws.shape[1]):
            # the high half of draw * range, whose bias is below n / 2^32, where a remainder would cost a division
            t = s + np.int64((np.uint64(draws[step, s]) * np.uint64(order.size - s)) >> np.uint64(32))
            order[s], order[t] = order[t], order[s]
            draws[step, s] = order[s]


# Of centred rows ``offsets`` is None, and numba leaves out what they would need: a sixth of the time where d is 16.


@kernel(fastmath=REDUCE, error_model="numpy")
def _make_steps(rows, offsets, b, batches, beta, w, ahead, u, lam, sigma, tau, theta, is_far):
    """Make a step for each row of batches; update beta, w, ahead and u in place (table 1 of the source).

    u is 1/n sum_i beta_i x~_i. Rows that are far, as FAR_BYTES says, are asked for ahead of time.
    """
    n, size, visits = beta.size, batches.shape[1], batches.ravel()
    delta, pull = np.zeros(w.size), np.empty(w.size)
    of_means, moved = np.empty(2), np.zeros(2)
    square, kept, inverse_tau, whole = inner(b, b), 1.0 / (1.0 + sigma), 1.0 / tau, size - size % 4
    shift = lam + inverse_tau
    dual = offsets, of_means, sigma, kept, beta
    for step in range(batches.shape[0]):
        # 1. dual: beta_i = (sigma ahead'x~_i + beta_i)/(1 + sigma); delta collects (change of beta_i) x~_i, but for the
        #    means' part, whose factors are ``moved``. Four rows at a time, which in a subset are different ones.
        if offsets is not None:
            of_means[0], of_means[1] = inner(offsets[1][0], ahead), inner(offsets[1][1], ahead)
        all_moved = pos_moved = 0.0
        for s in range(0, whole, 4):
            if is_far:
                _ask_ahead(rows, visits, step * size + s, 4)
            i, j, p, q = batches[step, s], batches[step, s + 1], batches[step, s + 2], batches[step, s + 3]
            of_i, of_j, of_p, of_q = dot_four(rows, i, j, p, q, ahead)
            by_i, by_j = _move_beta(i, of_i, *dual), _move_beta(j, of_j, *dual)
            by_p, by_q = _move_beta(p, of_p, *dual), _move_beta(q, of_q, *dual)
            add_four(rows, i, j, p, q, by_i, by_j, by_p, by_q, delta)
            if offsets is not None:
                group = offsets[0]
                all_moved += (by_i + by_j) + (by_p + by_q)
                pos_moved += (group[i] * by_i + group[j] * by_j) + (group[p] * by_p + group[q] * by_q)
        if is_far:
            _ask_ahead(rows, visits, step * size + whole, size - whole)
        for s in range(whole, size):
            i = batches[step, s]
            by_i = _move_beta(i, dot(rows, i, ahead), *dual)
            add(rows, i, by_i, delta)
            if offsets is not None:
                all_moved += by_i
                pos_moved += offsets[0][i] * by_i
        moved[0], moved[1] = all_moved - pos_moved, pos_moved
        # 2. primal: argmin g(w) + u~'w + ||w - old||^2/(2 tau), u~ = u + 1/m delta, solves (c I + bb') w = pull with
        #    c = lam + 1/tau; by Sherman and Morrison w = (pull - b b'pull/(c + b'b))/c
        _gather_pull(delta, moved, offsets, b, 1.0 / n, 1.0 / size, inverse_tau, u, w, pull)
        _move(pull, inner(b, pull) / (shift + square), 1.0 / shift, b, theta, w, ahead)


@kernel(fastmath=REDUCE, error_model="numpy")
def _gather_pulls(rows, offsets, beta, u):
    """Set u to 1/n sum_i beta_i x~_i."""
    pulls, moved = beta.copy(), np.zeros(2)
    if offsets is not None:
        group, _, weight = offsets
        for i in range(beta.size):
            pulls[i] = weight[group[i]] * beta[i]
            moved[group[i]] += pulls[i]
    u[:] = 0.0
    add_rows(rows, np.arange(beta.size).astype(np.uint32), pulls, u)
    for f in range(u.size):
        u[f] = _less_means(u[f], f, moved, offsets) / beta.size


# Sums and stores never share a loop, as _rows.py explains. Inlined: a call may resolve to one copy of the function in
# the process that compiles it and to another, optimised apart, in one that loads it from the cache: other last bits.


@kernel(forceinline=True)
def _ask_ahead(rows, visits, first, count):
    for visit in range(first, first + count):
        prefetch_row(rows, visits[min(visit + AHEAD, visits.size - 1)])


@kernel(error_model="numpy", forceinline=True)
def _move_beta(i, product, offsets, of_means, sigma, kept, beta):
    """Set beta_i by its dual step, product being ahead'x_i; return the factor of x_i in delta."""
    old = beta[i]
    if offsets is None:
        beta[i] = kept * (sigma * product + old)
        return beta[i] - old
    group, _, weight = offsets
    g = group[i]
    beta[i] = kept * (sigma * weight[g] * (product - of_means[g]) + old)
    return weight[g] * (beta[i] - old)


@kernel(error_model="numpy", forceinline=True)
def _gather_pull(delta, moved, offsets, b, share, boost, inverse_tau, u, w, pull):
    """Set pull to w/tau - b - (u + boost delta); then u += share delta, delta = 0."""
    for f in range(w.shape[0]):
        step = _less_means(delta[f], f, moved, offsets)
        pull[f] = inverse_tau * w[f] - b[f] - (u[f] + boost * step)
        u[f] += share * step
        delta[f] = 0.0


@kernel(forceinline=True)
def _less_means(total, f, moved, offsets):
    """Return feature f of a sum over centred rows from that over the rows, ``moved`` being its weights by class."""
    if offsets is None:
        return total
    return total - moved[0] * offsets[1][0, f] - moved[1] * offsets[1][1, f]


@kernel(error_model="numpy", forceinline=True)
def _move(pull, along, inverse_c, b, theta, w, ahead):
    """Set w to (pull - along b)/c, and ahead to where theta more of the same move leads."""
    for f in range(w.shape[0]):
        new = inverse_c * (pull[f] - along * b[f])
        ahead[f] = new + theta * (new - w[f])
        w[f] = new
