"""Sparse rows without their columns of no entry: hashed texts have a million columns, and an entry in few of them."""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from aucsolvers._jit import kernel

MANY_COLUMNS, PART_STORED = 1024, 0.8  # of more columns, at most this part with an entry: else all are kept


@dataclass(frozen=True)
class StoredColumns:
    """The columns of X in which a problem is solved: regularised weights are 0 where X has no entry."""

    n_columns: int
    kept: np.ndarray | None = None  # their numbers, ascending; None for all
    places: np.ndarray | None = None  # of each stored value, its column's place among them

    @classmethod
    def of(cls, X):
        """Return those of a CSR X that hold an entry, or all: of a dense X, and where most of them do."""
        d = X.shape[1]
        if not sparse.issparse(X) or d <= MANY_COLUMNS:
            return cls(d)
        if d > X.nnz:  # a table of all columns may be many times as long as the rows
            kept, places = np.unique(X.indices, return_inverse=True)
        else:
            holds = np.zeros(d, dtype=bool)
            if _mark(X.indices, holds, PART_STORED * d) > PART_STORED * d:
                return cls(d)
            kept = np.flatnonzero(holds)
            places = (np.cumsum(holds) - 1)[X.indices]
        return cls(d, kept if len(kept) else np.zeros(1, int), places) if len(kept) <= PART_STORED * d else cls(d)

    def rows(self, X):
        """Return X in these columns; the values are shared."""
        if self.kept is None:
            return X
        indices = self.places.astype(X.indices.dtype)
        return sparse.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], len(self.kept)))

    def narrowed(self, state, names):
        """Return the state with the arrays of these names, of all columns, in these; None if there is none."""
        if self.kept is None or state is None:
            return state
        return state | {name: self.narrow(state[name]) for name in names if name in state}

    def widened(self, result, names=()):
        """Return the SolverResult with its weights, and the arrays of these names in its state, of all columns."""
        if self.kept is None:
            return result
        state = result.state and result.state | {name: self.widen(result.state[name]) for name in names}
        return replace(result, w=self.widen(result.w), state=state)

    def narrow(self, array):
        """Return an array of all columns, its last axis, in these."""
        return array if self.kept is None else array[..., self.kept]

    def widen(self, array):
        """Return an array of these columns with zeros for all others."""
        if self.kept is None:
            return array
        wide = np.zeros((*array.shape[:-1], self.n_columns))
        wide[..., self.kept] = array
        return wide


@kernel()
def _mark(columns, holds, most):
    """Set ``holds`` of the columns; return how many these are, or that they are more than ``most``."""
    count = 0
    for k in range(columns.size):
        count += not holds[columns[k]]
        holds[columns[k]] = True
        if count > most:
            break
    return count
