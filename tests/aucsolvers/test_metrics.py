"""Each metric against its definition: an O(n^2) twin, enumeration of the pairs, or another library."""

import math
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse
from scipy.optimize import check_grad
from scipy.stats import norm
from sklearn.metrics import roc_auc_score

from aucsolvers import metrics

# Few distinct scores, so that ties within and between the classes are common.
LABELLED = st.lists(st.tuples(st.sampled_from([-1, 1]), st.integers(-3, 3)), min_size=2, max_size=25).filter(
    lambda rows: len({label for label, _ in rows}) == 2
)


def columns(rows):
    y, scores = np.array(rows, dtype=float).T
    return y, scores


def wins(y, scores):
    """The matrix of 1, 1/2, 0 over (positive, negative) pairs: the definition of the AUC."""
    difference = scores[y > 0][:, None] - scores[y < 0][None, :]
    return (np.sign(difference) + 1) / 2


@pytest.fixture
def problem():
    rng = np.random.default_rng(5)
    return rng.normal(size=(40, 4)) + 3.0, np.where(np.arange(40) % 3 == 0, 1, -1), rng.normal(size=4), 0.2


class TestAUC:
    @given(LABELLED)
    def test_is_the_mean_over_pairs_ties_counting_one_half(self, rows):
        y, scores = columns(rows)
        assert metrics.auc(y, scores) == pytest.approx(wins(y, scores).mean(), abs=1e-15)

    def test_is_scikit_learns(self):
        rng = np.random.default_rng(0)
        y, scores = rng.integers(2, size=500), rng.normal(size=500).round(1)
        assert metrics.auc(y, scores) == pytest.approx(roc_auc_score(y, scores), abs=1e-14)

    def test_curve_encloses_the_area(self):
        y, scores = [0, 1, 0, 1, 1], [0.1, 0.2, 0.2, 0.5, 0.05]
        fpr, tpr, thresholds = metrics.roc_curve_points(y, scores)
        assert np.trapezoid(tpr, fpr) == pytest.approx(metrics.auc(y, scores))
        assert thresholds[0] == np.inf and (fpr[-1], tpr[-1]) == (1, 1)

    def test_average_precision_of_ranks_1_and_3(self):
        # precision 1/1 at the first positive, 2/3 at the second: (1 + 2/3) / 2
        assert metrics.average_precision([1, -1, 1], [3.0, 2.0, 1.0]) == pytest.approx(5 / 6)


