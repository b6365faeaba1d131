"""Convert: labels become two classes, cells become numbers and texts, and the digest says when anything changed."""

import csv
import datetime
import struct
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

from tasks import convert as module
from tasks.column_names import unique_names
from tasks.convert import convert, load, refuse_roles, table_sha256
from tasks.download import download
from tasks.errors import BadInput, RunFailed
from tasks.files import file_sha256
from tasks.values import ConversionRule, RawFile, Table

FUZZ = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def made(tmp_path):
    """Return the data set made of a text (or a DataFrame, by way of Parquet) under a rule."""

    def make(data, target="y", positive=None, name="data.csv", delimiter=None, **rule):
        path = tmp_path / name
        if isinstance(data, pd.DataFrame):
            data.to_parquet(path := tmp_path / "data.parquet")
        else:
            path.write_text(data)
        return convert.fn(download.fn("d", str(path)), ConversionRule(target, positive, delimiter, **rule))

    return make


@pytest.fixture
def refusal(made):
    def refuse(*args, **rule):
        with pytest.raises(BadInput) as error:
            made(*args, **rule)
        return str(error.value)

    return refuse


# Labels -----------------------------------------------------------------------------------------------------------


def test_the_minority_is_positive(made):
    dataset = made("x,y\n1,no\n2,yes\n3,no\n")
    assert (dataset.n_rows, dataset.n_features, dataset.n_pos, dataset.n_neg) == (3, 1, 1, 2)
    assert dataset.imbalance_ratio == 2
    assert load(dataset).y.tolist() == [-1, 1, -1]
    story = dataset.provenance
    assert (story.positive_label, story.negative_label, story.rule) == ("yes", "no", "minority class yes positive")
    assert story.label_counts == {"no": 2, "yes": 1}


@pytest.mark.parametrize(
    ("labels", "positive"),
    [(["0", "1"], "1"), (["10", "9"], "10"), (["a", "b"], "b"), (["-1", "1"], "1"), (["x", "1"], "x")],
)
def test_of_equally_frequent_labels_the_last_is_positive(made, labels, positive):
    for order in (labels, labels[::-1]):
        dataset = made("x,y\n" + "".join(f"1,{label}\n" for label in order))
        assert dataset.provenance.positive_label == positive


@pytest.mark.parametrize(
    ("labels", "positive", "chosen"),
    [
        (["0", "1"], "0", "0"),
        (["0", "1"], "1.0", "1"),
        (["0", "1"], " +1 ", "1"),
        (["0", "1"], "True", "1"),
        (["True", "False"], "1", "True"),
        (["TRUE", "FALSE"], "false", "False"),
        (["0.5", "1.5"], "0.50", "0.5"),
        (["Yes", "No"], "yes", "Yes"),
        (["Yes", "yes"], "yes", "yes"),
        (["a", "b", "c"], "a", "a"),
        ([" a ", "b"], "a", "a"),
    ],
)
def test_positive_may_be_spelt_in_several_ways(made, labels, positive, chosen):
    dataset = made("x,y\n" + "".join(f"1,{label}\n" for label in labels), positive=positive)
    assert dataset.provenance.positive_label == chosen
    assert dataset.n_pos == 1
    assert dataset.provenance.negative_label == ("rest" if len(labels) > 2 else next(
        key for key in dataset.provenance.label_counts if key != chosen))  # fmt: skip


def test_what_is_dropped_is_a_column(refusal):
    message = refusal("x,z,fraud\n1,0,a\n2,0,b\n", target="fraud", drop=("y",))
    assert message == "data.csv: expected to drop columns out of 'x', 'z', 'fraud', got 'y'. Correct the name."


@pytest.mark.parametrize("drop", [("fraud",), ("x", "fraud")])
def test_the_target_is_not_dropped_by_a_new_run_and_no_feature_where_a_recorded_one_did(made, drop):
    dataset = made("x,z,fraud\n1,0,a\n2,0,b\n", target="fraud", drop=drop)
    assert set(dataset.columns) == {"x", "z"} - set(drop)
    with pytest.raises(BadInput, match="other than the target, got 'fraud'"):
        refuse_roles(dataset)


