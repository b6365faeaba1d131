"""Watching a data file: what counts as a change, and when."""

import hashlib
import os
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tasks import files, watch
from tasks.watch import FileWatch, snapshot


def sha256(data):
    return hashlib.sha256(data).hexdigest()


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "claims.csv"
    path.write_bytes(b"a,y\n1,0\n")
    return path


def settled(path):
    """Return a watch that knows the file as it is."""
    seen = FileWatch(path)
    assert seen.look() is None
    assert seen.look() == sha256(path.read_bytes())
    return seen


def test_the_first_content_counts_unless_it_is_known(file):
    settled(file)
    known = FileWatch(file, sha256(file.read_bytes()))
    assert [known.look() for _ in range(3)] == [None] * 3


def test_nothing_changed_is_not_even_read(file):
    seen = settled(file)
    with mock.patch.object(watch, "sha256_or_reason", side_effect=AssertionError("read")):
        assert [seen.look() for _ in range(3)] == [None] * 3


def test_a_change_counts_once_and_at_the_second_look(file):
    seen = settled(file)
    file.write_bytes(b"a,y\n1,1\n")  # of the same size
    assert [seen.look() for _ in range(4)] == [None, sha256(b"a,y\n1,1\n"), None, None]


def test_a_growing_file_starts_nothing_before_it_stands_still(file):
    seen = settled(file)
    for row in range(5):
        with file.open("ab") as stream:
            stream.write(b"%d,1\n" % row)
        assert seen.look() is None
    assert seen.look() == sha256(file.read_bytes())


def test_a_file_that_is_written_to_while_it_is_read_starts_nothing(file):
    seen = settled(file)
    file.write_bytes(b"half")
    assert seen.look() is None

    def read_and_written_to(path):
        digest = sha256(path.read_bytes())
        path.write_bytes(b"whole")
        return digest

    with mock.patch.object(watch, "sha256_or_reason", read_and_written_to):
        assert seen.look() is None
    assert [seen.look() for _ in range(2)] == [None, sha256(b"whole")]


def test_another_time_or_a_copy_of_the_same_content_is_no_change(file):
    seen = settled(file)
    os.utime(file, (1, 1))
    assert [seen.look() for _ in range(3)] == [None] * 3
    copy = file.with_suffix(".new")
    copy.write_bytes(file.read_bytes())
    copy.replace(file)
    assert [seen.look() for _ in range(3)] == [None] * 3


def test_a_change_that_keeps_size_and_time_is_found(file):
    before = file.stat()
    seen = settled(file)
    file.write_bytes(b"a,y\n1,7\n")
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert snapshot(file).modified_ns == before.st_mtime_ns
    assert [seen.look() for _ in range(2)] == [None, sha256(b"a,y\n1,7\n")]


def test_a_file_that_is_away_for_a_while_changes_nothing_if_it_comes_back_the_same(file):
    seen, content = settled(file), file.read_bytes()
    file.unlink()
    assert [seen.look() for _ in range(2)] == [None] * 2
    file.write_bytes(content)
    assert [seen.look() for _ in range(3)] == [None] * 3


def test_an_earlier_content_that_comes_back_is_a_change(file):
    seen, first = settled(file), file.read_bytes()
    for content in (b"other", first):
        file.write_bytes(content)
        assert [seen.look() for _ in range(2)] == [None, sha256(content)]


def test_what_cannot_be_read_is_no_change_until_it_can(file):
    seen = settled(file)
    file.write_bytes(b"new")
    with mock.patch.object(files, "file_sha256", side_effect=PermissionError(13, "Permission denied")):
        assert [seen.look() for _ in range(3)] == [None] * 3
        assert seen.fault == "permission denied"
    assert seen.look() == sha256(b"new")
    assert seen.fault == ""


@pytest.mark.parametrize(
    "target, fault", [("a" * 300, "file name too long"), ("nowhere", "no file"), (".", "no file"), ("pipe", "no file")]
)
def test_what_cannot_be_looked_at_is_told_and_no_change(file, target, fault):
    """A name too long, or a folder that may not be entered, raised an error; a pipe would have been waited for."""
    seen = settled(file)
    os.mkfifo(file.with_name("pipe"))
    kept = file.rename(file.with_name("kept"))
    file.symlink_to(target)
    assert [(seen.look(), seen.fault) for _ in range(3)] == [(None, fault)] * 3
    kept.replace(file)
    assert [seen.look() for _ in range(3)] == [None] * 3
    assert seen.fault == ""
    file.write_bytes(b"new")
    assert [seen.look() for _ in range(2)] == [None, sha256(b"new")]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.none(), st.sampled_from([b"x", b"yy", b"zzz"]), st.just("touch"), st.just("gone"))))
def test_whatever_happens_between_looks_the_file_as_it_stands_is_told_once(tmp_path_factory, steps):
    """A watch agrees with one that reads the file at each look and waits for two equal ones in a row."""
    path = tmp_path_factory.mktemp("watched") / "data.csv"
    seen, told = FileWatch(path), None
    before = snapshot(path)
    for step in [*steps, None, None]:
        if isinstance(step, bytes):
            path.write_bytes(step)
        elif step == "gone":
            path.unlink(missing_ok=True)
        elif step == "touch" and path.exists():
            path.touch()
        now = snapshot(path)
        content = sha256(path.read_bytes()) if now is not None and now == before else None
        expected = content if content is not None and content != told else None
        assert seen.look() == expected
        told, before = expected or told, now
