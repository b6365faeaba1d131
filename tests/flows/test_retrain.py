"""Retraining: what becomes of a challenger in each case that can arise, and that no failure touches the champion."""

import json
import os
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
import pytest
from filelock import FileLock
from mlflow import MlflowClient
from retrained import claims, config, crown, open_runs, retrain, unfounded, write
from sklearn.datasets import dump_svmlight_file

from flows import experiment, lifecycle
from flows import retrain as flow
from tasks import cell, registry, retraining, store
from tasks.configuration import ValidationConfig
from tasks.convert import convert
from tasks.decide import Rules
from tasks.download import download
from tasks.errors import BadInput, NotAsRecorded, RunFailed
from tasks.predict import bring_model, find_model
from tasks.registry import champion, compare, moved_by_hand, settle, versions
from tasks.retraining import alone, fingerprint, meet_champion, what_changed
from tasks.split import HeldOut, all_rows
from tasks.values import ConversionRule
from tasks.verify import verify

RULE = ConversionRule("fraud", "yes")


@pytest.fixture(scope="module")
def first(tmp_path_factory):
    """A folder in which a model was trained once, and what came of it."""
    folder, before = tmp_path_factory.mktemp("retrained"), Path.cwd()
    os.chdir(folder)
    try:
        write(claims())
        cells, run_method = [], flow.run_method
        with patch.object(flow, "run_method", lambda *given: cells.append(run_method(*given)) or cells[-1]):
            outcome = retrain(config(), drawn=True)
        yield folder, outcome, cells[0]
        assert store.ledger().verify() == ()
        assert unfounded(client(), store.ledger()) == []
        assert open_runs(client()) == []
    finally:
        os.chdir(before)


@pytest.fixture
def trained(first, monkeypatch):
    """Training that gives back the first model at no cost, for tests of what comes before or after it."""
    monkeypatch.setattr(flow, "run_method", lambda *_given: first[2])


@pytest.fixture
def model(first, request, monkeypatch):
    """Another model's name, whose champion is the one that was trained; the folder is the current one."""
    folder, outcome, _ = first
    monkeypatch.chdir(folder)
    name = f"model {abs(hash(request.node.nodeid))}"
    crown(name, outcome.version)
    yield name
    assert compare(client(), store.ledger(), name) == ()


def client():
    return MlflowClient(store.tracking_uri())


def state(model):
    return {version.number: version.aliases for version in versions(client(), model)}


def parent_run(model):
    """Return the newest parent run of a model's retrainings."""
    found = client().get_experiment_by_name(model)
    runs = client().search_runs([found.experiment_id], order_by=["attributes.start_time DESC"])
    return next(run for run in runs if "mlflow.parentRunId" not in run.data.tags)


def held_out_of(wanted):
    return HeldOut.of(wanted.experiment.validation.held_out, wanted.experiment.seed)


def meet(model, wanted, rule=RULE):
    """Return the champion of a model as the opponent on the data of a config."""
    dataset = convert.fn(download.fn("claims", wanted.data.source), rule)
    held_out = all_rows(dataset, held_out_of(wanted))
    return meet_champion(client(), champion(client(), model), wanted, dataset, held_out), held_out


def all_rows_held_out_of(file):
    dataset = convert.fn(download.fn("claims", file), RULE)
    return len(all_rows(dataset, held_out_of(config())).test)


def told(opponent):
    """Return the rule that stands in the way of a comparison, and what is said of it."""
    failed = next(found for found in opponent.judged if not found.passed)
    assert opponent.contender is None
    return failed.rule, failed.reason


