"""Online AUC maximisation with reservoirs (OAM): each row that arrives meets rows kept of the other class.

With z_ij = x_i - x_j over the k pairs of a positive x_i and a negative x_j, all three approach the minimum of

    P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'z_ij).

From top to bottom: estimators, driver, dual bound, kernels.
"""

from functools import partial

import numpy as np
from scipy import sparse

from aucsolvers._certify import HINGE
from aucsolvers._jit import kernel
from aucsolvers._pairs import add_difference, measure_difference
from aucsolvers._params import check_count
from aucsolvers._rows import REDUCE, add, as_rows, dot
from aucsolvers._stream import OnlineScorer, pieces

LARGEST_BUFFER = 2**27  # rows of each class: 1 GiB

# Estimators ------------------------------------------------------------------------------------------------------


class OAMSeq(OnlineScorer):
    """Online AUC maximisation with reservoirs, updated pair by pair: each step is passive-aggressive.

    Approaches the minimum of P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'(x_i - x_j)) over the k = n_pos * n_neg
    pairs, the objective of AUCSDCD. A row that arrives meets the rows kept of the other class, in turn: with v the
    difference of the two, the positive minus the negative, w moves by min(C_t, max(0, 1 - w'v)/||v||^2) v.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0: C_t = max(1, N/buffer_size)/(lam k), N rows of the other class seen so far.
    buffer_size : int, default=100
        Rows kept of each class, at most 2^27: a uniform sample of those seen (reservoir sampling).
    n_pairs : int or None, default=None
        The k in C_t. None: in fit, the pairs of the whole stream, max_iter^2 n_pos n_neg; in partial_fit, which cannot
        know them, the pairs seen so far, so that early rows weigh more. Name it to make both equal.
    shuffle : bool, default=True
        Whether fit visits the rows in a fresh random order in each pass, or as given.
    tol : float, default=1e-3
        Stop after a pass whose certificate is at most tol; P(0) = 1. 0 uses up max_iter.
    max_iter : int, default=1
        Largest number of passes. One is the published budget; a further one goes on as if the rows arrived again.
    random_state : int, Generator, RandomState or None, default=None
        Draws the reservoirs and the order of visits.
    keep_stream : bool, default=True
        Whether fit keeps the stream's state, so that partial_fit can go on. It holds rows of the data and is pickled:
        use False for a model that is to be stored or handed on.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
    intercept_ : ndarray of shape (1,)
        After fit, minus the threshold of the largest G-mean on the training scores. After partial_fit, minus the
        middle between the mean scores of the classes under the current coef_, from running sums of the rows.
    objective_ : float
        P(coef_); nan after partial_fit.
    dual_gap_ : float
        An upper bound on P(w) - min P up to rounding, see Notes; nan after partial_fit: it would need the rows.
    gap_unit_ : float
        max(1, objective at w = 0), here always 1. ``dual_gap_ / gap_unit_`` compares fits to different data.
    n_iter_ : int
        Passes made; 1 after partial_fit.
    status_ : {"converged", "max_iter", "diverged"}
        Whether dual_gap_ <= tol; "diverged" where objective_ overflowed. After partial_fit always "max_iter": the
        stream so far is used up, nothing certified.
    history_ : dict of ndarray
        ``updates`` (rows seen), ``objective``, ``dual_gap``, ``auc`` (training), ``time_s``: at the start, after
        1 % and 10 % of the first pass, after each pass; the gaps of those two are what the first pass's end tells.
        Empty after partial_fit.
    classes_ : ndarray of shape (2,)
        The labels; the second is the positive class.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, features whose squares overflow, or partial_fit after a fit
        that kept no stream.

    Warns
    -----
    ConvergenceWarning
        If fit did not bring the certificate to tol. One pass rarely does.

    Notes
    -----
    A row costs O(buffer_size d), or O(buffer_size nnz per row) for CSR, whose rows are kept as CSR. The result does not
    depend on how a stream is cut into chunks, to the last bit; fit with shuffle=False, max_iter=1 and the same n_pairs
    has the same coef_. The same seed gives the same bits.

    Certificates, the best of those met in a run: the slopes of the loss at w are feasible dual variables, with gap
    ||dP(w)||^2/(2 lam); and the steps t_ij taken at each pair, times lam k, are too, once shrunk by the largest
    multiple of 1 that the weights C_t and repeated passes may have given to one pair.

    References
    ----------
    .. [1] Zhao, Hoi, Jin, Yang, "Online AUC Maximization", ICML 2011: algorithms 1 (framework), 2 (reservoir sampling)
       and 3 (sequential update).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import OAMSeq
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OAMSeq(lam=1e-2, tol=0.5, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.99)
    ('converged', True)
    """

    _loss = HINGE

    def __init__(
        self,
        lam=1e-3,
        *,
        buffer_size=100,
        n_pairs=None,
        shuffle=True,
        tol=1e-3,
        max_iter=1,
        random_state=None,
        keep_stream=True,
    ):
        self.lam = lam
        self.buffer_size = buffer_size
        self.n_pairs = n_pairs
        self.shuffle = shuffle
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.keep_stream = keep_stream

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        super().check_parameters()
        self._capacity()
        if self.n_pairs is not None:
            check_count("n_pairs", self.n_pairs)

    def _sweep(self):
        return _sequential_sweep

    def _capacity(self):
        """Return the rows kept of each class, None for all."""
        if check_count("buffer_size", self.buffer_size) > LARGEST_BUFFER:
            raise ValueError(
                f"Expected buffer_size to be at most {LARGEST_BUFFER}, got {self.buffer_size}: a buffer is made whole, "
                "however few rows there are. Use OAMInf, which keeps all rows."
            )
        return int(self.buffer_size)

    def _start(self, n_features):
        members = np.zeros((2, self._capacity() or 0), dtype=np.uint32)
        return super()._start(n_features) | {"rows": None, "members": members, "steps": np.zeros(1)}

    def _stream_to_go_on(self):
        state, capacity = super()._stream_to_go_on(), self._capacity()
        if state is not None and capacity and state["members"].shape[1] != capacity:
            raise ValueError(
                f"Expected buffer_size={state['members'].shape[1]}, that of the stream so far, got {capacity}. Set it "
                "back, or feed all rows to a clone."
            )
        return state

    def _learner(self, positive=None):
        n_pairs = self.n_pairs
        if n_pairs is None and positive is not None:
            n_pairs = int(self.max_iter) ** 2 * _count_pairs(positive)
        return partial(
            learn_with_reservoirs, sweep=self._sweep(), capacity=self._capacity(), lam=float(self.lam), n_pairs=n_pairs
        )

    def _dual_bound(self, positive):
        k = _count_pairs(positive)
        ratio = (self.n_pairs or int(self.max_iter) ** 2 * k) / k
        return partial(reservoir_dual_bound, lam=float(self.lam), ratio=ratio)

    def _join(self, state, X):
        return stack_rows(state["rows"], X)

    def _settle(self, state, pool):
        return keep_members(state, pool)


