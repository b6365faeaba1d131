"""What may be said of a path, whatever stands in the way of looking at it."""

import hashlib
from unittest import mock

import pytest

from tasks import files
from tasks.files import NO_FILE, brief, is_sha256, is_there, sha256_or_reason


@pytest.fixture
def places(tmp_path):
    """A file, a folder, a link to nothing, one that the system refuses to follow, and paths with nothing at them."""
    (tmp_path / "file").write_bytes(b"a,b\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "broken").symlink_to("nowhere")
    (tmp_path / "closed").symlink_to("a" * 300)
    return tmp_path


def test_a_digest_or_why_there_is_none(places):
    assert sha256_or_reason(places / "file") == hashlib.sha256(b"a,b\n").hexdigest()
    for nothing in ("folder", "broken", "nowhere", "file/below"):
        assert sha256_or_reason(places / nothing) == NO_FILE
    assert sha256_or_reason(places / "closed") == "file name too long"
    with mock.patch.object(files, "file_sha256", side_effect=PermissionError(13, "Permission denied")):
        assert sha256_or_reason(places / "file") == "permission denied"
    with mock.patch.object(files, "file_sha256", side_effect=FileNotFoundError):  # gone since it was looked at
        assert sha256_or_reason(places / "file") == NO_FILE


def test_sentences_have_the_beginning_of_a_digest_and_the_whole_of_a_reason():
    digest = hashlib.sha256(b"").hexdigest()
    assert is_sha256(digest) and brief(digest) == f"{digest[:16]}…"
    assert not is_sha256("permission denied") and brief("permission denied") == "permission denied"
    assert brief(digest * 9) == digest[:60], "a ledger may say anything"
    assert not is_sha256(digest.upper()) and not is_sha256(f"{digest}\n")


@pytest.mark.parametrize(
    ("name", "there"),
    [("file", True), ("folder", True), ("broken", True), ("closed", True), ("closed/below", True), ("nowhere", False),
     ("file/below", False)],
)  # fmt: skip
def test_what_may_not_be_looked_at_is_taken_to_be_there(places, name, there):
    assert is_there(places / name) is there
