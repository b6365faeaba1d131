"""What `aucflow replay` and `aucflow diff` do: a run computed again, and two runs side by side."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flows.console import FINDING, INCOMPLETE, print_json, wide_console
from flows.display import progress
from flows.signals import stoppable
from tasks.differences import SECTIONS, Comparison, compare, in_words, shown
from tasks.errors import BadInput
from tasks.files import reason_of
from tasks.manifests import Manifest, cells_of, find_manifest
from tasks.progress import announce
from tasks.replay import CLOSE, DIFFERS, TOLERANCE, UNKNOWN, Replay, recipe_of, replay

MOST_LINES = 12  # of one section of a comparison


@dataclass(frozen=True)
class Outcome:
    """What came of one cell: its replay, or why there is none."""

    name: str
    run_id: str
    replay: Replay | None = None
    failed: str | None = None  # the run itself had failed: there is nothing to compare
    lost: str | None = None  # its manifest is not there, or is none
    absent: str | None = None  # its data are not there

    @property
    def is_finding(self) -> bool:
        return self.lost is not None or (self.replay is not None and self.replay.first_difference is not None)

    @property
    def verdict(self) -> str:
        """Return in words what came of it."""
        if self.replay is None:
            return f"not replayed: {self.failed or self.lost or self.absent}"
        return verdict(self.replay)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        if self.replay is not None:
            return self.replay.as_dict()
        reason = {"failed": self.failed, "lost": self.lost, "absent": self.absent}
        told = {name: text for name, text in reason.items() if text is not None}
        return {"run_id": self.run_id, "name": self.name, "replayed": False} | told


# Replay -----------------------------------------------------------------------------------------------------------


def _readable(path: Path) -> Path:
    try:
        with path.open("rb"):
            return path
    except OSError as error:
        raise BadInput(
            f"Expected a file that can be read with --data, got {path}: {reason_of(error)}. Name one, or leave it out."
        ) from None


def replay_command(
    run: str,
    workers: int | None = None,
    tolerance: float = TOLERANCE,
    files: Iterable[str] = (),
    as_json: bool = False,
) -> int:
    """Compute a run again, or every cell of an experiment, and print how it compares; return the exit code."""
    manifest, paths = find_manifest(run), tuple(_readable(Path(file).expanduser()) for file in files)
    with stoppable():
        if manifest.is_experiment:
            return _replay_experiment(manifest, workers, tolerance, paths, as_json)
        done = _replay_cell(manifest, workers, tolerance, paths)
    if as_json:
        print_json(done.as_dict())
    else:
        _show_replay(done)
    return FINDING if done.first_difference is not None else 0


def _replay_experiment(
    manifest: Manifest, workers: int | None, tolerance: float, files: tuple[Path, ...], as_json: bool
) -> int:
    """Replay the cells one after the other; an experiment's own manifest has to be as it was written too."""
    outcomes = []
    for listed, cell in zip(manifest.content["cells"], cells_of(manifest), strict=True):
        name = f"{listed['dataset']} {listed['method']}"
        if isinstance(cell, BadInput):
            outcomes.append(Outcome(name, listed["run_id"], lost=str(cell)))
        elif cell.content["run"]["status"] != "FINISHED":
            status, reason = cell.content["run"]["status"].lower(), cell.content["run"].get("reason")
            outcomes.append(Outcome(name, listed["run_id"], failed=f"the run {status}: {reason}"))
        else:
            outcomes.append(_replay_if_there(cell, workers, tolerance, files))
    if all(outcome.failed is not None for outcome in outcomes):
        raise BadInput(f"Expected a run with a cell that finished, got {manifest.name} without one. Name another run.")
    absent = [outcome.absent for outcome in outcomes if outcome.absent is not None]
    if absent and all(outcome.replay is None and outcome.lost is None for outcome in outcomes):
        raise BadInput(absent[0])
    is_finding = manifest.is_changed or any(outcome.is_finding for outcome in outcomes)
    if as_json:
        own = {"run_id": manifest.run_id, "name": manifest.name, "manifest_changed": manifest.is_changed}
        cells = [outcome.as_dict() for outcome in outcomes]
        print_json(own | {"replayed": not (is_finding or absent), "cells": cells})
    else:
        _show_experiment(manifest, outcomes)
    return FINDING if is_finding else INCOMPLETE if absent else 0


