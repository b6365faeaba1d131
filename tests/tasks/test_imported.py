"""The user's own code, by digest: of what it is, what it follows, and what it leaves to versions."""

import importlib
import zipfile

import pytest

from tasks import imported
from tasks.configuration import ExperimentConfig
from tasks.imported import changed_modules, import_paths, own_modules


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """A folder on the path with a module, one that it imports, a package, and a folder without __init__.py."""
    files = {
        "ranks_.py": "import json\nimport numpy as np\nfrom shared_ import weight\n\nclass Ranks: ...\n",
        "shared_.py": "def weight(): return 1\n",
        "apart_.py": "no Python, and never imported\n",
        "pack_/__init__.py": "",
        "pack_/inner/__init__.py": "",
        "pack_/inner/votes.py": "from . import __name__\n\nclass Votes: ...\n",
        "pack_/templates/odd.py": "{{ not Python }}\n",
        "pack_/.venv/lib/other.py": "",
        "loose_/ranks.py": "def later():\n    from loose_ import (\n        apart as away,\n        other,\n    )\n",
        "loose_/near.py": "from .other import *\nfrom . import ranks\nfrom .deep.within import votes\n",
        "loose_/other.py": "",
        "loose_/apart.py": "",
        "loose_/alone.py": "",
        "loose_/deep/__init__.py": "",
        "loose_/deep/scale.py": "",
        "loose_/deep/within/__init__.py": "",
        "loose_/deep/within/votes.py": "from ..scale import one\nfrom ...alone import two\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    in_a_new_process()
    yield tmp_path
    in_a_new_process()


def in_a_new_process():
    importlib.invalidate_caches()
    for remembered in (imported._files, imported._digest, imported._unit, imported._imported_by):
        remembered.cache_clear()


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("ranks_.Ranks", ["ranks_", "shared_"]),
        ("pack_.inner.votes.Votes", ["pack_"]),
        ("loose_.ranks.Ranks", ["loose_.apart", "loose_.other", "loose_.ranks"]),
        ("loose_.deep.within.votes.Votes", ["loose_.alone", "loose_.deep"]),
        (
            "loose_.near.Near",
            ["loose_.alone", "loose_.apart", "loose_.deep", "loose_.near", "loose_.other", "loose_.ranks"],
        ),
        ("sklearn.svm.SVC", []),
        ("imblearn.under_sampling.NearMiss", []),
        ("aucsolvers.svm.LinearSVM", []),
        ("json.decoder.JSONDecoder", []),
        ("sys.flags", []),
        ("__main__.Ranks", []),
        ("nowhere_.Ranks", []),
    ],
)
def test_own_modules_are_followed_and_what_has_a_version_is_not(modules, path, names):
    assert list(own_modules([path])) == names


@pytest.mark.parametrize(
    ("path", "file", "changed"),
    [
        ("ranks_.Ranks", "ranks_.py", ("ranks_",)),
        ("ranks_.Ranks", "shared_.py", ("shared_",)),
        ("ranks_.Ranks", "apart_.py", ()),
        ("pack_.inner.votes.Votes", "pack_/__init__.py", ("pack_",)),
        ("pack_.inner.votes.Votes", "pack_/more.py", ("pack_",)),
        ("pack_.inner.votes.Votes", "pack_/.venv/lib/other.py", ()),
        ("loose_.ranks.Ranks", "loose_/alone.py", ()),
        ("loose_.deep.within.votes.Votes", "loose_/deep/scale.py", ("loose_.deep",)),
    ],
)
def test_a_change_of_any_of_their_files_shows_in_the_next_process(modules, path, file, changed):
    recorded = own_modules([path])
    with (modules / file).open("a") as stream:
        stream.write("\n")
    assert changed_modules(recorded) == ()  # what this process has imported is what it was
    in_a_new_process()
    assert changed_modules(recorded) == changed


def test_what_python_could_not_import_is_no_trouble(modules):
    """An editor's link to nowhere ended the whole experiment, and left its runs open."""
    recorded = own_modules(["pack_.inner.votes.Votes"])
    (modules / "pack_" / ".#votes.py").symlink_to("me@host.1234:1700000")
    (modules / "pack_" / "folder.py").mkdir()
    in_a_new_process()
    assert own_modules(["pack_.inner.votes.Votes"]) == recorded
    (modules / "pack_" / "long.py").write_text(f"x = {'1 + ' * 20_000}1\n")
    (modules / "pack_" / "bytes.py").write_bytes(b"\xff\x00import json\n")
    in_a_new_process()
    assert list(own_modules(["pack_.inner.votes.Votes"])) == ["pack_"]


def test_an_archive_on_the_path_is_one(modules, monkeypatch):
    with zipfile.ZipFile(modules / "zipped.zip", "w") as archive:
        archive.writestr("zipped_/__init__.py", "")
        archive.writestr("zipped_/ranks.py", "class Ranks: ...\n")
        archive.writestr("single_.py", "class Ranks: ...\n")
    monkeypatch.syspath_prepend(modules / "zipped.zip")
    recorded = own_modules(["zipped_.ranks.Ranks", "single_.Ranks"])
    assert list(recorded) == ["single_", "zipped_"]
    with zipfile.ZipFile(modules / "zipped.zip", "a") as archive:
        archive.writestr("more.txt", "")
    in_a_new_process()
    assert changed_modules(recorded) == ("single_", "zipped_")


def test_a_module_that_is_gone_is_another(modules):
    recorded = own_modules(["ranks_.Ranks"])
    (modules / "shared_.py").unlink()
    in_a_new_process()
    assert changed_modules(recorded) == ("shared_",)


def test_the_place_of_a_module_is_no_part_of_it(modules, monkeypatch):
    recorded = own_modules(["ranks_.Ranks", "pack_.inner.votes.Votes"])
    modules.rename(modules.parent / "moved")
    monkeypatch.syspath_prepend(modules.parent / "moved")
    in_a_new_process()
    assert changed_modules(recorded) == ()


def test_a_config_names_them_as_solver_and_as_sampler():
    method = {"solver": "sklearn.svm.LinearSVC", "sampler": "imblearn.under_sampling.NearMiss"}
    tree = {"datasets": ["wine"], "methods": [method, "u1+svm_or"]}
    theirs, ours = (one.model_dump() for one in ExperimentConfig.model_validate(tree).methods)
    assert import_paths(theirs) == ("sklearn.svm.LinearSVC", "imblearn.under_sampling.NearMiss")
    assert import_paths(ours) == ()
