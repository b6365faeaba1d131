"""Download: from what the user or the catalogue names to a file with a known format and digest."""

import re
from importlib.resources import files
from pathlib import Path

from tasks.arrays import IDX_TYPES, labels_beside
from tasks.convert import convert
from tasks.datasets import DatasetEntry, check_counts, entries, find
from tasks.errors import BadInput, RunFailed, nearest
from tasks.fetch import Fetched, fetch, keep, take_back
from tasks.files import (
    UTF_8_MARK,
    UTF_16_MARKS,
    file_sha256,
    format_by_name,
    is_yaml,
    read_bytes,
    refuse_foreign,
)
from tasks.lockfile import Lock
from tasks.readers import DELIMITERS, FORMATS, SKLEARN, detect_delimiter
from tasks.stage import stage
from tasks.values import RawFile, joined

_HEAD = 65_536  # bytes that a format is judged by
_SVMLIGHT_LINE = re.compile(r"[^\s:,]+(?:\s+(?:qid|[+-]?\d+):\S+)+\s*(?:#.*)?")


@stage(name="download", task_run_name="download {name}")
def download(
    name: str,
    source: str,
    format: str | None = None,
    offline: bool = False,
    update_lock: bool = False,
    lock_file: Path | None = None,
) -> RawFile:
    """Return the file that ``source`` names: a path, sklearn:NAME, catalogue:NAME or openml:ID.

    A ``format`` given wins over a detected one. A file of the catalogue is fetched unless it is in the cache, and has
    to be what the lock says, unless ``update_lock`` accepts a change. What is not in the lock yet has to be the data
    set that the catalogue tells of.
    """
    kind, _, rest = source.partition(":")
    if kind in ("catalogue", "openml"):
        return _of_catalogue(name, source if kind == "openml" else rest, offline, update_lock, Lock(lock_file))
    if kind == "sklearn":
        return _raw(name, _bundled(rest), "sklearn", source)
    path = _local(source)
    format = _known(format) if format else detect_format(path)
    labels = labels_beside(path) if format == "idx" else None
    return _raw(name, path, format, source, _raw(name, labels, "idx", str(labels)) if labels else None)


def _raw(name: str, path: Path, format: str, source: str, labels: RawFile | None = None) -> RawFile:
    return RawFile(name, path, format, source, file_sha256(path), path.stat().st_size, labels)


def _of_catalogue(name: str, key: str, offline: bool, update_lock: bool, lock: Lock) -> RawFile:
    """Fetch all files of a catalogue's entry; return the first with the labels beside it, if it has a second."""
    entry = find(key, offline)
    if entry.format == "sklearn":
        return _raw(name, _bundled(entry.source.removeprefix("sklearn:")), "sklearn", entry.source)
    files, new = [], []
    for remote in reversed(entry.remotes):
        known = lock.digest(remote.path)
        fetched = fetch(remote, known, offline, update_lock)
        if fetched.origin != "cache" or known != fetched.sha256:
            new.append((remote, fetched))
        else:
            keep(fetched)
        origin = (lock.url(remote.path) if known == fetched.sha256 else None) or fetched.origin
        files.append(RawFile(name, fetched.path, entry.format, origin, fetched.sha256, fetched.size_bytes))
    raw = joined(files)
    if new and key in entries():
        _refuse_another(key, entry, raw, [fetched for _, fetched in new])
    for remote, fetched in new:
        lock.record_file(remote.path, fetched)
        keep(fetched)
    return raw


def _refuse_another(key: str, entry: DatasetEntry, raw: RawFile, new: list[Fetched]) -> None:
    """Refuse files that are not what the catalogue says before they are locked; those just fetched are not kept."""
    try:
        check_counts(key, entry, convert.fn(raw, entry.conversion.as_rule(entry.target, None, entry.drop)))
    except BadInput as error:
        fetched = [file for file in new if file.origin != "cache"]
        for file in fetched:
            take_back(file)
        origins = ", ".join(file.origin for file in fetched)
        there = [str(file.path) for file in new if file.origin == "cache"]
        more = f" In the cache there was {', '.join(there)}: if you did not put it there, remove it." if there else ""
        if fetched:
            raise RunFailed(
                f"{key}: expected the data set of the catalogue from {origins}, got something else, which is not kept: "
                f"{error}{more}"
            ) from None
        raise BadInput(f"{error}{more}") from None


