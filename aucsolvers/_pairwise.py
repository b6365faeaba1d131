"""What the solvers of the pairwise objectives share: the two classes as blocks of rows, the trace of Q."""

import numpy as np
from scipy import sparse

from aucsolvers.metrics import square_slopes


def split_classes(X, y):
    """Return the positive and the negative rows as blocks of their own, C-ordered or canonical CSR.

    Contiguous blocks let a kernel address a row by its class index. The CSR index types are fixed, so that a kernel is
    compiled once, and columns are sorted and unique, which the merge of two rows relies on. The input is not changed.
    """
    return _block(X[y > 0]), _block(X[y < 0])


def _block(rows):
    if not sparse.issparse(rows):
        return np.ascontiguousarray(rows)
    rows = sparse.csr_array(rows)
    rows.sum_duplicates()
    rows.indices, rows.indptr = rows.indices.astype(np.int32), rows.indptr.astype(np.int64)
    return rows


def check_squares(X):
    """Refuse features whose squared norms overflow: no step length or certificate could be computed from them."""
    values = X.data if sparse.issparse(X) else X
    largest = float(max(values.max(initial=0.0), -values.min(initial=0.0)))
    limit = np.sqrt(np.finfo(np.float64).max / (8.0 * X.shape[1] * X.shape[0]))
    if largest > limit:
        raise ValueError(
            f"Expected features of magnitude at most {limit:.1e}, got {largest:.1e}: squared norms overflow. "
            "Rescale the features, for example with StandardScaler."
        )


def record_square(trace, updates, w, X, positive, lam):
    """Add a point to the trace; return the gradient of Q, Q and the certificate ||dQ||^2/(2 lam)."""
    scores = X @ w
    s_pos, s_neg = scores[positive], scores[~positive]
    gradient = lam * w + X.T @ square_slopes(scores, positive, margin=1.0)
    error = 1.0 - (s_pos.mean() - s_neg.mean())
    objective = 0.5 * float(lam * (w @ w) + error * error + s_pos.var() + s_neg.var())
    gap = float(gradient @ gradient) / (2.0 * lam)
    trace.add(updates, objective, gap, s_pos, s_neg)
    return gradient, objective, gap
