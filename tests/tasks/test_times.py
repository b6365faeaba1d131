"""Times: models are tested on rows later than those they were trained on, as they will be used."""

import re
from dataclasses import replace
from datetime import date
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks.calibrate import calibration_splits, settle_threshold
from tasks.cell import _test_to_train, compute, divide, plainly
from tasks.check import check
from tasks.configuration import DatasetConfig, ExperimentConfig, MethodConfig
from tasks.convert import convert, load, refuse_roles
from tasks.dates import read_times, readings
from tasks.download import download
from tasks.errors import BadInput
from tasks.manifest import cell_sections, data_section
from tasks.moments import kept, length, read_again, shown
from tasks.report import render_html
from tasks.schema import parse
from tasks.search import inner_splits
from tasks.split import HeldOut, all_rows, later_splits, make_splits, row_keys, span_splits, split
from tasks.values import ConversionRule, ExperimentResult, MethodResult, Split

RULE = ConversionRule("fraud", "yes", time="day")
QUARTER = HeldOut.of(0.25, 3)
FEW = settings(max_examples=80, deadline=None)
DAY = np.timedelta64(1, "D")


def payments(n=600, days=200, seed=0):
    """Return payments of a customer and a day each, shuffled, one in ten of them a fraud."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 0.1
    frame = pd.DataFrame(
        {
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, days, n), unit="D"),
            "customer": rng.integers(0, n // 3, n),
            "amount": (rng.normal(size=n) + fraud).round(6),
            "age": rng.integers(18, 90, n),
            "fraud": np.where(fraud, "yes", "no"),
        }
    )
    return frame.sample(frac=1, random_state=seed, ignore_index=True)


def dataset_of(frame, path, rule=RULE):
    frame.to_csv(path, index=False)
    return convert.fn(download.fn("payments", str(path)), rule)


@pytest.fixture
def dataset(tmp_path):
    return dataset_of(payments(), tmp_path / "payments.csv")


def config_of(**validation):
    return ExperimentConfig.model_validate(
        {
            "datasets": [{"source": "payments.csv", "time": "day"}],
            "methods": ["linear_svm"],
            "validation": {"inner_folds": 3} | validation,
        }
    )


def times_of(values, wanted=None):
    """Return the times of a column of Python objects, as a CSV file of one column has them below its header."""
    wanted = np.ones(len(values), dtype=bool) if wanted is None else np.array(wanted)
    return read_times(pd.Series(values, dtype=object), wanted, "day", "f.csv", lambda row: f"line {row + 2}")


class TestWritten:
    @pytest.mark.parametrize(
        ("texts", "read"),
        [
            (["2024-01-05", "2023-12-31"], ["2024-01-05", "2023-12-31"]),
            (["2024-01-05T10:00:00Z", "2024-01-05 11:00:00+02:00"], ["2024-01-05T10:00", "2024-01-05T09:00"]),
            (["2024-01-05 10:00:00.25", " 2024-01-05 "], ["2024-01-05T10:00:00.250", "2024-01-05"]),
            (["2024-03", "2023-11"], ["2024-03-01", "2023-11-01"]),
            (["2024/3/1", "2024/12/31"], ["2024-03-01", "2024-12-31"]),
            (["05.01.2024", "5.2.2024"], ["2024-01-05", "2024-02-05"]),
            (["05.01.2024 7:05", "5.2.2024 17:05"], ["2024-01-05T07:05", "2024-02-05T17:05"]),
            (["5/13/2024", "1/2/2024"], ["2024-05-13", "2024-01-02"]),  # the one tells of the other
            (["13/5/2024", "1/2/2024"], ["2024-05-13", "2024-02-01"]),
            (["1/25/2024 12:05:09 AM", "1/26/2024 1:00:00 pm"], ["2024-01-25T00:05:09", "2024-01-26T13:00"]),
            (["2024/1/5T13:45:00.5"], ["2024-01-05T13:45:00.500"]),
            (["1/1/2024", "2/2/2024"], ["2024-01-01", "2024-02-02"]),  # both ways are one
            ([pd.Timestamp("2024-01-05T10:00+01:00").to_pydatetime()], ["2024-01-05T09:00"]),
            ([pd.Timestamp("2024-01-05").date()], ["2024-01-05"]),
        ],
    )
    def test_dates_are_read_as_they_are_meant(self, texts, read):
        found = times_of(texts)
        assert found.dtype == "datetime64[us]"
        np.testing.assert_array_equal(found, np.array(read, dtype="datetime64[us]"))

    def test_numbers_stay_numbers(self):
        np.testing.assert_array_equal(times_of(["17", " 18.5 ", "1e3"]), [17.0, 18.5, 1000.0])
        np.testing.assert_array_equal(times_of([2023, 2024]), [2023.0, 2024.0])

    @pytest.mark.parametrize(
        ("texts", "line", "words"),
        [
            (["1/2/2024", "3/4/2024"], 2, "got '1/2/2024', of which month or day may be first"),
            (["5/5/2024", "3/4/2024"], 3, "got '3/4/2024', of which month or day may be first"),
            (["2024-01-05", "soon"], 3, "got 'soon'"),
            (["2024-01-05", "5.1.2024"], 3, "got '5.1.2024' beside '2024-01-05'"),
            (["2024-01-05", "5.1.2024", "6.1.2024"], 2, "got '2024-01-05' beside '5.1.2024'"),
            (["2024-01-05"] * 9 + ["2024/1/6", "7.1.2024"], 11, "got '2024/1/6' beside '2024-01-05'"),
            (["2024-01-05", "5.1.2024", "soon"], 4, "got 'soon'"),
            (["2024-01-05", "17"], 3, "got '17'"),
            (["2024-01", "2024-01-05"], 2, "got '2024-01' beside '2024-01-05'"),
            (["", "1/5/2024", "2/6/2024"], 3, "got '1/5/2024', of which month or day may be first"),
            (["2024-01-05 23:00", "2024-01-05 25:00"], 3, "got '2024-01-05 25:00', which is no date of 1678 to 2261"),
            (["2024-01-05", "9999-12-31"], 3, "got '9999-12-31', which is no date of 1678 to 2261"),
            (["2024-01-05", "2024-02-30"], 3, "got '2024-02-30', which is no date of 1678 to 2261 and no time of day"),
            (["31.12.2024", "31.11.2024"], 3, "got '31.11.2024', which is no date"),
            (["2024-01-05", ""], 3, r"got none \(1 in all\)"),
            (["NA", "17", None], 2, r"got none \(2 in all\)"),
            (["inf", "17"], 2, r"got none \(1 in all\)"),
        ],
    )
    def test_what_is_no_date_is_refused_with_its_line(self, texts, line, words):
        with pytest.raises(BadInput, match=rf"^f.csv, line {line}: expected .* as time 'day', {words}"):
            times_of(texts)

    def test_weeks_and_months_as_numbers_of_a_parquet_file(self):
        for last in (12, 52):
            with pytest.raises(BadInput, match="in the order of time"):
                times_of([float(f"{year}.{part}") for year in (2023, 2024) for part in range(1, last + 1)])
        assert len(times_of([float(f"{year}.{part:02}") for year in (2023, 2024) for part in range(1, 53)])) == 104

    @pytest.mark.parametrize("text", ["{year}.{month}", "{month}.{year}", "{month:02}.{year}"])
    def test_a_year_and_a_month_as_a_number_are_refused(self, text):
        """2024.10 is 2024.1, and before 2024.2."""
        written = [text.format(year=year, month=month) for year in (2023, 2024) for month in range(1, 13)]
        for values in (written, [float(value) for value in written]):
            with pytest.raises(BadInput, match=r"years with months, weeks or days .* Write 2024-01"):
                times_of(values)

    @pytest.mark.parametrize(
        ("values", "words"),
        [
            (["2024.9", "2024.10"], "got 2024.9 and 2024.10: years with months, weeks or days are in another order"),
            (["2024", "2024.9", "2024.10"], "got 2024 and 2024.10: years with months, weeks or days"),
            ([f"2024.{week}" for week in range(1, 53)], "got 2024.1 and 2024.52: years with months, weeks"),
            ([f"2024.{day}" for day in range(1, 120)], "got 2024.1 and 2024.119: years with months, weeks"),
            ([202452, 20251], "got 20251 and 202452: years with"),
            ([12024, 22024, 122023], "got 12024 and 122023: years with"),
            ([1012024, 31122023], "got 1012024 and 31122023: years with"),
            (["01312025", "02012024"], "got 1312025 and 2012024: years with"),
            (
                [1.7e9, 1.7e12],
                "expected one unit of time 'day', got 1700000000 and 1700000000000, which may be seconds",
            ),
        ],
    )
    def test_numbers_in_another_order_than_time_are_refused(self, values, words):
        with pytest.raises(BadInput, match=re.escape(words)):
            times_of([*map(str, values)])
        if not isinstance(values[0], str):
            with pytest.raises(BadInput, match=r"expected (numbers in the order|one unit) of time"):
                times_of(values)

    def test_times_of_day_are_all_of_a_zone_or_none(self):
        with pytest.raises(
            BadInput, match="line 3: expected a time zone in every 'day', or in none, got '2024-01-05 11:00'"
        ):
            times_of(["2024-01-05T10:00Z", "2024-01-05 11:00", "2024-01-05"])
        assert len(times_of(["2024-01-05T10:00-01:00", "2024-01-05"])) == 2, "a day has no hour to be of a zone"

    @given(st.lists(st.dates(date(1990, 1, 1), date(2050, 12, 31)), min_size=2, max_size=50))
    @FEW
    def test_days_as_numbers_go_where_their_order_is_that_of_time(self, days):
        """YYYYMMDD, YYYYMM, days since 1900 and seconds go; DDMMYYYY goes if it is in order, as within a month."""
        days = sorted(days)
        for form in ("%Y%m%d", "%Y%m"):
            assert (np.diff(times_of([int(day.strftime(form)) for day in days])) >= 0).all()
        for year, unit in ((1900, 1), (1970, 86_400), (1970, 86_400_000)):
            since = [(day - date(year, 1, 1)).days * unit for day in days]
            assert times_of(since).tolist() == since
        for form in ("%d%m%Y", "%m%d%Y", "%m%Y", "%Y%-m"):
            written = [int(day.strftime(form)) for day in days]
            if (np.diff(written) >= 0).all():
                assert times_of(written).tolist() == written
            elif max(day.day for day in days) > 12 or form in ("%m%Y", "%Y%-m"):  # else it may be the other of the two
                with pytest.raises(BadInput, match="in the order of time"):
                    times_of(written)

    @pytest.mark.parametrize(
        "values",
        [
            [f"{year}.{month:02}" for year in (2023, 2024) for month in range(1, 13)],
            [2024.1, 2024.2, 2024.3, 2024.4],  # quarters
            [2023.75, 2024.1],
            [2023, 2024],
            [1.25, 2.2],
            [1.1234567, 1.2],
            ["2024.25", "2024.5"],
            ["2024.1", "2024.25", "2024.50"],
            ["2019.5", "2019.50", "2019.75"],
            [1012024, 2152024, 12312024],
            [20241, 20249, 202410],
            [12_000, 22_000, 32_000, 42_000],
            [1010.1, 1011.11, 2500.2],
            [41_900, 42_000, 42_099],  # days since 1900, with four digits behind that might be years
            [20_500, 21_000, 190_500],
            [1e8, 2e9],
            [0, 5e7, 1.1e8, 4e10],  # of a machine that stood still for a night
            [1.2, 2.19],
            [-1e308, 1e308],
        ],
    )
    def test_numbers_in_the_order_of_time_are_times(self, values):
        found = times_of(values)
        assert found.tolist() == [float(value) for value in values]

    def test_the_first_that_is_no_date_is_found_among_many(self):
        texts = [f"2024-01-05 {i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}" for i in range(80_000)] + ["soon"]
        with pytest.raises(BadInput, match=r"line 80002: .* got 'soon'"):
            times_of(texts)

    def test_the_line_is_that_of_the_row_and_not_of_the_value(self):
        with pytest.raises(BadInput, match=r"line 1002: .* got 'soon'"):
            times_of(["2024-01-05", "2024-01-06"] * 500 + ["soon", "later", "soon"])
        with pytest.raises(BadInput, match=r"line 1003: .* got none"):
            times_of(["2024-01-05", "2024-01-06"] * 500 + ["2024-01-07", "", "2024-01-05"])
        again = times_of(["2024-01-06", "2024-01-05", "2024-01-06"] * 400)
        assert again.astype("M8[D]").astype(str).tolist() == ["2024-01-06", "2024-01-05", "2024-01-06"] * 400

    def test_rows_that_are_not_wanted_may_have_anything(self):
        assert times_of(["2024-01-05", "soon", None], [True, False, False])[0] == np.datetime64("2024-01-05")

    def test_what_a_day_may_be_is_one_or_two(self):
        assert len(readings(pd.Series(["1/2/2024"]))) == 2 and len(readings(pd.Series(["2024-01-02"]))) == 1
        assert readings(pd.Series(["1/2/24"])) == [] and readings(pd.Series([None], dtype=object)) == []

    @given(st.datetimes(min_value=pd.Timestamp("1700-01-01"), max_value=pd.Timestamp("2200-01-01")))
    @FEW
    def test_json_gives_back_what_it_was_given(self, moment):
        for one in (np.datetime64(moment, "us"), np.float64(moment.toordinal())):
            again = read_again(kept(one))
            assert again == one and again.dtype == one.dtype
        assert shown(np.datetime64(moment, "us"))[:10] == moment.strftime("%Y-%m-%d")


class TestColumn:
    def test_it_is_no_feature_and_a_file_to_score_may_have_it_or_not(self, dataset):
        assert dataset.columns == ("customer", "amount", "age") and dataset.layout.left_out == ("day",)
        assert dataset.provenance.rule.endswith("; divided by 'day', tested on later rows")

    def test_files_of_all_formats_have_one_time(self, tmp_path):
        frame = payments()
        day = frame["day"]
        columns = [day.astype(kind) for kind in ("datetime64[ns]", "datetime64[s]", "str", "category")]
        columns += [day.dt.tz_localize("UTC"), day.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"), day.dt.date]
        written = [dataset_of(frame, tmp_path / "a.csv")]
        for i, column in enumerate(columns):
            frame.assign(day=column).to_parquet(tmp_path / f"{i}.parquet")
            written.append(convert.fn(download.fn("payments", str(tmp_path / f"{i}.parquet")), RULE))
        assert {one.sha256 for one in written} == {written[0].sha256}
        np.testing.assert_array_equal(load(written[-1]).times, frame["day"].to_numpy("datetime64[us]"))

    def test_it_is_part_of_the_digest_and_of_the_manifest(self, tmp_path, dataset):
        frame = payments()
        other = dataset_of(frame.assign(day=frame["day"] + pd.Timedelta(days=1)), tmp_path / "other.csv")
        plain = convert.fn(dataset.raw, ConversionRule("fraud", "yes", drop=("day",)))
        for one in (other, plain):
            assert (one.X_sha256, one.y_sha256) == (dataset.X_sha256, dataset.y_sha256)
            assert one.sha256 != dataset.sha256
        assert data_section(dataset)["conversion"]["time"] == "day"
        assert not {"time", "gap"} & set(data_section(plain)["conversion"]), "earlier manifests have none"
        apart = convert.fn(dataset.raw, replace(RULE, gap="30d"))
        assert apart.sha256 == dataset.sha256 and data_section(apart)["conversion"]["gap"] == "30d"
        assert apart.provenance.rule == f"{dataset.provenance.rule}, later by 30d or more"

    def test_decimal_commas_and_thousands(self, tmp_path):
        """Of a file with 0,5 nobody can tell whether 1.000 comes before 2."""
        frame = payments().assign(day=np.arange(600) / 4 + 990)
        frame.to_csv(tmp_path / "a.csv", sep=";", decimal=",", index=False)
        dataset = convert.fn(download.fn("payments", str(tmp_path / "a.csv")), RULE)
        np.testing.assert_array_equal(load(dataset).times, frame["day"])
        frame["day"] = [f"{day:,.0f}".replace(",", ".") for day in frame["day"]]
        frame.to_csv(tmp_path / "b.csv", sep=";", decimal=",", index=False)
        with pytest.raises(BadInput, match=r"one decimal mark in column 'day', got dots as in 1\.234, which"):
            convert.fn(download.fn("payments", str(tmp_path / "b.csv")), RULE)

    def test_rows_that_are_left_out_take_their_times_along(self, tmp_path):
        frame = payments().astype({"day": str})
        frame.loc[::3, ["day", "fraud"]] = "unknown"
        rule = ConversionRule("fraud", conversion="class_groups", groups=(("yes",), ("no",)), time="day")
        table = load(dataset_of(frame, tmp_path / "some.csv", rule))
        wanted = pd.to_datetime(frame.loc[frame["fraud"] != "unknown", "day"]).to_numpy("datetime64[us]")
        np.testing.assert_array_equal(table.times, wanted)

    def test_what_is_no_time_is_refused(self, tmp_path):
        frame = payments()
        with pytest.raises(BadInput, match=r"expected a time out of .*got 'dya'. Did you mean 'day'\?"):
            dataset_of(frame, tmp_path / "a.csv", ConversionRule("fraud", "yes", time="dya"))
        with pytest.raises(BadInput, match="that tells which rows are later, got time 'fraud': that is the target"):
            dataset_of(frame, tmp_path / "a.csv", ConversionRule("fraud", "yes", time="fraud"))
        with pytest.raises(BadInput, match="expected one column 'day' as time, got 2"):
            two = frame.rename(columns={"age": "day"})
            dataset_of(two, tmp_path / "a.csv")
        (tmp_path / "rows.svm").write_text("1 1:1\n-1 2:1\n" * 5)
        with pytest.raises(BadInput, match="svmlight has no columns' names"):
            refuse_roles(convert.fn(download.fn("rows", str(tmp_path / "rows.svm")), ConversionRule(time="day")))

    def test_a_config_says_it_once(self):
        assert parse(DatasetConfig, {"source": "a.csv", "time": " day "}, "c").time == "day"
        assert parse(DatasetConfig, {"source": "catalogue:wine", "time": "x"}, "c").published_key is None
        for tree, words in (
            ({"time": " "}, "expected a column's name, got blanks. Name it, or leave time out"),
            ({"time": "day", "drop": ["day"]}, "Expected the time 'day' outside of drop"),
            ({"time": "day", "group": "day"}, "Expected two columns as group and time"),
            ({"gap": "30d"}, "Expected a time with the gap 30d, got none"),
            ({"gap": 7}, "Expected a time with the gap 7, got none"),
        ):
            with pytest.raises(BadInput, match=words):
                parse(DatasetConfig, {"source": "a.csv"} | tree, "c")
        with pytest.raises(ValueError, match="Expected repeats: 1 with the time of payments, got 2"):
            config_of(repeats=2)


class TestGap:
    @pytest.mark.parametrize(
        ("given", "meant"),
        [("30d", "30d"), (" 12h ", "12h"), ("90 min", "90 min"), (7, 7.0), ("7.5", 7.5), (None, None)],
    )
    def test_a_config_has_a_length_of_time_or_a_number(self, given, meant):
        found = parse(DatasetConfig, {"source": "a.csv", "time": "day", "gap": given}, "c")
        assert found.gap == meant and type(found.gap) is type(meant)
        assert parse(DatasetConfig, {"source": "catalogue:wine", "time": "x", "gap": given}, "c").published_key is None

    @pytest.mark.parametrize(
        "given",
        ["a month", "", "0d", "-3d", "9999999d", 0, -1, "-1", True, "nan", ".inf", "1e400", [], 10**400],
    )
    def test_what_is_no_length_is_refused(self, given):
        with pytest.raises(BadInput, match=r"gap: expected a length of time such as 30d, 12h, .* got '"):
            parse(DatasetConfig, {"source": "a.csv", "time": "day", "gap": given}, "c")

    def test_lengths_are_what_pandas_takes_them_for(self):
        for text in ("30d", "2w", "12h", "90min", "45s", "1.5h", "0.25 d"):
            assert length(text) == pd.Timedelta(text).to_timedelta64()

    @pytest.mark.parametrize(
        ("day", "gap", "words"),
        [
            (
                "date",
                30.0,
                "expected a gap with a unit, such as 30d, for 'day' has dates; got 30. Write it as the column",
            ),
            ("number", "30d", "expected a number as gap, for 'day' has numbers; got 30d. Write it as the column"),
        ],
    )
    def test_it_is_counted_as_the_column_counts_time(self, tmp_path, day, gap, words):
        frame = payments()
        frame["day"] = frame["day"] if day == "date" else frame["day"].dt.dayofyear
        with pytest.raises(BadInput, match=words):
            dataset_of(frame, tmp_path / "a.csv", replace(RULE, gap=gap))

    @pytest.mark.parametrize("form", ["%Y%m%d", "%Y%m", "%Y%m%d%H"])
    def test_numbers_whose_differences_are_no_days_have_none(self, tmp_path, form):
        frame = payments()
        frame["day"] = frame["day"].dt.strftime(form).astype(int)
        assert dataset_of(frame, tmp_path / "a.csv").n_rows == 600
        with pytest.raises(BadInput, match=r"expected dates as time 'day' with a gap, got numbers such as 2024"):
            dataset_of(frame, tmp_path / "a.csv", replace(RULE, gap=30.0))

    @given(
        st.lists(st.tuples(st.integers(0, 30), st.booleans()), min_size=8, max_size=80),
        st.integers(1, 12),
        st.booleans(),
        st.sampled_from([later_splits, span_splits]),
    )
    @FEW
    def test_no_row_that_trains_is_near_one_that_is_tested(self, rows, gap, dated, divide):
        """And all others train that would without a gap; the rows tested are the same."""
        moments, positive = np.array(rows).T
        y, apart = np.where(positive, 1, -1), gap
        times = moments.astype(float)
        if dated:
            times, apart = np.datetime64("2024-01-01", "us") + moments * DAY, gap * DAY
        try:
            whole = divide(y, 2, times)
        except BadInput:
            return
        kept = [[i for i in part.train if min(abs(moments[i] - moments[part.test])) >= gap] for part in whole]
        kept = [
            [i for i in train if moments[i] <= moments[part.test].min() or moments[i] >= moments[part.test].max()]
            for train, part in zip(kept, whole, strict=True)
        ]
        if any(len(set(y[train])) < 2 for train in kept):
            with pytest.raises(BadInput, match="Use fewer folds, a shorter gap, a finer time"):
                divide(y, 2, times, None, apart)
            return
        for part, one, train in zip(divide(y, 2, times, None, apart), whole, kept, strict=True):
            np.testing.assert_array_equal(part.test, one.test)
            np.testing.assert_array_equal(part.train, train)

    def test_it_stands_between_all_that_trains_and_is_tested(self, tmp_path):
        """Folds, the last model and the rows held out, and inner folds; with groups, too."""
        for group in (None, "customer"):
            rule = replace(RULE, gap="10d", group=group)
            dataset = dataset_of(payments(2000), tmp_path / "payments.csv", rule)
            table, refit = load(dataset), all_rows(dataset, QUARTER)
            parts = split.fn(dataset, 3, 1, 5, False, QUARTER)
            for part in (*parts, refit):
                assert table.times[part.test].min() - table.times[part.train].max() == 10 * DAY
            assert all(table.times[part.test].max() <= table.times[refit.test].min() - 10 * DAY for part in parts)
            inside = table.rows(refit.train)
            for divide_ in (inner_splits, calibration_splits):
                for part in divide_(inside, config_of()):
                    near = abs(inside.times[part.train][:, None] - inside.times[part.test]).min()
                    assert near == 10 * DAY
        short = table.rows(np.flatnonzero(table.times < np.datetime64("2024-01-15")))
        for divide_ in (inner_splits, calibration_splits):
            for part in divide_(short, config_of()):
                assert np.ptp(short.times[part.test]) < 10 * DAY, "two weeks go into spans without a gap of ten days"
        alone = all_rows(convert.fn(dataset.raw, replace(RULE, gap="10d")))
        assert len(alone.train) == 2000, "the last model is trained on all rows where none is held out"

    def test_folds_that_it_leaves_nothing_to_are_refused(self, tmp_path):
        dataset = dataset_of(payments(), tmp_path / "a.csv", replace(RULE, gap="150d"))
        with pytest.raises(BadInput, match=r"that may train for those tested .* Use fewer folds, a shorter gap,"):
            split.fn(dataset, 3, 1, 0)
        words = "beside the 25% held out, or in the gap before them, got 0 positive .* held_out, a shorter gap"
        with pytest.raises(BadInput, match=words):
            split.fn(dataset, 3, 1, 0, False, QUARTER)

    def test_a_finding_tells_how_many_rows_it_takes(self, tmp_path):
        dataset = dataset_of(payments(2000), tmp_path / "payments.csv", replace(RULE, gap="10d"))
        (found,) = (f for f in check.fn(dataset, 3, 1, 0, False, QUARTER) if f.kind == "time")
        times, taken = load(dataset).times, []
        for part in split.fn(dataset, 3, 1, 0, False, QUARTER):
            first = times[part.test].min()
            taken.append(((times > first - 10 * DAY) & (times < first)).sum())
        words = (
            f"With a gap of 10d, {min(taken)} to {max(taken)} rows before those that a fold tests train nothing for it."
        )
        assert words in found.message and min(taken) > 50


def later(times, *parts):
    """Tell whether all rows of each part are later than all of the part before it."""
    return all(times[one].max() < times[other].min() for one, other in pairwise(parts))


class TestDivisions:
    def test_every_fold_is_tested_on_what_came_after_it(self, dataset):
        table, refit = load(dataset), all_rows(dataset, QUARTER)
        parts = split.fn(dataset, 4, 1, 5, False, QUARTER)
        assert len(parts) == 4
        for part, following in pairwise(parts):
            assert later(table.times, part.train, part.test, refit.test)
            np.testing.assert_array_equal(following.train, np.sort([*part.train, *part.test]))
        np.testing.assert_array_equal(refit.train, np.sort([*parts[-1].train, *parts[-1].test]))
        fraud = [(table.y[part.test] > 0).sum() for part in parts]
        assert max(fraud) - min(fraud) <= 3, "days have few frauds"

    @given(
        st.lists(st.tuples(st.integers(0, 9), st.booleans()), min_size=4, max_size=60),
        st.integers(1, 4),
        st.booleans(),
    )
    @FEW
    def test_spans_end_where_their_share_of_the_rarer_class_has_come(self, rows, folds, dated):
        moments, positive = np.array(rows).T
        times = np.datetime64("2024-01-01", "us") + moments if dated else moments.astype(float)
        y = np.where(positive, 1, -1)
        rare = moments[y == (1 if (y > 0).sum() <= (y < 0).sum() else -1)]
        ends, known = [], sorted(set(rare))
        for i in range(1, folds + 1):
            shares = {end: abs((rare <= end).sum() - i * len(rare) / (folds + 1)) for end in known[i - 1 :]}
            open_ = [end for end in shares if (not ends or end > ends[-1]) and (rare > end).sum()]
            open_ = [end for end in open_ if sum(later > end for later in known) >= folds + 1 - i]
            ends += [min(open_, key=shares.get)] if open_ else []
        spans = np.array([sum(moment > end for end in ends) for moment in moments])
        wanted = [(np.flatnonzero(spans < i), np.flatnonzero(spans == i)) for i in range(1, folds + 1)]
        if len(known) > folds and all(len(set(y[part])) == 2 for pair in wanted for part in pair):
            for one, (train, test) in zip(later_splits(y, folds, times), wanted, strict=True):
                np.testing.assert_array_equal(one.train, train)
                np.testing.assert_array_equal(one.test, test)
        else:
            with pytest.raises(BadInput, match=f"either side of {folds} divisions|for {folds + 1} spans of time"):
                later_splits(y, folds, times)

    def test_training_rows_are_divided_into_spans_of_which_each_is_tested_once(self, dataset):
        table = load(dataset)
        train = table.rows(split.fn(dataset, 4, 1, 5)[-1].train)
        for divide_ in (inner_splits, calibration_splits):
            parts = divide_(train, config_of())
            assert later(train.times, *(part.test for part in parts)) and len(parts) == 3
            for part in parts:
                np.testing.assert_array_equal(np.sort([*part.train, *part.test]), np.arange(len(train.y)))

    def test_rows_of_too_few_times_are_divided_as_if_they_had_none(self, tmp_path):
        """Else nothing would be searched in a fold that trains on the first month alone, and nobody would know."""
        frame = payments(900)
        dataset = dataset_of(frame.assign(day=frame["day"].dt.strftime("%Y-%m")), tmp_path / "months.csv")
        table = load(dataset)
        parts = split.fn(dataset, 6, 1, 5)
        one = table.rows(parts[0].train)
        assert len(np.unique(one.times)) == 1
        for divide_ in (inner_splits, calibration_splits):
            inner = divide_(one, config_of())
            assert len(inner) == 3 and sorted(i for part in inner for i in part.test) == list(range(len(one.y)))
            assert all(len(np.unique(one.y[rows])) == 2 for part in inner for rows in (part.train, part.test))
            two = divide_(table.rows(parts[1].train), config_of())
            assert len(two) == 2, "two months are two spans"

    def test_a_customer_who_is_tested_trains_nothing(self, tmp_path):
        """With group and time there are both: later rows, of others."""
        rule = ConversionRule("fraud", "yes", group="customer", time="day")
        dataset = dataset_of(payments(1500), tmp_path / "payments.csv", rule)
        table, refit = load(dataset), all_rows(dataset, QUARTER)
        for outer in split.fn(dataset, 2, 1, 0):
            inside = table.rows(outer.train)
            parts = inner_splits(inside, config_of())
            assert len(parts) == 3
            assert not any(np.isin(inside.groups[part.train], inside.groups[part.test]).any() for part in parts)
        for part in (*split.fn(dataset, 3, 1, 0, False, QUARTER), refit):
            assert not set(table.groups[part.train].tolist()) & set(table.groups[part.test].tolist())
            assert later(table.times, part.train, part.test)
        alone = later_splits(table.y, 3, table.times)
        for one, part in zip(alone, split.fn(dataset, 3, 1, 0), strict=True):
            np.testing.assert_array_equal(one.test, part.test)
            gone = np.setdiff1d(one.train, part.train)
            assert set(table.groups[gone].tolist()) <= set(table.groups[part.test].tolist())

    def test_a_copy_of_a_row_that_is_tested_trains_nothing_where_copies_stay_together(self, tmp_path):
        frame = payments()
        again = frame[:100].assign(day=pd.Timestamp("2024-07-01"))
        dataset = dataset_of(pd.concat([frame, again]), tmp_path / "copies.csv")
        keys = row_keys(load(dataset).X)
        for grouped in (False, True):
            parts = (*split.fn(dataset, 3, 1, 0, grouped, QUARTER), all_rows(dataset, QUARTER, grouped))
            assert any(np.isin(keys[part.train], keys[part.test]).any() for part in parts) != grouped

    @given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.sampled_from([0.1, 0.25, 0.5]))
    @FEW
    def test_the_newest_are_held_out_as_nearly_their_share_as_days_allow(self, days, share):
        times = np.array(days, dtype=float)
        out = HeldOut(share, 1).rows(pd.DataFrame({"a": times}), None, times)
        if len(set(days)) == 1:
            assert not out.any(), "one day is not divided"
            return
        assert later(times, ~out, out) and out.any() and not out.all()
        best = min(abs((times > day).sum() - share * len(times)) for day in sorted(set(days))[:-1])
        assert abs(out.sum() - share * len(times)) == best
        assert not HeldOut().rows(pd.DataFrame({"a": times}), None, times).any()

    def test_one_day_and_days_without_a_fraud_are_refused(self, tmp_path):
        frame = payments()
        with pytest.raises(
            BadInput, match=r"^payments: Expected rows of the rarer class at 4 times or more, .* got 1\."
        ):
            split.fn(dataset_of(frame.assign(day="2024-01-01"), tmp_path / "a.csv"), 3, 1, 0)
        fraud = frame["fraud"] == "yes"
        frame["day"] = np.where(fraud, frame["day"].dt.strftime("%Y-%m-%d"), "2024-07-30")
        with pytest.raises(
            BadInput, match=r"positive and 0 negative tested from 2024-\S+ to 2024-\S+\. Use fewer folds"
        ):
            split.fn(dataset_of(frame, tmp_path / "b.csv"), 2, 1, 0)
        with pytest.raises(BadInput, match=r"25% held out, got 0 positive of 0\. All are of one time: give a finer"):
            all_rows(dataset_of(payments().assign(day=7), tmp_path / "c.csv"), QUARTER)
        with pytest.raises(
            BadInput, match=r"newest, from 2024-06-\S+ on\. If their labels are not in yet, leave them out of the file"
        ):
            frame = payments()
            frame["fraud"] = frame["fraud"].where(frame["day"] < "2024-04-01", "no")
            all_rows(dataset_of(frame, tmp_path / "d.csv"), QUARTER)

    def test_the_order_of_the_file_does_not_count(self, tmp_path, dataset):
        turned = dataset_of(payments()[::-1], tmp_path / "turned.csv")
        last = dataset.n_rows - 1
        for one, other in zip(split.fn(dataset, 3, 1, 0), split.fn(turned, 3, 1, 99), strict=True):
            np.testing.assert_array_equal(one.test, np.sort(last - other.test))


class TestUse:
    def test_a_model_that_clings_to_its_time_is_found_out(self, tmp_path):
        """Frauds of one week are alike and those of the next are not: random folds have some of each week."""
        rng = np.random.default_rng(2)
        n, week = 1200, np.sort(rng.integers(0, 40, 1200))
        fraud = rng.random(n) < 0.25
        centre = rng.normal(scale=4, size=(40, 3))[week]
        X = np.where(fraud[:, None], centre, -centre) + rng.normal(size=(n, 3))
        frame = pd.DataFrame(X, columns=list("abc")).assign(day=week, fraud=np.where(fraud, "yes", "no"))
        dataset = dataset_of(frame, tmp_path / "weeks.csv")
        table = load(dataset)

        def area(parts):
            from sklearn.metrics import roc_auc_score
            from sklearn.neighbors import KNeighborsClassifier

            found = []
            for part in parts:
                near = KNeighborsClassifier(5).fit(table.X.iloc[part.train], table.y[part.train])
                found.append(roc_auc_score(table.y[part.test], near.predict_proba(table.X.iloc[part.test])[:, 1]))
            return np.mean(found)

        assert area(make_splits(table.y, 5, 1, 0)) > 0.8
        for parts in (split.fn(dataset, 5, 1, 0), span_splits(table.y, 5, table.times)):
            assert abs(area(parts) - 0.5) < 0.2

    def test_the_manifest_tells_until_when_each_model_was_trained(self, dataset):
        config = config_of(held_out=0.25, folds=3)
        prepared = divide(dataset, config, plainly)
        sections = cell_sections(prepared, config.methods[0], config, 1)
        times = load(dataset).times
        for part, told in zip(prepared.divisions, sections["splits"], strict=True):
            assert read_again(told["trained_until"]) == times[part.train].max()
            assert read_again(told["tested_until"]) == times[part.test].max()
        whole = divide(dataset, config_of(folds=3), plainly)
        assert cell_sections(whole, config.methods[0], config, 1)["splits"][-1]["tested_until"] is None

    def test_a_finding_tells_how_rows_are_divided_and_how_the_classes_change(self, tmp_path, dataset):
        frame = payments(4000)
        frame["fraud"] = np.where((frame["day"] > "2024-04-10") & (frame.index % 7 == 0), "yes", frame["fraud"])
        moving = dataset_of(frame, tmp_path / "moving.csv")
        (found,) = (f for f in check.fn(moving, 4, 1, 0, False, QUARTER) if f.kind == "time")
        table, refit, parts = load(moving), all_rows(moving, QUARTER), split.fn(moving, 4, 1, 0, False, QUARTER)
        newer = min((table.times > day for day in set(table.times)), key=lambda later: abs(later.sum() - 2000))
        halves = [f"{(table.y[half] > 0).mean():.2%}" for half in (~newer, newer)]
        assert found.message == (
            f"The 4,000 rows are from 2024-01-01 to 2024-07-18 ('day'). The first of 4 folds trains on "
            f"{len(parts[0].train):,} until {shown(table.times[parts[0].train].max())}, the last is tested on "
            f"{len(parts[-1].test):,} from {shown(table.times[parts[-1].test].min())}; {len(refit.test):,} from "
            f"{shown(table.times[refit.test].min())} are held out. Of the {(~newer).sum():,} older rows {halves[0]} "
            f"are positive, of the {newer.sum():,} newer ones {halves[1]}."
        )
        assert abs(newer.sum() - 2000) < 20, "no day is parted"
        assert "time" not in {f.kind for f in check.fn(convert.fn(dataset.raw, ConversionRule("fraud")), 4, 1, 0)}

    @pytest.mark.parametrize(
        ("month", "held_out", "words"),
        [
            (np.where(np.arange(3000) < 1500, 5, 1 + np.arange(3000) % 4), 0.0, "positive rows and another on 1"),
            (np.where(np.arange(3000) < 2000, 50, np.arange(3000) % 40), 0.1, "Held out are 67% in place of 10%"),
        ],
    )
    def test_times_that_are_too_coarse_are_told(self, tmp_path, month, held_out, words):
        dataset = dataset_of(payments(3000).assign(day=month), tmp_path / "months.csv")
        (found,) = (f for f in check.fn(dataset, 3, 1, 0, False, HeldOut.of(held_out, 1)) if "time" in f.kind)
        assert found.kind == "uneven_time" and words in found.message and "rows are of one time" in found.message

    def test_a_span_with_few_of_the_other_class_is_told_with_its_reason(self, tmp_path):
        frame = payments(3000).sort_values("day")
        last = np.arange(-2900, 100)
        frame["fraud"] = np.where((last < 0) | ((last % 4 == 0) & (last < 70)) | (last == 90), "no", "yes")
        dataset = dataset_of(frame, tmp_path / "late.csv")
        (found,) = (f for f in check.fn(dataset, 3, 1, 0) if "time" in f.kind)
        assert found.kind == "uneven_time" and "for the shares of the classes change much" in found.message

    def test_where_a_time_is_named_no_other_is_advised(self, tmp_path):
        frame = payments(600).assign(seen=lambda f: f["day"].dt.strftime("%d.%m.%Y"))
        frame["stamp"] = np.where(frame["fraud"] == "yes", 1e6, 0) + np.arange(600)
        told = {}
        for rule in (RULE, ConversionRule("fraud", "yes", drop=("day",))):
            found = {f.kind: f.message for f in check.fn(dataset_of(frame, tmp_path / "a.csv", rule), 3, 1, 0)}
            told[rule.time] = found["text_column"]
        assert "--time 'seen'" in told[None] and "--time" not in told["day"] and "Drop it" in told["day"]

    def test_the_report_has_the_auc_of_each_span(self, dataset):
        config = config_of(held_out=0.25, folds=3)
        prepared = divide(dataset, config, plainly)
        method = parse(MethodConfig, {"solver": "ls_svm", "params": {"lam": 0.1}}, "c")
        cell = compute(prepared, method, config, 1, plainly)
        failed = MethodResult("payments", "svm_or", "svm_or", "none", error="out of memory")
        page = render_html(ExperimentResult("payments", (dataset,), {}, (failed, cell)))
        times, y = load(dataset).times, load(dataset).y
        rows = re.findall(
            r"<tr>\s*<th scope=\"row\">(2024\S+?)(?: <small>held out</small>)?</th>(.*?)</tr>", page, re.DOTALL
        )
        assert len(rows) == 4 and page.count("held out</small></th>") == 1
        for part, evaluation, (start, cells) in zip(
            prepared.divisions, (*cell.evaluations, cell.held_out), rows, strict=True
        ):
            tested = part.test
            assert start == shown(times[tested].min())
            said = re.findall(r"<td[^>]*>([^<]+)", cells)
            counts = [str(len(tested)), str((y[tested] > 0).sum())]
            assert [text.strip() for text in said] == [
                shown(times[tested].max()),
                *counts,
                f"{evaluation.test.auc:.4f}",
            ]
        plain = MethodResult("payments", "ls_svm", "ls_svm", "none", evaluations=(), error="out of memory")
        assert "by the time of the test rows" not in render_html(ExperimentResult("p", (dataset,), {}, (plain,)))

    def test_one_threshold_rule_is_settled_for_folds_that_grow(self, dataset):
        config = config_of(threshold="auto")
        settled = settle_threshold(config, config.methods[0], dataset, split.fn(dataset, 4, 1, 5))
        assert settled.validation.threshold != "auto"

    def test_the_interval_of_the_gmean_goes_by_the_shares_that_are_tested(self):
        """The corrected t of Nadeau and Bengio asks for test by training rows; of both these test 1/2, 1/3, 1/4."""
        parts = tuple(Split(i, np.arange(10 * (i + 1)), np.arange(10)) for i in range(3))
        cells = [
            MethodResult("d", "m", "m", "none", evaluations=tuple(_scored(v) for v in (0.7, 0.8, 0.75)), **more)
            for more in ({}, {"test_to_train": _test_to_train(parts)})
        ]
        half = [(high - low) / 2 for low, high in (cell.gmean_interval() for cell in cells)]
        assert half[0] / half[1] == pytest.approx(np.sqrt((1 / 3 + 1 / 2) / (1 / 3 + 13 / 23)))


def _scored(gmean):
    return type("Evaluation", (), {"test": type("Part", (), {"gmean": gmean})()})()
