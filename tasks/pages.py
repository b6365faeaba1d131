"""Pages: the one way in which templates become self-contained HTML, and how a page is written where the user says."""

from functools import cache
from pathlib import Path

import jinja2

from tasks.errors import BadInput
from tasks.files import replacing


@cache  # compiling one takes longer than filling it in
def template(name: str, **filters: object) -> jinja2.Template:
    """Return a template of ours: every text escaped, every name that is missing an error."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= filters
    return environment.get_template(name)


def refuse_no_file(path: Path) -> None:
    """Refuse a place for a page that is a folder, or in none."""
    if path.is_dir() or not path.parent.is_dir():
        raise BadInput(f"Expected a file in a folder that there is for --html, got {path}. Name another.")


def write_page(path: Path, page: str) -> None:
    """Write a page whole or not at all."""
    try:
        with replacing(path) as draft:
            draft.write_text(page, encoding="utf-8")
    except OSError as error:
        raise BadInput(f"Expected a file for --html that can be written, got {path}: {error.strerror}.") from error
