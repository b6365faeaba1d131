"""GeometricUnderSampler against an obvious twin, against its keep rates, and inside imbalanced-learn's machinery."""

import math
import os
import warnings
from fractions import Fraction
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from imblearn.pipeline import Pipeline
from imblearn.utils.estimator_checks import parametrize_with_checks
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats
from sklearn.base import BaseEstimator, clone
from sklearn.datasets import load_svmlight_file
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, SVR, LinearSVC, NuSVC

from aucsolvers import undersampling as module
from aucsolvers._width import some_rows
from aucsolvers.kernel_svm import KernelSVM
from aucsolvers.mwmote import MWMOTE
from aucsolvers.smotenc import OneHotSMOTENC
from aucsolvers.svm import LinearSVM
from aucsolvers.undersampling import GeometricUnderSampler, bins_of_distance, hyperplane_distances

DATA = Path(os.environ.get("AUCFLOW_MIRROR", Path(__file__).parents[3] / "shared" / "data"))
untimed = settings(deadline=None)  # a busy machine is no failure


class KnownPlane(BaseEstimator):
    """A hyperplane that is given, not learnt: f(x) = 2 x_0, so that the distance of a row is |x_0|."""

    def fit(self, X, y):
        self.coef_ = np.array([[2.0] + [0.0] * (X.shape[1] - 1)])
        return self

    def decision_function(self, X):
        return np.asarray(X @ self.coef_.ravel())


def at_distances(majority, n_min):
    """Return one-feature rows: the majority (0) at the given distances of KnownPlane, then n_min minority rows (1)."""
    X = np.append(-np.asarray(majority, dtype=float), np.ones(n_min)).reshape(-1, 1)
    return X, np.repeat([0, 1], [len(majority), n_min])


def resample(scheme, majority, n_min, seed=0, **parameters):
    sampler = GeometricUnderSampler(scheme, estimator=KnownPlane(), random_state=seed, **parameters)
    sampler.fit_resample(*at_distances(majority, n_min))
    return sampler


@parametrize_with_checks(
    [GeometricUnderSampler(scheme, random_state=0) for scheme in ("auto", "u1", "u2", "wu")]
    + [GeometricUnderSampler(kernel="rbf", random_state=0)]
)
def test_imbalanced_learn_contract(estimator, check):
    check(estimator)


class TestBins:
    def test_edges_by_hand(self):
        """[2, 12] in 5 bins of width 2: an inner edge belongs to the nearer bin, and gamma_min to the first."""
        distances = np.array([2.0, 3.9, 4.0, 4.1, 6.0, 11.9, 12.0])
        assert_array_equal(bins_of_distance(distances, 5), [1, 1, 1, 2, 2, 5, 5])

    @untimed
    @given(
        st.lists(st.floats(0, 1e12, allow_subnormal=False), min_size=1, max_size=30),
        st.integers(1, 40),
    )
    @example([0.1, 0.2, 0.3, 0.4], 3)  # 0.2 and 0.3 are edges up to rounding
    @example([1.0, 1.0 + 2**-52], 40)  # two neighbouring floats
    def test_agrees_with_exact_arithmetic(self, distances, n_bins):
        """The twin computes with fractions. Rounding may move a row that lies on an edge, to the bin beside it only."""
        got = bins_of_distance(np.array(distances), n_bins)
        low, high = Fraction(min(distances)), Fraction(max(distances))
        for distance, bin_ in zip(distances, got, strict=True):
            if low == high:
                assert bin_ == 1
                continue
            position = n_bins * (Fraction(distance) - low) / (high - low)
            exact = min(max(math.ceil(position), 1), n_bins)
            on_edge = abs(position - round(position)) < n_bins * 1e-15
            assert bin_ == exact or (on_edge and abs(bin_ - exact) == 1)
            assert 1 <= bin_ <= n_bins
        assert got[np.argmin(distances)] == 1
        assert got[np.argmax(distances)] == n_bins or low == high

    def test_what_is_equal_up_to_a_unit_moves_edges_by_half_a_bin_at_most(self):
        distances = np.array([2.0, 4.0, 4.1, 4.3, 11.9, 12.0])
        assert_array_equal(bins_of_distance(distances, 5, unit=0.1), [1, 1, 1, 2, 5, 5])
        # bins of width 2 and a unit of 3: edges are at 5, 7, 9, 11
        assert_array_equal(bins_of_distance(distances, 5, unit=3.0), [1, 1, 1, 1, 5, 5])

    @untimed
    @given(st.lists(st.floats(0, 1e6), min_size=2, max_size=30), st.integers(1, 20))
    def test_nearer_is_never_in_a_farther_bin(self, distances, n_bins):
        assert np.all(np.diff(bins_of_distance(np.sort(distances), n_bins)) >= 0)


