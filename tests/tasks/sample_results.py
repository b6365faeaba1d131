"""A realistic experiment for the tests of plots and report: real data and real scores from scikit-learn.

The classifiers stand in for the solvers, so that these tests need neither numba nor a flow; the search curves and the
histories are formulas with the shapes that the solvers' own have (geometric decay, a single exact point, a gap of 0).
"""

from functools import cache
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tasks.values import (
    ConversionRule,
    Dataset,
    Evaluation,
    ExperimentResult,
    Finding,
    FittedModel,
    MethodResult,
    Provenance,
    RawFile,
    Sample,
    Scores,
)

GRID = [10.0**e for e in range(-5, 2)]


def scores_of(y, scores, threshold=0.0):
    """Return the metrics of one set of rows; AUC variance by Hanley and McNeil (1982), near enough to DeLong's."""
    n_pos, n_neg = int((y > 0).sum()), int((y < 0).sum())
    auc = float(roc_auc_score(y, scores))
    q1, q2 = auc / (2 - auc), 2 * auc**2 / (1 + auc)
    variance = (auc * (1 - auc) + (n_pos - 1) * (q1 - auc**2) + (n_neg - 1) * (q2 - auc**2)) / (n_pos * n_neg)
    sensitivity, specificity = float((scores[y > 0] > threshold).mean()), float((scores[y < 0] <= threshold).mean())
    half = 1.96 * np.sqrt(variance)
    return Scores(
        auc=auc,
        auc_low=max(0.0, auc - half),
        auc_high=min(1.0, auc + half),
        auc_variance=variance,
        gmean=float(np.sqrt(sensitivity * specificity)),
        sensitivity=sensitivity,
        specificity=specificity,
        average_precision=float(average_precision_score(y > 0, scores)),
        n_pos=n_pos,
        n_neg=n_neg,
    )


def decaying_history(rate, points=30, updates_per_point=5000):
    """Return a history whose gap falls by `rate` at every point."""
    steps = np.arange(points)
    gap = 0.8 * rate**steps
    history = {"updates": steps * updates_per_point, "objective": 0.21 + 0.7 * gap, "dual_gap": gap}
    return {**history, "auc": 0.97 - 0.4 * gap, "time_s": 0.01 * steps}


def exact_history():
    """Return the history of a direct solver: one point, gap 0."""
    values = {"updates": 1.0, "objective": 0.23, "dual_gap": 0.0, "auc": 0.965, "time_s": 0.002}
    return {name: np.array([value]) for name, value in values.items()}


def fitted(fold, parameter, history, status="converged", best=3, height=0.97):
    """Return a model as `train` hands it on, but for the pipeline, which neither plots nor report look at."""
    mean = [height - 0.012 * abs(i - best) ** 1.5 for i in range(len(GRID))]
    return FittedModel(
        fold=fold,
        pipeline=None,
        chosen={parameter: GRID[best - (fold == 2)]},
        search={"value": GRID, "mean": mean, "sd": [0.008] * len(GRID)},
        threshold=0.0,
        objective=float(history["objective"][-1]),
        dual_gap=float(history["dual_gap"][-1]),
        status=status,
        n_iter=len(history["updates"]),
        history=history,
        fit_s=0.02,
        search_s=0.2,
    )


def method_result(dataset, X, y, method, classifier, parameter="lam", history=None, status="converged", kept=1.0):
    """Cross-validate a classifier on 5 folds and return it as the result of `method`."""
    history = exact_history() if history is None else history
    evaluations, samples = [], []
    for fold, (train, test) in enumerate(StratifiedKFold(5, shuffle=True, random_state=0).split(X, y)):
        model = make_pipeline(StandardScaler(), classifier).fit(X[train], y[train])
        on_train, on_test = model.decision_function(X[train]), model.decision_function(X[test])
        fpr, tpr, _ = roc_curve(y[test], on_test)
        scored = scores_of(y[train], on_train), scores_of(y[test], on_test)
        evaluations.append(Evaluation(fold, 0.0, *scored, fpr, tpr))
        n_pos, n_neg = int((y[train] > 0).sum()), int((y[train] < 0).sum())
        samples.append(Sample(fold, train, n_pos, int(kept * n_neg), n_neg, "u1", None))
    sampler, _, solver = method.rpartition("+")
    search = {"best": 2 + len(method) % 4, "height": float(np.mean([e.test.auc for e in evaluations]))}
    return MethodResult(
        dataset=dataset,
        method=method,
        solver=solver,
        sampler=sampler or "none",
        samples=tuple(samples),
        models=tuple(fitted(fold, parameter, history, status, **search) for fold in range(5)),
        evaluations=tuple(evaluations),
        final=fitted(-1, parameter, history, status, **search),
        seconds=1.37,
    )


