"""Replay: what a run's manifest tells is enough to compute it again, to the last bit; and what is not is named."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from flows.preflight import conversion_rule
from tasks import catalogue, claims
from tasks.cell import compute, divide, plainly
from tasks.configuration import ExperimentConfig
from tasks.convert import convert
from tasks.differences import Difference
from tasks.download import download
from tasks.errors import BadInput
from tasks.facts import environment, processor
from tasks.files import file_sha256
from tasks.ledger import Ledger, canonical
from tasks.manifest import cell_sections, code_section, environment_section, fold_sections
from tasks.manifests import find_manifest
from tasks.numeric import numbers_of, write_numbers
from tasks.replay import (
    CLOSE,
    DIFFERS,
    SAME,
    STAGES,
    UNKNOWN,
    is_close,
    recipe_of,
    replay,
)
from tasks.seeds import seed_for

FIXED = {"lam": 1e-2, "C": 0.1, "lam2": 10.0, "gamma_factor": 1.0}
QUICK = {"validation": {"folds": 2, "inner_folds": 2}}
WINE = {"source": "sklearn:wine", "name": "wine", "positive": "class_2"}


def method_of(solver, sampler="none", **more):
    """A method whose grids have one value each, so that nothing is searched."""
    entry = catalogue.solver(solver)
    grids = {name: [FIXED[name]] for name, _ in ([entry.grid] if entry.grid else []) + list(entry.also)}
    if solver.startswith(("zovr", "zo_")):
        more |= {"params": {"max_iter": 3}}
    return {"solver": solver, "sampler": sampler} | ({"search": grids} if grids else {}) | more


def recorded(folder, source, method, name="set", **tree):
    """Compute a cell by the experiment's own recipe and write its manifest; return where."""
    entry = source if isinstance(source, dict) else {"source": str(source), "name": name}
    config = ExperimentConfig.model_validate({"datasets": [entry], "methods": [method]} | QUICK | tree)
    return manifest_of(folder, config, divide(dataset_of(config), config, plainly))


def dataset_of(config):
    (entry,) = config.datasets
    return convert.fn(download.fn(entry.name, entry.source, entry.format), conversion_rule(entry))


def manifest_of(folder, config, prepared):
    (method,) = config.methods
    seed = seed_for(config.seed, prepared.dataset.name, method.label)
    result = compute(prepared, method, config, seed, plainly)
    facts = environment() | {"machine": f"{processor()}, 2 cores", "workers": str(config.workers)}
    facts |= {"git_commit": "none", "git_dirty": "unknown"}
    run = {"run_id": "0" * 32, "name": f"{prepared.dataset.name} {method.label}", "status": "FINISHED"}
    content = {
        "schema": "aucflow-manifest/1",
        "kind": "run",
        "run": run,
        **cell_sections(prepared, method, config, seed),
        **fold_sections(result, seed),
        "store": {},
        "artifacts": [],
        "code": code_section(facts, cell_sections(prepared, method, config, seed)),
        "environment": environment_section(facts),
    }
    path = folder / "lineage.json"
    path.write_bytes(canonical(content))
    return path


def changed(path, **places):
    """Write a manifest in which the values at some places (``data__X_sha256``) are others."""
    content = json.loads(path.read_bytes())
    for place, value in places.items():
        *way, last = place.split("__")
        part = content
        for step in way:
            part = part[int(step) if isinstance(part, list) else step]
        part[int(last) if isinstance(part, list) else last] = value
    path.write_bytes(canonical(content))
    return find_manifest(str(path))


def verdicts(done):
    return {stage.name: stage.verdict for stage in done.stages if stage.name != "manifest"}


EXACT = dict.fromkeys(STAGES[1:], SAME)


@pytest.fixture
def run(tmp_path):
    """The manifest of a run on wine, and the folder that it lies in."""
    return recorded(tmp_path, WINE, method_of("svm_or", "u1"))


# Every solver, every sampler --------------------------------------------------------------------------------------


SETS = ("sklearn:wine", "keel/new-thyroid1.dat", "libsvm/dna.scale")


@pytest.fixture(scope="module", params=range(len(SETS)), ids=SETS)
def source(request, mirror, tmp_path_factory):
    """A small set and its number: with three classes made two, with a rare class, and sparse with d > n."""
    name = SETS[request.param]
    if name.startswith("sklearn"):
        return request.param, WINE
    if name.startswith("keel"):
        return request.param, {"source": str(mirror / name), "name": "thyroid"}
    path = tmp_path_factory.mktemp("sparse") / "dna.svm"
    lines = (mirror / name).read_text().splitlines()[:120]
    path.write_text("".join(f"{line}\n" for line in lines))
    return request.param, {"source": str(path), "name": "dna", "format": "svmlight", "positive": "1"}


