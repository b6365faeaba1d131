"""LSSVM against numpy's solution of the normal equations over enumerated pairs."""

import pickle
import tracemalloc
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from imblearn.pipeline import Pipeline
from imblearn.under_sampling import RandomUnderSampler
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import _gram
from aucsolvers import pairwise_square as module
from aucsolvers.metrics import auc, pairwise_square_gradient, pairwise_square_objective
from aucsolvers.pairwise_square import LSSVM


def overlapping(n_pos=8, n_neg=21, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, -1], [n_pos, n_neg])
    return rng.normal(size=(n_pos + n_neg, d)) + 0.5 * (y[:, None] > 0) + 2.0, y


def differences(X, y):
    """The difference of every pair."""
    return (X[y > 0][:, None, :] - X[y <= 0][None, :, :]).reshape(-1, X.shape[1])


def enumerated_optimum(X, y, lam):
    """Ridge regression of 1 on every pair's difference: (Z'Z/k + lam I) w = Z'1/k."""
    Z = differences(X, y)
    return np.linalg.solve(Z.T @ Z / len(Z) + lam * np.eye(X.shape[1]), Z.mean(axis=0))


@parametrize_with_checks([LSSVM(), LSSVM(solver="cg")])
def test_obeys_scikit_learns_contract(estimator, check):
    check(estimator)


class TestOptimum:
    @pytest.mark.parametrize("solver", ["cholesky", "cg"])
    @pytest.mark.parametrize("lam", [1.0, 1e-2, 1e-4])
    def test_is_that_of_least_squares_over_all_pairs(self, solver, lam):
        X, y = overlapping()
        model = LSSVM(lam=lam, solver=solver, tol=1e-20).fit(X, y)
        expected = enumerated_optimum(X, y, lam)
        np.testing.assert_allclose(model.coef_.ravel(), expected, rtol=1e-6)
        assert model.objective_ == pytest.approx(pairwise_square_objective(expected, X, y, lam), rel=1e-12)

    def test_solves_the_equations_of_the_class_moments(self):
        X, y = overlapping()
        pos, neg = X[y > 0], X[y < 0]
        b = neg.mean(axis=0) - pos.mean(axis=0)
        system = np.cov(pos.T, bias=True) + np.cov(neg.T, bias=True) + np.outer(b, b) + 0.1 * np.eye(5)
        np.testing.assert_allclose(LSSVM(lam=0.1).fit(X, y).coef_.ravel(), np.linalg.solve(system, -b), rtol=1e-9)

    def test_more_features_than_rows(self):
        X, y = overlapping(d=60)
        model = LSSVM(lam=1e-2).fit(X, y)
        assert model.status_ == "converged"
        # Q(w) - min Q is a square; the difference of the two values would be their last digits, of either sign
        w = model.coef_.ravel()
        rest = w - enumerated_optimum(X, y, 1e-2)
        assert 0.5 * ((differences(X, y) @ rest) ** 2).mean() + 0.5e-2 * rest @ rest <= 1e-10
        assert model.objective_ == pytest.approx(pairwise_square_objective(w, X, y, 1e-2), rel=1e-12)

    @pytest.mark.parametrize("lam", [1.0, 1e-6])
    def test_wide_data_take_some_n_iterations_whatever_the_scales(self, lam):
        # the Hessian has at most n eigenvalues other than lam, and conjugate gradients need one step for each
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(50, 500)) * 10 ** rng.uniform(-2, 2, 500), np.repeat([1, -1], [10, 40])
        model = LSSVM(lam=lam, solver="cg").fit(X, y)
        assert (model.status_, model.n_iter_ < 100) == ("converged", True)

    def test_ranks_digits(self):
        X, y = load_digits(return_X_y=True)
        model = LSSVM().fit(X / 16, y == 8)
        assert model.n_iter_ == 1 and auc(y == 8, model.decision_function(X / 16)) > 0.97


