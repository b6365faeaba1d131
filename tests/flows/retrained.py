"""A user's table that grows, and a retraining in the current folder as `aucflow retrain` does it, without a server."""

import functools
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.entities import Run
from prefect import Task

from tasks import models, plots, store
from tasks.ledger import Ledger
from tasks.recovery import PROCESS
from tasks.registry import PREFIX, TRANSACTION, Version, pending, register_and_promote, versions
from tasks.retraining import RetrainConfig

MODEL = "claims"


def claims(n: int = 240, seed: int = 7) -> pd.DataFrame:
    """Return the first n rows of a table that grows: numbers, words, and one positive in four."""
    rng = np.random.default_rng(seed)
    rows = 2000
    fraud = np.arange(rows) % 4 == 0
    table = pd.DataFrame(
        {
            "amount": rng.normal(100, 30, rows).round(2) + 50 * fraud,
            "age": rng.integers(18, 90, rows),
            "shop": rng.choice(["north", "south", "west"], rows),
            "fraud": np.where(fraud, "yes", "no"),
        }
    )
    return table[:n].copy()


def write(table: pd.DataFrame, path: Path = Path("claims.csv")) -> Path:
    table.to_csv(path, index=False)
    return path


def config(path: Path = Path("claims.csv"), model: str = MODEL, **changes) -> RetrainConfig:
    """Return a config whose model is trained in a second."""
    tree = {
        "model": model,
        "data": {"source": str(path), "target": "fraud", "positive": "yes", "name": "claims"},
        "method": {"solver": "ls_svm", "params": {"lam": 0.1}},
        "validation": {"folds": 2, "inner_folds": 2},
        "rules": {"min_positives": 5},
    }
    return RetrainConfig.model_validate(tree | changes)


@contextmanager
def cheaply(drawn: bool = False):
    """Run stages as plain functions, look through the installed packages once and, unless asked for, draw nothing."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(Task, "__call__", lambda task, *given, **named: task.fn(*given, **named)))
        once = functools.cache(models.packages_distributions)
        stack.enter_context(patch.object(models, "packages_distributions", once))
        if not drawn:
            stack.enter_context(patch.object(plots, "png_bytes", lambda figure: b"no picture"))
        yield


def retrain(wanted: RetrainConfig, drawn: bool = False, **options):
    """Retrain in the current folder."""
    from flows.retrain import retrain as flow

    with cheaply(drawn):
        return flow.fn(wanted, **options)


def crown(model: str, like: Version, against: int | None = None) -> Version:
    """Make the run of a version the champion of another model, as if it had been trained for that."""
    client = MlflowClient(store.tracking_uri())
    tags = {name.removeprefix(PREFIX): value for name, value in like.tags.items()}
    facts = {name: tags[name] for name in ("data_sha256", "config_sha256", "package_sha256", "manifest_sha256")}
    decision = {"promote": True}
    return register_and_promote(client, store.ledger(), model, like.run_id, decision, "as if", True, facts, against)


def all_runs(client: MlflowClient) -> list[Run]:
    experiments = [one.experiment_id for one in client.search_experiments()]
    return list(client.search_runs(experiments, max_results=1000)) if experiments else []


def open_runs(client: MlflowClient) -> list[Run]:
    return [run for run in all_runs(client) if run.info.status == "RUNNING"]


def unfounded(client: MlflowClient, ledger: Ledger) -> list[str]:
    """Return what the store claims and the ledger does not: ends of runs, and versions that no change is at."""
    entries, intent = ledger.entries(), pending(ledger)
    told = {(e.subject, e.data["status"], e.data["end_time"]) for e in entries if e.kind == "run"}
    runs = [run for run in all_runs(client) if run.info.status != "RUNNING" or PROCESS not in run.data.tags]
    found = [
        f"run {run.info.run_name} is {run.info.status}"
        for run in runs
        if (run.info.run_id, run.info.status, run.info.end_time) not in told
    ]
    registered = {entry.subject for entry in entries if entry.kind == "register"}
    for model in client.search_registered_models():
        for version in versions(client, model.name):
            under_way = intent and intent.transaction == version.tags.get(TRANSACTION) and not version.aliases
            if f"{model.name}/{version.number}" not in registered and not under_way:
                found.append(f"version {model.name}/{version.number} is {version.aliases}")
    return found
