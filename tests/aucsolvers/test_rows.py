"""Row operations against NumPy in float64, for every form and type of matrix that solvers hand over."""

import gc
import pickle
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from aucsolvers._jit import kernel
from aucsolvers._rows import (
    LONG_ROW,
    add,
    add_four,
    add_rows,
    add_twice,
    as_rows,
    as_writable,
    busy_columns_first,
    check_squares,
    checked_rows,
    dot,
    dot_four,
    filled_up,
    largest_feature,
    leave,
    most_readings,
    row_products,
    row_scores,
    sparse_if,
    squared_norm_about,
    squared_norms,
    squares_are_small,
    weighted_row_sum,
    well_formed,
    width_in_lines,
    with_short_indices,
    zeros_in_lines,
)

FORMS = [np.asarray, sparse.csr_matrix, sparse.csr_array]


def matrix(n=60, d=7, dtype=np.float64, density=0.5, seed=0):
    """Return a dense matrix with zeros, one of its rows all zero, that float32 holds without rounding."""
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < density)).astype(np.float32).astype(dtype)
    X[3] = 0.0
    return X


@pytest.fixture(params=[np.float64, np.float32])
def dtype(request):
    return request.param


@pytest.mark.parametrize("form", FORMS)
class TestSumsOverTheMatrix:
    def test_scores(self, form, dtype):
        X, w = matrix(dtype=dtype), np.random.default_rng(1).normal(size=7)
        scores = row_scores(form(X), w)
        assert scores.dtype == np.float64
        assert_allclose(scores, X.astype(np.float64) @ w, rtol=1e-13, atol=1e-15)

    def test_squared_norms(self, form, dtype):
        X = matrix(dtype=dtype)
        assert_allclose(squared_norms(form(X)), np.sum(X.astype(np.float64) ** 2, axis=1), rtol=1e-14)

    def test_squared_norms_about_a_point(self, form, dtype):
        X, centre = matrix(dtype=dtype), np.random.default_rng(1).normal(size=7)
        found = [_norm_about(as_rows(form(X)), np.uint32(i), centre, centre @ centre) for i in range(60)]
        assert_allclose(found, np.sum((X.astype(np.float64) - centre) ** 2, axis=1), rtol=1e-13)

    def test_weighted_row_sum_is_in_float64(self, form, dtype):
        """In float32 the sum of 10^5 times 0.1 would be off by 10^-4 or so."""
        X, weights = matrix(dtype=dtype), np.random.default_rng(1).normal(size=60)
        assert_allclose(weighted_row_sum(form(X), weights), weights @ X.astype(np.float64), rtol=1e-12, atol=1e-14)
        many = np.full((100_000, 1), 0.1, dtype=dtype)
        assert_allclose(weighted_row_sum(form(many), np.ones(100_000)), [1e5 * float(dtype(0.1))], rtol=1e-11)

    @pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 17, 30, 59])
    def test_few_weights_that_are_not_zero(self, form, dtype, count):
        X, weights = matrix(dtype=dtype), np.zeros(60)
        rng = np.random.default_rng(count)
        rows = np.sort(rng.choice(60, count, replace=False)).astype(np.uint32)
        weights[rows] = rng.normal(size=count)
        found = weighted_row_sum(form(X), weights)
        assert_allclose(found, weights @ X.astype(np.float64), rtol=1e-12, atol=1e-14)
        if count:
            assert_allclose(weighted_row_sum(form(X[rows]), weights[rows]), found, rtol=1e-12, atol=1e-14)

    def test_rows_of_no_weight_change_no_bit(self, form, dtype):
        X, weights = matrix(dtype=dtype), np.random.default_rng(1).normal(size=60)
        weights[::3] = 0.0
        used = np.flatnonzero(weights)
        without = weighted_row_sum(form(X[used]), weights[used])
        if sparse.issparse(form(X)):
            assert_array_equal(weighted_row_sum(form(X), weights), without)
        assert_allclose(weighted_row_sum(form(X), weights), without, rtol=1e-12, atol=1e-14)

    @pytest.mark.parametrize("longest_call", [2**26, 1])  # a row at a time
    def test_products_of_all_pairs_of_rows(self, form, dtype, longest_call, monkeypatch):
        monkeypatch.setattr("aucsolvers._rows.LONGEST_CALL", longest_call)
        X = matrix(dtype=dtype)
        dense = X.astype(np.float64)
        assert_allclose(row_products(form(X)), dense @ dense.T, rtol=2e-6 if dtype == np.float32 else 1e-13, atol=1e-6)


