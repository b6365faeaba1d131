"""Retraining: what a retrain config says, whether anything has changed, and challenger against champion.

Both are judged on rows that neither was trained on: of those that the config holds out, the ones that the champion's
own config held out too. Which rows a config holds out hangs on what a row holds and on the seed alone
(`tasks.split.HeldOut`), so by the same rule and the same columns these are all of them, in every later version of the
data. Where rows have a time, the newest are held out, and the champion has not seen those that are later than what it
was trained on. Where too few are left, or the champion cannot be used at all, it stays, and the decision says so.
"""

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from pydantic import Field, field_validator

from aucsolvers.columns import as_numbers
from aucsolvers.process import one_blas_thread
from tasks import registry
from tasks.check import text_column
from tasks.classes import label_key
from tasks.configuration import (
    DatasetConfig,
    ExperimentConfig,
    MethodConfig,
    PreprocessingConfig,
    ValidationConfig,
    find_config,
    parse_config,
    resolve_paths,
)
from tasks.convert import load
from tasks.decide import NO_CHAMPION, Contender, Decision, Judged, Rules, decide
from tasks.drift import ScoreProfile, new_rows
from tasks.errors import BadInput, RunFailed
from tasks.facts import package_sha256
from tasks.imported import import_paths, own_modules
from tasks.ledger import canonical
from tasks.log import run_logger
from tasks.manifest import data_section
from tasks.manifests import read_manifest
from tasks.models import KeptModel, column_types
from tasks.predict import Rows, Source, bring_model
from tasks.registry import Version
from tasks.schema import NAME, Strict, parse, read_yaml
from tasks.split import lasting_keys
from tasks.stage import stage
from tasks.store import artifact_folder, ledger
from tasks.turns import turn
from tasks.unseen import (
    TRAINED,
    Past,
    Trained,
    failed,
    judge_unseen,
    named,
    other_roles,
    redated,
    renamed_groups,
    unseen_rows,
)
from tasks.values import Dataset, Finding, FittedModel, Split, Table
from tasks.verify import data_sections, found_again, where_they_lie

HELD_OUT = 0.25
PROFILE = "score_profile.json"  # of the held-out rows' scores on the day of training: what drift is measured from
PROFILED = "score_profile_rows.txt"  # those rows' keys, in hex, a line each: whatever else is held out has come since
NEW_PROFILE = "score_profile_new.json"  # of those of them alone that had come since the champion's day
CHANGED = {
    "data_sha256": "the data",
    "config_sha256": "the config",
    "package_sha256": "the code",
    "imported_sha256": "the imported code",
}
MOST_NAMED = 5  # columns that a message lists


class RetrainConfig(Strict):
    """What `aucflow retrain` does: one model, one method, one data set, and the rules for its promotion."""

    model: str = Field(pattern=NAME, max_length=100)
    data: DatasetConfig
    method: MethodConfig
    seed: int = Field(default=0, ge=0, lt=2**63, strict=True)
    validation: ValidationConfig = ValidationConfig(held_out=HELD_OUT)
    preprocessing: PreprocessingConfig = PreprocessingConfig()
    rules: Rules = Rules()
    workers: int = Field(default=1, ge=1, le=64, strict=True)
    offline: bool = Field(default=False, strict=True)

    @field_validator("validation", mode="before")
    @classmethod
    def _hold_out(cls, section: Any) -> Any:
        return {"held_out": HELD_OUT} | section if isinstance(section, dict) else section

    @field_validator("validation")
    @classmethod
    def _some_held_out(cls, validation: ValidationConfig) -> ValidationConfig:
        if not validation.held_out:
            raise ValueError("Expected held_out > 0, got 0: a decision needs rows that no model has seen. Raise it.")
        return validation

    @property
    def experiment(self) -> ExperimentConfig:
        """The experiment of one cell that trains the challenger."""
        tree = self.model_dump(include={"seed", "validation", "preprocessing", "workers", "offline"})
        tree |= {"name": self.model, "datasets": [self.data.model_dump()], "methods": [self.method.model_dump()]}
        return parse_config(tree, f"model {self.model}")

    @property
    def sha256(self) -> str:
        """The digest of what the outcome hangs on: not of how many work on it, or whether they may fetch."""
        tree = self.model_dump(mode="json", exclude={"workers", "offline"})
        for role in ("group", "time", "gap", "categories"):  # configs are older, and the same ones as they were
            if not tree["data"][role]:
                del tree["data"][role]
        return hashlib.sha256(canonical(tree)).hexdigest()


