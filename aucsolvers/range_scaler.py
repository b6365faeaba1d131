"""Columns brought to [0, 1], or sparse ones to [-1, 1], whatever units they are in."""

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from aucsolvers._base import validate_rows
from aucsolvers._rows import stored_once
from aucsolvers._transaction import transactional

CONSTANT = 10 * np.finfo(np.float64).eps  # scikit-learn's, of a range; here in units of the largest magnitude
LARGE = 2.0**960  # a smaller minimum, taken from any finite number, leaves a finite one


class RangeScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Turn x into (x - min) / (max - min) of its column; of sparse columns into x / max |x|, and 0 stays 0.

    As scikit-learn's MinMaxScaler does of dense columns and its MaxAbsScaler of sparse ones. These take a range below
    2.2e-15 for that of a constant, whatever the unit, and leave the column as small as it is: volts in place of
    femtovolts, and a model no longer saw it. Ranges above 1.8e308 overflow there, here they do not.

    A column is constant if its range is at most 10 eps of its largest magnitude. One of a single value becomes x - min,
    as in MinMaxScaler; of others, whose differences are rounding, (x - min) / max(1, max |x|).

    Attributes
    ----------
    unit_ : ndarray of shape (n_features,)
        What columns are multiplied by first: 1, or 1/2 where differences might overflow.
    offset_ : ndarray of shape (n_features,)
        What is subtracted then: the minimum in this unit; 0 of sparse columns.
    range_ : ndarray of shape (n_features,)
        What the difference is divided by.

    Notes
    -----
    Values beyond those of the training rows go beyond [0, 1]. In training rows the minimum becomes 0 and the maximum 1
    to the last bit.

    Examples
    --------
    >>> from scipy.sparse import csr_matrix
    >>> from aucsolvers import RangeScaler
    >>> RangeScaler().fit_transform([[-1e-20, 5.0], [0.0, 5.0], [3e-20, 5.0]])
    array([[0.  , 0.  ],
           [0.25, 0.  ],
           [1.  , 0.  ]])
    >>> RangeScaler().fit_transform(csr_matrix([[-1e-20, 0.0], [4e-20, 2.0]])).toarray()
    array([[-0.25,  0.  ],
           [ 1.  ,  1.  ]])
    """

    @transactional
    def fit(self, X, y=None):
        """Learn the ranges of X, shape (n_samples, n_features), dense or CSR; return self."""
        X = stored_once(validate_rows(self, X, reset=True, dtype=(np.float64,)))
        if sparse.issparse(X):
            low, high = np.zeros(X.shape[1]), np.zeros(X.shape[1])
            np.maximum.at(high, X.indices, np.abs(X.data))
        else:
            low, high = X.min(axis=0), X.max(axis=0)
        largest = np.maximum(np.abs(low), np.abs(high))
        self.unit_ = np.where(np.abs(low) > LARGE, 0.5, 1.0)
        self.offset_ = low * self.unit_
        between = high * self.unit_ - self.offset_
        of_constant = np.where(between > 0.0, np.maximum(largest, 1.0), 1.0) * self.unit_
        self.range_ = np.where(between <= CONSTANT * largest * self.unit_, of_constant, between)
        return self

    def transform(self, X):
        """Return the columns scaled, shape (n_samples, n_features), float64, dense or CSR as X is.

        Raises
        ------
        ValueError
            If X is sparse and its zeros do not stay zeros, for dense training rows had another minimum.
        """
        check_is_fitted(self, "range_")
        X = stored_once(validate_rows(self, X, dtype=(np.float64,)))
        if sparse.issparse(X):
            if self.offset_.any():
                raise ValueError("Expected dense rows, as in training, got sparse ones. Convert them with toarray().")
            X = X.copy()
            X.data /= self.range_[X.indices]
            return X
        if (self.unit_ != 1.0).any():
            X = X * self.unit_
        X = X - self.offset_
        X /= self.range_
        return X

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
