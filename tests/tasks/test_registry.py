"""The registry: a change of models is whole or not at all, whatever fails or is killed, and the ledger tells it all."""

import json
import os
import random
import sqlite3
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import mlflow
import numpy as np
import pandas as pd
import pytest
from filelock import FileLock
from mlflow import MlflowClient
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from aucsolvers import Ranker
from tasks import registry
from tasks.errors import BadInput, RunFailed
from tasks.ledger import Ledger, canonical
from tasks.models import log_ranker
from tasks.recovery import this_process
from tasks.registry import (
    champion,
    compare,
    delete_version,
    history,
    moved_by_hand,
    pending,
    recover,
    register_and_promote,
    rollback,
    settle,
    slips,
    unmoved,
    versions,
)
from tasks.values import Table

MODEL = "fraud"
FACTS = {"data_sha256": "d" * 64, "manifest_sha256": "e" * 64}

# Imports once, then does each change that it is told on stdin in a child of its own, which dies at the given line of
# our code, at the first one that finds the disk changed for the given time, or after the given delay.
DRIVER = """
import gc, json, os, signal, sys, tempfile, time
from pathlib import Path
import mlflow.store.model_registry.sqlalchemy_store, mlflow.store.tracking.sqlalchemy_store
from mlflow import MlflowClient
import ready_made
from tasks import ledger, registry

ready_made.copy_mlflows_tables()
with tempfile.TemporaryDirectory() as scratch:  # what only a process's first change has to do
    client = MlflowClient(f"sqlite:///{scratch}/mlflow.db")
    client.create_registered_model("scratch")
    client.create_model_version("scratch", scratch)
    client.set_registered_model_alias("scratch", "champion", "1")
    client.set_model_version_tag("scratch", "1", "key", "value")
    registry.versions(client, "scratch")
gc.freeze()

OURS = (registry.__file__, ledger.__file__)
LOOKS = ("ino", "size", "mtime_ns")
left, looks, changes, seen = None, (), None, None

def uncounted(function):
    # what only reads has more lines with every entry, and a death there is one before the next line that counts
    def call(*arguments):
        tracing = sys.gettrace()
        sys.settrace(None)
        try:
            return function(*arguments)
        finally:
            sys.settrace(tracing)
    return call

registry.check_agreement, registry._Book = uncounted(registry.check_agreement), uncounted(registry._Book)

def disk(database, folder):
    with open(database, "rb") as file:
        commits = file.read(28)[24:]  # SQLite's count of them
    found = sorted((one.name, *[getattr(one.stat(), f"st_{what}") for what in LOOKS]) for one in folder.iterdir())
    return commits, found

def count(frame, event, _):
    global left, changes, seen
    if event == "line" and left:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    elif event == "line" and (now := disk(*looks)) != seen:
        changes, seen = changes - 1, now
        if changes == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return count if frame.f_code.co_filename in OURS else None

def change(uri, folder, action, arguments, kill_at, kill_after):
    global left, looks, changes, seen
    client, book, left, changes = MlflowClient(uri), ledger.Ledger(Path(folder)), kill_at, kill_after
    client.search_registered_models(max_results=1)
    if changes:
        looks = uri.removeprefix("sqlite:///"), book.folder
        seen = disk(*looks)
    print("ready", flush=True)
    if kill_at or kill_after:
        sys.settrace(count)
    try:
        getattr(registry, action)(client, book, **arguments)
        sys.settrace(None)
        print("done", flush=True)
    except BaseException as error:
        sys.settrace(None)
        print(json.dumps(str(error)), flush=True)
    os._exit(0)

print("up", flush=True)
for line in sys.stdin:
    task = json.loads(line)
    delay = task.pop("delay")
    child = os.fork()
    if child == 0:
        change(**task)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    print("killed" if os.WIFSIGNALED(status) else "ended", flush=True)
"""


def champion_on(ledger, model, when):
    """Return who was champion at a moment by the history, None if nobody was."""
    reigns = [one for one in history(ledger, model) if one.since <= when and (one.until is None or when < one.until)]
    return reigns[-1] if reigns else None


class Broken(Exception):
    """What a test makes a call raise."""


class Driver:
    """A process that changes models and may be killed at it."""

    def __init__(self):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
        env = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self.process = subprocess.Popen([sys.executable, "-c", DRIVER], env=env, **pipes)

    def start(self, client, ledger, action, arguments, kill_at=None, kill_after=None, delay=None):
        task = {"uri": client.tracking_uri, "folder": str(ledger.folder), "action": action, "arguments": arguments}
        moment = {"kill_at": kill_at, "kill_after": kill_after, "delay": delay}
        self.process.stdin.write(json.dumps(task | moment) + "\n")
        self.process.stdin.flush()

    def outcome(self):
        """Return what the change told (None if it was killed before it could), and whether it was killed."""
        told = None
        for line in map(str.strip, self.process.stdout):
            if line in ("killed", "ended"):
                return told, line == "killed"
            told = told if line in ("up", "ready") else line
        raise AssertionError("the driver ended")

    def change(self, *arguments, **moment):
        self.start(*arguments, **moment)
        return self.outcome()

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()


@pytest.fixture(scope="module")
def driver():
    driver = Driver()
    yield driver
    driver.close()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    """A client of a store for all tests, which have ledgers and models of their own."""
    return MlflowClient(f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}")


