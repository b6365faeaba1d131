"""What a run says of the code it ran on: the commit, and what differs from it."""

import hashlib
import subprocess

import pytest

from tasks import facts


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A repository with one committed file, which stands for this package."""

    def git(*arguments):
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
        done = subprocess.run(["git", "-C", str(tmp_path), *identity, *arguments], capture_output=True, check=True)
        return done.stdout.strip()

    (tmp_path / "code.py").write_bytes(b"x = 1\n")
    git("init", "-q")
    git("add", "code.py")
    git("commit", "-q", "-m", "one")
    monkeypatch.setattr(facts, "ROOT", tmp_path)
    monkeypatch.setattr(facts, "__file__", str(tmp_path / "code.py"))
    return git


def test_a_clean_checkout_is_its_commit(checkout):
    assert facts.git_state() == {"git_commit": checkout("rev-parse", "HEAD").decode(), "git_dirty": "false"}


def test_a_changed_file_of_any_encoding_is_in_the_digest(checkout, tmp_path):
    """A diff in Latin-1 ended the run: it was read as UTF-8."""
    (tmp_path / "code.py").write_bytes("x = 'süß'\n".encode("latin-1"))
    state = facts.git_state()
    assert state["git_dirty"] == "true"
    assert state["git_diff_sha256"] == hashlib.sha256(checkout("diff", "HEAD", "--binary")).hexdigest()


def test_where_git_does_not_tell_nothing_is_claimed(checkout, monkeypatch):
    """A status that could not be had was taken for a clean tree."""
    ask = facts._git
    monkeypatch.setattr(facts, "_git", lambda *words: None if words[0] == "status" else ask(*words))
    assert facts.git_state()["git_dirty"] == "unknown"


def test_code_that_git_does_not_track_has_no_commit_of_its(checkout, monkeypatch, tmp_path):
    monkeypatch.setattr(facts, "__file__", str(tmp_path / "other.py"))
    state = facts.git_state()
    assert state["git_commit"].startswith("none (installed package") and state["git_dirty"] == "unknown"
