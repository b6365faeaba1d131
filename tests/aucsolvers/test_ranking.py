"""One sort of the positive scores against definitions that sort and search for each question anew."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import check_grad

from aucsolvers._ranking import (
    ROUNDED_MIDDLE,
    Ranking,
    _radix_sorted,
    argsort,
    ascending,
    auc_of_classes,
    bucket_grid,
    count_below,
    tied,
    won_pairs,
)
from aucsolvers.metrics import best_gmean_threshold

# few distinct values: ties within and across the classes; and magnitudes whose sums overflow
SCORES = st.one_of(st.integers(-3, 3).map(float), st.floats(-1.7e308, 1.7e308), st.floats(-1.0, 1.0))
CLASSES = st.tuples(st.lists(SCORES, min_size=1, max_size=12), st.lists(SCORES, min_size=1, max_size=12))


def mixed(classes):
    """Scores and the mask of the positives, classes interleaved."""
    scores = np.concatenate(classes)
    positive = np.repeat([True, False], [len(part) for part in classes])
    order = np.random.default_rng(0).permutation(len(scores))
    return scores[order], positive[order]


def slow_auc(pos, neg):
    return ((pos[:, None] > neg).sum() + 0.5 * (pos[:, None] == neg).sum()) / (len(pos) * len(neg))


def slow_threshold(scores, positive):
    """Return the middle of the gap in which G-mean is largest: of equals the widest gap, then the lowest."""
    values = np.unique(scores)
    cuts = []
    for low, high in pairwise(values):
        merit = int((scores[positive] > low).sum()) * int((scores[~positive] <= low).sum())
        cuts.append((merit, high / 2 - low / 2, low, high))
    best = max((c[:2] for c in cuts), default=(0, 0.0))
    if best[0] == 0:
        return values[-1]
    low, high = next(c[2:] for c in cuts if c[:2] == best)
    middle = low / 2 + high / 2
    middle = 0.0 if abs(middle) <= ROUNDED_MIDDLE * (high - low) else middle
    return middle if low <= middle < high else low


@settings(deadline=None, max_examples=400)
@given(CLASSES)
def test_auc_and_threshold_are_those_of_the_definitions(classes):
    scores, positive = mixed(classes)
    area, threshold = Ranking(scores, positive).auc_and_threshold()
    assert area == pytest.approx(slow_auc(scores[positive], scores[~positive]), abs=1e-15)
    assert area == auc_of_classes(scores[positive], scores[~positive])
    assert threshold == slow_threshold(scores, positive)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.one_of(SCORES, st.sampled_from([0.0, -0.0, 5e-324, -5e-324])), min_size=1, max_size=60),
    st.integers(1, 200),
)
def test_radix_sort_sorts(values, repeats):
    scores = np.tile(values, repeats)
    assert np.array_equal(_radix_sorted(scores), np.sort(scores))


def test_sorting_leaves_its_input_alone():
    scores = np.random.default_rng(0).normal(size=5000)
    before = scores.copy()
    ordered = ascending(scores[::2])
    assert np.array_equal(scores, before)
    assert np.array_equal(ordered, np.sort(before[::2]))


@settings(deadline=None)
@given(st.lists(SCORES, min_size=1, max_size=40), st.lists(SCORES, min_size=1))
def test_the_bucket_grid_counts_as_searchsorted_does(scores, values):
    scores = np.sort(scores)
    grid = bucket_grid(scores)
    for value in [*values, *scores, np.nextafter(scores[0], np.inf), -np.inf, np.inf]:
        assert count_below(*grid, value) == np.searchsorted(scores, value)
    ties = np.r_[scores, values]
    assert won_pairs(*grid, ties) / (len(scores) * len(ties)) == pytest.approx(slow_auc(scores, ties), abs=1e-12)


@pytest.mark.parametrize("n", [1, 3, 40, 3000])
def test_what_is_no_number_ends_no_search(n):
    """Of such scores nothing is promised but an answer."""
    scores = np.tile([np.nan, 1.0, -2.0, np.inf], n)[: 3 * n]
    assert 0.0 <= auc_of_classes(scores, scores[::-1]) <= 1.0
    Ranking(scores, np.arange(len(scores)) % 2 == 0).auc_and_threshold()


@settings(deadline=None, max_examples=200)
@given(
    st.tuples(
        *(st.lists(st.one_of(st.integers(-3, 3).map(float), st.floats(-9, 9)), min_size=1, max_size=9) for _ in "+-")
    )
)
def test_hinge_is_the_mean_over_all_pairs(classes):
    scores, positive = mixed(classes)
    margins = scores[positive][:, None] - scores[~positive]
    value, slopes = Ranking(scores, positive).pair_hinge()
    assert value == pytest.approx(np.maximum(0, 1 - margins).mean(), rel=1e-12, abs=1e-12)
    # a margin within rounding of the kink may fall on either side
    sure, unsure = margins < 1 - 1e-12, np.abs(margins - 1) <= 1e-12
    least, most = sure.mean(), (sure | unsure).mean()
    assert least - 1e-12 <= -slopes[positive].sum() <= most + 1e-12
    assert slopes[~positive].sum() == pytest.approx(-slopes[positive].sum(), abs=1e-12)


def test_slopes_are_derivatives():
    scores, positive = mixed(np.split(np.random.default_rng(0).normal(size=40), [15]))
    assert (
        check_grad(
            lambda s: Ranking(s, positive).pair_hinge()[0], lambda s: Ranking(s, positive).pair_hinge()[1], scores
        )
        < 1e-6
    )


@pytest.mark.parametrize("n", [1, 2, 3, 100, 3000])
@pytest.mark.parametrize(
    "draw",
    {
        "spread": lambda rng, n: rng.random(n),
        "tied": lambda rng, n: rng.integers(0, 5, n) / 2.0,
        "equal": lambda rng, n: np.full(n, 0.1),
        "crowded": lambda rng, n: np.append(rng.random(n - 1) * 1e-9, 1.0),
        "signed zeros": lambda rng, n: rng.choice([0.0, -0.0], n),
        "huge": lambda rng, n: rng.choice([-1.0, 1.0], n) * 1.7e308 * rng.random(n),
        "tiny": lambda rng, n: 5e-324 * rng.integers(0, 9, n),
        "infinite": lambda rng, n: rng.choice([-np.inf, 0.5, 1.5, np.inf], n),
    }.values(),
)
def test_scores_are_put_in_order(draw, n):
    scores = draw(np.random.default_rng(0), n)
    order = argsort(scores)
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    np.testing.assert_array_equal(scores[order], np.sort(scores))


def test_a_middle_that_is_0_but_for_rounding_is_0():
    assert best_gmean_threshold([0, 1], [-1.0, 1.0 + 2**-52]) == 0.0
    assert best_gmean_threshold([0, 1], [-1.0, 1.0 + 2**-40]) == 2**-41


@pytest.mark.parametrize("seed", range(20))
def test_pairs_of_whole_numbers_with_a_margin_of_1_have_no_slope(seed):
    """Centred by their mean they were rounded to either side."""
    rng = np.random.default_rng(seed)
    scores, positive = rng.integers(-3, 4, 30).astype(float), np.arange(30) % 3 == 0
    violated = (scores[positive][:, None] - scores[~positive]) < 1.0
    slopes = Ranking(scores, positive).pair_hinge()[1]
    np.testing.assert_allclose(slopes[positive], -violated.sum(axis=1) / violated.size, rtol=1e-15)
    np.testing.assert_allclose(slopes[~positive], violated.sum(axis=0) / violated.size, rtol=1e-15)


def test_hinge_survives_a_large_common_offset():
    # multiples of 1/8 below 2^43 are floats, so the moved scores are exact
    rng = np.random.default_rng(0)
    scores, positive = rng.integers(-20, 20, 300) / 8.0, np.arange(300) % 3 == 0
    value, _ = Ranking(scores, positive).pair_hinge()
    moved = Ranking(scores + 2.0**43, positive).pair_hinge()[0]
    assert moved == pytest.approx(value, rel=1e-12)


def test_scores_too_large_for_their_unit_stay_as_they_are():
    scores = np.array([1e300, -2.0, 3.0])
    np.testing.assert_array_equal(tied(scores, 1e-20), scores)
