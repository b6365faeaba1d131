"""Calibrate: probabilities from scores, and thresholds, by rows that a model was not fitted on, where a config asks.

Scores of rows that a solver was fitted on are too good, and a sample's classes have other shares than the data's. So
both are set on scores of all real training rows, each from a model that was not fitted on it.
"""

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from aucsolvers.adapters import ScoreColumn, scores_by_probability
from aucsolvers.threshold import Scores, landmarks, left_out_scores
from tasks.configuration import ExperimentConfig, MethodConfig
from tasks.convert import load
from tasks.fit import Samples, fit_scorer
from tasks.log import run_logger
from tasks.search import inner_splits, threshold_rule
from tasks.seeds import seed_for
from tasks.split import kept_together
from tasks.undersample import draw_sample, remainder, sampler_stands
from tasks.values import Dataset, Split, Table, n_rare


def fit_calibrator(scores: np.ndarray, y: np.ndarray, how: str) -> CalibratedClassifierCV:
    """Return what turns a column of scores into probabilities: ``how`` is "sigmoid" or "isotonic".

    They never fall as scores rise. Where the scores of rows left out say no better, all rows have one probability.
    """
    calibrator = _calibrated(scores, y, how)
    if np.diff(calibrator.predict_proba(np.array([[scores.min()], [scores.max()]]))[:, 1]).item() < 0:
        run_logger().info("scores of rows left out rank no better than chance: one probability for all")
        return _calibrated(np.zeros(len(y)), y, how)
    return calibrator


def _calibrated(scores: np.ndarray, y: np.ndarray, how: str) -> CalibratedClassifierCV:
    column = scores.reshape(-1, 1)
    frozen = FrozenEstimator(ScoreColumn().fit(column, y))
    # nothing is fitted in the folds of a frozen estimator: two are the fewest that it takes
    return CalibratedClassifierCV(frozen, method=how, cv=2, ensemble=False).fit(column, y)


def calibration_splits(train: Table, config: ExperimentConfig) -> tuple[Split, ...]:
    """Return the divisions for ``out_of_fold_scores``; none where training rows do not go into two folds."""
    return inner_splits(train, config, "calibration splits")


def settle_threshold(
    config: ExperimentConfig, method: MethodConfig, dataset: Dataset, splits: tuple[Split, ...]
) -> ExperimentConfig:
    """Return the config with ``threshold: auto`` decided for all models of a method, those of the folds and the last.

    Decided fold by fold, near the border or where not all training rows divide, the folds would estimate another rule
    than the one that the last model goes by. The fold with the fewest rare rows decides.
    """
    if config.validation.threshold != "auto":
        return config
    table = load(dataset)
    fewest = min(splits, key=lambda split: n_rare(table.y[split.train]))
    # where any row may go anywhere the rarer class alone says whether training rows divide
    free = table.groups is None and table.times is None and not config.validation.grouped
    divided = [calibration_splits(table.rows(split.train), config) for split in ((fewest,) if free else splits)]
    rule = threshold_rule(table.rows(fewest.train), min(divided, key=len), method, config)
    return config.model_copy(update={"validation": config.validation.model_copy(update={"threshold": rule})})


def out_of_fold_scores(
    table: Table,
    split: Split,
    samples: Samples,
    divisions: tuple[Split, ...],
    model: Pipeline,
    method: MethodConfig,
    candidates: tuple[dict[str, Any], ...],
    config: ExperimentConfig,
    seed: int,
) -> np.ndarray:
    """Return a score for each training row of a split, by the chain of a model that was not fitted on it.

    Of rows that the sampler dropped it is the score by ``model`` itself, fitted on what was kept. For the others the
    chain is fitted once for each of the ``divisions`` of the training rows. A sampler whose choice stands is not asked
    again: of those that it kept, a fold's are left out. Any other is asked again, without the fold's.

    Of several candidates it is the score of their committee.

    A fold's scores are in the unit of ``model``'s, as ``left_out_scores`` tells; probabilities are taken as they are.
    """
    if not divisions:
        raise ValueError(
            "Expected two rows of each class, not all copies of one, for probabilities or an out-of-fold threshold, "
            "got fewer. Leave them out."
        )
    train = table.rows(split.train)
    stands = sampler_stands(method)
    usual = _scored(model, train.X, stands)
    kept = _kept(train, split, samples, config) if stands else np.ones(len(train.y), dtype=bool)
    scores = usual.values.copy()
    for inner in divisions:
        own, part = seed_for(seed, "calibration", inner.fold), Split(inner.fold, split.train[inner.train], inner.test)
        parts = _samples_of_part(table, part, samples, stands, method, config, own)
        found = _scored(fit_scorer(table, part, parts, method, candidates, own), train.X, stands)
        left_out, both = inner.test[kept[inner.test]], inner.train[kept[inner.train]]
        as_they_are = scores_by_probability(model)
        scores[left_out] = left_out_scores(usual, [(both, left_out)], [found], as_they_are)[left_out]
    return scores


def _scored(model: Pipeline, X: Any, stands: bool) -> Scores:
    """Return the scores of rows; without landmarks behind a sampler that is asked again, as in GMeanThreshold."""
    scores = np.asarray(model.decision_function(X), dtype=np.float64)
    return Scores(scores, landmarks(model, X) if stands else None)


def _samples_of_part(
    table: Table,
    part: Split,
    samples: Samples,
    stands: bool,
    method: MethodConfig,
    config: ExperimentConfig,
    seed: int,
) -> Samples:
    """Return what a part of the training rows has left of the samples, drawn anew where their choice does not stand."""
    settled = {scale: config.preprocessing.settled(scale) for scale in samples}
    return {
        scale: (stands and remainder(table, part, sample, method, settled[scale]))
        or draw_sample(table, part, method, settled[scale], seed)
        for scale, sample in samples.items()
    }


def _kept(train: Table, split: Split, samples: Samples, config: ExperimentConfig) -> np.ndarray:
    """Return which training rows have a part in a model: those of its samples, or all where these repeat some.

    Rows that stay together with such a row have it too.
    """
    parts = [np.isin(split.train, sample.rows) | (sample.added is not None) for sample in samples.values()]
    kept = np.any(parts, axis=0)
    together = kept_together(train, config.validation.grouped)
    return kept if together is None else np.isin(together, together[kept])
