"""Text columns: what counts as missing, and that a row is read alike whatever rows come with it."""

import numpy as np
import pandas as pd
import pytest

from aucsolvers import TextImputer
from aucsolvers.columns import plain_column


@pytest.mark.parametrize("missing", [None, np.nan, pd.NA, pd.NaT, "", "  "])
def test_every_kind_of_missing_is_one_word(missing):
    column = np.array([["north"], [missing]], dtype=object)
    assert TextImputer("?").fit_transform(column).tolist() == [["north"], ["?"]]


def test_a_text_does_not_depend_on_the_rows_beside_it():
    # equal to Python, and one value to a hash table, but written differently
    column = np.array([[1], [True], [1.0], ["1"], [0.0], [-0.0]], dtype=object)
    imputer = TextImputer().fit(column)
    alone = [imputer.transform(column[i : i + 1]).item() for i in range(len(column))]
    assert imputer.transform(column).ravel().tolist() == alone == ["1", "True", "1.0", "1", "0.0", "-0.0"]


def test_columns_keep_their_names_and_no_rows_are_no_trouble():
    frame = pd.DataFrame({"place": ["north ", None], "colour": ["red", "blue"]})
    imputer = TextImputer().fit(frame)
    assert imputer.get_feature_names_out().tolist() == ["place", "colour"]
    assert imputer.transform(frame).tolist() == [["north", "red"], ["(missing)", "blue"]]
    assert imputer.transform(frame.iloc[:0]).shape == (0, 2)


def test_columns_are_those_of_the_fit():
    """In another order they got each other's names."""
    imputer = TextImputer().fit(pd.DataFrame({"a": ["x"], "b": ["y"]}))
    with pytest.raises(ValueError, match="feature names"):
        imputer.transform(pd.DataFrame({"b": ["bb"], "a": ["aa"]}))
    with pytest.raises(ValueError, match="3 features"):
        TextImputer().fit(np.full((2, 2), "x", dtype=object)).transform(np.full((2, 3), "x", dtype=object))
    assert TextImputer().fit_transform([["x ", None]]).tolist() == [["x", "(missing)"]]


def test_the_two_zeros_are_one_value():
    for column in (pd.Series([-0.0, 0.0]), pd.Series([-0.0, 0.0], dtype="Float64")):
        assert not np.signbit(plain_column(column)).any()


def test_a_moment_is_one_number_in_every_zone():
    utc = pd.Series(
        pd.to_datetime(["2024-07-01 12:00", "1969-12-31 23:59:59.5", None], format="ISO8601")
    ).dt.tz_localize("UTC")
    expected = plain_column(utc)
    assert expected[:2].tolist() == [1719835200.0, -0.5] and np.isnan(expected[2])
    for zone in ("Asia/Tokyo", "America/New_York"):
        assert np.array_equal(plain_column(utc.dt.tz_convert(zone)), expected, equal_nan=True)
