"""Products A'B of dense rows, block by block: rows go transposed into a buffer in the cache, column beside column.

Of narrow rows BLAS is far from its peak; the kernels that fill the buffer also centre, weigh and choose the rows, which
BLAS would have to be handed as a copy.
"""

import numpy as np
from scipy import linalg, sparse

from aucsolvers._jit import kernel
from aucsolvers._rows import REDUCE, as_rows

WIDE = 1024  # features: so many rows at most of more are brought into their span
NARROW = 64  # features: of more, BLAS multiplies faster
BLOCK = 1024  # of its rows scaled at a time, so that they are still in the cache when multiplied
NARROW_ROWS, WIDE_ROWS = 120, 520  # a block: four for each feature, but at least and at most so many


def is_wide(X):
    """Tell whether a dense X has so few rows, and so many features, that the coordinates of its span are worth it."""
    return not sparse.issparse(X) and X.shape[1] > WIDE >= X.shape[0]


def in_span(X):
    """Return the rows of a dense X in coordinates of their span, and its orthonormal basis: X = rows basis'.

    A regularised w lies in the span, so that a problem in many features is one in as many as there are rows.
    """
    basis, factor = linalg.qr(X.T.astype(np.float64), mode="economic", overwrite_a=True, check_finite=False)
    return np.ascontiguousarray(factor.T), basis


def gram(X, rows, weights):
    """Return sum_k weights_k x_i x_i' over i = rows[k], weights > 0; only its lower triangle is right.

    A CSR X must have the columns of each row in order.
    """
    total = np.zeros((X.shape[1], X.shape[1]))
    if sparse.issparse(X):
        _add_gram(as_rows(X), rows, weights, total)
        return total
    if X.shape[1] <= NARROW:
        _add_narrow_gram(X, rows, weights, total)
        return total
    roots, room = np.sqrt(weights), np.empty((min(BLOCK, len(rows)), X.shape[1]))
    for start in range(0, len(rows), BLOCK):
        block = slice(start, start + BLOCK)
        scaled = room[: len(rows[block])]
        _scale_rows(X, rows[block], roots[block], scaled)
        total += np.dot(scaled.T, scaled)  # not @, which would hold Python's lock
    return total


@kernel()
def _add_gram(csr, rows, weights, total):
    data, indices, indptr = csr
    for k in range(rows.size):
        start, stop = indptr[rows[k]], indptr[rows[k] + np.uint32(1)]
        for e in range(start, stop):
            scaled, target = weights[k] * data[e], total[indices[e]]
            for g in range(start, e + np.uint32(1)):
                target[indices[g]] += scaled * data[g]


@kernel()
def _scale_rows(rows, chosen, factors, scaled):
    for k in range(chosen.size):
        for f in range(rows.shape[1]):
            scaled[k, f] = factors[k] * rows[chosen[k], f]


@kernel()
def _add_narrow_gram(X, rows, weights, total):
    block, products = room_for(rows.size, X.shape[1])
    add_squares(X, rows, weights, block, products)
    for f in range(total.shape[0]):
        for g in range(f + 1):
            total[f, g] += products[f, g]


@kernel()
def room_for(n, d):
    """Return (block, total): room for up to n rows of d features, one a column, and for their products, both zero.

    Features are filled up to a multiple of four, as the products are computed four by four.
    """
    size = 8 * (max(NARROW_ROWS, min(4 * d, WIDE_ROWS)) // 8 | 1)  # an odd number of cache lines: else they collide
    width = -(-d // 4) * 4
    return np.zeros((width, min(size, 8 * (n // 8 + 1)))), np.zeros((width, width))


# Inlined: a call may resolve to one copy of a function in the process that compiles it and to another, optimised apart,
# in one that loads it from the cache: other last bits.


@kernel(forceinline=True)
def add_lower(block, count, total):
    """Add the products of the block's rows with the first ``count`` of them to the lower triangle of total."""
    for f in range(0, block.shape[0], 4):
        for g in range(0, min(f + 4, count), 4):
            _add_sixteen(block, f, block, g, total)


@kernel(fastmath={"contract"}, forceinline=True)
def add_squares(rows, which, weights, block, total):
    """Add sum_j weights[j] xx' to the lower triangle of total, x being rows[which[j]]."""
    size = block.shape[1]
    for start in range(0, which.size, size):
        if start + size > which.size:
            block[:] = 0.0
        for i in range(min(size, which.size - start)):
            row, root = rows[which[start + i]], np.sqrt(weights[start + i])
            for f in range(row.size):
                block[f, i] = root * row[f]
        add_lower(block, block.shape[0], total)


@kernel(forceinline=True)
def add_both(block, other, total):
    """Add block @ other.T and its transpose to the lower triangle of total."""
    for f in range(0, block.shape[0], 4):
        for g in range(0, f + 4, 4):
            _add_sixteen(block, f, other, g, total)
            _add_sixteen(other, f, block, g, total)


@kernel(fastmath=REDUCE, forceinline=True)
def _add_sixteen(block, f, other, g, total):
    """Add the products of four rows of a block, from f on, with four of the other: as many as the registers hold."""
    a0, a1, a2, a3 = block[f], block[f + 1], block[f + 2], block[f + 3]
    b0, b1, b2, b3 = other[g], other[g + 1], other[g + 2], other[g + 3]
    s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
    s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = 0.0
    for i in range(a0.size):
        x0, x1, x2, x3 = a0[i], a1[i], a2[i], a3[i]
        y0, y1, y2, y3 = b0[i], b1[i], b2[i], b3[i]
        s00, s01, s02, s03 = s00 + x0 * y0, s01 + x0 * y1, s02 + x0 * y2, s03 + x0 * y3
        s10, s11, s12, s13 = s10 + x1 * y0, s11 + x1 * y1, s12 + x1 * y2, s13 + x1 * y3
        s20, s21, s22, s23 = s20 + x2 * y0, s21 + x2 * y1, s22 + x2 * y2, s23 + x2 * y3
        s30, s31, s32, s33 = s30 + x3 * y0, s31 + x3 * y1, s32 + x3 * y2, s33 + x3 * y3
    for k, sums in enumerate(((s00, s01, s02, s03), (s10, s11, s12, s13), (s20, s21, s22, s23), (s30, s31, s32, s33))):
        total[f + k, g] += sums[0]
        total[f + k, g + 1] += sums[1]
        total[f + k, g + 2] += sums[2]
        total[f + k, g + 3] += sums[3]
