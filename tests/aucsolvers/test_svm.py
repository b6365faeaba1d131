"""LinearSVM against LIBLINEAR, against a slow twin that shares no code with it, and against its own certificate."""

import pickle
import warnings

import numpy as np
import pytest
from imblearn.pipeline import make_pipeline
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.optimize import Bounds, LinearConstraint, minimize, minimize_scalar
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_svmlight_file
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import svm as module
from aucsolvers._params import as_generator
from aucsolvers.kernel_svm import KernelSVM
from aucsolvers.margin_mean import MarginMeanSVM
from aucsolvers.svm import LinearSVM, descend_with_free_bias, solve_linear_svm

LOSSES = ["hinge", "squared_hinge"]


@pytest.fixture(scope="module")
def cancer():
    """569 rows, 30 standardised features, malignant = 1 in 37 % of the rows."""
    X, y = load_breast_cancer(return_X_y=True)
    return StandardScaler().fit_transform(X), 1 - y


def objective(w, b, X, y, loss, C=1.0):
    """P of the module's docstring, written a second time; y is 0/1 and a C per row is allowed."""
    slack = np.maximum(0, 1 - (2 * y - 1) * (X @ w + b))
    return 0.5 * (w @ w + b * b) + np.sum(C * (slack if loss == "hinge" else slack**2))


# A tight tol, because one of the checks asks for 7 digits of w from two problems with the same optimum; as P is
# 1-strongly convex, 7 digits of w are 14 digits of P at least. Some checks fit features of mean 100, unscaled, where
# dual coordinate descent does not get that far (LIBLINEAR uses up 10^6 passes as well): it warns, as it should.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [
        LinearSVM(),
        LinearSVM(loss="squared_hinge"),
        LinearSVM(tol=1e-14),
        LinearSVM(loss="squared_hinge", tol=1e-16),
    ]
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


class TestOptimum:
    def test_two_points_by_hand(self):
        """x = +-1, b = 0, squared hinge: P = w^2/2 + 2C(1 - w)^2 is least at w = 4C/(1 + 4C) = 2/3 for C = 1/2."""
        svm = LinearSVM(C=0.5, loss="squared_hinge", fit_intercept=False, tol=1e-20).fit([[-1.0], [1.0]], ["no", "yes"])
        assert_allclose(svm.coef_, [[2 / 3]], rtol=1e-9)
        assert_allclose(svm.objective_, 2 / 9 + 1 / 9, rtol=1e-12)
        assert svm.intercept_ == [0.0]
        assert_array_equal(svm.predict([[3.0], [-3.0]]), ["yes", "no"])

    def test_intercept_is_regularised(self):
        """x = 0 and 2 with w~ = (w, b), hinge: margins 2w + b >= 1 and b <= -1 give (1, -1): 1/2 (1 + 1) = 1."""
        svm = LinearSVM(C=10.0, tol=1e-12).fit([[0.0], [2.0]], [0, 1])
        assert_allclose([svm.coef_[0, 0], svm.intercept_[0], svm.objective_], [1, -1, 1], atol=1e-5)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("fit_intercept", [True, False])
    @pytest.mark.parametrize("C", [0.01, 1.0])
    @pytest.mark.parametrize("newton", [True, False])
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix, sparse.csr_array])
    def test_same_objective_as_liblinear(self, cancer, loss, fit_intercept, C, newton, form):
        X, y = cancer
        svm = LinearSVM(C, loss=loss, fit_intercept=fit_intercept, newton=newton, tol=1e-9, random_state=0)
        ours = svm.fit(form(X), y)
        theirs = LinearSVC(
            C=C, loss=loss, dual=True, fit_intercept=fit_intercept, tol=1e-8, max_iter=10**6, random_state=0
        ).fit(X, y)
        b = theirs.intercept_[0] if fit_intercept else 0.0
        assert_allclose(ours.objective_, objective(theirs.coef_[0], b, X, y, loss, C), rtol=1e-6)
        assert_allclose(ours.objective_, objective(ours.coef_[0], ours.intercept_[0], X, y, loss, C), rtol=1e-12)
        assert ours.status_ == "converged"

    @pytest.mark.parametrize("loss", LOSSES)
    def test_same_objective_as_liblinear_on_sparse_real_data(self, mirror, loss):
        X, y = load_svmlight_file(mirror / "libsvm" / "w8a")  # 300 sparse features, 3 % positive, 64-bit indices
        X, y = X[:10_000], (y[:10_000] > 0).astype(int)
        ours = LinearSVM(loss=loss, tol=1e-7, max_iter=10**6, random_state=0).fit(X, y)
        X.indices, X.indptr = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        theirs = LinearSVC(loss=loss, dual=True, tol=1e-6, max_iter=10**6, random_state=0).fit(X, y)
        assert_allclose(ours.objective_, objective(theirs.coef_[0], theirs.intercept_[0], X, y, loss), rtol=1e-6)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_dense_and_sparse_make_the_same_visits(self, cancer, loss):
        X, y = cancer
        dense, csr = (LinearSVM(loss=loss, random_state=3).fit(form(X), y) for form in (np.asarray, sparse.csr_array))
        assert_allclose(dense.coef_, csr.coef_, rtol=1e-9)
        assert_array_equal(dense.history_["updates"], csr.history_["updates"])

    def test_mostly_zero_dense_rows_and_split_sparse_entries_are_the_same_problem(self):
        """Dense rows with few non-zeros go through CSR, and CSR entries stored in two parts are added up first."""
        rng = np.random.default_rng(0)
        X = rng.normal(size=(80, 20)) * (rng.random((80, 20)) < 0.1)
        y = (X.sum(axis=1) + 0.1 * rng.normal(size=80) > 0).astype(int)
        whole = sparse.csr_array(X)
        split = sparse.csr_array(
            (np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), whole.indptr * 2), shape=X.shape
        )
        fits = [LinearSVM(tol=1e-12, random_state=0).fit(form, y) for form in (X, whole, split)]
        assert_allclose(fits[0].coef_, fits[1].coef_, rtol=1e-12)
        assert_allclose(fits[0].coef_, fits[2].coef_, rtol=1e-9)
        assert split.nnz == 2 * whole.nnz  # the caller's matrix is left as it was


class TestWeights:
    @pytest.mark.parametrize("loss", LOSSES)
    def test_weights_are_repetitions(self, cancer, loss):
        X, y = cancer
        times = np.random.default_rng(0).integers(0, 4, size=len(y))
        weighted = LinearSVM(loss=loss, tol=1e-12).fit(X, y, sample_weight=times)
        repeated = LinearSVM(loss=loss, tol=1e-12).fit(np.repeat(X, times, axis=0), np.repeat(y, times))
        assert_allclose(weighted.objective_, repeated.objective_, rtol=1e-10)
        assert_allclose(weighted.coef_, repeated.coef_, atol=2e-5)

    @pytest.mark.parametrize("machine", [LinearSVM, KernelSVM])
    @pytest.mark.parametrize(
        ("class_weight", "words"),
        [
            ("bal", "Expected class_weight to be None, 'balanced' or a weight for each label, got 'bal'"),
            ({}, "got {}"),
            ([1, 2], r"got \[1, 2\]"),
            ({1: -1}, "Expected class_weight of 1 to be a finite number >= 0, got -1"),
            ({1: "much"}, "got 'much'"),
        ],
    )
    def test_a_class_weight_that_is_none_is_refused_before_any_data(self, machine, class_weight, words):
        with pytest.raises(ValueError, match=words):
            machine(class_weight=class_weight).check_parameters()

    @pytest.mark.parametrize("machine", [LinearSVM, KernelSVM])
    def test_a_class_weight_for_another_label_names_those_that_there_are(self, machine):
        with pytest.raises(ValueError, match=r"for labels out of \['no', 'yes'\], got one for 'maybe'"):
            machine(class_weight={"yes": 2, "maybe": 1}).fit([[0.0], [1.0]], ["no", "yes"])
        assert machine(class_weight={"yes": 2}).fit([[0.0], [1.0]], ["no", "yes"]).status_ == "converged"

    @pytest.mark.parametrize("class_weight", ["balanced", {0: 1.0, 1: 7.0}])
    def test_class_weight_agrees_with_liblinear(self, cancer, class_weight):
        X, y = cancer
        ours = LinearSVM(class_weight=class_weight, tol=1e-9).fit(X, y)
        theirs = LinearSVC(loss="hinge", class_weight=class_weight, tol=1e-8, max_iter=10**6).fit(X, y)
        per_class = {"balanced": len(y) / (2 * np.bincount(y))}.get(str(class_weight), [1.0, 7.0])
        cost = np.asarray(per_class)[y]
        assert_allclose(
            ours.objective_, objective(theirs.coef_[0], theirs.intercept_[0], X, y, "hinge", cost), rtol=1e-6
        )

    @pytest.mark.parametrize(
        ("weight", "says"),
        [([1, 1, 1], "inconsistent"), ([1, 1, 1, -1], "negative"), ([0, 0, 1, 1], "none in one class"), (2.0, "shape")],
    )
    def test_bad_weights(self, weight, says):
        with pytest.raises(ValueError, match=says):
            LinearSVM().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], sample_weight=weight)


