"""Ctrl-C, SIGTERM, a closed terminal: end in seconds, with runs marked, whatever the libraries make of it."""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from threading import Timer
from types import FrameType

from tasks.errors import Stopped
from tasks.progress import RECORDED, Step, listening

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_S = 20  # for Prefect, which asks a dead server for over a minute; our own runs are marked at once
AT_ONCE = b"aucflow: ended at once: the next command settles what was left open\n"

_restorers: list[Callable[[], None]] = []  # of the blocks of ``stoppable`` under way, the outermost first


def _restore_in_child() -> None:
    """Leave a forked child its own signals: a pool ends its workers by SIGTERM, which must not stop the run."""
    with suppress(ValueError):  # not the main thread of its interpreter, which has no handlers to lose
        signal.set_wakeup_fd(-1)
        while _restorers:
            _restorers.pop()()


os.register_at_fork(after_in_child=_restore_in_child)


def _end_at_once(number: int) -> None:
    with suppress(OSError):  # of a terminal that was closed
        os.write(2, AT_ONCE)
    os._exit(128 + number)


@dataclass
class Signals:
    """What has arrived while a block of ``stoppable`` runs: received here, and by whatever handler was in place."""

    arrived: Callable[[], list[int]] = list
    received: list[int] = field(default_factory=list)
    is_held: bool = False
    is_watched: bool = False
    note: str = ""  # on what was kept, for a signal that comes when all is done

    def raise_again(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived."""
        arrived = self.arrived()
        if arrived and not self.received:
            self.watch(arrived[0])  # the handler that took it has not
        if arrived or self.received:
            raise KeyboardInterrupt

    def watch(self, number: int) -> None:
        """End the process some time from now, if it has not ended by then."""
        if not self.is_watched:
            self.is_watched = True
            watchdog = Timer(GRACE_S, _end_at_once, [number])
            watchdog.daemon = True
            watchdog.start()

    def hear(self, step: Step) -> None:
        """At each step raise again what was lost on its way: what numba makes of it looks like a failed fit."""
        if step.stage == RECORDED:
            self.note = "the run is marked FINISHED in MLflow"
        self.raise_again()

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

    An interrupt that arrives while the garbage collector runs a callback is printed and lost, and inside a flow Prefect
    has a SIGTERM handler of its own, so it is raised again at the next step. A second signal ends the process there and
    then. Under nohup, SIGHUP stays ignored.
    """
    with _listening_in() as arrived:
        signals = Signals(arrived)
        received = signals.received

        def receive(number: int, _frame: FrameType | None) -> None:
            if received:
                _end_at_once(number)
            received.append(number)
            signals.watch(number)
            if not signals.is_held:
                raise KeyboardInterrupt

        def keep_if_lost(args: "sys.UnraisableHookArgs") -> None:
            if not is_stopped(args.exc_value):
                hook(args)

        ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
        before = {number: signal.signal(number, receive) for number in ENDING if number not in ignored}
        hook, sys.unraisablehook = sys.unraisablehook, keep_if_lost

        def restore() -> None:
            sys.unraisablehook = hook
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not one of Python's

        _restorers.append(restore)
        try:
            with listening(signals.hear):
                yield signals
        except (Exception, KeyboardInterrupt) as error:
            # of a terminal that was closed also every attempt to write to it fails
            seen = received or arrived()
            number = seen[0] if seen else terminated_by(error)
            if number or isinstance(error, KeyboardInterrupt):
                raise Stopped(number or signal.SIGINT, notes_of(error) or signals.note) from None
            raise
        finally:
            if restore in _restorers:  # not in a child that came this far
                _restorers.remove(restore)
                restore()


@contextmanager
def _listening_in() -> Iterator[Callable[[], list[int]]]:
    """Yield what tells which signals have arrived so far, whoever handles them: Python writes each to a pipe."""
    reader, writer = os.pipe()
    arrived: list[int] = []

    def so_far() -> list[int]:
        with suppress(BlockingIOError):
            arrived.extend(number for number in os.read(reader, 256) if number in ENDING)
        return arrived

    for end in (reader, writer):
        os.set_blocking(end, False)
    before = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield so_far
    finally:
        signal.set_wakeup_fd(before)
        os.close(reader)
        os.close(writer)


def terminated_by(error: BaseException | None) -> int | None:
    """Return the signal that Prefect's own handler took, if that is what an error came of."""
    prefect = sys.modules.get("prefect.exceptions")
    signals = (one.signal for one in _causes(error) if prefect and isinstance(one, prefect.TerminationSignal))
    return next(signals, None)


def is_stopped(error: BaseException | None) -> bool:
    """Tell whether an error came of a signal."""
    return terminated_by(error) is not None or any(isinstance(one, KeyboardInterrupt) for one in _causes(error))


def notes_of(error: BaseException | None) -> str:
    """Return what was noted on an error on its way up, or on those that it came from: Prefect may raise its own."""
    return "; ".join(dict.fromkeys(note for one in _causes(error) for note in getattr(one, "__notes__", ())))


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an error and those that it came from."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
