"""Builds stored records from drafts: defaults, anchor, and validation."""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any, cast

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from onbeat.model.errors import BadRecurrence, Invalid, TooCostly
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job, JobSpec
from onbeat.model.limits import LOOP_STEPS_MAX
from onbeat.model.reaction import Gather
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import PauseReason, Schedule, ScheduleSpec, ScheduleStatus
from onbeat.model.target import HandlerTarget, HttpTarget, NotifyTarget, Target
from onbeat.operations.conditions import check_expiry, check_text, stored_condition
from onbeat.operations.context import (
    OperationContext,
    checked_http_target,
    checked_target,
)
from onbeat.operations.encryption import encrypted_target
from onbeat.ports.expressions import Expression, ValueKind
from onbeat.recurrence import (
    Budget,
    anchor,
    compile_spec,
    needs_anchor,
    tzdata_version,
    without_idle_zone,
)
from onbeat.rules.cells import slot_of_digest, slot_of_schedule, stamped
from onbeat.rules.condition import ANY_JOB, known_of_schedule, known_of_sent
from onbeat.rules.declarations import declared_status
from onbeat.rules.event_patterns import NAMES
from onbeat.rules.flows import UNLINKED, Linked
from onbeat.rules.notices import known_to
from onbeat.rules.origins import Fields, fields_under, with_credentials_of
from onbeat.rules.plans import first_watermark, next_at
from onbeat.rules.reactions import Compilers, check_reaction, compile_reaction
from onbeat.rules.submission_keys import refuse_reserved
from onbeat.rules.urls import checked_url
from onbeat.rules.windows import opening_at_or_after
from onbeat.wire.jobs import JobDraft
from onbeat.wire.recurrences import FORM_OF_KIND, anchored_like, bad_rule
from onbeat.wire.schedules import BAD_URL, ScheduleBody, ScheduleDraft, read_schedule
from onbeat.wire.targets import read_retry
from onbeat.wire.values import joined_labels

EDITS = ("version", "updated_at")
"""Fields that differ after every edit, even one that changed nothing."""

PLANNED_BY = (
    "starts_at",
    "ends_at",
    "status",
    "jitter",
    "catch_up",
    "grace",
    "expires_after",
    "window",
)
"""Fields beside the rule that decide which jobs it has, and until when they may start."""


FLAT_FIELDS = Fields("callback_url", "headers", "target.http.secret")
"""The credential fields of a callback in its flat form, which has no secret."""


def new_draft(context: OperationContext, body: ScheduleBody) -> ScheduleDraft:
    """A draft from a whole schedule's body; `***` in it stands for stored credentials."""
    task = body.target.task if body.target else UNSET
    policy = context.retry if task is UNSET else context.retry_of(HandlerTarget(task))
    return checked_draft(context, read_schedule(body, policy, None, context.budget), body)


def changes_draft(context: OperationContext, body: ScheduleBody, before: Schedule) -> ScheduleDraft:
    """A draft of the body's changes to a schedule."""
    draft = read_schedule(body, context.retry_of(before.target), before, context.budget)
    return with_stored(context, before, checked_draft(context, draft, body), fields_of(body))


def with_stored(
    context: OperationContext, before: Schedule | None, draft: ScheduleDraft, fields: Fields
) -> ScheduleDraft:
    """The draft with the stored credentials of the schedule, all of them encrypted.

    Raises `Invalid` where a placeholder has no stored credential, and for its condition.
    """
    if draft.options.get("condition") is not None:
        known = before.condition if before else None
        condition = stored_condition(context, draft.options["condition"], known)
        draft = replace(draft, options=draft.options | {"condition": condition})
    if draft.target is UNSET:
        return draft
    stored = before.target if before else None
    target = with_credentials_of(stored, draft.target, fields)
    return replace(draft, target=encrypted_target(context.cipher, target, stored))


def fields_of(body: ScheduleBody) -> Fields:
    """The field names in the form in which the target was sent."""
    if not is_nested(body):
        return FLAT_FIELDS
    kind = "http" if body.target and body.target.message is UNSET else "message"
    return fields_under(f"target.{kind}.")


def is_nested(body: ScheduleBody) -> bool:
    return body.callback_url is UNSET and body.target is not UNSET


