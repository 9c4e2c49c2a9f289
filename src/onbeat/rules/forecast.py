"""Forecast: how often stored schedules will fire, by hour."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice

import msgspec

from onbeat.model.errors import BadRecurrence
from onbeat.model.limits import FORECAST_FIRES_MAX, RECURRENCE_STEPS_MAX
from onbeat.model.schedule import Schedule
from onbeat.recurrence import Budget, compile_spec
from onbeat.recurrence.instants import EPOCH, MICROSECOND, from_us, to_us
from onbeat.rules.calendar import shifted
from onbeat.rules.plans import TICK, Compile, bounded_recurrence, with_budget
from onbeat.rules.windows import opening_at_or_after

HOUR = timedelta(hours=1)
HOUR_US = HOUR // MICROSECOND


class Forecast(msgspec.Struct, frozen=True):
    """Counts by the first instant of each hour; `cut` names the schedules not fully counted."""

    hours: Counter[datetime]
    cut: tuple[str, ...]


def forecast(
    schedules: Iterable[Schedule],
    first: datetime,
    last: datetime,
    budget: Budget,
    compile: Compile = compile_spec,
) -> Forecast:
    """Occurrences from `first` to just before `last`, by the hour in UTC in which they may start.

    Counts at most `FORECAST_FIRES_MAX` of each schedule, as far as the budget allows; a rule that
    only another process can read counts as cut.
    """
    hours: Counter[datetime] = Counter()
    cut = tuple(
        schedule.name
        for schedule in schedules
        if not count_fires(schedule, first, last, budget, compile, hours)
    )
    return Forecast(hours, cut)


def count_fires(
    schedule: Schedule,
    first: datetime,
    last: datetime,
    budget: Budget,
    compile: Compile,
    hours: Counter[datetime],
) -> bool:
    """Add the schedule's occurrences. Returns False if they were cut or cannot be computed here."""
    own = Budget(RECURRENCE_STEPS_MAX, budget)
    found: Counter[int] = Counter()
    try:
        rule = bounded_recurrence(schedule, with_budget(compile, own))
        fires = rule.instants(shifted(first, -TICK), shifted(last, -TICK))
        # What was counted is kept when the budget ends.
        found.update(map(hour_of, starts(schedule, islice(fires, FORECAST_FIRES_MAX), last)))
        is_whole = next(fires, None) is None
    except BadRecurrence:
        is_whole = False
    for hour, number in found.items():
        hours[EPOCH + hour * HOUR] += number
    return is_whole


def starts(schedule: Schedule, fires: Iterable[int], last: datetime) -> Iterable[int]:
    """When they may start, as far as that is before `last`; in microseconds since 1970."""
    if not schedule.window:
        return fires
    openings = (to_us(opening_at_or_after(schedule.window, from_us(at))) for at in fires)
    end = to_us(last)
    return (at for at in openings if at < end)


def hour_of(at: int) -> int:
    """Hours since 1970."""
    return at // HOUR_US
