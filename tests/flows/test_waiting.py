"""The sign of life: on a terminal there is one, anywhere else nothing."""

import os
import pty
import subprocess
import sys

import pytest

CODE = "from flows.waiting import waiting\nwith waiting('thinking'): pass\nprint('done')"
BAR = """
from flows.waiting import bar
with bar() as show:
    show(description='rows', completed=3, total=7)
print('done')
"""


@pytest.mark.parametrize(("code", "words"), [(CODE, (b"thinking",)), (BAR, (b"3/7", b"rows"))])
def test_on_a_terminal_it_shows_that_something_goes_on(code, words):
    ours, theirs = pty.openpty()
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=theirs, text=True)
    os.close(theirs)
    shown = os.read(ours, 10_000)
    os.close(ours)
    assert all(word in shown for word in words)
    assert (done.returncode, done.stdout) == (0, "done\n")


@pytest.mark.parametrize("code", [CODE, BAR])
def test_anywhere_else_nothing_is_written(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
