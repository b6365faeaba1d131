"""Manifests read back: whatever names a run, one run; whatever stands in a file, a manifest or one clear error."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow import MlflowClient

from tasks.errors import BadInput
from tasks.ledger import Ledger, canonical
from tasks.manifests import (
    BadManifest,
    Manifest,
    cells_of,
    children,
    find_manifest,
    find_run,
    parse_manifest,
    read_manifest,
)
from tasks.runs import PARENT


def manifest(run_id="0" * 32, kind="run", **parts):
    both = {"run": {"run_id": run_id, "name": "wine svm_or", "status": "FINISHED"}, "config": {}, "store": {}}
    own = {
        "run": {"data": {}, "splits": [], "method": {}, "folds": [{"fold": -1}]},
        "experiment": {"data": [], "cells": []},
    }
    return {"schema": "aucflow-manifest/1", "kind": kind, "code": {}, "environment": {}} | both | own[kind] | parts


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with two experiments: runs by name, the older experiment twice."""
    folder = tmp_path_factory.mktemp("store")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        Path("mlruns").mkdir()
        client = MlflowClient(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}")
        runs = {}
        for moment, (experiment, *cells) in enumerate(
            [("old", "wine svm_or"), ("old", "wine svm_or"), ("new", "wine svm_or", "wine sdcd", "twice", "twice")], 1
        ):
            found = client.get_experiment_by_name(experiment)
            place = (
                found.experiment_id if found else client.create_experiment(experiment, (folder / experiment).as_uri())
            )
            parent = client.create_run(place, moment * 100, run_name=experiment)
            runs[f"{experiment} {moment}"] = parent
            for number, cell in enumerate(cells):
                tags = {PARENT: parent.info.run_id}
                runs[f"{cell} {moment} {number}"] = client.create_run(place, moment * 100 + number + 1, tags, cell)
        yield client, runs


def test_a_run_is_found_by_id_prefix_and_name(store):
    client, runs = store
    for run in runs.values():
        for text in (run.info.run_id, run.info.run_id[:31], run.info.run_id[:12]):
            assert find_run(client, text).info.run_id == run.info.run_id
    assert find_run(client, "new").info.run_id == runs["new 3"].info.run_id
    assert find_run(client, "wine svm_or").info.run_id == runs["wine svm_or 3 0"].info.run_id
    assert find_run(client, "old").info.run_id == runs["old 2"].info.run_id
    names = [run.info.run_name for run in children(client, runs["new 3"])]
    assert names == ["wine svm_or", "wine sdcd", "twice", "twice"]


UNKNOWN = {
    "twice": "Expected the name of one run, got 'twice', which 2 have",
    "wine sdc": "Did you mean 'wine sdcd'?",
    "0123456": "found no '0123456'",
    "f" * 32: "found no 'ffff",
    "  ": "got an empty text",
    "abc": "at least 6 letters",
    "%' OR 1=1": "found no",
}


@pytest.mark.parametrize(("text", "message"), UNKNOWN.items())
def test_what_names_no_run_or_several_is_told_in_one_line(store, text, message):
    with pytest.raises(BadInput, match=message.replace("?", r"\?")):
        find_run(store[0], text)


def test_a_prefix_that_several_ids_have_is_refused(store, monkeypatch):
    client, runs = store
    found = [runs["new 3"], runs["old 2"]]
    monkeypatch.setattr(client, "search_runs", lambda *_, **__: found)
    with pytest.raises(BadInput, match=r"Expected the id of one run, got 'abcdef', with which 2 begin: .*Add letters"):
        find_run(client, "abcdef")


def test_a_manifest_comes_with_its_digest_and_what_the_ledger_says(store, tmp_path, monkeypatch):
    client, runs = store
    run = runs["wine sdcd 3 1"]
    with pytest.raises(BadManifest, match="found none"):
        read_manifest(client, run.info.run_id)
    with pytest.raises(BadManifest, match="Expected run ffffffff in the store, found none"):
        read_manifest(client, "f" * 32)
    data = canonical(manifest(run.info.run_id))
    client.log_text(run.info.run_id, data.decode(), "lineage.json")
    digest = hashlib.sha256(data).hexdigest()
    assert read_manifest(client, run.info.run_id) == (json.loads(data), digest)
    found = find_manifest("wine sdcd")
    assert (found.sha256, found.recorded, found.is_changed, found.run_id) == (digest, None, False, run.info.run_id)
    Ledger(Path("mlruns/ledger")).append("run", run.info.run_id, "finished", {"manifest_sha256": digest})
    found = find_manifest(run.info.run_id[:8])
    assert (found.recorded, found.is_changed, found.is_experiment) == (digest, False, False)
    client.log_text(run.info.run_id, data.decode().replace("FINISHED", "finished"), "lineage.json")
    assert find_manifest("wine sdcd").is_changed
    copy = tmp_path / "lineage.json"
    copy.write_bytes(data)
    found = find_manifest(str(copy))
    assert (found.sha256, found.is_changed, found.folder) == (digest, False, str(tmp_path))


def test_the_cells_of_an_experiment_are_held_against_what_it_says_of_them(store):
    client, runs = store
    first, gone = runs["twice 3 2"].info.run_id, runs["twice 3 3"].info.run_id
    data = canonical(manifest(first))
    client.log_text(first, data.decode(), "lineage.json")
    rows = [{"dataset": "d", "method": "m", "run_id": one, "manifest_sha256": "f" * 64} for one in (first, gone)]
    found, lost = cells_of(Manifest(manifest(kind="experiment", cells=rows), "", ""))
    assert found.is_changed
    assert isinstance(lost, BadManifest)
    rows[0]["manifest_sha256"] = hashlib.sha256(data).hexdigest()
    assert not cells_of(Manifest(manifest(kind="experiment", cells=rows), "", ""))[0].is_changed


def test_a_folder_without_a_store_is_told_and_left_as_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="Run `aucflow run` here first"):
        find_manifest("abcdef")
    with pytest.raises(BadInput, match="No such file"):
        find_manifest("lineage.json")
    assert not list(tmp_path.iterdir())


@given(st.binary() | st.text().map(str.encode) | st.just(b"[" * 100_000))
def test_bytes_that_are_no_manifest_are_one_error(data):
    with pytest.raises(BadManifest, match=r"^here: expected a manifest .*got"):
        parse_manifest(data, "here")


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
NAMES = [
    "run",
    "data",
    "splits",
    "method",
    "config",
    "folds",
    "store",
    "code",
    "environment",
    "kind",
    "schema",
    "cells",
]


@given(st.sampled_from(["run", "experiment"]), st.sampled_from(NAMES), JSON)
def test_a_manifest_with_anything_in_place_of_a_part_is_read_or_refused(kind, name, part):
    try:
        read = parse_manifest(json.dumps(manifest(kind=kind) | {name: part}).encode(), "here")
    except BadManifest as error:
        assert "\n" not in str(error)
    else:
        assert Manifest(read, "", "").run_id == "0" * 32


@pytest.mark.parametrize("name", ["run", "data", "folds", "code", "schema", "kind"])
def test_a_manifest_without_a_part_is_refused(name):
    whole = manifest()
    assert parse_manifest(canonical(whole), "here") == whole
    del whole[name]
    with pytest.raises(BadManifest):
        parse_manifest(canonical(whole), "here")