def matrix_of_rows(X, y):
    """A: centred rows, each over the root of its class's size, and the difference of the class means."""
    X = X.toarray() if sparse.issparse(X) else X
    X, A = X.astype(float), np.empty((len(y) + 1, X.shape[1]))
    for rows in (y > 0, y <= 0):
        A[:-1][rows] = (X[rows] - X[rows].mean(axis=0)) / np.sqrt(rows.sum())
    A[-1] = X[y <= 0].mean(axis=0) - X[y > 0].mean(axis=0)
    return A


def unlike(n=60, d=300, seed=0):
    """Wide rows of features of unlike scales, with three entries in ten."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-2, 2, size=d) * (rng.random((n, d)) < 0.3)
    return X, np.where(np.arange(n) % 4 == 0, 1, -1)


FORMS = pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_matrix])


class TestWide:
    """More features than rows: conjugate gradients for a while, then the system of the rows' products."""

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_the_system_is_that_of_the_centred_rows(self, form, dtype, monkeypatch):
        monkeypatch.setattr(module, "COLUMNS", 128)  # three blocks
        X, y = unlike()
        X, A = X.astype(dtype), matrix_of_rows(X.astype(dtype), y)
        system, expected = module.row_system(form(X), y > 0, 0.5), A @ A.T + 0.5 * np.eye(61)
        np.testing.assert_allclose(np.tril(system), np.tril(expected), rtol=1e-9, atol=1e-12 * np.abs(expected).max())

    def test_products_with_the_centred_rows_are_sums_and_scores_of_the_rows(self):
        X, y = unlike()
        A, (v, w) = matrix_of_rows(X, y), (np.random.default_rng(1).normal(size=size) for size in (61, 300))
        weights = module._weights_of_rows(v, y > 0)
        np.testing.assert_allclose(X.T @ weights, A.T @ v, atol=1e-10)
        assert abs(weights.sum()) < 1e-12
        np.testing.assert_allclose(module._scores_in_system(X @ w + 7.0, y > 0), A @ w, atol=1e-10)

    @FORMS
    @pytest.mark.parametrize("lam", [1.0, 1e-2, 1e-4])
    def test_is_the_optimum_over_all_pairs(self, form, lam):
        X, y = unlike()
        model, expected = LSSVM(lam, tol=1e-14).fit(form(X), y), enumerated_optimum(X, y, lam)
        assert model.status_ == "converged" and model.n_iter_ < 20
        np.testing.assert_allclose(model.coef_.ravel(), expected, rtol=1e-5, atol=1e-7 * np.abs(expected).max())
        assert model.objective_ == pytest.approx(pairwise_square_objective(expected, X, y, lam), rel=1e-8)
        assert model.history_["updates"].tolist() == list(range(model.n_iter_ + 1))

    @FORMS
    def test_is_exact_where_hundreds_of_conjugate_gradients_are_not(self, form):
        rng = np.random.default_rng(0)
        X, y = rng.lognormal(size=(300, 1200)) * np.exp(2.0 * rng.normal(size=1200)), np.arange(300) % 5 == 0
        with pytest.warns(ConvergenceWarning):
            assert LSSVM(solver="cg", max_iter=500).fit(form(X), y).dual_gap_ > 1e-9
        model = LSSVM().fit(form(X), y)
        assert model.status_ == "converged" and model.n_iter_ < 100
        factored = LSSVM(solver="cholesky").fit(X, y)  # the system of the features
        assert model.objective_ == pytest.approx(factored.objective_, rel=1e-9)

    @pytest.mark.parametrize("lam", [1e-1, 1e-3])
    def test_few_conjugate_gradients_stay_the_faster_way(self, lam):
        """A strong direction or two: they are there before sparse rows are multiplied."""
        rng = np.random.default_rng(0)
        X, y = sparse.random_array((1500, 4000), density=0.02, format="csr", rng=rng), np.arange(1500) % 4 == 0
        usual, gradients = LSSVM(lam).fit(X, y), LSSVM(lam, solver="cg").fit(X, y)
        assert usual.n_iter_ == gradients.n_iter_
        np.testing.assert_array_equal(usual.coef_, gradients.coef_)

    def test_what_products_of_sparse_rows_lose_far_from_zero_is_put_right_from_the_rows(self):
        X, y = unlike()
        X[:, :100] += 1e4  # not centred before they are multiplied: rounding is 1e-8
        model = LSSVM(1e-3, tol=1e-13).fit(sparse.csr_array(X), y)
        assert model.status_ == "converged"
        assert model.objective_ == pytest.approx(LSSVM(1e-3, tol=1e-15).fit(X, y).objective_, rel=1e-9)

    def test_gives_way_where_rounding_hides_lam(self, caplog):
        X, y = unlike()
        X[:, :100] += 1e8
        with caplog.at_level("INFO", logger=module.__name__), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model, gradients = (LSSVM(1e-9, solver=way).fit(sparse.csr_array(X), y) for way in ("auto", "cg"))
        assert "instead of cholesky" in caplog.text
        np.testing.assert_array_equal(model.coef_, gradients.coef_)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("case", ["low rank", "copies", "copies of both classes"])
    @pytest.mark.parametrize("scale", [1.0, 1000.0])
    def test_rows_without_a_rank_of_their_own_are_solved_too(self, case, scale, form):
        """v is of the size of 1/lam there: what cancels in A'v left a certificate as large as the objective."""
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(120, 600)), rng.random(120) < 0.3
        if case == "low rank":
            X = rng.normal(size=(120, 20)) @ rng.normal(size=(20, 600))
        else:
            X, y = (np.repeat(rows[:40], 3, axis=0) for rows in (X, y))
        y = rng.random(120) < 0.3 if case == "copies of both classes" else y
        model, gradients = (LSSVM(1e-4, solver=solver).fit(form(scale * X), y) for solver in ("auto", "cg"))
        assert model.status_ == gradients.status_ == "converged"
        assert model.objective_ == pytest.approx(gradients.objective_, abs=2e-10)

    def test_a_fit_that_is_to_be_short_is_not_followed_by_a_long_factorisation(self, monkeypatch):
        monkeypatch.setattr(module, "row_system", None)
        rng = np.random.default_rng(0)
        X, y = sparse.random_array((2000, 3000), density=0.003, format="csr", rng=rng), np.arange(2000) % 4 == 0
        with pytest.warns(ConvergenceWarning):
            assert LSSVM(1e-6, max_iter=3).fit(X, y).n_iter_ == 3

    def test_the_clock_goes_on_where_conjugate_gradients_begin_again(self, monkeypatch):
        solve, begun = module.solve_by_conjugate_gradients, []

        def noted(*given):
            begun.append(given[-1])
            return solve(*given)

        monkeypatch.setattr(module, "solve_by_conjugate_gradients", noted)
        X, y = unlike()
        X[:, :100] += 1e8
        with pytest.warns(ConvergenceWarning):
            LSSVM(1e-9).fit(sparse.csr_array(X), y)
        first, second = begun
        assert first is not second and first._started == second._started

    def test_of_too_many_rows_no_products_are_made(self, monkeypatch):
        monkeypatch.setattr(module, "MOST_ROWS", 59)
        X, y = unlike()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model, gradients = LSSVM().fit(X, y), LSSVM(solver="cg").fit(X, y)
        np.testing.assert_array_equal(model.coef_, gradients.coef_)

    def test_no_copy_of_the_rows_is_made(self):
        X = np.random.default_rng(0).lognormal(size=(40, 50_000), sigma=3.0).astype(np.float32)
        y = np.arange(40) % 4 == 0
        LSSVM().fit(X, y)  # compiles
        tracemalloc.start()
        try:
            model = LSSVM().fit(X, y)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        # vectors of features in float64 are a twentieth of it each; a copy would take all of it, or twice that
        assert model.status_ == "converged" and peak < X.nbytes


