"""What is in the store: the runs that `aucflow list runs` shows."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from mlflow import MlflowClient
from mlflow.entities import Run


@dataclass(frozen=True)
class RunRow:
    """One run as a line of text; a parent comes before its children, the newest parent first."""

    started: str
    experiment: str
    name: str
    status: str
    auc: str
    gmean: str


def list_runs(client: MlflowClient, most: int = 200) -> Iterator[RunRow]:
    """Yield the newest runs of every experiment."""
    experiments = {e.experiment_id: e.name for e in client.search_experiments()}
    if not experiments:
        return
    runs = client.search_runs(list(experiments), max_results=most, order_by=["attributes.start_time DESC"])
    children: dict[str, list[Run]] = {}
    for run in reversed(runs):
        children.setdefault(run.data.tags.get("mlflow.parentRunId", ""), []).append(run)
    for parent in reversed(children.pop("", [])):
        yield _row(parent, experiments, "")
        for child in children.get(parent.info.run_id, []):
            yield _row(child, experiments, "  ")


def _row(run: Run, experiments: dict[str, str], indent: str) -> RunRow:
    metrics = run.data.metrics
    return RunRow(
        started=datetime.fromtimestamp(run.info.start_time / 1000, UTC).strftime("%Y-%m-%d %H:%M"),
        experiment=experiments[run.info.experiment_id],
        name=f"{indent}{run.info.run_name}",
        status=run.info.status,
        auc=_number(metrics.get("test_auc_mean")),
        gmean=_number(metrics.get("test_gmean_mean")),
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.4f}"
