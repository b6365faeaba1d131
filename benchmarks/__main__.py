"""`make bench`: run the parts and write docs/benchmarks.md with its summary in the README.

python -m benchmarks [--only PART,...] [--quick] [--out FILE]

Only a complete run writes there; with --only or --quick the report goes to --out, or to the screen.
"""

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from threadpoolctl import threadpool_limits

from benchmarks import machine, tables
from benchmarks.contest import Contest, Failure, Gauge, run
from benchmarks.part import Bench, Cell, Part
from benchmarks.parts import PARTS

ROOT = Path(__file__).resolve().parent.parent
COMMAND = "make bench"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    options = _parse(arguments)
    warnings.simplefilter("ignore")
    bench, sections, described = Bench(options.quick), [], machine.describe()
    with threadpool_limits(1), _progress() as progress:
        for part in options.only:
            sections.append(_run_part(part, bench, progress))
    text = tables.report(sections, described, _asides(bench), _command(options))
    if options.out:
        options.out.write_text(text, encoding="utf-8")
    elif options.quick or len(options.only) < len(PARTS):
        Console(soft_wrap=True).print(text, markup=False, highlight=False)
    else:
        tables.write(text, ROOT / "docs" / "benchmarks.md", ROOT / "README.md")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("--only", metavar="PART,...", type=_parts, default=list(PARTS.values()), help=", ".join(PARTS))
    parser.add_argument("--quick", action="store_true", help="few data sets and rounds: under two minutes")
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the report here")
    return parser.parse_args(arguments)


def _parts(text: str) -> list[Part]:
    unknown = [name for name in text.split(",") if name not in PARTS]
    if unknown:
        raise argparse.ArgumentTypeError(f"Expected parts out of {', '.join(PARTS)}, got {', '.join(unknown)}.")
    return [PARTS[name] for name in text.split(",")]


def _command(options: argparse.Namespace) -> str:
    if not options.quick and len(options.only) == len(PARTS):
        return COMMAND
    only = [] if len(options.only) == len(PARTS) else [f"--only {','.join(part.name for part in options.only)}"]
    return " ".join(["python -m benchmarks", *only, *(["--quick"] if options.quick else [])])


def _progress() -> Progress:
    return Progress(
        SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=Console(stderr=True)
    )


def _run_part(part: Part, bench: Bench, progress: Progress) -> tables.Section:
    rows, shown = [], progress.add_task(part.title)
    for cell in part.cells(bench):
        progress.update(shown, description=f"{part.title}: {cell.task}, {cell.where}")
        rows.append(_run_cell(cell, bench))
        progress.console.print(_line(part, cell, rows[-1]), markup=False, highlight=False, soft_wrap=True)
    progress.update(shown, description=part.title, completed=1, total=1)
    return tables.Section(part, tuple(rows))


def _run_cell(cell: Cell, bench: Bench) -> tables.Row:
    """Return the cell's outcome; whatever is raised costs this cell only, and is reported as a missed goal."""
    try:
        built = cell.build()
        return run(built, bench.budget) if isinstance(built, Contest) else built
    except Exception as reason:
        return Failure(f"{cell.task}, {cell.where}", f"{type(reason).__name__}: {reason}")


def _line(part: Part, cell: Cell, row: tables.Row) -> str:
    if isinstance(row, Failure):
        return f"✗ {row.task}: {row.reason}"
    if isinstance(row, Gauge):
        return f"{tables.mark(row.is_met)} {cell.task}, {row.setting}: {row.value:.3g} {row.unit}"
    bound = "at least " if row.is_bound else ""
    ours, peer = tables.milliseconds(row.ours_s), tables.milliseconds(row.peer_s)
    return f"{tables.mark(row.is_met)} {cell.task}, {cell.where}: {bound}{row.ratio:.2f} ({ours} against {peer} ms)"


def _asides(bench: Bench) -> list[str]:
    """Return what the reader must know about the data and about what did not take part."""
    sets = [f"{data.name}: {data.shape}" for data in bench.shelf.read.values()]
    skipped = [f"skipped, {name}: {reason}" for name, reason in bench.shelf.skipped.items()]
    absent = [f"absent, {name}: {reason}" for name, reason in bench.absent.items()]
    return [*sets, *skipped, *absent]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
