"""Train: one fit per split, on its sample, with the parameters that were chosen for it; then its threshold."""

from functools import partial
from math import isfinite
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from aucsolvers.adapters import chains
from tasks.calibrate import calibration_splits, fit_calibrator, out_of_fold_scores
from tasks.configuration import ExperimentConfig, MethodConfig
from tasks.convert import load
from tasks.fit import draw_samples, fit_scorer
from tasks.log import run_logger
from tasks.progress import announce
from tasks.search import best_candidates, best_cut, threshold_rule
from tasks.seeds import seed_for
from tasks.stage import stage
from tasks.stopwatch import Stopwatch
from tasks.threads import each
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

    def one(split: Split, sample: Sample, choice: Choice) -> FittedModel:
        tell(split.fold)
        model = fit_model(table, split, sample, choice, method, config, seed_for(seed, "train", split.fold))
        tell(split.fold, done=True)
        return model

    models = each(one, zip(splits, samples, choices, strict=True), config.workers)
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
    """Fit on the sample with the chosen parameters, set the threshold on the scores of the real training rows.

    The certificate of a committee is that of its least certified member.
    """
    stopwatch = Stopwatch()
    candidates = _chosen(choice, method)
    samples = draw_samples(table, split, method, candidates, config.preprocessing, seed, sample)
    pipeline = fit_scorer(table, split, samples, method, candidates, seed)
    fit_s, _ = stopwatch.read()
    whole, solver = table.rows(split.train), least_certified(pipeline)
    by_others = method.probabilities is not None or config.validation.threshold != "training"
    splits, held_out = calibration_splits(whole, config) if by_others else (), np.empty(0)
    rule = threshold_rule(whole, splits, method, config)
    by_itself = rule == "training"
    if not by_itself or method.probabilities is not None:
        held_out = out_of_fold_scores(table, split, samples, splits, pipeline, method, candidates, config, seed)
    cut = best_cut(rule)
    return FittedModel(
        fold=split.fold,
        pipeline=pipeline,
        chosen=choice.chosen,
        search=choice.search,
        threshold=cut(whole.y, pipeline.decision_function(whole.X) if by_itself else held_out),
        **_certificate(solver),
        fit_s=fit_s,
        search_s=choice.seconds,
        calibrator=fit_calibrator(held_out, whole.y, method.probabilities) if method.probabilities else None,
        threshold_set_on=rule,
        found_nothing=any(getattr(chain[-1], "found_nothing_", False) for chain in chains(pipeline)),
    )


def _certificate(solver: Any) -> dict[str, Any]:
    """Return what a solver says of its optimum; of another package's, that it says nothing."""
    return {
        "objective": getattr(solver, "objective_", float("nan")),
        "dual_gap": getattr(solver, "dual_gap_", float("nan")),
        "status": getattr(solver, "status_", UNCERTIFIED),
        "n_iter": solver.n_iter_ if hasattr(solver, "history_") else 0,
        "history": getattr(solver, "history_", NO_HISTORY),
        "gap_unit": getattr(solver, "gap_unit_", 1.0),
    }


def _chosen(choice: Choice, method: MethodConfig) -> tuple[dict[str, Any], ...]:
    """Return the candidates that are fitted: the one that was chosen, and those behind it that make a committee."""
    if method.committee == 1:
        return (choice.chosen,)
    return best_candidates(method.main_parameter, choice.search, method.committee)


def least_certified(pipeline: Pipeline) -> Any:
    """Return the fitted solver, of a committee the one furthest from its optimum: not converged, then largest gap."""
    return max((chain[-1] for chain in chains(pipeline)), key=_doubt)


def _doubt(solver: Any) -> tuple[bool, float]:
    """Return whether a solver stopped early, and its gap in units of the objective at w = 0; infinite without one."""
    gap = getattr(solver, "dual_gap_", float("nan"))
    if not isfinite(gap):
        return True, float("inf")
    return solver.status_ != "converged", gap / getattr(solver, "gap_unit_", 1.0)
