"""Calibrate: probabilities from scores, and thresholds, by rows that a model was not fitted on, where a config asks.

Scores of rows that a solver was fitted on are too good, and a sample's classes have other shares than the data's. So
both are set on scores of all real training rows, each from a model that was not fitted on it.
"""

from typing import Any

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from aucsolvers.adapters import ScoreColumn
from tasks.configuration import ExperimentConfig, MethodConfig
from tasks.fit import fit_scorer
from tasks.search import inner_splits, standardised
from tasks.seeds import seed_for
from tasks.values import Split, Table


def fit_calibrator(scores: np.ndarray, y: np.ndarray, how: str) -> CalibratedClassifierCV:
    """Return what turns a column of scores into probabilities: ``how`` is "sigmoid" or "isotonic"."""
    column = scores.reshape(-1, 1)
    frozen = FrozenEstimator(ScoreColumn().fit(column, y))
    # nothing is fitted in the folds of a frozen estimator: two are the fewest that it takes
    return CalibratedClassifierCV(frozen, method=how, cv=2, ensemble=False).fit(column, y)


def calibration_splits(train: Table, config: ExperimentConfig, seed: int) -> tuple[Split, ...]:
    """Return the divisions for ``out_of_fold_scores``; none where training rows do not go into two folds."""
    return inner_splits(train, config, seed_for(seed, "calibration splits"))


def out_of_fold_scores(
    train: Table,
    splits: tuple[Split, ...],
    model: Pipeline,
    method: MethodConfig,
    candidates: tuple[dict[str, Any], ...],
    config: ExperimentConfig,
    seed: int,
) -> np.ndarray:
    """Return each training row's score by the chain of preprocessing, sampler, kernel and solver fitted without it.

    Of several candidates it is the score of their committee.

    They are for use with ``model``, fitted on all of them: a fold's scores are shifted and stretched so that its model
    and ``model`` have one median and one standard deviation on the rows that both were fitted on.
    """
    if not splits:
        raise ValueError(
            "Expected two rows of each class, not all copies of one, for probabilities or an out-of-fold threshold, "
            "got fewer. Leave them out."
        )
    usual, scores = model.decision_function(train.X), np.empty(len(train.y))
    for inner in splits:
        own = seed_for(seed, "calibration", inner.fold)
        found = fit_scorer(train, inner, method, candidates, config.preprocessing, own).decision_function(train.X)
        own_units = standardised(found[inner.test], found[inner.train])
        scores[inner.test] = own_units * usual[inner.train].std() + np.median(usual[inner.train])
    return scores
