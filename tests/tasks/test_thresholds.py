"""Thresholds from rows that a model was not fitted on: whose scores, on which scale, the best cut of what."""

import numpy as np
import pandas as pd
import pytest

from aucsolvers import SVMOR
from aucsolvers.metrics import auc, best_gmean_threshold, gmean, smoothed_gmean_threshold
from tasks.calibrate import calibration_splits, out_of_fold_scores
from tasks.configuration import ExperimentConfig
from tasks.fit import draw_samples, fit_pipeline
from tasks.preprocess import make_preprocessing, transform
from tasks.search import choose, inner_splits, search_parameters
from tasks.seeds import seed_for
from tasks.split import make_splits
from tasks.train import fit_model
from tasks.undersample import draw_sample
from tasks.values import Split, Table

RULES = ("training", "out_of_fold", "out_of_fold_smoothed")
PLAIN = {"solver": "svm_or", "params": {"lam": 0.01}}


def config(method, **validation):
    return ExperimentConfig.model_validate({"datasets": ["wine"], "methods": [method], "validation": validation})


def blobs(n, ratio, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % ratio == 0, 1, -1).astype(np.int8)
    return Table(pd.DataFrame(rng.normal(size=(n, 3)) + (y > 0)[:, None], columns=list("abc")), y)


def first_split(table):
    return make_splits(table.y, 3, 1, seed=0)[0]


def fitted(method, rule, table):
    whole, split = config(method, threshold=rule), first_split(table)
    choice = choose(table, split, whole.methods[0], whole, 4)
    sample = draw_sample(table, split, whole.methods[0], whole.preprocessing, 1)
    return whole, fit_model(table, split, sample, choice, whole.methods[0], whole, 4)


def held_out_scores(table, whole, model, candidates=({"lam": 0.01},)):
    """The out-of-fold scores of a model of ``fitted``."""
    (method,), split = whole.methods, first_split(table)
    samples = draw_samples(table, split, method, candidates, whole.preprocessing, 1)
    divisions = calibration_splits(table.rows(split.train), whole)
    return out_of_fold_scores(table, split, samples, divisions, model.pipeline, method, candidates, whole, 4)


def reached(model, table):
    return gmean(table.y, np.where(model.pipeline.decision_function(table.X) > model.threshold, 1, -1))


@pytest.mark.parametrize("sampler", ["none", "u1"])
def test_each_rule_cuts_the_scores_that_it_names(sampler):
    table = blobs(150, 5)
    train, cuts = table.rows(first_split(table).train), {}
    for rule in RULES:
        whole, model = fitted(PLAIN | {"sampler": sampler}, rule, table)
        cuts[rule] = model.threshold
    held_out = held_out_scores(table, whole, model)
    assert cuts["training"] == best_gmean_threshold(train.y, model.pipeline.decision_function(train.X))
    assert cuts["out_of_fold"] == best_gmean_threshold(train.y, held_out)
    assert cuts["out_of_fold_smoothed"] == smoothed_gmean_threshold(train.y, held_out)
    assert len(set(cuts.values())) == 3


@pytest.mark.parametrize("sampler", ["random", "imblearn.under_sampling.RandomUnderSampler"])
def test_of_rows_that_a_sampler_dropped_it_is_the_models_own_score_of_the_others_one_by_a_model_without_them(sampler):
    """Rows dropped by chance no model has seen; to ask the sampler again, without a fold, would be another sample."""
    table = blobs(300, 12)
    split = first_split(table)
    train = table.rows(split.train)
    whole, model = fitted(PLAIN | {"sampler": sampler}, "out_of_fold", table)
    (method,) = whole.methods
    held_out, usual = held_out_scores(table, whole, model), model.pipeline.decision_function(train.X)
    sample = draw_sample(table, split, method, whole.preprocessing, 1)
    kept = np.isin(split.train, sample.rows)
    assert 0 < kept.sum() < len(kept) and np.array_equal(held_out[~kept], usual[~kept])
    expected = np.full(len(kept), np.nan)
    for inner in calibration_splits(train, whole):
        fitted_on = np.zeros(len(kept), bool)
        fitted_on[inner.train] = True
        rest = fitted_on & kept
        scale = make_preprocessing(train.X, whole.preprocessing).fit(train.X[fitted_on])
        scores = (
            SVMOR(lam=0.01)
            .fit(transform(scale, train.X[rest]), train.y[rest])
            .decision_function(transform(scale, train.X))
        )
        moved = (scores - np.median(scores[rest])) / scores[rest].std() * usual[rest].std() + np.median(usual[rest])
        expected[kept & ~fitted_on] = moved[kept & ~fitted_on]
    assert held_out[kept] == pytest.approx(expected[kept], abs=1e-9)


