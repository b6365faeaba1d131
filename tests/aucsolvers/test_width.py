"""The width of a Gaussian kernel, against a machine solved again without each row."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from aucsolvers._width import some_rows
from aucsolvers.kernel_svm import KernelSVM, spread_gamma
from aucsolvers.margin_mean import MarginMeanSVM


def signed_rows(n_pos, n_neg, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([1.0, -1.0], [n_pos, n_neg])
    return rng.normal(size=(len(y), d)) + 0.7 * y[:, None], y


def errors(X, y, gammas, constant):
    """By brute force, a row for each gamma: the machine solved again without each row, its loss on that row."""
    n, n_pos = len(y), np.sum(y > 0)
    omega = np.where(y > 0, n / (2 * n_pos), n / (2 * (n - n_pos)))
    found = np.empty((len(gammas), n))
    for losses, gamma in zip(found, gammas, strict=True):
        K = rbf_kernel(X, gamma=gamma) + constant
        for i in range(n):
            rest = np.arange(n) != i
            beta = np.linalg.solve(K[np.ix_(rest, rest)] + np.diag(n / (1000.0 * omega[rest])), y[rest])
            losses[i] = omega[i] * (y[i] - K[i, rest] @ beta) ** 2
    return found


def not_worse(losses, best, y):
    """Whether the mean loss exceeds the best one by at most two standard errors, of either class's rows."""
    excess, variance = losses - best, 0.0
    for label in (1, -1):
        of_class = excess[y == label]
        variance += (len(of_class) / len(y)) ** 2 * np.mean((of_class - of_class.mean()) ** 2) / len(of_class)
    return excess.mean() <= 2 * np.sqrt(variance)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_is_the_smallest_that_is_not_clearly_worse_than_that_of_least_error(seed, fit_intercept):
    X, y = signed_rows(8, 30, seed=seed)
    unit = MarginMeanSVM(kernel="rbf", gamma="spread").fit(X, y).gamma_
    gammas = unit * np.array([1 / 16, 1 / 8, 0.25, 0.5, 1.0, 2.0, 4.0])
    losses = errors(X, y, gammas, float(fit_intercept))
    best = losses[losses.mean(axis=1).argmin()]
    expected = next(gamma for gamma, row in zip(gammas, losses, strict=True) if not_worse(row, best, y))
    model = MarginMeanSVM(kernel="rbf", gamma="loo", fit_intercept=fit_intercept).fit(X, y)
    assert model.gamma_ == pytest.approx(expected, rel=1e-12)
    given = MarginMeanSVM(kernel="rbf", gamma=model.gamma_, fit_intercept=fit_intercept).fit(X, y)
    assert_allclose(given.decision_function(X), model.decision_function(X), rtol=1e-12)


def test_classes_that_overlap_take_a_wide_kernel_and_a_chessboard_a_narrow_one():
    squares = np.random.default_rng(0).uniform(-2, 2, size=(250, 2))
    chessboard = squares, np.sign(np.sin(3 * squares).prod(axis=1))
    for (X, y), least, most in ((signed_rows(100, 150), 1 / 16, 1 / 4), (chessboard, 4.0, 4.0)):
        model, unit = (KernelSVM(gamma=gamma).fit(X, y) for gamma in ("loo", "spread"))
        assert least <= round(model.gamma_ / unit.gamma_, 9) <= most


def test_dense_and_sparse_rows_choose_alike():
    X, y = signed_rows(10, 40)
    dense, thin = (MarginMeanSVM(kernel="rbf", gamma="loo").fit(form, y) for form in (X, sparse.csr_matrix(X)))
    assert thin.gamma_ == pytest.approx(dense.gamma_, rel=1e-9)


@pytest.mark.parametrize(("n_pos", "n_neg", "rare"), [(20, 900, 20), (400, 600, 100), (700, 50, 50)])
def test_of_many_rows_some_of_either_class_are_taken(n_pos, n_neg, rare):
    y = np.random.default_rng(0).permutation(np.repeat([1.0, -1.0], [n_pos, n_neg]))
    rows = some_rows(y, 200)
    assert len(set(rows)) == len(rows) == 200 and np.all(np.diff(rows) > 0)
    assert min(np.sum(y[rows] > 0), np.sum(y[rows] < 0)) == rare
    assert_array_equal(some_rows(y[:200], 200), np.arange(200))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kind", ["continuous", "categories"])
def test_which_of_many_rows_are_taken_does_not_depend_on_their_order(kind, form):
    """Of those of categories many are copies: by their places, fewer than 150 were left, each time others."""
    for seed in range(5):
        X, y = signed_rows(60, 540, d=5, seed=seed)
        X = np.clip(np.round(X), -2, 2) if kind == "categories" else X
        chosen = set()
        for _ in range(4):
            order = np.random.default_rng(len(chosen)).permutation(len(y))
            svm = KernelSVM(gamma="loo", class_weight="balanced").fit(form(X[order]), y[order])
            chosen.add(round(svm.gamma_ / spread_gamma(X), 9))
        assert len(chosen) == 1, (seed, chosen)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_kernel_machine_takes_the_same(form):
    X, y = signed_rows(10, 40)
    chosen = MarginMeanSVM(kernel="rbf", gamma="loo").fit(form(X), y).gamma_
    assert KernelSVM(gamma="loo").fit(form(X), y).gamma_ == chosen != KernelSVM().fit(form(X), y).gamma_


@pytest.mark.parametrize("kernel", ["linear", "poly"])
def test_no_other_kernel_has_that_width(kernel):
    with pytest.raises(ValueError, match=f"gamma='loo' with kernel='rbf' only, got kernel='{kernel}'"):
        KernelSVM(kernel=kernel, gamma="loo").fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("times", [2, 3])
@pytest.mark.parametrize("which", ["all", "rare"])
@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_matrix], ids=["dense", "csr"])
def test_copies_are_left_out_together(times, which, convert):
    """A row whose copy stays is not left out: its error would be that of a row known by heart."""
    X, y = signed_rows(20, 50, seed=5)
    copied = np.flatnonzero(y > 0) if which == "rare" else np.arange(len(y))
    rows = np.concatenate([np.arange(len(y)), np.repeat(copied, times - 1)])
    svm = KernelSVM(gamma="loo", class_weight="balanced")
    once = svm.fit(convert(X), y).gamma_ / svm.set_params(gamma="spread").fit(convert(X), y).gamma_
    svm.set_params(gamma="loo").fit(convert(X[rows]), y[rows])
    assert svm.gamma_ / svm.set_params(gamma="spread").fit(convert(X[rows]), y[rows]).gamma_ == pytest.approx(once)
