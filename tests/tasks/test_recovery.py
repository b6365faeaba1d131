"""Runs whose process is gone: told from those that live, ended in the ledger first, and only once."""

import os
import re
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, contextmanager
from unittest.mock import Mock

import pytest
from audited import METHODS, claims, inside
from audited import experiment as run_experiment
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from flows import experiment as flow
from tasks import recovery, store
from tasks.errors import RunFailed
from tasks.ledger import Ledger
from tasks.manifests import FILE
from tasks.recovery import INTERRUPTED, PROCESS, end_interrupted_runs, is_gone, this_process
from tasks.story import tell
from tasks.verify import verify


@pytest.fixture(scope="module")
def gone():
    """The name of a process that has ended."""
    command = "from tasks.recovery import this_process; print(this_process())"
    return subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    return MlflowClient(f"sqlite:///{tmp_path_factory.mktemp('store') / 'mlflow.db'}")


@pytest.fixture
def experiment(client, request, tmp_path):
    return client.create_experiment(str(abs(hash(request.node.nodeid))), tmp_path.as_uri())


@pytest.fixture
def ledger(tmp_path):
    return Ledger(tmp_path / "ledger")


def start(client, experiment, process, name="wine", parent=None):
    tags = {} if process is None else {PROCESS: process}
    tags |= {} if parent is None else {"mlflow.parentRunId": parent}
    return client.create_run(experiment, run_name=name, tags=tags).info.run_id


def status(client, run_id):
    return client.get_run(run_id).info.status


class TestProcess:
    def test_this_one_lives(self):
        assert not is_gone(this_process())

    def test_one_that_has_ended_is_gone(self, gone):
        assert is_gone(gone)

    def test_a_later_one_with_its_number_is_another(self):
        host, number, start = this_process().rsplit(":", 2)
        assert is_gone(f"{host}:{number}:{int(start) + 1}")

    def test_where_there_is_no_proc_ps_tells_when_it_began(self, gone, monkeypatch, tmp_path):
        """On macOS a number that had been given again kept its run open for ever."""
        monkeypatch.setattr(recovery, "PROCESSES", tmp_path / "none")
        name = this_process()
        host, number, start = name.rsplit(":", 2)
        assert (host, number) == (socket.gethostname(), str(os.getpid())) and re.fullmatch("[0-9A-Za-z-]+", start)
        assert not is_gone(name) and not is_gone(f"{host}:{number}:")
        assert is_gone(f"{host}:{number}:Mon-Jan-1-00-00-00-2001") and is_gone(gone)

    def test_a_living_one_of_somebody_else_is_not_gone(self, monkeypatch):
        def not_ours(*_given):
            raise PermissionError

        monkeypatch.setattr(os, "kill", not_ours)
        assert not is_gone(this_process())

    @pytest.mark.parametrize(
        "name",
        ["", "elsewhere:1:2", "elsewhere", f"{socket.gethostname()}:one:2", f"{socket.gethostname()}:²:2", ":::"],
    )
    def test_of_another_host_or_none_nothing_is_known(self, name):
        assert not is_gone(name)


