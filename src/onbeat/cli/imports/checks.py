"""Checks imported schedules as a service would, and computes when they fire."""

from datetime import datetime, timedelta
from typing import NamedTuple

import msgspec

from onbeat.cli.imports.records import ImportedSchedule, ImportResult
from onbeat.model.errors import Invalid, OnbeatError
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import HttpTarget
from onbeat.recurrence import anchor, compile_spec, needs_anchor
from onbeat.rules.urls import checked_headers, checked_method, checked_url
from onbeat.wire.schedules import ScheduleBody, read_schedule

MOMENT = timedelta(microseconds=1)


class FirePair(NamedTuple):
    """The next instants of one schedule: as the source means them, and as Onbeat does.

    `source` is None where the source has no fixed times.
    """

    key: str
    source: list[datetime] | None
    onbeat: list[datetime]


def checked(result: ImportResult) -> ImportResult:
    """The same without the schedules that Onbeat refuses: these are named differences."""
    kept: list[ImportedSchedule] = []
    for one in result.schedules:
        try:
            draft = read_schedule(schedule_body(one), RetryPolicy())
            check_callback(draft.target)
            if isinstance(draft.recurrence, msgspec.Struct):
                compile_spec(draft.recurrence)
        except (OnbeatError, msgspec.ValidationError) as error:
            detail = error.detail if isinstance(error, Invalid) else None
            result.lose("schedule", f"Onbeat refuses it: {detail or error}"[:200], "mend it",
                        line=one.line, key=one.key)  # fmt: skip
        else:
            kept.append(one)
    result.schedules = kept
    return result


def check_callback(target: object) -> None:
    """Raises `Invalid` for a request that no service would send."""
    if isinstance(target, HttpTarget):
        checked_url(target.url, field="callback_url")
        checked_method(target.method)
        checked_headers(target.headers)


def schedule_body(one: ImportedSchedule) -> ScheduleBody:
    body = {"name": one.key, "key": one.key} | one.body
    return msgspec.json.decode(msgspec.json.encode(body), type=ScheduleBody)


def fires_of(one: ImportedSchedule, count: int, after: datetime) -> FirePair:
    """The next `count` after an instant at which the schedule is created."""
    body = schedule_body(one)
    spec = read_schedule(body, RetryPolicy()).recurrence
    assert isinstance(spec, msgspec.Struct)
    rule = compile_spec(anchor(spec, after) if needs_anchor(spec) else spec)
    start = body.starts_at if isinstance(body.starts_at, datetime) else None
    end = body.ends_at if isinstance(body.ends_at, datetime) else None
    since = start - MOMENT if start is not None and start > after else after
    ours = [at for at in rule.take(count, since) if end is None or at <= end]
    return FirePair(one.key, None if one.rule is None else one.rule.take(count, after), ours)
