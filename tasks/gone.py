"""Gone: runs that were removed from the store on purpose, by a policy say, and somebody's word for it in the ledger."""

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from tasks.errors import BadInput
from tasks.ledger import Ledger
from tasks.manifests import SHORTEST
from tasks.store import mlflow_command


def acknowledge(client: MlflowClient, ledger: Ledger, text: str, reason: str) -> tuple[str, ...]:
    """Note that a run that the store has no more was meant to go, and its cells if they went too; return their ids.

    ``text`` is its id, or the first six letters of it or more. What the ledger told of it stays.

    Raises
    ------
    BadInput
        If the ledger tells of no such run, or of several, or the store has it still, or nothing is left to note.
    """
    told = ledger.last_of_runs()
    meant = [run_id for run_id in told if run_id.startswith(text)] if len(text) >= SHORTEST else []
    if len(meant) != 1:
        raise BadInput(
            f"Expected the id of a run, at least {SHORTEST} letters of it, as `aucflow audit verify` names it, got "
            f"'{text}', with which {len(meant) or 'none'} begin{'s' * (not meant)}. (A model is settled --to ledger or "
            "--to registry.)"
        )
    if _is_there(client, meant[0]):
        raise BadInput(
            f"Expected a run that the store has no more, got {meant[0]}, which is there. Remove it first: "
            f"`{mlflow_command()} runs delete --run-id {meant[0]}`, then `{mlflow_command()} gc`."
        )
    cells = [run_id for run_id, entry in told.items() if entry.data.get("parent") == meant[0]]
    known = ledger.gone_runs()
    gone = tuple(one for one in (*meant, *cells) if one not in known and not _is_there(client, one))
    if not gone:
        raise BadInput(f"Expected a run that is yet to be settled, got {meant[0]}: entry {known[meant[0]].seq} did.")
    for run_id in gone:
        ledger.append("settle", run_id, reason, {"exists": False})
    return gone


def _is_there(client: MlflowClient, run_id: str) -> bool:
    try:
        client.get_run(run_id)
    except MlflowException as error:
        if error.error_code == "RESOURCE_DOES_NOT_EXIST":
            return False
        raise
    return True
