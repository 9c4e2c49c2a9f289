"""Zones that sources name."""

from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from onbeat.recurrence.zones import doubt_of

UTC_NAMES: Final = frozenset({"UTC", "Etc/UTC", "GMT", "Etc/GMT", "Z"})


@lru_cache(maxsize=1_000)
def is_zone(name: str) -> bool:
    """Whether the machine knows an IANA zone of that name, which a rule may have."""
    try:
        ZoneInfo(name)
    except (ValueError, OSError, KeyError):
        return False
    return doubt_of(name) is None


def has_changes(name: str | None) -> bool:
    """Whether clocks may change there; UTC is the only zone without."""
    return name is not None and name not in UTC_NAMES
