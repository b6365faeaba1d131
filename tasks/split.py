"""Split: which rows train and which test. The same division for every method, so that they compare in pairs."""

import numpy as np
from sklearn.model_selection import RepeatedStratifiedKFold

from tasks.convert import load
from tasks.stage import stage
from tasks.values import Dataset, Split

REFIT = -1  # the fold number of the final fit on all rows


def make_splits(y: np.ndarray, folds: int, repeats: int, seed: int) -> tuple[Split, ...]:
    """Return ``folds * repeats`` stratified train/test divisions, row positions ascending."""
    splitter = RepeatedStratifiedKFold(n_splits=folds, n_repeats=repeats, random_state=seed)
    placeholder = np.zeros(len(y))
    return tuple(Split(i, train, test) for i, (train, test) in enumerate(splitter.split(placeholder, y)))


def all_rows(dataset: Dataset) -> Split:
    """Return the division that trains on every row and tests on none: the final fit's."""
    return Split(REFIT, np.arange(dataset.n_rows), np.empty(0, dtype=np.int64))


@stage(name="split", task_run_name="split {dataset.name}")
def split(dataset: Dataset, folds: int, repeats: int, seed: int) -> tuple[Split, ...]:
    """Divide a data set's rows into stratified folds."""
    return make_splits(load(dataset).y, folds, repeats, seed)
