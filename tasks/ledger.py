"""The ledger: an append-only chain of what happened to runs and models, in which every later change shows.

One line of canonical JSON an entry, each with the SHA-256 of the line before it. Beside the chain, ``head.json`` holds
how many entries there are and the digest of the last, so that a cut-off end shows too. An append is first announced in
the head, then written and flushed to the disk, then confirmed: an append that a crash interrupts is told from a line
that somebody added. Reading needs no lock and trusts nothing.
"""

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tasks.errors import RunFailed
from tasks.files import locked, replacing

SCHEMA = "aucflow-ledger/1"
START = "0" * 64  # the digest before the first entry
TYPES = {"seq": int, "time": str, "kind": str, "subject": str, "reason": str, "data": dict, "previous": str}
KINDS = ("run", "data", "register", "promote", "rollback", "delete", "repair", "settle")
LOCK_S = 60.0
TAIL_BYTES = 1 << 14
TRIES = 100  # for a reader to find no writer between two reads


@dataclass(frozen=True)
class LedgerEntry:
    """One entry as it stands in the chain; ``digest`` is that of its line."""

    seq: int  # from 1
    time: str  # UTC, ISO 8601
    kind: str
    subject: str  # a run id, the digest of a data set, or MODEL/VERSION
    reason: str
    data: dict[str, Any]
    previous: str
    digest: str


@dataclass(frozen=True)
class Fault:
    """Something that is not as the ledger left it: which line (0: the head), what kind, in words."""

    line: int
    kind: str  # malformed, changed, removed, inserted, reordered, truncated, torn, head
    message: str
    against_head: bool = False  # the head says otherwise than the line: which of the two was changed, nobody can tell


