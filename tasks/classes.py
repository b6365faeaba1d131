"""Classes: from the labels in a file to +1 and -1, by a rule that the provenance records.

Labels are texts as a person would recognise them: 1, 1.0, "1" and True are the same one. What is random here depends on
the rule's seed and on the labels alone, in their order of sorting: the same data give the same classes anywhere.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from aucsolvers.cells import MISSING, cell_text
from tasks.errors import BadInput, nearest
from tasks.values import ConversionRule

CONTINUOUS = 50  # a target of more different numbers than this is taken for a measurement
_SHOWN = 8  # labels and columns that a message lists


@dataclass(frozen=True)
class Classes:
    """The labels of a data set as two classes."""

    y: np.ndarray  # int8: +1, -1, and 0 in rows that the rule leaves out
    positive: str  # the label, or the labels in a row: "0, 3, 5"
    negative: str  # the same, or "rest"
    counts: dict[str, int]  # original label -> rows
    sides: dict[str, int]  # original label -> +1, -1 or 0
    rule: str  # in words


@dataclass(frozen=True)
class Division:
    """Which labels are +1, which -1 and which left out, as a rule divides them; says nothing of single rows."""

    positive: str
    negative: str
    counts: dict[str, int]
    sides: dict[str, int]
    rule: str
    kept: np.ndarray | None = None  # of the positive rows in their order, whether to_ratio keeps each; None: all

    def sides_of(self, codes: np.ndarray, labels: np.ndarray, seen: int = 0) -> np.ndarray:
        """Return y of rows with these labels, of which ``codes`` are the positions; ``seen`` positives came before."""
        y = np.array([self.sides[label] for label in labels], dtype=np.int8)[codes]
        if self.kept is not None:
            positive = np.flatnonzero(y > 0)
            y[positive[~self.kept[seen : seen + len(positive)]]] = 0
        return y


def two_classes(labels: pd.Series, column: str, rule: ConversionRule, place: Callable[[int], str]) -> Classes:
    """Return the labels of a column as two classes.

    By default the rarer of two labels is positive, and of two that are equally frequent the one that sorts last; of
    more labels the rule has to say which. See ``ConversionRule`` for what else there is.
    """
    codes, values = coded_labels(labels, column, place)
    division = divide(dict(zip(values, np.bincount(codes).tolist(), strict=True)), column, rule)
    y = division.sides_of(codes, values)
    return Classes(y, division.positive, division.negative, division.counts, division.sides, division.rule)


def coded_labels(labels: pd.Series, column: str, place: Callable[[int], str]) -> tuple[np.ndarray, np.ndarray]:
    """Return the position of each row's label, and the labels as texts; a row without one is refused."""
    codes, values = pd.factorize(_as_text_labels(labels), sort=False)
    if (codes < 0).any():
        raise BadInput(
            f"Expected a label in every row of column '{column}', got {int((codes < 0).sum())} without, the first in "
            f"{place(int(np.argmax(codes < 0)))}. Fill them in or remove the rows."
        )
    return codes, values


def divide(counts: dict[str, int], column: str, rule: ConversionRule) -> Division:
    """Return how a rule divides labels, given with their numbers of rows."""
    counts = {label: counts[label] for label in sorted(counts, key=_order)}
    if len(counts) < 2:
        got = f"got one ({shortened(next(iter(counts)))}) in all {sum(counts.values()):,} rows"
        asked = f", '{rule.positive}' and others," if rule.positive is not None else ""
        raise BadInput(
            f"Expected two classes{asked} in column '{column}', {got}. Are rows missing? Or choose another target with "
            "--target (target, in a config)."
        )
    sides, words = _SIDES[rule.conversion](counts, column, rule)
    _refuse_spellings(sides, column, rule)
    positive, negative = ([label for label in counts if sides[label] == side] for side in (1, -1))
    rest = len(counts) > 2 and len(positive) == 1 and len(negative) == len(counts) - 1
    kept = None
    if rule.to_ratio is not None:
        n_pos, n_neg = (sum(counts[label] for label in group) for group in (positive, negative))
        kept = _kept(n_pos, n_neg, rule.to_ratio, rule.seed)
        left = int(kept.sum())
        words += f"; thinned from {n_pos:,} to {left:,}, ratio {n_neg / left:.4g} (seed {rule.seed})"
    return Division(_joined(positive), "rest" if rest else _joined(negative), counts, sides, words, kept)


