"""The operations of schedules."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import TypeVar

from msgspec.structs import replace

from onbeat.model.errors import BadRecurrence, Conflict, Invalid, NotFound, TooCostly
from onbeat.model.event import Event
from onbeat.model.ids import ScheduleId
from onbeat.model.limits import SHOWN_STEPS_MAX
from onbeat.model.owner import NOBODY, Owner
from onbeat.model.page import ScheduleFilter
from onbeat.model.plan import Plan
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.operations.context import OperationContext
from onbeat.operations.drafts import (
    build_schedule,
    changes_draft,
    check_fires,
    edit_schedule,
    fields_of,
    new_draft,
    plan_changed,
    redeclare_schedule,
    rule_changed,
    rule_form,
    same_but_for_edits,
    with_stored,
)
from onbeat.operations.unknown_tasks import unknown_tasks
from onbeat.recurrence import Budget
from onbeat.rules import plans
from onbeat.rules.declarations import owner_after
from onbeat.rules.origins import PLAIN_FIELDS, Fields
from onbeat.wire.options import read_schedule_key
from onbeat.wire.recurrences import Preview, form_of, too_costly
from onbeat.wire.requests import (
    Created,
    CreateSchedule,
    ListSchedules,
    Message,
    PreviewSchedule,
    PutResult,
    PutSchedule,
    ScheduleById,
    SchedulesAnswer,
    Triggered,
    UpdateSchedule,
)
from onbeat.wire.schedules import (
    ScheduleAnswer,
    ScheduleBody,
    ScheduleDraft,
    schedule_answer,
)
from onbeat.wire.values import schedule_id

RACES_MAX = 5
"""How often an edit is retried after a concurrent edit."""

UPDATED = Message("Schedule updated successfully.")
DELETED = Message("Schedule and associated events deleted.")
PAUSED = Message("Schedule paused.")
RESUMED = Message("Schedule resumed.")
STILL_FINISHED = Message("Schedule finished: it has no occurrence left.")
PASSED_PAUSED = "paused"

Edit = Callable[[OperationContext, Schedule, datetime], Schedule]
Announce = Callable[[Schedule, datetime], Event]
Found = TypeVar("Found")


async def create(context: OperationContext, request: CreateSchedule) -> Created:
    """Create a schedule with its first jobs, under a new id."""
    body = request.schedule
    draft = await compute_rule(context, form_of(body), lambda it: new_draft(it, body))
    unknown = await unknown_tasks(context, (draft.target,))
    schedule = await add(context, with_stored(context, None, draft, fields_of(body)))
    return Created(schedule.id, unknown)


async def add(context: OperationContext, draft: ScheduleDraft) -> Schedule:
    """The same from a draft, for callers in this process whose rule has no serialized form."""
    await context.check_capacity()
    now = context.clock.now()

    def build(operator: OperationContext) -> tuple[Schedule, Plan]:
        schedule = build_schedule(operator, draft, now)
        check_fires(operator, schedule, now)
        return schedule, first_plan(operator, schedule, now)

    schedule, plan = await compute_rule(context, rule_form(draft.recurrence), build)
    keyed = context.keyed_request(lambda _: Created(schedule.id))
    await context.store.add_schedule(schedule, plan, keyed)
    return schedule


async def compute_rule(
    context: OperationContext, form: str, work: Callable[[OperationContext], Found]
) -> Found:
    """The result of `work`; a rule that takes too many steps is refused by its field."""
    try:
        return await context.compute(work)
    except TooCostly as error:
        raise too_costly(form, error) from None


async def put(context: OperationContext, request: PutSchedule) -> PutResult:
    """Create the schedule with this key, update it, or leave it unchanged."""
    body = keyed_body(request.key, request.schedule)
    draft = await compute_rule(context, form_of(body), lambda it: new_draft(it, body))
    unknown = await unknown_tasks(context, (draft.target,))
    result = await declare(context, request.key, draft, fields_of(body))
    return replace(result, unknown_tasks=unknown)


def keyed_body(key: str, schedule: ScheduleBody) -> ScheduleBody:
    """The body of a PUT by key, which is its name too unless it has one."""
    if schedule.key and schedule.key != key:
        raise Invalid("key differs from the one in the path", "key")
    return replace(schedule, key=key, name=schedule.name or key)


async def declare(
    context: OperationContext,
    key: str,
    draft: ScheduleDraft,
    fields: Fields = PLAIN_FIELDS,
    owner: Owner = NOBODY,
) -> PutResult:
    """The same from a draft; `fields` are the names of its credential fields."""
    given = keyed_draft(key, draft)
    for _ in range(RACES_MAX):
        before = await context.store.schedule_by_key(key)
        draft = with_stored(context, before, owned_draft(before, given, owner), fields)
        if before is None:
            try:
                return PutResult((await add(context, draft)).id)
            except Conflict:
                continue
        now = context.clock.now()
        after = await redeclare(context, before, draft, now)
        if same_but_for_edits(before, after):
            return PutResult(before.id, created=False, changed=False)
        if await store_edit(context, before, after, now):
            return PutResult(before.id, created=False)
    raise Conflict(f"Schedule {key} is being changed by others; try again")


def keyed_draft(key: str, draft: ScheduleDraft) -> ScheduleDraft:
    return replace(draft, options=draft.options | {"key": read_schedule_key(key, "key")})


def owned_draft(before: Schedule | None, draft: ScheduleDraft, owner: Owner) -> ScheduleDraft:
    after = owner_after(before, owner)
    owned = {"owner": after.name, "release": None if after.name is None else after.release}
    return replace(draft, options=draft.options | owned)


async def redeclare(
    context: OperationContext, before: Schedule, draft: ScheduleDraft, now: datetime
) -> Schedule:
    form = rule_form(draft.recurrence)
    return await compute_rule(context, form, lambda it: redeclare_schedule(it, before, draft, now))


async def update(context: OperationContext, request: UpdateSchedule) -> Message:
    """Change only the given fields. Waiting jobs follow the new rule at once."""

    def change(operator: OperationContext, schedule: Schedule, now: datetime) -> Schedule:
        draft = changes_draft(operator, request.changes, schedule)
        return edit_schedule(operator, schedule, draft, now)

    await edit(context, request.id, change)
    return UPDATED


async def pause(context: OperationContext, request: ScheduleById) -> Message:
    """Remove its waiting jobs; running jobs continue.

    A finished one is paused too, so that occurrences which an edit gives it wait for a resume.
    """
    await edit(context, request.id, with_status(ScheduleStatus.PAUSED))
    return PAUSED


async def resume(context: OperationContext, request: ScheduleById) -> Message:
    """Continue from now; occurrences missed during the pause do not run.

    One that has no occurrence left is finished.
    """
    await edit(context, request.id, with_status(ScheduleStatus.ACTIVE))
    resumed = await get_schedule(context, request.id)
    return STILL_FINISHED if resumed.status is ScheduleStatus.FINISHED else RESUMED


def with_status(status: ScheduleStatus) -> Edit:
    def change(context: OperationContext, schedule: Schedule, now: datetime) -> Schedule:
        is_so = schedule.status is status and schedule.pause_reason is None
        is_over = schedule.status is ScheduleStatus.FINISHED
        if is_so or (is_over and status is ScheduleStatus.ACTIVE):
            return schedule
        edited = edit_schedule(context, schedule, ScheduleDraft(status=status), now)
        return replace(edited, pause_reason=None)

    return change


async def edit(
    context: OperationContext, id: str, change: Edit, announce: Announce | None = None
) -> Schedule | None:
    """Store the result of `change`, and try again after a concurrent edit.

    Returns the edited schedule; None where nothing changed. `announce` makes an event of the edit,
    which is published with it where some schedule asks for its type.
    """
    for _ in range(RACES_MAX):
        before = await get_schedule(context, id)
        now = context.clock.now()
        after = await apply_change(context, change, before, now)
        if after is before:
            return None
        event = None if announce is None else announce(after, now)
        if await store_edit(context, before, after, now, event):
            return after
    raise Conflict("The schedule is being changed by others; try again")


async def apply_change(
    context: OperationContext, change: Edit, before: Schedule, now: datetime
) -> Schedule:
    form = rule_form(before.recurrence)
    return await compute_rule(context, form, lambda it: change(it, before, now))


async def store_edit(
    context: OperationContext,
    before: Schedule,
    after: Schedule,
    now: datetime,
    event: Event | None = None,
) -> bool:
    form = rule_form(after.recurrence)
    if rule_changed(before, after):
        await compute_rule(context, form, lambda it: check_fires(it, after, now))
    if not plan_changed(before, after):
        return await context.store.update_schedule(after, None, now, event)
    await judge_late(context, before, now)
    plan = await compute_rule(context, form, lambda it: next_plan(it, before, after, now))
    planned = replace(after, planned_through=plan.planned_through, plan_at=plan.plan_at)
    return await context.store.update_schedule(planned, plan, now, event)


async def judge_late(context: OperationContext, before: Schedule, now: datetime) -> None:
    """Give late occurrences of the old rule their disposition before the rule changes.

    They exist only when no planner ran for longer than the horizon.
    """
    if before.status is not ScheduleStatus.ACTIVE or before.planned_through >= now:
        return
    try:
        late = await context.compute(lambda it: first_plan(it, before, now))
    except Exception:  # noqa: BLE001  a user's own function of time may raise anything
        return
    await context.store.apply_plans([late])


def first_plan(context: OperationContext, schedule: Schedule, now: datetime) -> Plan:
    if schedule.status is ScheduleStatus.PAUSED:
        return no_plan(schedule, schedule.planned_through)
    return plans.plan(schedule, now, context.horizon, context.randomness.ids, context.compile)


def next_plan(context: OperationContext, before: Schedule, after: Schedule, now: datetime) -> Plan:
    """The plan of an edited schedule from now on; occurrences missed while paused become skips."""
    was_paused = before.status is ScheduleStatus.PAUSED
    # A pause takes back planned jobs, so no later occurrence has a disposition.
    since = min(before.planned_through, before.updated_at if was_paused else now)
    if after.status is ScheduleStatus.PAUSED:
        return no_plan(after, since)
    begun = replace(after, planned_through=since)
    passed = PASSED_PAUSED if was_paused else None
    try:
        return plans.replan(
            begun, now, context.horizon, context.randomness.ids, passed, context.compile
        )
    except TooCostly:
        raise
    except BadRecurrence:
        # The rule exists only in another program, whose planner continues.
        return replace(no_plan(after, now), plan_at=now)


def no_plan(schedule: Schedule, planned_through: datetime) -> Plan:
    return Plan(
        schedule_id=schedule.id,
        version=schedule.version,
        planned_through=planned_through,
        plan_at=None,
    )


async def delete(context: OperationContext, request: ScheduleById) -> Message:
    """Cancel its waiting jobs; its history stays readable."""
    if not await context.store.delete_schedule(schedule_id(request.id), context.clock.now()):
        raise NotFound(plans.SCHEDULE_GONE)
    return DELETED


async def show(context: OperationContext, request: ScheduleById) -> ScheduleAnswer:
    schedule = await get_schedule(context, request.id)
    return (await schedule_answers(context, [schedule]))[0]


async def preview(context: OperationContext, request: PreviewSchedule) -> Preview:
    """The next occurrences of a schedule, of which a paused one makes no jobs.

    None for a schedule that fires on events. Raises `Invalid` where they are too costly to find.
    """
    schedule = await get_schedule(context, request.id)
    now = context.clock.now()
    try:
        return await context.compute(lambda it: build_preview(it, schedule, request.count, now))
    except TooCostly as error:
        raise too_costly(rule_form(schedule.recurrence), error) from None


def build_preview(
    context: OperationContext, schedule: Schedule, count: int, now: datetime
) -> Preview:
    rule = context.compile(schedule.recurrence)
    occurrences: list[datetime] = []
    bounded, at = plans.bounded_recurrence(schedule, context.compile), now
    while len(occurrences) < count and (following := bounded.after(at)) is not None:
        occurrences.append(following)
        at = following
    return Preview(
        occurrences=tuple(occurrences),
        description=rule.describe(),
        notes=tuple(note.text for note in rule.notes(now)) if occurrences else (),
    )


async def list_schedules(context: OperationContext, request: ListSchedules) -> SchedulesAnswer:
    """Newest first."""
    page = await context.store.schedules(
        ScheduleFilter(
            status=request.status,
            q=request.q or None,
            limit=request.limit,
            offset=(request.page - 1) * request.limit,
        )
    )
    return SchedulesAnswer(
        schedules=tuple(await schedule_answers(context, page.items)),
        page=request.page,
        limit=request.limit,
        total=page.total or 0,
    )


async def trigger(context: OperationContext, request: ScheduleById) -> Triggered:
    """Create one job of the schedule now, independent of its occurrences."""
    await context.check_capacity()
    schedule = await get_schedule(context, request.id)
    with context.sending() as span:
        now, id = context.clock.now(), context.fresh_id()
        job = plans.triggered_job(schedule, now, id, context.sender)
        span.describe([job])
        answer = Triggered(job.id)
        keyed = context.keyed_request(lambda _: answer, [job.id])
        await context.store.trigger(schedule.id, job, keyed)
    return answer


async def get_schedule(context: OperationContext, id: str) -> Schedule:
    schedule = await context.store.schedule(ScheduleId(schedule_id(id)))
    if schedule is None:
        raise NotFound(plans.SCHEDULE_GONE)
    return schedule


async def schedule_answers(
    context: OperationContext, schedules: Sequence[Schedule]
) -> list[ScheduleAnswer]:
    """Schedules with their next occurrences; long searches run in a thread."""
    now = context.clock.now()
    at: dict[ScheduleId, datetime | None] = {}
    costly: list[Schedule] = []
    for schedule in schedules:
        try:
            at[schedule.id] = upcoming(context.with_budget(Budget(SHOWN_STEPS_MAX)), schedule, now)
        except TooCostly:
            costly.append(schedule)
    if costly:
        at |= await context.compute_aside(
            lambda it: {schedule.id: upcoming_if_any(it, schedule, now) for schedule in costly}
        )
    return [schedule_answer(schedule, at[schedule.id]) for schedule in schedules]


def upcoming(context: OperationContext, schedule: Schedule, now: datetime) -> datetime | None:
    """The next occurrence; None also for a rule that fails here. Raises `TooCostly`."""
    try:
        return plans.next_at(schedule, now, context.compile)
    except TooCostly:
        raise
    except Exception:  # noqa: BLE001  a user's own function of time may raise anything
        return None


def upcoming_if_any(
    context: OperationContext, schedule: Schedule, now: datetime
) -> datetime | None:
    try:
        return upcoming(context, schedule, now)
    except TooCostly:
        return None