def load_retrain_config(name_or_path: str, **overrides: Any) -> RetrainConfig:
    """Return the validated config of a file, or of a shipped one by name; its files are beside it."""
    path = find_config(name_or_path, "retrain")
    tree = read_yaml(path)
    if not isinstance(tree, dict):
        raise BadInput(f"{path}: expected keys such as model, data and method, got none. See configs/retrain.")
    (data,) = resolve_paths({"datasets": [tree.get("data")]}, path.resolve().parent)["datasets"]
    return parse(RetrainConfig, tree | {"data": data} | overrides, str(path), path, overrides)


# Has anything changed? --------------------------------------------------------------------------------------------


def fingerprint(config: RetrainConfig, dataset: Dataset) -> dict[str, str]:
    """Return the digests of data, config and code, also the user's own: a challenger of the same would be the same."""
    found = {"data_sha256": dataset.sha256, "config_sha256": config.sha256, "package_sha256": package_sha256()}
    imported = own_modules(import_paths(config.method.model_dump()))
    return found | ({"imported_sha256": hashlib.sha256(canonical(imported)).hexdigest()} if imported else {})


def what_changed(versions: tuple[Version, ...], now: dict[str, str]) -> str:
    """Return what differs from the newest version's training, in words; an empty text if nothing does."""
    if not versions:
        return "there is no version yet"
    before = {name: versions[-1].tags.get(f"{registry.PREFIX}{name}") for name in CHANGED}
    differing = [words for name, words in CHANGED.items() if before[name] != now.get(name)]
    return f"{' and '.join(differing)} changed since version {versions[-1].number}" if differing else ""


def record_other_bytes(client: MlflowClient, newest: Version, dataset: Dataset) -> None:
    """Tell the ledger that a file holds the newest version's data in other bytes by now: else it counts as changed."""
    book, raw = ledger(), data_section(dataset)["raw"]
    try:
        manifest, _ = read_manifest(client, newest.run_id)
    except BadInput:  # it is gone, which an audit tells
        return
    known = [(manifest["run"]["started"], section["raw"]) for section in data_sections(manifest)]
    uri = manifest["run"]["artifact_uri"]
    known += [(e.time, where_they_lie(files, uri)) for e, files in found_again(book) if e.subject == dataset.sha256]
    _, last = max(known, key=lambda one: one[0])
    if {file["path"]: file["sha256"] for file in raw} != {file["path"]: file["sha256"] for file in last}:
        book.append("data", dataset.sha256, "the same data in other bytes", {"name": dataset.name, "raw": raw})


def alone(model: str) -> AbstractContextManager[None]:
    """Let one process at a time retrain a model in this folder; a second one is refused and told of the first."""
    return turn(
        ledger().folder / f"retrain {model}",
        0,
        lambda other: (
            f"Expected to be the only retraining of '{model}' in this folder, got one that {other} is at. "
            "Wait for it or stop it, then retrain again."
        ),
    )


# Challenger against champion --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Opponent:
    """The champion as an opponent: its scores of the rows that both are judged on, None if it cannot be compared."""

    version: Version
    rows: np.ndarray  # positions: held out by the config and, if the two are compared, unseen by the champion too
    judged: tuple[Judged, ...]  # what was found on the way; the first that failed is why there is no comparison
    contender: Contender | None


