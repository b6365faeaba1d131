"""KernelSVM against LIBSVM, scipy on its dual, LinearSVM, a slow twin, and its own certificate."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_svmlight_file, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import scale
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import kernel_svm as module
from aucsolvers.kernel_svm import KernelSVM
from aucsolvers.svm import LinearSVM
from aucsolvers.undersampling import GeometricUnderSampler, hyperplane_distances

LOSSES = ["hinge", "squared_hinge"]
KERNELS = [{"kernel": "rbf", "gamma": 0.3}, {"kernel": "linear"}]
KERNELS += [{"kernel": "poly", "gamma": 0.2, "coef0": 1.0, "degree": 2}, {"kernel": "poly", "gamma": 0.5}]


def moons(n=80, seed=0):
    X, y = make_moons(n, noise=0.3, random_state=seed)
    return X, y


def gram(X, kernel="rbf", gamma=1.0, degree=3, coef0=0.0, constant=1.0):
    """scikit-learn's kernels, which share no code with ours."""
    options = {"rbf": {"gamma": gamma}, "linear": {}, "poly": {"gamma": gamma, "degree": degree, "coef0": coef0}}
    return pairwise_kernels(X, metric=kernel, **options[kernel]) + constant


def primal(K, y, beta, loss, C=1.0):
    """P of the module's docstring for f = K beta; y is +-1 and C may be one per row."""
    slack = np.maximum(0, 1 - y * (K @ beta))
    return 0.5 * beta @ K @ beta + np.sum(C * (slack if loss == "hinge" else slack**2))


def full_beta(svm, n):
    beta = np.zeros(n)
    beta[svm.support_] = svm.dual_coef_.ravel()
    return beta


# A tight tol: some checks compare the predictions of two problems with the same optimum.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        KernelSVM(tol=1e-14, max_iter=20_000),
        KernelSVM(kernel="linear", tol=1e-14, max_iter=20_000),
        KernelSVM(kernel="poly", loss="squared_hinge", coef0=1.0, tol=1e-16, max_iter=20_000),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


class TestOptimum:
    @pytest.mark.parametrize("options", KERNELS, ids=str)
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_is_that_of_a_general_optimiser_on_the_dual(self, options, loss, fit_intercept):
        X, y = moons(40)
        signs, C = 2.0 * y - 1, 2.0
        svm = KernelSVM(C, **options, loss=loss, fit_intercept=fit_intercept, tol=1e-10).fit(X, y)
        K = gram(X, **options, constant=float(fit_intercept))
        Q = K * np.outer(signs, signs) + (0.5 / C * np.eye(40) if loss == "squared_hinge" else 0)
        bounds = [(0, C if loss == "hinge" else None)] * 40
        best = minimize(
            lambda a: (0.5 * a @ Q @ a - a.sum(), Q @ a - 1),
            np.zeros(40),
            jac=True,
            bounds=bounds,
            options={"maxiter": 20_000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-10},
        )
        assert svm.status_ == "converged"
        assert_allclose(svm.objective_, -best.fun, rtol=1e-6)
        assert_allclose(svm.objective_, primal(K, signs, full_beta(svm, 40), loss, C), rtol=1e-12)
        assert_allclose(svm.decision_function(X), K @ full_beta(svm, 40), rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("fit_intercept", [True, False])
    @pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
    def test_same_objective_as_libsvm(self, fit_intercept, C):
        """Mirror each row, phi -> -phi and y -> -y: then LIBSVM's b is 0 by symmetry, and half its C is ours.

        K + 1 in the place of K makes it the problem with our regularised intercept.
        """
        X, y = load_breast_cancer(return_X_y=True)
        X, signs = scale(X), 1.0 - 2 * y
        ours = KernelSVM(C, fit_intercept=fit_intercept, tol=1e-9).fit(X, signs)
        K = gram(X, gamma=1 / 30, constant=float(fit_intercept))
        mirrored = np.block([[K, -K], [-K, K]])
        theirs = SVC(C=C / 2, kernel="precomputed", tol=1e-7).fit(mirrored, np.r_[signs, -signs])
        assert abs(theirs.intercept_[0]) < 1e-5
        both = full_beta(theirs, 2 * len(signs))
        expected = np.r_[signs, -signs] @ both - 0.5 * both @ mirrored @ both  # its dual objective
        assert_allclose(ours.objective_, expected, rtol=1e-6)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("fit_intercept", [True, False])
    def test_linear_kernel_is_linear_svm(self, loss, fit_intercept):
        X, y = load_breast_cancer(return_X_y=True)
        X, options = scale(X), {"loss": loss, "fit_intercept": fit_intercept, "class_weight": "balanced"}
        ours = KernelSVM(0.1, kernel="linear", tol=1e-9, **options).fit(X, y)
        linear = LinearSVM(0.1, tol=1e-9, random_state=0, **options).fit(X, y)
        assert_allclose(ours.objective_, linear.objective_, rtol=1e-7)
        assert_allclose(ours.coef_, linear.coef_, atol=1e-3)
        assert_allclose(ours.intercept_, linear.intercept_, atol=1e-3)
        assert_allclose(X @ ours.coef_.ravel() + ours.intercept_, ours.decision_function(X), atol=1e-10)

    def test_ranks_real_rows_as_libsvm_does(self, mirror):
        X, y = load_svmlight_file(mirror / "libsvm" / "svmguide3")
        X = X.toarray()
        ours, theirs = KernelSVM(tol=1e-6).fit(X, y), SVC().fit(X, y)
        assert np.mean(ours.predict(X) == theirs.predict(X)) > 0.99
        assert abs(ours.score(X, y) - theirs.score(X, y)) < 0.01

    def test_weights_are_repetitions(self):
        X, y = moons(30)
        times = np.arange(30) % 3
        weighted = KernelSVM(tol=1e-10).fit(X, y, sample_weight=times)
        repeated = KernelSVM(tol=1e-10).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-8)
        assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=1e-4)
        assert np.all(times[weighted.support_] > 0)
        assert_array_equal(X[weighted.support_], weighted.support_vectors_)

    def test_coef_is_the_linear_kernels_alone(self):
        assert not hasattr(KernelSVM().fit(*moons()), "coef_")


