"""Compiles a cron expression to an engine that computes instants."""

from bisect import bisect_left, bisect_right
from functools import lru_cache

from onbeat.recurrence import year_masks
from onbeat.recurrence.choices import clock_times
from onbeat.recurrence.cron_text import CronParts
from onbeat.recurrence.wall_clock import DayWalls
from onbeat.recurrence.year_masks import MONTH_LENGTHS, MONTH_STARTS, YEAR_MAX
from onbeat.recurrence.zoned_rule import REAL_TIME, ZonedWalls, cron_rule
from onbeat.recurrence.zones import DstFold, DstGap, Zone


def cron_core(parts: CronParts, zone: Zone, gap: DstGap, fold: DstFold) -> ZonedWalls:
    walls = DayWalls(CronDays(parts), clock_times(parts.hours, parts.minutes, parts.seconds))
    rule = REAL_TIME if parts.real_time else cron_rule(gap, fold)
    return ZonedWalls(walls, zone, rule)


class CronDays:
    """The days that an expression selects, by year."""

    __slots__ = ("parts", "shape", "years")

    def __init__(self, parts: CronParts) -> None:
        self.parts = parts
        self.years = sorted(parts.years)
        # Expressions that differ only in the time of day share their masks.
        self.shape = parts._replace(seconds=(), minutes=(), hours=(), years=frozenset())

    def mask(self, year: int) -> int:
        if self.parts.years and year not in self.parts.years:
            return 0
        return cron_mask(self.shape, *year_masks.year_kind(year))

    def next_year(self, year: int) -> int:
        if not self.parts.years:
            return year + 1
        at = bisect_right(self.years, year)
        return self.years[at] if at < len(self.years) else YEAR_MAX + 1

    def previous_year(self, year: int) -> int:
        if not self.parts.years:
            return year - 1
        at = bisect_left(self.years, year)
        return self.years[at - 1] if at else 0


@lru_cache(maxsize=20_000)
def cron_mask(parts: CronParts, leap: int, first_weekday: int) -> int:
    days = month_days_mask(parts, leap, first_weekday)
    weekdays = year_masks.weekdays_mask(first_weekday, parts.weekdays) if parts.weekdays else 0
    if parts.nth_weekdays:
        for start, length in zip(MONTH_STARTS[leap], MONTH_LENGTHS[leap], strict=False):
            weekdays |= year_masks.nth_weekdays_mask(
                first_weekday, start, length, parts.nth_weekdays
            )
    both = days | weekdays if parts.either_day else days & weekdays
    return both & year_masks.months_mask(leap, parts.months) & year_masks.WHOLE_YEAR[leap]


def month_days_mask(parts: CronParts, leap: int, first_weekday: int) -> int:
    mask = year_masks.month_days_mask(leap, parts.month_days) if parts.month_days else 0
    if parts.last_days:
        mask |= year_masks.month_days_mask(leap, frozenset(-1 - back for back in parts.last_days))
    for start, length in zip(MONTH_STARTS[leap], MONTH_LENGTHS[leap], strict=False):
        for day in parts.near_days:
            if day <= length:
                weekday = (first_weekday + start) % 7
                mask |= 1 << (start + nearest_weekday(day or length, length, weekday) - 1)
    return mask


def nearest_weekday(day: int, length: int, first_weekday: int) -> int:
    """The Monday to Friday nearest to `day` in a month that begins on `first_weekday`."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 5:
        return day - 1 if day > 1 else day + 2
    if weekday == 6:
        return day + 1 if day < length else day - 2
    return day