@pytest.mark.slow
@pytest.mark.parametrize("solver", catalogue.SOLVERS)
def test_every_solver_with_every_sampler_is_replayed_bit_for_bit(solver, source, tmp_path):
    """Each pair on one of the sets, by one worker and by two in turn, so that each solver and sampler meets all."""
    first, (number, source) = list(catalogue.SOLVERS).index(solver), source
    for place, sampler in enumerate(catalogue.SAMPLERS, first):
        if place % len(SETS) != number:
            continue
        path = recorded(tmp_path, source, method_of(solver, sampler))
        done = replay(find_manifest(str(path)), workers=1 + place % 2)
        assert done.claim.is_exact
        assert verdicts(done) == EXACT, (sampler, done.first_difference)


# Others' solvers, and what configs can ask for --------------------------------------------------------------------


ASKED = {
    "another library's": ({"solver": "sklearn.svm.SVC", "params": {"C": 1.0, "kernel": "poly"}}, {}),
    "random trees on balanced samples": (
        {"solver": "imblearn.ensemble.BalancedRandomForestClassifier", "params": {"n_estimators": 5}},
        {},
    ),
    "a search that is not in the alphabet's order": (
        {"solver": "margin_mean", "search": {"lam1": [0.1, 1], "hinge_weight": ["equal", "balanced"]}},
        {"validation": {"folds": 2, "inner_folds": 2, "select_by": "gmean"}},
    ),
    "a value that no inner fold has rows for": (
        {"solver": "sklearn.neighbors.KNeighborsClassifier", "search": {"n_neighbors": [3, 5, 170]}},
        {"validation": {"folds": 2, "inner_folds": 2}},
    ),
    "weights and counts by label": (
        {
            "solver": "sklearn.linear_model.LogisticRegression",
            "params": {"class_weight": {1: 3, -1: 1}},
            "sampler": "smote",
            "sampler_params": {"sampling_strategy": {1: 60}},
        },
        {},
    ),
    "a search, a kernel, new rows": (
        {"solver": "svm_or", "sampler": "smote", "kernel": "gaussian", "grid": [0.01, 0.1], "gamma_grid": [0.5, 2.0]},
        {"preprocessing": {"scale": ["standard", "quantile"]}},
    ),
    "probabilities, rows held out": (
        method_of("linear_svm", "u1", probabilities="sigmoid"),
        {"validation": {"folds": 3, "inner_folds": 2, "held_out": 0.2, "threshold": "out_of_fold"}},
    ),
    "repeats, copies kept together": (
        method_of("ls_svm"),
        {"validation": {"folds": 2, "repeats": 2, "split": "grouped_by_duplicates", "select_by": "gmean"}},
    ),
    "later rows, probabilities": (
        method_of("linear_svm", "u1", probabilities="sigmoid"),
        {"data": {"time": "ash"}, "validation": {"folds": 2, "inner_folds": 2, "held_out": 0.2}},
    ),
    "groups": (method_of("ls_svm"), {"data": {"group": "magnesium"}, "validation": {"folds": 2, "inner_folds": 2}}),
}


@pytest.mark.parametrize(("method", "tree"), ASKED.values(), ids=ASKED)
@pytest.mark.filterwarnings("ignore")
def test_whatever_a_config_asks_for_is_replayed_bit_for_bit(method, tree, tmp_path):
    asked = {key: value for key, value in tree.items() if key != "data"}
    manifest = find_manifest(str(recorded(tmp_path, WINE | tree.get("data", {}), method, **asked)))
    for workers in (None, 2):
        done = replay(manifest, workers)
        assert verdicts(done) == EXACT, done.first_difference
        assert done.is_exact
        assert done.claim.is_exact


