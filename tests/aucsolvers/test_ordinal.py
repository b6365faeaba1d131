"""SVMOR: kernels against enumerated pairs, optima against foreign solvers, certificates against the truth."""

import pickle
import tracemalloc
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import ordinal as module
from aucsolvers._free_pairs import LEAST_TAKEN, FreePairs
from aucsolvers._ranking import ascending, bucket_grid
from aucsolvers._rows import squared_norms
from aucsolvers.metrics import auc, pairwise_hinge_gradient, pairwise_hinge_objective, pairwise_square_objective
from aucsolvers.ordinal import SVMOR, cutting_planes, newton
from aucsolvers.pairwise_hinge import AUCSDCD
from aucsolvers.pairwise_square import LSSVM

METHODS = ["newton", "cutting_plane"]
LOSSES = ["hinge", "squared_hinge"]
STORAGES = [np.asarray, sparse.csr_array]
EACH = [SVMOR(method=method, loss=loss) for method in METHODS for loss in LOSSES]


def small(n_pos=6, n_neg=11, d=3, seed=0):
    """Overlapping classes, with zeros and, from each class, one identical row (a pair with z = 0)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_pos + n_neg, d)) * (rng.random((n_pos + n_neg, d)) < 0.7)
    y = np.repeat([1.0, -1.0], [n_pos, n_neg])
    X[:n_pos] += 0.4 * (X[:n_pos] != 0)
    X[n_pos] = X[0]
    return X, y


def far_apart():
    """More features than rows: any labels can be told apart with every margin beyond 1."""
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 200)), np.where(rng.random(60) < 0.3, 1.0, -1.0)


def pair_differences(X, y):
    return (X[y > 0][:, None, :] - X[y < 0][None, :, :]).reshape(-1, X.shape[1])


def enumerated_objective(w, X, y, lam, loss):
    u = np.maximum(0.0, 1.0 - pair_differences(X, y) @ w)
    return lam / 2 * w @ w + (u.mean() if loss == "hinge" else (u * u).mean() / 2)


def foreign_hinge_optimum(X, y, lam):
    """min P by LIBSVM on the enumerated pairs; with each z also as -z of the other class, its intercept is 0."""
    Z = pair_differences(X, y)
    machine = SVC(kernel="linear", C=1 / (2 * lam * len(Z)), tol=1e-12)
    machine.fit(np.r_[Z, -Z], np.repeat([1, -1], len(Z)))
    return enumerated_objective(machine.coef_.ravel(), X, y, lam, "hinge")


def foreign_squared_optimum(X, y, lam):
    """min P of the squared hinge from the enumerated primal, which is differentiable, by L-BFGS."""
    Z = pair_differences(X, y)

    def primal(w):
        u = np.maximum(0.0, 1.0 - Z @ w)
        return lam / 2 * w @ w + (u * u).mean() / 2, lam * w - Z.T @ u / len(Z)

    options = {"maxiter": 10_000, "ftol": 1e-16, "gtol": 1e-12}
    return minimize(primal, np.zeros(X.shape[1]), jac=True, method="L-BFGS-B", options=options).fun


def foreign_optimum(X, y, lam, loss):
    return (foreign_hinge_optimum if loss == "hinge" else foreign_squared_optimum)(X, y, lam)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16.0, np.where(y == 8, 1, -1)


@parametrize_with_checks(EACH)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_obeys_scikit_learns_contract(estimator, check):
    check(estimator)


def problem_differences(problem):
    """Return z of all pairs, by the few and the many."""
    few, many = (rows.toarray() if sparse.issparse(rows) else rows for rows in (problem.few, problem.many))
    return few[:, None, :] - many[None, :, :]


class PairTwin:
    """What the sorted sums stand for, pair by pair, with the rows in their own order."""

    def __init__(self, problem, point):
        self.z = problem_differences(problem)
        self.k = self.z.shape[0] * self.z.shape[1]
        u, width = 1.0 - self.z @ point.w, point.width
        if problem.squared:
            self.slopes, self.inside, self.steep = np.maximum(0.0, u), u > 0.0, 1.0
            self.loss = (self.slopes**2).mean() / 2
        else:
            self.slopes = np.clip((u + width) / (2 * width), 0.0, 1.0)
            self.inside, self.steep = (-width < u) & (u < width), 0.5 / width
            self.loss = np.maximum(0.0, u).mean()
        self.smooth_gradient = problem.lam * point.w - np.einsum("ij,ijf->f", self.slopes, self.z) / self.k
        z = self.z[self.inside]
        self.hessian = problem.lam * np.eye(len(point.w)) + self.steep / self.k * z.T @ z


class TestSumsOverPairs:
    @staticmethod
    def pose(seed, storage, loss, n_pos=9, n_neg=14):
        X, y = small(n_pos, n_neg, 4, seed)
        return module._pose(storage(X), y, 0.01, loss)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("sizes", [(9, 14), (14, 9), (1, 5), (5, 1)])
    @pytest.mark.parametrize("width", [2.0, 0.2, 1e-3])
    def test_a_point_is_its_enumeration(self, loss, storage, sizes, width):
        problem = self.pose(1, storage, loss, *sizes)
        point = problem.look(np.array([0.5, -0.3, 0.8, 0.1]), width)
        twin = PairTwin(problem, point)
        np.testing.assert_allclose(point.band.of_few, twin.slopes.sum(axis=1), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(point.band.of_many, twin.slopes.sum(axis=0), rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(point.gradient, twin.smooth_gradient, rtol=1e-12, atol=1e-12)
        assert point.band.loss == pytest.approx(twin.loss, rel=1e-12)
        if loss == "hinge":
            np.testing.assert_array_equal(point.band.last - point.band.first, twin.inside.sum(axis=0))
            np.testing.assert_array_equal(point.band.members, twin.inside.sum(axis=1)[point.band.order])
        hessian = np.tril(module._hessian(problem, point.band, twin.steep / problem.k, 100))
        np.testing.assert_allclose(hessian, np.tril(twin.hessian), rtol=1e-12, atol=1e-12 * twin.steep)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("storage", STORAGES)
    def test_three_ways_to_solve_newtons_system(self, loss, storage, monkeypatch):
        monkeypatch.setattr(module, "CG_ACCURACY", 1e-12)
        problem = self.pose(2, storage, loss)
        point = problem.look(np.array([0.5, -0.3, 0.8, 0.1]), 0.3)
        twin = PairTwin(problem, point)
        expected = np.linalg.solve(twin.hessian, -point.gradient)
        np.testing.assert_allclose(problem.newton_direction(point), expected, rtol=1e-9)
        pairs = module._curvature(problem, point.band, twin.steep / problem.k, 100)
        nearby = np.linalg.cholesky(twin.hessian + np.diag([0.3, 0.1, 0.2, 0.5])).T  # the factor of another Hessian
        for cholesky in (None, np.asfortranarray(nearby)):
            direction, is_met = module._conjugate_gradients(problem, pairs, point.gradient, 50, cholesky)
            assert is_met
            np.testing.assert_allclose(direction, expected, rtol=1e-9)
        assert not module._conjugate_gradients(problem, pairs, point.gradient, 1)[1]
        np.testing.assert_allclose(module._solve_by_rows(problem, pairs, point.gradient), expected, rtol=1e-9)

    @pytest.mark.parametrize("seed", range(5))
    def test_the_laplacian_of_the_pairs_is_that_of_their_graph(self, seed):
        rng = np.random.default_rng(seed)
        n, m = rng.integers(1, 40, 2)
        first = np.sort(rng.integers(0, n, m))
        last = np.minimum(n, np.maximum.accumulate(first + rng.integers(1, 2 + n // 3, m)))
        begin, end = np.searchsorted(last, np.arange(n), "right"), np.searchsorted(first, np.arange(n), "right")
        shared = ((first <= np.arange(n)[:, None]) & (np.arange(n)[:, None] < last)).astype(np.float64)
        of_few, of_many = shared.sum(axis=1), shared.sum(axis=0)
        laplacian = np.block([[np.diag(of_few), -shared], [-shared.T, np.diag(of_many)]])
        values = rng.standard_normal((n + m, 3))
        values[0] *= 1e12  # must be nowhere but in the sums that it is part of
        found = module._laplacian(of_few, of_many, first, last, begin, end, values)
        assert np.all(np.abs(found - laplacian @ values) <= 1e-14 * (np.abs(laplacian) @ np.abs(values)))

    def test_systems_are_solved_finer_after_steps_that_brought_nothing(self):
        problem = self.pose(2, np.asarray, "hinge")
        point = problem.look(np.array([0.5, -0.3, 0.8, 0.1]), 0.3)
        hessian = PairTwin(problem, point).hessian
        pairs = module._curvature(problem, point.band, problem.steepness(0.3) / problem.k, 100)
        left, run = [], SimpleNamespace(target=1e-6)
        for run.idle in (0, 5, 6, 10):
            problem, _, _ = module._step(run, problem, point, None)
            direction = module._conjugate_gradients(problem, pairs, point.gradient)[0]
            left.append(np.linalg.norm(hessian @ direction + point.gradient) / np.linalg.norm(point.gradient))
        rough, fine, same, finest = left
        assert 1e-2 < rough <= 0.1
        assert fine == same <= 1e-2
        assert finest <= 1e-3

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("lam, most", [(1e-1, 0), (1e-3, 4)])
    def test_systems_are_solved_by_products_where_that_costs_less(self, lam, most, storage, monkeypatch):
        """150 features of like scale: no Hessian at all, or few; to the optimum that Hessians alone lead to."""
        rng = np.random.default_rng(0)
        y = rng.random(1500) < 0.2
        X = storage(rng.normal(size=(1500, 150)) * (rng.random((1500, 150)) < 0.4) + 0.2 * y[:, None])
        counted, hessian = [], module._hessian
        monkeypatch.setattr(module, "_hessian", lambda *given: counted.append(1) or hessian(*given))
        quick = SVMOR(lam, loss="squared_hinge", tol=1e-10).fit(X, y)
        few = len(counted)
        monkeypatch.setattr(module, "FEWEST_PRODUCTS", np.inf)
        exact = SVMOR(lam, loss="squared_hinge", tol=1e-10).fit(X, y)
        assert (quick.status_, exact.status_) == ("converged", "converged")
        assert few <= most < len(counted) - few
        np.testing.assert_allclose(quick.objective_, exact.objective_, rtol=1e-9)

    def test_rough_steps_are_given_up_where_classes_are_far_apart(self):
        """All pairs end at the kink: rough steps took 76 iterations, exact ones 14."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(400, 2000))
        y = X[:, :5].sum(axis=1) + 2.0 * rng.normal(size=400) > 1.5
        assert SVMOR(1e-4, loss="squared_hinge", tol=1e-6).fit(X, y).n_iter_ < 25

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("most", [4, 6, 9])
    def test_a_sampled_hessian_counts_each_row_for_those_that_it_stands_for(self, most, storage):
        problem = self.pose(2, storage, "hinge", 9, 14)
        point = problem.look(np.array([0.5, -0.3, 0.8, 0.1]), 0.6)
        twin = PairTwin(problem, point)
        in_order = twin.inside[point.band.order]
        few, many = np.flatnonzero(in_order.any(axis=1)), np.flatnonzero(in_order.any(axis=0))
        lengths = [squared_norms(problem.few)[point.band.order[few]], squared_norms(problem.many)[many]]
        (few, of_few), (many, of_many) = (
            (rows[taken], weights)
            for rows, (taken, weights) in zip((few, many), (self.sample(size, most) for size in lengths), strict=True)
        )
        assert max(len(few), len(many)) <= most
        z, weights = twin.z[point.band.order][np.ix_(few, many)], np.outer(of_few, of_many)
        weights[~in_order[np.ix_(few, many)]] = 0.0
        expected = 0.01 * np.eye(4) + twin.steep / twin.k * np.einsum("ij,ijf,ijg->fg", weights, z, z)
        hessian = module._hessian(problem, point.band, twin.steep / problem.k, most)
        np.testing.assert_allclose(np.tril(hessian), np.tril(expected), rtol=1e-11, atol=1e-12)

    @staticmethod
    def sample(lengths, most):
        """A row is taken where the sum of shares up to it, the certain ones apart, passes a whole number and 1/2."""
        if len(lengths) <= most:
            return np.arange(len(lengths)), np.ones(len(lengths))
        shares = most / 2 * (1 / len(lengths) + lengths / lengths.sum())
        certain = shares >= 1.0
        marks = np.floor(0.5 + np.cumsum(np.where(certain, 0.0, shares)))
        taken = np.flatnonzero(certain | (np.diff(marks, prepend=0.0) > 0))
        return taken, 1.0 / np.minimum(shares[taken], 1.0)

    def test_a_sample_stands_for_all_rows_and_holds_the_long_ones(self):
        rng = np.random.default_rng(0)
        lengths = rng.random(5000)
        long = rng.choice(5000, 20, replace=False)
        lengths[long] = 1e4
        taken, weights = module._sample(lengths, 400)
        assert len(taken) <= 400 and np.all(np.diff(taken) > 0)
        assert set(long) <= set(taken) and np.all(weights[np.isin(taken, long)] == 1.0)
        assert weights.sum() == pytest.approx(5000, rel=0.02)
        assert weights @ lengths[taken] == pytest.approx(lengths.sum(), rel=0.02)

    def test_rows_without_length_are_sampled_evenly(self):
        taken, weights = module._sample(np.zeros(100), 10)
        assert set(np.diff(taken)) <= {19, 20, 21} and np.all(weights == 20.0)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_the_origin_is_what_a_look_there_finds(self, loss):
        problem = self.pose(2, np.asarray, loss)
        origin, point = problem.origin(), problem.look(np.zeros(4), module.WIDEST)
        assert (origin.objective, origin.lower_bound) == pytest.approx((point.objective, point.lower_bound))
        np.testing.assert_allclose(origin.gradient, point.gradient, atol=1e-14)
        for sums in ("first", "last", "members", "beyond", "of_few", "of_many"):
            np.testing.assert_array_equal(getattr(origin.band, sums), getattr(point.band, sums))

    @pytest.mark.parametrize("seed", range(5))
    def test_the_auc_of_a_point_counts_ties_one_half(self, seed):
        rng = np.random.default_rng(seed)
        X, y = rng.integers(-3, 4, (40, 2)) / 2.0, np.repeat([1.0, -1.0], [15, 25])
        problem = module._pose(sparse.csr_array(X), y, 0.01, "hinge")  # dense rows are centred: ties may round apart
        for w in ([0.0, 0.0], [0.5, 1.0], [-4.0, 1.0], [0.0, 3.0]):
            assert problem.look(np.array(w), 0.1).auc() == pytest.approx(auc(y, X @ w), abs=1e-14)

    @pytest.mark.parametrize("storage", STORAGES)
    def test_steeper_slopes_are_lines_through_the_middle_of_the_band(self, storage):
        problem = self.pose(3, storage, "hinge")
        point = problem.look(np.array([0.5, -0.3, 0.8, 0.1]), 0.4)
        twin = PairTwin(problem, point)
        lines = np.where(twin.inside, 0.5 + (twin.slopes - 0.5) / 0.1, twin.slopes)
        assert lines.min() < 0 and lines.max() > 1
        of_few, of_many = point.band.steeper(0.1)
        np.testing.assert_allclose(of_few, lines.sum(axis=1), atol=1e-12)
        np.testing.assert_allclose(of_many, lines.sum(axis=0), atol=1e-12)

    def test_slopes_in_a_very_narrow_band_are_summed_exactly(self):
        # 400 scores of a size at which a prefix sum rounds to 1e-13, some 1e-5 of this band
        rng = np.random.default_rng(0)
        many = rng.normal(size=50)
        few = np.sort(np.r_[rng.normal(size=350), 1.0 + many + 1e-8 * rng.uniform(-1, 1, 50)])
        slopes = np.clip(0.5 + (1.0 - few[:, None] + many[None, :]) / 2e-8, 0.0, 1.0)
        *_, of_few, of_many, _, total, magnified = module._sum_pairs(*bucket_grid(few), many, 1e-8, False)
        assert magnified == 1.0
        np.testing.assert_allclose(of_few, slopes.sum(axis=1), atol=1e-7)
        np.testing.assert_allclose(of_many, slopes.sum(axis=0), atol=1e-7)
        assert total == pytest.approx(slopes.sum(), abs=1e-6)

    @settings(deadline=None)
    @given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 12))
    def test_integer_scores_put_pairs_on_every_edge(self, seed, n_few, n_many):
        # scores in steps of 1/2 and a band of half width 1/2: u falls on -1/2, 0 and 1/2 exactly
        rng = np.random.default_rng(seed)
        few, many = np.sort(rng.integers(-3, 4, n_few) / 2), rng.integers(-3, 4, n_many) / 2
        u = 1.0 - few[:, None] + many[None, :]
        first, last, members, beyond, of_few, of_many, loss, total, _ = module._sum_pairs(
            *bucket_grid(few), many, 0.5, False
        )
        inside, slopes = np.abs(u) < 0.5, np.clip(u + 0.5, 0.0, 1.0)
        # a pair at u = width has slope 1 on either side of the edge: only the open band must be met
        assert np.all(last - first >= inside.sum(axis=0)) and np.all(last - first <= (np.abs(u) <= 0.5).sum(axis=0))
        assert np.all(members >= inside.sum(axis=1))
        assert np.all(beyond <= (u >= 0.5).sum(axis=1)) and np.all(beyond + members >= (u > -0.5).sum(axis=1))
        np.testing.assert_allclose(of_few, slopes.sum(axis=1), atol=1e-13)
        np.testing.assert_allclose(of_many, slopes.sum(axis=0), atol=1e-13)
        assert (loss, total) == pytest.approx((np.maximum(u, 0).sum(), slopes.sum()))

    @pytest.mark.parametrize("loss", LOSSES)
    def test_gradient_against_finite_differences(self, loss):
        X, y = small(20, 30, 4, seed=5)
        problem = module._pose(X, y, 0.01, loss)
        w = np.array([0.5, -0.3, 0.8, 0.1])
        gradient = problem.look(w, 0.0).gradient
        for f, step in enumerate(1e-7 * np.eye(4)):
            rise = [enumerated_objective(w + sign * step, X, y, 0.01, loss) for sign in (1, -1)]
            assert gradient[f] == pytest.approx((rise[0] - rise[1]) / 2e-7, abs=1e-7)
        if loss == "hinge":
            np.testing.assert_allclose(gradient, pairwise_hinge_gradient(w, X, y, 0.01), rtol=1e-12)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("width", [0.0, 1e-3, 0.5])
    def test_the_gap_is_the_sum_of_its_two_parts(self, loss, width):
        X, y = small(20, 30, 4, seed=5)
        problem = module._pose(X, y, 0.01, loss)
        point = problem.look(np.array([0.9, 0.1, 0.8, 0.1]), width)
        dual = point.linear - point.v @ point.v / (2 * 0.01)
        assert point.objective - dual == pytest.approx(point.band_part + point.newton_part, rel=1e-12)
        assert point.lower_bound >= dual
        # the plane lies below L everywhere
        for w in np.random.default_rng(0).normal(size=(20, 4)):
            assert point.linear - w @ point.v <= enumerated_objective(w, X, y, 0.0, loss) + 1e-12