class TestDeLong:
    @given(LABELLED)
    def test_variance_is_that_of_the_placement_values(self, rows):
        y, scores = columns(rows)
        matrix = wins(y, scores)
        result = metrics.delong(y, scores)
        assert result.auc == pytest.approx(matrix.mean(), abs=1e-14)
        if min(matrix.shape) == 1:
            assert all(math.isnan(value) for value in result[1:])
            return
        expected = sum(matrix.mean(axis=a).var(ddof=1) / matrix.shape[1 - a] for a in (0, 1))
        assert result.variance == pytest.approx(expected, abs=1e-14)
        assert 0 <= result.low <= result.auc + 1e-14 and result.auc - 1e-14 <= result.high <= 1

    @given(LABELLED, st.randoms(use_true_random=False))
    def test_paired_variance_is_that_of_the_covariance_form(self, rows, random):
        y, a = columns(rows)
        b = np.array([random.randint(-3, 3) for _ in a], dtype=float)
        result = metrics.delong_paired(y, a, b)
        assert result.difference == pytest.approx(metrics.auc(y, a) - metrics.auc(y, b), abs=1e-14)
        if min(np.sum(y > 0), np.sum(y < 0)) > 1:
            matrices = wins(y, a), wins(y, b)
            covariance = sum(np.cov(*(m.mean(axis=c) for m in matrices)) / matrices[0].shape[1 - c] for c in (0, 1))
            expected = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
            assert result.variance == pytest.approx(expected, abs=1e-13)

    def test_agrees_with_the_bootstrap(self):
        rng = np.random.default_rng(1)
        positive, negative = rng.normal(1.0, 1.0, 60), rng.normal(0.0, 1.0, 200)
        y = np.r_[np.ones(60), np.zeros(200)]
        areas = [
            metrics.auc_of_classes(rng.choice(positive, 60), rng.choice(negative, 200)) for _ in range(2000)
        ]  # resampling within the classes, as DeLong's variance takes their sizes as given
        result = metrics.delong(y, np.r_[positive, negative])
        assert math.sqrt(result.variance) == pytest.approx(np.std(areas), rel=0.1)
        assert [result.low, result.high] == pytest.approx(np.quantile(areas, [0.025, 0.975]), abs=0.02)

    @given(st.floats(0.01, 0.99), st.floats(1e-6, 0.1))
    def test_interval_is_symmetric_in_log_odds_by_the_delta_method(self, area, variance):
        low, high = metrics.logit_interval(area, variance)
        assert 0 <= low < area < high <= 1
        odds = [math.log(a) - math.log1p(-a) for a in (low, area, high) if 1e-12 < a < 1 - 1e-12]
        steps = np.diff(odds)
        expected = 1.959964 * math.sqrt(variance) / (area * (1 - area))
        assert steps == pytest.approx(expected, rel=1e-3)
        assert metrics.logit_interval(1 - area, variance) == pytest.approx((1 - high, 1 - low), abs=1e-12)

    def test_interval_of_nothing_and_of_no_variance(self):
        assert metrics.logit_interval(0.8, 0.0) == (0.8, 0.8) and metrics.logit_interval(1.0, 0.0) == (1.0, 1.0)
        assert all(map(math.isnan, metrics.logit_interval(0.8, math.nan)))

    def test_interval_of_few_positives_holds_the_truth_about_as_often_as_it_says(self):
        """20 positive rows and an AUC of 0.96: A +- 1.96 sd holds it in 83 of 100 draws."""
        rng, hits, plain = np.random.default_rng(0), 0, 0
        for _ in range(500):
            y = np.arange(200) < 20
            found = metrics.delong(y, rng.normal(size=200) + 2.5 * y)
            hits += found.low <= NormalDist().cdf(2.5 / math.sqrt(2)) <= found.high
            plain += abs(found.auc - NormalDist().cdf(2.5 / math.sqrt(2))) <= 1.96 * math.sqrt(found.variance)
        assert plain < 0.87 * 500 and hits > 0.88 * 500

    @given(LABELLED, st.randoms(use_true_random=False))
    def test_variance_of_groups_is_obuchowskis_by_its_own_loops(self, rows, random):
        y, scores = columns(rows)
        groups = np.array([random.choice("abcdef") for _ in y])
        result = metrics.delong(y, scores, groups)
        n_pos, n_neg = np.sum(y > 0), np.sum(y < 0)
        own = {group: ([], []) for group in np.unique(groups)}  # placement values less the AUC, of either class
        for label, score, group in zip(y, scores, groups, strict=True):
            others = scores[(y > 0) != (label > 0)]
            won = np.mean((np.sign((score - others) * np.sign(label)) + 1) / 2)
            own[group][int(label < 0)].append(won - result.auc)
        a, b = (np.array([sum(parts[side]) for parts in own.values()]) for side in (0, 1))
        i_pos, i_neg = (sum(bool(parts[side]) for parts in own.values()) for side in (0, 1))
        if min(i_pos, i_neg) < 2:
            assert all(math.isnan(value) for value in result[1:])
            return
        s10, s01 = i_pos / ((i_pos - 1) * n_pos) * np.sum(a * a), i_neg / ((i_neg - 1) * n_neg) * np.sum(b * b)
        s11 = len(own) / (len(own) - 1) * np.sum(a * b)
        assert result.variance == pytest.approx(s10 / n_pos + s01 / n_neg + 2 * s11 / (n_pos * n_neg), abs=1e-13)

    @given(LABELLED, st.integers(1, 4), st.randoms(use_true_random=False))
    def test_copies_of_rows_add_nothing_where_they_are_a_group(self, rows, times, random):
        """By rows the variance would shrink with every copy; groups of one row are DeLong's."""
        y, a = columns(rows)
        b = np.array([random.randint(-3, 3) for _ in a], dtype=float)
        groups, (copied, of_a, of_b) = np.repeat(np.arange(len(y)), times), (np.repeat(v, times) for v in (y, a, b))
        one, many = metrics.delong(y, a), metrics.delong(copied, of_a, groups)
        assert many == pytest.approx(one, abs=1e-12, nan_ok=True)
        one, many = metrics.delong_paired(y, a, b), metrics.delong_paired(copied, of_a, of_b, groups)
        assert many[:2] == pytest.approx(one[:2], abs=1e-12, nan_ok=True)

    def test_interval_of_patients_holds_the_truth_where_that_of_their_visits_does_not(self):
        """40 patients with six visits each, ill or not for good; half of a score's variance is the patient's own."""
        rng, hits, plain = np.random.default_rng(0), 0, 0
        patient, truth = np.repeat(np.arange(40), 6), NormalDist().cdf(1.5 / 2.0)
        for _ in range(400):
            ill = (rng.random(40) < 0.4)[patient]
            scores = 1.5 * ill + rng.normal(size=40)[patient] + rng.normal(size=240)
            by_patients, by_visits = metrics.delong(ill, scores, patient), metrics.delong(ill, scores)
            hits += by_patients.low <= truth <= by_patients.high
            plain += by_visits.low <= truth <= by_visits.high
        assert plain < 0.78 * 400 and hits > 0.91 * 400

    @pytest.mark.parametrize("seed", range(40))
    def test_pairs_of_one_score_leave_no_variance_and_no_rounding_below_it(self, seed):
        """A case and a control of each person, and a score that is the person's: the root of -1e-20 was to be drawn."""
        rng = np.random.default_rng(seed)
        n = int(rng.integers(3, 60))
        y, persons = np.repeat([1, -1], n), np.tile(np.arange(n), 2)
        a, b = (np.tile(rng.normal(size=n), 2) for _ in range(2))
        assert metrics.delong(y, a, persons) == pytest.approx((0.5, 0.0, 0.5, 0.5), abs=1e-15)
        assert metrics.delong(y, a, persons).variance == 0.0
        assert metrics.delong_paired(y, a, b, persons) == pytest.approx((0.0, 0.0, 0.0, 1.0), abs=1e-15)

    def test_groups_are_one_a_row(self):
        with pytest.raises(ValueError, match=r"Expected groups of shape \(4,\), as y, got \(3,\)"):
            metrics.delong([0, 0, 1, 1], [1, 2, 3, 4], [1, 2, 3])

    def test_of_a_scorer_with_itself_finds_nothing(self):
        assert metrics.delong_paired([0, 1, 0, 1], [1, 2, 3, 4], [1, 2, 3, 4]) == (0.0, 0.0, 0.0, 1.0)

    def test_p_value_is_the_two_sided_normal_tail(self):
        rng = np.random.default_rng(2)
        y = np.repeat([1, 0], [50, 150])
        good, bad = rng.normal(y, 1.0), rng.normal(0.3 * y, 1.0)
        result = metrics.delong_paired(y, good, bad)
        assert result.z == pytest.approx(result.difference / math.sqrt(result.variance))
        assert 0 < result.p_value < 0.05 and metrics.delong_paired(y, bad, good).p_value == result.p_value

    def test_says_nan_where_no_test_is_possible(self):
        separating, tied = [0, 0, 1, 1], [0, 0, 0, 0]  # variances 0, AUCs 1 and 1/2
        assert metrics.delong([0, 0, 1, 1], tied) == (0.5, 0.0, 0.5, 0.5)
        assert math.isnan(metrics.delong_paired([0, 0, 1, 1], separating, tied).p_value)


