"""Kernel features: a Gaussian or polynomial kernel in coordinates of its own, so that linear solvers work in its space.

With landmarks l_1 .. l_m among the training rows, L_ab = k(l_a, l_b), and l(x)_a = k(l_a, x), the coordinates

    phi(x) = L^(-1/2) l(x)        have        w'phi(x) = f(x) = sum_a beta_a k(l_a, x),    beta = L^(-1/2) w,
                                              ||w||^2 = beta'L beta = ||f||^2  in the kernel's space.

So a solver that minimises an objective of scores and of ||w|| over w minimises it over all f that the landmarks span,
and its certificate is one of that problem: exact, not approximate. What is approximate is the span, which the more
landmarks fill the better (Nystroem's method: phi(x)'phi(z) = l(x)'L^(-1)l(z) is k(x, z) where x or z is a landmark).
"""

import math

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.kernel_approximation import Nystroem
from sklearn.utils.validation import assert_all_finite, check_consistent_length, check_is_fitted, column_or_1d

from aucsolvers._base import validate_rows
from aucsolvers._params import (
    FormerNames,
    as_generator,
    check_choice,
    check_count,
    check_gamma,
    check_non_negative,
    check_positive,
)
from aucsolvers._rows import FULL, checked_rows, filled_up, row_scores, squared_norms
from aucsolvers._transaction import transactional
from aucsolvers.kernel_svm import GAMMAS, given_gamma, origin_of
from aucsolvers.process import one_thread_in_shared_pools

KERNELS = {"rbf": "rbf", "poly": "polynomial"}  # our name, and KernelSVM's: that of scikit-learn's function
BLOCK_ROWS = 21 * FULL  # transformed at a time: beside the features only these rows' kernel values take memory
SQUARES = 8  # matrices of n_components x n_components that the singular value decomposition takes, and what led to it