class TestSettledSlopes:
    """Near the optimum: few pairs at the kink, whose slopes a quadratic programme settles at once."""

    @staticmethod
    def near_optimum(storage=np.asarray, lam=0.01, width=0.3, seed=0):
        """A problem, and its point with a band of few pairs about a w that is near the optimum."""
        X, y = small(9, 14, 4, seed)
        problem = module._pose(storage(X), y, lam, "hinge")
        w = SVMOR(lam, tol=1e-2).fit(X, y).coef_.ravel()
        return X, y, problem, problem.look(w, width)

    @staticmethod
    def assert_same_sums(free, point):
        for sums, of_band in zip(free.sums(), (point.band.of_few, point.band.of_many), strict=True):
            assert_allclose(sums, of_band, atol=1e-12)

    @pytest.mark.parametrize("storage", STORAGES)
    def test_the_pairs_of_the_band_are_free_with_the_slopes_that_they_have(self, storage):
        _, _, problem, point = self.near_optimum(storage)
        free, twin = FreePairs.in_band(point), PairTwin(problem, point)
        assert set(zip(free.few, free.many, strict=True)) == set(zip(*np.nonzero(twin.inside), strict=True))
        assert_allclose(free.slopes, twin.slopes[free.few, free.many], atol=1e-12)
        fixed = np.where(twin.inside, 0.0, twin.slopes)
        np.testing.assert_array_equal(free.of_few, fixed.sum(axis=1))
        np.testing.assert_array_equal(free.of_many, fixed.sum(axis=0))
        self.assert_same_sums(free, point)

    @pytest.mark.parametrize("seed", range(8))
    def test_those_that_come_to_the_other_side_of_the_kink_are_free_from_then_on(self, seed):
        _, _, problem, point = self.near_optimum(width=0.1, seed=seed)
        free, before = FreePairs.in_band(point), PairTwin(problem, point)
        w = point.w + 0.3 * np.random.default_rng(seed).normal(size=4)
        there, after = problem.look(w, 0.0), 1.0 - problem_differences(problem) @ w
        crossed = ~before.inside & ((before.slopes > 0.5) != (after > 0.0))
        assert np.count_nonzero(crossed) > 0
        n = len(free.few)
        assert free.take_in_crossed(there)
        taken = np.zeros_like(crossed)
        taken[free.few[n:], free.many[n:]] = True
        assert np.all(crossed[taken])
        assert np.count_nonzero(taken) == len(free.few) - n == min(max(LEAST_TAKEN, n), np.count_nonzero(crossed))
        assert np.abs(after[crossed & ~taken]).max(initial=0.0) <= np.abs(after[taken]).min()
        np.testing.assert_array_equal(free.slopes[n:], before.slopes[free.few[n:], free.many[n:]])
        self.assert_same_sums(free, point)

    @pytest.mark.parametrize("seed", range(40))
    def test_they_join_with_the_slope_that_they_had_though_u_is_rounded_to_the_other_side(self, seed):
        """Whole numbers put pairs on the kink, where the sign of u, computed again, is chance."""
        rng = np.random.default_rng(seed)
        X, y = rng.integers(-1, 2, size=(24, 3)).astype(float), np.repeat([1.0, -1.0], [9, 15])
        problem = module._pose(X, y, 0.1, "hinge")
        point = problem.look(rng.integers(-3, 4, size=3) / 3.0, 0.05)
        free, slopes = FreePairs.in_band(point), PairTwin(problem, point).slopes
        free.take_in_crossed(problem.look(rng.integers(-3, 4, size=3) / 3.0, 0.0))
        n = int(point.n_pairs)
        np.testing.assert_array_equal(free.slopes[n:], np.round(slopes[free.few[n:], free.many[n:]]))
        assert free.of_few.min() >= 0.0 and free.of_many.min() >= 0.0
        assert np.all(free.of_few + np.bincount(free.few, minlength=9) <= 15)
        assert np.all(free.of_many + np.bincount(free.many, minlength=15) <= 9)

    def test_a_point_beyond_which_very_many_have_crossed_takes_in_none(self, monkeypatch):
        _, _, problem, point = self.near_optimum(width=0.1)
        free, there = FreePairs.in_band(point), problem.look(-3.0 * point.w, 0.0)
        monkeypatch.setattr("aucsolvers._free_pairs.MOST_CROSSED", 10)
        n = len(free.few)
        assert not free.take_in_crossed(there) and len(free.few) == n
        self.assert_same_sums(free, point)

    def test_where_none_crosses_none_is_taken(self):
        _, _, problem, point = self.near_optimum()
        assert not FreePairs.in_band(point).take_in_crossed(problem.look(point.w, 0.0))

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("lam", [1e-1, 1e-2, 1e-4])
    @pytest.mark.parametrize("seed", range(5))
    def test_it_is_the_optimum_and_certified(self, storage, lam, seed):
        X, y, problem, point = self.near_optimum(storage, lam, seed=seed)
        settled, optimum = problem.settle(point, 1e-12), foreign_hinge_optimum(X, y, lam)
        assert settled.objective == pytest.approx(enumerated_objective(settled.w, X, y, lam, "hinge"), rel=1e-12)
        assert settled.lower_bound <= settled.objective <= settled.lower_bound + 1e-11
        assert settled.lower_bound <= optimum <= settled.objective + 5e-6  # LIBSVM's own rounding

    def test_a_tight_gap_takes_few_iterations_and_many_without_it(self, monkeypatch):
        X, y = load_breast_cancer(return_X_y=True)
        settling = SVMOR(1e-4).fit(scale(X), y == 0)
        monkeypatch.setattr(module, "MOST_SETTLED", 0)
        newtons = SVMOR(1e-4).fit(scale(X), y == 0)
        assert newtons.n_iter_ > 1.5 * settling.n_iter_
        assert settling.dual_gap_ < 0.1 * newtons.dual_gap_
        assert settling.objective_ == pytest.approx(newtons.objective_, rel=1e-6)

    def test_what_leaves_most_of_the_gap_is_not_gone_on_from(self, monkeypatch):
        _, _, problem, point = self.near_optimum()
        run = module._Run(problem, 1e-9, 100)
        run.see(point)
        poor = replace(point, band_part=point.band_part + run.gap)
        tried = []
        monkeypatch.setattr(module._Problem, "has_few_pairs", lambda *args: True)
        monkeypatch.setattr(module._Problem, "settle", lambda *args: tried.append(args) or poor)
        for _ in range(3):  # nor tried again, until half of the pairs have left the band
            assert module._settle(run, problem, point) is None and run.n_iter == 0
        assert len(tried) == 1
        module._settle(run, problem, problem.change_width(point, 0.02))
        assert len(tried) == 2

    def test_whole_numbers_have_the_certificate_that_they_deserve(self):
        """Fixed pairs come to lie on the kink exactly; by the way that u was rounded, slopes of 2 were once taken."""
        rows = "-1 1 -1|0 0 0|-1 1 1|0 0 1|-1 1 1|-1 -1 1|-1 0 -1|-1 -1 1|0 -1 0|0 -1 -1|-1 -1 1|1 0 0|0 0 -1|-1 -1 -1"
        rows += "|1 -1 0|1 -1 0|1 -1 0|1 0 1|-1 0 1|0 0 1|0 -1 0|1 -1 1"
        X = np.array([row.split() for row in rows.split("|")], dtype=float)
        y = np.array([-1, -1, -1, -1, 1, -1, 1, -1, -1, 1, 1, -1, -1, -1, -1, -1, -1, 1, 1, -1, 1, 1])
        model = SVMOR(0.0625).fit(X, y)
        planes = SVMOR(0.0625, method="cutting_plane", tol=1e-7).fit(X, y)
        assert abs(model.objective_ - planes.objective_) <= model.dual_gap_ + planes.dual_gap_

    @pytest.mark.parametrize("seed", range(60))
    def test_no_certificate_of_tied_rows_is_wrong(self, seed):
        rng = np.random.default_rng(seed)
        n, d = rng.integers(8, 40), rng.integers(1, 6)
        X, y = rng.integers(-2, 3, size=(n, d)).astype(float), np.where(np.arange(n) < 3 + n // 4, 1, -1)
        model = SVMOR(warm_start=True)
        for lam in 10.0 ** rng.uniform(-4, 0, size=4):
            model.set_params(lam=lam).fit(X, y)
            planes = SVMOR(lam, method="cutting_plane", tol=1e-7).fit(X, y).coef_.ravel()  # which settle nothing
            assert model.objective_ - model.dual_gap_ <= enumerated_objective(planes, X, y, lam, "hinge") + 1e-12

    @pytest.mark.filterwarnings("error")
    def test_slopes_of_a_tiny_lam_may_overflow(self):
        _, _, problem, point = self.near_optimum()
        tiny = replace(problem, lam=1e-315)
        assert tiny.settle(tiny.weigh(point), 1e-9) is None

    def test_the_squared_hinge_has_no_such_pairs(self):
        _, _, problem, point = self.near_optimum(width=0.02)
        assert problem.has_few_pairs(point)
        assert not replace(problem, squared=True).has_few_pairs(point)


class TestSteps:
    @pytest.mark.parametrize("trials", [1, 2, 3])
    def test_scores_belong_to_the_weights_when_trials_run_out(self, trials, monkeypatch):
        monkeypatch.setattr(module, "FLAT", 0.0)
        monkeypatch.setattr(module, "MAX_TRIALS", trials)
        X, y = small(20, 30, 4, seed=5)
        problem = module._pose(X, y, 1e-3, "hinge")
        point = problem.look(np.zeros(4), 0.1)
        point = problem.move(point, -point.gradient)
        for moved, fresh in zip((point.s_few, point.s_many), problem.scores(point.w), strict=True):
            np.testing.assert_allclose(moved, fresh, rtol=1e-12, atol=1e-12)

    def test_a_line_search_does_not_creep_up_to_a_late_kink(self, monkeypatch):
        # along the direction the slope rises evenly from -20/21, and from 0.91 on 45 times as fast, by the last row
        X = np.r_[np.tile([1.0, 0.0], (20, 1)), [[0.0, 100.0]], np.zeros((30, 2))]
        problem = module._pose(X, np.repeat([1.0, -1.0], [21, 30]), 1e-9, "squared_hinge")
        point, direction = problem.look(np.array([0.0, 0.283]), 1.0), np.array([1.0, -0.3])
        monkeypatch.setattr(module, "MAX_TRIALS", 12)
        step, *_ = problem.search_line(point, direction)
        assert 0.89 < step < 0.95
        end = problem.look(point.w + step * direction, 1.0)
        assert abs(end.gradient @ direction) <= module.FLAT * abs(point.gradient @ direction)

    @pytest.mark.parametrize("storage", STORAGES)
    def test_short_steps_enlarge_the_sample(self, storage, monkeypatch):
        # a feature of few rows, which a small sample misses: its curvature then is taken to be lam
        rng = np.random.default_rng(0)
        rare = 5.0 * (rng.random(3000) < 0.01)
        X = np.c_[rng.normal(size=(3000, 4)), rare * rng.normal(size=3000)]
        y = np.where(X.sum(axis=1) + rng.normal(size=3000) > 2, 1.0, -1.0)
        monkeypatch.setattr(module, "SAMPLE", 1)
        monkeypatch.setattr(module, "LEAST_SAMPLE", 30)
        n_iter = []
        for enlarging in (1, 4):
            monkeypatch.setattr(module, "ENLARGING", enlarging)
            result = newton(storage(X), y, 1e-3, "squared_hinge", 1e-9, 500)
            assert result.status == "converged"
            n_iter.append(result.n_iter)
        assert n_iter[1] < 0.5 * n_iter[0]

    def test_far_from_the_optimum_the_band_starts_wide(self):
        X, y = small(20, 30, 4, seed=5)
        problem, widths = module._pose(X, y, 1e-4, "hinge"), []
        for sign in (1.0, -1.0):
            near = SimpleNamespace(w=sign * SVMOR(1e-4).fit(X, y).coef_.ravel(), width=1e-3)
            widths.append(module._look_near(problem, near).width)
        assert widths == [module.THIN_WIDER * 1e-3, module.WIDEST]

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
    def test_the_loss_is_as_curved_along_the_gradient_as_its_hessian_says(self, loss, storage):
        X, y = small()
        problem = module._pose(storage(X), y, 0.1, loss)
        g, Z = problem.origin().gradient, pair_differences(X, y)
        hessian = Z.T @ Z / len(Z) * problem.steepness(module.WIDEST)
        assert problem.curvature_along(g) == pytest.approx(g @ hessian @ g / (g @ g), rel=1e-12)

    @pytest.mark.parametrize("seed", range(5))
    def test_no_step_raises_the_smoothed_objective(self, seed):
        X, y = small(20, 30, 4, seed)
        problem = module._pose(X, y, 1e-4, "hinge")
        point = problem.look(np.zeros(4), 1e-4)
        for _ in range(20):
            before, point = point, problem.move(point, problem.newton_direction(point))
            # the smoothed loss is at most width / 4 above the hinge
            assert point.objective <= before.objective + 0.25e-4

    def test_a_step_into_a_narrower_band_keeps_the_pairs_at_the_kink(self):
        X, y = load_breast_cancer(return_X_y=True)
        problem = module._pose(scale(X), np.where(y == 0, 1.0, -1.0), 1e-4, "hinge")
        point = problem.look(SVMOR(1e-4, tol=1e-8).fit(scale(X), y == 0).coef_.ravel(), 1e-4)
        for _ in range(40):
            point = problem.move(point, problem.newton_direction(point))
        assert point.newton_part < 1e-12 < point.band_part
        narrower = problem.narrow(point, 1e-12, power=0.0)
        assert narrower.width == pytest.approx(point.width / module.PREDICTED_NARROWING)
        assert narrower.n_pairs >= 0.9 * point.n_pairs
        # without the step nearly all of them have left the band, and Newton's part of the gap is large
        unmoved = problem.change_width(point, narrower.width)
        assert unmoved.n_pairs < 0.5 * point.n_pairs and narrower.newton_part < 1e-5 * unmoved.newton_part

    def test_pairs_at_the_far_edge_of_the_widest_band_come_along_too(self):
        # classes far apart: every a is near 0, and a narrower band at the same w holds no pair at all
        X, y = far_apart()
        problem = module._pose(X, y, 1e-4, "hinge")
        point = problem.origin()
        for _ in range(30):
            point = problem.move(point, problem.newton_direction(point))
        assert point.newton_part < 1e-3 * point.band_part
        assert problem.change_width(point, point.width / module.NARROWING).n_pairs == 0
        narrower = problem.narrow(point, 1e-12, power=None)
        assert narrower.width == pytest.approx(point.width / module.NARROWING)
        assert narrower.n_pairs >= 0.9 * point.n_pairs and narrower.newton_part < 1e-3 * narrower.band_part

    def test_a_step_after_which_the_pairs_have_left_the_band_is_not_taken(self, monkeypatch):
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(200, 150)), np.where(rng.random(200) < 0.2, 1.0, -1.0)
        monkeypatch.setattr(module, "SMALL_SLOPES", 0.0)  # shorter weights would have no need of the narrow bands
        n_iter = {}
        for kept in (0.0, module.KEPT):
            monkeypatch.setattr(module, "KEPT", kept)
            result = newton(X, y, 1e-4, "hinge", 1e-6, 1000)
            assert result.status == "converged"
            n_iter[kept] = result.n_iter
        assert n_iter[module.KEPT] <= 0.75 * n_iter[0.0]

    def test_no_band_gets_narrower_than_the_gap_asks_for(self):
        X, y = scale(load_breast_cancer().data), np.where(load_breast_cancer().target == 0, 1.0, -1.0)
        problem = module._pose(X, y, 1e-3, "hinge")
        run = module._Run(problem, 1e-4, 1000)
        point = problem.origin()
        run.see(point)
        point = module._descend(run, problem, point)
        assert run.gap <= run.target and point.band_part > 0.1 * run.target


