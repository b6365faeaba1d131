"""The story of a champion, a version, a run and an experiment: every line with its digest, and how it stands now."""

import json
from html.parser import HTMLParser

import pytest
from audited import MODEL, claims, experiment, forget, overtaken_experiment

from tasks.errors import BadInput, RunFailed
from tasks.registry import delete_version, rollback
from tasks.story import CHANGED, MISSING, NOT_CHECKED, OK, REPLACED, _state, count, render_page, tell
from tasks.verify_runs import Discrepancy

OF_A_RUN = [
    "run",
    "results",
    "model",
    "files",
    "solver",
    "sample",
    "split",
    "data set",
    "conversion",
    "raw file",
    "code",
    "environment",
    "ledger",
]


def story_of(audited, target, deep=False):
    return tell(audited.client, audited.ledger, target, deep)


def states(story):
    return {line.label: line.state for line in story.lines}


def line_of(story, label):
    return next(line for line in story.lines if line.label == label)


def manifest_of(audited, name):
    (path,) = audited.folder.glob(f"mlruns/artifacts/*/{audited.runs[name]}/artifacts/lineage.json")
    return json.loads(path.read_bytes())


class TestLines:
    def test_from_the_champion_back_to_the_raw_file(self, audited):
        story = story_of(audited, f"{MODEL}@champion")
        assert [line.label for line in story.lines] == ["champion", "rule", "register", *OF_A_RUN]
        assert story.found == ()
        told = states(story)
        assert {name for name, state in told.items() if state == NOT_CHECKED} == {"solver", "sample", "split"}
        assert {name for name, state in told.items() if state == ""} == {"rule", "conversion"}
        assert all(line.why for line in story.lines if line.state == NOT_CHECKED)

    def test_each_digest_is_the_recorded_one_in_full(self, audited):
        story, manifest = story_of(audited, f"{MODEL}/2"), manifest_of(audited, "claims u1+ls_svm")
        entries = audited.ledger.entries()
        assert line_of(story, "champion").digests == {"entry 7": entries[6].digest}
        assert line_of(story, "register").digests == {"entry 6": entries[5].digest}
        assert line_of(story, "run").digests == {"manifest": entries[1].data["manifest_sha256"]}
        assert line_of(story, "raw file").digests == {
            manifest["data"]["raw"][0]["path"]: manifest["data"]["raw"][0]["sha256"]
        }
        data = {
            "X": manifest["data"]["X_sha256"],
            "y": manifest["data"]["y_sha256"],
            "both": manifest["data"]["sha256"],
        }
        assert line_of(story, "data set").digests == data
        assert line_of(story, "solver").digests["refit"] == manifest["folds"][-1]["model_sha256"]
        assert line_of(story, "sample").digests["fold 1"] == manifest["folds"][1]["sample"]["kept_sha256"]
        assert line_of(story, "ledger").digests == {"entry 7": entries[6].digest}
        assert all(len(digest) == 64 for line in story.lines for digest in line.digests.values())

    def test_what_stands_there_is_what_the_manifest_says(self, audited):
        story, manifest = story_of(audited, "claims u1+ls_svm"), manifest_of(audited, "claims u1+ls_svm")
        assert [line.label for line in story.lines] == OF_A_RUN
        aucs = [fold["test"]["auc"] for fold in manifest["folds"] if "test" in fold]
        assert f"AUC {sum(aucs) / 2:.4f}" in line_of(story, "results").text
        assert f"{manifest['folds'][-1]['sample']['n_kept']} rows kept" in line_of(story, "sample").text
        assert line_of(story, "data set").text == "claims: 120 rows × 2, 30 positive"
        assert "FINISHED" in line_of(story, "run").text

    def test_an_experiment_has_a_line_for_each_cell(self, audited):
        story = story_of(audited, "claims")
        assert [line.label for line in story.lines if line.label == "cell"] == ["cell"] * 2
        cells = {line.digests["manifest"] for line in story.lines if line.label == "cell"}
        assert cells == {entry.data["manifest_sha256"] for entry in audited.ledger.entries()[:2]}
        assert set(states(story).values()) == {OK, ""}

    def test_a_version_that_was_champion_and_one_that_was_deleted(self, audited):
        assert "until" in line_of(story_of(audited, f"{MODEL}/1"), "champion").text
        rollback(audited.client, audited.ledger, MODEL, "the new one is slow")
        assert "the new one is slow" in line_of(story_of(audited, f"{MODEL}@champion"), "champion").text
        delete_version(audited.client, audited.ledger, MODEL, 2, "not needed")
        story = story_of(audited, f"{MODEL}/2")
        assert "not needed" in line_of(story, "delete").text
        assert line_of(story, "run").state == OK
        assert story.found == ()

    @pytest.mark.parametrize("target", ["champion", "claims/9", "other@champion", f"{MODEL}@staging", "nobody/2"])
    def test_what_nobody_knows_is_said_in_one_line(self, audited, target):
        with pytest.raises(BadInput, match="Expected") as caught:
            story_of(audited, target)
        assert "\n" not in str(caught.value)


