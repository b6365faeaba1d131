"""OneHotSMOTENC: against imbalanced-learn on the categories themselves, and what a new row may look like."""

import numpy as np
import pandas as pd
import pytest
from imblearn.over_sampling import SMOTE, SMOTEN, SMOTENC
from imblearn.utils.estimator_checks import parametrize_with_checks as parametrize_with_sampler_checks
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.utils.estimator_checks import parametrize_with_checks

from aucsolvers import OneHotSMOTENC
from aucsolvers._rows import FLOATS

BLOCKS = (7, 9), (1, 5)  # of ``one_hot``'s columns, in any order
STORAGES = np.asarray, np.asfortranarray, sparse.csr_array, sparse.csc_matrix


def categories(n=160, seed=0):
    """Return three numbers, a text of four values and one of two, and labels of which one in eight is 1."""
    rng = np.random.default_rng(seed)
    y = (np.arange(n) % 8 == 0).astype(int)
    frame = pd.DataFrame(rng.normal(size=(n, 3)) + y[:, None], columns=list("abc"))
    frame["place"] = pd.Categorical(np.array(list("ensw"))[rng.integers(0, 4 - y, n)], list("ensw"))
    frame["paid"] = pd.Categorical(np.array(["no", "yes"])[rng.integers(0, 2, n)], ["no", "yes"])
    return frame, y


def one_hot(frame):
    """Return the rows with a, the four places, b, c, and whether it is paid, as one-hot columns."""
    place, paid = np.eye(4)[frame["place"].cat.codes], np.eye(2)[frame["paid"].cat.codes]
    return np.column_stack([frame["a"], place, frame["b"], frame["c"], paid])


@parametrize_with_sampler_checks([OneHotSMOTENC(random_state=0)])
def test_imbalanced_learn_contract(estimator, check):
    check(estimator)


@parametrize_with_checks([OneHotSMOTENC(random_state=0)])
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("storage", STORAGES)
def test_rows_are_those_that_imbalanced_learn_makes_of_the_texts(storage, dtype):
    frame, y = categories()
    frame = frame.astype(dict.fromkeys("abc", dtype))
    expected, labels = SMOTENC("auto", k_neighbors=3, random_state=5).fit_resample(frame, y)
    X = storage(one_hot(frame).astype(dtype))
    out, y_out = OneHotSMOTENC(BLOCKS, k_neighbors=3, random_state=5).fit_resample(X, y)
    assert (type(out), out.dtype) == (type(X), dtype)
    assert np.array_equal(y_out, labels)
    assert np.array_equal(out.toarray() if sparse.issparse(out) else out, one_hot(expected).astype(dtype))


@pytest.mark.parametrize("seed", range(5))
def test_a_new_row_has_numbers_between_two_minority_rows_and_the_texts_of_most_neighbours(seed):
    """k is the whole minority but one row, so that the neighbours of each row are known: all others."""
    frame, y = categories(seed=seed)
    X, minority = one_hot(frame), one_hot(frame)[y == 1]
    n = len(minority)
    out, y_out = OneHotSMOTENC(BLOCKS, k_neighbors=n - 1, random_state=seed).fit_resample(X, y)
    assert np.array_equal(out[: len(X)], X) and (y_out[len(X) :] == 1).all()
    numbers = [0, 5, 6]
    for row in out[len(X) :]:
        on_lines = [  # x + t (z - x): all three numbers have one t in [0, 1]
            (i, j)
            for i in range(n)
            for j in range(n)
            if i != j
            and np.ptp(t := (row - minority[i])[numbers] / (minority[j] - minority[i])[numbers]) < 1e-9
            and 0 <= t[0] <= 1
        ]
        assert on_lines
        most = [
            {*np.flatnonzero(counts == counts.max()) + start}
            for i, _ in on_lines
            for start, stop in [(1, 5)]
            for counts in [np.delete(minority, i, axis=0)[:, start:stop].sum(axis=0)]
        ]
        assert any(np.flatnonzero(row[1:5])[0] + 1 in some for some in most)
        assert (np.flatnonzero(row[1:5]).size, np.flatnonzero(row[7:9]).size, row[1:5].sum(), row[7:9].sum()) == (
            1,
        ) * 4


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("storage", STORAGES)
@pytest.mark.parametrize("size", [1e-30, 1e-9, 1e9])
def test_numbers_of_any_scale_make_the_same_rows(storage, dtype, size):
    """SMOTENC takes votes for ties that differ by less than 1e-8 of the numbers' spread, whatever that is."""
    frame, y = categories()
    X, unit = one_hot(frame).astype(dtype), 2.0 ** np.round(np.log2(size))
    small = X.copy()
    small[:, [0, 5, 6]] *= dtype(unit)
    expected, out = (OneHotSMOTENC(BLOCKS, random_state=5).fit_resample(storage(rows), y)[0] for rows in (X, small))
    expected, out = (a.toarray() if sparse.issparse(a) else a for a in (expected, out))
    assert np.array_equal(out[:, [1, 2, 3, 4, 7, 8]], expected[:, [1, 2, 3, 4, 7, 8]])
    assert np.array_equal(out[:, [0, 5, 6]], dtype(unit) * expected[:, [0, 5, 6]])
    assert len(np.unique(out[len(y) :, 1:5], axis=0)) == 3  # of the places that the minority has


