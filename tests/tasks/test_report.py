"""Report: the page and the console table say the same, escape everything, and claim no more than they may."""

import base64
import math
import re
import shutil
import struct
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from io import StringIO
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from sample_results import dataset_of, experiment, method_result
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import RidgeClassifier

from tasks.report import (
    AUC,
    GMEAN,
    NARROW,
    Spread,
    SummaryRow,
    console_report,
    headline,
    ranked_by,
    render_html,
    summary_rows,
    summary_table,
    write_report,
)
from tasks.track import _mean_metrics
from tasks.values import ExperimentResult, Finding

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Inverted(RidgeClassifier):
    """A score that falls where it should rise."""

    def decision_function(self, X):
        return -super().decision_function(X)


@pytest.mark.parametrize(("rows", "said"), [(slice(None), True), (slice(0, 12), False)])
def test_a_method_that_ranks_the_wrong_way_round_is_told_of(rows, said):
    """By more than chance: of a few rows an AUC below a half says nothing."""
    X, y = load_breast_cancer(return_X_y=True)
    y = np.where(y == 0, 1, -1)
    few = np.sort(np.concatenate([np.flatnonzero(y == label)[rows] for label in (1, -1)]))
    X, y = X[few][:, [4]], y[few]
    data = dataset_of("cancer", X, y, "scikit-learn", "malignant positive")
    ways = [method_result("cancer", X, y, name, way) for name, way in [("up", RidgeClassifier()), ("down", Inverted())]]
    result = ExperimentResult("one", (data,), {"cancer": ()}, tuple(ways), {}, "0f3c2a", {})
    console = Console(file=StringIO(), width=400)
    console.print(console_report(result, 400))
    for text in (console.file.getvalue(), Reader(render_html(result)).text):
        assert ("cancer / down ranks the negative rows first: its AUC is 0." in text) == said
        assert "up ranks" not in text


@pytest.fixture(scope="module")
def page() -> str:
    return render_html(experiment())


class Reader(HTMLParser):
    """Collects what the tests ask of a page: tags in order with attributes, text, and each table row's cells."""

    VOID = frozenset({"meta", "br", "img", "line", "circle"})

    def __init__(self, page: str):
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(page)
        assert self.open == [], f"left open: {self.open}"

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_startendtag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] = " ".join(f"{self.rows[-1][-1]} {data}".split())

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]


def console_text(result: ExperimentResult, width: int = 80) -> str:
    console = Console(width=width, file=StringIO(), color_system=None)
    console.print(summary_table(result, width))
    return console.file.getvalue()


def renamed(result: ExperimentResult, name: str) -> ExperimentResult:
    """Return the first data set's part of the result, with `name` wherever a user's text can stand."""
    first = result.datasets[0]
    own = [r for r in result.results if r.dataset == first.name]
    provenance = replace(first.provenance, positive_label=name, rule=name, source=name)
    finding = Finding("constant_column", "warning", f"column {name} is constant", 1, (name,))
    return replace(
        result,
        name=name,
        datasets=(replace(first, name=name, provenance=provenance),),
        findings={name: (finding,)},
        results=tuple(replace(r, dataset=name, error=name if r.error else None) for r in own),
        config={name: name},
        facts={name: name},
        run_id=name,
    )


def row(method: str, auc: float, half: float, best: bool = False) -> SummaryRow:
    """A row whose two scores are the same: which of them is told depends on what the searches went by."""
    spread = Spread(auc, 0.01, auc - half, auc + half)
    return SummaryRow("d", method, method, "none", 1.0, auc=spread, gmean=spread, is_best=best)


def by_gmean(result):
    return replace(result, config={**result.config, "validation": {"select_by": "gmean"}})


# --- rows ------------------------------------------------------------------------------------------------------


def test_rows_hold_the_folds_means_in_the_order_of_the_run():
    result = experiment()
    rows = summary_rows(result)
    assert [(r.dataset, r.method) for r in rows] == [(c.dataset, c.method) for c in result.results]
    assert (rows[0].auc.mean, rows[0].auc.sd) == result.results[0].mean_sd("auc")
    assert (rows[0].auc.low, rows[0].auc.high) == result.results[0].auc_interval()
    assert rows[0].train_auc.mean == result.results[0].fold_values("auc", "train").mean()


