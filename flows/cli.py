"""The command line. Heavy imports are inside the commands, so that help is instant.

Exit codes: 0 fine, 1 failed while running, 2 bad input, 3 audit finding, 128 + the number of a signal.
"""

import gc
import io
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

FORMATS = ("csv", "parquet", "svmlight", "keel", "arff", "npz", "idx")
VERBOSE = ("-v", "--verbose")
LISTS = ("datasets", "solvers", "samplers", "kernels", "runs", "models")


class _Verbose(click.Command):
    """A command or a group that can be told to say more: ``main`` looks for the option among all words."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        words = "Show warnings, tracebacks and Prefect's log."
        self.params.append(click.Option(VERBOSE, is_flag=True, expose_value=False, help=words))


class _Group(_Verbose, click.Group):
    command_class, group_class = _Verbose, type


@contextmanager
def _starting() -> Iterator[None]:
    """Show a sign of life while the block imports; silence the libraries that it imports unless -v is given.

    Of the million objects that are imported none is garbage: it is not looked for until then, nor among them later.
    """
    from flows.quiet import quieten
    from flows.waiting import waiting

    quieten(bool(click.get_current_context().obj))
    collects = gc.isenabled()
    gc.disable()
    try:
        with waiting():
            import tasks  # noqa: F401 - before Prefect, MLflow and pandas: it says why

            yield
    finally:
        if os.path.basename(sys.argv[0]) == "aucflow" and not gc.get_freeze_count():  # a process of ours alone, once
            gc.freeze()
        if collects:
            gc.enable()


def _version(context: click.Context, _parameter: click.Parameter, value: bool) -> None:
    if value:
        from importlib.metadata import version

        click.echo(f"aucflow {version('aucflow')}")
        context.exit()


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Print the version."
)
def cli() -> None:
    """Train, certify and track AUC models on imbalanced two-class data."""


@cli.command()
@click.argument("config", required=False)
@click.option("--data", metavar="FILE", help="Your own CSV, Parquet, svmlight, KEEL .dat, ARFF, .npz or IDX file.")
@click.option("--target", metavar="COLUMN", help="The column that holds the class (with --data).")
@click.option("--positive", metavar="LABEL", help="The class to detect; default: the rarer of two (with --data).")
@click.option("--drop", multiple=True, metavar="COLUMN", help="No feature; repeatable (with --data).")
@click.option(
    "--category", "categories", multiple=True, metavar="COLUMN", help="Its numbers are codes; repeatable (with --data)."
)
@click.option("--group", metavar="COLUMN", help="Rows of one value stay together: a patient's (with --data).")
@click.option("--time", metavar="COLUMN", help="Test on later rows than those trained on: a date (with --data).")
@click.option("--gap", metavar="LENGTH", help="Time between those two, as labels take: 30d (with --data).")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Default: detected (with --data).")
@click.option(
    "--method", "methods", multiple=True, metavar="[SAMPLER+][KERNEL+]SOLVER", help="Run this method only; repeatable."
)
@click.option("--folds", type=int, metavar="N", help="Outer cross-validation folds.")
@click.option("--seed", type=int, metavar="N", help="Seed of every random draw.")
@click.option("--workers", type=int, metavar="N", help="Folds trained side by side.")
@click.option("--offline", is_flag=True, default=None, help="Fetch nothing: data sets have to be in the cache.")
@click.option("--name", metavar="NAME", help="Name of the experiment in MLflow.")
def run(config: str | None, **options: Any) -> None:
    """Run an experiment: CONFIG is a YAML file or a shipped name (default: quickstart), or use --data FILE."""
    with _starting():
        from flows.run import run_command

    run_command(config, options)


@cli.command("list")
@click.argument("what", type=click.Choice(LISTS))
def list_(what: str) -> None:
    """List what can be named in a config, or the runs and models in the store."""
    with _starting():
        from flows.lists import list_command

    list_command(what)


@cli.command()
@click.option("--float32", is_flag=True, help="Also for float32 rows, which only Python gives the solvers.")
def warmup(float32: bool) -> None:
    """Compile the solvers' kernels now, so that no later run has to: a minute, once."""
    with _starting():
        from flows.warmup import warmup_command

    warmup_command(float32)


@cli.group()
def data() -> None:
    """Show and fetch the data sets of the catalogue."""


_offline = click.option("--offline", is_flag=True, help="Fetch nothing; say what is missing and where it may be put.")


@data.command("show")
@click.argument("name")
@_offline
def data_show(name: str, offline: bool) -> None:
    """Print all that is known of the data set NAME (or openml:ID)."""
    with _starting():
        from flows.data import show_command

    show_command(name, offline)


