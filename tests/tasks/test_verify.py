"""Verify finds what is not as it was recorded, tells crashes from changes, and leaves legitimate changes alone.

What an attacker may do, case by case, is in test_tampering.py.
"""

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import traceback
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import mlflow
import pytest
from audited import METHODS, MODEL, claims, experiment, forget, inside, overtaken_experiment, register, run_ids
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput
from mlflow.exceptions import MlflowException

from tasks import registry, store
from tasks.errors import BadInput, RunFailed
from tasks.files import file_sha256
from tasks.gone import acknowledge
from tasks.recovery import PROCESS, end_interrupted_runs, this_process
from tasks.runs import PARENT
from tasks.story import tell
from tasks.verify import DataFiles, odd_arrays, recorded_source, verify
from tasks.verify_runs import _changed


def found(audited, deep=False):
    return verify(audited.client, audited.ledger, deep).found


def manifest_of(audited, name="claims ls_svm"):
    (path,) = audited.folder.glob(f"mlruns/artifacts/*/{audited.runs[name]}/artifacts/lineage.json")
    return json.loads(path.read_bytes())


def the_only(findings):
    (one,) = findings
    return one


def test_what_is_retrained_of_newer_data_while_it_is_verified_is_as_it_was_recorded(audited):
    """Its run was not among those that had been read: an honest store had findings."""

    def meanwhile(done, _in_all):
        if done == 1:
            claims(audited.folder / "claims.csv", seed=9)
            experiment(audited.folder / "claims.csv", name="later", methods=METHODS[:1])
            runs = run_ids(audited.client)
            register(replace(audited, runs=runs), "claims ls_svm", against=2)

    assert verify(audited.client, audited.ledger, tell=meanwhile).findings == ()


class TestMlflowsOwnWays:
    """What a platform does to any store of MLflow's."""

    def test_a_version_that_mlflow_copied_to_another_model_is_none_of_ours(self, audited):
        """With the tags of the original it was taken for a forged version, and nothing could settle it."""
        audited.client.copy_model_version(f"models:/{MODEL}@champion", "production")
        audited.client.set_registered_model_alias("production", "champion", "1")
        assert found(audited) == ()

    def test_a_version_that_mlflow_copied_into_a_model_of_ours_is_unknown_and_no_more(self, audited):
        audited.client.create_registered_model("theirs")
        audited.client.copy_model_version(f"models:/{MODEL}/1", MODEL)
        assert [(one.kind, one.subject) for one in found(audited)] == [("unknown", f"{MODEL}/3")]

    def test_a_run_in_the_bin_says_how_it_comes_back(self, audited):
        run_id = audited.runs["claims ls_svm"]
        audited.client.delete_run(run_id)
        (removed,) = (one for one in found(audited) if one.kind == "removed")
        command = "MLFLOW_TRACKING_URI=sqlite:///mlruns/mlflow.db mlflow runs restore --run-id"
        assert removed.message == f"it is marked deleted in the store: `{command} {run_id}` undoes it"

    def test_a_run_of_ones_own_in_the_bin_says_how_it_goes(self, audited):
        run = audited.client.create_run(audited.client.get_experiment_by_name("claims").experiment_id)
        audited.client.set_terminated(run.info.run_id)
        audited.client.delete_run(run.info.run_id)
        (inserted,) = found(audited)
        assert "it is marked deleted, and `MLFLOW_TRACKING_URI=sqlite:///mlruns/mlflow.db mlflow gc` removes it" in (
            inserted.message
        )


class TestClean:
    def test_nothing_is_found_and_everything_is_counted(self, audited):
        told = []
        verdict = verify(audited.client, audited.ledger, True, lambda done, total: told.append((done, total)))
        assert verdict.found == ()
        counts = {"entries": 7, "runs": 3, "models": 1, "data files": 1, "data sets": 1}
        assert {name: verdict.counts[name] for name in counts} == counts
        assert verdict.counts["files"] > 25
        assert verdict.counts["rows"] > 500
        assert told == [(0, 3), (1, 3), (2, 3)]

    def test_nothing_is_written(self, audited):
        def state():
            files = [path for path in audited.folder.rglob("*") if path.is_file()]
            return {path: (path.stat().st_mtime_ns, path.read_bytes()) for path in files}

        before = state()
        assert not found(audited, deep=True)
        assert state() == before


