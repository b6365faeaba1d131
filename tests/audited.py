"""A small store with runs, a model with versions, and a ledger that knows them all: what an auditor comes to see."""

import os
import shutil
import sqlite3
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from prefect import Task

from tasks import store
from tasks.configuration import parse_config
from tasks.ledger import Ledger
from tasks.registry import register_and_promote

MODEL = "claims"
ADDRESS = "MLFLOW_TRACKING_URI"
METHODS = ({"solver": "ls_svm", "params": {"lam": 0.1}}, {"solver": "ls_svm", "sampler": "u1", "params": {"lam": 0.1}})


@dataclass(frozen=True)
class Audited:
    """A folder that `aucflow` was used in, the current one while a test looks at it."""

    folder: Path
    runs: dict[str, str]  # run name -> id

    @property
    def client(self) -> MlflowClient:
        return MlflowClient(store.tracking_uri())

    @property
    def ledger(self) -> Ledger:
        return store.ledger()


def claims(path: Path, seed: int = 3, n: int = 120) -> None:
    """Write a user's table: numbers, words, and one positive in four."""
    rng = np.random.default_rng(seed)
    fraud = np.arange(n) % 4 == 0
    amount = rng.normal(100, 30, n) + 60 * fraud
    shop = rng.choice(["north", "south"], n)
    pd.DataFrame({"amount": amount, "shop": shop, "fraud": np.where(fraud, "yes", "no")}).to_csv(path, index=False)


def experiment(data: Path, name: str = "claims", methods: tuple = METHODS) -> None:
    """Run an experiment in the current folder as `aucflow run` does, but for Prefect's server."""
    from flows.experiment import run_experiment

    tree = {
        "name": name,
        "datasets": [{"source": str(data), "target": "fraud", "name": "claims"}],
        "methods": list(methods),
        "validation": {"folds": 2, "inner_folds": 2},
    }
    with patch.object(Task, "__call__", lambda task, *given, **named: task.fn(*given, **named)):
        run_experiment.fn(parse_config(tree, "test"))


def overtaken_experiment(data: Path, name: str, newer: int) -> None:
    """Run an experiment that is slow: its data are replaced once it has read them, and a run of the newer ends first.

    ``newer`` is the seed of the newer data.
    """
    from flows import experiment as flow

    real = flow.run_method

    def wait(*given, **named):
        flow.run_method = real
        claims(data, seed=newer)
        experiment(data, name="newer", methods=METHODS[:1])
        return real(*given, **named)

    with patch.object(flow, "run_method", wait):
        experiment(data, name)


def run_ids(client: MlflowClient) -> dict[str, str]:
    """Return the ids of all runs by their names."""
    experiments = [one.experiment_id for one in client.search_experiments()]
    return {run.info.run_name: run.info.run_id for run in client.search_runs(experiments)}


def register(
    audited: Audited, run_name: str, promote: bool = True, against: int | None = None, model: str = MODEL
) -> None:
    """Make a run's model a version of the model, as a retraining does."""
    entry = next(e for e in audited.ledger.entries() if e.subject == audited.runs[run_name])
    facts = {"manifest_sha256": entry.data["manifest_sha256"]}
    decision = {"promote": promote, "reason": "every rule passed", "judged": [JUDGED]}
    reason = "every rule passed" if promote else "the AUC is lower"
    run_id = audited.runs[run_name]
    register_and_promote(
        audited.client, audited.ledger, model, run_id, decision, reason, promote, facts, against=against
    )


JUDGED = {"rule": "min_auc", "passed": True, "value": 0.91, "limit": 0.6, "reason": "AUC 0.91, at least 0.6 asked for"}


@contextmanager
def inside(folder: Path):
    """Work in a folder, and come back; MLflow leaves its store's address in the environment."""
    before = Path.cwd()
    os.chdir(folder)
    kept = os.environ.pop(ADDRESS, None)
    try:
        yield
    finally:
        os.chdir(before)
        os.environ.pop(ADDRESS, None)
        if kept is not None:
            os.environ[ADDRESS] = kept


def make(folder: Path) -> Audited:
    """Run, register and promote in a folder: two cells, two versions, the second one the champion."""
    folder.mkdir(exist_ok=True)
    with inside(folder):
        claims(folder / "claims.csv")
        experiment(folder / "claims.csv")
        audited = Audited(folder, run_ids(MlflowClient(store.tracking_uri())))
        register(audited, "claims ls_svm")
        register(audited, "claims u1+ls_svm", against=1)
    return audited


def forget(audited: Audited, run_id: str) -> None:
    """Take a run out of the store, as somebody with the database before them does."""
    with closing(sqlite3.connect(audited.folder / "mlruns" / "mlflow.db")) as database, database:
        database.execute("DELETE FROM runs WHERE run_uuid = ?", (run_id,))


def restore(folder, copy):
    """Bring back every file in its place, and no other folder: MLflow holds the database open."""
    kept = {path.relative_to(copy) for path in copy.rglob("*") if path.is_file()}
    for path in [path for path in folder.rglob("*") if path.is_file() and path.relative_to(folder) not in kept]:
        path.unlink()
    for path in sorted((path for path in folder.rglob("*") if path.is_dir()), reverse=True):  # what is inside first
        if not (copy / path.relative_to(folder)).is_dir():
            path.rmdir()
    for name in kept:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name.name == "mlflow.db":
            with closing(sqlite3.connect(copy / name)) as source, closing(sqlite3.connect(folder / name)) as target:
                source.backup(target)
        elif not (folder / name).is_file() or (folder / name).read_bytes() != (copy / name).read_bytes():
            shutil.copyfile(copy / name, folder / name)
