"""Unseen: which of today's rows a champion was not trained on, as its manifest tells, and where that cannot be told.

It held out a share of all rows by what they hold (`tasks.split.HeldOut`), or of groups, or the newest rows. Which of
today's rows these are can be told as long as columns, groups and times are written as they were.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.decide import Judged, positives
from tasks.moments import Moment, end_of, in_words, read_again, shown
from tasks.registry import Version
from tasks.split import HeldOut, far, kept_together, lasting_keys, mixed
from tasks.values import Dataset, Table

if TYPE_CHECKING:
    from tasks.retraining import RetrainConfig

RENAMED = 0.25  # share of rows held out that train today from which on it is no chance
REDATED = 0.1  # the same of rows that are later than those that a champion was trained on, and were among them
SAMPLED = 10_000  # keys by which that is told
FEWEST_LATE = 20  # later rows, of which as many are like older ones as chance has it
TRAINED = "trained_rows.json"


@dataclass(frozen=True)
class KeySample:
    """A sample of uint64 keys: the least of them, mixed, so that of any other keys a share is told of.

    Cohen and Kaplan, Summarizing data using bottom-k sketches, PODC 2007.
    """

    least: np.ndarray  # ascending

    @classmethod
    def of(cls, keys: np.ndarray) -> "KeySample":
        """Return the sample of these keys, each of which counts once."""
        return cls(np.unique(mixed(keys))[:SAMPLED])

    @classmethod
    def read(cls, text: str) -> "KeySample":
        """Return the sample that `text` was made of."""
        return cls(np.frombuffer(bytes.fromhex(text), dtype=">u8").astype(np.uint64))

    @property
    def text(self) -> str:
        """The sample in hex."""
        return self.least.astype(">u8").tobytes().hex()

    def has(self, keys: np.ndarray) -> np.ndarray:
        """Return which of some keys are in the sample."""
        return np.isin(mixed(keys), self.least)

    def count(self, keys: np.ndarray) -> tuple[int, int]:
        """Return how many of some keys are in the sample, and of how many it tells."""
        keys = mixed(keys)
        told = keys if len(self.least) < SAMPLED else keys[keys <= self.least[-1]]
        return int(np.isin(told, self.least).sum()), len(told)


@dataclass(frozen=True)
class Trained:
    """What is kept of the rows that trained a model, where they have times: samples of their and their groups' keys.

    And of the keys of all rows of that day, each with its group's.
    """

    rows: KeySample
    groups: KeySample | None = None
    pairs: KeySample | None = None  # earlier retrainings kept none

    @classmethod
    def of(cls, table: Table, rows: np.ndarray) -> "Trained":
        """Return what is kept of the rows of a table that were trained on."""
        keys = lasting_keys(table.X)
        if table.groups is None:
            return cls(KeySample.of(keys[rows]))
        return cls(
            KeySample.of(keys[rows]), KeySample.of(table.groups[rows]), KeySample.of(_paired(keys, table.groups))
        )

    @classmethod
    def from_json(cls, text: str) -> "Trained":
        """Return what `as_json` wrote."""
        found = {name: KeySample.read(sample) for name, sample in json.loads(text).items()}
        return cls(found["rows"], found.get("groups"), found.get("pairs"))

    def as_json(self) -> str:
        """Return the samples as JSON."""
        return json.dumps({name: sample.text for name, sample in vars(self).items() if sample is not None})


@dataclass(frozen=True)
class Past:
    """What is known of a champion's training."""

    champion: Version
    manifest: dict[str, Any]
    trained: Trained | None  # None as ``held_out`` where it cannot be read, or was not kept in earlier days
    held_out: np.ndarray | None  # the keys of the rows that it held out

    @property
    def until(self) -> Moment:
        """The latest moment of the rows that its last model was trained on; None if they had no time."""
        return _trained_until(self.manifest)

    def trained_to(self, times: np.ndarray) -> Moment:
        """Return the end of the month or day that `until` stands for if today's times are finer than those were."""
        end = end_of(self.until, self._moments)
        return end if end_of(self.until, times) < end else self.until

    @property
    def tested_to(self) -> Moment:
        """The same of the rows that it held out, the newest of its day."""
        return end_of(read_again(self.manifest["splits"][-1]["tested_until"]), self._moments)

    @property
    def _moments(self) -> np.ndarray:
        kept = (split.get(name) for split in self.manifest["splits"] for name in ("trained_until", "tested_until"))
        return np.array([read_again(one) for one in kept if one is not None])


