"""An experiment from Python: a DataFrame in, the result and a traced run out."""

import logging
import os
import subprocess
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pandas as pd
import pytest
from installed import claims, environment
from pyarrow import parquet
from ready_made import prefect_url

from flows.api import run
from flows.display import total_steps
from flows.quiet import quiet
from flows.run import run_flow
from tasks.configuration import parse_config
from tasks.convert import convert
from tasks.download import download
from tasks.errors import BadInput
from tasks.frames import keep
from tasks.progress import RECORDED, listening
from tasks.runs import list_runs
from tasks.store import existing
from tasks.values import ConversionRule

SCRIPT = """
import pandas as pd
from flows.api import run

frame = pd.read_pickle("claims.pkl")
result = run(frame, "fraud", positive="yes", methods=("ls_svm",), folds=2, seed=3)
(cell,) = result.results
print(result)
print(result.datasets[0].name, result.datasets[0].n_pos, round(cell.mean_sd("auc")[0], 6), cell.error)
"""


def test_a_data_frame_runs_as_its_file_would(tmp_path):
    frame = claims()
    frame.to_pickle(tmp_path / "claims.pkl")
    env = environment(tmp_path, AUCFLOW_HOME=str(tmp_path / "home"), PREFECT_API_URL=prefect_url())
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=580
    )
    assert done.returncode == 0, done.stderr
    *table, last = done.stdout.splitlines()
    name, n_pos, auc, error = last.split()
    assert table[-3].startswith("Experiment 'frame', run ")
    assert table[-2].split()[:4] == ["dataset", "method", "auc", "gmean"]
    assert table[-1].split()[:3] == ["frame", "ls_svm", f"{float(auc):.4f}"]
    (kept,) = (tmp_path / "home" / "frames").iterdir()
    assert name == "frame" and kept.stem.startswith("frame-")  # the file's name says which frame it was
    assert int(n_pos) == (frame["fraud"] == "yes").sum()
    assert 0.6 < float(auc) < 1.0 and error == "None"
    assert (tmp_path / "mlruns" / "mlflow.db").is_file()


def test_folds_hang_on_seed_and_name_and_not_on_the_bytes_of_the_frame(tmp_path, monkeypatch):
    """A column of another type, or a newer library that writes it, made other folds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    frame, found = claims(), []
    for sign in ("int8", "int64"):
        typed = frame.assign(fraud=(frame["fraud"] == "yes").astype(sign))
        result = run(typed, "fraud", positive=1, methods=("ls_svm",), folds=2, seed=3, name="claims")
        found.append(result.results[0].fold_values("auc"))
    assert np.array_equal(*found)
    assert len(list((tmp_path / "home" / "frames").iterdir())) == 2


def test_what_folds_have_fitted_is_let_go_once_it_is_recorded(tmp_path, monkeypatch):
    """Of a million features, that of a few methods took gigabytes until the last one had ended."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    frame = claims()
    (cell,) = run(frame, "fraud", positive="yes", methods=("u1+ls_svm",), folds=2).results
    assert cell.final.pipeline.decision_function(frame.drop(columns="fraud")).shape == (len(frame),)
    assert [model.pipeline for model in cell.models] == [None] * 2
    assert [sample.preprocessing for sample in cell.samples] == [None] * 3