class TestStates:
    def test_a_changed_raw_file_leaves_the_arrays_unchecked(self, audited):
        with (audited.folder / "claims.csv").open("a") as stream:
            stream.write("1.0,north,no\n")
        story = story_of(audited, "claims ls_svm")
        told = states(story)
        assert (told["raw file"], told["data set"], told["run"], told["results"]) == (CHANGED, NOT_CHECKED, OK, OK)
        assert [one.subject for one in story.findings] == [f"data file {audited.folder / 'claims.csv'}"]

    def test_a_raw_file_that_is_gone(self, audited):
        (audited.folder / "claims.csv").unlink()
        assert states(story_of(audited, "claims ls_svm"))["raw file"] == MISSING

    def test_newer_data_are_told_and_no_finding(self, audited):
        claims(audited.folder / "claims.csv", seed=9)
        experiment(audited.folder / "claims.csv", name="later", methods=({"solver": "ls_svm", "params": {"lam": 1.0}},))
        story = story_of(audited, audited.runs["claims ls_svm"])
        assert line_of(story, "raw file").state == REPLACED
        assert "newer data" in line_of(story, "raw file").why
        assert story.findings == ()

    def test_newer_data_whose_run_ended_first(self, audited):
        """The slow run read them before they were replaced, and its entry is the later one."""
        overtaken_experiment(audited.folder / "claims.csv", "slow", newer=9)
        story = story_of(audited, "slow")
        assert line_of(story, "raw file").state == REPLACED
        assert story.findings == ()

    def test_a_run_that_has_not_ended_is_not_checked(self, audited):
        run = audited.client.create_run("1", run_name="open")
        story = story_of(audited, run.info.run_id)
        assert line_of(story, "run").state == NOT_CHECKED
        assert story.findings == ()

    def test_a_run_that_is_gone_from_the_store_is_missing_by_the_ledger(self, audited):
        run_id = audited.runs["claims ls_svm"]
        forget(audited, run_id)
        for target in (run_id, run_id[:8]):
            story = story_of(audited, target)
            assert line_of(story, "run").state == MISSING
            assert [one.kind for one in story.findings] == ["missing"]

    @pytest.mark.parametrize("target", ["theirs@champion", "theirs/1"])
    def test_a_model_that_something_else_registered_has_its_runs_story(self, audited, target):
        """The registry lists it, and was said not to know it."""
        run_id = audited.runs["claims ls_svm"]
        (model,) = (one.model_id for one in audited.client.get_run(run_id).outputs.model_outputs)
        source = audited.client.get_logged_model(model).artifact_location
        audited.client.create_registered_model("theirs")
        audited.client.create_model_version("theirs", source, run_id)
        audited.client.set_registered_model_alias("theirs", "champion", "1")
        story = story_of(audited, target)
        assert line_of(story, "register").state == NOT_CHECKED
        assert line_of(story, "run").text.startswith(f"claims ls_svm ({run_id[:8]})")
        assert story.findings == ()

    def test_a_raw_file_that_can_be_fetched_again_is_missing_and_no_finding(self):
        note = Discrepancy("missing", "data file a9a", "it is gone", "data", is_note=True)
        assert _state((note,), ("data",), "data file a9a") == (MISSING, "it is gone")

    @pytest.mark.parametrize(("subject", "state"), [("data set wine", CHANGED), ("data set win", OK)])
    def test_what_is_found_of_one_says_nothing_of_another_whose_name_begins_so(self, subject, state):
        found = Discrepancy("changed", "data set wine, X", "it is another", "conversion")
        assert _state((found,), ("conversion",), subject)[0] == state

    def test_a_changed_manifest_tells_no_more(self, audited):
        (path,) = audited.folder.glob(f"mlruns/artifacts/*/{audited.runs['claims ls_svm']}/artifacts/lineage.json")
        path.write_bytes(path.read_bytes().replace(b'"seed":0', b'"seed":1'))
        story = story_of(audited, f"{MODEL}/1")
        assert line_of(story, "run").state == CHANGED
        assert [line.label for line in story.lines][-2:] == ["run", "ledger"]

    def test_a_version_whose_run_is_gone(self, audited):
        forget(audited, audited.runs["claims u1+ls_svm"])
        story = story_of(audited, f"{MODEL}@champion")
        assert [line.label for line in story.lines] == ["champion", "rule", "register", "run", "ledger"]
        assert line_of(story, "run").state == MISSING
        assert "the store has no such run" in line_of(story, "run").why
        assert [line.state for line in story_of(audited, "claims").lines if line.label == "cell"].count(MISSING) == 1

    def test_a_model_file_a_metric_and_an_alias(self, audited):
        run_id = audited.runs["claims u1+ls_svm"]
        model_id = manifest_of(audited, "claims u1+ls_svm")["store"]["model"]["model_id"]
        (path,) = audited.folder.glob(f"mlruns/artifacts/*/models/{model_id}/artifacts/model.skops")
        path.unlink()
        audited.client.log_metric(run_id, "test_auc_mean", 1.0)
        audited.client.set_registered_model_alias(MODEL, "champion", "1")
        told = states(story_of(audited, f"{MODEL}/2"))
        assert (told["files"], told["results"], told["champion"], told["register"]) == (MISSING, CHANGED, CHANGED, OK)
        assert (told["model"], told["sample"]) == (MISSING, NOT_CHECKED)

    @pytest.mark.parametrize(
        ("file", "is_of"), [("models/*/artifacts/model.skops", "model"), ("{run}/artifacts/numbers.npz", "results")]
    )
    def test_a_line_is_of_its_files_too(self, audited, file, is_of):
        """The digest of a model's file stood there as "ok", and the file was another."""
        run_id = audited.runs["claims u1+ls_svm"]
        source = manifest_of(audited, "claims u1+ls_svm")["store"]["model"]["model_id"]
        places = audited.folder.glob(f"mlruns/artifacts/*/{file.format(run=run_id)}")
        (path,) = (place for place in places if run_id in place.parts or source in place.parts)
        path.write_bytes(path.read_bytes()[:-1] + b"?")
        told = states(story_of(audited, f"{MODEL}/2"))
        others = {"model", "results"} - {is_of}
        assert [told["files"], told[is_of], *(told[one] for one in others)] == [CHANGED, CHANGED, OK]

    def test_a_cell_is_checked_with_its_experiment(self, audited):
        audited.client.log_param(audited.runs["claims ls_svm"], "extra", "1")
        told = {line.text: line.state for line in story_of(audited, "claims").lines if line.label == "cell"}
        assert sorted(told.values()) == [CHANGED, OK]
        assert [one.run_id for one in story_of(audited, "claims").findings] == [audited.runs["claims ls_svm"]]

    def test_a_row_of_the_experiments_own_run_is_its_runs_line(self, audited):
        audited.client.log_param(audited.runs["claims"], "extra", "1")
        assert line_of(story_of(audited, "claims"), "run").state == CHANGED

    def test_a_run_that_failed_tells_why(self, audited):
        with pytest.raises(RunFailed):
            experiment(audited.folder / "claims.csv", "bad", ({"solver": "sdcd", "params": {"max_bytes": 8}},))
        story = story_of(audited, "claims sdcd")
        assert [line.label for line in story.lines] == ["run", *OF_A_RUN[3:4], *OF_A_RUN[7:]]
        assert "FAILED" in story.lines[0].text and "max_bytes" in story.lines[0].text
        assert "max_bytes" in line_of(story_of(audited, "bad"), "cell").text
        assert story.found == ()

    def test_a_ledger_that_does_not_verify_spoils_what_it_alone_tells(self, audited):
        audited.ledger.path.write_bytes(audited.ledger.path.read_bytes().replace(b"every rule", b"Every rule", 1))
        told = states(story_of(audited, f"{MODEL}@champion"))
        assert (told["champion"], told["register"], told["ledger"]) == (CHANGED, CHANGED, CHANGED)

    def test_a_run_that_the_ledger_does_not_know(self, audited):
        run = audited.client.create_run("1", run_name="forged")
        audited.client.set_terminated(run.info.run_id)
        story = story_of(audited, run.info.run_id)
        assert line_of(story, "run").state == CHANGED
        assert [one.kind for one in story.findings] == ["inserted"]

    def test_large_data_are_converted_again_only_when_asked(self, audited, monkeypatch):
        monkeypatch.setattr("tasks.story.QUICK_BYTES", 10)
        assert states(story_of(audited, "claims ls_svm"))["data set"] == NOT_CHECKED
        assert states(story_of(audited, "claims ls_svm", deep=True))["data set"] == OK


