"""What `aucflow serve` holds together when a signal comes between two steps; a real server is in test_deploy.py."""

import io
import sys
from types import SimpleNamespace
from uuid import uuid4

import pytest
from installed import environment
from prefect.states import Crashed
from rich.console import Console

from flows.serve import Serving
from flows.signals import Signals
from tasks import scheduler
from tasks.scheduler import Deployed


class Client:
    """A server with one run, which is due."""

    def __init__(self, deployment):
        self.states = []
        self.run = SimpleNamespace(
            id=uuid4(), name="wise-owl", deployment_id=deployment.id, parameters={}, tags=[], auto_scheduled=True,
            next_scheduled_start_time=0, state=None, labels={},
        )  # fmt: skip

    def get_scheduled_flow_runs_for_deployments(self, _ids, _before):
        return [self.run]

    def update_flow_run_labels(self, _run_id, labels):
        self.run.labels |= labels

    def read_flow_run(self, _run_id):
        return self.run

    def read_task_runs(self, **_filter):
        return []

    def set_flow_run_state(self, _run_id, state, force=False):
        self.states.append(state.name)
        self.run.state = state
        return SimpleNamespace(status=scheduler.SetStateStatus.ACCEPT)


def serving_of(folder, client=None, said=None):
    """Return what serves a folder, with a server that is up; that of its logs is not there."""
    server = SimpleNamespace(is_up=True, environment=environment(folder))
    console = Console(file=said or io.StringIO(), soft_wrap=True)
    return Serving(server, client, console, Signals(), folder / "logs", limit=1, look_every=60)


@pytest.fixture
def deployment():
    return Deployed("claims", "claims.yaml", "0 3 1 * *", "UTC", False, uuid4())


@pytest.mark.parametrize("step", ["take", "start_child"])
def test_a_signal_between_a_runs_taking_and_its_start_leaves_none_pending(step, deployment, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    client, said = Client(deployment), io.StringIO()
    serving = serving_of(tmp_path, client, said)
    signals = serving.signals
    module = scheduler if step == "take" else sys.modules["flows.serve"]
    honest = getattr(module, step)

    def interrupted(*arguments, **more):
        """Do the step; then a signal comes, which raises if it is not held."""
        result = honest(*arguments, **more)
        signals.received.append(15)
        if not signals.is_held:
            raise KeyboardInterrupt
        return result

    monkeypatch.setattr(module, step, interrupted)
    monkeypatch.setattr("flows.serve.recover", lambda: None)
    serving.deployed = (deployment,)
    with pytest.raises(KeyboardInterrupt):
        serving._start_due()
    (running,) = serving.running.values()
    assert serving.end() == "ended the run of claims"
    assert running.process.returncode is not None
    assert client.states == ["Pending", "Crashed"]
    assert "claims: crashed: `aucflow serve` was ended" in said.getvalue()


def test_a_run_that_is_ended_here_is_told_so_whatever_its_last_word_was(deployment, tmp_path, monkeypatch):
    monkeypatch.setattr("flows.serve.recover", lambda: None)
    client, said = Client(deployment), io.StringIO()
    serving = serving_of(tmp_path, client, said)
    serving.deployed = (deployment,)
    serving._start_due()
    client.run.state = Crashed(message="Execution was aborted by an interrupt signal.")
    serving.end()
    assert "claims: crashed: `aucflow serve` was ended" in said.getvalue()


def test_the_folder_of_logs_may_be_cleaned_away_between_two_runs(deployment, tmp_path, monkeypatch):
    """FileNotFoundError ended the service: /tmp is cleaned of what has stood still for ten days or thirty."""
    monkeypatch.setattr("flows.serve.recover", lambda: None)
    client = Client(deployment)
    serving = serving_of(tmp_path, client)
    serving.deployed = (deployment,)
    serving._start_due()
    assert len(serving.running) == 1
    assert serving.end() == "ended the run of claims"


def test_a_run_whose_process_cannot_be_started_is_crashed_and_ends_nothing_else(deployment, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("flows.serve.start_child", full)
    client, said = Client(deployment), io.StringIO()
    serving = serving_of(tmp_path, client, said)
    serving.deployed = (deployment,)
    serving._start_due()
    assert (client.states, serving.running) == (["Pending", "Crashed"], {})
    assert "claims: crashed: its process could not be started: [Errno 28] No space left on device" in said.getvalue()


def test_data_that_may_not_be_looked_at_are_told_once_and_the_others_are_served_on(tmp_path, monkeypatch):
    """PermissionError ended the service, and with it the runs of all deployments."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(scheduler, "started_for", lambda _client, _deployment: None)
    started, said = [], io.StringIO()
    monkeypatch.setattr(scheduler, "start_for", lambda _client, deployment, _sha256: started.append(deployment.name))
    config = "model: {0}\ndata: {{source: {0}.csv, target: fraud}}\nmethod: {{solver: svm_or}}\n"
    for name in ("closed", "open"):
        (tmp_path / f"{name}.yaml").write_text(config.format(name))
    (tmp_path / "closed.csv").symlink_to("a" * 300)
    (tmp_path / "open.csv").write_text("a,fraud\n1,0\n")
    serving = serving_of(tmp_path, said=said)
    ids = {name: uuid4() for name in ("closed", "open")}
    for _ in range(3):
        for name in ids:
            serving._look(Deployed(name, f"{name}.yaml", None, "UTC", True, ids[name]))
    assert started == ["open"]
    (told,) = said.getvalue().splitlines()
    assert "closed: Expected a readable data file at" in told and "closed.csv, got: file name too long. Check" in told
