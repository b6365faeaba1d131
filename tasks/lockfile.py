"""The lock: what each file and data set was when it was first fetched, to notice when it is something else.

``configs/datasets.lock`` is shipped and only read; what a user fetches beyond it, or accepts in place of it, stands in
``AUCFLOW_HOME/datasets.lock``, which goes first. Both are YAML with sorted keys.
"""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from tasks.catalogue import CONFIGS
from tasks.errors import RunFailed
from tasks.fetch import Fetched, home
from tasks.files import locked, replacing
from tasks.schema import Strict
from tasks.values import Counts

LOCK_S = 60.0
SHIPPED = CONFIGS / "datasets.lock"
HEADER = (
    "# Written by `aucflow data get`: each file and data set as it was first fetched. Changes need --update-lock.\n"
)

Natural = Annotated[int, Field(ge=0, strict=True)]


class _File(Strict):
    url: str
    size_bytes: Natural
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$")


class _Dataset(Strict):
    rows: Natural
    features: Natural
    n_pos: Natural


class _Contents(BaseModel):
    files: dict[str, _File] = {}
    datasets: dict[str, _Dataset] = {}


class Lock:
    """The shipped lock with the user's on top: ``record_file`` and ``record_counts`` write to that, or to ``path``."""

    def __init__(self, path: Path | None = None):
        self.path = path or home() / "datasets.lock"

    def digest(self, file: str) -> str | None:
        """Return the SHA-256 that a file's contents had, None if it was never fetched."""
        entry = self._look_up("files", file)
        return entry["sha256"] if entry else None

    def url(self, file: str) -> str | None:
        """Return where a file was first fetched from, None if it never was."""
        entry = self._look_up("files", file)
        return entry["url"] if entry else None

    def counts(self, dataset: str) -> Counts | None:
        """Return what a data set was, None if it was never fetched."""
        entry = self._look_up("datasets", dataset)
        return Counts(**entry) if entry else None

    def record_file(self, file: str, fetched: Fetched) -> None:
        """Write down where a file came from and the digest of its contents."""
        entry = {"url": fetched.origin, "size_bytes": fetched.size_bytes, "sha256": fetched.sha256}
        self._record("files", file, entry, same=("size_bytes", "sha256"))

    def record_counts(self, dataset: str, counts: Counts) -> None:
        """Write down what a data set was converted to."""
        self._record("datasets", dataset, asdict(counts), same=("rows", "features", "n_pos"))

    def _look_up(self, kind: str, name: str) -> dict[str, Any] | None:
        for path in (self.path, SHIPPED):
            entry = _read(path).get(kind, {}).get(name)
            if entry is not None:
                return entry
        return None

    def _record(self, kind: str, name: str, entry: dict[str, Any], same: tuple[str, ...]) -> None:
        """Write an entry unless one that says the same stands there."""
        known = self._look_up(kind, name)
        if known is not None and all(known[key] == entry[key] for key in same):
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        busy = f"{self.path}: another process has been writing the lock for {LOCK_S:g} s. Wait for it or stop it."
        with locked(Path(f"{self.path}.lock"), LOCK_S, lambda: busy):
            tree = _read(self.path)
            tree.setdefault(kind, {})[name] = entry
            _write(self.path, tree)


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        tree = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8")) or {}
    except (YAMLError, ValueError, OSError) as error:
        raise RunFailed(f"{path}: expected a lock written by aucflow, got: {error}. Restore or remove it.") from None
    try:
        _Contents.model_validate(tree)
    except ValidationError as error:
        where = ".".join(map(str, error.errors()[0]["loc"])) or "its contents"
        raise RunFailed(
            f"{path}: expected files, each with {', '.join(_File.model_fields)}, and datasets, each with "
            f"{', '.join(_Dataset.model_fields)}, got others at {where}. Restore or remove it."
        ) from None
    return tree


def _write(path: Path, tree: dict[str, Any]) -> None:
    """Replace the lock at once."""
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.width = 1000
    with replacing(path) as draft, draft.open("w", encoding="utf-8") as stream:
        stream.write(HEADER)
        yaml.dump({kind: dict(sorted(tree.get(kind, {}).items())) for kind in ("datasets", "files")}, stream)