@data.command("get")
@click.argument("names", nargs=-1)
@click.option("--suite", metavar="SUITE", help="All data sets of a paper: jiang2014, lu2019 or natole2019.")
@click.option("--all", "everything", is_flag=True, help="All data sets that a mirror or their publisher has.")
@_offline
@click.option("--update-lock", is_flag=True, help="Accept files that changed since they were first fetched.")
@click.option("--lock", "lock_file", type=click.Path(dir_okay=False), help="Default: datasets.lock in AUCFLOW_HOME.")
def data_get(
    names: tuple[str, ...], suite: str | None, everything: bool, offline: bool, update_lock: bool, lock_file: str | None
) -> None:
    """Fetch, convert and verify data sets: from the cache, the mirror AUCFLOW_MIRROR, or their publishers."""
    from pathlib import Path

    with _starting():
        from flows.data import get_command

    get_command(names, suite, everything, offline, update_lock, Path(lock_file) if lock_file else None)


@cli.command()
@click.argument("config")
@click.option("--force", is_flag=True, help="Train though data, config and code are those of the newest version.")
@click.option(
    "--replace-champion",
    is_flag=True,
    help="Train, and promote by the rules for any model if the champion cannot be compared.",
)
@click.option("--workers", type=int, metavar="N", help="Folds trained side by side.")
@click.option("--offline", is_flag=True, default=None, help="Fetch nothing: data sets have to be in the cache.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the versions, and what each rule found.")
def retrain(config: str, force: bool, replace_champion: bool, as_json: bool, **options: Any) -> None:
    """Train a challenger on the newest data, and promote it if the rules of CONFIG say so."""
    with _starting():
        from flows.lifecycle import retrain_command

    retrain_command(config, force, replace_champion, options, as_json)


_json = click.option("--json", "as_json", is_flag=True, help="Print JSON, with every digest in full.")


@cli.command()
@click.argument("run")
@click.option("--workers", type=click.IntRange(1, 64), metavar="N", help="Folds computed side by side.")
@click.option(
    "--tolerance", type=click.FloatRange(0, 1), default=1e-6, show_default=True, help="Where bits may differ."
)
@click.option("--data", "files", multiple=True, metavar="FILE", help="Where a raw file lies now; repeatable.")
@_json
def replay(run: str, workers: int | None, tolerance: float, files: tuple[str, ...], as_json: bool) -> int:
    """Compute RUN (id, name, experiment or lineage.json) again from its manifest and compare it stage by stage."""
    with _starting():
        from flows.replay import replay_command

    return replay_command(run, workers, tolerance, files, as_json)


@cli.command()
@click.argument("run_a")
@click.argument("run_b")
@_json
def diff(run_a: str, run_b: str, as_json: bool) -> int:
    """Tell what differs between two runs: data, code, environment, parameters, results."""
    with _starting():
        from flows.replay import diff_command

    return diff_command(run_a, run_b, as_json)


_reason = click.option("--reason", required=True, metavar="TEXT", help="Why; it goes into the ledger.")


@cli.command()
@click.argument("model")
@_reason
def rollback(model: str, reason: str) -> None:
    """Make the previous champion of MODEL the champion again."""
    with _starting():
        from flows.lifecycle import rollback_command

    rollback_command(model, reason)


@cli.command()
@click.argument("version", metavar="MODEL/VERSION")
@_reason
def delete(version: str, reason: str) -> None:
    """Remove a version of a model that is not the champion; the ledger remembers it."""
    with _starting():
        from flows.lifecycle import delete_command

    delete_command(version, reason)


@cli.command()
@click.argument("subject", metavar="MODEL|RUN")
@click.option("--to", type=click.Choice(["ledger", "registry"]), help="Which of the two is right about MODEL.")
@_reason
def settle(subject: str, to: Any, reason: str) -> None:
    """Make registry and ledger agree about MODEL after something else than aucflow changed it.

    Or note in the ledger that RUN was removed from the store on purpose, and its cells with it: then `audit verify`
    tells of it and no longer counts it.
    """
    with _starting():
        from flows.lifecycle import settle_command, settle_run_command

    if to is None:
        settle_run_command(subject, reason)
    else:
        settle_command(subject, to, reason)


@cli.command()
@click.option("--model", required=True, metavar="NAME@ALIAS", help="Also NAME/VERSION, or the id of a run.")
@click.option("--data", required=True, metavar="FILE", help="New rows, with the columns of training in any order.")
@click.option("--out", required=True, metavar="FILE", help="A .parquet or .csv file for the scores.")
@click.option("--format", "format_", type=click.Choice(FORMATS), help="Of the new rows; default: detected.")
@click.option("--chunk-rows", type=click.IntRange(1), metavar="N", help="Rows read at once; no score depends on it.")
@click.option("--drop", multiple=True, metavar="COLUMN", help="Do not read this column; repeatable.")
@click.option("--trust", multiple=True, metavar="PACKAGE", help="Load types of this package; repeatable.")
@click.option("--force", is_flag=True, help="Replace the file of scores if there is one.")
def predict(**options: Any) -> None:
    """Score new rows with a champion, or with any model in the store."""
    with _starting():
        from flows.predict import predict_command

    predict_command(**options)