class TestCertificate:
    def test_bounds_the_suboptimality_at_every_iteration(self):
        X, y = overlapping()
        history = LSSVM(lam=1e-2, solver="cg", tol=1e-18).fit(X, y).history_
        optimum = pairwise_square_objective(enumerated_optimum(X, y, 1e-2), X, y, 1e-2)
        assert np.all(history["dual_gap"] >= history["objective"] - optimum - 1e-15)
        assert (history["updates"][0], history["objective"][0], history["auc"][0]) == (0, 0.5, 0.5)
        # conjugate gradients lower the objective at each step
        assert np.all(np.diff(history["objective"]) <= 1e-15)

    def test_is_the_gradients_norm(self):
        X, y = overlapping()
        model = LSSVM(lam=1e-2, solver="cg", tol=1e-2).fit(X, y)
        assert model.dual_gap_ > 1e-6
        gradient = pairwise_square_gradient(model.coef_.ravel(), X, y, 1e-2)
        assert model.gradient_norm_ == pytest.approx(np.linalg.norm(gradient), rel=1e-6, abs=0.0)
        assert model.dual_gap_ == pytest.approx(gradient @ gradient / (2 * 1e-2), rel=1e-6, abs=0.0)

    def test_warns_when_it_is_not_met(self):
        X, y = overlapping()
        with pytest.warns(ConvergenceWarning, match="Raise max_iter, raise tol, or raise lam"):
            model = LSSVM(solver="cg", max_iter=1).fit(X, y)
        assert (model.status_, model.n_iter_) == ("max_iter", 1)


