"""Rows of unit norm: scikit-learn's contract, its Normalizer as oracle, and no dependence on the other rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import normalize
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import UnitRows

FORMS = [np.asarray, np.asfortranarray, sparse.csr_array, sparse.csr_matrix]


@parametrize_with_checks([UnitRows()])
def test_obeys_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("form", FORMS)
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


def test_entries_in_two_parts_count_once():
    X = sparse.csr_array(([1.0, 2.0, 4.0], [0, 0, 1], [0, 3]), shape=(1, 2))
    assert np.allclose(UnitRows().fit_transform(X).toarray(), [[0.6, 0.8]])


@pytest.mark.parametrize("form", FORMS)
def test_rows_whose_squares_leave_the_range_of_numbers_have_norm_1_too(form):
    """A row of 3e-170 and 4e-170 stayed as it was, one of 3e-162 and 4e-162 had norm 0.9, and 3e200 was refused."""
    units = np.array([1e-320, 1e-300, 1e-170, 1e-162, 1e-150, 1e-144, 1.0, 1e153, 1e154, 1e200, 1e307])
    dense = np.vstack([np.outer(units, [3.0, 0.0, -4.0]), np.zeros((2, 3))])
    dense[0] = [6 * 5e-324, 0.0, -8 * 5e-324]
    X = form(dense)
    out = UnitRows().fit_transform(X)
    plain = out.toarray() if sparse.issparse(out) else out
    assert sparse.issparse(out) == sparse.issparse(X)
    np.testing.assert_allclose(plain[: len(units)], np.tile([0.6, 0.0, -0.8], (len(units), 1)), rtol=1e-15)
    assert not plain[len(units) :].any()
    assert np.array_equal(X.toarray() if sparse.issparse(X) else X, dense), "the input is left alone"


@pytest.mark.parametrize("form", FORMS)
def test_such_rows_change_no_bit_of_others_and_a_power_of_two_changes_none(form):
    dense = np.random.default_rng(0).normal(size=(12, 5))
    dense[3, 1:] = dense[7] = 0.0

    def scaled(rows):
        out = UnitRows().fit_transform(form(rows))
        return out.toarray() if sparse.issparse(out) else out

    plain = scaled(dense)
    for power in (-1000, -485, -480, -475, 505, 515, 1000):
        assert np.array_equal(scaled(np.ldexp(dense, power)), plain)
        assert np.array_equal(scaled(np.vstack([dense, np.ldexp(dense, power)])), np.vstack([plain, plain]))
