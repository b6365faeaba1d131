"""MarginMeanSVM against scipy on its dual, LIBLINEAR where lam1 = 0, its definition, and its own certificate."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import scale
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers.kernel_svm import Kernel, KernelSVM
from aucsolvers.margin_mean import MarginMeanSVM, Terms, solve_kernel, solve_linear
from aucsolvers.metrics import auc, best_gmean_threshold, gmean
from aucsolvers.undersampling import GeometricUnderSampler, hyperplane_distances

WEIGHTS = [(0.0, 5.0), (1.0, 1.0), (2.0, 50.0), (30.0, 0.1)]


@pytest.fixture(scope="module")
def cancer():
    X, y = load_breast_cancer(return_X_y=True)
    return scale(X)[:, :12].copy(), 1 - y


def overlapping(n_pos=15, n_neg=60, d=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_pos, n_neg])
    return rng.normal(size=(len(y), d)) + 0.8 * y[:, None], y


def balances(y):
    """D_i of y in {0, 1}."""
    n_pos, n_neg = np.sum(y == 1), np.sum(y == 0)
    return np.where(y == 1, n_neg / n_pos, n_pos / n_neg)


def hinge_weights(y, kind):
    """c_i of y in {0, 1}."""
    return np.where(y == 1, len(y) / (2 * np.sum(y)), len(y) / (2 * np.sum(1 - y))) if kind == "balanced" else 1.0


def objective(K, beta, y, lam1, lam2, c=1.0):
    """F of f = K beta, written a second time; K holds the intercept's constant."""
    m = (2 * y - 1) * (K @ beta)
    return 0.5 * beta @ K @ beta - lam1 * np.mean(balances(y) * m) + lam2 * np.mean(c * np.maximum(0, 1 - m))


def scipy_minimum(K, y, lam1, lam2, c=1.0):
    """min F by L-BFGS-B on the dual, with w0 written out: max sum(alpha) - 1/2 ||w0 + sum_i alpha_i y_i phi_i||^2."""
    signs, n = 2.0 * y - 1, len(y)
    start = lam1 * balances(y) * signs / n

    def negative_dual(alpha):
        f = K @ (start + signs * alpha)
        return 0.5 * (start + signs * alpha) @ f - alpha.sum(), signs * f - 1

    options = {"maxiter": 10**5, "maxfun": 10**6, "ftol": 1e-16, "gtol": 1e-12}
    best = minimize(
        negative_dual,
        np.zeros(n),
        jac=True,
        bounds=[(0, u) for u in np.full(n, lam2 / n) * c],
        method="L-BFGS-B",
        options=options,
    )
    return -best.fun


def exact_beta(X, y, lam1, lam2, svm):
    """The expansion that the kernel's driver finds, with the kernel that svm's parameters describe."""
    terms = Terms.of(2.0 * y - 1, lam1, lam2)
    return solve_kernel(X, terms, Kernel.of(svm, X), 1e-12, 10**5, 10**8).beta


def full_beta(svm, n):
    beta = np.zeros(n)
    beta[svm.support_] = svm.dual_coef_.ravel()
    return beta


# A tight tol: some checks compare the predictions of two problems with the same optimum. Some fit features of mean 100,
# unscaled, where coordinate descent does not get that far: it warns, as it should.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [MarginMeanSVM(tol=1e-13, max_iter=20_000), MarginMeanSVM(kernel="rbf", tol=1e-13, max_iter=1000)]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


