"""Differences: every place at which two trees differ, and no other; two runs section by section."""

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.differences import MISSING, SECTIONS, Difference, compare, differences, in_words, is_same, sections, shown
from tasks.errors import BadInput

LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(-1, 1) | st.text("ab", max_size=3)
TREES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text("abc", max_size=2), inner))


@given(TREES, TREES)
def test_there_is_a_difference_just_where_json_differs(first, second):
    assert list(differences(first, copy.deepcopy(first))) == []
    found = list(differences(first, second))
    assert bool(found) == (json.dumps(first, sort_keys=True) != json.dumps(second, sort_keys=True))
    mirrored = {(d.path, repr(d.first), repr(d.second)) for d in differences(second, first)}
    assert {(d.path, repr(d.second), repr(d.first)) for d in found} == mirrored


def test_places_are_told_with_both_values_and_what_one_side_lacks():
    first = {"a": 1, "fold": [{"x": 1.0}, {"x": 2.0}], "grid": [1, 2], "gone": None}
    second = {"a": 1, "fold": [{"x": 1.0}, {"x": 3.0}, {"x": 4.0}], "grid": [1, 3], "new": "y"}
    assert [(d.place, d.first, d.second) for d in differences(first, second)] == [
        ("fold.1.x", 2.0, 3.0),
        ("fold.2", MISSING, {"x": 4.0}),
        ("grid", [1, 2], [1, 3]),
        ("gone", None, MISSING),
        ("new", MISSING, "y"),
    ]
    assert Difference(("new",), MISSING, "y").as_dict() == {"place": "new", "second": "y"}


@pytest.mark.parametrize(("first", "second"), [(1, True), (1, 1.0), (0.0, -0.0), ("1", 1), (None, 0), ([1], [True])])
def test_values_that_compare_equal_and_are_not_the_same_differ(first, second):
    assert not is_same(first, second)
    assert list(differences({"a": first}, {"a": second}))


def test_values_are_shown_short():
    assert in_words(Difference(("auc",), 0.5, 0.25)) == "auc: 0.5 → 0.25 (-0.25)"
    assert in_words(Difference(("n",), 5, 6)) == "n: 5 → 6"
    assert in_words(Difference(("n",), MISSING, None)) == "n: – → none"
    long = "divided by 'day', tested rows are later than those that train by "
    assert in_words(Difference(("rule",), f"{long}5d", f"{long}7d")) == "rule: …at train by 5d → …at train by 7d"
    assert shown("a" * 64) == "aaaaaaaaaaaa…"
    assert shown([0.5] * 1000) == "[0.5, 0.5, 0.5, … 1000 in all]"
    assert len(shown("word " * 1000)) < 60
    assert len(shown([{"key": "long" * 50}] * 9)) < 200


def test_a_list_with_a_part_in_it_is_compared_place_by_place():
    first, second = {"steps": ["scale", {"lam": 1}]}, {"steps": ["scale", {"lam": 2}]}
    assert [d.place for d in differences(first, second)] == ["steps.1.lam"]


def test_a_list_that_is_shown_whole_tells_no_number():
    assert (shown([1, 2, 3]), shown([1, 2, 3, 4])) == ("[1, 2, 3]", "[1, 2, 3, … 4 in all]")


# Manifests --------------------------------------------------------------------------------------------------------


def cell():
    fold = {
        "seeds": {"sample": 1, "train": 2},
        "solver": "SVMOR",
        "params": {"lam": 0.1},
        "model_sha256": "0" * 64,
        "threshold": 0.0,
        "test": {"auc": 0.9},
    }
    return {
        "kind": "run",
        "run": {"run_id": "1" * 32, "name": "wine svm_or", "status": "FINISHED", "reason": None, "started": "today"},
        "data": {"name": "wine", "X_sha256": "0" * 64},
        "splits": [{"fold": 0, "train_sha256": "0" * 64}],
        "method": {"solver": "svm_or"},
        "config": {"seed": 0, "workers": 1, "name": "a", "datasets": [], "methods": []},
        "seeds": {"experiment": 0},
        "folds": [copy.deepcopy(fold) | {"fold": number} for number in (0, -1)],
        "store": {"metrics": {"test_auc_mean": {"last": 0.9}, "fit_s": {"last": 1.0}}},
        "code": {"package_sha256": "0" * 64},
        "environment": {"blas": [{"internal_api": "openmp"}, {"internal_api": "openblas"}]},
        "artifacts": [{"path": "model", "sha256": "0" * 64}],
        "seconds": 1.0,
    }


