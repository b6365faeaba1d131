"""Committees: which candidates sit in one, how each is fitted, what certifies it, and that it is one model to keep."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import skops.io
from pydantic import ValidationError
from sklearn.preprocessing import StandardScaler

from aucsolvers import LSSVM, RangeScaler, Ranker
from aucsolvers.adapters import chains
from aucsolvers.committee import Committee
from aucsolvers.metrics import auc, smoothed_gmean_threshold
from tasks.calibrate import calibration_splits, out_of_fold_scores
from tasks.configuration import ExperimentConfig
from tasks.digests import state_sha256
from tasks.fit import draw_samples, fit_pipeline, fit_scorer, reproducible_fits
from tasks.models import trusted_types
from tasks.search import best_candidate, best_candidates, choose
from tasks.split import make_splits
from tasks.train import fit_model, least_certified
from tasks.undersample import draw_sample
from tasks.values import Table

METHOD = {"solver": "ls_svm", "grid": [1e-3, 1e-1, 10.0], "scale": ["standard", "minmax"]}


def config(method=METHOD, **validation):
    given = {"select_by": "gmean", "threshold": "out_of_fold_smoothed", **validation}
    return ExperimentConfig.model_validate({"datasets": ["wine"], "methods": [method], "validation": given})


def blobs(n=150, seed=0):
    rng = np.random.default_rng(seed)
    y = np.where(np.arange(n) % 5 == 0, 1, -1).astype(np.int8)
    columns = rng.normal(size=(n, 3)) + (y > 0)[:, None]
    return Table(pd.DataFrame({"a": columns[:, 0], "b": 10 * columns[:, 1], "c": np.exp(columns[:, 2])}), y)


def fitted(method, **validation):
    table, whole = blobs(), config(method, **validation)
    split, own = make_splits(table.y, 2, 1, seed=0)[0], whole.methods[0]
    choice = choose(table, split, own, whole, 4)
    sample = draw_sample(table, split, own, whole.preprocessing.settled(choice.chosen.get("scale")), 1)
    return table, split, sample, fit_model(table, split, sample, choice, own, whole, 4)


def test_the_best_come_first_and_equals_in_the_order_of_the_choice():
    search = {"value": [0.1, 1.0, 10.0, 100.0], "mean": [0.8, 0.9, 0.9, 0.7], "sd": [0.1] * 4}
    assert [c["C"] for c in best_candidates("C", search, 3)] == [1.0, 10.0, 0.1]
    assert [c["lam"] for c in best_candidates("lam", search, 9)] == [10.0, 1.0, 0.1, 100.0]
    assert best_candidates("lam", search, 1) == (best_candidate("lam", search),)


def test_candidates_without_a_score_sit_in_no_committee():
    search = {"value": [0.1, 1.0, 10.0], "mean": [0.8, np.nan, 0.7], "sd": [0.1] * 3}
    assert [c["C"] for c in best_candidates("C", search, 3)] == [0.1, 10.0]
    assert best_candidates("C", search | {"mean": [np.nan] * 3}, 3) == ({"C": 1.0},)


def test_the_members_are_the_best_candidates_each_fitted_as_it_would_be_alone():
    method = METHOD | {"committee": 3, "sampler": "u1"}
    table, split, sample, model = fitted(method)
    best = best_candidates("lam", model.search, 3)
    members = chains(model.pipeline)
    assert [member[-1].lam for member in members] == [c["lam"] for c in best]
    assert model.chosen == best[0]
    scalers = {"standard": StandardScaler, "minmax": RangeScaler}
    for member, candidate in zip(members, best, strict=True):
        assert isinstance(member["preprocessing"]["scale"], scalers[candidate["scale"]])
    alone = fit_pipeline(table, sample, config(method).methods[0], best[0], 4)
    assert state_sha256(members[0]) == state_sha256(alone)
    train, test = table.rows(split.train).X, table.rows(split.test).X
    units = [(m.decision_function(test) - np.median(m.decision_function(train))) for m in members]
    mean = np.mean([u / m.decision_function(train).std() for u, m in zip(units, members, strict=True)], axis=0)
    assert model.pipeline.decision_function(test) == pytest.approx(mean)


def test_both_scales_may_sit_in_one_committee():
    _, _, _, model = fitted(METHOD | {"committee": 6})
    kinds = {type(member["preprocessing"]["scale"]) for member in chains(model.pipeline)}
    assert kinds == {StandardScaler, RangeScaler}


def test_a_committee_of_one_is_the_plain_pipeline():
    plain, one = fitted(METHOD)[-1], fitted(METHOD | {"committee": 1})[-1]
    assert list(one.pipeline.named_steps) == ["preprocessing", "solver"]
    assert (state_sha256(one.pipeline), one.threshold) == (state_sha256(plain.pipeline), plain.threshold)


def test_members_of_one_scale_share_their_sample():
    table, whole = blobs(), config(METHOD | {"sampler": "u1"})
    split, method = make_splits(table.y, 2, 1, seed=0)[0], whole.methods[0]
    candidates = ({"lam": 0.1, "scale": "standard"}, {"lam": 0.1, "scale": "standard"})
    samples = draw_samples(table, split, method, candidates, whole.preprocessing, 7)
    one, other = chains(fit_scorer(table, split, samples, method, candidates, 7))
    assert state_sha256(one) == state_sha256(other)


def test_the_threshold_is_that_of_the_committee_held_out_as_one():
    table, split, _, model = fitted(METHOD | {"committee": 3})
    whole, train = config(METHOD | {"committee": 3}), table.rows(split.train)
    best, inner_splits = best_candidates("lam", model.search, 3), calibration_splits(train, whole)
    samples = draw_samples(table, split, whole.methods[0], best, whole.preprocessing, 1)
    scores = out_of_fold_scores(table, split, samples, inner_splits, model.pipeline, whole.methods[0], best, whole, 4)

    def in_units_of(values, those):
        return (values - np.median(those)) / those.std()

    def committee(rows):
        """Return all training rows' scores by the members fitted on some, each in the units of those."""
        total = np.zeros(len(train.y))
        for candidate in best:
            scaler = {"standard": StandardScaler, "minmax": RangeScaler}[candidate["scale"]]().fit(train.X.iloc[rows])
            member = LSSVM(candidate["lam"]).fit(scaler.transform(train.X.iloc[rows]), train.y[rows])
            found = member.decision_function(scaler.transform(train.X))
            total += in_units_of(found, found[rows]) / len(best)
        return total

    usual, expected = committee(np.arange(len(train.y))), np.empty(len(train.y))
    for inner in inner_splits:
        found, common = committee(inner.train), usual[inner.train]
        expected[inner.test] = in_units_of(found, found[inner.train])[inner.test] * common.std() + np.median(common)
    np.testing.assert_allclose(scores, expected, rtol=0, atol=1e-9)
    assert model.threshold == pytest.approx(smoothed_gmean_threshold(train.y, expected), abs=1e-6)  # of a flat top


