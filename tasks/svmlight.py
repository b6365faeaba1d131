"""The svmlight (LIBSVM) format, ``label [qid:n] index:value … # comment``, parsed to CSR at the speed of the disk.

A compiled pass over the bytes reads all numbers that a double represents by one exact operation, and notes where the
others stand; Python rounds those few correctly. What is not in the format is left to a slow look at its one line,
which says what is wrong there.
"""

import math
import re
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from aucsolvers._jit import kernel
from aucsolvers.columns import NUMBER

# A weight vector of this many features takes 800 MB; an index above it is a defect and not a feature.
MAX_INDEX = 100_000_000

_TAB, _NEWLINE, _RETURN, _SPACE, _HASH, _PLUS, _MINUS, _POINT, _COLON = 9, 10, 13, 32, 35, 43, 45, 46, 58
_POWERS = 10.0 ** np.arange(23)  # all exact
_EXACT = 2**53  # up to here, and with a power of ten up to 22, one division or product rounds correctly
_READ, _ROUND, _WRONG = 0, 1, 2  # what became of a number


class Rows(NamedTuple):
    """The rows of one stretch of a file, indices as they stand in it."""

    labels: np.ndarray
    data: np.ndarray
    indices: np.ndarray  # int32
    indptr: np.ndarray  # int64
    lines: np.ndarray  # the line of every row, from 1

    def matrix(self, zero_based: bool, n_features: int) -> csr_matrix:
        """Return the rows as a matrix; indices count from 0 or from 1."""
        indices = self.indices if zero_based else self.indices - np.int32(1)
        indptr = self.indptr.astype(np.int32) if len(self.data) < 2**31 else self.indptr
        return csr_matrix((self.data, indices, indptr), shape=(len(self.labels), n_features))


class Defect(ValueError):
    """A line that is not in the format; ``line`` counts from 1 within the text parsed."""

    def __init__(self, line: int, what: str):
        super().__init__(what)
        self.line = line


def parse(text: bytes) -> Rows:
    """Return the rows in a text of whole lines; raise Defect at the first line that is not in the format."""
    buffer = np.frombuffer(text, np.uint8)
    n_values = np.count_nonzero(buffer == _COLON)
    n_rows = np.count_nonzero((buffer == _NEWLINE) | (buffer == _RETURN)) + 1
    labels, lines = np.empty(n_rows), np.empty(n_rows, np.int64)
    data, indices = np.empty(n_values), np.empty(n_values, np.int32)
    indptr = np.zeros(n_rows + 1, np.int64)
    unrounded = np.empty((n_values + n_rows, 2), np.int64)
    rows, values, left, wrong = _parse(buffer, _POWERS, labels, lines, data, indices, indptr, unrounded)
    if wrong:
        line = re.split(rb"\r\n|\r|\n", text)[wrong - 1]
        raise Defect(wrong, defect(line) or "something else")
    digits = re.compile(rb"[0-9.eE+-]+")
    for place, start in unrounded[:left].tolist():
        value = float(next(digits.finditer(text, start)).group())
        target, position = (data, place) if place >= 0 else (labels, -1 - place)
        target[position] = value
    _refuse_infinite(text, lines[:rows], labels[:rows], data[:values], indptr[: rows + 1])
    return Rows(labels[:rows], data[:values], indices[:values], indptr[: rows + 1], lines[:rows])


def _refuse_infinite(text: bytes, lines: np.ndarray, labels: np.ndarray, data: np.ndarray, indptr: np.ndarray) -> None:
    """Refuse numbers that are written out and overflow, such as 1e999."""
    if np.isfinite(labels).all() and np.isfinite(data).all():
        return
    rows = [
        *np.flatnonzero(~np.isfinite(labels)),
        *(np.searchsorted(indptr, np.flatnonzero(~np.isfinite(data)), "right") - 1),
    ]
    line = int(lines[min(rows)])
    raise Defect(line, defect(re.split(rb"\r\n|\r|\n", text)[line - 1]) or "a number that is not finite")


def defect(line: bytes) -> str | None:
    """Return what is wrong with a line, or None."""
    line = line.split(b"#", 1)[0].strip(b" \t")
    if not line:
        return None
    fields = re.split(r"[ \t]+", line.decode("utf-8", "replace"))
    if not _is_finite(fields[0]):
        rest = "; a row begins with one, any number where it is not known" if ":" in fields[0] else ""
        return f"the label {fields[0][:40]!r}, which is not a finite number{rest}"
    previous = -1
    for position, item in enumerate(fields[1:]):
        index, colon, value = item.partition(":")
        if index == "qid" and position == 0:
            if not re.fullmatch(r"[0-9]+", value):
                return f"the query '{item[:40]}', which is not qid: and a whole number"
            continue
        if not colon:
            return f"'{item[:40]}' without a colon"
        if not re.fullmatch(r"\+?[0-9]{1,9}", index) or int(index) > MAX_INDEX:
            return f"the index '{index[:40]}', which is not a whole number from 0 to {MAX_INDEX}"
        if int(index) <= previous:
            return f"index {int(index)} after index {previous}: indices must ascend"
        if not _is_finite(value):
            return f"the value '{value[:40]}' of index {int(index)}, which is not a finite number"
        previous = int(index)
    return None


