"""OpenLineage: events that say what the manifest says, valid for others and for our own schemas, and harm no run."""

import copy
import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from unittest import mock

import pytest
from audited import claims
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from tasks import openlineage
from tasks.cell import compute, divide, plainly
from tasks.configuration import ExperimentConfig, resolve_paths
from tasks.convert import convert
from tasks.download import download
from tasks.manifest import cell_sections, data_section, fold_sections
from tasks.manifests import SCHEMA
from tasks.openlineage import FACETS, emit, events, schema_id
from tasks.progress import NOTICE, listening
from tasks.values import ConversionRule

SCHEMAS = Path(openlineage.__file__).parent / "facets"
RUN, PARENT = "0123456789abcdef0123456789abcdef", "f" * 32
METHODS = ["sdcd", "u1_linear_svm", {"solver": "ls_svm", "sampler": "mwmote"}, "sklearn.svm.LinearSVC"]
DECISION = {
    "promote": False,
    "reason": "The AUC is too low.",
    "judged": [
        {"rule": "min_auc", "passed": False, "value": 0.4, "limit": 0.5, "reason": "The AUC is 0.4, expected 0.5."},
        {"rule": "max_psi", "passed": False, "value": None, "limit": 0.2, "reason": "There are no scores."},
    ],
}


@pytest.fixture(scope="module")
def wine():
    return convert.fn(download.fn("wine", "sklearn:wine", None), ConversionRule("cultivar", "class_2"))


def run_section(**more):
    section = {"run_id": RUN, "experiment": "vintage", "name": "wine sdcd", "parents": [PARENT], "user": "me"}
    times = {"started": "2026-11-21T18:00:00.000+00:00", "ended": "2026-11-21T18:00:07.125+00:00"}
    return section | times | {"status": "FINISHED", "reason": None} | more


def make_manifest(wine, method):
    """Return the manifest of a real fit; what only a store can tell is made up."""
    config = ExperimentConfig.model_validate({"datasets": ["wine"], "methods": [method], "validation": {"folds": 2}})
    (asked,), prepared = config.methods, divide(wine, config, plainly)
    result = compute(prepared, asked, config, 7, plainly)
    artifacts = [
        {"path": name, "size_bytes": 3, "sha256": "ab" * 32} for name in ("model/MLmodel", "model/model.skops")
    ]
    made_up = {"run": run_section(), "artifacts": artifacts, "code": {"version": "0.1.0"}, "decision": DECISION}
    return {"schema": SCHEMA, "kind": "run", **cell_sections(prepared, asked, config, 7)} | {
        **fold_sections(result, 7),
        **made_up,
    }


@pytest.fixture(scope="module")
def manifests(wine):
    return [make_manifest(wine, method) for method in METHODS]


@pytest.fixture
def manifest(manifests):
    return copy.deepcopy(manifests[0])


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """An environment without a word of OpenLineage, which the client itself adds to."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENLINEAGE")}
    monkeypatch.chdir(tmp_path)
    with mock.patch.dict(os.environ, kept | {"HOME": str(tmp_path), "NO_PROXY": "127.0.0.1"}, clear=True):
        yield os.environ


@pytest.fixture
def server():
    """A server on loopback that keeps what is posted to it and answers with ``status``."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            self.server.posted.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(self.server.status)
            self.end_headers()

        def log_message(self, *arguments):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.posted, server.status = [], 201
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def facets_of(event):
    """Return all facets of an event by name."""
    found = {**event["run"]["facets"], **event["job"]["facets"]}
    for data in [*event["inputs"], *event["outputs"]]:
        found |= data["facets"] | data.get("inputFacets", {}) | data.get("outputFacets", {})
    return found


def validate(name, facet):
    schema = json.loads((SCHEMAS / f"{name}-{FACETS[name]}.json").read_text(encoding="utf-8"))
    Draft202012Validator(schema).validate(facet)


