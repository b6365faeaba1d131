"""Decide: whether a challenger takes the champion's place, by rules that each say what they found.

The two are compared on the same held-out rows, which neither was fitted on. Whatever keeps a rule from being judged
(one positive row, scores that are no numbers) speaks against the challenger: the champion stays.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from aucsolvers.metrics import auc, delong, delong_paired, gmean
from tasks.drift import (
    ROWS_A_BIN,
    ScoreProfile,
    bins_for,
    bins_held,
    kolmogorov_smirnov,
    ks_at_most,
    ks_by_chance,
    psi,
    psi_by_chance,
)
from tasks.errors import BadInput, nearest
from tasks.schema import Strict
from tasks.values import Finding

SEVERITIES = ("warning", "info")
CHECKS = (
    "category_column",
    "clock_column",
    "codes_as_quantities",
    "constant_column",
    "contradictory_labels",
    "cut_off_label",
    "lone_label",
    "duplicates",
    "duplicates_across_split",
    "empty_column",
    "groups",
    "hidden_copies",
    "identifier_column",
    "idle_group",
    "large_group",
    "missing_values",
    "near_constant_column",
    "repeated_identifier",
    "repeated_name",
    "separating_column",
    "text_column",
    "time",
    "uneven_time",
)
BEYOND_CHANCE = 0.99  # the confidence with which few new rows of another kind are not so by chance
LEAKS = ("separating_column", "clock_column")


class Rules(Strict):
    """When a challenger is promoted: every rule has to pass.

    The defaults: no worse than the champion by more than 0.01 of AUC, with 95 % confidence; better than guessing; from
    at least ten positive rows; on data that score much as the champion's training rows did and give no label away.
    """

    # The AUC that a challenger may lack; 0 asks for one that is shown to be better, or that ranks just alike.
    non_inferiority_margin: float = Field(default=0.01, ge=0, lt=1, strict=True)
    confidence: float = Field(default=0.95, ge=0.5, lt=1, strict=True)  # one-sided
    min_auc: float = Field(default=0.6, ge=0, le=1, strict=True)
    min_gmean: float = Field(default=0.5, ge=0, le=1, strict=True)  # a coin has 0.5
    # Drift of the champion's scores since its training; null leaves a rule out. Normal scores that move by half a
    # standard deviation have a PSI of 0.25 and a Kolmogorov-Smirnov statistic of 0.2. Of fewer than about 60 held-out
    # rows chance alone makes a statistic of 0.2: allow more there.
    max_psi: float | None = Field(default=0.25, ge=0, allow_inf_nan=False, strict=True)
    max_ks: float | None = Field(default=0.2, ge=0, le=1, strict=True)
    # The same of the rows alone that have come since, or what chance makes of so few: a batch of another kind is to be
    # seen, seasons and batches that differ a little are to pass. Normal scores that move by 1.35 standard deviations.
    max_ks_new: float | None = Field(default=0.5, ge=0, le=1, strict=True)
    min_positives: int = Field(default=10, ge=1, strict=True)  # among the held-out rows, and as many negatives
    data_checks: tuple[str, ...] = LEAKS  # findings that stop a promotion: their kinds, or warning, or info

    @field_validator("data_checks")
    @classmethod
    def _known_checks(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        known = (*SEVERITIES, *CHECKS)
        for name in names:
            if name not in known:
                raise ValueError(f"Expected data checks out of {', '.join(known)}; got '{name}'.{nearest(name, known)}")
        return names


@dataclass(frozen=True)
class Contender:
    """A model as it is compared: its scores of the held-out rows, and the threshold above which they are positive."""

    scores: np.ndarray
    threshold: float
    profile: ScoreProfile | None = None  # on the day of its training; drift is measured from the champion's
    new: np.ndarray | None = None  # which rows are none of those of that profile; None: nobody knows
    new_profile: ScoreProfile | None = None  # of those of that day that were new then
    earlier_auc: float | None = None  # on the held-out rows of its own time


@dataclass(frozen=True)
class Judged:
    """One rule and what it found; ``value`` is None where nothing could be measured."""

    rule: str
    passed: bool
    value: float | None
    limit: float
    reason: str  # a sentence with the numbers


@dataclass(frozen=True)
class Decision:
    """Whether the challenger becomes the champion, and why: the first rule that failed, or what the rules found."""

    promote: bool
    reason: str
    judged: tuple[Judged, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the decision as JSON holds it; all numbers are finite."""
        return asdict(self) | {"judged": [asdict(judged) for judged in self.judged]}


