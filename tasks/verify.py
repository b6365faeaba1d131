"""Verify: everything that was recorded against what is there now. Nothing is written, and nothing is believed.

The ledger's chain comes first; its entries vouch for the runs' manifests, and these for the store's rows, for each file
and for the raw data (`tasks.verify_runs`); the registry is held against the ledger (`tasks.registry`). What an attacker
wrote anew all the way up to the ledger's head cannot be seen from here: that takes a signature (docs/lineage.md).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run, ViewType
from mlflow.exceptions import MlflowException
from pydantic import TypeAdapter

from tasks import registry, store
from tasks.errors import BadInput, RunFailed, in_short
from tasks.files import NO_FILE, brief, is_sha256, is_there, sha256_or_reason
from tasks.ledger import Ledger, LedgerEntry
from tasks.recovery import PROCESS
from tasks.registry import Version
from tasks.runs import all_pages
from tasks.values import ConversionRule, RawFile, joined
from tasks.verify_runs import CheckedRun, Discrepancy, RunAuditor, is_being_written, name_of, other_digest

PAGE = 1000  # runs of one search
HEAD = "head.json"
RAW = {field.name for field in fields(RawFile)} - {"name", "labels"}  # what is recorded of a raw file
FETCHED = re.compile(r"(https?://|mirror:|sklearn:)")  # sources that a file can be had from once more

Tell = Callable[[int, int], None]  # runs checked, runs in all


@dataclass(frozen=True)
class Verdict:
    """What is not as it was recorded, and how much was looked at."""

    found: tuple[Discrepancy, ...]
    counts: dict[str, int]

    @property
    def findings(self) -> tuple[Discrepancy, ...]:
        return tuple(one for one in self.found if not one.is_note)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"findings": [asdict(one) for one in self.found], "checked": self.counts, "ok": not self.findings}


def verify(
    client: MlflowClient | None, ledger: Ledger, deep: bool = False, tell: Tell | None = None, cause: str = ""
) -> Verdict:
    """Check all that there is: ledger, runs, files, data, registry.

    Without a store (``client``) the ledger alone; ``cause`` says why it cannot be read. ``deep`` also converts the raw
    data once more, and compares the digests of X and y.
    """
    found = [*ledger_faults(ledger)]
    counts: Counter[str] = Counter({"entries": len(ledger.entries())})
    if client is None:
        words = cause or "the ledger tells of runs, and there is no store; is it where MLFLOW_TRACKING_URI has to name?"
        if cause or ledger.last_of_runs():
            found.append(Discrepancy("unreadable" if cause else "missing", "store", words, "store"))
        return Verdict(tuple(found), dict(counts))
    auditor = RunAuditor(client, ledger)
    data, cells = DataFiles(deep), list[dict[str, Any]]()
    for checked in check_runs(auditor, ledger, tell):
        found += checked.found
        data.take(checked.manifest)
        cells += cells_of(checked.manifest)
    found += (odd for cell in cells for odd in odd_cell(cell, auditor))
    found += unknown_models(auditor)
    for run_id, entry in ledger.last_of_runs().items():
        if run_id not in auditor.entries:  # it ended meanwhile, and may have been made of newer data
            with suppress(MlflowException):
                data.take(auditor.manifest(entry))
    data.take_entries(ledger)
    found += data.check()
    found += registry_faults(client, ledger, auditor)
    return Verdict(tuple(found), dict(counts + auditor.counts + data.counts))


# The ledger -------------------------------------------------------------------------------------------------------


def ledger_faults(ledger: Ledger) -> Iterator[Discrepancy]:
    """Yield what is wrong with the chain and its head."""
    for fault in ledger.verify():
        line = f"ledger line {fault.line}"
        subject = f"ledger {HEAD}" if fault.line == 0 else f"{line} or {HEAD}" if fault.against_head else line
        yield Discrepancy(fault.kind, subject, fault.message, "ledger")
    if said := ledger.interrupted():
        yield Discrepancy("interrupted", f"ledger {HEAD}", said, "ledger", is_note=True)


# Runs -------------------------------------------------------------------------------------------------------------


def check_runs(auditor: RunAuditor, ledger: Ledger, tell: Tell | None = None) -> Iterator[CheckedRun]:
    """Yield the check of every run that the ledger knows, and what is to be said of those that it does not know."""
    there, faults = _runs_of(auditor)
    yield CheckedRun(None, None, faults)
    entries = ledger.last_of_runs()  # read after the store, which never claims what the ledger does not
    auditor.entries = entries
    settled = 0
    for done, (run_id, entry) in enumerate(entries.items()):
        if tell:
            tell(done, len(entries))
        run = there.get(run_id)
        try:
            if run is None or run.info.status == "RUNNING":  # it may have ended between the two readings
                run = auditor.find(run_id)
            if run is None and run_id in auditor.gone:
                settled += 1
                continue
            yield auditor.check(entry, run)
        except Exception as error:  # whatever MLflow raises at rows that it cannot have written
            yield auditor.unreadable(entry, error)
    yield CheckedRun(None, None, tuple(_settled(settled)))
    homes = {there[run_id].info.experiment_id for run_id in entries.keys() & there.keys()}
    elsewhere: Counter[str] = Counter()
    for run_id in sorted(there.keys() - entries.keys()):
        if place := store.told_elsewhere(there[run_id].data.tags):
            elsewhere[place] += 1
            continue
        found = tuple(_unknown_run(there[run_id], homes, auditor.counts))
        yield CheckedRun(there[run_id], None, found)
    yield CheckedRun(None, None, tuple(_told_elsewhere("run", elsewhere)))


def _settled(count: int) -> Iterator[Discrepancy]:
    """Yield in one line how many runs are gone that were meant to go: in years there may be thousands."""
    if count:
        words = "gone from the store on purpose, by the ledger: `aucflow audit RUN` tells why"
        yield Discrepancy("settled", f"{count} run{'s' * (count > 1)}", words, "run", is_note=True)


def _told_elsewhere(kind: str, places: Counter[str]) -> Iterator[Discrepancy]:
    """Yield how many runs or models the ledgers of other folders tell of that share the store."""
    for place, count in sorted(places.items()):
        words = f"the ledger in {place} tells of {'it' if count == 1 else 'them'}: run `aucflow audit verify` there"
        yield Discrepancy("elsewhere", f"{count} {kind}{'s' * (count > 1)}", words, kind, is_note=True)


def _runs_of(auditor: RunAuditor) -> tuple[dict[str, Run], tuple[Discrepancy, ...]]:
    """Return all runs of the store by id, as far as MLflow can show them."""
    found: dict[str, Run] = {}
    experiments = list(auditor.experiments)
    try:
        for run in all_pages(auditor.client.search_runs, experiments, "", ViewType.ALL, PAGE) if experiments else ():
            found[run.info.run_id] = run
    except Exception as error:  # one row that MLflow cannot have written is enough
        words = f"MLflow cannot list them, so that one too many is not seen: {in_short(error)}"
        return found, (Discrepancy("unreadable", "store, runs", words, "run"),)
    return found, ()


def _unknown_run(run: Run, homes: set[str], counts: Counter[str]) -> Iterator[Discrepancy]:
    """Yield what is to be said of a run that the ledger does not know; of other people's runs, nothing."""
    process = run.data.tags.get(PROCESS)
    if run.info.experiment_id not in homes and not any(tag.startswith(registry.PREFIX) for tag in run.data.tags):
        counts["foreign"] += 1
    elif run.info.status == "RUNNING" and is_being_written(run):
        counts["open"] += 1
    elif run.info.status == "RUNNING" and process:
        words = f"its process {process} has told of no end: if it is gone, the next `aucflow run` there ends the run"
        yield Discrepancy("interrupted", name_of(run), words, "run", run.info.run_id, is_note=True)
    else:
        words = f"the store has it as {run.info.status}, the ledger has no entry of it"
        if run.info.lifecycle_stage != "active":
            words += f"; it is marked deleted, and `{store.mlflow_command()} gc` removes it"
        yield Discrepancy("inserted", name_of(run), words, "run", run.info.run_id)


