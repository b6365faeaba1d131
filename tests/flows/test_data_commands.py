"""`aucflow data`: what is known of a data set, and fetching it, as a user does it."""

import re

import pytest

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
