"""The one decorator that makes a function a stage of a flow."""

from functools import partial

from prefect import task
from prefect.cache_policies import NO_CACHE

# Prefect's default cache key misses changes in helpers that a task calls and then returns stale results;
# nothing is cached until a key of our own (data, config, code, seed) exists.
stage = partial(task, cache_policy=NO_CACHE, persist_result=False)