def _refuse_spellings(sides: dict[str, int], column: str, rule: ConversionRule) -> None:
    """Refuse labels that differ in spelling alone, yes and Yes, where they part without both having been named.

    Of two labels, to name one is to name the other. Of labels drawn at random none is named, so that letters may be
    classes there: a and A.
    """
    if rule.conversion == "random_halves" or (len(sides) == 2 and rule.positive is not None):
        return
    named = {label_key(label).casefold() for label in rule.groups[0]} & {
        label_key(label).casefold() for label in rule.groups[1]
    }
    spellings: dict[str, list[str]] = {}
    for label in sides:
        spellings.setdefault(label_key(label).casefold(), []).append(label)
    for key, labels in spellings.items():
        if key not in named and len({sides[label] for label in labels}) > 1:
            listed = ", ".join(shortened(label) for label in labels)
            raise BadInput(
                f"Expected labels of column '{column}' that are spelt in one way, got {name_list(labels)}, of which "
                f"some would be positive and others not. Mend them, or name all in conversion: {{rule: class_groups, "
                f"positive: [{listed}]}}; if they are two classes, name each in its group."
            )


def _joined(labels: list[str]) -> str:
    return labels[0] if len(labels) == 1 else name_list(labels, quote=False)


# Rules: (label -> side, words) -----------------------------------------------------------------------------------


def _by_default(counts: dict[str, int], column: str, rule: ConversionRule) -> tuple[dict[str, int], str]:
    if rule.positive is not None:
        chosen = _matching(rule.positive, counts, column)
        return _against_rest(chosen, counts), _asked(chosen, counts)
    if len(counts) > 2:
        raise _too_many(counts, column)
    return _minority(counts, column, rule)


def _minority(counts: dict[str, int], column: str, rule: ConversionRule) -> tuple[dict[str, int], str]:
    if len(counts) > 2:
        raise _too_many(counts, column)
    chosen = _rarest(counts)
    tied = len(set(counts.values())) == 1
    words = f"{chosen} positive, last of two equally frequent" if tied else f"minority class {chosen} positive"
    return _against_rest(chosen, counts), words


def _one_vs_rest(counts: dict[str, int], column: str, rule: ConversionRule) -> tuple[dict[str, int], str]:
    if rule.positive is not None:
        return _by_default(counts, column, rule)
    chosen = _rarest(counts)
    return _against_rest(chosen, counts), f"{chosen}, the rarest, against the rest"


def _class_groups(counts: dict[str, int], column: str, rule: ConversionRule) -> tuple[dict[str, int], str]:
    groups = [
        [_matching(label, counts, column, f"each {side} label") for label in group]
        for side, group in zip(("positive", "negative"), rule.groups, strict=True)
    ]
    both = sorted(set(groups[0]) & set(groups[1]))
    if both:
        raise BadInput(f"Expected each label of column '{column}' in one group, got '{both[0]}' in both. Remove one.")
    if not groups[0] or len(set(groups[0])) == len(counts):
        raise BadInput(f"Expected some of the labels of column '{column}' as positive, got none or all. Name a few.")
    rest = -1 if not groups[1] else 0
    sides = {label: 1 if label in groups[0] else -1 if label in groups[1] else rest for label in counts}
    return sides, f"{_joined(groups[0])} against {_joined(groups[1]) if groups[1] else 'the rest'}"


