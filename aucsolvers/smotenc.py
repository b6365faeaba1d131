"""SMOTE-NC for rows whose categories are one-hot encoded already."""

from numbers import Integral
from operator import index
from typing import ClassVar

import numpy as np
from imblearn.over_sampling import SMOTE, SMOTEN, SMOTENC
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from aucsolvers._over_sampler import OverSampler
from aucsolvers._params import check_count
from aucsolvers._rows import FLOATS, stored_once

SMALLEST = 1e-3  # spread of numbers: of much smaller ones SMOTENC's votes would all be ties


class OneHotSMOTENC(OverSampler):
    """SMOTE-NC on rows with one-hot columns: new rows have numbers in between, and one category of each kind.

    SMOTE makes a row between a minority row and one of its k nearest neighbours in the minority; between two one-hot
    codes there are fractions of categories. SMOTE-NC takes of each category the one that most of the k neighbours have,
    and in distances counts two that differ as the median standard deviation of the minority's numbers. What is drawn is
    drawn by imbalanced-learn: by its SMOTENC, by its SMOTE where no column is a category's, and by its SMOTEN where all
    are; there distances are of values (Cost and Salzberg), a row is a neighbour of itself, and of equally frequent
    categories the first is taken.

    Parameters
    ----------
    blocks : sequence of (start, stop), default=()
        The columns from start up to stop, without it, are one category's: a single 1 in every row, and 0 else.
    k_neighbors : int or neighbours object, default=5
        As for imbalanced-learn's SMOTE.
    sampling_strategy : float, str, dict or callable, default="auto"
        How many rows to make, as for imbalanced-learn's over-samplers; "auto" makes all classes equally large.
    max_bytes : int, default=2 * 1024**3
        Most memory beside the rows returned: 8 bytes for each new row, neighbour and column or, where all columns are
        categories', 16 m^2 for the m rows of a class that grows. Refused before anything is computed.
    random_state : None, int, RandomState or Generator, default=None
        Draws rows, neighbours and, beside numbers, one of equally frequent categories.

    Attributes
    ----------
    sampling_strategy_ : dict
        Rows to make, by class.

    Raises
    ------
    ValueError
        If blocks overlap, are no columns of X or hold anything but one 1 in a row, a class that is to grow has no more
        rows than k_neighbors, or max_bytes is too little.

    Notes
    -----
    Numbers are taken as they are: scale them *before* the sampler. The input's rows come first, as they were; dense
    stays dense, CSR stays CSR, float32 stays float32; of a frame, columns of whole numbers, booleans or categories
    become float64, as an array does. Cost: a neighbour search among the rows of each class that grows.

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

    # SMOTE's list for random_state knows no Generator; what is none either, SMOTE refuses itself
    _parameter_constraints: ClassVar = {k: v for k, v in SMOTE._parameter_constraints.items() if k != "random_state"}

    def __init__(self, blocks=(), *, k_neighbors=5, sampling_strategy="auto", max_bytes=2 * 1024**3, random_state=None):
        super().__init__(sampling_strategy=sampling_strategy)
        self.blocks = blocks
        self.k_neighbors = k_neighbors
        self.max_bytes = max_bytes
        self.random_state = random_state

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        check_count("max_bytes", self.max_bytes)

    def _fit_resample(self, X, y):
        self.check_parameters()
        X = X if X.dtype in FLOATS else X.astype(np.float64)
        rows = stored_once(X.tocsr()) if sparse.issparse(X) else X
        blocks = self._checked_blocks(rows)
        of_categories = [np.arange(start, stop) for start, stop in blocks]
        of_numbers = np.setdiff1d(np.arange(X.shape[1]), np.concatenate([[], *of_categories]))
        self._refuse_few(y)
        self._refuse_large(X, y, len(of_numbers))
        numbers = rows[:, of_numbers]
        factor = _magnifying(numbers, y, self._growing()) if blocks and len(of_numbers) else 1.0
        codes = [np.ravel(rows[:, columns].argmax(axis=1)) for columns in of_categories]
        smote = self._smote(len(of_numbers), len(codes))
        out, labels = smote.fit_resample(_beside((factor * numbers).astype(X.dtype, copy=False), codes), y)
        made = out[len(y) :]
        parts = [(made[:, : len(of_numbers)] / factor).astype(X.dtype, copy=False)]
        for place, columns in enumerate(of_categories, start=len(of_numbers)):
            code = made[:, [place]].toarray() if sparse.issparse(made) else made[:, [place]]
            parts.append((code == np.arange(len(columns))).astype(X.dtype))
        places = np.argsort(np.concatenate([of_numbers, *of_categories]))
        if sparse.issparse(X):
            parts = [sparse.csr_matrix(part) for part in parts]  # SciPy stacks no dense ones alone
            return sparse.vstack([X, sparse.hstack(parts, format="csr")[:, places]], format=X.format), labels
        return np.vstack([X, np.hstack(parts)[:, places]]), labels

    def _growing(self):
        """Return how many rows are to be made of each class that grows."""
        return {label: count for label, count in self.sampling_strategy_.items() if count > 0}

    def _neighbours(self):
        return self.k_neighbors if isinstance(self.k_neighbors, Integral) else self.k_neighbors.n_neighbors - 1

    def _smote(self, n_numbers, n_categories):
        """Return imbalanced-learn's sampler for rows of so many numbers, followed by so many codes of categories."""
        options = {"sampling_strategy": self.sampling_strategy, "k_neighbors": self.k_neighbors}
        if isinstance(self.random_state, np.random.Generator):
            options["random_state"] = int(self.random_state.integers(2**31))
        else:
            options["random_state"] = self.random_state
        if n_categories == 0:
            return SMOTE(**options)
        if n_numbers == 0:
            return SMOTEN(**options)
        return SMOTENC(list(range(n_numbers, n_numbers + n_categories)), **options)

    def _refuse_few(self, y):
        for label in self._growing():
            n = np.count_nonzero(y == label)
            if n <= self._neighbours():
                raise ValueError(
                    f"Expected more than k_neighbors={self._neighbours()} rows of a class that is to grow, got {n} of "
                    f"class {np.asarray(label).item()!r}. Lower k_neighbors."
                )

    def _refuse_large(self, X, y, n_numbers):
        for label, count in self._growing().items():
            n, width = np.count_nonzero(y == label), X.shape[1]
            if n_numbers == width:
                continue
            needed = 8 * width * (n + count * self._neighbours()) if n_numbers else 16 * n**2
            if needed > self.max_bytes:
                raise ValueError(
                    f"Expected to need at most max_bytes={self.max_bytes} bytes, got {needed} for {n} rows of class "
                    f"{np.asarray(label).item()!r}, {count} to be made of {width} columns. Raise max_bytes, make fewer "
                    "rows (sampling_strategy), or under-sample the majority instead (GeometricUnderSampler)."
                )

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
                    "out what scales rows, such as unit_rows, and let each block be one category's."
                )
        return blocks


