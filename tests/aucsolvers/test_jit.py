"""Kernels are cached where that is possible, and work where it is not."""

import os
import subprocess
import sys
from subprocess import PIPE

from aucsolvers._rows import _score_rows

DOUBLE = """
from aucsolvers._jit import kernel

@kernel()
def double(x):
    return x + x
"""
# Reads the kernel's index on a slow disk, so that the other process has the time to read it too before either writes.
SAVE = """
import sys
import time
from numba.core.caching import IndexDataCacheFile
from twice import double

fast = IndexDataCacheFile._load_index
IndexDataCacheFile._load_index = lambda self: (fast(self), time.sleep(0.5))[0]
input("imported")
double(eval(sys.argv[1]))
"""
LOAD = "from twice import double; print(double(3), double(1.5), len(double.stats.cache_hits))"
SCORE = "import numpy as np; from aucsolvers._rows import row_scores; print(row_scores(np.eye(2), np.array([3.0, 4])))"


def test_kernels_are_cached():
    assert _score_rows.stats.cache_path is not None


def test_an_installation_that_nobody_can_write_to_still_works(tmp_path):
    # numba may look for a cache folder in one place only, and there a file is in the way
    (tmp_path / "file").touch()
    folder = str(tmp_path / "file" / "cache")
    nowhere = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator", "NUMBA_CACHE_DIR": folder}
    done = subprocess.run([sys.executable, "-c", SCORE], env=os.environ | nowhere, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[3. 4.]\n", "")


def test_two_processes_that_save_signatures_of_one_kernel_at_once_keep_them_apart(tmp_path):
    (tmp_path / "twice.py").write_text(DOUBLE)
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
    saving = [
        subprocess.Popen([sys.executable, "-c", SAVE, number], stdin=PIPE, stdout=PIPE, text=True, env=environment)
        for number in ("3", "1.5")
    ]
    assert [process.stdout.read(len("imported")) for process in saving] == ["imported"] * 2
    for process in saving:
        print("go", file=process.stdin, flush=True)
    assert [process.wait() for process in saving] == [0, 0]
    done = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("6 3.0 2\n", "")
