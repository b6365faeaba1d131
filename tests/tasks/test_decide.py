"""Decide: every rule at its edge, the paired DeLong bound against a slow twin and the bootstrap, and its error rate."""

import ast
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri
from scipy.stats import ks_2samp, norm

import tasks.check
from aucsolvers.metrics import auc
from tasks.decide import CHECKS, Contender, Judged, Rules, decide
from tasks.drift import ScoreProfile, kolmogorov_smirnov, psi
from tasks.errors import BadInput
from tasks.ledger import canonical
from tasks.schema import parse
from tasks.values import Finding

untimed = settings(deadline=None)  # a busy machine is no failure
ABSOLUTE = ("data_checks", "min_positives", "both_classes", "finite_scores", "min_auc", "min_gmean")
LENIENT = {"min_auc": 0.0, "min_gmean": 0.0, "min_positives": 1, "max_psi": None, "max_ks": None}
# Few distinct scores, so that ties within and between the classes are common.
CONTESTS = st.lists(
    st.tuples(st.sampled_from([-1, 1]), st.integers(-3, 3), st.integers(-3, 3)), min_size=4, max_size=30
).filter(lambda rows: min(sum(row[0] == side for row in rows) for side in (-1, 1)) >= 2)


def columns(contest):
    y, a, b = np.array(contest).T
    return y, a.astype(float), b.astype(float)


def contender(scores, threshold=0.0, **more):
    return Contender(np.asarray(scores, dtype=float), threshold, **more)


def draw(rng, n_pos=100, n_neg=400, gap=1.5, own=0.5):
    """Labels and two models of equal AUC, whose scores share a part and each have one of their own."""
    y = np.repeat([1, -1], [n_pos, n_neg])
    shared = gap * (y > 0) - gap / 2 + rng.normal(size=len(y))
    return y, shared + own * rng.normal(size=len(y)), shared + own * rng.normal(size=len(y))


def of(decision, rule):
    return next(judged for judged in decision.judged if judged.rule == rule)


def bound(y, a, b, **rules):
    return of(decide(Rules(**(LENIENT | rules)), y, contender(a), contender(b)), "non_inferiority")


def twin(y, a, b, confidence):
    """The lower bound by the definition: placement values pair by pair, and their 2 x 2 covariances."""
    covariance = np.zeros((2, 2))
    wins = [[[(np.sign(p - n) + 1) / 2 for n in s[y < 0]] for p in s[y > 0]] for s in (a, b)]
    areas = [np.mean(w) for w in wins]
    for axis in (0, 1):
        covariance += np.cov([np.mean(w, axis=axis) for w in wins]) / np.shape(wins[0])[1 - axis]
    variance = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    return areas[0] - areas[1] - norm.ppf(confidence) * math.sqrt(max(variance, 0.0))


@pytest.fixture
def contest():
    """A challenger and a champion that are promoted on default rules: (y, challenger, champion)."""
    rng = np.random.default_rng(0)
    y, a, b = draw(rng)
    _, _, training = draw(rng)
    return y, contender(a), contender(b, profile=ScoreProfile.of(training), earlier_auc=0.85)


