"""Descent by rows, beside SVMOR's Newton steps: sums of slopes, outliers and their pairs, optima, when it gives up."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy import sparse
from scipy.optimize import linprog
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from aucsolvers import _by_rows as module
from aucsolvers import ordinal
from aucsolvers.ordinal import SVMOR


def words(n=1200, d=4000, n_pos=100, seed=0, scaled=True):
    """Documents by Zipf's law, of unit variance if ``scaled``: most of Newton's steps are then short."""
    rng = np.random.default_rng(seed)
    p = 1.0 / np.arange(3, d + 3)
    words = rng.choice(d, size=30 * n, p=p / p.sum())
    X = sparse.csr_array((np.ones(30 * n), words, np.arange(0, 30 * n + 1, 30)), shape=(n, d))
    X.sum_duplicates()
    y = np.where(rng.permutation(n) < n_pos, 1.0, -1.0)
    return (StandardScaler(with_mean=False).fit_transform(X) if scaled else X), y


def with_twins(n_twins=3, **given):
    """The same, and rows of either class that are like some of the other: no weights tell these apart."""
    X, y = words(**given)
    rng = np.random.default_rng(1)
    twins = np.concatenate([rng.choice(np.flatnonzero(y == label), n_twins, replace=False) for label in (1.0, -1.0)])
    return sparse.csr_array(sparse.vstack([X, X[twins]])), np.append(y, -y[twins])


@pytest.mark.parametrize("d", [7, 4000])
def test_a_bias_is_appended_as_scipy_would(d):
    rng = np.random.default_rng(d)
    few, many = (sparse.random_array((n, d), density=0.01, format="csr", rng=rng) for n in (5, 60))
    rows = module._with_bias(few, many)
    stacked = sparse.hstack([sparse.vstack([few, many]), np.ones((65, 1))], format="csr")
    assert rows.shape == (65, d + 1) and rows.has_canonical_format
    assert (rows.data.dtype, rows.indices.dtype) == (np.float64, few.indices.dtype)
    for own, theirs in zip(*((X.data, X.indices, X.indptr) for X in (rows, stacked)), strict=True):
        assert np.array_equal(own, theirs)


def pair_differences(X, y):
    X = X.toarray() if sparse.issparse(X) else X
    return (X[y > 0][:, None, :] - X[y < 0][None, :, :]).reshape(-1, X.shape[1])


def enumerated_objective(w, X, y, lam):
    scores = X @ w
    u = 1.0 - (scores[y > 0][:, None] - scores[y < 0])
    return lam / 2 * w @ w + np.maximum(0.0, u).mean()


@pytest.fixture
def descents(monkeypatch):
    """The descents of the fits of a test."""
    made, real = [], module.DescentByRows.__init__

    def init(self, *given):
        made.append(self)
        real(self, *given)

    monkeypatch.setattr(module.DescentByRows, "__init__", init)
    return made


@pytest.fixture
def newton_alone(monkeypatch):
    def fit(model, X, y):
        with monkeypatch.context() as patch:
            patch.setattr(module.DescentByRows, "_make", lambda *_: None)
            return model.fit(X, y)

    return fit


@given(st.integers(0, 10**6))
@example(77356)
@settings(max_examples=150, deadline=None)
def test_sums_are_those_of_slopes_where_a_linear_programme_finds_slopes(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 6, size=2)
    of_few, of_many = rng.random(n) ** rng.integers(1, 4) * m, rng.random(m) ** rng.integers(1, 4) * n
    if rng.random() < 0.5:  # whole numbers and ties: sums that just exist
        of_few, of_many = np.round(of_few), np.round(of_many)
    total = min(of_few.sum(), of_many.sum())
    if total == 0.0:
        return
    of_few, of_many = of_few * (total / of_few.sum()), of_many * (total / of_many.sum())
    rows, columns = np.kron(np.eye(n), np.ones(m)), np.kron(np.ones(n), np.eye(m))
    # the smallest upper bound that slopes with these sums need: 1 will do, or not. The last sum follows from the rest:
    # asked for as well, a total that is rounded otherwise may leave no slopes at all.
    found = linprog(
        np.r_[np.zeros(n * m), 1.0],
        A_ub=np.c_[np.eye(n * m), -np.ones(n * m)],
        b_ub=np.zeros(n * m),
        A_eq=np.c_[np.r_[rows, columns], np.zeros(n + m)][:-1],
        b_eq=np.r_[of_few, of_many][:-1],
    )
    assert found.status == 0
    if abs(found.fun - 1.0) > 1e-7:
        assert module.are_sums_of_slopes(of_few, of_many) == (found.fun < 1.0)
    elif np.array_equal(of_few, np.round(of_few)) and np.array_equal(of_many, np.round(of_many)):
        assert module.are_sums_of_slopes(of_few, of_many)


@given(st.integers(0, 10**6))
@settings(max_examples=100, deadline=None)
def test_without_the_overloaded_rows_there_are_slopes_and_no_more_go_than_may(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(2, 40, size=2)
    sums = [rng.random(size) ** rng.choice([1, 4, 12]) * other for size, other in ((n, m), (m, n))]
    of_few, of_many = (own * (min(map(np.sum, sums)) / own.sum()) for own in sums)
    most_few, most_many = rng.integers(0, 12, size=2)
    found = module._overloaded(of_few, of_many, most_few, most_many)
    if module.are_sums_of_slopes(of_few, of_many):
        assert not found.any()
    elif found is not None:
        few, many = np.split(found, [n])
        assert found.sum() > 0 and few.sum() <= most_few and many.sum() <= most_many
        rest = [np.where(gone, 0.0, own) for gone, own in ((few, of_few), (many, of_many))]
        # each row that goes takes its part of the other class's sums along
        total = rest[0].sum() * rest[1].sum() / of_few.sum()
        assert module.are_sums_of_slopes(*(own * (total / own.sum()) for own in rest))
    assert module._overloaded(of_few, of_many, 0, 0) is None or not found.any()


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_pairs_of_outliers_are_all_that_have_one(seed):
    rng = np.random.default_rng(seed)
    n, m = rng.integers(1, 8, size=2)
    outliers, (s_few, s_many) = (
        rng.random(n + m) < 0.3,
        (rng.choice([0.0, 0.995, 1.5, 3.0], size=size) for size in (n, m)),
    )
    pairs = module._Pairs.of(outliers, s_few, s_many)
    slopes, near = np.zeros((n, m)), set()
    for i in range(n):
        for j in range(m):
            if outliers[i] or outliers[n + j]:
                u = 1.0 - s_few[i] + s_many[j]
                slopes[i, j] = u > 0.0
                near |= {(i, j)} if abs(u) <= module.NEAR else set()
    assert len(pairs.few) == n * m - (~outliers[:n]).sum() * (~outliers[n:]).sum()
    assert {(pairs.few[place], pairs.many[place]) for place in pairs.near} == near
    assert all(np.array_equal(own, slopes.sum(axis=axis)) for own, axis in zip(pairs.sums(n, m), (1, 0), strict=True))
    for i, j in near:
        slopes[i, j] = 0.0
    assert all(
        np.array_equal(own, slopes.sum(axis=axis)) for own, axis in zip(pairs.beyond().sums(n, m), (1, 0), strict=True)
    )


def test_pairs_near_the_kink_stay_so_and_keep_their_slopes():
    s_few, s_many = np.array([0.0, 1.0, 2.0]), np.array([0.0, 0.0, 1.5])
    first = module._Pairs.of(np.array([0, 1, 0, 0, 0, 0], dtype=bool), s_few, s_many)  # of the few's second
    assert [tuple(pair) for pair in zip(first.few, first.many, strict=True)] == [(1, 0), (1, 1), (1, 2)]
    assert first.near.tolist() == [0, 1] and first.slopes[2] == 1.0
    first.slopes[first.near] = 0.25, 0.75
    # once it scores 3 the third has come to the other side, though it is not near
    crossed = first.sorted_anew(np.array([0.0, 3.0, 2.0]), s_many)
    assert crossed.near.tolist() == [0, 1, 2] and first.sorted_anew(s_few, s_many) is first
    more = crossed.among(module._Pairs.of(np.array([1, 1, 0, 0, 0, 0], dtype=bool), np.array([0.0, 3.0, 2.0]), s_many))
    known = {(few, many): slope for few, many, slope in zip(more.few, more.many, more.slopes, strict=True)}
    assert len(known) == 6 and known[1, 0] == 0.25 and known[1, 1] == 0.75 and known[1, 2] == 1.0
    assert {(more.few[place], more.many[place]) for place in more.near} == {(1, 0), (1, 1), (1, 2)}


def test_its_certificate_is_that_of_slopes_with_these_sums():
    """P and D of the point, both summed over pairs with slopes as a product of the sums."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 200)), np.where(rng.random(60) < 0.3, 1.0, -1.0)
    lam, (n, m) = 1e-4, ((y > 0).sum(), (y < 0).sum())
    problem = ordinal._pose(X, y, lam, "hinge")
    w = 3.0 * SVMOR(1e-2, tol=1e-2).fit(X, y).coef_.ravel()
    of_few, of_many = rng.random(n), rng.random(m)
    of_many *= of_few.sum() / of_many.sum()
    core = np.ones(n + m, dtype=bool)
    core[[0, n]] = False  # one outlier of either class: of their pairs no margin is asked for
    for is_core in (np.ones(n + m, dtype=bool), core):
        point = problem.look_apart(w, *problem.scores(w), of_few, of_many, is_core)
        Z = pair_differences(X, y)
        slopes = np.outer(of_few, of_many).ravel() / of_few.sum()
        margins = (Z @ point.w).reshape(n, m)[is_core[:n]][:, is_core[n:]]
        assert slopes.max() < 1.0 and margins.min() == pytest.approx(1.0, rel=1e-12)
        v = slopes @ Z / len(Z)
        theta = min(1.0, slopes.mean() / (v @ v / lam))  # the best multiple of them
        D = theta * slopes.mean() - theta**2 * (v @ v) / (2 * lam)
        assert point.lower_bound == pytest.approx(D, rel=1e-9)
        assert point.objective == pytest.approx(enumerated_objective(point.w, X, y, lam), rel=1e-9)
    # does not tell the classes apart
    assert problem.look_apart(-w, *problem.scores(-w), of_few, of_many, np.ones(n + m, dtype=bool)) is None


