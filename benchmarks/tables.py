"""The report in Markdown, and its summary, which the README quotes between two marker comments."""

import math
import re
import statistics
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.contest import Failure, Gauge, Outcome
from benchmarks.part import Part

BEGIN, END = "<!-- benchmarks: begin, written by make bench -->", "<!-- benchmarks: end -->"
Row = Outcome | Gauge | Failure

HOW_TO_READ = """This project against what people use today, side by side in one run: both sides take turns in one
process on one thread, get the same arrays, which were read once, and are compared at equal quality. A ratio is peer
time / our time, the median over rounds: above 1 we are faster. Times are medians in milliseconds, the minimum in
brackets. Compile time is a part of its own and in no other number."""
SIGNS = """✓ goal met, ✗ missed, · not judged. ≥ means that the peer was stopped short of the target: the ratio is at
least that, and counts as that in the geometric mean."""


@dataclass(frozen=True)
class Section:
    """A part and what came out of it."""

    part: Part
    rows: tuple[Row, ...]

    @property
    def ratios(self) -> list[float]:
        """Of the contests that have a goal and were held at equal quality."""
        outcomes = [row for row in self.rows if isinstance(row, Outcome) and row.is_equal]
        return [outcome.ratio for outcome in outcomes if outcome.contest.least_ratio is not None]

    @property
    def mean_ratio(self) -> float | None:
        return statistics.geometric_mean(self.ratios) if self.ratios else None

    @property
    def is_met(self) -> bool | None:
        """Whether every judged cell, and the mean if it has a goal, is met; None if nothing was judged."""
        verdicts = [row.is_met for row in self.rows if row.is_met is not None]
        if self.part.least_mean is not None and self.mean_ratio is not None:
            verdicts.append(self.mean_ratio >= self.part.least_mean)
        return all(verdicts) if verdicts else None


# Report ----------------------------------------------------------------------------------------------------------


def report(sections: Sequence[Section], machine: dict[str, str], asides: Iterable[str], command: str) -> str:
    """Return the whole page."""
    lines = [
        "# Benchmarks",
        "",
        f"Written by `{command}`; do not edit.",
        "",
        *_wrapped(HOW_TO_READ),
        "",
        "## Summary",
        "",
        BEGIN,
        *summary(sections, machine, command),
        END,
        "",
        *_wrapped(SIGNS),
        "",
        "## Machine",
        "",
        *table(("what", "which"), machine.items()),
        "",
        *(f"- {aside}" for aside in asides),
    ]
    for section in sections:
        lines += ["", *_section(section)]
    return "\n".join(lines).rstrip() + "\n"


def summary(sections: Sequence[Section], machine: dict[str, str], command: str) -> list[str]:
    """Return the lines that the README quotes."""
    rows = [
        (s.part.title, s.part.goal, _cells_met(s), _number(s.mean_ratio), worst_of(s), mark(s.is_met)) for s in sections
    ]
    return [
        *table(("part", "goal", "cells met", "geometric mean", "worst cell", ""), rows),
        "",
        *_wrapped(
            f"{machine['date']}, {machine['processor']} ({machine['load']}); {machine['speed']}; "
            f"{machine['libraries']}; {machine['BLAS']}."
        ),
        f"Reproduce with `{command}`.",
    ]


def worst_of(section: Section) -> str:
    """Name the judged cell that is furthest below, or least above, its goal."""
    margins = [(_margin(row), row) for row in section.rows if row.is_met is not None]
    judged = [(margin, row) for margin, row in margins if margin is not None]
    if not judged:
        return "–"
    _, row = min(judged, key=lambda pair: pair[0])
    if isinstance(row, Failure):
        return f"{row.task} (failed)"
    if isinstance(row, Gauge):
        return f"{_number(row.value)} {row.unit} ({row.task}, {row.setting})"
    return f"{_number(row.ratio)} ({row.contest.task}, {row.contest.data}, {row.contest.setting})"


def _margin(row: Row) -> float | None:
    if isinstance(row, Failure):
        return -1.0
    if isinstance(row, Gauge):
        return row.margin
    least = row.contest.least_ratio
    return None if least is None else row.ratio / least if row.is_equal else 0.0


