"""ARFF and KEEL: what the grammar means, what is refused and on which line, and agreement with SciPy's reader."""

import io
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.io.arff import loadarff

from tasks import arff
from tasks.errors import BadInput

KEEL = """@relation glass1
@attribute RI real[1.51115, 1.53393]
@attribute Na integer [10,18]
@attribute Class{positive,negative}
@inputs RI, Na
@outputs Class
@data
1.52, 13, negative
 1.51 ,14, positive
<null>, ?, negative
"""


def test_keel_dialect_reads_ranges_outputs_and_missing_values():
    relation = arff.parse(KEEL, "glass1.dat")
    assert relation.target == "Class"
    assert relation.frame["Class"].tolist() == ["negative", "positive", "negative"]
    np.testing.assert_array_equal(relation.frame["RI"], [1.52, 1.51, np.nan])
    np.testing.assert_array_equal(relation.frame["Na"], [13.0, 14.0, np.nan])
    assert relation.lines.tolist() == [8, 9, 10]


def test_quotes_escapes_comments_and_cases():
    text = r"""% a comment
@RELATION 'two words'
@Attribute 'the name' STRING
@attribute "Class" {'a b', "c,d", e}

@DATA
% another
'it\'s, quoted', 'a b'
"x\ty", "c,d"
O'Brien, e
?, ?
"""
    frame = arff.parse(text, "t.arff").frame
    assert frame["the name"].tolist() == ["it's, quoted", "x\ty", "O'Brien", None]
    assert frame["Class"].tolist() == ["a b", "c,d", "e", None]


def test_sparse_rows_fill_up_with_zero_and_the_first_nominal_value():
    header = "@relation r\n@attribute a real\n@attribute s string\n@attribute c {no, yes}\n@data\n"
    frame = arff.parse(header + "{}\n{0 1.5, 2 yes}\n{1 'x, y'}\n", "t.arff").frame
    assert frame["a"].tolist() == [0.0, 1.5, 0.0]
    assert frame["s"].tolist() == [None, None, "x, y"]
    assert frame["c"].tolist() == ["no", "yes", "no"]


@given(st.integers(0, 10**6))
def test_sparse_rows_are_the_same_table_written_out_in_full(seed):
    rng = np.random.default_rng(seed)
    header = (
        "@relation t\n@attribute a numeric\n@attribute b {no, 'x, y', z}\n@attribute c string\n"
        '@attribute d date "yyyy-MM-dd"\n@attribute e real\n@data\n'
    )
    choices = (["1.5", "-2e3", "?"], ["no", "'x, y'", "z", "?"], ["t", "'u v'", "?"], ["2026-01-02", "?"], ["0", "7"])
    left_out = ["0", "no", "?", "?", "0"]
    sparse, full = [], []
    for _ in range(rng.integers(1, 5)):
        row = {int(i): str(rng.choice(choices[i])) for i in rng.permutation(5)[: rng.integers(0, 6)]}
        sparse.append("{" + ", ".join(f"{i} {text}" for i, text in row.items()) + "}")
        full.append(", ".join(row.get(i, text) for i, text in enumerate(left_out)))
    expected = arff.parse(header + "\n".join(full), "t.arff").frame
    mixed = [one if rng.random() < 0.5 else other for one, other in zip(sparse, full, strict=True)]
    for rows in (sparse, mixed):
        pd.testing.assert_frame_equal(arff.parse(header + "\n".join(rows), "t.arff").frame, expected)


def test_what_sparse_rows_leave_out_is_read_once_a_column(monkeypatch):
    """12,000 words of 1,500 documents took 20 s: each of the 18 million zeros was read."""
    real, count = arff._number, Counter()
    monkeypatch.setattr(arff, "_number", lambda text: count.update([text]) or real(text))
    header = "".join(f"@attribute w{i} numeric\n" for i in range(300))
    rows = "".join(f"{{{i} 1, {i + 7} 2}}\n" for i in range(200))
    frame = arff.parse(f"{header}@data\n{rows}", "t.arff").frame
    assert count == {"0": 300, "1": 200, "2": 200}
    assert frame.to_numpy().sum() == 600


def test_dates_are_seconds_since_1970():
    header = "@attribute d date{}\n@attribute c {{x}}\n@data\n"
    iso = arff.parse(header.format("") + "1970-01-02T00:00:01,x\n?,x\n", "t.arff").frame["d"]
    np.testing.assert_array_equal(iso, [86_401.0, np.nan])
    own = arff.parse(header.format(' "dd/MM/yyyy HH:mm"') + '"02/01/1970 00:01",x\n', "t.arff").frame["d"]
    assert own.tolist() == [86_460.0]


@pytest.mark.parametrize(
    ("declarations", "target"),
    [
        ("@attribute a real\n@attribute b {x,y}\n", "b"),
        ("@attribute CLASS {x,y}\n@attribute b real\n", "CLASS"),
        ("@attribute a {x,y}\n@attribute b real\n@output a\n", "a"),
        ("@attribute a {x,y}\n@attribute b {x,y}\n@outputs a, b\n", None),
    ],
)
def test_the_target_is_the_output_else_class_else_the_last_attribute(declarations, target):
    assert arff.parse(declarations + "@data\n", "t.arff").target == target


