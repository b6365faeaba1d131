"""Chunks: a file larger than memory, converted some thousand rows at a time to what it would be as a whole.

The first pass (`survey`) finds what no chunk can know by itself: all labels with their numbers of rows, hence the two
classes; which columns are numbers; how many features a sparse file has and whether they count from 0. The next
(`chunks`) yields the rows in order. svmlight, CSV, Parquet and NPZ are never in memory as a whole; of the other
formats, whose files are small, the whole is read and handed out in slices.
"""

import io
import itertools
import math
import shutil
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet
from scipy.sparse import csr_matrix
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from tasks import arrays, readers, svmlight
from tasks.classes import Division, coded_labels, divide, name_list
from tasks.column_names import unique_names
from tasks.convert import (
    are_unscalable,
    canonical,
    category_points,
    feature_columns,
    feature_name,
    only_empty,
    only_zeros,
    refuse_target,
    take_target,
    unscalable_numbers,
)
from tasks.errors import BadInput
from tasks.files import (
    CHUNK,
    UTF_8_MARK,
    UTF_16_MARKS,
    encoding_of,
    open_plain,
    refuse_foreign,
    refuse_width,
    undecodable,
    zero_byte,
)
from tasks.readers import RawTable
from tasks.values import ConversionRule, RawFile, Table

ROWS = 10_000
MOMENT_ROWS = 1000  # at a time, whatever is asked for: means and variances are rounded by how many come together

_NPY_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


@dataclass(frozen=True)
class Survey:
    """What one pass over a file finds out.

    ``columns`` are the features of a table, each "number" or "text"; the empty ones are not among them. Those in
    ``texts``, by their position in the file, look like numbers for long stretches and are not.
    """

    division: Division
    n_features: int
    columns: dict[str, str] = field(default_factory=dict)
    texts: frozenset[int] = frozenset()
    zero_based: bool = False  # of a sparse file


def survey(raw: RawFile, rule: ConversionRule, rows: int = ROWS) -> Survey:
    """Return what `chunks` has to know of the whole file; all that is wrong with it is BadInput here."""
    texts = _positions(raw, rule)
    while True:
        found = _Findings(raw.path.name, rule, texts)
        for piece in pieces(raw, rule, rows, texts):
            found.add(piece)
        if found.mixed() <= texts:
            return found.as_survey()
        texts |= found.mixed()  # rare: numbers in one piece, texts in another; 007 is to stay 007 in both


def _positions(raw: RawFile, rule: ConversionRule) -> frozenset[int]:
    """Return where the columns of categories stand, which are read as they are spelt."""
    if not rule.categories or raw.format != "csv":
        return frozenset()
    first = next(pieces(raw, rule, 1, frozenset()), None)
    names = [] if first is None else unique_names([str(name) for name in first.X.columns])
    return frozenset(i for i, name in enumerate(names) if name in rule.categories)


def chunks(raw: RawFile, rule: ConversionRule, rows: int = ROWS, known: Survey | None = None) -> Iterator[Table]:
    """Yield the converted rows in order, from at most ``rows`` lines or rows of the file at a time.

    Of a CSV file the first chunk has up to 200 rows even if fewer are asked for: its header is told by them.
    Put together they are the table that `tasks.convert.load` brings: same columns, classes and values.
    """
    known = known or survey(raw, rule, rows)
    seen = 0
    for piece in pieces(raw, rule, rows, known.texts):
        if isinstance(piece.X, pd.DataFrame):
            features, labels, column = take_target(piece, rule, raw.path.name)
            X: pd.DataFrame | csr_matrix = _dense(features, piece, known, rule.categories, raw.path.name)
        else:
            labels, column = pd.Series(piece.labels), "label"
            X = _sparse(piece.X, known)
        codes, values = coded_labels(labels, column, piece.place)
        y = known.division.sides_of(codes, values, seen)
        seen += sum(known.division.sides[values[code]] > 0 for code in codes)
        kept = y != 0
        if kept.any():
            X = X.loc[kept].reset_index(drop=True) if isinstance(X, pd.DataFrame) else X[kept]
            yield Table(X, y[kept], categories=tuple(name for name in rule.categories if name in known.columns))