class TestCertificate:
    @pytest.mark.parametrize("loss", LOSSES)
    def test_gap_bounds_the_suboptimality_all_the_way(self, cancer, loss):
        X, y = cancer
        best = LinearSVM(loss=loss, tol=1e-13).fit(X, y).objective_
        history = LinearSVM(loss=loss, tol=1e-9, random_state=1).fit(X, y).history_
        assert np.all(history["objective"] - best <= history["dual_gap"] * (1 + 1e-9) + 1e-10)
        # At w = 0 and alpha = 0: P = C n, D = 0, every score is tied.
        assert [history[name][0] for name in ("updates", "objective", "dual_gap", "auc")] == [0, len(y), len(y), 0.5]
        assert len({len(column) for column in history.values()}) == 1
        assert np.all(np.diff(history["updates"]) > 0)
        assert history["auc"][-1] > 0.99

    @pytest.mark.parametrize("C", [1e-6, 1e-2, 1.0])
    def test_tol_is_relative_to_the_objective_not_to_one(self, cancer, C):
        """C = 1e-6 makes P(0) = 6e-4: measured against max(1, P(0)) even w = 0 would pass a tol of 1e-3."""
        X, y = cancer
        svm = LinearSVM(C, tol=1e-3, random_state=0).fit(X, y)
        assert svm.status_ == "converged"
        assert 0 <= svm.dual_gap_ <= 1e-3 * svm.objective_ <= 1e-3 * C * len(y)
        assert np.linalg.norm(svm.coef_) > 0

    @pytest.mark.parametrize("newton", [True, False])
    @pytest.mark.parametrize("loss", LOSSES)
    def test_nor_to_the_one_at_zero_where_the_classes_are_far_apart(self, loss, newton):
        """P(0) = 1.5e6, of which a default tol would be 38 times min P: 1/2 ||w||^2 of the widest margin."""
        X, y = load_iris(return_X_y=True)
        X, y = StandardScaler().fit_transform(X), (y == 0).astype(int)
        best = LinearSVM(1e4, loss=loss, tol=1e-9, max_iter=10**6).fit(X, y).objective_
        svm = LinearSVM(1e4, loss=loss, newton=newton, max_iter=10**6, random_state=0).fit(X, y)
        assert svm.status_ == "converged" and best < 2.0
        rounded = 4 * np.finfo(float).eps * best  # a Newton step may leave a gap of 1e-23, less than P is known to
        assert svm.objective_ - best <= svm.dual_gap_ + rounded
        assert svm.dual_gap_ <= 1e-4 * svm.objective_

    @pytest.mark.parametrize("squared", [False, True])
    def test_a_pass_meets_the_gap_where_no_row_moves_anothers_margin(self, squared):
        """Orthogonal rows: what a pass meets row by row is the gap at its start."""
        rng = np.random.default_rng(0)
        X, y, cost = np.diag(rng.uniform(0.5, 2.0, 40)), rng.choice([-1.0, 1.0], 40), rng.uniform(0.1, 3.0, 40)
        problem = module._pose(X, y, cost, squared, False)
        alpha = rng.uniform(0.0, 1.0, 40) * np.minimum(cost, 2.0)
        w = problem.primal(alpha)
        _, gap = module.loss_and_gap(y * problem.scores(w), alpha, cost, squared)
        order, rows = np.arange(40, dtype=np.uint32), module.as_rows(problem.X)
        met = module._pass(rows, problem.constants, 0.0, alpha, w, order, 40, np.inf, -np.inf)[-1]
        assert met == pytest.approx(gap, rel=1e-12)

    @pytest.mark.parametrize(
        ("last_met", "met", "n_active", "error", "visits", "due"),
        [
            (np.inf, 0.9, 100, 1.0, 0, True),  # of the first pass nothing is known but what it met
            (np.inf, 1.1, 100, 1.0, 0, False),
            (8.0, 2.0, 100, 1.0, 0, True),  # a quarter a pass is a half in half a pass: 1
            (7.0, 2.0, 100, 1.0, 0, False),
            (8.0, 2.0, 25, 1.0, 0, False),  # a pass over a few rows was short ago
            (8.0, 2.0, 100, 1.5, 0, False),  # the last look found more than was met
            (1.0, 1.1, 100, 1.0, 0, False),  # it rises
            (8.0, 9.0, 100, 1.0, 100 * module.LONGEST_BLIND, True),  # too long ago
            (8.0, 9.0, 100, 1.0, 100 * module.LONGEST_BLIND - 1, False),
        ],
    )
    def test_looks_when_the_gap_should_have_arrived(self, last_met, met, n_active, error, visits, due):
        foresight = module._Foresight(100, 0)
        foresight.last_met, foresight.error = last_met, error
        assert foresight.is_due(met, n_active, visits, 1.0) == due

    def test_a_look_teaches_how_far_off_the_sum_is(self):
        foresight = module._Foresight(100, 0)
        foresight.compare(0.5, 2.0, 500)
        latest = 500 * module.LONGEST_BLIND
        assert not foresight.is_due(0.3, 100, latest - 1, 1.0)
        assert foresight.is_due(0.2, 100, latest - 1, 1.0) and foresight.is_due(0.3, 100, latest, 1.0)

    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("tol", [1e-3, 1e-6])
    def test_a_look_in_two_or_three_finds_what_looking_always_does(self, cancer, loss, tol, monkeypatch):
        X, y = cancer
        fits = [LinearSVM(0.1, loss=loss, tol=tol, newton=False, random_state=seed) for seed in range(10)]
        foreseen = [clone(svm).fit(X, y).history_["updates"] for svm in fits]
        monkeypatch.setattr(module._Foresight, "is_due", lambda *_: True)
        always = [clone(svm).fit(X, y).history_["updates"] for svm in fits]
        assert sum(map(len, foreseen)) <= 10 * 3 + sum(map(len, always)) / 2
        late = [few[-1] - many[-1] for few, many in zip(foreseen, always, strict=True)]
        assert min(late) >= 0 and np.mean(late) <= 2 * len(y)

    @pytest.mark.parametrize("seed", [2, 30, 33, 34, 36, 39])
    def test_a_second_look_after_as_many_updates_takes_the_place_of_the_first(self, seed):
        """Small numbers: the slopes of descent's last point are a better dual point already, without one more step."""
        X = 1e-3 * np.random.default_rng(seed).normal(size=(15, 3))
        svm = LinearSVM(loss="squared_hinge", fit_intercept=False, random_state=0).fit(X, X[:, 0] > 0.5e-3)
        assert (np.diff(svm.history_["updates"]) > 0).all() and svm.history_["dual_gap"][-1] == svm.dual_gap_

    def test_the_gap_has_no_floor_from_rounding(self, cancer):
        """The gap gets to 1e-25 of P(0), far below what subtracting D from P could show."""
        X, y = cancer
        svm = LinearSVM(0.1, loss="squared_hinge", tol=1e-25).fit(X, y)
        assert svm.status_ == "converged"

    def test_w_does_not_drift_from_the_dual_point(self, cancer):
        """w is updated at each visit and never recomputed: the certificate takes w = w(alpha) for granted."""
        X, y = cancer
        signs = 2.0 * y - 1
        result = solve(X, signs, tol=0.0, max_iter=1000, newton=False)
        signed = signs * result.state["alpha"]
        assert result.history["updates"][-1] > 10**4
        assert_allclose(np.append(X.T @ signed, signed.sum()), np.append(result.w, result.bias), atol=1e-12)

    def test_running_out_of_passes_warns_and_says_what_to_do(self, cancer):
        with pytest.warns(ConvergenceWarning, match="'max_iter' after 3 iterations.*Raise max_iter or tol"):
            svm = LinearSVM(tol=1e-9, max_iter=3).fit(*cancer)
        assert (svm.status_, svm.n_iter_) == ("max_iter", 3)
        assert svm.dual_gap_ == svm.history_["dual_gap"][-1] > 1e-9 * len(cancer[1])