def cells_of(manifest: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the cells of an experiment as its manifest has them, each with its own manifest's digest; else none."""
    return (manifest or {}).get("cells", [])


def odd_cell(cell: dict[str, Any], auditor: RunAuditor) -> Iterator[Discrepancy]:
    """Yield what the ledger tells of a cell otherwise than the manifest of its experiment.

    So a run that was made one without a manifest shows: there is nothing of its own that it could be held against.
    """
    subject, entry = f"run {cell['run_id'][:8]}", auditor.entries.get(cell["run_id"])
    if entry is None:
        words = "its experiment's manifest tells of it, the ledger has no entry"
        yield Discrepancy("missing", subject, words, "run", cell["run_id"])
    elif entry.data.get("manifest_sha256") != cell["manifest_sha256"]:
        words = f"its experiment's manifest has {brief(str(cell['manifest_sha256']))} as that of its manifest"
        yield Discrepancy("changed", f"{subject}, entry {entry.seq}", words, "run", cell["run_id"])


def unknown_models(auditor: RunAuditor) -> Iterator[Discrepancy]:
    """Yield the models in the experiments of checked runs that claim to come of one, and that it did not record."""
    homes = sorted(auditor.homes)
    try:
        models = list(all_pages(auditor.client.search_logged_models, homes)) if homes else []
    except Exception as error:  # one row that MLflow cannot have written is enough
        words = f"MLflow cannot list them, so that one too many is not seen: {in_short(error)}"
        yield Discrepancy("unreadable", "store, models of runs", words, "model")
        return
    for model in models:
        if model.model_id not in auditor.models and model.source_run_id in (None, "", *auditor.vouched):
            words = f"the store has it as a model of run {model.source_run_id}, no run recorded it"
            yield Discrepancy("inserted", f"model {model.model_id}", words, "model", model.source_run_id or "")


# Raw data ---------------------------------------------------------------------------------------------------------


class DataFiles:
    """The raw files that checked runs were made of, each looked at once."""

    def __init__(self, deep: bool = False):
        self.deep = deep
        self.counts: Counter[str] = Counter()
        self.files: dict[str, dict[str, str]] = {}  # path -> digest -> source
        self.readers: dict[tuple[str, str], set[str]] = {}  # path and digest -> who read it: outermost runs, entries
        self.started: dict[str, str] = {}  # reader -> when it began, as far as is known
        self.sections: dict[str, dict[str, Any]] = {}  # data set and raw files -> what the manifest tells of it
        self.addresses: dict[str, str] = {}  # data set -> where a run of it keeps its artifacts
        self.read_again: set[tuple[str, str]] = set()  # path and digest that an entry of the ledger tells of

    def take(self, manifest: dict[str, Any] | None) -> None:
        """Note down what a run was made of, by its manifest."""
        if manifest is None:
            return
        own = manifest["run"]
        outermost = next(iter(own["parents"]), own["run_id"])  # it read the data, the runs inside it only began later
        for section in data_sections(manifest):
            self._take_section(section, outermost, min(own["started"], self.started.get(outermost, own["started"])))
            self.addresses[section["sha256"]] = own["artifact_uri"]

    def _take_section(self, section: dict[str, Any], reader: str, started: str) -> None:
        self.sections[f"{section['sha256']} {section['raw']}"] = section
        self.started[reader] = started
        for file in section["raw"]:
            self.files.setdefault(file["path"], {})[file["sha256"]] = file["source"]
            self.readers.setdefault((file["path"], file["sha256"]), set()).add(reader)

    def take_entries(self, ledger: Ledger) -> None:
        """Note down which data of these runs were found again in other bytes, as the ledger has it."""
        for entry, raw in found_again(ledger):
            section = next((one for one in self.sections.values() if one["sha256"] == entry.subject), None)
            if section is not None:
                files = where_they_lie(raw, self.addresses[entry.subject])
                self._take_section(section | {"raw": files}, f"entry {entry.seq}", entry.time)
                self.read_again |= {(file["path"], file["sha256"]) for file in files}

    def is_last(self, path: str) -> bool:
        """Tell whether what lies at a path now is what was last recorded of it."""
        return path in self.files and [*self._by_last_use(path)][-1] == sha256_or_reason(Path(path))

    def check(self) -> Iterator[Discrepancy]:
        """Yield the files that are gone or changed, and with ``deep`` the arrays that came out otherwise."""
        now = {path: sha256_or_reason(Path(path)) for path in self.files}
        for path in self.files:
            self.counts["data files"] += 1
            yield from self._odd_file(path, now)
        for section in self.sections.values() if self.deep else ():
            if all(now[file["path"]] == file["sha256"] for file in section["raw"]):
                self.counts["data sets"] += 1
                yield from odd_arrays(section)

    def _odd_file(self, path: str, digests: dict[str, str]) -> Iterator[Discrepancy]:
        """Yield what is wrong with a file, by each digest that it was recorded with, the last used last.

        ``digests`` are those of all recorded files now, or why there is none. One that a later run found replaced is no
        finding, whatever has become of the file since; nor is one that is gone, where the same bytes are in another
        that a run was made of.
        """
        recorded, now = self._by_last_use(path), digests[path]
        *replaced, last = recorded
        later = "a later run was made of newer data"
        if (path, last) in self.read_again:
            later = "`aucflow retrain` has found the same data in other bytes"
        for digest in replaced if is_sha256(now) or now == NO_FILE else ():  # else nobody knows
            if digest != now:
                words = f"{later}; those with the SHA-256 {brief(digest)} are not there any more"
                yield Discrepancy("replaced", f"data file {path}", words, "data", is_note=True)
        if now == NO_FILE:
            remedies = [f"; the same data are in {other}" for other, digest in digests.items() if digest == last]
            if FETCHED.match(recorded[last]):
                remedies.append(f"; it can be fetched again from {recorded[last]}")
            words = f"it is gone, {brief(last)} was recorded{''.join(remedies[:1])}"
            yield Discrepancy("missing", f"data file {path}", words, "data", is_note=bool(remedies))
        elif now != last:
            kind, words = other_digest(now, last)
            yield Discrepancy(kind, f"data file {path}", words, "data")

    def _by_last_use(self, path: str) -> dict[str, str]:
        """Return a file's digests, with their sources, in the order in which runs last began with them.

        Not in that of the ledger: it tells when runs ended, and a slow one may have read what was replaced long ago.
        """

        def last_use(digest: str) -> str:
            return max(self.started[run] for run in self.readers[path, digest])

        recorded = self.files[path]
        return {digest: recorded[digest] for digest in sorted(recorded, key=last_use)}


def all_data(auditor: RunAuditor, ledger: Ledger) -> DataFiles:
    """Return the raw files of all runs that the ledger vouches for, and of its own entries."""
    data = DataFiles()
    for entry in auditor.entries.values():
        data.take(auditor.manifest(entry))
    data.take_entries(ledger)
    return data


def data_sections(manifest: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what a manifest tells of its data sets: one for a cell, several for an experiment."""
    data, uri = manifest.get("data", []), manifest["run"]["artifact_uri"]
    sections = data if isinstance(data, list) else [data]
    return [section | {"raw": where_they_lie(section["raw"], uri)} for section in sections]


def where_they_lie(raw: list[dict[str, Any]], uri: str) -> list[dict[str, Any]]:
    """Return raw files with the paths where they lie now: a folder may have been moved or copied with its data."""
    return [file | {"path": _path_now(file["path"], uri)} for file in raw]


def found_again(ledger: Ledger) -> Iterator[tuple[LedgerEntry, list[dict[str, Any]]]]:
    """Yield the entries of data that were found again in other bytes, with their files; of others', none."""
    for entry in ledger.entries():
        raw = entry.data.get("raw")
        files = [one for one in raw if _is_raw_file(one)] if isinstance(raw, list) else []
        if entry.kind == "data" and files and files == raw:
            yield entry, files


def _is_raw_file(one: Any) -> bool:
    return isinstance(one, dict) and one.keys() == RAW and all(isinstance(one[n], str) for n in RAW - {"size_bytes"})


def _path_now(recorded: str, uri: str) -> str:
    now = store.lies_now(Path(recorded), uri)
    return str(now) if is_there(now) else recorded


def odd_arrays(section: dict[str, Any]) -> Iterator[Discrepancy]:
    """Convert a data set once more and yield what came out otherwise than recorded."""
    from tasks.convert import convert  # Prefect and all readers, which take seconds

    try:
        found = convert.fn(*recorded_source(section))
    except (BadInput, RunFailed) as error:
        yield Discrepancy("unreadable", f"data set {section['name']}", str(error), "conversion")
        return
    for part in ("X", "y"):
        digest, recorded = getattr(found, f"{part}_sha256"), section[f"{part}_sha256"]
        if digest != recorded:
            words = f"the conversion's {part} has the SHA-256 {brief(digest)}, {brief(recorded)} was recorded"
            yield Discrepancy("changed", f"data set {section['name']}, {part}", words, "conversion")


def recorded_source(section: dict[str, Any]) -> tuple[RawFile, ConversionRule]:
    """Return the raw file of a recorded data set, and the rule that was applied to it."""
    parts = (part | {"path": Path(part["path"])} for part in reversed(section["raw"]))
    raw = joined(RawFile(name=section["name"], **part) for part in parts)
    return raw, TypeAdapter(ConversionRule).validate_python(section["conversion"])


# The registry -----------------------------------------------------------------------------------------------------


def registry_faults(client: MlflowClient, ledger: Ledger, auditor: RunAuditor) -> Iterator[Discrepancy]:
    """Yield what the registry tells otherwise than the ledger, for every model of ours."""
    try:
        models = models_of(client, ledger)
    except RunFailed as error:  # the note on what was under way is spoilt
        yield Discrepancy("malformed", "ledger intent.json", str(error), "registry")
        return
    except Exception as error:  # one row that MLflow cannot have written is enough
        words = f"MLflow cannot list its models: {in_short(error)}"
        yield Discrepancy("unreadable", "registry", words, "registry")
        return
    elsewhere, told = Counter[str](), _told_here(ledger)
    for model in models:
        is_ours = model in told and registry.stands(ledger, model)
        if not is_ours and (place := registry.place_of(registry.versions(client, model))):
            elsewhere[place] += 1
            continue
        auditor.counts["models"] += 1
        yield from model_faults(client, ledger, model, auditor)
    yield from _told_elsewhere("model", elsewhere)


def model_faults(client: MlflowClient, ledger: Ledger, model: str, auditor: RunAuditor) -> tuple[Discrepancy, ...]:
    """Return what the registry tells of one model otherwise than the ledger, between two changes of models."""
    return registry.unmoved(ledger, lambda: _model_faults(client, ledger, model, auditor))


def _model_faults(client: MlflowClient, ledger: Ledger, model: str, auditor: RunAuditor) -> tuple[Discrepancy, ...]:
    try:
        seen = registry.shown(client, model)
        told = registry.compare_shown(ledger, model, seen)
        found = (Discrepancy(o.kind, o.subject, o.message, "registry", is_note=o.is_note) for o in told)
        odd_places = _odd_places(client, ledger, model, seen.versions)
        return (*found, *odd_places, *_odd_origins(ledger, model, seen.versions, auditor))
    except Exception as error:  # whatever MLflow raises at rows that it cannot have written
        words = f"MLflow cannot show it: {in_short(error)}"
        return (Discrepancy("unreadable", model, words, "registry"),)


def _odd_places(client: MlflowClient, ledger: Ledger, model: str, there: tuple[Version, ...]) -> Iterator[Discrepancy]:
    """Yield the versions that are loaded from elsewhere than they were registered from, or not ready to be loaded."""
    registered = registry.registered(ledger, model)
    for version in there:
        subject = f"{model}/{version.number}"
        place = client.get_model_version_download_uri(model, str(version.number))
        source = registered.get(version.number, {}).get("source", place)
        if place != source:
            words = f"it is loaded from {place}, it was registered from {source}"
            yield Discrepancy("changed", subject, words, "registry", version.run_id)
        if version.status != "READY":
            words = f"its status is {version.status}, expected READY"
            yield Discrepancy("changed", subject, words, "registry", version.run_id)


def _odd_origins(ledger: Ledger, model: str, there: tuple[Version, ...], auditor: RunAuditor) -> Iterator[Discrepancy]:
    """Yield the versions that were registered as another model than their run made, by the run's own manifest.

    Else somebody could leave a signed run alone, and register other files, or a run that nothing vouches for.
    """
    numbers, told = {one.number for one in there}, registry.registered(ledger, model)
    for number, facts in sorted(told.items()):
        # one that ended since is told of by now, for it did so before its version was made
        entry = auditor.entries.get(facts["run_id"]) or ledger.last_of_runs().get(facts["run_id"])
        made = auditor.model_of(entry) if entry else {}
        then = {"manifest_sha256": entry and entry.data.get("manifest_sha256")} | made
        for name, value in then.items() if number in numbers else ():
            now = facts.get(name) or facts.get(f"{registry.PREFIX}{name}")
            if now != value:
                words = f"it was registered with the {name} {now}, its run {facts['run_id'][:8]} has {value or 'none'}"
                yield Discrepancy("changed", f"{model}/{number}", words, "registry", facts["run_id"])


def models_of(client: MlflowClient, ledger: Ledger) -> list[str]:
    """Return the models that the ledger tells of, or that have a version which says that it is ours."""
    told = _told_here(ledger)
    others = (name for name in registry.models(client) if name not in told)
    return sorted(told | {name for name in others if registry.claimed(registry.versions(client, name))})


def models_told(ledger: Ledger) -> set[str]:
    """Return the models that the ledger tells of."""
    return {entry.subject.rpartition("/")[0] for entry in ledger.entries() if entry.kind != "run"} - {""}


def _told_here(ledger: Ledger) -> set[str]:
    """Return them, and that of a change that is under way."""
    intent = registry.pending(ledger)
    return models_told(ledger) | ({intent.model} if intent else set())
