"""The values that cross a stage. Each is frozen, small, and named as the field names it.

A data set travels as a path with digests (`Dataset`); its arrays (`Table`) live inside one task only
and are read again, and verified, by ``tasks.convert.load``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from scipy.special import stdtrit

from tasks.moments import Length


@dataclass(frozen=True)
class Remote:
    """A file of the catalogue: ``path`` in cache and mirrors, and where its publisher has it, perhaps packed."""

    path: str  # "libsvm/a9a"
    urls: tuple[str, ...] = ()
    member: str | None = None  # of the publisher's archive


@dataclass(frozen=True)
class Counts:
    """What conversion made of a data set."""

    rows: int
    features: int
    n_pos: int


@dataclass(frozen=True)
class RawFile:
    """A file as it came: where it lies, in which format, and the digest of its bytes."""

    name: str
    path: Path
    format: str  # csv, parquet, svmlight, keel, arff, npz, idx, sklearn
    source: str  # what the user named, or where it was fetched from: a path, an address, sklearn:NAME
    sha256: str
    size_bytes: int
    labels: "RawFile | None" = None  # the second file of an IDX pair

    @property
    def files(self) -> tuple["RawFile", ...]:
        """The file, and after it the labels if it has some."""
        return (self,) if self.labels is None else (self, self.labels)


def joined(files: Iterable[RawFile]) -> RawFile:
    """Return the last of a data set's files with the one before it, if any, as its labels."""
    return reduce(lambda labels, file: replace(file, labels=labels), files)


@dataclass(frozen=True)
class ConversionRule:
    """How a file's labels become two classes, and which of its columns are features.

    ``conversion`` is one of
    default             ``positive`` against the rest, or the rarer of two labels
    minority_positive   the rarer of two labels
    one_vs_rest         ``positive``, or the rarest label, against all others
    class_groups        the labels in ``groups[0]`` against those in ``groups[1]`` (empty: against all others)
    random_halves       the labels split at random, by ``seed``, into two groups of equal number
    """

    target: str | None = None
    positive: str | None = None
    delimiter: str | None = None
    conversion: str = "default"
    groups: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    to_ratio: float | None = None  # positives are thinned at random, by ``seed``, until n-/n+ is this
    seed: int = 0
    drop: tuple[str, ...] = ()  # columns that are no features, such as a number of the row
    group: str | None = None  # a column that is no feature: rows of one value, as a patient's, stay together
    time: str | None = None  # a column that is no feature: models are tested on rows later than those they train on
    gap: str | float | None = None  # of time, at least, between rows trained on and rows tested: "30d", or a number
    categories: tuple[str, ...] = ()  # columns whose numbers are names: a merchant's, a postcode

    @property
    def roles(self) -> dict[str, str]:
        """The columns that divide the rows and are no features, by what they are: a group, a time."""
        named = {"group": self.group, "time": self.time}
        return {role: name for role, name in named.items() if name is not None}


@dataclass(frozen=True)
class Provenance:
    """Where a data set came from and what conversion did to it."""

    source: str
    format: str
    raw_sha256: str
    raw_size_bytes: int
    rule: str  # in words: "8 against the rest", "minority class M positive"
    label_counts: dict[str, int]  # original label -> rows
    positive_label: str
    negative_label: str  # the other label, or "rest"
    label_sides: dict[str, int] = field(default_factory=dict)  # original label -> +1, -1, or 0 where it was left out
    rows_left_out: int = 0  # by class_groups or to_ratio


@dataclass(frozen=True)
class Layout:
    """How the training file was laid out, beside its features: what is needed to read another of its kind."""

    target: str | None = None  # the column's name
    left_out: tuple[str, ...] = ()  # other columns that are no features: dropped, a group, a time, or empty
    index_base: int | None = None  # of svmlight: whether features count from 0 or 1

    def as_dict(self) -> dict[str, Any]:
        return {"target": self.target, "left_out": list(self.left_out), "index_base": self.index_base}


