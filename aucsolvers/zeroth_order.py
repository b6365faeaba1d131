"""Zeroth-order solver of the margin-mean SVM (ZOVR): estimator, driver, factor of the Gram matrix, kernels.

F of ``aucsolvers.margin_mean`` is the mean over rows of

    F_i(w) = 1/2 ||w||^2 - lam1 D_i m_i + lam2 max(0, 1 - m_i),    m_i = y_i (w'x_i + b),

and only its values are used. With a direction u_i on the unit sphere for each row, the estimate of row i's gradient is

    g_i(w) = c_i(w) u_i,    c_i(w) = (F_i(w + mu u_i) - F_i(w - mu u_i)) / (2 mu),

whose mean over u_i is 1/d of the gradient of F_i smoothed over a ball of radius mu. In c_i the ||w||^2 and ||u_i||^2
cancel: with r_i = y_i x_i'u_i, the change of m_i along u_i, and h(t) = max(0, 1 - t),

    c_i(w) = w'u_i - lam1 D_i r_i + lam2 (h(m_i + mu r_i) - h(m_i - mu r_i)) / (2 mu),

two scalar products: O(d) instead of the O(s d) of F. The last quotient is -lam2 r_i v_i with 0 <= v_i <= 1, as the
hinge falls at most as fast as m_i rises; so U v_i, U = lam2/s, is a feasible dual variable, its mean over rounds tends
to the optimal one as w does, and the dual value there bounds min F from below without a solver of its own.

The directions are an orthonormal basis, of which each row takes another vector every round, until it has had all. Each
is uniform on the sphere, as is the source's; but where independent ones leave the mean of u_i u_i' at I/d plus noise,
the sum over a cycle of d rounds is exactly I, and what is left is what w moves in between. And as u and -u make the
same estimate, the basis may come from any factorisation of normal numbers, whatever its signs.

For a kernel, w lies in the span of the phi(x_i). A factor Z Z' of the Gram matrix gives the rows coordinates z_i in an
orthonormal basis of the span of a few of them, the pivots, and all of the above holds with z_i for x_i: a step is
O(rank), and w is that of an ordinary kernel expansion over the pivots.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.linalg import solve_triangular

from aucsolvers._base import CONVERGED, MAX_ITER, SolverResult, Trace
from aucsolvers._jit import kernel
from aucsolvers._params import as_generator, check_choice, check_count, check_positive
from aucsolvers._rows import FLOATS, REDUCE, add, as_rows, dot, row_scores, squared_norms, weighted_row_sum
from aucsolvers.margin_mean import MarginMeanScorer, Terms, solve_kernel, solve_linear

SCHEDULES = ("averaged", "source")
BOUND_TOL = 1e-6  # relative gap to which ``certify`` solves F exactly
BOUND_PASSES = 100_000
LARGEST_BASIS = 1024  # vectors: to factorise m of them takes O(d m^2)
GOLDEN = 0.618  # of the basis is stepped over between rounds: however many rounds, a few rows see all parts of it


# Estimator -------------------------------------------------------------------------------------------------------


class ZOVR(MarginMeanScorer):
    """Margin-mean SVM, linear or Gaussian, from values of F alone: zeroth-order steps with variance reduction (ZOVR).

    Minimises the F of MarginMeanSVM, with the same lam1, lam2, kernel, gamma, fit_intercept and threshold,

        F(w, b) = 1/2 (||w||^2 + b^2) - (lam1/s) sum_i D_i m_i + (lam2/s) sum_i max(0, 1 - m_i).

    A round gives each row a direction u_i and takes v = mean_i g_i(w) at its first w; then, for rows i drawn with
    replacement, w <- w - eta (g_i(w) - g_i(first w) + v), where g_i is u_i times a difference quotient of row i's term
    of F. MarginMeanSVM is faster and exact: this is the method of the source, made to work and certified.

    Parameters
    ----------
    lam1 : float, default=1.0
        Weight of the class-weighted margin mean, >= 0.
    lam2 : float, default=10.0
        Weight of the mean hinge loss, > 0. The noise of the estimates grows with its square.
    kernel : {"linear", "rbf"}, default="linear"
        k(x, z) = x'z or exp(-gamma ||x - z||^2).
    gamma : "scale" or float, default="scale"
        > 0, for "rbf"; 1/sigma^2 for the source's sigma. "scale" is 1/(n_features * variance of all entries of X), or 1
        if that variance is 0.
    fit_intercept : bool, default=True
        Whether b is fitted, as the weight of a constant feature; otherwise it is 0.
    threshold : {"gmean", "zero"}, default="gmean"
        Where ``predict`` cuts the scores: at the largest G-mean on the training rows, or at 0.
    variance_reduction : bool, default=True
        False takes w <- w - eta g_i(w) instead, plain zeroth-order stochastic gradient descent: with lam1 = 0 the SVM
        baseline of the source.
    schedule : {"averaged", "source"}, default="averaged"
        "source": eta = 1/(k + 1), k = 1, 2, ... in each round (over all rounds without variance reduction), and the
        last iterate is the answer. "averaged": eta = d/(k + 2d) over all rounds, d being the dimension of u_i, and
        the answer is the mean of the last half of the rounds. As the mean of g_i over u_i is 1/d of a gradient and F
        is 1-strongly convex, d/k is the step length whose error falls as 1/k; and a single round nears the root of its
        own direction set's equation, which is a random distance off however long the round.
    mu : float, default=0.001
        Half the length over which F is differenced, > 0; the source has 0.1. It smooths the hinge: with 0.1 the answer
        can be some percent above min F whatever the effort, and a smaller one costs nothing as F is known exactly.
    inner_steps : int or None, default=None
        Steps a round, >= 1; None is one per row.
    rank_tol : float, default=0.07
        For "rbf", > 0: w is sought in the span of so many phi(x_i), the pivots, that each phi(x_j) is within a squared
        distance of rank_tol of it, of k(x, x) = 1 (2 with an intercept). A smaller one costs time and noise, a larger
        one leaves part of min F out of reach; the certificate is to that of all rows.
    certify : bool, default=False
        Solve F exactly after all, for ``dual_gap_`` to be the distance to min F, up to a millionth of lam2.
    tol : float, default=2e-3
        Stop when certificate <= tol * F(0), where F(0) = lam2. It is looked at after max_iter, max_iter/2, max_iter/4,
        ... rounds, rounded down. 0 uses up max_iter.
    max_iter : int, default=1000
        Most rounds.
    max_bytes : int, default=2 * 1024**3
        Most memory for the basis of directions, 24 d min(d, 1024) bytes while it is made, and for the coordinates of
        "rbf", 16 s rank bytes.
    random_state : None, int, RandomState or Generator, default=None
        Draws directions and rows.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        w, for "linear".
    support_, support_vectors_, dual_coef_ : ndarray (n_support,), ndarray or CSR, ndarray (1, n_support)
        For "rbf": the pivots i, x_i and the weights beta_i of w = sum_i beta_i phi(x_i).
    intercept_ : ndarray of shape (1,)
        b minus the threshold.
    classes_ : ndarray of shape (2,)
        ``classes_[1]`` is the positive class.
    objective_ : float
        F at the answer, of all rows and with the kernel itself.
    dual_gap_ : float
        An upper bound on F - min F: F minus the largest dual value met, or known from ``certify``.
    n_iter_ : int
        Rounds made.
    status_ : {"converged", "max_iter"}
        Whether dual_gap_ <= tol * lam2.
    history_ : dict of ndarrays
        ``updates`` (inner steps), ``objective``, ``dual_gap``, ``auc`` (training rows), ``time_s``: at w = 0 and each
        time that the certificate was computed.

    Raises
    ------
    ValueError
        On parameters or data for which F is not defined, or more memory than ``max_bytes``.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` rounds did not bring the certificate to tol * lam2: usually a large lam2 or a narrow kernel.

    Notes
    -----
    A step costs O(d), or O(rank) for "rbf", and so does a row's probe once a round; a basis costs O(d^3) every d
    rounds, above 1024 coordinates O(1024^2 d) every 1024. "rbf" computes the rows' coordinates once, O(s rank (rank +
    d)), and each certificate all kernel values, O(s^2 d), none of which are kept.

    On 16 standardised KEEL sets, with the defaults, F ends above min F by a median of 0.2 % of |min F| (linear) and
    0.4 % (Gaussian), at most 1.2 % with any of three seeds, certified after 15 to 1000 rounds. Independent directions,
    400 rounds of them, end at 0.4 % and 1.3 %, at most 7 % and 8 %.

    The same integer ``random_state`` gives the same bits on the same machine, library versions and BLAS threads. Dense
    and sparse rows see the same draws; rounding grows from step to step, as the estimates bend sharply at the hinge's
    kink, so that their answers may differ by some 1e-4 of F: far less than the certificate.

    References
    ----------
    Lu, Zhang, Cai (2019). Zeroth order optimization algorithm based on undersampling. J. Nanjing Univ. of Aeronautics &
    Astronautics 51(5). Eq. 6 (estimate), 7-8 (variance reduction and step), algorithms 3 (linear) and 4 (kernel: there
    the directions are those of the coefficients beta, and a probe costs O(s^2)).
    Lacoste-Julien, Schmidt, Bach (2012). A simpler approach to obtaining an O(1/t) convergence rate for the projected
    stochastic subgradient method. arXiv:1212.2002. On averaging.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers.zeroth_order import ZOVR
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ZOVR(certify=True, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.dual_gap_ <= 2e-3 * 10.0), bool(model.history_["auc"][-1] > 0.98)
    ('converged', True, True)
    """

    def __init__(
        self,
        lam1=1.0,
        lam2=10.0,
        *,
        kernel="linear",
        gamma="scale",
        fit_intercept=True,
        threshold="gmean",
        variance_reduction=True,
        schedule="averaged",
        mu=0.001,
        inner_steps=None,
        rank_tol=0.07,
        certify=False,
        tol=2e-3,
        max_iter=1000,
        max_bytes=2 * 1024**3,
        random_state=None,
    ):
        self.lam1 = lam1
        self.lam2 = lam2
        self.kernel = kernel
        self.gamma = gamma
        self.fit_intercept = fit_intercept
        self.threshold = threshold
        self.variance_reduction = variance_reduction
        self.schedule = schedule
        self.mu = mu
        self.inner_steps = inner_steps
        self.rank_tol = rank_tol
        self.certify = certify
        self.tol = tol
        self.max_iter = max_iter
        self.max_bytes = max_bytes
        self.random_state = random_state

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        super().check_parameters()
        check_choice("schedule", self.schedule, SCHEDULES)
        check_positive("mu", self.mu)
        if check_positive("rank_tol", self.rank_tol) >= 1:
            raise ValueError(f"Expected rank_tol to be below k(x, x) = 1, got {self.rank_tol!r}. Set it to 0.1, say.")
        if self.inner_steps is not None:
            check_count("inner_steps", self.inner_steps)
        check_count("max_bytes", self.max_bytes)

    def fit(self, X, y):
        """Fit to rows X, shape (n_samples, n_features), dense or CSR, and labels y of two classes; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y, dtype=FLOATS)
        terms = Terms.of(y, self.lam1, self.lam2)
        return self._fit_linear(X, y, terms) if self.kernel == "linear" else self._fit_kernel(X, y, terms)

    def _fit_linear(self, X, y, terms):
        if not np.isfinite(squared_norms(X)).all():
            raise ValueError("Expected rows of finite squared length, got an overflow: scale the features first.")
        bias = 1.0 if self.fit_intercept else 0.0

        def square_norm(signed):
            return np.sum(weighted_row_sum(X, signed) ** 2) + bias * signed.sum() ** 2

        rng = as_generator(self.random_state)
        result = self._descend(X, terms, bias, square_norm, rng)
        if self.certify:
            exact = solve_linear(X, terms, self.fit_intercept, BOUND_TOL, BOUND_PASSES, rng)
            result = self._with_bound(result, exact)
        return self._publish_linear(result, X, y)

    def _fit_kernel(self, X, y, terms):
        gaussian = self._gaussian(X)
        points = gaussian.points(X)
        Z, pivots = pivoted_factor(gaussian, points, self.rank_tol, self.max_bytes)

        def square_norm(signed):
            return signed @ gaussian.expand(points, points, signed)

        result = self._descend(Z, terms, 0.0, square_norm, as_generator(self.random_state))
        if self.certify:
            result = self._with_bound(result, solve_kernel(X, terms, gaussian, BOUND_TOL, BOUND_PASSES, self.max_bytes))
        # sum_p beta_p phi(x_p) has the coordinates Z_p' beta, and Z_p is lower triangular
        beta = np.zeros(len(y))
        beta[pivots] = solve_triangular(Z[pivots], result.w, trans="T", lower=True)
        return self._publish_kernel(result, beta, Z @ result.w, X, y, gaussian)

    def _descend(self, rows, terms, bias, square_norm, rng):
        n, size = rows.shape[0], rows.shape[1] + int(bias)
        needed = 24 * size * min(size, LARGEST_BASIS)
        if needed > self.max_bytes:
            raise ValueError(
                f"Expected a basis of directions of at most max_bytes={self.max_bytes} bytes, got {size} coordinates, "
                f"which need {needed}. Reduce the features, or raise it."
            )
        return zeroth_order_descent(
            rows,
            terms,
            bias,
            square_norm,
            variance_reduction=self.variance_reduction,
            averaged=self.schedule == "averaged",
            mu=self.mu,
            inner_steps=n if self.inner_steps is None else self.inner_steps,
            tol=self.tol,
            max_iter=self.max_iter,
            rng=rng,
        )

    def _with_bound(self, result, exact):
        """Return the result with its gap to the exact solver's lower bound on min F, where that is the higher one."""
        bound = max(exact.objective - exact.dual_gap, result.objective - result.dual_gap)
        gap = max(result.objective - bound, 0.0)
        return replace(result, dual_gap=gap, status=CONVERGED if gap <= self.tol * self.lam2 else MAX_ITER)


# Driver ----------------------------------------------------------------------------------------------------------


def zeroth_order_descent(
    rows, terms, bias, square_norm, *, variance_reduction, averaged, mu, inner_steps, tol, max_iter, rng
):
    """Minimise F over w, the weight of the constant feature ``bias`` last if that is not 0; return a SolverResult.

    ``square_norm(signed)`` is ||sum_i signed_i phi(x_i)||^2, for the dual value. ``rng`` draws what _Directions says
    and, each round, ``inner_steps`` rows with replacement.
    """
    n, size = rows.shape[0], rows.shape[1] + int(bias)
    fixed = as_rows(rows), terms.y, bias, n * terms.mean, n * terms.cost[0], mu
    w, window, directions = np.zeros(size), _Window(size, n), _Directions(terms.y, size, rng)
    certifier = _Certifier(rows, terms, bias, square_norm, tol)
    # the last half, quarter, ... of the rounds so far end where the halves of max_iter do
    marks = {max_iter >> halvings for halvings in range(max_iter.bit_length())}
    for t in range(1, max_iter + 1):
        # 1. the direction set, the quotients c_i at w and their mean direction; the slopes v_i for the dual
        basis, chosen = directions.of_round(t - 1)
        order = rng.integers(n, size=inner_steps, dtype=np.uint32)
        reach, base, slopes, drift = _probe(*fixed, basis, chosen, w)
        if not variance_reduction:
            base[:], drift[:] = 0.0, 0.0
        # 2. the inner steps, eta = scale / (shift + k), k = 0, 1, ...
        scale, forgets = (float(size), False) if averaged else (1.0, variance_reduction)
        shift = 2.0 * scale + (0 if forgets else (t - 1) * inner_steps)
        _descend(*fixed, basis, chosen, reach, base, drift, order, scale, shift, w)
        window.add(w, slopes)
        # 3. the mean of the rounds since the last mark, with its certificate
        if t in marks:
            answer, alpha = window.close(terms.cost)
            answer = answer if averaged else w.copy()
            if certifier.certify(t * inner_steps, answer, alpha):
                break
    return certifier.result(answer, t)


class _Directions:
    """An orthonormal basis, and which of its vectors each row has in a round: all of them once in as many rounds.

    A cycle begins with a fresh basis, from normal numbers of shape (d, vectors), and a permutation of the rows, which
    then, class by class, get the vectors in turn: of either class as many rows have one vector as have another.
    """

    def __init__(self, y, size, rng):
        self.y, self.shape, self.rng = y, (size, min(size, LARGEST_BASIS)), rng
        count = self.shape[1]
        self.stride = next(k for k in range(max(1, round(GOLDEN * count)), count + 2) if math.gcd(k, count) == 1)

    def of_round(self, t):
        """Return the basis, one vector a row, and each data row's number in it, in round t = 0, 1, ..., in order."""
        count = self.shape[1]
        if t % count == 0:
            self.basis = np.ascontiguousarray(np.linalg.qr(self.rng.standard_normal(self.shape))[0].T)
            shuffled = self.rng.permutation(len(self.y))
            self.first = np.empty(len(self.y), dtype=np.int64)
            self.first[shuffled[np.argsort(self.y[shuffled], kind="stable")]] = np.arange(len(self.y))
        return self.basis, ((self.first + t * self.stride) % count).astype(np.uint32)


class _Window:
    """Sums of the iterates and of the dual slopes over the rounds since the last mark."""

    def __init__(self, size, n):
        self.w, self.slopes, self.rounds = np.zeros(size), np.zeros(n), 0  # in place from here on

    def add(self, w, slopes):
        self.w += w
        self.slopes += slopes
        self.rounds += 1

    def close(self, cost):
        """Return the mean iterate and the dual variables; begin anew."""
        w, slopes = self.w / self.rounds, self.slopes / self.rounds
        self.w[:], self.slopes[:], self.rounds = 0.0, 0.0, 0
        return w, np.minimum(cost * slopes, cost)


class _Certifier:
    """F at a point, its distance to the best dual value so far, and the trace of both."""

    def __init__(self, rows, terms, bias, square_norm, tol):
        self.rows, self.terms, self.bias, self.square_norm = rows, terms, bias, square_norm
        self.target = tol * terms.cost.sum()  # F(0) = lam2
        self.trace, self.bound, self.objective = Trace(), -np.inf, None
        size = rows.shape[1] + int(bias)
        self.certify(0, np.zeros(size), np.zeros(len(terms.y)))

    def certify(self, updates, w, alpha):
        """Record F(w), its gap to the best D(alpha) so far and the training AUC; return whether the gap will do."""
        y = self.terms.y
        scores = row_scores(self.rows, w[: self.rows.shape[1]]) + self.bias * w[-1]
        self.objective = self.terms.value(w @ w, y * scores)
        self.bound = max(self.bound, float(alpha.sum() - 0.5 * self.square_norm(y * (self.terms.mean + alpha))))
        self.trace.add(updates, self.objective, self.gap, scores[y > 0], scores[y < 0])
        return self.gap <= self.target

    @property
    def gap(self):
        return max(self.objective - self.bound, 0.0)  # below 0 by rounding only

    def result(self, w, n_iter):
        status = CONVERGED if self.gap <= self.target else MAX_ITER
        w, b = (w[:-1].copy(), float(w[-1])) if self.bias else (w, 0.0)
        return SolverResult(w, b, self.objective, self.gap, n_iter, status, self.trace.as_history())


def pivoted_factor(gaussian, points, tol, max_bytes):
    """Return Z, shape (s, rank), and pivots so that K - Z Z' has a diagonal of at most ``tol``; K is never formed.

    K_ij = k(x_i, x_j) + constant. Partial Cholesky factorisation: the next pivot is the row farthest from the span of
    those before it, whose squared distance is what is left of its diagonal. Z[pivots] is lower triangular.
    O(s rank^2 + s rank d).
    """
    residual, pivots = gaussian.diagonal(points) + gaussian.constant, []
    n = len(residual)
    limit = min(n, max_bytes // (16 * n))
    columns = np.empty((limit, n))  # the system gives memory to those written only
    while len(pivots) < n and residual.max() > tol:
        p, rank = int(residual.argmax()), len(pivots)
        if rank == limit:
            raise ValueError(
                f"Expected coordinates of at most max_bytes={max_bytes} bytes, got {n} rows of more than {rank} "
                "coordinates. Raise rank_tol or max_bytes, widen the kernel, or under-sample (GeometricUnderSampler)."
            )
        column = gaussian.between(points.take([p]), points)[0] + gaussian.constant
        columns[rank] = (column - columns[:rank, p] @ columns[:rank]) / np.sqrt(residual[p])
        columns[rank, pivots] = 0.0  # but for rounding
        residual -= columns[rank] ** 2
        residual[p] = 0.0
        pivots.append(p)
    return np.ascontiguousarray(columns[: len(pivots)].T), np.array(pivots)


# Kernels ---------------------------------------------------------------------------------------------------------


@kernel(fastmath=REDUCE, error_model="numpy")
def _probe(rows, y, bias, weight, lam2, mu, basis, chosen, w):
    """Return r_i, c_i(w) and v_i of every row, u_i being basis[chosen_i], and the mean of c_i u_i."""
    n = y.size
    reach, base, slopes, drift = np.empty(n), np.empty(n), np.empty(n), np.zeros(w.size)
    for i in range(n):
        u = basis[chosen[i]]
        reach[i] = y[i] * (dot(rows, i, u) + bias * u[-1])
        margin = y[i] * (dot(rows, i, w) + bias * w[-1])
        fall = _fall(margin, mu * reach[i])
        base[i] = dot(basis, chosen[i], w) - weight[i] * reach[i] - lam2 * fall / (2.0 * mu)
        # h falls by `fall` where m rises by 2 mu r; its slope for r = 0 is that of either side, here the right
        rise = 2.0 * mu * reach[i]
        slopes[i] = min(max(fall / rise, 0.0), 1.0) if rise != 0.0 else (1.0 if margin < 1.0 else 0.0)
        add(basis, chosen[i], base[i] / n, drift)
    return reach, base, slopes, drift


@kernel(fastmath=REDUCE)
def _descend(rows, y, bias, weight, lam2, mu, basis, chosen, reach, base, drift, order, scale, shift, w):
    """Make the inner steps w -= eta (c_i(w) u_i - base_i u_i + drift), eta = scale / (shift + k), in place."""
    for k in range(order.size):
        i = order[k]
        u = chosen[i]
        margin = y[i] * (dot(rows, i, w) + bias * w[-1])
        change = dot(basis, u, w) - weight[i] * reach[i] - lam2 * _fall(margin, mu * reach[i]) / (2.0 * mu)
        eta = scale / (shift + k)
        step = eta * (change - base[i])
        for f in range(w.size):
            w[f] -= step * basis[u, f] + eta * drift[f]


@kernel()
def _fall(margin, step):
    """Return h(m - step) - h(m + step) for the hinge h(m) = max(0, 1 - m)."""
    return max(0.0, 1.0 - margin + step) - max(0.0, 1.0 - margin - step)