def _replay_if_there(manifest: Manifest, workers: int | None, tolerance: float, files: tuple[Path, ...]) -> Outcome:
    """Replay a cell; if its data are gone, say so and leave the others their turn."""
    try:
        return Outcome(manifest.name, manifest.run_id, _replay_cell(manifest, workers, tolerance, files))
    except BadInput as error:
        return Outcome(manifest.name, manifest.run_id, absent=str(error))


def _replay_cell(manifest: Manifest, workers: int | None, tolerance: float, files: tuple[Path, ...]) -> Replay:
    with progress(recipe_of(manifest).config, Console(stderr=True)):
        announce("start", manifest.name)
        return replay(manifest, workers, files, tolerance)


def verdict(done: Replay) -> str:
    """Return in words what came of a replay."""
    first = done.first_difference
    if first is not None:
        return f"differs, first at the stage {first.name}"
    if done.is_exact:
        return "bit for bit the same" + ("" if done.claim.is_exact else ", which could not be claimed")
    untold = [stage.name for stage in done.stages if stage.verdict == UNKNOWN and stage.name != "manifest"]
    return f"the same within {done.tolerance:g}" + (f", {' and '.join(untold)} not compared" if untold else "")


def _show_replay(done: Replay) -> None:
    console = wide_console()
    _line(console, "replay", f"{done.name}, run {done.run_id}")
    _line(console, "claim", _claim(done))
    table = Table("stage", "result", "what", box=None)
    style = {CLOSE: "yellow", DIFFERS: "red", UNKNOWN: "dim"}
    for stage in done.stages:
        table.add_row(stage.name, stage.verdict, stage.detail, style=style.get(stage.verdict))
    console.print(table)
    _line(console, "result", verdict(done))


def _show_experiment(manifest: Manifest, outcomes: list[Outcome]) -> None:
    console = wide_console()
    _line(console, "replay", f"{manifest.name}, run {manifest.run_id}")
    if manifest.is_changed:
        _line(
            console, "manifest", f"differs: the ledger has {shown(manifest.recorded)}, found {shown(manifest.sha256)}"
        )
    for claim in dict.fromkeys(_claim(outcome.replay) for outcome in outcomes if outcome.replay is not None):
        _line(console, "claim", claim)
    table = Table("cell", "run", "result", "what", box=None)
    for outcome in outcomes:
        first = outcome.replay and outcome.replay.first_difference
        style = "red" if outcome.is_finding else None
        table.add_row(outcome.name, outcome.run_id[:8], outcome.verdict, first.detail if first else "", style=style)
    console.print(table)


def _claim(done: Replay) -> str:
    if done.claim.is_exact:
        return f"exact: {done.claim.because}; every bit has to be the same"
    return f"within a tolerance of {done.tolerance:g}: {done.claim.because}"


# Diff -------------------------------------------------------------------------------------------------------------


def diff_command(run_a: str, run_b: str, as_json: bool = False) -> int:
    """Print what differs between two runs, or two experiments; return 0, for a difference is no finding."""
    first, second = find_manifest(run_a), find_manifest(run_b)
    found = compare(first.content, second.content)
    if as_json:
        sides = {"first": _side(first), "second": _side(second)}
        told = {name: [difference.as_dict() for difference in found.sections[name]] for name in SECTIONS}
        print_json(sides | {"identical": found.is_identical, "differences": told})
    else:
        _show_diff(first, second, found)
    return 0


def _side(manifest: Manifest) -> dict[str, Any]:
    own = {"run_id": manifest.run_id, "name": manifest.name, "started": manifest.content["run"].get("started")}
    return own | {"manifest_sha256": manifest.sha256, "manifest_changed": manifest.is_changed}


def _show_diff(first: Manifest, second: Manifest, found: Comparison) -> None:
    console = wide_console()
    for side, manifest in (("first", first), ("second", second)):
        changed = ", whose manifest is not as the ledger has it" if manifest.is_changed else ""
        began = manifest.content["run"].get("started")
        _line(console, side, f"{manifest.name}, run {manifest.run_id[:8]}, begun {began}{changed}")
    for name in SECTIONS:
        rows = [in_words(difference) for difference in found.sections[name]]
        more = [f"… and {len(rows) - MOST_LINES} more: --json lists all"] if len(rows) > MOST_LINES else []
        for place, row in enumerate([*rows[:MOST_LINES], *more] or ["identical"]):
            _line(console, "" if place else name, row)


# Output -----------------------------------------------------------------------------------------------------------


def _line(console: Console, name: str, text: str) -> None:
    console.print(f"{name:12}{text}", highlight=False, soft_wrap=True, markup=False)
