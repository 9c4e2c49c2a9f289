"""Days and times of an RRULE, with what it leaves open taken from its start."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import overload

from onbeat.recurrence import year_masks
from onbeat.recurrence.day_masks import (
    DailyDays,
    DayParts,
    MonthlyDays,
    RuleDays,
    WeeklyDays,
    YearlyDays,
    kind_mask,
)
from onbeat.recurrence.easter import EASTERS, easter_mask
from onbeat.recurrence.rrule_text import RuleParts
from onbeat.recurrence.start import Start
from onbeat.recurrence.tzif import DAY

SUNDAY = 6

TIMES_LISTED_MAX = 1440
"""Times of day that are stored as a list; longer lists are computed on demand to save memory."""


def days_of(parts: RuleParts, wall: int) -> RuleDays:
    """The days, with the parts that the rule leaves open taken from the start."""
    day = wall // DAY
    chosen = day_parts(parts, day)
    match parts.freq:
        case "YEARLY":
            return YearlyDays(chosen, parts.interval, year_masks.year_of(day))
        case "MONTHLY":
            year, month, _ = year_masks.month_of(day)
            return MonthlyDays(chosen, parts.interval, 12 * year + month - 1)
        case "WEEKLY":
            into_week = (year_masks.weekday_of(day) - parts.week_start) % 7
            return WeeklyDays(chosen, parts.interval, day - into_week)
        case "DAILY":
            return DailyDays(chosen, parts.interval, day)
        case _:
            return DailyDays(chosen, 1, day)


def day_parts(parts: RuleParts, day: int | None) -> DayParts:
    """The parts that select days; without `day`, only those of the rule itself."""
    written = DayParts(
        months=frozenset(parts.by_month),
        weeks=frozenset(parts.by_week),
        year_days=year_days_of(parts),
        month_days=frozenset(parts.by_month_day),
        weekdays=frozenset(weekday for n, weekday in parts.by_day if not n),
        nth_weekdays=frozenset((n, weekday) for n, weekday in parts.by_day if n),
        nth_of_month=parts.freq != "YEARLY" or bool(parts.by_month),
        week_start=parts.week_start,
        skip=parts.skip,
        easter=frozenset(parts.by_easter),
    )
    return written if day is None else fill_from_start(parts, written, day)


def fill_from_start(parts: RuleParts, written: DayParts, day: int) -> DayParts:
    _, month, month_day = year_masks.month_of(day)
    by_days = (parts.by_week, parts.by_year_day, parts.by_month_day, parts.by_day, parts.by_easter)
    chosen = any(by_days)
    if parts.freq == "WEEKLY" and not chosen:
        return written._replace(weekdays=frozenset({year_masks.weekday_of(day)}))
    if parts.freq not in {"YEARLY", "MONTHLY"} or chosen:
        return written
    if parts.freq == "YEARLY" and not parts.by_month:
        written = written._replace(months=frozenset({month}))
    return written._replace(month_days=frozenset({month_day}))


def year_days_of(parts: RuleParts) -> frozenset[int]:
    """BYYEARDAY. With SKIP, a day that moves within its year is that year's last or first day."""
    days = frozenset(parts.by_year_day)
    if parts.freq != "YEARLY" or parts.by_week or parts.by_month_day:
        return days
    missing, becomes = {"OMIT": (0, 0), "BACKWARD": (366, -1), "FORWARD": (-366, 1)}[parts.skip]
    return days - {missing} | {becomes} if missing in days else days


def has_days(parts: RuleParts) -> bool:
    """Whether any kind of year has a day that the rule selects, whatever its start."""
    chosen = day_parts(parts, None)
    return any(
        kind_mask(chosen, leap, weekday, chosen.months) & easters(chosen.easter, leap, weekday)
        for leap in (0, 1)
        for weekday in range(7)
    )


def easters(offsets: frozenset[int], leap: int, weekday: int) -> int:
    """All that can be these days after Easter in years of a kind; every day without any."""
    if not offsets:
        return -1
    mask = 0
    for index in range(*EASTERS[leap]):
        if (weekday + index) % 7 == SUNDAY:
            mask |= easter_mask(index, offsets)
    return mask


def times_of(parts: RuleParts, start: Start) -> Sequence[int]:
    """Seconds of the day; only midnight if the rule starts on a DATE."""
    if start.date_only:
        return (0,)
    clock = start.wall % DAY
    return clock_times(
        parts.by_hour or (clock // 3600,),
        parts.by_minute or (clock // 60 % 60,),
        parts.by_second or (clock % 60,),
    )


@lru_cache(maxsize=1000)
def clock_times(
    hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]
) -> Sequence[int]:
    if prod(map(len, (hours, minutes, seconds))) > TIMES_LISTED_MAX:
        return ClockTimes(hours, minutes, seconds)
    return tuple(h * 3600 + m * 60 + s for h in hours for m in minutes for s in seconds)


class ClockTimes(Sequence[int]):
    """Every hour with every minute with every second, in order, without storing a list."""

    __slots__ = ("hours", "minutes", "seconds")

    def __init__(
        self, hours: tuple[int, ...], minutes: tuple[int, ...], seconds: tuple[int, ...]
    ) -> None:
        self.hours = hours
        self.minutes = minutes
        self.seconds = seconds

    def __len__(self) -> int:
        return len(self.hours) * len(self.minutes) * len(self.seconds)

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...
    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        size = len(self)
        if not -size <= index < size:
            raise IndexError(index)
        rest, second = divmod(index % size, len(self.seconds))
        hour, minute = divmod(rest, len(self.minutes))
        return self.hours[hour] * 3600 + self.minutes[minute] * 60 + self.seconds[second]