class TestDecision:
    def test_promotes_with_every_rules_numbers(self, contest):
        decision = decide(Rules(non_inferiority_margin=0.03), *contest)
        assert decision.promote and [one.rule for one in decision.judged if not one.passed] == []
        assert {one.rule for one in decision.judged} == {
            *ABSOLUTE, "label_polarity", "non_inferiority", "max_psi", "max_ks"}  # fmt: skip
        assert decision.reason.startswith("The challenger passed all 10 rules. The challenger's AUC is 0.")
        assert decision.reason.endswith("-0.03 is allowed: the challenger is non-inferior.")

    def test_counts_what_was_judged_before(self, contest):
        seen = Judged("unseen_rows", True, 40.0, 10.0, "None of them trained the champion.")
        decision = decide(Rules(non_inferiority_margin=0.03), *contest, before=(seen,))
        assert decision.judged[0] == seen and decision.reason.startswith("The challenger passed all 11 rules.")

    def test_gives_the_first_rule_that_failed_as_its_reason(self, contest):
        y, _, champion = contest
        worse = Contender(np.random.default_rng(1).normal(size=len(y)), 0.0)
        decision = decide(Rules(), y, worse, champion)
        failed = [one for one in decision.judged if not one.passed]
        assert not decision.promote and [one.rule for one in failed] == ["min_auc", "non_inferiority"]
        assert decision.reason == failed[0].reason and "at least 0.6 is asked for" in decision.reason

    def test_the_first_champion_is_judged_by_the_rules_for_any_model(self, contest):
        y, challenger, _ = contest
        decision = decide(Rules(), y, challenger, None)
        assert decision.promote and tuple(one.rule for one in decision.judged) == ABSOLUTE
        assert "no champion yet" in decision.reason and f"AUC is {auc(y, challenger.scores):.4f}" in decision.reason
        assert not decide(Rules(min_auc=0.999), y, challenger, None).promote

    def test_survives_canonical_json(self, contest):
        y, challenger, champion = contest
        nothing = Contender(np.full(len(y), np.nan), 0.0)
        single = (np.where(np.arange(len(y)) == 0, 1, -1), challenger, champion)
        for case in (contest, (y, challenger, None), (y, nothing, champion), (y, challenger, contender(-y)), single):
            decision = decide(Rules(non_inferiority_margin=0.0), *case)
            read = json.loads(canonical(decision.as_dict()))
            assert read == decision.as_dict() and type(read["promote"]) is bool
            for one in decision.judged:
                assert one.reason.endswith(".") and one.reason[0].isupper() and "\n" not in one.reason
                assert one.value is None or math.isfinite(one.value)

    @untimed
    @given(CONTESTS, st.randoms(use_true_random=False))
    def test_the_order_of_rows_is_nothing(self, rows, random):
        shuffled = random.sample(rows, len(rows))
        first, second = (
            decide(Rules(**LENIENT), y, contender(a), contender(b)) for y, a, b in map(columns, (rows, shuffled))
        )
        assert first.promote == second.promote
        for one, other in zip(first.judged, second.judged, strict=True):
            assert one.value == pytest.approx(other.value, abs=1e-12)