def solve(X, signs, *, C=1.0, squared=False, fit_intercept=True, tol=1e-6, max_iter=500, seed=0, **more):
    """Solve as for the margin-mean SVM: to a gap of tol * P(0)."""
    return solve_linear_svm(
        X,
        signs,
        np.full(len(signs), C),
        squared=squared,
        fit_intercept=fit_intercept,
        tol=tol,
        relative=False,
        max_iter=max_iter,
        rng=np.random.default_rng(seed),
        **more,
    )


def twin(X, y, C, squared, passes, seed):
    """Algorithm 3 of Hsieh et al. on rows (x, 1), as plain Python; replays the solver's random numbers.

    Every call of the generator yields 2 n numbers, or 256, which shuffle rows for as many passes as they last for.
    After each pass come sweeps over the free rows, without shrinking. As tol = 0 is never met, the range starts as its
    least, and becomes a hundredth each time that all rows are within it.
    """
    n = len(y)
    Z = np.column_stack([X, np.ones(n)])
    upper, diagonal = (np.inf, 0.5 / C) if squared else (C, 0.0)
    alpha, w, order, active = np.zeros(n), np.zeros(Z.shape[1]), list(range(n)), n
    high, low, pg_range = np.inf, -np.inf, module.LEAST_RANGE
    rng, draws = np.random.default_rng(seed), []

    def shuffle(rows):
        for s in range(len(rows)):
            t = s + int(draws.pop(0)) * (len(rows) - s) // 2**32
            rows[s], rows[t] = rows[t], rows[s]
        return rows

    def visit(queue, high, low):
        nonlocal w
        left, shrunk, gradients = [], [], []
        while queue:
            i = queue.pop(0)
            g = y[i] * (w @ Z[i]) - 1 + diagonal * alpha[i]
            if (alpha[i] == 0 and g > high) or (alpha[i] == upper and g < low):
                shrunk.insert(0, i)
                if queue:
                    queue.insert(0, queue.pop())  # the solver swaps the last active row into the gap
                continue
            left.append(i)
            projected = min(g, 0) if alpha[i] == 0 else max(g, 0) if alpha[i] == upper else g
            gradients.append(projected)
            if projected != 0:
                old = alpha[i]
                alpha[i] = np.clip(old - g / (Z[i] @ Z[i] + diagonal), 0, upper)
                w = w + (alpha[i] - old) * y[i] * Z[i]
        return left, shrunk, max(gradients, default=-np.inf), min(gradients, default=np.inf)

    for _ in range(passes):
        if len(draws) < active:
            draws = list(rng.integers(2**32, size=max(2 * n, 2048), dtype=np.uint32))
        left, shrunk, top, bottom = visit(shuffle(order[:active]), high, low)
        order[:active], active = left + shrunk, len(left)
        if top - bottom > pg_range:
            free = [i for i in order[:active] if 0 < alpha[i] < upper]
            for _ in range(10):
                if len(draws) < len(free):
                    break
                _, _, highest, lowest = visit(list(shuffle(free)), np.inf, -np.inf)
                if highest - lowest <= max(pg_range, 0.3 * (top - bottom)):
                    break
            high, low = (top if top > 0 else np.inf), (bottom if bottom < 0 else -np.inf)
            continue
        draws = []
        if active == n:
            pg_range *= 0.01
        else:
            active, high, low = n, np.inf, -np.inf
    return alpha, w


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("passes", [1, 4, 60])
def test_kernel_agrees_with_the_twin(cancer, form, squared, passes):
    X, y = cancer[0][::3, :6].copy(), 2.0 * cancer[1][::3] - 1
    result = solve(form(X), y, squared=squared, tol=0.0, max_iter=passes, seed=5, newton=False)
    alpha, w = twin(X, y, 1.0, squared, passes, seed=5)
    assert_allclose(result.state["alpha"], alpha, atol=1e-12)
    found = np.append(result.w, result.bias)
    assert_allclose(found, (found @ w) / (w @ w) * w, atol=1e-12)  # which multiple: the next test


@pytest.mark.parametrize("linear_term", [None, 0.3])
@pytest.mark.parametrize("squared", [False, True])
@pytest.mark.parametrize("passes", [1, 3, 10, 300])
def test_descent_alone_publishes_the_multiple_with_the_least_objective(cancer, squared, passes, linear_term):
    """Beside SciPy's minimiser of P(s w) over s; the certificate is P minus D still, both written out."""
    X, y = cancer
    signs, C = 2.0 * y - 1, 0.5
    w0 = np.zeros(31) if linear_term is None else linear_term * np.append(X.T @ signs, signs.sum()) / len(y)
    result = solve(X, signs, C=C, squared=squared, tol=0.0, max_iter=passes, newton=False, linear_term=w0)
    Z, alpha = np.column_stack([X, np.ones(len(y))]), result.state["alpha"]
    w, of_alpha = np.append(result.w, result.bias), Z.T @ (signs * alpha) + w0

    def primal(w):
        slack = np.maximum(0.0, 1.0 - signs * (Z @ w))
        return 0.5 * w @ w - w0 @ w + C * np.sum(slack**2 if squared else slack)

    dual = alpha.sum() - 0.5 * of_alpha @ of_alpha - (alpha @ alpha / (4 * C) if squared else 0.0)
    rounding = 1e-12 * primal(0.0 * w)
    assert_allclose([result.objective, result.dual_gap], [primal(w), primal(w) - dual], rtol=1e-9, atol=rounding)
    assert_allclose(w, (w @ of_alpha) / (of_alpha @ of_alpha) * of_alpha, atol=1e-12)
    least = minimize_scalar(lambda s: primal(s * of_alpha), bounds=(0.0, 3.0), options={"xatol": 1e-12}).fun
    assert primal(w) <= min(least + 0.011 * (primal(of_alpha) - dual), primal(of_alpha)) + rounding


def test_shrinking_makes_passes_short(cancer):
    """Otherwise 569 rows would be visited in every pass."""
    X, y = cancer
    result = solve(X, 2.0 * y - 1, tol=1e-8, max_iter=10**5, newton=False)
    assert result.status == "converged"
    assert result.history["updates"][-1] < 0.5 * result.n_iter * len(y)


def certified_at(X, signs, C, squared, alpha, w):
    """Return what the solver says of a point as it is: every gap is within this tol."""
    return solve(X, signs, C=C, squared=squared, tol=1e300, alpha=alpha, w=w)


