"""More runs: a failing cell, another store, sparse data; of the installed command the quickstart, and one killed."""

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from installed import AUCFLOW, children, claims, environment, run
from mlflow import MlflowClient
from ready_made import prefect_url, put_empty_store
from sklearn.datasets import make_circles
from sklearn.metrics import roc_auc_score

from tasks.configuration import load_config
from tasks.convert import convert, load
from tasks.download import download
from tasks.values import ConversionRule


def test_a_failing_cell_is_told_tracked_and_leaves_the_others_alone(aucflow, folder):
    """Dual variables that may take 8 bytes are too many for any data: refused before the first fit."""
    claims(80).to_csv("flat.csv", index=False)
    Path("flat.yaml").write_text(
        "datasets: [{source: flat.csv, target: fraud}]\n"
        "methods: [ls_svm, {solver: sdcd, sampler: u1, params: {max_bytes: 8}}]\n"
        "validation: {folds: 2}\n"
    )
    kept = Path(os.environ["PREFECT_HOME"]) / "storage"
    before = set(kept.glob("*"))
    code, out, err = aucflow("run", "flat.yaml")
    assert code == 1
    (what_prefect_keeps,) = {path.read_text() for path in set(kept.glob("*")) - before}
    told = json.loads(what_prefect_keeps)
    assert told["__exc_type__"] == "tasks.errors.RunFailed"
    assert told["message"].startswith("1 of 2 cells failed")
    errors = [line for line in err.splitlines() if line.startswith("aucflow: ")]
    assert len(errors) == 1
    assert "1 of 2 cells failed" in errors[0]
    assert "ls_svm" in out
    client = MlflowClient(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("flat").experiment_id])
    status = {r.info.run_name: r.info.status for r in runs}
    assert status == {"flat": "FAILED", "flat ls_svm": "FINISHED", "flat u1+sdcd": "FAILED"}
    failed = next(r for r in runs if r.info.run_name == "flat u1+sdcd")
    assert "Raise max_bytes" in failed.data.tags["aucflow.reason"]


def test_another_tracking_uri_is_obeyed(aucflow, folder, monkeypatch):
    claims(120).to_csv("claims.csv", index=False)
    uri = f"sqlite:///{folder / 'elsewhere.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    code, _, err = aucflow("run", "--data", "claims.csv", "--target", "fraud", "--method", "ls_svm", "--folds", "2")
    assert code == 0, err
    assert not Path("mlruns/mlflow.db").exists()
    assert len(MlflowClient(uri).search_experiments(filter_string="name = 'claims'")) == 1


def test_sparse_svmlight_from_the_mirror_runs_whole(mirror, aucflow, folder):
    code, _, err = aucflow("run", "--data", mirror / "libsvm" / "svmguide3", "--method", "ls_svm", "--folds", "3")
    assert code == 0, err
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
    (child,) = mlflow.search_runs(
        search_all_experiments=True, filter_string="tags.aucflow.solver = 'ls_svm'", output_format="list"
    )
    raw = download.fn("svmguide3", str(mirror / "libsvm" / "svmguide3"), None)
    table = load(convert.fn(raw, ConversionRule()))
    scores = mlflow.pyfunc.load_model(f"runs:/{child.info.run_id}/model").predict(table.X)
    assert roc_auc_score(table.y, scores) > 0.75


def test_rings_are_ranked_in_a_gaussian_kernels_space_and_the_model_keeps_it(aucflow, folder):
    X, inner = make_circles((150, 50), factor=0.4, noise=0.1, random_state=0)
    pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": inner}).to_csv(folder / "rings.csv", index=False)
    arguments = ["run", "--data", "rings.csv", "--target", "y", "--folds", "2"]
    code, out, err = aucflow(*arguments, "--method", "svm_or", "--method", "u1+gaussian+svm_or")
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 80
    assert "gaussian+svm_or" in out
    assert "certificate is that of the linear problem" in out
    (page,) = (folder / "mlruns" / "reports").glob("*.html")
    assert "Kernel (gaussian)" in page.read_text(encoding="utf-8")
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
    runs = mlflow.search_runs(search_all_experiments=True, output_format="list")
    straight, curved = (
        next(r for r in runs if r.info.run_name == f"rings {m}") for m in ("svm_or", "u1+gaussian+svm_or")
    )
    assert straight.data.metrics["test_auc_mean"] < 0.65
    assert curved.data.metrics["test_auc_mean"] > 0.99
    assert curved.data.tags["aucflow.kernel"] == curved.data.params["kernel"] == "gaussian"
    assert float(curved.data.params["gamma"]) > 0
    assert curved.data.params["threshold_set_on"] == "out_of_fold_smoothed"
    assert "chosen_gamma_factor" in curved.data.metrics
    model = mlflow.sklearn.load_model(f"runs:/{curved.info.run_id}/model")
    assert roc_auc_score(inner, model.predict(pd.DataFrame(X, columns=["a", "b"]))) > 0.99


