"""What a person sees while a flow runs, and after it. Progress goes to stderr, results to stdout."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from flows.waiting import bar
from tasks.configuration import ExperimentConfig
from tasks.progress import NOTICE, RECORDED, Step, listening

SILENT = ("evaluate", RECORDED, NOTICE)  # too short to be worth a line of its own, or none


def total_steps(config: ExperimentConfig) -> int:
    """Return how many steps an experiment has: each data set, each model's search and fit, and the report."""
    models = config.validation.folds * config.validation.repeats + 1
    return len(config.datasets) * (1 + 2 * len(config.methods) * models) + 1


@contextmanager
def progress(config: ExperimentConfig, console: Console) -> Iterator[None]:
    """Show a bar on a terminal, and one line per data set and method elsewhere; tell of notices at the end."""
    notices: list[str] = []
    try:
        with (
            listening(lambda step: notices.append(step.detail) if step.stage == NOTICE else None),
            _bar(config) if console.is_terminal else listening(_Lines(console)),
        ):
            yield
    finally:
        for notice in notices:
            console.print(f"aucflow: {notice}", highlight=False, markup=False, soft_wrap=True)


@contextmanager
def _bar(config: ExperimentConfig) -> Iterator[None]:
    folds = config.validation.folds * config.validation.repeats

    def move(step: Step) -> None:
        if step.stage != NOTICE:
            show(description=_describe(step, folds), advance=1 if step.done else 0)

    with bar(total_steps(config)) as show, listening(move):
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
