"""What is to come, in short: the next fires, and tasks that nobody runs."""

from collections.abc import Iterable, Sequence
from datetime import datetime

import msgspec

from onbeat.model.limits import COMING_SCHEDULES_MAX
from onbeat.model.page import ScheduleFilter
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import lane_of
from onbeat.operations.context import OperationContext
from onbeat.operations.schedules import schedule_answers
from onbeat.operations.stats import show_stats
from onbeat.wire.requests import NoParams
from onbeat.wire.workers import seems_alive


class ComingFire(msgspec.Struct, frozen=True):
    at: datetime
    schedule: str


class ComingWork(msgspec.Struct, frozen=True, kw_only=True):
    """The next fires, the soonest first, and the lanes that no live worker serves.

    `fires` is None with more schedules than are searched; `schedules` counts the active ones.
    """

    fires: Sequence[ComingFire] | None
    schedules: int
    unknown: Sequence[str]


async def coming_work_of(context: OperationContext, fires: int) -> ComingWork:
    """Up to `fires` fires; unknown lanes are those of active schedules and of waiting jobs."""
    wanted = ScheduleFilter(status=ScheduleStatus.ACTIVE, limit=COMING_SCHEDULES_MAX)
    page = await context.store.schedules(wanted)
    total = page.total or 0
    stats = await show_stats(context, NoParams())
    lanes = {lane_of(one.target) for one in page.items} | stats.unknown_tasks.keys()
    return ComingWork(
        fires=None if total > len(page.items) else await next_fires(context, page.items, fires),
        schedules=total,
        unknown=await without_worker(context, lanes),
    )


async def next_fires(
    context: OperationContext, schedules: Sequence[Schedule], most: int
) -> Sequence[ComingFire]:
    answers = await schedule_answers(context, schedules)
    dated = [ComingFire(one.next_at, one.name) for one in answers if one.next_at is not None]
    return sorted(dated, key=lambda fire: fire.at)[:most]


async def without_worker(context: OperationContext, lanes: Iterable[str]) -> Sequence[str]:
    """Those of the lanes that neither a live worker nor a remote one serves, by name."""
    now = context.clock.now()
    alive = [one for one in await context.store.workers() if seems_alive(one, now)]
    served = {lane for worker in alive for lane in worker.lanes} | context.remote_tasks.keys()
    return sorted(lane for lane in lanes if lane not in served)
