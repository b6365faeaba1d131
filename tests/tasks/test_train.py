"""Search and training: ties to the more regularised, thresholds on real rows, the same bits for any workers."""

import time
import warnings
from dataclasses import replace
from io import StringIO
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import skops.io
from numba import njit
from rich.console import Console
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_circles
from sklearn.exceptions import ConvergenceWarning

from aucsolvers import LSSVM, Ranker
from aucsolvers.metrics import auc, gmean
from tasks import calibrate
from tasks import search as search_module
from tasks import train as train_module
from tasks.calibrate import calibration_splits, fit_calibrator, out_of_fold_scores
from tasks.cell import compute, divide, plainly
from tasks.configuration import ExperimentConfig
from tasks.convert import convert, load
from tasks.download import download
from tasks.errors import BadInput
from tasks.fit import build_kernel, refuse_too_large
from tasks.models import trusted_types
from tasks.report import console_report, render_html
from tasks.search import best_candidate, choose, search, search_parameters
from tasks.seeds import seed_for
from tasks.split import all_rows, make_splits
from tasks.train import fit_model, train
from tasks.undersample import draw_sample, settle_sampler, undersample
from tasks.values import ConversionRule, ExperimentResult, Split, Table


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
    assert best_candidate(name, {"value": [0.01, 0.1, 1.0], "mean": means}) == {name: expected}


@pytest.mark.parametrize(
    ("name", "means", "expected"),
    [
        ("lam", [0.7, 0.9, 0.8, 0.8], {"lam": 1.0, "gamma_factor": 0.1}),
        ("lam", [0.7, 0.9, 0.8, 0.9], {"lam": 1.0, "gamma_factor": 0.1}),
        ("lam", [0.9, 0.7, 0.8, 0.9], {"lam": 1.0, "gamma_factor": 10.0}),
        ("C", [0.9, 0.7, 0.9, 0.9], {"C": 0.1, "gamma_factor": 0.1}),
        ("C", [0.7, 0.9, 0.9, 0.7], {"C": 0.1, "gamma_factor": 10.0}),
        ("lam", [np.nan] * 4, {"lam": 1.0, "gamma_factor": 10.0}),
    ],
)
def test_with_a_kernel_ties_go_first_to_the_more_regularised_then_to_the_smoother(name, means, expected):
    search = {"value": [0.1, 1.0, 0.1, 1.0], "gamma_factor": [0.1, 0.1, 10.0, 10.0], "mean": means}
    assert best_candidate(name, search) == expected


def test_values_of_which_not_all_are_numbers_are_taken_as_they_were_given():
    search = {"value": [None, 0.1, 10.0], "mean": [0.9, 0.9, 0.9]}
    assert best_candidate("lam", search) == {"lam": None} and best_candidate("C", search) == {"C": None}


def test_the_search_scores_every_value_on_every_inner_fold():
    whole = config({"solver": "ls_svm", "grid": [0.01, 1.0]}, validation={"inner_folds": 3})
    search = search_parameters(blobs(), whole.methods[0], whole, seed=1)
    assert search["value"] == [0.01, 1.0]
    assert all(0.5 < mean <= 1 for mean in search["mean"])
    assert all(sd > 0 for sd in search["sd"])


def test_a_single_value_or_a_single_positive_is_not_searched():
    whole = config({"solver": "ls_svm", "params": {"lam": 0.5}})
    assert np.isnan(search_parameters(blobs(), whole.methods[0], whole, seed=1)["mean"]).all()
    whole = config("ls_svm")
    lonely = blobs(n=30, ratio=30)
    assert np.isnan(search_parameters(lonely, whole.methods[0], whole, seed=1)["mean"]).all()


@pytest.mark.parametrize("select", [{"select_by": "auc"}, {"select_by": "gmean", "threshold": "out_of_fold"}])
def test_a_candidate_that_cannot_be_fitted_costs_no_other_its_score(select):
    """Of 90 rows 60 are fitted and 30 held out: of 70 neighbours there are none to ask."""
    neighbours = {"solver": "sklearn.neighbors.KNeighborsClassifier", "search": {"n_neighbors": [3, 9, 70]}}
    whole = config(neighbours, validation={"inner_folds": 3, **select})
    found = search_parameters(blobs(), whole.methods[0], whole, seed=1)
    fewer = config(neighbours | {"search": {"n_neighbors": [3, 9]}}, validation={"inner_folds": 3, **select})
    alone = search_parameters(blobs(), fewer.methods[0], fewer, seed=1)
    assert found["mean"][:2] == alone["mean"] and found["sd"][:2] == alone["sd"]
    assert np.isnan(found["mean"][2]) and np.isnan(found["sd"][2])
    assert best_candidate("n_neighbors", found)["n_neighbors"] in (3, 9)


@pytest.mark.parametrize("strange", [np.nan, np.inf])
@pytest.mark.parametrize("threshold", [None, "training", "out_of_fold", "out_of_fold_smoothed"])
def test_nor_does_one_whose_scores_are_no_numbers(monkeypatch, threshold, strange):
    def decision_function(self, X):
        scores = usual(self, X)
        scores[0] = strange if self.lam == 1.0 else scores[0]
        return scores

    usual = LSSVM.decision_function
    monkeypatch.setattr(LSSVM, "decision_function", decision_function)
    select = {"select_by": "auc"} if threshold is None else {"select_by": "gmean", "threshold": threshold}
    whole = config({"solver": "ls_svm", "grid": [0.01, 1.0, 10.0]}, validation={"inner_folds": 3, **select})
    assert np.isnan(search_parameters(blobs(), whole.methods[0], whole, seed=1)["mean"]).tolist() == [
        False,
        True,
        False,
    ]


def test_if_none_can_be_fitted_the_first_one_says_why():
    whole = config({"solver": "sklearn.neighbors.KNeighborsClassifier", "search": {"n_neighbors": [70, 80]}})
    with pytest.raises(ValueError, match="n_neighbors = 70"):
        search_parameters(blobs(), whole.methods[0], whole, seed=1)