@dataclass(frozen=True)
class Profiles:
    """What a retraining keeps of its challenger's scores, for the next one; None what it did not, or cannot be read."""

    of_all: ScoreProfile | None = None  # the held-out rows
    of_new: ScoreProfile | None = None  # those of them alone that have come since the champion's day
    row_keys: np.ndarray | None = None  # of all
    trained: Trained | None = None  # what is known of the rows trained on, where these have times

    def as_files(self) -> dict[str, str]:
        """Return what goes into the parent run, beside the decision: the texts of files by their names."""
        found = {PROFILE: self.of_all, NEW_PROFILE: self.of_new}
        texts = {name: json.dumps(profile.as_dict()) for name, profile in found.items() if profile is not None}
        if self.of_all is not None and self.row_keys is not None:
            texts[PROFILED] = np.sort(self.row_keys).astype(">u8").tobytes().hex("\n", 8)
        if self.trained is not None:
            texts[TRAINED] = self.trained.as_json()
        return texts

    @classmethod
    def read(cls, folder: Path) -> "Profiles":
        """Return what was written there; retrainings of earlier days kept the first alone."""
        of_all = _read(folder / PROFILE, _as_profile)
        if of_all is None:
            return cls()
        return cls(
            of_all,
            _read(folder / NEW_PROFILE, _as_profile, optional=True),
            _read(folder / PROFILED, partial(_as_keys, of_all.n_rows), optional=True),
            _read(folder / TRAINED, Trained.from_json, optional=True),
        )


