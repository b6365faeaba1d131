"""A sign of life on a terminal while something takes longer than it looks: imports, a database, another's server."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def waiting(words: str = "starting") -> Iterator[None]:
    """Show the words and a spinner on standard error while the block runs, and nothing where that is no terminal.

    The block prints nothing: the spinner has the line.
    """
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(words):
        yield
