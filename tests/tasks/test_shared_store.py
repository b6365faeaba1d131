"""Several folders, each with its ledger, whose runs and models are in one store."""

import json
import os
import shutil
import sqlite3
from contextlib import closing, contextmanager
from functools import partialmethod

import pytest
from audited import ADDRESS, METHODS, Audited, claims, experiment, inside, register
from mlflow import MlflowClient

from tasks import registry, store
from tasks.errors import BadInput, RunFailed
from tasks.manifests import find_run
from tasks.recovery import PROCESS, end_interrupted_runs, this_process
from tasks.runs import list_runs
from tasks.story import NOT_CHECKED, tell
from tasks.verify import verify

pytestmark = pytest.mark.filterwarnings("ignore:Found unknown categories")
RUN = "claims ls_svm"


@contextmanager
def at_work(folder):
    """Work in a folder whose runs go to the store beside it."""
    with inside(folder):
        os.environ[ADDRESS] = f"sqlite:///{folder.parent / 'mlflow.db'}"
        yield


@pytest.fixture
def folders(tmp_path):
    """Two folders in which an experiment of one name was run, of equal data in files of their own."""
    made = []
    for name in ("fraud", "churn"):
        (tmp_path / name).mkdir()
        with at_work(tmp_path / name):
            claims(tmp_path / name / "claims.csv")
            experiment(tmp_path / name / "claims.csv", methods=METHODS[:1])
            made.append(Audited(tmp_path / name, {e.data["name"]: e.subject for e in store.ledger().entries()}))
            register(made[-1], RUN, model=name)
    return made


def found_in(folder):
    with at_work(folder.folder):
        return verify(folder.client, folder.ledger).found


def findings_in(folder):
    return {(one.kind, one.subject.partition(" ")[0]) for one in found_in(folder) if not one.is_note}


def place(folder):
    with at_work(folder.folder):
        return store.ledger_place()


def killed_process():
    """One of the number of this one, which began before it."""
    host, number, start = this_process().rsplit(":", 2)
    return f"{host}:{number}:{int(start) + 1}"


def test_each_is_verified_by_its_own_ledger_and_says_where_the_others_are(folders):
    with closing(sqlite3.connect(folders[0].folder.parent / "mlflow.db")) as database:
        assert database.execute("SELECT count(*) FROM datasets").fetchone() == (1,), "MLflow keeps one row for both"
    for here, there in (folders, folders[::-1]):
        told = [(one.kind, one.subject, one.is_note, place(there) in one.message) for one in found_in(here)]
        assert told == [("elsewhere", "2 runs", True, True), ("elsewhere", "1 model", True, True)]


def test_a_copy_is_checked_by_the_files_that_came_along_and_changes_nothing(folders):
    """The original's files were checked in their place, and the champion there could be moved from the copy."""
    fraud, churn = folders
    copy = Audited(fraud.folder.parent / "copy", fraud.runs)
    shutil.copytree(fraud.folder, copy.folder)
    assert not findings_in(copy)
    with at_work(copy.folder):
        place = registry.versions(copy.client, "fraud")[-1].source
        with pytest.raises(RunFailed, match=f"was made, {fraud.folder}, got {copy.folder}, a copy of it"):
            store.refuse_copy(place)
        with pytest.raises(RunFailed, match=r"was copied or moved here, .* or choose another name"):
            store.experiment_id(copy.client, "claims")
        with store.artifact_folder(place) as files:
            (model,) = files.rglob("*.skops")
    assert model.is_relative_to(copy.folder)
    model.write_bytes(model.read_bytes() + b" ")
    assert findings_in(copy) == {("changed", "run")} and not findings_in(fraud) and not findings_in(churn)
    shutil.rmtree(copy.folder / "mlruns" / "1")
    assert ("missing", "run") in findings_in(copy) and not findings_in(fraud)
    for folder in (fraud, churn):  # whose files are in the other's folder
        with at_work(folder.folder):
            store.refuse_copy(place)
            assert store.experiment_id(folder.client, "claims")


