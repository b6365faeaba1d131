"""Metrics are those of the rows that they are said to be of, each under its name."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from aucsolvers.metrics import auc
from tasks.convert import convert, load
from tasks.download import download
from tasks.evaluate import evaluate, score_rows
from tasks.split import make_splits
from tasks.values import ConversionRule, Table


def blobs(n=100, ratio=5):
    rng = np.random.default_rng(0)
    y = np.where(np.arange(n) % ratio == 0, 1, -1).astype(np.int8)
    return Table(pd.DataFrame(rng.normal(size=(n, 3)) + (y > 0)[:, None], columns=list("abc")), y)


class Column:
    def decision_function(self, X):
        return X["a"].to_numpy()


class Fitted:
    pipeline, threshold = Column(), 2.0


def test_metrics_are_of_the_scores_above_the_threshold_each_under_its_name():
    """A score of the threshold itself is negative, as Ranker.classify has it."""
    rows = Table(pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0, 0.0, 2.0, 3.0, 0.0, 1.0, 1.0]}), np.repeat([1, -1], [4, 6]))
    metrics, scores = score_rows(Fitted(), rows)
    assert scores.tolist() == rows.X["a"].tolist()
    assert (metrics.sensitivity, metrics.specificity) == (2 / 4, 5 / 6)
    assert metrics.gmean == pytest.approx(np.sqrt(2 / 4 * 5 / 6))
    assert (metrics.n_pos, metrics.n_neg) == (4, 6)
    assert metrics.auc_low < metrics.auc < metrics.auc_high and metrics.auc_variance > 0


def test_each_models_metrics_are_of_its_own_splits_rows_under_their_names(tmp_path):
    """Nothing but their names was asked of training metrics: those of the test rows would have gone for them."""
    blobs().X.assign(sign=blobs().y).to_csv(tmp_path / "blobs.csv", index=False)
    dataset = convert.fn(download.fn("blobs", str(tmp_path / "blobs.csv"), None), ConversionRule("sign", "1"))
    table = load(dataset)
    splits = make_splits(table.y, 3, 1, seed=0)
    models = [SimpleNamespace(pipeline=Column(), threshold=0.1 * split.fold) for split in splits]
    for split, model, told in zip(splits, models, evaluate.fn(dataset, splits, models), strict=True):
        train, test = table.rows(split.train), table.rows(split.test)
        assert told.train == score_rows(model, train)[0] and told.test == score_rows(model, test)[0]
        assert told.test.auc == pytest.approx(auc(test.y, test.X["a"])) and told.test.auc != told.train.auc
        assert (told.fold, told.threshold) == (split.fold, model.threshold)