class OAMGra(OAMSeq):
    """Online AUC maximisation with reservoirs, updated by gradient: all rows kept are met at the same w.

    Approaches the minimum of P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'(x_i - x_j)), as OAMSeq. A row that
    arrives moves w by C_t times the sum of the differences v to those rows kept of the other class with w'v <= 1.

    Parameters
    ----------
    lam, buffer_size, n_pairs, shuffle, tol, max_iter, random_state, keep_stream
        As of OAMSeq.

    Attributes
    ----------
    coef_, intercept_, objective_, dual_gap_, gap_unit_, n_iter_, status_, history_, classes_
        As of OAMSeq.

    Raises
    ------
    ValueError
        As OAMSeq.

    Warns
    -----
    ConvergenceWarning
        As OAMSeq.

    Notes
    -----
    Cost, memory, determinism and certificates as OAMSeq. The step does not look at ||v||: features should be of unit
    scale, or lam large, for the first rows not to overshoot. Every w stays finite: no row moves it by more than C_t
    times the sum of the lengths of its differences v.

    References
    ----------
    .. [1] Zhao, Hoi, Jin, Yang, "Online AUC Maximization", ICML 2011: algorithm 4 (gradient update).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import OAMGra
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OAMGra(lam=1e-1, tol=0.9, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.98)
    ('converged', True)
    """

    def _sweep(self):
        return _gradient_sweep


