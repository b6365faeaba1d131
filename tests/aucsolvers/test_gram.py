"""Products of rows, and of blocks of them four by four, against numpy's."""

import numpy as np
import pytest
from scipy import sparse

from aucsolvers._gram import BLOCK, NARROW, add_both, add_lower, gram, room_for

FORMS = [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("d", [1, 6, NARROW, NARROW + 1])
@pytest.mark.parametrize("count", [0, 1, 40, BLOCK + 5])
def test_gram_of_some_rows(form, d, count):
    """More rows than one block holds, repeated rows included: each counts with its own weight."""
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(60, d)) * (rng.random((60, d)) < 0.5)).astype(np.float32).astype(np.float64)
    rows, weights = rng.integers(60, size=count).astype(np.uint32), rng.random(count)
    expected = np.tril(X[rows].T @ (weights[:, None] * X[rows]))
    np.testing.assert_allclose(np.tril(gram(form(X), rows, weights)), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("n", [0, 1, 8, 100, 5000])
@pytest.mark.parametrize("d", [1, 4, 10, 131])
def test_products_are_added_to_the_lower_triangle(n, d):
    rng = np.random.default_rng(0)
    block, total = room_for(n, d)
    assert block.shape[0] == total.shape[0] == total.shape[1] >= d and not block.any() and not total.any()
    block[:d], other = rng.normal(size=(d, block.shape[1])), rng.normal(size=block.shape)
    add_lower(block, d, total)
    np.testing.assert_allclose(np.tril(total), np.tril(block @ block.T), rtol=1e-12, atol=1e-12)
    add_both(block, other, total)
    expected = block @ block.T + block @ other.T + other @ block.T
    np.testing.assert_allclose(np.tril(total), np.tril(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("d", "count"), [(4, 4), (10, 4), (10, 8), (18, 16), (18, 5)])
def test_products_with_further_rows_may_be_left_out(d, count):
    block, total = room_for(50, d)
    block[:] = np.random.default_rng(0).normal(size=block.shape)
    add_lower(block, count, total)
    expected = np.tril(block @ block.T)
    np.testing.assert_allclose(np.tril(total)[:, :count], expected[:, :count], rtol=1e-12, atol=1e-12)
    assert not total[:, -(-count // 4) * 4 :].any()


@pytest.mark.parametrize("d", [1, 30, 31, 64, 128, 1000, 4096])
def test_a_block_is_an_odd_number_of_cache_lines_wide(d):
    # columns of a power of two would share the cache's sets
    assert room_for(10**6, d)[0].shape[1] % 16 == 8
