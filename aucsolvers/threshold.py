"""Where scores are cut: at the largest G-mean on scores by models that were fitted without the row."""

from typing import NamedTuple

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, get_tags, indexable  # the first has no public twin for frames of any kind
from sklearn.utils.validation import check_is_fitted, column_or_1d

from aucsolvers._base import BinaryScorer, two_labels
from aucsolvers._params import as_generator, check_count
from aucsolvers._transaction import transactional
from aucsolvers.adapters import PassesNothingOn, ProbabilityScorer, chains, scores_by_probability, take_columns
from aucsolvers.approximation import KernelFeatures
from aucsolvers.committee import spread_of
from aucsolvers.metrics import best_gmean_threshold, smoothed_gmean_threshold

FEWEST = 5  # rows to take a unit from
SAME = 1e-6  # of the range of all rows' scores: what differs by less is no unit


class GMeanThreshold(PassesNothingOn, BinaryScorer):
    """A scorer, behind a sampler if one is given, that predicts at the G-mean's best threshold for rows left out.

    A solver that a sampler stands before sees the rows kept, and of these its own scores, which are apart by the fit
    alone. Both move the cut: the rows that under-sampling keeps are the hard ones, a fit to a few rare rows knows them
    by heart. Here all rows have a say, each by its score from a sampler and a model that were fitted without its fold.

    Parameters
    ----------
    estimator : classifier with ``decision_function`` or ``predict_proba``
        A clone of it is fitted, in a ProbabilityScorer where it has no scores but probabilities. What its fit settles
        by itself (``gamma_``) is settled once, on all rows.
    sampler : imbalanced-learn sampler, default=None
        A clone of it chooses the rows. It is asked again without each fold: it may make rows of those left out, and
        what it drops, it drops by the labels. RandomUnderSampler alone is not: its choice stands, and the rows that
        it dropped have the model's own scores.
    n_folds : int, default=3
        >= 2; fewer where a class has fewer rows.
    random_state : None, int, RandomState or Generator, default=None
        Draws the folds. Estimator and sampler have their own.

    Attributes
    ----------
    estimator_, sampler_ : the fitted ones; ``sampler_`` where a sampler is given
    left_out_scores_ : ndarray of shape (n_samples,)
        Of the training rows, in the unit of ``estimator_``'s scores.
    threshold_ : float
        ``smoothed_gmean_threshold`` of them. Where a class has a single row there is nothing to leave out: then it is
        ``best_gmean_threshold`` of the model's own scores, and so are these.
    classes_ : ndarray of shape (2,)
        ``classes_[1]`` is the positive class.

    Raises
    ------
    ValueError
        If there are not two classes, or as estimator and sampler do.
    NotImplementedError
        Where metadata routing is enabled and it stands in what routes: it passes no weights or groups on.

    Notes
    -----
    A pairwise loss does not see a constant that is added to all scores, and in a narrow kernel a row weighs the more in
    its own score, the fewer rows there are. So each fold's scores are shifted and stretched: its model and
    ``estimator_`` have one median and one standard deviation on the rows of the other folds (with those that a sampler
    which is asked again dropped of them) or, behind KernelFeatures, on those that are landmarks of neither, if there
    are at least 5: a narrow kernel knows its landmarks by heart and others hardly, and of fewer rows they are a larger
    part. (Not behind a sampler that is asked again: the rows that it dropped are no landmarks either, and tell enough.)
    Probabilities are taken as they are.

    Cost: one fit and ``n_folds`` fits without a fold, of sampler and model. GeometricUnderSampler's width of a Gaussian
    kernel is settled once; ZOVR's fits are made by the exact linear solver in the coordinates of its basis, a few
    milliseconds for hundreds of rows.

    On 25 development sets of ratio 14 to 80 (LIBSVM's, UCI's and scikit-learn's, cut to 15 to 60 positive rows), u2 and
    ZOVR with a Gaussian kernel had a mean test G-mean of 78.8 % by ZOVR's own threshold and of 82.6 % by this one.

    Examples
    --------
    >>> import numpy as np
    >>> from aucsolvers import ZOVR, GeometricUnderSampler, GMeanThreshold
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(400) % 20 == 0
    >>> X = rng.normal(size=(400, 2)) + 2.0 * y[:, None]
    >>> sampler = GeometricUnderSampler("u2", kernel="rbf", random_state=0)
    >>> model = GMeanThreshold(ZOVR(kernel="rbf", random_state=0), sampler=sampler, random_state=0).fit(X, y)
    >>> model.left_out_scores_.shape, bool(model.predict(X)[y].mean() > 0.8)
    ((400,), True)
    """

    def __init__(self, estimator, *, sampler=None, n_folds=3, random_state=None):
        self.estimator = estimator
        self.sampler = sampler
        self.n_folds = n_folds
        self.random_state = random_state

    @transactional
    def fit(self, X, y):
        """Fit to rows X, as sampler and estimator take them, and labels y of two classes; return self."""
        check_count("n_folds", self.n_folds, least=2)
        self._check_steps()
        X, y = indexable(X, column_or_1d(y, warn=True))
        self.classes_, positive = two_labels(y)
        kept = self._fit_model(X, y)
        signs = np.where(positive, 1, -1)
        scores = np.array(self.estimator_.decision_function(X), dtype=np.float64)  # whatever its scores are: votes, say
        n_folds = min(self.n_folds, *(np.count_nonzero(signs[kept] == sign) for sign in (1, -1)))
        if n_folds < 2:
            self.left_out_scores_, self.threshold_ = scores, best_gmean_threshold(signs, scores)
            return self
        seed = int(as_generator(self.random_state).integers(2**31))
        folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
        splits = list(folds.split(signs[kept], signs[kept]))
        X_kept = _safe_indexing(X, kept)
        found = self._scores_without(X_kept, y[kept], [part for part, _ in splits])
        usual = Scores(scores[kept], self._landmarks(self.estimator_, X_kept))
        scores[kept] = left_out_scores(usual, splits, found, scores_by_probability(self.estimator_))
        self.left_out_scores_, self.threshold_ = scores, smoothed_gmean_threshold(signs, scores)
        return self

    def _fit_model(self, X, y):
        """Fit sampler and estimator; return the rows that may have a part in the model: those kept, or all."""
        vars(self).pop("sampler_", None)  # of an earlier fit
        self.estimator_, kept, self._resamples = self._scorer(), np.arange(len(y)), False
        if self.sampler is None:
            self.estimator_.fit(X, y)
        else:
            self.sampler_ = clone(self.sampler)
            X_kept, y_kept = self.sampler_.fit_resample(X, y)
            self.estimator_.fit(X_kept, y_kept)
            chosen = getattr(self.sampler_, "sample_indices_", kept)
            # a row that is there twice would be fitted on in one fold and left out in another
            self._resamples = not choice_stands(self.sampler_) or len(np.unique(chosen)) < len(chosen)
            kept = kept if self._resamples else chosen
        take_columns(self, self.estimator_)
        return kept

    def _scores_without(self, X, y, parts):
        """Yield, for each part of the rows, all rows' Scores by sampler and model fitted on the part."""
        makes = self._resamples and not hasattr(self.sampler_, "kept_of_parts")
        if self._resamples and not makes:
            parts = list(self.sampler_.kept_of_parts(X, y, parts))
        if not makes and hasattr(self.estimator_, "scores_of_parts"):
            yield from map(Scores, self.estimator_.scores_of_parts(X, y, parts))
            return
        settled = {"gamma": self.estimator_.gamma_} if hasattr(self.estimator_, "gamma_") else {}
        for part in parts:
            X_part, y_part = _safe_indexing(X, part), y[part]
            if makes:
                X_part, y_part = self._resample(X_part, y_part, len(parts))
            scorer = self._scorer()
            if settled:
                scorer.set_params(**settled)
            scorer.fit(X_part, y_part)
            yield Scores(scorer.decision_function(X), self._landmarks(scorer, X))

    def _landmarks(self, scorer, X):
        return None if self._resamples else landmarks(scorer, X)

    def _resample(self, X, y, n_folds):
        try:
            return clone(self.sampler).fit_resample(X, y)
        except ValueError as error:
            raise ValueError(
                f"Expected a sampler that can do with the rows of {n_folds - 1} folds of {n_folds}, of which the rarer "
                f"class has {np.unique(y, return_counts=True)[1].min()}, got {type(self.sampler).__name__}: {error} "
                "Lower its number of neighbours, or take a threshold of the solver's own."
            ) from error

    def _scorer(self):
        """Return the estimator, unfitted, with a ``decision_function``."""
        scorer = clone(self.estimator)
        return scorer if hasattr(scorer, "decision_function") else ProbabilityScorer(scorer)

    def _check_steps(self):
        """Raise ValueError for an estimator that has no scores, or a sampler that is none."""
        scores = any(hasattr(self.estimator, name) for name in ("decision_function", "predict_proba"))
        # some have them only once they are fitted
        if not (scores or (hasattr(self.estimator, "fit") and is_classifier(self.estimator))):
            raise ValueError(
                "Expected estimator to be a classifier with decision_function or predict_proba, got "
                f"{self.estimator!r}. Choose a classifier."
            )
        if self.sampler is not None and not hasattr(self.sampler, "fit_resample"):
            raise ValueError(
                "Expected sampler to be None or to have fit_resample, as imbalanced-learn's samplers have, got "
                f"{self.sampler!r}. Choose a sampler."
            )

    def decision_function(self, X):
        """Return the scores less the threshold, shape (n_samples,): positive means ``classes_[1]``."""
        check_is_fitted(self)
        return self.estimator_.decision_function(X) - self.threshold_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        chain = [get_tags(one).input_tags for one in (self.sampler, self.estimator) if one is not None]
        tags.input_tags.sparse = all(one.sparse for one in chain)
        tags.input_tags.allow_nan = all(one.allow_nan for one in chain)
        return tags


