"""Transfer: the bytes behind an address, into a file. Resumed where the server allows it, and never endless.

Only https, files, and http to this machine are followed, redirects included. What may pass if it is tried again raises
a ``requests`` exception, which pooch retries; what will not raises `RunFailed`.
"""

import ipaddress
import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.parse import unquote, urljoin, urlsplit

import requests
from urllib3.exceptions import HTTPError, LocationParseError, NewConnectionError
from urllib3.util import parse_url

from tasks.errors import RunFailed

CONNECT_S = 10.0
SILENCE_S = 30.0  # longest wait for the next bytes
ANSWER_S = 120.0  # longest wait for an answer's head, however lively it drips
SLOWEST_BYTES_PER_S = 256  # over SLOW_S: what keeps dripping below this is taken for stalled
SLOW_S = 120.0
MAX_REDIRECTS = 5
CHUNK = 1 << 16
TRANSIENT = {408, 425, 429, 500, 502, 503, 504}


class NotThere(RunFailed):
    """The place answers, and does not have the file."""


class NoConnection(RunFailed):
    """The place does not answer: no network, no such host, nobody listening."""


def is_allowed(url: str) -> bool:
    """Tell whether an address may be followed: https, a file, or http to this machine."""
    if is_file(url):
        return True
    try:
        parts = parse_url(url)  # as the client reads it: in http://a\\@b it sees the host a, urlsplit the host b
    except LocationParseError:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(parts.host))


def is_file(url: str) -> bool:
    """Tell whether an address names a file on this machine."""
    return url[:5].lower() == "file:"


def file_of(url: str) -> Path:
    """Return the file that a file address names."""
    return Path(unquote(urlsplit(url).path))


def _is_loopback(host: str | None) -> bool:
    if host in (None, "localhost"):
        return host is not None
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@dataclass(frozen=True)
class Transfer:
    """A pooch downloader: calls ``progress(done, total)`` in bytes, total 0 where unknown; keeps ``part`` to resume.

    ``max_bytes`` bounds what is written: a server that never stops sending is told apart from a large file.
    """

    part: Path
    progress: Callable[[int, int], None] = lambda done, total: None
    max_bytes: int = 64 << 30

    def __call__(self, url: str, output_file: str, _pooch: object = None) -> None:
        if not is_allowed(url):
            raise RunFailed(f"Expected an https, file or loopback http address, got {url}. It is not followed.")
        if is_file(url):
            self._copy(file_of(url))
        else:
            self._download(url)
        os.replace(self.part, output_file)
        self._tag.unlink(missing_ok=True)

    @property
    def _tag(self) -> Path:
        """Return where the version of the partial file stands, as the server named it."""
        return self.part.with_name(self.part.name + ".etag")

    def _copy(self, path: Path) -> None:
        if not path.is_file():
            raise NotThere(f"no file {path}")
        size, done = path.stat().st_size, 0
        with path.open("rb") as source, self.part.open("wb") as target:
            while chunk := source.read(CHUNK):
                target.write(chunk)
                done += len(chunk)
                self.progress(done, size)

    def _download(self, url: str) -> None:
        with requests.Session() as session:
            session.trust_env = not _is_loopback(parse_url(url).host)  # a proxy does not reach this machine
            with self._open(session, url) as response:
                start = self._start(response)
                total = _total(response, start)
                self._refuse_size(total)
                with self.part.open("ab" if start else "wb") as target:
                    self._write(response, target, start, total)
        if total and self.part.stat().st_size != total:
            raise requests.ConnectionError(f"{self.part.stat().st_size:,} of {total:,} bytes came")

    def _open(self, session: requests.Session, url: str) -> requests.Response:
        """Return the answer behind all redirects, each of which has to be an address that may be followed."""
        for _ in range(MAX_REDIRECTS + 1):
            response = _get(session, url, self._headers())
            if not response.is_redirect:
                return self._accepted(response)
            response.close()
            url = _redirected(url, response.headers["Location"])
        raise RunFailed(f"redirected more than {MAX_REDIRECTS} times")

    def _headers(self) -> dict[str, str]:
        # identity: a .gz file is to arrive as it is, and byte ranges are to be those of the file
        headers = {"Accept-Encoding": "identity", "User-Agent": "aucflow"}
        if self.part.exists() and self._tag.exists() and self.part.stat().st_size:
            headers |= {"Range": f"bytes={self.part.stat().st_size}-", "If-Range": self._tag.read_text()}
        return headers

    def _accepted(self, response: requests.Response) -> requests.Response:
        encoding = response.headers.get("Content-Encoding", "identity").lower()
        if response.status_code in (200, 206) and encoding in ("identity", "gzip", "x-gzip", ""):
            return response
        response.close()
        if response.status_code in (200, 206):  # gzip is undone as all compression of the contents is
            raise RunFailed(f"the server sent the file encoded as {encoding[:20]!r}, which was not asked for")
        if response.status_code == 416:  # the partial file is longer than the whole one
            self.discard()
        if response.status_code in TRANSIENT | {416}:
            raise requests.HTTPError(f"the server answered {response.status_code}")
        kind = NotThere if response.status_code in (404, 410) else RunFailed
        raise kind(f"the server answered {response.status_code}")

    def discard(self) -> None:
        """Forget what has been transferred so far."""
        self.part.unlink(missing_ok=True)
        self._tag.unlink(missing_ok=True)

    def _start(self, response: requests.Response) -> int:
        """Return at which byte the answer starts; remember the version that it is of, if it has a strong name."""
        size = self.part.stat().st_size if self.part.exists() else 0
        if response.status_code == 206:
            if response.headers.get("Content-Range", "").startswith(f"bytes {size}-"):
                return size
            self.discard()
            raise requests.ConnectionError("the server sent another part than was asked for")
        self.discard()  # first: a killed process must leave no bytes of one version under the name of another
        tag = response.headers.get("ETag", "")
        if tag.startswith('"'):
            self._tag.write_text(tag)
        return 0

    def _write(self, response: requests.Response, target: IO[bytes], done: int, total: int) -> None:
        started, first = time.monotonic(), done
        for chunk in _chunks(response):
            target.write(chunk)
            done += len(chunk)
            self._refuse_size(done)
            self.progress(done, total)
            elapsed = time.monotonic() - started
            if elapsed > SLOW_S and (done - first) / elapsed < SLOWEST_BYTES_PER_S:
                raise requests.Timeout(f"{done - first:,} bytes came in {elapsed:.0f} s")

    def _refuse_size(self, size: int) -> None:
        free = shutil.disk_usage(self.part.parent).free
        if size > self.max_bytes or size > free + (self.part.stat().st_size if self.part.exists() else 0):
            self.discard()
            raise RunFailed(f"expected at most {min(self.max_bytes, free):,} bytes (limit or free disk), got {size:,}")


