"""Operations on differences of rows against numpy's, in all storages and precisions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.testing import assert_allclose
from scipy import sparse

from aucsolvers._pairs import add_difference, dot_difference, measure_difference, squared_distance
from aucsolvers._prefetch import prefetch_row
from aucsolvers._rows import as_rows


@njit
def all_of(rows, i, others, j, sign, w):
    prefetch_row(rows, i)
    before = dot_difference(rows, i, others, j, w), squared_distance(rows, i, others, j)
    measured = measure_difference(rows, i, others, j, sign, w)
    add_difference(rows, i, others, j, 0.5, w)
    return before, measured


rows_of_four = st.lists(st.sampled_from([0.0, 0.0, 1.0, -2.5, 1e4]), min_size=4, max_size=4)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
@settings(deadline=None, max_examples=60)
@given(left=rows_of_four, right=rows_of_four, sign=st.sampled_from([-1.0, 1.0]))
def test_are_those_of_the_formed_difference(storage, dtype, left, right, sign):
    A, B = np.array([[9.0] * 4, left], dtype=dtype), np.array([right, [7.0] * 4], dtype=dtype)
    w = np.array([0.5, -1.0, 0.0, 2.0])
    z = A[1].astype(float) - B[0]
    margin = sign * w @ z
    expected = w + 0.5 * z
    before, measured = all_of(as_rows(storage(A)), np.uint32(1), as_rows(storage(B)), np.uint32(0), sign, w)
    assert_allclose(before, [sign * margin, z @ z], rtol=1e-12)
    assert_allclose(measured, [margin, z @ z if margin < 1 else 0.0], rtol=1e-12)
    assert_allclose(w, expected, rtol=1e-12)


@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_identical_rows_far_from_zero_have_distance_zero(storage):
    rows = as_rows(storage(np.full((2, 5), 1e8 + 1 / 3)))
    assert all_of(rows, np.uint32(0), rows, np.uint32(1), 1.0, np.ones(5))[0][1] == 0.0
