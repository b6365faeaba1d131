"""What a part of the benchmark is: a goal and the cells that are held against it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benchmarks.contest import FULL, QUICK, Budget, Contest, Gauge
from benchmarks.data import Shelf


@dataclass(frozen=True)
class Cell:
    """One row of a table to be. ``build`` tunes both sides, or takes the measurement, when it is this cell's turn."""

    task: str
    where: str
    build: Callable[[], Contest | Gauge]


class Bench:
    """What the parts of a run share: the data, how long a contest may take, and which peers are missing."""

    def __init__(self, quick: bool = False):
        self.quick = quick
        self.budget: Budget = QUICK if quick else FULL
        self.shelf = Shelf(quick)
        self.absent: dict[str, str] = {}  # peer -> why it did not take part


@dataclass(frozen=True)
class Part:
    """A section of the report. ``least_mean`` is the goal for the geometric mean of the ratios, where there is one."""

    name: str  # as --only takes it
    title: str
    goal: str
    method: str  # how the cells are measured, for the report
    cells: Callable[[Bench], Iterator[Cell]]
    quality: str = ""  # what the two quality columns hold
    least_mean: float | None = None