class TestSchemes:
    def test_u1_rates_by_hand(self):
        sampler = resample("u1", [1, 2, 3, 4, 5], n_min=2, n_bins=4)
        assert_allclose(sampler.distances_, [1, 2, 3, 4, 5])
        assert_allclose(sampler.rates_, [1, 1, 0.75, 0.5, 0.25])

    def test_u2_takes_the_nearest_and_bins_those_alone(self):
        """One minority row: the 10 nearest of 20 stay, at distances 1 ... 10, whose far end has rate 1/9, not 1/2."""
        majority = np.random.default_rng(0).permutation(np.arange(1, 21))
        sampler = resample("u2", majority, n_min=1, n_bins=9)
        rate_of = dict(zip(majority, sampler.rates_, strict=True))
        assert_allclose([rate_of[g] for g in range(2, 11)], np.arange(9, 0, -1) / 9)
        assert rate_of[1] == 1
        assert all(rate_of[g] == 0 for g in range(11, 21))
        kept = majority[sampler.sample_indices_[:-1]]
        assert kept.max() <= 10

    def test_u2_breaks_ties_at_the_cut_by_input_order(self):
        sampler = resample("u2", [1.0] + [2.0] * 19, n_min=1, n_bins=1)
        assert_array_equal(np.flatnonzero(sampler.rates_), np.arange(10))

    @untimed
    @given(st.lists(st.integers(0, 8), min_size=5, max_size=60), st.integers(1, 4))
    def test_u2_takes_what_a_stable_sort_puts_first(self, distances, n_min):
        taken = np.flatnonzero(resample("u2", distances, n_min, n_bins=1).rates_)
        first = sorted(range(len(distances)), key=lambda i: distances[i])[: 10 * n_min]
        assert_array_equal(taken, np.sort(first))

    @pytest.mark.parametrize("remote", [1e2, 1e4, 1e6])
    def test_a_remote_row_that_u2_drops_makes_no_others_equal(self, remote):
        """What counts as equal was a part of the farthest distance of all, and far rows took the place of near ones."""
        near = np.random.default_rng(2).exponential(size=200)
        alone, beside = (resample("u2", [*near, *far], n_min=3, seed=4) for far in ((), (remote,)))
        assert set(np.flatnonzero(alone.rates_)) == set(np.argsort(near)[:30])
        assert_array_equal(beside.rates_, np.append(alone.rates_, 0.0))
        assert len(np.unique(alone.rates_)) == 11  # ten bins, and 0

    @untimed
    @given(
        st.lists(st.tuples(st.integers(0, 8), st.integers(-3, 3)), min_size=5, max_size=60),
        st.integers(1, 12),
        st.sampled_from(["u1", "u2", "wu"]),
    )
    @example([(3, 1), (3, -1)] * 30, 10, "u1")  # all equal but for their last bits: all are kept
    @example([(1, 0)] * 5 + [(2, 1)] * 10 + [(2, -1)] * 10, 10, "u2")  # ties at the cut, in input order all the same
    def test_what_is_equal_up_to_rounding_is_equal(self, rows, n_bins, scheme):
        exact = np.array([row for row, _ in rows], dtype=float)
        rounded = np.array([row * (1.0 + bits * 2.0**-52) for row, bits in rows])
        one, two = (resample(scheme, distances, n_min=1, n_bins=n_bins) for distances in (exact, rounded))
        assert_array_equal(one.rates_, two.rates_)
        assert_array_equal(one.sample_indices_, two.sample_indices_)

    def test_u2_with_too_few_rows_for_a_cut_is_u1(self):
        majority = np.random.default_rng(1).exponential(size=60)
        u1, u2 = (resample(scheme, majority, n_min=6, seed=4) for scheme in ("u1", "u2"))
        assert_array_equal(u1.sample_indices_, u2.sample_indices_)

    def test_wu_fills_quotas_and_rounds_them_up(self):
        """Bins (0, 1], (1, 2], (2, 3] hold 5, 7 and 4 rows: ceil(5), ceil(2/3 7) = 5 and ceil(4/3) = 2 are kept."""
        majority = np.array([0.0] + [0.5] * 4 + [1.5] * 7 + [3.0] * 4)
        kept_sets = set()
        for seed in range(20):
            kept = resample("wu", majority, n_min=3, seed=seed, n_bins=3).sample_indices_[:-3]
            assert [np.sum(kept < 5), np.sum((kept >= 5) & (kept < 12)), np.sum(kept >= 12)] == [5, 5, 2]
            kept_sets.add(tuple(kept))
        assert len(kept_sets) > 10  # the numbers are fixed, the rows are drawn

    @pytest.mark.parametrize(("n_majority", "scheme"), [(39, "u1"), (40, "u2"), (41, "u2")])
    def test_auto_changes_at_a_ratio_of_ten(self, n_majority, scheme):
        sampler = resample("auto", np.arange(n_majority), n_min=4)
        assert (sampler.scheme_, sampler.imbalance_ratio_) == (scheme, n_majority / 4)

    @pytest.mark.parametrize("scheme", ["u1", "u2", "wu"])
    def test_one_bin_keeps_all_candidates(self, scheme):
        sampler = resample(scheme, np.arange(50), n_min=3, n_bins=1)
        assert len(sampler.sample_indices_) == 3 + (30 if scheme == "u2" else 50)

    @pytest.mark.parametrize("scheme", ["u1", "u2", "wu"])
    def test_equal_distances_keep_all(self, scheme):
        assert len(resample(scheme, [3.0] * 20, n_min=2).sample_indices_) == 22


