"""Reference: the figures that a source prints, set beside ours; facts only, from configs/reference."""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from scipy.stats import rankdata

from tasks.catalogue import CONFIGS
from tasks.values import ExperimentResult, MethodResult


@dataclass(frozen=True)
class Figure:
    """One printed result: G-means in percent, and the seconds of the whole experiment."""

    dataset: str
    kernel: str
    method: str
    gmean_train_pct: float
    gmean_test_pct: float
    total_seconds: float

    @property
    def label(self) -> str:
        """Return what the source calls it, U1ZOVR and U2ZOVR as one, with its kernel."""
        return f"{self.method.replace('U1', 'U').replace('U2', 'U')}, {self.kernel}"


@dataclass(frozen=True)
class Reference:
    """A source's figures, with what they are of and on which machine its seconds were measured."""

    source: str
    machine: str
    figures: tuple[Figure, ...]


def load_reference(name: str) -> Reference:
    """Return a source's figures by name; its file begins with lines of the form ``# key: value``."""
    lines = (CONFIGS / "reference" / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    about = dict(line.removeprefix("# ").split(": ", 1) for line in lines if line.startswith("#"))
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    numbers = ("gmean_train_pct", "gmean_test_pct", "total_seconds")
    figures = tuple(Figure(**(row | {key: float(row[key]) for key in numbers})) for row in rows)
    return Reference(about["source"], about["machine"], figures)


def beside(result: ExperimentResult) -> dict[str, Any] | None:
    """Return ours and the source's figures, a row for each data set that both have; None where there are none.

    ``above`` tells of each of ours whether its test G-mean is above every one that the source prints for the set, and
    ``se`` is its standard error over the folds. ``ranks`` are our methods' among each other, best 1, on average over
    the ``ranked`` sets on which all of them have a figure.
    """
    name = result.config.get("reference")
    if name is None:
        return None
    reference = load_reference(name)
    methods = list(dict.fromkeys(cell.method for cell in result.results))
    rows = [
        _row(dataset.name, methods, result.results, [f for f in reference.figures if f.dataset == dataset.name])
        for dataset in result.datasets
    ]
    rows = [row for row in rows if row["theirs"]]
    if not rows:
        return None
    whole = [[-ours["gmean"] for ours in row["ours"]] for row in rows if all(row["ours"])]
    return {
        "source": reference.source,
        "machine": reference.machine,
        "methods": methods,
        "labels": [figure.label for figure in rows[0]["theirs"]],
        "rows": rows,
        "ranked": len(whole),
        "ranks": rankdata(np.round(whole, 9), axis=1).mean(axis=0).tolist() if whole else [],
    }


def _row(dataset: str, methods: Sequence[str], cells: Sequence[MethodResult], figures: list[Figure]) -> dict[str, Any]:
    done = {cell.method: cell for cell in cells if cell.dataset == dataset and cell.evaluations}
    best = max((figure.gmean_test_pct for figure in figures), default=0.0)
    ours = []
    for method in methods:
        if method not in done:
            ours.append(None)
            continue
        gmean, sd = (100 * value for value in done[method].mean_sd("gmean"))
        se = sd / sqrt(len(done[method].evaluations))
        ours.append({"gmean": gmean, "se": se, "seconds": done[method].seconds, "above": gmean > best})
    return {"dataset": dataset, "ours": ours, "theirs": figures}


def in_short(table: dict[str, Any]) -> str:
    """Return on how many sets each method is above every figure of the source, and how our methods rank."""
    counts = {
        method: sum(row["ours"][place] is not None and row["ours"][place]["above"] for row in table["rows"])
        for place, method in enumerate(table["methods"])
    }
    told = ", ".join(f"{method} on {count}" for method, count in counts.items())
    above = f"of {len(table['rows'])} sets, test G-mean above every figure that the source prints: {told}."
    if len(table["ranks"]) < 2:
        return above
    order = sorted(zip(table["ranks"], table["methods"], strict=True))
    ranks = ", ".join(f"{method} {rank:.1f}" for rank, method in order)
    return f"{above} Mean rank by test G-mean over {table['ranked']} sets, best 1: {ranks}."
