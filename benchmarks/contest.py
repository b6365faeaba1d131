"""A contest: two ways to a result of the same quality, timed in turn (A B A B ...), so that noise hurts both.

Equal quality comes first: each side runs at the loosest tolerance whose result reaches the target. It is found once,
outside the timing, by going down a ladder of tolerances.
"""

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

# What tuning may try between two steps of a coarse ladder
BETWEEN = (0.25, 0.5, 0.75)
MOST_RUNS, LEAST_S = 20, 0.2  # of a call that is short: as many as come to so many seconds


@dataclass(frozen=True)
class Budget:
    """How long a contest may take."""

    contest_s: float  # rounds go on for as long
    slow_s: float  # a side slower than this is not called again: the call that tuned it is the one that counts
    patience_s: float  # tuning goes down no further after a call as long as this
    least_rounds: int = 3
    most_rounds: int = 31


FULL = Budget(contest_s=2.0, slow_s=5.0, patience_s=12.0)
QUICK = Budget(contest_s=0.3, slow_s=1.0, patience_s=1.0)


class SelfTimed(NamedTuple):
    """What a call returns that knows better than the clock around it what is to count."""

    seconds: float
    value: Any


@dataclass(frozen=True)
class Side:
    """One way to the result: the call that is timed, and what an untimed call of it has shown."""

    name: str
    call: Callable[[], Any]
    quality: float  # smaller is better
    seconds: float  # of that untimed call
    setting: str = ""  # of the tolerance that reached the target
    tolerance: float = math.nan  # that one
    is_least: bool = False  # its call gives the least time of several in a row: then that of the other side counts too


@dataclass(frozen=True)
class Contest:
    """What is compared. ``least_ratio`` is the goal for peer time / our time; None: the numbers are shown, not judged.

    ``target`` is the quality that both sides have to reach; None where quality is shown only.
    """

    task: str
    data: str
    setting: str
    ours: Side
    peer: Side
    least_ratio: float | None
    target: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Outcome:
    """The times of a contest, round by round; a side that was too slow to be called again has one."""

    contest: Contest
    ours_s: tuple[float, ...]
    peer_s: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The median over the rounds of peer time / our time: of the same moment, hence under the same load."""
        if len(self.ours_s) == len(self.peer_s):
            return statistics.median(b / a for a, b in zip(self.ours_s, self.peer_s, strict=True))
        return statistics.median(self.peer_s) / statistics.median(self.ours_s)

    @property
    def is_bound(self) -> bool:
        """Whether the peer was stopped short of the target: its time, and the ratio, are then lower bounds."""
        return self.contest.target is not None and not self.contest.peer.quality <= self.contest.target

    @property
    def is_equal(self) -> bool:
        """Whether we reached the target: a ratio means nothing otherwise."""
        return self.contest.target is None or self.contest.ours.quality <= self.contest.target

    @property
    def is_met(self) -> bool | None:
        """Whether the cell meets the goal; None if there is none, or a bound below the goal leaves it open."""
        least = self.contest.least_ratio
        if least is None:
            return None
        if self.is_equal and self.is_bound and self.ratio < least:
            return None
        return self.is_equal and self.ratio >= least


@dataclass(frozen=True)
class Gauge:
    """One number with a limit of its own, where there is no peer to race; None as limit: shown, not judged."""

    task: str
    setting: str
    value: float
    unit: str
    limit: float | None
    at_most: bool = True
    note: str = ""

    @property
    def margin(self) -> float | None:
        """How many times better than the limit, if there is one; below 1 it is missed."""
        if self.limit is None:
            return None
        return self.limit / self.value if self.at_most else self.value / self.limit

    @property
    def is_met(self) -> bool | None:
        return None if self.margin is None else self.margin >= 1.0


@dataclass(frozen=True)
class Failure:
    """A cell that raised: it is shown with its reason, and its goal counts as missed."""

    task: str
    reason: str
    is_met: bool = False


def tune(
    name: str,
    fit: Callable[[Any], Any],
    tolerances: Sequence[float],
    quality: Callable[[Any], float],
    target: float,
    patience_s: float,
    between: Sequence[float] = (),
) -> Side:
    """Return the side at the first (loosest) of the tolerances that reaches the target.

    ``between`` are parts of the way, in logarithms, from the tolerance before it, at which to try again. The descent
    ends without reaching the target where a call took longer than ``patience_s``: the side's quality tells.
    """

    def at(tolerance: float) -> Side:
        call = partial(fit, tolerance)
        seconds, result = timed(call)
        return Side(name, call, quality(result), seconds, f"{tolerance:.2g}", tolerance)

    fit(tolerances[0])  # whatever is compiled or loaded by a first call
    looser = None
    for tolerance in tolerances:
        side = at(tolerance)
        if side.quality <= target or side.seconds > patience_s:
            break
        looser = tolerance
    if looser is None or side.quality > target:
        return side
    tries = (at(looser * (tolerance / looser) ** part) for part in between)
    return next((nearer for nearer in tries if nearer.quality <= target), side)


def fixed(name: str, call: Callable[[], Any], quality: Callable[[Any], float]) -> Side:
    """Return a side that has no tolerance to choose; the first of two calls compiles and is not looked at."""
    call()
    seconds, result = timed(call)
    return Side(name, call, quality(result), seconds)


def run(contest: Contest, budget: Budget) -> Outcome:
    """Time both sides in turn for as long as the budget allows."""
    ours, peer = contest.ours, contest.peer
    if peer.is_least and not ours.is_least:
        ours = replace(ours, call=partial(least, ours.call))
    if peer.seconds > budget.slow_s:
        rounds = budget.least_rounds if ours.seconds <= budget.slow_s else 0
        ours_s = [timed(ours.call)[0] for _ in range(rounds)] or [ours.seconds]
        return Outcome(contest, tuple(ours_s), (peer.seconds,))
    pairs: list[tuple[float, float]] = []
    started = time.perf_counter()
    while len(pairs) < budget.most_rounds:
        pairs.append((timed(ours.call)[0], timed(peer.call)[0]))
        if len(pairs) >= budget.least_rounds and time.perf_counter() - started > budget.contest_s:
            break
    return Outcome(contest, *map(tuple, zip(*pairs, strict=True)))


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Return the wall time of a call, in seconds, and its result."""
    start = time.perf_counter()
    result = call()
    elapsed = time.perf_counter() - start
    return (result.seconds, result.value) if isinstance(result, SelfTimed) else (elapsed, result)


def least(call: Callable[[], Any]) -> SelfTimed:
    """Return the least time of several calls in a row and the last one's result: short calls vary by their start."""
    seconds: list[float] = []
    while not seconds or (len(seconds) < MOST_RUNS and sum(seconds) < LEAST_S):
        elapsed, value = timed(call)
        seconds.append(elapsed)
    return SelfTimed(min(seconds), value)