def twin(K, y, C, squared, steps):
    """The greedy steps on the full matrix, as plain Python."""
    D = np.full(len(y), 0.5 / C if squared else 0.0)
    U = np.inf if squared else C
    low, high = np.where(y > 0, 0.0, -U), np.where(y > 0, U, 0.0)
    beta = np.zeros(len(y))
    for _ in range(steps):
        v = y - K @ beta - D * beta
        rise, fall = np.where(beta < high, v, -np.inf), np.where(beta > low, -v, -np.inf)
        i, j = int(rise.argmax()), int(fall.argmax())
        if rise[i] + fall[j] > max(rise[i], fall[j]):
            bend = K[i, i] + D[i] + K.diagonal() + D - 2 * K[i]
            gain = [
                (v[i] - v[s]) ** 2 / max(bend[s], 1e-12) if v[i] > v[s] and beta[s] > low[s] else -1
                for s in range(len(y))
            ]
            j = int(np.argmax(gain))
            step = min((v[i] - v[j]) / max(bend[j], 1e-12), high[i] - beta[i], beta[j] - low[j])
            beta[j] = np.clip(beta[j] - step, low[j], high[j])
        else:
            i = i if rise[i] >= fall[j] else j
            step = v[i] / (K[i, i] + D[i])
        beta[i] = np.clip(beta[i] + step, low[i], high[i])
    return beta


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
class TestSteps:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("steps", [1, 10, 60])
    @pytest.mark.parametrize("columns", [2, 5, 50])
    def test_agree_with_the_twin_whatever_the_cache(self, loss, steps, columns):
        X, y = moons(50)
        svm = KernelSVM(loss=loss, gamma=1.0, tol=0.0, max_iter=steps, cache_bytes=columns * 8 * 50).fit(X, y)
        expected = twin(gram(X), 2.0 * y - 1, 1.0, loss == "squared_hinge", steps)
        assert_allclose(full_beta(svm, 50), expected, rtol=0, atol=1e-12)
        assert svm.n_iter_ == steps

    def test_pairs_make_a_large_common_part_harmless(self):
        """Kernel values near 1 throughout: single steps alone would need some hundred times more."""
        X, y = moons(200)
        svm = KernelSVM(100.0, gamma=0.05, tol=1e-4).fit(X, y)
        assert svm.status_ == "converged" and svm.n_iter_ < 5_000


class TestCache:
    def test_holds_no_more_than_stated(self):
        kernel = module.Kernel.of(KernelSVM(), moons(100)[0])
        cache = module.ColumnCache(kernel, kernel.points(moons(100)[0]), 8 * 100 * 7 + 1)
        assert cache.values.shape == (7, 100)
        assert module.ColumnCache(kernel, kernel.points(moons(100)[0]), 10**12).values.shape == (100, 100)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_columns_are_right_after_many_evictions(self, form):
        X = form(moons(60)[0])
        kernel = module.Kernel.of(KernelSVM(gamma=1.0), X)
        cache = module.ColumnCache(kernel, kernel.points(X), 8 * 60 * 9)
        dual = module._pose(X, kernel.points(X), np.resize([1.0, -1.0], 60), np.ones(60), kernel, False, None)
        K, rng = gram(moons(60)[0]), np.random.default_rng(0)
        for column in rng.integers(60, size=200):
            if cache.slots[column] < 0:
                cache.load(column, dual)
            held = np.flatnonzero(cache.slots >= 0)
            assert column in held and len(held) <= 9
            assert_allclose(cache.values[cache.slots[held]], K[held], atol=1e-12)

    def test_too_small_a_cache_is_refused(self):
        with pytest.raises(ValueError, match=r"at least two columns of 80 rows, 1280 bytes, got 1279\. Raise"):
            KernelSVM(cache_bytes=1279).fit(*moons())