class TestNonInferiority:
    @untimed
    @given(CONTESTS, st.sampled_from([0.5, 0.9, 0.95, 0.999]))
    def test_bound_is_the_slow_twins(self, rows, confidence):
        y, a, b = columns(rows)
        expected = max(-1.0, twin(y, a, b, confidence))
        assert bound(y, a, b, confidence=confidence).value == pytest.approx(expected, abs=1e-6)  # sqrt of 1e-13

    def test_bound_is_the_bootstraps(self):
        rng = np.random.default_rng(2)
        y, a, b = draw(rng, 80, 200)
        pos, neg = np.flatnonzero(y > 0), np.flatnonzero(y < 0)
        differences = []
        for _ in range(2000):  # within the classes, as DeLong's variance takes their sizes as given
            rows = np.r_[rng.choice(pos, 80), rng.choice(neg, 200)]
            differences.append(auc(y[rows], a[rows]) - auc(y[rows], b[rows]))
        assert bound(y, a, b).value == pytest.approx(np.quantile(differences, 0.05), abs=0.004)

    def test_models_of_equal_auc_seldom_look_superior(self):
        rng, rules = np.random.default_rng(3), {"confidence": 0.9, "non_inferiority_margin": 0.0}
        superior = [bound(*draw(rng, 50, 150), **rules).passed for _ in range(1000)]
        assert np.mean(superior) == pytest.approx(0.1, abs=0.028)  # three standard deviations of 1000 draws

    def test_a_model_worse_by_the_margin_seldom_passes(self):
        # negatives moved by gap make an AUC of Phi(gap / sd); 0.02 of AUC less is the margin
        rng, sd = np.random.default_rng(4), math.sqrt(2 * 1.25)
        gap = sd * norm.ppf(norm.cdf(1.5 / sd) - 0.02)
        passed = []
        for _ in range(1000):
            y, a, b = draw(rng, 50, 150)
            passed.append(bound(y, a - (1.5 - gap) * (y > 0), b, non_inferiority_margin=0.02).passed)
        assert np.mean(passed) == pytest.approx(0.05, abs=0.021)

    @untimed
    @given(CONTESTS, st.floats(0, 0.99), st.floats(0, 0.99))
    def test_a_wider_margin_never_refuses_more(self, rows, one, other):
        low, high = sorted((one, other))
        y, a, b = columns(rows)
        assert bound(y, a, b, non_inferiority_margin=low).passed <= bound(y, a, b, non_inferiority_margin=high).passed

    @untimed
    @given(CONTESTS, st.floats(0.5, 0.9999), st.floats(0.5, 0.9999))
    def test_more_confidence_never_promises_more(self, rows, one, other):
        low, high = sorted((one, other))
        y, a, b = columns(rows)
        assert bound(y, a, b, confidence=low).value >= bound(y, a, b, confidence=high).value

    @untimed
    @given(CONTESTS)
    def test_sees_ranks_alone(self, rows):
        y, a, b = columns(rows)
        assert bound(y, a, b).value == bound(y, np.exp(a), b**3).value

    @untimed
    @given(CONTESTS)
    def test_a_model_is_not_inferior_to_itself(self, rows):
        y, a, _ = columns(rows)
        judged = bound(y, a, 2 * a + 1, non_inferiority_margin=0.0)
        assert judged.passed and (judged.value, judged.limit) == (0.0, 0.0)
        assert math.copysign(1.0, judged.limit) == 1.0

    def test_two_models_without_an_error_are_alike(self):
        y = np.repeat([1, -1], 10)
        judged = bound(y, y + np.linspace(0, 0.5, 20), y + np.linspace(0.5, 0, 20), non_inferiority_margin=0.0)
        assert judged.passed and judged.value == 0.0 and "is non-inferior" in judged.reason

    def test_scores_that_are_all_tied_are_a_coins(self):
        y = np.repeat([1, -1], 10)
        assert bound(y, y, np.zeros(20)).value == 0.5 and "superior" in bound(y, y, np.zeros(20)).reason
        assert not bound(y, np.zeros(20), y).passed

    @pytest.mark.parametrize("n_pos", [1, 19])
    def test_one_row_of_a_class_has_no_variance_and_promotes_nothing(self, n_pos):
        y = np.repeat([1, -1], [n_pos, 20 - n_pos])
        decision = decide(Rules(**LENIENT), y, contender(y), contender(y))
        judged = of(decision, "non_inferiority")
        assert not decision.promote and judged.value is None
        assert decision.reason == judged.reason
        assert f"two held-out rows of each class, got {n_pos} positive and {20 - n_pos} negative" in judged.reason

    def test_bound_is_not_below_the_least_difference(self):
        y = np.repeat([1, -1], 2)
        assert bound(y, np.array([1.0, 3, 2, 4]), np.array([2.0, 3, 1, 0]), confidence=0.9999).value == -1.0


