"""Before the flow: read and check all data outside Prefect, so that bad input is refused in a second or two.

No server has started by then and nothing is written. The tables stay in memory, where the flow finds them.
"""

import logging
from threading import Thread

from prefect.client.orchestration import get_client

from tasks.check import check
from tasks.configuration import DatasetConfig, ExperimentConfig
from tasks.convert import convert
from tasks.download import download
from tasks.progress import announce
from tasks.seeds import seed_for
from tasks.values import ConversionRule


def preflight(config: ExperimentConfig) -> None:
    """Raise BadInput if any data set cannot be used."""
    for entry in config.datasets:
        announce("check", entry.name)
        dataset = convert.fn(download.fn(entry.name, entry.source, entry.format), conversion_rule(entry))
        check.fn(dataset, config.validation.folds, config.validation.repeats, split_seed(entry, config))


def conversion_rule(entry: DatasetConfig) -> ConversionRule:
    """Return how a config wants a file's labels converted."""
    return ConversionRule(entry.target, entry.positive, entry.delimiter)


def split_seed(entry: DatasetConfig, config: ExperimentConfig) -> int:
    """Return the seed of a data set's folds: the same for every method."""
    return seed_for(config.seed, entry.name, "split")


def start_prefect() -> Thread:
    """Start Prefect's temporary server (or greet the one that PREFECT_API_URL names) while heavy imports go on.

    Join the thread before a flow starts. If it fails, the flow's own attempt will say why.
    """

    def greet() -> None:
        try:
            with get_client(sync_client=True) as client:
                client.hello()
        except Exception as error:
            logging.getLogger(__name__).info("Prefect did not answer: %s", error)

    thread = Thread(target=greet, name="start-prefect", daemon=True)
    thread.start()
    return thread
