"""Split: which rows train and which test. The same division for every method, so that they compare in pairs.

What must not be on both sides of a division stays together: rows of one group, such as a patient's, and copies of a
row where that is asked for. Where rows have a time, models are tested on later rows than those they were trained on.

Rows are told apart by 64-bit hashes of their features. Two different rows out of a million collide with a probability
of about 3e-8 (n²/2 pairs over 2⁶⁴ values), which neither a finding nor a division hangs on.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedGroupKFold

from aucsolvers._jit import kernel
from tasks.convert import load
from tasks.errors import BadInput
from tasks.moments import Length, shown
from tasks.seeds import seed_for
from tasks.stage import stage
from tasks.values import Dataset, Split, Table, n_rare

LEVEL = (1e-8, 1e-5)  # absolute and relative difference up to which two spreads are one
REFIT = -1  # the fold number of the final fit on all rows


@dataclass(frozen=True)
class HeldOut:
    """Which rows nothing is trained or chosen on: a share of them, told by what they hold and not by where they stand.

    A row that is held out stays so in every later version of the data with these columns, in whatever order, and so do
    its copies; where there are groups, a share of these is held out, with all rows that they have or will have. That is
    what lets models of different days be compared on rows that neither has seen. A larger share by the same seed holds
    out the same rows and more.

    Where rows have times, the newest are held out, as nearly this share as moments allow. They train later models,
    which are met on rows newer still.
    """

    share: float = 0.0
    seed: int = 0

    @classmethod
    def of(cls, share: float, seed: int) -> "HeldOut":
        """Return the rule of a config with this ``held_out`` and this seed."""
        return cls(share, seed_for(seed, "held out"))

    def rows(
        self, X: pd.DataFrame | csr_matrix, groups: np.ndarray | None = None, times: np.ndarray | None = None
    ) -> np.ndarray:
        """Return True for the rows held out."""
        if self.share == 0:
            return np.zeros(X.shape[0], dtype=bool)
        if times is not None:
            return _newest(times, self.share)
        drawn = mixed(mixed(lasting_keys(X) if groups is None else groups) ^ np.uint64(self.seed))
        return drawn < np.uint64(self.share * 2.0**64)


NOTHING = HeldOut()


def _newest(times: np.ndarray, share: float) -> np.ndarray:
    """Return True for the newest rows: of the shares that are all rows after some moment, the nearest to this one."""
    moments, counts = np.unique(times, return_counts=True)
    if len(moments) == 1:
        return np.zeros(len(times), dtype=bool)
    later = len(times) - np.cumsum(counts[:-1])
    return times > moments[np.argmin(np.abs(later - share * len(times)))]


def make_splits(
    y: np.ndarray, folds: int, repeats: int, seed: int, groups: np.ndarray | None = None
) -> tuple[Split, ...]:
    """Return ``folds * repeats`` stratified train/test divisions, row positions ascending.

    Rows with equal ``groups`` stay on one side of every division.

    Raises
    ------
    BadInput
        If groups are so large that a fold lacks a class on either side.
    """
    placeholder = np.zeros(len(y))
    if groups is None:
        splitter = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
        pairs = list(splitter.split(placeholder, y))
    else:
        seeds = (seed_for(seed, "repeat", repeat) for repeat in range(repeats))
        splitters = (_QuickGroupKFold(n_splits=folds, shuffle=True, random_state=s) for s in seeds)
        groups, known = pd.factorize(groups)  # by first appearance: no fold hangs on what rows are hashed to
        enough = len(known) >= folds
        pairs = [pair for splitter in splitters for pair in splitter.split(placeholder, y, groups)] if enough else []
        if not enough or any(len(np.unique(y[rows])) < 2 for pair in pairs for rows in pair):
            raise BadInput(
                f"Expected rows of both classes in each of {folds} folds, got a fold with one class: too many rows, of "
                "one group or copies of each other, are to be kept together. Use fewer folds, another group, or remove "
                "copies."
            )
    return tuple(Split(i, train, test) for i, (train, test) in enumerate(pairs))


def later_splits(
    y: np.ndarray, folds: int, times: np.ndarray, groups: np.ndarray | None = None, gap: Length = 0
) -> tuple[Split, ...]:
    """Return ``folds`` divisions by time: each is tested on a span of it, and trained on all rows before that.

    The rows' time is cut into one span more than there are folds, with as many rows of the rarer class in each as
    moments allow. A row whose group is also among those tested trains nothing there, nor does one that is older by less
    than ``gap``: where labels take so long to come, it has none on the day of the model.

    Raises
    ------
    BadInput
        If a span lacks a class, or has too few rows before it.
    """
    spans = _spans(y, times, folds + 1)
    return _apart(y, times, groups, gap, [(spans < i, spans == i) for i in range(1, folds + 1)])


def span_splits(
    y: np.ndarray, folds: int, times: np.ndarray, groups: np.ndarray | None = None, gap: Length = 0
) -> tuple[Split, ...]:
    """Return ``folds`` divisions of rows that are all past: each is tested on a span of time, and trained on the rest.

    So each row is tested once, which thresholds and probabilities ask for, and by no model of its own days (blocked
    cross-validation: Bergmeir and Benítez, On the use of cross-validation for time series predictor evaluation,
    Information Sciences 191, 2012). Groups and errors are as in `later_splits`; rows that are younger by less than
    ``gap`` train nothing either (h-block cross-validation: Racine, Consistent cross-validatory model-selection for
    dependent data, Journal of Econometrics 99, 2000).
    """
    spans = _spans(y, times, folds)
    return _apart(y, times, groups, gap, [(spans != i, spans == i) for i in range(folds)])


def _spans(y: np.ndarray, times: np.ndarray, count: int) -> np.ndarray:
    """Return the number of each row's span of time: of rows of one moment it is one.

    Each span ends with a moment of the rarer class, where as nearly its share of that class has come as moments allow.
    """
    rare = y == (1 if 2 * (y > 0).sum() <= len(y) else -1)
    moments, counts = np.unique(times[rare], return_counts=True)
    if len(moments) < count:
        raise BadInput(
            f"Expected rows of the rarer class at {count} times or more, for {count} spans of time, got "
            f"{len(moments)}. Use fewer folds, or a finer time."
        )
    come = np.cumsum(counts) * count
    ends: list[int] = []
    for i in range(1, count):
        first = ends[-1] + 1 if ends else 0
        left = come[first : len(moments) - count + i]  # of what comes later each span needs a moment
        ends.append(first + int(np.argmin(np.abs(left - i * come[-1] // count))))
    return np.searchsorted(moments[ends], times, side="left")


def _apart(
    y: np.ndarray,
    times: np.ndarray,
    groups: np.ndarray | None,
    gap: Length,
    sides: list[tuple[np.ndarray, np.ndarray]],
) -> tuple[Split, ...]:
    """Return divisions of masks, without the training rows of a group that is tested, or within a gap of these."""
    parts = []
    for train, test in sides:
        alone = train & far(times, times[test], gap)
        if groups is not None:
            alone &= ~np.isin(groups, groups[test])
        for rows, where in ((test, "tested"), (alone, "that may train for those tested")):
            if len(np.unique(y[rows])) < 2:
                span = f"from {shown(times[test].min())} to {shown(times[test].max())}" if test.any() else "in a span"
                raise BadInput(
                    f"Expected rows of both classes on either side of {len(sides)} divisions by time, got "
                    f"{(y[rows] > 0).sum():,} positive and {(y[rows] < 0).sum():,} negative {where} {span}. Use fewer "
                    f"folds, {'a shorter gap, ' if gap else ''}a finer time, or keep fewer rows together."
                )
        parts.append((np.flatnonzero(alone), np.flatnonzero(test)))
    return tuple(Split(i, train, test) for i, (train, test) in enumerate(parts))


def far(times: np.ndarray, tested: np.ndarray, gap: Length) -> np.ndarray:
    """Return which of some moments are before or after all of those tested, by the gap or more."""
    if len(tested) == 0:
        return np.ones(len(times), dtype=bool)
    return (times <= tested.min() - gap) | (times >= tested.max() + gap)


class _QuickGroupKFold(StratifiedGroupKFold):
    """The same folds in a hundredth of the time, for a group's place in them is found by a kernel.

    Should scikit-learn call its own method by another name some day, this one is not called, and nothing else changes.
    """

    def _find_best_fold(self, y_counts_per_fold: np.ndarray, y_cnt: np.ndarray, group_y_counts: np.ndarray) -> int:
        """Return the fold in which a group leaves the classes' shares most alike, of such the one with fewest rows."""
        return best_fold(y_counts_per_fold, y_cnt, group_y_counts)


