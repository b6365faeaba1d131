"""Where the numbers were taken: the machine in words, and what its processor and memory can do at most."""

import datetime
import os
import platform
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numba
import numpy as np
import scipy
import sklearn
from scipy.linalg import blas
from threadpoolctl import threadpool_info


def describe() -> dict[str, str]:
    """Return what a reader needs to judge the numbers, and nothing that names the machine or its user.

    Processors of one name differ by more than a factor of two: their speed tells two tables apart.
    """
    return {
        "date": datetime.date.today().isoformat(),
        "processor": f"{_processor()}, {os.cpu_count()} cores visible",
        "load": _load(),
        "memory": _memory(),
        "speed": _speed(),
        "system": f"{platform.system()} {platform.release()}, {platform.machine()}",
        "Python": platform.python_version(),
        "libraries": f"NumPy {np.__version__}, SciPy {scipy.__version__}, numba {numba.__version__}, "
        f"scikit-learn {sklearn.__version__}",
        "BLAS": ", ".join(sorted({_blas(library) for library in threadpool_info() if library["user_api"] == "blas"})),
        "C compiler": compiler() or "none found",
    }


def compiler() -> str | None:
    """Return the first line that ``cc --version`` prints, or None if there is no cc."""
    try:
        shown = subprocess.run(["cc", "--version"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    return shown.splitlines()[0].strip()


def _processor() -> str:
    try:
        found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        found = None
    return found.group(1).strip() if found else platform.processor() or platform.machine()


def _load() -> str:
    """Return what else the machine was doing: near 0 if nothing, and numbers taken at more are to be taken again."""
    return f"load average {os.getloadavg()[0]:.1f} before the run"


def _speed() -> str:
    near, far, memory = (bandwidth(2**exponent) / 1e9 for exponent in (18, 23, 28))
    reading = f"reads {near:.0f} GB/s of 256 KiB, {far:.0f} of 8 MiB, {memory:.0f} of 256 MiB"
    return f"one thread: {peak_flops() / 1e9:.0f} GFlop/s in a matrix product; {reading}"


def _memory() -> str:
    try:
        return f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
    except (ValueError, OSError):
        return "unknown"


def _blas(library: dict) -> str:
    return f"{library['internal_api']} {library['version']} ({library.get('architecture', 'unknown kernel')})"


def peak_flops() -> float:
    """Return multiply-adds x 2 per second of one thread, as the BLAS's matrix product reaches them."""
    n = 768
    a = np.asfortranarray(np.ones((n, n)))
    return 2.0 * n**3 / _least_seconds(lambda: blas.dgemm(1.0, a, a))


def bandwidth(size_bytes: int) -> float:
    """Return bytes per second that one thread reads from a block of this size, read again and again."""
    x = np.ones(max(64, size_bytes // 8))
    calls = max(1, 2**22 // len(x))  # some 4 million numbers at a time, or the call would be measured

    def read() -> None:
        for _ in range(calls):
            blas.ddot(x, x)

    return 8.0 * len(x) * calls / _least_seconds(read)


def _least_seconds(call: Callable[[], object], repeats: int = 7) -> float:
    call()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
