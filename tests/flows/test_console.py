"""How wide results are printed."""

import io
import sys

from flows.console import WIDE, report_console, wide_console


def test_in_a_pipe_a_report_is_as_wide_as_columns_says_and_a_list_is_wide(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", "80")
    assert (report_console().width, wide_console().width) == (80, WIDE)


def test_where_nothing_tells_a_width_names_are_not_cut_to_pieces(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    monkeypatch.delenv("COLUMNS", raising=False)
    assert report_console().width == WIDE
