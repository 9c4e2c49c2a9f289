"""CloudEvents in each form, against the SDK, and each attribute at its bound."""

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from cloudevents.core.bindings.http import (
    HTTPMessage,
    from_structured,
    to_binary,
    to_structured,
)
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.event import Event
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
from onbeat.wire.cloud_events import (
    BATCHED,
    STRUCTURED,
    EventBody,
    bytes_max,
    delivered,
    event_json,
    events_json,
    read_event,
    read_published,
)

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
LEAST = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "paid"}
BINARY = {f"ce-{name}": value for name, value in LEAST.items()}


def read(body: object, headers: Mapping[str, str] | None = None) -> list[Event]:
    text = body if isinstance(body, bytes) else msgspec.json.encode(body)
    given = read_published(text, headers or {})
    bodies: list[tuple[str, EventBody]] = [("", given)]
    if given.events is not msgspec.UNSET:
        bodies = [(f"events[{place}].", one) for place, one in enumerate(given.events)]
    return [read_event(one, field, NOW, "default", lambda: "new") for field, one in bodies]


def structured(**members: Any) -> list[Event]:
    return read({**LEAST, **members}, {"content-type": STRUCTURED})


def binary(data: bytes = b"", kind: str | None = "application/json", **names: str) -> list[Event]:
    headers = BINARY | {f"ce-{name}": value for name, value in names.items()}
    return read(data, headers | ({"content-type": kind} if kind else {}))


SDK_EVENTS = [
    CloudEvent({"id": "1", "source": "/a", "type": "t"}, None),
    CloudEvent({"id": "1", "source": "/a", "type": "t", "time": NOW}, {"n": [1, 2.5, None]}),
    CloudEvent(
        {
            "id": "ü %25",
            "source": "https://shop.example/orders?a=1#b",
            "type": "t",
            "subject": "Bestellung № 7",
            "dataschema": "https://shop.example/schema",
            "datacontenttype": "application/json",
            "traceparent": "00-aa-bb-01",
            "time": NOW,
        },
        {"price": "7 €", "paid": True},
    ),
    CloudEvent(
        {
            "id": "1",
            "source": "/a",
            "type": "t",
            "time": NOW,
            "datacontenttype": "application/octet-stream",
        },
        b"\x00\xff",
    ),
]


@pytest.mark.parametrize("given", SDK_EVENTS)
def test_a_structured_event_is_what_the_sdk_wrote(given: CloudEvent) -> None:
    message = to_structured(given, JSONFormat())
    headers = {name.lower(): value for name, value in message.headers.items()}
    (event,) = read(message.body, headers)
    assert_same(event, given)


@pytest.mark.parametrize("given", SDK_EVENTS)
def test_a_binary_event_is_what_the_sdk_wrote(given: CloudEvent) -> None:
    message = to_binary(given, JSONFormat())
    headers = {name.lower(): value for name, value in message.headers.items()}
    (event,) = read(message.body, headers)
    assert_same(event, given)


@pytest.mark.parametrize("given", SDK_EVENTS)
def test_the_sdk_reads_what_is_written(given: CloudEvent) -> None:
    message = to_structured(given, JSONFormat())
    (event,) = read(message.body, {"content-type": STRUCTURED})
    body, kind = delivered([event])
    again = from_structured(HTTPMessage({"content-type": kind}, body), JSONFormat())
    assert_same(event, again)


def assert_same(event: Event, given: Any) -> None:
    assert (event.id, event.source, event.type) == (
        given.get_id(),
        given.get_source(),
        given.get_type(),
    )
    assert event.subject == given.get_subject()
    assert event.dataschema == given.get_dataschema()
    assert event.time == (given.get_time() or event.time)
    assert event.extensions == {
        name: value for name in ("traceparent",) if (value := given.get_extension(name)) is not None
    }
    data = given.get_data()
    if event.is_base64:
        assert base64.b64decode(msgspec.json.decode(event.data)) == data
    elif event.data is None:
        assert data in {None, b"", ""}
    else:
        assert msgspec.json.decode(event.data) == data


def test_the_plain_form_needs_only_a_type() -> None:
    assert read({"type": "paid"}) == [Event(id="new", source="default", type="paid", time=NOW)]
    (event,) = read(
        {
            "type": "paid",
            "data": {"n": 1},
            "id": "7",
            "source": "/shop",
            "subject": "order",
            "time": "2026-01-01T00:00:00+01:00",
            "extensions": {"tenant": "a", "level": 3, "test": True},
        }
    )
    assert event.time == datetime(2025, 12, 31, 23, tzinfo=UTC)
    assert event.extensions == {"tenant": "a", "level": 3, "test": True}


