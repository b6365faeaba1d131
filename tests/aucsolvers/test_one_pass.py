"""OPAUC: kernels against slow twins, the exact solution of LSSVM, and what a sketch of the covariances costs."""

import re
import tracemalloc

import numpy as np
import pytest
from arrivals import STORAGES, arriving
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import scale

from aucsolvers import one_pass as module
from aucsolvers.metrics import auc
from aucsolvers.one_pass import OPAUC
from aucsolvers.pairwise_square import LSSVM

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


class TestTwins:
    """Compiled sweeps and gradients on all rows so far, computed afresh for each row, agree to 1e-12."""

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
                S = np.atleast_2d(np.cov(rows.T, bias=True))
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

    @pytest.mark.parametrize("d", [1, 3, 4, 7, 30])
    def test_covariances_of_any_width(self, d):
        """Four rows of n S at a time, and what is left of them."""
        X, y = arriving(d=d)
        model = OPAUC(lam=0.1).partial_fit(X, y)
        expected = self.covariance_twin(X, y, 0.1, 1.0)
        np.testing.assert_allclose(model.coef_.ravel(), expected, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("d", [1, 5, 16, 67])
    def test_four_rows_at_once_are_four_rows_in_turn(self, d):
        """To the last bit: where a chunk of the stream ends decides how many rows wait for each other."""
        rng = np.random.default_rng(d)
        at_once, weights, distances = rng.normal(size=(d, d)), rng.random(4), rng.normal(size=(4, d))
        in_turn = at_once.copy()
        module._add_four_outer(at_once, weights, distances)
        for weight, distance in zip(weights, distances, strict=True):
            module._add_outer(in_turn, weight, distance, distance)
        np.testing.assert_array_equal(at_once, in_turn)

    def test_sketches(self):
        X, y = arriving()
        model = OPAUC(lam=0.1, rank=3, random_state=2).partial_fit(X, y)
        sketch = np.random.default_rng(2).standard_normal((len(y), 3)) / np.sqrt(3)
        expected = self.covariance_twin(X, y, 0.1, 1.0, sketch)
        np.testing.assert_allclose(model.coef_.ravel(), expected, rtol=1e-12, atol=1e-12)

    def test_sketches_cross_blocks(self, monkeypatch):
        X, y = arriving()
        whole = OPAUC(rank=3, random_state=0).fit(X, y).coef_
        monkeypatch.setattr(module, "BLOCK_ROWS", 7)
        np.testing.assert_array_equal(OPAUC(rank=3, random_state=0).fit(X, y).coef_, whole)


class TestOptimum:
    @pytest.mark.parametrize("lam", [1.0, 0.1])
    def test_reaches_the_exact_solution(self, lam):
        X, y = arriving(200)
        exact = LSSVM(lam=lam).fit(X, y)
        model = OPAUC(lam=lam, tol=1e-6, max_iter=3000, random_state=0).fit(X, y)
        assert model.status_ == "converged"
        assert 0 <= model.objective_ - exact.objective_ <= 1e-6
        np.testing.assert_allclose(model.coef_, exact.coef_, atol=2e-3)

    def test_a_pass_goes_on_where_the_one_before_ended(self):
        X, y = arriving()
        options = {"lam": 0.1, "tol": 0, "shuffle": False}
        thrice = OPAUC(lam=0.1).partial_fit(np.vstack([X] * 3), np.tile(y, 3))
        np.testing.assert_array_equal(OPAUC(max_iter=3, **options).fit(X, y).coef_, thrice.coef_)

    def test_a_sketch_is_right_on_average(self):
        X, y = arriving(80)
        exact = OPAUC().partial_fit(X, y)._stream["scatters"]
        sketches = [OPAUC(rank=5, random_state=s).partial_fit(X, y)._stream["scatters"] for s in range(400)]
        mean = np.mean([Z @ Z.transpose(0, 2, 1) for Z in sketches], axis=0)
        assert np.abs(mean - exact).max() < 0.15 * np.abs(exact).max()
        pos = X[y > 0]
        np.testing.assert_allclose(exact[1] / len(pos), np.cov(pos.T, bias=True), rtol=1e-10, atol=1e-12)

    def test_a_higher_rank_comes_nearer(self):
        """The error of a random sketch of rank r falls as 1/sqrt(r)."""
        X, y = arriving(400, d=30)
        exact = OPAUC(lam=0.1).partial_fit(X, y).coef_
        errors = [
            np.mean(
                [np.linalg.norm(OPAUC(0.1, rank=r, random_state=s).partial_fit(X, y).coef_ - exact) for s in range(8)]
            )
            for r in (10, 90, 810)
        ]
        assert errors[0] > 2 * errors[1] > 4 * errors[2]

    def test_low_rank_ranks_wide_rows(self):
        # 3,000 columns, of which 20 tell: full covariances would need 144 MB
        rng = np.random.default_rng(0)
        y = np.arange(2000) % 10 == 0
        X = sparse.random_array((2000, 3000), density=0.01, format="csr", rng=rng)
        X = sparse.csr_array(X + sparse.csr_array(y[:, None] * (np.arange(3000) < 20) * 0.3))
        model = OPAUC(lam=1e-2, rank=50, max_bytes=6_000_000, random_state=0).fit(X[:1500], y[:1500])
        assert auc(y[1500:], model.decision_function(X[1500:])) > 0.95

    def test_covariances_that_need_too_much_are_refused(self):
        X, y = sparse.csr_array((4, 20_000)), [0, 1, 0, 1]
        with pytest.raises(ValueError, match=r"need 6400000000 bytes. Use rank=50 .*19276800 bytes.* SOLAM"):
            OPAUC().fit(X, y)
        with pytest.raises(ValueError, match="need 6400000000 bytes"):
            OPAUC().partial_fit(X, y)
        assert OPAUC(rank=2).fit(X, y).coef_.shape == (1, 20_000)

    def test_the_rank_that_is_named_is_one_that_goes(self):
        X, y = sparse.csr_array((4, 20_000)), [0, 1, 0, 1]
        for limit in (2**18, 2**20, 2**24):
            with pytest.raises(ValueError, match=r"Use rank=\d+ |Use SOLAM") as refusal:
                OPAUC(max_bytes=limit).fit(X, y)
            named = re.findall(r"Use rank=(\d+)", str(refusal.value))
            assert bool(named) == (limit > 2**18)
            for rank in map(int, named):
                assert OPAUC(rank=rank, max_bytes=limit).fit(X, y).coef_.shape == (1, 20_000)

    def test_numbers_that_a_sketch_draws_count_at_any_rank(self):
        """5,000 rows with rank = d = 100 take 4 MB, nearly all of it random numbers."""
        X, y = np.zeros((5000, 100)), np.arange(5000) % 2
        for rank in (99, 100):
            with pytest.raises(ValueError, match="at most max_bytes=1048576 bytes"):
                OPAUC(rank=rank, max_bytes=2**20).partial_fit(X, y)

    def test_far_from_the_origin(self):
        X, y = load_breast_cancer(return_X_y=True)
        for model in (OPAUC(random_state=0), OPAUC(rank=9, random_state=0)):
            near, far = (clone(model).fit(scale(X) + shift, y).coef_ for shift in (0.0, 1e4))
            np.testing.assert_allclose(far, near, rtol=1e-5, atol=1e-5 * np.abs(near).max())


@pytest.mark.parametrize("rank", [None, 20])
def test_memory_of_a_stream_is_what_is_predicted(rank):
    """Once for the covariances, once for the copy that an interrupt goes back to."""
    d = 1000 if rank is None else 50_000
    X, y = sparse.random_array((4, d), density=0.1, format="csr", rng=np.random.default_rng(0)), [0, 1, 0, 1]
    model = OPAUC(rank=rank, random_state=0).partial_fit(X, y)
    needed = (rank or d) * module._bytes_a_column(d, sketched=rank is not None)
    model = clone(model)
    tracemalloc.start()
    try:
        model.partial_fit(X, y).partial_fit(X, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert needed < peak < 2.1 * needed + 2**22


def test_covariances_that_need_just_what_is_allowed_are_kept():
    X, y = arriving(d=5)
    assert OPAUC(max_bytes=400).fit(X, y).coef_.shape == (1, 5)
    with pytest.raises(ValueError, match="at most max_bytes=399 bytes"):
        OPAUC(max_bytes=399).fit(X, y)
