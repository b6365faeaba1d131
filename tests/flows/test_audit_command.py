"""`aucflow audit` as a person and as a program read it: one screen, JSON, a page, and exit codes."""

import json
import shutil
import sqlite3
import sys
from datetime import UTC, datetime
from unittest.mock import Mock

import pytest
from audited import MODEL, forget, inside
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from flows.audit import audit_command, champions_command, verify_command
from flows.cli import main
from flows.lifecycle import rollback_command
from flows.lists import list_command
from flows.start import recover
from tasks import ledger as ledger_module
from tasks import store
from tasks.errors import BadInput, RunFailed


class TestStory:
    @pytest.mark.parametrize("width", [80, 100, 200])
    @pytest.mark.parametrize("target", [f"{MODEL}@champion", "claims", "claims ls_svm"])
    def test_it_fits_on_one_screen(self, audited, capsys, monkeypatch, width, target):
        monkeypatch.setenv("COLUMNS", str(width))
        assert audit_command(target) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[0] == target
        assert len(lines) <= 40
        assert max(map(len, lines)) <= min(width, 100)

    def test_json_has_every_line_and_digest(self, audited, capsys):
        assert audit_command(f"{MODEL}@champion", as_json=True) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["target"], told["ok"], told["findings"]) == (f"{MODEL}@champion", True, [])
        assert {"label", "text", "digests", "state", "why"} == set(told["lines"][0])

    def test_a_page_is_written_where_it_is_asked_for(self, audited, capsys, tmp_path):
        assert audit_command("claims", html=str(tmp_path / "page.html")) == 0
        assert "<h1>claims</h1>" in (tmp_path / "page.html").read_text(encoding="utf-8")
        assert str(tmp_path / "page.html") in capsys.readouterr().out

    @pytest.mark.parametrize("path", ["nowhere/page.html", "."])
    def test_a_page_that_cannot_be_written_is_refused_before_anything_is_checked(self, audited, monkeypatch, path):
        monkeypatch.setattr("flows.audit.tell", lambda *_: pytest.fail("checked first"))
        with pytest.raises(BadInput, match="Expected a file in a folder that there is for --html, got"):
            audit_command("claims", html=path)

    def test_what_the_ledger_lost_is_a_finding_where_the_registry_has_it(self, audited, capsys):
        """It was called bad input, though `verify` named it."""
        entries = audited.ledger.path.read_bytes().splitlines(keepends=True)
        audited.ledger.path.write_bytes(b"".join(entries[:3]))
        assert audit_command(f"{MODEL}/1") == 3
        out = " ".join(capsys.readouterr().out.split())
        assert "no entry of the ledger registers it" in out and "neither store nor ledger" not in out
        assert champions_command(MODEL) == 3

    def test_a_name_cannot_steer_the_terminal(self, audited, capsys):
        """Escapes in a run's name moved the cursor over the finding and wrote that all was well."""
        name = "x\x1b[1A\x1b[2K\rok 16 ledger entries\x1b[8m\n\u202e[b]"
        with sqlite3.connect(audited.folder / "mlruns" / "mlflow.db") as database:
            database.execute("UPDATE runs SET name = ? WHERE run_uuid = ?", (name, audited.runs["claims"]))
            database.execute(
                "UPDATE tags SET value = ? WHERE key = 'mlflow.runName' AND run_uuid = ?",
                (name, audited.runs["claims"]),
            )
        spelt = r"x\x1b[1A\x1b[2K\rok 16 ledger entries\x1b[8m\n\u202e[b]"
        assert verify_command() == 3
        out = capsys.readouterr().out
        assert spelt in out.replace("\n", "") and "\x1b" not in out and "\r" not in out
        assert "1 finding in" in out  # one edit, though it stands in two tables
        list_command("runs")
        out = capsys.readouterr().out
        assert spelt in out and "\x1b" not in out

    def test_what_was_changed_is_said_below_and_the_exit_code_is_3(self, audited, capsys):
        audited.client.set_registered_model_alias(MODEL, "champion", "1")
        assert audit_command(f"{MODEL}/2") == 3
        out = capsys.readouterr().out
        assert f"alias {MODEL}@champion: " in out
        assert "changed" in out


