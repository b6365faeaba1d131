"""The MLflow store: which folders it can lie in, and that a copy of it never writes into the original."""

import os
import re
import shutil
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from unittest.mock import Mock, patch

import pytest
from sqlalchemy.exc import OperationalError

from tasks import store
from tasks.errors import BadInput, RunFailed, in_short, without_password
from tasks.ledger import Ledger
from tasks.runs import PARENT, list_runs
from tasks.track import reason_of


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty current folder, with the store in its mlruns/."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestExisting:
    def test_a_folder_without_a_store_is_told_and_left_as_it_is(self, folder):
        with pytest.raises(BadInput, match=r"found none\. Run `aucflow run` here first"):
            store.existing()
        assert not list(folder.iterdir())

    def test_a_damaged_store_is_told_in_one_sentence_and_left_as_it_is(self, folder):
        (folder / "mlruns").mkdir()
        (folder / "mlruns" / "mlflow.db").write_bytes(b"no database" * 1000)
        with pytest.raises(RunFailed, match=r"Expected an MLflow store at .*\. Restore a copy\.$") as error:
            store.existing()
        assert "\n" not in str(error.value)
        assert [path.name for path in (folder / "mlruns").iterdir()] == ["mlflow.db"]


class TestServer:
    """A database on a server, which may be away: MLflow tries for two minutes."""

    SECRET = "postgresql://bob:secret@db:5432/mlflow"

    @pytest.fixture
    def unasked(self, monkeypatch):
        """The address, and an MLflow that must not be asked."""
        monkeypatch.setenv("MLFLOW_TRACKING_URI", self.SECRET)
        monkeypatch.setattr(store, "MlflowClient", Mock(side_effect=AssertionError))

    def test_what_is_in_the_way_is_told_at_once(self, unasked, monkeypatch):
        said = Exception('connection to server at "db", port 5432 failed: FATAL: no such password\nsecond line')
        refused = OperationalError("SELECT 1", {}, said)
        monkeypatch.setattr("mlflow.store.db.utils.create_sqlalchemy_engine", Mock(side_effect=refused))
        expected = (
            'Expected an MLflow store at postgresql://db:5432/mlflow, got: connection to server at "db", port 5432 '
            "failed: FATAL: no such password. Start it, mend its address, or unset MLFLOW_TRACKING_URI."
        )
        with pytest.raises(store.StoreAway, match=f"^{re.escape(expected)}$"):
            store.existing()

    def test_a_tracking_server_that_cannot_be_asked_is_away_too(self, monkeypatch):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
        with pytest.raises(store.StoreAway, match=r"Start it, mend its address, or unset MLFLOW_TRACKING_URI\.$"):
            store.existing()

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            (None, r"Read timed out\. \(read timeout=0\.2\)\. Mend it or its address"),
            (500, r"too many 500 error responses\. Mend it or its address"),
            (200, "the response body was not in a valid JSON format"),
        ],
        ids=["hangs", "fails", "another"],
    )
    def test_a_tracking_server_that_is_up_and_no_use_is_told_as_such(self, answer, said, monkeypatch):
        asked = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                if answer is None:
                    asked.wait()
                    return
                self.send_response(answer)
                self.end_headers()
                self.wfile.write(b"<html></html>")

            do_POST = do_GET  # noqa: N815

            def log_message(self, *_):
                pass

        monkeypatch.setattr(store, "KNOCK_S", 0.2 if answer is None else 20.0)
        monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            monkeypatch.setenv("MLFLOW_TRACKING_URI", f"http://127.0.0.1:{server.server_port}")
            with pytest.raises(store.StoreAway, match=said):
                store.existing()
            assert store.answers() == (answer is not None)
            asked.set()
            server.shutdown()

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                "HTTPConnectionPool(host='h', port=1): Max retries exceeded with url: / (Caused by NewConnectionError("
                "\"HTTPConnection(host='h', port=1): Failed to establish a new connection: [Errno 111] Connection "
                'refused"))',
                "Failed to establish a new connection: [Errno 111] Connection refused",
            ),
            (
                "x (Caused by ReadTimeoutError(\"HTTPSConnectionPool(host='h', port=1): Read timed out. (read "
                'timeout=30)"))',
                "Read timed out. (read timeout=30)",
            ),
            ("RESOURCE_DOES_NOT_EXIST: no such run.\nmore", "RESOURCE_DOES_NOT_EXIST: no such run"),
        ],
    )
    def test_of_retries_the_cause_is_told(self, text, said, monkeypatch):
        monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://h:1")
        assert store.what_it_said(Exception(text)) == said

    def test_a_driver_that_is_missing_is_to_be_installed(self, unasked, monkeypatch):
        monkeypatch.setitem(sys.modules, "psycopg2", None)
        with pytest.raises(RunFailed, match=r"psycopg2.* Install this driver beside aucflow, or unset"):
            store.existing()


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgresql+psycopg2://bob:pa%40ss@db:5432/mlflow", "postgresql+psycopg2://db:5432/mlflow"),
        (
            "request to http://bob:secret@host/a failed: see https://token@other",
            "request to http://host/a failed: see https://other",
        ),
        ("sqlite:////home/a@b/mlflow.db", "sqlite:////home/a@b/mlflow.db"),
        ("http://host/a@b", "http://host/a@b"),
        ("http://host?mail=a@b.c, http://host,bob@x.org", "http://host?mail=a@b.c, http://host,bob@x.org"),
        ('{"url": "http://host", "mail": "bob@x.org"}', '{"url": "http://host", "mail": "bob@x.org"}'),
        ("models:/fraud@champion", "models:/fraud@champion"),
    ],
)
def test_an_address_is_shown_without_its_password(text, shown, monkeypatch):
    assert without_password(text) == in_short(ValueError(text)) == shown
    assert reason_of(ValueError(text)) == f"ValueError: {shown}"  # which goes into tags, ledger, manifest and report
    monkeypatch.setenv("MLFLOW_TRACKING_URI", text)
    assert store.shown_uri() == shown


