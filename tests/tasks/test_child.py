"""Child processes: they end when they are told to, and when their parent is no more, however it ended."""

import os
import signal
import subprocess
import sys
import time

import pytest

from tasks.child import OBJECTS, end_child, start_child
from tasks.recovery import is_gone

PATIENCE_S = 60
# what a child does: it says which process it is, and lives for an hour
WAITS = """\
import pathlib, sys, time
from tasks.recovery import this_process
pathlib.Path(sys.argv[1]).write_text(this_process())
time.sleep(3600)
"""
PARENT = """\
import os, pathlib, sys, time
from tasks.child import start_child
start_child("waits", sys.argv[1], env=os.environ, log=pathlib.Path(sys.argv[1] + ".log"), linger_s=float(sys.argv[2]))
time.sleep(3600)
"""


@pytest.fixture
def env(tmp_path):
    """Return an environment in which a module named waits can be run."""
    (tmp_path / "waits.py").write_text(WAITS)
    return os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}


def until(condition):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def test_a_child_ends_when_it_is_told_to(tmp_path, env):
    child = start_child("waits", str(tmp_path / "told"), env=env, log=tmp_path / "log")
    until(lambda: (tmp_path / "told").is_file())
    end_child(child, PATIENCE_S)
    assert child.returncode == -signal.SIGTERM


def test_a_child_seldom_looks_for_garbage(tmp_path, env):
    """Its imports, of a thousand modules, make none."""
    (tmp_path / "looks.py").write_text("import gc\nprint(gc.isenabled(), gc.get_threshold()[0])")
    child = start_child("looks", env=env, log=tmp_path / "log")
    assert child.wait(PATIENCE_S) == 0
    end_child(child, PATIENCE_S)
    assert (tmp_path / "log").read_text() == f"True {OBJECTS}\n"


def test_a_child_that_does_not_hear_is_killed(tmp_path, env):
    (tmp_path / "deaf.py").write_text(f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n{WAITS}")
    child = start_child("deaf", str(tmp_path / "told"), env=env, log=tmp_path / "log")
    until(lambda: (tmp_path / "told").is_file())
    end_child(child, 0.5)
    assert child.returncode == -signal.SIGKILL


@pytest.mark.parametrize("linger", [0.0, 1.5])
def test_a_child_does_not_outlive_a_parent_that_is_killed(tmp_path, env, linger):
    told = tmp_path / "told"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(told), str(linger)], env=env)
    until(lambda: told.is_file() and told.read_text())
    parent.kill()
    parent.wait()
    killed, child = time.monotonic(), told.read_text()
    assert not is_gone(child) or not linger
    until(lambda: is_gone(child))
    assert time.monotonic() - killed >= linger * 0.9


def test_what_it_says_is_kept_and_a_folder_of_the_users_is_not_mistaken_for_ours(tmp_path, env, monkeypatch):
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks" / "__init__.py").write_text("raise SystemExit('not ours')")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "says.py").write_text("import sys; print(sys.argv[1:]); sys.exit(3)")
    monkeypatch.chdir(tmp_path)
    paths = os.pathsep.join([str(tmp_path / "elsewhere"), *filter(None, sys.path)])
    child = start_child("says", "a b", env=env | {"PYTHONPATH": paths}, log=tmp_path / "log")
    assert child.wait(PATIENCE_S) == 3
    assert (tmp_path / "log").read_text().strip() == "['a b']"
