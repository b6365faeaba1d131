"""Pages: the one way in which templates become self-contained HTML."""

from pathlib import Path

import jinja2


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
