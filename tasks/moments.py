"""Moments: datetime64[us] in UTC where a column holds dates, else float64: a year, a number of the day, seconds."""

import re
from typing import Any

import numpy as np

Moment = Any  # np.datetime64 or np.float64, of which one column has one kind
Length = Any  # of time: the difference of two moments, np.timedelta64 or a number
SPANS = ("M", "D", "h", "m", "s")  # that a text may stand for, as NumPy abbreviates them, from the longest on
_MICROSECONDS = {"s": 10**6, "min": 60 * 10**6, "h": 3600 * 10**6, "d": 86_400 * 10**6, "w": 604_800 * 10**6}


def shown(moment: Moment) -> str:
    """Return a moment as people read it.

    >>> shown(np.datetime64("2024-01-05", "us")), shown(np.datetime64("2024-01-05T13:45")), shown(np.float64(2024))
    ('2024-01-05', '2024-01-05 13:45:00', '2024')
    """
    if not isinstance(moment, np.datetime64):
        return f"{moment:.0f}" if abs(moment) < 1e20 and float(moment).is_integer() else f"{moment:.15g}"
    text = str(moment.astype("datetime64[us]")).replace("T", " ")
    return text.removesuffix(".000000").removesuffix(" 00:00:00").removesuffix(" 23:59:59.999999")


def in_words(gap: str | float) -> str:
    """Return a config's length of time as people read it.

    >>> in_words("30d"), in_words(30.0)
    ('30d', '30')
    """
    return gap if isinstance(gap, str) else f"{gap:.15g}"


def kept(moment: Moment) -> str | float:
    """Return a moment as JSON keeps it.

    >>> kept(np.datetime64("2024-01-05T13:45", "us")), kept(np.float64(2024))
    ('2024-01-05T13:45:00.000000', 2024.0)
    """
    return str(moment.astype("datetime64[us]")) if isinstance(moment, np.datetime64) else float(moment)


def read_again(moment: str | float) -> Moment:
    """Return the moment that `kept` made a text or a number of."""
    return np.datetime64(moment, "us") if isinstance(moment, str) else np.float64(moment)


def end_of(moment: Moment, others: np.ndarray) -> Moment:
    """Return the last moment of the month, day, hour ... that a moment stands for, as ``others`` of its column tell.

    >>> june, march = np.datetime64("2024-06-01", "us"), np.datetime64("2024-03-01", "us")
    >>> shown(end_of(june, np.array([march]))), shown(end_of(june, np.array([march + 1])))
    ('2024-06-30', '2024-06-01')
    >>> float(end_of(np.float64(2024), np.array([2023.0]))), float(end_of(np.float64(2024), np.array([2023.5])))
    (2024.999999, 2024.0)
    """
    moments = np.append(others, moment)
    if moments.dtype.kind == "f":
        return moment + 0.999999 if (moments == np.floor(moments)).all() else moment
    for unit in SPANS:
        if (moments == moments.astype(f"datetime64[{unit}]")).all():
            return (moment.astype(f"datetime64[{unit}]") + 1).astype("datetime64[us]") - 1
    return moment


def length(text: str) -> np.timedelta64 | None:
    """Return how long what people write as "30d" is; None where it is nothing of the kind.

    >>> length("30d"), length("1.5h"), length("30")
    (np.timedelta64(2592000000000,'us'), np.timedelta64(5400000000,'us'), None)
    """
    found = re.fullmatch(r"([0-9]{1,6}(?:\.[0-9]{1,6})?) ?(s|min|h|d|w)", text)
    return None if found is None else np.timedelta64(round(float(found[1]) * _MICROSECONDS[found[2]]), "us")