class TestLife:
    def test_the_first_champion_is_judged_by_the_rules_for_any_model(self, first):
        folder, outcome, _ = first
        assert outcome.decision.promote and outcome.champion == outcome.version
        assert (outcome.version.number, outcome.version.aliases) == (1, ("champion",))
        assert outcome.cause == "there is no version yet"
        assert "There is no champion yet" in outcome.reason
        run = MlflowClient(f"sqlite:///{folder / 'mlruns' / 'mlflow.db'}").get_run(
            outcome.version.tags["aucflow.retraining"]
        )
        assert run.info.status == "FINISHED"
        found = {judged.rule: judged.value for judged in outcome.decision.judged}
        assert found["min_auc"] > 0.5
        for rule, value in found.items():
            assert run.data.metrics[f"decision/{rule}"] == pytest.approx(value, abs=1e-12)
        assert client().get_model_version("claims", "1").description == outcome.reason
        kept = Path(run.info.artifact_uri.removeprefix("file://"))
        assert json.loads((kept / "decision.json").read_text())["promote"] is True
        assert json.loads((kept / "retrain.json").read_text())["rules"]["min_positives"] == 5
        assert json.loads((kept / "lineage.json").read_text())["decision"]["promote"] is True

    def test_the_page_says_what_was_decided_against_whom_and_why(self, first):
        _, outcome, _ = first
        page = outcome.report.read_text()
        assert "Decision: promote" in page
        assert "Trained because there is no version yet. The champion: none yet." in page
        for judged in outcome.decision.judged:
            assert judged.rule.replace("_", " ") in page

    def test_a_copy_of_the_folder_trains_nothing_and_leaves_the_original_alone(self, first, tmp_path, monkeypatch):
        original = first[0]
        files = {path: path.stat().st_mtime_ns for path in original.rglob("*")}
        shutil.copytree(original, tmp_path / "copy")
        monkeypatch.chdir(tmp_path / "copy")
        monkeypatch.setattr(flow, "run_method", None)
        write(claims(280))
        with pytest.raises(RunFailed, match=f"got {original}/mlruns/artifacts/claims: mlruns/ was copied"):
            retrain(config())
        assert open_runs(client()) == []
        assert {path: path.stat().st_mtime_ns for path in original.rglob("*")} == files

    def test_nothing_changed_trains_nothing(self, model, capsys):
        wanted = config(model=model)
        write(claims(280))
        made = retrain(wanted)
        assert made.cause == "the data and the config changed since version 1"
        again = retrain(wanted)
        assert (again.version, again.decision, again.report) == (None, None, None)
        assert again.reason == "data, config and code are those of the newest version: nothing to train"
        assert again.champion == made.champion
        lifecycle.show(again)
        assert capsys.readouterr().out.splitlines() == [f"champion {model}/2", f"decision {again.reason}"]
        nothing = {"champion": 2, "made": None, "run_id": None, "because": None, "promoted": None, "report": None}
        assert again.as_dict() == nothing | {"model": model, "reason": again.reason, "rules": []}
        assert list(state(model)) == [1, 2]
        forced = retrain(wanted, force=True)
        assert (forced.cause, forced.version.number) == ("it was asked for", 3)
        write(claims())

    def test_the_same_data_in_other_bytes_train_nothing_and_are_no_finding(self, model):
        """As an export writes them every night: an audit found the file changed until something was trained of it."""

        def found(deep=False):
            verdict = verify(client(), store.ledger(), deep)
            return [(one.kind, one.is_note) for one in verdict.found if one.part in ("data", "conversion")]

        path = write(claims(280))
        wanted = config(model=model)
        retrain(wanted)
        as_it_was = path.read_bytes()
        before = found()
        path.write_bytes(as_it_was.replace(b"\n", b"\r\n"))
        assert found() == [*before, ("changed", False)]
        for _ in range(2):
            assert retrain(wanted).version is None
        told = [entry for entry in store.ledger().entries() if entry.kind == "data"]
        assert [(one.reason, one.data["name"]) for one in told] == [("the same data in other bytes", "claims")]
        assert found(deep=True) == [*before, ("replaced", True)]
        path.write_bytes(as_it_was)
        assert found()[-1] == ("changed", False), "the other bytes were the last that anybody read"
        assert retrain(wanted).version is None and ("changed", False) not in found()
        path.write_bytes(as_it_was + b"\n")
        assert found()[-1] == ("changed", False)
        write(claims())

    def test_what_is_not_promoted_stays_as_the_challenger(self, model, trained, capsys):
        wanted = config(model=model, rules={"min_positives": 5, "min_auc": 0.999})
        outcome = retrain(wanted)
        assert "at least 0.999 is asked for" in outcome.reason
        assert state(model) == {1: ("champion",), 2: ("challenger",)}
        assert outcome.champion.number == 1 and outcome.version.tags["aucflow.decision"] == "not promoted"
        assert parent_run(model).info.status == "FINISHED"
        assert "Decision: do not promote" in outcome.report.read_text()
        lifecycle.show(outcome)
        out = capsys.readouterr().out
        assert f"champion {model}/1" in out and f"made     {model}/2" in out and "because  the config changed" in out
        told = json.loads(json.dumps(outcome.as_dict(), allow_nan=False))
        assert (told["champion"], told["made"], told["promoted"], told["reason"]) == (1, 2, False, outcome.reason)
        assert (told["run_id"], told["report"]) == (outcome.version.run_id, str(outcome.report))
        (failed,) = [rule for rule in told["rules"] if not rule["passed"]]
        assert (failed["rule"], failed["limit"]) == ("min_auc", 0.999) and failed["value"] < 0.999
        assert retrain(wanted).version is None, "the same again is not tried again"

    def test_rollback_brings_the_champion_before_and_it_stays(self, model, trained, capsys):
        retrain(config(model=model))
        assert state(model) == {1: ("previous",), 2: ("champion",)}
        lifecycle.rollback_command(model, "it refused good customers")
        assert state(model) == {1: ("champion",), 2: ("previous",)}
        assert f"champion {model}/1" in capsys.readouterr().out
        assert store.ledger().entries()[-1].reason == "it refused good customers"
        again = retrain(config(model=model))
        assert again.version is None, "what was rolled back is not trained again"
        assert again.reason.endswith(f"That is {model}/2, which does not serve; --force trains it again")

    def test_a_copy_of_the_folder_changes_no_model(self, first, tmp_path, monkeypatch):
        shutil.copytree(first[0], tmp_path / "copy")
        monkeypatch.chdir(tmp_path / "copy")
        for change in (
            lambda: lifecycle.rollback_command("claims", "why"),
            lambda: lifecycle.delete_command("claims/1", "why"),
            lambda: lifecycle.settle_command("claims", "ledger", "why"),
        ):
            with pytest.raises(RunFailed, match="a copy of it"):
                change()
        assert verify(client(), store.ledger()).findings == ()

    def test_a_rollback_that_was_killed_at_its_end_is_not_undone_by_the_next(self, model, trained, monkeypatch, capsys):
        retrain(config(model=model))
        unlink = Path.unlink

        def dies(path, *given, **named):
            if path.name == "intent.json":
                raise Broken
            unlink(path, *given, **named)

        with patch.object(Path, "unlink", dies), patch.object(registry, "_take_back"), pytest.raises(Broken):
            lifecycle.rollback_command(model, "it refused good customers")
        lifecycle.rollback_command(model, "it refused good customers")
        assert state(model) == {1: ("champion",), 2: ("previous",)}
        told = capsys.readouterr()
        assert f"champion {model}/1, which was it before" in told.out
        assert "was interrupted" in told.err and "it was finished" in told.err
        lifecycle.rollback_command(model, "it was good after all")
        assert state(model) == {1: ("previous",), 2: ("champion",)}

    @pytest.mark.parametrize("reason", ["  ", "bad \udcff"])
    @pytest.mark.parametrize("change", [lifecycle.rollback_command, lifecycle.delete_command])
    def test_a_change_without_a_reason_that_can_be_kept_is_refused(self, model, change, reason):
        before, files = store.ledger().entries(), set(store.ledger().folder.iterdir())
        with pytest.raises(BadInput, match="Expected a reason") as error:
            change(f"{model}/1", reason)
        assert str(error.value).encode()
        assert store.ledger().entries() == before
        assert set(store.ledger().folder.iterdir()) == files

    @pytest.mark.parametrize("change", [lifecycle.rollback_command, lifecycle.delete_command])
    def test_a_folder_without_a_store_is_bad_input(self, tmp_path, monkeypatch, change):
        monkeypatch.chdir(tmp_path)
        with pytest.raises(BadInput, match=r"found none\. Run `aucflow retrain` here first"):
            change("fraud/1", "why")
        assert not list(tmp_path.iterdir())

    def test_delete_refuses_the_champion_and_what_is_no_version(self, model):
        with pytest.raises(BadInput, match="the champion"):
            lifecycle.delete_command(f"{model}/1", "why")
        for name in (model, f"{model}/", f"{model}/²", f"{model}/١", f"{model}/-1", f"{model}/{'9' * 5000}"):
            with pytest.raises(BadInput, match="Expected MODEL/VERSION"):
                lifecycle.delete_command(name, "why")


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("data_sha256", "the data"),
        ("config_sha256", "the config"),
        ("package_sha256", "the code"),
        ("imported_sha256", "the imported code"),
    ],
)
def test_what_changed_is_named(first, monkeypatch, part, words):
    folder, outcome, _ = first
    monkeypatch.chdir(folder)
    now = {name: outcome.version.tags.get(f"aucflow.{name}") for name in retraining.CHANGED}
    assert what_changed((outcome.version,), now) == ""
    assert what_changed((outcome.version,), now | {part: "0" * 64}) == f"{words} changed since version 1"
    assert what_changed((), now) == "there is no version yet"


def test_the_fingerprint_is_of_what_the_model_hangs_on(first, monkeypatch):
    folder, *_ = first
    monkeypatch.chdir(folder)
    dataset = convert.fn(download.fn("claims", "claims.csv"), RULE)
    usual = fingerprint(config(), dataset)
    assert fingerprint(config(workers=2, offline=True), dataset) == usual
    assert fingerprint(config(seed=1), dataset)["config_sha256"] != usual["config_sha256"]


