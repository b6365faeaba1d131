"""Rows of unit norm: scikit-learn's contract, its Normalizer as oracle, and no dependence on the other rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import UnitRows


@parametrize_with_checks([UnitRows()])
def test_obeys_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csr_matrix])
def test_as_scikit_learn_and_row_by_row_to_the_last_bit(form):
    rng = np.random.default_rng(0)
    dense = rng.normal(size=(30, 17)) * (rng.random((30, 17)) < 0.6)
    dense[4] = 0.0
    X = form(dense)
    out = UnitRows().fit_transform(X)
    plain = out.toarray() if sparse.issparse(out) else out
    assert np.allclose(plain, normalize(dense), rtol=1e-15)
    for i in range(30):
        alone = UnitRows().fit(X).transform(form(dense[[i]]))
        assert np.array_equal(alone.toarray() if sparse.issparse(alone) else alone, plain[[i]])
    assert np.array_equal(X.toarray() if sparse.issparse(X) else X, dense), "the input is left alone"


def test_entries_in_two_parts_count_once_and_overflow_is_refused():
    X = sparse.csr_array(([1.0, 2.0, 4.0], [0, 0, 1], [0, 3]), shape=(1, 2))
    assert np.allclose(UnitRows().fit_transform(X).toarray(), [[0.6, 0.8]])
    with pytest.raises(ValueError, match="squared norms overflow"):
        UnitRows().fit_transform([[1e200, 1.0]])
