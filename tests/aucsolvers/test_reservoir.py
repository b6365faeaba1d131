"""OAM with reservoirs: kernels against slow twins, OAMInf against dual coordinate descent, memory."""

import numpy as np
import pytest
from arrivals import STORAGES, arriving
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from aucsolvers import reservoir as module
from aucsolvers.metrics import pairwise_hinge_gradient
from aucsolvers.pairwise_hinge import AUCSDCD
from aucsolvers.reservoir import OAMGra, OAMInf, OAMSeq

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


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

    @pytest.mark.parametrize("storage", STORAGES)
    @pytest.mark.parametrize("lam", [1e-3, 1e-1])
    def test_infinite_reservoirs_are_dual_coordinate_descent_in_order_of_arrival(self, storage, lam):
        X, y = arriving()
        k = np.sum(y > 0) * np.sum(y < 0)
        alpha, w = np.zeros((60, 60)), np.zeros(5)
        for t in range(60):
            for s in np.flatnonzero(y[:t] == -y[t]):
                i, j = (t, s) if y[t] > 0 else (s, t)
                z = X[i] - X[j]
                # SDCD's update of a dual variable that is 0; z = 0 moves no weight, its optimum is 1
                alpha[i, j] = np.clip(alpha[i, j] + lam * k * (1 - w @ z) / (z @ z), 0, 1) if z.any() else 1.0
                w = w + alpha[i, j] * z / (lam * k)
        model = OAMInf(lam=lam, shuffle=False).fit(storage(X), y)
        np.testing.assert_allclose(model.coef_.ravel(), w, rtol=1e-12, atol=1e-13 * np.abs(w).max())
        # and its certificate is that of these dual variables, if not a better one
        dual = alpha.sum() / k - lam / 2 * w @ w
        assert model.dual_gap_ <= model.objective_ - dual + 1e-12
        assert model._stream["steps"][0] == pytest.approx(alpha.sum() / (lam * k), rel=1e-12)


class TestReservoirs:
    def test_reservoirs_are_uniform_samples(self):
        # rows that name themselves; which of 20 are kept, over 1000 seeds: chance 5/20 each
        y, X = np.repeat([1, -1], [20, 1]), np.arange(21.0)[:, None]
        kept = np.zeros(20)
        for seed in range(1000):
            model = OAMSeq(buffer_size=5, random_state=seed).partial_fit(X, y)
            kept[model._stream["rows"][model._stream["members"][1], 0].astype(int)] += 1
        assert kept.sum() == 1000 * 5
        # a share's standard deviation is 0.0137; four of them, for the largest of 20
        assert np.abs(kept / 1000 - 0.25).max() < 0.055

    def test_keep_only_their_rows(self):
        X, y = arriving(n=400)
        model = OAMSeq(buffer_size=7, max_iter=3, random_state=0).fit(X, y)
        rows, members = model._stream["rows"], model._stream["members"]
        assert len(rows) <= 14 and members.max() == len(rows) - 1
        # each is a row of the class whose reservoir it is in
        for code, label in enumerate((-1, 1)):
            assert all(np.any(np.all(X[y == label] == rows[place], axis=1)) for place in members[code])

    def test_steps_make_a_bound(self):
        # the gradient alone says nothing here: the steps must be what certifies OAMInf after a pass
        X, y = arriving(100)
        model = OAMInf(lam=1e-2, shuffle=False, tol=0).fit(X, y)
        gradient = pairwise_hinge_gradient(model.coef_.ravel(), X, y, 1e-2)
        assert model.dual_gap_ < gradient @ gradient / (2 * 1e-2)

    def test_the_size_of_a_buffer_is_that_of_the_whole_stream(self):
        X, y = arriving()
        model = OAMSeq(buffer_size=5, random_state=0).partial_fit(X[:30], y[:30])
        with pytest.raises(ValueError, match="Expected buffer_size=5, that of the stream so far, got 9"):
            model.set_params(buffer_size=9).partial_fit(X[30:], y[30:])
        expected = OAMSeq(buffer_size=5, random_state=0).partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:]).coef_
        np.testing.assert_array_equal(model.set_params(buffer_size=5).partial_fit(X[30:], y[30:]).coef_, expected)

    def test_far_from_the_origin(self):
        X, y = load_breast_cancer(return_X_y=True)
        near, far = (OAMSeq(random_state=0).fit(scale(X) + shift, y).coef_ for shift in (0.0, 1e4))
        np.testing.assert_allclose(far, near, rtol=1e-5, atol=1e-5 * np.abs(near).max())


