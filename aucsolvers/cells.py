"""Cells of a table: what one says by itself, a number in whatever spelling, a name, or nothing."""

import re
from datetime import date, datetime, time
from numbers import Number

import numpy as np

# Texts that a cell holds when it holds nothing; written out, for pandas' own list changes with its version.
MISSING = ("", "?", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "NULL", "null", "None")
PLAIN = (str, Number, np.bool_, date)  # what a cell may hold: a Decimal is a Number, a moment is a date


def as_categories(column, points="."):
    """Return a pandas Series as an object array of texts that name categories, None where one is missing.

    What a cell says hangs on it alone, and not on what else is in its column: the whole number 17, 17.0 and the texts
    "17", "017" and "17.0" are one category, and so are a truth value and 1 or 0; a text behind one of ``points`` may
    have zeros. A day is as in "2026-03-01". Any other text is as it is spelt, and an object that is no value stays.
    """
    known = {}  # of texts: the values of a column are few, or else each is looked at once
    cells = column.astype(object).to_numpy(object, na_value=None)
    texts = np.empty(len(cells), dtype=object)
    for place, cell in enumerate(cells.tolist()):
        if isinstance(cell, str):
            text = known.get(cell)
            if text is None:
                text = known[cell] = _category(cell.strip(), points)
        else:
            text = _category(_spelt(cell), points) if isinstance(cell, PLAIN) else cell
        texts[place] = None if isinstance(text, str) and not text else text
    return texts


def _spelt(cell):
    is_day = isinstance(cell, datetime) and cell.tzinfo is None and cell.time() == time()
    return cell.date().isoformat() if is_day else cell_text(cell)


def _category(text, points):
    """Return the category of a text, an empty one if it says that there is none."""
    return "" if text in MISSING else plain_whole({"true": "1", "false": "0"}.get(text.lower(), text), points)


def cell_text(cell):
    """Return 1.0 as '1', 0.5 as '0.5', ' yes ' as 'yes', and an empty text as None."""
    if isinstance(cell, float | np.floating):
        return str(int(cell)) if float(cell).is_integer() else repr(float(cell))
    return str(cell).strip() or None


def plain_whole(text, points="."):
    """Return the text of a whole number without zeros in front or behind one of the points, any other as it is.

    >>> plain_whole("0017.0"), plain_whole("1E5"), plain_whole("17b"), plain_whole("17,0", ".,")
    ('17', '1E5', '17b', '17')
    """
    whole = re.fullmatch(rf"([+-]?[0-9]{{1,4000}})(?:[{points}]0*)?", text) if text is not None else None
    return str(int(whole[1])) if whole else text