def decide(
    rules: Rules,
    y: np.ndarray,
    challenger: Contender,
    champion: Contender | None,
    findings: Sequence[Finding] = (),
    groups: np.ndarray | None = None,
    before: Sequence[Judged] = (),
) -> Decision:
    """Judge the challenger on held-out rows with labels y of ±1; without a champion by the rules for any model alone.

    ``groups`` tell which rows depend on each other, being of one patient for instance: what is asked of a number of
    rows is then asked of groups, and variances are those of groups. ``before`` is what was judged to get to these rows.

    Raises
    ------
    BadInput
        If the labels are not ±1, a contender has not one score a row, or a threshold is no number.
    """
    y = _checked(y, challenger, champion)
    judged = [*before, _data_checks(rules, findings), *_scorable(rules, y, challenger, champion, groups)]
    if all(found.passed for found in judged if found.rule in ("both_classes", "finite_scores")):
        if champion is not None:
            judged.append(_label_polarity(rules, y, champion, groups))
        judged += [_min_auc(rules, y, challenger), _min_gmean(rules, y, challenger)]
        if champion is not None:
            judged += [_non_inferiority(rules, y, challenger, champion, groups), *_drift(rules, champion)]
            judged += _new_rows(rules, champion)
    failed = next((found for found in judged if not found.passed), None)
    reason = _summary(judged, champion is None) if failed is None else failed.reason
    return Decision(failed is None, reason, tuple(judged))


def _checked(y: np.ndarray, challenger: Contender, champion: Contender | None) -> np.ndarray:
    """Return y as an array, or refuse what is not a comparison on the same rows."""
    y = np.asarray(y)
    if y.ndim != 1 or not len(y) or not np.isin(y, (-1, 1)).all():
        raise BadInput(
            f"Expected labels of -1 and +1, one a row, got {y.ravel()[:5].tolist()}. Convert the data first."
        )
    for name, contender in (("challenger", challenger), ("champion", champion)):
        if contender is None:
            continue
        shape = np.shape(contender.scores)
        if shape != y.shape:
            raise BadInput(
                f"Expected the {name}'s scores of the same {len(y):,} held-out rows, got an array of shape {shape}. "
                "Score the same rows with both."
            )
        if not math.isfinite(contender.threshold):
            raise BadInput(f"Expected a number as the {name}'s threshold, got {contender.threshold}. Train it again.")
    return y


# What has to hold before anything can be compared -----------------------------------------------------------------


def _data_checks(rules: Rules, findings: Sequence[Finding]) -> Judged:
    stopping = [f for f in findings if f.kind in rules.data_checks or f.severity in rules.data_checks]
    if not stopping:
        reason = f"Of {len(findings)} findings about the data none stops a promotion."
    else:
        more = f" (and {len(stopping) - 1} more)" if len(stopping) > 1 else ""
        reason = f"The data have a finding that stops a promotion, {stopping[0].kind}{more}: {stopping[0].message}"
    return Judged("data_checks", not stopping, float(len(stopping)), 0.0, reason)


def positives(y: np.ndarray, groups: np.ndarray | None, called: str = "positive") -> tuple[int, str]:
    """Return how many positive rows, or groups that have some, there are; and that in words."""
    n_pos = int((y > 0).sum())
    if groups is None:
        return n_pos, f"{n_pos:,} {called} ones"
    found = len(np.unique(groups[y > 0]))
    return found, f"{n_pos:,} {called} ones of {found:,} group{'s' * (found != 1)}"


