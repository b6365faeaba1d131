"""Watching a data file: a change is one of content, and it counts once it has stood still for two looks.

A file that is still being written grows from look to look, so half of it starts nothing. One that is written anew with
the same content, touched or moved has another time and the same digest, and starts nothing either.
"""

import stat
from dataclasses import dataclass
from pathlib import Path

from tasks.files import is_sha256, sha256_or_reason


@dataclass(frozen=True)
class Snapshot:
    """What the system knows of a file without reading it; whatever writes to it changes one of these."""

    size_bytes: int
    modified_ns: int
    changed_ns: int  # unlike the time of modification it cannot be set back
    inode: int


def snapshot(path: Path) -> Snapshot | None:
    """Return how a file stands now; None if there is none, or none that can be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):  # of a pipe nobody knows when there is something to read
        return None
    return Snapshot(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


class FileWatch:
    """One file, looked at again and again; ``sha256`` is the content that is known already.

    ``fault`` says in words why the last look found nothing that can be read; it is empty where there is something.
    """

    def __init__(self, path: Path, sha256: str | None = None):
        self.path = path
        self.sha256 = sha256
        self.fault = ""
        self._last: Snapshot | None = None  # at the last look
        self._read: Snapshot | None = None  # when its content was last read

    def look(self) -> str | None:
        """Return the digest of a content that is new and has settled, once; None otherwise."""
        now, before = snapshot(self.path), self._last
        self._last = now
        if now is not None and now == self._read:
            self.fault = ""
            return None
        if now is not None and now != before:
            return None
        sha256 = sha256_or_reason(self.path)
        self.fault = "" if is_sha256(sha256) else sha256
        if now is None or self.fault:
            return None
        if snapshot(self.path) != now:  # written to while it was read
            return None
        self._read = now
        if sha256 == self.sha256:
            return None
        self.sha256 = sha256
        return sha256
