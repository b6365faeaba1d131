"""Training: λ by inner cross-validation, ties to the more regularised, and the same bits for any number of workers."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from aucsolvers.metrics import auc, gmean
from tasks.configuration import ExperimentConfig
from tasks.convert import convert, load
from tasks.download import download
from tasks.split import all_rows, make_splits
from tasks.train import best_value, search_parameter, train
from tasks.undersample import draw_sample, settle_sampler, undersample
from tasks.values import ConversionRule, Table


def config(method, **more):
    return ExperimentConfig.model_validate({"datasets": ["wine"], "methods": [method], **more})


@pytest.fixture
def wine():
    return convert.fn(download.fn("wine", "sklearn:wine", None), ConversionRule("cultivar", "class_2"))


def blobs(n=90, ratio=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % ratio == 0, 1, -1).astype(np.int8)
    return Table(pd.DataFrame(rng.normal(size=(n, 3)) + (y > 0)[:, None], columns=list("abc")), y)


@pytest.mark.parametrize(
    ("name", "means", "expected"),
    [
        ("lam", [0.8, 0.9, 0.7], 0.1),
        ("lam", [0.9, 0.7, 0.9], 1.0),
        ("C", [0.9, 0.7, 0.9], 0.01),
        ("lam", [np.nan] * 3, 0.1),
        ("lam", [np.nan, 0.5, np.nan], 0.1),
    ],
)
def test_the_best_value_wins_and_ties_go_to_the_more_regularised(name, means, expected):
    assert best_value(name, {"value": [0.01, 0.1, 1.0], "mean": means}) == expected


def test_the_search_scores_every_value_on_every_inner_fold():
    whole = config({"solver": "ls_svm", "grid": [0.01, 1.0]}, validation={"inner_folds": 3})
    search = search_parameter(blobs(), whole.methods[0], whole, seed=1)
    assert search["value"] == [0.01, 1.0]
    assert all(0.5 < mean <= 1 for mean in search["mean"])
    assert all(sd > 0 for sd in search["sd"])


def test_a_single_value_or_a_single_positive_is_not_searched():
    whole = config({"solver": "ls_svm", "params": {"lam": 0.5}})
    assert np.isnan(search_parameter(blobs(), whole.methods[0], whole, seed=1)["mean"]).all()
    whole = config("ls_svm")
    lonely = blobs(n=30, ratio=30)
    assert np.isnan(search_parameter(lonely, whole.methods[0], whole, seed=1)["mean"]).all()


def test_selection_by_gmean_scores_with_the_training_threshold():
    whole = config({"solver": "ls_svm", "grid": [0.01, 1.0]}, validation={"inner_folds": 2, "select_by": "gmean"})
    by_gmean = search_parameter(blobs(), whole.methods[0], whole, seed=1)["mean"]
    whole = config({"solver": "ls_svm", "grid": [0.01, 1.0]}, validation={"inner_folds": 2})
    by_auc = search_parameter(blobs(), whole.methods[0], whole, seed=1)["mean"]
    assert by_gmean != by_auc
    assert all(0 < score <= 1 for score in by_gmean)


def models_of(wine, workers):
    whole = config({"solver": "sdcd", "sampler": "u1", "grid": [0.01, 0.1]}, workers=workers)
    method = whole.methods[0]
    splits = (*make_splits(wine_rows(wine).y, 3, 1, seed=2), all_rows(wine))
    samples = undersample.fn(wine, splits, method, whole.preprocessing, 3)
    return splits, train.fn(wine, splits, samples, method, whole, 3)


def wine_rows(wine):
    return load(wine)


def test_workers_change_nothing(wine):
    (_, one), (_, two) = models_of(wine, 1), models_of(wine, 2)
    assert [m.fold for m in one] == [0, 1, 2, -1]
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a.pipeline["solver"].coef_, b.pipeline["solver"].coef_)
        assert (a.threshold, a.chosen, a.search) == (b.threshold, b.chosen, b.search)


def test_the_threshold_maximises_gmean_on_the_training_rows(wine):
    splits, models = models_of(wine, 1)
    for split, model in zip(splits, models, strict=True):
        rows = wine_rows(wine).rows(split.train)
        scores = model.pipeline.decision_function(rows.X)
        assert auc(rows.y, scores) > 0.99
        reached = gmean(rows.y, np.where(scores > model.threshold, 1, -1))
        cuts = np.concatenate([[scores.min() - 1], np.unique(scores)])
        assert reached == max(gmean(rows.y, np.where(scores > cut, 1, -1)) for cut in cuts)


def test_not_converging_is_told_by_status_and_not_by_warnings(wine):
    whole = config({"solver": "sdcd_perm", "params": {"lam": 1e-2, "tol": 1e-12, "max_iter": 1}}, workers=2)
    splits = (all_rows(wine),) * 2
    samples = undersample.fn(wine, splits, whole.methods[0], whole.preprocessing, 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        models = train.fn(wine, splits, samples, whole.methods[0], whole, 3)
    assert [m.status for m in models] == ["max_iter"] * 2
    assert all(m.certificate > 1e-12 for m in models)


@pytest.mark.parametrize(("n_pos", "expected"), [(48, "u1"), (17, "u1"), (16, "u2"), (4, "u2")])
def test_auto_is_decided_once_by_the_whole_data_sets_ratio(wine, n_pos, expected):
    """Of 16 against 160 rows, folds have ratios on both sides of 10."""
    method = config({"solver": "ls_svm", "sampler": "auto", "sampler_params": {"n_bins": 4}}).methods[0]
    settled = settle_sampler(method, replace(wine, n_pos=n_pos, n_neg=160))
    assert (settled.sampler, settled.label, settled.sampler_params) == (expected, "auto+ls_svm", {"n_bins": 4})


def test_of_equally_large_classes_the_positive_one_is_spared():
    table = blobs(n=80, ratio=2)
    whole = config({"solver": "ls_svm", "sampler": "u1"})
    (split, *_) = make_splits(table.y, 2, 1, seed=0)
    sample = draw_sample(table, split, whole.methods[0], whole.preprocessing, 1)
    assert sample.n_pos == 20
    assert sample.n_neg < sample.n_neg_before == 20