def test_a_table_of_texts_and_gaps_is_replayed_from_wherever_it_lies_now(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    rows = [
        f"{rng.normal():.3f},{'' if rng.random() < 0.1 else rng.choice(['a', 'ü'])},{n % 4 == 0}" for n in range(60)
    ]
    table = tmp_path / "claims.csv"
    table.write_text("\n".join(["amount,shop,fraud", *rows]) + "\n", encoding="utf-8")
    path = recorded(tmp_path, {"source": str(table), "target": "fraud"}, method_of("ls_svm"))
    assert verdicts(replay(find_manifest(str(path)))) == EXACT
    # moved: found where it is named, and in the cache, under any name
    moved = table.rename(tmp_path / "moved.csv")
    assert verdicts(replay(find_manifest(str(path)), files=(moved,))) == EXACT
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    (tmp_path / "home" / "data").mkdir(parents=True)
    kept = moved.rename(tmp_path / "home" / "data" / "anything")
    assert verdicts(replay(find_manifest(str(path)))) == EXACT
    # gone: which file, with which digest
    kept.unlink()
    digest = json.loads(path.read_bytes())["data"]["raw"][0]["sha256"]
    with pytest.raises(BadInput, match=f"SHA-256 {digest}.*{table}.*--data"):
        replay(find_manifest(str(path)))
    # not to be looked at
    table.symlink_to("a" * 300)
    with pytest.raises(BadInput, match=f"{table} \\(file name too long\\) nor in the cache"):
        replay(find_manifest(str(path)))
    table.unlink()
    # another one in its place
    table.write_text("amount,shop,fraud\n1,a,True\n2,b,False\n")
    done = replay(find_manifest(str(path)))
    assert done.first_difference.name == "data"
    assert digest in done.first_difference.detail
    assert set(verdicts(done).values()) == {DIFFERS, UNKNOWN}
    # named, and not that either: nothing was looked at
    other = tmp_path / "other.csv"
    other.write_text("amount,shop,fraud\n")
    with pytest.raises(
        BadInput, match=rf"SHA-256 {digest}.*{table} \(other bytes, \w{{12}}…\), {other} nor in the cache"
    ):
        replay(find_manifest(str(path)), files=(other,))


# What differs is named, at the first stage where it does ----------------------------------------------------------


CHANGES = {
    "data": {"data__X_sha256": "0" * 64},
    "split": {"splits__1__test_sha256": "0" * 64},
    "search": {"folds__0__chosen__lam": 0.5},
    "sample": {"folds__1__sample__kept_sha256": "0" * 64},
    "fit": {"folds__2__model_sha256": "0" * 64},
    "threshold": {"folds__0__threshold": 0.125},
    "scores": {"folds__0__test_scores_sha256": "0" * 64},
    "metrics": {"folds__1__test__auc": 0.5},
}


@pytest.mark.parametrize(("stage", "change"), CHANGES.items(), ids=CHANGES)
def test_the_first_stage_that_differs_is_named_with_both_values(run, stage, change):
    done = replay(changed(run, **change))
    assert done.first_difference.name == stage
    (place, value) = next(iter(change.items()))
    (difference,) = done.first_difference.differences
    assert difference.path[-1] == place.rpartition("__")[2]
    assert difference.first == value
    assert verdicts(done) | {stage: DIFFERS} == verdicts(done)


def test_a_part_that_a_manifest_does_not_have_yet_is_not_missed(run):
    content = json.loads(run.read_bytes())
    del content["data"]["label_counts" if "label_counts" in content["data"] else "n_rows"]
    del content["folds"][0]["certificate"]
    run.write_bytes(canonical(content))
    assert verdicts(replay(find_manifest(str(run)))) == EXACT


def test_a_manifest_that_is_not_the_ledgers_is_told_before_anything_is_computed(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Ledger(Path("mlruns/ledger")).append("run", "0" * 32, "finished", {"manifest_sha256": "f" * 64})
    manifest = find_manifest(str(run))
    done = replay(manifest)
    assert done.first_difference.name == "manifest"
    assert "ffffffffffff" in done.first_difference.detail
    assert set(verdicts(done).values()) == {UNKNOWN}
    Ledger(Path("mlruns/ledger")).append("run", "0" * 32, "finished", {"manifest_sha256": manifest.sha256})
    assert {stage.verdict for stage in replay(find_manifest(str(run))).stages} == {SAME}


def test_a_stage_that_fails_now_is_the_one_that_differs(run, monkeypatch):
    def fail(*_):
        raise ValueError("no fold today")

    monkeypatch.setattr("tasks.cell.train.fn", fail)
    done = replay(find_manifest(str(run)))
    assert done.first_difference.name == "fit"
    assert "ValueError: no fold today" in done.first_difference.detail
    assert verdicts(done)["search"] == UNKNOWN


BAD = {
    "which is FAILED: ValueError": {"run__status": "FAILED", "run__reason": "ValueError: x"},
    "found it not": {"data__name": "other"},
    "config.methods": {"config__methods": []},
    "method": {"method__solver": "no_such_solver"},
    "data.raw": {"data__raw": []},
    "folds": {"folds": []},
}


@pytest.mark.parametrize(("message", "change"), BAD.items(), ids=BAD)
def test_what_cannot_be_replayed_is_bad_input(run, message, change):
    with pytest.raises(BadInput, match=message):
        replay(changed(run, **change))


# Elsewhere: within a tolerance ------------------------------------------------------------------------------------


ELSEWHERE = {"environment__cpu": "Another, 64 cores"}


def test_on_another_processor_equal_bits_are_more_than_could_be_claimed(run):
    done = replay(changed(run, **ELSEWHERE))
    assert done.claim.kind == "within tolerance"
    assert f"the processor is {processor()}, was Another" in done.claim.because
    assert done.is_exact
    assert done.first_difference is None


def test_other_code_lowers_the_claim_and_other_bits_of_the_same_code_are_a_finding(run, monkeypatch):
    moved = {"folds__0__threshold": json.loads(run.read_bytes())["folds"][0]["threshold"] + 1e-9}
    done = replay(changed(run, **moved))
    assert done.claim.is_exact
    assert done.first_difference.name == "threshold"
    monkeypatch.setattr(claims, "package_sha256", lambda: "c" * 64)
    done = replay(find_manifest(str(run)))
    assert "the code is cccccccccccc…" in done.claim.because
    assert verdicts(done) == EXACT | {"threshold": CLOSE}
    assert replay(find_manifest(str(run)), tolerance=1e-12).first_difference.name == "threshold"


def test_digests_say_nothing_of_how_far_apart_numbers_are_unless_the_numbers_are_kept(run):
    manifest = changed(run, **ELSEWHERE, folds__0__test_scores_sha256="0" * 64, folds__2__model_sha256="1" * 64)
    assert verdicts(replay(manifest)) == EXACT | {"fit": UNKNOWN, "scores": UNKNOWN}
    numbers = numbers_of_run(manifest)
    listed = [{"path": "run/numbers.npz", "sha256": kept(run, numbers)}]
    assert verdicts(replay(changed(run, artifacts=listed))) == EXACT | {"fit": CLOSE, "scores": CLOSE}
    numbers["scores 0"] = numbers["scores 0"] + 1e-9
    listed[0]["sha256"] = kept(run, numbers)
    assert verdicts(replay(changed(run, artifacts=listed)))["scores"] == CLOSE
    numbers["coef -1"] = numbers["coef -1"] * 1.01
    listed[0]["sha256"] = kept(run, numbers)
    assert replay(changed(run, artifacts=listed)).first_difference.name == "fit"
    kept(run, {})
    assert "is not the file" in replay(find_manifest(str(run))).first_difference.detail
    run.with_name("numbers.npz").unlink()
    alone = find_manifest(str(run))
    assert verdicts(replay(alone)) == EXACT | {"fit": UNKNOWN, "scores": UNKNOWN}
    # what this folder's ledger knows has to be there
    gone = replay(replace(alone, recorded=alone.sha256))
    assert gone.first_difference.name == "scores" and "numbers.npz" in gone.first_difference.detail


def kept(run, numbers):
    """Write numbers beside a manifest; return their digest."""
    path = run.with_name("numbers.npz")
    write_numbers(path, numbers)
    return file_sha256(path)


def numbers_of_run(manifest):
    recipe = recipe_of(manifest)
    prepared = divide(dataset_of(recipe.config), recipe.config, plainly)
    return numbers_of(compute(prepared, recipe.method, recipe.config, recipe.seed, plainly))


def test_rows_and_choices_have_to_be_the_same_within_any_tolerance():
    def close(*path, first, second):
        return is_close(Difference(path, first, second), 1e-3)

    assert close("refit", "test", "auc", first=0.9, second=0.9005)
    assert close("refit", "search", "mean", first=[0.5, None], second=[0.5001, None])
    assert close("refit", "model_sha256", first="0", second="1")
    assert not close("refit", "search", "mean", first=[0.5, None], second=[0.5, 0.5])
    assert not close("refit", "sample", "kept_sha256", first="0", second="1")
    assert not close("refit", "sample", "added_sha256", first=None, second="1")
    assert not close("refit", "sample", "n_kept", first=1000, second=1001)
    assert not close("refit", "certificate", "status", first="converged", second="max_iter")
    assert not close("refit", "test", "auc", first=0.9, second=None)


def test_a_replay_as_json_has_the_claim_and_every_stage(run):
    told = replay(changed(run, **CHANGES["threshold"])).as_dict()
    assert json.loads(canonical(told)) == told
    assert [stage["stage"] for stage in told["stages"]] == list(STAGES)
    assert told["first_difference"] == "threshold"
    assert told["replayed"] is False
    assert told["claim"]["kind"] == "exact"