class TestMaster:
    @pytest.mark.parametrize("seed", range(5))
    def test_weights_on_the_simplex_are_optimal(self, seed):
        rng = np.random.default_rng(seed)
        V, b = rng.normal(size=(12, 5)), rng.random(12)
        gram, beta = V @ V.T, np.eye(12)[0].copy()
        module._solve_on_simplex(gram, b, beta, 1e-12, 100_000)
        found = minimize(
            lambda x: (0.5 * x @ gram @ x - b @ x, gram @ x - b),
            np.full(12, 1 / 12),
            jac=True,
            bounds=[(0, 1)] * 12,
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": lambda x: np.ones(12)},
            method="SLSQP",
            options={"ftol": 1e-14, "maxiter": 1000},
        )
        assert beta.min() >= 0 and beta.sum() == pytest.approx(1, abs=1e-12)
        assert 0.5 * beta @ gram @ beta - b @ beta == pytest.approx(found.fun, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
class TestOptimum:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("lam", [1.0, 1e-1, 1e-2, 1e-3])
    @pytest.mark.parametrize("sizes", [(6, 11), (11, 6)])
    def test_reaches_the_foreign_optimum(self, method, loss, lam, sizes):
        X, y = small(*sizes)
        model = SVMOR(lam, method=method, loss=loss, tol=1e-8).fit(X, y)
        assert model.status_ == "converged"
        assert model.objective_ == pytest.approx(foreign_optimum(X, y, lam, loss), abs=1e-7)
        assert model.objective_ == pytest.approx(enumerated_objective(model.coef_.ravel(), X, y, lam, loss), rel=1e-12)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("lam", [1.0, 1e-2, 1e-4])
    @pytest.mark.parametrize("seed", [4, 5])
    def test_the_gap_is_never_below_the_true_suboptimality(self, method, loss, lam, seed):
        X, y = small(9, 14, 4, seed)
        history = SVMOR(lam, method=method, loss=loss).fit(X, y).history_
        optimum = foreign_optimum(X, y, lam, loss)
        assert np.all(history["dual_gap"] >= history["objective"] - optimum - 1e-9)
        assert np.all(np.diff(history["dual_gap"]) <= 0) and np.all(np.diff(history["objective"][1:]) <= 0)
        assert history["objective"][0] == (1.0 if loss == "hinge" else 0.5) and history["auc"][0] == 0.5

    @pytest.mark.parametrize("lam", [1e-1, 1e-3])
    def test_agrees_with_dual_coordinate_descent_run_long(self, method, lam, digits):
        slow = AUCSDCD(lam, tol=2e-7, max_iter=200, random_state=0).fit(*digits)
        model = SVMOR(lam, method=method).fit(*digits)
        assert (model.status_, slow.status_) == ("converged", "converged")
        assert model.objective_ == pytest.approx(slow.objective_, abs=3e-7)
        assert model.dual_gap_ <= 1e-6 * model.objective_
        assert pairwise_hinge_objective(model.coef_.ravel(), *digits, lam) == pytest.approx(model.objective_, rel=1e-12)
        assert model.history_["auc"][-1] == pytest.approx(auc(digits[1], model.decision_function(digits[0])), abs=1e-12)

    def test_squared_hinge_without_large_margins_is_least_squares(self, method):
        # lam so large that no margin reaches 1: every pair is in the band, and P = Q
        X, y = small(20, 30, 4)
        model = SVMOR(10.0, method=method, loss="squared_hinge", tol=1e-11).fit(X, y)
        exact = LSSVM(10.0).fit(X, y)
        assert model.objective_ == pytest.approx(exact.objective_, abs=1e-10)
        assert pairwise_square_objective(model.coef_.ravel(), X, y, 10.0) == pytest.approx(model.objective_, rel=1e-12)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_repeated_rows_are_weights(self, method, loss):
        # each positive c times and each negative e times: the mean over pairs is the same
        X, y = small(8, 9, 3)
        again = np.repeat(np.arange(17), np.where(y > 0, 3, 2))
        once, often = (
            SVMOR(1e-2, method=method, loss=loss, tol=1e-9).fit(X[rows], y[rows]) for rows in (np.arange(17), again)
        )
        assert often.objective_ == pytest.approx(once.objective_, abs=2e-9)
        np.testing.assert_allclose(often.coef_, once.coef_, atol=2e-3)

    def test_switched_classes_turn_the_weights_around(self, method):
        X, y = small(8, 20, 3)
        one, other = (SVMOR(1e-2, method=method).fit(X, labels) for labels in (y, -y))
        np.testing.assert_array_equal(one.coef_, -other.coef_)


class TestFarApart:
    """min P is far below P(0) = 1 where no pair has to be ranked wrongly and lam is small: tol is relative to it."""

    SETS = {
        "iris": lambda: (load_iris().data, np.where(load_iris().target == 0, 1.0, -1.0)),
        "wide": far_apart,
    }

    @pytest.mark.parametrize("name", SETS)
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("lam", [1e-2, 1e-4, 1e-6])
    def test_objective_is_within_tol_of_its_minimum(self, name, loss, lam):
        X, y = self.SETS[name]()
        model = SVMOR(lam, loss=loss).fit(X, y)
        assert model.status_ == "converged" and model.n_iter_ <= 40
        assert model.objective_ < 0.05 * model.history_["objective"][0]
        assert model.dual_gap_ <= max(1e-6 * model.objective_, module.FINEST)
        assert enumerated_objective(model.coef_.ravel(), X, y, lam, loss) == pytest.approx(
            model.objective_, rel=1e-9, abs=0.0
        )

    @pytest.mark.parametrize("name", SETS)
    @pytest.mark.parametrize("lam", [1e-1, 1e-2])
    def test_the_minimum_is_liblinears(self, name, lam):
        X, y = self.SETS[name]()
        X, y = X[::3], y[::3]
        Z = pair_differences(X, y)
        # LIBLINEAR asks for two classes: a row of zeros, whose loss no weights change
        machine = LinearSVC(loss="hinge", C=1 / (lam * len(Z)), fit_intercept=False, tol=1e-9, max_iter=10**6)
        machine.fit(np.r_[Z, np.zeros((1, X.shape[1]))], np.r_[np.ones(len(Z)), -1.0])
        foreign = enumerated_objective(machine.coef_.ravel(), X, y, lam, "hinge")
        assert SVMOR(lam, tol=1e-7).fit(X, y).objective_ == pytest.approx(foreign, rel=1e-6)

    def test_with_tiny_lam_the_weights_are_those_of_the_widest_margin(self):
        # min P = lam/2 ||w||^2 where every margin is at least 1: the same w for every lam small enough, and from any
        # other w it is at a distance r with lam/2 r^2 <= P(w) - min P
        X, y = self.SETS["iris"]()
        widest = SVMOR(1e-4, tol=1e-12).fit(X, y).coef_.ravel()
        for lam in (1e-4, 1e-6, 1e-8):
            model = SVMOR(lam).fit(X, y)
            w = model.coef_.ravel()
            assert (pair_differences(X, y) @ w).min() == pytest.approx(1.0, abs=1e-3)
            assert np.linalg.norm(w - widest) <= np.sqrt(2.0 * model.dual_gap_ / lam) < 0.02 * np.linalg.norm(widest)

    def test_a_way_down_on_which_no_gap_gets_smaller_is_gone_to_its_end(self, monkeypatch):
        # gaps of the steps on it are up to 10^7 times the first one
        monkeypatch.setattr(module, "SMALL_SLOPES", 0.0)
        X, y = load_digits(return_X_y=True)
        model = SVMOR(1e-8).fit(StandardScaler().fit_transform(X), y == 0)
        assert model.status_ == "converged" and model.dual_gap_ <= module.FINEST < 1e-3 * model.objective_ < 1e-11
        gap = model.history_["dual_gap"]
        assert np.max(np.diff(np.flatnonzero(np.diff(gap) < 0))) > module.PATIENCE

    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("lam", [1e-2, 1e-3, 1e-4, 1e-5])
    def test_more_features_than_rows_take_few_iterations(self, lam, storage):
        """Of 12 fits to 60 x 5000 five ended above tol; of 3,206 x 55,197 some took 562 iterations and 43 s."""
        for seed, (n, d) in enumerate([(60, 5000), (72, 2000), (600, 1500)]):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(n, d)), np.where(np.arange(n) % (2 if n == 60 else 10) == 0, 1.0, -1.0)
            model = SVMOR(lam).fit(storage(X), y)
            assert model.status_ == "converged" and model.n_iter_ <= 30
            assert model.dual_gap_ <= max(1e-6 * model.objective_, module.FINEST)
            if n < 600:
                found = enumerated_objective(model.coef_.ravel(), X, y, lam, "hinge")
                assert found == pytest.approx(model.objective_, rel=1e-9, abs=0.0)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("lam", [1e-2, 1e-4, 1e-6])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_few_rows_of_many_features_of_all_scales(self, loss, lam, dtype):
        """P stayed at 0.4 to 1.0 of P(0), or LAPACK's error came through; min P is below 1e-15."""
        rng = np.random.default_rng(12)
        X = (rng.normal(size=(100, 3000)) * 10 ** rng.uniform(-3, 6, 3000)).astype(dtype)
        y = np.where(rng.random(100) < 0.2, 1.0, -1.0)
        model = SVMOR(lam, loss=loss, warm_start=True).fit(X, y)
        assert model.status_ == "converged" and model.objective_ < 1e-12
        found = enumerated_objective(model.coef_.ravel(), X.astype(np.float64), y, lam, loss)
        assert found == pytest.approx(model.objective_, rel=1e-3, abs=1e-14)
        assert np.array_equal(model.predict(X), y)
        assert model.fit(X, y).n_iter_ == 0

    @pytest.mark.parametrize("lam", [1e-4, 1e-5, 1e-6, 1e-8])
    @pytest.mark.parametrize("shape", [(1500, 100), (1500, 300)])
    def test_the_widest_margin_is_found_by_way_of_heavier_regularisers(self, lam, shape):
        """Of 4000 x 1500 lam = 1e-6 took 546 iterations, 1e-4 took 37: the optimum is the same."""
        rng, (n, d) = np.random.default_rng(6), shape
        y = np.where(np.arange(n) < n // 20, 1.0, -1.0)
        X = rng.standard_normal((n, d))
        X[:, 0] += 2 * y
        model = SVMOR(lam).fit(X, y)
        assert model.status_ == "converged" and model.n_iter_ <= 35
        # min ||w|| with margins of 1 between the classes is half of the SVM's w, whose margins are 2
        machine = SVC(kernel="linear", C=1e6, tol=1e-8).fit(X, y)
        widest = lam / 2 * np.sum((machine.coef_ / 2) ** 2)
        assert widest * (1 - 1e-6) <= model.objective_ <= widest * (1 + 1e-6) + module.FINEST

    @pytest.mark.parametrize("lam", [1e-3, 1e-5, 1e-7])
    def test_a_row_that_only_a_light_regulariser_keeps_apart(self, lam):
        """One row close to the other class: to rank it wrongly costs less than to not with a heavy lam only."""
        rng = np.random.default_rng(3)
        y = np.where(np.arange(400) < 40, 1.0, -1.0)
        X = rng.standard_normal((400, 5)) + 6 * y[:, None]
        X[-1] = X[:40].min(axis=0) - 0.1
        model = SVMOR(lam, tol=1e-7).fit(X, y)
        assert model.status_ == "converged"
        reference = SVMOR(lam, tol=1e-7, method="cutting_plane").fit(X, y)
        assert abs(model.objective_ - reference.objective_) <= model.dual_gap_ + reference.dual_gap_

    def test_the_threshold_is_that_of_the_rows_as_they_are(self):
        X = np.random.default_rng(0).normal(size=(40, 1500)) + 7.0
        y = np.arange(40) % 3 == 0
        model, narrow = SVMOR(1e-2).fit(X, y), SVMOR(1e-2).fit(X[:, :1024], y)
        for one, rows in ((model, X), (narrow, X[:, :1024])):
            assert np.array_equal(one.predict(rows), y)
            scores = one.decision_function(rows)
            assert scores[y].min() == pytest.approx(-scores[~y].max(), rel=1e-6)  # the cut is in the middle

    def test_the_multiple_of_smallest_margin_1_is_certified(self):
        """Its P - D, both summed over pairs, are the two parts; of a multiple that is no better nothing is told."""
        X, y = far_apart()
        problem = module._pose(X, y, 1e-4, "hinge")
        point, shortened = problem.origin(), 0
        for _ in range(12):
            point = problem.move(point, problem.newton_direction(point))
            if point.shorter is None:
                continue
            shortened += 1
            Z, w = pair_differences(X, y), point.shorter.w
            assert (Z @ w).min() == pytest.approx(1.0, rel=1e-9)
            s = w @ point.w / (point.w @ point.w)
            slopes = np.clip(0.5 * (1.0 - Z @ point.w + point.width) / point.width, 0.0, 1.0)
            D = (s * slopes).mean() - 0.5 / 1e-4 * np.sum((s * slopes @ Z / len(Z)) ** 2)
            P = enumerated_objective(w, X, y, 1e-4, "hinge")
            assert point.shorter.objective == pytest.approx(P, rel=1e-9, abs=0.0)
            assert point.band_part + point.newton_part == pytest.approx(P - D, rel=1e-6, abs=0.0)
        assert shortened > 3

    def test_no_gap_is_certified_that_rounding_hides(self):
        X, y = self.SETS["iris"]()
        with pytest.warns(ConvergenceWarning):
            model = SVMOR(1e-10, tol=0, max_iter=200).fit(X, y)
        assert model.dual_gap_ >= module.ROUNDING
        # a gap of 1e-12 P(0) will do: nothing to warn of
        assert SVMOR(1e-10).fit(X, y).status_ == SVMOR(1e-4).fit(1e8 * X, y).status_ == "converged"


class TestLargeData:
    def test_a_thinned_start_and_a_cold_one_meet(self, monkeypatch):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(6000, 5))
        y = np.where(X @ [1, 1, 0.5, 0, -1] + rng.normal(size=6000) > 2, 1.0, -1.0)
        monkeypatch.setattr(module, "THIN_ROWS", 3000)
        cold = newton(X, y, 1e-3, "hinge", 1e-7, 100)
        for rows, thickening, storage in [(1000, 8, np.asarray), (1000, 8, sparse.csr_array), (500, 4, np.asarray)]:
            monkeypatch.setattr(module, "THIN_ROWS", rows)
            monkeypatch.setattr(module, "THICKENING", thickening)
            warm = newton(storage(X), y, 1e-3, "hinge", 1e-7, 100)
            assert warm.objective == pytest.approx(cold.objective, abs=1e-7)
            assert warm.n_iter < cold.n_iter and warm.history["objective"][0] == 1.0

    @pytest.mark.parametrize("loss", LOSSES)
    def test_wide_sparse_rows_by_conjugate_gradients(self, loss):
        X = sparse.random_array((60, 3000), density=0.02, format="csr", rng=np.random.default_rng(0))
        y = np.repeat([1.0, -1.0], 30)
        results = [drive(X, y, 1e-3, loss, 1e-6, 1000) for drive in (newton, cutting_planes)]
        assert [result.status for result in results] == ["converged"] * 2
        assert results[0].objective == pytest.approx(results[1].objective, abs=1e-6)

    def test_real_wide_sparse_data(self, mirror):
        X, y = load_svmlight_file(str(mirror / "libsvm" / "sector.scale"))
        model = SVMOR(1e-3).fit(X, y == 1)
        gap = model.history_["dual_gap"]
        assert model.status_ == "converged" and gap[-1] <= 1e-6 * model.objective_ and model.n_iter_ <= 20
        assert pairwise_hinge_objective(model.coef_.ravel(), X, y == 1, 1e-3) == pytest.approx(model.objective_)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("storage", STORAGES)
    def test_without_the_dense_hessian_the_optimum_is_the_same(self, loss, storage, monkeypatch):
        X, y = small(30, 50, 6)
        direct = newton(storage(X), y, 1e-2, loss, 1e-8, 100)
        monkeypatch.setattr(module, "LARGEST_HESSIAN", 0)
        iterative = newton(storage(X), y, 1e-2, loss, 1e-8, 200)
        assert iterative.status == "converged"
        assert iterative.objective == pytest.approx(direct.objective, abs=1e-8)

    def test_thinned_rows_keep_both_classes(self):
        for n_pos, kept in ((1, 1), (3, 3), (40, 5)):
            X, y = np.arange(n_pos + 50.0)[:, None], np.repeat([1.0, -1.0], [n_pos, 50])
            problem = module._pose(X, y, 0.1, "hinge")
            thin = problem.thinned(10)
            assert (len(np.unique(thin.few)), len(np.unique(thin.many))) == (kept, 10 - kept)
            assert np.isin(thin.few, problem.few).all() and np.isin(thin.many, problem.many).all()

    def test_real_sparse_data(self, mirror):
        X, y = load_svmlight_file(str(mirror / "libsvm" / "a9a"))
        models = [SVMOR(1e-2, method=method).fit(X, y) for method in METHODS]
        assert [model.status_ for model in models] == ["converged"] * 2
        assert models[0].objective_ == pytest.approx(models[1].objective_, abs=1e-6)
        assert models[0].n_iter_ <= 12
        assert pairwise_hinge_objective(models[0].coef_.ravel(), X, y, 1e-2) == pytest.approx(models[0].objective_)


