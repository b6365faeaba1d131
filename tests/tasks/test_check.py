"""Check: each finding on data where the answer is known by construction, then on real data."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from sklearn.metrics import roc_auc_score

from tasks import check as module
from tasks.check import check, separating_columns
from tasks.convert import convert, load
from tasks.download import download
from tasks.errors import BadInput
from tasks.split import HeldOut, make_splits, row_keys
from tasks.values import ConversionRule, Table


@pytest.fixture
def checked(tmp_path):
    """Return the findings on a DataFrame with target y, by kind."""

    def run(frame, folds=2, repeats=1, seed=0, target="y", positive=None, group=None, rule=None):
        path = tmp_path / "data.csv"
        frame.to_csv(path, index=False)
        rule = rule or ConversionRule(target, positive, group=group)
        dataset = convert.fn(download.fn("d", str(path)), rule)
        return {f.kind: f for f in check.fn(dataset, folds, repeats, seed)}

    return run


def noise(n, seed=0):
    """Return n rows of two random columns and labels that have nothing to do with them, one in four positive."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "y": np.arange(n) % 4 == 0})


def test_clean_data_have_no_findings(checked):
    assert checked(noise(40)) == {}


def test_a_class_smaller_than_the_folds_is_refused(checked):
    frame = noise(12)
    with pytest.raises(BadInput) as error:
        checked(frame, folds=5)
    assert str(error.value) == (
        "d: expected at least 5 rows in each class for 5 folds, got 3 of class 'True'. "
        "Use 3 folds or fewer, or add rows of that class."
    )
    frame["y"] = np.arange(12) == 0
    with pytest.raises(BadInput, match=r"got 1 of class 'True'\. Add rows of that class\."):
        checked(frame)


def test_duplicates_are_counted_for_the_actual_split(checked):
    frame = noise(40)
    frame.loc[:9, ["a", "b"]] = frame.loc[10:19, ["a", "b"]].to_numpy()
    frame["y"] = frame.index % 10 < 3  # copies agree in their labels
    finding = checked(frame, folds=4, seed=1)["duplicates_across_split"]
    y = np.where(frame["y"], 1, -1)
    points = frame[["a", "b"]].apply(tuple, axis=1)
    crossing = sum(points[s.test].isin(set(points[s.train])).sum() for s in make_splits(y, 4, 1, 1))
    assert 0 < crossing <= 20
    assert finding.count == crossing
    assert finding.severity == "warning"
    assert f"20 of 40 rows (50.0%) have the same features as another row, and {crossing} of them" in finding.message


def test_contradictory_labels_count_rows_and_points(checked):
    frame = noise(40)
    frame.loc[:3, ["a", "b"]] = [[1, 1], [1, 1], [1, 1], [2, 2]]
    frame.loc[4, ["a", "b"]] = [2, 2]
    finding = checked(frame)["contradictory_labels"]  # labels 1 0 0 | 0 1
    assert finding.count == 5
    assert finding.message.startswith("5 of 40 rows (12.5%) contradict each other: 2 points with both labels.")


def test_constant_columns(checked):
    frame = noise(40).assign(one=1, word="w", gaps=[5.0, np.nan] * 20)
    finding = checked(frame)["constant_column"]
    assert finding.columns == ("one", "word", "gaps")  # missing numbers are imputed, with 5
    assert finding.message == (
        "3 columns with one value only ('one', 'word', 'gaps') cannot rank anything. Drop them to save time."
    )


def test_columns_without_a_value_are_named(checked):
    """What fills them may have failed since the last training."""
    finding = checked(noise(40).assign(nothing=np.nan, void=None))["empty_column"]
    assert finding.columns == ("nothing", "void") and finding.severity == "warning"
    assert finding.message == (
        "2 columns without a single value ('nothing', 'void') are left out: has what fills them failed? Mend that, or "
        "leave them out with --drop (drop, in a config)."
    )


def test_of_millions_of_empty_features_a_manifest_names_some(tmp_path):
    rows = [f"{i % 4 == 0:d} {i % 3 + 1}:{i} 3000000:1\n" for i in range(1, 40)]
    (tmp_path / "hashed.svm").write_text("".join(rows))
    dataset = convert.fn(download.fn("hashed", str(tmp_path / "hashed.svm")), ConversionRule())
    (finding,) = (f for f in check.fn(dataset, 3, 1, 0) if f.kind == "constant_column")
    assert finding.count == 3_000_000 - 3 and len(finding.columns) == 1000
    assert "2,999,997 columns with one value only ('feature 4', " in finding.message
    assert finding.message.endswith("and 2,999,992 more) cannot rank anything, and may stay.")
    assert finding.severity == "info"  # nothing to be done, and nothing to be dropped: it has no names