@dataclass(frozen=True)
class Table:
    """The arrays of a data set: X as a DataFrame (numbers and texts) or CSR, y as int8 of ±1.

    Where the rule names a group, ``groups`` holds a uint64 for each row that is equal in the rows of one value. Where
    it names a time, ``times`` holds a datetime64[us] in UTC for each, or a float64 if the column has numbers, and rows
    tested are later than those trained on by ``gap`` or more. Columns in ``categories`` are texts, whatever they are in
    the file.
    """

    X: pd.DataFrame | csr_matrix
    y: np.ndarray
    groups: np.ndarray | None = None
    times: np.ndarray | None = None
    gap: Length = 0
    categories: tuple[str, ...] = ()

    def rows(self, index: np.ndarray) -> "Table":
        """Return the rows with these positions, in this order."""
        X = self.X.iloc[index] if isinstance(self.X, pd.DataFrame) else self.X[index]
        groups, times = (None if of_rows is None else of_rows[index] for of_rows in (self.groups, self.times))
        return Table(X, self.y[index], groups, times, self.gap, self.categories)


@dataclass(frozen=True)
class MadeRows:
    """Rows that a sampler made, as preprocessing would have brought them: X an array of numbers or CSR, y of ±1."""

    X: np.ndarray | csr_matrix
    y: np.ndarray


def n_rare(y: np.ndarray) -> int:
    """Return how many of the labels ±1 are those of the rarer class."""
    return int(min(np.count_nonzero(y > 0), np.count_nonzero(y < 0)))


@dataclass(frozen=True)
class Dataset:
    """A converted data set: everything about it but its arrays, which ``tasks.convert.load`` brings."""

    name: str
    raw: RawFile
    rule: ConversionRule
    sha256: str  # over names, dtypes, shapes and bytes of X and y
    n_rows: int
    n_features: int
    n_pos: int
    n_neg: int
    is_sparse: bool
    text_columns: tuple[str, ...]  # categories among them
    missing_cells: dict[str, int]  # column -> missing values, only columns that have any
    provenance: Provenance
    layout: Layout = Layout()
    X_sha256: str = ""
    y_sha256: str = ""
    columns: tuple[str, ...] = ()  # the features' names; none of sparse data
    renamed: dict[str, str] = field(default_factory=dict)  # column -> its name in the file, which another has as well
    empty_columns: tuple[str, ...] = ()  # left out for want of values

    @property
    def imbalance_ratio(self) -> float:
        return self.n_neg / self.n_pos


@dataclass(frozen=True)
class Finding:
    """One thing that `check` noticed; a warning, for an error stops the run as BadInput."""

    kind: str  # "duplicates_across_split", "contradictory_labels", "constant_column", "separating_column", ...
    severity: str  # "warning" or "info"
    message: str  # one sentence: what, how many, what to do
    count: int
    columns: tuple[str, ...] = ()  # by name; of a sparse matrix's constant ones the first thousand


@dataclass(frozen=True)
class Split:
    """One train/test division by row positions; fold -1 is the refit, tested on the rows held out if any."""

    fold: int
    train: np.ndarray
    test: np.ndarray


@dataclass(frozen=True)
class Prepared:
    """A data set that is ready for every method: checked and divided."""

    dataset: Dataset
    findings: tuple[Finding, ...]
    splits: tuple[Split, ...]
    refit: Split  # all rows but those held out, which it is tested on

    @property
    def divisions(self) -> tuple[Split, ...]:
        """The folds, and last the refit."""
        return (*self.splits, self.refit)


@dataclass(frozen=True)
class Choice:
    """What inner cross-validation chose for one split."""

    fold: int
    chosen: dict[str, Any]  # {"lam": 1e-3}; with a kernel "gamma_factor" too, and "scale" where there were several
    search: dict[str, list[Any]]  # the candidates, column by column, with "mean" and "sd" of their inner scores
    seconds: float = 0.0


