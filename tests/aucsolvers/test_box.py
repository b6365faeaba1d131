"""Small quadratic programmes in the unit box: optima against SciPy's, the bound against what is missing."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from aucsolvers import _box as module
from aucsolvers._box import maximise_in_box


def programme(n, rank, seed, pull=1.0):
    """K of such a rank, c whose optimum has variables at 0, at 1 and between, and a start inside the box."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n, rank))
    return rows @ rows.T, pull + 0.3 * np.sqrt(n) * rng.normal(size=n), rng.random(n)


def value(K, c, a):
    return c @ a - 0.5 * a @ K @ a


def solved(K, c, a, tol=0.0):
    a = a.copy()
    u = c - K @ a
    maximise_in_box(K, u, a, tol)
    return a, u


def foreign_value(K, c):
    """The maximum by projected L-BFGS, whose line search gives up at some starts."""
    options = {"maxiter": 100_000, "maxfun": 1_000_000, "ftol": 1e-16, "gtol": 1e-13}

    def lost(a):
        return -value(K, c, a), K @ a - c

    def found(start):
        bounds = [(0.0, 1.0)] * len(c)
        return -minimize(lost, np.full(len(c), start), jac=True, bounds=bounds, options=options).fun

    return max(map(found, (0.0, 0.1, 0.5, 0.9)))


def missing(u, a):
    return (np.maximum(0.0, u) - a * u).sum()


@pytest.mark.parametrize(("n", "rank"), [(1, 1), (7, 7), (30, 12), (64, 30), (200, 20)])
@pytest.mark.parametrize("seed", range(5))
def test_the_optimum_is_scipys(n, rank, seed):
    K, c, start = programme(n, rank, seed)
    a, u = solved(K, c, start, 1e-10)
    assert (a >= 0.0).all() and (a <= 1.0).all()
    assert missing(u, a) <= 1e-10
    assert_allclose(u, c - K @ a, atol=1e-11 * n)
    assert_allclose(value(K, c, a), foreign_value(K, c), rtol=1e-9)


@given(st.integers(1, 25), st.integers(1, 8), st.integers(0, 10_000), st.sampled_from([0.0, 1e-3, 1.0, 100.0]))
@settings(max_examples=60)
def test_what_is_missing_is_at_most_the_bound(n, rank, seed, tol):
    K, c, start = programme(n, rank, seed)
    a, u = solved(K, c, start, tol)
    assert a.min() >= 0.0 and a.max() <= 1.0
    assert value(K, c, a) >= value(K, c, start) - 1e-9  # no move leads down
    assert foreign_value(K, c) <= value(K, c, a) + missing(u, a) + 1e-7


def test_a_tolerance_that_is_met_moves_nothing():
    K, c, start = programme(9, 4, 0)
    a, u = solved(K, c, start, 1e9)
    np.testing.assert_array_equal(a, start)
    np.testing.assert_array_equal(u, c - K @ start)


def test_equal_variables_and_such_without_curvature_are_no_trouble():
    K, c, start = programme(8, 3, 1)
    K, c, start = np.tile(K, (2, 2)), np.tile(c, 2), np.tile(start, 2)
    K[5] = K[:, 5] = 0.0
    c[5] = 1.0
    a, u = solved(K, c, start, 1e-10)
    assert a[5] == 1.0 and missing(u, a) <= 1e-10
    assert_allclose(value(K, c, a), foreign_value(K, c), rtol=1e-9)


@pytest.mark.parametrize("overflowed", [np.inf, np.nan])
def test_what_overflowed_ends_it(overflowed):
    K, c, start = programme(5, 5, 2)
    a, _ = solved(np.full_like(K, overflowed), c, start)
    assert (a >= 0.0).all() and (a <= 1.0).all()


@pytest.mark.parametrize("which", [0, 3, 8])
def test_a_factor_without_a_variable_is_that_of_the_others(which):
    K, _, _ = programme(9, 12, 3)
    factor = module._factored(K, np.arange(9), 9)
    assert_allclose(np.triu(factor).T @ np.triu(factor), K, rtol=1e-7)
    module._drop(factor, 9, which)
    others, upper = np.delete(np.arange(9), which), np.triu(factor[:8, :8])
    assert_allclose(upper.T @ upper, K[np.ix_(others, others)], rtol=1e-7)
    b = np.random.default_rng(0).normal(size=8)
    x = b.copy()
    module._solve_triangles(factor, 8, x)
    assert_allclose(K[np.ix_(others, others)] @ x, b, atol=1e-6)
