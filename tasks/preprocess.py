"""Preprocessing: imputing, scaling and one-hot encoding as one transformer, fitted on training rows only."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, OneHotEncoder, StandardScaler

from aucsolvers import TextImputer
from tasks.configuration import PreprocessingConfig


def make_preprocessing(X: pd.DataFrame | csr_matrix, config: PreprocessingConfig) -> Any:
    """Return the unfitted transformer for these columns.

    Numbers are imputed and scaled. Texts are one-hot encoded, a missing text being a category of its own and
    the rare ones beyond ``max_categories`` sharing one column. Sparse data are scaled without centring,
    for centring would fill them.
    """
    if not isinstance(X, pd.DataFrame):
        return Pipeline([("scale", _sparse_scaler(config.scale))])
    text = [c for c in X.columns if not pd.api.types.is_numeric_dtype(X[c])]
    if not text:
        return _numeric_pipeline(config)
    numeric = [c for c in X.columns if c not in text]
    parts = [("text", _text_pipeline(config), text)]
    if numeric:
        parts.insert(0, ("numeric", _numeric_pipeline(config), numeric))
    return ColumnTransformer(parts)


def _numeric_pipeline(config: PreprocessingConfig) -> Pipeline:
    impute = SimpleImputer(strategy=config.impute, keep_empty_features=True)
    return Pipeline([("impute", impute), ("scale", _dense_scaler(config.scale))])


def _text_pipeline(config: PreprocessingConfig) -> Pipeline:
    encode = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=config.max_categories, sparse_output=False
    )
    return Pipeline([("impute", TextImputer()), ("encode", encode)])


def _dense_scaler(scale: str) -> Any:
    return {"standard": StandardScaler(), "minmax": MinMaxScaler(), "none": "passthrough"}[scale]


def _sparse_scaler(scale: str) -> Any:
    return {"standard": StandardScaler(with_mean=False), "minmax": MaxAbsScaler(), "none": "passthrough"}[scale]


def transform(preprocessing: Any, X: pd.DataFrame | csr_matrix) -> np.ndarray | csr_matrix:
    """Return what the solvers take: float64, C-ordered or CSR.

    Raises
    ------
    ValueError
        If scaling overflowed: a column's values are finite, but their squares are not.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        out = preprocessing.transform(X)
    if not isinstance(out, (pd.DataFrame, np.ndarray)):
        return out
    out = np.ascontiguousarray(out, dtype=np.float64)
    finite = np.isfinite(out).all(axis=0)
    if not finite.all():
        name = preprocessing.get_feature_names_out()[np.argmin(finite)]
        raise ValueError(f"Expected numbers that can be scaled, got some too large in column '{name}'. Divide them.")
    return out
