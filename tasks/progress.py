"""Where the work stands, told to whoever listens: the console's display, a test, or nobody."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

RECORDED = "recorded"  # the stage that an experiment's own run announces once it is closed
NOTICE = "notice"  # no stage, but what went wrong beside the run and harms it not: its detail is for the console


@dataclass(frozen=True)
class Step:
    """One step that begins (``done`` false) or has ended; ``fold`` is -1 for the refit on all rows."""

    stage: str
    dataset: str = ""
    method: str = ""
    fold: int | None = None
    done: bool = False
    detail: str = ""  # where a long step stands: "search 2/3"


_listeners: list[Callable[[Step], None]] = []


def announce(
    stage: str, dataset: str = "", method: str = "", fold: int | None = None, done: bool = False, detail: str = ""
) -> None:
    """Tell every listener of a step."""
    for listener in tuple(_listeners):
        listener(Step(stage, dataset, method, fold, done, detail))


@contextmanager
def listening(listener: Callable[[Step], None]) -> Iterator[None]:
    """Hear of every step while the block runs."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)