@kernel()
def best_fold(held: np.ndarray, totals: np.ndarray, more: np.ndarray) -> int:
    """Return the row of ``held``, the classes' counts in each fold, to which ``more`` is best added.

    That is where the standard deviations, over the folds, of the classes' shares have the least mean; of those that are
    as good, as numpy.isclose says, where fewest are held.
    """
    folds, classes = held.shape
    best, least, fewest = 0, np.inf, np.inf
    for fold in range(folds):
        spread, rows = 0.0, 0.0
        for c in range(classes):
            mean = 0.0
            for i in range(folds):
                mean += (held[i, c] + (more[c] if i == fold else 0.0)) / totals[c]
            mean /= folds
            squares = 0.0
            for i in range(folds):
                deviation = (held[i, c] + (more[c] if i == fold else 0.0)) / totals[c] - mean
                squares += deviation * deviation
            spread += np.sqrt(squares / folds)
            rows += held[fold, c]
        spread /= classes
        if spread < least or (abs(spread - least) <= LEVEL[0] + LEVEL[1] * least and rows < fewest):
            best, least, fewest = fold, spread, rows
    return best


def kept_together(table: Table, copies: bool) -> np.ndarray | None:
    """Return a number for each row, equal for rows that no division may part; None if there are no such rows.

    Those are the rows of a group and, if ``copies`` are to stay together, rows of equal features. With both, groups
    that share a row's features are one.
    """
    if table.groups is None or not copies:
        return row_keys(table.X) if copies else table.groups
    ends = [np.unique(keys, return_inverse=True)[1] for keys in (row_keys(table.X), table.groups)]
    n_points, n_groups = (int(end.max()) + 1 for end in ends)
    size = n_points + n_groups
    links = coo_matrix((np.ones(len(table.y), dtype=bool), (ends[0], n_points + ends[1])), shape=(size, size))
    return connected_components(links, directed=False)[1][ends[0]]


