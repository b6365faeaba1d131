"""Fetch: a file of the catalogue into the cache, once, from a mirror or its publisher, with the digest of its contents.

The cache and every mirror are laid out ``<source>/<file>``. The cache holds a file plain, whatever it was packed in
on the way, so that one digest stands for it: of the contents, not of somebody's compression of them.
"""

import csv
import hashlib
import io
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from urllib.parse import quote, unquote

import pooch
import requests

from tasks.errors import BadInput, RunFailed
from tasks.files import file_sha256, is_page, locked
from tasks.progress import announce
from tasks.transfer import NoConnection, NotThere, Transfer, file_of, is_allowed, is_file
from tasks.unpack import unpack
from tasks.values import Remote

PACKED = (".bz2", ".gz", ".xz", ".zip")  # endings under which a mirror may hold a file, beside its plain name
RETRIES = 3
LOCK_S = 3600.0  # another process that fetches the same file gets that long
INDEX_BYTES = 64 << 20  # a mirror's index.csv is no longer than this

logger = logging.getLogger(__name__)
pooch.get_logger().setLevel(logging.WARNING)


@dataclass(frozen=True)
class Fetched:
    """A file in the cache.

    ``origin`` is the address it came from, mirror:PATH if from a folder, "cache" if it was there already.
    """

    path: Path
    origin: str
    sha256: str
    size_bytes: int
    before: Path | None = None  # where the file lies that it replaced, until `keep` or `take_back`


class Mismatch(RunFailed):
    """What came is not what was first fetched under this name."""


class Absent(BadInput):
    """Neither cache nor mirror has the file, and no publisher can be asked."""


def home() -> Path:
    """Return ``AUCFLOW_HOME``, by default ``aucflow`` in the user's cache folder."""
    return Path(os.environ.get("AUCFLOW_HOME") or pooch.os_cache("aucflow")).expanduser().absolute()


def cached(remote: Remote) -> Path:
    """Return where a file's plain contents lie once they have been fetched."""
    return home() / "data" / remote.path


def mirror() -> str | None:
    """Return ``AUCFLOW_MIRROR`` as an address without a slash at its end; a folder may be named plainly."""
    given = os.environ.get("AUCFLOW_MIRROR", "").rstrip("/")
    if not given:
        return None
    if "://" not in given:
        given = Path(given).expanduser().absolute().as_uri()
    if not is_allowed(given):
        raise BadInput(
            f"Expected AUCFLOW_MIRROR to be a folder, or an address that starts with https or file; got {given}."
        )
    return given


def fetch(remote: Remote, expected: str | None = None, offline: bool = False, accept: bool = False) -> Fetched:
    """Return a file from the cache, else from the mirror, else from its publisher.

    ``expected`` is the SHA-256 that its contents had when they were first fetched; ``accept`` takes other contents.

    Raises
    ------
    BadInput
        If the file is not there and may not, or cannot, be fetched; says where it may be put.
    RunFailed
        If what came is damaged or has another digest than ``expected``, or a server fails beyond the retries.
    """
    target = cached(remote)
    busy = f"{remote.path}: another process has been fetching it for an hour. Stop that one."
    try:
        if not accept and target.exists() and file_sha256(target) == expected:
            return Fetched(target, "cache", expected, target.stat().st_size)  # also where nothing may be written
        target.parent.mkdir(parents=True, exist_ok=True)
        with locked(Path(f"{target}.lock"), LOCK_S, lambda: busy):
            origin, before = "cache", None
            if accept:
                origin, before = _bring_anew(remote, target, offline)
            elif not target.exists():
                origin = _bring(remote, target, expected, offline)
            digest = file_sha256(target)
            if expected not in (None, digest) and not accept:
                raise Mismatch(
                    f"{remote.path}: expected contents with SHA-256 {expected}, as locked, got {digest} in the cache. "
                    f"Remove {target} to have it fetched again, or run `aucflow data get` with --update-lock to accept "
                    "what the mirror or the publisher has now, or this file if neither can be asked."
                )
            return Fetched(target, origin, digest, target.stat().st_size, before)
    except OSError as error:
        raise RunFailed(
            f"{remote.path}: expected to write {target.parent}, got: {error.strerror or error}. Set AUCFLOW_HOME."
        ) from None


def keep(file: Fetched) -> None:
    """Give up what a fetched file has replaced."""
    if file.before is not None:
        file.before.unlink(missing_ok=True)


def take_back(file: Fetched) -> None:
    """Have the cache as it was before a file was fetched, unless another process has fetched another since."""
    with locked(Path(f"{file.path}.lock"), LOCK_S, lambda: f"{file.path}: another process is fetching it."):
        is_this = file.path.exists() and file_sha256(file.path) == file.sha256
        if is_this and file.before is not None:
            os.replace(file.before, file.path)
        elif is_this:
            file.path.unlink()
        keep(file)


def _bring_anew(remote: Remote, target: Path, offline: bool) -> tuple[str, Path | None]:
    """Bring what is published now, whatever the cache holds; only where nobody has it, the cache's own is to do.

    Return where it came from, and where the file is kept that it replaced, if there was one.
    """
    before = None
    if target.exists():
        before = target.with_name(f"{target.name}.before")
        shutil.copyfile(target, before)
    try:
        return _bring(remote, target, None, offline), before
    except BaseException as error:
        if before is not None:
            before.unlink()
            if isinstance(error, Absent):
                return "cache", None
        raise


