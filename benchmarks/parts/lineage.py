"""What lineage costs: recording a run, appending an entry to the ledger, and verifying ten thousand of them."""

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from mlflow import MlflowClient
from prefect import Task

from benchmarks.contest import Gauge, timed
from benchmarks.data import mirror
from benchmarks.part import Bench, Cell, Part
from flows import experiment
from tasks import track
from tasks.configuration import parse_config
from tasks.facts import lock_sha256, package_sha256
from tasks.ledger import SCHEMA, START, Ledger, canonical

ENTRIES = 10_000
VERIFY_S = 5.0
SHARE, LEAST_MS = 0.03, 50.0  # of a run's time, or this where that is more
APPENDS = 20
RUNS = 2  # of an experiment with one cell
RECORDING = ((experiment, "close_run"), (track, "close_run"), (track, "fold_sections"), (track, "cell_sections"))


def cells(bench: Bench) -> Iterator[Cell]:
    yield Cell("verify the ledger", f"{ENTRIES:,} entries", _verify)
    yield Cell("append an entry", "on the disk", _append)
    yield Cell("record a run", "breast cancer", partial(_record, "sklearn:breast_cancer", "ls_svm"))
    if not bench.quick:
        for file in ("libsvm/a9a", "libsvm/ijcnn1.t"):
            path = mirror() / file
            if path.is_file():
                yield Cell("record a run", path.name, partial(_record, str(path), "svm_or"))
            else:
                bench.shelf.skipped[file] = "no such file in the mirror"


def _verify() -> Gauge:
    """Measure three times: the chain, its head, and every entry read."""
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder))
        _write_chain(ledger)
        seconds = [timed(partial(_read_all, ledger))[0] for _ in range(3)]
        size = ledger.path.stat().st_size / 1e6
    return Gauge("verify the ledger", f"{ENTRIES:,} entries, {size:.1f} MB", min(seconds), "s", VERIFY_S)


def _read_all(ledger: Ledger) -> None:
    faults, entries = ledger.verify(), ledger.entries()
    if faults or len(entries) != ENTRIES:
        raise RuntimeError(f"Expected {ENTRIES} sound entries, got {len(entries)} and {faults[:1]}: void.")


def _write_chain(ledger: Ledger) -> None:
    """Write the entries of as many runs, as `Ledger.append` does but for the waits for the disk."""
    data = {"end_time": 1, "experiment": "bench", "manifest_sha256": START, "parent": START[:32], "status": "FINISHED"}
    previous, lines = START, []
    for seq in range(1, ENTRIES + 1):
        entry = {
            "schema": SCHEMA,
            "seq": seq,
            "time": "2026-01-01T00:00:00.000+00:00",
            "kind": "run",
            "reason": "finished",
        }
        line = canonical(
            entry | {"subject": f"{seq:032x}", "data": data | {"name": f"run {seq}"}, "previous": previous}
        )
        previous = hashlib.sha256(line).hexdigest()
        lines.append(line + b"\n")
    ledger.path.write_bytes(b"".join(lines))
    ledger.head_path.write_bytes(canonical({"count": ENTRIES, "digest": previous, "pending": None}) + b"\n")


def _append() -> Gauge:
    with tempfile.TemporaryDirectory() as folder:
        ledger = Ledger(Path(folder))
        seconds = [timed(partial(ledger.append, "run", "0" * 32, "finished"))[0] for _ in range(APPENDS)]
    return Gauge(
        "append an entry", "flushed to the disk, head included", 1e3 * sorted(seconds)[APPENDS // 2], "ms", None
    )


class _Timer:
    """Adds up the time that is spent in some functions."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed_function(*given: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return function(*given, **named)
            finally:
                self.seconds += time.perf_counter() - started

        return timed_function


def _record(source: str, solver: str) -> Gauge:
    """Measure the second of two experiments: what manifests and ledger take, of the time of its runs."""
    tree = {
        "name": "bench",
        "datasets": [{"name": "data", "source": source}],
        "methods": [{"solver": solver}],
        "validation": {"folds": 3},
    }
    with _in_a_folder(), patch.object(Task, "__call__", lambda task, *given, **named: task.fn(*given, **named)):
        run = partial(experiment.run_experiment.fn, parse_config(tree, "benchmark"))
        run()  # makes the store, loads the kernels
        for once in (package_sha256, lock_sha256):  # what each process computes anew
            once.cache_clear()
        recording, ending = _Timer(), _Timer()
        with ExitStack() as stack:
            for module, name in RECORDING:
                stack.enter_context(patch.object(module, name, recording.around(getattr(module, name))))
            end = MlflowClient.set_terminated  # the store's own part of closing a run
            stack.enter_context(patch.object(MlflowClient, "set_terminated", ending.around(end)))
            whole_s, _ = timed(run)
    recorded_s = recording.seconds - ending.seconds
    limit = max(RUNS * LEAST_MS, 1e3 * SHARE * whole_s)
    note = f"{recorded_s / whole_s:.1%} of {whole_s:.1f} s, for {RUNS} runs: the experiment's and its cell's"
    return Gauge("record a run", f"{Path(source).name}, {solver}, 3 folds", 1e3 * recorded_s, "ms", limit, note=note)


@contextmanager
def _in_a_folder() -> Iterator[None]:
    """Work in a folder that is gone afterwards, and with it the store there."""
    before, named = Path.cwd(), os.environ.pop("MLFLOW_TRACKING_URI", None)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)
            os.environ.pop("MLFLOW_TRACKING_URI", None)  # MLflow leaves its own there
            if named is not None:
                os.environ["MLFLOW_TRACKING_URI"] = named


PART = Part(
    "lineage",
    "Recording and verifying",
    "recording a run under 3 % of its time, or 50 ms where that is more; verifying 10,000 ledger entries under 5 s",
    "Recording is all that manifests and ledger add: digests of data, splits, samples, models and files, the manifest, "
    "the ledger's entry flushed to the disk, and the digests of code and packages that each process takes once.",
    cells,
)
