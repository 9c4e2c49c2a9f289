"""Business days: skips occurrences on weekends and holidays, or moves them to another day."""

from datetime import date

from onbeat.recurrence.budget import SEARCH_STEPS_MAX, Budget
from onbeat.recurrence.sets import Core
from onbeat.recurrence.spec import CalendarSpec, Roll
from onbeat.recurrence.tzif import DAY, EPOCH_ORDINAL
from onbeat.recurrence.year_masks import month_of, weekday_of
from onbeat.recurrence.zones import Zone

SECOND = 1_000_000

FREE_IN_A_ROW_MAX = 60
"""Closed days across which an occurrence is moved; no calendar has more in a row."""


STEPS_TO_MOVE = 4
"""The cost of finding an occurrence and the day it moves to, in searches of a plain rule."""


class BusinessDays:
    """Day numbers of business days."""

    __slots__ = ("holidays", "weekend")

    def __init__(self, calendar: CalendarSpec) -> None:
        self.weekend = frozenset(calendar.weekend)
        self.holidays = frozenset(
            date.fromisoformat(day).toordinal() - EPOCH_ORDINAL for day in calendar.holidays
        )

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
        if (
            roll == "modified"
            and candidate is not None
            and month_of(candidate)[1] != month_of(day)[1]
        ):
            return self.nearest(day, -1)
        return candidate

    def nearest(self, day: int, step: int) -> int | None:
        for away in range(1, FREE_IN_A_ROW_MAX + 1):
            if self.open(day + away * step):
                return day + away * step
        return None


class RolledDays:
    """Occurrences moved to business days, at the same time of day; none comes twice."""

    __slots__ = ("base", "days", "roll", "zone")

    def __init__(self, base: Core, days: BusinessDays, roll: Roll, zone: Zone) -> None:
        self.base = base
        self.days = days
        self.roll: Roll = roll
        self.zone = zone

    def after_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        day = self.local_day(instant)
        # Occurrences of closed days just before may have been moved past `instant`.
        while not self.days.open(day - 1) and day > self.local_day(instant) - FREE_IN_A_ROW_MAX:
            day -= 1
        best: int | None = None
        budget = budget or Budget(SEARCH_STEPS_MAX)
        at = self.base.after_us(self.day_start(day) - 1, budget)
        while at is not None:
            budget.spend(STEPS_TO_MOVE)
            moved = self.move(at)
            if moved is not None and moved > instant:
                if best is not None and self.local_day(moved) > self.local_day(best):
                    return best
                best = moved if best is None else min(best, moved)
            at = self.base.after_us(at, budget)
        return best

    def before_us(self, instant: int, budget: Budget | None = None, /) -> int | None:
        day = self.local_day(instant)
        while not self.days.open(day + 1) and day < self.local_day(instant) + FREE_IN_A_ROW_MAX:
            day += 1
        best: int | None = None
        budget = budget or Budget(SEARCH_STEPS_MAX)
        at = self.base.before_us(self.day_start(day + 2), budget)
        while at is not None:
            budget.spend(STEPS_TO_MOVE)
            moved = self.move(at)
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

    def move(self, instant: int) -> int | None:
        second, fraction = divmod(instant, SECOND)
        offset = self.zone.offset(second)
        day = (second + offset) // DAY
        to = self.days.roll(day, self.roll)
        if to is None or to == day:
            return None if to is None else instant
        wall = second + offset + (to - day) * DAY
        return self.zone.instants(wall, "shift", "first")[0] * SECOND + fraction


def on_business_days(base: Core, calendar: CalendarSpec, roll: Roll, zone: Zone) -> Core:
    return RolledDays(base, BusinessDays(calendar), roll, zone)
