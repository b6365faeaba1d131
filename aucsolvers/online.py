"""Online AUC maximisation: one row at a time, fed whole (fit) or in chunks (partial_fit) with the same bits.

With z_ij = x_i - x_j over the k pairs of a positive x_i and a negative x_j, the solvers approach the minimum of

    OAMSeq, OAMGra, OAMInf   P(w) = lam/2 ||w||^2 + 1/k  sum_ij max(0, 1 - w'z_ij)
    OPAUC, SOLAM             Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'z_ij)^2
    UniExp                   E(w) = lam/2 ||w||^2 + 1/2 mean_i exp(-w'x_i) + 1/2 mean_j exp(w'x_j)

A stream's state is a dict: ``generator``, ``counts`` and ``sums`` of the rows of each class (negative first, as all
arrays by class here), the model ``w``, and what the method adds. Rows are always taken in one by one, random numbers
are drawn per row and all sums run in order of arrival: where a chunk ends and the next begins leaves no trace.
From top to bottom: estimators, drivers, losses and certificates, kernels.
"""

from functools import partial
from itertools import pairwise

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace
from aucsolvers._jit import kernel
from aucsolvers._pairwise import check_squares
from aucsolvers._params import as_generator, check_count, check_positive, check_tolerance
from aucsolvers._rows import REDUCE, row_scores
from aucsolvers.metrics import margin_violations, mean_pair_hinge, square_slopes
from aucsolvers.pairwise_hinge import _add, _dot, _squared_distance

BLOCK_ROWS = 4096  # rows copied at a time in the order of their visits
DENSE_VALUES = 2**17  # of CSR rows made dense at a time: 1 MiB
LARGEST_ETA = 2.0  # a longer step along a direction of largest curvature overshoots by more than it started with
LARGEST_ZETA = 1e3


# Estimators ------------------------------------------------------------------------------------------------------


