"""What other libraries' estimators are wrapped in: scores as they answer, of two classes."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import get_tags

from aucsolvers import GMeanThreshold
from aucsolvers.adapters import ProbabilityScorer, ScoreColumn, unwrapped


def rows(classes=2):
    rng = np.random.default_rng(0)
    y = np.arange(60) % classes
    return rng.normal(size=(60, 3)) + y[:, None], y


@pytest.mark.parametrize("estimator", [GaussianNB(), DecisionTreeClassifier(max_depth=2, random_state=0)])
def test_the_score_is_the_estimators_own_probability_of_the_second_class(estimator):
    X, y = rows()
    model = ProbabilityScorer(estimator).fit(X, np.where(y == 1, "yes", "no"))
    theirs = clone(estimator).fit(X, y)
    assert np.array_equal(model.decision_function(X), theirs.predict_proba(X)[:, 1])
    assert np.array_equal(model.predict(X) == "yes", theirs.predict(X) == 1)
    assert not hasattr(estimator, "classes_")  # a clone was fitted


def test_three_classes_are_refused():
    with pytest.raises(ValueError, match="Expected two classes, got 3"):
        ProbabilityScorer(GaussianNB()).fit(*rows(3))


def test_unwrapping_reaches_the_estimator_and_leaves_others_alone():
    inner, other = GaussianNB(), LinearSVC()
    assert unwrapped(ProbabilityScorer(inner)) is inner
    assert unwrapped(other) is other


def test_a_score_column_is_its_own_score():
    model = ScoreColumn().fit(np.zeros((2, 1)), [-1, 1])
    assert model.decision_function([[0.5], [-2.0]]).tolist() == [0.5, -2.0]
    assert model.predict([[0.5], [-2.0]]).tolist() == [1, -1]


def test_a_wrapper_takes_what_its_classifier_takes():
    """Sparse rows, say: a chain is made sparse where its solver says so."""
    for estimator in (GaussianNB(), KNeighborsClassifier()):
        tags = get_tags(ProbabilityScorer(estimator))
        assert tags.input_tags == get_tags(estimator).input_tags
        assert not tags.classifier_tags.multi_class


@pytest.mark.parametrize("wrapper", [ProbabilityScorer, GMeanThreshold])
def test_weights_that_are_not_passed_on_are_not_lost_in_silence(wrapper):
    X, y = rows()
    with config_context(enable_metadata_routing=True):
        chain = make_pipeline(
            StandardScaler().set_fit_request(sample_weight=True),
            wrapper(LogisticRegression().set_fit_request(sample_weight=True)),
        )
        chain.fit(X, y)
        with pytest.raises(NotImplementedError, match=f"{wrapper.__name__} passes no metadata"):
            chain.fit(X, y, sample_weight=np.ones(60))


def test_columns_of_an_earlier_fit_are_forgotten():
    X = np.random.default_rng(0).normal(size=(20, 2))
    y = np.arange(20) % 2
    model = ProbabilityScorer(GaussianNB()).fit(pd.DataFrame(X, columns=["a", "b"]), y)
    assert model.feature_names_in_.tolist() == ["a", "b"]
    assert not hasattr(model.fit(X, y), "feature_names_in_")