@kernel()
def _norm_about(rows, i, centre, square):
    return squared_norm_about(rows, i, centre, square)


@kernel()
def _visit(rows, i, step, w):
    before = dot(rows, i, w)
    add(rows, i, step, w)
    return before


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("i", [0, 3, 59])
def test_dot_and_add_of_one_row(form, dtype, i):
    X, w = matrix(dtype=dtype), np.random.default_rng(1).normal(size=7)
    row, moved = X[i].astype(np.float64), w.copy()
    assert_allclose(_visit(as_rows(form(X)), np.uint32(i), 0.5, moved), row @ w, rtol=1e-13, atol=1e-15)
    assert_allclose(moved, w + 0.5 * row, rtol=1e-14)


def test_a_product_with_a_stored_row_of_any_length(dtype):
    """Every remainder beside the four parts in which rows of LONG_ROW entries are summed."""
    lengths, rng = np.arange(LONG_ROW + 9), np.random.default_rng(1)
    X = rng.normal(size=(len(lengths), 50)).astype(dtype) * (np.arange(50) < lengths[:, None])
    X, w = rng.permuted(X, axis=1), rng.normal(size=50)
    assert_array_equal(np.diff(sparse.csr_array(X).indptr), lengths)
    assert_allclose(row_scores(sparse.csr_array(X), w), X.astype(np.float64) @ w, rtol=1e-13, atol=1e-13)


@kernel()
def _add_both_ways(rows, i, w, v):
    add_twice(rows, i, 0.5, w, -3.0, v)


@kernel()
def _dot_and_add_four(rows, visits, weights, w, total):
    i, j, p, q = visits
    add_four(rows, i, j, p, q, weights[0], weights[1], weights[2], weights[3], total)
    return dot_four(rows, i, j, p, q, w)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("d", [1, 7, 16, 30, 64])
def test_four_rows_are_multiplied_and_added_at_a_time(form, dtype, d):
    X, rng = matrix(d=d, dtype=dtype), np.random.default_rng(1)
    w, start, weights, visits = rng.normal(size=d), rng.normal(size=d), rng.normal(size=4), (59, 0, 7, 7)
    total, one_by_one = start.copy(), start.copy()
    products = _dot_and_add_four(as_rows(form(X)), tuple(map(np.uint32, visits)), weights, w, total)
    rows = X[list(visits)].astype(np.float64)
    assert_allclose(products, rows @ w, rtol=1e-12, atol=1e-13)
    _add_one_by_one(as_rows(form(X)), np.array(visits, dtype=np.uint32), weights, one_by_one)
    assert_array_equal(total, one_by_one)
    assert_allclose(total, start + weights @ rows, rtol=1e-12, atol=1e-13)


@kernel()
def _leave(rows, i, centre, sign, u):
    leave(rows, i, centre, sign, u)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("i", [0, 3, 59])
def test_a_row_is_added_to_two_vectors_and_leaves_a_centre(form, dtype, i):
    X, rng = matrix(dtype=dtype), np.random.default_rng(1)
    (w, v, centre), u, row = rng.normal(size=(3, 7)), np.full(7, np.nan), X[i].astype(np.float64)
    both = w.copy(), v.copy()
    _add_both_ways(as_rows(form(X)), np.uint32(i), *both)
    assert_allclose(both, [w + 0.5 * row, v - 3.0 * row], rtol=1e-14)
    for sign in (1.0, -1.0):
        _leave(as_rows(form(X)), np.uint32(i), centre, sign, u)
        assert_array_equal(u, sign * (row - centre))


@kernel()
def _add_one_by_one(rows, visits, weights, total):
    for k in range(visits.size):
        add(rows, visits[k], weights[k], total)


@kernel()
def _add_together(rows, visits, weights, total):
    add_rows(rows, visits, weights, total)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("n", [0, 1, 4, 7, 50])