@pytest.mark.parametrize("error", [MemoryError, TimeoutError])
def test_a_machine_that_gives_up_is_no_reason_to_choose_another_value(monkeypatch, error):
    def fit(self, X, y):
        if self.lam > 0.1:
            raise error
        return usual(self, X, y)

    usual = LSSVM.fit
    monkeypatch.setattr(LSSVM, "fit", fit)
    whole = config({"solver": "ls_svm", "grid": [0.01, 1.0]})
    with pytest.raises(error):
        search_parameters(blobs(), whole.methods[0], whole, seed=1)


def test_selection_by_gmean_scores_with_the_training_threshold():
    whole = config({"solver": "ls_svm", "grid": [0.01, 1.0]}, validation={"inner_folds": 2, "select_by": "gmean"})
    by_gmean = search_parameters(blobs(), whole.methods[0], whole, seed=1)["mean"]
    whole = config({"solver": "ls_svm", "grid": [0.01, 1.0]}, validation={"inner_folds": 2})
    by_auc = search_parameters(blobs(), whole.methods[0], whole, seed=1)["mean"]
    assert by_gmean != by_auc
    assert all(0 < score <= 1 for score in by_gmean)


def models_of(wine, workers, **more):
    whole = config({"solver": "sdcd", "sampler": "u1", "grid": [0.01, 0.1]}, workers=workers, **more)
    method = whole.methods[0]
    splits = (*make_splits(wine_rows(wine).y, 3, 1, seed=2), all_rows(wine))
    return splits, trained(wine, splits, method, whole)


def trained(dataset, splits, method, whole):
    choices = search.fn(dataset, splits, method, whole, 3)
    samples = undersample.fn(dataset, splits, choices, method, whole.preprocessing, 3)
    return train.fn(dataset, splits, samples, choices, method, whole, 3)


def wine_rows(wine):
    return load(wine)


def test_workers_change_nothing(wine):
    (_, one), (_, two) = models_of(wine, 1), models_of(wine, 2)
    assert [m.fold for m in one] == [0, 1, 2, -1]
    for a, b in zip(one, two, strict=True):
        assert np.array_equal(a.pipeline["solver"].coef_, b.pipeline["solver"].coef_)
        assert (a.threshold, a.chosen, a.search) == (b.threshold, b.chosen, b.search)


def test_the_threshold_maximises_gmean_on_the_training_rows(wine):
    splits, models = models_of(wine, 1, validation={"threshold": "training"})
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
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        models = trained(wine, splits, whole.methods[0], whole)
    assert [m.status for m in models] == ["max_iter"] * 2
    assert all(m.certificate > 1e-12 for m in models)


@pytest.mark.parametrize(
    ("method", "remedy"),
    [
        ({"solver": "linear_svm", "grid": [0.01]}, "a larger C, or params: {class_weight: balanced}"),
        ({"solver": "margin_mean", "grid": [1000.0]}, "a larger lam2 or lam1"),
        ({"solver": "linear_svm", "grid": [0.01], "params": {"class_weight": "balanced"}}, None),
        ({"solver": "svm_or", "grid": [0.01]}, None),
    ],
)
def test_an_optimum_at_0_is_told_with_its_remedy(tmp_path, method, remedy):
    """A certified AUC of 0.50 in one fold and of 0.83 in another looked like bad luck."""
    rng = np.random.default_rng(0)
    y = np.arange(600) % 20 == 0
    frame = pd.DataFrame(rng.normal(size=(600, 3)) + 0.5 * y[:, None], columns=list("abc")).assign(y=y)
    frame.to_csv(tmp_path / "rare.csv", index=False)
    dataset = convert.fn(download.fn("rare", str(tmp_path / "rare.csv"), None), ConversionRule("y"))
    whole = config(method, validation={"folds": 2, "threshold": "training"})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        cell = compute(divide(dataset, whole, plainly), whole.methods[0], whole, 3, plainly)
    result = ExperimentResult("one", (dataset,), {"rare": ()}, (cell,), {}, "0f3c2a", {})
    console = Console(file=StringIO(), width=1000)
    console.print(console_report(result, 1000))
    words = f"rare / {method['solver']} found nothing better than w = 0 in 3 of 3 fits"
    for text in (console.file.getvalue(), render_html(result)):
        assert (words in text) == (remedy is not None)
        assert remedy is None or f"Take {remedy}." in text


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


def rings(n_pos=40, n_neg=160):
    """A disc of positives in a ring of negatives."""
    X, inner = make_circles((n_neg, n_pos), factor=0.4, noise=0.1, random_state=0)
    return Table(pd.DataFrame(X, columns=["a", "b"]), np.where(inner == 1, 1, -1).astype(np.int8))


def fitted(method, table=None, **more):
    table = rings() if table is None else table
    whole = config(method, **more)
    (split, *_) = make_splits(table.y, 2, 1, seed=0)
    choice = choose(table, split, whole.methods[0], whole, 4)
    sample = draw_sample(table, split, whole.methods[0], whole.preprocessing.settled(choice.chosen.get("scale")), 1)
    return table, split, fit_model(table, split, sample, choice, whole.methods[0], whole, 4)


@pytest.mark.parametrize("solver", ["svm_or", "ls_svm", "linear_svm", "sdcd_perm"])
def test_a_kernel_ranks_rings_that_no_linear_score_can(solver):
    table, split, straight = fitted({"solver": solver, "grid": [0.1]})
    test = table.rows(split.test)
    assert auc(test.y, straight.pipeline.decision_function(test.X)) < 0.65
    _, _, curved = fitted({"solver": solver, "kernel": "gaussian", "grid": [1e-3, 0.1]})
    assert auc(test.y, curved.pipeline.decision_function(test.X)) > 0.99
    assert [name for name, _ in curved.pipeline.steps] == ["preprocessing", "kernel", "solver"]
    assert curved.status == "converged"


