"""The hinge loss of single rows, as the SVMs share it: costs, dual bounds, certificate.

With costs C_i > 0 and margins y_i f(x_i), sum_i C_i loss(1 - y_i f(x_i)) has a dual in 0 <= alpha_i <= U_i with a
diagonal term sum_i D_ii alpha_i^2 / 2 (Hsieh et al. 2008, eq. 2-4, whose C is one number):

    hinge          loss(t) = max(0, t)        D_ii = 0             U_i = C_i
    squared hinge  loss(t) = max(0, t)^2      D_ii = 1 / (2 C_i)   U_i = infinity
"""

import math

import numpy as np
from sklearn.utils.validation import check_consistent_length

from aucsolvers._jit import kernel
from aucsolvers._rows import REDUCE

LOSSES = ("hinge", "squared_hinge")
NO_WEIGHTS = str, bytes, complex, np.complexfloating, np.datetime64, np.timedelta64  # objects that NumPy would convert

NEGLIGIBLE_GAIN = 1e-12  # relative decrease of P below its value at w = 0 with the best b that is only rounding
NEAR_KINK = 1e-6  # margins: beyond it a row has no loss, whatever its score is rounded to

FLAT = 0.1  # a line search ends where the slope has fallen to this part of the first one
MAX_TRIALS = 30  # of steps, in a line search
# Of ``best_multiple``: the part of the gap that is left above the least, the first step away from 1, and the ratio from
# which on two ends are of different magnitudes.
SCALED_TO, FIRST_STRETCH, FAR_APART = 0.01, 1e-3, 4.0
# Of ``least_along``: kinks that are sorted at once, and how many of more tell about the middle one.
SORTED, PIVOTED_BY = 2048, 201
TINY = np.finfo(np.float64).tiny


def row_costs(C, class_weight, classes, y, sample_weight):
    """Return C_i = C * class weight * sample weight of every row, y being +-1; zero for a row to be left out."""
    if sample_weight is None and class_weight is None:
        return np.full(len(y), float(C))
    weight = np.ones(len(y)) if sample_weight is None else as_numbers(sample_weight)
    if weight.ndim != 1:
        raise ValueError(f"Expected sample_weight of shape (n_samples,), got {weight.shape}: pass one per row.")
    check_consistent_length(y, weight)
    codes = (y > 0).astype(int)
    if not all(weight[codes == code].any() for code in (0, 1)):
        raise ValueError("Expected non-zero weights in both classes, got none in one class: check sample_weight.")
    if class_weight is not None:
        weight *= _class_weights(class_weight, classes, codes, weight)[codes]
    with np.errstate(over="ignore"):
        cost = float(C) * weight
    cost[np.abs(cost) < np.finfo(np.float64).tiny] = 0.0  # 1/C_i would overflow
    if not (np.isfinite(cost).all() and (cost >= 0).all()):
        raise ValueError(
            "Expected weights whose product with C is finite and >= 0, got a negative, infinite or NaN one: check "
            "sample_weight, class_weight and C."
        )
    if not all(cost[codes == code].any() for code in (0, 1)):
        raise ValueError(
            "Expected non-zero weights in both classes, got none in one class, or so small that their product with C "
            "is 0: check sample_weight, class_weight and C."
        )
    return cost


def as_numbers(sample_weight):
    """Return a copy of the weights as float64; what NumPy would convert, words say, is refused."""
    weight = np.asarray(sample_weight)
    strange = None if weight.dtype.kind in "biufO" else weight.dtype
    if weight.dtype.kind == "O":
        strange = next((repr(one) for one in weight.flat if isinstance(one, NO_WEIGHTS)), None)
    if strange is None:
        try:
            return weight.astype(np.float64)
        except (TypeError, ValueError, OverflowError):  # of objects
            strange = "other objects"
    raise ValueError(f"Expected sample_weight of real numbers, got {strange}: pass one number per row.")