class TestThreshold:
    @staticmethod
    def gmean_at(y, scores, threshold):
        return metrics.gmean(y, np.where(scores > threshold, 1.0, -1.0))

    @given(LABELLED)
    def test_no_cut_is_better(self, rows):
        y, scores = columns(rows)
        cuts = [scores.min() - 1, *np.unique(scores)]  # `score > t` takes every value it can at these
        best = max(self.gmean_at(y, scores, cut) for cut in cuts)
        chosen = metrics.best_gmean_threshold(y, scores)
        assert self.gmean_at(y, scores, chosen) == pytest.approx(best, rel=1e-14)
        if best == 0:
            assert chosen == scores.max()

    @settings(max_examples=200)
    @given(st.floats(min_value=-1.7e308, max_value=1.7e308, allow_subnormal=True))
    def test_separates_neighbouring_floats(self, low):
        high = np.nextafter(low, np.inf)
        assert low <= metrics.best_gmean_threshold([-1, 1], [low, high]) < high

    def test_spans_the_range_of_floats(self):
        with np.errstate(all="raise"):
            assert metrics.best_gmean_threshold([0, 1], [-1.7e308, 1.7e308]) == 0.0

    def test_of_equal_cuts_takes_the_widest_then_the_lowest(self):
        # the cut after the first row has TP * TN = 2 * 1, after the second 1 * 1, after the third 1 * 2
        assert metrics.best_gmean_threshold([0, 1, 0, 1], [1.0, 2.0, 5.0, 8.0]) == 6.5
        assert metrics.best_gmean_threshold([0, 1, 0, 1], [1.0, 2.0, 3.0, 4.0]) == 1.5

    @given(LABELLED, st.integers(0, 2**32 - 1))
    def test_what_is_left_between_scores_that_tie_moves_no_row_across(self, rows, seed):
        y, scores = columns(rows)
        plain = metrics.best_gmean_threshold(y, scores)
        near = scores + np.random.default_rng(seed).uniform(-1e-7, 1e-7, len(scores))
        assert_array_equal(near > metrics.best_gmean_threshold(y, near, tied_within=1e-6), scores > plain)
        if len(set(scores)) == len(scores) and plain < scores.max():
            assert metrics.best_gmean_threshold(y, scores, tied_within=1e-6) == plain

    @pytest.mark.parametrize("remote", [-1e12, 1e3, 1e6, 1e12])
    def test_a_remote_score_makes_no_others_equal(self, remote):
        rng = np.random.default_rng(5)
        scores, y = rng.normal(size=400), rng.random(400) < 0.3
        width, beside = metrics.tie_width(scores), np.append(scores, remote)
        assert width == pytest.approx(1e-5 * scores.std())
        assert width <= metrics.tie_width(beside) < 6.0 * width
        found = metrics.best_gmean_threshold(np.append(y, False), beside, tied_within=metrics.tie_width(beside))
        exact = metrics.best_gmean_threshold(np.append(y, False), beside)
        assert_array_equal(scores > found, scores > exact)

    @pytest.mark.parametrize("scores, spread", [([0.0] * 99 + [1.0], 99**0.5 / 100), ([0.0] * 400 + [1.0] * 3, None)])
    def test_where_nearly_all_scores_are_equal_their_standard_deviation_tells(self, scores, spread):
        scores = np.array(scores)
        assert metrics.tie_width(scores) == pytest.approx(1e-5 * (scores.std() if spread is None else spread))

    @pytest.mark.parametrize("left", [1e-7, 1e-8, 1e-12, 1e-16])
    def test_what_a_solver_left_between_the_scores_of_nearly_all_rows_is_no_spread(self, left):
        """Free support vectors at -1, negative and positive ones, and 18 positives alone at 1: the cut is between."""
        scores = np.append(-1.0 + left * np.random.default_rng(0).normal(size=3060), np.ones(18))
        y = np.arange(3078) >= 3000
        cut = metrics.best_gmean_threshold(y, scores, tied_within=metrics.tie_width(scores))
        assert np.sum(scores > cut) == 18

    def test_equal_scores_have_no_width(self):
        assert metrics.tie_width(np.ones(7)) == 0.0

    @pytest.mark.filterwarnings("error")
    def test_scores_whose_squares_overflow_have_a_width_by_their_range(self):
        assert metrics.tie_width(np.array([1e300, -1e300, 1e305])) == pytest.approx(1.00001e300)

    def test_a_width_that_overflowed_is_none(self):
        assert metrics.best_gmean_threshold([0, 1], [1e300, 1e305], tied_within=np.inf) < 1e305

    def test_rates(self):
        y, predicted = ["no", "no", "no", "yes", "yes"], ["no", "yes", "yes", "yes", "no"]
        assert metrics.sensitivity(y, predicted) == 1 / 2
        assert metrics.specificity(y, predicted) == pytest.approx(1 / 3)
        assert metrics.gmean(y, predicted) == pytest.approx(math.sqrt(1 / 6))


