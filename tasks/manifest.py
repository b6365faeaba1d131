"""The manifest: all that a run was made of and all that came out of it, in one JSON document, ``lineage.json``.

It is written once, when everything else of the run is in the store, and the ledger keeps its digest. What can be
computed again is there as a digest (`tasks.digests`), what has to be known to do so as a value: `aucflow replay` needs
nothing but this and the raw files. A run that failed has one too, without results and with the reason.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from aucsolvers.adapters import chains, unwrapped
from tasks.configuration import ExperimentConfig, MethodConfig
from tasks.convert import load
from tasks.digests import array_sha256, state_sha256
from tasks.facts import blas, lock_sha256, package_sha256
from tasks.files import file_sha256
from tasks.imported import import_paths, own_modules
from tasks.manifests import FILE, SIGNATURE
from tasks.moments import kept
from tasks.seeds import seed_for
from tasks.values import Dataset, Evaluation, FittedModel, MethodResult, Prepared, RawFile, Sample, Split


def plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN as null, the infinities as text, numbers of numpy as Python's.

    >>> plain({"a": (np.float64(1), float("nan")), 2: float("inf")})
    {'a': [1.0, None], '2': 'inf'}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(member) for member in value]
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    return re.sub(r" at 0x[0-9a-f]+", "", str(value))  # where an object lies is another place in every process


def cell_sections(prepared: Prepared, method: MethodConfig, config: ExperimentConfig, seed: int) -> dict[str, Any]:
    """Return what the manifest of one data set × method tells from its start: data, splits and what was asked for."""
    return {
        "data": data_section(prepared.dataset) | {"findings": plain(prepared.findings)},
        "splits": _splits(prepared),
        "method": method.model_dump(mode="json"),
        "config": config.model_dump(mode="json"),
        "seeds": {"experiment": config.seed, "method": seed},
        "folds": [],
    }


def experiment_sections(config: ExperimentConfig, datasets: tuple[Dataset, ...]) -> dict[str, Any]:
    """Return what the manifest of a whole experiment tells from its start; its ``cell_list`` is known at the end."""
    return {
        "config": config.model_dump(mode="json"),
        "data": [data_section(dataset) for dataset in datasets],
        "cells": [],
    }


def cell_list(cells: tuple[MethodResult, ...]) -> list[dict[str, str | None]]:
    """Return where each cell's own manifest is found, by run and digest."""
    kept = ("dataset", "method", "run_id", "manifest_sha256", "error")
    return [{name: getattr(cell, name) for name in kept} for cell in cells]


def data_section(dataset: Dataset) -> dict[str, Any]:
    """Return where a data set came from, what made it of the raw files, and what it is."""
    return {
        "name": dataset.name,
        "raw": [_raw(file) for file in dataset.raw.files],
        "conversion": _conversion(dataset),
        "sha256": dataset.sha256,
        "X_sha256": dataset.X_sha256,
        "y_sha256": dataset.y_sha256,
        "n_rows": dataset.n_rows,
        "n_features": dataset.n_features,
        "n_pos": dataset.n_pos,
        "n_neg": dataset.n_neg,
        "columns": {name: _kind(dataset, name) for name in dataset.columns},
        "missing_cells": dataset.missing_cells,
    }


def _kind(dataset: Dataset, column: str) -> str:
    if column in dataset.rule.categories:
        return "category"
    return "text" if column in dataset.text_columns else "number"


def _conversion(dataset: Dataset) -> dict[str, Any]:
    """Return the rule that made the data set of its files, and what it did to their labels and rows."""
    story, rule = dataset.provenance, asdict(dataset.rule)
    for name in ("group", "time", "gap", "categories"):  # manifests are older: a replay is to find the same rule
        if not rule[name]:
            del rule[name]
    return plain(
        {
            **rule,
            "in_words": story.rule,
            "label_counts": story.label_counts,
            "label_sides": story.label_sides,
            "positive_label": story.positive_label,
            "negative_label": story.negative_label,
            "rows_left_out": story.rows_left_out,
        }
    )


def _raw(file: RawFile) -> dict[str, Any]:
    return {
        "source": file.source,
        "path": str(file.path),
        "format": file.format,
        "size_bytes": file.size_bytes,
        "sha256": file.sha256,
    }


def _splits(prepared: Prepared) -> list[dict[str, Any]]:
    """Return which rows every division trains on and tests, and where the rows have times, until when."""
    times = None if prepared.dataset.rule.time is None else load(prepared.dataset).times
    return [_split(split) | ({} if times is None else _until(split, times)) for split in prepared.divisions]