def _class_weights(class_weight, classes, codes, weight):
    """Return the weights of the two classes; of balanced ones without the long checks of scikit-learn."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        sums = np.bincount(codes, weights=weight)
        return sums.sum() / (2.0 * sums)
    strangers = [label for label in class_weight if label not in classes.tolist()]
    if strangers:
        raise ValueError(
            f"Expected class_weight for labels out of {classes.tolist()}, got one for {strangers[0]!r}. Name these."
        )
    return np.array([class_weight.get(label, 1.0) for label in classes.tolist()], dtype=np.float64)


def dual_bounds(cost, squared):
    """Return U_i and D_ii."""
    return (np.full(len(cost), np.inf), 0.5 / cost) if squared else (cost, np.zeros(len(cost)))


def objective_of_best_constant(negative, positive, squared, fit_intercept):
    """Return the least 1/2 b^2 + C- loss(1 + b) + C+ loss(1 - b), P at w = 0, for the classes' sums of C_i."""
    if not fit_intercept:
        return negative + positive
    if squared:
        b = 2.0 * (positive - negative) / (1.0 + 2.0 * (positive + negative))
        return 0.5 * b * b + negative * (1.0 + b) ** 2 + positive * (1.0 - b) ** 2
    b = min(1.0, max(-1.0, positive - negative))
    return 0.5 * b * b + negative * (1.0 + b) + positive * (1.0 - b)


def is_no_better_than_a_constant(svm, objective, cost, positive):
    """Tell whether an SVM's objective is no lower than with w = 0 and the best b, but for rounding.

    ``cost`` holds the C_i, ``positive`` is a mask. Then w = 0 is the optimum, as where it costs less to misclassify a
    rare class altogether than to separate it, and what a solver leaves of w hangs on the order of the rows.
    """
    sums = cost[~positive].sum(), cost[positive].sum()
    constant = objective_of_best_constant(*sums, svm.loss == "squared_hinge", svm.fit_intercept)
    return objective >= (1.0 - NEGLIGIBLE_GAIN) * constant


def is_certified(gap, rounding, target):
    """Tell whether a gap will do with what rounding may add; where that alone is more, no further step would help."""
    return gap <= target and (gap + rounding <= target or rounding > target)


def may_have_loss(margins, rounding=NEAR_KINK):
    """Tell which rows have a loss, or might have one but for the rounding of their scores: at most so much."""
    return margins < 1.0 + np.minimum(NEAR_KINK, rounding)


@kernel(fastmath=REDUCE, error_model="numpy", forceinline=True)
def loss_and_gap(margins, alpha, cost, squared):
    """Return sum_i C_i loss(1 - m_i) and the duality gap at margins m_i = y_i f(x_i) that belong to alpha.

    As ||f||^2 = sum_i alpha_i m_i, the gap is a sum over rows: C_i loss(t_i) - alpha_i t_i + D_ii alpha_i^2 / 2
    with t_i = 1 - m_i. Split t = t+ - t-, and for either loss each term is a sum of non-negative ones,

        hinge: alpha t- + (C - alpha) t+          squared hinge: alpha t- + C (t+ - D alpha)^2,

    so that no large numbers are subtracted and the gap is accurate however small it is.
    """
    charged = gap = 0.0
    for i in range(margins.size):
        slack = 1.0 - margins[i]
        over, under = max(slack, 0.0), max(-slack, 0.0)
        if squared:
            charged += cost[i] * over * over
            misfit = over - 0.5 * alpha[i] / cost[i]
            gap += alpha[i] * under + cost[i] * misfit * misfit
        else:
            charged += cost[i] * over
            gap += alpha[i] * under + (cost[i] - alpha[i]) * over
    return charged, gap