class OnlineScorer(LinearScorer):
    """Base of the online solvers: passes over the rows (``fit``) or a stream in chunks (``partial_fit``).

    A subclass names its ``_loss``, tells how a stream starts (``_start``) and how rows are learnt (``_learner``).
    """

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_positive("lam", self.lam)
        check_tolerance(self.tol)
        check_count("max_iter", self.max_iter)

    def fit(self, X, y):
        """Fit to X, shape (n_samples, n_features), dense or CSR, and two-class labels y; return self.

        A fresh stream of max_iter passes over the rows, each in a new random order (shuffle) or as given. It ends
        early after a pass whose certificate is at most tol.
        """
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        check_squares(X)
        state = self._start(X.shape[1])
        learn, dual_bound = self._learner(y), self._dual_bound(y)
        certifier = _Certifier(X, y > 0, self.lam, self._loss, dual_bound)
        result = run_passes(learn, state, X, y, certifier, self.shuffle, self.tol, self.max_iter)
        self._stream = result.state if self.keep_stream else None
        return self._publish(result, X, y)

    def partial_fit(self, X, y, classes=None):
        """Take in the next rows of a stream, in the order given; return self.

        The first call needs both labels, in y or in classes. After fit, it goes on from there. Neither shuffle, tol nor
        max_iter plays a part.
        """
        self.check_parameters()
        state = self._stream_to_go_on()
        X, y = self._validate_chunk(X, y, classes, first=state is None)
        check_squares(X)
        if state is None:
            state = self._start(X.shape[1])
        self._learner()(state, X, y)
        return self._publish_stream(state)

    def _start(self, n_features):
        return {
            "generator": as_generator(self.random_state),
            "counts": np.zeros(2, dtype=np.int64),
            "sums": np.zeros((2, n_features)),
            "w": np.zeros(n_features),
        }

    def _dual_bound(self, y):
        """Return a function (state, passes) -> lower bound on the optimum, if the method has one of its own."""
        return None

    def _stream_to_go_on(self):
        state = getattr(self, "_stream", None)
        if state is None and hasattr(self, "coef_"):
            raise ValueError(
                "Expected a stream to go on with, got a model from fit, which kept none. "
                "Set keep_stream=True before fit, or feed all rows to partial_fit of a clone."
            )
        return state

    def _validate_chunk(self, X, y, classes, first):
        """Return C-ordered float64 (or CSR) X and y as an array of ±1.0; set ``classes_`` if the stream begins here."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64, order="C", reset=first)
        check_classification_targets(y)
        known = np.unique(y if classes is None else classes) if first else self.classes_
        if len(known) != 2:
            raise ValueError(f"Expected two classes, got {known.tolist()}. Name both with classes= in the first call.")
        strangers = np.setdiff1d(y if classes is None else np.append(np.unique(y), classes), known)
        if len(strangers):
            raise ValueError(
                f"Expected labels among {known.tolist()}, got {strangers[:5].tolist()}. Name both in the first call."
            )
        self.classes_ = known
        return X, np.where(y == known[1], 1.0, -1.0)

    def _publish_stream(self, state):
        """Set the attributes that a stream allows: without its rows, no objective and no certificate."""
        self._stream = state
        self.coef_ = state["w"].reshape(1, -1).copy()
        centres = state["sums"] / np.maximum(state["counts"], 1)[:, None]
        self.intercept_ = np.array([-0.5 * row_scores(centres, state["w"]).sum()])
        self.objective_ = self.dual_gap_ = np.nan
        self.n_iter_, self.status_ = 1, MAX_ITER
        self.history_ = {name: np.array([]) for name in Trace.NAMES}
        return self


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
        Rows kept of each class: a uniform sample of those seen (reservoir sampling).
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
        An upper bound on P(w) - min P, see Notes; nan after partial_fit: it would need the rows.
    n_iter_ : int
        Passes made; 1 after partial_fit.
    status_ : {"converged", "max_iter"}
        Whether dual_gap_ <= tol. After partial_fit always "max_iter": the stream so far is used up, nothing certified.
    history_ : dict of ndarray
        ``updates`` (rows seen), ``objective``, ``dual_gap``, ``auc`` (training), ``time_s``: at the start, after
        1 % and 10 % of the first pass, after each pass. Empty after partial_fit.
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
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OAMSeq(lam=1e-2, tol=0.5, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.99)
    ('converged', True)
    """

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

    def _loss(self, scores, positive):
        return hinge_loss(scores, positive)

    def _sweeps(self):
        return _sequential_dense, _sequential_sparse

    def _capacity(self):
        return check_count("buffer_size", self.buffer_size)

    def _start(self, n_features):
        held, steps = np.zeros(2, dtype=np.int64), np.zeros(1)
        return super()._start(n_features) | {"rows": None, "held": held, "steps": steps, "heaviest": 1.0}

    def _pairs(self, y):
        if self.n_pairs is not None or y is None:
            return self.n_pairs
        return self.max_iter**2 * int(np.count_nonzero(y > 0)) * int(np.count_nonzero(y < 0))

    def _learner(self, y=None):
        n_pairs = self._pairs(y)
        return partial(
            learn_with_reservoirs, sweeps=self._sweeps(), capacity=self._capacity(), lam=self.lam, n_pairs=n_pairs
        )

    def _dual_bound(self, y):
        k = int(np.count_nonzero(y > 0)) * int(np.count_nonzero(y < 0))
        return partial(reservoir_dual_bound, lam=self.lam, ratio=self._pairs(y) / k)


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
    coef_, intercept_, objective_, dual_gap_, n_iter_, status_, history_, classes_
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
    scale, or lam large, for the first rows not to overshoot. Every w stays finite: no step is longer than C_t ||v||.

    References
    ----------
    .. [1] Zhao, Hoi, Jin, Yang, "Online AUC Maximization", ICML 2011: algorithm 4 (gradient update).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OAMGra(lam=1e-1, tol=0.9, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.98)
    ('converged', True)
    """

    def _sweeps(self):
        return _gradient_dense, _gradient_sparse


class OAMInf(OAMSeq):
    """Online AUC maximisation that keeps every row: each pair is met once, in order of arrival.

    Approaches the minimum of P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'(x_i - x_j)), as OAMSeq. One pass is
    exactly one epoch of AUCSDCD from w = 0 with the pairs in order of arrival.

    Parameters
    ----------
    lam, n_pairs, shuffle, tol, max_iter, random_state, keep_stream
        As of OAMSeq, with C_t = 1/(lam k).

    Attributes
    ----------
    coef_, intercept_, objective_, dual_gap_, n_iter_, status_, history_, classes_
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
    A pass costs O(k d), or O(k nnz per row) for CSR; memory is a copy of all rows seen. After one pass the steps
    themselves are the dual variables, so the certificate is AUCSDCD's. Use AUCSDCD to go on to the optimum.

    References
    ----------
    .. [1] Jiang, Tao, Gao, Chu, "Dual Coordinate Descent Method for Solving AUC Optimization Problem", Journal of
       Software 25(10), 2014: eq. 8 and section 2.2.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OAMInf(lam=1e-2, tol=0.1, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.99)
    ('converged', True)
    """

    def __init__(
        self, lam=1e-3, *, n_pairs=None, shuffle=True, tol=1e-3, max_iter=1, random_state=None, keep_stream=True
    ):
        self.lam = lam
        self.n_pairs = n_pairs
        self.shuffle = shuffle
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.keep_stream = keep_stream

    def _capacity(self):
        return None


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
    max_covariance_bytes : int, default=1024**3
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
        An upper bound on Q(w) - min Q: Q(w) less the best Q(v) - ||dQ(v)||^2/(2 lam) of the points v in history_. It
        is of Q itself, also if rank approximates the steps. nan after partial_fit.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, features whose squares overflow, covariances that need more
        than max_covariance_bytes, or partial_fit after a fit that kept no stream.

    Warns
    -----
    ConvergenceWarning
        If fit did not bring the certificate to tol. One pass rarely does.

    Notes
    -----
    A row costs O(d^2), or O(d rank), also for CSR, whose rows are made dense some at a time. Memory is 16 d^2 or
    16 d rank bytes. Means and covariances are updated by Welford's recurrence, S <- S + (m - 1)/m D D' with D the row's
    distance from the mean of the m - 1 before it, which does not cancel for features far from 0; a sketch adds
    sqrt((m - 1)/m) D r' with r ~ N(0, I/rank) instead, so that its square is S in expectation. The result does not
    depend on how a stream is cut into chunks, to the last bit. The same seed gives the same bits.

    References
    ----------
    .. [1] Gao, Jin, Zhu, Zhou, "One-Pass AUC Optimization", ICML 2013: algorithm 1, section 3 (random sketch).

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = OPAUC(lam=0.1, tol=0.1, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.98)
    ('converged', True)
    """

    def __init__(
        self,
        lam=1e-3,
        *,
        eta=1.0,
        rank=None,
        max_covariance_bytes=1024**3,
        shuffle=True,
        tol=1e-3,
        max_iter=1,
        random_state=None,
        keep_stream=True,
    ):
        self.lam = lam
        self.eta = eta
        self.rank = rank
        self.max_covariance_bytes = max_covariance_bytes
        self.shuffle = shuffle
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.keep_stream = keep_stream

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        super().check_parameters()
        _check_step("eta", self.eta, LARGEST_ETA)
        check_count("max_covariance_bytes", self.max_covariance_bytes)
        if self.rank is not None:
            check_count("rank", self.rank)

    def _loss(self, scores, positive):
        return square_loss(scores, positive)

    def _start(self, n_features):
        columns = self.rank or n_features
        _check_covariance_bytes(n_features, columns, self.max_covariance_bytes)
        return super()._start(n_features) | {
            "means": np.zeros((2, n_features)),
            "scatters": np.zeros((2, n_features, columns)),
            "traces": np.zeros(2),
            "peak": np.zeros(1),
        }

    def _learner(self, y=None):
        learn = partial(learn_against_moments, lam=self.lam, eta=self.eta, rank=self.rank)
        return partial(learn_densely, learn)


