"""Check: what a person should know about a data set before trusting a score on it.

Everything is found without densifying a sparse matrix: rows are compared by 64-bit hashes (``tasks.split.row_keys``).
"""

import re
from functools import lru_cache

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from aucsolvers.columns import NUMBER
from aucsolvers.metrics import auc
from tasks import column_names, dates
from tasks.classes import shortened
from tasks.convert import convert, feature_name, load
from tasks.errors import BadInput
from tasks.moments import in_words, shown
from tasks.readers import DOTS
from tasks.split import NOTHING, HeldOut, far, row_keys, split
from tasks.stage import stage
from tasks.values import ConversionRule, Dataset, Finding, RawFile, Split, Table

SEPARATES = 0.999  # a column whose AUC alone is above this, or below one minus this
NEARLY_ALL = 0.999  # a column with this share of one value, and others beside it, is nearly constant
ASCENDS = 0.99  # a column of which this share of steps from row to row goes one way is a clock, or a counter
SPEAKS = 0.25  # distance of a clock's AUC from 1/2 beyond which it orders the classes
BEGINNING = 1000  # rows that tell most columns that are not what is looked for
UNEVEN = 2.0  # times as many rows as there were to be, or as few
FEW_TESTED = 100  # rows of a class in a fold: with as many, it does not matter that others have more
GIVEN = 20  # positives with a value, and negatives, from which it is no chance that none of these has one
MANY = 5  # positives of one value: of so many each one's own label matters little
FEW_NAMES = 10  # values of an identifier of several rows, at least: measurements of some kind have fewer
REPEAT = 0.9  # values in a row of an identifier of several rows, at most
BY_DESIGN = 5  # times as many copies as there are by chance
BY_NAME = 0.05  # of AUC, at least, that codes tell more as names than as quantities
LUMP = 0.1  # of the rows: a value of more is told apart as it is
BESIDE = 2  # values on either side that are a value's neighbours
RANKS = 3.0  # standard errors of an AUC that chance does not reach
IDENTIFIED = 20  # rows: of fewer, whole numbers may all differ by chance
UNITS = re.compile(r"[€$£¥%]|\b(?:EUR|USD|GBP|CHF|JPY)\b", re.IGNORECASE)
SEPARATED = re.compile(r"[+-]?(?:[0-9]{1,3}(?:[.,'’\s][0-9]{3})+|[0-9]+)(?:[.,][0-9]+)?")  # 1,234.50 and 12,5
MANY_VALUES = 100  # a text column of more values looks like an identifier
FEW_WORDS = 0.1  # a text column with fewer values than this share that are no numbers looks like spoilt numbers
_SHOWN = 5
_NAMED = 1000


@stage(name="check", task_run_name="check {dataset.name}")
def check(
    dataset: Dataset, folds: int, repeats: int, seed: int, grouped: bool = False, held_out: HeldOut = NOTHING
) -> tuple[Finding, ...]:
    """Return what is remarkable about a data set under the division that these parameters make.

    Raises
    ------
    BadInput
        If a class has fewer rows than there are folds, or copies that must stay together leave a fold without a class.
    """
    return _findings(dataset.raw, dataset.rule, folds, repeats, seed, grouped, held_out)


@lru_cache(maxsize=4)
def _findings(
    raw: RawFile, rule: ConversionRule, folds: int, repeats: int, seed: int, grouped: bool, held_out: HeldOut
) -> tuple[Finding, ...]:
    """Return those of the last few data sets without looking again: a flow asks for what came out before it began."""
    dataset = convert.fn(raw, rule)
    table = load(dataset)
    refuse_small_classes(dataset, folds)
    keys = row_keys(table.X)
    splits = split.fn(dataset, folds, repeats, seed, grouped, held_out)
    base = 1 if dataset.layout.index_base is None else dataset.layout.index_base
    repeated = repeated_identifiers(table, rule.group)
    separating = separating_columns(table, base, () if repeated is None else repeated.columns)
    suspects = () if separating is None else separating.columns
    identifiers = identifier_columns(table, suspects)
    findings = (
        duplicates_across_split(keys, splits, repeats),
        duplicates_within(keys) if grouped else None,
        groups(table, rule.group, folds),
        times(table, rule, splits, held_out),
        contradictory_labels(keys, table.y),
        cut_off_label(dataset) or lone_label(dataset),
        constant_columns(table.X, base),
        near_constant_columns(table.X),
        separating,
        clock_columns(table, suspects, rule.time),
        identifiers,
        repeated,
        hidden_copies(table, () if identifiers is None else identifiers.columns),
        repeated_names(dataset),
        empty_columns(dataset),
        missing_values(dataset),
        None if repeated else codes_as_quantities(table, keys, suspects),
        *(category_column(name, table.X[name]) for name in table.categories),
        *(text_column(n, table.X[n], rule.time) for n in dataset.text_columns if n not in table.categories),
    )
    return tuple(f for f in findings if f is not None)