@pytest.mark.parametrize("scale", [["standard", "quantile"], ["quantile", "standard"]])
def test_a_scale_that_cannot_be_fitted_is_left_out_of_the_search(scale, monkeypatch):
    """It failed the method, though another scale of the list could be fitted."""
    real = search_module._prepare

    def fails(train, inner, method, settled, *more):
        if settled.scale == "quantile":
            raise BadInput("Expected numbers that can be scaled, got some too large.")
        return real(train, inner, method, settled, *more)

    monkeypatch.setattr(search_module, "_prepare", fails)
    _, _, model = fitted({"solver": "ls_svm", "grid": [0.1, 1.0]}, blobs(), preprocessing={"scale": scale})
    assert model.chosen["scale"] == "standard"
    scores = dict(zip(model.search["scale"], np.isfinite(model.search["mean"]), strict=True))
    assert scores == {"standard": True, "quantile": False}
    with pytest.raises(BadInput, match="can be scaled"):
        fitted({"solver": "ls_svm", "grid": [0.1, 1.0]}, blobs(), preprocessing={"scale": ["quantile"]})


class Nearest(ClassifierMixin, BaseEstimator):
    """Somebody's classifier: scores in whatever form the attribute says."""

    form = staticmethod(np.asarray)

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        first, second = (X[y == label].mean(axis=0) for label in self.classes_)
        self.w_ = second - first
        return self

    def decision_function(self, X):
        return self.form(X @ self.w_)


@pytest.mark.parametrize(
    ("form", "got"),
    [
        (lambda scores: scores.reshape(-1, 1), r"shape \(2, 1\)"),
        (lambda scores: np.column_stack([-scores, scores]), r"shape \(2, 2\)"),
        (lambda scores: scores.tolist(), "a list"),
        (lambda scores: scores + 1j, r"shape \(2,\) of complex128"),
        (np.ma.masked_invalid, "a MaskedArray"),
    ],
)
def test_scores_of_another_form_are_refused_in_our_words(form, got, monkeypatch):
    solver = f"{__name__}.Nearest"
    assert np.isfinite(fitted({"solver": solver}, blobs())[2].threshold)
    monkeypatch.setattr(Nearest, "form", staticmethod(form))
    with pytest.raises(ValueError, match=f"one real number a row, shape .*, got {got}"):
        fitted({"solver": solver}, blobs())


@pytest.mark.parametrize(("most", "dtypes"), [(9, (np.uint8, np.float32, np.float64)), (1, (bool, np.uint8, float))])
@pytest.mark.parametrize("threshold", ["training", "out_of_fold", "out_of_fold_smoothed"])
def test_votes_are_cut_and_calibrated_as_the_same_numbers_with_a_point(threshold, most, dtypes, monkeypatch):
    """Left-out scores were cut to whole numbers: thresholds and probabilities were others, in silence."""
    asked = {"solver": f"{__name__}.Nearest", "probabilities": "isotonic"}, blobs()
    models = []
    for dtype in dtypes:
        votes = lambda scores, dtype=dtype: np.clip(np.round(scores + 4), 0, most).astype(dtype)  # noqa: E731
        monkeypatch.setattr(Nearest, "form", staticmethod(votes))
        models.append(fitted(*asked, validation={"threshold": threshold})[2])
    assert len({model.threshold for model in models}) == 1
    probabilities = [model.calibrator.predict_proba(np.arange(10.0)[:, None])[:, 1].tolist() for model in models]
    assert probabilities[0] == probabilities[1] == probabilities[2]


class Descending(Nearest):
    """Somebody's classifier with its classes in the order 1, 0, as are the columns of its probabilities."""

    def fit(self, X, y):
        super().fit(X, y)
        self.classes_ = self.classes_[::-1]


class DescendingProbabilities(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.inner_ = Descending()
        self.inner_.fit(X, y)
        self.classes_ = self.inner_.classes_

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-self.inner_.decision_function(X)))
        return np.column_stack([p, 1 - p])


def test_classes_in_descending_order_do_not_rank_upside_down():
    table, split, model = fitted({"solver": f"{__name__}.DescendingProbabilities"}, blobs())
    assert auc(table.y[split.test], model.pipeline.decision_function(table.rows(split.test).X)) > 0.8
    with pytest.raises(ValueError, match=r"classes_ of '.*Descending' in ascending order, got \[1, 0\]"):
        fitted({"solver": f"{__name__}.Descending"}, blobs())


class Careless(Nearest):
    """Somebody's classifier, which centres and scales the rows that it is given where they lie."""

    def __init__(self, k=1):
        self.k = k  # changes nothing

    def fit(self, X, y):
        X -= X.mean(axis=0) + 1.0
        X *= 3.0
        super().fit(X, y)

    def decision_function(self, X):
        X **= 3
        return X @ self.w_


@pytest.mark.parametrize("select", ["auc", "gmean"])
def test_a_solver_that_writes_into_its_rows_spoils_them_for_no_other_candidate(select):
    asked = {"solver": f"{__name__}.Careless", "search": {"k": [1, 2, 3]}}
    _, _, model = fitted(asked, blobs(), validation={"select_by": select})
    assert len(set(model.search["mean"])) == 1


def test_the_error_of_another_packages_solver_says_of_which_and_of_what_rows_it_was():
    words = r"solver 'sklearn.svm.NuSVC' on \d+ training rows, \d+ of the rarer class: specified nu is infeasible"
    with pytest.raises(ValueError, match=words):
        fitted({"solver": "sklearn.svm.NuSVC", "params": {"nu": 0.9}}, blobs())


def test_gamma_is_searched_together_with_the_solvers_parameter():
    _, _, model = fitted({"solver": "svm_or", "kernel": "gaussian", "grid": [1e-3, 0.1], "gamma_grid": [1e-4, 2.0]})
    assert model.search["value"] == [1e-3, 0.1] * 2
    assert model.search["gamma_factor"] == [1e-4, 1e-4, 2.0, 2.0]
    assert model.chosen["gamma_factor"] == 2.0  # a kernel as flat as 1e-4 is as good as linear
    kernel, solver = model.pipeline["kernel"], model.pipeline["solver"]
    assert (kernel.gamma_factor, solver.lam) == (2.0, model.chosen["lam"])


