"""The report of an experiment: one HTML page that needs nothing else, and the same table for the console.

Both are made from `summary_rows`, so that they cannot disagree.
"""

import base64
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import isfinite, nan
from pathlib import Path
from statistics import median_low
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console, Group
from rich.constrain import Constrain
from rich.table import Table
from rich.text import Text

from tasks import plots
from tasks.catalogue import MEAN, VALUE, parameter_columns, solver
from tasks.configuration import is_number
from tasks.files import replacing
from tasks.pages import template
from tasks.reference import beside, in_short
from tasks.search import TIE
from tasks.stage import stage
from tasks.values import UNCERTIFIED, Dataset, Evaluation, ExperimentResult, Finding, FittedModel, MethodResult

CONVERGED = "converged"
CERTIFICATE_STYLES = {CONVERGED: "green", UNCERTIFIED: ""}
WORTH_TELLING_S = 2.0  # of compiling: who waits so long should know what for
CELLS = ("dataset", "solver", "sampler", "AUC ± sd", "G-mean ± sd", "secs", "certificate")
THRESHOLDS = {
    "training": "the model’s own scores of them",
    "out_of_fold": "their scores, each by a model fitted without that row",
    "out_of_fold_smoothed": "the smoothed distributions of their scores, each by a model fitted without that row",
}
MOST_NAMED = 3  # candidates that a search went without, or data sets, in a sentence
WIDE, NARROW = 80, 54  # columns for all of these, and for "method" in place of the first three, without the seconds
BROAD = 10_000  # columns in which a table's own width is measured


@dataclass(frozen=True)
class Spread:
    """A metric over the folds: its mean, sample standard deviation, and 95 % interval where one was computed."""

    mean: float
    sd: float
    low: float = nan
    high: float = nan

    def text(self, digits: int) -> str:
        return f"{self.mean:.{digits}f} ± {self.sd:.{digits}f}"

    @property
    def has_interval(self) -> bool:
        """Tell whether the folds have a variance to make an interval of, and not a point that would claim certainty."""
        return isfinite(self.low) and isfinite(self.high) and self.low < self.high

    @property
    def interval(self) -> str:
        """Return the 95 % interval in words."""
        return f"{self.low:.4f} to {self.high:.4f}" if self.has_interval else "unknown"

    def overlaps(self, other: "Spread") -> bool:
        """Return whether the two intervals share a point; an unknown one may."""
        if not (self.has_interval and other.has_interval):
            return True
        return self.low <= other.high and other.low <= self.high


@dataclass(frozen=True)
class Score:
    """The metric by which an experiment's searches choose, and its report ranks."""

    name: str  # as a reader knows it
    field: str  # of a SummaryRow
    method: str  # of the interval
    flawless: str  # why a mean of 1 has no interval
    alike: str  # why another has none

    def of(self, row: "SummaryRow") -> Spread:
        return getattr(row, self.field)


AUC = Score("AUC", "auc", "DeLong", "no test row is ranked wrongly", "all rows of a class are ranked alike")
GMEAN = Score("G-mean", "gmean", "corrected t", "no test row is classified wrongly", "it is the same in every fold")