class TestEstimator:
    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("index_type", [np.int32, np.int64])
    def test_sparse_and_dense_are_one(self, method, loss, index_type):
        X, y = small(20, 50, 6)
        stored = sparse.csr_array(X)
        stored.indices, stored.indptr = stored.indices.astype(index_type), stored.indptr.astype(index_type)
        model = SVMOR(1e-2, method=method, loss=loss, tol=1e-9)
        dense, thin = (clone(model).fit(data, y) for data in (X, stored))
        assert thin.objective_ == pytest.approx(dense.objective_, abs=1e-9)
        np.testing.assert_allclose(thin.coef_, dense.coef_, atol=1e-3)
        np.testing.assert_array_equal(thin.predict(stored), dense.predict(X))

    def test_single_precision_is_accepted(self):
        X, y = small(20, 50, 6)
        single = SVMOR(1e-2).fit(X.astype(np.float32), y)
        assert single.coef_.dtype == np.float64
        assert single.objective_ == pytest.approx(SVMOR(1e-2).fit(X, y).objective_, abs=1e-6)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_single_precision_is_converted_as_it_is_sorted_into_classes(self):
        """Not before, whole: then there would be two copies of the rows in double precision."""
        X, y = small(300, 3000, 40)
        peaks = []
        for rows in (X, X.astype(np.float32)):
            SVMOR(1e-2, max_iter=1).fit(rows, y)  # compiles
            tracemalloc.start()
            SVMOR(1e-2, max_iter=1).fit(rows, y)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[1] < 1.1 * peaks[0]

    def test_unsorted_and_repeated_columns_are_understood_and_left_alone(self):
        # row 0 is (2, 3) written as 3 at column 1, then 1 + 1 at column 0
        data, cols, ptr = [3.0, 1.0, 1.0, 1.0, -1.0], [1, 0, 0, 0, 1], [0, 3, 4, 5]
        X, y = sparse.csr_array((data, cols, ptr), shape=(3, 2)), [1, 0, 0]
        np.testing.assert_allclose(SVMOR(0.1).fit(X, y).coef_, SVMOR(0.1).fit(X.toarray(), y).coef_, rtol=1e-6)
        assert X.nnz == 5 and X.indices.tolist() == cols

    @pytest.mark.parametrize("estimator", EACH)
    def test_history_tells_the_story(self, estimator, digits):
        model = clone(estimator).set_params(lam=1e-2).fit(*digits)
        history = model.history_
        np.testing.assert_array_equal(history["updates"], np.arange(model.n_iter_ + 1))
        assert (history["objective"][-1], history["dual_gap"][-1]) == (model.objective_, model.dual_gap_)
        assert np.all(np.diff(history["time_s"]) > 0)
        assert len({len(column) for column in history.values()}) == 1

    @pytest.mark.parametrize("estimator", EACH)
    def test_works_in_a_search_and_a_pickle_and_repeats_its_bits(self, estimator):
        X, y = load_breast_cancer(return_X_y=True)
        steps = make_pipeline(StandardScaler(), clone(estimator))
        search = GridSearchCV(steps, {"svmor__lam": [1e-1, 1e-2]}, scoring="roc_auc", cv=3).fit(X, y)
        assert search.best_score_ > 0.98
        again = pickle.loads(pickle.dumps(search.best_estimator_))
        np.testing.assert_array_equal(again.decision_function(X), search.decision_function(X))
        np.testing.assert_array_equal(clone(search.best_estimator_).fit(X, y)[-1].coef_, again[-1].coef_)

    def test_too_few_iterations_warn(self, digits):
        with pytest.warns(ConvergenceWarning, match=r"'max_iter' after 2 iterations.*Raise max_iter"):
            model = SVMOR(1e-4, max_iter=2).fit(*digits)
        assert (model.status_, model.n_iter_) == ("max_iter", 2)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    def test_tol_zero_ends_where_rounding_does(self, digits):
        model = SVMOR(1e-2, tol=0).fit(*digits)
        assert model.n_iter_ < 200 and model.dual_gap_ < 1e-10


