"""Drift: the two measures against their definitions and scipy, and a profile that JSON does not change."""

import json
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import ks_2samp

from tasks.decide import _measured
from tasks.drift import (
    KNOTS,
    ScoreProfile,
    bins_for,
    bins_held,
    kolmogorov_smirnov,
    ks_at_most,
    ks_by_chance,
    new_rows,
    psi,
    psi_by_chance,
)
from tasks.errors import BadInput
from tasks.ledger import canonical

untimed = settings(deadline=None)  # a busy machine is no failure
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SAMPLES = st.lists(FINITE, min_size=1, max_size=40)
TIED = st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=40)
EITHER = st.one_of(SAMPLES, TIED)


def distance(a, b):
    """The definition of Kolmogorov and Smirnov's statistic, at every score."""
    a, b = np.asarray(a), np.asarray(b)
    return max(abs((a <= x).mean() - (b <= x).mean()) for x in [*a, *b])


def textbook_psi(expected, actual, bins=10):
    edges = np.sort(expected)[[math.ceil(j * len(expected) / bins) - 1 for j in range(1, bins)]]
    e, a = (np.bincount(np.searchsorted(edges, s), minlength=bins) / len(s) for s in (expected, actual))
    return float(np.sum((a - e) * np.log(a / e)))


class TestScoreProfile:
    @untimed
    @given(EITHER)
    def test_survives_json_bit_for_bit(self, scores):
        profile = ScoreProfile.of(np.array(scores))
        read = ScoreProfile.from_dict(json.loads(canonical(profile.as_dict())))
        assert read == profile and canonical(read.as_dict()) == canonical(profile.as_dict())
        assert np.array(read.scores).tobytes() == np.array(profile.scores).tobytes()

    @untimed
    @given(EITHER, st.integers(1, 12))
    def test_counts_are_those_of_the_scores(self, scores, knots):
        scores, profile = np.array(scores), ScoreProfile.of(np.array(scores), knots)
        assert profile.n_rows == len(scores)
        assert (profile.scores[0], profile.scores[-1]) == (scores.min(), scores.max())
        for knot, below, up_to in zip(profile.scores, profile.below, profile.up_to, strict=True):
            assert (below, up_to) == ((scores < knot).sum(), (scores <= knot).sum())

    @untimed
    @given(EITHER, st.integers(1, 12))
    def test_error_is_the_largest_share_between_knots_and_below_its_bound(self, scores, knots):
        scores, profile = np.array(scores), ScoreProfile.of(np.array(scores), knots)
        between = [((low < scores) & (scores < high)).mean() for low, high in pairwise(profile.scores)]
        assert profile.error == pytest.approx(max(between, default=0.0)) and profile.error < 1 / knots

    def test_of_many_scores_is_small(self):
        profile = ScoreProfile.of(np.random.default_rng(0).normal(size=200_000))
        assert len(profile.scores) == KNOTS + 1 and len(canonical(profile.as_dict())) < 20_000
        assert 0 < profile.error < 1 / KNOTS

    @pytest.mark.parametrize(
        "change",
        [
            {"schema": "aucflow-scores/2"},
            {"scores": []},
            {"scores": [0.0, 0.0]},
            {"scores": [0.0, math.nan]},
            {"scores": [0.0, math.inf]},
            {"scores": [0.0, "1"]},
            {"scores": [0.0, [1.0]]},
            {"scores": 1.0},
            {"scores": None},
            {"below": [1, 1]},
            {"below": [0, 0]},
            {"below": [0]},
            {"below": [1, 2], "up_to": [2, 3]},
            {"up_to": [1, 1]},
            {"up_to": [1.0, 2.0]},
            {"more": 1},
        ],
    )
    def test_refuses_what_is_no_profile(self, change):
        data = ScoreProfile.of(np.array([0.0, 1.0])).as_dict()
        assert ScoreProfile.from_dict(data).n_rows == 2
        with pytest.raises(BadInput, match="Expected a profile of scores"):
            ScoreProfile.from_dict(data | change)

    @pytest.mark.parametrize("data", [None, [], "scores", {}])
    def test_refuses_other_json(self, data):
        with pytest.raises(BadInput, match="aucflow-scores/1"):
            ScoreProfile.from_dict(data)


