"""Columns brought to [0, 1]: scikit-learn's scalers as oracle where a column is in its range, and none beyond it."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import RangeScaler

TINY = np.finfo(np.float64).smallest_subnormal


@parametrize_with_checks([RangeScaler()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


values = st.integers(-3, 3).map(float) | st.floats(-1e3, 1e3).map(lambda x: round(x, 6))
tables = arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 3)), elements=values)
powers = st.integers(-990, 990)  # units of 1e-298 to 1e298


@given(tables, tables, powers)
def test_dense_columns_in_any_unit_are_those_of_minmaxscaler_in_one_it_knows(train, rows, power):
    rows = np.resize(rows, (len(rows), train.shape[1]))
    varied = np.ptp(train, axis=0) > 0.0
    scaler, unit = MinMaxScaler().fit(train), np.where(varied, power, 0)
    found = RangeScaler().fit(np.ldexp(train, unit))
    for X in (train, rows):
        rounding = 1e-12 * (1.0 + np.abs(scaler.min_) + np.abs(X * scaler.scale_))  # theirs, x / range - min / range
        assert (np.abs(found.transform(np.ldexp(X, unit)) - scaler.transform(X)) <= rounding).all()
    scaled = found.transform(np.ldexp(train, unit))
    assert not scaled.min(axis=0).any() and np.array_equal(scaled.max(axis=0), varied.astype(float))


@given(tables, tables, powers, st.sampled_from([sparse.csr_array, sparse.csr_matrix]))
def test_sparse_columns_in_any_unit_are_those_of_maxabsscaler_in_one_it_knows(train, rows, power, storage):
    rows = np.resize(rows, (len(rows), train.shape[1]))
    used, scaler = train.any(axis=0), MaxAbsScaler().fit(train)
    unit = np.where(used, power, 0)
    fitted = RangeScaler().fit(storage(np.ldexp(train, unit)))
    for X in (train, rows):
        found = fitted.transform(storage(np.ldexp(X, unit)))
        assert sparse.issparse(found) and found.dtype == np.float64
        np.testing.assert_allclose(found.toarray(), scaler.transform(X), rtol=1e-12, atol=0)
    assert np.array_equal(abs(fitted.transform(np.ldexp(train, unit))).max(axis=0), used.astype(float))


@pytest.mark.parametrize("unit", [1e-15, 1e-20, 1e-300, TINY, 1e300])
def test_small_and_large_columns_are_not_erased(unit):
    """Ranges below 2.2e-15 were taken for those of constants: an AUC of 0.53 where standard had 0.98."""
    X = np.array([[0.0, 4.0], [1.0, 2.0], [4.0, 0.0]]) * unit
    np.testing.assert_allclose(RangeScaler().fit_transform(X), [[0, 1], [0.25, 0.5], [1, 0]], rtol=1e-15)
    found = RangeScaler().fit_transform(sparse.csr_matrix(-X))
    np.testing.assert_allclose(found.toarray(), [[0, -1], [-0.25, -0.5], [-1, 0]], rtol=1e-15)


def test_ranges_beyond_the_largest_number_do_not_overflow():
    train = np.array([[-1.3e308, 1.6e308, -1.7e308], [0.0, 1.7e308, -1.7e308], [1.3e308, 1.7e308, -1.7e308]])
    fitted = RangeScaler().fit(train)
    np.testing.assert_allclose(fitted.transform(train), [[0, 0, 0], [0.5, 1, 0], [1, 1, 0]], rtol=1e-14)
    np.testing.assert_allclose(fitted.transform([[1.69e308, -1.6e308, 0.0]]), [[1.15, -32, 1.7e308]], rtol=1e-13)


def test_constants_become_zeros_and_new_values_keep_their_distance():
    train = np.array([[5.0, 1.0, 1e20, -1e-300], [5.0, 1.0 + 1e-15, 1e20 + 2**15, -1e-300]])
    fitted = RangeScaler().fit(train)
    assert not fitted.transform(train)[:, [0, 3]].any() and (np.abs(fitted.transform(train)) < 2.3e-15).all()
    assert fitted.transform([[7.0, 3.0, 3e20, 1.0]])[0] == pytest.approx([2.0, 2.0, 2.0, 1.0])
    assert MinMaxScaler().fit(train).transform([[7.0, 3.0, 3e20, 1.0]])[0, [0, 1, 3]] == pytest.approx([2.0, 2.0, 1.0])


def test_zeros_that_are_stored_columns_out_of_order_and_values_in_parts_are_as_others():
    X = sparse.csr_array(([4.0, 0.0, -2.0, 1.0, 1.0], [3, 0, 1, 1, 1], [0, 3, 5, 5]), shape=(3, 5))
    before, dense = X.copy(), X.toarray()
    fitted = RangeScaler().fit(X)
    np.testing.assert_array_equal(fitted.range_, [1, 2, 1, 4, 1])
    np.testing.assert_array_equal(fitted.transform(X).toarray(), dense / fitted.range_)
    assert np.array_equal(X.data, before.data) and np.array_equal(X.indices, before.indices)
    nothing = RangeScaler().fit_transform(sparse.csr_matrix((3, 5)))
    assert sparse.issparse(nothing) and nothing.shape == (3, 5) and nothing.nnz == 0


def test_sparse_rows_are_refused_where_zeros_would_not_stay():
    fitted = RangeScaler().fit([[1.0], [3.0]])
    with pytest.raises(ValueError, match=r"Expected dense rows, as in training, got sparse ones\. Convert them"):
        fitted.transform(sparse.csr_matrix([[1.0], [0.0]]))


def test_columns_keep_their_names_and_pickles_their_numbers():
    X = np.random.default_rng(0).normal(size=(9, 2))
    fitted = RangeScaler().fit(X.astype(np.float32))
    assert fitted.get_feature_names_out(["a", "b"]).tolist() == ["a", "b"]
    assert fitted.transform(X.astype(np.float32)).dtype == np.float64
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).transform(X), fitted.transform(X))
