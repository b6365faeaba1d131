"""Margin-mean SVM, linear or Gaussian, solved exactly: estimators, drivers, kernels.

With s rows, of which n+ are positive and n- negative, margins m_i = y_i f(x_i) and f(x) = w'phi(x) + b, b being the
weight of a constant feature and part of w below, the objective of Lu et al. (2019, eq. 5) is

    F(w) = 1/2 ||w||^2 - (lam1/s) sum_i D_i m_i + (lam2/s) sum_i max(0, 1 - m_i)

where D_i = n-/n+ for a positive and n+/n- for a negative row.

The margin mean is linear in w: with a_i = lam1 D_i / s, U = lam2 / s and w0 = sum_i a_i y_i phi(x_i),

    F(w) = 1/2 ||w||^2 - w0'w + U sum_i max(0, 1 - m_i).

Dualise the hinge with 0 <= alpha_i <= U: the Lagrangian 1/2 ||w||^2 - w0'w + sum_i alpha_i (1 - m_i) is least at

    w(alpha) = w0 + sum_i alpha_i y_i phi(x_i),    where it is    D(alpha) = sum_i alpha_i - 1/2 ||w(alpha)||^2,

the dual of a hinge SVM (Hsieh et al. 2008, eq. 4) whose w starts at w0 instead of 0. Its gradient is 1 - m_i and as
w0'w = sum_i a_i m_i, the gap F(w(alpha)) - D(alpha) is the sum over rows in ``aucsolvers._hinge``, w0 cancelling.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from aucsolvers import _jit
from aucsolvers._base import CONVERGED, MAX_ITER, BinaryScorer, SolverResult, Trace
from aucsolvers._hinge import loss_and_gap
from aucsolvers._params import as_generator, check_choice, check_count, check_positive, check_tolerance
from aucsolvers._rows import FLOATS, REDUCE, add, as_rows, dot, row_scores, squared_norms, weighted_row_sum
from aucsolvers.metrics import best_gmean_threshold

KERNELS = ("linear", "rbf")
THRESHOLDS = ("gmean", "zero")
BLOCK_BYTES = 32 * 1024**2  # of temporary kernel values
SMALLEST_BEND = 1e-12  # relative, of what a row adds to the span of another: below, rounding tells them apart
FIRST_RANGE = 0.1  # of projected gradients, whose natural scale is 1: loose, the gap decides how much it is tightened


# Estimators ------------------------------------------------------------------------------------------------------


class MarginMeanScorer(BinaryScorer):
    """What the solvers of F share: the checks of its parameters, the Gram matrix, the fitted attributes, the scores.

    Subclasses have the parameters lam1, lam2, kernel, gamma, fit_intercept, threshold and max_bytes.
    """

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_tolerance(self.tol)
        if self.lam1 != 0:
            check_positive("lam1", self.lam1)
        check_positive("lam2", self.lam2)
        check_choice("kernel", self.kernel, KERNELS)
        if not (isinstance(self.gamma, str) and self.gamma == "scale"):
            check_positive("gamma", self.gamma)
        check_choice("threshold", self.threshold, THRESHOLDS)
        check_count("max_iter", self.max_iter)
        check_count("max_bytes", self.max_bytes)

    def _validate_rows(self, X, y):
        """Return X and y as the drivers take them; float32 stays for the linear kernel, which never squares X."""
        X, y = self._validate_fit(X, y, dtype=FLOATS if self.kernel == "linear" else np.float64)
        if sparse.issparse(X) and not X.has_canonical_format:  # an entry stored in two parts would spoil ||x_i||^2
            X = X.copy()
            X.sum_duplicates()
        return X, y

    def _gram(self, X):
        """Return the Gram matrix of the rows of X, 1 added for the intercept, and the Gaussian that makes it."""
        n, size = X.shape[0], 8 * X.shape[0] ** 2
        if size > self.max_bytes:
            raise ValueError(
                f"Expected a Gram matrix of at most max_bytes={self.max_bytes} bytes, got {n} rows, which need {size}. "
                "Under-sample first (GeometricUnderSampler), fit kernel='linear' on Nystroem features, or raise it."
            )
        kernel = Gaussian.of(X, self.gamma, self.fit_intercept)
        return kernel.gram(X), kernel

    def _publish_linear(self, result, X, y):
        """Set the fitted attributes of a linear model from a driver's result; warn if it did not converge."""
        self._forget()
        self.coef_ = result.w.reshape(1, -1)
        self.intercept_ = np.array([result.bias - self._cut(y, row_scores(X, result.w) + result.bias)])
        self._publish_certificate(result)
        return self

    def _publish_kernel(self, result, beta, scores, X, y, kernel):
        """Set the fitted attributes of f = sum_i beta_i (k(x_i, .) + constant), whose training scores are known."""
        self._forget()
        self._kernel = kernel
        self.support_ = np.flatnonzero(beta)
        self.support_vectors_ = X[self.support_]
        self.dual_coef_ = beta[self.support_].reshape(1, -1)
        self.intercept_ = np.array([kernel.constant * beta.sum() - self._cut(y, scores)])
        self._publish_certificate(result)
        return self

    def _cut(self, y, scores):
        return best_gmean_threshold(y, scores) if self.threshold == "gmean" else 0.0

    def _forget(self):
        """Drop what a fit with the other kernel may have left."""
        for name in ("coef_", "support_", "support_vectors_", "dual_coef_"):
            vars(self).pop(name, None)

    def decision_function(self, X):
        """Return the scores, shape (n_samples,): positive means ``classes_[1]``."""
        check_is_fitted(self)
        dtype = FLOATS if hasattr(self, "coef_") else np.float64
        X = validate_data(self, X, accept_sparse="csr", dtype=dtype, order="C", reset=False)
        if hasattr(self, "coef_"):
            return row_scores(X, self.coef_.ravel()) + self.intercept_[0]
        return self._kernel.expand(X, self.support_vectors_, self.dual_coef_.ravel()) + self.intercept_[0]


