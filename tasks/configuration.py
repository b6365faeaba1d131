"""Experiment configs: read from YAML, validated whole before the first task, refused in one line.

The YAML is version 1.2 (``yes`` is a word, ``1e-3`` a number, a key given twice an error).
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from tasks import catalogue
from tasks.datasets import OPENML, Conversion, find
from tasks.errors import BadInput, nearest
from tasks.schema import Strict, parse, read_yaml

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]


FROM_AFAR = ("sklearn:", "catalogue:", "openml:")


class DatasetConfig(Strict):
    """A data set of the catalogue by name, any of OpenML by ``openml:ID``, or the user's own file.

    What is given here wins over what the catalogue says of target, columns to drop and conversion.
    """

    name: str = Field(min_length=1, pattern=r"^[^/\\\x00-\x1f]+$")
    source: str  # a path, catalogue:NAME, openml:ID or sklearn:NAME
    format: Literal["csv", "parquet", "svmlight", "keel", "arff", "npz", "idx"] | None = None
    target: str | None = None
    positive: str | None = None  # short for conversion: {positive: …}
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    drop: tuple[str, ...] = ()
    conversion: Conversion | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: Any) -> Any:
        if isinstance(data, str):
            return named(data)
        if isinstance(data, dict) and "source" not in data and isinstance(data.get("name"), str):
            return data | named(data["name"])
        if isinstance(data, dict) and "source" in data and "name" not in data:
            return {"name": named(data["source"])["name"] if _is_afar(data["source"]) else _stem(data["source"])} | data
        return data

    @field_validator("target", "positive", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, (bool, int, float)) else value

    @model_validator(mode="after")
    def _one_conversion(self) -> "DatasetConfig":
        if self.positive is not None and self.conversion is not None:
            raise ValueError("Expected either positive or conversion, got both. Write conversion: {positive: …}.")
        return self

    @property
    def key(self) -> str | None:
        """Return the name in the catalogue (or openml:ID) of a set that is had by name, None for a file."""
        kind, _, rest = self.source.partition(":")
        return {"catalogue": rest, "openml": self.source}.get(kind)

    @property
    def is_as_published(self) -> bool:
        """Tell whether the catalogue's own conversion applies, so that its counts are to be met."""
        return self.key is not None and not (self.target or self.positive or self.drop or self.conversion)


def named(name: str) -> dict[str, Any]:
    """Return the config of a data set that is had by name."""
    key = name.removeprefix("catalogue:")
    if key.startswith("sklearn:"):
        return {"name": key.removeprefix("sklearn:"), "source": key}
    if re.fullmatch(OPENML, key):
        return {"name": key.replace(":", "-"), "source": key}
    find(key)
    return {"name": key, "source": f"catalogue:{key}"}


def _is_afar(source: Any) -> bool:
    return isinstance(source, str) and source.startswith(FROM_AFAR)


def _stem(source: Any) -> str:
    return Path(str(source)).stem or "data"


