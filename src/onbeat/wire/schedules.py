"""Wire records of schedules: bodies to create and change one, and the answer."""

from datetime import datetime, timedelta
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType
from msgspec.structs import replace

from onbeat.model.condition import Condition
from onbeat.model.credentials import masked
from onbeat.model.errors import Invalid
from onbeat.model.recurrence import DstFold, DstGap, RecurrenceSpec
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import CatchUp, Overlap, PauseReason, Schedule, ScheduleStatus
from onbeat.model.target import HttpTarget, Target
from onbeat.recurrence import Budget
from onbeat.recurrence.describe import describe
from onbeat.wire.answer import AnswerRecord
from onbeat.wire.conditions import (
    ConditionAnswer,
    ConditionBody,
    WindowAnswer,
    WindowForm,
    condition_answer,
    hidden_condition,
    window_answer,
)
from onbeat.wire.hidden import SensitiveForm, refuse_hidden, shown_form
from onbeat.wire.options import read_given, read_wait, readers_of
from onbeat.wire.reactions import (
    GatherAnswer,
    GatherBody,
    PatternsAnswer,
    PatternsForm,
    gather_answer,
    patterns_answer,
    read_gather,
    read_patterns,
    read_reaction,
)
from onbeat.wire.recurrences import (
    AtForm,
    CronForm,
    EveryForm,
    RruleForm,
    StartForm,
    ZoneForm,
    changed_recurrence,
    read_recurrence,
    rule_as,
    start_of,
)
from onbeat.wire.targets import (
    RetryAnswer,
    RetryBody,
    TargetAnswer,
    TargetBody,
    checked_http,
    read_retry,
    read_target,
    retry_answer,
    target_answer,
)
from onbeat.wire.values import (
    InstantForm,
    PriorityForm,
    ReadOnly,
    SpanForm,
    read_name,
    span_text,
    value_or_unset,
)

StatusForm = Literal["active", "paused", "finished"]

NO_NAME: Final = "Schedule name cannot be empty"
BAD_URL: Final = "Invalid callback URL format"


class ScheduleBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule: all fields to create one, the changed fields to update one.

    It needs a name, one of `rrule`, `cron`, `every`, `at` and `on`, and a `callback_url` or a
    `target`.
    In an update, null resets an optional field to its default.
    """

    name: str | UnsetType | None = UNSET
    rrule: RruleForm | UnsetType | None = UNSET
    cron: CronForm | UnsetType | None = UNSET
    every: EveryForm | UnsetType | None = UNSET
    at: AtForm | UnsetType | None = UNSET
    start: StartForm | UnsetType | None = UNSET
    timezone: ZoneForm | UnsetType | None = UNSET
    dst_gap: DstGap | UnsetType | None = UNSET
    dst_fold: DstFold | UnsetType | None = UNSET
    on: PatternsForm | UnsetType | None = UNSET
    cancel_on: PatternsForm | UnsetType | None = UNSET
    gather: GatherBody | UnsetType | None = UNSET
    delay: SpanForm | UnsetType | None = UNSET
    callback_url: str | UnsetType | None = UNSET
    method: str | UnsetType | None = UNSET
    headers: dict[str, str] | UnsetType | None = UNSET
    body: str | UnsetType | None = UNSET
    target: TargetBody | UnsetType | None = UNSET
    starts_at: InstantForm | UnsetType | None = UNSET
    ends_at: InstantForm | UnsetType | None = UNSET
    status: StatusForm | UnsetType | None = UNSET
    catch_up: CatchUp | UnsetType | None = UNSET
    grace: SpanForm | UnsetType | None = UNSET
    overlap: Overlap | UnsetType | None = UNSET
    jitter: SpanForm | UnsetType | None = UNSET
    retry: RetryBody | UnsetType | None = UNSET
    timeout: SpanForm | UnsetType | None = UNSET
    queue: str | UnsetType | None = UNSET
    priority: PriorityForm | UnsetType | None = UNSET
    expires_after: SpanForm | UnsetType | None = UNSET
    key: str | UnsetType | None = UNSET
    condition: ConditionBody | UnsetType | None = UNSET
    window: WindowForm | UnsetType | None = UNSET
    sensitive: SensitiveForm = UNSET
    labels: dict[str, str] | UnsetType | None = UNSET
    owner: ReadOnly = UNSET
    release: ReadOnly = UNSET
    pause_reason: ReadOnly = UNSET
    id: ReadOnly = UNSET
    anchor: ReadOnly = UNSET
    recurrence: ReadOnly = UNSET
    next_at: ReadOnly = UNSET
    created_at: ReadOnly = UNSET
    updated_at: ReadOnly = UNSET


class ScheduleDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A validated schedule of a caller; UNSET for missing fields.

    `status` is given by hand, `paused` by the program that declares the schedule. `options` has the
    other fields of the schedule that were given.
    """

    name: str | UnsetType = UNSET
    recurrence: RecurrenceSpec | UnsetType = UNSET
    target: Target | UnsetType = UNSET
    status: ScheduleStatus | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    options: dict[str, Any] = {}

    def given_fields(self) -> dict[str, Any]:
        """The given fields, as keywords for a `Schedule`."""
        own = ("name", "recurrence", "target", "status")
        fields = {name: getattr(self, name) for name in own}
        if self.status is not UNSET:
            fields["pause_reason"] = None
        elif self.paused is True:
            fields |= {"status": ScheduleStatus.PAUSED, "pause_reason": PauseReason.DECLARED}
        return self.options | {name: value for name, value in fields.items() if value is not UNSET}


