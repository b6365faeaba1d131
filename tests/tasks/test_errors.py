"""What is said of what was given in place of what was expected."""

import pytest

from tasks.errors import nearest
from tasks.files import undecodable


@pytest.mark.parametrize(
    ("given", "known", "told"),
    [
        ("amuont", ["amount", "age"], " Did you mean 'amount'?"),
        ("Amount", ["amount"], " Did you mean 'amount'?"),
        ("shoe size", ["amount"], ""),
        (
            "cafe\u0301",
            ["caf\xe9"],
            r" Did you mean 'caf\xe9'? They look alike and are other characters: 'cafe\u0301'.",
        ),
        ("y", ["y\u200b"], r" Did you mean 'y\u200b'? They look alike and are other characters: 'y'."),
    ],
)
def test_the_nearest_name_is_told_and_what_cannot_be_seen_of_it(given, known, told):
    assert nearest(given, known) == told


def test_a_command_that_converts_a_file_can_be_run_whatever_it_is_called():
    told = str(undecodable("latin 2; ls.csv", "utf-8-sig", 3, 0xE9))
    assert told.endswith("iconv -f LATIN1 -t UTF-8 'latin 2; ls.csv' > 'utf8-latin 2; ls.csv'")