class MarginMeanSVM(MarginMeanScorer):
    """Margin-mean SVM, linear or Gaussian: the exact minimiser, by dual coordinate descent with a duality gap.

    Minimises, over s rows with margins m_i = y_i (w'phi(x_i) + b),

        F(w, b) = 1/2 (||w||^2 + b^2) - (lam1/s) sum_i D_i m_i + (lam2/s) sum_i max(0, 1 - m_i),

    D_i = n_neg/n_pos for a positive and n_pos/n_neg for a negative row, phi(x) = x or that of the Gaussian kernel.

    Parameters
    ----------
    lam1 : float, default=1.0
        Weight of the class-weighted margin mean, >= 0. With 0 this is the hinge SVM with C = lam2 / s.
    lam2 : float, default=100.0
        Weight of the mean hinge loss, > 0.
    kernel : {"linear", "rbf"}, default="linear"
        k(x, z) = x'z or exp(-gamma ||x - z||^2).
    gamma : "scale" or float, default="scale"
        > 0, for "rbf"; 1/sigma^2 for the source's sigma. "scale" is 1/(n_features * variance of all entries of X), or 1
        if that variance is 0.
    fit_intercept : bool, default=True
        Whether b is fitted, as the weight of a constant feature, which the margin mean pulls at as well; otherwise 0.
    threshold : {"gmean", "zero"}, default="gmean"
        Where ``predict`` cuts the scores: at the largest G-mean on the training rows, or at 0. F weights the classes in
        the margin mean only; its hinge loss is cheapest paid by a rare class, so that at 0 all rows may be negative.
        Best of six (lam1, lam2), mean test G-mean in 5-fold cross-validation over 15 KEEL sets of ratio 2 to 86: 0.84
        against 0.67 (linear), 0.90 against 0.69 (Gaussian).
    tol : float, default=1e-6
        Stop when duality gap <= tol * F(0), where F(0) = lam2, as LinearSVM.
    max_iter : int, default=100_000
        Most passes over the rows; late ones are short, as rows are left out that rest at a bound. A pass of "rbf" is s
        steps.
    max_bytes : int, default=2 * 1024**3
        Most memory for the Gram matrix of "rbf", 8 s^2 bytes: 16,384 rows by default.
    random_state : None, int, RandomState or Generator, default=None
        Draws the order of visits; "rbf" draws nothing.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        w, for "linear".
    support_, support_vectors_, dual_coef_ : ndarray (n_support,), ndarray or CSR, ndarray (1, n_support)
        For "rbf": the rows i, x_i and the weights beta_i of w = sum_i beta_i phi(x_i). With lam1 > 0 that is all rows.
    intercept_ : ndarray of shape (1,)
        b minus the threshold.
    classes_ : ndarray of shape (2,)
        ``classes_[1]`` is the positive class.
    objective_ : float
        F at the solution.
    dual_gap_ : float
        F - D(alpha) >= F - min F: the certificate. D is the dual value of this module's docstring.
    n_iter_ : int
        Passes made, those of "rbf" rounded up.
    status_ : {"converged", "max_iter"}
    history_ : dict of ndarrays
        ``updates`` (rows visited; steps of "rbf"), ``objective``, ``dual_gap``, ``auc`` (training rows), ``time_s``,
        each time that the certificate was computed: at w0, then at least at every doubling.

    Raises
    ------
    ValueError
        On parameters or data for which F is not defined, or a Gram matrix larger than ``max_bytes``.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` passes did not bring the gap under ``tol``: usually a large lam2, or features on very different
        scales.

    Notes
    -----
    Where a class is rare and lam1 small, the hinge loss of that class is cheapest paid and w is 0 up to rounding, as
    for any unweighted SVM: a ranking by such scores is noise. A larger lam1 pulls w away from 0.

    "linear": a visit costs O(stored entries of the row), memory is some 6 vectors of n rows beside X, which may be
    float32 and is not copied. "rbf": O(s^2 d) for the Gram matrix and O(s) a step, which moves the coordinate of the
    steepest gradient and its best partner together: one alone would zigzag against what is common to all of k, such as
    the 1 of the intercept. The same integer ``random_state`` gives the same bits on the same machine, library versions
    and BLAS threads; dense and sparse rows the same solution up to rounding.

    References
    ----------
    Lu, Zhang, Cai (2019). Zeroth order optimization algorithm based on undersampling. J. Nanjing Univ. of Aeronautics &
    Astronautics 51(5). Eq. 5 (F), 9 (kernel), 11 (F in a kernel's span).
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008). A dual coordinate descent method for large-scale linear SVM. ICML.
    Eq. 8-9 (projected gradient and update), section 3.2 (shrinking).

    Examples
    --------
    Two points at x = 1 and x = -1, lam1 = lam2 = 1: F = w^2/2 - w + max(0, 1 - w) is least at w = 1, where it is -1/2.

    >>> from aucsolvers.margin_mean import MarginMeanSVM
    >>> svm = MarginMeanSVM(1.0, 1.0, fit_intercept=False, random_state=0).fit([[1.0], [-1.0]], [1, 0])
    >>> svm.coef_, svm.status_, svm.objective_
    (array([[1.]]), 'converged', -0.5)
    """

    def __init__(
        self,
        lam1=1.0,
        lam2=100.0,
        *,
        kernel="linear",
        gamma="scale",
        fit_intercept=True,
        threshold="gmean",
        tol=1e-6,
        max_iter=100_000,
        max_bytes=2 * 1024**3,
        random_state=None,
    ):
        self.lam1 = lam1
        self.lam2 = lam2
        self.kernel = kernel
        self.gamma = gamma
        self.fit_intercept = fit_intercept
        self.threshold = threshold
        self.tol = tol
        self.max_iter = max_iter
        self.max_bytes = max_bytes
        self.random_state = random_state

    def fit(self, X, y):
        """Fit to rows X, shape (n_samples, n_features), dense or CSR, and labels y of two classes; return self."""
        self.check_parameters()
        X, y = self._validate_rows(X, y)
        terms = Terms.of(y, self.lam1, self.lam2)
        if self.kernel == "linear":
            rng = as_generator(self.random_state)
            result = solve_linear(X, terms, self.fit_intercept, self.tol, self.max_iter, rng)
            return self._publish_linear(result, X, y)
        gram, kernel = self._gram(X)
        result = solve_kernel(gram, terms, self.tol, self.max_iter)
        return self._publish_kernel(result, result.state["beta"], result.state["scores"], X, y, kernel)


