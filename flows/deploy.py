"""`aucflow deploy`: when a model is retrained, kept by a Prefect server; and the flow that is started then."""

from pathlib import Path
from typing import Any

from prefect import flow
from prefect.states import Completed, State
from rich.console import Console

from flows.waiting import waiting
from tasks.configuration import FROM_AFAR
from tasks.errors import BadInput, without_password
from tasks.flow_runs import AS_TEXT, claim_flow_run
from tasks.log import run_logger
from tasks.retraining import RetrainConfig, load_retrain_config
from tasks.scheduler import FLOW, Deployment, deploy, next_time, open_scheduler


@flow(name=FLOW, **AS_TEXT)
def scheduled_retrain(config: str, force: bool = False) -> State[Any]:
    """Retrain by a config, which is read anew: the path of its file, or the name of a shipped one."""
    from flows.retrain import retrain
    from flows.start import recover
    from tasks.store import check_store, ledger_place, shown_uri

    claim_flow_run()
    check_store()
    # where a run is wrong that Prefect started in another folder, in that of a deployment's source, say
    run_logger().info("store %s, ledger %s", shown_uri(), ledger_place())
    recover()
    outcome = retrain.fn(load_retrain_config(config), force)
    name = "Completed" if outcome.version is not None else "Skipped"
    return Completed(name=name, message=outcome.reason)


def deploy_command(config: str, cron: str | None, timezone: str, on_change: bool, name: str | None) -> None:
    """Check all that was asked for, then create or update the deployment and say when it runs."""
    from flows.signals import stoppable

    retraining = load_retrain_config(config)
    wanted = make_deployment(config, retraining, cron, timezone, on_change, name)
    moment = next_time(cron, timezone) if cron else None
    with stoppable(), waiting("telling Prefect"), open_scheduler() as (server, client):
        deploy(client, wanted, scheduled_retrain.parameters.model_dump(), scheduled_retrain.version)
        elsewhere = "" if server.process else f", with PREFECT_API_URL={without_password(server.url)}"
    console = Console()
    if moment is not None:
        console.print(f"{wanted.name}   {cron} ({timezone}), next {moment:%Y-%m-%d %H:%M}", highlight=False)
    if on_change:
        console.print(f"{wanted.name}   whenever {retraining.data.source} changes", highlight=False, soft_wrap=True)
    console.print(f"start it with   aucflow serve{elsewhere}", highlight=False, soft_wrap=True)


def make_deployment(
    config: str, retraining: RetrainConfig, cron: str | None, timezone: str, on_change: bool, name: str | None
) -> Deployment:
    """Return what is to be deployed, or refuse what could never start."""
    if not cron and not on_change:
        raise BadInput("Expected --cron, --on-change or both, got neither. Say when to retrain: --cron '0 3 * * *'.")
    if timezone != "UTC" and not cron:
        raise BadInput(
            f"Expected --cron with --timezone, got --timezone {timezone} alone. Add --cron, or leave it out."
        )
    source = retraining.data.source
    if on_change and source.startswith(FROM_AFAR):
        raise BadInput(f"Expected a file of this machine with --on-change, got {source}. Take --cron instead.")
    path = Path(config).expanduser()
    where = str(path.resolve()) if path.is_file() else config
    name = name or retraining.model
    if not name.strip() or set(name) & set("/%&<>"):
        raise BadInput(f"Expected a name without /, %, &, < and > with --name, got '{name}'. Change it.")
    return Deployment(name, where, cron, timezone, on_change)