class TestSmoothedThreshold:
    @staticmethod
    def drawn(rng, n_pos, n_neg, apart=2.0):
        return np.repeat([1, 0], [n_pos, n_neg]), np.r_[rng.normal(apart, 1.0, n_pos), rng.normal(0.0, 1.0, n_neg)]

    @staticmethod
    def quality(y, scores, cuts):
        """G^2 of the kernel estimates at each cut, by the definition: every pair of a cut and a score."""
        pos, neg = scores[y == 1], scores[y == 0]
        widths = []
        for s in (pos, neg):
            spreads = s.std(), np.subtract(*np.quantile(s, [0.75, 0.25])) / 1.349
            if max(spreads) > 0:
                widths.append(0.9 * min(spread for spread in spreads if spread > 0) * len(s) ** -0.2)
        width = np.prod(widths) ** (1 / len(widths))
        found, spared = norm.cdf((pos[:, None] - cuts) / width), norm.cdf((cuts - neg[:, None]) / width)
        return found.mean(axis=0) * spared.mean(axis=0)

    def reference(self, y, scores, points=4001):
        grid = np.linspace(scores.min(), scores.max(), points)
        return grid[np.argmax(self.quality(y, scores, grid))], grid[1] - grid[0]

    @pytest.mark.parametrize("seed", range(5))
    def test_is_the_best_cut_of_the_kernel_estimates(self, seed):
        y, scores = self.drawn(np.random.default_rng(seed), 12, 150)
        expected, step = self.reference(y, scores)
        assert metrics.smoothed_gmean_threshold(y, scores) == pytest.approx(expected, abs=step)

    def test_varies_less_and_cuts_new_rows_better_than_the_best_cut_of_few_scores(self):
        rng = np.random.default_rng(0)
        cuts = {metrics.best_gmean_threshold: [], metrics.smoothed_gmean_threshold: []}
        for _ in range(100):
            y, scores = self.drawn(rng, 10, 100)
            for rule, found in cuts.items():
                found.append(rule(y, scores))
        reached = [np.sqrt(norm.cdf(2.0 - np.array(found)) * norm.cdf(found)).mean() for found in cuts.values()]
        plain, smooth = (np.std(found) for found in cuts.values())
        assert smooth < 0.75 * plain
        assert norm.cdf(1.0) > reached[1] > reached[0] + 0.01  # no cut is better than that half way, at 1

    def test_of_many_rows_quantiles_stand_for_a_class(self):
        y, scores = self.drawn(np.random.default_rng(0), 2_000, 4_000)
        expected, step = self.reference(y, scores, points=801)
        assert metrics.smoothed_gmean_threshold(y, scores) == pytest.approx(expected, abs=step)

    @settings(deadline=None, max_examples=50)
    @given(
        st.integers(0, 2**32),
        st.integers(2, 30),
        st.integers(2, 30),
        st.sampled_from([1e-300, 1e-3, 1.0, 7.0, 1e300]),
        st.floats(-100, 100),
    )
    def test_moves_with_the_scores_and_turns_with_the_classes(self, seed, n_pos, n_neg, factor, offset):
        y, scores = self.drawn(np.random.default_rng(seed), n_pos, n_neg, apart=1.0)
        cut = metrics.smoothed_gmean_threshold(y, scores)
        with np.errstate(divide="raise", over="raise", invalid="raise"):
            moved = metrics.smoothed_gmean_threshold(y, factor * (scores + offset))
        turned = -metrics.smoothed_gmean_threshold(1 - y, -scores)
        # of two cuts that are about equally good, close together, the search may end at either
        reached = self.quality(y, scores, np.array([cut, moved / factor - offset, turned]))
        assert reached == pytest.approx(reached[0], abs=1e-3)

    @pytest.mark.parametrize("positive", [[1000.0, 1001.0, 1002.0], [1000.0, 1100.0, 1200.0]])
    def test_a_wide_gap_is_cut_in_the_middle(self, positive):
        cut = metrics.smoothed_gmean_threshold([0, 0, 0, 1, 1, 1], [0.0, 1.0, 2.0, *positive])
        assert cut == pytest.approx(501.0, abs=2.0)

    @pytest.mark.parametrize("tied", [0, 1])
    def test_a_class_of_equal_scores_takes_the_others_bandwidth(self, tied):
        rng = np.random.default_rng(0)
        y, spread = np.repeat([1 - tied, tied], [40, 3]), 2.0 * tied - 1.0
        scores = np.r_[rng.normal(0.0, 1.0, 40), np.full(3, 2.0 * spread)]
        expected, step = self.reference(y, scores)
        assert metrics.smoothed_gmean_threshold(y, scores) == pytest.approx(expected, abs=step)

    def test_quantiles_of_many_rows_turn_with_the_classes(self):
        y, scores = self.drawn(np.random.default_rng(0), 2_000, 4_000)
        cut, turned = metrics.smoothed_gmean_threshold(y, scores), metrics.smoothed_gmean_threshold(1 - y, -scores)
        assert cut == pytest.approx(-turned, abs=1e-6)

    def test_tails_may_vanish_where_numpy_raises(self):
        y, scores = np.repeat([0, 1], [40, 40]), np.r_[np.linspace(0.0, 1.0, 40), np.linspace(50.0, 90.0, 40)]
        with np.errstate(all="raise"):
            assert 1.0 < metrics.smoothed_gmean_threshold(y, scores) < 50.0

    def test_equal_scores_are_cut_as_they_are(self):
        y = [0, 0, 0, 1, 1]
        for scores in ([0, 0, 0, 1, 1], [4, 4, 4, 4, 4], [1, 1, 1, 0, 0]):
            assert metrics.smoothed_gmean_threshold(y, scores) == metrics.best_gmean_threshold(y, scores)

    def test_the_end_is_no_worse_than_what_was_met_on_the_way(self):
        """With most scores of both classes at 0 the search about the best of the grid ended at 1.52, G-mean 0."""
        y = np.repeat([1, 0], [30, 34])
        scores = np.r_[-0.17, np.zeros(29), 1.52, -2.10, -0.05, np.zeros(31)]
        cut = metrics._smoothed_cut(y == 1, scores)
        grid = np.linspace(-2.2, 1.6, 2001)
        assert self.quality(y, scores, np.array([cut])) >= self.quality(y, scores, grid).max() - 1e-6

    @settings(deadline=None, max_examples=50)
    @given(st.integers(0, 2**32), st.integers(2, 30), st.integers(2, 40))
    def test_it_is_the_largest_where_most_scores_are_tied(self, seed, n_pos, n_neg):
        rng = np.random.default_rng(seed)
        y = np.repeat([1, 0], [n_pos, n_neg])
        scores = np.where(rng.random(len(y)) < 0.85, 0.0, rng.normal(size=len(y)))
        if np.ptp(scores[y == 1]) == np.ptp(scores[y == 0]) == 0.0:
            return
        cut = metrics._smoothed_cut(y == 1, scores)
        grid = np.concatenate([np.unique(scores), np.linspace(scores.min(), scores.max(), 301)])
        # what is narrower than the grid may be missed, not what is wide
        assert self.quality(y, scores, np.array([cut])) >= self.quality(y, scores, grid).max() - 0.02

    @pytest.mark.parametrize("noise", [0.0, 1e-9])
    def test_a_tie_of_most_rows_is_not_cut_in_two(self, noise):
        """A kernel takes half of it to be above its score: all rows were predicted negative."""
        y = np.repeat([0, 1], [2627, 289])
        scores = np.r_[np.zeros(803), np.ones(1824), np.zeros(4), np.ones(285)]
        scores += noise * np.random.default_rng(0).random(len(y))  # what a solver leaves
        cut = metrics.smoothed_gmean_threshold(y, scores)
        assert metrics.gmean(y, np.where(scores > cut, 1, 0)) == pytest.approx(math.sqrt(285 / 289 * 803 / 2627))

    def test_of_few_values_it_costs_no_more_than_chance_might(self):
        rng, spared = np.random.default_rng(0), 0
        for _ in range(200):
            values = np.sort(rng.normal(size=rng.integers(2, 5)))
            n_pos, n_neg = rng.integers(5, 60), rng.integers(50, 600)
            y = np.repeat([1, 0], [n_pos, n_neg])
            shares = [rng.dirichlet(np.ones(len(values))) for _ in range(2)]
            scores = np.r_[rng.choice(values, n_pos, p=shares[0]), rng.choice(values, n_neg, p=shares[1])]
            cut = metrics.best_gmean_threshold(y, scores)
            hits = np.sum(scores[y == 1] > cut), np.sum(scores[y == 0] <= cut)
            rates = [(hit + 1) / (n + 2) for hit, n in zip(hits, (n_pos, n_neg), strict=True)]
            variances = [rate * (1 - rate) / (n + 2) for rate, n in zip(rates, (n_pos, n_neg), strict=True)]
            # of sqrt(r s), to first order
            error = math.sqrt(sum(v / rate**2 for v, rate in zip(variances, rates, strict=True)) * math.prod(rates)) / 2
            cuts = cut, metrics.smoothed_gmean_threshold(y, scores), metrics._smoothed_cut(y == 1, scores)
            best, given, alone = (metrics.gmean(y, np.where(scores > cut, 1, 0)) for cut in cuts)
            assert best - given <= 2.0 * error + 1e-12
            spared += best - alone > 2.0 * error
        assert spared > 3

    def test_scores_mostly_equal_still_have_a_spread(self):
        y = np.repeat([0, 1], [40, 8])
        scores = np.r_[np.zeros(30), np.linspace(0.1, 0.3, 10), np.linspace(0.4, 1.0, 8)]
        assert 0.2 < metrics.smoothed_gmean_threshold(y, scores) < 0.6


