"""The run command: an experiment by its config, or on a file of the user's own."""

import unicodedata
from pathlib import Path
from typing import Any

from rich.console import Console

from flows.console import TEXT, relative, report_console
from flows.start import ready
from tasks.configuration import ExperimentConfig, MethodConfig, load_config, parse, parse_config
from tasks.errors import BadInput, RunFailed

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


def make_config(config: str | None, options: dict[str, Any]) -> ExperimentConfig:
    """Return the config of a file or a name, or of the user's own data file, with the options on top."""
    given = {k: v for k, v in options.items() if v not in (None, ())}
    of_data = ("data", "target", "positive", "drop", "categories", "group", "time", "gap", "format_", "dataset")
    data = {key: given.pop(key) for key in of_data if key in given}
    overrides: dict[str, Any] = {key: given[key] for key in ("name", "seed", "workers", "offline") if key in given}
    if "methods" in given:
        overrides["methods"] = [parse_method(text).model_dump() for text in given["methods"]]
    if "data" not in data:
        if data:
            option = {"categories": "category", "format_": "format"}.get(first := next(iter(data)), first)
            raise BadInput(f"Expected --data FILE with --{option}, got none. Name the file.")
        return _with_folds(load_config(config or "quickstart", **overrides), given.get("folds"))
    if config is not None:
        raise BadInput(f"Expected a config or --data, got both ('{config}' and '{data['data']}'). Leave one out.")
    named = {"data": "source", "format_": "format", "dataset": "name"}
    tree: dict[str, Any] = {
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
    from tasks.store import shown_uri

    console = report_console()
    console.print(console_report(result, console.width, None if console.is_terminal else TEXT), "")
    console.print(f"report   {relative(report)}", highlight=False, soft_wrap=True)
    uri = shown_uri()
    console.print(f"MLflow   {uri if uri.startswith('http') else 'aucflow ui'}", highlight=False)
