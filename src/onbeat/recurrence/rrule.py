"""Compiles an RRULE, or an iCalendar block, to an engine that computes instants."""

from collections.abc import Iterable

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.budget import Budget
from onbeat.recurrence.choices import day_parts, days_of, times_of
from onbeat.recurrence.counted import limit_count
from onbeat.recurrence.cover import left_of
from onbeat.recurrence.day_masks import DailyDays, RuleYears
from onbeat.recurrence.elapsed_rule import UNITS, ClockLimit, ClockLimits, ElapsedGrid, Slots
from onbeat.recurrence.interval import LAST_US
from onbeat.recurrence.rrule_text import Block, Moment, RuleParts
from onbeat.recurrence.sets import Core, Dates, Excluding, Union
from onbeat.recurrence.start import Start, last_instant
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.wall_clock import DayWalls, PositionWalls, Walls, chosen_indexes
from onbeat.recurrence.year_masks import DAY_MIN
from onbeat.recurrence.zoned_rule import SECOND, ZonedWalls
from onbeat.recurrence.zones import zone_named


def block_zone(block: Block, zone: str | None) -> str | None:
    """The zone of the rules: that of DTSTART, else `zone`."""
    if block.start is None:
        return zone
    if block.start.form == "utc":
        return None
    return block.start.zone or zone


def named_zones(block: Block) -> set[str]:
    """The zones that the text names."""
    moments = [*block.dates, *block.excluded_dates, *([block.start] if block.start else [])]
    return {moment.zone for moment in moments if moment.zone is not None}


def block_core(block: Block, start: Start, budget: Budget) -> Core:
    """All lines combined. Raises BadRecurrence for a block that can never fire."""
    rules = left_of(block.rules, block.excluded_rules, start, budget)
    included: list[Core] = [rule_core(parts, start, budget) for parts in rules]
    dates = instants_of(block.dates, start)
    if not block.rules:
        # Without a rule DTSTART is the first of the dates.
        dates += instants_of([block.start], start) if block.start else []
    if dates:
        included.append(Dates(dates))
    if not included:
        raise BadRecurrence("this can never fire: EXRULE leaves out all that RRULE has")
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
    return core if parts.count_max is None else limit_count(core, parts.count_max, budget)


def wall_core(parts: RuleParts, start: Start) -> ZonedWalls:
    return ZonedWalls(walls_of(parts, start), start.zone, start.dst, start.first)


def walls_of(parts: RuleParts, start: Start) -> Walls:
    days = days_of(parts, start.wall)
    times = times_of(parts, start)
    if parts.by_position and parts.freq == "DAILY":
        # The times are the same on every day, and so are the positions among them.
        times = tuple(times[index] for index in chosen_indexes(parts.by_position, len(times)))
        if not times:
            raise BadRecurrence("never: BYSETPOS is beyond what there is to choose from")
    elif parts.by_position:
        return PositionWalls(days, times, parts.by_position, start.low)
    return DayWalls(RuleYears(days), times, start.low)


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
    by_days = (parts.by_month, parts.by_year_day, parts.by_month_day, parts.by_day, parts.by_easter)
    if any(by_days):
        days = DailyDays(day_parts(parts, None), 1, 0)
        first = min(parts.by_hour, default=0) * 3600
        return ClockLimit(DayWalls(RuleYears(days), (first,)), limits)
    return ClockLimit(None, limits) if limits != ClockLimits() else None


def bits_of(values: tuple[int, ...]) -> int | None:
    return sum(1 << value for value in values) if values else None