class TestGroups:
    """Visits of patients: six rows of one are not six times what one row is."""

    @staticmethod
    def visits():
        y, a, b = draw(np.random.default_rng(3), 40, 160)
        return (np.repeat(values, 6) for values in (y, a, b, np.arange(200)))

    def test_the_bound_is_that_of_patients(self):
        y, a, b, patients = self.visits()
        first = [values[::6] for values in (y, a, b)]
        judged = of(decide(Rules(**LENIENT), y, contender(a), contender(b), groups=patients), "non_inferiority")
        assert (
            judged.value == pytest.approx(bound(*first).value, abs=1e-12)
            and "(paired DeLong, by groups)" in judged.reason
        )
        assert bound(y, a, b).value > judged.value + 0.001

    def test_labels_that_changed_places_are_told_from_chance_by_patients(self):
        """An AUC of 0.44 is beyond chance if 240 visits were as many patients, and not if they are of forty."""
        y, _, _, patients = self.visits()
        level = [ndtri((np.arange(n) + 0.5) / n) for n in (40, 160)]  # of ill and others: like draws, without chance
        backwards = np.concatenate(level)[patients] - 0.2 * (y > 0)
        told = [
            of(decide(Rules(**LENIENT), y, contender(y), contender(backwards), groups=groups), "label_polarity")
            for groups in (None, patients)
        ]
        assert [one.passed for one in told] == [False, True]

    def test_so_many_positives_are_asked_of_patients(self):
        y, a, _, patients = self.visits()
        rules = Rules(**LENIENT | {"min_positives": 50})
        assert decide(rules, y, contender(a), None).promote
        refused = decide(rules, y, contender(a), None, groups=patients)
        assert (
            not refused.promote and "240 positive ones of 40 groups, at least 50 groups are asked for" in refused.reason
        )
        refused = decide(rules, np.where(patients < 170, 1, y), contender(a), None, groups=patients)
        assert not refused.promote and (
            "1,020 positive ones of 170 groups and 180 negative ones of 30 groups, at least 50 groups of either class "
            "are asked for" in refused.reason
        )
        alone = decide(Rules(**LENIENT), y, contender(a), contender(a), groups=np.where(y > 0, -1, patients))
        assert "two held-out groups of each class" in of(alone, "non_inferiority").reason


class TestLabelPolarity:
    def test_flipped_labels_are_refused_and_named(self, contest):
        y, challenger, champion = contest
        decision = decide(Rules(), -y, contender(-challenger.scores), champion)
        judged = of(decision, "label_polarity")
        assert not decision.promote and decision.reason == judged.reason and judged.value < 0.5
        assert "ranks them backwards, as if the labels had changed places" in judged.reason
        assert "(at its own time 0.8500)" in judged.reason
        # all else speaks for it: a champion that ranks backwards is easily beaten
        assert [one.rule for one in decision.judged if not one.passed] == ["label_polarity"]

    @pytest.mark.parametrize("n_neg", [1, 9, 10])
    def test_so_many_negatives_are_asked_for_where_they_are_the_rarer_class(self, n_neg):
        y = np.repeat([1, -1], [30, n_neg])
        judged = of(decide(Rules(), y, contender(y), None), "min_positives")
        assert (judged.passed, judged.value) == (n_neg >= 10, n_neg)
        assert judged.reason == (
            "The held-out rows include 30 positive ones, at least 10 are asked for."
            if n_neg == 10
            else f"The held-out rows include 30 positive ones and {n_neg} negative ones, at least 10 of either class "
            "are asked for."
        )

    def test_a_champion_without_an_error_is_flipped_to_an_auc_of_nothing(self):
        y = np.repeat([1, -1], 10)
        assert not of(decide(Rules(**LENIENT), -y, contender(-y), contender(y)), "label_polarity").passed

    def test_chance_below_one_half_is_no_flip(self):
        rng = np.random.default_rng(5)
        y, scores = np.repeat([1, -1], [20, 200]), rng.normal(size=220)
        scores = scores if auc(y, scores) < 0.5 else -scores
        judged = of(decide(Rules(), y, contender(y), contender(scores)), "label_polarity")
        assert judged.passed and judged.value > 0.5 and "no sign" in judged.reason

    def test_a_champion_that_always_ranked_backwards_is_no_flip(self):
        y = np.repeat([1, -1], 10)
        decision = decide(Rules(**LENIENT), y, contender(y), contender(-y, earlier_auc=0.1))
        assert of(decision, "label_polarity").passed and decision.promote

    @pytest.mark.parametrize("rare", [1, -1])
    def test_one_row_of_a_class_tells_nothing_of_it_and_no_more_of_the_challenger(self, rare):
        y = rare * np.repeat([1, -1], [1, 9])
        decision = decide(Rules(**LENIENT), y, contender(y), contender(-y))
        judged = of(decision, "label_polarity")
        assert judged.passed and "confidence at most 1.0000: there is no sign" in judged.reason
        assert not decision.promote and decision.reason == of(decision, "non_inferiority").reason