def test_landmarks_are_rows_of_the_sample_and_no_more_than_there_are():
    table, split, model = fitted({"solver": "ls_svm", "kernel": "gaussian", "sampler": "u1", "params": {"lam": 0.1}})
    kernel = model.pipeline["kernel"]
    n_kept = kernel.n_components_
    assert n_kept < len(split.train) < kernel.n_components
    marks = kernel.nystroem_.components_ + kernel.centre_
    rows = model.pipeline["preprocessing"].transform(table.rows(split.train).X)
    distances = np.abs(marks[:, None] - rows[None]).sum(axis=2)
    assert distances.min(axis=1).max() < 1e-12
    assert set(np.flatnonzero(table.rows(split.train).y > 0)) <= set(distances.argmin(axis=1))


def test_kernels_are_seeded_by_name_and_change_with_the_seed():
    draws = [
        build_kernel(config({"solver": "ls_svm", "kernel": "gaussian"}).methods[0], {}, seed).random_state
        for seed in (1, 1, 2)
    ]
    assert draws[0] == draws[1] == seed_for(1, "kernel") != draws[2]


@pytest.mark.parametrize("method", ["gaussian+svm_or", "kernel_svm", "zovr_rbf", "margin_mean_rbf", "u1+kernel_svm"])
def test_a_gaussian_kernel_of_sparse_rows_minds_no_column_far_from_0(method):
    """Sparse columns are not centred: one of years made gamma ten thousand times too small, and AUCs of 0.5."""
    X = np.c_[rings().X.to_numpy(), 2000.0 + np.arange(len(rings().y)) % 25]
    table = Table(sparse.csr_matrix(X), rings().y)
    _, _, model = fitted(method, table)
    assert auc(table.y, model.pipeline.decision_function(table.X)) > 0.97


def test_a_kernel_on_sparse_rows_is_kept_and_loads(tmp_path):
    table = Table(sparse.csr_matrix(rings().X.to_numpy()), rings().y)
    _, split, model = fitted({"solver": "svm_or", "kernel": "polynomial", "params": {"lam": 1e-3}}, table)
    ranker = Ranker(model.pipeline, threshold=model.threshold, positive_label="in", negative_label="out")
    path = tmp_path / "model.skops"
    skops.io.dump(ranker, path)
    copy = skops.io.load(path, trusted=trusted_types(ranker))
    test = table.rows(split.test)
    assert np.array_equal(copy.predict(test.X), ranker.predict(test.X))
    assert auc(test.y, copy.predict(test.X)) > 0.99


def test_features_too_large_are_refused_by_all_training_rows_before_the_first_fit(wine):
    """u1 keeps fewer rows than it is trained on, but all of them are scored for the threshold."""
    small = {"solver": "ls_svm", "kernel": "gaussian", "sampler": "u1", "kernel_params": {"max_bytes": 10_000}}
    whole = config(small)
    with pytest.raises(ValueError, match=r"got 178 rows x [0-9]+ components .* Lower n_components to 5"):
        search.fn(wine, (all_rows(wine),), whole.methods[0], whole, 3)
    sample = draw_sample(load(wine), all_rows(wine), whole.methods[0], whole.preprocessing, 3)
    assert len(sample.rows) < 178
    with pytest.raises(ValueError, match="got 178 rows"):
        refuse_too_large(whole.methods[0], (sample,))


def test_a_sampler_refuses_the_refit_before_the_first_fold_is_searched(wine, monkeypatch):
    """Its memory goes with the square of the rarer class: folds with 39 of the 48 rows would go through, for hours."""
    whole = config({"solver": "ls_svm", "sampler": "mwmote", "sampler_params": {"max_bytes": 12_500}})
    (method,), folds = whole.methods, make_splits(wine_rows(wine).y, 5, 1, seed=2)
    assert len(search.fn(wine, folds, method, whole, 3)) == 5
    monkeypatch.setattr("tasks.search.choose", None)
    with pytest.raises(ValueError, match="max_bytes=12500 bytes, got 18432 for the 48 rows"):
        search.fn(wine, (*folds, all_rows(wine)), method, whole, 3)


@pytest.mark.parametrize(
    ("search_of", "expected"),
    [
        ({"value": [1.0, 10.0] * 2, "scale": ["standard"] * 2 + ["minmax"] * 2}, {"lam2": 1.0, "scale": "standard"}),
        ({"value": [10.0, 1.0] * 2, "gamma_factor": [2, 2, 1, 1]}, {"lam2": 1.0, "gamma_factor": 1}),
        ({"value": [10.0, 10.0] * 2, "lam1": [3.0, 3.0, 1.0, 1.0]}, {"lam2": 10.0, "lam1": 3.0}),
    ],
)
def test_ties_between_several_parameters_go_to_small_costs_flat_kernels_and_what_is_given_first(search_of, expected):
    assert best_candidate("lam2", search_of | {"mean": [0.9] * 4}) == expected


def test_words_and_switches_are_searched_as_they_stand():
    found = {"value": ["gini", "entropy"] * 2, "bootstrap": [True, True, False, False], "mean": [0.1, 0.2, 0.3, 0.2]}
    assert best_candidate("criterion", found) == {"criterion": "gini", "bootstrap": False}
    unknown = found | {"mean": [np.nan] * 4}
    assert best_candidate("criterion", unknown) == {"criterion": "gini", "bootstrap": True}


