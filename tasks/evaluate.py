"""Evaluate: one model's metrics on its training and its test rows, at the threshold set in training."""

import numpy as np

from aucsolvers.metrics import average_precision, delong, gmean, roc_curve_points, sensitivity, specificity
from aucsolvers.process import one_blas_thread
from tasks.convert import load
from tasks.digests import array_sha256
from tasks.moments import shown
from tasks.progress import announce
from tasks.stage import stage
from tasks.values import Dataset, Evaluation, FittedModel, Scores, Split, Table


def score_rows(model: FittedModel, rows: Table) -> tuple[Scores, np.ndarray]:
    """Return the metrics of a model on some rows, and its scores there; BLAS threads are the caller's to limit."""
    scores = model.pipeline.decision_function(rows.X)
    interval = delong(rows.y, scores, rows.groups)
    predicted = np.where(scores > model.threshold, 1, -1)
    metrics = Scores(
        auc=interval.auc,
        auc_low=interval.low,
        auc_high=interval.high,
        auc_variance=interval.variance,
        gmean=gmean(rows.y, predicted),
        sensitivity=sensitivity(rows.y, predicted),
        specificity=specificity(rows.y, predicted),
        average_precision=average_precision(rows.y, scores),
        n_pos=int((rows.y > 0).sum()),
        n_neg=int((rows.y < 0).sum()),
    )
    return metrics, scores


@stage(name="evaluate", task_run_name="evaluate {dataset.name}")
def evaluate(dataset: Dataset, splits: tuple[Split, ...], models: tuple[FittedModel, ...]) -> tuple[Evaluation, ...]:
    """Evaluate each split's model on that split's training and test rows."""
    table = load(dataset)
    evaluations = []
    with one_blas_thread():  # as in training: more threads may add in another order
        for split, model in zip(splits, models, strict=True):
            announce("evaluate", dataset.name, fold=split.fold)
            test = table.rows(split.test)
            test_metrics, scores = score_rows(model, test)
            fpr, tpr, _ = roc_curve_points(test.y, scores)
            train_metrics, _ = score_rows(model, table.rows(split.train))
            span = None if test.times is None else (shown(test.times.min()), shown(test.times.max()))
            told = (train_metrics, test_metrics, fpr, tpr, scores, array_sha256(scores), span)
            evaluations.append(Evaluation(split.fold, model.threshold, *told))
    return tuple(evaluations)