class TestMoments:
    """The class moments, read once in blocks, against numpy's and against sums in longer arithmetic."""

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("rows", ["mixed", "one class after the other"])
    @pytest.mark.parametrize("block_rows", [8, 40, 120])  # of 81: the last block has one row, or there is but one block
    @pytest.mark.parametrize("d", [1, 2, 5, 6, 7])  # with two indicators, every remainder of the products by fours
    def test_are_those_of_numpy(self, dtype, rows, block_rows, d, monkeypatch):
        monkeypatch.setattr(_gram, "NARROW_ROWS", block_rows)
        X, y = overlapping(30, 51, d)
        places = np.random.default_rng(1).permutation(81) if rows == "mixed" else np.arange(81)
        X, positive = X[places].astype(dtype), y[places] > 0
        moments = module.class_moments(X, positive)
        neg, pos = (X[mask].astype(np.float64) for mask in (~positive, positive))
        np.testing.assert_allclose(moments.means + moments.centre, [neg.mean(axis=0), pos.mean(axis=0)], rtol=1e-14)
        expected = np.atleast_2d(np.cov(neg.T, bias=True) + np.cov(pos.T, bias=True))
        np.testing.assert_allclose(np.triu(moments.spread), np.triu(expected), rtol=1e-12, atol=1e-14)

    @pytest.mark.parametrize("d", [40, 200])
    def test_of_many_features(self, d):
        X, y = overlapping(300, 900, d)
        spread = module.class_moments(X, y > 0).spread
        expected = sum(np.cov(X[mask].T, bias=True) for mask in (y > 0, y < 0))
        np.testing.assert_allclose(np.triu(spread), np.triu(expected), rtol=1e-12, atol=1e-13)

    def test_do_not_lose_a_small_spread_far_from_the_origin(self):
        X, y = overlapping(300, 500, 3)
        far = X + 2.0**30  # exact but for the last 22 bits
        near = far - 2.0**30
        moments = [module.class_moments(data, y > 0).spread for data in (near, far)]
        np.testing.assert_allclose(np.triu(moments[1]), np.triu(moments[0]), rtol=1e-12)

    @pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
    @pytest.mark.parametrize("lam", [1e-8, 1e-3])
    def test_the_bound_is_above_the_certificate_in_longer_arithmetic(self, scale, lam):
        X, y = overlapping(200, 300, 6)
        X = scale * X * np.logspace(0, 3, 6)
        pos, neg = (X[mask].astype(np.longdouble) for mask in (y > 0, y < 0))
        moments = module.class_moments(X, y > 0)
        hessian = moments.hessian(lam)
        w = -np.linalg.solve(np.triu(hessian) + np.triu(hessian, 1).T, moments.b)
        s_pos, s_neg = pos @ w, neg @ w
        slope = pos.T @ (s_pos - s_neg.mean() - 1) / len(pos) + neg.T @ (s_neg - s_pos.mean() + 1) / len(neg)
        gradient = lam * w + slope
        exact, bound = float(gradient @ gradient) / (2 * lam), moments.gap_bound(hessian, w, lam)
        assert exact <= bound
        # and it tells a w that is off by much more than rounding from the solution
        assert moments.gap_bound(hessian, 0.9 * w, lam) < 1.01 * float((0.1 * moments.b) @ (0.1 * moments.b)) / (
            2 * lam
        )

    def test_the_rows_are_asked_where_the_bound_is_too_wide(self, monkeypatch):
        X, y = overlapping()
        tight = LSSVM(lam=1e-2, tol=1e-28).fit(X, y)
        monkeypatch.setattr(module.Moments, "gap_bound", lambda *_: np.inf)
        by_rows = LSSVM(lam=1e-2).fit(X, y)
        assert by_rows.status_ == tight.status_ == "converged"
        np.testing.assert_allclose(by_rows.coef_, tight.coef_, rtol=1e-12)
        gradient = pairwise_square_gradient(by_rows.coef_.ravel(), X, y, 1e-2)
        assert by_rows.dual_gap_ == pytest.approx(gradient @ gradient / 2e-2, abs=1e-27)


