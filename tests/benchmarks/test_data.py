"""The data sets: read once, absent ones named, both forms as the parts expect them."""

import numpy as np
from scipy import sparse

from benchmarks.data import LOADERS, QUICK, Shelf


def test_sets_that_are_absent_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("AUCFLOW_MIRROR", f"file://{tmp_path}")
    shelf = Shelf()
    assert [data.name for data in shelf.take()] == ["breast cancer", "digits"]
    assert set(shelf.skipped) == set(LOADERS) - {"breast cancer", "digits"}
    assert "letter.scale" in shelf.skipped["letter"]


def test_a_set_is_read_once_and_stays_the_same_object():
    shelf = Shelf()
    assert next(shelf.take("digits")) is next(shelf.take("digits"))


def test_a_quick_run_takes_the_quick_sets_only(mirror):
    assert [data.name for data in Shelf(quick=True).take()] == [name for name in LOADERS if name in QUICK]


def test_rows_and_labels_are_as_both_sides_need_them(mirror):
    for data in Shelf().take("breast cancer", "letter", "a9a"):
        assert set(np.unique(data.y)) == {-1.0, 1.0}
        assert (data.y > 0).sum() < (data.y < 0).sum()
        assert data.X.dtype == np.float64
        if sparse.issparse(data.X):
            assert data.X.indices.dtype == np.int32
        else:
            assert data.X.flags.c_contiguous
        assert data.head(100).X.shape[0] == 100
        assert data.head(10**9) is data