def test_svmlight_has_no_names_to_drop_by(tmp_path):
    """It went by without a word, and a leak stayed."""
    (tmp_path / "d.svm").write_text("1 1:1 2:1\n-1 1:2\n")
    dataset = convert.fn(download.fn("d", str(tmp_path / "d.svm")), ConversionRule(drop=("feature 1",)))
    with pytest.raises(BadInput, match=r"d.svm: expected no columns to drop, got 'feature 1'.* Take the feature out"):
        refuse_roles(dataset)


def test_one_class_is_refused_with_the_house_sentence(refusal):
    message = refusal("x,fraud\n1,0\n2,0\n", target="fraud")
    assert message.startswith(
        "Expected two classes in column 'fraud', got one (0) in all 2 rows. Are rows missing? Or "
    )


def test_of_one_class_the_one_that_was_asked_for_may_be_what_is_missing(refusal):
    message = refusal("x,fraud\n1,no\n2,no\n", target="fraud", positive="yes")
    assert message.startswith(
        "Expected two classes, 'yes' and others, in column 'fraud', got one (no) in all 2 rows. Are rows missing?"
    )


def test_more_classes_need_the_positive_one(refusal):
    message = refusal("x,y\n1,a\n2,b\n3,c\n4,c\n")
    assert message == (
        "Expected two classes in column 'y', got 3: a (1), b (1), c (2). "
        "Name the one to set against the rest with --positive (positive, in a config)."
    )
    many = refusal("x,y\n" + "".join(f"1,{i}\n" for i in list(range(60)) * 3))
    assert "got 60: 0 (3), 1 (3)" in many
    assert "(60 in all)" in many


def test_a_measurement_as_target_gets_its_own_hint(refusal):
    message = refusal("x,y\n" + "".join(f"{i},{i / 7}\n" for i in range(60)))
    assert "got 60 different numbers from 0 to 8.4" in message
    assert "looks like a measurement. Choose the target with --target (target, in a config)." in message


def test_an_unknown_positive_is_refused_with_the_nearest(refusal):
    message = refusal("x,y\n1,malignant\n2,benign\n", positive="malignent")
    assert "(benign, malignant), got 'malignent'. Did you mean 'malignant'?" in message


def test_missing_labels_are_refused_with_their_first_line(refusal):
    assert "got 2 without, the first in line 3" in refusal("x,y\n1,a\n2,\n3,b\n4,?\n")
    assert "got 2 without" in refusal("x,y\n1,\n2,\n")


def test_the_target_is_named_numbered_or_the_formats_own(made, refusal):
    text = "x,label,z\n1,0,5\n2,1,6\n"
    assert made(text, target="label").n_features == 2
    assert made(text, target="2").sha256 == made(text, target="label").sha256
    assert made("1,2,0\n3,4,1\n", target="-1").provenance.label_counts == {"0": 1, "1": 1}
    assert made("1,2,0\n3,4,1\n", target="column_3").n_features == 2
    titled = "Report,\n,\nx,y\n1,0\n2,1\n"
    assert "It stands in line 3: if the columns' names do, remove the lines above." in refusal(titled, target="y")
    assert "the columns of data.csv are 'x', 'label', 'z'. Name it with --target (target, in a config)." in refusal(
        text, target=None
    )
    assert "got 'labl': the columns of data.csv are 'x', 'label', 'z'. Did you mean 'label'?" in refusal(text, "labl")
    assert "(the file has no header)" in refusal("1,2,0\n3,4,1\n", target="y")
    assert "Expected one column 'x' as target, got 2" in refusal("x,x,y\n1,2,0\n", target="x")
    for wrong in ("0", "4", "-4", "--1", ""):
        assert f"got '{wrong}'" in refusal(text, target=wrong)