@dataclass(frozen=True)
class SummaryRow:
    """One cell (data set, method) of the experiment; a failed one has an error and no metrics."""

    dataset: str
    method: str
    solver: str
    sampler: str
    seconds: float
    compile_s: float = 0.0
    kernel: str = "none"
    committee: int = 1
    tried: int = 0  # candidates of the search that have a score
    error: str | None = None
    auc: Spread | None = None  # on the test folds, like every metric without "train" in its name
    train_auc: Spread | None = None
    gmean: Spread | None = None
    sensitivity: Spread | None = None
    specificity: Spread | None = None
    average_precision: Spread | None = None
    kept: tuple[str, str] = ("–", "")  # training rows after the sampler, and of how many
    chosen: tuple[str, str] = ("–", "")  # parameters, and their range over the folds
    left_out: tuple[str, ...] = ()  # candidates that could not be fitted where others could
    gap: float = float("nan")  # the certificate of the worst fit, in units of its objective at w = 0
    status: str = ""
    threshold_set_on: str = "training"
    found_nothing: tuple[int, int] = (0, 0)  # fits whose optimum is w = 0, of so many
    is_best: bool = False

    @property
    def scorer(self) -> str:
        """Return the solver with its kernel and the size of its committee: "svm_or", "gaussian+svm_or × 5"."""
        scorer = self.solver if self.kernel == "none" else f"{self.kernel}+{self.solver}"
        return scorer if self.committee == 1 else f"{scorer} × {self.committee}"

    @property
    def title(self) -> str:
        """Return the name that a config gave the method, else what scores."""
        parts = (self.sampler, self.kernel, self.solver)
        return self.scorer if self.method == "+".join(part for part in parts if part != "none") else self.method

    @property
    def details(self) -> str:
        """Return what the title leaves out: what scores, and the sampler in front of it."""
        scorer = self.scorer if self.title != self.scorer else ""
        return f"{scorer} on {self.sampler} sample".strip() if self.sampler not in ("", "none") else scorer

    @property
    def gap_in_short(self) -> str:
        """Return the gap with one digit; "none" where the solver has no certificate."""
        return "none" if not isfinite(self.gap) else f"{self.gap:.0e}" if self.gap > 0 else "0"

    @property
    def certificate(self) -> str:
        """Return the gap with a tick if every fit converged, and with a cross if one stopped before its tol."""
        if self.status == UNCERTIFIED:
            return self.gap_in_short
        return f"{self.gap_in_short} {'✓' if self.status == CONVERGED else '✗'}"


# --- the table -------------------------------------------------------------------------------------------------


def summary_rows(result: ExperimentResult) -> list[SummaryRow]:
    """Return one row per cell, data sets and methods in the order in which they were run.

    The highest mean test score of each data set is marked; equal means are all marked.
    """
    score = ranked_by(result)
    rows = [_summary_row(cell) for cell in result.results]
    best: dict[str, float] = {}
    for row in rows:
        if not row.error:
            best[row.dataset] = max(best.get(row.dataset, 0.0), score.of(row).mean)
    return [row if row.error else replace(row, is_best=score.of(row).mean == best[row.dataset]) for row in rows]


def ranked_by(result: ExperimentResult) -> Score:
    """Return the score that the inner searches of an experiment go by, which its configuration decides."""
    return GMEAN if result.config.get("validation", {}).get("select_by") == "gmean" else AUC


def _summary_row(cell: MethodResult) -> SummaryRow:
    names = ("dataset", "method", "solver", "sampler", "kernel", "committee", "seconds", "compile_s")
    identity = {name: getattr(cell, name) for name in names}
    if cell.error is not None or not cell.evaluations:
        return SummaryRow(**identity, error=cell.error or "no fold was evaluated")
    fit = _worst_fit(cell.all_models)
    return SummaryRow(
        **identity,
        auc=Spread(*cell.mean_sd("auc"), *cell.auc_interval()),
        gmean=Spread(*cell.mean_sd("gmean"), *cell.gmean_interval()),
        train_auc=Spread(*cell.mean_sd("auc", "train")),
        sensitivity=Spread(*cell.mean_sd("sensitivity")),
        specificity=Spread(*cell.mean_sd("specificity")),
        average_precision=Spread(*cell.mean_sd("average_precision")),
        kept=_kept(cell),
        chosen=_chosen(cell.models),
        tried=max((_n_scored(model) for model in cell.models), default=0),
        left_out=_left_out(cell.models),
        gap=fit.certificate if fit else float("nan"),
        status=fit.status if fit else "not fitted",
        threshold_set_on=fit.threshold_set_on if fit else "training",
        found_nothing=(sum(model.found_nothing for model in cell.all_models), len(cell.all_models)),
    )


def _n_scored(model: FittedModel) -> int:
    """Return how many candidates of the search that a model comes of have a score."""
    return int(np.isfinite(np.array(model.search.get(MEAN, []), dtype=float)).sum())


def _worst_fit(models: Sequence[FittedModel]) -> FittedModel | None:
    """Return the fit that is furthest from certified: not converged first, then the largest gap."""
    return max(
        models,
        key=lambda m: (m.status != CONVERGED, m.certificate if isfinite(m.certificate) else float("inf")),
        default=None,
    )


