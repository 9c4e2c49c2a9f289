"""Compiles an RRULE, or an iCalendar block, to an engine that computes instants."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod
from typing import NamedTuple, overload

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence import year_masks
from onbeat.recurrence.budget import Budget
from onbeat.recurrence.day_masks import (
    DailyDays,
    DayParts,
    MonthlyDays,
    RuleDays,
    RuleYears,
    WeeklyDays,
    YearlyDays,
    kind_mask,
)
from onbeat.recurrence.elapsed_rule import ClockLimit, ClockLimits, ElapsedGrid, Slots
from onbeat.recurrence.interval import LAST_US
from onbeat.recurrence.rrule_text import Block, Moment, RuleParts
from onbeat.recurrence.sets import Core, Dates, Excluding, Union
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.wall_clock import WALL_MAX, DayWalls, PositionWalls, Walls
from onbeat.recurrence.year_masks import DAY_MIN
from onbeat.recurrence.zoned_rule import INSTANT_MAX, SECOND, DstRule, ZonedWalls
from onbeat.recurrence.zones import DstFold, Zone, zone_named

TIMES_LISTED_MAX = 1440
"""Times of day that are stored as a list; longer lists are computed on demand to save memory."""

UNITS = {"HOURLY": 3600, "MINUTELY": 60, "SECONDLY": 1}


class Start(NamedTuple):
    """The start of a rule: instant and wall-clock time in seconds.

    `counts` is false for a reference point, which is no occurrence even if it matches the rule.
    """

    instant: int
    wall: int
    zone: Zone
    dst: DstRule
    date_only: bool = False
    counts: bool = True

    @property
    def first(self) -> int:
        """The first instant that may be an occurrence."""
        return self.instant if self.counts else self.instant + 1

    @property
    def low(self) -> int:
        """The first wall second that may be an occurrence."""
        segment = self.zone.segment(self.instant)
        before = self.zone.offsets[max(segment - 1, 0)]
        fold_end = self.zone.starts[segment] + before
        if (
            self.wall < fold_end
            and self.dst.fold == "first"
            and before > self.zone.offsets[segment]
        ):
            # The rule begins in the second pass of a fold, whose wall times all ran in the first.
            return fold_end
        return self.wall if self.counts else self.wall + 1


def start_at(moment: Moment, zone: Zone, dst: DstRule) -> Start:
    """DTSTART as the instant that its own occurrence would have.

    In a gap that is by the offset before it, even if the occurrence itself is skipped, or the end
    of the gap; in a fold it is the pass in which the rule runs.
    """
    fold: DstFold = "last" if dst.fold == "last" else "first"
    instant = zone.instants(moment.wall, "end" if dst.gap == "end" else "shift", fold)[0]
    return Start(instant, moment.wall, zone, dst, moment.form == "date")


def start_anchored(instant: int, zone: Zone, dst: DstRule, *, counts: bool) -> Start:
    wall = instant + zone.offset(instant)
    if not DAY_MIN * DAY <= wall <= WALL_MAX:
        raise BadRecurrence("it would begin outside the years 1 to 9999 of its time zone")
    return Start(instant, wall, zone, dst, counts=counts)


def block_zone(block: Block, zone: str | None) -> str | None:
    """The zone of the rules: that of DTSTART, else `zone`."""
    if block.start is None:
        return zone
    if block.start.form == "utc":
        return None
    return block.start.zone or zone


def block_core(block: Block, start: Start, budget: Budget) -> Core:
    """All lines combined. Raises BadRecurrence for a block that can never fire."""
    included: list[Core] = [rule_core(parts, start, budget) for parts in block.rules]
    dates = instants_of(block.dates, start)
    if not block.rules:
        # Without a rule DTSTART is the first of the dates.
        dates += instants_of([block.start], start) if block.start else []
    if dates:
        included.append(Dates(dates))
    core = included[0] if len(included) == 1 else Union(included)
    excluded: list[Core] = [rule_core(parts, start, budget) for parts in block.excluded_rules]
    if block.excluded_dates:
        excluded.append(Dates(instants_of(block.excluded_dates, start)))
    if excluded:
        core = Excluding(core, excluded[0] if len(excluded) == 1 else Union(excluded))
    return core


def instants_of(moments: Iterable[Moment], start: Start) -> list[int]:
    """The instants in microseconds."""
    candidates: list[int] = []
    for moment in moments:
        zone = start.zone if moment.zone is None else zone_named(moment.zone)
        if moment.form == "utc":
            candidates.append(moment.wall * SECOND)
        else:
            instants = zone.instants(moment.wall, start.dst.gap, start.dst.fold)
            candidates += [instant * SECOND for instant in instants]
    # In UTC a date of a zone can lie in the year 0 or 10000, which `datetime` cannot express.
    return [instant for instant in candidates if DAY_MIN * DAY * SECOND <= instant <= LAST_US]


def rule_core(parts: RuleParts, start: Start, budget: Budget) -> Core:
    core = elapsed_core(parts, start) if parts.freq in UNITS else wall_core(parts, start)
    core.last = last_instant(parts, start)
    if parts.count_max is not None:
        limit_count(core, parts.count_max, budget)
    return core


def last_instant(parts: RuleParts, start: Start) -> int:
    """UNTIL as an instant; includes the whole of a date, and both passes of a repeated time."""
    until = parts.until
    if until is None:
        return INSTANT_MAX
    if until.form == "utc":
        return min(until.wall, INSTANT_MAX)
    wall = until.wall + (DAY - 1 if until.form == "date" else 0)
    return min(start.zone.instants(wall, "shift", "last")[0], INSTANT_MAX)


def limit_count(core: ZonedWalls | ElapsedGrid, count: int, budget: Budget) -> None:
    """Converts COUNT to an end, so that occurrences are counted only once."""
    if isinstance(core, ElapsedGrid):
        last = core.nth(count, budget)
        core.last = core.last if last is None else min(core.last, last)
        return
    wall = core.walls.nth(count, budget)
    if wall is not None:
        core.walls.high = wall


def wall_core(parts: RuleParts, start: Start) -> ZonedWalls:
    return ZonedWalls(walls_of(parts, start), start.zone, start.dst, start.first)


def walls_of(parts: RuleParts, start: Start) -> Walls:
    days = days_of(parts, start.wall)
    times = times_of(parts, start)
    if parts.by_position:
        return PositionWalls(days, times, parts.by_position, start.low)
    return DayWalls(RuleYears(days), times, start.low)


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
        year_days=frozenset(parts.by_year_day),
        month_days=frozenset(parts.by_month_day),
        weekdays=frozenset(weekday for n, weekday in parts.by_day if not n),
        nth_weekdays=frozenset((n, weekday) for n, weekday in parts.by_day if n),
        nth_of_month=parts.freq != "YEARLY" or bool(parts.by_month),
        week_start=parts.week_start,
        skip=parts.skip,
    )
    return written if day is None else fill_from_start(parts, written, day)


def fill_from_start(parts: RuleParts, written: DayParts, day: int) -> DayParts:
    _, month, month_day = year_masks.month_of(day)
    chosen = parts.by_week or parts.by_year_day or parts.by_month_day or parts.by_day
    if parts.freq == "WEEKLY" and not chosen:
        return written._replace(weekdays=frozenset({year_masks.weekday_of(day)}))
    if parts.freq not in {"YEARLY", "MONTHLY"} or chosen:
        return written
    if parts.freq == "YEARLY" and not parts.by_month:
        written = written._replace(months=frozenset({month}))
    return written._replace(month_days=frozenset({month_day}))


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


def elapsed_core(parts: RuleParts, start: Start) -> ElapsedGrid:
    if start.date_only:
        parts = parts._replace(by_hour=(), by_minute=(), by_second=())
    unit = UNITS[parts.freq]
    slots = Slots(
        unit,
        start.wall % unit,
        minutes=parts.by_minute if unit == 3600 else (),
        seconds=parts.by_second if unit > 1 else (),
        positions=parts.by_position,
    )
    if not slots.at_shift(0):
        raise BadRecurrence("never: BYSETPOS is beyond what there is to choose from")
    grid = ElapsedGrid(start.instant, parts.interval, slots, clock_limit(parts, unit), start.zone)
    grid.first = max(grid.first, start.first)
    return grid


def clock_limit(parts: RuleParts, unit: int) -> ClockLimit | None:
    limits = ClockLimits(
        bits_of(parts.by_hour),
        bits_of(parts.by_minute) if unit < 3600 else None,
        bits_of(parts.by_second) if unit == 1 else None,
    )
    if parts.by_month or parts.by_year_day or parts.by_month_day or parts.by_day:
        days = DailyDays(day_parts(parts, None), 1, 0)
        first = min(parts.by_hour, default=0) * 3600
        return ClockLimit(DayWalls(RuleYears(days), (first,)), limits)
    return ClockLimit(None, limits) if limits != ClockLimits() else None


def bits_of(values: tuple[int, ...]) -> int | None:
    return sum(1 << value for value in values) if values else None


def has_days(parts: RuleParts) -> bool:
    """Whether any kind of year has a day that the rule selects, whatever its start."""
    chosen = day_parts(parts, None)
    return any(
        kind_mask(chosen, leap, weekday, chosen.months) for leap in (0, 1) for weekday in range(7)
    )
