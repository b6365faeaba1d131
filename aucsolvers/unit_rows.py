"""Rows of unit norm, as the source of SPDAM brings its data to."""

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from aucsolvers._base import validate_rows
from aucsolvers._rows import squared_norms, stored_once
from aucsolvers._transaction import transactional

SMALL = 2.0**-960  # of squared norms: in smaller sums, squares may be that have lost digits


class UnitRows(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Divide each row by its Euclidean norm; a row of zeros stays one.

    Unlike that of scikit-learn's Normalizer, whose sums run in an order that depends on the matrix, a row's result does
    not depend on which rows come with it, to the last bit: a model served row by row answers as it did on the whole.

    Rows whose squares overflow, or lose digits where they are next to 0, are multiplied by a power of two first.

    References
    ----------
    .. [1] Natole, Ying, Lyu, "Stochastic AUC Optimization Algorithms With Linear Convergence", Frontiers in Applied
       Mathematics and Statistics, 2019: section 5.1.

    Examples
    --------
    >>> from aucsolvers import UnitRows
    >>> UnitRows().fit_transform([[3.0, 4.0], [0.0, 0.0]])
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    @transactional
    def fit(self, X, y=None):
        """Remember the columns; nothing is learnt."""
        validate_rows(self, X, reset=True)
        return self

    def transform(self, X):
        """Return X, shape (n_samples, n_features), dense or CSR, with rows of norm 1."""
        check_is_fitted(self, "n_features_in_")
        X, squares = _with_squared_norms(stored_once(validate_rows(self, X, dtype=(np.float64,))))
        norms = np.sqrt(squares)
        scale = 1.0 / np.where(norms > 0.0, norms, 1.0)
        if not sparse.issparse(X):
            return X * scale[:, None]
        X = X.copy()
        X.data *= np.repeat(scale, np.diff(X.indptr))
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _with_squared_norms(X):
    """Return X, dense or CSR, and its rows' squared norms; first bring rows near 1 whose own is too large or too small.

    A power of two changes no digit, so the other rows need none to be treated alike.
    """
    squares = squared_norms(X)
    strange = np.flatnonzero((squares < SMALL) | (squares == np.inf))
    largest = abs(X[strange]).max(axis=1) if len(strange) else np.zeros(0)
    largest = largest.toarray().ravel() if sparse.issparse(largest) else largest
    if not largest.any():
        return X, squares
    exponents = np.zeros(X.shape[0], dtype=np.intc)
    exponents[strange] = -np.frexp(largest)[1]
    X = X.copy()
    if sparse.issparse(X):
        X.data = np.ldexp(X.data, np.repeat(exponents, np.diff(X.indptr)))
    else:
        X[strange] = np.ldexp(X[strange], exponents[strange, None])
    return X, squared_norms(X)
