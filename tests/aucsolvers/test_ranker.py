"""The model that is kept: it answers as its training did, row by row, and survives storage."""

import pickle

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy.sparse import csr_matrix, issparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import make_column_transformer
from sklearn.datasets import load_breast_cancer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from threadpoolctl import threadpool_info, threadpool_limits

from aucsolvers import AUCMSGD, AUCSDCD, LSSVM, LinearSVM, Ranker, TextImputer
from aucsolvers.metrics import best_gmean_threshold, gmean

SOLVERS = [AUCSDCD(random_state=0), AUCMSGD(random_state=0), LSSVM(), LinearSVM(tol=1e-2, random_state=0)]


@pytest.fixture(scope="module")
def data():
    X, y = load_breast_cancer(return_X_y=True)
    return X, np.where(y == 0, 1, -1)


@pytest.fixture(scope="module", params=SOLVERS, ids=lambda solver: type(solver).__name__)
def ranker(request, data):
    X, y = data
    scorer = make_pipeline(StandardScaler(), clone(request.param)).fit(X, y)
    return Ranker(
        scorer,
        threshold=best_gmean_threshold(y, scorer.decision_function(X)),
        positive_label="sick",
        negative_label="well",
    )


def test_classes_on_the_training_rows_have_the_best_gmean(ranker, data):
    X, y = data
    scores = ranker.predict(X)
    reached = gmean(y, np.where(ranker.classify(X) == "sick", 1, -1))
    assert reached == max(gmean(y, np.where(scores > cut, 1, -1)) for cut in np.unique(scores))


def test_a_rows_score_does_not_depend_on_the_rows_beside_it(ranker, data):
    X, _ = data
    scores = ranker.predict(X)
    for size in (1, 2, 7, 100):
        chunks = [ranker.predict(X[i : i + size]) for i in range(0, len(X), size)]
        assert np.array_equal(np.concatenate(chunks), scores)


def test_storage_keeps_every_bit(ranker, data):
    X, _ = data
    stored = skops.io.dumps(ranker)
    types = skops.io.get_untrusted_types(data=stored)
    assert all(name.startswith("aucsolvers.") for name in types)
    for copy in (pickle.loads(pickle.dumps(ranker)), skops.io.loads(stored, trusted=types)):
        assert np.array_equal(copy.predict(X), ranker.predict(X))
        assert np.array_equal(copy.classify(X), ranker.classify(X))