@pytest.mark.parametrize("n_pos", [3, 100, 700])  # the negative class may be the smaller one
@pytest.mark.parametrize("lam", [1e-2, 1e-6])
def test_the_optimum_is_newtons(n_pos, lam, descents, newton_alone):
    X, y = words(n_pos=n_pos)
    model = SVMOR(lam, tol=1e-8).fit(X, y)
    assert model.status_ == "converged" and 0 < model.n_iter_ <= 12 and descents[0].has_led
    assert np.all(np.diff(model.history_["dual_gap"]) <= 0)
    by_pairs = newton_alone(SVMOR(lam, max_iter=60, tol=1e-3), X, y)
    assert by_pairs.status_ == "converged"
    assert by_pairs.objective_ - by_pairs.dual_gap_ <= model.objective_ <= by_pairs.objective_ + model.dual_gap_
    assert model.objective_ - model.dual_gap_ <= by_pairs.objective_


@pytest.mark.parametrize(("n_pos", "lam"), [(100, 1e-2), (100, 1e-5), (700, 1e-2)])
def test_and_so_it_is_where_no_weights_tell_some_rows_apart(n_pos, lam, descents, newton_alone):
    """Three rows of either class are like one of the other: so those pairs have slopes of 1, and others may."""
    X, y = with_twins(n_pos=n_pos)
    model = SVMOR(lam, tol=1e-7).fit(X, y)
    assert model.status_ == "converged" and model.n_iter_ < 40
    assert descents[0].has_led and 6 <= descents[0].outliers.sum() < 40
    assert model.objective_ == pytest.approx(enumerated_objective(model.coef_.ravel(), X, y, lam), rel=1e-9)
    by_pairs = newton_alone(SVMOR(lam, tol=1e-4), X, y)
    assert by_pairs.status_ == "converged"
    assert by_pairs.objective_ - by_pairs.dual_gap_ <= model.objective_ <= by_pairs.objective_
    assert model.objective_ - model.dual_gap_ <= by_pairs.objective_