def fit_in_chunks(solver: Any, raw: RawFile, rule: ConversionRule, rows: int = ROWS) -> Pipeline:
    """Feed a file to a solver's partial_fit, its columns brought to mean 0 (not if sparse) and variance 1.

    The file is read three times: to survey it, to find means and variances, to fit. Missing numbers become the mean.

    Returns
    -------
    Pipeline
        The fitted scaling and the fitted solver: it scores rows as `chunks` yields them.

    Raises
    ------
    BadInput
        If the file cannot be read, or has columns of texts, which would need all their values to be encoded.
    """
    known = survey(raw, rule, min(rows, MOMENT_ROWS))  # a text among few rows is one among more, not the reverse
    text = [name for name, kind in known.columns.items() if kind == "text"]
    if text:
        raise BadInput(
            f"{raw.path.name}: expected columns of numbers to fit in chunks, got texts in {name_list(text)}. "
            "Leave them out with drop, encode them in the file, or fit it whole."
        )
    scaler, largest = StandardScaler(with_mean=bool(known.columns)), np.zeros(known.n_features)
    for table in chunks(raw, rule, MOMENT_ROWS, known):
        _take_in(table.X, scaler, largest)
    _refuse_unscalable(largest, known, raw.path.name)
    # after scaling the mean is 0; the imputer learns nothing, and any row will do to tell it the columns
    fill = SimpleImputer(strategy="constant", fill_value=0.0, keep_empty_features=True)
    scaling = Pipeline([("scale", scaler), *([("impute", fill)] if known.columns else [])])
    for table in chunks(raw, rule, rows, known):
        if known.columns and not hasattr(fill, "statistics_"):
            fill.fit(scaler.transform(table.X))
        solver.partial_fit(scaling.transform(table.X), table.y, classes=[-1, 1])
    return Pipeline([*scaling.steps, ("solver", solver)])


def _take_in(X: pd.DataFrame | csr_matrix, scaler: StandardScaler, largest: np.ndarray) -> None:
    """Take rows into a scaler's moments and the columns' largest magnitudes, both of which change.

    The moments of a column without a value among these rows stay. By themselves they were NaN from there on.
    """
    is_table = isinstance(X, pd.DataFrame)  # of sparse rows nothing is missing
    is_empty = X.isna().all().to_numpy() if is_table else np.zeros(0, dtype=bool)
    first = {"mean_": 0.0, "var_": 0.0, "scale_": 1.0} if is_empty.any() else {}
    before = {name: getattr(scaler, name, np.full(X.shape[1], value))[is_empty] for name, value in first.items()}
    with np.errstate(over="ignore", invalid="ignore"):
        scaler.partial_fit(X)
    for name, values in before.items():
        getattr(scaler, name)[is_empty] = values
    if is_table:
        np.fmax(largest, X.abs().max().to_numpy(), out=largest)
    else:
        np.maximum.at(largest, X.indices, np.abs(X.data))


def _refuse_unscalable(largest: np.ndarray, known: Survey, file: str) -> None:
    """Refuse a column of numbers that no scaling can do with."""
    for i in np.flatnonzero(are_unscalable(largest))[:1]:
        name = f"column '{list(known.columns)[i]}'" if known.columns else feature_name(i, not known.zero_based)
        raise unscalable_numbers(name, largest[i], file)


# The first pass ---------------------------------------------------------------------------------------------------


