"""Train: one fit per split, on its sample, with the parameters that were chosen for it; then its threshold."""

import time
from functools import partial

import numpy as np
from joblib import Parallel, delayed

from tasks.calibrate import fit_calibrator, out_of_fold_scores
from tasks.configuration import ExperimentConfig, MethodConfig
from tasks.convert import load
from tasks.fit import fit_pipeline, reproducible_fits
from tasks.log import run_logger
from tasks.progress import announce
from tasks.search import best_cut
from tasks.seeds import seed_for
from tasks.stage import stage
from tasks.values import UNCERTIFIED, Choice, Dataset, FittedModel, Sample, Split, Table

NO_HISTORY = {name: np.empty(0) for name in ("updates", "objective", "dual_gap", "auc", "time_s")}


@stage(name="train", task_run_name="train {dataset.name} {method.label}")
def train(
    dataset: Dataset,
    splits: tuple[Split, ...],
    samples: tuple[Sample, ...],
    choices: tuple[Choice, ...],
    method: MethodConfig,
    config: ExperimentConfig,
    seed: int,
) -> tuple[FittedModel, ...]:
    """Fit one model per split, ``config.workers`` at a time; the result does not depend on how many."""
    table = load(dataset)
    tell = partial(announce, "train", dataset.name, method.label)
    searched = len(method.candidates(config.preprocessing.scales)) > 1

    def one(split: Split, sample: Sample, choice: Choice) -> FittedModel:
        tell(split.fold)
        model = fit_model(table, split, sample, choice, method, config, seed_for(seed, "train", split.fold))
        if not searched:  # else the search was the step, for it took the time
            tell(split.fold, done=True)
        return model

    with reproducible_fits():
        models = Parallel(n_jobs=config.workers, backend="threading")(
            delayed(one)(*parts) for parts in zip(splits, samples, choices, strict=True)
        )
    for model in models:
        run_logger().info("fold %s: %s, certificate %.3g", model.fold, model.status, model.certificate)
    return tuple(models)


def fit_model(
    table: Table,
    split: Split,
    sample: Sample,
    choice: Choice,
    method: MethodConfig,
    config: ExperimentConfig,
    seed: int,
) -> FittedModel:
    """Fit on the sample with the chosen parameters, set the threshold on the scores of the real training rows."""
    start = time.perf_counter()
    pipeline = fit_pipeline(table, sample, method, choice.chosen, seed)
    fitted = time.perf_counter()
    whole, solver = table.rows(split.train), pipeline[-1]
    by_itself, held_out = config.validation.threshold == "training", None
    if not by_itself or method.probabilities is not None:
        held_out = out_of_fold_scores(whole, pipeline, method, choice.chosen, config, seed)
    cut = best_cut(config.validation)
    return FittedModel(
        fold=split.fold,
        pipeline=pipeline,
        chosen=choice.chosen,
        search=choice.search,
        threshold=cut(whole.y, pipeline.decision_function(whole.X) if by_itself else held_out),
        objective=getattr(solver, "objective_", float("nan")),
        dual_gap=getattr(solver, "dual_gap_", float("nan")),
        status=getattr(solver, "status_", UNCERTIFIED),
        n_iter=solver.n_iter_ if hasattr(solver, "history_") else 0,
        history=getattr(solver, "history_", NO_HISTORY),
        fit_s=fitted - start,
        search_s=choice.seconds,
        calibrator=fit_calibrator(held_out, whole.y, method.probabilities) if method.probabilities else None,
    )
