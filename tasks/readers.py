"""Readers: one function per format, from a file to a table as it stands in the file.

Nothing is interpreted here but what the format itself says: which texts are numbers and which cells are missing.
Labels, classes and the rest of what makes a data set are ``tasks.convert``'s.

Whatever is wrong with a file is `BadInput`, naming file, line where there is one, cause and remedy. Text is UTF-8 (with
or without a byte-order mark, or UTF-16 with one), lines may end as on Unix, Windows or old Macs, and any text format
may be compressed with gzip, bzip2 or xz. Other encodings are refused rather than guessed: a wrong guess
turns labels into other labels without a word.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from scipy.sparse import csr_matrix
from sklearn import datasets as sklearn_datasets

from aucsolvers.cells import MISSING
from aucsolvers.columns import NUMBER
from tasks import arff, svmlight
from tasks.classes import shortened
from tasks.column_names import unique_names
from tasks.errors import BadInput
from tasks.files import UTF_8_MARK, UTF_16_MARKS, read_bytes, read_text, refuse_foreign, refuse_width
from tasks.values import RawFile

FORMATS = ("csv", "parquet", "svmlight", "keel", "arff", "npz", "idx")

WHOLE = {pa.int64(): pd.Int64Dtype(), pa.uint64(): pd.UInt64Dtype()}
# The first delimiter that divides the file evenly wins: those that rarely stand inside values come first.
DELIMITERS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma", " ": "blanks"}

SKLEARN = {
    "digits": ("digits.csv.gz", sklearn_datasets.load_digits, "digit"),
    "breast_cancer": ("breast_cancer.csv", sklearn_datasets.load_breast_cancer, "diagnosis"),
    "wine": ("wine_data.csv", sklearn_datasets.load_wine, "cultivar"),
}

# The limit is the whole process's, and other libraries set it too: with none, what is read does not depend on them.
csv.field_size_limit(2**31 - 1)

SAMPLE = 200  # records that header and delimiter are judged by
HEAD = 200_000  # characters that hold them, or one line that is longer
DOTS = re.compile(r"[+-]?[1-9][0-9]{0,2}(\.[0-9]{3})+")  # 1.234, a number of thousands or one and a bit
_COMMAS = re.compile(r"[+-]?[1-9][0-9]{0,2},[0-9]{3}")  # 1,234: the same
_COMMA = re.compile(r"[+-]?([0-9]+|[1-9][0-9]{0,2}(\.[0-9]{3})+),[0-9]+")  # 999,50 and 1.234,50
_POINT = re.compile(r"[+-]?[0-9]*\.[0-9]+")  # 1.5, but 12.30 may be a time of day, and 1.10 a version
# 0.123, 1.2345, 12345.6 and 1e-3: what is no time, day or version, and no thousands
_DECIMALS = re.compile(r"[+-]?(0?\.[0-9]{3,}|[0-9]*\.[0-9]{4,}|[0-9]{5,}\.[0-9]+|[0-9.]+[eE][+-]?[0-9]+)")
_EXCELS_LINE = re.compile(r'"?sep=(.)"?(?=\n)', re.IGNORECASE)
_SVMLIGHT_PAIR = re.compile(r"(?:qid|[0-9]+):[+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?")


Marks = Mapping[int, frozenset[str]]  # of columns by position: "comma", "dots", "point", "decimals" of some, or "words"


class Ragged(BadInput):
    """A record of a CSV file has another width than the first."""


@dataclass(frozen=True)
class RawTable:
    """What a reader returns: columns with the target among them, or a sparse matrix with its labels beside it."""

    X: pd.DataFrame | csr_matrix
    labels: np.ndarray = field(default_factory=lambda: np.empty(0))  # svmlight's
    target: str | None = None  # the format's own target column
    no_features: tuple[str, ...] = ()  # other columns that the file itself says are none: KEEL's, not among its inputs
    n_index: int = 0  # how many of the last columns are the index that pandas wrote: no features, and not counted
    lines: np.ndarray | None = None  # the line of every row; None where rows have no lines
    named: bool = True  # False: the columns' names are ours, for the file has none
    rows_before: int = 0  # of a piece of a table
    index_base: int | None = None  # svmlight's: whether its features count from 0 or 1
    marks: Marks = field(default_factory=dict)  # of a CSV file with semicolons

    def place(self, row: int) -> str:
        """Return where a row stands in the file, in words."""
        return f"line {self.lines[row]}" if self.lines is not None else f"row {self.rows_before + row + 1}"


def read(
    raw: RawFile, delimiter: str | None = None, drop: tuple[str, ...] = (), as_spelt: tuple[str, ...] = ()
) -> RawTable:
    """Return the table in a raw file; ``delimiter`` is that of a CSV file, detected if None.

    Columns in ``drop`` are there, but a Parquet file's may be empty: they need not be of a type that can be read. Those
    ``as_spelt`` of a CSV file are texts whatever they hold.
    """
    if raw.format == "csv":
        return read_csv(raw.path, delimiter, as_spelt)
    if raw.format == "sklearn":
        return read_sklearn(raw.source.removeprefix("sklearn:"))
    if raw.format in ("npz", "idx"):
        from tasks import arrays

        return arrays.read_npz(raw.path) if raw.format == "npz" else arrays.read_idx(*(file.path for file in raw.files))
    if raw.format == "parquet":
        return read_parquet(raw.path, drop)
    readers = {"svmlight": read_svmlight, "keel": read_arff, "arff": read_arff}
    return readers[raw.format](raw.path)


# CSV --------------------------------------------------------------------------------------------------------------


def read_csv(path: Path, delimiter: str | None = None, as_spelt: tuple[str, ...] = ()) -> RawTable:
    """Return a delimited text file's table; delimiter and header are detected, ragged rows refused.

    Without a header the columns are called column_1, column_2, …
    """
    delimiter = checked_delimiter(delimiter)
    said, text = without_excels_line(read_text(path))
    refuse_svmlight(text, path.name)
    delimiter = delimiter or checked_delimiter(said) or detect_delimiter(text)
    if delimiter == " ":
        text = "\n".join(map(single_spaced, text.split("\n")))
    with told_of_titles(text, path.name):
        sample, starts, repeats = _scan(text, delimiter, path.name)
    if not sample:
        raise BadInput(f"{path.name}: expected rows, got none. Give a file with data.")
    refuse_width(len(sample[0]), path.name, f", line {starts[0]}")
    header = has_header(sample)
    if header:
        refuse_repeats(repeats, path.name)
    names = column_names(sample[0], header)
    lines = np.array(starts[header:], dtype=np.int64)
    body = text.split("\n", lines[0] - 1)[-1] if len(lines) else ""
    del text  # as large as all that follows
    spelt = frozenset(i for i, name in enumerate(unique_names(names)) if name in as_spelt)
    frame, marks = parse_records(body, delimiter, len(names), path.name, lines, spelt=spelt)
    frame.columns = names
    return RawTable(frame, lines=lines, named=header, marks=marks)


def without_excels_line(text: str) -> tuple[str | None, str]:
    """Return the delimiter of a first line ``sep=;``, as Excel has it, if there is one, and the text with it blank."""
    found = _EXCELS_LINE.match(text)
    return (found[1], text[found.end() :]) if found else (None, text)


def checked_delimiter(delimiter: str | None) -> str | None:
    """Return a delimiter that a user gave, if it can be one."""
    if delimiter is not None and not re.fullmatch(r"[\t -!#-~]", delimiter):
        raise BadInput(f"Expected one ASCII character, not a quote, as delimiter, got {delimiter!r}. Leave it out.")
    return delimiter


def single_spaced(line: str) -> str:
    """Return a line with one blank for any run of them: where blanks divide, any run of them does."""
    return " ".join(line.split())


def column_names(first: list[str], header: bool) -> list[str]:
    """Return the names in the first record, or ours if it is no header."""
    return [f.strip() for f in first] if header else [f"column_{i + 1}" for i in range(len(first))]


def head_lines(text: str) -> list[str]:
    """Return the first lines of a text that are not blank, whole ones, at least one, to judge it by."""
    end = text.rfind("\n", 0, HEAD)
    if len(text) <= HEAD:
        end = len(text)
    elif not text[: max(end, 0)].strip():  # one line that is longer
        start = len(text) - len(text.lstrip("\n"))
        end = text.find("\n", start)
    lines = text[: end if end >= 0 else None].split("\n")
    return [line for line in lines if line.strip()][:SAMPLE]


def refuse_svmlight(text: str, name: str) -> None:
    """Refuse 'label index:value …' lines: as a table they would be columns of texts, each to be one-hot encoded."""
    lines = [line.partition("#")[0].split() for line in head_lines(text)]
    pairs = [all(_SVMLIGHT_PAIR.fullmatch(field) for field in fields[1:]) for fields in lines]
    if any(len(fields) > 2 for fields in lines) and all(pairs):
        raise BadInput(
            f"{name}: expected a CSV table, got lines 'label index:value …', which is the svmlight format. "
            "Name that format, or none."
        )


def detect_delimiter(text: str) -> str:
    """Return the delimiter that divides the first records evenly; a comma if none does.

    It has to divide the first record, and at least four in five as it divides the first: a ragged row is for
    the reader to name, and must not make another delimiter win.
    """
    lines = head_lines(text)
    shares = {delimiter: _evenness(lines, delimiter) for delimiter in DELIMITERS}
    even = [d for d, share in shares.items() if share >= 0.8]
    best = max(shares, key=shares.__getitem__)
    return even[0] if even else best if shares[best] > 0 else ","


def _evenness(lines: list[str], delimiter: str) -> float:
    """Return the share of records as wide as the first one; 0 if that is not divided at all."""
    if delimiter == " ":
        lines = [" ".join(line.split()) for line in lines]
    widths = [len(record) for record in csv.reader(lines, delimiter=delimiter, skipinitialspace=True)]
    return widths.count(widths[0]) / len(widths) if widths and widths[0] > 1 else 0.0


@contextmanager
def told_of_titles(text: str, name: str) -> Iterator[None]:
    """Say of a file that begins with ``text``, and whose records are of unlike widths, if a title is what is wrong."""
    try:
        yield
    except Ragged as error:
        raise _title(text, name) or error from None


def _title(text: str, name: str) -> BadInput | None:
    """Return the error for lines above the columns' names, as reports have them: a title, a date, comments."""
    head = text[: text.rfind("\n", 0, HEAD) + 1] or text[:HEAD]
    for delimiter in [one for one in DELIMITERS if one != " "]:  # of words any title has some
        table = [*islice(_numbered(head, delimiter), SAMPLE)]
        width = len(table[-1][0]) if table else 0
        begins = next((i for i, (record, _) in enumerate(table) if len(record) >= width), 0)
        above, rest = ([record for record, _ in part] for part in (table[:begins], table[begins:]))
        widths = [len(record) for record in above]
        is_table = len(above) > 1 and len({*widths}) == 1 and widths[0] > 1
        lacks_one = widths == [width - 1]  # a header without a name for the rows' own
        is_title = width > 1 and above and not is_table and not lacks_one
        if is_title and {*map(len, rest)} == {width} and _names_numbers(rest):
            lines, first, line = head.split("\n"), table[0][1], table[begins][1]
            title, names = (shortened(lines[at - 1].strip()) for at in (first, line))
            return BadInput(
                f"{name}, line {first}: expected the names of the columns, got '{title}': the table seems to begin in "
                f"line {line} ('{names}'). Remove the lines above it, or if they belong to it, give each {width} "
                "values."
            )
    return None


