"""Dates as people write them: 2024-01-05, 2024/1/5, 05.01.2024, 1/5/2024, each with or without a time of day."""

from collections.abc import Callable

import numpy as np
import pandas as pd

from aucsolvers.columns import NUMBER, plain_column
from tasks.calendar_numbers import are_dates, out_of_order, texts_out_of_order, two_units
from tasks.errors import BadInput
from tasks.moments import Length, in_words, length
from tasks.readers import MISSING
from tasks.values import ConversionRule

BEGINNING = 1000  # values that tell most columns that are no dates
_ISO = {
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[T ][0-9:.]+(?:Z| ?[+-][0-9:]+)?)?": ("ISO8601",),
    r"[0-9]{4}-(?:0[1-9]|1[0-2])": ("ISO8601",),
}
_DAYS = {  # what days look like -> the formats to try
    r"[0-9]{4}/[0-9]{1,2}/[0-9]{1,2}": ("%Y/%m/%d",),
    r"[0-9]{1,2}\.[0-9]{1,2}\.[0-9]{4}": ("%d.%m.%Y",),
    r"[0-9]{1,2}/[0-9]{1,2}/[0-9]{4}": ("%m/%d/%Y", "%d/%m/%Y"),
}
_HOURS = {
    "": "",
    r"[T ][0-9]{1,2}:[0-9]{2}": " %H:%M",
    r"[T ][0-9]{1,2}:[0-9]{2}:[0-9]{2}": " %H:%M:%S",
    r"[T ][0-9]{1,2}:[0-9]{2}:[0-9]{2}\.[0-9]{1,6}": " %H:%M:%S.%f",
    r"[T ][0-9]{1,2}:[0-9]{2} ?[APap][Mm]": " %I:%M%p",
    r"[T ][0-9]{1,2}:[0-9]{2}:[0-9]{2} ?[APap][Mm]": " %I:%M:%S%p",
}
_FORMS = _ISO | {
    day + hour: tuple(f"{format_}{clock}" for format_ in formats)
    for day, formats in _DAYS.items()
    for hour, clock in _HOURS.items()
}


def readings(texts: pd.Series) -> list[pd.Series]:
    """Return the ways to read texts as dates, if all that are there look like dates of one form; none if they do not.

    There are two for 1/5/2024, month and day first. A date that cannot be read, such as 0000-00-00, is missing.
    """
    given = texts.dropna()
    first = given.iloc[:BEGINNING].astype(str).str.strip()
    for form, formats in _FORMS.items():
        if first.empty or not first.str.fullmatch(form).all():
            continue
        given = given.astype(str).str.strip()
        if given.str.fullmatch(form).all():
            if form not in _ISO:
                given = given.str.replace("T", " ").str.replace(r" (?=[APap][Mm]$)", "", regex=True)
            return [_moments(pd.to_datetime(given, format=one, errors="coerce", utc=True), texts) for one in formats]
    return []


def _moments(read: pd.Series, texts: pd.Series) -> pd.Series:
    return read.dt.tz_localize(None).astype("datetime64[us]").reindex(texts.index)


def read_times(
    column: pd.Series,
    wanted: np.ndarray,
    name: str,
    file: str,
    place: Callable[[int], str],
    decimal_comma: bool = False,
) -> np.ndarray:
    """Return when each row is from: datetime64[us] where the column has dates, else float64.

    Rows that are not ``wanted`` may have any value, or none.

    Raises
    ------
    BadInput
        If a row has no date and no number, or dates are of several forms, or can be read in more ways than one, or
        numbers are not in the order of time.
    """
    if isinstance(column.dtype, pd.ArrowDtype):
        column = column.array.__arrow_array__().to_pandas()
    if isinstance(column.dtype, pd.CategoricalDtype):
        column = column.astype(object if column.isna().any() else column.dtype.categories.dtype)
    column = column.reset_index(drop=True).where(wanted).infer_objects()
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        times = pd.to_datetime(column, utc=True).dt.tz_localize(None).to_numpy("datetime64[us]")
    else:
        times = plain_column(column)
        if times.dtype == object:
            codes, values = _each_once(times)

            def first(i: int) -> str:
                return place(int(np.argmax(codes == i)))

            times = _written_times(pd.Series(values, dtype=object), name, file, first, decimal_comma)[codes]
    strange = ~np.isfinite(times) & wanted
    if strange.any():
        raise BadInput(
            f"{file}, {place(int(np.argmax(strange)))}: expected a date or a finite number as time '{name}', got none "
            f"({int(strange.sum()):,} in all): nothing tells when it is from. Fill them in, or leave these rows out of "
            "the file."
        )
    if times.dtype.kind == "f":
        _refuse_disorder(times[wanted], name, file)
    return times