class SOLAM(OnlineScorer):
    """Stochastic online AUC maximisation: the square loss as a saddle-point problem, O(d) per row (regSOLAM).

    Approaches the minimum of Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'(x_i - x_j))^2, the objective of LSSVM, as
    the saddle point, min over w, a, b and max over alpha, of the mean of

        (1 - p) [(s - a)^2/2 - (1 + alpha) s]  or  p [(s - b)^2/2 + (1 + alpha) s]
        + p (1 - p) (lam/2 ||w||^2 - alpha^2/2)

    for a positive or a negative row, with s = w'x and p the share of positives so far: p (1 - p) (Q - 1/2) at the best
    a, b and alpha.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0.
    zeta : float, default=3.0
        Length of the steps, 0 < zeta <= 1000: step t is zeta/sqrt(t) for a, b and alpha, and for w as if the rows were
        divided by the largest norm so far.
    shuffle : bool, default=True
        Whether fit visits the rows in a fresh random order in each pass, or as given.
    tol : float, default=1e-3
        Stop after a pass whose certificate is at most tol; Q(0) = 1/2. 0 uses up max_iter.
    max_iter : int, default=10
        Largest number of passes.
    random_state : int, Generator, RandomState or None, default=None
        Draws the order of visits.
    keep_stream : bool, default=True
        Whether fit keeps the stream's state, O(d), so that partial_fit can go on.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        The average of the iterates, weighted by the steps.
    intercept_, n_iter_, status_, history_, classes_
        As of OAMSeq.
    objective_, dual_gap_ : float
        As of OPAUC.

    Raises
    ------
    ValueError
        For invalid parameters, other than two classes, features whose squares overflow, or partial_fit after a fit
        that kept no stream.

    Warns
    -----
    ConvergenceWarning
        If fit did not bring the certificate to tol: the error falls about as 1/sqrt(rows seen).

    Notes
    -----
    A row costs O(d) and so does memory, also for CSR, whose rows are made dense some at a time. The projections
    ||w|| <= R, |a|, |b| <= R K, |alpha| <= 2 R K, with R = 1/sqrt(lam) and K the largest row norm so far, contain the
    saddle point, because lam/2 ||w*||^2 <= Q(0) = 1/2. Centred rows of unit norm suit it best, as in [2]_; the rarer a
    class, the longer the steps may be. The result does not depend on how a stream is cut into chunks,
    to the last bit. The same seed gives the same bits.

    The source adds lam/2 ||w||^2 to a loss that is p (1 - p) times the pairwise one; here it has the factor too, or
    the saddle point would be that of lam/(p (1 - p)).

    References
    ----------
    .. [1] Ying, Wen, Lyu, "Stochastic Online AUC Maximization", NIPS 2016: algorithm 1.
    .. [2] Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in Applied
       Mathematics and Statistics, 2019: eq. 6 and section 5.1.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import normalize, scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SOLAM(lam=0.1, tol=0.01, random_state=0).fit(normalize(scale(X)), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.98)
    ('converged', True)
    """

    def __init__(self, lam=1e-3, *, zeta=3.0, shuffle=True, tol=1e-3, max_iter=10, random_state=None, keep_stream=True):
        self.lam = lam
        self.zeta = zeta
        self.shuffle = shuffle
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.keep_stream = keep_stream

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        super().check_parameters()
        _check_step("zeta", self.zeta, LARGEST_ZETA)

    def _loss(self, scores, positive):
        return square_loss(scores, positive)

    def _start(self, n_features):
        iterate, w_sum, saddle = np.zeros(n_features), np.zeros(n_features), np.zeros(5)
        return super()._start(n_features) | {"iterate": iterate, "w_sum": w_sum, "saddle": saddle}

    def _learner(self, y=None):
        return partial(learn_densely, partial(learn_saddle_point, lam=self.lam, zeta=self.zeta))