def choice_stands(sampler):
    """Return whether what a sampler dropped may stay dropped when some of the rows that it kept are left out.

    By chance it tells nothing about a row. Others look at distances and neighbours and at labels, so that rows left out
    would be scored by what their own labels have done: pure noise had an AUC of 0.28 behind NearMiss, of 0.59 behind
    RepeatedEditedNearestNeighbours, and behind u2, in 40 dimensions, of 0.67 with LinearSVM and of 0.78 with LSSVM.
    """
    from imblearn.under_sampling import RandomUnderSampler

    return isinstance(sampler, RandomUnderSampler)


class Scores(NamedTuple):
    """A model's scores of some rows, and which of these are its landmarks; None where a model has no such thing."""

    values: np.ndarray
    landmarks: np.ndarray | None = None


def landmarks(scorer, X):
    """Return which of the rows X span the kernel features of a fitted Pipeline, or of a committee's; None without."""
    if not isinstance(scorer, Pipeline):
        return None
    found = [_landmarks_of_chain(chain, X) for chain in chains(scorer)]
    found = [rows for rows in found if rows is not None]
    return np.any(found, axis=0) if found else None


def _landmarks_of_chain(chain, X):
    steps = list(_flat(chain))[:-1]
    places = [place for place, step in enumerate(steps) if isinstance(step, KernelFeatures)]
    if not places or any(hasattr(step, "fit_resample") for step in steps):  # imbalanced-learn's Pipeline has samplers
        return None
    for step in steps[: places[0]]:
        X = step.transform(X)
    return steps[places[0]].are_landmarks(X)