@pytest.fixture(scope="module")
def run(client, tmp_path_factory):
    """A finished run that logged a real, tiny model."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(40) % 4 == 0, 1, -1).astype(np.int8)
    X = pd.DataFrame(rng.normal(size=(40, 3)) + (y > 0)[:, None], columns=list("abc"))
    pipeline = make_pipeline(StandardScaler(), LogisticRegression()).fit(X, y)
    ranker = Ranker(scorer=pipeline, threshold=0.0, positive_label="1", negative_label="0")
    experiment = client.create_experiment("tiny", tmp_path_factory.mktemp("artifacts").as_uri())
    run = client.create_run(experiment).info.run_id
    mlflow.set_tracking_uri(client.tracking_uri)
    try:
        with mlflow.start_run(run_id=run):
            log_ranker(ranker, Table(X, y), {})
    finally:
        mlflow.set_tracking_uri(None)  # MLflow puts it into the environment, which other tests share
    return run


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger")


@pytest.fixture
def model(request):
    """A model's name of the test's own."""
    return f"{MODEL} {abs(hash(request.node.nodeid))}"


@pytest.fixture
def register(client, ledger, model, run):
    """Register a version; promoted ones are held against the champion that there is."""

    def register(promote=True, reason="better", client=client, ledger=ledger):
        return register_and_promote(client, ledger, **arguments(model, run, promote, reason, serving(client, model)))

    return register


def arguments(model, run, promote=True, reason="better", against=None):
    decision = {"promote": promote, "reason": reason}
    named = {"model": model, "run": run, "decision": decision, "reason": reason, "promote": promote}
    return named | {"facts": FACTS, "against": against}


def serving(client, model):
    found = champion(client, model)
    return found.number if found else None


def state(client, model):
    return {version.number: version.aliases for version in versions(client, model)}


def assert_sound(client, ledger, model):
    """Nothing is under way, the chain is whole, and registry and ledger tell the same."""
    assert pending(ledger) is None
    assert ledger.verify() == ()
    assert compare(client, ledger, model) == ()


class TestRegister:
    def test_a_first_champion(self, client, ledger, model, run, register):
        version = register()
        assert (version.number, version.run_id, version.aliases) == (1, run, ("champion",))
        assert champion(client, model) == version
        assert version.tags["aucflow.decision"] == "promoted"
        assert {f"aucflow.{name}": value for name, value in FACTS.items()}.items() <= version.tags.items()
        assert abs(version.created - datetime.now(UTC)) < timedelta(minutes=5)
        assert [(e.kind, e.subject) for e in ledger.entries()] == [
            ("register", f"{model}/1"),
            ("promote", f"{model}/1"),
        ]
        assert_sound(client, ledger, model)

    def test_a_second_champion_makes_the_first_the_previous_one(self, client, ledger, model, register):
        register(), register()
        assert state(client, model) == {1: ("previous",), 2: ("champion",)}
        promotion = ledger.entries()[-1]
        assert promotion.data["aliases"] == {"champion": [1, 2], "previous": [None, 1], "challenger": [2, None]}
        assert_sound(client, ledger, model)

    def test_what_is_not_promoted_stays_as_challenger_with_the_decision(self, client, ledger, model, register):
        register()
        second, third = register(promote=False, reason="AUC too low"), register(promote=False)
        assert second.aliases == ("challenger",)
        assert (second.tags["aucflow.decision"], second.tags["aucflow.reason"]) == ("not promoted", "AUC too low")
        assert state(client, model) == {1: ("champion",), 2: (), 3: ("challenger",)}
        assert third.number == 3
        assert_sound(client, ledger, model)

    def test_the_served_model_is_the_one_that_was_logged(self, client, model, register, monkeypatch):
        version = register()
        monkeypatch.setenv("MLFLOW_TRACKING_URI", client.tracking_uri)
        loaded = mlflow.pyfunc.load_model(f"models:/{model}@champion")
        assert loaded.predict(pd.DataFrame({"a": [0.0], "b": [0.0], "c": [0.0]})).shape == (1,)
        digest = registry.artifact_sha256(version.source)
        assert digest == version.tags["aucflow.model_sha256"], "MLflow wrote into the folder that it loaded"

    def test_a_changed_or_added_file_changes_the_digest_of_the_model(self, client, tmp_path):
        folder = tmp_path / "model"
        (folder / "sub").mkdir(parents=True)
        digests = set()
        for name, text in (("a", "x"), ("a", "y"), ("b", "y"), ("sub/b", "y")):
            (folder / name).write_text(text, encoding="utf-8")
            digests.add(registry.artifact_sha256(folder.as_uri()))
        assert len(digests) == 4

    def test_a_decision_made_against_another_champion_is_not_carried_out(self, client, ledger, model, run, register):
        register()
        for against in (None, 7):
            with pytest.raises(RunFailed, match=r"version 1.*Retrain again"):
                register_and_promote(client, ledger, **arguments(model, run, against=against))
        assert state(client, model) == {1: ("champion",)}
        assert_sound(client, ledger, model)

    @pytest.mark.parametrize("name", ["", " ", "a/b", "a:b", "a@b", 'a"b', "a\\b"])
    def test_names_that_mlflow_cannot_keep_or_find_are_refused(self, client, ledger, run, name):
        with pytest.raises(BadInput, match="name"):
            register_and_promote(client, ledger, **arguments(name, run))
        assert not ledger.folder.exists()

    @pytest.mark.parametrize("name", ["it's", "a%b", "größer", "a_b", "x' OR name='y"])
    def test_odd_names_are_found_again(self, client, ledger, run, name):
        register_and_promote(client, ledger, **arguments(name, run))
        assert state(client, name) == {1: ("champion",)}
        assert_sound(client, ledger, name)

    def test_runs_without_a_whole_model_are_refused(self, client, ledger, model, run):
        experiment = client.get_run(run).info.experiment_id
        empty, failed = (client.create_run(experiment).info.run_id for _ in range(2))
        client.set_terminated(failed, "FAILED")
        for name, message in ((empty, "logged none"), (failed, "FAILED"), ("f" * 32, "in the store")):
            with pytest.raises(BadInput, match=message):
                register_and_promote(client, ledger, **arguments(model, name))
        assert ledger.entries() == ()

    def test_a_model_that_is_not_there_has_no_champion_and_no_versions(self, client, ledger):
        assert (champion(client, "nobody"), versions(client, "nobody")) == (None, ())
        assert compare(client, ledger, "nobody") == ()
        assert recover(client, ledger) == () and not ledger.folder.exists()


class TestRollback:
    def test_back_and_forth(self, client, ledger, model, register):
        register(), register()
        assert rollback(client, ledger, model, "scores drifted").number == 1
        assert state(client, model) == {1: ("champion",), 2: ("previous",)}
        assert rollback(client, ledger, model, "all was well").number == 2
        assert state(client, model) == {1: ("previous",), 2: ("champion",)}
        assert_sound(client, ledger, model)

    def test_without_a_previous_champion_it_is_refused(self, client, ledger, model, register):
        register()
        with pytest.raises(BadInput, match="previous"):
            rollback(client, ledger, model, "why not")
        assert_sound(client, ledger, model)

    @pytest.mark.parametrize("spelt", ["{}/2", "{}@champion", "{}s", "a:b", 'x"y'])
    def test_a_name_that_no_model_has_is_refused_with_those_that_there_are(
        self, client, ledger, model, register, spelt
    ):
        """With a slash MLflow's own error came through, as if the store had failed."""
        register()
        for change in (rollback, partial(delete_version, number=1)):
            with pytest.raises(BadInput, match=r"the name of a registered model, got .*: the registry has "):
                change(client, ledger, model=spelt.format(model), reason="why not")
        assert_sound(client, ledger, model)

    def test_of_a_model_that_the_ledger_does_not_know_it_is_refused(self, client, ledger, tmp_path, model, register):
        """It was told to the ledger, which contradicted itself from then on, and there was nothing to settle."""
        register(), register()
        other = Ledger(tmp_path / "another")
        asks = (
            lambda: rollback(client, other, model, "why"),
            lambda: delete_version(client, other, model, 1, "why"),
            lambda: settle(client, other, model, "registry", "why"),
        )
        for ask in asks:
            with pytest.raises(BadInput, match="of which this folder's ledger registered a version, got"):
                ask()
        assert other.entries() == ()
        assert state(client, model) == {1: ("previous",), 2: ("champion",)}

    def test_while_another_one_is_quicker_it_is_not_undone(self, client, ledger, model, register, monkeypatch):
        register(), register()
        real = registry._changing

        def overtaken(*given):
            monkeypatch.setattr(registry, "_changing", real)
            rollback(client, ledger, model, "the quicker one")
            return real(*given)

        monkeypatch.setattr(registry, "_changing", overtaken)
        with pytest.raises(RunFailed, match="expected version 2 as champion, which was to go, got version 1: another"):
            rollback(client, ledger, model, "the slower one")
        assert state(client, model) == {1: ("champion",), 2: ("previous",)}
        assert_sound(client, ledger, model)

    def test_repeated_after_a_kill_it_is_done_and_not_undone(self, client, ledger, model, register, driver):
        """The operator saw no answer and asked again: the champion that was to go came back."""
        register(), register()
        outcomes, killed, line = set(), True, 0
        while killed:
            before, line = serving(client, model), line + 30
            change = {"model": model, "reason": "why"}
            _, killed = driver.change(client, ledger, "rollback", change, kill_at=line)
            interrupted = pending(ledger)
            if interrupted is None:
                continue
            recover(client, ledger)
            done = registry.rolled_back(client, model, interrupted)
            assert (done is not None) == (serving(client, model) != before)
            outcomes.add(done is not None)
            assert registry.rolled_back(client, "another", interrupted) is None
        assert outcomes == {True, False}

    def test_a_change_that_is_interrupted_at_once_is_taken_back(self, client, ledger, model, register, monkeypatch):
        """The note on it was written before anybody was there to take it back."""
        register()
        real = registry._write_intent

        def interrupted(*given):
            real(*given)
            monkeypatch.setattr(registry, "_write_intent", real)
            raise KeyboardInterrupt

        monkeypatch.setattr(registry, "_write_intent", interrupted)
        with pytest.raises(KeyboardInterrupt):
            register()
        assert registry.pending(ledger) is None
        assert state(client, model) == {1: ("champion",)}
        assert_sound(client, ledger, model)

    def test_to_a_deleted_version_it_is_refused(self, client, ledger, model, register):
        register(), register()
        delete_version(client, ledger, model, 1, "private data")
        with pytest.raises(BadInput, match="previous"):
            rollback(client, ledger, model, "why not")
        assert state(client, model) == {2: ("champion",)}
        assert_sound(client, ledger, model)


