"""Notices as operations: what is refused at save, and what jobs are made."""

from typing import Any

import pytest

from onbeat.expressions.cel import CelExpressions
from onbeat.model.channel import Template
from onbeat.model.errors import Invalid, TooLarge
from onbeat.model.limits import (
    BULK_REQUEST_BYTES_MAX,
    NOTICE_RECIPIENTS_MAX,
    PAYLOAD_BYTES_MAX,
    RECIPIENT_CHARS_MAX,
    TITLE_CHARS_MAX,
)
from onbeat.model.target import NotifyTarget
from onbeat.operations.notice_checks import Notices
from onbeat.operations.tables.jobs import JOB_ENQUEUE, JOB_SHOW, NOTIFICATION_SEND
from onbeat.operations.tables.schedules import SCHEDULE_CREATE, SCHEDULE_SHOW, SCHEDULE_UPDATE
from onbeat.rules.channels import read_channel
from onbeat.targets.notify.templates import LiquidTemplates
from operations.harness import OperationsHarness

URLS = {
    "mail": "smtp://h?from=a@b.c",
    "ops": "slack:OPS",
    "hook": "webhook://h/",
    "sms": "apprise:SMS",
}
TEMPLATES = {
    "welcome": Template(title="Hi {{ data.name }}", text="Dear {{ data.name }}"),
    "html": Template(html="<b>x</b>"),
    "fired": Template(text="{{ event.type }} at {{ occurrence }}"),
}
NOTICES = Notices(
    {name: read_channel(url) for name, url in URLS.items()}, TEMPLATES, LiquidTemplates()
)
MAIL = {"channel": "mail", "to": ["ada@example.com"], "text": "x"}


@pytest.fixture
def harness() -> OperationsHarness:
    return OperationsHarness(notices=NOTICES, expressions=CelExpressions())


async def jobs_of(harness: OperationsHarness, ids: list[str]) -> list[dict[str, Any]]:
    return [await harness.ask(JOB_SHOW, id=id) for id in ids]


async def test_each_recipient_has_a_job(harness: OperationsHarness) -> None:
    body = {
        "channel": "mail",
        "to": ["ada@example.com", "bob@example.com", " ada@example.com "],
        "title": "Hi",
        "text": "{{ data.name }}",
        "html": "<b>{{ data.name }}</b>",
        "data": {"name": "you"},
        "labels": {"run": "7"},
        "queue": "mails",
        "priority": 3,
        "delay": "10m",
        "unique": "w",
    }
    answer = await harness.ask(NOTIFICATION_SEND, body)
    jobs = await jobs_of(harness, answer["ids"])
    content = {name: body[name] for name in ("channel", "title", "text", "html", "data")}
    assert [job["target"]["notify"] for job in jobs] == [
        content | {"to": to} for to in ("ada@example.com", "bob@example.com")
    ]
    assert [job["unique"] for job in jobs] == ["w:ada@example.com", "w:bob@example.com"]
    for job in jobs:
        assert (job["queue"], job["priority"], job["labels"]) == ("mails", 3, {"run": "7"})
        assert job["run_at"] == "2026-03-02T12:10:00Z"