def _cells_met(section: Section) -> str:
    verdicts = [row.is_met for row in section.rows]
    judged = [verdict for verdict in verdicts if verdict is not None]
    return f"{sum(judged)} of {len(judged)}" if judged else "–"


def _section(section: Section) -> list[str]:
    part = section.part
    contests = [row for row in section.rows if isinstance(row, Outcome)]
    gauges = [row for row in section.rows if isinstance(row, Gauge)]
    failures = [row for row in section.rows if isinstance(row, Failure)]
    lines = [f"## {part.title}", "", f"Goal: {part.goal}. {mark(section.is_met)}", "", *_wrapped(part.method)]
    if contests:
        names: tuple[str, ...] = ("task", "data", "setting", "peer", "ours ms", "peer ms", "ratio")
        names += (f"{part.quality}: ours", "peer", "tolerances", "", "note")
        lines += ["", *table(names, map(_contest_row, contests))]
    if gauges:
        names = ("task", "setting", "value", "unit", "limit", "", "note")
        lines += ["", *table(names, map(_gauge_row, gauges))]
    if failures:
        lines += ["", *table(("failed", "reason"), ((failure.task, failure.reason) for failure in failures))]
    if not section.rows:
        lines += ["", "Nothing was measured: see what was absent above."]
    return lines


def _contest_row(outcome: Outcome) -> tuple[str, ...]:
    contest = outcome.contest
    settings = (contest.ours.setting, contest.peer.setting)
    return (
        contest.task,
        contest.data,
        contest.setting,
        contest.peer.name,
        milliseconds(outcome.ours_s),
        milliseconds(outcome.peer_s),
        ("≥ " if outcome.is_bound else "") + _number(outcome.ratio),
        _number(contest.ours.quality),
        _number(contest.peer.quality),
        " / ".join(setting or "–" for setting in settings) if any(settings) else "–",
        mark(outcome.is_met),
        contest.note,
    )


def _gauge_row(gauge: Gauge) -> tuple[str, ...]:
    sign = "≤" if gauge.at_most else "≥"
    limit = "–" if gauge.limit is None else f"{sign} {gauge.limit:g}"
    return gauge.task, gauge.setting, _number(gauge.value), gauge.unit, limit, mark(gauge.is_met), gauge.note


# Pieces ----------------------------------------------------------------------------------------------------------


def table(names: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return a Markdown table; bars inside cells are escaped."""
    lines = [names, ["---"] * len(names), *rows]
    return [f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in line)} |" for line in lines]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(" ".join(text.split()), 120, break_long_words=False, break_on_hyphens=False)


def milliseconds(times: Sequence[float]) -> str:
    """Return the median and, of more than one, the minimum in brackets."""
    median, least = 1e3 * statistics.median(times), 1e3 * min(times)
    return _number(median) if len(times) == 1 else f"{_number(median)} ({_number(least)})"


def mark(is_met: bool | None) -> str:
    return {True: "✓", False: "✗", None: "·"}[is_met]


def _number(value: float | None) -> str:
    """Return three digits, in the form that is shortest to read."""
    if value is None or math.isnan(value):
        return "–"
    if value == 0.0 or 1e-2 <= abs(value) < 1e5:
        digits = 0 if value == 0.0 else max(0, 2 - math.floor(math.log10(abs(value))))
        return f"{value:,.{min(digits, 3)}f}"
    return f"{value:.1e}"


# README ----------------------------------------------------------------------------------------------------------


def quoted(page: str) -> str:
    """Return what stands between the markers of a page, or say that they are missing."""
    found = re.search(f"{re.escape(BEGIN)}\n(.*?){re.escape(END)}", page, flags=re.DOTALL)
    if not found:
        raise ValueError(f"Expected the lines '{BEGIN}' and '{END}', got neither or one. Put both back.")
    return found.group(1)


def requote(page: str, lines: str) -> str:
    """Return the page with the lines between its markers replaced."""
    return page.replace(f"{BEGIN}\n{quoted(page)}{END}", f"{BEGIN}\n{lines}{END}")


def write(text: str, docs: Path, readme: Path) -> None:
    """Write the report, and its summary into the README."""
    docs.parent.mkdir(exist_ok=True)
    page = requote(readme.read_text(encoding="utf-8"), quoted(text))  # first: it fails where a marker is missing
    docs.write_text(text, encoding="utf-8")
    readme.write_text(page, encoding="utf-8")
