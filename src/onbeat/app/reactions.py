"""The arguments of a schedule that reacts to events."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.app.call import Span, require_kind, span
from onbeat.model.errors import Invalid
from onbeat.model.reaction import EventPattern, Gather
from onbeat.model.recurrence import RecurrenceSpec
from onbeat.recurrence import Recurrence
from onbeat.wire.decode import convert
from onbeat.wire.reactions import (
    GatherBody,
    PatternsForm,
    gather_answer,
    patterns_answer,
    read_gather,
    read_patterns,
)

Pattern = str | Mapping[str, str] | EventPattern
"""The type of events, a mapping with `type`, `source`, `if` and `by`, or such a record."""

Patterns = Pattern | Sequence[Pattern]
Gathering = Mapping[str, Any] | Gather
"""A mapping with `for`, `until`, `quiet`, `keep`, `most` and `by`, or such a record."""


class ReactionFields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Named as in request bodies, so that errors name the same fields."""

    on: PatternsForm | UnsetType = UNSET
    cancel_on: PatternsForm | UnsetType = UNSET
    gather: GatherBody | UnsetType = UNSET


def read_reaction(
    on: Patterns | None,
    cancel_on: Patterns | None,
    gather: Gathering | None,
    delay: Span | None,
) -> dict[str, Any]:
    """The given fields of the schedule. Raises `Invalid` naming the invalid one."""
    given = {
        "on": None if on is None else patterns_form("on", on),
        "cancel_on": None if cancel_on is None else patterns_form("cancel_on", cancel_on),
        "gather": None if gather is None else gather_form(gather),
    }
    present = {name: form for name, form in given.items() if form is not None}
    body = convert(ReactionFields, present)
    read = read_gather(body.gather or None, "gather")
    fields = {
        "on": read_patterns(body.on or None, "on"),
        "cancel_on": read_patterns(body.cancel_on or None, "cancel_on"),
        "gather": with_until(read, gather),
        "delay": span("delay", delay),
    }
    return {name: value for name, value in fields.items() if value}


def event_rule(patterns: Sequence[EventPattern]) -> RecurrenceSpec:
    if not patterns:
        raise Invalid("on needs at least one pattern of events", "on")
    return RecurrenceSpec("event", ", ".join(pattern.type for pattern in patterns))


def patterns_form(field: str, patterns: Patterns) -> object:
    if isinstance(patterns, str | Mapping | EventPattern):
        return pattern_form(field, patterns)
    kinds = "a type of events, a mapping, or a list of these"
    several = require_kind(field, patterns, Sequence, kinds)
    return [pattern_form(f"{field}[{place}]", one) for place, one in enumerate(several)]


def pattern_form(field: str, pattern: Pattern) -> object:
    match pattern:
        case str():
            return {"type": pattern}
        case EventPattern():
            return msgspec.to_builtins(patterns_answer((pattern,)))
        case Mapping():
            return dict(pattern)
        case _:
            raise Invalid(f"{field} must be a type of events or a mapping", field)


def gather_form(gather: Gathering) -> object:
    """The form in request bodies; spans may be timedeltas, and `until` a recurrence."""
    if isinstance(gather, Gather):
        plain = msgspec.structs.replace(gather, until=None)
        return msgspec.to_builtins(gather_answer(plain))
    given = require_kind("gather", gather, Mapping, "a mapping such as {'for': '1h'}")
    fields = {name: value for name, value in given.items() if not isinstance(value, Recurrence)}
    return {
        name: value.total_seconds() if isinstance(value, timedelta) else value
        for name, value in fields.items()
    }


def with_until(read: Gather | None, given: Gathering | None) -> Gather | None:
    """With the recurrence, which may have no text, as it was given."""
    if read is None:
        return None
    if isinstance(given, Gather):
        return msgspec.structs.replace(read, until=given.until)
    until = None if given is None else given.get("until")
    if not isinstance(until, Recurrence):
        return read
    if until.spec().kind == "function":
        raise Invalid("gather.until cannot be a function of time", "gather.until")
    return msgspec.structs.replace(read, until=until.spec())
