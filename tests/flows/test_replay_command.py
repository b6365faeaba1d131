"""`aucflow replay` and `aucflow diff` on runs that the installed command made."""

import json
import re
import shutil

import pytest
from installed import claims, run, run_here

from flows.replay import diff_command, replay_command
from tasks.errors import BadInput
from tasks.ledger import Ledger


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with two experiments: one with a cell that failed, one of another seed and one more data set."""
    folder = tmp_path_factory.mktemp("made")
    claims(120).to_csv(folder / "claims.csv", index=False)
    claims(100, seed=4).to_csv(folder / "more.csv", index=False)
    (folder / "first.yaml").write_text(
        "datasets: [{source: claims.csv, target: fraud}]\n"
        "methods: [{solver: ls_svm, grid: [0.01, 0.1]}, {solver: sdcd, sampler: u1, params: {max_bytes: 8}}]\n"
        "validation: {folds: 2, inner_folds: 2, held_out: 0.2}\n"
        "workers: 2\n"
    )
    (folder / "second.yaml").write_text(
        "datasets: [{source: claims.csv, target: fraud}, {source: more.csv, target: fraud}]\n"
        "methods: [{solver: ls_svm, grid: [0.1]}]\n"
        "validation: {folds: 2}\n"
        "seed: 1\n"
    )
    assert run_here(folder, "run", "first.yaml") == 1
    done = run(folder, "run", "second.yaml")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(made, monkeypatch):
    """That folder as the current one; whoever does harm to it mends it again."""
    monkeypatch.chdir(made)
    return made


def manifest_of(folder, experiment, cell):
    """Where the manifest of a run lies."""
    for path in (folder / "mlruns" / "artifacts" / experiment).rglob("lineage.json"):
        if json.loads(path.read_bytes())["run"]["name"] == cell:
            return path
    raise AssertionError(cell)


def store_of(folder):
    entries = len(Ledger(folder / "mlruns" / "ledger").entries())
    return entries, sorted(path.name for path in (folder / "mlruns" / "artifacts").rglob("*"))


def test_a_run_of_the_installed_command_is_replayed_and_nothing_is_written(folder, capsys):
    before = store_of(folder)
    assert replay_command("claims ls_svm", workers=2) == 0
    told = capsys.readouterr().out
    assert "bit for bit the same" in told
    assert told.count(" same ") == 9
    assert "as in the ledger" in told
    assert store_of(folder) == before


def test_an_experiment_is_replayed_cell_by_cell_and_a_failed_cell_is_told(folder, capsys):
    assert replay_command("first", as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["replayed"] is True
    fine, failed = told["cells"]
    assert (fine["name"], fine["bit_for_bit"]) == ("claims ls_svm", True)
    assert "max_bytes" in failed["failed"]
    assert replay_command("first") == 0
    assert "not replayed: the run failed: ValueError" in capsys.readouterr().out
    failed_id = failed["run_id"]
    with pytest.raises(BadInput, match="Expected a run that finished"):
        replay_command(failed_id)


def test_changed_data_are_a_finding_and_lost_data_are_bad_input(folder, tmp_path, capsys):
    data, more = folder / "claims.csv", folder / "more.csv"
    copy = tmp_path / "elsewhere.csv"
    shutil.copy(data, copy)
    shutil.copy(more, tmp_path)
    try:
        data.write_text(data.read_text().replace("yes", "no", 1))
        assert replay_command("second") == 3
        assert "differs, first at the stage data" in capsys.readouterr().out
        assert replay_command("second", files=(str(copy),)) == 0
        assert "not replayed" not in capsys.readouterr().out
        data.unlink()
        assert replay_command("second", as_json=True) == 2
        told = json.loads(capsys.readouterr().out)
        gone, there = told["cells"]
        assert not told["replayed"] and there["bit_for_bit"]
        assert re.search(r"SHA-256 [0-9a-f]{64}.*claims\.csv.*--data", gone["absent"])
        more.unlink()
        with pytest.raises(BadInput, match=r"SHA-256 [0-9a-f]{64}.*claims\.csv.*--data"):
            replay_command("second")
    finally:
        shutil.copy(copy, data)
        shutil.copy(tmp_path / "more.csv", more)


@pytest.mark.parametrize(("name", "got"), [("gone.csv", "no such file"), ("mlruns", "is a directory")])
def test_a_file_that_is_named_and_cannot_be_read_is_told_though_it_is_not_needed(folder, name, got):
    with pytest.raises(BadInput, match=f"with --data, got {name}: {got}"):
        replay_command("second", files=(name,))


def test_data_that_a_later_run_found_replaced_are_lost_and_no_finding(tmp_path, monkeypatch, capsys):
    """As on any schedule of retraining: an old champion's replay looked like tampering."""
    data, options = tmp_path / "claims.csv", ("--data", "claims.csv", "--target", "fraud", "--method", "ls_svm")
    claims(120).to_csv(data, index=False)
    assert run_here(tmp_path, "run", *options, "--folds", "2", "--name", "first") == 0
    shutil.copy(data, tmp_path / "before.csv")
    claims(130).to_csv(data, index=False)
    monkeypatch.chdir(tmp_path)
    assert replay_command("first") == 3, "nobody has told of these yet"
    assert "differs, first at the stage data" in capsys.readouterr().out
    assert run_here(tmp_path, "run", *options, "--folds", "2", "--name", "second") == 0
    with pytest.raises(BadInput, match=r"SHA-256 [0-9a-f]{64} in .*claims\.csv, got newer data.*--data"):
        replay_command("first")
    assert replay_command("first", files=(str(tmp_path / "before.csv"),)) == 0
    data.write_text("amount,fraud\n1,yes\n2,no\n")
    assert replay_command("first") == 3