def _paired(keys: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """Return one key for each row and its group."""
    return mixed(keys) ^ groups


def unseen_rows(past: Past, whole: Table, keys: np.ndarray, rows: np.ndarray, grouped: bool) -> np.ndarray:
    """Return which of some rows of a table a champion held out, or are later than all that it was trained on.

    The columns of ``whole`` are those that its model knows, ``keys`` are its rows'. None of the rows' group was
    trained on; with times, they are later by the table's gap and, where copies stay together (``grouped``), no copies
    either. What has left the file is told by ``past.trained``, of up to SAMPLED groups and copies.
    """
    until, trained, groups = past.until, past.trained, None if whole.groups is None else whole.groups[rows]
    if until is not None and whole.times is not None:
        until = past.trained_to(whole.times)
        seen, together = whole.times <= until, kept_together(whole, grouped)
        unseen = ~seen[rows] & far(whole.times[rows], np.array([until]), whole.gap)
        if together is not None:
            unseen &= ~np.isin(together[rows], together[seen])
        if trained is not None and trained.groups is not None and groups is not None:
            unseen &= ~trained.groups.has(groups)
        if trained is not None and grouped:
            unseen &= ~trained.rows.has(keys[rows])
        return unseen
    by_groups = role_of(past.manifest, "group") is not None
    unseen = _held_out_of(past.manifest).rows(whole.X, whole.groups if by_groups else None)[rows]
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


def judge_unseen(past: Past, config: "RetrainConfig", whole: Table, table: Table, unseen: np.ndarray) -> Judged:
    """Tell how many of the held-out rows the champion has not seen, and whether they are enough to compare on."""
    others, y, least = table.rows(np.flatnonzero(unseen)), table.y, config.rules.min_positives
    left, (n_pos, told) = len(others.y), positives(others.y, others.groups)
    n_neg, negative = positives(-others.y, others.groups, "negative")
    if left == len(y):
        reason = f"{named(past.champion)} was not trained on any of the {left:,} held-out rows."
        return Judged("unseen_rows", True, float(n_pos), 0.0, reason)
    enough = min(n_pos, n_neg) >= least
    verdict = f"Both are judged on the {left:,} others."
    if not enough:
        verdict = f"The {left:,} others include {told} and {negative}, at least {least:,} of either class are needed."
    reason = (
        f"{named(past.champion)} may have been trained on {len(y) - left:,} of the {len(y):,} held-out rows: "
        f"{_why_others(past, config, whole.times)}. {verdict}"
    )
    return Judged("unseen_rows", enough, float(min(n_pos, n_neg)), float(least), reason)


def _why_others(past: Past, config: "RetrainConfig", times: np.ndarray | None) -> str:
    """Return why the champion's config held out other rows than this one."""
    before = past.manifest["config"]
    then = (before["validation"].get("held_out", 0.0), before["seed"])
    now = (config.validation.held_out, config.seed)
    if past.until is not None and times is not None:
        others = "" if config.data.group is None else f", and those of one '{config.data.group}' with these count too"
        others += ", and copies of those count too" if config.validation.grouped else ""
        others += (
            ""
            if config.data.gap is None
            else f", and what is later by less than {in_words(config.data.gap)} counts too"
        )
        return f"it was trained on rows until {shown(past.trained_to(times))}{others}"
    if config.data.time is not None:
        return f"it held out rows of all times, this config those that are the newest by '{config.data.time}'"
    if config.data.group is not None and role_of(past.manifest, "group") is None:
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


def redated(past: Past, whole: Table, keys: np.ndarray, rows: np.ndarray) -> Judged | None:
    """Tell that of some rows of today, those later than the champion's training were among it: of other times now.

    A row of which there still is a copy among the older ones has not moved. Of the others as many may be known as the
    champion held out with copies in its training, or as are copies of rows that are later, too; and a tenth more.
    ``keys`` are of all rows of today.
    """
    until, trained, then, time = past.until, past.trained, past.held_out, role_of(past.manifest, "time")
    if until is None or whole.times is None:
        return None
    if trained is None or then is None:
        return failed(
            "same_time",
            f"{named(past.champion)} kept no {TRAINED} that can be read, by which rows are known that are of another "
            f"'{time}' than they were.",
        )
    until = past.trained_to(whole.times)
    later = whole.times > until
    among = np.zeros(len(keys), dtype=bool)
    among[rows] = later[rows]
    tested = np.unique(keys[among])
    (crossed, _), (_, told) = (trained.rows.count(one) for one in (np.setdiff1d(tested, keys[~later]), tested))
    copies, of_copies = trained.rows.count(np.unique(then))
    chance = max(copies / max(of_copies, 1), np.isin(tested, keys[later & ~among]).sum() / max(len(tested), 1))
    if crossed <= 3 + (chance + REDATED) * told:
        return None
    return failed(
        "same_time",
        f"{named(past.champion)} was trained on rows until {shown(until)}, and {crossed:,} of {told:,} later ones were "
        f"among them. Either '{time}' is not as it was, so that which rows it has seen cannot be "
        "told, or they are copies of rows that have left the file. Write it as it was, or leave copies out.",
    )


def renamed_groups(past: Past, whole: Table, keys: np.ndarray) -> Judged | None:
    """Tell that which groups a champion was trained on cannot be known, for they have other names today.

    Or for rows have left the file of which it kept no groups. ``keys`` are of all rows of today.
    """
    group, by_time = role_of(past.manifest, "group"), past.until is not None
    if whole.groups is None or (group is None and not by_time):
        return None
    if group is None:
        return _left_without_groups(past, keys)
    moved = (_moved_by_pairs if by_time else _moved_by_draw)(past, whole, keys)
    if not moved:
        return None
    return failed(
        "same_group",
        f"{named(past.champion)} {moved}: the values of '{group}' are other ones than they were, so which rows it was "
        "trained on cannot be told. Write them as they were.",
    )


def _moved_by_draw(past: Past, whole: Table, keys: np.ndarray) -> str:
    """Tell how many of the rows that were held out would be trained on by the same rule today.

    An empty text if they are as many as may be by chance: as today's rows have copies in other groups.
    """
    then, out = past.held_out, _held_out_of(past.manifest).rows(whole.X, whole.groups)
    if then is None:
        return ""
    stays = np.isin(then, keys[out])
    crossed = int((np.isin(then, keys[~out]) & ~stays).sum())
    chance = float(np.isin(keys[out], keys[~out]).mean()) if out.any() else 0.0  # of a row's copy in another group
    if crossed <= max(RENAMED * (int(stays.sum()) + crossed), 3 + 2 * chance * len(then)):
        return ""
    return f"held out {len(then):,} rows, {crossed:,} of which it would be trained on by the same rule today"


def _moved_by_pairs(past: Past, whole: Table, keys: np.ndarray) -> str:
    """Tell how many rows of the champion's day are of other groups today; of rows of today that have no copy.

    Rows that are later than its newest row were not there. An empty text if they are as many as may be by chance: as
    rows have copies, or as later rows are like such as were there.
    """
    trained, then = past.trained, past.held_out
    if trained is None or trained.pairs is None or whole.groups is None or whole.times is None:
        return ""
    _, place, counts = np.unique(keys, return_inverse=True, return_counts=True)
    alone = counts[place] == 1
    late = whole.times > past.tested_to
    known = trained.rows.has(keys) if then is None else trained.rows.has(keys) | np.isin(keys, then)
    found, told = trained.pairs.count(_paired(keys, whole.groups)[known & alone & ~late])
    chance = max(1 - alone.mean(), known[late & alone].sum() / max((late & alone).sum(), FEWEST_LATE))
    if told - found <= max(RENAMED * told, 3 + 2 * chance * told):
        return ""
    return f"had {told:,} of today's rows that this can be told of, {told - found:,} of them in other groups"


def _left_without_groups(past: Past, keys: np.ndarray) -> Judged | None:
    """Tell that rows have left the file on which a champion was trained that knew of no groups."""
    gone = 0.0 if past.trained is None else 1 - float(np.isin(past.trained.rows.least, mixed(keys)).mean())
    if gone <= REDATED:
        return None
    return failed(
        "same_group",
        f"{named(past.champion)} was trained without a group, and {gone:.0%} of its training rows are no more in the "
        "data: of which groups these were cannot be told. Put them back, or leave group out.",
    )


def named(champion: Version) -> str:
    return f"The champion, version {champion.number},"


def failed(rule: str, reason: str) -> Judged:
    return Judged(rule, False, None, 0.0, reason)
