"""Unseen: which of today's rows a champion was not trained on, as its manifest tells, and where that cannot be told.

It held out a share of all rows by what they hold (`tasks.split.HeldOut`), or of groups, or the newest rows. Which of
today's rows these are can be told as long as columns, groups and times are written as they were.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.decide import Judged, positives
from tasks.moments import Moment, read_again, shown
from tasks.registry import Version
from tasks.split import HeldOut, kept_together, mixed
from tasks.values import Dataset, Table

if TYPE_CHECKING:
    from tasks.retraining import RetrainConfig

RENAMED = 0.25  # share of rows held out that train today from which on it is no chance
REDATED = 0.1  # the same of rows that are later than those that a champion was trained on, and were among them
SAMPLED = 10_000  # rows by which that is told


def unseen_rows(manifest: dict[str, Any], whole: Table, rows: np.ndarray, grouped: bool) -> np.ndarray:
    """Return which of some rows of a table a run held out, or are later than all that it was trained on.

    The columns of ``whole`` are those that the run's model knows. None of the rows' group was trained on; with times,
    where copies stay together (``grouped``), no copy either.
    """
    table, until = whole.rows(rows), _trained_until(manifest)
    if until is not None and whole.times is not None:
        unseen, together = whole.times[rows] > until, kept_together(whole, grouped)
        return unseen if together is None else unseen & ~np.isin(together[rows], together[whole.times <= until])
    groups = table.groups
    unseen = _held_out_of(manifest).rows(table.X, groups if role_of(manifest, "group") is not None else None)
    return unseen if groups is None else unseen & ~np.isin(groups, groups[~unseen])


def _held_out_of(manifest: dict[str, Any]) -> HeldOut:
    """Return the rule by which a run held out rows."""
    config = manifest["config"]
    return HeldOut.of(config["validation"].get("held_out", 0.0), config["seed"])


def role_of(manifest: dict[str, Any], role: str) -> str | None:
    """Return the column of a run's data that is its group or time; manifests of earlier days have none."""
    return manifest["data"]["conversion"].get(role)


def _trained_until(manifest: dict[str, Any]) -> Moment:
    """Return the latest moment of the rows that a run's last model was trained on; None if they had no time."""
    return read_again(manifest["splits"][-1]["trained_until"]) if role_of(manifest, "time") is not None else None


def judge_unseen(
    champion: Version, manifest: dict[str, Any], config: "RetrainConfig", table: Table, unseen: np.ndarray
) -> Judged:
    """Tell how many of the held-out rows the champion has not seen, and whether they are enough to compare on."""
    others, y, least = table.rows(np.flatnonzero(unseen)), table.y, config.rules.min_positives
    left, (n_pos, told) = len(others.y), positives(others.y, others.groups)
    if left == len(y):
        reason = f"{named(champion)} was not trained on any of the {left:,} held-out rows."
        return Judged("unseen_rows", True, float(n_pos), 0.0, reason)
    enough = n_pos >= least and bool((others.y < 0).any())
    verdict = f"Both are judged on the {left:,} others."
    if not enough:
        verdict = f"The {left:,} others include {told}, at least {least:,} and rows of both classes are needed."
    reason = (
        f"{named(champion)} may have been trained on {len(y) - left:,} of the {len(y):,} held-out rows: "
        f"{_why_others(manifest, config)}. {verdict}"
    )
    return Judged("unseen_rows", enough, float(n_pos), float(least), reason)


def _why_others(manifest: dict[str, Any], config: "RetrainConfig") -> str:
    """Return why the champion's config held out other rows than this one."""
    before = manifest["config"]
    then = (before["validation"].get("held_out", 0.0), before["seed"])
    now = (config.validation.held_out, config.seed)
    if _trained_until(manifest) is not None:
        others = "" if config.data.group is None else f", and those of one '{config.data.group}' with these count too"
        others += ", and so do their copies" if config.validation.grouped else ""
        return f"it was trained on rows until {shown(_trained_until(manifest))}{others}"
    if config.data.time is not None:
        return f"it held out rows of all times, this config those that are the newest by '{config.data.time}'"
    if config.data.group is not None and role_of(manifest, "group") is None:
        return f"it held out rows, this config holds out all rows of one '{config.data.group}'"
    if then == now:
        return "columns were added since, so that other rows are held out"
    return f"it held out {then[0]:.0%} by seed {then[1]}, this config {now[0]:.0%} by seed {now[1]}"


