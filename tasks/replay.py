"""Replay: a run computed again from its manifest alone, and set beside what the manifest says of it, stage by stage.

Two claims can be made. With the same code, packages, Python, processor and BLAS every bit has to be the same (*exact*).
Elsewhere rounding differs, and with it the last digits: then the same rows have to be drawn and the same parameters
chosen, and the numbers have to agree *within a tolerance*. Nothing is written to the store or to the ledger.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from tasks import store
from tasks.cell import cell_seed, compute, divide, plainly
from tasks.claims import Claim, claim_of
from tasks.configuration import DatasetConfig, ExperimentConfig, MethodConfig
from tasks.convert import convert
from tasks.differences import Difference, differences, fold_name, in_words, is_same, shown
from tasks.download import download
from tasks.errors import BadInput, RunFailed
from tasks.fetch import home
from tasks.files import file_sha256, is_sha256, sha256_or_reason
from tasks.ledger import canonical
from tasks.manifest import cell_sections, fold_sections
from tasks.manifests import Manifest
from tasks.numeric import FILE as NUMBERS
from tasks.numeric import largest_gap, numbers_of, read_numbers
from tasks.progress import announce
from tasks.schema import parse
from tasks.store import artifact_folder
from tasks.values import ConversionRule, RawFile, joined
from tasks.verify import all_data
from tasks.verify_runs import RunAuditor

STAGES = ("manifest", "data", "split", "search", "sample", "fit", "threshold", "scores", "metrics")
SAME, CLOSE, DIFFERS, UNKNOWN = "same", "within tolerance", "differs", "not compared"
TOLERANCE = 1e-6
REMEDY = "Bring the file back, or name where it is with --data."
# A digest says only whether all bits are the same; how many steps it took to a certificate hangs on the last of them.
BITWISE = ("model_sha256", "test_scores_sha256", "added_sha256", "n_iter")
STAGE_OF = {"search": "search", "undersample": "sample", "train": "fit", "evaluate": "metrics"}  # of the recipe's own
PLACES = {
    "fold": "",
    "seeds": "",  # one by one, at the stages that draw with them
    "search": "search",
    "chosen": "search",
    "sample": "sample",
    "solver": "fit",
    "params": "fit",
    "certificate": "fit",
    "model_sha256": "fit",
    "threshold": "threshold",
    "test_scores_sha256": "scores",
}  # of a fold's section, each part's stage


@dataclass(frozen=True)
class Stage:
    """How one stage came out: ``same``, ``within tolerance``, ``differs`` or ``not compared``, and in words."""

    name: str
    verdict: str
    detail: str
    differences: tuple[Difference, ...] = ()


@dataclass(frozen=True)
class Replay:
    """A cell computed again: what could be claimed, and how each stage came out."""

    name: str
    run_id: str
    claim: Claim
    tolerance: float
    stages: tuple[Stage, ...]

    @property
    def first_difference(self) -> Stage | None:
        """Return the first stage that came out otherwise; what follows from it differs by it."""
        return next((stage for stage in self.stages if stage.verdict == DIFFERS), None)

    @property
    def is_exact(self) -> bool:
        """Tell whether every stage came out the same to the last bit, whatever could be claimed."""
        return all(stage.verdict == SAME for stage in self.stages[1:])

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        first = self.first_difference
        return {
            "run_id": self.run_id,
            "name": self.name,
            "claim": {"kind": self.claim.kind, "reasons": list(self.claim.reasons), "tolerance": self.tolerance},
            "replayed": first is None,
            "bit_for_bit": self.is_exact,
            "first_difference": None if first is None else first.name,
            "stages": [
                {"stage": s.name, "verdict": s.verdict, "detail": s.detail}
                | {"differences": [difference.as_dict() for difference in s.differences]}
                for s in self.stages
            ],
        }


# The recipe -------------------------------------------------------------------------------------------------------


class _Part(BaseModel):
    """What is needed of a part of the manifest; the rest is left alone."""

    model_config = ConfigDict(extra="ignore", frozen=True)


class _Raw(_Part):
    source: str
    path: str
    format: str
    size_bytes: int
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class _Fold(_Part):
    threshold: float
    model_sha256: str
    sample: dict[str, Any]


class _Data(_Part):
    name: str
    X_sha256: str
    y_sha256: str
    raw: tuple[_Raw, ...] = Field(min_length=1, max_length=2)
    conversion: ConversionRule


class Recipe(_Part):
    """What a cell is made of, as its manifest tells."""

    data: _Data
    method: MethodConfig
    config: ExperimentConfig
    folds: tuple[_Fold, ...] = Field(min_length=1)

    @property
    def entries(self) -> tuple[DatasetConfig, ...]:
        """Return the config of its data set: one, or none in a manifest that was put together by hand."""
        return tuple(entry for entry in self.config.datasets if entry.name == self.data.name)

    @property
    def seed(self) -> int:
        return cell_seed(self.config, self.data.name, self.method)


def recipe_of(manifest: Manifest, workers: int | None = None) -> Recipe:
    """Return how to compute a cell again: its own data set and method, ``workers`` folds side by side.

    Raises
    ------
    BadInput
        If the run did not finish, or this aucflow does not know what its manifest asks for.
    """
    run = manifest.content["run"]
    if run["status"] != "FINISHED":
        raise BadInput(
            f"Expected a run that finished, got {run['name']} ({run['run_id'][:8]}), which is {run['status']}: "
            f"{run.get('reason')}. Name another run."
        )
    recipe = parse(Recipe, manifest.content, f"manifest of {run['name']}")
    if not recipe.entries:
        raise BadInput(
            f"Expected the data set '{recipe.data.name}' in the manifest's own config, found it not. The manifest of "
            f"{run['name']} was put together by hand: restore it from a copy."
        )
    given = {} if workers is None else {"workers": workers}
    alone = {"datasets": recipe.entries, "methods": (recipe.method,)}
    return recipe.model_copy(update={"config": recipe.config.model_copy(update=alone | given)})


# The raw files ----------------------------------------------------------------------------------------------------


class ChangedFile(RunFailed):
    """A raw file is there, but it is another one than the run read."""

    def __init__(self, path: Path, wanted: str, found: str):
        super().__init__(f"{wanted} in {path}, got a file with SHA-256 {found}. {REMEDY}")
        self.replaced = f"{wanted} in {path}, got newer data, of which a later run was made. {REMEDY}"
        self.path = path


def find_raw(recipe: Recipe, files: Iterable[Path] = ()) -> RawFile:
    """Return the raw files of a run, each known by its digest, wherever they lie now.

    Looked for where the run read it, among ``files``, in the cache under any name, and by its name in the catalogue.

    Raises
    ------
    BadInput
        If a file is not found, or not among the files that were named; says which, with which digest, and where it may
        be put.
    ChangedFile
        If another file lies where the run read it, and none was named.
    """
    found = []
    for part in reversed(recipe.data.raw):  # the labels of images stand second and belong to the first
        path = _find(part, recipe, tuple(files))
        found.append(RawFile(recipe.data.name, path, part.format, part.source, part.sha256, part.size_bytes))
    return joined(found)


def _find(part: _Raw, recipe: Recipe, files: tuple[Path, ...]) -> Path:
    usual = Path(part.path)
    for candidate in _candidates(part, recipe, files):
        if _is_it(candidate, part):
            return candidate.absolute()
    wanted = f"Expected {part.size_bytes:,} bytes with SHA-256 {part.sha256}"
    found = sha256_or_reason(usual)
    if is_sha256(found) and not files:
        raise ChangedFile(usual, wanted, found)
    places = [f"{usual} ({f'other bytes, {found[:12]}…' if is_sha256(found) else found})", *map(str, files)]
    raise BadInput(
        f"{wanted} ({part.source}), found them neither at {', '.join(places)} nor in the cache {home()}. {REMEDY}"
    )


def _was_replaced(path: Path) -> bool:
    """Tell whether a file is as the newest run that read it has recorded: newer data, and nobody's work on the old."""
    if not store.exists():
        return False
    ledger = store.ledger()
    return all_data(RunAuditor(store.reader(), ledger), ledger).is_last(str(path))


