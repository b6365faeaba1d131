"""Folds side by side: in order, and each thread works for the run that started it."""

import logging
import threading
from contextvars import ContextVar

import pytest
from prefect import flow, task
from prefect.settings import PREFECT_API_URL, temporary_settings
from ready_made import prefect_url

from tasks.log import run_logger
from tasks.threads import each

RUN = ContextVar("RUN", default="none")


@pytest.mark.parametrize("workers", [1, 2])
def test_results_come_in_order_and_threads_know_their_run(workers):
    token = RUN.set("this one")
    barrier = threading.Barrier(workers, timeout=60)

    def step(a, b):
        if workers > 1:
            barrier.wait()
        return a * b, RUN.get()

    try:
        assert each(step, [(a, 10) for a in range(6)], workers) == [(10 * a, "this one") for a in range(6)]
    finally:
        RUN.reset(token)


def test_what_a_step_logs_is_its_runs(caplog):
    """With two workers the search's reasons were lost: -v, which was to tell them, told nothing."""

    @task
    def search(workers):
        each(lambda fold: run_logger().info("left out: %s by %s", fold, workers), [(0,), (1,)], workers)

    @flow
    def experiment():
        search(1)
        search(2)

    with (
        temporary_settings({PREFECT_API_URL: prefect_url()}),
        caplog.at_level(logging.INFO, "prefect"),
    ):  # a command run here silenced it
        experiment()
    told = sorted(record.message for record in caplog.records if "left out" in record.message)
    assert told == [f"left out: {fold} by {workers}" for fold in (0, 1) for workers in (1, 2)]
