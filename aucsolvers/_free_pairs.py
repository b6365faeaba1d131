"""Pairs whose slopes are free while all others have 0 or 1: what is left of the pairwise hinge near its optimum.

``few`` and ``many`` are rows of the smaller and the larger class, as in SVMOR; u = 1 - s_few + s_many.
"""

from dataclasses import dataclass

import numpy as np

from aucsolvers._jit import kernel

# Pairs that may join at once, or as many as there are; and that may have crossed the kink: of more, others would decide
LEAST_TAKEN, MOST_CROSSED = 16, 1024


@dataclass
class FreePairs:
    """Pairs whose slopes are free, those in a point's band at first; all others have a slope of 0 or 1."""

    band: object  # of the point: SVMOR's _Band
    few: np.ndarray
    many: np.ndarray
    slopes: np.ndarray
    of_few: np.ndarray  # sums of the slopes of the others
    of_many: np.ndarray

    @classmethod
    def in_band(cls, point):
        """Return those in the point's band, with their slopes there."""
        band = point.band
        few, many = _list_pairs(band.order, band.first, band.last, int(point.n_pairs))
        u = 1.0 - (point.s_few[few] - point.s_many[many])
        of_few = np.empty_like(band.beyond)
        of_few[band.order] = band.beyond
        slopes = np.clip(0.5 + 0.5 * u / band.width, 0.0, 1.0)
        return cls(band, few, many, slopes, of_few, band.first.astype(np.float64))

    def sums(self):
        """Return the sums of all slopes of each of the few, and of each of the many."""
        of_few = np.bincount(self.few, self.slopes, len(self.of_few))
        return self.of_few + of_few, self.of_many + np.bincount(self.many, self.slopes, len(self.of_many))

    def take_in_crossed(self, point):
        """Let others be free that are on the kink's other side at a point of width 0; tell whether any are.

        Of many those furthest from the kink; none if there are more than MOST_CROSSED: the point is too far away.
        """
        band, now = self.band, point.band
        (few, many), slopes = np.empty((2, MOST_CROSSED), dtype=np.int64), np.empty(MOST_CROSSED)
        before = band.order, band.first, band.last
        found = _list_crossed(*before, now.order, now.first, self.few, self.many, few, many, slopes)
        if not 0 < found <= MOST_CROSSED:
            return False
        joining = np.arange(found)
        most = max(LEAST_TAKEN, len(self.few))
        if found > most:
            u = 1.0 - (point.s_few[few[:found]] - point.s_many[many[:found]])
            joining = np.argpartition(-np.abs(u), most)[:most]
        few, many, slopes = few[joining], many[joining], slopes[joining]
        self.of_few -= np.bincount(few, slopes, len(self.of_few))
        self.of_many -= np.bincount(many, slopes, len(self.of_many))
        self.few, self.many, self.slopes = map(np.append, (self.few, self.many, self.slopes), (few, many, slopes))
        return True


@kernel()
def _list_crossed(order, first, last, at, violated, free_few, free_many, few, many, slopes):
    """List the pairs that are not free and have come to the kink's other side, with the slopes that they had.

    Returns their number, or one more than there is room for. ``order``, ``first`` and ``last`` are of the band before:
    q < first[j] had a slope of 1, those from last[j] on 0. Now the few are in order ``at``, and q < violated[j] are
    violated. (The slopes are told by places alone: u may be rounded to the other side.)
    """
    before, now, found = np.empty_like(order), np.empty_like(order), 0
    for q in range(order.size):
        before[order[q]], now[at[q]] = q, q
    for j in range(first.size):
        for q in range(violated[j]):
            if before[at[q]] >= last[j]:
                found = _note(at[q], j, 0.0, free_few, free_many, found, few, many, slopes)
        for q in range(first[j]):
            if now[order[q]] >= violated[j]:
                found = _note(order[q], j, 1.0, free_few, free_many, found, few, many, slopes)
        if found > few.size:
            break
    return found


@kernel()
def _note(i, j, slope, free_few, free_many, found, few, many, slopes):
    """Add a pair to the ``found`` ones, unless it is free; return their number, at most one more than there is room."""
    for p in range(free_few.size):
        if free_few[p] == i and free_many[p] == j:
            return found
    if found < few.size:
        few[found], many[found], slopes[found] = i, j, slope
    return min(found + 1, few.size + 1)


@kernel()
def _list_pairs(order, first, last, n_pairs):
    """Return the rows of the few and of the many that the pairs in the band are of."""
    few, many, p = np.empty(n_pairs, dtype=np.int64), np.empty(n_pairs, dtype=np.int64), 0
    for j in range(first.size):
        for q in range(first[j], last[j]):
            few[p], many[p] = order[q], j
            p += 1
    return few, many
