"""Models in the store: what is kept beside them."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

from tasks.models import example_rows
from tasks.values import Table


@pytest.mark.parametrize(("columns", "rows"), [(3, 5), (60_000, 4), (5_000_000, 0)])
def test_of_wide_rows_the_example_is_shorter(columns, rows):
    """MLflow writes it as text with every zero: five rows of five million features were 270 MB."""
    table = Table(csr_matrix((np.ones(6), (np.arange(6), np.arange(6) % columns)), shape=(6, columns)), np.ones(6))
    example = example_rows(table)
    assert (example.shape == (rows, columns)) if rows else example is None


def test_of_a_table_five_rows_are_the_example():
    assert len(example_rows(Table(pd.DataFrame({"a": np.arange(9.0)}), np.ones(9)))) == 5
