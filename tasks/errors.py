"""The ways in which a run ends badly, kept apart because their exit codes differ."""

import re
import unicodedata
from difflib import SequenceMatcher, get_close_matches
from typing import Any


class BadInput(ValueError):
    """What the user gave cannot be used: exit code 2, one line, nothing written to the store.

    The message says what was expected, what came, and what to do.
    """

    def __init__(self, message: str):
        super().__init__(" ".join(str(message).split()))  # one line, whatever a library's message had in it


class RunFailed(RuntimeError):
    """The experiment ran and at least one part of it failed: exit code 1, the reason is in MLflow.

    ``outcome`` is what the flow would have returned, where there is something to show of the parts that did not fail.
    """

    def __init__(self, message: str, outcome: Any = None):
        super().__init__(" ".join(str(message).split()))
        self.outcome = outcome


class NotAsRecorded(RunFailed):
    """What was to be used is not as it was recorded: exit code 3, as of an audit that finds it."""


class Stopped(RuntimeError):
    """A signal ended the run: exit code 128 + its number (130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP)."""

    def __init__(self, number: int, note: str = ""):
        word = {1: "terminal closed", 2: "interrupted", 15: "terminated"}.get(number, f"stopped by signal {number}")
        super().__init__(f"{word}; {note or 'nothing was written'}")
        self.exit_code = 128 + number


def in_short(error: BaseException) -> str:
    """Return what an error says, on one line, cut where it runs on, without the password of an address."""
    return without_password(" ".join(str(error).split()))[:200]


def without_password(text: str) -> str:
    """Return a text in which addresses lack the user's name and password that go before their host."""
    return re.sub(r"""(?<=://)[^/\s?#"'<>,;]*@""", "", text)


def nearest(name: str, known: list[str] | tuple[str, ...]) -> str:
    """Return ``" Did you mean 'x'?"`` for the known name nearest to a misspelt one, or an empty string."""
    given, lower = str(name).lower(), {k.lower(): k for k in reversed(known)}
    matches = get_close_matches(given, lower, n=10, cutoff=0.5)
    if not matches:
        return ""
    # of equally near ones that with the same beginning
    best = max(matches, key=lambda k: (SequenceMatcher(None, k, given).ratio(), k[:1] == given[:1]))
    if lower[best] != name and _as_seen(lower[best]) == _as_seen(str(name)):
        return f" Did you mean {lower[best]!a}? They look alike and are other characters: {str(name)!a}."
    return f" Did you mean '{lower[best]}'?"


def _as_seen(name: str) -> str:
    """Return a name without what cannot be seen of its spelling: how accents are put on, characters without a width."""
    return "".join(c for c in unicodedata.normalize("NFKC", name) if unicodedata.category(c) != "Cf")