class TestAbsoluteRules:
    def test_limits_are_allowed_values(self):
        y, scores = np.repeat([1, -1], 2), [1.0, 3.0, 2.0, 0.0]  # AUC 3/4; above 1.5: one of two, and one of two
        exact = Rules(min_auc=0.75, min_gmean=0.5, min_positives=2)
        assert decide(exact, y, contender(scores, 1.5), None).promote
        for rule, value in (("min_auc", 0.7501), ("min_gmean", 0.5001), ("min_positives", 3)):
            decision = decide(exact.model_copy(update={rule: value}), y, contender(scores, 1.5), None)
            assert [one.rule for one in decision.judged if not one.passed] == [rule]
            assert of(decision, rule).limit == value

    def test_gmean_is_taken_at_the_threshold(self):
        y, scores = np.repeat([1, -1], 20), np.repeat([1.0, 0.0], 20)
        values = [of(decide(Rules(), y, contender(scores, t), None), "min_gmean").value for t in (-1.0, 0.0, 0.5, 1.0)]
        assert values == [0.0, 1.0, 1.0, 0.0]

    @pytest.mark.parametrize("side", [1, -1])
    def test_rows_of_one_class_promote_nothing(self, side):
        y = np.full(20, side)
        decision = decide(Rules(**LENIENT), y, contender(np.arange(20)), None)
        assert not decision.promote and not of(decision, "both_classes").passed
        assert "min_auc" not in [one.rule for one in decision.judged]

    @pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("who", ["challenger", "champion"])
    def test_scores_that_are_no_numbers_promote_nothing(self, contest, bad, who):
        y, challenger, champion = contest
        spoilt = Contender(np.where(np.arange(len(y)) < 3, bad, challenger.scores), 0.0)
        pair = (spoilt, champion) if who == "challenger" else (challenger, spoilt)
        decision = decide(Rules(), y, *pair)
        assert not decision.promote and "non_inferiority" not in [one.rule for one in decision.judged]
        assert decision.reason == f"The {who} scores 3 of 500 held-out rows as nan or infinite: it cannot be judged."

    def test_findings_stop_by_kind_and_by_severity(self, contest):
        leak = Finding("separating_column", "warning", "Column 'a' alone separates the classes.", 1)
        constant = Finding("constant_column", "warning", "Column 'b' has one value only.", 1)
        note = Finding("missing_values", "info", "2 cells are empty.", 2)
        for checks, stopped in (
            (("separating_column", "clock_column"), 1), (("warning",), 2), (("info",), 1),
            (("missing_values", "info"), 1), ((), 0),
        ):  # fmt: skip
            rules = Rules(non_inferiority_margin=0.03, data_checks=checks)
            judged = of(decision := decide(rules, *contest, (note, leak, constant)), "data_checks")
            assert (judged.value, decision.promote) == (stopped, stopped == 0)
        decision = decide(Rules(), *contest, (note, constant, leak))
        assert decision.reason.endswith("separating_column: Column 'a' alone separates the classes.")

    def test_every_kind_of_finding_can_be_named(self):
        calls = [node for node in ast.walk(ast.parse(Path(tasks.check.__file__).read_text())) if _makes_finding(node)]
        assert {call.args[0].value for call in calls} == set(CHECKS)


def _makes_finding(node):
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Finding"