@pytest.mark.parametrize("password", ["pa/ss", "pa ss", "a?b/c#d"])
def test_a_databases_password_may_have_any_sign(password, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"postgresql+psycopg2://bob:{password}@db:5432/mlflow")
    assert store.shown_uri() == "postgresql+psycopg2://db:5432/mlflow"


class TestRuns:
    def test_an_experiment_of_more_cells_than_a_page_has_is_listed_whole(self):
        """Cells begin after their experiment: the newest so many runs may all be cells."""
        client = store.open_store()
        for moment, (name, cells) in enumerate([("old", 2), ("new", 600)], 1):
            place = store.experiment_id(client, name)
            parent = client.create_run(place, moment * 10_000, run_name=name)
            for cell in range(cells):
                tags = {PARENT: parent.info.run_id}
                client.create_run(place, moment * 10_000 + 1 + cell, tags, run_name=f"{name} {cell}")
        names = [row.name for row in list_runs(client)]
        assert all(len(row.run_id) == 32 for row in list_runs(client))
        old = ["old", "  old 0", "  old 1"]
        assert names == ["new", *(f"  new {cell}" for cell in range(600)), *old]
        assert [row.name for row in list_runs(client, most=1)] == names[:-3]


class TestFolder:
    @pytest.mark.parametrize("name", ["a%20b", "feature%2Fx", "ü #1 & co"])
    def test_may_have_signs_of_addresses_in_its_name(self, name, folder, monkeypatch):
        (folder / name).mkdir()
        monkeypatch.chdir(folder / name)
        store.check_store()
        client = store.open_store()
        run = client.create_run(store.experiment_id(client, "claims"))
        client.log_text(run.info.run_id, "text", "file.txt")
        with store.artifact_folder(run.info.artifact_uri) as artifacts:
            assert (artifacts / "file.txt").read_text() == "text"
            assert artifacts.is_relative_to(folder / name / "mlruns" / "artifacts" / "claims")
        store.check_store()

    def test_cannot_have_a_question_mark_in_its_path(self, folder, monkeypatch):
        (folder / "a?b").mkdir()
        monkeypatch.chdir(folder / "a?b")
        with pytest.raises(RunFailed, match=r"question mark .* got .*/a\?b/mlruns\. Rename the folder"):
            store.check_store()
        assert not list((folder / "a?b").iterdir())