def test_a_changed_manifest_is_a_finding_of_the_run_and_of_its_experiment(folder, capsys):
    path = manifest_of(folder, "second", "claims ls_svm")
    whole = path.read_bytes()
    content = json.loads(whole)
    content["folds"][0]["threshold"] += 0.5
    try:
        path.write_text(json.dumps(content))
        for name in ("claims ls_svm", "second", str(path)):
            assert replay_command(name) == 3
            assert "first at the stage manifest" in capsys.readouterr().out
        path.unlink()
        assert replay_command("second", as_json=True) == 3
        assert "found none" in json.loads(capsys.readouterr().out)["cells"][0]["lost"]
    finally:
        path.write_bytes(whole)
    own = manifest_of(folder, "second", "second")
    whole = own.read_bytes()
    try:
        own.write_bytes(whole.replace(b'"seed":1', b'"seed":2'))
        assert replay_command("second") == 3
        assert "differs: the ledger has" in capsys.readouterr().out
    finally:
        own.write_bytes(whole)
    assert replay_command("second") == 0


def test_a_manifest_without_its_store_is_replayed_and_its_ledger_is_missed(folder, tmp_path, monkeypatch, capsys):
    shutil.copy(manifest_of(folder, "second", "claims ls_svm"), tmp_path / "lineage.json")
    monkeypatch.chdir(tmp_path)
    assert replay_command("lineage.json") == 0
    told = capsys.readouterr().out
    assert "knows nothing" in told
    assert "bit for bit the same" in told
    # by other code it is compared within a tolerance, without the numbers that lie beside it in its store
    monkeypatch.setattr("tasks.claims.package_sha256", lambda: "c" * 64)
    assert replay_command("lineage.json") == 0
    assert "within a tolerance of 1e-06: the code is cccccccccccc…" in capsys.readouterr().out
    assert [path.name for path in tmp_path.iterdir()] == ["lineage.json"]


def test_two_runs_are_told_apart_section_by_section(folder, capsys):
    first = json.loads(manifest_of(folder, "first", "claims ls_svm").read_bytes())["run"]["run_id"]
    assert diff_command(first, "claims ls_svm") == 0
    lines = capsys.readouterr().out.splitlines()
    heads = [line.split()[0] for line in lines if line[0] != " "]
    assert heads == ["first", "second", "data", "code", "environment", "parameters", "results"]
    assert any("method.grid: [0.01, 0.1] → [0.1]" in line for line in lines)
    assert any("seed: 0 → 1" in line for line in lines)
    assert any("--json lists all" in line for line in lines)
    assert diff_command(first, "claims ls_svm", as_json=True) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["identical"] is False
    assert {"place": "seed", "first": 0, "second": 1} in told["differences"]["parameters"]


def test_a_run_and_itself_are_identical_and_experiments_are_compared_by_their_cells(folder, capsys):
    assert diff_command("second", "second") == 0
    assert capsys.readouterr().out.count("identical") == 5
    assert diff_command("first", "second") == 0
    told = capsys.readouterr().out
    assert "cells.claims u1+sdcd" in told
    assert "reason" in told
