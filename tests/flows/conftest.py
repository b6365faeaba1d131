"""The command in this process, as a function of its arguments."""

import signal

import pytest

from flows.cli import main


@pytest.fixture
def hangups():
    """Have children started here take a hangup as they do without nohup, which has it ignored by all below it."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def aucflow(capsys, folder):
    """The command as a function of its arguments: exit code, standard output, standard error."""

    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in arguments])
        out, err = capsys.readouterr()
        return ended.value.code, out, err

    return call
