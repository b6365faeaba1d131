"""Fit: the estimators that a method names, built, seeded and fitted on the rows of a sample.

What search, training and calibration have in common; none of it chooses anything.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from aucsolvers.adapters import ProbabilityScorer
from aucsolvers.committee import Committee
from aucsolvers.kernel_svm import spread_gamma
from aucsolvers.process import ProcessWide, one_blas_thread
from tasks import catalogue
from tasks.catalogue import GAMMA_FACTOR
from tasks.configuration import MethodConfig, PreprocessingConfig
from tasks.preprocess import transform
from tasks.seeds import seed_for
from tasks.undersample import counted, draw_sample
from tasks.values import Sample, Split, Table

Samples = dict[str | None, Sample]  # by scale


def draw_samples(
    table: Table,
    split: Split,
    method: MethodConfig,
    candidates: tuple[dict[str, Any], ...],
    preprocessing: PreprocessingConfig,
    seed: int,
    first: Sample | None = None,
) -> Samples:
    """Return a sample for each scale of the candidates; ``first`` is the first one's, if it is drawn already."""
    scales = [candidate.get("scale") for candidate in candidates]
    samples = {} if first is None else {scales[0]: first}
    for scale in scales:
        if scale not in samples:
            samples[scale] = draw_sample(table, split, method, preprocessing.settled(scale), seed)
    return samples


def fit_scorer(
    table: Table,
    split: Split,
    samples: Samples,
    method: MethodConfig,
    candidates: tuple[dict[str, Any], ...],
    seed: int,
) -> Pipeline:
    """Return the pipeline of one candidate, or of the committee of several, fitted on samples of a split."""
    fitted = [fit_pipeline(table, samples[one.get("scale")], method, one, seed) for one in candidates]
    if len(fitted) == 1:
        return fitted[0]
    return Pipeline([("solver", Committee(fitted).fit(table.rows(split.train).X))])


def fit_pipeline(table: Table, sample: Sample, method: MethodConfig, chosen: dict[str, Any], seed: int) -> Pipeline:
    """Return preprocessing, kernel if any, and solver, fitted on the sample."""
    steps = [("preprocessing", sample.preprocessing)]
    X, y = fitting_rows(table, sample)
    kernel = build_kernel(method, chosen, seed)
    if kernel is not None:
        X = kernel.fit_transform(X, y)
        steps.append(("kernel", kernel))
    solver = fit_solver(method, chosen, seed, X, y)
    return Pipeline([*steps, ("solver", solver)])


def fitting_rows(table: Table, sample: Sample) -> tuple[Any, np.ndarray]:
    """Return what a solver is fitted on: the rows kept, preprocessed, then those that the sampler made."""
    if sample.added is not None and len(sample.rows) == 0:  # by a sampler that leaves none as it was
        return sample.added.X, sample.added.y
    kept = table.rows(sample.rows)
    X = transform(sample.preprocessing, kept.X)
    if sample.added is None:
        return X, kept.y
    parts = [X, sample.added.X]
    X = sparse.vstack(parts, format="csr") if sparse.issparse(X) else np.vstack(parts)
    return X, np.concatenate([kept.y, sample.added.y])


@ProcessWide
@contextmanager
def reproducible_fits() -> Iterator[None]:
    """Give BLAS one thread, so that sums are added in the same order however many folds run side by side.

    ConvergenceWarning is silent inside: status and certificate go into table and store.
    """
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def fit_solver(method: MethodConfig, chosen: dict[str, Any], seed: int, X: Any, y: np.ndarray) -> Any:
    """Return the solver of a method fitted to rows and labels, 0 and 1 where it is another package's, as some ask for.

    Such a one has to give one score a row.
    """
    solver, is_ours = build_solver(method, chosen, seed, X), catalogue.solver(method.solver).is_ours
    try:
        solver.fit(X, y if is_ours else (y > 0).astype(np.int64))
    except (ValueError, RuntimeError) as error:
        if is_ours:  # in words of our own
            raise
        raise ValueError(f"solver '{method.solver}' on {counted(y)}: {error}") from error
    if not is_ours:
        _check_scores(solver, method.solver, X[:2])
    return solver


def _check_scores(solver: Any, name: str, X: Any) -> None:
    """Refuse another package's solver that does not rank: one real number a row, larger for the label 1 than for 0."""
    scores, labels = solver.decision_function(X), np.array(getattr(solver, "classes_", ()))
    is_plain = isinstance(scores, np.ndarray) and not isinstance(scores, np.ma.MaskedArray)
    if not is_plain or scores.shape != (X.shape[0],) or scores.dtype.kind not in "biuf":
        got = f"shape {scores.shape} of {scores.dtype}" if is_plain else f"a {type(scores).__name__}"
        raise ValueError(
            f"Expected decision_function of '{name}' to return an array of one real number a row, shape (n,), got "
            f"{got}. Wrap it in a class that does."
        )
    if labels.shape == (2,) and labels[0] > labels[1]:
        raise ValueError(
            f"Expected classes_ of '{name}' in ascending order, got {labels.tolist()}: its scores would be "
            "those of the other class. Wrap it in a class that sorts them."
        )


def build_solver(method: MethodConfig, chosen: dict[str, Any], seed: int, X: Any = None) -> Any:
    """Return the unfitted solver of a method, seeded where it draws at random, with a ``decision_function``.

    A γ that is chosen as a multiple is one of 1 / (sum of the columns' variances) of the rows X that it is to be fitted
    on.
    """
    given = {name: chosen[name] for name in method.searched if name in chosen}
    factor = given.pop(GAMMA_FACTOR, None)
    if factor is not None and X is not None:
        given["gamma"] = factor * spread_gamma(X)
    entry, params = catalogue.solver(method.solver), method.params | given
    if not entry.is_ours:
        params = {name: _by_code(name, value) for name, value in params.items()}
    solver = entry.build_seeded(seed, **params)
    return solver if hasattr(solver, "decision_function") else ProbabilityScorer(solver)


def _by_code(name: str, value: Any) -> Any:
    """Return weights and counts by label, -1 and 1 in a config, as another package's solver sees the labels."""
    if not (name.endswith(("class_weight", "class_weights", "sampling_strategy")) and isinstance(value, dict)):
        return value
    return {0 if label in (-1, "-1") else label: of_label for label, of_label in value.items()}


def build_kernel(method: MethodConfig, chosen: dict[str, Any], seed: int) -> Any:
    """Return the unfitted kernel features of a method, seeded, or None if it has no kernel."""
    entry = catalogue.kernel(method.kernel)
    if entry is None:
        return None
    given = {GAMMA_FACTOR: chosen[GAMMA_FACTOR]} if GAMMA_FACTOR in chosen else {}
    return entry.build_seeded(seed_for(seed, "kernel"), **(method.kernel_params | given))


def refuse_too_large(method: MethodConfig, samples: tuple[Sample, ...]) -> None:
    """Raise the ValueError of kernel or solver if a sample needs too much memory: now, not after hours of folds.

    A kernel is fitted to the sample, and its features of all training rows are scored.
    """
    kernel, solver = build_kernel(method, {}, 0), build_solver(method, {}, 0)
    for sample in samples:
        n_pos = sample.n_pos + sample.n_added_pos
        n_neg = sample.n_neg + sample.n_added - sample.n_added_pos
        if kernel is not None:
            kernel.check_size(n_pos + n_neg, sample.n_before)
        if hasattr(solver, "check_size"):
            solver.check_size(n_pos, n_neg)
