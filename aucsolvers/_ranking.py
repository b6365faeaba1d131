"""Scores in order: sorting them, locating others among them, and what one sort tells of a ranking."""

import numpy as np

from aucsolvers._jit import kernel

CROWDED = 16  # moves a score, from which its sort by insertion is given up
TIED_WITHIN = 1e-12  # of the largest scores, or of the terms of their sums
ROUNDED_MIDDLE = 1e-13  # of a gap: its middle may be off by so much
FEW = 2000  # scores up to which numpy's sort is the faster one; from there on radix sort is, up to seven times


class Ranking:
    """The scores of the two classes, ``pos`` and ``neg``, of which only the first have to be sorted."""

    def __init__(self, scores, positive):
        self._scores, self._positive = scores, positive
        self.pos, self.neg = _by_class(scores, positive.view(np.uint8), np.count_nonzero(positive))

    @property
    def is_finite(self):
        """Whether all scores are finite."""
        return bool(np.isfinite(self._scores).all())

    def auc_and_threshold(self):
        """Return what ``metrics.auc_of_classes`` and ``metrics.best_gmean_threshold`` return for finite scores."""
        doubled_wins, low, high = _best_cut(*bucket_grid(ascending(self.pos)), self.neg)
        return doubled_wins / (2 * self.pos.size * self.neg.size), between(low, high)

    def pair_hinge(self):
        """Return 1/k sum_ij max(0, 1 - s_i + s_j) and its slope in each score.

        Where scores are whole numbers, a margin of exactly 1 has slope 0.

        With c the number of a row's violated pairs, s_i - 1 < s_j, both are sums over rows: the loss is
        c_neg's_neg - c_pos'(s_pos - 1), the slopes -c_pos and c_neg, all over k. Any shift of all scores cancels;
        centring, by a whole number, keeps a large common offset out of the rounding.
        """
        n_pos, n_neg = self.pos.size, self.neg.size
        places = [np.flatnonzero(rows) for rows in (self._positive, ~self._positive)]
        # the places of the rows in ascending order of their scores
        of_pos, of_neg = (rows[np.argsort(self._scores[rows])] for rows in places)
        centred = self._scores - np.round(self.neg.mean())
        counts = np.empty(len(centred))
        counts[of_pos], counts[of_neg] = _count_violations(centred[of_pos] - 1.0, centred[of_neg])
        loss = max(0.0, float(counts @ centred - counts[of_pos].sum()))
        return loss / (n_pos * n_neg), counts / (n_pos * n_neg)


def between(low, high):
    """Return the middle of two neighbouring scores, between which there is a cut: low <= middle < high."""
    middle = low / 2 + high / 2
    if abs(middle) <= ROUNDED_MIDDLE * (high - low):
        middle = 0.0  # of scores with the threshold in them already: not the rounding of it
    return middle if low <= middle < high else low  # rounding may reach high


def tied(scores, unit):
    """Return scores rounded to multiples of a unit, what is left of rounding in them: equal rows then tie."""
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = unit * np.round(scores / unit) if unit > 0.0 else scores
    return rounded if np.isfinite(rounded).all() else scores


def grouped(scores, width):
    """Return finite scores with the lowest of each group in place of all: of those up to a width above it."""
    order = np.argsort(scores)
    lowest = scores[order]
    _group(lowest, width)
    groups = np.empty_like(lowest)
    groups[order] = lowest
    return groups


def ascending(scores):
    """Return finite scores, float64, in ascending order (0.0 and -0.0 are equal, in either order)."""
    return np.sort(scores) if len(scores) <= FEW else _radix_sorted(scores)


def _radix_sorted(scores):
    return _sort_bits(np.array(scores).view(np.uint64)).view(np.float64)


def auc_of_classes(positive_scores, negative_scores):
    """Return the AUC from the scores of each class (unchecked): the smaller one is sorted, the other located in it."""
    # s_i > s_j or -s_j > -s_i, so that either class may be the one that wins
    few, many = sorted((np.asarray(positive_scores, float), -np.asarray(negative_scores, float)), key=len)
    return won_pairs(*bucket_grid(ascending(few)), -many) / (len(few) * len(many))


# Kernels ---------------------------------------------------------------------------------------------------------


