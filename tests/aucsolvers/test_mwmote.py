"""MWMOTE against an example computed by hand, an obvious twin, a foreign implementation, and both contracts."""

import logging
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from imblearn.pipeline import make_pipeline
from imblearn.utils.estimator_checks import parametrize_with_checks as parametrize_with_sampler_checks
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import mwmote as module
from aucsolvers.mwmote import MWMOTE
from aucsolvers.svm import LinearSVM

# minority at 0, 1, 2.5 and, among the majority, 20
LINE = np.array([0.0, 1.0, 2.5, 20.0, 4.0, 6.0, 19.0, 21.0, 22.0]).reshape(-1, 1)
LABELS = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0])


# What smote-variants 1.0.1 makes of ``blobs()``, as ``by_smote_variants`` asks it: the rows that it keeps, all of the
# 40 but these five, and their weights.
NOISE = [4, 19, 27, 32, 36]
# fmt: off
WEIGHTS = [
    0.581603087293, 0.76419063835, 0.218606431352, 1.28660615836, 1.23663125069, 0.299606875669, 0.265338339888,
    0.452451133412, 1.12198300759, 1.11698327211, 0.469966951441, 0.623452464198, 0.141917122849, 0.196707669168,
    0.127011162442, 0.124404467583, 0.617478662049, 0.544979821359, 0.282841310815, 0.740694854998, 0.128052304143,
    0.706314434313, 0.161690529302, 0.707605450627, 0.159733036235, 0.42003317178, 0.150864222858, 0.24596287486,
    0.400788315405, 0.359091579237, 0.590529115723, 1.03829500374, 0.762431783094, 0.241770163018, 0.185740402433,
]
# fmt: on


def by_smote_variants(foreign, X, y):
    """Return the minority rows that smote-variants keeps and their weights: a row's is its sum over borderline rows."""
    theirs = foreign.MWMOTE(k1=5, k2=2, k3=40, cf_th=5.0, cmax=2.0, random_state=0)
    theirs.min_label, theirs.maj_label = 1, 0
    kept = theirs.filter_minorities(X, y, {}, np.flatnonzero(y == 1))
    border = theirs.determine_border_majority(X, X[y == 0], kept, {})
    return kept, theirs.determine_information_weights(X[y == 0], X[kept], border, np.arange(len(kept))).sum(axis=0)


