"""How often a rule that is being written would fire, day by day."""

from collections import Counter
from datetime import date, datetime, timedelta
from typing import Final

import msgspec

from onbeat.model.errors import BadRecurrence, TooCostly
from onbeat.model.limits import RECURRENCE_STEPS_MAX, YEAR_FIRES_MAX
from onbeat.model.timeline import ClockChange
from onbeat.operations.context import OperationContext
from onbeat.ports.computation import compute_aside
from onbeat.recurrence import Budget, anchor, needs_anchor, value_of
from onbeat.recurrence.zones import zone_named
from onbeat.rules.calendar import shifted
from onbeat.rules.day_axis import DayAxis, clock_changes, day_of, midnight
from onbeat.rules.plans import TICK
from onbeat.wire.recurrences import PreviewBody, read_recurrence

DAY: Final = timedelta(days=1)


class YearOfFires(msgspec.Struct, frozen=True, kw_only=True):
    """The days from `first` on in the zone of the rule, with their fires.

    `counted_to` is the first day that was not counted to its end, None where all were.
    """

    first: date
    days: tuple[int, ...]
    counted_to: date | None
    changes: tuple[ClockChange, ...]


async def year_of_fires(
    context: OperationContext,
    body: PreviewBody,
    length: int,
    since: datetime | None = None,
    until: datetime | None = None,
) -> YearOfFires | None:
    """The fires of `length` days from today on, within the bounds.

    At most `YEAR_FIRES_MAX` are counted. None where the rule takes too many steps to search.
    """
    now = context.clock.now()

    def count(budget: Budget) -> YearOfFires:
        return count_year(body, length, now, since, until, budget)

    try:
        return await compute_aside(
            count, Budget(RECURRENCE_STEPS_MAX, context.budget), context.gone
        )
    except (TooCostly, BadRecurrence):
        return None


def count_year(
    body: PreviewBody,
    length: int,
    now: datetime,
    since: datetime | None,
    until: datetime | None,
    budget: Budget,
) -> YearOfFires:
    spec = read_recurrence(body, key="", budget=budget)
    rule = value_of(anchor(spec, now, budget) if needs_anchor(spec) else spec, budget)
    zone = zone_named(spec.tz)
    first = day_of(now, zone)
    end = midnight(first + length * DAY, zone)
    begin = now if since is None else max(now, shifted(since, -TICK))
    last = shifted(end, -TICK) if until is None else min(shifted(end, -TICK), until)
    found = rule.between(begin, last, limit=YEAR_FIRES_MAX + 1) if begin < last else []
    counts = Counter(day_of(at, zone) for at in found[:YEAR_FIRES_MAX])
    axis = DayAxis(first=now, last=end, now=now, width=DAY)
    return YearOfFires(
        first=first,
        days=tuple(counts[first + number * DAY] for number in range(length)),
        counted_to=day_of(found[-1], zone) if len(found) > YEAR_FIRES_MAX else None,
        changes=() if zone.is_fixed else tuple(clock_changes(axis, zone)),
    )