class MethodConfig(Strict):
    """A solver, sampler and kernel in front of it, and their parameters; the grids override what is searched."""

    solver: str
    sampler: str = "none"
    kernel: str = "none"
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]*$", max_length=60)
    params: dict[str, Any] = Field(default_factory=dict)
    sampler_params: dict[str, Any] = Field(default_factory=dict)
    kernel_params: dict[str, Any] = Field(default_factory=dict)
    grid: tuple[Positive, ...] | None = Field(default=None, min_length=1)
    gamma_grid: tuple[Positive, ...] | None = Field(default=None, min_length=1)  # multiples of the kernel's gamma

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: Any) -> Any:
        return {"solver": data} if isinstance(data, str) else data

    @field_validator("solver")
    @classmethod
    def _known_solver(cls, name: str) -> str:
        catalogue.solver(name)
        return name

    @field_validator("sampler")
    @classmethod
    def _known_sampler(cls, name: str) -> str:
        catalogue.sampler(name)
        return name

    @field_validator("kernel")
    @classmethod
    def _known_kernel(cls, name: str) -> str:
        catalogue.kernel(name)
        return name

    @model_validator(mode="after")
    def _known_params(self) -> "MethodConfig":
        searched, _ = catalogue.solver(self.solver).grid
        if self.grid is not None and searched in self.params:
            raise ValueError(f"Expected either grid or params.{searched}, got both. A value in params is not searched.")
        _check_params(self.solver, catalogue.solver(self.solver), self.params)
        _check_part("sampler", self.sampler, catalogue.sampler(self.sampler), self.sampler_params)
        _check_part("kernel", self.kernel, catalogue.kernel(self.kernel), self.kernel_params)
        return self

    @model_validator(mode="after")
    def _fitting_kernel(self) -> "MethodConfig":
        if self.kernel != "none" and not catalogue.solver(self.solver).takes_kernel:
            raise ValueError(
                f"Expected a solver of linear scores with kernel '{self.kernel}', got '{self.solver}', which has a "
                f"kernel of its own. Leave out kernel, or take linear_svm."
            )
        if self.gamma_grid is not None and self.kernel == "none":
            raise ValueError("Expected no gamma_grid with kernel 'none'. Name a kernel or leave it out.")
        if self.gamma_grid is not None and "gamma_factor" in self.kernel_params:
            raise ValueError("Expected either gamma_grid or kernel_params.gamma_factor, got both. Leave one out.")
        return self

    @property
    def label(self) -> str:
        """The method's name in the store: its own, or made of its parts (``auto+gaussian+svm_or``, ``sdcd``)."""
        return self.name or "+".join(part for part in (self.sampler, self.kernel, self.solver) if part != "none")

    @property
    def search(self) -> tuple[str, tuple[float, ...]]:
        """The searched parameter and its values, ascending; a value given in ``params`` is not searched."""
        name, values = catalogue.solver(self.solver).grid
        if name in self.params:
            return name, (float(self.params[name]),)
        return name, tuple(sorted(set(self.grid or values)))

    @property
    def gamma_search(self) -> tuple[float, ...]:
        """The multiples of the kernel's gamma that are tried, ascending; one if it is given, none without a kernel."""
        entry = catalogue.kernel(self.kernel)
        if entry is None:
            return ()
        name, values = entry.grid
        if name in self.kernel_params:
            return (float(self.kernel_params[name]),)
        if "gamma" in self.kernel_params and self.gamma_grid is None:
            return (1.0,)
        return tuple(sorted(set(self.gamma_grid or values)))


def _check_part(kind: str, name: str, entry: catalogue.Entry | None, params: dict[str, Any]) -> None:
    """Check the parameters of what may stand in front of a solver; 'none' has no entry and takes none."""
    if entry is not None:
        _check_params(name, entry, params)
    elif params:
        raise ValueError(f"Expected no {kind}_params with {kind} 'none'. Name a {kind} or leave them out.")


def _check_params(name: str, entry: catalogue.Entry, params: dict[str, Any]) -> None:
    """Refuse parameters that the estimator does not have, and values that it would refuse when fitted."""
    if not params:
        return
    known = tuple(k for k in entry.parameter_names() if k not in dict(entry.params) and k != "random_state")
    for key in params:
        if key not in known:
            raise ValueError(
                f"Expected parameters of {name} out of {', '.join(known)}; got '{key}'.{nearest(key, known)}"
            )
    entry.build(**params).check_parameters()


class ValidationConfig(Strict):
    """Outer folds estimate, inner folds choose λ."""

    folds: int = Field(default=5, ge=2, le=100, strict=True)
    repeats: int = Field(default=1, ge=1, le=100, strict=True)
    inner_folds: int = Field(default=3, ge=2, le=20, strict=True)
    select_by: Literal["auc", "gmean"] = "auc"
    split: Literal["stratified", "grouped_by_duplicates"] = "stratified"  # grouped: copies stay on one side

    @property
    def grouped(self) -> bool:
        """Tell whether rows of equal features stay together."""
        return self.split == "grouped_by_duplicates"


