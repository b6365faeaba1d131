"""Before the flow: read and check all data outside Prefect, so that bad input is refused in a second or two.

No server has started by then and nothing is written. The tables stay in memory, where the flow finds them.
"""

import os
import signal
from importlib import import_module
from threading import Event, Thread

from prefect.client.orchestration import get_client

from tasks.cell import divide, plainly
from tasks.child import end_with_this_process
from tasks.configuration import DatasetConfig, ExperimentConfig
from tasks.convert import convert
from tasks.datasets import Conversion, check_counts, find
from tasks.download import download
from tasks.errors import BadInput, RunFailed
from tasks.lockfile import Lock
from tasks.progress import announce
from tasks.values import ConversionRule


def preflight(config: ExperimentConfig) -> None:
    """Raise BadInput if any data set cannot be used; of several, say which."""
    for entry in config.datasets:
        announce("check", entry.name)
        try:
            _check(entry, config)
        except BadInput as error:
            if len(config.datasets) == 1:
                raise
            raise BadInput(f"Data set '{entry.name}': {error}") from None


def _check(entry: DatasetConfig, config: ExperimentConfig) -> None:
    raw = download.fn(entry.name, entry.source, entry.format, config.offline)
    dataset = convert.fn(raw, conversion_rule(entry, config.offline))
    if entry.is_as_published:
        lock = Lock()
        lock.record_counts(entry.key, check_counts(entry.name, find(entry.key), dataset, lock.counts(entry.key)))
    divide(dataset, config, plainly)


def conversion_rule(entry: DatasetConfig, offline: bool = False) -> ConversionRule:
    """Return how labels become classes: as the config wants it, else as the catalogue says."""
    given = entry.conversion or (Conversion(positive=entry.positive) if entry.positive is not None else None)
    if entry.key is None:
        return (given or Conversion()).as_rule(entry.target, entry.delimiter, entry.drop)
    known = find(entry.key, offline)
    conversion = given or known.conversion
    return conversion.as_rule(entry.target or known.target, entry.delimiter, entry.drop or known.drop)


class PrefectStart:
    """Prefect's temporary server (or a greeting to the one that PREFECT_API_URL names), started beside the imports."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.imported = Event()
        self.thread = Thread(target=self._greet, name="start-prefect", daemon=True)
        self.thread.start()

    def _greet(self) -> None:
        # Ctrl-C, and the end of a terminal, go to all its processes. The server inherits this mask and lives on until
        # we have told it how the run ended; without it Prefect asks a dead server for over a minute.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
        try:
            of_its_own = not os.environ.get("PREFECT_API_URL")
            if of_its_own:
                server = import_module("prefect.server.api.server")  # get_client does too: see wait_for_imports
            self.imported.set()
            with get_client(sync_client=True) as client:
                client.hello().raise_for_status()
            if of_its_own and (process := server.SubprocessASGIServer().server_process):
                end_with_this_process(process.pid)
        except Exception as error:
            self.error = error
        finally:
            self.imported.set()

    def wait_for_imports(self) -> None:
        """Return once Prefect's server is imported: before that, no store of MLflow's may be opened.

        MLflow has SQLAlchemy set up all tables that are declared by then, and fails at those that are so by half.
        """
        while not self.imported.wait(0.1):  # in slices, for a signal to be heard in between
            pass

    def wait(self) -> None:
        """Return once the server answers; raise RunFailed if it does not."""
        while self.thread.is_alive():
            self.thread.join(0.1)  # in slices, for a signal to be heard in between
        if self.error is not None:
            url = os.environ.get("PREFECT_API_URL")
            where = f"at PREFECT_API_URL={url}" if url else "of its own"
            remedy = "Start it, or unset PREFECT_API_URL" if url else "Run again with -v for its log"
            raise RunFailed(f"Expected a Prefect server {where}, got: {type(self.error).__name__}. {remedy}.")