def _kept(cell: MethodResult) -> tuple[str, str]:
    """Return the training rows that the sampler kept, mean over folds: ("158", "of 235 (67 %)")."""
    samples = [sample for sample in cell.samples if sample.fold >= 0]
    if not samples:
        return "–", ""
    kept = np.mean([s.n_pos + s.n_neg for s in samples])
    before = np.mean([s.n_before for s in samples])
    added = np.mean([s.n_added for s in samples])
    more = f", {_thousands(added)} added" if added > 0 else ""
    return _thousands(kept), f"of {_thousands(before)} ({100 * kept / before:.0f} %){more}"


def _chosen(models: Sequence[FittedModel]) -> tuple[str, str]:
    """Return the chosen parameters, median and range over the folds: ("λ 0.001", "1e-05 to 0.001")."""
    medians, ranges = [], []
    for place, name in enumerate(models[0].chosen if models else ()):
        column = VALUE if place == 0 else name  # of the search's table
        middle, spread = _middle_and_range([model.chosen[name] for model in models])
        end = _which_end([(model.chosen[name], model.search) for model in models], column)
        medians.append(f"{plots.PARAMETER_LABELS.get(name, name)} {middle}")
        ranges.append(spread + end)
    return ", ".join(medians) or "–", "; ".join(ranges)  # a range may hold a comma


def _left_out(models: Sequence[FittedModel]) -> tuple[str, ...]:
    """Return the candidates that the search of any fold had to leave out, whose score is NaN beside others'."""
    found: dict[str, None] = {}
    for model in models:
        means = np.array(model.search.get(MEAN, []), dtype=float)
        if np.isnan(means).all():
            continue
        columns = parameter_columns(next(iter(model.chosen), VALUE), model.search)
        for place in np.flatnonzero(np.isnan(means)):
            found[", ".join(f"{name} {values[place]}" for name, values in columns.items())] = None
    return tuple(found)


def _middle_and_range(values: list[Any]) -> tuple[str, str]:
    """Return the lower median of numbers, a value that was really chosen, or of anything else the most frequent."""
    if all(map(is_number, values)):
        low, high = min(values), max(values)
        spread = f"{low:.3g} to {high:.3g}" if low != high else "in every fold"
        return f"{median_low(values):.3g}", spread
    first = max(values, key=values.count)
    times = values.count(first)
    return str(first), f"in {times} of {len(values)} folds" if times < len(values) else "in every fold"


def _which_end(choices: list[tuple[Any, dict[str, list[Any]]]], column: str) -> str:
    """Say so if every fold chose the largest, or the smallest, of three or more numbers, and one for being better.

    ``choices`` are the folds' values and searches. Where it is only as good as others the rule for ties has chosen it.
    """
    chosen, searches = zip(*choices, strict=True)
    tried = {value for search in searches for value in search.get(column, ())}
    if len(tried) < 3 or not all(map(is_number, tried)) or len(set(chosen)) > 1:
        return ""
    if not any(_is_better(chosen[0], search, column) for search in searches):
        return ""
    return {max(tried): ", the largest tried", min(tried): ", the smallest tried"}.get(chosen[0], "")


def _is_better(value: float, search: dict[str, list[Any]], column: str) -> bool:
    """Tell whether the candidates with a value of a parameter were better than those with another that were scored."""
    means = np.array(search[MEAN], dtype=float)
    own = np.array(search[column], dtype=float) == value
    if np.isnan(means[own]).all() or np.isnan(means[~own]).all():
        return False
    return bool(np.nanmax(means[own]) > np.nanmax(means[~own]) + TIE)


def _thousands(value: float | np.floating) -> str:
    """Return a count with its thousands set apart by narrow no-break spaces, as ISO 80000 writes them."""
    return f"{value:,.0f}".replace(",", "\u202f")