class TestDraw:
    @untimed
    @given(st.integers(0, 2**32), st.sampled_from(["u1", "u2"]))
    def test_one_uniform_per_majority_row_in_input_order(self, seed, scheme):
        """Replays the draw: the second stream spawned from the seed, after the estimator's."""
        rng = np.random.default_rng(0)
        X, y = at_distances(rng.exponential(size=90), 6)
        shuffled = rng.permutation(len(y))
        X, y = X[shuffled], y[shuffled]
        sampler = GeometricUnderSampler(scheme, estimator=KnownPlane(), random_state=seed)
        X_kept, y_kept = sampler.fit_resample(X, y)
        uniforms = np.random.default_rng(seed).spawn(2)[1].random(90)
        expected, position = [], 0
        for row in range(len(y)):
            if y[row] == 1:
                expected.append(row)
                continue
            if uniforms[position] < sampler.rates_[position]:
                expected.append(row)
            position += 1
        assert_array_equal(sampler.sample_indices_, expected)
        assert_array_equal(X_kept, X[expected])
        assert_array_equal(y_kept, y[expected])

    def test_rows_are_kept_at_their_rates(self):
        """2,000 rows in each of 10 bins: each count within the central 99.99 % of its binomial; the first bin whole."""
        majority = np.concatenate([[0.0], np.repeat(np.arange(10) + 0.5, 2000), [10.0]])
        kept = resample("u1", majority, n_min=5000, seed=11).sample_indices_
        kept = kept[(kept > 0) & (kept <= 20_000)] - 1
        counts = np.bincount(kept // 2000, minlength=10)
        low, high = stats.binom.interval(0.9999, 2000, 1 - np.arange(10) / 10)
        assert counts[0] == 2000
        assert np.all((low <= counts) & (counts <= high))

    def test_the_draw_and_the_estimator_have_streams_of_their_own(self):
        """An estimator that draws differently must not move the sampler's draw, and both follow from the one seed."""
        X, y = at_distances(np.arange(40), 8)
        first = GeometricUnderSampler(random_state=5).fit(X, y)
        assert not hasattr(first, "sample_indices_")
        first.fit_resample(X, y)
        again = clone(first)
        again.fit_resample(X, y)
        assert first.estimator_.random_state == again.estimator_.random_state != 5
        assert_array_equal(first.sample_indices_, again.sample_indices_)
        known = GeometricUnderSampler(estimator=LinearSVM(random_state=1), random_state=5)
        known.fit_resample(X, y)
        assert known.estimator_.random_state == 1


class TestHyperplane:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_linear_models_agree_with_the_definition(self, form):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 3))
        y = (X[:, 0] + 0.3 * rng.normal(size=60) > 0).astype(int)
        for model in (LinearSVM(), LinearSVC(), SVC(kernel="linear")):
            model.fit(form(X), y)
            w = np.ravel(model.coef_.toarray() if sparse.issparse(model.coef_) else model.coef_)
            assert_allclose(
                hyperplane_distances(model, form(X)), np.abs(X @ w + model.intercept_) / np.sqrt(w @ w), rtol=1e-9
            )

    def test_kernel_distance_agrees_with_the_gram_matrix(self):
        """||w||^2 = a'G a with G written out for exp(-gamma ||x - x'||^2)."""
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(80, 2)), rng.integers(0, 2, 80)
        model = SVC(gamma=0.7).fit(X, y)
        Z, a = model.support_vectors_, model.dual_coef_.ravel()
        G = np.exp(-0.7 * ((Z[:, None] - Z[None]) ** 2).sum(axis=2))
        assert_allclose(
            hyperplane_distances(model, X), np.abs(model.decision_function(X)) / np.sqrt(a @ G @ a), rtol=1e-9
        )

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize(
        "model",
        [SVC(kernel="poly", degree=2, coef0=1.0, gamma=0.5), NuSVC(gamma=0.5), SVC(kernel="linear"), SVC(gamma=0.5)],
        ids=str,
    )
    def test_any_kernel_is_the_gram_matrix_of_its_vectors(self, model, form):
        rng = np.random.default_rng(1)
        X, y = rng.normal(size=(80, 3)), np.arange(80) % 2
        model.fit(form(X), y)
        options = {name: getattr(model, name) for name in ("gamma", "degree", "coef0")}
        G = pairwise_kernels(X[model.support_], metric=model.kernel, filter_params=True, **options)
        a = np.ravel(model.dual_coef_.toarray() if sparse.issparse(model.dual_coef_) else model.dual_coef_)
        expected = np.abs(model.decision_function(form(X))) / np.sqrt(a @ G @ a)
        assert_allclose(hyperplane_distances(model, form(X)), expected, rtol=1e-8)

    def test_a_precomputed_kernel_is_refused(self):
        X, y = at_distances(np.arange(10), 4)
        with pytest.raises(TypeError, match=r"Expected a linear model.*got SVC"):
            hyperplane_distances(SVC(kernel="precomputed").fit(X @ X.T, y), X @ X.T)

    def test_a_model_of_three_classes_is_refused(self):
        X, y = at_distances(np.arange(30), 6)
        frozen = FrozenEstimator(LinearSVC().fit(X, np.arange(36) % 3))
        with pytest.raises(ValueError, match=r"one finite score per row, got shape \(36, 3\).*Fit it on two"):
            GeometricUnderSampler(estimator=frozen).fit_resample(X, y)

    def test_scores_that_overflow_are_refused(self):
        class Steep(KnownPlane):
            def decision_function(self, X):
                return np.asarray(X @ self.coef_.ravel()) * np.inf

        with pytest.raises(ValueError, match=r"one finite score per row.*scale the features"):
            GeometricUnderSampler(estimator=Steep()).fit_resample(*at_distances([1, 2, 3], 2))

    def test_a_fitted_model_is_used_as_it_is(self):
        X, y = at_distances(np.arange(30), 6)
        fitted = SVC(gamma=0.1).fit(X[::2], y[::2])
        sampler = GeometricUnderSampler(estimator=FrozenEstimator(fitted), random_state=0)
        sampler.fit_resample(X, y)
        assert_array_equal(sampler.distances_, hyperplane_distances(fitted, X[y == 0]))

    def test_no_hyperplane_is_an_error(self):
        with pytest.raises(ValueError, match=r"w != 0.*got w = 0 from LinearSVM.*constant"):
            GeometricUnderSampler().fit_resample(np.zeros((12, 2)), [0] * 8 + [1] * 4)

    @pytest.mark.parametrize("value", [1e-3, 1.0, 5.0, 1000.0])
    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_neither_is_one_of_rounding(self, kernel, value):
        """P is 7e-15 below that of a constant then, which tells nothing; distances were measured all the same."""
        X, y = np.full((30, 2), value), np.repeat([1, 0], [2, 28])
        with pytest.raises(ValueError, match="got w = 0 from"):
            GeometricUnderSampler(kernel=kernel).fit_resample(X, y)

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("kernel", ["linear", "rbf"])
    def test_nor_is_one_between_classes_of_the_same_rows(self, kernel, seed):
        points = np.random.default_rng(seed).normal(size=(20, 2))
        X, y = np.vstack([np.repeat(points, 5, axis=0), points]), np.repeat([0, 1], [100, 20])
        with pytest.raises(ValueError, match="got w = 0 from"):
            GeometricUnderSampler(kernel=kernel, random_state=seed).fit_resample(X, y)

    def test_a_kernel_machine_that_says_the_same_everywhere_has_no_hyperplane(self):
        """On equal rows a'G a is 0 in exact arithmetic and 1e-16 or so in ours: that is no length to divide by."""
        X, y = np.full((30, 2), 0.3), np.repeat([0, 1], [20, 10])
        with pytest.raises(ValueError, match="got w = 0 from SVC"):
            GeometricUnderSampler(estimator=SVC(gamma=1.0)).fit_resample(X, y)

    def test_an_estimator_without_weights_is_an_error(self):
        class Scorer(KnownPlane):
            def fit(self, X, y):
                return self

            def decision_function(self, X):
                return np.ones(len(X))

        with pytest.raises(TypeError, match=r"Expected a linear model.*got Scorer"):
            GeometricUnderSampler(estimator=Scorer()).fit_resample(*at_distances([1, 2, 3], 2))


