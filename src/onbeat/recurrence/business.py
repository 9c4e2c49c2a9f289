"""Business days: skips occurrences on weekends and holidays, or moves them to another day."""

from bisect import bisect_right
from datetime import date
from typing import Literal

from onbeat.model.errors import BadRecurrence
from onbeat.recurrence.budget import SEARCH_STEPS_MAX, Budget
from onbeat.recurrence.sets import Core
from onbeat.recurrence.spec import CalendarSpec, Roll
from onbeat.recurrence.tzif import DAY, EPOCH_ORDINAL
from onbeat.recurrence.year_masks import month_of, weekday_of
from onbeat.recurrence.zones import Zone

SECOND = 1_000_000
DAYS_OF_WEEK = 7
STEPS_TO_MOVE = 4
"""The cost of finding an occurrence and the day it moves to, in searches of a plain rule."""


class BusinessDays:
    """Day numbers of business days.

    `firsts` and `lasts` bound the days with holidays that are closed one after another.
    """

    __slots__ = ("firsts", "holidays", "lasts", "weekend")

    def __init__(self, calendar: CalendarSpec) -> None:
        self.weekend = frozenset(calendar.weekend)
        self.holidays = frozenset(
            date.fromisoformat(day).toordinal() - EPOCH_ORDINAL for day in calendar.holidays
        )
        if len(self.weekend) >= DAYS_OF_WEEK:
            raise BadRecurrence("every weekday is weekend; leave one for business")
        self.firsts: list[int] = []
        self.lasts: list[int] = []
        for day in sorted(self.holidays):
            if not self.lasts or day > self.lasts[-1]:
                self.firsts.append(self.walk(day, -1) + 1)
                self.lasts.append(self.walk(day, 1) - 1)

    def open(self, day: int) -> bool:
        return weekday_of(day) not in self.weekend and day not in self.holidays

    def roll(self, day: int, roll: Roll) -> int | None:
        """The day itself if it is a business day, else the day it moves to; None to skip it."""
        if self.open(day):
            return day
        if roll == "skip":
            return None
        if roll == "preceding":
            return self.nearest(day, -1)
        candidate = self.nearest(day, 1)
        if roll == "modified" and month_of(candidate)[1] != month_of(day)[1]:
            return self.nearest(day, -1)
        return candidate

    def nearest(self, day: int, step: Literal[-1, 1]) -> int:
        """The nearest business day before or after a closed one."""
        run = bisect_right(self.firsts, day) - 1
        if run >= 0 and day <= self.lasts[run]:
            return self.lasts[run] + 1 if step > 0 else self.firsts[run] - 1
        return self.walk(day, step)

    def walk(self, day: int, step: int) -> int:
        while not self.open(day):
            day += step
        return day


class RolledDays:
    """Occurrences moved to business days, at the same time of day; none comes twice.

    `outside_gaps` lacks the occurrences that a clock change displaced, which move by the time that
    the rule has.
    """

    __slots__ = ("base", "days", "outside_gaps", "roll", "zone")

    def __init__(
        self,
        base: Core,
        calendar: CalendarSpec,
        roll: Roll,
        zone: Zone,
        outside_gaps: Core | None = None,
    ) -> None:
        self.base = base
        self.days = BusinessDays(calendar)
        self.roll: Roll = roll
        self.zone = zone
        self.outside_gaps = outside_gaps

    def after_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        day = self.local_day(instant)
        # Occurrences of closed days just before may have been moved past `instant`.
        if not self.days.open(day - 1):
            day = self.days.nearest(day - 1, -1) + 1
        best: int | None = None
        budget = budget or Budget(SEARCH_STEPS_MAX)
        at = self.base.after_us(self.day_start(day) - 1, budget)
        while at is not None:
            budget.spend(STEPS_TO_MOVE)
            moved = self.move(at, budget)
            if moved is not None and moved > instant:
                if best is not None and self.local_day(moved) > self.local_day(best):
                    return best
                best = moved if best is None else min(best, moved)
            at = self.base.after_us(at, budget)
        return best

    def before_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        day = self.local_day(instant)
        if not self.days.open(day + 1):
            day = self.days.nearest(day + 1, 1) - 1
        best: int | None = None
        budget = budget or Budget(SEARCH_STEPS_MAX)
        at = self.base.before_us(self.day_start(day + 2), budget)
        while at is not None:
            budget.spend(STEPS_TO_MOVE)
            moved = self.move(at, budget)
            if moved is not None and moved < instant:
                if best is not None and self.local_day(moved) < self.local_day(best):
                    return best
                best = moved if best is None else max(best, moved)
            at = self.base.before_us(at, budget)
        return best

    def local_day(self, instant: int) -> int:
        second = instant // SECOND
        return (second + self.zone.offset(second)) // DAY

    def day_start(self, day: int) -> int:
        return self.zone.instants(day * DAY, "end", "first")[0] * SECOND

    def move(self, instant: int, budget: Budget) -> int | None:
        second, fraction = divmod(instant, SECOND)
        wall = second + self.zone.offset(second)
        to = self.days.roll(wall // DAY, self.roll)
        if to is None or to == wall // DAY:
            return None if to is None else instant
        wall = self.chosen_wall(instant, budget)
        wall += (to - wall // DAY) * DAY
        return self.zone.instants(wall, "shift", "first")[0] * SECOND + fraction

    def chosen_wall(self, instant: int, budget: Budget) -> int:
        """The wall second that the rule has: in the gap, if it was shifted out of one."""
        second = instant // SECOND
        segment = self.zone.segment(second)
        offset, before = self.zone.offsets[segment], self.zone.offsets[max(segment - 1, 0)]
        is_behind_gap = second < self.zone.starts[segment] + offset - before
        if is_behind_gap and self.outside_gaps is not None:
            budget.spend(STEPS_TO_MOVE)
            if self.outside_gaps.after_us(instant - 1, budget) != instant:
                offset = before
        return second + offset
