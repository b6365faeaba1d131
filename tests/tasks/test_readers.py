"""Readers: what each format means, what is refused and on which line; any bytes give a table or one clear error."""

import bz2
import gzip
import io
import lzma
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from tasks import chunks, readers
from tasks.convert import convert, load
from tasks.download import download
from tasks.errors import BadInput
from tasks.values import ConversionRule

FUZZ = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def write(folder: Path, data: str | bytes, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return path


def refusal(reader, path: Path, *args) -> str:
    with pytest.raises(BadInput) as error:
        reader(path, *args)
    assert path.name in str(error.value)
    assert "\n" not in str(error.value)
    return str(error.value)


# CSV --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "a,b,c\n1,x,2.5\n3,y,\n",
        "\ufeffa,b,c\r\n1,x,2.5\r\n3,y,?\r\n",
        "a,b,c\r1,x,2.5\r3,y,NA\r",
        "a;b;c\n1;x;2,5\n3;y;\n",
        "a\tb\tc\n1\tx\t2.5\n3\ty\t\n",
        "a|b|c\n1|x|2.5\n3|y| NA \n",
        "a b  c\n 1 x 2.5\n3   y ? \n",
        '"a","b","c"\n"1","x","2.5"\n"3","y",""\n',
        "\n\na, b, c\n\n1, x, 2.5\n   \n3, y, \n\n",
        "a,b,c\n1,x,2.5\n3,y,",
    ],
)
def test_one_table_in_many_spellings(tmp_path, text):
    table = readers.read_csv(write(tmp_path, text))
    assert table.X.columns.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(table.X["a"], [1.0, 3.0])
    assert table.X["b"].tolist() == ["x", "y"]
    np.testing.assert_array_equal(table.X["c"], [2.5, np.nan])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_unicode_with_and_without_byte_order_mark(tmp_path, encoding):
    table = readers.read_csv(write(tmp_path, "größe,città\n1,Zürich\n2,東京\n".encode(encoding)))
    assert table.X["città"].tolist() == ["Zürich", "東京"]


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_text(tmp_path, compress):
    data = compress(b"a,b\n1,2\n")
    assert readers.read_csv(write(tmp_path, data, "data.csv.z")).X["b"].tolist() == [2]
    refusal(readers.read_csv, write(tmp_path, data[:-6], "cut.csv.z"))


def test_quoted_delimiters_and_line_breaks_keep_rows_and_lines(tmp_path):
    table = readers.read_csv(write(tmp_path, 'a,b,y\n1,"x, ""z""\nmore",0\n2,w,1\n'))
    assert table.X["b"].tolist() == ['x, "z"\nmore', "w"]
    assert table.lines.tolist() == [2, 4]
    assert table.place(1) == "line 4"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1,2,3\n4,5,6\n", None),
        ("39, State-gov, <=50K\n50, Private, >50K\n", None),
        ("0.02,0.03,R\n0.4,0.5,M\n", None),
        ("p,x,s,n,p\ne,x,y,n,p\n", None),  # all texts, some twice: no names
        ("x,y\ny,z\nx,z\n", None),  # a text that comes again further down is a value
        ("age,job\n39,clerk\n", ["age", "job"]),
        ("a,b\nx,y\nz,w\n", ["a", "b"]),
        ("country,1990,1991\nDE,1,2\nFR,3,4\n", None),
        ("country,1990,1991,label\nDE,1,2,0\nFR,3,4,1\n", ["country", "1990", "1991", "label"]),
        (",a,y\n0,1.5,0\n1,2.5,1\n", ["", "a", "y"]),  # pandas writes an index without a name
        ("0,1,2\n0.5,1.5,2.5\n", ["0", "1", "2"]),  # and columns by their numbers
        ("a,a,y\n1,2,0\n", ["a", "a", "y"]),
        ("?,1.0,0\n2.0,3.0,1\n4.0,3.0,0\n", None),  # a gap in the first row is no name
        ("NA,x,y\n1,2,3\n4,5,6\n", ["NA", "x", "y"]),  # sodium is
    ],
)
def test_header_is_detected(tmp_path, text, names):
    table = readers.read_csv(write(tmp_path, text))
    assert table.named == (names is not None)
    expected = names or [f"column_{i + 1}" for i in range(table.X.shape[1])]
    assert table.X.columns.tolist() == expected
    assert len(table.X) == text.count("\n") - (names is not None)