def blobs(n_min=40, n_maj=160, d=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.repeat([1, 0], [n_min, n_maj])
    return rng.normal(size=(len(y), d)) + 1.2 * y[:, None], y


@parametrize_with_sampler_checks([MWMOTE(random_state=0)])
def test_imbalanced_learn_contract(estimator, check):
    check(estimator)


@parametrize_with_checks([MWMOTE(random_state=0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


class TestByHand:
    """k1 = 2, k2 = 1, k3 = 2. 20 has 19 and 21 as neighbours: noise. The nearest majority row of 0, 1 and 2.5 is 4.

    Its nearest minority rows are 2.5 and 1, at 1.5 and 3; with one feature 1/d is 2/3 and 1/3, below C_f(th) = 5, so
    the closenesses are 2/5 of that, 4/15 and 2/15; their shares 2/3 and 1/3; the weights 8/45 and 2/45, as 4 to 1.
    Nearest minority rows are 1, 1 and 1.5 away: mean 7/6. 0 and 1 join at 1, 2.5 joins them at (2.5 + 1.5)/2 = 2.
    """

    def fit(self, **parameters):
        sampler = MWMOTE(k1=2, k2=1, k3=2, random_state=0, **parameters)
        X, y = sampler.fit_resample(LINE, LABELS)
        return sampler.hard_rows_[1], X, y

    def test_noise_and_weights(self):
        hard, _, _ = self.fit()
        assert_array_equal(hard.rows, [0, 1, 2])
        assert_allclose(hard.weights, [0, 2 / 45, 8 / 45], rtol=1e-14)

    def test_closeness_is_cut_off_at_the_threshold(self):
        """C_f(th) = 0.5 cuts 2/3 down: closenesses 2 and 4/3, shares 3/5 and 2/5, weights 6/5 and 8/15."""
        hard, _, _ = self.fit(cf_th=0.5)
        assert_allclose(hard.weights, [0, 8 / 15, 6 / 5], rtol=1e-14)

    @pytest.mark.parametrize(("cp", "n_clusters"), [(0.8, 3), (1.0, 2), (1.7, 2), (1.8, 1)])
    def test_clusters(self, cp, n_clusters):
        hard, _, _ = self.fit(cp=cp)
        assert len(set(hard.clusters)) == n_clusters
        assert (hard.clusters[0] == hard.clusters[1]) == (n_clusters < 3)

    def test_new_rows_lie_between_rows_of_one_cluster(self):
        """Clusters {0, 1} and {2.5}: drawn 1 goes towards 0; drawn 2.5 is alone and repeated, four times in five."""
        sampler = MWMOTE(k1=2, k2=1, k3=2, cp=1.0, random_state=0, sampling_strategy={1: 4004})
        X, y = sampler.fit_resample(LINE, LABELS)
        new = X[9:].ravel()
        assert_array_equal(X[:9], LINE)
        assert_array_equal(y, np.r_[LABELS, np.ones(4000, int)])
        alone = new == 2.5
        assert np.all(alone | ((new > 0) & (new <= 1)))
        assert abs(alone.mean() - 0.8) < 4 * np.sqrt(0.16 / 4000)
        # 1 - t uniform: the mean of n of them is 1/2 up to 4 of its standard deviations
        assert abs(new[~alone].mean() - 0.5) < 4 / np.sqrt(12 * np.sum(~alone))


def twin(X, y, k1=5, k2=3, k3=None, cf_th=5.0):
    """Steps 1 to 4 by loops over sorted distances; returns rows and weights."""
    distance = np.sqrt(((X[:, None] - X[None]) ** 2).sum(axis=2))
    minority, majority = [i for i in range(len(y)) if y[i] == 1], [i for i in range(len(y)) if y[i] == 0]
    k3 = len(minority) // 2 if k3 is None else k3
    rows = []
    for i in minority:
        others = sorted((j for j in range(len(y)) if j != i), key=lambda j: distance[i, j])
        if any(y[j] == 1 for j in others[:k1]):
            rows.append(i)
    border = {j for i in rows for j in sorted(majority, key=lambda j: distance[i, j])[:k2]}
    weights = dict.fromkeys(rows, 0.0)
    for j in border:
        near = sorted(rows, key=lambda i: distance[i, j])[:k3]
        closeness = [2.0 * min(X.shape[1] / distance[i, j], cf_th) / cf_th for i in near]
        for i, c in zip(near, closeness, strict=True):
            weights[i] += c * c / sum(closeness)
    return np.array(rows), np.array([weights[i] for i in rows])


class TestWeights:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_matrix])
    @pytest.mark.parametrize("parameters", [{}, {"k1": 2, "k2": 7, "k3": 4, "cf_th": 1.5}], ids=str)
    def test_agree_with_the_twin(self, form, parameters, monkeypatch):
        X, y = blobs()
        monkeypatch.setattr(module, "BLOCK_BYTES", 40 * 60)  # a few border rows at a time
        sampler = MWMOTE(random_state=0, **parameters)
        sampler.fit_resample(form(X), y)
        rows, weights = twin(X, y, **parameters)
        assert_array_equal(sampler.hard_rows_[1].rows, rows)
        assert len(rows) < 40 or parameters == {}
        assert_allclose(sampler.hard_rows_[1].weights, weights, rtol=1e-9)

    def test_agree_with_smote_variants(self):
        """It weighs all pairs of informative and borderline rows, which is ours with all of the minority as neighbours.

        It takes one majority neighbour more than told, and sets 1/d to 10 at most: below C_f(th) = 5 that is not seen.
        """
        ours = MWMOTE(k3=40, random_state=0)
        ours.fit_resample(*blobs())
        assert_array_equal(ours.hard_rows_[1].rows, np.delete(np.arange(40), NOISE))
        assert_allclose(ours.hard_rows_[1].weights, WEIGHTS, rtol=1e-9)

    def test_smote_variants_says_so(self):
        foreign = pytest.importorskip("smote_variants", reason="smote-variants is not installed: pip install --no-deps")
        kept, weights = by_smote_variants(foreign, *blobs())
        assert_array_equal(kept, np.delete(np.arange(40), NOISE))
        assert_allclose(weights, WEIGHTS, rtol=1e-9)

    def test_a_duplicate_counts_as_a_neighbour_and_itself_does_not(self):
        X = np.array([[0.0], [0.0], [5.0], [5.0], [5.0], [9.0], [1.0], [8.0]])
        is_minority = np.array([True, True, True, False, False, True, False, False])
        # the twins at 0 see each other; 5 sees two majority duplicates, 9 sees 8 and 5
        assert_array_equal(module.without_noise(X, is_minority, 1), [0, 1])

    def test_touching_classes_have_the_largest_closeness(self):
        weights = module.selection_weights(np.array([[1.0], [3.0]]), np.array([[1.0]]), 2, 5.0, 2.0)
        assert_allclose(weights, np.array([4.0, 0.04]) / 2.2)  # closenesses 2 and 2 (1/2)/5 = 1/5

    def test_all_noise_drops_nothing_and_says_so(self, caplog):
        X = np.array([0.0, 10.0, 20.0, 0.1, 0.2, 10.1, 10.2, 20.1, 20.2]).reshape(-1, 1)
        y = np.array([1, 1, 1, 0, 0, 0, 0, 0, 0])
        with caplog.at_level(logging.WARNING):
            sampler = MWMOTE(k1=1, random_state=0)
            sampler.fit_resample(X, y)
        assert "none dropped as noise" in caplog.text
        assert_array_equal(sampler.hard_rows_[1].rows, [0, 1, 2])


class TestInputAndOutput:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix, sparse.csc_matrix])
    @pytest.mark.parametrize("dtype", [np.float64, np.float32])
    def test_the_type_stays(self, form, dtype):
        X, y = blobs()
        X_more, y_more = MWMOTE(random_state=0).fit_resample(form(X.astype(dtype)), y)
        assert type(X_more) is type(form(X)) and X_more.dtype == dtype and y_more.dtype == y.dtype
        assert_array_equal(np.bincount(y_more), [160, 160])
        dense, _ = MWMOTE(random_state=0).fit_resample(X.astype(dtype), y)
        assert_allclose(X_more.toarray() if sparse.issparse(X_more) else X_more, dense, rtol=1e-5)

    def test_a_dataframe_stays_a_dataframe(self):
        X, y = blobs()
        frame = pd.DataFrame(X, columns=["amount", "age", "rate"])
        more, labels = MWMOTE(random_state=0).fit_resample(frame, pd.Series(y, name="fraud"))
        assert list(more.columns) == ["amount", "age", "rate"] and labels.name == "fraud" and len(more) == 320
        pd.testing.assert_frame_equal(more.iloc[:200], frame)

    @pytest.mark.parametrize(
        "dtype", ["int64", "uint8", "Int64", "boolean", bool, "Float64", "category", pd.SparseDtype(int, 0)]
    )
    def test_new_rows_of_a_dataframe_lie_between_as_those_of_an_array(self, dtype):
        """In whole numbers all fractions were cut off, and a tenth of a boolean became True."""
        X, y = blobs()
        X[:, :2] = np.random.default_rng(0).integers(2, size=(len(X), 2)) if "bool" in str(dtype) else np.abs(X)[:, :2]
        X[:, :2] = np.round(X[:, :2])
        frame = pd.DataFrame(X, columns=["amount", "age", "rate"]).astype({"amount": dtype, "age": dtype})
        before = frame.copy()
        more, _ = MWMOTE(cp=1e3, random_state=0).fit_resample(frame, y)
        assert_array_equal(more.astype(float), MWMOTE(cp=1e3, random_state=0).fit_resample(X, y)[0])
        assert np.any(np.asarray(more["amount"], dtype=float) % 1.0 > 0.0)
        assert list(more.columns) == ["amount", "age", "rate"]
        pd.testing.assert_frame_equal(frame, before)

    def test_categories_of_text_are_refused(self):
        X, y = blobs()
        frame = pd.DataFrame(X, columns=["amount", "age", "rate"])
        frame["shop"] = pd.Categorical(np.where(X[:, 0] > 0, "here", "there"))
        with pytest.raises(ValueError, match=r"Expected numbers in column 'shop', got categories of .*Encode it"):
            MWMOTE(random_state=0).fit_resample(frame, y)

    def test_every_class_is_weighed_against_all_others(self):
        X, y = blobs()
        y[:15] = 2
        sampler = MWMOTE(random_state=0)
        _, more = sampler.fit_resample(X, y)
        assert_array_equal(np.bincount(more), [160, 160, 160])
        for label in (1, 2):
            rows, weights = twin(X, (y == label).astype(int))
            assert_array_equal(sampler.hard_rows_[label].rows, rows)
            assert_allclose(sampler.hard_rows_[label].weights, weights, rtol=1e-9)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
    @pytest.mark.parametrize("n_features", [5, 20])
    @pytest.mark.parametrize("columns", [slice(0, 1), slice(None)])
    def test_columns_far_from_zero_are_weighed_as_those_near_it(self, form, n_features, columns):
        """Seconds since 1970, say: squared lengths of 1e18 hid all distances, and every row was its own cluster."""
        rng = np.random.default_rng(0)
        X = np.round(rng.normal(size=(100, n_features)) * 1024) / 1024  # a shift by a power of 2 changes no bit of it
        y = (np.arange(100) % 6 == 0).astype(int)
        X[y == 1] += 0.25
        near = MWMOTE(random_state=0)
        near.fit_resample(X, y)
        for shift in (2.0**24, 2.0**27, -(2.0**30)):
            moved, far = X.copy(), MWMOTE(random_state=0)
            moved[:, columns] += shift
            far.fit_resample(form(moved), y)
            assert_array_equal(far.hard_rows_[1].rows, near.hard_rows_[1].rows)
            assert_array_equal(far.hard_rows_[1].clusters, near.hard_rows_[1].clusters)
            assert_allclose(far.hard_rows_[1].weights, near.hard_rows_[1].weights, rtol=1e-9)

    def test_a_generator_is_a_seed_too(self):
        X, y = np.random.default_rng(0).normal(size=(40, 3)), (np.arange(40) % 8 == 0).astype(int)
        first, second = (MWMOTE(random_state=np.random.default_rng(7)).fit_resample(X, y)[0] for _ in range(2))
        assert_array_equal(first, second)

    def test_the_seed_decides_every_bit(self):
        X, y = blobs()
        first, second, other = (MWMOTE(random_state=seed).fit_resample(X, y)[0] for seed in (3, 3, 4))
        assert_array_equal(first, second)
        assert not np.array_equal(first, other)
        assert clone(MWMOTE(k1=7)).k1 == 7

    @pytest.mark.parametrize("n_min", [1, 2, 3])
    def test_tiny_minorities(self, n_min):
        X, y = blobs(n_min, 20)
        more, labels = MWMOTE(random_state=0).fit_resample(X, y)
        assert np.isfinite(more).all() and np.sum(labels == 1) == 20
        if n_min == 1:
            assert_array_equal(more[21:], np.repeat(X[:1], 19, axis=0))

    @pytest.mark.parametrize("scale", [0.0, 1e-200, 1e100])
    def test_odd_scales(self, scale):
        X, y = blobs()
        more, _ = MWMOTE(random_state=0).fit_resample(scale * X, y)
        assert np.isfinite(more).all() and len(more) == 320

    def test_overflowing_distances_are_refused(self):
        X, y = blobs()
        with pytest.raises(ValueError, match="squared norms overflow"):
            MWMOTE().fit_resample(1e160 * X, y)

    @pytest.mark.parametrize("dtype", [bool, np.int8, np.float16])
    def test_other_numbers_become_float64(self, dtype):
        X, y = blobs()
        more, _ = MWMOTE(random_state=0).fit_resample((3 * X).astype(dtype), y)
        same, _ = MWMOTE(random_state=0).fit_resample((3 * X).astype(dtype).astype(float), y)
        assert more.dtype == np.float64
        assert_array_equal(more, same)

    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    @pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array])
    def test_entries_in_two_parts_count_once_and_stay_so(self, form, dtype):
        X, y = blobs()
        X = np.round(8 * X).astype(dtype)
        n, d = X.shape
        halves = np.repeat(X / 2, 2, axis=1)[:, ::-1].ravel()  # and the columns from right to left
        split = form((halves, np.tile(np.repeat(np.arange(d), 2)[::-1], n), 2 * d * np.arange(n + 1)), shape=X.shape)
        assert_array_equal(split.toarray(), X)
        kept = [part.copy() for part in (split.data, split.indices, split.indptr)]
        for part in (split.data, split.indices, split.indptr):
            part.flags.writeable = False
        one, two = MWMOTE(random_state=0), MWMOTE(random_state=0)
        more, _ = one.fit_resample(split, y)
        same, _ = two.fit_resample(form(X), y)
        assert_array_equal(one.hard_rows_[1].rows, two.hard_rows_[1].rows)
        assert_array_equal(more.toarray(), same.toarray())
        for part, before in zip((split.data, split.indices, split.indptr), kept, strict=True):
            assert_array_equal(part, before)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
    @pytest.mark.parametrize("size", [1e-30, 1e-24, 1e10, 1e30])
    def test_entries_whose_squares_float32_cannot_hold(self, size, form):
        """Of sparse ones all distances were 0: no noise was found, and no row weighed more than another."""
        X, y = blobs()
        X = X.astype(np.float32) * np.float32(size)
        thin, exact = MWMOTE(random_state=0), MWMOTE(random_state=0)
        more, _ = thin.fit_resample(form(X), y)
        exact.fit_resample(X.astype(np.float64), y)
        assert more.dtype == np.float32 and more.shape[0] > len(X)
        assert_array_equal(thin.hard_rows_[1].rows, exact.hard_rows_[1].rows)
        assert_allclose(thin.hard_rows_[1].weights, exact.hard_rows_[1].weights, rtol=1e-4)

    def test_in_cross_validation_training_rows_only_are_resampled(self):
        X, y = blobs(60, 600)
        pipe = make_pipeline(StandardScaler(), MWMOTE(random_state=0), LinearSVM(random_state=0))
        assert cross_val_score(pipe, X, y, scoring="roc_auc", cv=3).mean() > 0.9


