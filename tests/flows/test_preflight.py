"""Before the flow: what is told of fits that take long."""

import pytest

from flows.preflight import long_fits
from tasks.configuration import parse_config
from tasks.values import Prepared, Split


class Counted:
    """A data set of which only the counts are asked for."""

    name = "claims"

    def __init__(self, n_pos, n_neg):
        self.n_pos, self.n_neg, self.n_rows = n_pos, n_neg, n_pos + n_neg


def told(n_pos, n_neg, *methods, **validation):
    config = parse_config({"datasets": ["wine"], "methods": list(methods), "validation": validation}, "a test")
    return [*long_fits(Prepared(Counted(n_pos, n_neg), (), (), Split(0, (), ())), config)]


def test_squared_rows_of_many_are_told_of_with_how_many_fits():
    """15 candidates for 3 inner folds and one fit after them, for 5 folds and the refit."""
    (sentence,) = told(1000, 29_000, "margin_mean_rbf", "svm_or", "u2+margin_mean_rbf", "linear_svm")
    assert sentence == (
        "claims, margin_mean_rbf: 276 fits of about 24,000 rows, whose time grows with their square: that may be "
        "minutes a fit. Take u2 before it, or gaussian+svm_or, if that is too long."
    )
    assert told(1000, 24_000, "margin_mean_rbf") == []
    assert "11 fits" in told(1000, 29_000, {"solver": "kernel_svm", "params": {"C": 1, "gamma": "spread"}}, folds=10)[0]


@pytest.mark.parametrize("solver", ["msgd", "oam_inf"])
def test_pairs_are_counted_in_training_rows(solver):
    (sentence,) = told(50_000, 50_000, {"solver": solver, "params": {"lam": 0.1}})
    assert sentence == (
        f"claims, {solver}: 6 fits of about 1,600,000,000 pairs, each of which is visited: that may be minutes a fit. "
        "Take svm_or, which has the same objective, if that is too long."
    )
    assert told(39_000, 40_000, solver) == []
