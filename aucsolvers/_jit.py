"""How the kernels are compiled: cached on disk, or in memory where no folder can be written.

They are written as loops: numba takes a second or so to compile NumPy's functions of whole arrays (min, mean, cumsum,
flatnonzero), for each type anew.
"""

import logging

from numba import njit

logger = logging.getLogger(__name__)


def kernel(**options):
    """Return the decorator ``njit(cache=True, nogil=True, **options)``, which also works without a place for the cache.

    numba raises RuntimeError at import where neither the installation's folder nor the user's cache folder can be
    written (containers, system accounts). Such a process compiles its kernels itself; NUMBA_CACHE_DIR avoids that.
    """

    def compile_later(function):
        try:
            return njit(cache=True, nogil=True, **options)(function)
        except RuntimeError as reason:  # from the search for a cache folder: nothing is compiled before the first call
            logger.info("compiling in memory: %s", reason)
            return njit(nogil=True, **options)(function)

    return compile_later
