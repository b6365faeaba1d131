"""A cell: what its time is, and what its draws hang on."""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from numba import njit

from tasks import cell
from tasks.configuration import ExperimentConfig
from tasks.convert import convert
from tasks.download import download
from tasks.values import ConversionRule, MethodResult

ASLEEP_S = 0.2


@pytest.mark.parametrize("functions", [0, 1, 2])
def test_compiling_is_timed_apart(monkeypatch, functions):
    """A first run showed ten seconds for a method that takes two."""

    def stages(prepared, method, config, seed, call):
        with ThreadPoolExecutor(1) as pool:  # as folds side by side
            for number in range(functions):
                pool.submit(njit(lambda x, number=number: x + number), 1.0).result()
        time.sleep(ASLEEP_S)
        return MethodResult("d", "m", "m", "none")

    monkeypatch.setattr(cell, "_compute", stages)
    start = time.perf_counter()
    result = cell.compute(None, None, None, 0)
    assert (result.compile_s > 0.0) == (functions > 0)
    assert result.seconds >= ASLEEP_S
    assert result.seconds + result.compile_s <= time.perf_counter() - start


def test_a_name_is_no_part_of_a_result_without_draws(tmp_path):
    """The inner folds hung on it: of six names of one method the G-means were up to four points apart."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(160) % 6 == 0, "yes", "no")
    frame = pd.DataFrame(rng.normal(size=(160, 4)) + (y == "yes")[:, None], columns=list("abcd")).assign(t=y)
    frame.to_csv(tmp_path / "n.csv", index=False)
    dataset = convert.fn(download.fn("n", str(tmp_path / "n.csv")), ConversionRule("t", "yes"))
    methods = [{"solver": "ls_svm", "name": name, "probabilities": "sigmoid"} for name in ("one", "other")]
    validation = {"folds": 2, "threshold": "out_of_fold_smoothed", "select_by": "gmean"}
    config = ExperimentConfig.model_validate({"datasets": ["wine"], "methods": methods, "validation": validation})
    prepared = cell.divide(dataset, config, cell.plainly)
    one, other = (
        cell.compute(prepared, method, config, cell.cell_seed(config, "n", method), cell.plainly)
        for method in config.methods
    )
    assert cell.cell_seed(config, "n", config.methods[0]) != cell.cell_seed(config, "n", config.methods[1])
    for first, second in zip((*one.models, one.final), (*other.models, other.final), strict=True):
        assert first.search == second.search and first.threshold == second.threshold
    assert [e.test.gmean for e in one.evaluations] == [e.test.gmean for e in other.evaluations]