@pytest.mark.parametrize("d", [1, 7, 64])
def test_rows_added_together_are_rows_added_one_by_one(form, dtype, n, d):
    """To the last bit, some of them twice."""
    X, rng = matrix(d=d, dtype=dtype), np.random.default_rng(1)
    visits, weights, start = rng.integers(60, size=n).astype(np.uint32), rng.normal(size=n), rng.normal(size=d)
    together, one_by_one = start.copy(), start.copy()
    _add_together(as_rows(form(X)), visits, weights, together)
    _add_one_by_one(as_rows(form(X)), visits, weights, one_by_one)
    assert_array_equal(together, one_by_one)
    assert_allclose(together, start + weights @ X.astype(np.float64)[visits], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("form", FORMS)
def test_a_row_has_the_same_score_in_any_company(form):
    """Served row by row or in chunks, to the last bit."""
    X, w = matrix(n=200, d=37), np.random.default_rng(1).normal(size=37)
    whole = row_scores(form(X), w)
    for size in (1, 7, 64):
        chunks = [row_scores(form(X[start : start + size]), w) for start in range(0, 200, size)]
        assert_array_equal(np.concatenate(chunks), whole)


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array])
def test_busy_columns_come_first(form, dtype):
    X = form(matrix(dtype=dtype))
    before = X.toarray()
    crowded, number = busy_columns_first(X)
    assert_array_equal(crowded.toarray()[:, number], before)
    assert np.all(np.diff(np.count_nonzero(crowded.toarray(), axis=0)) <= 0)
    assert_array_equal(crowded.data, X.data)  # the order within the rows is the same
    assert_array_equal(X.toarray(), before)


@pytest.mark.parametrize("density", [0.0, 0.2, 1.0])
@pytest.mark.parametrize("d", [1, 7, 70])
def test_dense_rows_of_few_values_become_what_scipy_makes_of_them(dtype, density, d):
    X = matrix(d=d, dtype=dtype, density=density)
    X[X < -1.5] = -0.0
    expected, part = sparse.csr_array(X), np.count_nonzero(X) / X.size
    got = sparse_if(X, part)
    for name in ("data", "indices", "indptr"):
        assert_array_equal(getattr(got, name), getattr(expected, name), strict=True)
    if density:
        assert sparse_if(X, part - 0.5 / X.size) is X


def test_rows_are_read_fewer_times_where_it_takes_longer():
    shapes = (10, 10), (200, 1_000), (10**5, 10**5)
    assert [most_readings(np.broadcast_to(1.0, shape)) for shape in shapes] == [300_000, 40_000, 1_000]
    assert most_readings(sparse.eye_array(10**5, format="csr")) == 80_000
    assert most_readings(sparse.csr_array((5, 5))) == 300_000
    assert most_readings(sparse.eye_array(10**5, format="csr"), more=10**5) == 40_000


class TestIndices:
    def test_32_bits_are_not_copied(self):
        X = sparse.csr_array(matrix())
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        data, indices, indptr = as_rows(X)
        assert all(
            np.shares_memory(a, b) for a, b in zip((data, indices, indptr), (X.data, X.indices, X.indptr), strict=True)
        )
        assert indices.dtype == indptr.dtype == np.uint32

    @pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array])
    def test_short_ones_are_not_converted_again(self, form):
        """Those of rows taken from the matrix neither; the values are shared, and the input is left alone."""
        X = form(matrix())
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
        short = with_short_indices(X)
        assert with_short_indices(short) is short and np.shares_memory(short.data, X.data)
        assert X.indices.dtype == X.indptr.dtype == np.int64
        for rows in (short, short[[5, 0, 5]]):
            assert np.shares_memory(as_rows(rows)[1], rows.indices) and np.shares_memory(as_rows(rows)[2], rows.indptr)
        assert_array_equal(short.toarray(), X.toarray())

    def test_long_ones_stay_where_columns_need_them(self):
        X = sparse.csr_array(([1.0], ([0], [2**33])), shape=(1, 2**33 + 1))
        assert with_short_indices(X) is X

    @pytest.mark.parametrize(("largest", "expected"), [(2**32 - 1, np.uint32), (2**32, np.uint64)])
    def test_64_bits_are_narrowed_where_they_fit(self, largest, expected):
        X = sparse.csr_array((1, largest + 1), dtype=np.float64)
        X.data, X.indices = np.ones(1), np.array([largest], dtype=np.int64)
        X.indptr = np.array([0, 1], dtype=np.int64)
        indices = as_rows(X)[1]
        assert indices.dtype == expected and indices[0] == largest


