"""KernelSVM against LIBSVM, scipy on its dual, LinearSVM, a slow twin, and its own certificate."""

import pickle
import tracemalloc
import warnings
from decimal import Decimal

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_svmlight_file, make_moons
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.preprocessing import scale
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from aucsolvers import ZOVR, MarginMeanSVM
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
    def test_is_that_of_a_general_optimiser_on_the_dual(self, options, loss, fit_intercept, shrinking):
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
    def test_same_objective_as_libsvm(self, fit_intercept, C, shrinking):
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
        ours, theirs = KernelSVM(gamma=0.5, tol=1e-6).fit(X, y), SVC(gamma=0.5).fit(X, y)
        beta, K = full_beta(ours, len(y)), gram(X, gamma=0.5)
        assert_allclose(ours.objective_, primal(K, y, beta, "hinge"), rtol=1e-11)
        assert_allclose(ours.objective_ - ours.dual_gap_, y @ beta - 0.5 * beta @ K @ beta, rtol=1e-11)
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

    @pytest.mark.parametrize("gamma", ["scale", "spread"])
    @pytest.mark.parametrize("number", [float, Decimal], ids=lambda number: number.__name__)
    def test_weights_that_are_objects_count_as_the_numbers_that_they_are(self, gamma, number):
        """Those of a frame's column may be: float32 rows had another gamma then, and decimal ones none."""
        X, y = moons(30)
        weight = np.arange(30) % 4 * 1000
        objects = np.array([number(int(one)) for one in weight], dtype=object)
        model, other = (KernelSVM(gamma=gamma).fit(X.astype("f4"), y, one) for one in (weight, objects))
        assert model.gamma_ == other.gamma_
        assert_array_equal(model.dual_coef_, other.dual_coef_)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_tol_is_relative_to_the_objective_also_where_the_classes_are_far_apart(self, loss):
        """P(0) = C n is a million times min P: 1/2 ||f||^2 of the widest margin."""
        X, y = make_moons(100, noise=0.1, random_state=0)
        best = KernelSVM(1e6, gamma=1.0, loss=loss, tol=1e-9).fit(X, y).objective_
        svm = KernelSVM(1e6, gamma=1.0, loss=loss).fit(X, y)
        assert svm.status_ == "converged" and best < 100.0
        assert -1e-6 <= svm.objective_ - best <= svm.dual_gap_ <= 1e-4 * svm.objective_

    def test_coef_is_the_linear_kernels_alone(self):
        assert not hasattr(KernelSVM().fit(*moons()), "coef_")


def twin_steps(K, y, beta, C, squared):
    """The greedy step from beta on the full matrix, as plain Python: the list of all results, for there may be ties.

    After a step the gradients of its pair are equal, so that the next one is a tie that rounding decides.
    """
    D = np.full(len(y), 0.5 / C if squared else 0.0)
    U = np.inf if squared else C
    low, high = np.where(y > 0, 0.0, -U), np.where(y > 0, U, 0.0)
    v = y - K @ beta - D * beta
    rise, fall = np.where(beta < high, v, -np.inf), np.where(beta > low, -v, -np.inf)

    def moved(s, t):
        result = beta.copy()
        result[s] = np.clip(beta[s] + t, low[s], high[s])
        return result

    if rise.max() <= 0 or fall.max() <= 0:
        slope = np.maximum(rise, fall)
        return [moved(s, v[s] / (K[s, s] + D[s])) for s in ties(slope)]
    results = []
    for i in ties(rise):
        bend = np.maximum(K[i, i] + D[i] + K.diagonal() + D - 2 * K[i], 1e-12)
        gain = np.where((v[i] > v) & (beta > low), (v[i] - v) ** 2 / bend, -1)
        for j in ties(gain):
            step = min((v[i] - v[j]) / bend[j], high[i] - beta[i], beta[j] - low[j])
            results.append(moved(i, step) + moved(j, -step) - beta)
    return results


def ties(values):
    return np.flatnonzero(values >= values.max() - 1e-10)


@pytest.fixture(params=["few rows", "shrinking"])
def shrinking(request, monkeypatch):
    """Few rows are never shrunk; here they may be."""
    if request.param == "shrinking":
        monkeypatch.setattr(module, "SHRINK_FROM", 2)
        monkeypatch.setattr(module, "SHRINK_BELOW", 0.95)
        monkeypatch.setattr(module, "FIRST_PAUSE", 16)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
class TestSteps:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("columns", [2, 5, 50])
    def test_are_the_twins_whatever_the_cache(self, loss, columns):
        X, y = moons(50)
        K, before = gram(X), np.zeros(50)
        for steps in range(1, 61):
            svm = KernelSVM(loss=loss, gamma=1.0, tol=0.0, max_iter=steps, cache_bytes=columns * 8 * 50).fit(X, y)
            after = full_beta(svm, 50)
            expected = twin_steps(K, 2.0 * y - 1, before, 1.0, loss == "squared_hinge")
            assert svm.n_iter_ == steps
            assert min(np.abs(after - one).max() for one in expected) < 1e-12
            before = after

    def test_pairs_make_a_large_common_part_harmless(self):
        """Kernel values near 1 throughout: single steps alone would need some hundred times more."""
        X, y = moons(200)
        svm = KernelSVM(100.0, gamma=0.05, tol=1e-4).fit(X, y)
        assert svm.status_ == "converged" and svm.n_iter_ < 5_000


