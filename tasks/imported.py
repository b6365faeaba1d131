"""Imported: the user's own code behind an import path in a config, by digest.

What is installed is known by its name and version; a module on PYTHONPATH, or a package that is installed for editing,
may be another tomorrow under the same name.
"""

import hashlib
import re
import site
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from typing import Any

from tasks.facts import OURS
from tasks.files import file_sha256

CODE = (".py", ".so", ".pyd")
GONE = "none"  # in place of the digest of a module that cannot be found, or of a file that cannot be read
# as text: parsing takes seconds for a large package, and stops at what Python would never import
IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(\.*)([\w.]*)[ \t]+import[ \t]+(\([^)]*\)|[^\n#;]*)|import[ \t]+([^\n#;]*))", re.MULTILINE
)


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
            todo += _imported_by(name)
    return dict(sorted(found.items()))


def changed_modules(recorded: Mapping[str, str]) -> tuple[str, ...]:
    """Return which of the modules recorded are others by now, or gone."""
    return tuple(name for name, digest in recorded.items() if _digest(name) != digest)


@cache
def _digest(name: str) -> str:
    """Return the digest over a unit's files when it was first asked for: what a process has imported stays."""
    root, files = _files(name)
    lines = [f"{file.relative_to(root).as_posix()} {_sha256(file)}\n" for file in files]
    return hashlib.sha256("".join(["aucflow module 1\n", *lines]).encode()).hexdigest() if files else GONE


def _sha256(file: Path) -> str:
    try:
        return file_sha256(file)
    except OSError:  # Python cannot import it either
        return GONE


@cache
def _unit(module: str) -> str:
    """Return what a module is judged by: the package that it is in, or itself; nothing where that is installed."""
    names = () if module.partition(".")[0] in OURS else accumulate(module.split("."), "{}.{}".format)
    return next((name for name in names if _files(name)[1]), "")  # a folder without __init__.py is none of its modules


@cache
def _files(name: str) -> tuple[Path, list[Path]]:
    """Return a module's file, or a package's files, with the folder that its name begins in; none if installed."""
    top, *inside = name.split(".")
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):  # of a program's own name, or of a module that its maker spoilt
        spec = None
    places = [] if spec is None else [*(spec.submodule_search_locations or ()), *filter(None, [spec.origin])]
    for place in map(Path, places):
        if _is_installed(place):
            break
        if archive := next((above for above in place.parents if above.is_file()), None):  # a zip on the path
            return archive.parent, [archive]
        package = place.joinpath(*inside)
        if (package / "__init__.py").is_file():
            return place.parent, sorted(path for path in package.rglob("*") if _is_code(path, package))
        if inside and package.with_suffix(".py").is_file():
            return place.parent, [package.with_suffix(".py")]
        if not inside and place.suffix in CODE and place.is_file():
            return place.parent, [place]
    return Path(), []


def _is_code(path: Path, package: Path) -> bool:
    """Tell whether a package's own code is in a file: not in an editor's, nor in an environment that lies there."""
    inside = path.relative_to(package).parts
    is_own = not any(part.startswith(".") or part == "site-packages" for part in inside)
    return path.suffix in CODE and is_own and path.is_file()


@cache
def _imported_by(name: str) -> tuple[str, ...]:
    """Return the modules that a unit's files import, wherever in them, by their full names."""
    root, files = _files(name)
    return tuple(dict.fromkeys(found for file in files if file.suffix == ".py" for found in _imports(file, root)))


def _imports(file: Path, root: Path) -> Iterator[str]:
    try:
        text = file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return
    package = file.relative_to(root).parts[:-1]
    for dots, module, names, modules in IMPORT.findall(text):
        above = package[: len(package) - len(dots) + 1] if dots else ()
        base = ".".join([*above, *filter(None, [module])])
        yield from filter(None, [base, *_first_words(modules)])
        yield from (f"{base}.{name}" for name in _first_words(names) if base)


def _first_words(text: str) -> Iterator[str]:
    """Yield the first word of each part between commas: ``a as b, c`` are a and c."""
    for part in text.strip("()").split(","):
        if words := re.match(r"[\s\\]*([\w.]+)", part):
            yield words[1]


def _is_installed(path: Path) -> bool:
    return any(path.is_relative_to(place) for place in _installed())


@cache
def _installed() -> tuple[Path, ...]:
    """Return the folders whose modules a version stands for: Python's own, and those of its packages."""
    named = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    places = {Path(place) for place in (*named, *site.getsitepackages(), site.getusersitepackages())}
    return tuple({form for place in places for form in (place, place.resolve())})