class TestMemory:
    def test_wide_rows_are_never_made_dense(self):
        # 200,000 columns: 2 x 100 dense rows would need 305 MiB, OAMInf's all 1.5 GiB
        X = sparse.random_array((1000, 200_000), density=1e-4, format="csr", rng=np.random.default_rng(0))
        for solver in (OAMSeq, OAMGra, OAMInf):
            model = solver(random_state=0).fit(X, np.arange(1000) % 7 == 0)
            assert sparse.issparse(model._stream["rows"])

    @pytest.mark.parametrize("storage", STORAGES)
    def test_predicts_what_all_rows_take(self, storage):
        X, y = arriving()
        needed, rows = module.size_in_bytes(storage(X)), storage(X)
        parts = (rows.data, rows.indices, rows.indptr) if sparse.issparse(rows) else (rows,)
        assert needed == sum(part.nbytes for part in parts) >= 60 * 5 * 8
        model = OAMInf(max_bytes=needed).fit(storage(X), y)
        assert module.size_in_bytes(model._stream["rows"]) == needed
        with pytest.raises(ValueError, match=f"max_bytes={needed} bytes, got 120 rows, .* Use OAMSeq"):
            model.partial_fit(storage(X), y)
        with pytest.raises(ValueError, match=f"got 60 rows, which need {needed} bytes. Use OAMSeq"):
            OAMInf(max_bytes=needed - 1).fit(storage(X), y)
        with pytest.raises(ValueError, match=f"got 120 rows, which need {2 * needed} bytes"):
            OAMInf(max_bytes=needed, max_iter=2).fit(storage(X), y)

    def test_a_refused_chunk_leaves_the_stream_as_it_was(self):
        X, y = arriving()
        model = OAMInf(max_bytes=X[:30].nbytes).partial_fit(X[:30], y[:30])
        with pytest.raises(ValueError, match="max_bytes"):
            model.partial_fit(X[30:], y[30:])
        expected = OAMInf().partial_fit(X[:30], y[:30]).partial_fit(X[30:], y[30:]).coef_
        again = model.set_params(max_bytes=X.nbytes).partial_fit(X[30:], y[30:])
        np.testing.assert_array_equal(again.coef_, expected)

    @pytest.mark.parametrize("storage", STORAGES)
    def test_single_precision_is_kept(self, storage):
        X, y = arriving()
        for solver in (OAMSeq(buffer_size=5), OAMInf()):
            model = clone(solver).fit(storage(X.astype(np.float32)), y)
            assert model._stream["rows"].dtype == np.float32


def test_a_buffer_beyond_memory_is_refused():
    with pytest.raises(ValueError, match=r"Expected buffer_size to be at most 134217728, got 10000000000.* OAMInf"):
        OAMSeq(buffer_size=10**10).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("solver", [OAMSeq, OAMGra])
@pytest.mark.parametrize("lam", [1.0, 0.1, 1e-2])
def test_a_bound_holds_where_one_class_alone_outgrows_its_buffer(solver, lam):
    """Weights C_t grow with the rows of the class of more: a bound by those of the rarer one was above the minimum."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(400) % 100 == 50, 1, -1)
    X = rng.normal(size=(400, 5)) + 0.5 * (y > 0)[:, None]
    exact = AUCSDCD(lam=lam, tol=1e-7, max_iter=3000, random_state=0).fit(X, y)
    for seed in range(3):
        model = solver(lam=lam, buffer_size=4, tol=0, random_state=seed).fit(X, y)
        history = model.history_
        assert np.all(history["dual_gap"] >= history["objective"] - exact.objective_ - exact.dual_gap_)


@pytest.mark.parametrize("solver", [OAMSeq, OAMGra])
def test_the_steps_that_bound_are_those_taken(solver):
    """With lam this large every pair is violated when it is met, and has the dual variable lam k t = 1."""
    X, y = arriving(60)
    model = solver(lam=1e4, buffer_size=1000, shuffle=False).fit(X, y)
    assert model._stream["steps"][0] == pytest.approx(1.0 / 1e4, rel=1e-12)


def test_a_pair_at_a_margin_of_exactly_1_moves_the_gradient_update():
    """Zhao et al. (2011), algorithm 4, and the docstring: w'v <= 1."""
    model = OAMGra(lam=0.25, n_pairs=4).partial_fit([[0.0], [1.0]], [0, 1])
    assert model.coef_.item() == 1.0
    assert model.partial_fit([[1.0]], [1]).coef_.item() == 2.0


def test_the_largest_buffer_is_allowed():
    OAMSeq(buffer_size=2**27).check_parameters()