def summary_table(result: ExperimentResult, width: int = 80, text: int | None = None) -> Group:
    """Return the table for the console: failed cells in place, their reasons underneath, in at most ``text`` columns.

    Below WIDE columns, and where names would be cut, each data set has a table of its own, with fewer columns.
    """
    rows, score = summary_rows(result), ranked_by(result)
    notes = [Constrain(note, text) for note in _notes(rows)]
    heading = Text(result.name, style="italic")
    whole = _table(rows, CELLS, score)
    if width >= max(WIDE, Console(width=BROAD).measure(whole).maximum):
        return Group(heading, whole, *notes)
    shown = ["method", *(name for name in CELLS if name not in ("dataset", "solver", "sampler", "secs"))]
    if width < NARROW:
        shown.remove("G-mean ± sd" if score == AUC else "AUC ± sd")
    tables = [
        part
        for dataset in dict.fromkeys(row.dataset for row in rows)
        for part in (Text(dataset, style="bold"), _table([r for r in rows if r.dataset == dataset], shown, score))
    ]
    return Group(heading, *tables, *notes)


def _table(rows: Sequence[SummaryRow], names: Sequence[str], score: Score) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    for name in names:
        if name in ("dataset", "method", "solver", "sampler"):
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify="left" if name == "certificate" else "right", no_wrap=True)
    for row in rows:
        cells = _console_cells(row, score)
        table.add_row(*(cells[name] for name in names))
    return table


def _console_cells(row: SummaryRow, score: Score) -> dict[str, Text]:
    """Return the cells as Text: a name such as ``[red]`` is printed, not obeyed."""
    cells = {"dataset": row.dataset, "method": row.method, "solver": row.title, "sampler": row.sampler}
    told = {name: Text(value) for name, value in cells.items()} | {"secs": Text(f"{row.seconds:.1f}")}
    if row.error:
        return told | {"AUC ± sd": Text("failed", style="red"), "G-mean ± sd": Text("–"), "certificate": Text("–")}
    told |= {f"{each.name} ± sd": Text(each.of(row).text(3)) for each in (AUC, GMEAN)}
    if row.is_best:
        told[f"{score.name} ± sd"].stylize("bold")
    return told | {
        "certificate": Text(row.certificate, style=CERTIFICATE_STYLES.get(row.status, "yellow")),
    }


def _notes(rows: Sequence[SummaryRow]) -> list[Text]:
    """Return what has to be said under the table: why cells failed, which fits stopped early, what a gap is of, and
    what the first run took besides.
    """
    notes = [f"{row.dataset} / {row.method} failed: {row.error}" for row in rows if row.error]
    finished = [row for row in rows if not row.error]
    early = sorted({row.status for row in finished} - {CONVERGED, UNCERTIFIED})
    if early:
        notes.append(f"✗ stopped at {', '.join(early)} before the certificate met tol: a longer run may differ.")
    if any(row.status == UNCERTIFIED for row in finished):
        notes.append("Certificate none: an imported solver, which does not say how far from its optimum it stopped.")
    if any(row.kernel != "none" and row.status != UNCERTIFIED for row in finished):
        notes.append("With a kernel the certificate is that of the linear problem in its features (see the report).")
    for title, size, status in dict.fromkeys((r.title, r.committee, r.status) for r in finished if r.committee > 1):
        certified = "" if status == UNCERTIFIED else "; the certificate is that of its worst member"
        notes.append(f"{title}: a committee of up to {size} candidates{certified}.")
    notes += _large_committees(finished)
    notes += [f"{title}: {left_out_in_short(left_out)}" for title, left_out in _left_outs(rows)]
    notes += _doubts(rows)
    if (compiling := sum(row.compile_s for row in rows)) >= WORTH_TELLING_S:
        notes.append(f"Besides, {compiling:.0f} s went into compiling kernels; they are kept for the runs to come.")
    return [Text(note, style="yellow") for note in notes]


def _large_committees(rows: Sequence[SummaryRow]) -> list[str]:
    """Return of which methods so many candidates score together that poor ones have to be among them."""
    large = [
        (r.title, min(r.committee, r.tried), r.tried) for r in rows if r.committee > 1 and 2 * r.committee > r.tried
    ]
    return [
        f"{title}: its committee takes {size} of the {tried} candidates, poor ones too, and may score worse than the "
        "best one alone. Take fewer, or search more."
        for title, size, tried in dict.fromkeys(large)
        if tried > 1
    ]