def _scorable(
    rules: Rules, y: np.ndarray, challenger: Contender, champion: Contender | None, groups: np.ndarray | None
) -> Iterator[Judged]:
    n_pos, least = int((y > 0).sum()), rules.min_positives
    (found, told), (others, negative) = positives(y, groups), positives(-y, groups, "negative")
    asked = f"at least {least:,}{'' if groups is None else ' groups'}"
    if others < least:
        told, asked = f"{told} and {negative}", f"{asked} of either class"
    reason = f"The held-out rows include {told}, {asked} are asked for."
    yield Judged("min_positives", min(found, others) >= least, float(min(found, others)), float(least), reason)
    rarer = min(n_pos, len(y) - n_pos)
    reason = f"The held-out rows are {n_pos:,} positive and {len(y) - n_pos:,} negative ones"
    reason += "." if rarer else ": without both classes no model can be judged."
    yield Judged("both_classes", rarer > 0, float(rarer), 1.0, reason)
    strange = {"challenger": _not_finite(challenger), "champion": 0 if champion is None else _not_finite(champion)}
    name, count = max(strange.items(), key=lambda item: item[1])
    reason = f"All scores of the {len(y):,} held-out rows are numbers."
    if count:
        reason = f"The {name} scores {count:,} of {len(y):,} held-out rows as nan or infinite: it cannot be judged."
    yield Judged("finite_scores", not count, float(sum(strange.values())), 0.0, reason)


def _not_finite(contender: Contender) -> int:
    return int(np.count_nonzero(~np.isfinite(contender.scores)))


# Rules for any model ----------------------------------------------------------------------------------------------


def _min_auc(rules: Rules, y: np.ndarray, challenger: Contender) -> Judged:
    area, least = auc(y, challenger.scores), rules.min_auc
    reason = f"The challenger's AUC is {area:.4f} on the held-out rows, at least {least:g} is asked for."
    return Judged("min_auc", area >= least, area, least, reason)


def _min_gmean(rules: Rules, y: np.ndarray, challenger: Contender) -> Judged:
    mean, least = gmean(y, np.where(challenger.scores > challenger.threshold, 1, -1)), rules.min_gmean
    reason = (
        f"The challenger's G-mean is {mean:.4f} at its threshold of {challenger.threshold:.6g}, at least {least:g} is "
        "asked for."
    )
    return Judged("min_gmean", mean >= least, mean, least, reason)


# Rules against the champion ---------------------------------------------------------------------------------------


def _label_polarity(rules: Rules, y: np.ndarray, champion: Contender, groups: np.ndarray | None) -> Judged:
    """Refuse rows that the champion ranks backwards, beyond chance: their labels are the other way round.

    One row of a class, or one group, has no variance, and tells nothing of that.
    """
    area, variance = delong(y, champion.scores, groups)[:2]
    high = 1.0 if math.isnan(variance) else min(1.0, area + _z(rules) * math.sqrt(variance))
    was_backwards = champion.earlier_auc is not None and champion.earlier_auc <= 0.5
    flipped = high < 0.5 and not was_backwards
    then = "" if champion.earlier_auc is None else f" (at its own time {champion.earlier_auc:.4f})"
    verdict = "there is no sign that the labels have changed places."
    if flipped:
        verdict = (
            "it ranks them backwards, as if the labels had changed places. If the rarer class has become the other "
            "one, name the positive label in the conversion."
        )
    reason = (
        f"The champion's AUC is {area:.4f} on the held-out rows{then}, with {_percent(rules)} confidence at most "
        f"{high:.4f}: {verdict}"
    )
    return Judged("label_polarity", not flipped, high, 0.5, reason)


def _non_inferiority(
    rules: Rules, y: np.ndarray, challenger: Contender, champion: Contender, groups: np.ndarray | None
) -> Judged:
    """Pass a challenger whose AUC is, by the paired DeLong test, not lower by more than the margin.

    With a variance of 0 (two models that rank alike, or both without an error) the bound is the difference itself.
    """
    difference, variance = delong_paired(y, challenger.scores, champion.scores, groups)[:2]
    limit = 0.0 - rules.non_inferiority_margin  # and not -0.0
    n_pos = int((y > 0).sum())
    if math.isnan(variance):
        (found, _), (others, _) = positives(y, groups), positives(-y, groups)
        reason = (
            f"The paired DeLong test needs two held-out {'rows' if groups is None else 'groups'} of each class, got "
            f"{found:,} positive and {others:,} negative: whether the challenger is inferior cannot be told."
        )
        return Judged("non_inferiority", False, None, limit, reason)
    bound = max(-1.0, difference - _z(rules) * math.sqrt(variance))
    passed = bound >= limit
    verdict = ("superior" if bound > 0 else "non-inferior") if passed else "not shown to be non-inferior"
    reason = (
        f"The challenger's AUC is {auc(y, challenger.scores):.4f}, the champion's {auc(y, champion.scores):.4f} on the "
        f"same {len(y):,} rows ({n_pos:,} positive): the difference of {difference:+.4f} is with {_percent(rules)} "
        f"confidence at least {bound:+.4f} (paired DeLong{'' if groups is None else ', by groups'}), {limit:g} is "
        f"allowed: the challenger is {verdict}."
    )
    return Judged("non_inferiority", passed, bound, limit, reason)