def experiment():
    cells = [{"dataset": "wine", "method": "svm_or", "run_id": "2" * 32, "manifest_sha256": "3" * 64, "error": None}]
    method = {"solver": "svm_or", "sampler": "none", "kernel": "none", "name": None}
    own = {"kind": "experiment", "data": [{"name": "wine", "sha256": "0" * 64}], "cells": cells}
    config = {"seed": 0, "name": "a", "datasets": [], "methods": [method]}
    return cell() | own | {"config": config, "store": {"metrics": {"wine/svm_or/test_auc_mean": {"last": 0.9}}}}


def placed(manifest, *way, value):
    """A manifest with another value at one place."""
    changed = copy.deepcopy(manifest)
    part = changed
    for step in way[:-1]:
        part = part[step]
    part[way[-1]] = value
    return changed


CHANGES = [
    (cell, ("data", "X_sha256"), "data", "X_sha256"),
    (cell, ("splits", 0, "train_sha256"), "data", "splits.fold 1.train_sha256"),
    (cell, ("code", "package_sha256"), "code", "package_sha256"),
    (cell, ("environment", "blas", 0, "internal_api"), "environment", "blas.1.internal_api"),
    (cell, ("method", "solver"), "parameters", "method.solver"),
    (cell, ("config", "seed"), "parameters", "seed"),
    (cell, ("seeds", "experiment"), "parameters", "seeds.experiment"),
    (cell, ("folds", 1, "params", "lam"), "parameters", "fitted.params.lam"),
    (cell, ("run", "status"), "results", "status"),
    (cell, ("store", "metrics", "test_auc_mean", "last"), "results", "test_auc_mean"),
    (cell, ("folds", 0, "test", "auc"), "results", "fold 1.test.auc"),
    (cell, ("folds", 1, "model_sha256"), "results", "refit.model_sha256"),
    (experiment, ("data", 0, "sha256"), "data", "wine.sha256"),
    (experiment, ("config", "methods", 0, "kernel_params"), "parameters", "methods.svm_or.kernel_params"),
    (experiment, ("cells", 0, "error"), "results", "cells.wine svm_or.error"),
    (experiment, ("store", "metrics", "wine/svm_or/test_auc_mean", "last"), "results", "wine/svm_or/test_auc_mean"),
]


@pytest.mark.parametrize(("make", "way", "section", "place"), CHANGES, ids=[change[3] for change in CHANGES])
def test_what_differs_stands_in_its_section_and_nowhere_else(make, way, section, place):
    found = compare(make(), placed(make(), *way, value="z" * 9))
    assert {name: [d.place for d in found.sections[name]] for name in SECTIONS} == {
        name: [place] if name == section else [] for name in SECTIONS
    }
    assert not found.is_identical


@pytest.mark.parametrize("make", [cell, experiment])
def test_what_no_two_runs_share_is_no_difference(make):
    other = placed(make(), "run", "run_id", value="8" * 32)
    other = placed(other, "run", "started", value="tomorrow")
    other = placed(other, "artifacts", value=[])
    other = placed(other, "seconds", value=9.0)
    other["environment"]["blas"].reverse()
    if make is cell:
        other = placed(other, "store", "metrics", "fit_s", "last", value=7.0)
    else:
        other = placed(other, "cells", 0, "run_id", value="7" * 32)
        other = placed(other, "cells", 0, "manifest_sha256", value="7" * 64)
    assert compare(make(), other).is_identical


def test_the_means_come_before_the_folds_and_metrics_before_digests():
    results = sections(cell())["results"]
    assert list(results) == ["status", "reason", "test_auc_mean", "fold 1", "refit"]
    assert list(results["fold 1"])[:2] == ["test", "threshold"]


def test_a_run_and_an_experiment_can_be_compared():
    found = compare(cell(), experiment())
    assert found.sections["results"]
    assert not found.sections["code"]


def test_a_manifest_with_another_thing_in_place_of_a_part_is_bad_input():
    with pytest.raises(BadInput, match="to be whole"):
        compare(cell(), placed(cell(), "folds", value=[{}]))
    with pytest.raises(BadInput, match="to be whole"):
        compare(cell(), placed(cell(), "environment", "blas", value=None))