class TestStorage:
    @pytest.mark.parametrize("solver", ["cholesky", "cg"])
    def test_float32_is_read_as_it_is(self, solver):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(40_000, 30)).astype(np.float32), np.arange(40_000) % 9 == 0
        X += y[:, None]
        LSSVM(solver=solver).fit(X[:20_000], y[:20_000])  # compiles, also what sorts more than 2,000 positives
        tracemalloc.start()
        single = LSSVM(solver=solver).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 8 * X.size / 2  # a float64 copy would take twice that
        double = LSSVM(solver=solver).fit(X.astype(np.float64), y)
        np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-5 if solver == "cg" else 1e-12)

    @pytest.mark.parametrize("labels", [(-1, 1), (0.0, 1.0), (False, True), (2, 7), ("no", "yes")])
    def test_arrays_taken_as_they_are_and_converted_ones_give_the_same(self, labels):
        X, y = overlapping()
        y = np.array(labels)[(y > 0).astype(int)]
        plain = LSSVM().fit(X, y)
        for other in (X.tolist(), np.asfortranarray(X), pd.DataFrame(X, columns=list("abcde"))):
            converted = LSSVM().fit(other, y.tolist())
            np.testing.assert_array_equal(converted.coef_, plain.coef_)
            np.testing.assert_array_equal(converted.classes_, plain.classes_)
        # names of columns are those of the last fit
        assert list(converted.feature_names_in_) == list("abcde")
        assert not hasattr(converted.fit(X, y), "feature_names_in_") and converted.n_features_in_ == 5
        with pytest.raises(ValueError, match="X has 4 features, but LSSVM is expecting 5"):
            plain.predict(X[:, :4])

    @pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
    def test_labels_that_are_no_numbers_are_refused(self, wrong):
        X, y = overlapping()
        with pytest.raises(ValueError, match="NaN" if np.isnan(wrong) else "infinity"):
            LSSVM().fit(X, np.where(y > 0, 1.0, wrong))

    def test_float32_in_sparse_rows(self):
        X, y = overlapping(40, 60)
        X = (X * (np.random.default_rng(1).random(X.shape) < 0.3)).astype(np.float32)
        dense, thin = (LSSVM(lam=1e-2, tol=1e-16).fit(data, y) for data in (X, sparse.csr_array(X)))
        np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-6)

    @pytest.mark.parametrize("container", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
    def test_sparse_and_dense_are_one(self, container):
        X, y = overlapping(40, 60)
        X = X * (np.random.default_rng(1).random(X.shape) < 0.3)
        dense, thin = (LSSVM(lam=1e-2, tol=1e-16).fit(data, y) for data in (X, container(X)))
        np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-6)
        np.testing.assert_array_equal(thin.predict(X), dense.predict(X))

    def test_sparse_is_never_made_dense(self):
        # 200,000 columns: a d x d matrix would need 298 GiB, a dense X 1.5 GiB
        X = sparse.random_array((1000, 200_000), density=1e-4, format="csr", rng=np.random.default_rng(0))
        assert LSSVM(lam=1e-2).fit(X, np.arange(1000) % 7 == 0).status_ == "converged"

    def test_few_features_are_factored_however_few_the_rows(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(30, 60)) * 10.0 ** rng.integers(-3, 4, size=60)
        assert LSSVM().fit(X, np.arange(30) % 4 == 0).n_iter_ == 1

    def test_cholesky_of_too_many_features_is_refused_before_memory_is_asked_for(self):
        with pytest.raises(ValueError, match=r"at most 16384 features .* got 16385: .* Use solver='cg' or 'auto'"):
            LSSVM(solver="cholesky").fit(np.eye(4, 16_385), [0, 1, 0, 1])

    def test_cholesky_refuses_sparse(self):
        with pytest.raises(ValueError, match="Expected dense X for solver='cholesky', got a sparse matrix"):
            LSSVM(solver="cholesky").fit(sparse.csr_array(np.eye(3)), [0, 1, 1])

    def test_works_in_a_pipeline_a_search_and_a_pickle(self):
        X, y = load_breast_cancer(return_X_y=True)
        steps = [("scale", StandardScaler()), ("sample", RandomUnderSampler(random_state=0)), ("model", LSSVM())]
        search = GridSearchCV(Pipeline(steps), {"model__lam": [1e-1, 1e-3]}, scoring="roc_auc", cv=3).fit(X, y)
        assert search.best_score_ > 0.98
        again = pickle.loads(pickle.dumps(search.best_estimator_))
        np.testing.assert_array_equal(again.decision_function(X), search.decision_function(X))
        assert clone(LSSVM(lam=3.0)).lam == 3.0


