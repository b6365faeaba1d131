"""The Prefect server that runs are told to: the one that PREFECT_API_URL names, else one of our own on loopback.

One of our own has Prefect's database in PREFECT_HOME and ends with this process, even if this one is killed. Prefect
could start one too, but only by importing all of its server into this process first: some 1,000 modules.
"""

import atexit
import os
import socket
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

from prefect.client.orchestration import SyncPrefectClient
from prefect.settings import PREFECT_API_URL, get_current_settings

from tasks.child import end_child, start_child
from tasks.errors import RunFailed

START_S = 120  # 5 on an idle machine, 15 if its database is yet to be made
STOP_S = 5
OUTLIVES_S = 10  # a killed command's runs may still tell the server how they ended
# no pages, no services that look for what is due, as in the server that Prefect would start, and no types of blocks,
# which runs do not use and a new database takes seconds to fill with
FOR_RUNS = {
    "PREFECT_UI_ENABLED": "0",
    "PREFECT__SERVER_EPHEMERAL": "1",
    "PREFECT_SERVER_REGISTER_BLOCKS_ON_START": "0",
}


@dataclass(frozen=True)
class PrefectServer:
    """A Prefect server that may yet be starting; one of our own is a process that may end."""

    url: str
    process: Popen[bytes] | None = None
    log: Path = Path(os.devnull)  # what one of our own says

    @property
    def is_up(self) -> bool:
        """Tell whether the server can still answer, as far as that is ours to know."""
        return self.process is None or self.process.poll() is None

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of a process that runs flows on this server, and logs them there."""
        return os.environ | {"PREFECT_API_URL": self.url, "PREFECT_LOGGING_LEVEL": "INFO"}

    def wait(self) -> None:
        """Return once the server answers; raise RunFailed if it does not."""
        if self.process is None:
            with SyncPrefectClient(self.url) as client:
                error = client.api_healthcheck()
            if error:
                cause = type(error).__name__
                remedy = "Start it, or unset PREFECT_API_URL"
                raise RunFailed(f"Expected a Prefect server at PREFECT_API_URL={self.url}, got: {cause}. {remedy}.")
            return
        deadline = time.monotonic() + START_S
        while self.is_up and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"{self.url}/health", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise RunFailed(f"Expected a Prefect server of its own on loopback, got: {last_line(self.log) or 'no answer'}.")

    def end(self) -> None:
        """End the server if it is one of our own."""
        if self.process is not None:
            end_child(self.process, STOP_S)


@contextmanager
def server_of_a_block() -> Iterator[PrefectServer]:
    """Return the server that PREFECT_API_URL names, else one with all its services that lives as long as the block."""
    if url := PREFECT_API_URL.value():
        yield PrefectServer(url)
        return
    with tempfile.TemporaryDirectory(prefix="aucflow-") as folder:
        server = _start(Path(folder), {}, OUTLIVES_S)
        try:
            yield server
        finally:
            server.end()


_of_this_process: list[PrefectServer] = []


def server_of_this_process() -> PrefectServer:
    """Return the server that PREFECT_API_URL names, else one that lives as long as this process, for all its runs."""
    if url := PREFECT_API_URL.value():
        return PrefectServer(url)
    if not _of_this_process or not _of_this_process[-1].is_up:
        folder = tempfile.TemporaryDirectory(prefix="aucflow-")
        server = _start(Path(folder.name), FOR_RUNS, 0)
        atexit.register(folder.cleanup)
        atexit.register(server.end)
        _of_this_process.append(server)
    return _of_this_process[-1]


def _start(folder: Path, env: dict[str, str], linger_s: float) -> PrefectServer:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    arguments = ("--factory", "prefect.server.api.server:create_app", "--host", "127.0.0.1", "--port", port)
    known = get_current_settings().to_environment_variables(exclude_unset=True)
    known |= {"PREFECT_HOME": str(_home(folder, is_kept=linger_s > 0))}
    env = os.environ | known | env | {"PREFECT_SERVER_API_HOST": "127.0.0.1", "PREFECT_SERVER_API_PORT": port}
    log = folder / "server.log"
    process = start_child("uvicorn", *arguments, "--log-level", "error", env=env, log=log, linger_s=linger_s)
    return PrefectServer(f"http://127.0.0.1:{port}/api", process, log)


def _home(folder: Path, is_kept: bool) -> Path:
    """Return Prefect's home, made if need be; for runs alone, ``folder`` where it cannot be: accounts without a home.

    Prefect makes the last folder of its path only, and its server ends where there is none.
    """
    home = get_current_settings().home
    with suppress(OSError):
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
    if os.access(home, os.W_OK | os.X_OK):
        return home
    if is_kept:  # schedules are to be found again
        raise RunFailed(f"Expected a home for Prefect that can be written, got {home}. Name another in PREFECT_HOME.")
    return folder


def last_line(log: Path) -> str:
    """Return the last line of what a process said, which is where an error's name is."""
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.is_file() else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
