"""Hat functions: scikit-learn's contract, its SplineTransformer as oracle, and that linear scores interpolate."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import SplineTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers.hats import HatFunctions


@parametrize_with_checks([HatFunctions()])
def test_obeys_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n_knots", [2, 3, 6, 11])
def test_as_scikit_learns_splines_of_degree_one(n_knots):
    X = np.random.default_rng(0).random((50, 3))
    knots = np.repeat(np.linspace(0.0, 1.0, n_knots)[:, None], 3, axis=1)
    oracle = SplineTransformer(degree=1, knots=knots).fit_transform(X)
    assert np.allclose(HatFunctions(n_knots).fit_transform(X), oracle, atol=1e-14)


@given(st.integers(2, 12), st.integers(0, 10**6))
def test_a_linear_score_is_the_function_through_its_weights(n_knots, seed):
    rng = np.random.default_rng(seed)
    x, weights = rng.uniform(-0.5, 1.5, 20), rng.normal(size=n_knots)
    scores = HatFunctions(n_knots).fit_transform(x[:, None]) @ weights
    assert np.allclose(scores, np.interp(x, np.linspace(0.0, 1.0, n_knots), weights), atol=1e-12)


def test_a_constant_column_and_names():
    hats = HatFunctions(2).fit(np.zeros((4, 2)))
    assert np.array_equal(hats.transform(np.zeros((1, 2))), [[1.0, 0.0, 1.0, 0.0]])
    assert list(hats.get_feature_names_out(["age", "sum"])) == [
        "age at knot 0", "age at knot 1", "sum at knot 0", "sum at knot 1",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="number of features"):
        hats.get_feature_names_out(["age"])
    named = HatFunctions(2).fit(pd.DataFrame({"age": [0.0], "sum": [1.0]}))
    assert named.get_feature_names_out()[0] == "age at knot 0"
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        named.get_feature_names_out(["sum", "age"])


@pytest.mark.parametrize("n_knots", [1, 0, 2.5])
def test_refuses_less_than_two_knots(n_knots):
    with pytest.raises(ValueError, match="Expected n_knots"):
        HatFunctions(n_knots).fit([[0.0]])
