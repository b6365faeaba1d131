"""Check: what a person should know about a data set before trusting a score on it.

Everything is found without densifying a sparse matrix: rows are compared by 64-bit hashes. Two different rows out of a
million collide with a probability of about 3e-8 (n²/2 pairs over 2⁶⁴ values), which no finding hangs on.
"""

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix

from aucsolvers.metrics import auc
from tasks.arff import NUMBER
from tasks.convert import load
from tasks.errors import BadInput
from tasks.split import make_splits
from tasks.stage import stage
from tasks.values import Dataset, Finding, Split, Table

SEPARATES = 0.999  # a column whose AUC alone is above this, or below one minus this
MANY_VALUES = 100  # a text column of more values looks like an identifier
FEW_WORDS = 0.1  # a text column with fewer values than this share that are no numbers looks like spoilt numbers
_SHOWN = 5


@stage(name="check", task_run_name="check {dataset.name}")
def check(dataset: Dataset, folds: int, repeats: int, seed: int) -> tuple[Finding, ...]:
    """Return what is remarkable about a data set under the division that these parameters make.

    Raises
    ------
    BadInput
        If a class has fewer rows than there are folds.
    """
    table = load(dataset)
    refuse_small_classes(dataset, folds)
    splits = make_splits(table.y, folds, repeats, seed)
    keys = row_keys(table.X)
    findings = (
        duplicates_across_split(keys, splits, repeats),
        contradictory_labels(keys, table.y),
        constant_columns(table.X),
        separating_columns(table),
        missing_values(dataset),
        *(text_column(name, table.X[name]) for name in dataset.text_columns),
    )
    return tuple(f for f in findings if f is not None)


def refuse_small_classes(dataset: Dataset, folds: int) -> None:
    """Refuse a division in which some fold would lack a class."""
    story = dataset.provenance
    rows, label = min((dataset.n_pos, story.positive_label), (dataset.n_neg, story.negative_label))
    if rows < folds:
        remedy = f"Use --folds {rows} or fewer, or add" if rows > 1 else "Add"
        raise BadInput(
            f"{dataset.name}: expected at least {folds} rows in each class for {folds} folds, got {rows} of class "
            f"'{label}'. {remedy} rows of that class."
        )


# Rows -------------------------------------------------------------------------------------------------------------


def row_keys(X: pd.DataFrame | csr_matrix) -> np.ndarray:
    """Return one uint64 for each row: equal rows have equal ones."""
    if isinstance(X, pd.DataFrame):
        return pd.util.hash_pandas_object(X, index=False).to_numpy()
    # A row's key is the sum, modulo 2^64, of its entries' hashes: zeros do not count, and no order either.
    entries = _mixed(_mixed(X.indices.astype(np.uint64)) ^ (X.data + 0.0).view(np.uint64))
    totals = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(entries, dtype=np.uint64)])
    return totals[X.indptr[1:]] - totals[X.indptr[:-1]]


def _mixed(values: np.ndarray) -> np.ndarray:
    """Return a bijective scrambling of 64-bit integers (the finaliser of splitmix64, Steele et al. 2014)."""
    values = values + np.uint64(0x9E3779B97F4A7C15)
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


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
        "a model that was trained on their copy: test scores may flatter. Remove the copies unless they are separate "
        "observations."
    )
    return Finding("duplicates_across_split", "warning", message, per_repeat)


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


def constant_columns(X: pd.DataFrame | csr_matrix) -> Finding | None:
    """Find columns of a single value; a missing number does not count, for it is imputed with that value."""
    if isinstance(X, pd.DataFrame):
        names = [n for n in X if X[n].nunique(dropna=X[n].dtype != object) <= 1]
    else:
        same = X.max(axis=0).toarray().ravel() == X.min(axis=0).toarray().ravel()
        names = [_sparse_name(j) for j in np.flatnonzero(same)]
    if not names:
        return None
    if len(names) == X.shape[1]:
        raise BadInput(
            f"Expected at least one column with two different values, got {_listed(names)}, each with one value only. "
            "There is nothing to rank by: check the file."
        )
    message = (
        f"{len(names):,} {_plural(len(names), 'column')} with one value only ({_listed(names)}) cannot rank anything. "
        f"Drop {'it' if len(names) == 1 else 'them'} to save time."
    )
    return Finding("constant_column", "warning", message, len(names), tuple(names))