class TestOptimum:
    def test_by_hand(self):
        """x = 2 once and -1 thrice, no intercept, lam1 = lam2 = 1: D = 3 and 1/3, w0 = (3 * 2 + 3/3)/4 = 7/4.

        At w >= 1 all margins are >= 1 and F = w^2/2 - 7/4 w, least at w = 7/4, where it is -49/32.
        """
        svm = MarginMeanSVM(1.0, 1.0, fit_intercept=False).fit([[2.0], [-1.0], [-1.0], [-1.0]], [1, 0, 0, 0])
        assert_allclose([svm.coef_[0, 0], svm.objective_], [7 / 4, -49 / 32], rtol=1e-15)
        assert svm.n_iter_ == 0  # w0 is the answer

    @pytest.mark.parametrize(("lam1", "lam2"), WEIGHTS)
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_linear_is_that_of_scipy(self, lam1, lam2, fit_intercept):
        X, y = overlapping()
        svm = MarginMeanSVM(lam1, lam2, fit_intercept=fit_intercept, threshold="zero", tol=1e-10).fit(X, y)
        K = X @ X.T + float(fit_intercept)
        assert_allclose(svm.objective_, scipy_minimum(K, y, lam1, lam2), rtol=1e-7, atol=1e-9)
        # and it is F at the published w and b
        w, b, m = svm.coef_.ravel(), svm.intercept_[0], (2 * y - 1) * svm.decision_function(X)
        value = 0.5 * (w @ w + b * b) - lam1 * np.mean(balances(y) * m) + lam2 * np.mean(np.maximum(0, 1 - m))
        assert_allclose(svm.objective_, value, rtol=1e-11, atol=1e-11)

    @pytest.mark.parametrize(("lam1", "lam2"), [*WEIGHTS, (1.0, 1e4)])
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_gaussian_is_that_of_scipy(self, lam1, lam2, fit_intercept):
        X, y = overlapping()
        options = {"kernel": "rbf", "gamma": 0.3, "fit_intercept": fit_intercept, "threshold": "zero"}
        svm = MarginMeanSVM(lam1, lam2, tol=1e-10, **options).fit(X, y)
        K = rbf_kernel(X, gamma=0.3) + float(fit_intercept)
        beta = full_beta(svm, len(y))
        assert_allclose(svm.objective_, scipy_minimum(K, y, lam1, lam2), rtol=1e-7, atol=1e-9)
        assert_allclose(svm.objective_, objective(K, beta, y, lam1, lam2), rtol=1e-10)
        assert_allclose(svm.decision_function(X), K @ beta, atol=1e-10)

    @pytest.mark.parametrize(("lam1", "lam2"), [*WEIGHTS, (0.0, 50.0)])
    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_a_balanced_hinge_is_that_of_scipy(self, kernel, lam1, lam2):
        X, y = overlapping()
        svm = MarginMeanSVM(lam1, lam2, hinge_weight="balanced", kernel=kernel, gamma=0.3, threshold="zero", tol=1e-10)
        svm.fit(X, y)
        K, c = (X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.3)) + 1, hinge_weights(y, "balanced")
        assert_allclose(svm.objective_, scipy_minimum(K, y, lam1, lam2, c), rtol=1e-7, atol=1e-9)
        if kernel == "rbf":
            assert_allclose(svm.objective_, objective(K, full_beta(svm, len(y)), y, lam1, lam2, c), rtol=1e-10)

    def test_a_balanced_hinge_ranks_rare_rows_that_an_equal_one_gives_up(self):
        """One row in 30 in classes that overlap: the equal hinge is least where all rows count as the common class.

        Its w is 0 up to rounding then, and ranks as the seed has it.
        """
        rng = np.random.default_rng(0)
        y = (np.arange(1500) % 30 == 0).astype(int)
        X = rng.normal(size=(1500, 5)) + 0.5 * y[:, None]
        train, test = np.arange(900), np.arange(900, 1500)
        reached = {"equal": [], "balanced": []}
        for seed in range(10):
            for kind, areas in reached.items():
                svm = MarginMeanSVM(0.01, 1e4, hinge_weight=kind, random_state=seed).fit(X[train], y[train])
                areas.append(auc(y[test], svm.decision_function(X[test])))
        assert min(reached["balanced"]) > np.mean(reached["equal"]) + 0.05
        assert np.ptp(reached["balanced"]) < 1e-3 < np.ptp(reached["equal"])

    @pytest.mark.parametrize("form", [sparse.csr_array, np.asfortranarray])
    def test_no_cut_goes_by_the_last_digit_of_scores_that_tie(self, form):
        """Rows of whole numbers: many have the same score, but for the order in which it was added up."""
        cut = 0
        for seed in range(30):
            rng = np.random.default_rng(seed)
            X = rng.integers(0, 4, size=(90, 6)).astype(float)
            y = X[:, 0] + rng.normal(size=90) > 3
            one, other = (MarginMeanSVM(random_state=place).fit(rows, y) for place, rows in enumerate((X, form(X))))
            assert_array_equal(one.predict(X), other.predict(X))
            cut += 0 < one.predict(X).sum() < 90
        assert cut > 15

    def test_no_cut_goes_between_support_vectors_that_tie_at_the_optimum(self):
        """Free ones all have the score 1 or -1, up to what the solver leaves: that depends on the order of the rows."""
        cut = 0
        for seed in range(20):
            rng = np.random.default_rng(seed)
            X = rng.integers(0, 2, size=(200, 8)).astype(float)
            y = X[:, 0] + X[:, 1] + rng.normal(size=200) > 1.7
            order = rng.permutation(200)
            for svm in (MarginMeanSVM(), MarginMeanSVM(kernel="rbf", gamma=0.1)):
                labels = svm.fit(X, y).predict(X)
                assert_array_equal(svm.fit(X[order], y[order]).predict(X), labels)
                cut += 0 < labels.sum() < 200
        assert cut > 30

    def test_one_score_for_all_rows_is_told_and_has_one_label(self):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(400, 3)), np.arange(400) % 20 == 0
        for rows in (X, sparse.csr_array(X), X + 3.0):
            with pytest.warns(UserWarning, match="MarginMeanSVM found nothing better than w = 0"):
                svm = MarginMeanSVM().fit(rows, y)
            assert np.ptp(svm.decision_function(rows)) < 1e-6 and not svm.predict(rows).any()
            assert svm.found_nothing_
        assert not MarginMeanSVM().fit(X + 3.0 * y[:, None], y).found_nothing_

    @pytest.mark.parametrize("size", [1e-3, 1e-5])
    def test_small_features_have_small_weights_that_rank(self, size):
        """Scores of 1 and differences of 1e-8 between them, which the certificate knows to 1e-10."""
        X, y = overlapping()
        standard = MarginMeanSVM(1.0, 1e3).fit(X, y)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            svm = MarginMeanSVM(1.0, 1e3).fit(size * X, y)
        assert auc(y, svm.decision_function(size * X)) > auc(y, standard.decision_function(X)) - 0.01
        assert gmean(y, svm.predict(size * X)) > gmean(y, standard.predict(X)) - 0.02

    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_no_point_nearby_is_better(self, kernel):
        X, y = overlapping()
        svm = MarginMeanSVM(1.0, 20.0, kernel=kernel, gamma=0.3, tol=1e-12).fit(X, y)
        K = (X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=0.3)) + 1
        beta = exact_beta(X, y, 1.0, 20.0, KernelSVM(kernel=kernel, gamma=0.3))
        assert_allclose(objective(K, beta, y, 1.0, 20.0), svm.objective_, rtol=1e-9)
        rng = np.random.default_rng(0)
        for size in (1e-1, 1e-3):
            for _ in range(50):
                assert objective(K, beta + size * rng.normal(size=len(y)), y, 1.0, 20.0) > svm.objective_ - 1e-10

    @pytest.mark.parametrize(("lam1", "lam2"), WEIGHTS)
    def test_a_linear_kernel_is_linear(self, cancer, lam1, lam2):
        X, y = cancer
        terms = Terms.of(2.0 * y - 1, lam1, lam2)
        linear = solve_linear(X, terms, True, 1e-9, 10**6, np.random.default_rng(0))
        kernel = solve_kernel(X, terms, Kernel.of(KernelSVM(kernel="linear"), X), 1e-9, 10**4, 10**8)
        assert_allclose(kernel.objective, linear.objective, rtol=1e-7)
        assert_allclose(X.T @ kernel.beta, linear.w, atol=1e-3)
        assert_allclose(kernel.beta.sum(), linear.bias, atol=1e-3)
        assert_allclose(kernel.scores, X @ linear.w + linear.bias, atol=1e-3)

    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_without_the_margin_mean_it_is_liblinears(self, cancer, fit_intercept):
        X, y = cancer
        ours = MarginMeanSVM(0.0, 50.0, fit_intercept=fit_intercept, tol=1e-9).fit(X, y)
        C = 50.0 / len(y)
        theirs = LinearSVC(C=C, loss="hinge", fit_intercept=fit_intercept, tol=1e-8, max_iter=10**6).fit(X, y)
        w, b = theirs.coef_.ravel(), theirs.intercept_[0] if fit_intercept else 0.0
        slack = np.maximum(0, 1 - (2 * y - 1) * (X @ w + b))
        assert_allclose(ours.objective_, 0.5 * (w @ w + b * b) + C * slack.sum(), rtol=1e-6)

    def test_converges_on_real_sets(self, mirror):
        for name in ("pima", "vehicle1", "yeast3"):
            X, y = keel(mirror, name)
            for options in ({"kernel": "linear"}, {"kernel": "rbf"}):
                svm = MarginMeanSVM(random_state=0, **options).fit(scale(X), y)
                assert svm.status_ == "converged" and svm.dual_gap_ <= 1e-6 * svm.lam2


