"""COUNT as an end of the rule, so that occurrences are counted once and not in every search.

A count that cannot be reached before the year 10000 is no limit. One that cannot be reached for
fifty years is left uncounted until somebody asks for times so far away.
"""

from onbeat.recurrence.budget import COMPILE_STEPS_MAX, Budget
from onbeat.recurrence.elapsed_rule import ElapsedGrid
from onbeat.recurrence.grid_count import nth_on_grid
from onbeat.recurrence.interval import LAST_US
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.zoned_rule import FAR, SECOND, ZonedWalls

COUNT_FAR = 50 * 366 * DAY
"""Seconds from the start within which the end is found when the rule is compiled."""


def limit_count(
    core: ZonedWalls | ElapsedGrid, count: int, budget: Budget
) -> "ZonedWalls | ElapsedGrid | FarEnd":
    """The rule with its first `count` occurrences only."""
    safe = safe_until(core, count) * SECOND
    if safe >= LAST_US:
        return core
    if safe - core.first * SECOND >= COUNT_FAR * SECOND:
        return FarEnd(core, count, safe)
    find_end(core, count, budget)
    return core


def safe_until(core: ZonedWalls | ElapsedGrid, count: int) -> int:
    """A second up to which there are at most `count` occurrences, whatever the rule leaves out."""
    if isinstance(core, ElapsedGrid):
        return core.first + (count // core.slots.most() - 2) * core.step
    return core.first + (count // len(core.walls.times) - 2) * DAY - FAR


def find_end(core: ZonedWalls | ElapsedGrid, count: int, budget: Budget) -> None:
    """End the rule with its occurrence number `count`."""
    if isinstance(core, ElapsedGrid):
        last = nth_on_grid(core, count, budget)
        core.last = core.last if last is None else min(core.last, last)
        return
    wall = core.walls.nth(count, budget)
    if wall is not None:
        core.walls.high = wall


class FarEnd:
    """A rule whose count is reached after the instant `safe`, in microseconds."""

    __slots__ = ("core", "count", "found", "safe")

    def __init__(self, core: ZonedWalls | ElapsedGrid, count: int, safe: int) -> None:
        self.core = core
        self.count = count
        self.safe = safe
        self.found = False

    def after_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        candidate = self.core.after_us(instant, budget)
        if candidate is None or candidate <= self.safe or self.found:
            return candidate
        self.find(budget)
        return self.core.after_us(instant, budget)

    def before_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        if instant > self.safe and not self.found:
            self.find(budget)
        return self.core.before_us(instant, budget)

    def find(self, budget: Budget | None) -> None:
        """Raises TooCostly. Threads that find the end at once find the same one."""
        find_end(self.core, self.count, Budget(COMPILE_STEPS_MAX, budget))
        self.found = True