class KernelFeatures(FormerNames, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Features whose linear functions are the functions of a kernel that some training rows span (Nystroem's method).

    Any linear solver fitted to them solves, with the certificate it gives, its problem over the scores
    f(x) = sum_a beta_a k(l_a, x), regularised by ||f||^2 in the kernel's space; l_a are the landmarks.

    Parameters
    ----------
    kernel : {"rbf", "poly"}, default="rbf"
        k(x, z) = exp(-gamma ||x - z||^2), or (gamma x'z + coef0)^degree.
    gamma : "scale", "spread" or float, default="scale"
        > 0; KernelSVM's "scale", 1/(n_features * variance of all entries of X), or "spread", 1/(sum of the columns'
        variances), or 1 if that variance is 0.
    gamma_factor : float, default=1.0
        > 0; multiplies gamma. A search over it needs no knowledge of the data's scale.
    n_components : int, default=256
        Landmarks, hence features, >= 1; all rows if there are fewer.
    degree : int, default=3
        >= 1, of the polynomial kernel.
    coef0 : float, default=1.0
        >= 0, of the polynomial kernel: below, it would not be positive semidefinite.
    max_bytes : int, default=4 * 1024**3
        Refuse data whose features need more memory than this.
    random_state : int, Generator, RandomState or None, default=None
        Draws the landmarks.

    Attributes
    ----------
    landmarks_ : ndarray of shape (n_components_,)
        Row numbers of the landmarks in the X of fit, ascending.
    gamma_ : float
        The gamma in use, gamma_factor included.
    n_components_ : int
    nystroem_ : Nystroem
        scikit-learn's transformer, fitted to the landmarks.
    centre_ : ndarray of shape (n_features,) or None
        What rows are moved by before the Gaussian kernel, for the rounding of their distances; None for sparse rows as
        a rule, and for "poly".
    origin_ : ndarray of shape (n_components_,)
        The mean of the landmarks' features, which is subtracted: pairwise losses do not see it, univariate ones without
        a bias (UniExp) need it.

    Raises
    ------
    ValueError
        For invalid parameters, features of X whose squares overflow, or more than max_bytes.

    Notes
    -----
    With labels y, landmarks are drawn such that every class has the same chance, however few rows it has: in a plain
    draw of 256 rows, one class in a thousand would as a rule not appear at all.

    Fit costs O(m^2 d + m^3) for m landmarks, transform O(m d + m^2) a row, stored entries in place of d if X is CSR;
    features are dense, 8 m bytes a row. An interrupt waits for LAPACK's O(m^3): a fraction of a second for 256, some
    20 s for 3000. The same seed gives the same bits on the same machine and library versions, and a row has the same
    features whichever rows come with it: BLAS is kept to one thread.

    References
    ----------
    .. [1] Williams, Seeger, "Using the Nystroem Method to Speed Up Kernel Machines", NIPS 2000.

    Examples
    --------
    A ring around a disc, which no linear score can rank:

    >>> from sklearn.datasets import make_circles
    >>> from sklearn.pipeline import make_pipeline
    >>> from aucsolvers import SVMOR, KernelFeatures
    >>> X, y = make_circles(200, factor=0.4, noise=0.05, random_state=0)
    >>> model = make_pipeline(KernelFeatures(random_state=0), SVMOR(lam=1e-3)).fit(X, y)
    >>> model[-1].status_, round(float(model[-1].history_["auc"][-1]), 2)
    ('converged', 1.0)
    """

    def __init__(
        self,
        kernel="rbf",
        *,
        gamma="scale",
        gamma_factor=1.0,
        n_components=256,
        degree=3,
        coef0=1.0,
        max_bytes=4 * 1024**3,
        random_state=None,
    ):
        self.kernel = kernel
        self.gamma = gamma
        self.gamma_factor = gamma_factor
        self.n_components = n_components
        self.degree = degree
        self.coef0 = coef0
        self.max_bytes = max_bytes
        self.random_state = random_state

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_choice("kernel", self.kernel, tuple(KERNELS))
        check_gamma(self.gamma, tuple(GAMMAS))
        check_positive("gamma_factor", self.gamma_factor)
        check_count("n_components", self.n_components)
        check_count("degree", self.degree)
        check_non_negative("coef0", self.coef0)
        check_count("max_bytes", self.max_bytes)

    def check_size(self, n_fitted, n_rows):
        """Raise ValueError if a fit to n_fitted rows and the features of n_rows need more than max_bytes."""
        self._refuse_large(min(int(self.n_components), n_fitted), n_rows, SQUARES)

    def _refuse_large(self, columns, n_rows, squares):
        needed, most = 8 * columns * (n_rows + squares * columns), self.max_bytes // 8
        if needed > self.max_bytes:
            # the positive root of squares m^2 + n_rows m = most
            fitting = int(2 * most / (n_rows + math.sqrt(n_rows**2 + 4 * squares * most)))
            fit = ", what their fit takes included" if squares else ""
            fewer = "Fit to fewer rows" if squares else "Transform fewer rows at a time"
            less = f"Lower n_components to {fitting}" if fitting else fewer
            raise ValueError(
                f"Expected kernel features of at most max_bytes={self.max_bytes} bytes, got {n_rows} "
                f"rows x {columns} components of float64, which need {needed} bytes{fit}. {less}, or raise "
                "max_bytes if the memory is there."
            )

    @transactional
    def fit(self, X, y=None):
        """Draw the landmarks from X, shape (n_samples, n_features), dense or CSR, evenly over the classes y."""
        self.check_parameters()
        X = checked_rows(validate_rows(self, X, reset=True))
        self.check_size(X.shape[0], X.shape[0])
        self.n_components_ = min(int(self.n_components), X.shape[0])
        self.landmarks_ = _draw(X, y, self.n_components_, as_generator(self.random_state))
        self.gamma_ = float(self.gamma_factor) * given_gamma(self.gamma, X)
        landmarks = X[self.landmarks_]
        self.centre_ = origin_of(landmarks, self.gamma_) if self.kernel == "rbf" else None
        landmarks = self._moved(landmarks)
        self._refuse_overflow(landmarks)
        self.nystroem_ = Nystroem(
            kernel=KERNELS[self.kernel],
            gamma=self.gamma_,
            degree=int(self.degree),
            coef0=float(self.coef0),
            n_components=self.n_components_,
            random_state=0,  # only the order of the features is left to draw
        ).set_output(transform="default")
        self.nystroem_.fit(landmarks)
        self.origin_ = self.nystroem_.transform(landmarks).mean(axis=0)
        self._n_features_out = self.n_components_
        return self

    def transform(self, X):
        """Return the features, float64, shape (n_samples, n_components_)."""
        check_is_fitted(self)
        X = checked_rows(validate_rows(self, X))
        self._refuse_large(self.n_components_, X.shape[0], 0)
        features = np.empty((X.shape[0], self.n_components_))
        with one_thread_in_shared_pools():
            for start in range(0, X.shape[0], BLOCK_ROWS):
                block = slice(start, start + BLOCK_ROWS)
                rows = self._moved(X[block])
                features[block] = self.nystroem_.transform(filled_up(rows))[: rows.shape[0]] - self.origin_
        return features

    def are_landmarks(self, X):
        """Return which of the rows X are landmarks, or equal to one: a boolean array of shape (n_samples,)."""
        check_is_fitted(self)
        X = checked_rows(validate_rows(self, X))
        # equal rows have the same bits of a product with random numbers, and hardly others do
        probe, starts = np.random.default_rng(0).normal(size=X.shape[1]), range(0, X.shape[0], BLOCK_ROWS)
        landmarks = self.nystroem_.components_

        def as_landmarks_are(rows):  # sums of other terms have other bits
            if sparse.issparse(landmarks):
                return sparse.csr_array(rows)
            return rows.toarray() if sparse.issparse(rows) else rows

        keys = [row_scores(as_landmarks_are(self._moved(X[start : start + BLOCK_ROWS])), probe) for start in starts]
        return np.isin(np.concatenate(keys), row_scores(landmarks, probe))

    def _refuse_overflow(self, landmarks):
        """Raise ValueError if a power of the largest product is no number: of no use to an eigenvalue decomposition."""
        if self.kernel != "poly":
            return
        with np.errstate(over="ignore"):
            largest = (self.gamma_ * squared_norms(landmarks).max() + float(self.coef0)) ** int(self.degree)
        if not np.isfinite(largest * self.n_components_):
            raise ValueError(
                f"Expected powers of degree {self.degree} that are numbers, got rows whose products are too large. "
                "Scale them, or lower degree or gamma."
            )

    def _moved(self, X):
        """Return the rows of X in float64, less the centre and dense if there is one.

        In single precision the least eigenvalues of the landmarks' kernel would be rounding, which L^(-1/2) multiplies.
        """
        if self.centre_ is None:
            return X.astype(np.float64, copy=False)
        return (X.toarray() if sparse.issparse(X) else X) - self.centre_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _draw(X, y, count, generator):
    """Return the numbers of ``count`` rows, ascending, drawn such that the classes in y have the same chance.

    Of several columns y, for a solver behind that takes them, none is one of classes: rows have the same chance.
    """
    chances = None
    if y is not None:
        y = np.asarray(y)
        check_consistent_length(X, y)
    if y is not None and not (y.ndim == 2 and y.shape[1] > 1):
        y = column_or_1d(y)
        assert_all_finite(y, input_name="y")
        classes, codes, sizes = np.unique(y, return_inverse=True, return_counts=True)
        chances = 1.0 / (len(classes) * sizes[codes])
    return np.sort(generator.choice(X.shape[0], size=count, replace=False, p=chances))
