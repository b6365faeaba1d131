"""SMOTE-NC for rows whose categories are one-hot encoded already."""

from operator import index
from typing import ClassVar

import numpy as np
from imblearn.over_sampling import SMOTE, SMOTEN, SMOTENC
from scipy import sparse

from aucsolvers._over_sampler import OverSampler
from aucsolvers._rows import FLOATS, stored_once


class OneHotSMOTENC(OverSampler):
    """SMOTE-NC on rows with one-hot columns: new rows have numbers in between, and one category of each kind.

    SMOTE makes a row between a minority row and one of its k nearest neighbours in the minority; between two one-hot
    codes there are fractions of categories. SMOTE-NC takes of each category the one that most of the k neighbours have,
    and in distances counts two that differ as the median standard deviation of the minority's numbers. What is drawn is
    drawn by imbalanced-learn: its SMOTENC, its SMOTEN where all columns are categories', its SMOTE where none is.

    Parameters
    ----------
    blocks : sequence of (start, stop), default=()
        The columns from start up to stop, without it, are one category's: a single 1 in every row, and 0 else.
    k_neighbors : int or neighbours object, default=5
        As for imbalanced-learn's SMOTE.
    sampling_strategy : float, str, dict or callable, default="auto"
        How many rows to make, as for imbalanced-learn's over-samplers; "auto" makes all classes equally large.
    random_state : None, int or RandomState, default=None
        Draws rows, neighbours and, of equally frequent categories, one.

    Attributes
    ----------
    sampling_strategy_ : dict
        Rows to make, by class.

    Raises
    ------
    ValueError
        If blocks overlap, are no columns of X or hold anything but one 1 in a row, or a class that is to grow has no
        more rows than k_neighbors.

    Notes
    -----
    Numbers are taken as they are: scale them *before* the sampler. The input's rows come first, as they were; dense
    stays dense, CSR stays CSR, float32 stays float32; of a frame, columns of whole numbers, booleans or categories
    become float64, as an array does. Cost: a neighbour search among the rows of each class that grows. Memory beside
    the rows returned: 8 bytes for each new row, neighbour and column.

    References
    ----------
    Chawla, Bowyer, Hall, Kegelmeyer (2002). SMOTE: synthetic minority over-sampling technique. Journal of Artificial
    Intelligence Research 16. Section 6.1 (SMOTE-NC), 6.2 (SMOTE-N).

    Examples
    --------
    >>> import numpy as np
    >>> from aucsolvers import OneHotSMOTENC
    >>> numbers, kinds = np.arange(12.0)[:, None], np.eye(3)[np.arange(12) % 3]
    >>> y = np.array([1] * 4 + [0] * 8)
    >>> sampler = OneHotSMOTENC(((1, 4),), k_neighbors=2, random_state=0)
    >>> X_more, y_more = sampler.fit_resample(np.hstack([numbers, kinds]), y)
    >>> X_more.shape, np.unique(X_more[:, 1:]).tolist(), X_more[12:, 1:].sum(axis=1).tolist()
    ((16, 4), [0.0, 1.0], [1.0, 1.0, 1.0, 1.0])
    """

    _parameter_constraints: ClassVar = SMOTE._parameter_constraints | {"blocks": "no_validation"}

    def __init__(self, blocks=(), *, k_neighbors=5, sampling_strategy="auto", random_state=None):
        super().__init__(sampling_strategy=sampling_strategy)
        self.blocks = blocks
        self.k_neighbors = k_neighbors
        self.random_state = random_state

    def _fit_resample(self, X, y):
        X = X if X.dtype in FLOATS else X.astype(np.float64)
        rows = stored_once(X.tocsr()) if sparse.issparse(X) else X
        blocks = self._checked_blocks(rows)
        of_categories = [np.arange(start, stop) for start, stop in blocks]
        numbers = np.setdiff1d(np.arange(X.shape[1]), np.concatenate([[], *of_categories]))
        codes = [np.ravel(rows[:, columns].argmax(axis=1)) for columns in of_categories]
        out, labels = self._smote(len(numbers), len(codes)).fit_resample(_beside(rows[:, numbers], codes), y)
        made = out[len(y) :]
        parts = [made[:, : len(numbers)]]
        for place, columns in enumerate(of_categories, start=len(numbers)):
            code = made[:, [place]].toarray() if sparse.issparse(made) else made[:, [place]]
            parts.append((code == np.arange(len(columns))).astype(X.dtype))
        places = np.argsort(np.concatenate([numbers, *of_categories]))
        if sparse.issparse(X):
            parts = [sparse.csr_matrix(part) for part in parts]  # SciPy stacks no dense ones alone
            return sparse.vstack([X, sparse.hstack(parts, format="csr")[:, places]], format=X.format), labels
        return np.vstack([X, np.hstack(parts)[:, places]]), labels

    def _smote(self, n_numbers, n_categories):
        """Return imbalanced-learn's sampler for rows of so many numbers, followed by so many codes of categories."""
        options = {name: getattr(self, name) for name in ("sampling_strategy", "random_state", "k_neighbors")}
        if n_categories == 0:
            return SMOTE(**options)
        if n_numbers == 0:
            return SMOTEN(**options)
        return SMOTENC(list(range(n_numbers, n_numbers + n_categories)), **options)

    def _checked_blocks(self, X):
        """Return the blocks as pairs of int, ascending, or raise a ValueError."""
        try:
            blocks = sorted((index(start), index(stop)) for start, stop in self.blocks)
        except (TypeError, ValueError):
            raise ValueError(f"Expected blocks as pairs of columns (start, stop), got {self.blocks!r}.") from None
        ends = [0, *(stop for _, stop in blocks)]
        for (start, stop), end in zip(blocks, ends, strict=False):
            if not end <= start < stop <= X.shape[1]:
                raise ValueError(
                    f"Expected blocks of columns that do not overlap, out of {X.shape[1]}, got {(start, stop)}. "
                    "Each is (start, stop), without the column stop."
                )
            block = X[:, start:stop]
            entries = block.data if sparse.issparse(block) else block
            if not (((entries == 0.0) | (entries == 1.0)).all() and (np.ravel(block.sum(axis=1)) == 1.0).all()):
                raise ValueError(
                    f"Expected one-hot columns from {start} up to {stop}, got rows that are not 0 but for one 1. Leave "
                    "out what scales rows, such as unit_rows."
                )
        return blocks


def _beside(numbers, codes):
    """Return the numbers of rows followed by codes of their categories; dense where there are no numbers."""
    columns = [code[:, None].astype(numbers.dtype) for code in codes]
    if numbers.shape[1] == 0:
        return np.hstack(columns)
    return sparse.hstack([numbers, *columns], "csr") if sparse.issparse(numbers) else np.hstack([numbers, *columns])