class TestCertificate:
    @pytest.mark.parametrize("loss", LOSSES)
    def test_gap_bounds_the_suboptimality_all_the_way(self, loss):
        X, y = moons(150)
        best = KernelSVM(10.0, loss=loss, tol=1e-12).fit(X, y).objective_
        history = KernelSVM(10.0, loss=loss, tol=1e-9).fit(X, y).history_
        assert np.all(history["objective"] - best <= history["dual_gap"] * (1 + 1e-9) + 1e-9)
        # At f = 0: P = C n, D = 0, every score is tied.
        assert [history[name][0] for name in ("updates", "objective", "dual_gap", "auc")] == [0, 1500, 1500, 0.5]
        assert len({len(column) for column in history.values()}) == 1
        assert np.all(np.diff(history["updates"]) >= 0) and history["auc"][-1] > 0.9

    def test_is_that_of_the_gradient_kept_not_of_one_that_has_drifted(self):
        X, y = moons(150)
        svm = KernelSVM(1e3, tol=1e-9).fit(X, y)
        beta, K = full_beta(svm, 150), gram(X, gamma=1 / (2 * X.var()))
        value = (2.0 * y - 1) @ beta - 0.5 * beta @ K @ beta
        assert svm.n_iter_ > 500
        assert svm.dual_gap_ == pytest.approx(primal(K, 2.0 * y - 1, beta, "hinge", 1e3) - value, abs=1e-6)

    @pytest.mark.parametrize("C", [1e-6, 1e-2, 1.0])
    def test_tol_is_relative_to_the_objective_at_zero(self, C):
        svm = KernelSVM(C, tol=1e-3).fit(*moons())
        assert svm.status_ == "converged" and 0 <= svm.dual_gap_ <= 1e-3 * C * 80

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_ends_where_only_rounding_is_left(self):
        svm = KernelSVM(tol=0.0, gamma=1.0).fit(*moons())
        assert svm.n_iter_ < 10**5 and svm.dual_gap_ < 1e-12

    def test_running_out_of_steps_warns_and_says_what_to_do(self):
        with pytest.warns(ConvergenceWarning, match="'max_iter' after 3 iterations.*Raise max_iter or tol"):
            svm = KernelSVM(tol=1e-9, max_iter=3).fit(*moons())
        assert (svm.status_, svm.n_iter_, svm.history_["updates"][-1]) == ("max_iter", 3, 3)


