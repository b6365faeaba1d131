"""Preprocessing: imputing, scaling and one-hot encoding as one transformer, fitted on training rows only."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import (
    FunctionTransformer,
    OneHotEncoder,
    QuantileTransformer,
    StandardScaler,
)

from aucsolvers import RangeScaler, SignedRanks, TextImputer, UnitRows
from aucsolvers.columns import MISSING_TEXT, without_zeros
from aucsolvers.hats import HatFunctions
from tasks.configuration import DENSE_ONLY, PreprocessingConfig
from tasks.convert import feature_name

UNIT_ROWS = ("unit_rows", "centred_unit_rows")  # the row normalisations of Natole et al. 2019
QUANTILES = 1000
DENSE_BYTES = 2**25  # of rows with one-hot columns: beyond it solvers that read what is not 0 are many times faster
QUANTILE_BYTES = 2**31  # of sparse rows' columns, each of which has as many as a dense one
FILLED_BYTES = 2**30  # of sparse rows as an array: beyond it they stay, and a solver that takes none says so
MANY_COLUMNS, FEW_VALUES = 1024, 0.05  # of a table of numbers; no more than this part of its entries is not 0
CENTRED = (*DENSE_ONLY, "centred_unit_rows")  # scales that leave no zeros
SPARSE_SHARE = 0.2  # of entries that are not 0: beyond it, a sparse matrix saves too little to be worth its detours


def make_preprocessing(X: pd.DataFrame | csr_matrix, config: PreprocessingConfig, takes_sparse: bool = True) -> Any:
    """Return the unfitted transformer for these columns; ``takes_sparse`` says whether what comes after does.

    Numbers are imputed and scaled. Texts are one-hot encoded, a missing text being a category of its own and
    the rare ones beyond ``max_categories`` sharing one column; of many rows and texts the outcome is a CSR matrix.
    So it is of a wide table of numbers that are mostly zeros, which is then scaled as sparse data are.
    Sparse data are scaled without centring, for centring would fill them, and are an array afterwards where what comes
    after takes no other and they are not too large. Rows brought to unit norm are so with all
    their columns.
    """
    if not isinstance(X, pd.DataFrame):
        steps = _sparse_steps(X, config, takes_sparse)
    else:
        steps = _table_steps(X, config, takes_sparse)
    if config.scale in UNIT_ROWS:
        steps.append(("unit rows", UnitRows()))
    return Pipeline(steps)


def _table_steps(X: pd.DataFrame, config: PreprocessingConfig, takes_sparse: bool) -> list[tuple[str, Any]]:
    text = [name for name, dtype in X.dtypes.items() if not pd.api.types.is_numeric_dtype(dtype)]
    impute = ("impute", SimpleImputer(strategy=config.impute, keep_empty_features=True))
    if not text and takes_sparse and config.scales[0] not in CENTRED and _are_mostly_zeros(X):
        zeros, rows = (FunctionTransformer(without_zeros, feature_names_out="one-to-one") for _ in range(2))
        scaler = _sparse_scaler(config.scales[0], X.shape[1])
        return [("zeros", zeros), impute, ("rows", rows), ("scale", scaler)]  # imputing makes columns of them
    numeric_steps = [impute, ("scale", _dense_scaler(config.scales[0], len(X)))]
    if not text:
        return numeric_steps
    is_sparse = takes_sparse and _pays_as_sparse(X, text, config)
    parts = [("text", _text_pipeline(config, is_sparse), text)]
    if len(text) < X.shape[1]:
        parts.insert(0, ("numeric", Pipeline(numeric_steps), [c for c in X.columns if c not in text]))
    return [("columns", ColumnTransformer(parts, sparse_threshold=float(is_sparse)))]


def _sparse_steps(X: csr_matrix, config: PreprocessingConfig, takes_sparse: bool) -> list[tuple[str, Any]]:
    scaler = _sparse_scaler(config.scales[0], X.shape[1])
    if takes_sparse or 8 * X.shape[0] * X.shape[1] > FILLED_BYTES:
        return [("scale", scaler)]
    return [("columns", ColumnTransformer([("scale", scaler, slice(0, X.shape[1]))], sparse_threshold=0.0))]


def _are_mostly_zeros(X: pd.DataFrame) -> bool:
    """Return whether numbers are those of sparse data: words, hashed features, attributes that a row leaves out."""
    return X.shape[1] > MANY_COLUMNS and np.count_nonzero(X.to_numpy()) <= FEW_VALUES * X.size


def _pays_as_sparse(X: pd.DataFrame, text: list[str], config: PreprocessingConfig) -> bool:
    """Return whether the rows with their one-hot columns would be large, and mostly zeros."""
    numeric = X.shape[1] - len(text)
    width = numeric + sum(min(X[c].nunique(dropna=False), config.max_categories) for c in text)
    return 8 * len(X) * width > DENSE_BYTES and X.shape[1] < SPARSE_SHARE * width


def _text_pipeline(config: PreprocessingConfig, is_sparse: bool) -> Pipeline:
    encode = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=config.max_categories, sparse_output=is_sparse
    )
    return Pipeline([("impute", TextImputer()), ("encode", encode)])


def one_hot_blocks(preprocessing: Pipeline) -> tuple[tuple[int, int], ...]:
    """Return where a fitted preprocessing puts the columns of each text, as (start, stop); without texts none."""
    columns = preprocessing.named_steps.get("columns")
    if "text" not in getattr(columns, "named_transformers_", {}):
        return ()
    encoder = columns.named_transformers_["text"].named_steps["encode"]
    widths = [
        len(texts) if rare is None else len(texts) - len(rare) + 1
        for texts, rare in zip(encoder.categories_, encoder.infrequent_categories_, strict=True)
    ]
    stops = np.cumsum(widths) + columns.output_indices_["text"].start
    return tuple((int(stop) - width, int(stop)) for width, stop in zip(widths, stops, strict=True))


def known_texts(scorer: Any) -> dict[str, tuple[frozenset[str], bool]]:
    """Return the texts of training by column, and whether its rare ones share a column, of a pipeline or a committee.

    What a member of a committee knows, its rows had; what none of them knows, training had not.
    """
    known: dict[str, tuple[frozenset[str], bool]] = {}
    for member in getattr(scorer, "members", [scorer]):
        preprocessing = getattr(member, "named_steps", {}).get("preprocessing")
        columns = getattr(preprocessing, "named_steps", {}).get("columns")
        for part, fitted, names in getattr(columns, "transformers_", ()):
            if part == "text":
                encoder = fitted.named_steps["encode"]
                rare = getattr(encoder, "infrequent_categories_", [None] * len(names))
                for name, texts, shared in zip(names, encoder.categories_, rare, strict=True):
                    before, was_shared = known.get(name, (frozenset(), False))
                    known[name] = (before | frozenset(texts)) - {MISSING_TEXT}, was_shared or shared is not None
    return known


def _dense_scaler(scale: str, n_rows: int) -> Any:
    """Return what scales columns; with unit_rows nothing does, with centred_unit_rows they are centred first."""
    # ranks among the training rows, all of them: nothing is drawn
    ranks = QuantileTransformer(n_quantiles=min(QUANTILES, n_rows), subsample=None)
    scalers = {
        "standard": StandardScaler(),
        "minmax": RangeScaler(),
        "quantile": ranks,
        "piecewise": Pipeline([("ranks", ranks), ("hats", HatFunctions())]),
        "centred_unit_rows": StandardScaler(with_std=False),
    }
    return scalers.get(scale, "passthrough")


def _sparse_scaler(scale: str, n_columns: int) -> Any:
    """Return what scales columns without touching zeros: nothing is centred, and ranks have the sign."""
    if scale == "quantile":
        # each column's, those of its negative values too; of however few rows, so that all folds say the same
        needed = 16 * QUANTILES * n_columns
        if needed > QUANTILE_BYTES:
            raise ValueError(
                f"Expected quantiles of at most {QUANTILE_BYTES} bytes with scale quantile, got {n_columns} columns of "
                f"sparse data, which need {needed} however few values they have. Take standard or minmax."
            )
        return SignedRanks(QUANTILES)
    if scale in DENSE_ONLY:
        raise ValueError(f"Expected dense data with scale {scale}, got sparse. Leave that scale out.")
    return {"standard": StandardScaler(with_mean=False), "minmax": RangeScaler()}.get(scale, "passthrough")


def transform(preprocessing: Any, X: pd.DataFrame | csr_matrix) -> np.ndarray | csr_matrix:
    """Return what the solvers take: float64, C-ordered or CSR.

    Raises
    ------
    ValueError
        If scaling overflowed: a column's values are finite, but their squares are not.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        out = preprocessing.transform(X)
    if isinstance(out, (pd.DataFrame, np.ndarray)):
        out = np.ascontiguousarray(out, dtype=np.float64)
        strange = np.flatnonzero(~np.isfinite(out).all(axis=0))
    else:
        out = out.tocsr()
        strange = np.unique(out.indices[~np.isfinite(out.data)])
    if len(strange):
        name = _column_name(preprocessing, X, int(strange[0]))
        raise ValueError(f"Expected numbers that can be scaled, got some too large in {name}. Divide them.")
    return out


def _column_name(preprocessing: Any, X: pd.DataFrame | csr_matrix, position: int) -> str:
    """Return what to call a column after preprocessing; sparse data have no names, and each column stays one."""
    if not isinstance(X, pd.DataFrame):
        return f"{feature_name(position, 1)}, counted from 1"
    return f"column '{preprocessing.get_feature_names_out()[position]}'"