class _Findings:
    """What has been seen of a file so far."""

    def __init__(self, file: str, rule: ConversionRule, texts: frozenset[int]):
        self.file, self.rule, self.texts = file, rule, texts
        self.counts: Counter[str] = Counter()
        self.column = "label"
        self.kinds: dict[str, set[str]] = {}  # of each feature, in the order of the file
        self.positions: dict[int, set[str]] = {}  # of each column by its position, the target among them
        self.marks: dict[int, frozenset[str]] = defaultdict(frozenset)
        self.width, self.zero_based, self.stored = 0, False, False

    def add(self, piece: RawTable) -> None:
        if isinstance(piece.X, pd.DataFrame):
            labels = self._add_columns(piece)
        else:
            refuse_target(self.rule, self.file)
            labels = pd.Series(piece.labels)
            self.width = max(self.width, piece.X.shape[1])
            self.zero_based |= bool((piece.X.indices == 0).any())
            self.stored |= bool(piece.X.data.any())
        codes, values = coded_labels(labels, self.column, piece.place)
        self.counts.update(dict(zip(values, np.bincount(codes).tolist(), strict=True)))

    def _add_columns(self, piece: RawTable) -> pd.Series:
        features, labels, self.column = take_target(piece, self.rule, self.file)
        for i in range(piece.X.shape[1]):
            self.positions.setdefault(i, set()).update(_kind(piece.X.iloc[:, i]))
            self.marks[i] |= piece.marks.get(i, frozenset())
        points = category_points(piece, self.rule.categories)
        for name, values in feature_columns(features, piece.place, self.file, points).items():
            kinds = self.kinds.setdefault(name, set())
            if not pd.isna(values).all():
                kinds.add("text" if values.dtype == object else "number")
        return labels

    def mixed(self) -> frozenset[int]:
        """Return the columns that are numbers in one piece and something else in another, or of unclear marks."""
        unclear = readers.unclear(self.marks)
        return frozenset(i for i, kinds in self.positions.items() if len(kinds) > 1 or i in unclear)

    def as_survey(self) -> Survey:
        if not self.counts:
            raise BadInput(f"{self.file}: expected rows of data, got none. Give a file with rows.")
        division = divide(dict(self.counts), self.column, self.rule)
        if self.width:
            if not self.stored:
                raise only_zeros(self.file)
            return Survey(division, max(1, self.width - (not self.zero_based)), zero_based=self.zero_based)
        columns = {name: min(kinds) for name, kinds in self.kinds.items() if kinds}
        if not columns:
            raise only_empty(self.file)
        return Survey(division, len(columns), columns, self.texts)


def _kind(column: pd.Series) -> set[str]:
    """Return what the values of a column are in one piece: nothing if all are missing."""
    if column.isna().all():
        return set()
    inferred = pd.api.types.infer_dtype(column, skipna=True)
    return {inferred if inferred in ("string", "boolean") else "number"}


# A chunk's features -----------------------------------------------------------------------------------------------


def _dense(
    features: pd.DataFrame, piece: RawTable, known: Survey, categories: tuple[str, ...], file: str
) -> pd.DataFrame:
    """Return the columns of the whole; one without a value in this piece has the type that it has elsewhere."""
    columns = feature_columns(features, piece.place, file, category_points(piece, categories))
    types = {"number": np.float64, "text": object}
    empty = {"number": np.nan, "text": None}
    return pd.DataFrame(
        {
            name: columns[name]
            if columns[name].dtype == types[kind]
            else np.full(len(features), empty[kind], dtype=types[kind])
            for name, kind in known.columns.items()
        }
    )


def _sparse(X: csr_matrix, known: Survey) -> csr_matrix:
    indices = X.indices if known.zero_based else X.indices - np.int32(1)
    return canonical(csr_matrix((X.data, indices, X.indptr), shape=(X.shape[0], known.n_features)))


# Pieces of a file, as they stand in it ----------------------------------------------------------------------------


def pieces(raw: RawFile, rule: ConversionRule, rows: int, texts: frozenset[int]) -> Iterator[RawTable]:
    """Yield a file as it stands, at most so many rows at a time; columns in ``texts``, by position, are not parsed."""
    if rows < 1:
        raise BadInput(f"Expected at least one row at a time, got rows={rows}.")
    if raw.format == "csv":
        return _csv_pieces(raw.path, rule.delimiter, rows, texts)
    if raw.format == "parquet":
        return _parquet_pieces(raw.path, rule.drop, rows)
    pieces = {"svmlight": _svmlight_pieces, "npz": _npz_pieces}
    return pieces[raw.format](raw.path, rows) if raw.format in pieces else _slices(readers.read(raw), rows)


