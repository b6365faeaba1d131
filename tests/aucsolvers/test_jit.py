"""Kernels are cached where that is possible, and work where it is not."""

import os
import shutil
import subprocess
import sys
import zipfile
from subprocess import PIPE

from aucsolvers import _jit as module
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


def test_a_kernel_is_compiled_anew_when_one_that_it_calls_has_changed(tmp_path):
    """Only its own file counted: after an update of the other, the old code ran on, and was replayed and audited."""
    package = tmp_path / "aucsolvers"
    package.mkdir()
    (package / "__init__.py").touch()
    shutil.copy(module.__file__, package)
    (package / "_adding.py").write_text(
        "from aucsolvers._jit import kernel\n@kernel()\ndef add(x):\n    return x + 1\n"
    )
    (package / "_between.py").write_text("from aucsolvers._adding import add\n")
    using = "from aucsolvers._jit import kernel\nfrom aucsolvers._between import add\n"
    (package / "using.py").write_text(using + "@kernel()\ndef twice(x):\n    return add(add(x))\n")

    def run():
        environment = os.environ | {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "kernels")}
        code = "from aucsolvers.using import twice; print(twice(1), len(twice.stats.cache_hits))"
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True
        )
        return done.stdout + done.stderr

    assert [run(), run()] == ["3 0\n", "3 1\n"]
    (package / "_adding.py").write_text((package / "_adding.py").read_text().replace("+ 1", "+ 2"))
    assert [run(), run()] == ["5 0\n", "5 1\n"]


def test_a_kernel_whose_source_is_no_file_works(tmp_path):
    with zipfile.ZipFile(tmp_path / "packed.zip", "w") as archive:
        archive.writestr("packed.py", DOUBLE)
    environment = os.environ | {
        "PYTHONPATH": str(tmp_path / "packed.zip"),
        "NUMBA_CACHE_DIR": str(tmp_path / "kernels"),
    }
    code = "from packed import double; print(double(3))"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("6\n", "")


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
