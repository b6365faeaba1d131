"""Metrics of ranking and of imbalanced classification, and the two pairwise objectives, all in O(n log n).

Labels ``y`` are any two values, {-1, +1} and {0, 1} among them: the larger one is the positive class. Scores are
finite. Both have shape (n_samples,), as has ``predicted``, of y's labels; anything else is a ValueError that says what.
All solvers share this notation: pairs (i, j) of a positive x_i and a negative x_j, z_ij = x_i - x_j, k = n_pos * n_neg
pairs, and the two objectives

    hinge   P(w) = lam/2 ||w||^2 + 1/k  sum_ij max(0, 1 - w'z_ij)
    square  Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'z_ij)^2

No function enumerates the pairs. Functions that take ``positive_scores, negative_scores`` are the unchecked inner
floor, which the solvers share; the others validate their input.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_ndtr, logit
from scipy.stats import rankdata
from sklearn import metrics as sklearn_metrics

from aucsolvers._ranking import Ranking, ascending, auc_of_classes, between, grouped, tied

Z_95 = 1.959963984540054  # the 97.5 % point of the standard normal distribution
IQR_OF_NORMAL = 1.349  # interquartile range of the normal distribution, in standard deviations
MOST_POINTS = 200  # quantiles that stand for a class of more rows
GRID_POINTS = 33  # cuts tried at quantiles of either class, and between the medians
SCORES_KNOWN_TO = 1e-5  # of their spread: what a solver that is nearly exact leaves between equal ones
REMOTE = 100  # one score in so many, at either end, may be so far away that it does not count for the spread
SMOOTHING_ERRORS = 2.0  # standard errors that a smoothed cut may cost, which is to spare them
LARGEST_EXACT = 2.0**53  # from there on float64 has not all whole numbers
LEAST_BANDWIDTH = 1e-12  # relative to the largest score: below, a class's scores differ by rounding


class DeLong(NamedTuple):
    """An AUC, its DeLong variance and a 95 % interval; the last three are nan where the variance is undefined."""

    auc: float
    variance: float
    low: float
    high: float


class DeLongPaired(NamedTuple):
    """The difference of two AUCs on the same rows, its variance, and the two-sided z test of no difference."""

    difference: float
    variance: float
    z: float
    p_value: float


# Ranking ---------------------------------------------------------------------------------------------------------


def auc(y, scores):
    """Return P(s(x+) > s(x-)) + P(s(x+) = s(x-))/2 (Mann-Whitney: ties count one half).

    >>> auc([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    0.75
    """
    positive, scores = _check_scores(y, scores)
    return auc_of_classes(scores[positive], scores[~positive])


def roc_curve_points(y, scores):
    """Return (fpr, tpr, thresholds), from (0, 0) at threshold +inf to (1, 1), collinear points dropped."""
    positive, scores = _check_scores(y, scores)
    return sklearn_metrics.roc_curve(positive, scores)


def average_precision(y, scores):
    """Return the average precision: the step-wise area under the precision-recall curve."""
    positive, scores = _check_scores(y, scores)
    return float(sklearn_metrics.average_precision_score(positive, scores))


def delong(y, scores, groups=None):
    """Return the AUC with DeLong's variance and ``logit_interval``'s 95 % interval.

    ``groups`` has a value for each row, shape (n_samples,), that is the same in rows that depend on each other, such as
    the visits of one patient: the variance is then Obuchowski's, which counts groups in place of rows. Groups of one
    row make it DeLong's.

    With a single positive or a single negative, or those of a single group, the variance is undefined: variance, low
    and high are nan. When every placement value is the same (perfect separation, all scores tied) the variance is 0 and
    the interval is a point, which says that the normal approximation has nothing to work on, not that the AUC is known
    exactly.

    References
    ----------
    X. Sun, W. Xu, "Fast implementation of DeLong's algorithm", IEEE Signal Processing Letters 21(11), 2014.
    N. A. Obuchowski, "Nonparametric analysis of clustered ROC curve data", Biometrics 53(2), 1997.

    Examples
    --------
    >>> delong([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8]).auc
    0.75
    """
    positive, scores = _check_scores(y, scores)
    of_positives, of_negatives = _placements(positive, scores)
    area = float(of_positives.mean())
    variance = _variance_of_area(positive, of_positives, of_negatives, groups)
    if math.isnan(variance):
        return DeLong(area, variance, math.nan, math.nan)
    return DeLong(area, variance, *logit_interval(area, variance))


def logit_interval(area, variance):
    """Return the 95 % interval of an AUC of this variance that is normal on the scale of log(A / (1 - A)).

    An AUC near 1 is known better upwards than downwards, so A +- 1.96 sd holds the truth too rarely where positives
    are few: for means over five folds of 20 positive and 180 negative normal scores in 85 % of 1500 draws where the AUC
    is 0.96 (this one in 94 %), and in 92 % where it is 0.76 (94 %). Of ten positives either is too narrow: 76 and 85 %
    at 0.96. nan if the variance is; a point if it is 0.

    References
    ----------
    M. S. Pepe, "The Statistical Evaluation of Medical Tests for Classification and Prediction", 2003, section 5.2.4.

    Examples
    --------
    >>> [round(end, 3) for end in logit_interval(0.9, 0.04**2)]
    [0.79, 0.956]
    """
    if not (0 <= area <= 1 or math.isnan(area)) or variance < 0:
        raise ValueError(f"Expected an AUC in [0, 1] and a variance >= 0, got {area!r} and {variance!r}. Check both.")
    if math.isnan(variance):
        return math.nan, math.nan
    if variance == 0 or not 0 < area < 1:
        return area, area
    centre, half = logit(area), Z_95 * math.sqrt(variance) / (area * (1.0 - area))
    return float(expit(centre - half)), float(expit(centre + half))


def delong_paired(y, scores_a, scores_b, groups=None):
    """Test whether two scorers of the same rows have the same AUC; ``difference`` is AUC(a) - AUC(b).

    The AUC is a mean of placement values over either class, so the variance of a difference is that of the mean
    placement differences: no 2 x 2 covariance is needed. ``groups`` are as in ``delong``. z and p_value are nan where
    the variance is undefined (one row, or group, in a class), or 0 while the AUCs differ; two scorers that rank alike
    give z = 0, p = 1.
    """
    positive, scores_a = _check_scores(y, scores_a)
    _, scores_b = _check_scores(y, scores_b)
    of_positives, of_negatives = (
        a - b for a, b in zip(_placements(positive, scores_a), _placements(positive, scores_b), strict=True)
    )
    difference = float(of_positives.mean())
    variance = _variance_of_area(positive, of_positives, of_negatives, groups)
    if variance > 0:
        z = difference / math.sqrt(variance)
    else:
        z = 0.0 if variance == 0 and abs(difference) <= np.finfo(float).eps else math.nan
    return DeLongPaired(difference, variance, z, math.erfc(abs(z) / math.sqrt(2)))


def _placements(positive, scores):
    """Return each row's placement value: the share of the other class that it is ranked rightly against.

    A midrank among all rows counts the rows below (ties one half) of both classes; taking away the midrank within
    the row's own class leaves the opposite class (Sun & Xu 2014).
    """
    overall = rankdata(scores)
    n_pos = np.count_nonzero(positive)
    n_neg = len(scores) - n_pos
    of_positives = (overall[positive] - rankdata(scores[positive])) / n_neg
    of_negatives = 1.0 - (overall[~positive] - rankdata(scores[~positive])) / n_pos
    return of_positives, of_negatives


def _variance_of_mean(values):
    return float(values.var(ddof=1) / len(values)) if len(values) > 1 else math.nan


def _variance_of_area(positive, of_positives, of_negatives, groups):
    """Return the variance of the mean placement value of either class, nan where a class has one row, or group.

    For groups it is Obuchowski's (1997, section 2): with a_g the sum of a group's positive placement values less as
    many times the mean, b_g that of its negative ones, I+, I- and I the groups with positives, negatives, any rows,

        I+/(I+ - 1) sum a_g^2 / n+^2  +  I-/(I- - 1) sum b_g^2 / n-^2  +  2 I/(I - 1) sum a_g b_g / (n+ n-).
    """
    if groups is None:
        return _variance_of_mean(of_positives) + _variance_of_mean(of_negatives)
    groups, sides = _check_groups(groups, positive), ((positive, of_positives), (~positive, of_negatives))
    n = groups.max() + 1
    sums = [np.bincount(groups[rows], (values - values.mean()) / len(values), n) for rows, values in sides]
    held = [len(np.unique(groups[rows])) for rows, _ in sides]
    if min(held) < 2:
        return math.nan
    of_classes = float(sum(count / (count - 1) * (part @ part) for count, part in zip(held, sums, strict=True)))
    variance = of_classes + float(2 * n / (n - 1) * (sums[0] @ sums[1]))
    # where each group has as many of either class, and one score, the parts are opposites, but for their rounding
    return variance if variance > n * np.finfo(float).eps * of_classes else 0.0


# Decisions -------------------------------------------------------------------------------------------------------


def sensitivity(y, predicted):
    """Return the share of positives predicted positive (the true positive rate)."""
    positive, called = _check_predicted(y, predicted)
    return float(called[positive].mean())


def specificity(y, predicted):
    """Return the share of negatives predicted negative (the true negative rate)."""
    positive, called = _check_predicted(y, predicted)
    return float(1.0 - called[~positive].mean())


def gmean(y, predicted):
    """Return the geometric mean of sensitivity and specificity.

    >>> gmean([0, 0, 1, 1], [0, 1, 1, 1]) == 0.5**0.5
    True
    """
    return math.sqrt(sensitivity(y, predicted) * specificity(y, predicted))


def best_gmean_threshold(y, scores, *, tied_within=0.0):
    """Return the t for which predicting positive where ``score > t`` has the largest G-mean on these scores.

    All distinct cuts are searched, and the t returned is the middle of its gap between neighbouring scores. Among cuts
    of equal G-mean the one in the widest gap wins, then the lowest. If no cut has a G-mean above 0 (all scores
    tied, or every positive below every negative), t is the largest score: everything is predicted negative.

    Scores that are equal at a solver's optimum, as those of an SVM's free support vectors, come out of it up to what it
    leaves. Those up to ``tied_within`` above the lowest of them are taken for equal: no cut goes between them, and the
    largest score is the largest plus that.

    >>> best_gmean_threshold([0, 0, 1, 1], [0.0, 1.0, 3.0, 4.0])
    2.0
    >>> best_gmean_threshold([0, 0, 1, 1, 1], [0.0, 1.0, 1.0 + 1e-9, 3.0, 4.0], tied_within=1e-6)
    2.0000000005
    """
    positive, scores = _check_scores(y, scores)
    if not 0.0 < tied_within < np.inf:  # of scores whose size overflows
        return Ranking(scores, positive).auc_and_threshold()[1]
    groups = tied(grouped(scores, tied_within), tied_within)  # and gaps between them that tie
    above = groups > Ranking(groups, positive).auc_and_threshold()[1]
    low, high = (scores[~above].max(), scores[above].min()) if above.any() else (scores.max(), None)
    return float(low + tied_within if high is None else between(low, high))


@np.errstate(over="ignore", invalid="ignore")  # of squares
def tie_width(scores):
    """Return up to which difference scores count as equal, for ``best_gmean_threshold``: 1e-5 of their spread.

    That is their standard deviation, or the range without the lowest and the highest hundredth where that is less: one
    remote row makes no others equal. But if it is less than 1e-5 of the scores' own size, it is what a solver left
    between scores that are one.
    """
    scores, rest = np.asarray(scores, dtype=np.float64), len(scores) // REMOTE
    low, high = np.partition(scores, (rest, len(scores) - 1 - rest))[[rest, len(scores) - 1 - rest]]
    spread, inner = scores.std(), high - low
    is_known = inner > SCORES_KNOWN_TO * np.median(np.abs(scores))
    return SCORES_KNOWN_TO * float(min(spread, inner) if is_known else spread)


@np.errstate(under="ignore")  # of tails that are nothing beside others
def smoothed_gmean_threshold(y, scores):
    """Return the t with the largest G-mean on the distributions that the scores of either class were drawn from.

    The best cut between a few scores hangs on one or two of them. Here each class's distribution is estimated first, by
    a normal kernel about each of its scores, and t is the best cut between the two estimates. Both have one bandwidth,
    as a class that is smoothed more than the other pushes the cut away: the geometric mean of Silverman's for either
    class, 0.9 min(sd, IQR/1.349) n^(-1/5) for n rows. A class whose scores are all equal has none: then it is the
    other's, and if neither has one, t is ``best_gmean_threshold``'s. Of more than 200 rows, 200 quantiles are taken.

    Smoothing is to spare what chance does to a cut between few scores. Where it costs more, its distributions are not
    those of the scores: a kernel takes half of the rows that share one score to be above it. If the G-mean of the
    scores themselves is lower at t than at ``best_gmean_threshold``'s cut by more than twice the latter's standard
    error, that cut is returned, none between scores up to ``tie_width`` apart.

    References
    ----------
    B. W. Silverman, "Density Estimation for Statistics and Data Analysis", 1986, eq. 3.31.

    Examples
    --------
    >>> round(smoothed_gmean_threshold([0, 0, 0, 1, 1, 1], [0.0, 1.0, 2.0, 4.0, 5.0, 6.0]), 6)
    3.0
    """
    positive, scores = _check_scores(y, scores)
    smoothed = _smoothed_cut(positive, scores)
    if smoothed is None:
        return best_gmean_threshold(y, scores)
    width = tie_width(scores)
    best = best_gmean_threshold(y, scores, tied_within=width)
    # where it cuts a tie in two, all of it is below
    cuts = smoothed + (width if width < np.inf else 0.0), best
    (of_smoothed, _), (of_best, error) = (_gmean_and_error(positive, scores > cut) for cut in cuts)
    return best if of_best - of_smoothed > SMOOTHING_ERRORS * error else smoothed


def _gmean_and_error(positive, predicted):
    """Return the G-mean and its standard error, from rates with one row more on either side: not 0 of few rows."""
    hits = (np.count_nonzero(positive & predicted), np.count_nonzero(~positive & ~predicted))
    sizes = (np.count_nonzero(positive), np.count_nonzero(~positive))
    rates = [(hit + 1.0) / (size + 2.0) for hit, size in zip(hits, sizes, strict=True)]
    # of sqrt(r s), where a rate's variance is r (1 - r) / n: half its relative errors' length
    relative = sum((1.0 - rate) / (rate * (size + 2.0)) for rate, size in zip(rates, sizes, strict=True))
    return math.sqrt(hits[0] / sizes[0] * hits[1] / sizes[1]), 0.5 * math.sqrt(math.prod(rates) * relative)


def _smoothed_cut(positive, scores):
    """Return the best cut between the kernel estimates, None if neither class's scores have a spread."""
    unit = float(np.abs(scores).max()) or 1.0
    classes = np.sort(scores[positive]) / unit, np.sort(scores[~positive]) / unit
    widths = [width for width in map(_bandwidth, classes) if width > LEAST_BANDWIDTH]
    if not widths:
        return None
    (pos, neg), width = map(_thinned, classes), math.prod(widths) ** (1 / len(widths))

    def loss(t):
        """log(1 - sensitivity * specificity): in logs, far tails still tell where a wide gap is to be cut."""
        missed, found = (_log_mean_tail(sign * (t - pos) / width) for sign in (1.0, -1.0))
        return np.logaddexp(missed, found + _log_mean_tail((neg - t) / width))

    shares = np.linspace(0.0, 1.0, GRID_POINTS)
    between = np.linspace(*(_quantiles(values, 0.5) for values in (pos, neg)), GRID_POINTS)
    cuts = np.unique(np.concatenate([_quantiles(pos, shares), _quantiles(neg, shares), between]))
    losses = loss(cuts[:, None])
    best = int(np.argmin(losses))
    low, high = cuts[max(best - 1, 0)], cuts[min(best + 1, len(cuts) - 1)]
    found = [_least(loss, low, high)]
    if not found[0][0] <= losses[best]:  # not unimodal: where most scores of both classes are one value
        found += [(losses[best], cuts[best]), _least(loss, low, cuts[best]), _least(loss, cuts[best], high)]
    return unit * float(min(found)[1])


def _least(loss, low, high):
    """Return the value and place of a local minimum between two cuts."""
    if not low < high:
        return np.inf, low
    refined = minimize_scalar(loss, bounds=(low, high), method="bounded", options={"xatol": 1e-9 * (high - low)})
    return float(refined.fun), float(refined.x)


def _quantiles(ordered, shares):
    """Return what np.quantile does, of values in ascending order: without sorting them each time."""
    return np.interp(shares * (len(ordered) - 1.0), np.arange(len(ordered)), ordered)


def _bandwidth(values):
    """Return Silverman's; scores of which more than half are equal have an interquartile range of 0, and sd is left."""
    low, high = _quantiles(values, np.array([0.25, 0.75]))
    spreads = [spread for spread in (values.std(), (high - low) / IQR_OF_NORMAL) if spread > 0]
    return 0.9 * min(spreads, default=0.0) * len(values) ** -0.2


def _thinned(values):
    if len(values) <= MOST_POINTS:
        return values
    return _quantiles(values, (np.arange(MOST_POINTS) + 0.5) / MOST_POINTS)


def _log_mean_tail(distances):
    """Return the log of the mean over the last axis of the normal distribution function."""
    logs = log_ndtr(distances)
    largest = logs.max(axis=-1)
    return largest + np.log(np.exp(logs - largest[..., None]).mean(axis=-1))


# Pairwise hinge --------------------------------------------------------------------------------------------------


def pairwise_hinge_objective(w, X, y, lam):
    """Return P(w) = lam/2 ||w||^2 + 1/k sum_ij max(0, 1 - w'z_ij) in O(nd + n log n); X dense or sparse.

    >>> pairwise_hinge_objective([0.5], [[1.0], [0.0]], [1, 0], lam=2.0)  # 2/2 * 0.25 + (1 - 0.5)
    0.75
    """
    w, X, positive, lam = _check_model(w, X, y, lam)
    scores = X @ w
    return 0.5 * lam * float(w @ w) + mean_pair_hinge(scores[positive], scores[~positive])


def pairwise_hinge_gradient(w, X, y, lam):
    """Return the (sub)gradient of P at w, shape (d,): at a kink, margin exactly 1, the pair's slope is taken as 0.

    dP/ds_i = -c_i/k for a positive and +c_j/k for a negative row, c being the row's number of violated pairs.
    """
    w, X, positive, lam = _check_model(w, X, y, lam)
    scores = X @ w
    violated_pos, violated_neg = margin_violations(scores[positive], scores[~positive])
    slopes = np.empty(len(scores))
    slopes[positive], slopes[~positive] = -violated_pos, violated_neg
    return lam * w + X.T @ (slopes / (len(violated_pos) * len(violated_neg)))


def margin_violations(positive_scores, negative_scores):
    """Count for each row the opposite rows with s_i - s_j < 1; return (of positives, of negatives), int64.

    Both sides compare s_i - 1 with s_j, rounded once, so the two counts always have the same sum.
    """
    shifted = positive_scores - 1.0
    of_positives = len(negative_scores) - np.searchsorted(ascending(negative_scores), shifted, side="right")
    of_negatives = np.searchsorted(ascending(shifted), negative_scores, side="left")
    return of_positives, of_negatives


def mean_pair_hinge(positive_scores, negative_scores):
    """Return 1/k sum_ij max(0, 1 - s_i + s_j) (unchecked).

    A violated pair contributes s_j - (s_i - 1), so the sum is c_neg's_neg - c_pos'(s_pos - 1) with the counts c of
    ``margin_violations``. Any shift of all scores cancels; centring keeps a large common offset out of the rounding.
    """
    centre = negative_scores.mean()
    s_pos, s_neg = positive_scores - centre, negative_scores - centre
    c_pos, c_neg = margin_violations(s_pos, s_neg)
    return max(0.0, float(c_neg @ s_neg - c_pos @ (s_pos - 1.0))) / (len(s_pos) * len(s_neg))


# Pairwise square -------------------------------------------------------------------------------------------------


def pairwise_square_objective(w, X, y, lam):
    """Return Q(w) = lam/2 ||w||^2 + 1/2k sum_ij (1 - w'z_ij)^2 in O(nd); X dense or sparse.

    The mean square over pairs is the squared mean margin error plus the variances of the two classes' scores.

    >>> pairwise_square_objective([0.5], [[1.0], [0.0]], [1, 0], lam=2.0)  # 2/2 * 0.25 + (1 - 0.5)^2 / 2
    0.375
    """
    w, X, positive, lam = _check_model(w, X, y, lam)
    scores = X @ w
    s_pos, s_neg = scores[positive], scores[~positive]
    error = 1.0 - (s_pos.mean() - s_neg.mean())
    return 0.5 * float(lam * (w @ w) + error * error + s_pos.var() + s_neg.var())


def pairwise_square_gradient(w, X, y, lam):
    """Return the gradient of Q at w, shape (d,)."""
    w, X, positive, lam = _check_model(w, X, y, lam)
    return lam * w + X.T @ square_slopes(X @ w, positive, margin=1.0)


def square_slopes(scores, positive, margin):
    """Return d/ds of 1/2k sum_ij (margin - s_i + s_j)^2, one slope per row (unchecked).

    (s_i - mean(s_neg) - margin)/n_pos for a positive and (s_j - mean(s_pos) + margin)/n_neg for a negative row: linear
    in the scores, so with margin = 0 the same function applies the Hessian.
    """
    s_pos, s_neg = scores[positive], scores[~positive]
    slopes = np.empty(len(scores))
    slopes[positive] = (s_pos - s_neg.mean() - margin) / len(s_pos)
    slopes[~positive] = (s_neg - s_pos.mean() + margin) / len(s_neg)
    return slopes


# Checks ----------------------------------------------------------------------------------------------------------


def _check_labels(y):
    """Return (the boolean mask of the positive class, the two labels)."""
    y = np.asarray(y)
    if y.ndim != 1:
        raise ValueError(f"Expected y with one dimension, got shape {y.shape}. Pass one label per row.")
    labels = _distinct("label", y)[0]
    if len(labels) != 2:
        raise ValueError(
            f"Expected labels of two classes in y, got {len(labels)} ({labels[:5].tolist()}). "
            "Ranking and rates need both a positive and a negative row."
        )
    return y == labels[1], labels


def _check_scores(y, scores):
    """Return (the boolean mask of the positive class, the scores as float64)."""
    positive, _ = _check_labels(y)
    scores = _as_floats(scores)
    if scores.shape != positive.shape:
        raise ValueError(f"Expected scores of shape {positive.shape}, as y, got {scores.shape}. Pass one per row.")
    check_finite(scores)
    return positive, scores


def check_finite(scores):
    """Raise ValueError if any of the scores, an array of floats, is nan or infinite."""
    if not np.isfinite(scores).all():
        count = int(np.count_nonzero(~np.isfinite(scores)))
        raise ValueError(f"Expected finite scores, got {count} nan or infinite. Check the model that made them.")


def _as_floats(scores):
    """Return scores as float64, or say why they cannot be."""
    scores = np.asarray(scores)
    if scores.dtype.kind not in "biufO":
        raise ValueError(f"Expected real numbers as scores, got {scores.dtype}. Convert them first.")
    try:
        floats = scores.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"Expected real numbers as scores, got one that is none: {error}. Change it.") from None
    may_tie = scores.dtype.kind in "iuO" and np.abs(floats).max(initial=0.0) >= LARGEST_EXACT
    if may_tie and len(np.unique(floats)) < len(np.unique(scores)):
        raise ValueError("Expected scores that float64 tells apart, got whole numbers above 2^53. Pass their ranks.")
    return floats


def _check_groups(groups, positive):
    """Return each row's group as a number from 0, none of which is left out."""
    groups = np.asarray(groups)
    if groups.shape != positive.shape:
        raise ValueError(f"Expected groups of shape {positive.shape}, as y, got {groups.shape}. Pass one per row.")
    return _distinct("group", groups)[1]


def _distinct(kind, values):
    """Return the distinct values, ascending, and each row's place among them; one that is missing is none of them."""
    missing = int(np.count_nonzero(pd.isna(values)))
    if missing:
        raise ValueError(f"Expected a {kind} for every row, got {missing} nan. Leave rows without a {kind} out.")
    try:
        return np.unique(values, return_inverse=True)
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values})
        raise ValueError(
            f"Expected a {kind} of one kind for every row, got {' and '.join(kinds)}. Make them one."
        ) from None


