"""ARFF and KEEL's dialect of it: one small parser, from text to a table.

    % a comment                                     (ARFF)
    @relation NAME
    @attribute NAME {a, 'b c'}                      nominal
    @attribute NAME real|integer|numeric [lo, hi]   the range is KEEL's, and is not enforced
    @attribute NAME string | date ["yyyy-MM-dd"]
    @inputs NAME, NAME                              (KEEL: the features; other columns are none)
    @outputs NAME                                   (KEEL: the target)
    @data
    1.5, 'b c', ?                                   dense row
    {0 1.5, 1 'b c'}                                sparse row: what it leaves out is 0, or the first nominal value

Keywords are read in any case; ``?`` (KEEL also writes ``<null>``) is a missing value. Errors are `BadInput` and name
the line. Dates become seconds since 1970-01-01, as everywhere in ``tasks.readers``.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pandas as pd

from aucsolvers.columns import NUMBER
from tasks.errors import BadInput, nearest
from tasks.files import refuse_width

MISSING = ("?", "<null>")

_QUOTED = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
# Every pattern is linear in the length of a line: after a value's first character nothing is tried twice.
_VALUE = re.compile(rf"\s*({_QUOTED}|[^,]*)\s*,", re.DOTALL)
_SPARSE_VALUE = re.compile(rf"\s*([0-9]+)\s+({_QUOTED}|[^,]*)\s*,", re.DOTALL)
_ATTRIBUTE = re.compile(rf"({_QUOTED}|[^\s{{]+)(\s*\{{.*\}}|\s+[A-Za-z]+)\s*(.*)", re.DOTALL)
_ESCAPE = {"n": "\n", "t": "\t", "r": "\r"}
# Java's SimpleDateFormat, which ARFF quotes, in the letters of strptime
_DATE_PARTS = {"yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "T": "T"}


@dataclass(frozen=True)
class Attribute:
    """A column's declaration; ``kind`` is number, nominal, text or date."""

    name: str
    kind: str
    values: tuple[str, ...] = ()  # of a nominal attribute
    date_format: str = ""

    @property
    def omitted(self) -> str:
        """What a sparse row means by leaving this attribute out."""
        return {"number": "0", "nominal": self.values[0] if self.values else "?"}.get(self.kind, "?")


Row: TypeAlias = list[str] | dict[int, str]  # its texts: of all attributes, or of those that a sparse row names


@dataclass
class Relation:
    """A parsed file: its attributes, KEEL's inputs and outputs, the values as columns, and the line of every row."""

    attributes: list[Attribute] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    frame: pd.DataFrame = field(default_factory=pd.DataFrame)
    lines: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @property
    def target(self) -> str | None:
        """The one output, else the attribute called class, else the last one."""
        if len(self.outputs) == 1:
            return self.outputs[0]
        names = [a.name for a in self.attributes]
        return next((n for n in names if n.lower() == "class"), names[-1]) if not self.outputs else None

    @property
    def no_features(self) -> tuple[str, ...]:
        """The attributes that the header leaves out of the inputs, or names as outputs."""
        names = [a.name for a in self.attributes]
        return tuple(n for n in names if n in self.outputs or (self.inputs and n not in self.inputs))


def parse(text: str, name: str) -> Relation:
    """Return the relation in the text of a file called ``name``."""
    lines = enumerate(text.split("\n"), start=1)
    relation = _read_header(lines, name)
    rows, numbers = _read_rows(lines, relation.attributes, name)
    relation.lines = np.array(numbers, dtype=np.int64)
    sparse = [row for row in rows if isinstance(row, dict)]
    if sparse and len(sparse) == len(rows):
        columns = _columns_of_sparse(sparse, relation.attributes, numbers, name)
    else:
        columns = _columns(rows, relation.attributes, numbers, name)
    relation.frame = pd.DataFrame(dict(enumerate(columns)))
    relation.frame.columns = [a.name for a in relation.attributes]
    return relation


# Header -----------------------------------------------------------------------------------------------------------


def _read_header(lines: Iterator[tuple[int, str]], name: str) -> Relation:
    """Read up to and including ``@data``."""
    relation, number = Relation(), 0
    for number, line in _significant(lines):
        keyword, rest = (*line.split(None, 1), "")[:2]
        keyword = keyword.lower()
        if keyword == "@data":
            if rest and not rest.startswith("%"):
                raise BadInput(
                    f"{name}, line {number}: expected @data on a line of its own, got '{_short(line)}'. Break the line."
                )
            return _checked_header(relation, number, name)
        if keyword == "@attribute":
            relation.attributes.append(_attribute(rest, number, name))
        elif keyword in ("@output", "@outputs"):
            relation.outputs.extend(_values(rest, number, name))
        elif keyword in ("@input", "@inputs"):
            relation.inputs.extend(_values(rest, number, name))
        elif keyword != "@relation":
            raise BadInput(
                f"{name}, line {number}: expected @relation, @attribute, @inputs, @outputs or @data, got "
                f"'{_short(line)}'. Mend that line."
            )
    raise BadInput(f"{name}: expected a line @data before the rows, got none in {number} lines. Is the file cut off?")