@pytest.mark.parametrize("solver", ["sklearn.naive_bayes.GaussianNB", "sklearn.neighbors.KNeighborsClassifier"])
def test_probabilities_are_cut_between_0_and_1(solver):
    """Of a model without the row they are taken as they are; stretched to another's spread, some lay outside."""
    table = blobs(150, 5)
    whole, model = fitted({"solver": solver}, "out_of_fold_smoothed", table)
    held_out, train = held_out_scores(table, whole, model, ({},)), table.rows(first_split(table).train)
    (inner, *_) = calibration_splits(train, whole)
    part = Split(0, first_split(table).train[inner.train], inner.test)
    alone = fitted_on(table, whole, part).decision_function(train.X)
    assert np.array_equal(held_out[inner.test], alone[inner.test])
    assert held_out.min() >= 0 <= model.threshold < held_out.max() <= 1


def fitted_on(table, whole, split):
    (method,) = whole.methods
    return fit_pipeline(table, draw_sample(table, split, method, whole.preprocessing, 1), method, {}, 4)


NEIGHBOURS = ["NearMiss", "RepeatedEditedNearestNeighbours", "AllKNN", "TomekLinks", "InstanceHardnessThreshold"]


@pytest.mark.parametrize(
    "sampler",
    [
        *("u1", "u2", "wu", "mwmote", "smote", "imblearn.combine.SMOTEENN"),
        *(f"imblearn.under_sampling.{name}" for name in NEIGHBOURS),
    ],
)
def test_other_samplers_are_asked_again_without_the_fold(monkeypatch, sampler):
    """A row made from a held-out one tells its model about it, and so does one that was dropped by its label."""
    table = blobs(300, 6)
    split = first_split(table)
    train = table.rows(split.train)
    whole, model = fitted(PLAIN | {"sampler": sampler}, "out_of_fold", table)
    (method,), own = whole.methods, {}
    for inner in calibration_splits(train, whole):
        own[inner.fold] = draw_sample(train, inner, method, whole.preprocessing, seed_for(4, "calibration", inner.fold))
    drawn = []

    def spy(table, sample, *rest):
        drawn.append(sample)
        return fit_pipeline_of(table, sample, *rest)

    fit_pipeline_of = fit_pipeline
    monkeypatch.setattr("tasks.fit.fit_pipeline", spy)
    held_out = held_out_scores(table, whole, model)
    for sample, expected in zip(drawn, own.values(), strict=True):
        assert np.array_equal(sample.rows, split.train[expected.rows])
        assert (sample.added is None) == (expected.added is None)
        assert sample.added is None or np.array_equal(sample.added.X, expected.added.X)
    assert (held_out != model.pipeline.decision_function(train.X)).all()


@pytest.mark.parametrize(
    "sampler", ["u1", "u2", "wu", "random", "imblearn.under_sampling.NearMiss", "imblearn.under_sampling.AllKNN"]
)
@pytest.mark.parametrize(
    "solver,candidate,width", [("kernel_svm", {"C": 10.0}, 3), ("ls_svm", {"lam": 0.01}, 30)], ids=["kernel", "wide"]
)
def test_left_out_scores_of_noise_are_noise(sampler, solver, candidate, width):
    """Labels by chance: what a model without a row says of it cannot tell its label, whatever the sampler looks at."""
    found = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        y = np.where(np.arange(360) % 12 == 0, 1, -1).astype(np.int8)
        table = Table(pd.DataFrame(rng.normal(size=(360, width))).rename(columns=str), y)
        whole, model = fitted({"solver": solver, "params": candidate, "sampler": sampler}, "out_of_fold", table)
        found.append(auc(table.y[first_split(table).train], held_out_scores(table, whole, model, (candidate,))))
    assert abs(np.mean(found) - 0.5) < 0.1