class TestCopy:
    """An auditor copies the folder, or it is moved: MLflow's addresses in it are those of the former place."""

    @pytest.fixture
    def copied(self, audited, tmp_path):
        """The current folder, a copy of the other."""
        shutil.copytree(audited.folder, tmp_path / "copy")
        with inside(tmp_path / "copy"):
            yield replace(audited, folder=tmp_path / "copy")

    def test_is_verified_itself_and_not_the_original(self, copied, audited):
        assert not found(copied, deep=True)
        run = copied.folder / "mlruns" / "artifacts" / "claims" / copied.runs["claims ls_svm"] / "artifacts"
        (run / "config.json").write_text("{}")
        next(copied.folder.glob("mlruns/artifacts/*/models/*/artifacts/model.skops")).unlink()
        (copied.folder / "claims.csv").write_text("changed")
        kinds = {finding.subject.rpartition(", ")[2]: finding.kind for finding in found(copied)}
        assert kinds.items() >= {
            ("file run/config.json", "changed"),
            ("file model/model.skops", "missing"),
            (f"data file {copied.folder / 'claims.csv'}", "changed"),
        }
        with inside(audited.folder):
            assert not found(audited)

    def test_needs_nothing_of_the_original(self, copied, audited, tmp_path):
        audited.folder.rename(tmp_path / "away")
        try:
            assert not found(copied, deep=True)
            shutil.rmtree(copied.folder / "mlruns" / "artifacts")
            missing = [finding.message for finding in found(copied) if "lineage.json" in finding.subject]
            assert len(missing) == len(copied.runs)
            assert all(words.startswith(f"not in {copied.folder}/mlruns/artifacts/") for words in missing)
        finally:
            (tmp_path / "away").rename(audited.folder)

    def test_the_same_data_in_other_bytes_moved_along(self, audited, tmp_path):
        path, section = audited.folder / "claims.csv", manifest_of(audited)["data"]
        path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
        told = section["raw"][0] | {"sha256": file_sha256(path), "size_bytes": path.stat().st_size}
        audited.ledger.append("data", section["sha256"], "the same data in other bytes", {"raw": [told]})
        assert [one.kind for one in found(audited, deep=True)] == ["replaced"]
        audited.folder.rename(tmp_path / "moved")
        try:
            with inside(tmp_path / "moved"):
                moved = replace(audited, folder=tmp_path / "moved")
                one = the_only(found(moved, deep=True))
                assert (one.kind, one.subject) == ("replaced", f"data file {tmp_path / 'moved' / 'claims.csv'}")
        finally:
            (tmp_path / "moved").rename(audited.folder)

    def test_without_the_data_is_verified_with_those_of_the_original(self, copied, audited):
        (copied.folder / "claims.csv").unlink()
        assert not found(copied, deep=True)
        (audited.folder / "claims.csv").write_text("changed")
        assert the_only(found(copied)).subject == f"data file {audited.folder / 'claims.csv'}"