def refuse_small_classes(dataset: Dataset, folds: int) -> None:
    """Refuse a division in which some fold would lack a class."""
    story = dataset.provenance
    rows, label = min((dataset.n_pos, story.positive_label), (dataset.n_neg, story.negative_label))
    if rows < folds:
        remedy = f"Use {rows} folds or fewer, or add" if rows > 1 else "Add"
        raise BadInput(
            f"{dataset.name}: expected at least {folds} rows in each class for {folds} folds, got {rows} of class "
            f"'{label}'. {remedy} rows of that class."
        )


# Rows -------------------------------------------------------------------------------------------------------------


def duplicates_across_split(keys: np.ndarray, splits: tuple[Split, ...], repeats: int) -> Finding | None:
    """Count the rows that a model is tested on after training on an identical one."""
    _, inverse, counts = np.unique(keys, return_inverse=True, return_counts=True)
    copies = int((counts[inverse] > 1).sum())
    crossing = sum(_tested_copies(inverse, len(counts), s) for s in splits)
    if not crossing:
        return None
    per_repeat = max(1, round(crossing / repeats))
    message = (
        f"{_share(copies, len(keys))} have the same features as another row, and {per_repeat:,} of them are tested by "
        "a model that was trained on their copy: test scores may flatter. Keep copies together with validation: "
        "{split: grouped_by_duplicates}, or remove them."
    )
    return Finding("duplicates_across_split", "warning", message, per_repeat)


def duplicates_within(keys: np.ndarray) -> Finding | None:
    """Count the rows that share their features with another one, where the division keeps them together."""
    copies = _copies(keys)
    if not copies:
        return None
    message = (
        f"{_share(copies, len(keys))} have the same features as another row; copies stay on one side of each split."
    )
    return Finding("duplicates", "info", message, copies)


def groups(table: Table, name: str | None, folds: int) -> Finding | None:
    """Tell how many groups the rows are of, also where these keep nothing together or are too large for alike folds."""
    if table.groups is None:
        return None
    _, inverse, counts = np.unique(table.groups, return_inverse=True, return_counts=True)
    if counts.max() == 1:
        message = f"No two rows are of one '{name}': as group it keeps nothing together. Name the column that does."
        return Finding("idle_group", "warning", message, len(counts))
    words = (
        f"The {len(inverse):,} rows are of {len(counts):,} groups, up to {counts.max():,} of one '{name}'; each group "
        "stays on one side of each split."
    )
    sides = {"positive": table.y > 0, "negative": table.y < 0}
    largest = {label: np.bincount(inverse[side]).max() / side.sum() for label, side in sides.items()}
    label = max(largest, key=largest.__getitem__)
    if largest[label] <= 1.0 / folds:
        return Finding("groups", "info", words, len(counts))
    message = (
        f"{words} One has {largest[label]:.0%} of the {label} rows, more than a fold's share: the folds are unlike, "
        "and what they measure hangs on it. Use fewer folds, or more groups."
    )
    return Finding("large_group", "warning", message, len(counts))


def times(table: Table, rule: ConversionRule, splits: tuple[Split, ...], held_out: HeldOut) -> Finding | None:
    """Tell how the rows are divided by time and how the classes change in it, also where its divisions are uneven."""
    if table.times is None:
        return None
    moments, first, last = table.times, splits[0].train, splits[-1].test
    out = held_out.rows(table.X, times=moments)
    words = (
        f"The {len(moments):,} rows are from {shown(moments.min())} to {shown(moments.max())} ('{rule.time}'). "
        f"The first of {len(splits)} folds trains on {len(first):,} until {shown(moments[first].max())}, the last is "
        f"tested on {len(last):,} from {shown(moments[last].min())}"
    )
    words += f"; {out.sum():,} from {shown(moments[out].min())} are held out." if out.any() else "."
    if rule.gap is not None:
        tested = [moments[split.test] for split in splits]
        within = [((moments < of.min()) & ~far(moments, of, table.gap)).sum() for of in tested]
        words += (
            f" With a gap of {in_words(rule.gap)}, {min(within):,} to {max(within):,} rows before those that a fold "
            "tests train nothing for it."
        )
    newer = HeldOut(0.5).rows(table.X, times=moments)
    old, new = (f"{(table.y[half] > 0).mean():.2%}" for half in (~newer, newer))
    words += f" Of the {(~newer).sum():,} older rows {old} are positive, of the {newer.sum():,} newer ones {new}."
    uneven = _uneven(table, splits, held_out, out)
    if uneven:
        return Finding("uneven_time", "warning", f"{words} {uneven}", len(np.unique(moments)))
    return Finding("time", "info", words, len(np.unique(moments)))


def _uneven(table: Table, splits: tuple[Split, ...], held_out: HeldOut, out: np.ndarray) -> str:
    """Return why spans of time are no good divisions, as a sentence; an empty text if they are."""
    if out.any() and not held_out.share / UNEVEN <= out.mean() <= held_out.share * UNEVEN:
        return f"Held out are {out.mean():.0%} in place of {held_out.share:.0%}, for many rows are of one time."
    rarer = 1 if 2 * (table.y > 0).sum() <= len(table.y) else -1
    for label, why in ((rarer, "many rows are of one time"), (-rarer, "the shares of the classes change much")):
        tested = np.array([(table.y[split.test] == label).sum() for split in splits])
        if tested.min() < min(tested.mean() / UNEVEN, FEW_TESTED):
            class_ = "positive" if label > 0 else "negative"
            return (
                f"One fold is tested on {tested.min():,} {class_} rows and another on {tested.max():,}, for {why}: use "
                "fewer folds, or a finer time."
            )
    return ""