class TestNewton:
    @pytest.mark.parametrize("squared", [False, True])
    def test_any_weights_and_any_feasible_dual_point_are_certified(self, cancer, squared):
        """Eq. 1: P(w) - D(alpha) without w = w(alpha), against both terms written out."""
        X, signs = cancer[0], 2.0 * cancer[1] - 1
        rng, C = np.random.default_rng(0), 0.5
        alpha, w = rng.random(len(signs)) * C, rng.normal(size=31)
        Z = np.column_stack([X, np.ones(len(signs))])
        of_alpha = Z.T @ (signs * alpha)
        dual = alpha.sum() - 0.5 * of_alpha @ of_alpha - (alpha @ alpha / (4 * C) if squared else 0.0)
        primal = objective(w[:-1], w[-1], X, cancer[1], "squared_hinge" if squared else "hinge", C)
        result = certified_at(X, signs, C, squared, alpha, w)
        assert_allclose([result.objective, result.dual_gap], [primal, primal - dual], rtol=1e-12)
        assert result.n_iter == 0

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
    @pytest.mark.parametrize("fit_intercept", [True, False])
    @pytest.mark.parametrize("squared", [False, True])
    def test_a_step_solves_the_linearised_optimality(self, cancer, form, fit_intercept, squared):
        """The gradient changes by minus itself along the direction, to first order: central differences say so."""
        X, signs = form(cancer[0]), 2.0 * cancer[1] - 1
        problem = module._pose(X, signs, np.full(len(signs), 0.5), squared, fit_intercept)
        centre = np.zeros(len(signs)) if squared else np.random.default_rng(0).random(len(signs)) * 0.5
        w = problem.primal(np.full(len(signs), 0.01))

        def gradient(w):
            return module._look(problem, w, problem.margins(w), centre, 0.5).gradient

        direction = module._newton_direction(problem, module._look(problem, w, problem.margins(w), centre, 0.5))
        change = (gradient(w + 1e-7 * direction) - gradient(w - 1e-7 * direction)) / 2e-7
        assert_allclose(change, -gradient(w), rtol=1e-5, atol=1e-5 * np.abs(gradient(w)).max())

    @pytest.mark.parametrize("fit_intercept", [True, False])
    @pytest.mark.parametrize("squared", [False, True])
    def test_products_solve_the_system_that_lapack_does(self, cancer, fit_intercept, squared):
        X, signs = sparse.csr_array(cancer[0]), 2.0 * cancer[1] - 1
        problem = module._pose(X, signs, np.full(len(signs), 0.5), squared, fit_intercept)
        w, centre = problem.primal(np.full(len(signs), 0.01)), np.zeros(len(signs))
        here = module._look(problem, w, problem.margins(w), centre, 0.5)
        fixed = problem.rows, here.free, here.curvature, problem.bias, here.gradient
        direction = np.zeros(len(w))
        products, is_met = module._solve_by_products(*fixed, 1e-13, 500, direction)
        assert is_met and 1 < products < 100
        assert_allclose(direction, module._newton_direction(problem, here), rtol=1e-9)
        assert module._solve_by_products(*fixed, 1e-13, 2, np.zeros(len(w))) == (2, False)

    @pytest.mark.parametrize("squared", [False, True])
    def test_wide_sparse_rows_need_no_matrix_where_products_will_do(self, squared, monkeypatch):
        rng = np.random.default_rng(0)
        X = sparse.random_array((4000, 900), density=0.02, rng=rng, format="csr")
        signs = np.where(X @ rng.normal(size=900) + rng.normal(size=4000) > 1.0, 1.0, -1.0)
        monkeypatch.setattr(module._Problem, "newton_visits", lambda problem: 4000)  # at once
        solved, lapack = [], module._newton_direction
        monkeypatch.setattr(module, "_newton_direction", lambda *given: solved.append(1) or lapack(*given))
        quick = solve(X, signs, C=1.0, squared=squared, tol=1e-8)
        few = len(solved)
        monkeypatch.setattr(module, "FEWEST_PRODUCTS", np.inf)
        exact = solve(X, signs, C=1.0, squared=squared, tol=1e-8)
        assert quick.status == exact.status == "converged"
        assert few < 0.5 * (len(solved) - few)
        assert_allclose(quick.objective, exact.objective, rtol=1e-7)

    @pytest.mark.parametrize("squared", [False, True])
    @pytest.mark.parametrize("tol", [1e-3, 1e-9])
    def test_few_wide_rows_are_brought_into_their_span_only_if_descent_does_not_do(self, squared, tol, monkeypatch):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 1500))
        signs = np.where(X[:, 0] + rng.normal(size=60) > 0.5, 1.0, -1.0)
        asked, in_span = [], module.in_span
        monkeypatch.setattr(module, "in_span", lambda X: asked.append(1) or in_span(X))
        monkeypatch.setattr(module, "SPAN_VISITS", 4 if tol > 1e-6 else 10**6)
        found, by_descent = (solve(X, signs, C=0.01, squared=squared, tol=tol, newton=n) for n in (True, False))
        assert len(asked) == (tol < 1e-6)
        assert (found.status, len(found.w), found.state["w"].shape) == ("converged", 1500, (1501,))
        assert_allclose(found.objective, by_descent.objective, atol=tol * 60 * 0.01)
        assert np.all(np.diff(found.history["updates"]) > 0)
        again = solve(X, signs, C=0.01, squared=squared, tol=tol, **found.state)
        assert again.n_iter <= 1 and again.status == "converged"

    @pytest.mark.parametrize("C", [1.0, 10.0])
    @pytest.mark.parametrize("squared", [False, True])
    def test_ends_where_descent_does_after_fewer_visits(self, cancer, squared, C):
        X, signs = cancer[0], 2.0 * cancer[1] - 1
        with_newton, without = (
            solve(X, signs, C=C, squared=squared, tol=1e-10, max_iter=10**6, newton=newton) for newton in (True, False)
        )
        assert with_newton.status == without.status == "converged"
        assert_allclose(with_newton.objective, without.objective, rtol=1e-7)
        assert_allclose(with_newton.w, without.w, atol=2e-4)
        assert with_newton.history["updates"][-1] < without.history["updates"][-1]

    @pytest.mark.parametrize("C", [10.0, 1e3, 1e5])
    @pytest.mark.parametrize("digit", [6, 8, 9])
    def test_takes_as_many_steps_as_a_band_needs(self, digit, C):
        """In a narrower one the gap is millions of times as large at first: no reason to give up."""
        X, y = load_digits(return_X_y=True)
        X, y = StandardScaler().fit_transform(X), (y == digit).astype(int)
        svm = LinearSVM(C, tol=1e-8, random_state=0).fit(X, y)
        assert svm.status_ == "converged" and svm.n_iter_ < 400

    def test_systems_that_bring_the_certificate_no_nearer_are_given_up(self, monkeypatch):
        """Columns 14 orders of magnitude apart: each step promised more than there was, for minutes.

        Steps that start over from 0 then bring what those from descent's point did not.
        """
        honest, begin, rounds, given_up = module._move, module._take_newton_steps, [], 0

        def told(*given):
            here = honest(*given)
            rounds[-1].append(here.gap)
            return here

        def begun(run):
            rounds.append([])
            begin(run)

        monkeypatch.setattr(module, "_move", told)
        monkeypatch.setattr(module, "_take_newton_steps", begun)
        for seed in (
            5,
            6,
            7,
        ):  # a last digit that another processor rounds differently makes one of them another
            rng = np.random.default_rng(seed)
            X = sparse.random(200, 150, 0.02, random_state=seed) @ sparse.diags(10.0 ** rng.uniform(-7, 7, 150))
            rounds.clear()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                svm = LinearSVM(C=100.0, max_iter=3000, random_state=0).fit(X.tocsr(), rng.random(200) < 0.2)
            for gaps in filter(None, rounds):
                least = np.minimum.accumulate(gaps)
                nearer = np.flatnonzero(gaps[1:] < (1 - module.PROGRESS) * least[:-1]) + 1
                assert max(np.diff([0, *nearer, len(gaps) - 1])) <= module.HOPE, "none of these helped"
            assert sum(map(len, rounds)) < 3000
            given_up += len(rounds[0]) >= module.HOPE
            assert svm.dual_gap_ < 0.01 * svm.objective_
        assert given_up

    @pytest.mark.parametrize("spoilt", ["singular", "no progress"])
    def test_descent_goes_on_where_steps_fail(self, cancer, monkeypatch, spoilt):
        direction = {"singular": None, "no progress": np.zeros(31)}[spoilt]
        monkeypatch.setattr(module, "_newton_direction", lambda problem, here: direction)
        X, signs = cancer[0], 2.0 * cancer[1] - 1
        result = solve(X, signs, C=10.0, tol=1e-8, max_iter=10**6)
        assert result.status == "converged"
        assert_allclose(result.objective, solve(X, signs, C=10.0, tol=1e-8, max_iter=10**6, newton=False).objective)

    def test_the_better_of_the_two_counts(self, cancer):
        """tol = 0 is never met: steps stop at rounding level, and the descent after them ends where they had been."""
        X, signs = cancer[0], 2.0 * cancer[1] - 1
        result = solve(X, signs, C=10.0, tol=0.0, max_iter=3000)
        assert result.n_iter == 3000 and result.status == "max_iter"
        least = result.history["dual_gap"].min()  # without what the rounding of scores may add to the last
        assert least < 1e-13 and least < result.dual_gap < least + 1e-11

    def test_steps_count_as_iterations(self, cancer):
        X, signs = cancer[0], 2.0 * cancer[1] - 1
        full = solve(X, signs, C=10.0, tol=1e-9)
        cut = solve(X, signs, C=10.0, tol=1e-9, max_iter=full.n_iter - 1)
        assert (full.status, cut.status, cut.n_iter) == ("converged", "max_iter", full.n_iter - 1)
        assert cut.history["updates"][-1] == full.history["updates"][-1] - len(signs)  # a step reads every row

    def test_wide_data_are_left_to_descent(self):
        rng = np.random.default_rng(0)
        X = sparse.random_array((300, module.LARGEST_HESSIAN + 1), density=0.02, rng=rng, format="csr")
        signs = rng.choice([-1.0, 1.0], size=300)
        fits = [solve(X, signs, C=10.0, tol=1e-8, max_iter=10**5, newton=newton) for newton in (True, False)]
        assert_array_equal(fits[0].w, fits[1].w)

    def test_renumbered_columns_change_no_bit(self, monkeypatch):
        """Neither of the weights nor of what a fit goes on from."""
        rng = np.random.default_rng(0)
        X = sparse.random_array((200, 50), density=0.2, rng=rng, format="csr")
        signs = np.where(X.sum(axis=1) + 0.5 * rng.normal(size=200) > 5, 1.0, -1.0)
        plain = solve(X, signs, newton=False, max_iter=10**5)
        monkeypatch.setattr(module, "CROWDED_ABOVE", 10)
        crowded = solve(X, signs, newton=False, max_iter=10**5)
        assert_array_equal(crowded.w, plain.w)
        assert_array_equal(crowded.state["w"], plain.state["w"])
        assert solve(X, signs, **crowded.state).n_iter == 0

    def test_state_certifies_what_was_certified(self, cancer):
        """The weights are better than those of the dual variables, so both are needed to go on."""
        X, signs = cancer[0], 2.0 * cancer[1] - 1
        done = solve(X, signs, C=10.0, tol=3e-3)
        just = 1.1 * done.dual_gap / (10.0 * len(signs))
        again = solve(X, signs, C=10.0, tol=just, **done.state)
        assert again.n_iter == 0
        assert_allclose(again.dual_gap, done.dual_gap, rtol=1e-9)
        assert solve(X, signs, C=10.0, tol=just, alpha=done.state["alpha"]).n_iter > 0