def test_what_was_moved_is_checked_where_it_is_now(folders):
    fraud, churn = folders
    moved = Audited(fraud.folder.parent / "moved", fraud.runs)
    os.replace(fraud.folder, moved.folder)
    assert not findings_in(moved)
    with at_work(moved.folder), pytest.raises(RunFailed, match="was copied or moved here"):
        store.experiment_id(moved.client, "claims")
    assert ("missing", "run") in findings_in(churn), "its files were in the other's folder"
    (fraud.folder.parent / "made anew").mkdir()
    with at_work(fraud.folder.parent / "made anew"):
        store.ledger().append("run", "the first", "finished")
    os.replace(fraud.folder.parent / "made anew", fraud.folder)
    assert not findings_in(moved)


def test_files_in_nobodys_folder_are_checked_there_whatever_is_called_so_here(tmp_path):
    """Honest copies in mlruns/ here were checked in place of what a server serves."""
    place, here = tmp_path / "disk" / "mlruns" / "7", tmp_path / "fraud"
    here.mkdir()
    with at_work(here):
        MlflowClient(store.tracking_uri()).create_experiment("claims", artifact_location=place.as_uri())
        claims(here / "claims.csv")
        experiment(here / "claims.csv", methods=METHODS[:1])
        shutil.copytree(place, here / "mlruns" / "7")
        experiment(here / "claims.csv", methods=METHODS[:1])
    fraud = Audited(here, {})
    assert not findings_in(fraud)
    model, _ = place.rglob("*.skops")
    model.write_bytes(model.read_bytes() + b" ")
    assert findings_in(fraud) == {("changed", "run")}


def test_a_folder_with_experiments_of_another_store_is_no_moved_one(folders):
    """MLflow numbers the folders of each store from 1 on."""
    fraud, churn = folders
    (churn.folder / "mlruns" / "1").mkdir()
    for folder in (churn, Audited(fraud.folder.parent / "new", {})):
        (folder.folder / "mlruns" / "1").mkdir(parents=True, exist_ok=True)
        with at_work(folder.folder):
            assert store.experiment_id(folder.client, "claims")


def test_a_manifest_is_not_taken_back_by_an_entry_without_one(folders):
    fraud, _ = folders
    run = fraud.runs[RUN]
    with at_work(fraud.folder):
        entry = fraud.ledger.last_of_runs()[run]
        fraud.client.set_terminated(run, "FAILED", entry.data["end_time"])
        fraud.ledger.append(
            "run", run, "the store went away", entry.data | {"manifest_sha256": None, "status": "FAILED"}
        )
    messages = [one.message for one in found_in(fraud) if one.kind == "missing"]
    assert len(messages) == 1 and messages[0].startswith("the ledger has one, ")


def test_a_linked_mlruns_is_the_same(folders):
    fraud, _ = folders
    with at_work(fraud.folder):
        place = registry.versions(fraud.client, "fraud")[-1].source
    disk = fraud.folder.parent / "disk"
    os.replace(fraud.folder / "mlruns", disk)
    (fraud.folder / "mlruns").symlink_to(disk)
    assert not findings_in(fraud)
    with at_work(fraud.folder):
        store.refuse_copy(place)
        assert store.experiment_id(fraud.client, "claims")


def test_what_is_wrong_with_ones_own_is_found_as_ever(folders):
    fraud, churn = folders
    client, run = fraud.client, fraud.runs[RUN]
    with at_work(fraud.folder):
        client = fraud.client
    client.log_param(run, "more", "1")
    home = client.get_run(run).info.experiment_id
    for tags in (client.get_run(run).data.tags, {}):  # a forgery of ours, and somebody's in our experiment
        client.set_terminated(client.create_run(home, tags=tags).info.run_id)
    client.set_registered_model_alias("fraud", "champion", "1")
    client.delete_registered_model_alias("fraud", "champion")
    assert findings_in(fraud) == {("inserted", "run"), ("alias", "fraud@champion")}
    assert sum(one.kind == "inserted" for one in found_in(fraud)) == 3
    # what is nobody's is everybody's; what is the other's is told of there
    assert [one.subject[:3] for one in found_in(churn) if not one.is_note] == ["run"]