def dataset_of(name, X, y, source, rule):
    """Return the description of a data set as `convert` makes it."""
    n_pos, n_neg = int((y > 0).sum()), int((y < 0).sum())
    raw = RawFile(name, Path(f"{name}.npz"), "sklearn", source, "ab12" * 16, 5432)
    counts = {"positive": n_pos, "rest": n_neg}
    provenance = Provenance(source, "sklearn", "ab12" * 16, 5432, rule, counts, rule.split()[0], "rest")
    shape = {"n_rows": len(y), "n_features": X.shape[1], "n_pos": n_pos, "n_neg": n_neg}
    return Dataset(name, raw, ConversionRule(), "cd34" * 16, **shape, is_sparse=False, text_columns=(),
                   missing_cells={}, provenance=provenance)  # fmt: skip


def logistic(C):
    """Return a classifier whose threshold at 0 suits a rare class."""
    return LogisticRegression(C=C, class_weight="balanced")


def methods_on(dataset, X, y):
    """Return five methods that worked and one that failed."""
    slow, middle, fast = decaying_history(0.95), decaying_history(0.8), decaying_history(0.5)
    return (
        method_result(dataset, X, y, "sdcd", logistic(1e-3), history=middle),
        method_result(dataset, X, y, "sdcd_perm", logistic(1e-1), history=decaying_history(0.7)),
        method_result(dataset, X, y, "msgd", logistic(1e-4), history=slow, status="max_iter"),
        method_result(dataset, X, y, "ls_svm", RidgeClassifier(class_weight="balanced")),
        method_result(dataset, X, y, "u1+linear_svm", logistic(1.0), "C", fast, kept=0.55),
        MethodResult(dataset, "oam_seq", "oam_seq", "none", seconds=0.4, error="ValueError: Expected lam > 0, got 0"),
    )


@cache
def experiment() -> ExperimentResult:
    """Return an experiment on two real data sets, with findings, configuration and facts."""
    digits, cancer = load_digits(), load_breast_cancer()
    sets = {
        "digits_8": (digits.data, np.where(digits.target == 8, 1, -1), "scikit-learn load_digits", "8 against rest"),
        # Three columns only: a data set on which the methods' intervals are wide and overlap.
        "breast_cancer": (
            cancer.data[:, [1, 4, 8]],
            np.where(cancer.target == 0, 1, -1),
            "scikit-learn load_breast_cancer",
            "malignant positive",
        ),
    }
    constant = Finding("constant_column", "warning", "3 columns hold one value only and cannot rank: drop them.", 3,
                       ("pixel_0_0", "pixel_4_0", "pixel_4_7"))  # fmt: skip
    note = Finding("missing_values", "info", "2 cells are empty; they are imputed inside each fold.", 2)
    return ExperimentResult(
        name="quickstart",
        datasets=tuple(dataset_of(name, X, y, source, rule) for name, (X, y, source, rule) in sets.items()),
        findings={"digits_8": (note, constant), "breast_cancer": ()},
        results=tuple(result for name, (X, y, _, _) in sets.items() for result in methods_on(name, X, y)),
        config={"name": "quickstart", "validation": {"folds": 5, "select_by": "auc"}, "methods": ["sdcd", "ls_svm"]},
        run_id="0f3c2a",
        facts={"started": "2026-11-21 12:00 UTC", "seed": "0", "git": "1a2b3c4 (dirty)", "numpy": np.__version__},
    )