@pytest.mark.parametrize("score", [AUC, GMEAN], ids=lambda score: score.field)
def test_one_best_per_data_set_and_it_has_the_highest_mean_of_what_the_searches_went_by(score):
    result = experiment() if score == AUC else by_gmean(experiment())
    assert ranked_by(result) == score
    for name in ("digits_8", "breast_cancer"):
        rows = [r for r in summary_rows(result) if r.dataset == name and not r.error]
        (best,) = [r for r in rows if r.is_best]
        assert score.of(best).mean == max(score.of(r).mean for r in rows)


def test_the_interval_of_the_gmean_is_the_corrected_resampled_t():
    """By hand: G-means .90, .94, .92, .96 of four folds have variance .002/3; t(3) is 3.1824; 1/4 + 1/3 of it count."""
    cell = experiment().results[0]
    folds = [
        replace(e, test=replace(e.test, gmean=gmean))
        for e, gmean in zip(cell.evaluations[:4], (0.90, 0.94, 0.92, 0.96), strict=True)
    ]
    half = 3.182446305284263 * math.sqrt((1 / 4 + 1 / 3) * 0.002 / 3)
    four = replace(cell, evaluations=tuple(folds))
    assert four.gmean_interval() == pytest.approx((0.93 - half, 0.93 + half))
    # the same again as a second repeat: eight values, and still a third as many test rows as training rows
    twice = replace(four, evaluations=(*folds, *folds), repeats=2)
    half = 2.364624251592784 * math.sqrt((1 / 8 + 1 / 3) * 2 * 0.002 / 7)
    assert twice.gmean_interval() == pytest.approx((0.93 - half, 0.93 + half))
    # equal values have a mean that is a rounding away from them, and so a variance: no interval all the same
    equal = [replace(e, test=replace(e.test, gmean=0.95)) for e in cell.evaluations[:3]]
    assert np.var([e.test.gmean for e in equal]) > 0.0
    low, high = replace(cell, evaluations=tuple(equal)).gmean_interval()
    assert low == high
    alone = replace(cell, evaluations=four.evaluations[:1]).gmean_interval()
    assert all(map(math.isnan, alone))


def test_what_the_searches_went_by_is_what_the_report_tells_first():
    """In the headline, in the first columns of the page, and in the only column that a narrow console has room for."""
    result = experiment()
    by_auc, gmeans = headline_of(result), headline_of(by_gmean(result))
    assert "highest mean test AUC" in by_auc and "highest mean test G-mean" in gmeans
    reader = Reader(render_html(by_gmean(result)))
    assert reader.rows[0][1:4] == ["G-mean ± sd", "95 % interval (corrected t)", "AUC ± sd"]
    assert "Nadeau and Bengio" in reader.text and "DeLong" not in reader.text
    narrow = console_text(by_gmean(result), NARROW - 1)
    assert "G-mean ± sd" in narrow and "AUC ± sd" not in narrow


def headline_of(result) -> str:
    name = result.datasets[0].name
    return headline([r for r in summary_rows(result) if r.dataset == name], ranked_by(result))


def test_the_same_gmean_in_every_fold_is_no_certainty():
    other, end = row("b", 0.9, 0.01), ", so there is no interval to rank by."
    for gmean, why in ((1.0, "no test row is classified wrongly"), (0.95, "it is the same in every fold")):
        assert headline([row("a", gmean, 0.0, best=True), other], GMEAN).endswith(why + end)


def test_equal_means_are_all_marked():
    cells = experiment().results
    twins = replace(experiment(), results=(cells[0], replace(cells[0], method="twin"), cells[2]))
    assert [r.is_best for r in summary_rows(twins)] == [True, True, False]


