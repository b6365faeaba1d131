"""The warmup command: kernels compiled before they are needed, with a bar on a terminal and a line each elsewhere."""

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from flows.signals import stoppable
from flows.waiting import bar
from tasks import warmers, warmup
from tasks.errors import RunFailed
from tasks.progress import announce

KEPT = "kernels compiled so far stay in the cache"  # numba writes each one when it is done
OBJECTS = 100_000  # between two looks for garbage: at Python's 700, they take a twelfth of the time of compiling


def warmup_command(float32: bool) -> None:
    """Compile or load all kernels, then say how many, in what time, and where they are kept."""
    start = time.perf_counter()
    with stoppable(), _seldom_collecting(), _display(Console(stderr=True)) as tell:
        try:
            outcomes = _warm_all(float32, tell)
        except KeyboardInterrupt as interrupt:
            interrupt.add_note(KEPT)
            raise
    compiled, loaded = sum(o.compiled for o in outcomes), sum(o.loaded for o in outcomes)
    failures = [f"{outcome.name}: {outcome.failure}" for outcome in outcomes if outcome.failure]
    folders = sorted({folder for outcome in outcomes for folder in outcome.folders})
    console = Console()
    took = f"{time.perf_counter() - start:.1f} s"
    console.print(f"{compiled} kernels compiled, {loaded} loaded, {took}", highlight=False)
    for folder in folders:
        console.print(f"cache   {folder}", highlight=False, soft_wrap=True)
    if failures:
        raise RunFailed(f"{len(failures)} of {len(outcomes)} entries failed: {'; '.join(failures)}")
    if not folders:
        raise RunFailed(
            "Expected a folder for compiled kernels, got none that can be written: every process will compile its own. "
            "Name one with NUMBA_CACHE_DIR."
        )


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    given = gc.get_threshold()
    gc.set_threshold(OBJECTS)
    try:
        yield
    finally:
        gc.set_threshold(*given)


def _warm_all(float32: bool, tell: Callable[[str, str], None]) -> list[warmers.Outcome]:
    """Warm up every entry and tell of each; return what came of them."""
    outcomes = []
    for news in warmers.warm_all(float32):
        if isinstance(news, str):
            tell(news, "")
            announce("warmup", detail=news)  # where an interrupt that was lost in a callback is raised again
        else:
            outcomes.append(news)
            tell(news.name, f"{news.compiled} compiled, {news.loaded} loaded, {news.seconds:.1f} s")
    return outcomes


@contextmanager
def _display(console: Console) -> Iterator[Callable[[str, str], None]]:
    """Yield a function (entry, outcome), the outcome being empty when the entry begins."""
    if not console.is_terminal:

        def tell(name: str, outcome: str) -> None:
            if outcome:
                console.print(f"{name:14} {outcome}", highlight=False, markup=False)

        yield tell
        return
    with bar(len(warmup.entries())) as show:
        yield lambda name, outcome: show(description=f"[bold]{name}[/]", advance=1 if outcome else 0)
