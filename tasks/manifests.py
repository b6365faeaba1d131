"""Manifests read back: which run a text names, the manifest of that run, and what the ledger says of it.

Nothing here trusts what it reads. A manifest comes as bytes, with the digest of just these; whether they are those that
the run wrote is for the ledger to say. The words that `tasks.manifest` writes and an auditor compares are here as well:
an auditor waits for no library of the solvers'.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Run
from mlflow.exceptions import MlflowException

from tasks.errors import BadInput, nearest
from tasks.ledger import Ledger, LedgerEntry
from tasks.runs import PARENT, all_experiments, newest_first
from tasks.store import artifact_folder, existing, ledger, mlflow_command

SCHEMA = "aucflow-manifest/1"
FILE = "lineage.json"
SIGNATURE = f"{FILE}.sig"
COMMON: dict[str, type] = {"run": dict, "config": dict, "store": dict, "code": dict, "environment": dict}
PARTS = {
    "run": COMMON | {"data": dict, "splits": list, "method": dict, "folds": list},
    "experiment": COMMON | {"data": list, "cells": list},
}
CELL = ("dataset", "method", "run_id", "manifest_sha256")
SHORTEST = 6  # characters of an id that name a run
MOST_NAMED = 3  # runs that an error lists


class BadManifest(BadInput):
    """What stands where a manifest should is none."""


@dataclass(frozen=True)
class Manifest:
    """A manifest as it was found: its contents, the digest of its bytes, and where it lay."""

    content: dict[str, Any]
    sha256: str
    folder: str  # the artifacts' address, or the folder of the file
    recorded: str | None = None  # the digest in the ledger's entry of the run; None if the ledger has none

    @property
    def run_id(self) -> str:
        return self.content["run"]["run_id"]

    @property
    def name(self) -> str:
        return self.content["run"]["name"]

    @property
    def is_experiment(self) -> bool:
        return self.content["kind"] == "experiment"

    @property
    def is_changed(self) -> bool:
        """Tell whether it is another one than the ledger recorded; of one that it does not know it cannot be said."""
        return self.recorded not in (None, self.sha256)


# Runs -------------------------------------------------------------------------------------------------------------


def find_run(client: MlflowClient, text: str) -> Run:
    """Return the run with this id, or the only one whose id begins so, or one by its name.

    Names are those of the newest experiment's runs, and those of experiments, which mean their newest run.

    Raises
    ------
    BadInput
        If no run is meant, or more than one.
    """
    if not text.strip():
        raise BadInput("Expected a run's id or name, got an empty text. `aucflow list runs` shows the runs.")
    return _by_id(client, text) or _by_prefix(client, text) or _by_name(client, text)


def _by_id(client: MlflowClient, text: str) -> Run | None:
    if not re.fullmatch(r"[0-9a-f]{32}", text):
        return None
    try:
        return client.get_run(text)
    except MlflowException:
        return None


def _by_prefix(client: MlflowClient, text: str) -> Run | None:
    if not re.fullmatch(rf"[0-9a-f]{{{SHORTEST},31}}", text):
        return None
    found = client.search_runs(_experiments(client), f"attributes.run_id LIKE '{text}%'", max_results=1000)
    if len(found) > 1:
        some = ", ".join(f"{run.info.run_id[: len(text) + 4]}… ({run.info.run_name})" for run in found[:MOST_NAMED])
        raise BadInput(f"Expected the id of one run, got '{text}', with which {len(found)} begin: {some}. Add letters.")
    return found[0] if found else None


def _by_name(client: MlflowClient, text: str) -> Run:
    newest = _newest_parent(client, _experiments(client))
    family = [] if newest is None else [newest, *children(client, newest)]
    found = [run for run in family if run.info.run_name == text]
    if len(found) > 1:
        ids = ", ".join(run.info.run_id[:8] for run in found[:MOST_NAMED])
        raise BadInput(f"Expected the name of one run, got '{text}', which {len(found)} have: {ids}. Name it by id.")
    if found:
        return found[0]
    experiment = client.get_experiment_by_name(text)
    run = None if experiment is None else _newest_parent(client, [experiment.experiment_id])
    if run is not None:
        return run
    if experiment is not None:
        is_active = experiment.lifecycle_stage == "active"
        whole = f"experiments restore -x {experiment.experiment_id}` brings it back."
        one = "runs restore --run-id ID` brings one back, by its id in the ledger."
        raise BadInput(
            f"Expected an experiment with runs, got '{text}', which {'has none, or only deleted ones' * is_active}"
            f"{'is deleted' * (not is_active)}: `{mlflow_command()} {one if is_active else whole}"
        )
    names = [run.info.run_name for run in family] + [one.name for one in all_experiments(client)]
    raise BadInput(
        f"Expected a run's id, at least {SHORTEST} letters of it, a name in the newest experiment, or an experiment's "
        f"name; found no '{text}'.{nearest(text, names) or ' `aucflow list runs` shows the runs.'}"
    )


def children(client: MlflowClient, parent: Run) -> list[Run]:
    """Return an experiment run's cells, in the order in which they were begun."""
    query = f"tags.`{PARENT}` = '{parent.info.run_id}'"
    order = ["attributes.start_time ASC"]
    return list(client.search_runs([parent.info.experiment_id], query, max_results=10_000, order_by=order))


def _experiments(client: MlflowClient) -> list[str]:
    return [experiment.experiment_id for experiment in all_experiments(client)]


def _newest_parent(client: MlflowClient, experiments: list[str]) -> Run | None:
    """Return the run that began last of those that have no parent."""
    return next((run for run in newest_first(client, experiments) if PARENT not in run.data.tags), None)


# Manifests --------------------------------------------------------------------------------------------------------