def test_the_sums_of_the_outliers_pairs_are_a_dual_point(descents):
    """D summed anew: slopes of the outliers' pairs, and slopes with the other rows' sums, which a programme finds."""
    X, y = with_twins(n=150, d=3000, n_pos=12, n_twins=1)
    lam = 1e-3
    model = SVMOR(lam, tol=1e-9).fit(X, y)
    descent = descents[0]
    assert model.status_ == "converged" and descent.has_led and descent.outliers.any()
    n, m = descent.sizes
    slopes, is_free = np.zeros((n, m)), np.ones((n, m), dtype=bool)
    slopes[descent.pairs.few, descent.pairs.many] = descent.pairs.slopes
    is_free[descent.pairs.few, descent.pairs.many] = False
    assert slopes.min() >= 0.0 and slopes.max() <= 1.0
    few, many = np.nonzero(is_free)
    of_rows = sparse.csr_array((np.ones(2 * len(few)), (np.r_[few, n + many], np.tile(np.arange(len(few)), 2))))
    sums = np.zeros(n + m)
    sums[: of_rows.shape[0]] = descent.sums[: of_rows.shape[0]]
    found = linprog(np.zeros(len(few)), A_eq=of_rows, b_eq=sums[: of_rows.shape[0]], bounds=(0.0, 1.0 + 1e-9))
    assert found.status == 0
    slopes[few, many] = found.x
    v = slopes.ravel() @ pair_differences(X, y) / slopes.size  # the positive class is the smaller one
    assert slopes.mean() - v @ v / (2 * lam) == pytest.approx(model.objective_, rel=1e-6)


