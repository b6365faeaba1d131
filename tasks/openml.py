"""Any data set of OpenML by its number: its description, then its ARFF file, fetched and locked like all others."""

import json
from typing import Any

from tasks.datasets import DatasetEntry
from tasks.errors import BadInput, RunFailed
from tasks.fetch import fetch
from tasks.schema import parse
from tasks.values import Remote

API = "https://www.openml.org/api/v1/json/data"


def describe(number: int, offline: bool = False) -> DatasetEntry:
    """Return the catalogue entry that OpenML's description of a data set amounts to."""
    path = fetch(Remote(f"openml/{number}.json", (f"{API}/{number}",)), offline=offline).path
    try:
        story = json.loads(path.read_bytes())["data_set_description"]
        return parse(DatasetEntry, _as_entry(number, story), f"openml:{number}")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        if isinstance(error, BadInput):
            raise
        raise RunFailed(
            f"openml:{number}: expected OpenML's description of a data set in {path}, got: {error!r}. Remove the file."
        ) from None


def _as_entry(number: int, story: dict[str, Any]) -> dict[str, Any]:
    target = story.get("default_target_attribute")
    if not target or "," in target:
        raise BadInput(
            f"openml:{number}: expected one target attribute, got {target or 'none'}. Download the file from "
            f"{story['url']} and use --data FILE --target COLUMN."
        )
    if "arff" not in str(story.get("format", "")).lower():
        raise BadInput(f"openml:{number}: expected an ARFF file, got format {story.get('format')}. Use --data FILE.")
    ignored = story.get("ignore_attribute") or []
    ignored = ignored.split(",") if isinstance(ignored, str) else ignored
    row_id = story.get("row_id_attribute")
    return {
        "title": f"{story['name']} (OpenML {number}, version {story.get('version', '?')})",
        "source": f"openml/{number}.arff",
        "urls": [story["url"]],
        "format": "arff",
        "target": target,
        "conversion": {"rule": "one_vs_rest"},
        "drop": sorted({*ignored, *([row_id] if row_id else [])}),
        "citation": str(story.get("citation") or "J. Vanschoren et al. (2013), OpenML, SIGKDD Explorations 15(2)"),
        "licence": story.get("licence"),
        "homepage": f"https://www.openml.org/d/{number}",
    }