def _flat(chain):
    """Yield the steps of a Pipeline that do something, those of Pipelines in it one by one."""
    for _, step in chain.steps:
        if isinstance(step, Pipeline):
            yield from _flat(step)
        elif step not in (None, "passthrough"):
            yield step


def left_out_scores(usual, splits, found, are_probabilities=False):
    """Return each row's score by the model of its split, in the unit of ``usual``, the Scores of a model of all rows.

    ``splits`` are pairs of rows fitted on and rows left out, ``found`` all rows' Scores by the model of each. They are
    shifted and stretched to the median and standard deviation of ``usual`` on the rows of the other splits or, behind
    kernel features, on those that are landmarks of neither. Probabilities have one unit: stretched, they would leave
    [0, 1], and the cut with them.
    """
    scores = np.empty(len(usual.values))
    for (part, held_out), by_part in zip(splits, found, strict=True):
        scores[held_out] = by_part.values[held_out]
        if not are_probabilities:
            alike = _scored_alike(part, usual, by_part)
            own_units = standardised(by_part.values[held_out], by_part.values[alike])
            scores[held_out] = own_units * usual.values[alike].std() + np.median(usual.values[alike])
    return scores


def _scored_alike(part, usual, by_part):
    """Return the rows on which two models, one of all rows and one of a part, have one unit.

    A kernel that sees no other rows than landmarks gives all of these one score, up to rounding, which is no unit.
    """
    if usual.landmarks is None or by_part.landmarks is None:
        return part
    neither = np.flatnonzero(~(usual.landmarks | by_part.landmarks))
    told = len(neither) >= FEWEST and all(
        np.ptp(scores.values[neither]) > SAME * np.ptp(scores.values) for scores in (usual, by_part)
    )
    return neither if told else part


def standardised(scores, fitted):
    """Return scores in which the rows that their model was fitted on have median 0 and standard deviation 1.

    Models of different rows differ in both: a pairwise loss does not see a constant that is added to all scores, and in
    a narrow kernel a row weighs the more in its own score, the fewer rows there are.
    """
    scores, fitted = np.asarray(scores, dtype=np.float64), np.asarray(fitted, dtype=np.float64)
    return (scores - np.median(fitted)) / spread_of(fitted)
