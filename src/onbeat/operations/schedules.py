"""The verbs of schedules."""

from collections.abc import Callable
from datetime import datetime

from msgspec.structs import replace

from onbeat.model.errors import BadRecurrence, Conflict, Invalid, NotFound
from onbeat.model.ids import ScheduleId
from onbeat.model.page import ScheduleFilter
from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.operations.drafts import (
    changes_draft,
    check_fires,
    created_from,
    declared_from,
    edited_from,
    is_planned_anew,
    is_ruled_anew,
    new_draft,
    same_but_for_edits,
)
from onbeat.operations.operator import Operator
from onbeat.rules import planning
from onbeat.wire.requests import (
    Backfill,
    Backfilled,
    Created,
    CreateSchedule,
    Done,
    ListSchedules,
    Put,
    PutSchedule,
    ScheduleById,
    SchedulesAnswer,
    Triggered,
    UpdateSchedule,
)
from onbeat.wire.schedules import (
    ScheduleAnswer,
    ScheduleDraft,
    read_key,
    schedule_answer,
)
from onbeat.wire.values import read_instant, schedule_id

RACES_MAX = 5
"""How often an edit is begun anew because another one came between."""

ABSENT = "Schedule not found"
UPDATED = Done("Schedule updated successfully.")
DELETED = Done("Schedule and associated events deleted.")
PAUSED = Done("Schedule paused.")
RESUMED = Done("Schedule resumed.")
PASSED_PAUSED = "paused"

Edit = Callable[[Schedule, datetime], Schedule]


async def create(operator: Operator, request: CreateSchedule) -> Created:
    """A new schedule, with its first jobs, under an id of its own."""
    schedule = await add(operator, new_draft(operator, request.schedule))
    return Created(schedule.id)


async def add(operator: Operator, draft: ScheduleDraft) -> Schedule:
    """The same from a draft, for callers in this process whose rule has no outer form."""
    await operator.check_room()
    now = operator.clock.now()
    schedule = created_from(operator, draft, now)
    check_fires(operator, schedule, now)
    await operator.store.add_schedule(schedule, first_plan(operator, schedule, now))
    return schedule


async def put(operator: Operator, request: PutSchedule) -> Put:
    """The schedule with this key is as described: created, changed or left as it is."""
    key = request.schedule.key or request.key
    if key != request.key:
        raise Invalid("key differs from the one in the path", "key")
    body = replace(request.schedule, key=key, name=request.schedule.name or key)
    return await declare(operator, key, new_draft(operator, body))


async def declare(operator: Operator, key: str, draft: ScheduleDraft) -> Put:
    """The same from a draft."""
    draft = replace(draft, key=read_key(key))
    for _ in range(RACES_MAX):
        before = await operator.store.schedule_by_key(key)
        if before is None:
            try:
                return Put((await add(operator, draft)).id)
            except Conflict:
                continue
        now = operator.clock.now()
        after = declared_from(operator, before, draft, now)
        if same_but_for_edits(before, after):
            return Put(before.id, created=False, changed=False)
        if await store_edit(operator, before, after, now):
            return Put(before.id, created=False)
    raise Conflict(f"Schedule {key} is being changed by others; try again")


async def update(operator: Operator, request: UpdateSchedule) -> Done:
    """Only what is given changes. Waiting jobs follow the new rule at once."""

    def change(schedule: Schedule, now: datetime) -> Schedule:
        return edited_from(schedule, changes_draft(operator, request.changes, schedule), now)

    await edit(operator, request.id, change)
    return UPDATED


async def pause(operator: Operator, request: ScheduleById) -> Done:
    """Its waiting jobs go; what runs, runs on."""
    await edit(operator, request.id, with_status(ScheduleStatus.PAUSED))
    return PAUSED


async def resume(operator: Operator, request: ScheduleById) -> Done:
    """It goes on from now; what it passed over meanwhile does not run."""
    await edit(operator, request.id, with_status(ScheduleStatus.ACTIVE))
    return RESUMED


def with_status(status: ScheduleStatus) -> Edit:
    def change(schedule: Schedule, now: datetime) -> Schedule:
        if schedule.status in {status, ScheduleStatus.FINISHED}:
            return schedule
        return edited_from(schedule, ScheduleDraft(status=status), now)

    return change


async def edit(operator: Operator, id: str, change: Edit) -> None:
    """Store what `change` makes of the schedule, anew where another edit came between."""
    for _ in range(RACES_MAX):
        before = await found(operator, id)
        now = operator.clock.now()
        after = change(before, now)
        if after is before or await store_edit(operator, before, after, now):
            return
    raise Conflict("The schedule is being changed by others; try again")


