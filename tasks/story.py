"""The story of one thing: from a champion back through its decision and its run to the raw file, each line checked now.

Every line tells what was recorded, the digests that stand for it, and whether it is still so. What takes a computation
of its own (split, sample, solver) is told and not checked here: that is what `aucflow replay` is for.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Run

from tasks import registry
from tasks.errors import BadInput, nearest
from tasks.facts import lock_sha256, package_sha256
from tasks.imported import changed_modules
from tasks.ledger import Ledger, LedgerEntry
from tasks.manifests import SHORTEST, find_run
from tasks.moments import read_again, shown
from tasks.pages import template
from tasks.store import told_elsewhere
from tasks.verify import (
    DataFiles,
    all_data,
    cells_of,
    data_sections,
    ledger_faults,
    model_faults,
    models_of,
    odd_arrays,
    odd_cell,
)
from tasks.verify_runs import CheckedRun, Discrepancy, RunAuditor, name_of

OK, CHANGED, MISSING, UNREADABLE, REPLACED = "ok", "changed", "missing", "unreadable", "replaced"
NOT_CHECKED = "not checked"
PASSED = "passed "  # how the text of a rule's line begins
# by kind of discrepancy; all others: CHANGED
STATES = {"missing": MISSING, "removed": MISSING, "unreadable": UNREADABLE, "replaced": REPLACED}
QUICK_BYTES = 64 << 20  # raw files up to this size are converted once more without being asked
OF_A_RUN = ("run", "manifest", "store", "model")  # parts of what is found that its own line stands for
MOST_CELLS = 18  # of an experiment; one screen has no more lines


@dataclass(frozen=True)
class Line:
    """One line of a story: what was recorded, its digests, and how that stands now."""

    label: str
    text: str
    digests: dict[str, str] = field(default_factory=dict)
    state: str = ""  # one of those above; nothing where there is no more to check than the manifest
    why: str = ""


@dataclass(frozen=True)
class Story:
    """A thing's lines, the newest first, and all that was found on the way."""

    target: str
    lines: tuple[Line, ...]
    found: tuple[Discrepancy, ...]

    @property
    def findings(self) -> tuple[Discrepancy, ...]:
        return tuple(one for one in self.found if not one.is_note)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        parts = {"lines": [asdict(line) for line in self.lines], "findings": [asdict(one) for one in self.found]}
        return {"target": self.target, **parts, "ok": not self.findings}


def tell(client: MlflowClient, ledger: Ledger, target: str, deep: bool = False) -> Story:
    """Return the story of MODEL@ALIAS, MODEL/VERSION, a run, or an experiment.

    Raises
    ------
    BadInput
        If the target names nothing that the store or the ledger knows.
    """
    auditor = RunAuditor(client, ledger)
    faults = tuple(ledger_faults(ledger))
    version = _version(client, ledger, target)
    lines: list[Line] = []
    found = list(faults)
    if version is None:
        run_id = _run_id(client, ledger, target)
    elif why := _not_ours(client, ledger, version[0]):
        run_id = next(one.run_id for one in registry.versions(client, version[0]) if one.number == version[1])
        lines.append(Line("register", f"{version[0]}/{version[1]}", {}, NOT_CHECKED, why))
    else:
        found += model_faults(client, ledger, version[0], auditor)
        entries = [entry for entry in ledger.entries() if entry.subject == "/".join(map(str, version))]
        registered = {one.number: one.run_id for one in registry.versions(client, version[0])}
        run_id = next((e.data["run_id"] for e in entries if e.data.get("run_id")), registered.get(version[1]) or "")
        lines += _of_version(ledger, version, entries, tuple(found))
    checks = _check(auditor, ledger, run_id, deep)
    lines += (*_of_run(auditor, run_id, checks, deep), _of_ledger(ledger, faults))
    return Story(target, tuple(lines), (*found, *checks.found))


# The target -------------------------------------------------------------------------------------------------------


