"""Differences of two rows as the kernels see them, beside the single rows of ``_rows``: z = x_i - x_j, never formed.

The two rows may stand in one matrix or in two of the same storage; CSR rows have sorted, unique columns.
"""

import numpy as np
from numba import types
from numba.extending import overload

from aucsolvers._jit import kernel
from aucsolvers._rows import REDUCE, dot

# Only compiled code calls these five. Sums and stores never share a loop, as in ``_rows`` and for its reasons.


def dot_difference(rows, i, others, j, w):
    """Return w'(x_i - x_j)."""
    raise NotImplementedError("compiled code only")


def squared_distance(rows, i, others, j):
    """Return ||x_i - x_j||^2: exactly 0 for identical rows, and without cancellation far from 0."""
    raise NotImplementedError("compiled code only")


def measure_difference(rows, i, others, j, scale, w):
    """Return the margin scale w'(x_i - x_j) and ||x_i - x_j||^2, 0 for the latter where the margin is 1 or more."""
    raise NotImplementedError("compiled code only")


def add_difference(rows, i, others, j, step, w):
    """w += step * (x_i - x_j)."""
    raise NotImplementedError("compiled code only")


@overload(dot_difference, jit_options={"nogil": True, "fastmath": REDUCE})
def _compile_dot_difference(rows, i, others, j, w):
    def dense(rows, i, others, j, w):
        total = 0.0
        for k in range(rows.shape[1]):
            total += w[k] * (np.float64(rows[i, k]) - others[j, k])
        return total

    def csr(rows, i, others, j, w):
        return dot(rows, i, w) - dot(others, j, w)

    return dense if isinstance(rows, types.Array) else csr


@overload(squared_distance, jit_options={"nogil": True, "fastmath": REDUCE})
def _compile_squared_distance(rows, i, others, j):
    def dense(rows, i, others, j):
        total = 0.0
        for k in range(rows.shape[1]):
            z = np.float64(rows[i, k]) - others[j, k]
            total += z * z
        return total

    def csr(rows, i, others, j):
        # a merge of the two rows: it costs what x_i'x_j would, and ||x_i||^2 + ||x_j||^2 - 2 x_i'x_j would cancel
        data, indices, indptr = rows
        other_data, other_indices, other_indptr = others
        p, p_end = indptr[i], indptr[i + np.uint32(1)]
        q, q_end = other_indptr[j], other_indptr[j + np.uint32(1)]
        total = 0.0
        while p < p_end and q < q_end:
            _, z, p, q = _next_entry(data, indices, p, other_data, other_indices, q)
            total += z * z
        for rest in range(p, p_end):
            total += np.float64(data[rest]) * data[rest]
        for rest in range(q, q_end):
            total += np.float64(other_data[rest]) * other_data[rest]
        return total

    return dense if isinstance(rows, types.Array) else csr


@overload(measure_difference, jit_options={"nogil": True, "fastmath": REDUCE})
def _compile_measure_difference(rows, i, others, j, scale, w):
    def dense(rows, i, others, j, scale, w):
        # both in one loop: the rows are loaded once
        product = square = 0.0
        for k in range(rows.shape[1]):
            z = np.float64(rows[i, k]) - others[j, k]
            product += w[k] * z
            square += z * z
        return scale * product, square if scale * product < 1.0 else 0.0

    def csr(rows, i, others, j, scale, w):
        # the merge is what costs: not where nobody asks for it
        margin = scale * dot_difference(rows, i, others, j, w)
        return margin, squared_distance(rows, i, others, j) if margin < 1.0 else 0.0

    return dense if isinstance(rows, types.Array) else csr


@overload(add_difference, jit_options={"nogil": True, "fastmath": {"contract"}})
def _compile_add_difference(rows, i, others, j, step, w):
    def dense(rows, i, others, j, step, w):
        for k in range(rows.shape[1]):
            w[k] += step * (np.float64(rows[i, k]) - others[j, k])

    def csr(rows, i, others, j, step, w):
        # a merge as well: what is equal in both rows, however large, leaves no rounding in w
        data, indices, indptr = rows
        other_data, other_indices, other_indptr = others
        p, p_end = indptr[i], indptr[i + np.uint32(1)]
        q, q_end = other_indptr[j], other_indptr[j + np.uint32(1)]
        while p < p_end and q < q_end:
            column, z, p, q = _next_entry(data, indices, p, other_data, other_indices, q)
            w[column] += step * z
        for rest in range(p, p_end):
            w[indices[rest]] += step * data[rest]
        for rest in range(q, q_end):
            w[other_indices[rest]] -= step * other_data[rest]

    return dense if isinstance(rows, types.Array) else csr


@kernel(forceinline=True)
def _next_entry(data, indices, p, other_data, other_indices, q):
    """Return column and value of the first entry from places p and q on of one sorted row less another, and the next
    places.
    """
    column, other_column, z = indices[p], other_indices[q], 0.0
    if column <= other_column:
        z += data[p]
        p += np.uint32(1)
    if other_column <= column:
        z -= other_data[q]
        q += np.uint32(1)
    return min(column, other_column), z, p, q
