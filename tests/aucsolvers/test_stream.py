"""What all online solvers share: streams against their chunks, certificates, storages, the degenerate matrix."""

import pickle
import tracemalloc
import warnings

import numpy as np
import pytest
from arrivals import STORAGES, arriving, exponential_objective, exponential_optimum, stream
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import OPAUC, SOLAM, OAMGra, OAMInf, OAMSeq, UniExp
from aucsolvers._stream import pieces
from aucsolvers.metrics import auc, pairwise_hinge_objective, pairwise_square_objective
from aucsolvers.pairwise_hinge import AUCSDCD
from aucsolvers.pairwise_square import LSSVM

RESERVOIRS = [OAMSeq, OAMGra, OAMInf]
SOLVERS = [*RESERVOIRS, OPAUC, SOLAM, UniExp]
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


@parametrize_with_checks([*(solver() for solver in SOLVERS), OPAUC(rank=3), OAMSeq(max_iter=5)])
def test_obeys_scikit_learns_contract(estimator, check):
    check(estimator)


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
    def test_goes_on_after_a_pickle(self, model):
        X, y = arriving()
        half = stream(model, X[:30], y[:30])
        again = pickle.loads(pickle.dumps(half)).partial_fit(X[30:], y[30:])
        np.testing.assert_array_equal(again.coef_, stream(model, X, y).coef_)

    @every
    @pytest.mark.parametrize("storage", STORAGES)
    def test_an_interrupt_leaves_it_as_it_was(self, model, storage, monkeypatch):
        """A signal is met when the kernel returns: members were then rows of a pool that nobody had kept."""
        X, y = arriving()
        X = storage(X)
        half = stream(model, X[:30], y[:30])

        def interrupt(*_):
            raise KeyboardInterrupt

        for part in ("_settle", "_publish_stream"):
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(type(half), part, interrupt)
                half.partial_fit(X[30:], y[30:])
        again = half.partial_fit(X[30:], y[30:])
        np.testing.assert_array_equal(again.coef_, stream(model, X, y).coef_)

    @every
    @pytest.mark.parametrize("storage", STORAGES)
    def test_calls_that_an_interrupt_need_not_wait_for_leave_no_trace(self, model, storage, monkeypatch):
        """OAMInf's last nine tenths of a pass were one call: Ctrl-C took a quarter of a minute on 60,000 rows."""
        X, y = arriving()
        whole = stream(model, storage(X), y)
        monkeypatch.setattr("aucsolvers._stream.LONGEST_CALL", 50)
        np.testing.assert_array_equal(stream(model, storage(X), y).coef_, whole.coef_)

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
    def test_rows_of_one_class_need_no_more_checks_than_others(self, model, monkeypatch):
        """Small chunks are as a rule of one class: scikit-learn's checks took four times as long as the step."""
        X, y = arriving()
        whole, begun = stream(model, X, y), stream(model, X[:40], y[:40])
        monkeypatch.setattr("aucsolvers._base.validate_data", None)
        for i in range(40, len(y)):
            begun.partial_fit(X[[i]], y[[i]])
        np.testing.assert_array_equal(begun.coef_, whole.coef_)

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
        with pytest.raises(ValueError, match="Expected classes of one type, got \\[None, 1\\]"):
            SOLAM().partial_fit(X[:1], [1], classes=[None, 1])
        for classes in (["0", "1"], ["no", "yes"]):
            with pytest.raises(ValueError, match="got \\[0, 1\\]"):
                SOLAM().partial_fit(X, np.where(y > 0, 1, 0), classes=classes)

    @every
    def test_storage_may_change_midway(self, model):
        X, y = arriving()
        for first, second in (STORAGES, STORAGES[::-1]):
            mixed = clone(model).partial_fit(first(X[:30]), y[:30]).partial_fit(second(X[30:]), y[30:])
            np.testing.assert_allclose(mixed.coef_, stream(model, X, y).coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("work", "size"), [(0, 10), (2**25, 2), (2**26, 1), (2**40, 1)])