def _version(client: MlflowClient, ledger: Ledger, target: str) -> tuple[str, int] | None:
    """Return model and number if the target is MODEL@ALIAS or MODEL/VERSION of a model that is known."""
    spelt = re.fullmatch(r"(.+)(?:@([\w-]+)|/(\d+))", target)
    if spelt is None:
        return None
    model, alias, number = spelt.groups()
    known = sorted({*models_of(client, ledger), *registry.models(client)})
    if model not in known:
        if alias is None:  # a name with a slash may be an experiment's
            return None
        raise BadInput(
            f"Expected a model, got '{model}', which neither registry nor ledger knows.{nearest(model, known)} "
            "See `aucflow list models`."
        )
    if number is None:
        return model, _numbered(client, ledger, model, alias)
    told = any(entry.subject == f"{model}/{number}" for entry in ledger.entries())
    if not told and int(number) not in {one.number for one in registry.versions(client, model)}:
        raise BadInput(
            f"Expected a version of '{model}', got {number}, which neither registry nor ledger knows. "
            "See `aucflow list models`."
        )
    return model, int(number)


def _not_ours(client: MlflowClient, ledger: Ledger, model: str) -> str:
    """Return why a model is not to be held against this folder's ledger, nothing if it is."""
    if model not in models_of(client, ledger):
        return "by something else than aucflow: the ledger knows no version of this model"
    place = registry.told_by(client, ledger, model)
    return f"the ledger in {place} tells of it" if place else ""


def _run_id(client: MlflowClient, ledger: Ledger, target: str) -> str:
    """Return the id of a run that the store has or, where it is gone from there, that the ledger tells of."""
    try:
        return find_run(client, target).info.run_id
    except BadInput:
        told = [run_id for run_id in ledger.last_of_runs() if run_id.startswith(target)]
        if len(target) < SHORTEST or len(told) != 1:
            raise
        return told[0]


def _numbered(client: MlflowClient, ledger: Ledger, model: str, alias: str) -> int:
    """Return the version under an alias: as the registry has it, else, for the champion, as the ledger has it."""
    held = {name: one.number for one in registry.versions(client, model) for name in one.aliases}
    reigns = registry.history(ledger, model)
    if alias == registry.CHAMPION and reigns and reigns[-1].until is None:
        held.setdefault(alias, reigns[-1].number)
    if alias not in held:
        raise BadInput(
            f"Expected an alias of '{model}' out of {', '.join(sorted(held)) or 'none'}; got '{alias}'. "
            f"Name a version: {model}/1."
        )
    return held[alias]


# A version --------------------------------------------------------------------------------------------------------


def _of_version(
    ledger: Ledger,
    version: tuple[str, int],
    entries: list[LedgerEntry],
    found: tuple[Discrepancy, ...],
) -> Iterator[Line]:
    """Yield why a version serves, or does not, and when it was registered."""
    model, number = version
    subject = f"{model}/{number}"
    for reign in reversed(registry.history(ledger, model)):
        if reign.number == number:
            until = "" if reign.until is None else f", until {_time(reign.until.isoformat())}"
            text = f"version {number} of {model} since {_time(reign.since.isoformat())}{until}: {reign.reason}"
            state, why = _state(found, ("ledger",), f"{model}@{registry.CHAMPION}")
            yield Line("champion", text, {f"entry {reign.seq}": reign.digest}, state, why)
    for entry in entries:
        if entry.kind == "register":
            yield from _of_decision(entry)
        if entry.kind in ("register", "delete", "repair", "settle"):
            state, why = _state(found, ("ledger",), subject)
            text = f"{subject} on {_time(entry.time)}: {entry.reason}"
            yield Line(entry.kind, text, {f"entry {entry.seq}": entry.digest}, state, why)


def _of_decision(entry: LedgerEntry) -> Iterator[Line]:
    """Yield the rules that a decision was made by, each with its numbers."""
    for judged in (entry.data.get("decision") or {}).get("judged", ()):
        word = PASSED if judged.get("passed") else "failed "
        yield Line("rule", f"{word}{judged.get('rule')}: {judged.get('reason')}")


# A run ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Checks:
    """A run's check, with what it was made of, and with its cells if it is an experiment's."""

    run: CheckedRun
    data: tuple[Discrepancy, ...]
    cells: dict[str, tuple[Discrepancy, ...]]  # by run id

    @property
    def found(self) -> tuple[Discrepancy, ...]:
        return (*self.run.found, *self.data, *(one for found in self.cells.values() for one in found))


def _check(auditor: RunAuditor, ledger: Ledger, run_id: str, deep: bool) -> _Checks:
    entry = ledger.last_of_runs().get(run_id)
    run = auditor.find(run_id) if run_id else None
    if entry is None:
        return _Checks(CheckedRun(run, None, _without_entry(run_id, run)), (), {})
    checked = auditor.check(entry, run)
    cells = {}
    for cell in cells_of(checked.manifest)[:MOST_CELLS]:
        own = auditor.entries.get(cell["run_id"])
        found = auditor.check(own, auditor.find(cell["run_id"])).found if own else ()
        cells[cell["run_id"]] = (*odd_cell(cell, auditor), *found)
    return _Checks(checked, tuple(_data_faults(auditor, ledger, checked, deep)), cells)


