"""Train: λ (or C) and a kernel's γ by inner cross-validation on the training rows, then one fit on the sample.

The inner folds repeat the whole chain (preprocessing, sampler, kernel, solver) inside their own training part; they
share it over the grid, for neither preprocessing nor sampler depends on λ or γ, nor a kernel's features on λ.
"""

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline
from threadpoolctl import threadpool_limits

from aucsolvers.metrics import auc, best_gmean_threshold, gmean
from tasks import catalogue
from tasks.configuration import ExperimentConfig, MethodConfig
from tasks.convert import load
from tasks.log import run_logger
from tasks.preprocess import transform
from tasks.progress import announce
from tasks.seeds import seed_for
from tasks.split import make_splits, row_keys
from tasks.stage import stage
from tasks.undersample import draw_sample
from tasks.values import Dataset, FittedModel, Sample, Split, Table


def announce_nothing(**_: Any) -> None:
    """Stand in for `announce` where nobody asked to be told."""


@stage(name="train", task_run_name="train {dataset.name} {method.label}")
def train(
    dataset: Dataset,
    splits: tuple[Split, ...],
    samples: tuple[Sample, ...],
    method: MethodConfig,
    config: ExperimentConfig,
    seed: int,
) -> tuple[FittedModel, ...]:
    """Fit one model per split, ``config.workers`` at a time; the result does not depend on how many."""
    table = load(dataset)
    refuse_too_large(method, samples)

    def one(split: Split, sample: Sample) -> FittedModel:
        tell = partial(announce, "train", dataset.name, method.label, split.fold)
        model = fit_model(table, split, sample, method, config, seed_for(seed, "train", split.fold), tell)
        announce("train", dataset.name, method.label, split.fold, done=True)
        return model

    with reproducible_fits():
        models = Parallel(n_jobs=config.workers, backend="threading")(
            delayed(one)(split, sample) for split, sample in zip(splits, samples, strict=True)
        )
    for model in models:
        run_logger().info(
            "fold %s: chose %s by inner validation; %s, certificate %.3g",
            model.fold,
            model.chosen,
            model.status,
            model.certificate,
        )
    return tuple(models)


def refuse_too_large(method: MethodConfig, samples: tuple[Sample, ...]) -> None:
    """Raise the ValueError of kernel or solver if a sample needs too much memory: now, not after hours of folds.

    A kernel is fitted to the sample, and its features of all training rows are scored.
    """
    kernel, solver = build_kernel(method, {}, 0), build_solver(method, {}, 0)
    for sample in samples:
        if kernel is not None:
            kernel.check_size(sample.n_pos + sample.n_neg, sample.n_pos + sample.n_neg_before)
        if hasattr(solver, "check_size"):
            solver.check_size(sample.n_pos, sample.n_neg)


def fit_model(
    table: Table,
    split: Split,
    sample: Sample,
    method: MethodConfig,
    config: ExperimentConfig,
    seed: int,
    tell: Callable[..., None] = announce_nothing,
) -> FittedModel:
    """Choose λ on the training rows of the split, fit on the sample, set the threshold on the training scores."""
    start = time.perf_counter()
    whole, kept = table.rows(split.train), table.rows(sample.rows)
    search = search_parameters(whole, method, config, seed, tell)
    tell(detail="fit")
    searched = time.perf_counter()
    chosen = best_candidate(method.search[0], search)
    steps = [("preprocessing", sample.preprocessing)]
    X = transform(sample.preprocessing, kept.X)
    kernel, solver = build_kernel(method, chosen, seed), build_solver(method, chosen, seed)
    if kernel is not None:
        X = kernel.fit_transform(X, kept.y)
        steps.append(("kernel", kernel))
    solver.fit(X, kept.y)
    fitted = time.perf_counter()
    pipeline = Pipeline([*steps, ("solver", solver)])
    return FittedModel(
        fold=split.fold,
        pipeline=pipeline,
        chosen=chosen,
        search=search,
        threshold=best_gmean_threshold(whole.y, pipeline.decision_function(whole.X)),
        objective=solver.objective_,
        dual_gap=solver.dual_gap_,
        status=solver.status_,
        n_iter=solver.n_iter_,
        history=solver.history_,
        fit_s=fitted - searched,
        search_s=searched - start,
    )