def _is_it(path: Path, part: _Raw) -> bool:
    return os.path.isfile(path) and path.stat().st_size == part.size_bytes and sha256_or_reason(path) == part.sha256


def _candidates(part: _Raw, recipe: Recipe, files: tuple[Path, ...]) -> Iterator[Path]:
    yield Path(part.path)
    yield from files
    for folder in ("data", "frames"):
        yield from sorted((home() / folder).rglob("*"))
    try:
        (entry,) = recipe.entries
        named = download.fn(entry.name, entry.source, entry.format, recipe.config.offline)
    except (BadInput, RunFailed):
        return  # what is said then is which file is wanted, not where its name led
    yield from (file.path for file in named.files)


# Computing again --------------------------------------------------------------------------------------------------


class Broken(RunFailed):
    """A stage that came to its end in the run and does not now."""

    def __init__(self, stage: str, error: Exception):
        super().__init__(f"it failed, which it did not in the run: {type(error).__name__}: {error}")
        self.stage = stage


@contextmanager
def _at(stage: str) -> Iterator[None]:
    """Say of whatever fails in the block at which stage it did."""
    try:
        yield
    except Exception as error:
        raise Broken(stage, error) from error


def replay(
    manifest: Manifest, workers: int | None = None, files: Iterable[Path] = (), tolerance: float = TOLERANCE
) -> Replay:
    """Compute a cell again and compare; ``workers`` changes nothing but the time that it takes.

    Raises
    ------
    BadInput
        If there is nothing to replay, or a raw file is not found, or was replaced by newer data.
    """
    recipe, claim = recipe_of(manifest, workers), claim_of(manifest.content)
    stages = {"manifest": _manifest_stage(manifest)}
    if not manifest.is_changed:
        try:
            for stage in _compared(manifest, recipe, tuple(files), None if claim.is_exact else tolerance):
                stages[stage.name] = stage
        except ChangedFile as error:
            if _was_replaced(error.path):
                raise BadInput(error.replaced) from None
            stages["data"] = Stage("data", DIFFERS, str(error))
        except Broken as error:
            stages[error.stage] = Stage(error.stage, DIFFERS, str(error))
    untold = {name: Stage(name, UNKNOWN, "") for name in STAGES}
    run = manifest.content["run"]
    return Replay(run["name"], run["run_id"], claim, tolerance, tuple((untold | stages).values()))