def _numbered(text: str, delimiter: str) -> Iterator[tuple[list[str], int]]:
    """Yield the records of a text that are not blank, of any width, with the line on which each starts."""
    reader, end = csv.reader(_lines(text), delimiter=delimiter, skipinitialspace=True), 0
    for record in reader:
        start, end = end + 1, reader.line_num
        if "".join(record).strip():
            yield record, start


def _names_numbers(records: list[list[str]]) -> bool:
    """Tell whether the first of some records has a text above a column of numbers: it names the columns for sure."""
    first, *rest = records
    return bool(rest) and any(
        top.strip() and not _is_number(top.strip()) and all(map(_is_number, map(str.strip, column)))
        for top, column in zip(first, zip(*rest, strict=True), strict=True)
    )


def has_header(sample: list[list[str]]) -> bool:
    """Tell whether the first of these records names the columns.

    It does if a column of numbers starts with a text. Where no column tells, it does if all of it are texts, each
    once and none of them a value further down; or the numbers 0, 1, 2, … that pandas writes for want of names, beside
    such texts or alone.
    """
    first, rest = [f.strip() for f in sample[0]], sample[1:]
    columns = [[v.strip() for v in column if v.strip() not in MISSING] for column in zip(*rest, strict=True)]
    columns = columns or [[] for _ in first]
    texts = [f for f in first if f and not _is_number(f)]
    others = [[v for v in column if v != f] for f, column in zip(first, columns, strict=True)]  # it may be there again
    numbers = [bool(column) and all(map(_is_number, column)) for column in others]
    if any(is_number and f in texts and f not in MISSING for f, is_number in zip(first, numbers, strict=True)):
        return True
    beside = any(is_number and _is_number(f) for f, is_number in zip(first, numbers, strict=True))
    if texts and beside and set(texts) <= set(MISSING):
        return False  # a gap above numbers is no name where the other cells are numbers too
    if len(first) > 2 and first == [str(i) for i in range(len(first))]:
        return True
    counted = [f for f in first if f and f not in texts]
    if texts and len(counted) > 1 and counted == [str(i) for i in range(len(counted))]:  # and the target has a name
        return not any(f in column for f, column in zip(first, columns, strict=True) if f in texts)
    if len(texts) < len([f for f in first if f]) or len(set(texts)) < len(texts) or "?" in texts:
        return False
    return bool(texts) and not any(f in column for f, column in zip(first, columns, strict=True) if f)


