"""The scheduler: a Prefect server, what is deployed on it from this folder, and the runs that are due.

Without PREFECT_API_URL there is no server to talk to, only Prefect's database in PREFECT_HOME. A server of our own on
it then lives as long as the command: `aucflow deploy` writes what `aucflow serve` reads.
"""

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import Any
from uuid import UUID

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterTags,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterDeploymentId,
    FlowRunFilterTags,
)
from prefect.client.schemas.objects import FlowRun, State
from prefect.client.schemas.responses import DeploymentResponse, FlowRunResponse, SetStateStatus
from prefect.client.schemas.schedules import CronSchedule
from prefect.client.schemas.sorting import DeploymentSort, FlowRunSort
from prefect.exceptions import ObjectNotFound
from prefect.server.schemas.schedules import CronSchedule as Dates
from prefect.states import Cancelled, Pending

from tasks.errors import BadInput
from tasks.flow_runs import claim_for_this_process
from tasks.prefect_server import PrefectServer, server_of_a_block

FLOW = "scheduled-retrain"
ENTRYPOINT = "flows.deploy.scheduled_retrain"  # a module of the installed package, wherever it is started from
IN_FOLDER = "prefect.deployments.steps.set_working_directory"
OURS = "aucflow"
ON_CHANGE = "on change of data"  # of a deployment: its data file is watched
DATA_CHANGED = "data changed"  # of a run: that is why it was started
DATA_SHA256 = "aucflow.raw_sha256"

MOST = 200  # deployments that a server tells of at a time


@dataclass(frozen=True)
class Deployment:
    """What is retrained, and when."""

    name: str
    config: str  # a path, or the name of a shipped one
    cron: str | None
    timezone: str
    on_change: bool


@dataclass(frozen=True)
class Deployed(Deployment):
    """The same as Prefect knows it."""

    id: UUID


@contextmanager
def open_scheduler() -> Iterator[tuple[PrefectServer, SyncPrefectClient]]:
    """Talk to the server that PREFECT_API_URL names, else to one that lives as long as the block."""
    with server_of_a_block() as server:
        server.wait()
        with SyncPrefectClient(server.url) as client:
            yield server, client


# What is deployed -------------------------------------------------------------------------------------------------


def next_time(cron: str, timezone: str) -> datetime:
    """Return when a cron expression is met next; raise BadInput if it is none, or never is."""
    try:
        if not timezone.strip():
            raise ValueError("an empty name, which would be UTC")
        CronSchedule(cron="0 0 * * *", timezone=timezone)
    except ValueError:
        raise BadInput(
            f"Expected a time zone such as Europe/Berlin with --timezone, got '{timezone}'. Change it, or leave it out "
            "for UTC."
        ) from None
    try:
        if len(cron.split()) != 5 and not cron.strip().startswith("@"):
            raise ValueError("a sixth field, which would be seconds, or too few")
        (moment,) = asyncio.run(Dates(cron=cron, timezone=timezone).get_dates(1))
    except ValueError:
        raise BadInput(
            "Expected five fields with --cron (minute 0-59, hour 0-23, day 1-31, month 1-12, weekday 0-7: '0 3 * * *' "
            f"is daily at 3:00), got '{cron}', which is no time. Change it."
        ) from None
    return moment


def deploy(client: SyncPrefectClient, wanted: Deployment, schema: Mapping[str, Any], version: str | None) -> UUID:
    """Create a deployment of this folder, or bring the one of this name up to date; ``schema`` is the flow's.

    Raises
    ------
    BadInput
        If the name is that of another folder's deployment, or of one for a work pool: these would start no more.
    """
    _refuse_anothers(client, wanted.name)
    cron = [CronSchedule(cron=wanted.cron, timezone=wanted.timezone)] if wanted.cron else []
    return client.create_deployment(
        client.create_flow_from_name(FLOW),
        wanted.name,
        version=version,
        schedules=[DeploymentScheduleCreate(schedule=schedule, active=True) for schedule in cron],
        parameters={"config": wanted.config},
        description=f"Retrains by {wanted.config}",
        tags=[OURS, *([ON_CHANGE] if wanted.on_change else [])],
        entrypoint=ENTRYPOINT,
        parameter_openapi_schema=dict(schema),
        enforce_parameter_schema=True,
        pull_steps=[{IN_FOLDER: {"directory": str(Path.cwd())}}],
    )


