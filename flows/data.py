"""The commands on data sets: what is known of one, and bringing them into the cache, verified."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from rich.table import Table

from flows.console import wide_console
from flows.waiting import bar
from tasks.convert import convert
from tasks.datasets import DatasetEntry, check_counts, entries, find, suites
from tasks.download import download
from tasks.errors import BadInput, RunFailed, nearest
from tasks.fetch import PACKED, Absent, cached
from tasks.lockfile import Lock
from tasks.progress import listening
from tasks.values import Dataset


def show_command(name: str, offline: bool) -> None:
    """Print all that is known of a data set."""
    entry, lock = find(name, offline), Lock()
    table = Table(box=None, show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for label, value in _facts(name, entry, lock):
        table.add_row(label, value)
    wide_console().print(table)


def _facts(name: str, entry: DatasetEntry, lock: Lock) -> Iterator[tuple[str, str]]:
    conversion = entry.conversion.model_dump(exclude_defaults=True) or {"rule": "the rarer of two labels is positive"}
    counts = (("rows", entry.rows), ("features", entry.features), ("positive rows", entry.n_pos))
    yield "name", name
    yield "title", entry.title
    yield "format", entry.format
    yield "conversion", ", ".join(f"{key} {value}" for key, value in conversion.items())
    yield "target", entry.target or "the format's own"
    if entry.drop:
        yield "dropped", ", ".join(entry.drop)
    yield from ((label, f"{value:,}") for label, value in counts if value is not None)
    if entry.ratio is not None:
        yield "n-/n+", f"{entry.ratio:.4f}"
    for remote in entry.remotes:
        place = cached(remote)
        yield "file", f"{place} ({'in the cache' if place.is_file() else 'not in the cache'})"
        endings = [PurePosixPath(url).suffix for url in remote.urls]
        packings = dict.fromkeys("archive" if e == ".zip" else e[1:] for e in endings if e in PACKED)
        yield "compression", ", ".join(packings) or "none"
        elsewhere = f"{', '.join(entry.published)} (in another form: make the file above of it)"
        yield "published at", ", ".join(remote.urls) or (elsewhere if entry.published else "see the homepage")
        yield "SHA-256", lock.digest(remote.path) or "not fetched yet"
    optional = (("suites", ", ".join(entry.suites)), ("licence", entry.licence), ("homepage", entry.homepage))
    yield "citation", entry.citation
    yield from ((label, value) for label, value in (*optional, ("note", entry.note)) if value)


def get_command(
    names: tuple[str, ...],
    suite: str | None,
    everything: bool,
    offline: bool,
    update_lock: bool,
    lock_file: Path | None,
) -> None:
    """Fetch, convert and verify data sets; print what each is and where it came from.

    Of ``everything``, what neither a mirror nor a publisher has is listed and skipped; a named set has to come.
    """
    wanted = _wanted(names, suite, everything)
    table = Table("name", "rows", "features", "n+", "n-/n+", "from", "SHA-256", box=None)
    absent, failures = {}, {}
    with _progress(len(wanted)) as tell:
        for name in wanted:
            tell(name)
            try:
                table.add_row(name, *_row(_get(name, offline, update_lock, Lock(lock_file))))
            except Absent as error:
                absent[name] = error
            except (BadInput, RunFailed) as error:
                failures[name] = error
    console = wide_console()
    if table.row_count:
        console.print(table)
    if everything and absent:
        console.print(f"not here   {', '.join(absent)} (aucflow data get NAME says where each may be put)")
    failures = failures if everything else failures | absent
    if failures:
        kind = BadInput if all(isinstance(error, BadInput) for error in failures.values()) else RunFailed
        raise kind("; ".join(str(error) for error in failures.values()))


def _wanted(names: tuple[str, ...], suite: str | None, everything: bool) -> tuple[str, ...]:
    if bool(names) + (suite is not None) + everything != 1:
        raise BadInput(
            "Expected names of data sets, --suite NAME or --all, and only one of these. See `aucflow list datasets`."
        )
    if suite is not None and suite not in suites():
        known = tuple(suites())
        raise BadInput(f"Expected a suite out of {', '.join(known)}; got '{suite}'.{nearest(suite, known)}")
    return tuple(entries()) if everything else suites()[suite] if suite is not None else names


def _get(name: str, offline: bool, update_lock: bool, lock: Lock) -> Dataset:
    """Fetch one data set, convert it, and hold it against the catalogue and the lock."""
    entry = find(name, offline)
    source = name if name.startswith("openml:") else f"catalogue:{name}"
    raw = download.fn(name.replace(":", "-"), source, None, offline, update_lock, lock.path)
    dataset = convert.fn(raw, entry.conversion.as_rule(entry.target, None, entry.drop))
    lock.record_counts(name, check_counts(name, entry, dataset, None if update_lock else lock.counts(name)))
    return dataset


def _row(dataset: Dataset) -> tuple[str, ...]:
    counts = (f"{n:,}" for n in (dataset.n_rows, dataset.n_features, dataset.n_pos))
    return (*counts, f"{dataset.imbalance_ratio:.4f}", dataset.raw.source, dataset.raw.sha256[:16])


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """Show a bar on a terminal while the block runs; yield what to call with each name."""
    with bar(total) as show:
        name = ""

        def begin(this: str) -> None:
            nonlocal name
            name = this
            show(description=name, advance=1)

        with listening(lambda step: show(description=f"{name} {step.detail}")):
            yield begin