class TestEvents:
    def test_a_run_starts_and_completes_once_under_its_experiment(self, manifest):
        start, end = events(manifest)
        assert [start["eventType"], end["eventType"]] == ["START", "COMPLETE"]
        assert (start["eventTime"], end["eventTime"]) == (manifest["run"]["started"], manifest["run"]["ended"])
        for event in (start, end):
            assert event["run"]["runId"] == "01234567-89ab-cdef-0123-456789abcdef"
            assert event["job"]["name"] == "vintage/wine sdcd"
            assert event["run"]["facets"]["parent"]["run"] == {"runId": "ffffffff-ffff-ffff-ffff-ffffffffffff"}
            assert event["run"]["facets"]["parent"]["job"] == {"namespace": "aucflow", "name": "vintage"}
        assert start["outputs"] == [] and not set(FACETS) & set(start["run"]["facets"])

    def test_an_experiment_has_the_name_that_its_cells_call_it_by_and_all_its_data(self, manifest, wine):
        report = {"path": "run/vintage-0123.html", "size_bytes": 9, "sha256": "cd" * 32}
        data = [data_section(wine), data_section(wine)]
        experiment = {"kind": "experiment", "data": data, "artifacts": [report], "code": manifest["code"]}
        _, end = events(experiment | {"run": run_section(name="vintage", parents=[])}, namespace="cellar")
        assert end["job"]["namespace"] == "cellar" and end["job"]["name"] == "vintage"
        assert "parent" not in end["run"]["facets"] and len(end["inputs"]) == 2
        (output,) = end["outputs"]
        assert output["name"] == f"runs:/{RUN}/vintage-0123.html"
        assert output["facets"]["version"]["datasetVersion"] == "cd" * 32

    @pytest.mark.parametrize(("status", "kind"), [("FAILED", "FAIL"), ("KILLED", "ABORT")])
    def test_a_run_that_broke_off_says_why_and_claims_no_results(self, manifest, status, kind):
        manifest |= {"folds": [], "artifacts": [], "run": run_section(status=status, reason="ValueError: no")}
        del manifest["decision"]
        _, end = events(manifest)
        assert end["eventType"] == kind
        assert end["run"]["facets"]["errorMessage"]["message"] == "ValueError: no"
        assert end["outputs"] == [] and not set(FACETS) & set(end["run"]["facets"])

    def test_what_goes_in_is_the_raw_file_with_its_digest_and_what_conversion_made_of_it(self, manifest):
        manifest["data"] |= {"columns": {"alcohol": "number"}, "missing_cells": {"alcohol": 3}}
        manifest["data"]["findings"] = [{"kind": "clock_column", "severity": "warning", "message": "A clock."}]
        (data,) = events(manifest)[1]["inputs"]
        raw = manifest["data"]["raw"][0]
        assert (data["namespace"], data["name"]) == ("sklearn", "wine")
        assert data["facets"]["version"]["datasetVersion"] == raw["sha256"]
        assert data["facets"]["aucflow_conversion"]["X_sha256"] == manifest["data"]["X_sha256"]
        assert data["facets"]["aucflow_conversion"]["label_counts"] == {"class_0": 59, "class_1": 71, "class_2": 48}
        assert data["facets"]["schema"]["fields"] == [{"name": "alcohol", "type": "number"}]
        assert data["inputFacets"]["dataQualityMetrics"]["columnMetrics"] == {"alcohol": {"nullCount": 3}}
        assert data["inputFacets"]["dataQualityAssertions"]["assertions"][0]["assertion"] == "clock_column"

    def test_what_comes_out_has_another_version_when_any_file_of_the_model_has(self, manifest):
        versions = set()
        for changed in range(3):
            if changed:
                manifest["artifacts"][changed - 1]["sha256"] = "ef" * 32
            (output,) = events(manifest)[1]["outputs"]
            assert output["name"] == f"runs:/{RUN}/model"
            versions.add(output["facets"]["version"]["datasetVersion"])
        assert len(versions) == 3

    @pytest.mark.parametrize(
        ("source", "address"),
        [
            ("https://host.org/data/a9a.bz2", ("https://host.org", "data/a9a.bz2")),
            ("http://me:secret@host:81/a.csv?token=secret#secret", ("http://host:81", "a.csv")),
            ("openml:1590", ("openml", "1590")),
            ("mirror:keel/iris0.dat", ("file", "mirror:keel/iris0.dat")),
        ],
    )
    def test_sources_are_named_as_others_name_them_and_no_secret_leaves(self, manifest, source, address):
        manifest["data"]["raw"][0]["source"] = source
        found = events(manifest)
        assert all((e["inputs"][0]["namespace"], e["inputs"][0]["name"]) == address for e in found)
        assert "secret" not in json.dumps(found)

    @pytest.mark.parametrize(
        ("source", "path"),
        [
            ("claims.csv", "/data/claims.csv"),
            ("./claims.csv", "/data/claims.csv"),
            ("~/claims.csv", "/data/claims.csv"),
            ("../claims.csv", "/data/jobs/../claims.csv"),
            ("/data/configs/../claims.csv", "/data/configs/../claims.csv"),
        ],
    )
    def test_a_file_of_ones_own_has_one_name_however_it_was_named(self, manifest, source, path):
        """By what the user wrote, files of two folders were one, and one file of a command and of a config two."""
        manifest["data"]["raw"][0] |= {"source": source, "path": path}
        (data,) = events(manifest)[1]["inputs"]
        assert (data["namespace"], data["name"]) == ("file", "/data/claims.csv")
        assert data["facets"]["dataSource"]["uri"] == "file:///data/claims.csv"

    def test_where_it_lies_is_an_address_whatever_its_name(self, manifest):
        path = "/data/odd:name 100%#ä.csv"
        manifest["data"]["raw"][0] |= {"source": path, "path": path}
        (data,) = events(manifest)[1]["inputs"]
        assert data["name"] == path
        assert data["facets"]["dataSource"]["uri"] == "file:///data/odd%3Aname%20100%25%23%C3%A4.csv"

    @pytest.mark.parametrize("by", ["command", "config"])
    def test_a_real_file_is_named_by_its_absolute_path(self, tmp_path, monkeypatch, by):
        (tmp_path / "configs").mkdir()
        claims(tmp_path / "claims.csv")
        monkeypatch.chdir(tmp_path)
        source = "claims.csv"
        if by == "config":
            tree = resolve_paths({"datasets": [{"source": "../claims.csv"}]}, tmp_path / "configs")
            source = tree["datasets"][0]["source"]
        raw = download.fn("claims", source)
        section = data_section(convert.fn(raw, ConversionRule("fraud", "yes")))
        report = {"kind": "experiment", "data": [section], "artifacts": [], "code": {"version": "0.1.0"}}
        (data,) = events(report | {"run": run_section()})[1]["inputs"]
        assert (data["namespace"], data["name"]) == ("file", str(tmp_path / "claims.csv"))