def test_pieces_are_as_many_rows_as_a_call_may_take(work, size):
    found = list(pieces(10, work))
    assert [part.indices(10) for part in found] == [(start, min(start + size, 10), 1) for start in range(0, 10, size)]


class TestCertificate:
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
        assert history["time_s"][0] == 0.0
        assert np.all(np.diff(history["time_s"]) > 0)
        assert history["objective"][0] == (1.0 if isinstance(model, OAMSeq | UniExp) else 0.5)

    @every
    def test_the_best_lower_bound_met_counts_from_then_on(self, model):
        """Gaps of single models rise and fall with the steps; what is known of the optimum is not forgotten."""
        X, y = arriving(100, seed=2)
        history = clone(model).set_params(lam=0.1, tol=0, max_iter=30).fit(X, y).history_
        bounds = (history["objective"] - history["dual_gap"])[3:]  # of passes; those before share the first one's
        assert np.all(np.diff(bounds) >= -1e-15) and np.any(np.diff(bounds) < 1e-15)


class TestEstimators:
    @every
    def test_sparse_and_dense_are_one(self, model):
        X, y = arriving(200)
        dense, thin = (clone(model).fit(storage(X), y) for storage in STORAGES)
        np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(thin.predict(X), dense.predict(X))

    @every
    def test_rows_of_both_classes_and_large_columns_leave_no_rounding(self, model):
        """What two rows have in common moves no pairwise solver, whichever storage it comes in."""
        if isinstance(model, SOLAM | UniExp):
            pytest.skip("its steps are along rows, not along their differences")
        X, y = arriving(60)
        X[np.flatnonzero(y > 0)[:5]], X[:, 1] = X[np.flatnonzero(y < 0)[:5]], 1.0
        dense, thin = (clone(model).set_params(lam=1e-6).fit(storage(1e6 * X), y) for storage in STORAGES)
        np.testing.assert_allclose(thin.coef_, dense.coef_, rtol=1e-9, atol=1e-12 * abs(dense.coef_).max())

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

    @every
    @pytest.mark.parametrize("storage", STORAGES)
    def test_single_precision_is_computed_in_double(self, model, storage):
        X, y = arriving()
        X = X.astype(np.float32)
        single, double = (clone(model).fit(storage(A), y) for A in (X, X.astype(float)))
        np.testing.assert_allclose(single.coef_, double.coef_, rtol=1e-11, atol=1e-13)

    @every
    def test_single_precision_is_never_copied_to_double(self, model):
        X = np.random.default_rng(0).normal(size=(3000, 200)).astype(np.float32)
        y = X[:, 0] > 1
        learn = clone(model).set_params(keep_stream=False).fit
        learn(X[:2600], y[:2600])  # compiles, also what sorts more than 2,000 scores
        tracemalloc.start()
        learn(X, y)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        # OAMInf keeps one copy, of the rows as they are; a float64 one would take twice the bytes of X
        assert peak < (2.9 if isinstance(model, OAMInf) else 1.0) * X.nbytes

    @pytest.mark.parametrize("storage", STORAGES)
    @every
    def test_precision_may_change_midway(self, model, storage):
        X, y = arriving()
        X = np.round(X, 2).astype(np.float32)
        mixed = clone(model).partial_fit(storage(X[:30]), y[:30]).partial_fit(storage(X[30:].astype(float)), y[30:])
        np.testing.assert_allclose(mixed.coef_, stream(model, X.astype(float), y).coef_, rtol=1e-9, atol=1e-12)


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

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (OAMSeq(lam=0), "Expected lam to be a finite number > 0, got 0"),
            (
                OAMGra(lam=1e-312),
                "Expected lam of 2.3e-308 or more, got 1e-312: 1 divided by it is infinite",
            ),
            (SOLAM(lam=np.nan), "Expected lam"),
            (UniExp(tol=-1.0), "Expected tol"),
            (OAMGra(max_iter=0), "Expected max_iter to be an integer >= 1, got 0"),
            (OAMSeq(buffer_size=0), "Expected buffer_size"),
            (OAMInf(n_pairs=2.5), "Expected n_pairs"),
            (OAMInf(max_bytes=0), "Expected max_bytes"),
            (OPAUC(eta=2.5), "Expected eta <= 2, got 2.5: longer steps only overshoot. Lower eta"),
            (OPAUC(rank=0), "Expected rank"),
            (OPAUC(max_bytes=0), "Expected max_bytes"),
            (UniExp(eta=0), "Expected eta to be a finite number > 0"),
            (SOLAM(zeta=1e4), "Expected zeta <= 1000"),
        ],
    )
    def test_parameters_are_checked(self, model, message):
        for learn in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match=message):
                learn([[1.0], [0.0]], [1, 0])


