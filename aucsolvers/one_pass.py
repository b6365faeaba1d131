"""One-pass AUC maximisation (OPAUC): the pairwise square loss against running means and covariances.

With z_ij = x_i - x_j over the k pairs of a positive x_i and a negative x_j, it approaches the minimum of

    Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'z_ij)^2.

From top to bottom: estimator, driver, kernels.
"""

from functools import partial

import numpy as np

from aucsolvers._certify import SQUARE
from aucsolvers._jit import kernel
from aucsolvers._params import check_count
from aucsolvers._prefetch import AHEAD, prefetch_row
from aucsolvers._rows import REDUCE, add_scaled, as_rows, dot_four, inner, leave, zeros_in_lines
from aucsolvers._stream import LARGEST_ETA, OnlineScorer, check_step, pieces

USUAL_RANK = 50  # of sketches, where memory allows it
TOGETHER = 4  # rows that ``_add_four_outer`` adds
BLOCK_ROWS = 4096  # rows whose random numbers are drawn at a time


class OPAUC(OnlineScorer):
    """One-pass AUC maximisation: gradient steps on the square loss against running class means and covariances.

    Approaches the minimum of Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'(x_i - x_j))^2, the objective of LSSVM. With c
    and S the mean and covariance of the other class so far and u = y_t (x_t - c), a row moves w by -eta_t times
    lam w - (1 - w'u) u + S w, the gradient of its mean loss against all earlier rows of the other class.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0.
    eta : float, default=1.0
        Length of the steps, 0 < eta <= 2: eta_t = 1/(K_t/eta + lam t), where K_t is the largest ||u||^2 + trace S so
        far, a bound on the curvature. No scale of the features and no eta in this range can make it diverge.
    rank : int or None, default=None
        None keeps both covariances; r keeps random sketches of r columns instead (OPAUCr), for wide data.
    max_bytes : int, default=1024**3
        Refuse data whose covariances or sketches need more memory than this.
    shuffle : bool, default=True
        Whether fit visits the rows in a fresh random order in each pass, or as given.
    tol : float, default=1e-3
        Stop after a pass whose certificate is at most tol; Q(0) = 1/2. 0 uses up max_iter.
    max_iter : int, default=1
        Largest number of passes. One is the published budget.
    random_state : int, Generator, RandomState or None, default=None
        Draws the sketch and the order of visits.
    keep_stream : bool, default=True
        Whether fit keeps the stream's state, so that partial_fit can go on. It holds the covariances and is pickled:
        use False for a model that is to be stored.

    Attributes
    ----------
    coef_, intercept_, n_iter_, status_, history_, classes_
        As of OAMSeq.
    objective_ : float
        Q(coef_); nan after partial_fit.
    dual_gap_ : float
        An upper bound on Q(w) - min Q, up to rounding: Q(w) less the best Q(v) - ||dQ(v)||^2/(2 lam) of the points v in
        history_ where a pass began or ended. It is of Q itself, also if rank approximates the steps. nan after
        partial_fit.
    gap_unit_ : float
        max(1, objective at w = 0), here always 1. ``dual_gap_ / gap_unit_`` compares fits to different data.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, features whose squares overflow, covariances that need more
        than max_bytes, or partial_fit after a fit that kept no stream.

    Warns
    -----
    ConvergenceWarning
        If fit did not bring the certificate to tol. One pass rarely does.

    Notes
    -----
    A row costs O(d^2), or O(d rank), also for CSR. Memory is 16 d^2 bytes or, with a block of random numbers, 16 rank
    (d + 4096): a sketch is for d of thousands. ``partial_fit`` takes twice that meanwhile. Means and covariances are
    updated by Welford's recurrence, m S <- (m - 1) S + (m - 1)/m D D' with D the row's distance from the mean of the
    m - 1 before it, which does not cancel for features far from 0; a sketch adds sqrt((m - 1)/m) D r' with
    r ~ N(0, I/rank) instead, so that its square is m S in expectation. The result does not depend on how a stream is
    cut into chunks, to the last bit. The same seed gives the same bits.

    References
    ----------
    .. [1] Gao, Jin, Zhu, Zhou, "One-Pass AUC Optimization", ICML 2013: algorithm 1, section 3 (random sketch).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import OPAUC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OPAUC(lam=0.1, tol=0.1, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.98)
    ('converged', True)
    """

    _loss = SQUARE

    def __init__(
        self,
        lam=1e-3,
        *,
        eta=1.0,
        rank=None,
        max_bytes=1024**3,
        shuffle=True,
        tol=1e-3,
        max_iter=1,
        random_state=None,
        keep_stream=True,
    ):
        self.lam = lam
        self.eta = eta
        self.rank = rank
        self.max_bytes = max_bytes
        self.shuffle = shuffle
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.keep_stream = keep_stream

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        super().check_parameters()
        check_step("eta", self.eta, LARGEST_ETA)
        check_count("max_bytes", self.max_bytes)
        if self.rank is not None:
            check_count("rank", self.rank)

    def _start(self, n_features):
        columns = self.rank or n_features
        _check_covariance_bytes(n_features, columns, self.rank is not None, self.max_bytes)
        return super()._start(n_features) | {
            "rank": self.rank,
            "means": zeros_in_lines(2, n_features),
            "scatters": zeros_in_lines(2, n_features, columns),
            "traces": np.zeros(2),
            "peak": np.zeros(1),
        }

    def _learner(self, positive=None):
        return partial(learn_against_moments, lam=float(self.lam), eta=float(self.eta), rank=self.rank)


