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

SCORES = {"gmean": "G-mean", "auc": "AUC"}


@dataclass(frozen=True)
class Figure:
    """One printed result: the mean test score in percent and, where it is told, the seconds of the whole experiment."""

    dataset: str
    label: str  # what the source calls the method, with its kernel where it has several
    test_pct: float
    total_s: float | None


@dataclass(frozen=True)
class Reference:
    """A source's figures, with what they are of and on which machine its seconds were measured."""

    source: str
    score: str  # of the figures: gmean or auc
    machine: str
    figures: tuple[Figure, ...]


def load_reference(name: str) -> Reference:
    """Return a source's figures by name; its file begins with lines of the form ``# key: value``."""
    lines = (CONFIGS / "reference" / f"{name}.csv").read_text(encoding="utf-8").splitlines()
    about = dict(line.removeprefix("# ").split(": ", 1) for line in lines if line.startswith("#"))
    rows = csv.DictReader(line for line in lines if not line.startswith("#"))
    figures = tuple(_figure(row) for row in rows)
    return Reference(about["source"], about["score"], about.get("machine", ""), figures)


def _figure(row: dict[str, str]) -> Figure:
    if "auc_mean" in row:
        return Figure(row["dataset"], row["method"], 100.0 * float(row["auc_mean"]), None)
    method = row["method"].replace("U1", "U").replace("U2", "U")  # U1ZOVR and U2ZOVR as one
    label = f"{method}, {row['kernel']}"
    return Figure(row["dataset"], label, float(row["gmean_test_pct"]), float(row["total_seconds"]))


def beside(result: ExperimentResult) -> dict[str, Any] | None:
    """Return ours and the source's figures, a row for each data set that both have; None where there are none.

    ``above`` tells of each of ours whether its mean is above every one that the source prints for the set, and
    ``se`` is its standard error over the folds. ``ranks`` are our methods' among each other, best 1, on average over
    the ``ranked`` sets on which all of them have a figure.
    """
    name = result.config.get("reference")
    if name is None:
        return None
    reference = load_reference(name)
    methods = list(dict.fromkeys(cell.method for cell in result.results))
    rows = [_row(dataset.name, methods, result.results, reference) for dataset in result.datasets]
    rows = [row for row in rows if row["theirs"]]
    if not rows:
        return None
    whole = [[-ours["mean"] for ours in row["ours"]] for row in rows if all(row["ours"])]
    return {
        "source": reference.source,
        "score": SCORES[reference.score],
        "machine": reference.machine,
        "methods": methods,
        "labels": [figure.label for figure in rows[0]["theirs"]],
        "rows": rows,
        "ranked": len(whole),
        "ranks": rankdata(np.round(whole, 9), axis=1).mean(axis=0).tolist() if whole else [],
    }


def _row(dataset: str, methods: Sequence[str], cells: Sequence[MethodResult], reference: Reference) -> dict[str, Any]:
    figures = [figure for figure in reference.figures if figure.dataset == dataset]
    done = {cell.method: cell for cell in cells if cell.dataset == dataset and cell.evaluations}
    best = max((figure.test_pct for figure in figures), default=0.0)
    ours: list[dict[str, float] | None] = []
    for method in methods:
        if method not in done:
            ours.append(None)
            continue
        mean, sd = (100 * value for value in done[method].mean_sd(reference.score))
        se = sd / sqrt(len(done[method].evaluations))
        ours.append({"mean": mean, "se": se, "seconds": done[method].seconds, "above": mean > best})
    return {"dataset": dataset, "ours": ours, "theirs": figures}


def in_short(table: dict[str, Any]) -> str:
    """Return on how many sets each method is above every figure of the source, and how our methods rank."""
    counts = {
        method: sum(row["ours"][place] is not None and row["ours"][place]["above"] for row in table["rows"])
        for place, method in enumerate(table["methods"])
    }
    told = ", ".join(f"{method} on {count}" for method, count in counts.items())
    score = f"test {table['score']}"
    above = f"of {len(table['rows'])} sets, {score} above every figure that the source prints: {told}."
    if len(table["ranks"]) < 2:
        return above
    order = sorted(zip(table["ranks"], table["methods"], strict=True))
    ranks = ", ".join(f"{method} {rank:.1f}" for rank, method in order)
    return f"{above} Mean rank by {score} over {table['ranked']} sets, best 1: {ranks}."