class TestRefusals:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_clustering_takes_no_more_memory_than_is_predicted(self, form, dtype, monkeypatch):
        """Of sparse rows the whole matrix of distances stood beside what was made of it: 20 bytes a pair."""
        monkeypatch.setattr(module, "BLOCK_BYTES", 2**20)
        X, _ = blobs(1500, 1)
        rows = form(X[:1500].astype(dtype))
        module.cluster_labels(rows[:20], 3.0)
        tracemalloc.start()
        try:
            labels = module.cluster_labels(rows, 3.0)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert peak <= module.CLUSTER_BYTES * 1500**2
        assert_array_equal(labels, module.cluster_labels(X[:1500].astype(dtype).astype(np.float64), 3.0))

    def test_memory_is_predicted_before_anything_is_computed(self, monkeypatch):
        X, y = blobs()
        monkeypatch.setattr(module, "without_noise", lambda *_: pytest.fail("computed first"))
        with pytest.raises(ValueError, match=r"max_bytes=12799 bytes, got 12800 for the 40 rows of class 1\. Raise"):
            MWMOTE(max_bytes=12_799).fit_resample(X, y)
        with pytest.raises(ValueError, match=r"got 12800 for the 40 rows of class 1\."):
            MWMOTE(max_bytes=12_799).check_size(y)
        MWMOTE(max_bytes=12_799, sampling_strategy={1: 40}).check_size(y)  # no row is to be made

    @pytest.mark.parametrize(
        "bad", [{"k1": 0}, {"k2": 1.5}, {"k3": 0}, {"cf_th": 0}, {"cmax": -1}, {"cp": "3"}, {"max_bytes": 0}]
    )
    def test_bad_parameters(self, bad):
        (name,) = bad
        with pytest.raises(ValueError, match=f"Expected {name} .*got"):
            MWMOTE(**bad).fit_resample(*blobs())

    def test_one_class_is_an_error(self):
        with pytest.raises(ValueError, match="class"):
            MWMOTE().fit_resample([[0.0], [1.0]], [0, 0])