def test_the_certificate_is_the_least_certified_members():
    def solver(status, gap, unit=1.0):
        return SimpleNamespace(status_=status, dual_gap_=gap, gap_unit_=unit)

    def least(*solvers):
        return least_certified([Committee([[one] for one in solvers])])

    early, wide, narrow = solver("max_iter", 1e-9), solver("converged", 1e-4), solver("converged", 1e-3, unit=100.0)
    assert least(narrow, wide) is wide
    assert least(wide, early, narrow) is early


def test_a_committee_is_certified_by_the_member_that_stopped_early():
    tight = {"solver": "svm_or", "grid": [1e-5, 1.0], "params": {"max_iter": 1}, "committee": 2}
    with reproducible_fits():
        _, _, _, model = fitted(tight)
    solvers = [member[-1] for member in chains(model.pipeline)]
    assert model.status == least_certified(model.pipeline).status_ == "max_iter"
    assert model.dual_gap == max(s.dual_gap_ for s in solvers if s.status_ == "max_iter")


def test_classifiers_of_others_make_a_committee_without_a_certificate():
    forest = {"solver": "sklearn.ensemble.RandomForestClassifier", "params": {"n_estimators": 5}}
    _, _, _, model = fitted(forest | {"search": {"max_depth": [2, 4]}, "committee": 2})
    assert model.status == "uncertified"
    assert len(chains(model.pipeline)) == 2


def test_the_same_seed_gives_the_same_committee():
    method = METHOD | {"sampler": "u1", "kernel": "gaussian", "gamma_grid": [0.1, 1.0], "committee": 4}
    one, again = fitted(method)[-1], fitted(method)[-1]
    assert state_sha256(one.pipeline) == state_sha256(again.pipeline)
    assert one.threshold == again.threshold


def test_it_is_kept_and_read_back_as_one_model_with_probabilities():
    method = METHOD | {"kernel": "gaussian", "gamma_grid": [0.1, 1.0], "committee": 3, "probabilities": "sigmoid"}
    table, _, _, model = fitted(method)
    ranker = Ranker(
        model.pipeline,
        threshold=model.threshold,
        positive_label="yes",
        negative_label="no",
        calibrator=model.calibrator,
    )
    again = skops.io.loads(skops.io.dumps(ranker), trusted=trusted_types(ranker))
    assert np.array_equal(again.predict(table.X), ranker.predict(table.X))
    assert np.array_equal(again.predict_proba(table.X), ranker.predict_proba(table.X))
    assert auc(table.y, again.predict(table.X)) > 0.8


def test_a_methods_own_scales_stand_in_place_of_preprocessings():
    one = config(METHOD | {"scale": "minmax"})
    assert {c["scale"] for c in one.methods[0].candidates(("standard", "quantile"))} == {"minmax"}
    assert ExperimentConfig.model_validate(one.model_dump(mode="json")) == one
    _, _, _, model = fitted(METHOD | {"scale": "minmax"})
    assert isinstance(model.pipeline["preprocessing"]["scale"], RangeScaler)
    usual = config({"solver": "ls_svm"}).methods[0]
    assert all("scale" not in c for c in usual.candidates(("standard",)))


@pytest.mark.parametrize("wrong", [{"committee": 0}, {"committee": 2.0}, {"scale": "std"}, {"scale": []}])
def test_what_is_no_committee_and_no_scale_is_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        config(METHOD | wrong)


def test_a_member_whose_gap_nothing_bounds_is_the_least_certified():
    early = SimpleNamespace(status_="max_iter", dual_gap_=0.3)
    for status, gap in (("diverged", np.inf), ("uncertified", np.nan)):
        unbounded = SimpleNamespace(status_=status, dual_gap_=gap)
        for members in ([early, unbounded], [unbounded, early]):
            assert least_certified([Committee([[one] for one in members])]) is unbounded
