"""The description of the machine says what a reader needs and nothing that identifies it."""

import getpass
import platform

import numpy as np

from benchmarks import machine


def test_the_description_names_what_decides_the_numbers():
    described = machine.describe()
    assert set(described) >= {"date", "processor", "load", "memory", "speed", "system", "Python", "libraries", "BLAS"}
    assert all(described.values())
    assert np.__version__ in described["libraries"]


def test_the_description_names_neither_host_nor_user():
    # by whole words, over values that hold no free text of the user's
    words = set(" ".join(machine.describe().values()).replace(",", " ").split())
    assert platform.node() not in words
    assert getpass.getuser() not in words


def test_without_a_c_compiler_the_description_says_so(monkeypatch):
    monkeypatch.setenv("PATH", "")
    assert machine.compiler() is None
    assert machine.describe()["C compiler"] == "none found"