def test_a_row_that_two_have_in_common_is_both_ledgers_to_find_changed(folders):
    with closing(sqlite3.connect(folders[0].folder.parent / "mlflow.db")) as database, database:
        (source,) = database.execute("SELECT dataset_source FROM datasets").fetchone()
        changed = json.dumps(json.loads(source) | {"raw_size_bytes": 1})
        database.execute("UPDATE datasets SET dataset_source = ?", (changed,))
    assert all(findings_in(folder) == {("changed", "run")} for folder in folders)


def test_an_interrupted_run_is_ended_where_it_began(folders):
    fraud, churn = folders
    with at_work(fraud.folder):
        tags = {PROCESS: killed_process(), store.LEDGER: store.ledger_place()}
        experiment_id = fraud.client.get_experiment_by_name("claims").experiment_id
        run = fraud.client.create_run(experiment_id, tags=tags).info.run_id
    with at_work(churn.folder):
        assert end_interrupted_runs(churn.client, churn.ledger) == ()
    with at_work(fraud.folder):
        assert len(end_interrupted_runs(fraud.client, fraud.ledger)) == 1
        assert fraud.client.get_run(run).info.status == "KILLED"
    assert not findings_in(fraud) and not findings_in(churn)


def test_a_run_of_the_other_is_not_checked_and_no_finding(folders):
    fraud, churn = folders
    with at_work(churn.folder):
        story = tell(churn.client, churn.ledger, fraud.runs[RUN])
    assert [(one.kind, one.is_note) for one in story.found] == [("elsewhere", True)]
    assert story.lines[0].state == NOT_CHECKED and place(fraud) in story.lines[0].why


def test_a_model_of_the_other_is_audited_there_and_changed_there(folders):
    fraud, churn = folders
    with at_work(churn.folder):
        for target in ("fraud@champion", "fraud/1"):
            story = tell(churn.client, churn.ledger, target)
            assert {one.kind for one in story.found} == {"elsewhere"} and not story.findings
            assert (story.lines[0].label, story.lines[0].state) == ("register", NOT_CHECKED)
            assert story.lines[0].why == f"the ledger in {place(fraud)} tells of it"
        before = churn.ledger.path.read_bytes()
        for change in (
            lambda: registry.check_agreement(churn.client, churn.ledger, "fraud"),
            lambda: register(churn, RUN, model="fraud", against=1),
        ):
            with pytest.raises(RunFailed, match=r"ledger in .* tells of it\. Retrain it there, or choose another name"):
                change()
        assert churn.ledger.path.read_bytes() == before and registry.champion(churn.client, "fraud").number == 1
        for model in ("churn", "new"):
            registry.check_agreement(churn.client, churn.ledger, model)


def test_one_version_that_names_the_others_ledger_is_enough_to_leave_the_model_alone(folders):
    fraud, churn = folders
    with at_work(churn.folder):
        source = churn.client.get_model_version("fraud", "1").source
        churn.client.create_model_version("fraud", source, tags={f"{registry.PREFIX}x": "1"})
        churn.client.create_registered_model("copied")
        churn.client.create_model_version("copied", "models:/fraud/1", tags={store.LEDGER: place(fraud)})
    with at_work(churn.folder):
        for model in ("fraud", "copied"):
            with pytest.raises(RunFailed, match="Retrain it there"):
                registry.check_agreement(churn.client, churn.ledger, model)


