"""Kernel support vector machines by greedy dual coordinate descent (KernelSVM).

With a positive semidefinite kernel k, K_ij = k(x_i, x_j) + 1 where an intercept is asked for (and k(x_i, x_j) where
not), costs C_i > 0 and signed dual variables beta_i = y_i alpha_i, the primal and its dual are

    P(f)    = 1/2 ||f||^2 + sum_i C_i loss(1 - y_i f(x_i)),        loss(t) = max(0, t)  or  max(0, t)^2
    D(beta) = sum_i y_i beta_i - 1/2 beta'K beta - 1/2 sum_i D_ii beta_i^2,        0 <= y_i beta_i <= U_i
    f(x_i)  = sum_j K_ij beta_j

    hinge: D_ii = 0, U_i = C_i          squared hinge: D_ii = 1 / (2 C_i), U_i = infinity

as in ``aucsolvers.svm``, whose rows (x_i, 1) have this K with the linear kernel. With the bias in the kernel there
is no equality constraint, so one coordinate can move alone. The gradient v_i = dD/dbeta_i = y_i - f(x_i) - D_ii beta_i
is kept up to date. From top to bottom: estimator, driver, the kernel and its columns, compiled kernels.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from aucsolvers import _jit
from aucsolvers._base import CONVERGED, MAX_ITER, BinaryScorer, Trace
from aucsolvers._hinge import LOSSES, dual_bounds, loss_and_gap, row_costs
from aucsolvers._params import check_choice, check_count, check_positive, check_tolerance
from aucsolvers._rows import REDUCE

KERNELS = ("rbf", "linear", "poly")
BLOCK_COLUMNS = 8  # computed by one matrix product: more would be faster each, but fewer of them used
BLOCK_BYTES = 32 * 1024**2  # of temporary kernel values
FIRST_VIOLATION = 0.1  # of optimality, whose natural scale is 1: loose, the gap decides how much it is tightened
SMALLEST_CURVATURE = 1e-12  # between equal rows, which only rounding tells apart


# Estimator -------------------------------------------------------------------------------------------------------


class KernelSVM(BinaryScorer):
    """Kernel SVM with hinge or squared hinge loss, by greedy dual coordinate descent with a duality gap.

    Minimises, with LIBSVM's scaling (a sum over rows, not a mean) and a regularised intercept, as LinearSVM does,

        1/2 (||w||^2 + b^2) + C sum_i v_i loss(1 - y_i f(x_i)),    f(x) = w'phi(x) + b,    phi(x)'phi(z) = k(x, z)

    with loss(t) = max(0, t) or max(0, t)^2, and v_i the class weight times the sample weight of row i, 1 by default.

    Parameters
    ----------
    C : float, default=1.0
        Cost of a unit of loss, > 0.
    kernel : {"rbf", "linear", "poly"}, default="rbf"
        k(x, z) = exp(-gamma ||x - z||^2), x'z, or (gamma x'z + coef0)^degree.
    gamma : "scale" or float, default="scale"
        > 0; "scale" is 1/(n_features * variance of all entries of X), rows counted by their sample weight, or 1 if that
        variance is 0.
    degree : int, default=3
        >= 1.
    coef0 : float, default=0.0
        >= 0: below, "poly" would not be positive semidefinite.
    loss : {"hinge", "squared_hinge"}, default="hinge"
    fit_intercept : bool, default=True
        Whether b is fitted: it is the weight of a constant feature, a 1 added to k. Otherwise it is 0. LIBSVM's b is
        not regularised, and differs the less the larger C is.
    class_weight : None, "balanced" or dict, default=None
        Multiplies C by class. "balanced" gives class c the weight n / (2 n_c), counting sample weights.
    tol : float, default=1e-4
        Stop when duality gap <= tol * P(0), where P(0) = C sum_i v_i is the objective at f = 0, as LinearSVM.
    max_iter : int, default=1_000_000
        Most steps.
    cache_bytes : int, default=512 * 1024**2
        For kernel columns of n rows, 8 bytes an entry, the least recently used making way; at least two columns.
        Memory is taken as columns are computed.
    warm_start : bool, default=False
        Start from the dual variables of the last fit if that had as many rows, clipped to the bounds of this one.

    Attributes
    ----------
    support_ : ndarray of shape (n_support,)
        Row numbers of the support vectors in the X of fit.
    support_vectors_ : ndarray or CSR of shape (n_support, n_features)
    dual_coef_ : ndarray of shape (1, n_support)
        beta_i = y_i alpha_i of the support vectors.
    intercept_ : ndarray of shape (1,)
        b = sum_i beta_i, or 0.
    coef_ : ndarray of shape (1, n_features)
        w, for kernel="linear" only.
    classes_ : ndarray of shape (2,)
        ``classes_[1]`` is the positive class.
    objective_ : float
        P at the solution, intercept included in the norm.
    dual_gap_ : float
        P(f) - D(alpha) >= P(f) - min P: the certificate.
    n_iter_ : int
        Steps made; each moves one or two dual variables.
    status_ : {"converged", "max_iter"}
    history_ : dict of ndarrays
        ``updates`` (steps), ``objective``, ``dual_gap``, ``auc`` (training), ``time_s``, each time that the certificate
        was computed: at the start, after n steps, at each doubling, and where the gradient said that it may pass.

    Raises
    ------
    ValueError
        On parameters, weights or data for which the problem is not defined, or a cache for less than two columns.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` steps did not bring the gap under ``tol``.

    Notes
    -----
    A step costs O(n) and needs one or two kernel columns, O(n d) each if the cache does not hold them; they come from
    matrix products of 8 columns. The certificate costs O(n log n), for the AUC. Coordinates at a bound that
    press against it are never chosen, so there is nothing to shrink but the columns' length.
    Memory: ``cache_bytes``, 32 MiB of temporary kernel values, 8 columns and some 15 vectors of n rows beside X, which
    the Gaussian kernel copies to centre it if it is dense; never n x n above that. Scores take O(n_support d) a row.
    Nothing is drawn: the same machine, library versions and BLAS threads give the same bits.

    References
    ----------
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008). A dual coordinate descent method for large-scale linear SVM. ICML.
    Eq. 4 (dual), 8-9 (projected gradient and update).
    Fan, Chen, Lin (2005). Working set selection using second order information for training SVM. JMLR 6. WSS 2.
    Steinwart, Hush, Scovel (2011). Training SVMs without offset. JMLR 12. On pairs where single steps would do.

    Examples
    --------
    Exclusive or, which no linear score can rank:

    >>> from aucsolvers.kernel_svm import KernelSVM
    >>> svm = KernelSVM(C=10.0, gamma=1.0, tol=1e-9).fit([[0, 0], [1, 1], [0, 1], [1, 0]], [0, 0, 1, 1])
    >>> svm.predict([[0.1, 0.2], [0.1, 0.8]]), svm.status_
    (array([0, 1]), 'converged')
    """

    def __init__(
        self,
        C=1.0,
        *,
        kernel="rbf",
        gamma="scale",
        degree=3,
        coef0=0.0,
        loss="hinge",
        fit_intercept=True,
        class_weight=None,
        tol=1e-4,
        max_iter=1_000_000,
        cache_bytes=512 * 1024**2,
        warm_start=False,
    ):
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.loss = loss
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_bytes = cache_bytes
        self.warm_start = warm_start

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_positive("C", self.C)
        check_choice("kernel", self.kernel, KERNELS)
        if not (isinstance(self.gamma, str) and self.gamma == "scale"):
            check_positive("gamma", self.gamma)
        check_count("degree", self.degree)
        if self.coef0 != 0:
            check_positive("coef0", self.coef0)
        check_choice("loss", self.loss, LOSSES)
        check_tolerance(self.tol)
        check_count("max_iter", self.max_iter)
        check_count("cache_bytes", self.cache_bytes)

    def fit(self, X, y, sample_weight=None):
        """Fit to rows X, shape (n_samples, n_features), dense or CSR, and labels y of two classes; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        cost = row_costs(self.C, self.class_weight, self.classes_, y, sample_weight)
        weighted = np.flatnonzero(cost > 0)
        if len(weighted) < len(y):
            X, y, cost = X[weighted], y[weighted], cost[weighted]
        self._kernel = Kernel.of(self, X, None if sample_weight is None else np.asarray(sample_weight)[weighted])
        result = solve_kernel_svm(
            X,
            y,
            cost,
            self._kernel,
            squared=self.loss == "squared_hinge",
            tol=self.tol,
            max_iter=self.max_iter,
            cache_bytes=self.cache_bytes,
            beta=getattr(self, "_beta", None) if self.warm_start else None,
        )
        # n numbers that a stored model does not need, unless it is to go on from here
        if self.warm_start:
            self._beta = result.beta
        return self._publish(result, X, weighted)

    def _publish(self, result, X, rows):
        """Set the fitted attributes from the driver's result; ``rows`` are the input's row numbers of X."""
        support = np.flatnonzero(result.beta)
        signed = result.beta[support]
        self.support_ = rows[support]
        self.support_vectors_ = X[support]
        self.dual_coef_ = signed.reshape(1, -1)
        self.intercept_ = np.array([self._kernel.constant * signed.sum()])
        self._publish_certificate(result)
        return self

    @property
    def coef_(self):
        """The weight vector, shape (1, n_features), of the linear kernel; no other has one in the space of X."""
        if self.kernel != "linear":
            raise AttributeError(f"coef_ exists for kernel='linear' only, not for {self.kernel!r}")
        check_is_fitted(self)
        return np.asarray(self.dual_coef_ @ self.support_vectors_)

    def decision_function(self, X):
        """Return the scores, shape (n_samples,): positive means ``classes_[1]``."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, order="C", reset=False)
        return self._kernel.expand(X, self._kernel.points(self.support_vectors_), self.dual_coef_.ravel())


# Driver ----------------------------------------------------------------------------------------------------------


class KernelResult(NamedTuple):
    """What the driver returns: ``SolverResult`` with beta, all that is needed to go on, in place of w and bias."""

    beta: np.ndarray
    objective: float
    dual_gap: float
    n_iter: int
    status: str
    history: dict[str, np.ndarray]


def solve_kernel_svm(X, y, cost, kernel, *, squared, tol, max_iter, cache_bytes, beta=None):
    """Minimise P of this module's docstring from the dual point ``beta`` (0 by default); return a KernelResult.

    X is C-ordered float64 or CSR, y is +-1.0, ``cost`` holds C_i > 0, ``kernel`` is a Kernel. Nothing is drawn.
    """
    # 1. a feasible dual point, whatever it was feasible for before, its gradient, and a place for columns
    points = kernel.points(X)
    dual = _pose(X, points, y, cost, kernel, squared, beta)
    cache = ColumnCache(kernel, points, cache_bytes)
    certifier = _Certifier(dual, tol)
    certifier.certify(0)
    stop, updates, checkpoint = FIRST_VIOLATION, 0, len(y)
    while not certifier.converged and updates < max_iter:
        # 2. greedy steps until none is steeper than stop, or a column is missing, or it is time for a certificate
        limit = min(checkpoint, max_iter) - updates
        done, missing = _ascend(cache.values, cache.slots, cache.last_use, *dual.of_kernel(), stop, limit)
        updates += done
        if missing >= 0:
            cache.load(missing, dual)
            continue
        # 3. the certificate; where steps ran out and it does not pass, stop was too large
        gap = certifier.certify(updates)
        if done < limit:
            if stop < np.finfo(float).eps:
                break  # what is left of the gradient, and of the gap, is rounding
            stop *= min(0.5, max(0.1, certifier.target / gap)) if gap > 0 else 0.5
        checkpoint = max(checkpoint, 2 * updates)
    return certifier.result(updates)


class Dual(NamedTuple):
    """A dual point, its gradient, and what the dual attaches to every row; beta and pull are updated in place."""

    y: np.ndarray
    cost: np.ndarray
    low: np.ndarray  # low <= beta <= high: [0, U_i] for a positive, [-U_i, 0] for a negative row
    high: np.ndarray
    diagonal: np.ndarray  # D_ii
    curvature: np.ndarray  # K_ii + D_ii
    beta: np.ndarray
    pull: np.ndarray  # v_i = y_i - f(x_i) - D_ii beta_i

    def of_kernel(self):
        return self.low, self.high, self.diagonal, self.curvature, self.beta, self.pull

    def scores(self):
        return self.y - self.pull - self.diagonal * self.beta

    def certificate(self, scores):
        """Return P and P - D; ||f||^2 = beta'scores."""
        squared = bool(self.diagonal.any())
        loss, gap = loss_and_gap(self.y * scores, np.abs(self.beta), self.cost, squared)
        return float(0.5 * self.beta @ scores) + loss, gap


def _pose(X, points, y, cost, kernel, squared, beta):
    """Return the Dual at ``beta`` clipped to its bounds, or at 0."""
    curvature = kernel.diagonal(points)
    if not np.isfinite(curvature).all():
        raise ValueError("Expected finite kernel values k(x, x), got an overflow: scale the features first.")
    upper, diagonal = dual_bounds(cost, squared)
    low, high = np.where(y > 0, 0.0, -upper), np.where(y > 0, upper, 0.0)
    beta = np.zeros(len(y)) if beta is None or len(beta) != len(y) else np.clip(beta, low, high)
    used = np.flatnonzero(beta)
    pull = y - kernel.expand(X, points.take(used), beta[used]) - diagonal * beta
    return Dual(y, cost, low, high, diagonal, curvature + diagonal, beta, pull)


class _Certifier:
    """Certifies the dual point on the way, keeps the trace, and knows when the gap is small enough."""

    def __init__(self, dual, tol):
        self.dual, self.trace = dual, Trace()
        self.target = tol * dual.cost.sum()  # P(0) = sum C_i for both losses
        self.objective = self.gap = None

    @property
    def converged(self):
        return self.gap <= self.target

    def certify(self, updates):
        """Record the objective, gap and training AUC of the dual point; return the gap."""
        scores, positive = self.dual.scores(), self.dual.y > 0
        self.objective, self.gap = self.dual.certificate(scores)
        self.trace.add(updates, self.objective, self.gap, scores[positive], scores[~positive])
        return self.gap

    def result(self, updates):
        status = CONVERGED if self.converged else MAX_ITER
        return KernelResult(self.dual.beta, self.objective, self.gap, updates, status, self.trace.as_history())


# The kernel and its columns --------------------------------------------------------------------------------------


class Points(NamedTuple):
    """Rows with their squared lengths."""

    X: object
    square_norms: np.ndarray

    def take(self, chosen):
        return Points(self.X[chosen], self.square_norms[chosen])


@dataclass(frozen=True)
class Kernel:
    """k(x, z) + constant."""

    name: str
    gamma: float
    degree: int
    coef0: float
    constant: float  # 1, or 0 where no intercept is asked for
    origin: np.ndarray | None  # dense Gaussian rows are moved by it: distances stay, their rounding becomes small

    @classmethod
    def of(cls, svm, X, weight=None):
        """Return the kernel that the parameters of ``svm`` describe, for training rows X and their sample weights."""
        origin = None if sparse.issparse(X) or svm.kernel != "rbf" else X.mean(axis=0)
        gamma = _scale(X, weight) if isinstance(svm.gamma, str) else float(svm.gamma)
        return cls(svm.kernel, gamma, svm.degree, svm.coef0, 1.0 if svm.fit_intercept else 0.0, origin)

    def points(self, X):
        """Return the rows of X as the other methods take them."""
        if self.origin is not None:
            X = (X.toarray() if sparse.issparse(X) else X) - self.origin
        if sparse.issparse(X):
            return Points(X, np.asarray(X.multiply(X).sum(axis=1)).ravel())
        return Points(X, np.einsum("ij,ij->i", X, X))

    def diagonal(self, points):
        """Return k(x, x) + constant of each row."""
        if self.name == "rbf":
            return np.full(len(points.square_norms), 1.0 + self.constant)
        with np.errstate(over="ignore"):
            return self._of_products(points.square_norms.copy()) + self.constant

    def between(self, few, many, out=None):
        """Return the values between every row of ``few`` and every row of ``many``, shape (len(few), len(many))."""
        values = _products(few.X, many.X, out)
        if self.name == "rbf":
            # -gamma ||x - z||^2, above 0 by rounding only
            values *= 2.0 * self.gamma
            values -= self.gamma * many.square_norms
            values -= self.gamma * few.square_norms[:, None]
            np.minimum(values, 0.0, out=values)
            np.exp(values, out=values)
        else:
            values = self._of_products(values)
        values += self.constant
        return values

    def _of_products(self, products):
        """Return k from x'z, in the same array."""
        if self.name == "poly":
            products *= self.gamma
            products += self.coef0
            np.power(products, self.degree, out=products)
        return products

    def expand(self, X, support, coefficients):
        """Return sum_j coefficients_j (k(x_j, x) + constant) for each row x of X, in blocks of bounded memory."""
        scores = np.zeros(X.shape[0])
        size = max(1, BLOCK_BYTES // (8 * max(len(coefficients), X.shape[1])))
        for start in range(0, len(scores), size):
            block = slice(start, start + size)
            scores[block] = self.between(self.points(X[block]), support) @ coefficients
        return scores


def _scale(X, weight):
    """Return 1/(n_features * variance of all entries), as scikit-learn's "scale" for rows repeated weight times."""
    mean = np.average(np.ravel(X.mean(axis=1)), weights=weight)
    if sparse.issparse(X):
        square_distances = np.ravel(X.multiply(X).mean(axis=1)) - mean**2
    else:
        square_distances = np.square(X - mean).mean(axis=1)
    variance = np.average(square_distances, weights=weight)
    return float(1.0 / (X.shape[1] * variance)) if variance > 0 else 1.0


def _products(few, many, out=None):
    """Return few @ many.T as a C-ordered array, ``out`` if given; either of them is dense or CSR.

    Of two sparse ones ``few`` is made dense: it then takes one run through the stored values of ``many``.
    """
    if not sparse.issparse(few) and not sparse.issparse(many):
        return np.matmul(few, many.T, out=out)
    if sparse.issparse(many):
        right = few.toarray() if sparse.issparse(few) else few
        products = (many @ np.ascontiguousarray(right.T)).T
    else:
        products = few @ np.ascontiguousarray(many.T)
    if out is None:
        return np.ascontiguousarray(products)
    out[:] = products
    return out


class ColumnCache:
    """Columns of K in a fixed number of bytes; the least recently used make way for new ones."""

    def __init__(self, kernel, points, size_bytes):
        n = len(points.square_norms)
        self.kernel, self.points = kernel, points
        self.capacity = min(n, size_bytes // (8 * n))
        if self.capacity < 2:
            raise ValueError(
                f"Expected cache_bytes for at least two columns of {n} rows, {16 * n} bytes, got {size_bytes}. "
                "Raise cache_bytes."
            )
        self.values = np.empty((self.capacity, n))  # the system gives memory to what is written only
        self.slots = np.full(n, -1)  # of each column, -1: not held
        self.last_use = np.zeros(self.capacity, dtype=np.int64)
        self._column = np.full(self.capacity, -1)  # in each slot, -1: free
        self._filled = 0
        self._block = max(1, min(BLOCK_COLUMNS, self.capacity // 2))

    def load(self, wanted, dual):
        """Compute the wanted column and, as one product makes many, those of the steepest coordinates not held.

        They fill at most half of the slots, the oldest: what the step at hand has just used stays.
        """
        violation = np.maximum(
            np.where(dual.beta < dual.high, dual.pull, -np.inf), np.where(dual.beta > dual.low, -dual.pull, -np.inf)
        )
        violation[self.slots >= 0] = -np.inf
        violation[wanted] = np.inf
        steepest = np.argpartition(violation, -self._block)[-self._block :]
        columns = steepest[violation[steepest] > 0]
        if self._filled + len(columns) <= self.capacity:
            slots = np.arange(self._filled, self._filled + len(columns))
            self._filled += len(columns)
            self.kernel.between(self.points.take(columns), self.points, out=self.values[slots[0] : self._filled])
        else:
            slots = np.argpartition(self.last_use, len(columns) - 1)[: len(columns)]
            evicted = self._column[slots]
            self.slots[evicted[evicted >= 0]] = -1
            self.values[slots] = self.kernel.between(self.points.take(columns), self.points)
        self.slots[columns], self._column[slots], self.last_use[slots] = slots, columns, self.last_use.max()


# Compiled kernels ------------------------------------------------------------------------------------------------


@_jit.kernel(fastmath=REDUCE, error_model="numpy")
def _ascend(values, slots, last_use, low, high, diagonal, curvature, beta, pull, stop, limit):
    """Step along the steepest direction; update beta, pull and last_use in place. Return (steps, missing column or -1).

    A step moves one coordinate, or a pair by +t and -t if that is steeper. Single ones alone would do, but slowly: they
    zigzag against the part that is common to all of K, such as the constant, which a pair does not see. Ends after
    ``limit`` steps, where no direction is steeper than ``stop``, or at a step whose column is not held.
    """
    clock = last_use.max()
    for update in range(limit):
        # 1. the steepest way up and the steepest way down
        i, j, up, down = _steepest(low, high, beta, pull)
        if max(up, down, up + down) <= stop:
            return update, -1
        is_pair = up + down > max(up, down)
        if not is_pair and down > up:
            i = j
        if slots[i] < 0:
            return update, i
        column = values[slots[i]]
        last_use[slots[i]] = clock + update + 1
        # 2. the exact minimum along it, within the bounds
        if is_pair:
            j = _partner(column, curvature, low, beta, pull, i)
            if slots[j] < 0:
                return update, j
            last_use[slots[j]] = clock + update + 1
            bend = max(curvature[i] + curvature[j] - 2.0 * column[j], SMALLEST_CURVATURE)
            step = min((pull[i] - pull[j]) / bend, high[i] - beta[i], beta[j] - low[j])
            _move(values[slots[j]], low, high, diagonal, beta, pull, j, -step)
        else:
            step = pull[i] / curvature[i]
        _move(column, low, high, diagonal, beta, pull, i, step)
    return limit, -1


@_jit.kernel(fastmath=REDUCE)
def _steepest(low, high, beta, pull):
    """Return the coordinate of largest gradient that may grow, that of smallest that may shrink, and their slopes."""
    i, j, up, down = 0, 0, -np.inf, -np.inf
    for s in range(beta.size):
        if pull[s] > up and beta[s] < high[s]:
            i, up = s, pull[s]
        if -pull[s] > down and beta[s] > low[s]:
            j, down = s, -pull[s]
    return i, j, up, down


@_jit.kernel(fastmath=REDUCE, error_model="numpy")
def _partner(column, curvature, low, beta, pull, i):
    """Return the j that may shrink for which moving i by t and j by -t gains most (Fan et al., WSS 2)."""
    best, most = i, -1.0
    for j in range(beta.size):
        difference = pull[i] - pull[j]
        if difference > 0.0 and beta[j] > low[j]:
            bend = max(curvature[i] + curvature[j] - 2.0 * column[j], SMALLEST_CURVATURE)
            # the test without the division first, of which few get past
            if difference * difference > most * bend:
                best, most = j, difference * difference / bend
    return best


@_jit.kernel(fastmath=REDUCE)
def _move(column, low, high, diagonal, beta, pull, s, step):
    """Add step to beta_s, but stay within its bounds, and update the gradient."""
    moved = min(max(beta[s] + step, low[s]), high[s])
    step = moved - beta[s]
    beta[s] = moved
    pull[s] -= step * diagonal[s]
    for t in range(pull.size):
        pull[t] -= step * column[t]
