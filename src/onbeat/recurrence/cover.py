"""Whether EXRULEs leave out a whole RRULE, decided without a search.

The answer is yes only where it can be proved, part by part; no means that it is not known. All
rules of a block have the same start, and so the same grid, zone, and parts that they leave open.
"""

from collections.abc import Sequence

from onbeat.recurrence.budget import Budget
from onbeat.recurrence.choices import TIMES_LISTED_MAX, day_parts, days_of, easters, times_of
from onbeat.recurrence.day_masks import DayParts, YearlyDays, kind_mask
from onbeat.recurrence.elapsed_rule import UNITS
from onbeat.recurrence.rrule_text import RuleParts
from onbeat.recurrence.start import Start, last_instant
from onbeat.recurrence.tzif import DAY

KINDS_OF_YEAR = tuple((leap, weekday) for leap in (0, 1) for weekday in range(7))

HOURS, MINUTES, SECONDS = frozenset(range(24)), frozenset(range(60)), frozenset(range(60))

STEPS_A_RULE = 100
"""Searches of a plain rule that take as long as the days of a rule in all kinds of year."""


def left_of(
    rules: Sequence[RuleParts], excluded: Sequence[RuleParts], start: Start, budget: Budget
) -> Sequence[RuleParts]:
    """The rules without those that are known to be left out as a whole."""
    if not excluded:
        return rules
    return [rule for rule in rules if not covered(rule, excluded, start, budget)]


def covered(rule: RuleParts, excluded: Sequence[RuleParts], start: Start, budget: Budget) -> bool:
    """Whether every occurrence of `rule` is one of an EXRULE."""
    bare = unbounded(rule)
    if any(unbounded(other) == bare and ends_no_earlier(other, rule, start) for other in excluded):
        return True
    lasting = [
        comparable(plainer(unbounded(other)), bare)
        for other in excluded
        if other.count_max is None and ends_no_earlier(other, rule, start)
    ]
    # BYSETPOS of the rule only makes it have less.
    bare = bare._replace(by_position=())
    able = [other for other in lasting if other is not None and times_covered(other, bare, start)]
    if not able:
        return False
    if any(every_day(other) for other in able):
        return True
    budget.spend(STEPS_A_RULE * (1 + len(able)))
    return days_covered(able, bare, start)


def unbounded(parts: RuleParts) -> RuleParts:
    return parts._replace(count_max=None, until=None)


def plainer(parts: RuleParts) -> RuleParts:
    """The same rule without limits that let everything through: `SECONDLY;BYSECOND=0,1,…,59`.

    The seconds of every minute are every second, and those of the minutes of every hour likewise.
    """
    if parts.freq not in UNITS:
        return parts
    if {*parts.by_hour} >= HOURS:
        parts = parts._replace(by_hour=())
    if {*parts.by_minute} >= MINUTES:
        if parts.freq == "HOURLY" and parts.by_second and is_whole(parts):
            parts = parts._replace(freq="MINUTELY")
        if parts.freq != "HOURLY":
            parts = parts._replace(by_minute=())
    return with_whole_minutes(parts) if {*parts.by_second} >= SECONDS else parts


def with_whole_minutes(parts: RuleParts) -> RuleParts:
    if parts.freq == "MINUTELY" and is_whole(parts):
        parts = parts._replace(freq="SECONDLY")
    return parts._replace(by_second=()) if parts.freq == "SECONDLY" else parts


def is_whole(parts: RuleParts) -> bool:
    """Whether no period and nothing in one is left out by counting."""
    return parts.interval == 1 and not parts.by_position


def ends_no_earlier(other: RuleParts, rule: RuleParts, start: Start) -> bool:
    """For COUNT, only if both rules are otherwise equal."""
    if other.count_max is not None:
        return rule.count_max is not None and rule.count_max <= other.count_max
    if other.until is None:
        return True
    return rule.until is not None and last_instant(rule, start) <= last_instant(other, start)


def comparable(other: RuleParts, rule: RuleParts) -> RuleParts | None:
    """The EXRULE without BYSETPOS, if that leaves out as much of the rule; else None."""
    if not other.by_position:
        return other
    same = rule._replace(by_position=other.by_position) == other
    chosen = rule.by_position and set(rule.by_position) <= set(other.by_position)
    return other._replace(by_position=()) if same and chosen else None