def _check_predicted(y, predicted):
    """Return two boolean masks: positive by y, positive by prediction."""
    positive, labels = _check_labels(y)
    predicted = np.asarray(predicted)
    if predicted.shape != positive.shape:
        raise ValueError(
            f"Expected predictions of shape {positive.shape}, as y, got {predicted.shape}. Pass one label per row."
        )
    if not np.isin(predicted, labels).all():
        raise ValueError(
            f"Expected predicted labels among {labels.tolist()}, got {np.unique(predicted)[:5].tolist()}. "
            "Pass labels, not scores."
        )
    return positive, predicted == labels[1]


def _check_model(w, X, y, lam):
    """Return w and X as float64 (CSR if sparse), the mask of the positive class and lam."""
    positive, _ = _check_labels(y)
    X = sparse.csr_array(X, dtype=np.float64) if sparse.issparse(X) else np.asarray(X, dtype=np.float64)
    w = np.asarray(w, dtype=np.float64)
    if X.ndim != 2 or w.shape != X.shape[1:] or len(positive) != X.shape[0]:
        raise ValueError(
            f"Expected w (d,), X (n, d) and y (n,), got {w.shape}, {X.shape} and {positive.shape}. "
            "Pass one weight per column and one label per row."
        )
    if not (np.isfinite(lam) and lam > 0):
        raise ValueError(f"Expected lam > 0 and finite, got {lam!r}. The objective is strongly convex only then.")
    return w, X, positive, float(lam)
