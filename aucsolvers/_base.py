"""What every linear solver shares: the result that a driver hands back, and the estimator that publishes it.

The positive class is ``classes_[1]``, as everywhere in scikit-learn: +1 of {-1, +1}, 1 of {0, 1}.
"""

import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from aucsolvers._params import FormerNames
from aucsolvers._rows import FLOATS, as_writable, check_squares, row_scores, squares_are_small, well_formed
from aucsolvers.metrics import auc_of_classes, best_gmean_threshold

CONVERGED = "converged"
MAX_ITER = "max_iter"
DIVERGED = "diverged"


@dataclass(frozen=True)
class SolverResult:
    """What a driver returns: the solution, its certificate, and all that is needed to go on from here.

    ``dual_gap`` is an upper bound on ``objective`` minus the optimum, whatever way the solver obtains it.
    ``history`` holds equally long arrays: ``updates``, ``objective``, ``dual_gap``, ``auc``, ``time_s``.
    ``at_zero`` is the objective at w = 0; drivers leave the default 1 where it is at most 1, as for pairwise losses.
    ``target`` is the value that ``dual_gap`` had to reach, None where that is tol itself.
    """

    w: np.ndarray
    bias: float | None  # None: the loss does not see a bias; the estimator sets a threshold instead
    objective: float
    dual_gap: float
    n_iter: int
    status: str
    history: dict[str, np.ndarray]
    state: dict = field(default_factory=dict)
    at_zero: float = 1.0
    target: float | None = None


class Trace:
    """Collects the points of ``history_``, one for each number of updates.

    The clock runs from construction, certificates included.
    """

    NAMES = ("updates", "objective", "dual_gap", "auc", "time_s")

    def __init__(self):
        self._started = time.perf_counter()
        self._points = []

    @property
    def time_s(self):
        return time.perf_counter() - self._started

    def add(self, updates, objective, dual_gap, positive_scores, negative_scores):
        self.add_with_auc(updates, objective, dual_gap, auc_of_classes(positive_scores, negative_scores))

    def add_with_auc(self, updates, objective, dual_gap, area, time_s=None):
        """Add a point whose AUC is known already, cheaper than from two arrays of scores; its time is now or given.

        A point after as many updates as the last one replaces it: the same iterate, evaluated again more accurately.
        """
        if self._points and self._points[-1][0] == updates:
            self._points.pop()
        self._points.append((updates, objective, dual_gap, area, self.time_s if time_s is None else time_s))

    def begun_anew(self):
        """Return a trace without a point, whose clock goes on."""
        trace = Trace()
        trace._started = self._started
        return trace

    def as_history(self):
        columns = zip(*self._points, strict=True)
        return {name: np.array(column) for name, column in zip(self.NAMES, columns, strict=True)}


