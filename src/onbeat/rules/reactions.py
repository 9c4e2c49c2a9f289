"""Checks a schedule's reaction to events, and compiles its expressions."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import NamedTuple

from onbeat.model.errors import Invalid
from onbeat.model.limits import GATHER_MAX, PATTERNS_MAX
from onbeat.model.reaction import EventPattern, Gather
from onbeat.model.schedule import CatchUp, Schedule
from onbeat.rules.event_patterns import Evaluate, Pattern, Reaction
from onbeat.rules.gathers import is_throttle
from onbeat.rules.own_events import check_own_types, field_of

CompileExpression = Callable[[str, str], Evaluate]
"""Compiles the text of a field. Raises `Invalid`."""


class Compilers(NamedTuple):
    """Of expressions that are true or false, and of those that give a key."""

    condition: CompileExpression
    key: CompileExpression


def check_reaction(schedule: Schedule) -> None:
    """Raises `Invalid` for fields that do not go together."""
    if not schedule.on:
        refuse_without_on(schedule)
        return
    refuse_policies_of_times(schedule)
    for name in ("on", "cancel_on"):
        if len(getattr(schedule, name)) > PATTERNS_MAX:
            raise Invalid(f"{name} may have at most {PATTERNS_MAX} patterns", name)
        check_own_types(getattr(schedule, name), name)
    if schedule.gather is not None:
        check_gather(schedule.gather)
    check_keys(schedule)


def refuse_without_on(schedule: Schedule) -> None:
    for name in ("cancel_on", "gather", "delay"):
        if getattr(schedule, name):
            raise Invalid(f"{name} needs on: it is about events", name)


def refuse_policies_of_times(schedule: Schedule) -> None:
    if schedule.catch_up is not CatchUp.LATEST:
        raise Invalid("catch_up does not go with on: it is about occurrences", "catch_up")
    if schedule.grace is not None:
        raise Invalid("grace does not go with on; use expires_after", "grace")


def check_gather(gather: Gather) -> None:
    if gather.span is not None and gather.until is not None:
        raise Invalid("gather may have for or until, not both", "gather.until")
    if gather.span is None and gather.until is None:
        bound = "" if gather.quiet is None else ": with quiet alone a job might never be due"
        raise Invalid(f"gather needs for or until{bound}", "gather.for")
    if gather.span is not None and gather.span <= timedelta():
        raise Invalid("gather.for must be longer than nothing", "gather.for")
    if gather.quiet is not None and gather.quiet <= timedelta():
        raise Invalid("gather.quiet must be longer than nothing", "gather.quiet")
    if not 1 <= gather.most <= GATHER_MAX:
        raise Invalid(f"gather.most must be from 1 to {GATHER_MAX}", "gather.most")
    if is_throttle(gather) and gather.most != GATHER_MAX:
        raise Invalid(
            "gather.most does not go with keep first: the events after the first are only counted",
            "gather.most",
        )


def has_no_key(patterns: Sequence[EventPattern]) -> bool:
    return all(pattern.by is None for pattern in patterns)


def check_keys(schedule: Schedule) -> None:
    """All events of a schedule have a key, or none."""
    if schedule.gather is not None and schedule.gather.by is not None:
        return
    if has_no_key(schedule.on):
        for place, pattern in enumerate(schedule.cancel_on):
            if pattern.by is not None:
                field = field_of(schedule.cancel_on, "cancel_on", place)
                raise Invalid(f"{field}.by needs by in on: jobs have that key", f"{field}.by")
        return
    for place, pattern in enumerate(schedule.on):
        if pattern.by is None:
            raise Invalid(f"on[{place}].by is missing: other patterns have one", f"on[{place}].by")


def compile_reaction(schedule: Schedule, compilers: Compilers) -> Reaction:
    """The schedule with compiled expressions. Raises `Invalid` naming the field."""
    gather_by = None if schedule.gather is None else schedule.gather.by
    shared = None if gather_by is None else compilers.key(gather_by, "gather.by")
    on = tuple(
        compile_pattern(pattern, shared, field_of(schedule.on, "on", at), compilers)
        for at, pattern in enumerate(schedule.on)
    )
    first = on[0].by if on else None
    cancel_on = (
        compile_canceling(pattern, first, field_of(schedule.cancel_on, "cancel_on", at), compilers)
        for at, pattern in enumerate(schedule.cancel_on)
    )
    return Reaction(schedule, on, tuple(cancel_on))


def compile_pattern(
    pattern: EventPattern, by: Evaluate | None, field: str, compilers: Compilers
) -> Pattern:
    """`by` goes before that of the pattern."""
    condition, own = compile_texts(pattern, field, compilers)
    return Pattern(pattern, condition, by or own)


def compile_canceling(
    pattern: EventPattern, by: Evaluate | None, field: str, compilers: Compilers
) -> Pattern:
    """`by` stands for that of the pattern where it has none."""
    condition, own = compile_texts(pattern, field, compilers)
    return Pattern(pattern, condition, own or by)


def compile_texts(
    pattern: EventPattern, field: str, compilers: Compilers
) -> tuple[Evaluate | None, Evaluate | None]:
    """The condition and the key of a pattern."""
    condition, by = pattern.condition, pattern.by
    return (
        None if condition is None else compilers.condition(condition, f"{field}.if"),
        None if by is None else compilers.key(by, f"{field}.by"),
    )


def uncompiled_reaction(schedule: Schedule, fault: str) -> Reaction:
    """The schedule where this process cannot judge its events."""
    on = tuple(Pattern(pattern, fault=fault) for pattern in schedule.on)
    cancel_on = tuple(Pattern(pattern, fault=fault) for pattern in schedule.cancel_on)
    return Reaction(schedule, on, cancel_on)
