"""Warm up in several processes, for numba compiles on one core: each takes the next entry that nobody has taken.

What is taken, and what came of it, are files of a folder that they share. The first process is the command's own; the
others are its children. Kernels that two of them need at once are compiled twice and kept once.
"""

import json
import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
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
    """What came of an entry: kernels compiled and loaded from disk, seconds, and why it failed, if it did."""

    name: str
    compiled: int
    loaded: int
    seconds: float
    failure: str = ""


@dataclass(frozen=True)
class Shares:
    """The entries as files of a folder: ``name`` once it is taken, ``name.json`` when it is done."""

    folder: Path

    def take(self) -> Iterator[str]:
        """Yield the entries that no process has taken yet, one at a time, each as it becomes this process's own."""
        for name in in_order():
            try:
                (self.folder / name).touch(exist_ok=False)
            except FileExistsError:
                continue
            yield name

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
    return Outcome(name, compiled, loaded, time.perf_counter() - start, failure)


def warm_all(float32: bool) -> Iterator[Outcome | str]:
    """Warm up every entry; yield the name of each that this process begins, and each outcome, as they come.

    A child that ends before its time, say for want of memory, leaves what it had taken to this process.
    """
    with _children(float32) as (shares, children):
        left = dict.fromkeys(in_order())
        for name in shares.take():
            yield name
            shares.put(warm(name, float32))
            yield from _told(shares, left)
        while left:
            ended = all(child.poll() is not None for child in children)
            yield from _told(shares, left)
            if not ended:
                time.sleep(LOOK_S)
                continue
            for name in tuple(left):
                yield name
                shares.put(warm(name, float32))
                yield from _told(shares, left)


def _told(shares: Shares, left: dict[str, None]) -> Iterator[Outcome]:
    """Yield outcomes that are new, and strike them off what is left."""
    for name in tuple(left):
        if outcome := shares.get(name):
            del left[name]
            yield outcome


@contextmanager
def _children(float32: bool) -> Iterator[tuple[Shares, list[subprocess.Popen[bytes]]]]:
    """Yield the shares and the processes beside this one, one fewer than there are cores; end them afterwards."""
    with TemporaryDirectory(prefix="aucflow-warmup-") as name, ExitStack() as stack:
        folder = Path(name)
        children = []
        for number in range(1, min(cpu_count(), MOST)):
            log = folder / f"{number}.log"
            arguments = (name, *(["float32"] if float32 else []))
            children.append(start_child("tasks.warmers", *arguments, env=os.environ, log=log))
            stack.callback(_pass_on, log)
            stack.callback(end_child, children[-1], 0)
        yield Shares(folder), children


def _pass_on(log: Path) -> None:
    """Print what a child said, which is nothing unless somebody asks numba to say something."""
    with log.open() as said:
        shutil.copyfileobj(said, sys.stdout)


def main() -> None:
    """Take and warm up entries until there are none left to take."""
    warnings.simplefilter("ignore")
    name, *float32 = sys.argv[1:]
    shares = Shares(Path(name))
    for entry in shares.take():
        shares.put(warm(entry, bool(float32)))


if __name__ == "__main__":
    main()