def other_roles(champion: Version, manifest: dict[str, Any], dataset: Dataset, table: Table) -> Iterator[Judged]:
    """Yield what makes it impossible to tell by groups or times which rows a champion was trained on."""
    until, by_role = _trained_until(manifest), {"group": "all rows of one '{}'", "time": "the newest rows by '{}'"}
    for role, words in by_role.items():
        theirs, ours = role_of(manifest, role), dataset.rule.roles.get(role)
        if theirs is not None and theirs != ours:
            told = "names none" if ours is None else f"names '{ours}'"
            yield failed(
                f"same_{role}",
                f"{named(champion)} held out {words.format(theirs)}, and the config {told} as {role}: which rows it "
                f"was trained on cannot be told. Name it ({role}: {theirs}), and its column as it was.",
            )
    if table.times is not None and until is not None and until.dtype.kind != table.times.dtype.kind:
        yield failed(
            "same_time",
            f"{named(champion)} was trained on rows until {shown(until)}, and '{dataset.rule.time}' has "
            f"{shown(table.times.max())} now. Write it as it was.",
        )


@dataclass(frozen=True)
class KeySample:
    """A sample of rows by their keys: the least of them, mixed, so that of any other rows a share is told of.

    Cohen and Kaplan, Summarizing data using bottom-k sketches, PODC 2007.
    """

    least: np.ndarray  # ascending

    @classmethod
    def of(cls, keys: np.ndarray) -> "KeySample":
        """Return the sample of rows with these keys."""
        return cls(np.unique(mixed(keys))[:SAMPLED])

    def count(self, keys: np.ndarray) -> tuple[int, int]:
        """Return how many of other rows are among the sampled ones, and how many the sample can tell of."""
        keys = mixed(keys)
        told = keys if len(self.least) < SAMPLED else keys[keys <= self.least[-1]]
        return int(np.isin(told, self.least).sum()), len(told)


def redated(
    champion: Version,
    manifest: dict[str, Any],
    trained_on: KeySample | None,
    then: np.ndarray | None,
    keys: np.ndarray,
) -> Judged | None:
    """Tell that rows which are later than the champion's training are those that it was trained on.

    As many may be as of the rows that it held out, whose keys are ``then``, had copies that trained it, and a tenth
    more; ``keys`` are of those that are later today. Of a champion without times nothing is told.
    """
    if trained_on is None or then is None:
        return None
    (crossed, told), (copies, of_copies) = trained_on.count(keys), trained_on.count(then)
    if crossed <= 3 + (copies / max(of_copies, 1) + REDATED) * told:
        return None
    return failed(
        "same_time",
        f"{named(champion)} was trained on rows until {shown(_trained_until(manifest))}, and {crossed:,} of them, in a "
        f"sample of {told:,}, are later now: '{role_of(manifest, 'time')}' is not as it was, so which rows it has seen "
        "cannot be told. Write it as it was.",
    )


def by_one_rule_of_groups(manifest: dict[str, Any], config: "RetrainConfig") -> bool:
    """Tell whether the champion's config held out groups, and by the same draw as this one."""
    by_time = role_of(manifest, "time") is not None or config.data.time is not None
    if role_of(manifest, "group") is None or by_time:
        return False
    return _held_out_of(manifest) == HeldOut.of(config.validation.held_out, config.seed)


def renamed_groups(
    champion: Version, config: "RetrainConfig", then: np.ndarray, held_out: np.ndarray, trained_on: np.ndarray
) -> Judged | None:
    """Tell that rows which the champion held out train the challenger, by the same rule: their groups are renamed.

    As many may as today's rows have copies in other groups. All three are keys of rows, ``then`` of those that the
    champion held out.
    """
    stays = np.isin(then, held_out)
    crossed = int((np.isin(then, trained_on) & ~stays).sum())
    chance = float(np.isin(held_out, trained_on).mean())  # of a row's having a copy in another group
    if crossed <= max(RENAMED * (int(stays.sum()) + crossed), 3 + 2 * chance * len(then)):
        return None
    return failed(
        "same_group",
        f"{named(champion)} held out {len(then):,} rows, {crossed:,} of which the challenger is trained on by the "
        f"same rule: the values of '{config.data.group}' are other ones than they were, so which rows it was trained "
        "on cannot be told. Write them as they were.",
    )


def named(champion: Version) -> str:
    return f"The champion, version {champion.number},"


def failed(rule: str, reason: str) -> Judged:
    return Judged(rule, False, None, 0.0, reason)
