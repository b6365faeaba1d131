"""Zeroth-order solver of the margin-mean SVM (ZOVR): estimator, driver, factor of the Gram matrix, kernels.

F of ``aucsolvers.margin_mean`` is the mean over rows of

    F_i(w) = 1/2 ||w||^2 - lam1 D_i m_i + lam2 max(0, 1 - m_i),    m_i = y_i (w'x_i + b),

and only its values are used. Along a unit vector u the gradient of F_i is estimated as c_i(w) u with

    c_i(w) = (F_i(w + mu u) - F_i(w - mu u)) / (2 mu).

In c_i the ||w||^2 and ||u||^2 cancel: with r_i = y_i x_i'u, the change of m_i along u, and h(t) = max(0, 1 - t),

    c_i(w) = w'u - lam1 D_i r_i + lam2 (h(m_i + mu r_i) - h(m_i - mu r_i)) / (2 mu),

two scalar products: O(d) instead of the O(s d) of F. The last quotient is -lam2 r_i v_i with 0 <= v_i <= 1, as the
hinge falls at most as fast as m_i rises; so U v_i, U = lam2/s, is a feasible dual variable, its mean over rounds tends
to the optimal one as w does. The dual value there, after some passes of dual coordinate ascent, bounds min F below.

The source draws one u_i for each row and round: the mean of c_i u_i over the sphere is 1/d of a gradient, and the noise
of the directions is d times that of the rows. But once m_i is known, at O(d), so are the quotients along all coordinate
axes, at O(1) each; and off the kink, by more than mu ||x_i||, their vector is that of y_i x_i itself. So by default a
row's direction set is all axes, and a step costs no more than one along a single direction:

    g_i(w) = sum_j c_ij(w) e_j = w - lam1 D_i y_i x_i - lam2 q_i(w),    q_i(w) = y_i x_i, 0 or, at the kink, in between.

With variance reduction two q_i of a row mostly cancel, and a step that changes nothing but the length of w is two
numbers: w = A p + B t, where t is the round's mean of lam1 D_i y_i x_i + lam2 q_i.

For a kernel, w lies in the span of the phi(x_i). A factor Z Z' of the Gram matrix gives the rows coordinates z_i in an
orthonormal basis of the span of a few of them, the pivots, and all of the above holds with z_i for x_i: a step is
O(rank), and w is that of an ordinary kernel expansion over the pivots.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.linalg.lapack import dpstrf
from sklearn.utils.validation import check_is_fitted

from aucsolvers._base import CONVERGED, MAX_ITER, SolverResult, Trace, validate_rows
from aucsolvers._hinge import least_along, least_multiple
from aucsolvers._jit import LONGEST_CALL, kernel
from aucsolvers._params import as_generator, check_choice, check_count, check_flags, check_positive
from aucsolvers._ranking import TIED_WITHIN, tied
from aucsolvers._rows import (
    LEAST_READINGS,
    REDUCE,
    add,
    as_rows,
    copy_into,
    dot,
    most_readings,
    row_scores,
    squared_norm,
    squared_norms,
    stored_once,
    weighted_row_sum,
)
from aucsolvers._stored import StoredColumns
from aucsolvers._transaction import transactional
from aucsolvers.margin_mean import MarginMeanScorer, Terms, solve_kernel, solve_linear

SCHEDULES = ("averaged", "source")
BOUND_TOL = 1e-6  # relative gap to which ``certify`` solves F exactly
BOUND_PASSES = 100_000
LARGEST_BASIS = 1024  # vectors: to factorise m of them takes O(d m^2)
# A gap that ends the rounds may be so many times larger in units of |F(w)| than in units of F(0) or more, and be such a
# part of F's three terms, where these cancel.
RELATIVE, OF_TERMS = 5.0, 0.05
PART_TOL, PART_PASSES = 1e-5, 2000  # gap in units of F(0) to which F is minimised on parts of the rows, and most passes
ROUNDS_PER_PASS = 8  # of dual coordinate ascent, for the certificate: a pass costs about as much as a round
KEPT_BYTES = 2**25  # of a Gram matrix that is kept: of 2048 rows
AHEAD = 32  # candidates for pivots whose rows of a Gram matrix that is not kept are computed together
NEARLY = 0.5  # of the largest squared distance: one of them that is so far is the next pivot
MOST_FOLLOWED = 1024  # rows whose margins follow w by their products with each other: 8 MiB
FOLLOWED_A_COORDINATE = 8  # such rows: a change of w costs as many additions as there are rows, a margin as coordinates
CERTIFIED_FROM = 2**18  # entries that rounds have read: fewer take less time than a look at the certificate
GOLDEN = 0.618  # of the basis is stepped over between rounds: however many rounds, a few rows see all parts of it


# Estimator -------------------------------------------------------------------------------------------------------


class ZOVR(MarginMeanScorer):
    """Margin-mean SVM, linear or Gaussian, from values of F alone: zeroth-order steps with variance reduction (ZOVR).

    Minimises the F of MarginMeanSVM, with the same lam1, lam2, kernel, gamma, fit_intercept and threshold,

        F(w, b) = 1/2 (||w||^2 + b^2) - (lam1/s) sum_i D_i m_i + (lam2/s) sum_i max(0, 1 - m_i).

    A round takes v, the mean of the g_i at its first w; then, for rows i drawn with replacement,
    w <- w - eta (g_i(w) - g_i(first w) + v), where g_i are difference quotients of row i's term of F, each times its
    direction. MarginMeanSVM is exact: this is the method of the source, made to work and certified.

    Parameters
    ----------
    lam1 : float, default=1.0
        Weight of the class-weighted margin mean, >= 0.
    lam2 : float, default=1000.0
        Weight of the mean hinge loss, > 0. Behind U2, in 5-fold cross-validation on 21 sets of ratio 5 to 48, the mean
        test G-mean of "rbf" was 0.821 with 100, 0.832 with 300, 0.842 with 1000 and 0.839 with 3000.
    kernel : {"linear", "rbf"}, default="linear"
        k(x, z) = x'z or exp(-gamma ||x - z||^2).
    gamma : "loo", "scale", "spread" or float, default="loo"
        > 0, for "rbf"; 1/sigma^2 for the source's sigma. "scale" is 1/(n_features * variance of all entries of X),
        "spread" 1/(sum of the columns' variances), or 1 if that variance is 0; "loo" is 1/16, 1/8, ..., 4 times
        "spread", by how a least-squares SVM scores rows left out (MarginMeanSVM). On those 21 sets "scale" had 0.830.
    fit_intercept : bool, default=True
        Whether b is fitted, as the weight of a constant feature; otherwise it is 0.
    threshold : {"gmean", "zero"}, default="gmean"
        Where ``predict`` cuts the scores: at the largest G-mean on the training rows, or at 0. By rows left out, and by
        those that a sampler dropped: GMeanThreshold.
    variance_reduction : bool, default=True
        False takes w <- w - eta g_i(w) instead, plain zeroth-order stochastic gradient descent: with lam1 = 0 the SVM
        baseline of the source.
    schedule : {"averaged", "source"}, default="averaged"
        "source": each row has one direction a round, eta = 1/(k + 1), k = 1, 2, ... in each round (over all rounds
        without variance reduction), and the last iterate is the answer. A round nears the root of its own direction
        set's equation, which is a random distance off however long the round. "averaged": each row's directions are all
        coordinate axes, which a step along costs no more, eta = 1/(k + 1) over all rounds, and the answer is the mean
        of the last 29 % of the rounds: as F is 1-strongly convex, its error falls as 1/k. Of its multiples that with
        the least F is taken, and then the point with the least F on the line from the mean of some rounds before it.
    mu : float, default=1e-6
        Half the length over which F is differenced, > 0; the source has 0.1. It smooths the hinge, by up to mu ||x_i||
        each: rounds in any number leave F above min F by some mu * lam2, which with 0.1 can be some percent of F and
        with 0.001 more than F itself if a large lam2 separates the classes. A smaller one costs nothing, as F is known
        exactly.
    inner_steps : int or None, default=None
        Steps a round, >= 1; None is one per row.
    rank_tol : float, default=0.0005
        For "rbf", > 0: w is sought in the span of so many phi(x_i), the pivots, that each phi(x_j) is within a squared
        distance of rank_tol of it, of k(x, x) = 1 (2 with an intercept). A smaller one costs time and noise, a larger
        one leaves part of min F out of reach; the certificate is to that of all rows.
    certify : bool, default=False
        Solve F exactly after all, for ``dual_gap_`` to be the distance to min F, up to a millionth of lam2.
    tol : float, default=2e-3
        Stop when certificate <= tol * min(max(F(0), |F(w)|), max(5 |F(w)|, S / 20)), F(0) = lam2, S being the sum of
        F's three terms without their signs: the default is within 1 % of F, or where the terms cancel, 1e-4 of S. It is
        looked at after max_iter, max_iter/sqrt(2), max_iter/2, ... rounds, rounded down, as soon as they have read
        2^18 entries of the rows, and at the end. 0 uses up max_iter.
    max_iter : int or None, default=None
        Most rounds, >= 1. None is 1000 for "source"; for "averaged" as many as read 8e9 entries of X, for "rbf" of the
        rows' coordinates, from 1000 to 300,000. Few data need that many: where a large lam2 separates the classes,
        min F may be a thousandth of F(0) or less.
    max_bytes : int, default=2 * 1024**3
        Most memory, for "rbf" of the rows' coordinates, 16 bytes each. In addition for "source", of a basis of
        directions, 24 d min(d, 1024) bytes while it is made, and of the rows in its coordinates, 16 s min(d, 1024); for
        "rbf" d is the rank.
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
    gap_unit_ : float
        The largest of F(0) = lam2, |F(w)| and 1: in units of it, gaps of different data compare.
    n_iter_ : int
        Rounds made.
    status_ : {"converged", "max_iter", "diverged"}
        Whether dual_gap_ is at most what tol says; "diverged" where objective_ overflowed.
    found_nothing_ : bool
        Whether all training scores are the same as far as the certificate tells, the optimum then being w = 0: the
        ranking is arbitrary. A loose tol may not show it; with threshold "zero" it is not looked at, and False.
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
        If ``max_iter`` rounds did not bring the certificate to that: usually a large lam2 or a narrow kernel.
    UserWarning
        If ``found_nothing_``.

    Notes
    -----
    A step costs O(d), O(stored values of a row) if sparse, O(rank) for "rbf", and before the first of a round every row
    takes as much three times. The products with each other of dense rows, at most 1024 and 8 a coordinate, are kept:
    after O(s^2 d) once, a step is O(1), or O(s + d) where its row has crossed the kink. "source" brings the rows into
    the coordinates of a basis first, O(s d^2), every 1024 rounds again where d is above 1024. "rbf" computes the rows'
    coordinates in the pivots' span once, O(s rank^2), and all kernel values, O(s^2 d): once where there are few enough
    to be kept (s <= 2048), else for each certificate.

    The certificate's dual variables are the means of v_i, improved by some passes of dual coordinate ascent: one for
    every 8 rounds, for "rbf" where the kernel values are kept. The answer has no part in that.

    On 17 standardised KEEL sets (16, below 4000 rows, if Gaussian), with lam2 = 10 and 1000 and three seeds each, F
    ends above min F by a median of 0.2 % of its size (linear) and 0.1 % (Gaussian), at most 1 %, as dual_gap_ says.

    The same integer ``random_state`` gives the same bits on the same machine and library versions. Dense and sparse
    rows see the same draws; rounding grows from step to step, as the estimates bend sharply at the hinge's kink, so
    that their answers may differ by some 1e-4 of F, or by what some rounds more make: less than the certificate.

    References
    ----------
    Lu, Zhang, Cai (2019). Zeroth order optimization algorithm based on undersampling. J. Nanjing Univ. of Aeronautics &
    Astronautics 51(5). Eq. 6 (estimate), 7-8 (variance reduction and step), algorithms 3 (linear) and 4 (kernel: there
    the directions are those of the coefficients beta, and a probe costs O(s^2)).
    Liu, Kailkhura, Chen, Ting, Chang, Amini (2018). Zeroth-order stochastic variance reduced gradient optimization for
    nonconvex optimization. NeurIPS. On quotients along all coordinates (ZO-SVRG-Coord).
    Lacoste-Julien, Schmidt, Bach (2012). A simpler approach to obtaining an O(1/t) convergence rate for the projected
    stochastic subgradient method. arXiv:1212.2002. On averaging.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from aucsolvers import ZOVR
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = ZOVR(lam2=10.0, tol=1e-3, certify=True, random_state=0).fit(scale(X), y == 0)
    >>> model.status_, bool(model.dual_gap_ <= 1e-3 * 10.0), bool(model.history_["auc"][-1] > 0.98)
    ('converged', True, True)
    """

    def __init__(
        self,
        lam1=1.0,
        lam2=1000.0,
        *,
        kernel="linear",
        gamma="loo",
        fit_intercept=True,
        threshold="gmean",
        variance_reduction=True,
        schedule="averaged",
        mu=1e-6,
        inner_steps=None,
        rank_tol=0.0005,
        certify=False,
        tol=2e-3,
        max_iter=None,
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
        check_flags(self, "variance_reduction", "certify")
        check_positive("mu", self.mu)
        if check_positive("rank_tol", self.rank_tol) >= 1:
            raise ValueError(f"Expected rank_tol to be below k(x, x) = 1, got {self.rank_tol!r}. Set it to 0.1, say.")
        for name in ("inner_steps", "max_iter"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        check_count("max_bytes", self.max_bytes)

    @transactional
    def fit(self, X, y):
        """Fit to rows X, shape (n_samples, n_features), dense or CSR, and labels y of two classes; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        X = stored_once(X)  # an entry stored in two parts would spoil ||x_i||^2 and its bounds
        terms = Terms.of(y, self.lam1, self.lam2)
        return self._fit_linear(X, y, terms) if self.kernel == "linear" else self._fit_kernel(X, y, terms)

    def _fit_linear(self, X, y, terms):
        bias = 1.0 if self.fit_intercept else 0.0
        columns = StoredColumns.of(X)
        rows, rng = columns.rows(X), as_generator(self.random_state)
        result = self._descend(rows, terms, bias, RowSpace(rows, bias), rng)
        if self.certify:
            exact = solve_linear(rows, terms, self.fit_intercept, BOUND_TOL, BOUND_PASSES, rng)
            result = self._with_bound(result, exact)
        return self._publish_linear(columns.widened(result), X, y)

    def _fit_kernel(self, X, y, terms):
        gaussian = self._gaussian(X, y)
        gram = GramMatrix(gaussian, gaussian.points_among_themselves(X))
        Z, pivots = pivoted_factor(gram, self.rank_tol, self.max_bytes)
        gram.span = RowSpace(Z, 0.0)
        result = self._descend(Z, terms, 0.0, gram, as_generator(self.random_state))
        if self.certify:
            result = self._with_bound(result, solve_kernel(X, terms, gaussian, BOUND_TOL, BOUND_PASSES, self.max_bytes))
        # sum_p beta_p phi(x_p) has the coordinates Z_p' beta, and Z_p is lower triangular
        beta = np.zeros(len(y))
        beta[pivots] = solve_triangular(Z[pivots], result.w, trans="T", lower=True)
        return self._publish_kernel(result, beta, Z @ result.w, X, y, gaussian)

    def scores_of_parts(self, X, y, parts):
        """Yield, for each part of the rows X, an index array, all rows' scores by F's minimiser on the part alone.

        For a fitted model and rows and labels of its kind. Scores are as with threshold="zero", from the exact linear
        solver in the coordinates that ``fit`` takes, with its gamma: a fraction of what fits cost. Rows that are in no
        part may be many: they cost no coordinates.
        """
        check_is_fitted(self)
        X, signs = validate_rows(self, X), np.where(y == self.classes_[1], 1.0, -1.0)
        rng, has_bias = as_generator(self.random_state), self.kernel == "linear" and self.fit_intercept
        parts = [np.arange(len(signs))[part] for part in parts]
        used = np.unique(np.concatenate(parts))
        others = np.setdiff1d(np.arange(len(signs)), used)
        if self.kernel == "linear":
            rows = X[used]
        else:
            gaussian = replace(self._kernel, constant=float(self.fit_intercept))
            points, far = gaussian.points(X[used]), gaussian.points(X[others])
            rows, pivots = pivoted_factor(GramMatrix(gaussian, points), self.rank_tol, self.max_bytes)
        for part in parts:
            if len(np.unique(signs[part])) < 2:
                raise ValueError(f"Expected rows of both classes in every part, got one class in {len(part)} rows.")
            terms = Terms.of(signs[part], self.lam1, self.lam2)
            found = solve_linear(rows[np.searchsorted(used, part)], terms, has_bias, PART_TOL, PART_PASSES, rng)
            scores = np.empty(len(signs))
            scores[used] = row_scores(rows, found.w) + found.bias
            if len(others) and self.kernel == "linear":
                scores[others] = row_scores(X[others], found.w) + found.bias
            elif len(others):
                beta = solve_triangular(rows[pivots], found.w, trans="T", lower=True)
                scores[others] = gaussian.expand(far, points.take(pivots), beta)
            yield scores

    def _descend(self, rows, terms, bias, space, rng):
        n, size = rows.shape[0], rows.shape[1] + int(bias)
        needed = (24 * size + 16 * n) * min(size, LARGEST_BASIS)
        if self.schedule == "source" and needed > self.max_bytes:
            raise ValueError(
                f"Expected a basis of directions, and rows in it, of at most max_bytes={self.max_bytes} bytes, got {n} "
                f"rows of {size} coordinates, which need {needed}. Reduce the features, under-sample, or raise it."
            )
        return zeroth_order_descent(
            rows,
            terms,
            bias,
            space,
            variance_reduction=self.variance_reduction,
            averaged=self.schedule == "averaged",
            mu=float(self.mu),
            inner_steps=n if self.inner_steps is None else int(self.inner_steps),
            tol=float(self.tol),
            max_iter=self._most_rounds(rows) if self.max_iter is None else int(self.max_iter),
            rng=rng,
        )

    def _most_rounds(self, rows):
        if self.schedule == "source":  # answers get no better
            return LEAST_READINGS
        return most_readings(rows)

    def _with_bound(self, result, exact):
        """Return the result with its gap to the exact solver's lower bound on min F, where that is the higher one."""
        bound = max(exact.objective - exact.dual_gap, result.objective - result.dual_gap)
        gap = max(result.objective - bound, 0.0)
        met = gap <= result.target
        gaps = np.append(result.history["dual_gap"][:-1], gap)  # the last point's is known better now
        history = result.history | {"dual_gap": gaps}
        return replace(result, dual_gap=gap, status=CONVERGED if met else MAX_ITER, history=history)


# Driver ----------------------------------------------------------------------------------------------------------


def zeroth_order_descent(
    rows, terms, bias, space, *, variance_reduction, averaged, mu, inner_steps, tol, max_iter, rng
):
    """Minimise F over w, the weight of the constant feature ``bias`` last if that is not 0; return a SolverResult.

    ``space``, a RowSpace or GramMatrix, tells the dual value. ``rng`` draws, each round, ``inner_steps`` rows with
    replacement and, unless averaged, what _Frame says.
    """
    walk = (_AlongAxes if averaged else _AlongDrawn)(rows, terms, bias, mu, variance_reduction, inner_steps, rng)
    certifier, t, last, mean = _Certifier(rows, terms, bias, space, tol), 0, 0, None
    for mark in _marks(max_iter):
        # 1. a few rounds at a time, of inner steps
        while t < mark:
            t += walk.go_on(t, mark - t)
        # 2. the answer of the rounds since the last mark, with its certificate
        alpha = np.minimum(terms.cost * (walk.slopes / (t - last)), terms.cost)
        mean, before = walk.answer(t - last), mean
        if t == max_iter or t * walk.entries_a_round >= CERTIFIED_FROM:
            answer = certifier.improved(mean, before) if averaged else certifier.point(mean)
            if certifier.certify(t * inner_steps, answer, alpha, 1 + (t - last) // ROUNDS_PER_PASS):
                break
        walk.slopes[:], last = 0.0, t
    return certifier.result(answer.w, t)


def _marks(max_iter):
    """Return the rounds after which to look at the certificate: max_iter, max_iter / sqrt(2), max_iter / 2, ..."""
    return sorted({max(1, int(max_iter / 2 ** (k / 2))) for k in range(2 * max_iter.bit_length())})


class _AlongAxes:
    """Rounds in which a row's directions are all axes, eta = 1/(2 + k), k = 0, 1, ... over all of them.

    ``slopes`` is the sum, over rounds, of the rows' v_i at its first w; ``entries_a_round`` counts entries of the rows.
    """

    def __init__(self, rows, terms, bias, mu, variance_reduction, inner_steps, rng):
        n, width = rows.shape
        gram = np.empty((0, 0))
        if variance_reduction and n <= min(MOST_FOLLOWED, FOLLOWED_A_COORDINATE * width) and not sparse.issparse(rows):
            signed = rows * terms.y[:, None]
            gram = signed @ signed.T + bias * bias * np.outer(terms.y, terms.y)
        settings = n * terms.mean, float(n * terms.cost[0]), mu, variance_reduction
        self.arguments = as_rows(rows), gram, terms.y, bias, *settings
        self.inner_steps, self.rng = inner_steps, rng
        stored = 1 + rows.nnz // n if sparse.issparse(rows) else width
        self.entries_a_round = (n + inner_steps) * stored
        self.most = max(1, LONGEST_CALL // self.entries_a_round)
        self.size = width + int(bias)
        # the constant feature has a weight in any case, 0 without a bias
        self.point, self.total, self.slopes = np.zeros(width + 1), np.zeros(width + 1), np.zeros(n)

    def go_on(self, t, most):
        """Make rounds t, t + 1, ..., at most ``most``; return how many."""
        order = self.rng.integers(len(self.slopes), size=(min(most, self.most), self.inner_steps), dtype=np.uint32)
        shift = 2.0 + t * self.inner_steps
        _axes_rounds(*self.arguments, shift, order, self.point, self.total, self.slopes)
        return len(order)

    def answer(self, rounds):
        """Return the mean of the w that the last ``rounds`` rounds ended with, and forget them."""
        mean = self.total[: self.size] / rounds
        self.total[:] = 0.0
        return mean


class _AlongDrawn:
    """Rounds in which a row has one direction, eta = 1/(2 + k), k = 0, 1, ... in each, or over all without reduction.

    ``slopes`` is the sum, over rounds, of the rows' v_i at its first w; ``entries_a_round`` counts what is read.
    """

    def __init__(self, rows, terms, bias, mu, variance_reduction, inner_steps, rng):
        n = len(terms.y)
        self.frame, self.inner_steps, self.rng = _Frame(rows, terms.y, bias, rng), inner_steps, rng
        self.settings, self.reduces = (n * terms.mean, float(n * terms.cost[0]), mu), variance_reduction
        self.entries_a_round = inner_steps * self.frame.count
        self.most = max(1, LONGEST_CALL // self.entries_a_round)
        self.slopes = np.zeros(n)

    def go_on(self, t, most):
        """Make rounds t, t + 1, ..., at most ``most`` and of one basis; return how many."""
        frame = self.frame
        chosen = frame.of_rounds(t, min(most, self.most))
        order = self.rng.integers(len(self.slopes), size=(len(chosen), self.inner_steps), dtype=np.uint32)
        shift = 2.0 + (0 if self.reduces else t * self.inner_steps)
        _drawn_rounds(
            frame.rows, frame.rest, *self.settings, self.reduces, shift, chosen, order, frame.point, self.slopes
        )
        return len(chosen)

    def answer(self, rounds):
        """Return the w that the last round ended with."""
        return self.frame.in_space(self.frame.point)


class _Frame:
    """An orthonormal basis of directions, and rows and w in its coordinates; in each round a row has one vector of it.

    A cycle of as many rounds as there are vectors begins with a fresh basis, from normal numbers of shape (d, vectors),
    and a permutation of the rows, which then, class by class, get the vectors in turn: of either class as many rows
    have one vector as have another.

    Each is uniform on the sphere, as is the source's; but where independent ones leave the mean of u_i u_i' at I/d plus
    noise, the sum over a cycle of d rounds is exactly I, and what is left is what w moves in between. And as u and -u
    make the same estimate, the basis may come from any factorisation of normal numbers, whatever its signs.

    Within a cycle w moves in the span of the basis B only: w = rest + B'a. In the coordinates a, w'u is an entry of a,
    a step along u changes one entry, and a margin is m_i = rest_i + R_i'a with R_i = y_i B x_i: one product a step.
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
            rest = self.y * (row_scores(self.data, outside[:width]) + self.bias * outside[-1])
        self.outside, self.rest = outside, rest

    def in_space(self, point):
        """Return the w of these coordinates."""
        return point @ self.basis + self.outside


def allowed_gap(objective, size, at_zero, tol):
    """Return what a gap may be at most for F to count as solved; ``size`` is the sum of its terms without signs."""
    return tol * min(max(at_zero, abs(objective)), max(RELATIVE * abs(objective), OF_TERMS * size))


class _Point(NamedTuple):
    """A w and the rows' margins there."""

    w: np.ndarray
    margins: np.ndarray


class _Certifier:
    """F at a point, its distance to the best dual value so far, and the trace of both."""

    def __init__(self, rows, terms, bias, space, tol):
        self.rows, self.terms, self.bias, self.space = rows, terms, bias, space
        self.tol, self.at_zero = tol, terms.cost.sum()  # F(0) = lam2
        self.trace, self.bound, self.objective, self.size = Trace(), -np.inf, None, None
        size = rows.shape[1] + int(bias)
        self.certify(0, _Point(np.zeros(size), np.zeros(len(terms.y))), np.zeros(len(terms.y)), 0)

    def point(self, w):
        """Return the _Point at w."""
        return _Point(w, self.terms.y * (row_scores(self.rows, w[: self.rows.shape[1]]) + self.bias * w[-1]))

    def certify(self, updates, point, alpha, passes):
        """Record F at a _Point, its gap to the best D so far and the training AUC; return whether the gap will do.

        D is taken at ``alpha`` after ``passes`` of dual coordinate ascent from there.
        """
        y, scores = self.terms.y, self.terms.y * point.margins
        self.objective = self._value(point)
        self.size = self.objective + 2.0 * max(0.0, float(self.terms.mean @ point.margins))
        if passes:
            alpha = self.space.ascend(self.terms, alpha, passes)
        self.bound = max(self.bound, float(alpha.sum() - 0.5 * self.space.square_norm(y * (self.terms.mean + alpha))))
        told = tied(scores, TIED_WITHIN * np.abs(scores).max())
        self.trace.add(updates, self.objective, self.gap, told[y > 0], told[y < 0])
        return self.is_met

    def improved(self, mean, before):
        """Return a _Point of less F than a mean over rounds: its best multiple, or on from the mean ``before``, if any.

        That is the least on the line through the best multiples of both: as their errors fall as one over the rounds so
        far, what is still to come is about in its direction. F along a line is known from the margins at two points.
        """
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # rows may have any scale
            best = self._best_multiple(mean)
            if before is None:
                return best
            other = self._best_multiple(before)
            step, rise = best.w - other.w, best.margins - other.margins
            along = best.w @ step - self.terms.mean @ rise
            t = least_along(best.margins, rise, self.terms.cost, along, step @ step)
            on = self.point(best.w + t * step)
            # means on one line through 0, as where the rows have one feature, leave of a step but rounding
            return on if self._value(on) < self._value(best) else best

    def _best_multiple(self, w):
        """Return the _Point at the multiple of w with the least F."""
        margins = self.point(w).margins
        best = least_multiple(margins, self.terms.cost, self.terms.mean @ margins, w @ w)
        # margins that overflow leave 0 as their best multiple
        return _Point(best * w, best * margins if best else np.zeros(len(margins)))

    def _value(self, point):
        return self.terms.value(point.w @ point.w, point.margins)

    @property
    def gap(self):
        return max(self.objective - self.bound, 0.0)  # below 0 by rounding only

    @property
    def target(self):
        """What the gap has to fall to, as far as the last point tells."""
        return allowed_gap(self.objective, self.size, self.at_zero, self.tol)

    @property
    def is_met(self):
        """Tell whether the gap will do."""
        return self.gap <= self.target and np.isfinite(self.objective)

    def result(self, w, n_iter):
        status = CONVERGED if self.is_met else MAX_ITER
        w, b = (w[:-1].copy(), float(w[-1])) if self.bias else (w, 0.0)
        found = w, b, self.objective, self.gap, n_iter, status, self.trace.as_history()
        # where the margin mean outweighs the hinge, F is far below 0, and tol a part of that
        unit = max(self.at_zero, abs(self.objective)) if np.isfinite(self.objective) else self.at_zero
        return SolverResult(*found, at_zero=unit, target=self.target)


class RowSpace:
    """The rows, with their constant feature, as the phi(x_i) of F."""

    def __init__(self, rows, bias):
        self.rows, self.bias, self.square_norms = rows, bias, squared_norms(rows) + bias * bias

    def square_norm(self, coefficients):
        """Return ||sum_i coefficients_i phi(x_i)||^2."""
        total = self.sum(coefficients)
        return total @ total

    def ascend(self, terms, alpha, passes):
        """Return what so many passes of dual coordinate ascent make of alpha."""
        alpha, w = alpha.copy(), self.sum(terms.y * (terms.mean + alpha))
        _ascend_rows(as_rows(self.rows), terms.y, self.bias, self.square_norms, terms.cost, passes, alpha, w)
        return alpha

    def sum(self, coefficients):
        """Return sum_i coefficients_i phi(x_i)."""
        return np.append(weighted_row_sum(self.rows, coefficients), self.bias * coefficients.sum())


class GramMatrix:
    """K_ij = k(x_i, x_j) + constant of s rows: kept where it is small, else computed when it is asked for.

    ``span`` is that of the rows' coordinates Z, of pivoted_factor, once these are known.
    """

    def __init__(self, gaussian, points):
        self.gaussian, self.points, self.size = gaussian, points, len(points.square_norms)
        self.kept = self.span = None
        if 8 * self.size**2 <= KEPT_BYTES:
            self.kept = gaussian.between(points, points)
            self.kept += gaussian.constant

    def diagonal(self):
        return self.gaussian.diagonal(self.points) + self.gaussian.constant

    def rows(self, chosen):
        if self.kept is not None:
            return self.kept[chosen]
        return self.gaussian.between(self.points.take(chosen), self.points) + self.gaussian.constant

    def square_norm(self, coefficients):
        """Return ||sum_i coefficients_i phi(x_i)||^2."""
        if self.kept is not None:
            return coefficients @ (self.kept @ coefficients)
        return coefficients @ self.gaussian.expand(self.points, self.points, coefficients)

    def ascend(self, terms, alpha, passes):
        """Return what so many passes of dual coordinate ascent make of alpha; where K is not kept, by Z Z' for K."""
        if self.kept is None:
            return self.span.ascend(terms, alpha, passes)
        alpha, scores = alpha.copy(), self.kept @ (terms.y * (terms.mean + alpha))
        _ascend_gram(self.kept, terms.y, terms.cost, passes, alpha, scores)
        return alpha


def pivoted_factor(gram, tol, max_bytes):
    """Return Z, shape (s, rank), and pivots so that K - Z Z' has a diagonal of at most ``tol``.

    Partial Cholesky factorisation: the next pivot is the row farthest from the span of those before it, whose squared
    distance is what is left of its diagonal. Z[pivots] is lower triangular. O(s^2 rank) by LAPACK where K is kept, else
    O(s rank^2) and rows of K for the candidates alone, AHEAD of them at a time, so that most of it is products of
    matrices: a pivot is then as far as any row, or at least NEARLY as far and in memory already. Where rows are much
    alike, few candidates are left after the first, and the next are fewer.
    """
    if gram.kept is not None:
        K = gram.kept.copy()
        np.fill_diagonal(K, gram.diagonal())  # but for rounding, which would choose among equal pivots
        upper, order, rank, _ = dpstrf(K.T, tol=tol, overwrite_a=True)
        _check_rank(rank, gram.size, max_bytes)
        Z = np.empty((gram.size, rank))
        Z[order - 1] = np.triu(upper[:rank]).T
        return Z, order[:rank] - 1
    residual, n = gram.diagonal(), gram.size
    most = min(n, _largest_rank(n, max_bytes))
    columns, pivots = np.empty((most, n)), np.empty(most, dtype=int)  # the system gives memory to those written only
    rank, many = 0, AHEAD
    while (farthest := residual.max()) > tol:
        ahead = np.argsort(-residual, kind="stable")[:many]
        ahead, before = ahead[residual[ahead] > max(tol, NEARLY * farthest)], rank
        rows = gram.rows(ahead) - columns[:rank, ahead].T @ columns[:rank]
        while True:
            q = residual[ahead].argmax()
            p = ahead[q]
            if residual[p] <= max(tol, NEARLY * residual.max()):
                break
            _check_rank(rank + 1, n, max_bytes)
            columns[rank] = (rows[q] - columns[before:rank, p] @ columns[before:rank]) / np.sqrt(residual[p])
            columns[rank, pivots[:rank]] = 0.0  # but for rounding
            residual -= columns[rank] ** 2
            residual[p] = 0.0
            pivots[rank] = p
            rank += 1
        many = min(AHEAD, 2 * (rank - before))
    return np.ascontiguousarray(columns[:rank].T), pivots[:rank].copy()


def _largest_rank(n, max_bytes):
    return max_bytes // (16 * n)


def _check_rank(rank, n, max_bytes):
    most = _largest_rank(n, max_bytes)
    if rank > most:
        raise ValueError(
            f"Expected coordinates of at most max_bytes={max_bytes} bytes, got {n} rows of more than {most} "
            "coordinates. Raise rank_tol or max_bytes, widen the kernel, or under-sample (GeometricUnderSampler)."
        )


# Kernels: all axes ---------------------------------------------------------------------------------------------------


@kernel(fastmath=REDUCE, error_model="numpy")
def _axes_rounds(rows, gram, y, bias, weight, lam2, mu, reduces, shift, order, w, total, slopes):
    """Make a round for each row of ``order``; move w, add to the sums of the w at their ends and of slopes v_i.

    ``weight`` is lam1 D_i. With reduction w = A p + B t, of which a step changes A and B, and p where q_i(w) is another
    than at the round's first w; without it t is 0. As p changes seldom, all rows' margins of it follow, if there is a
    ``gram``, y_i y_j (x_i'x_j + bias^2): a step then reads one number instead of a row.
    """
    n, d, follows = y.size, w.size - 1, gram.size > 0
    reach, pull = np.empty(n), np.zeros(d + 1)
    for i in range(n):
        # beyond it h is linear along every direction
        reach[i] = mu * math.sqrt(squared_norm(rows, i) + bias * bias)
        _add_signed(rows, i, y[i] * weight[i] / n, bias, pull)
    margins, ahead, towards, sides = np.empty(n), np.empty(n), np.zeros(n), np.zeros(n)
    p, target = np.empty(d + 1), np.zeros(d + 1)
    for r in range(order.shape[0]):
        if r == 0 or not follows:
            _set_margins(rows, y, bias, w, margins)
        for i in range(n):
            slopes[i] += _slope(margins[i], reach[i])
        if reduces and not _turn(rows, gram, y, bias, lam2 / n, margins, reach, sides, target, towards):
            copy_into(target, pull)
            for i in range(n):
                _add_quotients(rows, i, y[i], bias, margins[i], reach[i], mu, lam2 / n, target)
            _set_margins(rows, y, bias, target, towards)
        copy_into(p, w)
        if follows:
            copy_into(ahead, margins)
        A, B = 1.0, 0.0
        for k in range(order.shape[1]):
            i = order[r, k]
            margin = A * (ahead[i] if follows else y[i] * (dot(rows, i, p) + bias * p[d])) + B * towards[i]
            eta = 1.0 / (shift + k)
            A *= 1.0 - eta
            B += eta * (1.0 - B)
            side = _side(margin, reach[i])
            if not reduces:
                _add_signed(rows, i, eta / A * y[i] * weight[i], bias, p)
                _add_quotients(rows, i, y[i], bias, margin, reach[i], mu, eta / A * lam2, p)
            elif side == 0 or side != sides[i]:
                step = eta / A * lam2
                _add_quotients(rows, i, y[i], bias, margin, reach[i], mu, step, p)
                _add_quotients(rows, i, y[i], bias, margins[i], reach[i], mu, -step, p)
                if follows and side * sides[i] != 0.0:
                    add(gram, i, 0.5 * (sides[i] - side) * step, ahead)  # p has moved along y_i x_i
                elif follows:
                    _set_margins(rows, y, bias, p, ahead)
        for f in range(d + 1):
            w[f] = A * p[f] + B * target[f]
            total[f] += w[f]
        if follows:
            for i in range(n):
                margins[i] = A * ahead[i] + B * towards[i]
        shift += order.shape[1]


@kernel(fastmath=REDUCE)
def _turn(rows, gram, y, bias, weight, margins, reach, sides, target, towards):
    """Note on which side each margin is; with a gram, let target and its margins follow where all were and are on one.

    Return whether they do: else the target is to be made anew.
    """
    straight = gram.size > 0
    for i in range(np.uint32(y.size)):
        side = _side(margins[i], reach[i])
        if side != sides[i]:
            straight &= side * sides[i] != 0.0
            if straight:
                change = 0.5 * (sides[i] - side) * weight
                _add_signed(rows, i, change * y[i], bias, target)
                add(gram, i, change, towards)
            sides[i] = side
        straight &= side != 0
    return straight


@kernel(fastmath=REDUCE)
def _set_margins(rows, y, bias, w, margins):
    for i in range(np.uint32(y.size)):
        margins[i] = y[i] * (dot(rows, i, w) + bias * w[w.size - 1])


@kernel()
def _side(margin, reach):
    """Return 1 or -1 where the hinge is 0 or linear as far as ``reach``, 0 where its kink is within it."""
    return 1 if margin > 1.0 + reach else -1 if margin < 1.0 - reach else 0


@kernel(error_model="numpy")
def _slope(margin, reach):
    """Return v in [0, 1], by which the hinge falls per unit of margin from ``reach`` below to ``reach`` above."""
    side = _side(margin, reach)
    if side != 0 or reach == 0.0:
        return 1.0 if side < 0 else 0.0
    return min(max(_fall(margin, reach) / (2.0 * reach), 0.0), 1.0)


@kernel(fastmath=REDUCE)
def _add_signed(rows, i, step, bias, w):
    """w += step * x_i, with the constant feature."""
    add(rows, i, step, w)
    w[w.size - 1] += step * bias


@kernel(fastmath=REDUCE)
def _add_quotients(rows, i, sign, bias, margin, reach, mu, step, w):
    """w += step * q_i, the quotients (h(m - mu r) - h(m + mu r)) / (2 mu) for the change r of m along each axis."""
    side = _side(margin, reach)
    if side == 0:
        _add_bent(rows, i, sign, margin, mu, step / (2.0 * mu), w)
        w[w.size - 1] += step * _fall(margin, mu * sign * bias) / (2.0 * mu)
    elif side < 0:
        _add_signed(rows, i, step * sign, bias, w)


def _add_bent(rows, i, sign, margin, mu, step, w):
    """w_j += step * (h(m - mu r_j) - h(m + mu r_j)), r_j = sign * x_ij."""
    raise NotImplementedError("compiled code only")


@overload(_add_bent, jit_options={"nogil": True})
def _compile_add_bent(rows, i, sign, margin, mu, step, w):
    def dense(rows, i, sign, margin, mu, step, w):
        for f in range(rows.shape[1]):
            w[f] += step * _fall(margin, mu * sign * rows[i, f])

    def csr(rows, i, sign, margin, mu, step, w):
        data, indices, indptr = rows
        for k in range(indptr[i], indptr[i + np.uint32(1)]):
            w[indices[k]] += step * _fall(margin, mu * sign * data[k])

    return dense if isinstance(rows, types.Array) else csr


@kernel()
def _fall(margin, step):
    """Return h(m - step) - h(m + step) for the hinge h(m) = max(0, 1 - m)."""
    return max(0.0, 1.0 - margin + step) - max(0.0, 1.0 - margin - step)


# Kernels: dual coordinate ascent -------------------------------------------------------------------------------------


@kernel(fastmath=REDUCE)
def _ascend_rows(rows, y, bias, square_norms, cost, passes, alpha, w):
    """Put each alpha_i in turn where D is largest in it; w = sum_i y_i (a_i + alpha_i) x_i follows."""
    d = w.size - 1
    for _ in range(passes):
        for i in range(y.size):
            margin = y[i] * (dot(rows, i, w) + bias * w[d])
            change = _rise(margin, square_norms[i], cost[i], alpha[i])
            if change != 0.0:
                alpha[i] += change
                _add_signed(rows, i, change * y[i], bias, w)


@kernel(fastmath=REDUCE)
def _ascend_gram(gram, y, cost, passes, alpha, scores):
    """As _ascend_rows; the scores of the rows follow."""
    for _ in range(passes):
        for i in range(y.size):
            change = _rise(y[i] * scores[i], gram[i, i], cost[i], alpha[i])
            if change != 0.0:
                alpha[i] += change
                add(gram, i, change * y[i], scores)


@kernel()
def _rise(margin, square_norm, cost, alpha):
    """Return the change of alpha_i, within [0, U], that makes D largest."""
    if square_norm == 0.0:
        return cost - alpha
    return min(max(alpha + (1.0 - margin) / square_norm, 0.0), cost) - alpha


# Kernels: one direction a row ----------------------------------------------------------------------------------------


@kernel(fastmath=REDUCE)
def _drawn_rounds(R, rest, weight, lam2, mu, reduces, shift, chosen, order, point, slopes):
    """Make a round for each row of ``order``; move the point, add to the sums of slopes v_i."""
    n, m = R.shape
    base, drift = np.zeros(n), np.zeros(m)
    for t in range(order.shape[0]):
        _probe(R, rest, weight, lam2, mu, chosen[t], point, base, slopes)
        drift[:] = 0.0
        if reduces:
            for i in range(n):
                drift[chosen[t, i]] += base[i] / n
        else:
            base[:] = 0.0
        _descend(R, rest, weight, lam2, mu, chosen[t], base, drift, order[t], shift, point)
        if not reduces:
            shift += order.shape[1]


@kernel(fastmath=REDUCE, error_model="numpy")
def _probe(R, rest, weight, lam2, mu, chosen, point, base, slopes):
    """Put every row's c_i along its own vector into ``base``; add v_i to ``slopes``."""
    for i in range(rest.size):
        u = chosen[i]
        reach, margin = R[i, u], rest[i] + dot(R, i, point)
        base[i] = point[u] - weight[i] * reach - lam2 * _fall(margin, mu * reach) / (2.0 * mu)
        slopes[i] += _slope(margin, mu * abs(reach))


@kernel(fastmath=REDUCE)
def _descend(R, rest, weight, lam2, mu, chosen, base, drift, order, shift, point):
    """Make the inner steps a -= eta ((c_i(a) - base_i) e_u + drift), eta = 1 / (shift + k), in place.

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
        eta = 1.0 / (shift + k)
        point[u] -= eta * (change - base[i])
        drifted += eta
    for f in range(point.size):
        point[f] -= drifted * drift[f]
