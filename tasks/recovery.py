"""Recovery: what a killed process left behind, brought to an end by the next command, and said.

A run is open in the store as long as its process lives. One whose process is gone ends as the ledger says, where the
ledger knows of its end, and as KILLED elsewhere: first in the ledger, then in the store.
"""

import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.utils.time import get_current_time_millis

from tasks.files import locked
from tasks.ledger import Ledger, LedgerEntry
from tasks.runs import PARENT, all_experiments, all_pages
from tasks.store import told_elsewhere

PROCESS = "aucflow.process"  # the tag of a run: host, number and start of the process that writes it
LOCK_S = 60.0
PROCESSES = Path("/proc")
PLAIN = {"LC_ALL": "C", "TZ": "UTC"}  # a moment is to have one name, whoever asks
BUSY = f"Another process has been ending interrupted runs for {LOCK_S:g} s. Wait for it or stop it."
INTERRUPTED = "its process ended without saying how"


def this_process() -> str:
    """Return host, number and start of this process; the start tells it from a later one with its number."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start_of(os.getpid())}"


def in_words(process: str) -> str:
    """Return a process as a message names it; another one where nothing is known of it."""
    host, number, _ = (*process.rsplit(":", 2), "", "")[:3]
    return f"process {number} on {host}" if number else "another process"


def is_gone(process: str) -> bool:
    """Tell whether a process of this host has ended; those of other hosts are left alone."""
    host, number, start = (*process.rsplit(":", 2), "", "")[:3]
    if host != socket.gethostname() or not re.fullmatch(r"[0-9]{1,9}", number):
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:  # it lives and is somebody else's
        return False
    now = _start_of(int(number))
    return now != start and bool(now and start)  # where the system did not tell, nobody knows


def is_alive(process: str) -> bool:
    """Tell whether a process is one of this host and has not ended; of those of other hosts, nobody here knows."""
    return process.rsplit(":", 2)[0] == socket.gethostname() and not is_gone(process)


def _start_of(number: int) -> str:
    """Return when a process began, in ticks since boot; nothing where the system does not tell."""
    table = PROCESSES / str(number) / "stat"
    try:
        return table.read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return "" if PROCESSES.is_dir() else _start_by_ps(number)


def _start_by_ps(number: int) -> str:
    """Return the same where there is no /proc, of macOS say, in words: blanks and colons divide parts elsewhere."""
    try:
        found = subprocess.run(
            ["ps", "-o", "lstart=", "-p", str(number)],
            capture_output=True,
            text=True,
            timeout=10,
            env=os.environ | PLAIN,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return re.sub(r"[^0-9A-Za-z]+", "-", found.stdout.strip())


def end_interrupted_runs(client: MlflowClient, ledger: Ledger) -> tuple[str, ...]:
    """End the open runs of processes that are gone; return a sentence for each."""
    if not _interrupted_runs(client, ledger):
        return ()
    ledger.folder.mkdir(parents=True, exist_ok=True)
    # of two commands that begin at once, one ends them
    with locked(ledger.folder / "recovery.lock", LOCK_S, lambda: BUSY):
        return tuple(_end(client, ledger, run) for run in _interrupted_runs(client, ledger))


def _interrupted_runs(client: MlflowClient, ledger: Ledger) -> list[Run]:
    ours = [run for run in _open_runs(client) if told_elsewhere(run.data.tags) is None]
    ended = ledger.last_of_runs() if ours else {}
    return [run for run in ours if is_gone(run.data.tags.get(PROCESS, "")) or _is_cut_off(ended.get(run.info.run_id))]


def _is_cut_off(entry: LedgerEntry | None) -> bool:
    """Tell whether the ledger alone knows of a run's end, for the store was away: its process may go on with others."""
    data = {} if entry is None else entry.data
    return data.get("manifest_sha256", "") is None and {"status", "end_time"} <= data.keys()


def _end(client: MlflowClient, ledger: Ledger, run: Run) -> str:
    """End a run as the ledger says or, where it does not know of the end, as KILLED: in the ledger first."""
    ended = ledger.last_of_runs().get(run.info.run_id)
    if ended is not None:
        status, end_time = ended.data["status"], ended.data["end_time"]
    else:
        status, end_time = "KILLED", get_current_time_millis()
        ledger.append("run", run.info.run_id, INTERRUPTED, _facts(run, status, end_time))
    client.set_terminated(run.info.run_id, status, end_time)
    return f"run {run.info.run_name} ({run.info.run_id[:8]}) was interrupted: it is marked {status}"


def _facts(run: Run, status: str, end_time: int) -> dict[str, object]:
    return {
        "experiment_id": run.info.experiment_id,
        "name": run.info.run_name,
        "status": status,
        "end_time": end_time,
        "manifest_sha256": None,
        "parent": run.data.tags.get(PARENT),
    }


def _open_runs(client: MlflowClient) -> Iterator[Run]:
    """Yield the runs of ours that the store has as running, children before their parents."""
    experiments = [experiment.experiment_id for experiment in all_experiments(client)]
    if not experiments:
        return
    found = all_pages(client.search_runs, experiments, "attributes.status = 'RUNNING'")
    yield from sorted(found, key=lambda run: PARENT not in run.data.tags)