@kernel()
def _group(ordered, width):
    """Set each of ascending scores to the lowest of its group."""
    lowest = ordered[0]
    for i in range(ordered.size):
        if ordered[i] - lowest > width:
            lowest = ordered[i]
        ordered[i] = lowest


@kernel()
def _by_class(scores, group, n_pos):
    """Return the scores of either class, in order.

    Each is written where the next of either class belongs, and only the one counted stays: a choice by class would be
    mispredicted at every row of the rare one. Both have a place to spare.
    """
    pos, neg = np.empty(n_pos + 1), np.empty(scores.size - n_pos + 1)
    seen = 0
    for i in range(scores.size):
        pos[seen] = neg[i - seen] = scores[i]
        seen += group[i]
    return pos[:-1], neg[:-1]


@kernel()
def _sort_bits(keys):
    """Return the bits of doubles in the numbers' ascending order, by six passes over 11 bits each; may overwrite them.

    A double's bits sort as its magnitude; with the sign bit set for positive numbers, and all bits turned for negative
    ones, they sort as the numbers.
    """
    n, top, digit = keys.size, np.uint64(1) << np.uint64(63), np.uint64(2047)
    spare, starts = np.empty(n, np.uint64), np.zeros((6, 2048), np.int64)
    for i in range(n):
        key = keys[i]
        keys[i] = key = ~key if key & top else key | top
        for p in range(6):
            starts[p, (key >> np.uint64(11 * p)) & digit] += 1
    for p in range(6):
        start, shift, total, largest = starts[p], np.uint64(11 * p), 0, 0
        for b in range(2048):
            count = start[b]
            start[b] = total
            total += count
            largest = max(largest, count)
        if largest == n:
            continue  # all keys have the same digit here
        for i in range(n):
            b = (keys[i] >> shift) & digit
            spare[start[b]] = keys[i]
            start[b] += 1
        keys, spare = spare, keys
    for i in range(n):
        key = keys[i]
        keys[i] = key ^ top if key & top else ~key
    return keys


@kernel(error_model="numpy")
def argsort(scores):
    """Return the places of the scores in ascending order: sorted into buckets, in which insertion puts few right.

    Where scores crowd together, so that insertion would take long, Shell's sort takes over.
    """
    n = scores.size
    low = high = scores[0]
    for i in range(1, n):
        low = scores[i] if scores[i] < low else low
        high = scores[i] if scores[i] > high else high
    scale = n / (high - low)
    scale = scale if scale < np.inf else 0.0  # of equal scores or none; of infinite ones it may be no number
    bucket, start = np.empty(n, dtype=np.uint32), np.zeros(n + 2, dtype=np.uint32)
    for i in range(n):
        position = (scores[i] - low) * scale
        position = position if position > 0.0 else 0.0
        bucket[i] = np.uint32(position if position < n else n)
        start[bucket[i] + np.uint32(1)] += np.uint32(1)
    for b in range(n):
        start[b + 1] += start[b]
    order = np.empty(n, dtype=np.int64)
    for i in range(n):
        order[start[bucket[i]]] = i
        start[bucket[i]] += np.uint32(1)
    if not _insert(scores, order, 1, CROWDED * n):
        gap = 1
        while gap < n // 3:
            gap = 3 * gap + 1
        while gap > 0:
            _insert(scores, order, gap, n * n)
            gap //= 3
    return order


@kernel()
def _insert(scores, order, gap, most):
    """Sort every gap-th place by insertion; return whether it took no more than so many moves, or give up."""
    moves = 0
    for q in range(gap, order.size):
        i, p = order[q], q
        while p >= gap and scores[order[p - gap]] > scores[i]:
            order[p] = order[p - gap]
            p -= gap
            moves += 1
        order[p] = i
        if moves > most:
            return False
    return True


@kernel()
def bucket_grid(ordered):
    """Return the sorted scores, infinity after them, with a grid of buckets over them: (ordered, start, origin, scale).

    A value v belongs to bucket (v - origin) * scale, whose scores are at start[bucket] <= place < start[bucket + 1].
    Scores without a span, or with one that overflows, are all in the first.
    """
    n = len(ordered)
    buckets = 4 * n
    span = ordered[-1] - ordered[0]
    scale = buckets / span if 1e-300 < span < np.inf else 0.0
    start, ended = np.zeros(buckets + 1, dtype=np.uint32), np.empty(n + 1)
    for i in range(n):
        start[_bucket(ordered[i], ordered[0], scale, buckets - 1.0) + 1] += 1
        ended[i] = ordered[i]
    ended[n] = np.inf
    for bucket in range(buckets):
        start[bucket + 1] += start[bucket]
    return ended, start, ordered[0], scale