@pytest.mark.parametrize(
    ("listed", "no_features"),
    [
        ("", ()),
        ("@outputs c\n", ("c",)),
        ("@inputs a, b\n@outputs c\n", ("c",)),
        ("@inputs a\n@outputs c\n", ("b", "c")),
        ("@outputs b, c\n", ("b", "c")),
    ],
)
def test_keels_inputs_say_which_columns_are_features(listed, no_features):
    declared = "@attribute a real\n@attribute b real\n@attribute c {x,y}\n"
    assert arff.parse(declared + listed + "@data\n1,2,x\n", "k.dat").no_features == no_features


HEADER = "@relation r\n@attribute a real\n@attribute c {x, y}\n@data\n"


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (HEADER + "1,x\n2\n", 6, "expected 2 values, one for each attribute, got 1. Mend that line"),
        (HEADER + "1\tx\n2\tx\n", 5, "got 1. Put commas between the values, which other signs divide."),
        (HEADER + "1; x\n", 5, "got 1. Put commas between the values, which other signs divide."),
        (HEADER + "1,x,3\n", 5, "got 3"),
        (HEADER + "1,x\n\n% c\none,y\n", 8, "expected a number for attribute 'a', got 'one'"),
        (HEADER + "1_0,y\n", 5, "expected a number"),
        (HEADER + ",y\n", 5, "write ? if it is missing"),
        (HEADER + "1,z\n", 5, "expected one of {x, y} for attribute 'c', got 'z'"),
        (HEADER + "1,'x\n", 5, "quoted value to end with its quote"),
        (HEADER + "{0 1, 1 x\n", 5, "expected a sparse row"),
        (HEADER + "{5 1}\n", 5, "indices from 0 to 1, got 5"),
        (HEADER + "{a 1}\n", 5, "expected a sparse row"),
        ("@relation r\n@atribute a real\n@data\n", 2, "expected @relation, @attribute"),
        ("@relation r\n@attribute a\n@data\n", 2, "expected '@attribute NAME TYPE', got 'a'"),
        ("@relation r\n@attribute a reel\n@data\n", 2, "Did you mean 'real'?"),
        ("@relation r\n@attribute a relational\n@data\n", 2, "expected attribute 'a' to be real"),
        ("@relation r\n@attribute a date 'EEE'\n@data\n", 2, "expected a date format"),
        ("@relation r\n@attribute a date 'yyyy'\n@data\nlater\n", 4, "expected a date like %Y"),
        ("@relation r\n@data\n1\n", 2, "expected an @attribute line before @data"),
    ],
)
def test_errors_name_the_line(text, line, words):
    with pytest.raises(BadInput) as error:
        arff.parse(text, "bad.arff")
    assert str(error.value).startswith(f"bad.arff, line {line}: expected")
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("@relation r\n@attribute a real\n", "expected a line @data"),
        ("@attribute Class {x}\n@outputs Clas\n@data\n", "got 'Clas'. Did you mean 'Class'?"),
        ("@attribute age real\n@inputs agee\n@data\n", "expected @inputs to name attributes, got 'agee'. Did you mean"),
        (
            "@attribute a real\n@attribute a real\n@inputs a, b\n@data\n",
            "got 'b'. 'a' is there twice. Mend the header.",
        ),
    ],
)
def test_errors_of_the_whole_header(text, words):
    with pytest.raises(BadInput, match=r"^bad\.arff: ") as error:
        arff.parse(text, "bad.arff")
    assert words in str(error.value)


numbers = st.floats(allow_nan=False, allow_infinity=False)
names = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,8}", fullmatch=True)


@settings(max_examples=60, deadline=None)
@given(st.lists(names, min_size=1, max_size=4, unique_by=str.lower), st.data())
def test_agrees_with_scipy_on_what_scipy_reads(columns, data):
    rows = data.draw(st.lists(st.tuples(*[numbers for _ in columns], st.sampled_from(["x", "y z"])), min_size=1))
    text = "@relation r\n" + "".join(f"@attribute {c} real\n" for c in columns)
    text += "@attribute the_label {x, 'y z'}\n@data\n"
    text += "".join(",".join(map(repr, row[:-1])) + f",'{row[-1]}'\n" for row in rows)
    expected, _ = loadarff(io.StringIO(text))
    frame = arff.parse(text, "t.arff").frame
    for column in columns:
        np.testing.assert_array_equal(frame[column], expected[column])
    assert frame["the_label"].tolist() == [value.decode() for value in expected["the_label"]]


declarations = ("@attribute a real\n", "@attribute 'b c' {x,'y,z'}\n", "@attribute s string\n", "@attribute d date\n")
fragments = st.sampled_from([*declarations, "@data\n", "@outputs a\n", "1,x\n", "{0 1}\n", *"{}'\"\\,?% \n@é"])


@settings(max_examples=400, deadline=None)
@given(st.lists(fragments | st.text(max_size=3), max_size=14))
def test_any_text_is_a_table_or_bad_input(parts):
    try:
        relation = arff.parse("".join(parts), "fuzz.arff")
    except BadInput as error:
        assert "fuzz.arff" in str(error)
    else:
        assert len(relation.frame) == len(relation.lines)


def test_a_long_line_of_odd_quotes_is_refused_in_linear_time():
    line = "'" + "a' b, '" * 100_000
    with pytest.raises(BadInput, match="line 5"):
        arff.parse(HEADER + line + "\n", "long.arff")