class TestGoingOn:
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("lam", [1e-1, 1e-3, 1e-6])
    def test_a_solution_is_known_again_also_where_another_point_certified_it(self, lam, loss):
        for seed in range(30):
            rng = np.random.default_rng(seed)
            X = rng.normal(size=(rng.integers(30, 300), 6))
            y = X[:, 0] + rng.normal(size=len(X)) > 0.8
            model = SVMOR(lam, loss=loss, warm_start=True).fit(X, y)
            gap, taken = model.dual_gap_, [model.fit(X, y).n_iter_ for _ in range(2)]
            assert taken == [0, 0] and model.dual_gap_ == pytest.approx(gap, rel=1e-3, abs=1e-15)

    def test_weights_of_0_that_a_point_without_a_band_certified_are_left_by_the_widest(self):
        """Of rows of huge scale: the best weights found are none, and the bound is that of settled slopes."""
        X, y = load_breast_cancer(return_X_y=True)
        X, y = scale(X), y == 0
        model = SVMOR(1e-3, warm_start=True).fit(X, y)
        cold = model.objective_
        assert model._state["width"] == 0.0
        model._state["w"] = np.zeros(X.shape[1])
        assert model.set_params(lam=9e-4).fit(X, y).n_iter_ > 0
        assert model.objective_ < cold

    @pytest.mark.parametrize("method", METHODS)
    def test_slopes_of_the_squared_hinge_are_none_of_the_hinge(self, method):
        """They may be above 1, and no lower bound comes of them."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 3))
        y = np.where(X[:, 0] + 2 * rng.normal(size=40) > 0, 1, -1)
        model = SVMOR(1e-2, loss="squared_hinge", method="cutting_plane", warm_start=True).fit(X, y)
        model.set_params(loss="hinge", method=method).fit(X, y)
        cold = SVMOR(1e-2, method=method).fit(X, y)
        assert model.objective_ == pytest.approx(cold.objective_, rel=1e-6)

    def test_slopes_that_no_band_tells_are_kept_for_rows_of_the_same_number(self):
        X, y = load_breast_cancer(return_X_y=True)
        X, y = scale(X), y == 0
        model = SVMOR(1e-3, warm_start=True).fit(X, y)
        assert model._state["width"] == 0.0
        gap = model.dual_gap_
        assert model.fit(X, y).n_iter_ == 0 and model.dual_gap_ == pytest.approx(gap, rel=1e-3, abs=1e-14)
        for rows, labels in ((X[:-9], y[:-9]), (X, ~y), (X[::-1], y)):
            again = clone(model).fit(X, y).fit(rows, labels)
            cold = SVMOR(1e-3).fit(rows, labels)
            assert again.objective_ == pytest.approx(cold.objective_, rel=2e-6)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("method", METHODS)
    def test_warm_start_after_convergence_needs_no_iteration(self, method, loss, digits):
        model = SVMOR(1e-2, method="newton", loss=loss, warm_start=True).fit(*digits)
        cold = clone(model).set_params(lam=9e-3).fit(*digits)
        assert model.set_params(method=method).fit(*digits).n_iter_ == 0
        model.set_params(lam=9e-3, method="newton").fit(*digits)
        assert 0 < model.n_iter_ < cold.n_iter_
        assert model.objective_ == pytest.approx(cold.objective_, abs=1e-6)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("method", METHODS)
    def test_weights_that_are_worse_than_none_are_no_start(self, method, loss):
        """The same rows in other units: their loss at the last weights is a million times that at 0."""
        X, y = small(12, 28, 5)
        cold = SVMOR(1e-3, method=method, loss=loss, max_iter=30)
        model = clone(cold).set_params(warm_start=True).fit(X, y).fit(1e6 * X, y)
        np.testing.assert_array_equal(model.coef_, cold.fit(1e6 * X, y).coef_)
        assert model.n_iter_ == cold.n_iter_

    def test_other_features_start_cold(self):
        X, y = small(20, 30, 4)
        model = SVMOR(1e-2, warm_start=True).fit(X[:, :3], y).fit(X, y)
        np.testing.assert_array_equal(model.coef_, SVMOR(1e-2).fit(X, y).coef_)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("estimator", EACH)
class TestDegenerate:
    CASES = {
        "one positive": ([[1.0, 2.0], [0.0, 1.0], [0.5, 0.0]], [1, 0, 0]),
        "one pair": ([[1.0], [0.0]], [1, 0]),
        "zero matrix": (np.zeros((5, 2)), [1, 1, 0, 0, 0]),
        "constant feature": ([[1.0, 7.0], [0.0, 7.0], [0.5, 7.0]], [1, 0, 1]),
        "all rows equal": (np.full((6, 2), 3.0), [1, 1, 0, 0, 0, 0]),
        "duplicate rows": ([[1.0], [1.0], [1.0], [0.0]], [1, 1, 0, 0]),
        "separable": ([[3.0], [2.0], [-1.0], [-2.0]], [1, 1, 0, 0]),
        "one feature, mixed": ([[3.0], [-2.0], [-1.0], [2.0]], [1, 1, 0, 0]),
        "ratio 1000": (np.random.default_rng(0).normal(size=(2002, 3)), np.arange(2002) % 1001 == 0),
        "wide": (np.random.default_rng(0).normal(size=(4, 50)), [1, 0, 0, 1]),
        "far from the origin": (1e6 + np.random.default_rng(0).normal(size=(20, 2)), np.arange(20) % 2),
        "huge": (1e100 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
        "huge, mixed": (1e100 * np.array([[1.0], [0.5], [-1.0]]), [0, 1, 0]),
        "tiny": (1e-200 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
        "scales apart": ([[1e8, 1e-8], [0.0, 3e-8], [2e8, -1e-8], [-1e8, 2e-8]], [1, 0, 1, 0]),
    }

    @pytest.mark.parametrize("case", CASES)
    @pytest.mark.parametrize("storage", STORAGES)
    def test_result_is_finite_and_certified(self, estimator, storage, case):
        X, y = np.asarray(self.CASES[case][0]), np.asarray(self.CASES[case][1])
        model = clone(estimator).fit(storage(X), y)
        assert np.all(np.isfinite(model.coef_)) and np.all(np.isfinite(model.intercept_))
        assert 0 <= model.dual_gap_ <= 1 and 0 <= model.objective_ <= 1
        if not case.startswith("huge") and case != "scales apart":
            assert model.status_ == "converged"

    def test_large_lam_still_ranks(self, estimator):
        X, y = scale(load_breast_cancer().data), load_breast_cancer().target
        model = clone(estimator).set_params(lam=1e7).fit(X, y)
        assert model.n_iter_ >= 1 and auc(y, model.decision_function(X)) > 0.95

    def test_overflow_is_refused(self, estimator):
        with pytest.raises(ValueError, match="Rescale the features"):
            clone(estimator).fit([[1e200], [0.0]], [1, 0])

    @pytest.mark.parametrize(
        ("parameters", "message"),
        [
            ({"lam": 0}, "Expected lam to be a finite number > 0, got 0"),
            ({"lam": np.nan}, "Expected lam"),
            ({"tol": -1.0}, "Expected tol"),
            ({"max_iter": 0}, "Expected max_iter to be an integer >= 1, got 0"),
            ({"method": "sgd"}, "Expected method to be one of 'newton', 'cutting_plane', got 'sgd'"),
            ({"loss": "square"}, "Expected loss to be one of 'hinge', 'squared_hinge', got 'square'"),
        ],
    )
    def test_parameters_are_checked(self, estimator, parameters, message):
        with pytest.raises(ValueError, match=message):
            clone(estimator).set_params(**parameters).fit([[1.0], [0.0]], [1, 0])


def test_scikit_learns_scale_of_breast_cancer_at_the_defaults():
    X, y = load_breast_cancer(return_X_y=True)
    model = SVMOR().fit(scale(X), y == 0)
    assert (model.status_, model.dual_gap_ <= 1e-6) == ("converged", True)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("offset", [1e9, 1e12])
def test_the_certificate_of_sparse_rows_allows_for_the_rounding_of_their_scores(offset):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 4))
    y = X[:, 0] + rng.normal(size=30) > 0.8
    model = SVMOR().fit(sparse.csr_array(X + offset), y)
    difference = ((X + offset)[y][:, None] - (X + offset)[~y]).reshape(-1, 4)
    w = model.coef_.ravel()
    primal = 0.5 * model.lam * w @ w + np.maximum(0.0, 1.0 - difference @ w).mean()
    least = SVMOR(tol=1e-10).fit(X + offset, y).objective_
    assert primal - least <= 2.0 * model.dual_gap_


@pytest.mark.parametrize("method", ["newton", "cutting_plane"])
def test_slopes_of_rounding_certify_nothing(method):
    """One pair, repeated: min P is lam / (2 (lam + z^2)). A step to just short of the kink leaves slopes of eps."""
    for seed in range(150):
        rng = np.random.default_rng(seed)
        X, lam = rng.normal(size=(2, rng.integers(1, 4))) * 10 ** rng.uniform(-2, 2), 10 ** rng.uniform(-4, 1)
        rows, z = np.repeat([0, 1], rng.integers(1, 4, size=2)), X[1] - X[0]
        model = SVMOR(lam, method=method, loss="squared_hinge").fit(X[rows], rows)
        excess = model.objective_ - 0.5 * lam / (lam + z @ z)
        assert -1e-13 < excess <= model.dual_gap_ + 1e-13 and model.status_ == "converged"


@pytest.mark.parametrize("scale", [1e3, 1e5, 1e9])
@pytest.mark.parametrize("loss", LOSSES)
def test_few_wide_sparse_rows_of_large_features_are_solved(loss, scale):
    """Beside their products lam is nothing, so of Newton's system, by rows, rounding may leave no solution.

    P itself is then below what counts as solved: a millionth of a millionth of P(0).
    """
    X, y = np.random.default_rng(0).normal(size=(26, 1195)) * scale, np.arange(26) < 9
    for form in (np.asarray, sparse.csr_array):
        model = SVMOR(1e-3, loss=loss).fit(form(X), y)
        assert model.status_ == "converged" and model.objective_ <= 1e-11
        assert model.n_iter_ < 60


@pytest.mark.parametrize(("spread", "loss", "lam"), [(1.5, "hinge", 1e-7), (3.0, "squared_hinge", 1e-7)])
def test_few_wide_sparse_rows_of_unlike_lengths_are_solved(spread, loss, lam):
    """As documents are: the condition number of Newton's system, by rows, is large, its solution nonetheless good."""
    for seed in range(3):
        rng = np.random.default_rng(seed)
        X = sparse.random(150, 2000, density=0.02, format="csr", random_state=seed, data_rvs=rng.standard_normal)
        X = sparse.csr_array(sparse.diags(np.exp(spread * rng.standard_normal(150))) @ X)
        scores = X @ rng.standard_normal(2000)
        model = SVMOR(lam, loss=loss).fit(
            X, scores + scores.std() * rng.standard_normal(150) > np.quantile(scores, 0.7)
        )
        assert model.status_ == "converged" and model.n_iter_ < 200