class Ledger:
    """The chain in a folder; made by the first append."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.path = folder / "ledger.jsonl"
        self.head_path = folder / "head.json"

    # Writing ------------------------------------------------------------------------------------------------------

    def append(self, kind: str, subject: str, reason: str, data: dict[str, Any] | None = None) -> LedgerEntry:
        """Write an entry and return it once it is on the disk; one writer at a time, in any number of processes.

        Raises
        ------
        RunFailed
            If the chain's end is not as the head says: `aucflow audit verify` tells what happened.
        """
        if kind not in KINDS:
            raise ValueError(f"Expected a kind out of {', '.join(KINDS)}, got {kind!r}.")
        with self._writing():
            self._mend()
            return self._write(kind, subject, reason, data or {})

    def _write(self, kind: str, subject: str, reason: str, data: dict[str, Any]) -> LedgerEntry:
        head = self._head()
        entry = {
            "schema": SCHEMA,
            "seq": head["count"] + 1,
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "kind": kind,
            "subject": subject,
            "reason": reason,
            "data": data,
            "previous": head["digest"],
        }
        line = canonical(entry)
        digest = _sha256(line)
        self._write_head(head | {"pending": digest})
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            _write_all(descriptor, line + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        self._write_head({"count": entry["seq"], "digest": digest, "pending": None})
        return _entry(entry, digest)

    def mend(self) -> None:
        """Finish or undo an append that was interrupted; refuse to go on from an end that is somebody else's work."""
        with self._writing():
            self._mend()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with locked(self.folder / "lock", LOCK_S, self._is_held):
            yield

    def _is_held(self) -> str:
        return (
            f"{self.folder}: expected to write an entry, got no turn within {LOCK_S:g} s: another process holds the "
            "ledger. Wait for it or stop it."
        )

    def _mend(self) -> None:
        """Do what ``mend`` does; the caller holds the lock."""
        head, lines = self._head(), self._tail()
        end = START if lines.last is None else _sha256(lines.last)
        if head["pending"] is not None:
            if lines.torn and end == head["digest"]:
                with self.path.open("r+b") as stream:
                    stream.truncate(lines.whole_bytes)
                    os.fsync(stream.fileno())
                self._write_head(head | {"pending": None})
                self._write("repair", "ledger", "an interrupted entry was taken back", {"torn": _sha256(lines.torn)})
                return
            if end == head["pending"]:
                head = {"count": head["count"] + 1, "digest": end, "pending": None}
            self._write_head(head | {"pending": None})
        if lines.torn or end != head["digest"]:
            raise RunFailed(
                f"{self.path}: expected a last entry with the digest {head['digest'][:16]}…, as {self.head_path.name} "
                f"says, got {end[:16]}…. Somebody changed the ledger: run `aucflow audit verify`."
            )

    def _head(self) -> dict[str, Any]:
        return self._parsed_head(_bytes_of(self.head_path))

    def _parsed_head(self, data: bytes) -> dict[str, Any]:
        if not data and not self.head_path.exists():
            return {"count": 0, "digest": START, "pending": None}
        try:
            head = json.loads(data)
            if not (head["pending"] is None or re.fullmatch("[0-9a-f]{64}", head["pending"])):
                raise ValueError(f"{head['pending']!r} as pending, which is no digest")
            return {"count": int(head["count"]), "digest": str(head["digest"]), "pending": head["pending"]}
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
            raise RunFailed(
                f"{self.head_path}: expected the ledger's head, got: {error!r}. Run `aucflow audit verify`."
            ) from None

    def _write_head(self, head: dict[str, Any]) -> None:
        with replacing(self.head_path) as draft:
            draft.write_bytes(canonical(head) + b"\n")

    def _tail(self) -> "_Tail":
        """Return the chain's end, without reading more of it than holds the last line."""
        size = self.path.stat().st_size if self.path.exists() else 0
        data, block = b"", TAIL_BYTES
        while size and len(data) < size and data.count(b"\n") < 2:
            with self.path.open("rb") as stream:
                stream.seek(max(0, size - block))
                data = stream.read()
            block *= 16
        whole, _, torn = data.rpartition(b"\n")
        return _Tail(whole.rsplit(b"\n", 1)[-1] if whole else None, torn, size - len(torn))

    # Reading ------------------------------------------------------------------------------------------------------

    def entries(self) -> tuple[LedgerEntry, ...]:
        """Return the entries that can be read; `verify` says whether they can be believed."""
        return tuple(entry for entry in (_parsed(line) for line in self._lines()) if entry is not None)

    def last_of_runs(self) -> dict[str, LedgerEntry]:
        """Return the last entry of each run, by run id."""
        return {entry.subject: entry for entry in self.entries() if entry.kind == "run"}

    def last_manifests(self) -> dict[str, LedgerEntry]:
        """Return the last entry of each run that tells of a manifest, by run id."""
        return {
            entry.subject: entry
            for entry in self.entries()
            if entry.kind == "run" and entry.data.get("manifest_sha256") is not None
        }

    def gone_runs(self) -> dict[str, LedgerEntry]:
        """Return the entry by which somebody settled that a run is gone from the store, by run id."""
        return {entry.subject: entry for entry in self.entries() if entry.kind == "settle" and "/" not in entry.subject}

    def verify(self) -> tuple[Fault, ...]:
        """Return all that is not as the ledger left it, in the order of the lines; nothing if all is well."""
        head_bytes, data = self._snapshot()
        *lines, torn = data.split(b"\n")
        try:
            head = self._parsed_head(head_bytes)
        except RunFailed as error:
            return (*_faults_of_chain(lines, set()), Fault(0, "head", str(error)))
        faults = list(_faults_of_chain(lines, {head["digest"], head["pending"]}))
        if head_bytes not in (b"", canonical(head) + b"\n"):
            faults.append(Fault(0, "head", f"{self.head_path.name} has other bytes than the ledger writes"))
        told = {fault.line for fault in faults}
        return (
            *faults,
            *(one for one in _faults_of_end(lines, torn, head) if one.kind != "changed" or one.line not in told),
        )

    def interrupted(self) -> str | None:
        """Return in words that an entry was announced and not confirmed: it is being written, or a crash cut in."""
        try:
            pending = self._head()["pending"]
        except RunFailed:
            return None
        return pending and f"an entry {pending[:16]}… was announced and not confirmed: the next entry settles it"

    def _snapshot(self) -> tuple[bytes, bytes]:
        """Return the head and the chain as they are together: an entry that is written meanwhile is no fault."""
        for _ in range(TRIES):
            head, data = _bytes_of(self.head_path), _bytes_of(self.path)
            if head == _bytes_of(self.head_path):
                break
        return head, data

    def _lines(self) -> list[bytes]:
        return _bytes_of(self.path).split(b"\n")[:-1]


@dataclass(frozen=True)
class _Tail:
    last: bytes | None  # the last whole line
    torn: bytes  # what follows it
    whole_bytes: int  # where the torn part begins


