"""SPDAM against a slow twin on explicit centred rows, LSSVM's exact solution, and the rate that theory promises."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import minmax_scale, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import saddle_point as module
from aucsolvers._certify import SQUARE, Objective
from aucsolvers.metrics import auc, pairwise_square_gradient, pairwise_square_objective
from aucsolvers.pairwise_square import LSSVM
from aucsolvers.saddle_point import SPDAM


def overlapping(n_pos=12, n_neg=33, d=5, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([1.0, -1.0], [n_pos, n_neg])
    return rng.normal(size=(n_pos + n_neg, d)) + 0.5 * (y[:, None] > 0) + 0.3, y


def centred_rows(X, y):
    """x~_i, formed: what the solver never does."""
    p, rows = np.mean(y > 0), np.empty_like(X)
    rows[y > 0] = (X[y > 0] - X[y > 0].mean(axis=0)) / np.sqrt(p)
    rows[y < 0] = (X[y < 0] - X[y < 0].mean(axis=0)) / np.sqrt(1 - p)
    return rows


def optimum(X, y, lam):
    """w* from the class moments and beta*_i = w*'x~_i, the saddle point."""
    rows = centred_rows(X, y)
    b = X[y < 0].mean(axis=0) - X[y > 0].mean(axis=0)
    w = np.linalg.solve(rows.T @ rows / len(y) + np.outer(b, b) + lam * np.eye(X.shape[1]), -b)
    return w, rows @ w


def twin(X, y, lam, batch, epochs, seed):
    """Table 1 of the source on explicit centred rows: no folding, no Sherman-Morrison, u kept for ever."""
    n, rows = len(y), centred_rows(X, y)
    b = X[y < 0].mean(axis=0) - X[y > 0].mean(axis=0)
    kappa2 = (rows**2).sum(axis=1).max()
    sigma = lam * ((n - batch) + np.sqrt((n - batch) ** 2 + 4 * n * batch * kappa2 / lam)) / (4 * batch * kappa2)
    tau, theta = 1 / (4 * sigma * kappa2), 1 - lam / (lam + 2 * sigma * kappa2)
    system = np.outer(b, b) + (lam + 1 / tau) * np.eye(len(b))
    beta, w, ahead, u = np.zeros(n), np.zeros(len(b)), np.zeros(len(b)), np.zeros(len(b))
    generator = np.random.default_rng(seed)
    iterates = []
    for _ in range(epochs):
        for K in module.draw_batches(n, batch, generator):
            new = (sigma * rows[K] @ ahead + beta[K]) / (1 + sigma)
            delta = (new - beta[K]) @ rows[K] / n
            beta[K] = new
            old, w = w, np.linalg.solve(system, w / tau - b - (u + n / batch * delta))
            u = u + delta
            ahead = w + theta * (w - old)
            iterates.append((w, beta.copy()))
    return iterates


def run(X, y, lam, batch, epochs, seed):
    return module.stochastic_primal_dual(X, y, lam, batch, 0.0, epochs, {"generator": np.random.default_rng(seed)})


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@parametrize_with_checks([SPDAM(), SPDAM(batch_size=0.5, max_iter=50)])
def test_obeys_scikit_learns_contract(estimator, check):
    check(estimator)


def look_after_each_epoch(monkeypatch):
    """Return a list that gets what each look of the fit to come finds: epochs so far, ||dQ(w)||^2/(2 lam)."""
    seen = []

    def next_look(looks, _target):
        seen[:] = looks
        return looks[-1][0] + 1

    monkeypatch.setattr(module, "next_look", next_look)
    return seen


