"""Ctrl-C, SIGTERM, a closed terminal: end in seconds, with runs marked, whatever the libraries make of it."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Timer
from types import FrameType

from aucsolvers._transaction import is_of_interrupt
from tasks.errors import Stopped
from tasks.progress import listening

GRACE_S = 20  # for Prefect, which asks a dead server for over a minute; our own runs are marked at once
AT_ONCE = b"aucflow: ended at once: the next command settles what was left open\n"


def _end_at_once(number: int) -> None:
    with suppress(OSError):  # of a terminal that was closed
        os.write(2, AT_ONCE)
    os._exit(128 + number)


@dataclass
class Signals:
    """What has arrived while a block of ``stoppable`` runs."""

    received: list[int] = field(default_factory=list)
    is_held: bool = False

    def raise_again(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived."""
        if self.received:
            raise KeyboardInterrupt

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let a signal wait for the end of a block of steps, of which the first is not to be taken without the last."""
        self.is_held = True
        try:
            yield
        finally:
            self.is_held = False
            self.raise_again()


@contextmanager
def stoppable() -> Iterator[Signals]:
    """Turn SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt while the block runs, and that into Stopped at its end.

    An interrupt that arrives while the garbage collector runs a callback is printed and lost, so it is raised again
    at the next step. A second signal ends the process there and then. Under nohup, SIGHUP stays ignored.
    """
    signals = Signals()
    received = signals.received

    def receive(number: int, _frame: FrameType | None) -> None:
        if received:
            _end_at_once(number)
        received.append(number)
        watchdog = Timer(GRACE_S, _end_at_once, [number])
        watchdog.daemon = True
        watchdog.start()
        if not signals.is_held:
            raise KeyboardInterrupt

    def keep_if_lost(args: "sys.UnraisableHookArgs") -> None:
        # what Python cannot raise where it stands; inside a flow Prefect has a SIGTERM handler of its own
        prefect = sys.modules.get("prefect.exceptions")
        if prefect is not None and isinstance(args.exc_value, prefect.TerminationSignal):
            received.append(args.exc_value.signal)
        elif not isinstance(args.exc_value, KeyboardInterrupt):
            hook(args)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, receive) for number in numbers}
    hook, sys.unraisablehook = sys.unraisablehook, keep_if_lost
    try:
        with listening(lambda _step: signals.raise_again()):
            yield signals
    except (Exception, KeyboardInterrupt) as error:
        # of a terminal that was closed also every attempt to write to it fails
        number = received[0] if received else terminated_by(error)
        if number or isinstance(error, KeyboardInterrupt):
            raise Stopped(number or signal.SIGINT, notes_of(error)) from None
        raise
    finally:
        sys.unraisablehook = hook
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not one of Python's


def terminated_by(error: BaseException | None) -> int | None:
    """Return the signal that Prefect's own handler took, if that is what an error came of."""
    prefect = sys.modules.get("prefect.exceptions")
    while prefect is not None and error is not None:
        if isinstance(error, prefect.TerminationSignal):
            return error.signal
        error = error.__cause__ or error.__context__
    return None


def is_stopped(error: BaseException | None) -> bool:
    """Tell whether an error came of a signal."""
    return terminated_by(error) is not None or is_of_interrupt(error)


def notes_of(error: BaseException | None) -> str:
    """Return what was noted on an error on its way up, or on those that it came from: Prefect may raise its own."""
    notes: list[str] = []
    while error is not None:
        notes += getattr(error, "__notes__", ())
        error = error.__cause__ or error.__context__
    return "; ".join(dict.fromkeys(notes))
