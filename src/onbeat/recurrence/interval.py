"""Periods of exact elapsed time."""

from onbeat.recurrence.masks import DAY_MAX
from onbeat.recurrence.tzif import DAY

LAST_US = (DAY_MAX + 1) * DAY * 1_000_000 - 1


class Interval:
    """`start` and every `period` after it, in microseconds; never drifts.

    `first` is 0 when the start counts, 1 when it is only a reference point.
    """

    __slots__ = ("first", "period", "start")

    def __init__(self, start: int, period: int, first: int) -> None:
        self.start = start
        self.period = period
        self.first = first

    def after_us(self, instant: int) -> int | None:
        count = (instant - self.start) // self.period + 1
        found = self.start + max(count, self.first) * self.period
        return found if found <= LAST_US else None

    def before_us(self, instant: int) -> int | None:
        count = (min(instant, LAST_US + 1) - self.start - 1) // self.period
        return self.start + count * self.period if count >= self.first else None
