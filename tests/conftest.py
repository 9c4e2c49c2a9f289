"""What all tests share: how many examples a property gets, and which.

By default few and always the same, so that a run that was green is green again; with
ONBEAT_TEST_PROFILE=long many, and others at every run.
"""

import os

import pytest
from hypothesis import HealthCheck, settings

# Before anything imports them: the asserts of the shipped contracts then tell what they compared.
pytest.register_assert_rewrite("onbeat.testing.store_contract", "onbeat.testing.broker_contract")

QUIET = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]

settings.register_profile(
    "quick",
    max_examples=int(os.environ.get("ONBEAT_EXAMPLES", "60")),
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
settings.load_profile(os.environ.get("ONBEAT_TEST_PROFILE", "quick"))
