"""The story of one thing as a page that needs nothing else, with every digest in full."""

from pathlib import Path

import jinja2

from tasks.story import Story

TEMPLATES = Path(__file__).parent / "templates"


def render_page(story: Story) -> str:
    """Return one self-contained page: no link, no script, every text escaped."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("audit.html.j2").render(story=story)
