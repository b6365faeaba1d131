"""Where results go: a console as wide as it should be, JSON, and the exit codes that commands share."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

WIDE = 160  # columns of a table where there is no terminal: a pipe has no width, and rows are lines for grep
TEXT = 80  # columns of sentences there
INCOMPLETE = 2  # the exit code of what cannot be looked at until the user brings something back
FAILED = 1  # the exit code of what could not be done
FINDING = 3  # the exit code of what an auditor has to look at


def wide_console() -> Console:
    """Return the console of standard output, wide where it is no terminal."""
    found = Console()
    return found if found.is_terminal else Console(width=WIDE)


def report_console() -> Console:
    """Return the console of standard output as COLUMNS says, and a wide one only where nothing tells a width."""
    return Console() if os.environ.get("COLUMNS") else wide_console()


def printable(text: str) -> str:
    """Return a text of somebody else's with what steers a terminal, or turns the direction of writing, spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def plain(text: str) -> str:
    """Return a text of somebody else's as rich prints it to the letter, and printable."""
    return escape(printable(text))


def print_json(value: Any) -> None:
    """Print a value, whatever its texts hold, on lines that are as long as they are."""
    only_ascii = not (sys.stdout.encoding or "utf-8").lower().startswith("utf")
    Console().out(json.dumps(value, indent=2, ensure_ascii=only_ascii), highlight=False)


def relative(path: Path) -> str:
    """Return a path as seen from here, where it is below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