def times_covered(other: RuleParts, rule: RuleParts, start: Start) -> bool:
    """Whether `other` has each occurrence of `rule`, provided that it has its day."""
    if start.date_only:
        other, rule = (p._replace(by_hour=(), by_minute=(), by_second=()) for p in (other, rule))
    if other.freq in UNITS:
        return on_grid(other, rule, start)
    if rule.freq in UNITS or not periods_covered(other, rule, start):
        return False
    clock = start.wall % DAY
    own = (clock // 3600, clock // 60 % 60, clock % 60)
    fields = zip(own, clock_fields(other), clock_fields(rule), strict=True)
    return all({*(rules or (at,))} <= {*(others or (at,))} for at, others, rules in fields)


def clock_fields(parts: RuleParts) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    return parts.by_hour, parts.by_minute, parts.by_second


def on_grid(other: RuleParts, rule: RuleParts, start: Start) -> bool:
    """`times_covered` by a rule of hours, minutes or seconds."""
    if rule.freq not in UNITS:
        return every_day(other) and on_grid_daily(other, rule, start)
    limits = zip(clock_fields(other), clock_fields(rule), strict=True)
    if not all(within(wanted, had) for wanted, had in limits):
        return False
    if other.freq == "SECONDLY" and other.interval == 1:
        return True
    if not expands(other) and not expands(rule):
        step, own_step = (p.interval * UNITS[p.freq] for p in (other, rule))
        return own_step % step == 0
    # Seconds inside a period are those of the start unless a part names them, so both rules name
    # them or both leave them open.
    open_alike = all(
        bool(wanted) == bool(had)
        for wanted, had in zip(clock_fields(other)[1:], clock_fields(rule)[1:], strict=True)
    )
    return other.freq == rule.freq and rule.interval % other.interval == 0 and open_alike


def expands(parts: RuleParts) -> bool:
    """Whether there can be several occurrences in a period."""
    return bool(
        (parts.by_minute and parts.freq == "HOURLY")
        or (parts.by_second and parts.freq != "SECONDLY")
    )


def on_grid_daily(other: RuleParts, rule: RuleParts, start: Start) -> bool:
    """Whether a rule of elapsed time without limits has all times of a longer one."""
    if any(clock_fields(other)):
        return False
    step = other.interval * UNITS[other.freq]
    if step == 1:
        return True
    times = times_of(rule, start)
    if not start.zone.is_fixed or DAY % step or len(times) > TIMES_LISTED_MAX:
        return False
    return all((time - start.wall) % step == 0 for time in times)


def within(wanted: Sequence[int], had: Sequence[int]) -> bool:
    """Whether a limit, which is none if empty, lets through all that another does."""
    return not wanted or (bool(had) and set(had) <= set(wanted))


def periods_covered(other: RuleParts, rule: RuleParts, start: Start) -> bool:
    """Whether the years, months, weeks or days of `rule` by INTERVAL are among those of `other`.

    Includes BYWEEKNO, whose weeks belong to years.
    """
    theirs, ours = days_of(other, start.wall), days_of(rule, start.wall)
    if isinstance(ours, YearlyDays) and ours.moved:
        return False
    weeks, own_weeks = theirs.parts.weeks, ours.parts.weeks
    if weeks and not (
        within(tuple(weeks), tuple(own_weeks)) and rule.week_start == other.week_start
    ):
        return False
    if other.interval == 1:
        return True
    # A day moved by SKIP can leave its month.
    moves = other.skip != "OMIT" or rule.skip != "OMIT"
    aligned = other.freq == rule.freq and theirs.first == ours.first
    return aligned and rule.interval % other.interval == 0 and not moves


def every_day(other: RuleParts) -> bool:
    """Whether `other` has no part about days, so that its days need no comparison."""
    parts = (
        other.by_month, other.by_week, other.by_year_day, other.by_month_day, other.by_day,
        other.by_easter,
    )  # fmt: skip
    return not any(parts) and (other.freq in UNITS or other.freq == "DAILY")


def days_covered(others: Sequence[RuleParts], rule: RuleParts, start: Start) -> bool:
    """Whether each day of `rule`, in any kind of year, is a day of one of the others."""
    ours = chosen_days(rule, start)
    theirs = [chosen_days(other, start) for other in others]
    able = [parts for parts in theirs if within(tuple(parts.easter), tuple(ours.easter))]
    for kind in KINDS_OF_YEAR:
        left = days_of_kind(ours, *kind) & easters(ours.easter, *kind)
        for parts in able:
            left &= ~days_of_kind(parts, *kind)
        if left:
            return False
    return True


def chosen_days(parts: RuleParts, start: Start) -> DayParts:
    return day_parts(parts, None if parts.freq in UNITS else start.wall // DAY)


def days_of_kind(parts: DayParts, leap: int, weekday: int) -> int:
    return kind_mask(parts, leap, weekday, parts.months)
