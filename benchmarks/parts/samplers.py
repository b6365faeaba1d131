"""GeometricUnderSampler, its own SVM included, against imbalanced-learn's NearMiss, and against that SVM alone."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from imblearn.under_sampling import NearMiss
from sklearn.base import clone

from aucsolvers import GeometricUnderSampler, KernelSVM, LinearSVM
from aucsolvers.undersampling import MOST_ROWS
from benchmarks.contest import Contest, fixed
from benchmarks.data import DataSet
from benchmarks.part import Bench, Cell, Part

SETS = ("breast cancer", "digits", "letter", "a9a")
SCHEMES = ("u1", "u2")
MACHINES = {
    "linear": LinearSVM(class_weight="balanced", random_state=0),
    "rbf": KernelSVM(gamma="loo", class_weight="balanced"),
}
MOST_TIMES = 3.0  # the cost of the rows read once and the SVM


def near_miss_cells(bench: Bench) -> Iterator[Cell]:
    for data in bench.shelf.take(*SETS[: 3 if bench.quick else 4]):
        yield Cell("GeometricUnderSampler against NearMiss", data.name, partial(_against_near_miss, data))


def svm_cells(bench: Bench) -> Iterator[Cell]:
    for data in bench.shelf.take(*SETS[: 3 if bench.quick else 4]):
        for kernel in MACHINES if len(data.y) <= MOST_ROWS else ("linear",):  # of more, "rbf" is fitted to a part
            for scheme in SCHEMES:
                build = partial(against_its_svm, data, scheme, kernel)
                yield Cell(f"{scheme} {kernel} against its SVM", data.name, build)


def _kept(result: tuple) -> float:
    return float(np.sum(result[1] < 0))


def _against_near_miss(data: DataSet) -> Contest:
    X, y = data.X, data.y
    return Contest(
        "GeometricUnderSampler auto",
        data.name,
        _shape(data),
        fixed("GeometricUnderSampler", lambda: GeometricUnderSampler(random_state=0).fit_resample(X, y), _kept),
        fixed("imbalanced-learn NearMiss", lambda: NearMiss().fit_resample(X, y), _kept),
        least_ratio=None,
    )


def against_its_svm(data: DataSet, scheme: str, kernel: str) -> Contest:
    """Return the race with what the method cannot do without: the rows read once, and the SVM."""
    X, y, machine = data.X, data.y, MACHINES[kernel]

    def sampler() -> tuple:
        return GeometricUnderSampler(scheme, kernel=kernel, random_state=0).fit_resample(X, y)

    def svm() -> tuple:
        (X if isinstance(X, np.ndarray) else X.data).sum()
        return clone(machine).fit(X, y), y

    return Contest(
        f"GeometricUnderSampler {scheme}, {kernel}",
        data.name,
        _shape(data),
        fixed("GeometricUnderSampler", sampler, _kept),
        fixed(f"a pass over the rows and {type(machine).__name__}", svm, _kept),
        least_ratio=1.0 / MOST_TIMES,
    )


def _shape(data: DataSet) -> str:
    return f"{data.X.shape[0]:,} × {data.X.shape[1]}"


AGAINST_NEAR_MISS = Part(
    "samplers",
    "Under-sampling",
    "none set: shown for orientation",
    "Time of fit_resample. The two keep different rows by design, so the last columns say how many negatives are left.",
    near_miss_cells,
    quality="negatives kept",
)

AGAINST_ITS_SVM = Part(
    "sampler_costs",
    "Under-sampling beyond its SVM",
    f"within {MOST_TIMES:.0f} times of reading the rows once and fitting the SVM: a ratio of {1 / MOST_TIMES:.2f}",
    "Time of fit_resample, against that of one sum over all entries and the fit of the same SVM to its usual "
    "tolerance: LinearSVM, which the sampler's own goes beyond, or Gaussian KernelSVM, with balanced class weights.",
    svm_cells,
    quality="negatives kept",
)