class TestDelete:
    def test_the_champion_and_what_is_not_there_are_refused(self, client, ledger, model, register):
        register()
        for number, message in ((1, "the champion"), (2, "is none")):
            with pytest.raises(BadInput, match=message):
                delete_version(client, ledger, model, number, "tidy")
        assert state(client, model) == {1: ("champion",)}

    def test_a_number_is_never_given_again(self, client, ledger, model, register):
        register(), register(promote=False)
        assert delete_version(client, ledger, model, 2, "tidy").aliases == ("challenger",)
        assert register(promote=False).number == 3
        assert [e.kind for e in ledger.entries()] == ["register", "promote", "register", "delete", "register"]
        assert_sound(client, ledger, model)


class TestHistory:
    @pytest.fixture
    def told(self, client, ledger, model, register):
        """Version 1, then 2 for its AUC, then back to 1 for drift."""
        register(reason="first"), register(reason="AUC"), rollback(client, ledger, model, "drift")
        return history(ledger, model)

    def test_each_time_as_champion_with_its_reason(self, told):
        assert [(p.number, p.kind, p.reason) for p in told] == [
            (1, "promote", "first"),
            (2, "promote", "AUC"),
            (1, "rollback", "drift"),
        ]
        assert [p.until for p in told] == [told[1].since, told[2].since, None]

    def test_who_was_champion_when(self, ledger, model, told):
        instant = timedelta(milliseconds=1)
        assert champion_on(ledger, model, told[0].since - instant) is None
        for promotion in told:
            assert champion_on(ledger, model, promotion.since) == promotion
            if promotion.until:
                assert champion_on(ledger, model, promotion.until - instant) == promotion
        assert champion_on(ledger, model, datetime.now(UTC) + timedelta(days=900)) == told[-1]

    def test_another_model_has_a_history_of_its_own(self, ledger, told, model):
        assert history(ledger, f"{model}2") == () and history(ledger, model[:-1]) == ()