class BinaryScorer(FormerNames, ClassifierMixin, BaseEstimator):
    """A classifier of two classes by the sign of a score; subclasses implement ``fit`` and ``decision_function``."""

    def _validate_fit(self, X, y):
        """Return X, C-ordered or CSR, of one of FLOATS, and y as an array of ±1.0; set ``classes_``.

        Features are finite, and so are the sums of their squares.
        """
        X, positive = self._validate_classes(X, y)
        return X, np.where(positive, 1.0, -1.0)

    def _validate_classes(self, X, y, read=True):
        """Return X as ``_validate_fit`` does and the mask of the positive class; set ``classes_``.

        With read=False the values of a dense X may be left unread, nan and all: the caller has to see to them.
        """
        X, y, seen = self._validate_arrays(X, y, read)
        self.classes_, positive = seen or two_labels(y)
        return X, positive

    def _validate_arrays(self, X, y, read=True, reset=True):
        """Return X, C-ordered or CSR, and y, checked, and their SeenLabels if these are two whole numbers, or None.

        Arrays that are to be taken as they are skip scikit-learn's checks, which cost more than a fit to few rows, and
        read sparse ones twice.
        """
        X = as_writable(well_formed(X))
        seen = plain_labels(X, y, None if reset else self.classes_)
        is_known = seen is not None and (reset or _has_known_columns(self, X))
        if is_known and (not (read or sparse.issparse(X)) or squares_are_small(X)):
            know_columns(self, X)
            return X, y, seen
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS, order="C", reset=reset)
        X = as_writable(X)
        check_squares(X)
        return X, y, two_whole_numbers(y)

    def _publish_certificate(self, result):
        """Set the attributes that tell how good the fit is, from a driver's result; warn if it did not converge."""
        self.objective_ = float(result.objective)
        self.dual_gap_ = float(result.dual_gap)
        self.gap_unit_ = max(1.0, float(result.at_zero))
        self.n_iter_ = int(result.n_iter)
        # an objective that overflowed, with features or steps of extreme scales, is no solution to any tolerance
        self.status_ = result.status if np.isfinite(self.objective_) else DIVERGED
        self.history_ = result.history
        if self.status_ == DIVERGED:
            named = [name for name in ("lam", "C", "lam1", "lam2") if hasattr(self, name)]
            advice = (
                f"Rescale the features, for example with StandardScaler, or set a less extreme {' or '.join(named)}"
            )
            self._warn(f"objective {self.objective_:.3g}. {advice}")
        elif self.status_ != CONVERGED:
            has_lam, most = hasattr(self, "lam"), getattr(self, "max_iter", None)
            advice = "Raise max_iter, raise tol, or raise lam" if has_lam else "Raise max_iter or tol"
            advice += "; scale the features if they are not"
            if most is not None and self.n_iter_ < most:
                # more iterations would be made if they were of use
                advice = f"Rounding stops it: raise tol{' or lam' if has_lam else ''}, or scale the features"
            asked = "" if result.target is None else f", which asks for {result.target:.3g}"
            self._warn(f"certificate {self.dual_gap_:.3g}, tol={self.tol:g}{asked}. {advice}")

    def _warn(self, words):
        start = f"{type(self).__name__} stopped with status {self.status_!r} after {self.n_iter_} iterations"
        warnings.warn(f"{start}: {words}.", ConvergenceWarning, stacklevel=_caller_level())

    def _tell_of_nothing(self, is_nothing, advice):
        """Set found_nothing_, and warn of it."""
        self.found_nothing_ = bool(is_nothing)
        if is_nothing:
            words = f"found nothing better than w = 0, so its ranking is arbitrary. If one class is rare, {advice}"
            warnings.warn(f"{type(self).__name__} {words}.", UserWarning, stacklevel=_caller_level())

    def predict(self, X):
        """Return the predicted labels, shape (n_samples,)."""
        positive = self.decision_function(X) > 0  # first: it says so if there is no fit, hence no classes_
        return self.classes_[positive.astype(int)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


def _caller_level():
    """Return the stacklevel with which the function that calls this warns in the name of whoever called the package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "aucsolvers":
        frame, level = frame.f_back, level + 1
    return level


def validate_rows(estimator, X, reset=False, dtype=FLOATS):
    """Return X, C-ordered or CSR, of ``dtype``; with ``reset`` its columns are those of the estimator from now on.

    Rows that are to be taken as they are skip scikit-learn's checks, which cost more than to score a few hundred.
    """
    X = as_writable(well_formed(X))
    if not reset and _are_plain(X, dtype) and _has_known_columns(estimator, X) and squares_are_small(X):
        return X
    return as_writable(validate_data(estimator, X, accept_sparse="csr", dtype=dtype, order="C", reset=reset))


def know_columns(estimator, X):
    """Have the estimator expect as many columns as the array X has, without names."""
    estimator.n_features_in_ = X.shape[1]
    vars(estimator).pop("feature_names_in_", None)  # of an earlier fit, to a frame


class SeenLabels(NamedTuple):
    """The labels of some rows, ascending, and where they are two, which rows have the second."""

    values: np.ndarray
    positive: np.ndarray | None = None


def plain_labels(X, y, known=None):
    """Return y's SeenLabels if scikit-learn's checks would hand back X and y unchanged if X's values pass, or None.

    Of a stream whose labels are ``known`` already, rows may come that all have one of them.
    """
    if not (_are_plain(X, FLOATS) and type(y) is np.ndarray and y.shape == X.shape[:1]):
        return None
    if known is not None and y.dtype == known.dtype and y.dtype.kind in "biuf":
        of_one = known[known == y[0]]
        if len(of_one) and (y == of_one).all():
            return SeenLabels(of_one)
    return two_whole_numbers(y)


def _has_known_columns(estimator, X):
    return X.shape[1] == estimator.n_features_in_ and not hasattr(estimator, "feature_names_in_")


def _are_plain(X, dtype):
    """Return whether scikit-learn's checks would hand back X unchanged if its values pass; ``dtype`` is a tuple."""
    if type(X) in (sparse.csr_array, sparse.csr_matrix):
        laid_out = len(X.shape) == 2 and X.nnz > 0
    else:
        laid_out = type(X) is np.ndarray and X.ndim == 2 and X.flags.c_contiguous and X.size > 0
    return laid_out and X.dtype in dtype


def two_labels(y):
    """Return the SeenLabels of y, which are two, or say what is wrong with it."""
    seen = two_whole_numbers(y)
    if seen is not None:
        return seen
    if np.size(y) == 0:
        raise ValueError("Expected two classes, got no rows: there is nothing to rank.")
    check_labels(y)
    classes = np.unique(y)
    if len(classes) > 2:
        raise ValueError(
            f"Only binary classification is supported. The type of the target is {type_of_target(y)}: "
            f"expected two classes, got {len(classes)}. Choose one class as positive first."
        )
    if len(classes) != 2:
        label = classes[0].item() if isinstance(classes[0], np.generic) else classes[0]
        raise ValueError(f"Expected two classes, got one class ({label!r}): there is nothing to rank.")
    return SeenLabels(classes, y == classes[1])


def check_labels(y):
    """Refuse what are no labels of classes, and objects other than texts: of which type they are is not known."""
    strange = [label for label in y.ravel() if not isinstance(label, str)] if y.dtype == object else []
    if any(label is None for label in strange):  # NA is neither equal to it nor not
        raise ValueError("Unknown label type: expected a label for every row, got None. Leave out rows without one.")
    if strange:
        raise ValueError(
            f"Unknown label type: expected labels of one type, got objects, {strange[0]!r} among them. Convert y, for "
            "example by y.astype(int) or y.astype(str)."
        )
    check_classification_targets(y)


def two_whole_numbers(y):
    """Return the SeenLabels of y if they are two whole numbers, and None if not.

    It takes two readings, no sort, which takes longer than some solvers do.
    """
    if y.ndim == 1 and y.size and y.dtype.kind in "biuf":
        first, has_first = y[0], y == y[0]
        other = y[has_first.argmin()]  # of the first row that differs, if one does
        has_other = y == other
        if np.count_nonzero(has_first) + np.count_nonzero(has_other) == y.size:
            low, high, positive = (first, other, has_other) if first < other else (other, first, has_first)
            if -np.inf < low < high < np.inf and low == int(low) and high == int(high):
                return SeenLabels(np.array([low, high], dtype=y.dtype), positive)
    return None


class LinearScorer(BinaryScorer):
    """A classifier with scores ``X @ coef_.ravel() + intercept_``.

    A pairwise loss does not see a bias, so its solvers set ``intercept_`` to minus the threshold that
    maximises G-mean on the training scores: ``predict`` then cuts where the training data say.
    """

    def _publish(self, result, X, y):
        """Set the fitted attributes from a driver's result and warn if it did not converge."""
        self.coef_ = result.w.reshape(1, -1)
        bias = result.bias
        if bias is None:
            bias = -best_gmean_threshold(y, row_scores(X, result.w))
        self.intercept_ = np.array([bias])
        self._publish_certificate(result)
        return self

    def decision_function(self, X):
        """Return the scores, shape (n_samples,): positive means ``classes_[1]``."""
        check_is_fitted(self)
        X = validate_rows(self, X)
        return row_scores(X, self.coef_.ravel()) + self.intercept_[0]