def _redirected(url: str, location: str) -> str:
    """Return where a redirect leads, if that may be followed."""
    try:
        target = urljoin(url, location)
    except ValueError:
        target = location
    if is_file(target) or not is_allowed(target):
        raise RunFailed(f"redirected to {target[:200]}, which is neither https nor http to this machine")
    return target


def _get(session: requests.Session, url: str, headers: dict[str, str]) -> requests.Response:
    """Return an answer's head within ANSWER_S; of a head that drips, the time-outs of sockets never see the end."""
    answer: Future[requests.Response] = Future()

    def ask() -> None:
        try:
            answer.set_result(_ask(session, url, headers))
        except BaseException as error:
            answer.set_exception(error)

    threading.Thread(target=ask, daemon=True).start()
    try:
        return answer.result(ANSWER_S)
    except TimeoutError:
        raise requests.Timeout(f"no answer within {ANSWER_S:g} s") from None


def _ask(session: requests.Session, url: str, headers: dict[str, str]) -> requests.Response:
    try:
        return session.get(url, headers=headers, stream=True, allow_redirects=False, timeout=(CONNECT_S, SILENCE_S))
    except requests.ConnectTimeout:
        raise NoConnection(f"no connection within {CONNECT_S:g} s") from None
    except requests.ConnectionError as error:
        reason = getattr(error.args[0], "reason", None) if error.args else None
        if isinstance(reason, NewConnectionError):  # refused, or a name that is not known: waiting does not help
            raise NoConnection("no connection") from None
        raise
    except ValueError as error:  # InvalidURL and InvalidSchema are, and what urllib.parse raises at a broken redirect
        raise RunFailed(f"not an address that can be asked: {error}") from None


def _total(response: requests.Response, start: int) -> int:
    """Return how long the whole file is, 0 where the server does not say.

    A server may answer with a shorter part than was asked for: of a part it is Content-Range that tells.
    """
    ranged = re.fullmatch(r"bytes [0-9]+-[0-9]+/([0-9]{1,18})", response.headers.get("Content-Range", ""))
    if response.status_code == 206 and ranged:
        return int(ranged[1])
    length = re.fullmatch(r"[0-9]{1,18}", response.headers.get("Content-Length", ""))
    return start + int(length[0]) if length else 0


def _chunks(response: requests.Response) -> Iterator[bytes]:
    """Yield the body as it comes; what breaks it off is a ``requests`` exception."""
    try:
        # what has come so far: to wait for a whole chunk is to wait for ever for a server that drips
        while chunk := response.raw.read1(CHUNK, decode_content=False):
            yield chunk
    except (HTTPError, OSError) as error:
        raise requests.ConnectionError(f"the transfer broke off: {error.args[-1] if error.args else error}") from None