def test_an_unknown_interval_is_said_to_be_unknown_and_ranks_nothing():
    known, unknown = row("a", 0.9, 0.01, best=True), row("b", 0.8, math.nan)
    assert unknown.auc.interval == "unknown"
    assert known.auc.overlaps(unknown.auc)
    assert headline([known, unknown]).endswith(
        "; the one other method has no interval, so the table alone does not rank them."
    )
    several = headline([known, unknown, unknown, row("c", 0.89, 0.01)])
    assert "the intervals of 1 of the 3 other methods overlap it; 2 of the 3 other methods have no interval" in several
    level = replace(known, method="b")
    assert headline([known, level, unknown]).startswith(
        "a and b share the highest mean test AUC, 0.9000 (95 % interval "
    )
    assert headline([known, level, level, unknown]).startswith("a and 2 others share the highest mean test AUC")
    said = headline([row("c", 0.95, math.nan, best=True), replace(known, is_best=False)])
    assert said.endswith("a fold tests a single row of a class, so there is no interval to rank by.")


def test_no_error_on_the_test_rows_is_no_certainty():
    """DeLong's variance is 0 then, and an interval of no length would beat all others."""
    flawless, other = row("a", 1.0, 0.0, best=True), row("b", 0.9, 0.01)
    assert flawless.auc.interval == "unknown"
    assert flawless.auc.overlaps(other.auc)
    assert headline([flawless, other]).endswith("no test row is ranked wrongly, so there is no interval to rank by.")
    tied = row("a", 0.5, 0.0, best=True)
    assert headline([tied, row("b", 0.4, 0.01)]).endswith("ranked alike, so there is no interval to rank by.")
    single = row("a", 1.0, math.nan, best=True)
    assert "a fold tests a single row of a class" in headline([single, other])


def test_no_error_on_the_test_rows_is_no_certainty_in_mlflow_either():
    """An interval of 1.0 to 1.0 would be compared with others there."""
    cell = experiment().results[0]
    flawless = [replace(e, test=replace(e.test, auc=1.0, auc_variance=0.0)) for e in cell.evaluations]
    sent = [{name for name, *_ in _mean_metrics(one)} for one in (cell, replace(cell, evaluations=tuple(flawless)))]
    assert sent[0] - sent[1] == {"test_auc_mean_low", "test_auc_mean_high"}
    alike = [replace(e, test=replace(e.test, gmean=0.5)) for e in cell.evaluations]
    sent.append({name for name, *_ in _mean_metrics(replace(cell, evaluations=tuple(alike)))})
    assert sent[0] - sent[2] == {"test_gmean_mean_low", "test_gmean_mean_high"}


def test_the_console_tells_the_table_the_intervals_and_the_checks():
    console = Console(width=80, file=StringIO(), color_system=None)
    console.print(console_report(experiment()))
    text = " ".join(console.file.getvalue().split())
    for dataset in experiment().datasets:
        assert f"{dataset.name}: " in text
    for findings in experiment().findings.values():
        for finding in findings:
            assert " ".join(finding.message.split()) in text


def test_certificate_is_of_the_worst_fit():
    """One fold of five that stopped early must not hide behind four that converged with larger gaps."""
    cell = experiment().results[1]
    early = replace(cell.models[2], status="max_iter", dual_gap=1e-7)
    mixed = replace(cell, models=(*cell.models[:2], early, *cell.models[3:]))
    certificates = [r.certificate for r in summary_rows(replace(experiment(), results=(cell, mixed)))]
    assert certificates == ["3e-05 ✓", "1e-07 ✗"]


def test_certificate_is_in_units_of_the_objective_at_zero():
    """A gap of 0.5 is little for C n = 1437 slack units, and half of everything for a mean over pairs."""
    (cell, *_) = experiment().results
    large = replace(cell.final, gap_unit=1437.0, dual_gap=0.5)
    assert large.certificate == pytest.approx(0.5 / 1437)
    assert replace(cell.final, dual_gap=0.5).certificate == 0.5


@pytest.mark.parametrize(
    ("gap", "status", "expected"),
    [
        (3.2e-4, "converged", "3e-04 ✓"),
        (0.02, "max_iter", "2e-02 ✗"),
        (0.0, "converged", "0 ✓"),
        (-1e-18, "converged", "0 ✓"),
        (float("nan"), "max_iter", "none ✗"),
        (float("inf"), "diverged", "none ✗"),
    ],
)
def test_certificate_in_short(gap, status, expected):
    assert replace(row("m", 0.9, 0.1), gap=gap, status=status).certificate == expected