def test_batches_come_in_each_form() -> None:
    two = [{**LEAST, "id": "1"}, {**LEAST, "id": "2"}]
    for body, kind in ((two, BATCHED), (two, "application/json"), ({"events": two}, "")):
        assert [event.id for event in read(body, {"content-type": kind})] == ["1", "2"]
    assert read([], {"content-type": BATCHED}) == []


def test_a_batch_is_written_as_it_was_read() -> None:
    (event,) = structured(data={"n": 1}, tenant="a")
    text = events_json([event, event])
    assert delivered([event, event]) == (text, BATCHED)
    assert read(text, {"content-type": BATCHED}) == [event, event]


def test_a_null_member_is_absent() -> None:
    (event,) = structured(data=None, subject=None, tenant=None)
    assert event == Event(id="1", source="/shop", type="paid", time=NOW)
    assert b"null" not in event_json(event)


def test_binary_data_of_another_type_is_base64() -> None:
    (event,) = binary(b"a,b\n", "text/csv")
    assert event.is_base64
    assert event.datacontenttype == "text/csv"
    assert msgspec.json.decode(event_json(event))["data_base64"] == "YSxiCg=="
    (event,) = binary(b"[1]", "application/vnd.order+json; charset=utf-8")
    assert not event.is_base64
    (event,) = binary(b"[1]", None)
    assert event.data == msgspec.Raw(b"[1]")


def test_headers_are_percent_decoded() -> None:
    (event,) = binary(subject="Euro%20%E2%82%AC", tenant="a b")
    assert event.subject == "Euro €"
    assert event.extensions == {"tenant": "a b"}


LONG = "x" * EVENT_NAME_CHARS_MAX
TEXT = "x" * EVENT_TEXT_CHARS_MAX

AT_THE_BOUND: list[dict[str, Any]] = [
    {"id": LONG},
    {"source": LONG},
    {"type": LONG},
    {"subject": TEXT},
    {"datacontenttype": TEXT},
    {"dataschema": "a:" + TEXT[2:]},
    {"x" * EXTENSION_NAME_CHARS_MAX: "a"},
    {"n": EXTENSION_INTEGER_MAX},
    {"n": -EXTENSION_INTEGER_MAX},
    {f"n{place}": "a" for place in range(EXTENSIONS_MAX)},
]


@pytest.mark.parametrize("members", AT_THE_BOUND)
def test_attributes_at_their_bound(members: dict[str, Any]) -> None:
    (event,) = structured(**members)
    assert len(event.extensions) <= EXTENSIONS_MAX


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"specversion": "0.3"}, "specversion"),
    ({"specversion": None}, "specversion"),
    ({"id": None}, "id"),
    ({"source": None}, "source"),
    ({"type": None}, "type"),
    ({"id": ""}, "id"),
    ({"id": LONG + "x"}, "id"),
    ({"id": 7}, "id"),
    ({"id": "a\nb"}, "id"),
    ({"id": "a\0b"}, "id"),
    ({"source": ""}, "source"),
    ({"source": LONG + "x"}, "source"),
    ({"source": "a shop"}, "source"),
    ({"source": "onbeat"}, "source"),
    ({"type": LONG + "x"}, "type"),
    ({"type": "onbeat.job.failed"}, "type"),
    ({"type": ["a"]}, "type"),
    ({"subject": ""}, "subject"),
    ({"subject": TEXT + "x"}, "subject"),
    ({"datacontenttype": TEXT + "x"}, "datacontenttype"),
    ({"dataschema": "schema"}, "dataschema"),
    ({"time": "yesterday"}, "time"),
    ({"time": "2026-01-01T00:00:00"}, "time"),
    ({"data_base64": "?"}, "data_base64"),
    ({"data": 1, "data_base64": "AA=="}, "data_base64"),
    ({"x" * (EXTENSION_NAME_CHARS_MAX + 1): "a"}, "x" * (EXTENSION_NAME_CHARS_MAX + 1)),
    ({"Tenant": "a"}, "Tenant"),
    ({"ten_ant": "a"}, "ten_ant"),
    ({"onbeatdepth": 1}, "onbeatdepth"),
    ({"n": EXTENSION_INTEGER_MAX + 1}, "n"),
    ({"n": 1.5}, "n"),
    ({"n": {"a": 1}}, "n"),
    ({"n": TEXT + "x"}, "n"),
    ({f"n{place}": "a" for place in range(EXTENSIONS_MAX + 1)}, "extensions"),
]


