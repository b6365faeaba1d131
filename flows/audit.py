"""What `aucflow audit` does: the story of one thing, everything verified at once, and who was champion when.

A command returns its exit code: 3 where something is not as it was recorded, 0 otherwise. Nothing is written, but for
the page that `--html` names.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from rich.console import Console
from rich.table import Table
from sqlalchemy.exc import SQLAlchemyError

from flows.console import FAILED, FINDING, plain, print_json, wide_console
from flows.waiting import bar, waiting
from tasks import registry, store
from tasks.errors import BadInput, RunFailed, in_short, nearest
from tasks.ledger import Ledger
from tasks.pages import refuse_no_file, write_page
from tasks.story import (
    CHANGED,
    MISSING,
    NOT_CHECKED,
    OK,
    PASSED,
    REPLACED,
    UNREADABLE,
    Line,
    Story,
    count,
    render_page,
    tell,
)
from tasks.verify import Verdict, models_told, verify
from tasks.verify_runs import Discrepancy

WIDEST = 100  # columns of a story; longer lines are hard to read
SHOWN = 12  # characters of a digest on the screen
MOST_FINDINGS = 8  # under a story; `aucflow audit verify` lists all
STYLES = {OK: "green", REPLACED: "dim", NOT_CHECKED: "dim"} | dict.fromkeys((CHANGED, MISSING, UNREADABLE), "bold red")
NOUNS = {
    "entries": ("ledger entr", "y", "ies"),
    "runs": ("run",),
    "open": ("open run",),
    "foreign": ("run", " of others", "s of others"),
    "files": ("file",),
    "signatures": ("signature",),
    "rows": ("row", " of the store", "s of the store"),
    "data files": ("data file",),
    "data sets": ("data set", " converted again", "s converted again"),
    "models": ("registered model",),
}


def audit_command(target: str, as_json: bool = False, html: str | None = None, deep: bool = False) -> int:
    """Show the story of MODEL@ALIAS, MODEL/VERSION, a run or an experiment."""
    _check_folder()
    client = _reader()
    if client is None:
        raise BadInput(
            "Expected mlruns/mlflow.db in this folder, found only a ledger. `aucflow audit verify` reads it."
        )
    if html is not None:
        refuse_no_file(Path(html))
    with waiting("checking"):
        story = _told(client, target, deep)
    if html is not None:
        write_page(Path(html), render_page(story))
    if as_json:
        print_json(story.as_dict())
    else:
        _show_story(story)
        if html is not None:
            Console(highlight=False, soft_wrap=True).print(f"page {html}", markup=False)
    return FINDING if story.findings else 0


def _told(client: MlflowClient, target: str, deep: bool) -> Story:
    try:
        return tell(client, store.ledger(), target, deep)
    except (MlflowException, SQLAlchemyError, TypeError) as error:  # of rows that MLflow cannot have written
        words = in_short(error).rstrip(".")
        raise RunFailed(f"Expected a store that can be read, got: {words}. Run `aucflow audit verify`.") from error


def verify_command(as_json: bool = False, deep: bool = False) -> int:
    """Verify all that there is in this folder, and say what is not as it was recorded."""
    _check_folder()
    ledger = store.ledger()
    try:
        client, cause, is_away = _reader(), "", False
    except RunFailed as error:
        client, cause, is_away = None, str(error), isinstance(error, store.StoreAway)
    with bar() as show:
        verdict = verify(
            client, ledger, deep, lambda done, total: show(description="runs", completed=done, total=total), cause
        )
    if as_json:
        print_json(verdict.as_dict())
    else:
        _show_verdict(verdict)
    # that a server cannot be reached tells of no change
    return FAILED if is_away and len(verdict.findings) == 1 else FINDING if verdict.findings else 0


def champions_command(model: str, on: str | None = None, as_json: bool = False) -> int:
    """Show which versions of a model were champion, when and why: all of them, or those of a day or a moment."""
    _check_folder()
    ledger = store.ledger()
    known, whole = models_told(ledger), registry.history(ledger, model)
    doubts = list(_doubts(ledger, model, whole))
    if model not in known and not doubts:
        raise BadInput(
            f"Expected a model that the ledger knows, got '{model}'.{nearest(model, sorted(known))} "
            "See `aucflow list models`."
        )
    span = _span(on) if on is not None else None
    told = [span is None or _overlaps(reign, *span) for reign in whole]
    # of a change that was taken back nobody knows how far it had come: the one before is told too
    still = [
        told[i + 1] and then.taken_back and then.since == one.until for i, (one, then) in enumerate(pairwise(whole))
    ]
    reigns = [reign for i, reign in enumerate(whole) if told[i] or any(still[i : i + 1])]
    if as_json:
        print_json({"model": model, "on": on, "champions": [_as_json(reign) for reign in reigns], "ok": not doubts})
    elif reigns:
        wide_console().print(_champions(reigns))
    else:
        Console(highlight=False).print(f"No version of {model} was champion{f' on {on}' if on else ''}.", markup=False)
    for words in doubts:
        words = f"aucflow: {words}, so this may not be what happened. Run `aucflow audit verify`."
        Console(stderr=True, soft_wrap=True).print(words, markup=False)
    return FINDING if doubts else 0


def _doubts(ledger: Ledger, model: str, reigns: Sequence[registry.Promotion]) -> Iterator[str]:
    """Yield why what the ledger tells of a model may not be believed."""
    if not ledger.path.exists():
        yield f"the ledger {ledger.path}, which alone tells who was champion, is missing"
    elif ledger.verify():
        yield "the ledger does not verify"
    for slip in registry.slips(ledger, model):
        yield slip.message
    if any(after.since < before.since for before, after in pairwise(reigns)):
        yield "the clock went back between two changes"


def _check_folder() -> None:
    if not store.exists() and not store.ledger().path.exists():
        raise BadInput(f"Expected {store.FOLDER}/ with runs in this folder, found none. Run `aucflow run` here first.")


def _reader() -> MlflowClient | None:
    """Return a client of the store that has shown that it can be read, None if there is no store."""
    return store.reader() if store.exists() else None


# A story ----------------------------------------------------------------------------------------------------------


def _show_story(story: Story) -> None:
    console = _narrow()
    console.print(story.target, style="bold", markup=False, highlight=False)
    table = Table(box=None, header_style="dim", pad_edge=False)
    table.add_column("", no_wrap=True, style="bold")
    table.add_column("", ratio=1, overflow="fold")
    table.add_column("SHA-256", no_wrap=True)
    table.add_column("now", no_wrap=True)
    for line in _for_a_screen(story.lines):
        state = f"[{STYLES[line.state]}]{line.state}[/]" if line.state else ""
        table.add_row(line.label, plain(line.text), _digest(line.digests), state)
    console.print(table)
    for why, labels in _unchecked(story).items():
        console.print(f"not checked: {', '.join(labels)} ({why})", style="dim", markup=False, highlight=False)
    for one in story.found[:MOST_FINDINGS]:
        _print_discrepancy(console, one)
    if len(story.found) > MOST_FINDINGS:
        console.print(f"and {len(story.found) - MOST_FINDINGS} more: `aucflow audit verify` lists all", markup=False)


def _for_a_screen(lines: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines with the rules that passed as one, and no reason told twice; JSON and the page have them all."""
    told = ""
    passed = [line.text.removeprefix(PASSED).partition(":")[0] for line in lines if _is_passed(line)]
    for line in lines:
        if _is_passed(line):
            if passed:
                yield replace(line, label="rules", text=f"{len(passed)} passed: {', '.join(passed)}")
            passed = []
            continue
        before, mark, reason = line.text.partition(": ")
        yield replace(line, text=before) if mark and reason and reason in told else line
        told += f"{reason}\n"


