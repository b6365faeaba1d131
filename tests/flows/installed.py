"""The command as installed, and a table such as users have."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

AUCFLOW = Path(sys.executable).with_name("aucflow")


def environment(folder, **more):
    """Return an environment without ours, with a Prefect home of its own."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT_", "MLFLOW_", "PYTEST_"))}
    return env | {"PREFECT_HOME": str(folder / ".prefect"), "COLUMNS": "80"} | more


def run(folder, *arguments, **more):
    """Run the command as installed, in a folder."""
    command = [AUCFLOW, *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment(folder, **more), capture_output=True, text=True, timeout=280
    )


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
