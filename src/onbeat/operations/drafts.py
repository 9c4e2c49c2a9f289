"""From what a caller wants to the record that is stored: defaults, anchor, and what must hold."""

from datetime import datetime

from msgspec import UNSET
from msgspec.structs import replace

from onbeat.model.errors import BadRecurrence, Invalid
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.schedule import Schedule, ScheduleStatus
from onbeat.model.target import HandlerTarget, HttpTarget, Target
from onbeat.operations.operator import Operator, checked_target
from onbeat.recurrence import anchor, needs_anchor, tzdata_version
from onbeat.rules.planning import first_watermark, next_at
from onbeat.rules.urls import checked_url
from onbeat.wire.jobs import JobDraft
from onbeat.wire.recurrences import FORM_OF_KIND, anchored_like, bad_rule
from onbeat.wire.schedules import BAD_URL, ScheduleBody, ScheduleDraft, read_schedule
from onbeat.wire.targets import read_retry

EDITS = ("version", "updated_at")
"""Fields that differ after every edit, also one that changed nothing."""

PLANNED_BY = (
    "recurrence",
    "starts_at",
    "ends_at",
    "status",
    "jitter",
    "catch_up",
    "grace",
    "expires_after",
)
"""Fields that decide which jobs a schedule has, and until when they may start."""


def new_draft(operator: Operator, body: ScheduleBody) -> ScheduleDraft:
    """What the body of a new schedule says."""
    task = body.target.task if body.target else UNSET
    policy = operator.retry if task is UNSET else operator.retry_of(HandlerTarget(task))
    return checked_draft(operator, read_schedule(body, policy), body)


def changes_draft(operator: Operator, body: ScheduleBody, before: Schedule) -> ScheduleDraft:
    """What the body changes of a schedule."""
    draft = read_schedule(body, operator.retry_of(before.target), before)
    return checked_draft(operator, draft, body)


def checked_draft(operator: Operator, draft: ScheduleDraft, body: ScheduleBody) -> ScheduleDraft:
    """The draft with a target that can be called; faults name the form in which it was sent."""
    if draft.target is UNSET:
        return draft
    if body.callback_url is UNSET and body.target is not UNSET:
        return replace(draft, target=checked_target(operator, draft.target, "target.http"))
    return replace(draft, target=checked_callback(operator, draft.target))


def checked_callback(operator: Operator, target: Target) -> Target:
    if isinstance(target, HttpTarget):
        try:
            checked_url(target.url)
        except Invalid as error:
            raise Invalid(BAD_URL, detail=str(error)) from None
    return checked_target(operator, target, "", url_field="callback_url")


def created_from(
    operator: Operator, draft: ScheduleDraft, now: datetime, id: ScheduleId | None = None
) -> Schedule:
    """A new schedule; what the draft leaves open comes from its task, else from the service."""
    if draft.name is UNSET or draft.recurrence is UNSET or draft.target is UNSET:
        raise Invalid("A schedule needs a name, a recurrence and a target")
    defaults = operator.defaults_of(draft.target)
    bare = Schedule(
        id=id or ScheduleId(operator.fresh_id()),
        name=draft.name,
        recurrence=draft.recurrence,
        target=draft.target,
        created_at=now,
        updated_at=now,
        planned_through=now,
        plan_at=None,
        queue=defaults.queue or "default",
        priority=defaults.priority or 0,
        retry=operator.retry_of(draft.target),
        timeout=defaults.timeout or None,
        zone_data=tzdata_version(),
    )
    schedule = anchored(replace(bare, **draft.given()), now)
    check_bounds(schedule)
    return replace(schedule, planned_through=first_watermark(now, schedule.starts_at))


def edited_from(schedule: Schedule, draft: ScheduleDraft, now: datetime) -> Schedule:
    """The schedule with the given fields changed."""
    given = draft.given()
    edited = anchored(replace(schedule, **given), now)
    check_bounds(edited)
    return revived(schedule, replace(edited, version=schedule.version + 1, updated_at=now))


