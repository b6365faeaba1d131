"""Kernel features: the kernel itself at the landmarks, the kernel problem's own optimum, and every class among them."""

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy import sparse
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import make_circles
from sklearn.metrics import roc_auc_score
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from aucsolvers import LSSVM, OPAUC, SVMOR, LinearSVM, Ranker, UniExp
from aucsolvers.approximation import KernelFeatures


@parametrize_with_checks([KernelFeatures(n_components=20)])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rings():
    """An inner disc of one positive in five, and a ring around it."""
    X, y = make_circles((400, 100), factor=0.4, noise=0.1, random_state=0)
    return X, np.where(y == 1, 1, -1)


def kernel_of(features, A, B):
    if features.kernel == "rbf":
        return rbf_kernel(A, B, gamma=features.gamma_)
    return polynomial_kernel(A, B, gamma=features.gamma_, degree=features.degree, coef0=features.coef0)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_products_with_a_landmark_are_the_kernel(rings, kernel, layout):
    X, y = rings
    features = KernelFeatures(kernel, n_components=12, random_state=1).fit(layout(X), y)
    Z = features.transform(layout(X)) + features.origin_
    marks = features.landmarks_
    assert np.allclose(Z @ Z[marks].T, kernel_of(features, X, X[marks]), rtol=0, atol=1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_single_precision_rows_have_the_features_of_double(kernel, layout):
    """Rows of small whole numbers, which are the same in both; many landmarks, some of them copies: L is singular."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, size=(300, 6)) * (rng.random((300, 6)) < 0.5)
    found = [
        KernelFeatures(kernel, gamma=0.1, n_components=200, random_state=0).fit(rows).transform(rows)
        for rows in (layout(X.astype(np.float64)), layout(X.astype(np.float32)))
    ]
    assert np.allclose(*found, rtol=0, atol=1e-9)


def test_the_certified_optimum_is_that_of_the_kernel_problem(rings):
    """With every row a landmark nothing is approximate: in the expansion's coefficients it is a linear system.

    With a row of B for each pair, e_i - e_j, the loss |1 - B K beta|^2 / 2k + lam/2 beta'K beta is least where
    (lam I + B'B K / k) beta = B'1 / k.
    """
    X, y = rings[0][::5], rings[1][::5]
    features = KernelFeatures(gamma=2.0, n_components=1000, random_state=0)
    assert features.fit(X, y).n_components_ == len(X)
    lam = 1e-2
    model = LSSVM(lam=lam).fit(features.transform(X), y)
    K, one = rbf_kernel(X, X, gamma=2.0), np.eye(len(y))
    B = (one[y > 0][:, None] - one[y < 0][None, :]).reshape(-1, len(y))
    beta = np.linalg.solve(lam * one + B.T @ B @ K / len(B), B.T.mean(axis=1))
    optimum = 0.5 * lam * beta @ K @ beta + 0.5 * np.mean((1.0 - B @ K @ beta) ** 2)
    assert model.objective_ == pytest.approx(optimum, rel=1e-9)
    scores = model.decision_function(features.transform(X)) - model.intercept_
    assert np.allclose(B @ scores, B @ K @ beta, rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "solver",
    [SVMOR(lam=1e-3), LSSVM(lam=1e-3), LinearSVM(), OPAUC(lam=1e-3, random_state=0), UniExp(lam=1e-2, random_state=0)],
    ids=lambda solver: type(solver).__name__,
)
def test_rings_are_ranked_in_the_kernels_space_and_not_outside(rings, solver):
    X, y = rings
    train, test = np.arange(len(y)) % 2 == 0, np.arange(len(y)) % 2 == 1
    curved = make_pipeline(KernelFeatures(n_components=64, random_state=0), solver).fit(X[train], y[train])
    assert roc_auc_score(y[test], curved.decision_function(X[test])) > 0.99
    straight = solver.fit(X[train], y[train])
    assert abs(roc_auc_score(y[test], straight.decision_function(X[test])) - 0.5) < 0.12


def test_a_rare_class_is_among_the_landmarks():
    """All 8 of 8 against 5,000, and about half of the draw where both classes are large."""
    X = np.random.default_rng(0).normal(size=(5008, 2))
    rare = np.arange(5008) < 8
    features = KernelFeatures(n_components=100, random_state=0)
    assert rare[features.fit(X, rare).landmarks_].sum() == 8
    half = np.arange(5008) < 1000
    assert 35 <= half[features.fit(X, half).landmarks_].sum() <= 65
    assert half[features.fit(X).landmarks_].sum() < 35


def test_gamma_of_scale_is_scikit_learns_and_the_factor_multiplies_it(rings):
    X, y = rings
    scale = 1.0 / (X.shape[1] * X.var())
    assert KernelFeatures(gamma_factor=10.0).fit(X, y).gamma_ == pytest.approx(10 * scale)
    assert KernelFeatures().fit(sparse.csr_matrix(X), y).gamma_ == pytest.approx(scale)
    assert KernelFeatures(gamma=0.3).fit(X, y).gamma_ == 0.3
    for flat in (np.full((30, 2), 0.1), sparse.csr_matrix(np.full((30, 2), 0.1)), sparse.csr_matrix((30, 2))):
        assert KernelFeatures(n_components=5).fit(flat).gamma_ == 1.0


def test_blocks_do_not_show(rings, monkeypatch):
    X, y = rings
    features = KernelFeatures(n_components=30, random_state=0).fit(X, y)
    whole = features.transform(X)
    monkeypatch.setattr("aucsolvers.approximation.BLOCK_ROWS", 7)
    assert np.allclose(features.transform(X), whole, rtol=0, atol=1e-12)


def test_too_large_is_refused_with_a_number_that_fits(rings):
    X, y = rings
    features = KernelFeatures(n_components=100, max_bytes=8 * 40 * (500 + 8 * 40))
    with pytest.raises(
        ValueError,
        match=r"500 rows x 100 .* 1040000 bytes, what their fit takes included. Lower n_components to 40,",
    ):
        features.fit(X, y)
    features.set_params(n_components=40).fit(X, y)
    with pytest.raises(ValueError, match=r"1000 rows x 40 .* Lower n_components to 32,"):
        features.transform(np.vstack([X, X]))
    with pytest.raises(ValueError, match="Transform fewer rows at a time, or raise"):
        features.transform(np.vstack([X] * 66))


@pytest.mark.parametrize(("size", "degree"), [(1e60, 3), (10.0, 300)])
def test_powers_that_overflow_are_refused_in_words(size, degree):
    """As infinities they reached an eigenvalue decomposition, which "did not converge"."""
    X = size * np.random.default_rng(0).normal(size=(50, 3))
    with pytest.raises(ValueError, match=f"Expected powers of degree {degree} that are numbers, .* Scale them"):
        KernelFeatures("poly", gamma=1.0, degree=degree, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("name", "value"),
    [("kernel", "gaussian"), ("gamma", 0), ("gamma", "auto"), ("gamma_factor", -1), ("n_components", 0), ("coef0", -1)],
)
def test_invalid_parameters_are_refused(rings, name, value):
    with pytest.raises(ValueError, match=f"Expected {name}"):
        KernelFeatures(**{name: value}).fit(*rings)


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
def test_a_kept_model_scores_as_before(rings, layout):
    X, y = layout(rings[0]), rings[1]
    chain = make_pipeline(StandardScaler(with_mean=False), KernelFeatures(n_components=20, random_state=0), SVMOR())
    ranker = Ranker(chain.fit(X, y), positive_label="in", negative_label="out")
    stored = skops.io.dumps(ranker)
    types = skops.io.get_untrusted_types(data=stored)
    assert set(types) <= {"aucsolvers.approximation.KernelFeatures", "aucsolvers.ordinal.SVMOR"} | {
        "aucsolvers.ranker.Ranker",
        "scipy.sparse._csr.csr_matrix",
    }
    copy = skops.io.loads(stored, trusted=types)
    assert np.array_equal(copy.predict(X), ranker.predict(X))
    rows = [ranker.predict(X[i : i + 1])[0] for i in range(20)]
    assert np.allclose(rows, ranker.predict(X)[:20], rtol=0, atol=1e-9)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_entries_stored_in_parts_and_column_order_change_nothing(kernel):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(120, 5))
    y = X[:, 0] > 0.6
    whole = sparse.csr_array(X)
    parts = np.repeat(whole.data / 2, 2), np.repeat(whole.indices, 2), 2 * whole.indptr
    parted = sparse.csr_array(parts, shape=X.shape)
    features = KernelFeatures(kernel, n_components=20, random_state=0)
    expected = clone(features).fit(whole, y).transform(whole)
    np.testing.assert_array_equal(clone(features).fit(parted, y).transform(parted), expected)
    dense = clone(features).fit(X, y)
    np.testing.assert_array_equal(dense.transform(np.asfortranarray(X)), dense.transform(X))


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("n_features", [3, 30])
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_a_rows_features_do_not_depend_on_the_rows_beside_it(kernel, n_features, layout):
    """With one thread of BLAS, as `Ranker` scores: several divide a product where they like."""
    rng = np.random.default_rng(0)
    X = layout(rng.normal(size=(1500, n_features)) * (rng.random((1500, n_features)) < 0.5))
    features = KernelFeatures(kernel, random_state=0).fit(X)
    with threadpool_limits(1):
        whole = features.transform(X)
        for count in (1, 2, 5, 24, 100, 192, 193, 1000):
            rows = rng.choice(1500, count, replace=False)
            np.testing.assert_array_equal(features.transform(X[rows]), whole[rows])


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_matrix])
@pytest.mark.parametrize("offset", [1e5, 1e8])
def test_distances_of_rows_far_from_zero_are_not_lost(rings, layout, offset):
    """Squared norms of 1e16 leave nothing of squared distances of 1: features were those of another kernel."""
    X, y = rings
    near = KernelFeatures(n_components=40, random_state=0).fit_transform(X, y)
    far = KernelFeatures(n_components=40, random_state=0).fit(layout(X + offset), y)
    np.testing.assert_allclose(far.transform(layout(X + offset)) @ near.T, near @ near.T, atol=1e-4)


def test_frames_asked_of_all_transformers_do_not_reach_inside(rings):
    X, y = rings
    usual = KernelFeatures(n_components=9, random_state=0).fit(X, y)
    with config_context(transform_output="pandas"):
        model = KernelFeatures(n_components=9, random_state=0).fit(X, y)
        assert isinstance(model.transform(X), pd.DataFrame)
    assert isinstance(model.origin_, np.ndarray)
    assert np.array_equal(model.transform(X), usual.transform(X))


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
@pytest.mark.parametrize("layout", [np.asarray, np.float32, sparse.csr_array, sparse.csc_array], ids=str)
def test_landmarks_are_known_among_other_rows_and_so_are_their_copies(kernel, layout, monkeypatch):
    monkeypatch.setattr("aucsolvers.approximation.BLOCK_ROWS", 32)
    rows = np.random.default_rng(0).normal(size=(120, 5)).astype(np.float32)
    features = KernelFeatures(kernel, n_components=30, random_state=0).fit(layout(rows[20:]))
    marks = 20 + features.landmarks_
    rows[3:9] = rows[marks[0]]
    order = np.random.default_rng(1).permutation(120)
    assert np.array_equal(features.are_landmarks(layout(rows[order])), np.isin(order, [*marks, *range(3, 9)]))


@pytest.mark.parametrize("asked", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("fitted", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_landmarks_are_known_whatever_the_layout_they_are_asked_in(kernel, fitted, asked):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 40)) * (rng.random((60, 40)) < 0.4)
    features = KernelFeatures(kernel, n_components=15, random_state=0).fit(fitted(rows))
    assert np.array_equal(np.flatnonzero(features.are_landmarks(asked(rows))), np.sort(features.landmarks_))


def test_several_targets_are_no_classes_to_draw_from(rings):
    X, y = rings
    several = KernelFeatures(n_components=9, random_state=0).fit(X, np.column_stack([y, -y]))
    assert np.array_equal(several.landmarks_, KernelFeatures(n_components=9, random_state=0).fit(X).landmarks_)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        KernelFeatures().fit(X, np.zeros((len(X) + 1, 2)))


@pytest.mark.parametrize("labels", [[0.0, 1.0, np.nan] * 2, pd.array([0, 1, None] * 2, dtype="Int64")])
def test_missing_labels_are_refused(labels):
    with pytest.raises(ValueError, match="Input y contains NaN"):
        KernelFeatures(n_components=3, random_state=0).fit(np.eye(6), labels)
