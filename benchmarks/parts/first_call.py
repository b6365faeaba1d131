"""What the first call costs: every solver in a fresh process on a warm kernel cache, and all kernels from nothing."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.contest import Gauge, timed
from benchmarks.part import Bench, Cell, Part
from tasks import catalogue

LIMIT_FIRST_S, LIMIT_ALL_S = 1.0, 90.0
QUICK = ("svm_or", "sdcd_perm", "ls_svm", "linear_svm")


def cells(bench: Bench) -> Iterator[Cell]:
    if bench.quick:
        for name in QUICK:
            yield Cell(name, "first call", partial(_first_call, name, None))
        return
    with tempfile.TemporaryDirectory() as cache:  # until the last cell is done: they are built one by one
        yield Cell("all kernels", "from nothing", partial(_from_nothing, Path(cache)))
        for name in catalogue.SOLVERS:
            yield Cell(name, "first call, warm cache", partial(_first_call, name, Path(cache)))


def _from_nothing(cache: Path) -> Gauge:
    names = tuple(catalogue.SOLVERS)
    warmup = _warmup()
    seconds, _ = timed(partial(_run, warmup or _fits(names), cache))
    if not any(cache.rglob("*.nbc")):
        raise RuntimeError("Expected compiled kernels in the new cache, got none: the measurement is void.")
    if warmup:  # what it may have left out: the first calls to come must find everything
        _run(_fits(names), cache)
    told = "aucflow warmup" if warmup else f"fits of {len(names)} solvers on dense and CSR rows in one process"
    return Gauge("all kernels", "compiled from nothing", seconds, "s", LIMIT_ALL_S, note=f"{told}, imports included")


def _warmup() -> list[str] | None:
    """Return the command that compiles all kernels, if the command line has it."""
    from flows.cli import cli

    start = "import sys; from flows.cli import main; sys.exit(main())"
    return [sys.executable, "-c", start, "warmup"] if "warmup" in cli.commands else None


def _fits(names: tuple[str, ...]) -> list[str]:
    return [sys.executable, "-m", "benchmarks.first_fit", *names]


def _run(command: list[str], cache: Path | None) -> str:
    """Return what the command printed in a fresh process; its kernels are cached in the folder, if one is given."""
    own = {"NUMBA_CACHE_DIR": str(cache)} if cache else {}
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"} | own
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(command, env=environment, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command[1:])} exited with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def _first_call(name: str, cache: Path | None) -> Gauge:
    """Measure three processes; the least is what the cache costs, the rest is noise of a process's start."""
    _run(_fits((name,)), cache)  # compiles where the cache is not warm
    runs = [json.loads(_run(_fits((name,)), cache))[name] for _ in range(3)]
    dense, imports = min(run["dense_s"] for run in runs), min(run["import_s"] for run in runs)
    seldom = min(run["csr_s"] for run in runs)
    note = f"before it, importing the solver: {imports:.2f}; after it, first call on CSR rows: {seldom:.2f}"
    return Gauge(name, "first fit, warm cache", dense, "s", LIMIT_FIRST_S, note=note)


PART = Part(
    "first_call",
    "First calls and compile time",
    "first call from a warm on-disk kernel cache under 1 s for every solver; all kernels from nothing under 90 s",
    "Each solver of the catalogue is fitted on 60 × 5 rows in a fresh process: least of three. Compile time is part of "
    "no other number in this report.",
    cells,
)
