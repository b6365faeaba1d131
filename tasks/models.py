"""Models in MLflow: kept with skops, never pickled, so that loading one runs no code but that of trusted types."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

import mlflow.sklearn
import numpy as np
import pandas as pd
from mlflow.models import Model, ModelSignature
from mlflow.models.model import MLMODEL_FILE_NAME, ModelInfo
from mlflow.types import ColSpec, Schema, TensorSpec
from mlflow.types.schema import AnyType
from mlflow.utils.yaml_utils import read_yaml
from pandas.api.types import is_numeric_dtype
from sklearn.pipeline import Pipeline

from aucsolvers import Ranker
from aucsolvers.adapters import unwrapped
from tasks.errors import BadInput, RunFailed, in_short
from tasks.facts import PACKAGES
from tasks.imported import changed_modules, own_modules
from tasks.values import Dataset, FittedModel, Layout, Table

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
EXAMPLE_CELLS = 2**18  # 10 bytes each, and more
REQUIREMENTS = [name for name in PACKAGES if name not in ("mlflow", "prefect")]
REQUIRED = ("aucsolvers", "sklearn", "imblearn")  # packages of solvers that these hold


@dataclass(frozen=True)
class KeptModel:
    """A model as it comes out of the store, with what it knows of its input."""

    ranker: Ranker
    columns: dict[str, str]  # "number", "text" or "category", in the order of training; empty for sparse data
    n_features: int
    layout: Layout
    changed: tuple[str, ...] = ()  # modules of its solver that are others by now than when it was made


def make_ranker(model: FittedModel, dataset: Dataset, table: Table) -> Ranker:
    """Return the object that is kept: pipeline, threshold, columns, and the labels as the user wrote them."""
    return Ranker(
        scorer=model.pipeline,
        threshold=float(model.threshold),
        positive_label=dataset.provenance.positive_label,
        negative_label=dataset.provenance.negative_label,
        calibrator=model.calibrator,
        sparse=dataset.is_sparse,
        columns=column_types(table) or None,
    )


def log_ranker(ranker: Ranker, table: Table, params: dict[str, Any], layout: Layout | None = None) -> ModelInfo:
    """Log the model to the active MLflow run, with signature and input example.

    The threshold travels inside the model; it stands in the metadata too, for those who ask a server for scores.
    """
    modules = own_modules([_solver_path(ranker)])
    return mlflow.sklearn.log_model(
        ranker,
        name="model",
        serialization_format="skops",
        skops_trusted_types=trusted_types(ranker),
        signature=make_signature(table),
        input_example=example_rows(table),
        pip_requirements=[_pinned(name) for name in _requirements(ranker)],
        params=params,
        metadata={
            "columns": column_types(table),
            "layout": (layout or Layout()).as_dict(),
            "threshold": ranker.threshold,
            "labels": [ranker.negative_label, ranker.positive_label],
        }
        | ({"modules": modules} if modules else {}),
    )


def example_rows(table: Table) -> Any:
    """Return up to five rows for MLflow's input example, none of very wide ones: it writes every zero of them."""
    n_rows = min(5, len(table.y), EXAMPLE_CELLS // table.X.shape[1])
    return table.rows(np.arange(n_rows)).X if n_rows else None


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
    """Return which columns were numbers, which texts and which categories; nothing for sparse data."""
    if not isinstance(table.X, pd.DataFrame):
        return {}
    kinds = {name: "number" if is_numeric_dtype(dtype) else "text" for name, dtype in table.X.dtypes.items()}
    return kinds | dict.fromkeys(table.categories, "category")


def load_ranker(folder: Path, trusted: tuple[str, ...] = ()) -> KeptModel:
    """Return the model in a folder that `log_ranker` wrote; nothing is unpickled, no code of the folder is run.

    MLflow's own loader builds whatever types the folder itself says may be trusted; here the list is ours, with the
    packages in ``trusted``, which have to be named for an imported solver.

    Raises
    ------
    BadInput
        If the folder holds another kind of model, or one with types that are not trusted.
    RunFailed
        If its files are missing or damaged, or a module that it needs cannot be imported.
    """
    import skops.io  # not above: it imports all of scikit-learn, and many processes touch no model

    try:
        # not Model.load, which takes a % in a path for the escape of a URI
        described = Model.from_dict(read_yaml(str(folder), MLMODEL_FILE_NAME))
        flavor = described.flavors.get("sklearn", {})
        known = described.metadata or {}
        if flavor.get("serialization_format") != "skops" or "layout" not in known:
            raise BadInput("Expected a model that aucflow kept, got another kind. Train it again with `aucflow run`.")
        file = folder / Path(flavor["pickled_model"]).name
        ranker = skops.io.load(file, trusted=_trusted(skops.io.get_untrusted_types(file=file), trusted))
        return _kept(ranker, described.signature.inputs, known)
    except BadInput:
        raise
    except ImportError as error:
        raise RunFailed(
            f"Expected the modules of the model in {folder} to be importable, got: {in_short(error).rstrip('.')}. "
            "Install the module, or put its folder on PYTHONPATH."
        ) from error
    except Exception as error:  # a damaged file makes its decoders raise whatever the damage leads them to
        cause = f"{type(error).__name__}: {str(error)[:200].rstrip('.')}"
        raise RunFailed(f"Expected a whole model in {folder}, got {cause}. Run `aucflow audit verify`.") from error


def _kept(ranker: Ranker, inputs: Any, known: dict[str, Any]) -> KeptModel:
    # inputs is a Schema, of named columns or of one array: only the latter's has a shape.
    # MLflow writes the mapping in alphabetical order; the signature has the order of training
    columns = {name: known["columns"][name] for name in inputs.input_names()} if inputs.has_input_names() else {}
    layout = Layout(**known["layout"] | {"left_out": tuple(known["layout"]["left_out"])})
    n_features = len(columns) or int(inputs.inputs[0].shape[1])
    return KeptModel(ranker, columns, n_features, layout, changed_modules(known.get("modules", {})))


def _trusted(found: list[str], packages: tuple[str, ...]) -> list[str]:
    strange = [name for name in found if not name.startswith((*TRUSTED, *(f"{p}." for p in packages)))]
    if strange:
        package = strange[0].partition(".")[0]
        raise BadInput(
            f"Expected only types of aucsolvers, scikit-learn and imbalanced-learn in the model, got "
            f"{', '.join(strange)}. If you trust whoever made it, add --trust {package}."
        )
    return found


def trusted_types(ranker: Ranker) -> list[str]:
    """Return the types, beyond those that skops trusts by itself, that loading this model may build.

    Let in are our own, plain data, those of scikit-learn and imbalanced-learn, and those of the package that the config
    names a solver of: anything else would be a surprise in the model and stops the run.
    """
    import skops.io

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
    return _solver_path(ranker).partition(".")[0]


def _solver_path(ranker: Ranker) -> str:
    solver = ranker.scorer[-1] if isinstance(ranker.scorer, Pipeline) else ranker.scorer
    made_by = type(unwrapped(solver))
    return f"{made_by.__module__}.{made_by.__name__}"


@cache
def _distributions() -> Mapping[str, list[str]]:
    """Return which distribution each importable package comes from; looking takes a second."""
    return packages_distributions()


def _requirements(ranker: Ranker) -> list[str]:
    """Return the distributions that loading the model needs, an imported solver's among them."""
    package = _solver_package(ranker)
    own = () if package in REQUIRED else _distributions().get(package, ())
    return list(dict.fromkeys([*REQUIREMENTS, *own]))


@cache
def _pinned(name: str) -> str:
    return f"{name}=={version(name)}"
