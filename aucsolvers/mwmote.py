"""MWMOTE: over-sampling that draws hard minority rows more often and stays inside clusters of the minority."""

import logging
from typing import ClassVar, NamedTuple

import numpy as np
from imblearn.utils import check_sampling_strategy
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import pdist
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

from aucsolvers._over_sampler import OverSampler
from aucsolvers._params import as_generator, check_count, check_positive
from aucsolvers._rows import FLOATS, check_squares, stored_once

logger = logging.getLogger(__name__)

# Entries: squares of larger ones, added up, may overflow in float32; those of smaller ones are no longer precise
SMALLEST_FLOAT32, LARGEST_FLOAT32 = 1e-12, 1e15
# Of neighbours of the borderline majority, 40 bytes each with what is computed from them; of distances, as much again
BLOCK_BYTES = 32 * 1024**2
CLUSTER_BYTES = 8  # per square of minority rows, half of them pairs: distances, and the copy that clustering works on


class MWMOTE(OverSampler):
    """Majority weighted minority over-sampling: synthetic rows between minority rows near the majority.

    For a class to be over-sampled (the minority), all others being the majority, with Euclidean distances:

    1. Drop as noise the minority rows that have no minority row among their ``k1`` nearest neighbours.
    2. The borderline majority are the ``k2`` nearest majority rows of each of the others.
    3. The informative minority are the ``k3`` nearest minority rows N(y) of each borderline majority row y.
    4. Weigh them: with l features, the closeness of x in N(y) and the weight of x are

           C(y, x) = cmax min(l / ||y - x||, cf_th) / cf_th,
           W(x) = sum_y C(y, x) C(y, x) / sum_{x' in N(y)} C(y, x'),

       so a row counts that is near to the border, and the more, the fewer others share it.
    5. Cluster the minority by average linkage, cut at ``cp`` times the mean distance to the nearest minority row.
    6. For each new row draw an informative x with probability W(x) / sum W, another row z of its cluster (x itself if
       it is alone) and t uniform in [0, 1); the new row is x + t (z - x).

    Noise takes no part in steps 2 to 6. If all minority rows are noise, none is dropped.

    Parameters
    ----------
    k1, k2 : int, default=5, 3
        >= 1.
    k3 : int or None, default=None
        >= 1; None is half the number of minority rows, rounded down, at least 1.
    cf_th, cmax, cp : float, default=5.0, 2.0, 3.0
        C_f(th), CMAX and C_p of the source, > 0. cmax scales all weights alike: it has no effect on the draw.
    sampling_strategy : float, str, dict or callable, default="auto"
        How many rows to make, as for imbalanced-learn's over-samplers; "auto" makes all classes equally large.
    max_bytes : int, default=2 * 1024**3
        Most memory for clustering: 8 m^2 bytes for m minority rows. Refused before anything is computed.
    random_state : None, int, RandomState or Generator, default=None
        Spawns an independent stream for each class.

    Attributes
    ----------
    hard_rows_ : dict of HardRows, by class
        ``rows`` (of the input; without noise), their ``weights`` (0: not informative) and ``clusters``.
    sampling_strategy_ : dict
        Rows to make, by class.

    Raises
    ------
    ValueError
        On an undefined parameter, a single class, or a minority too large for ``max_bytes``.

    Notes
    -----
    Features are taken as they are: put the scaler *before* the sampler in the pipeline; C(y, x) depends on the scale,
    as cf_th is a length. Categorical columns should not be interpolated. New rows follow the input's rows, class by
    class in the order of ``sampling_strategy_``; dense stays dense, CSR stays CSR, float32 stays float32. Of a frame,
    columns of whole numbers, booleans or categories become float64, as an array does: new rows lie between.

    Step 3 of the source takes neighbours, and step 5 clusters, among all of the minority; here noise is left out of
    both, or a row that step 1 has dropped could be drawn in step 6 and belong to no cluster of the threshold's rows.

    Which of several rows at one and the same distance are among the k nearest is up to scikit-learn's search, which is
    another one for sparse rows and in many features: of counts or one-hot columns, dense and CSR may then get other,
    equally valid, weights.

    Cost: three neighbour searches, O(m^2) time for the clustering of m minority rows and O(m k2 k3) for the weights.
    Memory: ``max_bytes`` at most, 8 m^2 for m rows of the class, some 32 MiB for the weights, scikit-learn's working
    memory, and the rows returned.

    References
    ----------
    Barua, Islam, Yao, Murase (2014). MWMOTE: majority weighted minority oversampling technique for imbalanced data set
    learning. IEEE Trans. Knowledge and Data Engineering 26(2). Algorithm 1; section 3.2 (weights), 3.3 (clusters);
    the defaults are those of its section 5.

    Examples
    --------
    >>> import numpy as np
    >>> from aucsolvers import MWMOTE
    >>> X = np.array([0.0, 1.0, 2.0, 20.0, 4.0, 6.0, 19.0, 21.0, 22.0]).reshape(-1, 1)
    >>> y = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0])
    >>> sampler = MWMOTE(k1=2, k2=1, k3=2, random_state=0)
    >>> X_more, y_more = sampler.fit_resample(X, y)
    >>> sampler.hard_rows_[1].rows, (y_more == 1).sum(), bool(0 <= X_more[-1, 0] <= 2)  # 20 is noise
    (array([0, 1, 2]), np.int64(5), True)
    """

    # the base's list for random_state knows no Generator: as_generator refuses what is none
    _parameter_constraints: ClassVar = {
        k: v for k, v in OverSampler._parameter_constraints.items() if k != "random_state"
    }

    def __init__(
        self,
        *,
        k1=5,
        k2=3,
        k3=None,
        cf_th=5.0,
        cmax=2.0,
        cp=3.0,
        sampling_strategy="auto",
        max_bytes=2 * 1024**3,
        random_state=None,
    ):
        super().__init__(sampling_strategy=sampling_strategy)
        self.k1 = k1
        self.k2 = k2
        self.k3 = k3
        self.cf_th = cf_th
        self.cmax = cmax
        self.cp = cp
        self.max_bytes = max_bytes
        self.random_state = random_state

    def check_parameters(self):
        """Raise ValueError if a parameter has a value that no data could go with."""
        for name in ("k1", "k2", "max_bytes"):
            check_count(name, getattr(self, name))
        if self.k3 is not None:
            check_count("k3", self.k3)
        for name in ("cf_th", "cmax", "cp"):
            check_positive(name, getattr(self, name))

    def _fit_resample(self, X, y):
        self.check_parameters()
        self._refuse_large(y, self.sampling_strategy_)
        wanted = {label: count for label, count in self.sampling_strategy_.items() if count > 0}
        if X.dtype not in FLOATS:
            X = X.astype(np.float64)
        check_squares(X)
        by_row = stored_once(X.tocsr()) if sparse.issparse(X) else X
        # distances are taken from squares, which of such entries do not go into float32
        is_precise = by_row.dtype == np.float64 or SMALLEST_FLOAT32 <= np.abs(by_row).max() <= LARGEST_FLOAT32
        for_distances = moved_near_zero(by_row if is_precise else by_row.astype(np.float64))
        self.hard_rows_ = {}
        parts, labels = [X], [y]
        streams = as_generator(self.random_state).spawn(len(wanted))
        for (label, count), stream in zip(wanted.items(), streams, strict=True):
            hard = self.hard_rows_[label] = self._weigh(for_distances, y == label)
            parts.append(interpolate(by_row, *draw_pairs(hard, count, stream)))
            labels.append(np.full(count, label, dtype=y.dtype))
        stacked = sparse.vstack(parts, format=X.format) if sparse.issparse(X) else np.vstack(parts)
        return stacked, np.concatenate(labels)

    def check_size(self, y):
        """Raise ValueError if a class of the labels y, one that is to be over-sampled, is too large for max_bytes."""
        self._refuse_large(y, check_sampling_strategy(self.sampling_strategy, y, "over-sampling"))

    def _refuse_large(self, y, strategy):
        for label, count in strategy.items():
            n_minority = np.count_nonzero(y == label)
            needed = CLUSTER_BYTES * n_minority**2
            if count > 0 and needed > self.max_bytes:
                raise ValueError(
                    f"Expected clustering to need at most max_bytes={self.max_bytes} bytes, got {needed} for the "
                    f"{n_minority} rows of class {np.asarray(label).item()!r}. Raise max_bytes, or under-sample the "
                    "majority instead (GeometricUnderSampler)."
                )

    def _weigh(self, X, is_minority):
        """Return the HardRows of one class."""
        minority, majority = np.flatnonzero(is_minority), np.flatnonzero(~is_minority)
        rows = without_noise(X, is_minority, self.k1)
        if not len(rows):
            logger.warning("each of %d minority rows is among majority rows only: none dropped as noise", len(minority))
            rows = minority
        border = np.unique(_neighbours(X[majority], X[rows], self.k2)[1])
        k3 = max(1, len(minority) // 2) if self.k3 is None else self.k3
        weights = selection_weights(X[rows], X[majority[border]], k3, self.cf_th, self.cmax)
        return HardRows(rows, weights, cluster_labels(X[rows], self.cp))


class HardRows(NamedTuple):
    """Minority rows without noise: row numbers, selection weights, and cluster labels from 1 on."""

    rows: np.ndarray
    weights: np.ndarray
    clusters: np.ndarray


def moved_near_zero(X):
    """Return X with the columns that are farther from 0 than they are wide, dates say, moved there.

    Distances do not see it, but where they are taken from squared lengths their rounding does. A column is moved by one
    of its own values, so that whole numbers stay whole and ties stay ties.
    """
    columns = X.tocsc() if sparse.issparse(X) else X
    ends = columns.min(axis=0), columns.max(axis=0)
    low, high = (np.ravel(end.toarray() if sparse.issparse(end) else end) for end in ends)
    far = np.flatnonzero(np.maximum(low, -high) > high - low)  # none of its entries is 0: all are stored
    if not len(far):
        return X
    shift = np.zeros(X.shape[1], dtype=X.dtype)
    middle = X.shape[0] // 2
    for column in far:
        entries = columns[:, [column]].data if sparse.issparse(X) else X[:, column]
        shift[column] = np.partition(entries, middle)[middle]
    if not sparse.issparse(X):
        return X - shift
    moved = X.copy()
    moved.data -= shift[moved.indices]
    return moved


def _neighbours(among, of, k):
    """Return distances and indices of the k nearest rows, or all if there are fewer, ``among`` for each row ``of``."""
    return NearestNeighbors(n_neighbors=min(k, among.shape[0])).fit(among).kneighbors(of)


def without_noise(X, is_minority, k1):
    """Return the minority rows with a minority row among their k1 nearest neighbours, themselves not counted."""
    minority = np.flatnonzero(is_minority)
    nearest = _neighbours(X, X[minority], k1 + 1)[1]
    itself = nearest == minority[:, None]
    # among duplicates a row may not be its own neighbour: then the last of the k1 + 1 is one too many
    itself[~itself.any(axis=1) & (nearest.shape[1] == k1 + 1), -1] = True
    return minority[(is_minority[nearest] & ~itself).any(axis=1)]


def selection_weights(minority, border, k3, cf_th, cmax):
    """Return W(x) of every minority row: steps 3 and 4 of MWMOTE, in blocks of border rows."""
    k3 = min(k3, minority.shape[0])
    search = NearestNeighbors(n_neighbors=k3).fit(minority)
    weights = np.zeros(minority.shape[0])
    size = max(1, BLOCK_BYTES // (40 * k3))
    for start in range(0, border.shape[0], size):
        distances, nearest = search.kneighbors(border[start : start + size])
        with np.errstate(divide="ignore"):
            closeness = cmax * np.minimum(minority.shape[1] / distances, cf_th) / cf_th
        density = closeness / closeness.sum(axis=1, keepdims=True)
        weights += np.bincount(nearest.ravel(), (closeness * density).ravel(), minlength=len(weights))
    return weights


def cluster_labels(rows, cp):
    """Return average-linkage cluster labels, cut at cp times the mean distance to the nearest other row."""
    if rows.shape[0] == 1:
        return np.ones(1, dtype=np.int32)
    distances = _condensed_distances(rows) if sparse.issparse(rows) else pdist(rows)
    cut = cp * _nearest_of_condensed(distances, rows.shape[0]).mean()
    return fcluster(linkage(distances, method="average"), cut, criterion="distance")


def _condensed_distances(rows):
    """Return what ``pdist`` does, of sparse rows: a few of them at a time."""
    n, start, place = rows.shape[0], 0, 0
    distances = np.empty(n * (n - 1) // 2)
    for chunk in pairwise_distances_chunked(rows, working_memory=BLOCK_BYTES / 2**20):
        for of_row in chunk:
            start += 1
            distances[place : place + n - start] = of_row[start:]
            place += n - start
    return distances


def _nearest_of_condensed(distances, n):
    """Return the distance of each of n rows to the nearest other one, from those of ``pdist``."""
    nearest, place = np.full(n, np.inf), 0
    for row in range(n - 1):
        onward = distances[place : place + n - 1 - row]
        nearest[row] = min(nearest[row], onward.min())
        np.minimum(nearest[row + 1 :], onward, out=nearest[row + 1 :])
        place += n - 1 - row
    return nearest


def draw_pairs(hard, count, rng):
    """Return rows x drawn by weight, another row z of the cluster of each, x itself if it is alone, and t in [0, 1)."""
    chosen = rng.choice(len(hard.rows), size=count, p=hard.weights / hard.weights.sum())
    by_cluster = np.argsort(hard.clusters, kind="stable")
    sizes = np.bincount(hard.clusters)
    first = np.cumsum(sizes) - sizes
    place = np.empty_like(by_cluster)
    place[by_cluster] = np.arange(len(by_cluster)) - first[hard.clusters[by_cluster]]
    # 1 ... size - 1 places on, around the cluster
    cluster, size = hard.clusters[chosen], sizes[hard.clusters[chosen]]
    onward = np.where(size > 1, 1 + rng.integers(np.maximum(size - 1, 1)), 0)
    partner = by_cluster[first[cluster] + (place[chosen] + onward) % size]
    return hard.rows[chosen], hard.rows[partner], rng.random(count)


def interpolate(X, rows, partners, shares):
    """Return x + t (z - x) for rows x, partners z and shares t, in the type of X."""
    shares = shares.astype(X.dtype if X.dtype.kind == "f" else np.float64)[:, None]
    start, way = X[rows], X[partners] - X[rows]
    return start + (way.multiply(shares).tocsr() if sparse.issparse(X) else way * shares)