class TestPairwiseObjectives:
    @staticmethod
    def margins(w, X, y):
        scores = X @ w
        return scores[y > 0][:, None] - scores[y < 0][None, :]

    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array, sparse.csc_matrix])
    def test_are_means_over_pairs(self, problem, storage):
        X, y, w, lam = problem
        margins, norm = self.margins(w, X, y), w @ w
        hinge = metrics.pairwise_hinge_objective(w, storage(X), y, lam)
        square = metrics.pairwise_square_objective(w, storage(X), y, lam)
        assert hinge == pytest.approx(lam / 2 * norm + np.maximum(0, 1 - margins).mean(), rel=1e-13)
        assert square == pytest.approx(lam / 2 * norm + np.square(1 - margins).mean() / 2, rel=1e-13)

    @pytest.mark.parametrize("loss", ["hinge", "square"])
    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
    def test_gradients_are_those_of_finite_differences(self, problem, storage, loss):
        X, y, w, lam = problem
        objective, gradient = (getattr(metrics, f"pairwise_{loss}_{kind}") for kind in ("objective", "gradient"))
        # a small w keeps the hinge away from most kinks; no margin is within the step of 1
        assert np.abs(self.margins(w / 10, X, y) - 1).min() > 1e-6
        assert check_grad(objective, gradient, w / 10, storage(X), y, lam) < 1e-6

    def test_hinge_survives_a_large_common_offset(self):
        # multiples of 1/8 below 2^43 are floats, so the moved scores are exact: only summing them could round
        rng = np.random.default_rng(0)
        positive, negative = (rng.integers(-20, 20, size) / 8 for size in (30, 70))
        moved = metrics.mean_pair_hinge(positive + 2.0**42, negative + 2.0**42)
        assert moved == pytest.approx(metrics.mean_pair_hinge(positive, negative), rel=1e-12)

    @given(LABELLED)
    def test_violations_are_counted_for_both_sides(self, rows):
        y, scores = columns(rows)
        violated = scores[y > 0][:, None] - scores[y < 0][None, :] < 1
        of_positives, of_negatives = metrics.margin_violations(scores[y > 0], scores[y < 0])
        assert of_positives.tolist() == violated.sum(axis=1).tolist()
        assert of_negatives.tolist() == violated.sum(axis=0).tolist()


