"""What is refused whatever its type, and how faults of type are told."""

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from cost import assert_linear
from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.limits import JSON_DEPTH_MAX, REQUEST_BYTES_MAX
from onbeat.wire.decode import decode, guard
from onbeat.wire.jobs import EnqueueBody
from onbeat.wire.schedules import ScheduleBody

MALFORMED = [
    b"",
    b" ",
    b"{",
    b"}",
    b"nul",
    b"{'a':1}",
    b'{"a":1,}',
    b'{"a":1}{"b":2}',
    b'{"a" 1}',
    b"[1 2]",
    b'{"a":01}',
    b'{"a":+1}',
    b'{"a":.5}',
    b'{"a":0x10}',
    b'{"a":"\x01"}',
    b'{"a":"\\x"}',
    b'{"a":"\\u12"}',
    b'{"a":"unfinished}',
    b"NaN",
    b'{"a":NaN}',
    b'{"a":[Infinity]}',
    b'{"a":-Infinity}',
    b"\xff\xfe{}",
    b'{"a":"\xff"}',
    b'{"a":"\xed\xa0\x80"}',
    b"\xef\xbb\xbf{}",
    b'{"a":1,"a":2}',
    b'{"x":{"a":1,"b":2,"a":1}}',
    b'{"a":1,"\\u0061":2}',
    b"[" * (JSON_DEPTH_MAX + 1) + b"]" * (JSON_DEPTH_MAX + 1),
    b"[" * 100_000,
    b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    b"1" * 5_000,
]

IMPOSSIBLE = [
    (b'{"a":"\\u0000"}', "a"),
    (b'{"a":{"b":[1,"x\\u0000"]}}', "a.b[1]"),
    (b'{"a\\u0000":1}', ""),
    (b'{"a":"\\ud800"}', "a"),
    (b'{"a":"\\udfff\\ud800"}', "a"),
    (b'{"a":9223372036854775808}', "a"),
    (b'{"a":[-9223372036854775809]}', "a[0]"),
    (b'{"a":1e999}', "a"),
    (b'{"a":{"b":-1e400}}', "a.b"),
]

FINE = [
    b"{}",
    b' {"a" : [ 1 , 2.5 , "x" , null , true ] } ',
    b'{"a":9223372036854775807,"b":-9223372036854775808}',
    b'{"a":"\\ud83d\\ude00","b":"\\\\u0000","c":"\\\\ud800"}',
    b'{"a":1e30,"b":1.7976931348623157e308}',
    b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX,
    b'{"a":"' + b"[" * 1_000 + b'"}',
    b'{"a":"\\"' + b"{" * 1_000 + b'\\""}',
    json.dumps([{"a": 1}] * 1_000).encode(),
]


@pytest.mark.parametrize("body", MALFORMED, ids=lambda body: body[:20])
def test_broken_json_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        guard(body, REQUEST_BYTES_MAX)


@pytest.mark.parametrize(("body", "field"), IMPOSSIBLE, ids=lambda body: body[:20])
def test_what_no_store_can_keep_is_invalid_and_named(body: bytes, field: str) -> None:
    with pytest.raises(Invalid) as caught:
        guard(body, REQUEST_BYTES_MAX)
    assert not isinstance(caught.value, Malformed)
    assert caught.value.field == field


@pytest.mark.parametrize("body", FINE, ids=lambda body: body[:20])
def test_good_json_passes(body: bytes) -> None:
    guard(body, REQUEST_BYTES_MAX)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"[" * 65 + b"]" * 65,
        b'{"]":' * 65 + b"1" + b"}" * 65,
    ],
    ids=range(4),
)
def test_deep_json_is_said_to_be_deep(body: bytes) -> None:
    with pytest.raises(Malformed, match="deeper than 64 levels"):
        guard(body, REQUEST_BYTES_MAX)