def test_the_widest_margin_is_libsvms():
    X, y = words()
    machine = SVC(kernel="linear", C=1e9, tol=1e-9).fit(X.toarray(), y)
    w = machine.coef_.ravel() / 2
    model = SVMOR(1e-3, tol=1e-9).fit(X, y)
    assert model.objective_ == pytest.approx(0.5e-3 * (w @ w), rel=1e-6)
    assert_allclose(model.coef_.ravel(), w, atol=1e-4 * np.abs(w).max())


def test_storage_type_and_repetition_change_nothing():
    X, y = words()
    first = SVMOR(1e-3).fit(X, y)
    assert np.array_equal(SVMOR(1e-3).fit(X, y).coef_, first.coef_)
    for form in (X.toarray(), X.astype(np.float32), X.toarray() + 5.0):
        other = SVMOR(1e-3).fit(form, y)
        assert other.status_ == "converged" and other.n_iter_ <= 12
        assert other.objective_ == pytest.approx(first.objective_, rel=1e-5)


def test_pairs_decide_where_rows_do_not(descents):
    """Unscaled, with a heavier lam, the slopes of too many pairs are 1 for the two problems to be one."""
    X, y = words(scaled=False)
    model, reference = (SVMOR(3e-2, tol=1e-4, method=method).fit(X, y) for method in ("newton", "cutting_plane"))
    assert model.status_ == reference.status_ == "converged"
    assert not descents[0].has_led
    assert abs(model.objective_ - reference.objective_) <= model.dual_gap_ + reference.dual_gap_
    assert (X @ model.coef_.ravel())[y > 0].min() < (X @ model.coef_.ravel())[y < 0].max() + 1.0 - 1e-3


