"""Columns of a data frame as models take them: float64 or texts, one spelling for each value, one word for a gap."""

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from aucsolvers._transaction import transactional

MISSING_TEXT = "(missing)"


def plain_columns(frame):
    """Return the frame with every column as float64 or, where it is no kind of number, as Python objects."""
    if not frame.columns.is_unique:
        name = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"Expected each column once, got {name!r} more than once. Leave one out or rename it.")
    return pd.DataFrame({name: plain_column(frame[name]) for name in frame})


def plain_column(column):
    """Return a pandas Series as a float64 array, or as an object array if its type is neither number nor time.

    Truth values become 0 and 1, times seconds since 1970-01-01 UTC, durations seconds, categories what they stand
    for, and whatever pandas calls missing NaN (None among objects).
    """
    dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return plain_column(column.astype(object if column.isna().any() else dtype.categories.dtype).infer_objects())
    if pd.api.types.is_bool_dtype(dtype) or pd.api.types.is_numeric_dtype(dtype):
        values = column.to_numpy(np.float64, na_value=np.nan) + 0.0  # + 0.0: -0.0 and 0.0 are one value
        values[np.isnan(values)] = np.nan  # and so is NaN, whatever its bits
        return values
    if isinstance(dtype, pd.ArrowDtype):  # times and texts: of these Arrow's own columns know less than others
        return plain_column(column.array.__arrow_array__().to_pandas())
    if pd.api.types.is_datetime64_any_dtype(dtype):
        moments = column.dt.tz_convert("UTC").dt.tz_localize(None) if getattr(dtype, "tz", None) else column
        return _seconds(moments - pd.Timestamp(0).as_unit(moments.dt.unit))
    if pd.api.types.is_timedelta64_dtype(dtype):
        return _seconds(column)
    return column.to_numpy(object, na_value=None)


def _seconds(durations):
    return durations.dt.total_seconds().to_numpy(np.float64)


def without_zeros(X):
    """Return a CSR matrix of what is not 0 in X, a frame of numbers or any matrix."""
    rows = csr_matrix(X, dtype=np.float64, copy=True)
    rows.eliminate_zeros()
    return rows


def as_texts(column):
    """Return a plain column whose values are texts or missing; ValueError if there is a number."""
    if column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty"):
        return column
    strange = [value for value in column[column.notna()] if not isinstance(value, str)]
    if strange:
        raise ValueError(
            f"Expected a text in column {column.name!r}, as in training, got the number {strange[0]}. "
            "Write the column as texts, spelt as in training."
        )
    return column.astype(object)


def as_numbers(column):
    """Return a plain column as finite float64; texts may be numbers or blank, ValueError if one is neither."""
    numbers = column if column.dtype == np.float64 else column.map(_number).astype(np.float64)
    strange = column[np.isinf(numbers)]
    if len(strange):
        raise ValueError(
            f"Expected a finite number in column {column.name!r}, as in training, got {str(strange.iloc[0])[:60]!r}. "
            "Mend it, or leave the cell empty if it is missing."
        )
    return numbers


def _number(value):
    """Return what the value says as a float: infinity if it is no number."""
    if isinstance(value, str):
        text = value.strip()
        value = None if not text else {"true": 1.0, "false": 0.0}.get(text.lower(), text)
    if pd.isna(value):
        return np.nan
    try:
        return float(value) if "_" not in str(value) else np.inf
    except (TypeError, ValueError, OverflowError):
        return np.inf


class TextImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Turn None, NaN, NA and blank texts into ``fill_value`` and strip all others.

    A frame read by pandas says NaN where our own reader says None; a served model must answer the same to both.

    Parameters
    ----------
    fill_value : str, default="(missing)"

    Examples
    --------
    >>> import numpy as np
    >>> from aucsolvers import TextImputer
    >>> TextImputer().fit_transform(np.array([["north "], [None], [np.nan], [" "]], dtype=object)).ravel().tolist()
    ['north', '(missing)', '(missing)', '(missing)']
    """

    def __init__(self, fill_value=MISSING_TEXT):
        self.fill_value = fill_value

    @transactional
    def fit(self, X, y=None):
        """Remember the columns, shape (n_samples, n_columns); return self."""
        self._validated(X, reset=True)
        return self

    def transform(self, X):
        """Return an object array of texts, shape (n_samples, n_columns)."""
        check_is_fitted(self)
        return np.column_stack([self._clean(column) for column in self._validated(X, reset=False).T])

    def _validated(self, X, reset):
        least = 1 if reset else 0  # no rows are no trouble
        return validate_data(self, X, dtype=object, ensure_all_finite=False, ensure_min_samples=least, reset=reset)

    def _clean(self, column):
        if pd.api.types.infer_dtype(column, skipna=True) == "string":  # as our own reader has them: each value once
            texts = column.tolist()
            cleaned = {
                text: (text.strip() if isinstance(text, str) else "") or self.fill_value
                for text in dict.fromkeys(texts)
            }
            return np.array([cleaned[text] for text in texts], dtype=object)
        # value by value: 1, 1.0 and True are one key, so a text would depend on the rows beside it
        missing = pd.isna(column)
        texts = [
            self.fill_value if gone else str(value).strip() or self.fill_value
            for value, gone in zip(column, missing, strict=True)
        ]
        return np.array(texts, dtype=object)