class TestShrinking:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_changes_nothing_but_the_time(self, loss, form, monkeypatch):
        X, y = moons(400)
        K, signs = gram(X, gamma=1.0), 2.0 * y - 1
        plain = KernelSVM(10.0, gamma=1.0, loss=loss, tol=1e-10).fit(form(X), y)
        monkeypatch.setattr(module, "SHRINK_FROM", 2)
        lengths = []
        restrict = module.ColumnCache.restrict
        monkeypatch.setattr(
            module.ColumnCache, "restrict", lambda self, keep: (lengths.append(len(keep)), restrict(self, keep))
        )
        svm = KernelSVM(10.0, gamma=1.0, loss=loss, tol=1e-10).fit(form(X), y)
        beta = full_beta(svm, 400)
        assert len(lengths) > 1 and min(lengths) < 300
        assert_allclose(svm.objective_, plain.objective_, rtol=1e-9)
        # the rows left out were brought up to date: the certificate is that of the full matrix
        D = 0.05 if loss == "squared_hinge" else 0.0
        dual = signs @ beta - 0.5 * beta @ K @ beta - 0.5 * D * beta @ beta
        assert svm.dual_gap_ == pytest.approx(primal(K, signs, beta, loss, 10.0) - dual, abs=1e-9)
        assert svm.objective_ == pytest.approx(primal(K, signs, beta, loss, 10.0), rel=1e-12)

    @pytest.mark.parametrize("squared", [False, True])
    def test_gradient_of_rows_left_out_one_after_another_is_brought_up_to_date(self, squared):
        """Whatever they did before they were left out, and whatever the others did since."""
        X, y = moons(200)
        signs, kernel = 2.0 * y - 1, module.Kernel.of(KernelSVM(gamma=1.0), X)
        points = kernel.points(X)
        dual = module._pose(points, signs, np.full(200, 2.0), kernel, squared, None, np.linspace(-1, 1, 200))
        working = module._WorkingSet(dual, kernel, points, 10**6)
        for rows in [np.arange(0, 200, 2), np.arange(0, 100, 3), np.arange(5, 30)]:
            working.ascend(40)
            working.narrow(rows)
        working.ascend(40)
        working.reopen()
        expected = signs - np.linspace(-1, 1, 200) - gram(X) @ dual.beta - (0.25 if squared else 0) * dual.beta
        assert working.is_whole and np.count_nonzero(dual.beta) > 30
        assert_allclose(dual.pull, expected, atol=1e-12)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("options", KERNELS, ids=str)
    def test_rows_that_a_first_sample_left_out_come_back(self, form, options, monkeypatch):
        """The sample has no information on most rows: the certificate finds that they have to move."""
        X, y = moons(300)
        plain = KernelSVM(10.0, **options, tol=1e-9).fit(form(X), y)
        monkeypatch.setattr(module, "SAMPLE_FROM", 300)
        monkeypatch.setattr(module, "SAMPLE_STEP", 30)
        svm = KernelSVM(10.0, **options, tol=1e-9).fit(form(X), y)
        assert svm.status_ == "converged" and len(svm.history_["updates"]) > len(plain.history_["updates"])
        assert_allclose(svm.objective_, plain.objective_, rtol=1e-8)
        beta, K = full_beta(svm, 300), gram(X, **options)
        assert_allclose(svm.objective_, primal(K, 2.0 * y - 1, beta, "hinge", 10.0), rtol=1e-12)


