"""Scheduled retraining: refusals at once; on a real server, runs that fire or are killed, and leave nothing open."""

import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest
from installed import AUCFLOW, children, claims, environment, run, run_here
from prefect.flows import load_flow_from_entrypoint
from prefect.settings import PREFECT_API_URL, temporary_settings
from ready_made import put_empty_store

from flows.cli import main
from tasks.recovery import PROCESS, is_gone
from tasks.retraining import load_retrain_config
from tasks.scheduler import ENTRYPOINT, FLOW, next_time
from tasks.schema import read_yaml

PATIENCE_S = 240  # for what takes 15 s on an idle machine
SOON = {"cron": "* * * * * */15", "timezone": "UTC"}  # of Prefect: the sixth field is seconds, which deploy refuses
CONFIG = """\
model: claims
data: {source: claims.csv, target: fraud}
method: ls_svm
validation: {folds: 2, inner_folds: 2}
rules: {min_positives: 5, min_auc: 0.5, min_gmean: 0.2, non_inferiority_margin: 0.2}
"""


def until(condition, what, patience=PATIENCE_S, every=0.1):
    """Return what a condition comes to once it holds."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if found := condition():
            return found
        time.sleep(every)
    raise AssertionError(f"waited {patience} s in vain for {what() if callable(what) else what}")


# Refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["claims.yaml"], ["--cron", "--on-change"]),
        (["claims.yaml", "--cron", "0 25 * * *"], ["five fields", "'0 25 * * *'"]),
        (["claims.yaml", "--cron", "daily"], ["five fields", "'daily'"]),
        (["claims.yaml", "--cron", "R 3 * * *"], ["five fields", "'R 3 * * *'"]),
        (["claims.yaml", "--cron", "0 3 30 2 *"], ["'0 3 30 2 *'", "no time"]),
        (["claims.yaml", "--cron", "0 3 * * *", "--timezone", "Mars/Olympus"], ["Europe/Berlin", "'Mars/Olympus'"]),
        (["claims.yaml", "--on-change", "--timezone", "Europe/Berlin"], ["--cron with --timezone", "Europe/Berlin"]),
        (["claims.yaml", "--cron", "61 3 * * *"], ["minute 0-59", "'61 3 * * *'"]),
        (["claims.yaml", "--cron", "0 3 * * *", "--name", "a/b"], ["--name", "'a/b'"]),
        (["gone.yaml", "--cron", "0 3 * * *"], ["'gone.yaml'"]),
        (["bad.yaml", "--cron", "0 3 * * *"], ["bad.yaml", "method"]),
        (["example", "--on-change"], ["a file of this machine", "sklearn:breast_cancer"]),
    ],
)
def test_what_could_never_start_is_refused_in_one_line(arguments, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("claims.yaml").write_text(CONFIG)
    Path("bad.yaml").write_text("model: claims\ndata: {source: claims.csv, target: fraud}\n")
    with pytest.raises(SystemExit) as ended:
        main(["deploy", *arguments])
    out, err = capsys.readouterr()
    assert (ended.value.code, out, err.count("\n")) == (2, "", 1)
    assert all(word in err for word in words), err
    assert not Path("mlruns").exists()


def test_the_file_for_work_pools_names_our_flow_and_a_config_that_loads():
    (told,) = read_yaml(Path(__file__).parents[2] / "prefect.yaml")["deployments"]
    named = load_flow_from_entrypoint(told["entrypoint"])
    assert (named.name, told["entrypoint"]) == (FLOW, ENTRYPOINT)
    named.validate_parameters(told["parameters"])
    model = load_retrain_config(told["parameters"]["config"]).model
    assert told["name"] != model  # the name of `aucflow deploy`'s, which would be taken over
    assert [next_time(**schedule) > datetime.now(UTC) for schedule in told["schedules"]] == [True]


# On a real server -------------------------------------------------------------------------------------------------


class Process:
    """A command of Prefect's or ours in a process group of its own, and what it says."""

    def __init__(self, folder, *command, **more):
        self.log = folder / f"{Path(str(command[0])).name}-{time.monotonic_ns()}.log"
        env = environment(folder, PATH=f"{AUCFLOW.parent}{os.pathsep}{os.environ['PATH']}", **more)
        with self.log.open("w") as stream:
            self.popen = subprocess.Popen(
                [str(word) for word in command],
                cwd=folder, env=env, stdout=stream, stderr=stream, start_new_session=True,
            )  # fmt: skip

    def text(self):
        return self.log.read_text()

    def wait_for(self, pattern, count=1):
        """Return the matches of a pattern in what it said, once there are enough."""
        return until(
            lambda: (found := re.findall(pattern, self.text())) and len(found) >= count and found,
            lambda: f"{pattern} in {self.text()}",
        )

    def children(self):
        """Return the runs' processes that it started, not its server's."""
        return [pid for pid, words in children(self.popen.pid).items() if "prefect.engine" in words]

    def end(self, number=signal.SIGTERM):
        """End it as a service manager would; return its exit code and the seconds that took."""
        start = time.monotonic()
        self.popen.send_signal(number)
        return self.popen.wait(60), time.monotonic() - start

    def stop(self):
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, signal.SIGKILL)
            self.popen.wait()