def test_what_others_have_runs_beside_ours_with_scalings_to_choose_from_and_probabilities(aucflow, folder):
    claims(150).to_csv(folder / "claims.csv", index=False)
    (folder / "mixed.yaml").write_text(
        "datasets: [{source: claims.csv, target: fraud}]\n"
        "methods:\n"
        "  - u1_margin_mean\n"
        "  - {solver: sklearn.naive_bayes.GaussianNB, sampler: smote, probabilities: sigmoid,\n"
        "     search: {var_smoothing: [1e-9, 1e-2]}}\n"
        "validation: {folds: 2, inner_folds: 2, select_by: gmean}\n"
        "preprocessing: {scale: [standard, quantile]}\n"
    )
    code, out, err = aucflow("run", "mixed.yaml")
    assert code == 0, err
    assert "GaussianNB" in out
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
    runs = {r.info.run_name: r for r in mlflow.search_runs(search_all_experiments=True, output_format="list")}
    ours, foreign = runs["claims u1+margin_mean"], runs["claims smote+GaussianNB"]
    assert foreign.data.tags["aucflow.solver"] == "sklearn.naive_bayes.GaussianNB"
    assert foreign.data.params["solver__var_smoothing"] in ("1e-09", "0.01")
    assert foreign.data.metrics["rows_added"] > 0
    assert {"certificate", "chosen_lam2"} <= set(ours.data.metrics)
    assert "certificate" not in foreign.data.metrics
    curves = {
        name: {f.path for f in MlflowClient().list_artifacts(r.info.run_id, "curves")} for name, r in runs.items()
    }
    assert "curves/convergence.png" in curves["claims u1+margin_mean"] - curves["claims smote+GaussianNB"]
    model = mlflow.sklearn.load_model(f"runs:/{foreign.info.run_id}/model")
    told = model.predict_proba(pd.read_csv(folder / "claims.csv").drop(columns="fraud"))
    assert told.shape == (150, 2)
    assert np.allclose(told.sum(axis=1), 1)
    # what nobody certifies is null: other programs' JSON knows no NaN
    files = [path for path in (folder / "mlruns").rglob("*.json") if "models" not in path.parts]  # there MLflow's
    assert any('"dual_gap": null' in path.read_text() for path in files if path.name == "folds.json")
    for path in files:
        json.loads(path.read_text(), parse_constant=lambda constant, path=path: pytest.fail(f"{constant} in {path}"))


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory):
    folder = tmp_path_factory.mktemp("quickstart")
    done = run(folder, "run", "configs/experiments/quickstart.yaml")
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_quickstart_fills_its_table(quickstart):
    folder, done = quickstart
    rows = [line.split() for line in done.stdout.splitlines() if line.count("±") == 2 and "AUC" not in line]
    config = load_config("quickstart")
    assert len(rows) == len(config.datasets) * len(config.methods)
    client = MlflowClient(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("quickstart").experiment_id])
    assert len(runs) == 1 + len(rows)
    means = {r.info.run_name: r.data.metrics["test_auc_mean"] for r in runs if "mlflow.parentRunId" in r.data.tags}
    # scikit-learn's LogisticRegression, standardised, 5 folds: digits 8 0.98, breast cancer 0.995, wine 1.0
    assert means["digits ls_svm"] > 0.96
    assert means["breast_cancer sdcd_perm"] > 0.99
    assert means["wine msgd"] > 0.99


