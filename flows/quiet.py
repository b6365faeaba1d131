"""What a person does not need to see: other people's log lines, warnings and telemetry.

Call before Prefect or MLflow is imported. What the user set in the environment wins.
"""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from aucsolvers.process import ProcessWide

ALWAYS = {
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",  # of a server's runs, two lines each, twice
    "DO_NOT_TRACK": "true",
    # a tracking server that does not answer is to be told of in seconds, not after ten minutes of retries
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "30",
    "PGCONNECT_TIMEOUT": "30",  # and so is a database server that does not even refuse
    "GIT_PYTHON_REFRESH": "quiet",  # MLflow asks GitPython, which complains where there is no git
}
UNLESS_VERBOSE = {
    "PREFECT_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_SERVER_LEVEL": "CRITICAL",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "MLFLOW_LOGGING_LEVEL": "CRITICAL",  # a full disk is an ERROR to it, with the traceback of what we tell of
}

# Loggers; of aucsolvers, what it says to whoever calls it from Python: of a cell, the report tells.
LIBRARIES = ("alembic", "aucsolvers", "mlflow", "openlineage", "sqlalchemy", "httpx", "prefect", "urllib3")
# Prefect's services have loggers of their class's name, and tell of items that a command leaves over which ends at once
LOGGERS = (*LIBRARIES, "APILogWorker", "EventsWorker")


def quieten(verbose: bool = False) -> None:
    """Set the environment, and unless ``verbose`` silence warnings and foreign loggers of this process."""
    for name, value in (ALWAYS if verbose else ALWAYS | UNLESS_VERBOSE).items():
        os.environ.setdefault(name, value)
    if verbose:
        return
    warnings.simplefilter("ignore")
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)


@ProcessWide
@contextmanager
def quiet() -> Iterator[None]:
    """Have it as after ``quieten`` while the block runs, and then as it was before."""
    given = {name: os.environ.get(name) for name in ALWAYS | UNLESS_VERBOSE}
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    try:
        with warnings.catch_warnings():
            quieten()
            yield
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        for name in (name for name, value in given.items() if value is None):
            os.environ.pop(name, None)