class TestLegitimate:
    def test_tags_notes_and_aliases_of_the_users_own(self, audited):
        client, run_id = audited.client, audited.runs["claims ls_svm"]
        client.set_tag(run_id, "reviewed by", "Ada")
        client.set_tag(run_id, "mlflow.note.content", "looks good")
        client.update_registered_model(MODEL, description="our claims")
        client.set_registered_model_tag(MODEL, "team", "fraud")
        client.set_registered_model_alias(MODEL, "staging", "1")
        client.set_model_version_tag(MODEL, "1", "seen", "yes")
        client.set_experiment_tag(client.get_run(run_id).info.experiment_id, "mlflow.note.content", "an experiment")
        assert found(audited) == ()

    def test_a_model_that_was_loaded_by_its_name(self, audited):
        mlflow.set_tracking_uri(store.tracking_uri())
        mlflow.pyfunc.load_model(f"models:/{MODEL}@champion")
        assert list(audited.folder.rglob("registered_model_meta")), "MLflow leaves its mark"
        assert found(audited) == ()

    def test_an_open_run_of_a_process_that_lives_is_counted(self, audited):
        experiment_id = audited.client.get_experiment_by_name("claims").experiment_id
        audited.client.create_run(experiment_id, tags={PROCESS: this_process()})
        verdict = verify(audited.client, audited.ledger)
        assert verdict.found == ()
        assert verdict.counts["open"] == 1

    def test_runs_of_others_in_experiments_of_their_own(self, audited):
        theirs = audited.client.create_experiment("theirs")
        run = audited.client.create_run(theirs)
        audited.client.set_terminated(run.info.run_id)
        verdict = verify(audited.client, audited.ledger)
        assert verdict.found == ()
        assert verdict.counts["foreign"] == 1

    def test_what_others_evaluate_of_a_model_and_tag_it_with(self, audited):
        model_id = manifest_of(audited)["store"]["model"]["model_id"]
        run = audited.client.create_run(audited.client.create_experiment("evaluation"))
        audited.client.log_metric(run.info.run_id, "test_auc", 0.5, model_id=model_id)
        audited.client.set_logged_model_tags(model_id, {"reviewed by": "Ada"})
        assert found(audited) == ()

    def test_the_same_data_from_another_place_share_a_row_of_the_store(self, audited, tmp_path):
        shutil.copy(audited.folder / "claims.csv", tmp_path / "elsewhere.csv")
        experiment(tmp_path / "elsewhere.csv", methods=({"solver": "ls_svm", "params": {"lam": 1.0}},))
        with closing(sqlite3.connect(audited.folder / "mlruns" / "mlflow.db")) as database:
            assert database.execute("SELECT count(*) FROM datasets").fetchone() == (1,)
        assert found(audited) == ()

    def test_data_that_were_moved_and_read_again_there(self, audited, tmp_path):
        shutil.move(audited.folder / "claims.csv", tmp_path / "moved.csv")
        one = the_only(found(audited))
        assert (one.kind, one.is_note) == ("missing", False)
        experiment(tmp_path / "moved.csv", methods=METHODS[:1])
        one = the_only(found(audited))
        assert (one.kind, one.is_note) == ("missing", True) and str(tmp_path / "moved.csv") in one.message
        assert tell(audited.client, audited.ledger, audited.runs["claims ls_svm"]).found == (one,)
        (tmp_path / "moved.csv").write_text("changed")
        assert {(one.kind, one.is_note) for one in found(audited)} == {("missing", False), ("changed", False)}

    def test_the_same_data_that_a_killed_run_logged_first(self, audited):
        """MLflow has one row for both, and the killed run has no manifest: what it shows is recorded with the other."""
        source = start_first(audited, "crash", gone_process())
        experiment(audited.folder / "claims.csv", "crash", METHODS[:1])
        assert [(one.kind, one.is_note) for one in found(audited)] == [("interrupted", True)]
        end_interrupted_runs(audited.client, audited.ledger)
        assert found(audited) == ()
        changed = source.replace("f" * 64, "e" * 64)
        change_database(audited, "UPDATE datasets SET dataset_source = ? WHERE dataset_source = ?", (changed, source))
        assert {(one.kind, one.subject.split(", ")[1][:12]) for one in found(audited)} == {("changed", "input claims")}

    def test_the_same_data_that_a_run_logged_first_which_lives(self, audited):
        start_first(audited, "slow", this_process())
        experiment(audited.folder / "claims.csv", "slow", METHODS[:1])
        assert found(audited) == ()

    def test_newer_data_that_a_later_run_was_made_of_are_told_and_no_finding(self, audited):
        claims(audited.folder / "claims.csv", seed=4)
        one = the_only(found(audited))
        assert (one.kind, one.is_note) == ("changed", False)
        experiment(audited.folder / "claims.csv", methods=({"solver": "ls_svm", "params": {"lam": 1.0}},))
        one = the_only(found(audited, deep=True))
        assert (one.kind, one.is_note) == ("replaced", True)
        assert str(audited.folder / "claims.csv") in one.subject

    def test_one_edit_of_data_that_were_replaced_before_is_one_finding(self, audited):
        path = audited.folder / "claims.csv"
        for seed in (4, 5):
            claims(path, seed=seed)
            experiment(path, methods=({"solver": "ls_svm", "params": {"lam": float(seed)}},))
        whole = path.read_bytes()
        path.write_bytes(whole.replace(b"yes", b"no", 1))
        notes, findings = ([one.kind for one in found(audited) if one.is_note == note] for note in (True, False))
        assert (notes, findings) == (["replaced", "replaced"], ["changed"])
        path.unlink()
        notes, findings = ([one.kind for one in found(audited) if one.is_note == note] for note in (True, False))
        assert (notes, findings) == (["replaced", "replaced"], ["missing"])

    def test_newer_data_whose_run_ended_before_that_of_the_older(self, audited):
        overtaken_experiment(audited.folder / "claims.csv", "slow", newer=4)
        one = the_only(found(audited))
        assert (one.kind, one.is_note) == ("replaced", True)

    def test_older_data_put_back_are_a_finding_though_an_overtaken_run_ended_last(self, audited):
        before = (audited.folder / "claims.csv").read_bytes()
        overtaken_experiment(audited.folder / "claims.csv", "slow", newer=4)
        (audited.folder / "claims.csv").write_bytes(before)
        one = the_only(found(audited))
        assert (one.kind, one.is_note) == ("changed", False)

    def test_a_run_that_failed_and_one_that_was_killed(self, audited):
        with pytest.raises(Exception, match="max_bytes"):
            experiment(audited.folder / "claims.csv", methods=({"solver": "sdcd", "params": {"max_bytes": 8}},))
        run = audited.client.create_run("1", tags={PROCESS: gone_process(), "aucflow.dataset": "claims"})
        one = the_only(found(audited))
        assert (one.kind, one.is_note, one.run_id) == ("interrupted", True, run.info.run_id)
        end_interrupted_runs(audited.client, audited.ledger)
        assert found(audited) == ()