class ScheduleAnswer(AnswerRecord, frozen=True, kw_only=True):
    """A schedule as shown in answers. `next_at` is null while it is paused and once it finished."""

    id: str
    name: str
    rrule: str | UnsetType = UNSET
    cron: str | UnsetType = UNSET
    every: str | UnsetType = UNSET
    at: str | UnsetType = UNSET
    start: str | UnsetType = UNSET
    on: PatternsAnswer | UnsetType = UNSET
    cancel_on: PatternsAnswer | UnsetType = UNSET
    gather: GatherAnswer | UnsetType = UNSET
    delay: str | UnsetType = UNSET
    recurrence: Annotated[str, Meta(description="The rule in words")]
    timezone: str | UnsetType = UNSET
    anchor: str | UnsetType = UNSET
    dst_gap: str
    dst_fold: str
    callback_url: str | UnsetType = UNSET
    method: str | UnsetType = UNSET
    headers: dict[str, str] | UnsetType = UNSET
    body: str | UnsetType = UNSET
    target: TargetAnswer
    status: StatusForm
    next_at: datetime | None
    starts_at: datetime | UnsetType = UNSET
    ends_at: datetime | UnsetType = UNSET
    catch_up: CatchUp
    grace: str | UnsetType = UNSET
    overlap: Overlap
    jitter: str
    retry: RetryAnswer
    timeout: str | UnsetType = UNSET
    queue: str
    priority: int
    expires_after: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    condition: ConditionAnswer | UnsetType = UNSET
    window: tuple[WindowAnswer, ...] | UnsetType = UNSET
    sensitive: bool | UnsetType = UNSET
    labels: dict[str, str]
    owner: str | UnsetType = UNSET
    release: str | UnsetType = UNSET
    pause_reason: PauseReason | UnsetType = UNSET
    created_at: datetime
    updated_at: datetime