def _until(split: Split, times: np.ndarray) -> dict[str, Any]:
    parts = {"trained_until": split.train, "tested_until": split.test}
    return {name: kept(times[rows].max()) if len(rows) else None for name, rows in parts.items()}


def _split(split: Split) -> dict[str, Any]:
    return {
        "fold": split.fold,
        "train_sha256": array_sha256(split.train),
        "test_sha256": array_sha256(split.test),
        "n_train": len(split.train),
        "n_test": len(split.test),
    }


def fold_sections(result: MethodResult, seed: int) -> dict[str, Any]:
    """Return what each fold, and the refit, drew, chose, fitted and scored: the part that a replay has to meet."""
    evaluations = (*result.evaluations, result.held_out)
    folds = [
        _fold(sample, model, evaluation, seed)
        for sample, model, evaluation in zip(result.samples, result.all_models, evaluations, strict=True)
    ]
    return {"folds": folds, "seconds": result.seconds}


def _fold(sample: Sample, model: FittedModel, evaluation: Evaluation | None, seed: int) -> dict[str, Any]:
    solver = unwrapped(model.pipeline[-1])
    section = {
        "fold": model.fold,
        "seeds": {name: seed_for(seed, name, model.fold) for name in ("sample", "train")},
        "sample": _sample(sample),
        "search": model.search,
        "chosen": model.chosen,
        "solver": f"{type(solver).__module__}.{type(solver).__qualname__}",
        "params": solver.get_params(),
        "threshold": float(model.threshold),
        "certificate": {name: getattr(model, name) for name in ("objective", "dual_gap", "status", "n_iter")},
        "model_sha256": state_sha256([model.pipeline, model.calibrator]),
    }
    if len(chains(model.pipeline)) > 1:
        section["members"] = [_member(chain) for chain in chains(model.pipeline)]
    if evaluation is not None:
        section |= {
            "train": asdict(evaluation.train),
            "test": asdict(evaluation.test),
            "test_scores_sha256": evaluation.test_scores_sha256,
        }
    return plain(section)


def _sample(sample: Sample) -> dict[str, Any]:
    """Return what was drawn: the rows kept, by the digest of their numbers, and those made."""
    return {
        "scheme": sample.scheme,
        "kept_sha256": array_sha256(sample.rows),
        "n_kept": len(sample.rows),
        "added_sha256": None if sample.added is None else state_sha256([sample.added.X, sample.added.y]),
        "n_added": sample.n_added,
    }


def _member(chain: Pipeline) -> dict[str, Any]:
    """Return what one member of a committee was made with and how near to its optimum it is."""
    solver, names = unwrapped(chain[-1]), ("objective", "dual_gap", "status", "n_iter")
    return {
        "params": solver.get_params(),
        "certificate": {name: getattr(solver, f"{name}_", None) for name in names},
        "model_sha256": state_sha256(chain),
    }


def code_section(facts: Mapping[str, str], sections: Mapping[str, Any]) -> dict[str, Any]:
    """Return which code ran: the commit, what differed from it, the files themselves, and the user's own modules."""
    methods = [sections["method"]] if "method" in sections else sections["config"]["methods"]
    imported = own_modules(path for method in methods for path in import_paths(method))
    return {
        "version": facts["version_aucflow"],
        "commit": facts["git_commit"],
        "dirty": facts["git_dirty"],
        "dirty_diff_sha256": facts.get("git_diff_sha256"),
        "package_sha256": package_sha256(),
    } | ({"imported": imported} if imported else {})


def environment_section(facts: Mapping[str, str]) -> dict[str, Any]:
    """Return what the code ran on and with."""
    versions = {k.removeprefix("version_"): v for k, v in facts.items() if k.startswith("version_")}
    return {
        "lock_sha256": lock_sha256(),
        "python": versions.pop("python"),
        "platform": facts["platform"],
        "cpu": facts["machine"],
        "blas": blas(),
        "threads": {"workers": int(facts["workers"]), "blas": 1},
        "packages": versions,
    }


def artifact_sections(folders: Mapping[str, Path]) -> list[dict[str, Any]]:
    """Return path, size and digest of every file in some folders, under the names given to these; sorted."""
    found = {
        f"{name}/{path.relative_to(folder).as_posix()}": path
        for name, folder in folders.items()
        for path in folder.rglob("*")
        # a manifest is none of the files that it tells of, be it that of a first try to end the run
        if path.is_file() and not (name == "run" and path.relative_to(folder).as_posix() in (FILE, SIGNATURE))
    }
    return [
        {"path": name, "size_bytes": path.stat().st_size, "sha256": file_sha256(path)}
        for name, path in sorted(found.items())
    ]
