"""Our svmlight reader against scikit-learn's: a whole file into a CSR matrix and its labels."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from sklearn.datasets import load_svmlight_file

from benchmarks.contest import Contest, fixed
from benchmarks.data import mirror
from benchmarks.part import Bench, Cell, Part
from tasks.readers import read_svmlight

FILES = ("libsvm/ijcnn1.t", "libsvm/sector.scale")


def cells(bench: Bench) -> Iterator[Cell]:
    for file in FILES:
        path = mirror() / file
        if path.is_file():
            yield Cell("read_svmlight against load_svmlight_file", file, partial(contest, path))
        else:
            bench.shelf.skipped[file] = "no such file in the mirror"


def contest(path: Path) -> Contest:
    """Return the race on one file; equal means that not a single stored value or label differs."""
    expected, labels = load_svmlight_file(str(path), zero_based="auto")

    def differences(found: tuple) -> float:
        X, y = found
        return float((expected != X).nnz + (y != labels).sum())

    def ours() -> tuple:
        table = read_svmlight(path)
        return table.X, table.labels

    return Contest(
        "read_svmlight",
        path.name,
        f"{expected.shape[0]:,} × {expected.shape[1]:,}, {path.stat().st_size / 1e6:.0f} MB",
        fixed("read_svmlight", ours, differences),
        fixed("scikit-learn load_svmlight_file", lambda: load_svmlight_file(str(path), zero_based="auto"), differences),
        least_ratio=1.0,
        target=0.0,
    )


PART = Part(
    "reading",
    "Reading svmlight files",
    "at least as fast as scikit-learn's reader",
    "Time from the path to a CSR matrix and its labels; the file is in the system's cache.",
    cells,
    quality="values or labels that differ",
)