def search_parameters(
    train: Table,
    method: MethodConfig,
    config: ExperimentConfig,
    seed: int,
    tell: Callable[..., None] = announce_nothing,
) -> dict[str, list[float]]:
    """Return the grid with mean and standard deviation of its scores over the inner validation folds.

    A candidate is a value of the solver's parameter ("value") and, with a kernel, a multiple of γ ("gamma_factor").
    A grid of one candidate is not searched: its score is NaN. So is every score where a class has fewer rows
    than two inner folds need.
    """
    values, factors = method.search[1], method.gamma_search
    grid = {"value": list(values) * max(1, len(factors))}
    if factors:
        grid["gamma_factor"] = np.repeat(factors, len(values)).tolist()
    folds = min(config.validation.inner_folds, int((train.y > 0).sum()), int((train.y < 0).sum()))
    if len(grid["value"]) == 1 or folds < 2:
        unknown = [float("nan")] * len(grid["value"])
        return grid | {"mean": unknown, "sd": unknown}
    scores = []
    groups = row_keys(train.X) if config.validation.grouped else None
    for inner in make_splits(train.y, folds, 1, seed_for(seed, "inner splits"), groups):
        tell(detail=f"search {inner.fold + 1}/{folds}")
        scores.append(_validation_scores(train, inner, method, config, seed_for(seed, "inner", inner.fold)))
    mean, sd = np.mean(scores, axis=0), np.std(scores, axis=0, ddof=1)
    return grid | {"mean": mean.tolist(), "sd": sd.tolist()}


def _validation_scores(
    train: Table, inner: Split, method: MethodConfig, config: ExperimentConfig, seed: int
) -> list[float]:
    """Return every candidate's score on the rows that one inner fold holds out, in the order of the grid."""
    sample = draw_sample(train, inner, method, config.preprocessing, seed)
    parts = {"kept": train.rows(sample.rows), "held out": train.rows(inner.test)}
    if config.validation.select_by == "gmean":
        parts["whole"] = train.rows(inner.train)
    prepared = {part: transform(sample.preprocessing, rows.X) for part, rows in parts.items()}
    y = {part: rows.y for part, rows in parts.items()}
    name, values = method.search
    scores = []
    for factor in method.gamma_search or (1.0,):
        X = prepared
        kernel = build_kernel(method, {"gamma_factor": factor}, seed)
        if kernel is not None:
            kernel.fit(prepared["kept"], y["kept"])
            X = {part: kernel.transform(rows) for part, rows in prepared.items()}
        for value in values:
            solver = build_solver(method, {name: value}, seed).fit(X["kept"], y["kept"])
            scores.append(_validation_score(solver, X, y))
    return scores


def _validation_score(solver: Any, X: dict[str, Any], y: dict[str, np.ndarray]) -> float:
    """Return the AUC on the rows held out, or the G-mean if there are whole training rows to set its threshold on.

    The threshold is the one that the final model would take: from all training rows, kept by the sampler or not.
    """
    scores = solver.decision_function(X["held out"])
    if "whole" not in X:
        return auc(y["held out"], scores)
    threshold = best_gmean_threshold(y["whole"], solver.decision_function(X["whole"]))
    return gmean(y["held out"], np.where(scores > threshold, 1, -1))


def best_candidate(name: str, search: dict[str, list[float]]) -> dict[str, float]:
    """Return the candidate with the highest mean score, as parameters: ``name`` and, if searched, ``gamma_factor``.

    Of equals the most regularised: the largest λ or smallest C, then the smallest γ. Where nothing was scored it is
    the middle of each grid.
    """
    grid = {name: np.array(search["value"])}
    if "gamma_factor" in search:
        grid["gamma_factor"] = np.array(search["gamma_factor"])
    means = np.array(search["mean"])
    if np.isnan(means).all():
        return {key: float(np.unique(values)[len(np.unique(values)) // 2]) for key, values in grid.items()}
    best = np.flatnonzero(means >= np.nanmax(means) - 1e-12)
    regularised = [values if key in ("C", "gamma_factor") else -values for key, values in grid.items()]
    first = best[np.lexsort([values[best] for values in reversed(regularised)])[0]]
    return {key: float(values[first]) for key, values in grid.items()}


@contextmanager
def reproducible_fits() -> Iterator[None]:
    """Give BLAS one thread, so that sums are added in the same order however many folds run side by side.

    ConvergenceWarning is silent inside: status and certificate go into table and store. It is filtered here, once,
    for Python's filters belong to the process and not to the threads that fit.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def build_solver(method: MethodConfig, chosen: dict[str, float], seed: int) -> Any:
    """Return the unfitted solver of a method, seeded where it draws at random."""
    name, _ = method.search
    given = {name: chosen[name]} if name in chosen else {}
    return _build(catalogue.solver(method.solver), method.params | given, seed)


def build_kernel(method: MethodConfig, chosen: dict[str, float], seed: int) -> Any:
    """Return the unfitted kernel features of a method, seeded, or None if it has no kernel."""
    entry = catalogue.kernel(method.kernel)
    if entry is None:
        return None
    given = {"gamma_factor": chosen["gamma_factor"]} if "gamma_factor" in chosen else {}
    return _build(entry, method.kernel_params | given, seed_for(seed, "kernel"))


def _build(entry: catalogue.Entry, params: dict[str, Any], seed: int) -> Any:
    seeded = {"random_state": seed} if "random_state" in entry.parameter_names() else {}
    return entry.build(**params, **seeded)
