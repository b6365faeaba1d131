"""What `aucflow serve` holds together when a signal comes between two steps; a real server is in test_deploy.py."""

import io
import sys
from types import SimpleNamespace
from uuid import uuid4

import pytest
from installed import environment
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


@pytest.mark.parametrize("step", ["take", "start_child"])
def test_a_signal_between_the_taking_of_a_run_and_its_start_leaves_no_run_pending(step, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    deployment = Deployed("claims", "claims.yaml", "0 3 * * *", "UTC", False, uuid4())
    client, signals, said = Client(deployment), Signals(), io.StringIO()
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
    server = SimpleNamespace(is_up=True, environment=environment(tmp_path))
    serving = Serving(server, client, Console(file=said), signals, tmp_path, limit=1, look_every=60)
    serving.deployed = (deployment,)
    with pytest.raises(KeyboardInterrupt):
        serving._start_due()
    (running,) = serving.running.values()
    assert serving.end() == "ended the run of claims"
    assert running.process.returncode is not None
    assert client.states == ["Pending", "Crashed"]
    assert "claims: crashed: `aucflow serve` was ended" in said.getvalue()
