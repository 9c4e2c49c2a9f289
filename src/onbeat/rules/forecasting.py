"""How often stored schedules will fire, hour by hour."""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from onbeat.model.errors import BadRecurrence
from onbeat.model.limits import FORECAST_FIRES_MAX
from onbeat.model.schedule import Schedule
from onbeat.recurrence import compile_spec
from onbeat.rules.planning import TICK, Read, bounded

HOUR = timedelta(hours=1)


class Forecast(msgspec.Struct, frozen=True):
    """Fires by the hour's first instant; `cut` names schedules that were not counted to the end."""

    hours: Counter[datetime]
    cut: tuple[str, ...]


def forecast(
    schedules: Iterable[Schedule], first: datetime, last: datetime, read: Read = compile_spec
) -> Forecast:
    """Occurrences from `first` to just before `last`, by hour in UTC.

    At most `FORECAST_FIRES_MAX` of each schedule are counted; a rule that only another process can
    read counts as cut.
    """
    hours: Counter[datetime] = Counter()
    cut = tuple(
        schedule.name for schedule in schedules if not counted(schedule, first, last, read, hours)
    )
    return Forecast(hours, cut)


def counted(
    schedule: Schedule, first: datetime, last: datetime, read: Read, hours: Counter[datetime]
) -> bool:
    """Add the schedule's fires; False when there were more than are counted, or none to be read."""
    try:
        rule = bounded(schedule, read)
    except BadRecurrence:
        return False
    walk = rule.walk(first - TICK, last - TICK, FORECAST_FIRES_MAX + 1)
    for place, occurrence in enumerate(walk):
        if place == FORECAST_FIRES_MAX:
            return False
        hours[occurrence.replace(minute=0, second=0, microsecond=0)] += 1
    return True