@kernel(fastmath=REDUCE)
def best_multiple(margins, cost, squared, square, along, gap):
    """Return the s > 0 for which w -> s w lowers P most, about: to within a hundredth of the gap that is left there.

    P(s w) = s^2/2 square - s along + sum_i C_i loss(1 - s m_i), square being ||w||^2 and m_i the margins at w; no row
    is read. A method that nears its optimum from the dual, or by random steps, leaves w a bad point of P: short of a
    kink a row costs C_i, beyond it next to nothing, and what all rows have in common, the intercept, errs in all.

    The slope rises with s, so a bracket of its sign change is kept, and cut where the slope's chord crosses 0 and in
    the middle, by turns: of the hinge it may jump there. Between ends of different magnitudes the middle is that of
    their logarithms: rows of unlike scales may leave w a billion times too long. 1 if nothing lower is found.
    ``gap`` is that of w.
    """
    if not (square > 0.0 and 0.0 < gap < np.inf):
        return 1.0
    low, slope_low, high, slope_high, scale = 0.0, -np.inf, np.inf, np.inf, 1.0
    stretch, at_1, least, best = FIRST_STRETCH, 0.0, np.inf, 1.0
    for trial in range(MAX_TRIALS):
        slope, value = scale * square - along, scale * (0.5 * scale * square - along)
        for i in range(margins.size):
            over = max(1.0 - scale * margins[i], 0.0)
            weight = cost[i] * over if squared else cost[i] * np.float64(over > 0.0)
            value += weight * over if squared else cost[i] * over
            slope -= margins[i] * (2.0 * weight if squared else weight)
        at_1 = value if trial == 0 else at_1
        if value < least:
            least, best = value, scale
        if slope < 0.0:
            low, slope_low = scale, slope
        else:
            high, slope_high = scale, slope
        if abs(slope) * (high - low) <= SCALED_TO * (gap + least - at_1) or trial == MAX_TRIALS - 1:
            break
        if high == np.inf:
            scale += stretch
        elif low == 0.0:
            scale = max(scale - stretch, scale / (2.0 + stretch))
        elif high > FAR_APART * low:
            scale = math.sqrt(low * high)
        else:
            chord = min(0.9, max(0.1, slope_low / (slope_low - slope_high)))
            scale = low + (chord if trial % 2 else 0.5) * (high - low)
        stretch *= 4.0
    return best


def least_multiple(margins, cost, along, square):
    """Return the t for which P(t w) is least, exactly; ``along`` is the linear term's w0'w, ``square`` ||w||^2."""
    return least_along(np.zeros(len(margins)), margins, cost, -along, square)


def least_along(margins, rise, cost, along, square):
    """Return the t for which P is least on a line w + t step, exactly, whatever its sign; 0 where rounding leaves none.

    P(w + t step) = t^2/2 square + t along + sum_i C_i max(0, 1 - m_i - t r_i) + a constant: ``margins`` are those at w,
    ``rise`` what step adds to each. The slope is linear in t but for a jump of C_i |r_i| where a row's margin passes 1.
    Halves of these kinks are put aside until few are left to be sorted: O(n).
    """
    kinks = np.flatnonzero(rise)
    places, jumps = (1.0 - margins[kinks]) / rise[kinks], cost[kinks] * np.abs(rise[kinks])
    # the slope at t = 0 with all kinks still ahead, which those that are passed add their jumps to
    base, begin = along - cost @ np.maximum(rise, 0.0), -np.inf
    while len(places) > SORTED:
        pivot = np.median(places[:: max(1, len(places) // PIVOTED_BY)])
        first = places <= pivot
        if first.all() or not np.isfinite(pivot):
            break
        passed = base + jumps[first].sum()
        if passed + pivot * square >= 0.0:
            places, jumps = places[first], jumps[first]
        else:
            places, jumps, base, begin = places[~first], jumps[~first], passed, pivot
    order = np.argsort(places)
    zeros = -(base + np.append(0.0, np.cumsum(jumps[order]))) / max(square, TINY)  # of each piece's line
    begins, ends = np.append(begin, places[order]), np.append(places[order], np.inf)
    piece = int(np.argmax(zeros <= ends))  # the first that the slope is not below 0 at the end of
    t = max(zeros[piece], begins[piece])
    return float(t) if np.isfinite(t) else 0.0
