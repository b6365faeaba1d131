"""How wide results are printed."""

import io
import json
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from rich.console import Console

from flows.cli import cli, main
from flows.console import WIDE, plain, print_json, printable, report_console, wide_console
from flows.display import progress
from tasks.configuration import parse_config
from tasks.progress import NOTICE, announce


def test_in_a_pipe_a_report_is_as_wide_as_columns_says_and_a_list_is_wide(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", "80")
    assert (report_console().width, wide_console().width) == (80, WIDE)


@pytest.mark.parametrize("is_terminal", [True, False])
def test_what_went_wrong_beside_a_run_is_told_when_it_ends_or_fails(is_terminal):
    config = parse_config({"datasets": ["wine"], "methods": ["ls_svm"]}, "test")
    console = Console(file=io.StringIO(), force_terminal=is_terminal, width=40)
    told = "OpenLineage: 0 events sent, then none, and the run goes on: [Errno 111] refused [/]"
    with pytest.raises(RuntimeError), progress(config, console):
        announce("start")
        announce(NOTICE, detail=told)
        assert told not in console.file.getvalue()
        raise RuntimeError
    lines = console.file.getvalue().splitlines()
    assert lines[-1] == f"aucflow: {told}" and len([line for line in lines if "notice" in line]) == 0


def test_where_nothing_tells_a_width_names_are_not_cut_to_pieces(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.delenv("COLUMNS", raising=False)
    assert report_console().width == WIDE


@given(st.text())
@example(r"why \[/nope] not")
@example("[red]x[/red]\\")
def test_a_text_of_somebody_elses_is_printed_to_the_letter(text):
    """A reason in the ledger that ended in a tag with a backslash ended every audit of its model."""
    console = Console(file=io.StringIO(), width=10**6)
    console.print(f"{plain(text)}[bold]![/bold]")
    assert console.file.getvalue() == f"{printable(text)}!\n"


def test_a_terminal_that_knows_ascii_only_gets_its_table(monkeypatch):
    """A finished run ended with exit code 1 and no table, as ± could not be encoded."""
    stdout = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr(sys, "stdout", stdout)

    def tell(**_):
        print("0.98 ± 0.01")
        print_json({"name": "größe"})

    monkeypatch.setattr(cli, "main", tell)
    with pytest.raises(SystemExit) as ended:
        main([])
    stdout.flush()
    table, *as_json = stdout.buffer.getvalue().decode("ascii").splitlines()
    assert ended.value.code == 0 and table == "0.98 ? 0.01"
    assert json.loads("".join(as_json)) == {"name": "größe"}