def test_a_dropped_copy_of_a_kept_row_is_left_out_with_it_where_copies_stay_together():
    rows = blobs(60, 3).rows(np.arange(60))
    table = Table(pd.concat([rows.X] * 4, ignore_index=True), np.tile(rows.y, 4))
    whole = config(PLAIN | {"sampler": "random"}, threshold="out_of_fold", split="grouped_by_duplicates")
    (method,), split = whole.methods, Split(fold=0, train=np.arange(240), test=np.arange(0))
    sample = draw_sample(table, split, method, whole.preprocessing, 1)
    model = fit_model(table, split, sample, choose(table, split, method, whole, 4), method, whole, 4)
    divisions, candidates = calibration_splits(table, whole), ({"lam": 0.01},)
    scores = out_of_fold_scores(table, split, {None: sample}, divisions, model.pipeline, method, candidates, whole, 4)
    usual = model.pipeline.decision_function(table.X)
    has_copy = np.isin(np.arange(240) % 60, sample.rows % 60)
    dropped = ~np.isin(np.arange(240), sample.rows)
    assert (has_copy & dropped).any() and (scores[has_copy] != usual[has_copy]).all()
    assert np.array_equal(scores[~has_copy], usual[~has_copy])
    copies = scores.reshape(4, 60)
    assert np.abs(copies - copies[0]).max() < 1e-12


def distort_every_model(monkeypatch):
    """Give every model's scores a unit and a zero of its own."""
    fit, fits = SVMOR.fit, []

    def distorted(self, X, y):
        fits.append(fit(self, X, y))
        self.coef_ = 2.0 * len(fits) * self.coef_
        self.intercept_ = 2.0 * len(fits) * self.intercept_ + 100.0 * len(fits)
        return self

    monkeypatch.setattr(SVMOR, "fit", distorted)


@pytest.mark.parametrize("rule", RULES)
def test_the_unit_and_zero_of_a_models_scores_move_no_decision(monkeypatch, rule):
    table = blobs(150, 5)
    usual, test = fitted(PLAIN, rule, table)[1], table.rows(first_split(table).test)
    distort_every_model(monkeypatch)
    moved = fitted(PLAIN, rule, table)[1]
    expected = 2.0 * usual.pipeline.decision_function(test.X) + 100.0
    assert moved.pipeline.decision_function(test.X) == pytest.approx(expected)
    assert moved.threshold == pytest.approx(2.0 * usual.threshold + 100.0)
    assert reached(moved, test) == reached(usual, test)


@pytest.mark.parametrize("rule", RULES)
def test_nor_do_they_move_a_choice(monkeypatch, rule):
    table, method = blobs(150, 5), {"solver": "svm_or", "grid": [1e-3, 0.1, 10.0]}
    whole = config(method, threshold=rule, select_by="gmean")
    usual = search_parameters(table, whole.methods[0], whole, 4)
    distort_every_model(monkeypatch)
    assert search_parameters(table, whole.methods[0], whole, 4) == usual
    assert len(set(usual["mean"])) > 1


