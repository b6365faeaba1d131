"""The catalogue: every entry is whole, and every file that the mirror has is what the papers' tables say it is."""

import csv
import json
from pathlib import Path

import pytest

from flows.preflight import conversion_rule
from tasks.configuration import MethodConfig, parse_config
from tasks.convert import convert
from tasks.datasets import Conversion, check_counts, entries, find, suites
from tasks.download import download
from tasks.errors import BadInput, RunFailed
from tasks.lockfile import Lock
from tasks.values import Counts

REFERENCE = "reference"
LU2019 = {  # the paper's short names
    "Wisconsin": "wisconsin",
    "Pima": "pima",
    "Vehicle1": "vehicle1",
    "Newthyroid": "new_thyroid1",
    "Segment0": "segment0",
    "Yeast3": "yeast3",
    "Pageblocks0": "page_blocks0",
    "Vowel0": "vowel0",
    "Led7digit0": "led7digit",
    "Shuttlec0": "shuttle_c0_vs_c4",
    "Pageblocks1": "page_blocks_13_vs_4",
    "Yeast4": "yeast4",
    "Wine-red4": "winequality_red4",
    "Wine-white3": "winequality_white3_vs_7",
    "Shuttle2": "shuttle_2_vs_5",
    "Poker8": "poker8_vs_6",
}


@pytest.fixture
def at_home(tmp_path, monkeypatch, mirror):
    """A cache of its own, the real mirror."""
    monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("AUCFLOW_MIRROR", str(mirror))
    return tmp_path


def fetched(name):
    entry = find(name)
    raw = download.fn(name, f"catalogue:{name}", offline=True)
    return convert.fn(raw, entry.conversion.as_rule(entry.target, None, entry.drop))


def is_here(name, mirror):
    return all(
        any((mirror / f"{remote.path}{ending}").is_file() for ending in ("", ".gz")) for remote in find(name).remotes
    )


def table(mirror, name):
    path = mirror.parent / REFERENCE / name
    if not path.is_file():
        pytest.skip("needs the papers' tables beside the mirror")
    with path.open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


class TestEntries:
    def test_the_papers_suites_are_whole(self):
        assert {suite: len(names) for suite, names in suites().items()} == {
            "jiang2014": 10,
            "natole2019": 12,
            "lu2019": 16,
        }

    @pytest.mark.parametrize("name", list(entries()))
    def test_each_is_told_where_it_comes_from(self, name):
        entry = find(name)
        assert entry.title and entry.citation and entry.homepage
        assert entry.rows and entry.features
        assert entry.urls or entry.published or entry.format == "sklearn"
        urls = [*entry.published, *(url for remote in entry.remotes for url in remote.urls)]
        assert all(url.startswith("https://") for url in urls)
        assert entry.remotes or entry.format == "sklearn"

    def test_an_unknown_name_is_refused_with_the_nearest(self):
        with pytest.raises(BadInput, match="Did you mean 'ijcnn1'"):
            find("ijcnn")


class TestTables:
    """With class 1 against the rest, or the rarer of two, the data sets have exactly the ratios that were printed."""

    def test_table_1_of_jiang_2014(self, mirror, at_home):
        for row in table(mirror, "jiang2014_table1_datasets.csv"):
            dataset = fetched(row["dataset"])
            assert (dataset.n_rows, dataset.n_features) == (int(row["samples"]), int(row["features"]))
            assert f"{dataset.imbalance_ratio:.4f}" == row["imbalance_ratio"], row["dataset"]

    def test_table_1_of_lu_2019(self, mirror, at_home):
        for row in table(mirror, "lu2019_table1_datasets.csv"):
            dataset = fetched(LU2019[row["dataset"]])
            assert (dataset.n_rows, dataset.n_features) == (int(row["samples"]), int(row["features"]))
            printed = row["imbalance_ratio"]
            digits = len(printed.partition(".")[2])
            # 66.6735 is printed as 66.67, 15.8571 as 15.86: cut or rounded, within one unit of the last digit
            assert abs(dataset.imbalance_ratio - float(printed)) < 10.0**-digits, row["dataset"]

    @pytest.mark.parametrize("name", [n for n, e in entries().items() if e.format != "sklearn"])
    def test_every_file_of_the_mirror_is_what_the_catalogue_says(self, name, mirror, at_home):
        if not is_here(name, mirror):
            pytest.skip("not on the mirror")
        dataset = fetched(name)
        found = check_counts(name, find(name), dataset, Lock().counts(name))
        assert Lock().counts(name) == found, "the shipped lock knows every set of the mirror"


class TestLock:
    def test_the_shipped_lock_names_no_path_of_a_machine(self):
        from tasks.lockfile import SHIPPED

        text = SHIPPED.read_text()
        assert "file://" not in text and str(Path.home()) not in text

    def test_other_counts_than_locked_are_refused(self, at_home):
        dataset = fetched("sonar")
        with pytest.raises(BadInput, match="expected 98 positive rows, as when it was first fetched, got 97"):
            check_counts("sonar", find("sonar"), dataset, Counts(208, 60, 98))

    def test_what_is_recorded_wins_over_what_was_shipped(self, at_home):
        lock = Lock()
        assert lock.counts("sonar") == Counts(208, 60, 97)
        lock.record_counts("sonar", Counts(208, 60, 97))
        assert not lock.path.exists(), "nothing new, nothing written"
        lock.record_counts("sonar", Counts(207, 60, 97))
        assert Lock().counts("sonar") == Counts(207, 60, 97)
        assert Lock().counts("german") == Counts(1000, 24, 300)