@pytest.mark.parametrize(("n", "d"), [(4000, 1100), (6000, 1500)])
def test_wide_sparse_rows_reach_tol_where_lam_is_small(n, d):
    """More features than a dense Hessian is made of: steps are rough, and bands narrow by less at a time.

    By a thousand at once, as where steps are exact, these take 424 and 169 iterations.
    """
    rng = np.random.default_rng(0)
    X = sparse.random(n, d, density=0.01, format="csr", random_state=0)
    scores = X @ rng.standard_normal(d)
    scores = scores + scores.std() * rng.standard_normal(n)
    model = SVMOR(1e-5).fit(X, scores > np.quantile(scores, 0.9))
    assert model.status_ == "converged" and model.dual_gap_ <= 1e-6 * model.objective_
    assert model.n_iter_ < 120


def test_squared_hinge_of_many_words_is_solved_by_way_of_heavier_regularisers(monkeypatch):
    """Word counts by Zipf's law. At once, most steps are a hundredth of Newton's: 265 iterations."""
    n, d, n_words = 4000, 3000, 40
    p = 1.0 / np.arange(3, d + 3)
    words = np.random.default_rng(1).choice(d, size=n * n_words, p=p / p.sum())
    X = sparse.csr_array((np.ones(n * n_words), words, np.arange(0, n * n_words + 1, n_words)), shape=(n, d))
    X.sum_duplicates()
    X.data = 1.0 + np.log(X.data)
    y = np.where(np.arange(n) % 10 == 0, 1.0, -1.0)
    model = SVMOR(1e-7, loss="squared_hinge").fit(X, y)
    assert model.status_ == "converged" and model.dual_gap_ <= 1e-6 * model.objective_
    assert model.n_iter_ < 120
    monkeypatch.setattr(module, "TOO_SHORT", np.inf)
    at_once = SVMOR(1e-7, loss="squared_hinge").fit(X, y)
    assert at_once.n_iter_ > 200
    assert at_once.objective_ == pytest.approx(model.objective_, rel=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", LOSSES)
def test_rounding_does_not_make_a_certificate_of_scores_of_all_magnitudes(loss):
    """Heavy tails: P of the weights in exact arithmetic, against that of the best of other fits."""

    def exactly(w, X, y, lam):
        scores = [sum(Fraction(float(a)) * Fraction(float(b)) for a, b in zip(w, row, strict=True)) for row in X]
        pairs = [(i, j) for i in np.flatnonzero(y) for j in np.flatnonzero(~y)]
        slacks = [max(Fraction(0), 1 - scores[i] + scores[j]) for i, j in pairs]
        mean = sum(slacks if loss == "hinge" else (slack * slack / 2 for slack in slacks)) / len(pairs)
        return Fraction(lam) * sum(Fraction(float(a)) ** 2 for a in w) / 2 + mean

    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(24, 2)) * np.exp(4.0 * rng.normal(size=(24, 2)))
        y = np.argsort(np.argsort(np.log1p(np.abs(X)).sum(axis=1) * np.sign(X[:, 0]) + rng.normal(size=24))) > 17
        model = SVMOR(1e-3, loss=loss, tol=1e-8).fit(X, y)
        mine = exactly(model.coef_[0], X, y, 1e-3)
        best = min(exactly(SVMOR(1e-3, loss=loss, tol=tol).fit(X, y).coef_[0], X, y, 1e-3) for tol in (0.0, 1e-10))
        assert model.objective_ == pytest.approx(float(mine), rel=1e-6)
        assert float(mine - best) <= 1.01 * model.dual_gap_ + 1e-15, seed


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_curvature_that_is_lost_in_rounding_ends_conjugate_gradients(loss, storage):
    """Dates in nanoseconds, unscaled, and numbers whose squares are 0: ZeroDivisionError."""
    rng = np.random.default_rng(3)
    dates, y = rng.integers(0, 365, (30, 4)) * 86400e9, np.arange(30) % 5 == 0
    tiny = sparse.random_array((3000, 2000), density=1e-3, format="csr", rng=rng) * 1e-165
    for X, labels in ((storage(dates), y), (tiny, np.arange(3000) % 5 == 0)):
        model = SVMOR(1.0, loss=loss).fit(X, labels)
        assert np.isfinite(model.objective_) and model.objective_ <= 1.0 + 1e-9