async def test_a_notice_takes_the_options_of_jobs(harness: OperationsHarness) -> None:
    window = {"days": "MON", "from": "18:00", "to": "20:00", "timezone": "UTC"}
    options = {
        "unique": "w",
        "unique_for": "31d",
        "window": [window],
        "sensitive": True,
        "condition": {"if": "job.labels.run == '7'", "else": "5m"},
        "expires_at": "2026-03-02T21:00:00Z",
        "labels": {"run": "7"},
        "group": "acme",
    }
    answer = await harness.ask(
        NOTIFICATION_SEND, MAIL | options | {"run_at": "2026-03-02T13:00:00Z"}
    )
    (job,) = await jobs_of(harness, answer["ids"])
    del options["condition"]
    assert {name: job[name] for name in options} == options | {"unique": "w:ada@example.com"}
    assert job["condition"]["else"] == "5m"
    assert job["run_at"] == "2026-03-02T18:00:00Z"
    assert job["target"]["notify"]["text"] == "…"


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"delay": "1h", "run_at": "2026-03-02T13:00:00Z"}, "delay"),
        ({"unique_for": "31d"}, "unique_for"),
        ({"condition": {"if": "no.such"}}, "condition.if"),
        ({"condition": {"if": "true", "else": "5m"}}, "condition.else"),
        ({"window": {"from": "9", "to": "18:00", "timezone": "UTC"}}, "window.from"),
        ({"expires_at": "2026-03-02T11:00:00Z"}, "expires_at"),
    ],
)
async def test_options_of_a_notice_are_checked(
    harness: OperationsHarness, options: dict[str, Any], field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await harness.ask(NOTIFICATION_SEND, MAIL | options)
    assert error.value.field == field


async def test_a_recipient_whose_key_is_taken_keeps_the_job_that_is_there(
    harness: OperationsHarness,
) -> None:
    first = await harness.ask(NOTIFICATION_SEND, MAIL | {"unique": "w"})
    both = ["ada@example.com", "bob@example.com"]
    second = await harness.ask(NOTIFICATION_SEND, MAIL | {"to": both, "unique": "w"})
    assert second["existing"] == first["ids"]
    assert second["ids"][0] == first["ids"][0]
    assert len({*second["ids"]}) == 2


async def test_one_recipient_may_be_a_text_and_a_chat_has_none(harness: OperationsHarness) -> None:
    for body in (MAIL | {"to": "ada@example.com"}, {"channel": "ops", "text": "x", "to": None}):
        answer = await harness.ask(NOTIFICATION_SEND, body)
        assert len(answer["ids"]) == 1


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        ({"channel": "pager"}, "channel", "no channel is named 'pager'; the configuration's"),
        ({"template": "x", "text": None}, "template", "no template is named 'x'"),
        ({"template": "welcome"}, "text", "in the place of text"),
        ({"text": None}, "text", "text or template is needed"),
        ({"to": None}, "to", "a mail needs an address"),
        ({"to": []}, "to", "no recipient"),
        ({"to": ["ada@example.com", "bob"]}, "to[1]", "must be a mail address"),
        ({"to": "bob"}, "to", "must be a mail address"),
        ({"channel": "ops"}, "to[0]", "one place in a chat"),
        ({"text": "{{ datum }}"}, "text", "text, line 1, column 4: there is no 'datum'"),
        ({"title": "{{ occurrence }}"}, "title", "there is no 'occurrence'"),
        ({"html": "{% if %}"}, "html", "html, line 1, column 4"),
        ({"text": "{{ event.data.x }}"}, "text", "there is no 'event'"),
        ({"text": "{{ data.nmae }}"}, "text", "data.nmae is undefined"),
        ({"template": "welcome", "text": None, "data": {"nmae": 1}}, "title", "data.name"),
        ({"template": "fired", "text": None}, "text", "there is no 'event'"),
        ({"to": "{{ data.to }}"}, "to", "data.to is undefined"),
        ({"to": "{{ to }}"}, "to", "there is no 'to'"),
        ({"data": [1]}, "data", "must be an object"),
        ({"unique": "k" * 490}, "unique", "at most 500"),
        ({"run_at": "2026-03-03T00:00:00Z", "delay": "1m"}, "delay", "not both"),
        ({"task": "x"}, "task", "not a known field"),
        ({"channel": "ops", "to": None, "text": None, "html": "x"}, "text", "sends no HTML"),
        ({"channel": "sms", "text": None, "template": "html"}, "template", "sends no HTML"),
    ],
)
async def test_a_notice_that_cannot_work_is_refused_whole(
    harness: OperationsHarness, change: dict[str, Any], field: str, words: str
) -> None:
    body = {name: value for name, value in (MAIL | change).items() if value is not None}
    with pytest.raises(Invalid) as caught:
        await harness.ask(NOTIFICATION_SEND, body)
    assert caught.value.field == field
    assert words in str(caught.value)
    counts = (await harness.store.stats(harness.clock.now())).jobs
    assert sum(counts.values()) == 0


@pytest.mark.parametrize(
    ("name", "most"), [("title", TITLE_CHARS_MAX), ("text", PAYLOAD_BYTES_MAX - len("{}"))]
)
async def test_texts_have_bounds(harness: OperationsHarness, name: str, most: int) -> None:
    body = {"channel": "hook", "text": ""} | {name: "x" * most}
    assert await harness.ask(NOTIFICATION_SEND, body)
    with pytest.raises(TooLarge):
        await harness.ask(NOTIFICATION_SEND, body | {name: "x" * (most + 1)})


async def test_recipients_have_bounds(harness: OperationsHarness) -> None:
    longest = "x" * RECIPIENT_CHARS_MAX
    assert await harness.ask(NOTIFICATION_SEND, {"channel": "hook", "to": longest, "text": "x"})
    with pytest.raises(Invalid):
        await harness.ask(NOTIFICATION_SEND, {"channel": "hook", "to": longest + "x", "text": "x"})
    many = [str(n) for n in range(NOTICE_RECIPIENTS_MAX + 1)]
    with pytest.raises(Invalid, match=f"{NOTICE_RECIPIENTS_MAX}"):
        await harness.ask(NOTIFICATION_SEND, {"channel": "hook", "to": many, "text": "x"})


async def test_a_notice_for_all_has_a_bound(harness: OperationsHarness) -> None:
    text = "x" * 200_000
    count = BULK_REQUEST_BYTES_MAX // len(text) + 1
    many = [str(n) for n in range(count)]
    with pytest.raises(TooLarge) as caught:
        await harness.ask(NOTIFICATION_SEND, {"channel": "hook", "to": many, "text": text})
    assert caught.value.field == "to"
    few = await harness.ask(NOTIFICATION_SEND, {"channel": "hook", "to": many[:-2], "text": text})
    assert len(few["ids"]) == count - 2