class TestLinearTerm:
    """P - w0'w~, as MarginMeanSVM has it."""

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("newton", [True, False])
    @pytest.mark.parametrize("squared", [False, True])
    def test_optimum_is_that_of_a_general_optimiser_on_the_dual(self, cancer, squared, newton, form):
        X, signs = cancer[0][:80, :6], 2.0 * cancer[1][:80] - 1
        w0, Z = np.random.default_rng(0).normal(size=7), np.column_stack([X, np.ones(80)]) * signs[:, None]
        diagonal, upper = (1.0, None) if squared else (0.0, 0.5)  # C = 1/2

        def negative_dual(alpha):
            w = w0 + alpha @ Z
            return 0.5 * w @ w + 0.5 * diagonal * alpha @ alpha - alpha.sum(), Z @ w + diagonal * alpha - 1.0

        options = {"maxiter": 10**5, "maxfun": 10**6, "ftol": 1e-16, "gtol": 1e-11}
        best = minimize(negative_dual, np.zeros(80), jac=True, bounds=[(0.0, upper)] * 80, options=options)
        result = solve(form(X), signs, C=0.5, squared=squared, newton=newton, tol=1e-10, max_iter=10**6, linear_term=w0)
        loss = "squared_hinge" if squared else "hinge"
        value = objective(result.w, result.bias, X, cancer[1][:80], loss, 0.5) - w0 @ np.append(result.w, result.bias)
        assert result.status == "converged"
        assert_allclose([result.objective, value], -best.fun, rtol=1e-6, atol=1e-8)

    @pytest.mark.parametrize("newton", [True, False])
    def test_renumbered_columns_change_nothing_but_rounding(self, cancer, newton, monkeypatch):
        X, signs = sparse.csr_array(cancer[0] * (cancer[0] > 1)), 2.0 * cancer[1] - 1
        options = {"newton": newton, "linear_term": np.random.default_rng(0).normal(size=31), "tol": 1e-9}
        own = solve(X, signs, max_iter=10**5, **options)
        monkeypatch.setattr(module, "CROWDED_ABOVE", 8)
        renumbered = solve(X, signs, max_iter=10**5, **options)
        assert_allclose(renumbered.objective, own.objective, rtol=1e-8)
        assert_allclose(renumbered.w, own.w, atol=1e-3)


class TestState:
    def test_the_seed_decides_every_bit(self, cancer):
        first, second, other = (LinearSVM(random_state=seed).fit(*cancer) for seed in (7, 7, 8))
        assert_array_equal(first.coef_, second.coef_)
        assert not np.array_equal(first.coef_, other.coef_)

    @pytest.mark.parametrize("seed", [3, np.random.RandomState(3), np.random.default_rng(3), None])
    def test_every_kind_of_seed(self, seed):
        assert isinstance(as_generator(seed), np.random.Generator)

    def test_warm_start_goes_on_from_the_dual_point(self, cancer):
        svm = LinearSVM(tol=1e-8, warm_start=True, random_state=0).fit(*cancer)
        best = svm.objective_
        assert svm.fit(*cancer).n_iter_ == 0  # nothing left to do
        svm.set_params(C=0.5).fit(*cancer)  # alpha is clipped to the new, tighter bounds
        assert_allclose(svm.objective_, LinearSVM(0.5, tol=1e-8).fit(*cancer).objective_, rtol=1e-6)
        svm.set_params(C=1.0).fit(cancer[0][:300], cancer[1][:300])  # another number of rows: a cold start
        assert svm.objective_ < best and svm.status_ == "converged"

    def test_a_cold_fit_in_between_is_where_the_next_warm_one_starts(self, cancer):
        X, y = cancer
        svm = LinearSVM(tol=1e-8, warm_start=True, random_state=0).fit(X, y)
        svm.set_params(warm_start=False).fit(X[::-1], y[::-1])
        svm.set_params(warm_start=True).fit(X, y)
        cold = LinearSVM(tol=1e-8, random_state=0).fit(X, y)
        assert svm.n_iter_ == cold.n_iter_ > 0
        assert_array_equal(svm.coef_, cold.coef_)

    def test_a_warm_start_without_intercept_has_none_of_the_last_fit(self):
        """So small a C leaves the weights at rest: nothing but the start would take the intercept away."""
        rng, y = np.random.default_rng(0), np.arange(100) % 2
        X = 1e-3 * rng.normal(size=(100, 2)) + 1e-3 * y[:, None]
        y[[0, 2]] = 1
        svm = LinearSVM(C=1e-6, newton=False, warm_start=True, random_state=0).fit(X, y)
        assert svm.intercept_ != 0.0
        svm.set_params(fit_intercept=False).fit(X, y)
        cold = LinearSVM(C=1e-6, newton=False, fit_intercept=False, random_state=0).fit(X, y)
        assert svm.intercept_ == 0.0
        assert_array_equal(svm.predict(X), cold.predict(X))

    def test_state_of_an_interrupted_run_suffices(self, cancer):
        X, y = cancer[0], 2.0 * cancer[1] - 1
        half = solve(X, y, tol=1e-10, max_iter=20)
        done = solve(X, y, tol=1e-10, max_iter=10**5, seed=1, alpha=half.state["alpha"])
        assert done.history["dual_gap"][0] == pytest.approx(half.dual_gap, rel=1e-9)
        within = 1e-10 * len(y)  # tol P(0), which either may be above the minimum
        assert_allclose(done.objective, solve(X, y, tol=1e-10, max_iter=10**5).objective, atol=within, rtol=0.0)

    def test_clone_pickle_pipeline_and_search(self, cancer):
        X, y = cancer
        pipe = make_pipeline(StandardScaler(), LinearSVM(random_state=0))
        search = GridSearchCV(pipe, {"linearsvm__C": [0.01, 1.0]}, scoring="roc_auc", cv=3).fit(X, y)
        assert search.best_score_ > 0.98
        fitted = search.best_estimator_
        assert_array_equal(pickle.loads(pickle.dumps(fitted)).decision_function(X), fitted.decision_function(X))
        assert not hasattr(clone(fitted)[-1], "coef_")
        assert not fitted[-1]._state  # 8 bytes a row that a stored model does without


