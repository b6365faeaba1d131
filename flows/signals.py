"""Ctrl-C, SIGTERM, a closed terminal: end in seconds, with runs marked, whatever the libraries make of it."""

import os
import signal
import sys
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FrameType

from tasks.errors import Stopped
from tasks.progress import RECORDED, Step, listening

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
GRACE_S = 20  # for Prefect, which asks a dead server for over a minute; our own runs are marked at once
RETRY_S = 0.01  # after which a signal comes again that came where it could not be raised
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


def _later(seconds: float, act: Callable[[], None]) -> None:
    """Act from a thread that none of ``threading``'s locks keeps: the main thread may have been stopped with one."""

    def wait_and_act() -> None:
        time.sleep(seconds)
        act()

    start_new_thread(wait_and_act, ())


def _is_in_llvm(frame: FrameType | None) -> bool:
    """Tell whether a frame runs in LLVM's bindings: they free an object twice if stopped as it changes hands."""
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("llvmlite.binding"):
            return True
        frame = frame.f_back
    return False


@dataclass
class Signals:
    """What has arrived while a block of ``stoppable`` runs: received here, and by whatever handler was in place."""

    arrived: Callable[[], list[int]] = list
    received: list[int] = field(default_factory=list)
    is_held: bool = False
    is_watched: bool = False
    is_raised: bool = False
    is_postponed: bool = False
    note: str = ""  # on what was kept, for a signal that comes when all is done

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Raise KeyboardInterrupt at the first signal, now or once it is safe; end the process at the second."""
        if self.is_postponed:
            self.is_postponed = False
        elif self.received:
            _end_at_once(number)
        else:
            self.received.append(number)
            self.watch(number)
        if self.is_held or self.is_raised:
            return
        if _is_in_llvm(frame):
            self.postpone()
        else:
            self.is_raised = True
            raise KeyboardInterrupt

    def postpone(self) -> None:
        """Have the signal come once more in a moment: it was not raised, or was lost in a callback."""
        self.is_raised, self.is_postponed = False, True
        _later(RETRY_S, self._send_once_more)

    def _send_once_more(self) -> None:
        if self.is_postponed:
            os.kill(os.getpid(), self.received[0])  # which also wakes a thread that waits

    def raise_again(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived."""
        arrived = self.arrived()
        if arrived and not self.received:
            self.watch(arrived[0])  # the handler that took it has not
        if arrived or self.received:
            self.is_raised = True
            raise KeyboardInterrupt

    def watch(self, number: int) -> None:
        """End the process some time from now, if it has not ended by then."""
        if not self.is_watched:
            self.is_watched = True
            _later(GRACE_S, lambda: _end_at_once(number))

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

    An interrupt that arrives while the garbage collector runs a callback is lost, so it is raised again in a moment,
    as is one that arrives in LLVM's bindings. Inside a flow Prefect has a SIGTERM handler of its own, and numba and
    Prefect make other errors of an interrupt, so it is raised again at the next step too. A second signal ends the
    process there and then. Under nohup, SIGHUP stays ignored.
    """
    with _listening_in() as arrived:
        signals = Signals(arrived)

        def keep_if_lost(args: "sys.UnraisableHookArgs") -> None:
            if not is_stopped(args.exc_value):
                hook(args)
            elif isinstance(args.exc_value, KeyboardInterrupt) and signals.received:  # not what merely came of one
                signals.postpone()

        ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
        before = {number: signal.signal(number, signals.receive) for number in ENDING if number not in ignored}
        hook, sys.unraisablehook = sys.unraisablehook, keep_if_lost

        def restore() -> None:
            signals.is_postponed = False
            sys.unraisablehook = hook
            for number, handler in before.items():
                signal.signal(number, signal.SIG_DFL if handler is None else handler)  # None: not one of Python's

        _restorers.append(restore)
        try:
            with listening(signals.hear):
                yield signals
        except (Exception, KeyboardInterrupt) as error:
            # of a terminal that was closed also every attempt to write to it fails
            seen = signals.received or arrived()
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