def test_a_bias_that_is_not_there_yet_is_waited_for():
    """All of one class's dual variables were 0 at the first point: 0/0, and a warning."""
    a = np.full(1500, 1500**-0.5)
    X, y = sparse.csr_array(np.vstack([-a] * 20 + [3 * a])), np.r_[np.ones(20), 0]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = SVMOR(1e-3).fit(X, y)
    assert model.objective_ == pytest.approx(0.5e-3 / 16, rel=1e-6)  # w = -a / 4


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_classes_that_overlap_are_left_to_newton(form, monkeypatch):
    """Descent for rows, where it came first and never met a first point, took 60 times as long as all else."""
    monkeypatch.setattr(module, "descend_with_free_bias", lambda *_, **__: pytest.fail("it is not asked"))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 1100)) + 0.5
    y = np.where((X - 0.5)[:, :5].sum(axis=1) + 4 * rng.standard_normal(3000) > 0, 1, -1)
    assert SVMOR(1e-1).fit(form(X), y).status_ == "converged"


@pytest.mark.parametrize(("lam", "is_the_way"), [(3e-3, False), (1e-3, True)])
def test_it_ends_where_too_many_rows_are_outliers(lam, is_the_way, descents):
    X, _ = words(n=4000, d=1500, scaled=False)
    by_words = X @ np.random.default_rng(5).normal(size=1500)
    model = SVMOR(lam, tol=1e-4).fit(X, np.where(by_words > np.quantile(by_words, 0.9), 1, -1))
    assert model.status_ == "converged" and descents[0].has_led == is_the_way
    assert descents[0].outliers.any() if is_the_way else descents[0].pairs is None


def test_without_a_first_point_its_passes_are_few(descents, monkeypatch):
    visits, real = [], module.descend_with_free_bias

    def descend(*given, **named):
        for visited, _ in real(*given, **named):
            visits.append(visited)
            yield visited, None

    monkeypatch.setattr(module, "descend_with_free_bias", descend)
    X, y = words()
    model = SVMOR(1e-3, max_iter=3).fit(X, y)
    assert model.n_iter_ == 3
    assert 0 < sum(visits) <= (module.BLIND_PASSES + 3 * module.PASSES_APART + 4 * 100) * len(y)


@pytest.mark.parametrize(("noise", "passes"), [(0.0, (200, 220)), (2.0, (100, 120))])
def test_where_the_first_passes_arrive_nowhere_they_are_half_as_many(noise, passes, monkeypatch):
    """So it is where classes overlap and lambda is tiny, which the bound at w = 0 does not tell."""
    visits, real = [], module.DescentByRows._descend

    def descend(self):
        for visited in real(self):
            visits.append(visited)
            yield visited

    monkeypatch.setattr(module.DescentByRows, "_descend", descend)
    monkeypatch.setattr(module.DescentByRows, "go_on", lambda *_: None)
    X, _ = words(n=8000, d=1100, scaled=False)
    rng = np.random.default_rng(5)
    by_words = X @ rng.normal(size=1100)
    by_words += noise * by_words.std() * rng.normal(size=8000)
    SVMOR(1e-4, max_iter=1).fit(X, np.where(by_words > np.quantile(by_words, 0.9), 1, -1))
    assert passes[0] <= sum(visits) / 8000 <= passes[1]


def test_a_warm_start_goes_on_to_another_lam():
    X, y = words()
    model = SVMOR(1e-2, warm_start=True).fit(X, y)
    again = model.set_params(lam=1e-4).fit(X, y)
    assert again.status_ == "converged" and again.objective_ == pytest.approx(
        SVMOR(1e-4).fit(X, y).objective_, rel=2e-6
    )
