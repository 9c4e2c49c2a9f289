"""What becomes of planned occurrences that new zone data have at other instants.

The older data are gone. How far the new ones move a time is read off the instants that were planned
with the older: it is the way that leads most of them to instants that the rule has now. An instant
that the rule has with both is one occurrence, whatever the clock shows then.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from msgspec.structs import replace

from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule
from onbeat.recurrence import compile_spec
from onbeat.recurrence.compile import zones_named_in
from onbeat.recurrence.zones import doubt_of
from onbeat.rules.calendar import shifted
from onbeat.rules.plans import (
    MISFIRED,
    TICK,
    BoundedRecurrence,
    Compile,
    Ids,
    bounded_recurrence,
    plan,
    skip_range,
)

HOUR: Final = timedelta(hours=1)
QUARTER: Final = timedelta(minutes=15)

WAYS: Final = sorted(
    (n * QUARTER for n in range(-26 * 4, 26 * 4 + 1) if n),
    key=lambda way: (abs(way) != HOUR, abs(way)),
)
"""How far a zone can move, the likely first: by an hour, else by quarters, up to a day and some."""

COMPARED_MAX: Final = 10
"""Planned instants that a way is tried on."""

CAME_BEFORE: Final = "zone data changed: its time of day had come before"


def doubts_of_zones(schedule: Schedule) -> list[str]:
    """Why a new schedule with these zones would be refused, which this one was not."""
    names = {*zones_named_in(schedule.recurrence), *(one.timezone for one in schedule.window)}
    return [doubt for name in sorted(names) if (doubt := doubt_of(name))]


class Planned(NamedTuple):
    """Instants from older data: those to come, in order, and the last one that was decided."""

    coming: Sequence[datetime]
    decided: datetime | None


def plan_moved(
    schedule: Schedule,
    planned: Planned,
    now: datetime,
    horizon: timedelta,
    ids: Ids,
    compile: Compile = compile_spec,
) -> tuple[int, Plan | None]:
    """How many of the coming occurrences are elsewhere now, and the new plan if there are any.

    One whose time has passed, by the new data, is late: it runs or is skipped as the schedule says.
    One whose time of day came already, by the older data, is skipped.
    """
    recurrence = bounded_recurrence(schedule, compile)
    moved = [at for at in planned.coming if not has(recurrence, at)]
    if not moved:
        return 0, None
    since = undecided_since(schedule, recurrence, planned, moved, now)
    begun = replace(schedule, planned_through=since)
    made = plan(begun, now, max(horizon, since - now), ids, compile)
    came = skip_range(recurrence, now, since, CAME_BEFORE)
    # A plan of late occurrences may be full before now, where the watermark cannot go back to.
    left = skip_range(recurrence, made.planned_through, now, MISFIRED)
    through = max(made.planned_through, now)
    return len(moved), replace(made, planned_through=through, skips=(*made.skips, *came, *left))


def undecided_since(
    schedule: Schedule,
    recurrence: BoundedRecurrence,
    planned: Planned,
    moved: Sequence[datetime],
    now: datetime,
) -> datetime:
    """The instant, by the new data, after which no occurrence was decided."""
    coming, decided = planned
    compared = list(moved[:COMPARED_MAX])
    is_decided_elsewhere = decided is not None and not has(recurrence, decided)
    if decided is not None and is_decided_elsewhere:
        compared.append(decided)
    way = way_of(recurrence, compared)
    first = coming[0] if has(recurrence, coming[0]) else shifted(coming[0], way)
    before_first = shifted(first, -TICK)
    if decided is None:
        return min(before_first, now)
    if is_decided_elsewhere and has(recurrence, shifted(decided, way)):
        decided = shifted(decided, way)
    # What an edit left out stays out.
    return min(before_first, max(decided, schedule.updated_at))


def way_of(recurrence: BoundedRecurrence, moved: Sequence[datetime]) -> timedelta:
    """How far these instants moved: the first way that leads all, or else most, to the rule's."""
    best, fewest = timedelta(), len(moved)
    for way in WAYS:
        strays = sum(not has(recurrence, shifted(at, way)) for at in moved)
        if strays < fewest:
            best, fewest = way, strays
        if not strays:
            break
    return best


def has(recurrence: BoundedRecurrence, at: datetime) -> bool:
    return recurrence.after(shifted(at, -TICK)) == at
