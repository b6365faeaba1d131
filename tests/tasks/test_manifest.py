"""The manifest of a run: all that it was made of and all that came out, as canonical JSON, with the ledger's digest."""

import hashlib
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow import MlflowClient
from prefect import Task
from prefect.utilities.collections import visit_collection

from flows import experiment
from tasks.configuration import ExperimentConfig
from tasks.files import file_sha256
from tasks.ledger import Ledger, canonical
from tasks.manifest import plain
from tasks.store import artifact_folder, existing, ledger
from tasks.track import TrackedRun, tracked_experiment

DIGEST = r"[0-9a-f]{64}"
TREE = {
    "name": "told",
    "datasets": [{"source": "sklearn:wine", "name": "wine", "positive": "class_2"}],
    "methods": [
        {"solver": "svm_or", "sampler": "smote", "grid": [0.01, 0.1]},
        {"solver": "sdcd", "params": {"max_bytes": 8}},
    ],
    "validation": {"folds": 2, "inner_folds": 2},
    "seed": 7,
}


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """An experiment with a cell that finishes and one that fails, tracked without Prefect: folder and manifests."""
    folder = tmp_path_factory.mktemp("told")
    config = ExperimentConfig.model_validate(TREE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(Task, "__call__", lambda stage, *arguments: stage.fn(*arguments))
        prepared = experiment.prepare(config.datasets[0], config)
        with tracked_experiment(config, (prepared.dataset,)) as run:
            for method in config.methods:
                experiment.run_method(prepared, method, config, run)
    client = MlflowClient(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
    place = client.get_experiment_by_name("told").experiment_id
    manifests = {}
    for found in client.search_runs([place]):
        with artifact_folder(found.info.artifact_uri) as artifacts:
            manifests[found.info.run_name] = ((artifacts / "lineage.json").read_bytes(), found, client)
    return folder, manifests


@pytest.fixture
def cell(told):
    return json.loads(told[1]["wine smote+svm_or"][0])


def digests_in(value):
    """Every value under a name that says it is a digest."""
    if isinstance(value, dict):
        for key, member in value.items():
            if key.endswith("sha256") and member is not None:
                yield member
            yield from digests_in(member)
    elif isinstance(value, list):
        for member in value:
            yield from digests_in(member)


def test_what_fails_before_the_first_cell_ends_the_run_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tasks.track._log_inputs", lambda run, datasets: 1 / 0)
    with pytest.raises(ZeroDivisionError), tracked_experiment(ExperimentConfig.model_validate(TREE), ()):
        raise AssertionError("not reached")
    (run,) = existing().search_runs(["1"])
    assert run.info.status == "FAILED" and "ZeroDivisionError" in run.data.tags["aucflow.reason"]
    assert [entry.subject for entry in ledger().entries()] == [run.info.run_id]


def test_every_run_has_one_and_the_ledger_has_its_digest(told):
    folder, manifests = told
    assert set(manifests) == {"told", "wine smote+svm_or", "wine sdcd"}
    entries = {entry.subject: entry for entry in Ledger(folder / "mlruns" / "ledger").entries()}
    for data, run, _ in manifests.values():
        content = json.loads(data)
        entry = entries[run.info.run_id]
        assert entry.data["manifest_sha256"] == hashlib.sha256(data).hexdigest()
        assert entry.data["status"] == content["run"]["status"] == run.info.status
        assert content["run"]["run_id"] == run.info.run_id
        assert canonical(content) == data
        digests = list(digests_in(content))
        assert digests and all(re.fullmatch(DIGEST, digest) for digest in digests)


def test_data_are_told_from_the_raw_file_to_every_split(cell):
    data = cell["data"]
    (raw,) = data["raw"]
    assert raw["source"] == "sklearn:wine"
    assert raw["sha256"] == file_sha256(Path(raw["path"]))
    assert raw["size_bytes"] == Path(raw["path"]).stat().st_size
    assert data["conversion"]["positive"] == "class_2"
    assert data["conversion"]["label_counts"] == {"class_0": 59, "class_1": 71, "class_2": 48}
    assert {"sha256", "X_sha256", "y_sha256"} <= set(data)
    assert (data["n_rows"], data["n_features"], data["n_pos"], data["n_neg"]) == (178, 13, 48, 130)
    assert [split["fold"] for split in cell["splits"]] == [0, 1, -1]
    assert len({split["train_sha256"] for split in cell["splits"]}) == 3
    assert [split["n_train"] + split["n_test"] for split in cell["splits"]] == [178] * 3


def test_method_config_and_seeds_are_told_as_they_were_asked_for(cell):
    config = ExperimentConfig.model_validate(TREE)
    assert ExperimentConfig.model_validate(cell["config"]) == config
    assert type(config.methods[0]).model_validate(cell["method"]) == config.methods[0]
    assert cell["seeds"]["experiment"] == 7
    seeds = [fold["seeds"][name] for fold in cell["folds"] for name in ("sample", "train")]
    assert len({cell["seeds"]["method"], *seeds}) == 7


def test_every_fold_tells_sample_search_model_and_scores(cell):
    assert [fold["fold"] for fold in cell["folds"]] == [0, 1, -1]
    for fold in cell["folds"]:
        assert fold["sample"]["scheme"] == "smote"
        assert fold["sample"]["n_added"] > 0
        assert fold["sample"]["added_sha256"]
        assert fold["search"]["value"] == [0.01, 0.1]
        assert len(fold["search"]["mean"]) == len(fold["search"]["sd"]) == 2
        assert fold["chosen"]["lam"] in (0.01, 0.1)
        assert fold["params"]["lam"] == fold["chosen"]["lam"]
        assert {"tol", "max_iter", "method", "loss"} <= set(fold["params"])
        assert fold["certificate"]["status"] == "converged"
        assert 0 <= fold["certificate"]["dual_gap"] <= fold["params"]["tol"]
        assert isinstance(fold["threshold"], float)
    for fold in cell["folds"][:-1]:
        assert fold["test"]["auc"] > 0.9
        assert {"gmean", "sensitivity", "specificity", "auc_variance"} <= set(fold["train"])
        assert fold["test_scores_sha256"]
    for name in ("model_sha256", "test_scores_sha256"):
        found = [fold[name] for fold in cell["folds"] if name in fold]
        assert len(set(found)) == len(found)


def test_artifacts_and_what_the_store_shows_are_told_as_they_are_there(told, cell):
    _, run, client = told[1]["wine smote+svm_or"]
    with artifact_folder(run.info.artifact_uri) as folder:
        there = {f"run/{path.relative_to(folder).as_posix()}": path for path in folder.rglob("*") if path.is_file()}
        listed = {one["path"]: one for one in cell["artifacts"] if one["path"].startswith("run/")}
        assert set(listed) == {name for name in there if not name.startswith("run/lineage.json")}
        for name, one in listed.items():
            assert (one["sha256"], one["size_bytes"]) == (file_sha256(there[name]), there[name].stat().st_size)
    assert any(one["path"].endswith("model.skops") for one in cell["artifacts"])
    shown = client.get_run(run.info.run_id).data
    assert {name: metric["last"] for name, metric in cell["store"]["metrics"].items()} == shown.metrics
    assert cell["store"]["params"] == shown.params
    assert cell["store"]["tags"].items() <= shown.tags.items()


def test_code_environment_and_origin_are_told(cell):
    assert {"version", "commit", "dirty", "dirty_diff_sha256", "package_sha256"} == set(cell["code"])
    environment = cell["environment"]
    assert {"lock_sha256", "python", "platform", "cpu", "blas", "threads", "packages"} <= set(environment)
    assert {"numpy", "scipy", "scikit-learn", "numba"} <= set(environment["packages"])
    assert environment["threads"]["workers"] == 1
    run = cell["run"]
    assert run["parents"] == [run["parents"][0]]
    assert {"experiment_id", "prefect_flow_run_id", "user"} <= set(run)
    assert run["started"] < run["ended"]
    assert run["ended"].endswith("+00:00")


def test_a_run_that_failed_tells_its_reason_and_an_experiment_its_cells(told):
    failed = json.loads(told[1]["wine sdcd"][0])
    assert failed["run"]["status"] == "FAILED"
    assert "max_bytes" in failed["run"]["reason"]
    assert failed["folds"] == []
    assert failed["data"]["X_sha256"]
    parent = json.loads(told[1]["told"][0])
    assert parent["kind"] == "experiment"
    assert [data["name"] for data in parent["data"]] == ["wine"]
    assert failed["run"]["parents"] == [parent["run"]["run_id"]]


# JSON -------------------------------------------------------------------------------------------------------------


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.complex_numbers() | st.binary()


@given(st.recursive(VALUES, lambda part: st.lists(part) | st.dictionaries(st.integers(), part), max_leaves=5))
def test_plain_values_are_json_and_stay_what_they_are(value):
    made = plain(value)
    assert plain(made) == made
    try:
        assert json.loads(canonical(made)) == made
    except UnicodeEncodeError:  # half a surrogate pair is text to Python and to nobody else
        assert any(0xD800 <= ord(sign) <= 0xDFFF for sign in str(value))


def test_numbers_of_numpy_are_pythons_and_an_object_is_told_without_its_address():
    values = {"a": np.float32(0.5), "b": np.arange(2), "c": [np.inf, -np.inf, np.nan], "d": np.bool_(True)}
    assert plain(values) == {"a": 0.5, "b": [0, 1], "c": ["inf", "-inf", None], "d": True}
    assert plain(object()) == "<object object>"
    assert "0x" not in plain({"key": lambda: None})["key"]


# Prefect -----------------------------------------------------------------------------------------------------------


def test_prefect_does_not_go_through_the_manifests_of_all_cells_so_far(told):
    run = TrackedRun(None, None, "told", {}, {"splits": [[0, 1], [2, 3]]})
    run.manifests += [json.loads(manifest) for manifest, _, _ in told[1].values()]
    looked_at = []
    visit_collection(run, looked_at.append)
    assert looked_at == [run]