class TestStorageAndState:
    @pytest.mark.parametrize("options", KERNELS, ids=str)
    def test_sparse_and_dense_are_one(self, options):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(90, 12)) * (rng.random((90, 12)) < 0.3), np.arange(90) % 3 == 0
        dense, thin = (KernelSVM(tol=1e-11, **options).fit(form(X), y) for form in (np.asarray, sparse.csr_array))
        assert sparse.issparse(thin.support_vectors_)
        assert_allclose(thin.objective_, dense.objective_, rtol=1e-9)
        for model, queries in [(thin, X), (thin, sparse.csr_matrix(X)), (dense, sparse.csr_matrix(X))]:
            assert_allclose(model.decision_function(queries), dense.decision_function(X), atol=1e-4)

    def test_float32_is_accepted(self):
        X, y = moons()
        single, double = (KernelSVM(tol=1e-9).fit(A, y) for A in (X.astype(np.float32), X))
        assert_allclose(single.objective_, double.objective_, rtol=1e-5)

    def test_scores_do_not_depend_on_the_blocks(self, monkeypatch):
        X, y = moons(100)
        svm = KernelSVM().fit(X, y)
        whole = svm.decision_function(X)
        monkeypatch.setattr(module, "BLOCK_BYTES", 8 * len(svm.support_) * 7)
        assert_allclose(svm.decision_function(X), whole, rtol=1e-12)

    def test_wide_sparse_rows_are_never_made_dense(self):
        # 2000 x 200,000 in float64 would be 3 GiB
        X = sparse.random_array((2000, 200_000), density=1e-4, format="csr", rng=np.random.default_rng(0))
        svm = KernelSVM(10.0, kernel="linear").fit(X, np.arange(2000) % 7 == 0)
        assert svm.status_ == "converged" and svm.decision_function(X).shape == (2000,)

    def test_nothing_is_drawn(self):
        first, second = (KernelSVM().fit(*moons()) for _ in range(2))
        assert_array_equal(first.dual_coef_, second.dual_coef_)

    def test_warm_start_goes_on_from_the_dual_point(self):
        X, y = moons(200)
        svm = KernelSVM(tol=1e-8, warm_start=True).fit(X, y)
        assert svm.fit(X, y).n_iter_ == 0  # nothing left to do
        svm.set_params(C=0.5).fit(X, y)  # beta is clipped to the new, tighter bounds
        assert_allclose(svm.objective_, KernelSVM(0.5, tol=1e-8).fit(X, y).objective_, rtol=1e-6)
        assert svm.fit(X[:50], y[:50]).status_ == "converged"  # another number of rows: a cold start

    def test_clone_and_pickle(self):
        X, y = moons()
        svm = KernelSVM(kernel="poly").fit(X, y)
        assert_array_equal(pickle.loads(pickle.dumps(svm)).decision_function(X), svm.decision_function(X))
        assert clone(svm).kernel == "poly" and not hasattr(svm, "_beta")

    def test_the_geometric_under_sampler_takes_it(self):
        X, y = moons(200)
        y = np.where(np.arange(200) % 4 == 0, y, 0)  # an imbalanced class 1
        svm = KernelSVM(10.0, gamma=1.0, tol=1e-8).fit(X, y)
        beta, K = full_beta(svm, 200), gram(X, constant=0.0)
        distances = np.abs(svm.decision_function(X)) / np.sqrt(beta @ K @ beta)
        assert_allclose(hyperplane_distances(svm, X), distances, rtol=1e-9)
        sampler = GeometricUnderSampler(estimator=KernelSVM(10.0, gamma=1.0, tol=1e-8), random_state=0)
        kept, labels = sampler.fit_resample(X, y)
        assert len(kept) < 200 and np.sum(labels == 1) == np.sum(y == 1)


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
    @pytest.mark.parametrize("kernel", module.KERNELS)
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("fit_intercept", [True, False])
    @pytest.mark.parametrize("case", CASES)
    def test_result_is_finite(self, case, kernel, loss, fit_intercept):
        X, y = self.CASES[case]
        svm = KernelSVM(kernel=kernel, loss=loss, fit_intercept=fit_intercept, max_iter=2000).fit(X, y)
        assert np.isfinite(svm.dual_coef_).all() and np.isfinite(svm.decision_function(X)).all()
        assert 0 <= svm.objective_ - svm.dual_gap_ <= len(y) * (1 + 1e-9)

    def test_all_zero_rows_reach_their_optimum(self):
        """Linear, no intercept: f = 0 and P = C n; every alpha_i goes to C, an infinite step cut at the bound."""
        svm = KernelSVM(kernel="linear", fit_intercept=False, tol=1e-12).fit(np.zeros((6, 2)), [0, 0, 0, 1, 1, 1])
        assert (svm.objective_, svm.dual_gap_, svm.status_) == (6.0, 0.0, "converged")
        assert_array_equal(np.abs(svm.dual_coef_), np.ones((1, 6)))

    def test_far_from_the_origin(self):
        """Distances do not see a shift; computed from squared lengths of 1e12 they would be off by 1e-4."""
        X, y = moons()
        near, far = (KernelSVM(gamma=1.0, tol=1e-10).fit(X + shift, y) for shift in (0.0, 1e6))
        assert_allclose(far.objective_, near.objective_, rtol=1e-7)

    @pytest.mark.parametrize("kernel", ["linear", "poly"])
    def test_overflow_is_refused(self, kernel):
        with pytest.raises(ValueError, match="scale the features"):
            KernelSVM(kernel=kernel, gamma=1.0).fit([[1e200], [-1e200]], [0, 1])

    @pytest.mark.parametrize(
        "bad",
        [
            {"C": 0},
            {"kernel": "sigmoid"},
            {"gamma": "auto"},
            {"gamma": -1.0},
            {"degree": 0},
            {"degree": 2.5},
            {"coef0": -1.0},
            {"loss": "log"},
            {"tol": -1},
            {"max_iter": 0},
            {"cache_bytes": 0},
        ],
    )
    def test_bad_parameters(self, bad):
        (name,) = bad
        with pytest.raises(ValueError, match=f"Expected {name} .*got"):
            KernelSVM(**bad).fit([[0.0], [1.0]], [0, 1])