class TestDegenerate:
    @pytest.mark.parametrize("solver", ["cholesky", "cg"])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("place", [0, 2500])  # also where the centre is not taken from
    def test_values_that_are_no_numbers_are_refused(self, solver, dtype, wrong, place):
        X, y = overlapping(1000, 2000, 3)
        X = X.astype(dtype)
        X[place + 1, 2] = wrong
        with pytest.raises(ValueError, match="NaN" if np.isnan(wrong) else "infinity"):
            LSSVM(solver=solver).fit(X, y)

    @pytest.mark.parametrize("solver", ["cholesky", "cg"])
    def test_squares_that_overflow_are_refused(self, solver):
        X, y = overlapping(1000, 2000, 3)
        X[1, 2] = 1e153
        with pytest.raises(ValueError, match="squared norms overflow"):
            LSSVM(solver=solver).fit(X, y)
        X[1, 2] = 1e300  # its square does
        with pytest.raises(ValueError, match="squared norms overflow"):
            LSSVM(solver=solver).fit(X, y)

    CASES = {
        "one positive": ([[1.0, 2.0], [0.0, 1.0], [0.5, 0.0]], [1, 0, 0]),
        "zero matrix": (np.zeros((5, 2)), [1, 1, 0, 0, 0]),
        "constant feature": ([[1.0, 7.0], [0.0, 7.0], [0.5, 7.0]], [1, 0, 1]),
        "equal columns": (np.ones((1, 3)) * [[1.0], [0.0], [0.5]], [1, 0, 1]),
        "separable": ([[3.0], [2.0], [-1.0], [-2.0]], [1, 1, 0, 0]),
        "huge": (1e100 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
        "tiny": (1e-200 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
    }

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("case", CASES)
    @pytest.mark.parametrize("solver", ["cholesky", "cg"])
    def test_result_is_finite(self, solver, case):
        X, y = self.CASES[case]
        model = LSSVM(solver=solver).fit(X, y)
        assert np.all(np.isfinite(model.coef_)) and np.isfinite(model.dual_gap_)
        assert 0 <= model.objective_ <= 0.5

    @pytest.mark.parametrize("solver", ["cholesky", "cg"])
    @pytest.mark.parametrize(("size", "lam"), [(1e-7, 1e-3), (1.0, 1e12)])
    def test_ranks_even_where_zero_is_within_tol(self, solver, size, lam):
        # Q(0) - min Q <= ||b||^2/(2 lam) < tol = 1e-10: w = 0 would be certified, and rank nothing
        X, y = overlapping()
        assert auc(y, LSSVM(lam=lam, solver=solver).fit(size * X, y).decision_function(size * X)) > 0.7

    def test_far_from_the_origin(self):
        X, y = load_breast_cancer(return_X_y=True)
        near, far = (LSSVM().fit(scale(X) + shift, y).coef_ for shift in (0.0, 1e6))
        np.testing.assert_allclose(far, near, rtol=1e-6)

    def test_cholesky_gives_way_where_rounding_hides_lam(self, caplog):
        # two equal columns of size 1e6: the Hessian is singular but for lam, and 1e12 + 1e-9 rounds to 1e12
        X, y = np.outer([1.0, 0.0, 0.5, 0.2], [1e6, 1e6]), np.array([1, -1, 1, -1])
        with caplog.at_level("INFO", logger=module.__name__):
            model = LSSVM(lam=1e-9).fit(X, y)
        assert "instead of cholesky" in caplog.text and model.status_ == "converged"
        assert model.coef_[0, 0] == pytest.approx(model.coef_[0, 1])

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"lam": -1.0}, "Expected lam"),
            ({"lam": np.inf}, "Expected lam"),
            ({"solver": "svd"}, "Expected solver to be one of 'auto', 'cholesky', 'cg', got 'svd'"),
            ({"tol": np.nan}, "Expected tol"),
            ({"max_iter": 0}, "Expected max_iter"),
        ],
    )
    def test_parameters_are_checked(self, parameters, message):
        with pytest.raises(ValueError, match=message):
            LSSVM(**parameters).fit([[1.0], [0.0]], [1, 0])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", ["auto", "cg"])