def _is_number(text: str) -> bool:
    return NUMBER.fullmatch(text) is not None


def _scan(text: str, delimiter: str, name: str) -> tuple[list[list[str]], list[int], list[int]]:
    """Return the first records, the line on which each record starts, and the lines on which the first comes again."""
    sample: list[list[str]] = []
    starts, repeats = [], []
    for record, start in records(_lines(text), delimiter, name):
        starts.append(start)
        if len(sample) < SAMPLE:
            sample.append(record)
        if record == sample[0] and len(starts) > 1:
            repeats.append(start)
    return sample, starts, repeats


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text with their ends."""
    start = 0
    while (end := text.find("\n", start) + 1) > 0:
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


def refuse_repeats(lines: list[int], name: str) -> None:
    """Refuse a header that comes again, as where files were put together: it would make texts of all columns."""
    if lines:
        raise BadInput(f"{name}, line {lines[0]}: expected a row, got the header once more. Remove that line.")


def records(lines: Iterable[str], delimiter: str, name: str) -> Iterator[tuple[list[str], int]]:
    """Yield each record with the line on which it starts; refuse one of another width than the first.

    pandas fills short rows up without a word, hence this pass in front of it.
    """
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True)
    end, width, first, head = 0, 0, 0, ""
    for record in reader:
        start, end = end + 1, reader.line_num
        if len(record) < 2 and not "".join(record).strip():
            continue
        width, first, head = width or len(record), first or start, head or record[0]
        if len(record) != width:
            spans = f" (it runs on to line {end}: is a quote never closed?)" if end > start else ""
            remedy = "Mend that line (quote a value that holds the delimiter)."
            if record[0].startswith("#") or head.startswith("#"):
                remedy += " If lines that begin with # are comments, remove them: CSV has none."
            raise Ragged(
                f"{name}, line {start}: expected {width} values, as in line {first}, got {len(record)}{spans}. {remedy}"
            )
        yield record, start


def parse_records(
    body: str,
    delimiter: str,
    width: int,
    name: str,
    lines: np.ndarray,
    texts: frozenset[int] | None = None,
    spelt: frozenset[int] = frozenset(),
) -> tuple[pd.DataFrame, Marks]:
    """Return the columns of records that are known to have ``width`` values each, and what marks their numbers have.

    A column is what all of its values allow; one in ``spelt`` holds texts. Of a piece of a table ``texts`` are the
    columns that are texts whatever the piece holds of them; of a whole table those of `unclear` marks are texts too.
    """
    if not len(lines):
        return pd.DataFrame({i: np.empty(0) for i in range(width)}), {}

    parse = partial(_parse_csv, body, delimiter, width)
    try:
        frame = parse({*(texts or ()), *spelt})
    except (ValueError, OverflowError) as error:
        if "EOF inside string" in str(error):  # what an open quote swallows is one record, and the last one
            raise BadInput(
                f"{name}, line {lines[-1]}: expected a quoted value to end with its quote, got the end of the file. "
                "Close the quote."
            ) from None
        raise BadInput(f"{name}: expected a CSV table, got: {str(error).rstrip('.')}. Mend the file.") from None
    if len(frame) != len(lines):
        raise BadInput(f"{name}: expected {len(lines)} rows, got {len(frame)}. Check the quotes in the file.")
    marks: Marks = {}
    if delimiter == ";":
        marks = {i: _marks(frame[i]) for i in frame}
        numbers = [i for i in frame if frame[i].dtype == np.float64]
        # commas in this table or, it may be, in another piece; and points that can be seen without reading again
        if texts is None and (pointed := [i for i in numbers if _has_decimals(frame[i].to_numpy())]):
            marks |= dict.fromkeys(pointed, frozenset({"decimals"}))
        elif numbers and (texts is not None or _has_commas(marks)):
            unread = parse(numbers, only=numbers)
            marks |= {i: _marks(unread[i]) for i in numbers}
            if texts is None:
                for i in unclear(marks) & {*numbers}:
                    frame[i] = unread[i]
    # what a piece has to say of this the others may gainsay: whoever puts them together has to ask
    as_texts = {*texts, *spelt} if texts is not None else {*spelt, *unclear(marks)}
    return pd.DataFrame({i: _tidy(frame[i], delimiter == ";", i in as_texts) for i in frame}), marks


def _parse_csv(
    body: str, delimiter: str, width: int, texts: Iterable[int], only: list[int] | None = None
) -> pd.DataFrame:
    """Return the columns, those of ``texts`` as they are spelt; or some alone."""
    return pd.read_csv(
        io.BytesIO(body.encode()),  # of text it would make a copy of four bytes a character
        sep=delimiter,
        header=None,
        names=range(width),
        usecols=only,
        dtype=dict.fromkeys(texts, object),
        index_col=False,
        na_values=list(MISSING),
        keep_default_na=False,
        skipinitialspace=True,
        float_precision="round_trip",  # correctly rounded, hence the same on every platform
        low_memory=False,  # a column's type is judged on the whole column
    )


def _marks(column: pd.Series) -> frozenset[str]:
    """Return which marks the values of a column have."""
    values = [value.strip() for value in column.unique() if isinstance(value, str)] if column.dtype == object else []
    found = set()
    for value in values:
        if value in MISSING:
            continue
        if _DECIMALS.fullmatch(value):
            found.add("decimals")
        elif DOTS.fullmatch(value):
            found.add("dots")
        elif _POINT.fullmatch(value):
            found.add("point")
        elif _COMMAS.fullmatch(value):
            found.add("commas")
        elif _COMMA.fullmatch(value):
            found.add("comma")
        elif not _is_number(value):
            found.add("words")
            break
    return frozenset(found)


def _has_decimals(numbers: np.ndarray) -> bool:
    """Tell whether some numbers that were read as floats are sure to have been _DECIMALS; others may have been too."""
    small = np.abs(numbers[np.abs(numbers) < 1000])
    units = np.where(small < 1, 100, 1000) * small
    return bool((np.abs(units - np.rint(units)) > 1e-6).any())


def _has_commas(marks: Marks) -> bool:
    return any(found & {"comma", "commas"} and "words" not in found for found in marks.values())


def unclear(marks: Marks) -> frozenset[int]:
    """Return the columns in which nobody can tell what 1.234 is, for they or other numbers have commas, as 999,50.

    Unless it is told by a decimal point: any in the column itself, or one such as 0.123 in the file. So it is with
    1,234 in a file that has such points, and no comma that is sure to be a decimal one.
    """
    numbers = {i: found for i, found in marks.items() if "words" not in found}
    told = frozenset[str]().union(*numbers.values())
    dots, commas = _has_commas(marks) and "decimals" not in told, "comma" not in told and told & {"decimals", "point"}
    return frozenset(
        i
        for i, found in numbers.items()
        if (dots and "dots" in found and "point" not in found) or (commas and "commas" in found)
    )


def _tidy(column: pd.Series, decimal_comma: bool, is_text: bool) -> pd.Series:
    """Strip a column of texts; make it numbers if that is all it then holds (1e400 is one: it is infinite).

    Spreadsheets of a country that writes 3,14 divide columns by semicolons: there a comma is a decimal point.
    """
    if column.dtype != object:
        return column
    codes, values = pd.factorize(column, use_na_sentinel=True)
    texts = [v.strip() if isinstance(v, str) else v for v in values]
    texts = [None if isinstance(t, str) and t in MISSING else t for t in texts]
    if not is_text and all(t is None or isinstance(t, str) for t in texts):
        numbers = [t.replace(",", ".") if t and decimal_comma and "." not in t else t for t in texts]
        if all(t is None or _is_number(t) for t in numbers):
            table = np.array([math.nan if t is None else float(t) for t in numbers] + [math.nan])
            return pd.Series(table[codes], index=column.index)
    table = np.empty(len(texts) + 1, dtype=object)
    table[:-1] = texts
    return pd.Series(table[codes], index=column.index)  # code -1, missing, is the last entry: None


def unclear_numbers(name: str, file: str) -> BadInput:
    """Return the error for a column of `unclear` marks that has to have numbers."""
    return BadInput(
        f"{file}: expected numbers with one decimal mark in column '{name}', got dots as in 1.234, which may divide "
        "thousands, for there are commas as in 999,50 too, or commas as in 1,234 and points. Write all numbers of the "
        "file in one way."
    )


# Parquet ----------------------------------------------------------------------------------------------------------


def read_parquet(path: Path, drop: tuple[str, ...] = ()) -> RawTable:
    """Return a Parquet file's columns; nested and binary ones are refused, or empty if they are in ``drop``."""
    with parquet_errors(path), parquet.ParquetFile(path) as file:
        schema = file.schema_arrow
        frame, n_index = parquet_frame(file.read(columns_to_read(schema, drop, path.name)), schema)
        return RawTable(frame, n_index=n_index)


