"""Forecast: how often stored schedules will fire, by hour."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from onbeat.model.errors import BadRecurrence
from onbeat.model.limits import FORECAST_FIRES_MAX, RECURRENCE_STEPS_MAX
from onbeat.model.schedule import Schedule
from onbeat.recurrence import Budget, compile_spec
from onbeat.rules.calendar import shifted
from onbeat.rules.plans import TICK, Compile, bounded_recurrence, with_budget
from onbeat.rules.windows import opening_at_or_after

HOUR = timedelta(hours=1)


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
    try:
        rule = bounded_recurrence(schedule, with_budget(compile, own))
        walk = rule.walk(shifted(first, -TICK), shifted(last, -TICK), FORECAST_FIRES_MAX + 1)
        for place, occurrence in enumerate(walk):
            if place == FORECAST_FIRES_MAX:
                return False
            start = opening_at_or_after(schedule.window, occurrence)
            if start < last:
                hours[start.replace(minute=0, second=0, microsecond=0)] += 1
    except BadRecurrence:
        return False
    return True
