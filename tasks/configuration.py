"""Experiment configs: read from YAML, validated whole before the first task, refused in one line.

The YAML is version 1.2 (``yes`` is a word, ``1e-3`` a number, a key given twice an error).
"""

import re
from itertools import product
from math import inf, isfinite, prod
from pathlib import Path
from typing import Annotated, Any, Literal, TypeGuard

from pydantic import Field, ValidationInfo, field_validator, model_validator

from aucsolvers.columns import NUMBER
from tasks import catalogue
from tasks.catalogue import GAMMA_FACTOR
from tasks.datasets import OPENML, Conversion, entries, find, suites
from tasks.errors import BadInput, nearest
from tasks.files import COMPRESSIONS, format_by_name
from tasks.moments import in_words, length
from tasks.schema import METHOD_NAME, NAME, TITLE, Strict, parse, read_yaml

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)]
Scalar = bool | int | float | str | None
Grids = dict[str, tuple[Scalar, ...]]
MOST_CANDIDATES = 1000
STRATEGIES = ("auto", "majority", "minority", "not minority", "not majority", "all")  # imbalanced-learn's
LABELS = (-1, 1)  # as solvers and samplers see them
DENSE_ONLY = {"piecewise"}  # a zero's hats are not all zero
SCALES = ("standard", "minmax", "quantile", "unit_rows", "centred_unit_rows", "piecewise", "none")

FROM_AFAR = ("sklearn:", "catalogue:", "openml:")