def _data_faults(auditor: RunAuditor, ledger: Ledger, checked: CheckedRun, deep: bool) -> list[Discrepancy]:
    """Return what is wrong with the data that a run was made of."""
    data = DataFiles()
    data.take(checked.manifest)
    found = list(data.check())
    if any(not one.is_note for one in found):  # or replaced or moved, and a later run was made of what is there now
        # all, not the later entries: an entry tells of a run's end, and a later run may have ended before
        data = all_data(auditor, ledger)
        own = {f"data file {file['path']}" for section in _sections(checked) for file in section["raw"]}
        digests = {file["sha256"][:16] for section in _sections(checked) for file in section["raw"]}
        found = [one for one in data.check() if one.subject in own and any(d in one.message for d in digests)]
    if not found:
        found += [fault for s in _sections(checked) if deep or _is_quick(s) for fault in odd_arrays(s)]
    return found


def _without_entry(run_id: str, run: Run | None) -> tuple[Discrepancy, ...]:
    if run is None:
        words = "neither store nor ledger knows it" if run_id else "neither registry nor ledger says which it was"
        return (Discrepancy("missing", f"run {run_id[:8]}".rstrip(), words, "run", run_id),)
    if place := told_elsewhere(run.data.tags):
        words = f"the ledger in {place} tells of it: run `aucflow audit` there"
        return (Discrepancy("elsewhere", name_of(run), words, "run", run.info.run_id, True),)
    is_open = run.info.status == "RUNNING"
    words = (
        "it has not ended yet" if is_open else f"the store has it as {run.info.status}, the ledger has no entry of it"
    )
    kind = "interrupted" if is_open else "inserted"
    return (Discrepancy(kind, name_of(run), words, "run", run.info.run_id, is_open),)


def _sections(checked: CheckedRun) -> list[dict[str, Any]]:
    return data_sections(checked.manifest) if checked.manifest else []


def _is_quick(section: dict[str, Any]) -> bool:
    return sum(file["size_bytes"] for file in section["raw"]) <= QUICK_BYTES


def _of_run(auditor: RunAuditor, run_id: str, checks: _Checks, deep: bool) -> Iterator[Line]:
    """Yield what a run was made of and what came out of it, back to the raw file."""
    entry, manifest, found = auditor.entries.get(run_id), checks.run.manifest, checks.run.found
    digests = {"manifest": entry.data["manifest_sha256"]} if entry and entry.data.get("manifest_sha256") else {}
    has_results = manifest is not None and manifest["kind"] == "run" and bool(manifest["folds"])
    state, why = _state(found, ("run", "manifest") if has_results else OF_A_RUN)
    yield Line("run", _run_in_words(run_id, entry, checks.run.run), digests, state, why)
    if manifest is None:
        return
    if has_results:
        yield from _of_results(manifest, found)
    else:
        yield from _of_cells(manifest, checks.cells)
    files = {one["path"]: one["sha256"] for one in manifest["artifacts"]}
    size = sum(one["size_bytes"] for one in manifest["artifacts"])
    state, why = _state(found, ("files",))
    yield Line("files", f"{count(len(files), 'file')}, {size / 1e6:.2f} MB", files, state, why)
    if has_results:
        yield from _of_fits(manifest)
    for section in data_sections(manifest):
        yield from _of_data(section, checks.data, deep)
    yield from _of_code(manifest)


def _run_in_words(run_id: str, entry: LedgerEntry | None, run: Run | None) -> str:
    if entry is not None:
        told = entry.data
        reason = "" if entry.reason == "finished" else f": {entry.reason}"
        return f"{told.get('name')} ({run_id[:8]}), {told.get('status')} {_time(entry.time)}{reason}"
    return f"{run.info.run_name} ({run_id[:8]}), {run.info.status}" if run else "unknown"


