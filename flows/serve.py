"""`aucflow serve`: starts in the foreground what was deployed from this folder, on its schedule or when data change.

Each run is a process of its own, which ends with this one. Nothing stays "running" for good: if a run is killed, this
process tells Prefect of its end; if this process is, the next command does.
"""

import os
import re
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from subprocess import Popen
from uuid import UUID

from httpx import HTTPStatusError, TransportError
from mlflow.exceptions import MlflowException
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.responses import FlowRunResponse
from prefect.exceptions import ObjectNotFound
from rich.console import Console

from flows.signals import Signals, stoppable
from flows.start import recover
from tasks import scheduler, store
from tasks.child import end_child, start_child
from tasks.configuration import FROM_AFAR
from tasks.errors import BadInput, RunFailed
from tasks.files import locked
from tasks.flow_runs import crash, end_interrupted_flow_runs
from tasks.prefect_server import PrefectServer, last_line
from tasks.retraining import load_retrain_config
from tasks.scheduler import Deployed
from tasks.watch import FileWatch

POLL_S = 1
END_S = 8  # for a run to end of itself once it is told to


def serve_command(limit: int, look_every: float) -> None:
    """Run what is due until a signal ends it."""
    console = Console(soft_wrap=True, highlight=False, markup=False)
    store.check_store()
    with (
        stoppable() as signals,
        only_one(),
        scheduler.open_scheduler() as (server, client),
        tempfile.TemporaryDirectory() as logs,
    ):
        store.open_store()  # whose tables two runs at a time must not make
        recover()
        for sentence in end_interrupted_flow_runs(client):
            console.print(f"aucflow: {sentence}")
        serving = Serving(server, client, console, signals, Path(logs), limit, look_every)
        console.print(f"serving {Path.cwd()} on {server.url.removesuffix('/api')} (Ctrl-C ends it)")
        try:
            while True:
                serving.step()
                signals.raise_again()
                time.sleep(POLL_S)
        except BaseException as error:
            error.add_note(serving.end())
            raise


@contextmanager
def only_one() -> Iterator[None]:
    """Refuse to serve a folder that is served already: its runs would start twice as many at a time."""
    store.FOLDER.mkdir(exist_ok=True)
    second = f"Expected {Path.cwd()} to be served once, got a second `aucflow serve`. End one."
    with locked(store.FOLDER / "serve.lock", 0.0, lambda: second):
        yield


