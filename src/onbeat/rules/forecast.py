"""Forecast: how often stored schedules will fire, by hour."""

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from onbeat.model.errors import BadRecurrence
from onbeat.model.limits import FORECAST_FIRES_MAX, RECURRENCE_STEPS_MAX
from onbeat.model.schedule import Schedule
from onbeat.recurrence import Budget, compile_spec
from onbeat.recurrence.instants import EPOCH, MICROSECOND, from_us, to_us
from onbeat.rules.calendar import shifted
from onbeat.rules.plans import TICK, BoundedRecurrence, Compile, bounded_recurrence, with_budget
from onbeat.rules.windows import opening_at_or_after

HOUR = timedelta(hours=1)
HOUR_US = HOUR // MICROSECOND


class Forecast(msgspec.Struct, frozen=True):
    """Counts by the first instant of each hour; `cut` names the schedules not fully counted.

    From the hour `counted_to` on the counts are at least so many, None where all are exact.
    """

    hours: Counter[datetime]
    cut: tuple[str, ...]
    counted_to: datetime | None = None


class FireCount(msgspec.Struct):
    """Occurrences of one schedule by hour since 1970; `hour` is the one that is being counted."""

    hour: int
    hours: Counter[int] = msgspec.field(default_factory=Counter[int])

    def add(self, at: int) -> None:
        self.hour = at // HOUR_US
        self.hours[self.hour] += 1


def forecast(
    schedules: Iterable[Schedule],
    first: datetime,
    last: datetime,
    budget: Budget,
    compile: Compile = compile_spec,
) -> Forecast:
    """Occurrences from `first` to just before `last`, by the hour in UTC in which they may start.

    Dense rules are counted by arithmetic. Of others it visits at most `FORECAST_FIRES_MAX` of each
    schedule, as far as the budget allows; a rule that only another process can read counts as cut.
    """
    hours: Counter[datetime] = Counter()
    cut: list[str] = []
    reached: list[int] = []
    for schedule in schedules:
        counted = FireCount(hour_of(first))
        if not count_fires(schedule, first, last, budget, compile, counted):
            cut.append(schedule.name)
            reached.append(counted.hour)
        for hour, number in counted.hours.items():
            hours[hour_from(hour)] += number
    return Forecast(hours, tuple(cut), hour_from(min(reached)) if reached else None)


def count_fires(
    schedule: Schedule,
    first: datetime,
    last: datetime,
    budget: Budget,
    compile: Compile,
    counted: FireCount,
) -> bool:
    """Count the schedule's occurrences. False if they were cut or cannot be computed here."""
    own = Budget(RECURRENCE_STEPS_MAX, budget)
    try:
        rule = bounded_recurrence(schedule, with_budget(compile, own))
        # What was counted is kept when the budget ends.
        if not schedule.window and rule.recurrence.is_dense(first):
            return count_hours(rule, first, last, counted)
        fires = rule.instants(shifted(first, -TICK), shifted(last, -TICK))
        return visit(starts(schedule, fires, last), counted)
    except BadRecurrence:
        return False


def count_hours(
    rule: BoundedRecurrence, first: datetime, last: datetime, counted: FireCount
) -> bool:
    """Count hour by hour; near a change of the clock, visit each occurrence of the hour."""
    for hour in range(hour_of(first), hour_of(shifted(last, -TICK)) + 1):
        counted.hour = hour
        begin, end = max(first, hour_from(hour)), min(last, shifted(hour_from(hour), HOUR))
        number = rule.count(begin, end)
        if number is not None:
            counted.hours[hour] += number
        elif not visit(rule.instants(shifted(begin, -TICK), shifted(end, -TICK)), counted):
            return False
    return True


def visit(fires: Iterator[int], counted: FireCount) -> bool:
    """Count the first of them one by one; False if more are left."""
    for at in islice(fires, FORECAST_FIRES_MAX):
        counted.add(at)
    return next(fires, None) is None


def starts(schedule: Schedule, fires: Iterator[int], last: datetime) -> Iterator[int]:
    """When they may start, as far as that is before `last`; in microseconds since 1970."""
    if not schedule.window:
        return fires
    openings = (to_us(opening_at_or_after(schedule.window, from_us(at))) for at in fires)
    end = to_us(last)
    return (at for at in openings if at < end)


def hour_of(at: datetime) -> int:
    """Hours since 1970."""
    return to_us(at) // HOUR_US


def hour_from(hour: int) -> datetime:
    return EPOCH + hour * HOUR
