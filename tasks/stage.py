"""The one decorator that makes a function a stage of a flow."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from prefect import Task, task
from prefect.cache_policies import NO_CACHE

Given = ParamSpec("Given")
Made = TypeVar("Made")


def stage(*, name: str, task_run_name: str) -> Callable[[Callable[Given, Made]], Task[Given, Made]]:
    """Make a function a Prefect task that is called like it; ``fn`` of it is the function.

    Prefect's default cache key misses changes in helpers that a task calls and then returns stale results;
    nothing is cached until a key of our own (data, config, code, seed) exists.
    """
    return task(name=name, task_run_name=task_run_name, cache_policy=NO_CACHE, persist_result=False)
