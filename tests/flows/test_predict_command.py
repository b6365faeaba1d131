"""`aucflow predict`: from the champion's name and a file to scores, and to one sentence where that cannot be."""

import hashlib
import json

import numpy as np
import pandas as pd
import pytest
from installed import claims
from mlflow import MlflowClient
from pyarrow import parquet
from shop import Shop

from flows.predict import predict_command
from tasks import registry
from tasks.errors import BadInput, Stopped
from tasks.manifests import FILE, SCHEMA
from tasks.predict import digests, find_model
from tasks.values import ConversionRule, Layout

pytestmark = pytest.mark.filterwarnings("ignore:Found unknown categories")


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """A folder with a champion in its store, and the champion."""
    folder = tmp_path_factory.mktemp("champion")
    claims(200).to_csv(folder / "claims.csv", index=False)
    return folder, Shop(folder).crown("claims", folder / "claims.csv", ConversionRule("fraud"), Layout("fraud"))


@pytest.fixture
def folder(kept, tmp_path, monkeypatch):
    """The folder of the store as the current one, rid of what a test wrote."""
    folder, _ = kept
    monkeypatch.chdir(folder)
    before = set(folder.iterdir())
    yield folder
    for path in set(folder.iterdir()) - before:
        path.unlink()


def test_the_champions_scores_are_written_and_told(kept, folder, capsys):
    _, champion = kept
    predict_command("claims@champion", "claims.csv", "scores.parquet", chunk_rows=50)
    scores = pd.read_parquet("scores.parquet")
    np.testing.assert_array_equal(scores["score"], champion.ranker.predict(champion.table.X))
    assert scores["predicted"].tolist() == champion.ranker.classify(champion.table.X).tolist()
    out, err = capsys.readouterr()
    assert f"model    claims/1 (champion), run {champion.run_id}" in out
    assert "not read fraud" in out
    assert f"scores.parquet: 200 rows, {(scores['predicted'] == 'yes').sum()} above the threshold" in out
    assert err == ""


def test_texts_that_training_had_not_are_told(folder, capsys):
    """A column in upper case moved every score, and nobody was told."""
    rows = pd.read_csv("claims.csv")
    rows.loc[3, "shop"] = "Atlantis"
    rows.to_csv("one.csv", index=False)
    predict_command("claims@champion", "one.csv", "one.parquet", chunk_rows=50)
    out, err = capsys.readouterr()
    cells = rows["shop"].notna().sum()
    assert f"new      shop 1 of {cells}: texts that training had not" in out and err == ""
    rows["shop"] = " " + rows["shop"].str.upper()
    rows.to_csv("upper.csv", index=False)
    for size in (7, 10_000):
        predict_command("claims@champion", "upper.csv", f"upper{size}.parquet", chunk_rows=size)
        out, err = capsys.readouterr()
        assert f"new      shop {cells} of {cells}" in out
        assert err == (
            f"aucflow: column 'shop': {cells} of {cells} texts are none that training had ('SÜD', 'NORTH', 'ATLANTIS'; "
            "it had '<b>west</b>', 'north', 'süd'): each counts as none of them. Write them as in training.\n"
        )


def facts_in(name):
    metadata = parquet.read_schema(name).metadata.items()
    return {key.decode().removeprefix("aucflow."): value.decode() for key, value in metadata}


@pytest.mark.parametrize("name", ["claims/1", "its run", "the letters of its id that tables show"])
def test_the_file_says_where_its_scores_come_from(name, kept, folder):
    _, champion = kept
    letters = {"claims/1": "claims/1", "its run": champion.run_id}.get(name, champion.run_id[:8])
    predict_command(letters, "claims.csv", "scores.parquet")
    facts = facts_in("scores.parquet")
    assert (facts["model"], facts["run_id"]) == ("claims/1" if "/" in name else champion.run_id, champion.run_id)
    assert facts["data_sha256"] == hashlib.sha256((folder / "claims.csv").read_bytes()).hexdigest()
    assert float(facts["threshold"]) == champion.ranker.threshold


def test_the_file_has_the_digests_that_were_registered_or_those_of_a_run_now(kept, folder):
    _, champion = kept
    client = MlflowClient("sqlite:///mlruns/mlflow.db")
    source = find_model(client, champion.run_id)
    model = registry.artifact_sha256(source.uri)
    assert digests(client, source) == {"model_sha256": model}
    run = {"run_id": champion.run_id, "name": "claims", "status": "FINISHED"}
    parts = {"config": {}, "store": {}, "code": {}, "environment": {}, "splits": [], "method": {}, "folds": []}
    text = json.dumps({"schema": SCHEMA, "kind": "run", "run": run, "data": {"sha256": "2" * 64}, **parts})
    client.log_text(champion.run_id, text, FILE)
    predict_command(champion.run_id, "claims.csv", "run.parquet")
    predict_command("claims/1", "claims.csv", "version.parquet")
    of_run = {"manifest_sha256": hashlib.sha256(text.encode()).hexdigest(), "training_sha256": "2" * 64}
    of_version = {"manifest_sha256": "0" * 64, "training_sha256": "1" * 64}
    assert (of_run | {"model_sha256": model}).items() <= facts_in("run.parquet").items()
    assert (of_version | {"model_sha256": model}).items() <= facts_in("version.parquet").items()


def test_nothing_is_overwritten_unless_asked_for(folder):
    (folder / "scores.csv").write_text("mine")
    with pytest.raises(BadInput, match="add --force"):
        predict_command("claims@champion", "claims.csv", "scores.csv")
    assert (folder / "scores.csv").read_text() == "mine"
    predict_command("claims@champion", "claims.csv", "scores.csv", force=True)
    assert len(pd.read_csv("scores.csv")) == 200


def test_an_interrupt_leaves_no_half_file(folder, monkeypatch):
    def interrupted(*_arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr("tasks.predict.score", interrupted)
    with pytest.raises(Stopped, match="nothing was written"):
        predict_command("claims@champion", "claims.csv", "scores.csv")
    assert not [path for path in folder.iterdir() if "scores" in path.name]


@pytest.mark.parametrize(
    "model, data, words",
    [
        ("claims@champoin", "claims.csv", "Choose one of claims@champion, claims/1"),
        ("claims@champion", "clams.csv", "Did you mean 'claims.csv'?"),
        ("claims@champion", "bad.csv", "missing: 'amount' (is it 'amuont'?)"),
    ],
)
def test_what_cannot_be_used_is_told_in_one_sentence(model, data, words, folder):
    claims(40).rename(columns={"amount": "amuont"}).to_csv("bad.csv", index=False)
    with pytest.raises(BadInput) as error:
        predict_command(model, data, "scores.parquet")
    assert words in str(error.value)
    assert not (folder / "scores.parquet").exists()


def test_a_folder_without_a_store(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadInput, match="found none"):
        predict_command("claims@champion", "new.csv", "scores.parquet")
    assert not list(tmp_path.iterdir())
