"""Whatever comes in, it becomes a draft or an error of ours, and never anything else."""

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from onbeat.model.errors import Invalid
from onbeat.model.retry import RetryPolicy
from onbeat.wire.decode import decode
from onbeat.wire.errors import problem, status_of
from onbeat.wire.jobs import EnqueueBody, read_jobs
from onbeat.wire.recurrences import PreviewBody, read_recurrence
from onbeat.wire.schedules import ScheduleBody, read_schedule

TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        [
            "FREQ=DAILY",
            "DTSTART:20250101T000000Z\nRRULE:FREQ=WEEKLY;COUNT=3",
            "*/5 * * * *",
            "@daily",
            "5m",
            "PT1H",
            "P1M",
            "1e9",
            "2026-01-01T00:00:00Z",
            "9999-12-31T23:59:59.999999-23:59",
            "0001-01-01T00:00:00+23:59",
            "Europe/Berlin",
            "https://example.com/",
            "active",
            "skip",
            "x" * 3_000,
        ]
    ),
)
NUMBERS = st.one_of(st.integers(-(2**64), 2**64), st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
TARGETS = st.fixed_dictionaries(
    {},
    optional={
        "task": TEXTS,
        "args": VALUES,
        "kwargs": VALUES,
        "http": st.fixed_dictionaries({"url": TEXTS}, optional={"json": VALUES, "headers": VALUES}),
    },
)
POLICIES = st.fixed_dictionaries(
    {}, optional={"attempts_max": VALUES, "delay": VALUES, "delay_max": VALUES}
)


def bodies(record: type[Any]) -> Any:
    """Bodies of which most fields are of about the right kind."""
    fields = {
        field.encode_name: {"target": TARGETS, "retry": POLICIES}.get(field.name, VALUES) | VALUES
        for field in msgspec.structs.fields(record)
    }
    return st.fixed_dictionaries({}, optional=fields)


def refusal(read: Callable[..., Any], body: bytes) -> Invalid | None:
    try:
        read(body)
    except Invalid as error:
        return error
    return None


def judge(type: type[Any], read: Callable[..., Any], body: dict[str, Any]) -> None:
    check(refusal(lambda sent: read(decode(type, sent)), msgspec.json.encode(body)))


def check(error: Invalid | None) -> None:
    if error is not None:
        assert 400 <= status_of(error).status < 500
        assert str(error)
        assert len(msgspec.json.encode(problem(error))) < 20_000


@settings(max_examples=100, deadline=None)
@given(bodies(ScheduleBody))
def test_any_schedule_is_read_or_refused(body: dict[str, Any]) -> None:
    judge(ScheduleBody, lambda read: read_schedule(read, RetryPolicy()), {"name": "n"} | body)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["rrule", "cron", "every", "at"]), TEXTS | NUMBERS, bodies(PreviewBody))
def test_any_rule_is_read_or_refused(form: str, text: float | str, body: dict[str, Any]) -> None:
    others = {"timezone": body.get("timezone"), "dst_gap": None, "count": 3}
    judge(PreviewBody, lambda read: read_recurrence(read, ""), {form: text} | others)


@settings(max_examples=100, deadline=None)
@given(bodies(EnqueueBody))
def test_any_job_is_read_or_refused(body: dict[str, Any]) -> None:
    judge(EnqueueBody, read_jobs, body)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | TEXTS.map(str.encode) | VALUES.map(msgspec.json.encode))
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    check(refusal(lambda sent: decode(ScheduleBody, sent), body))
