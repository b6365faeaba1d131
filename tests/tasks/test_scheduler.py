"""What is due, what is deployed here, and what is no time; a real server is in tests/flows/test_deploy.py."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from uuid import uuid4

import pytest

from tasks.errors import BadInput
from tasks.scheduler import DATA_CHANGED, Deployed, cause, due_runs, next_time

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)


class Server:
    """A server's answers, and what was asked of it."""

    def __init__(self, *runs):
        self.runs, self.cancelled = runs, []

    def get_scheduled_flow_runs_for_deployments(self, ids, before):
        assert abs(before - datetime.now(UTC)) < timedelta(minutes=1)
        return [run for run in self.runs if run.deployment_id in ids]

    def set_flow_run_state(self, run_id, state):
        assert state.is_cancelled()
        self.cancelled.append(run_id)


def deployment():
    return Deployed("claims", "claims.yaml", "0 3 * * *", "UTC", False, uuid4())


def scheduled(of, minute, **parameters):
    when = NOW + timedelta(minutes=minute)
    parameters = {"config": "claims.yaml"} | parameters
    return SimpleNamespace(id=uuid4(), deployment_id=of.id, next_scheduled_start_time=when, parameters=parameters)


def test_of_many_times_that_passed_the_last_stands_for_all():
    ours, other = deployment(), deployment()
    late = [scheduled(ours, minute) for minute in (3, 1, 2)]
    alone = scheduled(other, 0)
    server = Server(*late, alone)
    assert {run.id for run in due_runs(server, (ours, other))} == {late[0].id, alone.id}
    assert server.cancelled == [late[1].id, late[2].id]


def test_a_run_with_parameters_of_its_own_has_none_that_stands_for_it():
    ours = deployment()
    forced, later, last = scheduled(ours, 0, force=True), scheduled(ours, 1), scheduled(ours, 2)
    server = Server(last, later, forced)
    assert [run.id for run in due_runs(server, (ours,))] == [forced.id, last.id]
    assert server.cancelled == [later.id]


def test_without_deployments_nothing_is_asked():
    assert due_runs(None, ()) == ()


def test_times_are_those_of_the_time_zone():
    moment = next_time("30 3 * * *", "Europe/Berlin")
    assert (moment.hour, moment.minute) == (3, 30)
    assert moment.utcoffset() in (timedelta(hours=1), timedelta(hours=2))
    assert moment > datetime.now(UTC)


@pytest.mark.parametrize(
    "cron",
    ["", "x", "0 25 * * *", "0 3 30 2 *", "H 3 * * *", "0 3 * *", "0 0 3 * * *", "* * * * * *", "0 3 * * * * * *"],
)
def test_what_is_no_time_is_refused(cron):
    with pytest.raises(BadInput, match="Expected five fields"):
        next_time(cron, "UTC")


@pytest.mark.parametrize("timezone", ["", " ", "Mars/Olympus"])
def test_what_is_no_time_zone_is_refused(timezone):
    with pytest.raises(BadInput, match=f"such as Europe/Berlin with --timezone, got '{timezone}'"):
        next_time("0 3 * * *", timezone)


def test_a_nickname_is_a_time():
    assert next_time("@daily", "UTC").hour == 0


def test_why_a_run_was_started():
    assert cause(SimpleNamespace(tags=["aucflow", DATA_CHANGED], auto_scheduled=False)) == "the data have changed"
    assert cause(SimpleNamespace(tags=[], auto_scheduled=True)) == "by schedule"
    assert cause(SimpleNamespace(tags=[], auto_scheduled=False)) == "by hand"