class OAMInf(OAMSeq):
    """Online AUC maximisation that keeps every row: each pair is met once, in order of arrival.

    Approaches the minimum of P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'(x_i - x_j)), as OAMSeq. One pass is
    exactly one epoch of AUCSDCD from w = 0 with the pairs in order of arrival.

    Parameters
    ----------
    lam, n_pairs, shuffle, tol, max_iter, random_state, keep_stream
        As of OAMSeq, with C_t = 1/(lam k).
    max_bytes : int, default=4 * 1024**3
        Refuse a stream whose rows need more memory than this.

    Attributes
    ----------
    coef_, intercept_, objective_, dual_gap_, gap_unit_, n_iter_, status_, history_, classes_
        As of OAMSeq.

    Raises
    ------
    ValueError
        As OAMSeq, and for rows to keep that need more than max_bytes.

    Warns
    -----
    ConvergenceWarning
        As OAMSeq.

    Notes
    -----
    The first pass costs O(k d), or O(k nnz per row) for CSR, pass p 2p - 1 times that, for a row meets all rows of the
    passes before; memory is a copy of all rows seen, again in each pass, and while rows are added a second one. After
    one pass the steps themselves are the dual variables, so the certificate is AUCSDCD's. Use AUCSDCD to go on to the
    optimum.

    References
    ----------
    .. [1] Jiang, Tao, Gao, Chu, "Dual Coordinate Descent Method for Solving AUC Optimization Problem", Journal of
       Software 25(10), 2014: eq. 8 and section 2.2.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import OAMInf
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OAMInf(lam=1e-2, tol=0.1, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.99)
    ('converged', True)
    """

    def __init__(
        self,
        lam=1e-3,
        *,
        n_pairs=None,
        max_bytes=4 * 1024**3,
        shuffle=True,
        tol=1e-3,
        max_iter=1,
        random_state=None,
        keep_stream=True,
    ):
        self.lam = lam
        self.n_pairs = n_pairs
        self.max_bytes = max_bytes
        self.shuffle = shuffle
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.keep_stream = keep_stream

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        super().check_parameters()
        check_count("max_bytes", self.max_bytes)

    def _capacity(self):
        return None

    def _join(self, state, X):
        return X

    def _settle(self, state, pool):
        return state

    def _check_room(self, state, X, passes):
        rows, needed = passes * X.shape[0], passes * size_in_bytes(X)
        if state["rows"] is not None:
            rows, needed = rows + state["rows"].shape[0], needed + size_in_bytes(state["rows"])
        if needed > self.max_bytes:
            raise ValueError(
                f"Expected rows to keep of at most max_bytes={self.max_bytes} bytes, got {rows} rows, "
                f"which need {needed} bytes. Use OAMSeq (same objective, buffer_size rows of each class) or raise "
                "max_bytes if the memory is there."
            )


def _count_pairs(positive):
    return int(np.count_nonzero(positive)) * int(np.count_nonzero(~positive))


# Driver ----------------------------------------------------------------------------------------------------------


def learn_with_reservoirs(state, X, visits, codes, *, sweep, capacity, lam, n_pairs):
    """Take in rows ``visits`` of X by OAM. Changes the state; capacity None keeps every row.

    The state keeps ``members``, the rows of X in the reservoirs (first that of the negatives), or with capacity None of
    ``rows``, which are then a copy in order of arrival; and ``steps``, the sum of all steps.
    """
    if capacity is None:
        X, visits = _append(state, X, visits, codes)
    draws, work = state["generator"].random(len(visits)), state["members"].shape[1] * (X.size / X.shape[0])
    stream = state["counts"], state["sums"], state["members"], state["w"], lam, n_pairs or 0
    for piece in pieces(len(visits), work):
        state["steps"] += sweep(as_rows(X), visits[piece], codes[piece], draws[piece], *stream)


def _append(state, X, visits, codes):
    """Put rows ``visits`` of X after those kept; return these rows and where the new ones are among them.

    In order of arrival the opponents of a row lie one after another in memory: its visits read on instead of waiting.
    """
    first = 0 if state["rows"] is None else state["rows"].shape[0]
    state["rows"] = stack_rows(state["rows"], X[visits])
    members = np.zeros((2, (state["counts"] + np.bincount(codes, minlength=2)).max()), dtype=np.uint32)
    members[:, : state["members"].shape[1]] = state["members"]
    state["members"] = members
    return state["rows"], np.arange(first, first + len(visits), dtype=np.uint32)


def keep_members(state, pool):
    """Put the rows that the reservoirs hold into the state, each once, with ``members`` as rows of these."""
    members = state["members"]
    held = np.arange(members.shape[1]) < state["counts"][:, None]
    kept, members[held] = np.unique(members[held], return_inverse=True)
    state["rows"] = pool[kept]
    return state


def stack_rows(rows, X):
    """Return the rows kept and the new ones as one matrix, dense or canonical CSR like the first."""
    if rows is None:
        return X
    if not sparse.issparse(rows):
        return np.vstack([rows, X.toarray() if sparse.issparse(X) else X])
    pool = sparse.csr_array(sparse.vstack([sparse.csr_array(rows), sparse.csr_array(X)], format="csr"))
    pool.sum_duplicates()
    return pool