def test_keel_and_svmlight_bring_their_targets(made, refusal):
    keel = "@relation r\n@attribute c {a,b}\n@attribute x real\n@outputs c\n@data\na,1\nb,2\nb,3\n"
    assert made(keel, target=None, name="d.dat").provenance.positive_label == "a"
    svm = made("+1 1:2\n-1 3:1\n-1 2:1\n", target=None, name="d.svm")
    assert svm.is_sparse
    assert (svm.n_features, svm.provenance.positive_label) == (3, "1")
    assert "Leave it out" in refusal("1 1:2\n-1 3:1\n", target="x", name="d.svm")
    assert "among the labels of d.svm, got one (1)" in refusal("1 1:2\n1 3:1\n", target=None, name="d.svm")


def test_scikit_learns_own_sets():
    rules = {"digits": ("digit", "8"), "breast_cancer": (None, None), "wine": ("cultivar", "class_2")}
    sets = {n: convert.fn(download.fn(n, f"sklearn:{n}"), ConversionRule(*rule)) for n, rule in rules.items()}
    assert {n: (d.n_rows, d.n_features, d.n_pos) for n, d in sets.items()} == {
        "digits": (1797, 64, 174),
        "breast_cancer": (569, 30, 212),
        "wine": (178, 13, 48),
    }
    assert sets["breast_cancer"].provenance.positive_label == "malignant"
    assert sets["digits"].provenance.rule == "8 against the rest"


# Features ---------------------------------------------------------------------------------------------------------


def test_columns_become_numbers_or_texts(made):
    text = "n,b,t,mixed,empty,y\n1,True,u,1,,0\n,False,,two,,1\n-0.0,,w,3,,0\n"
    dataset = made(text)
    X = load(dataset).X
    np.testing.assert_array_equal(X["n"], [1, np.nan, 0])
    np.testing.assert_array_equal(X["b"], [1, 0, np.nan])
    assert X["t"].tolist() == ["u", None, "w"]
    assert X["mixed"].tolist() == ["1", "two", "3"]
    assert dataset.text_columns == ("t", "mixed")
    assert dataset.missing_cells == {"n": 1, "b": 1, "t": 1}
    assert dataset.provenance.rule == "minority class 1 positive; dropped for want of values: 'empty'"


def test_parquet_types_become_numbers_or_texts(made):
    day = datetime.date(1970, 1, 2)
    frame = pd.DataFrame(
        {
            "whole": pd.array([1, None, 3], dtype="Int64"),
            "truth": [True, None, False],
            "money": [Decimal("1.5"), None, Decimal("2.5")],
            "day": [day, None, day],
            "moment": pd.to_datetime(["1970-01-01 01:00", None, "1970-01-01 02:00"]).tz_localize("Europe/Paris"),
            "span": pd.to_timedelta(["1min", None, "2min"]),
            "kind": pd.Categorical(["a", None, "b"]),
            "blank": ["x", " ", "y"],
            "y": ["n", "p", "n"],
        }
    )
    X = load(made(frame)).X
    numbers = {
        "whole": [1, np.nan, 3],
        "truth": [1, np.nan, 0],
        "money": [1.5, np.nan, 2.5],
        "day": [86_400, np.nan, 86_400],
        "moment": [0, np.nan, 3_600],
        "span": [60, np.nan, 120],
    }
    for name, expected in numbers.items():
        np.testing.assert_array_equal(X[name], expected, err_msg=name)
    assert X["kind"].tolist() == ["a", None, "b"]
    assert X["blank"].tolist() == ["x", None, "y"]


def test_a_column_of_numbers_too_small_to_be_scaled_is_refused(made, refusal):
    """Their squares are 0, so every scaling took them for one value, and models were certified for ranking nothing."""
    message = refusal("a,b,y\n1,2e-200,0\n3,-5e-200,1\n4,,0\n")
    assert message.startswith(
        "data.csv: expected numbers that can be scaled in column 'b', got none beyond 5e-200, whose square is 0."
    )
    assert made("a,b,y\n1,2e-200,0\n3,0.5,1\n").n_features == 2
    assert made("a,b,y\n1,0,0\n3,0,1\n", name="zeros.csv").n_features == 2


