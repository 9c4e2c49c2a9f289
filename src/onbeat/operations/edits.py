"""What an edit of a schedule would do. Nothing here changes anything."""

from datetime import datetime
from typing import Final

from msgspec import UNSET

from onbeat.model.errors import BadRecurrence, TooCostly
from onbeat.model.job import Job
from onbeat.model.limits import PAGE_LIMIT_MAX
from onbeat.model.owner import NOBODY
from onbeat.model.page import OccurrenceFilter
from onbeat.model.schedule import Schedule
from onbeat.operations import schedules
from onbeat.operations.context import OperationContext
from onbeat.operations.drafts import (
    build_schedule,
    changes_draft,
    check_fires,
    edit_schedule,
    fields_of,
    new_draft,
    plan_changed,
    rule_changed,
    rule_form,
    same_but_for_edits,
    with_stored,
)
from onbeat.recurrence.describe import describe
from onbeat.rules import plans
from onbeat.wire.outcomes import DiffPut, DiffSchedule, FieldChange, ScheduleDiff, changes_between
from onbeat.wire.recurrences import Preview, form_of
from onbeat.wire.schedules import ScheduleDraft, schedule_answer

SHOWN = 10
WITH_CREDENTIALS: Final = ("target", "condition")
"""The fields that have credentials, which answers hide."""


async def diff(context: OperationContext, request: DiffSchedule) -> ScheduleDiff:
    """What an update with the same body would change. Raises `Invalid` where that would."""
    before = await schedules.get_schedule(context, request.id)
    now = context.clock.now()

    def change(operator: OperationContext, schedule: Schedule, at: datetime) -> Schedule:
        draft = changes_draft(operator, request.changes, schedule)
        return edit_schedule(operator, schedule, draft, at)

    after = await schedules.apply_change(context, change, before, now)
    if rule_changed(before, after):
        await check_rule(context, after, now)
    return await diff_between(context, before, after, now)


async def put_diff(context: OperationContext, request: DiffPut) -> ScheduleDiff:
    """What a PUT by key would change. Raises `Invalid` where the PUT would."""
    body = schedules.keyed_body(request.key, request.schedule)
    form = form_of(body)
    draft = await schedules.compute_rule(context, form, lambda it: new_draft(it, body))
    before = await context.store.schedule_by_key(request.key)
    given = schedules.keyed_draft(request.key, draft)
    owned = schedules.owned_draft(before, given, NOBODY)
    stored = with_stored(context, before, owned, fields_of(body))
    now = context.clock.now()
    if before is None:
        return await diff_of_new(context, stored, now)
    after = await schedules.redeclare(context, before, stored, now)
    return await diff_between(context, before, after, now)


async def diff_of_new(
    context: OperationContext, draft: ScheduleDraft, now: datetime
) -> ScheduleDiff:
    await context.check_capacity()
    form = rule_form(draft.recurrence)
    schedule = await schedules.compute_rule(
        context, form, lambda it: build_schedule(it, draft, now)
    )
    await check_rule(context, schedule, now)
    preview = await schedules.compute_rule(context, form, lambda it: preview_of(it, schedule, now))
    plan = await schedules.compute_rule(
        context, form, lambda it: schedules.first_plan(it, schedule, now)
    )
    return ScheduleDiff(
        created=True,
        changes=(),
        cancels=0,
        plans=len(plan.jobs),
        next_before=None,
        next_after=await next_of(context, schedule, now),
        description=preview.description,
        notes=preview.notes,
        occurrences=preview.occurrences,
    )


async def check_rule(context: OperationContext, schedule: Schedule, now: datetime) -> None:
    form = rule_form(schedule.recurrence)
    await schedules.compute_rule(context, form, lambda it: check_fires(it, schedule, now))


async def diff_between(
    context: OperationContext, before: Schedule, after: Schedule, now: datetime
) -> ScheduleDiff:
    form = rule_form(after.recurrence)
    preview = await schedules.compute_rule(context, form, lambda it: preview_of(it, after, now))
    planned, cancelled, more = await plan_of(context, before, after, now)
    nexts = [await next_of(context, one, now) for one in (before, after)]
    return ScheduleDiff(
        changes=changes_of(before, after),
        cancels=cancelled,
        plans=planned,
        more=more or UNSET,
        next_before=nexts[0],
        next_after=nexts[1],
        description=preview.description,
        notes=preview.notes,
        occurrences=preview.occurrences,
    )


def changes_of(before: Schedule, after: Schedule) -> tuple[FieldChange, ...]:
    """A credential that changes looks as before, and is told nevertheless."""
    if same_but_for_edits(before, after):
        return ()
    old, new = schedule_answer(before, None), schedule_answer(after, None)
    changes = changes_between(old, new)
    shown_anyway = {change.field for change in changes}
    shown = new.to_dict()
    hidden = [
        FieldChange(field, shown[field], shown[field])
        for field in WITH_CREDENTIALS
        if field not in shown_anyway and getattr(before, field) != getattr(after, field)
    ]
    return (*changes, *hidden)


async def plan_of(
    context: OperationContext, before: Schedule, after: Schedule, now: datetime
) -> tuple[int, int, bool]:
    """How many jobs the edit plans and cancels, and whether there are more than were read."""
    if same_but_for_edits(before, after) or not plan_changed(before, after):
        return 0, 0, False
    form = rule_form(after.recurrence)
    plan = await schedules.compute_rule(
        context, form, lambda it: schedules.next_plan(it, before, after, now)
    )
    waiting = await context.store.occurrence_jobs(
        OccurrenceFilter(schedule_id=before.id, ended=False, limit=PAGE_LIMIT_MAX)
    )
    void = [job for job in waiting.items if is_replanned(job, now)]
    return len(plan.jobs), len(void), len(waiting.items) == PAGE_LIMIT_MAX


def is_replanned(job: Job, now: datetime) -> bool:
    """Whether a changed rule cancels the job: it waits for a later occurrence, and never began."""
    is_later = job.occurrence is not None and job.occurrence > now
    return is_later and job.worker is None and (job.token == 0 or job.start_by is not None)


def preview_of(context: OperationContext, schedule: Schedule, now: datetime) -> Preview:
    try:
        return schedules.build_preview(context, schedule, SHOWN, now)
    except TooCostly:
        raise
    except BadRecurrence:
        # A function of another program.
        return Preview(occurrences=(), description=describe(schedule.recurrence), notes=())


async def next_of(context: OperationContext, schedule: Schedule, now: datetime) -> datetime | None:
    try:
        return await context.compute(lambda it: plans.next_at(schedule, now, it.compile))
    except BadRecurrence:
        return None