class TestRuns:
    def test_what_its_process_left_open_is_killed_children_first(self, client, experiment, ledger, gone):
        parent = start(client, experiment, gone, "parent")
        child = start(client, experiment, gone, "child", parent)
        said = end_interrupted_runs(client, ledger)
        assert [one.partition(" (")[0] for one in said] == ["run child", "run parent"]
        assert all(one.endswith("was interrupted: it is marked KILLED") for one in said)
        entries = ledger.entries()
        assert [(e.subject, e.reason, e.data["parent"]) for e in entries] == [
            (child, INTERRUPTED, parent),
            (parent, INTERRUPTED, None),
        ]
        for entry in entries:
            run = client.get_run(entry.subject).info
            assert (run.status, run.end_time) == (entry.data["status"], entry.data["end_time"])
        assert ledger.verify() == ()
        assert end_interrupted_runs(client, ledger) == ()

    def test_one_that_the_ledger_saw_end_ends_so(self, client, experiment, ledger, gone):
        run = start(client, experiment, gone)
        ledger.append("run", run, "finished", {"status": "FINISHED", "end_time": 1_700_000_000_000})
        (said,) = end_interrupted_runs(client, ledger)
        assert said.endswith("it is marked FINISHED")
        info = client.get_run(run).info
        assert (info.status, info.end_time) == ("FINISHED", 1_700_000_000_000)
        assert len(ledger.entries()) == 1

    @pytest.mark.parametrize(
        "process", [None, "elsewhere:1:2", this_process()], ids=["no one", "elsewhere", "this one"]
    )
    def test_others_are_left_alone(self, client, experiment, ledger, process):
        run = start(client, experiment, process)
        assert end_interrupted_runs(client, ledger) == ()
        assert status(client, run) == "RUNNING"
        assert not ledger.folder.exists()

    def test_a_crash_between_ledger_and_store_is_mended_by_the_next(
        self, client, experiment, ledger, gone, monkeypatch
    ):
        run = start(client, experiment, gone)

        def crash(*_given):
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(MlflowClient, "set_terminated", crash)
            with pytest.raises(KeyboardInterrupt):
                end_interrupted_runs(client, ledger)
        assert (status(client, run), len(ledger.entries())) == ("RUNNING", 1), "the ledger goes first"
        end_interrupted_runs(client, ledger)
        assert (status(client, run), len(ledger.entries())) == ("KILLED", 1)

    def test_two_commands_at_once_end_it_once(self, client, experiment, ledger, gone, monkeypatch):
        start(client, experiment, gone)
        both, real, said = threading.Barrier(2), recovery.locked, []

        def meet(*given, **named):
            both.wait(30)
            return real(*given, **named)

        monkeypatch.setattr(recovery, "locked", meet)
        threads = [threading.Thread(target=lambda: said.extend(end_interrupted_runs(client, ledger))) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (len(said), len(ledger.entries())) == (1, 1)


class TestServerThatGoesAway:
    """A store's database went down while a run trained: the run was KILLED later, and nobody knew of what."""

    @pytest.fixture
    def away(self, monkeypatch):
        """A context in which no call of MLflow's that writes to a run comes through."""
        refused = MlflowException("(psycopg2.OperationalError) connection to server at db failed: Connection refused")

        @contextmanager
        def gone_away():
            with monkeypatch.context() as patched:
                for name in ("set_tag", "log_batch", "log_text", "log_artifact", "set_terminated"):
                    patched.setattr(MlflowClient, name, Mock(side_effect=refused))
                yield

        return gone_away

    def test_the_ledger_has_the_reason_and_the_next_command_brings_it_to_the_store(self, tmp_path, away, monkeypatch):
        with inside(tmp_path):
            claims(tmp_path / "claims.csv")
            real = flow.track

            def track(*given):
                stack.enter_context(away())
                return real(*given)

            with ExitStack() as stack, pytest.raises(RunFailed, match=r"to take the end of run claims \(") as told:
                monkeypatch.setattr(flow, "track", track)
                run_experiment(tmp_path / "claims.csv", methods=METHODS[:1])
            assert "Connection refused. The ledger has it as FAILED; the next command brings that" in str(told.value)
            entries = [entry for entry in store.ledger().entries() if entry.kind == "run"]
            assert [entry.data["status"] for entry in entries] == ["FAILED", "FAILED"]
            assert all("Connection refused" in entry.reason for entry in entries)
            client, ledger = MlflowClient(store.tracking_uri()), store.ledger()
            ids = [entry.subject for entry in entries]
            assert {status(client, run) for run in ids} == {"RUNNING"}
            assert verify(client, ledger).findings == ()
            # by whatever command, in the same process too, as one that serves has many
            said = end_interrupted_runs(client, ledger)
            assert len(said) == 2 and all(one.endswith("it is marked FAILED") for one in said)
            assert {status(client, run) for run in ids} == {"FAILED"}
            assert verify(client, ledger).findings == ()
            assert [one.message for one in tell(client, ledger, ids[0]).found if not one.is_note] == []

    def test_one_that_hangs_is_not_asked_again_and_again(self, tmp_path, monkeypatch):
        """Of each call MLflow's retries take a minute and a half, and closing a cell and its experiment is six."""
        asked = Mock(side_effect=AssertionError)

        def track(*_given):
            monkeypatch.setattr(store, "answers", lambda: False)
            for call in ("set_tag", "log_text", "log_artifact", "set_terminated"):
                monkeypatch.setattr(MlflowClient, call, asked)
            raise MlflowException("x (Caused by ReadTimeoutError('Read timed out. (read timeout=30)'))")

        with inside(tmp_path):
            claims(tmp_path / "claims.csv")
            monkeypatch.setattr(flow, "track", track)
            expected = (
                "got: it does not answer. The ledger has it as FAILED (Read timed out. (read timeout=30)); the next "
                "command brings that to the store."
            )
            with pytest.raises(RunFailed, match=re.escape(expected)):
                run_experiment(tmp_path / "claims.csv", methods=METHODS[:1])
            assert not asked.called
            entries = [entry for entry in store.ledger().entries() if entry.kind == "run"]
            assert [entry.data["status"] for entry in entries] == ["FAILED", "FAILED"]
            assert all("Read timed out" in entry.reason for entry in entries)

    def test_an_interrupt_stays_one(self, tmp_path, away, monkeypatch):
        with inside(tmp_path):
            claims(tmp_path / "claims.csv")

            def track(*_given):
                stack.enter_context(away())
                raise KeyboardInterrupt

            with ExitStack() as stack, pytest.raises(KeyboardInterrupt):
                monkeypatch.setattr(flow, "track", track)
                run_experiment(tmp_path / "claims.csv", methods=METHODS[:1])
            told = [(entry.data["status"], entry.reason) for entry in store.ledger().entries()]
            assert told == [("KILLED", "interrupted")] * 2

    def test_the_end_of_a_run_that_was_all_there_is_not_lost(self, tmp_path, monkeypatch):
        """Away between the ledger's entry and the store's status."""
        with inside(tmp_path):
            claims(tmp_path / "claims.csv")
            refused = MlflowException("Connection refused")
            real = MlflowClient.set_terminated

            def set_terminated(client, run_id, status=None, end_time=None):
                if end_time is not None:  # MLflow ends runs of its own
                    raise refused
                real(client, run_id, status)

            with monkeypatch.context() as patched:
                patched.setattr(MlflowClient, "set_terminated", set_terminated)
                run_experiment(tmp_path / "claims.csv")
            assert {entry.data["status"] for entry in store.ledger().entries()} == {"FINISHED"}
            client = MlflowClient(store.tracking_uri())
            assert {status(client, entry.subject) for entry in store.ledger().entries()} == {"RUNNING"}
            monkeypatch.setattr(recovery, "is_gone", lambda _: True)
            assert verify(client, store.ledger()).findings == ()
            assert len(end_interrupted_runs(client, store.ledger())) == 3
            assert verify(client, store.ledger()).findings == ()

    def test_what_is_in_the_ledger_is_not_ended_otherwise(self, tmp_path, monkeypatch):
        """An interrupt while the store was told of the end: a second entry took the manifest back."""
        with inside(tmp_path):
            claims(tmp_path / "claims.csv")
            real = flow.track

            def track(*given):
                real(*given)
                patched.setattr(MlflowClient, "set_terminated", Mock(side_effect=KeyboardInterrupt))

            with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
                patched.setattr(flow, "track", track)
                run_experiment(tmp_path / "claims.csv", methods=METHODS[:1])
            told = [(entry.data["name"], entry.data["status"]) for entry in store.ledger().entries()]
            assert told == [("claims ls_svm", "FINISHED"), ("claims", "KILLED")]
            client = MlflowClient(store.tracking_uri())
            monkeypatch.setattr(recovery, "is_gone", lambda _: True)
            assert len(end_interrupted_runs(client, store.ledger())) == 2
            assert verify(client, store.ledger()).findings == ()

    def test_a_manifest_that_was_written_twice_is_no_file_of_its_run(self, tmp_path, monkeypatch):
        """The server's answer was lost: what came of the first try was in the second one's list of files."""
        with inside(tmp_path):
            claims(tmp_path / "claims.csv")
            real, lost = MlflowClient.log_text, [MlflowException("read timed out")]

            def log_text(client, run_id, text, name):
                real(client, run_id, text, name)
                if name == FILE and lost:
                    raise lost.pop()

            monkeypatch.setattr(MlflowClient, "log_text", log_text)
            with pytest.raises(RunFailed, match=r"1 of 1 cells failed: .*read timed out"):
                run_experiment(tmp_path / "claims.csv", methods=METHODS[:1])
            assert verify(MlflowClient(store.tracking_uri()), store.ledger()).findings == ()