def canonical(value: Any) -> bytes:
    """Return a value as JSON that is the same for the same value anywhere: keys sorted, no blanks, UTF-8, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _bytes_of(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _parsed(line: bytes) -> LedgerEntry | None:
    """Return a line as a LedgerEntry, None if it is not one to the letter."""
    try:
        entry = json.loads(line)
        if entry["schema"] != SCHEMA or canonical(entry) != line:
            return None
        if not all(type(entry[name]) is kind for name, kind in TYPES.items()):
            return None
        return _entry(entry, _sha256(line))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _entry(entry: dict[str, Any], digest: str) -> LedgerEntry:
    return LedgerEntry(**{name: entry[name] for name in TYPES}, digest=digest)


# Faults -----------------------------------------------------------------------------------------------------------


def _faults_of_chain(lines: list[bytes], ends: set[str | None]) -> Iterator[Fault]:
    """Yield a fault at each line that does not follow from the one before it, with the likeliest cause.

    ``ends`` are the digests that the head has of the last entry. A line that is told of is not told of again because
    the next one does not follow from it.
    """
    entries = [_parsed(line) for line in lines]
    known = {entry.digest for entry in entries if entry is not None}
    confirmed = {entry.previous for entry in entries if entry is not None} | ends
    previous: str | None = START
    seq = 0
    for number, entry in enumerate(entries, start=1):
        if entry is None:
            yield Fault(number, "malformed", f"line {number} is no entry of a ledger")
            previous, seq = None, seq + 1
            continue
        is_told = False
        if previous is not None and entry.previous != previous:
            fault = _fault_at(number, entry, seq, known, entry.digest in confirmed)
            is_told = fault.line == number and fault.kind == "changed"
            yield fault
        elif entry.seq != seq + 1:
            is_told = True
            yield Fault(number, "changed", f"line {number} has the number {entry.seq}, expected {seq + 1}")
        previous, seq = (None, seq + 1) if is_told else (entry.digest, entry.seq)


def _fault_at(number: int, entry: LedgerEntry, seq: int, known: set[str], is_confirmed: bool) -> Fault:
    """Return why an entry does not follow the line before it; confirmed is one that another was written after."""
    if entry.previous in known or (entry.previous == START and number > 1):
        return Fault(
            number, "reordered", f"line {number} (entry {entry.seq}) follows another entry than it was written after"
        )
    if entry.seq > seq + 1:
        is_one = entry.seq == seq + 2
        missing = f"entry {seq + 1} is" if is_one else f"entries {seq + 1} to {entry.seq - 1} are"
        return Fault(number, "removed", f"before line {number}: {missing} missing")
    if entry.seq <= seq:
        return Fault(number, "inserted", f"line {number} (entry {entry.seq}) or the one before it was inserted")
    if not is_confirmed:
        words = f"line {number} was changed: it follows from no line before it, and nothing was written after it"
        return Fault(number, "changed", words)
    changed = max(1, number - 1)
    words = f"line {changed} was changed: entry {entry.seq} was written after other contents than stand there"
    return Fault(changed, "changed", words)


def _faults_of_end(lines: list[bytes], torn: bytes, head: dict[str, Any]) -> Iterator[Fault]:
    """Yield what the head says of the end of the chain; an append that was interrupted is no fault."""
    digests = [_sha256(line) for line in lines]
    pending = head["pending"]
    if torn and pending is None:
        yield Fault(len(lines) + 1, "torn", f"line {len(lines) + 1} is cut off, and no entry was being written", True)
    if pending is not None and len(lines) == head["count"] + 1 and digests[-1] == pending:
        return  # written, not yet confirmed
    end = digests[-1] if digests else START
    lost = head["count"] - len(lines)
    if lost > 0:
        yield Fault(
            len(lines) + 1,
            "truncated",
            f"{lost} {'entry is' if lost == 1 else 'entries are'} missing at the end, or before",
            against_head=True,
        )
    elif len(lines) > head["count"]:
        extra = len(lines) - head["count"]
        yield Fault(
            head["count"] + 1, "inserted", f"the head counts {head['count']} entries, there are {extra} more", True
        )
    elif end != head["digest"]:
        yield Fault(len(lines), "changed", f"line {len(lines)} is not the entry that the head confirms", True)
