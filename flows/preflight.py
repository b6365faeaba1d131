"""Before the flow: read and check all data outside Prefect, so that bad input is refused in a second or two.

No server has started by then, and nothing is written but what is fetched, to the cache, and its digests, to the lock.
The tables stay in memory, where the flow finds them.
"""

from tasks.cell import divide, plainly
from tasks.configuration import DatasetConfig, ExperimentConfig
from tasks.convert import convert
from tasks.datasets import Conversion, check_counts, find
from tasks.download import download
from tasks.errors import BadInput
from tasks.lockfile import Lock
from tasks.progress import announce
from tasks.values import ConversionRule


def preflight(config: ExperimentConfig) -> None:
    """Raise BadInput if any data set cannot be used; of several, say which."""
    for entry in config.datasets:
        announce("check", entry.name)
        try:
            _check(entry, config)
        except BadInput as error:
            if len(config.datasets) == 1:
                raise
            raise BadInput(f"Data set '{entry.name}': {error}") from None


def _check(entry: DatasetConfig, config: ExperimentConfig) -> None:
    raw = download.fn(entry.name, entry.source, entry.format, config.offline)
    dataset = convert.fn(raw, conversion_rule(entry, config.offline))
    if entry.is_as_published:
        lock = Lock()
        lock.record_counts(entry.key, check_counts(entry.name, find(entry.key), dataset, lock.counts(entry.key)))
    divide(dataset, config, plainly)


def conversion_rule(entry: DatasetConfig, offline: bool = False) -> ConversionRule:
    """Return how labels become classes: as the config wants it, else as the catalogue says."""
    given = entry.conversion or (Conversion(positive=entry.positive) if entry.positive is not None else None)
    if entry.key is None:
        return (given or Conversion()).as_rule(entry.target, entry.delimiter, entry.drop)
    known = find(entry.key, offline)
    conversion = given or known.conversion
    return conversion.as_rule(entry.target or known.target, entry.delimiter, entry.drop or known.drop)