@dataclass(frozen=True)
class Sample:
    """What one split's solver is fitted on: training rows that the sampler kept, and the rows that it made.

    Rows that it made, or repeated, are ``added``. Whatever is scored, thresholds included, is scored on real rows
    alone.
    """

    fold: int
    rows: np.ndarray  # positions in the data set, each once
    n_pos: int  # of the kept rows
    n_neg: int
    n_neg_before: int
    scheme: str  # what the sampler did: "auto" has become "u1" or "u2"
    preprocessing: Any  # fitted scikit-learn transformer; None once recorded
    added: MadeRows | None = None
    n_pos_before: int | None = None  # None: all of them were kept

    @property
    def n_before(self) -> int:
        """The training rows of the split."""
        return self.n_neg_before + (self.n_pos if self.n_pos_before is None else self.n_pos_before)

    @property
    def n_added(self) -> int:
        """The rows that the sampler made."""
        return 0 if self.added is None else len(self.added.y)

    @property
    def n_added_pos(self) -> int:
        """The positive ones among the rows that the sampler made."""
        return 0 if self.added is None else int((self.added.y > 0).sum())


UNCERTIFIED = "uncertified"  # the status of a solver of another library, which certifies nothing


@dataclass(frozen=True)
class FittedModel:
    """A fitted pipeline with what chose it and what certifies it."""

    fold: int
    # Pipeline(preprocessing, kernel if any, solver), without the sampler, a committee being one solver; of a fold None
    # once recorded
    pipeline: Any
    chosen: dict[str, Any]  # {"lam": 1e-3} or {"C": 1.0}, and "gamma_factor" with a kernel
    search: dict[str, list[Any]]  # "value" (the first parameter's), the other parameters', "mean", "sd" of inner scores
    threshold: float
    objective: float
    dual_gap: float
    status: str
    n_iter: int
    history: dict[str, np.ndarray]
    fit_s: float
    search_s: float
    gap_unit: float = 1.0  # the objective at w = 0, or 1 where that is less; of zovr its value, where that is more
    calibrator: Any = None  # of scores to probabilities, where a config asks for them
    threshold_set_on: str = "training"  # a rule of `validation: threshold`, never "auto"
    found_nothing: bool = False  # the solver's optimum is w = 0: its ranking is arbitrary

    @property
    def is_certified(self) -> bool:
        """Tell whether the solver keeps a history and bounds its suboptimality."""
        return len(self.history["updates"]) > 0

    @property
    def certificate(self) -> float:
        """The upper bound of suboptimality in units of ``gap_unit``; NaN without one.

        ``tol`` bounds it for most solvers; some compare their gap with less (docs/solvers.md).
        """
        return self.dual_gap / self.gap_unit


@dataclass(frozen=True)
class Scores:
    """The metrics of one model on one set of rows."""

    auc: float
    auc_low: float
    auc_high: float
    auc_variance: float
    gmean: float
    sensitivity: float
    specificity: float
    average_precision: float
    n_pos: int
    n_neg: int


@dataclass(frozen=True)
class Evaluation:
    """One fold's metrics on its training and its test rows, with the test ROC curve."""

    fold: int
    threshold: float
    train: Scores
    test: Scores
    fpr: np.ndarray
    tpr: np.ndarray
    test_scores: np.ndarray = field(default_factory=lambda: np.empty(0))
    test_scores_sha256: str = ""
    span: tuple[str, str] | None = None  # the first and last moment of the test rows, where these have times


