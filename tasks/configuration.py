"""Experiment configs: read from YAML, validated whole before the first task, refused in one line.

The YAML is version 1.2 (``yes`` is a word, ``1e-3`` a number, a key given twice an error).
"""

from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from tasks import catalogue
from tasks.errors import BadInput, nearest

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]


class Strict(BaseModel):
    """A frozen section that refuses unknown keys and names the nearest known one."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            known = tuple(cls.model_fields)
            for key in data:
                if key not in known:
                    raise ValueError(f"Expected keys out of {', '.join(known)}; got '{key}'.{nearest(key, known)}")
        return data


Section = TypeVar("Section", bound=Strict)


class DatasetConfig(Strict):
    """A data set of the catalogue by name, or the user's own file."""

    name: str = Field(min_length=1, pattern=r"^[^/\\\x00-\x1f]+$")
    source: str  # a path, or sklearn:NAME
    format: Literal["csv", "parquet", "svmlight", "keel", "arff"] | None = None
    target: str | None = None
    positive: str | None = None
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: Any) -> Any:
        if isinstance(data, str):
            return from_catalogue(data)
        if isinstance(data, dict) and "source" in data and "name" not in data:
            return {"name": Path(str(data["source"])).stem or "data"} | data
        return data

    @field_validator("target", "positive", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, (bool, int, float)) else value


class MethodConfig(Strict):
    """A solver, the sampler in front of it, and their parameters; ``grid`` overrides what is searched."""

    solver: str
    sampler: str = "none"
    name: str | None = Field(default=None, pattern=r"^[A-Za-z0-9][A-Za-z0-9 ._+-]*$", max_length=60)
    params: dict[str, Any] = {}
    sampler_params: dict[str, Any] = {}
    grid: tuple[Positive, ...] | None = Field(default=None, min_length=1)

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

    @model_validator(mode="after")
    def _known_params(self) -> "MethodConfig":
        searched, _ = catalogue.solver(self.solver).grid
        if self.grid is not None and searched in self.params:
            raise ValueError(f"Expected either grid or params.{searched}, got both. A value in params is not searched.")
        _check_params(self.solver, catalogue.solver(self.solver), self.params)
        entry = catalogue.sampler(self.sampler)
        if entry is None and self.sampler_params:
            raise ValueError("Expected no sampler_params with sampler 'none'. Name a sampler or leave them out.")
        if entry is not None:
            _check_params(self.sampler, entry, self.sampler_params)
        return self

    @property
    def label(self) -> str:
        """The method's name in the store: its own, or made of its parts (``auto+linear_svm``, ``sdcd``)."""
        if self.name:
            return self.name
        return self.solver if self.sampler == "none" else f"{self.sampler}+{self.solver}"

    @property
    def search(self) -> tuple[str, tuple[float, ...]]:
        """The searched parameter and its values, ascending; a value given in ``params`` is not searched."""
        name, values = catalogue.solver(self.solver).grid
        if name in self.params:
            return name, (float(self.params[name]),)
        return name, tuple(sorted(set(self.grid or values)))


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


class PreprocessingConfig(Strict):
    """Fitted on the training rows only."""

    scale: Literal["standard", "minmax", "none"] = "standard"
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


def datasets() -> dict[str, dict[str, Any]]:
    """Return the shipped data-set catalogue."""
    return _read_yaml(catalogue.CONFIGS / "datasets.yaml")


def from_catalogue(name: str) -> dict[str, Any]:
    """Return the config of a data set that the catalogue names."""
    known = datasets()
    if name not in known:
        raise ValueError(
            f"Expected a data set out of {', '.join(known)}; got '{name}'.{nearest(name, tuple(known))} "
            "For a file of your own use --data, or {source: FILE, target: COLUMN} in a config."
        )
    return {"name": name} | {k: known[name][k] for k in ("source", "target", "positive")}


def load_config(name_or_path: str, **overrides: Any) -> ExperimentConfig:
    """Return the validated config of a file, or of a shipped experiment by name; a path wins over a name."""
    path = find_config(name_or_path)
    data = _read_yaml(path)
    if not isinstance(data, dict):
        raise BadInput(
            f"{path}: expected keys such as datasets and methods, got {_kind(data)}. See configs/experiments."
        )
    base = path.resolve().parent
    return parse_config(_resolve_paths({"name": path.stem} | data, base) | overrides, str(path))


def parse_config(data: dict[str, Any], origin: str) -> ExperimentConfig:
    """Return the validated config, or raise BadInput in one line that starts with where it came from."""
    return parse(ExperimentConfig, data, origin)


def parse(section: type[Section], data: Any, origin: str) -> Section:
    """Return data validated as one section of a config."""
    try:
        return section.model_validate(data)
    except ValidationError as error:
        raise BadInput(f"{origin}: {_first_error(error)}") from None


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


def _read_yaml(path: Path) -> Any:
    try:
        return YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise BadInput(
            f"{path}{line}: expected valid YAML, got: {error.problem or error.context}. Mend that line."
        ) from None
    except (YAMLError, UnicodeDecodeError, ValueError) as error:
        raise BadInput(f"{path}: expected valid YAML in UTF-8, got: {error}. Mend the file.") from None
    except RecursionError:
        raise BadInput(f"{path}: expected a config of a few levels, got one nested too deeply. Flatten it.") from None
    except OSError as error:
        raise BadInput(f"{path}: expected a readable file, got: {error.strerror}. Check its permissions.") from None


def _resolve_paths(data: dict[str, Any], base: Path) -> dict[str, Any]:
    """Make the files that a config names relative to the config, not to the current folder."""
    entries = data.get("datasets")
    if not isinstance(entries, list):
        return data

    def resolve(entry: Any) -> Any:
        if not (isinstance(entry, dict) and isinstance(entry.get("source"), str)):
            return entry
        source = entry["source"]
        if source.startswith("sklearn:"):
            return entry
        return entry | {"source": str(base / Path(source).expanduser())}

    return data | {"datasets": [resolve(entry) for entry in entries]}


def _first_error(error: ValidationError) -> str:
    problems = error.errors(include_url=False)
    places = [p["loc"] for p in problems]
    # an item that was refused also leaves its list too short: only the cause is told
    problems = [p for p in problems if not any(q != p["loc"] and q[: len(p["loc"])] == p["loc"] for q in places)]
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"]) or "config"
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    message = _in_words(first)
    return f"{place}: {message if message.endswith('?') else message.rstrip('.') + '.'}{more}"


EXPECTED = {
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping of names to values",
    "model_type": "expected a mapping of keys to values",
    "too_short": "expected at least one entry",
    "string_type": "expected a text",
    "string_too_short": "expected a text",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
}


def _in_words(problem: Any) -> str:
    """Return pydantic's finding as expected, got and what to do."""
    if problem["type"] == "missing":
        return "expected this key, got none. Add it"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    wanted = EXPECTED.get(problem["type"])
    if wanted is None:
        bound = "a number " if problem["type"].startswith(("greater", "less")) else ""
        wanted = problem["msg"].replace("Input should be ", f"expected {bound}")
    return f"{wanted}, got {_shown(problem['input'])}. Change it"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return repr(value[:60])
    return "an empty one" if value in ([], {}, ()) else str(value)[:60]


def _kind(data: Any) -> str:
    return {list: "a list", str: "a text", type(None): "an empty file"}.get(type(data), f"{data!r}"[:60])
