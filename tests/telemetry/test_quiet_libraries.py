"""Loggers of libraries that a service keeps at warnings."""

import logging
from collections.abc import Iterator

import pytest

from onbeat.service import QUIET, quiet_libraries
from onbeat.settings import LogSettings
from onbeat.settings.records import LogLevel


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = {name: logging.getLogger(name).level for name in QUIET}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def test_what_libraries_tell_of_each_start_is_not_logged() -> None:
    quiet_libraries(LogSettings())
    for name in ("botocore.credentials", "uvicorn.error"):
        assert not logging.getLogger(name).isEnabledFor(logging.INFO)
        assert logging.getLogger(name).isEnabledFor(logging.WARNING)


def test_a_level_of_ones_own_counts() -> None:
    logging.getLogger("botocore.credentials").setLevel(logging.INFO)
    quiet_libraries(LogSettings(levels={"botocore.credentials": LogLevel.INFO}))
    assert logging.getLogger("botocore.credentials").isEnabledFor(logging.INFO)
    assert not logging.getLogger("uvicorn.error").isEnabledFor(logging.INFO)
