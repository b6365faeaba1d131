"""Facts about where and with what a run was made: code, packages, machine."""

import getpass
import hashlib
import os
import platform
import subprocess
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_info

from tasks.files import file_sha256

ROOT = Path(__file__).resolve().parent.parent
OURS = ("aucsolvers", "tasks", "flows")
PACKAGES = ("mlflow", "prefect", "numpy", "scipy", "numba", "pandas", "scikit-learn", "imbalanced-learn", "skops")


def aucflow_version() -> str:
    """Return the installed version."""
    try:
        return version("aucflow")
    except PackageNotFoundError:
        return "unknown"


def user_name() -> str:
    """Return who runs this, as far as the system tells."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's numeric user may have no name
        return str(os.getuid())


def git_state() -> dict[str, str]:
    """Return commit, dirty flag and the digest of what differs from the commit, or say that there is no checkout.

    A virtual environment inside somebody else's repository must not lend us that repository's commit, so
    the answer counts only where git tracks this very file. Files that git does not track are no part of the digest;
    those of ours are of `package_sha256`.
    """
    if _git("ls-files", "--error-unmatch", __file__) is None:
        return {"git_commit": f"none (installed package {aucflow_version()})", "git_dirty": "unknown"}
    commit, status = _git("rev-parse", "HEAD") or b"none (no commit yet)", _git("status", "--porcelain")
    state = {"git_commit": commit.decode(), "git_dirty": "unknown" if status is None else str(bool(status)).lower()}
    if status:
        state["git_diff_sha256"] = hashlib.sha256(_git("diff", "HEAD", "--binary") or b"").hexdigest()
    return state


@cache
def package_sha256() -> str:
    """Return the digest of the code that runs: every Python file of ours, by name, checked out or installed."""
    digest = hashlib.sha256(b"aucflow package 1\n")
    for path in sorted(path for package in OURS for path in (ROOT / package).rglob("*.py")):
        digest.update(f"{path.relative_to(ROOT).as_posix()} {file_sha256(path)}\n".encode())
    return digest.hexdigest()


@cache
def lock_sha256() -> str:
    """Return the digest of everything installed, name and version: what a lock file fixes, as it really is."""
    folders = [Path(place) for place in sys.path if Path(place).is_dir()]
    found = sorted({path.name.lower() for folder in folders for path in folder.glob("*.dist-info")})
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


@cache
def blas() -> list[dict[str, Any]]:
    """Return the libraries that matrix products and threads come from, and how many threads each would use."""
    kept = ("internal_api", "version", "architecture", "threading_layer", "num_threads")
    found = [{name: library[name] for name in kept if library.get(name)} for library in threadpool_info()]
    return sorted(found, key=lambda library: sorted(map(str, library.values())))


def processor() -> str:
    """Return the processor's name: from Linux's own table, or as the system calls it."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text(encoding="utf-8", errors="replace").splitlines() if table.is_file() else ()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return next(iter(names), platform.processor() or platform.machine())


def _git(*arguments: str) -> bytes | None:
    """Return what git prints, None where it fails: a diff holds files in whatever encoding they have."""
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def environment() -> dict[str, str]:
    """Return versions of Python and of the packages that numbers depend on, and what machine this is."""
    found = {f"version_{name}": version(name) for name in PACKAGES}
    return found | {
        "version_aucflow": aucflow_version(),
        "version_python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": str(os.cpu_count()),
    }
