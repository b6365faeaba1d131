"""What the commands do, once their heavy imports are paid for."""

import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tasks import catalogue
from tasks.configuration import ExperimentConfig, MethodConfig, datasets, load_config, parse, parse_config
from tasks.errors import BadInput, RunFailed
from tasks.progress import announce

DEFAULT_METHODS = ("svm_or", "ls_svm", "auto+linear_svm")  # none of them enumerates pairs: fit for large files


def run_command(config: str | None, options: dict[str, Any]) -> None:
    """Run an experiment and show its table, its report and how to open MLflow."""
    experiment = make_config(config, options)
    from flows.display import progress
    from flows.signals import stoppable

    try:
        with progress(experiment, Console(stderr=True)), stoppable():
            outcome = _run(experiment)
    except RunFailed as failure:
        if failure.outcome:
            _show(*failure.outcome)
        raise
    _show(*outcome)


def _run(experiment: ExperimentConfig) -> tuple[Any, Path]:
    """Check the data, import the rest while Prefect starts, check the store, run the flow."""
    from flows.preflight import PrefectStart, preflight

    preflight(experiment)
    announce("start", "Prefect and MLflow")
    prefect = PrefectStart()
    from flows.experiment import run_experiment
    from tasks.store import check_store

    check_store()
    prefect.wait()
    return run_experiment(experiment)


def make_config(config: str | None, options: dict[str, Any]) -> ExperimentConfig:
    """Return the config of a file or a name, or of the user's own data file, with the options on top."""
    given = {k: v for k, v in options.items() if v not in (None, ())}
    data = {key: given.pop(key) for key in ("data", "target", "positive", "format_") if key in given}
    overrides = {key: given[key] for key in ("name", "seed", "workers") if key in given}
    if "methods" in given:
        overrides["methods"] = [parse_method(text).model_dump() for text in given["methods"]]
    if "data" not in data:
        if data:
            raise BadInput(f"Expected --data FILE with --{next(iter(data)).rstrip('_')}, got none. Name the file.")
        return _with_folds(load_config(config or "quickstart", **overrides), given.get("folds"))
    if config is not None:
        raise BadInput(f"Expected a config or --data, got both ('{config}' and '{data['data']}'). Leave one out.")
    source = {"source": data["data"], "target": data.get("target"), "positive": data.get("positive")}
    tree = {
        "name": _name_of(data["data"]),
        "datasets": [source | {"format": data.get("format_")}],
        "methods": [parse_method(text).model_dump() for text in DEFAULT_METHODS],
    }
    if "folds" in given:
        tree["validation"] = {"folds": given["folds"]}
    return parse_config(tree | overrides, "command line")


def parse_method(text: str) -> MethodConfig:
    """Return the method spelt as ``solver`` or ``sampler+solver``."""
    sampler, plus, solver = text.rpartition("+")
    return parse(MethodConfig, {"solver": solver, "sampler": sampler if plus else "none"}, f"--method {text}")


def list_command(what: str) -> None:
    """Print a table of data sets, solvers, samplers or runs."""
    table = {"datasets": _datasets, "solvers": _solvers, "samplers": _samplers, "runs": _runs}[what]()
    Console(soft_wrap=False).print(table)


def ui_command(port: int) -> None:
    """Become ``mlflow server`` on loopback."""
    from tasks import store

    if not store.exists():
        raise BadInput("Expected mlruns/mlflow.db in this folder, found none. Run `aucflow run` here first.")
    uri = store.tracking_uri()
    if not uri.startswith(("sqlite:", "postgresql", "mysql", "mssql")):
        raise BadInput(f"MLFLOW_TRACKING_URI names a server that has pages of its own: open {uri} in a browser.")
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    Console().print(f"MLflow on http://127.0.0.1:{port} (Ctrl-C ends it)", highlight=False)
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
    """Return an experiment name made of the file's: what it has of letters, digits, dots and dashes."""
    stem = Path(file).name.partition(".")[0]
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else "-" for c in stem).strip("-_")
    return kept[:100] or "experiment"


def _show(result: Any, report: Path) -> None:
    from tasks.report import console_report
    from tasks.store import tracking_uri

    console = Console()
    console.print(console_report(result), "")
    console.print(f"report   {_relative(report)}", highlight=False, soft_wrap=True)
    uri = tracking_uri()
    console.print(f"MLflow   {uri if uri.startswith('http') else 'aucflow ui'}", highlight=False)


def _relative(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _datasets() -> Table:
    table = Table("name", "rows", "features", "n+", "what it is", box=None)
    for name, entry in datasets().items():
        table.add_row(name, str(entry["rows"]), str(entry["features"]), str(entry["n_pos"]), entry["title"])
    return table


def _solvers() -> Table:
    table = Table("name", "searched", "what it minimises and how", box=None)
    for name, entry in catalogue.SOLVERS.items():
        table.add_row(name, entry.grid[0] if entry.grid else "", entry.summary)
    return table


def _samplers() -> Table:
    table = Table("name", "what it keeps", box=None)
    for name, entry in catalogue.SAMPLERS.items():
        table.add_row(name, entry.summary if entry else "every training row")
    return table


def _runs() -> Table:
    from tasks import store
    from tasks.runs import list_runs

    table = Table("started (UTC)", "experiment", "run", "status", "AUC", "G-mean", box=None)
    for row in list_runs(store.open_store()) if store.exists() else ():
        table.add_row(row.started, row.experiment, row.name, row.status, row.auc, row.gmean)
    return table