def read_schedule(
    body: ScheduleBody,
    retry: RetryPolicy,
    before: Schedule | None = None,
    budget: Budget | None = None,
) -> ScheduleDraft:
    """The draft of `body`. Without `before` it needs all required fields.

    The order of the first checks is fixed (name, rule, target), and the first error is reported.
    `retry` is the policy of schedules that name none.
    """
    name = read_schedule_name(body, before)
    rule = read_rule(body, rule_key(body, name, before), before, budget)
    target = read_schedule_target(body, shown_target(before) if before else None)
    old = before.retry if before else retry
    readers = readers_of(
        ScheduleBody,
        cancel_on=read_patterns,
        gather=read_gather,
        delay=lambda value, field: read_wait(value, field) or timedelta(),
        status=lambda value, _field: read_status(value, before),
        retry=lambda value, _field: read_policy(value, retry, old),
    )
    options = read_given(body, readers)
    if rule is not UNSET and rule.kind == "event":
        options["on"] = read_patterns(body.on or None, "on")
    elif rule is not UNSET and before is not None and before.on:
        options["on"] = ()
    if before is not None and before.sensitive:
        target = kept_target(target, before)
        keep_condition(options, before)
    status = options.pop("status", UNSET)
    return ScheduleDraft(name=name, recurrence=rule, target=target, status=status, options=options)


def kept_target(target: Target | UnsetType, before: Schedule) -> Target | UnsetType:
    """UNSET for the target as the answers about a sensitive schedule have it."""
    if target is UNSET or target == shown_target(before):
        return UNSET
    refuse_hidden(target, "target")
    return target


def keep_condition(options: dict[str, Any], before: Schedule) -> None:
    """The same for what a condition asks."""
    condition: Condition | None = options.get("condition")
    if condition is None or condition.ask is None:
        return
    old = None if before.condition is None else before.condition.ask
    if old is not None and condition.ask == shown_form(old):
        options["condition"] = replace(condition, ask=masked(old))
    else:
        refuse_hidden(condition.ask, "condition.ask")


def read_schedule_name(body: ScheduleBody, before: Schedule | None) -> str | UnsetType:
    if body.name is UNSET and before is not None:
        return UNSET
    if not body.name or not body.name.strip():
        raise Invalid(NO_NAME)
    return read_name(body.name, "name")


def read_rule(
    body: ScheduleBody, key: str, before: Schedule | None, budget: Budget | None
) -> RecurrenceSpec | UnsetType:
    if body.on is not UNSET and body.on is not None:
        return read_reaction(body, body.on)
    if before is None:
        return read_recurrence(body, key, budget)
    rule = changed_recurrence(body, before.recurrence, key, budget)
    if rule is UNSET and body.on is None and before.on:
        raise Invalid("A schedule needs one of rrule, cron, every, at and on", "on")
    return rule


def rule_key(body: ScheduleBody, name: str | UnsetType, before: Schedule | None) -> str:
    """The key that spreads the `H` fields of cron rules: the schedule's key, else its name."""
    if before is None:
        return body.key or name or ""
    return body.key or before.key or name or before.name


def read_schedule_target(body: ScheduleBody, before: Target | None) -> Target | UnsetType:
    """The target in either of its two forms.

    Answers show both forms, so a client may send both back with one of them changed: then the
    changed one counts. `before` is the target as in answers.
    """
    flat = flat_target(body, before)
    if body.target is UNSET or body.target is None:
        if flat is UNSET and before is None:
            raise Invalid(BAD_URL, detail="Give a callback_url, or a target")
        return flat
    nested = read_target(body.target, "target", before)
    if flat is UNSET or flat == before or flat == with_secret_of(nested, flat):
        return nested
    if nested == before:
        return flat
    raise Invalid("target and callback_url describe different targets; give one of them", "target")


def with_secret_of(nested: Target, flat: HttpTarget) -> Target:
    """The nested form with what the flat form has no field for: its secret and its policy."""
    if not isinstance(nested, HttpTarget):
        return nested
    return replace(
        nested,
        secret=flat.secret,
        success=flat.success,
        redirects=flat.redirects,
        connect_timeout=flat.connect_timeout,
    )