class TestKolmogorovSmirnov:
    @untimed
    @given(EITHER, EITHER)
    def test_is_the_definition_where_every_score_is_a_knot(self, expected, actual):
        found = kolmogorov_smirnov(ScoreProfile.of(np.array(expected)), np.array(actual))
        assert found == pytest.approx(distance(expected, actual), abs=1e-15)

    @untimed
    @given(EITHER, EITHER, st.integers(1, 8))
    def test_is_within_its_error_where_not(self, expected, actual, knots):
        profile, exact = ScoreProfile.of(np.array(expected), knots), distance(expected, actual)
        found = kolmogorov_smirnov(profile, np.array(actual))
        assert found <= exact + 1e-12 and exact <= found + profile.error + 1e-12

    def test_is_scipys_to_the_stated_error(self):
        rng = np.random.default_rng(1)
        expected, actual = rng.normal(size=20_000), rng.normal(0.3, 1.2, 3_000)
        found = kolmogorov_smirnov(ScoreProfile.of(expected), actual)
        exact = ks_2samp(expected, actual).statistic
        assert exact - 1 / KNOTS < found <= exact + 1e-12
        assert kolmogorov_smirnov(ScoreProfile.of(expected, 20_000), actual) == pytest.approx(exact, abs=1e-14)

    def test_of_normal_scores_that_move_by_half_a_standard_deviation(self):
        rng = np.random.default_rng(2)
        profile = ScoreProfile.of(rng.normal(size=200_000))
        moved = rng.normal(0.5, 1.0, 200_000)
        assert kolmogorov_smirnov(profile, moved) == pytest.approx(0.2, abs=0.01)
        assert psi(profile, moved) == pytest.approx(0.25, abs=0.02)


class TestPSI:
    def test_is_the_textbooks_where_no_bin_is_empty(self):
        rng = np.random.default_rng(3)
        expected, actual = rng.normal(size=500), rng.normal(0.4, 1.0, 300)
        assert psi(ScoreProfile.of(expected), actual) == pytest.approx(textbook_psi(expected, actual), rel=1e-12)
        assert psi(ScoreProfile.of(expected), actual, 4) == pytest.approx(textbook_psi(expected, actual, 4), rel=1e-12)

    def test_hardly_depends_on_the_knots(self):
        rng = np.random.default_rng(4)
        expected, actual = rng.gamma(2.0, size=30_000), rng.gamma(2.3, size=30_000)
        every = ScoreProfile.of(expected, len(expected))
        assert psi(ScoreProfile.of(expected), actual) == pytest.approx(psi(every, actual), rel=0.02)

    @untimed
    @given(EITHER)
    def test_of_the_same_scores_is_nothing(self, scores):
        assert psi(ScoreProfile.of(np.array(scores)), np.array(scores)) == 0.0

    @untimed
    @given(EITHER, EITHER)
    def test_is_finite_and_not_negative(self, expected, actual):
        assert 0.0 <= psi(ScoreProfile.of(np.array(expected)), np.array(actual)) < math.inf

    @untimed
    @given(TIED, TIED)
    def test_both_measures_see_ranks_alone(self, expected, actual):
        expected, actual = np.array(expected), np.array(actual)
        before, after = ScoreProfile.of(expected), ScoreProfile.of(np.exp(expected) - 7.0)
        for measure in (psi, kolmogorov_smirnov):
            assert measure(before, actual) == measure(after, np.exp(actual) - 7.0)

    def test_an_empty_bin_counts_as_half_a_row(self):
        profile = ScoreProfile.of(np.array([1.0, 2.0, 3.0, 4.0]))
        # two bins of 1/2 each against 1 and 0, the 0 taken as 0.5 of 5 rows
        expected = (1 - 1 / 2) * math.log(2) + (0.1 - 1 / 2) * math.log(0.1 / 0.5)
        assert psi(profile, np.zeros(5), bins=2) == pytest.approx(expected, rel=1e-14)

    def test_quantiles_that_coincide_make_one_bin(self):
        expected = np.repeat([0.0, 1.0], [80, 20])  # eight of the nine deciles are 0: a bin up to 0, one above it
        actual = np.repeat([0.0, 1.0], [30, 70])
        by_hand = (0.3 - 0.8) * math.log(0.3 / 0.8) + (0.7 - 0.2) * math.log(0.7 / 0.2)
        assert psi(ScoreProfile.of(expected), actual) == pytest.approx(by_hand, rel=1e-14)

    @pytest.mark.parametrize("moved", [-1.0, 1.0])
    def test_scores_that_are_all_equal_are_a_bin_with_two_beside_it(self, moved):
        profile = ScoreProfile.of(np.full(100, 5.0))
        assert psi(profile, np.full(50, 5.0)) == 0.0
        assert psi(profile, np.full(50, 5.0 + moved)) > 1.0

    def test_needs_two_bins(self):
        with pytest.raises(ValueError, match="at least 2 bins, got 1"):
            psi(ScoreProfile.of(np.arange(3.0)), np.arange(3.0), bins=1)


