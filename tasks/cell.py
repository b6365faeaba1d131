"""A cell: one method on one data set, from its rows to its results.

A run goes through these stages as tasks of its flow, a replay as plain functions: ``call`` is how a stage is called,
and nothing else tells the two apart.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tasks.calibrate import settle_threshold
from tasks.catalogue import short_name
from tasks.check import check
from tasks.configuration import DENSE_ONLY, ExperimentConfig, MethodConfig
from tasks.errors import BadInput
from tasks.evaluate import evaluate
from tasks.search import search
from tasks.seeds import seed_for
from tasks.split import HeldOut, all_rows, split
from tasks.stopwatch import Stopwatch
from tasks.train import train
from tasks.undersample import settle_sampler, undersample
from tasks.values import Dataset, MethodResult, Prepared, Split

Call = Callable[..., Any]  # (stage, *arguments) -> what the stage returns


def as_task(stage: Any, *arguments: Any) -> Any:
    """Call a stage as a task of the flow around it."""
    return stage(*arguments)


def plainly(stage: Any, *arguments: Any) -> Any:
    """Call a stage as the function that it is, without Prefect."""
    return stage.fn(*arguments)


def cell_seed(config: ExperimentConfig, dataset: str, method: MethodConfig) -> int:
    """Return the seed of all draws of one method on one data set, whatever else the experiment has."""
    return seed_for(config.seed, dataset, method.label)


def divide(dataset: Dataset, config: ExperimentConfig, call: Call = as_task) -> Prepared:
    """Check a data set and divide its rows: the same for every method, and so is what is held out of each version."""
    _refuse_scales(dataset, config)
    validation = config.validation
    plan = (validation.folds, validation.repeats, seed_for(config.seed, dataset.name, "split"), validation.grouped)
    held_out = HeldOut.of(validation.held_out, config.seed)
    findings = call(check, dataset, *plan, held_out)
    return Prepared(
        dataset, findings, call(split, dataset, *plan, held_out), all_rows(dataset, held_out, validation.grouped)
    )


def _refuse_scales(dataset: Dataset, config: ExperimentConfig) -> None:
    """Refuse a method that has no scale for sparse data, where the data are sparse."""
    for method in config.methods if dataset.is_sparse else ():
        scales = method.scales(config.preprocessing.scales)
        if set(scales) <= DENSE_ONLY:
            raise BadInput(
                f"Expected {method.label} to have a scale that sparse data can take, got {scales[0]} alone. Name "
                "another, such as standard, minmax or quantile."
            )


def compute(
    prepared: Prepared, method: MethodConfig, config: ExperimentConfig, seed: int, call: Call = as_task
) -> MethodResult:
    """Take one method through all folds of one data set, and through the refit on all rows but those held out.

    Compiling kernels, which a machine does once, is timed apart.
    """
    stopwatch = Stopwatch(threads=True)
    result = _compute(prepared, method, config, seed, call)
    seconds, compile_s = stopwatch.read()
    return replace(result, seconds=seconds, compile_s=compile_s)


def _compute(prepared: Prepared, method: MethodConfig, config: ExperimentConfig, seed: int, call: Call) -> MethodResult:
    dataset, splits, refit = prepared.dataset, prepared.splits, prepared.refit
    settled = settle_sampler(method, dataset)
    config = settle_threshold(config, settled, dataset, prepared.divisions)
    choices = call(search, dataset, prepared.divisions, settled, config, seed)
    samples = call(undersample, dataset, prepared.divisions, choices, settled, config.preprocessing, seed)
    models = call(train, dataset, prepared.divisions, samples, choices, settled, config, seed)
    evaluations = call(evaluate, dataset, splits, models[:-1])
    return MethodResult(
        **identity(dataset, method),
        samples=samples,
        models=models[:-1],
        evaluations=evaluations,
        final=models[-1],
        held_out=call(evaluate, dataset, (refit,), models[-1:])[0] if len(refit.test) else None,
        repeats=config.validation.repeats,
        test_to_train=None if dataset.rule.time is None else _test_to_train(splits),
    )


def _test_to_train(splits: tuple[Split, ...]) -> float:
    """Return how many rows are tested for each that trains, by the mean over folds of the share that is tested."""
    share = float(np.mean([len(split.test) / (len(split.test) + len(split.train)) for split in splits]))
    return share / (1.0 - share)


def identity(dataset: Dataset, method: MethodConfig) -> dict[str, Any]:
    """Return what a cell is called in tables."""
    return {
        "dataset": dataset.name,
        "method": method.label,
        "solver": short_name(method.solver),
        "sampler": short_name(method.sampler),
        "kernel": method.kernel,
        "committee": method.committee,
        "probabilities": method.probabilities,
    }
