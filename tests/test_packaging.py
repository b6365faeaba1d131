"""The promises of the packaging: a lock with hashes and no registry's name, bounds, and imports that run one way."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from tasks import store

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def locked():
    """Return package -> list of the versions that the lock gives it (one for each environment marker)."""
    pins = {}
    for name, version in re.findall(r"^([A-Za-z0-9_.-]+)==([^ ;\\]+)", LOCK, flags=re.MULTILINE):
        pins.setdefault(name.lower().replace("_", "-"), []).append(version)
    return pins


def requirements(texts):
    for text in texts:
        name, bounds = re.fullmatch(r"([A-Za-z0-9_.-]+)(.*)", text).groups()
        yield name.lower().replace("_", "-"), bounds


def test_every_pin_has_hashes_and_no_registry_is_named():
    entries = re.split(r"^(?=\S)", LOCK, flags=re.MULTILINE)
    pinned = [entry for entry in entries if "==" in entry.split("\n")[0]]
    assert len(pinned) > 100
    assert all("--hash=sha256:" in entry for entry in pinned)
    assert "://" not in LOCK


def test_every_requirement_is_bounded_above_and_locked_within_its_bounds():
    extras = [text for name, texts in PROJECT["optional-dependencies"].items() if name != "bench" for text in texts]
    for name, bounds in requirements([*PROJECT["dependencies"], *extras]):
        assert name in locked(), name
        assert "<" in bounds, name


def test_the_known_broken_pairs_are_kept_out():
    """prefect 3.8 schedules nothing with sqlalchemy 2.1; its client sends nulls that fastapi refuses from 0.151 on."""
    assert all(int(v.split(".")[1]) < 151 for v in locked()["fastapi"])
    assert all(v.startswith("2.0.") for v in locked()["sqlalchemy"])


def test_the_store_explains_itself_in_the_same_words_everywhere():
    assert (ROOT / "mlruns" / "README.md").read_text(encoding="utf-8") == store.README


def test_importing_the_mathematics_costs_no_workflow():
    code = (
        "import sys, aucsolvers\n"
        "for name in aucsolvers.__all__: getattr(aucsolvers, name)\n"
        "print(*({'prefect', 'mlflow', 'matplotlib', 'pydantic', 'click', 'tasks', 'flows'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_imports_run_one_way():
    done = subprocess.run([Path(sys.executable).with_name("lint-imports")], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