def _checked_header(relation: Relation, number: int, name: str) -> Relation:
    names = [a.name for a in relation.attributes]
    if not names:
        raise BadInput(f"{name}, line {number}: expected an @attribute line before @data, got none. Declare them.")
    refuse_width(len(names), name)
    twice = next((f" '{_short(one)}' is there twice." for one, count in Counter(names).items() if count > 1), "")
    for keyword, listed in (("@inputs", relation.inputs), ("@outputs", relation.outputs)):
        for attribute in listed:
            if attribute not in names:
                raise BadInput(
                    f"{name}: expected {keyword} to name attributes, got '{_short(attribute)}'."
                    f"{twice or nearest(attribute, names)} Mend the header."
                )
    return relation


def _attribute(text: str, number: int, name: str) -> Attribute:
    """Read ``NAME TYPE`` of an ``@attribute`` line."""
    match = _ATTRIBUTE.fullmatch(text)
    if match is None:
        raise BadInput(f"{name}, line {number}: expected '@attribute NAME TYPE', got '{_short(text)}'. Mend that line.")
    label, spec, rest = _unquoted(match[1], number, name), match[2].strip(), match[3]
    if spec.startswith("{"):
        return Attribute(label, "nominal", tuple(_values(spec[1:-1], number, name)))
    kind = spec.lower()
    if kind in ("real", "integer", "numeric"):
        return Attribute(label, "number")
    if kind == "string":
        return Attribute(label, "text")
    if kind == "date":
        return Attribute(label, "date", date_format=_date_format(_unquoted(rest, number, name), number, name))
    raise BadInput(
        f"{name}, line {number}: expected attribute '{label}' to be real, integer, numeric, string, date or "
        f"{{a, b}}, got '{_short(spec)}'.{nearest(kind, ('real', 'integer', 'numeric', 'string', 'date'))} "
        "Change its type."
    )


def _date_format(text: str, number: int, name: str) -> str:
    """Translate a Java date format; the standard's default is the ISO one."""
    parts = re.findall(r"([A-Za-z])(\1*)|([^A-Za-z])", text.replace("'", "") or "yyyy-MM-ddTHH:mm:ss")
    runs = [letter + more or other for letter, more, other in parts]
    unknown = [run for run in runs if run[0].isalpha() and run not in _DATE_PARTS]
    if unknown:
        raise BadInput(
            f"{name}, line {number}: expected a date format of yyyy, MM, dd, HH, mm and ss, got '{unknown[0]}' in "
            f"'{_short(text)}'. Declare the attribute as string."
        )
    return "".join(_DATE_PARTS.get(run, "%%" if run == "%" else run) for run in runs)


# Rows -------------------------------------------------------------------------------------------------------------


def _read_rows(lines: Iterator[tuple[int, str]], attributes: list[Attribute], name: str) -> tuple[list[Row], list[int]]:
    """Return the rows, and their line numbers."""
    rows: list[Row] = []
    numbers = []
    for number, line in _significant(lines):
        if line.startswith("{"):
            rows.append(_sparse_row(line, len(attributes), number, name))
        else:
            values = _values(line, number, name)
            if len(values) != len(attributes):
                remedy = "Mend that line (quote a value that holds a comma)"
                if len(values) == 1 and len(re.split(r"[\t;]", line)) == len(attributes):
                    remedy = "Put commas between the values, which other signs divide"
                raise BadInput(
                    f"{name}, line {number}: expected {len(attributes)} values, one for each attribute, got "
                    f"{len(values)}. {remedy}."
                )
            rows.append(values)
        numbers.append(number)
    return rows, numbers


def _sparse_row(line: str, n_attributes: int, number: int, name: str) -> dict[int, str]:
    """Return the values of a sparse row, ``{index value, …}`` with indices from 0."""
    row: dict[int, str] = {}
    body, position = line[1:].removesuffix("}").strip(), 0
    items = body + "," if body else ""
    while position < len(items) or not line.endswith("}"):
        match = _SPARSE_VALUE.match(items, position) if line.endswith("}") else None
        if match is None:
            raise BadInput(
                f"{name}, line {number}: expected a sparse row {{index value, …}}, got '{_short(line)}'. Mend it."
            )
        index = int(match[1]) if len(match[1]) < 10 else n_attributes
        if index >= n_attributes:
            raise BadInput(
                f"{name}, line {number}: expected attribute indices from 0 to {n_attributes - 1}, got "
                f"{_short(match[1])}. Mend that line."
            )
        if index in row:
            raise BadInput(f"{name}, line {number}: expected each index once, got {index} twice. Mend that line.")
        row[index] = _unquoted(match[2], number, name)
        position = match.end()
    return row


