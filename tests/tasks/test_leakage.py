"""Nothing of the test rows may reach what is fitted: a leak is planted on purpose, and the same check catches it."""

import numpy as np
import pandas as pd
import pytest

from tasks.configuration import ExperimentConfig
from tasks.search import choose
from tasks.split import make_splits
from tasks.train import fit_model
from tasks.undersample import draw_sample
from tasks.values import Sample, Table

CONFIG = ExperimentConfig.model_validate(
    {"datasets": ["wine"], "methods": [{"solver": "linear_svm", "sampler": "u1"}], "validation": {"inner_folds": 2}}
)
METHOD = CONFIG.methods[0]


@pytest.fixture
def table():
    rng = np.random.default_rng(5)
    y = np.where(np.arange(240) % 5 == 0, 1, -1).astype(np.int8)
    X = pd.DataFrame(rng.normal(size=(240, 4)) + 0.9 * (y > 0)[:, None], columns=list("abcd"))
    X.loc[rng.choice(240, 30, replace=False), "a"] = np.nan
    X["shop"] = rng.choice(["north", "south", "west"], 240)
    return Table(laid_out(X), y)


@pytest.fixture
def split(table):
    return make_splits(table.y, 4, 1, seed=1)[0]


def disturb(table, rows):
    """Return the table with these rows' features and labels made absurd."""
    X, y = table.X.copy(), table.y.copy()
    X.iloc[rows, :4] = 1e6
    X.iloc[rows, 4] = "nowhere"
    y[rows] = -y[rows]
    return Table(laid_out(X), y)


def laid_out(X):
    """Return the frame in the memory layout that `convert` gives it: sums are then added in the same order."""
    return pd.DataFrame({name: X[name].to_numpy() for name in X})


def fitted_numbers(table, split, draw=draw_sample):
    """Return everything that training fits, as comparable values."""
    sample = draw(table, split, METHOD, CONFIG.preprocessing, 3)
    model = fit_model(table, split, sample, choose(table, split, METHOD, CONFIG, 4), METHOD, CONFIG, 4)
    solver = model.pipeline.named_steps["solver"]
    columns = model.pipeline.named_steps["preprocessing"].get_feature_names_out()
    return {
        "kept rows": sample.rows.tolist(),
        "columns": list(columns),
        "coefficients": solver.coef_.tolist(),
        "threshold": model.threshold,
        "search": model.search,
    }


def leaks(table, split, draw=draw_sample):
    """Return what changes when only the test rows change."""
    before, after = fitted_numbers(table, split, draw), fitted_numbers(disturb(table, split.test), split, draw)
    return [name for name in before if before[name] != after[name]]


def test_changing_the_test_rows_changes_nothing_that_is_fitted(table, split):
    assert leaks(table, split) == []


def test_changing_the_training_rows_does(table, split):
    before, after = fitted_numbers(table, split), fitted_numbers(disturb(table, split.train[:20]), split)
    assert [name for name in before if before[name] == after[name]] == []


def leaking_preprocessing(table, split, method, preprocessing, seed):
    """A mistake planted on purpose: imputer, scaler and encoder are fitted on all rows."""
    honest = draw_sample(table, split, method, preprocessing, seed)
    everything = draw_sample(table, make_everything(table), method, preprocessing, seed)
    return Sample(**{**vars(honest), "preprocessing": everything.preprocessing})


def leaking_sampler(table, split, method, preprocessing, seed):
    """A mistake planted on purpose: the sampler chooses among all rows before the split."""
    everything = draw_sample(table, make_everything(table), method, preprocessing, seed)
    honest = draw_sample(table, split, method, preprocessing, seed)
    rows = np.intersect1d(everything.rows, split.train)
    return Sample(**{**vars(honest), "rows": rows})


def make_everything(table):
    split = make_splits(table.y, 2, 1, seed=0)[0]
    return type(split)(-1, np.arange(len(table.y)), np.empty(0, dtype=int))


@pytest.mark.parametrize(
    ("mistake", "expected"),
    [(leaking_preprocessing, {"columns", "coefficients"}), (leaking_sampler, {"kept rows", "coefficients"})],
)
def test_a_planted_leak_is_caught(table, split, mistake, expected):
    assert expected <= set(leaks(table, split, mistake))
