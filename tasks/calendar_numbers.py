"""Numbers that are written like dates: 31122024, 2024.10. As numbers they may be in another order than time, or have
differences that are no lengths of it.

Each way to write a date as a number is a function that reads ascending numbers, and returns what of them goes before
what: a row of keys, the year's first. Or None, where they cannot be meant so.
"""

import re
from collections.abc import Iterable

import numpy as np

Keys = tuple[np.ndarray, ...]

BEGINNING = 1000  # numbers that tell of most columns with fractions that they are no dates
MONTHS = {*map(str, range(1, 10)), "11", "12"}  # behind a year's point, as a number has them: October is January
WEEKS = {text.rstrip("0") for text in map(str, range(1, 54))}
EPOCHS = [(10.0**digits, 5.0 * 10.0 ** (digits + 1)) for digits in (8, 11, 14, 17)]  # 1973 to 2128 in s, ms, us, ns


def out_of_order(values: np.ndarray) -> bool:
    """Tell whether ascending numbers can be meant as dates, and in each such way would go in another order.

    >>> [out_of_order(np.array(days)) for days in ([1012025.0, 31122024], [20241231.0, 20250101], [1012024.0, 2152024])]
    [True, False, False]
    """
    ways = [way(values) for way in (_day_month_year, _month_day_year, _month_year, _year_month, _fractions)]
    return _none_goes_up(keys for keys in ways if keys is not None)


def texts_out_of_order(texts: Iterable[str]) -> bool:
    """Tell whether texts of numbers are years with months, weeks or days behind a point, and out of order as numbers.

    >>> texts_out_of_order(["2024.9", "2024.10"]), texts_out_of_order(["2024.09", "2024.10"])
    (True, False)
    """
    found = []
    for text in texts:
        match = re.fullmatch(r"((?:19|20)[0-9]{2})(?:\.([1-9][0-9]{0,2}))?", text)
        if match is None:
            return False
        found.append(match)
    years, parts = (np.array([int(match[i] or 0) for match in found]) for i in (1, 2))
    widths = {len(match[2]) for match in found if match[2]}
    tens = ((parts % 10 == 0) & (parts > 0)).any()  # decimals are seldom written with a last zero
    if len(widths) < 2 or not tens or parts.max() > (366 if 3 in widths else 53):
        return False
    ascending = np.lexsort((parts, years))
    numbers = np.array([float(match[0]) for match in found])[ascending]
    differ = (np.diff(years[ascending]) != 0) | (np.diff(parts[ascending]) != 0)
    return bool((np.diff(numbers)[differ] <= 0).any())


def are_dates(values: np.ndarray) -> bool:
    """Tell whether numbers are YYYYMM, YYYYMMDD or YYYYMMDDHH: in the order of time, but no lengths of it apart.

    >>> are_dates(np.array([20240131.0, 20240201.0])), are_dates(np.array([45000.0, 45001.0]))
    (True, False)
    """
    with_hours, days = _within(1 + values % 100, 24), values // 100
    return _are_months(values) or _are_days(values) or (_are_days(days) and with_hours)


def _are_months(values: np.ndarray) -> bool:
    """Or weeks."""
    return _in_years(values // 100) and _within(values % 100, 53)


def _are_days(values: np.ndarray) -> bool:
    return _in_years(values // 10_000) and _within(values // 100 % 100, 12) and _within(values % 100, 31)


def two_units(values: np.ndarray) -> tuple[float, float] | None:
    """Return two neighbours of ascending numbers that are of two units of time, seconds and milliseconds, or None.

    >>> two_units(np.array([1.7e9, 1.8e9, 1.7e12]))
    (1800000000.0, 1700000000000.0)
    """
    spans = [values[(values >= low) & (values <= high)] for low, high in EPOCHS]
    of_unit = [span for span in spans if len(span)]
    if len(of_unit) < 2 or sum(map(len, of_unit)) < (values > 1).sum():
        return None
    return float(of_unit[0][-1]), float(of_unit[1][0])


def _none_goes_up(ways: Iterable[Keys]) -> bool:
    orders = [_goes_up(keys) for keys in ways]
    return bool(orders) and not any(orders)


def _goes_up(keys: Keys) -> bool:
    """Tell whether rows of keys ascend."""
    return bool((np.diff(np.lexsort(keys[::-1])) > 0).all())


def _day_month_year(values: np.ndarray) -> Keys | None:
    front, year = np.divmod(values, 10_000)
    day, month = np.divmod(front, 100)
    return (year, month, day) if _in_years(year) and _within(month, 12) and _within(day, 31) else None


def _month_day_year(values: np.ndarray) -> Keys | None:
    front, year = np.divmod(values, 10_000)
    month, day = np.divmod(front, 100)
    return (year, month, day) if _in_years(year) and _within(month, 12) and _within(day, 31) else None


def _month_year(values: np.ndarray) -> Keys | None:
    month, year = np.divmod(values, 10_000)
    return (year, month) if _in_years(year) and _within(month, 12) else None


def _year_month(values: np.ndarray) -> Keys | None:
    """Of 20249 and 202410; or weeks."""
    short = values < 100_000
    year, part = np.where(short, values // 10, values // 100), np.where(short, values % 10, values % 100)
    return (year, part) if _in_years(year) and _within(part, 53) else None


def _fractions(values: np.ndarray) -> Keys | None:
    """Of 2024.1 to 2024.12, or to 2024.52; and of 1.2024 to 12.2024."""
    values = values[:BEGINNING]
    parts = [f"{value:.10g}".partition(".") for value in values]
    behind = {part[2] for part in parts}
    are_months = behind <= MONTHS and behind & {"11", "12"}
    if _in_years(values // 1) and (are_months or (behind <= WEEKS and len(behind) > 12)):
        return values // 1, np.array([int(part[2]) for part in parts])
    if not _within(values // 1, 12) or np.array_equal(values, np.round(values, 2)):
        return None
    year = np.round(values % 1 * 10_000)
    return (year, values // 1) if np.array_equal(values, np.round(values, 4)) and _in_years(year) else None


def _in_years(numbers: np.ndarray) -> bool:
    return bool(((numbers >= 1900) & (numbers < 2100) & (numbers == np.floor(numbers))).all())


def _within(numbers: np.ndarray, most: int) -> bool:
    return bool(((numbers >= 1) & (numbers <= most) & (numbers == np.floor(numbers))).all())