class TestConfigs:
    def config(self, *datasets):
        return parse_config({"datasets": list(datasets), "methods": ["msgd"]}, "test").datasets

    def test_the_catalogues_conversion_applies_unless_the_config_has_one(self):
        plain, other = self.config(
            "letter", {"name": "letter_test", "conversion": {"rule": "one_vs_rest", "positive": 2}}
        )
        assert (conversion_rule(plain).positive, plain.published_key) == ("1", "letter")
        assert (conversion_rule(other).positive, other.published_key) == ("2", None)
        assert other.source == "catalogue:letter_test"

    def test_what_is_dropped_is_dropped_beside_what_the_catalogue_drops(self):
        """One column less made one more: the identifier came back."""
        for given, dropped in ((), ("ID",)), (["SEX", " AGE ", "ID"], ("ID", "SEX", "AGE")):
            (entry,) = self.config({"name": "credit_default", "drop": given})
            assert conversion_rule(entry).drop == dropped

    def test_a_file_of_ones_own_may_have_any_conversion(self):
        (entry,) = self.config({"source": "x.csv", "target": "y", "conversion": {"rule": "random_halves", "seed": 3}})
        assert (conversion_rule(entry).conversion, conversion_rule(entry).seed) == ("random_halves", 3)

    @pytest.mark.parametrize(
        "conversion, message",
        [
            ({"rule": "class_groups"}, "a list of labels"),
            ({"rule": "random_halves", "positive": "1"}, "which finds it"),
            ({"rule": "one_vs_rest", "negative": ["1"]}, "Take class_groups"),
            ({"rule": "thirds"}, "'thirds'"),
            ({"to_ratio": 0.0}, "0.0"),
            ({"rule": "one_vs_rest", "positive": ["1", "2"]}, "class_groups as rule"),
        ],
    )
    def test_what_makes_no_sense_is_refused_when_read(self, conversion, message):
        with pytest.raises(BadInput, match=message):
            self.config({"source": "x.csv", "target": "y", "conversion": conversion})

    def test_methods_are_untouched(self):
        assert MethodConfig.model_validate("msgd").label == "msgd"


class TestOpenML:
    STORY = {
        "id": "7",
        "name": "toy",
        "version": "2",
        "format": "ARFF",
        "url": "https://api.openml.org/data/v1/download/7/toy.arff",
        "default_target_attribute": "class",
        "row_id_attribute": "id",
        "ignore_attribute": ["comment"],
    }
    ARFF = (
        "@relation toy\n@attribute id numeric\n@attribute a numeric\n@attribute comment string\n"
        "@attribute class {x,y,z}\n@data\n1,0.5,'p',x\n2,0.7,'q',y\n3,0.1,'r',z\n4,0.2,'s',z\n5,0.3,'t',y\n"
    )

    @pytest.fixture
    def openml(self, tmp_path, monkeypatch):
        monkeypatch.setenv("AUCFLOW_HOME", str(tmp_path / "home"))
        monkeypatch.setenv("AUCFLOW_MIRROR", str(tmp_path))
        folder = tmp_path / "openml"
        folder.mkdir()
        (folder / "7.arff").write_text(self.ARFF)

        def publish(**changes):
            (folder / "7.json").write_text(json.dumps({"data_set_description": self.STORY | changes}))

        publish()
        return publish

    def test_any_data_set_by_its_number(self, openml):
        (entry,) = TestConfigs().config("openml:7")
        assert entry.name == "openml-7"
        dataset = convert.fn(download.fn(entry.name, entry.source), conversion_rule(entry))
        assert (dataset.n_rows, dataset.n_features, dataset.n_pos) == (5, 1, 1)
        assert dataset.provenance.rule == "x, the rarest, against the rest"

    def test_the_config_may_choose_the_class(self, openml):
        (entry,) = TestConfigs().config({"source": "openml:7", "positive": "z"})
        assert convert.fn(download.fn(entry.name, entry.source), conversion_rule(entry)).n_pos == 2

    @pytest.mark.parametrize(
        "changes, message",
        [
            ({"default_target_attribute": None}, "one target attribute, got none"),
            ({"default_target_attribute": "a,class"}, "got a,class"),
            ({"format": "Parquet"}, "got format Parquet"),
        ],
    )
    def test_a_set_that_cannot_be_used_is_told(self, openml, changes, message):
        openml(**changes)
        with pytest.raises(BadInput, match=message):
            download.fn("openml-7", "openml:7")


def test_a_conversion_becomes_the_rule_that_convert_takes():
    rule = Conversion(rule="class_groups", positive=[1, "b"], negative=["c"]).as_rule("y", ";", ("id",))
    assert (rule.groups, rule.target, rule.delimiter, rule.drop) == ((("1", "b"), ("c",)), "y", ";", ("id",))


@pytest.mark.parametrize(
    "text",
    [
        "[1]",
        "files: []",
        "files: {a: 1}",
        "files: {a: {url: x}}",
        "datasets: {a: {rows: 1}}",
        'datasets: {a: {rows: "208", features: 60, n_pos: 97}}',
        "datasets: {a: {rows: 208, features: 60, n_pos: [1]}}",
        "datasets: {a: {rows: 208, features: 60, n_pos: -1}}",
        "files: {a: {url: x, size_bytes: 3, sha256: 5}}",
        "files: {a: {url: x, size_bytes: 3, sha256: abc}}",
        "when: 2024-99-99",
        "a: [",
    ],
)
def test_a_lock_that_was_spoilt_is_told(text, tmp_path):
    (tmp_path / "my.lock").write_text(text + "\n")
    with pytest.raises(RunFailed, match=r"my\.lock: expected"):
        Lock(tmp_path / "my.lock").digest("a")