class TestVerify:
    def test_a_run_that_was_to_go_is_told_and_counts_no_more(self, audited, capsys):
        run = audited.runs["claims ls_svm"]
        forget(audited, run)
        assert verify_command() == 3
        for words, code, said in (
            ((run[:8], "--reason", "older than two years"), 0, f"run {run[:8]} is gone, as was meant\n"),
            ((run[:8], "--reason", "older than two years"), 2, "yet to be settled"),
            ((run[:8], "--reason", " "), 2, "an empty text"),
            (
                (MODEL, "--reason", "which?"),
                2,
                "none begins. (A model is settled --to ledger or --to registry.)",
            ),
        ):
            capsys.readouterr()
            with pytest.raises(SystemExit) as ended:
                main(["settle", *words])
            assert ended.value.code == code and said in "".join(capsys.readouterr())
        assert verify_command() == 0
        out = capsys.readouterr().out
        assert out.startswith("settled 1 run: gone from the store on purpose, by the ledger")
        assert out.count("\n") == 2 and "all as it was recorded" in out
        assert audit_command(run[:8]) == 0
        assert "older than two years" in " ".join(capsys.readouterr().out.split())

    def test_one_line_says_how_much_was_checked(self, audited, capsys):
        assert verify_command() == 0
        (line,) = capsys.readouterr().out.splitlines()
        assert line.startswith("ok 7 ledger entries, 3 runs, ")
        assert line.endswith("1 data file, 1 registered model: all as it was recorded")

    def test_each_finding_is_a_line(self, audited, capsys):
        (audited.folder / "claims.csv").write_text("[red]nothing[/]")
        audited.client.log_param(audited.runs["claims"], "extra", "[b]1[/]")
        assert verify_command() == 3
        first, second, last = capsys.readouterr().out.splitlines()
        assert first.startswith("inserted run ")
        assert "param extra: '[b]1[/]' was not there" in first
        assert second.startswith(f"changed data file {audited.folder / 'claims.csv'}: ")
        assert last.startswith("2 findings in 7 ledger entries")

    def test_json_has_findings_and_counts(self, audited, capsys):
        (audited.folder / "claims.csv").unlink()
        assert verify_command(as_json=True, deep=True) == 3
        told = json.loads(capsys.readouterr().out)
        assert (told["ok"], told["checked"]["runs"], told["findings"][0]["kind"]) == (False, 3, "missing")

    @pytest.mark.parametrize(
        ("spoil", "said"),
        [
            ("DROP TABLE registered_model_aliases", "unreadable registry: MLflow cannot list its models"),
            ("DROP TABLE params", "unreadable"),
        ],
    )
    def test_tables_that_are_gone_are_findings(self, audited, capsys, spoil, said):
        with sqlite3.connect(audited.folder / "mlruns" / "mlflow.db") as database:
            database.execute(spoil)
        assert verify_command() == 3
        assert said in capsys.readouterr().out
        with pytest.raises(RunFailed, match=r"Expected a store that can be read, got: .* Run `aucflow audit verify`"):
            audit_command(f"{MODEL}@champion")

    @pytest.mark.parametrize("count", [b"1e999", b"-1e999"])
    def test_a_head_that_counts_to_infinity_is_a_finding(self, audited, capsys, count):
        head = audited.ledger.head_path
        head.write_bytes(head.read_bytes().replace(b'"count":7', b'"count":' + count))
        assert verify_command() == 3
        assert "head ledger head.json: " in capsys.readouterr().out

    @pytest.mark.parametrize("what", ["runs", "models"])
    def test_lists_of_a_store_whose_database_is_gone_are_not_said_to_be_empty(self, audited, what):
        database = audited.folder / "mlruns" / "mlflow.db"
        away = database.rename(
            database.with_suffix(".away")
        )  # and back: other tests' connections are to this very file
        try:
            with pytest.raises(RunFailed, match=r"Expected mlruns/mlflow\.db beside .* run `aucflow audit verify`"):
                list_command(what)
        finally:
            away.rename(database)

    def test_a_changed_end_of_the_ledger_is_refused_before_any_training(self, audited):
        """It was met when the first run was to be noted: hours of training were lost, and their runs left open."""
        first, *_ = audited.ledger.path.read_bytes().splitlines(keepends=True)
        with audited.ledger.path.open("ab") as stream:
            stream.write(first)
        with pytest.raises(RunFailed, match="Somebody changed the ledger: run `aucflow audit verify`"):
            recover()

    def test_a_server_that_cannot_be_reached_is_no_finding_unless_the_ledger_has_one(
        self, capsys, tmp_path, monkeypatch
    ):
        """A wrong password was reported like an edit."""
        monkeypatch.setitem(sys.modules, "psycopg2", None)
        with inside(tmp_path):
            monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://db/mlflow")
            store.ledger().append("run", "the first", "finished")
            assert verify_command() == 1
            assert capsys.readouterr().out.startswith(
                "unreadable store: Expected an MLflow store at postgresql://db/ml"
            )
            store.ledger().path.write_bytes(b"no entry\n")
            assert verify_command() == 3

    def test_a_shared_database_that_is_damaged_is_a_finding(self, capsys, tmp_path, monkeypatch):
        (tmp_path / "shared.db").write_bytes(b"no database" * 100)
        with inside(tmp_path):
            monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path / 'shared.db'}")
            store.ledger().append("run", "the first", "finished")
            assert verify_command() == 3
        assert "Mend it or its address, or unset MLFLOW_TRACKING_URI." in capsys.readouterr().out

    def test_a_store_that_is_no_database_is_a_finding(self, audited, capsys, tmp_path):
        shutil.copytree("mlruns/ledger", tmp_path / "mlruns" / "ledger")
        (tmp_path / "mlruns" / "mlflow.db").write_bytes(b"no database" * 100)
        with inside(tmp_path):
            assert verify_command() == 3
        assert capsys.readouterr().out.startswith("unreadable store: Expected an MLflow store at sqlite:///")

    def test_a_ledger_without_a_store_is_a_finding(self, audited, capsys, tmp_path):
        shutil.copytree("mlruns/ledger", tmp_path / "mlruns" / "ledger")
        with inside(tmp_path):
            assert verify_command() == 3
            with pytest.raises(BadInput, match="audit verify"):
                audit_command("claims")
        assert capsys.readouterr().out.startswith("missing store: ")
        assert not (tmp_path / "mlruns" / "mlflow.db").exists()

    def test_a_folder_without_anything_is_bad_input(self, tmp_path):
        with inside(tmp_path):
            for command in (verify_command, lambda: audit_command("claims"), lambda: champions_command("claims")):
                with pytest.raises(BadInput, match="aucflow run"):
                    command()
        assert not list(tmp_path.iterdir())


