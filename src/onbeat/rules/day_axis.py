"""The axis of a timeline: instants from the start of a day in a zone, never wall times.

So a day has 23 or 25 hours where the clock is turned, and every hour has the same width.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import Final

import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.timeline import ClockChange, TimelineSpan
from onbeat.recurrence.instants import EPOCH, from_us, to_us
from onbeat.recurrence.zones import Zone

HOUR: Final = timedelta(hours=1)
LENGTHS: Final = {TimelineSpan.HOURS: 0, TimelineSpan.DAY: 1, TimelineSpan.WEEK: 7}
"""Days from midnight to midnight; six hours are not of a calendar."""
WIDTHS: Final = {
    TimelineSpan.HOURS: timedelta(seconds=150),
    TimelineSpan.DAY: timedelta(minutes=10),
    TimelineSpan.WEEK: HOUR,
}
"""How much time one bucket has."""
DAYS_BEFORE: Final = 3
"""Where a week begins that is not asked for by its day: now is in its middle."""
FIRST_YEAR: Final = 1900
LAST_YEAR: Final = 9990
SECOND: Final = 1_000_000
AXES_KEPT: Final = 8
"""Axes whose edges are kept: each request has one of its own."""


class DayAxis(msgspec.Struct, frozen=True, kw_only=True):
    """From `first` to just before `last`, in buckets of `width`."""

    first: datetime
    last: datetime
    now: datetime
    width: timedelta

    def edges(self) -> Sequence[datetime]:
        """The bounds of the buckets. Now is one of them, so that no bucket crosses it."""
        return edges_of(self)

    def edges_in_us(self) -> Sequence[int]:
        """The same in microseconds since 1970."""
        return edges_in_us_of(self)

    def clipped(self, at: datetime) -> datetime:
        return min(max(at, self.first), self.last)


@lru_cache(maxsize=AXES_KEPT)
def edges_of(axis: DayAxis) -> Sequence[datetime]:
    """Of one axis for all of its lanes."""
    count = -((axis.first - axis.last) // axis.width)
    marks = {axis.first + number * axis.width for number in range(count)}
    if axis.first < axis.now < axis.last:
        marks.add(axis.now)
    return (*sorted(marks), axis.last)


@lru_cache(maxsize=AXES_KEPT)
def edges_in_us_of(axis: DayAxis) -> Sequence[int]:
    return tuple(map(to_us, edges_of(axis)))


def axis_of(
    span: TimelineSpan, start: date | datetime | None, zone: Zone, now: datetime
) -> DayAxis:
    """The axis of a day of the zone, or of the day of an instant, or from that instant on.

    None stands for around now; for a day that the zone left out it is the one after. Raises
    `Invalid` for a day that is too far away.
    """
    first = first_of(span, start, zone, now)
    last = first + 6 * HOUR
    if LENGTHS[span]:
        last = midnight(day_of(first, zone) + timedelta(days=LENGTHS[span]), zone)
    return DayAxis(first=first, last=last, now=now, width=WIDTHS[span])


def first_of(
    span: TimelineSpan, start: date | datetime | None, zone: Zone, now: datetime
) -> datetime:
    if isinstance(start, datetime):
        check_year(start.year)
        at = start.astimezone(UTC)
        return at if span is TimelineSpan.HOURS else midnight(day_of(at, zone), zone)
    if start is not None:
        check_year(start.year)
        return midnight(start, zone)
    if span is TimelineSpan.HOURS:
        return whole_hour(now) - 3 * HOUR
    today = day_of(now, zone)
    back = DAYS_BEFORE if span is TimelineSpan.WEEK else 0
    return midnight(today - timedelta(days=back), zone)


def check_year(year: int) -> None:
    if not FIRST_YEAR <= year <= LAST_YEAR:
        raise Invalid(f"day must be from the years {FIRST_YEAR} to {LAST_YEAR}", "day")


def whole_hour(at: datetime) -> datetime:
    return at.replace(minute=0, second=0, microsecond=0)


def midnight(day: date, zone: Zone) -> datetime:
    """The first instant of the day, which is later than 00:00 where a clock jumps over that."""
    return instant_of(datetime(day.year, day.month, day.day, tzinfo=UTC), zone)


def instant_of(wall: datetime, zone: Zone) -> datetime:
    """The first instant at which clocks show `wall`, written as if it were UTC."""
    seconds, rest = divmod(to_us(wall), SECOND)
    return from_us(zone.instants(seconds, "end", "first")[0] * SECOND + rest)


def wall_of(at: datetime, zone: Zone) -> datetime:
    """What clocks show, written as if it were UTC."""
    return at + timedelta(seconds=zone.offset((at - EPOCH) // timedelta(seconds=1)))


def day_of(at: datetime, zone: Zone) -> date:
    return wall_of(at, zone).date()


def clock_changes(axis: DayAxis, zone: Zone) -> list[ClockChange]:
    """Where the clock is turned within the axis, in order."""
    result: list[ClockChange] = []
    segment = zone.segment(to_us(axis.first) // SECOND)
    end = to_us(axis.last) // SECOND
    while zone.starts[segment + 1] < end:
        segment += 1
        at = from_us(zone.starts[segment] * SECOND)
        before, after = zone.offsets[segment - 1], zone.offsets[segment]
        result.append(
            ClockChange(
                at=at,
                before=at + timedelta(seconds=before),
                after=at + timedelta(seconds=after),
            )
        )
    return result