class TestOffset:
    """The driver's g: what KernelSVM has not, but a margin-mean SVM needs."""

    @pytest.mark.parametrize("loss", LOSSES)
    def test_optimum_is_that_of_a_general_optimiser_on_the_dual(self, loss, shrinking):
        X, y = moons(60)
        signs, offset, squared = 2.0 * y - 1, np.random.default_rng(0).normal(size=60), loss == "squared_hinge"
        options = {"squared": squared, "tol": 1e-10, "relative": False, "max_iter": 10**5, "cache_bytes": 10**6}
        kernel = module.Kernel.of(KernelSVM(gamma=1.0), X)
        result = module.solve_kernel_svm(X, signs, np.full(60, 2.0), kernel, offset=offset, **options)
        K = gram(X)
        Q = K + (0.25 * np.eye(60) if squared else 0)
        best = minimize(
            lambda b: (0.5 * b @ Q @ b - (signs - offset) @ b, Q @ b - signs + offset),
            np.zeros(60),
            jac=True,
            bounds=[tuple(sorted((0, s * (np.inf if squared else 2.0)))) for s in signs],
            options={"maxiter": 20_000, "maxfun": 10**6, "ftol": 1e-15, "gtol": 1e-10},
        )
        slack = np.maximum(0, 1 - signs * (offset + K @ result.beta)) ** (2 if squared else 1)
        assert result.status == "converged"
        assert_allclose(result.objective, -best.fun, rtol=1e-6)
        assert_allclose(result.scores, offset + K @ result.beta, atol=1e-10)
        assert_allclose(result.objective, 0.5 * result.beta @ K @ result.beta + 2.0 * slack.sum(), rtol=1e-12)


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
        rng, rows, capacity = np.random.default_rng(0), np.arange(60), 9
        for keep in [None, np.arange(0, 60, 2), np.r_[0:7, 20:23]]:
            if keep is not None:  # shorter columns, more of them
                cache.restrict(keep)
                rows, capacity = rows[keep], min(len(keep), 8 * 60 * 9 // (8 * len(keep)))
                assert np.any(cache.slots >= 0) and cache.capacity == capacity
            K, slopes = gram(moons(60)[0], constant=0.0)[np.ix_(rows, rows)], rng.normal(size=len(rows))
            for column in rng.integers(len(rows), size=200):
                held = np.flatnonzero(cache.slots >= 0)
                assert_allclose(cache.values[cache.slots[held]], K[held], atol=1e-12)
                if cache.slots[column] < 0:
                    cache.load(column, np.zeros(len(rows)), np.zeros(len(rows)), slopes)
                assert cache.slots[column] >= 0 and np.sum(cache.slots >= 0) <= capacity

    @pytest.mark.parametrize("n_columns", [1, 2, 3, 7, module.FEW_COLUMNS, module.FEW_COLUMNS + 1])
    @pytest.mark.parametrize("n_features", [1, 3, 4, 9])
    def test_a_block_of_columns_is_the_product_whatever_its_shape(self, n_columns, n_features):
        """An odd column and the features beyond a multiple of four go their own ways; no entry beside it is touched."""
        rng = np.random.default_rng(0)
        for n in (1, 17, module.CHUNK, 2 * module.CHUNK + 5):
            few, many = rng.normal(size=(n_features, n_columns)), rng.normal(size=(n_features, n))
            values = np.full((n_columns + 1, n), np.nan)
            assert_allclose(module._products(few, many, values[:-1]), few.T @ many, rtol=0, atol=1e-14)
            assert_array_equal(values[:-1], module._products(few, many))
            assert np.isnan(values[-1]).all()

    @pytest.mark.parametrize(
        "options", [{"gamma": 0.1}, {"gamma": "loo"}, {"kernel": "poly", "gamma": 0.1, "coef0": 1.0}]
    )
    def test_columns_without_a_value_change_nothing(self, options):
        X = sparse.random_array((80, 40), density=0.2, format="csr", rng=np.random.default_rng(0))
        y = np.arange(80) % 4 == 0
        wide = sparse.csr_array((X.data, 5000 * X.indices, X.indptr), shape=(80, 200_000))
        narrow, other = KernelSVM(**options).fit(X, y), KernelSVM(**options).fit(wide, y)
        assert_array_equal(other.dual_coef_, narrow.dual_coef_)
        assert_array_equal(other.decision_function(wide), narrow.decision_function(X))
        assert other.support_vectors_.shape[1] == 200_000
        assert other._kernel.points_among_themselves(wide).X.shape == X.shape

    @pytest.mark.parametrize("density", [0.01, 0.3])
    def test_products_of_sparse_rows_do_not_show_how_they_came_about(self, density, monkeypatch):
        """All rows made dense at once, a few at a time, or none."""
        X = sparse.random_array((90, 400), density=density, format="csr", rng=np.random.default_rng(0))
        expected = module._products(X, X)
        assert_allclose(expected, (X @ X.T).toarray(), rtol=0, atol=1e-14)
        for share, wide, size in ((0.0, 0.0, 2**12), (1.0, 1.0, 2**12), (0.0, 1.0, 2**28), (1.0, 0.0, 2**28)):
            monkeypatch.setattr(module, "MEETING", share)
            monkeypatch.setattr(module, "MEETING_OF_WIDE", wide)
            monkeypatch.setattr(module, "SPREAD_BYTES", size)
            out = np.full((90, 90), np.nan)
            assert_array_equal(module._products(X, X, out), expected)
            assert_array_equal(out, expected)

    @pytest.mark.parametrize(
        "solver", [ZOVR(kernel="rbf", max_iter=2), KernelSVM(gamma="loo"), MarginMeanSVM(kernel="rbf")]
    )
    def test_a_million_columns_with_few_values_take_no_memory_of_their_own(self, solver):
        X = sparse.random_array((200, 10**6), density=1e-5, format="csr", rng=np.random.default_rng(0))
        y = np.arange(200) % 4 == 0
        tracemalloc.start()
        try:
            solver.fit(X, y)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak < 200 * 10**6  # all rows made dense would take eight times that

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_is_what_a_fit_takes_beside_vectors_and_rows(self, monkeypatch):
        X, y = moons(3000)
        size, row = 8 * 3000 * 50, 8 * 3000
        monkeypatch.setattr(module, "BLOCK_BYTES", row)
        svm = KernelSVM(100.0, gamma=10.0, cache_bytes=size, max_iter=3000)
        svm.fit(X, y)  # compiled
        tracemalloc.start()
        svm.fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert size < peak < size + 60 * row

    @pytest.mark.parametrize("capacity", [*range(2, 14), 21, 33])
    def test_what_it_says_it_holds_it_holds(self, capacity, monkeypatch):
        """However full it is, whatever was loaded together, and after it went on with fewer points."""
        X, rng = moons(60)[0], np.random.default_rng(capacity)
        kernel = module.Kernel.of(KernelSVM(gamma=1.0), X)
        cache, keep, K = module.ColumnCache(kernel, kernel.points(X), 8 * 60 * capacity), np.arange(60), gram(X)
        for turn in range(150):
            n = len(keep)
            rise, fall = (np.where(rng.random(n) < rng.random(), 0.0, -np.inf) for _ in range(2))
            wanted = rng.choice(np.flatnonzero(cache.slots < 0)) if (cache.slots < 0).any() else None
            if wanted is not None:
                cache.load(int(wanted), rise, fall, rng.normal(size=n))
                assert cache.slots[wanted] >= 0
            used = rng.integers(cache.capacity, size=2)
            cache.last_use[used] = cache.last_use.max() + 1
            held = np.flatnonzero(cache.slots >= 0)
            assert len(set(cache.slots[held])) == len(held)
            assert_allclose(cache.values[cache.slots[held]], K[np.ix_(keep[held], keep)] - 1.0, atol=1e-12)
            if turn % 50 == 49:
                left = np.sort(rng.choice(n, 2 * n // 3, replace=False))
                cache.restrict(left)
                keep = keep[left]

    @pytest.mark.parametrize("options", [{}, {"kernel": "poly", "coef0": 1.0}], ids=str)
    @pytest.mark.parametrize("columns", [2, 3, 5, 7, 9, 11, 15, 40])
    def test_its_size_changes_no_model(self, columns, options):
        for seed in range(6):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(50, 3)), rng.random(50) < 0.3
            whole, small = (KernelSVM(tol=1e-8, cache_bytes=size, **options) for size in (2**20, 8 * 50 * columns))
            assert_allclose(small.fit(X, y).objective_, whole.fit(X, y).objective_, rtol=1e-7)
            f = small.decision_function(X)
            loss = np.maximum(0.0, 1.0 - np.where(y, f, -f)).sum()
            told = 0.5 * (small.dual_coef_ @ f[small.support_]).item() + loss
            assert_allclose(small.objective_, told, rtol=1e-7)

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

    @pytest.mark.parametrize("C", [1e4, 1e6, 1e8])
    @pytest.mark.parametrize("seed", [0, 1, 3])
    def test_it_is_the_true_one_of_dual_variables_that_cancel(self, seed, C):
        """Rows that are nearly all equal: what steps of up to C had rounded was more than the gap that was claimed."""
        rng = np.random.default_rng(seed)
        X = np.tile(rng.normal(size=5), (100, 1))
        X[:3], y = rng.normal(size=(3, 5)), rng.random(100) < 0.3
        y[:2] = True, False
        svm = KernelSVM(C, kernel="linear").fit(X, y)
        signs, beta, exact = 2 * y - np.longdouble(1), np.longdouble(full_beta(svm, 100)), np.longdouble(X)
        scores = exact @ np.longdouble(svm.coef_[0]) + np.longdouble(svm.intercept_[0])
        published = (svm.coef_[0] @ svm.coef_[0] + svm.intercept_[0] ** 2) / 2 + C * np.maximum(
            0, 1 - signs * scores
        ).sum()
        w, b = beta @ exact, beta.sum()
        assert svm.dual_gap_ == pytest.approx(float(published - (signs @ beta - (w @ w + b * b) / 2)), rel=0.05)

    @pytest.mark.parametrize("C", [1e-6, 1e-2, 1.0])
    def test_tol_is_relative_to_the_objective_at_zero(self, C):
        svm = KernelSVM(C, tol=1e-3).fit(*moons())
        assert svm.status_ == "converged" and 0 <= svm.dual_gap_ <= 1e-3 * C * 80

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("kernel", ["linear", "poly"])
    @pytest.mark.parametrize("loss", LOSSES)
    def test_where_rounding_leads_astray_no_score_at_all_is_returned(self, kernel, loss):
        """Kernels of 1e16 and more, whose rounding is larger than what tells rows apart: P was a million P(0)."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(150, 6))
        y = X[:, 0] + rng.normal(size=150) > 1
        svm = KernelSVM(kernel=kernel, loss=loss, gamma=1.0, max_iter=20_000).fit(X + 1e9, y)
        assert (svm.status_, svm.objective_, svm.dual_gap_) == ("max_iter", 150.0, 150.0)
        assert not svm.decision_function(X).any()

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
    @pytest.mark.parametrize("loss", LOSSES)
    def test_it_is_the_true_one_of_a_column_far_from_zero(self, loss, form):
        """Entries of the kernel are 1e12 and rounded to 1e-4, by which scores and gap were wrong; w is not."""
        for seed in range(5):
            rng = np.random.default_rng(seed)
            y = np.where(rng.random(400) < 0.2, 1, -1)
            X = rng.normal(size=(400, 5)) + (y > 0)[:, None]
            X[:, 0] += 1e6
            svm = KernelSVM(kernel="linear", loss=loss, max_iter=100_000).fit(form(X), y)
            exact, beta = np.longdouble(X), np.longdouble(full_beta(svm, 400))
            w = beta @ exact
            scores, squares = exact @ w + beta.sum(), w @ w + beta.sum() ** 2
            slack = np.maximum(0, 1 - y * scores)
            P = squares / 2 + np.sum(slack if loss == "hinge" else slack**2)
            D = y @ beta - squares / 2 - (beta @ beta / 4 if loss == "squared_hinge" else 0)
            assert svm.dual_gap_ == pytest.approx(float(P - D), rel=1e-3)
            assert_allclose(svm.coef_.ravel(), np.float64(w), rtol=1e-9)
            assert_allclose(svm.decision_function(form(X)), np.float64(scores), atol=1e-4)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("kernel", [{"kernel": "poly", "gamma": 1.0, "coef0": 1.0}, {"kernel": "linear"}], ids=str)
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("change", ["C", "units"])
    def test_a_warm_start_from_far_off_leaves_no_rounding_behind(self, kernel, loss, change):
        """Scores of a stale dual point may be huge, and what they were rounded by stayed in the gradient for good.

        Rows are whole numbers, so that kernels are exact and the objective can be had in long double.
        """
        converged = 0
        for seed in range(15):
            rng = np.random.default_rng(seed)
            X, y = np.round(np.abs(rng.normal(size=(30, 8))) * 10), (rng.random(30) < 0.4).astype(int)
            X[y == 1] += 20
            X[15:] = X[:15]
            svm = KernelSVM(C=1e4, loss=loss, warm_start=True, max_iter=20_000, **kernel)
            svm.fit(scale(X) if change == "units" else X, y).set_params(C=1.0).fit(X, y)
            exact, beta = np.longdouble(X), np.longdouble(full_beta(svm, 30))
            K = exact @ exact.T if kernel["kernel"] == "linear" else (exact @ exact.T + 1) ** 3
            true = float(primal(K + 1, np.where(y == 1, 1, -1), beta, loss))
            assert svm.status_ != "converged" or svm.objective_ == pytest.approx(true, rel=1e-3)
            converged += svm.status_ == "converged"
        assert converged > 5

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("max_iter", [3, 50, 3000])
    def test_the_last_word_is_that_of_the_dual_point_also_where_steps_run_out(self, max_iter):
        """Kernels of up to 1e13: the gradient kept has lost P by then, the coefficients that are published have not."""
        for seed in range(60):
            rng = np.random.default_rng(seed)
            n, unit = int(rng.integers(6, 30)), 10.0 ** rng.integers(1, 4)
            X = np.round(np.abs(rng.normal(size=(n, 3))) * unit + 10)
            y, sign = (np.arange(n) % 3 == 0).astype(int), np.where(np.arange(n) % 3 == 0, 1, -1)
            svm = KernelSVM(C=1e4, kernel="poly", gamma=1.0, coef0=1.0, warm_start=True, max_iter=max_iter)
            svm.fit(X, y).set_params(C=10.0 ** rng.integers(1, 4)).fit(X, y)
            scores = svm.decision_function(X)
            told = 0.5 * full_beta(svm, n) @ scores + svm.C * np.maximum(0, 1 - sign * scores).sum()
            assert svm.objective_ == pytest.approx(told, rel=1e-3, abs=0.0)

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

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("options", KERNELS, ids=str)
    def test_float32_rows_are_what_the_same_numbers_in_float64_are(self, form, options):
        X, y = moons()
        rows = form(X.astype(np.float32))
        single, double = (KernelSVM(tol=1e-9, **options).fit(A, y) for A in (rows, rows.astype(np.float64)))
        assert single.support_vectors_.dtype == np.float32
        assert_allclose(single.objective_, double.objective_, rtol=1e-12)
        assert_allclose(single.decision_function(rows), double.decision_function(rows.astype(np.float64)), rtol=1e-9)

    def test_an_entry_may_be_stored_in_two_parts(self):
        X, y = moons()
        halves = sparse.csr_array((np.repeat(X.ravel() / 2, 2), np.tile([0, 0, 1, 1], 80), np.arange(0, 321, 4)))
        whole, parts = (KernelSVM(tol=1e-10).fit(A, y) for A in (sparse.csr_array(X), halves))
        assert_allclose(parts.objective_, whole.objective_, rtol=1e-12)
        assert_allclose(parts.decision_function(halves), whole.decision_function(X), rtol=1e-9)

    def test_scores_do_not_depend_on_the_blocks(self, monkeypatch):
        X, y = moons(100)
        svm = KernelSVM().fit(X, y)
        whole = svm.decision_function(X)
        monkeypatch.setattr(module, "BLOCK_BYTES", 8 * len(svm.support_) * 7)
        assert_allclose(svm.decision_function(X), whole, rtol=1e-12)

    @pytest.mark.parametrize("gamma", [0.25, "scale", "loo"])
    @pytest.mark.parametrize("loss", module.LOSSES)
    @pytest.mark.parametrize("shift", [[0, 0, 0, 0], [0, 0, 1.7e9, 0], [1e7] * 4, [1e8] * 4])
    def test_sparse_rows_far_from_zero_are_those_of_the_dense(self, shift, loss, gamma):
        """Their squared distances cancel: the certificate was of another problem, gamma another, or P was nan."""
        rng = np.random.default_rng(5)
        X = rng.normal(size=(60, 4)) + np.array(shift)
        y = X[:, 0] - shift[0] + rng.normal(size=60) > 0.8
        dense, thin = (KernelSVM(gamma=gamma, loss=loss, tol=1e-9).fit(f(X), y) for f in (np.asarray, sparse.csr_array))
        assert_allclose([thin.gamma_, thin.objective_], [dense.gamma_, dense.objective_], rtol=1e-8)
        scores = [
            model.decision_function(form(X)) for model in (dense, thin) for form in (np.asarray, sparse.csr_array)
        ]
        assert_allclose(scores, [scores[0]] * 4, atol=1e-4)

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

    def test_a_cold_fit_in_between_is_where_the_next_warm_one_starts(self):
        X, y = moons()
        svm = KernelSVM(tol=1e-8, warm_start=True).fit(X, y)
        svm.set_params(warm_start=False).fit(X[::-1], y[::-1])
        svm.set_params(warm_start=True).fit(X, y)
        cold = KernelSVM(tol=1e-8).fit(X, y)
        assert svm.n_iter_ == cold.n_iter_ > 0
        assert_array_equal(svm.dual_coef_, cold.dual_coef_)

    @pytest.mark.parametrize("seed", range(5))
    def test_rows_of_both_classes_that_are_the_same_tie_in_the_history_too(self, seed):
        """Each row's score is followed by itself, with its own rounding: some such pairs were won and others lost."""
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 3, size=(200, 3)).astype(float)
        y = (X.sum(axis=1) + rng.normal(size=200) > 4).astype(int)
        svm = KernelSVM(class_weight="balanced").fit(X, y)
        told = roc_auc_score(y, np.round(svm.decision_function(X), 9))  # symmetric rows tie up to rounding
        assert svm.history_["auc"][-1] == pytest.approx(told, abs=1e-12)

    def test_clone_and_pickle(self):
        X, y = moons()
        svm = KernelSVM(kernel="poly").fit(X, y)
        assert_array_equal(pickle.loads(pickle.dumps(svm)).decision_function(X), svm.decision_function(X))
        assert clone(svm).kernel == "poly" and svm._beta is None

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

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("remote", [1e9, 1e14])
    def test_one_remote_row_does_not_round_the_others(self, form, remote):
        """It takes the mean far from all of them: less that, rows of size 1 would lose up to all their digits."""
        X, y = moons()
        X[7] = remote
        svm = KernelSVM(C=10.0, gamma=1.0, tol=1e-10).fit(form(X), y)
        exact = np.exp(-(((X[:, None].astype(np.longdouble) - X[None]) ** 2).sum(axis=2)))
        beta = np.zeros(len(y), dtype=np.longdouble)
        beta[svm.support_] = svm.dual_coef_.ravel()
        scores = exact @ beta + svm.intercept_[0]
        norm = beta @ exact @ beta + np.square(svm.intercept_[0])
        P = 0.5 * norm + 10.0 * np.maximum(0.0, 1.0 - np.where(y > 0, 1.0, -1.0) * scores).sum()
        assert_allclose(svm.objective_, float(P), rtol=1e-12)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("length", [1e4, 1e6, 1e8])
    def test_rows_of_a_length_that_hides_their_distances(self, form, length):
        """Of ten clusters so far apart, 2 x'z - x'x - z'z is rounding: k(x, x) was 1 to 0.03 only, F off by 1 %."""
        rng = np.random.default_rng(5)
        centres = length * rng.normal(size=(10, 3))
        X = np.repeat(centres, 8, axis=0) + rng.normal(size=(80, 3))
        y = np.where(rng.random(80) < 0.3, 1.0, -1.0)
        svm = KernelSVM(gamma=1.0, tol=1e-10).fit(form(X), y)
        K = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2)) + 1.0
        beta = full_beta(svm, 80)
        P, D = primal(K, y, beta, "hinge"), y @ beta - 0.5 * beta @ K @ beta
        assert_allclose([svm.objective_, svm.dual_gap_], [P, P - D], rtol=1e-7, atol=1e-7)
        assert_allclose(svm.decision_function(form(X)), K @ beta, atol=1e-6)
        one_by_one = [svm.decision_function(form(X)[row : row + 1])[0] for row in range(80)]
        assert_array_equal(one_by_one, svm.decision_function(form(X)))

    def test_features_too_small_to_have_squares(self):
        """1/(d variance) overflows: gamma = 1 then, as if all entries were the same."""
        X, y = moons()
        svm = KernelSVM().fit(1e-160 * X, y)
        assert np.isfinite(svm.decision_function(1e-160 * X)).all()

    @pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
    def test_overflow_is_refused(self, kernel):
        with pytest.raises(ValueError, match="scale the features"):
            KernelSVM(kernel=kernel, gamma=1.0).fit([[1e200], [-1e200]], [0, 1])

    def test_a_coef0_of_0_is_allowed_and_said_to_be(self):
        with pytest.raises(ValueError, match="Expected coef0 to be a finite number >= 0, got -1"):
            KernelSVM(coef0=-1).fit([[0.0], [1.0]], [0, 1])
        KernelSVM(kernel="poly", coef0=0).fit([[0.0], [1.0]], [0, 1])

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
            {"coef0": False},
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