def _check_covariance_bytes(n_features, columns, sketched, limit):
    needed = columns * _bytes_a_column(n_features, sketched)
    if needed > limit:
        sketch = _bytes_a_column(n_features, sketched=True)
        rank = min(USUAL_RANK, limit // sketch)
        sketches = f"rank={rank} (random sketches of {rank * sketch} bytes), " if rank else ""
        raise ValueError(
            f"Expected covariances of at most max_bytes={limit} bytes, got 2 x {n_features} x {columns} float64, which "
            f"need {needed} bytes{' with their random numbers' if sketched else ''}. Use "
            f"{sketches if rank < columns else ''}SOLAM (same objective, O(d) memory), or raise max_bytes if there is "
            "the memory."
        )


def _bytes_a_column(n_features, sketched):
    """Return those of both classes' covariances, or sketches with their random numbers, a block of rows, twice."""
    return 16 * (n_features + (BLOCK_ROWS if sketched else 0))


# Driver ----------------------------------------------------------------------------------------------------------


def learn_against_moments(state, X, visits, codes, *, lam, eta, rank):
    """Take in rows ``visits`` of X by OPAUC. Changes the state.

    The state keeps the class ``means``, ``scatters`` (n S, or its sketch), their ``traces``, ``peak``, the largest
    curvature so far, and the ``rank`` that they are laid out for.
    """
    if rank != state["rank"]:
        raise ValueError(
            f"Expected rank={state['rank']!r}, with which this stream began, got rank={rank!r}. "
            "Set it back, or feed the stream from its start to a clone."
        )
    moments = (state[name] for name in ("counts", "means", "scatters", "traces", "peak", "w"))
    stream = *moments, lam, eta
    if rank is None:
        for piece in pieces(len(visits), X.shape[1] ** 2):
            _covariance_sweep(as_rows(X), visits[piece], codes[piece], *stream)
    else:
        for start in range(0, len(visits), BLOCK_ROWS):
            block = slice(start, start + BLOCK_ROWS)
            draws = state["generator"].standard_normal((len(codes[block]), rank)) / np.sqrt(rank)
            _sketch_sweep(as_rows(X), visits[block], codes[block], draws, *stream)
    state["sums"] = state["counts"][:, None] * state["means"]


# Kernels ---------------------------------------------------------------------------------------------------------
#
# Sums and stores are loops of their own, as _rows.py explains. Both triangles of n S are kept, so that all loops run
# along memory. What is done to each row is inlined: with ten features a call takes as long as its loop.


@kernel(fastmath=REDUCE, error_model="numpy")
def _covariance_sweep(rows, visits, codes, counts, means, scatters, traces, peak, w, lam, eta):
    """Update the own class's moments and then w at each row in turn (Gao et al. 2013, algorithm 1).

    A row of one class reads the other's n S: of a rare class it is read often and seldom changed, of a common one the
    reverse. So rows wait, at most three of them, until the other class asks: d^2 numbers are read and written for four
    rows at once, and to the last bit as if each had been added when it came.
    """
    d, u, product = w.shape[0], np.empty(w.shape[0]), np.empty(w.shape[0])
    distances, weights, n_waiting = np.empty((2, TOGETHER, d)), np.empty((2, TOGETHER)), np.zeros(2, dtype=np.int64)
    whole = d - d % 4
    for t in range(visits.size):
        prefetch_row(rows, visits[min(t + AHEAD, visits.size - 1)])
        i, own, other = visits[t], codes[t], 1 - codes[t]
        # 1. n S of the own class is to take in the row
        k = n_waiting[own]
        distance = distances[own, k]
        weights[own, k] = _count_and_move_mean(rows, i, own, counts, means, distance)
        traces[own] += weights[own, k] * inner(distance, distance)
        n_waiting[own] = k + 1
        if k + 1 == TOGETHER:
            _add_four_outer(scatters[own], weights[own], distances[own])
            n_waiting[own] = 0
        if counts[other] == 0:
            continue
        # 2. n S w of the other class
        if n_waiting[other] > 0:  # inline: in a function of its own it keeps others from being inlined
            for k in range(n_waiting[other]):
                _add_outer(scatters[other], weights[other, k], distances[other, k], distances[other, k])
            n_waiting[other] = 0
        for f in range(0, whole, 4):
            products = dot_four(scatters[other], f, f + 1, f + 2, f + 3, w)
            product[f], product[f + 1], product[f + 2], product[f + 3] = products
        for f in range(whole, d):
            product[f] = inner(scatters[other, f], w)
        # 3. w moves down the gradient of the row's mean loss
        leave(rows, i, means[other], 2.0 * own - 1.0, u)
        _descend(u, traces[other], product, counts[other], counts[0] + counts[1], peak, w, lam, eta)
    for own in range(2):
        for k in range(n_waiting[own]):
            _add_outer(scatters[own], weights[own, k], distances[own, k], distances[own, k])


@kernel(fastmath=REDUCE, error_model="numpy")
def _sketch_sweep(rows, visits, codes, draws, counts, means, sketches, traces, peak, w, lam, eta):
    """Do what ``_covariance_sweep`` does with n S replaced by Z Z', where row f of Z is sketches[class, f]."""
    u, product, shadow = np.empty(w.shape[0]), np.empty(w.shape[0]), np.empty(draws.shape[1])
    for t in range(visits.size):
        prefetch_row(rows, visits[min(t + AHEAD, visits.size - 1)])
        i, own, other = visits[t], codes[t], 1 - codes[t]
        # 1. Z takes in the row; the trace of Z Z' is Z's squared Frobenius norm
        root, flat = np.sqrt(_count_and_move_mean(rows, i, own, counts, means, u)), sketches[own].ravel()
        _add_outer(sketches[own], root, u, draws[t])
        traces[own] = inner(flat, flat)
        if counts[other] == 0:
            continue
        # 2. Z (Z'w) of the other class
        shadow[:] = 0.0
        for f in range(w.shape[0]):
            add_scaled(shadow, w[f], sketches[other, f])
        for f in range(w.shape[0]):
            product[f] = inner(sketches[other, f], shadow)
        # 3. as there
        leave(rows, i, means[other], 2.0 * own - 1.0, u)
        _descend(u, traces[other], product, counts[other], counts[0] + counts[1], peak, w, lam, eta)


@kernel(error_model="numpy", forceinline=True)
def _count_and_move_mean(rows, i, own, counts, means, distance):
    """Take in row i, the m-th of its class (Welford): ``distance`` becomes x minus the old mean; return (m - 1)/m."""
    counts[own] += 1
    leave(rows, i, means[own], 1.0, distance)
    m = counts[own]
    add_scaled(means[own], 1.0 / m, distance)
    return (m - 1.0) / m


@kernel(error_model="numpy", forceinline=True)
def _descend(u, trace, product, n, seen, peak, w, lam, eta):
    """Take the step -eta_t (lam w - (1 - w'u) u + S w), u = y (x - mean), S w = product/n and trace S = trace/n.

    The Hessian u u' + S has norm <= ||u||^2 + trace S <= peak. With eta <= 2 and t >= 1, eta_t (peak + lam) <= 2: no
    step lengthens the distance to its own loss's minimum.
    """
    peak[0] = max(peak[0], inner(u, u) + trace / n)
    step = 1.0 / (peak[0] / eta + lam * seen)
    pull = step * (1.0 - inner(w, u))
    for f in range(w.shape[0]):
        w[f] = (1.0 - step * lam) * w[f] + pull * u[f] - step / n * product[f]


@kernel(fastmath={"contract"}, forceinline=True)
def _add_four_outer(scatter, weights, distances):
    """Add four rows to n S in one pass over it: to the last bit as one ``_add_outer`` after the other."""
    for f in range(scatter.shape[0]):
        a, b = weights[0] * distances[0, f], weights[1] * distances[1, f]
        c, d = weights[2] * distances[2, f], weights[3] * distances[3, f]
        for g in range(scatter.shape[1]):
            total = scatter[f, g] + a * distances[0, g] + b * distances[1, g]
            scatter[f, g] = total + c * distances[2, g] + d * distances[3, g]


@kernel(fastmath={"contract"}, forceinline=True)
def _add_outer(target, weight, a, b):
    """target <- target + weight a b'"""
    for f in range(target.shape[0]):
        factor = weight * a[f]
        for g in range(target.shape[1]):
            target[f, g] += factor * b[g]