def find_manifest(text: str) -> Manifest:
    """Return the manifest that a path to a lineage.json names, or that of the run which the text means."""
    path = Path(text).expanduser()
    if path.suffix == ".json":
        content, digest = read_manifest_file(path)
        return Manifest(content, digest, str(path.parent), recorded_sha256(ledger(), content["run"]["run_id"]))
    client = existing()
    return manifest_of(client, find_run(client, text))


def manifest_of(client: MlflowClient, run: Run) -> Manifest:
    """Return a run's manifest with what the ledger says of it."""
    content, digest = read_manifest(client, run.info.run_id)
    return Manifest(content, digest, run.info.artifact_uri, recorded_sha256(ledger(), run.info.run_id))


def cells_of(manifest: Manifest) -> tuple[Manifest | BadInput, ...]:
    """Return the manifests of an experiment's cells, each with the digest that the experiment's own keeps of it.

    In place of one that cannot be had stands the error that says why.
    """
    return tuple(_cell(one) for one in manifest.content.get("cells", ()))


def _cell(listed: dict[str, Any]) -> Manifest | BadInput:
    client = existing()
    try:
        found = manifest_of(client, find_run(client, listed["run_id"]))
    except BadInput as error:
        return error
    return found if found.is_changed else replace(found, recorded=listed["manifest_sha256"])


def read_manifest(client: MlflowClient, run_id: str) -> tuple[dict[str, Any], str]:
    """Return a run's manifest and the digest of its bytes.

    Raises
    ------
    BadManifest
        If the run is gone, or has none, or something that is none in its place.
    """
    try:
        uri = client.get_run(run_id).info.artifact_uri
    except MlflowException as error:
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
        raise BadManifest(f"Expected run {run_id[:8]} in the store, found none. Run `aucflow audit verify`.") from None
    data = manifest_bytes(uri)
    if data is None:
        raise BadManifest(
            f"Expected {FILE} among the artifacts of run {run_id[:8]}, found none. It is still running, was killed, "
            "was made before there were manifests, or somebody removed it: `aucflow audit verify` tells."
        )
    return parse_manifest(data, f"run {run_id[:8]}"), hashlib.sha256(data).hexdigest()


def manifest_bytes(artifact_uri: str) -> bytes | None:
    """Return the bytes of the manifest in a run's artifacts, None if there is none."""
    try:
        with artifact_folder(f"{artifact_uri.rstrip('/')}/{FILE}") as path:
            return path.read_bytes()
    except (OSError, MlflowException):
        return None


def read_manifest_file(path: Path) -> tuple[dict[str, Any], str]:
    """Return the manifest in a file and the digest of its bytes."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"Expected a manifest, got {path}: {error.strerror}. Check the path.") from None
    return parse_manifest(data, str(path)), hashlib.sha256(data).hexdigest()


def parse_manifest(data: bytes, origin: str) -> dict[str, Any]:
    """Return a manifest's bytes as what they say, if they are a manifest of ours."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadManifest(f"{origin}: expected a manifest in JSON, got: {error}. Restore {FILE} from a copy.") from None
    schema = content.get("schema") if isinstance(content, dict) else type(content).__name__
    if schema != SCHEMA:
        raise BadManifest(
            f"{origin}: expected a manifest of the schema {SCHEMA}, got {str(schema)[:40]!r}. Take the aucflow that "
            "wrote it."
        )
    if not _is_whole(content):
        raise BadManifest(
            f"{origin}: expected a manifest that tells of its run, data, config and results, got one with parts "
            f"missing. Restore {FILE} from a copy."
        )
    return content


def _is_whole(content: dict[str, Any]) -> bool:
    """Tell whether a manifest has the parts of its kind, so that whoever reads it finds what they look for."""
    parts = PARTS.get(str(content.get("kind")))
    if parts is None or not all(isinstance(content.get(name), kind) for name, kind in parts.items()):
        return False
    if not all(isinstance(content["run"].get(name), str) for name in ("run_id", "name", "status")):
        return False
    lists = (content[name] for name, kind in parts.items() if kind is list)
    if not all(isinstance(member, dict) for members in lists for member in members):
        return False
    if content["kind"] == "run":
        return all(isinstance(fold.get("fold"), int) for fold in content["folds"])
    return all(isinstance(cell.get(name), str) for cell in content["cells"] for name in CELL)


# The ledger -------------------------------------------------------------------------------------------------------


def entry_of_run(book: Ledger, run_id: str) -> LedgerEntry | None:
    """Return the ledger's last word on a run, None if it has none."""
    return book.last_of_runs().get(run_id)


def recorded_sha256(book: Ledger, run_id: str) -> str | None:
    """Return the digest that the ledger keeps of a run's manifest, None if it keeps none."""
    entry = entry_of_run(book, run_id)
    digest = None if entry is None else entry.data.get("manifest_sha256")
    return digest if isinstance(digest, str) else None


# What the store shows of a run, as a manifest has it -----------------------------------------------------------------


def metric_summary(values: Sequence[Metric]) -> dict[str, Any]:
    """Return a metric's last value, how many there are, and the digest over steps, values and times."""
    rows = sorted((v.step, v.timestamp, v.value) for v in values)
    digest = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
    return {"last": rows[-1][2], "count": len(rows), "sha256": digest}


def inputs_of(run: Run) -> list[dict[str, Any]]:
    """Return the data sets that the store links to a run, as MLflow shows them."""
    shown = ("name", "digest", "source_type", "source", "schema", "profile")
    return [
        {name: getattr(one.dataset, name) for name in shown} | {"tags": {tag.key: tag.value for tag in one.tags}}
        for one in (run.inputs.dataset_inputs if run.inputs else ())
    ]


def utc(milliseconds: int) -> str:
    """Return a time of MLflow's as text."""
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds")
