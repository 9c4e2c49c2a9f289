"""What a handler waits for: the type and the key of an event, and how long."""

from datetime import timedelta

from onbeat.model.errors import Invalid
from onbeat.model.event import OWN_TYPES_PREFIX
from onbeat.model.limits import KEY_CHARS_MAX
from onbeat.wire.reactions import read_wildcard
from onbeat.wire.values import MOMENT, read_name, read_span


def read_awaited_type(type: str) -> str:
    """The type, exact or with a `*` at its end."""
    read_wildcard(type, "type")
    if type.startswith(OWN_TYPES_PREFIX):
        raise Invalid(
            f"type: Onbeat's own events, as {type}, are stored only where a schedule asks for them;"
            " a job that comes `after` another one waits for its end",
            "type",
        )
    return type


def read_awaited_key(by: str) -> str:
    """The subject of the event."""
    return read_name(by, "by", chars_max=KEY_CHARS_MAX)


def read_within(within: timedelta | float | str) -> timedelta:
    span = within.total_seconds() if isinstance(within, timedelta) else within
    return read_span(span, "within", least=MOMENT)
