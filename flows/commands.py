"""What the commands do, once their heavy imports are paid for."""

import os
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from flows.console import TEXT, plain, report_console, wide_console
from flows.waiting import waiting
from tasks import catalogue, datasets
from tasks.configuration import ExperimentConfig, MethodConfig, load_config, parse, parse_config
from tasks.errors import BadInput, RunFailed
from tasks.progress import announce

DEFAULT_METHODS = ("svm_or", "ls_svm", "auto+linear_svm")  # none of them enumerates pairs: fit for large files


def run_command(config: str | None, options: dict[str, Any]) -> None:
    """Run an experiment and show its table, its report and how to open MLflow."""
    experiment = make_config(config, options)
    from flows.display import progress
    from flows.signals import stoppable

    try:
        with stoppable(), progress(experiment, Console(stderr=True)):
            outcome = run_flow(experiment)
    except RunFailed as failure:
        if failure.outcome:
            _show(*failure.outcome)
        raise
    _show(*outcome)


def run_flow(experiment: ExperimentConfig) -> tuple[Any, Path]:
    """Run an experiment as a Prefect flow; return its result and where its report is."""
    with ready(experiment, "flows.experiment") as flow:
        return flow.run_experiment(experiment)


@contextmanager
def ready(experiment: ExperimentConfig, module: str) -> Iterator[Any]:
    """Check the data, import a flow's module while Prefect starts, check and mend the store; yield the module."""
    from prefect.settings import PREFECT_API_URL, temporary_settings

    from flows.preflight import preflight
    from tasks.prefect_server import server_of_this_process

    preflight(experiment)
    announce("start", "Prefect and MLflow")
    server = server_of_this_process()
    flow = import_module(module)
    from tasks.store import check_store

    check_store()
    recover()
    server.wait()
    with temporary_settings({PREFECT_API_URL: server.url}):
        recover_flow_runs()
        yield flow


def recover() -> None:
    """Bring to an end what a killed command left behind in the store, and say so."""
    from tasks import registry, store
    from tasks.recovery import end_interrupted_runs

    if not store.exists():
        return
    store.reader()
    client, ledger = store.open_store(), store.ledger()
    for sentence in (*end_interrupted_runs(client, ledger), *registry.recover(client, ledger)):
        Console(stderr=True).print(f"aucflow: {sentence}", highlight=False, soft_wrap=True)


def recover_flow_runs() -> None:
    """Bring to an end in Prefect what a killed command left open there, and say so."""
    from prefect.client.orchestration import get_client

    from tasks.flow_runs import end_interrupted_flow_runs

    with get_client(sync_client=True) as client:
        for sentence in end_interrupted_flow_runs(client):
            Console(stderr=True).print(f"aucflow: {sentence}", highlight=False, soft_wrap=True)


def make_config(config: str | None, options: dict[str, Any]) -> ExperimentConfig:
    """Return the config of a file or a name, or of the user's own data file, with the options on top."""
    given = {k: v for k, v in options.items() if v not in (None, ())}
    of_data = ("data", "target", "positive", "drop", "format_", "dataset")
    data = {key: given.pop(key) for key in of_data if key in given}
    overrides = {key: given[key] for key in ("name", "seed", "workers", "offline") if key in given}
    if "methods" in given:
        overrides["methods"] = [parse_method(text).model_dump() for text in given["methods"]]
    if "data" not in data:
        if data:
            raise BadInput(f"Expected --data FILE with --{next(iter(data)).rstrip('_')}, got none. Name the file.")
        return _with_folds(load_config(config or "quickstart", **overrides), given.get("folds"))
    if config is not None:
        raise BadInput(f"Expected a config or --data, got both ('{config}' and '{data['data']}'). Leave one out.")
    named = {"data": "source", "format_": "format", "dataset": "name"}
    tree = {
        "name": _name_of(data["data"]),
        "datasets": [{named.get(key, key): value for key, value in data.items()}],
        "methods": [parse_method(text).model_dump() for text in DEFAULT_METHODS],
    }
    if "folds" in given:
        tree["validation"] = {"folds": given["folds"]}
    return parse_config(tree | overrides, "command line")