def _random_halves(counts: dict[str, int], column: str, rule: ConversionRule) -> tuple[dict[str, int], str]:
    """Split the labels at random into two groups of equal number (Natole et al. 2019); the one of fewer rows is +1."""
    labels = list(counts)
    order = np.random.default_rng(rule.seed).permutation(len(labels))
    half = {labels[i] for i in order[: len(labels) // 2]}
    in_half = sum(counts[label] for label in half)
    positive = half if 2 * in_half <= sum(counts.values()) else set(labels) - half
    sides = {label: 1 if label in positive else -1 for label in labels}
    return sides, f"{len(positive)} of {len(labels)} classes, drawn at random (seed {rule.seed}), against the others"


_SIDES = {
    "default": _by_default,
    "minority_positive": _minority,
    "one_vs_rest": _one_vs_rest,
    "class_groups": _class_groups,
    "random_halves": _random_halves,
}


def _against_rest(chosen: str, counts: dict[str, int]) -> dict[str, int]:
    return {label: 1 if label == chosen else -1 for label in counts}


def _rarest(counts: dict[str, int]) -> str:
    """Return the label of fewest rows; of several the one that sorts last."""
    return min(reversed(counts), key=counts.__getitem__)


def _asked(positive: str, counts: dict[str, int]) -> str:
    return f"{positive} against the rest" if len(counts) > 2 else f"{positive} positive as asked"


def _kept(n_pos: int, n_neg: int, ratio: float, seed: int) -> np.ndarray:
    """Return which positives are kept, drawn at random: as many as make n-/n+ the ratio."""
    wanted = round(n_neg / ratio)
    if not 1 <= wanted <= n_pos:
        raise BadInput(
            f"Expected to_ratio between {n_neg / n_pos:.4g}, the data's own, and {n_neg:,} (one positive row), got "
            f"{ratio:g}. Positives can only be thinned out. Choose a ratio in between."
        )
    kept = np.ones(n_pos, dtype=bool)
    kept[np.random.default_rng(seed).permutation(n_pos)[wanted:]] = False
    return kept


# Labels and words ------------------------------------------------------------------------------------------------


def _too_many(counts: dict[str, int], column: str) -> BadInput:
    orders = [_order(label) for label in counts]
    # fractions, or hardly a number twice: a measurement; whole numbers that repeat may well be classes
    fractions = any(value != int(value) for _, value, _ in orders if math.isfinite(value))
    numbers = not any(is_text for is_text, _, _ in orders)
    if numbers and len(counts) > CONTINUOUS and (fractions or 2 * len(counts) > sum(counts.values())):
        return BadInput(
            f"Expected two classes in column '{column}', got {len(counts):,} different numbers from "
            f"{next(iter(counts))} to {next(reversed(counts))}: it looks like a measurement. "
            "Choose the target with --target (target, in a config)."
        )
    listed = name_list([f"{shortened(label)} ({rows})" for label, rows in counts.items()], quote=False)
    return BadInput(
        f"Expected two classes in column '{column}', got {len(counts):,}: {listed}. "
        "Name the one to set against the rest with --positive (positive, in a config)."
    )


def _as_text_labels(labels: pd.Series) -> np.ndarray:
    """Return labels as texts that a person would recognise, None where there is none."""
    codes, values = pd.factorize(labels)
    texts = np.empty(len(values) + 1, dtype=object)
    texts[:-1] = [None if isinstance(v, str) and v.strip() in MISSING else cell_text(v) for v in values]
    return texts[codes]  # code -1, missing, is the last entry: None


def label_key(label: str) -> str:
    """Return what all spellings of a label have in common: 1, 1.0, +1 and True are the same one."""
    text = {"true": "1", "false": "0"}.get(label.strip().lower(), label.strip())
    try:
        return cell_text(float(text)) or text
    except (ValueError, OverflowError):
        return text


def _order(label: str) -> tuple[bool, float, str]:
    """Sort numbers by value, and before texts."""
    try:
        value = float(label)
    except ValueError:
        value = math.nan
    return (True, 0.0, label) if math.isnan(value) else (False, value, label)


def _matching(wanted: str, counts: dict[str, int], column: str, what: str = "the positive class") -> str:
    """Return the label that is ``wanted``: literally, in another spelling, or but for upper and lower case."""
    for spelling in (str, label_key, lambda label: label_key(label).casefold()):
        matches = [label for label in counts if spelling(label) == spelling(wanted)]
        if len(matches) == 1:
            return matches[0]
    listed = name_list([shortened(label) for label in counts], quote=False)
    raise BadInput(
        f"Expected {what} to be one of column '{column}' ({listed}), got '{wanted}'."
        f"{nearest(wanted, tuple(counts)) or ' Correct it.'}"
    )


def shortened(label: str) -> str:
    return label if len(label) <= 40 else label[:39] + "…"


def name_list(names: list[str] | tuple[str, ...], quote: bool = True) -> str:
    """Return the first few of a list of names, and how many there are in all."""
    shown = [f"'{shortened(n)}'" if quote else n for n in names[:_SHOWN]]
    more = f", … ({len(names)} in all)" if len(names) > _SHOWN else ""
    return ", ".join(shown) + more
