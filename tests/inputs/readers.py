"""What takes in each input, as its surface does."""

import contextlib
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import click
import msgspec
from msgspec import UNSET

from onbeat.expressions.cel import CelExpressions
from onbeat.model import limits
from onbeat.model.errors import OnbeatError
from onbeat.model.ids import JobId
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HttpTarget
from onbeat.operations.drafts import build_schedule, job_from, new_draft
from onbeat.operations.notice_checks import Notices
from onbeat.operations.notifications import jobs_of, recipients_of
from onbeat.operations.recurrences import build_preview
from onbeat.ports.expressions import Fault
from onbeat.recurrence import Budget
from onbeat.rules.callback_policy import hop_after
from onbeat.rules.channels import read_channel
from onbeat.rules.condition import NAMES
from onbeat.rules.fence import Fence
from onbeat.rules.reports import open_seal
from onbeat.settings.setting import Setting
from onbeat.settings.table import TABLE as SETTINGS
from onbeat.targets.http_answer import AnswerReader
from onbeat.targets.http_errors import AnswerError
from onbeat.targets.http_response import Response, outcome_of, retry_after_of
from onbeat.targets.notify.templates import LiquidTemplates
from onbeat.telemetry.redaction import escape_controls, redactor
from onbeat.wire.cloud_events import read_event, read_published
from onbeat.wire.decode import convert, decode, decode_typed
from onbeat.wire.jobs import EnqueueBody, read_jobs
from onbeat.wire.jsonrpc import read_call, split
from onbeat.wire.notifications import NotificationBody
from onbeat.wire.recurrences import PreviewBody
from onbeat.wire.reports import ReportBody, read_report_body
from onbeat.wire.schedules import ScheduleBody, read_schedule
from onbeat.wire.submissions import read_submission
from onbeat.wire.worker_results import SettleBody, read_report
from operations.harness import NOON, OperationsHarness

Read = Callable[[Any], object]
Body = Mapping[str, object]

REFUSALS = (OnbeatError, ValueError, click.UsageError)
"""What a reader may raise for what it does not take; all else is a fault of ours."""

NOTICES = Notices(
    {"here": read_channel("webhook://h/"), "mail": read_channel("smtp://h?from=a@b.c")},
    {},
    LiquidTemplates(),
)
OPERATOR = OperationsHarness(
    connections=frozenset({"here"}), notices=NOTICES, expressions=CelExpressions()
).context
MOST = limits.BULK_REQUEST_BYTES_MAX
ID = "01900000-0000-7000-8000-000000000000"
EXAMPLE = "https://example.com/"


def encoded(body: Body) -> bytes:
    return json.dumps(body).encode()


def json_of(record: type, most: int = limits.REQUEST_BYTES_MAX) -> Read:
    return lambda body: decode(record, body, bytes_max=most)


def schedule(body: Body) -> object:
    rule = {} if body.keys() & {"rrule", "cron", "every", "at"} else {"every": "1h"}
    whole = {"name": "n", **rule, "callback_url": EXAMPLE, **body}
    return read_schedule(decode_typed(ScheduleBody, encoded(whole)), RetryPolicy())


def reaction(body: Body) -> object:
    """A schedule that reacts to events, checked as it is saved."""
    whole = {"name": "n", "on": {"type": "t"}, "callback_url": EXAMPLE, **body}
    read = decode_typed(ScheduleBody, encoded(whole))
    return build_schedule(OPERATOR, new_draft(OPERATOR, read), NOON)


def job(body: Body) -> object:
    kind = {} if "target" in body or "jobs" in body else {"task": "work"}
    drafts = read_jobs(decode(EnqueueBody, encoded({**kind, **body}), bytes_max=MOST))
    return [job_from(OPERATOR, draft, NOON, ID) for draft in drafts]


def http(body: Body) -> object:
    return job({"target": {"http": {"url": EXAMPLE, **body}}})


def message(body: Body) -> object:
    return job({"target": {"message": {"to": "here", "queue": "q", **body}}})


def notice(body: Body) -> object:
    return job({"target": {"notify": {"channel": "here", "text": "x", **body}}})


def command(body: Body) -> object:
    return job({"target": {"command": ["/bin/p"], **body}})