@pytest.mark.parametrize(("members", "field"), REFUSED)
def test_a_wrong_attribute_is_refused_by_name(members: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        structured(**members)
    assert refused.value.field == field
    assert field in str(refused.value)
    with pytest.raises(Invalid) as refused:
        read([LEAST, {**LEAST, **members}], {"content-type": BATCHED})
    assert refused.value.field in {f"events[1].{field}", f"[1].{field}"}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"type": "paid", "tenant": "a"}, "tenant"),
        ({"typ": "paid"}, "typ"),
        ({}, "type"),
        ({"events": [{}]}, "events[0].type"),
        ({"events": [7]}, "events[0]"),
        ({"events": 7}, "events"),
        ({"events": [], "id": "7"}, "id"),
        ({"type": "paid", "extensions": {"a-b": "c"}}, "a-b"),
        ({"type": "paid", "extensions": {"a": None}}, "extensions"),
    ],
)
def test_a_wrong_plain_form_is_refused_by_name(body: object, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(body)
    assert refused.value.field == field


@pytest.mark.parametrize(
    ("headers", "field"),
    [
        ({"ce-specversion": ""}, "specversion"),
        ({"ce-subject": "€"}, "ce-subject"),
        ({"ce-subject": "50%"}, "ce-subject"),
        ({"ce-subject": "%FF"}, "ce-subject"),
        ({"ce-subject": "%00"}, "ce-subject"),
        ({"ce-data": "a"}, "ce-data"),
        ({"ce-datacontenttype": "text/plain"}, "ce-datacontenttype"),
        ({"ce-ten-ant": "a"}, "ten-ant"),
        ({"ce-": "a"}, ""),
    ],
)
def test_a_wrong_header_is_refused_by_name(headers: dict[str, str], field: str) -> None:
    with pytest.raises(Invalid) as refused:
        read(b"", {**BINARY, **headers})
    assert refused.value.field == field


@pytest.mark.parametrize("name", ["specversion", "id", "source", "type"])
def test_binary_mode_needs_its_headers(name: str) -> None:
    headers = {key: value for key, value in BINARY.items() if key != f"ce-{name}"}
    with pytest.raises(Invalid) as refused:
        read(b"", headers)
    assert refused.value.field == name


@pytest.mark.parametrize("body", [b"{", b"7", b'"a"', b'{"type":"a","type":"b"}', b"\xff"])
def test_what_is_no_event_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        read(body)
    with pytest.raises(Malformed):
        read(body, {"content-type": STRUCTURED})


def padded(size: int) -> bytes:
    text = msgspec.json.encode({**LEAST, "data": ""})
    return msgspec.json.encode({**LEAST, "data": "x" * (size - len(text))})


def test_an_event_has_a_bound() -> None:
    most = padded(EVENT_BYTES_MAX)
    assert len(most) == EVENT_BYTES_MAX
    for headers in ({"content-type": STRUCTURED}, {"content-type": "application/json"}):
        assert len(read(most, headers)) == 1
        with pytest.raises(TooLarge):
            read(padded(EVENT_BYTES_MAX + 1), headers)
    assert len(read(b"[" + most + b"," + most + b"]", {"content-type": BATCHED})) == 2
    with pytest.raises(TooLarge) as refused:
        read(b"[" + padded(EVENT_BYTES_MAX + 1) + b"]", {"content-type": BATCHED})
    assert refused.value.field == "events[0]"
    assert len(binary(b'"' + b"x" * (EVENT_BYTES_MAX - 2) + b'"')) == 1
    with pytest.raises(TooLarge):
        binary(b'"' + b"x" * (EVENT_BYTES_MAX - 1) + b'"')


def test_a_batch_has_a_bound() -> None:
    assert len(read([{"type": "a"}] * EVENTS_MAX)) == EVENTS_MAX
    for body in (
        [{"type": "a"}] * (EVENTS_MAX + 1),
        {"events": [{"type": "a"}] * (EVENTS_MAX + 1)},
    ):
        with pytest.raises(TooLarge) as refused:
            read(body)
        assert refused.value.field == "events"


@pytest.mark.parametrize(
    ("headers", "begin", "most"),
    [
        ({"content-type": STRUCTURED}, b"", EVENT_BYTES_MAX),
        ({"content-type": f"{STRUCTURED}; charset=utf-8"}, b"[", EVENT_BYTES_MAX),
        ({"content-type": BATCHED}, b"", BULK_REQUEST_BYTES_MAX),
        ({"content-type": "application/json"}, b"", BULK_REQUEST_BYTES_MAX),
        ({"content-type": "application/json"}, b" [", BULK_REQUEST_BYTES_MAX),
        ({"content-type": "application/json"}, b' {"a', EVENT_BYTES_MAX),
        ({"content-type": "application/json", "ce-id": "1"}, b"[", EVENT_BYTES_MAX),
    ],
)
def test_the_bound_of_a_body_is_told_by_its_form(
    headers: dict[str, str], begin: bytes, most: int
) -> None:
    assert bytes_max(headers, begin) == most
