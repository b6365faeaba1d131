"""A cell: what its time is."""

import time

import pytest
from numba import njit

from tasks import cell
from tasks.values import MethodResult

ASLEEP_S = 0.2


@pytest.mark.parametrize("functions", [0, 1, 2])
def test_compiling_is_timed_apart(monkeypatch, functions):
    """A first run showed ten seconds for a method that takes two."""

    def stages(prepared, method, config, seed, call):
        for number in range(functions):
            njit(lambda x, number=number: x + number)(1.0)
        time.sleep(ASLEEP_S)
        return MethodResult("d", "m", "m", "none")

    monkeypatch.setattr(cell, "_compute", stages)
    start = time.perf_counter()
    result = cell.compute(None, None, None, 0)
    assert (result.compile_s > 0.0) == (functions > 0)
    assert result.seconds >= ASLEEP_S
    assert result.seconds + result.compile_s <= time.perf_counter() - start
