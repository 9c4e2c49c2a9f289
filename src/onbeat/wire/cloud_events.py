"""CloudEvents 1.0 in their JSON and HTTP forms: structured, batched, binary and plain."""

import base64
import binascii
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import UNSET, Meta, UnsetType

from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.event import OWN_SOURCE, OWN_TYPES_PREFIX, Event
from onbeat.model.limits import (
    BULK_REQUEST_BYTES_MAX,
    EVENT_BYTES_MAX,
    EVENT_NAME_CHARS_MAX,
    EVENT_TEXT_CHARS_MAX,
    EVENTS_MAX,
    EXTENSION_INTEGER_MAX,
    EXTENSION_NAME_CHARS_MAX,
    EXTENSIONS_MAX,
)
from onbeat.wire.decode import check_size, check_text, decode_typed, guard, safe_text
from onbeat.wire.values import InstantForm, read_instant, read_name

STRUCTURED: Final = "application/cloudevents+json"
BATCHED: Final = "application/cloudevents-batch+json"
PREFIX: Final = "ce-"
"""Headers with this prefix are attributes, in binary mode."""

VERSION: Final = "1.0"
DEFAULT_SOURCE: Final = "default"
"""The source of plain events without one, from callers without a key of their own."""

JSON_DATA: Final = re.compile(r"[\w.+-]+/(?:[\w.+-]+\+)?json\s*(?:;.*)?", re.ASCII | re.IGNORECASE)
EXTENSION: Final = re.compile(rf"[a-z0-9]{{1,{EXTENSION_NAME_CHARS_MAX}}}", re.ASCII)
URI: Final = re.compile(r"[^\s<>\"{}|\\^`]+")
ESCAPED: Final = re.compile(r"(?:[!-$&-~ ]|%[0-9A-Fa-f]{2})*")
NULL: Final = b"null"

Body = TypeVar("Body", bound="EventBody")
ExtensionValue = str | int | bool
NameForm = Annotated[str, Meta(min_length=1, max_length=EVENT_NAME_CHARS_MAX)]
TextForm = Annotated[str, Meta(min_length=1, max_length=EVENT_TEXT_CHARS_MAX)]


