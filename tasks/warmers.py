"""Warm up in several processes, for numba compiles on one core: each takes the next entry that nobody has taken.

What is taken, and what came of it, are files of a folder that they share. They are children of the command's process,
which looks on; where there is one core, it does all itself. Kernels that two need at once are compiled twice and kept
once.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from joblib import cpu_count

from tasks import warmup
from tasks.child import end_child, start_child

MOST = 3  # processes: two fifths of the time go into the longest entry, svm_or, and none can share it
LONGEST = ("svm_or", "zovr", "spdam", "opauc", "sdcd")  # first, so that no process ends long after the others
LOOK_S = 0.05


@dataclass(frozen=True)
class Outcome:
    """What came of an entry: kernels compiled and loaded, where they are kept, seconds, and the reason of a failure."""

    name: str
    compiled: int
    loaded: int
    folders: tuple[str, ...]
    seconds: float
    failure: str = ""


@dataclass(frozen=True)
class Shares:
    """The entries as files of a folder: ``name`` once it is taken, ``name.json`` when it is done."""

    folder: Path

    def take(self, names: Iterable[str]) -> Iterator[str]:
        """Yield those of the entries that no process has taken yet, each as it becomes this process's own."""
        for name in names:
            try:
                (self.folder / name).touch(exist_ok=False)
            except FileExistsError:
                continue
            yield name

    def is_taken(self, name: str) -> bool:
        """Tell whether a process has taken the entry."""
        return (self.folder / name).exists()

    def put(self, outcome: Outcome) -> None:
        """Write down what came of an entry, at once and whole."""
        part = self.folder / f"{outcome.name}.part"
        part.write_text(json.dumps(asdict(outcome)))
        os.replace(part, part.with_suffix(".json"))

    def get(self, name: str) -> Outcome | None:
        """Return what came of an entry, or None while nobody has said."""
        try:
            return Outcome(**json.loads((self.folder / f"{name}.json").read_text()))
        except FileNotFoundError:
            return None


def in_order() -> list[str]:
    """Return all entries, those that take longest first."""
    return sorted(warmup.entries(), key=lambda name: LONGEST.index(name) if name in LONGEST else len(LONGEST))


def warm(name: str, float32: bool) -> Outcome:
    """Warm up one entry in this process."""
    start, before, failure = time.perf_counter(), warmup.tally(), ""
    try:
        warmup.warm(name, float32)
    except Exception as error:
        failure = f"{type(error).__name__}: {error}"
    compiled, loaded = (now - then for now, then in zip(warmup.tally(), before, strict=True))
    return Outcome(name, compiled, loaded, warmup.cache_folders(), time.perf_counter() - start, failure)


def warm_all(float32: bool) -> Iterator[Outcome | str]:
    """Warm up every entry; yield what is under way, in words, whenever that changes, and each outcome as it comes.

    Children are started once there is a kernel to compile: to load all takes less time than they need to begin. What
    one had taken that ended before its time, say for want of memory, is done by this process.
    """
    left = dict.fromkeys(in_order())
    for name in reversed(in_order()):
        del left[name]
        yield name
        yield (outcome := warm(name, float32))
        if outcome.compiled:
            break
    else:
        return
    yield from _warm_together(left, float32)
    for name in left:
        yield name
        yield warm(name, float32)


def _warm_together(left: dict[str, None], float32: bool) -> Iterator[Outcome | str]:
    """Have children warm up what is left, and strike it off."""
    said = ""
    with _children(left, float32) as (shares, children):
        is_over = not children
        while left and not is_over:
            is_over = all(child.poll() is not None for child in children)  # before the last look at what they say
            for name in tuple(left):
                if outcome := shares.get(name):
                    del left[name]
                    yield outcome
            under_way = ", ".join(name for name in left if shares.is_taken(name))
            if under_way not in ("", said):
                yield under_way
            said = under_way
            time.sleep(0 if is_over else LOOK_S)


@contextmanager
def _children(left: Iterable[str], float32: bool) -> Iterator[tuple[Shares, list[subprocess.Popen[bytes]]]]:
    """Yield the shares and the processes that divide them; none for one core, or without a place for the shares."""
    children: list[subprocess.Popen[bytes]] = []
    with ExitStack() as stack:
        folder = Path()
        with suppress(OSError):
            folder = Path(stack.enter_context(TemporaryDirectory(prefix="aucflow-warmup-")))
            for number in range(min(cpu_count(), MOST) if cpu_count() > 1 else 0):
                log = folder / f"{number}.log"
                arguments = (str(folder), "float32" if float32 else "float64", *left)
                children.append(start_child("tasks.warmers", *arguments, env=os.environ, log=log))
                stack.callback(_pass_on, log)
                stack.callback(end_child, children[-1], 0)
        yield Shares(folder), children


def _pass_on(log: Path) -> None:
    """Print what a child said, which is nothing unless somebody asks numba to say something."""
    if said := log.read_text(errors="replace"):
        print(said, end="")


def main() -> None:
    """Take and warm up entries, of those named, until there are none left to take."""
    warnings.simplefilter("ignore")
    folder, rows, *names = sys.argv[1:]
    shares = Shares(Path(folder))
    for name in shares.take(names):
        shares.put(warm(name, rows == "float32"))


if __name__ == "__main__":
    main()
