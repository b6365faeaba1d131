"""The model that is kept: a fitted pipeline, its threshold and its labels, scoring as rankers do."""

import numpy as np
import pandas as pd
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if

from aucsolvers.columns import as_numbers, as_texts, asked_for, plain_columns
from aucsolvers.process import one_blas_thread


class Ranker(BaseEstimator):
    """A fitted scorer whose ``predict`` returns scores; ``classify`` cuts them at the threshold.

    A model that ranks is judged by its scores, so that is what every server of it should answer.

    Parameters
    ----------
    scorer : fitted estimator with ``decision_function``
        Usually a Pipeline of preprocessing and solver.
    threshold : float
        Scores above it are classified as positive. Set on training rows.
    positive_label, negative_label : str
        What ``classify`` answers.
    calibrator : fitted classifier with ``predict_proba``, default=None
        Of a column of scores. With it there is ``predict_proba``.
    sparse : bool, default=False
        Whether the scorer was fitted on a sparse matrix. A server hands it arrays: these are brought to CSR, for sums
        over all features and over those that are not zero differ in the last bit.
    columns : dict of str to {"number", "text", "category"}, default=None
        What the columns of a frame were in training. A frame is then held to it: 7 is none of the texts "7" and "007",
        and the same category as either.

    Examples
    --------
    >>> import numpy as np
    >>> from aucsolvers import LSSVM, Ranker
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array([-1, -1, 1, 1])
    >>> ranker = Ranker(LSSVM(lam=1e-3).fit(X, y), threshold=0.0, positive_label="fraud", negative_label="rest")
    >>> ranker.classify(X).tolist()
    ['rest', 'rest', 'fraud', 'fraud']
    """

    def __init__(
        self,
        scorer,
        *,
        threshold=0.0,
        positive_label="1",
        negative_label="-1",
        calibrator=None,
        sparse=False,
        columns=None,
    ):
        self.scorer = scorer
        self.threshold = threshold
        self.positive_label = positive_label
        self.negative_label = negative_label
        self.calibrator = calibrator
        self.sparse = sparse
        self.columns = columns

    def predict(self, X):
        """Return the scores, shape (n_samples,): the larger, the more likely positive.

        A frame's columns may have any type that they could be trained from: times, categories, nullable numbers. BLAS
        works on one thread, as in training: several would divide a product where they like, and its last bits with it.
        No rows have no scores.

        Raises
        ------
        ValueError
            If a column that was one of texts has a number, or one of numbers a text or infinity; blank texts are gaps.
        """
        if isinstance(X, pd.DataFrame):
            categories = [name for name, kind in (self.columns or {}).items() if kind == "category"]
            X = self._as_trained(plain_columns(X, categories))
        if not (len(X) if isinstance(X, list | tuple) else X.shape[0]):
            return np.empty(0)
        if self.sparse and not issparse(X):
            X = csr_matrix(np.asarray(X, dtype=np.float64))
        try:
            with one_blas_thread():
                return self.scorer.decision_function(X)
        except ValueError:
            if isinstance(X, pd.DataFrame):
                self._as_trained(X, whole=True)  # names the column with an infinity
            raise

    def _as_trained(self, frame, whole=False):
        """Hold a frame of plain columns to what they were in training; the scorer tells which are not there at all."""
        columns = self.columns or {}
        for name, dtype in zip(frame.columns, frame.dtypes.tolist(), strict=True):
            kind = columns.get(name)
            if kind in ("text", "category") or (kind == "number" and (whole or dtype.hasobject)):
                values = frame[name].to_numpy()
                frame[name], strange = as_numbers(values) if kind == "number" else as_texts(values)
                if strange is not None:
                    raise ValueError(f"Expected {asked_for(kind, name, values[strange])}")
        return frame

    decision_function = predict

    def classify(self, X):
        """Return ``positive_label`` where the score exceeds the threshold, ``negative_label`` elsewhere."""
        return self.cut(self.predict(X))

    def cut(self, scores):
        """Return what ``classify`` answers to rows with these scores."""
        return np.where(np.asarray(scores) > self.threshold, self.positive_label, self.negative_label)

    @available_if(lambda self: self.calibrator is not None)
    def predict_proba(self, X):
        """Return the probabilities of ``negative_label`` and ``positive_label``, shape (n_samples, 2)."""
        return self.calibrate(self.predict(X))

    @available_if(lambda self: self.calibrator is not None)
    def calibrate(self, scores):
        """Return what ``predict_proba`` answers to rows with these scores."""
        column = np.asarray(scores).reshape(-1, 1)
        return self.calibrator.predict_proba(column) if len(column) else np.empty((0, 2))
