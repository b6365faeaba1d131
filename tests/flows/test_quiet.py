"""What a person does not see, and sees with -v."""

import subprocess
import sys

import pytest

from flows.quiet import quieten

SEEN = """
import logging
import sys

from flows.quiet import quieten

quieten(verbose=sys.argv[1] == "-v")
import mlflow
print(logging.getLogger("mlflow.store.db.utils").isEnabledFor(logging.ERROR))
"""


@pytest.mark.parametrize(("option", "seen"), [("", "False"), ("-v", "True")])
def test_a_database_that_fails_is_told_of_by_us_alone_and_with_its_traceback_on_demand(option, seen, monkeypatch):
    monkeypatch.delenv("MLFLOW_LOGGING_LEVEL", raising=False)
    done = subprocess.run([sys.executable, "-c", SEEN, option], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == seen


def test_of_a_servers_runs_mlflow_prints_no_addresses():
    """It did to standard output, four lines for each run."""
    from mlflow.environment_variables import MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT

    quieten(verbose=True)
    assert MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT.get()