def test_without_a_header_rows_may_be_as_the_first_one(tmp_path):
    table = readers.read_csv(write(tmp_path, "red,no\nblue,yes\nred,no\n"))
    assert not table.named and table.X["column_1"].tolist() == ["red", "blue", "red"]


def test_a_delimiter_that_also_stands_in_values(tmp_path):
    text = "when,tags,y\n2024-01-01 10:00,a;b,0\n2024-01-02 11:00,c;d,1\n"
    assert readers.detect_delimiter(text) == ","
    assert readers.read_csv(write(tmp_path, "a;b\n1,5;2\n")).X["a"].tolist() == [1.5]
    assert readers.read_csv(write(tmp_path, "a:b\n1:2\n"), ":").X.columns.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("a,b\n1,2\n3\n", "line 3: expected 2 values, as in line 1, got 1"),
        ("a,b\n1,2\n\n3,4,5\n", "line 4: expected 2 values, as in line 1, got 3"),
        ('a,b\n1,2\n3,"4\n5,6\n', "line 3: expected a quoted value to end with its quote, got the end of the file"),
        ('a,b\n1,2\n"3,4\n5,6\n', "line 3: expected 2 values, as in line 1, got 1 (it runs on to line 4"),
        ("a,b\n1,2\n# half of it\n", "If lines that begin with # are comments, remove them: CSV has none."),
        ("#a,b\n1,2\n3\n", "line 3: expected 2 values, as in line 1, got 1. Mend that line"),
        (
            b"a,b\n1,caf\xe9\n",
            "line 2: expected UTF-8 text, got byte 0xe9. Convert the file, for example: iconv -f LATIN1",
        ),
        (b"a,b\n1,\x93so\x94\n", "got byte 0x93. Convert the file, for example: iconv -f CP1252 -t UTF-8 "),
        ("größe,b\n1,0\n".encode("utf-16-be"), "looks like UTF-16BE. Convert the file, for example: iconv -f UTF-16BE"),
        (
            "größe,b\n1,0\n".encode("utf-32"),
            "got what looks like UTF-32. Convert the file, for example: iconv -f UTF-32",
        ),
        (b"a,b\n1,\x002\n", "line 2: expected text, got a zero byte"),
        (b"PAR1....", "got a Parquet file"),
        (b"PK\x03\x04....", "Excel workbook"),
        ("a,b\n1,2\na,b\n3,4\n", "line 3: expected a row, got the header once more. Remove that line."),
        ("a,y\n" + "1,0\n" * 999 + "a,y\n2,1\n", "line 1001: expected a row, got the header once more"),
        ("  <!DOCTYPE html><html>404</html>", "got a web page"),
        ("\n \n", "expected rows, got none"),
        (b"\x1f\x8bnot gzip", "expected a whole, readable file"),
    ],
)
def test_csv_errors_name_file_line_and_cause(tmp_path, data, words):
    assert words in refusal(readers.read_csv, write(tmp_path, data))


@pytest.mark.parametrize(
    ("text", "first", "line"),
    [
        ("Claims of 2026\n\na,b,y\n1,2,0\n3,4,1\n", 1, 3),
        ("# exported\na,b,y\n1,2,0\n3,4,1\n", 1, 2),
        ("Claims, 2026\nby hand\n\na;b;y\n1,5;2;0\n3;4;1\n", 1, 4),
        ("x;y\nClaims\na;b;y\n1;2;0\n3;4;1\n", 1, 3),
        ('"Claims\nof 2026"\na,b,y\n1,2,0\n3,4,1\n', 1, 3),
        ("sep=;\nClaims\na;b;y\n1;2;0\n3;4;1\n", 2, 3),
        ("\n\nClaims\n\na,b,y\n1,2,0\n3,4,1\n", 3, 5),
    ],
)
def test_lines_above_the_table_are_told_as_such(tmp_path, text, first, line):
    raw = download.fn("d", str(write(tmp_path, text)), "csv")
    for read in (readers.read_csv, lambda path: list(chunks.pieces(raw, ConversionRule(), 1, frozenset()))):
        said = refusal(read, raw.path)
        assert f"line {first}: expected the names of the columns, got '{text.splitlines()[first - 1]}'" in said
        assert f"seems to begin in line {line} ('a" in said and said.endswith("belong to it, give each 3 values.")


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n" + "1,2,3\n" * 9,  # a header that lacks a name
        "a\n1,x\n2,y\n3,z,\n",
        "a,b,c\n" + "1,2\n" * 9,
        "name,class\n" + "n,k\n" * 6 + "m,k,1\n" * 200,  # a table of two columns, and a third that came later
        "name,v\n" + "n,0\n" * 6 + "z,>100,late\n" + "n,1,x\n" * 200,
        "n,m\n" + "a,b,c,d\n" * 9,  # no header at all
    ],
)
def test_a_header_of_another_width_is_no_title(tmp_path, text):
    assert "as in line 1" in refusal(readers.read_csv, write(tmp_path, text))


