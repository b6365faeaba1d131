"""Before the flow: read and check all data outside Prefect, so that bad input is refused in a second or two.

No server has started by then, and nothing is written but what is fetched, to the cache, and its digests, to the lock.
The tables stay in memory, where the flow finds them.
"""

from collections.abc import Iterator

from tasks import catalogue
from tasks.cell import divide, plainly
from tasks.configuration import DatasetConfig, ExperimentConfig
from tasks.convert import convert, refuse_roles
from tasks.datasets import Conversion, check_counts, find
from tasks.download import download
from tasks.errors import BadInput
from tasks.lockfile import Lock
from tasks.progress import announce
from tasks.values import ConversionRule, Prepared

MOST_ROWS, MOST_PAIRS = 20_000, 10**9  # of a fit that takes seconds


def preflight(config: ExperimentConfig) -> tuple[str, ...]:
    """Raise BadInput if any data set cannot be used, of several saying which; return what else is good to know."""
    told: list[str] = []
    for entry in config.datasets:
        announce("check", entry.name)
        try:
            told += long_fits(_check(entry, config), config)
        except BadInput as error:
            if len(config.datasets) == 1:
                raise
            raise BadInput(f"Data set '{entry.name}': {error}") from None
    return tuple(told)


def _check(entry: DatasetConfig, config: ExperimentConfig) -> Prepared:
    raw = download.fn(entry.name, entry.source, entry.format, config.offline)
    dataset = convert.fn(raw, conversion_rule(entry, config.offline))
    refuse_roles(dataset)
    if key := entry.published_key:
        lock = Lock()
        lock.record_counts(key, check_counts(entry.name, find(key), dataset, lock.counts(key)))
    return divide(dataset, config, plainly)


def long_fits(prepared: Prepared, config: ExperimentConfig) -> Iterator[str]:
    """Yield a sentence for each method that visits all pairs, or squared rows, of so many rows that fits take minutes.

    Only of methods without a sampler: one that drops rows may leave few.
    """
    validation, dataset = config.validation, prepared.dataset
    share, told = 1.0 - 1.0 / validation.folds, {}
    rows, pairs = share * dataset.n_rows, share * share * dataset.n_pos * dataset.n_neg
    if rows > MOST_ROWS:
        words = f"{rows:,.0f} rows, whose time grows with their square"
        told["squared rows"] = words, "u2 before it, or gaussian+svm_or,"
    if pairs > MOST_PAIRS:
        told["pairs"] = f"{pairs:,.0f} pairs, each of which is visited", "svm_or, which has the same objective,"
    for method in config.methods:
        visits = catalogue.solver(method.solver).visits
        if method.sampler == "none" and visits in told:
            what, instead = told[visits]
            candidates = len(method.candidates(config.preprocessing.scales))
            each = 1 + (candidates * validation.inner_folds if candidates > 1 else 0)
            fits = each * (validation.folds * validation.repeats + 1)
            yield (
                f"{dataset.name}, {method.label}: {fits:,} fits of about {what}: that may be minutes a fit. "
                f"Take {instead} if that is too long."
            )


def conversion_rule(entry: DatasetConfig, offline: bool = False) -> ConversionRule:
    """Return how labels become classes: as the config wants it, else as the catalogue says."""
    given = entry.conversion or (Conversion(positive=entry.positive) if entry.positive is not None else None)
    roles = entry.group, entry.time, entry.gap, entry.categories
    if entry.key is None:
        return (given or Conversion()).as_rule(entry.target, entry.delimiter, entry.drop, *roles)
    known = find(entry.key, offline)
    conversion = given or known.conversion
    drop = tuple(name for name in dict.fromkeys((*known.drop, *entry.drop)) if name not in (entry.group, entry.time))
    return conversion.as_rule(entry.target or known.target, entry.delimiter, drop, *roles)