def _is_passed(line: Line) -> bool:
    return line.label == "rule" and line.text.startswith(PASSED)


def _unchecked(story: Story) -> dict[str, list[str]]:
    """Return why lines were not checked, each reason with its lines."""
    reasons: dict[str, list[str]] = {}
    for line in story.lines:
        if line.state == NOT_CHECKED:
            reasons.setdefault(line.why, []).append(line.label)
    return reasons


def _digest(digests: dict[str, str]) -> str:
    """Return the first digest, shortened, and how many more there are."""
    first = next(iter(digests.values()), "")
    return f"{first[:SHOWN]}{f' +{len(digests) - 1}' if len(digests) > 1 else ''}"


# A verdict --------------------------------------------------------------------------------------------------------


def _show_verdict(verdict: Verdict) -> None:
    console = Console(soft_wrap=True, highlight=False)
    for one in verdict.found:
        _print_discrepancy(console, one)
    checked = ", ".join(count(verdict.counts[name], *noun) for name, noun in NOUNS.items() if verdict.counts.get(name))
    if verdict.findings:
        found = count(len(verdict.findings), "finding")
        console.print(f"[bold red]{found}[/]{f' in {checked}' if checked else '; nothing could be checked'}")
    else:
        console.print(f"[green]ok[/] {checked or 'nothing'}: all as it was recorded")


def _print_discrepancy(console: Console, one: Discrepancy) -> None:
    style = "dim" if one.is_note else "bold red"
    console.print(f"[{style}]{one.kind}[/] {plain(one.subject)}: {plain(one.message)}", highlight=False)


# Champions --------------------------------------------------------------------------------------------------------


def _span(on: str) -> tuple[datetime, datetime]:
    """Return a day's beginning and end, or a moment twice; without a time zone in UTC."""
    try:
        if "W" in on:  # a week, which Python would take for its Monday
            raise ValueError
        moment = datetime.fromisoformat(on)
    except ValueError:
        raise BadInput(f"Expected a date such as 2026-03-01, or a time such as 2026-03-01T12:00; got '{on}'.") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    if moment > datetime.now(UTC):
        raise BadInput(f"Expected a day that has begun, or a moment that has been, got '{on}'. Nobody knows yet.")
    return moment, moment + timedelta(days=1, microseconds=-1) if len(on) <= len("2026-03-01") else moment


def _overlaps(reign: registry.Promotion, start: datetime, end: datetime) -> bool:
    return reign.since <= end and (reign.until is None or reign.until > start)


def _champions(reigns: list[registry.Promotion]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("version", "since (UTC)", "until (UTC)", "by"):
        table.add_column(title, no_wrap=True)
    table.add_column("why", overflow="fold")
    table.add_column("entry", no_wrap=True)
    for reign in reigns:
        until = "" if reign.until is None else f"{reign.until:%Y-%m-%d %H:%M}"
        entry = f"{reign.seq} {reign.digest[:SHOWN]}"
        since = f"{reign.since:%Y-%m-%d %H:%M}"
        by = f"{reign.kind}, taken back" if reign.taken_back else reign.kind
        why = f"{reign.reason} (the registry may have had what it had before)" if reign.taken_back else reign.reason
        table.add_row(str(reign.number), since, until, by, plain(why), entry)
    return table


def _as_json(reign: registry.Promotion) -> dict[str, Any]:
    until = None if reign.until is None else reign.until.isoformat(timespec="milliseconds")
    return vars(reign) | {"since": reign.since.isoformat(timespec="milliseconds"), "until": until}


def _narrow() -> Console:
    console = Console()
    return Console(width=min(console.width, WIDEST))