def separating_columns(table: Table) -> Finding | None:
    """Find columns that tell the classes apart all by themselves: suspects of a leak."""
    if isinstance(table.X, pd.DataFrame):
        names = [name for name in table.X if _separates(table.X[name], table.y)]
    else:
        columns = table.X.tocsc()
        candidates = _dense_enough(columns, table.y)
        names = [_sparse_name(j) for j in candidates if _ranks(columns[:, [j]].toarray().ravel(), table.y)]
    if not names:
        return None
    one = len(names) == 1
    message = (
        f"{len(names):,} {_plural(len(names), 'column')} alone {'separates' if one else 'separate'} the classes "
        f"({_listed(names)}; single-column AUC above {SEPARATES} or below {1 - SEPARATES:.3f}): a leak of the label? "
        f"Drop {'it' if one else 'them'} unless known before the outcome."
    )
    return Finding("separating_column", "warning", message, len(names), tuple(names))


def _separates(column: pd.Series, y: np.ndarray) -> bool:
    """Tell whether a column's values, or the mere fact that they are missing, separate the classes."""
    missing = column.isna().to_numpy()
    if missing.any() and _ranks(missing.astype(float), y):
        return True
    if column.dtype != object:
        values = column.to_numpy()
        return _ranks(np.where(missing, np.nanmedian(values), values), y)
    codes, values = pd.factorize(column)
    if 5 * len(values) > len(codes):  # values that hardly repeat separate any labels
        return False
    codes = np.where(missing, len(values), codes)
    return _ranks((np.bincount(codes, y > 0) / np.maximum(np.bincount(codes), 1))[codes], y)


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


def missing_values(dataset: Dataset) -> Finding | None:
    """Report the missing cells and the columns that have most of them."""
    cells = dataset.missing_cells
    if not cells:
        return None
    total = sum(cells.values())
    worst = sorted(cells, key=cells.__getitem__, reverse=True)[:_SHOWN]
    shares = ", ".join(f"'{name}' {cells[name] / dataset.n_rows:.1%}" for name in worst)
    message = (
        f"{total:,} missing {_plural(total, 'cell')} in {len(cells)} of {dataset.n_features} columns "
        f"(most in {shares}): numbers are imputed inside each fold, a missing text is a category of its own."
    )
    return Finding("missing_values", "info", message, total, tuple(cells))


def text_column(name: str, column: pd.Series) -> Finding:
    """Report a text column and how many values it has; many values are a warning."""
    values = column.dropna().unique()
    count = len(values)
    words = [value for value in values if not NUMBER.fullmatch(value)]
    if 0 < len(words) < FEW_WORDS * count:
        message = (
            f"Column '{name}' is read as text because of values such as '{words[0][:40]}', but all the others of its "
            f"{count:,} different values are numbers. Mend those, or leave the cells empty if they are missing."
        )
        return Finding("text_column", "warning", message, count, (name,))
    if count > MANY_VALUES:
        message = (
            f"Text column '{name}' has {count:,} different values and looks like an identifier: only the "
            f"{MANY_VALUES - 1} most frequent get a column of their own. Drop it unless it carries meaning."
        )
        return Finding("text_column", "warning", message, count, (name,))
    return Finding("text_column", "info", f"Text column '{name}' is one-hot encoded: {count} values.", count, (name,))


# Words ------------------------------------------------------------------------------------------------------------


def _sparse_name(index: int) -> str:
    return f"feature {index + 1}"


def _share(rows: int, total: int) -> str:
    percent = "<0.1%" if rows < 0.0005 * total else f"{rows / total:.1%}"
    return f"{rows:,} of {total:,} rows ({percent})"


def _plural(count: int, noun: str) -> str:
    return noun if count == 1 else noun + "s"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(f"'{n}'" for n in names[:_SHOWN]) + more