def ring(n=900, n_min=30, seed=0):
    """A rare class in a disc within the other: a straight line tells nothing of who is near its edge."""
    rng = np.random.default_rng(seed)
    radius = np.append(rng.uniform(1.0, 4.0, n), rng.uniform(0.0, 0.8, n_min))
    angle = rng.uniform(0.0, 2.0 * np.pi, n + n_min)
    return radius[:, None] * np.c_[np.cos(angle), np.sin(angle)], np.repeat([0, 1], [n, n_min]), radius


class TestGaussianHyperplane:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_distances_are_those_of_the_definition(self, form):
        X, y, _ = ring()
        sampler = GeometricUnderSampler(kernel="rbf", random_state=0)
        sampler.fit_resample(form(X), y)
        svm = sampler.estimator_
        Z, a = X[svm.support_], svm.dual_coef_.ravel()
        options = {"metric": "rbf", "gamma": svm.gamma_}
        scores = pairwise_kernels(X, Z, **options) @ a + svm.intercept_
        expected = np.abs(scores[y == 0]) / np.sqrt(a @ pairwise_kernels(Z, **options) @ a)
        assert_allclose(sampler.distances_, expected, rtol=1e-7)

    @pytest.mark.parametrize("scheme", ["u1", "u2", "wu"])
    def test_it_is_that_of_a_balanced_kernel_machine(self, scheme):
        X, y, _ = ring()
        svm = KernelSVM(gamma="loo", class_weight="balanced")
        ours, given = GeometricUnderSampler(scheme, kernel="rbf"), GeometricUnderSampler(scheme, estimator=svm)
        for sampler in (ours, given):
            sampler.set_params(random_state=3).fit_resample(X, y)
        assert_allclose(ours.distances_, given.distances_, rtol=1e-9)
        assert_array_equal(ours.sample_indices_, given.sample_indices_)

    def test_it_keeps_the_rows_around_the_disc_where_a_line_keeps_any(self):
        X, y, radius = ring()
        around, kept = radius[y == 0] < 1.3, {}
        for kernel in ("linear", "rbf"):
            sampler = GeometricUnderSampler("u2", kernel=kernel, random_state=0)
            sampler.fit_resample(X, y)
            kept[kernel] = np.mean(sampler.rates_[around] > 0)
        assert kept["linear"] < 0.6 < 0.9 < kept["rbf"]  # 300 of the 900 rows have a chance

    def test_of_many_rows_it_is_fitted_to_some(self, monkeypatch):
        X, y, _ = ring()
        monkeypatch.setattr(module, "MOST_ROWS", 200)
        sampler = GeometricUnderSampler(kernel="rbf", random_state=0)
        sampler.fit_resample(X, y)
        svm, rows = sampler.estimator_, some_rows(y - 0.5, 200)
        assert np.isin(np.flatnonzero(y), rows).all() and len(rows) == 200
        assert_array_equal(svm.support_vectors_, X[rows[svm.support_]])
        assert_array_equal(sampler.distances_, hyperplane_distances(svm, X[y == 0]))
        assert len(sampler.distances_) == len(sampler.rates_) == 900

    @pytest.mark.parametrize("most", [10_000, 40])
    def test_equal_rows_have_no_hyperplane(self, most, monkeypatch):
        monkeypatch.setattr(module, "MOST_ROWS", most)
        X, y = np.full((60, 2), 0.3), np.repeat([0, 1], [40, 20])
        with pytest.raises(ValueError, match="got w = 0 from KernelSVM"):
            GeometricUnderSampler(kernel="rbf").fit_resample(X, y)

    def test_a_machine_without_a_support_vector_has_none_either(self):
        """Kernel values of 1e18 leave no step that rounding would not swallow: it was said not to be an SVM."""
        rng = np.random.default_rng(0)
        y = np.repeat([1, 0], [20, 180])
        X = 1e6 + rng.standard_normal((200, 4)) + y[:, None]
        machine = KernelSVM(kernel="poly", degree=3, coef0=1.0, class_weight="balanced")
        for form in (X, sparse.csr_array(X)):
            with pytest.raises(ValueError, match="got w = 0 from KernelSVM"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                GeometricUnderSampler(estimator=machine).fit_resample(form, y)

    def test_one_of_kernel_and_estimator(self):
        sampler = GeometricUnderSampler(kernel="rbf", estimator=KnownPlane())
        with pytest.raises(ValueError, match=r"kernel or estimator, got kernel='rbf' and KnownPlane.*Leave kernel"):
            sampler.fit_resample(*at_distances([1, 2, 3], 2))


class TestInput:
    @pytest.mark.parametrize("labels", [(0, 1), (1, 0), ("no", "yes"), (-1, 1)])
    def test_the_minority_is_found_by_counting(self, labels):
        X, codes = at_distances(np.arange(30), 4)
        y = np.array(labels)[codes]
        _, y_kept = GeometricUnderSampler("u1", estimator=KnownPlane(), random_state=0).fit_resample(X, y)
        assert np.sum(y_kept == labels[1]) == 4
        assert 1 <= np.sum(y_kept == labels[0]) < 30

    def test_a_dataframe_stays_a_dataframe(self):
        X, y = at_distances(np.arange(30), 4)
        frame = pd.DataFrame({"amount": X.ravel(), "age": np.arange(34)})
        sampler = GeometricUnderSampler(estimator=KnownPlane(), random_state=0)
        X_kept, y_kept = sampler.fit_resample(frame, pd.Series(y, name="fraud"))
        expected = frame.iloc[sampler.sample_indices_].reset_index(drop=True)
        pd.testing.assert_frame_equal(X_kept, expected)
        assert y_kept.name == "fraud"

    @pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array])
    def test_csr_stays_csr(self, form):
        X, y = at_distances(np.arange(30), 4)
        kept, _ = GeometricUnderSampler(random_state=0).fit_resample(form(X), y)
        dense, _ = GeometricUnderSampler(random_state=0).fit_resample(X, y)
        assert type(kept) is form
        assert_array_equal(kept.toarray(), dense)

    def test_every_majority_class_keeps_its_own_nearest_rows(self):
        """Class 2 lies beyond all of class 0: bins over both together would thin it out, and u2 would lose it whole."""
        X = np.concatenate([np.arange(1, 31), np.arange(1000, 1030), [-1, -1]]).reshape(-1, 1).astype(float)
        y = np.repeat([0, 2, 1], [30, 30, 2])
        sampler = GeometricUnderSampler("u2", estimator=KnownPlane(), random_state=0)
        sampler.fit_resample(X, y)
        assert_array_equal(np.flatnonzero(sampler.rates_), np.r_[np.arange(20), np.arange(30, 50)])
        assert np.isin([0, 30], sampler.sample_indices_).all()
        only_2 = sampler.set_params(sampling_strategy=[2])
        _, y_kept = only_2.fit_resample(X, y)
        assert np.sum(y_kept == 0) == 30

    @pytest.mark.parametrize(
        "bad",
        [{"scheme": "U1"}, {"scheme": None}, {"n_bins": 0}, {"n_bins": 2.5}, {"n_bins": "10"}, {"kernel": "poly"}],
    )
    def test_bad_parameters(self, bad):
        (name,) = bad
        with pytest.raises(ValueError, match=f"Expected .*{name}.*got"):
            GeometricUnderSampler(**bad).fit_resample(*at_distances([1, 2, 3], 2))

    def test_one_class_is_an_error(self):
        with pytest.raises(ValueError, match="class"):
            GeometricUnderSampler().fit_resample([[0.0], [1.0]], [0, 0])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("strategy", ["auto", "majority", [0]])