class TestDrift:
    def test_is_measured_from_the_champions_training_scores(self, contest):
        y, challenger, champion = contest
        moved = Contender(champion.scores + 3.0, 0.0, champion.profile)
        decision = decide(Rules(non_inferiority_margin=0.03), y, challenger, moved)
        assert [one.rule for one in decision.judged if not one.passed] == ["max_psi", "max_ks"]
        assert "From the champion's 500 held-out scores of its own day to its 500 now" in decision.reason
        assert "by chance), at most 0.25 is allowed" in decision.reason

    def test_each_rule_has_its_own_measure(self, contest):
        _, _, champion = contest
        decision = decide(Rules(), *contest)
        for rule, measure, name in (
            ("max_psi", psi, "population stability index in 10 bins"),
            ("max_ks", kolmogorov_smirnov, "Kolmogorov-Smirnov statistic"),
        ):
            judged = of(decision, rule)
            assert judged.value == measure(champion.profile, champion.scores) and name in judged.reason

    def test_the_challengers_own_scale_is_nothing(self, contest):
        y, challenger, champion = contest
        scaled = Contender(challenger.scores * 1000, 0.0)
        assert decide(Rules(non_inferiority_margin=0.03), y, scaled, champion).promote

    def test_null_leaves_a_rule_out(self, contest):
        y, challenger, champion = contest
        moved = Contender(champion.scores + 3.0, 0.0, champion.profile)
        decision = decide(Rules(non_inferiority_margin=0.03, max_psi=None, max_ks=None), y, challenger, moved)
        assert decision.promote and not {"max_psi", "max_ks"} & {one.rule for one in decision.judged}

    def test_a_champion_without_a_profile_is_not_replaced_unseen(self, contest):
        y, challenger, champion = contest
        unknown = Contender(champion.scores, champion.threshold)
        decision = decide(Rules(non_inferiority_margin=0.03), y, challenger, unknown)
        assert not decision.promote and of(decision, "max_ks").value is None
        assert decision.reason.endswith(
            "no profile of its earlier scores to measure drift from; max_psi: null goes on."
        )


class TestRefusals:
    @pytest.mark.parametrize("y", [[0, 1], [[1], [-1]], [], 1, ["a", "b"], [1.0, np.nan]])
    def test_labels_must_be_of_plus_and_minus_one(self, y):
        with pytest.raises(BadInput, match=r"labels of -1 and \+1"):
            decide(Rules(), np.array(y), contender([0.0, 1.0]), None)

    def test_scores_must_be_of_the_same_rows(self):
        y = np.array([1, -1])
        with pytest.raises(BadInput, match=r"challenger's scores of the same 2 held-out rows, got .* \(3,\)"):
            decide(Rules(), y, contender([0.0, 1.0, 2.0]), None)
        with pytest.raises(BadInput, match=r"champion's scores of the same 2 held-out rows, got .* \(2, 1\)"):
            decide(Rules(), y, contender([0.0, 1.0]), contender([[0.0], [1.0]]))

    def test_a_threshold_must_be_a_number(self):
        with pytest.raises(BadInput, match="the challenger's threshold, got nan"):
            decide(Rules(), np.array([1, -1]), contender([0.0, 1.0], math.nan), None)