class TestPlaceOfExperiment:
    """An experiment keeps the absolute address of its files, also in a store that was copied or moved."""

    @pytest.fixture
    def made(self, folder, monkeypatch):
        """A folder with an experiment in its store."""
        (folder / "made").mkdir()
        monkeypatch.chdir(folder / "made")
        store.experiment_id(store.open_store(), "claims")
        return folder / "made"

    def test_is_in_the_folder_where_it_was_made(self, made):
        client = store.open_store()
        assert store.experiment_id(client, "claims") == client.get_experiment_by_name("claims").experiment_id

    @pytest.mark.parametrize("how", [shutil.copytree, os.replace])
    def test_is_not_in_a_copy_or_where_it_was_moved(self, how, made, folder, monkeypatch):
        how(made, folder / "made copy")
        monkeypatch.chdir(folder / "made copy")
        with pytest.raises(RunFailed, match="was copied or moved here") as error:
            store.experiment_id(store.open_store(), "claims")
        assert f"below {folder}/made copy/mlruns, got {made}/mlruns/artifacts/claims:" in str(error.value)
        assert "move mlruns/ away" in str(error.value)
        assert store.experiment_id(store.open_store(), "a new one")

    @pytest.mark.parametrize("how", [shutil.copytree, os.replace])
    def test_has_the_files_that_came_along(self, how, folder, monkeypatch):
        (folder / "made").mkdir()
        monkeypatch.chdir(folder / "made")
        store.ledger().append("run", "the first", "finished")
        place = folder / "made" / "mlruns" / "artifacts" / "claims"
        how(folder / "made", folder / "copy")
        monkeypatch.chdir(folder / "copy")
        with store.artifact_folder(f"{place.as_uri()}/run/artifacts") as artifacts:
            assert artifacts == folder / "copy" / "mlruns" / "artifacts" / "claims" / "run" / "artifacts"
        data = folder / "made" / "data" / "claims.csv"
        assert store.lies_now(data, place.as_uri()) == folder / "copy" / "data" / "claims.csv"
        for elsewhere in (folder / "claims.csv", folder / "made by others" / "claims.csv"):
            assert store.lies_now(elsewhere, place.as_uri()) == elsewhere
            assert store.artifact_path(elsewhere.as_uri()) == elsewhere
        assert store.artifact_path("s3://bucket/mlruns/artifacts/claims") is None

    def test_changes_no_model_in_a_copy_and_does_where_it_was_moved(self, folder, monkeypatch):
        """Two folders had a champion each, and both audits said that all was well."""
        (folder / "made").mkdir()
        monkeypatch.chdir(folder / "made")
        store.ledger().append("run", "the first", "finished")
        place = (folder / "made" / "mlruns" / "artifacts" / "claims" / "models" / "m-1").as_uri()
        store.refuse_copy(place)
        shutil.copytree(folder / "made", folder / "copy")
        (folder / "link").symlink_to(folder / "made")
        monkeypatch.chdir(folder / "link")
        store.refuse_copy(place)
        monkeypatch.chdir(folder / "copy")
        with pytest.raises(RunFailed, match=f"was made, {folder}/made, got {folder}/copy, a copy of it"):
            store.refuse_copy(place)
        store.refuse_copy("s3://bucket/mlruns/artifacts/claims")
        unseen = patch.object(Path, "samefile", side_effect=PermissionError)
        with unseen, patch.object(store, "_first_entry", return_value=b""):  # as of what another may not read
            store.refuse_copy(place)
        os.replace(folder / "made", folder / "away")
        store.refuse_copy(place)
        (folder / "made").mkdir()
        Ledger(folder / "made" / "mlruns" / "ledger").append("run", "of another store", "finished")
        store.refuse_copy(place)

    @pytest.mark.parametrize("ledger_is_there", [True, False])
    def test_has_the_files_that_came_along_though_another_store_is_at_the_former_place(
        self, folder, monkeypatch, ledger_is_there
    ):
        """As where every machine has its own in /app: an audit named files of the other store, and none was missing."""
        place = folder / "app" / "mlruns" / "artifacts" / "claims"
        for machine in ("one", "another"):
            place.mkdir(parents=True)
            monkeypatch.chdir(folder / "app")
            store.ledger().append("run", f"of {machine} machine", "finished")
            if machine == "one":
                os.replace(folder / "app", folder / "copy")
        place.rmdir()
        monkeypatch.chdir(folder / "copy")
        if not ledger_is_there:
            store.ledger().path.unlink()
        assert store.artifact_path(place.as_uri()) == folder / "copy" / "mlruns" / "artifacts" / "claims"
        assert store.artifact_path(f"{place.as_uri()}/else") == place / "else"  # did not come along

    def test_that_was_renamed_is_not_made_a_second_time(self, made):
        """The ledger's was never to be found again: its name was taken."""
        client = store.open_store()
        first = store.experiment_id(client, "claims")
        run = client.create_run(first)
        store.ledger().append("run", run.info.run_id, "finished", {"experiment": "claims"})
        client.rename_experiment(first, "old claims")
        with pytest.raises(RunFailed, match=f"rename -x {first} --new-name 'claims'`, or choose another name"):
            store.experiment_id(client, "claims")
        client.rename_experiment(first, "claims")
        assert store.experiment_id(client, "claims") == first
        assert store.experiment_id(client, "another")

    def test_is_nowhere_else_for_another_store(self, folder, monkeypatch):
        """Two stores, two ledgers: whoever has an address of the one may stand in the folder of the other."""
        for name in ("made", "other"):
            (folder / name).mkdir()
            monkeypatch.chdir(folder / name)
            store.ledger().append("run", f"of {name}", "finished")
        place = folder / "made" / "mlruns" / "artifacts" / "claims"
        assert store.artifact_path(place.as_uri()) == place
        monkeypatch.chdir(folder)  # without a store
        assert store.artifact_path(place.as_uri()) == place

    def test_is_there_by_a_link_too(self, made, folder, monkeypatch):
        (folder / "link").symlink_to(made)
        monkeypatch.chdir(folder / "link")
        assert store.experiment_id(store.open_store(), "claims")

    def test_is_where_it_was_moved_if_a_link_leads_there(self, made, folder, monkeypatch):
        made.rename(folder / "moved")
        made.symlink_to(folder / "moved")
        monkeypatch.chdir(folder / "moved")
        assert store.experiment_id(store.open_store(), "claims")

    def test_may_be_on_a_server(self, made):
        client = store.open_store()
        made_there = client.create_experiment("far", artifact_location="s3://bucket/far")
        assert store.experiment_id(client, "far") == made_there