def _of_cells(manifest: dict[str, Any], found: dict[str, tuple[Discrepancy, ...]]) -> Iterator[Line]:
    """Yield an experiment's cells, each with the digest of its own manifest; a cell has none."""
    cells = manifest.get("cells", [])
    for cell in cells[:MOST_CELLS]:
        state, why = _state(found[cell["run_id"]], (*OF_A_RUN, "files"))
        failure = f": {cell['error']}" if cell["error"] else ""
        text = f"{cell['dataset']} {cell['method']} ({cell['run_id'][:8]}){failure}"
        yield Line("cell", text, {"manifest": cell["manifest_sha256"]}, state, why)
    if len(cells) > MOST_CELLS:
        words = f"and {len(cells) - MOST_CELLS:,} more"
        yield Line("cells", words, {}, NOT_CHECKED, "`aucflow audit verify` checks them all")


def _of_results(manifest: dict[str, Any], found: tuple[Discrepancy, ...]) -> Iterator[Line]:
    """Yield the metrics and the model, as they were recorded and as MLflow shows them."""
    folds = [fold for fold in manifest["folds"] if fold["fold"] >= 0]
    scores = {f"scores of fold {fold['fold']}": fold["test_scores_sha256"] for fold in folds}
    auc, gmean = (_spread([fold["test"][name] for fold in folds]) for name in ("auc", "gmean"))
    state, why = _state(_with_files(found, "store", "run/numbers.npz"), ("store", "files"))
    yield Line("results", f"AUC {auc}, G-mean {gmean} over {count(len(folds), 'test fold')}", scores, state, why)
    final, model = manifest["folds"][-1], manifest["store"]["model"]
    if model:
        state, why = _state(_with_files(found, "model", "model/"), ("model", "files"))
        text = f"{model['model_id']}, threshold {final['threshold']:.6g}"
        files = {one["path"]: one["sha256"] for one in manifest["artifacts"] if one["path"].startswith("model/")}
        yield Line("model", text, {k: v for k, v in files.items() if k.endswith(".skops")}, state, why)


def _of_fits(manifest: dict[str, Any]) -> Iterator[Line]:
    """Yield solver, sample and split: what only a replay computes again."""
    run_id, folds = manifest["run"]["run_id"], manifest["folds"]
    final, why = folds[-1], f"`aucflow replay {run_id[:8]}` computes it again"
    solver, end = final["solver"].rpartition(".")[2], final["certificate"]
    chosen = ", ".join(
        f"{name}={value:.4g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in final["chosen"].items()
    )
    gap = "" if end["dual_gap"] is None else f", gap {end['dual_gap']:.1e}"
    after = f" after {count(end['n_iter'], 'iteration')}" if end["n_iter"] else ""  # an imported solver tells of none
    text = f"{solver}{f', chosen {chosen}' if chosen else ''}; {end['status']}{after}{gap}"
    yield Line("solver", text, _by_fold(folds, lambda fold: fold["model_sha256"]), NOT_CHECKED, why)
    sample = final["sample"]
    made = f", {sample['n_added']:,} made" if sample["n_added"] else ""
    text = f"{sample['scheme']}: {sample['n_kept']:,} rows kept{made}"
    yield Line("sample", text, _by_fold(folds, lambda fold: fold["sample"]["kept_sha256"]), NOT_CHECKED, why)
    splits = manifest["splits"]
    text = (
        f"{len(splits)} divisions; the first trains on {splits[0]['n_train']:,} rows, tests on {splits[0]['n_test']:,}"
    )
    if "trained_until" in splits[-1]:
        text += f"; the last model trains on rows until {shown(read_again(splits[-1]['trained_until']))}"
    trains = {f"training rows of fold {split['fold']}": split["train_sha256"] for split in splits}
    tests = {f"test rows of fold {split['fold']}": split["test_sha256"] for split in splits}
    yield Line("split", text, trains | tests, NOT_CHECKED, why)


def _by_fold(folds: list[dict[str, Any]], digest: Any) -> dict[str, str]:
    """Return a digest of each fold, the refit's first: it is the one that serves."""
    named = {f"fold {fold['fold']}": digest(fold) for fold in folds if fold["fold"] >= 0}
    return {"refit": digest(folds[-1])} | named