def test_scaling_is_chosen_where_it_matters_and_the_sampler_sees_rows_scaled_so():
    """A skewed copy of what separates the classes: ranks of it do, standard units do not."""
    table = rings(60, 240)
    stretched = Table(np.exp(4 * table.X), table.y)
    method = {"solver": "margin_mean_rbf", "sampler": "u1", "search": {"lam2": [100], "gamma_factor": [1]}}
    _, _, model = fitted(method, stretched, preprocessing={"scale": ["standard", "quantile"]})
    assert model.search["scale"] == ["standard", "quantile"]
    assert model.search["mean"][1] > model.search["mean"][0] + 0.01
    assert model.chosen == {"lam2": 100, "gamma_factor": 1, "scale": "quantile"}
    scaled = model.pipeline["preprocessing"].transform(stretched.X)
    assert (np.asarray(scaled).min(), np.asarray(scaled).max()) == (0, 1)


def test_several_parameters_are_searched_and_gamma_counts_from_the_rows_own_variance():
    grids = {"lam2": [10, 100], "gamma_factor": [0.1, 1.0], "lam1": [0.5, 1.0]}
    table, split, model = fitted({"solver": "margin_mean_rbf", "search": grids})
    assert len(model.search["mean"]) == 8
    assert list(zip(model.search["value"], model.search["gamma_factor"], strict=True))[:3] == [
        (10, 0.1),
        (100, 0.1),
        (10, 1.0),
    ]
    solver, X = model.pipeline["solver"], model.pipeline["preprocessing"].transform(table.rows(split.train).X)
    assert (solver.lam2, solver.lam1) == (model.chosen["lam2"], model.chosen["lam1"])
    assert solver.gamma == pytest.approx(model.chosen["gamma_factor"] / (2 * np.var(X)))


@pytest.mark.parametrize(
    "method",
    [
        {"solver": "sklearn.ensemble.RandomForestClassifier", "params": {"n_estimators": 20}},
        {"solver": "sklearn.svm.SVC", "params": {"class_weight": "balanced"}, "search": {"C": [0.1, 10]}},
        {
            "solver": "imblearn.ensemble.BalancedRandomForestClassifier",
            "params": {"n_estimators": 20},
            "search": {"max_depth": [2, None]},
        },
        {"solver": "sklearn.neighbors.KNeighborsClassifier", "sampler": "imblearn.under_sampling.NearMiss"},
        {"solver": "sklearn.svm.LinearSVC", "kernel": "gaussian", "gamma_grid": [1], "sampler": "smote"},
    ],
    ids=lambda method: method["solver"].rpartition(".")[2],
)
def test_classifiers_of_others_are_scored_cut_and_kept_without_a_certificate(method):
    table, split, model = fitted(method)
    test = table.rows(split.test)
    scores = model.pipeline.decision_function(test.X)
    assert auc(test.y, scores) > 0.9  # no linear score reaches 0.65
    assert (model.status, np.isnan(model.certificate), model.is_certified) == ("uncertified", True, False)
    ranker = Ranker(model.pipeline, threshold=model.threshold, positive_label="in", negative_label="out")
    copy = skops.io.loads(skops.io.dumps(ranker), trusted=trusted_types(ranker))
    assert np.array_equal(copy.predict(test.X), scores)


@pytest.mark.parametrize("how", ["sigmoid", "isotonic"])
def test_probabilities_are_calibrated_though_the_sampler_evens_the_classes(how):
    """Brier score near that of the true probabilities; uncalibrated, a 1:1 sample doubles a 1:5 class's share."""
    table = blobs(n=1500, ratio=6)
    _, split, model = fitted(
        {"solver": "svm_or", "sampler": "random", "params": {"lam": 0.01}, "probabilities": how}, table
    )
    test = table.rows(split.test)
    ranker = Ranker(
        model.pipeline,
        threshold=model.threshold,
        positive_label="in",
        negative_label="out",
        calibrator=model.calibrator,
    )
    copy = skops.io.loads(skops.io.dumps(ranker), trusted=trusted_types(ranker))
    told = copy.predict_proba(test.X)
    assert np.allclose(told.sum(axis=1), 1)
    assert told[:, 1].mean() == pytest.approx((test.y > 0).mean(), abs=0.03)
    odds = np.exp(test.X.sum(axis=1) - 1.5) * (250 / 1250)  # of two normal classes one unit apart in three directions
    ideal, truth = odds / (1 + odds), test.y > 0
    assert ((told[:, 1] - truth) ** 2).mean() < ((ideal - truth) ** 2).mean() * 1.1
    assert not hasattr(Ranker(model.pipeline), "predict_proba")


