"""Models in MLflow: kept with skops, never pickled, so that loading one runs no code but that of trusted types."""

from importlib.metadata import version
from typing import Any

import mlflow.sklearn
import numpy as np
import pandas as pd
import skops.io
from mlflow.models import ModelSignature
from mlflow.models.model import ModelInfo
from mlflow.types import ColSpec, Schema, TensorSpec
from mlflow.types.schema import AnyType
from pandas.api.types import is_numeric_dtype

from aucsolvers import Ranker
from tasks.facts import PACKAGES
from tasks.values import Dataset, FittedModel, Table

# Beside our own: the encoder keeps its output's dtype, a kernel on sparse data its rows. Both are data and no code.
TRUSTED = ("aucsolvers.", "numpy.dtype", "scipy.sparse._csr.csr_")
REQUIREMENTS = [name for name in PACKAGES if name not in ("mlflow", "prefect")]


def make_ranker(model: FittedModel, dataset: Dataset) -> Ranker:
    """Return the object that is kept: pipeline, threshold and the labels as the user wrote them."""
    return Ranker(
        scorer=model.pipeline,
        threshold=float(model.threshold),
        positive_label=dataset.provenance.positive_label,
        negative_label=dataset.provenance.negative_label,
    )


def log_ranker(ranker: Ranker, table: Table, params: dict[str, Any]) -> ModelInfo:
    """Log the model to the active MLflow run, with signature and input example."""
    example = table.rows(np.arange(min(5, len(table.y)))).X
    return mlflow.sklearn.log_model(
        ranker,
        name="model",
        serialization_format="skops",
        skops_trusted_types=trusted_types(ranker),
        signature=make_signature(table),
        input_example=example,
        pip_requirements=[_pinned(name) for name in REQUIREMENTS],
        params=params,
        metadata={"columns": column_types(table)},
    )


def make_signature(table: Table) -> ModelSignature:
    """Return what the model takes and gives: every column by name, and one score for each row.

    The columns' types are left open: MLflow refuses whole numbers where it has seen fractions, fractions (so also
    gaps) where it has seen whole numbers, and categories where it has seen texts; the model takes them all. What a
    column was in training stands in the model's metadata.
    """
    scores = Schema([TensorSpec(np.dtype(np.float64), (-1,))])
    if not isinstance(table.X, pd.DataFrame):
        return ModelSignature(Schema([TensorSpec(np.dtype(np.float64), (-1, table.X.shape[1]))]), scores)
    return ModelSignature(Schema([ColSpec(AnyType(), name, required=True) for name in table.X]), scores)


def column_types(table: Table) -> dict[str, str]:
    """Return which columns were numbers and which were texts; nothing for sparse data."""
    if not isinstance(table.X, pd.DataFrame):
        return {}
    return {name: "number" if is_numeric_dtype(dtype) else "text" for name, dtype in table.X.dtypes.items()}


def trusted_types(ranker: Ranker) -> list[str]:
    """Return the types, beyond those that skops trusts by itself, that loading this model may build.

    Only our own and plain data are let in: anything else would be a surprise in the model and stops the run.
    """
    found = skops.io.get_untrusted_types(data=skops.io.dumps(ranker))
    strange = [name for name in found if not name.startswith(TRUSTED)]
    if strange:
        raise TypeError(f"Expected only types of aucsolvers in the model, got {', '.join(strange)}.")
    return found


def _pinned(name: str) -> str:
    return f"{name}=={version(name)}"