def _is_finite(text: str) -> bool:
    return NUMBER.fullmatch(text) is not None and math.isfinite(float(text))


# Kernels ----------------------------------------------------------------------------------------------------------


@kernel()
def _parse(text, powers, labels, lines, data, indices, indptr, unrounded):
    """Fill the arrays; return rows, values, numbers left to round, and the first line that is wrong, or 0.

    unrounded holds (place, start of its text) of each such number: value number >= 0, or -1 - row for a label.
    """
    p, end, line = 0, text.size, 1
    rows, values, left = 0, 0, 0
    while p < end:
        p = _skip_blanks(text, p)
        if p < end and not _ends_line(text[p]):
            # 1. the label
            labels[rows], after, fate = _number(text, p, powers)
            if fate == _WRONG or not _ends_token(text, after):
                return rows, values, left, line
            if fate == _ROUND:
                unrounded[left, 0], unrounded[left, 1] = -1 - rows, p
                left += 1
            p = _skip_qid(text, _skip_blanks(text, after))
            # 2. index:value, ascending
            previous = -1
            while p < end and not _ends_line(text[p]):
                index, after = _index(text, p)
                if index <= previous:
                    return rows, values, left, line
                p = after
                data[values], after, fate = _number(text, p, powers)
                if fate == _WRONG or not _ends_token(text, after):
                    return rows, values, left, line
                if fate == _ROUND:
                    unrounded[left, 0], unrounded[left, 1] = values, p
                    left += 1
                indices[values] = previous = index
                values += 1
                p = _skip_blanks(text, after)
            lines[rows] = line
            rows += 1
            indptr[rows] = values
        # 3. to the next line: \n, \r\n or \r
        while p < end and text[p] != _NEWLINE and text[p] != _RETURN:
            p += 1
        p += 2 if p + 1 < end and text[p] == _RETURN and text[p + 1] == _NEWLINE else 1
        line += 1
    return rows, values, left, 0


@kernel()
def _skip_blanks(text, p):
    while p < text.size and (text[p] == _SPACE or text[p] == _TAB):
        p += 1
    return p


@kernel()
def _ends_line(byte):
    return byte in (_NEWLINE, _RETURN, _HASH)


@kernel()
def _ends_token(text, p):
    return p >= text.size or text[p] == _SPACE or text[p] == _TAB or _ends_line(text[p])


@kernel()
def _skip_qid(text, p):
    """Return where the features start: behind qid:n, which ranks within queries and says nothing of a class."""
    after = p + 4
    if after > text.size or text[p] != 113 or text[p + 1] != 105 or text[p + 2] != 100 or text[p + 3] != _COLON:
        return p
    while after < text.size and 48 <= text[after] <= 57:
        after += 1
    return _skip_blanks(text, after) if after > p + 4 and _ends_token(text, after) else p


@kernel()
def _index(text, p):
    """Return the index that stands at p, -1 if none does, and where its value starts."""
    if p < text.size and text[p] == _PLUS:
        p += 1
    index, start = 0, p
    while p < text.size and 48 <= text[p] <= 57 and p - start < 10:
        index = 10 * index + (text[p] - 48)
        p += 1
    if p == start or p - start > 9 or index > MAX_INDEX or p >= text.size or text[p] != _COLON:
        return -1, p
    return index, p + 1


@kernel()
def _number(text, p, powers):
    """Return the number at p, where it ends, and _READ; _ROUND if it takes more than one operation; or _WRONG.

    A mantissa up to 2^53 and a power of ten up to 22 are exact doubles, so that their product or quotient, one
    rounding, is the double nearest to the decimal number (Clinger 1990).
    """
    negative = p < text.size and text[p] == _MINUS
    if negative or (p < text.size and text[p] == _PLUS):
        p += 1
    mantissa, exponent, digits = np.uint64(0), 0, 0
    point = False
    while p < text.size and (48 <= text[p] <= 57 or (text[p] == _POINT and not point)):
        if text[p] == _POINT:
            point = True
        else:
            digits += 1
            if mantissa < np.uint64(_EXACT):  # what follows does not fit and is rounded elsewhere
                mantissa = np.uint64(10) * mantissa + np.uint64(text[p] - 48)
                exponent -= point
            else:
                exponent = 1000
        p += 1
    if digits == 0:
        return 0.0, p, _WRONG
    if p < text.size and (text[p] == 101 or text[p] == 69):
        shift, p = _exponent(text, p + 1)
        if p < 0:
            return 0.0, p, _WRONG
        exponent += shift
    if mantissa > np.uint64(_EXACT) or abs(exponent) > 22:
        return 0.0, p, _ROUND
    value = float(mantissa)
    value = value * powers[exponent] if exponent >= 0 else value / powers[-exponent]
    return -value if negative else value, p, _READ


@kernel()
def _exponent(text, p):
    """Return the exponent that stands at p and where it ends, or (0, -1); huge ones are cut off at 99,999."""
    negative = p < text.size and text[p] == _MINUS
    if negative or (p < text.size and text[p] == _PLUS):
        p += 1
    start, value = p, 0
    while p < text.size and 48 <= text[p] <= 57:
        value = min(10 * value + (text[p] - 48), 99_999)
        p += 1
    if p == start:
        return 0, -1
    return -value if negative else value, p