def degenerate():
    """Return the data sets that break solvers, by name: X and y of 0/1."""
    rng = np.random.default_rng(0)
    X, half = rng.normal(size=(60, 5)), np.arange(60) % 2
    separated = X + 10.0 * half[:, None]
    return {
        "one positive": (X, (np.arange(60) == 7).astype(int)),
        "all scores tied": (np.ones((60, 5)), half),
        "separated": (separated, half),
        "constant feature": (np.column_stack([X, np.full(60, 3.0)]), half),
        "duplicate rows": (np.repeat(X[:6], 10, axis=0), half),
        "ratio 1000": (rng.normal(size=(2002, 3)), (np.arange(2002) < 2).astype(int)),
        "one feature": (X[:, :1], half),
        "more features than rows": (rng.normal(size=(12, 80)), half[:12]),
        "zero matrix": (np.zeros((60, 5)), half),
        "tiny scale": (1e-9 * X, half),
        "odd scales": (X * 10.0 ** np.arange(-3, 2), half),
    }


DEGENERATE = degenerate()


class TestDegenerateData:
    @pytest.mark.parametrize("loss", LOSSES)
    def test_all_zero_rows_reach_their_optimum(self, loss):
        """Without an intercept w = 0 and P = C n: every alpha_i goes to U_i = 1, or to 1 / (2 D_ii) = 2 C."""
        svm = LinearSVM(loss=loss, fit_intercept=False, tol=1e-12).fit(np.zeros((6, 2)), [0, 0, 0, 1, 1, 1])
        assert_array_equal(svm.coef_, [[0.0, 0.0]])
        assert (svm.objective_, svm.dual_gap_, svm.status_) == (6.0, 0.0, "converged")

    @pytest.mark.parametrize("newton", [True, False])
    @pytest.mark.parametrize("loss", LOSSES)
    @pytest.mark.parametrize("case", sorted(DEGENERATE))
    def test_certified_and_level_with_liblinear(self, case, loss, newton):
        X, y = DEGENERATE[case]
        ours = LinearSVM(loss=loss, newton=newton, tol=1e-8, max_iter=10**5, random_state=0).fit(X, y)
        theirs = LinearSVC(loss=loss, dual=True, tol=1e-8, max_iter=10**6, random_state=0).fit(X, y)
        assert ours.status_ == "converged"
        value = objective(theirs.coef_[0], theirs.intercept_[0], X, y, loss)
        assert_allclose(ours.objective_, value, rtol=1e-6)
        assert_allclose(ours.objective_, objective(ours.coef_[0], ours.intercept_[0], X, y, loss), rtol=1e-10)

    @pytest.mark.parametrize("loss", LOSSES)
    def test_huge_scale_is_solved_where_descent_alone_stalls(self, loss):
        """LIBLINEAR is 10^4 times above the optimum after 10^5 passes, and warns."""
        X, y = DEGENERATE["separated"]
        svm = LinearSVM(loss=loss, tol=1e-8, random_state=0).fit(1e4 * X, y)
        assert (svm.status_, svm.score(1e4 * X, y)) == ("converged", 1.0)
        assert_allclose(svm.objective_, objective(svm.coef_[0], svm.intercept_[0], 1e4 * X, y, loss), rtol=1e-9)

    @pytest.mark.parametrize("scale", [1e-8, 1e2])
    def test_contradicting_duplicates_and_odd_scales(self, scale):
        X = scale * np.array([[1.0, 0.0]] * 5 + [[0.0, 1.0]] * 5)
        svm = LinearSVM(C=0.1, tol=1e-6).fit(X, [0, 1, 1, 1, 1, 0, 0, 0, 0, 1])
        assert np.isfinite(svm.coef_).all() and svm.status_ == "converged"

    def test_one_positive_row_and_more_features_than_rows(self):
        X = np.random.default_rng(0).normal(size=(8, 50))
        svm = LinearSVM(C=100.0, tol=1e-6).fit(X, [1] + [0] * 7)
        assert svm.score(X, [1] + [0] * 7) == 1.0

    def test_overflowing_rows_are_refused(self):
        with pytest.raises(ValueError, match="scale the features"):
            LinearSVM().fit([[1e200], [-1e200]], [0, 1])

    @pytest.mark.parametrize(
        "bad",
        [
            {"C": 0},
            {"C": np.inf},
            {"C": "1"},
            {"loss": "log"},
            {"tol": -1},
            {"tol": np.nan},
            {"max_iter": 0},
            {"newton": "no"},
        ],
    )
    def test_bad_parameters(self, bad):
        (name,) = bad
        with pytest.raises(ValueError, match=f"Expected .*{name}.*got"):
            LinearSVM(**bad).fit([[0.0], [1.0]], [0, 1])


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_few_numbers_are_solved_to_rounding_and_more_to_tol(loss):
    """At the default tol a weight of two then is a row twice over, whatever order they are visited in."""
    rng = np.random.default_rng(0)
    for rows in (40, 400):
        X = rng.normal(size=(rows, 10))
        y, weights = X[:, 0] + rng.normal(size=rows) > 0, rng.integers(1, 4, size=rows)
        weighted = LinearSVM(loss=loss, random_state=0).fit(X, y, sample_weight=weights)
        repeated = LinearSVM(loss=loss, random_state=1).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
        difference = np.abs(weighted.decision_function(X) - repeated.decision_function(X)).max()
        assert weighted.status_ == repeated.status_ == "converged"
        assert difference < (1e-7 if rows == 40 else 1e-1)
        assert weighted.dual_gap_ < (1e-14 if rows == 40 else 1e-4) * weighted.objective_


@pytest.mark.parametrize("seed", range(8))
def test_steps_that_only_move_last_digits_come_to_an_end(seed):
    """Indicators over their deviations: here rounding makes the gap smaller by a digit or none, step after step."""
    rng = np.random.default_rng(seed)
    X = (rng.random((20, 100)) < 0.2).astype(float)
    X /= np.maximum(X.std(axis=0), 0.01)
    svm = LinearSVM(class_weight="balanced", random_state=seed).fit(X, np.arange(20) % 4 == 0)
    assert svm.n_iter_ < 100
    assert svm.dual_gap_ < 1e-12 * svm.objective_


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(12))
def test_huge_features_on_a_line_are_solved_as_one_column_is(seed, loss):
    """One amount in two currencies: rounding left of the Hessian's small eigenvalue no more than its sign."""
    rng = np.random.default_rng(seed)
    amounts, rates = 1e6 * rng.normal(size=(20, 1)), rng.normal(size=(1, 2))
    y = np.arange(20) < 1 + seed % 3
    two, one = (LinearSVM(1e3, loss=loss, random_state=0) for _ in range(2))
    two.fit(amounts * rates, y), one.fit(amounts * np.linalg.norm(rates), y)
    assert two.status_ == one.status_ == "converged"
    assert two.objective_ == pytest.approx(one.objective_, rel=1e-6)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_huge_features_that_outnumber_the_rows_are_left_to_descent(form):
    """The Hessian is singular up to rounding whatever its ridge: hundreds of steps by it led nowhere."""
    rng = np.random.default_rng(1)
    y = np.arange(80) < 20
    X = 1e5 * (rng.normal(size=(80, 200)) + 0.3 * y[:, None])
    svm = LinearSVM(1e4, loss="squared_hinge", random_state=0).fit(form(X), y)
    assert svm.status_ == "converged" and svm.n_iter_ < 100


