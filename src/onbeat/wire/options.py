"""Options of jobs and schedules: each field of a body is checked by the reader of its name."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.errors import Invalid
from onbeat.model.flow import SENT, Awaited
from onbeat.model.held_key import ALWAYS
from onbeat.model.limits import KEY_CHARS_MAX
from onbeat.model.schedule import CatchUp, Overlap
from onbeat.wire.conditions import read_condition, read_window
from onbeat.wire.values import (
    MOMENT,
    SpanForm,
    job_id,
    read_instant,
    read_labels,
    read_name,
    read_queue_name,
    read_span,
)

ALWAYS_TEXT: Final = "always"
JITTER_MAX: Final = timedelta(days=1)

Reader = Callable[[Any, str], object]
"""The value for the record, from the value in a body and its field; UNSET where it names none."""


def read_given(
    body: msgspec.Struct, readers: Mapping[str, Reader], prefix: str = ""
) -> dict[str, Any]:
    """The fields of the body that have a reader and a value, by name, in the readers' order."""
    fields: dict[str, Any] = {}
    for name, read in readers.items():
        given = getattr(body, name)
        if given is not UNSET and (value := read(given, prefix + name)) is not UNSET:
            fields[name] = value
    return fields


def readers_of(body: type[msgspec.Struct], **special: Reader) -> dict[str, Reader]:
    """The readers of the body's fields, in their order: the first error is the one raised."""
    readers = READERS | special
    return {name: readers[name] for name in body.__struct_fields__ if name in readers}


def read_queue(value: str | None, field: str) -> str:
    return "default" if value is None else read_queue_name(value, field)


def read_moment(value: datetime | None, field: str) -> datetime | None:
    return None if value is None else read_instant(value, field)


def read_wait(value: SpanForm | None, field: str) -> timedelta | None:
    return None if value is None else read_span(value, field)


def read_timeout(value: SpanForm | None, field: str) -> timedelta | None:
    return None if value is None else read_span(value, field, least=MOMENT)


def read_jitter(value: SpanForm | None, field: str) -> timedelta:
    return timedelta() if value is None else read_span(value, field, most=JITTER_MAX)


def read_key(value: str | None, field: str) -> str | None:
    return None if value is None else read_name(value, field, chars_max=KEY_CHARS_MAX)


def read_schedule_key(value: str | None, field: str) -> str | None:
    """A key that an address can have at its end, where a dot alone stands for another address."""
    if value in {".", ".."}:
        raise Invalid(f"{field} must not be . or ..: it stands in paths", field)
    return read_key(value, field)


def read_unique_for(value: SpanForm | None, field: str) -> timedelta | None:
    if value is None:
        return None
    return ALWAYS if value == ALWAYS_TEXT else read_span(value, field, least=MOMENT)


def read_group(value: str | None, field: str) -> str | UnsetType:
    return read_name(value, field) if value else UNSET


def read_job_name(value: str | None, field: str) -> str | None:
    """A name that cannot be taken for an id, or for what was sent with the job."""
    if value is None:
        return None
    name = read_name(value, field)
    if name == SENT or is_job_id(name):
        raise Invalid(f"{field} must not be {SENT!r} or look like an id", field)
    return name


def read_after(value: tuple[Any, ...], field: str) -> tuple[Awaited, ...]:
    """What a job comes after; names are resolved with the whole request."""
    return tuple(
        Awaited(read_awaited(one, field))
        if isinstance(one, str)
        else Awaited(read_awaited(one.job, field), one.on)
        for one in value
    )


def read_awaited(text: str, field: str) -> str:
    """The id of a job in its canonical form, or the name of one that is sent with it."""
    return job_id(text, field) if is_job_id(text) else read_name(text, field)


def is_job_id(text: str) -> bool:
    try:
        job_id(text)
    except Invalid:
        return False
    return True


def or_null(default: object) -> Reader:
    """A reader of values that need no check; null is the default."""
    return lambda value, _field: default if value is None else value


READERS: Final[dict[str, Reader]] = {
    "queue": read_queue,
    "priority": or_null(0),
    "unique": read_key,
    "unique_for": read_unique_for,
    "timeout": read_timeout,
    "expires_at": read_moment,
    "after": read_after,
    "labels": lambda value, field: read_labels(value or {}, field),
    "group": read_group,
    "key": read_schedule_key,
    "starts_at": read_moment,
    "ends_at": read_moment,
    "catch_up": or_null(CatchUp.LATEST),
    "grace": read_wait,
    "overlap": or_null(Overlap.ALLOW),
    "jitter": read_jitter,
    "expires_after": read_timeout,
    "condition": read_condition,
    "window": read_window,
    "sensitive": or_null(default=False),
}
