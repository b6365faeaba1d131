"""What a person sees while a flow runs, and after it. Progress goes to stderr, results to stdout."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tasks.configuration import ExperimentConfig
from tasks.progress import RECORDED, Step, listening

SILENT = ("evaluate", RECORDED)  # too short to be worth a line of its own


def total_steps(config: ExperimentConfig) -> int:
    """Return how many steps an experiment has: each data set, each model's search and fit, and the report."""
    models = config.validation.folds * config.validation.repeats + 1
    return len(config.datasets) * (1 + 2 * len(config.methods) * models) + 1


@contextmanager
def progress(config: ExperimentConfig, console: Console) -> Iterator[None]:
    """Show a bar on a terminal, and one line per data set and method elsewhere."""
    if console.is_terminal:
        with _bar(config, console):
            yield
    else:
        with listening(_Lines(console)):
            yield


@contextmanager
def _bar(config: ExperimentConfig, console: Console) -> Iterator[None]:
    folds = config.validation.folds * config.validation.repeats
    columns = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),  # last: its length changes
    )
    with Progress(*columns, console=console, transient=True) as bar:
        job = bar.add_task("starting", total=total_steps(config))

        def show(step: Step) -> None:
            bar.update(job, description=_describe(step, folds), advance=1 if step.done else 0)

        with listening(show):
            yield


def _describe(step: Step, folds: int) -> str:
    words = [f"[bold]{step.stage}[/]", step.dataset, step.method]
    if step.fold is not None:
        words.append("refit" if step.fold < 0 else f"fold {step.fold + 1}/{folds}")
    return " ".join(word for word in (*words, step.detail) if word)


class _Lines:
    """A listener that prints a line when data set, method or stage changes; silent until the data are accepted."""

    def __init__(self, console: Console):
        self.console = console
        self.last = ""

    def __call__(self, step: Step) -> None:
        if step.done or step.stage in SILENT or (not self.last and step.stage != "start"):
            return
        line = " ".join(word for word in (step.stage, step.dataset, step.method) if word)
        if line != self.last:
            self.last = line
            self.console.print(line, highlight=False, markup=False)