@pytest.mark.parametrize("kernel", ["rbf", "poly", "linear"])
@pytest.mark.parametrize("n_features", [3, 30])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_a_rows_score_does_not_depend_on_the_rows_beside_it(kernel, n_features, layout):
    """With one thread of BLAS, as `Ranker` scores: several divide a product where they like."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1500, n_features))
    y = X[:, 0] + rng.normal(size=1500) > 1.0
    X = layout(X * (rng.random(X.shape) < 0.5))
    svm = KernelSVM(kernel=kernel, tol=1e-2).fit(X[:400], y[:400])
    with threadpool_limits(1):
        whole = svm.decision_function(X)
        for count in (1, 2, 5, 24, 100, 192, 193, 1000):
            rows = rng.choice(len(y), count, replace=False)
            assert_array_equal(svm.decision_function(X[rows]), whole[rows])


@pytest.mark.parametrize("kernel", module.KERNELS)
def test_the_scores_of_the_training_rows_come_with_the_fit(kernel):
    X, y = moons()
    svm = KernelSVM(kernel=kernel)
    scores = svm.fit_scores(X, y)
    assert_allclose(scores, svm.decision_function(X), atol=1e-10 * np.abs(scores).max())
    assert_array_equal(svm.dual_coef_, KernelSVM(kernel=kernel).fit(X, y).dual_coef_)


@pytest.mark.parametrize("fit", ["fit", "fit_scores"])
def test_a_warning_names_the_line_that_called(fit):
    with pytest.warns(ConvergenceWarning) as told:
        getattr(KernelSVM(tol=0.0, max_iter=1), fit)(*moons())
    assert told[0].filename == __file__


def test_the_gamma_in_use_is_told_where_there_is_one():
    X, y = moons()
    assert KernelSVM().fit(X, y).gamma_ == module.scale_gamma(X)
    assert KernelSVM(kernel="poly", gamma=0.3).fit(X, y).gamma_ == 0.3
    assert not hasattr(KernelSVM(kernel="linear").fit(X, y), "gamma_")


class TestScaleGamma:
    def test_it_is_that_of_scikit_learn(self):
        X = np.random.default_rng(0).normal(3.0, 2.0, (40, 5))
        expected = 1.0 / (5 * X.var())
        assert_allclose(module.scale_gamma(X), expected, rtol=1e-12)
        assert_allclose(module.scale_gamma(sparse.csr_array(X)), expected, rtol=1e-12)
        assert_allclose(module.scale_gamma(X, np.full(40, 3.0)), expected, rtol=1e-12)
        far = 1e6 + 1e-3 * X
        assert_allclose(module.scale_gamma(far), 1.0 / (5 * far.var()), rtol=1e-6)

    @pytest.mark.parametrize("X", [np.full((7, 3), 0.1), np.zeros((4, 2)), np.full((3, 3), 1e8 / 3)], ids=str)
    def test_entries_that_are_all_the_same_have_1(self, X):
        for gamma in (module.scale_gamma, module.spread_gamma):
            assert gamma(X) == gamma(sparse.csr_array(X)) == 1.0


class TestSpreadGamma:
    def test_it_is_the_inverse_of_the_columns_variances(self):
        X = np.random.default_rng(0).normal(size=(40, 5)) * np.arange(1, 6)
        X[X < -1] = 0.0
        expected = 1.0 / X.var(axis=0).sum()
        for rows in (X, sparse.csr_array(X), np.asfortranarray(X)):
            assert_allclose(module.spread_gamma(rows), expected, rtol=1e-12)
            counts = np.arange(40) % 3
            repeated = np.repeat(X, counts, axis=0)
            assert_allclose(module.spread_gamma(rows, counts), 1.0 / repeated.var(axis=0).sum(), rtol=1e-12)
        centred = X - X.mean(axis=0)
        assert_allclose(module.spread_gamma(X), module.scale_gamma(centred), rtol=1e-12)
        assert_allclose(module.spread_gamma(X.astype(np.float32)), expected, rtol=1e-6)

    def test_moving_a_column_changes_nothing(self):
        """A column of years left the others nothing to say."""
        X = np.random.default_rng(0).normal(size=(60, 3))
        for far in (200.0, 1e6):
            moved = X + np.array([0, 0, far])
            for rows in (moved, sparse.csr_array(moved)):
                assert_allclose(module.spread_gamma(rows), module.spread_gamma(X), rtol=1e-6)
        beside = np.c_[X, np.full(60, 1e18)]
        for rows in (beside, sparse.csr_array(beside)):
            assert_allclose(module.spread_gamma(rows), module.spread_gamma(X), rtol=1e-9)
        y = X[:, 0] ** 2 + X[:, 1] ** 2 < 1
        for gamma in ("spread", "loo"):
            svm, moved = KernelSVM(gamma=gamma, tol=1e-10), sparse.csr_array(X + 200.0)
            scores = svm.fit(X, y).decision_function(X)
            assert_allclose(svm.fit(moved, y).decision_function(moved), scores, atol=1e-5)


@pytest.mark.parametrize("cost", [1e6, 1e8])
def test_sparse_rows_far_from_zero_have_the_gap_of_dense_ones(cost):
    """Distances were wrong by 1e-10, which C = 1e8 made 2 % of P, with a gap of a hundredth of that."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 20)) + 1000, np.where(np.arange(50) % 6 == 0, 1, -1)
    model = KernelSVM(cost, gamma=0.05, fit_intercept=False).fit(sparse.csr_array(X), y)
    moved = (X - X.mean(axis=0)).astype(np.longdouble)
    distances = ((moved[:, None] - moved[model.support_][None]) ** 2).sum(-1)
    beta = model.dual_coef_[0]
    scores = np.exp(-0.05 * distances) @ beta
    exact = float(beta @ scores[model.support_] / 2 + cost * np.maximum(0, 1 - y * scores).sum())
    assert abs(exact - model.objective_) <= model.dual_gap_