class TestTwin:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
    @pytest.mark.parametrize("batch", [1, 7, 45])
    def test_same_batches_same_numbers(self, form, batch):
        X, y = overlapping()
        result = run(form(X), y, 1e-2, batch, 6, seed=4)
        w, beta = twin(X, y, 1e-2, batch, 6, seed=4)[-1]
        assert_allclose(result.w, w, rtol=0, atol=1e-12)
        assert_allclose(result.state["beta"], beta, rtol=0, atol=1e-12)
        assert result.history["updates"][-1] == 6 * -(-45 // batch)

    def test_batches_are_uniform_subsets(self):
        batches = np.vstack([module.draw_batches(10, 4, np.random.default_rng(s)) for s in range(4000)])
        assert batches.shape == (12000, 4)
        assert all(len(set(batch)) == 4 for batch in batches[:500])
        # each row is in a batch with chance 0.4, each pair with 4 * 3 / (10 * 9): 5 standard deviations are 0.022
        together = np.zeros((10, 10))
        for batch in batches:
            together[np.ix_(batch, batch)] += 1 / len(batches)
        assert_allclose(np.diag(together), 0.4, atol=0.022)
        assert_allclose(together[~np.eye(10, dtype=bool)], 12 / 90, atol=0.022)


class TestOptimum:
    @pytest.mark.parametrize("lam", [1.0, 1e-1, 1e-2])
    @pytest.mark.parametrize("batch_size", [1, 0.1, 1.0])
    def test_is_the_exact_solvers(self, lam, batch_size):
        X, y = overlapping()
        model = SPDAM(lam, batch_size=batch_size, tol=1e-18, max_iter=20_000, random_state=0).fit(X, y)
        exact = LSSVM(lam, tol=1e-20).fit(X, y)
        assert model.status_ == "converged"
        assert_allclose(model.coef_, exact.coef_, rtol=1e-6)
        assert model.objective_ == pytest.approx(exact.objective_, rel=1e-12)
        assert_allclose(exact.coef_.ravel(), optimum(X, y, lam)[0], rtol=1e-9)

    @pytest.mark.parametrize(("load", "positive"), [(load_breast_cancer, 0), (load_digits, 0), (load_wine, 0)])
    @pytest.mark.parametrize("prepared", [scale, minmax_scale])
    def test_the_defaults_get_there_on_few_rows_too(self, load, positive, prepared):
        """They need thousands of epochs, a fifth of a second: 1000 left a certificate of up to 200."""
        X, y = load(return_X_y=True)
        X, y = prepared(X), y == positive
        model, exact = SPDAM(random_state=0).fit(X, y), LSSVM().fit(X, y)
        assert model.status_ == "converged" and model.dual_gap_ <= 1e-6
        assert model.objective_ == pytest.approx(exact.objective_, rel=1e-6)

    def test_on_real_sparse_rows(self, mirror):
        X, y = load_svmlight_file(mirror / "libsvm" / "a9a")
        X, y = X[:5000], y[:5000] > 0
        model, exact = SPDAM(1e-2, random_state=0).fit(X, y), LSSVM(1e-2).fit(X, y)
        assert 0 <= model.objective_ - exact.objective_ <= model.dual_gap_ <= 1e-6
        assert_allclose(auc(y, model.decision_function(X)), auc(y, exact.decision_function(X)), atol=1e-3)


class TestRate:
    """Theorem 4.1: E of the weighted squared distance to the saddle point falls by theta at each step, or faster."""

    @pytest.mark.parametrize("batch", [1, 5, 45])
    def test_expected_error_stays_under_the_bound(self, batch):
        (X, y), lam = overlapping(), 1e-1
        best_w, best_beta = optimum(X, y, lam)
        sigma, tau, theta = module.step_sizes(
            module.centring_of(Objective(X, y > 0, lam, SQUARE).rows).kappa2, lam, len(y), batch
        )
        runs = [twin(X, y, lam, batch, 400 * batch // 45 + 40, seed) for seed in range(8)]

        def error(w, beta, dual, primal):
            return dual * np.sum((beta - best_beta) ** 2) + primal * np.sum((w - best_w) ** 2)

        start = error(0 * best_w, 0 * best_beta, (1 + 1 / (2 * sigma)) / batch, lam + 1 / (2 * tau))
        dual, primal = (1 + 1 / (4 * sigma)) / batch, lam + 1 / (2 * tau)
        errors = np.mean([[error(w, beta, dual, primal) for w, beta in iterates] for iterates in runs], axis=0)
        bound = theta ** np.arange(1, len(errors) + 1) * start
        seen = errors > 1e-20
        assert np.all(errors[seen] <= bound[seen])

    @pytest.mark.parametrize("batch", [1, 5, 20])
    def test_is_linear_and_near_theta(self, batch, monkeypatch):
        """A straight line in the log, in both halves of the run, at theta or up to twice as steep (seen: 1.7)."""
        (X, y), lam = overlapping(), 1e-2
        theta = module.step_sizes(
            module.centring_of(Objective(X, y > 0, lam, SQUARE).rows).kappa2, lam, len(y), batch
        ).theta
        looks = look_after_each_epoch(monkeypatch)
        run(X, y, lam, batch, 400, seed=0)
        epochs, gaps = np.array(looks).T
        usable = gaps > 1e-24
        steps, logs = (epochs * -(-len(y) // batch))[usable], np.log(gaps[usable])
        first, second = (
            np.polyfit(part[0], part[1], 1)[0]
            for part in zip(np.array_split(steps, 2), np.array_split(logs, 2), strict=True)
        )
        assert 1.0 <= first / np.log(theta) < 2.0 and 1.0 <= second / np.log(theta) < 2.0

    def test_steps_solve_the_proofs_condition(self):
        """Primal and dual part shrink by the same theta (eq. 23), whatever the sizes; kappa^2 sigma tau = 1/4."""
        for kappa2, lam, n, batch in [(3.0, 1e-3, 1000, 10), (0.1, 10.0, 50, 50), (1e6, 1e-9, 10**6, 1)]:
            sigma, tau, theta = module.step_sizes(kappa2, lam, n, batch)
            assert kappa2 * sigma * tau == pytest.approx(0.25)
            assert 1 - (1 / n) / (1 / batch + 1 / (2 * sigma * batch)) == pytest.approx(theta, rel=1e-9)
            assert (1 / (2 * tau)) / (lam + 1 / (2 * tau)) == pytest.approx(theta, rel=1e-9)

    def test_the_printed_sigma_is_far_slower(self):
        """As printed, sigma lacks the factor lam (and has 8 for 4): at lam = 1e-2 its theta is much nearer to 1."""
        kappa2, lam, n, batch = 10.0, 1e-2, 1000, 100
        ours = module.step_sizes(kappa2, lam, n, batch).theta
        printed = (n - batch + np.sqrt((n - batch) ** 2 + 4 * n * batch * kappa2 / lam)) / (8 * batch * kappa2)
        assert np.log(ours) < 10 * np.log(1 - lam / (lam + 2 * printed * kappa2))


class TestCertificate:
    def test_bounds_the_suboptimality_at_every_epoch(self):
        X, y = overlapping()
        history = SPDAM(1e-2, tol=1e-14, random_state=0).fit(X, y).history_
        best = pairwise_square_objective(optimum(X, y, 1e-2)[0], X, y, 1e-2)
        assert np.all(history["dual_gap"] >= history["objective"] - best - 1e-15)
        assert [history[name][0] for name in ("updates", "objective", "auc")] == [0, 0.5, 0.5]
        assert len({len(column) for column in history.values()}) == 1

    def test_is_the_gradients_norm(self):
        X, y = overlapping()
        model = SPDAM(1e-2, random_state=0).fit(X, y)
        gradient = pairwise_square_gradient(model.coef_.ravel(), X, y, 1e-2)
        assert model.dual_gap_ == pytest.approx(gradient @ gradient / (2 * 1e-2), rel=1e-6, abs=0.0)

    @pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
    @pytest.mark.parametrize("max_iter", [1, 2, 50])
    def test_is_no_worse_than_what_everybody_knows(self, max_iter):
        """Q >= 0, so Q(w) bounds its distance to the minimum; columns of unlike scale make the gradient's huge."""
        X, y = overlapping()
        X = X * np.geomspace(1.0, 1e4, X.shape[1])
        model = SPDAM(1e-3, max_iter=max_iter, random_state=0).fit(X, y)
        gradient = pairwise_square_gradient(model.coef_.ravel(), X, y, 1e-3)
        assert gradient @ gradient / (2 * 1e-3) > model.objective_ == model.dual_gap_
        assert np.all(model.history_["dual_gap"] <= model.history_["objective"])

    def test_warns_when_it_is_not_met(self):
        with pytest.warns(ConvergenceWarning, match="raise tol, or raise lam; scale the features if they are not"):
            model = SPDAM(max_iter=2, random_state=0).fit(*overlapping())
        assert (model.status_, model.n_iter_) == ("max_iter", 2)


class TestStorageAndState:
    def test_sparse_and_dense_are_one(self):
        X, y = overlapping(40, 60, 8)
        X = X * (np.random.default_rng(1).random(X.shape) < 0.3)
        dense, thin = (
            SPDAM(1e-1, tol=1e-14, random_state=3).fit(form(X), y) for form in (np.asarray, sparse.csr_array)
        )
        assert_allclose(thin.coef_, dense.coef_, rtol=1e-9)
        assert thin.n_iter_ == dense.n_iter_

    def test_sparse_is_never_made_dense(self):
        # 1000 x 200,000 in float64 would be 1.5 GiB
        X = sparse.random_array((1000, 200_000), density=1e-4, format="csr", rng=np.random.default_rng(0))
        model = SPDAM(1.0, batch_size=50, random_state=0).fit(X, np.arange(1000) % 7 == 0)
        assert model.status_ == "converged"

    def test_epochs_of_wide_sparse_rows_are_fewer_for_the_steps_that_move_all_of_w(self, monkeypatch):
        """64,000 entries, but four steps an epoch of as many weights each."""
        asked, solve = [], module.stochastic_primal_dual

        def once(rows, y, lam, batch, tol, max_iter, state):
            asked.append(max_iter)
            return solve(rows, y, lam, batch, tol, 1, state)

        monkeypatch.setattr(module, "stochastic_primal_dual", once)
        X = sparse.csr_array((np.ones(64_000), np.arange(64_000), np.arange(0, 64_001, 1_000)))
        with pytest.warns(ConvergenceWarning):
            SPDAM(1e-3, random_state=0).fit(X, np.arange(64) % 7 == 0)
        assert asked == [8e9 // (64_000 + 4 * 64_000)]

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_float32_is_computed_in_double_precision(self, form):
        X = overlapping()[0].astype(np.float32)
        y = overlapping()[1]
        single, double = (SPDAM(1e-1, tol=1e-18, random_state=0).fit(form(A), y) for A in (X, X.astype(float)))
        assert_allclose(single.coef_, double.coef_, rtol=1e-8)

    def test_float32_is_never_copied_to_float64(self):
        X = np.random.default_rng(0).normal(size=(20_000, 100)).astype(np.float32)
        y = X[:, 0] > 1
        SPDAM(1.0, random_state=0, max_iter=1).fit(X, y)  # compiles
        tracemalloc.start()
        SPDAM(1.0, random_state=0, max_iter=2, tol=0.0).fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # a float64 copy would take twice the bytes of X
        assert peak < X.nbytes

    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    @pytest.mark.parametrize("batch_size", [1, 7, 16])
    def test_a_centred_copy_of_few_rows_is_for_speed_only(self, monkeypatch, dtype, batch_size):
        """To 22 columns two of zeros are added; what a fit finds and keeps for the next is as long as before."""
        X, y = overlapping(d=22)
        X = X.astype(dtype)
        models = []
        for limit in (2**22, 0):
            monkeypatch.setattr(module, "FEW_BYTES", limit)
            model = SPDAM(1e-2, batch_size=batch_size, tol=0.0, max_iter=9, random_state=0, warm_start=True)
            models.append(model.fit(X, y).fit(X, y))
        assert_allclose(models[0].coef_, models[1].coef_, rtol=1e-10)
        assert_allclose(models[0].dual_gap_, models[1].dual_gap_, rtol=1e-6)
        assert [len(model._state[name]) for model in models for name in module.VECTORS] == [22] * 6

    def test_the_copy_is_centred_in_double_precision_and_in_whole_cache_lines(self, monkeypatch):
        X, y = overlapping(d=22)
        single = (X + 100.0).astype(np.float32)
        centring = module.centring_of(Objective(single, y > 0, 1e-2, SQUARE).rows)
        rows, offsets = module.centred(single, centring)
        assert offsets is None and rows.dtype == np.float64 and rows.ctypes.data % 64 == 0
        assert_allclose(rows[:, :22], centred_rows(single.astype(np.float64), y), atol=1e-12)
        assert not rows[:, 22:].any()
        assert module.centred(sparse.csr_array(single), centring)[1] is not None
        monkeypatch.setattr(module, "FEW_BYTES", 8 * X.size - 1)
        assert module.centred(single, centring)[0] is single

    def test_looks_get_rare(self):
        X, y = overlapping()
        history = SPDAM(1e-2, tol=0.0, max_iter=100, random_state=0).fit(X, y).history_
        epochs = history["updates"] // -(-len(y) // 16)
        assert_array_equal(epochs, [0, 1, 2, 4, 8, 16, 32, 64, 100])

    @pytest.mark.parametrize("tol", [1e-4, 1e-8, 1e-12])
    def test_the_last_look_comes_soon_after_the_gap_has_arrived(self, tol, monkeypatch):
        X, y = overlapping()
        model = SPDAM(1e-2, tol=tol, max_iter=10_000, random_state=0).fit(X, y)
        look_after_each_epoch(monkeypatch)
        arrived = SPDAM(1e-2, tol=tol, max_iter=10_000, random_state=0).fit(X, y)
        assert arrived.n_iter_ <= model.n_iter_ <= 1.2 * arrived.n_iter_ + 1
        assert len(model.history_["updates"]) < 5 + 3 * np.log2(arrived.n_iter_)

    @pytest.mark.parametrize(
        ("looks", "expected"),
        [
            ([(0, 1.0)], 1),
            ([(0, 1.0), (100, 0.9)], 200),  # twice as many at most
            ([(0, 1.0), (300, 2e-2)], 530),
            ([(0, 1.0), (100, 1e-1), (200, 2e-2)], 387),
            # it stood still, or rose, or fell by chance, over a few epochs: the fall over the last third counts
            ([(0, 1.0), (240, 1e-1), (356, 4e-3), (360, 4e-3)], 412),
            ([(0, 1.0), (240, 1e-1), (356, 3e-3), (360, 4e-3)], 412),
            ([(0, 1.0), (240, 1e-1), (356, 8e-2), (360, 4e-3)], 412),
            # it rises on the whole, or overflowed: nothing is known
            ([(0, 1.0), (240, 1e-3), (360, 4e-3)], 720),
            ([(0, np.inf), (360, 4e-3)], 720),
            ([(0, 1.0), (360, np.inf)], 720),
            ([(0, 1.0), (360, 1e-3 * (1 + 1e-12))], 361),
        ],
    )
    def test_the_next_look_is_where_the_gap_should_arrive(self, looks, expected):
        assert module.next_look(looks, 1e-3) == expected

    def test_the_seed_decides_every_bit(self):
        first, second, other = (SPDAM(1e-1, random_state=seed).fit(*overlapping()) for seed in (7, 7, 8))
        assert_array_equal(first.coef_, second.coef_)
        assert not np.array_equal(first.coef_, other.coef_)

    @pytest.mark.parametrize("batch", [4, 5, 7, 10])
    def test_epochs_drawn_together_are_those_drawn_one_by_one(self, monkeypatch, batch):
        steps = -(-15 // batch)
        together, generator = module.draw_batches(15, batch, np.random.default_rng(0), 3), np.random.default_rng(0)
        assert together.shape == (3 * steps, batch)
        assert_array_equal(together, np.vstack([module.draw_batches(15, batch, generator) for _ in range(3)]))
        (X, y), model = overlapping(), SPDAM(1e-2, tol=0.0, max_iter=70, random_state=1)
        coef = model.fit(X, y).coef_
        monkeypatch.setattr(module, "DRAWS", 1)
        assert_array_equal(model.fit(X, y).coef_, coef)

    @pytest.mark.parametrize("half", [5, 32, 45])  # before, at and after sums are made afresh
    def test_five_and_five_epochs_are_ten(self, half):
        X, y = overlapping()
        once = SPDAM(1e-2, tol=0.0, max_iter=2 * half, random_state=1).fit(X, y)
        twice = SPDAM(1e-2, tol=0.0, max_iter=half, random_state=1, warm_start=True).fit(X, y)
        assert_array_equal(twice.fit(X, y).coef_, once.coef_)
        assert twice.set_params(tol=1e3).fit(X, y).n_iter_ == 0  # good enough already
        assert twice.fit(X[:, :2], y).coef_.shape == (1, 2)  # another shape: a cold start

    def test_a_warm_start_on_other_rows_goes_on_from_their_own_sums(self):
        X, y = overlapping()
        warm = SPDAM(1e-2, tol=0.0, max_iter=5, random_state=1, warm_start=True).fit(X, y)
        other = 2.0 * X[::-1] + 1.0, y[::-1]
        assert warm.set_params(tol=1e-12, max_iter=2000).fit(*other).status_ == "converged"
        assert_allclose(warm.coef_, LSSVM(1e-2).fit(*other).coef_, rtol=1e-4)

    @pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
    def test_rows_asked_for_ahead_of_time_give_the_same(self, storage, monkeypatch):
        X, y = overlapping()
        near = SPDAM(1e-2, random_state=1).fit(storage(X), y)
        monkeypatch.setattr(module, "FAR_BYTES", 0)
        assert_allclose(SPDAM(1e-2, random_state=1).fit(storage(X), y).coef_, near.coef_, rtol=1e-12)

    def test_clone_and_pickle(self):
        X, y = overlapping()
        model = SPDAM(1e-1, random_state=0).fit(X, y)
        again = pickle.loads(pickle.dumps(model))
        assert_array_equal(again.decision_function(X), model.decision_function(X))
        assert clone(model.set_params(batch_size=3)).batch_size == 3
        assert model._state is None  # a number a row that a stored model does without


class TestDegenerate:
    CASES = {
        "one positive": ([[1.0, 2.0], [0.0, 1.0], [0.5, 0.0]], [1, 0, 0]),
        "zero matrix": (np.zeros((5, 2)), [1, 1, 0, 0, 0]),
        "constant feature": ([[1.0, 7.0], [0.0, 7.0], [0.5, 7.0]], [1, 0, 1]),
        "all scores tied": (np.ones((6, 2)), [1, 1, 0, 0, 0, 0]),
        "duplicate rows": ([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3, [1, 0, 1, 0, 1, 0]),
        "each class a point": ([[1.0, 0.0]] * 3 + [[0.0, 1.0]] * 3, [1, 1, 1, 0, 0, 0]),
        "separable": ([[3.0], [2.0], [-1.0], [-2.0]], [1, 1, 0, 0]),
        "more features than rows": (np.random.default_rng(0).normal(size=(6, 40)), [1, 0, 0, 0, 1, 0]),
        "imbalance 1000": (np.random.default_rng(0).normal(size=(1001, 2)), [1] + [0] * 1000),
        "huge": (1e100 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
        "tiny": (1e-200 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
    }

    @pytest.mark.parametrize("form", [np.array, sparse.csr_array])
    @pytest.mark.parametrize("case", CASES)
    def test_result_is_finite(self, case, form):
        X, y = self.CASES[case]
        model = SPDAM(random_state=0, max_iter=100).fit(form(X), y)
        assert np.all(np.isfinite(model.coef_)) and np.isfinite(model.dual_gap_)
        assert 0 <= model.objective_ <= 0.5 + model.dual_gap_

    def test_classes_that_are_points_need_no_dual(self):
        """No spread: Q = lam/2 w^2 + 1/2 (1 + b'w)^2, least at w = -b/(lam + b'b)."""
        X, y = self.CASES["each class a point"]
        model = SPDAM(0.5, tol=1e-16, random_state=0).fit(X, y)
        assert_allclose(model.coef_, [[1 / 2.5, -1 / 2.5]], rtol=1e-6)

    def test_far_from_the_origin(self):
        X, y = load_breast_cancer(return_X_y=True)
        near, far = (SPDAM(1e-1, tol=1e-10, random_state=0).fit(scale(X) + shift, y) for shift in (0.0, 1e5))
        assert far.status_ == "converged"
        assert_allclose(far.coef_, near.coef_, atol=1e-4)

    @pytest.mark.parametrize(("size", "lam"), [(1e-7, 1e-3), (1.0, 1e12)])
    def test_ranks_even_where_zero_is_within_tol(self, size, lam):
        X, y = overlapping()
        assert auc(y, SPDAM(lam, random_state=0).fit(size * X, y).decision_function(size * X)) > 0.7

    @pytest.mark.parametrize(
        "bad",
        [
            {"lam": 0.0},
            {"batch_size": 0},
            {"batch_size": -3},
            {"batch_size": 1.5},
            {"batch_size": True},
            {"batch_size": "1"},
            {"tol": -1.0},
            {"max_iter": 0},
            {"max_iter": 1e3},
        ],
    )
    def test_parameters_are_checked(self, bad):
        (name,) = bad
        with pytest.raises(ValueError, match=f"Expected {name} to be .*, got"):
            SPDAM(**bad).fit([[1.0], [0.0]], [1, 0])

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("offset", [1e6, 1e9])
    def test_a_constant_column_far_from_0_changes_nothing(self, offset, form):
        """||x - m||^2 from squared lengths of 1e18 would be off by hundreds, and steps by that too long."""
        X, y = overlapping()
        beside = np.column_stack([X, np.full(len(X), offset)])
        near, far = SPDAM(0.01, random_state=0).fit(X, y), SPDAM(0.01, random_state=0).fit(form(beside), y)
        assert near.status_ == far.status_ == "converged"
        assert abs(far.objective_ - near.objective_) < 1e-6

    def test_overflow_is_refused(self):
        with pytest.raises(ValueError, match="squared norms overflow"):
            SPDAM().fit([[1e200], [0.0]], [1, 0])


def test_scores_that_overflow_end_in_diverged_and_not_in_a_loop():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 5))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = SPDAM(1e-6, random_state=0).fit(X * 1e150, X[:, 0] > 0.6)
    assert (model.status_, model.dual_gap_) == ("diverged", np.inf)


def few():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 4 == 0
    return rng.normal(size=(80, 3)) + y[:, None], y


def sum_of_pulls(X, y, beta):
    """u = 1/n sum_i beta_i x~_i, the rows centred by their classes' means."""
    p, means = y.mean(), [X[~y].mean(axis=0), X[y].mean(axis=0)]
    centred = np.where(y[:, None], (X - means[1]) / np.sqrt(p), (X - means[0]) / np.sqrt(1 - p))
    return centred.T @ beta / len(y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_warm_start_with_other_rows_gathers_their_pulls():
    """The sum of the last ones' led away from the optimum."""
    X, y = few()
    other = X[::-1] + y[:, None] - y[::-1, None]
    model = SPDAM(0.1, tol=0, max_iter=3, random_state=0, warm_start=True).fit(X, y).fit(other, y)
    assert_allclose(model._state["u"], sum_of_pulls(other, y, model._state["beta"]), atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_what_is_off_in_the_sum_of_the_pulls_does_not_stay():
    X, y = few()
    model = SPDAM(0.1, tol=0, max_iter=3, random_state=0, warm_start=True).fit(X, y)
    model._state["u"] += 1e-3
    model.set_params(max_iter=module.AFRESH + 1).fit(X, y)
    assert_allclose(model._state["u"], sum_of_pulls(X, y, model._state["beta"]), atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_an_interrupted_fit_leaves_the_start_of_the_next_as_it_was(monkeypatch):
    X, y = few()
    model = SPDAM(0.1, tol=0, max_iter=2, random_state=0, warm_start=True).fit(X, y)
    before, make_steps = model._state["beta"].copy(), module._make_steps

    def interrupted(*given):
        make_steps(*given)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "_make_steps", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, y)
    assert_array_equal(model._state["beta"], before)


def test_entries_stored_in_two_parts_count_once():
    X, y = few()
    whole = sparse.csr_array(X)
    halves = np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr
    split = sparse.csr_array(halves, shape=X.shape)
    one, two = (SPDAM(0.1, random_state=0).fit(rows, y) for rows in (whole, split))
    assert two.rate_ == one.rate_ and split.nnz == 2 * whole.nnz
    assert_array_equal(two.coef_, one.coef_)
