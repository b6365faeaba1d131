"""The numbers that make a comparison equal, against brute force; and a part run from the command to the report."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.dummy import DummyClassifier
from sklearn.svm import SVC

from benchmarks.__main__ import main
from benchmarks.data import DataSet
from benchmarks.parts import PARTS, kernel_svm, linear_svm, samplers, svm_or, whole_methods


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    y = np.where(np.arange(60) < 20, 1.0, -1.0)
    return DataSet("drawn", rng.normal(size=(60, 4)) + (y > 0)[:, None], y)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_judge_of_svm_or_counts_every_pair(rows, loss):
    w = np.array([0.3, -0.2, 0.9, 0.1])
    scores = rows.X @ w
    slack = np.maximum(0.0, 1.0 - (scores[:20, None] - scores[None, 20:]))
    expected = 0.05 * w @ w + (slack.mean() if loss == "hinge" else 0.5 * (slack**2).mean())
    assert svm_or.objective(w, rows, 0.1, loss) == pytest.approx(expected, rel=1e-12)
    thin = DataSet("drawn", sparse.csr_matrix(rows.X), rows.y)
    assert svm_or.objective(w, thin, 0.1, loss) == pytest.approx(expected, rel=1e-12)


def test_the_reference_optimum_is_below_all_that_the_sides_reach(rows):
    side, note = svm_or.ours(rows, 1e-2, "hinge")
    assert 0.0 <= side.quality <= svm_or.TARGET
    assert note.startswith("certified")
    side = svm_or.lbfgs_side(rows, 1e-2, patience_s=10.0)
    assert 0.0 <= side.quality <= svm_or.TARGET * (1 + 1e-6)


def test_the_best_intercept_of_a_hinge_is_found(rows):
    f = rows.X[:, 0] * 2.0
    grid = np.linspace(-5, 5, 100_001)
    brute = min(np.maximum(0.0, 1.0 - rows.y * (f + b)).sum() for b in (*(rows.y - f), *grid[::100]))
    assert kernel_svm.least_hinge(rows.y, f) == pytest.approx(brute, rel=1e-12)


def test_libsvm_gap_falls_to_zero_with_its_tolerance(rows):
    gaps = [
        kernel_svm.libsvm_gap(SVC(C=2.0, tol=tol, gamma="scale").fit(rows.X, rows.y), rows, 2.0) for tol in (1e-1, 1e-9)
    ]
    assert gaps[0] > gaps[1] >= -1e-9
    assert gaps[1] < 1e-6


def test_the_linear_objective_counts_the_intercept(rows):
    model = linear_svm.LinearSVM(C=0.5, tol=1e-10, random_state=0).fit(rows.X, rows.y)
    assert linear_svm.objective(model, rows, 0.5, "hinge") == pytest.approx(model.objective_, rel=1e-12)


def test_whole_methods_are_compared_on_the_same_folds_of_the_rows_in_the_file(mirror):
    table = whole_methods.read(mirror / "keel" / "winequality-white-3_vs_7.dat")
    assert table.X.shape == (900, 11) and table.shape == "900 × 11, ratio 44"
    assert list(np.unique(table.y)) == [-1, 1] and (table.y > 0).sum() == 20

    class Keeper(DummyClassifier):
        """Says no to all rows, and keeps what it was given."""

        seen = []

        def fit(self, X, y):
            self.seen.append(X)
            return super().fit(X, y)

    gmeans = [whole_methods.cross_validate(Keeper, table) for _ in range(2)]
    assert np.all(np.array(gmeans) == 0.0) and len(Keeper.seen) == 2 * whole_methods.FOLDS
    for first, second in zip(Keeper.seen[:5], Keeper.seen[5:], strict=True):
        assert np.array_equal(first, second)
    assert sum(len(table.X) - len(X) for X in Keeper.seen[:5]) == 900


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_only_the_svc_grid_is_held_against_the_goal_and_within_one_standard_error(mirror):
    table = whole_methods.read(mirror / "keel" / "led7digit-0-2-4-5-6-7-8-9_vs_1.dat")
    table = replace(table, X=table.X[::3], y=table.y[::3])
    contest = whole_methods.contest(table, "u2 + ZOVR", whole_methods.SVC_GRID)
    assert contest.least_ratio == 10.0 and contest.peer.quality < contest.target < contest.peer.quality + 0.1
    assert contest.note.startswith(f"G-mean {100 * (1 - contest.ours.quality):.1f} against ")
    other = whole_methods.contest(table, "u2 + ZOVR", "NearMiss + SVC")
    assert other.ours.quality == contest.ours.quality and other.least_ratio is other.target is None


def test_the_standard_error_is_of_the_mean_of_differences():
    assert whole_methods.standard_error(np.array([1.0, 3.0, 5.0, 7.0])) == pytest.approx(np.sqrt(20 / 3) / 2)


@pytest.mark.parametrize("kernel", samplers.MACHINES)
def test_a_sampler_is_held_against_a_pass_over_the_rows_and_its_svm(rows, kernel):
    contest = samplers.against_its_svm(rows, "u2", kernel)
    assert contest.least_ratio == pytest.approx(1 / 3)
    assert contest.ours.quality <= contest.peer.quality == 40  # negatives kept, of all


def test_a_part_runs_from_the_command_to_the_report(tmp_path):
    out = tmp_path / "report.md"
    assert main(["--only", "ls_svm", "--quick", "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert f"## {PARTS['ls_svm'].title}" in text
    assert "| LSSVM | digits | 1,797 × 64 | dsyrk, BLAS of SciPy |" in text
    assert "python -m benchmarks --only ls_svm --quick" in text


def test_an_unknown_part_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["--only", "svm_or,nonsense"])
    assert stop.value.code == 2
    assert "got nonsense" in capsys.readouterr().err