def test_numbers_too_large_to_be_scaled_are_refused(made, refusal):
    words = (
        "expected numbers that can be scaled in {}, got 1.7e+308, whose square is infinite. Divide them, or leave out"
    )
    assert refusal("a,b,y\n1,2,0\n3,-1.7e308,1\n4,,0\n").startswith("data.csv: " + words.format("column 'b'"))
    assert words.format("feature 2") in refusal("1 1:1\n-1 2:1.7e308\n", target=None, name="d.svm")
    assert made("a,b,y\n1,2e149,0\n3,0.5,1\n").n_features == 2


@pytest.mark.parametrize("missing", ["NA", "nan", "None", "?", " "])
def test_a_text_label_that_says_nothing_is_none_in_files_of_all_formats(refusal, missing):
    labels = [missing, "yes", "no"] * 4
    frame = refusal(pd.DataFrame({"a": range(12), "y": labels}))
    table = refusal("a,y\n" + "".join(f"{i},{label}\n" for i, label in enumerate(labels)))
    for message in (frame, table):
        assert "xpected a label in every row" in message


def test_infinite_values_are_refused_with_their_line(made, refusal):
    message = refusal("a,b,y\n1,2,0\n3,inf,1\n-inf,4,0\n")
    assert message.startswith("data.csv, line 4: expected finite numbers in column 'a', got -inf (1 in all).")
    assert "row 2: expected finite numbers in column 'a'" in refusal(pd.DataFrame({"a": [0.0, np.inf], "y": [0, 1]}))
    assert "line 2" in refusal("1 1:1\n-1 1:inf\n", target=None, name="d.svm")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a,y\n", "expected rows of data, got none"),
        ("y\n1\n0\n", "expected at least one column besides the target"),
        ("a,b,y\n,,1\n,?,0\n", "got only empty columns"),
    ],
)
def test_nothing_to_learn_from_is_refused(refusal, text, words):
    assert words in refusal(text)


def test_a_column_with_values_in_rows_that_are_left_out_alone_is_empty(made):
    """A conversion that leaves a class out left such a column with nothing to impute from."""
    two = {"conversion": "class_groups", "groups": (("a",), ("b",))}
    dataset = made("n,late,word,y\n1,,,a\n2,,,b\n3,7,x,c\n4,8,z,c\n", **two)
    assert list(load(dataset).X) == ["n"] and dataset.n_rows == 2
    assert dataset.layout.left_out == ("late", "word") and "'late'" in dataset.provenance.rule


def test_an_all_zero_sparse_file_is_refused(refusal):
    assert "expected features other than zero" in refusal("1\n-1 1:0\n", target=None, name="d.svm")
    two = {"conversion": "class_groups", "groups": (("1",), ("2",))}
    assert "expected features other than zero" in refusal("1\n2\n3 1:5\n", target=None, name="d.svm", **two)


@given(st.lists(st.sampled_from(["", " ", "a", "a ", "b", "a_2", "column_2"]), max_size=8))
def test_names_are_unique_and_kept_where_they_can_be(names):
    out = unique_names(names)
    assert len(set(out)) == len(out) == len(names)
    for name in {n.strip() for n in names} - {""}:
        assert name in out


# The digest -------------------------------------------------------------------------------------------------------

GOLDEN = Table(pd.DataFrame({"x": [1.0, np.nan], "t": ["é", None]}), np.array([1, -1], dtype=np.int8))


def test_golden_digest():
    """The bytes are spelt out, so that the digest can be checked in any language."""
    import hashlib

    spelt = (
        b"aucflow table 1\n"
        + (2).to_bytes(8, "little") + (2).to_bytes(8, "little")  # rows, columns
        + (1).to_bytes(8, "little") + b"x" + b"number"
        + bytes.fromhex("000000000000f03f") + bytes.fromhex("000000000000f87f")  # 1.0, the quiet NaN
        + (1).to_bytes(8, "little") + b"t" + b"text"
        + (2).to_bytes(8, "little") + b"\xff" * 8 + "é".encode()  # lengths 2 and -1 (missing), then the bytes
        + b"\x01\xff"  # y
    )  # fmt: skip
    assert table_sha256(GOLDEN) == hashlib.sha256(spelt).hexdigest()
    assert table_sha256(GOLDEN) == "49af431225dbe32d6ff61fb9ba06d5e91ec32a0504331082a08d3efcb2eb6178"


