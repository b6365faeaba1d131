"""The peers solve the problem that we compare on: against twins in plain NumPy, or against our certified optimum."""

import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from aucsolvers import LSSVM, SVMOR
from aucsolvers.metrics import pairwise_square_objective
from benchmarks.data import DataSet
from benchmarks.parts import pair_updates, square_loss, svm_or
from benchmarks.peers import c_code, named_file, rank_svm, sparse_auc

needs_c = pytest.mark.skipif(c_code.library() is None, reason="no C compiler")


@pytest.fixture(scope="module")
def cancer():
    X, labels = load_breast_cancer(return_X_y=True)
    return DataSet("breast cancer", scale(X), np.where(labels == 0, 1.0, -1.0))


@pytest.fixture
def few(cancer):
    return cancer.X[:80, :6], cancer.y[:80]


# C ---------------------------------------------------------------------------------------------------------------


@needs_c
def test_opauc_in_c_takes_the_gradients_of_the_paper(few):
    X, y = few
    lam, eta, w = 0.1, 0.01, np.zeros(X.shape[1])
    for t, (x, label) in enumerate(zip(X, y, strict=True)):
        other = X[:t][y[:t] == -label]
        if len(other):
            u = x - other.mean(axis=0)
            w -= eta * (lam * w - label * u + u * (u @ w) + np.cov(other.T, bias=True) @ w)
    assert c_code.opauc(X, y, lam, eta) == pytest.approx(w, rel=1e-9, abs=1e-12)


@needs_c
def test_solam_in_c_takes_the_steps_of_the_paper(few):
    X, y = few
    lam, zeta, radius = 0.1, 0.5, np.sqrt(2 / 0.1)
    kappa = np.sqrt((X**2).sum(axis=1).max())
    w, centre, alpha, mean, total = np.zeros(X.shape[1]), np.zeros(2), 0.0, 0.0, 0.0  # centre = (a, b)
    for t, (x, label) in enumerate(zip(X, y, strict=True), start=1):
        p, s, step = (y[:t] > 0).mean(), x @ w, zeta / np.sqrt(t)
        # F at this row is q (s - c)^2 - 2 (1 + alpha) label q s - p (1 - p) alpha^2 + lam/2 ||w||^2
        own, q = (0, 1 - p) if label > 0 else (1, p)
        down_w = (2 * q * (s - centre[own]) - 2 * (1 + alpha) * label * q) * x + lam * w
        down_centre, up = -2 * q * (s - centre[own]), -2 * label * q * s - 2 * p * (1 - p) * alpha
        w = w - step * down_w
        w /= max(1.0, np.linalg.norm(w) / radius)
        centre[own] = np.clip(centre[own] - step * down_centre, -radius * kappa, radius * kappa)
        alpha = np.clip(alpha + step * up, -2 * radius * kappa, 2 * radius * kappa)
        mean, total = (mean * total + step * w) / (total + step), total + step
    assert c_code.solam(X, y, lam, zeta) == pytest.approx(mean, rel=1e-9, abs=1e-12)


@needs_c
def test_spdam_in_c_approaches_the_closed_form(cancer):
    w = square_loss._spdam_in_c(cancer, 1500)
    exact = LSSVM(lam=square_loss.LAM).fit(cancer.X, cancer.y).objective_
    assert pairwise_square_objective(w, cancer.X, cancer.y, square_loss.LAM) == pytest.approx(exact, rel=1e-9)