@pytest.mark.parametrize(
    "leak",
    [
        lambda y, rng: y * 10 + rng.normal(size=len(y)) * 0.1,
        lambda y, rng: -y.astype(float),
        lambda y, rng: np.where(y, "paid", "open"),
        lambda y, rng: np.where(y, 3.0, np.nan),  # known only after the outcome
        lambda y, rng: np.where(y, rng.normal(size=len(y)), np.nan),
        lambda y, rng: np.where(y, 7, rng.choice([1, 5, 9, 11], len(y))),  # a code in the middle of others
        lambda y, rng: np.where(y, rng.integers(4, size=len(y)) * 2, rng.integers(4, size=len(y)) * 2 + 1),
        lambda y, rng: np.where(y, "b", rng.choice(["a", "c"], len(y))),
    ],
)
def test_a_column_that_separates_the_classes_is_a_suspect(checked, leak):
    frame = noise(80)
    frame["leak"] = leak(frame["y"].to_numpy(), np.random.default_rng(1))
    finding = checked(frame)["separating_column"]
    assert finding.columns == ("leak",)
    assert "a leak of the label?" in finding.message


@pytest.mark.parametrize("values", [["2024-01-05", "2024-01-06"], [3.0, 4.0], ["yes", "no"]])
def test_what_most_positives_have_and_no_negative_is_a_suspect(checked, values):
    """A chargeback's date, which 87 of 100 frauds have: its AUC of 0.93 told of no leak."""
    frame = noise(800)
    positives = np.flatnonzero(frame["y"])
    column = pd.Series(np.resize(values, 800)).astype(object if isinstance(values[0], str) else float)
    for share, is_told in ((0.87, True), (0.4, False)):
        given = np.isin(np.arange(800), positives[: int(share * len(positives))])
        findings = checked(frame.assign(came=column.where(given)))
        assert ("separating_column" in findings) == is_told
        if values[0] == "2024-01-05":
            assert "--time" not in findings["text_column"].message, "some have none"
    few_negatives = frame.assign(came=column.where(np.arange(800) > 5), y=np.arange(800) > 5)
    assert "separating_column" in checked(few_negatives) and "separating_column" not in checked(
        few_negatives.assign(came=few_negatives["came"].where(np.arange(800) % 2 == 0))
    )
    with_a_negative = np.isin(np.arange(800), [*positives[:150], 1])
    assert "separating_column" not in checked(frame.assign(came=column.where(with_a_negative)))


