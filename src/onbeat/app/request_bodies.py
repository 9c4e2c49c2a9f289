"""Jobs and schedules of a program as bodies of requests."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

import msgspec
from msgspec import UNSET

from onbeat.model.condition import Condition, Window
from onbeat.model.errors import Invalid
from onbeat.model.flow import SENT
from onbeat.model.held_key import ALWAYS
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobSpec
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import (
    CommandTarget,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    NotifyTarget,
    Target,
)
from onbeat.recurrence.instants import read_instant
from onbeat.wire.conditions import ConditionBody, WindowBody, one_window_answer
from onbeat.wire.jobs import JobBody, edge_answer
from onbeat.wire.options import ALWAYS_TEXT
from onbeat.wire.reactions import gather_body, pattern_body
from onbeat.wire.recurrences import FORM_OF_KIND, start_of
from onbeat.wire.schedules import ScheduleBody, ScheduleDraft
from onbeat.wire.targets import (
    HttpBody,
    MessageBody,
    NotifyBody,
    RetryBody,
    TargetBody,
    shown_success,
)


def job_body(job: Job, names: Mapping[JobId, str]) -> JobBody:
    """`names` are those of the jobs in the same request, which get other ids there."""
    fields = {
        name: wire_form(getattr(job, name))
        for name in JobBody.__struct_fields__
        if name in JobSpec.__struct_fields__ and name not in {"target", "after"}
    }
    if job.unique is None:
        fields["unique_for"] = UNSET  # its task's, for jobs with a key
    after = tuple(edge_answer(names.get(id, id), job.edge_to(id)) for id in job.after)
    if job.awaits_flow is not None:
        after += (edge_answer(SENT, job.edge_to(job.awaits_flow)),)
    return JobBody(
        target=target_body(job.target), run_at=job.due_at, after=after or UNSET, **fields
    )


def wire_form(value: object) -> Any:
    """The value in a request body; UNSET for none, and for a span of no length."""
    match value:
        case None:
            return UNSET
        case timedelta() if value == ALWAYS:
            return ALWAYS_TEXT
        case timedelta():
            return value.total_seconds() or UNSET
        case RetryPolicy():
            return RetryBody(**msgspec.structs.asdict(value))
        case Condition():
            return condition_body(value)
        case tuple():
            items = cast("tuple[object, ...]", value)
            return tuple(window_body(one) if isinstance(one, Window) else one for one in items)
        case _:
            return value


def condition_body(condition: Condition) -> ConditionBody:
    postpone = condition.postpone
    return ConditionBody(
        text=condition.text or UNSET,
        predicate=condition.predicate or UNSET,
        ask=UNSET if condition.ask is None else target_body(condition.ask),
        otherwise=UNSET if postpone is None else postpone.total_seconds(),
    )


def window_body(window: Window) -> WindowBody:
    shown = one_window_answer(window)
    return WindowBody(days=shown.days, start=shown.start, end=shown.end, timezone=shown.timezone)


def target_body(target: Target) -> TargetBody:
    match target:
        case HandlerTarget(task=task, args=args, kwargs=kwargs, encrypted=encrypted):
            mark = True if encrypted else UNSET
            return TargetBody(task=task, args=args, kwargs=kwargs, encrypted=mark)
        case HttpTarget(connect_timeout=connect):
            http = HttpBody(
                url=target.url,
                method=target.method,
                headers=target.headers,
                body=target.body or UNSET,
                secret=target.secret or UNSET,
                success=shown_success(target.success) or UNSET,
                redirects=target.redirects or UNSET,
                connect_timeout=UNSET if connect is None else connect.total_seconds(),
            )
            return TargetBody(http=http)
        case MessageTarget(to=to, queue=queue, body=body, headers=headers):
            return TargetBody(message=MessageBody(to=to, queue=queue, body=body, headers=headers))
        case NotifyTarget():
            return TargetBody(notify=NotifyBody(**msgspec.structs.asdict(target)))
        case CommandTarget(argv=argv, env=env, cwd=cwd, stdin=stdin):
            return TargetBody(
                command=argv, env=env or UNSET, cwd=cwd or UNSET, stdin=stdin or UNSET
            )


def reaction_body(options: Mapping[str, Any]) -> dict[str, Any]:
    """The reaction to events among the options, as fields of a request body."""
    patterns = {
        name: tuple(map(pattern_body, options[name]))
        for name in ("on", "cancel_on")
        if name in options
    }
    gather = options.get("gather")
    return patterns if gather is None else {**patterns, "gather": gather_body(gather)}


def schedule_body(draft: ScheduleDraft) -> ScheduleBody:
    """The draft as a request body. Raises `Invalid` for a rule that cannot be serialized."""
    rule = draft.recurrence
    assert rule is not UNSET
    fields: dict[str, Any] = {
        **{name: wire_form(value) for name, value in draft.given_fields().items()},
        **rule_body(rule, draft.options["key"]),
        **reaction_body(draft.options),
        "target": target_body(draft.target) if draft.target is not UNSET else UNSET,
    }
    del fields["recurrence"]
    fields.pop("pause_reason", None)  # for a service a pause by this program is one by hand
    return ScheduleBody(**fields)


def rule_body(rule: RecurrenceSpec, key: str = "") -> dict[str, Any]:
    """The rule as fields of a request body; `key` is that of its schedule.

    Raises `Invalid` for one without a text, and for a cron whose `H` another key spreads.
    """
    form = FORM_OF_KIND.get(rule.kind)
    if form is None:
        raise Invalid(
            f"a rule of the kind {rule.kind!r} has no text, so it cannot be sent to a service,"
            " compared or changed; write it as an RRULE or cron",
            "recurrence",
        )
    if rule.key not in {"", key}:
        raise Invalid(
            f"the key {rule.key!r} of a cron with H cannot be sent to a service, compared or"
            " changed; leave it out, and the schedule's own key spreads H",
            "recurrence",
        )
    start = start_of(rule)
    return {
        "dst_gap": rule.dst_gap,
        "dst_fold": rule.dst_fold,
        "timezone": rule.tz or UNSET,
        "start": UNSET if start is None else read_instant(start),
        form: rule.text,
    }