@pytest.mark.parametrize("how", ["sigmoid", "isotonic"])
def test_probabilities_never_fall_as_scores_rise(how):
    """Scores that rank backwards on rows left out say nothing that is worth a probability of its own."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(300) % 6 == 0, 1, -1)
    for direction in (1.0, -1.0):
        scores = rng.normal(size=300) + direction * (y > 0)
        told = fit_calibrator(scores, y, how).predict_proba(np.linspace(-5, 5, 50).reshape(-1, 1))[:, 1]
        assert (np.diff(told) >= 0).all()
        assert told[-1] > 0.4 if direction > 0 else told[-1] == pytest.approx(1 / 6, abs=0.01)


def test_calibration_looks_at_training_rows_only_and_never_at_a_row_it_was_fitted_on():
    table = blobs(n=120, ratio=4)
    _, split, model = fitted({"solver": "ls_svm", "params": {"lam": 0.1}, "probabilities": "sigmoid"}, table)
    changed = Table(table.X.copy(), table.y.copy())
    changed.X.iloc[split.test] = 99.0
    changed.y[split.test] *= -1
    whole = config({"solver": "ls_svm", "params": {"lam": 0.1}, "probabilities": "sigmoid"})
    method = whole.methods[0]
    sample = draw_sample(changed, split, method, whole.preprocessing, 1)
    again = fit_model(changed, split, sample, choose(changed, split, method, whole, 4), method, whole, 4)
    grid = np.linspace(-1, 1, 5).reshape(-1, 1)
    assert again.calibrator.predict_proba(grid) == pytest.approx(model.calibrator.predict_proba(grid), abs=1e-12)
    in_sample = model.pipeline.decision_function(table.rows(split.train).X)
    divided, samples = calibration_splits(table.rows(split.train), whole), {None: sample}
    held_out = out_of_fold_scores(table, split, samples, divided, model.pipeline, method, ({"lam": 0.1},), whole, 4)
    assert (held_out != in_sample).all()
    assert auc(table.y[split.train], held_out) < auc(table.y[split.train], in_sample)


def test_an_out_of_fold_threshold_serves_a_model_that_knows_its_training_rows_by_heart():
    """A deep forest scores its own positives near 1: a cut between its own classes leaves most new positives below."""
    forest = {"solver": "sklearn.ensemble.ExtraTreesClassifier", "params": {"n_estimators": 30}}
    table = blobs(n=600, ratio=8)
    _, split, usual = fitted(forest, table, validation={"threshold": "training"})
    _, _, honest = fitted(forest, table, validation={"threshold": "out_of_fold"})
    test = table.rows(split.test)
    scores = usual.pipeline.decision_function(test.X)
    assert np.array_equal(scores, honest.pipeline.decision_function(test.X))
    reached = [gmean(test.y, np.where(scores > model.threshold, 1, -1)) for model in (usual, honest)]
    assert reached[1] > reached[0] + 0.1


@pytest.mark.parametrize(
    ("method", "rule"),
    [
        ({"solver": "ls_svm"}, "training"),
        ({"solver": "zovr", "sampler": "u1"}, "training"),
        ({"solver": "kernel_svm"}, "out_of_fold_smoothed"),
        ({"solver": "zovr_rbf", "grid": [10]}, "out_of_fold_smoothed"),
        ({"solver": "ls_svm", "kernel": "gaussian"}, "out_of_fold_smoothed"),
        ({"solver": "ls_svm", "kernel": "polynomial"}, "out_of_fold_smoothed"),
        ({"solver": "sklearn.naive_bayes.GaussianNB"}, "out_of_fold_smoothed"),
    ],
    ids=str,
)
def test_a_threshold_is_set_by_rows_left_out_where_a_method_may_know_its_own(method, rule):
    table = blobs(n=360, ratio=5)  # 36 positive rows of three features in either half: linear scores do not
    _, _, usual = fitted(method, table)
    rules = {"training", "out_of_fold_smoothed"}
    cut = {name: fitted(method, table, validation={"threshold": name})[2].threshold for name in rules}
    assert usual.threshold == cut[rule] != cut[(rules - {rule}).pop()]
    assert usual.threshold_set_on == rule


@pytest.mark.parametrize(("n_pos", "rule"), [(30, "training"), (29, "out_of_fold_smoothed")])
def test_linear_scores_of_few_rare_rows_know_them_too(n_pos, rule):
    """Ten rows of the rarer class for each weight: with fewer, scores of training rows are apart by the fit alone."""
    table = blobs(n=2 * 6 * n_pos, ratio=6)
    assert fitted({"solver": "ls_svm", "grid": [0.1]}, table)[2].threshold_set_on == rule


@pytest.mark.parametrize(
    ("change", "scale", "rule"),
    [
        (lambda frame: frame, "standard", "training"),
        (lambda frame: frame.assign(c="kept"), "standard", "training"),
        (lambda frame: frame.assign(c=frame.index % 7).astype({"c": str}), "standard", "out_of_fold_smoothed"),
        (lambda frame: frame, "piecewise", "out_of_fold_smoothed"),
        (lambda frame: frame, ("standard", "piecewise"), "out_of_fold_smoothed"),
    ],
    ids=["three numbers", "a text", "seven texts", "six hats each", "perhaps hats"],
)
def test_weights_are_counted_where_the_solver_sees_them(change, scale, rule):
    """A column of seven texts has seven weights, and a piecewise linear one six."""
    table = blobs(n=360, ratio=5)  # 36 positive rows in either half: of three columns or a few more
    table = Table(change(table.X), table.y)
    found = fitted({"solver": "ls_svm", "grid": [0.1]}, table, preprocessing={"scale": scale})[2]
    assert found.threshold_set_on == rule


@pytest.mark.parametrize(("n_columns", "rule"), [(2, "out_of_fold_smoothed"), (1, "training")])
def test_of_sparse_rows_columns_without_an_entry_are_no_weights(n_columns, rule):
    """A hash that hits three of thousands has three weights; 36 positive rows in either half are enough."""
    table = blobs(n=360, ratio=5)
    narrow = sparse.csr_matrix(table.X.to_numpy())
    more = sparse.random(360, n_columns, density=0.5, format="csr", random_state=0)
    empty = sparse.csr_matrix((360, 5000))
    table = Table(sparse.hstack([narrow, empty, more[:, : n_columns - 1]], format="csr"), table.y)
    assert fitted({"solver": "ls_svm", "grid": [0.1]}, table)[2].threshold_set_on == rule


@pytest.mark.parametrize(("n_pos", "rule"), [(39, "out_of_fold_smoothed"), (40, "training")])
def test_a_threshold_is_set_by_one_rule_in_all_folds_and_in_the_refit(tmp_path, n_pos, rule):
    """Of 39 positive rows folds of four have 29 or 30: decided fold by fold, some models would go by one rule, some by
    the other."""
    table = blobs(n=5 * n_pos, ratio=5)
    table.X.assign(sign=table.y).to_csv(tmp_path / "near.csv", index=False)
    whole = config({"solver": "ls_svm", "grid": [0.1]}, validation={"folds": 4})
    dataset = convert.fn(download.fn("near", str(tmp_path / "near.csv"), None), ConversionRule("sign", "1"))
    result = compute(divide(dataset, whole, plainly), whole.methods[0], whole, 3, plainly)
    assert [model.threshold_set_on for model in (*result.models, result.final)] == [rule] * 5


def test_copies_that_go_into_no_two_folds_leave_the_training_rows():
    """Two copies of each of five points: no division holds a whole one out of either class, for a search neither."""
    rows = np.repeat(np.arange(4), 30)
    table = Table(pd.DataFrame({"a": rows % 4 * 1.0, "b": rows * 2.0}), np.where(rows == 0, 1, -1).astype(np.int8))
    whole = config({"solver": "kernel_svm"}, validation={"split": "grouped_by_duplicates", "inner_folds": 5})
    (method,) = whole.methods
    split = Split(fold=0, train=np.arange(len(rows)), test=np.arange(0))
    choice, sample = choose(table, split, method, whole, 4), draw_sample(table, split, method, whole.preprocessing, 1)
    assert choice.chosen["C"] == 10.0 and np.isnan(choice.search["mean"]).all()  # the middle of the grid
    assert fit_model(table, split, sample, choice, method, whole, 4).threshold_set_on == "training"
    asked = config({"solver": "kernel_svm"}, validation={"split": "grouped_by_duplicates", "threshold": "out_of_fold"})
    with pytest.raises(ValueError, match="not all copies of one"):
        fit_model(table, split, sample, choice, method, asked, 4)


def test_a_single_row_of_a_class_sets_the_threshold_with_all_others():
    """There is nothing to hold out; asked for by name it is refused, by default it is not asked for."""
    table = blobs(n=60, ratio=5)
    only = np.flatnonzero(table.y > 0)[1:]
    table = Table(table.X.drop(index=only).reset_index(drop=True), np.delete(table.y, only))
    split = Split(fold=0, train=np.arange(len(table.y)), test=np.arange(0))
    method = {"solver": "kernel_svm", "params": {"C": 1.0}}
    for threshold, told in (("auto", None), ("out_of_fold_smoothed", "two rows of each class")):
        whole = config(method, validation={"threshold": threshold})
        (chosen,) = whole.methods
        sample = draw_sample(table, split, chosen, whole.preprocessing, 1)
        choice = choose(table, split, chosen, whole, 4)
        if told is None:
            assert np.isfinite(fit_model(table, split, sample, choice, chosen, whole, 4).threshold)
        else:
            with pytest.raises(ValueError, match=told):
                fit_model(table, split, sample, choice, chosen, whole, 4)


class Boosted(ClassifierMixin, BaseEstimator):
    """Somebody's classifier, which as XGBoost's takes labels from 0 on, and returns nothing from fit."""

    flat = False

    def __init__(self, class_weight=None):
        self.class_weight = class_weight

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        if self.classes_.tolist() != [0, 1]:
            raise ValueError(f"Invalid classes inferred from y. Expected: [0 1], got {self.classes_}")
        weights = self.class_weight or {0: 1.0, 1: 1.0}
        self.w_ = weights[1] * X[y == 1].mean(axis=0) - weights[0] * X[y == 0].mean(axis=0)

    def predict_proba(self, X):
        p = 1 / (1 + np.exp(-(X @ self.w_)))
        return p if self.flat else np.column_stack([1 - p, p])


def test_labels_of_other_packages_solvers_count_from_zero(monkeypatch):
    solver = f"{__name__}.Boosted"
    _, split, model = fitted({"solver": solver}, blobs())
    table = blobs()
    assert auc(table.y[split.test], model.pipeline.decision_function(table.rows(split.test).X)) > 0.9
    weighted = fitted({"solver": solver, "params": {"class_weight": {-1: 1.0, 1: 2.0}}}, blobs())[2]
    assert weighted.pipeline["solver"].estimator.class_weight == {0: 1.0, 1: 2.0}
    forest = {"solver": "imblearn.ensemble.BalancedRandomForestClassifier", "params": {"n_estimators": 5}}
    own = {"params": forest["params"] | {"sampling_strategy": {-1: 10}, "replacement": False}}
    assert np.isfinite(fitted(forest | own, blobs())[2].threshold)
    monkeypatch.setattr(Boosted, "flat", True)
    with pytest.raises(ValueError, match=r"predict_proba of Boosted to return shape \(n_samples, 2\), got \(2,\)"):
        fitted({"solver": solver}, blobs())


@pytest.mark.parametrize(("strategy", "n_pos", "n_neg"), [({1: 50}, 50, 80), ({-1: 100}, 20, 100)])
def test_a_solver_refuses_the_rows_that_the_sampler_made_too(strategy, n_pos, n_neg):
    """Dual variables are of pairs of rows kept and made: refused now, and not after hours of folds."""
    table, split = blobs(100), Split(fold=0, train=np.arange(100), test=np.arange(0))
    for most, refused in ((8 * n_pos * n_neg, False), (8 * n_pos * n_neg - 1, True)):
        method = {"solver": "sdcd", "sampler": "mwmote", "sampler_params": {"sampling_strategy": strategy}}
        whole = ExperimentConfig.model_validate(
            {"datasets": ["wine"], "methods": [method | {"params": {"max_bytes": most}}]}
        )
        sample = draw_sample(table, split, whole.methods[0], whole.preprocessing, 7)
        if refused:
            with pytest.raises(ValueError, match=f"{n_pos} x {n_neg} = "):
                refuse_too_large(whole.methods[0], (sample,))
        else:
            refuse_too_large(whole.methods[0], (sample,))


def test_each_inner_fold_draws_by_a_seed_of_its_own(monkeypatch):
    drawn, draw = [], search_module.draw_sample
    monkeypatch.setattr(search_module, "draw_sample", lambda *given: drawn.append(given[-1]) or draw(*given))
    method = {"solver": "ls_svm", "sampler": "random", "grid": [0.1, 1.0]}
    whole = ExperimentConfig.model_validate(
        {"datasets": ["wine"], "methods": [method], "validation": {"inner_folds": 3}}
    )
    search_module.search_parameters(blobs(), whole.methods[0], whole, 4)
    assert drawn == [seed_for(4, "inner", fold) for fold in range(3)]


def test_a_fold_whose_copies_do_not_divide_settles_the_threshold_of_all(monkeypatch):
    """Of four points thirty times each, three are in one fold and do not divide; the other folds' rows do."""
    rng = np.random.default_rng(0)
    copies = pd.DataFrame({"a": np.repeat([0.0, 1.0, 2.0, 3.0], 30), "b": np.repeat([0.0, 2.0, 4.0, 6.0], 30)})
    apart = pd.DataFrame(rng.normal(size=(120, 2)), columns=["a", "b"])
    y = np.concatenate([np.repeat([1, -1, -1, -1], 30), np.where(np.arange(120) % 6 == 0, 1, -1)]).astype(np.int8)
    table = Table(pd.concat([copies, apart], ignore_index=True), y)
    monkeypatch.setattr(calibrate, "load", lambda dataset: table)
    method = {"solver": "kernel_svm"}
    whole = ExperimentConfig.model_validate(
        {"datasets": ["wine"], "methods": [method], "validation": {"split": "grouped_by_duplicates"}}
    )
    undivided, divided = Split(0, np.arange(120), np.arange(0)), Split(1, np.arange(120, 240), np.arange(0))
    for splits, rule in (((divided,), "out_of_fold_smoothed"), ((undivided, divided), "training")):
        settled = calibrate.settle_threshold(whole, whole.methods[0], SimpleNamespace(), splits)
        assert settled.validation.threshold == rule


