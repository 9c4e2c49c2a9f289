"""When a source fires: by the clock of a zone, by elapsed time, or once.

Written for comparison only, apart from `onbeat.recurrence`: it tries each day in turn.
"""

from calendar import monthrange
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from typing import Final, Literal
from zoneinfo import ZoneInfo

import msgspec

ALL_MONTHS: Final = frozenset(range(1, 13))
ALL_DAYS: Final = frozenset(range(1, 32))
ALL_WEEKDAYS: Final = frozenset(range(7))

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
SECOND: Final = timedelta(seconds=1)
STEPS_SEEN: Final = 5_000
"""Of a calendar interval, past those that are known to be over."""

DAYS_SEEN: Final = 41 * 366
"""Every combination of day and weekday comes within 40 years, or never."""

SourceGap = Literal["skip", "shift", "end"]
SourceFold = Literal["first", "both"]


class DayChoice(msgspec.Struct, frozen=True):
    """Days that a source selects. Weekdays count from Monday = 0, days before the end from -1.

    `near_days` are days whose nearest weekday is meant, 0 for the last of the month. With `either`
    a day of the month or of the week is enough. `weeks` are those of ISO 8601.
    """

    months: frozenset[int] = ALL_MONTHS
    month_days: frozenset[int] = ALL_DAYS
    weekdays: frozenset[int] = ALL_WEEKDAYS
    nth_weekdays: frozenset[tuple[int, int]] = frozenset()
    near_days: frozenset[int] = frozenset()
    weeks: frozenset[int] | None = None
    years: frozenset[int] | None = None
    either: bool = False

    def matches(self, day: date) -> bool:
        if day.month not in self.months or (self.years is not None and day.year not in self.years):
            return False
        if self.weeks is not None and day.isocalendar().week not in self.weeks:
            return False
        in_month, in_week = self.is_month_day(day), self.is_weekday(day)
        return (in_month or in_week) if self.either else (in_month and in_week)

    def is_month_day(self, day: date) -> bool:
        length = monthrange(day.year, day.month)[1]
        if day.day in self.month_days or day.day - length - 1 in self.month_days:
            return True
        return any(near_weekday(day, near, length) == day.day for near in self.near_days)

    def is_weekday(self, day: date) -> bool:
        if day.weekday() in self.weekdays:
            return True
        length = monthrange(day.year, day.month)[1]
        first, last = (day.day + 6) // 7, -((length - day.day) // 7) - 1
        return bool({(first, day.weekday()), (last, day.weekday())} & self.nth_weekdays)


def near_weekday(day: date, wanted: int, length: int) -> int | None:
    """The Monday to Friday nearest to that day of the same month."""
    if wanted > length:
        return None
    chosen = day.replace(day=wanted or length)
    if chosen.weekday() == 5:
        return chosen.day - 1 if chosen.day > 1 else chosen.day + 2
    if chosen.weekday() == 6:
        return chosen.day + 1 if chosen.day < length else chosen.day - 2
    return chosen.day


class WallRule(msgspec.Struct, frozen=True, kw_only=True):
    """Times by the clock of a zone; `gap` and `fold` say what becomes of changed clocks.

    `gap`: `shift` reads a missing time by the offset before the gap, `end` is its end. `fold`: a
    time that comes twice counts the `first` time, or `both`.
    """

    days: DayChoice
    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...] = (0,)
    zone: str = "UTC"
    gap: SourceGap = "skip"
    fold: SourceFold = "both"

    def take(self, count: int, after: datetime) -> list[datetime]:
        zone = ZoneInfo(self.zone)
        found: list[datetime] = []
        for day in self.days_from(after.astimezone(zone).date() - DAY):
            found += self.instants_on(day, zone, after, count - len(found))
            if len(found) >= count:
                break
        return sorted(set(found))[:count]

    def days_from(self, day: date) -> Iterator[date]:
        end = day + DAYS_SEEN * DAY if day.year < 9950 else date.max - DAY
        while day < end:
            if day.month not in self.days.months:
                day = (day.replace(day=28) + 4 * DAY).replace(day=1)
                continue
            if self.days.matches(day):
                yield day
            day += DAY

    def instants_on(
        self, day: date, zone: ZoneInfo, after: datetime, wanted: int
    ) -> list[datetime]:
        """The first `wanted` of that day; all of them on a day on which the clock changes."""
        calm = offset_at(day, zone) == offset_at(day + DAY, zone) == offset_at(day - DAY, zone)
        found: list[datetime] = []
        for hour in self.hours:
            begin = datetime(day.year, day.month, day.day, hour, tzinfo=zone)
            if calm and (len(found) >= wanted or begin.astimezone(UTC) + HOUR <= after):
                continue
            for minute in self.minutes:
                for second in self.seconds:
                    wall = begin.replace(minute=minute, second=second)
                    found += [one for one in self.instants_at(wall) if one > after]
        return found

    def instants_at(self, wall: datetime) -> list[datetime]:
        early, late = wall.astimezone(UTC), wall.replace(fold=1).astimezone(UTC)
        if early == late:
            return [early]
        if early < late:
            return [early] if self.fold == "first" else [early, late]
        if self.gap == "skip":
            return []
        return [early] if self.gap == "shift" else [end_of_gap(late, early, wall)]