def parse_method(text: str) -> MethodConfig:
    """Return the method that ``catalogue.split_name`` finds in a text."""
    return parse(MethodConfig, {"solver": text}, f"--method {text}")


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


def ui_command(port: int) -> None:
    """Become ``mlflow server`` on loopback."""
    from tasks import store

    uri = store.tracking_uri()
    if not uri.startswith(("sqlite:", "postgresql", "mysql", "mssql")):
        raise BadInput(f"MLFLOW_TRACKING_URI names a server that has pages of its own: open {uri} in a browser.")
    store.existing()
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    console = Console(highlight=False)
    console.print(f"MLflow on http://127.0.0.1:{port} (Ctrl-C ends it)")
    console.print('its pages show runs under "Model training", the switch at the top left')
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", uri, "--registry-store-uri", uri]
    command += ["--host", "127.0.0.1", "--port", str(port), "--workers", "1", "--uvicorn-opts", "--log-level warning"]
    sys.stdout.flush()
    os.execv(sys.executable, command)


def _with_folds(config: ExperimentConfig, folds: int | None) -> ExperimentConfig:
    if folds is None:
        return config
    tree = config.model_dump()
    tree["validation"]["folds"] = folds
    return parse_config(tree, "command line")


def _name_of(file: str) -> str:
    """Return an experiment name made of the file's: its letters, without accents, digits and dashes."""
    stem = unicodedata.normalize("NFKD", Path(file).name.partition(".")[0])
    stem = "".join(c for c in stem if not unicodedata.combining(c))
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in stem).strip("-_")
    return kept[:100] or "experiment"


def _show(result: Any, report: Path) -> None:
    from tasks.report import console_report
    from tasks.store import tracking_uri

    console = report_console()
    console.print(console_report(result, console.width, None if console.is_terminal else TEXT), "")
    console.print(f"report   {relative(report)}", highlight=False, soft_wrap=True)
    uri = tracking_uri()
    console.print(f"MLflow   {uri if uri.startswith('http') else 'aucflow ui'}", highlight=False)


def relative(path: Path) -> str:
    """Return a path as seen from here, where it is below."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


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


def _whereabouts(entry: datasets.Entry) -> str:
    from tasks.fetch import cached

    if entry.format == "sklearn":
        return "built in"
    return "yes" if all(cached(remote).is_file() for remote in entry.remotes) else "no"


def _solvers() -> Table:
    table = Table("name", "searched", "what it minimises and how", box=None)
    for name, entry in catalogue.SOLVERS.items():
        table.add_row(name, ", ".join(parameter for parameter, _ in (entry.grid, *entry.also)), entry.summary)
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
        table.add_row(name, entry.grid[0] if entry else "", entry.summary if entry else "the data's own features")
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
    from tasks import store
    from tasks.runs import list_runs

    table = Table("started (UTC)", "experiment", "run", "status", "AUC", "G-mean", box=None)
    for row in list_runs(store.reader()) if store.exists() else ():
        table.add_row(*map(plain, (row.started, row.experiment, row.name, row.status, row.auc, row.gmean)))
    return table


def _models() -> Table:
    from tasks import registry, store

    table = Table("model", "version", "made (UTC)", "aliases", "decision", box=None)
    client = store.reader() if store.exists() else None
    names = registry.models(client) if client else ()
    for version in (version for name in names for version in registry.versions(client, name)):
        made = version.created.strftime("%Y-%m-%d %H:%M")
        decision = version.tags.get(f"{registry.PREFIX}decision", "")
        table.add_row(
            plain(version.model), str(version.number), made, plain(", ".join(version.aliases)), plain(decision)
        )
    return table