def test_arrays_that_skip_the_checks_are_sampled_as_those_that_do_not(form, dtype, strategy):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 4)).astype(dtype), (np.arange(200) % 8 == 0).astype(int)
    X.flags.writeable = False
    one = GeometricUnderSampler("u2", sampling_strategy=strategy, random_state=0)
    other = clone(one)
    (rows, labels), (expected, same) = one.fit_resample(form(X), y), other.fit_resample(form(X), y.tolist())
    assert rows.dtype == dtype and type(rows) is type(expected)
    assert_array_equal(one.sample_indices_, other.sample_indices_)
    assert_array_equal(sparse.csr_array(rows).toarray(), X[one.sample_indices_])
    assert_array_equal(labels, same)
    assert (one.n_features_in_, one.sampling_strategy_) == (other.n_features_in_, other.sampling_strategy_)


@pytest.mark.parametrize("form", [np.asarray, np.ndarray.tolist])
@pytest.mark.parametrize("strategy", [None, (0,), {0}, 2.0, "some", np.unique])
def test_a_bad_strategy_is_told_of_by_name_whatever_the_rows_come_in(form, strategy):
    X, y = at_distances(np.linspace(1, 5, 40), 5)
    with pytest.raises(ValueError, match="sampling_strategy"):
        GeometricUnderSampler(sampling_strategy=strategy).fit_resample(form(X), y)