class DatasetConfig(Strict):
    """A data set of the catalogue by name, any of OpenML by ``openml:ID``, or the user's own file.

    What is given here wins over what the catalogue says of target and conversion; columns to drop are dropped beside
    those that the catalogue drops.
    """

    name: str = Field(min_length=1, pattern=TITLE)
    source: str  # a path, catalogue:NAME, openml:ID or sklearn:NAME
    format: Literal["csv", "parquet", "svmlight", "keel", "arff", "npz", "idx"] | None = None
    target: str | None = None
    positive: str | None = None  # short for conversion: {positive: …}
    delimiter: str | None = Field(default=None, min_length=1, max_length=1)
    drop: tuple[str, ...] = ()
    group: str | None = None  # rows of one value of this column stay together
    time: str | None = None  # by this column, models are tested on rows later than those that they were trained on
    gap: str | float | None = None  # later by this, as long as labels take to come: "30d" or, of numbers, a number
    categories: tuple[str, ...] = ()  # columns whose numbers are names, and no quantities
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

    @field_validator("target", "positive", "group", "time", mode="before")
    @classmethod
    def _as_text(cls, value: Any) -> Any:
        return str(value) if isinstance(value, (bool, int, float)) else value

    @field_validator("group", "time", mode="after")
    @classmethod
    def _as_column(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name is not None and not name.strip():
            raise ValueError(f"expected a column's name, got blanks. Name it, or leave {info.field_name} out")
        return None if name is None else name.strip()

    @field_validator("gap", mode="before")
    @classmethod
    def _as_length(cls, value: Any) -> Any:
        text = str(value).strip()
        if value is None:
            return None
        if length(text):
            return text
        number = float(text) if re.fullmatch(NUMBER, text) else 0.0
        if not 0 < number < inf:
            raise ValueError(
                f"expected a length of time such as 30d, 12h, 90min or 2w, or a number where time is one; got '{value}'"
            )
        return number

    @field_validator("drop", "categories", mode="before")
    @classmethod
    def _as_names(cls, value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            return value
        return [name.strip() if isinstance(name, str) else cls._as_text(name) for name in value]

    @field_validator("categories", mode="after")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(names))

    @model_validator(mode="after")
    def _one_conversion(self) -> "DatasetConfig":
        if self.positive is not None and self.conversion is not None:
            raise ValueError("Expected either positive or conversion, got both. Write conversion: {positive: …}.")
        return self

    @model_validator(mode="after")
    def _roles_agree(self) -> "DatasetConfig":
        for role, name in (("group", self.group), ("time", self.time)):
            if name is not None and name in self.drop:
                raise ValueError(
                    f"Expected the {role} '{name}' outside of drop, got it in both. A {role} is no feature anyway: "
                    "leave it out of drop."
                )
        for role, names in (("group", (self.group,)), ("time", (self.time,)), ("drop", self.drop)):
            if both := [name for name in self.categories if name in names]:
                raise ValueError(
                    f"Expected features as categories, got '{both[0]}', which is in {role} and so none. Leave it out "
                    "of one of them."
                )
        if self.time is not None and self.time == self.group:
            raise ValueError(f"Expected two columns as group and time, got '{self.time}' as both. Leave one out.")
        if self.gap is not None and self.time is None:
            raise ValueError(
                f"Expected a time with the gap {in_words(self.gap)}, got none. Name its column, or leave gap out."
            )
        return self

    @property
    def key(self) -> str | None:
        """Return the name in the catalogue (or openml:ID) of a set that is had by name, None for a file."""
        kind, _, rest = self.source.partition(":")
        return {"catalogue": rest, "openml": self.source}.get(kind)

    @property
    def published_key(self) -> str | None:
        """Return the key where the catalogue's own conversion applies, so that its counts are to be met."""
        roles = self.drop, self.categories, self.group, self.time, self.gap
        given = (self.target, self.positive, *roles, self.conversion)
        return None if any(given) else self.key


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
    """Return a file's name without its ending: of claims.csv.gz it is claims, as of claims.csv."""
    path = Path(str(source))
    path = path.with_suffix("") if path.suffix.lower() in COMPRESSIONS else path
    return path.stem or "data"


class MethodConfig(Strict):
    """A solver, sampler and kernel in front of it, and their parameters; the grids override what is searched.

    Solver and sampler are names of the catalogue or import paths; ``u1_zovr`` is short for sampler u1 and solver zovr.
    """

    solver: str
    sampler: str = "none"
    kernel: str = "none"
    name: str | None = Field(default=None, pattern=METHOD_NAME, max_length=60)
    params: dict[str, Any] = Field(default_factory=dict)
    sampler_params: dict[str, Any] = Field(default_factory=dict)
    kernel_params: dict[str, Any] = Field(default_factory=dict)
    grid: tuple[Positive, ...] | None = Field(default=None, min_length=1)  # short for search: {main parameter: …}
    search: dict[str, Annotated[tuple[Scalar, ...], Field(min_length=1)]] | None = None
    gamma_grid: tuple[Positive, ...] | None = Field(default=None, min_length=1)  # multiples of the kernel's gamma
    scale: str | tuple[str, ...] | None = None  # in place of preprocessing's; of several the search chooses one
    committee: int = Field(default=1, ge=1, le=50, strict=True)  # how many of the best candidates score together
    probabilities: Literal["sigmoid", "isotonic"] | None = None

    @model_validator(mode="before")
    @classmethod
    def _expand(cls, data: Any) -> Any:
        data = {"solver": data} if isinstance(data, str) else data
        if not (isinstance(data, dict) and _is_text(data, "solver")):
            return data
        parts = catalogue.split_name(data["solver"])
        for part in ("sampler", "kernel"):
            if part in parts and part in data:
                raise ValueError(
                    f"Expected one {part}, got '{parts[part]}' in solver '{data['solver']}' and {part} '{data[part]}'. "
                    f"Write solver: {parts['solver']}."
                )
        return data | parts

    @field_validator("params", "sampler_params", mode="before")
    @classmethod
    def _by_label(cls, params: Any) -> Any:
        """Take what is said by label, such as class_weight, as well from JSON, whose keys are texts."""
        if not isinstance(params, dict):
            return params
        return {name: _with_labels(value) for name, value in params.items()}

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

    @field_validator("search", mode="before")
    @classmethod
    def _plain_values(cls, search: Any) -> Any:
        grids = search if isinstance(search, dict) else {}
        given = [(name, value) for name, grid in grids.items() if isinstance(grid, list) for value in grid]
        for name, value in given:
            if isinstance(value, list | dict):
                raise ValueError(f"expected numbers, words, true, false or null to search {name} in, got {value}")
        return search

    @field_validator("scale", mode="before")
    @classmethod
    def _known_scale(cls, value: Any) -> Any:
        return None if value is None else _known_scales(value)

    @model_validator(mode="after")
    def _known_params(self) -> "MethodConfig":
        entry = catalogue.solver(self.solver)
        if not _is_finite([self.params, self.sampler_params, self.kernel_params, self.search]):
            raise ValueError("Expected finite numbers as parameters, got one that is none. Change it.")
        if self.grid is not None:
            self._check_grid(entry)
        _check_params(self.solver, entry, self.params)
        self._check_search(entry)
        _check_part("sampler", self.sampler, catalogue.sampler(self.sampler), self.sampler_params)
        _check_part("kernel", self.kernel, catalogue.kernel(self.kernel), self.kernel_params)
        return self

    def _check_grid(self, entry: catalogue.Entry) -> None:
        if entry.grid is None:
            raise ValueError(f"Expected search with {self.solver}, got grid. Write search: {{PARAMETER: [values]}}.")
        for place, given in (("params", self.params), ("search", self.search or {})):
            if entry.grid[0] in given:
                raise ValueError(
                    f"Expected either grid or {place}.{entry.grid[0]}, got both. A value in params is not searched."
                )

    def _check_search(self, entry: catalogue.Entry) -> None:
        """Refuse what cannot be searched: a parameter that is given, or unknown, or a value that a fit would refuse."""
        search = self.search or {}
        for name, values in search.items():
            if name in self.params or (name == GAMMA_FACTOR and "gamma" in (*self.params, *search)):
                raise ValueError(f"Expected {name} in search alone, got it in params or beside gamma. Leave one out.")
            if name == "scale":
                raise ValueError("Expected no parameter named scale in search. Give scale itself a list of scales.")
            if name in catalogue.SEARCH_COLUMNS:
                raise ValueError(
                    f"Expected no parameter named {name} in search, which is a column of the search's own table, got "
                    "one. Give its one value in params."
                )
            if name == GAMMA_FACTOR and self.kernel != "none":
                raise ValueError(
                    f"Expected multiples of the kernel's gamma as gamma_grid, got {name} in search. Move it."
                )
            if name == GAMMA_FACTOR and not entry.takes_kernel:
                if any(isinstance(value, bool) or not isinstance(value, int | float) or value <= 0 for value in values):
                    raise ValueError(f"Expected numbers > 0 for {GAMMA_FACTOR}, got {list(values)}. Change them.")
                continue
            for value in values:
                _check_params(self.solver, entry, self.params | {name: value})
        count = prod(len(values) for values in self.searched.values()) * max(1, len(self.gamma_search))
        if count > MOST_CANDIDATES:
            raise ValueError(f"Expected at most {MOST_CANDIDATES} candidates, got {count}. Shorten the grids.")

    @model_validator(mode="after")
    def _fitting_kernel(self) -> "MethodConfig":
        if self.kernel != "none" and not catalogue.solver(self.solver).takes_kernel:
            raise ValueError(
                f"Expected a solver of linear scores with kernel '{self.kernel}', got '{self.solver}', which has a "
                f"kernel of its own. Leave out kernel, or take linear_svm."
            )
        if self.gamma_grid is not None and self.kernel == "none":
            raise ValueError("Expected no gamma_grid with kernel 'none'. Name a kernel or leave it out.")
        if self.gamma_grid is not None and GAMMA_FACTOR in self.kernel_params:
            raise ValueError("Expected either gamma_grid or kernel_params.gamma_factor, got both. Leave one out.")
        return self

    @property
    def label(self) -> str:
        """The method's name in the store: its own, or made of its parts (``auto+gaussian+svm_or``, ``sdcd``)."""
        parts = (catalogue.short_name(part) for part in (self.sampler, self.kernel, self.solver) if part != "none")
        return self.name or "+".join(parts)

    @property
    def sampler_settings(self) -> dict[str, Any]:
        """The sampler's parameters: those given, and for our under-samplers the kernel of the hyperplane.

        Before a solver of Gaussian scores that is a Gaussian one, unless the method says otherwise.
        """
        if self.sampler not in catalogue.BY_HYPERPLANE or not self._is_gaussian:
            return self.sampler_params
        return {"kernel": "rbf"} | self.sampler_params

    @property
    def knows_its_rows(self) -> bool:
        """Whether it may tell training rows apart by heart: a kernel machine, or a solver of another library."""
        return not catalogue.solver(self.solver).is_ours or self.kernel != "none" or self._own_kernel != "linear"

    @property
    def _is_gaussian(self) -> bool:
        return self.kernel == "gaussian" or self._own_kernel == "rbf"

    @property
    def _own_kernel(self) -> str:
        usual = catalogue.solver(self.solver).build().get_params()
        return (usual | self.params).get("kernel", "linear")

    @property
    def main_parameter(self) -> str | None:
        """The first of the searched parameters, which curves are drawn over; None where there is none."""
        return next(iter(self.searched), None)

    @property
    def searched(self) -> Grids:
        """The solver's searched parameters and their values: the usual one first, then numbers and others, by name.

        A value of it in ``params`` is the only one. Numbers ascend; other values keep their order.
        """
        entry = catalogue.solver(self.solver)
        usual: Grids = dict(entry.grids)
        if "gamma" in {**self.params, **(self.search or {})}:
            usual.pop(GAMMA_FACTOR, None)
        if entry.grid and entry.grid[0] in self.params:
            usual[entry.grid[0]] = (float(self.params[entry.grid[0]]),)
        elif entry.grid and self.grid is not None:
            usual[entry.grid[0]] = self.grid
        elif entry.grid and entry.gaussian_grid and self.kernel == "gaussian":
            usual[entry.grid[0]] = entry.gaussian_grid
        # a manifest keeps no order of names: a replay would try the candidates in other turns
        usual |= dict(sorted((self.search or {}).items(), key=lambda item: (not all(map(is_number, item[1])), item[0])))
        return {name: _in_order(values) for name, values in usual.items()}

    @property
    def solver_candidates(self) -> list[dict[str, Scalar]]:
        """Every combination of the searched parameters' values, the first parameter changing fastest."""
        grids = self.searched
        turns = product(*reversed(grids.values()))
        return [dict(zip(grids, reversed(values), strict=True)) for values in turns]

    def candidates(self, scales: tuple[str, ...]) -> list[dict[str, Scalar]]:
        """Every combination of parameters in the order in which they are tried: by scale, then γ, then the solver's.

        ``scales`` are preprocessing's; the method's own, if it has any, stand in their place and are always named.
        """
        tried = []
        for scale in self.scales(scales):
            for factor in self.gamma_search or (None,):
                front: dict[str, Scalar] = {} if factor is None else {GAMMA_FACTOR: factor}
                front |= {"scale": scale} if self.scale or len(scales) > 1 else {}
                tried += [own | front for own in self.solver_candidates]
        return tried

    def scales(self, usual: tuple[str, ...]) -> tuple[str, ...]:
        """Return the scales to choose from: the method's own if it has any, else preprocessing's."""
        if self.scale is None:
            return usual
        return self.scale if isinstance(self.scale, tuple) else (self.scale,)

    @property
    def gamma_search(self) -> tuple[float, ...]:
        """The multiples of the kernel's gamma that are tried, ascending; one if it is given, none without a kernel."""
        entry = catalogue.kernel(self.kernel)
        if entry is None:
            return ()
        ((name, values),) = entry.grids
        if name in self.kernel_params:
            return (float(self.kernel_params[name]),)
        if "gamma" in self.kernel_params and self.gamma_grid is None:
            return (1.0,)
        return tuple(sorted(set(self.gamma_grid or values)))


def _known_scales(value: Any) -> str | tuple[str, ...]:
    """Return the scale, or the scales each once, of a config, or refuse them."""
    given = list(value) if isinstance(value, list | tuple) else [value]
    strange = [scale for scale in given if scale not in SCALES]
    if strange or not given:
        got = repr(strange[0]) if strange else "an empty list"
        known = ", ".join(repr(scale) for scale in SCALES)
        raise ValueError(f"expected {known}, or a list of them, got {got}. Change it")
    return tuple(dict.fromkeys(given)) if len(set(given)) > 1 else given[0]


def _with_labels(value: Any) -> Any:
    """Return a value, the labels of which are numbers where it is a mapping from them.

    >>> _with_labels({"1": 3.0, "-1": 1.0}), _with_labels({"depth": 1})
    ({1: 3.0, -1: 1.0}, {'depth': 1})
    """
    if not isinstance(value, dict) or not value.keys() <= {"1", "-1", 1, -1}:
        return value
    return {int(label): number for label, number in value.items()}


def _is_finite(value: Any) -> bool:
    """Tell whether no number in a value is nan or infinite: JSON, which manifests are, has neither."""
    if isinstance(value, dict):
        return all(map(_is_finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_finite, value))
    return not isinstance(value, float) or isfinite(value)


def _is_text(data: dict[str, Any], key: str) -> bool:
    return isinstance(data.get(key), str)


def is_number(value: Any) -> TypeGuard[float]:
    """Tell whether a searched value is a number, so that it has an order; True and False have none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _in_order(values: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    numbers = [value for value in values if is_number(value)]
    ordered = sorted(numbers) if len(numbers) == len(values) else values
    return tuple({(type(value), value): value for value in ordered}.values())  # True is not 1 here, nor is 1.0


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
    # of ours no YAML has the one, and the other the preprocessing tells
    left_out = {"random_state", *dict(entry.params), *(("estimator", "blocks") if entry.is_ours else ())}
    known = tuple(k for k in entry.parameter_names() if k not in left_out)
    others = set() if entry.takes_any_parameter() else set(params) - set(known)
    for key in params:
        if key == "random_state":
            raise ValueError(
                f"Expected no random_state for {name}, got one: the experiment's seed sets it. Leave it out."
            )
        if key in others:
            raise ValueError(
                f"Expected parameters of {name} out of {', '.join(known)}; got '{key}'.{nearest(key, known)}"
            )
    _check_labels(params)
    try:
        estimator = entry.build(**params)
    except TypeError as error:  # of a class that takes any parameter, and not all
        raise ValueError(f"Expected parameters that {name} takes, got: {error}. Change them.") from None
    if hasattr(estimator, "fit_resample") and "sampling_strategy" in params:
        _check_sampling_strategy(params["sampling_strategy"], getattr(estimator, "_sampling_type", ""))
    if hasattr(estimator, "check_parameters"):
        estimator.check_parameters()
    else:
        _check_by_fitting_nothing(estimator)


def _check_labels(params: dict[str, Any]) -> None:
    """Refuse weights and counts by class, or lists of classes, of other labels than estimators get to see."""
    for name in ("class_weight", "sampling_strategy"):
        given = params.get(name)
        strange = [label for label in given if label not in LABELS] if isinstance(given, dict | list) else []
        if strange:
            raise ValueError(f"Expected {name} by label, 1 (positive) or -1 (negative), got {strange[0]!r}. Change it.")


def _check_sampling_strategy(given: Any, kind: str) -> None:
    """Refuse what no data could go with; a ratio of the classes too where chance decides how many rows go."""
    ratios, out = kind != "clean-sampling", "majority" if kind == "over-sampling" else "minority"
    names = [name for name in STRATEGIES if not kind or name != out]
    fits = given in names if isinstance(given, str) else isinstance(given, dict | list)
    if not fits and not (ratios and is_number(given) and 0 < given <= 1):
        more = ", a ratio above 0 and up to 1" if ratios else ""
        raise ValueError(
            f"Expected sampling_strategy out of {', '.join(names)}{more}, or by label, got {given!r}. Change it."
        )


def _check_by_fitting_nothing(estimator: Any) -> None:
    """Refuse values as the estimator itself does: scikit-learn's kind look at parameters before they look at rows.

    Their error for parameters has no public name; that of there being no rows is expected, and any other is left to
    the fit on real rows.
    """
    fit = getattr(estimator, "fit_resample", None) or estimator.fit
    try:
        fit([], [])
    except Exception as error:
        if type(error).__name__ == "InvalidParameterError":
            raise ValueError(f"Expected valid parameters: {error}") from None


class ValidationConfig(Strict):
    """Outer folds estimate, inner folds choose λ."""

    folds: int = Field(default=5, ge=2, le=100, strict=True)
    repeats: int = Field(default=1, ge=1, le=100, strict=True)
    inner_folds: int = Field(default=3, ge=2, le=20, strict=True)
    select_by: Literal["auc", "gmean"] = "auc"
    # what the threshold is set on: scores of the training rows, such scores by models that were fitted without the row,
    # or estimates of the distributions that these come from; auto chooses by solver and data
    threshold: Literal["auto", "training", "out_of_fold", "out_of_fold_smoothed"] = "auto"
    split: Literal["stratified", "grouped_by_duplicates"] = "stratified"  # grouped: copies stay on one side
    held_out: float = Field(default=0.0, ge=0.0, le=0.5, strict=True)  # share of rows not trained or chosen on

    @property
    def grouped(self) -> bool:
        """Tell whether rows of equal features stay together."""
        return self.split == "grouped_by_duplicates"


class PreprocessingConfig(Strict):
    """Fitted on the training rows only; of several scales the inner cross-validation chooses one."""

    scale: str | tuple[str, ...] = "standard"
    impute: Literal["median", "mean", "most_frequent"] = "median"
    max_categories: int = Field(default=100, ge=2, le=10_000, strict=True)

    @field_validator("scale", mode="before")
    @classmethod
    def _known_scale(cls, value: Any) -> Any:
        return _known_scales(value)

    @property
    def scales(self) -> tuple[str, ...]:
        """Return the scales to choose from, one if there is no choice."""
        return self.scale if isinstance(self.scale, tuple) else (self.scale,)

    def settled(self, scale: str | None = None) -> "PreprocessingConfig":
        """Return the section with one scale: the given one, or the first of several."""
        return self.model_copy(update={"scale": scale or self.scales[0]})


class ExperimentConfig(Strict):
    """What `aucflow run` does, whole."""

    name: str = Field(default="experiment", pattern=NAME, max_length=100)
    seed: int = Field(default=0, ge=0, lt=2**63, strict=True)
    datasets: tuple[DatasetConfig, ...] = Field(min_length=1)
    methods: tuple[MethodConfig, ...] = Field(min_length=1)
    validation: ValidationConfig = ValidationConfig()
    preprocessing: PreprocessingConfig = PreprocessingConfig()
    workers: int = Field(default=1, ge=1, le=64, strict=True)
    offline: bool = Field(default=False, strict=True)
    reference: str | None = None  # a source's printed figures that the report sets beside ours

    @field_validator("datasets", mode="before")
    @classmethod
    def _expand_suites(cls, entries: Any) -> Any:
        if not isinstance(entries, list | tuple):
            return entries
        return [name for entry in entries for name in (_of_suite(entry) if _is_suite(entry) else [entry])]

    @field_validator("reference")
    @classmethod
    def _known_reference(cls, name: str | None) -> str | None:
        known = tuple(sorted(path.stem for path in (catalogue.CONFIGS / "reference").glob("*.csv")))
        if name is not None and name not in known:
            raise ValueError(f"Expected a reference out of {', '.join(known)}; got '{name}'.{nearest(name, known)}")
        return name

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

    @model_validator(mode="after")
    def _time_is_not_repeated(self) -> "ExperimentConfig":
        by_time = [dataset.name for dataset in self.datasets if dataset.time is not None]
        if by_time and self.validation.repeats > 1:
            raise ValueError(
                f"Expected repeats: 1 with the time of {by_time[0]}, got {self.validation.repeats}: rows go by time "
                "into the same folds again. Leave repeats out."
            )
        return self

    @model_validator(mode="after")
    def _committees_have_members(self) -> "ExperimentConfig":
        for method in self.methods:
            if method.committee > 1 and len(method.candidates(self.preprocessing.scales)) == 1:
                raise ValueError(
                    f"Expected candidates for a committee of {method.label}, got one. Give it a search or none."
                )
        return self


def _is_suite(entry: Any) -> bool:
    return isinstance(entry, dict) and set(entry) == {"suite"}


def _of_suite(entry: dict[str, Any]) -> tuple[str, ...]:
    """Return the data sets of ``{suite: NAME}``, or refuse the name with the nearest one."""
    known, name = suites(), str(entry["suite"])
    if name not in known:
        raise ValueError(f"Expected a suite out of {', '.join(known)}; got '{name}'.{nearest(name, tuple(known))}")
    return known[name]


def load_config(name_or_path: str, **overrides: Any) -> ExperimentConfig:
    """Return the validated config of a file, or of a shipped experiment by name; a path wins over a name."""
    path = find_config(name_or_path)
    data = read_yaml(path)
    if not isinstance(data, dict):
        raise BadInput(
            f"{path}: expected keys such as datasets and methods, got {_kind(data)}. See configs/experiments."
        )
    base = path.resolve().parent
    data = resolve_paths({"name": path.stem} | data, base) | overrides
    return parse(ExperimentConfig, data, str(path), path, overrides)


def parse_config(data: dict[str, Any], origin: str) -> ExperimentConfig:
    """Return the validated config, or raise BadInput in one line that starts with where it came from."""
    return parse(ExperimentConfig, data, origin)


def find_config(name_or_path: str, folder: str = "experiments") -> Path:
    """Return the config file of a path, or of a name among those that are shipped in a folder of configs/."""
    path = Path(name_or_path).expanduser()
    if path.is_file() and format_by_name(path) is not None:
        hint = f"Run it by `aucflow run --data {path}`" if folder == "experiments" else "Name it in a config"
        raise BadInput(f"Expected a config, got {path}, a data file by its name. {hint}.")
    if path.is_file():
        return path
    shipped = {p.stem: p for p in sorted((catalogue.CONFIGS / folder).glob("*.yaml"))}
    known = shipped.get(name_or_path)
    # the documented spelling configs/experiments/NAME.yaml works from any folder
    if known is None and path.parent.as_posix() == f"configs/{folder}":
        known = shipped.get(path.stem)
    if known is not None:
        return known
    if path.is_dir():
        raise BadInput(f"Expected a config file, got the folder {path}. Name the YAML file inside it.")
    hint = nearest(name_or_path, tuple(shipped))
    if folder == "experiments" and name_or_path in entries():
        hint = f" The data set of that name runs by `aucflow run --data catalogue:{name_or_path}`."
    raise BadInput(f"Expected a config file or one of {', '.join(shipped)}; found no '{name_or_path}'.{hint}")


def resolve_paths(data: dict[str, Any], base: Path) -> dict[str, Any]:
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
        try:
            return entry | {"source": str(base / Path(source).expanduser())}
        except RuntimeError:  # no such ~user: for whoever reads the file to say
            return entry

    return data | {"datasets": [resolve(entry) for entry in entries]}


def _kind(data: Any) -> str:
    return {list: "a list", str: "a text", type(None): "an empty file"}.get(type(data), f"{data!r}"[:60])
