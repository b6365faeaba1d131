"""One run under audit: its row in the store against the ledger, and all that its manifest tells against what is there.

The ledger's entry vouches for the manifest, and the manifest for everything else: what MLflow shows of the run and of
its model, and each file. A manifest that is not the one in the ledger vouches for nothing.
"""

import hashlib
import json
import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Experiment, LoggedModel, Metric, Run, ViewType
from mlflow.exceptions import MlflowException
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from sqlalchemy import NullPool, column, create_engine, select, table

from tasks import recovery, store
from tasks.errors import in_short
from tasks.files import NO_FILE, brief, is_sha256, reason_of, sha256_or_reason
from tasks.ledger import Ledger, LedgerEntry
from tasks.manifests import (
    FILE,
    SIGNATURE,
    BadManifest,
    inputs_of,
    manifest_bytes,
    metric_summary,
    parse_manifest,
    utc,
)
from tasks.recovery import INTERRUPTED, PROCESS
from tasks.registry import LEFT_BY_READERS, files_sha256
from tasks.runs import PARENT, all_experiments
from tasks.signing import public_keys
from tasks.signing import verify as verify_signature

NOTE = "mlflow.note.content"  # the user's to write, whatever we wrote there
GUARDED = (PARENT, "mlflow.source.git.commit", "mlflow.source.name", "mlflow.source.type", "mlflow.user")
DATABASES = ("sqlite", *store.SERVERS)
COLUMNS = ("key", "value", "timestamp", "step", "is_nan", "run_uuid")  # one of them is a word of MySQL's: quoted
METRICS = table("metrics", *map(column, COLUMNS))
LATEST = table("latest_metrics", *map(column, ("key", "step", "timestamp", "run_uuid")))
LINK_TO_NONE = "a link to no file"  # in place of a digest
NOT_ALLOWED = ("permission denied", "operation not permitted")  # in its place too, where another account has a digest
LONGEST = 60  # characters of a value that a message shows


@dataclass(frozen=True)
class Discrepancy:
    """Something that is not as it was recorded."""

    kind: str  # missing, changed, reordered, inserted, removed, interrupted, unreadable, ...
    subject: str  # what it is about: a ledger line, a run, a row of the store, a file, an alias
    message: str
    part: str  # ledger, run, manifest, store, model, files, data, conversion, registry
    run_id: str = ""
    is_note: bool = False  # worth telling, and no finding


@dataclass(frozen=True)
class CheckedRun:
    """What came of a run's check; the manifest is None unless it is the one that the ledger knows."""

    run: Run | None
    manifest: dict[str, Any] | None
    found: tuple[Discrepancy, ...]


class Histories:
    """All values that were ever logged of the metrics of runs.

    They come from the database itself where there is one: MLflow shows no metric that has no latest value, and takes a
    call for each of the others.
    """

    def __init__(self, client: MlflowClient):
        self.client = client
        uri = client.tracking_uri
        self.engine = create_engine(uri, poolclass=NullPool) if uri.partition("+")[0].startswith(DATABASES) else None

    def of(self, run_id: str, names: Iterable[str]) -> dict[str, list[Metric]]:
        """Return the values of a run's metrics by name; ``names`` are those that are known."""
        if self.engine is None:
            return {name: self.client.get_metric_history(run_id, name) for name in names}
        found: dict[str, list[Metric]] = {}
        with self.engine.connect() as connection:
            for key, value, time, step, is_nan, _ in connection.execute(
                select(METRICS).where(METRICS.c.run_uuid == run_id)
            ):
                found.setdefault(key, []).append(Metric(key, math.nan if is_nan else value, time, step))
        return found

    def places_of_latest(self, run_id: str) -> dict[str, tuple[int, int]]:
        """Return step and time of each metric's latest value; nothing where only MLflow itself can be asked."""
        if self.engine is None:
            return {}
        with self.engine.connect() as connection:
            rows = connection.execute(select(LATEST).where(LATEST.c.run_uuid == run_id))
            return {key: (step, time) for key, step, time, _ in rows}


