"""Rows of a matrix as the kernels see them: dense or CSR, float64 or float32, one name for each operation.

Values are converted to float64 one by one as they are used, so a float32 matrix is never copied whole, and a row of
float32 gives what the same numbers in float64 would give, up to the order of the sums.
"""

import copy

import numpy as np
from numba import types
from numba.extending import overload
from scipy import sparse

from aucsolvers._jit import LONGEST_CALL, kernel
from aucsolvers._prefetch import AHEAD, LINE, prefetch_row

FLOATS = (np.float64, np.float32)  # what solvers take as it is; anything else becomes the first

# Sums may be re-ordered (SIMD lanes), multiply-adds fused and signed zeros ignored; nan and inf keep their meaning.
REDUCE = {"reassoc", "contract", "nsz"}

FULL = 192  # rows: a multiple of every tile that BLAS computes matrix products in (4, 6, 8, 12, 16, 24, 32, 48)

ENTRIES_READ, LEAST_READINGS, MOST_READINGS = 8e9, 1_000, 300_000  # some seconds

MOST_PICKED = 0.6  # of all rows: of more, BLAS adds up all in less time

LONG_ROW = 32  # stored entries: a product of one that long is summed in four parts


def as_rows(X):
    """Return X as the kernels take it: the array, or (data, indices, indptr) with unsigned indices.

    A signed index costs numba a test for negative (wrap-around) values at each use: half the time of a sparse visit.
    """
    return (X.data, _unsigned(X.indices), _unsigned(X.indptr)) if sparse.issparse(X) else X


def _unsigned(indices):
    """Return indices, none negative, as uint32, or uint64 where they do not fit; without a copy if they are int32."""
    if indices.itemsize == 4:
        return indices.view(np.uint32)
    return indices.astype(np.uint32 if indices.max(initial=0) < 2**32 else np.uint64)