def test_another_packages_iterations_certify_nothing():
    """Its ``n_iter_`` counts what only it knows, and may be an array."""
    model = fitted({"solver": "sklearn.linear_model.LogisticRegression"}, blobs())[2]
    assert (model.n_iter, model.status, model.gap_unit) == (0, "uncertified", 1.0)
    assert all(len(column) == 0 for column in model.history.values())


def test_a_gap_is_told_in_units_of_the_objective_without_a_model():
    """Which is C times the number of rows for a linear SVM: so gaps of different data, and of different C, compare."""
    model = fitted({"solver": "linear_svm", "params": {"C": 10.0, "max_iter": 1}}, blobs())[2]
    solver = model.pipeline["solver"]
    assert model.gap_unit == solver.gap_unit_ == 450.0
    assert model.certificate == solver.dual_gap_ / solver.gap_unit_ > 0


def test_each_fold_is_fitted_by_a_seed_of_its_own_which_its_search_had_too(wine, monkeypatch):
    seeds = {"tasks.search.choose": [], "tasks.train.fit_model": []}

    def spied(place, real, position):
        return lambda *given: seeds[place].append(given[position]) or real(*given)

    for place, real, position in (("tasks.search.choose", choose, 4), ("tasks.train.fit_model", fit_model, 6)):
        monkeypatch.setattr(place, spied(place, real, position))
    whole = config({"solver": "ls_svm", "grid": [0.1]})
    splits = (*make_splits(wine_rows(wine).y, 3, 1, seed=2), all_rows(wine))
    trained(wine, splits, whole.methods[0], whole)
    expected = [seed_for(3, "train", fold) for fold in (0, 1, 2, -1)]
    assert seeds == dict.fromkeys(seeds, expected) and len(set(expected)) == 4


