"""Imported: the user's own code behind an import path in a config, by digest.

What is installed is known by its name and version; a module on PYTHONPATH, or a package that is installed for editing,
may be another tomorrow under the same name.
"""

import ast
import hashlib
import site
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tasks.facts import OURS
from tasks.files import file_sha256

CODE = (".py", ".so", ".pyd")
GONE = "none"  # in place of the digest of a module that cannot be found


def import_paths(method: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the import paths that a method, as a config has it, names its solver and its sampler by."""
    return tuple(method[part] for part in ("solver", "sampler") if "." in method.get(part, ""))


def own_modules(paths: Iterable[str]) -> dict[str, str]:
    """Return the digests of the modules, or whole packages, that classes come from by their import paths, by name.

    So also of those that these import, and none of an installed one.
    """
    todo, found = [path.rpartition(".")[0] for path in paths], dict[str, str]()
    while todo:
        name = _unit(todo.pop())
        if name and name not in found:
            found[name] = _digest(name)
            todo += (imported for file in _files(name)[1] for imported in _imports(file))
    return dict(sorted(found.items()))


def changed_modules(recorded: Mapping[str, str]) -> tuple[str, ...]:
    """Return which of the modules recorded are others by now, or gone."""
    return tuple(name for name, digest in recorded.items() if _digest(name) != digest)


@cache
def _digest(name: str) -> str:
    """Return the digest over a unit's files when it was first asked for: what a process has imported stays."""
    root, files = _files(name)
    lines = [f"{file.relative_to(root).as_posix()} {file_sha256(file)}\n" for file in files]
    return hashlib.sha256("".join(["aucflow module 1\n", *lines]).encode()).hexdigest() if files else GONE


def _unit(module: str) -> str:
    """Return what a module is judged by: the package that it is in, or itself; nothing where that is installed."""
    top = module.partition(".")[0]
    names = () if top in OURS else (top, module)  # a folder without __init__.py is none of its modules
    return next((name for name in names if _files(name)[1]), "")


@cache
def _files(name: str) -> tuple[Path, list[Path]]:
    """Return a module's file, or a package's files, with the folder that its name begins in; none if installed."""
    top, *inside = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # of a program's own name, or of a module that its maker spoilt
        spec = None
    for place in map(Path, (spec and spec.submodule_search_locations) or ()):
        package = place.joinpath(*inside)
        if _is_installed(place):
            break
        if (package / "__init__.py").is_file():
            return place.parent, sorted(path for path in package.rglob("*") if path.suffix in CODE)
        if inside and package.with_suffix(".py").is_file():
            return place.parent, [package.with_suffix(".py")]
    file = Path(spec.origin) if spec and spec.origin and not inside else Path()
    is_own = file.suffix in CODE and file.is_file() and not _is_installed(file)
    return file.parent, [file] if is_own else []


def _imports(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports, wherever in it, by their full names; within a package its files count."""
    try:
        tree = ast.parse(file.read_bytes() if file.suffix == ".py" else b"")
    except (SyntaxError, ValueError):  # a template in a package, say: Python would not import it either
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_installed(path: Path) -> bool:
    return any(path.is_relative_to(place) for place in _installed())


@cache
def _installed() -> tuple[Path, ...]:
    """Return the folders whose modules a version stands for: Python's own, and those of its packages."""
    named = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    places = {Path(place) for place in (*named, *site.getsitepackages(), site.getusersitepackages())}
    return tuple({form for place in places for form in (place, place.resolve())})