def test_the_last_auc_is_that_of_the_rows_as_they_are():
    """Of whole numbers: 0.975 by scores of moved rows, which rounding told apart, 0.9 by the model's own."""
    X = [[2, -1], [-1, -1], [-2, 0], [2, -2], [-1, 0], [-1, -2], [-1, -1], [-2, 0], [1, -2], [1, 0], [-1, 2]]
    X += [[-2, -2], [-1, 2], [0, 0], [-2, 1], [1, 2], [-2, 1], [-1, 1], [1, 0], [-1, -1], [1, 0]]
    y = [-1, -1, 1] + [-1] * 18
    model = SVMOR(0.01).fit(np.array(X, float), y)
    assert model.history_["auc"][-1] == auc(y, model.decision_function(np.array(X, float)))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_the_gap_is_never_less_than_what_the_rounding_of_scores_may_make_of_it(loss):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(30, 4))
    y = X[:, 0] + rng.normal(size=30) > 0.8
    X = sparse.csr_array(X + 1e6)
    model = SVMOR(loss=loss, tol=0, max_iter=200).fit(X, y)
    assert model.dual_gap_ >= 2.0**-52 * np.abs(X @ model.coef_.ravel()).max()


def a_run(loss="squared_hinge"):
    X, y = np.array([[0.0], [1.0], [3.0]]), np.array([-1.0, -1.0, 1.0])
    return module._Run(module._pose(X, y, 0.1, loss), 1e-6, 10)