class PreprocessingConfig(Strict):
    """Fitted on the training rows only."""

    scale: Literal["standard", "minmax", "quantile", "unit_rows", "centred_unit_rows", "none"] = "standard"
    impute: Literal["median", "mean", "most_frequent"] = "median"
    max_categories: int = Field(default=100, ge=2, le=10_000, strict=True)


class ExperimentConfig(Strict):
    """What `aucflow run` does, whole."""

    name: str = Field(default="experiment", pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$", max_length=100)
    seed: int = Field(default=0, ge=0, lt=2**63, strict=True)
    datasets: tuple[DatasetConfig, ...] = Field(min_length=1)
    methods: tuple[MethodConfig, ...] = Field(min_length=1)
    validation: ValidationConfig = ValidationConfig()
    preprocessing: PreprocessingConfig = PreprocessingConfig()
    workers: int = Field(default=1, ge=1, le=64, strict=True)
    offline: bool = Field(default=False, strict=True)

    @field_validator("validation", "preprocessing", mode="before")
    @classmethod
    def _empty_means_defaults(cls, section: Any) -> Any:
        return {} if section is None else section

    @model_validator(mode="after")
    def _unique_names(self) -> "ExperimentConfig":
        for kind, names in (
            ("data set", [d.name for d in self.datasets]),
            ("method", [m.label for m in self.methods]),
        ):
            twice = sorted({n for n in names if names.count(n) > 1})
            if twice:
                raise ValueError(f"Expected each {kind} once, got '{twice[0]}' twice. Remove one or give it a name.")
        return self


def load_config(name_or_path: str, **overrides: Any) -> ExperimentConfig:
    """Return the validated config of a file, or of a shipped experiment by name; a path wins over a name."""
    path = find_config(name_or_path)
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise BadInput(
            f"{path}: expected keys such as datasets and methods, got {_kind(data)}. See configs/experiments."
        )
    base = path.resolve().parent
    return parse_config(_resolve_paths({"name": path.stem} | data, base) | overrides, str(path))


def parse_config(data: dict[str, Any], origin: str) -> ExperimentConfig:
    """Return the validated config, or raise BadInput in one line that starts with where it came from."""
    return parse(ExperimentConfig, data, origin)


def find_config(name_or_path: str) -> Path:
    """Return the config file of a path, or of a shipped experiment's name."""
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    shipped = {p.stem: p for p in sorted((catalogue.CONFIGS / "experiments").glob("*.yaml"))}
    known = shipped.get(name_or_path)
    # the documented spelling configs/experiments/NAME.yaml works from any folder
    if known is None and path.parent.as_posix() == "configs/experiments":
        known = shipped.get(path.stem)
    if known is not None:
        return known
    if path.is_dir():
        raise BadInput(f"Expected a config file, got the folder {path}. Name the YAML file inside it.")
    raise BadInput(
        f"Expected a config file or one of {', '.join(shipped)}; found no '{name_or_path}'."
        f"{nearest(name_or_path, tuple(shipped))}"
    )


def _resolve_paths(data: dict[str, Any], base: Path) -> dict[str, Any]:
    """Make the files that a config names relative to the config, not to the current folder."""
    entries = data.get("datasets")
    if not isinstance(entries, list):
        return data

    def resolve(entry: Any) -> Any:
        if not (isinstance(entry, dict) and isinstance(entry.get("source"), str)):
            return entry
        source = entry["source"]
        if _is_afar(source):
            return entry
        return entry | {"source": str(base / Path(source).expanduser())}

    return data | {"datasets": [resolve(entry) for entry in entries]}


def _kind(data: Any) -> str:
    return {list: "a list", str: "a text", type(None): "an empty file"}.get(type(data), f"{data!r}"[:60])
