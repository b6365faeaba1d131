"""Facts about where and with what a run was made: code, packages, machine."""

import getpass
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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
    """Return commit and dirty flag of aucflow's own checkout, or say that it runs from an installed package.

    A virtual environment inside somebody else's repository must not lend us that repository's commit, so
    the answer counts only where git tracks this very file.
    """
    if _git("ls-files", "--error-unmatch", __file__) is None:
        return {"git_commit": f"none (installed package {aucflow_version()})", "git_dirty": "unknown"}
    commit = _git("rev-parse", "HEAD") or "none (no commit yet)"
    return {"git_commit": commit, "git_dirty": str(bool(_git("status", "--porcelain"))).lower()}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
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
