"""Turns: what one process at a time may do, and whom another waits for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.files import locked
from tasks.recovery import in_words, this_process


@contextmanager
def turn(path: Path, patience_s: float, refusal: Callable[[str], str]) -> Iterator[None]:
    """Hold ``path``.lock while the block runs; ``path``.owner says who does.

    Raises
    ------
    RunFailed
        If another holds it longer than ``patience_s``, in the words that ``refusal`` finds for its owner.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    owner = path.with_name(f"{path.name}.owner")
    with locked(path.with_name(f"{path.name}.lock"), patience_s, lambda: refusal(_held_by(owner))):
        try:
            owner.write_text(this_process(), encoding="utf-8")
            yield
        finally:
            owner.unlink(missing_ok=True)


def _held_by(owner: Path) -> str:
    try:
        return in_words(owner.read_text(encoding="utf-8"))
    except OSError:  # it is just beginning, or has just finished
        return in_words("")