@pytest.mark.parametrize("kind", [str, int])
def test_values_of_few_rows_separate_no_handful_of_positives(checked, kind):
    """Of 8,000 postal codes some have one positive among six rows: its own label told the code's share."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"a": rng.normal(size=50_000), "zip": rng.integers(8000, size=50_000), "y": 0})
    frame.loc[rng.choice(50_000, 8, replace=False), "y"] = 1
    frame["zip"] = "z" + frame["zip"].astype(str) if kind is str else frame["zip"] + 10_000
    assert "separating_column" not in checked(frame)


def test_one_exception_hides_no_leak(checked):
    """Its own label left out, the one negative that is "paid" would be ranked above all positives."""
    frame = noise(1000)
    frame["y"] = np.arange(1000) % 10 == 0
    frame["state"] = np.where(frame["y"], "paid", "open")
    frame.loc[1, "state"] = "paid"
    assert checked(frame)["separating_column"].columns == ("state",)


def test_an_amount_that_repeats_is_no_code(checked):
    """Rows of a household have one income and one label: the income itself tells nothing."""
    rng = np.random.default_rng(2)
    households = rng.permutation(np.repeat(np.arange(75), 8))
    frame = pd.DataFrame({"a": rng.normal(size=600), "income": rng.lognormal(8, 1, 75).round(2)[households]})
    frame["y"] = (rng.random(75) < 0.3)[households]
    assert "separating_column" not in checked(frame)
    assert checked(frame.assign(household=households + 500))["separating_column"].columns == ("household",)


def test_a_name_for_each_row_is_an_identifier_and_no_leak(checked):
    findings = checked(noise(200).assign(who=[f"person {i}" for i in range(200)]))
    assert set(findings) == {"text_column"}
    finding = findings["text_column"]
    assert finding.severity == "warning"
    assert "200 different values and looks like an identifier: only the most frequent" in finding.message


def test_text_columns_and_missing_values_are_reported(checked):
    frame = noise(40).assign(kind=["u", "v"] * 20)
    frame.loc[[2, 3, 6], "a"] = np.nan
    findings = checked(frame)
    assert findings["text_column"].message == "Text column 'kind' is one-hot encoded: 2 values."
    assert findings["text_column"].severity == findings["missing_values"].severity == "info"
    assert findings["missing_values"].count == 3
    assert "3 missing cells in 1 of 3 columns (most in 'a' 7.5%)" in findings["missing_values"].message


def test_numbers_spoilt_by_a_word_are_named(checked):
    frame = noise(40).astype({"a": object})
    frame.loc[5, "a"] = "unknown"
    finding = checked(frame)["text_column"]
    assert finding.severity == "warning"
    assert "read as text because of values such as 'unknown'" in finding.message
    frame.loc[5, "a"] = "1,021.50"
    assert "such as '1,021.50'" in (told := checked(frame)["text_column"].message)
    assert told.endswith("values are numbers. Write those plainly too: 1234.5.")


@pytest.mark.parametrize("write", ["{:,.2f}", "$ {:.2f}", "{:.1f}%", "{:.0f} EUR", "1 000,{:02.0f}"])
def test_numbers_in_dress_are_no_identifiers(checked, write):
    """To drop such a column, as one would an identifier, is to drop what may rank best."""
    amounts = [write.format(v) for v in np.random.default_rng(0).lognormal(8, 1, size=150)]
    finding = checked(noise(150).assign(amount=amounts))["text_column"]
    assert finding.severity == "warning" and "identifier" not in finding.message
    assert "numbers that are written with separators or units" in finding.message and amounts[0] in finding.message


def test_thousands_of_a_file_with_decimal_commas_are_no_identifiers(tmp_path):
    places = np.random.default_rng(0).integers(700, 1500, size=150)
    frame = noise(150).assign(places=[f"{v:,}".replace(",", ".") for v in places])
    frame.to_csv(tmp_path / "d.csv", sep=";", decimal=",", index=False)
    dataset = convert.fn(download.fn("d", str(tmp_path / "d.csv")), ConversionRule("y"))
    (finding,) = (f for f in check.fn(dataset, 3, 1, 0) if f.kind == "text_column")
    assert finding.columns == ("places",) and "('1.380')" in finding.message
    assert "numbers that are written with separators or units" in finding.message


@pytest.mark.parametrize("write", ["C{}", "{}-2024", "v1.{}", "12:{}"])
def test_what_holds_digits_is_no_number_yet(checked, write):
    finding = checked(noise(150).assign(code=[write.format(i) for i in range(150)]))["text_column"]
    assert "looks like an identifier" in finding.message


@pytest.mark.parametrize("base", [0, 1])
def test_features_of_a_sparse_file_have_its_own_numbers(tmp_path, base):
    rows = [f"{i % 4 == 0:d} {base}:{i * 7 % 11} {base + 1}:1 {base + 2}:{i * 5 % 13}\n" for i in range(1, 60)]
    (tmp_path / "d.svm").write_text("".join(rows))
    dataset = convert.fn(download.fn("d", str(tmp_path / "d.svm")), ConversionRule())
    (finding,) = (f for f in check.fn(dataset, 3, 1, 0) if f.kind == "constant_column")
    assert finding.columns == (f"feature {base + 1}",)


small = st.lists(st.lists(st.sampled_from([0.0, 1.0, -1.0, 2.5]), min_size=3, max_size=3), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(small)
def test_equal_rows_and_only_they_have_equal_keys(rows):
    X = np.array(rows) + 0.0
    same = (X[:, None, :] == X[None, :, :]).all(axis=2)
    for form in (pd.DataFrame(X), csr_matrix(X)):
        keys = row_keys(form)
        np.testing.assert_array_equal(keys[:, None] == keys[None, :], same)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10_000))
def test_sparse_columns_are_judged_as_dense_ones(seed):
    """The bound that spares most sparse columns the sorting never hides a suspect."""
    rng = np.random.default_rng(seed)
    y = np.where(rng.random(60) < 0.3, 1, -1)
    y[:2] = [1, -1]
    shares = rng.choice([0.0, 0.05, 1.0], size=(2, 8))  # of stored values in either class
    X = np.where(rng.random((60, 8)) < shares[(y > 0).astype(int)], rng.choice([1.0, -1.0, 3.0], size=(60, 8)), 0.0)
    areas = np.array([roc_auc_score(y, column) for column in X.T])
    expected = tuple(f"feature {j + 1}" for j in np.flatnonzero(np.maximum(areas, 1 - areas) > module.SEPARATES))
    finding = separating_columns(Table(csr_matrix(X), y.astype(np.int8)))
    assert (finding.columns if finding else ()) == expected


def findings_on(path, **rule):
    dataset = convert.fn(download.fn(path.name, str(path)), ConversionRule(**rule))
    return {f.kind: f for f in check.fn(dataset, 5, 1, 0)}


def test_real_data_show_what_is_known_of_them(mirror):
    led = findings_on(mirror / "keel/led7digit-0-2-4-5-6-7-8-9_vs_1.dat")
    assert "7 points with both labels" in led["contradictory_labels"].message  # 90 distinct rows of 443
    pages = findings_on(mirror / "keel/page-blocks0.dat")
    assert "10 points with both labels" in pages["contradictory_labels"].message
    guide = findings_on(mirror / "libsvm/svmguide3")
    assert guide["constant_column"].columns == ("feature 22",)
    ozone = findings_on(mirror / "uci/eighthr.data", target="-1")
    assert ozone["text_column"].columns == ("column_1",)  # the date
    assert ozone["missing_values"].severity == "info"


def test_a_wide_sparse_set_is_never_densified(mirror):
    """55,197 columns of 6,412 rows would take 2.8 GB."""
    findings = findings_on(mirror / "libsvm/sector.scale", positive="1")
    assert set(findings) == {"duplicates_across_split", "constant_column"}


@pytest.mark.parametrize("gaps", [1, 30])
@pytest.mark.parametrize("shape", ["flag", "amount"])
def test_a_gap_hides_no_leak(checked, shape, gaps):
    """Filled with the median, one cell of 600 brought the AUC of a leak below the limit."""
    frame = noise(600)
    leak = frame["y"] * 1.0 if shape == "flag" else frame["y"] * 10 + np.random.default_rng(1).random(600)
    leak[np.random.default_rng(2).choice(600, gaps, replace=False)] = np.nan
    assert checked(frame.assign(leak=leak))["separating_column"].columns == ("leak",)


def test_copies_among_the_rows_held_out_flatter_nobody(tmp_path):
    """They were counted for a division that is not the one in use."""
    frame = noise(300)
    frame["y"] = np.random.default_rng(4).random(300) < 0.3
    path = tmp_path / "data.csv"
    frame.to_csv(path, index=False)
    rule = HeldOut.of(0.3, 5)
    out = rule.rows(convert_of(path).X)
    pd.concat([frame, frame[out]]).to_csv(path, index=False)  # a copy of each of them, held out as well
    dataset = convert.fn(download.fn("d", str(path)), ConversionRule("y"))
    kinds = {finding.kind for finding in check.fn(dataset, 3, 1, 0, False, rule)}
    assert "duplicates_across_split" not in kinds
    assert "duplicates_across_split" in {finding.kind for finding in check.fn(dataset, 3, 1, 0)}


def convert_of(path):
    return load(convert.fn(download.fn("d", str(path)), ConversionRule("y")))


class TestClocks:
    """Columns that grow along the file, or are called a time, and order the classes."""

    def drifting(self, **columns):
        frame = noise(200)
        frame["y"] = np.r_[np.arange(150) % 30 == 0, np.arange(50) % 4 != 0]  # most positives come late
        return frame.assign(**columns)

    def test_a_counter_is_found_in_the_files_order(self, checked):
        finding = checked(self.drifting(row=np.arange(200) // 2))["clock_column"]
        assert (finding.columns, finding.severity) == (("row",), "warning")

    @pytest.mark.parametrize(
        "name", ["Time", "event_date", "Year", "timestamp", "eventTime", "created_at", "updatedAt"]
    )
    def test_a_time_is_found_by_its_name_in_a_shuffled_file(self, checked, name):
        frame = self.drifting(**{name: np.arange(200.0)}).sample(frac=1.0, random_state=0)
        assert checked(frame)["clock_column"].columns == (name,)

    @pytest.mark.parametrize(
        "name",
        [
            "time (s)",
            "Time_ms",
            "login timestamp_utc",
            "year 2",
            "time_seconds",
            "time_h",
            "timestamp_ns",
            "date_account_created",
            "Date of purchase",
            "timestamp_first_active",
        ],
    )
    def test_a_unit_or_a_number_behind_it_changes_nothing(self, checked, name):
        frame = self.drifting(**{name: np.arange(200.0)}).sample(frac=1.0, random_state=0)
        assert checked(frame)["clock_column"].columns == (name,)

    def test_a_count_that_is_mostly_nothing_is_no_clock(self, checked):
        """It changes in few rows, up and down again: as rising counted each row in which it stays as it is."""
        rng = np.random.default_rng(2)
        frame = pd.DataFrame({"a": rng.normal(size=5000), "chargebacks": 0, "y": np.arange(5000) % 100 == 50})
        some = rng.permutation(np.flatnonzero(frame["y"]))[:30]
        frame.loc[[*some, *rng.choice(5000, 8)], "chargebacks"] = rng.integers(1, 4, 38)
        assert roc_auc_score(frame["y"], frame["chargebacks"]) > 0.75
        assert "clock_column" not in checked(frame)
        late = frame.sort_values("chargebacks", kind="stable")  # and one that only ever rises is
        assert checked(late)["clock_column"].columns == ("chargebacks",)

    @pytest.mark.parametrize("name", ["sometimes", "overtime_hours_no", "daylight", "day charge", "time_on_site", "x"])
    def test_other_columns_of_a_shuffled_file_are_left_alone(self, checked, name):
        frame = self.drifting(**{name: np.arange(200.0)}).sample(frac=1.0, random_state=0)
        assert "clock_column" not in checked(frame)

    @pytest.mark.parametrize(
        "name", ["response_time", "Lead time (h)", "birth_year", "DOB", "waitingTime", "weekDay", "screenTime"]
    )
    def test_what_takes_time_or_is_of_a_life_is_no_clock_by_its_name(self, checked, name):
        frame = self.drifting(**{name: np.arange(200.0)})
        assert "clock_column" not in checked(frame.sample(frac=1.0, random_state=0))
        assert checked(frame)["clock_column"].columns == (name,)  # but if it grows with the file

    @pytest.mark.parametrize(("hours", "found"), [(np.arange(200) * 24 // 200, False), (np.arange(200), True)])
    def test_an_hour_of_the_day_is_none_and_one_since_the_start_is(self, checked, hours, found):
        frame = self.drifting(hour=hours).sample(frac=1.0, random_state=0)
        for name in ("hour", "eventHour", "hour_utc"):
            assert ("clock_column" in checked(frame.rename(columns={"hour": name}))) == found

    def test_a_clock_that_tells_nothing_is_no_finding(self, checked):
        assert "clock_column" not in checked(noise(200).assign(time=np.arange(200)))

    def test_a_gap_hides_no_clock(self, checked):
        """One empty cell switched the check off, and a retraining promoted what it had stopped."""
        frame = self.drifting(row=np.arange(200.0) // 2)
        frame.loc[5, "row"] = np.nan
        assert checked(frame)["clock_column"].columns == ("row",)
        frame.loc[frame.index % 3 > 0, "row"] = np.nan  # the values of a few rows say nothing of the column
        assert "clock_column" not in checked(frame)

    @pytest.mark.parametrize(
        "form", ["%Y-%m-%d", "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%SZ", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y"]
    )
    def test_dates_written_out_are_clocks_too(self, checked, form):
        """A CSV file was promoted where the same table as Parquet was not."""
        days = pd.date_range("2024-01-01", periods=200, freq="D").strftime(form)
        assert checked(self.drifting(day=days))["clock_column"].columns == ("day",)
        gaps = np.where(np.arange(200) % 50 == 7, days[0].translate(str.maketrans("123456789", "0" * 9)), days)
        assert checked(self.drifting(day=gaps))["clock_column"].columns == ("day",), "0000-00-00"
        shuffled = self.drifting(x=days).sample(frac=1.0, random_state=0)
        assert checked(shuffled)["clock_column"].columns == ("x",), "whatever it is called"
        assert checked(shuffled.rename(columns={"x": "call_time"}))["clock_column"].count == 1, "no duration is a date"
        for born in ("birthdate", "dob", "born_on"):
            assert "clock_column" not in checked(shuffled.rename(columns={"x": born}))
        spoilt = np.where(np.arange(200) == 7, "soon", days)
        assert "clock_column" not in checked(self.drifting(x=spoilt))

    def test_a_column_that_separates_has_one_finding(self, checked):
        frame = noise(200).sort_values("y").assign(row=np.arange(200))
        assert {"separating_column"} == set(checked(frame))

    def test_the_real_one_is_found(self, mirror):
        fraud = findings_on(mirror / "uci/creditcard_subsample.csv", target="Class")
        assert fraud["clock_column"].columns == ("Time",)


class TestHiddenCopies:
    """Rows that are copies but for a column that differs in every row."""

    def twice(self, **columns):
        frame = noise(100)
        return pd.concat([frame, frame], ignore_index=True).assign(**columns)

    @pytest.mark.parametrize(
        "key",
        [
            np.random.default_rng(0).permutation(1000)[:200] + 10_000,  # whole numbers, with gaps
            [f"P-{i:04}" for i in np.random.default_rng(0).permutation(200)],
        ],
    )
    @pytest.mark.parametrize("grouped", [False, True])
    def test_they_are_told_whatever_the_column_is_called(self, tmp_path, key, grouped):
        self.twice(policy=key).to_csv(tmp_path / "d.csv", index=False)
        dataset = convert.fn(download.fn("d", str(tmp_path / "d.csv")), ConversionRule("y"))
        found = {finding.kind: finding for finding in check.fn(dataset, 3, 1, 0, grouped)}
        finding = found["hidden_copies"]
        assert (finding.columns, finding.severity, finding.count) == (("policy",), "warning", 200)
        assert finding.message == (
            "But for 'policy', a column that differs in every row, 200 of 200 rows (100.0%) have the same features as "
            "another row: no division keeps these copies together, and test scores may flatter. If it only names the "
            "rows, leave it out with --drop (drop, in a config)."
        )

    def test_two_such_columns_hide_them_from_each_other(self, checked):
        rng = np.random.default_rng(1)
        keys = {name: rng.permutation(2000)[:200] for name in ("policy", "invoice")}
        finding = checked(self.twice(**keys))["hidden_copies"]
        assert finding.columns == ("policy", "invoice")
        assert finding.message.startswith("But for 'policy', 'invoice', columns that differ in every row, 200 of")
        assert "If they only name the rows, leave them out" in finding.message

    def test_an_identifier_tells_of_its_own(self, checked):
        assert "hidden_copies" not in checked(self.twice(id=np.arange(200) ** 2))
        both = checked(self.twice(id=np.arange(200) ** 2, policy=np.random.default_rng(1).permutation(2000)[:200]))
        assert both["hidden_copies"].columns == ("id", "policy") and "But for" not in both["identifier_column"].message

    def test_rows_of_few_values_are_alike_by_chance(self, checked):
        rng = np.random.default_rng(3)
        cents = rng.permutation(9000)[:300]
        for others in (
            {name: rng.integers(4, size=300) for name in "abc"},
            {"age": rng.integers(18, 80, 300)},
            {"age": rng.integers(18, 90, 300), "sex": rng.integers(2, size=300)},
            {"day": rng.integers(500, size=300), "flag": rng.random(300) < 0.02},
        ):
            frame = pd.DataFrame(others).assign(cents=cents, y=rng.random(300) < 0.3)
            assert "hidden_copies" not in checked(frame)

    def test_without_copies_there_are_none(self, checked):
        assert "hidden_copies" not in checked(
            noise(200).assign(policy=np.random.default_rng(1).permutation(2000)[:200])
        )


class TestIdentifiers:
    """Columns of numbers that name the rows."""

    @pytest.mark.parametrize(
        "name, values",
        [
            ("row", np.arange(1, 41)),
            ("Unnamed: 0", np.arange(40)[::-1]),
            ("x", np.random.default_rng(3).permutation(40) + 7000),
            ("id", np.arange(40) ** 2),
            ("Client_ID", np.arange(40) ** 2),
            ("customerId", np.arange(40) ** 2),
        ],
    )
    def test_whole_numbers_without_a_gap_or_called_an_id_are_found(self, checked, name, values):
        finding = checked(noise(40).assign(**{name: values}))["identifier_column"]
        assert (finding.columns, finding.severity, finding.count) == ((name,), "warning", 1)
        assert finding.message == (
            f"1 column that numbers the rows ('{name}'): a model can learn nothing from it but the order of the file, "
            "and no two rows look alike. Leave it out with --drop (drop, in a config)."
        )

    @pytest.mark.parametrize(
        "name, values",
        [
            ("valid", np.arange(40) ** 2),  # not called an id
            ("humid", np.arange(40) ** 2),
            ("id", np.arange(40) // 2),  # twos
            ("id", np.arange(40) / 4),  # no whole numbers
            ("id", np.where(np.arange(40) == 7, np.nan, np.arange(40))),  # not of every row
            ("day", np.arange(40)),  # a time
        ],
    )
    def test_other_columns_are_none(self, checked, name, values):
        assert "identifier_column" not in checked(noise(40).assign(**{name: values}))

    def test_a_rank_that_tells_something_of_the_classes_is_none(self, checked):
        """All different, without a gap, and not in the order of the rows: the rank of another column."""
        frame = noise(200)
        by_class = frame["y"].rank() + 0.8 * np.random.default_rng(0).normal(size=200) * 100
        ranks = by_class.rank(method="first").astype(int)
        assert "identifier_column" not in checked(frame.assign(rank=ranks))
        assert "identifier_column" in checked(frame.assign(rank=ranks.sample(frac=1.0, random_state=0).to_numpy()))
        assert "identifier_column" in checked(frame.assign(id=ranks))

    def test_few_rows_may_differ_by_chance(self, checked):
        assert "identifier_column" not in checked(noise(19).assign(row=np.arange(19)))
        assert "identifier_column" in checked(noise(20).assign(row=np.arange(20)))

    def test_copies_that_they_hide_are_counted(self, checked):
        frame = noise(40)
        frame.loc[:4, ["a", "b"]] = frame.loc[10:14, ["a", "b"]].to_numpy()
        finding = checked(frame.assign(id=np.arange(40), row=np.arange(40)[::-1]))["identifier_column"]
        assert finding.columns == ("id", "row")
        assert "number the rows ('id', 'row')" in finding.message
        assert "But for them 10 of 40 rows (25.0%) have the same features as another row." in finding.message

    def test_a_column_that_separates_has_one_finding(self, checked):
        assert set(checked(noise(200).sort_values("y").assign(id=np.arange(200)))) == {"separating_column"}

    def test_the_real_one_is_found(self, mirror):
        cards = findings_on(mirror / "uci/UCI_Credit_Card.csv", target="class")
        assert cards["identifier_column"].columns == ("ID",)


def visits(n_patients=60, each=4, ill=0.25, swaps=0.0, seed=0):
    """Return visits of patients, of whom a share is ill; ``swaps`` is the share of visits with another label."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(n_patients), each)
    y = (np.arange(n_patients) < ill * n_patients)[patient] ^ (rng.random(len(patient)) < swaps)
    return noise(len(patient), seed).assign(y=y, patient=patient * 7919 % 10007)