class UniExp(OnlineScorer):
    """Online univariate exponential loss, weighted by class: ranks without looking at a pair.

    Approaches the minimum of E(w) = lam/2 ||w||^2 + 1/2 mean_i exp(-w'x_i) + 1/2 mean_j exp(w'x_j) over the positives i
    and the negatives j. There is no bias: centre the features. A row moves w by
    -eta_t (lam w - c y exp(-y w'x) x), with c = 1/(2 p) for a positive, 1/(2 (1 - p)) for a negative row, and p the
    share of positives so far.

    Parameters
    ----------
    lam : float, default=1e-3
        Weight of the regulariser, > 0.
    eta : float, default=1.0
        Length of the steps, 0 < eta <= 2: eta_t = 1/(K_t/eta + lam t), where K_t is the largest ||x||^2 so far.
    shuffle, tol, max_iter, random_state, keep_stream
        As of SOLAM; E(0) = 1, max_iter=1.

    Attributes
    ----------
    coef_, intercept_, n_iter_, status_, history_, classes_
        As of OAMSeq.
    objective_ : float
        E(coef_); nan after partial_fit.
    dual_gap_ : float
        An upper bound on E(w) - min E: E(w) less the best E(v) - ||dE(v)||^2/(2 lam) of the points v in history_, since
        E is lam-strongly convex. nan after partial_fit.

    Raises
    ------
    ValueError
        As SOLAM.

    Warns
    -----
    ConvergenceWarning
        If fit did not bring the certificate to tol. One pass rarely does.

    Notes
    -----
    A row costs O(d), also for CSR, whose rows are made dense some at a time. A step is kept from raising the row's own
    margin by more than 1, which is where Newton's step on its loss would end: exp cannot run away. The result does not
    depend on how a stream is cut into chunks, to the last bit. The same seed gives the same bits.

    References
    ----------
    .. [1] Kotlowski, Dembczynski, Huellermeier, "Bipartite Ranking through Minimization of Univariate Loss", ICML 2011.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = UniExp(lam=0.1, tol=0.1, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.history_["auc"][-1] > 0.98)
    ('converged', True)
    """

    def __init__(self, lam=1e-3, *, eta=1.0, shuffle=True, tol=1e-3, max_iter=1, random_state=None, keep_stream=True):
        self.lam = lam
        self.eta = eta
        self.shuffle = shuffle
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.keep_stream = keep_stream

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        super().check_parameters()
        _check_step("eta", self.eta, LARGEST_ETA)

    def _loss(self, scores, positive):
        return exponential_loss(scores, positive)

    def _start(self, n_features):
        return super()._start(n_features) | {"peak": np.zeros(1)}

    def _learner(self, y=None):
        return partial(learn_densely, partial(learn_exponential, lam=self.lam, eta=self.eta))


def _check_step(name, value, largest):
    if check_positive(name, value) > largest:
        raise ValueError(f"Expected {name} <= {largest:g}, got {value!r}: longer steps only overshoot. Lower {name}.")


def _check_covariance_bytes(n_features, columns, limit):
    needed = 2 * 8 * n_features * columns
    if needed > limit:
        raise ValueError(
            f"Expected covariances of at most max_covariance_bytes={limit} bytes, got 2 x {n_features} x {columns} "
            f"float64, which need {needed} bytes. Use rank=50 (random sketches of {16 * n_features * 50} bytes), SOLAM "
            "(same objective, O(d) memory), or raise max_covariance_bytes if the memory is there."
        )


# Drivers ---------------------------------------------------------------------------------------------------------


