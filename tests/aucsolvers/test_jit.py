"""Kernels are cached where that is possible, and work where it is not."""

import os
import subprocess
import sys

from aucsolvers._rows import _score_rows

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