def with_short_indices(X):
    """Return the CSR X with indices that ``as_rows`` takes as they are, nor converts those of rows taken from X."""
    if X.indices.itemsize == X.indptr.itemsize == 4 or max(X.nnz, X.shape[1]) >= 2**31:
        return X
    return sparse.csr_array((X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape)


def refuse_polars(X):
    """Refuse a frame that imbalanced-learn takes for pandas' own."""
    if type(X).__module__.partition(".")[0] == "polars":
        raise TypeError("Expected an array, a sparse matrix or a pandas frame, got one of polars. Pass X.to_pandas().")


def well_formed(X):
    """Return X, a compressed sparse one without stored values that belong to no row; refuse indices that lead out of X.

    SciPy's constructors check few of them, and kernels would read and write foreign memory.
    """
    if not (sparse.issparse(X) and X.format in ("csr", "csc")):
        return X
    lines, length = X.shape if X.format == "csr" else X.shape[::-1]
    starts = X.indptr
    rises = len(starts) == lines + 1 and starts[0] == 0 and not (starts[1:] < starts[:-1]).any()
    if not (rises and starts[-1] <= min(len(X.indices), len(X.data))):
        raise ValueError(
            f"Expected indptr of {lines + 1} numbers that rise from 0 to at most {len(X.indices)}, the stored entries, "
            "got another one. The sparse matrix is damaged: make it again."
        )
    stored = int(starts[-1])
    unsigned = X.indices[:stored].view(f"u{X.indices.itemsize}")  # as which negative ones are large
    if int(unsigned.max(initial=0)) >= max(length, 1):
        raise ValueError(
            f"Expected indices from 0 to {length - 1}, got {X.indices[unsigned.argmax()]}. The sparse matrix is "
            "damaged: make it again."
        )
    if stored < max(len(X.indices), len(X.data)):
        return type(X)((X.data[:stored], X.indices[:stored], starts), shape=X.shape)
    return X


def as_writable(X):
    """Return X, dense or CSR, in arrays that NumPy does not call read-only, without a copy; anything else as it is.

    Kernels read rows and never write them, but numba compiles a kernel once more, for seconds, for read-only arrays,
    such as those of memory-mapped files (joblib's workers) and of Arrow's columns.
    """
    if sparse.issparse(X) and X.format == "csr":
        parts = {name: getattr(X, name) for name in ("data", "indices", "indptr")}
        if not all(part.flags.writeable for part in parts.values()):
            X = copy.copy(X)
            vars(X).update((name, as_writable(part)) for name, part in parts.items())
    elif type(X) is np.ndarray and X.dtype.kind in "fiu" and not X.flags.writeable:
        return np.asarray(_Writable(X))
    return X


def own_arrays(state):
    """Replace arrays of a state that may not be changed, of a model that was mapped from a file, by copies."""
    for name, value in state.items():
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            state[name] = value.copy()


class _Writable:
    """The memory of an array, which stays alive with it, as NumPy's array interface describes it."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = array.__array_interface__ | {"data": (array.ctypes.data, False)}


def checked_rows(X):
    """Return X with each entry stored once, which squared norms rely on; refuse features whose squares overflow."""
    X = stored_once(X)
    check_squares(X)
    return X


def sparse_if(X, most):
    """Return the dense X as CSR if at most such a part of its values are not 0, else X itself.

    In an eighth of the time of SciPy's way, which lists rows and columns of all values first.
    """
    data, indices, row_ends = _nonzeros(X, int(min(most * X.size, np.iinfo(np.int32).max)))
    return sparse.csr_array((data, indices, row_ends), shape=X.shape) if len(row_ends) else X


def stored_once(X):
    """Return X, a CSR one with each entry stored in one part."""
    if sparse.issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def check_squares(X):
    """Refuse features whose squared norms overflow: no step length or certificate could be computed from them."""
    if squares_are_small(X):
        return
    values, limit = _values(X), largest_feature(X)
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    if largest > limit:
        raise ValueError(
            f"Expected features of magnitude at most {limit:.1e}, got {largest:.1e}: squared norms overflow. "
            "Rescale the features, for example with StandardScaler."
        )


def squares_are_small(X):
    """Return whether no entry is nan, infinite or too large for ``check_squares``, seen in one reading of them.

    False leaves it open. (The sum is a kernel's, not BLAS's, which wakes its threads and waits for them where all
    cores are busy.)
    """
    values = _values(X)
    return inner(values, values) <= largest_feature(X) ** 2


def largest_feature(X):
    """Return the largest magnitude that ``check_squares`` lets pass."""
    return np.sqrt(np.finfo(np.float64).max / (8.0 * X.shape[0] * X.shape[1]))


def _values(X):
    return as_writable(X.data if sparse.issparse(X) else X.reshape(-1))


def row_scores(X, w):
    """Return X @ w such that a row's score does not depend on which rows come with it, to the last bit.

    BLAS adds up a row differently by its place in the matrix; a model that is served row by row, or scores a
    file in chunks, must answer as it did on the whole.
    """
    if X.shape[1] != len(w):  # kernels read on
        raise ValueError(f"Expected rows of {len(w)} features, as there are weights, got {X.shape[1]}.")
    scores = np.empty(X.shape[0])
    _score_rows(as_rows(X), as_writable(np.ascontiguousarray(w)), scores)
    return scores


def zeros_in_lines(*shape, dtype=np.float64):
    """Return zeros that begin where a cache line does.

    NumPy's may begin anywhere in one. What vector instructions read or write then straddles two lines each time, which
    makes loops over d = 64 features take up to half as long again, in one process and not in the next.
    """
    size, item = int(np.prod(shape)), np.dtype(dtype).itemsize
    room = np.zeros(size + LINE // item, dtype)
    start = -room.ctypes.data % LINE // item
    return room[start : start + size].reshape(shape)


def width_in_lines(X):
    """Return how many columns, the last ones zeros, make the dense rows of X whole cache lines.

    Loops over 30 features take a third longer than over 32, which leave no rest. Where zeros took more than a quarter
    as much memory again, the columns stay as they are: reading them would cost as much.
    """
    width = -(-X.shape[1] * X.itemsize // LINE) * LINE // X.itemsize
    return width if 4 * width <= 5 * X.shape[1] else X.shape[1]


def filled_up(X):
    """Return X, dense or CSR, with rows of zeros below, up to the next multiple of FULL.

    BLAS computes full tiles of a matrix product in another way than those at its edge: filled up, a row's product is
    the same to the last bit whichever rows come with it (on one thread: several divide a product where they like).
    """
    missing = -X.shape[0] % FULL
    if not missing:
        return X
    if sparse.issparse(X):
        row_ends = np.pad(X.indptr, (0, missing), mode="edge")
        return sparse.csr_array((X.data, X.indices, row_ends), shape=(X.shape[0] + missing, X.shape[1]))
    return np.pad(X, ((0, missing), (0, 0)))


def weighted_row_sum(X, weights):
    """Return X' @ weights, summed in float64."""
    weights, total = np.asarray(weights, dtype=np.float64), np.zeros(X.shape[1])
    if sparse.issparse(X):
        _add_sparse_rows(as_rows(X), np.arange(X.shape[0], dtype=np.uint32), weights, total)
        return total
    if not _add_nonzero(X, weights, MOST_PICKED if X.dtype == np.float64 else 1.0, total):
        return np.dot(X.T, weights)  # @ would hold Python's lock all along, as the result is short
    return total


def busy_columns_first(X):
    """Return the CSR X with its columns renumbered, most entries first, and the new number of each old column.

    In wide sparse data a few columns hold most entries: side by side, their weights stay in the nearest cache. Entries
    keep their order in each row, so sums over a row come out the same to the last bit.
    """
    counts = np.zeros(X.shape[1], dtype=np.int64)
    _, indices, _ = as_rows(X)
    _count(indices, counts)
    number = np.empty(X.shape[1], dtype=X.indices.dtype)
    number[np.argsort(-counts)] = np.arange(X.shape[1])
    renumbered = np.empty_like(X.indices)
    _renumber(indices, number, renumbered)
    return sparse.csr_array((X.data, renumbered, X.indptr), shape=X.shape), number


def row_products(X):
    """Return X @ X.T as a dense matrix; a CSR X must store an entry once."""
    if not sparse.issparse(X):
        return X @ X.T
    products = np.zeros((X.shape[0], X.shape[0]))
    add_row_products(X, products)
    _mirror(products)
    return products


def add_row_products(X, products):
    """Add X @ X.T to the lower triangle of ``products``, which may have further rows and columns; X is CSR."""
    columns = X.tocsc()
    entries = np.diff(columns.indptr).astype(np.float64)
    size = max(1, int(LONGEST_CALL * X.shape[0] / max(1.0, entries @ entries)))
    for start in range(0, X.shape[0], size):
        _multiply_rows(as_rows(X), as_rows(columns), np.uint32(start), min(start + size, X.shape[0]), products)


def squared_norms(X):
    """Return ||x_i||^2 of every row, summed in float64; a CSR X must not store an entry in two parts."""
    norms = np.empty(X.shape[0])
    _measure_rows(as_rows(X), norms)
    return norms


@kernel()
def _score_rows(rows, w, scores):
    for i in range(np.uint32(scores.size)):
        scores[i] = dot(rows, i, w)


@kernel()
def _nonzeros(X, most):
    """Return the CSR arrays of the dense X, or empty ones if more than ``most`` of its values are not 0."""
    n, d = X.shape
    row_ends = np.zeros(n + 1, np.int32)
    count = 0
    for i in range(n):
        found = 0
        for j in range(d):
            found += X[i, j] != 0
        count += found
        if count > most:
            return np.empty(0, X.dtype), np.empty(0, np.int32), np.empty(0, np.int32)
        row_ends[i + 1] = count
    # each value is written, and the next one over it if it is 0: without branches, which would be guesses
    data, indices = np.empty(count + 1, X.dtype), np.empty(count + 1, np.int32)
    place = 0
    for i in range(n):
        for j in range(d):
            data[place], indices[place] = X[i, j], j
            place += X[i, j] != 0
    return data[:count], indices[:count], row_ends


@kernel()
def _add_nonzero(rows, weights, most, total):
    """Add the rows whose weights are not 0 to total, unless they are more than such a part; tell whether it was done.

    Numbers are written for each row, where the next one belongs: a choice would be mispredicted.
    """
    used = 0
    for i in range(weights.size):
        used += np.int64(weights[i] != 0.0)
    if used > most * weights.size:
        return False
    count, numbers, picked = np.uint32(0), np.empty(used + 1, dtype=np.uint32), np.empty(used + 1)
    for i in range(np.uint32(weights.size)):
        numbers[count], picked[count] = i, weights[i]
        count += np.uint32(weights[i] != 0.0)
    _add_dense_rows(rows, numbers[:used], picked[:used], total)
    return True


@kernel()
def _add_sparse_rows(csr, visits, weights, total):
    add_rows(csr, visits, weights, total)


@kernel()
def _add_dense_rows(rows, visits, weights, total):
    """Do what ``add_rows`` does, with rows asked for ahead: some may be left out, which hides the next one."""
    last, whole = visits.size - 1, visits.size - visits.size % 4
    for k in range(0, whole, 4):
        for q in range(k + AHEAD, k + AHEAD + 4):
            prefetch_row(rows, visits[min(q, last)])
        a, b, c, d = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
        add_four(rows, visits[k], visits[k + 1], visits[k + 2], visits[k + 3], a, b, c, d, total)
    for k in range(whole, visits.size):
        add(rows, visits[k], weights[k], total)


@kernel()
def _count(indices, counts):
    for k in range(indices.size):
        counts[indices[k]] += 1


@kernel()
def _renumber(indices, number, renumbered):
    for k in range(indices.size):
        renumbered[k] = number[indices[k]]


@kernel()
def _multiply_rows(csr, csc, first, stop, products):
    """Add x_i'x_j of rows first <= i < stop and j <= i to ``products``, by columns in which row i has an entry."""
    data, indices, indptr = csr
    values, rows, starts = csc
    for i in range(first, np.uint32(stop)):
        target = products[i]
        for e in range(indptr[i], indptr[i + np.uint32(1)]):
            column, value = indices[e], np.float64(data[e])
            for g in range(starts[column], starts[column + np.uint32(1)]):
                if rows[g] > i:
                    break  # the rows of a column are in order
                target[rows[g]] += value * values[g]


@kernel()
def _mirror(lower):
    """Set the upper triangle to the lower one, by blocks that stay in the cache."""
    n, size = len(lower), 32
    for top in range(0, n, size):
        for left in range(0, top + 1, size):
            for i in range(top, min(top + size, n)):
                for j in range(left, min(left + size, i)):
                    lower[j, i] = lower[i, j]


@kernel()
def _measure_rows(rows, norms):
    for i in range(np.uint32(norms.size)):
        norms[i] = squared_norm(rows, i)


# Of vectors, for drivers too: BLAS puts several threads to work on long ones, which wait for each other on busy cores.


@kernel(fastmath=REDUCE)
def inner(a, b):
    """Return a'b of two vectors."""
    total = 0.0
    for f in range(a.shape[0]):
        total += a[f] * b[f]
    return total


@kernel()
def copy_into(target, other):
    """target[:] = other, which numba would compile for five seconds, most of them for its error's words."""
    for f in range(target.shape[0]):
        target[f] = other[f]


@kernel(fastmath={"contract"}, forceinline=True)  # one product, one sum: there is one way to fuse them
def add_scaled(target, factor, other):
    """target += factor * other"""
    for f in range(target.shape[0]):
        target[f] += factor * other[f]


def most_readings(rows, more=0):
    """Return how often a solver that is not told may read all rows: ENTRIES_READ, but within limits.

    Each time it reads ``more`` numbers besides.
    """
    entries = (rows.nnz if sparse.issparse(rows) else rows.size) + more
    return int(min(max(ENTRIES_READ / max(entries, 1), LEAST_READINGS), MOST_READINGS))


# Row operations --------------------------------------------------------------------------------------------------
#
# Only compiled code calls them, with the implementation for the type of ``rows``. Sums and stores never share a loop:
# the compiler would vectorise it under a test that the arrays do not overlap, which it makes coarse, and sum in another
# order where two happen to lie close; bits would then depend on addresses.


def dot(rows, i, w):
    """Return x_i'w."""
    raise NotImplementedError("compiled code only")


def dot_four(rows, i, j, p, q, w):
    """Return x_i'w, x_j'w, x_p'w and x_q'w: of short dense rows in half the time, for w is read once."""
    raise NotImplementedError("compiled code only")


def add(rows, i, step, w):
    """w += step * x_i."""
    raise NotImplementedError("compiled code only")


def add_four(rows, i, j, p, q, a, b, c, d, w):
    """w += a x_i + b x_j + c x_p + d x_q: to the last bit as one ``add`` after the other."""
    raise NotImplementedError("compiled code only")


def add_twice(rows, i, step, w, other_step, v):
    """w += step * x_i, v += other_step * x_i."""
    raise NotImplementedError("compiled code only")


def leave(rows, i, centre, sign, u):
    """u = sign (x_i - centre), sign being 1 or -1; dense whatever the rows are."""
    raise NotImplementedError("compiled code only")


def add_rows(rows, visits, weights, total):
    """total += weights_k x_i for each i = visits[k], uint32: to the last bit as one ``add`` after the other."""
    raise NotImplementedError("compiled code only")


def squared_norm(rows, i):
    """Return ||x_i||^2."""
    raise NotImplementedError("compiled code only")


def squared_norm_about(rows, i, centre, square):
    """Return ||x_i - centre||^2; ``square`` is ||centre||^2."""
    raise NotImplementedError("compiled code only")


@overload(dot, jit_options={"nogil": True, "fastmath": REDUCE, "forceinline": True})
def _compile_dot(rows, i, w):
    def dense(rows, i, w):
        total = 0.0
        for k in range(rows.shape[1]):
            total += rows[i, k] * w[k]
        return total

    def csr(rows, i, w):
        return _sparse_dot(rows, i, w)

    return dense if isinstance(rows, types.Array) else csr


@overload(dot_four, jit_options={"nogil": True, "fastmath": REDUCE, "forceinline": True})
def _compile_dot_four(rows, i, j, p, q, w):
    def dense(rows, i, j, p, q, w):
        of_i = of_j = of_p = of_q = 0.0
        for f in range(rows.shape[1]):
            of_i += rows[i, f] * w[f]
            of_j += rows[j, f] * w[f]
            of_p += rows[p, f] * w[f]
            of_q += rows[q, f] * w[f]
        return of_i, of_j, of_p, of_q

    def csr(rows, i, j, p, q, w):
        return dot(rows, i, w), dot(rows, j, w), dot(rows, p, w), dot(rows, q, w)

    return dense if isinstance(rows, types.Array) else csr


# Neither re-ordered, which would have w read by gather instructions, slower than these; nor in one chain, each sum
# waiting for the one before, where a row is long. A call would take as long as a short row.
@kernel(fastmath={"contract"}, forceinline=True)
def _sparse_dot(rows, i, w):
    data, indices, indptr = rows
    start, stop = indptr[i], indptr[i + np.uint32(1)]
    a = 0.0
    if stop - start >= np.uint32(LONG_ROW):
        b = c = d = 0.0
        whole = stop - (stop - start) % np.uint32(4)
        for k in range(start, whole, np.uint32(4)):
            a += data[k] * w[indices[k]]
            b += data[k + np.uint32(1)] * w[indices[k + np.uint32(1)]]
            c += data[k + np.uint32(2)] * w[indices[k + np.uint32(2)]]
            d += data[k + np.uint32(3)] * w[indices[k + np.uint32(3)]]
        a, start = (a + b) + (c + d), whole
    for k in range(start, stop):
        a += data[k] * w[indices[k]]
    return a


@overload(add, jit_options={"nogil": True, "fastmath": {"contract"}})
def _compile_add(rows, i, step, w):
    def dense(rows, i, step, w):
        for k in range(rows.shape[1]):
            w[k] += step * rows[i, k]

    def csr(rows, i, step, w):
        data, indices, indptr = rows
        for k in range(indptr[i], indptr[i + np.uint32(1)]):
            w[indices[k]] += step * data[k]

    return dense if isinstance(rows, types.Array) else csr


@overload(add_four, jit_options={"nogil": True, "fastmath": {"contract"}, "forceinline": True})
def _compile_add_four(rows, i, j, p, q, a, b, c, d, w):
    def dense(rows, i, j, p, q, a, b, c, d, w):
        # each reading of w waits for its last writing: one in four rows
        for f in range(rows.shape[1]):
            w[f] = w[f] + a * rows[i, f] + b * rows[j, f] + c * rows[p, f] + d * rows[q, f]

    def csr(rows, i, j, p, q, a, b, c, d, w):
        add(rows, i, a, w)
        add(rows, j, b, w)
        add(rows, p, c, w)
        add(rows, q, d, w)

    return dense if isinstance(rows, types.Array) else csr


@overload(add_twice, jit_options={"nogil": True, "fastmath": {"contract"}, "forceinline": True})
def _compile_add_twice(rows, i, step, w, other_step, v):
    def dense(rows, i, step, w, other_step, v):
        for k in range(rows.shape[1]):
            x = rows[i, k]
            w[k] += step * x
            v[k] += other_step * x

    def csr(rows, i, step, w, other_step, v):
        data, indices, indptr = rows
        for k in range(indptr[i], indptr[i + np.uint32(1)]):
            f, x = indices[k], data[k]
            w[f] += step * x
            v[f] += other_step * x

    return dense if isinstance(rows, types.Array) else csr


@overload(leave, jit_options={"nogil": True, "fastmath": {"contract"}, "forceinline": True})
def _compile_leave(rows, i, centre, sign, u):
    def dense(rows, i, centre, sign, u):
        for k in range(rows.shape[1]):
            u[k] = sign * (rows[i, k] - centre[k])

    def csr(rows, i, centre, sign, u):
        for k in range(u.shape[0]):
            u[k] = -sign * centre[k]
        add(rows, i, sign, u)

    return dense if isinstance(rows, types.Array) else csr


@overload(add_rows, jit_options={"nogil": True, "fastmath": {"contract"}})
def _compile_add_rows(rows, visits, weights, total):
    def dense(rows, visits, weights, total):
        whole = visits.size - visits.size % 4
        for k in range(0, whole, 4):
            a, b, c, d = weights[k], weights[k + 1], weights[k + 2], weights[k + 3]
            add_four(rows, visits[k], visits[k + 1], visits[k + 2], visits[k + 3], a, b, c, d, total)
        for k in range(whole, visits.size):
            add(rows, visits[k], weights[k], total)

    def csr(rows, visits, weights, total):
        for k in range(visits.size):
            if weights[k] != 0.0:  # of dual variables many are 0
                add(rows, visits[k], weights[k], total)

    return dense if isinstance(rows, types.Array) else csr


@overload(squared_norm, jit_options={"nogil": True, "fastmath": REDUCE})
def _compile_squared_norm(rows, i):
    def dense(rows, i):
        total = 0.0
        for k in range(rows.shape[1]):
            value = np.float64(rows[i, k])
            total += value * value
        return total

    def csr(rows, i):
        data, _, indptr = rows
        total = 0.0
        for k in range(indptr[i], indptr[i + np.uint32(1)]):
            value = np.float64(data[k])
            total += value * value
        return total

    return dense if isinstance(rows, types.Array) else csr


@overload(squared_norm_about, jit_options={"nogil": True, "fastmath": REDUCE})
def _compile_squared_norm_about(rows, i, centre, square):
    def dense(rows, i, centre, square):
        total = 0.0
        for k in range(rows.shape[1]):
            distance = rows[i, k] - centre[k]
            total += distance * distance
        return total

    def csr(rows, i, centre, square):
        data, indices, indptr = rows
        total = 0.0
        for k in range(indptr[i], indptr[i + np.uint32(1)]):
            total += data[k] * (data[k] - 2.0 * centre[indices[k]])
        return square + total

    return dense if isinstance(rows, types.Array) else csr
