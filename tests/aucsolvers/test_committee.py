"""A committee: the mean of scores in units of their own, whatever the members' units are."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from sklearn.datasets import make_classification
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from aucsolvers import LSSVM, SVMOR
from aucsolvers.adapters import chains, unwrapped
from aucsolvers.committee import Committee

X, y = make_classification(200, 6, random_state=0)
ONE = make_pipeline(StandardScaler(), SVMOR(lam=1e-2)).fit(X, y)
OTHER = make_pipeline(QuantileTransformer(n_quantiles=50), LSSVM(lam=1e-1)).fit(X, y)


class Scaled(BaseEstimator):
    """A scorer in another unit, from another origin."""

    def __init__(self, scorer, factor, shift):
        self.scorer, self.factor, self.shift = scorer, factor, shift

    def decision_function(self, X):
        return self.factor * self.scorer.decision_function(X) + self.shift


def test_is_the_mean_in_units_of_the_rows_fitted_on():
    scores = [scorer.decision_function(X) for scorer in (ONE, OTHER)]
    expected = np.mean([(s - np.median(s)) / s.std() for s in scores], axis=0)
    committee = Committee([ONE, OTHER]).fit(X)
    assert np.allclose(committee.decision_function(X), expected, atol=1e-12)
    assert np.allclose(committee.decision_function(X[:7]), expected[:7], atol=1e-12)


def test_a_members_unit_has_no_say():
    plain = Committee([ONE, OTHER]).fit(X).decision_function(X)
    other = Committee([Scaled(ONE, 1e4, -50.0), Scaled(OTHER, 1e-3, 7.0)]).fit(X).decision_function(X)
    assert np.allclose(plain, other, atol=1e-9)


def test_one_member_keeps_its_ranking_and_a_constant_one_adds_nothing():
    alone = Committee([ONE]).fit(X).decision_function(X)
    assert np.array_equal(np.argsort(alone, kind="stable"), np.argsort(ONE.decision_function(X), kind="stable"))
    constant = Committee([ONE, Scaled(OTHER, 0.0, 3.0)]).fit(X).decision_function(X)
    assert np.allclose(constant, alone / 2, atol=1e-12)
    rounding = Scaled(OTHER, 1e-15, 3.0)
    assert len(np.unique(rounding.decision_function(X))) > 1
    assert np.allclose(Committee([ONE, rounding]).fit(X).decision_function(X), alone / 2, atol=1e-12)


def test_is_unfit_until_it_knows_the_units():
    with pytest.raises(NotFittedError):
        Committee([ONE]).decision_function(X)


def test_its_members_and_the_best_ones_solver_are_found():
    pipeline = Pipeline([("solver", Committee([ONE, OTHER]).fit(X))])
    assert chains(pipeline) == [ONE, OTHER]
    assert chains(ONE) == [ONE]
    assert unwrapped(pipeline[-1]) is ONE[-1]


@pytest.mark.parametrize("height", [0.0, -3.0])
def test_a_member_without_a_spread_has_its_own_unit(height):
    """What told no row of the training from another may tell new ones; scores of 0 have no rounding to hide behind."""
    flat = Scaled(ONE, 0.0, height)
    alone, committee = Committee([ONE]).fit(X), Committee([ONE, flat]).fit(X)
    assert np.allclose(committee.decision_function(X), alone.decision_function(X) / 2, atol=1e-12)
    flat.shift = height + 5.0
    assert np.allclose(committee.decision_function(X), (alone.decision_function(X) + 5.0) / 2, atol=1e-12)


def test_rounding_is_told_by_the_size_of_a_members_own_scores():
    """Of negative ones too; and a member of tiny scores is not taken for rounding because another's are huge."""
    noise = Scaled(OTHER, 1e-15, -3.0)
    assert len(np.unique(noise.decision_function(X))) > 1
    alone = Committee([ONE]).fit(X).decision_function(X)
    assert np.allclose(Committee([ONE, noise]).fit(X).decision_function(X), alone / 2, atol=1e-12)
    plain = Committee([ONE, OTHER]).fit(X).decision_function(X)
    mixed = Committee([Scaled(ONE, 1e9, 0.0), Scaled(OTHER, 1e-9, 0.0)]).fit(X).decision_function(X)
    assert np.allclose(mixed, plain, atol=1e-9)
