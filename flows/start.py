"""Start: what comes before every flow, and what a command that was killed left behind."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from rich.console import Console

from tasks.configuration import ExperimentConfig
from tasks.progress import announce


@contextmanager
def ready(experiment: ExperimentConfig, module: str) -> Iterator[Any]:
    """Check the data, import a flow's module while Prefect starts, check and mend the store; yield the module."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.preflight import preflight
    from tasks.prefect_server import server_of_this_process

    for sentence in preflight(experiment):
        _say(sentence)
    announce("start", "Prefect and MLflow")
    server = server_of_this_process()
    flow = import_module(module)
    from tasks.store import check_store

    check_store()
    recover()
    server.wait()
    with temporary_settings({PREFECT_API_URL: server.url}):
        recover_flow_runs()
        yield flow


def recover() -> None:
    """Bring to an end what a killed command left behind in the store, and say so."""
    from tasks import registry, store
    from tasks.recovery import end_interrupted_runs

    if not store.exists():
        return
    store.reader()
    client, ledger = store.open_store(), store.ledger()
    ledger.mend()  # before hours of training, which it would refuse to note
    for sentence in (*end_interrupted_runs(client, ledger), *registry.recover(client, ledger)):
        _say(sentence)


def recover_flow_runs() -> None:
    """Bring to an end in Prefect what a killed command left open there, and say so."""
    from prefect.client.orchestration import get_client

    from tasks.flow_runs import end_interrupted_flow_runs

    with get_client(sync_client=True) as client:
        for sentence in end_interrupted_flow_runs(client):
            _say(sentence)


def _say(sentence: str) -> None:
    Console(stderr=True).print(f"aucflow: {sentence}", highlight=False, soft_wrap=True)
