"""More runs of the installed command: the quickstart, a failing cell, another store, sparse data."""

import mlflow
import numpy as np
import pandas as pd
import pytest
from installed import claims, run
from mlflow import MlflowClient
from sklearn.metrics import roc_auc_score

from tasks.configuration import load_config
from tasks.convert import convert, load
from tasks.download import download
from tasks.values import ConversionRule


def test_a_failing_cell_is_told_tracked_and_leaves_the_others_alone(tmp_path):
    """A fold of training rows whose hyperplane is zero cannot be under-sampled; the other method can go on."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3 == 0
    pd.DataFrame({"flat": 1.0, "also": 2.0, "y": y.astype(int)}).sample(60, random_state=rng).to_csv(
        tmp_path / "flat.csv", index=False
    )
    done = run(tmp_path, "run", "--data", "flat.csv", "--target", "y", "--method", "ls_svm", "--method", "u1+ls_svm")
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("aucflow: ")]
    assert len(errors) == 1
    assert "1 of 2 cells failed" in errors[0]
    assert "ls_svm" in done.stdout
    client = MlflowClient(f"sqlite:///{tmp_path / 'mlruns' / 'mlflow.db'}")
    runs = client.search_runs([client.get_experiment_by_name("flat").experiment_id])
    status = {r.info.run_name: r.info.status for r in runs}
    assert status == {"flat": "FAILED", "flat ls_svm": "FINISHED", "flat u1+ls_svm": "FAILED"}
    failed = next(r for r in runs if r.info.run_name == "flat u1+ls_svm")
    assert "hyperplane" in failed.data.tags["aucflow.reason"]


def test_another_tracking_uri_is_obeyed(tmp_path):
    claims(120).to_csv(tmp_path / "claims.csv", index=False)
    uri = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    arguments = ["run", "--data", "claims.csv", "--target", "fraud", "--method", "ls_svm", "--folds", "2"]
    done = run(tmp_path, *arguments, MLFLOW_TRACKING_URI=uri)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "mlruns" / "mlflow.db").exists()
    assert len(MlflowClient(uri).search_experiments(filter_string="name = 'claims'")) == 1


def test_sparse_svmlight_from_the_mirror_runs_whole(mirror, tmp_path):
    done = run(tmp_path, "run", "--data", mirror / "libsvm" / "svmguide3", "--method", "ls_svm", "--folds", "3")
    assert done.returncode == 0, done.stderr
    mlflow.set_tracking_uri(f"sqlite:///{tmp_path / 'mlruns' / 'mlflow.db'}")
    (child,) = mlflow.search_runs(
        search_all_experiments=True, filter_string="tags.aucflow.solver = 'ls_svm'", output_format="list"
    )
    raw = download.fn("svmguide3", str(mirror / "libsvm" / "svmguide3"), None)
    table = load(convert.fn(raw, ConversionRule()))
    scores = mlflow.pyfunc.load_model(f"runs:/{child.info.run_id}/model").predict(table.X)
    assert roc_auc_score(table.y, scores) > 0.75


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