STEPS = (  # of the store, in a change
    "create_registered_model",
    "create_model_version",
    "set_registered_model_alias",
    "delete_registered_model_alias",
    "delete_model_version",
    "get_model_version",
)


class Steps:
    """Lets the k-th step raise, before or after it took effect: one of the store, an append, a file put in place."""

    def __init__(self, monkeypatch, client, ledger, fail_at, after, for_good=False):
        self.count, self.fail_at, self.after, self.for_good = 0, fail_at, after, for_good
        for name in STEPS:
            monkeypatch.setattr(client, name, self.step(getattr(client, name)))
        monkeypatch.setattr(ledger, "append", self.step(ledger.append))
        monkeypatch.setattr(os, "replace", self.step(os.replace))
        monkeypatch.setattr(Path, "unlink", self.step(Path.unlink, lambda path, **_: path.name == "intent.json"))

    def step(self, call, counts=lambda *_, **__: True):
        def stepped(*arguments, **named):
            if not counts(*arguments, **named):
                return call(*arguments, **named)
            self.count += 1
            fails = self.count == self.fail_at or (self.for_good and self.count > self.fail_at)
            if fails and not self.after:
                raise Broken(f"step {self.count}")
            try:
                return call(*arguments, **named)
            finally:
                if fails:
                    raise Broken(f"step {self.count}")

        return stepped


def attempt(client, ledger, model, run, action):
    """Make one change of a kind."""
    if action == "rollback":
        return rollback(client, ledger, model, "back")
    if action == "delete":
        return delete_version(client, ledger, model, max(state(client, model)), "tidy")
    promote = action == "promote"
    return register_and_promote(client, ledger, **arguments(model, run, promote, against=serving(client, model)))


def prepare(register, scene):
    """Make the versions that a scene begins with; return the change that is to be made."""
    for promote in (True, True, False) if scene != "first" else ():
        register(promote=promote)
    return "promote" if scene == "first" else scene


def failing_attempts(client, ledger, model, run, action, after):
    """Make a change again and again, with one more step before the one that fails; end when it goes through."""
    for fail_at in range(1, 100):
        with pytest.MonkeyPatch.context() as patch:
            broken, book = MlflowClient(client.tracking_uri), Ledger(ledger.folder)
            steps = Steps(patch, broken, book, fail_at, after)
            try:
                attempt(broken, book, model, run, action)
            except (Broken, RunFailed):
                assert steps.count >= fail_at
            else:
                assert fail_at > 6 and steps.count < fail_at, "every step was met, and no failure was swallowed"
                return
        yield fail_at


class TestFailure:
    @pytest.mark.parametrize(
        ("scene", "after"),
        [
            ("first", False),
            ("register", True),
            ("promote", True),
            ("rollback", True),
        ],
    )
    def test_a_failure_at_any_step_takes_everything_back(self, client, ledger, model, run, register, scene, after):
        action = prepare(register, scene)
        before = state(client, model)
        for step in failing_attempts(client, ledger, model, run, action, after):
            assert state(client, model) == before, f"step {step}"
            recover(client, ledger)  # of the very first step an intent may be left
            assert state(client, model) == before, f"step {step}"
            assert_sound(client, ledger, model)
        assert state(client, model) != before
        assert_sound(client, ledger, model)

    def test_a_failed_deletion_leaves_the_version_or_is_finished(self, client, ledger, model, run, register):
        prepare(register, "delete")
        for step in failing_attempts(client, ledger, model, run, "delete", after=True):
            recover(client, ledger)
            assert_sound(client, ledger, model)
            if len(state(client, model)) < 3:  # what is gone cannot be brought back
                assert "finished" in ledger.entries()[-1].reason, f"step {step}"
                register(promote=False)
            assert list(state(client, model).values()) == [("previous",), ("champion",), ("challenger",)], (
                f"step {step}"
            )

    @pytest.mark.parametrize("fail_at", [3, 6, 10, 14])
    def test_where_taking_back_fails_too_the_next_change_does_it(self, client, ledger, model, run, register, fail_at):
        prepare(register, "promote")
        before = state(client, model)
        with pytest.MonkeyPatch.context() as patch:
            broken, book = MlflowClient(client.tracking_uri), Ledger(ledger.folder)
            Steps(patch, broken, book, fail_at, after=True, for_good=True)
            with pytest.raises(RunFailed, match="could not be taken back now"):
                attempt(broken, book, model, run, "promote")
        assert [finding.kind for finding in compare(client, ledger, model)] == ["interrupted"]
        assert register(promote=False).aliases == ("challenger",)
        assert champion(client, model).number == 2 and state(client, model).items() >= {**before, 3: ()}.items()
        assert "repair" in [entry.kind for entry in ledger.entries()]
        assert_sound(client, ledger, model)

    def test_the_error_says_what_was_done_about_it_and_the_ledger_why(self, client, ledger, model, register):
        register()
        with pytest.MonkeyPatch.context() as patch:
            broken = MlflowClient(client.tracking_uri)
            patch.setattr(broken, "set_registered_model_alias", lambda *_: (_ for _ in ()).throw(Broken("no network")))
            with pytest.raises(Broken) as caught:
                register(client=broken)
        (note,) = caught.value.__notes__
        repair = ledger.entries()[-1]
        assert note == f"The promotion of {model}/2 failed (Broken: no network); it was taken back."
        assert (repair.kind, repair.subject) == ("repair", f"{model}/2") and "no network" in repair.reason
        assert repair.data["withdrawn"] == [3] and repair.data["exists"] is False
        assert repair.data["aliases"] == {"challenger": [2, None]}

    def test_an_interrupt_from_the_keyboard_takes_everything_back(self, client, ledger, model, register, monkeypatch):
        register()

        def interrupt(*_):
            raise KeyboardInterrupt

        monkeypatch.setattr(client, "delete_registered_model_alias", interrupt)  # the last move: 2 serves already
        with pytest.raises(KeyboardInterrupt):
            register()
        monkeypatch.undo()
        recover(client, ledger)
        assert state(client, model) == {1: ("champion",)}
        reigns = history(ledger, model)
        assert [promotion.number for promotion in reigns] == [1, 2, 1], "for a moment, 2 served"
        assert [promotion.taken_back for promotion in reigns] == [False, True, False]
        assert_sound(client, ledger, model)