@pytest.mark.parametrize("text", ["1 1:0.5 3:2\n-1 2:1\n", "# made by hand\n+1 qid:3 1:-5e-1 # first\n\n-1\n"])
def test_svmlight_named_csv_is_refused_and_not_read_as_columns_of_texts(tmp_path, text):
    assert "which is the svmlight format" in refusal(readers.read_csv, write(tmp_path, text))


def test_times_are_no_svmlight(tmp_path):
    """One 'number:number' a line is a time of day; so is one beside other texts."""
    assert readers.read_csv(write(tmp_path, "day at\n1 12:30\n2 9:05\n")).X["at"].tolist() == ["12:30", "9:05"]
    frame = readers.read_csv(write(tmp_path, "1 12:30 x\n2 9:05 y\n")).X
    assert frame.iloc[:, 1].tolist() == ["12:30", "9:05"]


def test_a_value_may_be_very_long(tmp_path):
    table = readers.read_csv(write(tmp_path, 'a,b\n1,"' + "x" * 10_000_000 + '"\n'))
    assert table.X["b"].str.len().tolist() == [10_000_000]


def test_a_header_alone_is_a_table_without_rows(tmp_path):
    table = readers.read_csv(write(tmp_path, "a,b,y\n"))
    assert table.X.shape == (0, 3)


def test_infinite_numbers_stay_numbers(tmp_path):
    table = readers.read_csv(write(tmp_path, "a,b\n1e400,inf\n2,-Infinity\n"))
    assert table.X["a"].tolist() == [np.inf, 2.0]
    assert table.X["b"].tolist() == [np.inf, -np.inf]


cells = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), max_size=6)


@FUZZ
@given(st.lists(st.tuples(st.integers(-5, 5), st.floats(allow_nan=False, allow_infinity=False)), min_size=1))
def test_csv_reads_what_pandas_writes(tmp_path, rows):
    frame = pd.DataFrame(rows, columns=["i", "x"])
    frame.to_csv(tmp_path / "data.csv", index=False)
    X = readers.read_csv(tmp_path / "data.csv").X
    np.testing.assert_array_equal(X.to_numpy(float), frame.to_numpy(float))


pieces = st.sampled_from([*'a1,,;\t "\n\n?é#\x0b', "\r\n", "inf", "1e999", "True"])


@FUZZ
@given(st.lists(pieces | cells, max_size=20).map("".join).map(str.encode) | st.binary(max_size=60))
@example(b'a,b\n1,2\n"""')
@example(b"\xff\xfea")
@example(b"\x1f\x8b\x08")
def test_any_bytes_are_a_csv_table_or_bad_input(tmp_path, data):
    any_bytes(readers.read_csv, write(tmp_path, data, "fuzz.csv"))


def any_bytes(reader, path):
    try:
        table = reader(path)
    except BadInput as error:
        assert path.name in str(error)
    else:
        assert table.lines is None or len(table.lines) == table.X.shape[0]


# Parquet ----------------------------------------------------------------------------------------------------------


def test_parquet_keeps_its_types(tmp_path):
    frame = pd.DataFrame({"x": [1, 2], "t": ["a", None], "when": pd.to_datetime(["2024-01-01", None])})
    frame.to_parquet(tmp_path / "data.parquet")
    table = readers.read_parquet(tmp_path / "data.parquet")
    assert table.X.columns.tolist() == ["x", "t", "when"]
    assert table.place(0) == "row 1"


def pandas_wrote(folder, index, columns=("x", "y")):
    frame = pd.DataFrame([[1.5, 0], [2.5, 1]], columns=list(columns), index=index)
    frame.to_parquet(folder / "data.parquet")
    return download.fn("d", str(folder / "data.parquet"))