def test_a_model_whose_registration_here_was_taken_back_is_the_others(folders, monkeypatch):
    """The advice was to settle it here, which took the champion away there."""
    fraud, churn = folders
    with at_work(churn.folder):
        with monkeypatch.context() as patched:
            patched.setattr(registry, "_move", lambda *_: 1 / 0)
            with pytest.raises((ZeroDivisionError, RunFailed)):
                register(churn, RUN, model="new")
        registry.recover(churn.client, churn.ledger)
        assert registry.registered(churn.ledger, "new") and not registry.stands(churn.ledger, "new")
        registry.check_agreement(churn.client, churn.ledger, "new")
    with at_work(fraud.folder):
        register(fraud, RUN, model="new")
    with at_work(churn.folder):
        for change, error in (
            (lambda: registry.check_agreement(churn.client, churn.ledger, "new"), RunFailed),
            (lambda: registry.settle(churn.client, churn.ledger, "new", "ledger", "why"), BadInput),
            (lambda: registry.delete_version(churn.client, churn.ledger, "new", 2, "why"), BadInput),
        ):
            with pytest.raises(error, match="tells of it"):
                change()
        assert not tell(churn.client, churn.ledger, "new@champion").findings
    assert not findings_in(churn) and not findings_in(fraud)


def test_a_model_that_two_changed_is_a_finding_in_both_and_changed_no_further(folders, monkeypatch):
    """As an earlier version of ours let them."""
    fraud, churn = folders
    with at_work(churn.folder), monkeypatch.context() as patched:
        patched.setattr(registry, "_other_ledger", lambda *_: None)
        register(churn, RUN, model="fraud", against=1)
    assert findings_in(churn) == {("unknown", "fraud/1"), ("alias", "fraud@champion")}
    assert findings_in(fraud) == {("unknown", "fraud/2"), ("alias", "fraud@champion"), ("alias", "fraud@previous")}
    with at_work(fraud.folder):
        with pytest.raises(RunFailed, match=r"moved them: `aucflow settle fraud --to ledger` moves them back\.$"):
            registry.check_agreement(fraud.client, fraud.ledger, "fraud")
        with pytest.raises(BadInput, match=r"got version 2, which something else made\. Settle it --to ledger"):
            registry.settle(fraud.client, fraud.ledger, "fraud", "registry", "theirs")


def test_experiments_are_of_any_number(folders, monkeypatch):
    """MLflow's search ends after a thousand, the newest, of which a shared store has more."""
    fraud, _ = folders
    by_two = partialmethod(MlflowClient.search_experiments, max_results=2)
    monkeypatch.setattr(MlflowClient, "search_experiments", by_two)
    with at_work(fraud.folder):
        for number in range(5):
            fraud.client.create_experiment(f"somebody's {number}")
        assert [row.name.strip() for row in list_runs(fraud.client)].count(RUN) == 2
        assert find_run(fraud.client, fraud.runs[RUN][:8]).info.run_id == fraud.runs[RUN]
        home = fraud.client.get_run(fraud.runs[RUN]).info.experiment_id
        tags = {PROCESS: killed_process(), store.LEDGER: store.ledger_place()}
        for _ in range(2):
            fraud.client.create_run(home, tags=tags)
        fraud.client.set_terminated(fraud.client.create_run(home).info.run_id)
        assert len(end_interrupted_runs(fraud.client, fraud.ledger)) == 2
    assert findings_in(fraud) == {("inserted", "run")}


def test_in_a_store_of_ones_own_nobody_elses_ledger_counts(audited):
    """It is its folder's, wherever this one was before: a tag excuses nothing."""
    theirs = {store.LEDGER: "elsewhere:/srv/mlruns/ledger"}
    client = MlflowClient(store.tracking_uri())
    run = client.create_run(client.get_run(audited.runs[RUN]).info.experiment_id, tags=theirs)
    client.set_terminated(run.info.run_id)
    client.create_registered_model("forged")
    client.create_model_version("forged", client.get_model_version("claims", "1").source, tags=theirs)
    kinds = {(one.kind, one.subject.partition(" ")[0]) for one in verify(client, audited.ledger).found}
    assert kinds == {("inserted", "run"), ("unknown", "forged/1")}