def run_passes(learn, state, X, y, certifier, shuffle, tol, max_iter):
    """Feed passes over the rows to a fresh stream until its certificate is at most tol; return a SolverResult.

    ``learn(state, X, y)`` takes in rows and leaves the model in state["w"].
    """
    n, n_iter = len(y), 0
    objective, gap = certifier.look(state, 0)
    # at least one pass: the certificate may pass w = 0 (large lam, tiny features), which ranks nothing
    while (gap > tol or n_iter == 0) and n_iter < max_iter:
        order = state["generator"].permutation(n) if shuffle else np.arange(n)
        # a look costs as much as thousands of cheap steps: two within the first pass must do
        points = () if n_iter else {n // 100, n // 10} - {0}
        for start, stop in pairwise(sorted({*range(0, n, BLOCK_ROWS), *points, n})):
            visits = order[start:stop]
            learn(state, X[visits], y[visits])
            if stop in points:
                certifier.look(state, stop)
        n_iter += 1
        objective, gap = certifier.look(state, n_iter * n)
    status = CONVERGED if gap <= tol else MAX_ITER
    return SolverResult(state["w"].copy(), None, objective, gap, n_iter, status, certifier.trace.as_history(), state)


def learn_with_reservoirs(state, X, y, *, sweeps, capacity, lam, n_pairs):
    """Take in rows by OAM, dense or CSR as the stream's first rows are; y is +-1. Changes the state.

    The state keeps ``rows``, the reservoirs (first that of the negatives), ``held``, how many of each class, ``steps``,
    the sum of all steps, and ``heaviest``, the largest weight of a step. capacity None keeps every row.
    """
    # 1. for each row: the rows of each class so far, its place in the reservoir, the largest step at one pair
    codes, seen = _count(state, y)
    slots, weights = _reservoir_slots(state, codes, seen, capacity)
    pairs = np.maximum(seen.prod(axis=1), 1) if n_pairs is None else n_pairs
    caps = weights / (lam * pairs)
    state["heaviest"] = max(state["heaviest"], weights.max())

    # 2. a pool of the rows kept and the new ones, in which the kernel names rows by number
    pool, held = _stack(state["rows"], X), state["held"]
    size = int(state["counts"].max()) if capacity is None else capacity
    members = np.zeros((2, size), dtype=np.int64)
    members[0, : held[0]] = np.arange(held[0])
    members[1, : held[1]] = held[0] + np.arange(held[1])
    _add_class_sums(pool, held.sum(), codes, state["sums"])
    dense, thin = sweeps
    sweep = partial(thin, pool.data, pool.indices, pool.indptr) if sparse.issparse(pool) else partial(dense, pool)
    sweep(held.sum(), codes, slots, caps, members, held, state["w"], state["steps"])

    # 3. what the reservoirs hold now
    state["rows"] = pool[np.concatenate([members[0, : held[0]], members[1, : held[1]]])]


def _reservoir_slots(state, codes, seen, capacity):
    """Return each row's place in its class's reservoir, -1 for none, and the weight of its steps."""
    turn = np.arange(len(codes))
    own, opposite = seen[turn, codes], seen[turn, 1 - codes]
    if capacity is None:
        return own - 1, np.ones(len(codes))
    # Vitter's algorithm R: row m takes place floor(u m), if there is one: chance capacity/m. One u per row, always
    slots = np.where(own <= capacity, own - 1, (state["generator"].random(len(codes)) * own).astype(np.int64))
    slots[slots >= capacity] = -1
    return slots, np.maximum(1.0, opposite / capacity)


def _stack(rows, X):
    """Return the rows kept and the new ones as one block of their own, dense or canonical CSR like the first."""
    if rows is None:
        rows = X[:0]
    if not sparse.issparse(rows):
        return np.vstack([rows, X.toarray() if sparse.issparse(X) else X])
    pool = sparse.csr_array(sparse.vstack([sparse.csr_array(rows), sparse.csr_array(X)], format="csr"))
    pool.sum_duplicates()
    # index types as in split_classes: a kernel is compiled once
    pool.indices, pool.indptr = pool.indices.astype(np.int32), pool.indptr.astype(np.int64)
    return pool


def learn_densely(learn, state, X, y):
    """Take in rows by ``learn(state, X, y, codes, seen)``, CSR ones made dense some at a time."""
    block = max(1, DENSE_VALUES // X.shape[1]) if sparse.issparse(X) else len(y)
    for start in range(0, len(y), block):
        rows = X[start : start + block]
        rows = rows.toarray() if sparse.issparse(rows) else rows
        codes, seen = _count(state, y[start : start + block])
        _add_class_sums(rows, 0, codes, state["sums"])
        learn(state, rows, codes, seen)


def learn_against_moments(state, X, codes, seen, *, lam, eta, rank):
    """Take in dense rows by OPAUC. Changes the state.

    The state keeps the class ``means``, ``scatters`` (n S, or its sketch), their ``traces`` and ``peak``, the largest
    curvature so far.
    """
    moments = state["means"], state["scatters"], state["traces"], state["peak"]
    if rank is None:
        _covariance_sweep(X, codes, seen, *moments, state["w"], lam, eta)
    else:
        draws = state["generator"].standard_normal((len(codes), rank)) / np.sqrt(rank)
        _sketch_sweep(X, draws, codes, seen, *moments, state["w"], lam, eta)


def learn_saddle_point(state, X, codes, seen, *, lam, zeta):
    """Take in dense rows by regSOLAM. Changes the state.

    The state keeps the ``iterate``, ``w_sum``, the sum of the iterates times their steps, and in ``saddle`` b, a,
    alpha, the sum of the steps and the largest squared norm of a row.
    """
    _saddle_sweep(X, codes, seen, state["saddle"], state["iterate"], state["w_sum"], lam, zeta)
    state["w"] = state["w_sum"] / state["saddle"][3]


def learn_exponential(state, X, codes, seen, *, lam, eta):
    """Take in dense rows by UniExp. Changes the state, which keeps ``peak``, the largest squared norm of a row."""
    _exponential_sweep(X, codes, seen, state["peak"], state["w"], lam, eta)


def _count(state, y):
    """Return the rows' classes, 0 or 1, and the numbers of rows of each class up to and including each row."""
    codes = (y > 0).astype(np.int64)
    seen = state["counts"] + np.cumsum(np.column_stack([1 - codes, codes]), axis=0)
    state["counts"] = seen[-1].copy()
    return codes, seen


def _add_class_sums(rows, first, codes, sums):
    if sparse.issparse(rows):
        _class_sums_sparse(rows.data, rows.indices, rows.indptr, first, codes, sums)
    else:
        _class_sums_dense(rows, first, codes, sums)


# Losses and certificates -----------------------------------------------------------------------------------------


class _Certifier:
    """Looks at a stream's model on all rows: objective, certificate and a point of the trace.

    Every loss here is >= 0 and convex in the scores, so 0 and, by strong convexity, P(w) - ||dP(w)||^2/(2 lam) at any w
    are lower bounds on the optimum. The best one met counts.
    """

    def __init__(self, X, positive, lam, loss, dual_bound):
        self.trace = Trace()
        self._problem = X, positive, lam, loss, dual_bound
        self._lower_bound = 0.0

    def look(self, state, rows_seen):
        """Add a point to the trace; return the objective and the gap at the stream's model."""
        X, positive, lam, loss, dual_bound = self._problem
        w = state["w"]
        scores = X @ w
        mean_loss, slopes = loss(scores, positive)
        objective = 0.5 * lam * float(w @ w) + mean_loss
        gradient = lam * w + X.T @ slopes
        self._lower_bound = max(self._lower_bound, objective - float(gradient @ gradient) / (2 * lam))
        if dual_bound is not None:
            passes = -(-rows_seen // len(scores))
            self._lower_bound = max(self._lower_bound, dual_bound(state, passes))
        gap = max(0.0, objective - self._lower_bound)
        self.trace.add(rows_seen, objective, gap, scores[positive], scores[~positive])
        return objective, gap


def reservoir_dual_bound(state, passes, *, lam, ratio):
    """Return a lower bound on min P from OAM's own steps; ratio is n_pairs over the k pairs of the data.

    w = sum_ij t_ij z_ij, so alpha_ij = lam k t_ij has w(alpha) = w. A pair is met at most passes^2 times, with steps of
    at most heaviest/(lam n_pairs): f alpha is feasible for 0 <= f <= ratio/(passes^2 heaviest). The f that maximises
    D(f alpha) = lam (f sum t - f^2/2 ||w||^2) is sum t/||w||^2, or that bound.
    """
    norm, total = float(state["w"] @ state["w"]), float(state["steps"][0])
    limit = ratio / (max(1, passes) ** 2 * state["heaviest"])
    factor = limit if total >= limit * norm else total / norm
    return lam * factor * (total - 0.5 * factor * norm)


def hinge_loss(scores, positive):
    """Return 1/k sum_ij max(0, 1 - s_i + s_j) and its slope in each score."""
    s_pos, s_neg = scores[positive], scores[~positive]
    slopes = np.empty(len(scores))
    violated_pos, violated_neg = margin_violations(s_pos, s_neg)
    slopes[positive], slopes[~positive] = -violated_pos, violated_neg
    return mean_pair_hinge(s_pos, s_neg), slopes / (len(s_pos) * len(s_neg))


def square_loss(scores, positive):
    """Return 1/2k sum_ij (1 - s_i + s_j)^2 and its slope in each score."""
    s_pos, s_neg = scores[positive], scores[~positive]
    error = 1.0 - (s_pos.mean() - s_neg.mean())
    return 0.5 * float(error * error + s_pos.var() + s_neg.var()), square_slopes(scores, positive, margin=1.0)


def exponential_loss(scores, positive):
    """Return half the positives' mean exp(-s) plus half the negatives' mean exp(s), and its slope in each score."""
    signs = np.where(positive, 1.0, -1.0)
    n_pos = np.count_nonzero(positive)
    losses = np.exp(-signs * scores) / np.where(positive, 2 * n_pos, 2 * (len(scores) - n_pos))
    return float(losses.sum()), -signs * losses


# Kernels ---------------------------------------------------------------------------------------------------------
#
# The OAM sweeps take rows first, first + 1, ... of the pool; members[c, :held[c]] are the pool's rows in the reservoir
# of class c, slots[t] the place that row t takes there (-1: none) and caps[t] the largest step at one pair.
#
# No loop both stores to an array and sums with fastmath: the compiler would vectorise it under a test that the arrays
# do not overlap, which it makes coarse, and sum in another order where two happen to lie close. Bits would then depend
# on addresses. Hence sums are loops of their own, and loops that store are in functions without re-ordering.


@kernel(fastmath=REDUCE, error_model="numpy")
def _sequential_dense(pool, first, codes, slots, caps, members, held, w, steps):
    """Update w at each pair of a new row and one in the other reservoir in turn; add the steps to steps[0]."""
    for t in range(codes.shape[0]):
        own, other = codes[t], 1 - codes[t]
        _admit(first + t, slots[t], members[own], held, own)
        x, sign = pool[first + t], 2.0 * own - 1.0
        for place in range(held[other]):
            opponent = pool[members[other, place]]
            dot = squared_norm = 0.0
            for f in range(w.shape[0]):
                z = x[f] - opponent[f]
                dot += w[f] * z
                squared_norm += z * z
            step = _passive_aggressive_step(sign * dot, squared_norm, caps[t])
            if step == 0.0:
                continue
            steps[0] += step
            _add_difference(w, sign * step, x, opponent)


@kernel(fastmath=REDUCE, error_model="numpy")
def _sequential_sparse(data, cols, ptr, first, codes, slots, caps, members, held, w, steps):
    """Do what ``_sequential_dense`` does on CSR rows, at a cost of the two rows' stored values."""
    for t in range(codes.shape[0]):
        row, own, other = first + t, codes[t], 1 - codes[t]
        _admit(row, slots[t], members[own], held, own)
        x_from, x_to, sign = ptr[row], ptr[row + 1], 2.0 * own - 1.0
        for place in range(held[other]):
            opponent = members[other, place]
            o_from, o_to = ptr[opponent], ptr[opponent + 1]
            margin = sign * (_dot(data, cols, x_from, x_to, w) - _dot(data, cols, o_from, o_to, w))
            if margin >= 1.0:
                continue  # no step, whatever the norm: the merge of the two rows is what costs
            squared_norm = _squared_distance(data, cols, x_from, x_to, data, cols, o_from, o_to)
            step = _passive_aggressive_step(margin, squared_norm, caps[t])
            steps[0] += step
            _add(data, cols, x_from, x_to, sign * step, w)
            _add(data, cols, o_from, o_to, -sign * step, w)


@kernel(fastmath=REDUCE, error_model="numpy")
def _gradient_dense(pool, first, codes, slots, caps, members, held, w, steps):
    """Move w for each new row by caps[t] times the sum of the violated differences; add the steps to steps[0]."""
    gradient = np.empty(w.shape[0])
    for t in range(codes.shape[0]):
        own, other = codes[t], 1 - codes[t]
        _admit(first + t, slots[t], members[own], held, own)
        x, sign = pool[first + t], 2.0 * own - 1.0
        gradient[:] = 0.0
        for place in range(held[other]):
            opponent = pool[members[other, place]]
            dot = 0.0
            for f in range(w.shape[0]):
                dot += w[f] * (x[f] - opponent[f])
            if sign * dot > 1.0:
                continue
            steps[0] += caps[t]
            _add_difference(gradient, 1.0, x, opponent)
        _add_scaled(w, sign * caps[t], gradient)


@kernel(fastmath=REDUCE, error_model="numpy")
def _gradient_sparse(data, cols, ptr, first, codes, slots, caps, members, held, w, steps):
    """Do what ``_gradient_dense`` does on CSR rows, at a cost of the two rows' stored values."""
    violated = np.empty(members.shape[1], dtype=np.bool_)
    for t in range(codes.shape[0]):
        row, own, other = first + t, codes[t], 1 - codes[t]
        _admit(row, slots[t], members[own], held, own)
        sign, score = 2.0 * own - 1.0, _dot(data, cols, ptr[row], ptr[row + 1], w)
        # all tests at the same w, before it moves
        for place in range(held[other]):
            opponent = members[other, place]
            violated[place] = sign * (score - _dot(data, cols, ptr[opponent], ptr[opponent + 1], w)) <= 1.0
        for place in range(held[other]):
            if violated[place]:
                opponent = members[other, place]
                steps[0] += caps[t]
                _add(data, cols, ptr[row], ptr[row + 1], sign * caps[t], w)
                _add(data, cols, ptr[opponent], ptr[opponent + 1], -sign * caps[t], w)


@kernel()
def _admit(row, slot, reservoir, held, own):
    if slot >= 0:
        reservoir[slot] = row
        held[own] = max(held[own], slot + 1)


@kernel(error_model="numpy")
def _passive_aggressive_step(margin, squared_norm, cap):
    """Return min(cap, max(0, 1 - margin)/||v||^2); for v = 0, which moves nothing, cap: it is the dual optimum."""
    return min(cap, max(0.0, 1.0 - margin) / squared_norm) if squared_norm > 0.0 else cap


@kernel(fastmath=REDUCE, error_model="numpy")
def _covariance_sweep(X, codes, seen, means, scatters, traces, peak, w, lam, eta):
    """Update the own class's moments and then w at each row in turn (Gao et al. 2013, algorithm 1)."""
    u, product = np.empty(w.shape[0]), np.empty(w.shape[0])
    for t in range(codes.shape[0]):
        own, other = codes[t], 1 - codes[t]
        # 1. n S of the own class takes in the row; both triangles are kept, so that all loops run along memory
        weight = _move_mean(X[t], seen[t, own], means[own], u)
        traces[own] += weight * _inner(u, u)
        _add_outer(scatters[own], weight, u, u)
        if seen[t, other] == 0:
            continue
        # 2. n S w of the other class
        for f in range(w.shape[0]):
            product[f] = _inner(scatters[other, f], w)
        # 3. w moves down the gradient of the row's mean loss
        _descend(X[t], 2.0 * own - 1.0, means[other], traces[other], product, seen[t], other, u, peak, w, lam, eta)


@kernel(fastmath=REDUCE, error_model="numpy")
def _sketch_sweep(X, draws, codes, seen, means, sketches, traces, peak, w, lam, eta):
    """Do what ``_covariance_sweep`` does with n S replaced by Z Z', where row f of Z is sketches[class, f]."""
    u, product, shadow = np.empty(w.shape[0]), np.empty(w.shape[0]), np.empty(draws.shape[1])
    for t in range(codes.shape[0]):
        own, other = codes[t], 1 - codes[t]
        # 1. Z takes in the row; the trace of Z Z' is Z's squared Frobenius norm
        root, flat = np.sqrt(_move_mean(X[t], seen[t, own], means[own], u)), sketches[own].ravel()
        _add_outer(sketches[own], root, u, draws[t])
        traces[own] = _inner(flat, flat)
        if seen[t, other] == 0:
            continue
        # 2. Z (Z'w) of the other class
        shadow[:] = 0.0
        for f in range(w.shape[0]):
            _add_scaled(shadow, w[f], sketches[other, f])
        for f in range(w.shape[0]):
            product[f] = _inner(sketches[other, f], shadow)
        # 3. as there
        _descend(X[t], 2.0 * own - 1.0, means[other], traces[other], product, seen[t], other, u, peak, w, lam, eta)


@kernel(error_model="numpy")
def _move_mean(x, m, mean, distance):
    """Take row x, the m-th, into a mean (Welford); return (m - 1)/m and, in ``distance``, x minus the mean before."""
    for f in range(x.shape[0]):
        distance[f] = x[f] - mean[f]
        mean[f] += distance[f] / m
    return (m - 1.0) / m


@kernel(error_model="numpy")
def _descend(x, sign, mean, trace, product, seen, other, u, peak, w, lam, eta):
    """Take the step -eta_t (lam w - (1 - w'u) u + S w), u = sign (x - mean), S w = product/n and trace S = trace/n.

    The Hessian u u' + S has norm <= ||u||^2 + trace S <= peak. With eta <= 2 and t >= 1, eta_t (peak + lam) <= 2: no
    step lengthens the distance to its own loss's minimum.
    """
    n = seen[other]
    for f in range(w.shape[0]):
        u[f] = sign * (x[f] - mean[f])
    peak[0] = max(peak[0], _inner(u, u) + trace / n)
    step, pull = 1.0 / (peak[0] / eta + lam * (seen[0] + seen[1])), 1.0 - _inner(w, u)
    _combine(1.0 - step * lam, w, step * pull, u)
    _add_scaled(w, -step / n, product)


@kernel(fastmath=REDUCE, error_model="numpy")
def _saddle_sweep(X, codes, seen, saddle, w, w_sum, lam, zeta):
    """Take a projected step in w, a, b (down) and alpha (up) at each row in turn (Ying et al. 2016, algorithm 1).

    a and b share an array by class, centre = (b, a). Steps for w are those of rows divided by K: gamma/K^2, and lam
    in the denominator keeps the shrinking of w below 1 where lam > K^2.
    """
    centre, radius = saddle[:2], 1.0 / np.sqrt(lam)
    for t in range(codes.shape[0]):
        x, own, rows = X[t], codes[t], seen[t, 0] + seen[t, 1]
        score = _inner(w, x)
        saddle[4] = max(saddle[4], _inner(x, x))
        # 1. the slope of the row's loss in its score; share is that of the *other* class, 1 - p or p
        sign, share = 2.0 * own - 1.0, seen[t, 1 - own] / rows
        both = share * (1.0 - share)
        gamma = zeta / np.sqrt(rows)
        w_step = gamma / (saddle[4] + lam)
        alpha, deviation = saddle[2], score - centre[own]
        slope = share * (deviation - sign * (1.0 + alpha))
        # 2. all variables step from the same point, then are projected
        bound = radius * np.sqrt(saddle[4])
        centre[own] = min(bound, max(-bound, centre[own] + gamma * share * deviation))
        saddle[2] = min(2.0 * bound, max(-2.0 * bound, alpha - gamma * (sign * share * score + both * alpha)))
        _combine(1.0 - w_step * both * lam, w, -w_step * slope, x)
        norm = np.sqrt(_inner(w, w))
        if norm > radius:
            _combine(radius / norm, w, 0.0, x)
        # 3. the average takes in the projected w
        saddle[3] += gamma
        _add_scaled(w_sum, gamma, w)


@kernel(fastmath=REDUCE, error_model="numpy")
def _exponential_sweep(X, codes, seen, peak, w, lam, eta):
    """Take the step -eta_t (lam w - c y exp(-y w'x) x) at each row in turn, the exponential's part capped."""
    for t in range(codes.shape[0]):
        own, rows = codes[t], seen[t, 0] + seen[t, 1]
        score, squared_norm = _inner(w, X[t]), _inner(X[t], X[t])
        peak[0] = max(peak[0], squared_norm)
        step, sign = 1.0 / (peak[0] / eta + lam * rows), 2.0 * own - 1.0
        # 1/(2 p) or 1/(2 (1 - p)) is rows/(2 rows of the class); exp may overflow to inf, the cap is finite
        pull = step * rows / (2.0 * seen[t, own]) * np.exp(-sign * score)
        if pull * squared_norm > 1.0:
            pull = 1.0 / squared_norm
        _combine(1.0 - step * lam, w, sign * pull, X[t])


@kernel(fastmath=REDUCE)
def _inner(a, b):
    total = 0.0
    for f in range(a.shape[0]):
        total += a[f] * b[f]
    return total


@kernel(fastmath={"contract"})  # one product, one sum: there is one way to fuse them
def _add_scaled(target, factor, other):
    for f in range(target.shape[0]):
        target[f] += factor * other[f]


@kernel(fastmath={"contract"})
def _add_outer(target, weight, a, b):
    """target <- target + weight a b'"""
    for f in range(target.shape[0]):
        factor = weight * a[f]
        for g in range(target.shape[1]):
            target[f, g] += factor * b[g]


@kernel()
def _combine(scale, target, factor, other):
    """target <- scale target + factor other"""
    for f in range(target.shape[0]):
        target[f] = scale * target[f] + factor * other[f]


@kernel()
def _add_difference(target, factor, a, b):
    for f in range(target.shape[0]):
        target[f] += factor * (a[f] - b[f])


@kernel()
def _class_sums_dense(rows, first, codes, sums):
    for t in range(codes.shape[0]):
        for f in range(sums.shape[1]):
            sums[codes[t], f] += rows[first + t, f]


@kernel()
def _class_sums_sparse(data, cols, ptr, first, codes, sums):
    for t in range(codes.shape[0]):
        for q in range(ptr[first + t], ptr[first + t + 1]):
            sums[codes[t], cols[q]] += data[q]