def start_first(audited, experiment_name: str, process: str) -> str:
    """Have a process start a run of the same values in other bytes; return what it logs as their source."""
    (told,) = manifest_of(audited)["store"]["inputs"]
    source = json.dumps(json.loads(told["source"]) | {"raw_sha256": "f" * 64})
    named = {name: told[name] for name in ("name", "digest", "source_type", "profile")}
    run = audited.client.create_run(store.experiment_id(audited.client, experiment_name), tags={PROCESS: process})
    audited.client.log_inputs(run.info.run_id, [DatasetInput(Dataset(source=source, **named))])
    return source


@contextmanager
def closed(path):
    """Have the system refuse to look at a path, as it does where a folder may not be entered, to whoever tests."""
    kept = path.rename(Path("kept"))
    path.symlink_to("a" * 300)
    try:
        yield
    finally:
        path.unlink()
        kept.rename(path)


def change_database(audited, statement: str, values: tuple) -> None:
    with closing(sqlite3.connect(audited.folder / "mlruns" / "mlflow.db")) as database, database:
        database.execute(statement, values)


def gone_process() -> str:
    """Return what a process that has ended called itself."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return f"{socket.gethostname()}:{process.pid}:1"


class TestRuns:
    def test_a_run_that_is_gone_is_told_with_its_entry(self, audited):
        forget(audited, audited.runs["claims ls_svm"])
        missing = [one for one in found(audited) if one.run_id == audited.runs["claims ls_svm"]]
        assert [(one.kind, one.part) for one in missing] == [("missing", "run")]
        assert "the store has no such run" in missing[0].message

    def test_a_run_that_went_on_purpose_is_told_and_no_finding_with_the_cells_that_went_too(self, audited):
        cells = [audited.runs[name] for name in ("claims ls_svm", "claims u1+ls_svm")]
        parent = audited.client.get_run(cells[0]).data.tags[PARENT]
        for mistaken in (parent, parent[:8], "0" * 32, parent[:5], MODEL):
            with pytest.raises(BadInput, match=r"which is there|none begins"):
                acknowledge(audited.client, audited.ledger, mistaken, "a slip")
        forget(audited, parent)
        forget(audited, cells[0])
        assert {(one.run_id, one.is_note) for one in found(audited)} >= {(parent, False), (cells[0], False)}
        assert acknowledge(audited.client, audited.ledger, parent[:8], "two years old") == (parent, cells[0])
        assert [(one.kind, one.subject, one.is_note) for one in found(audited)] == [("settled", "2 runs", True)]
        for run_id in (parent, cells[0]):
            story = tell(audited.client, audited.ledger, run_id[:8])
            assert [(one.kind, one.is_note) for one in story.found] == [("missing", True)]
            assert story.found[0].message.endswith(": two years old")
        with pytest.raises(BadInput, match="yet to be settled"):
            acknowledge(audited.client, audited.ledger, parent, "again")
        forget(audited, cells[1])  # later, and by nobody's word
        assert [one.run_id for one in verify(audited.client, audited.ledger).findings] == [cells[1]]
        assert acknowledge(audited.client, audited.ledger, parent, "this too") == (cells[1],)
        assert not audited.ledger.verify() and not verify(audited.client, audited.ledger).findings

    @pytest.mark.parametrize("call", ["log_outputs", "log_model_artifacts", "finalize_logged_model", "log_batch"])
    def test_a_request_that_failed_while_a_model_was_logged_is_no_tampering(self, call, tmp_path, monkeypatch):
        """What the store had of the model by then was one too many, for good."""
        request = getattr(MlflowClient, call)

        def fails(self, *given, **more):
            if "log_ranker" in {frame.name for frame in traceback.extract_stack()}:
                raise MlflowException("the network was away")
            return request(self, *given, **more)

        with inside(tmp_path):
            claims(tmp_path / "claims.csv")
            monkeypatch.setattr(MlflowClient, call, fails)
            with pytest.raises(RunFailed, match="the network was away"):
                experiment(tmp_path / "claims.csv", methods=METHODS[:1])
            monkeypatch.undo()
            client = MlflowClient(store.tracking_uri())
            assert verify(client, store.ledger()).found == ()
            assert {run.info.status for run in client.search_runs(["1"])} == {"FAILED"}

    def test_a_run_deleted_in_mlflow(self, audited):
        audited.client.delete_run(audited.runs["claims ls_svm"])
        kinds = {(one.kind, one.run_id) for one in found(audited)}
        assert ("removed", audited.runs["claims ls_svm"]) in kinds

    def test_a_run_renamed_in_mlflow(self, audited):
        audited.client.update_run(audited.runs["claims ls_svm"], name="better")
        subjects = [one.subject for one in found(audited)]
        assert any(subject.endswith("claims ls_svm, name") for subject in subjects)

    def test_a_run_put_into_an_experiment_of_ours(self, audited):
        run = audited.client.create_run("1")
        audited.client.set_terminated(run.info.run_id)
        one = the_only(found(audited))
        assert (one.kind, one.run_id) == ("inserted", run.info.run_id)

    def test_an_open_run_that_names_no_process(self, audited):
        run = audited.client.create_run("1")
        assert the_only(found(audited)).run_id == run.info.run_id

    def test_a_run_that_was_ended_and_is_open_again(self, audited):
        audited.client.update_run(audited.runs["claims"], status="RUNNING")
        audited.client.set_tag(audited.runs["claims"], PROCESS, gone_process())
        assert "run " + audited.runs["claims"][:8] + " claims, status" in {one.subject for one in found(audited)}

    def test_a_metric_that_mlflow_does_not_show(self, audited):
        run_id = audited.runs["claims ls_svm"]
        with closing(sqlite3.connect(audited.folder / "mlruns" / "mlflow.db")) as database:
            database.execute("INSERT INTO metrics VALUES ('hidden', 1.0, 1, ?, 0, 0)", (run_id,))
            database.commit()
        assert "hidden" not in audited.client.get_run(run_id).data.metrics
        one = the_only(found(audited))
        assert (one.kind, one.subject) == ("inserted", f"run {run_id[:8]} claims ls_svm, metric hidden")

    @pytest.mark.parametrize("place", ["step", "timestamp"])
    def test_the_place_of_a_latest_metric(self, audited, place):
        run_id = audited.runs["claims ls_svm"]
        with closing(sqlite3.connect(audited.folder / "mlruns" / "mlflow.db")) as database:
            change = f"UPDATE latest_metrics SET {place} = {place} + 1 WHERE key = 'test_auc' AND run_uuid = ?"
            database.execute(change, (run_id,))
            database.commit()
        one = the_only(found(audited))
        assert (one.kind, one.subject) == ("changed", f"run {run_id[:8]} claims ls_svm, latest metric test_auc")

    def test_a_manifest_moved_with_the_runs_address_is_still_found(self, audited, tmp_path):
        """The address is what was changed: it is named, and not the manifest."""
        run_id = audited.runs["claims"]
        with closing(sqlite3.connect(audited.folder / "mlruns" / "mlflow.db")) as database:
            database.execute("UPDATE runs SET artifact_uri = ? WHERE run_uuid = ?", (tmp_path.as_uri(), run_id))
            database.commit()
        assert the_only(found(audited)).subject == f"run {run_id[:8]} claims, artifact location"

    def test_a_link_in_place_of_an_artifact_counts_by_what_it_leads_to(self, audited, tmp_path):
        (path,) = audited.folder.glob(f"mlruns/artifacts/*/{audited.runs['claims']}/artifacts/config.json")
        path.rename(tmp_path / "config.json")
        path.symlink_to(tmp_path / "config.json")
        assert found(audited) == ()
        (tmp_path / "config.json").unlink()
        assert the_only(found(audited)).subject.endswith("file run/config.json")

    @pytest.mark.parametrize("name", ["curves", "lineage.json"])
    def test_files_that_may_not_be_looked_at_are_told_as_such_and_no_others_are(self, audited, name):
        """All files of the run were called missing."""
        run_id = audited.runs["claims ls_svm"]
        (place,) = audited.folder.glob(f"mlruns/artifacts/*/{run_id}/artifacts")
        inside = [path.relative_to(place).as_posix() for path in place.glob(f"{name}/*")]
        with closed(place / name):
            findings = found(audited)
        assert {one.kind for one in findings} == {"unreadable"}
        subjects = ["run/curves", *(f"file run/{path}" for path in sorted(inside))] if inside else [name]
        assert [one.subject for one in findings] == [f"run {run_id[:8]} claims ls_svm, {one}" for one in subjects]

    @pytest.mark.parametrize("whole", [True, False])
    def test_a_folder_that_may_not_be_listed_hides_nothing(self, audited, monkeypatch, whole):
        """Its files may still be had by name: a file put into it would go unseen."""
        run_id = audited.runs["claims ls_svm"]
        (place,) = audited.folder.glob(f"mlruns/artifacts/*/{run_id}/artifacts")
        closed_one = place if whole else place / "curves"
        honest = os.scandir

        def scandir(path):
            if Path(path) == closed_one:
                raise PermissionError(13, "Permission denied", str(path))
            return honest(path)

        monkeypatch.setattr(os, "scandir", scandir)
        one = the_only(found(audited))
        assert (one.kind, one.is_note) == ("unreadable", False)
        assert one.subject == f"run {run_id[:8]} claims ls_svm, run/{'.' if whole else 'curves'}"
        assert one.message.startswith("permission denied; ") and one.message.endswith("as an account that may read it")

    def test_a_folder_that_may_be_listed_and_not_entered_is_told_of_its_own_files_only(self, audited, monkeypatch):
        run_id = audited.runs["claims ls_svm"]
        (place,) = audited.folder.glob(f"mlruns/artifacts/*/{run_id}/artifacts")
        names = sorted(path.name for path in (place / "curves").iterdir())
        honest = os.stat

        def stat(path, *arguments, **options):
            if str(path).startswith(f"{place / 'curves'}/"):
                raise PermissionError(13, "Permission denied", str(path))
            return honest(path, *arguments, **options)

        monkeypatch.setattr(os, "stat", stat)
        findings = found(audited)
        assert {one.kind for one in findings} == {"unreadable"}
        assert [one.subject.rpartition("/")[2] for one in findings] == names

    @pytest.mark.parametrize("name", ["certified_auc", "test_auc_mean"])
    @pytest.mark.parametrize("whose", ["claims ls_svm", "claims u1+ls_svm", ""])
    def test_a_metric_put_to_a_model_as_one_of_our_runs(self, audited, name, whose):
        model_id = manifest_of(audited)["store"]["model"]["model_id"]
        row = (model_id, name, 9999999999999, 5, 0.999, 1, audited.runs.get(whose, ""), None, None, None)
        change_database(audited, f"INSERT INTO logged_model_metrics VALUES ({', '.join('?' * len(row))})", row)
        one = the_only(found(audited))
        subject = f"run {audited.runs['claims ls_svm'][:8]} claims ls_svm, metric {name} of the model"
        assert (one.kind, one.subject, one.is_note) == ("inserted", subject, False)

    def test_the_data_set_that_a_models_metric_is_said_to_be_of(self, audited):
        model_id = manifest_of(audited)["store"]["model"]["model_id"]
        names = "dataset_name = 'other', dataset_digest = '0'"
        change = f"UPDATE logged_model_metrics SET {names} WHERE model_id = ? AND metric_name = 'test_auc'"
        change_database(audited, change, (model_id,))
        one = the_only(found(audited))
        assert (one.kind, one.subject.endswith("metric test_auc of the model")) == ("changed", True)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            ({"raw_size_bytes": 1}, "raw_size_bytes of its source is 1, {raw_size_bytes} was recorded"),
            ({"raw_sha256": None}, "raw_sha256 of its source is None, '{raw_sha256:.59}… was recorded"),
        ],
    )
    def test_of_a_changed_input_only_what_differs_is_told(self, audited, change, message):
        told = json.loads(manifest_of(audited)["store"]["inputs"][0]["source"])
        change_database(audited, "UPDATE datasets SET dataset_source = ?", (json.dumps(told | change),))
        assert {one.message for one in found(audited)} == {message.format(**told)}

    def test_of_long_values_that_is_told_in_which_they_differ(self):
        assert _changed("it", "a" * 100 + "x", "a" * 100 + "y") == f"it is …{'a' * 30}x', …{'a' * 30}y' was recorded"

    def test_a_tag_of_ours_put_to_a_model(self, audited):
        model_id = manifest_of(audited)["store"]["model"]["model_id"]
        audited.client.set_logged_model_tags(model_id, {"aucflow.certified": "true"})
        one = the_only(found(audited))
        assert (one.kind, one.subject.endswith("model's tag aucflow.certified")) == ("inserted", True)

    def test_a_model_that_mlflow_cannot_show(self, audited):
        with closing(sqlite3.connect(audited.folder / "mlruns" / "mlflow.db")) as database:
            database.execute("UPDATE logged_models SET status = 9")
            database.commit()
        findings = found(audited)
        assert {one.kind for one in findings} == {"unreadable"}
        model_id = manifest_of(audited)["store"]["model"]["model_id"]
        assert any(one.subject.endswith(f"claims ls_svm, model {model_id}") for one in findings)

    def test_a_list_of_runs_that_mlflow_cannot_show_and_then_not_even_one(self, audited, monkeypatch):
        def broken(*_, **__):
            raise ValueError("no such thing")

        monkeypatch.setattr(MlflowClient, "search_runs", broken)
        assert the_only(found(audited)).subject == "store, runs"
        monkeypatch.setattr(MlflowClient, "get_run", broken)
        assert {one.run_id for one in found(audited)} == {"", *audited.runs.values()}


class TestLedger:
    def test_a_ledger_that_is_gone(self, audited):
        shutil.rmtree(audited.folder / "mlruns" / "ledger")
        findings = found(audited)
        assert {one.run_id for one in findings if one.kind == "inserted"} >= set(audited.runs.values())
        assert any(one.part == "registry" for one in findings)

    def test_a_store_that_is_gone(self, audited):
        one = the_only(verify(None, audited.ledger).found)
        assert (one.kind, one.subject) == ("missing", "store")
        assert "MLFLOW_TRACKING_URI" in one.message

    def test_a_store_that_cannot_be_read(self, audited):
        one = the_only(verify(None, audited.ledger, cause="file is not a database").found)
        assert (one.kind, one.message) == ("unreadable", "file is not a database")

    def test_an_entry_that_was_announced_is_told(self, audited):
        head = json.loads(audited.ledger.head_path.read_bytes())
        audited.ledger._write_head(head | {"pending": "f" * 64})
        one = the_only(found(audited))
        assert (one.kind, one.subject, one.is_note) == ("interrupted", "ledger head.json", True)

    @pytest.mark.parametrize("pending", [3, "f" * 63, "", "F" * 64, []])
    def test_a_head_that_announces_what_is_no_digest(self, audited, pending):
        head = json.loads(audited.ledger.head_path.read_bytes())
        audited.ledger._write_head(head | {"pending": pending})
        assert the_only(found(audited)).subject == "ledger head.json"

    @pytest.mark.parametrize("data", [b" ", b"\n", b"\t"])
    def test_a_head_of_other_bytes(self, audited, data):
        with audited.ledger.head_path.open("ab") as stream:
            stream.write(data)
        assert the_only(found(audited)).subject == "ledger head.json"


PLAIN = {"path": "claims.csv", "sha256": "0", "source": "claims.csv", "format": "csv"}  # but for the size


class TestData:
    def test_a_file_of_the_users_own_that_is_gone_is_a_finding(self, audited):
        (audited.folder / "claims.csv").unlink()
        one = the_only(found(audited, deep=True))
        assert (one.kind, one.is_note) == ("missing", False)

    def test_one_that_may_not_be_looked_at_is_a_finding_and_ends_nothing(self, audited):
        """To an auditor of another account than the runs' `aucflow audit` said no more than PermissionError."""
        path = audited.folder / "claims.csv"
        with closed(path):
            one = the_only(found(audited, deep=True))
            line = next(one for one in tell(audited.client, audited.ledger, "claims").lines if one.label == "raw file")
        assert (one.kind, one.subject, one.is_note) == ("unreadable", f"data file {path}", False)
        assert one.message.startswith("file name too long; ")
        assert (line.state, line.why) == ("unreadable", one.message)

    def test_an_entry_that_calls_other_data_the_same_is_found_out_by_converting_them(self, audited):
        section, path = manifest_of(audited)["data"], audited.folder / "claims.csv"
        claims(path, seed=4)
        told = {"raw": [section["raw"][0] | {"sha256": file_sha256(path)}]}
        audited.ledger.append("data", section["sha256"], "the same data in other bytes", told)
        assert [(one.kind, one.is_note) for one in found(audited)] == [("replaced", True)]
        faults = [one for one in found(audited, deep=True) if not one.is_note]
        assert {(one.kind, one.part) for one in faults} == {("changed", "conversion")}

    @pytest.mark.parametrize(
        "raw", [None, {}, [], [None], [{"path": "x"}], [PLAIN], [PLAIN | {"size_bytes": 1, "path": 1}]]
    )
    def test_an_entry_that_nothing_of_ours_wrote_excuses_nothing(self, audited, raw):
        audited.ledger.append("data", manifest_of(audited)["data"]["sha256"], "as if", {"raw": raw})
        claims(audited.folder / "claims.csv", seed=4)
        one = the_only(found(audited))
        assert (one.kind, one.is_note) == ("changed", False)

    @pytest.mark.parametrize("source", ["https://example.org/a9a", "mirror:libsvm/a9a", "sklearn:digits"])
    def test_a_file_that_can_be_fetched_again_is_told(self, source, tmp_path):
        file = {
            "path": str(tmp_path / "a9a"),
            "sha256": "0" * 64,
            "source": source,
            "size_bytes": 1,
            "format": "svmlight",
        }
        data = DataFiles()
        section = {"name": "a9a", "sha256": "1" * 64, "raw": [file]}
        place = "mlruns/artifacts/a9a/a/artifacts"
        run = {"run_id": "a", "parents": [], "started": "2026-03-01T12:00:00.000+00:00", "artifact_uri": place}
        data.take({"run": run, "data": section})
        one = the_only(data.check())
        assert (one.kind, one.is_note) == ("missing", True)
        assert source in one.message

    def test_the_recorded_rule_makes_the_same_arrays_again(self, audited):
        section = manifest_of(audited)["data"]
        assert recorded_source(section)[0].sha256 == section["raw"][0]["sha256"]
        assert list(odd_arrays(section)) == []

    @pytest.mark.parametrize("part", ["X", "y"])
    def test_arrays_that_come_out_otherwise_are_named(self, audited, part):
        section = manifest_of(audited)["data"] | {f"{part}_sha256": "0" * 64}
        assert the_only(odd_arrays(section)).subject == f"data set claims, {part}"

    def test_a_file_that_cannot_be_converted_any_more_is_named(self, audited):
        section = manifest_of(audited)["data"]
        section["conversion"] |= {"target": "nobody"}
        one = the_only(odd_arrays(section))
        assert (one.kind, one.subject) == ("unreadable", "data set claims")