def test_sampled_rows_and_chosen_parameter():
    """1,797 rows leave 1,437.6 for training on average; u1 keeps 55 % of the majority; one fold of five chose 10⁻³."""
    rows = {r.method: r for r in summary_rows(experiment()) if r.dataset == "digits_8"}
    assert rows["u1+linear_svm"].kept == ("853", "of 1\u202f438 (59 %)")
    assert rows["u1+linear_svm"].chosen == ("C 0.01", "0.001 to 0.01")
    assert rows["sdcd"].kept == ("1\u202f438", "of 1\u202f438 (100 %)")
    assert rows["oam_seq"].chosen == ("–", "")
    cell = experiment().results[0]
    both = replace(cell, models=[replace(m, chosen=m.chosen | {"gamma_factor": 10.0}) for m in cell.models])
    (row,) = summary_rows(replace(experiment(), results=(both,)))
    assert row.chosen[0].endswith(", γ × 10") and row.chosen[1].endswith("; in every fold")


def test_compiling_is_told_beside_the_time_that_leaves_it_out():
    result = experiment()
    assert "compiling" not in render_html(result)
    compiled = replace(result.results[0], seconds=2.0, compile_s=5.44)
    page = render_html(replace(result, results=(compiled, *result.results[1:])))
    assert '<td class="n">2.0 <small>+ 5.4 compiling</small></td>' in page


@pytest.mark.parametrize(("compile_s", "told"), [(1.2, False), (5.44, True)])
def test_compiling_that_takes_seconds_is_told_on_the_console(compile_s, told):
    result = experiment()
    compiled = replace(result.results[0], compile_s=compile_s)
    output = StringIO()
    Console(file=output, width=200).print(console_report(replace(result, results=(compiled, *result.results[1:]))))
    assert ("Besides, 5 s went into compiling kernels; they are kept" in output.getvalue()) == told


@pytest.mark.parametrize(
    ("tried", "means", "chosen", "told"),
    [
        ((0.1, 1.0, 10.0), (0.8, 0.8, 0.9), 10.0, "in every fold, the largest tried"),
        ((0.1, 1.0, 10.0), (0.9, 0.8, 0.8), 0.1, "in every fold, the smallest tried"),
        ((0.1, 1.0, 10.0), (0.8, 0.9, 0.8), 1.0, "in every fold"),
        ((0.1, 1.0), (0.8, 0.9), 1.0, "in every fold"),  # of two one always is
        (("scale", 1.0, 10.0), (0.8, 0.8, 0.9), 10.0, "in every fold"),
        # among equals the most regularised is taken: that says nothing for a wider grid
        ((0.1, 1.0, 10.0), (0.9, 0.9, 0.9), 10.0, "in every fold"),
        ((0.1, 1.0, 10.0), (0.8, 0.9, 0.9), 10.0, "in every fold"),
        ((0.1, 1.0, 10.0, 500.0), (0.9, 0.9, 0.8, math.nan), 0.1, "in every fold"),
        ((0.1, 1.0, 10.0, 500.0), (0.8, 0.8, 0.9, math.nan), 10.0, "in every fold"),  # more cannot be fitted
        ((0.1, 1.0, 10.0), (0.9 - 1e-13, 0.9 - 1e-13, 0.9), 10.0, "in every fold"),
        ((0.1, 1.0, 10.0), (math.nan,) * 3, 10.0, "in every fold"),
    ],
)
def test_a_choice_at_the_end_of_its_grid_in_every_fold_is_told(tried, means, chosen, told):
    cell = experiment().results[0]
    search = {"value": tried, "mean": means, "sd": [0.1] * len(tried)}
    models = [replace(model, chosen={"lam": chosen}, search=search) for model in cell.models]
    (row,) = summary_rows(replace(experiment(), results=(replace(cell, models=models),)))
    assert row.chosen == (f"λ {chosen:g}", told)