class TestCrash:
    """SIGKILL, which no `except` sees."""

    def settle(self, client, ledger, model, before):
        """Recover, and check that the change is there whole or not at all; return what was said."""
        said = recover(client, ledger)
        assert_sound(client, ledger, model)
        assert recover(client, ledger) == (), "once is enough"
        after = state(client, model)
        assert after == before or (champion(client, model) and len(after) == len(before) + 1)
        return said

    def killed_promotions(self, client, ledger, model, run, driver, moments):
        """Kill promotions, one after the other, until one has ended before its moment; return what was said of them."""
        said = []
        for moment in moments:
            before = state(client, model)
            change = arguments(model, run, against=serving(client, model))
            told, killed = driver.change(client, ledger, "register_and_promote", change, **moment)
            if not killed:
                assert told == "done"
                break
            said += self.settle(client, ledger, model, before)
        else:
            raise AssertionError("the change goes on")
        return said

    def test_killed_at_lines_all_along(self, client, ledger, model, run, driver):
        lines = ({"kill_at": line} for line in range(40, 10_000, 51))
        said = self.killed_promotions(client, ledger, model, run, driver, lines)
        ends = [sentence.rsplit(" ", 1)[1] for sentence in said]
        assert {"finished.", "back."} == set(ends)
        assert all("was interrupted (process" in sentence for sentence in said)

    def test_killed_after_each_change_of_the_disk(self, client, ledger, model, run, driver, register):
        """Lines in between leave the same behind. Until the change is told it is taken back, then it is finished."""
        register(), register()
        changes = ({"kill_after": number} for number in range(1, 1000))
        said = self.killed_promotions(client, ledger, model, run, driver, changes)
        ends = [sentence.rsplit(" ", 1)[1] for sentence in said]
        assert len(ends) > 10 and ends == sorted(ends) and set(ends) == {"back.", "finished."}

    def test_killed_while_it_recovers_too(self, client, ledger, model, run, driver, register):
        register()
        rng = random.Random(0)
        for line in (150, 220, 290):
            before = state(client, model)
            change = arguments(model, run, against=serving(client, model))
            assert driver.change(client, ledger, "register_and_promote", change, kill_at=line)[1]
            for _ in range(2):
                driver.change(client, ledger, "recover", {}, kill_at=rng.randrange(20, 250))
            self.settle(client, ledger, model, before)

    def test_a_repair_is_told_once_though_it_is_done_twice(self, client, ledger, model, run, driver, register):
        register()
        change = arguments(model, run, against=1)
        assert driver.change(client, ledger, "register_and_promote", change, kill_at=250)[1]
        with pytest.MonkeyPatch.context() as patch:
            Steps(patch, MlflowClient(client.tracking_uri), ledger, 1, after=False)
            patch.setattr(ledger, "append", Ledger(ledger.folder).append)
            patch.setattr(os, "replace", os.rename)
            with pytest.raises(Broken):  # the intent stays
                recover(client, ledger)
        assert len(recover(client, ledger)) == 1
        assert [entry.kind for entry in ledger.entries()].count("repair") == 1
        assert_sound(client, ledger, model)

    def test_killed_at_random_moments(self, client, ledger, model, run, driver):
        rng, kills = random.Random(1), 0
        for doubled in range(7):  # a change takes a tenth of a second here, and may take seconds elsewhere
            before = state(client, model)
            change = arguments(model, run, against=serving(client, model))
            moment = rng.uniform(0.01, 0.02) * 2**doubled
            kills += driver.change(client, ledger, "register_and_promote", change, delay=moment)[1]
            self.settle(client, ledger, model, before)
        assert kills > 0

    @pytest.mark.parametrize("action", ["rollback", "delete_version"])
    def test_rollbacks_and_deletions_killed(self, client, ledger, model, driver, register, action):
        register(), register(), register(promote=False)
        kills = 0
        for line in range(90, 10_000, 30):
            before = state(client, model)
            change = {"model": model, "reason": "why"} | ({"number": max(before)} if action == "delete_version" else {})
            _, killed = driver.change(client, ledger, action, change, kill_at=line)
            if not killed:
                break
            kills += 1
            recover(client, ledger)
            assert_sound(client, ledger, model)
            assert sorted(state(client, model).values()) in (sorted(before.values()), [("champion",), ("previous",)])
            if len(state(client, model)) < 3:
                register(promote=False)
        assert kills >= 5

    def test_an_intent_is_for_one_store_and_must_be_whole(self, client, ledger, model, run, driver, register, tmp_path):
        register()
        change = arguments(model, run, against=1)
        assert driver.change(client, ledger, "register_and_promote", change, kill_at=250)[1]
        intent = ledger.folder / "intent.json"
        whole = intent.read_bytes()
        intent.write_bytes(canonical(json.loads(whole) | {"store": "https://elsewhere/"}))
        with pytest.raises(RunFailed, match="MLFLOW_TRACKING_URI"):
            recover(client, ledger)
        for spoilt in (b"", b"{}", whole[:-20], canonical(json.loads(whole) | {"action": "forge"})):
            intent.write_bytes(spoilt)
            with pytest.raises(RunFailed, match="audit verify") as caught:
                recover(client, ledger)
            assert "\n" not in str(caught.value)
        intent.write_bytes(whole)
        assert len(recover(client, ledger)) == 1
        assert state(client, model)[1] == ("champion",)
        assert_sound(client, ledger, model)

    def test_what_somebody_else_moved_meanwhile_is_not_moved_back(self, client, ledger, model, run, driver, register):
        register(), register(), register(promote=False)
        change = arguments(model, run, against=2)
        driver.change(client, ledger, "register_and_promote", change, kill_at=250)
        client.set_registered_model_alias(model, "champion", "1")
        assert "taken back" in recover(client, ledger)[0]
        assert [(f.kind, f.subject) for f in compare(client, ledger, model)] == [("alias", f"{model}@champion")]