def test_of_more_duplicates_than_are_asked_for_the_last_is_one_too_many():
    X = np.zeros((6, 1))
    nearest = [module._neighbours(X, X[[i]], 2)[1][0] for i in range(6)]
    row = next(i for i in range(6) if i not in nearest[i])
    is_minority = np.isin(np.arange(6), [row, nearest[row][1]])
    assert row not in module.without_noise(X, is_minority, 1)


def test_weights_are_computed_a_block_at_a_time(monkeypatch):
    monkeypatch.setattr(module, "BLOCK_BYTES", 2**20)
    rng = np.random.default_rng(0)
    minority, border = rng.normal(size=(200, 2)), rng.normal(size=(5000, 2))
    module.selection_weights(minority, border[:10], 100, 5.0, 2.0)
    tracemalloc.start()
    try:
        module.selection_weights(minority, border, 100, 5.0, 2.0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * 2**20  # all at once are 5000 x 100 numbers, 4 MB each array


def test_each_class_has_a_stream_of_its_own():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 3)), np.repeat([0, 1, 2], [140, 30, 30])
    made = []
    for count in (60, 80):
        more, labels = MWMOTE(sampling_strategy={1: count, 2: 60}, random_state=0).fit_resample(X, y)
        made.append(more[200:][labels[200:] == 2])
    assert_array_equal(*made)