class Told(BaseEstimator):
    """A scorer that notes what it is given, and by how many threads BLAS would multiply it."""

    def decision_function(self, X):
        self.given = X
        self.threads = {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"}
        return np.asarray(X.sum(axis=1)).ravel()


def test_a_score_of_the_threshold_itself_is_negative():
    ranker = Ranker(Told(), threshold=2.0, positive_label="yes", negative_label="no")
    assert ranker.classify(np.array([[1.0], [2.0], [3.0]])).tolist() == ["no", "no", "yes"]


def test_arrays_for_a_scorer_of_sparse_rows_are_brought_to_csr():
    for sparse in (False, True):
        ranker = Ranker(Told(), sparse=sparse)
        ranker.predict(np.eye(3))
        assert issparse(ranker.scorer.given) == sparse
        ranker.predict(pd.DataFrame(np.eye(3)))
        assert issparse(ranker.scorer.given) == sparse
        ranker.predict(csr_matrix(np.eye(3)))
        assert issparse(ranker.scorer.given)


def test_a_server_scores_on_one_thread():
    ranker = Ranker(Told())
    with threadpool_limits(2, user_api="blas"):
        assert {info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas"} == {2}
        ranker.predict(np.eye(3))
    assert ranker.scorer.threads == {1}


class TestFrames:
    """A frame is held to what its columns were in training."""

    X = pd.DataFrame({"amount": [1.0, 2.0, np.nan, 4.0] * 6, "code": ["1", "2", None, "A"] * 6})

    @pytest.fixture(scope="class")
    def ranker(self):
        texts = make_pipeline(TextImputer(), OneHotEncoder(handle_unknown="infrequent_if_exist"))
        columns = make_column_transformer((SimpleImputer(), ["amount"]), (texts, ["code"]))
        scorer = make_pipeline(columns, LSSVM()).fit(self.X, np.arange(24) % 3 - 1 | 1)
        return Ranker(scorer, columns={"amount": "number", "code": "text"})

    @pytest.mark.parametrize(
        "code", [1, 1.0, True, [1, None] * 12, [1, "2"] * 12, pd.Categorical([1, 2] * 12)], ids=str
    )
    def test_numbers_are_no_texts(self, code, ranker):
        """What pandas reads of 1, 2 and gaps are fractions: as texts none of training had these, and they were rare."""
        with pytest.raises(ValueError, match="Expected a text in column 'code', as in training, got the number"):
            ranker.predict(self.X.assign(code=code))

    @pytest.mark.parametrize("amount", ["much", "1_0", np.inf, "inf", [1.0, "x"] * 12, "2024-01-01"], ids=str)
    def test_texts_and_infinity_are_no_numbers(self, amount, ranker):
        with pytest.raises(ValueError, match=r"Expected a finite number in column 'amount', as in training, got '.+'"):
            ranker.predict(self.X.assign(amount=amount))

    @pytest.mark.parametrize("amount", ["1,021.59", "12,5"])
    def test_commas_in_numbers_are_not_guessed_at(self, amount, ranker):
        """They may stand between thousands or before decimals."""
        with pytest.raises(ValueError, match=f"got '{amount}'. Write it as a plain number, as 1234.5, or leave"):
            ranker.predict(self.X.assign(amount=amount))
        with pytest.raises(ValueError, match=r"got 'inf'\. Mend it, or leave"):
            ranker.predict(self.X.assign(amount="inf"))

    def test_what_says_the_same_scores_the_same(self, ranker):
        want = ranker.predict(self.X)
        written = ["1.0", " 2 ", "", "4e0"] * 6
        code = pd.array(["1 ", "2", None, "A"] * 6, dtype="string")
        for X in (self.X.assign(amount=written), self.X.assign(code=code), self.X.assign(code=code.astype("category"))):
            assert np.array_equal(ranker.predict(X), want)
        truth = ranker.predict(self.X.assign(amount=1.0))
        for amount in (True, "true", [True, 1] * 12):
            assert np.array_equal(ranker.predict(self.X.assign(amount=amount)), truth)

    @pytest.mark.parametrize(
        "amount", [[[1.0]] * 24, [[]] * 24, [{}] * 24, [1j] * 24, pd.period_range("2024", periods=24)]
    )
    def test_what_is_no_single_number_is_told(self, amount, ranker):
        with pytest.raises(ValueError, match=r"Expected a finite number in column 'amount', as in training, got '.+'"):
            ranker.predict(self.X.assign(amount=pd.Series(amount)))

    def test_what_is_no_text_is_told_as_it_is(self, ranker):
        with pytest.raises(ValueError, match=r"Expected a text in column 'code', as in training, got \['A'\]\. Write"):
            ranker.predict(self.X.assign(code=[["A"]] * 24))

    def test_times_are_seconds_in_objects_too(self, ranker):
        """As `frame.iloc[0].to_frame().T` and a row of `apply` have them."""
        times = pd.Series(pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(24), unit="s"))
        want = ranker.predict(self.X.assign(amount=1704067200.0 + np.arange(24)))
        for amount in (times, times.astype(object), times.dt.tz_localize("UTC").astype(object)):
            assert np.array_equal(ranker.predict(self.X.assign(amount=amount)), want)
        row = self.X.assign(amount=times).iloc[5].to_frame().T
        assert row["amount"].dtype == object and ranker.predict(row) == want[5]

    def test_dates_are_texts_as_in_training(self, ranker):
        day = pd.Timestamp("2024-01-01").date()
        want = ranker.predict(self.X.assign(code="2024-01-01"))
        assert np.array_equal(ranker.predict(self.X.assign(code=[day, "2024-01-01"] * 12)), want)

    @pytest.mark.parametrize("none", [X.iloc[:0], X.iloc[:0].astype(object)], ids=["typed", "objects"])
    def test_no_rows_have_no_scores(self, none, ranker):
        assert ranker.predict(none).shape == ranker.classify(none).shape == (0,)

    def test_columns_without_a_value_fit_either(self, ranker):
        empty = self.X.assign(amount=None, code=np.nan)
        assert np.array_equal(ranker.predict(empty), ranker.predict(self.X.iloc[[2] * 24]))

    def test_columns_that_are_missing_are_the_scorers_to_name(self, ranker):
        with pytest.raises(ValueError, match=r"columns are missing: {'code'}"):
            ranker.predict(self.X[["amount"]])