def columns_to_read(schema: pa.Schema, drop: tuple[str, ...], name: str) -> list[str] | None:
    """Return the columns that hold numbers, texts or moments, None for all; refuse others that are not dropped."""
    refuse_width(len(schema), name)
    opaque = [column for column in schema if _is_opaque(column.type)]
    for column in opaque:
        if column.name.strip() not in drop:
            raise BadInput(
                f"{name}: expected columns of numbers, texts or dates, got column '{column.name}' of type "
                f"{column.type}. Drop it, or spread it over plain columns."
            )
    return [column.name for column in schema if column not in opaque] if opaque else None


def parquet_frame(table: pa.Table, schema: pa.Schema) -> tuple[pd.DataFrame, int]:
    """Return a table as pandas has it, and how many of its last columns are the index.

    Where the schema has more columns, they are empty. An index without a name of its own is left out.
    """
    # as float64, long whole numbers beside a gap would lose their last digits
    gaps = {column.type for column in table.columns if column.null_count}
    whole = {of: dtype for of, dtype in WHOLE.items() if of in gaps}
    frame = table.to_pandas(date_as_object=False, types_mapper=whole.get)
    levels = list(_levels(frame, table.column_names))
    frame = frame.reset_index(drop=True)
    if table.num_columns < len(schema):
        # the index apart, all names of the file in their order
        names = [name for name in schema.names if name in frame or name not in table.column_names]
        frame = frame.reindex(columns=names)
    if levels:
        names = [*map(str, frame.columns), *(str(level.name) for level in levels)]
        parts = [frame, *(pd.Series(level, index=frame.index) for level in levels)]
        frame = pd.concat(parts, axis=1, ignore_index=True).set_axis(names, axis=1)
    return frame, len(levels)


