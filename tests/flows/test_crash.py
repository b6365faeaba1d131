"""SIGKILL, which no `except` sees, at any moment of a retraining: the store never claims what the ledger does not, and
the next command says what was interrupted and brings it to an end."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from mlflow import MlflowClient
from retrained import MODEL, claims, open_runs, unfounded, write

from flows import lifecycle, start
from tasks import registry, store
from tasks.verify import verify

pytestmark = pytest.mark.slow

# Imports once, then does each task that it is told on stdin in a child of its own, which dies before or after the
# given call of a function, at the given line of our code, or after the given time.
DRIVER = """
import gc, importlib, json, os, signal, sys, tempfile, time
from contextlib import chdir
from flows import start, retrain as flow
from tasks import ledger, manifest, recovery, registry, retraining, track
import ready_made, retrained

ready_made.read_mlflows_migrations_once()
with tempfile.TemporaryDirectory() as scratch, chdir(scratch):  # what only a process's first retraining has to do
    retrained.write(retrained.claims(120))
    retrained.retrain(retrained.config())
os.environ.pop("MLFLOW_TRACKING_URI", None)  # MLflow's last word, which would be every child's store

gc.freeze()  # no child looks for garbage among a million objects of imported modules
gc.set_threshold(50_000)

OURS = {module.__file__ for module in (flow, ledger, recovery, registry, retraining, track)}
left = None

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def count(frame, event, _):
    global left
    if event == "line":
        left -= 1
        if left == 0:
            die()
    return count if frame.f_code.co_filename in OURS else None

def deadly(owner, name, nth, after):
    real, calls = getattr(owner, name), 0
    def call(*given, **named):
        nonlocal calls
        calls += 1
        if calls == nth and not after:
            die()
        result = real(*given, **named)
        if calls == nth:
            die()
        return result
    setattr(owner, name, call)

def act(action, options, call, line):
    global left
    if call:
        path, name, nth, after = call
        module, _, owner = path.partition(":")
        found = importlib.import_module(module)
        deadly(getattr(found, owner) if owner else found, name, nth, after)
    if line:
        left = line
        sys.settrace(count)
    if action == "recover":
        start.recover()
    else:
        retrained.retrain(retrained.config(), **options)
    sys.settrace(None)

print("up", flush=True)
for task in map(json.loads, sys.stdin):
    os.chdir(task.pop("folder"))
    delay = task.pop("delay")
    child = os.fork()
    if child == 0:
        try:
            act(**task)
        except BaseException as error:
            print(f"error {error!r}", file=sys.stderr, flush=True)
        os._exit(0)
    if delay is not None:
        time.sleep(delay)
        os.kill(child, signal.SIGKILL)
    print("killed" if os.WIFSIGNALED(os.waitpid(child, 0)[1]) else "ended", flush=True)
