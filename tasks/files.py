"""Files: their digests, their bytes (decompressed), their text, and what is recognisably not data."""

import bz2
import gzip
import hashlib
import lzma
import zlib
from pathlib import Path

from tasks.errors import BadInput

_COMPRESSED = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
_FOREIGN = {
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a zip archive or an Excel workbook",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"%PDF": "a PDF document",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array",
    b"SQLite format 3": "an SQLite database",
    b"\x89PNG": "a picture",
}


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def read_bytes(path: Path, size: int = -1) -> bytes:
    """Return a file's (decompressed) bytes, all or the first ``size``."""
    try:
        with path.open("rb") as stream:
            magic = stream.read(6)
        opener = next((o for prefix, o in _COMPRESSED.items() if magic.startswith(prefix)), open)
        with opener(path, "rb") as stream:
            return stream.read(size)
    except PermissionError:
        raise BadInput(f"{path.name}: expected a readable file, got: permission denied. Allow reading it.") from None
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        cause = str(error).rstrip(".")
        raise BadInput(
            f"{path.name}: expected a whole, readable file, got: {cause}. Fetch or compress the file again."
        ) from None


def read_text(path: Path) -> str:
    """Return a text file's contents with lines ended by a newline each."""
    data = read_bytes(path)
    refuse_foreign(data[:1024], path.name)
    encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise BadInput(
            f"{path.name}, line {line}: expected UTF-8 text, got byte 0x{data[error.start]:02x}. "
            f"Convert the file, for example: iconv -f LATIN1 -t UTF-8 {path.name} > utf8-{path.name}"
        ) from None
    if "\0" in text:
        raise BadInput(
            f"{path.name}, line {text[: text.index(chr(0))].count(chr(10)) + 1}: expected text, got a zero byte. "
            "Name the format if this is a binary one."
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def refuse_foreign(head: bytes, name: str) -> None:
    """Refuse what is recognisably another kind of file: an office document, a web page in place of the data."""
    kind = next((kind for magic, kind in _FOREIGN.items() if head.startswith(magic)), None)
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()[:14].lower()
    if start.startswith((b"<!doctype html", b"<html")):
        kind = "a web page (an error page in place of the data?)"
    if kind is not None:
        raise BadInput(f"{name}: expected text data, got {kind}. Export it as CSV, or name the right format and file.")
