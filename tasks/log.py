"""The log of decisions: the Prefect run's logger inside a run, Python's elsewhere."""

import logging

from prefect import get_run_logger
from prefect.exceptions import MissingContextError


def run_logger() -> logging.Logger | logging.LoggerAdapter:
    """Return the logger of the current flow or task run."""
    try:
        return get_run_logger()
    except MissingContextError:
        return logging.getLogger("aucflow")