class RunAuditor:
    """Checks runs one by one, and counts what it looked at."""

    def __init__(self, client: MlflowClient, ledger: Ledger):
        self.client = client
        self.entries = ledger.last_of_runs()
        self.had_manifests = ledger.last_manifests()
        self.gone = ledger.gone_runs()
        self.counts: Counter[str] = Counter()
        self.public_keys = public_keys()
        self.histories = Histories(client)
        found = all_experiments(client, ViewType.ALL)
        self.experiments: dict[str, Experiment] = {one.experiment_id: one for one in found}
        self.homes: set[str] = set()  # the experiments of the runs whose manifests the ledger vouches for
        self.vouched: set[str] = set()  # these runs
        self.models: set[str] = set()  # and the models that they recorded
        self._made: dict[str, dict[str, Any]] = {}  # what they tell of these, by the digests of the runs' entries

    def check(self, entry: LedgerEntry, run: Run | None) -> CheckedRun:
        """Hold a run against its ledger entry, and then against its manifest."""
        self.counts["runs"] += 1
        if run is None:
            return CheckedRun(None, None, (self._missing(entry),))
        content, faults = self._manifest(entry, run)
        found = [*self._against_entry(entry, run, content), *faults]
        if content is not None:
            try:
                found += self._against_manifest(entry, run, content)
                self._made[entry.digest] = _model_of(content)
            except Exception as error:  # whatever MLflow raises at rows that it cannot have written
                found.append(self._said(run, "unreadable", "", not_shown(error), "store"))
        return CheckedRun(run, content, tuple(found))

    def _missing(self, entry: LedgerEntry) -> Discrepancy:
        words = f"the ledger has it as {entry.data.get('status')} (entry {entry.seq}), the store has no such run"
        settled = self.gone.get(entry.subject)
        if settled is not None:
            words += f"; settled on {settled.time[:10]} (entry {settled.seq}): {settled.reason}"
        return Discrepancy("missing", _of_entry(entry), words, "run", entry.subject, is_note=settled is not None)

    def unreadable(self, entry: LedgerEntry, error: Exception) -> CheckedRun:
        """Return what is to be said of a run that MLflow cannot show."""
        self.counts["runs"] += 1
        found = Discrepancy("unreadable", _of_entry(entry), not_shown(error), "run", entry.subject)
        return CheckedRun(None, None, (found,))

    def find(self, run_id: str) -> Run | None:
        """Return a run of the store, None if there is none."""
        try:
            return self.client.get_run(run_id)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return None
            raise

    def manifest(self, entry: LedgerEntry) -> dict[str, Any] | None:
        """Return a run's manifest if it is the one that the ledger knows."""
        run = self.find(entry.subject)
        return None if run is None else self._manifest(entry, run)[0]

    def model_of(self, entry: LedgerEntry) -> dict[str, Any]:
        """Return what a run's manifest tells of the model that it made; the manifest is read once for each run."""
        if entry.digest in self._made:
            return self._made[entry.digest]
        return _model_of(self.manifest(entry))

    # The ledger's entry -------------------------------------------------------------------------------------------

    def _against_entry(self, entry: LedgerEntry, run: Run, content: dict[str, Any] | None) -> Iterator[Discrepancy]:
        """Yield what the store tells of a run otherwise than the ledger."""
        info = run.info
        if info.lifecycle_stage != "active":
            undo = f"`{store.mlflow_command()} runs restore --run-id {info.run_id}` undoes it"
            words = f"it is marked {info.lifecycle_stage} in the store: {undo}"
            yield Discrepancy("removed", name_of(run), words, "run", info.run_id)
        if info.status == "RUNNING" and is_being_written(run):
            return  # it is about to end
        if self._is_cut_off(entry, run, content):
            words = f"a crash left it open: the next command ends it as the ledger says, {entry.data.get('status')}"
            yield Discrepancy("interrupted", name_of(run), words, "run", info.run_id, is_note=True)
            return
        now = {"name": info.run_name, "status": info.status, "end_time": info.end_time}
        for name, value in now.items():
            if value != entry.data.get(name):
                words = f"{_changed(name, value, entry.data.get(name))} (entry {entry.seq})"
                yield Discrepancy("changed", f"{_of_entry(entry)}, {name}", words, "run", info.run_id)

    def _is_cut_off(self, entry: LedgerEntry, run: Run, content: dict[str, Any] | None) -> bool:
        """Tell whether a crash can have left a run open that the ledger has ended: no command of ours began since."""
        info, ended, process = run.info, entry.data.get("end_time"), run.data.tags.get(PROCESS, "")
        if info.status == "RUNNING" and entry.data.get("manifest_sha256") is None and entry.reason != INTERRUPTED:
            return info.run_name == entry.data.get("name")  # whose store went away: it knows of no end
        if info.status != "RUNNING" or not recovery.is_gone(process):
            return False
        if content is not None and content["store"]["tags"].get(PROCESS) != process:
            return False
        if info.run_name != entry.data.get("name") or not isinstance(ended, int):
            return False
        return (info.end_time or 0) <= ended and self._last_start(process) <= ended

    def _last_start(self, process: str) -> int:
        """Return when the last run of ours began, but for those of a process."""
        if "'" in process:  # none of ours
            return sys.maxsize
        tag, order = f"tags.`{PROCESS}` != '{process}'", ["attributes.start_time DESC"]
        last = self.client.search_runs(list(self.experiments), tag, ViewType.ALL, max_results=1, order_by=order)
        return max((run.info.start_time for run in last), default=0)

    # The manifest -------------------------------------------------------------------------------------------------

    def _manifest(self, entry: LedgerEntry, run: Run) -> tuple[dict[str, Any] | None, list[Discrepancy]]:
        """Return the manifest if the ledger vouches for it, or why there is none."""
        expected = entry.data.get("manifest_sha256")
        if expected is None:
            return None, [*self._without_manifest(entry, run)]
        places = dict.fromkeys([run.info.artifact_uri, self._usual_place(run)])
        texts = [data for data in map(manifest_bytes, places) if data is not None]
        digests = [hashlib.sha256(data).hexdigest() for data in texts]
        if expected in digests:
            try:
                return parse_manifest(texts[digests.index(expected)], FILE), []
            except BadManifest as error:
                return None, [self._said(run, "unreadable", f", {FILE}", str(error), "manifest")]
        if not texts:
            place = store.artifact_path(run.info.artifact_uri) or run.info.artifact_uri
            reason = sha256_or_reason(Path(place) / FILE) if isinstance(place, Path) else NO_FILE
            if reason != NO_FILE:
                kind, words = other_digest(reason, str(expected))
                return None, [self._said(run, kind, f", {FILE}", words, "manifest")]
            behind = str(place).startswith("mlflow-artifacts:")
            words = f"not in {place}{', which is read through its server: set MLFLOW_TRACKING_URI to it' * behind}"
            return None, [self._said(run, "missing", f", {FILE}", words, "manifest")]
        words = f"its SHA-256 is {brief(digests[0])}, the ledger has {brief(str(expected))} (entry {entry.seq})"
        return None, [self._said(run, "changed", f", {FILE}", words, "manifest")]

    def _without_manifest(self, entry: LedgerEntry, run: Run) -> Iterator[Discrepancy]:
        """Yield what is to be said of a run without a manifest: rightly it has none where it ended before that.

        It was killed, or failed for its store went away.
        """
        had = self.had_manifests.get(entry.subject)
        if had is not None:
            words = f"the ledger has one, {brief(str(had.data['manifest_sha256']))} (entry {had.seq}), and then none"
            words += f" (entry {entry.seq})"
            yield self._said(run, "missing", f", {FILE}", words, "manifest")
        elif entry.data.get("status") not in ("KILLED", "FAILED"):
            words = f"the ledger has it as {entry.data.get('status')} without one (entry {entry.seq})"
            yield self._said(run, "missing", f", {FILE}", words, "manifest")
        elif self.public_keys:
            words = "it ended before it had a manifest to sign: what MLflow shows of it is held against nothing"
            yield Discrepancy("unsigned", name_of(run), words, "manifest", run.info.run_id, is_note=True)

    def _usual_place(self, run: Run) -> str:
        experiment = self.experiments.get(run.info.experiment_id)
        location = experiment.artifact_location if experiment else ""
        return f"{location}/{run.info.run_id}/artifacts"

    def _against_manifest(self, entry: LedgerEntry, run: Run, content: dict[str, Any]) -> Iterator[Discrepancy]:
        recorded = content["store"]
        self.vouched.add(entry.subject)
        yield from self._experiment(entry, content["run"])
        yield from self._info(run, content["run"])
        yield from self._table(run, "param", recorded["params"], run.data.params)
        tags = {name: value for name, value in recorded["tags"].items() if name != NOTE}
        yield from self._table(run, "tag", tags, _guarded(run.data.tags, tags))
        yield from self._metrics(run, recorded["metrics"])
        yield from self._inputs(run, content)
        yield from self._model(run, content)
        yield from self._files(run, content)
        yield from self._signature(entry, run, content["run"]["artifact_uri"])

    # The store's rows ---------------------------------------------------------------------------------------------

    def _experiment(self, entry: LedgerEntry, own: dict[str, Any]) -> Iterator[Discrepancy]:
        """Yield what is wrong with a run's experiment, once for all of its runs."""
        if own["experiment_id"] in self.homes:
            return
        self.homes.add(own["experiment_id"])
        found = self.experiments.get(own["experiment_id"])
        subject = f"experiment {own['experiment']}"
        if found is None:
            yield Discrepancy("missing", subject, "the store has no such experiment", "store", entry.subject)
            return
        location = own["artifact_uri"].removesuffix(f"/{entry.subject}/artifacts")
        now = {"name": found.name, "state": found.lifecycle_stage, "artifact location": found.artifact_location}
        then = {"name": own["experiment"], "state": "active", "artifact location": location}
        self.counts["rows"] += 1
        for name in then:
            if now[name] != then[name]:
                yield Discrepancy("changed", subject, _changed(name, now[name], then[name]), "store", entry.subject)

    def _info(self, run: Run, own: dict[str, Any]) -> Iterator[Discrepancy]:
        info = run.info
        now = {
            "experiment": (info.experiment_id, "experiment_id"),
            "start time": (utc(info.start_time), "started"),
            "user": (info.user_id, "user"),
            "artifact location": (info.artifact_uri, "artifact_uri"),
        }
        if run.data.tags.get("mlflow.runName", info.run_name) != info.run_name:  # the other is the ledger's to judge
            now["tag mlflow.runName"] = run.data.tags["mlflow.runName"], "name"
        self.counts["rows"] += 1
        for name, (value, key) in now.items():
            if value != own[key]:
                yield self._said(run, "changed", f", {name}", _changed(name, value, own[key]), "run")

    def _table(
        self, run: Run, table: str, then: Mapping[str, Any], now: Mapping[str, Any], part: str = "store"
    ) -> Iterator[Discrepancy]:
        """Yield the rows of one of the store's tables that are gone, new, or have another value."""
        self.counts["rows"] += len(now)
        for key in sorted(then.keys() | now.keys()):
            subject = f", {table} {key}"
            if key not in now:
                yield self._said(run, "missing", subject, f"{_short(then[key])} was recorded, there is none", part)
            elif key not in then:
                yield self._said(run, "inserted", subject, f"{_short(now[key])} was not there when it ended", part)
            elif now[key] != then[key]:
                yield self._said(run, "changed", subject, _changed("it", now[key], then[key]), part)

    def _metrics(self, run: Run, recorded: dict[str, Any]) -> Iterator[Discrepancy]:
        """Yield what differs in the metrics: the values that are shown first, and all that were ever logged."""
        then = {name: summary["last"] for name, summary in recorded.items()}
        histories = self.histories.of(run.info.run_id, recorded)
        self.counts["rows"] += sum(map(len, histories.values()))
        odd = set()  # whose latest values are told of with them
        for name in sorted(recorded.keys() | histories.keys()):
            subject, history = f", metric {name}", histories.get(name, [])
            if name in recorded:
                found = tuple(self._history(run, subject, recorded[name], history, "store"))
            else:
                found = (self._said(run, "inserted", subject, "it was not there when the run ended", "store"),)
            if found and history and run.data.metrics.get(name) == metric_summary(history)["last"]:
                odd.add(name)
            yield from found
        then, latest = (_without(odd, rows) for rows in (then, run.data.metrics))
        yield from self._table(run, "latest metric", then, latest)
        for name, place in self.histories.places_of_latest(run.info.run_id).items():
            history = [] if name in odd else histories.get(name, [])
            if history and place != max((one.step, one.timestamp) for one in history):
                words = "its step or time is not that of its last value"
                yield self._said(run, "changed", f", latest metric {name}", words, "store")

    def _history(
        self, run: Run, subject: str, summary: dict[str, Any], history: list[Any], part: str
    ) -> Iterator[Discrepancy]:
        if not history:
            yield self._said(run, "missing", subject, f"{summary['count']} values were recorded, there is none", part)
            return
        found = metric_summary(history)
        if found["count"] != summary["count"]:
            kind = "removed" if found["count"] < summary["count"] else "inserted"
            words = f"it has {found['count']} values, {summary['count']} were recorded"
            yield self._said(run, kind, subject, words, part)
        elif found["sha256"] != summary["sha256"]:
            yield self._said(run, "changed", subject, "a value, a step or a time is not as it was recorded", part)

    def _inputs(self, run: Run, content: dict[str, Any]) -> Iterator[Discrepancy]:
        """Yield what differs in the data sets that the store links to a run."""
        now = {f"{one['name']} {one['digest'][:8]}": one for one in inputs_of(run)}
        then = {f"{one['name']} {one['digest'][:8]}": one for one in content["store"]["inputs"]}
        for key in sorted(now.keys() & then.keys()):
            odd = [name for name in then[key] if now[key][name] != then[key][name]]
            for words in _differing(now[key], then[key], odd):
                yield self._said(run, "changed", f", input {key}", words, "store")
            now[key] = then[key]
        yield from self._table(run, "input", then, now)

    def _model(self, run: Run, content: dict[str, Any]) -> Iterator[Discrepancy]:
        """Yield what differs in the model that the run logged: MLflow keeps its parameters and metrics once more."""
        then = content["store"]["model"]
        outputs = run.outputs.model_outputs if run.outputs else []
        recorded = {then["model_id"]: 0} if then else {}
        yield from self._table(run, "output", recorded, {one.model_id: one.step for one in outputs}, "model")
        if then is None:
            return
        self.models.add(then["model_id"])
        try:
            model = self.client.get_logged_model(then["model_id"])
        except Exception as error:  # it is not there, or not as MLflow writes one
            is_gone = getattr(error, "error_code", "") == "RESOURCE_DOES_NOT_EXIST"
            words = "the store has no such model, or it is marked deleted" if is_gone else not_shown(error)
            kind = "missing" if is_gone else "unreadable"
            yield self._said(run, kind, f", model {then['model_id']}", words, "model")
            return
        yield from self._logged_model(run, model, then)
        yield from self._model_metrics(run, model, content["store"]["metrics"])

    def _logged_model(self, run: Run, model: LoggedModel, then: dict[str, Any]) -> Iterator[Discrepancy]:
        plain = ("name", "artifact_location", "source_run_id")
        now = {name: getattr(model, name) for name in plain} | {"status": str(model.status)}
        now |= {"experiment_id": model.experiment_id}
        recorded = {name: then[name] for name in plain} | {"experiment_id": run.info.experiment_id}
        recorded["status"] = then.get("status", "READY")  # told only of a model of which the logging broke off
        yield from self._table(run, "model's", recorded, now, "model")
        yield from self._table(run, "model's param", then["params"], model.params, "model")
        yield from self._table(run, "model's tag", then["tags"], _guarded(model.tags, then["tags"]), "model")

    def _model_metrics(self, run: Run, model: LoggedModel, recorded: dict[str, Any]) -> Iterator[Discrepancy]:
        """Yield what differs in the metrics of a run's model; those of runs that are not ours are an evaluation's."""
        histories: dict[str, list[Metric]] = {name: [] for name in recorded}
        for one in model.metrics or ():
            subject = f", metric {one.key} of the model"
            if one.run_id == run.info.run_id:
                histories.setdefault(one.key, []).append(one)
            elif not one.run_id or one.run_id in self.entries:
                whose = f"run {one.run_id[:8]}" if one.run_id else "no run"
                yield self._said(run, "inserted", subject, f"it is there as {whose}'s, which did not log it", "model")
        for name, history in sorted(histories.items()):
            self.counts["rows"] += len(history)
            subject = f", metric {name} of the model"
            if name not in recorded:
                yield self._said(run, "inserted", subject, "it was not there when the run ended", "model")
                continue
            yield from self._history(run, subject, recorded[name], history, "model")
            if data := {one.dataset_name for one in history if one.dataset_name is not None}:
                words = f"a value is said to be of the data set {_short(min(data))}, none was recorded"
                yield self._said(run, "changed", subject, words, "model")

    # Files --------------------------------------------------------------------------------------------------------

    def _files(self, run: Run, content: dict[str, Any]) -> Iterator[Discrepancy]:
        """Yield the artifacts of a run and of its model that are gone, changed, or too many."""
        uris = {"run": content["run"]["artifact_uri"]}
        if content["store"]["model"]:
            uris["model"] = content["store"]["model"]["artifact_location"]
        then = {one["path"]: one["sha256"] for one in content["artifacts"]}
        with ExitStack() as stack:
            for name, uri in uris.items():
                own = {path: digest for path, digest in then.items() if path.startswith(f"{name}/")}
                try:
                    now = _digests(name, stack.enter_context(store.artifact_folder(uri)), own)
                except (OSError, MlflowException):
                    now = {}
                self.counts["files"] += len(now)
                yield from self._compared_files(run, own, now)
        yield from self._report_copies(run, then)

    def _compared_files(self, run: Run, then: dict[str, str], now: dict[str, str]) -> Iterator[Discrepancy]:
        for path in sorted(then.keys() | now.keys()):
            if path not in now:
                yield self._said(run, "missing", f", file {path}", "it was recorded, and is not there", "files")
            elif path not in then and _is_of_a_file(now[path]):
                yield self._said(run, "inserted", f", file {path}", "it was not there when the run ended", "files")
            elif path not in then:
                words = f"{now[path]}; what is there was not recorded{_remedy(now[path])}"
                yield self._said(run, "unreadable", f", {path}", words, "files")
            elif now[path] != then[path]:
                kind, words = other_digest(now[path], then[path])
                yield self._said(run, kind, f", file {path}", words, "files")

    def _signature(self, entry: LedgerEntry, run: Run, artifact_uri: str) -> Iterator[Discrepancy]:
        """Yield what is wrong with the manifest's signature: with a public key all, without one only what shows."""
        try:
            with store.artifact_folder(artifact_uri) as folder:
                yield from self._signature_in(entry, run, folder)
        except (OSError, MlflowException):
            return  # all of its files are missing

    def _signature_in(self, entry: LedgerEntry, run: Run, folder: Path) -> Iterator[Discrepancy]:
        recorded, path = entry.data.get("signature_sha256"), folder / SIGNATURE
        subject, digest = f", file run/{SIGNATURE}", sha256_or_reason(path)
        found = (LINK_TO_NONE if path.is_symlink() else None) if digest == NO_FILE else digest
        if found != recorded:
            if recorded is None:
                kind, words = "inserted", "the ledger has no signature"
            elif found is None:
                kind, words = "unsigned", "the ledger has its signature, which is not there"
            else:
                kind, words = other_digest(found, recorded)
            yield self._said(run, kind, subject, f"{words} (entry {entry.seq})", "files")
        if self.public_keys and (found or not recorded):
            self.counts["signatures"] += 1
            for fault in verify_signature(folder / FILE, path, *self.public_keys):
                yield self._said(run, fault.kind, subject, fault.message, "files")

    def _report_copies(self, run: Run, then: dict[str, str]) -> Iterator[Discrepancy]:
        """Yield the page that a person opens, if it is another than the one among the artifacts."""
        for path, digest in then.items():
            copy = store.FOLDER / "reports" / Path(path).name
            found = sha256_or_reason(copy) if path.startswith("run/") and path.endswith(".html") else NO_FILE
            if found != NO_FILE:
                self.counts["files"] += 1
            if found not in (NO_FILE, digest):
                kind, words = other_digest(found, digest)
                yield self._said(run, kind, f", file {copy}", words, "files")

    def _said(self, run: Run, kind: str, what: str, message: str, part: str) -> Discrepancy:
        return Discrepancy(kind, f"{name_of(run)}{what}", message, part, run.info.run_id)


