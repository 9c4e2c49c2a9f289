"""Windows: the times, by the clock on a wall, at which a job may start.

A wall clock that is turned back reads the times of a window twice, and it is open at both. A time
that a clock jumps over does not exist, so a window inside of it does not open on that day.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from onbeat.model.condition import Window
from onbeat.recurrence.instants import from_us, to_us
from onbeat.recurrence.zones import END, Zone, zone_named
from onbeat.rules.calendar import LAST

SECOND: Final = 1_000_000
MINUTE: Final = 60
DAY: Final = 24 * 60 * MINUTE
WEEK: Final = 7
THURSDAY: Final = 3
"""The weekday of 1970-01-01."""


def opening_at_or_after(windows: Sequence[Window], instant: datetime) -> datetime:
    """The first instant from `instant` on at which one of the windows is open, in UTC.

    Without windows that is `instant` itself. The last instant of `datetime` where none opens.
    """
    if not windows:
        return instant
    moment = to_us(instant)
    opening = min(opening_of(window, moment) for window in windows)
    if opening == moment:
        return instant
    return from_us(opening) if opening < to_us(LAST) else LAST.astimezone(UTC)


def opening_of(window: Window, moment: int) -> int:
    """The same for one window, in microseconds."""
    zone, last = zone_named(window.timezone), to_us(LAST)
    while moment < last:
        offset, change = offset_at(zone, moment)
        opening = opening_on_wall(window, moment + offset) - offset
        if opening < change:
            return opening
        # The clock is turned before the window opens.
        moment = change
    return last


def offset_at(zone: Zone, moment: int) -> tuple[int, int]:
    """The offset at `moment`, and when the next one begins, in microseconds."""
    segment = zone.segment(moment // SECOND)
    change = zone.starts[segment + 1]
    return zone.offsets[segment] * SECOND, min(change, END) * SECOND


def opening_on_wall(window: Window, wall: int) -> int:
    """The first time at or after `wall` in the window, on a clock that is never turned."""
    today = wall // (DAY * SECOND)
    for day in range(today - 1, today + WEEK + 1):
        if (day + THURSDAY) % WEEK not in window.days:
            continue
        start, end = bounds_on(window, day)
        if wall < end:
            return max(wall, start)
    raise AssertionError("a window opens every week")


def bounds_on(window: Window, day: int) -> tuple[int, int]:
    """When the window of this day opens and closes, on a clock that is never turned."""
    end = window.end if window.end > window.start else window.end + DAY // MINUTE
    midnight = day * DAY
    return (midnight + window.start * MINUTE) * SECOND, (midnight + end * MINUTE) * SECOND
