"""The catalogue of data sets: what can be had by name, from where, and what conversion must make of it."""

import re
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from tasks.catalogue import CONFIGS
from tasks.errors import BadInput, nearest
from tasks.schema import Strict, parse, read_yaml
from tasks.values import ConversionRule, Counts, Dataset, Remote

Count = Annotated[int, Field(ge=1, strict=True)]
Labels = tuple[str, ...]
OPENML = r"openml:[1-9][0-9]{0,8}"


class Conversion(Strict):
    """How labels become two classes; the fields are those of ``tasks.values.ConversionRule``."""

    rule: Literal["default", "minority_positive", "one_vs_rest", "class_groups", "random_halves"] = "default"
    positive: str | Labels | None = None  # one label, or with class_groups a list
    negative: Labels = ()  # class_groups: the labels set against them; empty: all others
    to_ratio: Annotated[float, Field(gt=0, allow_inf_nan=False, strict=True)] | None = None
    seed: int = Field(default=0, ge=0, lt=2**63, strict=True)

    @field_validator("positive", "negative", mode="before")
    @classmethod
    def _as_texts(cls, value: Any) -> Any:
        if isinstance(value, (list, tuple)):
            return tuple(_text(label) for label in value)
        return _text(value)

    @model_validator(mode="after")
    def _fitting(self) -> "Conversion":
        grouped = self.rule == "class_groups"
        if grouped != isinstance(self.positive, tuple):
            wanted = "a list of labels" if grouped else "one label, or class_groups as rule"
            raise ValueError(
                f"Expected {wanted} as positive with rule '{self.rule}', got {self.positive!r}. Change it."
            )
        if self.negative and not grouped:
            raise ValueError(
                f"Expected no negative labels with rule '{self.rule}'. Take class_groups, or leave them out."
            )
        if self.positive is not None and self.rule in ("minority_positive", "random_halves"):
            raise ValueError(f"Expected no positive label with rule '{self.rule}', which finds it. Leave it out.")
        return self

    def as_rule(
        self,
        target: str | None,
        delimiter: str | None,
        drop: Labels,
        group: str | None = None,
        time: str | None = None,
        gap: str | float | None = None,
        categories: Labels = (),
    ) -> ConversionRule:
        """Return the rule as the convert stage takes it."""
        return ConversionRule(
            target=target,
            positive=self.positive if isinstance(self.positive, str) else None,
            delimiter=delimiter,
            conversion=self.rule,
            groups=(self.positive, self.negative) if isinstance(self.positive, tuple) else ((), ()),
            to_ratio=self.to_ratio,
            seed=self.seed,
            drop=drop,
            group=group,
            time=time,
            gap=gap,
            categories=categories,
        )


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, (bool, int, float)) else value


class LabelFile(Strict):
    """The file of labels that belongs to a file of images."""

    source: str
    urls: tuple[str, ...] = ()


class DatasetEntry(Strict):
    """A data set of the catalogue."""

    title: str
    source: str = Field(pattern=r"^(sklearn:\w+|openml/\d+\.arff|[\w.-]+/[\w.-]+)$")
    urls: tuple[str, ...] = ()
    published: tuple[str, ...] = ()  # in another form than the one here, so that it cannot simply be fetched
    member: str | None = None
    labels: LabelFile | None = None
    format: Literal["csv", "parquet", "svmlight", "keel", "arff", "npz", "idx", "sklearn"]
    target: str | None = None
    drop: Labels = ()
    conversion: Conversion = Conversion()
    rows: Count | None = None
    features: Count | None = None
    n_pos: Count | None = None
    suites: Labels = ()
    citation: str
    licence: str | None = None
    homepage: str | None = None
    note: str | None = None

    @property
    def remotes(self) -> tuple[Remote, ...]:
        """Return the files to fetch, the labels of images last; none if it comes with scikit-learn."""
        if self.format == "sklearn":
            return ()
        first = Remote(self.source, self.urls, self.member)
        return (first, Remote(self.labels.source, self.labels.urls)) if self.labels else (first,)

    @property
    def ratio(self) -> float | None:
        """Return n-/n+ as expected."""
        return (self.rows - self.n_pos) / self.n_pos if self.rows and self.n_pos else None


@cache
def entries() -> dict[str, DatasetEntry]:
    """Return the shipped catalogue."""
    path = CONFIGS / "datasets.yaml"
    return {name: parse(DatasetEntry, data, f"{path.name}, {name}") for name, data in read_yaml(path).items()}


def find(name: str, offline: bool = False) -> DatasetEntry:
    """Return an entry by name; ``openml:ID`` is any data set of OpenML."""
    if re.fullmatch(OPENML, name):
        from tasks.openml import describe

        return describe(int(name.removeprefix("openml:")), offline)
    if name not in entries():
        raise BadInput(
            f"Expected a data set out of {', '.join(entries())}, or openml:ID; got '{name}'."
            f"{nearest(name, tuple(entries()))} For a file of your own use --data, or {{source: FILE, target: COLUMN}} "
            "in a config."
        )
    return entries()[name]


def suites() -> dict[str, tuple[str, ...]]:
    """Return the names of the data sets of every suite, in the catalogue's order."""
    names = dict.fromkeys(suite for entry in entries().values() for suite in entry.suites)
    return {suite: tuple(n for n, entry in entries().items() if suite in entry.suites) for suite in names}


def check_counts(name: str, entry: DatasetEntry, dataset: Dataset, locked: Counts | None = None) -> Counts:
    """Return what a data set is, or refuse what is neither as the catalogue says nor as it was when first fetched."""
    found = Counts(dataset.n_rows, dataset.n_features, dataset.n_pos)
    file_of_yours = "use --data FILE for a file of yours"
    for place, wanted, remedy in (
        ("in the catalogue", (entry.rows, entry.features, entry.n_pos), file_of_yours),
        (
            "when it was first fetched",
            (locked.rows, locked.features, locked.n_pos) if locked else (None,) * 3,
            f"run `aucflow data get` with --update-lock, or {file_of_yours}",
        ),
    ):
        for what, expected, got in zip(
            ("rows", "features", "positive rows"), wanted, (found.rows, found.features, found.n_pos), strict=True
        ):
            if expected not in (None, got):
                raise BadInput(
                    f"{name}: expected {expected:,} {what}, as {place}, got {got:,}. The file is another one than it "
                    f"should be, or was damaged; if it is right, {remedy}."
                )
    return found
