"""What takes in each input, as its surface does."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from onbeat.model import limits
from onbeat.model.errors import OnbeatError
from onbeat.model.retry import RetryPolicy
from onbeat.operations.drafts import job_from
from onbeat.operations.recurrences import build_preview
from onbeat.recurrence import Budget
from onbeat.settings.setting import Setting
from onbeat.settings.table import TABLE as SETTINGS
from onbeat.targets.http_response import Response, outcome_of, retry_after_of
from onbeat.telemetry.redaction import escape_controls, redactor
from onbeat.wire.decode import convert, decode, decode_typed
from onbeat.wire.jobs import EnqueueBody, read_jobs
from onbeat.wire.jsonrpc import read_call, split
from onbeat.wire.recurrences import PreviewBody
from onbeat.wire.schedules import ScheduleBody, read_schedule
from onbeat.wire.submissions import read_submission
from onbeat.wire.worker_results import SettleBody, read_report
from operations.harness import NOON, OperationsHarness

Read = Callable[[Any], object]
Body = Mapping[str, object]

REFUSALS = (OnbeatError, ValueError, click.UsageError)
"""What a reader may raise for what it does not take; all else is a fault of ours."""

OPERATOR = OperationsHarness(connections=frozenset({"here"})).context
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


def job(body: Body) -> object:
    kind = {} if "target" in body or "jobs" in body else {"task": "work"}
    drafts = read_jobs(decode(EnqueueBody, encoded({**kind, **body}), bytes_max=MOST))
    return [job_from(OPERATOR, draft, NOON, ID) for draft in drafts]


def http(body: Body) -> object:
    return job({"target": {"http": {"url": EXAMPLE, **body}}})


def message(body: Body) -> object:
    return job({"target": {"message": {"to": "here", "queue": "q", **body}}})


def preview(body: Body) -> object:
    rule = {} if body.keys() & {"rrule", "cron", "every", "at"} else {"cron": "* * * * *"}
    whole = {"after": "2026-02-01T00:00:00Z", **rule, **body}
    read = decode(PreviewBody, encoded(whole))
    return build_preview(OPERATOR.with_budget(Budget(limits.RECURRENCE_STEPS_MAX)), read, NOON)


def rpc(body: bytes) -> object:
    return [read_call(call) for call in split(body, MOST)[0]]


def submission(body: bytes) -> object:
    return [read_submission(read_call(call)) for call in split(body, MOST)[0]]


def settled(body: Body) -> object:
    return read_report(decode(SettleBody, encoded({"token": "1.x", **body})))


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
    return outcome_of(failed, "it", now), outcome_of(moved, "it", now), retry_after_of(text, now)
