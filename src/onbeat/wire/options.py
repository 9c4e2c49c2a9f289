"""Options of jobs and schedules: each field of a body is checked by the reader of its name."""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from onbeat.model.ids import JobId
from onbeat.model.limits import KEY_CHARS_MAX
from onbeat.model.schedule import CatchUp, Overlap
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


def read_group(value: str | None, field: str) -> str | UnsetType:
    return read_name(value, field) if value else UNSET


def read_after(value: tuple[str, ...], field: str) -> tuple[JobId, ...]:
    return tuple(dict.fromkeys(job_id(id, field) for id in value))


def or_null(default: object) -> Reader:
    """A reader of values that need no check; null is the default."""
    return lambda value, _field: default if value is None else value


READERS: Final[dict[str, Reader]] = {
    "queue": read_queue,
    "priority": or_null(0),
    "unique": read_key,
    "timeout": read_timeout,
    "expires_at": read_moment,
    "after": read_after,
    "labels": lambda value, field: read_labels(value or {}, field),
    "group": read_group,
    "key": read_key,
    "starts_at": read_moment,
    "ends_at": read_moment,
    "catch_up": or_null(CatchUp.LATEST),
    "grace": read_wait,
    "overlap": or_null(Overlap.ALLOW),
    "jitter": read_jitter,
    "expires_after": read_timeout,
}
