"""The list command: what can be named in a config, and what is in the store."""

from typing import TYPE_CHECKING

from rich.table import Table

from flows.console import plain, wide_console
from flows.waiting import waiting
from tasks import catalogue, datasets
from tasks.errors import RunFailed

if TYPE_CHECKING:
    from mlflow import MlflowClient


def list_command(what: str) -> None:
    """Print a table of what can be named in a config, of runs, or of models."""
    tables = {
        "datasets": _datasets,
        "solvers": _solvers,
        "samplers": _samplers,
        "kernels": _kernels,
        "runs": _runs,
        "models": _models,
    }
    with waiting():
        table = tables[what]()
    wide_console().print(table if table.row_count else f"no {what} in this folder")


def _datasets() -> Table:
    table = Table(box=None)
    table.add_column("name", no_wrap=True)
    for title in ("rows", "features", "n+", "n-/n+"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("cached", no_wrap=True)
    table.add_column("what it is", no_wrap=True)
    for name, entry in datasets.entries().items():
        numbers = ("" if n is None else f"{n:,}" for n in (entry.rows, entry.features, entry.n_pos))
        ratio = "" if entry.ratio is None else f"{entry.ratio:.2f}"
        table.add_row(name, *numbers, ratio, _whereabouts(entry), entry.title)
    return table


def _whereabouts(entry: datasets.DatasetEntry) -> str:
    from tasks.fetch import cached

    if entry.format == "sklearn":
        return "built in"
    return "yes" if all(cached(remote).is_file() for remote in entry.remotes) else "no"


def _solvers() -> Table:
    table = Table("name", "searched", "what it minimises and how", box=None)
    for name, entry in catalogue.SOLVERS.items():
        table.add_row(name, ", ".join(parameter for parameter, _ in entry.grids), entry.summary)
    without = [name for name, entry in catalogue.SOLVERS.items() if not entry.takes_kernel]
    table.caption_justify = "left"
    table.caption = (
        f"All but {', '.join(without)} also run in a kernel's space: `kernel: gaussian` in a config, "
        "gaussian+SOLVER on the command line (aucflow list kernels). Any classifier of scikit-learn's kind is a solver "
        "by its import path: sklearn.svm.SVC."
    )
    return table


def _kernels() -> Table:
    table = Table("name", "searched", "what it is", box=None)
    for name, entry in catalogue.KERNELS.items():
        searched = ", ".join(parameter for parameter, _ in entry.grids) if entry else ""
        table.add_row(name, searched, entry.summary if entry else "the data's own features")
    return table


def _samplers() -> Table:
    table = Table("name", "what it keeps or adds", box=None)
    for name, entry in catalogue.SAMPLERS.items():
        table.add_row(name, entry.summary if entry else "keep every training row")
    table.caption_justify = "left"
    table.caption = (
        "SAMPLER+SOLVER on the command line, or SAMPLER_SOLVER: u1_zovr. Any sampler of imbalanced-learn's kind is one "
        "by its import path: imblearn.under_sampling.NearMiss."
    )
    return table


def _runs() -> Table:
    from tasks.runs import list_runs

    table = Table("started (UTC)", "id", "experiment", "run", "status", "AUC", "G-mean", box=None)
    client = _client()
    for row in list_runs(client) if client else ():
        cells = (row.started, row.run_id[:8], row.experiment, row.name, row.status, row.auc, row.gmean)
        table.add_row(*map(plain, cells))
    return table


def _models() -> Table:
    from tasks import registry

    table = Table("model", "version", "made (UTC)", "aliases", "decision", box=None)
    client = _client()
    found = (one for name in registry.models(client) for one in registry.versions(client, name)) if client else ()
    for version in found:
        made = version.created.strftime("%Y-%m-%d %H:%M")
        decision = version.tags.get(f"{registry.PREFIX}decision", "")
        table.add_row(
            plain(version.model), str(version.number), made, plain(", ".join(version.aliases)), plain(decision)
        )
    return table


def _client() -> "MlflowClient | None":
    """Return a client of the store; None if there never was one, for the ledger knows."""
    from tasks import store

    if store.exists():
        return store.reader()
    if store.ledger().path.exists():
        raise RunFailed(
            f"Expected {store.FOLDER}/mlflow.db beside the ledger, which tells of runs, got no such file. Put it back "
            "from a copy, or run `aucflow audit verify` for what is missing."
        )
    return None