@pytest.fixture
def folder(tmp_path):
    claims(300).to_csv(tmp_path / "claims.csv", index=False)
    (tmp_path / "claims.yaml").write_text(CONFIG)
    put_empty_store(tmp_path)
    return tmp_path


@pytest.fixture
def start(folder):
    """Start commands in the folder; none outlives the test."""
    processes = []

    def call(*command, **more):
        processes.append(Process(folder, *command, **more))
        return processes[-1]

    yield call
    for process in processes:
        process.stop()


@pytest.fixture
def url(start):
    """A Prefect server on loopback."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/api"
    server = start(
        sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app", "--port", port,
        PREFECT_SERVER_ANALYTICS_ENABLED="false",
    )  # fmt: skip

    def answers():
        assert server.popen.poll() is None, server.text()
        try:
            return urllib.request.urlopen(f"{url}/health", timeout=5)
        except OSError:
            return None

    until(answers, "a Prefect server").close()
    return url


def answered(request):
    """Return what a Prefect server answers; it is asked again while it says 503, which it does of a locked database."""

    def answer():
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return [reply.read()]
        except urllib.error.HTTPError as error:
            if error.code != 503:
                raise
            return None

    (text,) = until(answer, f"an answer to {request.full_url}")
    return text


JSON = {"Content-Type": "application/json"}


def ask(url, what, **body):
    """Return what it answers to a filter."""
    return json.loads(answered(urllib.request.Request(f"{url}/{what}/filter", json.dumps(body).encode(), JSON)))


def change(url, what, **body):
    answered(urllib.request.Request(f"{url}/{what}", json.dumps(body).encode(), JSON, method="PATCH"))


def delete(url, what):
    answered(urllib.request.Request(f"{url}/{what}", method="DELETE"))


def rows(folder, query):
    """Return what MLflow's database holds, without a client of it, which would make its tables where there are none."""
    database = folder / "mlruns" / "mlflow.db"
    if not database.is_file():
        return []
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True, timeout=30)) as connection:
        try:
            return connection.execute(query).fetchall()
        except sqlite3.OperationalError as error:
            assert "no such table" in str(error)
            return []


def statuses(folder):
    return [status for (status,) in rows(folder, "select status from runs")]


def versions(folder):
    return [int(number) for (number,) in rows(folder, "select version from model_versions where name = 'claims'")]