def keel(mirror, name):
    """The rows of a KEEL file of numbers, and 1 for its positive class."""
    lines = [line for line in (mirror / "keel" / f"{name}.dat").read_text().splitlines() if line[:1] not in ("@", "")]
    cells = np.array([[cell.strip() for cell in line.split(",")] for line in lines])
    return cells[:, :-1].astype(float), (cells[:, -1] == "positive").astype(int)


class TestCertificate:
    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_gap_bounds_the_suboptimality_all_the_way(self, cancer, kernel):
        X, y = cancer
        best = MarginMeanSVM(2.0, 200.0, kernel=kernel, tol=1e-12).fit(X, y).objective_
        history = MarginMeanSVM(2.0, 200.0, kernel=kernel, tol=1e-9, random_state=1).fit(X, y).history_
        assert np.all(history["objective"] - best <= history["dual_gap"] * (1 + 1e-9) + 1e-9)
        assert len({len(column) for column in history.values()}) == 1
        assert np.all(np.diff(history["updates"]) >= 0) and history["updates"][0] == 0
        assert history["objective"][-1] == pytest.approx(best, abs=1e-6)
        assert history["auc"][-1] > 0.98

    def test_tol_is_relative_to_the_objective_at_zero(self, cancer):
        for lam2 in (1e-3, 1.0, 100.0):
            svm = MarginMeanSVM(0.0, lam2, tol=1e-4).fit(*cancer)
            assert svm.status_ == "converged" and 0 <= svm.dual_gap_ <= 1e-4 * lam2
            assert np.linalg.norm(svm.coef_) > 0 and svm.gap_unit_ == pytest.approx(max(1.0, lam2))

    @pytest.mark.parametrize("lam1", [0.0, 1.0, 10.0])
    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_the_gaps_unit_is_the_objective_at_zero_wherever_the_history_begins(self, cancer, kernel, lam1):
        svm = MarginMeanSVM(lam1, 1e3, kernel=kernel, tol=1e-3).fit(*cancer)
        assert svm.gap_unit_ == pytest.approx(1e3) and svm.dual_gap_ / svm.gap_unit_ <= 1e-3
        assert (svm.history_["objective"][0] == pytest.approx(1e3)) == (lam1 == 0.0)

    @pytest.mark.parametrize(("kernel", "max_iter"), [("linear", 3), ("rbf", 1)])
    def test_running_out_of_passes_warns_and_says_what_to_do(self, cancer, kernel, max_iter):
        svm = MarginMeanSVM(1.0, 1e5, kernel=kernel, gamma=0.02, tol=1e-12, max_iter=max_iter)
        with pytest.warns(ConvergenceWarning, match=f"'max_iter' after {max_iter} iter.*Raise max_iter or tol"):
            svm.fit(*cancer)
        assert svm.status_ == "max_iter" and svm.dual_gap_ == svm.history_["dual_gap"][-1] > 0

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_kernel_steps_end_where_only_rounding_is_left(self):
        svm = MarginMeanSVM(kernel="rbf", tol=0.0).fit(*overlapping())
        assert svm.dual_gap_ < 2e-12 and svm.n_iter_ < 1000  # the rounding of scores, times lam2, makes most of it