@needs_c
def test_sdcd_in_c_visits_each_pair_once_an_epoch_with_the_step_of_the_paper(few):
    X, y = few
    pos, neg, lam = X[y > 0], X[y < 0], 1e-2
    k, rng = len(pos) * len(neg), np.random.default_rng(0)
    multipliers, offsets = np.array([pair_updates._coprime(k, rng) for _ in range(3)]), rng.integers(k, size=3)
    w, alpha = np.zeros(X.shape[1]), np.zeros(k)
    for multiplier, offset in zip(multipliers, offsets, strict=True):
        visits = (offset + multiplier * np.arange(k)) % k
        assert len(set(visits.tolist())) == k
        for pair in visits:
            z = pos[pair // len(neg)] - neg[pair % len(neg)]
            old = alpha[pair]
            alpha[pair] = np.clip(old + lam * k * (1 - z @ w) / (z @ z), 0, 1)
            w += (alpha[pair] - old) * z / (lam * k)
    in_c = c_code.sdcd(pos, neg, multipliers, offsets, lam)
    assert in_c[0] == pytest.approx(w, rel=1e-9, abs=1e-12)
    assert in_c[1] == pytest.approx(alpha, rel=1e-9, abs=1e-12)


# Public C code ---------------------------------------------------------------------------------------------------

STUB = """
#include <stdbool.h>
#include <stdio.h>
struct rows { double *values; int *columns, *starts, *lengths; double *y; bool is_sparse; int n, d; bool is_graph; };
struct pass { int passes, verbose, steps, records; double least_change; };
struct result { double *w, *before, *aucs, *times; int recorded, steps, passes; };
static void told(struct rows *rows, struct pass *pass, struct result *result)
{
    for (int i = 0; i < rows->n; i++)
        for (int f = 0; f < rows->d; f++)
            result->w[f] += rows->y[i] * rows->values[i * rows->d + f] * pass->passes;
    if (rows->is_sparse || rows->is_graph || pass->verbose || pass->records || pass->steps <= rows->n)
        result->w[0] = -1.0;
}
bool _algo_solam(struct rows *rows, struct pass *pass, struct result *result, double zeta, double radius)
{
    told(rows, pass, result);
    result->w[1] = zeta;
    result->w[2] = radius;
    return true;
}
void _algo_opauc(struct rows *rows, struct pass *pass, struct result *result, int rank, double eta, double lam)
{
    told(rows, pass, result);
    result->w[1] = eta;
    result->w[2] = lam;
    printf("diff: %d\\n", rank);
}
"""


@needs_c
def test_the_public_code_gets_the_rows_and_its_parameters_and_is_not_heard(few, tmp_path, monkeypatch, capfd):
    source, library = tmp_path / "stub.c", tmp_path / "libstub.so"
    source.write_text(STUB, encoding="utf-8")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    monkeypatch.setenv(sparse_auc.LIBRARY, str(library))
    (X, y), code = few, sparse_auc.library()
    first = pytest.approx(y @ X[:, 0])
    assert sparse_auc.solam(code, X, y, zeta=0.5, radius=7.0)[:3].tolist() == [first, 0.5, 7.0]
    assert sparse_auc.opauc(code, X, y, lam=0.1, eta=0.01)[:3].tolist() == [first, 0.01, 0.1]
    assert capfd.readouterr().out == ""


@needs_c
@pytest.mark.skipif(named_file(sparse_auc.LIBRARY) is None, reason="no public C code here")
def test_the_public_opauc_does_what_ours_in_c_does(few):
    X, y = few
    in_public = sparse_auc.opauc(sparse_auc.library(), X, y, lam=0.1, eta=0.01)
    assert in_public == pytest.approx(c_code.opauc(X, y, 0.1, 0.01), rel=1e-6, abs=1e-9)


# Pairwise hinge --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_sparse", [False, True])
def test_dlib_minimises_our_objective_at_c_of_one_over_lam(cancer, is_sparse):
    pytest.importorskip("dlib")
    data = DataSet("cancer", sparse.csr_matrix(cancer.X), cancer.y) if is_sparse else cancer
    w = rank_svm.dlib_fit(rank_svm.dlib_pair(data), 30, 1e-2, 1e-9)
    best = SVMOR(1e-2, tol=1e-10).fit(cancer.X, cancer.y).objective_
    assert svm_or.objective(w, cancer, 1e-2, "hinge") == pytest.approx(best, rel=1e-5)


@pytest.fixture
def program(tmp_path):
    """Make a program that writes the given model to its last argument and its arguments beside itself."""

    def make(model):
        script = tmp_path / "program"
        script.write_text(
            f"#!{sys.executable}\nimport sys\nopen(sys.argv[-1], 'w').write({model!r})\n"
            f"open({str(tmp_path / 'arguments')!r}, 'w').write(' '.join(sys.argv[1:-2]))\n",
            encoding="utf-8",
        )
        script.chmod(0o755)
        return str(script), lambda: (tmp_path / "arguments").read_text(encoding="utf-8").split()

    return make


def test_svm_perf_is_asked_for_the_roc_area_in_per_cent(cancer, program):
    path, arguments = program("SVM-light Version V6.20\n0 # kernel type\n2.0 3:0.5 30:-1 #\n")
    _, w = rank_svm.svm_perf(cancer, path).fit(1e-2, 1e-4)
    assert w[[2, 29]].tolist() == [1.0, -2.0]
    assert np.count_nonzero(w) == 2
    given = dict(zip(arguments()[::2], map(float, arguments()[1::2]), strict=True))
    assert given == {"-l": 10, "-w": 3, "--b": 0, "-c": pytest.approx(1.0), "-e": pytest.approx(1e-2)}


def test_liblinear_ranksvm_gets_the_sum_over_pairs(cancer, program):
    weights = "\n".join(map(str, range(30)))
    path, arguments = program(f"solver_type L2R_L2LOSS_RANKSVM\nnr_feature 30\nbias -1\nw\n{weights} \n")
    _, w = rank_svm.liblinear_ranksvm(cancer, path).fit(1e-2, 1e-4)
    assert w.tolist() == list(range(30))
    k = (cancer.y > 0).sum() * (cancer.y < 0).sum()
    assert float(arguments()[arguments().index("-c") + 1]) == pytest.approx(1 / (2 * k * 1e-2))


def test_a_variable_that_names_no_file_names_no_peer(monkeypatch, tmp_path):
    monkeypatch.setenv(rank_svm.SVM_PERF, str(tmp_path / "absent"))
    assert named_file(rank_svm.SVM_PERF) is None
    monkeypatch.delenv(rank_svm.SVM_PERF)
    assert named_file(rank_svm.SVM_PERF) is None
    assert named_file("PATH") is None  # names folders
