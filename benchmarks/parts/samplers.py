"""GeometricUnderSampler, its own SVM included, against imbalanced-learn's NearMiss."""

from collections.abc import Iterator
from functools import partial

import numpy as np
from imblearn.under_sampling import NearMiss

from aucsolvers import GeometricUnderSampler
from benchmarks.contest import Contest, fixed
from benchmarks.data import DataSet
from benchmarks.part import Bench, Cell, Part

SETS = ("breast cancer", "digits", "letter", "a9a")


def cells(bench: Bench) -> Iterator[Cell]:
    for data in bench.shelf.take(*SETS[: 3 if bench.quick else 4]):
        yield Cell("GeometricUnderSampler against NearMiss", data.name, partial(_contest, data))


def _contest(data: DataSet) -> Contest:
    X, y = data.X, data.y

    def kept(result: tuple) -> float:
        return float(np.sum(result[1] < 0))

    return Contest(
        "GeometricUnderSampler auto",
        data.name,
        f"{X.shape[0]:,} × {X.shape[1]}",
        fixed("GeometricUnderSampler", lambda: GeometricUnderSampler(random_state=0).fit_resample(X, y), kept),
        fixed("imbalanced-learn NearMiss", lambda: NearMiss().fit_resample(X, y), kept),
        least_ratio=None,
    )


PART = Part(
    "samplers",
    "Under-sampling",
    "none set: shown for orientation",
    "Time of fit_resample. The two keep different rows by design, so the last columns say how many negatives are left.",
    cells,
    quality="negatives kept",
)