# The objective ---------------------------------------------------------------------------------------------------


class Terms(NamedTuple):
    """F as a function of ||w||^2 and the margins, and its dual."""

    y: np.ndarray
    mean: np.ndarray  # a_i = lam1 D_i / s
    cost: np.ndarray  # U = lam2 / s in every row

    @classmethod
    def of(cls, y, lam1, lam2):
        """Return the terms for labels y = +-1, of which both occur."""
        n, n_pos = len(y), np.count_nonzero(y > 0)
        ratio = (n - n_pos) / n_pos
        return cls(y, np.where(y > 0, lam1 * ratio / n, lam1 / ratio / n), np.full(n, lam2 / n))

    def value(self, square_norm, margins):
        """Return F."""
        return float(0.5 * square_norm - self.mean @ margins + self.cost @ np.maximum(1.0 - margins, 0.0))

    def value_and_gap(self, square_norm, margins, alpha):
        """Return F(w) and F(w) - D(alpha) for w = w(alpha)."""
        loss, gap = loss_and_gap(margins, alpha, self.cost, squared=False)
        return float(0.5 * square_norm - self.mean @ margins) + loss, gap


class _Certifier:
    """Certifies dual points on the way, keeps their trace, and knows when the gap is small enough."""

    def __init__(self, terms, tol):
        self.terms, self.trace = terms, Trace()
        self.target = tol * terms.cost.sum()  # F(0) = lam2
        self.updates = self.objective = self.gap = None

    @property
    def converged(self):
        return self.gap <= self.target

    def certify(self, updates, alpha, square_norm, scores):
        """Record objective, gap and training AUC of w(alpha), whose scores are given; return the gap."""
        y = self.terms.y
        self.updates = updates
        self.objective, self.gap = self.terms.value_and_gap(square_norm, y * scores, alpha)
        self.trace.add(updates, self.objective, self.gap, scores[y > 0], scores[y < 0])
        return self.gap

    def tightened(self, stop):
        """Return how steep the steepest direction may be next, where ``stop`` was not small enough for the gap."""
        return stop * (min(0.5, max(0.1, self.target / self.gap)) if self.gap > 0 else 0.5)

    def result(self, w, bias, n_iter, **state):
        status = CONVERGED if self.converged else MAX_ITER
        return SolverResult(w, bias, self.objective, self.gap, n_iter, status, self.trace.as_history(), state)


