"""Text columns as the encoder wants them: one spelling for each value, one word for every missing one."""

import numpy as np
import pandas as pd
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

MISSING_TEXT = "(missing)"


class TextImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Turn None, NaN, NA and blank texts into ``fill_value`` and strip all others.

    A frame read by pandas says NaN where our own reader says None; a served model must answer the same to both.

    Parameters
    ----------
    fill_value : str, default="(missing)"

    Examples
    --------
    >>> import numpy as np
    >>> TextImputer().fit_transform(np.array([["north "], [None], [np.nan], [" "]], dtype=object)).ravel().tolist()
    ['north', '(missing)', '(missing)', '(missing)']
    """

    def __init__(self, fill_value=MISSING_TEXT):
        self.fill_value = fill_value

    def fit(self, X, y=None):
        """Remember the columns, shape (n_samples, n_columns); return self."""
        self.n_features_in_ = X.shape[1]
        if isinstance(X, pd.DataFrame):
            self.feature_names_in_ = np.array(X.columns, dtype=object)
        return self

    def transform(self, X):
        """Return an object array of texts, shape (n_samples, n_columns)."""
        check_is_fitted(self)
        return np.column_stack([self._clean(column) for column in np.asarray(X, dtype=object).T])

    def _clean(self, column):
        # value by value: factorising takes 1, 1.0 and True for one value, so a text would depend on the rows beside it
        missing = pd.isna(column)
        texts = [
            self.fill_value if gone else str(value).strip() or self.fill_value
            for value, gone in zip(column, missing, strict=True)
        ]
        return np.array(texts, dtype=object)
