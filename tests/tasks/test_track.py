"""What goes to MLflow of each fold."""

from collections import Counter
from dataclasses import replace

import numpy as np
from sample_results import experiment

from tasks.track import _fold_metrics


def test_a_metric_of_the_folds_has_a_value_for_each_or_for_none():
    """MLflow shows the last value of each: the interval of one fold would stand beside the AUC of another."""
    cell, *_ = experiment().results
    *others, last = cell.evaluations
    flawless = replace(last.test, auc=1.0, auc_low=np.nan, auc_high=np.nan, auc_variance=np.nan)
    counts = Counter(
        name for name, *_ in _fold_metrics(replace(cell, evaluations=(*others, replace(last, test=flawless))))
    )
    told = {name: number for name, number in counts.items() if name.startswith(("test_", "train_"))}
    assert set(told.values()) == {len(cell.evaluations)}
    assert "test_auc" in told and "train_auc_low" in told
    assert not {"test_auc_low", "test_auc_high", "test_auc_variance"} & set(told)
    assert {"test_auc_low", "test_auc_high", "test_auc_variance"} < {name for name, *_ in _fold_metrics(cell)}