def _model_of(content: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the manifest of a run tells of the model that it made; nothing without one."""
    if content is None:
        return {}
    model, listed = content["store"]["model"] or {}, content["artifacts"]
    files = {one["path"].removeprefix("model/"): one["sha256"] for one in listed if one["path"].startswith("model/")}
    return {
        "source": model.get("artifact_location"),
        "model_id": model.get("model_id"),
        "model_sha256": files_sha256(files),
    }


def name_of(run: Run) -> str:
    """Return what a run is called in findings: the beginning of its id, and its name."""
    return f"run {run.info.run_id[:8]} {run.info.run_name}"


def is_being_written(run: Run) -> bool:
    """Tell whether the process that writes a run is one of this host and has not ended."""
    return recovery.is_alive(run.data.tags.get(PROCESS, ""))


def _of_entry(entry: LedgerEntry) -> str:
    return f"run {entry.subject[:8]} {entry.data.get('name', '')}".rstrip()


def _without(names: set[str], rows: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in rows.items() if name not in names}


def _guarded(tags: Mapping[str, str], recorded: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that are ours to set; all others are the user's, or MLflow's own."""
    ours = (name for name in tags if name in recorded or name in GUARDED or name.startswith("aucflow."))
    return {name: tags[name] for name in ours if name != NOTE}


def _differing(now: dict[str, Any], then: dict[str, Any], fields: list[str]) -> Iterator[str]:
    """Yield in words what differs in some fields of a data set; of those that hold JSON, only the odd members."""
    for field in fields:
        here, there = _members(now[field]), _members(then[field])
        odd = [key for key in sorted(here.keys() | there.keys()) if here.get(key) != there.get(key)]
        for key in odd:
            yield _changed(f"{key} of its {field}", here.get(key), there.get(key))
        if not odd:
            yield _changed(f"its {field}", now[field], then[field])


def _members(value: Any) -> dict[str, Any]:
    """Return the members of an object, or of one in JSON; none if it is something else."""
    try:
        found = json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def other_digest(found: str, recorded: str) -> tuple[str, str]:
    """Return the kind of finding that a digest is, or what there is in its place, and the words for it."""
    if _is_of_a_file(found):
        return "changed", f"its SHA-256 is {brief(found)}, {brief(recorded)} was recorded"
    return "unreadable", f"{found}; {brief(recorded)} was recorded{_remedy(found)}"


def _remedy(reason: str) -> str:
    """Return how what may not be read is to be read, for words that end in it."""
    return ". Audit as an account that may read it" if reason in NOT_ALLOWED else ""


def _is_of_a_file(found: str) -> bool:
    return is_sha256(found) or found == LINK_TO_NONE


def _digests(name: str, folder: Path, recorded: Iterable[str]) -> dict[str, str]:
    """Return the digest of every file in a folder, but no artifacts: manifest, signature, MLflow's own mark.

    Of what may not be read, folders that may not be listed among it, the reason in its place.
    """
    found, closed = dict[str, str](), list[OSError]()
    for place, folders, files in os.walk(folder, onerror=closed.append):
        links = [one for one in folders if Path(place, one).is_symlink()]
        for path in (Path(place, one) for one in (*files, *links)):
            inside = path.relative_to(folder).as_posix()
            is_ours = name == "run" and inside in (FILE, SIGNATURE)
            if not is_ours and not ((name, inside) == ("model", LEFT_BY_READERS) and _is_mark(path)):
                digest = sha256_or_reason(path)
                found[f"{name}/{inside}"] = LINK_TO_NONE if digest == NO_FILE else digest
    for error in closed:
        if not isinstance(error, FileNotFoundError):  # the folder itself: all that is recorded is missing
            inside = Path(error.filename).relative_to(folder).as_posix()
            found[f"{name}/{inside}"] = reason_of(error)
    for own in set(recorded) - found.keys():  # what a folder does not list, it may still give
        digest = sha256_or_reason(folder / own.removeprefix(f"{name}/"))
        if digest != NO_FILE:
            found[own] = digest
    return found


def _is_mark(path: Path) -> bool:
    """Tell whether a file says what MLflow writes into a model that is loaded by its registered name, and no more."""
    try:
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, YAMLError):
        return False
    return isinstance(content, dict) and set(content) <= {"model_name", "model_version"}


def not_shown(error: Exception) -> str:
    """Say that MLflow raised an error in place of what was asked for."""
    return f"MLflow cannot show it: {in_short(error)}"


def _changed(what: str, now: Any, then: Any) -> str:
    here, there = _short(now), _short(then)
    if here == there:  # they differ further on
        place = next((n for n, (a, b) in enumerate(zip(repr(now), repr(then), strict=False)) if a != b), 0)
        start = max(0, place - LONGEST // 2)
        here, there = (f"…{repr(value)[start : start + LONGEST]}" for value in (now, then))
    return f"{what} is {here}, {there} was recorded"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
