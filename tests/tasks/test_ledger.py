"""The ledger: what goes in stays as it was, and whatever is done to it later is found and named."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tasks.errors import RunFailed
from tasks.ledger import START, Ledger, canonical

WRITER = """
import sys
from pathlib import Path
from tasks.ledger import Ledger
ledger = Ledger(Path(sys.argv[1]))
for i in range(int(sys.argv[3])):
    ledger.append("run", f"{sys.argv[2]}-{i}", "written by a test", {"payload": "x" * int(sys.argv[4])})
    print(i, flush=True)
"""


@pytest.fixture
def ledger(tmp_path):
    """A ledger of twelve entries."""
    ledger = Ledger(tmp_path / "ledger")
    for i in range(12):
        ledger.append(
            "run" if i % 3 else "promote", f"run-{i}", f"reason {i}", {"auc": 0.9 + i / 1000, "nested": {"ü": [i]}}
        )
    return ledger


def start_writer(folder, name, count, payload=10):
    command = [sys.executable, "-c", WRITER, str(folder), name, str(count), str(payload)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


class TestChain:
    def test_entries_come_back_as_they_were_written(self, ledger):
        entries = ledger.entries()
        assert [e.seq for e in entries] == list(range(1, 13))
        assert entries[4].data == {"auc": 0.904, "nested": {"ü": [4]}}
        assert [e.previous for e in entries] == [START, *(e.digest for e in entries[:-1])]
        assert ledger.verify() == ()

    def test_a_ledger_that_is_not_there_is_empty_and_sound(self, tmp_path):
        ledger = Ledger(tmp_path / "none")
        assert (ledger.entries(), ledger.verify()) == ((), ())
        assert not ledger.folder.exists()

    def test_a_digest_is_that_of_the_lines_bytes_and_a_moved_ledger_stays_sound(self, ledger, tmp_path):
        ledger.folder.rename(tmp_path / "moved")
        moved = Ledger(tmp_path / "moved")
        assert moved.verify() == ()
        assert moved.append("run", "after the move", "it goes on").seq == 13

    def test_an_entry_larger_than_the_block_that_ends_are_read_by(self, ledger):
        ledger.append("run", "large", "many rows", {"rows": list(range(20_000))})
        assert ledger.append("run", "next", "goes on").seq == 14
        assert ledger.verify() == ()

    @pytest.mark.parametrize("value", [float("nan"), float("inf")])
    def test_numbers_that_json_does_not_have_are_refused_before_anything_is_written(self, ledger, value):
        with pytest.raises(ValueError):
            ledger.append("run", "x", "y", {"auc": value})
        assert ledger.verify() == () and len(ledger.entries()) == 12

    def test_an_unknown_kind_is_refused(self, ledger):
        with pytest.raises(ValueError, match="promote"):
            ledger.append("promotion", "x", "y")


def lines_of(ledger):
    return ledger.path.read_bytes().splitlines(keepends=True)


class TestTampering:
    """Every kind of change, at every line."""

    @pytest.mark.parametrize("line", range(12))
    def test_a_line_removed(self, ledger, line):
        lines = lines_of(ledger)
        ledger.path.write_bytes(b"".join(lines[:line] + lines[line + 1 :]))
        kinds = {f.kind for f in ledger.verify()}
        assert kinds == ({"truncated"} if line == 11 else {"removed", "truncated"})
        with pytest.raises(RunFailed) if line == 11 else nullcontext():
            ledger.append("run", "x", "y")

    @pytest.mark.parametrize("line", range(12))
    def test_a_value_changed(self, ledger, line):
        lines = lines_of(ledger)
        entry = json.loads(lines[line]) | {"reason": "another"}
        lines[line] = canonical(entry) + b"\n"
        ledger.path.write_bytes(b"".join(lines))
        (fault,) = ledger.verify()
        assert (fault.kind, fault.line) == ("changed", line + 1)

    @pytest.mark.parametrize("line", range(11))
    def test_two_lines_swapped(self, ledger, line):
        lines = lines_of(ledger)
        lines[line], lines[line + 1] = lines[line + 1], lines[line]
        ledger.path.write_bytes(b"".join(lines))
        assert "reordered" in {f.kind for f in ledger.verify()}

    @pytest.mark.parametrize("line", range(13))
    def test_a_line_inserted(self, ledger, line):
        lines = lines_of(ledger)
        entries = ledger.entries()
        previous = entries[line - 1].digest if line else START
        forged = json.loads(lines[0]) | {"previous": previous, "seq": line + 1, "reason": "forged"}
        ledger.path.write_bytes(b"".join([*lines[:line], canonical(forged) + b"\n", *lines[line:]]))
        assert "inserted" in {f.kind for f in ledger.verify()}

    @pytest.mark.parametrize("line", range(12))
    def test_a_line_doubled(self, ledger, line):
        lines = lines_of(ledger)
        ledger.path.write_bytes(b"".join([*lines[: line + 1], *lines[line:]]))
        assert ledger.verify()

    @pytest.mark.parametrize("cut", range(1, 12))
    def test_the_end_cut_off(self, ledger, cut):
        ledger.path.write_bytes(b"".join(lines_of(ledger)[:-cut]))
        (fault,) = ledger.verify()
        assert (fault.kind, fault.line) == ("truncated", 13 - cut)
        assert ("1 entry is" if cut == 1 else f"{cut} entries are") in fault.message

    def test_the_whole_chain_written_anew_is_found_by_the_head(self, ledger, tmp_path):
        other = Ledger(tmp_path / "other")
        for entry in ledger.entries():
            other.append(entry.kind, entry.subject, "a better reason", entry.data)
        ledger.path.write_bytes(other.path.read_bytes())
        assert [f.kind for f in ledger.verify()] == ["changed"]

    @pytest.mark.parametrize("head", [b"", b"{}", b"[]", b"nonsense", b'{"count":12}'])
    def test_a_spoilt_head_is_named(self, ledger, head):
        ledger.head_path.write_bytes(head)
        assert [f.kind for f in ledger.verify()] == ["head"]

    def test_a_head_that_is_gone_is_named(self, ledger):
        ledger.head_path.unlink()
        assert [f.kind for f in ledger.verify()] == ["inserted"]

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_no_flip_of_a_byte_goes_unseen(self, ledger, data):
        """And is told once, with its line: an innocent one was blamed where the digest of the one before was hit."""
        original = ledger.path.read_bytes()
        try:
            position = data.draw(st.integers(0, len(original) - 1))
            flipped = bytearray(original)
            flipped[position] ^= data.draw(st.integers(1, 255))
            ledger.path.write_bytes(flipped)
            found = ledger.verify()
            if b"\n" in (original[position : position + 1], bytes(flipped[position : position + 1])):
                assert found  # of two lines one was made, or of one two
            else:
                assert [fault.line for fault in found] == [original.count(b"\n", 0, position) + 1]
        finally:
            ledger.path.write_bytes(original)


class TestCrash:
    def test_an_append_cut_off_in_the_line_is_taken_back_and_said(self, ledger):
        whole = ledger.path.read_bytes()
        line = canonical(json.loads(lines_of(ledger)[-1]) | {"seq": 13})
        head = json.loads(ledger.head_path.read_bytes())
        ledger.head_path.write_bytes(canonical(head | {"pending": "f" * 64}) + b"\n")
        ledger.path.write_bytes(whole + line[:50])
        assert ledger.verify() == (), "an interrupted append is no tampering"
        assert ledger.append("run", "next", "goes on").seq == 14
        assert [e.kind for e in ledger.entries()[-2:]] == ["repair", "run"]
        assert ledger.verify() == ()

    def test_a_cut_off_append_behind_somebody_elses_entry_is_not_mended(self, ledger):
        """The repair was written first, on top of an entry that nobody of us wrote."""
        foreign = canonical(json.loads(lines_of(ledger)[-1]) | {"seq": 13})
        head = json.loads(ledger.head_path.read_bytes())
        ledger.head_path.write_bytes(canonical(head | {"pending": "f" * 64}) + b"\n")
        with ledger.path.open("ab") as stream:
            stream.write(foreign + b"\n" + foreign[:50])
        before = ledger.path.read_bytes()
        with pytest.raises(RunFailed, match="audit verify"):
            ledger.append("run", "x", "y")
        assert ledger.path.read_bytes() == before

    def test_a_lock_that_is_never_let_go_of_is_told(self, ledger, monkeypatch):
        monkeypatch.setattr("tasks.ledger.LOCK_S", 0.1)
        with (
            FileLock(ledger.folder / "lock"),
            pytest.raises(RunFailed, match=r"no turn within 0\.1 s.*another process holds"),
        ):
            ledger.append("run", "x", "y")

    def test_half_a_line_that_nobody_announced_is_a_fault(self, ledger):
        with ledger.path.open("ab") as stream:
            stream.write(b'{"half":')
        assert [f.kind for f in ledger.verify()] == ["torn"]
        with pytest.raises(RunFailed, match="audit verify"):
            ledger.append("run", "x", "y")

    def test_a_writer_killed_at_any_moment_leaves_a_ledger_that_goes_on(self, tmp_path):
        folder = tmp_path / "ledger"
        rng = random.Random(0)
        confirmed = 0
        for _ in range(6):
            writer = start_writer(folder, "w", 100_000, payload=3000)
            writer.stdout.readline()  # it is writing now
            time.sleep(rng.uniform(0.0, 0.15))
            os.kill(writer.pid, signal.SIGKILL)
            confirmed += 1 + len(writer.stdout.read().splitlines())
            writer.wait()
            ledger = Ledger(folder)
            assert ledger.verify() == ()
            runs = [e for e in ledger.entries() if e.kind == "run"]
            assert len(runs) >= confirmed, "what was confirmed is there"
            confirmed = len(runs)


def test_eight_writers_at_once_lose_and_tear_nothing(tmp_path):
    writers = [start_writer(tmp_path / "ledger", f"w{i}", 20, payload=500) for i in range(8)]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    ledger = Ledger(tmp_path / "ledger")
    assert ledger.verify() == ()
    subjects = [e.subject for e in ledger.entries()]
    assert sorted(subjects) == sorted(f"w{i}-{j}" for i in range(8) for j in range(20))
    for i in range(8):
        own = [s for s in subjects if s.startswith(f"w{i}-")]
        assert own == [f"w{i}-{j}" for j in range(20)], "each writer's entries in its own order"