class TestThreshold:
    def test_gmean_cuts_where_the_training_rows_say(self):
        X, y = overlapping(6, 300)
        zero, cut = (MarginMeanSVM(5.0, 10.0, threshold=name, random_state=0).fit(X, y) for name in ("zero", "gmean"))
        t = best_gmean_threshold(y, zero.decision_function(X))
        assert_allclose(cut.decision_function(X), zero.decision_function(X) - t, atol=1e-12)
        assert gmean(y, cut.predict(X)) > gmean(y, zero.predict(X))

    def test_the_margin_mean_moves_the_plane_towards_the_majority(self):
        """Its weight is n_neg/n_pos for a positive: with more of it more rows are called positive."""
        X, y = overlapping(15, 150)
        called = [MarginMeanSVM(lam1, 10.0, threshold="zero").fit(X, y).predict(X).sum() for lam1 in (0, 5, 20)]
        assert called[0] < called[1] < called[2]


class TestStorageAndState:
    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_sparse_and_dense_are_one(self, kernel):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(90, 12)) * (rng.random((90, 12)) < 0.3), np.arange(90) % 3 == 0
        whole = sparse.csr_array(X)
        parts = (np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), whole.indptr * 2)
        split = sparse.csr_array(parts, shape=X.shape)  # entries stored in two parts
        fits = [MarginMeanSVM(kernel=kernel, tol=1e-11, random_state=0).fit(form, y) for form in (X, whole, split)]
        for fit in fits[1:]:
            assert_allclose(fit.objective_, fits[0].objective_, rtol=1e-9)
            assert_allclose(fit.decision_function(whole), fits[0].decision_function(X), atol=1e-5)
        assert_allclose(fits[0].decision_function(whole), fits[0].decision_function(X), atol=1e-12)
        assert split.nnz == 2 * whole.nnz  # the caller's matrix is left as it was

    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_float32_gives_what_the_same_numbers_give(self, cancer, kernel):
        X, y = cancer[0].astype(np.float32), cancer[1]
        single, double = (MarginMeanSVM(kernel=kernel, random_state=0).fit(A, y) for A in (X, X.astype(float)))
        assert_allclose(single.objective_, double.objective_, rtol=1e-9)

    def test_rbf_holds_no_more_columns_than_stated(self, cancer):
        """Two columns, or all: the rows are as many as memory for X takes, not for a Gram matrix."""
        X, y = cancer
        few, all_ = (MarginMeanSVM(kernel="rbf", cache_bytes=size).fit(X, y) for size in (16 * len(y), 10**9))
        assert few.status_ == "converged"
        assert_allclose(few.objective_, all_.objective_, rtol=1e-5)

    def test_far_from_the_origin(self):
        """Distances do not see a shift; computed from squared lengths of 1e12 they would be off by 1e-4."""
        X, y = overlapping()
        near, far = (MarginMeanSVM(kernel="rbf", gamma=1.0, tol=1e-10).fit(X + shift, y) for shift in (0.0, 1e6))
        assert_allclose(far.objective_, near.objective_, rtol=1e-7)
        assert_allclose(far.decision_function(X + 1e6), near.decision_function(X), atol=1e-6)

    def test_the_seed_decides_every_bit(self, cancer):
        first, second, other = (MarginMeanSVM(random_state=seed).fit(*cancer) for seed in (7, 7, 8))
        assert_array_equal(first.coef_, second.coef_)
        assert not np.array_equal(first.coef_, other.coef_)

    def test_clone_pickle_and_a_change_of_kernel(self, cancer):
        X, y = cancer
        svm = MarginMeanSVM(kernel="rbf").fit(X, y)
        assert_array_equal(pickle.loads(pickle.dumps(svm)).decision_function(X), svm.decision_function(X))
        assert not hasattr(svm, "coef_") and not hasattr(clone(svm), "support_")
        svm.set_params(kernel="linear").fit(X, y)
        assert not hasattr(svm, "dual_coef_")
        assert_allclose(svm.decision_function(X), X @ svm.coef_.ravel() + svm.intercept_, atol=1e-12)

    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_the_geometric_under_sampler_takes_it(self, kernel):
        X, y = overlapping(20, 150)
        svm = MarginMeanSVM(kernel=kernel, gamma=0.3, fit_intercept=False, threshold="zero").fit(X, y)
        if kernel == "linear":
            length = np.linalg.norm(svm.coef_)
        else:
            length = np.sqrt(full_beta(svm, 170) @ rbf_kernel(X, gamma=0.3) @ full_beta(svm, 170))
        assert_allclose(hyperplane_distances(svm, X), np.abs(svm.decision_function(X)) / length, rtol=1e-9)
        kept, _ = GeometricUnderSampler(estimator=MarginMeanSVM(kernel=kernel), random_state=0).fit_resample(X, y)
        assert 20 < len(kept) < 170


