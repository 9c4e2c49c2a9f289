"""What an import gives, for the tests of all sources."""

from datetime import UTC, datetime
from typing import Any

from onbeat.cli.imports import ImportOptions, ImportResult, read
from onbeat.cli.imports.checks import fires_of

SPRING = datetime(2027, 3, 27, 12, tzinfo=UTC)
"""The day before clocks go forward in Berlin."""
AUTUMN = datetime(2027, 10, 30, 12, tzinfo=UTC)


def bodies(result: ImportResult) -> dict[str, dict[str, Any]]:
    return {one.key: one.body for one in result.schedules}


def lost(result: ImportResult) -> list[tuple[int | None, str]]:
    return [(one.line, one.feature) for one in result.differences if one.lost]


def differing(result: ImportResult) -> list[str]:
    return [one.feature for one in result.differences if not one.lost]


def imported(source: str, text: str, **options: Any) -> ImportResult:
    return read(text, source, ImportOptions(**options))


def source_fires(result: ImportResult, key: str, after: datetime, count: int = 3) -> list[str]:
    """In UTC, as the source means them."""
    pair = next(fires_of(one, count, after) for one in result.schedules if one.key == key)
    assert pair.source is not None
    return [f"{at:%m-%d %H:%M}" for at in pair.source]


def onbeat_fires(result: ImportResult, key: str, after: datetime, count: int = 3) -> list[str]:
    pair = next(fires_of(one, count, after) for one in result.schedules if one.key == key)
    return [f"{at:%m-%d %H:%M}" for at in pair.onbeat]
