"""Unpack: what a publisher compressed or archived, into the one plain file that readers take.

An archive is never extracted by the names in it: the bytes of one member are written to a file that we name. Streams
end at a size and at a ratio that no honest table of numbers reaches.
"""

import lzma
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from tasks.errors import RunFailed
from tasks.files import CHUNK, MAX_RATIO, decompressed, is_bomb

MAX_BYTES = 64 << 30

_BY_DECODERS = (zlib.error, lzma.LZMAError, zipfile.BadZipFile, tarfile.TarError)
# KeyError: a link in a tar archive to a member that is not there
_DAMAGED = (*_BY_DECODERS, OSError, EOFError, ValueError, KeyError, OverflowError, MemoryError)


def unpack(packed: Path, target: Path, member: str | None = None) -> None:
    """Write the plain contents of ``packed``, or of the ``member`` of an archive, to ``target``.

    Raises
    ------
    RunFailed
        If the file is damaged, unpacks to more than it may, or is an archive without that member, with several files
        and no member named, or with a member whose path leaves the archive.
    """
    try:
        with _plain(packed, member) as stream, target.open("wb") as out:
            _copy_bounded(stream, out, packed)
    except RunFailed:
        raise
    except (*_DAMAGED, NotImplementedError, RuntimeError) as error:  # zipfile: an encrypted or exotic member
        raise RunFailed(
            f"{packed.name}: expected a whole file, got: {str(error).rstrip('.')}. Fetch it again."
        ) from None


@contextmanager
def _plain(packed: Path, member: str | None) -> Iterator[IO[bytes]]:
    """Open the innermost contents: a compressed stream, a member of an archive, a compressed member."""
    with packed.open("rb") as file:
        magic = file.read(6)
    if magic.startswith((b"PK\x03\x04", b"PK\x05\x06")) and member is not None:
        with zipfile.ZipFile(packed) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]  # one that is damaged may be empty
            with archive.open(_member(names, member, packed.name)) as inner, decompressed(inner) as plain:
                yield plain
    elif member is not None and _is_tar(packed):
        with _decompressed_copy(packed) as whole, tarfile.open(fileobj=whole) as tar:
            names = [info.name for info in tar.getmembers() if not info.isdir()]
            stream = tar.extractfile(_member(names, member, packed.name))
            if stream is None:
                raise RunFailed(f"{packed.name}: expected '{member}' to be a file, got a link or a device.")
            with stream, decompressed(stream) as plain:
                yield plain
    else:
        with packed.open("rb") as file, decompressed(file) as plain:
            yield plain


@contextmanager
def _decompressed_copy(packed: Path) -> Iterator[IO[bytes]]:
    """Open a copy without compression: to list a tar archive is to read all of it, so that has to be bounded too."""
    with tempfile.TemporaryFile(dir=packed.parent) as whole:
        with packed.open("rb") as stream, decompressed(stream) as plain:
            _copy_bounded(plain, whole, packed)
        whole.seek(0)
        yield whole


def _is_tar(packed: Path) -> bool:
    """Tell whether the contents are a tar archive; tarfile itself takes a file of zeros for an empty one."""
    with packed.open("rb") as stream, decompressed(stream) as plain:
        return plain.read(512)[257:262] == b"ustar"


def _member(names: list[str], wanted: str, file: str) -> str:
    """Return the archive's name of the wanted file: in full, or its last part if only one file is called so."""
    for name in names:
        path = PurePosixPath(name.replace("\\", "/"))
        if path.is_absolute() or ".." in path.parts or ":" in "".join(path.parts[:1]):
            raise RunFailed(f"{file}: expected paths inside the archive, got '{name}'. It is not unpacked.")
    matches = [n for n in names if n == wanted] or [n for n in names if PurePosixPath(n).name == wanted]
    if len(matches) != 1:
        listed = ", ".join(sorted(names)[:10])
        raise RunFailed(f"{file}: expected one file '{wanted}' in the archive, got {len(matches)} (it holds {listed}).")
    return matches[0]


def _copy_bounded(stream: IO[bytes], out: IO[bytes], packed: Path) -> None:
    size, packed_size = 0, packed.stat().st_size
    free = shutil.disk_usage(packed.parent).free
    while chunk := stream.read(CHUNK):
        size += len(chunk)
        if size > min(MAX_BYTES, free) or is_bomb(size, packed_size):
            raise RunFailed(
                f"{packed.name}: expected at most {MAX_RATIO} times its {packed_size:,} bytes, or the free disk, when "
                f"unpacked, got more than {size:,}. It is not used."
            )
        out.write(chunk)