@pytest.mark.parametrize(
    ("rule", "cut"), [("out_of_fold", best_gmean_threshold), ("out_of_fold_smoothed", smoothed_gmean_threshold)]
)
def test_a_candidates_gmean_is_at_the_threshold_of_the_other_folds(rule, cut):
    table, method = blobs(150, 5), {"solver": "ls_svm", "grid": [0.01, 1.0]}
    whole = config(method, threshold=rule, select_by="gmean")
    found = search_parameters(table, whole.methods[0], whole, 4)
    splits = inner_splits(table, whole)
    for place, lam in enumerate([0.01, 1.0]):
        held_out = []
        for inner in splits:
            sample = draw_sample(table, inner, whole.methods[0], whole.preprocessing, seed_for(4, "inner", inner.fold))
            single = config({"solver": "ls_svm", "params": {"lam": lam}})
            choice = choose(table, inner, single.methods[0], single, 4)
            scores = fit_model(table, inner, sample, choice, single.methods[0], single, 4).pipeline.decision_function
            own = scores(table.X)[inner.train]
            held_out.append((scores(table.X)[inner.test] - np.median(own)) / own.std())
        gmeans = []
        for mine, inner in zip(held_out, splits, strict=True):
            others = [(s, table.y[o.test]) for s, o in zip(held_out, splits, strict=True) if o is not inner]
            threshold = cut(np.concatenate([y for _, y in others]), np.concatenate([s for s, _ in others]))
            gmeans.append(gmean(table.y[inner.test], np.where(mine > threshold, 1, -1)))
        assert found["mean"][place] == pytest.approx(np.mean(gmeans))
        assert found["sd"][place] == pytest.approx(np.std(gmeans, ddof=1))


def test_by_auc_the_threshold_plays_no_part_in_the_choice():
    table, found = blobs(120, 4), []
    for rule in RULES:
        whole = config({"solver": "ls_svm", "grid": [0.01, 1.0]}, threshold=rule)
        found.append(search_parameters(table, whole.methods[0], whole, 4))
    assert found[0] == found[1] == found[2]


def test_a_rule_that_is_none_is_refused():
    with pytest.raises(ValueError, match="'training', 'out_of_fold' or 'out_of_fold_smoothed'"):
        config("svm_or", threshold="smoothed")


def test_by_training_rows_a_candidates_threshold_is_that_of_all_of_them_kept_by_the_sampler_or_not():
    """As the final model's will be: of the rows that a sampler kept it would be another."""
    table, method = blobs(300, 10), {"solver": "ls_svm", "sampler": "random", "grid": [0.01, 1.0]}
    whole = config(method, threshold="training", select_by="gmean")
    found = search_parameters(table, whole.methods[0], whole, 4)
    for place, lam in enumerate([0.01, 1.0]):
        single, gmeans = config(method | {"grid": [lam]}, threshold="training"), []
        (own,) = single.methods
        for inner in inner_splits(table, whole):
            sample = draw_sample(table, inner, own, whole.preprocessing, seed_for(4, "inner", inner.fold))
            assert len(sample.rows) < len(inner.train) / 2
            model = fit_model(table, inner, sample, choose(table, inner, own, single, 4), own, single, 4)
            gmeans.append(reached(model, table.rows(inner.test)))
        assert found["mean"][place] == pytest.approx(np.mean(gmeans))


def test_a_candidates_probabilities_meet_other_folds_as_they_are():
    table = blobs(150, 5)
    method = {"solver": "sklearn.neighbors.KNeighborsClassifier", "search": {"n_neighbors": [3, 9]}}
    whole = config(method, threshold="out_of_fold", select_by="gmean")
    found = search_parameters(table, whole.methods[0], whole, 4)
    splits = inner_splits(table, whole)
    for place, n_neighbors in enumerate([3, 9]):
        single = config(method | {"search": {}, "params": {"n_neighbors": n_neighbors}})
        told = [fitted_on(table, single, inner).decision_function(table.X)[inner.test] for inner in splits]
        gmeans = []
        for k, inner in enumerate(splits):
            others = [j for j in range(len(splits)) if j != k]
            y_others = np.concatenate([table.y[splits[j].test] for j in others])
            threshold = best_gmean_threshold(y_others, np.concatenate([told[j] for j in others]))
            gmeans.append(gmean(table.y[inner.test], np.where(told[k] > threshold, 1, -1)))
        assert found["mean"][place] == pytest.approx(np.mean(gmeans))
