"""Bodies of schedules and jobs: each field wrong in each way, and what the good ones become."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from onbeat.model.errors import Invalid, Malformed, TooLarge
from onbeat.model.limits import PAYLOAD_BYTES_MAX
from onbeat.model.retry import Backoff, RetryPolicy
from onbeat.model.schedule import CatchUp, Overlap, ScheduleStatus
from onbeat.model.target import HandlerTarget, HttpTarget
from onbeat.wire.decode import decode
from onbeat.wire.jobs import EnqueueBody, JobDraft, read_jobs
from onbeat.wire.schedules import ScheduleBody, ScheduleDraft, read_schedule
from onbeat.wire.targets import target_answer

LEAST = {"name": "n", "rrule": "FREQ=DAILY", "callback_url": "https://example.com/"}


def schedule(**fields: Any) -> Any:
    body = decode(ScheduleBody, msgspec.json.encode(LEAST | fields))
    return read_schedule(body, RetryPolicy())


def task_schedule(**fields: Any) -> ScheduleDraft:
    body = {"name": "n", "every": "5m", "target": {"task": "t"}} | fields
    return read_schedule(decode(ScheduleBody, msgspec.json.encode(body)), RetryPolicy())


def jobs(body: dict[str, Any]) -> tuple[JobDraft, ...]:
    return read_jobs(decode(EnqueueBody, msgspec.json.encode(body)))


TEXT_FIELDS = [
    "name",
    "rrule",
    "cron",
    "at",
    "timezone",
    "dst_gap",
    "dst_fold",
    "callback_url",
    "method",
    "body",
    "starts_at",
    "ends_at",
    "status",
    "catch_up",
    "overlap",
    "queue",
    "key",
]


@pytest.mark.parametrize("field", TEXT_FIELDS)
@pytest.mark.parametrize("value", [1, True, 1.5, [], {}])
def test_a_text_of_another_type_is_malformed(field: str, value: Any) -> None:
    with pytest.raises(Malformed) as caught:
        schedule(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize("field", ["every", "grace", "jitter", "timeout", "expires_after"])
@pytest.mark.parametrize("value", [True, [], {}])
def test_a_span_of_another_type_is_malformed(
    field: str, value: bool | dict[str, Any] | list[Any]
) -> None:
    with pytest.raises(Malformed) as caught:
        task_schedule(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("headers", []),
        ("headers", "x"),
        ("labels", 3),
        ("labels", {"a": None}),
        ("target", "x"),
        ("retry", []),
        ("priority", "1"),
        ("priority", 1.5),
    ],
)
def test_a_structure_of_another_type_is_malformed(field: str, value: Any) -> None:
    with pytest.raises(Malformed) as caught:
        schedule(**{field: value})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "x" * 201),
        ("name", "a\x00b"),
        ("name", "a\nb"),
        ("timezone", "Mars/Olympus"),
        ("timezone", "../../etc/passwd"),
        ("timezone", "Factory"),
        ("dst_gap", "leap"),
        ("dst_fold", "middle"),
        ("starts_at", "2026-02-30T00:00:00Z"),
        ("ends_at", "x"),
        ("ends_at", "9999-12-31T23:59:59-23:00"),
        ("status", "finished"),
        ("status", "asleep"),
        ("catch_up", "yes"),
        ("grace", "soon"),
        ("grace", -1),
        ("overlap", "never"),
        ("jitter", "2d"),
        ("jitter", "x"),
        ("timeout", 0),
        ("timeout", "100000d"),
        ("queue", ""),
        ("queue", "x" * 201),
        ("priority", 32_768),
        ("priority", -32_769),
        ("expires_after", "0s"),
        ("key", ""),
        ("key", "x" * 501),
        ("labels", {"": "x"}),
        ("unknown", 1),
    ],
)
def test_a_value_that_cannot_be_is_invalid(field: str, value: dict[str, Any] | int | str) -> None:
    with pytest.raises(Invalid) as caught:
        schedule(**{field: value})
    assert not isinstance(caught.value, Malformed)
    assert caught.value.field.split(" ")[0] == field


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"every": "soon"}, "every"),
        ({"every": 0}, "every"),
        ({"every": None, "cron": "* * *"}, "cron"),
        ({"every": None, "cron": ""}, "cron"),
        ({"every": None, "at": "tomorrow"}, "at"),
        ({"every": None, "at": ""}, "at"),
        ({"cron": "* * * * *"}, "every"),
        ({"target": {}}, "target"),
        ({"target": {"task": ""}}, "target.task"),
        ({"target": {"task": "x", "args": {}}}, "target.args"),
        ({"target": {"task": "x", "args": 3}}, "target.args"),
        ({"target": {"task": "x", "kwargs": []}}, "target.kwargs"),
        ({"target": {"task": "x", "http": {"url": "https://a/"}}}, "target"),
        ({"target": {"http": {"url": "https://a/", "body": "x", "json": 1}}}, "target.http.json"),
        ({"target": {"message": {}}}, "target.message.to"),
        (
            {"target": {"message": {"to": "b", "queue": "q", "headers": {"onbeat-x": ""}}}},
            "target.message.headers",
        ),
        ({"target": {"task": "t", "message": {"to": "b", "queue": "q"}}}, "target"),
        ({"callback_url": "https://a.example/"}, "target"),
        ({"method": "POST"}, "method"),
        ({"retry": {"attempts_max": 1001}}, "retry.attempts_max"),
        ({"retry": {"lost_max": 101}}, "retry.lost_max"),
        ({"retry": {"backoff": "random"}}, "retry.backoff"),
        ({"retry": {"delay": "x"}}, "retry.delay"),
        ({"retry": {"delay": "1h", "delay_max": "1m"}}, "retry.delay_max"),
        ({"retry": {"jitter": "yes"}}, "retry.jitter"),
        ({"retry": {"tries": 3}}, "retry.tries"),
    ],
)
def test_a_fault_inside_is_named_by_its_path(fields: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        task_schedule(**fields)
    assert caught.value.field == field


@pytest.mark.parametrize(
    "fields",
    [
        {"callback_url": "https://a/", "target": None, "body": "é" * (PAYLOAD_BYTES_MAX // 2 + 1)},
        {"target": {"task": "t", "args": ["x" * PAYLOAD_BYTES_MAX]}},
        {"target": {"http": {"url": "x", "body": "x" * (PAYLOAD_BYTES_MAX + 1)}}},
    ],
)
def test_a_payload_has_a_bound(fields: dict[str, Any]) -> None:
    with pytest.raises(TooLarge, match="at most 262144 bytes"):
        task_schedule(**fields)


def test_null_in_one_form_of_the_target_leaves_it_to_the_other() -> None:
    assert task_schedule(callback_url=None, method=None).target == HandlerTarget("t")


def test_a_full_schedule_becomes_a_draft() -> None:
    draft = task_schedule(
        timezone=None,
        starts_at="2026-01-01T01:00:00+01:00",
        status="paused",
        catch_up="all",
        grace="1h",
        overlap="skip",
        jitter=5,
        retry={"attempts_max": 5, "backoff": "linear", "delay": 2},
        timeout="PT30S",
        queue="mail",
        priority=-3,
        expires_after="1d",
        key="k",
        labels={"team": "a"},
        target={"task": "t", "args": [1, {"a": 2}], "kwargs": {"b": None}},
    )
    assert draft.recurrence.kind == "every"
    assert draft.status is ScheduleStatus.PAUSED
    assert draft.options == {
        "starts_at": datetime(2026, 1, 1, tzinfo=UTC),
        "catch_up": CatchUp.ALL,
        "grace": timedelta(hours=1),
        "overlap": Overlap.SKIP,
        "jitter": timedelta(seconds=5),
        "retry": RetryPolicy(attempts_max=5, backoff=Backoff.LINEAR, delay=timedelta(seconds=2)),
        "timeout": timedelta(seconds=30),
        "queue": "mail",
        "priority": -3,
        "expires_after": timedelta(days=1),
        "key": "k",
        "labels": {"team": "a"},
    }
    assert draft.target == HandlerTarget(
        "t", msgspec.Raw(b'[1,{"a":2}]'), msgspec.Raw(b'{"b":null}')
    )


def test_json_is_sent_with_its_type_unless_that_is_given() -> None:
    url = "https://a/"
    plain = task_schedule(target={"http": {"url": url, "json": {"a": [1, 2.0]}}}).target
    assert (plain.body, plain.headers) == ('{"a":[1,2.0]}', {"Content-Type": "application/json"})
    own = {"url": url, "json": 1, "headers": {"content-type": "x/y"}}
    assert task_schedule(target={"http": own}).target.headers == {"content-type": "x/y"}


def test_a_secret_is_never_shown() -> None:
    target = HttpTarget("https://a/", secret="whsec_geheim")
    shown = msgspec.json.encode(target_answer(target))
    assert b"geheim" not in shown
    assert b'"secret_set":true' in shown


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "task"),
        ({"task": "a", "target": {"task": "b"}}, "target"),
        ({"target": {"task": "b"}, "args": []}, "args"),
        ({"task": ""}, "task"),
        ({"task": "a", "args": "x"}, "args"),
        ({"task": "a", "kwargs": 1}, "kwargs"),
        ({"task": "a", "delay": "x"}, "delay"),
        ({"task": "a", "delay": -1}, "delay"),
        ({"task": "a", "delay": 5, "run_at": "2026-01-01T00:00:00Z"}, "delay"),
        ({"task": "a", "run_at": "noon"}, "run_at"),
        ({"task": "a", "queue": " "}, "queue"),
        ({"task": "a", "priority": 99999}, "priority"),
        ({"task": "a", "unique": ""}, "unique"),
        ({"task": "a", "unique": "x" * 501}, "unique"),
        ({"task": "a", "timeout": 0}, "timeout"),
        ({"task": "a", "expires_at": "x"}, "expires_at"),
        ({"task": "a", "after": [" "]}, "after"),
        ({"task": "a", "after": [{"job": "x", "on": "sunset"}]}, "after[0].on"),
        ({"task": "a", "after": [{"on": "end"}]}, "after[0].job"),
        ({"task": "a", "name": "sent"}, "name"),
        ({"task": "a", "name": "01900000-0000-7000-8000-00000000ffff"}, "name"),
        ({"task": "a", "after": "x"}, "after"),
        ({"task": "a", "labels": {"x": "y\n"}}, "labels.x"),
        ({"task": "a", "retry": {"delay": "x"}, "colour": 1}, "colour"),
        ({"task": "a", "jobs": [{"task": "b"}]}, "task"),
        ({"jobs": []}, "jobs"),
        ({"task": "@http"}, "task"),
        ({"target": {"task": "@message:mq"}}, "target.task"),
        ({"task": "a", "queue": "mail/urgent"}, "queue"),
        ({"jobs": [{"task": "a"}, {}]}, "jobs[1].task"),
        ({"jobs": [{"task": "a", "queue": ""}]}, "jobs[0].queue"),
        ({"jobs": [{"task": "a", "args": 1}]}, "jobs[0].args"),
        ({"jobs": [{"target": {"http": {}}}]}, "jobs[0].target.http.url"),
        ({"jobs": [{"jobs": []}]}, "jobs[0].jobs"),
        ({"jobs": {}}, "jobs"),
        ({"jobs": [{"task": "a"}] * 10_001}, "jobs"),
    ],
)
def test_a_fault_in_a_job_is_named(body: dict[str, Any], field: str) -> None:
    with pytest.raises(Invalid) as caught:
        jobs(body)
    assert caught.value.field == field


def test_many_jobs_become_as_many_drafts() -> None:
    drafts = jobs({"jobs": [{"task": "a"}, {"target": {"task": "b", "args": [1]}}]})
    assert [draft.target.task for draft in drafts] == ["a", "b"]


def test_no_jobs_are_refused() -> None:
    with pytest.raises(Invalid, match=r"^jobs must have at least 1 item$"):
        jobs({"jobs": []})