class TestRules:
    def test_defaults_and_whole_numbers_are_valid(self):
        assert parse(Rules, {}, "rules") == Rules()
        assert parse(Rules, {"min_auc": 0, "max_psi": None, "data_checks": ["warning"]}, "rules").min_auc == 0

    @pytest.mark.parametrize(
        ("data", "words"),
        [
            ({"non_inferiority_margin": -0.01}, "non_inferiority_margin: expected a number greater than or equal to 0"),
            ({"non_inferiority_margin": math.nan}, "non_inferiority_margin"),
            ({"confidence": 1.0}, "confidence: expected a number less than 1"),
            ({"confidence": 95}, "confidence"),
            ({"min_auc": "high"}, "min_auc: expected a"),
            ({"min_gmean": None}, "min_gmean: expected a"),
            ({"max_psi": math.inf}, "max_psi"),
            ({"max_ks": 1.5}, "max_ks"),
            ({"min_positives": 0}, "min_positives"),
            ({"data_checks": ["seperating_column"]}, "Did you mean 'separating_column'?"),
            ({"data_checks": "warning"}, "data_checks: expected a list"),
            ({"min_gmeans": 0.5}, "got 'min_gmeans'. Did you mean 'min_gmean'?"),
        ],
    )
    def test_what_cannot_be_meant_is_refused_in_one_line(self, data, words):
        with pytest.raises(BadInput) as refused:
            parse(Rules, data, "rules")
        assert words in str(refused.value)

    @untimed
    @given(CONTESTS, st.data())
    def test_looser_rules_never_refuse_what_stricter_ones_promote(self, rows, data):
        y, a, b = columns(rows)
        profile = ScoreProfile.of(np.array(data.draw(st.lists(st.integers(-3, 3).map(float), min_size=1, max_size=9))))
        strict, loose = {"min_positives": 3}, {"min_positives": 2}
        for rule, top, looser in (
            ("non_inferiority_margin", 0.9, max), ("min_auc", 1.0, min), ("min_gmean", 1.0, min),
            ("max_psi", 9.0, max), ("max_ks", 1.0, max),
        ):  # fmt: skip
            pair = [data.draw(st.floats(0, top)) for _ in range(2)]
            loose[rule] = looser(pair)
            strict[rule] = max(pair) if looser is min else min(pair)
        first, second = (
            decide(Rules(**rules), y, contender(a), contender(b, profile=profile)) for rules in (strict, loose)
        )
        assert first.promote <= second.promote
        for one, other in zip(first.judged, second.judged, strict=True):
            assert one.passed <= other.passed and one.value == other.value


def test_a_champion_that_ranked_no_better_than_chance_is_no_witness():
    """An AUC of exactly 0.5 then: backwards now, it says nothing of the labels."""
    y = np.repeat([1, -1], 20)
    scores = y + np.linspace(0.0, 0.5, 40)
    champion = Contender(-scores, 0.0, earlier_auc=0.5)
    judged = {
        one.rule: one for one in decide(Rules(max_psi=None, max_ks=None), y, Contender(scores, 0.0), champion).judged
    }
    assert judged["label_polarity"].passed


@pytest.mark.parametrize(("rule", "measure"), [("max_psi", psi), ("max_ks", kolmogorov_smirnov)])
def test_a_drift_of_just_the_limit_is_allowed(contest, rule, measure):
    y, challenger, champion = contest
    limit = measure(champion.profile, champion.scores)
    for allowed, passed in ((limit, True), (limit * (1 - 1e-12), False)):
        assert of(decide(Rules(**{rule: allowed}), y, challenger, champion), rule).passed == passed


def test_the_rules_are_judged_in_one_order_and_drift_last(contest):
    """The first that fails is the reason: a challenger that is worse is not told that the data have moved."""
    y, _, champion = contest
    moved = Contender(champion.scores + 3.0, 0.0, champion.profile)
    decision = decide(Rules(**LENIENT | {"max_psi": 0.25}), y, contender(np.zeros(len(y))), moved)
    assert [one.rule for one in decision.judged] == [
        "data_checks", "min_positives", "both_classes", "finite_scores", "label_polarity", "min_auc", "min_gmean",
        "non_inferiority", "max_psi"]  # fmt: skip
    assert [one.rule for one in decision.judged if not one.passed] == ["non_inferiority", "max_psi"]
    assert decision.reason == of(decision, "non_inferiority").reason


@pytest.mark.parametrize("threshold", [math.inf, -math.inf])
def test_a_threshold_must_be_finite(threshold):
    """With an infinite one a model has a class for every row without a look at it."""
    with pytest.raises(BadInput, match=r"the champion's threshold, got -?inf"):
        decide(Rules(), np.array([1, -1]), contender([1.0, 0.0]), contender([1.0, 0.0], threshold))