def checked_draft(
    context: OperationContext, draft: ScheduleDraft, body: ScheduleBody
) -> ScheduleDraft:
    """The draft with a target that can be called; errors name fields in the form that was sent."""
    if draft.target is UNSET:
        return draft
    check_arguments(context, draft.target, "target.kwargs")
    if is_nested(body):
        return replace(draft, target=checked_target(context, draft.target, "target.http", None))
    return replace(draft, target=checked_callback(context, draft.target))


def check_arguments(context: OperationContext, target: Target, field: str) -> None:
    """Raises `Invalid` for an argument of a remote task that would be lost on its way there."""
    if isinstance(target, HandlerTarget) and target.task in context.remote_tasks:
        names = msgspec.json.decode(target.kwargs, type=dict[str, msgspec.Raw])
        refuse_reserved(target.task, names, field)


def checked_callback(context: OperationContext, target: Target) -> Target:
    if not isinstance(target, HttpTarget):
        return checked_target(context, target, "", None)
    try:
        url = checked_url(target.url)
    except Invalid as error:
        raise Invalid(BAD_URL, detail=str(error)) from None
    return checked_http_target(context, target, url, "", "callback_url")


def build_schedule(
    context: OperationContext, draft: ScheduleDraft, now: datetime, id: ScheduleId | None = None
) -> Schedule:
    """A new schedule; fields missing in the draft come from its task, else from the service."""
    if draft.name is UNSET or draft.recurrence is UNSET or draft.target is UNSET:
        raise Invalid("A schedule needs a name, a recurrence and a target")
    bare = Schedule(
        id=id or ScheduleId(context.fresh_id()),
        name=draft.name,
        recurrence=draft.recurrence,
        target=draft.target,
        created_at=now,
        updated_at=now,
        planned_through=now,
        plan_at=None,
        retry=context.retry_of(draft.target),
        zone_data=tzdata_version(),
    )
    given = with_task_options(context, draft.target, ScheduleSpec, draft.given_fields())
    schedule = anchored(replace(bare, **given), now, context.budget)
    if id is None and context.store.has_slots:
        schedule = replace(schedule, id=id_in_slot(context, schedule))
    check_bounds(schedule)
    check_reaction(schedule)
    check_expressions(context, schedule)
    check_condition(context, schedule)
    check_texts(context, schedule)
    return replace(schedule, planned_through=first_watermark(now, schedule.starts_at))


def id_in_slot(context: OperationContext, schedule: Schedule) -> ScheduleId:
    """The id with the slot of the key, else that of the request, so that a repeat has the same."""
    slot = slot_of_schedule(schedule.id, schedule.key)
    if schedule.key is None and context.key is not None:
        slot = slot_of_digest(context.key.digest)
    return ScheduleId(stamped(schedule.id, slot))


def edit_schedule(
    context: OperationContext, schedule: Schedule, draft: ScheduleDraft, now: datetime
) -> Schedule:
    """The schedule with the given fields changed.

    One that its program no longer declares, and that is resumed, is that program's no more. A
    status that stays as it is, as in an answer that is sent back, is no pause by hand.
    """
    given = draft.given_fields()
    if draft.status is schedule.status:
        del given["pause_reason"]
    if draft.status is ScheduleStatus.ACTIVE and schedule.pause_reason is PauseReason.ORPHANED:
        given |= {"owner": None, "release": None}
    edited = anchored(like_before(schedule, replace(schedule, **given)), now, context.budget)
    check_bounds(edited)
    check_reaction(edited)
    if reaction_changed(schedule, edited):
        check_expressions(context, edited)
    kind_changed = bool(edited.on) != bool(schedule.on)
    if edited.target != schedule.target or kind_changed:
        check_texts(context, edited)
    if edited.condition != schedule.condition or kind_changed:
        check_condition(context, edited)
    return reactivate(schedule, replace(edited, version=schedule.version + 1, updated_at=now))


def redeclare_schedule(
    context: OperationContext, before: Schedule, draft: ScheduleDraft, now: datetime
) -> Schedule:
    """The schedule as the draft alone describes it, replacing the one with the same key.

    Its identity, its anchor and a pause by hand stay.
    """
    if draft.recurrence is not UNSET:
        draft = replace(draft, recurrence=anchored_like(before.recurrence, draft.recurrence))
    gather = draft.options.get("gather")
    if gather is not None:
        draft = replace(draft, options=draft.options | {"gather": gather_like(before, gather)})
    if draft.status is UNSET:
        paused = None if draft.paused is UNSET else draft.paused
        status, pause_reason = declared_status(before, paused=paused)
    else:
        status, pause_reason = draft.status, None
    declared = replace(
        build_schedule(context, draft, now, before.id),
        status=status,
        pause_reason=pause_reason,
        created_at=before.created_at,
        planned_through=before.planned_through,
        plan_at=before.plan_at,
        version=before.version + 1,
    )
    return reactivate(before, declared)