async def test_a_job_may_have_a_notice_as_its_target(harness: OperationsHarness) -> None:
    notify = {"channel": "mail", "to": "{{ data.to }}", "text": "x", "data": {"to": "a@b.c"}}
    answer = await harness.ask(JOB_ENQUEUE, {"target": {"notify": notify}})
    (job,) = await jobs_of(harness, [answer["id"]])
    assert job["target"] == {"notify": notify}
    for change, field in (
        ({"channel": "x"}, "channel"),
        ({"text": "{{ event }}"}, "text"),
        ({"to": "b"}, "to"),
        ({"text": ""}, "text"),
    ):
        with pytest.raises(Invalid) as caught:
            await harness.ask(JOB_ENQUEUE, {"jobs": [{"target": {"notify": notify | change}}]})
        assert caught.value.field == f"jobs[0].target.notify.{field}"


async def test_a_schedule_may_read_its_occurrence(harness: OperationsHarness) -> None:
    notify = {"channel": "ops", "text": "{{ occurrence }}"}
    body = {"name": "n", "every": "1h", "target": {"notify": notify}}
    id = (await harness.ask(SCHEDULE_CREATE, body))["id"]
    assert (await harness.ask(SCHEDULE_SHOW, id=id))["target"] == {"notify": notify}
    await harness.ask(SCHEDULE_UPDATE, {"target": {"notify": notify | {"text": "y"}}}, id=id)
    for text in ("{{ datum }}", "{% if %}"):
        with pytest.raises(Invalid) as caught:
            await harness.ask(
                SCHEDULE_UPDATE, {"target": {"notify": notify | {"text": text}}}, id=id
            )
        assert caught.value.field == "target.notify.text"
    with pytest.raises(Invalid) as caught:
        await harness.ask(SCHEDULE_CREATE, body | {"target": {"notify": notify | {"channel": "x"}}})
    assert caught.value.field == "target.notify.channel"


def a_schedule(rule: dict[str, Any], **notice: str) -> dict[str, Any]:
    return {"name": "n", "target": {"notify": {"channel": "ops", **notice}}} | rule


TIMED = {"every": "1h"}
ON_EVENTS = {"on": {"type": "paid"}}


@pytest.mark.parametrize(
    ("rule", "name"),
    [(TIMED, "event"), (TIMED, "events"), (ON_EVENTS, "occurrence"), (ON_EVENTS, "datum")],
)
async def test_a_schedule_reads_what_its_kind_has(
    harness: OperationsHarness, rule: dict[str, Any], name: str
) -> None:
    with pytest.raises(Invalid) as caught:
        await harness.ask(SCHEDULE_CREATE, a_schedule(rule, text="so: {{ " + name + " }}"))
    assert caught.value.field == "target.notify.text"
    known = "occurrence" if rule is TIMED else "event, events"
    assert f"line 1, column 8: there is no {name!r} here" in str(caught.value)
    assert known in str(caught.value)


async def test_a_template_is_for_the_kinds_whose_names_it_reads(harness: OperationsHarness) -> None:
    with pytest.raises(Invalid, match="no 'event' here"):
        await harness.ask(SCHEDULE_CREATE, a_schedule(TIMED, template="fired"))
    with pytest.raises(Invalid, match="no 'occurrence' here"):
        await harness.ask(SCHEDULE_CREATE, a_schedule(ON_EVENTS, template="fired"))


async def test_a_schedule_that_changes_its_kind_changes_its_names(
    harness: OperationsHarness,
) -> None:
    body = a_schedule(ON_EVENTS, channel="mail", text="x", to="{{ event.data.to }}")
    id = (await harness.ask(SCHEDULE_CREATE, body))["id"]
    with pytest.raises(Invalid) as caught:
        await harness.ask(SCHEDULE_UPDATE, TIMED, id=id)
    assert caught.value.field == "target.notify.to"
    changed = TIMED | {"target": {"notify": {"channel": "ops", "text": "{{ occurrence }}"}}}
    await harness.ask(SCHEDULE_UPDATE, changed, id=id)


async def test_two_kinds_of_target_are_one_too_many(harness: OperationsHarness) -> None:
    notify = {"channel": "ops", "text": "x"}
    with pytest.raises(Invalid, match="one kind"):
        await harness.ask(JOB_ENQUEUE, {"target": {"notify": notify, "task": "t"}})


async def test_a_program_that_knows_no_channels_leaves_them_to_others() -> None:
    somewhere = Notices(None, None, LiquidTemplates())
    somewhere.check(NotifyTarget("any", "any", template="any"), "", {"data"})
    with pytest.raises(Invalid):
        somewhere.check(NotifyTarget("any", text="{{ datum }}"), "", {"data"})