def test_an_outlier_of_the_majority_makes_no_ties():
    frame, y = categories()
    frame.loc[y == 1, "place"] = "e"
    X = one_hot(frame)
    X[:, [0, 5, 6]] = (X[:, [0, 5, 6]] + 5.0) / 1e12
    X[1, [0, 5, 6]] = 1.0
    made = OneHotSMOTENC(BLOCKS, random_state=0).fit_resample(X, y)[0][len(y) :]
    assert (made[:, 1] == 1.0).all()


def test_numbers_without_a_spread_leave_the_vote_to_the_texts():
    frame, y = categories()
    X = one_hot(frame)
    X[:, [0, 5, 6]] = 3.0
    made = OneHotSMOTENC(BLOCKS, random_state=0).fit_resample(X, y)[0][len(y) :]
    assert (made[:, [0, 5, 6]] == 3.0).all() and (made[:, 1:5].sum(axis=1) == 1.0).all()


def test_explicit_zeros_and_entries_in_two_parts_are_no_other_rows():
    frame, y = categories()
    X = sparse.csr_array(one_hot(frame))
    rows = X.tocoo()
    parts = np.concatenate([0.25 * rows.data, 0.75 * rows.data, np.zeros(5)])
    places = np.tile(rows.coords, 2), np.array([[0, 1, 2, 3, 4], [8, 8, 8, 8, 8]])
    halves = sparse.coo_array((parts, np.concatenate(places, axis=1)), X.shape)
    order = np.argsort(halves.coords[0], kind="stable")
    indptr = np.concatenate([[0], np.cumsum(np.bincount(halves.coords[0], minlength=len(y)))])
    twice = sparse.csr_array((halves.data[order], halves.coords[1][order], indptr), X.shape)
    expected, out = (OneHotSMOTENC(BLOCKS, random_state=0).fit_resample(rows, y)[0] for rows in (X, twice))
    assert_allclose(out.toarray(), expected.toarray(), rtol=1e-15)


@pytest.mark.parametrize("seed", [lambda: 3, lambda: np.random.RandomState(3), lambda: np.random.default_rng(3)])
def test_a_seed_of_any_kind_makes_the_same_rows_again(seed):
    frame, y = categories()
    first, second = (OneHotSMOTENC(BLOCKS, random_state=seed()).fit_resample(one_hot(frame), y)[0] for _ in range(2))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("label", [1, "rare"])
def test_more_neighbours_than_there_are_are_refused(label):
    frame, y = categories()
    labels = np.where(y == 1, label, 0 if label == 1 else "usual")
    with pytest.raises(ValueError, match=rf"more than k_neighbors=20 rows .* got 20 of class {label!r}\. Lower k_n"):
        OneHotSMOTENC(BLOCKS, k_neighbors=20).fit_resample(one_hot(frame), labels)
    OneHotSMOTENC(BLOCKS, k_neighbors=19).fit_resample(one_hot(frame), labels)