def _doubts(rows: Sequence[SummaryRow]) -> list[str]:
    """Return what speaks against the use of methods: nothing was found, or they rank the other class first."""
    return [*map(_of_nothing, (row for row in rows if row.found_nothing[0])), *_upside_down(rows)]


def _of_nothing(row: SummaryRow) -> str:
    weighted = "class_weight" in solver(row.solver).parameter_names()
    remedy = "a larger C, or params: {class_weight: balanced}" if weighted else "a larger lam2 or lam1"
    return (
        f"{row.dataset} / {row.title} found nothing better than w = 0 in {row.found_nothing[0]} of "
        f"{row.found_nothing[1]} fits (the last is the refit): it costs less to misclassify the rarer class than to "
        f"tell it apart, and what it ranks by is what its tolerance leaves. Take {remedy}."
    )


def _upside_down(rows: Sequence[SummaryRow]) -> list[str]:
    """Return which methods rank the other class first, by more than chance."""
    return [
        f"{row.dataset} / {row.title} ranks the negative rows first: its AUC is {row.auc.mean:.4f}, with 95 % "
        f"confidence at most {row.auc.high:.4f}. Does its score fall where it should rise?"
        for row in rows
        if row.auc is not None and row.auc.has_interval and row.auc.high < 0.5
    ]


def _left_outs(rows: Sequence[SummaryRow]) -> list[tuple[str, tuple[str, ...]]]:
    return list(dict.fromkeys((row.title, row.left_out) for row in rows if row.left_out))


def left_out_in_short(candidates: Sequence[str]) -> str:
    """Return which candidates a search went without.

    >>> left_out_in_short(("C 1", "C 2"))
    'the search went without C 1 and C 2, which could not be fitted in every inner fold (-v tells why).'
    """
    words = _in_words(candidates)
    return f"the search went without {words}, which could not be fitted in every inner fold (-v tells why)."


def _in_words(names: Sequence[str]) -> str:
    """Return the first few of them as an enumeration."""
    named = [*names[:MOST_NAMED], *([f"{len(names) - MOST_NAMED} more"] if names[MOST_NAMED:] else [])]
    return " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))


def console_report(result: ExperimentResult, width: int = 80, text: int | None = None) -> Group:
    """Return the report as text: the table, then each data set's best method with its interval and its checks.

    The table has ``width`` columns, sentences at most ``text``: by default what the console has.
    """
    rows = summary_rows(result)
    notes = []
    for dataset in result.datasets:
        own = [row for row in rows if row.dataset == dataset.name]
        notes.append(_note(dataset.name, headline(own, ranked_by(result))))
        notes += [_note(f"{dataset.name}, held out", sentence) for sentence in held_out_sentences(result, dataset)]
        for finding in _by_severity(result.findings.get(dataset.name, ())):
            notes.append(_note(f"{dataset.name}, {finding.severity}", finding.message))
    if result.decision is not None:
        notes.append(_note("promote" if result.decision["promote"] else "do not promote", result.decision["reason"]))
    reference = beside(result)
    if reference:
        notes.append(_note(reference["source"], in_short(reference)))
    return Group(summary_table(result, width, text), "", *(Constrain(note, text) for note in notes))


def held_out_sentences(result: ExperimentResult, dataset: Dataset) -> list[str]:
    """Return what each method's refit makes of the rows held out, if there are any."""
    return [
        f"{cell.method} has an AUC of {cell.held_out.test.auc:.4f} and a G-mean of {cell.held_out.test.gmean:.4f} on "
        f"{cell.held_out.test.n_pos + cell.held_out.test.n_neg:,} rows ({cell.held_out.test.n_pos:,} positive)."
        for cell in result.results
        if cell.dataset == dataset.name and cell.held_out is not None
    ]


def _note(subject: str, message: str) -> Text:
    return Text.assemble((f"{subject}: ", "bold"), message)


