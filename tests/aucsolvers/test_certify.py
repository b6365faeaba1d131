"""Looks at a model against the metrics' objectives, finite differences, and the certificate's promise."""

import numpy as np
import pytest
from arrivals import STORAGES, arriving, exponential_objective
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime, minimize

from aucsolvers._certify import EXPONENTIAL, HINGE, SQUARE, Objective
from aucsolvers.metrics import (
    auc,
    best_gmean_threshold,
    pairwise_hinge_gradient,
    pairwise_hinge_objective,
    pairwise_square_gradient,
    pairwise_square_objective,
)

LAM = 0.3
W = np.array([0.4, -0.2, 0.1, 0.3, -0.5])
VALUES = {HINGE: pairwise_hinge_objective, SQUARE: pairwise_square_objective, EXPONENTIAL: exponential_objective}
GRADIENTS = {
    HINGE: pairwise_hinge_gradient,
    SQUARE: pairwise_square_gradient,
    EXPONENTIAL: lambda w, *data: approx_fprime(w, exponential_objective, 1e-7, *data),
}
losses = pytest.mark.parametrize("loss", VALUES, ids=["hinge", "square", "exponential"])


@losses
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_look_is_what_the_metrics_say(loss, storage, dtype):
    X, y = arriving(120)
    X = X.astype(dtype)
    whole = X.astype(np.float64)
    look = Objective(storage(X), y > 0, LAM, loss).look(W)
    assert look.objective == pytest.approx(VALUES[loss](W, whole, y, LAM), rel=1e-12)
    gradient = GRADIENTS[loss](W, whole, y, LAM)
    assert look.gap == pytest.approx(gradient @ gradient / (2 * LAM), rel=1e-5 if loss is EXPONENTIAL else 1e-10)
    assert look.auc == auc(y, whole @ W)
    assert look.threshold == pytest.approx(best_gmean_threshold(y, whole @ W))


@losses
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize(("n", "d"), [(257, 1), (600, 5), (521, 32), (300, 33), (70, 700)])
def test_blocks_of_any_size_are_added_up(loss, storage, n, d):
    X, y = arriving(n, d)
    w = 0.1 * np.random.default_rng(1).normal(size=d)
    look = Objective(storage(X), y > 0, LAM, loss).look(w)
    assert look.objective == pytest.approx(VALUES[loss](w, X, y, LAM), rel=1e-12)
    gradient = GRADIENTS[loss](w, X, y, LAM)
    assert look.gap == pytest.approx(gradient @ gradient / (2 * LAM), rel=1e-5 if loss is EXPONENTIAL else 1e-10)


@losses
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("d", [1, 3, 7, 16, 29, 54, 101])
def test_equal_rows_tie_wherever_in_a_block_they_are(loss, storage, d):
    rng = np.random.default_rng(d)
    for n in (9, 90, 4096 // d + 7):
        X, y = np.tile(rng.normal(size=d), (n, 1)), np.where(np.arange(n) % 3, -1.0, 1.0)
        assert Objective(storage(X), y > 0, LAM, loss).look(rng.normal(size=d)).auc == 0.5


@losses
@pytest.mark.parametrize("storage", STORAGES)
def test_models_that_share_a_reading_are_seen_as_alone(loss, storage):
    X, y = arriving(150)
    models = np.array([3.0 * W, np.zeros(5), 1e200 * W, 1e307 * W, 1e308 * W, W])
    objective = Objective(storage(X), y > 0, LAM, loss)
    with np.errstate(over="ignore", invalid="ignore"):
        *earlier, last = objective.looks(models)
        alone = [objective.look(w) for w in models]
    assert last == alone[-1]
    for look, own in zip(earlier, alone, strict=False):
        assert look == own._replace(gap=np.inf)  # without a gradient nothing bounds the optimum
    assert loss is HINGE or [look.objective for look in earlier[2:]] == [np.inf] * 3


@losses
def test_class_means_may_be_known(loss):
    X, y = arriving(120)
    means = np.array([X[y < 0].mean(axis=0), X[y > 0].mean(axis=0)])
    told, own = Objective(X, y > 0, LAM, loss, means), Objective(X, y > 0, LAM, loss)
    assert_allclose(told.look(W), own.look(W), rtol=1e-12)
    assert_allclose(told.look_at_zero(), own.look_at_zero(), rtol=1e-12)


@losses
def test_a_look_at_zero_needs_no_row(loss):
    X, y = arriving(120)
    objective = Objective(X, y > 0, LAM, loss)
    zero, look = objective.look_at_zero(), objective.look(np.zeros(5))
    assert_allclose(zero[:3], look[:3], rtol=1e-12)
    assert zero.threshold == look.threshold == 0.0


@losses
@pytest.mark.parametrize("scale", [0.0, 0.1, 3.0])
def test_the_gap_is_never_below_the_suboptimality(loss, scale):
    X, y = arriving(120)
    start = minimize(VALUES[loss], np.zeros(5), (X, y, LAM), method="Nelder-Mead", options={"maxiter": 4000}).fun
    look = Objective(X, y > 0, LAM, loss).look(scale * W)
    assert look.gap >= look.objective - start - 1e-12


def test_square_does_not_cancel_far_from_the_origin():
    X, y = arriving(120)
    near, far = (Objective(X + shift, y > 0, LAM, SQUARE).look(W) for shift in (0.0, 1e6))
    assert_allclose(far[:2], near[:2], rtol=1e-7)


@losses
@pytest.mark.parametrize("length", [1e200, 1e308])
def test_of_a_model_that_overflowed_nothing_is_known(loss, length):
    """Be it in the scores, in the loss or in ||w||^2: the gradient may be finite, and bounds nothing."""
    X, y = arriving(120)
    with np.errstate(over="ignore", invalid="ignore"):
        look = Objective(X, y > 0, LAM, loss).look(length * W)
    assert (look.objective, look.gap) == (np.inf, np.inf)
