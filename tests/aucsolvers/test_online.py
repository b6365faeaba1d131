"""Online solvers: kernels against slow twins, streams against their chunks, limits against other solvers."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import check_grad, minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler, scale
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import online as module
from aucsolvers import pairwise_hinge
from aucsolvers.metrics import auc, pairwise_hinge_objective, pairwise_square_objective
from aucsolvers.online import OPAUC, SOLAM, OAMGra, OAMInf, OAMSeq, UniExp
from aucsolvers.pairwise_hinge import AUCSDCD
from aucsolvers.pairwise_square import LSSVM

RESERVOIRS = [OAMSeq, OAMGra, OAMInf]
SOLVERS = [*RESERVOIRS, OPAUC, SOLAM, UniExp]
STORAGES = [np.asarray, sparse.csr_array]
ALL_CONFIGURATIONS = [
    OAMSeq(buffer_size=3, random_state=0),
    OAMGra(buffer_size=3, lam=0.1, random_state=0),
    OAMInf(random_state=0),
    OAMInf(n_pairs=50, random_state=0),
    OPAUC(random_state=0),
    OPAUC(rank=4, random_state=0),
    SOLAM(random_state=0),
    UniExp(random_state=0),
]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def name_of(model):
    return type(model).__name__ + ("-rank" if getattr(model, "rank", None) else "")


every = pytest.mark.parametrize("model", ALL_CONFIGURATIONS, ids=name_of)


def arriving(n=60, d=5, seed=0, share=0.3, offset=0.5):
    """Rows of both classes in mixed order, overlapping, with zeros and one row that is in both classes."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(n) < share, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    X += offset * ((y[:, None] > 0) & (X != 0))
    X[7] = X[np.flatnonzero(y != y[7])[0]]
    return X, y


def stream(model, X, y, cuts=()):
    """A clone fed the rows in chunks that end at the cuts."""
    model = clone(model)
    for rows in np.split(np.arange(len(y)), sorted(cuts)):
        if len(rows):
            model.partial_fit(X[rows], y[rows], classes=[-1.0, 1.0])
    return model


@parametrize_with_checks([*(solver() for solver in SOLVERS), OPAUC(rank=3), OAMSeq(max_iter=5)])
def test_obeys_scikit_learns_contract(estimator, check):
    check(estimator)


