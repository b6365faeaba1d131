"""The installed command on a user's own file: what they see, and the store read back by its own client."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import mlflow
import numpy as np
import pytest
from installed import claims, run, run_here
from mlflow import MlflowClient
from sklearn.metrics import roc_auc_score

from tasks.configuration import load_config
from tasks.convert import convert
from tasks.download import download
from tasks.values import ConversionRule


@pytest.fixture(scope="module")
def own_data(tmp_path_factory):
    """One run on a CSV of the user's own, in a folder with a blank and an umlaut in its name."""
    folder = tmp_path_factory.mktemp("own data ü")
    claims().to_csv(folder / "my claims.csv", index=False)
    arguments = ["--data", "my claims.csv", "--target", "fraud", "--folds", "3", "--seed", "5", "--workers", "2"]
    done = run(folder, "run", *arguments, "--method", "sdcd_perm", "--method", "u1+ls_svm")
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture(scope="module")
def store(own_data):
    """The store's own client, and its runs: the parent first."""
    client = MlflowClient(f"sqlite:///{own_data[0] / 'mlruns' / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("my-claims")
    runs = client.search_runs([experiment.experiment_id], order_by=["attributes.start_time ASC"])
    return client, runs


def test_the_console_shows_a_table_the_report_and_how_to_open_mlflow(own_data):
    folder, done = own_data
    assert max(len(line) for line in done.stdout.splitlines()) <= 80
    rows = [line for line in done.stdout.splitlines() if "±" in line]
    assert len([r for r in rows if "sdcd_perm" in r]) == 1
    assert len([r for r in rows if "ls_svm" in r and "u1" in r]) == 1
    report = re.search(r"mlruns/reports/\S+\.html", done.stdout)
    assert report and (folder / report.group()).is_file()
    assert "aucflow ui" in done.stdout


def test_nobody_elses_words_reach_the_user(own_data):
    _, done = own_data
    for word in ("Traceback", "Warning", "WARN", "ERROR", "prefect.", "alembic", "telemetry"):
        assert word not in done.stderr
    stages = list(dict.fromkeys(line.split()[0] for line in done.stderr.splitlines()))
    assert stages == ["start", "download", "convert", "check", "search", "undersample", "train", "track"]


def test_one_parent_and_one_child_for_each_method(store):
    _, runs = store
    parent, *children = runs
    assert [r.info.status for r in runs] == ["FINISHED"] * 3
    assert {c.data.tags["mlflow.parentRunId"] for c in children} == {parent.info.run_id}
    assert [c.info.run_name for c in children] == ["my claims sdcd_perm", "my claims u1+ls_svm"]


def test_parameters_seeds_and_facts_are_logged(store):
    _, (parent, child, _) = store
    assert parent.data.params["seed"] == "5"
    assert parent.data.params["validation.folds"] == "3"
    assert child.data.params["solver__order"] == "permutation"
    assert float(child.data.params["solver__lam"]) > 0
    assert child.data.params["method_seed"].isdigit()
    for run_ in (parent, child):
        tags = run_.data.tags
        assert re.fullmatch(r"[0-9a-f-]{36}", tags["aucflow.prefect_flow_run_id"])
        assert tags["aucflow.git_dirty"] in ("true", "false", "unknown")
        assert tags["aucflow.git_commit"]
        assert tags["aucflow.version_numba"].count(".") == 2
        assert tags["aucflow.seed"] == "5"


def test_fold_metrics_and_their_means_agree(store):
    client, (_, child, _) = store
    folds = client.get_metric_history(child.info.run_id, "test_auc")
    assert sorted(m.step for m in folds) == [0, 1, 2]
    values = np.array([m.value for m in folds])
    assert child.data.metrics["test_auc_mean"] == pytest.approx(values.mean())
    assert child.data.metrics["test_auc_sd"] == pytest.approx(values.std(ddof=1))
    for metric in ("gmean", "sensitivity", "specificity", "average_precision", "auc_low", "auc_high"):
        assert f"train_{metric}_mean" in child.data.metrics
        assert f"test_{metric}_mean" in child.data.metrics
    assert child.data.metrics["test_auc_mean_low"] < values.mean() < child.data.metrics["test_auc_mean_high"]


def test_the_convergence_of_the_refit_is_stepped_by_updates(store):
    client, (_, child, _) = store
    gaps = sorted(client.get_metric_history(child.info.run_id, "dual_gap"), key=lambda m: m.step)
    assert gaps[0].step == 0
    assert gaps[-1].value < gaps[0].value
    for name in ("objective", "auc"):
        assert [m.step for m in client.get_metric_history(child.info.run_id, name)] == [m.step for m in gaps]


def test_the_data_set_is_an_input_with_its_whole_digest(own_data, store):
    folder, _ = own_data
    _, (parent, child, _) = store
    raw = download.fn("my claims", str(folder / "my claims.csv"), None)
    dataset = convert.fn(raw, ConversionRule("fraud"))
    for run_ in (parent, child):
        (given,) = run_.inputs.dataset_inputs
        assert {t.key: t.value for t in given.tags}["sha256"] == dataset.sha256
        profile = json.loads(given.dataset.profile)
        assert profile["sha256"] == dataset.sha256
        assert profile["label_counts"] == dict(claims()["fraud"].value_counts())


def test_the_resolved_config_reads_back(store, tmp_path):
    client, (parent, child, _) = store
    for run_ in (parent, child):
        path = client.download_artifacts(run_.info.run_id, "config.json", str(tmp_path))
        config = load_config(path)
        assert config.seed == 5
        assert [m.label for m in config.methods] == ["sdcd_perm", "u1+ls_svm"]


def test_curves_are_kept_as_pictures_and_as_numbers(store, tmp_path):
    client, (_, child, _) = store
    folder = Path(client.download_artifacts(child.info.run_id, "curves", str(tmp_path)))
    assert {p.name for p in folder.iterdir()} == {"roc.png", "roc.json", "convergence.png", "convergence.json"}
    for name in ("roc", "convergence"):
        assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert json.loads((folder / f"{name}.json").read_text())


def test_the_model_loads_without_pickle_and_scores_raw_rows(own_data, store):
    folder, _ = own_data
    _, (_, *children) = store
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
    raw = claims().drop(columns="fraud")
    for child in children:
        model = mlflow.pyfunc.load_model(f"runs:/{child.info.run_id}/model")
        assert model.metadata.flavors["sklearn"]["serialization_format"] == "skops"
        assert model.metadata.signature.inputs.input_names() == ["amount", "age", "shop", "constant"]
        scores = model.predict(raw.fillna({"shop": np.nan}))
        assert scores.shape == (400,)
        assert roc_auc_score(claims()["fraud"] == "yes", scores) > 0.7
        ranker = mlflow.sklearn.load_model(f"runs:/{child.info.run_id}/model")
        assert np.array_equal(ranker.predict(raw), scores)
        assert set(ranker.classify(raw)) == {"yes", "no"}
        assert ranker.threshold == float(child.data.params["threshold"])
    files = [p.suffix for p in (folder / "mlruns").rglob("*")]
    assert ".skops" in files
    assert ".pkl" not in files


def test_the_input_example_is_scored_too(own_data, store):
    folder, _ = own_data
    _, (_, child, _) = store
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
    model = mlflow.pyfunc.load_model(f"runs:/{child.info.run_id}/model")
    assert len(model.predict(model.input_example)) == 5


def test_the_report_is_one_page_with_no_link_outside(own_data):
    folder, _ = own_data
    (page,) = (folder / "mlruns" / "reports").glob("*.html")
    text = page.read_text(encoding="utf-8")
    assert "http://" not in text and "https://" not in text
    assert "<b>west</b>" not in text
    for word in ("sdcd_perm", "u1", "constant", "missing"):
        assert word in text


@pytest.mark.skipif(shutil.which("chromium") is None, reason="headless Chromium is not installed")
def test_the_report_opens_in_a_browser(own_data, tmp_path):
    folder, _ = own_data
    (page,) = (folder / "mlruns" / "reports").glob("*.html")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    command = ["chromium", *flags, f"--user-data-dir={tmp_path}", "--dump-dom", page.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=60).stdout
    assert dom.count("<img") >= 3
    assert "sdcd_perm" in dom


def test_runs_are_listed_parent_first(own_data):
    folder, _ = own_data
    done = run(folder, "list", "runs")
    assert done.returncode == 0
    lines = [line for line in done.stdout.splitlines() if "FINISHED" in line]
    assert len(lines) == 3
    assert "my claims sdcd_perm" in lines[1]


def test_the_same_seed_gives_the_same_numbers_whatever_the_workers(own_data, store):
    folder, _ = own_data
    client, (_, child, _) = store
    arguments = ["--data", "my claims.csv", "--target", "fraud", "--folds", "3", "--seed", "5", "--workers", "1"]
    assert run_here(folder, "run", *arguments, "--method", "sdcd_perm", "--name", "again") == 0
    experiment = client.get_experiment_by_name("again")
    again = client.search_runs([experiment.experiment_id], "tags.aucflow.solver = 'sdcd_perm'")[0]
    timed = {"seconds", "compile_s", "fit_s", "search_s"}
    assert {k: v for k, v in again.data.metrics.items() if k not in timed} == {
        k: v for k, v in child.data.metrics.items() if k not in timed
    }