def test_an_end_is_told_where_all_folds_chose_it_and_one_for_being_better():
    cell = experiment().results[0]
    search = {"value": (0.1, 1.0, 10.0), "mean": (0.8, 0.8, 0.9), "sd": (0.1,) * 3}
    models = [replace(model, chosen={"lam": 10.0}, search=search) for model in cell.models]
    indifferent = [replace(model, search=search | {"mean": (0.9,) * 3}) for model in models[1:]]
    other = replace(models[0], chosen={"lam": 0.1}, search=search | {"mean": (0.9, 0.8, 0.8)})
    for folds, told in (
        ([models[0], *indifferent], "in every fold, the largest tried"),
        ([other, *models[1:]], "0.1 to 10"),
    ):
        (row,) = summary_rows(replace(experiment(), results=(replace(cell, models=folds),)))
        assert row.chosen[1] == told


@pytest.mark.parametrize(
    ("count", "told"), [(1, "lam 1e-05, which"), (4, "lam 1e-05, lam 0.0001, lam 0.001 and 1 more, which")]
)
def test_candidates_that_a_search_went_without_are_named_on_console_and_page(count, told):
    result = experiment()
    cell = result.results[0]
    (first, *others) = cell.models
    scores = [float("nan")] * count + [0.9] * (len(first.search["value"]) - count)
    unfit = replace(first, search=first.search | {"mean": scores, "sd": scores})
    result = replace(result, results=(replace(cell, models=(unfit, *others)),))
    console = Console(width=80, file=StringIO(), color_system=None)
    console.print(console_report(result))
    sentence = f"the search went without {told} could not be fitted in every inner fold"
    assert sentence in " ".join(console.file.getvalue().split())
    assert sentence in " ".join(render_html(result).split())
    assert not any(row.left_out for row in summary_rows(experiment()))


@pytest.mark.parametrize(
    ("size", "count", "told"), [(5, 9, "5 of the 9"), (5, 3, "3 of the 3"), (5, 10, ""), (5, 1, "")]
)
def test_a_committee_of_more_than_half_of_the_candidates_is_told_of(size, count, told):
    cell = experiment().results[0]
    search = {"value": [0.1] * (count + 1), "mean": [0.9] * count + [float("nan")], "sd": [0.1] * (count + 1)}
    models = tuple(replace(model, search=search) for model in cell.models)
    result = replace(experiment(), results=(replace(cell, models=models, committee=size),))
    sentence = f"its committee takes {told} candidates, poor ones too, and may score worse than the best one alone"
    for text in (console_text(result), Reader(render_html(result)).text):
        assert (sentence in " ".join(text.split())) == bool(told)
        assert ("its committee takes" in " ".join(text.split())) == bool(told)


# --- what may be said ------------------------------------------------------------------------------------------


def test_overlapping_intervals_have_no_winner():
    said = headline([row("a", 0.90, 0.02, best=True), row("b", 0.89, 0.02), row("c", 0.80, 0.02)])
    assert said.startswith("a has the highest mean test AUC, 0.9000 (95 % interval 0.8800 to 0.9200)")
    assert said.endswith("the intervals of 1 of the 2 other methods overlap it, so the table alone does not rank them.")


def test_headline_without_overlap_without_rival_and_without_result():
    best, failed = row("a", 0.90, 0.01, best=True), SummaryRow("d", "x", "x", "none", 1.0, error="E: no")
    assert headline([best, row("b", 0.80, 0.02)]).endswith("; no other method's interval reaches it.")
    assert headline([best, row("b", 0.89, 0.02)]).endswith("does not rank them.")
    assert headline([best, failed]).endswith("; no other method finished.")
    assert headline([failed]) == "every method failed."


def test_nothing_is_called_a_winner(page):
    assert not re.search(r"\b(winner|wins|beats|significant)", Reader(page).text, re.IGNORECASE)


# --- the console -----------------------------------------------------------------------------------------------


def test_console_table_fits_80_columns_with_failures_in_place():
    text = console_text(experiment())
    lines = text.splitlines()
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if line.startswith("breast_cancer ")]) == 7  # six methods and one reason
    place = next(i for i, line in enumerate(lines) if "oam_seq" in line)
    assert "failed" in lines[place] and "linear_svm" in lines[place - 1]
    assert "digits_8 / oam_seq failed: ValueError: Expected lam > 0, got 0" in text


