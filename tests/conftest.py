"""What all tests share: how many examples a property gets and which, and where proofs are run.

By default few and always the same, so that a run that was green is green again; with
TEST_PROFILE=long many, and others at every run.
"""

import logging
import os
import threading
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

import distribution
import proofs

# Before anything imports them: the asserts of the shipped contracts then tell what they compared.
pytest.register_assert_rewrite("onbeat.testing.store_contract", "onbeat.testing.broker_contract")

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "quick",
    max_examples=int(os.environ.get("TEST_EXAMPLES", "60")),
    derandomize=True,
    deadline=None,
    suppress_health_check=QUIET,
)
settings.register_profile(
    "long",
    max_examples=3_000,
    deadline=None,
    print_blob=True,
    suppress_health_check=QUIET,
)
settings.load_profile(os.environ.get("TEST_PROFILE", "quick"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> distribution.HeavyFirst | None:
    return distribution.HeavyFirst(config, log) if config.getvalue("dist") == "loadgroup" else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if proofs.are_all_wanted():
        return
    marked = [item for item in items if item.get_closest_marker("proof")]
    left_out = set(marked) - set(proofs.sample(marked))
    config.hook.pytest_deselected(items=[item for item in items if item in left_out])
    items[:] = [item for item in items if item not in left_out]


def store_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if "onbeat-sqlite" in thread.name}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown() -> Generator[None]:
    """A test that leaves a store open fails itself, and not a later one that counts threads."""
    before = STORE_THREADS.copy()
    try:
        return (yield)
    finally:
        STORE_THREADS.clear()
        STORE_THREADS.update(store_threads())
        left_open = STORE_THREADS - before
        assert not left_open, f"a store was left open: {[thread.name for thread in left_open]}"


STORE_THREADS: set[threading.Thread] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """No test hears the log as another has set it up, in whatever order they come."""
    root, ours = logging.getLogger(), logging.getLogger("onbeat")
    handlers, levels = root.handlers[:], (root.level, ours.level)
    try:
        return (yield)
    finally:
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