class TestRegistry:
    def test_an_alias_moved_in_mlflow(self, audited):
        audited.client.set_registered_model_alias(MODEL, "champion", "1")
        one = the_only(found(audited))
        assert (one.kind, one.subject) == ("alias", f"{MODEL}@champion")

    def test_a_version_deleted_in_mlflow(self, audited):
        audited.client.delete_model_version(MODEL, "1")
        assert f"{MODEL}/1" in {one.subject for one in found(audited)}

    def test_a_version_that_is_loaded_from_elsewhere(self, audited):
        """MLflow shows the source, and loads from another column."""
        with closing(sqlite3.connect(audited.folder / "mlruns" / "mlflow.db")) as database:
            database.execute("UPDATE model_versions SET storage_location = 'file:///elsewhere' WHERE version = 2")
            database.commit()
        one = the_only(found(audited))
        assert (one.subject, "file:///elsewhere" in one.message) == (f"{MODEL}/2", True)

    def test_a_change_of_models_between_two_readings_is_no_finding(self, audited, monkeypatch):
        real, changes = registry.shown, ["the new one is slow", "it is not", "it is"]

        def change_meanwhile(client, model):
            seen = real(client, model)
            if changes:
                registry.rollback(audited.client, audited.ledger, MODEL, changes.pop())
            return seen

        monkeypatch.setattr(registry, "shown", change_meanwhile)
        assert found(audited) == ()
        assert not changes

    def test_a_forged_note_of_a_change_hides_nothing(self, audited):
        (audited.ledger.folder / "intent.json").write_text("{}")
        assert "ledger intent.json" in {one.subject for one in found(audited)}

    def test_a_forged_note_that_reads_well_hides_no_moved_alias(self, audited):
        store_name = f"sqlite:///{audited.folder.name}/mlflow.db"
        note = {"action": "promote", "model": MODEL, "number": 1, "reason": "x", "before": {}, "store": store_name}
        (audited.ledger.folder / "intent.json").write_text(json.dumps(note | {"owner": "process 1 on here"}))
        audited.client.set_registered_model_alias(MODEL, "champion", "1")
        assert verify(audited.client, audited.ledger).findings

    def test_a_model_that_mlflow_cannot_show(self, audited, monkeypatch):
        def broken(*_):
            raise ValueError("no such thing")

        monkeypatch.setattr(MlflowClient, "get_model_version_download_uri", broken)
        one = the_only(found(audited))
        assert (one.kind, one.subject) == ("unreadable", MODEL)

    @pytest.mark.parametrize("name", ["theirs", 'with "quotes"', "it's"])
    def test_a_registered_model_of_somebody_else(self, audited, name):
        client = audited.client
        client.create_registered_model(name)
        client.create_model_version(name, "file:///somewhere")
        assert found(audited) == ()


def test_a_remote_store_is_asked_call_by_call(audited, monkeypatch):
    """Where there is no database to read, MLflow's own answers are compared."""
    monkeypatch.setattr("tasks.verify_runs.DATABASES", ())
    assert found(audited) == ()
    run_id = audited.runs["claims ls_svm"]
    audited.client.log_metric(run_id, "test_auc", 1.0, step=0)
    assert f"run {run_id[:8]} claims ls_svm, metric test_auc" in {one.subject for one in found(audited)}


def test_names_are_those_of_the_runs(audited):
    assert run_ids(MlflowClient(store.tracking_uri())) == audited.runs
    assert os.getcwd() == str(audited.folder)