def like_before(before: Schedule, edited: Schedule) -> Schedule:
    """The edited schedule; a rule `gather.until` that stayed keeps its anchor."""
    if edited.gather is None:
        return edited
    return replace(edited, gather=gather_like(before, edited.gather))


def gather_like(before: Schedule, gather: Gather) -> Gather:
    old = None if before.gather is None else before.gather.until
    if gather.until is None or old is None:
        return gather
    return replace(gather, until=anchored_like(old, gather.until))


def anchored(schedule: Schedule, now: datetime, budget: Budget | None = None) -> Schedule:
    """The schedule with an anchor where a rule of it has no start."""
    rule, gather = schedule.recurrence, schedule.gather
    if needs_anchor(rule):
        schedule = replace(schedule, recurrence=anchored_rule(rule, now, budget))
    if gather is not None and gather.until is not None and needs_anchor(gather.until):
        until = anchored_until(gather.until, now)
        schedule = replace(schedule, gather=replace(gather, until=until))
    return schedule


def anchored_until(until: RecurrenceSpec, now: datetime) -> RecurrenceSpec:
    try:
        return anchor(until, now, Budget(LOOP_STEPS_MAX))
    except BadRecurrence as error:
        raise bad_rule("gather.until", error) from None


def anchored_rule(rule: RecurrenceSpec, now: datetime, budget: Budget | None) -> RecurrenceSpec:
    try:
        return anchor(rule, now, budget)
    except TooCostly:
        raise
    except BadRecurrence as error:
        raise bad_rule(rule_form(rule), error) from None


def reactivate(before: Schedule, after: Schedule) -> Schedule:
    """Reactivate a finished schedule whose rule has changed."""
    if after.status is ScheduleStatus.FINISHED and rule_changed(before, after):
        return replace(after, status=ScheduleStatus.ACTIVE)
    return after


def check_bounds(schedule: Schedule) -> None:
    starts_at, ends_at = schedule.starts_at, schedule.ends_at
    if starts_at is not None and ends_at is not None and ends_at < starts_at:
        raise Invalid("ends_at must not be before starts_at", "ends_at")
    check_expiry(schedule.condition, schedule.expires_after, "expires_after")


def check_expressions(context: OperationContext, schedule: Schedule) -> None:
    """Raises `Invalid` for an expression that does not compile."""
    compile_reaction(
        schedule,
        Compilers(
            condition=partial(compile_expression, context, ValueKind.TRUTH),
            key=partial(compile_expression, context, ValueKind.TEXT),
        ),
    )


def check_condition(context: OperationContext, schedule: Schedule) -> None:
    """Raises `Invalid` for a condition of its own that reads what its jobs do not have."""
    condition = schedule.condition
    if condition is not None and condition != context.defaults_of(schedule.target).fields.get(
        "condition"
    ):
        check_text(context, condition, known_of_schedule(reacts=bool(schedule.on)))


def check_texts(context: OperationContext, schedule: Schedule) -> None:
    """Raises `Invalid` for a notice whose texts read what jobs of such a schedule do not have."""
    target = schedule.target
    if isinstance(target, NotifyTarget):
        known = known_to(schedule)
        context.notices.check_texts(target, "target.notify.", known, "target.notify.to")


def compile_expression(
    context: OperationContext, kind: ValueKind, text: str, field: str
) -> Expression:
    return context.expressions.compile(text, NAMES, field, kind)


def check_fires(context: OperationContext, schedule: Schedule, now: datetime) -> None:
    """Refuse a rule without future occurrences, which is always a mistake."""
    if schedule.on:
        check_until(schedule.gather, now)
        return
    active = replace(schedule, status=ScheduleStatus.ACTIVE)
    if next_at(active, now, context.compile) is None:
        raise Invalid(
            "The schedule would never run: its rule has no occurrence from now on,"
            " within starts_at and ends_at",
            rule_form(schedule.recurrence),
        )