class TestRefusals:
    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    def test_scores_must_be_finite(self, bad):
        thresholds = metrics.best_gmean_threshold, metrics.smoothed_gmean_threshold
        for metric in (metrics.auc, metrics.delong, *thresholds, metrics.roc_curve_points):
            with pytest.raises(ValueError, match="Expected finite scores, got 1"):
                metric([0, 1, 1], [0.0, 1.0, bad])

    def test_labels_must_be_of_two_classes(self):
        with pytest.raises(ValueError, match="two classes in y, got 1"):
            metrics.auc([1, 1], [0.0, 1.0])
        with pytest.raises(ValueError, match="two classes in y, got 3"):
            metrics.gmean([1, 2, 3], [1, 2, 3])

    def test_shapes_must_agree(self):
        with pytest.raises(ValueError, match=r"shape \(2,\), as y, got \(3,\)"):
            metrics.auc([0, 1], [1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="as y, got"):
            metrics.gmean([0, 1], [1])
        with pytest.raises(ValueError, match="one dimension"):
            metrics.auc([[0], [1]], [1.0, 2.0])
        with pytest.raises(ValueError, match="one weight per column"):
            metrics.pairwise_square_objective([1.0], np.eye(2), [0, 1], 1.0)

    def test_predictions_must_be_labels(self):
        with pytest.raises(ValueError, match="Pass labels, not scores"):
            metrics.gmean([0, 1], [0.3, 0.7])

    @pytest.mark.parametrize("lam", [0.0, -1.0, np.nan, np.inf])
    def test_lam_must_be_positive(self, lam):
        with pytest.raises(ValueError, match="Expected lam > 0"):
            metrics.pairwise_hinge_gradient([0.0], [[0.0], [1.0]], [0, 1], lam)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (["a", "2", "3", "4"], "real numbers as scores, got <U1"),
        (np.array([0.1, 0.4, 0.35, 0.8]) * (1 + 1j), "real numbers as scores, got complex128"),
        (np.array([1, 2, 3, 10**400], dtype=object), "one that is none: int too large"),
        (np.array([1, 2, 3, None], dtype=object), "finite scores, got 1 nan"),
        (np.array([1, 2, 3, "x"], dtype=object), "one that is none: could not convert string to float: 'x'"),
        (np.array([1, 2, 2**53, 2**53 + 1]), "whole numbers above 2\\^53. Pass their ranks"),
        (np.array([1, 2, 2**53, 2**53 + 1], dtype=object), "whole numbers above 2\\^53"),
        (np.array([1, 2, 2**64 - 2, 2**64 - 1], dtype=np.uint64), "whole numbers above 2\\^53"),
    ],
)
def test_scores_that_would_not_be_the_same_in_double_precision_are_refused(scores, words):
    """Whole numbers next to each other, of hashes say, became ties, and complex ones lost a part."""
    with pytest.raises(ValueError, match=words):
        metrics.auc([0, 0, 1, 1], scores)


