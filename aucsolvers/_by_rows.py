"""Pairwise hinge in many features by the SVM of the rows: what SVMOR tries before Newton's steps, and beside them.

Where no pair's slope has to be 1, of a pair only its rows' sums of slopes count. If slopes with the sums that the SVM's
dual variables are exist, they are a dual point of the pairs' problem, and no pair is violated by the SVM's hard margin.
Its rows are far fewer than the pairs at the kink, which Newton's steps have to settle. Rows whose sums are too large
for slopes up to 1 are *outliers*, and not in that SVM: their pairs near the kink are rows of their own, z / 2, without
its bias, and the slopes of their other pairs are 0 or 1. With few of these, this is the pairs' problem in other words.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from aucsolvers._jit import kernel
from aucsolvers._rows import as_rows, zeros_in_lines
from aucsolvers.svm import descend_with_free_bias

NEAR = 0.01  # the kink, in units of the margin: pairs of outliers that are rows of their own
# So many times as many of them as rows are too many, or of so many stored values; so are more outliers than these and
# this part of a class, or of so many pairs. Of dense rows Newton's steps are cheap, and any outlier is too many.
MOST_NEAR, LARGEST_NEAR = 8, 2**25
FEW_OUTLIERS, PART_OUTLIERS, LARGEST_PAIRS = 2, 0.05, 2**22
# The mean slope is more than min P: where a lower bound of that is above this, too many pairs are beyond the kink; and
# where it already is at w = 0, of little use as a bound, above this
LARGEST_MEAN, MEAN_AT_ZERO = 0.05, 0.01
# Passes until there is a dual point: of sparse rows before any Newton step, the latter if they have led nowhere; before
# each step; where classes turn out to be far apart; and in all
FIRST_PASSES, BLIND_PASSES, PASSES_A_STEP, PASSES_APART, MOST_PASSES = 200, 100, 20, 500, 5000
EXACT = 1e-12  # part of a bound that rounding may leave


class DescentByRows:
    """Descent on the SVM of the rows, a part at a time; ``problem`` and ``run`` are SVMOR's."""

    def __init__(self, problem, run):
        self.problem, self.run = problem, run
        self.sizes = problem.few.shape[0], problem.many.shape[0]
        # the SVM's margin is 2, its w twice that of the pairs: of alpha so much is a slope, of a pair twice as much
        self.unit = 2.0 / (problem.lam * problem.k)
        self.outliers = np.zeros(sum(self.sizes), dtype=bool)  # the few first, here as in all that is of rows
        self.sums, self.bias = np.zeros(len(self.outliers)), 0.0  # of the slopes of rows' pairs, without outliers'
        self.pairs = _Pairs.of(self.outliers, *map(np.zeros, self.sizes))
        self.most_near = MOST_NEAR * len(self.outliers)
        if self.is_sparse:
            a_row = (problem.few.nnz + problem.many.nnz) / len(self.outliers)
            self.most_near = min(self.most_near, LARGEST_NEAR / (1.0 + 2.0 * a_row))
        self.has_arrived = self.has_led = False  # near an optimum of the SVM's; at a dual point
        self.visits = self._descend()

    @property
    def is_sparse(self):
        return sparse.issparse(self.problem.few)

    def begin(self):
        """Make the first passes, if they are cheap."""
        if self.is_sparse and self.run.lower_bound <= MEAN_AT_ZERO:
            self._make(BLIND_PASSES)
            if self.has_arrived:  # of classes that overlap, nowhere near
                self._make(FIRST_PASSES - BLIND_PASSES)

    def go_on(self, point):
        """Make some more beside a Newton step from there, many where classes are far apart."""
        if max(self.run.lower_bound, point.lower_bound) <= LARGEST_MEAN:
            self._make(PASSES_APART if self.problem.are_far_apart(point) else PASSES_A_STEP if self.is_sparse else 0)

    def _make(self, passes):
        """Make about so many passes, or all once a dual point was among them; none where this is not the way."""
        left = passes * len(self.outliers)
        while (left > 0 or self.has_led) and not self.run.done:
            visits = next(self.visits, None)
            if visits is None:
                return
            left -= visits

    def _descend(self):
        """Yield visits of rows, those of pairs counting twice, after each part."""
        problem, left, rng = self.problem, MOST_PASSES * len(self.outliers), np.random.default_rng(0)
        rows, d = _with_bias(problem.few, problem.many), problem.few.shape[1]
        is_few = np.repeat([True, False], self.sizes)
        bounds = self.unit * np.where(is_few, *self.sizes[::-1])
        while self.pairs is not None:
            core, pairs = np.flatnonzero(~self.outliers), self.pairs
            few, many, slopes = pairs.few[pairs.near], pairs.many[pairs.near], pairs.slopes[pairs.near]
            X, w0 = rows, np.zeros(rows.shape[1])
            if self.outliers.any():
                differences = 0.5 * (problem.few[few] - problem.many[many])
                differences.resize(len(few), d + 1)  # without a bias
                X = sparse.vstack([rows[core], differences], format="csr")
                w0[:d] = self.unit * problem.k * problem.pull(*pairs.beyond().sums(*self.sizes))
            for visits, found in descend_with_free_bias(
                X,
                d,
                np.append(np.where(is_few[core], 1.0, -1.0), np.ones(len(few))),
                np.append(bounds[core], np.full(len(few), 2.0 * self.unit)),
                rng,
                alpha=self.unit * np.append(self.sums[core], 2.0 * slopes),
                w0=w0,
                bias=self.bias,
            ):
                is_round_over = found is not None and self._look(core, *found)
                visits *= (len(core) + 2 * len(few)) / (len(core) + len(few))
                left -= visits
                yield visits
                if is_round_over:
                    break
                if left <= 0:
                    return
            else:
                return

    def _look(self, core, alpha, w, bias):
        """Show the run a dual point, if it is one. Tell whether outliers or their pairs have to be found anew."""
        problem, pairs, w = self.problem, self.pairs, 0.5 * w[: self.problem.few.shape[1]]
        self.has_arrived = True
        self.sums[core], self.bias = alpha[: len(core)] / self.unit, bias
        pairs.slopes[pairs.near] = np.minimum(alpha[len(core) :] / (2.0 * self.unit), 1.0)
        few, many = self.sums[: self.sizes[0]], self.sums[self.sizes[0] :]
        total = min(few.sum(), many.sum())
        if total <= 0.0:  # the bias is not there yet
            return False
        of_few, of_many = few * (total / few.sum()), many * (total / many.sum())
        s_few, s_many = problem.scores(w)
        self.pairs = pairs.sorted_anew(s_few, s_many)
        more = _overloaded(of_few, of_many, *self._room_for_outliers())
        if more is not None and not more.any():
            for own, of_pairs in zip((of_few, of_many), pairs.sums(*self.sizes), strict=True):
                own += of_pairs
            point = problem.look_apart(w, s_few, s_many, of_few, of_many, ~self.outliers)
            if point is not None:
                self.run.count(point)
                self.has_led = True
        elif self.pairs is pairs:  # else sums may be too large because of pairs on the wrong side
            self.pairs = None
            if more is not None:
                self.outliers |= more
                self.sums[more] = 0.0
                self.pairs = pairs.among(_Pairs.of(self.outliers, s_few, s_many))
        if self.pairs is not None and len(self.pairs.near) > self.most_near:
            self.pairs = None
        return self.pairs is not pairs

    def _room_for_outliers(self):
        """Return how many more there may be of the few, and of the many."""
        if not self.is_sparse:
            return 0, 0
        few, many = np.split(self.outliers, self.sizes[:1])
        return [
            min(int(FEW_OUTLIERS + PART_OUTLIERS * len(own)), LARGEST_PAIRS // len(other)) - np.count_nonzero(own)
            for own, other in ((few, many), (many, few))
        ]


@dataclass(frozen=True)
class _Pairs:
    """All pairs that have an outlier, and their slopes: those near the kink are free, the others are 0 or 1."""

    few: np.ndarray
    many: np.ndarray
    slopes: np.ndarray
    near: np.ndarray  # the places of those near the kink, ascending

    @classmethod
    def of(cls, outliers, s_few, s_many):
        """Find them, the few coming first in ``outliers``, with slopes by the scores."""
        is_few, is_many = outliers[: len(s_few)], outliers[len(s_few) :]
        out_few, out_many, others = np.flatnonzero(is_few), np.flatnonzero(is_many), np.flatnonzero(~is_few)
        few = np.append(np.repeat(out_few, len(is_many)), np.tile(others, len(out_many)))
        many = np.append(np.tile(np.arange(len(is_many)), len(out_few)), np.repeat(out_many, len(others)))
        u = 1.0 - s_few[few] + s_many[many]
        return cls(few, many, (u > 0.0).astype(np.float64), np.flatnonzero(np.abs(u) <= NEAR))

    def among(self, more):
        """Return ``more`` pairs with these: those near the kink stay so, with their slopes."""
        n_many = 1 + more.many.max()
        keys, near_keys = more.few * n_many + more.many, self.few[self.near] * n_many + self.many[self.near]
        _, ours, theirs = np.intersect1d(near_keys, keys, assume_unique=True, return_indices=True)
        slopes = more.slopes.copy()
        slopes[theirs] = self.slopes[self.near[ours]]
        return replace(more, slopes=slopes, near=np.union1d(more.near, theirs))

    def sorted_anew(self, s_few, s_many):
        """Return the pairs, those being near that came to the other side of the kink; themselves if none have."""
        positive = 1.0 - s_few[self.few] + s_many[self.many] > 0.0
        has_crossed = positive != (self.slopes > 0.0)
        has_crossed[self.near] = False
        if not has_crossed.any():
            return self
        return replace(self, near=np.union1d(self.near, np.flatnonzero(has_crossed)))

    def beyond(self):
        """Return them with slopes of 0 near the kink."""
        slopes = self.slopes.copy()
        slopes[self.near] = 0.0
        return replace(self, slopes=slopes)

    def sums(self, n_few, n_many):
        """Return the sums of slopes of each of the few, and of each of the many."""
        return np.bincount(self.few, self.slopes, n_few), np.bincount(self.many, self.slopes, n_many)


def are_sums_of_slopes(of_few, of_many):
    """Tell whether there are slopes in [0, 1] of all pairs with these sums, of equal totals (Gale 1957; Ryser 1957).

    There are if no number of rows of the few, those of the largest sums first, have more than the many can give them.
    """
    largest_first, ordered = np.cumsum(np.sort(of_few)[::-1]), np.sort(of_many)
    below, counts = np.append(0.0, np.cumsum(ordered)), np.arange(1, len(of_few) + 1)
    place = np.searchsorted(ordered, counts)
    shared = below[place] + counts * (len(ordered) - place)
    return bool(np.all(largest_first <= (1.0 + EXACT) * shared))


def _overloaded(of_few, of_many, most_few, most_many):
    """Return which rows, the few first, leave sums of slopes if they go; None if they are more than these numbers."""
    sums, left = (of_few.copy(), of_many.copy()), [most_few, most_many]
    overloaded = np.zeros(len(of_few), dtype=bool), np.zeros(len(of_many), dtype=bool)
    while not are_sums_of_slopes(*sums):
        # a row's sum, of what the rows of the other class could give it
        loads = [own / np.minimum(other, 1.0).sum() for own, other in (sums, sums[::-1])]
        if any(np.count_nonzero(load > 1.0) > most for load, most in zip(loads, left, strict=True)):
            return None
        c = int(loads[1].max() > loads[0].max())
        row, total = sums[c].argmax(), sums[c].sum()
        if left[c] == 0 or sums[c][row] == total:
            return None
        left[c] -= 1
        other = sums[1 - c]
        other *= 1.0 - sums[c][row] / total
        sums[c][row], overloaded[c][row] = 0.0, True
    return np.concatenate(overloaded)


def _with_bias(few, many):
    """Return all rows, the few first, with a column of ones behind; dense rows are filled up to whole cache lines."""
    (n_few, d), n_many = few.shape, many.shape[0]
    if sparse.issparse(few):
        # where SciPy would hold four copies at a time
        size = few.nnz + many.nnz + n_few + n_many
        index = few.indices.dtype if size < 2**31 else np.int64
        rows = np.empty(size), np.empty(size, index), np.zeros(n_few + n_many + 1, index)
        _append_with_bias(as_rows(few), 0, d, *rows)
        _append_with_bias(as_rows(many), n_few, d, *rows)
        return sparse.csr_array(rows, shape=(n_few + n_many, d + 1))
    rows = zeros_in_lines(n_few + n_many, d + 8 - d % 8)
    rows[:n_few, :d], rows[n_few:, :d], rows[:, d] = few, many, 1.0
    return rows


@kernel()
def _append_with_bias(csr, first, column, data, indices, indptr):
    """Copy rows to row ``first`` and those after it, each with a 1 in that column behind."""
    values, columns, starts = csr
    for i in range(starts.size - 1):
        place = indptr[first + i]
        for e in range(starts[i], starts[i + 1]):
            data[place], indices[place] = values[e], columns[e]
            place += 1
        data[place], indices[place] = 1.0, column
        indptr[first + i + 1] = place + 1