def _known(format: str) -> str:
    if format not in FORMATS:
        raise BadInput(f"Expected a format out of {', '.join(FORMATS)}; got '{format}'.{nearest(format, FORMATS)}")
    return format


def _bundled(name: str) -> Path:
    """Return the path of a data file inside the installed scikit-learn."""
    if name not in SKLEARN:
        known = tuple(SKLEARN)
        raise BadInput(f"Expected sklearn: with one of {', '.join(known)}; got '{name}'.{nearest(name, known)}")
    return Path(str(files("sklearn.datasets.data").joinpath(SKLEARN[name][0])))


# A local file -----------------------------------------------------------------------------------------------------


def _local(source: str) -> Path:
    """Return the absolute path of a file that exists, can be read and holds something."""
    if re.match(r"[a-z][a-z0-9+.-]+://", source, re.IGNORECASE):
        raise BadInput(f"Expected a file, got the address {source}. Download it, then name the file.")
    try:
        path = Path(source).expanduser().absolute()
        if path.is_dir():
            raise BadInput(f"Expected a data file, got the folder {source}. Name a file inside it.")
        if not path.exists():
            raise _missing(path, source)
        if not path.is_file():
            raise BadInput(f"Expected a data file, got the device or pipe {source}. Write the data to a file first.")
    except (OSError, RuntimeError) as error:  # no such ~user, a name that is too long, a folder that may not be entered
        raise BadInput(f"Expected a data file, got {source[:200]}: {str(error).rstrip('.')}. Check the path.") from None
    if is_yaml(path):
        raise BadInput(f"Expected a data file, got {source}, a config by its name. Run it by `aucflow run {source}`.")
    if _is_blank(read_bytes(path, _HEAD)) and _is_blank(read_bytes(path)):
        raise BadInput(f"Expected data in {source}, got an empty file. Check how it was written.")
    return path


def _is_blank(data: bytes) -> bool:
    return not data.removeprefix(UTF_8_MARK).strip()


def _missing(path: Path, source: str) -> BadInput:
    """Return the error for a file that is not there, with the nearest name that is."""
    if not path.parent.is_dir():
        return BadInput(f"Expected a data file, found no folder {path.parent} for {source}. Check the path.")
    names = tuple(sorted(p.name for p in path.parent.iterdir() if p.is_file()))
    hint = nearest(path.name, names) or " Check the path."
    if path.name in entries():
        hint = f" The data set of that name is catalogue:{path.name}."
    return BadInput(f"Expected a data file, found no {source}.{hint}")


# Its format -------------------------------------------------------------------------------------------------------


def detect_format(path: Path) -> str:
    """Return a file's format by its extension or, where that does not tell (.dat, .txt, none), by its contents."""
    return format_by_name(path) or _sniff(read_bytes(path, _HEAD), path.name)


def _sniff(head: bytes, name: str) -> str:
    """Return the format that the first bytes of a file show."""
    if head.startswith(b"PAR1"):
        return "parquet"
    refuse_foreign(head, name)
    if len(head) > 2 and head[:2] == b"\0\0" and head[2] in IDX_TYPES:
        return "idx"
    if b"\0" in head and head[:2] not in UTF_16_MARKS:
        raise _undetected(name, "binary content")
    text = head.decode("utf-16" if b"\0" in head else "utf-8-sig", "replace")
    # the last line is likely to be cut off by the head's end
    lines = text.splitlines()[: -1 if len(head) == _HEAD else None] or [text]
    lines = [line.strip() for line in lines if line.strip() and line.lstrip()[0] not in "%#"] or [""]
    if lines[0].startswith("@"):
        return "keel" if name.lower().endswith(".dat") or re.search(r"^\s*@outputs?\s", text, re.I | re.M) else "arff"
    if sum(bool(_SVMLIGHT_LINE.fullmatch(line)) for line in lines) > len(lines) / 2:
        return "svmlight"
    if any(d in lines[0] for d in DELIMITERS) and detect_delimiter("\n".join(lines)) in lines[0]:
        return "csv"
    raise _undetected(name, f"'{lines[0][:40]}' in front")


def _undetected(name: str, got: str) -> BadInput:
    return BadInput(
        f"Expected {name} to be CSV, Parquet, svmlight, KEEL or ARFF, got {got}. "
        f"Name its format with --format ({', '.join(FORMATS)}), or export it as one of these."
    )
