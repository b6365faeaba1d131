"""Contests: who is timed when, what tuning finds, what counts as met. The clock is ours: nothing depends on speed."""

from functools import partial
from itertools import pairwise

import pytest

from benchmarks import contest
from benchmarks.contest import Budget, Contest, Gauge, Outcome, SelfTimed, Side

BUDGET = Budget(contest_s=100.0, slow_s=10.0, patience_s=10.0, least_rounds=3, most_rounds=5)


class Clock:
    """Stands still but for calls that say how long they take."""

    def __init__(self):
        self.now, self.log = 0.0, []

    def perf_counter(self):
        return self.now

    def call(self, name, seconds):
        def go(*_):
            self.now += seconds
            self.log.append(name)
            return name

        return go


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(contest, "time", clock)
    return clock


def race(clock, ours_s, peer_s, *, quality=(0.0, 0.0), target=1.0, least=1.0):
    sides = [
        Side(name, clock.call(name, seconds), q, seconds)
        for name, seconds, q in zip(("ours", "peer"), (ours_s, peer_s), quality, strict=True)
    ]
    return contest.run(Contest("task", "data", "setting", *sides, least_ratio=least, target=target), BUDGET)


def test_sides_take_turns(clock):
    outcome = race(clock, 1.0, 3.0)
    assert len(clock.log) == 10
    assert all(a != b for a, b in pairwise(clock.log))
    assert outcome.ours_s == (1.0,) * 5
    assert outcome.ratio == 3.0


def test_a_contest_ends_when_its_budget_is_used_but_not_before_three_rounds(clock):
    assert len(race(clock, 9.0, 9.0).ours_s) == 5  # 90 s
    assert len(race(clock, 9.9, 9.9).ours_s) == 5
    clock.log.clear()
    short = Contest(*"tds", *(Side(n, clock.call(n, 9.0), 0.0, 9.0) for n in "op"), least_ratio=1.0)
    assert len(contest.run(short, Budget(1.0, 10.0, 10.0)).ours_s) == 3


def test_a_slow_peer_is_not_called_again(clock):
    outcome = race(clock, 1.0, 20.0)
    assert clock.log == ["ours"] * 3
    assert (outcome.peer_s, outcome.ratio) == ((20.0,), 20.0)


def test_the_ratio_is_the_median_of_the_rounds_not_of_the_times():
    sides = Side("o", None, 0.0, 1.0), Side("p", None, 0.0, 1.0)
    # a burst of load in the second round slows both sides alike
    outcome = Outcome(Contest(*"tds", *sides, least_ratio=1.0), (1.0, 10.0, 2.0), (2.0, 20.0, 4.0))
    assert outcome.ratio == 2.0


@pytest.mark.parametrize(
    ("ratio", "quality", "met", "bound"),
    [
        (2.0, (0.5, 0.5), True, False),
        (0.5, (0.5, 0.5), False, False),
        (2.0, (1.5, 0.5), False, False),  # fast, and not there
        (2.0, (0.5, 1.5), True, True),  # the peer would have needed longer still
        (0.5, (0.5, 1.5), None, True),  # who knows
        (9.0, (float("nan"), 0.5), False, False),
        (9.0, (0.5, float("nan")), True, True),
    ],
)
def test_what_counts_as_met(clock, ratio, quality, met, bound):
    outcome = race(clock, 1.0, ratio, quality=quality)
    assert outcome.is_met is met
    assert outcome.is_bound is bound


@pytest.mark.parametrize(
    ("target", "found", "between"),
    [
        (0.5, 0.1, [10**-0.25, 10**-0.5, 10**-0.75]),  # 3 * tol of none of them is small enough
        (1.2, 10**-0.5, [10**-0.25, 10**-0.5]),
        (3.0, 1.0, None),  # the loosest of all: none looser to look between
    ],
)
def test_tuning_finds_the_loosest_tolerance_that_reaches_the_target(clock, target, found, between):
    fit, seen = clock.call("fit", 1.0), []
    side = contest.tune(
        "side",
        lambda tol: (fit(), seen.append(tol), tol)[-1],
        (1.0, 0.1, 0.01, 0.001),
        lambda tol: 3 * tol,
        target,
        10,
        contest.BETWEEN,
    )
    # the first one twice: the call that compiles is not looked at
    assert seen == pytest.approx([1.0, 1.0] + ([] if between is None else [0.1, *between]))
    assert side.call() == pytest.approx(found) and side.quality == pytest.approx(3 * found)
    assert side.setting == f"{found:.2g}"


def test_tuning_gives_up_on_a_slow_side_and_says_how_far_it_came(clock):
    go = clock.call("fit", 20.0)
    side = contest.tune("side", go, (1.0, 0.1), lambda _: 7.0, 0.3, 10.0)
    assert (side.quality, side.seconds) == (7.0, 20.0)
    assert len(clock.log) == 2


def test_a_call_may_know_its_own_time(clock):
    assert contest.timed(lambda: (clock.call("read and train", 9.0)(), SelfTimed(2.0, "w"))[-1]) == (2.0, "w")


def test_where_the_least_of_several_counts_for_the_peer_it_counts_for_both(clock):
    def cold_at_first(name):
        seconds = iter([0.09, *[0.05] * 100])

        def go():
            clock.now += next(seconds)
            clock.log.append(name)

        return go

    ours = Side("ours", cold_at_first("ours"), 0.0, 0.05)
    peer = Side("peer", partial(contest.least, cold_at_first("peer")), 0.0, 0.05, is_least=True)
    outcome = contest.run(Contest("task", "data", "setting", ours, peer, least_ratio=1.0), BUDGET)
    assert [*outcome.ours_s, *outcome.peer_s] == pytest.approx([0.05] * 10)
    assert clock.log[:8] == ["ours"] * 4 + ["peer"] * 4  # 0.09 + 3 x 0.05 are the first to exceed 0.2 s
    assert outcome.ratio == pytest.approx(1.0)


def test_a_call_of_more_than_a_fifth_of_a_second_is_not_repeated_nor_a_short_one_for_ever(clock):
    assert contest.least(clock.call("slow", 0.3)) == (pytest.approx(0.3), "slow")
    assert clock.log == ["slow"]
    clock.log.clear()
    contest.least(clock.call("short", 1e-4))
    assert clock.log == ["short"] * 20


def test_gauges_have_a_margin_either_way():
    assert Gauge("t", "s", 10.0, "ns", 15.0).margin == 1.5
    assert Gauge("t", "s", 0.9, "times", 1.8, at_most=False).margin == 0.5
    assert Gauge("t", "s", 20.0, "ns", 15.0).is_met is False
    assert Gauge("t", "s", 20.0, "ns", None).is_met is None