class TestTwins:
    """Compiled sweeps and plain Python loops over lists of rows, given the same random numbers, agree to 1e-12."""

    @staticmethod
    def reservoir_twin(X, y, lam, capacity, seed, step):
        draws = np.random.default_rng(seed).random(len(y))
        kept, counts, w = {1.0: [], -1.0: []}, {1.0: 0, -1.0: 0}, np.zeros(X.shape[1])
        k = np.sum(y > 0) * np.sum(y < 0)
        for x, label, u in zip(X, y, draws, strict=True):
            counts[label] += 1
            place = int(u * counts[label])
            if counts[label] <= capacity:
                kept[label].append(x)
            elif place < capacity:
                kept[label][place] = x
            cap = max(1.0, counts[-label] / capacity) / (lam * k)
            w = step(w, [label * (x - other) for other in kept[-label]], cap)
        return w

    @staticmethod
    def one_by_one(w, differences, cap):
        for v in differences:
            w = w + (min(cap, max(0.0, 1 - w @ v) / (v @ v)) * v if v.any() else 0.0)
        return w

    @staticmethod
    def all_at_once(w, differences, cap):
        return w + cap * sum((v for v in differences if w @ v <= 1), start=np.zeros_like(w))

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("capacity", [1, 4, 1000])
    @pytest.mark.parametrize(("solver", "step"), [(OAMSeq, "one_by_one"), (OAMGra, "all_at_once")])
    @pytest.mark.parametrize("lam", [1e-3, 1e-1])
    def test_reservoirs(self, solver, step, capacity, storage, lam):
        X, y = arriving()
        model = solver(lam=lam, buffer_size=capacity, shuffle=False, random_state=5).fit(storage(X), y)
        expected = self.reservoir_twin(X, y, lam, capacity, 5, getattr(self, step))
        np.testing.assert_allclose(model.coef_.ravel(), expected, rtol=1e-12, atol=1e-12 * np.abs(expected).max())

    @staticmethod
    def covariance_twin(X, y, lam, eta, sketch=None):
        """Gradient steps on the moments of all rows so far, computed afresh for each row."""
        w, peak = np.zeros(X.shape[1]), 0.0
        for t in range(1, len(y)):
            earlier, turn = X[:t], y[:t] == -y[t]
            if not turn.any():
                continue
            rows = earlier[turn]
            centre = rows.mean(axis=0)
            if sketch is None:
                S = np.cov(rows.T, bias=True)
            else:
                roots = [
                    np.sqrt(m / (m + 1)) * (rows[m] - rows[:m].mean(axis=0)) if m else 0.0 * rows[0]
                    for m in range(len(rows))
                ]
                Z = np.transpose(roots) @ sketch[:t][turn]
                S = Z @ Z.T / len(rows)
            u = y[t] * (X[t] - centre)
            peak = max(peak, u @ u + np.trace(S))
            w = w - (lam * w - (1 - w @ u) * u + S @ w) / (peak / eta + lam * (t + 1))
        return w

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("eta", [0.5, 2.0])
    def test_covariances(self, storage, eta):
        X, y = arriving()
        model = OPAUC(lam=0.1, eta=eta).partial_fit(storage(X), y)
        np.testing.assert_allclose(model.coef_.ravel(), self.covariance_twin(X, y, 0.1, eta), rtol=1e-12, atol=1e-12)

    def test_sketches(self):
        X, y = arriving()
        model = OPAUC(lam=0.1, rank=3, random_state=2).partial_fit(X, y)
        sketch = np.random.default_rng(2).standard_normal((len(y), 3)) / np.sqrt(3)
        expected = self.covariance_twin(X, y, 0.1, 1.0, sketch)
        np.testing.assert_allclose(model.coef_.ravel(), expected, rtol=1e-12, atol=1e-12)

    @staticmethod
    def saddle_twin(X, y, lam, zeta):
        """Half of eq. 6 of seed 002, regulariser times p (1 - p); all variables move at once, then are projected."""
        w, a, b, alpha = np.zeros(X.shape[1]), 0.0, 0.0, 0.0
        total, steps, largest, R = np.zeros(X.shape[1]), 0.0, 0.0, 1 / np.sqrt(lam)
        for t, (x, label) in enumerate(zip(X, y, strict=True), start=1):
            p, s = np.mean(y[:t] > 0), w @ x
            largest = max(largest, np.linalg.norm(x))
            gamma = zeta / np.sqrt(t)
            if label > 0:
                of_w, of_a, of_b = (1 - p) * ((s - a) - (1 + alpha)) * x, -(1 - p) * (s - a), 0.0
                of_alpha = -(1 - p) * s - p * (1 - p) * alpha
            else:
                of_w, of_a, of_b = p * ((s - b) + (1 + alpha)) * x, 0.0, -p * (s - b)
                of_alpha = p * s - p * (1 - p) * alpha
            w = w - gamma / (largest**2 + lam) * (of_w + p * (1 - p) * lam * w)
            w *= min(1.0, R / max(np.linalg.norm(w), 1e-300))
            a, b = np.clip([a - gamma * of_a, b - gamma * of_b], -R * largest, R * largest)
            alpha = np.clip(alpha + gamma * of_alpha, -2 * R * largest, 2 * R * largest)
            total, steps = total + gamma * w, steps + gamma
        return total / steps

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize(("lam", "zeta"), [(1e-2, 1.0), (0.1, 10.0), (10.0, 100.0)])
    def test_saddle_point(self, storage, lam, zeta):
        X, y = arriving()
        model = SOLAM(lam=lam, zeta=zeta).partial_fit(storage(X), y)
        np.testing.assert_allclose(model.coef_.ravel(), self.saddle_twin(X, y, lam, zeta), rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("eta", [0.3, 2.0])
    def test_exponential(self, storage, eta):
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

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("lam", [1e-3, 1e-1])
    def test_infinite_reservoirs_are_dual_coordinate_descent_in_order_of_arrival(self, storage, lam):
        X, y = arriving()
        pos, neg = pairwise_hinge.split_classes(storage(X), y)
        place = np.where(y > 0, np.cumsum(y > 0), np.cumsum(y < 0)) - 1
        visits = [
            (place[t], place[s]) if y[t] > 0 else (place[s], place[t])
            for t in range(len(y))
            for s in np.flatnonzero(y[:t] == -y[t])
        ]
        rows, columns = np.array(visits, dtype=np.int32).T.copy()
        sweep = pairwise_hinge._bind(pairwise_hinge._dual_sweep_dense, pairwise_hinge._dual_sweep_sparse, pos, neg)
        alpha, w = np.zeros(pos.shape[0] * neg.shape[0]), np.zeros(X.shape[1])
        sweep(rows, columns, alpha, w, lam * len(alpha))
        model = OAMInf(lam=lam, shuffle=False).fit(storage(X), y)
        np.testing.assert_allclose(model.coef_.ravel(), w, rtol=1e-12, atol=1e-13 * np.abs(w).max())
        # and its certificate is that of these dual variables, if not a better one
        dual = alpha.mean() - lam / 2 * w @ w
        assert model.dual_gap_ <= model.objective_ - dual + 1e-12


class TestStreams:
    @every
    @pytest.mark.parametrize("storage", STORAGES)
    @settings(deadline=None, max_examples=15)
    @given(cuts=st.sets(st.integers(1, 59)))
    def test_chunks_leave_no_trace(self, model, storage, cuts):
        X, y = arriving()
        X = storage(X)
        whole, parts = stream(model, X, y), stream(model, X, y, cuts)
        np.testing.assert_array_equal(parts.coef_, whole.coef_)
        np.testing.assert_array_equal(parts.intercept_, whole.intercept_)

    @every
    def test_one_pass_of_fit_is_the_stream(self, model):
        X, y = arriving(n=500, seed=3)
        model = clone(model)
        if isinstance(model, OAMSeq):
            model.set_params(n_pairs=int(np.sum(y > 0) * np.sum(y < 0)))
        fitted = clone(model).set_params(max_iter=1, shuffle=False).fit(X, y)
        np.testing.assert_array_equal(fitted.coef_, stream(model, X, y, [100]).coef_)

    @every
    def test_fit_crosses_blocks(self, model, monkeypatch):
        X, y = arriving(n=200)
        whole = clone(model).fit(sparse.csr_array(X), y)
        monkeypatch.setattr(module, "BLOCK_ROWS", 7)
        monkeypatch.setattr(module, "DENSE_VALUES", 11)
        np.testing.assert_array_equal(clone(model).fit(sparse.csr_array(X), y).coef_, whole.coef_)

    @every
    def test_goes_on_after_a_pickle(self, model):
        X, y = arriving()
        half = stream(model, X[:30], y[:30])
        again = pickle.loads(pickle.dumps(half)).partial_fit(X[30:], y[30:])
        np.testing.assert_array_equal(again.coef_, stream(model, X, y).coef_)

    @every
    def test_may_begin_with_one_class(self, model):
        X, y = arriving()
        order = np.argsort(-y, kind="stable")
        begun = clone(model).partial_fit(X[y > 0], y[y > 0], classes=[-1, 1])
        # a pair needs both classes; UniExp looks at no pair
        assert begun.coef_.any() == isinstance(model, UniExp)
        begun.partial_fit(X[y < 0], y[y < 0])
        np.testing.assert_array_equal(begun.coef_, stream(model, X[order], y[order]).coef_)

    @every
    def test_threshold_is_the_middle_of_the_class_means(self, model):
        X, y = arriving()
        model = stream(model, X, y, [11])
        scores = model.decision_function(X)
        assert scores[y > 0].mean() == pytest.approx(-scores[y < 0].mean(), rel=1e-9)

    @every
    def test_says_that_a_stream_has_no_certificate(self, model):
        model = stream(model, *arriving())
        assert np.isnan(model.dual_gap_) and np.isnan(model.objective_) and model.status_ == "max_iter"
        assert {len(column) for column in model.history_.values()} == {0}

    @every
    def test_fit_keeps_a_stream_only_on_request(self, model):
        X, y = arriving()
        with pytest.raises(ValueError, match="Set keep_stream=True before fit"):
            clone(model).set_params(keep_stream=False).fit(X, y).partial_fit(X, y)
        kept = clone(model).set_params(max_iter=1, shuffle=False)
        if isinstance(model, OAMSeq):
            kept.set_params(n_pairs=1000)
        twice = kept.fit(X, y).partial_fit(X, y)
        ends = stream(kept, np.vstack([X, X]), np.hstack([y, y]))
        np.testing.assert_array_equal(twice.coef_, ends.coef_)

    def test_labels(self):
        X, y = arriving()
        model = SOLAM().partial_fit(X, np.where(y > 0, "yes", "no"))
        assert set(model.predict(X)) == {"no", "yes"}
        with pytest.raises(ValueError, match=r"Expected labels among \['no', 'yes'\], got \['maybe'\]"):
            model.partial_fit(X[:1], ["maybe"])
        with pytest.raises(ValueError, match=r"got \['maybe'\]"):
            model.partial_fit(X[:1], ["yes"], classes=["yes", "maybe"])
        with pytest.raises(ValueError, match="Name both with classes="):
            SOLAM().partial_fit(X[:1], [1])
        with pytest.raises(ValueError, match="Expected two classes, got \\[0, 1, 2\\]"):
            SOLAM().partial_fit(X[:1], [1], classes=[0, 1, 2])

    @every
    def test_storage_may_change_midway(self, model):
        X, y = arriving()
        for first, second in (STORAGES, STORAGES[::-1]):
            mixed = clone(model).partial_fit(first(X[:30]), y[:30]).partial_fit(second(X[30:]), y[30:])
            np.testing.assert_allclose(mixed.coef_, stream(model, X, y).coef_, rtol=1e-9, atol=1e-12)

    def test_reservoirs_are_uniform_samples(self):
        # rows that name themselves; which of 20 are kept, over 2000 seeds: chance 5/20 each
        y, X = np.repeat([1, -1], [20, 1]), np.arange(21.0)[:, None]
        kept = np.zeros(20)
        for seed in range(2000):
            model = OAMSeq(buffer_size=5, random_state=seed).partial_fit(X, y)
            kept[model._stream["rows"][model._stream["held"][0] :, 0].astype(int)] += 1
        assert kept.sum() == 2000 * 5
        # a share's standard deviation is 0.0097; four of them, for the largest of 20
        assert np.abs(kept / 2000 - 0.25).max() < 0.039


class TestOptimum:
    @pytest.mark.parametrize("lam", [1.0, 0.1])
    def test_opauc_reaches_the_exact_solution(self, lam):
        X, y = arriving(200)
        exact = LSSVM(lam=lam).fit(X, y)
        model = OPAUC(lam=lam, tol=1e-6, max_iter=3000, random_state=0).fit(X, y)
        assert model.status_ == "converged"
        assert 0 <= model.objective_ - exact.objective_ <= 1e-6
        np.testing.assert_allclose(model.coef_, exact.coef_, atol=2e-3)

    @pytest.mark.parametrize("lam", [1.0, 0.1])
    def test_solam_nears_it(self, lam):
        X, y = arriving(200)
        exact = LSSVM(lam=lam).fit(X, y)
        model = SOLAM(lam=lam, tol=0, max_iter=3000, random_state=0).fit(X, y)
        # 600,000 steps at a rate of 1/sqrt(t): a relative 1e-3 of Q(0) = 1/2
        assert 0 <= model.objective_ - exact.objective_ <= 5e-4

    def test_which_would_show_the_sources_regulariser(self):
        # p (1 - p) = 0.21 here: without the factor SOLAM would go to the optimum of lam/0.21
        X, y = arriving(200)
        wrong = LSSVM(lam=0.1 / 0.21).fit(X, y).coef_.ravel()
        loss = pairwise_square_objective(wrong, X, y, 0.1) - LSSVM(lam=0.1).fit(X, y).objective_
        assert loss > 4e-3  # the test before accepts 5e-4

    @pytest.mark.parametrize("lam", [1.0, 0.1])
    def test_uniexp_reaches_the_foreign_optimum(self, lam):
        X, y = arriving(200)
        model = UniExp(lam=lam, tol=1e-5, max_iter=3000, random_state=0).fit(X, y)
        assert model.status_ == "converged"
        assert 0 <= model.objective_ - exponential_optimum(X, y, lam) <= 1e-5

    def test_a_sketch_is_right_on_average(self):
        X, y = arriving(80)
        exact = OPAUC().partial_fit(X, y)._stream["scatters"]
        sketches = [OPAUC(rank=5, random_state=s).partial_fit(X, y)._stream["scatters"] for s in range(400)]
        mean = np.mean([Z @ Z.transpose(0, 2, 1) for Z in sketches], axis=0)
        assert np.abs(mean - exact).max() < 0.15 * np.abs(exact).max()
        pos = X[y > 0]
        np.testing.assert_allclose(exact[1] / len(pos), np.cov(pos.T, bias=True), rtol=1e-10, atol=1e-12)

    def test_slopes_are_derivatives(self):
        _, y = arriving(30)
        scores = np.random.default_rng(0).normal(size=30)
        for loss in (module.hinge_loss, module.square_loss, module.exponential_loss):
            error = check_grad(lambda s, f=loss: f(s, y > 0)[0], lambda s, f=loss: f(s, y > 0)[1], scores)
            assert error < 1e-6

    @pytest.mark.parametrize("max_iter", [1, 4])
    @pytest.mark.parametrize("lam", [1.0, 1e-2, 1e-4])
    @every
    def test_the_gap_is_never_below_the_true_suboptimality(self, model, lam, max_iter):
        X, y = arriving(100, seed=2)
        model = clone(model).set_params(lam=lam, tol=0, max_iter=max_iter).fit(X, y)
        w, history = model.coef_.ravel(), model.history_
        if isinstance(model, OAMSeq):
            exact = AUCSDCD(lam=lam, tol=1e-7, max_iter=3000, random_state=0).fit(X, y)
            optimum, value = exact.objective_, pairwise_hinge_objective(w, X, y, lam)
            slack = exact.dual_gap_
        elif isinstance(model, UniExp):
            optimum, value, slack = exponential_optimum(X, y, lam), exponential_objective(w, X, y, lam), 1e-9
        else:
            optimum, value, slack = LSSVM(lam=lam).fit(X, y).objective_, pairwise_square_objective(w, X, y, lam), 1e-12
        assert np.all(history["dual_gap"] >= history["objective"] - optimum - slack)
        assert model.objective_ == pytest.approx(value, rel=1e-12)
        assert history["updates"].tolist() == [0, 1, 10, *range(100, 100 * max_iter + 1, 100)]
        assert history["objective"][0] == (1.0 if isinstance(model, OAMSeq | UniExp) else 0.5)

    def test_steps_of_reservoirs_make_a_bound(self):
        # the gradient alone says nothing here: the steps must be what certifies OAMInf after a pass
        X, y = arriving(100)
        model = OAMInf(lam=1e-2, shuffle=False, tol=0).fit(X, y)
        gradient = model.coef_.ravel() * 1e-2
        gradient = gradient + X.T @ module.hinge_loss(X @ model.coef_.ravel(), y > 0)[1]
        assert model.dual_gap_ < gradient @ gradient / (2 * 1e-2)


def exponential_objective(w, X, y, lam):
    return lam / 2 * w @ w + np.exp(-X[y > 0] @ w).mean() / 2 + np.exp(X[y < 0] @ w).mean() / 2


def exponential_optimum(X, y, lam):
    found = minimize(exponential_objective, np.zeros(X.shape[1]), (X, y, lam), tol=1e-10)
    return found.fun


class TestEstimators:
    @every
    def test_sparse_and_dense_are_one(self, model):
        X, y = arriving(200)
        dense, thin = (clone(model).fit(storage(X), y) for storage in STORAGES)
        np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(thin.predict(X), dense.predict(X))

    @every
    def test_single_precision_is_accepted(self, model):
        X, y = arriving()
        X = X.astype(np.float32)
        np.testing.assert_array_equal(clone(model).fit(X, y).coef_, clone(model).fit(X.astype(float), y).coef_)

    @every
    def test_equal_seeds_give_equal_bits(self, model):
        X, y = arriving(200)
        np.testing.assert_array_equal(clone(model).fit(X, y).coef_, clone(model).fit(X, y).coef_)
        assert np.any(clone(model).set_params(random_state=1).fit(X, y).coef_ != clone(model).fit(X, y).coef_)

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_the_users_rows_are_left_alone(self, solver):
        data, cols, ptr = [3.0, 1.0, 1.0, 1.0, -1.0], [1, 0, 0, 0, 1], [0, 3, 4, 5]
        X, y = sparse.csr_array((data, cols, ptr), shape=(3, 2)), [1, 0, 0]
        model = solver(lam=0.1, random_state=0).fit(X, y)
        np.testing.assert_allclose(model.coef_, solver(lam=0.1, random_state=0).fit(X.toarray(), y).coef_, rtol=1e-12)
        assert X.nnz == 5 and X.indices.tolist() == cols

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_one_pass_ranks_digits(self, solver):
        X, y = load_digits(return_X_y=True)
        X, y = X / 16 - (X / 16).mean(axis=0), y == 8
        with pytest.warns(ConvergenceWarning, match="Raise max_iter, raise tol, or raise lam"):
            model = solver(lam=1e-2, tol=0, max_iter=1, random_state=0).fit(X, y)
        assert auc(y, model.decision_function(X)) > 0.95

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_ranks_rows_that_it_has_not_seen(self, solver, mirror):
        X, y = load_svmlight_file(str(mirror / "libsvm" / "pendigits"))
        held_out, z = load_svmlight_file(str(mirror / "libsvm" / "pendigits.t"))
        scaler = StandardScaler().fit(X.toarray())
        model = solver(lam=1e-3, random_state=0).fit(scaler.transform(X.toarray()), y == 1)
        area = auc(z == 1, model.decision_function(scaler.transform(held_out.toarray())))
        # the exact optimum of UniExp's objective has 0.935, that of the square loss 0.950
        assert area > {UniExp: 0.87, SOLAM: 0.92, OPAUC: 0.94}.get(solver, 0.96)

    def test_wide_rows_are_never_made_dense_by_reservoirs(self):
        # 200,000 columns: 2 x 100 dense rows would need 305 MiB, OAMInf's all 1.5 GiB
        X = sparse.random_array((1000, 200_000), density=1e-4, format="csr", rng=np.random.default_rng(0))
        for solver in RESERVOIRS:
            model = solver(random_state=0).fit(X, np.arange(1000) % 7 == 0)
            assert sparse.issparse(model._stream["rows"])

    def test_covariances_that_need_too_much_are_refused(self):
        X, y = sparse.csr_array((4, 20_000)), [0, 1, 0, 1]
        with pytest.raises(ValueError, match=r"need 6400000000 bytes. Use rank=50 .*16000000 bytes.* SOLAM"):
            OPAUC().fit(X, y)
        with pytest.raises(ValueError, match="need 6400000000 bytes"):
            OPAUC().partial_fit(X, y)
        assert OPAUC(rank=2).fit(X, y).coef_.shape == (1, 20_000)

    def test_a_pass_goes_on_where_the_one_before_ended(self):
        X, y = arriving()
        options = {"lam": 0.1, "tol": 0, "shuffle": False}
        thrice = stream(OPAUC(lam=0.1), np.vstack([X] * 3), np.tile(y, 3))
        np.testing.assert_array_equal(OPAUC(max_iter=3, **options).fit(X, y).coef_, thrice.coef_)

    def test_more_passes_of_solam_end_nearer(self):
        X, y = load_breast_cancer(return_X_y=True)
        gaps = [SOLAM(lam=0.1, tol=0, max_iter=n, random_state=0).fit(scale(X), y).dual_gap_ for n in (1, 10, 100)]
        assert gaps[0] > gaps[1] > gaps[2]


class TestDegenerate:
    CASES = {
        "one positive": ([[1.0, 2.0], [0.0, 1.0], [0.5, 0.0]], [1, 0, 0]),
        "zero matrix": (np.zeros((5, 2)), [1, 1, 0, 0, 0]),
        "constant feature": ([[1.0, 7.0], [0.0, 7.0], [0.5, 7.0]], [1, 0, 1]),
        "all scores tied": (np.ones((6, 2)), [1, 1, 0, 0, 0, 0]),
        "duplicate rows": ([[1.0], [1.0], [1.0], [0.0]], [1, 1, 0, 0]),
        "separable": ([[3.0], [2.0], [-1.0], [-2.0]], [1, 1, 0, 0]),
        "wide": (np.random.default_rng(0).normal(size=(4, 50)), [1, 0, 0, 1]),
        "rare positives": (np.random.default_rng(0).normal(size=(2002, 2)), np.arange(2002) % 1001 == 0),
        "huge": (1e100 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
        "tiny": (1e-200 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
        "small": (1e-160 * np.array([[1.0], [0.5], [-1.0]]), [1, 0, 0]),
        "mixed scales": ([[1e-80, 1.0], [1e80, 0.5], [1.0, -1e-80], [-1e80, 3.0]], [1, 0, 0, 1]),
    }

    @pytest.mark.parametrize("case", CASES)
    @pytest.mark.parametrize("storage", STORAGES)
    @every
    def test_result_is_finite_and_certified(self, model, storage, case):
        X, y = self.CASES[case]
        for lam in (1e-6, 1e-3, 1e3):
            fitted = clone(model).set_params(lam=lam, max_iter=3).fit(storage(X), y)
            assert np.all(np.isfinite(fitted.coef_)) and np.all(np.isfinite(fitted.intercept_))
            assert 0 <= fitted.dual_gap_ <= fitted.objective_

    @pytest.mark.parametrize("solver", SOLVERS)
    def test_overflow_is_refused(self, solver):
        for learn in (solver().fit, solver().partial_fit):
            with pytest.raises(ValueError, match="Rescale the features"):
                learn([[1e200], [0.0]], [1, 0])

    def test_far_from_the_origin(self):
        X, y = load_breast_cancer(return_X_y=True)
        for model in (OAMSeq(random_state=0), OPAUC(random_state=0), OPAUC(rank=9, random_state=0)):
            near, far = (clone(model).fit(scale(X) + shift, y).coef_ for shift in (0.0, 1e4))
            np.testing.assert_allclose(far, near, rtol=1e-5, atol=1e-5 * np.abs(near).max())

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (OAMSeq(lam=0), "Expected lam to be a finite number > 0, got 0"),
            (SOLAM(lam=np.nan), "Expected lam"),
            (UniExp(tol=-1.0), "Expected tol"),
            (OAMGra(max_iter=0), "Expected max_iter to be an integer >= 1, got 0"),
            (OAMSeq(buffer_size=0), "Expected buffer_size"),
            (OAMInf(n_pairs=2.5), "Expected n_pairs"),
            (OPAUC(eta=2.5), "Expected eta <= 2, got 2.5: longer steps only overshoot. Lower eta"),
            (OPAUC(rank=0), "Expected rank"),
            (OPAUC(max_covariance_bytes=0), "Expected max_covariance_bytes"),
            (UniExp(eta=0), "Expected eta to be a finite number > 0"),
            (SOLAM(zeta=1e4), "Expected zeta <= 1000"),
        ],
    )
    def test_parameters_are_checked(self, model, message):
        for learn in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match=message):
                learn([[1.0], [0.0]], [1, 0])