def test_digest_is_of_the_content_not_of_its_storage(made, tmp_path):
    dataset = made("a,b,y\n1,u,0\n2,v,1\n")
    moved = made("a;b;y\r\n1.0; u;0\r\n2;v ;1\r\n", name="moved.txt")
    parquet = made(pd.DataFrame({"a": [1, 2], "b": ["u", "v"], "y": [0, 1]}))
    assert dataset.sha256 == moved.sha256 == parquet.sha256
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(5, 3)))
    y = np.array([1, -1, 1, -1, -1], dtype=np.int8)
    assert table_sha256(Table(pd.DataFrame(X), y)) == table_sha256(Table(pd.DataFrame(X.copy("C")), y))
    wide = csr_matrix(X)
    wide.indices, wide.indptr = wide.indices.astype(np.int64), wide.indptr.astype(np.int64)
    assert table_sha256(Table(wide, y)) == table_sha256(Table(csr_matrix(X), y))


@st.composite
def tables(draw):
    n = draw(st.integers(2, 5))
    cell = st.floats(allow_infinity=False) | st.none()
    X = pd.DataFrame(
        {
            "number": np.array(draw(st.lists(cell, min_size=n, max_size=n)), dtype=float),
            "text": np.array(draw(st.lists(st.text(max_size=3) | st.none(), min_size=n, max_size=n)), dtype=object),
        }
    )
    return Table(X, np.array(draw(st.lists(st.sampled_from([-1, 1]), min_size=n, max_size=n)), dtype=np.int8))


@FUZZ
@given(tables(), st.data())
def test_any_change_changes_the_digest(table, data):
    before, row = table_sha256(table), data.draw(st.integers(0, len(table.y) - 1))
    X = table.X.copy()
    value = X.loc[row, "number"]
    X.loc[row, "number"] = 1.0 if np.isnan(value) else np.nan
    assert table_sha256(Table(X, table.y)) != before
    X = table.X.copy()
    X.loc[row, "text"] = (X.loc[row, "text"] or "") + "x"
    assert table_sha256(Table(X, table.y)) != before
    flipped = table.y.copy()
    flipped[row] *= -1
    assert table_sha256(Table(table.X, flipped)) != before
    assert table_sha256(Table(table.X.rename(columns={"text": "texts"}), table.y)) != before
    assert table_sha256(Table(table.X[["text", "number"]], table.y)) != before


def test_swapped_rows_have_another_digest(made):
    assert made("a,y\n1,0\n2,1\n").sha256 != made("a,y\n2,1\n1,0\n", name="swapped.csv").sha256


# Loading ----------------------------------------------------------------------------------------------------------


def test_load_reads_again_and_verifies(made, tmp_path):
    dataset = made("a,y\n1,0\n2,1\n")
    kept = load(dataset)
    module._read_and_convert.cache_clear()  # as in another process
    again = load(dataset)
    assert again is not kept
    pd.testing.assert_frame_equal(again.X, kept.X)
    with pytest.raises(ValueError, match="read-only"):
        again.y[0] = 1


def test_a_file_that_changed_meanwhile_is_noticed(made):
    dataset = made("a,y\n1,0\n2,1\n")
    dataset.raw.path.write_text("a,y\n1,0\n3,1\n")
    module._read_and_convert.cache_clear()
    with pytest.raises(RunFailed, match="The file changed during the run"):
        load(dataset)
    dataset.raw.path.unlink()
    with pytest.raises(RunFailed, match="got no file"):
        load(dataset)


def test_arrays_that_another_version_made_are_noticed(made):
    from dataclasses import replace

    dataset = replace(made("a,y\n1,0\n2,1\n"), sha256="0" * 64)
    with pytest.raises(RunFailed, match="expected arrays with SHA-256 0000000000000000"):
        load(dataset)


pieces = st.sampled_from([*'ab01,,;\t "\n\n\n?é-', "y", "inf", "1e999", "True", "a,y\n", "1,0\n", "2,1\n", "0.5"])