def test_typed_parquet_is_scored_as_it_came(aucflow, folder):
    """Times, categories and nullable numbers: what trained the model may be given to it."""
    rng = np.random.default_rng(0)
    n, y = 120, np.arange(120) % 4 == 0
    frame = pd.DataFrame(
        {
            "when": pd.Timestamp("2026-01-01", tz="Europe/Berlin")
            + pd.to_timedelta(rng.integers(0, 10**6, n), unit="s"),
            "lasted": pd.to_timedelta(rng.integers(0, 10**4, n), unit="s"),
            "kind": pd.Categorical(rng.choice(["a", "b"], n)),
            "level": pd.Categorical(rng.choice([1, 2, 3], n)),
            "count": pd.array(rng.integers(0, 9, n) + 3 * y, dtype="Int64"),
            "flag": pd.array(rng.choice([True, False], n), dtype="boolean"),
            "word": pd.array(rng.choice(["x", "y"], n), dtype="string"),
            "y": y,
        }
    )
    for column in ("count", "flag", "word"):
        frame.loc[rng.choice(n, 5, replace=False), column] = pd.NA
    frame.to_parquet(folder / "typed.parquet")
    arguments = ["run", "--data", "typed.parquet", "--target", "y", "--method", "ls_svm", "--folds", "2"]
    code, _, err = aucflow(*arguments)
    assert code == 0, err
    mlflow.set_tracking_uri(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
    (child,) = mlflow.search_runs(
        search_all_experiments=True, filter_string="tags.aucflow.solver = 'ls_svm'", output_format="list"
    )
    model = mlflow.pyfunc.load_model(f"runs:/{child.info.run_id}/model")
    scores = model.predict(pd.read_parquet(folder / "typed.parquet").drop(columns="y"))
    table = load(convert.fn(download.fn("typed", str(folder / "typed.parquet"), None), ConversionRule("y")))
    assert np.array_equal(scores, model.predict(table.X))
    assert roc_auc_score(y, scores) > 0.7
    assert model.metadata.metadata["columns"]["kind"] == "text"


def test_a_dead_store_is_told_of_at_once_and_by_name(aucflow, folder, monkeypatch):
    claims(80).to_csv("claims.csv", index=False)
    arguments = ["run", "--data", "claims.csv", "--target", "fraud", "--method", "ls_svm", "--folds", "2"]
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://bob:secret@127.0.0.1:9")
    code, _, err = aucflow(*arguments)
    assert code == 1
    (line,) = [line for line in err.splitlines() if line != "start Prefect and MLflow"]
    assert line.startswith("aucflow: Expected an MLflow store at http://127.0.0.1:9")
    assert "unset MLFLOW_TRACKING_URI" in line and "secret" not in err
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    Path("mlruns").write_text("in the way")
    code, _, err = aucflow(*arguments)
    assert (code, "Expected mlruns/ to be a folder" in err) == (1, True)


def start_training(folder, **more):
    """Start the quickstart in a group of processes of its own; return once it trains."""
    put_empty_store(folder)
    with (folder / "err").open("w") as err:
        command, env = [AUCFLOW, "run", "quickstart"], environment(folder, **more)
        process = subprocess.Popen(command, cwd=folder, env=env, stderr=err, start_new_session=True)
    while "train" not in (folder / "err").read_text() and process.poll() is None:
        time.sleep(0.05)
    return process


@pytest.mark.usefixtures("hangups")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_run_in_seconds_and_marks_it(tmp_path, number, code):
    """Ctrl-C and a closed terminal reach every process of its group, SIGTERM usually one."""
    process = start_training(tmp_path, **{} if number == signal.SIGINT else {"PREFECT_API_URL": prefect_url()})
    os.kill(process.pid, number) if number == signal.SIGTERM else os.killpg(process.pid, number)
    assert process.wait(60) == code
    text = (tmp_path / "err").read_text()
    assert text.splitlines()[-1].endswith("the run is marked KILLED in MLflow")
    assert "Traceback" not in text
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlruns' / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("quickstart").experiment_id])
    assert {r.info.status for r in runs} == {"KILLED"}


def test_a_run_that_is_killed_leaves_no_server_behind(tmp_path):
    process = start_training(tmp_path)
    ((server, words),) = children(process.pid).items()
    assert "prefect.server" in words
    process.kill()
    process.wait()
    deadline = time.monotonic() + 60
    with pytest.raises(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(server, 0)
            time.sleep(0.1)