def test_a_long_life_against_a_plain_twin(client, ledger, model, register):
    """Changes at random, done in a dictionary too; the ledger knows who was champion after each."""
    rng, aliases, numbers, moments = random.Random(2), {}, [], []
    for _ in range(25):
        action = rng.choice(["promote", "promote", "register", "rollback", "delete"])
        if action in ("promote", "register"):
            new = register(promote=action == "promote").number
            numbers.append(new)
            if action == "register":
                aliases["challenger"] = new
            else:
                old = {"previous": aliases["champion"]} if "champion" in aliases else {}
                aliases = {k: v for k, v in aliases.items() if k != "challenger"} | old | {"champion": new}
        elif action == "rollback" and "previous" in aliases:
            rollback(client, ledger, model, "back")
            aliases |= {"champion": aliases["previous"], "previous": aliases["champion"]}
        elif action == "delete" and (others := set(numbers) - {aliases.get("champion")}):
            gone = rng.choice(sorted(others))
            delete_version(client, ledger, model, gone, "tidy")
            numbers.remove(gone)
            aliases = {alias: number for alias, number in aliases.items() if number != gone}
        held = {alias: number for number, names in state(client, model).items() for alias in names}
        assert (sorted(state(client, model)), held) == (numbers, aliases)
        moments.append((datetime.fromisoformat(ledger.entries()[-1].time), aliases.get("champion")))
    for moment, number in moments:
        served = champion_on(ledger, model, moment)
        assert (served.number if served else None) == number
    assert_sound(client, ledger, model)


