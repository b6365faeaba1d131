"""Models in MLflow: kept with skops, never pickled, so that loading one runs no code but that of trusted types."""

from importlib.metadata import packages_distributions, version
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
from sklearn.pipeline import Pipeline

from aucsolvers import Ranker
from aucsolvers.adapters import unwrapped
from tasks.facts import PACKAGES
from tasks.values import Dataset, FittedModel, Table

# Beside our own and those that we are built on: the encoder keeps its output's dtype, a kernel on sparse data its rows,
# an imported solver its random state and dictionaries. These are data and no code.
TRUSTED = (
    "aucsolvers.",
    "sklearn.",
    "imblearn.",
    "numpy.dtype",
    "numpy.random.",
    "scipy.sparse._csr.csr_",
    "collections.OrderedDict",
    "collections.Counter",
)
REQUIREMENTS = [name for name in PACKAGES if name not in ("mlflow", "prefect")]


def make_ranker(model: FittedModel, dataset: Dataset) -> Ranker:
    """Return the object that is kept: pipeline, threshold and the labels as the user wrote them."""
    return Ranker(
        scorer=model.pipeline,
        threshold=float(model.threshold),
        positive_label=dataset.provenance.positive_label,
        negative_label=dataset.provenance.negative_label,
        calibrator=model.calibrator,
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
        pip_requirements=[_pinned(name) for name in _requirements(ranker)],
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

    Let in are our own, plain data, those of scikit-learn and imbalanced-learn, and those of the package that the config
    names a solver of: anything else would be a surprise in the model and stops the run.
    """
    package = _solver_package(ranker)
    try:
        found = skops.io.get_untrusted_types(data=skops.io.dumps(ranker))
    except Exception as error:  # skops raises what the estimator's own methods raise
        raise TypeError(
            f"Expected a solver that skops can keep, got one of {package} that it cannot: {error}. Take another solver."
        ) from error
    strange = [name for name in found if not name.startswith((*TRUSTED, f"{package}."))]
    if strange:
        raise TypeError(
            f"Expected only types of aucsolvers, scikit-learn, imbalanced-learn and {package} in the model, got "
            f"{', '.join(strange)}. Take another solver."
        )
    return found


def _solver_package(ranker: Ranker) -> str:
    solver = ranker.scorer[-1] if isinstance(ranker.scorer, Pipeline) else ranker.scorer
    return type(unwrapped(solver)).__module__.partition(".")[0]


def _requirements(ranker: Ranker) -> list[str]:
    """Return the distributions that loading the model needs, an imported solver's among them."""
    own = [name for name in packages_distributions().get(_solver_package(ranker), ()) if name != "aucflow"]
    return list(dict.fromkeys([*REQUIREMENTS, *own]))


def _pinned(name: str) -> str:
    return f"{name}=={version(name)}"