def _manifest_stage(manifest: Manifest) -> Stage:
    if manifest.recorded is None:
        return Stage("manifest", UNKNOWN, f"{shown(manifest.sha256)}, of which this folder's ledger knows nothing")
    if manifest.is_changed:
        words = f"the ledger has {shown(manifest.recorded)}, found {shown(manifest.sha256)}: somebody changed it"
        return Stage("manifest", DIFFERS, f"{words}. `aucflow audit verify` tells more.")
    return Stage("manifest", SAME, f"{shown(manifest.sha256)}, as in the ledger")


def _compared(manifest: Manifest, recipe: Recipe, files: tuple[Path, ...], tolerance: float | None) -> Iterator[Stage]:
    """Yield every stage as it was compared; nothing is fitted on other data, or on other rows of them."""
    announce("convert", recipe.data.name)
    raw = find_raw(recipe, files)
    with _at("data"):
        dataset = convert.fn(raw, recipe.data.conversion)
    with _at("split"):
        prepared = divide(dataset, recipe.config, plainly)
    announce("split", dataset.name, done=True)
    again = cell_sections(prepared, recipe.method, recipe.config, recipe.seed)
    judge = partial(compare_stage, recorded=manifest.content, tolerance=tolerance)
    first = [judge(stage, again=_as_json(again)) for stage in ("data", "split")]
    yield from first
    if any(stage.verdict == DIFFERS for stage in first):
        return
    kept = {} if tolerance is None else recorded_numbers(manifest)
    result = compute(prepared, recipe.method, recipe.config, recipe.seed, _staged)
    again = _as_json(again | fold_sections(result, recipe.seed))
    rest = [judge(stage, again=again) for stage in STAGES[3:]]
    if kept and tolerance is not None:
        rest = [_by_numbers(stage, kept, numbers_of(result), tolerance) for stage in rest]
    yield from rest


def _staged(stage: Any, *arguments: Any) -> Any:
    """Call a stage of the recipe without Prefect, and say of a failure at which stage of the replay it was."""
    with _at(STAGE_OF[stage.name]):
        return plainly(stage, *arguments)


def _as_json(sections: dict[str, Any]) -> dict[str, Any]:
    """Return sections as they are read back from a manifest."""
    return json.loads(canonical(sections))


# Comparing --------------------------------------------------------------------------------------------------------


def compare_stage(
    name: str, recorded: Mapping[str, Any], again: Mapping[str, Any], tolerance: float | None = None
) -> Stage:
    """Compare one stage: to the last bit, or its numbers within a tolerance and all else to the last bit."""
    then = stage_view(name, recorded)
    now = _asked_for(name, then, stage_view(name, again))
    found = tuple(differences(then, now))
    if not found:
        return Stage(name, SAME, _told(name, again))
    beyond = tuple(d for d in found if tolerance is None or not is_close(d, tolerance))
    if beyond:
        more = f" (and {len(beyond) - 1} more)" if len(beyond) > 1 else ""
        return Stage(name, DIFFERS, in_words(beyond[0]) + more, beyond)
    if all(d.path[-1] in BITWISE for d in found) and name in ("fit", "scores"):
        return Stage(name, UNKNOWN, f"{len(found)} digests differ, and no numbers lie beside the manifest", found)
    return Stage(name, CLOSE, f"{in_words(max(found, key=_gap))} at most", found)