@pytest.mark.parametrize(
    ("model", "diverging"),
    [(OAMGra(1e-300), (1e140, 1e150)), (OAMGra(1e-6), (1e150,)), (UniExp(1e-300), (1e-165,))],
)
@pytest.mark.parametrize("magnitude", [1e140, 1e150, 1e-165])
def test_scores_that_overflow_end_in_diverged_and_not_in_a_loop(model, diverging, magnitude):
    X, y = arriving()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = clone(model).fit(X * magnitude, y)
    if magnitude in diverging:
        assert (model.status_, model.dual_gap_) == ("diverged", np.inf)
    else:
        assert model.status_ in ("converged", "max_iter") and 0.0 <= model.dual_gap_ < np.inf


def test_a_streams_rank_cannot_change_midway():
    X, y = arriving()
    for first, second in ((None, 2), (2, None), (2, 3)):
        model = OPAUC(rank=first, random_state=0).partial_fit(X, y)
        with pytest.raises(ValueError, match="with which this stream began"):
            model.set_params(rank=second).partial_fit(X, y)


def test_a_sketchs_random_numbers_count_in_its_memory():
    X, y = arriving()
    with pytest.raises(ValueError, match="max_bytes"):
        OPAUC(rank=10**6).fit(X, y)


class TestFitsAndStreamsInTurn:
    """One object may do both, one after the other; neither has anything of the one before that it should not."""

    @every
    def test_a_fit_that_keeps_no_stream_forgets_an_earlier_one(self, model):
        X, y = arriving()
        model = stream(model, X, y).set_params(keep_stream=False).fit(X, y)
        with pytest.raises(ValueError, match="Set keep_stream=True before fit"):
            model.partial_fit(X, y)

    @every
    def test_a_fit_begins_anew(self, model):
        X, y = arriving()
        np.testing.assert_array_equal(stream(model, -X, y).fit(X, y).coef_, clone(model).fit(X, y).coef_)

    @every
    def test_rows_after_a_fit_take_its_certificate_away(self, model):
        X, y = arriving()
        model = clone(model).set_params(tol=1e6, lam=0.1, max_iter=1).fit(X, y)
        assert model.status_ == "converged"  # in the last pass that it had
        assert model.dual_gap_ >= 0 and len(model.history_["auc"])
        model.partial_fit(X[:3], y[:3])
        assert np.isnan([model.dual_gap_, model.objective_]).all() and (model.status_, model.n_iter_) == ("max_iter", 1)
        assert {len(column) for column in model.history_.values()} == {0}

    @pytest.mark.parametrize("solver", [OPAUC, SOLAM, UniExp])
    def test_each_pass_draws_an_order_of_its_own(self, solver):
        X, y = arriving()
        rng = np.random.default_rng(5)
        orders = np.concatenate([rng.permutation(len(y)) for _ in range(3)])
        fitted = solver(tol=0, max_iter=3, random_state=5).fit(X, y)
        np.testing.assert_array_equal(fitted.coef_, stream(solver(), X[orders], y[orders]).coef_)