def _levels(frame: pd.DataFrame, of_file: list[str]) -> Iterator[pd.Index]:
    """Yield the levels of a frame's index that are columns of its file and have names of their own."""
    taken = {"", *(str(name).strip() for name in frame.columns)}
    names = [str(name).strip() for name in frame.index.names]
    for i, name in enumerate(names):
        if str(frame.index.names[i]) in of_file and name not in taken and names.count(name) == 1:
            yield frame.index.get_level_values(i)


@contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """Turn what a damaged Parquet file raises into BadInput."""
    try:
        yield
    except BadInput:
        raise
    except Exception as error:  # a damaged file makes the decoder raise whatever the damage leads it to
        raise BadInput(
            f"{path.name}: expected a Parquet file, got: {str(error)[:200].rstrip('.')}. Write the file again, or name "
            "its format."
        ) from None


def _is_opaque(type_: pa.DataType) -> bool:
    """Tell whether a column's values are neither numbers, texts nor moments."""
    value = type_.value_type if pa.types.is_dictionary(type_) else type_
    kinds = (pa.types.is_nested, pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)
    return any(is_kind(value) for is_kind in (*kinds, pa.types.is_time))


# svmlight ---------------------------------------------------------------------------------------------------------


def read_svmlight(path: Path) -> RawTable:
    """Return an svmlight (LIBSVM) file's matrix and labels; indices count from 0 if a 0 occurs, else from 1."""
    data = read_bytes(path)
    refuse_foreign(data[:1024], path.name)
    if data[:2] in UTF_16_MARKS:
        data = read_text(path).encode()
    try:
        rows = svmlight.parse(data.removeprefix(UTF_8_MARK))
    except svmlight.Defect as error:
        raise not_svmlight(path.name, error.line, error) from None
    if not len(rows.labels):
        raise BadInput(f"{path.name}: expected lines 'label index:value …', got none. Give a file with rows.")
    zero_based = bool((rows.indices == 0).any())
    n_features = max(1, int(rows.indices.max(initial=0)) + zero_based)  # zeros are not written: labels may be alone
    matrix = rows.matrix(zero_based, n_features)
    return RawTable(matrix, labels=rows.labels, lines=rows.lines, index_base=0 if zero_based else 1)


def not_svmlight(name: str, line: int, what: svmlight.Defect) -> BadInput:
    """Return the error for a line that is not in the format."""
    return BadInput(f"{name}, line {line}: expected 'label index:value …', got {what}. Mend that line.")


# KEEL, ARFF and scikit-learn's own --------------------------------------------------------------------------------


def read_arff(path: Path) -> RawTable:
    """Return the table of an ARFF file or a KEEL .dat file."""
    relation = arff.parse(read_text(path), path.name)
    return RawTable(relation.frame, target=relation.target, no_features=relation.no_features, lines=relation.lines)


def read_sklearn(name: str) -> RawTable:
    """Return a data set that scikit-learn carries, its classes by the names that a person knows."""
    _, loader, target = SKLEARN[name]
    bunch = loader(as_frame=True)
    frame = bunch.data.copy()
    frame[target] = np.array([str(label) for label in bunch.target_names], dtype=object)[bunch.target.to_numpy()]
    return RawTable(frame, target=target)
