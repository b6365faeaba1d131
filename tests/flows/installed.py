"""The command as installed, and a table such as users have."""

import shutil
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from ready_made import bare_environment, prefect_home, prefect_url

from flows.cli import main

AUCFLOW = Path(sys.executable).with_name("aucflow")
NOBODY = "http://127.0.0.1:9/api"


def run(folder, *arguments, **more):
    """Run the command as installed, in a folder; Prefect is told of it on the server of these tests."""
    command = [AUCFLOW, *map(str, arguments)]
    env = environment(folder, **more)
    if "PREFECT_API_URL" not in env:
        env["PREFECT_API_URL"] = prefect_url()
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=580)


def run_alone(folder, *arguments, **more):
    """Run a command as installed that tells Prefect of nothing: it finds no server, and none is started for it."""
    return run(folder, *arguments, PREFECT_API_URL=NOBODY, **more)


def run_here(folder, *arguments):
    """Run the command in this process, in a folder: seconds of imports less; return its exit code."""
    with chdir(folder), pytest.raises(SystemExit) as ended:
        main([str(word) for word in arguments])
    return ended.value.code


def environment(folder, **more):
    """Return an environment without ours, with a Prefect home of its own, in which runs start a server of their own."""
    home = folder / ".prefect"
    if not home.exists():
        shutil.copytree(prefect_home(), home)
    return bare_environment(home) | more


def children(pid):
    """Return the processes that a process has started: number and command."""
    listed = subprocess.run(["ps", "-ww", "-eo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    return {int(child): words for child, parent, words in rows if int(parent) == pid}


def claims(n=400, seed=3):
    """A user's table: numbers, words, gaps, and one positive in five."""
    rng = np.random.default_rng(seed)
    fraud = rng.random(n) < 0.2
    table = pd.DataFrame(
        {
            "amount": rng.normal(100, 30, n) + 40 * fraud,
            "age": rng.integers(18, 90, n),
            "shop": rng.choice(["north", "süd", "<b>west</b>"], n),
            "constant": 1,
            "fraud": np.where(fraud, "yes", "no"),
        }
    )
    table.loc[rng.choice(n, 25, replace=False), "amount"] = np.nan
    table.loc[rng.choice(n, 9, replace=False), "shop"] = None
    return table
