"""A source's figures beside ours, and what the report says of solvers that certify nothing and samplers that add."""

import re
from dataclasses import replace
from io import StringIO

import numpy as np
import pytest
from rich.console import Console
from sample_results import experiment

from tasks.configuration import is_number, load_config
from tasks.reference import beside, in_short, load_reference
from tasks.report import console_report, render_html, summary_rows
from tasks.values import UNCERTIFIED, Table

EMPTY = {name: np.empty(0) for name in ("updates", "objective", "dual_gap", "auc", "time_s")}


def named_as(result, names, **config):
    """Return the experiment with its data sets renamed, in order."""
    new = dict(zip([d.name for d in result.datasets], names, strict=True))
    return replace(
        result,
        datasets=tuple(replace(d, name=new[d.name]) for d in result.datasets),
        findings={new[name]: found for name, found in result.findings.items()},
        results=tuple(replace(cell, dataset=new[cell.dataset]) for cell in result.results),
        config=result.config | config,
    )


def test_the_sources_figures_are_all_there():
    reference = load_reference("lu2019")
    assert len(reference.figures) == 16 * 2 * 3
    assert "i5-4590" in reference.machine
    assert "Lu, Zhang, Cai" in reference.source
    (slowest,) = [f for f in reference.figures if f.total_s > 5000]
    assert (slowest.dataset, slowest.label, slowest.test_pct) == ("page_blocks0", "MWMOTE, gaussian", 61.99)


def test_the_suite_of_aucs_has_the_sources_sets_and_methods():
    config, reference = load_config("jiang2014"), load_reference("jiang2014")
    assert reference.score == "auc" and len(reference.figures) == 10 * 4
    assert {figure.dataset for figure in reference.figures} == {dataset.name for dataset in config.datasets}
    ours = {method.label for method in config.methods}
    assert {figure.label for figure in reference.figures} == ours - {"svm_or"}


def test_aucs_stand_beside_aucs_without_seconds_that_are_not_told():
    result = named_as(experiment(), ["sonar", "mine"], reference="jiang2014")
    table = beside(result)
    (row,) = table["rows"]
    assert [f.test_pct for f in row["theirs"]] == pytest.approx([86.11, 86.52, 86.50, 86.53])
    first = result.results[0]
    assert row["ours"][0]["mean"] == 100 * first.mean_sd("auc")[0]
    assert in_short(table).startswith("of 1 sets, test AUC above every figure")
    page = render_html(result)
    assert '<td class="n">86.5</td>' in page and "Mean test AUC in percent" in page and "The source’s" not in page


def test_without_a_reference_or_a_set_of_it_nothing_is_said():
    assert beside(experiment()) is None
    assert beside(named_as(experiment(), ["a", "b"], reference="lu2019")) is None
    assert "Beside the source" not in render_html(experiment())


def test_ours_and_theirs_stand_in_one_row_and_the_better_is_bold():
    result = named_as(experiment(), ["wisconsin", "mine"], reference="lu2019")
    result = replace(result, facts=result.facts | {"machine": "a machine of ours"})
    table = beside(result)
    (row,) = table["rows"]
    assert [f.test_pct for f in row["theirs"]] == [38.53, 64.71, 53.16, 69.04, 81.55, 70.55]
    assert table["labels"][1] == "UZOVR, linear"
    first = result.results[0]
    assert row["ours"][0] == {
        "mean": 100 * first.mean_sd("gmean")[0],
        "se": pytest.approx(100 * np.std(first.fold_values("gmean"), ddof=1) / np.sqrt(len(first.evaluations))),
        "seconds": first.seconds,
        "above": 100 * first.mean_sd("gmean")[0] > 81.55,
    }
    assert row["ours"][-1] is None  # the method that failed
    page = render_html(result)
    for text in ("Beside the source", "i5-4590", "a machine of ours", "81.5", f"{first.seconds:.1f} s"):
        assert text in page, text
    assert page.count('<td class="n best">') == sum(bool(ours and ours["above"]) for ours in row["ours"]) > 0
    output = StringIO()
    Console(file=output, width=200).print(console_report(result))
    assert in_short(table) in " ".join(output.getvalue().split())


def with_gmeans(result, of_method):
    """Return the experiment's finished cells, each method with this G-mean on every fold of every set."""
    cells = []
    for cell in result.results:
        found = tuple(
            replace(e, test=replace(e.test, gmean=of_method[cell.method][cell.dataset])) for e in cell.evaluations
        )
        cells.append(replace(cell, evaluations=found))
    return replace(result, results=tuple(cells))


def test_our_methods_are_ranked_over_the_sets_on_which_all_of_them_ended():
    result = named_as(experiment(), ["wisconsin", "pima"], reference="lu2019")
    result = replace(result, results=tuple(cell for cell in result.results if cell.error is None))
    methods = list(dict.fromkeys(cell.method for cell in result.results))
    gmeans = {method: {"wisconsin": 0.9 - 0.1 * k, "pima": 0.5} for k, method in enumerate(methods)}
    table = beside(with_gmeans(result, gmeans))
    both = [row for row in table["rows"] if all(row["ours"])]
    assert table["ranked"] == len(both) > 0
    tied = (1 + len(methods)) / 2
    expected = [
        np.mean([k + 1 if row["dataset"] == "wisconsin" else tied for row in both]) for k in range(len(methods))
    ]
    assert table["ranks"] == pytest.approx(expected)
    told = in_short(table)
    assert f"Mean rank by test G-mean over {len(both)} sets, best 1: {methods[0]} {expected[0]:.1f}, " in told


def test_a_method_that_ended_nowhere_leaves_nothing_to_rank():
    table = beside(named_as(experiment(), ["wisconsin", "mine"], reference="lu2019"))
    assert (table["ranked"], table["ranks"]) == (0, [])
    assert "Mean rank" not in in_short(table)


@pytest.fixture
def foreign():
    """The experiment with its first method's fits as an imported solver's, over a sampler that adds 77 rows."""
    result = experiment()
    cell = result.results[0]
    plain = {"history": EMPTY, "status": UNCERTIFIED, "objective": np.nan, "dual_gap": np.nan}
    words = ["gini", "gini", "entropy", "gini", "gini"]
    models = tuple(
        replace(model, **plain, chosen={"criterion": word, "max_depth": depth}, search={"value": ["gini", "entropy"]})
        for model, word, depth in zip(cell.models, words, (3, 3, 5, 3, 5), strict=True)
    )
    added = Table(np.zeros((77, 1)), np.ones(77))
    samples = tuple(replace(sample, added=added) for sample in cell.samples)
    changed = replace(cell, models=models, samples=samples, final=replace(cell.final, **plain))
    return replace(result, results=(changed, *result.results[1:]))


def test_a_solver_without_a_certificate_is_told_so_and_its_choices_in_words(foreign):
    row = summary_rows(foreign)[0]
    assert (row.certificate, row.status) == ("none", "uncertified")
    assert row.chosen == ("criterion gini, max_depth 3", "in 4 of 5 folds; 3 to 5")
    assert row.kept[1].endswith("77 added")
    page = render_html(foreign)
    assert "Uncertified" in page
    assert re.search(r"none <small class=\"soft\">uncertified</small>", page)
    output = StringIO()
    Console(file=output, width=100).print(console_report(foreign))
    assert "does not say how far from its optimum" in output.getvalue()
    assert "stopped at uncertified" not in output.getvalue()


def test_a_switch_is_no_number():
    assert [is_number(value) for value in (1, 0.5, True, "1", None)] == [True, True, False, False, False]