def _copies(keys: np.ndarray) -> int:
    """Return how many rows have the same features as another one."""
    _, counts = np.unique(keys, return_counts=True)
    return int(counts[counts > 1].sum())


def _tested_copies(inverse: np.ndarray, n_distinct: int, split: Split) -> int:
    seen = np.zeros(n_distinct, dtype=bool)
    seen[inverse[split.train]] = True
    return int(seen[inverse[split.test]].sum())


def contradictory_labels(keys: np.ndarray, y: np.ndarray) -> Finding | None:
    """Find rows of equal features and different labels, which no model can tell apart."""
    _, inverse = np.unique(keys, return_inverse=True)
    both = (np.bincount(inverse, y > 0) > 0) & (np.bincount(inverse, y < 0) > 0)
    points, rows = int(both.sum()), int(both[inverse].sum())
    if not points:
        return None
    message = (
        f"{_share(rows, len(y))} contradict each other: {points:,} {_plural(points, 'point')} with both labels. "
        "No model can rank them, so the best possible AUC is below 1. Look for wrong labels or a missing feature."
    )
    return Finding("contradictory_labels", "warning", message, rows)


# Columns ----------------------------------------------------------------------------------------------------------


def constant_columns(X: pd.DataFrame | csr_matrix, base: int = 1) -> Finding | None:
    """Find columns of a single value; a missing number does not count, for it is imputed with that value.

    That a sparse matrix has some is as usual as that a hash does not hit every number.
    """
    is_table = isinstance(X, pd.DataFrame)
    if is_table:
        names = [n for n in X if X[n].nunique(dropna=X[n].dtype != object) <= 1]
        count = len(names)
    else:
        same = np.flatnonzero(X.max(axis=0).toarray().ravel() == X.min(axis=0).toarray().ravel())
        # of a hash's millions of columns most may be empty: a manifest is not to list them
        count, names = len(same), [feature_name(j, base) for j in same[:_NAMED].tolist()]
    if not names:
        return None
    if count == X.shape[1]:
        raise BadInput(
            f"Expected at least one column with two different values, got {_listed(names, count)}, each with one value "
            "only. "
            "There is nothing to rank by: check the file."
        )
    advice = f". Drop {'it' if count == 1 else 'them'} to save time." if is_table else ", and may stay."
    found = f"{count:,} {_plural(count, 'column')} with one value only ({_listed(names, count)}) cannot rank anything"
    return Finding("constant_column", "warning" if is_table else "info", found + advice, count, tuple(names))


def near_constant_columns(X: pd.DataFrame | csr_matrix) -> Finding | None:
    """Find columns in which all but a few rows have one value; in a sparse matrix that is what columns are like."""
    if not isinstance(X, pd.DataFrame):
        return None
    names = []
    for name in X:
        _, counts = np.unique(pd.factorize(X[name])[0], return_counts=True)
        if len(counts) > 1 and counts.max() >= NEARLY_ALL * len(X):
            names.append(name)
    if not names:
        return None
    message = (
        f"{len(names):,} {_plural(len(names), 'column')} with one value in at least {NEARLY_ALL:.1%} of the rows "
        f"({_listed(names)}): what little they tell rests on a few rows."
    )
    return Finding("near_constant_column", "info", message, len(names), tuple(names))


def clock_columns(table: Table, known: tuple[str, ...] = (), time: str | None = None) -> Finding | None:
    """Find columns that grow along the file, or are named like a time, and order the classes: collected apart in time.

    ``known`` are columns that have a finding of their own already. Another column may be the ``time`` already.
    """
    if not isinstance(table.X, pd.DataFrame):
        return None
    names = [name for name in table.X if name not in known and _is_clock(table.X[name], name, table.y)]
    if not names:
        return None
    one = len(names) == 1
    message = (
        f"{len(names):,} {_plural(len(names), 'column')} that look{'s' if one else ''} like a clock or a counter "
        f"({_listed(names)}) alone order{'s' if one else ''} the classes (AUC beyond {0.5 + SPEAKS} or "
        f"{0.5 - SPEAKS}): were they collected at different times? A model may learn the date in place of the class. "
        + (f"Test on later rows with --time '{names[0]}' (time, in a config), or drop " if time is None else "Drop ")
        + f"{'it' if one else 'them'}, or collect both classes over the same time."
    )
    return Finding("clock_column", "warning", message, len(names), tuple(names))


