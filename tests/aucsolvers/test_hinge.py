"""What the SVMs share of the hinge losses, against the definitions written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import minimize_scalar
from sklearn.utils.class_weight import compute_sample_weight

from aucsolvers._hinge import best_multiple, dual_bounds, loss_and_gap, objective_of_best_constant, row_costs

CLASSES, Y = np.array(["no", "yes"]), np.array([1.0, -1.0, -1.0, -1.0])


class TestRowCosts:
    def test_without_weights_every_row_costs_c(self):
        assert_array_equal(row_costs(0.3, None, CLASSES, Y, None), [0.3] * 4)

    def test_class_and_sample_weights_multiply(self):
        costs = row_costs(2.0, {"yes": 5.0}, CLASSES, Y, [1.0, 2.0, 0.0, 3.0])
        assert_array_equal(costs, [10.0, 4.0, 0.0, 6.0])

    def test_balanced_counts_sample_weights(self):
        """n / (2 n_c) with n and n_c as sums of weights: both classes then weigh n / 2 = 4 in all."""
        costs = row_costs(1.0, "balanced", CLASSES, Y, [2.0, 1.0, 2.0, 3.0])
        assert_allclose(costs, [4.0, 4 / 6, 8 / 6, 2.0])

    @pytest.mark.parametrize("class_weight", ["balanced", {"yes": 3.0, "no": 0.5}])
    def test_class_weights_are_scikit_learns(self, class_weight):
        y = np.where(np.random.default_rng(0).random(97) < 0.3, 1.0, -1.0)
        theirs = compute_sample_weight(class_weight, CLASSES[(y > 0).astype(int)])
        assert_array_equal(row_costs(0.7, class_weight, CLASSES, y, None), 0.7 * theirs)

    def test_the_callers_weights_stay_as_they_are(self):
        weight = np.ones(4)
        row_costs(1.0, {"yes": 5.0}, CLASSES, Y, weight)
        assert_array_equal(weight, np.ones(4))

    @pytest.mark.parametrize(
        ("class_weight", "weight", "says"),
        [
            (None, [1, 1, 1], "inconsistent"),
            (None, [1, 1, 1, np.nan], "finite and >= 0"),
            (None, [0, 1, 1, 1], "none in one class"),
            ({"yes": -1.0}, None, "finite and >= 0"),
            ({"yes": 0.0}, None, "none in one class"),
            ({"yes": 1e-320}, None, "none in one class, or so small"),  # C_i is 0: no row of the class was left
            ({"yes": 1e308}, None, "product with C is finite"),
            (None, ["1", "1", "1", "1"], "real numbers, got <U1"),
            (None, np.array(["1", "1", "1", 1.0], dtype=object), "real numbers, got '1'"),
            (None, np.array([b"1", 1.0, 1.0, 1.0], dtype=object), "real numbers, got b'1'"),
            (None, np.array([1.0, np.complex128(1j), 1.0, 1.0], dtype=object), "real numbers, got "),
            (None, np.array([1.0, np.timedelta64(1, "D"), 1.0, 1.0], dtype=object), "real numbers, got "),
            (None, np.array([10**400, 1, 1, 1], dtype=object), "real numbers, got other objects"),
            (None, sparse.csr_array(np.ones((1, 4))), "real numbers, got other objects"),
            (None, np.ones(4) * 1j, "real numbers, got complex128"),
            (None, np.ones((4, 1)), "shape"),
        ],
    )
    def test_what_is_refused(self, class_weight, weight, says):
        with pytest.raises(ValueError, match=says):
            row_costs(3.0, class_weight, CLASSES, Y, weight)


@pytest.mark.parametrize("squared", [False, True])
class TestGap:
    def test_is_primal_minus_dual(self, squared):
        """On rows X with w = w(alpha): P = ||w||^2/2 + loss, D = sum alpha - ||w||^2/2 - sum D alpha^2 / 2."""
        rng = np.random.default_rng(0)
        X, y, cost = rng.normal(size=(30, 4)), rng.choice([-1.0, 1.0], size=30), rng.uniform(0.5, 2.0, size=30)
        upper, diagonal = dual_bounds(cost, squared)
        alpha = rng.random(30) * np.minimum(upper, 3.0)
        w = X.T @ (y * alpha)
        slack = np.maximum(0.0, 1.0 - y * (X @ w))
        loss = cost @ (slack**2 if squared else slack)
        dual = alpha.sum() - 0.5 * w @ w - 0.5 * diagonal @ alpha**2
        assert_allclose(loss_and_gap(y * (X @ w), alpha, cost, squared), (loss, 0.5 * w @ w + loss - dual), rtol=1e-12)

    def test_is_zero_at_the_optimum_and_exact_near_it(self, squared):
        """A row within e of its margin adds about e: nothing is lost to the size of the loss of the other row."""
        cost, far = np.ones(2), 2e8 if squared else 1.0
        assert loss_and_gap(np.array([1.0, 1.0 - 1e8]), np.array([0.0, far]), cost, squared)[1] == 0.0
        gap = loss_and_gap(np.array([1.0 + 2.0**-40, 1.0 - 1e8]), np.array([0.5, far]), cost, squared)[1]
        assert_allclose(gap, 0.5 * 2.0**-40 + (0.0625 if squared else 0.0), rtol=1e-15)

    def test_bounds_make_every_slope_of_the_loss_feasible(self, squared):
        """The slope of C loss(t) is C for the hinge, 2 C t for the squared one, where D alpha = t."""
        cost = np.array([0.5, 2.0])
        upper, diagonal = dual_bounds(cost, squared)
        if squared:
            assert_array_equal(upper, [np.inf, np.inf])
            assert_allclose(diagonal * (2 * cost * 0.7), 0.7)
        else:
            assert_array_equal(upper, cost)
            assert_array_equal(diagonal, [0.0, 0.0])


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize(("negative", "positive"), [(3.0, 0.2), (0.4, 0.1), (0.1, 0.5), (0.2, 30.0), (2.0, 2.0)])
def test_best_constant(negative, positive, squared):
    def objective(b):
        loss = np.maximum(0.0, [1 + b, 1 - b]) ** (1 + squared)
        return 0.5 * b * b + negative * loss[0] + positive * loss[1]

    best = minimize_scalar(objective, bounds=(-2.0, 2.0), method="bounded", options={"xatol": 1e-10}).fun
    assert objective_of_best_constant(negative, positive, squared, True) == pytest.approx(best, rel=1e-6)
    assert objective_of_best_constant(negative, positive, squared, False) == objective(0.0)


@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("stretch", [1e-12, 1e-6, 0.01, 0.3, 0.9, 0.999999, 1.0, 1.000001, 1.3, 40.0, 1000.0])
def test_the_best_multiple_is_found_however_far_it_is(squared, stretch):
    """Margins whose best multiple is known: with m = 1 / stretch on all rows, s = stretch is at the hinge's kink."""
    rng = np.random.default_rng(0)
    margins, cost = np.full(500, 1.0 / stretch), rng.random(500) + 0.5
    # P(s) = s^2/2 a + sum C (1 - s m): the smooth part's root is where a s = sum C m, or 2 C m (1 - s m) if squared
    square = 0.5 * cost.sum() / stretch**2 if not squared else 2.0 * cost.sum() / stretch**2
    expected = stretch if not squared else 0.5 * stretch

    def primal(s):
        over = np.maximum(0.0, 1.0 - s * margins)
        return 0.5 * s * s * square + cost @ (over**2 if squared else over)

    found = best_multiple(margins, cost, squared, square, 0.0, 1e-3 * cost.sum())
    assert primal(found) <= primal(expected) + 1.001e-5 * cost.sum()