@pytest.mark.parametrize(
    ("index", "named"),
    [
        (pd.Index([7, 9]), ()),
        (pd.RangeIndex(2, name="row"), ()),
        (pd.Index(["b", "a"], name="who"), ("who",)),
        (pd.Index(["b", "a"], name=" who"), ("who",)),
        (pd.Index([7, 9], name=""), ()),
        (pd.Index([7, 9], name="x"), ()),  # as a column: pandas writes it without its name
        (pd.Index([7, 9], name="x "), ()),
        (pd.MultiIndex.from_arrays([[7, 9], ["b", "a"], [1, 2]], names=["shop", None, "till"]), ("shop", "till")),
    ],
    ids=str,
)
def test_the_index_that_pandas_wrote_is_no_feature_but_may_be_named(tmp_path, index, named):
    raw = pandas_wrote(tmp_path, index)
    table = readers.read_parquet(raw.path)
    assert table.n_index == len(named) and table.X.index.tolist() == [0, 1]
    for target in ("y", "2", "-1"):
        dataset = convert.fn(raw, ConversionRule(target))
        assert (dataset.layout.target, dataset.columns) == ("y", ("x",))
    for name in named:
        groups = load(convert.fn(raw, ConversionRule("y", group=name))).groups
        assert len({*groups}) == 2
        assert convert.fn(raw, ConversionRule(name)).columns == ("x", "y")


def test_an_index_beside_names_of_several_levels_is_no_feature(tmp_path):
    levels = pd.MultiIndex.from_tuples([("a", "x"), ("b", "y")])
    raw = pandas_wrote(tmp_path, pd.Index([7, 9], name="who"), levels)
    assert convert.fn(raw, ConversionRule("2")).columns == ("('a', 'x')",)


def test_an_index_of_pandas_that_another_writer_left_out_is_none(tmp_path):
    table = pa.Table.from_pandas(pd.DataFrame({"x": [1.5, 2.5], "y": [0, 1]}, index=pd.Index([7, 9], name="who")))
    parquet.write_table(table.drop_columns("who"), tmp_path / "data.parquet")
    table = readers.read_parquet(tmp_path / "data.parquet")
    assert (table.n_index, table.X.columns.tolist()) == (0, ["x", "y"])


@pytest.mark.parametrize("column", [pa.array([[1], [2]]), pa.array([b"a", b"b"]), pa.array([{"k": 1}, {"k": 2}])])
def test_parquet_refuses_nested_and_binary_columns(tmp_path, column):
    parquet.write_table(pa.table({"odd": column, "y": [0, 1]}), tmp_path / "data.parquet")
    assert "got column 'odd' of type" in refusal(readers.read_parquet, tmp_path / "data.parquet")


@pytest.mark.parametrize("column", [pa.array([[1], [2]]), pa.array([b"a", b"b"])])
@pytest.mark.parametrize("index", [None, pd.Index([7, 9], name="who")])
def test_a_parquet_column_that_is_dropped_may_be_of_any_type(tmp_path, column, index):
    table = pa.Table.from_pandas(pd.DataFrame({"x": [1.0, 2.0], "y": [0, 1]}, index=index))
    parquet.write_table(table.add_column(1, "odd", column), tmp_path / "data.parquet")
    frame = readers.read_parquet(tmp_path / "data.parquet", ("odd",)).X
    named = [] if index is None else ["who"]
    assert frame.columns.tolist() == ["x", "odd", "y", *named] and frame["odd"].isna().all()
    assert frame[["x", "y"]].to_numpy().tolist() == [[1.0, 0.0], [2.0, 1.0]]
    raw = download.fn("d", str(tmp_path / "data.parquet"))
    assert convert.fn(raw, ConversionRule("y", drop=("odd",))).columns == ("x",)


def test_commas_and_dots_in_one_column_are_not_guessed_at(tmp_path):
    def column(*cells):
        text = "a;t\n" + "".join(f"{cell};{i}\n" for i, cell in enumerate(cells))
        return readers.read_csv(write(tmp_path, text)).X["a"].tolist()

    assert column("999,50", "1.234", "12.500") == ["999,50", "1.234", "12.500"]
    assert column("999,50", "1.5") == [999.5, 1.5]
    assert column("1.234", "12.500") == [1.234, 12.5]


