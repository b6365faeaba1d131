"""Imbalance conversion: rules, determinism, and how they are told."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.classes import two_classes
from tasks.errors import BadInput
from tasks.values import ConversionRule

TEN = [str(i % 10) for i in range(95)]  # labels 0-4 ten times, 5-9 nine times


def classes_of(labels, **rule):
    return two_classes(pd.Series(labels), "digit", ConversionRule(**rule), lambda row: f"row {row + 1}")


class TestOneAgainstTheRest:
    def test_of_a_class_that_is_named(self):
        classes = classes_of(TEN, conversion="one_vs_rest", positive="3")
        assert (classes.positive, classes.negative, classes.rule) == ("3", "rest", "3 against the rest")
        assert (classes.y > 0).tolist() == [label == "3" for label in TEN]

    def test_of_the_rarest(self):
        classes = classes_of([*TEN, "9"], conversion="one_vs_rest")  # 5-8 are the rarest now
        assert (classes.positive, classes.rule) == ("8", "8, the rarest, against the rest")


class TestGroups:
    def test_one_group_against_all_others(self):
        classes = classes_of(TEN, conversion="class_groups", groups=(("1", "7"), ()))
        assert classes.rule == "1, 7 against the rest"
        assert {label for label, side in classes.sides.items() if side == 1} == {"1", "7"}
        assert (classes.y > 0).sum() == 19 and (classes.y < 0).sum() == 76

    def test_one_group_against_another_leaves_the_others_out(self):
        classes = classes_of(TEN, conversion="class_groups", groups=(("1",), ("2", "3")))
        assert Counter(classes.y.tolist()) == {1: 10, -1: 20, 0: 65}
        assert (classes.positive, classes.negative) == ("1", "2, 3")

    @pytest.mark.parametrize(
        "groups, message",
        [
            ((("1",), ("1", "2")), "got '1' in both"),
            ((("x",), ()), "each positive label to be one of .* got 'x'"),
            ((("1",), ("x",)), "each negative label to be one of .* got 'x'"),
            ((tuple("0123456789"), ()), "none or all"),
            (((), ("1",)), "none or all"),
        ],
    )
    def test_groups_that_make_no_sense(self, groups, message):
        with pytest.raises(BadInput, match=message):
            classes_of(TEN, conversion="class_groups", groups=groups)


class TestSpellings:
    """Labels that a person would call one are not to part, unless each side names its own."""

    @pytest.mark.parametrize(
        "labels, rule",
        [
            (["Yes", "yes", "No", "No"], {"positive": "yes"}),
            (["Yes", "yes", "no", "no"], {"positive": "Yes", "conversion": "one_vs_rest"}),
            (["True", "1", "False", "0"], {"positive": "1"}),
            (["1", "1.0", "0", "unknown"], {"positive": "1"}),
            (["a", "A", "a"], {}),
            (["yes", "Yes", "no"], {"conversion": "class_groups", "groups": (("yes",), ("no",))}),
        ],
    )
    def test_that_would_part_are_refused_with_what_to_write(self, labels, rule):
        with pytest.raises(BadInput, match=r"spelt in one way, got .* conversion: \{rule: class_groups, positive: \["):
            classes_of(labels, **rule)

    def test_go_where_all_are_named(self):
        one = classes_of(["Yes", "yes", "No"], conversion="class_groups", groups=(("Yes", "yes"), ()))
        assert one.y.tolist() == [1, 1, -1]
        two = classes_of(["a", "A", "a"], conversion="class_groups", groups=(("A",), ("a",)))
        assert two.y.tolist() == [-1, 1, -1]
        assert classes_of(["a", "A", "a"], positive="A").y.tolist() == [-1, 1, -1]

    def test_on_one_side_are_nobodys_concern(self):
        assert classes_of(["x", "No", "no"], positive="x").y.tolist() == [1, -1, -1]

    def test_may_be_letters_where_classes_are_drawn(self):
        assert set(classes_of(list("aAbBcC"), conversion="random_halves").y) == {1, -1}


class TestRandomHalves:
    def test_each_side_has_half_of_the_classes_and_the_smaller_is_positive(self):
        classes = classes_of(TEN, conversion="random_halves", seed=4)
        assert sorted(classes.sides.values()) == [-1] * 5 + [1] * 5
        assert (classes.y > 0).sum() <= (classes.y < 0).sum()
        assert "seed 4" in classes.rule

    def test_the_seed_decides_and_the_order_of_rows_does_not(self):
        by_seed = [classes_of(TEN, conversion="random_halves", seed=seed).sides for seed in range(8)]
        assert classes_of(TEN[::-1], conversion="random_halves", seed=3).sides == by_seed[3]
        assert len({tuple(sides.items()) for sides in by_seed}) > 1

    def test_every_class_is_positive_half_the_time(self):
        positive = Counter()
        for seed in range(400):
            sides = classes_of([*TEN, *"56789"], conversion="random_halves", seed=seed).sides
            positive.update(label for label, side in sides.items() if side == 1)
        # binomial(400, 1/2) has a standard deviation of 10
        assert all(150 < positive[str(label)] < 250 for label in range(10))


class TestToRatio:
    def test_positives_are_thinned_and_nothing_else(self):
        full = classes_of(TEN, conversion="one_vs_rest", positive="3")
        thin = classes_of(TEN, conversion="one_vs_rest", positive="3", to_ratio=17.0, seed=1)
        assert ((thin.y > 0).sum(), (thin.y < 0).sum(), (thin.y == 0).sum()) == (5, 85, 5)
        assert (full.y[thin.y == 0] == 1).all() and (thin.y[full.y < 0] == -1).all()
        assert "thinned from 10 to 5, ratio 17 (seed 1)" in thin.rule

    def test_the_ratio_that_is_recorded_is_that_of_the_rows(self):
        """Of 85 negative rows a ratio of 35 would leave 2.43 positive ones: it is two."""
        thin = classes_of(TEN, conversion="one_vs_rest", positive="3", to_ratio=35.0, seed=1)
        assert (thin.y > 0).sum() == 2 and "thinned from 10 to 2, ratio 42.5 (seed 1)" in thin.rule

    def test_the_seed_decides_who_stays(self):
        kept = [classes_of(TEN, positive="3", to_ratio=17.0, seed=seed).y.tolist() for seed in (1, 1, 2)]
        assert kept[0] == kept[1] != kept[2]

    @pytest.mark.parametrize("ratio", [8.0, 171.0])
    def test_a_ratio_that_thinning_cannot_reach(self, ratio):
        with pytest.raises(BadInput, match=r"Expected to_ratio between 8\.5"):
            classes_of(TEN, positive="3", to_ratio=ratio)

    @given(st.integers(2, 60), st.integers(2, 300), st.data())
    def test_the_ratio_is_as_near_as_whole_rows_allow(self, n_pos, n_neg, data):
        ratio = data.draw(st.floats(n_neg / n_pos, float(n_neg)))
        y = classes_of(["a"] * n_pos + ["b"] * n_neg, positive="a", to_ratio=ratio).y
        assert abs((y > 0).sum() - n_neg / ratio) <= 0.5 + 1e-9


class TestMinority:
    def test_more_than_two_labels_are_refused(self):
        with pytest.raises(BadInput, match="Name the one to set against the rest"):
            classes_of(TEN, conversion="minority_positive")

    def test_the_rarer_label_is_positive(self):
        classes = classes_of([1.0, 2.0, 2.0], conversion="minority_positive")
        assert (classes.positive, classes.negative) == ("1", "2")
        assert classes.y.tolist() == np.array([1, -1, -1]).tolist()


def test_of_two_equal_halves_the_drawn_one_is_positive():
    """Which labels are positive is the seed's to say: with < they were all the other ones."""
    labels = list("abcd") * 5
    drawn = {"abcd"[i] for i in np.random.default_rng(4).permutation(4)[:2]}
    sides = classes_of(labels, conversion="random_halves", seed=4).sides
    assert {label for label, side in sides.items() if side == 1} == drawn


def test_the_datas_own_ratio_thins_nothing():
    y = classes_of(["a"] * 10 + ["b"] * 30, positive="a", to_ratio=3.0).y
    assert (y > 0).sum() == 10 and (y < 0).sum() == 30