def size_in_bytes(X):
    """Return the memory that a matrix, dense or CSR, takes."""
    return sum(part.nbytes for part in (X.data, X.indices, X.indptr)) if sparse.issparse(X) else X.nbytes


def reservoir_dual_bound(state, passes, *, lam, ratio):
    """Return a lower bound on min P from OAM's own steps; ratio is n_pairs over the k pairs of the data.

    w = sum_ij t_ij z_ij, so alpha_ij = lam k t_ij has w(alpha) = w. A pair is met at most passes^2 times, with steps of
    at most heaviest/(lam n_pairs), heaviest being the largest weight so far: f alpha is feasible for
    0 <= f <= ratio/(passes^2 heaviest). The f that maximises D(f alpha) = lam (f sum t - f^2/2 ||w||^2) is
    sum t/||w||^2, or that bound.
    """
    norm, total = float(state["w"] @ state["w"]), float(state["steps"][0])
    if not np.isfinite(norm + total):
        return 0.0
    heaviest = max(1.0, state["counts"].max() / max(1, state["members"].shape[1]))
    limit = ratio / (passes**2 * heaviest)
    factor = limit if total >= limit * norm else total / norm
    return lam * factor * (total - 0.5 * factor * norm)


# Kernels ---------------------------------------------------------------------------------------------------------
#
# They take in rows ``visits`` of the pool; members[c] are the pool's rows in the reservoir of class c, of which
# min(counts[c], capacity) places are taken. ``draws`` holds a number in [0, 1) for each row. n_pairs = 0 stands for the
# pairs seen so far. Sums and stores are loops of their own, as _rows.py explains.


@kernel(error_model="numpy")
def _admit(row, own, draw, counts, members, lam, n_pairs):
    """Count the row, give it a place in its reservoir, and return the largest step C_t at one pair.

    Vitter's algorithm R: row m takes place floor(u m), if there is one: chance capacity/m.
    """
    place, capacity = counts[own], members.shape[1]
    counts[own] += 1
    if place >= capacity:
        place = np.int64(draw * counts[own])
    if place < capacity:
        members[own, place] = row
    pairs = n_pairs if n_pairs > 0 else max(1.0, np.float64(counts[0]) * counts[1])
    return max(1.0, counts[1 - own] / capacity) / (lam * pairs)


@kernel(fastmath=REDUCE, error_model="numpy")
def _sequential_sweep(rows, visits, codes, draws, counts, sums, members, w, lam, n_pairs):
    """Update w at each pair of a new row and one in the other reservoir in turn; return the sum of the steps."""
    total = 0.0
    for t in range(visits.size):
        x, own, other = visits[t], codes[t], 1 - codes[t]
        cap = _admit(x, own, draws[t], counts, members, lam, n_pairs)
        add(rows, x, 1.0, sums[own])
        sign = 2.0 * own - 1.0
        for place in range(min(counts[other], members.shape[1])):
            opponent = members[other, place]
            margin, square = measure_difference(rows, x, rows, opponent, sign, w)
            if margin >= 1.0:
                continue
            # passive-aggressive; v = 0 moves nothing, and the whole step is its dual optimum
            step = min(cap, (1.0 - margin) / square) if square > 0.0 else cap
            total += step
            add_difference(rows, x, rows, opponent, sign * step, w)
    return total


@kernel(fastmath=REDUCE, error_model="numpy")
def _gradient_sweep(rows, visits, codes, draws, counts, sums, members, w, lam, n_pairs):
    """Move w for each new row by C_t times the sum of the violated differences; return the sum of the steps."""
    total = 0.0
    violated = np.empty(members.shape[1], dtype=np.uint32)
    for t in range(visits.size):
        x, own, other = visits[t], codes[t], 1 - codes[t]
        cap = _admit(x, own, draws[t], counts, members, lam, n_pairs)
        add(rows, x, 1.0, sums[own])
        sign, score, n_violated = 2.0 * own - 1.0, dot(rows, x, w), 0
        # all tests at the same w, before it moves
        for place in range(min(counts[other], members.shape[1])):
            opponent = members[other, place]
            if sign * (score - dot(rows, opponent, w)) <= 1.0:
                violated[n_violated] = opponent
                n_violated += 1
        for place in range(n_violated):
            add_difference(rows, x, rows, violated[place], sign * cap, w)
        total += cap * n_violated
    return total
