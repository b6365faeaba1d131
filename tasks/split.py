"""Split: which rows train and which test. The same division for every method, so that they compare in pairs.

Rows are told apart by 64-bit hashes of their features. Two different rows out of a million collide with a probability
of about 3e-8 (n²/2 pairs over 2⁶⁴ values), which neither a finding nor a division hangs on.
"""

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix
from sklearn.model_selection import RepeatedStratifiedKFold, StratifiedGroupKFold

from tasks.convert import load
from tasks.errors import BadInput
from tasks.seeds import seed_for
from tasks.stage import stage
from tasks.values import Dataset, Split

REFIT = -1  # the fold number of the final fit on all rows


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
        splitters = (StratifiedGroupKFold(n_splits=folds, shuffle=True, random_state=s) for s in seeds)
        pairs = [pair for splitter in splitters for pair in splitter.split(placeholder, y, groups)]
        if any(len(np.unique(y[rows])) < 2 for pair in pairs for rows in pair):
            raise BadInput(
                f"Expected rows of both classes in each of {folds} folds, got a fold with one class: too many rows are "
                "copies of each other to be kept together. Use fewer --folds, or remove the copies."
            )
    return tuple(Split(i, train, test) for i, (train, test) in enumerate(pairs))


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


def all_rows(dataset: Dataset) -> Split:
    """Return the division that trains on every row and tests on none: the final fit's."""
    return Split(REFIT, np.arange(dataset.n_rows), np.empty(0, dtype=np.int64))


@stage(name="split", task_run_name="split {dataset.name}")
def split(dataset: Dataset, folds: int, repeats: int, seed: int, grouped: bool = False) -> tuple[Split, ...]:
    """Divide a data set's rows into stratified folds; ``grouped`` keeps rows of equal features together."""
    table = load(dataset)
    return make_splits(table.y, folds, repeats, seed, row_keys(table.X) if grouped else None)
