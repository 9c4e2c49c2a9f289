"""The operation of timelines: what schedules did and will do, on one axis."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.model.errors import BadRecurrence, Invalid, TooCostly
from onbeat.model.ids import ScheduleId
from onbeat.model.job import JobState
from onbeat.model.limits import (
    PAGE_LIMIT_MAX,
    RECURRENCE_STEPS_MAX,
    SHOWN_STEPS_MAX,
    TIMELINE_LANES_MAX,
)
from onbeat.model.page import JobFilter, ScheduleFilter
from onbeat.model.schedule import Schedule
from onbeat.model.timeline import Lane, LaneOrder
from onbeat.operations.context import OperationContext
from onbeat.operations.schedules import get_schedule, upcoming_if_any
from onbeat.operations.timeline_material import LaneMaterial, gather, kept_from
from onbeat.ports.computation import compute_aside
from onbeat.recurrence import Budget, without_idle_zone
from onbeat.recurrence.zones import Zone, chosen_zone, zone_named
from onbeat.rules.day_axis import DayAxis, axis_of, clock_changes
from onbeat.rules.plans import with_budget
from onbeat.rules.timeline import (
    NO_FIRES,
    Fires,
    all_lanes,
    fires_of,
    lane_of_counts,
    lane_of_runs,
    ordered,
)
from onbeat.wire.timeline import (
    LaneAnswer,
    ShowTimeline,
    TimelineAnswer,
    bucket_answers,
    clock_change_answer,
    lane_answer,
    read_day,
)

FAILURES_LOOKED_AT: Final = 200
"""The newest failures, whose schedules come first in the order of trouble."""
LONG: Final = timedelta(hours=12)
"""How long before the axis a run may have been due that is looked for because it lasted."""


class LanePage(msgspec.Struct, frozen=True):
    """The schedules of a page, how many match, and whether further ones were not looked at."""

    schedules: Sequence[Schedule]
    total: int
    more: bool


async def show_timeline(context: OperationContext, request: ShowTimeline) -> TimelineAnswer:
    """A page of lanes: as much work as its limits allow, however much has run."""
    now = context.clock.now()
    zone = zone_of(request.tz)
    axis = axis_of(request.span, read_day(request.day), zone, now)
    chosen = await choose(context, request, now)
    material = await gather(context, axis, chosen.schedules)
    lanes = await compute_aside(
        lambda budget: build_lanes(context, axis, chosen, material, budget),
        Budget(RECURRENCE_STEPS_MAX, context.budget),
        context.gone,
    )
    return TimelineAnswer(
        first=axis.first,
        last=axis.last,
        now=now,
        span=request.span,
        timezone=zone.name,
        hours=(axis.last - axis.first) / timedelta(hours=1),
        clock_changes=tuple(map(clock_change_answer, clock_changes(axis, zone))),
        all=bucket_answers(all_lanes(lane for _, lane in lanes)),
        lanes=tuple(answer for answer, _ in lanes),
        schedules=chosen.total,
        more=chosen.more,
        page=request.page,
        limit=TIMELINE_LANES_MAX,
        kept_since=kept_from(axis, context.keep),
        failures_kept_since=kept_from(axis, context.keep_failed),
    )


def zone_of(name: str | None) -> Zone:
    try:
        return chosen_zone(name or None)
    except BadRecurrence as error:
        raise Invalid(f"tz: {error}", "tz") from None


async def choose(context: OperationContext, request: ShowTimeline, now: datetime) -> LanePage:
    """The schedules of the page, in the order that is asked for."""
    if request.schedule_id is not None:
        one = await get_schedule(context, request.schedule_id)
        return LanePage([one], 1, more=False)
    page = await context.store.schedules(
        ScheduleFilter(status=request.status, q=request.q or None, limit=PAGE_LIMIT_MAX)
    )
    found = [one for one in page.items if request.queue in (None, one.queue)]
    more = (page.total or 0) > len(page.items)
    failed_at = await last_failures(context) if request.order is LaneOrder.TROUBLE else {}
    next_at = await next_fires(context, found, now) if request.order is LaneOrder.NEXT else {}
    found = ordered(found, request.order, failed_at, next_at)
    start = (request.page - 1) * TIMELINE_LANES_MAX
    return LanePage(found[start : start + TIMELINE_LANES_MAX], len(found), more)


async def last_failures(context: OperationContext) -> dict[ScheduleId, datetime]:
    """When schedules failed last, among the newest failures."""
    page = await context.store.jobs(JobFilter(state=JobState.FAILED, limit=FAILURES_LOOKED_AT))
    result: dict[ScheduleId, datetime] = {}
    for job in page.items:
        if job.schedule_id is not None:
            at = job.finished_at or job.due_at
            result[job.schedule_id] = max(at, result.get(job.schedule_id, at))
    return result


async def next_fires(
    context: OperationContext, schedules: Sequence[Schedule], now: datetime
) -> dict[ScheduleId, datetime | None]:
    def search(budget: Budget) -> dict[ScheduleId, datetime | None]:
        return {
            one.id: upcoming_if_any(context.with_budget(Budget(SHOWN_STEPS_MAX, budget)), one, now)
            for one in schedules
        }

    return await compute_aside(search, Budget(RECURRENCE_STEPS_MAX, context.budget), context.gone)


def build_lanes(
    context: OperationContext,
    axis: DayAxis,
    chosen: LanePage,
    material: Mapping[ScheduleId, LaneMaterial],
    budget: Budget,
) -> list[tuple[LaneAnswer, Lane]]:
    result: list[tuple[LaneAnswer, Lane]] = []
    for schedule in chosen.schedules:
        fires, unknown = fires_or_why(context, schedule, axis, budget)
        lane = build_lane(axis, schedule, material[schedule.id], fires)
        own = zone_named(without_idle_zone(schedule.recurrence).tz)
        changes = clock_changes(axis, own) if not own.is_fixed else []
        result.append((lane_answer(schedule, lane, unknown, changes), lane))
    return result


def build_lane(axis: DayAxis, schedule: Schedule, found: LaneMaterial, fires: Fires) -> Lane:
    skips, forgotten = found.skips, found.forgotten
    if found.counts is None:
        return lane_of_runs(axis, schedule, found.runs, skips, fires, forgotten)
    return lane_of_counts(axis, schedule, found.counts, found.since, skips, fires, forgotten)


def fires_or_why(
    context: OperationContext, schedule: Schedule, axis: DayAxis, budget: Budget
) -> tuple[Fires, str | None]:
    """The fires to come, or why they are not known here. Each lane has its share of the budget."""
    own = Budget(RECURRENCE_STEPS_MAX // TIMELINE_LANES_MAX, budget)
    try:
        return fires_of(schedule, axis, with_budget(context.compile, own)), None
    except TooCostly:
        return NO_FIRES, "its rule takes too many steps to search"
    except Exception:  # noqa: BLE001  a user's own function of time may raise anything
        return NO_FIRES, "its rule cannot be computed by this process"
