"""Pairs whose slopes are free while all others have 0 or 1: what is left of the pairwise hinge near its optimum.

``few`` and ``many`` are rows of the smaller and the larger class, as in SVMOR; u = 1 - s_few + s_many.
"""

from dataclasses import dataclass

import numpy as np

from aucsolvers._jit import kernel

LEAST_TAKEN = 16  # pairs that may join at once, or as many as there are


@dataclass
class FreePairs:
    """Pairs whose slopes are free, those in a point's band at first; all others have a slope of 0 or 1."""

    band: object  # that of the point
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

        Of many those furthest from the kink.
        """
        before, after = (self.band.order, self.band.first, self.band.last), (point.band.order, point.band.first)
        few, many = np.empty((2, 0), dtype=np.int64)
        found = _list_crossed(*before, *after, self.few, self.many, few, many)
        few, many = np.empty((2, found), dtype=np.int64)
        _list_crossed(*before, *after, self.few, self.many, few, many)
        u = 1.0 - (point.s_few[few] - point.s_many[many])
        most = max(LEAST_TAKEN, len(self.few))
        if len(u) > most:
            furthest = np.argpartition(-np.abs(u), most)[:most]
            few, many, u = few[furthest], many[furthest], u[furthest]
        slopes = (u < 0.0).astype(np.float64)
        self.of_few -= np.bincount(few, slopes, len(self.of_few))
        self.of_many -= np.bincount(many, slopes, len(self.of_many))
        self.few, self.many, self.slopes = map(np.append, (self.few, self.many, self.slopes), (few, many, slopes))
        return len(u) > 0


@kernel()
def _list_crossed(order, first, last, at, violated, free_few, free_many, few, many):
    """Count the pairs that are not free and have come to the other side of the kink; list as many as there is room for.

    ``order``, ``first`` and ``last`` are of the band before: pairs in it are free, those on either side of it had a
    slope of 1 or 0. Now the few are in order ``at``, and q < violated[j] are the violated pairs.
    """
    before, now, found = np.empty_like(order), np.empty_like(order), 0
    for q in range(order.size):
        before[order[q]], now[at[q]] = q, q
    for j in range(first.size):
        for q in range(np.int64(violated[j]) + np.int64(first[j])):
            i = at[q] if q < violated[j] else order[q - violated[j]]
            if (before[i] < last[j]) if q < violated[j] else (now[i] < violated[j]):
                continue
            is_free = False
            for p in range(free_few.size):
                is_free = is_free or (free_few[p] == i and free_many[p] == j)
            if not is_free:
                if found < few.size:
                    few[found], many[found] = i, j
                found += 1
    return found


@kernel()
def _list_pairs(order, first, last, n_pairs):
    """Return the rows of the few and of the many that the pairs in the band are of."""
    few, many, p = np.empty(n_pairs, dtype=np.int64), np.empty(n_pairs, dtype=np.int64), 0
    for j in range(first.size):
        for q in range(first[j], last[j]):
            few[p], many[p] = order[q], j
            p += 1
    return few, many
