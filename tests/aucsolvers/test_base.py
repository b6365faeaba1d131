"""What every solver shares: arrays that are taken as they are, and all that must not slip through with them."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from aucsolvers import LSSVM, LinearSVM, _base

FORMS = [np.ascontiguousarray, sparse.csr_array, sparse.csr_matrix]


def rows():
    X = np.random.default_rng(0).normal(size=(40, 3)) * (np.arange(3) < 2)
    return X, np.where(X[:, 0] > 0, 1, -1)


@pytest.fixture
def no_checks(monkeypatch):
    """scikit-learn's checks, which would read all values again, must not be asked for."""

    def refuse(*_, **__):
        raise AssertionError("checked by scikit-learn")

    monkeypatch.setattr(_base, "validate_data", refuse)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_plain_arrays_are_taken_as_they_are(no_checks, form, dtype):
    X, y = rows()
    X = form(X.astype(dtype))
    svm = LinearSVM(random_state=0)
    taken, _ = svm._validate_fit(X, y, dtype=(np.float64, np.float32))
    assert taken is X and svm.n_features_in_ == 3
    assert_array_equal(svm.classes_, [-1, 1])


@pytest.mark.parametrize("form", FORMS)
def test_what_skips_the_checks_gives_the_model_that_passes_them(form, monkeypatch):
    X, y = rows()
    skipped = LinearSVM(random_state=0).fit(form(X), y)
    monkeypatch.setattr(_base, "_is_plain", lambda *_: False)
    checked = LinearSVM(random_state=0).fit(form(X), y)
    assert_array_equal(skipped.coef_, checked.coef_)


@pytest.mark.parametrize("solver", [LinearSVM(), LSSVM()], ids=str)
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("value", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (1e200, "squared norms overflow")])
def test_no_value_slips_through(solver, form, value, word):
    X, y = rows()
    X[7, 1] = value
    with pytest.raises(ValueError, match=word):
        solver.fit(form(X), y)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("X", "y", "refused"),
    [
        (np.ones((4, 2)), [0, 1, 0], "inconsistent numbers of samples"),
        (np.ones((4, 2)), [0, 1, 2, 1], "expected two classes, got 3"),
        (np.ones((4, 0)), [0, 1, 0, 1], "0 feature"),
        (np.ones((4, 2)), [[0], [1], [0], [1]], None),  # a column of labels is flattened
        (np.ones((4, 2), dtype=int), [0, 1, 0, 1], None),  # whole numbers become floating-point ones
    ],
)
def test_all_else_goes_through_the_checks(form, X, y, refused):
    if refused is None:
        taken, labels = LinearSVM()._validate_fit(form(X), np.array(y))
        assert taken.dtype == np.float64 and labels.shape == (4,)
    else:
        with pytest.raises(ValueError, match=refused):
            LinearSVM()._validate_fit(form(X), np.array(y))


@pytest.mark.parametrize("form", FORMS)
def test_zeros_are_rows_too(form):
    taken, _ = LinearSVM()._validate_fit(form(np.zeros((4, 2))), np.array([0, 1, 0, 1]))
    assert taken.shape == (4, 2)


def test_a_sparse_matrix_of_another_kind_is_converted():
    X, y = rows()
    for kind in (sparse.csc_array, sparse.coo_array):
        taken, _ = LinearSVM()._validate_fit(kind(X), y)
        assert taken.format == "csr"