def process_of_open_run(folder):
    """Return which process the open run says it belongs to."""
    query = f"select value from tags join runs using (run_uuid) where status = 'RUNNING' and key = '{PROCESS}'"
    found = rows(folder, query)
    return found[0][0] if found else None


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_schedule_fires_a_killed_run_is_told_and_the_next_makes_a_version(folder, url, start, capsys):
    done = run(folder, "deploy", "claims.yaml", "--cron", "0 3 1 1 *", PREFECT_API_URL=url)
    assert done.returncode == 0, done.stderr
    assert "0 3 1 1 * (UTC), next 20" in done.stdout
    with temporary_settings({PREFECT_API_URL: url}):  # the second changes the first
        assert run_here(folder, "deploy", "claims.yaml", "--cron", "0 4 1 1 *") == 0
    assert "0 4 1 1 * (UTC), next 20" in capsys.readouterr().out
    (deployment,) = ask(url, "deployments")
    (schedule,) = deployment["schedules"]
    assert schedule["schedule"]["cron"] == "0 4 1 1 *"
    change(url, f"deployments/{deployment['id']}/schedules/{schedule['id']}", schedule=SOON)
    assert deployment["parameters"] == {"config": str(folder / "claims.yaml")}

    serve = start(AUCFLOW, "serve", PREFECT_API_URL=url)
    serve.wait_for("claims: started, by schedule")
    until(lambda: "RUNNING" in statuses(folder), "a run in MLflow", every=0.02)
    (run_process,) = serve.children()
    os.kill(run_process, signal.SIGKILL)
    serve.wait_for("claims: crashed: signal 9 ended its process")
    assert set(statuses(folder)) == {"KILLED"}
    (killed,) = [r for r in ask(url, "flow_runs") if r["state_type"] == "CRASHED"]
    assert killed["state_name"] == "Crashed"
    assert {t["state_type"] for t in ask(url, "task_runs")} <= {"COMPLETED", "CRASHED"}

    serve.wait_for("claims: completed: There is no champion yet")
    assert versions(folder) == [1]

    (running, *_) = until(lambda: ask(url, "flow_runs", flow_runs={"state": {"type": {"any_": ["RUNNING"]}}}), "a run")
    begun = serve.text().count("claims: started")
    delete(url, f"flow_runs/{running['id']}")
    serve.wait_for("claims: deleted from Prefect while it ran; its process ended with code")
    serve.wait_for("claims: started", begun + 1)

    assert run_here(folder, "serve") == 1
    assert "served once" in capsys.readouterr().err

    code, seconds = serve.end()
    assert (code, seconds < 30) == (143, True)
    assert "Traceback" not in serve.text()
    assert serve.text().splitlines()[-1].startswith("aucflow: terminated; ")
    assert not {r["state_type"] for r in ask(url, "flow_runs")} & {"RUNNING", "PENDING"}
    assert "RUNNING" not in statuses(folder)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_changed_data_start_a_run_and_a_killed_serve_leaves_nothing_running(folder, start):
    """Without PREFECT_API_URL: deploy's server is gone before serve's begins, and knows what deploy wrote."""
    deploy = start(AUCFLOW, "deploy", "claims.yaml", "--on-change")
    assert deploy.popen.wait(PATIENCE_S) == 0, deploy.text()
    assert "claims.csv changes" in deploy.text()

    serve = start(AUCFLOW, "serve", "--look-every", "0.5")
    serve.wait_for("claims: on change of its data")
    serve.wait_for("claims: completed: There is no champion yet")
    os.utime(folder / "claims.csv", (1, 1))
    time.sleep(4)
    assert serve.text().count("started") == 1
    claims(320, seed=4).to_csv(folder / "claims.csv", index=False)
    serve.wait_for("claims: started, the data have changed", 2)
    started = until(lambda: process_of_open_run(folder), "a run in MLflow", every=0.02)
    (run_process,) = serve.children()
    serve.popen.kill()
    serve.popen.wait()
    os.kill(run_process, signal.SIGKILL)
    until(lambda: is_gone(started), "the end of the run's process")

    again = start(AUCFLOW, "serve", "--look-every", "0.5")
    again.wait_for("run claims .* was interrupted: it is marked KILLED")
    again.wait_for("Prefect's flow run .* was interrupted: it is marked Crashed")
    assert "RUNNING" not in statuses(folder)
    claims(330, seed=5).to_csv(folder / "claims.csv", index=False)
    again.wait_for("claims: started, the data have changed")
    assert again.end(signal.SIGINT)[0] == 130
    assert "aucflow: interrupted; ended the run of claims" in again.text()
    assert "Traceback" not in again.text()
    assert "RUNNING" not in statuses(folder)