def _is_clock(column: pd.Series, name: str, y: np.ndarray) -> bool:
    are_dates = column.dtype == object
    if are_dates:
        column = _as_dates(column)
    there = column.notna().to_numpy()
    if not _speaks_for_all(there, y):
        return False
    values, y = column.to_numpy()[there], y[there]
    goes = len(np.unique(values)) > 2 and _goes_one_way(values)
    return bool(goes or _is_called_clock(name, values, are_dates)) and abs(auc(y, values) - 0.5) > SPEAKS


def _is_called_clock(name: str, values: np.ndarray, are_dates: bool) -> bool:
    """Tell whether a name says that a column holds times, as dates do but those of birth.

    An hour of the day is none: it comes again each day.
    """
    is_of_day = column_names.is_hour(name) and values.min() >= 0 and values.max() <= 24
    if is_of_day or column_names.is_birth(name):
        return False
    return are_dates or (column_names.is_time(name) and not column_names.is_duration(name))


def _as_dates(texts: pd.Series) -> pd.Series:
    """Return texts as days since 1970 if they are dates, all missing if not; read in the way that makes most dates."""
    read = dates.readings(texts)
    if not read:
        return pd.Series(np.nan, index=texts.index)
    return (max(read, key=pd.Series.count) - pd.Timestamp(0)).dt.total_seconds() / 86400.0


def identifier_columns(table: Table, known: tuple[str, ...] = ()) -> Finding | None:
    """Find columns of numbers that name the rows: whole numbers, all different, called an id or without a gap.

    Without a gap, and not in the order of the rows, may be a rank, too: that is none if it tells something of the
    classes. ``known`` are columns that have a finding of their own already. A time of which no two rows share one is
    none.
    """
    if not isinstance(table.X, pd.DataFrame) or len(table.X) < IDENTIFIED:
        return None
    names = [name for name in table.X if name not in known and _is_identifier(table.X[name], name, table.y)]
    if not names:
        return None
    rest, them = table.X.drop(columns=names), "it" if len(names) == 1 else "them"
    hidden = _copies(row_keys(rest)) if rest.shape[1] else 0
    alike = f" But for {them} {_share(hidden, len(rest))} have the same features as another row." if hidden else ""
    message = (
        f"{len(names):,} {_plural(len(names), 'column')} that {'number' if len(names) > 1 else 'numbers'} the rows "
        f"({_listed(names)}): a model can learn nothing from {them} but the order of the file, and no two rows look "
        f"alike.{alike} Leave {them} out with --drop (drop, in a config)."
    )
    return Finding("identifier_column", "warning", message, len(names), tuple(names))


def _is_identifier(column: pd.Series, name: str, y: np.ndarray) -> bool:
    if column.dtype == object or column_names.is_time(name):
        return False
    values = column.to_numpy()
    if not (_is_whole(values) and column.is_unique):
        return False
    if column_names.is_identifier(name):
        return True
    if np.ptp(values) > len(values) - 1:
        return False
    return _goes_one_way(values) or abs(auc(y, values) - 0.5) <= _by_chance(y)


def _by_chance(y: np.ndarray) -> float:
    """Return how far from 1/2 chance takes the AUC of numbers drawn at random, and hardly further."""
    return float(RANKS * np.sqrt((len(y) + 1) / (12.0 * (y > 0).sum() * (y < 0).sum())))


def repeated_identifiers(table: Table, group: str | None = None) -> Finding | None:
    """Find columns that name whom or what several rows are of, where rows of one value tend to be of one class.

    A model that saw some of a patient's rows may know the others again, by this column or, without it, by whatever else
    is the patient's own. Another column may be the ``group`` already.
    """
    if not isinstance(table.X, pd.DataFrame) or len(table.X) < IDENTIFIED:
        return None
    found = {name: _area_by_others(table.X[name], table.y) for name in table.X if _names_several(table.X[name], name)}
    names = [name for name, area in found.items() if area > 0.5 + SPEAKS]
    if not names:
        return None
    first, one = table.X[names[0]], len(names) == 1
    remedy = f"Keep them together with --group '{names[0]}' (group, in a config); it is then no feature."
    if group is not None:
        remedy = f"There can be one group: '{names[0]}' in place of '{group}', if it is the larger unit; else drop it."
    message = (
        f"{len(names):,} {_plural(len(names), 'column')} that name{'s' if one else ''} whom or what several rows are "
        f"of ({_listed(names)}; {len(first):,} rows of {first.nunique():,} values), and rows of one value tend to be "
        f"of one class (AUC by the others' labels {found[names[0]]:.2f}): with some of them in training and some in "
        f"test, test scores flatter, also without the column. {remedy}"
    )
    return Finding("repeated_identifier", "warning", message, len(names), tuple(names))


def _names_several(column: pd.Series, name: str) -> bool:
    """Tell whether a column is called like an identifier, and has values that repeat, though not the same few."""
    if not (column_names.is_identifier(name) or column_names.is_entity(name)) or column_names.is_count(name):
        return False
    values = column.dropna().unique()
    if not FEW_NAMES <= len(values) <= REPEAT * len(column):
        return False
    if column.dtype == object:  # P017, but not car, bus and van
        return len(values) >= IDENTIFIED or all(re.search("[0-9]", str(value)) for value in values)
    # few whole numbers in a row may be counts
    return _is_whole(column.to_numpy()) and (len(values) >= IDENTIFIED or np.ptp(values) >= 2 * len(values))


