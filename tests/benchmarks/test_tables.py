"""The report: nothing is lost on the way into the tables, and the README quotes what docs/benchmarks.md says."""

from pathlib import Path

import pytest

from benchmarks import tables
from benchmarks.contest import Contest, Failure, Gauge, Outcome, Side
from benchmarks.part import Part
from benchmarks.parts import PARTS
from benchmarks.tables import Section

ROOT = Path(__file__).parents[2]


def outcome(data, ratio, *, least=1.0, quality=(0.0, 0.0)):
    sides = [Side(name, None, q, 1.0) for name, q in zip(("us", "them"), quality, strict=True)]
    contest = Contest("task", data, "λ = 1", *sides, least_ratio=least, target=1e-6)
    return Outcome(contest, (1.0, 1.0), (ratio, ratio))


def section(*rows, least_mean=None):
    return Section(Part("name", "Title", "the goal", "The method.", None, "excess", least_mean), rows)


MACHINE = {
    "date": "2000-01-01",
    "processor": "cpu",
    "load": "idle",
    "speed": "fast",
    "libraries": "NumPy 2",
    "BLAS": "blas",
}


def test_the_readme_quotes_the_report():
    report = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert tables.quoted(readme) == tables.quoted(report)
    assert "Reproduce with `" in tables.quoted(report)


def test_the_report_has_every_part():
    report = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    for part in PARTS.values():
        assert f"## {part.title}\n" in report
        assert f"| {part.title} |" in tables.quoted(report)


def test_geometric_mean_and_worst_cell():
    s = section(outcome("a", 8.0), outcome("b", 0.5), outcome("shown only", 0.1, least=None), least_mean=2.0)
    assert s.mean_ratio == pytest.approx(2.0)
    assert s.is_met is False  # one cell is slower, though the mean is reached
    assert "(task, b, λ = 1)" in tables.worst_of(s)


def test_a_goal_for_the_mean_is_a_goal():
    assert section(outcome("a", 8.0), least_mean=15.0).is_met is False
    assert section(outcome("a", 16.0), least_mean=15.0).is_met is True


def test_a_ratio_at_unequal_quality_counts_as_missed_and_not_in_the_mean():
    s = section(outcome("good", 2.0), outcome("fast and wrong", 50.0, quality=(1e-3, 0.0)))
    assert s.mean_ratio == pytest.approx(2.0)
    assert s.is_met is False
    assert "fast and wrong" in tables.worst_of(s)


def test_a_failed_cell_is_shown_and_missed():
    s = section(outcome("good", 2.0), Failure("SVMOR, cover", "MemoryError: 2 | 3"))
    page = tables.report([s], MACHINE, ["an aside"], "make bench")
    assert "| SVMOR, cover | MemoryError: 2 \\| 3 |" in page
    assert "1 of 2" in tables.quoted(page)
    assert "- an aside" in page


def test_bounds_and_gauges_are_marked():
    s = section(outcome("a", 3.0, quality=(0.0, 1e-3)), Gauge("AUCSDCD", "d = 16", 20.0, "ns", 15.0))
    page = tables.report([s], MACHINE, [], "make bench")
    assert "| ≥ 3.00 | 0 | 1.0e-03 |" in page
    assert "| AUCSDCD | d = 16 | 20.0 | ns | ≤ 15 | ✗ |" in page


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "–"),
        (float("nan"), "–"),
        (0.0, "0"),
        (0.0123, "0.012"),
        (1.234, "1.23"),
        (45.67, "45.7"),
        (12345.6, "12,346"),
        (1e-7, "1.0e-07"),
    ],
)
def test_numbers_are_short(value, text):
    assert tables._number(value) == text


def test_writing_changes_nothing_but_the_quotation(tmp_path):
    text = tables.report([section(outcome("a", 2.0))], MACHINE, [], "make bench")
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{tables.BEGIN}\nold\n{tables.END}\nafter\n", encoding="utf-8")
    tables.write(text, tmp_path / "docs" / "benchmarks.md", readme)
    page = readme.read_text(encoding="utf-8")
    assert page.startswith(f"before\n{tables.BEGIN}\n| part |")
    assert page.endswith(f"{tables.END}\nafter\n")
    assert tables.quoted(page) == tables.quoted((tmp_path / "docs" / "benchmarks.md").read_text(encoding="utf-8"))


def test_a_missing_marker_is_told_of_before_anything_is_written(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text("no markers", encoding="utf-8")
    with pytest.raises(ValueError, match="Put both back"):
        tables.write(tables.report([], MACHINE, [], "make bench"), tmp_path / "docs" / "b.md", readme)
    assert not (tmp_path / "docs" / "b.md").exists()
