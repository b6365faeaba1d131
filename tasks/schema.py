"""What every YAML file of ours has in common: version 1.2, sections that refuse unknown keys, errors in one line."""

from collections.abc import Container
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator
from pydantic_core import PydanticCustomError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from tasks.errors import BadInput, nearest

NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._-]*$"  # of an experiment or a model, which are parts of addresses
METHOD_NAME = r"^[A-Za-z0-9][A-Za-z0-9 ._+-]*$"
TITLE = r"^[^/\\\x00-\x1f]+$"  # of a data set
UNKNOWN_KEY = "unknown_key"


class Strict(BaseModel):
    """A frozen section that refuses unknown keys and names the nearest known one.

    A section, and a key whose default is an empty list or mapping, may stand there with nothing behind it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _checked_keys(cls, data: Any) -> Any:
        if isinstance(data, dict):
            known = tuple(cls.model_fields)
            for key in data:
                if key not in known:
                    words = f"Expected keys out of {', '.join(known)}; got '{key}'.{nearest(key, known)}"
                    raise PydanticCustomError(UNKNOWN_KEY, "{words}", {"words": words, "key": key})
            return {key: cls._nothing(key) if value is None else value for key, value in data.items()}
        return data

    @classmethod
    def _nothing(cls, key: str) -> Any:
        """Return what nothing behind a key stands for: an empty list, mapping or section, or nothing."""
        default = cls.model_fields[key].get_default(call_default_factory=True)
        if isinstance(default, Strict):
            return {}
        return default if default in ((), {}) else None


Section = TypeVar("Section", bound=BaseModel)


def parse(
    section: type[Section], data: Any, origin: str, file: Path | None = None, overridden: Container[str] = ()
) -> Section:
    """Return data validated as one section of a config.

    What is wrong is told with its line of ``file``, where the data are from but for the keys that were overridden.
    """
    try:
        return section.model_validate(data)
    except UnicodeEncodeError as error:
        odd = error.object[error.start : error.end]
        raise BadInput(f"{origin}: expected texts of whole characters, got {odd!r}. Mend the file.") from None
    except ValidationError as error:
        first, *more = _problems(error)
        at, others = (_lines(file, found, overridden) if file else "" for found in ([first], more))
        rest = f" (and {len(more)} more{others})" if more else ""
        raise BadInput(f"{origin}{at}: {_told(first)}{rest}") from None


def read_yaml(path: Path) -> Any:
    """Return what a YAML file holds, or raise BadInput with the line that is wrong."""
    try:
        value = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise BadInput(
            f"{path}{line}: expected valid YAML, got: {error.problem or error.context}. Mend that line."
        ) from None
    except (YAMLError, UnicodeDecodeError, ValueError) as error:
        raise BadInput(f"{path}: expected valid YAML in UTF-8, got: {error}. Mend the file.") from None
    except RecursionError:
        raise BadInput(f"{path}: expected a config of a few levels, got one nested too deeply. Flatten it.") from None
    except OSError as error:
        raise BadInput(f"{path}: expected a readable file, got: {error.strerror}. Check its permissions.") from None
    _refuse_cycles(value, path)
    return value


def _refuse_cycles(value: Any, path: Path) -> None:
    """Refuse a value that is inside itself, as an anchor lets YAML say: whoever walks through it never ends."""
    around: set[int] = set()
    done: set[int] = set()  # a part that stands in many places is walked through once

    def walk(part: Any) -> None:
        if not isinstance(part, dict | list) or id(part) in done:
            return
        if id(part) in around:
            raise BadInput(f"{path}: expected a config that ends, got an alias inside what it stands for. Remove it.")
        around.add(id(part))
        for inner in part.values() if isinstance(part, dict) else part:
            walk(inner)
        around.remove(id(part))
        done.add(id(part))

    walk(value)


def _problems(error: ValidationError) -> list[Any]:
    problems = error.errors(include_url=False)
    places = [p["loc"] for p in problems]
    # an item that was refused also leaves its list too short: only the cause is told
    return [p for p in problems if not any(q != p["loc"] and q[: len(p["loc"])] == p["loc"] for q in places)]


def _told(problem: Any) -> str:
    place = ".".join(str(part) for part in problem["loc"]) or "config"
    message = _in_words(problem)
    return f"{place}: {message if message.endswith('?') else message.rstrip('.') + '.'}"


def _lines(file: Path, problems: list[Any], overridden: Container[str]) -> str:
    """Return ``", lines 4, 7"`` for the lines of the file that problems are on, or an empty string."""
    tree = YAML(typ="rt", pure=True).load(file.read_text(encoding="utf-8"))
    places = [(*p["loc"], p.get("ctx", {}).get("key")) for p in problems]
    found = {_line(tree, place) for place in places if place[0] not in overridden}
    lines = sorted(line for line in found if line is not None)
    return f", line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""


def _line(tree: Any, place: tuple[Any, ...]) -> int | None:
    """Return the line of the innermost part of a place that a round-trip tree has of its own, not merged into it."""
    line = None
    for part in place:
        if not isinstance(tree, CommentedMap | CommentedSeq) or part not in (tree.lc.data or {}):
            break
        line, tree = tree.lc.data[part][0] + 1, tree[part]
    return line


EXPECTED = {
    "tuple_type": "expected a list",
    "dict_type": "expected a mapping of names to values",
    "model_type": "expected a mapping of keys to values",
    "too_short": "expected at least one entry",
    "string_type": "expected a text",
    "string_too_short": "expected a text",
    "int_type": "expected a whole number",
    "float_type": "expected a number",
}


PATTERNS = {
    NAME: "expected a name of letters a to z, digits, spaces and . _ -, a letter or digit first",
    METHOD_NAME: "expected a name of letters a to z, digits, spaces and . _ - +, a letter or digit first",
    TITLE: "expected a name without / and \\",
}


def _in_words(problem: Any) -> str:
    """Return pydantic's finding as expected, got and what to do."""
    if problem["type"] == "missing":
        return "expected this key, got none. Add it"
    if problem["type"] == "value_error":
        return str(problem["ctx"]["error"])
    if problem["type"] == UNKNOWN_KEY:
        return str(problem["ctx"]["words"])
    wanted = EXPECTED.get(problem["type"])
    if problem["type"] == "string_pattern_mismatch":
        wanted = PATTERNS.get(problem["ctx"]["pattern"])
    if problem["type"] == "string_too_long":
        wanted = f"expected at most {problem['ctx']['max_length']} characters"
    if wanted is None:
        bound = "a number " if problem["type"].startswith(("greater", "less")) else ""
        wanted = problem["msg"].replace("Input should be ", f"expected {bound}")
    return f"{wanted}, got {_shown(problem['input'])}. Change it"


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, str):
        return repr(value[:60])
    return "an empty one" if value in ([], {}, ()) else str(value)[:60]