class TestRepeatedIdentifiers:
    """Columns that name whom several rows are of: without --group they are on both sides."""

    @pytest.mark.parametrize(
        "name",
        [
            "patient",
            "customer_no",
            "userid",
            "Account ID",
            "policyKey",
            "shop_id",
            "devices_id",
            "MRN",
            "USUBJID",
            "pid",
            "clientNumber",
            "serial_no",
            "email",
            "case_no",
            "participant",
            "VIN",
        ],
    )
    def test_one_whose_rows_are_of_one_class_is_found(self, checked, name):
        finding = checked(visits(swaps=0.1).rename(columns={"patient": name}))["repeated_identifier"]
        assert (finding.severity, finding.columns) == ("warning", (name,))
        assert "240 rows of 60 values" in finding.message and f"--group '{name}'" in finding.message

    @pytest.mark.parametrize("name", ["n_card", "num_user", "number of members", "scared", "mistaken"])
    def test_a_count_of_them_is_none(self, checked, name):
        assert "repeated_identifier" not in checked(visits().rename(columns={"patient": name}))

    def test_of_a_few_patients_too(self, checked):
        """Small studies gain most."""
        assert "repeated_identifier" in checked(visits(n_patients=12, each=20))

    def test_to_drop_it_is_no_advice(self, checked):
        """It leaves what else is the patient's own, and nothing that tells whose a row is."""
        found = checked(visits(each=6, swaps=0.0))
        assert "Drop" not in found["separating_column"].message
        assert "'patient' may tell whose rows they are: see below." in found["separating_column"].message
        both = checked(visits(each=6).assign(leak=lambda f: f["y"] + 0.0))["separating_column"].message
        assert "Drop them unless known before the outcome. But 'patient' may tell" in both

    def test_a_second_one_is_told_beside_the_group(self, checked):
        frame = visits(each=6).assign(hospital_id=lambda f: f.index // 24 * 31)
        message = checked(frame, group="patient")["repeated_identifier"].message
        assert "There can be one group: 'hospital_id' in place of 'patient', if it is the larger unit" in message

    def test_as_a_text_too(self, checked):
        frame = visits(swaps=0.1)
        assert "repeated_identifier" in checked(frame.assign(patient="P" + frame["patient"].astype(str)))

    @pytest.mark.parametrize(
        "frame",
        [
            visits(swaps=0.5),  # labels that have nothing to do with the patient
            visits().rename(columns={"patient": "pressure"}),  # not called an identifier
            visits(n_patients=10, each=24).assign(patient=lambda f: f.index // 24),  # a count, for all we know
            visits(n_patients=4, each=60),  # few values: groups of rows, and no names
            visits(n_patients=12, each=20).assign(patient=lambda f: (f.index // 20).map("abcdefghijkl".__getitem__)),
            visits(each=1),  # a row each
            visits(n_patients=240, each=1).assign(
                patient=np.arange(240) // 2 % 100, y=np.arange(240) % 60 == 0
            ),  # by chance
        ],
    )
    def test_others_are_not(self, checked, frame):
        assert "repeated_identifier" not in checked(frame)

    def test_as_group_it_is_no_feature_and_no_finding(self, checked):
        found = checked(visits(swaps=0.1), group="patient")
        assert set(found) == {"groups"}
        assert found["groups"].message == (
            "The 240 rows are of 60 groups, up to 4 of one 'patient'; each group stays on one side of each split."
        )

    def test_a_group_of_more_than_a_folds_share_is_told_of(self, checked):
        frame = visits().assign(patient=lambda f: np.where(f.index < 40, 0, f["patient"] + 1))
        finding = checked(frame, folds=3, group="patient")["large_group"]
        assert finding.severity == "warning" and "One has 67% of the positive rows" in finding.message

    def test_groups_of_a_row_each_keep_nothing_together(self, checked):
        finding = checked(visits().assign(visit=np.arange(240)), group="visit")["idle_group"]
        assert finding.severity == "warning" and "No two rows are of one 'visit'" in finding.message


def test_nearly_constant_columns_are_named(checked):
    frame = noise(2000).assign(flag=(np.arange(2000) == 7) * 1, word=np.where(np.arange(2000) < 2, "rare", "usual"))
    finding = checked(frame)["near_constant_column"]
    assert (finding.columns, finding.severity) == (("flag", "word"), "info")
    assert checked(frame.assign(flag=(np.arange(2000) < 20) * 1))["near_constant_column"].columns == ("word",)


class TestGroupedByDuplicates:
    def test_copies_stay_on_one_side_and_the_classes_in_proportion(self, mirror):
        dataset = convert.fn(
            download.fn("led", str(mirror / "keel/led7digit-0-2-4-5-6-7-8-9_vs_1.dat")), ConversionRule()
        )
        from tasks.convert import load

        table = load(dataset)
        keys = row_keys(table.X)
        splits = make_splits(table.y, 3, 2, 5, keys)
        assert len(splits) == 6
        for split in splits:
            assert not set(keys[split.train]) & set(keys[split.test])
            assert (table.y[split.test] > 0).any() and (table.y[split.test] < 0).any()
        for repeat in (splits[:3], splits[3:]):
            assert sorted(np.concatenate([s.test for s in repeat])) == list(range(len(table.y)))
        assert any(not np.array_equal(a.test, b.test) for a, b in zip(splits[:3], splits[3:], strict=True))

    def test_the_warning_becomes_information(self, mirror):
        dataset = convert.fn(download.fn("w", str(mirror / "keel/wisconsin.dat")), ConversionRule())
        apart = {f.kind for f in check.fn(dataset, 5, 1, 0)}
        together = {f.kind: f for f in check.fn(dataset, 5, 1, 0, grouped=True)}
        assert "duplicates_across_split" in apart and "duplicates" not in apart
        assert "duplicates_across_split" not in together
        assert together["duplicates"].severity == "info"

    def test_copies_that_leave_a_fold_without_a_class_are_refused(self):
        y = np.where(np.arange(40) < 10, 1, -1)
        with pytest.raises(BadInput, match="copies of each other"):
            make_splits(y, 5, 1, 0, np.where(y > 0, 0, np.arange(40) + 1))


@pytest.mark.parametrize(
    ("labels", "positive", "said"),
    [
        (["yes"] * 10 + ["no"] * 29 + ["ye"], "yes", "label 'ye', of one row only, is how 'yes' begins"),
        (["yes"] * 10 + ["no"] * 29 + ["n"], "yes", "label 'n', of one row only, is how 'no' begins"),
        (["yes"] * 10 + ["no"] * 28 + ["n"] * 2, "yes", None),
        (["yes"] * 10 + ["no"] * 29 + ["maybe"], "yes", None),
        (["10"] * 10 + ["2"] * 29 + ["1"], "10", None),
    ],
    ids=["of the positive class", "of the rest", "two rows", "another label", "numbers"],
)
def test_a_label_that_is_cut_off_is_told_of(checked, labels, positive, said):
    """The last row of a file that lost its end trained as a negative, and nothing said so."""
    findings = checked(noise(40).assign(y=labels), positive=positive)
    assert ("cut_off_label" in findings) == (said is not None)
    assert ("lone_label" in findings) == (said is None and labels[-2] != labels[-1])
    if said:
        assert findings["cut_off_label"].message.startswith(said + ": is the file cut off? The row counts as negative.")


def test_a_row_of_sums_is_no_negative_in_silence(checked):
    """Its label is a third one. With the positive class named, as the refusal of three advises, it was a negative."""
    labels = ["1"] * 10 + ["0"] * 29 + ["10"]
    message = checked(noise(40).assign(y=labels), positive="1")["lone_label"].message
    assert message.startswith(
        "label '10', of one row only, counts as negative, as all do that are not '1': is it a row"
    )
    groups = ConversionRule("y", conversion="class_groups", groups=(("1",), ("0", "10")))
    assert "lone_label" not in checked(noise(40).assign(y=labels), rule=groups)
    assert "lone_label" not in checked(noise(40).assign(y=["1"] * 10 + ["0"] * 28 + ["10", "20"]), positive="1")


def test_columns_of_one_name_are_told_apart_and_told_of(checked):
    """A blank beside a name makes no other name of it; a column that is left out is nobody's namesake."""
    frame = noise(40)
    assert "repeated_name" not in checked(frame.set_axis(["a", "A", "y"], axis=1))
    finding = checked(frame.set_axis(["a", "a ", "y"], axis=1))["repeated_name"]
    assert (finding.severity, finding.count, finding.columns) == ("warning", 1, ("a_2",))
    assert finding.message == (
        "1 column with a name that another column has ('a_2', in the file 'a'): did a join bring the same feature "
        "twice? Drop it, or give each a name of its own."
    )
    wide = pd.concat([frame[["a"]]] * 8 + [frame[["b", "y"]]], axis=1)
    finding = checked(wide)["repeated_name"]
    assert finding.count == 7 and "'a_6', in the file 'a', …)" in finding.message and "Drop them" in finding.message
    assert "repeated_name" not in checked(wide.assign(a=np.nan))
    first_is_empty = frame.assign(a=np.nan).set_axis(["a", "a", "y"], axis=1)
    assert "repeated_name" not in checked(first_is_empty)