@dataclass(frozen=True)
class MethodResult:
    """All that one (data set, solver, sampler) cell produced; `error` is set where it failed."""

    dataset: str
    method: str  # unique in the experiment: "sdcd_perm" or "u1+linear_svm"
    solver: str
    sampler: str
    samples: tuple[Sample, ...] = ()  # one per fold, and the refit's
    models: tuple[FittedModel, ...] = ()  # one per fold
    evaluations: tuple[Evaluation, ...] = ()
    final: FittedModel | None = None  # refitted on all rows but those held out
    held_out: Evaluation | None = None  # the refit's, where rows were held out
    repeats: int = 1
    test_to_train: float | None = None  # test rows for each training row, of folds by time
    seconds: float = 0.0  # without those of compiling
    compile_s: float = 0.0  # of kernels that the cache did not have
    error: str | None = None
    kernel: str = "none"  # "gaussian": the solver ran on that kernel's features
    committee: int = 1  # how many candidates were asked to score together
    probabilities: str | None = None  # how scores were calibrated: "sigmoid", "isotonic"
    run_id: str = ""  # its run in MLflow
    manifest_sha256: str = ""

    @property
    def all_models(self) -> tuple[FittedModel, ...]:
        """The folds' models, and last the refit's; none where the cell failed."""
        return self.models if self.final is None else (*self.models, self.final)

    def fold_values(self, metric: str, part: str = "test") -> np.ndarray:
        """Return one metric over the folds, for example ``fold_values("auc")``."""
        return np.array([getattr(getattr(e, part), metric) for e in self.evaluations])

    def mean_sd(self, metric: str, part: str = "test") -> tuple[float, float]:
        """Return mean and sample standard deviation over the folds (0 for a single fold)."""
        values = self.fold_values(metric, part)
        return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0

    def auc_interval(self) -> tuple[float, float]:
        """Return the 95 % DeLong interval of the mean test AUC; NaN where a fold has one row of a class.

        Within a repeat the test sets are disjoint, so the folds' variances add up; repeats test the same rows
        again and are taken as fully dependent, so they narrow nothing. The training sets overlap: the interval
        speaks of the test rows' sampling and not of the training's.
        """
        from aucsolvers.metrics import logit_interval  # not above: lists and help do without numba

        variances = self.fold_values("auc_variance")
        return logit_interval(self.mean_sd("auc")[0], float(self.repeats * variances.sum() / len(variances) ** 2))

    def gmean_interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the mean test G-mean, by the corrected t of Nadeau and Bengio; NaN for one fold.

        Folds share training rows, and repeats all of them: the variance of the mean of J folds is taken as
        (1/J + test rows/training rows) s^2 (Inference for the Generalization Error, Machine Learning 52, 2003).
        """
        values = self.fold_values("gmean")
        if len(values) < 2:
            return float("nan"), float("nan")
        folds = len(values) / self.repeats
        ratio = 1 / (folds - 1) if self.test_to_train is None else self.test_to_train
        variance = values.var(ddof=1) if np.ptp(values) > 0.0 else 0.0  # of equal ones it may be a rounding above
        half = stdtrit(len(values) - 1, 0.975) * np.sqrt((1 / len(values) + ratio) * variance)
        mean = values.mean()
        low, high = np.clip([mean - half, mean + half], 0.0, 1.0)
        return float(low), float(high)


@dataclass(frozen=True, repr=False)
class ExperimentResult:
    """What `track` and `report` tell of."""

    name: str
    datasets: tuple[Dataset, ...]
    findings: dict[str, tuple[Finding, ...]]  # data set -> findings
    results: tuple[MethodResult, ...]
    config: dict[str, Any] = field(default_factory=dict)
    run_id: str = ""
    facts: dict[str, str] = field(default_factory=dict)  # git commit, versions, seed, ... for the report's foot
    decision: dict[str, Any] | None = None  # of a retraining: whether its model was promoted, and by which rules

    def as_frame(self) -> pd.DataFrame:
        """Return one row for each data set and method: means and standard deviations over the test folds.

        Of a part that failed they are NaN, and ``error`` says why.
        """
        rows = []
        for cell in self.results:
            row: dict[str, Any] = {"dataset": cell.dataset, "method": cell.method}
            for metric in ("auc", "gmean", "sensitivity", "specificity", "average_precision"):
                found = cell.mean_sd(metric) if cell.evaluations else (np.nan, np.nan)
                row[metric], row[f"{metric}_sd"] = found
            rows.append(
                row | {"seconds": cell.seconds, "compile_s": cell.compile_s, "error": cell.error, "run_id": cell.run_id}
            )
        return pd.DataFrame(rows)

    def __repr__(self) -> str:
        told = self.as_frame()[["dataset", "method", "auc", "gmean", "seconds", "error"]].fillna({"error": ""})
        return f"Experiment {self.name!r}, run {self.run_id}\n" + told.to_string(index=False, float_format="%.4f")