"""


class Driver:
    """A process that retrains in a folder, and may be killed at it."""

    def __init__(self, folder: Path):
        self.folder = folder
        here = Path(__file__).parent
        paths = [str(here), str(here.parent), str(here.parents[1]), os.environ.get("PYTHONPATH", "")]
        env = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}  # as users have it
        env |= {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        self.log = (folder / "driver.log").open("w+")
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self.log, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", DRIVER], env=env, **pipes)
        assert self.process.stdout.readline() == "up\n", self.told()

    def told(self):
        return Path(self.log.name).read_text()

    def act(self, action="retrain", call=None, line=None, delay=None, folder=None, **options):
        """Do something in a child of its own; return whether it was killed."""
        task = {"folder": str(folder or self.folder), "action": action, "options": options}
        self.process.stdin.write(json.dumps(task | {"call": call, "line": line, "delay": delay}) + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        assert answer in ("killed", "ended"), self.told()
        return answer == "killed"

    def close(self):
        self.process.stdin.close()
        self.process.wait(timeout=60)
        self.process.stdout.close()
        self.log.close()


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    """A driver in a folder where a first champion serves; the folder is the current one."""
    folder, before = tmp_path_factory.mktemp("crash"), Path.cwd()
    os.chdir(folder)
    write(claims(120))
    driver = Driver(folder)
    try:
        assert not driver.act()
        assert "error" not in driver.told()
        yield driver
    finally:
        driver.close()
        os.chdir(before)


def here():
    return MlflowClient(store.tracking_uri())


def state(client):
    return {version.number: version.aliases for version in registry.versions(client, MODEL)}


def settle(before, capsys):
    """Check what a killed process left, let the next command mend it, and check that; return what it said."""
    client, ledger = here(), store.ledger()
    assert ledger.verify() == (), "readable and whole as it is"
    assert unfounded(client, ledger) == []
    assert [one for one in verify(client, ledger).findings if one.part != "registry"] == [], "a crash is no tampering"
    left = len(open_runs(client)) + (registry.pending(ledger) is not None)
    served = registry.champion(client, MODEL)
    assert served is not None and served.number in {entry.data["aliases"]["champion"][1] for entry in promotions()}
    capsys.readouterr()
    start.recover()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == left, "one sentence for each"
    assert all(line.startswith("aucflow: ") and "was interrupted" in line for line in said)
    assert_sound(client, ledger)
    after = state(client)
    assert after == before or (len(after) == len(before) + 1 and "champion" in after[max(after)])
    start.recover()
    assert capsys.readouterr().err == "", "once is enough"
    return said


def promotions():
    return [entry for entry in store.ledger().entries() if "champion" in entry.data.get("aliases", {})]


def assert_sound(client, ledger):
    assert ledger.verify() == () and unfounded(client, ledger) == [] and open_runs(client) == []
    assert registry.pending(ledger) is None and registry.compare(client, ledger, MODEL) == ()


FLOW, CELL, TRACK = "flows.retrain", "flows.experiment", "tasks.track"
CLIENT, LEDGER = "mlflow:MlflowClient", "tasks.ledger:Ledger"
STEPS = [
    (CLIENT, "create_run", 1, True),
    (CELL, "compute", 1, False),
    (CELL, "track", 1, False),
    (TRACK, "log_ranker", 1, True),
    (CLIENT, "log_batch", 4, True),
    (CLIENT, "log_text", 4, True),  # the cell's manifest is there, the ledger's entry is not
    (LEDGER, "append", 1, True),  # the cell has ended in the ledger, and not in the store
    (CLIENT, "set_terminated", 1, True),
    (FLOW, "meet_champion", 1, True),
    (FLOW, "report_retraining", 1, True),
    (CLIENT, "create_model_version", 1, False),
    (CLIENT, "create_model_version", 1, True),
    (LEDGER, "append", 2, True),  # registered in the ledger, and no alias has moved
    (LEDGER, "append", 3, True),  # promoted in the ledger, and not in the store
    (CLIENT, "set_registered_model_alias", 3, True),
    (FLOW, "register", 1, True),
    (LEDGER, "append", 4, False),
    (LEDGER, "append", 4, True),
]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step[1]} {step[2]} {'after' if step[3] else 'before'}")
def test_killed_at_each_step(driver, step, capsys):
    before = state(here())
    assert driver.act(call=step, force=True), driver.told()
    assert settle(before, capsys)


def test_killed_while_the_database_is_made(driver, tmp_path, monkeypatch):
    """MLflow opens no database whose tables are half made, not even to finish them."""
    monkeypatch.chdir(tmp_path)
    write(claims(120))
    assert driver.act(call=("sqlalchemy:MetaData", "create_all", 1, True), folder=tmp_path)
    assert not driver.act(folder=tmp_path)
    assert state(here()) == {1: ("champion",)}, driver.told()


def test_killed_at_random_moments(driver, capsys):
    rng, killed = random.Random(1), 0
    for _ in range(4):
        before = state(here())
        killed += driver.act(delay=rng.uniform(0.1, 3), force=True)
        settle(before, capsys)
    assert killed


def test_killed_at_random_lines(driver, capsys):
    rng, killed = random.Random(2), 0
    for _ in range(4):
        before = state(here())
        killed += driver.act(line=rng.randrange(50, 2500), force=True)
        settle(before, capsys)
    assert killed


def test_killed_while_it_recovers_too(driver, capsys):
    rng, killed = random.Random(3), 0
    for call in ((LEDGER, "append", 2, True), (CLIENT, "set_terminated", 1, False)):
        before = state(here())
        assert driver.act(call=call, force=True)
        for _ in range(3):
            killed += driver.act("recover", line=rng.randrange(5, 150))
        settle(before, capsys)
    assert killed


def test_the_next_command_of_any_kind_says_what_was_interrupted(driver, capsys):
    assert driver.act(call=(LEDGER, "append", 3, True), force=True)
    before = state(here())
    capsys.readouterr()
    lifecycle.rollback_command(MODEL, "the test asks for it")
    out, err = capsys.readouterr()
    assert "run claims" in err and "it is marked KILLED" in err
    assert "was interrupted (process" in err and "it was finished" in err
    assert f"champion {MODEL}/" in out
    assert len(state(here())) == len(before)
    assert_sound(here(), store.ledger())


def test_it_trains_on_after_all_that(driver, capsys):
    before = state(here())
    assert not driver.act(force=True), driver.told()
    assert len(state(here())) == len(before) + 1
    assert settle(state(here()), capsys) == []