def _each_once(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return where each value is among the others, by first appearance, and these; all of them if few come again.

    So it is with objects that are no texts, of which 1 and True are one.
    """
    beginning = values[:BEGINNING]
    if 2 * len(pd.unique(beginning)) > len(beginning) or pd.api.types.infer_dtype(values, skipna=True) != "string":
        return np.arange(len(values)), values
    return pd.factorize(values, use_na_sentinel=False)


def gap_of(rule: ConversionRule, times: np.ndarray, file: str) -> Length:
    """Return a rule's gap as a difference of these times; 0 where it names none.

    Raises
    ------
    BadInput
        If it has a unit and they are numbers, or they are dates and it has none, or numbers that dates are written as.
    """
    if rule.gap is None:
        return 0
    gap, numbers = length(rule.gap) if isinstance(rule.gap, str) else rule.gap, times.dtype.kind == "f"
    if numbers and are_dates(times):
        raise BadInput(
            f"{file}: expected dates as time '{rule.time}' with a gap, got numbers such as {times[0]:.10g}: from one "
            "month to the next they differ by more than there is between them. Write them as 2024-01-05."
        )
    if isinstance(gap, np.timedelta64) == numbers:
        raise BadInput(
            f"{file}: expected {'a number as gap' if numbers else 'a gap with a unit, such as 30d'}, for '{rule.time}' "
            f"has {'numbers' if numbers else 'dates'}; got {in_words(rule.gap)}. Write it as the column counts time."
        )
    return gap


def _written_times(
    column: pd.Series, name: str, file: str, place: Callable[[int], str], decimal_comma: bool
) -> np.ndarray:
    """Return what texts say as dates, which all have to be of one form and to be read in one way, or as numbers."""
    texts = column.map(lambda value: None if (text := str(value).strip()) in MISSING else text, na_action="ignore")
    given = texts.dropna().astype(str)
    if decimal_comma:
        given = given.mask(given.str.fullmatch(r"[+-]?[0-9]+,[0-9]+"), given.str.replace(",", "."))
    if given.str.fullmatch(NUMBER).all():
        if texts_out_of_order(given):
            raise _out_of_order(given.iloc[0], given.iloc[-1], name, file)
        return given.astype(np.float64).reindex(texts.index).to_numpy() + 0.0  # -0.0 and 0.0 are one time
    ways = [way[given.index] for way in readings(given)]
    whole = [way for way in ways if way.notna().all()]
    if whole and (whole[0] == whole[-1]).all():
        _refuse_some_zones(given, name, file, place)
        return whole[0].reindex(texts.index).to_numpy("datetime64[us]")
    if whole:
        row = (whole[0] != whole[1]).idxmax()
        got = f"'{given[row]}', of which month or day may be first"
    elif ways:
        row = max(ways, key=pd.Series.count).isna().idxmax()
        got = f"'{given[row]}', which is no date of 1678 to 2261 and no time of day"
    else:
        row, got = _odd_one(given)
    raise BadInput(
        f"{file}, {place(row)}: expected numbers, or dates of one form, as time '{name}', got {got}. Write all as "
        "2024-01-05, or 2024-01-05 13:45:00."
    )


def _odd_one(given: pd.Series) -> tuple[int, str]:
    """Return where texts have the first that is no date, or no date of the form that most of them have, and which."""
    strange = ~given.str.fullmatch("|".join(_FORMS))
    if strange.any():
        return strange.idxmax(), f"'{given[strange.idxmax()]}'"
    beginning = given.iloc[:BEGINNING]
    usual = max(_FORMS, key=lambda form: beginning.str.fullmatch(form).sum())
    odd = ~given.str.fullmatch(usual)
    return odd.idxmax(), f"'{given[odd.idxmax()]}' beside '{given[(~odd).idxmax()]}'"


def _refuse_some_zones(given: pd.Series, name: str, file: str, place: Callable[[int], str]) -> None:
    """Refuse times of day some of which are of a zone, and others of who knows which."""
    clocks = given[given.str.contains(r"[T ][0-9]")]
    zoned = clocks.str.contains(r"[T ][0-9:.]+(?:Z| ?[+-][0-9:]+)$")
    if zoned.any() and not zoned.all():
        row = (~zoned).idxmax()
        raise BadInput(
            f"{file}, {place(row)}: expected a time zone in every '{name}', or in none, got '{clocks[row]}' beside "
            f"'{clocks[zoned.idxmax()]}'. Write all with their zones."
        )


def _refuse_disorder(times: np.ndarray, name: str, file: str) -> None:
    """Refuse numbers that look like dates and are not in their order, or are of two units."""
    values = np.unique(times)
    if out_of_order(values):
        raise _out_of_order(f"{values[0]:.10g}", f"{values[-1]:.10g}", name, file)
    if found := two_units(values):
        raise BadInput(
            f"{file}: expected one unit of time '{name}', got {found[0]:.15g} and {found[1]:.15g}, which may be "
            "seconds and milliseconds. Write all in one."
        )


def _out_of_order(one: str, other: str, name: str, file: str) -> BadInput:
    return BadInput(
        f"{file}: expected numbers in the order of time, or dates, as time '{name}', got {one} and {other}: years with "
        "months, weeks or days are in another order as such numbers. Write 2024-01, or 2024-01-05."
    )
