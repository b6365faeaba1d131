"""Columns without an entry: a problem is solved without them, and nothing but the time tells."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone

from aucsolvers import LSSVM, SPDAM, SVMOR, ZOVR, LinearSVM, MarginMeanSVM
from aucsolvers._stored import MANY_COLUMNS, StoredColumns

HASHED = 2**20  # columns of scikit-learn's HashingVectorizer
SOLVERS = [
    SVMOR(1e-2, warm_start=True),
    SVMOR(1e-2, loss="squared_hinge", warm_start=True),
    SVMOR(1e-2, method="cutting_plane", warm_start=True),
    LSSVM(1e-2),
    SPDAM(1e-1, max_iter=3000, warm_start=True, random_state=0),
    ZOVR(certify=True, tol=1e-2, random_state=0),
    LinearSVM(loss="hinge", warm_start=True, random_state=0),
    LinearSVM(warm_start=True, random_state=0),
    MarginMeanSVM(random_state=0),
]


def words(seed=0, n=80, d=60, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = sparse.random(n, d, density=0.2, format="csr", random_state=seed, data_rvs=rng.standard_normal, dtype=dtype)
    X = sparse.vstack([np.ones((1, d), dtype), X[1:]], format="csr")  # every column has an entry
    return X, np.where(rng.random(n) < 0.3, 1, -1)


def hashed(X, seed=0, width=HASHED):
    """Return X with its columns, in order, among many empty ones, and their numbers there."""
    kept = np.sort(np.random.default_rng(seed).choice(width, X.shape[1], replace=False))
    return sparse.csr_array((X.data, kept[X.indices], X.indptr), shape=(X.shape[0], width)), kept


@pytest.mark.parametrize("solver", SOLVERS, ids=lambda solver: f"{type(solver).__name__}-{getattr(solver, 'loss', '')}")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_empty_columns_change_no_bit(solver, dtype):
    X, y = words(dtype=dtype)
    wide, kept = hashed(X)
    narrow, model = clone(solver).fit(X, y), clone(solver).fit(wide, y)
    assert model.coef_.shape == (1, HASHED) and model.n_features_in_ == HASHED
    assert_array_equal(model.coef_[0, kept], narrow.coef_[0])
    assert np.count_nonzero(model.coef_) == np.count_nonzero(narrow.coef_)
    assert_array_equal(model.decision_function(wide), narrow.decision_function(X))
    for name in ("objective_", "dual_gap_", "n_iter_", "status_"):
        assert getattr(model, name) == getattr(narrow, name)
    if "warm_start" in solver.get_params():
        again, other = words(seed=1, dtype=dtype)
        for fitted, rows in ((model, hashed(again)[0]), (narrow, again)):
            fitted.set_params(tol=1e-5).fit(rows, other)
        assert_array_equal(model.coef_[0, kept], narrow.coef_[0])
        assert model.n_iter_ == narrow.n_iter_


@pytest.mark.parametrize("solver", [SOLVERS[0], SOLVERS[4], SOLVERS[6]], ids=["SVMOR", "SPDAM", "LinearSVM"])
def test_weights_of_columns_that_have_lost_their_entries_are_no_start(solver):
    """Rows in other columns: what was learnt of the first ones is not kept in the model."""
    X, y = words()
    before, kept = hashed(X, seed=0)
    after, now = hashed(X, seed=1)
    model = clone(solver).fit(before, y).fit(after, y)
    assert model.status_ == "converged"
    gone = np.setdiff1d(kept, now)
    assert len(gone) and not model.coef_[0, gone].any()
    cold = clone(solver).fit(after, y)
    assert abs(cold.objective_ - model.objective_) <= cold.dual_gap_ + model.dual_gap_


def test_a_warm_start_knows_its_solution_again():
    X, y = words()
    wide, _ = hashed(X)
    model = SVMOR(1e-2, warm_start=True).fit(wide, y)
    coef = model.coef_.copy()
    assert model.fit(wide, y).n_iter_ == 0
    assert_array_equal(model.coef_, coef)


@pytest.mark.parametrize(
    ("X", "why"),
    [
        (np.eye(3, MANY_COLUMNS + 1), "dense"),
        (sparse.csr_array(np.eye(3, MANY_COLUMNS)), "few columns"),
        (sparse.csr_array(np.ones((2, MANY_COLUMNS + 1))), "an entry in each"),
    ],
)
def test_where_there_is_little_to_leave_out_all_columns_stay(X, why):
    columns = StoredColumns.of(X)
    assert columns.kept is None
    assert columns.rows(X) is X


def test_of_rows_without_an_entry_one_column_stays():
    X = sparse.csr_array((3, MANY_COLUMNS + 1))
    assert StoredColumns.of(X).rows(X).shape == (3, 1)


@pytest.mark.parametrize("width", [1100, 5000])
def test_rows_in_their_stored_columns_share_the_values(width):
    """Of fewer columns than stored values and of more."""
    X, _ = words(n=120)
    assert 1100 < X.nnz < 5000
    wide, kept = hashed(X, width=width)
    columns = StoredColumns.of(wide)
    assert_array_equal(columns.kept, kept)
    rows = columns.rows(wide)
    assert np.shares_memory(rows.data, wide.data)
    assert_array_equal(rows.toarray(), X.toarray())