def check_until(gather: Gather | None, now: datetime) -> None:
    """Refuse a rule without future instants, and one that would hold up the router."""
    if gather is None or gather.until is None:
        return
    try:
        instant = compile_spec(gather.until, Budget(LOOP_STEPS_MAX)).after(now)
    except BadRecurrence as error:
        raise bad_rule("gather.until", error) from None
    if instant is None:
        raise Invalid("gather.until has no instant from now on", "gather.until")


def rule_form(rule: RecurrenceSpec | UnsetType) -> str:
    """The field of a body that holds such a rule."""
    return "recurrence" if rule is UNSET else FORM_OF_KIND.get(rule.kind, "recurrence")


def rule_changed(before: Schedule, after: Schedule) -> bool:
    """Whether an edit changed when the schedule fires."""
    fields = ("starts_at", "ends_at")
    changed = any(getattr(before, field) != getattr(after, field) for field in fields)
    return changed or instants_changed(before, after) or reaction_changed(before, after)


def instants_changed(before: Schedule, after: Schedule) -> bool:
    """Whether the rules can have different instants, as another zone of elapsed time cannot."""
    return without_idle_zone(before.recurrence) != without_idle_zone(after.recurrence)


def reaction_changed(before: Schedule, after: Schedule) -> bool:
    fields = ("on", "cancel_on", "gather", "delay")
    return any(getattr(before, field) != getattr(after, field) for field in fields)


def plan_changed(before: Schedule, after: Schedule) -> bool:
    """Whether an edit changed the schedule's jobs, so that they must be planned again."""
    changed = any(getattr(before, field) != getattr(after, field) for field in PLANNED_BY)
    return changed or instants_changed(before, after)


def same_but_for_edits(before: Schedule, after: Schedule) -> bool:
    return before == replace(after, **{field: getattr(before, field) for field in EDITS})


def job_from(
    context: OperationContext,
    draft: JobDraft,
    now: datetime,
    id: str,
    prefix: str = "",
    linked: Linked = UNLINKED,
) -> Job:
    """A new job; fields missing in the draft come from its task, else from the service."""
    target = checked_target(context, draft.target, f"{prefix}target.http")
    check_arguments(context, target, f"{prefix}kwargs")
    kind = "http" if isinstance(target, HttpTarget) else "message"
    target = with_credentials_of(None, target, fields_under(f"{prefix}target.{kind}."))
    target = encrypted_target(context.cipher, target, field=f"{prefix}target")
    due_at = draft.run_at or (now + draft.delay if draft.delay else now)
    expires_at = draft.options.get("expires_at")
    if expires_at is not None and expires_at <= max(due_at, now):
        raise Invalid(
            f"{prefix}expires_at must be later than the job is due", f"{prefix}expires_at"
        )
    policy = context.retry_of(target)
    given = with_task_options(context, target, JobSpec, draft.options, prefix)
    if given.get("unique") is None:
        given.pop("unique_for", None)  # the task's, for those of its jobs that have a key
    # A task's own condition is also that of jobs which are made in other ways.
    known = known_of_sent(draft.after) if "condition" in draft.options else ANY_JOB
    condition = stored_condition(context, given.get("condition"), prefix=prefix, known=known)
    check_expiry(condition, expires_at, "expires_at", prefix)
    given["condition"] = condition
    sender = context.sender
    return Job(
        id=JobId(id),
        target=target,
        created_at=now,
        due_at=opening_at_or_after(given.get("window", ()), due_at),
        retry=policy if draft.retry is UNSET else read_retry(draft.retry, policy, f"{prefix}retry"),
        start_by=expires_at,
        after=linked.after,
        edges=linked.edges,
        flow=linked.flow,
        awaits_flow=linked.awaits_flow,
        traceparent=None if sender is None else sender.parent,
        tracestate=None if sender is None else sender.state,
        **given,
    )


def with_task_options(
    context: OperationContext,
    target: Target,
    record: type[JobSpec] | type[ScheduleSpec],
    given: Mapping[str, Any],
    prefix: str = "",
) -> dict[str, Any]:
    """What is given, with the defaults of the target's task for the other fields of `record`.

    Mappings of both are joined.
    """
    declared = {
        name: value
        for name, value in context.defaults_of(target).fields.items()
        if value and name in record.__struct_fields__
    }
    joined = {
        name: joined_labels(cast("dict[str, str]", value), given.get(name) or {}, prefix + name)
        for name, value in declared.items()
        if isinstance(value, dict)
    }
    return {**declared, **given, **joined}