def test_starting_over_leaves_half_of_the_passes_to_descent(monkeypatch):
    honest, allowed = module._polish, []

    def told(run):
        allowed.append((run.passes, run.max_iter))
        return honest(run)

    monkeypatch.setattr(module, "_polish", told)
    rng = np.random.default_rng(4)
    X = rng.normal(size=(120, 6))
    y = np.where(X[:, 0] + rng.normal(size=120) > 1, 1.0, -1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        LinearSVM(100.0, max_iter=1000, random_state=4).fit(X + 3e7, y)
    (_, first), (passes, second) = allowed
    assert first == 1000 and second == 1000 - (1000 - passes) // 2


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("offset", "C"), [(1e7, 10.0), (1e7, 100.0), (1e7, 1000.0), (1e6, 1e4)])
def test_features_far_from_0_are_solved_whatever_the_order_of_visits(offset, C, seed):
    """Descent among them left weights whose Hessian is singular: of some orders a model came of no use at all."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(120, 6))
    y = np.where(X[:, 0] + rng.normal(size=120) > 1, 1.0, -1.0)
    svm = LinearSVM(C, random_state=seed).fit(X + offset, y)
    assert svm.status_ == "converged"
    # the weights add up to about 0, for each row has their sum that many times, and that makes b free
    plane = np.column_stack([X - X.mean(axis=1, keepdims=True), np.full(120, 1e4)])
    near = LinearSVM(C, fit_intercept=False, tol=1e-9, random_state=0).fit(plane, y)
    assert svm.objective_ == pytest.approx(near.objective_, rel=1e-3)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("kind", ["offset", "low rank"])
def test_few_rows_of_many_features_are_solved_in_their_span(kind, fit_intercept, loss):
    """Descent alone had 12 s of passes and P = 38 where 0.006 can be had: no Hessian is made of so many features."""
    rng = np.random.default_rng(3)
    y = np.where(rng.random(100) < 0.2, 1.0, -1.0)
    X = rng.normal(size=(100, 3000)) + 1e4 * rng.random(3000)
    if kind == "low rank":
        X = rng.normal(size=(100, 5)) @ rng.normal(size=(5, 3000)) + 0.01 * rng.normal(size=(100, 3000))
    options = {"loss": loss, "fit_intercept": fit_intercept}
    svm = LinearSVM(warm_start=True, random_state=0, **options).fit(X, y)
    assert svm.status_ == "converged"
    slack = np.maximum(0.0, 1.0 - y * svm.decision_function(X))
    w = np.append(svm.coef_, svm.intercept_)
    P = 0.5 * w @ w + np.sum(slack if loss == "hinge" else slack**2)
    assert svm.objective_ == pytest.approx(P, rel=1e-6)
    other = KernelSVM(kernel="linear", max_iter=200_000, **options).fit(X, y)
    assert svm.objective_ - svm.dual_gap_ <= other.objective_ * (1.0 + 1e-9)
    assert svm.fit(X, y).n_iter_ == 0
    margin_mean = MarginMeanSVM(fit_intercept=fit_intercept).fit(X, y)
    assert margin_mean.status_ == "converged"


def test_few_wide_rows_of_few_values_that_descent_has_solved_are_left_at_that(monkeypatch):
    """Newton's systems of so many features would cost more than all of the rest."""
    rng = np.random.default_rng(0)
    X = np.zeros((50, 6000))
    for row in X:
        row[rng.choice(6000, 20, replace=False)] = rng.normal(size=20)
    monkeypatch.setattr(module, "_take_newton_steps", lambda run: pytest.fail(f"steps in {run.problem.X.shape}"))
    assert LinearSVM(random_state=0).fit(X, rng.integers(0, 2, 50)).status_ == "converged"


def test_newtons_steps_go_on_from_afresh_where_what_they_keep_has_drifted():
    """Features of a million times each other's scale take over a thousand steps."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 120)) * 10.0 ** rng.uniform(1, 7, 120)
    y = np.arange(200) < 2
    model = LinearSVM(50.0, loss="squared_hinge", tol=1e-6, random_state=0).fit(X, y)
    assert model.status_ == "converged"


@pytest.mark.parametrize("loss", LOSSES)
def test_collinear_features_of_real_data_are_solved_with_a_hessian_of_two_thousand(mirror, loss):
    """Splice, features and their products: descent alone was 7 to 18 % above the optimum after 10,000 passes."""
    X, y = load_svmlight_file(str(mirror / "libsvm" / "splice.all"))
    X = PolynomialFeatures(2, include_bias=False).fit_transform(X.toarray()[:2500])
    svm = LinearSVM(loss=loss, random_state=0).fit(X, y[:2500])
    assert X.shape == (2500, 1890) and svm.status_ == "converged"


@pytest.mark.parametrize("cost", [1e9, 1e11, 1e13])
def test_the_gap_allows_for_the_rounding_of_scores(cost):
    """With C = 1e13 the gap was 0.0, "converged", and P 1.8 % above its minimum: at the kink, rounding is a loss."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 30)), np.where(rng.random(200) < 0.1, 1, -1)
    X[:, 0] += 4 * y
    model = LinearSVM(cost, random_state=0).fit(X, y)

    def exact(scaled):
        w, bias = (np.longdouble(part) * scaled for part in (model.coef_[0], model.intercept_[0]))
        loss = np.maximum(0, 1 - y * (X.astype(np.longdouble) @ w + bias)).sum()
        return float((w @ w + bias * bias) / 2 + np.longdouble(cost) * loss)

    assert model.dual_gap_ >= exact(1.0) - exact(np.longdouble(1) + np.longdouble(1e-13))
    assert abs(exact(1.0) - model.objective_) <= model.dual_gap_ <= 1e-4 * model.objective_
    assert model.status_ == "converged"


@pytest.mark.parametrize(("n", "tol"), [(600, 1e-6), (20_000, 8e-7)])
def test_newton_goes_on_until_what_rounding_adds_is_within_tol_too(n, tol):
    """It ended where the gap alone was, and what came after made 10,000 passes without a better one."""
    rng = np.random.default_rng(0)
    y = rng.random(n) < 0.2
    dates = 10**9.5 * (1.0 + 0.01 * rng.standard_normal(n))
    X = np.c_[dates, rng.standard_normal((n, 8)) + 0.5 * y[:, None]]
    svm = LinearSVM(tol=tol, random_state=0).fit(X, y)
    assert svm.status_ == "converged" and svm.n_iter_ < 200 and svm.dual_gap_ <= tol * svm.objective_


def test_the_rounding_that_is_allowed_for_is_none_where_no_row_has_a_loss():
    X, y = np.array([[3.0, 4.0], [0.0, 2.0]]), np.array([1.0, -1.0])
    problem, w = module._pose(X, y, np.array([5.0, 7.0]), False, False), np.array([0.6, 0.8, 0.0])
    assert problem.rounding_of_losses(np.array([2.0, 1e9]), w) == 0.0
    assert problem.rounding_of_losses(np.array([1.0 + 1e-13, 2.0]), w) == 0.0  # scores of 1 are rounded by 1e-15
    # C ||x|| ||w|| eps of the one row that has a loss: 5 * 5 * 1
    told = problem.rounding_of_losses(np.array([-2.0, 3.0]), w)
    assert told == pytest.approx(25.0 * np.finfo(float).eps, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("newton", [True, False])
@pytest.mark.parametrize("C", [1e8, 1e10])
@pytest.mark.parametrize("d", [4, 3000])
def test_a_hard_margin_is_certified(d, C, newton):
    """Rows at the kink: what rounding may leave of their loss, times C, was more than the gap that was asked for."""
    rng = np.random.default_rng(0)
    y = np.where(np.arange(20) < 4, 1.0, -1.0)
    X = rng.normal(size=(20, d)) + (4.0 * y[:, None] if d == 4 else 0.0)
    svm = LinearSVM(C, newton=newton, random_state=0).fit(X, y)
    assert svm.status_ == "converged" and svm.dual_gap_ <= 1e-4 * svm.objective_
    w, b = svm.coef_.ravel().astype(np.longdouble), np.longdouble(svm.intercept_[0])
    losses = np.maximum(0.0, 1.0 - y * (X.astype(np.longdouble) @ w + b))
    assert abs(float(0.5 * (w @ w + b * b) + C * losses.sum()) - svm.objective_) <= svm.dual_gap_
    softer = LinearSVM(1e4, tol=1e-10, random_state=0).fit(X, y)  # hard enough to be the same
    assert svm.objective_ == pytest.approx(softer.objective_, rel=2e-4)


@pytest.mark.parametrize("d", [3, 12])
def test_a_warm_start_with_other_features_leaves_the_weights_of_the_last(d):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 12))
    y = X[:, 0] + rng.normal(size=100) > 0
    svm = LinearSVM(tol=1e-9, warm_start=True, random_state=0).fit(X[:, : 15 - d], y).fit(X[:, :d], y)
    cold = LinearSVM(tol=1e-9, random_state=0).fit(X[:, :d], y)
    assert svm.status_ == "converged"
    assert_allclose(svm.objective_, cold.objective_, rtol=1e-8)


