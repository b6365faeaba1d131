"""What the online solvers share: rows taken in one at a time, fed whole (fit) or in chunks (partial_fit), same bits.

A stream's state is a dict: ``generator``, ``counts`` and ``sums`` of the rows of each class (negative first, as all
arrays by class), the model ``w``, and what the method adds. Rows are taken in one by one, random numbers are drawn per
row and all sums run in order of arrival: where a chunk ends and the next begins leaves no trace.
"""

from functools import partial

import numpy as np
from scipy import sparse

from aucsolvers._base import CONVERGED, MAX_ITER, LinearScorer, SolverResult, Trace, check_labels
from aucsolvers._certify import Objective
from aucsolvers._jit import LONGEST_CALL
from aucsolvers._params import as_generator, check_count, check_flags, check_non_negative, check_positive
from aucsolvers._rows import own_arrays, row_scores, stored_once, with_short_indices, zeros_in_lines
from aucsolvers._transaction import all_or_nothing, transactional

LARGEST_ETA = 2.0  # a longer step along a direction of largest curvature overshoots by more than it started with


class OnlineScorer(LinearScorer):
    """Base of the online solvers: passes over the rows (``fit``) or a stream in chunks (``partial_fit``).

    A subclass names its ``_loss``, tells how a stream starts (``_start``) and how rows are learnt (``_learner``). One
    that keeps rows tells how they join the next ones (``_join``) and which it keeps (``_settle``).
    """

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_positive("lam", self.lam)
        check_non_negative("tol", self.tol)
        check_count("max_iter", self.max_iter)
        check_flags(self, "shuffle", "keep_stream")

    @transactional
    def fit(self, X, y):
        """Fit to X, shape (n_samples, n_features), dense or CSR, and two-class labels y; return self.

        A fresh stream of max_iter passes over the rows, each in a new random order (shuffle) or as given. It ends
        early after a pass whose certificate is at most tol.
        """
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        X = _as_kernels_take_it(X)
        positive = y > 0
        state = self._start(X.shape[1])
        self._check_room(state, X, self.max_iter)
        # of its means, which the first pass sums up, once they are known
        objective = partial(Objective, X, positive, float(self.lam), self._loss)
        certifier = _Certifier(objective, self._dual_bound(positive), len(y))
        learn = self._learner(positive)
        result = run_passes(learn, state, X, certifier, positive, self.shuffle, float(self.tol), int(self.max_iter))
        self._stream = self._settle(state, X) if self.keep_stream else None
        return self._publish(result, X, y)

    @transactional
    def partial_fit(self, X, y, classes=None):
        """Take in the next rows of a stream, in the order given; return self.

        The first call needs both labels, in y or in classes. After fit, it goes on from there. Neither shuffle, tol nor
        max_iter plays a part. An interrupt leaves the stream as it was before the call. Sparse rows are summed up in
        another order than dense ones: chunks of both kinds give the same up to rounding.
        """
        self.check_parameters()
        state = self._stream_to_go_on()
        X, y = self._validate_chunk(X, y, classes, first=state is None)
        X = _as_kernels_take_it(X)
        if state is None:
            state = self._start(X.shape[1])
        self._check_room(state, X, 1)
        own_arrays(state)
        with all_or_nothing(state):
            pool = self._join(state, X)
            visits = np.arange(pool.shape[0] - len(y), pool.shape[0], dtype=np.uint32)
            self._learner()(state, pool, visits, (y > 0).astype(np.uint8))
            return self._publish_stream(self._settle(state, pool))

    def _start(self, n_features):
        return {
            "generator": as_generator(self.random_state),
            "counts": np.zeros(2, dtype=np.int64),
            "sums": zeros_in_lines(2, n_features),
            "w": zeros_in_lines(n_features),
        }

    def _learner(self, positive=None):
        """Return learn(state, X, visits, codes), which takes in rows ``visits`` of X, of the classes ``codes``."""
        raise NotImplementedError

    def _dual_bound(self, positive):
        """Return a function (state, passes) -> lower bound on the optimum: the method's own, if it has one."""
        return lambda state, passes: 0.0  # every loss here is >= 0

    def _check_room(self, state, X, passes):
        """Refuse rows, seen that many times, that a stream could not keep."""

    def _join(self, state, X):
        """Return a matrix that ends with the rows of X and holds those that the state refers to."""
        return X

    def _settle(self, state, pool):
        """Make the state independent of the matrix that its rows came in, and return it."""
        return state

    def _stream_to_go_on(self):
        state = getattr(self, "_stream", None)
        if state is None and hasattr(self, "coef_"):
            raise ValueError(
                "Expected a stream to go on with, got a model from fit, which kept none. "
                "Set keep_stream=True before fit, or feed all rows to partial_fit of a clone."
            )
        return state

    def _validate_chunk(self, X, y, classes, first):
        """Return X, C-ordered or CSR, and y as an array of ±1.0; set ``classes_`` if the stream begins here."""
        X, y, seen = self._validate_arrays(X, y, reset=first)
        if seen is None:
            check_labels(y)
        labels = np.unique(y) if seen is None else seen.values
        known = self.classes_ if not first else labels if classes is None else _distinct(classes)
        if len(known) != 2:
            raise ValueError(f"Expected two classes, got {known.tolist()}. Name both with classes= in the first call.")
        told = {*labels.tolist(), *([] if classes is None else np.ravel(classes).tolist())}
        strangers = sorted(told - set(known.tolist()), key=repr)  # 1 is not "1": a mixture has no order of its own
        if strangers:
            raise ValueError(
                f"Expected labels among {known.tolist()}, got {strangers[:5]}. Name both in the first call."
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
        self.gap_unit_ = 1.0
        self.n_iter_, self.status_ = 1, MAX_ITER
        self.history_ = {name: np.array([]) for name in Trace.NAMES}
        return self


def _as_kernels_take_it(X):
    """Return X so that no call of a kernel, of which there are many to a pass, has to convert it."""
    X = stored_once(X)
    return with_short_indices(X) if sparse.issparse(X) else X


def pieces(n, work):
    """Yield slices of n rows of so many multiply-adds each, for kernel calls that an interrupt need not wait for."""
    size = max(1, LONGEST_CALL // max(1, int(work)))
    return (slice(start, start + size) for start in range(0, n, size))


def _distinct(classes):
    """Return the classes, ascending, or say that they have no order."""
    try:
        return np.unique(classes)
    except TypeError:
        raise ValueError(f"Expected classes of one type, got {list(classes)!r}. Name both as y has them.") from None


def check_step(name, value, largest):
    """Refuse a step length that is not a finite number in (0, largest]."""
    if check_positive(name, value) > largest:
        raise ValueError(f"Expected {name} <= {largest:g}, got {value!r}: longer steps only overshoot. Lower {name}.")


# Driver ----------------------------------------------------------------------------------------------------------


def run_passes(learn, state, X, certifier, positive, shuffle, tol, max_iter):
    """Feed passes over the rows to a fresh stream until its certificate is at most tol; return a SolverResult.

    ``learn(state, X, visits, codes)`` takes in rows and leaves the model in state["w"].
    """
    n, n_iter, gap = len(positive), 0, np.inf
    rows, codes = np.arange(n, dtype=np.uint32), positive.astype(np.uint8)
    # at least one pass: the certificate may pass w = 0 (large lam, tiny features), which ranks nothing
    while gap > tol and n_iter < max_iter:
        visits = state["generator"].permutation(n).astype(np.uint32) if shuffle else rows
        points = [] if n_iter else sorted({n // 100, n // 10} - {0})
        for start, stop in zip([0, *points], [*points, n], strict=True):
            learn(state, X, visits[start:stop], codes[visits[start:stop]])
            certifier.note(state, n_iter * n + stop)
        n_iter += 1
        objective, gap, _, threshold = certifier.look(state)
    status, history = CONVERGED if gap <= tol else MAX_ITER, certifier.trace.as_history()
    return SolverResult(state["w"].copy(), -threshold, objective, gap, n_iter, status, history, state)


class _Certifier:
    """Looks at a stream's models on all rows and keeps the trace; of all lower bounds met the best one counts.

    They are, by strong convexity, objective - ||gradient||^2/(2 lam) at any w, and the method's own. Models within a
    pass are noted, and looked at when it ends: a reading of the rows costs as much as thousands of cheap steps.
    """

    def __init__(self, objective, dual_bound, n_rows):
        self.trace = Trace()
        self._objective_of, self._dual_bound, self._n_rows = objective, dual_bound, n_rows
        self._objective, self._lower_bound, self._noted = None, 0.0, []

    def note(self, state, rows_seen):
        """Remember the stream's model after that many rows."""
        passes = -(-rows_seen // self._n_rows)
        self._lower_bound = max(self._lower_bound, self._dual_bound(state, passes))
        self._noted.append((rows_seen, self.trace.time_s, state["w"].copy()))

    def look(self, state):
        """Add the models noted to the trace, after w = 0 if they are the first; return the Look at the last one."""
        points = []
        if self._objective is None:
            self._objective = self._objective_of(state["sums"] / state["counts"][:, None])
            points.append((0, 0.0, self._objective.look_at_zero()))
        seen, times, models = zip(*self._noted, strict=True)
        points += zip(seen, times, self._objective.looks(np.array(models)), strict=True)
        self._noted = []
        for _, _, look in points:
            if look.objective < np.inf:  # an overflowed one is no bound
                self._lower_bound = max(self._lower_bound, look.objective - look.gap)
        for rows_seen, time_s, look in points:
            look = look._replace(gap=max(0.0, look.objective - self._lower_bound))
            self.trace.add_with_auc(rows_seen, look.objective, look.gap, look.auc, time_s)
        return look
