"""Counting the occurrences of a rule in a short span by arithmetic, where it has many of them."""

from bisect import bisect_right
from typing import Final

from onbeat.recurrence.budget import Budget
from onbeat.recurrence.counted import FarEnd
from onbeat.recurrence.elapsed_rule import ElapsedGrid
from onbeat.recurrence.interval import LAST_US, Interval
from onbeat.recurrence.sets import Core
from onbeat.recurrence.wall_clock import DayWalls
from onbeat.recurrence.zoned_rule import SECOND, ZonedWalls

HOUR: Final = 3600
HOURS_A_DAY: Final = 24

STEPS_A_COUNT: Final = 2
"""Searches of a rule that take as long as one count."""


def is_dense(core: Core) -> bool:
    """Whether it can be counted, and has more than one occurrence an hour."""
    match core:
        case Interval():
            return core.period < HOUR * SECOND
        case ElapsedGrid():
            return is_plain(core) and core.step < HOUR
        case ZonedWalls():
            return isinstance(core.walls, DayWalls) and len(core.walls.times) > HOURS_A_DAY
        case FarEnd():
            return is_dense(core.core)
        case _:
            return False


def is_plain(grid: ElapsedGrid) -> bool:
    """Whether the clock chooses nothing: each step of the grid is an occurrence."""
    return grid.limit is None and not grid.slots.minutes and not grid.slots.seconds


def count_in_span(core: Core, first: int, last: int, budget: Budget | None) -> int | None:
    """Occurrences from `first` until before `last`, in microseconds, of a dense rule.

    None where they have to be visited, as near a change of the clock.
    """
    if budget is not None:
        budget.spend(STEPS_A_COUNT)
    match core:
        case Interval():
            return count_interval(core, first, last)
        case ElapsedGrid() if is_plain(core):
            return count_grid(core, -(-first // SECOND), -(-last // SECOND))
        case ZonedWalls():
            return count_walls(core, -(-first // SECOND), -(-last // SECOND))
        case FarEnd() if core.found or last <= core.safe:
            return count_in_span(core.core, first, last, None)
        case _:
            return None


def count_interval(interval: Interval, first: int, last: int) -> int:
    low = max(-((interval.start - first) // interval.period), interval.first)
    return max(0, -((interval.start - min(last, LAST_US + 1)) // interval.period) - low)


def count_grid(grid: ElapsedGrid, first: int, last: int) -> int:
    low, high = max(first, grid.first), min(last, grid.last + 1)
    start = grid.base + grid.slots.own
    return max(0, -((start - high) // grid.step) + (start - low) // grid.step)


def count_walls(rule: ZonedWalls, first: int, last: int) -> int | None:
    walls, zone = rule.walls, rule.zone
    low, high = max(first, rule.first), min(last, rule.last + 1)
    if low >= high:
        return 0
    segment = bisect_right(zone.starts, low) - 1
    is_calm = zone.calm_from[segment] <= low and high <= zone.calm_until[segment]
    if not is_calm or not isinstance(walls, DayWalls):
        return None
    offset = zone.offsets[segment]
    begin, end = max(low + offset, walls.low), min(high + offset, walls.high + 1)
    return walls.count(begin, end) if begin < end else 0