def test_of_words_among_numbers_the_one_given_first_is_chosen_among_equals():
    """As of gamma of scikit-learn's SVC: "scale" is neither larger nor smaller than 0.1."""
    assert best_candidate("gamma", {"value": ["scale", 0.1, 0.01], "mean": [0.9] * 3}) == {"gamma": "scale"}


def test_means_that_differ_by_rounding_are_equal():
    assert 0.3 * 3 < 0.9
    for means in ([0.9, 0.3 * 3], [0.3 * 3, 0.9]):
        assert best_candidate("lam", {"value": [0.1, 1.0], "mean": means}) == {"lam": 1.0}


def test_a_kernel_sees_the_rows_fitted_on_and_none_that_an_inner_fold_holds_out(monkeypatch):
    seen = []

    class Spy:
        def fit(self, X, y):
            seen.append(len(y))

        def transform(self, X):
            return X

    monkeypatch.setattr(search_module, "build_kernel", lambda *_: Spy())
    whole = config({"solver": "ls_svm", "kernel": "gaussian", "grid": [0.1, 1.0]}, validation={"inner_folds": 3})
    search_parameters(blobs(), whole.methods[0], whole, 4)
    assert set(seen) == {60}


def test_the_time_of_a_search_is_told_apart_from_that_of_the_fit():
    table, whole = blobs(), config({"solver": "ls_svm", "grid": [0.1, 1.0]})
    split, (method,) = make_splits(table.y, 2, 1, seed=0)[0], whole.methods
    choice = replace(choose(table, split, method, whole, 4), seconds=1234.5)
    model = fit_model(table, split, draw_sample(table, split, method, whole.preprocessing, 1), choice, method, whole, 4)
    assert model.search_s == 1234.5 and 0 < model.fit_s < 1234.5


def test_compiling_is_neither_the_times_of_a_search_nor_of_a_fit(monkeypatch):
    """MLflow showed 42 s of searches in a method that took 7: whoever came first had compiled for the others."""
    compiled_s = []

    def compiles(step):
        def compiling(*given):
            start = time.perf_counter()
            for number in range(5):
                njit(lambda x, number=number: x + number)(1.0)
            compiled_s.append(time.perf_counter() - start)
            return step(*given)

        return compiling

    for module, name in ((search_module, "search_parameters"), (train_module, "fit_scorer")):
        monkeypatch.setattr(module, name, compiles(getattr(module, name)))
    table, whole = blobs(), config({"solver": "ls_svm", "grid": [0.1, 1.0]})
    split, (method,) = make_splits(table.y, 2, 1, seed=0)[0], whole.methods
    choice, sample = choose(table, split, method, whole, 4), draw_sample(table, split, method, whole.preprocessing, 1)
    model = fit_model(table, split, sample, choice, method, whole, 4)
    assert 0 < model.search_s < compiled_s[0] and 0 < model.fit_s < compiled_s[1]