class TestReadOnly:
    @pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int32])
    @pytest.mark.parametrize("form", FORMS)
    def test_arrays_are_the_same_memory_without_that_word(self, form, dtype):
        X = form(matrix().astype(dtype))

        def parts(X):
            return [X.data, X.indices, X.indptr] if sparse.issparse(X) else [X]

        for part in parts(X):
            part.flags.writeable = False
        seen = as_writable(X)
        assert type(seen) is type(X) and seen.dtype == dtype and seen.shape == X.shape and (seen != X).sum() == 0
        for old, new in zip(parts(X), parts(seen), strict=True):
            assert new.flags.writeable and np.shares_memory(old, new)
            assert not old.flags.writeable
        assert as_writable(seen) is seen

    def test_memory_lives_as_long_as_it_is_seen(self):
        X = matrix()
        X.flags.writeable = False
        seen, expected = as_writable(X[::2, 1:3]), X[::2, 1:3].copy()
        del X
        gc.collect()
        np.full((60, 7), np.nan)  # takes freed memory
        assert_array_equal(seen, expected)

    def test_what_is_no_matrix_of_numbers_is_left_to_scikit_learn(self):
        frame, texts = pd.DataFrame({"a": [1.0, 2.0]}), np.array([["a"], ["b"]], dtype=object)
        texts.flags.writeable = False
        assert all(as_writable(X) is X for X in (frame, texts, [[1.0]], sparse.coo_array(np.eye(2))))


def test_rows_are_checked():
    X = sparse.csr_array(([3.0, 1.0, -1.0], [1, 0, 1], [0, 3, 3]), shape=(2, 2))
    assert checked_rows(X).toarray().tolist() == [[1.0, 2.0], [0.0, 0.0]]
    assert X.nnz == 3
    with pytest.raises(ValueError, match="squared norms overflow"):
        checked_rows(np.array([[1e200], [0.0]]))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shape", [(1,), (7,), (2, 64), (2, 10, 3)])
def test_zeros_begin_with_a_cache_line(shape, dtype):
    for _ in range(9):  # wherever NumPy's begin
        zeros = zeros_in_lines(*shape, dtype=dtype)
        assert zeros.ctypes.data % 64 == 0
        assert zeros.shape == shape and zeros.flags.c_contiguous and zeros.dtype == dtype and not zeros.any()
        assert len(pickle.dumps(zeros)) < 8 * zeros.size + 300  # of the room around them nothing is kept


@pytest.mark.parametrize(
    "d, in_double, in_single", [(1, 1, 1), (6, 6, 6), (7, 8, 7), (10, 10, 10), (20, 24, 20), (64, 64, 64)]
)
def test_rows_become_whole_cache_lines(d, in_double, in_single):
    """Unless that took more than a quarter as much memory again."""
    assert width_in_lines(np.empty((9, d))) == in_double
    assert width_in_lines(np.empty((9, d), dtype=np.float32)) == in_single


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_one_reading_sees_that_features_are_finite_and_small(storage):
    rows = np.array([[1.0, 1e100], [0.0, -2.0]])
    assert squares_are_small(storage(rows))
    for spoilt in (np.nan, np.inf, -np.inf, 1e200):
        assert not squares_are_small(storage(np.where(rows == -2.0, spoilt, rows)))
    # the squares of single precision may overflow in its own arithmetic, not in double's: left open, then passed
    single = storage(np.array([[1e30], [1.0]], dtype=np.float32))
    assert not squares_are_small(single)
    check_squares(single)


def test_a_sum_of_all_rows_in_single_precision_copies_none():
    X = np.ones((20_000, 50), dtype=np.float32)
    weights = np.full(len(X), 0.1)
    weighted_row_sum(X, weights)  # compiles
    tracemalloc.start()
    try:
        total = weighted_row_sum(X, weights)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert_allclose(total, 2000.0, rtol=1e-10)
    assert peak < X.nbytes


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_filled_up_rows_are_those_that_were_there_and_zeros(form):
    X = np.random.default_rng(0).normal(size=(5, 3))
    filled = filled_up(form(X))
    filled = filled.toarray() if sparse.issparse(filled) else filled
    assert filled.shape == (192, 3)
    assert_array_equal(filled[:5], X)
    assert not filled[5:].any()


def test_data_shorter_than_their_indices_are_damaged():
    X = sparse.csr_array(np.eye(3))
    X.data = X.data[:2]
    with pytest.raises(ValueError, match="damaged"):
        well_formed(X)


@pytest.mark.parametrize("shape", [(1, 1), (7, 30), (1000, 2)])
def test_rows_of_the_largest_features_have_sums_of_squares_that_are_numbers(shape):
    """Also those of their differences: four times as much, and half of what is left."""
    X = np.full(shape, 1.0)
    X *= 0.999 * largest_feature(X)
    assert np.isfinite(8.0 * np.square(X).sum())


def test_features_too_large_by_a_little_are_not_called_small():
    X = np.zeros((100, 30))
    X[3, 4] = 1.01 * largest_feature(X)
    assert not squares_are_small(X)