class TestFacets:
    @pytest.mark.parametrize("index", range(len(METHODS)), ids=str)
    def test_ours_are_valid_by_the_schema_that_they_name(self, manifests, index):
        found = facets_of(events(manifests[index])[1])
        assert set(FACETS) <= set(found)
        for name in FACETS:
            validate(name, found[name])
        assert [f["fold"] for f in found["aucflow_certificate"]["folds"]] == [0, 1, -1]
        assert [f["fold"] for f in found["aucflow_evaluation"]["folds"]] == [0, 1]

    def test_they_say_what_the_manifest_says(self, manifests):
        made, foreign = (facets_of(events(manifests[i])[1]) for i in (2, 3))
        assert all(f["n_added"] > 0 and "added_sha256" in f for f in made["aucflow_sampling"]["folds"])
        refit = foreign["aucflow_certificate"]["folds"][-1]
        assert refit["status"] == "uncertified" and "dual_gap" not in refit
        assert refit["model_sha256"] == manifests[3]["folds"][-1]["model_sha256"]
        tested = manifests[3]["folds"][1]
        assert foreign["aucflow_evaluation"]["folds"][1]["test"]["auc"] == tested["test"]["auc"]

    @pytest.mark.parametrize("name", FACETS)
    def test_schemas_have_the_name_that_facets_give_and_refuse_what_is_less_more_or_other(self, manifests, name):
        schema = json.loads((SCHEMAS / f"{name}-{FACETS[name]}.json").read_text(encoding="utf-8"))
        Draft202012Validator.check_schema(schema)
        assert schema["$id"] == schema_id(name)
        facet = facets_of(events(manifests[0])[1])[name]
        for key in schema["required"]:
            with pytest.raises(ValidationError):
                validate(name, {k: v for k, v in facet.items() if k != key})
            with pytest.raises(ValidationError):
                validate(name, facet | {key: None})
        with pytest.raises(ValidationError):
            validate(name, facet | {"more": 1})

    def test_every_schema_belongs_to_a_facet(self):
        assert {path.stem.rpartition("-")[0] for path in SCHEMAS.glob("*.json")} == set(FACETS)

    def test_the_standards_own_classes_take_the_others_and_name_the_same_versions(self, manifest):
        facet_v2 = pytest.importorskip("openlineage.client.facet_v2", reason="needs the extra 'openlineage'")
        from openlineage.client.serde import Serde

        classes = {
            "parent": facet_v2.parent_run.ParentRunFacet,
            "processing_engine": facet_v2.processing_engine_run.ProcessingEngineRunFacet,
            "errorMessage": facet_v2.error_message_run.ErrorMessageRunFacet,
            "jobType": facet_v2.job_type_job.JobTypeJobFacet,
            "dataSource": facet_v2.datasource_dataset.DatasourceDatasetFacet,
            "version": facet_v2.dataset_version_dataset.DatasetVersionDatasetFacet,
            "schema": facet_v2.schema_dataset.SchemaDatasetFacet,
            "dataQualityMetrics": facet_v2.data_quality_metrics_input_dataset.DataQualityMetricsInputDatasetFacet,
            "dataQualityAssertions": facet_v2.data_quality_assertions_dataset.DataQualityAssertionsDatasetFacet,
        }
        manifest["data"] |= {
            "columns": {"a": "number"},
            "findings": [{"kind": "k", "severity": "info", "message": "m"}],
        }
        manifest["run"] = run_section(status="FAILED", reason="why")
        found = facets_of(events(manifest)[1])
        assert set(found) == set(classes) | set(FACETS)
        for name, kind in classes.items():
            fields = {key: value for key, value in found[name].items() if not key.startswith("_")}
            theirs = Serde.to_dict(kind(**fields, producer=found[name]["_producer"]))
            assert {key: theirs[key] for key in found[name]} == found[name]


