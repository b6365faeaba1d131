"""How the kernels are compiled: cached on disk, or in memory where no folder can be written.

They are written as loops: numba takes a second or so to compile NumPy's functions of whole arrays (min, mean, cumsum,
flatnonzero), for each type anew.
"""

import hashlib
import logging
import re
from functools import cache
from pathlib import Path

from filelock import FileLock
from numba import njit
from numba.core.caching import FunctionCache, IndexDataCacheFile

logger = logging.getLogger(__name__)

LONGEST_CALL = 2**26  # multiply-adds of a kernel between two looks at signals: some hundredths of a second
HERE = Path(__file__).parent
IMPORTED = re.compile(rb"^ *from aucsolvers(?:\.(\w+) import|  *import (\w+))", re.MULTILINE)


class KernelCache(FunctionCache):
    """numba's cache of a kernel, which knows all the source that a kernel is made of.

    A kernel holds the code of those that it calls. numba asks whether its own file has changed; here it is compiled
    anew when any file has that its own one imports, directly or not.

    Processes that save at once wait for each other. Without that, two that save the first signatures of one kernel, of
    dense and of CSR rows say, may both call their code file 1 of the kernel, and the one signature then loads the
    other's code, for good.
    """

    def __init__(self, function):
        super().__init__(function)
        try:
            stamp = digest_of_sources(Path(function.__code__.co_filename))
        except OSError:  # the source is no file, but in an archive or a notebook: numba's own stamp stays
            return
        self._cache_file = IndexDataCacheFile(self.cache_path, self._impl.filename_base, stamp)

    def save_overload(self, sig, data):
        """Save the code compiled for a signature, alone in the folder, which may be several users'."""
        with FileLock(Path(self.cache_path) / "aucsolvers.lock", mode=0o666):
            super().save_overload(sig, data)


def digest_of_sources(path):
    """Return the SHA-256 of a file and of the modules of this package that it imports, directly or not.

    They are read once: what a process has imported is what they were then.
    """
    own, todo = _read(path)
    known, todo = {path: own}, list(todo)
    while todo:
        path = todo.pop()
        if path not in known:
            known[path], imported = _read_once(path)
            todo += imported
    return hashlib.sha256(b"".join(known.values())).hexdigest()


def _read(path):
    """Return the digest of a file, and the modules of this package that it imports."""
    source = path.read_bytes()
    names = (b"".join(pair).decode() for pair in IMPORTED.findall(source))
    imported = (HERE / f"{name}.py" for name in names)
    return hashlib.sha256(source).digest(), tuple(path for path in imported if path.exists())


_read_once = cache(_read)


def kernel(**options):
    """Return the decorator ``njit(cache=True, nogil=True, **options)``, which also works without a place for the cache.

    numba raises RuntimeError at import where neither the installation's folder nor the user's cache folder can be
    written (containers, system accounts). Such a process compiles its kernels itself; NUMBA_CACHE_DIR avoids that.
    """

    def compile_later(function):
        compiled = njit(nogil=True, **options)(function)
        try:
            compiled._cache = KernelCache(function)
        except RuntimeError as reason:  # from the search for a cache folder: nothing is compiled before the first call
            logger.info("compiling in memory: %s", reason)
        return compiled

    return compile_later
