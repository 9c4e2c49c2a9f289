"""The clock of these tests stands still within a test, at the time when that began."""

from datetime import UTC, datetime

from targets.runs import CLOCK


def pytest_runtest_setup() -> None:
    # Receivers refuse signatures that are older than some minutes.
    CLOCK.at = datetime.now(UTC)
