"""Schedules of a program, and changes of them, as bodies of requests."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any, Final

from onbeat.app.backend import Backend
from onbeat.app.call import (
    READERS,
    Call,
    check_keywords,
    instant,
    name_of,
    span,
    timeout_of,
)
from onbeat.app.reactions import event_rule, read_reaction
from onbeat.app.request_bodies import (
    reaction_body,
    rule_body,
    schedule_body,
    target_body,
    wire_form,
)
from onbeat.app.schedule_drafts import (
    SHARED,
    Policies,
    Rule,
    checked_rule,
    choice,
    draft_of,
    options_beyond_task,
)
from onbeat.model.schedule import CatchUp, Overlap
from onbeat.recurrence import Recurrence
from onbeat.recurrence import function as function_of_time
from onbeat.wire.schedules import ScheduleBody

REACTION: Final = ("on", "cancel_on", "gather", "delay")

CHANGES: Final[Mapping[str, Callable[[str, Any], object]]] = {
    **{name: READERS[name] for name in SHARED},
    "name": name_of,
    "retry": READERS["retry"],
    "timeout": timeout_of,
    "starts_at": instant,
    "ends_at": instant,
    "catch_up": lambda field, value: choice(field, value, CatchUp.LATEST),
    "overlap": lambda field, value: choice(field, value, Overlap.ALLOW),
    "grace": span,
    "jitter": span,
    "expires_after": timeout_of,
}


def draft_body(
    backend: Backend,
    function: str,
    key: str,
    recurrence: Rule | None,
    call: Call[Any],
    policies: Policies,
) -> ScheduleBody:
    """The whole schedule as a body. Raises as `draft_of`."""
    if recurrence is not None:
        rule_fields(recurrence, key)  # else a function would be registered under the key
    return schedule_body(draft_of(backend, function, key, recurrence, call, policies))


def changes_body(
    backend: Backend,
    function: str,
    recurrence: Rule | None,
    call: Call[Any] | None,
    changes: Policies,
) -> ScheduleBody:
    """What is given, where None stands for the default. Policies win over options of the call.

    Raises `Invalid` naming the argument, TypeError for an unknown one.
    """
    check_keywords(function, changes, Policies.__annotations__)
    given: Mapping[str, Any] = {**changes}
    fields: dict[str, Any] = {}
    if call is not None:
        beyond = options_beyond_task(backend, call)
        fields = {name: body_form(value) for name, value in beyond.items()}
        fields["target"] = target_body(call.target)
    fields |= {
        name: None if given[name] is None else body_form(read(name, given[name]))
        for name, read in CHANGES.items()
        if name in given
    }
    fields |= reaction_fields(changes)
    if "paused" in changes:
        fields["status"] = "paused" if changes["paused"] else "active"
    if recurrence is not None:
        fields |= rule_fields(recurrence)
    return ScheduleBody(**fields)


def reaction_fields(changes: Policies) -> dict[str, Any]:
    """What is empty is the default again, as what is None."""
    read = read_reaction(
        changes.get("on"), changes.get("cancel_on"), changes.get("gather"), changes.get("delay")
    )
    if changes.get("on") is not None:
        event_rule(read.get("on", ()))
    given = {name: body_form(value) for name, value in read.items()} | reaction_body(read)
    return {name: given.get(name) for name in REACTION if name in changes}


def rule_fields(recurrence: Rule, key: str = "") -> dict[str, Any]:
    """The whole rule, so that nothing of an earlier one stays, as its time zone.

    `key` is that of its schedule. Raises as `rule_body`.
    """
    rule = checked_rule(recurrence)
    spec = (rule if isinstance(rule, Recurrence) else function_of_time(rule)).spec()
    return {**rule_body(spec, key), "timezone": spec.tz}


def body_form(value: object) -> object:
    """The value in a request body, where a span of no length is one too."""
    return value.total_seconds() if isinstance(value, timedelta) else wire_form(value)