@FUZZ
@given(st.lists(pieces, min_size=1, max_size=25).map("".join), st.sampled_from(["y", "-1", None]))
def test_any_csv_text_is_a_data_set_or_bad_input(tmp_path, text, target):
    path = tmp_path / "fuzz.csv"
    path.write_text(text)
    try:
        dataset = convert.fn(download.fn("d", str(path)), ConversionRule(target))
    except BadInput as error:
        assert str(error)
    else:
        assert load(dataset).y.shape == (dataset.n_rows,)
        assert dataset.n_pos <= dataset.n_neg


# Real data --------------------------------------------------------------------------------------------------------

KEEL_RATIOS = {  # seed 003, table 1
    "wisconsin": 1.86, "pima": 1.87, "vehicle1": 2.90, "new-thyroid1": 5.14, "segment0": 6.02, "yeast3": 8.10,
    "page-blocks0": 8.79, "vowel0": 9.98, "led7digit-0-2-4-5-6-7-8-9_vs_1": 10.97, "shuttle-c0-vs-c4": 13.87,
    "page-blocks-1-3_vs_4": 15.86, "yeast4": 28.1, "winequality-red-4": 29.17, "winequality-white-3_vs_7": 44,
    "shuttle-2_vs_5": 66.67, "poker-8_vs_6": 85.88,
}  # fmt: skip
LIBSVM_RATIOS = {  # seed 000, table 1, with the positive class that gives it
    "sonar_scale": (None, 1.1443), "fourclass": (None, 1.8078), "german.numer": (None, 2.3333),
    "svmguide3": (None, 3.1993), "dna.scale": ("1", 3.3103), "svmguide4": ("1", 5.8182), "pendigits": ("1", 8.6200),
    "vowel.scale": ("1", 10.0), "letter.scale": ("1", 24.2525), "sector.scale": ("1", 148.1163),
    "a9a": (None, None), "a9a.t": (None, None), "diabetes": (None, None), "dna.scale.t": ("1", None),
    "ijcnn1": (None, None), "ijcnn1.t": (None, None), "letter.scale.t": ("1", None), "pendigits.t": ("1", None),
    "sector.t.scale": ("1", None), "splice.all": (None, None), "w8a": (None, None),
}  # fmt: skip
UCI_RULES = {
    "adult-train.csv": ("-1", None), "adult-test.csv": ("-1", None), "covtype.20k.data": ("-1", "4"),
    "creditcard_subsample.csv": ("Class", None), "eighthr.data": ("-1", None),
    "letter-recognition.data": ("1", "A"), "sonar.all-data.csv": ("-1", None), "UCI_Credit_Card.csv": ("class", None),
}  # fmt: skip
REAL = (
    [(f"keel/{name}.dat", None, None, ratio) for name, ratio in KEEL_RATIOS.items()]
    + [(f"libsvm/{name}", None, positive, ratio) for name, (positive, ratio) in LIBSVM_RATIOS.items()]
    + [(f"uci/{name}", target, positive, None) for name, (target, positive) in UCI_RULES.items()]
)


@pytest.mark.parametrize(("file", "target", "positive", "ratio"), REAL, ids=[case[0] for case in REAL])
def test_real_files_have_the_rows_features_and_ratio_of_the_sources(mirror, file, target, positive, ratio):
    with (mirror / "index.csv").open() as stream:
        index = {row["file"]: row for row in csv.DictReader(stream)}
    raw = download.fn(file, str(mirror / file))
    dataset = convert.fn(raw, ConversionRule(target, positive))
    module._read_and_convert.cache_clear()
    own_id = file == "uci/UCI_Credit_Card.csv"  # its column ID is not among the features that the index counts
    expected = index[file]
    assert raw.sha256 == expected["sha256"]
    assert (dataset.n_rows, dataset.n_features - own_id) == (int(expected["rows"]), int(expected["features"]))
    if ratio is not None:
        assert dataset.imbalance_ratio == pytest.approx(ratio, abs=0.006 if file.startswith("keel") else 5e-5)