def _by_severity(findings: Sequence[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda finding: finding.severity != "warning")


# --- the page --------------------------------------------------------------------------------------------------


def render_html(result: ExperimentResult) -> str:
    """Return one self-contained page: no link, no script, images inside, every text escaped."""
    rows = summary_rows(result)
    page = template("report.html.j2", thousands=_thousands).render(
        result=result,
        score=ranked_by(result),
        other=AUC if ranked_by(result) == GMEAN else GMEAN,
        sections=[_section(result, dataset, rank, rows) for rank, dataset in enumerate(result.datasets, 1)],
        n_methods=len({cell.method for cell in result.results}),
        kernels=sorted({row.kernel for row in rows} - {"none"}),
        committees=sorted({row.committee for row in rows} - {1}),
        large_committees=_large_committees([row for row in rows if not row.error]),
        left_out=[f"{title}: {left_out_in_short(left_out)}" for title, left_out in _left_outs(rows)],
        has_uncertified=any(row.status == UNCERTIFIED for row in rows),
        calibrated=sorted({cell.probabilities for cell in result.results} - {None}),
        thresholds=_thresholds(rows),
        reference=beside(result),
        n_failed=sum(row.error is not None for row in rows),
        config=json.dumps(result.config, indent=2, ensure_ascii=False, default=str),
    )
    # A tracking address in the configuration reads the same with its colon as an entity, and no tool takes the
    # page for one that reaches out. The template itself has no address, so no style or tag is touched.
    return page.replace("://", "&#58;//")


def _thresholds(rows: Sequence[SummaryRow]) -> str:
    """Return what the thresholds were set on, with the methods of each where there are several ways.

    A method that has one way on one data set and another on the next is named with them.
    """
    ways: dict[str, dict[str, list[str]]] = {}
    finished = [row for row in rows if not row.error]
    for row in finished:
        ways.setdefault(row.threshold_set_on, {}).setdefault(row.title, []).append(row.dataset)
    whole = Counter(row.title for row in finished)
    named = []
    for way, methods in ways.items():
        titles = [
            title if len(sets) == whole[title] else f"{title} on {_in_words(sets)}" for title, sets in methods.items()
        ]
        named.append(f"{THRESHOLDS[way]} ({'; '.join(titles)})" if len(ways) > 1 else THRESHOLDS[way])
    return ", or on ".join(named)


def _section(result: ExperimentResult, dataset: Dataset, rank: int, rows: Sequence[SummaryRow]) -> dict[str, Any]:
    """Return what the template needs to tell of one data set."""
    own = [row for row in rows if row.dataset == dataset.name]
    cells = [cell for cell in result.results if cell.dataset == dataset.name]
    score = ranked_by(result)
    return {
        "id": f"set-{rank}",
        "dataset": dataset,
        "rows": own,
        "headline": headline(own, score),
        "doubts": _doubts(own),
        "held_out": held_out_sentences(result, dataset),
        "scale": _interval_scale([score.of(row) for row in own if not row.error]),
        "spans": _spans(cells),
        "findings": _by_severity(result.findings.get(dataset.name, ())),
        "figures": list(_figures(dataset, cells, own, score.name)),
    }


def _spans(cells: Sequence[MethodResult]) -> list[dict[str, Any]]:
    """Return the spans of time that folds, and last the refit's rows held out, were tested on; none without times."""
    tested: dict[int, dict[str, Evaluation]] = {}
    for cell in cells:
        for evaluation in (*cell.evaluations, cell.held_out):
            if evaluation is not None and evaluation.span is not None:
                tested.setdefault(evaluation.fold, {})[cell.method] = evaluation
    return [{"fold": fold, "by_method": found, "first": next(iter(found.values()))} for fold, found in tested.items()]


def headline(rows: Sequence[SummaryRow], score: Score = AUC) -> str:
    """Return one sentence on a data set's best method that claims no more than the intervals allow."""
    done = [row for row in rows if not row.error]
    if not done:
        return "every method failed."
    best = next(row for row in done if row.is_best)
    found, others = score.of(best), [score.of(row) for row in done if row is not best]
    told = f"mean test {score.name}"
    if len(rows) == 1:
        return f"{best.method} has a {told} of {found.mean:.4f} (95 % interval {found.interval})."
    start = f"{_leaders(done)} the highest {told}, {found.mean:.4f} (95 % interval {found.interval})"
    if not others:
        return f"{start}; no other method finished."
    if not found.has_interval:
        reason = "a fold tests a single row of a class"
        if isfinite(found.low):
            reason = score.flawless if found.mean == 1.0 else score.alike
        return f"{start}: {reason}, so there is no interval to rank by."
    rivals = "; ".join(_rivals(found, others))
    if not rivals:
        return f"{start}; no other method's interval reaches it."
    return f"{start}; {rivals}, so the table alone does not rank them."


def _rivals(best: Spread, others: Sequence[Spread]) -> Iterator[str]:
    """Say of how many other methods the interval overlaps the best one's, and of how many it is not known."""
    unknown = sum(not other.has_interval for other in others)
    level = sum(best.overlaps(other) for other in others) - unknown
    share = f"of the {len(others)} other methods"
    if level and len(others) == 1:
        yield "the interval of the one other method overlaps it"
    elif level:
        yield f"the intervals of {level} {share} overlap it"
    if unknown and len(others) == 1:
        yield "the one other method has no interval"
    elif unknown:
        yield f"{unknown} {share} {'has' if unknown == 1 else 'have'} no interval"


def _leaders(rows: Sequence[SummaryRow]) -> str:
    """Return which methods have the highest mean, and the verb."""
    first, *others = [row.method for row in rows if row.is_best]
    if not others:
        return f"{first} has"
    return f"{first} and {others[0] if len(others) == 1 else f'{len(others)} others'} share"


def _interval_scale(scores: Sequence[Spread]) -> tuple[float, float]:
    """Return the range that the interval bars of one data set share."""
    known = [score for score in scores if score.has_interval]
    if not known:
        return 0.0, 1.0
    low, high = min(score.low for score in known), max(score.high for score in known)
    return low, max(high, low + 1e-6)


def _figures(
    dataset: Dataset, cells: Sequence[MethodResult], rows: Sequence[SummaryRow], score: str
) -> Iterator[dict[str, Any]]:
    """Yield the figures that have something to show, each with its caption and the text that stands for it."""
    aucs = ", ".join(f"{row.method} {row.auc.mean:.4f}" for row in rows if row.auc)
    gaps = ", ".join(f"{row.method} {row.certificate}" for row in rows if row.auc)
    told = (
        (
            plots.roc_comparison(cells),
            "ROC on the test folds: vertical mean over the folds, whole and at the upper left corner.",
            f"Mean test ROC curves on {dataset.name}. Mean AUC: {aucs}.",
        ),
        (
            plots.search_comparison(cells, score),
            f"Inner validation {score} against the first searched parameter, mean over the outer folds, any others as "
            "chosen; no test row is used.",
            f"Inner validation {score} on {dataset.name} against the searched parameter of each method.",
        ),
        (
            plots.convergence_comparison([_if_certified(cell) for cell in cells]),
            "Certificate of the refit against updates. Solvers minimise different objectives and count different "
            "units of work: read each curve's fall, do not compare heights.",
            f"Dual gap against updates on {dataset.name}. Largest gap over all fits: {gaps}.",
        ),
    )
    yield from ({"caption": caption, "alt": alt, **_image(figure)} for figure, caption, alt in told if figure)


def _if_certified(cell: MethodResult) -> MethodResult:
    """Return the result, without its refit where that has no history to draw; the colours of the others stay."""
    return cell if cell.final is None or cell.final.is_certified else replace(cell, final=None)


def _image(figure: Figure) -> dict[str, Any]:
    """Return the figure as a data URI, with its size in pixels so that the page does not jump."""
    width, height = (figure.get_size_inches() * plots.DPI).astype(int)
    encoded = base64.b64encode(plots.png_bytes(figure)).decode("ascii")
    return {"uri": f"data:image/png;base64,{encoded}", "width": width, "height": height}


@stage(name="report", task_run_name="report {result.name}")
def write_report(result: ExperimentResult, path: Path) -> Path:
    """Write the page, at once."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        draft.write_text(render_html(result), encoding="utf-8")
    return path
