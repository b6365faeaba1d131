"""A sign of life on a terminal while something takes long: a spinner, or a bar where it is known how far it is."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn

Show = Callable[..., None]  # takes what has changed of a bar: description, completed, total, advance


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


@contextmanager
def bar(total: int | None = None, count: type[ProgressColumn] = MofNCompleteColumn) -> Iterator[Show]:
    """Show a bar on standard error while the block runs, and nothing where that is no terminal; yield what to tell it.

    ``total`` may be told later; ``count`` is the column of Rich that says how far it is.
    """
    console = Console(stderr=True)
    # the description last: its length changes
    columns = BarColumn(bar_width=20), count(), TimeElapsedColumn(), TextColumn("{task.description}")
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as shown:
        job = shown.add_task("starting", total=total)
        yield lambda **news: shown.update(job, **news)
