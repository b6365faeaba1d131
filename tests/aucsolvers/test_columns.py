"""Text columns: what counts as missing, and that a row is read alike whatever rows come with it."""

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from aucsolvers import TextImputer
from aucsolvers.columns import plain_column, plain_columns


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


def test_texts_that_differ_stay_apart():
    """A zero byte ends a text in C, and half a surrogate pair is none in UTF-8."""
    column = np.array([["\0"], [""], ["\ud800"], ["\ud801"], [None], [np.nan], [" a "]], dtype=object)
    told = ["\0", "(missing)", "\ud800", "\ud801", "(missing)", "(missing)", "a"]
    assert TextImputer().fit_transform(column).ravel().tolist() == told


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


def test_a_gap_has_one_bit_pattern():
    """That of 0/0 on x86 is another than NumPy's, and keys of rows would tell them apart."""
    other = np.uint64(0xFFF8000000000000).view(np.float64)
    for column in (pd.Series([1.0, other]), pd.Series([1.0, other]).astype("float32")):
        assert plain_column(column).view(np.uint64)[1] == np.float64("nan").view(np.uint64)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_objects_that_are_all_times_are_times(zone):
    """Of a row that was cut out of a frame, nanoseconds were taken for seconds."""
    times = pd.Series(pd.to_datetime(["2020-01-01 12:00", None, "1969-12-31 00:00"])).dt.tz_localize(zone)
    want = plain_column(times)
    assert want[0] == (1577880000.0 if zone != "Europe/Berlin" else 1577876400.0)
    plain = [None if pd.isna(time) else time.to_pydatetime() for time in times]
    for objects in (times.astype(object), pd.Series(plain, dtype=object)):
        assert np.array_equal(plain_column(objects), want, equal_nan=True)
    lengths = pd.Series(pd.to_timedelta(["1 days", None, "-1 s"]))
    assert np.array_equal(plain_column(lengths.astype(object)), [86400.0, np.nan, -1.0], equal_nan=True)


@pytest.mark.parametrize(
    "values",
    [pd.period_range("2020", periods=2), pd.interval_range(0, 2), [1 + 1j, 2j], [[1.0], [2.0]], [date(2020, 1, 1)] * 2],
    ids=["period", "interval", "complex", "list", "date"],
)
def test_what_is_neither_number_nor_time_stays_objects(values):
    plain = plain_columns(pd.DataFrame({"x": pd.Series(list(values), dtype=object), "y": pd.Series(values)}))
    assert set(plain.dtypes) == {np.dtype(object)}


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.timestamp("us", "Europe/Berlin"), datetime(2020, 1, 1, 12, tzinfo=UTC), 1577880000.0),
        (pa.timestamp("ns"), datetime(2020, 1, 1, 12), 1577880000.0),
        (pa.duration("ms"), timedelta(days=1), 86400.0),
        (pa.date32(), date(2020, 1, 1), date(2020, 1, 1)),
        (pa.dictionary(pa.int32(), pa.string()), "north", "north"),
        (pa.bool_(), True, 1.0),
        (pa.decimal128(5, 2), Decimal("1.5"), 1.5),
    ],
)
def test_columns_that_arrow_keeps_are_read_as_those_of_pandas(kind, value, expected):
    first, gap = plain_column(pd.Series([value, None], dtype=pd.ArrowDtype(kind)))
    assert first == expected and isinstance(first, type(expected))
    assert pd.isna(gap)


def test_a_column_that_is_there_twice_is_named():
    with pytest.raises(ValueError, match="Expected each column once, got 'a' more than once"):
        plain_columns(pd.DataFrame(np.zeros((2, 3)), columns=["a", "b", "a"]))


def test_a_moment_is_one_number_in_every_zone():
    utc = pd.Series(
        pd.to_datetime(["2024-07-01 12:00", "1969-12-31 23:59:59.5", None], format="ISO8601")
    ).dt.tz_localize("UTC")
    expected = plain_column(utc)
    assert expected[:2].tolist() == [1719835200.0, -0.5] and np.isnan(expected[2])
    for zone in ("Asia/Tokyo", "America/New_York"):
        assert np.array_equal(plain_column(utc.dt.tz_convert(zone)), expected, equal_nan=True)
