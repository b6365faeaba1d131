"""Weighted sums of rows against rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from aucsolvers._twofold import weighted_difference

NUMBERS = st.floats(-1e150, 1e150, allow_subnormal=False)
WEIGHTS = st.floats(0.0, 2.0**27)


def exact_difference(X, of_X, others, of_others):
    """Return the difference of the two sums, and the sum of all terms' absolute values, as fractions."""
    total, size = [Fraction(0)] * X.shape[1], Fraction(0)
    for rows, (mains, rests), sign in ((X, of_X, 1), (others, of_others, -1)):
        for row, main, rest in zip(rows.tolist(), mains, rests, strict=True):
            terms = [sign * (Fraction(main) + Fraction(rest)) * Fraction(x) for x in row]
            total = [t + term for t, term in zip(total, terms, strict=True)]
            size += sum(map(abs, terms))
    return total, size


@given(st.data(), st.integers(1, 4), st.integers(1, 4), st.sampled_from([np.float64, np.float32]))
def test_difference_is_rounded_once(data, n, m, dtype):
    """Up to what twice the digits leave of its terms, and to what no number is small enough for."""
    numbers = NUMBERS if dtype is np.float64 else st.floats(-(2.0**100), 2.0**100, width=32, allow_subnormal=False)
    X, others = (np.array(data.draw(st.lists(numbers, min_size=2 * k, max_size=2 * k))) for k in (n, m))
    X, others = X.reshape(n, 2).astype(dtype), others.reshape(m, 2).astype(dtype)
    mains = [np.array(data.draw(st.lists(WEIGHTS, min_size=k, max_size=k))) for k in (n, m)]
    rests = [2.0**-27 * main for main in mains]
    of_X, of_others = zip(mains, rests, strict=True)
    exact, size = exact_difference(X, of_X, others, of_others)
    for form in (np.asarray, sparse.csr_array):
        found = weighted_difference(form(X), of_X, form(others), of_others)
        for f, e in zip(found.tolist(), exact, strict=True):
            # the rests are summed as plain numbers are
            allowed = abs(e) / 2**53 + (n + m) * size / 2**78 + Fraction(1e-300)
            assert abs(Fraction(f) - e) <= allowed


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_what_is_equal_in_both_leaves_nothing(form):
    rows = np.random.default_rng(0).normal(size=(30, 5)) * 1e8
    ones, small = np.ones(30), np.zeros(30)
    one_more = np.vstack([rows, np.full(5, 1e-8)])
    of_more = np.append(ones, 1.0), np.append(small, 0.0)
    found = weighted_difference(form(one_more), of_more, form(rows), (ones, small))
    np.testing.assert_allclose(found, 1e-8, rtol=1e-13)