def _area_by_others(column: pd.Series, y: np.ndarray) -> float:
    """Return the AUC of rows scored by the labels of the others with their value, 1/2 if that may be by chance."""
    codes, values = pd.factorize(column)
    rows, _, of_others = _by_value(np.where(codes < 0, len(values), codes), y)
    repeat = (codes >= 0) & (rows > 1)
    y = y[repeat]
    if min(np.count_nonzero(y > 0), np.count_nonzero(y < 0)) < MANY:
        return 0.5
    area = auc(y, of_others[repeat])
    return area if area - 0.5 > _by_chance(y) else 0.5


def codes_as_quantities(table: Table, keys: np.ndarray, known: tuple[str, ...] = ()) -> Finding | None:
    """Find columns of whole numbers that look like codes: a value tells what neither its size nor its neighbours do.

    Of a quantity that is good or bad in the middle, the values beside one tell what it does. Of the rows of a group,
    and of copies of a row by their ``keys`` unless rows are mostly alike by chance, one counts: the others of one value
    are to be others. ``known`` are columns that have a finding of their own already.
    """
    if not isinstance(table.X, pd.DataFrame):
        return None
    _, alone = np.unique(keys if table.groups is None else table.groups, return_index=True)
    alone = alone if table.groups is not None or 2 * len(alone) > len(keys) else np.arange(len(keys))
    X, y = table.X.iloc[alone], table.y[alone]
    numbers = [name for name in X if X[name].dtype != object and name not in known]
    found = {name: areas for name in numbers if (areas := _as_code(X[name], y)) is not None}
    if not found:
        return None
    names = sorted(found, key=lambda name: found[name][1] - found[name][0])
    one, (area, rest) = len(names) == 1, found[names[0]]
    message = (
        f"{len(names):,} {_plural(len(names), 'column')} of whole numbers that tell{'s' if one else ''} more as names "
        f"than as quantities ({_listed(names)}): by the labels of other rows of the same '{names[0]}' the AUC is "
        f"{area:.2f}, by its size or the values beside it {rest:.2f}. If {'it holds' if one else 'they hold'} codes, "
        f"name {'it' if one else 'each'} with --category '{names[0]}' (categories, in a config)."
    )
    return Finding("codes_as_quantities", "warning", message, len(names), tuple(names))


def _as_code(column: pd.Series, y: np.ndarray) -> tuple[float, float] | None:
    """Return the AUC by the labels of other rows of the same value, and by size or neighbours, if the first is larger.

    Of few values, or of such as hardly repeat, nothing is to be told.
    """
    there = column.notna().to_numpy()
    values, y = column.to_numpy()[there], y[there]
    if not _is_whole(values) or min((y > 0).sum(), (y < 0).sum()) < GIVEN:
        return None
    codes, distinct = pd.factorize(values, sort=True)
    if not FEW_NAMES <= len(distinct) <= len(values) / MANY:
        return None
    counts = np.array([np.bincount(codes, y < 0, len(distinct)), np.bincount(codes, y > 0, len(distinct))])
    others = np.maximum(counts.sum(axis=0) - 1.0, 1.0)
    by_value = np.array([counts[1] / others, np.maximum(counts[1] - 1.0, 0.0) / others])  # of negatives, of positives
    by_size = _area(counts, np.arange(len(distinct)))
    area, rest = _area(counts, by_value), max(by_size, 1.0 - by_size, _area(counts, _by_neighbours(counts, by_value)))
    return (area, rest) if area - rest > max(BY_NAME, _by_chance(y)) else None


def _by_neighbours(counts: np.ndarray, by_value: np.ndarray) -> np.ndarray:
    """Return for each class and value the share of positives among the rows of the next smaller and larger values.

    A value of very many rows, as 0 is of counts, is nobody's neighbour and has its own share.
    """
    rows = counts.sum(axis=0)
    is_lump = rows > LUMP * rows.sum()
    around = np.pad(np.where(is_lump, 0.0, counts), ((0, 0), (BESIDE, BESIDE)))
    window = np.lib.stride_tricks.sliding_window_view(around, 2 * BESIDE + 1, axis=1)
    negative, positive = window.sum(axis=2) - window[:, :, BESIDE]
    beside = np.divide(
        positive,
        negative + positive,
        out=np.full(len(rows), counts[1].sum() / rows.sum()),
        where=negative + positive > 0.0,
    )
    return np.where(is_lump, by_value, beside)


def _area(counts: np.ndarray, scores: np.ndarray) -> float:
    """Return the AUC of rows that are told by how many of either class have each score; both of shape (2, values)."""
    _, place = np.unique(np.broadcast_to(scores, counts.shape), return_inverse=True)
    negative, positive = (np.bincount(place.reshape(counts.shape)[i], counts[i], place.max() + 1) for i in (0, 1))
    below = np.cumsum(negative) - negative / 2
    return float(positive @ below / (positive.sum() * negative.sum()))