def _is_our_folder(path: Path) -> bool:
    """Tell whether a folder is there which nobody else has put there."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


@dataclass(frozen=True)
class Running:
    """A run that was started here."""

    deployment: str
    deployment_id: UUID | None
    process: Popen[bytes]
    log: Path

    def how_it_ended(self) -> str:
        """Say in words what the system tells of the end of its process."""
        code = self.process.returncode
        if code < 0:
            return f"signal {-code} ended its process"
        return f"its process ended with code {code}: {last_line(self.log) or 'it said nothing'}"


@dataclass
class Serving:
    """What runs and what is watched; one step looks after all of it."""

    server: PrefectServer
    client: SyncPrefectClient
    console: Console
    signals: Signals
    logs: Path
    limit: int
    look_every: float
    deployed: tuple[Deployed, ...] = ()
    running: dict[UUID, Running] = field(default_factory=dict)
    watches: dict[UUID, FileWatch] = field(default_factory=dict)
    looked: float = float("-inf")
    told: dict[str, str] = field(default_factory=dict)

    def step(self) -> None:
        """Tell of runs that have ended, look at the data files if it is time, start what is due."""
        if not self.server.is_up:
            raise RunFailed("Expected the Prefect server of `aucflow serve` to run, got its end. Serve again.")
        try:
            for run_id in [run_id for run_id, run in self.running.items() if run.process.poll() is not None]:
                self._settle(run_id)
            self._follow(scheduler.deployments(self.client))
            if time.monotonic() - self.looked >= self.look_every:
                self.looked = time.monotonic()
                for deployment in self.deployed:
                    self._look(deployment)
            self._start_due()
            self._complain("the Prefect server", "")
        except (TransportError, HTTPStatusError) as error:
            if isinstance(error, HTTPStatusError) and error.response.is_client_error:
                raise
            self._complain("the Prefect server", f"does not answer ({type(error).__name__}); trying again")

    def end(self) -> str:
        """End all runs; say how many there were."""
        names = [run.deployment for run in self.running.values()]
        for run in self.running.values():
            run.process.terminate()
        deadline = time.monotonic() + END_S
        for run_id, run in list(self.running.items()):
            end_child(run.process, max(0.1, deadline - time.monotonic()))
            try:
                self._settle(run_id, "`aucflow serve` was ended")
            except (TransportError, HTTPStatusError):  # the next command finds it
                self._say(run.deployment, "ended; the Prefect server did not hear of it")
        return f"ended the run of {', '.join(names)}" if names else "nothing was running"

    def _say(self, name: str, text: str) -> None:
        self.console.print(f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} {name}: {' '.join(text.split())}")

    def _complain(self, name: str, text: str) -> None:
        """Say what stands in the way, once, and nothing if nothing does."""
        if text and self.told.get(name) != text:
            self._say(name, text)
        self.told[name] = text

    # Runs ---------------------------------------------------------------------------------------------------------

    def _start_due(self) -> None:
        for run in scheduler.due_runs(self.client, self.deployed):
            busy = run.deployment_id in {other.deployment_id for other in self.running.values()}
            if len(self.running) < self.limit and not busy:
                with self.signals.held():  # a run that is taken and not among those that run would stay open
                    self._start(run)

    def _start(self, run: FlowRunResponse) -> None:
        if not self._take(run):
            return
        name = next(d.name for d in self.deployed if d.id == run.deployment_id)
        if not _is_our_folder(self.logs):  # between two runs of a month's schedule, systems clean /tmp
            self.logs = Path(tempfile.mkdtemp(prefix="aucflow-"))
        log = self.logs / f"{run.id}.log"
        try:
            process = start_child("prefect.engine", str(run.id), env=self.server.environment, log=log)
        except OSError as error:  # a full disk, too many processes: the next run may be better off
            reason = f"its process could not be started: {error}"
            log.unlink(missing_ok=True)
            with suppress(ObjectNotFound):  # deleted meanwhile
                crash(self.client, self.client.read_flow_run(run.id), reason)
            self._say(name, f"crashed: {reason}")
            return
        self.running[run.id] = Running(name, run.deployment_id, process, log)
        self._say(name, f"started, {scheduler.cause(run)} ({run.name})")

    def _take(self, run: FlowRunResponse) -> bool:
        """Take a run that is due; tell whether it was still there, and nobody else's."""
        try:
            return scheduler.take(self.client, run)
        except ObjectNotFound:
            return False

    def _settle(self, run_id: UUID, reason: str = "") -> None:
        """Tell how a run ended whose process has, and bring to an end what that left open."""
        run, is_ours = self.running[run_id], bool(reason)
        reason = reason or run.how_it_ended()
        try:
            found = self.client.read_flow_run(run_id)
            state = found.state
            if state is None or not state.is_final():
                state = crash(self.client, found, reason)
            said = re.sub(r"^Flow run encountered an exception: \w+: ", "", state.message or "no reason was given")
            message = reason if is_ours and state.is_crashed() else said  # by the signal that it was ended with
            told = f"{(state.name or state.type).lower()}: {message}"
        except ObjectNotFound:
            told = f"deleted from Prefect while it ran; {reason}"
        del self.running[run_id]
        try:
            recover()
        except (RunFailed, MlflowException, OSError) as error:  # of the store; other runs go on, the next command tries
            told = f"{told}; left open in the store: {error}"
        run.log.unlink(missing_ok=True)
        self._say(run.deployment, told)

    # Data files ---------------------------------------------------------------------------------------------------

    def _follow(self, deployed: tuple[Deployed, ...]) -> None:
        """Take note of what is deployed by now, and say what is new or gone."""
        self._complain("aucflow", "" if deployed else "nothing is deployed from this folder yet; waiting for it")
        for gone in {old.name for old in self.deployed} - {new.name for new in deployed}:
            self._say(gone, "no longer deployed, or paused")
        for deployment in deployed:
            if deployment not in self.deployed:
                when = [f"{deployment.cron} ({deployment.timezone})"] if deployment.cron else []
                self._say(deployment.name, " and ".join(when + ["on change of its data"] * deployment.on_change))
        self.deployed = deployed

    def _look(self, deployment: Deployed) -> None:
        """Start a run if the data file has changed since the last run that was started for a change."""
        if not deployment.on_change:
            return
        try:
            source = load_retrain_config(deployment.config).data.source
        except (BadInput, OSError) as error:  # of this deployment; the others are served on
            self._complain(deployment.name, str(error))
            return
        if source.startswith(FROM_AFAR):
            self._complain(deployment.name, f"Expected a file of this machine, got {source}: nothing to look at.")
            return
        watch = self.watches.get(deployment.id)
        if watch is None or watch.path != Path(source):
            watch = FileWatch(Path(source), scheduler.started_for(self.client, deployment))
            self.watches[deployment.id] = watch
        sha256 = watch.look()
        words = f"Expected a readable data file at {source}, got: {watch.fault}. Check path and permissions."
        self._complain(deployment.name, words if watch.fault else "")
        if sha256:
            with suppress(ObjectNotFound):  # deleted since it was listed: the next step says so
                scheduler.start_for(self.client, deployment, sha256)