def _refuse_anothers(client: SyncPrefectClient, name: str) -> None:
    try:
        found = client.read_deployment_by_name(f"{FLOW}/{name}")
    except ObjectNotFound:
        return
    if found.work_pool_name is not None or _folder(found) != str(Path.cwd()):
        of = f"the work pool {found.work_pool_name}" if found.work_pool_name else f"the folder {_folder(found)}"
        raise BadInput(
            f"Expected a name that is free, got '{name}', which is deployed for {of}. Choose another with --name, or "
            f"remove that one: prefect deployment delete '{FLOW}/{name}'."
        )


def deployments(client: SyncPrefectClient) -> tuple[Deployed, ...]:
    """Return what was deployed from this folder and is not paused."""
    found = client.read_deployments(
        flow_filter=FlowFilter(name=FlowFilterName(any_=[FLOW])),
        deployment_filter=DeploymentFilter(tags=DeploymentFilterTags(all_=[OURS])),
        sort=DeploymentSort.NAME_ASC,
        limit=MOST,
    )
    here = [one for one in found if one.work_pool_name is None and _folder(one) == str(Path.cwd())]
    return tuple(_as_deployed(one) for one in here if not one.paused)


def _folder(deployment: DeploymentResponse) -> str | None:
    steps = [step[IN_FOLDER] for step in deployment.pull_steps or () if IN_FOLDER in step]
    return steps[0]["directory"] if steps else None


def _as_deployed(found: DeploymentResponse) -> Deployed:
    crons = [one.schedule for one in found.schedules if one.active and isinstance(one.schedule, CronSchedule)]
    cron, timezone = (crons[0].cron, crons[0].timezone or "UTC") if crons else (None, "UTC")
    return Deployed(found.name, found.parameters["config"], cron, timezone, ON_CHANGE in found.tags, found.id)


# What is due ------------------------------------------------------------------------------------------------------


def due_runs(client: SyncPrefectClient, deployed: tuple[Deployed, ...]) -> tuple[FlowRunResponse, ...]:
    """Return the runs whose time has come; of several of a deployment that do the same, the last stands for all.

    One that was started by hand with parameters of its own does something else.
    """
    if not deployed:
        return ()
    found = client.get_scheduled_flow_runs_for_deployments([d.id for d in deployed], datetime.now(UTC))
    last: dict[tuple[UUID | None, str], FlowRunResponse] = {}
    for run in sorted(found, key=attrgetter("next_scheduled_start_time")):
        same = run.deployment_id, json.dumps(run.parameters, sort_keys=True, default=str)
        if same in last:
            missed: State = Cancelled(message="Its time passed while nothing ran; a later run does the same.")
            client.set_flow_run_state(last[same].id, missed)
        last[same] = run
    return tuple(last.values())


def take(client: SyncPrefectClient, run: FlowRunResponse) -> bool:
    """Take a run that is due; tell whether it was nobody else's yet."""
    claim_for_this_process(client, run.id)
    return client.set_flow_run_state(run.id, Pending()).status == SetStateStatus.ACCEPT


def start_for(client: SyncPrefectClient, deployment: Deployed, sha256: str) -> None:
    """Have a deployment run now, for its data have changed."""
    client.create_flow_run_from_deployment(deployment.id, tags=[DATA_CHANGED], labels={DATA_SHA256: sha256})


def started_for(client: SyncPrefectClient, deployment: Deployed) -> str | None:
    """Return the digest of the data that the last such run was started for."""
    runs = client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            deployment_id=FlowRunFilterDeploymentId(any_=[deployment.id]),
            tags=FlowRunFilterTags(all_=[DATA_CHANGED]),
        ),
        sort=FlowRunSort.EXPECTED_START_TIME_DESC,
        limit=1,
    )
    told = runs[0].labels.get(DATA_SHA256) if runs else None
    return told if isinstance(told, str) else None


def cause(run: FlowRun | FlowRunResponse) -> str:
    """Say in words why a run was started."""
    if DATA_CHANGED in run.tags:
        return "the data have changed"
    return "by schedule" if run.auto_scheduled else "by hand"
