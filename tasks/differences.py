"""Differences: what two trees of values, such as two manifests, do not have in common; by place, with both values.

`aucflow diff` asks it of two runs: data, code, environment, parameters and results, in that order, for the first that
differs is the likeliest cause of what follows. `aucflow replay` asks it of a run and of the same computed again.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import zip_longest
from typing import Any

from tasks.configuration import MethodConfig
from tasks.errors import BadInput

SECTIONS = ("data", "code", "environment", "parameters", "results")
DIGEST = re.compile(r"[0-9a-f]{64}")
LONGEST = 48  # characters of a value that is shown
MOST_MEMBERS = 3  # of a list that is shown
NO_PARAMETERS = ("datasets", "methods", "name")  # of a config: told as data, as methods, and as the run's name
TELLING = ("test", "threshold", "chosen", "sample", "certificate")  # of what came of a fold
ASKED = ("seeds", "solver", "params")  # of a fold's section


class Missing(Enum):
    """What stands where one of the trees has nothing; null is a value."""

    MISSING = "–"


MISSING = Missing.MISSING


@dataclass(frozen=True)
class Difference:
    """One place at which two trees differ."""

    path: tuple[str, ...]
    first: Any
    second: Any

    @property
    def place(self) -> str:
        return ".".join(self.path)

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON; a side that has nothing there is left out."""
        sides = {"first": self.first, "second": self.second}
        return {"place": self.place} | {side: value for side, value in sides.items() if value is not MISSING}


def differences(first: Any, second: Any, path: tuple[str, ...] = ()) -> Iterator[Difference]:
    """Yield where two trees of JSON values differ, in the order of the first.

    >>> [d.place for d in differences({"a": [{"b": 1}], "c": 2}, {"a": [{"b": 3}], "c": 2})]
    ['a.0.b']
    """
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        for key in [*first, *(key for key in second if key not in first)]:
            yield from differences(first.get(key, MISSING), second.get(key, MISSING), (*path, str(key)))
    elif _is_branch(first) and _is_branch(second):
        for place, pair in enumerate(zip_longest(first, second, fillvalue=MISSING)):
            yield from differences(*pair, (*path, str(place)))
    elif not is_same(first, second):
        yield Difference(path, first, second)


def _is_branch(value: Any) -> bool:
    """Tell whether a list is one of parts, each with a place of its own; one of numbers or words is a value."""
    return isinstance(value, list) and any(isinstance(member, (Mapping, list)) for member in value)


def is_same(first: Any, second: Any) -> bool:
    """Tell whether two values are equal to the last bit; True is not 1, and 1 is not 1.0.

    >>> is_same([1, 2.0], [1, 2.0]), is_same(1, 1.0), is_same(0.0, -0.0)
    (True, False, False)
    """
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(is_same, first, second))
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(is_same(first[key], second[key]) for key in first)
    return type(first) is type(second) and repr(first) == repr(second)


# Manifests --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Comparison:
    """What two manifests do not have in common, section by section."""

    sections: dict[str, tuple[Difference, ...]]

    @property
    def is_identical(self) -> bool:
        return not any(self.sections.values())


def compare(first: Mapping[str, Any], second: Mapping[str, Any]) -> Comparison:
    """Compare the manifests of two runs, or of two experiments.

    What no two runs share says nothing and is left out: ids, times, and the artifacts, which hold such.
    """
    ours, theirs = sections(first), sections(second)
    return Comparison({name: tuple(differences(ours[name], theirs[name])) for name in SECTIONS})