def template(text: str) -> object:
    """Checked, and filled in with itself."""
    checked = notice({"text": text, "data": {"a": "x"}})
    facts = {"data": {"a": text, "b": [text] * 9}, "now": "", "to": ""}
    return checked, NOTICES.texts.render(text, facts, "text", is_html=True)


def rendered(text: str, value: str) -> object:
    return NOTICES.texts.render(text, {"data": {"a": value}}, "text")


def notification(body: Body) -> object:
    read = decode(NotificationBody, encoded({"channel": "here", "text": "x", **body}))
    recipients = recipients_of(read)
    return jobs_of(OPERATOR, read, recipients, NOON, [ID] * len(recipients))


def preview(body: Body) -> object:
    rule = {} if body.keys() & {"rrule", "cron", "every", "at"} else {"cron": "* * * * *"}
    whole = {"after": "2026-02-01T00:00:00Z", **rule, **body}
    read = decode(PreviewBody, encoded(whole))
    return build_preview(OPERATOR.with_budget(Budget(limits.RECURRENCE_STEPS_MAX)), read, NOON)


def rpc(body: bytes) -> object:
    return [read_call(call) for call in split(body, MOST)[0]]


def submission(body: bytes) -> object:
    return [read_submission(read_call(call)) for call in split(body, MOST)[0]]


def events(body: bytes) -> object:
    given = read_published(body, {})
    bodies = [given] if given.events is UNSET else given.events
    return [read_event(one, "", NOON, "default", lambda: "new") for one in bodies]


def event(body: Body) -> object:
    return events(encoded({"type": "paid", **body}))


def extensions(names: Body) -> object:
    return event({"extensions": names})


def settled(body: Body) -> object:
    return read_report(decode(SettleBody, encoded({"token": "1.x", **body})))


def condition(text: str) -> object:
    return job({"condition": {"if": text}})


def evaluated(fact: object) -> object:
    """The value of an expression that reads all of a fact. Raises ValueError for a fault."""
    read = OPERATOR.expressions.compile("answer.all(a, a != '')", NAMES, "condition.if")
    value = read({"answer": fact})
    if isinstance(value, Fault):
        raise ValueError(value.text)  # noqa: TRY004  the value is the fault
    return value


def window(fields: Body) -> object:
    night = {"from": "22:00", "to": "06:00", "timezone": "UTC"}
    return job({"window": {**night, **fields}})


def named(read: Read, name: str) -> Read:
    """Reads a value that stands in this field."""
    return lambda value: read({name: value})


def record(type: type[msgspec.Struct], name: str, /, **others: object) -> Read:
    return lambda value: decode(type, encoded({**others, name: value}))


def query(type: type[msgspec.Struct], name: str) -> Read:
    return lambda value: convert(type, {name: value})


def setting(path: str) -> Read:
    result: Setting = SETTINGS[path]
    return result.key.read


def redacted(text: str) -> object:
    return escape_controls(redactor(["abcdefgh", "a" * 50])(text))


def answered(text: str) -> object:
    """A callback's answer with this body, place and wait."""
    now = datetime(2026, 1, 1, tzinfo=UTC)
    failed = Response(status=500, body=text.encode("utf-8", "replace")[:65_536], retry_after=text)
    moved = Response(status=301, body=b"", location=text)
    target = HttpTarget(EXAMPLE, redirects=1)
    outcomes = [outcome_of(answer, "it", now, target) for answer in (failed, moved)]
    return outcomes, retry_after_of(text, now)


def answer_bytes(data: bytes) -> object:
    """What comes from the endpoint of a callback, read as its answer."""
    reader = AnswerReader(is_for_head=False)
    with contextlib.suppress(AnswerError):
        reader.feed(data)
    return reader.is_complete


def redirected_to(location: str) -> object:
    """The hop after a redirect of a callback to this place."""
    return hop_after(307, location, method="POST", url=EXAMPLE, headers={}, body=None)


def reported(body: Body) -> object:
    return read_report_body(decode(ReportBody, encoded({"outcome": "succeeded", **body})))


def sealed(text: str) -> object:
    return open_seal(Fence(b"x" * 32), JobId(ID), text)
