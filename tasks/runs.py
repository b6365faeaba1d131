"""What is in the store: its runs, and those that `aucflow list runs` shows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Experiment, Run, ViewType

PARENT = "mlflow.parentRunId"  # the tag by which MLflow knows a run's parent
MOST = 100


@dataclass(frozen=True)
class RunRow:
    """One run as a line of text; a parent comes before its children, the newest parent first."""

    run_id: str
    started: str
    experiment: str
    name: str
    status: str
    auc: str
    gmean: str


def list_runs(client: MlflowClient, most: int = MOST) -> Iterator[RunRow]:
    """Yield the newest runs of all experiments: so many that have no parent, each with its children."""
    experiments = {one.experiment_id: one.name for one in all_experiments(client)}
    children: dict[str, list[Run]] = {}
    listed = 0
    for run in newest_first(client, list(experiments)):
        parent = run.data.tags.get(PARENT)
        if parent is not None:
            children.setdefault(parent, []).append(run)
            continue
        yield _row(run, experiments, "")
        for child in reversed(children.pop(run.info.run_id, [])):  # a run begins before its children
            yield _row(child, experiments, "  ")
        listed += 1
        if listed == most:
            return


def all_experiments(client: MlflowClient, view: int = ViewType.ACTIVE_ONLY) -> Iterator[Experiment]:
    """Yield the experiments of a store, which may be shared by many, a page at a time."""
    yield from all_pages(client.search_experiments, view_type=view)


def newest_first(client: MlflowClient, experiments: list[str]) -> Iterator[Run]:
    """Yield all runs of these experiments, a page at a time, the one that began last first."""
    if experiments:
        yield from all_pages(client.search_runs, experiments, max_results=500, order_by=["attributes.start_time DESC"])


def all_pages(search: Callable[..., Any], *arguments: Any, **options: Any) -> Iterator[Any]:
    """Yield everything that one of MLflow's searches finds, a page at a time."""
    token = None
    while True:
        page = search(*arguments, **options, page_token=token)
        yield from page
        if not (token := page.token):
            return


def _row(run: Run, experiments: dict[str, str], indent: str) -> RunRow:
    metrics = run.data.metrics
    return RunRow(
        run_id=run.info.run_id,
        started=datetime.fromtimestamp(run.info.start_time / 1000, UTC).strftime("%Y-%m-%d %H:%M"),
        experiment=experiments[run.info.experiment_id],
        name=f"{indent}{run.info.run_name}",
        status=run.info.status,
        auc=_number(metrics.get("test_auc_mean")),
        gmean=_number(metrics.get("test_gmean_mean")),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
