"""Train: λ (or C) by inner cross-validation on the training rows, then one fit on the sample.

The inner folds repeat the whole chain (preprocessing, sampler, solver) inside their own training part; they
share it over the grid, for neither preprocessing nor sampler depends on λ.
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
from tasks.split import make_splits
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
    """Raise the solver's own ValueError if it has too little memory for a sample: now, not after hours of folds."""
    solver = build_solver(method, {}, 0)
    for sample in samples:
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
    search = search_parameter(table.rows(split.train), method, config, seed, tell)
    tell(detail="fit")
    searched = time.perf_counter()
    name, _ = method.search
    chosen = {name: best_value(name, search)}
    kept = table.rows(sample.rows)
    solver = build_solver(method, chosen, seed)
    solver.fit(transform(sample.preprocessing, kept.X), kept.y)
    fitted = time.perf_counter()
    pipeline = Pipeline([("preprocessing", sample.preprocessing), ("solver", solver)])
    whole = table.rows(split.train)
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


def search_parameter(
    train: Table,
    method: MethodConfig,
    config: ExperimentConfig,
    seed: int,
    tell: Callable[..., None] = announce_nothing,
) -> dict[str, list[float]]:
    """Return the grid with mean and standard deviation of its scores over the inner validation folds.

    A grid of one value is not searched: its score is NaN. So is every score where a class has fewer rows
    than two inner folds need.
    """
    _, values = method.search
    folds = min(config.validation.inner_folds, int((train.y > 0).sum()), int((train.y < 0).sum()))
    if len(values) == 1 or folds < 2:
        return {"value": list(values), "mean": [float("nan")] * len(values), "sd": [float("nan")] * len(values)}
    scores = []
    for inner in make_splits(train.y, folds, 1, seed_for(seed, "inner splits")):
        tell(detail=f"search {inner.fold + 1}/{folds}")
        scores.append(_validation_scores(train, inner, method, config, seed_for(seed, "inner", inner.fold)))
    mean, sd = np.mean(scores, axis=0), np.std(scores, axis=0, ddof=1)
    return {"value": list(values), "mean": mean.tolist(), "sd": sd.tolist()}


def _validation_scores(
    train: Table, inner: Split, method: MethodConfig, config: ExperimentConfig, seed: int
) -> list[float]:
    name, values = method.search
    sample = draw_sample(train, inner, method, config.preprocessing, seed)
    kept, held_out = train.rows(sample.rows), train.rows(inner.test)
    X, X_held_out = transform(sample.preprocessing, kept.X), transform(sample.preprocessing, held_out.X)
    scores = []
    for value in values:
        solver = build_solver(method, {name: value}, seed).fit(X, kept.y)
        if config.validation.select_by == "auc":
            scores.append(auc(held_out.y, solver.decision_function(X_held_out)))
        else:
            scores.append(_validation_gmean(solver, train, inner, sample, held_out.y, X_held_out))
    return scores


def _validation_gmean(
    solver: Any, train: Table, inner: Split, sample: Sample, y_held_out: np.ndarray, X_held_out: np.ndarray
) -> float:
    """G-mean at the threshold that the final model would take: from all training rows, kept or not."""
    whole = train.rows(inner.train)
    threshold = best_gmean_threshold(whole.y, solver.decision_function(transform(sample.preprocessing, whole.X)))
    return gmean(y_held_out, np.where(solver.decision_function(X_held_out) > threshold, 1, -1))


def best_value(name: str, search: dict[str, list[float]]) -> float:
    """Return the value with the highest mean score; of equals the most regularised: the largest λ, the smallest C.

    Where nothing was scored it is the middle of the grid.
    """
    values, means = np.array(search["value"]), np.array(search["mean"])
    if np.isnan(means).all():
        return float(values[len(values) // 2])
    best = values[means >= np.nanmax(means) - 1e-12]
    return float(best.min() if name == "C" else best.max())


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
    entry = catalogue.solver(method.solver)
    params = method.params | chosen
    if "random_state" in entry.parameter_names():
        params = params | {"random_state": seed}
    return entry.build(**params)
