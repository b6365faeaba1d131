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

The directions are an orthonormal basis B, of which each row takes another vector every round, until it has had all.
Each is uniform on the sphere, as is the source's; but where independent ones leave the mean of u_i u_i' at I/d plus
noise, the sum over a cycle of d rounds is exactly I, and what is left is what w moves in between. And as u and -u make
the same estimate, the basis may come from any factorisation of normal numbers, whatever its signs.

In the coordinates a = Bw and R_i = y_i B x_i, both products of c_i are entries, w'u = a_u and r_i = R_iu, and a step
along u changes one entry of a. So a step costs one product, R_i'a for m_i, and once m_i is known, so are the quotients
c_i along all vectors of the basis, at O(1) each: a round's mean gradient is taken over all of them, not over one a row.

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
from aucsolvers._rows import FLOATS, REDUCE, add, dot, products, row_scores, squared_norms, weighted_row_sum
from aucsolvers.margin_mean import MarginMeanScorer, Terms, solve_kernel, solve_linear

SCHEDULES = ("averaged", "source")
BOUND_TOL = 1e-6  # relative gap to which ``certify`` solves F exactly
BOUND_PASSES = 100_000
LARGEST_BASIS = 1024  # vectors: to factorise m of them takes O(d m^2)
RELATIVE = 10.0  # in units of F(w) a gap may be so much larger, before it ends the rounds, than in units of F(0)
NO_ANCHOR, OWN_DIRECTION, ALL_DIRECTIONS = range(3)  # what the mean of the g_i at a round's first w is over
LONGEST_CALL = 2**26  # multiply-adds between two looks at signals: some hundredths of a second
KEPT_BYTES = 2**25  # of a Gram matrix that is kept: of 2048 rows
GOLDEN = 0.618  # of the basis is stepped over between rounds: however many rounds, a few rows see all parts of it


# Estimator -------------------------------------------------------------------------------------------------------