def test_rounding_in_slopes_counts_as_often_as_the_bound_has_it():
    run = a_run()
    run.bounding = SimpleNamespace(theta=5.0, band=SimpleNamespace(magnified=10.0))
    scores = np.array([1.0, -8.0]), np.array([2.0])
    assert run.rounding_of(*scores) == pytest.approx(5.0 * 10.0 * 8.0 * 2.0**-52, abs=0.0)
    run.bounding = SimpleNamespace(theta=0.1, band=SimpleNamespace(magnified=1.0))
    assert run.rounding_of(*scores) == pytest.approx(8.0 * 2.0**-52, abs=0.0)


@pytest.mark.parametrize(("loss", "at_zero"), [("hinge", 1.0), ("squared_hinge", 0.5)])
def test_no_gap_is_below_the_last_digit_of_the_objective_at_zero(loss, at_zero):
    run = a_run(loss)
    run.best, run.lower_bound = SimpleNamespace(objective=0.3), 0.3 + 1e-16
    assert run.gap == 2.0**-52 * at_zero


def test_slopes_are_feasible_where_scores_are_rounded_to_a_tenth_of_the_band():
    digit = np.spacing(1e6)
    for width in np.linspace(0.5e-9, 2e-9, 40):
        for step in range(-25, 26):
            few, many = np.array([1e6 + 1.0 + step * digit]), np.array([1e6])
            *_, of_few, of_many, _, total, _ = module._sum_pairs(*bucket_grid(few), many, width, False)
            assert 0.0 <= of_few[0] <= 1.0 and 0.0 <= of_many[0] <= 1.0 and 0.0 <= total <= 1.0


@pytest.mark.parametrize("seed", range(40))
def test_slopes_of_many_pairs_in_a_narrow_band_are_those_of_the_pairs(seed):
    """Scores of a few values, in bands that hold a constant part of all pairs: each was summed by itself, in O(n^2)."""
    rng = np.random.default_rng(seed)
    n, m, width = rng.integers(2, 60), rng.integers(2, 80), 10.0 ** rng.uniform(-9.0, -5.01)
    values = rng.normal(size=rng.integers(1, 4))
    pos = rng.choice(values, n) + width * rng.choice([0.0, 0.3, 1.0, 2.5], n) * rng.normal(size=n)
    neg = rng.choice(values, m) - 1.0 + width * rng.choice([0.0, 0.5, 2.0], m) * rng.normal(size=m)
    grid = bucket_grid(ascending(pos))
    first, last, members, _, of_places, of_many, _, total, magnified = module._sum_pairs(*grid, neg, width, False)
    slopes = np.clip((neg + 1.0 + width - np.sort(pos)[:, None]) * (0.5 / width), 0.0, 1.0)  # as they are rounded
    assert_allclose(of_places, slopes.sum(axis=1), rtol=0, atol=1e-14 * m)
    assert_allclose(of_many, slopes.sum(axis=0), rtol=0, atol=1e-14 * n)
    # both are sums of the same slopes, or there would be no dual point that they are of
    assert total == pytest.approx(of_many.sum(), rel=1e-14) == pytest.approx(of_places.sum(), rel=1e-14)
    assert magnified == (n if np.sum(last.astype(int) - first) > n + m else 1.0)
    assert members.sum() == (last.astype(int) - first).sum()


@pytest.mark.parametrize("lam", [1e-2, 1e-5])
def test_a_table_of_categories_is_solved_to_its_certified_gap(lam):
    rng = np.random.default_rng(0)
    X = np.eye(4)[rng.integers(0, 4, 5000)]
    y = ((X[:, 0] > 0.5) ^ (rng.random(5000) < 0.3)) & (rng.random(5000) < 0.6)
    model = SVMOR(lam, tol=1e-8).fit(X, y)
    assert model.status_ == "converged" and model.dual_gap_ <= 1e-8
    groups = np.argmax(X, axis=1)
    n_pos, n_neg = (np.bincount(groups[of], minlength=4) for of in (y, ~y))
    scores = model.decision_function(np.eye(4))
    pairs = n_pos[:, None] * n_neg * np.maximum(0.0, 1.0 - scores[:, None] + scores)
    norm = np.square(model.coef_).sum()
    assert model.objective_ == pytest.approx(0.5 * lam * norm + pairs.sum() / (n_pos.sum() * n_neg.sum()), rel=1e-12)