def sections(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is compared of a manifest, under the names of the sections."""
    run = manifest["run"]
    tell = _experiment if manifest["kind"] == "experiment" else _cell
    try:
        own, environment = tell(manifest), _environment(manifest.get("environment", {}))
    except (KeyError, TypeError, AttributeError) as error:
        raise BadInput(
            f"Expected the manifest of {run['name']} ({run['run_id'][:8]}) to be whole, got one in which something is "
            f"missing or another: {error!r}. Restore it from a copy."
        ) from None
    parameters = {k: v for k, v in manifest.get("config", {}).items() if k not in NO_PARAMETERS}
    return {
        "data": own["data"],
        "code": manifest.get("code", {}),
        "environment": environment,
        "parameters": own["parameters"] | parameters,
        "results": {"status": run["status"], "reason": run.get("reason")} | own["results"],
    }


def _environment(environment: Mapping[str, Any]) -> dict[str, Any]:
    """Return it with its libraries in one order, for they stand in that in which they were loaded."""
    return dict(environment) | {"blas": sorted(environment.get("blas", []), key=repr)}


def _cell(manifest: Mapping[str, Any]) -> dict[str, Any]:
    metrics, folds = manifest.get("store", {}).get("metrics", {}), manifest.get("folds", [])
    fitted = {name: folds[-1].get(name) for name in ("solver", "params")} if folds else {}
    splits = {fold_name(split["fold"]): split for split in manifest.get("splits", [])}
    return {
        "data": dict(manifest.get("data", {})) | {"splits": splits},
        "parameters": {"method": manifest.get("method", {}), "fitted": fitted, "seeds": manifest.get("seeds", {})},
        "results": _last({name: metric for name, metric in metrics.items() if name.endswith("_mean")})
        | {fold_name(fold["fold"]): _outcome(fold) for fold in folds},
    }


def _outcome(fold: Mapping[str, Any]) -> dict[str, Any]:
    """Return what came of a fold, the most telling first; what it was asked for is among the parameters."""
    names = [*(name for name in TELLING if name in fold), *(name for name in fold if name not in TELLING)]
    return {name: fold[name] for name in names if name not in ASKED}


def _experiment(manifest: Mapping[str, Any]) -> dict[str, Any]:
    methods = manifest.get("config", {}).get("methods", [])
    cells = manifest.get("cells", [])
    return {
        "data": {data["name"]: data for data in manifest.get("data", [])},
        "parameters": {"methods": {MethodConfig.model_construct(**method).label: method for method in methods}},
        "results": {"cells": {f"{cell['dataset']} {cell['method']}": {"error": cell["error"]} for cell in cells}}
        | _last(manifest.get("store", {}).get("metrics", {})),
    }


def _last(metrics: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {name: metric["last"] for name, metric in sorted(metrics.items())}


def fold_name(fold: int) -> str:
    """Return what a fold is called; the last one is the refit on all rows."""
    return "refit" if fold < 0 else f"fold {fold + 1}"


# In words ---------------------------------------------------------------------------------------------------------


def in_words(difference: Difference) -> str:
    """Return a difference on one line: both values, and for numbers how far apart they are.

    >>> in_words(Difference(("test", "auc"), 0.5, 0.75))
    'test.auc: 0.5 → 0.75 (+0.25)'
    """
    first, second = difference.first, difference.second
    told = shown(first), shown(second)
    if isinstance(first, str) and isinstance(second, str) and told[0] == told[1]:
        told = _about_the_difference(first, second)
    words = f"{difference.place}: {told[0]} → {told[1]}"
    return f"{words} ({second - first:+.3g})" if isinstance(first, float) and isinstance(second, float) else words


def shown(value: Any) -> str:
    """Return a value as a person reads it: digests and long lists shortened.

    >>> shown(list(range(100))), shown("0" * 64), shown({"a": 1, "b": 2})
    ('[0, 1, 2, … 100 in all]', '000000000000…', '{a, b}')
    """
    if value is MISSING:
        return MISSING.value
    if value is None:
        return "none"
    if isinstance(value, str):
        return f"{value[:12]}…" if DIGEST.fullmatch(value) else _cut(value or "''")
    if isinstance(value, Mapping):
        return _cut(f"{{{', '.join(map(str, value))}}}")
    if isinstance(value, (list, tuple)):
        more = [f"… {len(value)} in all"] if len(value) > MOST_MEMBERS else []
        return _cut(f"[{', '.join([*map(shown, value[:MOST_MEMBERS]), *more])}]", 3 * LONGEST)
    return str(value)


def _about_the_difference(first: str, second: str) -> tuple[str, str]:
    """Return two texts, or digests, that begin alike, from a little before where they part.

    >>> _about_the_difference("a long way to " * 4 + "Rome", "a long way to " * 4 + "Oslo")
    ('…long way to Rome', '…long way to Oslo')
    """
    same = next(
        (i for i, (a, b) in enumerate(zip(first, second, strict=False)) if a != b), min(len(first), len(second))
    )
    start = max(0, same - LONGEST // 4)
    lead = "…" if start else ""
    return lead + _cut(first[start:]), lead + _cut(second[start:])


def _cut(text: str, most: int = LONGEST) -> str:
    return text if len(text) <= most else f"{text[:most]}…"