def test_console_table_of_long_names_folds_names_but_not_numbers():
    text = console_text(renamed(experiment(), "a_very_long_name_of_a_data_set_" * 3))
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text and "0.968 ± 0.017" in text


@pytest.mark.parametrize("width", [40, 53, 54, 60, 79])
def test_a_narrow_console_gets_fewer_columns_and_no_name_in_pieces(width):
    text = console_text(experiment(), width)
    lines = text.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in text
    for cell in experiment().results:
        assert any(line.startswith(cell.method) and ("±" in line or "failed" in line) for line in lines)
    headers = [line for line in lines if "AUC ± sd" in line]
    assert len(headers) == 2
    assert all(("G-mean ± sd" in line) == (width >= 54) and "certificate" in line for line in headers)


def test_a_long_name_is_not_cut_to_pieces_where_a_table_of_its_own_holds_it():
    name = "led7digit-0-2-4-5-6-7-8-9_vs_1"
    (dataset, *_), cells = experiment().datasets, [replace(cell, dataset=name) for cell in experiment().results[:3]]
    long = replace(experiment(), datasets=(replace(dataset, name=name),), findings={}, results=tuple(cells))
    for width, times in ((80, 1), (160, 3)):  # above a table of its own, and in each row
        lines = console_text(long, width).splitlines()
        assert max(map(len, lines)) <= width
        assert sum(line.startswith(name) for line in lines) == times


def test_console_prints_markup_instead_of_obeying_it():
    assert "[red]x[/]" in console_text(renamed(experiment(), "[red]x[/]"))


def test_page_and_console_agree(page):
    shown = {tuple(cells[:2]) for cells in Reader(page).rows}
    for r in summary_rows(experiment()):
        name = r.solver if r.sampler == "none" else f"{r.solver} on {r.sampler} sample"
        assert (name, r.auc.text(4) if r.auc else "failed") in shown


# --- the page --------------------------------------------------------------------------------------------------


def test_page_needs_nothing_from_outside(page):
    assert "://" not in page
    reader = Reader(page)
    assert reader.all("script") == reader.all("link") == []
    assert all(image["src"].startswith("data:image/png;base64,") for image in reader.all("img"))
    assert all(anchor["href"].startswith("#set-") for anchor in reader.all("a"))
    assert {"http-equiv": "Content-Security-Policy"}.items() <= reader.all("meta")[2].items()


def test_every_text_of_a_user_is_escaped():
    name = '<script>alert("x")</script>\'"&'
    reader = Reader(render_html(renamed(experiment(), name)))
    assert reader.all("script") == []
    assert reader.text.count('<script>alert("x")</script>') >= 12  # title, heading, facts, finding, error, config, ...
    assert all(name in image["alt"] for image in reader.all("img"))


def test_addresses_are_shown_and_not_linked():
    page = render_html(replace(experiment(), facts={"tracking": "http://127.0.0.1:5000"}))
    assert "://" not in page
    assert "http://127.0.0.1:5000" in Reader(page).text