@pytest.mark.parametrize(("measure", "by_chance"), [(psi, psi_by_chance), (kolmogorov_smirnov, ks_by_chance)])
def test_by_chance_is_the_mean_without_drift(measure, by_chance):
    rng = np.random.default_rng(5)
    found = [measure(ScoreProfile.of(rng.normal(size=800)), rng.normal(size=400)) for _ in range(400)]
    assert np.mean(found) == pytest.approx(by_chance(ScoreProfile.of(rng.normal(size=800)), 400), rel=0.07)


def test_by_chance_counts_the_bins_that_are_left_where_quantiles_coincide():
    """Five values, drawn alike: nine deciles make at most five bins, of which chance makes (5 - 1)(1/n + 1/m)."""
    rng = np.random.default_rng(6)
    found = [psi(ScoreProfile.of(rng.integers(5, size=500) * 1.0), rng.integers(5, size=250) * 1.0) for _ in range(400)]
    profile = ScoreProfile.of(rng.integers(5, size=500) * 1.0)
    assert bins_held(profile, 10) == 5
    assert psi_by_chance(profile, 250) == pytest.approx(4 * (1 / 500 + 1 / 250))
    assert np.mean(found) == pytest.approx(psi_by_chance(profile, 250), rel=0.1)
    constant = ScoreProfile.of(np.zeros(9))
    assert psi_by_chance(constant, 5) == 0.0


@pytest.mark.parametrize("rows", [12, 300])
@pytest.mark.parametrize("confidence", [0.9, 0.95])
def test_chance_stays_below_what_it_is_said_to(rows, confidence):
    rng = np.random.default_rng(rows)
    profiles = [ScoreProfile.of(rng.normal(size=600)) for _ in range(600)]
    within = [kolmogorov_smirnov(one, rng.normal(size=rows)) <= ks_at_most(one, rows, confidence) for one in profiles]
    assert np.mean(within) == pytest.approx(confidence, abs=0.035)  # 600 draws: 3 standard errors of 0.9


class TestNewRows:
    KEYS = st.lists(st.integers(0, 2**64 - 1), max_size=30, unique=True).map(lambda k: np.array(k, dtype=np.uint64))

    @untimed
    @given(KEYS, KEYS, st.randoms())
    def test_of_a_file_that_grows_are_those_that_came(self, known, others, random):
        came = [*others, *known[:3]]  # also copies of known rows, by chance or by design
        random.shuffle(keys := [*known, *came])
        keys = np.array(keys, dtype=np.uint64)
        assert sorted(keys[new_rows(known, keys)]) == sorted(came)

    def test_of_a_window_that_moves_are_those_that_came(self):
        rng = np.random.default_rng(0)
        keys = rng.integers(2**64, size=900, dtype=np.uint64)
        assert new_rows(keys[:600], keys[300:]).tolist() == [False] * 300 + [True] * 300

    def test_of_copies_as_many_are_known_as_there_were(self):
        rng = np.random.default_rng(1)
        known, came = (rng.integers(40, size=rows).astype(np.uint64) for rows in (500, 400))
        keys = rng.permutation(np.concatenate([known[25:], came]))  # and a few are gone
        found = np.bincount(keys[new_rows(known, keys)].astype(int), minlength=40)
        kinds = [np.bincount(some.astype(int), minlength=40) for some in (keys, known)]
        assert found.tolist() == np.maximum(kinds[0] - kinds[1], 0).tolist()

    def test_the_same_rows_are_none(self):
        keys = np.repeat(np.arange(5, dtype=np.uint64), 3)
        assert not new_rows(keys, keys[::-1]).any()


@pytest.mark.parametrize(("rows", "bins"), [(1, 2), (59, 2), (60, 3), (100, 5), (199, 9), (200, 10), (10**6, 10)])
def test_few_rows_are_compared_in_few_bins(rows, bins):
    assert bins_for(rows) == bins


@pytest.mark.parametrize(("earlier", "rows"), [(100, 25), (240, 60), (800, 200), (25, 100), (60, 2000), (40, 40)])
def test_chance_is_seldom_taken_for_drift(earlier, rows):
    rng = np.random.default_rng(rows)
    profiles = [ScoreProfile.of(rng.normal(size=earlier)) for _ in range(300)]
    found = [_measured("max_psi", profile, rng.normal(size=rows))[1] for profile in profiles]
    assert np.mean(np.array(found) > 0.25) < 0.1


@pytest.mark.parametrize("use", [ScoreProfile.of, lambda s: psi(ScoreProfile.of(np.arange(3.0)), s),
                                 lambda s: kolmogorov_smirnov(ScoreProfile.of(np.arange(3.0)), s)])  # fmt: skip
@pytest.mark.parametrize(
    ("scores", "word"), [([], "at least one score"), ([0.0, np.nan], "got 1"), ([np.inf], "got 1")]
)
def test_scores_must_be_numbers(use, scores, word):
    with pytest.raises(BadInput, match=word):
        use(np.array(scores))