@pytest.mark.parametrize("prices", [("1,5", "2,5"), ("1.234,50", "2.500,00"), (" 1,5 ", "")])
def test_dots_are_not_guessed_at_where_numbers_of_another_column_have_commas(tmp_path, prices):
    """A spreadsheet that writes 0,5 writes a thousand as 1.000: as a number it would be less than 999."""
    text = f"price;places;n;day\n{prices[0]};999;1;01.05.2024\n{prices[1]};1.000;2;02.05.2024\n"
    found = readers.read_csv(write(tmp_path, text)).X
    assert found["places"].tolist() == ["999", "1.000"] and found["n"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("one", "others"),
    [
        (["1,5", "2,5"], ["0.123", "1.500"]),  # no thousand begins with 0
        (["1,2", "3"], ["12.125", "3.2"]),  # a list of choices is no number
        (["1,2", "3"], ["12.125", "3.2041"]),
        (["1,5", "3"], ["1.234", "1e-3"]),
        (["1.5", "2.5"], ["1.234", "12.500"]),
    ],
)
def test_a_decimal_point_anywhere_tells_what_dots_are(tmp_path, one, others):
    text = "a;b\n" + "".join(f"{a};{b}\n" for a, b in zip(one, others, strict=True))
    assert readers.read_csv(write(tmp_path, text)).X["b"].tolist() == [*map(float, others)]


@pytest.mark.parametrize("other", ["12.30", "24.12", "0.5"])
def test_times_of_day_and_versions_tell_nothing_of_thousands(tmp_path, other):
    text = f"price;places;clock\n0,5;1.000;{other}\n2,5;2.000;{other}\n"
    assert readers.read_csv(write(tmp_path, text)).X["places"].tolist() == ["1.000", "2.000"]


@pytest.mark.parametrize("other", ["0.5", "12.30", "0.1234"])
def test_commas_before_three_digits_are_not_guessed_at_where_numbers_have_points(tmp_path, other):
    """A spreadsheet that writes 0.5 writes a thousand as 1,000: as a number it would be less than 999."""
    text = f"amount;rate\n999;{other}\n1,250;{other}\n12,500;3\n"
    assert readers.read_csv(write(tmp_path, text)).X["amount"].tolist() == ["999", "1,250", "12,500"]
    assert readers.read_csv(write(tmp_path, "amount;n\n999.50;1\n1,250;2\n")).X["amount"].tolist() == [
        "999.50",
        "1,250",
    ]


@pytest.mark.parametrize("other", ["0,5", "3", "1,5"])
def test_commas_before_three_digits_are_decimal_ones_where_no_number_has_a_point(tmp_path, other):
    text = f"amount;rate\n999;{other}\n1,250;{other}\n12,500;3\n"
    assert readers.read_csv(write(tmp_path, text)).X["amount"].tolist() == [999.0, 1.25, 12.5]
    assert readers.read_csv(write(tmp_path, "a;b\n1,250;0.5\n0,125;2\n")).X["a"].tolist() == [1.25, 0.125]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("class,0,1,2\nyes,1,0,0.5\nno,2,1,0.5\nyes,0,3,1\n", ["class", "0", "1", "2"]),
        ("0,1,class\n5,0.5,yes\n6,1.5,no\n", ["0", "1", "class"]),
        ("yes,0,1\nno,2,3\nyes,4,5\n", ["column_1", "column_2", "column_3"]),  # the label comes again: a row
        ("a,0,2\nb,2,3\nc,4,5\n", ["column_1", "column_2", "column_3"]),
    ],
)
def test_numbered_columns_beside_a_named_target_are_a_header(tmp_path, text, names):
    assert readers.read_csv(write(tmp_path, text)).X.columns.tolist() == names


@given(st.lists(st.floats(-2000, 2000).map(lambda x: round(x, 5)) | st.integers(-2000, 2000), min_size=1, max_size=9))
def test_what_numbers_tell_of_their_points_their_texts_tell_too(numbers):
    if readers._has_decimals(np.array(numbers, dtype=float)):
        assert any(readers._DECIMALS.fullmatch(str(number)) for number in numbers)


def test_commas_in_a_column_of_words_say_nothing_of_numbers(tmp_path):
    text = "sizes;weight\n1,2;1.234\nall;12.500\n"
    assert readers.read_csv(write(tmp_path, text)).X["weight"].tolist() == [1.234, 12.5]


def test_what_is_no_parquet_file_is_told_in_whole_sentences(tmp_path):
    told = refusal(readers.read_parquet, write(tmp_path, b"PAR0" * 80, "junk.parquet"))
    assert told.startswith("junk.parquet: expected a Parquet file, got: ") and ".." not in told


@FUZZ
@given(st.data())
def test_a_damaged_parquet_file_is_a_table_or_bad_input(tmp_path, data):
    buffer = io.BytesIO()
    pd.DataFrame({"x": [1.0, 2.0, 3.0], "t": ["a", "b", "c"], "y": [0, 1, 0]}).to_parquet(buffer)
    damaged = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(0, 4))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(damaged)))
    any_bytes(readers.read_parquet, write(tmp_path, bytes(damaged[: cut or None]), "fuzz.parquet"))