@pytest.mark.parametrize("dtype", [object, np.int64, np.uint8, bool, np.float32, np.longdouble])
def test_scores_of_any_real_type_are_those_of_double_precision(dtype):
    assert metrics.auc([0, 1, 0, 1, 1], np.array([0, 1, 1, 1, 0]).astype(dtype)) == pytest.approx(7 / 12)


def test_large_whole_numbers_that_stay_apart_are_scores():
    """Nanoseconds since 1970."""
    assert metrics.auc([0, 0, 1, 1], np.array([1, 3, 2, 4]) * 10**18) == 0.75


@pytest.mark.parametrize("missing", [np.nan, None, pd.NA])
def test_rows_of_no_group_are_refused(missing):
    """They counted as one group, whose rows say little about the variance of all others."""
    y, scores = np.arange(12) % 2, np.random.default_rng(0).normal(size=12)
    groups = np.array([*"abcdefghij", missing, missing], dtype=object)
    with pytest.raises(ValueError, match="Expected a group for every row, got 2 nan"):
        metrics.delong(y, scores, groups)


@pytest.mark.parametrize("y", [["a", "a", 1, 1], [0, 0, "1", "1"]])
def test_labels_without_an_order_are_refused(y):
    with pytest.raises(ValueError, match="Expected a label of one kind for every row, got int and str"):
        metrics.auc(np.array(y, dtype=object), [1.0, 2.0, 3.0, 4.0])


@pytest.mark.parametrize(("area", "variance"), [(0.5, -0.1), (1.2, 0.1), (-0.1, 0.0)])
def test_an_interval_is_of_an_area_and_a_variance(area, variance):
    with pytest.raises(ValueError, match=r"Expected an AUC in \[0, 1\] and a variance >= 0"):
        metrics.logit_interval(area, variance)


@pytest.mark.parametrize("y", [[0.0, np.nan, 0.0], [1.0, np.nan, 0.0], np.array([0.0, np.nan, 0.0], dtype=object)])
@pytest.mark.parametrize(
    "metric", [metrics.auc, metrics.best_gmean_threshold, metrics.smoothed_gmean_threshold, metrics.average_precision]
)
def test_a_missing_label_is_refused(metric, y):
    """It counted as a class of no rows: compiled code read beyond the end."""
    with pytest.raises(ValueError, match="Expected a label for every row, got 1 nan"):
        metric(y, [1.0, 2.0, 3.0])
