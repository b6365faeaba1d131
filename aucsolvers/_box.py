"""A small quadratic programme in the unit box: by the best single moves, and exactly once the free variables are known.

It maximises c'a - a'Ka/2 over 0 <= a <= 1, K being symmetric and without negative eigenvalues, u = c - Ka its gradient.
"""

import numpy as np

from aucsolvers._jit import kernel
from aucsolvers._rows import REDUCE

ROUNDS = 30  # of moves and a system each: more are of use only where rounding decides
RIDGE = 1e-9  # relative, for free variables whose rows of K depend on each other


@kernel(error_model="numpy")
def maximise_in_box(K, u, a, tol):
    """Improve a, and u with it, in place, until sum(max(0, u) - a u) is at most tol: what is missing is no more."""
    diagonal = np.empty(a.size)
    for p in range(a.size):
        diagonal[p] = max(K[p, p], 1e-300)  # to divide by
    for _ in range(ROUNDS):
        for _ in range(a.size):
            missing, best, move = _best_move(diagonal, u, a)
            if missing <= tol or move == 0.0:
                return
            a[best] += move
            _follow(K[best], move, u)
        _solve_free(K, u, a)


@kernel(fastmath=REDUCE, error_model="numpy")
def _best_move(diagonal, u, a):
    """Return what bounds the missing part, the variable whose own best move gains most, and that move."""
    missing, most, best, best_move = 0.0, 0.0, 0, 0.0
    for p in range(a.size):
        missing += max(0.0, u[p]) - a[p] * u[p]
        move = min(1.0, max(0.0, a[p] + u[p] / diagonal[p])) - a[p]
        gain = move * (2.0 * u[p] - move * diagonal[p])
        if gain > most:
            most, best, best_move = gain, p, move
    return missing, best, best_move


@kernel()
def _follow(column, move, u):
    for p in range(u.size):
        u[p] -= move * column[p]


@kernel(fastmath=REDUCE, error_model="numpy")
def _solve_free(K, u, a):
    """Move the variables inside the box to where their parts of u are 0, on the way leaving those that come to a bound.

    Of more variables than K has rank not all parts of u can be 0: some have to leave.
    """
    free, m, leaving = np.empty(a.size, dtype=np.int64), 0, 0
    for p in range(a.size):
        if 0.0 < a[p] < 1.0:
            free[m] = p
            m += 1
    factor, step = _factored(K, free, m), np.empty(m)
    while m > 0 and leaving >= 0:
        for i in range(m):
            step[i] = u[free[i]]
        _solve_triangles(factor, m, step)
        part, leaving = 1.0, -1
        for i in range(m):
            room = 1.0 - a[free[i]] if step[i] > 0.0 else a[free[i]]
            if part * abs(step[i]) > room:
                part, leaving = room / abs(step[i]), i
        for i in range(m):
            p = free[i]
            new = min(1.0, max(0.0, a[p] + part * step[i]))
            if i == leaving:
                new = 1.0 if step[i] > 0.0 else 0.0
            _follow(K[p], new - a[p], u)
            a[p] = new
        if leaving >= 0:
            _drop(factor, m, leaving)
            m -= 1
            for i in range(leaving, m):
                free[i] = free[i + 1]


@kernel(fastmath=REDUCE, error_model="numpy")
def _factored(K, free, m):
    """Return U, U'U = K of the first m free variables, right above its diagonal."""
    factor = np.empty((m, m))
    for i in range(m):
        row = factor[i]
        for j in range(i, m):
            row[j] = K[free[i], free[j]]
        row[i] *= 1.0 + RIDGE
        for f in range(i):
            above, weight = factor[f], factor[f, i]
            for j in range(i, m):
                row[j] -= weight * above[j]
        weight = 1.0 / np.sqrt(max(row[i], 1e-300))
        for j in range(i, m):
            row[j] *= weight
    return factor


@kernel(fastmath=REDUCE, error_model="numpy")
def _solve_triangles(factor, m, x):
    """Solve U'U x = b for the first m variables; b is in x."""
    for i in range(m):
        row = factor[i]
        x[i] /= row[i]
        known = x[i]
        for j in range(i + 1, m):
            x[j] -= known * row[j]
    for i in range(m - 1, -1, -1):
        row, rest = factor[i], 0.0
        for j in range(i + 1, m):
            rest += row[j] * x[j]
        x[i] = (x[i] - rest) / row[i]


@kernel(fastmath=REDUCE, error_model="numpy")
def _drop(factor, m, which):
    """Make the first m - 1 rows and columns the factor without one of m variables, by Givens rotations."""
    for i in range(m):
        row = factor[i]
        for j in range(max(i - 1, which), m - 1):
            row[j] = row[j + 1]
    for i in range(which, m - 1):
        row, below = factor[i], factor[i + 1]
        length = np.hypot(row[i], below[i])
        c, s = row[i] / length, below[i] / length
        for j in range(i, m - 1):
            upper, lower = row[j], below[j]
            row[j] = c * upper + s * lower
            below[j] = c * lower - s * upper
