"""Files: their digests, their bytes (decompressed), their text, and what is recognisably not data."""

import bz2
import gzip
import hashlib
import json
import lzma
import os
import re
import secrets
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shlex import quote
from typing import IO, Any

from filelock import FileLock, Timeout

from tasks.errors import BadInput, RunFailed

COMPRESSIONS = (".gz", ".bz2", ".xz")  # endings of files that are
FORMATS_BY_ENDING = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".arff": "arff",
    ".npz": "npz",
}
STREAMS: dict[bytes, Callable[..., Any]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\x00": lzma.open}
MAX_RATIO = 200  # unpacked to packed, looked at from FREE_BYTES on: text compresses up to some 50 times
FREE_BYTES = 256 << 20
CHUNK = 1 << 20
MAX_COLUMNS = 100_000  # of a table; svmlight's matrices may be wider
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
UTF_8_MARK = b"\xef\xbb\xbf"
NO_FILE = "no file"  # in place of a digest

_PAGES = (b"<!doctype", b"<html", b"<head", b"<body", b"<script", b"<?xml", b"<!--")
_FOREIGN = {
    b"PAR1": "a Parquet file",
    b"PK\x03\x04": "a zip archive (gz, bz2 and xz are read as they are) or an Excel workbook",
    b"PK\x05\x06": "an empty zip archive",
    b"7z\xbc\xaf": "a 7-Zip archive",
    b"Rar!": "a RAR archive",
    b"(\xb5/\xfd": "a file compressed with Zstandard, which is not read",
    b"\x1f\x9d": "a file compressed with compress, which is not read",
    b"\x1f\x8b": "a file compressed twice",
    b"\xfd7zXZ\x00": "a file compressed twice",
    b"\x80\x02": "a pickled Python object",
    b"\x80\x03": "a pickled Python object",
    b"\x80\x04": "a pickled Python object",
    b"\x80\x05": "a pickled Python object",
    b"\xd0\xcf\x11\xe0": "an Excel workbook",
    b"%PDF": "a PDF document",
    b"\x89HDF": "an HDF5 file",
    b"\x93NUMPY": "a NumPy array",
    b"SQLite format 3": "an SQLite database",
    b"\x89PNG": "a picture",
    b"ARROW1\0\0": "an Arrow (Feather) file",
}
_JSON = re.compile(r'(\[\s*)?\{\s*"([^"\\]|\\.)*"\s*:')


def format_by_name(path: Path) -> str | None:
    """Return the data format that a file's ending names, that of a compression aside, or None."""
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return FORMATS_BY_ENDING.get(suffixes[-1]) if suffixes else None


def is_yaml(path: Path) -> bool:
    """Tell whether a file's ending is a config's."""
    return path.suffix.lower() in (".yaml", ".yml")


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give a file beside ``path`` that takes its place once the block has come to its end, and else is removed.

    A reader finds the old one or the new one, whole, and after a power cut too. Where there is a file already, its
    rights stay, and a link to it stays one.
    """
    target = Path(os.path.realpath(path))
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}.draft")
    try:
        yield draft
        if target.exists():
            shutil.copymode(target, draft)
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        os.replace(draft, target)
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            with suppress(OSError):  # some network's file systems know no such thing
                os.fsync(folder)
        finally:
            os.close(folder)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def locked(path: Path, patience_s: float, refusal: Callable[[], str]) -> Iterator[None]:
    """Hold a lock file while the block runs: one process at a time, and of a process one thread.

    Raises
    ------
    RunFailed
        If another holds it longer than ``patience_s``, in the words that ``refusal`` finds by then.
    """
    lock = FileLock(path, timeout=patience_s)
    try:
        lock.acquire()
    except Timeout:
        raise RunFailed(refusal()) from None
    try:
        yield
    finally:
        lock.release()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_or_reason(path: Path) -> str:
    """Return the SHA-256 of a file's bytes or, in words, why there is none to be had: no file, permission denied."""
    try:
        return file_sha256(path) if path.is_file() else NO_FILE
    except (FileNotFoundError, NotADirectoryError):  # since it was looked at
        return NO_FILE
    except OSError as error:  # a folder on the way may not be entered, a name is too long, a disk fails
        return reason_of(error)


def reason_of(error: OSError) -> str:
    """Return why a file may not be read or written, as the end of a sentence: permission denied, file name too long."""
    return (error.strerror or type(error).__name__).lower()


def is_there(path: Path) -> bool:
    """Tell whether something is at a path, if only a broken link; of what may not be looked at it is taken to be."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def brief(digest: str) -> str:
    """Return the beginning of a SHA-256, as sentences have it, or of what is said in its place, whatever that is."""
    return f"{digest[:16]}…" if is_sha256(digest) else digest[:60]


def is_sha256(text: str) -> bool:
    """Tell whether it is one, and no words in its place."""
    return re.fullmatch("[0-9a-f]{64}", text) is not None


@contextmanager
def decompressed(stream: IO[bytes]) -> Iterator[IO[bytes]]:
    """Open what a stream holds: itself, or what was compressed into it with gzip, bzip2 or xz."""
    magic = stream.read(6)
    stream.seek(0)
    opener = next((o for prefix, o in STREAMS.items() if magic.startswith(prefix)), None)
    if opener is None:
        yield stream
        return
    with opener(stream, "rb") as plain:
        yield plain


@contextmanager
def open_plain(path: Path) -> Iterator[IO[bytes]]:
    """Open a file's (decompressed) bytes; whatever cannot be read of it is BadInput."""
    try:
        with path.open("rb") as stream, decompressed(stream) as plain:
            yield plain
    except PermissionError:
        raise BadInput(f"{path.name}: expected a readable file, got: permission denied. Allow reading it.") from None
    except BadInput:
        raise
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        cause = str(error).rstrip(".")
        raise BadInput(
            f"{path.name}: expected a whole, readable file, got: {cause}. Fetch or compress the file again."
        ) from None


def read_bytes(path: Path, size: int | None = None) -> bytes:
    """Return a file's (decompressed) bytes, all or the first ``size``."""
    with open_plain(path) as stream:
        return stream.read(size) if size is not None else b"".join(bounded(stream, path))


def bounded(stream: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file's plain stream; raise BadInput where they go beyond what honest data unpack to."""
    size, packed_size = 0, path.stat().st_size
    while chunk := stream.read(CHUNK):
        size += len(chunk)
        if is_bomb(size, packed_size):
            raise BadInput(
                f"{path.name}: expected at most {MAX_RATIO} times its {packed_size:,} bytes when unpacked, got more "
                f"than {size:,}. Unpack it yourself if you trust it."
            )
        yield chunk


def is_bomb(size: int, packed_size: int) -> bool:
    """Tell whether so many bytes are more than honest data of the packed size unpack to."""
    return size > FREE_BYTES and size > MAX_RATIO * packed_size


def read_text(path: Path) -> str:
    """Return a text file's contents with lines ended by a newline each."""
    data = read_bytes(path)
    refuse_foreign(data[:1024], path.name)
    encoding = encoding_of(data)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise undecodable(path.name, encoding, data[: error.start].count(b"\n") + 1, data[error.start]) from None
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        raise zero_byte(path.name, text.count("\n", 0, text.index("\0")) + 1)
    return text


def encoding_of(head: bytes) -> str:
    """Return the encoding that a text's byte-order mark names; without one it is UTF-8."""
    return "utf-16" if head[:2] in UTF_16_MARKS else "utf-8-sig"


def undecodable(name: str, encoding: str, line: int, byte: int) -> BadInput:
    """Return the error for a byte that is no text."""
    if encoding == "utf-16":
        return BadInput(f"{name}: expected UTF-16 text, as its mark says, got broken pairs of bytes. Write it again.")
    known = "CP1252" if 0x80 <= byte <= 0x9F else "LATIN1"  # which has nothing there
    return BadInput(
        f"{name}, line {line}: expected UTF-8 text, got byte 0x{byte:02x}. Convert the file, for example: "
        f"{_iconv(known, name)}"
    )


def _iconv(encoding: str, name: str) -> str:
    return f"iconv -f {encoding} -t UTF-8 {quote(name)} > {quote(f'utf8-{name}')}"


def _is_json(head: bytes) -> bool:
    """Tell whether a file starts as JSON: with an object, or a list of them, and not with a cell that holds one."""
    text = head.removeprefix(UTF_8_MARK).decode(errors="replace").lstrip()
    if not _JSON.match(text):
        return False
    try:
        _, end = json.JSONDecoder().raw_decode(text)
    except ValueError:  # it goes on behind the head
        return True
    return text[end:].lstrip(" ")[:1] in ("", "\r", "\n", "{")


def _wide_encoding(head: bytes) -> str | None:
    """Return the encoding of text whose characters have two or four bytes and no mark of UTF-16, by where zeros are."""
    if head.startswith((b"\xff\xfe\0\0", b"\0\0\xfe\xff")):
        return "UTF-32"
    first, second = head[:64:2], head[1:64:2]
    if len(second) < 4 or head[:2] in UTF_16_MARKS:
        return None
    if 0 not in first and not any(second):
        return "UTF-16LE"
    return "UTF-16BE" if 0 not in second and not any(first) else None


def zero_byte(name: str, line: int) -> BadInput:
    """Return the error for a zero byte, which no text has."""
    return BadInput(f"{name}, line {line}: expected text, got a zero byte. Name the format if this is a binary one.")


def refuse_width(n_columns: int, name: str, place: str = "") -> None:
    """Refuse a table of more columns than a table has: it is one line that should be many, or a matrix."""
    if n_columns > MAX_COLUMNS:
        raise BadInput(
            f"{name}{place}: expected at most {MAX_COLUMNS:,} columns, got {n_columns:,}. If the file is all one line, "
            "break it into rows; if its rows are that wide and mostly zero, write them as svmlight."
        )


def is_page(head: bytes) -> bool:
    """Tell whether a file starts as web pages and XML answers do."""
    return head.removeprefix(UTF_8_MARK).lstrip()[:16].lower().startswith(_PAGES)


def refuse_foreign(head: bytes, name: str) -> None:
    """Refuse what is recognisably another kind of file: an office document, a web page in place of the data."""
    kind = next((kind for magic, kind in _FOREIGN.items() if head.startswith(magic)), None)
    if head[257:262] == b"ustar":
        kind = "a tar archive"
    if is_page(head):
        kind = "a web page (an error page in place of the data?)"
    if _is_json(head):
        kind = "a JSON document"
    if encoding := _wide_encoding(head):
        raise BadInput(
            f"{name}: expected UTF-8 text, or UTF-16 with its mark, got what looks like {encoding}. Convert the file, "
            f"for example: {_iconv(encoding, name)}"
        )
    if kind is not None:
        raise BadInput(f"{name}: expected text data, got {kind}. Export it as CSV, or name the right format and file.")