def declared_from(
    operator: Operator, before: Schedule, draft: ScheduleDraft, now: datetime
) -> Schedule:
    """The schedule as the draft alone describes it, over the one that has its key.

    Its identity, its anchor and whether it is paused stay.
    """
    if draft.recurrence is not UNSET:
        draft = replace(draft, recurrence=anchored_like(before.recurrence, draft.recurrence))
    status = before.status if draft.status is UNSET else draft.status
    declared = replace(
        created_from(operator, draft, now, before.id),
        status=status,
        created_at=before.created_at,
        planned_through=before.planned_through,
        plan_at=before.plan_at,
        version=before.version + 1,
    )
    return revived(before, declared)


def anchored(schedule: Schedule, now: datetime) -> Schedule:
    """The schedule with a rule that knows when it begins."""
    if not needs_anchor(schedule.recurrence):
        return schedule
    try:
        return replace(schedule, recurrence=anchor(schedule.recurrence, now))
    except BadRecurrence as error:
        raise bad_rule(rule_form(schedule), error) from None


def revived(before: Schedule, after: Schedule) -> Schedule:
    """A finished schedule goes on when its rule has changed."""
    if after.status is ScheduleStatus.FINISHED and is_ruled_anew(before, after):
        return replace(after, status=ScheduleStatus.ACTIVE)
    return after


def check_bounds(schedule: Schedule) -> None:
    starts_at, ends_at = schedule.starts_at, schedule.ends_at
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise Invalid("ends_at must not be before starts_at", "ends_at")


def check_fires(operator: Operator, schedule: Schedule, now: datetime) -> None:
    """Refuse a rule without any occurrence from now on: nobody means that."""
    active = replace(schedule, status=ScheduleStatus.ACTIVE)
    if next_at(active, now, operator.read) is None:
        raise Invalid(
            "The schedule would never run: its rule has no occurrence from now on,"
            " within starts_at and ends_at",
            rule_form(schedule),
        )


def rule_form(schedule: Schedule) -> str:
    return FORM_OF_KIND.get(schedule.recurrence.kind, "recurrence")


def is_ruled_anew(before: Schedule, after: Schedule) -> bool:
    """Whether an edit changed when the schedule fires."""
    fields = ("recurrence", "starts_at", "ends_at")
    return any(getattr(before, field) != getattr(after, field) for field in fields)


def is_planned_anew(before: Schedule, after: Schedule) -> bool:
    """Whether an edit changed which jobs the schedule has, so that they are made again."""
    return any(getattr(before, field) != getattr(after, field) for field in PLANNED_BY)


def same_but_for_edits(before: Schedule, after: Schedule) -> bool:
    return before == replace(after, **{field: getattr(before, field) for field in EDITS})


def job_from(operator: Operator, draft: JobDraft, now: datetime, id: str, prefix: str = "") -> Job:
    """A new job; what the draft leaves open comes from its task, else from the service."""
    target = checked_target(operator, draft.target, f"{prefix}target.http")
    defaults = operator.defaults_of(target)
    due_at = draft.run_at or (now + draft.delay if draft.delay else now)
    if draft.expires_at is not None and draft.expires_at <= max(due_at, now):
        raise Invalid(
            f"{prefix}expires_at must be later than the job is due", f"{prefix}expires_at"
        )
    policy = operator.retry_of(target)
    return Job(
        id=JobId(id),
        target=target,
        created_at=now,
        due_at=due_at,
        queue=draft.queue or defaults.queue or "default",
        priority=defaults.priority or 0 if draft.priority is UNSET else draft.priority,
        unique=draft.unique,
        retry=policy if draft.retry is UNSET else read_retry(draft.retry, policy, f"{prefix}retry"),
        timeout=defaults.timeout or None if draft.timeout is UNSET else draft.timeout,
        expires_at=draft.expires_at,
        start_by=draft.expires_at,
        after=tuple(dict.fromkeys(draft.after)),
        labels=draft.labels,
        group=draft.group or defaults.group or None,
    )