def flat_target(body: ScheduleBody, before: Target | None) -> HttpTarget | UnsetType:
    """The HTTP request of `callback_url`, `method`, `headers` and `body`, merged into `before`."""
    given = [
        name
        for name in ("callback_url", "method", "headers", "body")
        if getattr(body, name) is not UNSET
    ]
    if not given or (body.callback_url is None and body.target):
        return UNSET
    old = before if isinstance(before, HttpTarget) else None
    url = old.url if body.callback_url is UNSET and old is not None else body.callback_url
    if not url:
        if body.callback_url is UNSET and (before is not None or body.target):
            raise Invalid(f"{given[0]} needs a callback_url: the target is not http", given[0])
        raise Invalid(BAD_URL)
    return checked_http(
        HttpTarget(
            url=url,
            method=body.method or "GET" if body.method is not UNSET or old is None else old.method,
            headers=body.headers or {} if body.headers is not UNSET or old is None else old.headers,
            body=body.body or None if body.body is not UNSET or old is None else old.body,
            secret=old.secret if old is not None else None,
            success=old.success if old is not None else (),
            redirects=old.redirects if old is not None else 0,
            connect_timeout=old.connect_timeout if old is not None else None,
        )
    )


def read_status(status: StatusForm | None, before: Schedule | None) -> ScheduleStatus | UnsetType:
    """Active or paused; `finished` only if it is, for answers that are sent back unchanged."""
    wanted = ScheduleStatus(status or "active")
    if wanted is ScheduleStatus.FINISHED:
        if before is not None and before.status is ScheduleStatus.FINISHED:
            return UNSET
        raise Invalid("status can be set to active or paused", "status")
    return wanted


def read_policy(value: RetryBody | None, defaults: RetryPolicy, old: RetryPolicy) -> RetryPolicy:
    """The given fields over the old policy; null is the default policy."""
    return defaults if value is None else read_retry(value, old)


IN_OTHER_FORM: Final = {
    *("recurrence", "target", "status", "on", "cancel_on", "gather", "delay"),
    *("condition", "window", "sensitive"),
}
SHOWN: Final = tuple(
    name
    for name in ScheduleAnswer.__struct_fields__
    if name in Schedule.__struct_fields__ and name not in IN_OTHER_FORM
)


def shown_target(schedule: Schedule) -> Target:
    """The target as answers have it."""
    return shown_form(schedule.target) if schedule.sensitive else masked(schedule.target)


def schedule_answer(schedule: Schedule, next_at: datetime | None) -> ScheduleAnswer:
    rule = schedule.recurrence
    shown = shown_target(schedule)
    http = shown if isinstance(shown, HttpTarget) else None
    condition = condition_answer(schedule.condition)
    return ScheduleAnswer(
        rrule=rule_as(rule, "rrule"),
        cron=rule_as(rule, "cron"),
        every=rule_as(rule, "every"),
        at=rule_as(rule, "at"),
        start=value_or_unset(start_of(rule)),
        on=patterns_answer(schedule.on),
        cancel_on=patterns_answer(schedule.cancel_on),
        gather=UNSET if schedule.gather is None else gather_answer(schedule.gather),
        delay=span_text(schedule.delay) if schedule.delay else UNSET,
        recurrence=describe(rule),
        timezone=value_or_unset(rule.tz),
        anchor=value_or_unset(rule.anchor),
        dst_gap=rule.dst_gap,
        dst_fold=rule.dst_fold,
        callback_url=http.url if http else UNSET,
        method=http.method if http else UNSET,
        headers=http.headers if http and http.headers else UNSET,
        body=http.body if http and http.body else UNSET,
        target=target_answer(shown),
        condition=hidden_condition(condition) if schedule.sensitive else condition,
        window=window_answer(schedule.window),
        sensitive=schedule.sensitive or UNSET,
        status=schedule.status.value,
        next_at=next_at,
        **{name: answer_form(getattr(schedule, name)) for name in SHOWN},
    )


def answer_form(value: object) -> Any:
    match value:
        case None:
            return UNSET
        case timedelta():
            return span_text(value)
        case RetryPolicy():
            return retry_answer(value)
        case _:
            return value
