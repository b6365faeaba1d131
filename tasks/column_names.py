"""Columns' names: each once; and what one says, that it holds times or durations, numbers rows or tells whose they are.

The last word says what a column is, beside a unit: an event time is a time, a day charge is a charge. eventTime is read
as event Time.
"""

import re
from collections import Counter

TIME = re.compile(
    r"(^|[^a-z])(time|date|datetime|timestamp|year|month|day|hour)"
    r"([^a-z]+(utc|gmt|local|unix|epoch|[munp]?s|secs?|seconds?|min|minutes?|h|hours?))?[^a-z]*$"
    r"|^[^a-z]*(date|datetime|timestamp)([^a-z]|$)"  # a date of whatever
    r"|(^|[^a-z])(created|updated|modified|opened|closed|started|ended|sent|paid|ordered|received|logged)[^a-z]+(at|on)$",
    re.IGNORECASE,
)
DURATION = re.compile(
    r"(^|[^a-z])((response|reaction|lead|wait|waiting|travel|transit|processing|service|delivery|handling|turnaround"
    r"|run|cycle|idle|session|call|play|driving|recovery|screen|sleep|down|up|life)[^a-z]*time|week[^a-z]*day)",
    re.IGNORECASE,
)
BIRTH = re.compile(r"(^|[^a-z])(birth|dob([^a-z]|$)|born)", re.IGNORECASE)
HOUR = re.compile(r"(^|[^a-z])hour[^a-z]*(utc|gmt|local)?[^a-z]*$", re.IGNORECASE)
IDENTIFIER = re.compile(r"(?i:(^|[^a-z])id([^a-z]|$))|[a-z]I[dD]$")  # id, row_id, customerId
ENTITY = re.compile(
    r"(^|[^a-z])(patient|pid|mrn|u?subjid|subject|subj|person|participant|respondent|donor|student|pupil|employee|driver"
    r"|customer|cust|client|member|user|household|family|animal|account|acct|card|policy|device|machine|vehicle|vin|engine"
    r"|sensor|case|ssn|email|uid)[^a-z]*(id|no|nr|num|number|code|key|ref|hash|name)?[^a-z]*$"
    r"|(^|[^a-z])(serial([^a-z]*(no|number))?|uuid|guid|phone|plate)[^a-z]*$",
    re.IGNORECASE,
)
COUNT = re.compile(r"^[^a-z]*(n|no|nr|num|number|count|total)[^a-z]", re.IGNORECASE)
HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")


def is_time(name: str) -> bool:
    """Tell whether it is a point in time, or how long something takes: event_date, created_at, lead time."""
    return _says(TIME, name)


def is_duration(name: str) -> bool:
    """Tell whether it is a time that something takes, or a day of the week: not when a row was collected."""
    return _says(DURATION, name)


def is_birth(name: str) -> bool:
    """Tell whether it is when somebody was born."""
    return _says(BIRTH, name)


def is_hour(name: str) -> bool:
    """Tell whether it is an hour: of the day, or since something began."""
    return _says(HOUR, name)


def is_identifier(name: str) -> bool:
    """Tell whether it is called an id."""
    return _says(IDENTIFIER, name)


def is_entity(name: str) -> bool:
    """Tell whether it is whom or what rows may be of: patient, customer_no, userid."""
    return _says(ENTITY, name)


def is_count(name: str) -> bool:
    """Tell whether it is how many there are: n_users, number of cards."""
    return _says(COUNT, name)


def _says(pattern: re.Pattern[str], name: str) -> bool:
    return any(map(pattern.search, (name, HUMP.sub(" ", name))))


def unique_names(names: list[str]) -> list[str]:
    """Return column names without blanks around them, the empty ones numbered, repeated ones told apart.

    >>> unique_names(["a", "", "a", "a_2"])
    ['a', 'column_2', 'a_3', 'a_2']
    """
    names = [name.strip() or f"column_{i + 1}" for i, name in enumerate(names)]
    taken, seen = set(names), set()
    counts: Counter[str] = Counter()
    out = []
    for name in names:
        unique = name
        while unique in seen or (unique != name and unique in taken):
            counts[name] += 1
            unique = f"{name}_{counts[name] + 1}"
        seen.add(unique)
        out.append(unique)
    return out


def renamed_columns(names: list[str]) -> dict[str, str]:
    """Return the columns that `unique_names` gives another name than the file does, which another column has.

    >>> renamed_columns(["a", "", "a ", "a"])
    {'a_2': 'a', 'a_3': 'a'}
    """
    given = [name.strip() for name in names]
    return {unique: name for unique, name in zip(unique_names(names), given, strict=True) if name not in ("", unique)}