def _asked_for(name: str, then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is known now without the facts that an earlier manifest does not have yet."""
    if name == "data":
        return {key: value for key, value in now.items() if key in then}
    if name == "split":
        return dict(now)
    return {fold: {k: v for k, v in part.items() if k in then.get(fold, part)} for fold, part in now.items()}


def stage_view(name: str, content: Mapping[str, Any]) -> Any:
    """Return what a manifest says of one stage; where files lie and how long anything took is no part of it."""
    if name == "data":
        raw = [{k: v for k, v in file.items() if k not in ("path", "source")} for file in content["data"]["raw"]]
        return dict(content["data"]) | {"raw": raw}
    if name == "split":
        return {"folds": content["splits"]}
    return {fold_name(fold["fold"]): _fold_view(name, fold) for fold in content["folds"]}


def _fold_view(name: str, fold: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a fold's section has of a stage; what belongs to no other belongs to the last."""
    seeds = fold.get("seeds") or {}
    seed = {"search": {"seed": seeds.get("train")}, "sample": {"seed": seeds.get("sample")}}.get(name, {})
    return seed | {key: value for key, value in fold.items() if PLACES.get(key, "metrics") == name}


def is_close(difference: Difference, tolerance: float) -> bool:
    """Tell whether a difference is none within a tolerance: of a number's size, or of 1 where that is larger.

    >>> is_close(Difference(("auc",), 0.5, 0.5 + 1e-9), 1e-6), is_close(Difference(("n_kept",), 5, 6), 1e-6)
    (True, False)
    """
    if difference.path[0] == "findings":  # sentences, which other code may word otherwise
        return True
    if difference.path[-1] in BITWISE:
        return isinstance(difference.first, type(difference.second))
    return _are_close(difference.first, difference.second, tolerance)


def _are_close(first: Any, second: Any, tolerance: float) -> bool:
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(
            _are_close(*pair, tolerance) for pair in zip(first, second, strict=True)
        )
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) <= tolerance * max(1.0, abs(first), abs(second))
    return is_same(first, second)


def _gap(difference: Difference) -> float:
    first, second = difference.first, difference.second
    return abs(first - second) if isinstance(first, float) and isinstance(second, float) else 0.0


def _told(name: str, content: Mapping[str, Any]) -> str:
    """Return in words what came out the same."""
    folds = content.get("folds", [])
    if name == "data":
        data = content["data"]
        size = f"{data['n_rows']:,} rows, {data['n_features']:,} features"
        return f"{size}, X {shown(data['X_sha256'])}, y {shown(data['y_sha256'])}"
    if name == "split":
        return f"{len(content['splits']) - 1} folds and the refit"
    if name == "sample":
        kept, added = folds[-1]["sample"]["n_kept"], folds[-1]["sample"]["n_added"]
        return f"{len(folds)} samples; the refit's {kept:,} rows" + (f" and {added:,} added" if added else "")
    if name == "metrics":
        aucs = [fold["test"]["auc"] for fold in folds[:-1]]
        return f"mean test AUC {float(np.mean(aucs)):.4f}"
    counted = {"search": "choices", "fit": "models", "threshold": "thresholds"}
    return f"{len(folds)} {counted[name]}" if name in counted else f"{len(folds) - 1} folds' test rows"


# Numbers, where bits differ ---------------------------------------------------------------------------------------


def recorded_numbers(manifest: Manifest) -> dict[str, np.ndarray]:
    """Return the numbers that lie beside a manifest, none if the run kept none or the manifest came here alone.

    Raises
    ------
    Broken
        If they are not those whose digest the manifest has, or are gone from a run of this folder's ledger.
    """
    listed = {one.get("path"): one.get("sha256") for one in manifest.content.get("artifacts", ())}
    if f"run/{NUMBERS}" not in listed:
        return {}
    with _at("scores"), artifact_folder(f"{manifest.folder.rstrip('/')}/{NUMBERS}") as path:
        if manifest.recorded is None and not path.exists():
            return {}
        if file_sha256(path) != listed[f"run/{NUMBERS}"]:
            raise RunFailed(f"{NUMBERS} is not the file whose digest the manifest has")
        return read_numbers(path)


def _by_numbers(stage: Stage, kept: Mapping[str, np.ndarray], now: Mapping[str, np.ndarray], tolerance: float) -> Stage:
    """Return a stage judged by coefficients or scores where digests could not tell."""
    names = [name for name in kept if name.startswith({"fit": "coef ", "scores": "scores "}.get(stage.name, "-"))]
    if stage.verdict not in (CLOSE, UNKNOWN) or not names:
        return stage
    gap = max(largest_gap(kept[name], now[name]) if name in now else float("inf") for name in names)
    words = f"{'coefficients' if stage.name == 'fit' else 'scores'} differ by {gap:.1e} of the largest at most"
    return replace(stage, verdict=CLOSE if gap <= tolerance else DIFFERS, detail=words)