@pytest.mark.parametrize(
    "unit", [b"[],", b"{},", b'"",', b'{"a":[]},', b"1,", b'"\\u0000",', b"[[[[[[[[[]]]]]]]]],"]
)
def test_a_body_as_large_as_it_may_be_costs_little(unit: bytes) -> None:
    body = b"[" + unit * ((REQUEST_BYTES_MAX - 10) // len(unit)) + b"0]"
    began = time.process_time()
    with contextlib.suppress(Invalid):
        guard(body, REQUEST_BYTES_MAX)
    assert time.process_time() - began < 2


UNCLOSED = [
    lambda n: b"[" * 65 + b'"' + b'\\"' * n,
    lambda n: b"[" * 65 + b'"' + b'\\"' * n + b"\\",
    lambda n: b"[" * 65 + b'"' + b"\\" * (2 * n + 1),
    lambda n: b"[" * 65 + b'"",' * n + b'"',
]
REPEATED = [
    lambda n: b"{" + b",".join(b'"%x":0' % i for i in [*range(n), n - 1]) + b"}",
    lambda n: b"{" + b",".join(b'"%x":0' % i for i in [*range(n), 0]) + b"}",
    lambda n: b'{"a":0' + b',"a":0' * n + b"}",
]
NESTED = [
    lambda n: b"[" * n,
    lambda n: b"]" * n,
    lambda n: b"[]" * n,
    lambda n: (b"[" * 64 + b"]" * 64) * (n // 64),
    lambda n: b'{"a":' * n,
]
NUMBERS = [
    lambda n: b"1" * n,
    lambda n: b"[1." + b"1" * n + b"]",
    lambda n: b"[1e" + b"9" * n + b"]",
    lambda n: b"[" + b"1234567890123456789," * n + b"0]",
]
TEXTS = [
    lambda n: b'["\\ud800' + b"a" * n + b'"]',
    lambda n: b'["\\u0041' + "é".encode() * n + b'","\\u0000"]',
    lambda n: b'["' + b"\\ud83d\\ude00" * n + b'"]',
]


@pytest.mark.parametrize(
    "body", [*UNCLOSED, *REPEATED, *NESTED, *NUMBERS, *TEXTS], ids=lambda body: body(1)[-20:]
)
def test_a_body_costs_in_proportion_to_its_length(body: Callable[..., Any]) -> None:
    def judged(n: int) -> Callable[..., Any]:
        sent = body(n)
        return lambda: refused(sent)

    def refused(sent: bytes) -> None:
        with contextlib.suppress(Invalid):
            guard(sent, REQUEST_BYTES_MAX)

    assert_linear(judged(15_000), judged(30_000), "the guard of JSON")


def test_size_is_checked_before_anything_is_read() -> None:
    with pytest.raises(TooLarge, match="at most 10 bytes"):
        guard(b"{" * 11, 10)


def test_a_repeated_key_is_named() -> None:
    with pytest.raises(Malformed) as caught:
        decode(ScheduleBody, b'{"name":"a","rrule":"x","name":"b"}')
    assert caught.value.field == "name"


def test_a_long_body_is_refused_for_its_first_fault_of_type() -> None:
    jobs = b'{"task":"t"},{"task":1},' + b'{"task":"t"},' * 6_000 + b'{"task":"t","task":"t"}'
    with pytest.raises(Malformed, match=r"jobs\[1\].task must be a string"):
        decode(EnqueueBody, b'{"jobs":[' + jobs + b"]}")
    with pytest.raises(Malformed, match="task is given twice"):
        decode(EnqueueBody, b'{"jobs":[' + jobs.replace(b":1", b':"t"') + b"]}")
    with pytest.raises(Malformed, match="not JSON"):
        decode(EnqueueBody, b'{"jobs":[' + b'{"task":"t"},' * 6_000)


def test_a_repeated_key_may_be_empty() -> None:
    with pytest.raises(Malformed, match="A key is given twice"):
        guard(b'{"":0,"":0}', 100)


@pytest.mark.parametrize(
    ("body", "kind", "field", "words"),
    [
        (b'{"name":3}', Malformed, "name", "must be a string or null, not an integer"),
        (b'{"target":{"http":{"url":1}}}', Malformed, "target.http.url", "a string"),
        (b'{"target":{"http":{}}}', Invalid, "target.http.url", "is required"),
        (b'{"headers":{"A":1}}', Malformed, "headers", "A value in headers"),
        (b'{"priority":40000}', Invalid, "priority", "at most 32767"),
        (b'{"catch_up":"some"}', Invalid, "catch_up", "one of latest, all, none, not 'some'"),
        (b'{"dst_gap":"x"}', Invalid, "dst_gap", "one of shift, skip, end, not 'x'"),
        (b'{"retry":{"backoff":"x"}}', Invalid, "retry.backoff", "exponential, linear, fixed"),
        (b'{"starts_at":"tomorrow"}', Invalid, "starts_at", "RFC 3339"),
        (b'{"starts_at":"2026-01-01T00:00:00"}', Invalid, "starts_at", "RFC 3339"),
        (b'{"starts_at":5}', Malformed, "starts_at", "RFC 3339"),
        (b'{"retry":{"attempts_max":0}}', Invalid, "retry.attempts_max", "at least 1"),
        (b'{"nam":"x"}', Invalid, "nam", "is not a known field"),
        (b'{"target":{"task":"x","arg":[]}}', Invalid, "target.arg", "is not a known field"),
        (b'{"target":{"message":{}}}', Invalid, "target.message.to", "required"),
        (b'{"target":{"notify":{}}}', Invalid, "target.notify.channel", "required"),
        (b"[]", Malformed, "", "must be an object, not an array"),
    ],
)
def test_a_fault_names_its_field(body: bytes, kind: type[Any], field: str, words: str) -> None:
    with pytest.raises(Invalid, match=words.replace("(", "\\(")) as caught:
        decode(ScheduleBody, body)
    assert type(caught.value) is kind
    assert caught.value.field == field


def test_a_fault_in_a_list_names_the_place() -> None:
    with pytest.raises(Malformed) as caught:
        decode(EnqueueBody, b'{"jobs":[{"task":"a"},{"task":"b","priority":"high"}]}')
    assert caught.value.field == "jobs[1].priority"


def test_a_name_from_outside_is_shown_cut_and_without_control_characters() -> None:
    with pytest.raises(Invalid) as caught:
        decode(ScheduleBody, json.dumps({"\x1b[31m" + "x" * 500: 1}).encode())
    assert "\x1b" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_what_the_service_sets_may_be_sent_back_in_any_form() -> None:
    body = decode(ScheduleBody, b'{"id":{"x":[1]},"created_at":7,"next_at":null,"anchor":true}')
    assert body.name.__class__.__name__ == "UnsetType"
