"""Turns the arguments of a schedule into its stored form."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

from msgspec import UNSET

from onbeat.app.backend import Backend
from onbeat.app.call import (
    Call,
    InheritedOptions,
    JobOptions,
    Span,
    check_call,
    check_keywords,
    instant,
    name_of,
    options,
    policy_of,
    span,
    timeout_of,
)
from onbeat.app.reactions import Gathering, Patterns, event_rule, read_reaction
from onbeat.model.errors import Invalid
from onbeat.model.reaction import EventPattern
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.model.schedule import CatchUp, Overlap
from onbeat.model.target import HttpTarget, Target
from onbeat.recurrence import Recurrence, cron
from onbeat.recurrence import function as function_of_time
from onbeat.wire.schedules import ScheduleDraft

Choice = TypeVar("Choice", CatchUp, Overlap)
Rule = Recurrence | Callable[[datetime], datetime | None]


class Policies(InheritedOptions, total=False):
    """Policies of a schedule; each has a default."""

    name: str
    starts_at: datetime | None
    ends_at: datetime | None
    paused: bool | None
    catch_up: str | None
    grace: Span | None
    overlap: str | None
    jitter: Span | None
    expires_after: Span | None
    on: Patterns | None
    cancel_on: Patterns | None
    gather: Gathering | None
    delay: Span | None


SHARED: Final = InheritedOptions.__annotations__.keys() - {"retry", "timeout"}
"""Options that are read alike for a call and for a schedule."""


CALL_ONLY: Final = ("run_at", "delay", "after")
JOB_ONLY: Final = ("unique", "name")
"""Options of a call, and fields of its job, that a schedule cannot keep: it has many jobs."""
TASK_ONLY: Final = ("group", "unique_for")
"""Fields that a schedule does not keep either, but that a task may have for its other jobs."""


def draft_of(
    backend: Backend,
    function: str,
    key: str,
    recurrence: Rule | None,
    call: Call[Any],
    policies: Policies,
) -> ScheduleDraft:
    """The schedule as stored, for the `function` that was called.

    Raises `Invalid` naming the invalid argument, TypeError for an unknown one.
    """
    check_keywords(function, policies, Policies.__annotations__)
    check_call(call)
    refuse_lost(backend, call)
    paused = policies.get("paused")
    shared: dict[str, Any] = {name: policies.get(name) for name in SHARED}
    job_options = options(call.options, **shared)
    reaction = read_reaction(
        policies.get("on"), policies.get("cancel_on"), policies.get("gather"), policies.get("delay")
    )
    return ScheduleDraft(
        name=name_of("name", policies.get("name", key)),
        recurrence=rule_of(backend, key, recurrence, policies, reaction.get("on", ())),
        target=check_target(backend, call.target),
        paused=UNSET if paused is None else bool(paused),
        options={"key": key} | read_policies(policies, job_options) | reaction,
    )


def refuse_lost(backend: Backend, call: Call[Any]) -> None:
    """Raises `Invalid` for an option of the call that the schedule would lose in silence."""
    given, job, task = call.options, call.options.job, task_options(backend, call)
    lost = [
        *(name for name in CALL_ONLY if getattr(given, name)),
        *(name for name in JOB_ONLY if getattr(job, name) is not None),
        *(name for name in TASK_ONLY if getattr(job, name) != getattr(task.job, name)),
    ]
    if lost:
        raise Invalid(
            f"a schedule cannot keep the option {lost[0]} of its call; leave {lost[0]} out", lost[0]
        )


def task_options(backend: Backend, call: Call[Any]) -> JobOptions:
    """The options of the task that is called, which every call of it has."""
    return backend.registry.defaults.get(getattr(call.target, "task", ""), JobOptions())


def options_beyond_task(backend: Backend, call: Call[Any]) -> dict[str, Any]:
    """The options of the call that its task does not have, under the names of policies.

    Raises as `refuse_lost`.
    """
    check_call(call)
    refuse_lost(backend, call)
    given, usual = kept_options(call.options), kept_options(task_options(backend, call))
    return {name: value for name, value in given.items() if value != usual[name]}


def kept_options(given: JobOptions) -> dict[str, Any]:
    """What a schedule keeps of the options of its call."""
    shared = {name: getattr(given.job, name) for name in SHARED}
    own = {"retry": given.retry, "timeout": given.job.timeout, "expires_after": given.expires_in}
    return shared | own


def read_policies(policies: Policies, base: JobOptions) -> dict[str, Any]:
    """The fields of the schedule; `base` has the options of its call."""
    given: Mapping[str, Any] = {**policies}
    kept = kept_options(base)
    retry, timeout, expires_after = (
        kept[name] if given.get(name) is None else given[name]
        for name in ("retry", "timeout", "expires_after")
    )
    fields = kept | {
        "starts_at": instant("starts_at", policies.get("starts_at")),
        "ends_at": instant("ends_at", policies.get("ends_at")),
        "catch_up": choice("catch_up", policies.get("catch_up"), CatchUp.LATEST),
        "grace": span("grace", policies.get("grace")),
        "overlap": choice("overlap", policies.get("overlap"), Overlap.ALLOW),
        "jitter": span("jitter", policies.get("jitter")) or UNSET,
        "retry": UNSET if retry is None else policy_of("retry", retry),
        "timeout": timeout_of("timeout", timeout),
        "expires_after": timeout_of("expires_after", expires_after),
    }
    return {name: value for name, value in fields.items() if value is not UNSET}


def check_target(backend: Backend, target: Target) -> Target:
    """Raises `Invalid` for a callback to an address that is not allowed here."""
    if isinstance(target, HttpTarget) and (why := backend.options.http.refusal_of(target.url)):
        raise Invalid(f"The URL is not allowed: {why}", "url")
    return target


def rule_of(
    backend: Backend,
    key: str,
    recurrence: Rule | None,
    policies: Policies,
    patterns: Sequence[EventPattern],
) -> RecurrenceSpec:
    """The rule of time, or that of a schedule with `on`."""
    if policies.get("on") is None:
        return spec_of(backend, key, recurrence)
    if recurrence is not None:
        raise Invalid("give a recurrence or on, not both", "on")
    return event_rule(patterns)


def spec_of(backend: Backend, key: str, recurrence: Rule | None) -> RecurrenceSpec:
    """The rule as stored. A function of time stays here, and the store has only its key."""
    if isinstance(recurrence, Recurrence) and recurrence.spec().kind != "function":
        return spread(recurrence.spec(), key)
    rule = checked_rule(recurrence)
    value = rule if isinstance(rule, Recurrence) else function_of_time(rule)
    backend.registry.functions[key] = value
    return RecurrenceSpec("function", key)


def spread(spec: RecurrenceSpec, key: str) -> RecurrenceSpec:
    """A cron whose `H` is spread by the schedule's key, where it has none of its own."""
    if spec.kind != "cron" or spec.key:
        return spec
    return cron(spec.text, spec.tz, key, spec.dst_gap, spec.dst_fold).spec()


def checked_rule(rule: Rule | None) -> Rule:
    """Raises TypeError for other objects; the rule's text alone is the common mistake."""
    if rule is None or not (isinstance(rule, Recurrence) or callable(rule)):
        raise TypeError(
            f"{rule!r} is not a recurrence; write cron(...), rrule(...), every(...),"
            " a function of time, or on=..."
        )
    return rule


def choice(field: str, value: str | None, default: Choice) -> Choice:
    if value is None:
        return default
    try:
        return type(default)(value)
    except ValueError:
        raise Invalid(f"{field} must be one of {', '.join(type(default))}", field) from None