def hidden_copies(table: Table, known: tuple[str, ...] = ()) -> Finding | None:
    """Count the rows that only whole numbers or texts that differ in (nearly) every row keep from being copies.

    A division that keeps copies together cannot see these. No row counts where the other columns have few values and
    rows are alike by chance: hardly fewer of them are once each of these columns is shuffled by itself. ``known`` are
    columns that have a finding of their own already.
    """
    if not isinstance(table.X, pd.DataFrame) or len(table.X) < IDENTIFIED:
        return None
    keys = [name for name in table.X if _differs_everywhere(table.X[name])]
    others = table.X.drop(columns=keys)
    if set(keys) <= set(known) or not others.shape[1]:
        return None
    rows = row_keys(others)
    hidden, distinct = _copies(rows), len(np.unique(rows))
    seen = _copies(row_keys(table.X.drop(columns=[*known])))
    if hidden <= seen or max(others[name].nunique() for name in others) < distinct / 2:
        return None
    rng = np.random.default_rng(0)
    shuffled = pd.DataFrame({name: rng.permutation(others[name].to_numpy()) for name in others})
    if hidden < BY_DESIGN * (_copies(row_keys(shuffled)) + 1):
        return None
    one = len(keys) == 1
    message = (
        f"But for {_listed(keys)}, {'a column that differs' if one else 'columns that differ'} in every row, "
        f"{_share(hidden, len(rows))} have the same features as another row: no division keeps these copies together, "
        f"and test scores may flatter. If {'it' if one else 'they'} only name{'s' if one else ''} the rows, leave "
        f"{'it' if one else 'them'} out with --drop (drop, in a config)."
    )
    return Finding("hidden_copies", "warning", message, hidden, tuple(keys))


def _differs_everywhere(column: pd.Series) -> bool:
    """Tell whether a column of texts or whole numbers has another value in (nearly) every row."""
    if column.dtype != object and not _is_whole(column.to_numpy()):
        return False
    return all(part.nunique() >= NEARLY_ALL * len(part) for part in (column[:BEGINNING], column))


def _is_whole(values: np.ndarray) -> bool:
    """Tell whether all of some numbers are whole ones; a missing one is not."""
    parts = values[:BEGINNING], values
    return all((np.isfinite(part) & (part == np.floor(part))).all() for part in parts)


def _goes_one_way(values: np.ndarray) -> bool:
    """Tell whether values rise wherever they change from row to row, or fall, but for a few."""
    steps = np.diff(values)
    rising, falling = np.count_nonzero(steps > 0), np.count_nonzero(steps < 0)
    return bool(max(rising, falling) >= ASCENDS * (rising + falling))


