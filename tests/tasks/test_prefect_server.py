"""Which Prefect server runs are told to, how long one of our own lives, and what is said of one that is not there.

One that lives as long as a block is that of `aucflow deploy` and `serve`: see tests/flows/test_deploy.py.
"""

import os
import subprocess
import sys

import pytest
from prefect.settings import PREFECT_API_URL, PREFECT_HOME, temporary_settings

from tasks import prefect_server
from tasks.errors import RunFailed
from tasks.prefect_server import PrefectServer, last_line, server_of_a_block, server_of_this_process

NOBODY = "http://127.0.0.1:9/api"
# the folder of its log, and its process, are gone when this one has ended; nothing of the server is imported here
RUNS = """
import os, sys
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings
from tasks.prefect_server import server_of_this_process

server = server_of_this_process()
server.wait()
assert server_of_this_process() is server
with temporary_settings({PREFECT_API_URL: server.url}), get_client(sync_client=True) as client:
    client.hello().raise_for_status()
assert "prefect.server.api.server" not in sys.modules
print(server.process.pid, server.log.parent)
"""


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@pytest.mark.parametrize("home", ["new/folders/home", "a file/home"])
def test_one_server_serves_all_runs_of_a_process_and_ends_with_it_even_of_an_account_without_a_home(tmp_path, home):
    """The server ended there, with a line of a warning as its last word; what cannot be made lives with the run."""
    (tmp_path / "a file").write_text("")
    env = os.environ | {"PREFECT_HOME": str(tmp_path / home)}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", RUNS], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / home / "prefect.db").exists() == home.startswith("new")
    pid, folder = done.stdout.split()
    assert is_gone(int(pid))
    assert not os.path.exists(folder)


def test_a_server_that_ended_between_two_runs_is_followed_by_another(monkeypatch):
    started = []

    def start(folder, env, linger_s):
        process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        started.append(process)
        return PrefectServer(NOBODY, process, folder / "log")

    monkeypatch.setattr(prefect_server, "_start", start)
    monkeypatch.setattr(prefect_server, "_of_this_process", [])
    first = server_of_this_process()
    assert server_of_this_process() is first
    first.process.kill()
    first.process.wait()
    assert server_of_this_process() is not first
    assert len(started) == 2


@pytest.mark.parametrize("find", [server_of_this_process, lambda: server_of_a_block().__enter__()])
def test_a_server_that_is_named_is_taken_and_has_to_answer(find):
    with temporary_settings({PREFECT_API_URL: NOBODY}):
        server = find()
        assert server == PrefectServer(NOBODY)
        assert server.is_up  # as far as we know
        with pytest.raises(RunFailed, match=f"PREFECT_API_URL={NOBODY}, got: ConnectError. Start it, or unset"):
            server.wait()


def test_a_server_of_our_own_that_ends_at_once_is_told_of_by_what_it_said_last(tmp_path):
    log = tmp_path / "log"
    with log.open("wb") as stream:
        process = subprocess.Popen([sys.executable, "-c", "raise OSError('disk full')"], stderr=stream)
        process.wait()
    with pytest.raises(RunFailed, match=r"of its own on loopback, got: OSError: disk full\."):
        PrefectServer(NOBODY, process, log).wait()


def test_the_last_line_is_the_last_that_says_something(tmp_path):
    log = tmp_path / "log"
    assert last_line(log) == ""
    log.write_bytes(b"Traceback\n  here\nValueError: \xff no\n\n  \n")
    assert last_line(log) == "ValueError: � no"


def test_schedules_need_a_home_that_stays(tmp_path):
    (tmp_path / "a file").write_text("")
    settings = {PREFECT_HOME: tmp_path / "a file" / "home"}
    with temporary_settings(settings), pytest.raises(RunFailed, match=r"can be written.*PREFECT_HOME"):
        prefect_server._home(tmp_path, is_kept=True)