@cli.command()
@click.argument("config")
@click.option("--cron", metavar="'M H D M W'", help="Minute, hour, day, month, weekday: '0 3 * * *' is daily at 3:00.")
@click.option("--timezone", default="UTC", show_default=True, metavar="ZONE", help="Of --cron, such as Europe/Berlin.")
@click.option("--on-change", is_flag=True, help="Whenever the data file changes, while `aucflow serve` runs.")
@click.option("--name", metavar="NAME", help="Name of the deployment; default: the model's.")
def deploy(config: str, cron: str | None, timezone: str, on_change: bool, name: str | None) -> None:
    """Say when to retrain by CONFIG; `aucflow serve` then does. Again with the same name: changes it."""
    with _starting():
        from flows.deploy import deploy_command

    deploy_command(config, cron, timezone, on_change, name)


@cli.command()
@click.option("--limit", type=click.IntRange(1, 64), default=1, show_default=True, help="Most runs at the same time.")
@click.option(
    "--look-every",
    type=click.FloatRange(0.1, 86_400),
    default=10,
    show_default=True,
    metavar="SECONDS",
    help="Between two looks at a data file (deploy --on-change).",
)
def serve(limit: int, look_every: float) -> None:
    """Start what was deployed from this folder, on its schedule or when its data change, until Ctrl-C."""
    with _starting():
        from flows.serve import serve_command

    serve_command(limit, look_every)


class _TargetGroup(_Group):
    """A group whose first word, where it names no command, is what to tell the story of."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        first = next((word for word in args if word not in VERBOSE), None)
        if first is not None and first not in (*self.commands, "-h", "--help"):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@cli.group(cls=_TargetGroup)
def audit() -> None:
    """Check what was recorded: `aucflow audit TARGET` tells the story of MODEL@champion, MODEL/3, a run, an experiment.

    Exit code 3: something is not as it was recorded.
    """


_deep = click.option("--deep", is_flag=True, help="Convert the raw data again, and compare the digests of X and y.")


@audit.command("show")
@click.argument("target")
@click.option("--html", type=click.Path(dir_okay=False), metavar="FILE", help="Write a page with every digest in full.")
@_json
@_deep
def audit_show(target: str, html: str | None, as_json: bool, deep: bool) -> int:
    """Tell the story of TARGET from a champion back to the raw file, each line checked now; `show` may be left out."""
    with _starting():
        from flows.audit import audit_command

    return audit_command(target, as_json, html, deep)


@audit.command("verify")
@_json
@_deep
def audit_verify(as_json: bool, deep: bool) -> int:
    """Check everything: the ledger, each run, its rows in MLflow, files, raw data, and the registry. Writes nothing."""
    with _starting():
        from flows.audit import verify_command

    return verify_command(as_json, deep)


@audit.command("champions")
@click.argument("model")
@click.option("--on", metavar="DATE", help="Those of a day, or of a time such as 2026-03-01T12:00; in UTC.")
@_json
def audit_champions(model: str, on: str | None, as_json: bool) -> int:
    """Tell which versions of MODEL were champion, since when, and why: from the ledger alone."""
    with _starting():
        from flows.audit import champions_command

    return champions_command(model, on, as_json)


@cli.command()
@click.option("--port", type=click.IntRange(1, 65535), default=5000, show_default=True)
def ui(port: int) -> None:
    """Open MLflow's pages for the runs of this folder, on loopback."""
    with _starting():
        from flows.ui import ui_command

    ui_command(port)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with its code; every error is one line on stderr."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a table whose ± the terminal does not know is a table all the same
    verbose = any(a in VERBOSE for a in (sys.argv[1:] if arguments is None else arguments))
    try:
        code = cli.main(args=arguments, prog_name="aucflow", standalone_mode=False, obj=verbose) or 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help())
        code = 0
    except click.ClickException as error:
        code = _complain(_one_line(error), 2)
    except (KeyboardInterrupt, click.Abort):
        code = 130
    except Exception as error:
        code = _complain_of(error, verbose)
    sys.exit(code)


def _complain_of(error: Exception, verbose: bool) -> int:
    from flows.console import FAILED, FINDING
    from tasks.errors import BadInput, NotAsRecorded, RunFailed, Stopped, without_password

    if isinstance(error, Stopped):
        return _complain(str(error), error.exit_code)
    if isinstance(error, BadInput):
        return _complain(str(error), 2)
    if verbose:
        click.echo(without_password(traceback.format_exc()), err=True)
    if isinstance(error, RunFailed):
        return _complain(str(error), FINDING if isinstance(error, NotAsRecorded) else FAILED)
    if isinstance(error, PermissionError) and error.filename is not None:
        words = f"Expected to be allowed to read or write {error.filename}, got: permission denied"
        return _complain(f"{words}. Allow it, or run as an account that may.", 1)
    advice = "" if verbose else " Run again with -v for the traceback."
    return _complain(f"{type(error).__name__}: {' '.join(str(error).split())}.{advice}", 1)


def _complain(message: str, code: int) -> int:
    from tasks.errors import without_password

    try:
        click.echo(f"aucflow: {without_password(message)}", err=True)
    except OSError:  # the terminal is gone; Python would flush once more at exit, and fail with a code of its own
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    return code


def _one_line(error: click.ClickException) -> str:
    hint = ""
    if isinstance(error, click.UsageError) and error.ctx is not None:
        hint = f" See `{error.ctx.command_path} --help`."
    return " ".join(error.format_message().split()) + hint