@pytest.mark.parametrize(("loss", "intercept"), [("hinge", True), ("hinge", False), ("squared_hinge", True)])
def test_where_nothing_is_better_than_a_constant_that_is_said(loss, intercept):
    """Of a rare class the hinge loss is cheapest paid: what five seeds left of w = 0 had AUCs from 0.19 to 0.88."""
    rng = np.random.default_rng(0)
    y = np.arange(400) % 20 == 0
    X = rng.normal(size=(400, 3)) + 0.5 * y[:, None] if loss == "hinge" and intercept else np.zeros((400, 3))
    with pytest.warns(UserWarning, match="found nothing better than w = 0"):
        svm = LinearSVM(0.01, loss=loss, fit_intercept=intercept, random_state=0).fit(X, y)
    assert svm.status_ == "converged" and svm.found_nothing_ and np.ptp(svm.decision_function(X)) < 1e-3
    with pytest.warns(UserWarning, match="KernelSVM found nothing better than w = 0"):
        KernelSVM(0.01, kernel="linear", loss=loss, fit_intercept=intercept).fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        svm.set_params(class_weight="balanced").fit(rng.normal(size=(400, 3)) + y[:, None], y)
    assert not svm.found_nothing_


class TestFreeBias:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize(
        ("shape", "cost"), [((300, 5), 0.01), ((300, 5), 1.0), ((60, 200), 1e-3), ((60, 200), 0.01), ((60, 200), 1e6)]
    )
    def test_the_optimum_is_libsvms_whose_bias_is_in_no_norm(self, form, shape, cost):
        rng = np.random.default_rng(0)
        y = np.where(rng.random(shape[0]) < 0.2, 1.0, -1.0)
        X = rng.normal(size=shape) + 0.5 * y[:, None] + 3.0
        weights = rng.uniform(0.5, 2.0, size=len(y))
        machine = SVC(kernel="linear", C=cost, tol=1e-10).fit(X, y, sample_weight=weights)
        foreign = np.sum(np.abs(machine.dual_coef_)) - 0.5 * np.sum(machine.coef_**2)
        found = []
        for alpha, w, bias in self.points(form(np.c_[X, np.ones(len(y))]), y, cost * weights):
            assert alpha.min() >= 0.0 and np.all(alpha <= cost * weights)
            assert_allclose(w[:-1], (alpha * y) @ X, rtol=1e-9, atol=1e-9 * np.abs(w).max())
            found.append((float(alpha.sum() - 0.5 * w[:-1] @ w[:-1]), float(alpha @ y / alpha.sum()), bias))
        dual, unbalanced, bias = found[-1]
        assert dual == pytest.approx(foreign, rel=1e-6)
        assert abs(unbalanced) < 1e-7
        assert bias == pytest.approx(machine.intercept_[0], abs=1e-4 * np.abs(X @ machine.coef_[0]).max())

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_rows_without_a_bias_and_a_linear_term_are_as_a_general_optimiser_has_them(self, form):
        rng = np.random.default_rng(1)
        n, d = 40, 12
        X, y, cost = rng.normal(size=(n, d)), np.where(rng.random(n) < 0.4, 1.0, -1.0), rng.uniform(0.1, 1.0, size=n)
        biased, w0 = np.arange(n) < 28, 0.3 * rng.normal(size=d)
        Z = y[:, None] * X
        found = minimize(
            lambda alpha: (0.5 * np.sum((w0 + alpha @ Z) ** 2) - alpha.sum(), Z @ (w0 + alpha @ Z) - 1.0),
            np.zeros(n),
            jac=True,
            method="trust-constr",
            bounds=Bounds(0.0, cost),
            constraints=LinearConstraint(y * biased, 0.0, 0.0),
            options={"maxiter": 3000, "gtol": 1e-10, "xtol": 1e-14, "barrier_tol": 1e-10},
        )
        start = {"alpha": rng.uniform(size=n) * cost, "w0": np.append(w0, 0.0), "bias": -5.0}
        *_, (alpha, w, _) = self.points(form(np.c_[X, biased]), y, cost, **start)
        assert_allclose(w[:-1], w0 + (alpha * y) @ X, rtol=1e-9, atol=1e-12)
        assert 0.5 * np.sum(w[:-1] ** 2) - alpha.sum() == pytest.approx(found.fun, rel=1e-6)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    @pytest.mark.parametrize("unit", [1e-20, 1e-9, 1e9])
    def test_the_biass_feature_is_in_the_units_of_the_others(self, form, unit):
        """From a difference of squares it was 1 beside features of 1e-9, and fits took 16 times as long."""
        rng = np.random.default_rng(0)
        X, y, biased = rng.normal(size=(30, 8)), np.where(np.arange(30) < 10, 1.0, -1.0), np.arange(30) < 25
        rows = [form(np.c_[scale * X, biased]) for scale in (1.0, unit)]
        first, other = (module._set_bias_feature(one, 8, y) for one in rows)
        assert other == pytest.approx(unit * first, rel=1e-12, abs=0.0)
        column = rows[1].toarray()[:, 8] if sparse.issparse(rows[1]) else rows[1][:, 8]
        assert_array_equal(column, np.where(biased, other, 0.0))

    @staticmethod
    def points(X, y, cost, **start):
        """Yield the points of at most a million visits, from alpha = 0 by default; the last column is the bias's."""
        given = {"alpha": np.zeros(len(y)), "w0": np.zeros(X.shape[1]), "bias": 0.0} | start
        left = 10**6
        for visits, found in descend_with_free_bias(X, X.shape[1] - 1, y, cost, np.random.default_rng(0), **given):
            left -= visits
            if found is not None:
                yield found
            if left < 0:
                return

    def test_a_system_for_the_free_rows_takes_the_dual_up_and_keeps_the_bounds(self):
        for seed in range(40):
            rng = np.random.default_rng(seed)
            X, y = rng.normal(size=(30, 12)), np.where(rng.random(30) < 0.4, 1.0, -1.0)
            upper = rng.uniform(0.1, 1.0, size=30) * 10.0 ** rng.integers(-2, 3)
            alpha = rng.uniform(0.01, 0.99, size=30) * upper
            w = np.append((alpha * y) @ X, 0.0)
            constants = np.column_stack([y, upper, np.zeros(30), 1.0 / np.sum(X * X, axis=1)])
            before, free = alpha.copy(), np.flatnonzero(rng.random(30) < 0.7).astype(np.uint32)
            dual = alpha.sum() - 0.5 * w @ w
            module._solve_free(X, constants, alpha, w, free, 30)
            assert np.all((alpha >= 0.0) & (alpha <= upper))
            assert np.array_equal(np.delete(alpha, free), np.delete(before, free))
            assert_allclose(w, np.append((alpha * y) @ X, 0.0), rtol=1e-10, atol=1e-10)
            assert alpha.sum() - 0.5 * w @ w > dual

    def test_without_bounds_in_the_way_the_system_is_solved(self):
        rng = np.random.default_rng(3)
        X, y, free = rng.normal(size=(20, 400)), np.where(np.arange(20) < 8, 1.0, -1.0), np.arange(20, dtype=np.uint32)
        alpha, Z = np.full(20, 1.0), y[:, None] * X
        constants = np.column_stack([y, np.full(20, 1e9), np.zeros(20), 1.0 / np.sum(Z * Z, axis=1)])
        w = np.append(alpha @ Z, 0.0)
        for _ in range(12):  # each takes off nine tenths of what is left
            _, too_few = module._solve_free(X, constants, alpha, w, free, 30)
            assert not too_few
        exact = np.linalg.solve(Z @ Z.T, np.ones(20))
        assert exact.min() > 0.0
        assert_allclose(alpha, exact, rtol=1e-8)