class ZOVR(MarginMeanScorer):
    """Margin-mean SVM, linear or Gaussian, from values of F alone: zeroth-order steps with variance reduction (ZOVR).

    Minimises the F of MarginMeanSVM, with the same lam1, lam2, kernel, gamma, fit_intercept and threshold,

        F(w, b) = 1/2 (||w||^2 + b^2) - (lam1/s) sum_i D_i m_i + (lam2/s) sum_i max(0, 1 - m_i).

    A round gives each row a direction u_i and takes v, the mean of the g_i at its first w; then, for rows i drawn with
    replacement, w <- w - eta (g_i(w) - g_i(first w) + v), where g_i is u_i times a difference quotient of row i's term
    of F. MarginMeanSVM is faster and exact: this is the method of the source, made to work and certified.

    Parameters
    ----------
    lam1 : float, default=1.0
        Weight of the class-weighted margin mean, >= 0.
    lam2 : float, default=30.0
        Weight of the mean hinge loss, > 0. The noise of the estimates grows with its square, and with 100 F may end 3 %
        above its optimum. Behind U2, in 5-fold cross-validation on 24 sets of ratio 10 to 60, the mean test G-mean of
        "rbf" was 0.821 with 10, 0.853 with 30 and 0.860 with 100.
    kernel : {"linear", "rbf"}, default="linear"
        k(x, z) = x'z or exp(-gamma ||x - z||^2).
    gamma : "loo", "scale" or float, default="loo"
        > 0, for "rbf"; 1/sigma^2 for the source's sigma. "scale" is 1/(n_features * variance of all entries of X), or 1
        if that variance is 0; "loo" is 1/4, 1/2, 1, 2 or 4 times that, as a least-squares SVM scores rows left out best
        (MarginMeanSVM). On those 24 sets, with lam2 = 100, "scale" had 0.844.
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
        the answer is the mean of the last 29 % of the rounds. As the mean of g_i over u_i is 1/d of a gradient and F
        is 1-strongly convex, d/k is the step length whose error falls as 1/k. Here v is the mean over all rows and all
        vectors of the basis; in "source" each row has but its own u_i in it, and a single round nears the root of its
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
    tol : float, default=1e-3
        Stop when certificate <= tol * min(F(0), 10 |F(w)|), where F(0) = lam2: the default is within 1 % of F too. It
        is looked at after max_iter, max_iter/sqrt(2), max_iter/2, ... rounds, rounded down. 0 uses up max_iter.
    max_iter : int, default=1000
        Most rounds.
    max_bytes : int, default=2 * 1024**3
        Most memory for the basis of directions, 24 d min(d, 1024) bytes while it is made, and for the rows in its
        coordinates, 16 s min(d, 1024); for "rbf", whose d is its rank, as much again as the latter.
    random_state : None, int, RandomState or Generator, default=None
        Draws directions and rows.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        w, for "linear".
    support_, support_vectors_, dual_coef_ : ndarray (n_support,), ndarray or CSR, ndarray (1, n_support)
        For "rbf": the pivots i, x_i and the weights beta_i of w = sum_i beta_i phi(x_i).
    gamma_ : float
        For "rbf": the gamma in use.
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
    A step costs O(d), or O(rank) for "rbf", and before the first of a round every row takes as much three times. The
    rows are brought into the coordinates of the basis once, O(s d^2), or every 1024 rounds where d is above 1024.
    "rbf" computes the rows' coordinates in the pivots' span once, O(s rank^2), and all kernel values, O(s^2 d): once
    where there are few enough to be kept (s <= 2048), else for each certificate.

    On 16 standardised KEEL sets (15, below 4000 rows, if Gaussian), with any of three seeds, F ends above min F by a
    median of 0.1 % of |min F| (linear) and 0.5 % (Gaussian), at most 1.7 %; with lam2 = 10 at most 1 %.

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
    >>> model = ZOVR(lam2=10.0, certify=True, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.dual_gap_ <= 1e-3 * 10.0), bool(model.history_["auc"][-1] > 0.98)
    ('converged', True, True)
    """

    def __init__(
        self,
        lam1=1.0,
        lam2=30.0,
        *,
        kernel="linear",
        gamma="loo",
        fit_intercept=True,
        threshold="gmean",
        variance_reduction=True,
        schedule="averaged",
        mu=0.001,
        inner_steps=None,
        rank_tol=0.07,
        certify=False,
        tol=1e-3,
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
        gaussian = self._gaussian(X, y)
        points = gaussian.points(X)
        gram = GramMatrix(gaussian, points)
        Z, pivots = pivoted_factor(gram, self.rank_tol, self.max_bytes)
        result = self._descend(Z, terms, 0.0, gram.square_norm, as_generator(self.random_state))
        if self.certify:
            result = self._with_bound(result, solve_kernel(X, terms, gaussian, BOUND_TOL, BOUND_PASSES, self.max_bytes))
        # sum_p beta_p phi(x_p) has the coordinates Z_p' beta, and Z_p is lower triangular
        beta = np.zeros(len(y))
        beta[pivots] = solve_triangular(Z[pivots], result.w, trans="T", lower=True)
        return self._publish_kernel(result, beta, Z @ result.w, X, y, gaussian)

    def _descend(self, rows, terms, bias, square_norm, rng):
        n, size = rows.shape[0], rows.shape[1] + int(bias)
        needed = (24 * size + 16 * n) * min(size, LARGEST_BASIS)
        if needed > self.max_bytes:
            raise ValueError(
                f"Expected a basis of directions, and rows in it, of at most max_bytes={self.max_bytes} bytes, got {n} "
                f"rows of {size} coordinates, which need {needed}. Reduce the features, under-sample, or raise it."
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

    ``square_norm(signed)`` is ||sum_i signed_i phi(x_i)||^2, for the dual value. ``rng`` draws what _Frame says and,
    each round, ``inner_steps`` rows with replacement.
    """
    n, size = rows.shape[0], rows.shape[1] + int(bias)
    anchor = (ALL_DIRECTIONS if averaged else OWN_DIRECTION) if variance_reduction else NO_ANCHOR
    scale, forgets = (float(size), False) if averaged else (1.0, variance_reduction)
    settings = n * terms.mean, float(n * terms.cost[0]), mu, anchor, forgets, scale
    frame, certifier = _Frame(rows, terms.y, bias, rng), _Certifier(rows, terms, bias, square_norm, tol)
    total, slopes, since, t = np.zeros(size), np.zeros(n), 0, 0  # sums over the rounds since the last mark
    most = max(1, LONGEST_CALL // (inner_steps * frame.count))
    for mark in _marks(max_iter):
        while t < mark:
            # 1. a few rounds of one basis: inner steps with eta = scale / (shift + k), k = 0, 1, ...
            chosen = frame.of_rounds(t, min(mark - t, most))
            order = rng.integers(n, size=(len(chosen), inner_steps), dtype=np.uint32)
            shift = 2.0 * scale + (0 if forgets else t * inner_steps)
            points = np.zeros(frame.count)
            _rounds(frame.rows, frame.rest, *settings, shift, chosen, order, frame.point, points, slopes)
            total += frame.in_space(points, len(chosen))
            t, since = t + len(chosen), since + len(chosen)
        # 2. the mean of the rounds since the last mark, with its certificate
        answer = total / since if averaged else frame.in_space(frame.point)
        alpha = np.minimum(terms.cost * (slopes / since), terms.cost)
        if certifier.certify(t * inner_steps, answer, alpha):
            break
        total[:], slopes[:], since = 0.0, 0.0, 0
    return certifier.result(answer, t)


def _marks(max_iter):
    """Return the rounds after which the certificate is looked at: max_iter, max_iter / sqrt(2), max_iter / 2, ..."""
    return sorted({max(1, int(max_iter / 2 ** (k / 2))) for k in range(2 * max_iter.bit_length())})


class _Frame:
    """An orthonormal basis of directions, and rows and w in its coordinates; in each round a row has one vector of it.

    A cycle of as many rounds as there are vectors begins with a fresh basis, from normal numbers of shape (d, vectors),
    and a permutation of the rows, which then, class by class, get the vectors in turn: of either class as many rows
    have one vector as have another.

    Within a cycle w moves in the span of the basis B only: w = rest + B'a. In the coordinates a, w'u is an entry of a,
    a step along u changes one entry, and a margin is m_i = rest_i + R_i'a with R_i = y_i B x_i.
    """

    def __init__(self, rows, y, bias, rng):
        self.data, self.y, self.bias, self.rng = rows, y, bias, rng
        self.size = rows.shape[1] + int(bias)
        self.count = min(self.size, LARGEST_BASIS)
        self.stride = next(
            k for k in range(max(1, round(GOLDEN * self.count)), self.count + 2) if math.gcd(k, self.count) == 1
        )
        self.basis, self.point, self.outside = None, np.zeros(self.count), np.zeros(self.size)

    def of_rounds(self, t, most):
        """Return each row's vector in rounds t, t + 1, ..., uint32 (rounds, n): at most ``most``, and of one cycle."""
        if t % self.count == 0:
            self._renew()
        rounds = np.arange(t, t + min(most, self.count - t % self.count))
        return ((self.first + rounds[:, None] * self.stride) % self.count).astype(np.uint32)

    def _renew(self):
        """Begin a cycle; a basis of the whole space serves for all of them."""
        if self.basis is None or self.count < self.size:
            w = np.zeros(self.size) if self.basis is None else self.in_space(self.point)
            self.basis = np.ascontiguousarray(np.linalg.qr(self.rng.standard_normal((self.size, self.count)))[0].T)
            self._turn(w)
        shuffled = self.rng.permutation(len(self.y))
        self.first = np.empty(len(self.y), dtype=np.int64)
        self.first[shuffled[np.argsort(self.y[shuffled], kind="stable")]] = np.arange(len(self.y))

    def _turn(self, w):
        """Put rows and w into the coordinates of the basis."""
        width, outside, rest = self.data.shape[1], np.zeros(self.size), np.zeros(len(self.y))
        rows = self.data @ self.basis[:, :width].T + self.bias * self.basis[:, -1]
        self.rows, self.point = np.ascontiguousarray(rows * self.y[:, None]), self.basis @ w
        if self.count < self.size:
            outside = w - self.point @ self.basis
            rest = self.y * (products(self.data, outside[:width]) + self.bias * outside[-1])
        self.outside, self.rest = outside, rest

    def in_space(self, points, count=1):
        """Return the sum of ``count`` vectors w whose coordinates add up to ``points``."""
        return points @ self.basis + count * self.outside


class _Certifier:
    """F at a point, its distance to the best dual value so far, and the trace of both."""

    def __init__(self, rows, terms, bias, square_norm, tol):
        self.rows, self.terms, self.bias, self.square_norm = rows, terms, bias, square_norm
        self.tol, self.target = tol, tol * terms.cost.sum()  # F(0) = lam2
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
        return self.gap <= min(self.target, RELATIVE * self.tol * abs(self.objective))

    @property
    def gap(self):
        return max(self.objective - self.bound, 0.0)  # below 0 by rounding only

    def result(self, w, n_iter):
        status = CONVERGED if self.gap <= self.target else MAX_ITER
        w, b = (w[:-1].copy(), float(w[-1])) if self.bias else (w, 0.0)
        return SolverResult(w, b, self.objective, self.gap, n_iter, status, self.trace.as_history())


class GramMatrix:
    """K_ij = k(x_i, x_j) + constant of s rows: kept where it is small, else computed when it is asked for."""

    def __init__(self, gaussian, points):
        self.gaussian, self.points, self.size, self.kept = gaussian, points, len(points.square_norms), None
        if 8 * self.size**2 <= KEPT_BYTES:
            self.kept = gaussian.between(points, points)
            self.kept += gaussian.constant

    def diagonal(self):
        return self.gaussian.diagonal(self.points) + self.gaussian.constant

    def row(self, i):
        if self.kept is not None:
            return self.kept[i]
        return self.gaussian.between(self.points.take([i]), self.points)[0] + self.gaussian.constant

    def square_norm(self, coefficients):
        """Return ||sum_i coefficients_i phi(x_i)||^2."""
        if self.kept is not None:
            return coefficients @ (self.kept @ coefficients)
        return coefficients @ self.gaussian.expand(self.points, self.points, coefficients)


def pivoted_factor(gram, tol, max_bytes):
    """Return Z, shape (s, rank), and pivots so that K - Z Z' has a diagonal of at most ``tol``.

    Partial Cholesky factorisation: the next pivot is the row farthest from the span of those before it, whose squared
    distance is what is left of its diagonal. Z[pivots] is lower triangular. O(s rank^2) and ``rank`` rows of K.
    """
    residual, pivots = gram.diagonal(), []
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
        columns[rank] = (gram.row(p) - columns[:rank, p] @ columns[:rank]) / np.sqrt(residual[p])
        columns[rank, pivots] = 0.0  # but for rounding
        residual -= columns[rank] ** 2
        residual[p] = 0.0
        pivots.append(p)
    return np.ascontiguousarray(columns[: len(pivots)].T), np.array(pivots)


# Kernels ---------------------------------------------------------------------------------------------------------


@kernel(fastmath=REDUCE)
def _rounds(R, rest, weight, lam2, mu, anchor, forgets, scale, shift, chosen, order, point, total, slopes):
    """Make a round for each row of ``order``; move the point, add to the sums of points and of slopes v_i."""
    n, m = R.shape
    # each row's largest reach, beyond which F_i has no kink whatever the direction; the margin mean's gradient
    longest, pull = np.zeros(n), np.zeros(m)
    for i in range(n):
        for f in range(m):
            longest[i] = max(longest[i], abs(R[i, f]))
        add(R, i, weight[i] / (n * m), pull)
    margins, base, drift = np.empty(n), np.empty(n), np.zeros(m)
    for t in range(order.shape[0]):
        _probe(R, rest, weight, lam2, mu, chosen[t], point, margins, base, slopes)
        if anchor == NO_ANCHOR:
            base[:] = 0.0
        elif anchor == OWN_DIRECTION:
            drift[:] = 0.0
            for i in range(n):
                drift[chosen[t, i]] += base[i] / n
        else:
            drift[:] = point / m - pull
            _add_hinge(R, margins, lam2 / (n * m), mu, longest, drift)
        _descend(R, rest, weight, lam2, mu, chosen[t], base, drift, order[t], scale, shift, point)
        for f in range(m):
            total[f] += point[f]
        if not forgets:
            shift += order.shape[1]


@kernel(fastmath=REDUCE, error_model="numpy")
def _probe(R, rest, weight, lam2, mu, chosen, point, margins, base, slopes):
    """Put every row's m_i into ``margins`` and c_i along its own vector into ``base``; add v_i to ``slopes``."""
    for i in range(rest.size):
        u = chosen[i]
        reach, margin = R[i, u], rest[i] + dot(R, i, point)
        margins[i], fall = margin, _fall(margin, mu * reach)
        base[i] = point[u] - weight[i] * reach - lam2 * fall / (2.0 * mu)
        # h falls by `fall` where m rises by 2 mu r; its slope for r = 0 is that of either side, here the right
        rise = 2.0 * mu * reach
        slopes[i] += min(max(fall / rise, 0.0), 1.0) if rise != 0.0 else (1.0 if margin < 1.0 else 0.0)


@kernel(fastmath=REDUCE)
def _add_hinge(R, margins, factor, mu, longest, drift):
    """Add the hinge's quotients of every row along every vector of the basis, times ``factor``, to ``drift``."""
    for i in range(margins.size):
        margin = margins[i]
        if abs(1.0 - margin) > mu * longest[i]:  # h is linear all the way
            if margin < 1.0:
                add(R, i, -factor, drift)
            continue
        for f in range(drift.size):
            drift[f] -= factor * _fall(margin, mu * R[i, f]) / (2.0 * mu)


@kernel(fastmath=REDUCE)
def _descend(R, rest, weight, lam2, mu, chosen, base, drift, order, scale, shift, point):
    """Make the inner steps a -= eta ((c_i(a) - base_i) e_u + drift), eta = scale / (shift + k), in place.

    The point is a = free - drifted * drift, so that a step changes one entry of ``free``.
    """
    pull, drifted = np.empty(rest.size), 0.0
    for i in range(rest.size):
        pull[i] = dot(R, i, drift)
    for k in range(order.size):
        i = order[k]
        u = chosen[i]
        margin = rest[i] + dot(R, i, point) - drifted * pull[i]
        change = point[u] - drifted * drift[u] - weight[i] * R[i, u]
        change -= lam2 * _fall(margin, mu * R[i, u]) / (2.0 * mu)
        eta = scale / (shift + k)
        point[u] -= eta * (change - base[i])
        drifted += eta
    for f in range(point.size):
        point[f] -= drifted * drift[f]


@kernel()
def _fall(margin, step):
    """Return h(m - step) - h(m + step) for the hinge h(m) = max(0, 1 - m)."""
    return max(0.0, 1.0 - margin + step) - max(0.0, 1.0 - margin - step)