def test_a_damaged_sparse_matrix_is_refused():
    X, y = at_distances(np.linspace(1, 5, 40), 5)
    X = sparse.csr_array(X)
    X.indptr[10] = 0
    with pytest.raises(ValueError, match="Expected indptr of 46 numbers that rise"):
        GeometricUnderSampler().fit_resample(X, y)


def test_a_frame_resampled_before_leaves_no_names_to_arrays():
    X, y = at_distances(np.linspace(1, 5, 40), 5)
    sampler = GeometricUnderSampler("u2", random_state=0)
    sampler.fit_resample(pd.DataFrame(X, columns=["a"]), y)
    sampler.fit_resample(np.hstack([X, X**2]), y)
    assert not hasattr(sampler, "feature_names_in_") and sampler.n_features_in_ == 2


def test_in_a_pipeline_and_a_search_on_real_data():
    """ijcnn1 has 9.7 % positives: cross-validation resamples training folds only and scores untouched ones."""
    if not (DATA / "libsvm" / "ijcnn1").exists():
        pytest.skip("libsvm/ijcnn1 not found: set AUCFLOW_MIRROR to a folder with libsvm/ijcnn1")
    X, y = load_svmlight_file(DATA / "libsvm" / "ijcnn1")
    X, y = X[:3000].toarray(), (y[:3000] > 0).astype(int)
    pipe = Pipeline(
        [("scale", StandardScaler()), ("sampler", GeometricUnderSampler(random_state=0)), ("svm", LinearSVM())]
    )
    grid = {"sampler__n_bins": [2, 10], "sampler__scheme": ["auto", "wu"]}
    search = GridSearchCV(pipe, grid, scoring="roc_auc", cv=3).fit(X, y)
    assert search.best_score_ > 0.85
    sampler = search.best_estimator_["sampler"]
    kept = sampler.sample_indices_
    assert np.isin(np.flatnonzero(y == 1), kept).all()
    assert y[kept].mean() > y.mean()
    assert_array_equal(search.predict(X).shape, y.shape)  # prediction does not resample


