"""Margin-mean SVM, linear or Gaussian, solved exactly: estimators, drivers, kernels.

With s rows, of which n+ are positive and n- negative, margins m_i = y_i f(x_i) and f(x) = w'phi(x) + b, b being the
weight of a constant feature and part of w below, the objective of Lu et al. (2019, eq. 5) is

    F(w) = 1/2 ||w||^2 - (lam1/s) sum_i D_i m_i + (lam2/s) sum_i max(0, 1 - m_i)

where D_i = n-/n+ for a positive and n+/n- for a negative row.

The margin mean is linear in w: with a_i = lam1 D_i / s, U = lam2 / s and w0 = sum_i a_i y_i phi(x_i),

    F(w) = 1/2 ||w||^2 - w0'w + U sum_i max(0, 1 - m_i).

Dualise the hinge with 0 <= alpha_i <= U: the Lagrangian 1/2 ||w||^2 - w0'w + sum_i alpha_i (1 - m_i) is least at

    w(alpha) = w0 + sum_i alpha_i y_i phi(x_i),    where it is    D(alpha) = sum_i alpha_i - 1/2 ||w(alpha)||^2,

the dual of a hinge SVM (Hsieh et al. 2008, eq. 4) whose w starts at w0 instead of 0: what ``aucsolvers.svm`` calls a
linear term. With a balanced hinge U differs by class, as it does there with class weights. For a kernel,
``aucsolvers.kernel_svm`` has the term as the offset f0(x) = w0'phi(x): over f = f0 + h, its objective 1/2 ||h||^2 +
U sum_i max(0, 1 - y_i f(x_i)) is F + 1/2 ||w0||^2. So those two modules solve it.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from aucsolvers._base import BinaryScorer, validate_rows
from aucsolvers._params import (
    as_generator,
    check_choice,
    check_count,
    check_flags,
    check_gamma,
    check_non_negative,
    check_positive,
)
from aucsolvers._rows import row_scores, squared_norms, weighted_row_sum
from aucsolvers._transaction import transactional
from aucsolvers.kernel_svm import GAMMAS, Kernel, KernelSVM, check_cache, solve_kernel_svm
from aucsolvers.metrics import best_gmean_threshold, tie_width
from aucsolvers.svm import solve_linear_svm

KERNELS = ("linear", "rbf")
THRESHOLDS = ("gmean", "zero")
HINGE_WEIGHTS = ("equal", "balanced")
ALIKE = 1e-6  # of their size: scores that all lie so near to each other are one, unless a certificate tells them apart


# Estimators ------------------------------------------------------------------------------------------------------


class MarginMeanScorer(BinaryScorer):
    """What the solvers of F share: the checks of its parameters, the kernel, the fitted attributes, the scores.

    Subclasses have the parameters lam1, lam2, kernel, gamma, fit_intercept, threshold and tol.
    """

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_non_negative("tol", self.tol)
        check_non_negative("lam1", self.lam1)
        check_positive("lam2", self.lam2)
        check_choice("kernel", self.kernel, KERNELS)
        check_gamma(self.gamma, (*GAMMAS, "loo"))
        check_choice("threshold", self.threshold, THRESHOLDS)
        check_flags(self, "fit_intercept")

    def _gaussian(self, X, y):
        """Return the kernel for training rows X and labels y = +-1: KernelSVM's."""
        return Kernel.of(KernelSVM(gamma=self.gamma, fit_intercept=self.fit_intercept), X, y)

    def _publish_linear(self, result, X, y):
        """Set the fitted attributes of a linear model from a driver's result; warn if it did not converge."""
        self._forget()
        self.coef_ = result.w.reshape(1, -1)
        reach = 2.0 * np.sqrt(squared_norms(X).max())
        cut = self._cut(y, row_scores(X, result.w) + result.bias, reach, result)
        self.intercept_ = np.array([result.bias - cut])
        self._publish_certificate(result)
        return self

    def _publish_kernel(self, result, beta, scores, X, y, kernel):
        """Set the fitted attributes of f = sum_i beta_i (k(x_i, .) + constant), whose training scores are known."""
        self._forget()
        self._kernel, self.gamma_ = replace(kernel, constant=0.0), kernel.gamma  # intercept_ has the constant
        self.support_ = np.flatnonzero(beta)
        self.support_vectors_ = X[self.support_]
        self.dual_coef_ = beta[self.support_].reshape(1, -1)
        cut = self._cut(y, scores, np.sqrt(2.0), result)
        self.intercept_ = np.array([kernel.constant * beta.sum() - cut])
        self._publish_certificate(result)
        return self

    def _cut(self, y, scores, reach, result):
        """Return the threshold on training scores, those of a driver's result; ``reach`` bounds ||phi(x) - phi(z)||."""
        # scores that overflowed, with features or parameters of extreme scales, have none; the status says diverged
        if self.threshold == "zero" or not np.isfinite(scores).all():
            self.found_nothing_ = False
            return 0.0
        unit, size = tie_width(scores), ALIKE * np.median(np.abs(scores))
        # F(w) - F* <= gap puts w within sqrt(2 gap) of the optimum; without a gap only the scores' size tells
        gap = np.maximum(result.dual_gap, np.finfo(float).eps * abs(result.objective))
        is_nothing = np.ptp(scores) <= max(unit, np.fmin(size, reach * np.sqrt(2.0 * gap)))
        self._tell_of_nothing(is_nothing, "raise lam1")
        unit = max(unit, size) if is_nothing else unit
        return best_gmean_threshold(y, scores, tied_within=unit)

    def _forget(self):
        """Drop what a fit with the other kernel may have left."""
        for name in ("coef_", "gamma_", "support_", "support_vectors_", "dual_coef_"):
            vars(self).pop(name, None)

    def decision_function(self, X):
        """Return the scores, shape (n_samples,): positive means ``classes_[1]``."""
        check_is_fitted(self)
        X = validate_rows(self, X)
        if hasattr(self, "coef_"):
            return row_scores(X, self.coef_.ravel()) + self.intercept_[0]
        return self._kernel.scores(X, self.support_vectors_, self.dual_coef_.ravel()) + self.intercept_[0]