@pytest.mark.parametrize("scale", [1e3, 1e6, 1e9, 1e12])
def test_a_certificate_allows_for_the_rounding_of_scores_and_sums(scale, solver):
    """The optimum of the two coordinates in fractions. Rows of 1e12 had gaps 50 times too small, and "converged"."""
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X, y = scale * rng.normal(size=(12, 1)) * rng.normal(size=(1, 2)), np.arange(12) < 3
        lam = 10.0 ** rng.integers(-6, 1)
        model = LSSVM(lam, solver=solver).fit(X, y)
        Z = [[Fraction(a) - Fraction(b) for a, b in zip(i, j, strict=True)] for i in X[y] for j in X[~y]]
        (a, b), c = ([sum(z[k] * z[f] for z in Z) / len(Z) for f in range(2)] for k in range(2))
        a, c, r = a + Fraction(lam), c[1] + Fraction(lam), [sum(z[f] for z in Z) / len(Z) for f in range(2)]
        best = (1 - (c * r[0] ** 2 - 2 * b * r[0] * r[1] + a * r[1] ** 2) / (a * c - b * b)) / 2
        w = [Fraction(value) for value in model.coef_.ravel()]
        loss = sum((1 - w[0] * z[0] - w[1] * z[1]) ** 2 for z in Z) / (2 * len(Z))
        assert Fraction(lam) / 2 * (w[0] ** 2 + w[1] ** 2) + loss - best <= model.dual_gap_


