"""Solvers of the pairwise hinge and squared hinge that live outside Python: dlib, SVM-perf, liblinear-ranksvm.

The conversion of the rows to the peer's own form and the reading of files are left out of the time, in the peer's
favour. A wrong scaling of C would show at once: the quality of the peer's weights is that of *our* objective.
"""

import importlib.util
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import dump_svmlight_file

from benchmarks.contest import SelfTimed, least
from benchmarks.data import DataSet

SVM_PERF, LIBLINEAR_RANKSVM = "AUCFLOW_SVM_PERF", "AUCFLOW_LIBLINEAR_RANKSVM"
UNSEEN_S = 1e-5  # what a difference of two times cannot tell from nothing


def has_dlib() -> bool:
    return importlib.util.find_spec("dlib") is not None


def dlib_pair(data: DataSet) -> object:
    """Return the rows as dlib's ranking pair, dense or sparse: all positives before all negatives."""
    import dlib

    positive = data.y > 0
    if not data.is_sparse:
        pair = dlib.ranking_pair()
        pair.relevant = dlib.vectors([dlib.vector(row) for row in data.X[positive]])
        pair.nonrelevant = dlib.vectors([dlib.vector(row) for row in data.X[~positive]])
        return pair
    pair = dlib.sparse_ranking_pair()
    for row, is_positive in zip(_sparse_rows(data.X), positive, strict=True):
        vector = dlib.sparse_vector()
        vector.extend([dlib.pair(int(column), float(value)) for column, value in row])
        (pair.relevant if is_positive else pair.nonrelevant).append(vector)
    return pair


def _sparse_rows(X: sparse.csr_matrix) -> Iterator[zip]:
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield zip(X.indices[start:stop], X.data[start:stop], strict=True)


def dlib_fit(pair: object, n_features: int, lam: float, epsilon: float) -> np.ndarray:
    """Return dlib's weights. It minimises ||w||^2/2 + C mean over pairs of the hinge: C = 1/lam."""
    import dlib

    is_sparse = isinstance(pair, dlib.sparse_ranking_pair)
    trainer = dlib.svm_rank_trainer_sparse() if is_sparse else dlib.svm_rank_trainer()
    trainer.c, trainer.epsilon, trainer.max_iterations = 1.0 / lam, epsilon, 1_000_000
    weights = trainer.train(pair).weights
    if not is_sparse:
        return np.asarray(weights, dtype=np.float64).ravel()
    w = np.zeros(n_features)
    for entry in weights:
        w[entry.first] = entry.second
    return w


class Program:
    """A peer that is a program: it reads rows as svmlight and writes a model file.

    What it takes to start, read and write is measured once, with a tolerance that ends training at once, and left out.
    Of short runs in a row the least counts: starting takes 2 ms give or take one, training sometimes less.
    """

    def __init__(self, data: DataSet, command: Callable[[float, float], list[str]], parse: Callable, queries: bool):
        self._folder = tempfile.TemporaryDirectory()
        self._rows, self._model = Path(self._folder.name, "rows"), Path(self._folder.name, "model")
        self._command, self._parse, self._n_features = command, parse, data.X.shape[1]
        query = np.ones(len(data.y), dtype=int) if queries else None
        dump_svmlight_file(data.X, data.y.astype(int), str(self._rows), zero_based=False, query_id=query)
        self._idle_s = self._run(1.0, 1e9)

    def fit(self, lam: float, tolerance: float) -> SelfTimed:
        seconds = self._run(lam, tolerance)
        w = self._parse(self._model.read_text(encoding="utf-8").splitlines(), self._n_features)
        return SelfTimed(max(seconds - self._idle_s, UNSEEN_S), w)

    def _run(self, lam: float, tolerance: float) -> float:
        command = [*self._command(lam, tolerance), str(self._rows), str(self._model)]
        return least(partial(subprocess.run, command, capture_output=True, check=True)).seconds


def svm_perf(data: DataSet, program: str) -> Program:
    """Return SVM-perf for the ROC area: its loss is in per cent, so C = 1/(100 lam) and epsilon counts hundredths."""

    def command(lam: float, tolerance: float) -> list[str]:
        return [program, "-l", "10", "-w", "3", "--b", "0", "-c", repr(0.01 / lam), "-e", repr(100.0 * tolerance)]

    def parse(lines: list[str], n_features: int) -> np.ndarray:
        w, (scale, *entries) = np.zeros(n_features), lines[-1].partition("#")[0].split()
        for column, _, value in (entry.partition(":") for entry in entries):
            w[int(column) - 1] = float(scale) * float(value)
        return w

    return Program(data, command, parse, queries=False)


def liblinear_ranksvm(data: DataSet, program: str) -> Program:
    """Return liblinear-ranksvm for the squared hinge: ||w||^2/2 + C sum over pairs, so C = 1/(2 k lam)."""
    k = float((data.y > 0).sum()) * float((data.y < 0).sum())

    def command(lam: float, tolerance: float) -> list[str]:
        return [program, "-s", "8", "-q", "-c", repr(0.5 / (k * lam)), "-e", repr(tolerance)]

    def parse(lines: list[str], n_features: int) -> np.ndarray:
        values = [float(line) for line in lines[lines.index("w") + 1 :] if line.strip()]
        return np.array(values[:n_features])

    return Program(data, command, parse, queries=True)