class MarginMeanSVM(MarginMeanScorer):
    """Margin-mean SVM, linear or Gaussian: the exact minimiser, by dual coordinate descent with a duality gap.

    Minimises, over s rows with margins m_i = y_i (w'phi(x_i) + b),

        F(w, b) = 1/2 (||w||^2 + b^2) - (lam1/s) sum_i D_i m_i + (lam2/s) sum_i c_i max(0, 1 - m_i),

    D_i = n_neg/n_pos for a positive and n_pos/n_neg for a negative row, phi(x) = x or that of the Gaussian kernel. In
    the source c_i is 1.

    Parameters
    ----------
    lam1 : float, default=1.0
        Weight of the class-weighted margin mean, >= 0. With 0 this is the hinge SVM with C_i = lam2 c_i / s.
    lam2 : float, default=1000.0
        Weight of the mean hinge loss, > 0.
    kernel : {"linear", "rbf"}, default="linear"
        k(x, z) = x'z or exp(-gamma ||x - z||^2).
    gamma : "loo", "scale", "spread" or float, default="loo"
        > 0, for "rbf"; 1/sigma^2 for the source's sigma. "scale" is 1/(n_features * variance of all entries of X),
        "spread" 1/(sum of the columns' variances), which moving a column does not change; either is 1 if that variance
        is 0. "loo" is 1/16, 1/8, ..., 4 times "spread": the smallest with which a least-squares SVM, both classes of
        equal weight, has a mean square error on rows that are left out within two standard errors of the least. That
        takes one inverse for each and no further fit: some milliseconds, as of more than 150 rows 150 that differ are
        taken, of the rare class all or, if it has more, 75. Their order does not matter.
    fit_intercept : bool, default=True
        Whether b is fitted, as the weight of a constant feature, which the margin mean pulls at as well; otherwise 0.
    threshold : {"gmean", "zero"}, default="gmean"
        Where ``predict`` cuts the scores: at the largest G-mean on the training rows, or at 0. F weights the classes in
        the margin mean only, so that at 0 all rows may be negative: misclassifying a rare class may cost least.
        Best of six (lam1, lam2), mean test G-mean in 5-fold cross-validation over 15 KEEL sets of ratio 2 to 86: 0.84
        against 0.67 (linear), 0.90 against 0.69 (Gaussian). GMeanThreshold cuts by rows left out, and better where a
        class has few rows or a sampler dropped some.
    hinge_weight : {"equal", "balanced"}, default="equal"
        c_i: 1, or s / (2 n_class), with which the hinge losses of both classes weigh the same. Where classes overlap,
        equal weights give up the rare class, and rank it badly: with the Gaussian kernel, on 21 development
        sets with 30 to 70 positive rows, both searched instead of "equal" alone took the mean test AUC from 0.909 to
        0.915, on the noisiest of them, German credit, from 0.71 to 0.80.
    tol : float, default=1e-9
        Stop when duality gap <= tol * F(0), where F(0) = lam2, as LinearSVM. With the defaults the gap is at most 1e-6.
    max_iter : int, default=100_000
        "linear": most passes over the rows and Newton steps together; late passes are short, as rows are left out that
        rest at a bound. "rbf": most steps, in units of s.
    cache_bytes : int, default=512 * 1024**2
        For kernel columns of "rbf", as KernelSVM.
    random_state : None, int, RandomState or Generator, default=None
        Draws the order of visits; "rbf" draws nothing.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features)
        w, for "linear".
    support_, support_vectors_, dual_coef_ : ndarray (n_support,), ndarray or CSR, ndarray (1, n_support)
        For "rbf": the rows i, x_i and the weights beta_i of w = sum_i beta_i phi(x_i). With lam1 > 0 that is all rows.
    gamma_ : float
        For "rbf": the gamma in use.
    intercept_ : ndarray of shape (1,)
        b minus the threshold.
    classes_ : ndarray of shape (2,)
        ``classes_[1]`` is the positive class.
    objective_ : float
        F at the solution.
    dual_gap_ : float
        F - D(alpha) >= F - min F: the certificate, with D(alpha) = sum_i alpha_i - 1/2 ||w(alpha)||^2, the dual value
        at 0 <= alpha_i <= lam2/s and w(alpha) = sum_i (lam1 D_i/s + alpha_i) y_i phi(x_i).
    gap_unit_ : float
        F(0) = lam2, or 1 where that is less: in units of it, gaps of different data compare.
    n_iter_ : int
        Passes and Newton steps made; for "rbf", steps made, in units of s, rounded up.
    status_ : {"converged", "max_iter", "diverged"}
        "diverged" where objective_ overflowed.
    found_nothing_ : bool
        Whether all training scores are the same as far as the certificate tells, the optimum then being w = 0: the
        ranking is arbitrary. A loose tol may not show it; with threshold "zero" it is not looked at, and False.
    history_ : dict of ndarrays
        ``updates`` (rows visited; steps of "rbf"), ``objective``, ``dual_gap``, ``auc`` (training rows), ``time_s``,
        each time that the certificate was computed: at w0 and as LinearSVM or KernelSVM do.

    Raises
    ------
    ValueError
        On parameters or data for which F is not defined, or a cache for less than two columns.

    Warns
    -----
    ConvergenceWarning
        If ``max_iter`` passes did not bring the gap under ``tol``: usually a large lam2, or features on very different
        scales.
    UserWarning
        If ``found_nothing_``.

    Notes
    -----
    Where a class is rare and lam1 small, it may cost less to misclassify that class altogether than to separate it, as
    for any unweighted SVM: w is then 0 up to rounding, a ranking by such scores is noise, of which a warning tells, and
    all rows are negative. A larger lam1 pulls w away from 0.

    "linear" is solved as LinearSVM's problem is, "rbf" as KernelSVM's: see there for cost, memory and the methods'
    sources. "rbf" takes two evaluations of all kernel values more, O(s^2 d), for w0 at the rows and the scores of a row
    are O(s d), as w0 has all rows in it. The same integer ``random_state`` gives the same bits on the same machine and
    library versions; dense and sparse rows the same solution up to rounding.

    References
    ----------
    Lu, Zhang, Cai (2019). Zeroth order optimization algorithm based on undersampling. J. Nanjing Univ. of Aeronautics &
    Astronautics 51(5). Eq. 5 (F), 9 (kernel), 11 (F in a kernel's span).
    Hsieh, Chang, Lin, Keerthi, Sundararajan (2008). A dual coordinate descent method for large-scale linear SVM. ICML.

    Examples
    --------
    Two points at x = 1 and x = -1, lam1 = lam2 = 1: F = w^2/2 - w + max(0, 1 - w) is least at w = 1, where it is -1/2.

    >>> from aucsolvers import MarginMeanSVM
    >>> svm = MarginMeanSVM(1.0, 1.0, fit_intercept=False, random_state=0).fit([[1.0], [-1.0]], [1, 0])
    >>> svm.coef_, svm.status_, svm.objective_
    (array([[1.]]), 'converged', -0.5)
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
        hinge_weight="equal",
        tol=1e-9,
        max_iter=100_000,
        cache_bytes=512 * 1024**2,
        random_state=None,
    ):
        self.lam1 = lam1
        self.lam2 = lam2
        self.kernel = kernel
        self.gamma = gamma
        self.fit_intercept = fit_intercept
        self.threshold = threshold
        self.hinge_weight = hinge_weight
        self.tol = tol
        self.max_iter = max_iter
        self.cache_bytes = cache_bytes
        self.random_state = random_state

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        super().check_parameters()
        check_choice("hinge_weight", self.hinge_weight, HINGE_WEIGHTS)
        check_count("max_iter", self.max_iter)
        check_count("cache_bytes", self.cache_bytes)

    @transactional
    def fit(self, X, y):
        """Fit to rows X, shape (n_samples, n_features), dense or CSR, and labels y of two classes; return self."""
        self.check_parameters()
        X, y = self._validate_fit(X, y)
        terms = Terms.of(y, self.lam1, self.lam2, self.hinge_weight)
        rng = as_generator(self.random_state)
        if self.kernel == "linear":
            result = solve_linear(X, terms, self.fit_intercept, float(self.tol), int(self.max_iter), rng)
            return self._publish_linear(result, X, y)
        kernel = self._gaussian(X, y)
        result = solve_kernel(X, terms, kernel, float(self.tol), int(self.max_iter), int(self.cache_bytes))
        return self._publish_kernel(result, result.beta, result.scores, X, y, kernel)


# The objective ---------------------------------------------------------------------------------------------------


class Terms(NamedTuple):
    """F as a function of ||w||^2 and the margins, and its dual."""

    y: np.ndarray
    mean: np.ndarray  # a_i = lam1 D_i / s
    cost: np.ndarray  # U_i = lam2 c_i / s

    @classmethod
    def of(cls, y, lam1, lam2, hinge_weight="equal"):
        """Return the terms for labels y = +-1, of which both occur."""
        n, n_pos, lam1, lam2 = len(y), np.count_nonzero(y > 0), float(lam1), float(lam2)
        ratio = (n - n_pos) / n_pos
        cost = np.full(n, lam2 / n)
        if hinge_weight == "balanced":
            cost = np.where(y > 0, lam2 / (2.0 * n_pos), lam2 / (2.0 * (n - n_pos)))
        return cls(y, np.where(y > 0, lam1 * ratio / n, lam1 / ratio / n), cost)

    def value(self, square_norm, margins):
        """Return F."""
        return float(0.5 * square_norm - self.mean @ margins + self.cost @ np.maximum(1.0 - margins, 0.0))


# Drivers ---------------------------------------------------------------------------------------------------------


def solve_linear(X, terms, fit_intercept, tol, max_iter, rng):
    """Minimise F over linear f; return the SolverResult of ``solve_linear_svm``. X is C-ordered or CSR."""
    signed, bias = terms.y * terms.mean, 1.0 if fit_intercept else 0.0
    start = np.append(weighted_row_sum(X, signed), bias * signed.sum())
    options = {"fit_intercept": fit_intercept, "tol": tol, "relative": False, "max_iter": max_iter, "rng": rng}
    return solve_linear_svm(X, terms.y, terms.cost, squared=False, linear_term=start, **options)


def solve_kernel(X, terms, kernel, tol, max_iter, cache_bytes):
    """Minimise F over f = sum_i beta_i (k(x_i, .) + constant); return a KernelResult, n_iter in units of s steps.

    At most ``max_iter`` times s steps are made. Nothing is drawn.
    """
    points, start, n = kernel.points_among_themselves(X), terms.y * terms.mean, len(terms.y)
    check_cache(n, cache_bytes)  # before the offset, which takes O(n^2 d)
    offset = kernel.expand(points, points, start)
    options = {"tol": tol, "relative": False, "max_iter": max_iter * n, "cache_bytes": cache_bytes}
    result = solve_kernel_svm(X, terms.y, terms.cost, kernel, squared=False, offset=offset, **options)
    excess = 0.5 * float(start @ offset)  # 1/2 ||w0||^2
    history = result.history | {"objective": result.history["objective"] - excess}
    return result._replace(
        beta=start + result.beta, objective=result.objective - excess, n_iter=-(-result.n_iter // n), history=history
    )
