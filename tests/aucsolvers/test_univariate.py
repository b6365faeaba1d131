"""UniExp against a slow twin and the optimum that scipy finds."""

import numpy as np
import pytest
from arrivals import STORAGES, arriving, exponential_optimum

from aucsolvers.univariate import UniExp

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("eta", [0.3, 2.0])
def test_is_its_slow_twin(storage, eta):
    X, y = arriving()
    w, peak, capped = np.zeros(X.shape[1]), 0.0, 0
    for t, (x, label) in enumerate(zip(X, y, strict=True), start=1):
        share = np.mean(y[:t] == label)
        peak = max(peak, x @ x)
        step = 1 / (peak / eta + 0.1 * t)
        pull = step / (2 * share) * np.exp(-label * (w @ x))
        capped += pull * (x @ x) > 1
        w = w - step * 0.1 * w + label * (min(pull, 1 / (x @ x)) if x.any() else 0.0) * x
    model = UniExp(lam=0.1, eta=eta).partial_fit(storage(X), y)
    np.testing.assert_allclose(model.coef_.ravel(), w, rtol=1e-12, atol=1e-12)
    assert (capped > 0) == (eta == 2.0)


@pytest.mark.parametrize("lam", [1.0, 0.1])
def test_reaches_the_foreign_optimum(lam):
    X, y = arriving(200)
    model = UniExp(lam=lam, tol=1e-5, max_iter=3000, random_state=0).fit(X, y)
    assert model.status_ == "converged"
    assert 0 <= model.objective_ - exponential_optimum(X, y, lam) <= 1e-5


@pytest.mark.parametrize("lam", [1.0, 0.25])
def test_a_stream_that_begins_with_a_row_of_zeros(lam):
    """eta_1 lam = 1 then: w is multiplied by 0, and what comes next is divided by that scale."""
    X, y = np.array([[0.0, 0.0], [1.0, 2.0], [-1.0, 0.5]]), [1, 1, 0]
    model = UniExp(lam=lam).partial_fit(X, y, classes=[0, 1])
    w, peak = np.zeros(2), 0.0
    for t, (x, label) in enumerate(zip(X, y, strict=True), start=1):
        peak = max(peak, x @ x)
        sign, share = 2 * label - 1, np.mean(np.array(y[:t]) == label)
        step = 1 / (peak + lam * t)
        pull = step / (2 * share) * np.exp(-sign * (w @ x))
        w = (1 - step * lam) * w + sign * (min(pull, 1 / (x @ x)) if x.any() else 0.0) * x
    np.testing.assert_allclose(model.coef_.ravel(), w, rtol=1e-12)