class EventBody(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event. With `specversion` it is a CloudEvent, which has an `id` and a `source`, and in
    which further members are extensions. Without, only `type` is required, and extensions are in
    `extensions`. Data that is not JSON is base64 in `data_base64`.
    """

    specversion: Annotated[str, Meta(examples=[VERSION])] | UnsetType = UNSET
    type: NameForm | UnsetType = UNSET
    data: Annotated[msgspec.Raw | UnsetType, Meta(description="Any JSON")] = UNSET
    id: NameForm | UnsetType = UNSET
    source: NameForm | UnsetType = UNSET
    subject: TextForm | UnsetType = UNSET
    time: InstantForm | UnsetType = UNSET
    datacontenttype: TextForm | UnsetType = UNSET
    dataschema: TextForm | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    extensions: Annotated[dict[str, str | int | bool], Meta(max_length=EXTENSIONS_MAX)] = {}


class PublishBody(EventBody, frozen=True, kw_only=True, omit_defaults=True):
    """One event, or many in `events`, which are stored in one write."""

    events: Annotated[tuple[EventBody, ...], Meta(max_length=EVENTS_MAX)] | UnsetType = UNSET


class BodyReader(msgspec.Struct, frozen=True):
    """Reads a body that has several forms, by its headers with names in lower case.

    `bytes_max` is the bound of a body that begins so. Without headers the body is JSON. A body that
    `is_free` may have any content type.
    """

    read: Callable[[bytes, Mapping[str, str]], msgspec.Struct]
    bytes_max: Callable[[Mapping[str, str], bytes], int]
    is_free: Callable[[Mapping[str, str]], bool]


KNOWN: Final = frozenset(EventBody.__struct_fields__) - {"extensions"}


# Reading


def bytes_max(headers: Mapping[str, str], begin: bytes) -> int:
    """The bound of a body that begins so: many events may have more than one."""
    kind = media_type(headers)
    if kind == STRUCTURED or is_binary(headers) or begin.lstrip()[:1] not in {b"", b"["}:
        return EVENT_BYTES_MAX
    return BULK_REQUEST_BYTES_MAX


def is_binary(headers: Mapping[str, str]) -> bool:
    """Whether the attributes are in headers and the body is the data."""
    if media_type(headers).startswith("application/cloudevents"):
        return False
    return any(name.startswith(PREFIX) for name in headers)


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def read_published(body: bytes, headers: Mapping[str, str]) -> PublishBody:
    """The events of a request with these headers, whose names are in lower case.

    Raises `TooLarge` for an event or a batch over its bound, `Invalid` and `Malformed` otherwise.
    """
    kind = media_type(headers)
    if is_binary(headers):
        return read_binary(body, headers)
    guard(body, BULK_REQUEST_BYTES_MAX)
    if kind == BATCHED or (kind != STRUCTURED and body.lstrip()[:1] == b"["):
        return read_batch(decode_typed(list[msgspec.Raw], body), needs_version=kind == BATCHED)
    members = decode_typed(dict[str, msgspec.Raw], body)
    if kind != STRUCTURED and "events" in members and "type" not in members:
        events = decode_typed(ManyBody, body).events
        return read_batch(events, needs_version=False)
    check_size(body, EVENT_BYTES_MAX)
    return read_members(PublishBody, members, "", needs_version=kind == STRUCTURED)


class ManyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    events: list[msgspec.Raw]


def read_batch(items: Sequence[msgspec.Raw], *, needs_version: bool) -> PublishBody:
    if len(items) > EVENTS_MAX:
        raise TooLarge(f"events may have at most {EVENTS_MAX} items", "events")
    events: list[EventBody] = []
    for place, item in enumerate(items):
        field = f"events[{place}]"
        if len(bytes(item)) > EVENT_BYTES_MAX:
            raise TooLarge(f"{field} may have at most {EVENT_BYTES_MAX} bytes", field)
        try:
            members = msgspec.json.decode(item, type=dict[str, msgspec.Raw])
        except msgspec.ValidationError:
            raise Malformed(f"{field} must be an object", field) from None
        events.append(read_members(EventBody, members, f"{field}.", needs_version=needs_version))
    return PublishBody(events=tuple(events))


def read_members(
    kind: type[Body], members: Mapping[str, msgspec.Raw], prefix: str, *, needs_version: bool
) -> Body:
    """One event of JSON members; a member that is null is absent."""
    given = {name: value for name, value in members.items() if bytes(value) != NULL}
    is_cloud_event = "specversion" in given
    if needs_version and not is_cloud_event:
        raise Invalid(f"{prefix}specversion is required", f"{prefix}specversion")
    known = {name: value for name, value in given.items() if name in KNOWN}
    rest = {name: value for name, value in given.items() if name not in KNOWN}
    if not is_cloud_event and "extensions" in rest:
        known["extensions"] = rest.pop("extensions")
    for name in rest:
        if not is_cloud_event:
            field = prefix + safe_text(name)
            raise Invalid(f"{field} is not a known field; put it into extensions", field)
    try:
        body = decode_typed(kind, msgspec.json.encode(known))
    except Invalid as error:
        field = f"{prefix}{error.field}"
        raise type(error)(str(error).replace(error.field or "", field, 1), field) from None
    if not rest:
        return body
    values = {name: read_extension(value, prefix + safe_text(name)) for name, value in rest.items()}
    return msgspec.structs.replace(body, extensions=values)


def read_extension(value: msgspec.Raw, field: str) -> ExtensionValue:
    try:
        return msgspec.json.decode(value, type=str | int | bool)
    except msgspec.ValidationError:
        raise Malformed(f"{field} must be a string, an integer, true or false", field) from None


def read_binary(body: bytes, headers: Mapping[str, str]) -> PublishBody:
    check_size(body, EVENT_BYTES_MAX)
    members: dict[str, Any] = {
        name.removeprefix(PREFIX): header_text(name, value)
        for name, value in headers.items()
        if name.startswith(PREFIX)
    }
    for name in ("data", "data_base64", "datacontenttype"):
        if name in members:
            field = PREFIX + name
            raise Invalid(f"{field}: the body is the data, Content-Type its type", field)
    kind = headers.get("content-type", "")
    if kind:
        members["datacontenttype"] = kind
    if body and (not kind or JSON_DATA.fullmatch(kind.strip())):
        guard(body, EVENT_BYTES_MAX)
        members["data"] = msgspec.Raw(body)
    elif body:
        members["data_base64"] = base64.b64encode(body).decode()
    texts = {name: msgspec.Raw(msgspec.json.encode(value)) for name, value in members.items()}
    return read_members(PublishBody, texts, "", needs_version=True)


def header_text(name: str, value: str) -> str:
    """The value of a header, percent-decoded."""
    if not ESCAPED.fullmatch(value):
        raise Invalid(f"{name} must be ASCII, with other characters percent-encoded", name)
    try:
        text = unquote_to_bytes(value).decode()
    except UnicodeDecodeError:
        raise Invalid(f"{name} is not UTF-8 after percent-decoding", name) from None
    check_text(text, name)
    return text


EVENT_BODY: Final = BodyReader(read_published, bytes_max, is_binary)


# Events of bodies


def read_event(
    body: EventBody, prefix: str, now: datetime, source: str, fresh_id: Callable[[], str]
) -> Event:
    """The event; `source` and `fresh_id` are for the plain form without them. Raises `Invalid`."""
    is_cloud_event = body.specversion is not UNSET
    if body.specversion is not UNSET and body.specversion != VERSION:
        field = f"{prefix}specversion"
        raise Invalid(f"{field} must be {VERSION}, not {safe_text(body.specversion)}", field)
    id, given = body.id, body.source
    data, is_base64 = read_data(body, prefix)
    check_required(body, prefix, ("type", "id", "source") if is_cloud_event else ("type",))
    assert body.type is not UNSET, "checked above"
    return Event(
        id=fresh_id() if id is UNSET else read_text(id, f"{prefix}id"),
        source=read_source(source if given is UNSET else given, f"{prefix}source"),
        type=read_type(body.type, f"{prefix}type"),
        time=now if body.time is UNSET else read_instant(body.time, f"{prefix}time"),
        subject=read_optional(body.subject, f"{prefix}subject"),
        datacontenttype=read_optional(body.datacontenttype, f"{prefix}datacontenttype"),
        dataschema=read_schema(body.dataschema, f"{prefix}dataschema"),
        data=data,
        is_base64=is_base64,
        extensions=read_extensions(body.extensions, prefix),
    )


def check_required(body: EventBody, prefix: str, names: Sequence[str]) -> None:
    for name in names:
        if getattr(body, name) is UNSET:
            raise Invalid(f"{prefix}{name} is required", f"{prefix}{name}")


def read_text(value: str, field: str) -> str:
    return read_name(value, field, chars_max=EVENT_NAME_CHARS_MAX)


def read_type(value: str, field: str) -> str:
    """The type of an event from outside."""
    if value.startswith(OWN_TYPES_PREFIX):
        raise Invalid(
            f"{field} must not begin with {OWN_TYPES_PREFIX}: such types are Onbeat's own", field
        )
    return read_text(value, field)


def read_source(value: str, field: str) -> str:
    if value == OWN_SOURCE:
        raise Invalid(f"{field} must not be {OWN_SOURCE}, the source of Onbeat's own events", field)
    if not URI.fullmatch(read_text(value, field)):
        raise Invalid(f"{field} must be a URI reference, without spaces", field)
    return value


def read_schema(value: str | UnsetType, field: str) -> str | None:
    text = read_optional(value, field)
    if text is not None and not (URI.fullmatch(text) and ":" in text):
        raise Invalid(f"{field} must be a URI", field)
    return text


def read_optional(value: str | UnsetType, field: str) -> str | None:
    return None if value is UNSET else read_name(value, field, chars_max=EVENT_TEXT_CHARS_MAX)


def read_data(body: EventBody, prefix: str) -> tuple[msgspec.Raw | None, bool]:
    """The data, and whether it is base64."""
    if body.data_base64 is UNSET:
        return (None if body.data is UNSET else body.data), False
    field = f"{prefix}data_base64"
    if body.data is not UNSET:
        raise Invalid(f"{field}: give data or data_base64, not both", field)
    try:
        base64.b64decode(body.data_base64, validate=True)
    except (binascii.Error, ValueError):
        raise Invalid(f"{field} is not base64", field) from None
    return msgspec.Raw(msgspec.json.encode(body.data_base64)), True


def read_extensions(given: Mapping[str, ExtensionValue], prefix: str) -> dict[str, ExtensionValue]:
    if len(given) > EXTENSIONS_MAX:
        field = f"{prefix}extensions"
        raise Invalid(f"{field} may have at most {EXTENSIONS_MAX} entries", field)
    for name, value in given.items():
        field = prefix + safe_text(name)
        if not EXTENSION.fullmatch(name) or name in KNOWN:
            raise Invalid(
                f"{field}: the name of an extension has 1 to {EXTENSION_NAME_CHARS_MAX} small"
                " letters and digits, and is not that of another attribute",
                field,
            )
        if name.startswith(OWN_SOURCE):
            raise Invalid(f"{field}: extensions with {OWN_SOURCE} are Onbeat's own", field)
        if isinstance(value, str):
            read_optional(value, field)
        elif abs(value) > EXTENSION_INTEGER_MAX:
            raise Invalid(f"{field} must be at most {EXTENSION_INTEGER_MAX}", field)
    return dict(given)


# Writing


def cloud_event(event: Event) -> dict[str, Any]:
    """The event in the JSON form of CloudEvents."""
    attributes: dict[str, Any] = {
        "specversion": VERSION,
        "id": event.id,
        "source": event.source,
        "type": event.type,
        "time": event.time,
        "subject": event.subject,
        "datacontenttype": event.datacontenttype,
        "dataschema": event.dataschema,
        **event.extensions,
        "data_base64" if event.is_base64 else "data": event.data,
    }
    return {name: value for name, value in attributes.items() if value is not None}


def event_json(event: Event) -> bytes:
    return msgspec.json.encode(cloud_event(event))


def events_json(events: Sequence[Event]) -> bytes:
    """A batch."""
    return msgspec.json.encode([cloud_event(event) for event in events])


def delivered(events: Sequence[Event]) -> tuple[bytes, str]:
    """One event by itself, several as a batch: the body and its content type."""
    if len(events) == 1:
        return event_json(events[0]), STRUCTURED
    return events_json(events), BATCHED