def check_lengths(X):
    """Return ||x_i||^2 of every row, or refuse rows for which it overflows."""
    lengths = squared_norms(X)
    if not np.isfinite(lengths).all():
        raise ValueError("Expected rows of finite squared length, got an overflow: scale the features first.")
    return lengths


# The Gaussian kernel ---------------------------------------------------------------------------------------------


class Gaussian(NamedTuple):
    """k(x, z) = exp(-gamma ||x - z||^2), and the constant that a feature for the intercept adds to it."""

    gamma: float
    constant: float  # 1, or 0 where no intercept is asked for
    origin: np.ndarray | None  # dense rows are moved by it: distances stay, their rounding becomes small

    @classmethod
    def of(cls, X, gamma, fit_intercept):
        """Return the kernel for training rows X; gamma "scale" is 1/(n_features * variance of all entries)."""
        if isinstance(gamma, str):
            mean_square = X.multiply(X).mean() if sparse.issparse(X) else np.square(X - X.mean()).mean()
            variance = mean_square - X.mean() ** 2 if sparse.issparse(X) else mean_square
            gamma = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        origin = None if sparse.issparse(X) else X.mean(axis=0)
        return cls(float(gamma), 1.0 if fit_intercept else 0.0, origin)

    def gram(self, X):
        """Return k(x, z) + constant between all rows of X."""
        values = rbf_kernel(X if self.origin is None else X - self.origin, gamma=self.gamma)
        values += self.constant
        return values

    def expand(self, X, support, coefficients):
        """Return sum_j coefficients_j k(z_j, x) for each row x of X, z_j the rows of support, in blocks."""
        scores = np.zeros(X.shape[0])
        if self.origin is not None:
            support = support - self.origin
        for block in gen_batches(X.shape[0], max(1, BLOCK_BYTES // (8 * max(support.shape)))):
            rows = X[block]
            if self.origin is not None:
                rows = (rows.toarray() if sparse.issparse(rows) else rows) - self.origin
            scores[block] = rbf_kernel(rows, support, gamma=self.gamma) @ coefficients
        return scores


# Drivers ---------------------------------------------------------------------------------------------------------


def solve_linear(X, terms, fit_intercept, tol, max_iter, rng):
    """Minimise F over linear f by passes over the rows in random order, with shrinking; return a SolverResult.

    X is C-ordered or canonical CSR, float64 or float32. ``state`` holds ``alpha``.
    """
    # 1. alpha = 0, w = w0, and the step length of each coordinate, infinite for a row that is zero
    bias = 1.0 if fit_intercept else 0.0
    lengths = check_lengths(X) + bias
    with np.errstate(divide="ignore"):
        inverse = 1.0 / lengths
    rows, alpha, signed = as_rows(X), np.zeros(len(terms.y)), terms.y * terms.mean
    w = np.append(weighted_row_sum(X, signed), bias * signed.sum())
    certifier = _Certifier(terms, tol)

    def certify(updates):
        return certifier.certify(updates, alpha, w @ w, row_scores(X, w[:-1]) + bias * w[-1])

    certify(0)
    order = np.arange(len(alpha), dtype=np.uint32)
    n_active, high, low = len(order), np.inf, -np.inf
    pg_range, passes, updates, checkpoint = FIRST_RANGE, 0, 0, len(order)
    while not certifier.converged and passes < max_iter:
        # 2. a pass over the rows left active
        rng.shuffle(order[:n_active])
        updates, passes = updates + n_active, passes + 1
        n_active, top, bottom = _pass(rows, terms.y, bias, terms.cost, inverse, alpha, w, order, n_active, high, low)
        high, low = top if top > 0.0 else np.inf, bottom if bottom < 0.0 else -np.inf
        closed = top - bottom <= pg_range  # -inf if every row was shrunk
        # 3. solved on the active rows only: look at all of them before believing it
        if closed and n_active < len(order):
            n_active, high, low = len(order), np.inf, -np.inf
        # 4. ask for the certificate where it may pass; if it does not, the range was too wide
        elif closed or updates >= checkpoint:
            certify(updates)
            checkpoint = 2 * updates
            pg_range = certifier.tightened(pg_range) if closed else pg_range
    if certifier.updates < updates:
        certify(updates)
    return certifier.result(w[:-1].copy(), float(w[-1]), passes, alpha=alpha)


def solve_kernel(gram, terms, tol, max_iter):
    """Minimise F over f = sum_i beta_i k(x_i, .) by greedy steps along two coordinates; return a SolverResult.

    ``gram`` holds k(x_i, x_j). At most ``max_iter`` times s steps are made. ``state`` holds ``beta`` and ``scores``, f
    at the rows. Nothing is drawn.
    """
    # 1. beta = y (a + alpha) with alpha = 0; signed = y alpha stays within [low, high]
    y, n = terms.y, len(terms.y)
    start, signed = y * terms.mean, np.zeros(n)
    low, high = np.minimum(y * terms.cost, 0.0), np.maximum(y * terms.cost, 0.0)
    scores, diagonal = gram @ start, gram.diagonal().copy()
    certifier = _Certifier(terms, tol)

    def certify(updates):
        return certifier.certify(updates, np.abs(signed), (start + signed) @ scores, scores)

    certify(0)
    stop, updates, checkpoint, limit = FIRST_RANGE, 0, n, max_iter * n
    while not certifier.converged and updates < limit:
        # 2. greedy steps until none is steeper than stop, or it is time for a certificate
        budget = min(checkpoint, limit) - updates
        rounding = 64.0 * np.finfo(float).eps * max(1.0, np.abs(scores).max())
        done = _ascend(gram, diagonal, y, low, high, signed, scores, max(stop, rounding), budget)
        updates += done
        # 3. the certificate, of scores without the rounding that updates pile up
        scores = gram @ (start + signed)
        certify(updates)
        if done < budget:
            if stop < rounding:
                break  # all that is left of the gradient
            stop = certifier.tightened(stop)
        checkpoint = max(checkpoint, 2 * updates)
    return certifier.result(None, None, -(-updates // n), beta=start + signed, scores=scores)


# Kernels ---------------------------------------------------------------------------------------------------------


@_jit.kernel(fastmath=REDUCE)
def _pass(rows, y, bias, upper, inverse, alpha, w, order, n_active, high, low):
    """Visit each active row once, in order; return the rows left active and the largest and smallest gradient met."""
    top, bottom = -np.inf, np.inf
    position = 0
    while position < n_active:
        i = order[position]
        # 1. the gradient of -D, projected; at a bound and pressed against it harder than the last pass saw: shrink
        old = alpha[i]
        gradient = y[i] * (dot(rows, i, w) + bias * w[-1]) - 1.0
        projected = gradient
        if old == 0.0:
            projected = min(gradient, 0.0)
        elif old == upper[i]:
            projected = max(gradient, 0.0)
        if projected != gradient and (gradient > high or gradient < low):
            n_active -= 1
            order[position], order[n_active] = order[n_active], order[position]
            continue  # with the row swapped in, which this pass has not visited yet
        top, bottom = max(top, projected), min(bottom, projected)
        # 2. exact minimisation along the coordinate
        if projected != 0.0:
            alpha[i] = min(max(old - gradient * inverse[i], 0.0), upper[i])
            step = (alpha[i] - old) * y[i]
            add(rows, i, step, w)
            w[-1] += step * bias
        position += 1
    return n_active, top, bottom


@_jit.kernel(fastmath=REDUCE, error_model="numpy")
def _ascend(gram, diagonal, y, low, high, signed, scores, stop, limit):
    """Make up to ``limit`` steps, each along the steepest coordinate and its best partner; return how many.

    Ends early where no coordinate is steeper than ``stop``. Updates signed and scores in place.
    """
    for update in range(limit):
        i, slope = _steepest(y, low, high, signed, scores)
        if slope <= stop:
            return update
        j = _partner(gram[i], diagonal, y, low, high, signed, scores, i)
        if j == i:
            _move(gram[i], low, high, signed, scores, i, (y[i] - scores[i]) / diagonal[i])
            continue
        pulls = y[i] - scores[i], y[j] - scores[j]
        bounds = low[i] - signed[i], high[i] - signed[i], low[j] - signed[j], high[j] - signed[j]
        step_i, step_j = _best_of_two(*pulls, diagonal[i], gram[i, j], diagonal[j], *bounds)
        _move(gram[i], low, high, signed, scores, i, step_i)
        _move(gram[j], low, high, signed, scores, j, step_j)
    return limit


@_jit.kernel(fastmath=REDUCE)
def _steepest(y, low, high, signed, scores):
    """Return the coordinate of the largest projected gradient, and its size."""
    best, most = 0, -np.inf
    for s in range(y.size):
        pull = y[s] - scores[s]
        slope = pull if pull > 0.0 else -pull
        if slope > most and (signed[s] < high[s] if pull > 0.0 else signed[s] > low[s]):
            best, most = s, slope
    return best, most


@_jit.kernel(fastmath=REDUCE, error_model="numpy")
def _partner(column, diagonal, y, low, high, signed, scores, i):
    """Return the j for which a free step along i and j gains most; i itself if no other gains anything.

    After the best step along i alone, j pulls with v_j - v_i k_ij/k_ii and bends by k_jj - k_ij^2/k_ii.
    """
    best, most = i, 0.0
    pull_i, inverse = y[i] - scores[i], 1.0 / column[i]
    for j in range(y.size):
        share = column[j] * inverse
        pull = y[j] - scores[j] - pull_i * share
        bend = diagonal[j] - column[j] * share
        free = signed[j] < high[j] if pull > 0.0 else signed[j] > low[j]
        if free and j != i and bend > SMALLEST_BEND * diagonal[j] and pull * pull > most * bend:
            best, most = j, pull * pull / bend
    return best


@_jit.kernel()
def _best_of_two(v_i, v_j, k_ii, k_ij, k_jj, low_i, high_i, low_j, high_j):
    """Return the steps that maximise v_i a + v_j b - 1/2 (k_ii a^2 + 2 k_ij a b + k_jj b^2) within their bounds."""
    determinant = k_ii * k_jj - k_ij * k_ij
    if determinant > 0.0:
        a, b = (v_i * k_jj - v_j * k_ij) / determinant, (v_j * k_ii - v_i * k_ij) / determinant
        if low_i <= a <= high_i and low_j <= b <= high_j:
            return a, b
    # concave: the maximum lies on one of four edges, on each of which it is a clipped parabola's
    best_a, best_b, most = 0.0, 0.0, -np.inf
    for edge in range(4):
        if edge < 2:
            a = low_i if edge == 0 else high_i
            b = min(max((v_j - k_ij * a) / k_jj, low_j), high_j)
        else:
            b = low_j if edge == 2 else high_j
            a = min(max((v_i - k_ij * b) / k_ii, low_i), high_i)
        gain = v_i * a + v_j * b - 0.5 * (k_ii * a * a + 2.0 * k_ij * a * b + k_jj * b * b)
        if gain > most:
            best_a, best_b, most = a, b, gain
    return best_a, best_b


@_jit.kernel()
def _move(column, low, high, signed, scores, s, step):
    """Add step to signed_s, which stays within its bounds to the last bit, and update the scores."""
    moved = min(max(signed[s] + step, low[s]), high[s])
    step = moved - signed[s]
    signed[s] = moved
    for t in range(scores.size):
        scores[t] += step * column[t]
