"""`make bench`: run every contest and print the table that the README quotes."""

import platform
import warnings

import numba
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from threadpoolctl import threadpool_limits

from benchmarks.contest import run
from benchmarks.contests import contests, pair_updates


def main() -> None:
    """Print one row per contest and one line per dimension of the pair update."""
    warnings.simplefilter("ignore")
    console = Console(width=120)
    table = Table("task", "data", "peer", "ours ms", "peer ms", "peer/ours", "quality", "ours", "peer", "first call s")
    with threadpool_limits(1):
        for contest in track(list(contests()), "contests", console=Console(stderr=True), transient=True):
            o = run(contest)
            numbers = (f"{o.ours_s * 1e3:.2f}", f"{o.peer_s * 1e3:.2f}", f"{o.ratio:.2f}")
            qualities = (
                contest.quality_name,
                f"{o.ours_quality:.6g}",
                f"{o.peer_quality:.6g}",
                f"{o.first_call_s:.2f}",
            )
            table.add_row(contest.task, contest.data, contest.peer_name, *numbers, *qualities)
        console.print(table)
        for d, nanoseconds in pair_updates():
            console.print(f"AUCSDCD, d = {d}: {nanoseconds:.1f} ns per pair update", highlight=False)
    console.print(
        f"one thread; {platform.machine()}, Python {platform.python_version()}, "
        f"NumPy {np.__version__}, numba {numba.__version__}",
        highlight=False,
    )


if __name__ == "__main__":
    main()