# svmlight ---------------------------------------------------------------------------------------------------------


def test_svmlight_comments_queries_and_line_ends(tmp_path):
    data = b"\xef\xbb\xbf# a comment\r\n+1 qid:3 1:0.5 3:2 # note\r\n\r\n-1 2:1e-3\r\n1\r\n"
    table = readers.read_svmlight(write(tmp_path, data, "a.svm"))
    np.testing.assert_array_equal(table.X.toarray(), [[0.5, 0, 2], [0, 0.001, 0], [0, 0, 0]])
    assert table.labels.tolist() == [1.0, -1.0, 1.0]
    assert table.lines.tolist() == [2, 4, 5]


def test_svmlight_indices_count_from_zero_where_a_zero_occurs(tmp_path):
    assert readers.read_svmlight(write(tmp_path, b"1 0:5 1:6\n-1 1:7\n", "a.svm")).X.toarray()[0].tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("one 1:2", "the label 'one', which is not a finite number"),
        ("nan 1:2", "the label 'nan'"),
        ("1:2 2:3", "the label '1:2', which is not a finite number; a row begins with one, any number where it is not"),
        ("1,2 1:2", "the label '1,2'"),
        ("1 1:abc", "the value 'abc' of index 1"),
        ("1 1:2 5", "'5' without a colon"),
        ("1 a:2", "the index 'a'"),
        ("1 -1:2", "the index '-1'"),
        ("1 3:1 2:1", "index 2 after index 3: indices must ascend"),
        ("1 2:1 2:1", "index 2 after index 2"),
        ("1 1:inf", "the value 'inf' of index 1"),
        ("1 1:nan", "the value 'nan'"),
        ("1 1:1e999", "the value '1e999'"),
        ("1 1:", "the value ''"),
        ("1 99999999999:1", "the index '99999999999'"),
        ("1 999999999:1", "the index '999999999'"),
        ("1 1:2 qid:3", "the index 'qid'"),
        ("<a> 1:2", "the label '<a>'"),
    ],
)
def test_svmlight_errors_name_the_line(tmp_path, line, words):
    path = write(tmp_path, f"1 1:1\n# c\n\n{line}\n-1 1:2\n", "bad.svm")
    message = refusal(readers.read_svmlight, path)
    assert message.startswith("bad.svm, line 4: expected 'label index:value …', got")
    assert words in message


@FUZZ
@given(st.lists(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3), min_size=1, max_size=8))
def test_svmlight_reads_what_scikit_learn_writes(tmp_path, rows):
    X, y = np.array(rows), np.arange(len(rows))
    dump_svmlight_file(X, y, str(tmp_path / "a.svm"), zero_based=False)
    table = readers.read_svmlight(tmp_path / "a.svm")
    expected, labels = load_svmlight_file(str(tmp_path / "a.svm"), zero_based="auto")
    np.testing.assert_array_equal(table.X.toarray(), expected.toarray())
    np.testing.assert_array_equal(table.labels, labels)


svm_pieces = st.sampled_from([*"1  :\n\n#\ré\t", "-1", "+1", "1:2", "3:0.5", "0:1", "qid:1", "nan", "1_0"])


@FUZZ
@given(st.lists(svm_pieces, max_size=20).map("".join).map(str.encode) | st.binary(max_size=40))
def test_any_bytes_are_an_svmlight_matrix_or_bad_input(tmp_path, data):
    any_bytes(readers.read_svmlight, write(tmp_path, data, "fuzz.svm"))


# The others -------------------------------------------------------------------------------------------------------


@FUZZ
@given(st.binary(max_size=40).map(lambda tail: b"@relation r\n@attribute a real\n@data\n" + tail))
def test_any_bytes_are_an_arff_table_or_bad_input(tmp_path, data):
    any_bytes(readers.read_arff, write(tmp_path, data, "fuzz.arff"))


@pytest.mark.parametrize(
    ("name", "shape", "labels"),
    [
        ("digits", (1797, 65), list("0123456789")),
        ("breast_cancer", (569, 31), ["benign", "malignant"]),
        ("wine", (178, 14), ["class_0", "class_1", "class_2"]),
    ],
)
def test_scikit_learns_own_have_labels_that_a_person_knows(name, shape, labels):
    table = readers.read_sklearn(name)
    assert table.X.shape == shape
    assert sorted(set(table.X[table.target])) == labels