@pytest.mark.parametrize("estimator", [SVR(), LinearRegression()], ids=str)
def test_what_is_no_classifier_is_refused_in_our_words(estimator):
    X, y = rare_class(0)
    words = rf"Expected a linear model .* that classifies, got {type(estimator).__name__}\. Pass an SVM"
    with pytest.raises(TypeError, match=words):
        GeometricUnderSampler(estimator=estimator).fit_resample(X, y)


def test_a_norm_that_rounding_makes_imaginary_is_none_and_no_other_kernel_is_asked_for():
    """Sums of 1e8 that cancel to a ||w||^2 of -8e-13: the advice was to use the kernel that was used."""
    rng = np.random.default_rng(34)
    d, size = int(rng.integers(1, 6)), 10.0 ** rng.integers(-3, 4)
    X = rng.normal(size=(200, d)) * size + rng.choice([0, 10]) * size
    y = (rng.random(200) < 0.1).astype(int)
    y[:3] = 1
    svm = SVC(kernel="rbf", gamma=1e-8, class_weight="balanced", max_iter=20_000)
    with pytest.raises(ValueError, match=r"w != 0 .* got w = 0 from SVC\. .* If they are tiny or huge, scale them"):
        GeometricUnderSampler("u1", random_state=0, estimator=svm).fit_resample(X, y)


def rare_class(seed):
    rng = np.random.default_rng(seed)
    y = (np.arange(1200) % 40 == 0).astype(int)
    return rng.normal(size=(1200, 3)) + 0.7 * y[:, None], y


