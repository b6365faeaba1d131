"""Models in the store: what is kept beside them, and what loading them needs."""

import sys
from importlib import import_module

import mlflow
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from aucsolvers import Ranker
from tasks.errors import RunFailed
from tasks.models import example_rows, load_ranker, make_signature
from tasks.values import Layout, Table

OWN = """
from aucsolvers import LSSVM
class Mine(LSSVM):
    pass
"""


@pytest.mark.parametrize(("columns", "rows"), [(3, 5), (60_000, 4), (5_000_000, 0)])
def test_of_wide_rows_the_example_is_shorter(columns, rows):
    """MLflow writes it as text with every zero: five rows of five million features were 270 MB."""
    table = Table(csr_matrix((np.ones(6), (np.arange(6), np.arange(6) % columns)), shape=(6, columns)), np.ones(6))
    example = example_rows(table)
    assert (example.shape == (rows, columns)) if rows else example is None


def test_of_a_table_five_rows_are_the_example():
    assert len(example_rows(Table(pd.DataFrame({"a": np.arange(9.0)}), np.ones(9)))) == 5


def test_a_model_of_a_module_that_is_not_there_names_it(tmp_path, monkeypatch):
    """It was called damaged, and the audit, to which that referred, had nothing to say."""
    (tmp_path / "own_solvers.py").write_text(OWN)
    X, y = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0]}), np.array([-1, -1, 1, 1])
    with monkeypatch.context() as importable:
        importable.syspath_prepend(tmp_path)
        ranker = Ranker(import_module("own_solvers").Mine().fit(X.to_numpy(), y), columns={"a": "number"})
        mlflow.sklearn.save_model(
            ranker,
            tmp_path / "m",
            serialization_format="skops",
            skops_trusted_types=["aucsolvers.ranker.Ranker", "own_solvers.Mine"],
            signature=make_signature(Table(X, y)),
            metadata={"columns": {"a": "number"}, "layout": Layout().as_dict()},
            pip_requirements=[],
        )
        assert load_ranker(tmp_path / "m", ("own_solvers",)).n_features == 1
    del sys.modules["own_solvers"]
    words = r"No module named 'own_solvers'\. Install the module, or put its folder on PYTHONPATH\."
    with pytest.raises(RunFailed, match=words):
        load_ranker(tmp_path / "m", ("own_solvers",))