class TestOpponent:
    """The champion as an opponent: on which rows it is met, and what stands in the way."""

    def test_on_all_held_out_rows_by_the_same_rule(self, model):
        opponent, held_out = meet(model, config(write(claims(400), Path("more.csv"))))
        np.testing.assert_array_equal(opponent.rows, held_out.test)
        assert opponent.contender.scores.shape == held_out.test.shape
        assert opponent.contender.profile.n_rows == all_rows_held_out_of("claims.csv")
        assert "was not trained on any of the" in opponent.judged[0].reason

    def test_columns_in_another_order_are_the_same(self, model):
        table = claims(400)
        one, _ = meet(model, config(write(table, Path("more.csv"))))
        other, _ = meet(model, config(write(table[["fraud", "shop", "age", "amount"]], Path("more.csv"))))
        np.testing.assert_array_equal(one.rows, other.rows)
        np.testing.assert_array_equal(one.contender.scores, other.contender.scores)

    @pytest.mark.parametrize(
        "change",
        [
            lambda wanted: (wanted, claims(1200).assign(night=np.arange(1200) % 2)),
            lambda wanted: (wanted.model_copy(update={"seed": 5}), claims(1200)),
            lambda wanted: (config(wanted.data.source, validation={"held_out": 0.4, "folds": 2}), claims(1200)),
        ],
        ids=["a new column", "another seed", "a larger share"],
    )
    def test_rows_that_the_champion_may_have_seen_are_left_out(self, model, first, change):
        """What is left, the champion's own rule holds out: whatever the data are by now."""
        wanted, table = change(config(Path("more.csv")))
        write(table, Path("more.csv"))
        opponent, held_out = meet(model, wanted)
        assert 0 < len(opponent.rows) < len(held_out.test)
        assert set(opponent.rows) <= set(held_out.test)
        own = HeldOut.of(0.25, 0).rows(table[["amount", "age", "shop"]].astype({"age": float}))
        assert own[opponent.rows].all()
        assert "may have been trained on" in opponent.judged[0].reason
        assert f"Both are judged on the {len(opponent.rows)} others." in opponent.judged[0].reason

    def test_too_few_unseen_rows_are_no_ground_for_a_comparison(self, model):
        opponent, _ = meet(model, config(seed=5))
        rule, reason = told(opponent)
        assert rule == "unseen_rows"
        assert "it held out 25% by seed 0" in reason and "at least 5 of either class are needed" in reason

    @pytest.mark.parametrize(
        ("change", "rule", "words"),
        [
            (lambda t: t.drop(columns="age"), "same_features", "the data lack age"),
            (lambda t: t.rename(columns={"age": "years"}), "same_features", "the data lack age; new are years"),
            (lambda t: t.assign(age=t["age"].astype(str) + " y"), "same_features", "of another type are age (text)"),
            (
                lambda t: t.assign(amount=t["amount"].astype(object).mask(t.index == 7, "high")),
                "same_features",
                "amount (text). Column 'amount' is read as text because of values such as 'high', but all the others",
            ),
        ],
    )
    def test_other_features_are_named(self, model, change, rule, words):
        opponent, _ = meet(model, config(write(change(claims()), Path("odd.csv"))))
        assert told(opponent)[0] == rule and words in told(opponent)[1]

    def test_another_positive_class_is_another_question(self, model):
        opponent, _ = meet(model, config(), ConversionRule("fraud", "no"))
        rule, reason = told(opponent)
        assert rule == "same_labels"
        assert "detects 'yes'" in reason and "positive: 'yes'" in reason

    def test_a_third_label_is_not_taken_as_negative_in_silence(self, model):
        """A dozen rows of `maybe` went to the negatives, and the model was promoted without a word."""
        table = claims()
        table.loc[[1, 2, 3], "fraud"] = "maybe"
        odd = config(write(table, Path("odd.csv")))
        opponent, _ = meet(model, odd)
        rule, reason = told(opponent)
        assert rule == "same_labels"
        assert "the data have more: 'maybe' (3). Mend the rows or" in reason
        assert "in place of positive: conversion: {rule: one_vs_rest, positive: 'yes'}" in reason
        write(table.assign(fraud=table["fraud"].str.upper()), Path("odd.csv"))
        assert "the data have more: 'MAYBE' (3)." in told(meet(model, odd)[0])[1], "and not the other spellings"
        write(table, Path("odd.csv"))
        said, _ = meet(model, odd, ConversionRule("fraud", "yes", conversion="one_vs_rest"))
        assert said.contender is not None

    def test_sparse_data_do_not_fit_a_tables_model(self, model):
        rng = np.random.default_rng(0)
        X = rng.integers(0, 9, (80, 3))
        dump_svmlight_file(X, np.where(X[:, 0] > 5, 1, -1), "words.svm", zero_based=False)
        opponent, _ = meet(model, config(Path("words.svm"), data={"source": "words.svm"}), ConversionRule())
        assert "on a table, and this is svmlight data" in told(opponent)[1]


BY_CLIENT = ConversionRule("fraud", "yes", group="client")