@kernel(forceinline=True)
def _bucket(value, origin, scale, last):
    """Return a value's bucket, up to the last; it never falls as the value rises, rounding included."""
    position = (value - origin) * scale
    position = position if position > 0.0 else 0.0  # also where infinity times no scale is no number
    return np.uint32(position if position < last else last)


@kernel(forceinline=True)
def count_below(ordered, start, origin, scale, value):
    """Return #{scores < value}, from the start of the value's bucket, which has a quarter of a score on average.

    The bucket number never falls as the value rises: lower buckets hold only lower scores, higher ones only higher or
    equal ones. Two steps without a branch, which no processor could predict, are nearly always enough.
    """
    bucket = _bucket(value, origin, scale, len(start) - 2.0)
    place, high = start[bucket], start[bucket + np.uint32(1)]
    place += np.uint32(ordered[place] < value)
    place += np.uint32(ordered[place] < value)
    while ordered[place] < value and place < high:
        middle = (place + high) >> np.uint32(1)
        if ordered[middle] < value:
            place = middle + np.uint32(1)
        else:
            high = middle
    return place


@kernel()
def won_pairs(ordered, start, origin, scale, many):
    """Return the number of pairs with ordered[q] > many[j], ties counting one half, from a bucket grid."""
    twice, n = 0, len(ordered) - 1
    for j in range(len(many)):
        below = count_below(ordered, start, origin, scale, many[j])
        not_above = below
        if ordered[below] == many[j]:
            not_above = count_below(ordered, start, origin, scale, np.nextafter(many[j], np.inf))
        twice += 2 * n - below - not_above
    return 0.5 * twice


@kernel()
def _best_cut(ordered, start, origin, scale, neg):
    """Return twice the pairs that positives, in a bucket grid, win against negatives, and the gap to cut in.

    A cut calls what is below it negative. TP * TN orders cuts as G-mean does, and in integers equal means equal; of
    equal cuts the one in the widest gap wins, then the lowest. Between two positives next to each other TP is the same,
    so that the cut right below the upper one is the best. Without a cut above 0 the gap is the point at the largest
    score.
    """
    n_pos, wins = len(ordered) - 1, 0
    # of each place: the number of negatives between that positive and the one before, and the largest of them
    count, largest, top = np.zeros(n_pos + 1, dtype=np.int64), np.empty(n_pos + 1), ordered[n_pos - 1]
    for p in range(n_pos + 1):
        largest[p] = -np.inf
    for j in range(len(neg)):
        below = place = count_below(ordered, start, origin, scale, neg[j])
        if ordered[below] == neg[j]:
            place = count_below(ordered, start, origin, scale, np.nextafter(neg[j], np.inf))
        wins += 2 * n_pos - below - place
        count[place] += 1
        largest[place] = max(largest[place], neg[j])
        top = max(top, neg[j])
    n, best, low, high = 0, 0, top, top
    for p in range(n_pos):
        n += count[p]
        merit = (n_pos - p) * n
        if merit < best or merit == 0 or (p > 0 and ordered[p] == ordered[p - 1]):
            continue
        before, after = largest[p] if count[p] > 0 else ordered[p - 1], ordered[p]
        # halves, so that the distance of two huge scores does not overflow
        if merit > best or after / 2 - before / 2 > high / 2 - low / 2:
            best, low, high = merit, before, after
    return wins, low, high


@kernel()
def _count_violations(shifted, neg):
    """Return -c of each positive and c of each negative, given the ascending s_i - 1 and s_j: pairs with s_i - 1 < s_j.

    Both sides compare the same two rounded numbers, so that the counts of the two classes have the same sum.
    """
    of_pos, of_neg = np.empty(shifted.size), np.empty(neg.size)
    not_above = 0
    for p in range(shifted.size):
        while not_above < neg.size and neg[not_above] <= shifted[p]:
            not_above += 1
        of_pos[p] = not_above - neg.size
    below = 0
    for n in range(neg.size):
        while below < shifted.size and shifted[below] < neg[n]:
            below += 1
        of_neg[n] = below
    return of_pos, of_neg