async def store_edit(operator: Operator, before: Schedule, after: Schedule, now: datetime) -> bool:
    if is_ruled_anew(before, after):
        check_fires(operator, after, now)
    if not is_planned_anew(before, after):
        return await operator.store.update_schedule(after, None, now)
    await judge_late(operator, before, now)
    plan = next_plan(operator, before, after, now)
    planned = replace(after, planned_through=plan.planned_through, plan_at=plan.plan_at)
    return await operator.store.update_schedule(planned, plan, now)


async def judge_late(operator: Operator, before: Schedule, now: datetime) -> None:
    """Occurrences that are late under the old rule get their disposition from it, not from none.

    There are some only when no planner came by for longer than the horizon.
    """
    if before.status is not ScheduleStatus.ACTIVE or before.planned_through >= now:
        return
    try:
        ids, read = operator.chance.ids, operator.read
        late = planning.plan(before, now, operator.horizon, ids, read)
    except Exception:  # noqa: BLE001  a user's own function of time may raise anything
        return
    await operator.store.apply_plans([late])


def first_plan(operator: Operator, schedule: Schedule, now: datetime) -> Plan:
    if schedule.status is ScheduleStatus.PAUSED:
        return no_plan(schedule, schedule.planned_through)
    return planning.plan(schedule, now, operator.horizon, operator.chance.ids, operator.read)


def next_plan(operator: Operator, before: Schedule, after: Schedule, now: datetime) -> Plan:
    """What an edited schedule has from now on; what it passed over while paused is noted."""
    was_paused = before.status is ScheduleStatus.PAUSED
    # A pause takes back what was planned ahead, so nothing after it has been dealt with.
    since = min(before.planned_through, before.updated_at if was_paused else now)
    if after.status is ScheduleStatus.PAUSED:
        return no_plan(after, since)
    begun = replace(after, planned_through=since)
    passed = PASSED_PAUSED if was_paused else None
    try:
        return planning.replan(
            begun, now, operator.horizon, operator.chance.ids, passed, operator.read
        )
    except BadRecurrence:
        # The rule lives in another program; its planner goes on from here.
        return replace(no_plan(after, now), plan_at=now)


def no_plan(schedule: Schedule, planned_through: datetime) -> Plan:
    return Plan(
        schedule_id=schedule.id,
        version=schedule.version,
        planned_through=planned_through,
        plan_at=None,
    )


async def delete(operator: Operator, request: ScheduleById) -> Done:
    """Its waiting jobs are cancelled; its history stays readable."""
    if not await operator.store.delete_schedule(schedule_id(request.id), operator.clock.now()):
        raise NotFound(ABSENT)
    return DELETED


async def show(operator: Operator, request: ScheduleById) -> ScheduleAnswer:
    return shown(operator, await found(operator, request.id), operator.clock.now())


async def list_schedules(operator: Operator, request: ListSchedules) -> SchedulesAnswer:
    """Newest first."""
    now = operator.clock.now()
    page = await operator.store.schedules(
        ScheduleFilter(
            status=request.status,
            q=request.q or None,
            limit=request.limit,
            offset=(request.page - 1) * request.limit,
        )
    )
    return SchedulesAnswer(
        schedules=tuple(shown(operator, schedule, now) for schedule in page.items),
        page=request.page,
        limit=request.limit,
        total=page.total or 0,
    )


async def trigger(operator: Operator, request: ScheduleById) -> Triggered:
    """One job of the schedule now, beside its calendar."""
    await operator.check_room()
    schedule = await found(operator, request.id)
    job = planning.triggered(schedule, operator.clock.now(), operator.fresh_id())
    await operator.store.enqueue([job])
    return Triggered(job.id)


async def backfill(operator: Operator, request: Backfill) -> Backfilled:
    """Jobs for past occurrences that have none; repeating it adds nothing."""
    await operator.check_room()
    first = read_instant(request.span.first, "from")
    last = read_instant(request.span.last, "to")
    if last < first:
        raise Invalid("to must not be before from", "to")
    schedule, limit = await found(operator, request.id), request.span.limit
    now = operator.clock.now()
    jobs = planning.backfilled(
        schedule, first, last, limit, now, operator.chance.ids, operator.read
    )
    added = await operator.store.backfill(schedule.id, jobs, ())
    if len(jobs) < limit:
        return Backfilled(added)
    return Backfilled(added, jobs[-1].occurrence or last)


async def found(operator: Operator, id: str) -> Schedule:
    schedule = await operator.store.schedule(ScheduleId(schedule_id(id)))
    if schedule is None:
        raise NotFound(ABSENT)
    return schedule


def shown(operator: Operator, schedule: Schedule, now: datetime) -> ScheduleAnswer:
    return schedule_answer(schedule, upcoming(operator, schedule, now))


def upcoming(operator: Operator, schedule: Schedule, now: datetime) -> datetime | None:
    """The next occurrence; None too for a rule that cannot be asked here."""
    try:
        return planning.next_at(schedule, now, operator.read)
    except Exception:  # noqa: BLE001  a user's own function of time may raise anything
        return None
