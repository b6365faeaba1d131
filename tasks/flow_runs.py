"""Prefect's flow runs: which process each belongs to, and the end of those whose process is gone.

A process that is killed cannot tell Prefect how its run ended, so the run would stay "Running" for good. Each of ours
therefore says at its start whose it is, and the next command ends what nobody works on.
"""

from typing import Any
from uuid import UUID

from prefect import runtime
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterId, FlowRunFilterState, FlowRunFilterStateType
from prefect.client.schemas.objects import FlowRun, State, StateType
from prefect.client.schemas.sorting import FlowRunSort, TaskRunSort
from prefect.states import Crashed

from tasks.recovery import PROCESS, is_gone, this_process

OPEN = (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)
MOST = 200  # that a server gives at a time
# The exception of a flow that failed Prefect writes to a file in its home whatever is asked for, with all that hangs on
# it: as text it is type and message, as a pickle every model of the run
AS_TEXT: dict[str, Any] = {"persist_result": False, "result_serializer": "json"}
GONE = "Its process ended without saying how."


def claim_flow_run() -> None:
    """Say that the flow run around this call belongs to this process."""
    run_id = runtime.flow_run.id
    if run_id is not None:
        with get_client(sync_client=True) as client:
            claim_for_this_process(client, UUID(run_id))


def claim_for_this_process(client: SyncPrefectClient, run_id: UUID) -> None:
    """Say that a flow run belongs to this process, until another says the same of itself."""
    client.update_flow_run_labels(run_id, {PROCESS: this_process()})


def end_interrupted_flow_runs(client: SyncPrefectClient) -> tuple[str, ...]:
    """Mark the open runs of processes of this host that are gone as crashed; return a sentence for each."""
    told = []
    for run in client.read_flow_runs(flow_run_filter=_in_states(OPEN), sort=FlowRunSort.START_TIME_DESC, limit=MOST):
        if is_gone(str(run.labels.get(PROCESS, ""))):
            crash(client, run, GONE)
            told.append(f"Prefect's flow run {run.name} was interrupted: it is marked Crashed")
    return tuple(told)


def crash(client: SyncPrefectClient, run: FlowRun, reason: str) -> State:
    """Mark a run and what is open of its tasks as crashed; return the run's state."""
    same = FlowRunFilter(id=FlowRunFilterId(any_=[run.id]))
    for task in client.read_task_runs(flow_run_filter=same, sort=TaskRunSort.EXPECTED_START_TIME_DESC, limit=MOST):
        if task.state is not None and not task.state.is_final():
            client.set_task_run_state(task.id, Crashed(message=reason), force=True)
    state: State = Crashed(message=reason)
    client.set_flow_run_state(run.id, state, force=True)
    return state


def _in_states(types: tuple[StateType, ...]) -> FlowRunFilter:
    return FlowRunFilter(state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(types))))