class TestChampions:
    def test_the_whole_history_as_a_table(self, audited, capsys):
        assert champions_command(MODEL) == 0
        head, first, second = capsys.readouterr().out.splitlines()
        assert head.split() == ["version", "since", "(UTC)", "until", "(UTC)", "by", "why", "entry"]
        assert (first.split()[0], second.split()[0]) == ("1", "2")
        assert audited.ledger.entries()[-1].digest[:12] in second

    @pytest.mark.parametrize("on", ["2026-03-01", "2026-03-01T10:00", "2026-03-01 12:00+02:00"])
    def test_before_the_first_there_was_none(self, audited, capsys, on):
        assert champions_command(MODEL, on) == 0
        assert capsys.readouterr().out.startswith(f"No version of {MODEL} was champion on {on}.")

    def test_now_it_is_the_last(self, audited, capsys):
        assert champions_command(MODEL, datetime.now(UTC).isoformat(), as_json=True) == 0
        assert [one["number"] for one in json.loads(capsys.readouterr().out)["champions"]] == [2]

    @pytest.mark.parametrize("on", ["2999-01-01", "2999-01-01T10:00"])
    def test_what_is_to_come_is_bad_input_for_nobody_knows(self, audited, on):
        with pytest.raises(BadInput, match=f"a day that has begun.*got '{on}'"):
            champions_command(MODEL, on)

    def test_a_day_has_all_of_its_champions_and_a_moment_one(self, audited, capsys):
        entries = audited.ledger.entries()
        assert champions_command(MODEL, entries[-1].time[:10], as_json=True) == 0
        assert [one["number"] for one in json.loads(capsys.readouterr().out)["champions"]] in ([1, 2], [2])
        assert champions_command(MODEL, entries[4].time, as_json=True) == 0
        told = json.loads(capsys.readouterr().out)["champions"]
        assert [(one["number"], one["since"], one["seq"]) for one in told] == [(1, entries[4].time, 5)]

    def test_where_a_change_was_taken_back_the_champion_before_is_told_too(self, audited, capsys, monkeypatch):
        """The server had gone before the first step: what the ledger announced never came about."""
        gone = MlflowException("the server is gone")
        for step in ("set_registered_model_alias", "delete_registered_model_alias"):
            monkeypatch.setattr(MlflowClient, step, Mock(side_effect=gone))
        with pytest.raises(MlflowException):
            rollback_command(MODEL, "worse on Mondays")
        monkeypatch.undo()
        announced, repair = audited.ledger.entries()[-2:]
        assert (announced.kind, repair.kind) == ("rollback", "repair")
        assert champions_command(MODEL, announced.time) == 0
        told = capsys.readouterr().out
        assert "rollback, taken back" in told and "(the registry may have had what it had before)" in " ".join(
            told.split()
        )
        assert champions_command(MODEL, announced.time, as_json=True) == 0
        reigns = json.loads(capsys.readouterr().out)["champions"]
        assert [(one["number"], one["taken_back"]) for one in reigns] == [(2, False), (1, True)]
        assert champions_command(MODEL, as_json=True) == 0
        assert [one["number"] for one in json.loads(capsys.readouterr().out)["champions"]] == [1, 2, 1, 2]

    def test_a_ledger_that_does_not_verify_is_said_with_the_answer(self, audited, capsys):
        audited.ledger.path.write_bytes(audited.ledger.path.read_bytes().replace(b"every rule", b"Every rule", 1))
        assert champions_command(MODEL) == 3
        assert "aucflow audit verify" in capsys.readouterr().err

    def test_a_contradiction_is_said_with_the_answer_until_it_is_settled(self, audited, capsys):
        """As the ledger has it where a version of aucflow went on from an alias that something else had moved."""
        audited.ledger.append("rollback", f"{MODEL}/1", "why", {"aliases": {"champion": [None, 1]}})
        assert champions_command(MODEL) == 3
        assert "champion was no version when entry 8 was written, the ledger had left it at version 2, so this may" in (
            capsys.readouterr().err
        )
        audited.ledger.append("settle", f"{MODEL}/1", "we know", {"aliases": {}})
        assert champions_command(MODEL) == 0
        assert capsys.readouterr().err == ""

    def test_a_clock_that_went_back_is_said_with_the_answer(self, audited, capsys, monkeypatch):
        class Late(datetime):
            @classmethod
            def now(cls, zone):
                return datetime(2026, 1, 1, tzinfo=zone)

        monkeypatch.setattr(ledger_module, "datetime", Late)
        moves = {"champion": [2, 1], "previous": [1, 2]}
        audited.ledger.append("rollback", f"{MODEL}/1", "why", {"aliases": moves})
        assert champions_command(MODEL, as_json=True) == 3
        told = capsys.readouterr()
        assert "the clock went back between two changes" in told.err
        assert json.loads(told.out)["ok"] is False

    def test_without_the_ledger_nobody_can_tell(self, audited, capsys):
        audited.ledger.path.unlink()
        assert champions_command(MODEL) == 3
        assert "ledger.jsonl, which alone tells who was champion, is missing" in capsys.readouterr().err

    @pytest.mark.parametrize("on", ["yesterday", "2026-13-01", "2026-W48", ""])
    def test_what_is_no_date_is_bad_input(self, audited, on):
        with pytest.raises(BadInput, match="2026-03-01"):
            champions_command(MODEL, on)

    def test_an_unknown_model_is_bad_input_with_the_nearest(self, audited):
        with pytest.raises(BadInput, match=f"Did you mean '{MODEL}'"):
            champions_command("claim")


class TestCommandLine:
    @pytest.mark.parametrize(
        ("words", "code", "said"),
        [
            ((f"{MODEL}@champion",), 0, "environment"),
            (("--json", "claims"), 0, '"label": "cell"'),
            (("show", "claims ls_svm"), 0, "raw file"),
            (("verify",), 0, "ok 7 ledger entries"),
            (("champions", MODEL), 0, "every rule passed"),
            (("champions", MODEL, "--on", "never"), 2, "Expected a date"),
            (("no such thing",), 2, "Expected a run's id"),
            (("--help",), 0, "MODEL@champion"),
        ],
    )
    def test_words_lead_to_their_command_and_exit_code(self, audited, capsys, words, code, said):
        with pytest.raises(SystemExit) as ended:
            main(["audit", *words])
        captured = capsys.readouterr()
        assert (ended.value.code, said in captured.out + captured.err) == (code, True)

    def test_a_finding_is_exit_code_3(self, audited, capsys):
        (audited.folder / "claims.csv").unlink()
        for words in (["verify"], ["claims"]):
            with pytest.raises(SystemExit) as ended:
                main(["audit", *words])
            assert ended.value.code == 3