def _of_data(section: dict[str, Any], found: tuple[Discrepancy, ...], deep: bool) -> Iterator[Line]:
    """Yield a data set: its arrays, the rule that made them, and its raw files."""
    name = section["name"]
    state, why = _state(found, ("conversion",), f"data set {name}")
    if any(one.part == "data" for one in found):
        state, why = NOT_CHECKED, "there is no raw file to read as it was"
    elif not deep and not _is_quick(section):
        state, why = NOT_CHECKED, "large: --deep converts it again"
    text = f"{name}: {section['n_rows']:,} rows × {section['n_features']:,}, {section['n_pos']:,} positive"
    digests = {"X": section["X_sha256"], "y": section["y_sha256"], "both": section["sha256"]}
    yield Line("data set", text, digests, state, why)
    yield Line("conversion", section["conversion"]["in_words"])
    for file in section["raw"]:
        state, why = _state(found, ("data",), f"data file {file['path']}")
        source = file["source"] if file["source"] != file["path"] else ""
        words = f"{Path(file['path']).name}, {file['size_bytes']:,} bytes{f', from {source}' if source else ''}"
        yield Line("raw file", words, {file["path"]: file["sha256"]}, state, why)


def _of_code(manifest: dict[str, Any]) -> Iterator[Line]:
    """Yield which code ran where, and whether that is what is installed here now."""
    code, place = manifest["code"], manifest["environment"]
    commit = str(code["commit"])
    text = f"aucflow {code['version']}, commit {commit[:12]}{' with changes' if code['dirty'] == 'true' else ''}"
    imported = code.get("imported", {})
    same = code["package_sha256"] == package_sha256() and not changed_modules(imported)
    state, why = (OK, "") if same else (NOT_CHECKED, "other code is installed here now")
    yield Line("code", text, {"package": code["package_sha256"]} | imported, state, why)
    same = place["lock_sha256"] == lock_sha256()
    state, why = (OK, "") if same else (NOT_CHECKED, "other packages are installed here now")
    text = f"Python {place['python']}, {place['cpu']}"
    yield Line("environment", text, {"packages": place["lock_sha256"]}, state, why)


def _of_ledger(ledger: Ledger, faults: tuple[Discrepancy, ...]) -> Line:
    entries = ledger.entries()
    digests = {f"entry {entries[-1].seq}": entries[-1].digest} if entries else {}
    state, why = _state(faults, ("ledger",))
    return Line(
        "ledger",
        f"{count(len(entries), 'entr', 'y', 'ies')}, each with the digest of the one before",
        digests,
        state,
        why,
    )


# In words ---------------------------------------------------------------------------------------------------------


def _state(found: tuple[Discrepancy, ...], parts: tuple[str, ...], subject: str = "") -> tuple[str, str]:
    """Return how something stands, and why: by the first discrepancy of these parts, or of this subject.

    Findings go before notes, and what has not come to its end yet cannot be checked.
    """
    own = [one for one in found if one.part in parts and one.part != "ledger" and _is_about(one, subject)]
    own += [one for one in found if one.part == "registry" and subject and one.subject == subject]
    own += [one for one in found if one.part == "ledger" and "ledger" in parts and not one.is_note]
    if not own:
        return OK, ""
    first = min(own, key=lambda one: one.is_note)
    if first.is_note and first.kind in ("interrupted", "elsewhere"):
        return NOT_CHECKED, first.message
    return STATES.get(first.kind, CHANGED), first.message


def _with_files(found: tuple[Discrepancy, ...], part: str, path: str) -> tuple[Discrepancy, ...]:
    """Return what was found of this part, and of the artifacts whose path begins so."""
    starts = f", file {path}", f", {path}"  # that can be read, that cannot
    return tuple(
        one
        for one in found
        if one.part == part or (one.part == "files" and any(start in one.subject for start in starts))
    )


def _is_about(one: Discrepancy, subject: str) -> bool:
    """Tell whether something was found of a subject, or of a part of it; of another whose name begins so it is not."""
    return not subject or one.subject == subject or one.subject.startswith(f"{subject}, ")


def count(number: int, noun: str, one: str = "", many: str = "s") -> str:
    """Return a number of things, with their name's ending as it has to be.

    >>> count(1, "file"), count(2000, "entr", "y", "ies")
    ('1 file', '2,000 entries')
    """
    return f"{number:,} {noun}{one if number == 1 else many}"


def _spread(values: list[float]) -> str:
    return f"{mean(values):.4f}" + (f" ± {stdev(values):.4f}" if len(values) > 1 else "")


def _time(iso: str) -> str:
    return f"{iso[:10]} {iso[11:16]} UTC"


def render_page(story: Story) -> str:
    """Return the story as one self-contained page, with every digest in full: no link, no script."""
    return template("audit.html.j2").render(story=story)