def offset_at(day: date, zone: ZoneInfo) -> timedelta | None:
    return datetime(day.year, day.month, day.day, 12, tzinfo=zone).utcoffset()


def end_of_gap(low: datetime, high: datetime, wall: datetime) -> datetime:
    """The first instant after the gap, which lies between the two readings of a missing time."""
    zone = wall.tzinfo
    before = low.astimezone(zone).utcoffset()
    while high - low > SECOND:
        middle = low + (high - low) // 2
        if middle.astimezone(zone).utcoffset() == before:
            low = middle
        else:
            high = middle
    return high.replace(microsecond=0)


class ElapsedRule(msgspec.Struct, frozen=True, kw_only=True):
    """Every `span` of elapsed time from `start`, or from the query without one."""

    span: timedelta
    start: datetime | None = None
    includes_start: bool = False

    def take(self, count: int, after: datetime) -> list[datetime]:
        start = self.start or after
        number = max(0 if self.includes_start else 1, (after - start) // self.span + 1)
        return [start + (number + more) * self.span for more in range(count)]


class OneTimeRule(msgspec.Struct, frozen=True):
    at: datetime

    def take(self, count: int, after: datetime) -> list[datetime]:
        return [self.at][:count] if self.at > after else []


class BoundedRule(msgspec.Struct, frozen=True, kw_only=True):
    """Another rule from `start` until `end`, both inclusive."""

    rule: WallRule | ElapsedRule | OneTimeRule
    start: datetime | None = None
    end: datetime | None = None

    def take(self, count: int, after: datetime) -> list[datetime]:
        if self.start is not None and self.start > after:
            after = self.start - timedelta(microseconds=1)
        found = self.rule.take(count, after)
        return [one for one in found if self.end is None or one <= self.end]


class CalendarStepRule(msgspec.Struct, frozen=True, kw_only=True):
    """Every so many months, or days, from a first wall time on, with a zone.

    Days that a month lacks, and times in a gap, are left out; of times in a fold the first counts.
    """

    first: datetime
    months: int = 0
    days: int = 0
    end: datetime | None = None

    def take(self, count: int, after: datetime) -> list[datetime]:
        found: list[datetime] = []
        step = self.steps_before(after)
        for number in range(step, step + STEPS_SEEN):
            wall = self.wall_at(number)
            if wall is None or (self.end is not None and wall > self.end):
                if wall is not None:
                    break
                continue
            instant = wall.astimezone(UTC)
            is_real = instant.astimezone(wall.tzinfo).replace(tzinfo=None) == wall.replace(
                tzinfo=None
            )
            if is_real and instant > after:
                found.append(instant)
            if len(found) >= count:
                break
        return found

    def steps_before(self, after: datetime) -> int:
        """A number of steps that certainly do not pass `after`."""
        gone = (after - self.first).days
        return max(0, gone // (self.days or 31 * self.months) - 2)

    def wall_at(self, number: int) -> datetime | None:
        try:
            if self.days:
                return self.first + number * self.days * DAY
            year, month = divmod(self.first.month - 1 + number * self.months, 12)
            return self.first.replace(year=self.first.year + year, month=month + 1)
        except (ValueError, OverflowError):
            return None
