"""Moments: datetime64[us] in UTC where a column holds dates, else float64: a year, a number of the day, seconds."""

from typing import Any

import numpy as np

Moment = Any  # np.datetime64 or np.float64, of which one column has one kind


def shown(moment: Moment) -> str:
    """Return a moment as people read it.

    >>> shown(np.datetime64("2024-01-05", "us")), shown(np.datetime64("2024-01-05T13:45")), shown(np.float64(2024))
    ('2024-01-05', '2024-01-05 13:45:00', '2024')
    """
    if not isinstance(moment, np.datetime64):
        return f"{moment:.0f}" if abs(moment) < 1e20 and float(moment).is_integer() else f"{moment:.15g}"
    text = str(moment.astype("datetime64[us]")).replace("T", " ")
    return text.removesuffix(".000000").removesuffix(" 00:00:00")


def kept(moment: Moment) -> str | float:
    """Return a moment as JSON keeps it.

    >>> kept(np.datetime64("2024-01-05T13:45", "us")), kept(np.float64(2024))
    ('2024-01-05T13:45:00.000000', 2024.0)
    """
    return str(moment.astype("datetime64[us]")) if isinstance(moment, np.datetime64) else float(moment)


def read_again(moment: str | float) -> Moment:
    """Return the moment that `kept` made a text or a number of."""
    return np.datetime64(moment, "us") if isinstance(moment, str) else np.float64(moment)