def test_every_nan_is_one_value_to_a_digest():
    """As the docstring says, whatever bits the file or the processor gave it."""
    other = np.array([0x7FF8_0000_0000_0001, 0xFFF8_0000_0000_0000], dtype=np.uint64).view(np.float64)
    assert np.isnan(other).all()
    y = np.array([1, -1], dtype=np.int8)
    usual, strange = (Table(pd.DataFrame({"a": column}), y) for column in (np.full(2, np.nan), other))
    assert table_sha256(usual) == table_sha256(strange)


# Rows, files and columns that are left out --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "target", "groups", "whole", "kept"),
    [
        ("d.csv", "y", (("a",), ("b",)), "x,y\n1,a\n2,c\n3,b\n4,b\n", "x,y\n1,a\n3,b\n4,b\n"),
        ("d.svm", None, (("1",), ("2",)), "1 1:1\n3 1:2\n2 1:3\n2 1:4\n", "1 1:1\n2 1:3\n2 1:4\n"),
    ],
    ids=["frame", "sparse"],
)
def test_rows_of_labels_in_no_group_leave_a_number_and_no_other_trace(tmp_path, name, target, groups, whole, kept):
    (tmp_path / "kept").mkdir()
    made = []
    for path, text in ((tmp_path / name, whole), (tmp_path / "kept" / name, kept)):
        path.write_text(text)
        made.append(convert.fn(download.fn("d", str(path)), ConversionRule(target, None, None, "class_groups", groups)))
    assert [dataset.provenance.rows_left_out for dataset in made] == [1, 0]
    assert (made[0].sha256, made[0].n_rows, made[0].n_neg) == (made[1].sha256, made[1].n_rows, made[1].n_neg)
    X, y = load(made[0]).X, load(made[0]).y
    assert X.shape == (3, 1) and y.tolist() == [1, -1, -1]
    if isinstance(X, pd.DataFrame):
        assert X.index.tolist() == [0, 1, 2]  # rows are asked for by their places


def test_labels_in_a_file_of_their_own_that_changed_meanwhile_are_noticed(tmp_path):
    images, labels = tmp_path / "images", tmp_path / "labels"
    images.write_bytes(bytes([0, 0, 8, 3]) + struct.pack(">3I", 4, 1, 2) + bytes(range(8)))
    labels.write_bytes(bytes([0, 0, 8, 1]) + struct.pack(">I", 4) + bytes([0, 1, 0, 0]))
    second = RawFile("d", labels, "idx", "d", file_sha256(labels), 12)
    raw = RawFile("d", images, "idx", "d", file_sha256(images), 24, second)
    dataset = convert.fn(raw, ConversionRule())
    assert load(dataset).y.tolist() == [-1, 1, -1, -1]
    labels.write_bytes(labels.read_bytes()[:-1] + b"\1")
    module._read_and_convert.cache_clear()
    with pytest.raises(RunFailed, match=r"labels with SHA-256 .* The file changed during the run"):
        load(dataset)


def test_a_file_that_can_no_longer_be_read_ends_the_run_and_is_no_bad_input(made, monkeypatch):
    dataset = made("a,y\n1,0\n2,1\n")
    module._read_and_convert.cache_clear()

    def read(*_):
        raise BadInput("Expected a file.")

    monkeypatch.setattr(module, "read", read)
    with pytest.raises(RunFailed, match=r"^d: the data changed or went during the run. Expected a file\."):
        load(dataset)


@pytest.mark.parametrize("drop", [(), ("z",)])
def test_a_column_that_is_no_input_by_the_header_is_left_out_once(tmp_path, drop):
    attributes = "@relation r\n@attribute c {a,b}\n@attribute x real\n@attribute z real\n"
    (tmp_path / "d.dat").write_text(f"{attributes}@inputs x\n@outputs c\n@data\na,1,9\nb,2,8\nb,3,7\n")
    dataset = convert.fn(download.fn("d", str(tmp_path / "d.dat")), ConversionRule(drop=drop))
    assert (dataset.columns, dataset.layout.left_out) == (("x",), ("z",))
    assert ("no inputs by the file's header: 'z'" in dataset.provenance.rule) == (not drop)
