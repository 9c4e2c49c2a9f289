"""Periods of exact elapsed time."""

from onbeat.recurrence.budget import Budget
from onbeat.recurrence.tzif import DAY
from onbeat.recurrence.year_masks import DAY_MAX

LAST_US = (DAY_MAX + 1) * DAY * 1_000_000 - 1


class Interval:
    """`start` and every `period` after it, in microseconds; never drifts.

    `first` is 0 if the start is an occurrence, 1 if it is only a reference point.
    """

    __slots__ = ("first", "period", "start")

    def __init__(self, start: int, period: int, first: int) -> None:
        self.start = start
        self.period = period
        self.first = first

    def after_us(self, instant: int, _budget: Budget | None = None, /) -> int | None:
        count = (instant - self.start) // self.period + 1
        candidate = self.start + max(count, self.first) * self.period
        return candidate if candidate <= LAST_US else None

    def before_us(self, instant: int, _budget: Budget | None = None, /) -> int | None:
        count = (min(instant, LAST_US + 1) - self.start - 1) // self.period
        return self.start + count * self.period if count >= self.first else None