def _columns(rows: list[Row], attributes: list[Attribute], lines: list[int], name: str) -> Iterator[np.ndarray]:
    """Yield the columns of rows of which some or all are full."""
    full = [[row.get(i, a.omitted) for i, a in enumerate(attributes)] if isinstance(row, dict) else row for row in rows]
    columns = zip(*full, strict=True) if rows else [()] * len(attributes)
    for attribute, texts in zip(attributes, columns, strict=True):
        yield _column(attribute, texts, lines, name)


def _columns_of_sparse(
    rows: list[dict[int, str]], attributes: list[Attribute], lines: list[int], name: str
) -> Iterator[np.ndarray]:
    """Yield the columns of sparse rows: what they leave out is read once a column."""
    where: list[list[int]] = [[] for _ in attributes]
    texts: list[list[str]] = [[] for _ in attributes]
    for number, row in enumerate(rows):
        for index, text in row.items():
            where[index].append(number)
            texts[index].append(text)
    for attribute, numbers, given in zip(attributes, where, texts, strict=True):
        values = _column(attribute, [*given, attribute.omitted], [*(lines[n] for n in numbers), 0], name)
        column = np.full(len(rows), values[-1], dtype=values.dtype)
        column[numbers] = values[:-1]
        yield column


def _column(attribute: Attribute, texts: Iterable[str], lines: list[int], name: str) -> np.ndarray:
    """Return a column's values: float64 for numbers and dates, otherwise texts with None for missing ones."""
    if attribute.kind == "number":
        return np.array(_each(texts, _number, "a number", attribute, lines, name), dtype=np.float64)
    if attribute.kind == "date":
        expected = f"a date like {attribute.date_format}"
        return np.array(_each(texts, _date(attribute), expected, attribute, lines, name), dtype=np.float64)
    if attribute.kind == "nominal":
        known = {v: v for v in attribute.values} | dict.fromkeys(MISSING)
        expected = f"one of {{{_short(', '.join(attribute.values), 80)}}}"
        texts = _each(texts, known.__getitem__, expected, attribute, lines, name)
    column = np.empty(len(lines), dtype=object)
    column[:] = [None if text in MISSING else text for text in texts]
    return column


def _each(
    texts: Iterable[str],
    convert: Callable[[str], object],
    expected: str,
    attribute: Attribute,
    lines: list[int],
    name: str,
) -> list:
    """Convert a column's texts, or name the line of the first one that cannot be."""
    out = []
    for text in texts:
        try:
            out.append(convert(text))
        except (ValueError, KeyError, OverflowError):
            raise BadInput(
                f"{name}, line {lines[len(out)]}: expected {expected} for attribute '{attribute.name}', got "
                f"'{_short(text)}'. Mend the value, or write ? if it is missing."
            ) from None
    return out


def _number(text: str) -> float:
    if NUMBER.fullmatch(text):
        return float(text)
    if text in MISSING:
        return np.nan
    raise ValueError(text)


def _date(attribute: Attribute) -> Callable[[str], float]:
    def seconds(text: str) -> float:
        if text in MISSING:
            return np.nan
        return pd.to_datetime(text, format=attribute.date_format).timestamp()

    return seconds


# Tokens -----------------------------------------------------------------------------------------------------------


def _significant(lines: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Leave out blank lines and comments."""
    for number, line in lines:
        line = line.strip()
        if line and not line.startswith("%"):
            yield number, line


def _values(text: str, number: int, name: str) -> list[str]:
    """Split at the commas that stand outside quotes."""
    if "'" not in text and '"' not in text:
        return [value.strip() for value in text.split(",")]
    return [_unquoted(value, number, name) for value in _VALUE.findall(text + ",")]


def _unquoted(token: str, number: int, name: str) -> str:
    """Take off quotes and backslashes."""
    token = token.strip()
    if token[:1] not in ("'", '"'):
        return token
    if not re.fullmatch(_QUOTED, token, re.DOTALL):
        raise BadInput(
            f"{name}, line {number}: expected a quoted value to end with its quote, got '{_short(token)}'. "
            "Close the quote, or put a backslash before a quote inside it."
        )
    return re.sub(r"\\(.)", lambda m: _ESCAPE.get(m[1], m[1]), token[1:-1], flags=re.DOTALL)


def _short(text: str, length: int = 40) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
