"""A committee: several fitted scorers as one, for a search that finds candidates about equally good."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

ROUNDING = 1e-14  # of the largest score: scores that differ by less do not differ


class Committee(BaseEstimator):
    """Fitted scorers whose mean, each in units of its own, is one score.

    Which of many candidates has the best inner score is decided by chance as much as by merit, the more so the rarer
    the positive rows. The mean of the best few hangs less on it than any one of them.

    Parameters
    ----------
    members : list of fitted estimators with ``decision_function``
        Usually Pipelines, each with a preprocessing of its own; the best one first.

    Attributes
    ----------
    centres_, spreads_ : ndarrays of shape (n_members,)
        Median and standard deviation of each member's scores of the rows of ``fit``; a spread of 0, up to rounding,
        counts as 1.

    Notes
    -----
    Scores of different losses, penalties and kernels have no common unit, and a pairwise loss no common origin either:
    so each member's are brought to median 0 and standard deviation 1 on the training rows. Then all have the same say.

    Fit costs one scoring of the rows for each member, and so does a score.

    Examples
    --------
    >>> import numpy as np
    >>> from aucsolvers import LSSVM
    >>> from aucsolvers.committee import Committee
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1, -1, 1, 1])
    >>> members = [LSSVM(lam=lam).fit(X, y) for lam in (1e-3, 1e-1)]
    >>> Committee(members).fit(X).decision_function(X).round(2).tolist()
    [-1.34, -0.45, 0.45, 1.34]
    """

    def __init__(self, members):
        self.members = members

    def fit(self, X, y=None):
        """Take each member's unit from its scores of the rows X; the members stay as they are. Return self."""
        scores = self._scores(X)
        self.centres_, self.spreads_ = np.median(scores, axis=1), spread_of(scores)
        return self

    def decision_function(self, X):
        """Return the mean of the members' scores, each in its own unit, shape (n_samples,)."""
        check_is_fitted(self)
        return ((self._scores(X) - self.centres_[:, None]) / self.spreads_[:, None]).mean(axis=0)

    def _scores(self, X):
        return np.array([member.decision_function(X) for member in self.members])


def spread_of(scores):
    """Return the standard deviation along the last axis, 1 where scores differ by nothing but rounding."""
    spread = scores.std(axis=-1)
    return np.where(spread > ROUNDING * np.abs(scores).max(axis=-1), spread, 1.0)