@pytest.mark.parametrize("lam", [1e-6, 1e-2, 1.0])
@pytest.mark.parametrize("offset", [1e7, 1e8, 1.6e9, 1e12, 1e17, 1e18])
def test_sparse_rows_far_from_zero_never_end_above_the_start(offset, lam):
    """Rounding leaves conjugate gradients nothing to work with; the least objective seen is what is published."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 5))
    y = X[:, 0] + rng.normal(size=120) > 0.6
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LSSVM(lam).fit(sparse.csr_array(X + offset), y)
    assert model.objective_ <= 0.5 + 1e-9
    assert model.status_ == "converged" or model.dual_gap_ > model.tol
    assert model.dual_gap_ >= model.objective_ - LSSVM(lam).fit(X + offset, y).objective_ - 1e-9
    history = model.history_
    assert (history["objective"][-1], history["dual_gap"][-1]) == (model.objective_, model.dual_gap_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", range(1, 60, 7))
def test_the_history_ends_with_what_is_published_also_where_that_is_an_earlier_point(max_iter):
    X = sparse.csr_array(np.random.default_rng(0).normal(size=(60, 3)) + 1e5)
    model = LSSVM(1e-6, max_iter=max_iter).fit(X, np.arange(60) % 5 == 0)
    ends = [model.history_[name][-1] for name in ("objective", "dual_gap")]
    assert ends == [model.objective_, model.dual_gap_]


@pytest.mark.parametrize("offset", [1e5, 1e10, 1e14])
def test_the_objective_of_dense_rows_is_right_far_from_zero(offset):
    """Scores of rows as they are would round to 1e-16 of the offset: the objective came out below its least."""
    X, y = overlapping()
    X = X + offset
    model, difference = LSSVM().fit(X, y), (X[y > 0][:, None] - X[y < 0]).reshape(-1, X.shape[1])
    w = model.coef_.ravel()
    expected = 0.5 * model.lam * w @ w + 0.5 * np.mean((1.0 - difference @ w) ** 2)
    np.testing.assert_allclose(model.objective_, expected, rtol=1e-11)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_one_huge_column_ends_in_a_status():
    X, y = overlapping()
    model = LSSVM().fit(X * np.append(np.ones(X.shape[1] - 1), 1e120), y)
    assert model.status_ in ("converged", "max_iter") and 0.0 <= model.objective_ <= 0.5


def test_what_is_lost_of_small_squares_is_within_the_rounding_that_is_allowed_for():
    """Squares of a quarter of the last digit of the sum before them: each is lost, all to one side."""
    n = 480
    X = np.where(np.arange(n) < 16, 1.0, 2.0**-27) * np.where(np.arange(n) // 2 % 2, 1.0, -1.0)
    X, positive = X[:, None], np.arange(n) % 2 == 0
    moments = module.class_moments(X, positive)
    exact = np.longdouble(0)
    for mask in (positive, ~positive):
        rows = X[mask, 0].astype(np.longdouble)
        exact += ((rows - rows.mean()) ** 2).mean()
    error = abs(float(np.longdouble(moments.spread[0, 0]) - exact))
    assert 0.0 < error <= moments.rounding * moments.size**2


def test_a_certificate_says_no_less_than_that_no_loss_is_negative():
    """Sparse, wide rows of features of unlike scales, cut short: the gradient alone claimed 1e5 times the objective."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 900)) * 10.0 ** rng.uniform(-3, 3, size=900) * (rng.random((400, 900)) < 0.1)
    y, lam = rng.random(400) < 0.1, 1e-3
    with pytest.warns(ConvergenceWarning):
        model = LSSVM(lam, solver="cg", max_iter=50).fit(sparse.csr_array(X), y)
    norm = np.linalg.norm(pairwise_square_gradient(model.coef_.ravel(), X, y, lam))
    assert norm**2 / (2 * lam) > 10 * model.objective_
    assert model.dual_gap_ == model.objective_ and model.gradient_norm_ == pytest.approx(norm, rel=1e-6)
    assert np.all(model.history_["dual_gap"] <= model.history_["objective"])