def test_linear_weights_are_summed_once(monkeypatch):
    """One row's score took as long as all support vectors."""
    X, y = load_breast_cancer(return_X_y=True)
    model = KernelSVM(kernel="linear").fit(scale(X), y)
    monkeypatch.setattr(module.Kernel, "weights", lambda *_: pytest.fail("summed again"))
    scores = model.decision_function(scale(X))
    assert_allclose(scores, scale(X) @ model.coef_[0] + model.intercept_[0], atol=1e-9)
    monkeypatch.undo()
    assert not hasattr(model.set_params(kernel="rbf").fit(scale(X), y), "_weights")


def test_kernel_values_that_overflow_are_refused_in_words():
    X, y = np.array([[1e3, 2.0], [0.0, 1.0], [3.0, -1e3], [1.0, 1.0]]), [0, 1, 0, 1]
    with pytest.raises(ValueError, match=r"finite kernel values k\(x, x\), got an overflow: scale the features first"):
        KernelSVM(kernel="poly", degree=60, gamma=1.0).fit(X, y)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("cost, status", [(1e3, "converged"), (1e9, "converged"), (1e11, "max_iter")])
def test_the_gap_allows_for_the_rounding_of_scores(cost, status, fit_intercept):
    """With C = 1e9 it was 1.388e-5, that of the same dual point in longer numbers 1.423e-5."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 30)), np.where(rng.random(200) < 0.1, 1, -1)
    X[:, 0] += 4 * y
    svm = KernelSVM(cost, gamma=0.03, fit_intercept=fit_intercept, cache_bytes=2**24)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svm.fit(X, y)
    exact, beta = X.astype(np.longdouble), full_beta(svm, 200).astype(np.longdouble)
    scores = (np.exp(np.longdouble(-0.03) * np.square(exact[:, None] - exact).sum(axis=2)) + fit_intercept) @ beta
    objective = beta @ scores / 2 + cost * np.maximum(0, 1 - y * scores).sum()
    assert svm.dual_gap_ >= float(objective - (np.abs(beta).sum() - beta @ scores / 2)) > 0.0
    assert svm.status_ == status


def test_steps_go_on_until_the_gap_with_its_rounding_is_met(monkeypatch):
    """It ended where the gap alone was met, and was then told to have met nothing."""
    X, y = moons()
    plain = KernelSVM(gamma=1.0, tol=1e-2).fit(X, y)
    rounding = 1e-2 * plain.objective_ - 0.5 * plain.dual_gap_
    monkeypatch.setattr(module.Dual, "rounding_of_losses", lambda self, scores, constant: rounding)
    svm = KernelSVM(gamma=1.0, tol=1e-2).fit(X, y)
    assert svm.status_ == "converged" and svm.n_iter_ > plain.n_iter_
    assert rounding < svm.dual_gap_ <= 1e-2 * svm.objective_


@pytest.mark.parametrize("degree", range(1, 13))
def test_powers_are_those_of_numpy(degree):
    values = 3.0 * np.random.default_rng(0).normal(size=1000)
    raised = values.copy()
    module._raise_to(degree, raised)
    assert_allclose(raised, values**degree, rtol=1e-14)


@pytest.mark.parametrize("kernels", [("linear", "rbf"), ("rbf", "linear"), ("poly", "linear"), ("linear", "poly")])
def test_a_fitted_model_answers_as_before_when_another_kernel_is_set(kernels):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    model = KernelSVM(kernel=kernels[0]).fit(X, X[:, 0] > 0.5)
    scores, has_weights = model.decision_function(X), hasattr(model, "coef_")
    model.set_params(kernel=kernels[1])
    assert_array_equal(model.decision_function(X), scores)
    assert has_weights == hasattr(model, "coef_") == (kernels[0] == "linear") != hasattr(model, "gamma_")