def _read(file: Path, parse_text: Callable[[str], Any], optional: bool = False) -> Any:
    """Return what is in a file, None if that cannot be read."""
    if optional and not file.exists():
        return None
    try:
        return parse_text(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        run_logger().warning("the champion's %s cannot be read: %s", file.name, error)
        return None


def _as_profile(text: str) -> ScoreProfile:
    return ScoreProfile.from_dict(json.loads(text))


def _as_keys(n_rows: int, text: str) -> np.ndarray:
    keys = np.frombuffer(bytes.fromhex(text), dtype=">u8").astype(np.uint64)
    if len(keys) != n_rows:
        raise BadInput(f"Expected the keys of {n_rows:,} rows in {PROFILED}, got {len(keys):,}.")
    return keys


@dataclass(frozen=True)
class Challenge:
    """The decision, and what is kept of the challenger's scores of the held-out rows."""

    decision: Decision
    kept: Profiles


@stage(name="decide", task_run_name="decide {config.model}")
def challenge(
    config: RetrainConfig,
    dataset: Dataset,
    held_out: Split,
    final: FittedModel,
    findings: tuple[Finding, ...],
    opponent: Opponent | None,
    replace_champion: bool = False,
) -> Challenge:
    """Decide between the model just trained and the champion, on the same rows."""
    table = load(dataset)
    X = table.rows(held_out.test).X
    with one_blas_thread():  # as the champion's
        scores = final.pipeline.decision_function(X)
    rows = held_out.test if opponent is None else opponent.rows
    challenger = Contender(scores[np.isin(held_out.test, rows)], final.threshold)
    decision = _decision(config.rules, table.rows(rows), challenger, findings, opponent, replace_champion)
    for judged in decision.judged:
        run_logger().info("%s: %s", "passed" if judged.passed else "failed", judged.reason)
    run_logger().info("%s: %s", "promoted" if decision.promote else "not promoted", decision.reason)
    new = None if opponent is None or opponent.contender is None else opponent.contender.new
    of_new = None if new is None else _profile(challenger.scores[new])
    trained = None if table.times is None else Trained.of(table, held_out.train)
    return Challenge(decision, Profiles(_profile(scores), of_new, lasting_keys(X), trained))


def _profile(scores: np.ndarray) -> ScoreProfile | None:
    return ScoreProfile.of(scores) if len(scores) and np.isfinite(scores).all() else None


def _decision(
    rules: Rules,
    table: Table,
    challenger: Contender,
    findings: tuple[Finding, ...],
    opponent: Opponent | None,
    replace_champion: bool,
) -> Decision:
    """Return the decision. A champion that cannot be compared stays unless it is to be replaced; the reason says so."""
    if opponent is not None and opponent.contender is not None:
        return decide(rules, table.y, challenger, opponent.contender, findings, table.groups, opponent.judged)
    judged = decide(rules, table.y, challenger, None, findings, table.groups)
    if opponent is None:
        return judged
    told = (*opponent.judged, *judged.judged)
    obstacle = next(found.reason for found in opponent.judged if not found.passed)
    if not replace_champion:
        rest = "Run again with --replace-champion to promote without comparing."
        if not judged.promote:
            rest = f"Without comparing it would not be promoted either: {_lowered(judged.reason)}"
        return Decision(False, f"{obstacle} {rest}", told)
    words = judged.reason.replace(NO_CHAMPION, "The", 1)
    return Decision(judged.promote, f"Compared with no champion, as asked for: {_lowered(obstacle)} {words}", told)


def _lowered(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:]


def meet_champion(
    client: MlflowClient, champion: Version, config: RetrainConfig, dataset: Dataset, held_out: Split
) -> Opponent:
    """Score the held-out rows with the champion: those that it has not seen, if it is there and they fit it."""
    whole = load(dataset)
    table = whole.rows(held_out.test)
    try:
        model, manifest = _bring(client, champion)
    except (BadInput, RunFailed, MlflowException) as error:
        lost = f"{named(champion)} cannot be used: {error}"
        return Opponent(champion, held_out.test, (failed("champion_available", lost),), None)
    misfits = tuple(_misfits(champion, model, manifest, dataset, whole))
    if misfits:
        return Opponent(champion, held_out.test, misfits, None)
    whole = replace(whole, X=as_trained(model, whole.X))
    kept, keys = read_profiles(client, manifest), lasting_keys(whole.X)
    past = Past(champion, manifest, kept.trained, kept.row_keys)
    if moved := redated(past, whole, keys, held_out.test):
        return Opponent(champion, held_out.test, (moved,), None)
    unseen = unseen_rows(past, whole, keys, held_out.test, config.validation.grouped)
    fair = judge_unseen(past, config, whole, table, unseen)
    if not fair.passed:
        return Opponent(champion, held_out.test, (fair,), None)
    if renamed := renamed_groups(past, whole, keys):
        return Opponent(champion, held_out.test, (renamed,), None)
    scores = np.asarray(model.ranker.predict(as_trained(model, table.X)), dtype=np.float64)[unseen]
    earlier = manifest["folds"][-1].get("test", {}).get("auc")
    new = None if kept.row_keys is None else new_rows(kept.row_keys, keys[held_out.test])[unseen]
    contender = Contender(scores, model.ranker.threshold, kept.of_all, new, kept.of_new, earlier)
    return Opponent(champion, held_out.test[unseen], (fair,), contender)


def _bring(client: MlflowClient, champion: Version) -> tuple[KeptModel, dict[str, Any]]:
    """Return the champion's model and manifest, both as they were when it was registered.

    The package of its solver is trusted: a config named it when the champion was made.
    """
    champion = registry.as_registered(ledger(), champion)
    source = Source(f"{champion.model}/{champion.number}", champion.source, champion.run_id, champion.tags)
    manifest, digest = read_manifest(client, champion.run_id)
    if champion.tags.get(f"{registry.PREFIX}manifest_sha256") != digest:
        raise RunFailed(
            f"Expected the manifest of run {champion.run_id[:8]} as registered, got another. "
            "Run `aucflow audit verify`."
        )
    model = bring_model(client, source, tuple(path.partition(".")[0] for path in import_paths(manifest["method"])))
    if model.changed:
        raise RunFailed(
            f"Expected the code of {', '.join(model.changed)} that it was made with, got another, which would not "
            "score as it did. Go back to that, or let the challenger follow it with --replace-champion."
        )
    return model, manifest


def read_profiles(client: MlflowClient, manifest: dict[str, Any]) -> Profiles:
    """Return what the retraining that made a model kept of its scores; nothing if it is gone."""
    try:
        retraining = client.get_run(manifest["run"]["parents"][-1])
        with artifact_folder(retraining.info.artifact_uri) as folder:
            return Profiles.read(folder)
    except (MlflowException, OSError, LookupError, ValueError) as error:
        run_logger().warning("the champion's %s cannot be read: %s", PROFILE, error)
        return Profiles()


def as_trained(model: KeptModel, X: Rows) -> Rows:
    """Return the columns that a model knows, in its order; of sparse rows as many, what none of them has being zero."""
    if isinstance(X, pd.DataFrame):
        return X if list(X) == list(model.columns) else X[list(model.columns)]
    known = X[:, : model.n_features].copy()
    known.resize(X.shape[0], model.n_features)
    return known


def _misfits(
    champion: Version, model: KeptModel, manifest: dict[str, Any], dataset: Dataset, table: Table
) -> Iterator[Judged]:
    """Yield what makes the champion's scores of these rows impossible, or those of another question."""
    yield from other_roles(champion, manifest, dataset, table)
    other = _other_features(model, dataset, table)
    if other:
        words = f"{named(champion)} was trained on other features: {other}."
        yield failed("same_features", " ".join([words, *_spoilt(model, table)]))
    theirs, ours = model.ranker.positive_label, dataset.provenance.positive_label
    if new := _new_labels(manifest["data"]["conversion"].get("label_sides", {}), dataset):
        yield failed(
            "same_labels",
            f"{named(champion)} was trained on two labels, and the data have more: {new}. Mend the rows or, if "
            f"whatever is not '{ours}' is negative, say so in place of positive: conversion: {{rule: one_vs_rest, "
            f"positive: '{ours}'}}.",
        )
    elif theirs != ours:
        yield failed(
            "same_labels",
            f"{named(champion)} detects '{theirs}', and the positive class of the data is '{ours}'. Name the label in "
            f"the config (positive: '{theirs}') or, if '{ours}' is meant, name it another model.",
        )


def _new_labels(known: dict[str, int], dataset: Dataset) -> str:
    """Return, with their rows, labels that came to the two of a model's data; a rule may be for any that come."""
    counts = dataset.provenance.label_counts
    trained = {label_key(label).casefold() for label, side in known.items() if side}
    if len(trained) != 2 or len(counts) <= 2 or dataset.rule.conversion != "default":
        return ""
    new = {label: rows for label, rows in counts.items() if label_key(label).casefold() not in trained}
    return _listed([f"'{label}' ({rows:,})" for label, rows in new.items()])


def _other_features(model: KeptModel, dataset: Dataset, table: Table) -> str:
    """Return what a model knows and the data have not, or have as another type; an empty text if all is there."""
    if dataset.is_sparse or model.ranker.sparse:
        kinds = {True: "svmlight data", False: "a table"}
        if dataset.is_sparse != model.ranker.sparse:
            return f"on {kinds[model.ranker.sparse]}, and this is {kinds[dataset.is_sparse]}"
        then, now = model.layout.index_base, dataset.layout.index_base
        return "" if then == now else f"they count from {then}, and those of the data from {now}"
    types = column_types(table)
    lost = [name for name in model.columns if name not in types]
    known = {name: kind for name, kind in model.columns.items() if name in types}
    retyped = [
        f"{name} ({types[name]})" for name, kind in known.items() if not _takes(kind, types[name], table.X[name])
    ]
    new = [name for name in types if name not in model.columns] if lost else []
    told = (("the data lack", lost), ("new are", new), ("of another type are", retyped))
    return "; ".join(f"{words} {_listed(names)}" for words, names in told if names)


def _takes(kind: str, now: str, column: pd.Series) -> bool:
    """Tell whether a model of a column of some kind takes what the column is now."""
    if now == kind or kind == "category":
        return True
    if now != "category":
        return False
    if kind == "number":
        return as_numbers(column.to_numpy())[1] is None
    # of texts: spelt as they were then, unless zeros have gone from some
    return not column.dropna().str.fullmatch(r"[+-]?[0-9]+").any()


def _spoilt(model: KeptModel, table: Table) -> Iterator[str]:
    """Yield of columns of numbers that are texts by now why they are, if a few values make them so."""
    for name, kind in column_types(table).items():
        if kind == "text" and model.columns.get(name) == "number":
            found = text_column(name, table.X[name])
            if found.severity == "warning":
                yield found.message


def _listed(names: list[str]) -> str:
    return ", ".join(names[:MOST_NAMED]) + " …" * (len(names) > MOST_NAMED)