def _drift(rules: Rules, champion: Contender) -> Iterator[Judged]:
    """Yield how far the champion's scores have moved since its training: the model is the same, so the rows drifted."""
    for rule, limit in (("max_psi", rules.max_psi), ("max_ks", rules.max_ks)):
        if limit is None:
            continue
        if champion.profile is None:
            reason = f"The champion has no profile of its earlier scores to measure drift from; {rule}: null goes on."
            yield Judged(rule, False, None, limit, reason)
            continue
        name, value, chance = _measured(rule, champion.profile, champion.scores)
        reason = (
            f"From the champion's {champion.profile.n_rows:,} held-out scores of its own day to its "
            f"{len(champion.scores):,} now the {name} is {value:.4f} (about {chance:.2g} by chance), at most {limit:g} "
            "is allowed."
        )
        yield Judged(rule, value <= limit, value, limit, reason)


def _measured(rule: str, profile: ScoreProfile, scores: np.ndarray) -> tuple[str, float, float]:
    """Return a measure's name, its value, and its mean where nothing has drifted."""
    rows = len(scores)
    if rule == "max_ks":
        return "Kolmogorov-Smirnov statistic", kolmogorov_smirnov(profile, scores), ks_by_chance(profile, rows)
    bins = bins_for(min(profile.n_rows, rows))
    name = f"population stability index in {max(2, bins_held(profile, bins))} bins"
    return name, psi(profile, scores, bins), psi_by_chance(profile, rows, bins)


def _new_rows(rules: Rules, champion: Contender) -> Iterator[Judged]:
    """Yield how far the scores of the rows that have come since are from those of the champion's day.

    Among the rows of that day, whose scores are what they were, a batch of another kind would drown. Rows such as those
    that were new then are no surprise either: what was accepted once is not refused again. Of rows so few that they may
    be anything by chance nothing is told.
    """
    limit, new = rules.max_ks_new, champion.new
    if limit is None or champion.profile is None or new is None or not new.any():
        return
    scores, then = champion.scores[new], champion.profile.n_rows
    since = {f"the champion's {then:,} held-out scores of its own day": champion.profile}
    if champion.new_profile is not None and champion.new_profile.n_rows >= ROWS_A_BIN:
        since[f"the champion's {champion.new_profile.n_rows:,} scores of what was new on its own day"] = (
            champion.new_profile
        )
    ranked = []
    for words, profile in since.items():
        allowed = max(limit, ks_at_most(profile, len(scores), BEYOND_CHANCE))
        if allowed < 1.0:
            ranked.append((kolmogorov_smirnov(profile, scores), allowed, words, profile))
    if not ranked:
        return
    value, allowed, words, profile = min(ranked, key=lambda one: one[0] - one[1])
    few = "" if allowed == limit else ", beyond which chance goes once in a hundred times"
    reason = (
        f"From {words} to those of the {len(scores):,} rows of {len(new):,} that are new since, the Kolmogorov-Smirnov "
        f"statistic is {value:.4f} (about {ks_by_chance(profile, len(scores)):.2g} by chance), at most {allowed:.4g} "
        f"is allowed{few}."
    )
    if value > allowed:
        reason += " Look at them; max_ks_new: null lets them in."
    yield Judged("max_ks_new", value <= allowed, value, allowed, reason)


# Words ------------------------------------------------------------------------------------------------------------


NO_CHAMPION = "There is no champion yet, and the"  # begins the reason of a model that had to beat none


def _summary(judged: list[Judged], is_first: bool) -> str:
    """Return why all is well."""
    found = {one.rule: one for one in judged}
    if is_first:
        return (
            f"{NO_CHAMPION} challenger passed all {len(judged)} rules for any model: its AUC is "
            f"{found['min_auc'].value:.4f}, its G-mean {found['min_gmean'].value:.4f}."
        )
    return f"The challenger passed all {len(judged)} rules. {found['non_inferiority'].reason}"


def _percent(rules: Rules) -> str:
    return f"{100 * rules.confidence:.6g} %"


def _z(rules: Rules) -> float:
    return NormalDist().inv_cdf(rules.confidence)
