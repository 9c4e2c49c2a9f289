"""Which of Onbeat's own events a schedule asks for."""

from collections.abc import Sequence

from onbeat.model.errors import Invalid
from onbeat.model.event import OWN_SOURCE, OWN_TYPES, OWN_TYPES_PREFIX
from onbeat.model.reaction import EventPattern
from onbeat.model.schedule import ScheduleSpec


def wanted_types(schedule: ScheduleSpec) -> frozenset[str]:
    """The own types that a pattern of `on` or `cancel_on` matches."""
    patterns = [one for one in (*schedule.on, *schedule.cancel_on) if fits(one.source, OWN_SOURCE)]
    return frozenset(
        type for type in OWN_TYPES if any(fits(pattern.type, type) for pattern in patterns)
    )


def check_own_types(patterns: Sequence[EventPattern], name: str) -> None:
    """Raises `Invalid` for a type that only Onbeat could write, and does not."""
    for place, pattern in enumerate(patterns):
        if pattern.type.startswith(OWN_TYPES_PREFIX) and not any(
            fits(pattern.type, type) for type in OWN_TYPES
        ):
            field = f"{field_of(patterns, name, place)}.type"
            raise Invalid(
                f"{field}: Onbeat has no event {pattern.type}; it has {', '.join(OWN_TYPES)}", field
            )


def field_of(patterns: Sequence[EventPattern], name: str, place: int) -> str:
    """A single pattern may have been given without its list."""
    return name if len(patterns) == 1 else f"{name}[{place}]"


def fits(pattern: str, text: str) -> bool:
    """Whether the text is as the pattern, which is exact or has a `*` at the end."""
    if pattern.endswith("*"):
        return text.startswith(pattern[:-1])
    return text == pattern
