"""Claims: how far a computation on this machine has to agree with a recorded one, and why no further.

The same code, packages, Python, processor and BLAS give the same bits. If any of them differs, sums may be added in
another order, or functions rounded differently, and only a tolerance can be promised.
"""

import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tasks.facts import blas, environment, lock_sha256, package_sha256, processor
from tasks.imported import changed_modules

ALIKE = "code, installed packages, Python, processor and BLAS are those of the run"


@dataclass(frozen=True)
class Claim:
    """What can be claimed: to the last bit if there is no reason against it, else within a tolerance."""

    reasons: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        return not self.reasons

    @property
    def kind(self) -> str:
        return "exact" if self.is_exact else "within tolerance"

    @property
    def because(self) -> str:
        return ALIKE if self.is_exact else "; ".join(self.reasons)


def claim_of(manifest: Mapping[str, Any]) -> Claim:
    """Return what can be claimed of the run of a manifest, computed again by this code on this machine."""
    recorded = manifest["environment"]
    then = {
        "the code": (_short(manifest["code"].get("package_sha256")), _short(package_sha256())),
        "Python": (recorded.get("python"), platform.python_version()),
        "the system": (_system(recorded.get("platform")), _system(platform.platform())),
        "the processor": (_processor(recorded.get("cpu")), processor()),
        "BLAS": (_libraries(recorded.get("blas")), _libraries(blas())),
    }
    reasons = [f"{what} is {now}, was {before}" for what, (before, now) in then.items() if before != now]
    if recorded.get("lock_sha256") != lock_sha256():
        reasons.append(_packages(recorded.get("packages") or {}))
    reasons += [f"the module {name} is another" for name in changed_modules(manifest["code"].get("imported") or {})]
    return Claim(tuple(reasons))


def _short(digest: Any) -> str:
    return f"{str(digest)[:12]}…"


def _system(name: Any) -> str:
    """Return a system's name without the number of its kernel, which computes nothing."""
    return re.sub(r"^(\w+)-.*-(\w+)-with-(\S+)$", r"\1 \2 \3", str(name))


def _processor(cpu: Any) -> str:
    """Return a processor's name without the number of its cores: every fit has one thread."""
    return re.sub(r", \d+ cores$", "", str(cpu))


def _libraries(found: Any) -> str:
    """Return the libraries that multiply matrices; those that only start threads compute nothing."""
    kept = ("internal_api", "version", "architecture")
    named = {
        " ".join(str(one.get(name)) for name in kept) for one in found or () if one.get("internal_api") != "openmp"
    }
    return ", ".join(sorted(named)) or "none"


def _packages(recorded: Mapping[str, Any]) -> str:
    """Return which of the packages that numbers come from are others, if it is these."""
    changed = ", ".join(_changes(recorded))
    return f"packages are others: {changed}" if changed else "other packages are installed, though not for the numbers"


def _changes(recorded: Mapping[str, Any]) -> Iterator[str]:
    now = {name.removeprefix("version_"): version for name, version in environment().items()}
    for name, version in recorded.items():
        if now.get(name) != version:
            yield f"{name} {now.get(name, 'gone')}, was {version}"