def test_page_is_accessible(page):
    reader = Reader(page)
    assert reader.all("html") == [{"lang": "en"}] and "<title>quickstart: aucflow report</title>" in page
    assert all(header.get("scope") in ("col", "row", "rowgroup") for header in reader.all("th"))
    assert all(len(image["alt"]) > 30 for image in reader.all("img")) and len(reader.all("img")) == 6
    levels = [int(tag[1]) for tag, _ in reader.tags if re.fullmatch(r"h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_images_are_as_large_as_the_page_says(page):
    for image in Reader(page).all("img"):
        png = base64.b64decode(image["src"].partition(",")[2])
        assert struct.unpack(">II", png[16:24]) == (int(image["width"]), int(image["height"]))


def test_page_tells_the_facts(page):
    text = re.sub(r"[ \n]+", " ", Reader(page).text)
    data = ("1\u202f797 × 64", "174, 1\u202f623", "9.33", "8 against rest", "No findings.")
    run = ("started 2026-11-21 12:00 UTC", "2 cells failed", "1a2b3c4 (dirty)", '"select_by": "auc"', "a tie counts ½")
    for fact in (*data, *run):
        assert fact in text, fact
    assert {"title": "cd34" * 16} in Reader(page).all("code")
    assert text.index("3 columns hold one value") < text.index("2 cells are empty")  # the warning before the note


@pytest.mark.parametrize(
    ("labels", "rule", "told"),
    [
        (("8", "rest"), "8 against the rest", "8 against rest"),
        (("b & w", "c"), "b & w against c", "b & w against c"),
        (("c", "rest"), "c, the rarest, against the rest", "c against rest (c, the rarest, against the rest)"),
        (("M", "B"), "minority class M positive", "M against B (minority class M positive)"),
    ],
)
def test_the_rule_stands_beside_the_labels_if_it_says_more(labels, rule, told):
    first = experiment().datasets[0]
    provenance = replace(first.provenance, positive_label=labels[0], negative_label=labels[1], rule=rule)
    text = Reader(render_html(replace(experiment(), datasets=(replace(first, provenance=provenance),)))).text
    assert f"positive label{told} source" in " ".join(text.split())


def test_a_kernel_is_named_and_its_certificate_explained(page):
    assert "Kernel (" not in page
    cells = experiment().results
    curved = replace(cells[1], kernel="gaussian", sampler="u1", method="u1+gaussian+sdcd_perm")
    result = replace(experiment(), results=(cells[0], curved))
    text = " ".join(Reader(render_html(result)).text.split())
    assert "gaussian+sdcd_perm on u1 sample" in text
    assert "Kernel (gaussian)" in text and "The certificate is that of this linear problem" in text
    assert "certificate is that of the linear problem" in " ".join(console_text(result).split())
    assert "linear problem" not in console_text(experiment())


def test_two_methods_of_one_solver_are_told_apart_by_their_names():
    cells = experiment().results
    named = replace(cells[0], method="balanced", sampler="u1")
    result = replace(experiment(), results=(cells[0], named))
    text = " ".join(Reader(render_html(result)).text.split())
    assert f"balanced {cells[0].solver} on u1 sample" in text
    first, second = (line.split() for line in console_text(result, width=100).splitlines()[2:4])
    assert (first[1], second[1:3]) == (cells[0].solver, ["balanced", "u1"])


def test_a_committee_is_named_and_explained(page):
    assert "Committee (" not in page
    cells = experiment().results
    result = replace(experiment(), results=(cells[0], replace(cells[1], kernel="gaussian", committee=5)))
    text = " ".join(Reader(render_html(result)).text.split())
    assert "gaussian+sdcd_perm × 5" in text
    assert "Committee (× 5)" in text and "The certificate is that of the worst member" in text
    assert "sdcd_perm: a committee of up to 5 candidates" in " ".join(console_text(result).split())
    failed = replace(experiment(), results=(cells[0], replace(cells[1], kernel="gaussian", committee=5, error="E: no")))
    for other in (experiment(), failed):
        assert "committee" not in console_text(other) and "linear problem" not in console_text(other)


def test_selection_by_gmean_is_said(page):
    assert "Inner validation AUC" in page
    result = replace(experiment(), config={"validation": {"select_by": "gmean"}})
    assert "Inner validation G-mean" in render_html(result)


def test_what_a_threshold_was_set_on_is_said_and_of_which_method_where_there_are_two_ways(page):
    set_on = "one threshold, which was set on the training rows alone"
    assert f"{set_on}: on the model’s own scores of them." in " ".join(Reader(page).text.split())
    cells = experiment().results
    models = [replace(model, threshold_set_on="out_of_fold_smoothed") for model in (*cells[1].models, cells[1].final)]
    narrow = replace(cells[1], models=tuple(models[:-1]), final=models[-1])
    text = " ".join(Reader(render_html(replace(experiment(), results=(cells[0], narrow)))).text.split())
    assert f"{set_on}: on the model’s own scores of them ({cells[0].solver}), or on the smoothed" in text
    assert f"fitted without that row ({narrow.solver})." in text
    both = replace(cells[0], dataset="another", models=narrow.models, final=narrow.final)
    text = " ".join(Reader(render_html(replace(experiment(), results=(cells[0], both)))).text.split())
    assert f"own scores of them ({cells[0].solver} on {cells[0].dataset}), or on the smoothed" in text
    assert f"fitted without that row ({cells[0].solver} on another)." in text
    nothing = replace(experiment(), results=tuple(cell for cell in cells if cell.error))
    assert f"{set_on}." in " ".join(Reader(render_html(nothing)).text.split())


@pytest.mark.parametrize("keep", ["only failures", "no method"])
def test_page_of_an_experiment_without_results(keep):
    failures = tuple(r for r in experiment().results if r.error) if keep == "only failures" else ()
    result = replace(experiment(), results=failures, facts={}, config={}, run_id="")
    reader = Reader(render_html(result))
    assert reader.all("img") == []
    assert "every method failed." in reader.text
    assert console_text(result)


def test_classes_lead_back_to_the_original_labels():
    result = experiment()
    first = result.datasets[0]
    sides, counts = {"7": 1, "<8>": -1, "9": 0}, {"7": 12, "<8>": 3456, "9": 5}
    provenance = replace(first.provenance, label_sides=sides, label_counts=counts, rows_left_out=5)
    text = render_html(replace(result, datasets=(replace(first, provenance=provenance), *result.datasets[1:])))
    assert "Original labels (3), 5 rows left out" in text
    for cells in (
        "<td>7</td><td>+1</td><td>12</td>",
        "<td>&lt;8&gt;</td><td>−1</td><td>3\u202f456</td>",
        "<td>9</td><td>left out</td>",
    ):
        assert cells in text
    assert text.count("Original labels") == 1, "two labels without leftovers are told in a line"


def test_facts_of_a_data_set_without_methods_are_still_told():
    extra = dataset_of("extra", np.zeros((4, 3)), np.array([1, -1, -1, -1]), "x.csv", "yes positive")
    result = replace(experiment(), datasets=(*experiment().datasets, extra))
    assert "extra" in Reader(render_html(result)).text


# --- the file --------------------------------------------------------------------------------------------------


def test_write_report_replaces_the_old_page_at_once(tmp_path):
    path = tmp_path / "reports" / "quickstart.html"
    assert write_report.fn(experiment(), path) == path
    path.write_text("old")
    write_report.fn(experiment(), path)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [p.name for p in path.parent.iterdir()] == ["quickstart.html"]


def test_failed_write_leaves_the_old_page_and_no_litter(tmp_path, monkeypatch):
    path = tmp_path / "quickstart.html"
    path.write_text("old")
    monkeypatch.setattr("tasks.files.os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_report.fn(experiment(), path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["quickstart.html"]


def open_in_browser(page: Path) -> tuple[Reader, set[str]]:
    """Open the page in headless Chromium; return what it shows, and who started each network request.

    Requests of the browser itself have the initiator "not an origin"; those of a page from a file have "null".
    """
    log, profile = page.with_suffix(".netlog"), page.with_suffix(".profile")
    flags = ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
    offline = "--host-resolver-rules=MAP * ~NOTFOUND"
    where = (f"--user-data-dir={profile}", f"--log-net-log={log}", "--dump-dom", page.as_uri())
    done = subprocess.run([CHROMIUM, *flags, offline, *where], capture_output=True, text=True, timeout=120, check=True)
    return Reader(done.stdout), set(re.findall(r'"initiator":"([^"]*)"', log.read_text()))


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_browser_shows_every_row_and_asks_the_network_for_nothing(tmp_path):
    reader, initiators = open_in_browser(write_report.fn(experiment(), tmp_path / "report.html"))
    assert len(reader.rows) == 1 + 2 * (1 + 6)  # heads, then per data set its name and six methods
    assert sum(cells[1:2] == ["failed"] for cells in reader.rows) == 2
    assert initiators <= {"not an origin"}


@pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed")
def test_page_forbids_what_it_does_not_need(tmp_path, page):
    """The control of the test above: an image from outside is asked for, unless the page's own policy stands."""
    planted = page.replace("</main>", '<img src="http://127.0.0.1:9/x.png" alt=""></main>')
    for name, text in (("guarded", planted), ("open", re.sub("<meta http-equiv[^>]*>", "", planted))):
        path = tmp_path / f"{name}.html"
        path.write_text(text, encoding="utf-8")
        assert ("null" in open_in_browser(path)[1]) == (name == "open")
