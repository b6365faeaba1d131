"""The log of decisions: the Prefect run's logger inside a run, Python's elsewhere."""

import logging
import sys


def run_logger() -> logging.Logger | logging.LoggerAdapter:
    """Return the logger of the current flow or task run."""
    if "prefect" in sys.modules:  # else no run is under way, and its import takes seconds
        from prefect import get_run_logger
        from prefect.exceptions import MissingContextError

        try:
            return get_run_logger()
        except MissingContextError:
            pass
    return logging.getLogger("aucflow")