class TestNewRows:
    """A batch of another kind among rows of the champion's day, whose scores are what they were."""

    def champion(self, rng, n_new, shift, n_then=450, accepted=None):
        then = rng.normal(size=n_then)
        scores = np.concatenate([then, rng.normal(shift, 1.0, n_new)])
        new = np.arange(len(scores)) >= n_then
        before = None if accepted is None else ScoreProfile.of(rng.normal(accepted, 1.0, 40))
        return contender(scores, profile=ScoreProfile.of(then), new=new, new_profile=before)

    def judge(self, champion, **rules):
        y = np.repeat([1, -1], [100, len(champion.scores) - 100])
        return {one.rule: one for one in decide(Rules(**rules), y, champion, champion).judged}

    def test_it_is_seen_where_it_drowns_among_the_others(self):
        judged = self.judge(self.champion(np.random.default_rng(3), n_new=50, shift=3.0))
        assert judged["max_ks"].passed and judged["max_psi"].passed
        found = judged["max_ks_new"]
        assert not found.passed and found.limit == 0.5
        assert found.reason.startswith(
            "From the champion's 450 held-out scores of its own day to those of the 50 rows of 500 that are new since,"
        )
        assert found.reason.endswith("at most 0.5 is allowed. Look at them; max_ks_new: null lets them in.")

    def test_the_statistic_is_that_of_two_samples(self):
        champion = self.champion(np.random.default_rng(4), n_new=80, shift=1.0)
        found = self.judge(champion)["max_ks_new"]
        assert found.value == pytest.approx(ks_2samp(champion.scores[:450], champion.scores[450:]).statistic)

    def test_what_vanished_is_still_seen(self):
        """Half of the rows of that day are gone: those that came are as they were, and all rows are not."""
        rng = np.random.default_rng(5)
        then = rng.normal(size=2000)
        scores = np.concatenate([then[then < 0], rng.normal(size=40)])
        new = np.arange(len(scores)) >= len(scores) - 40
        judged = self.judge(contender(scores, profile=ScoreProfile.of(then), new=new))
        assert judged["max_ks_new"].passed and not judged["max_ks"].passed and not judged["max_psi"].passed

    @pytest.mark.parametrize(("shift", "passed"), [(0.0, True), (0.5, True), (-3.0, False)])
    def test_seasons_pass_and_other_units_do_not(self, shift, passed):
        rng = np.random.default_rng(6)
        found = [self.judge(self.champion(rng, n_new=60, shift=shift))["max_ks_new"].passed for _ in range(20)]
        assert found == [passed] * 20

    @pytest.mark.parametrize("n_new", [4, 8, 20, 60])
    def test_few_rows_are_allowed_what_chance_makes_of_them(self, n_new):
        rng, refused = np.random.default_rng(n_new), 0
        for _ in range(200):
            found = self.judge(self.champion(rng, n_new=n_new, shift=0.0))["max_ks_new"]
            refused += not found.passed
            assert ("beyond which chance goes once in a hundred times" in found.reason) == (found.limit > 0.5)
        assert refused <= 200 * 0.03
        assert not self.judge(self.champion(rng, n_new=n_new, shift=6.0))["max_ks_new"].passed

    def test_of_rows_that_may_be_anything_nothing_is_told(self):
        rng = np.random.default_rng(7)
        for champion in (
            self.champion(rng, n_new=2, shift=9.0),
            self.champion(rng, n_new=0, shift=0.0),
            replace(self.champion(rng, n_new=50, shift=9.0), new=None),
        ):
            assert "max_ks_new" not in self.judge(champion)
        assert "max_ks_new" not in self.judge(self.champion(rng, n_new=50, shift=9.0), max_ks_new=None)

    def test_what_was_accepted_once_is_not_refused_again(self):
        """Rows such as those that came before the champion was made, and quite others."""
        rng = np.random.default_rng(8)
        again = self.judge(self.champion(rng, n_new=50, shift=3.0, accepted=3.0))["max_ks_new"]
        assert again.passed and "from the champion's 40 scores of what was new on its own day" in again.reason.lower()
        assert not self.judge(self.champion(rng, n_new=50, shift=-3.0, accepted=3.0))["max_ks_new"].passed
        usual = self.judge(self.champion(rng, n_new=50, shift=0.0, accepted=3.0))["max_ks_new"]
        assert usual.passed and "of its own day to those" in usual.reason
