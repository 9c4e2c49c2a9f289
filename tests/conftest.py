"""What all tests share: how many examples a property gets, and which.

By default few and always the same, so that a run that was green is green again; with
TEST_PROFILE=long many, and others at every run.
"""

import os
import threading
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

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