@pytest.mark.parametrize(
    ("columns", "blocks", "needed"),
    [(range(9), BLOCKS, 8 * 9 * (20 + 120 * 5)), (range(1, 5), ((0, 4),), 16 * 20**2)],
)
def test_more_memory_than_max_bytes_is_refused(columns, blocks, needed):
    frame, y = categories()
    X = one_hot(frame)[:, list(columns)]
    with pytest.raises(ValueError, match=f"max_bytes={needed - 1} bytes, got {needed} for 20 rows of class 1, 120 to"):
        OneHotSMOTENC(blocks, max_bytes=needed - 1).fit_resample(X, y)
    OneHotSMOTENC(blocks, max_bytes=needed).fit_resample(X, y)
    OneHotSMOTENC(max_bytes=1).fit_resample(frame[["a", "b", "c"]], y)  # SMOTE itself needs no more than its rows


@pytest.mark.parametrize("storage", STORAGES)
def test_without_categories_it_is_smote_and_without_numbers_smoten(storage):
    frame, y = categories()
    numbers = storage(frame[["a", "b", "c"]].to_numpy())
    for ours, theirs in zip(
        OneHotSMOTENC(random_state=1).fit_resample(numbers, y),
        SMOTE(random_state=1).fit_resample(numbers, y),
        strict=True,
    ):
        assert np.array_equal(*(a.toarray() if sparse.issparse(a) else a for a in (ours, theirs)))
    codes = np.column_stack([frame[name].cat.codes for name in ("place", "paid")]).astype(float)
    expected, labels = SMOTEN(random_state=1).fit_resample(codes, y)
    X = storage(np.column_stack([np.eye(size)[codes[:, k].astype(int)] for k, size in enumerate((4, 2))]))
    out, y_out = OneHotSMOTENC(((0, 4), (4, 6)), random_state=1).fit_resample(X, y)
    out = out.toarray() if sparse.issparse(out) else out
    assert np.array_equal(y_out, labels)
    assert np.array_equal(np.column_stack([out[:, :4].argmax(axis=1), out[:, 4:].argmax(axis=1)]), expected)


def test_whole_numbers_and_booleans_of_a_frame_become_floats_and_keep_their_names():
    frame, y = categories()
    X = pd.get_dummies(frame.drop(columns="c").assign(a=np.arange(len(y)), b=np.arange(len(y)) % 7))
    out, _ = OneHotSMOTENC(((2, 6), (6, 8)), random_state=0).fit_resample(X, y)
    assert list(out.columns) == list(X.columns) and set(out.dtypes) == {np.dtype(float)}
    assert (out["a"] % 1 != 0).any()
    assert set(np.unique(out.iloc[:, 2:])) == {0.0, 1.0}


@pytest.mark.parametrize(
    ("blocks", "words"),
    [
        (((1, 5), (4, 9)), r"do not overlap, out of 9, got \(4, 9\)"),
        (((1, 5), (7, 10)), r"out of 9, got \(7, 10\)"),
        (((5, 5),), r"got \(5, 5\)"),
        (((-2, 1),), r"got \(-2, 1\)"),
        ((1, 5), r"pairs of columns \(start, stop\), got \(1, 5\)"),
        (((1, 2, 3),), "pairs of columns"),
        ((("place", "paid"),), "pairs of columns"),
        (((0, 5),), "one-hot columns from 0 up to 5, got rows that are not 0 but for one 1"),
        (((1, 4),), "one-hot columns from 1 up to 4"),  # the fourth place is left out: some rows have none
        (((1, 5), (5, 9)), "one-hot columns from 5 up to 9"),
    ],
)
@pytest.mark.parametrize("storage", [np.asarray, sparse.csr_array])
def test_blocks_that_are_no_one_hot_columns_are_refused(blocks, words, storage):
    frame, y = categories()
    with pytest.raises(ValueError, match=words):
        OneHotSMOTENC(blocks).fit_resample(storage(one_hot(frame)), y)


def test_a_failure_leaves_the_sampler_as_it_was():
    frame, y = categories()
    sampler = OneHotSMOTENC(BLOCKS, random_state=0)
    sampler.fit_resample(one_hot(frame), y)
    before = vars(sampler).copy()
    with pytest.raises(ValueError, match="one-hot columns"):
        sampler.fit_resample(2.0 * one_hot(frame), y)
    assert vars(sampler) == before
