"""Arithmetic with instants that stays within the range of `datetime`."""

from datetime import UTC, datetime, timedelta
from typing import Final

FIRST: Final = datetime.min.replace(tzinfo=UTC)
LAST: Final = datetime.max.replace(tzinfo=UTC)


def shifted(instant: datetime, by: timedelta) -> datetime:
    """`instant + by`, limited to the range of `datetime`."""
    try:
        return instant + by
    except OverflowError:
        return LAST if by > timedelta() else FIRST
