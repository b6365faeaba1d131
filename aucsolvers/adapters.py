"""What lets estimators of other libraries stand where our solvers do: a score from whatever they answer."""

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from aucsolvers._transaction import transactional
from aucsolvers.committee import Committee


class PassesNothingOn(MetaEstimatorMixin):
    """Base of what fits another estimator to rows and labels alone: more is refused and not lost in silence."""

    def get_metadata_routing(self):
        """Raise NotImplementedError, as scikit-learn does where no weights or groups are passed on."""
        raise NotImplementedError(f"{type(self).__name__} passes no metadata, such as sample_weight, to its estimator.")


class ProbabilityScorer(ClassifierMixin, PassesNothingOn, BaseEstimator):
    """A classifier with ``predict_proba`` and no ``decision_function``, scored by its probability of the second class.

    Parameters
    ----------
    estimator : classifier
        A clone of it is fitted.

    Attributes
    ----------
    estimator_ : the fitted classifier
    classes_ : ndarray of shape (2,)

    Raises
    ------
    ValueError
        If there are not two classes.

    Examples
    --------
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from aucsolvers.adapters import ProbabilityScorer
    >>> model = ProbabilityScorer(GaussianNB()).fit([[0.0], [1.0], [4.0], [5.0]], [0, 0, 1, 1])
    >>> model.decision_function([[0.0], [2.5], [5.0]]).round(2).tolist()
    [0.0, 0.5, 1.0]
    """

    def __init__(self, estimator):
        self.estimator = estimator

    @transactional
    def fit(self, X, y):
        """Fit a clone of the estimator to rows X and labels y of two classes; return self."""
        self.estimator_ = clone(self.estimator)
        self.estimator_.fit(X, y)
        take_columns(self, self.estimator_)
        self.classes_ = np.sort(self.estimator_.classes_)
        if len(self.classes_) != 2:
            raise ValueError(f"Expected two classes, got {len(self.classes_)}. Choose one class as positive first.")
        return self

    def decision_function(self, X):
        """Return the probability of ``classes_[1]``, shape (n_samples,)."""
        check_is_fitted(self)
        probabilities = self.estimator_.predict_proba(X)
        if np.ndim(probabilities) != 2 or np.shape(probabilities)[1] != 2:
            raise ValueError(
                f"Expected predict_proba of {type(self.estimator_).__name__} to return shape (n_samples, 2), got "
                f"{np.shape(probabilities)}. Wrap it in a class that does."
            )
        return np.asarray(probabilities)[:, np.flatnonzero(self.estimator_.classes_ == self.classes_[1])[0]]

    def predict(self, X):
        """Return the estimator's own labels, shape (n_samples,)."""
        check_is_fitted(self)
        return self.estimator_.predict(X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self.estimator).input_tags
        tags.classifier_tags.multi_class = False
        return tags


def take_columns(model, fitted):
    """Let a model around a fitted one know the columns that this was fitted to, as far as it tells."""
    for name in ("n_features_in_", "feature_names_in_"):
        vars(model).pop(name, None)  # of an earlier fit
        if hasattr(fitted, name):
            setattr(model, name, getattr(fitted, name))


class ScoreColumn(ClassifierMixin, BaseEstimator):
    """A classifier whose score is the first column of its input: it lets a calibrator be fitted to scores alone.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> from sklearn.frozen import FrozenEstimator
    >>> from aucsolvers.adapters import ScoreColumn
    >>> scores, y = np.array([[-2.0], [-1.0], [0.5], [-0.5], [1.0], [2.0]]), np.array([-1, -1, -1, 1, 1, 1])
    >>> model = CalibratedClassifierCV(FrozenEstimator(ScoreColumn().fit(scores, y)), cv=2).fit(scores, y)
    >>> (np.diff(model.predict_proba(np.array([[-3.0], [0.0], [3.0]]))[:, 1]) > 0).tolist()
    [True, True]
    """

    @transactional
    def fit(self, X, y):
        """Note the two classes; return self."""
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        """Return the first column, shape (n_samples,)."""
        return np.asarray(X)[:, 0]

    def predict(self, X):
        """Return ``classes_[1]`` where the score is above 0."""
        return self.classes_[(self.decision_function(X) > 0).astype(int)]


def scores_by_probability(scorer):
    """Return whether the scores are probabilities, whose unit is that of every other model's: not to be stretched."""
    return isinstance(scorer[-1] if isinstance(scorer, Pipeline) else scorer, ProbabilityScorer)


def chains(pipeline):
    """Return the Pipelines of a committee's members, the best one first; of any other Pipeline itself alone."""
    return pipeline[-1].members if isinstance(pipeline[-1], Committee) else [pipeline]


def unwrapped(solver):
    """Return the classifier that a `ProbabilityScorer` was given, a committee's best solver, any other as it is."""
    if isinstance(solver, Committee):
        solver = solver.members[0][-1]
    return solver.estimator if isinstance(solver, ProbabilityScorer) else solver