def _slices(table: RawTable, rows: int) -> Iterator[RawTable]:
    for start in range(0, table.X.shape[0], rows):
        stop = min(start + rows, table.X.shape[0])
        lines = None if table.lines is None else table.lines[start:stop]
        X = table.X[start:stop].reset_index(drop=True)
        yield replace(table, X=X, lines=lines, rows_before=start)


def _svmlight_pieces(path: Path, rows: int) -> Iterator[RawTable]:
    """Yield matrices whose columns are the indices as they stand in the file, from 0."""
    with open_plain(path) as stream:
        head = stream.read(1024)
        stream.seek(0)
        refuse_foreign(head, path.name)
        if head[:2] in UTF_16_MARKS:
            lines: Iterator[bytes] = (line.encode() for line in _text_lines(stream, path, "utf-16"))
        else:
            stream.seek(len(UTF_8_MARK) if head.startswith(UTF_8_MARK) else 0)
            lines = stream
        before = 0
        while block := b"".join(itertools.islice(lines, rows)):
            parsed = _parsed(block, before, path.name)
            if len(parsed.labels):
                width = 1 + int(parsed.indices.max(initial=0))
                yield RawTable(parsed.matrix(True, width), labels=parsed.labels, lines=parsed.lines + before)
            before += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")


def _parsed(block: bytes, before: int, name: str) -> svmlight.Rows:
    try:
        return svmlight.parse(block)
    except svmlight.Defect as error:
        raise readers.not_svmlight(name, before + error.line, error) from None


def _csv_pieces(path: Path, delimiter: str | None, rows: int, texts: frozenset[int]) -> Iterator[RawTable]:
    with open_plain(path) as stream, ExitStack() as stack:
        head = stream.read(1024)
        stream.seek(0)
        refuse_foreign(head, path.name)
        lines = _text_lines(stream, path, encoding_of(head))
        said, start = readers.without_excels_line("".join(_head(lines)))
        readers.refuse_svmlight(start, path.name)
        stack.enter_context(readers.told_of_titles(start, path.name))
        delimiter = readers.checked_delimiter(delimiter or said) or readers.detect_delimiter(start)
        lines = itertools.chain(io.StringIO(start), lines)
        if delimiter == " ":
            lines = (readers.single_spaced(line) + "\n" for line in lines)
        names: list[str] = []
        named = False
        for block, sample, starts, repeats in _record_blocks(lines, delimiter, rows, path.name):
            header = not names and readers.has_header(sample)
            if not names:
                names, named = readers.column_names(sample[0], header), header
            if named:
                readers.refuse_repeats(repeats, path.name)
            numbers = np.array(starts[header:], dtype=np.int64)
            if len(numbers):
                body = block.split("\n", numbers[0] - 1)[-1] if header else block
                frame, marks = readers.parse_records(body, delimiter, len(names), path.name, numbers, texts)
                frame.columns = names
                yield RawTable(frame, lines=numbers, named=named, marks=marks)


def _head(lines: Iterator[str]) -> list[str]:
    """Take the lines that a table is judged by."""
    head, size, blank = [], 0, True
    for line in lines:
        head.append(line)
        size, blank = size + len(line), blank and not line.strip()
        if size > readers.HEAD and not blank:
            break
    return head


def _record_blocks(
    lines: Iterator[str], delimiter: str, rows: int, name: str
) -> Iterator[tuple[str, list[list[str]], list[int], list[int]]]:
    """Yield the lines of so many records, the first of all, and on which lines they start and the first comes again.

    The first block has as many records as header detection looks at, even if fewer are wanted.
    """
    block: list[str] = []
    sample: list[list[str]] = []
    starts: list[int] = []
    repeats: list[int] = []
    wanted, first = max(rows, readers.SAMPLE), 0
    for record, start in readers.records(_remembered(lines, block), delimiter, name):
        if len(sample) < readers.SAMPLE:
            refuse_width(len(record), name, f", line {start}")
            sample.append(record)
            first = first or start
        starts.append(start)
        if record == sample[0] and start != first:
            repeats.append(start)
        if len(starts) == wanted:
            yield "".join(block), sample, starts, repeats
            block.clear()
            starts, repeats, wanted = [], [], rows
    if starts:
        yield "".join(block), sample, starts, repeats
    elif not sample:
        raise BadInput(f"{name}: expected rows, got none. Give a file with data.")