def _magnifying(numbers, y, labels):
    """Return 1, or where the numbers' spread is below SMALLEST, a power of two that makes it about 1, or as can be.

    SMOTENC takes counts of neighbours for equal that differ by less than 1e-8 in units of that spread.
    """
    spreads = [_median_deviation(numbers[y == label]) for label in labels]
    spread = min((spread for spread in spreads if spread > 0.0), default=SMALLEST)
    if spread >= SMALLEST:
        return 1.0
    largest = float(abs(numbers).max())
    room = np.sqrt(float(np.finfo(numbers.dtype).max) / numbers.shape[1]) / (4.0 * largest)  # of squared distances
    return 2.0 ** int(max(0.0, np.floor(np.log2(min(1.0 / spread, room)))))


def _median_deviation(numbers):
    """Return the median of the columns' standard deviations."""
    numbers = numbers.astype(np.float64, copy=False)  # squares of tiny ones are 0 in float32
    variances = mean_variance_axis(numbers, axis=0)[1] if sparse.issparse(numbers) else np.var(numbers, axis=0)
    return float(np.median(np.sqrt(variances)))


def _beside(numbers, codes):
    """Return the numbers of rows followed by codes of their categories; dense where there are no numbers."""
    columns = [code[:, None].astype(numbers.dtype) for code in codes]
    if numbers.shape[1] == 0:
        return np.hstack(columns)
    return sparse.hstack([numbers, *columns], "csr") if sparse.issparse(numbers) else np.hstack([numbers, *columns])
