"""The sign of life: on a terminal there is one, anywhere else nothing."""

import os
import pty
import subprocess
import sys

CODE = "from flows.waiting import waiting\nwith waiting('thinking'): pass\nprint('done')"


def test_on_a_terminal_it_shows_that_something_goes_on():
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", CODE], stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    assert b"thinking" in os.read(ours, 10_000)
    os.close(ours)
    assert (done.returncode, done.stdout) == (0, "done\n")


def test_anywhere_else_nothing_is_written():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