class Page(HTMLParser):
    """Counts what a page is made of."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_the_page_has_every_digest_in_full_and_needs_nothing_else(audited):
    audited.client.set_registered_model_alias(MODEL, "champion", "1")
    story = story_of(audited, f"{MODEL}/2")
    text = render_page(story)
    page = Page(text)
    for line in story.lines:
        assert line.text in page.text
        assert all(digest in page.text for digest in line.digests.values())
    assert all(one.message in page.text for one in story.found)
    assert not [
        tag for tag, attrs in page.tags if tag in ("script", "link", "img") or "href" in attrs or "src" in attrs
    ]
    opened = [tag for tag, _ in page.tags if tag not in ("meta", "link")]
    assert all(text.count(f"</{tag}>") == opened.count(tag) for tag in set(opened))


def test_texts_are_escaped_on_the_page(audited):
    rollback(audited.client, audited.ledger, MODEL, "<script>too slow</script>")
    text = render_page(story_of(audited, f"{MODEL}@champion"))
    assert "&lt;script&gt;too slow" in text
    assert "<script>" not in text


@pytest.mark.parametrize(("number", "said"), [(0, "0 files"), (1, "1 file"), (1234, "1,234 files")])
def test_counts_are_said_as_they_have_to_be(number, said):
    assert count(number, "file") == said