def test_an_index_is_no_feature_but_may_be_the_group(tmp_path, monkeypatch):
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path))
    frame = claims().assign(client=lambda table: table.index // 4)
    index = frame.set_index(["client", "age"])
    for roles in ([], ["client"], ["client", "age"]):
        expected = frame[[*roles, *index.columns]].set_index(roles) if roles else frame[index.columns]
        kept = pd.read_parquet(keep(index, "frame", of_index=tuple(roles)))
        pd.testing.assert_frame_equal(kept, expected, check_dtype=False)
    as_both = frame.set_index("client", drop=False)
    kept = pd.read_parquet(keep(as_both, "frame", of_index=("client",)))
    pd.testing.assert_frame_equal(kept, frame, check_dtype=False)


def test_levels_of_column_names_are_refused():
    with pytest.raises(BadInput, match=r"one name for each column, got 2 levels of names. Join them: frame\.columns ="):
        keep(pd.DataFrame({("h", "y"): [1, 2], ("h", "x"): [1, 2]}), "frame")


def test_a_file_keeps_its_own_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    claims().to_csv(tmp_path / "table.csv", index=False)
    result = run("table.csv", "fraud", positive="yes", methods=("ls_svm",), folds=2, name="experiment")
    assert (result.name, result.datasets[0].name) == ("experiment", "table")


def test_frames_of_two_threads_are_kept_apart(tmp_path, monkeypatch):
    """Both are written before either has its name: by one name for the draft, one thread trained on the other's."""
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    together, write = Barrier(2, timeout=60), parquet.write_table

    def write_at_once(*arguments):
        write(*arguments)
        together.wait()

    monkeypatch.setattr(parquet, "write_table", write_at_once)
    frames = [claims(), claims().iloc[::-1].reset_index(drop=True)]
    with ThreadPoolExecutor(2) as threads:
        paths = list(threads.map(keep, frames, ["frame", "frame"]))
    for frame, path in zip(frames, paths, strict=True):
        pd.testing.assert_frame_equal(pd.read_parquet(path), frame, check_dtype=False)
    assert sorted((tmp_path / "home" / "frames").iterdir()) == sorted(paths)


def test_a_file_gives_the_experiment_its_name_as_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.setattr("flows.run.run_flow", lambda config: (config.name,))
    claims().to_csv(tmp_path / "claims (1).csv.gz", index=False)
    assert run(tmp_path / "claims (1).csv.gz", "fraud", positive="yes") == "claims--1"


def test_a_config_runs_with_options_on_top(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    claims().to_csv("claims.csv", index=False)
    (tmp_path / "two.yaml").write_text(
        "datasets: [{source: claims.csv, target: fraud, positive: yes}]\nmethods: [ls_svm, svm_or]\n"
    )
    result = run(config=tmp_path / "two.yaml", folds=2)
    assert [cell.method for cell in result.results] == ["ls_svm", "svm_or"]
    assert {len(cell.evaluations) for cell in result.results} == {2}


def test_the_bar_is_full_when_the_report_is_there(tmp_path, monkeypatch):
    """It was full, and its clock stood, while models were still fitted."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    claims().to_csv("claims.csv", index=False)
    config = parse_config(
        {
            "datasets": [{"source": "claims.csv", "target": "fraud", "positive": "yes"}],
            "methods": ["ls_svm", {"solver": "svm_or", "params": {"lam": 0.1}}],
            "validation": {"folds": 2, "inner_folds": 2},
        },
        "a test",
    )
    steps = []
    with quiet(), listening(steps.append):
        run_flow(config)
    done = [step.stage for step in steps if step.done]
    assert len(done) + 1 == total_steps(config) == 14
    assert (done[0], done.count("search"), done.count("train")) == ("split", 6, 6)
    details = [step.detail for step in steps if (step.method, step.fold, bool(step.detail)) == ("ls_svm", 0, True)]
    assert details == [f"{inner}/2{rest}" for inner in (1, 2) for rest in ("", *(f", {n}/5" for n in range(1, 6)))]
    assert [step.stage for step in steps[-2:]] == ["track", RECORDED]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "either data or a config, got neither"),
        ({"data": "claims.csv", "config": "two.yaml"}, "got both"),
        ({"config": "two.yaml", "target": "fraud"}, "Expected --data FILE with --target, got none"),
        ({"config": "two.yaml", "drop": ["id"]}, "Expected --data FILE with --drop, got none"),
        ({"config": "claims.csv"}, "got claims.csv, a data file by its name. Run it by `aucflow run --data claims"),
        ({"data": "two.yaml"}, "Expected a data file, got two.yaml, a config by its name. Run it by `aucflow run two"),
        ({"data": "wine"}, "found no wine. The data set of that name is catalogue:wine."),
        ({"config": "wine"}, "found no 'wine'. The data set of that name runs by `aucflow run --data catalogue:wine`"),
    ],
)
def test_data_and_configs_are_not_taken_for_each_other(tmp_path, monkeypatch, given, message):
    monkeypatch.chdir(tmp_path)
    claims().to_csv("claims.csv", index=False)
    (tmp_path / "two.yaml").write_text("datasets: [wine]\nmethods: [ls_svm]\n")
    with pytest.raises(BadInput) as caught:
        run(**given)
    assert message in str(caught.value)
    assert not (tmp_path / "mlruns").exists()


def test_numbers_of_numpys_are_numbers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    frame = claims().assign(fraud=lambda rows: (rows["fraud"] == "yes").astype(int))
    given = {"positive": frame["fraud"].max(), "folds": np.int64(2), "seed": np.int64(3)}
    (one,) = run(frame, "fraud", methods=("ls_svm",), **given).results
    (two,) = run(frame, "fraud", methods=("ls_svm",), positive=1, folds=2, seed=3).results
    assert one.mean_sd("auc") == two.mean_sd("auc")


@pytest.mark.parametrize("drop", ["id", ["id"], [" id "]])
def test_columns_are_left_out_by_name(tmp_path, monkeypatch, drop):
    """A text alone is one name, and no list of its letters."""
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    seen = []
    monkeypatch.setattr("flows.run.run_flow", lambda config: seen.append(config) or (None,))
    run(claims().assign(id=1), "fraud", drop=drop, methods="ls_svm")
    (config,) = seen
    assert config.datasets[0].drop == ("id",)
    assert [method.solver for method in config.methods] == ["ls_svm"]


def test_what_is_left_out_may_hold_anything_and_have_any_name(tmp_path, monkeypatch):
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    seen = []
    monkeypatch.setattr("flows.run.run_flow", lambda config: seen.append(config) or (None,))
    frame = claims()
    frame["notes"] = [7 if i % 2 else {"a": [1]} for i in range(len(frame))]
    frame[3] = "third"
    run(frame, "fraud", drop=["notes", 3], methods="ls_svm")
    (entry,) = seen[0].datasets
    assert entry.drop == ("notes", "3")
    dataset = convert.fn(download.fn(entry.name, entry.source), ConversionRule(target="fraud", drop=entry.drop))
    assert dataset.columns == tuple(column for column in claims() if column != "fraud")
    with pytest.raises(BadInput, match="Expected columns of numbers, texts or dates"):
        run(frame, "fraud", methods="ls_svm")


def test_an_option_that_there_is_not_is_refused():
    with pytest.raises(TypeError, match="'fold'"):
        run(claims(), "fraud", fold=3)


def test_the_process_is_as_loud_afterwards_as_it_was_before(tmp_path, monkeypatch):
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("PREFECT_LOGGING_LEVEL", raising=False)
    monkeypatch.setenv("DO_NOT_TRACK", "0")
    inside, together = [], Barrier(2, timeout=60)

    def run_flow(_config):
        together.wait()  # both are inside
        inside.append((warnings.filters[0][0], os.environ["PREFECT_LOGGING_LEVEL"], logging.getLogger("mlflow").level))
        return (None,)

    monkeypatch.setattr("flows.run.run_flow", run_flow)
    logging.getLogger("mlflow").setLevel(logging.DEBUG)
    before, environment = list(warnings.filters), dict(os.environ)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda seed: run(claims(), "fraud", positive="yes", seed=seed), [1, 2]))
    assert inside == [("ignore", "CRITICAL", logging.ERROR)] * 2
    assert warnings.filters == before and dict(os.environ) == environment
    assert logging.getLogger("mlflow").level == logging.DEBUG
    with pytest.raises(BadInput):
        run(claims(), "fraud", methods=("no_solver",))
    assert warnings.filters == before


def test_each_folder_has_a_store_of_its_own(tmp_path, monkeypatch):
    """MLflow keeps in the environment where it last wrote: the second folder's runs went into the first one's store."""
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        result = run(claims(), "fraud", positive="yes", methods=("ls_svm",), folds=2, seed=3)
        found = list(list_runs(existing()))
        assert [row.name for row in found] == ["frame", "  frame ls_svm"]
        assert existing().get_run(result.run_id).info.status == "FINISHED"


def test_a_name_that_is_no_name_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    with pytest.raises(BadInput, match="team/claims"):
        run(claims(), "fraud", methods=("ls_svm",), name="team/claims")


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda frame: frame.rename(columns={"age": "amount"}), "each name once"),
        (lambda frame: frame.assign(age=[{1: 2}, *range(len(frame) - 1)]), "numbers, texts or dates"),
        (lambda frame: frame.assign(age=[2**70, *range(len(frame) - 1)]), "too large"),
        (lambda frame: frame.drop(columns="fraud"), "Expected a target column"),
        (lambda frame: frame.iloc[:0], "expected rows"),
    ],
)
def test_a_frame_that_cannot_be_used_is_refused(tmp_path, monkeypatch, change, message):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
    with pytest.raises(BadInput, match=message):
        run(change(claims()), "fraud", methods=("ls_svm",))
    assert not (tmp_path / "mlruns").exists()
