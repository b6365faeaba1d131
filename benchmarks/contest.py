"""A contest: two ways to the same result, timed in turn (A B A B ...) so that a noisy machine hurts both."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Contest:
    """What is compared; ``quality`` maps each result to the number in which the two must agree or ours be better."""

    task: str
    data: str
    peer_name: str
    ours: Callable[[], Any]
    peer: Callable[[], Any]
    quality: Callable[[Any], float]
    quality_name: str


@dataclass(frozen=True)
class Outcome:
    """Medians over the rounds; ``ratio`` is the median of peer time / our time, round by round."""

    contest: Contest
    first_call_s: float
    ours_s: float
    peer_s: float
    ratio: float
    ours_quality: float
    peer_quality: float


def run(contest: Contest, rounds: int = 7) -> Outcome:
    """Time both sides ``rounds`` times after one call each that is not counted."""
    first_call_s, ours = _timed(contest.ours)
    _, peer = _timed(contest.peer)
    times = [(_timed(contest.ours)[0], _timed(contest.peer)[0]) for _ in range(rounds)]
    return Outcome(
        contest=contest,
        first_call_s=first_call_s,
        ours_s=statistics.median(a for a, _ in times),
        peer_s=statistics.median(b for _, b in times),
        ratio=statistics.median(b / a for a, b in times),
        ours_quality=contest.quality(ours),
        peer_quality=contest.quality(peer),
    )


def _timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result
