"""Differences of weighted sums of rows in twice a double's precision: what cancels leaves 1e-31 of itself at most.

A sum is kept as ``total + low``, low being what rounding has taken from total: of a sum of two numbers and of a product
that is a number of its own (Dekker 1971). None of the kernels may re-order or contract.
"""

import numpy as np
from scipy import sparse

from aucsolvers._jit import kernel
from aucsolvers._rows import as_rows

SPLITTER = 2.0**27 + 1.0  # times a number, in whose upper half it leaves 26 bits


def weighted_difference(X, of_X, others, of_others):
    """Return sum_i a_i x_i - sum_j b_j z_j over rows of X and of others, dense or CSR both; a and b are twofold.

    A twofold number is (main, rest), arrays of which the second is far below the first.
    """
    total, low = np.zeros((2, X.shape[1]))
    add = _add_sparse if sparse.issparse(X) else _add_dense
    add(as_rows(X), *of_X, 1.0, total, low)
    add(as_rows(others), *of_others, -1.0, total, low)
    return total + low


@kernel()
def _add_dense(rows, weights, rests, sign, total, low):
    for i in range(weights.size):
        weight, rest = sign * weights[i], sign * rests[i]
        high, small = _halves(weight)
        for f in range(rows.shape[1]):
            x = np.float64(rows[i, f])
            total[f], lost = _plus_product(total[f], weight, high, small, x)
            low[f] += lost + rest * x


@kernel()
def _add_sparse(csr, weights, rests, sign, total, low):
    data, indices, indptr = csr
    for i in range(np.uint32(weights.size)):
        weight, rest = sign * weights[i], sign * rests[i]
        high, small = _halves(weight)
        for place in range(indptr[i], indptr[i + np.uint32(1)]):
            f, x = indices[place], np.float64(data[place])
            total[f], lost = _plus_product(total[f], weight, high, small, x)
            low[f] += lost + rest * x


@kernel(forceinline=True)
def _halves(x):
    scaled = SPLITTER * x
    high = scaled - (scaled - x)
    return high, x - high


@kernel(forceinline=True)
def _plus_product(total, weight, high, small, x):
    """Return total + weight x, rounded, and what is missing; high and small are the weight's halves."""
    x_high, x_small = _halves(x)
    product = weight * x
    lost = ((high * x_high - product) + high * x_small + small * x_high) + small * x_small
    summed = total + product
    added = summed - total
    return summed, lost + ((total - (summed - added)) + (product - added))