class TestEmit:
    @pytest.fixture(autouse=True)
    def client(self):
        pytest.importorskip("openlineage.client", reason="needs the extra 'openlineage'")

    def without_tags(self, event):
        del event["run"]["facets"]["tags"]  # the client's version, which it adds itself
        return event

    def test_a_file_gets_the_events_as_json_lines(self, manifests, environment, tmp_path):
        path = tmp_path / "events.jsonl"
        transport = {"type": "file", "log_file_path": str(path), "append": True}
        (tmp_path / "ol.yml").write_text(json.dumps({"transport": transport}))
        environment["OPENLINEAGE_CONFIG"] = str(tmp_path / "ol.yml")
        assert emit(manifests[:2]) == 4
        lines = [self.without_tags(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()]
        expected = [event for manifest in manifests[:2] for event in events(manifest)]
        assert lines == expected
        for line in lines[1::2]:
            for name, facet in facets_of(line).items():
                if name in FACETS:
                    validate(name, facet)

    def test_a_server_gets_them_under_the_namespace_asked_for(self, manifest, environment, server):
        """And nothing of the repository that the user happens to stand in."""
        for command in ("init -q", "remote add origin https://me:secret@host/theirs.git"):
            subprocess.run(["git", *command.split()], check=True)
        environment |= {"OPENLINEAGE_URL": f"http://127.0.0.1:{server.server_port}", "OPENLINEAGE_NAMESPACE": "cellar"}
        assert emit([manifest]) == 2
        assert [path for path, _ in server.posted] == ["/api/v1/lineage"] * 2
        assert [event["eventType"] for _, event in server.posted] == ["START", "COMPLETE"]
        assert {event["job"]["namespace"] for _, event in server.posted} == {"cellar"}
        assert "theirs.git" not in json.dumps(server.posted)

    @pytest.mark.parametrize("failure", ["dead", "refusing"])
    def test_a_server_that_fails_is_told_of_once_and_harms_nothing(
        self, manifests, environment, server, caplog, failure
    ):
        server.status = 400
        if failure == "dead":
            server.shutdown()
            server.server_close()
        environment |= {
            "OPENLINEAGE__TRANSPORT__TYPE": "http",
            "OPENLINEAGE__TRANSPORT__URL": f"http://127.0.0.1:{server.server_port}",
            "OPENLINEAGE__TRANSPORT__RETRY": '{"total": 0}',
        }
        steps = []
        with listening(steps.append):
            assert emit(manifests) == 0
        (told,) = [record for record in caplog.records if record.levelname == "WARNING"]
        assert [(step.stage, step.detail) for step in steps] == [("send events", ""), (NOTICE, told.message)]
        reason = {"dead": "Connection refused", "refusing": "400 Client Error"}[failure]
        assert reason in told.message and "the run goes on" in told.message and "\n" not in told.message

    def test_a_file_that_cannot_be_written_is_told_of(self, manifest, environment, tmp_path, caplog):
        environment |= {
            "OPENLINEAGE__TRANSPORT__TYPE": "file",
            "OPENLINEAGE__TRANSPORT__LOG_FILE_PATH": str(tmp_path / "no" / "folder"),
        }
        assert emit([manifest]) == 0
        assert "No such file" in caplog.text

    @pytest.mark.parametrize("config", ["gone.yml", "empty.yml"])
    def test_a_config_without_a_transport_is_told_of_and_prints_nothing(
        self, manifest, environment, tmp_path, config, caplog, capsys
    ):
        (tmp_path / "empty.yml").write_text("{}")
        environment["OPENLINEAGE_CONFIG"] = str(tmp_path / config)
        assert emit([manifest]) == 0
        assert "expected a transport in OPENLINEAGE_CONFIG" in caplog.text
        assert capsys.readouterr().out == ""

    def test_switched_off_is_off(self, manifest, environment, server):
        environment |= {"OPENLINEAGE_URL": f"http://127.0.0.1:{server.server_port}", "OPENLINEAGE_DISABLED": "True"}
        assert emit([manifest]) == 0 and server.posted == []


def test_without_the_library_the_extra_is_named(manifest, environment, monkeypatch, caplog):
    environment["OPENLINEAGE_URL"] = "http://127.0.0.1:9"
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    assert emit([manifest]) == 0
    assert "aucflow[openlineage]" in caplog.text


def test_without_configuration_nothing_is_sent_and_nothing_imported(environment):
    environment["OPENLINEAGE_NAMESPACE"] = "names no transport"
    code = "import sys, tasks.openlineage as o; print(o.emit([{}]), 'openlineage.client' in sys.modules)"
    root = str(Path(openlineage.__file__).parent.parent)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.split() == ["0", "False"]


class TestPage:
    """What docs/lineage-formats.md says of manifest and events."""

    page = (Path(openlineage.__file__).parent.parent / "docs" / "lineage-formats.md").read_text(encoding="utf-8")

    def test_every_section_of_a_manifest_is_told_of(self, manifest):
        rows = "\n".join(line for line in self.page.splitlines() if line.startswith("| `"))
        assert [name for name in manifest if name != "decision" and f"`{name}`" not in rows] == []
        assert manifest["schema"] in rows

    def test_every_facet_and_end_is_told_of(self):
        assert [name for name in (*FACETS, *openlineage.STANDARD) if f"`{name}`" not in self.page] == []
        assert [end for end in openlineage.ENDS.values() if f"`{end}`" not in self.page] == []