class TestDegenerateData:
    CASES = {
        "one positive": ([[1.0, 2.0], [0.0, 1.0], [0.5, 0.0]], [1, 0, 0]),
        "zero matrix": (np.zeros((5, 2)), [1, 1, 0, 0, 0]),
        "constant feature": ([[1.0, 7.0], [0.0, 7.0], [0.5, 7.0]], [1, 0, 1]),
        "contradicting duplicates": ([[1.0, 0.0]] * 4 + [[0.0, 1.0]] * 4, [1, 0, 1, 0, 1, 0, 0, 0]),
        "separable": ([[3.0], [2.0], [-1.0], [-2.0]], [1, 1, 0, 0]),
        "more features than rows": (np.random.default_rng(0).normal(size=(6, 40)), [1, 0, 0, 0, 1, 0]),
        "imbalance 1000": (np.random.default_rng(0).normal(size=(1001, 2)), [1] + [0] * 1000),
        "tiny": (1e-200 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
        "large": (1e8 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
    }

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    @pytest.mark.parametrize("fit_intercept", [True, False])
    @pytest.mark.parametrize("case", CASES)
    def test_result_is_finite(self, case, kernel, fit_intercept):
        X, y = self.CASES[case]
        svm = MarginMeanSVM(kernel=kernel, fit_intercept=fit_intercept, max_iter=2000, random_state=0).fit(X, y)
        assert np.isfinite(svm.decision_function(X)).all() and np.isfinite(svm.objective_)
        assert svm.objective_ - svm.dual_gap_ <= svm.lam2 * (1 + 1e-9)  # no worse than w = 0, but for what the gap says

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("seed", range(4))
    def test_a_fit_cut_short_is_no_worse_than_no_model(self, seed):
        """Columns of ids and time stamps: the point of the dual's last step had F(0) times 1e16."""
        rng = np.random.default_rng(seed)
        ids = 1.7e9 + rng.integers(0, 100_000, 100), rng.integers(1, 10**12, 100)
        X, y = np.column_stack([*ids, rng.normal(size=(100, 2))]), np.where(np.arange(100) < 10, 1, -1)
        svm = MarginMeanSVM(threshold="zero", max_iter=2000, random_state=0).fit(X, y)
        margins = y * svm.decision_function(X)
        F = Terms.of(y, svm.lam1, svm.lam2).value((svm.coef_**2).sum() + svm.intercept_[0] ** 2, margins)
        assert svm.objective_ == pytest.approx(F, rel=1e-9) and svm.objective_ <= svm.lam2
        assert svm.history_["objective"][-1] == svm.objective_

    def test_all_zero_rows_reach_their_optimum(self):
        svm = MarginMeanSVM(1.0, 6.0, fit_intercept=False).fit(np.zeros((6, 2)), [0, 0, 0, 0, 1, 1])
        assert (svm.objective_, svm.dual_gap_, svm.status_) == (6.0, 0.0, "converged")

    @pytest.mark.filterwarnings("ignore::RuntimeWarning")
    @pytest.mark.parametrize(("kernel", "size", "lam"), [("linear", 1e140, 1e300), ("rbf", 1.0, 1e308)])
    def test_parameters_out_of_all_proportion_end_in_a_status(self, kernel, size, lam):
        X, y = size * np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 4 == 0
        with pytest.warns(ConvergenceWarning, match="diverged.* or set a less extreme lam1 or lam2"):
            model = MarginMeanSVM(lam, lam, kernel=kernel, max_iter=50).fit(X, y)
        assert model.status_ == "diverged"

    def test_overflow_is_refused(self):
        with pytest.raises(ValueError, match="scale the features"):
            MarginMeanSVM().fit([[1e200], [-1e200]], [0, 1])

    def test_a_cache_for_less_than_two_columns_is_refused(self, monkeypatch):
        monkeypatch.setattr(Kernel, "expand", lambda *_: pytest.fail("computed first"))
        with pytest.raises(ValueError, match=r"cache_bytes for at least two columns of 75 rows, 1200 bytes, got 1199"):
            MarginMeanSVM(kernel="rbf", cache_bytes=1199).fit(*overlapping())

    @pytest.mark.parametrize(
        "bad",
        [
            {"lam1": -1},
            {"lam2": 0},
            {"kernel": "poly"},
            {"gamma": "auto"},
            {"gamma": -1.0},
            {"threshold": "auc"},
            {"hinge_weight": "rare"},
            {"tol": -1},
            {"max_iter": 0},
            {"cache_bytes": 0},
            {"random_state": "seed", "kernel": "rbf"},
        ],
    )
    def test_bad_parameters(self, bad):
        with pytest.raises(ValueError, match=f"Expected {next(iter(bad))} .*got"):
            MarginMeanSVM(**bad).fit([[0.0], [1.0]], [0, 1])


def test_a_linear_fit_has_no_gamma():
    X, y = overlapping(5, 9)
    model = MarginMeanSVM(kernel="rbf", gamma="loo").fit(X, y)
    assert model.gamma_ > 0 and not hasattr(model.set_params(kernel="linear").fit(X, y), "gamma_")


def drawn(n=60):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    return X, X[:, 0] + rng.normal(size=n) > 0


def test_a_gaussian_fit_after_a_linear_one_is_as_a_fresh_one():
    X, y = drawn()
    model = MarginMeanSVM(random_state=0).fit(X, y).set_params(kernel="rbf").fit(X, y)
    fresh = MarginMeanSVM(kernel="rbf", random_state=0).fit(X, y)
    assert_array_equal(model.decision_function(X), fresh.decision_function(X))
    assert not hasattr(model, "coef_")


def test_iterations_of_a_kernel_machine_are_steps_in_units_of_rows_rounded_up():
    X, y = drawn()
    model = MarginMeanSVM(1.0, 10.0, kernel="rbf", tol=1e-3).fit(X, y)
    updates = int(model.history_["updates"][-1])
    assert updates % 60 and model.n_iter_ == updates // 60 + 1


def test_the_most_steps_of_a_kernel_machine_are_in_units_of_rows():
    X, y = drawn()
    with pytest.warns(ConvergenceWarning):
        model = MarginMeanSVM(kernel="rbf", max_iter=1, tol=0).fit(X, y)
    assert model.n_iter_ == 1 and model.history_["updates"][-1] == 60