def row_keys(X: pd.DataFrame | csr_matrix) -> np.ndarray:
    """Return one uint64 for each row: equal rows have equal ones."""
    if isinstance(X, pd.DataFrame):
        return pd.util.hash_pandas_object(X, index=False).to_numpy()
    # A row's key is the sum, modulo 2^64, of its entries' hashes: zeros do not count, and no order either.
    entries = mixed(mixed(X.indices.astype(np.uint64)) ^ (X.data + 0.0).view(np.uint64))
    totals = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(entries, dtype=np.uint64)])
    return totals[X.indptr[1:]] - totals[X.indptr[:-1]]


def lasting_keys(X: pd.DataFrame | csr_matrix) -> np.ndarray:
    """Return the keys of rows by which later versions of the data know them again, in whatever order columns are."""
    return row_keys(X[sorted(X)] if isinstance(X, pd.DataFrame) else X)


def mixed(values: np.ndarray) -> np.ndarray:
    """Return a bijective scrambling of 64-bit integers (the finaliser of splitmix64, Steele et al. 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def all_rows(dataset: Dataset, held_out: HeldOut = NOTHING, grouped: bool = False) -> Split:
    """Return the final fit's division: it trains on every row but those held out, and is tested on these.

    Where copies stay together (``grouped``), a copy of a row held out that is of another group is on neither side:
    whether that one's other rows are held out must not hang on it. Where the newest rows are held out, an older row
    that is kept together with one of them is on neither side, nor is one that is older by less than the gap.

    Raises
    ------
    BadInput
        If rows are to be held out and those that are lack a class.
    """
    table = load(dataset)
    out = held_out.rows(table.X, table.groups, table.times)
    if held_out.share and len(np.unique(table.y[out])) < 2:
        remedy = "Raise validation.held_out, or give more rows"
        if table.groups is not None:
            count = f"{len(np.unique(table.groups)):,}"
            remedy = f"Whole groups are held out, of which there are {count}: raise validation.held_out, or give more"
        if table.times is not None:
            remedy = "All are of one time: give a finer one"
        if table.times is not None and out.any():
            remedy = (
                f"They are the newest, from {shown(table.times[out].min())} on. If their labels are not in yet, leave "
                "them out of the file; else raise validation.held_out"
            )
        raise BadInput(
            f"{dataset.name}: expected rows of both classes among the {held_out.share:.0%} held out, got "
            f"{(table.y[out] > 0).sum()} positive of {out.sum()}. {remedy}."
        )
    train = ~out
    if out.any() and (keys := _crossing(table, grouped)) is not None:
        train &= ~np.isin(keys, keys[out])
    if table.times is not None:
        train &= far(table.times, table.times[out], table.gap)
    return Split(REFIT, np.flatnonzero(train), np.flatnonzero(out))


def _crossing(table: Table, grouped: bool) -> np.ndarray | None:
    """Return what tells rows that must not be on both sides of the final division, where it does not see to that."""
    if table.times is not None:
        return kept_together(table, grouped)
    return row_keys(table.X) if grouped and table.groups is not None else None


@stage(name="split", task_run_name="split {dataset.name}")
def split(
    dataset: Dataset, folds: int, repeats: int, seed: int, grouped: bool = False, held_out: HeldOut = NOTHING
) -> tuple[Split, ...]:
    """Divide a data set's rows into stratified folds, or by time if it has one; ``grouped`` keeps equal rows together.

    So are the rows of a group, if the data set has one. The rows held out are in none of them.
    """
    table, rows = load(dataset), all_rows(dataset, held_out, grouped).train
    inside = table if len(rows) == len(table.y) else table.rows(rows)
    if n_rare(inside.y) < folds:  # of the whole data `check` has made sure
        with_them = " and what is kept together with them" if grouped or table.groups is not None else ""
        remedies = [
            "fewer folds" if n_rare(inside.y) > 1 else "",
            "a smaller held_out",
            "a shorter gap" if table.gap else "",
            "less that is kept together" if with_them else "",
        ]
        raise BadInput(
            f"{dataset.name}: expected at least {folds} rows in each class beside the {held_out.share:.0%} held out"
            f"{with_them}{', or in the gap before them' if table.gap else ''}, got {(inside.y > 0).sum()} positive and "
            f"{(inside.y < 0).sum()} negative. Use {', '.join(filter(None, remedies))} or more data."
        )
    together = kept_together(inside, grouped)
    try:
        if inside.times is not None:
            parts = later_splits(inside.y, folds, inside.times, together, inside.gap)
        else:
            parts = make_splits(inside.y, folds, repeats, seed, together)
    except BadInput as error:
        raise BadInput(f"{dataset.name}: {error}") from None
    return tuple(Split(part.fold, rows[part.train], rows[part.test]) for part in parts)
