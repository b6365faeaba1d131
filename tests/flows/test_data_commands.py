"""`aucflow data`: what is known of a data set, and fetching it, as a user does it."""

import re

import pytest

from tasks.datasets import find

SONAR_SHA = "5d820b62d9873f13b283738971b02aef67900fcd98b310c8e77eca3d0dc53daa"


@pytest.fixture(autouse=True)
def home(folder, monkeypatch):
    """An empty cache, and no mirror."""
    monkeypatch.setenv("AUCFLOW_HOME", str(folder / "home"))
    monkeypatch.delenv("AUCFLOW_MIRROR", raising=False)


@pytest.fixture
def mirrored(aucflow, mirror, monkeypatch):
    monkeypatch.setenv("AUCFLOW_MIRROR", mirror.as_uri())
    return aucflow


def row(out, name):
    """Return the cells of a table's row."""
    (line,) = [line for line in out.splitlines() if line.split()[:1] == [name]]
    return re.split(r"\s{2,}", line.strip())


def test_one_by_name(mirrored):
    code, out, err = mirrored("data", "get", "sonar")
    assert (code, err) == (0, "")
    assert row(out, "sonar") == ["sonar", "208", "60", "97", "1.1443", "mirror:libsvm/sonar_scale", SONAR_SHA[:16]]
    assert row(mirrored("list", "datasets")[1], "sonar")[5] == "yes"


def test_a_papers_suite(mirrored):
    code, out, _ = mirrored("data", "get", "--suite", "lu2019")
    assert code == 0
    assert row(out, "poker8_vs_6")[1:5] == ["1,477", "10", "17", "85.8824"]
    assert len(out.splitlines()) == 17


def test_everything_that_is_there_comes_and_the_rest_is_named(mirrored, mirror, tmp_path, monkeypatch):
    small = tmp_path / "mirror" / "libsvm"
    small.mkdir(parents=True)
    (small / "sonar_scale").write_bytes((mirror / "libsvm" / "sonar_scale").read_bytes())
    monkeypatch.setenv("AUCFLOW_MIRROR", str(small.parent))
    code, out, err = mirrored("data", "get", "--all", "--offline")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()[1:5]] == ["digits", "breast_cancer", "wine", "sonar"]
    assert re.search(r"^not here +fourclass, german, ", out, re.MULTILINE)


def test_offline_names_the_file_and_the_place_for_it(aucflow, tmp_path):
    code, out, err = aucflow("data", "get", "a9a", "--offline")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("aucflow: libsvm/a9a: expected it in the cache or on a mirror, found it on neither, and")
    assert f"Put the file, plain or packed as published, at {tmp_path}/home/data/libsvm/a9a" in err


def test_a_file_put_there_by_hand_is_used(aucflow, mirror, tmp_path):
    place = tmp_path / "home" / "data" / "libsvm"
    place.mkdir(parents=True)
    (place / "sonar_scale").write_bytes((mirror / "libsvm" / "sonar_scale").read_bytes())
    assert aucflow("data", "get", "sonar", "--offline")[0] == 0


def test_a_changed_file_stops_until_the_change_is_accepted(aucflow, mirror, tmp_path, monkeypatch):
    folder = tmp_path / "mirror" / "libsvm"
    folder.mkdir(parents=True)
    lines = (mirror / "libsvm" / "sonar_scale").read_bytes().splitlines()
    (folder / "sonar_scale").write_bytes(b"\n".join(reversed(lines)))
    monkeypatch.setenv("AUCFLOW_MIRROR", str(folder.parent))
    code, _, err = aucflow("data", "get", "sonar")
    assert code == 1
    assert SONAR_SHA in err and "--update-lock" in err
    assert not (tmp_path / "home" / "data" / "libsvm" / "sonar_scale").exists()
    assert aucflow("data", "get", "sonar", "--update-lock")[0] == 0
    assert aucflow("data", "get", "sonar")[0] == 0, "the change stands in the lock"
    assert SONAR_SHA not in (tmp_path / "home" / "datasets.lock").read_text()