def _bring(remote: Remote, target: Path, expected: str | None, offline: bool) -> str:
    """Put a file's plain contents at ``target``; return the address that they came from."""
    causes, failed = [], False
    for url in _candidates(remote, target, offline):
        try:
            _take(url, remote, target, expected)
            logger.info("%s: fetched from %s", remote.path, url)
            return _origin(url)
        except Mismatch:
            raise
        except NoConnection as error:
            causes.append(f"{url}: {error}")
        except NotThere as error:
            if url in remote.urls:  # a mirror need not have it under each of its possible names
                causes.append(f"{url}: {error}")
                failed = True
        except (requests.RequestException, RunFailed, BadInput) as error:
            causes.append(f"{url}: {error}")
            failed = True
    if failed:
        raise RunFailed(f"{remote.path}: expected to fetch it, got {'; '.join(causes).rstrip('.')}. Try again later.")
    raise _missing(remote, target, offline)


def _origin(url: str) -> str:
    """Return an address as it can be told elsewhere: a folder that is a mirror here is none on another machine."""
    if not is_file(url):
        return url
    place = mirror()
    inside = place is not None and url.startswith(f"{place}/")
    return f"mirror:{unquote(url.removeprefix(f'{place}/'))}" if inside else f"cache:{file_of(url).name}"


def _candidates(remote: Remote, target: Path, offline: bool) -> Iterator[str]:
    """Yield the addresses to try: what the user put beside the target, the mirror, the publisher."""
    places = [f"{target.as_uri()}{ending}" for ending in PACKED]
    if place := mirror():
        places += [f"{place}/{quote(remote.path)}{ending}" for ending in ("", *PACKED)]
    yield from (url for url in places if (file_of(url).is_file() if is_file(url) else not offline))
    if not offline:
        yield from remote.urls


def _take(url: str, remote: Remote, target: Path, expected: str | None) -> None:
    """Transfer, unpack and verify one address's file; nothing but a verified file appears at ``target``.

    All that is unfinished lies in a folder beside it, of which a failure leaves what a transfer can go on from.
    """
    work = target.with_name(f"{target.name}.fetching")
    _sweep(work)  # what a killed process has left
    work.mkdir(exist_ok=True)
    packed, plain = work / target.name, work / f"{target.name}.plain"
    part = work / f"{hashlib.sha256(url.encode()).hexdigest()[:8]}.part"  # never to be gone on with from another place
    try:
        depot = pooch.Pooch(work, "", registry={packed.name: None}, urls={packed.name: url}, retry_if_failed=RETRIES)
        transfer = Transfer(part, partial(_tell, remote.path))
        depot.fetch(packed.name, downloader=transfer)
        _check_index(url, packed)
        # an .npz is a zip archive by itself
        member = None if target.suffix == ".npz" else remote.member or target.name
        unpack(packed, plain, member)
        _check_contents(url, remote, plain, expected)
        os.replace(plain, target)
        shutil.rmtree(work, ignore_errors=True)
    finally:
        _sweep(work)


def _sweep(work: Path) -> None:
    """Remove all but partial transfers, and the folder if that was all."""
    for path in list(work.glob("*")):
        if path.suffix not in (".part", ".etag"):
            path.unlink(missing_ok=True)
    with suppress(OSError):
        work.rmdir()


def _tell(path: str, done: int, total: int) -> None:
    announce("download", path, detail=f"{done / 1e6:.1f} of {total / 1e6:.1f} MB" if total else f"{done / 1e6:.1f} MB")


def _check_contents(url: str, remote: Remote, plain: Path, expected: str | None) -> None:
    with plain.open("rb") as stream:
        head = stream.read(1024)
    if not head.strip():
        raise RunFailed("expected data, got an empty file")
    if is_page(head):
        raise RunFailed("expected data, got a web page (an error page in place of the data?)")
    digest = file_sha256(plain)
    if expected not in (None, digest):
        raise Mismatch(
            f"{remote.path}: expected contents with SHA-256 {expected}, as locked, got {digest} from {url}. If the "
            "publisher changed the file and you accept that, run `aucflow data get` with --update-lock."
        )


def _check_index(url: str, packed: Path) -> None:
    """Compare a mirror's file with the digest in the mirror's own index.csv, if it has one that lists the file."""
    place = mirror()
    if place is None or not url.startswith(f"{place}/"):
        return
    listed = _index(place).get(unquote(url.removeprefix(f"{place}/")))
    digest = file_sha256(packed)
    if listed not in (None, digest):
        raise RunFailed(f"expected SHA-256 {listed}, as in the mirror's index.csv, got {digest}")


@lru_cache(maxsize=4)
def _index(place: str) -> dict[str, str]:
    """Return path -> SHA-256 of a mirror's index.csv, empty if it has none."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index.csv"
        try:
            Transfer(Path(folder) / "part", max_bytes=INDEX_BYTES)(f"{place}/index.csv", str(index))
            rows = list(csv.DictReader(io.StringIO(index.read_text(encoding="utf-8-sig"))))
        except NotThere:
            return {}
        except (UnicodeDecodeError, csv.Error) as error:
            raise RunFailed(f"expected the mirror's index.csv to be a table in UTF-8, got: {error}") from None
    if rows and not {"file", "sha256"} <= rows[0].keys():
        raise RunFailed(
            "expected columns file and sha256 in the mirror's index.csv, got others: mend it or remove it there"
        )
    return {row["file"]: row["sha256"].lower() for row in rows if row.get("file") and row.get("sha256")}


def _missing(remote: Remote, target: Path, offline: bool) -> Absent:
    reason = "--offline forbids to fetch it" if offline else "no publisher's address could be reached"
    place = mirror()
    place = f", which is {place} now," if place else ""
    published = f" It is published at {', '.join(remote.urls)}." if remote.urls else ""
    return Absent(
        f"{remote.path}: expected it in the cache or on a mirror, found it on neither, and {reason}. Put the file, "
        f"plain or packed as published, at {target}, or set AUCFLOW_MIRROR{place} to a folder that holds {remote.path}."
        f"{published}"
    )
