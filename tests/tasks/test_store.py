"""The MLflow store: which folders it can lie in."""

import pytest

from tasks import store
from tasks.errors import RunFailed


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """An empty current folder, with the store in its mlruns/."""
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


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
