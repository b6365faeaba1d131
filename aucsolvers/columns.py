"""Columns of a data frame as models take them: float64 or texts, one spelling for each value, one word for a gap."""

import re
from datetime import date
from numbers import Number

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from aucsolvers._transaction import transactional
from aucsolvers.cells import as_categories

MISSING_TEXT = "(missing)"
NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|inf|infinity|nan)", re.IGNORECASE)
TRUTH = {"true": 1.0, "false": 0.0}
MOMENTS = ("datetime", "datetime64", "timedelta", "timedelta64")  # pandas' words for objects that are all of one kind

_DATE = re.compile(r"\d{4}-\d\d-\d\d.*")


def plain_columns(frame, categories=()):
    """Return the frame with every column as float64 or, where it is no kind of number, as Python objects.

    Those named in ``categories`` become texts, as `as_categories` has them.
    """
    if not frame.columns.is_unique:
        name = frame.columns[frame.columns.duplicated()][0]
        raise ValueError(f"Expected each column once, got {name!r} more than once. Leave one out or rename it.")
    columns = {name: as_categories(frame[name]) if name in categories else plain_column(frame[name]) for name in frame}
    # of objects, pandas would make what it likes unless it is told
    return pd.DataFrame({name: pd.Series(values, dtype=values.dtype) for name, values in columns.items()})


def plain_column(column):
    """Return a pandas Series as a float64 array, or as an object array if its type is neither number nor time.

    Truth values become 0 and 1, times seconds since 1970-01-01 UTC, durations seconds, categories what they stand
    for, and whatever pandas calls missing NaN (None among objects). Objects that are all times, or all durations, are a
    column of these: so a single row of a frame has them.
    """
    dtype = column.dtype
    if pd.api.types.is_object_dtype(dtype) and pd.api.types.infer_dtype(column, skipna=True) in MOMENTS:
        column = column.infer_objects()
        dtype = column.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return plain_column(column.astype(object if column.isna().any() else dtype.categories.dtype).infer_objects())
    is_real = pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype)
    if pd.api.types.is_bool_dtype(dtype) or is_real:
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


def as_texts(values):
    """Return a plain array as texts, and the first place that has neither a text nor a date.

    A number might be spelt in many ways, a date is spelt in one.
    """
    if values.dtype == object and pd.api.types.infer_dtype(values, skipna=True) in ("string", "empty"):
        return values, None
    texts = values.astype(object)
    for place in np.flatnonzero([isinstance(value, date) for value in texts]):
        texts[place] = str(texts[place])
    strange = [place for place in np.flatnonzero(~pd.isna(texts)) if not isinstance(texts[place], str)]
    return texts, int(strange[0]) if strange else None


def as_numbers(values):
    """Return a plain array as float64, and the first place that has no finite number; value by value if of objects."""
    numbers = values if values.dtype != object else np.array([_number(value) for value in values], dtype=np.float64)
    strange = np.flatnonzero(np.isinf(numbers))
    return numbers, int(strange[0]) if len(strange) else None


def _number(value):
    """Return what one cell says as a number, NaN if it is empty, infinity if it is a text or anything else."""
    text = "" if pd.api.types.is_scalar(value) and pd.isna(value) else str(value).strip().lower()
    if text in TRUTH or not text:
        return TRUTH.get(text, np.nan)
    number = float(text) if NUMBER.fullmatch(text) else np.inf
    return number if np.isfinite(number) else np.inf


def asked_for(kind, name, value):
    """Return what follows "expected" where a column of training has a value of another kind."""
    if kind == "category":
        return f"a number, a text or a truth value in column '{name}', got {str(value)[:60]}. Mend it."
    if kind == "text":
        got = f"the number {value}" if isinstance(value, Number) else f"{value!r}"[:60]
        return f"a text in column '{name}', as in training, got {got}. Write the column as texts, spelt as in training."
    text = str(value).strip()
    remedy = "Mend it"
    if _DATE.fullmatch(text):
        remedy = "Give times as seconds since 1970-01-01 UTC, or write Parquet"
    elif "," in text and NUMBER.fullmatch(text.replace(",", "")):
        remedy = "Write it as a plain number, as 1234.5"
    return (
        f"a finite number in column '{name}', as in training, got '{text[:60]}'. {remedy}, or leave the cell empty if "
        "it is missing."
    )


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