def _speaks_for_all(there: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether of either class at least half of the rows have a value: what these tell, the column tells."""
    return all(2 * np.count_nonzero(there & of) >= np.count_nonzero(of) > 0 for of in (y > 0, y < 0))


def separating_columns(table: Table, base: int = 1, repeated: tuple[str, ...] = ()) -> Finding | None:
    """Find columns that tell the classes apart all by themselves: suspects of a leak.

    Of those that name whom several rows are of, to drop the column is not enough.
    """
    if isinstance(table.X, pd.DataFrame):
        names = [name for name in table.X if _separates(table.X[name], table.y)]
    else:
        columns = table.X.tocsc()
        candidates = _dense_enough(columns, table.y)
        names = [feature_name(j, base) for j in candidates if _ranks(columns[:, [j]].toarray().ravel(), table.y)]
    if not names:
        return None
    one = len(names) == 1
    known = [name for name in names if name in repeated]
    remedy = f"Drop {'it' if one else 'them'} unless known before the outcome."
    if known:
        told = f"{_listed(known)} may tell whose rows they are: see below."
        remedy = told if len(known) == len(names) else f"{remedy} But {told}"
    message = (
        f"{len(names):,} {_plural(len(names), 'column')} alone {'separates' if one else 'separate'} the classes "
        f"({_listed(names)}; single-column AUC above {SEPARATES} or below {1 - SEPARATES:.3f}, by its order or by what "
        f"other rows of the same value are, or a value in most positives and in no negative): a leak of the label? "
        f"{remedy}"
    )
    return Finding("separating_column", "warning", message, len(names), tuple(names))


def _separates(column: pd.Series, y: np.ndarray) -> bool:
    """Tell whether a column's values, or the mere fact that they are missing, separate the classes."""
    missing = column.isna().to_numpy()
    if missing.any() and (_ranks(missing.astype(float), y) or _is_of_positives(~missing, y)):
        return True
    if column.dtype == object:
        return _separates_by_value(column, missing, y)
    if _separates_by_rank(column, missing, y):
        return True
    given = column.to_numpy()[~missing]
    return _is_whole(given) and _separates_by_value(column, missing, y)


def _is_of_positives(given: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether most positives have a value and no negative has, as with what comes of a case later."""
    positive = y > 0
    enough = given.sum() >= GIVEN and (~positive).sum() >= GIVEN
    return bool(enough and not given[~positive].any() and 2 * given.sum() >= positive.sum())


def _separates_by_rank(column: pd.Series, missing: np.ndarray, y: np.ndarray) -> bool:
    values = column.to_numpy()
    if _speaks_for_all(~missing, y):  # a gap filled with the median would hide a leak of some hundred rows
        return _ranks(values[~missing], y[~missing])
    return _ranks(np.where(missing, np.nanmedian(values), values), y)


def _separates_by_value(column: pd.Series, missing: np.ndarray, y: np.ndarray) -> bool:
    """Tell whether the class of a row is that of the others with its value, a code or a name, a gap being one too.

    A row is scored by the share of positives with its value; where these are few, without its own label, for values of
    few rows would separate a handful of positives whatever they are.
    """
    codes, values = pd.factorize(column)
    if 5 * len(values) > len(codes):  # values that hardly repeat
        return False
    rows, positive, of_others = _by_value(np.where(missing, len(values), codes), y)
    rates = np.where(positive >= MANY, positive / rows, of_others)
    return bool(auc(y, rates) > SEPARATES)  # not below 1 - SEPARATES: a row's own label is left out of its rate


def _by_value(codes: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return for each row how many have its value, how many of these are positive, and the share of the others.

    A row without others has the share of all rows.
    """
    rows, positive = np.bincount(codes)[codes], np.bincount(codes, y > 0)[codes]
    return rows, positive, np.where(rows > 1, (positive - (y > 0)) / np.maximum(rows - 1, 1), np.mean(y > 0))


def _ranks(values: np.ndarray, y: np.ndarray) -> bool:
    area = auc(y, values)
    return max(area, 1.0 - area) > SEPARATES


def _dense_enough(columns: csr_matrix, y: np.ndarray) -> np.ndarray:
    """Return the sparse columns that can separate at all.

    Pairs in which both rows are 0 tie, and ties count one half. With z+ and z- the shares of zeros in the classes,
    AUC and 1 - AUC are therefore both at least z+ z- / 2; a column passes if that is below 1 - SEPARATES.
    """
    stored = (columns != 0).astype(np.float64)
    zeros_pos = 1.0 - np.asarray(stored.T @ (y > 0)).ravel() / (y > 0).sum()
    zeros_neg = 1.0 - np.asarray(stored.T @ (y < 0)).ravel() / (y < 0).sum()
    return np.flatnonzero(zeros_pos * zeros_neg / 2 < 1.0 - SEPARATES)


def cut_off_label(dataset: Dataset) -> Finding | None:
    """Report one row's label that another label goes on from: nothing else tells of a file that is cut off there."""
    story = dataset.provenance
    for label, rows in story.label_counts.items():
        if rows > 1 or NUMBER.fullmatch(label) or not story.label_sides.get(label):
            continue
        whole = next((one for one in story.label_counts if one != label and one.startswith(label)), None)
        if whole is not None:
            message = (
                f"label '{shortened(label)}', of one row only, is how '{shortened(whole)}' begins: is the file cut "
                f"off? The row counts as {'positive' if story.label_sides[label] > 0 else 'negative'}. Mend it, or if "
                "it is a label of its own, name each in conversion: {rule: class_groups, …}."
            )
            return Finding("cut_off_label", "warning", message, 1)
    return None


def lone_label(dataset: Dataset) -> Finding | None:
    """Report a third label, of one row, that counts as negative like all that are not the positive one: sums, perhaps.

    Nobody named it. Of many labels some may well have one row.
    """
    story = dataset.provenance
    alone = [label for label, rows in story.label_counts.items() if rows == 1 and story.label_sides.get(label) == -1]
    if dataset.rule.conversion in ("class_groups", "random_halves") or len(alone) != 1 or len(story.label_counts) != 3:
        return None
    message = (
        f"label '{shortened(alone[0])}', of one row only, counts as negative, as all do that are not "
        f"'{shortened(story.positive_label)}': is it a row of sums, or a slip? Remove it, mend it, or if it is a label "
        "of its own, name each in conversion: {rule: class_groups, …}."
    )
    return Finding("lone_label", "warning", message, 1)


def repeated_names(dataset: Dataset) -> Finding | None:
    """Report the columns of one name, which are told apart by a number."""
    if not dataset.renamed:
        return None
    one = len(dataset.renamed) == 1
    listed = ", ".join(f"'{name}', in the file '{given}'" for name, given in [*dataset.renamed.items()][:_SHOWN])
    more = ", …" if len(dataset.renamed) > _SHOWN else ""
    message = (
        f"{len(dataset.renamed):,} {_plural(len(dataset.renamed), 'column')} with a name that another column has "
        f"({listed}{more}): did a join bring the same feature twice? Drop {'it' if one else 'them'}, or give each a "
        "name of its own."
    )
    return Finding("repeated_name", "warning", message, len(dataset.renamed), tuple(dataset.renamed))


def empty_columns(dataset: Dataset) -> Finding | None:
    """Report the columns that conversion has left out, no row having a value there."""
    names = list(dataset.empty_columns)
    if not names:
        return None
    one = len(names) == 1
    message = (
        f"{len(names):,} {_plural(len(names), 'column')} without a single value ({_listed(names)}) "
        f"{'is' if one else 'are'} left out: has what fills {'it' if one else 'them'} failed? Mend that, or leave "
        f"{'it' if one else 'them'} out with --drop (drop, in a config)."
    )
    return Finding("empty_column", "warning", message, len(names), tuple(names))


def missing_values(dataset: Dataset) -> Finding | None:
    """Report the missing cells and the columns that have most of them."""
    cells = dataset.missing_cells
    if not cells:
        return None
    total = sum(cells.values())
    worst = sorted(cells, key=cells.__getitem__, reverse=True)[:_SHOWN]
    shares = ", ".join(f"'{name}' {_percent(cells[name], dataset.n_rows)}" for name in worst)
    message = (
        f"{total:,} missing {_plural(total, 'cell')} in {len(cells)} of {dataset.n_features} columns "
        f"(most in {shares}): numbers are imputed inside each fold, a missing text is a category of its own."
    )
    return Finding("missing_values", "info", message, total, tuple(cells))


def category_column(name: str, column: pd.Series) -> Finding:
    """Report a column that was named as one of categories, and how many it has."""
    count = column.nunique()
    if count > max(MANY_VALUES, REPEAT * column.count()):
        message = (
            f"Column '{name}', taken as categories, has {count:,} different values in {column.count():,} rows: hardly "
            "one comes again, and new rows will have others. Drop it unless it carries meaning."
        )
        return Finding("category_column", "warning", message, count, (name,))
    message = f"Column '{name}', taken as categories, is one-hot encoded: {count:,} {_plural(count, 'value')}"
    message += "." if count <= MANY_VALUES else "; the rare ones share a column (preprocessing: max_categories)."
    return Finding("category_column", "info", message, count, (name,))


def text_column(name: str, column: pd.Series, time: str | None = None) -> Finding:
    """Report a text column and how many values it has; many are a warning. Another may be the ``time`` already."""
    values = column.dropna().unique()
    count = len(values)
    words = [value for value in values if not NUMBER.fullmatch(value)]
    if 0 < len(words) < FEW_WORDS * count:
        remedy = "Mend those, or leave the cells empty if they are missing"
        if _is_dressed_number(words[0]):
            remedy = "Write those plainly too: 1234.5"
        message = (
            f"Column '{name}' is read as text because of values such as '{words[0][:40]}', but all the others of its "
            f"{count:,} different values are numbers. {remedy}."
        )
        return Finding("text_column", "warning", message, count, (name,))
    # where all are numbers, they are texts for the dots of some, which may divide thousands
    dressed = [word for word in words if _is_dressed_number(word)] if words else [*filter(DOTS.fullmatch, values)]
    if len(dressed) > (1.0 - FEW_WORDS) * len(words):
        message = (
            f"Column '{name}' is read as text, but its values look like numbers that are written with separators or "
            f"units ('{dressed[0][:40]}'): one-hot encoded they lose their order. Write them as plain numbers: 1234.5."
        )
        return Finding("text_column", "warning", message, count, (name,))
    if dates.readings(column):
        message = f"Text column '{name}' holds {count:,} different dates, which models take for words. "
        if time is None and not column.isna().any():
            message += f"If the rows to be scored are later ones, test on such: --time '{name}' (time, in a config). "
        message += "Drop it, or give numbers." if time is not None else "Else drop it, or give numbers."
        return Finding("text_column", "warning" if count > MANY_VALUES else "info", message, count, (name,))
    if count > MANY_VALUES:
        message = (
            f"Text column '{name}' has {count:,} different values and looks like an identifier: only the most frequent "
            "get a column of their own (preprocessing: max_categories). Drop it unless it carries meaning."
        )
        return Finding("text_column", "warning", message, count, (name,))
    return Finding(
        "text_column",
        "info",
        f"Text column '{name}' is one-hot encoded: {count} {_plural(count, 'value')}.",
        count,
        (name,),
    )


def _is_dressed_number(text: str) -> bool:
    """Tell whether a text is a number with thousands separators, a decimal comma, a currency or a percent sign."""
    bare = UNITS.sub("", text).strip()
    return NUMBER.fullmatch(bare) is not None or SEPARATED.fullmatch(bare) is not None


# Words ------------------------------------------------------------------------------------------------------------


def _share(rows: int, total: int) -> str:
    return f"{rows:,} of {total:,} rows ({_percent(rows, total)})"


def _percent(rows: int, total: int) -> str:
    return "<0.1%" if rows < 0.0005 * total else f"{rows / total:.1%}"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else noun + "s"


def _listed(names: list[str], count: int | None = None) -> str:
    """Return the first names, and how many more there are of ``count``, by default all that are given."""
    count = len(names) if count is None else count
    more = f" and {count - _SHOWN:,} more" if count > _SHOWN else ""
    return ", ".join(f"'{n}'" for n in names[:_SHOWN]) + more