def of_clients(n=360):
    """Return claims, three of each client in a row; one in four clients is a fraud."""
    table = claims(n)
    fraud = (np.arange(n) // 3 % 4 == 0).astype(float)
    return table.assign(
        amount=table["amount"] - 50 * (table["fraud"] == "yes") + 50 * fraud,
        client=np.arange(n) // 3 + 7000,
        fraud=np.where(fraud > 0, "yes", "no"),
    )


def by_client(file, model, **changes):
    data = {"source": str(file), "target": "fraud", "positive": "yes", "name": "claims", "group": "client"}
    return config(model=model, data=data | changes)


class TestGroups:
    """Claims of one client are held out together, and the champion is met on clients that it does not know."""

    def test_clients_held_out_stay_so_with_all_their_later_claims(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        file = write(of_clients())
        first = retrain(by_client(file, "claims"))
        assert first.decision.promote and "of" in first.decision.judged[1].reason
        more = of_clients(600)
        write(
            pd.concat([more, more[:90].assign(amount=lambda t: t["amount"] + 1.5)]).sample(frac=1, random_state=1), file
        )
        second = retrain(by_client(file, "claims"))
        reasons = {judged.rule: judged.reason for judged in second.decision.judged}
        assert "was not trained on any of the" in reasons["unseen_rows"]
        assert "(paired DeLong, by groups)" in reasons["non_inferiority"]
        assert " positive ones of " in reasons["min_positives"]

        opponent, held_out = meet("claims", by_client(file, "claims"), BY_CLIENT)
        np.testing.assert_array_equal(opponent.rows, held_out.test)
        other, _ = meet(
            "claims",
            by_client(file, "claims", group=None, drop=["client"]),
            ConversionRule("fraud", "yes", drop=("client",)),
        )
        rule, reason = told(other)
        assert rule == "same_group" and "the config names none as group" in reason and "(group: client)" in reason
        assert verify(client(), store.ledger()).findings == ()

    def test_clients_by_new_names_are_noticed(self, tmp_path, monkeypatch):
        """By their keys others are held out, and the champion was said to know none of those that it was trained on."""
        monkeypatch.chdir(tmp_path)
        table = of_clients(600)
        file = write(table)
        assert retrain(by_client(file, "claims")).decision.promote
        write(table.assign(client=lambda t: "C" + t["client"].astype(str)), file)
        rule, reason = told(meet("claims", by_client(file, "claims"), BY_CLIENT)[0])
        assert rule == "same_group" and "the values of 'client' are other ones than they were" in reason
        written = {
            "a row of each client again, of another": pd.concat(
                [table, table.assign(client=lambda t: t["client"] + 5000)]
            ),
            "new clients": pd.concat([table, of_clients(900)[600:]]),
            "others by now, a few of them alike": pd.concat([of_clients(900)[600:], table[:6].assign(client=1)]),
        }
        for what, rows in written.items():
            write(rows, file)
            assert meet("claims", by_client(file, "claims"), BY_CLIENT)[0].contender is not None, what

    def test_of_a_champion_of_rows_only_clients_of_whom_it_has_seen_none_are_left(self, model):
        table = claims(2000).assign(client=np.arange(2000) // 2)
        wanted = by_client(write(table, Path("more.csv")), model).model_copy(update={"rules": Rules(min_positives=1)})
        opponent, held_out = meet(model, wanted, BY_CLIENT)
        own = HeldOut.of(0.25, 0).rows(table[["amount", "age", "shop"]].astype({"age": float}))
        by_clients = table["client"].to_numpy()
        whole = ~np.isin(by_clients, by_clients[~own])
        assert 0 < len(opponent.rows) < len(held_out.test)
        assert set(opponent.rows) == set(held_out.test) & set(np.flatnonzero(whole))
        assert "it held out rows, this config holds out all rows of one 'client'" in opponent.judged[0].reason


BY_DAY = ConversionRule("fraud", "yes", time="day")


def of_days(n=600, start="2024-01-01"):
    """Return claims of a day each, three a day."""
    return claims(n).assign(day=pd.Timestamp(start) + pd.to_timedelta(np.arange(n) // 3, unit="D"))


def by_day(file, model, **changes):
    return by_client(file, model, **{"group": None, "time": "day"} | changes)


class TestTimes:
    """The newest claims are held out; a month later they train, and newer ones are."""

    def test_the_champion_is_met_on_what_came_after_it(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        file = write(of_days().sample(frac=1, random_state=1))
        first = retrain(by_day(file, "claims"))
        assert first.decision.promote
        write(of_days(900).sample(frac=1, random_state=2), file)
        second = retrain(by_day(file, "claims"))
        reasons = {judged.rule: judged.reason for judged in second.decision.judged}
        assert "was not trained on any of the 225 held-out rows" in reasons["unseen_rows"]
        assert "(paired DeLong)" in reasons["non_inferiority"]
        assert verify(client(), store.ledger()).findings == ()

        opponent, held_out = meet("claims", by_day(file, "claims"), BY_DAY)
        np.testing.assert_array_equal(opponent.rows, held_out.test)
        wider = by_day(file, "claims").model_copy(update={"validation": ValidationConfig(held_out=0.5)})
        opponent, held_out = meet("claims", wider, BY_DAY)
        days = pd.read_csv(file)["day"].to_numpy()
        until = sorted(days)[-226] if second.decision.promote else sorted(of_days()["day"].astype(str))[449]
        assert set(opponent.rows) == set(np.flatnonzero(days > until)) < set(held_out.test)
        assert f"it was trained on rows until {until}" in opponent.judged[0].reason

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            (lambda day: day[::-1].to_numpy(), "and 150 of 150 later ones were among them. Either 'day'"),
            (
                lambda day: day.where(day.index % 9 > 0, pd.Timestamp("2024-07-19")),
                "later ones were among them. Either 'day' is not as it was",
            ),
            (lambda day: day.astype("int64"), "was trained on rows until 2024-05-29, and 'day' has 172"),
        ],
    )
    def test_days_that_are_written_anew_are_noticed(self, tmp_path, monkeypatch, change, words):
        """Else all rows would be later than those of the champion, and it would be said to know none."""
        monkeypatch.chdir(tmp_path)
        table = of_days()
        file = write(table)
        assert retrain(by_day(file, "claims")).decision.promote
        write(table.assign(day=change(table["day"])), file)
        rule, reason = told(meet("claims", by_day(file, "claims"), BY_DAY)[0])
        assert rule == "same_time" and words in reason
        unnamed = by_day(file, "claims", time=None, drop=["day"])
        rule, reason = told(meet("claims", unnamed, ConversionRule("fraud", "yes", drop=("day",)))[0])
        assert rule == "same_time" and "held out the newest rows by 'day', and the config names none as time" in reason

    @pytest.mark.parametrize("held_out", [0.22, 0.3])
    def test_of_a_time_that_is_made_finer_the_last_month_counts_whole(self, tmp_path, monkeypatch, held_out):
        """A model of all rows until May knows those of the end of May, which are later than 2024-05-01."""
        monkeypatch.chdir(tmp_path)
        table = of_days()
        file = write(table.assign(day=table["day"].dt.strftime("%Y-%m")))
        assert retrain(by_day(file, "claims")).decision.promote
        write(table, file)
        wanted = by_day(file, "claims").model_copy(update={"validation": ValidationConfig(held_out=held_out)})
        opponent, held = meet("claims", wanted, BY_DAY)
        in_june = np.flatnonzero((table["day"] >= "2024-06-01").to_numpy())
        assert len(opponent.rows) > 0 and set(opponent.rows) == set(in_june) & set(held.test)
        assert opponent.contender is not None
        assert "it was trained on rows until 2024-05-31" in opponent.judged[0].reason or held_out < 0.3
        wanted = wanted.model_copy(update={"data": wanted.data.model_copy(update={"gap": "10d"})})
        opponent, held = meet("claims", wanted, replace(BY_DAY, gap="10d"))
        after_ten_days = np.flatnonzero((table["day"] > "2024-06-10").to_numpy())
        assert set(opponent.rows) == set(after_ten_days) & set(held.test)
        write(table[(table["day"] >= "2024-06-01").to_numpy()], file)  # none of a day in May is left
        opponent, held = meet("claims", wanted, replace(BY_DAY, gap="10d"))
        assert len(opponent.rows) == len(held.test)
        days = pd.read_csv(file)["day"].to_numpy()[opponent.rows]
        assert (days > "2024-06-10").all()

    def test_copies_that_the_champion_knows_are_left_out_where_they_stay_together(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        file, options = Path("claims.csv"), {"folds": 2, "inner_folds": 2, "held_out": 0.25}
        write(of_days(), file)
        apart, together = (
            by_day(file, "claims").model_copy(update={"validation": ValidationConfig(**options, split=split)})
            for split in ("stratified", "grouped_by_duplicates")
        )
        assert retrain(together).decision.promote
        later = of_days(900)
        again = later[:12].assign(day=pd.Timestamp("2024-10-30"))
        write(pd.concat([later, again]), file)
        for wanted, known in ((apart, 0), (together, 12)):
            opponent, held_out = meet("claims", wanted, BY_DAY)
            assert len(held_out.test) - len(opponent.rows) == known and opponent.contender is not None
        assert ", and copies of those count too" in opponent.judged[0].reason

    def test_a_gap_stands_between_the_champions_rows_and_those_that_it_is_met_on(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        file = write(of_days())
        assert retrain(by_day(file, "claims", gap="10d")).decision.promote
        first = all_rows(
            convert.fn(download.fn("claims", str(file)), replace(BY_DAY, gap="10d")), held_out_of(config())
        )
        until, newest = (of_days()["day"][rows[-1]] for rows in (first.train, first.test))
        assert of_days()["day"][first.test[0]] - until == pd.Timedelta("10d")
        for gap in ("10d", "30d"):
            opponent, held_out = meet("claims", by_day(file, "claims", gap=gap), replace(BY_DAY, gap=gap))
            days = of_days()["day"][opponent.rows]
            assert days.min() == max(until + pd.Timedelta(gap), of_days()["day"][held_out.test].min())
            assert days.max() == newest
        assert f"it was trained on rows until {until:%Y-%m-%d}, and what is later by less than 30d counts too" in (
            opponent.judged[0].reason
        )

    def test_rows_of_few_kinds_are_no_sign_of_other_days(self, tmp_path, monkeypatch):
        """All rows of today have been seen before, as those that the champion held out had been."""
        monkeypatch.chdir(tmp_path)
        table = of_days(1200).assign(amount=lambda t: (t["amount"] > 110) * 1, age=1)
        write(table[:600])
        assert retrain(by_day(Path("claims.csv"), "claims")).decision.promote
        for rows in (table, table[600:]):
            file = write(rows)
            assert meet("claims", by_day(file, "claims"), BY_DAY)[0].contender is not None

    def test_copies_are_no_sign_of_other_days(self, tmp_path, monkeypatch):
        """Nor where a grouped champion had none on both sides, nor where the older of a pair has left the file."""
        monkeypatch.chdir(tmp_path)
        rng, table = np.random.default_rng(0), of_days(1500)
        for row in range(300, 1500):
            if rng.random() < 0.35:
                table.loc[row, ["amount", "age", "shop", "fraud"]] = table.loc[
                    rng.integers(row), ["amount", "age", "shop", "fraud"]
                ].to_numpy()
        file, options = write(table[:900]), {"folds": 2, "inner_folds": 2, "held_out": 0.25}
        split = ValidationConfig(**options, split="grouped_by_duplicates")
        assert retrain(by_day(file, "claims").model_copy(update={"validation": split})).decision.promote
        for rows in (table[:1200], table, table[800:]):
            write(rows, file)
            assert meet("claims", by_day(file, "claims"), BY_DAY)[0].contender is not None

    def test_clients_whose_rows_have_left_the_file_are_still_known(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rule = ConversionRule("fraud", "yes", group="client", time="day")
        table = of_days(1800).assign(client=np.arange(1800) // 2)
        table.loc[1500:1650, "client"] = np.arange(151)
        file = write(table[:900])
        assert retrain(by_day(file, "claims", group="client")).decision.promote
        write(table[900:], file)
        opponent, held_out = meet("claims", by_day(file, "claims", group="client"), rule)
        assert table["client"].iloc[900:].iloc[opponent.rows].min() > 600 and len(opponent.rows) < len(held_out.test)

    @pytest.mark.parametrize("first", [0, 550, 690])
    def test_clients_of_other_names_are_noticed(self, tmp_path, monkeypatch, first):
        """Of rows that the champion was trained on, held out or both: of the first 900 it held out the last 225."""
        monkeypatch.chdir(tmp_path)
        rule = ConversionRule("fraud", "yes", group="client", time="day")
        table = of_days(1500).assign(client=np.random.default_rng(0).integers(0, 300, 1500))
        file = write(table[:900])
        assert retrain(by_day(file, "claims", group="client")).decision.promote
        write(table[first:], file)
        assert meet("claims", by_day(file, "claims", group="client"), rule)[0].contender is not None
        write(table[first:].assign(client=lambda t: "K" + t["client"].astype(str)), file)
        for more in ([], [5], [5, 6]):  # and late rows that are like such as have left the file
            late = table.iloc[more].assign(day=pd.Timestamp("2025-12-01"), client="new")
            write(
                pd.concat([table[max(first, 7) :].assign(client=lambda t: "K" + t["client"].astype(str)), late]), file
            )
            assert told(meet("claims", by_day(file, "claims", group="client"), rule)[0])[0] == "same_group"
        write(table[first:].assign(client=lambda t: "K" + t["client"].astype(str)), file)
        name, reason = told(meet("claims", by_day(file, "claims", group="client"), rule)[0])
        found = int(re.search("had ([0-9]+) of today's rows that this can be told of, \\1 of them in other", reason)[1])
        assert name == "same_group" and 210 <= found <= 900 - first, "some were neither trained on nor held out"

    def test_a_row_that_moves_to_another_client_is_no_other_name(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rule = ConversionRule("fraud", "yes", group="client", time="day")
        table = of_days(900).assign(client=np.arange(900) // 3)
        file = write(table)
        assert retrain(by_day(file, "claims", group="client")).decision.promote
        write(table.assign(client=table["client"].where(table.index % 5 > 0, 1000 + table["client"])), file)
        assert meet("claims", by_day(file, "claims", group="client"), rule)[0].contender is not None

    @pytest.mark.parametrize(("kinds", "first"), [(2000, 800), (2000, 900), (5000, 850)])
    def test_new_rows_that_are_like_old_ones_are_of_no_other_name(self, tmp_path, monkeypatch, kinds, first):
        """What they are like has left the file, and was another client's."""
        monkeypatch.chdir(tmp_path)
        table = of_days(1800).assign(client=np.random.default_rng(0).integers(0, 300, 1800))
        table["amount"] = (kinds * table["amount"].rank(pct=True)).astype(int)
        file = write(table[:900])
        assert retrain(by_day(file, "claims", group="client", drop=["age", "shop"])).decision.promote
        write(table[first:], file)
        dropped = ConversionRule("fraud", "yes", drop=("age", "shop"), group="client", time="day")
        opponent, _ = meet("claims", by_day(file, "claims", group="client", drop=["age", "shop"]), dropped)
        assert opponent.contender is not None

    def test_of_a_champion_that_knew_no_clients_all_rows_have_to_be_there(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rule = ConversionRule("fraud", "yes", group="client", time="day")
        table = of_days(1500).assign(client=np.random.default_rng(0).integers(0, 1000, 1500))
        file = write(table[:900])
        assert retrain(by_day(file, "claims", drop=["client"])).decision.promote
        write(table, file)
        assert meet("claims", by_day(file, "claims", group="client"), rule)[0].contender is not None
        write(table[300:], file)
        name, reason = told(meet("claims", by_day(file, "claims", group="client"), rule)[0])
        assert name == "same_group"
        assert "was trained without a group, and 44% of its training rows are no more in the data" in reason

    @pytest.mark.parametrize("spoil", [lambda text: text[:100], lambda text: None])
    def test_without_what_the_champion_kept_of_its_rows_it_is_not_met(self, tmp_path, monkeypatch, spoil):
        monkeypatch.chdir(tmp_path)
        file = write(of_days())
        assert retrain(by_day(file, "claims")).decision.promote
        (kept,) = Path("mlruns").rglob("trained_rows.json")
        text = spoil(kept.read_text())
        kept.unlink() if text is None else kept.write_text(text)
        rule, reason = told(meet("claims", by_day(file, "claims"), BY_DAY)[0])
        assert rule == "same_time" and "kept no trained_rows.json that can be read" in reason

    def test_clients_by_new_names_are_noticed_where_a_time_comes_too(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        table = of_clients(1800).assign(day=np.arange(1800))
        file = write(table)
        assert retrain(by_client(file, "claims", drop=["day"])).decision.promote
        write(table.assign(client=lambda t: "K" + t["client"].astype(str)), file)
        rule = ConversionRule("fraud", "yes", group="client", time="day")
        assert told(meet("claims", by_client(file, "claims", time="day"), rule)[0])[0] == "same_group"

    def test_a_time_may_come_to_groups(self, tmp_path, monkeypatch):
        """The champion is met on the newest rows of those clients whom it held out."""
        monkeypatch.chdir(tmp_path)
        file = write(of_clients(1800).assign(day=np.arange(1800)))
        assert retrain(by_client(file, "claims", drop=["day"])).decision.promote
        opponent, held_out = meet(
            "claims", by_client(file, "claims", time="day"), ConversionRule("fraud", "yes", group="client", time="day")
        )
        assert opponent.contender is not None and 0 < len(opponent.rows) < len(held_out.test)

    def test_old_days_may_go(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        file = write(of_days())
        assert retrain(by_day(file, "claims")).decision.promote
        write(of_days(1200)[399:], file)
        opponent, held_out = meet("claims", by_day(file, "claims"), BY_DAY)
        assert opponent.contender is not None and len(opponent.rows) == len(held_out.test) == 201

    def test_of_a_champion_of_rows_the_newest_that_it_held_out_are_left(self, model):
        table = of_days(2000)
        wanted = by_day(write(table, Path("more.csv")), model).model_copy(update={"rules": Rules(min_positives=1)})
        opponent, held_out = meet(model, wanted, BY_DAY)
        own = HeldOut.of(0.25, 0).rows(table[["amount", "age", "shop"]].astype({"age": float}))
        assert 0 < len(opponent.rows) < len(held_out.test)
        assert set(opponent.rows) == set(held_out.test) & set(np.flatnonzero(own))
        assert (
            "it held out rows of all times, this config those that are the newest by 'day'" in opponent.judged[0].reason
        )

    def test_customers_whom_the_champion_knows_are_not_asked_about(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        rule = ConversionRule("fraud", "yes", group="client", time="day")
        file = write(of_days().assign(client=np.arange(600) // 2))
        assert retrain(by_day(file, "claims", group="client")).decision.promote
        table = of_days(900).assign(client=lambda t: np.where(np.arange(900) % 10 == 7, 3, np.arange(900) // 2))
        write(table, file)
        opponent, held_out = meet("claims", by_day(file, "claims", group="client"), rule)
        assert set(table["client"].iloc[opponent.rows]) == set(table["client"].iloc[held_out.test]) - {3}
        assert "and those of one 'client' with these count too" in opponent.judged[0].reason


class TestLost:
    """A champion of which something is gone or changed."""

    @pytest.fixture
    def broken(self, model, first):
        """Its files, which are put back afterwards."""
        _, outcome, _ = first
        parent = client().get_run(outcome.version.tags["aucflow.retraining"]).info.artifact_uri
        child = client().get_run(outcome.version.run_id).info.artifact_uri
        logged = client().get_logged_model(outcome.version.tags["aucflow.model_id"]).artifact_location
        folders = {n: Path(u.removeprefix("file://")) for n, u in {"p": parent, "c": child, "m": logged}.items()}
        copies = {name: folder.with_name(f"{folder.name}.copy") for name, folder in folders.items()}
        for name, folder in folders.items():
            shutil.copytree(folder, copies[name])
        yield folders
        for name, folder in folders.items():
            shutil.rmtree(folder, ignore_errors=True)
            copies[name].rename(folder)

    @pytest.mark.parametrize(
        ("damage", "words"),
        [
            (lambda f: shutil.rmtree(f["m"]), "audit verify"),
            (lambda f: next(f["m"].glob("*.skops")).write_bytes(b"?"), "as registered, got others"),
            (lambda f: (f["c"] / "lineage.json").unlink(), "Expected lineage.json"),
            (lambda f: (f["c"] / "lineage.json").write_text("{}"), "expected a manifest"),
            (
                lambda f: (f["c"] / "lineage.json").write_text(
                    (f["c"] / "lineage.json").read_text().replace('"held_out":0.25', '"held_out":0.5')
                ),
                "as registered, got another",
            ),
        ],
        ids=["no model", "changed model", "no manifest", "no manifest in it", "changed manifest"],
    )
    def test_a_champion_that_cannot_be_used_stays_and_the_reason_says_why(self, model, broken, damage, words):
        damage(broken)
        rule, reason = told(meet(model, config())[0])
        assert rule == "champion_available"
        assert "version 1, cannot be used" in reason and words in reason

    @pytest.mark.parametrize("tag", ["model_sha256", "manifest_sha256"])
    @pytest.mark.parametrize("value", [None, "0" * 64])
    def test_the_ledger_says_what_was_registered_and_not_a_tag_that_anybody_may_edit(self, model, broken, tag, value):
        """Without its tag the files of another version were scored with under the champion's name."""
        kept = client().get_model_version(model, "1").tags[f"aucflow.{tag}"]
        edit = client().delete_model_version_tag if value is None else client().set_model_version_tag
        edit(model, "1", f"aucflow.{tag}", *([] if value is None else [value]))
        try:
            source = find_model(client(), f"{model}@champion")
            assert source.tags[f"aucflow.{tag}"] == kept
            assert bring_model(client(), source).ranker is not None
            next(broken["m"].glob("*.skops")).write_bytes(b"?")
            with pytest.raises(RunFailed, match="as registered, got others"):
                bring_model(client(), source)
            assert told(meet(model, config())[0])[0] == "champion_available"
        finally:
            client().set_model_version_tag(model, "1", f"aucflow.{tag}", kept)

    def test_what_would_not_be_promoted_alone_either_is_told_both_reasons(self, model, broken):
        shutil.rmtree(broken["m"])
        outcome = retrain(config(model=model, rules={"min_positives": 40}))
        assert "cannot be used" in outcome.reason and "not be promoted either: the held-out rows" in outcome.reason
        assert "--replace-champion" not in outcome.reason
        assert retrain(config(model=model, rules={"min_positives": 40}), replace_champion=True).champion.number == 1

    def test_it_is_replaced_if_asked_for(self, model, broken):
        shutil.rmtree(broken["m"])
        kept = retrain(config(model=model))
        assert "Run again with --replace-champion" in kept.reason
        assert state(model) == {1: ("champion",), 2: ("challenger",)}
        replaced = retrain(config(model=model), replace_champion=True)
        assert replaced.decision.promote, "though nothing has changed since"
        assert replaced.reason.startswith("Compared with no champion, as asked for: the champion, version 1, cannot")
        assert "no champion yet" not in replaced.reason
        assert state(model) == {1: ("previous",), 2: (), 3: ("champion",)}

    def test_without_its_profile_drift_cannot_be_told(self, model, trained, broken):
        (broken["p"] / "score_profile.json").write_text('{"schema": "another"}')
        assert meet(model, config())[0].contender.profile is None
        (broken["p"] / "score_profile.json").unlink()
        outcome = retrain(config(model=model))
        assert "no profile of its earlier scores" in outcome.reason and not outcome.decision.promote

    def test_a_champion_of_earlier_days_without_its_rows_is_compared_by_all(self, model, broken):
        (broken["p"] / "score_profile_rows.txt").unlink()
        contender = meet(model, config(write(claims(280), Path("grown.csv"))))[0].contender
        assert contender.new is None and contender.profile is not None

    @pytest.mark.parametrize("text", ["0123", "not hex", "0123456789abcdef"])
    def test_damaged_rows_are_no_rows(self, model, broken, text):
        (broken["p"] / "score_profile_rows.txt").write_text(text)
        contender = meet(model, config(write(claims(280), Path("grown.csv"))))[0].contender
        assert contender.new is None and contender.profile is not None


class TestDrift:
    """Rows that came since the champion's day are judged apart from those of that day, whose scores are the same."""

    def grown(self, by, shift):
        table = claims(240 + by)
        table.loc[240:, "amount"] += shift
        return write(table, Path("grown.csv"))

    def test_rows_that_came_since_are_told_by_what_they_hold(self, model):
        opponent, held_out = meet(model, config(self.grown(by=100, shift=0.0)))
        assert opponent.rows.tolist() == held_out.test.tolist()
        assert opponent.contender.new.tolist() == (opponent.rows >= 240).tolist()
        assert 0 < opponent.contender.new.sum() < 50

    @pytest.mark.parametrize(("by", "shift", "passed"), [(40, 0.0, True), (40, 400.0, False), (200, 0.0, True)])
    def test_a_few_rows_of_another_kind_stop_a_promotion(self, model, trained, by, shift, passed):
        outcome = retrain(config(self.grown(by, shift), model=model, rules={"min_positives": 5, "max_psi": None}))
        judged = {one.rule: one for one in outcome.decision.judged}
        new = meet(model, config(self.grown(by, shift)))[0].contender.new
        assert judged["max_ks_new"].passed == passed == outcome.decision.promote
        assert f"those of the {new.sum()} rows of {len(new)} that are new since" in judged["max_ks_new"].reason

    def test_what_was_accepted_is_no_surprise_the_next_time(self, model):
        """A hundred rows of another kind are let in once; as many more of it are not stopped again."""
        loose = {"min_positives": 5, "max_psi": None, "max_ks": None, "min_auc": 0.0, "min_gmean": 0.0}
        loose |= {"non_inferiority_margin": 0.9}
        stopped = retrain(config(self.grown(100, 400.0), model=model, rules=loose))
        assert not stopped.decision.promote and "that are new since" in stopped.reason
        accepted = retrain(config(self.grown(100, 400.0), model=model, rules=loose | {"max_ks_new": None}))
        assert accepted.decision.promote
        after = retrain(config(self.grown(200, 400.0), model=model, rules=loose))
        judged = {one.rule: one for one in after.decision.judged}["max_ks_new"]
        assert judged.passed and "scores of what was new on its own day" in judged.reason


class TestMovedByHand:
    """What something else than aucflow did to the registry: nothing is trained or scored as if it were ours."""

    @pytest.fixture
    def champions(self, model, first):
        """Versions 1 (previous) and 2 (champion); whatever a test leaves is settled."""
        crown(model, first[1].version, against=1)
        yield model
        if moved_by_hand(client(), store.ledger(), model):
            settle(client(), store.ledger(), model, "ledger", "a test")

    @pytest.mark.parametrize("holder", [None, "1"])
    def test_a_retraining_does_not_go_on_from_there(self, champions, trained, holder):
        if holder is None:
            client().delete_registered_model_alias(champions, "champion")
        else:
            client().set_registered_model_alias(champions, "champion", holder)
        with pytest.raises(RunFailed, match=rf"left it at version 2.*aucflow settle {champions} --to ledger"):
            retrain(config(model=champions))
        assert client().get_experiment_by_name(champions) is None
        lifecycle.settle_command(champions, "ledger", "a slip of the hand")
        assert retrain(config(model=champions)).version.number == 3

    def test_a_champions_alias_that_was_moved_serves_nothing(self, champions, capsys):
        client().set_registered_model_alias(champions, "champion", "1")
        with pytest.raises(
            NotAsRecorded, match=r"champion is version 1, the ledger left it at version 2.*Name a version"
        ):
            find_model(client(), f"{champions}@champion")
        assert find_model(client(), f"{champions}/1").name == f"{champions}/1"
        assert find_model(client(), f"{champions}@previous").name == f"{champions}/1"
        lifecycle.settle_command(champions, "registry", "version 2 was no good")
        assert capsys.readouterr().out.splitlines() == [
            f"champion   {champions}/2 -> {champions}/1",
            f"{champions}: registry and ledger agree",
        ]
        assert find_model(client(), f"{champions}@champion").name == f"{champions}/1"

    def test_a_version_that_the_ledger_does_not_know_serves_nothing(self, champions, first):
        made = client().create_model_version(champions, first[1].version.source)
        try:
            with pytest.raises(RunFailed, match="something else than aucflow made"):
                find_model(client(), f"{champions}/{made.version}")
        finally:
            client().delete_model_version(champions, made.version)

    def test_with_nothing_to_train_a_champion_whose_run_is_gone_is_no_trouble(self, first, monkeypatch):
        """MLflow's own words ended every scheduled retraining from then on."""
        monkeypatch.chdir(first[0])
        run_id, rows = first[1].version.run_id, {}
        with closing(sqlite3.connect("mlruns/mlflow.db")) as database, database:
            rows = database.execute("SELECT * FROM runs WHERE run_uuid = ?", (run_id,)).fetchall()
            database.execute("DELETE FROM runs WHERE run_uuid = ?", (run_id,))
        try:
            assert "nothing to train" in retrain(config()).reason
        finally:
            with closing(sqlite3.connect("mlruns/mlflow.db")) as database, database:
                places = ", ".join("?" * len(rows[0]))
                database.executemany(f"INSERT INTO runs VALUES ({places})", rows)

    def test_with_nothing_to_train_a_champion_whose_files_are_gone_is_told(self, first, monkeypatch):
        monkeypatch.chdir(first[0])
        files = store.artifact_path(first[1].version.source)
        away = files.rename(files.with_name("away"))
        try:
            with pytest.raises(RunFailed, match=r"Expected the files of claims/1, the champion, at .* got none"):
                retrain(config())
        finally:
            away.rename(files)
        assert retrain(config()).version is None


class TestData:
    """Data that have changed for the worse."""

    def test_labels_that_changed_places_are_not_learnt(self, model, trained):
        table = claims(400)
        table["fraud"] = table["fraud"].map({"yes": "no", "no": "yes"})
        outcome = retrain(config(write(table, Path("odd.csv")), model=model))
        assert "as if the labels had changed places" in outcome.reason
        assert state(model)[1] == ("champion",)

    def test_a_finding_that_gives_the_label_away_stops_a_promotion(self, model):
        table = claims(400)
        table["paid"] = (table["fraud"] == "yes") * 1.0
        outcome = retrain(config(write(table, Path("odd.csv")), model=model))
        assert "stops a promotion, separating_column" in outcome.reason and not outcome.decision.promote
        assert state(model)[1] == ("champion",)

    def test_too_few_positives_promote_nothing(self, model, trained):
        outcome = retrain(config(model=model, rules={"min_positives": 40}))
        assert "at least 40 are asked for" in outcome.reason
        assert state(model)[1] == ("champion",)

    @pytest.mark.parametrize(
        ("table", "words"),
        [
            (claims().assign(fraud="no"), "two classes"),
            (claims(0), "got"),
            (claims().drop(columns="fraud"), "'fraud'"),
        ],
        ids=["one class", "a header alone", "no target"],
    )
    def test_what_cannot_be_used_is_refused_before_anything_is_written(self, model, table, words):
        write(table, Path("odd.csv"))
        before = len(store.ledger().entries())
        with pytest.raises(BadInput, match=words):
            retrain(config(Path("odd.csv"), model=model))
        assert client().get_experiment_by_name(model) is None
        assert len(store.ledger().entries()) == before


STEPS = ["fingerprint", "meet_champion", "decide_and_log", "challenge", "report_retraining", "write_report"]
STEPS += ["track_experiment", "register"]


class Broken(Exception):
    """What a test makes a step raise."""


class TestFailure:
    """A step that fails: the old champion serves, and the parent run says why."""

    def settled(self, model, reason):
        assert state(model) == {1: ("champion",)}
        run = parent_run(model)
        assert run.info.status == "FAILED" and reason in run.data.tags["aucflow.reason"]
        entry = [one for one in store.ledger().entries() if one.subject == run.info.run_id][-1]
        assert entry.data["status"] == "FAILED" and reason in entry.reason

    @pytest.mark.parametrize("step", STEPS[1:])
    def test_of_the_flow(self, model, trained, monkeypatch, step):
        def fails(*_given, **_named):
            raise Broken("the disk is full")

        monkeypatch.setattr(flow, step, fails)
        with pytest.raises(Broken):
            retrain(config(model=model))
        self.settled(model, "Broken: the disk is full")

    @pytest.mark.parametrize(("stage", "step"), [(experiment, "compute"), (experiment, "track"), (cell, "search")])
    def test_of_the_training(self, model, monkeypatch, stage, step):
        def fails(*_given, **_named):
            raise Broken("no memory")

        monkeypatch.setattr(stage, step, fails)
        with pytest.raises(RunFailed, match="the challenger could not be trained: Broken: no memory"):
            retrain(config(model=model))
        self.settled(model, "could not be trained")

    @pytest.mark.parametrize("step", ["prepare", "fingerprint"])
    def test_before_anything_is_written(self, model, monkeypatch, step):
        def fails(*_given, **_named):
            raise Broken("no such file")

        monkeypatch.setattr(flow, step, fails)
        with pytest.raises(Broken):
            retrain(config(model=model))
        assert state(model) == {1: ("champion",)}
        assert client().get_experiment_by_name(model) is None

    def test_of_a_move_in_the_registry(self, model, trained, monkeypatch):
        real = MlflowClient.set_registered_model_alias

        def fails(self, name, alias, version):
            if alias == "champion" and version != "1":
                raise Broken("the database is locked")
            return real(self, name, alias, version)

        monkeypatch.setattr(MlflowClient, "set_registered_model_alias", fails)
        with pytest.raises(Broken):
            retrain(config(model=model))
        self.settled(model, "the database is locked")
        assert store.ledger().entries()[-2].kind == "repair"


class TestTwoAtOnce:
    def test_the_second_is_refused_and_told_of_the_first(self, model, trained):
        with alone(model):
            with pytest.raises(RunFailed) as error:
                retrain(config(model=model))
            assert f"process {os.getpid()} on" in str(error.value) and "Wait for it or stop it" in str(error.value)
            assert client().get_experiment_by_name(model) is None
            retrain(config(model=f"{model} b")), "another model's is none of its business"
        assert retrain(config(model=model)).version.number == 2

    def test_a_lock_that_a_killed_one_left_is_no_obstacle(self, model, trained):
        folder = store.ledger().folder
        lock = FileLock(folder / f"retrain {model}.lock")
        lock.acquire(), lock.release()
        (folder / f"retrain {model}.owner").write_text("elsewhere:1:2", encoding="utf-8")
        assert retrain(config(model=model)).version.number == 2

    def test_a_champion_that_changed_meanwhile_is_not_replaced(self, model, trained, first, monkeypatch):
        _, outcome, _ = first
        real = flow.report_retraining

        def slowly(*given):
            crown(model, outcome.version, against=1)  # by another machine, which no lock of this folder holds off
            return real(*given)

        monkeypatch.setattr(flow, "report_retraining", slowly)
        with pytest.raises(RunFailed, match="another change was quicker"):
            retrain(config(model=model))
        assert state(model) == {1: ("previous",), 2: ("champion",)}
        assert parent_run(model).info.status == "FAILED"