def _remembered(lines: Iterator[str], block: list[str]) -> Iterator[str]:
    """Yield lines, each added to the block before."""
    for line in lines:
        block.append(line)
        yield line


def _text_lines(stream: Any, path: Path, encoding: str) -> Iterator[str]:
    """Yield lines, each ended by a newline whatever ended it in the file."""
    number = 0
    try:
        for number, line in enumerate(io.TextIOWrapper(stream, encoding=encoding), start=1):
            if "\0" in line:
                raise zero_byte(path.name, number)
            yield line
    except UnicodeDecodeError as error:  # in what follows the last line that could be read whole
        number += 1 + error.object[: error.start].count(b"\n")
        raise undecodable(path.name, encoding, number, error.object[error.start]) from None


def _parquet_pieces(path: Path, drop: tuple[str, ...], rows: int) -> Iterator[RawTable]:
    with readers.parquet_errors(path), parquet.ParquetFile(path) as file:
        schema, before = file.schema_arrow, 0
        columns = readers.columns_to_read(schema, drop, path.name)
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            frame, n_index = readers.parquet_frame(pa.Table.from_batches([batch]), schema)
            yield RawTable(frame, n_index=n_index, rows_before=before)
            before += len(frame)


def _npz_pieces(path: Path, rows: int) -> Iterator[RawTable]:
    with arrays.open_npz(path) as (archive, names):
        X, y = (_Stream(archive, name) for name in names)
        arrays.check_shapes(X.shape, y.shape, path.name)
        y.shape, n = (X.shape[0],), X.shape[0]
        for before in range(0, n, rows):
            table = arrays.as_table(X.take(rows), y.take(rows), path.name)
            yield RawTable(table.X, target=table.target, named=False, rows_before=before)


class _Stream:
    """A member of an .npz archive that is read some rows at a time."""

    def __init__(self, archive: zipfile.ZipFile, name: str):
        self.stream = archive.open(f"{name}.npy")
        version = np.lib.format.read_magic(self.stream)
        if version not in _NPY_HEADERS:
            raise ValueError(f"array {name} in version {version} of the format")
        self.shape, by_columns, self.dtype = _NPY_HEADERS[version](self.stream)
        if self.dtype.hasobject:
            raise ValueError(f"array {name} of Python objects")
        scattered = by_columns and math.prod(self.shape) > 0 and sum(n > 1 for n in self.shape) > 1
        self.mapped = self._spilled() if scattered else None

    def take(self, rows: int) -> np.ndarray:
        """Return the next rows, fewer at the end."""
        wanted, row = min(rows, self.shape[0]), math.prod(self.shape[1:]) * self.dtype.itemsize
        self.shape = (self.shape[0] - wanted, *self.shape[1:])
        if self.mapped is not None:
            taken, self.mapped = self.mapped[:wanted], self.mapped[wanted:]
            return np.ascontiguousarray(taken)
        data = self.stream.read(wanted * row)
        if len(data) < wanted * row:
            raise ValueError("an array that is cut off")
        return np.frombuffer(data, self.dtype).reshape(wanted, *self.shape[1:])

    def _spilled(self) -> np.ndarray:
        """Return an array that lies column by column, its rows hence all over the member, as a map of a plain copy."""
        with tempfile.TemporaryFile() as copy:  # the map keeps it until the last piece is gone
            shutil.copyfileobj(self.stream, copy, CHUNK)
            copy.flush()
            if copy.tell() < math.prod(self.shape) * self.dtype.itemsize:
                raise ValueError("an array that is cut off")
            return np.memmap(copy, self.dtype, "r", 0, self.shape, "F")