class TestNotTheDataSet:
    """What is not what the catalogue tells of stays neither in the cache nor in the lock, whoever asked for it."""

    @pytest.fixture
    def small(self, mirror, tmp_path, monkeypatch):
        """A mirror of its own; the function puts some first lines of a file into it, all by default."""
        folder = tmp_path / "mirror" / "libsvm"
        folder.mkdir(parents=True)
        monkeypatch.setenv("AUCFLOW_MIRROR", str(folder.parent))

        def put(file, lines=None):
            whole = (mirror / "libsvm" / file).read_bytes()
            (folder / file).write_bytes(b"".join(whole.splitlines(keepends=True)[:lines]))

        return put

    def test_an_accepted_change_has_to_be_the_data_set_all_the_same(self, aucflow, small, tmp_path):
        """Once locked, a shortened file was trained on without a word, by a config that names its positive label."""
        small("sonar_scale", lines=150)
        code, _, err = aucflow("data", "get", "sonar", "--update-lock")
        assert code == 1 and err.count("\n") == 1
        assert "expected the data set of the catalogue from mirror:libsvm/sonar_scale, got something else" in err
        assert "expected 208 rows, as in the catalogue, got 150" in err and "--update-lock" not in err
        assert not (tmp_path / "home" / "data" / "libsvm" / "sonar_scale").exists()
        assert not (tmp_path / "home" / "datasets.lock").exists()
        small("sonar_scale")
        assert aucflow("data", "get", "sonar")[0] == 0

    @pytest.mark.parametrize("get", [("data", "get", "sonar"), ("run", "one.yaml")])
    def test_what_was_never_locked_is_looked_at_first(self, aucflow, small, tmp_path, monkeypatch, get):
        monkeypatch.setattr("tasks.lockfile.SHIPPED", tmp_path / "none.lock")
        (tmp_path / "one.yaml").write_text(
            "name: one\ndatasets: [{name: sonar, positive: 1}]\nmethods: [{solver: ls_svm}]\nvalidation: {folds: 2}\n"
        )
        small("sonar_scale", lines=150)
        code, _, err = aucflow(*get)
        assert code == 1 and "expected 208 rows, as in the catalogue, got 150" in err
        (tmp_path / "mirror" / "libsvm" / "sonar_scale").write_text("Error 500: database is down\n")
        code, _, err = aucflow(*get)
        assert code == 1 and "which is not kept: sonar_scale, line 1: expected 'label index:value" in err
        small("sonar_scale")
        assert aucflow("data", "get", "sonar")[0] == 0, "what was wrong has not stayed"
        assert SONAR_SHA in (tmp_path / "home" / "datasets.lock").read_text()

    def test_a_file_put_there_by_hand_is_refused_and_left(self, aucflow, mirror, tmp_path, monkeypatch):
        monkeypatch.setattr("tasks.lockfile.SHIPPED", tmp_path / "none.lock")
        place = tmp_path / "home" / "data" / "libsvm" / "sonar_scale"
        place.parent.mkdir(parents=True)
        place.write_bytes((mirror / "libsvm" / "sonar_scale").read_bytes()[:-5000])
        code, _, err = aucflow("data", "get", "sonar", "--offline")
        assert code == 2 and f"In the cache there was {place}: if you did not put it there, remove it." in err
        assert place.exists() and not (tmp_path / "home" / "datasets.lock").exists()

    def test_what_was_there_before_comes_back(self, mirrored, small, mirror, tmp_path):
        """A change that is no data set took the good file with it."""
        small("sonar_scale")
        assert mirrored("data", "get", "sonar")[0] == 0
        small("sonar_scale", lines=150)
        assert mirrored("data", "get", "sonar", "--update-lock")[0] == 1
        place = tmp_path / "home" / "data" / "libsvm" / "sonar_scale"
        assert place.read_bytes() == (mirror / "libsvm" / "sonar_scale").read_bytes()
        assert mirrored("data", "get", "sonar", "--offline")[0] == 0
        small("sonar_scale")
        assert mirrored("data", "get", "sonar", "--update-lock")[0] == 0
        assert {path.name for path in place.parent.iterdir()} <= {"sonar_scale", "sonar_scale.lock"}

    def test_of_two_files_those_of_the_cache_are_named(self, aucflow, mirror, tmp_path, monkeypatch):
        monkeypatch.setattr("tasks.lockfile.SHIPPED", tmp_path / "none.lock")
        images, labels = (remote.path for remote in find("mnist_test").remotes)
        place = tmp_path / "home" / "data" / images
        place.parent.mkdir(parents=True)
        place.write_bytes(b"no images")
        monkeypatch.setenv("AUCFLOW_MIRROR", str(mirror))
        code, _, err = aucflow("data", "get", "mnist_test")
        assert code == 1 and f"from mirror:{labels}" in err and f"In the cache there was {place}:" in err
        place.unlink()
        assert aucflow("data", "get", "mnist_test")[0] == 0

    def test_accepting_asks_the_mirror_and_not_a_damaged_cache(self, mirrored, tmp_path):
        mirrored("data", "get", "sonar")
        place = tmp_path / "home" / "data" / "libsvm" / "sonar_scale"
        whole = place.read_bytes()
        place.write_bytes(whole.replace(b"0.", b"1.", 1))
        code, _, err = mirrored("data", "get", "sonar")
        assert code == 1 and f"in the cache. Remove {place} to have it fetched again, or run" in err
        assert mirrored("data", "get", "sonar", "--update-lock")[0] == 0
        assert place.read_bytes() == whole


def test_all_that_is_known_of_one(mirrored):
    mirrored("data", "get", "mnist_test")
    code, out, _ = mirrored("data", "show", "mnist_test")
    assert code == 0
    for part in ("Handwritten digits", "one_vs_rest, positive 5", "10,000", "10.2108", "in the cache", "LeCun"):
        assert part in out
    assert out.count("published at") == 2, "images and labels"


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "Expected names of data sets, --suite NAME or --all"),
        (("sonar", "--all"), "only one of these"),
        (("--suite", "jiang"), "Did you mean 'jiang2014'"),
        (("sonnar",), "Did you mean 'sonar'"),
        (("openml:x",), "Expected a data set"),
    ],
)
def test_what_is_asked_wrongly_is_refused_in_one_line(aucflow, arguments, message):
    code, out, err = aucflow("data", "get", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