class TestTwoAtOnce:
    def test_one_promotes_and_the_other_is_told(self, client, ledger, model, run, driver):
        other = Driver()
        try:
            both = (driver, other)
            other.change(client, ledger, "recover", {})  # it has imported by now
            for against in (None, 1):
                for one in both:
                    one.start(client, ledger, "register_and_promote", arguments(model, run, against=against))
                told = sorted(one.outcome()[0] for one in both)
                assert told[1] == "done" and "another change was quicker" in told[0]
        finally:
            other.close()
        assert state(client, model) == {1: ("previous",), 2: ("champion",)}
        assert_sound(client, ledger, model)

    def test_who_waits_too_long_is_told_for_whom(self, ledger, register, monkeypatch):
        register()
        monkeypatch.setattr(registry, "LOCK_S", 0.1)
        with FileLock(ledger.folder / "registry.lock"):
            (ledger.folder / "registry.owner").write_text("elsewhere:7:1", encoding="utf-8")
            with pytest.raises(RunFailed, match="process 7 on elsewhere"):
                register()
        register()

    def test_threads_take_turns(self, client, ledger, model, run):
        change = arguments(model, run, promote=False)
        threads = [
            threading.Thread(target=register_and_promote, args=(client, ledger), kwargs=change) for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert state(client, model) == {1: (), 2: (), 3: (), 4: ("challenger",)}
        assert_sound(client, ledger, model)


class TestMovedByHand:
    """What something else than aucflow moved: no change goes on from there before somebody has settled it."""

    @pytest.fixture(autouse=True)
    def standing(self, client, ledger, model, register):
        """Versions 1 (previous), 2 (champion) and 3 (challenger)."""
        register(), register(), register(promote=False)

    @pytest.mark.parametrize("holder", ["1", "3", None])
    def test_no_change_is_made(self, client, ledger, model, run, holder):
        if holder is None:
            client.delete_registered_model_alias(model, "champion")
        else:
            client.set_registered_model_alias(model, "champion", holder)
        before, entries = state(client, model), ledger.entries()
        changes = (
            lambda: register_and_promote(
                client, ledger, **arguments(model, run, against=None if holder is None else int(holder))
            ),
            lambda: rollback(client, ledger, model, "why"),
            lambda: delete_version(client, ledger, model, 1 if holder != "1" else 3, "why"),
        )
        for change in changes:
            with pytest.raises(RunFailed, match=r"left it at version 2.*aucflow settle .* --to ledger"):
                change()
        assert (state(client, model), ledger.entries()) == (before, entries)
        assert pending(ledger) is None

    def test_settled_to_the_ledger_the_aliases_are_back(self, client, ledger, model, register):
        client.set_registered_model_alias(model, "champion", "1")
        client.delete_registered_model_alias(model, "challenger")
        moves = settle(client, ledger, model, "ledger", "it was a slip")
        assert moves == {"champion": [1, 2], "challenger": [None, 3]}
        assert state(client, model) == {1: ("previous",), 2: ("champion",), 3: ("challenger",)}
        assert_sound(client, ledger, model)
        last = ledger.entries()[-1]
        assert (last.kind, last.reason, last.data["moved"]) == ("settle", "it was a slip", moves)
        register()
        assert_sound(client, ledger, model)

    def test_settled_to_the_registry_the_ledger_follows(self, client, ledger, model):
        client.set_registered_model_alias(model, "champion", "1")
        assert settle(client, ledger, model, "registry", "an emergency") == {"champion": [2, 1]}
        assert champion(client, model).number == 1
        assert [(one.number, one.kind, one.reason) for one in history(ledger, model)][-1] == (
            1,
            "settle",
            "an emergency",
        )
        assert_sound(client, ledger, model)
        assert rollback(client, ledger, model, "why").number == 1

    @pytest.mark.parametrize("to", ["ledger", "registry"])
    def test_a_champion_deleted_in_mlflow_is_gone_whichever_is_right(self, client, ledger, model, to, register):
        client.delete_model_version(model, "2")
        settle(client, ledger, model, to, "gone")
        assert champion(client, model) is None
        assert_sound(client, ledger, model)
        assert register().number == 4
        assert_sound(client, ledger, model)

    @pytest.mark.parametrize("to", ["ledger", "registry"])
    def test_numbers_of_a_deleted_model_are_not_given_again(self, client, ledger, model, run, to, register):
        client.delete_registered_model(model)
        with pytest.raises(RunFailed, match="champion is no version, the ledger left it at version 2"):
            register()
        settle(client, ledger, model, to, "somebody deleted it")
        assert_sound(client, ledger, model)
        assert register().number == 4
        assert state(client, model) == {4: ("champion",)}
        assert_sound(client, ledger, model)

    def test_a_version_made_by_something_else_is_not_taken_over(self, client, ledger, model, run):
        client.create_model_version(model, "file:///elsewhere", run)
        client.set_registered_model_alias(model, "champion", "4")
        with pytest.raises(BadInput, match="version 4, which something else made"):
            settle(client, ledger, model, "registry", "why")
        settle(client, ledger, model, "ledger", "why")
        assert [one.subject for one in compare(client, ledger, model)] == [f"{model}/4"]
        delete_version(client, ledger, model, 4, "not ours")
        assert_sound(client, ledger, model)

    def test_the_ledger_goes_first(self, client, ledger, model, monkeypatch):
        """Killed after the moves, it left no word of who had moved what, and nothing to settle."""
        client.set_registered_model_alias(model, "champion", "1")
        monkeypatch.setattr(registry, "_move", lambda *_: (_ for _ in ()).throw(Broken()))
        with pytest.raises(Broken):
            settle(client, ledger, model, "ledger", "back")
        monkeypatch.undo()
        assert (ledger.entries()[-1].kind, ledger.entries()[-1].data["moved"]) == ("settle", {"champion": [1, 2]})
        assert [one.subject for one in compare(client, ledger, model)] == [f"{model}@champion"]
        assert settle(client, ledger, model, "ledger", "once more") == {"champion": [1, 2]}
        assert_sound(client, ledger, model)

    def test_where_all_agree_there_is_nothing_to_settle(self, client, ledger, model):
        with pytest.raises(BadInput, match="no difference to settle"):
            settle(client, ledger, model, "ledger", "why")
        with pytest.raises(BadInput, match="Expected the name of a registered model, got 'nobody's'"):
            settle(client, ledger, "nobody's", "ledger", "why")

    def test_a_ledger_that_knows_no_version_of_a_model_cannot_contradict(self, client, tmp_path, model, register):
        """Registered from another folder, with a ledger of its own."""
        assert register(ledger=Ledger(tmp_path / "another")).number == 4

    def test_a_change_that_is_half_done_is_not_a_move_by_hand(self, client, ledger, model, run, driver):
        halves = 0
        for line in range(190, 420, 45):
            change = arguments(model, run, against=serving(client, model))
            _, killed = driver.change(client, ledger, "register_and_promote", change, kill_at=line)
            halves += killed and bool([one for one in compare(client, ledger, model) if one.kind == "interrupted"])
            assert moved_by_hand(client, ledger, model) == ()
            recover(client, ledger)
        assert halves > 1


class TestCompare:
    @pytest.fixture
    def standing(self, client, ledger, model, register):
        """Versions 1 (previous), 2 (champion) and 3 (challenger)."""
        register(), register(), register(promote=False)
        assert compare(client, ledger, model) == ()

    @pytest.fixture
    def database(self, client):
        """The database under the registry."""
        database = sqlite3.connect(client.tracking_uri.removeprefix("sqlite:///"))
        yield database
        database.close()

    def test_an_alias_moved_or_removed(self, client, ledger, model, standing):
        for alias, holder in {"previous": 1, "champion": 2, "challenger": 3}.items():
            for number in {1, 2, 3} - {holder}:
                client.set_registered_model_alias(model, alias, str(number))
                (finding,) = compare(client, ledger, model)
                assert (finding.kind, finding.subject) == ("alias", f"{model}@{alias}")
                assert f"is version {number}" in finding.message
            client.delete_registered_model_alias(model, alias)
            (finding,) = compare(client, ledger, model)
            assert (finding.kind, finding.subject) == ("alias", f"{model}@{alias}")
            client.set_registered_model_alias(model, alias, str(holder))
            assert compare(client, ledger, model) == ()

    def test_a_contradiction_in_the_ledger_stays_known_until_it_is_settled(
        self, client, ledger, model, register, standing, monkeypatch
    ):
        client.set_registered_model_alias(model, "champion", "1")
        monkeypatch.setattr(registry, "check_agreement", lambda *_: None)  # as versions before 2026-11-28
        register()
        (finding,) = compare(client, ledger, model)
        assert (finding.kind, finding.subject) == ("alias", f"{model}@champion")
        assert "version 1" in finding.message and "left it at version 2" in finding.message
        assert slips(ledger, model) == (finding,)
        assert settle(client, ledger, model, "registry", "looked at it") == {}
        assert compare(client, ledger, model) == (replace(finding, is_note=True),)
        assert slips(ledger, model) == ()

    def test_a_number_that_is_registered_twice(self, client, ledger, model, standing):
        entry = next(one for one in ledger.entries() if one.subject == f"{model}/1")
        ledger.append("register", f"{model}/1", "again", entry.data | {"aliases": {}})
        (finding,) = compare(client, ledger, model)
        assert finding.subject == f"{model}/1" and "a second time" in finding.message

    def test_aliases_and_tags_of_the_users_own_are_no_finding(self, client, ledger, model, standing):
        client.set_registered_model_alias(model, "staging", "1")
        client.set_model_version_tag(model, "1", "owner", "fraud team")
        assert compare(client, ledger, model) == ()

    def test_a_version_deleted_or_made_behind_the_ledgers_back(self, client, ledger, model, run, standing):
        client.delete_model_version(model, "3")
        client.create_model_version(model, "file:///elsewhere", run)
        kinds = {(f.kind, f.subject) for f in compare(client, ledger, model)}
        assert kinds == {("missing", f"{model}/3"), ("unknown", f"{model}/4"), ("alias", f"{model}@challenger")}

    def test_a_whole_model_deleted(self, client, ledger, model, standing):
        client.delete_registered_model(model)
        kinds = [f.kind for f in compare(client, ledger, model)]
        assert sorted(kinds) == ["alias"] * 3 + ["missing"] * 3

    def test_a_deleted_version_brought_back(self, client, ledger, model, standing, database):
        delete_version(client, ledger, model, 3, "tidy")
        with database:
            database.execute("UPDATE model_versions SET current_stage='None' WHERE name=? AND version=3", (model,))
        (finding,) = compare(client, ledger, model)
        assert (finding.kind, finding.subject) == ("unknown", f"{model}/3") and "deleted" in finding.message

    @pytest.mark.parametrize("column", ["run_id", "source"])
    def test_a_row_changed(self, client, ledger, model, register, database, column):
        register()
        with database:
            database.execute(f"UPDATE model_versions SET {column}='forged' WHERE name=? AND version=1", (model,))
        (finding,) = compare(client, ledger, model)
        assert (finding.kind, finding.subject) == ("changed", f"{model}/1")
        assert finding.message.startswith(f"{column} is 'forged'")

    @pytest.mark.parametrize("change", ["changed", "removed", "added"])
    def test_a_tag_of_ours(self, client, ledger, model, register, change):
        register()
        name = "aucflow.approved_by" if change == "added" else "aucflow.decision"
        if change == "removed":
            client.delete_model_version_tag(model, "1", name)
        else:
            client.set_model_version_tag(model, "1", name, "not promoted")
        (finding,) = compare(client, ledger, model)
        assert (finding.kind, finding.subject) == ("changed", f"{model}/1") and finding.message.startswith(name)

    @pytest.mark.parametrize(
        "data",
        [{}, {"aliases": None}, {"aliases": {"champion": [1]}}, {"aliases": {"champion": 3}}, {"aliases": [1]}],
    )
    def test_entries_that_no_change_of_models_writes_are_named(self, client, ledger, model, data):
        written = [ledger.append(kind, f"{model}/3", "forged", data) for kind in ("register", "promote", "repair")]
        findings = compare(client, ledger, model)
        assert [f.kind for f in findings] == ["malformed"] * 3
        assert [f.message.split(" is ")[0] for f in findings] == [f"entry {entry.seq}" for entry in written]

    def test_a_change_under_way_is_told_as_such(self, client, ledger, model, run, driver, standing):
        driver.change(client, ledger, "register_and_promote", arguments(model, run, against=2), kill_at=250)
        (finding,) = compare(client, ledger, model)
        assert finding.kind == "interrupted" and "promotion" in finding.message
        recover(client, ledger)
        assert_sound(client, ledger, model)

    @pytest.mark.parametrize("action", ["register", "promote", "rollback", "delete"])
    def test_a_change_that_is_going_well_is_told_at_each_of_its_steps_and_no_finding(
        self, client, ledger, model, run, standing, action
    ):
        seen = []

        def look():
            seen.append(compare(client, ledger, model))

        attempt(Watched(client.tracking_uri, look), ledger, model, run, action)
        assert {(one.kind, one.is_note) for found in seen for one in found} == {("interrupted", True)}
        assert f"is under way (process {os.getpid()} on" in seen[0][0].message
        assert_sound(client, ledger, model)

    @pytest.mark.parametrize("is_known", [False, True], ids=["of no change", "of the one before the last"])
    def test_a_forged_change_of_a_process_that_lives_hides_nothing(self, client, ledger, model, standing, is_known):
        transaction = ledger.entries()[0].data["transaction"] if is_known else "f" * 32
        intent = registry.Intent("rollback", model, 1, "x", {"champion": 2, "previous": 1}, "", this_process())
        registry._write_intent(ledger, replace(intent, transaction=transaction))
        client.set_registered_model_alias(model, "champion", "1")
        client.set_model_version_tag(model, "1", registry.TRANSACTION, transaction)
        client.set_model_version_tag(model, "1", "aucflow.decision", "forged")
        found = {(one.kind, one.subject) for one in compare(client, ledger, model) if not one.is_note}
        assert found == {("alias", f"{model}@champion"), ("changed", f"{model}/1")}

    @pytest.mark.parametrize(("changes", "looks"), [(0, 1), (2, 3), (1000, registry.TRIES)])
    def test_after_a_change_it_looks_again_and_not_for_good(self, ledger, changes, looks):
        finding, seen = registry.Disagreement("alias", "fraud@champion", "moved"), []

        def look():
            half_done = registry.Disagreement("alias", f"fraud@{len(seen)}", "on its way")
            if len(seen) < changes:
                ledger.append("repair", "ledger", "somebody was here")
            seen.append(half_done)
            return finding, *([half_done] if len(seen) <= changes else [])

        assert unmoved(ledger, look) == (finding,)
        assert len(seen) == looks


class Watched(MlflowClient):
    """A client that has somebody look before and after each step of a change."""

    STEPS = (
        "create_model_version",
        "set_registered_model_alias",
        "delete_registered_model_alias",
        "delete_model_version",
    )

    def __init__(self, uri, look):
        super().__init__(uri)
        for name in self.STEPS:
            setattr(self, name, self.watched(getattr(self, name), look))

    @staticmethod
    def watched(step, look):
        def call(*given, **named):
            look()
            done = step(*given, **named)
            look()
            return done

        return call
