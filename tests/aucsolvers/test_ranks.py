"""Ranks of sparse columns: those of scikit-learn where a column is as it takes it, and signs where it is not."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from sklearn import config_context
from sklearn.preprocessing import QuantileTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import SignedRanks


@parametrize_with_checks([SignedRanks()])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def ranks_of(dense, n_quantiles=1000):
    return SignedRanks(n_quantiles).fit_transform(sparse.csr_matrix(dense)).toarray()


@pytest.mark.parametrize("n_quantiles", [1000, 20])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix])
def test_columns_without_negative_values_are_ranked_as_those_of_a_dense_array(storage, n_quantiles):
    """Ones and zeros became zeros alone: the least value of a column was taken for one that is not there."""
    rng = np.random.default_rng(0)
    X = rng.poisson(0.4, (300, 7)).astype(float)
    X[:, 0], X[:, 1], X[:, 2] = X[:, 0] > 0, 3 + rng.random(300), 0
    X[:, 3] *= rng.random(300).round(1)
    dense = QuantileTransformer(n_quantiles=min(n_quantiles, 200), subsample=None).fit(X[:200])
    fitted = SignedRanks(n_quantiles).fit(storage(X[:200]))
    for rows in (X[:200], X[200:], X[:1]):
        ranks = fitted.transform(storage(rows))
        assert sparse.issparse(ranks) == sparse.issparse(storage(rows))
        np.testing.assert_allclose(sparse.csr_matrix(ranks).toarray(), dense.transform(rows), rtol=0, atol=1e-15)
    assert set(ranks_of(X)[:, 0]) == {0.0, 1.0}


values = st.integers(-3, 3).map(float) | st.floats(-1e6, 1e6, allow_subnormal=False)


@given(arrays(np.float64, st.tuples(st.integers(2, 12), st.integers(1, 3)), elements=values))
def test_zeros_and_signs_stay_and_larger_values_have_no_smaller_ranks(X):
    ranks = ranks_of(X)
    assert not ranks[X == 0].any() and (np.sign(ranks) * np.sign(X) >= 0).all() and (np.abs(ranks) <= 1).all()
    for values, found in zip(X.T, ranks.T, strict=True):
        order = np.argsort(values, kind="stable")
        assert (np.diff(found[order]) >= -1e-12).all()
    np.testing.assert_array_equal(ranks_of(-X), -ranks)
    present = (X != 0) & (X == 0).any(axis=0)
    assert (ranks[present] != 0).all(), "what is there differs from what is not"


@pytest.mark.parametrize("storage", [np.asarray, pd.DataFrame])
def test_frames_may_be_set_for_all_transformers(storage):
    X = np.array([[0.0, -2.0], [1.0, 0.0], [1.0, 5.0]])
    with config_context(transform_output="pandas"):
        frame = SignedRanks().fit_transform(storage(X))
        plain = SignedRanks().set_output(transform="default").fit_transform(storage(X))
    assert isinstance(frame, pd.DataFrame) and isinstance(plain, np.ndarray)
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    np.testing.assert_array_equal(plain, ranks_of(X))


@pytest.mark.parametrize("n_quantiles", [0, -1, 2.5, "a", None, True])
def test_a_number_of_ranks_is_asked_for(n_quantiles):
    with pytest.raises(ValueError, match="Expected n_quantiles to be an integer >= 1, got "):
        SignedRanks(n_quantiles).fit([[1.0], [2.0]])


def test_zeros_that_are_stored_and_values_in_parts_are_as_others():
    X = sparse.random(40, 5, 0.3, format="csr", random_state=0)
    X.data -= 0.5
    fitted = SignedRanks().fit(X)
    rows = np.repeat(np.arange(40), np.diff(X.indptr))
    spread = [np.r_[rows, rows, 0], np.r_[X.indices, X.indices, 4]]
    halves = sparse.coo_matrix((np.r_[X.data / 2, X.data / 2, 0.0], spread), X.shape)
    before = halves.copy()
    assert (fitted.transform(halves) != fitted.transform(X)).nnz == 0
    assert halves.nnz == before.nnz
