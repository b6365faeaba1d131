"""AUCSDCD and AUCMSGD: kernels against slow twins, optima against a foreign solver, certificates against the truth."""

import pickle
import tracemalloc
from fractions import Fraction
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from imblearn.pipeline import Pipeline
from imblearn.under_sampling import RandomUnderSampler
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import pairwise_hinge as module
from aucsolvers._pairwise import split_classes
from aucsolvers._rows import as_rows
from aucsolvers.metrics import auc, auc_of_classes, mean_pair_hinge, pairwise_hinge_objective
from aucsolvers.ordinal import SVMOR
from aucsolvers.pairwise_hinge import AUCMSGD, AUCSDCD, epoch_visits

SOLVERS = [AUCSDCD, AUCMSGD]
ORDERS = ["permutation", "random"]


def small(n_pos=6, n_neg=11, d=3, seed=0):
    """Overlapping classes, with zeros and, from each class, one identical row (a pair with z = 0)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_pos + n_neg, d)) * (rng.random((n_pos + n_neg, d)) < 0.7)
    y = np.repeat([1.0, -1.0], [n_pos, n_neg])
    X[:n_pos] += 0.4 * (X[:n_pos] != 0)
    X[n_pos] = X[0]
    return X, y


def with_long_indices(X):
    X = sparse.csr_array(X)
    return sparse.csr_array((X.data, X.indices.astype(np.int64), X.indptr.astype(np.int64)), shape=X.shape)


def unsorted(X):
    X = sparse.csr_array(X)
    order = np.concatenate([np.arange(*ends)[::-1] for ends in pairwise(X.indptr)])
    return sparse.csr_array((X.data[order], X.indices[order], X.indptr), shape=X.shape)


def pair_differences(X, y):
    return (X[y > 0][:, None, :] - X[y < 0][None, :, :]).reshape(-1, X.shape[1])


def in_lines(alpha):
    """The dual variables as the solver keeps them, slowly: by blocks of 8 positives, and in each by diagonals."""
    n_pos, n_neg = alpha.shape
    blocks = [range(first, min(first + 8, n_pos)) for first in range(0, n_pos, 8)]
    return np.array([alpha[i, (i + line) % n_neg] for block in blocks for line in range(n_neg) for i in block])


def foreign_optimum(X, y, lam):
    """min P from the dual over explicitly enumerated pairs, by L-BFGS-B: no line shared with the solvers."""
    Z = pair_differences(X, y)
    k = len(Z)

    def negative_dual(alpha):
        w = Z.T @ alpha / (lam * k)
        return lam / 2 * w @ w - alpha.mean(), (Z @ w - 1) / k

    options = {"maxiter": 20_000, "maxfun": 50_000, "ftol": 1e-15, "gtol": 1e-10}
    found = minimize(negative_dual, np.full(k, 0.5), jac=True, bounds=[(0, 1)] * k, method="L-BFGS-B", options=options)
    return -found.fun


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, np.where(y == 8, 1, -1)


@parametrize_with_checks([AUCSDCD(), AUCSDCD(order="random"), AUCMSGD(), AUCMSGD(order="random", max_iter=20)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_obeys_scikit_learns_contract(estimator, check):
    check(estimator)


class TestKernels:
    """The compiled sweeps and plain Python loops, given the same visits, agree to 1e-12."""

    @staticmethod
    def visits(X, y, order):
        generator = np.random.default_rng(3)
        shape = np.sum(y > 0), np.sum(y < 0)
        chunks = [chunk for _ in range(3) for chunk in epoch_visits(order, *shape, generator)]
        return tuple(np.concatenate(side) for side in zip(*chunks, strict=True))

    @staticmethod
    def clipped_step(old, margin, z, scaled_lam):
        return 1.0 if not z.any() else np.clip(old + scaled_lam * (1 - margin) / (z @ z), 0, 1)

    def dual_twin(self, X, y, rows, columns, lam):
        pos, neg = X[y > 0], X[y < 0]
        alpha, w = np.zeros((len(pos), len(neg))), np.zeros(X.shape[1])
        for i, j in zip(rows, columns, strict=True):
            z = pos[i] - neg[j]
            new = self.clipped_step(alpha[i, j], z @ w, z, lam * alpha.size)
            w += (new - alpha[i, j]) * z / (lam * alpha.size)
            alpha[i, j] = new
        return w, alpha

    def gradient_twin(self, X, y, rows, columns, lam):
        """Algorithm 3 as printed: w itself, shrunk at every update."""
        pos, neg = X[y > 0], X[y < 0]
        w, total = np.zeros(X.shape[1]), 0.0
        for t, (i, j) in enumerate(zip(rows, columns, strict=True), start=1):
            z = pos[i] - neg[j]
            a = self.clipped_step(0.0, z @ w, z, lam * t)
            w = (1 - 1 / t) * w + a * z / (lam * t)
            total += a
        return w, total

    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("n_visits", [198, 197])  # dense rows are visited in twos
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("lam", [1e-3, 1e-1])
    def test_dual_sweep(self, storage, dtype, n_visits, order, lam):
        X, y = small()
        X = X.astype(dtype).astype(np.float64)
        rows, columns, pairs = (side[:n_visits] for side in self.visits(X, y, order))
        pos, neg = split_classes(storage(X.astype(dtype)), y)
        alpha, w = np.zeros(pos.shape[0] * neg.shape[0]), np.zeros(pos.shape[1])
        sweep = module._bind(module._dual_sweep_dense, module._dual_sweep_sparse, pos, neg)
        change = sweep(rows, columns, pairs, alpha, w, lam * alpha.size)
        expected_w, expected_alpha = self.dual_twin(X, y, rows, columns, lam)
        np.testing.assert_allclose(w[: X.shape[1]], expected_w, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(alpha, in_lines(expected_alpha), rtol=0, atol=1e-12)
        assert change == pytest.approx(alpha.sum(), rel=1e-12)

    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("lam", [1e-3, 1e-1])
    def test_gradient_sweep(self, storage, dtype, order, lam):
        X, y = small()
        X = X.astype(dtype).astype(np.float64)
        rows, columns, _ = self.visits(X, y, order)
        pos, neg = split_classes(storage(X.astype(dtype)), y)
        step_sum = np.zeros(pos.shape[1])
        sweep = partial(module._gradient_sweep, as_rows(pos), as_rows(neg))
        # in two calls: t and the sum are carried over
        total = sweep(rows[:50], columns[:50], 0, 0.0, step_sum, lam)
        total = sweep(rows[50:], columns[50:], 50, total, step_sum, lam)
        expected_w, expected_total = self.gradient_twin(X, y, rows, columns, lam)
        np.testing.assert_allclose(step_sum[: X.shape[1]] / (lam * len(rows)), expected_w, rtol=1e-12, atol=1e-12)
        assert total == pytest.approx(expected_total, rel=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("arrange", [np.ascontiguousarray, np.asfortranarray, lambda X: X[:, ::-1]])
@pytest.mark.parametrize(("d", "width"), [(5, 5), (16, 16), (15, 16)])
def test_the_classes_are_blocks_of_cache_lines(arrange, dtype, d, width, monkeypatch):
    monkeypatch.setattr("aucsolvers._pairwise.COPIED", 4)  # of 9 and 14 rows
    X, y = small(9, 14, d)
    X = arrange(X.astype(dtype))
    for block, label in zip(split_classes(X, y), (1.0, -1.0), strict=True):
        assert block.dtype == dtype and block.flags.c_contiguous and block.ctypes.data % 64 == 0
        np.testing.assert_array_equal(block[:, :d], X[y == label])
        assert block.shape[1] == width and not block[:, d:].any()


@pytest.mark.parametrize("solver", SOLVERS)
def test_columns_of_zeros_behind_leave_no_trace(solver, monkeypatch):
    X, y = small(20, 50, 22)
    model = solver(lam=1e-2, tol=0.0, max_iter=5, random_state=0).fit(X, y)
    monkeypatch.setattr("aucsolvers._pairwise.width_in_lines", lambda X: X.shape[1])
    alone = clone(model).fit(X, y)
    assert model.coef_.shape == (1, 22)
    np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-9)
    np.testing.assert_allclose(model.objective_, alone.objective_, rtol=1e-12)


class TestOrderOfVisits:
    @staticmethod
    def permutation(n_pos, n_neg, **options):
        return epoch_visits("permutation", n_pos, n_neg, np.random.default_rng(0), **options)

    @settings(deadline=None)
    @given(
        st.integers(1, 40),
        st.integers(1, 40),
        st.integers(0, 2**32 - 1),
        st.sets(st.integers(1, 50)),
        st.integers(1, 50),
    )
    def test_a_permutation_visits_each_pair_once(self, n_pos, n_neg, seed, points, band):
        k = n_pos * n_neg
        points = {point for point in points if point < k}
        chunks = list(epoch_visits("permutation", n_pos, n_neg, np.random.default_rng(seed), points, band))
        pairs = np.concatenate([rows.astype(int) * n_neg + columns for rows, columns, _ in chunks])
        assert sorted(pairs) == list(range(k))
        assert points <= set(np.cumsum([len(rows) for rows, *_ in chunks]).tolist())

    @pytest.mark.parametrize("order", ORDERS)
    @settings(deadline=None)
    @given(n_pos=st.integers(1, 40), n_neg=st.integers(1, 40), seed=st.integers(0, 2**32 - 1))
    def test_a_visit_knows_the_place_of_its_dual_variable(self, order, n_pos, n_neg, seed):
        visits = epoch_visits(order, n_pos, n_neg, np.random.default_rng(seed))
        rows, columns, places = (np.concatenate(side) for side in zip(*visits, strict=True))
        named = in_lines(np.arange(n_pos * n_neg).reshape(n_pos, n_neg))
        np.testing.assert_array_equal(named[places], rows.astype(int) * n_neg + columns)

    @pytest.mark.parametrize("order", ORDERS)
    def test_places_are_right_beyond_31_bits(self, order):
        n_pos, n_neg = 60_003, 50_001
        rows, columns, places = next(epoch_visits(order, n_pos, n_neg, np.random.default_rng(0)))
        block, line = rows.astype(int) // 8 * 8, (columns.astype(int) - rows) % n_neg
        np.testing.assert_array_equal(places, block * n_neg + line * np.minimum(8, n_pos - block) + rows % 8)

    @pytest.mark.parametrize("n_neg", [3, 8, 15, 23, 500])
    def test_many_positives_meet_few_negatives_evenly_and_out_of_step(self, n_neg):
        """Every two rounds; and neighbouring blocks of positives do not go round the same negatives together."""
        in_step = []
        for seed in range(20):
            columns = next(epoch_visits("permutation", 1000, n_neg, np.random.default_rng(seed)))[1][:2000]
            share = np.bincount(columns[:1000], minlength=n_neg) * n_neg / 1000
            assert n_neg > 100 or 0.5 < share.min() <= share.max() < 1.5
            in_step.append(np.mean(columns[:992:16] == columns[8:1000:16]))
        assert np.mean(in_step) < 1.5 / n_neg

    def test_dual_variables_that_are_visited_in_turn_lie_side_by_side(self):
        """Each cache line is fetched once a round, for eight visits."""
        *_, places = (np.concatenate(side) for side in zip(*self.permutation(64, 203), strict=True))
        lines = places.reshape(-1, 8)
        np.testing.assert_array_equal(lines, 8 * (lines[:, :1] // 8) + np.arange(8))

    def test_a_permutation_crosses_chunks(self, monkeypatch):
        monkeypatch.setattr(module, "CHUNK", 7)
        assert len({visit for chunk in self.permutation(9, 13) for visit in zip(*map(list, chunk), strict=True)}) == 117

    def test_rounds_are_held_to_a_band_of_rows_and_all_rows_are_met_early(self):
        rows, columns, _ = np.hstack(list(self.permutation(64, 200, band=16)))
        for start in range(0, 64 * 200, 32):
            visits = slice(start, start + 32)
            assert len(set(rows[visits].tolist())) == 16 and len(set(columns[visits].tolist())) <= 18
        # what a tile by tile order would lack: every positive within the first two rounds
        assert np.all(np.bincount(rows[: 2 * 64]) == 2)

    def test_looking_at_the_first_epoch_does_not_change_it(self):
        points = module._first_epoch_points(281_001)
        assert all(point % 2 == 0 and 0 < point < 281_001 for point in points) and len(points) == 10

    def test_each_epoch_has_an_order_of_its_own(self):
        generator = np.random.default_rng(0)
        first, *others = (np.hstack(list(epoch_visits("permutation", 20, 30, generator)))[:2] for _ in range(20))
        assert np.mean([np.all(first == other, axis=0) for other in others]) < 0.05

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("solver", SOLVERS)
    def test_both_classes_come_in_an_order_drawn_once(self, solver, monkeypatch):
        X, y = small(30, 60)
        X[:, 0], seen = np.arange(90), []
        monkeypatch.setattr(module, "split_classes", lambda *data: seen.extend(split_classes(*data)) or seen)
        solver(tol=0.0, max_iter=1, random_state=0).fit(X, y)
        for block, chosen in zip(seen, (y > 0, y < 0), strict=True):
            assert sorted(block[:, 0]) == X[chosen, 0].tolist() != block[:, 0].tolist()

    def test_a_band_is_whole_blocks(self):
        """256 KiB of positives and negatives of 37 numbers each: 442.8."""
        assert module._rows_in_band(np.ones((100, 37)), np.ones((100, 37))) == 440

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_neighbours_in_the_data_are_no_neighbours_in_the_visits(self):
        """Copies of a row side by side, visited in turn, cost epochs: rows come in an order drawn once."""
        X, y = small(30, 60)
        X, y = np.repeat(X, 8, axis=0), np.repeat(y, 8)
        shuffled = np.random.default_rng(0).permutation(len(y))
        gaps = [
            np.mean([AUCSDCD(lam=1e-3, tol=0.0, max_iter=4, random_state=s).fit(*data).dual_gap_ for s in range(5)])
            for data in ((X, y), (X[shuffled], y[shuffled]))
        ]
        assert gaps[0] < 1.5 * gaps[1]

    def test_draws_are_uniform_over_more_pairs_than_15_bits_can_name(self):
        # 2 x 40,000 pairs; counts in 40 equal cells are chi-square distributed with 39 degrees of freedom
        rows, columns, _ = np.hstack(list(epoch_visits("random", 2, 40_000, np.random.default_rng(0))))
        cells = np.bincount((rows.astype(int) * 40_000 + columns) // 2000, minlength=40)
        expected = 80_000 / 40
        assert np.sum((cells - expected) ** 2 / expected) < 72.1  # the 99.9 % point


class TestCertificate:
    @settings(deadline=None)
    @given(
        st.lists(st.integers(-6, 6), min_size=1, max_size=12),
        st.lists(st.integers(-6, 6), min_size=1, max_size=12),
        st.sampled_from([0.0, 2.0**40]),
    )
    def test_loss_and_auc_from_one_sort(self, positives, negatives, shift):
        """Halves: many ties, and many margins of exactly 1. Either class may be the smaller one."""
        s_pos, s_neg = 0.5 * np.array(positives) + shift, 0.5 * np.array(negatives) + shift
        hinge, area = module._hinge_and_auc(s_pos, s_neg)
        assert hinge == pytest.approx(mean_pair_hinge(s_pos - shift, s_neg - shift), rel=1e-12, abs=1e-15)
        assert area == pytest.approx(auc_of_classes(s_pos, s_neg), abs=1e-15)

    @pytest.mark.parametrize("shape", [(1, 1), (1, 9), (9, 1), (8, 8), (8, 3), (16, 7), (100, 6), (30, 70), (64, 1000)])
    def test_sums_of_the_dual_variables(self, shape):
        alpha = np.random.default_rng(0).random(shape)
        of_pos, of_neg = np.zeros((2, shape[0])), np.zeros((2, shape[1]))
        module._add_sums(in_lines(alpha), of_pos, of_neg)
        for (main, rest), axis in ((of_pos, 1), (of_neg, 0)):
            exact = (alpha * 2.0**60).astype(np.int64).astype(object).sum(axis=axis)  # of numbers below 1: no rounding
            assert (main * 2.0**26 == np.round(main * 2.0**26)).all()
            np.testing.assert_array_less(abs(rest), 2.0**-26 * max(shape))
            left = [Fraction(m) + Fraction(r) - Fraction(e, 2**60) for m, r, e in zip(main, rest, exact, strict=True)]
            assert max(map(abs, left)) <= 1e-21 * max(shape)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_w_is_that_of_exact_arithmetic_though_nearly_all_of_it_cancels(self, form):
        """Pairs of equal rows have a dual variable of 1, others of some 1e-12, and features are 1e8."""
        rng = np.random.default_rng(0)
        pos = 1e8 * rng.normal(size=(9, 3))
        neg = np.vstack([pos[:5], 1e8 * rng.normal(size=(6, 3))])
        alpha = 1e-12 * rng.random((9, 11))
        alpha[range(5), range(5)] = 1.0
        w, total = module._primal_of(in_lines(alpha), form(pos), form(neg), 1.0)
        weights, x, z = map(np.vectorize(Fraction), (alpha, pos, neg))
        exact = (weights.sum(axis=1) @ x - weights.sum(axis=0) @ z) / 99
        np.testing.assert_allclose(w[:3], exact.astype(float), rtol=1e-12)
        assert total == pytest.approx(float(weights.sum()), rel=1e-15)
        assert total > 5.0


class TestOptimum:
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("lam", [1e-1, 1e-2])
    def test_dual_coordinate_descent_reaches_the_foreign_optimum(self, lam, order):
        X, y = small()
        model = AUCSDCD(lam=lam, order=order, tol=1e-9, max_iter=5000, random_state=0).fit(X, y)
        optimum = foreign_optimum(X, y, lam)
        assert model.status_ == "converged"
        assert model.objective_ == pytest.approx(optimum, abs=1e-6)
        assert pairwise_hinge_objective(model.coef_.ravel(), X, y, lam) == pytest.approx(model.objective_, rel=1e-13)

    def test_modified_gradient_descent_nears_it(self):
        X, y = small()
        model = AUCMSGD(lam=1e-1, tol=1e-4, max_iter=20_000, random_state=0).fit(X, y)
        assert model.objective_ == pytest.approx(foreign_optimum(X, y, 1e-1), abs=1e-4)

    @pytest.mark.parametrize("solver", SOLVERS)
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("lam", [1.0, 1e-2, 1e-4])
    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_the_gap_is_never_below_the_true_suboptimality(self, solver, order, lam):
        X, y = small(seed=4)
        history = solver(lam=lam, order=order, tol=0, max_iter=10, random_state=1).fit(X, y).history_
        exact = AUCSDCD(lam=lam, tol=1e-11, max_iter=100_000, random_state=0).fit(X, y)
        suboptimality = history["objective"] - exact.objective_
        assert np.all(history["dual_gap"] >= suboptimality - 1e-12)
        # at w = 0: P = 1, and alpha = 0 is feasible with D = 0
        assert history["objective"][0] == 1.0 and history["dual_gap"][0] <= 1.0

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_the_gap_holds_in_the_middle_of_an_epoch(self):
        # a first visit to the pair with z = 0 gives a = 1: taken as if all pairs had it, D = 1 > min P
        X, y, lam = np.array([[0.0], [3.0], [0.0], [1.0]]), np.array([1, 1, 0, 0]), 1.0
        optimum = foreign_optimum(X, np.where(y, 1, -1), lam)
        for seed in range(20):
            history = AUCMSGD(lam=lam, tol=0, max_iter=3, random_state=seed).fit(X, y).history_
            assert np.all(history["objective"] - history["dual_gap"] <= optimum + 1e-12)

    def test_digits_within_15_epochs(self, digits):
        model = AUCSDCD(lam=1e-3, tol=4e-7, max_iter=15, random_state=0).fit(*digits)
        assert model.dual_gap_ / model.objective_ < 1e-5
        assert model.history_["auc"][-1] == pytest.approx(auc(digits[1], model.decision_function(digits[0])), abs=1e-9)

    @pytest.mark.parametrize("order", ORDERS)
    def test_one_epoch_is_enough_to_rank(self, digits, order):
        X, y = digits
        for solver in SOLVERS:
            with pytest.warns(ConvergenceWarning, match="Raise max_iter, raise tol, or raise lam"):
                model = solver(lam=1e-3, order=order, max_iter=1, tol=0, random_state=0).fit(X, y)
            assert auc(y, model.decision_function(X)) > 0.96

    @pytest.mark.parametrize("solver", SOLVERS)
    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize(("size", "lam"), [(1e-7, 1e-3), (1.0, 1e6)])
    def test_ranks_even_where_zero_is_within_tol(self, digits, solver, order, size, lam):
        # P(0) - min P <= ||dP(0)||^2/(2 lam) < tol = 1e-3: w = 0 would be certified, and rank nothing
        X, y = digits
        model = solver(lam=lam, order=order, random_state=0).fit(size * X, y)
        assert (model.status_, model.n_iter_ >= 1) == ("converged", True)
        assert auc(y, model.decision_function(size * X)) > 0.8

    def test_identical_rows_do_not_hold_the_gap_open(self):
        # every positive has a twin among the negatives: 2 of 6 pairs have z = 0
        X, y = [[0.0], [1.0], [0.0], [1.0], [5.0]], [1, 1, 0, 0, 0]
        model = AUCSDCD(lam=1e-2, tol=1e-10, random_state=0).fit(X, y)
        assert model.status_ == "converged"

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_defaults_converge_on_standardised_data(self, solver):
        X, y = load_breast_cancer(return_X_y=True)
        model = solver(random_state=0).fit(scale(X), y == 0)
        assert (model.status_, model.dual_gap_ <= 1e-3) == ("converged", True)


class TestEstimators:
    @pytest.mark.parametrize("solver", SOLVERS)
    @pytest.mark.parametrize("index_type", [np.int32, np.int64])
    def test_sparse_and_dense_are_one(self, solver, index_type):
        X, y = small(20, 50, 6)
        stored = sparse.csr_array(X)
        stored.indices, stored.indptr = stored.indices.astype(index_type), stored.indptr.astype(index_type)
        dense, thin = (solver(lam=1e-2, tol=1e-2, random_state=0).fit(data, y) for data in (X, stored))
        np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-9)
        np.testing.assert_array_equal(thin.predict(stored), dense.predict(X))

    @pytest.mark.parametrize("solver", SOLVERS)
    @pytest.mark.parametrize("scale, lam", [(1e6, 1e-6), (1e8, 1e-8)])
    def test_rows_of_both_classes_move_nothing_in_any_storage(self, solver, scale, lam):
        """Equal rows have a dual variable of 1, which may be 1e20 times the others; one column is the same in all."""
        X, y = small(8, 30, 5)
        X[:3], X[:, 2] = X[-3:], 1.0
        dense, thin = (
            solver(lam, tol=0.0, max_iter=2, random_state=0).fit(form(scale * X), y)
            for form in (np.asarray, sparse.csr_array)
        )
        np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-9, atol=1e-12 * abs(dense.coef_).max())
        # features in other units: the same problem
        scaled = solver(lam / scale**2, tol=0.0, max_iter=2, random_state=0).fit(X, y)
        np.testing.assert_allclose(dense.objective_, scaled.objective_, rtol=1e-9)

    def test_unsorted_and_repeated_columns_are_understood_and_left_alone(self):
        # row 0 is (2, 3) written as 3 at column 1, then 1 + 1 at column 0
        data, cols, ptr = [3.0, 1.0, 1.0, 1.0, -1.0], [1, 0, 0, 0, 1], [0, 3, 4, 5]
        X, y = sparse.csr_array((data, cols, ptr), shape=(3, 2)), [1, 0, 0]
        model = AUCSDCD(lam=0.1, random_state=0).fit(X, y)
        np.testing.assert_allclose(model.coef_, AUCSDCD(lam=0.1, random_state=0).fit(X.toarray(), y).coef_, rtol=1e-12)
        assert X.nnz == 5 and X.indices.tolist() == cols

    @pytest.mark.parametrize("solver", SOLVERS)
    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
    def test_float32_is_taken_as_it_is(self, solver, storage, monkeypatch):
        X, y = small(20, 50, 6)
        X = X.astype(np.float32)
        seen = []
        monkeypatch.setattr(module, "split_classes", lambda *data: seen.extend(split_classes(*data)) or seen)
        single = solver(lam=1e-2, tol=1e-2, random_state=0).fit(storage(X), y)
        assert [block.dtype for block in seen] == [np.float32] * 2
        monkeypatch.undo()
        double = solver(lam=1e-2, tol=1e-2, random_state=0).fit(storage(X.astype(np.float64)), y)
        assert single.coef_.dtype == np.float64
        np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-9)

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_history_tells_the_story(self, solver, digits):
        history = solver(lam=1e-2, random_state=0).fit(*digits).history_
        k = 174 * 1623
        within = history["updates"][history["updates"] < k]
        assert history["updates"][0] == 0 and len(within) == 11 and k in history["updates"]
        assert (history["objective"][0], history["auc"][0]) == (1.0, 0.5)
        assert np.all(np.diff(history["time_s"]) > 0) and np.all(history["dual_gap"] >= 0)
        assert len({len(column) for column in history.values()}) == 1

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_equal_seeds_give_equal_bits(self, solver):
        X, y = small(20, 30)
        for seed in (7, np.random.RandomState(7), np.random.default_rng(7)):
            model = solver(lam=0.1, tol=1e-2, random_state=seed)
            twin = clone(model)  # clones, not shares, a generator
            np.testing.assert_array_equal(model.fit(X, y).coef_, twin.fit(X, y).coef_)
        assert np.any(solver(lam=0.1, tol=1e-2, random_state=8).fit(X, y).coef_ != model.coef_)

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_works_in_a_pipeline_a_search_and_a_pickle(self, solver):
        X, y = load_breast_cancer(return_X_y=True)
        steps = [("scale", StandardScaler()), ("sample", RandomUnderSampler(random_state=0)), ("model", solver())]
        search = GridSearchCV(Pipeline(steps), {"model__lam": [1e-1, 1e-2]}, scoring="roc_auc", cv=3)
        search.set_params(estimator__model__random_state=0).fit(X, y)
        assert search.best_score_ > 0.98
        again = pickle.loads(pickle.dumps(search.best_estimator_))
        np.testing.assert_array_equal(again.decision_function(X), search.decision_function(X))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
class TestGoingOn:
    @pytest.mark.parametrize("order", ["permutation", "random"])
    def test_warm_start_in_two_halves_equals_one_run(self, order):
        X, y = small(20, 30)
        options = {"lam": 1e-3, "tol": 0, "random_state": 0, "order": order}
        whole = AUCSDCD(max_iter=10, **options).fit(X, y)
        halves = AUCSDCD(max_iter=5, warm_start=True, **options).fit(X, y).fit(X, y)
        np.testing.assert_array_equal(halves.coef_, whole.coef_)

    def test_warm_start_after_convergence_needs_no_epoch(self):
        X, y = small(20, 30)
        model = AUCSDCD(lam=1e-2, tol=1e-6, max_iter=1000, warm_start=True, random_state=0).fit(X, y)
        epochs = model.n_iter_
        assert epochs > 5 and model.fit(X, y).n_iter_ == 0
        # w = w(alpha) is recomputed for the new lam, so the first gap is that of a feasible pair, not 1
        model.set_params(lam=1.1e-2).fit(X, y)
        assert model.n_iter_ < epochs and model.history_["dual_gap"][0] < 0.05

    def test_warm_start_with_other_class_sizes_starts_cold(self):
        X, y = small(20, 30)
        options = {"lam": 1e-2, "random_state": 0}
        model = AUCSDCD(warm_start=True, **options).fit(X[1:], y[1:]).fit(X, y)
        np.testing.assert_array_equal(model.coef_, AUCSDCD(**options).fit(X, y).coef_)

    def test_dual_variables_are_kept_only_on_request(self):
        X, y = small(20, 30)
        assert len(pickle.dumps(AUCSDCD(lam=0.1).fit(X, y))) < 8 * 600

    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("order", ORDERS)
    def test_gradient_steps_go_on_where_they_ended(self, order, storage):
        X, y = small(20, 30)
        whole = AUCMSGD(order=order, tol=0.0, max_iter=6, random_state=0).fit(storage(X), y)
        model = AUCMSGD(order=order, tol=0.0, max_iter=2, random_state=0, warm_start=True).fit(storage(X), y)
        model = pickle.loads(pickle.dumps(model)).set_params(max_iter=4).fit(storage(X), y)
        np.testing.assert_array_equal(model.coef_, whole.coef_)
        assert (model.dual_gap_, model.n_iter_) == (whole.dual_gap_, 4)
        assert model.set_params(tol=10.0).fit(storage(X), y).n_iter_ == 0

    @pytest.mark.parametrize("solver", SOLVERS)
    @pytest.mark.parametrize("order", ORDERS)
    def test_a_fit_that_was_interrupted_leaves_a_start_as_good_as_the_last_ones(self, order, solver, monkeypatch):
        """Its steps were added to the sum of those before, and not to their number: P rose from 9e-6 to 0.8 above."""
        X, y = small(20, 30)
        model = solver(1e-2, order=order, tol=0.0, max_iter=2, random_state=0, warm_start=True).fit(X, y)
        before, visits, epochs = model.objective_, module.epoch_visits, iter(range(20))

        def interrupted(*given):
            yield from visits(*given)
            if next(epochs) == 19:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(module, "epoch_visits", interrupted)
            model.set_params(max_iter=100).fit(X, y)
        model.set_params(max_iter=1).fit(X, y)
        assert model.history_["objective"][0] <= before + 1e-3

    @pytest.mark.parametrize("order", ORDERS)
    def test_gradient_steps_of_other_rows_or_another_order_are_no_start(self, order):
        """Their sum would stand for dual variables of these rows, and certify what it does not know."""
        X, y = small(20, 30)
        options = {"tol": 0.0, "max_iter": 3, "random_state": 0}
        other = ORDERS[1 - ORDERS.index(order)]
        for first in ((AUCMSGD(order=order, warm_start=True, **options), X[::-1]),
                      (AUCMSGD(order=other, warm_start=True, **options), X)):  # fmt: skip
            model = first[0].fit(first[1], y).set_params(order=order).fit(X, y)
            cold = AUCMSGD(order=order, **options).fit(X, y)
            np.testing.assert_array_equal(model.coef_, cold.coef_)
            assert model.dual_gap_ == cold.dual_gap_

    @pytest.mark.parametrize(
        ("first", "then"),
        [
            (np.asarray, np.float32),
            (sparse.csr_array, lambda X: sparse.csr_array(X.astype("f4"))),
            (sparse.csr_array, with_long_indices),
            (sparse.csr_array, unsorted),
            (sparse.csr_array, lambda X: sparse.csr_array(X + 1j * X).real),  # every second number of an array
        ],
    )
    def test_gradient_steps_go_on_with_the_same_rows_stored_as_other_types(self, first, then):
        """They began anew without a word, and the work so far was lost."""
        X, y = small(20, 30)
        X = X.astype(np.float32).astype(np.float64)  # numbers that either type has
        model = AUCMSGD(tol=0.0, max_iter=2, random_state=0, warm_start=True).fit(first(X), y)
        again = pickle.loads(pickle.dumps(model)).fit(first(X), y)
        model.fit(then(X), y)
        assert model.history_["updates"][-1] == 4 * 600
        np.testing.assert_allclose(model.coef_, again.coef_, rtol=1e-9)

    @pytest.mark.parametrize("order", ORDERS)
    @pytest.mark.parametrize("factor", [0.5, 2.0])
    def test_gradient_steps_with_another_lam_are_certified_for_it(self, order, factor):
        X, y = small(20, 30)
        model = AUCMSGD(1e-2, order=order, tol=1e-2, max_iter=400, random_state=0, warm_start=True).fit(X, y)
        model.set_params(lam=factor * 1e-2).fit(X, y)
        best = SVMOR(factor * 1e-2, tol=1e-10).fit(X, y).objective_
        assert -1e-9 <= model.objective_ - best <= model.dual_gap_ + 1e-12


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("solver", SOLVERS)
class TestDegenerate:
    CASES = {
        "one positive": ([[1.0, 2.0], [0.0, 1.0], [0.5, 0.0]], [1, 0, 0]),
        "zero matrix": (np.zeros((5, 2)), [1, 1, 0, 0, 0]),
        "constant feature": ([[1.0, 7.0], [0.0, 7.0], [0.5, 7.0]], [1, 0, 1]),
        "duplicate rows": ([[1.0], [1.0], [1.0], [0.0]], [1, 1, 0, 0]),
        "separable": ([[3.0], [2.0], [-1.0], [-2.0]], [1, 1, 0, 0]),
        "wide": (np.random.default_rng(0).normal(size=(4, 50)), [1, 0, 0, 1]),
        "huge": (1e100 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
        "tiny": (1e-200 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
    }

    @pytest.mark.parametrize("case", CASES)
    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
    def test_result_is_finite_and_certified(self, solver, storage, case):
        X, y = self.CASES[case]
        model = solver(random_state=0).fit(storage(X), y)
        assert np.all(np.isfinite(model.coef_)) and np.all(np.isfinite(model.intercept_))
        assert 0 <= model.dual_gap_ <= 1 and 0 <= model.objective_ < np.inf

    def test_overflow_is_refused(self, solver):
        with pytest.raises(ValueError, match="Rescale the features"):
            solver().fit([[1e200], [0.0]], [1, 0])

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"lam": 0}, "Expected lam to be a finite number > 0, got 0"),
            ({"lam": np.nan}, "Expected lam"),
            ({"lam": 5e-324}, "Expected lam of 2.3e-308 or more"),
            ({"lam": "1"}, "Expected lam"),
            ({"tol": -1.0}, "Expected tol"),
            ({"max_iter": 0}, "Expected max_iter to be an integer >= 1, got 0"),
            ({"max_iter": 2.5}, "Expected max_iter"),
            ({"order": "cyclic"}, "Expected order to be one of 'permutation', 'random', got 'cyclic'"),
        ],
    )
    def test_parameters_are_checked(self, solver, parameters, message):
        with pytest.raises(ValueError, match=message):
            solver(**parameters).fit([[1.0], [0.0]], [1, 0])


def test_too_many_pairs_are_refused_before_allocation():
    y = np.repeat([1, 0], [10, 100])
    with pytest.raises(ValueError, match=r"10 x 100 = 1000 pairs, which need 8000 bytes.*SVMOR.*LSSVM"):
        AUCSDCD(max_bytes=7999).fit(np.zeros((110, 1)), y)
    assert AUCSDCD(max_bytes=8000).fit(np.zeros((110, 1)), y).objective_ == 1.0


@pytest.mark.parametrize("order", ["random", "permutation"])
def test_an_epoch_of_any_number_of_pairs_begins_at_once(order):
    """A list of where its chunks end took 1.2 GB of 10^12 pairs."""
    tracemalloc.start()
    try:
        rows, columns, _ = next(epoch_visits(order, 10**6, 10**6, np.random.default_rng(0)))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(rows) == len(columns) == module.CHUNK and peak < 64 * 2**20


def test_rows_that_differ_by_where_they_end_alone_are_other_rows():
    """Same entries, same columns: of the first row here, of the second there."""
    y = np.array([1, 0, 1, 0])
    one = sparse.csr_array(([1.0, 2.0, 3.0, 1.0], [0, 1, 0, 1], [0, 2, 3, 4, 4]), shape=(4, 2))
    other = sparse.csr_array(([1.0, 2.0, 3.0, 1.0], [0, 1, 0, 1], [0, 1, 3, 3, 4]), shape=(4, 2))
    assert module._fingerprint(one, y) != module._fingerprint(other, y)


def test_random_draws_meet_the_first_and_the_last_row_of_either_class():
    rows, columns, _ = np.hstack(
        list(epoch_visits("random", 7, 11, np.random.default_rng(0)))
        + list(epoch_visits("random", 7, 11, np.random.default_rng(1)))
    )
    assert set(rows.tolist()) == set(range(7)) and set(columns.tolist()) == set(range(11))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_dual_variables_of_as_many_pairs_but_other_classes_start_cold():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(13, 3))
    first, second = np.arange(13) < 4, np.arange(13) < 9  # 4 x 9 and 9 x 4 pairs
    model = AUCSDCD(0.1, warm_start=True, random_state=0).fit(X, first).fit(X, second)
    np.testing.assert_array_equal(model.coef_, AUCSDCD(0.1, random_state=0).fit(X, second).coef_)