@pytest.mark.parametrize("tol", [1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize("seed", range(8))
def test_what_libsvms_tolerance_leaves_of_w_is_no_hyperplane_either(seed, tol):
    """Its scores differ by 1e-3 of themselves, in an order that the rows' order decides, and filled all ten bins."""
    X, y = rare_class(seed)
    svm = SVC(kernel="linear", tol=tol)
    with pytest.raises(ValueError, match="w = 0 from SVC"):
        GeometricUnderSampler(estimator=svm, random_state=0).fit_resample(X, y)
    for weighted in (SVC(kernel="linear", class_weight="balanced"), SVC(C=1e-6, class_weight="balanced"), SVC(C=100.0)):
        sampler = GeometricUnderSampler("u1", estimator=weighted, random_state=0)
        sampler.fit_resample(X, y)
        assert 0 < len(sampler.rates_) == (y == 0).sum()


class Weighted(SVC):
    def fit(self, X, y):
        return super().fit(X, y, sample_weight=np.where(y > 0, 9.0, 1.0))


@pytest.mark.parametrize(
    "svm",
    [
        SVC(kernel="linear", max_iter=5),
        Weighted(kernel="linear"),
        SVC(kernel="linear", class_weight={0: 1, 1: 40, 2: 5}),
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_svm_of_which_less_is_known_is_taken_at_its_word(svm):
    """Stopped on its way, or with weights that it does not tell, its w may be what it looks like."""
    GeometricUnderSampler("u1", estimator=svm, random_state=0).fit_resample(*rare_class(0))


@untimed
@given(
    st.lists(st.tuples(st.floats(-3, 3), st.booleans(), st.floats(0.1, 9)), min_size=2, max_size=30).filter(
        lambda rows: len({row[1] for row in rows}) == 2
    )
)
def test_the_best_bias_is_one_at_which_some_rows_loss_ends(rows):
    scores, positive, cost = (np.array(column) for column in zip(*rows, strict=True))
    signs = np.where(positive, 1.0, -1.0)
    losses = [cost @ np.maximum(0.0, 1.0 - signs * (scores + shift)) for shift in signs - scores]
    assert module._losses_at_best_bias(scores, positive, cost) == pytest.approx(min(losses), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("sampler", [GeometricUnderSampler(), MWMOTE(), OneHotSMOTENC()], ids=str)
def test_a_frame_of_polars_is_refused_with_a_way_out(sampler):
    X, y = rare_class(0)
    frame = type("DataFrame", (pd.DataFrame,), {"__module__": "polars.dataframe.frame"})(X)
    with pytest.raises(TypeError, match=r"got one of polars\. Pass X\.to_pandas"):
        sampler.fit_resample(frame, y)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_a_precomputed_kernel_is_refused_before_it_is_fitted(storage):
    X, y = rare_class(0)
    with pytest.raises(TypeError, match=r"got SVC\. Pass an SVM, with a kernel that is neither precomputed"):
        GeometricUnderSampler(estimator=SVC(kernel="precomputed")).fit_resample(storage(X), y)


@pytest.mark.parametrize("tol", [1e-2, 1e-4, 1e-8])
@pytest.mark.parametrize("seed", range(20))
def test_what_tolerance_leaves_of_w_is_no_hyperplane(seed, tol):
    """Unweighted, the hinge loss of 1 row in 40 is cheapest paid and w is 0 up to tol; noise must not sample."""
    svm = LinearSVM(tol=tol, random_state=0)
    with pytest.raises(ValueError, match="w = 0"):
        GeometricUnderSampler(estimator=svm, random_state=0).fit_resample(*rare_class(seed))


@pytest.mark.parametrize("seed", range(5))
def test_a_rare_class_still_gives_a_hyperplane(seed):
    X, y = rare_class(seed)
    sampler = GeometricUnderSampler(random_state=0)
    sampler.fit_resample(X, y)
    # the SVM ranks as well as the true direction, so near rows are the doubtful ones
    truth = X.sum(axis=1)
    assert abs(np.corrcoef(sampler.estimator_.decision_function(X), truth)[0, 1]) > 0.9


def test_a_kernel_that_is_no_inner_product_is_told_apart_from_a_vanished_hyperplane():
    X = np.random.default_rng(0).normal(size=(80, 4))
    y = (np.arange(80) % 5 == 0).astype(int)
    X[y == 1] += 0.5
    with pytest.raises(ValueError, match=r"kernel that is an inner product, got .* SVC\(kernel='sigmoid'\)"):
        GeometricUnderSampler("u1", estimator=SVC(kernel="sigmoid", class_weight="balanced")).fit_resample(X, y)
    with pytest.raises(TypeError, match="neither precomputed nor callable"):
        GeometricUnderSampler("u1", estimator=SVC(kernel=lambda a, b: a @ b.T)).fit_resample(X, y)


@pytest.mark.parametrize("scheme", ["u1", "u2"])
def test_rows_of_all_classes_have_a_number_of_their_own(scheme):
    rng = np.random.default_rng(0)
    y = rng.permutation(np.repeat([0, 2, 1], [90, 80, 6]))
    X = rng.exponential(size=(len(y), 1))
    sampler = GeometricUnderSampler(scheme, estimator=KnownPlane(), random_state=7)
    sampler.fit_resample(X, y)
    uniforms = np.random.default_rng(7).spawn(2)[1].random(170)
    others = np.flatnonzero(y != 1)
    expected = np.union1d(np.flatnonzero(y == 1), others[uniforms < sampler.rates_])
    assert_array_equal(sampler.sample_indices_, expected)


def test_the_scheme_of_all_rows_is_that_of_every_part():
    """99 to 10 is u1, 99 to 9 would be u2, which drops the farthest 9."""
    rng = np.random.default_rng(0)
    X, y = rng.exponential(size=(109, 1)), np.repeat([0, 1], [99, 10])
    sampler = GeometricUnderSampler(estimator=KnownPlane(), random_state=0)
    sampler.fit_resample(X, y)
    part = np.arange(108)
    (kept,) = sampler.kept_of_parts(X, y, [part])
    alone = GeometricUnderSampler("u1", estimator=KnownPlane(), random_state=0)
    alone.fit_resample(X[part], y[part])
    assert sampler.scheme_ == "u1"
    assert_array_equal(kept, part[alone.sample_indices_])


def test_the_minority_of_all_rows_is_that_of_every_part():
    """Of 30 to 28 rows the part has 26 to 28: the larger class of it, which is the minority, is kept."""
    rng = np.random.default_rng(0)
    X, y = rng.exponential(size=(58, 1)), np.repeat([0, 1], [30, 28])
    sampler = GeometricUnderSampler(estimator=KnownPlane(), random_state=0)
    sampler.fit_resample(X, y)
    (kept,) = sampler.kept_of_parts(X, y, [np.arange(4, 58)])
    assert np.count_nonzero(kept >= 30) == 28 and np.count_nonzero(kept < 30) < 26
    with pytest.raises(ValueError, match=r"the minority, .*1.*, in every part, got none in 30 rows"):
        list(sampler.kept_of_parts(X, y, [np.arange(30)]))


@pytest.mark.parametrize("seed", range(4))
def test_rows_that_are_equally_far_at_the_optimum_are_so_in_any_order_of_the_columns(seed):
    """Of a table of categories hundreds of rows are free support vectors: what a solver leaves drew bins among them."""
    rng = np.random.default_rng(seed)
    groups = rng.integers(0, 4, size=(1500, 6))
    X, y = np.eye(4)[groups].reshape(1500, 24), rng.random(1500) < 0.02 + 0.1 * (groups[:, :2] == [1, 2]).sum(axis=1)
    one, other = (GeometricUnderSampler("u2", random_state=0) for _ in range(2))
    one.fit_resample(X, y)
    other.fit_resample(X[:, rng.permutation(24)], y)
    assert_array_equal(one.sample_indices_, other.sample_indices_)
    tight = GeometricUnderSampler(
        "u2", estimator=LinearSVM(class_weight="balanced", tol=1e-14, random_state=0), random_state=0
    )
    tight.fit_resample(X, y)
    assert_array_equal(one.sample_indices_, tight.sample_indices_)
