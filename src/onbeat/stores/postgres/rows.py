"""Records and the rows that keep them."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Job, Progress
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import (
    NO_ARGS,
    NO_KWARGS,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    lane_of,
)
from onbeat.stores.sql.values import (
    OVERLAPS,
    STATES,
    instant,
    instant_or_none,
    micros,
    micros_or_none,
    overlap_text,
)

Row = tuple[Any, ...]
Value = TypeVar("Value")


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a job is, as far as no query needs it; a task is named by the job's lane."""

    args: msgspec.Raw = NO_ARGS
    kwargs: msgspec.Raw = NO_KWARGS
    http: HttpTarget | None = None
    message: MessageTarget | None = None
    retry: RetryPolicy = RetryPolicy()
    timeout: timedelta | None = None
    expires_at: datetime | None = None
    after: tuple[JobId, ...] = ()
    labels: dict[str, str] = {}
    group: str | None = None


ENCODER = msgspec.json.Encoder()
SPEC = msgspec.json.Decoder(Spec)
PLAIN = "{}"
PLAIN_SPEC = Spec()
PROGRESS = msgspec.json.Decoder(Progress)

WHAT_COLUMNS = """
    queue, priority, lane, created_at, due_at, start_by, unique_key, schedule_id, occurrence,
    overlap, token, attempt, lost, released, reason, result, error, spec
"""
CLAIMED_COLUMNS = f"jobs.id, {WHAT_COLUMNS}, cursor, cancel_reason"
LIVE_COLUMNS = f"""
    jobs.id, {WHAT_COLUMNS}, cursor, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state,
    started_at, cancel_reason, progress, blocked_by, worker, lease_until,
    NULL::bigint AS finished_at
"""
ENDED_COLUMNS = """
    finished.id, queue, priority, lane, coalesce(created_at, due_at) AS created_at, due_at,
    start_by, unique_key, schedule_id, occurrence, overlap, token,
    coalesce(attempt, token) AS attempt, coalesce(lost, 0::smallint) AS lost,
    coalesce(released, 0::smallint) AS released, reason, result, error, spec,
    NULL::text AS cursor, state,
    started_at, cancel_reason, progress, 0 AS blocked_by, NULL::text AS worker,
    NULL::bigint AS lease_until, finished_at
"""
"""What `read_job` takes, from `jobs` and from `finished`; a claim knows the rest by itself."""


def spec_of(job: Job) -> str:
    return spec_json(job).decode()


def spec_json(job: Job) -> bytes:
    target = job.target
    args, kwargs, http, message = NO_ARGS, NO_KWARGS, None, None
    match target:
        case HandlerTarget():
            args = or_default(target.args, NO_ARGS)
            kwargs = or_default(target.kwargs, NO_KWARGS)
        case HttpTarget():
            http = target
        case MessageTarget():
            message = target
    return ENCODER.encode(
        Spec(
            args=args,
            kwargs=kwargs,
            http=http,
            message=message,
            retry=or_default(job.retry, PLAIN_SPEC.retry),
            timeout=job.timeout,
            expires_at=job.expires_at,
            after=job.after,
            labels=job.labels,
            group=job.group,
        )
    )


def or_default(value: Value, default: Value) -> Value:
    """What is left out as a default is told by identity."""
    return default if value == default else value


def job_row(job: Job) -> Row:
    """A new job, as `enqueue.insert` takes it."""
    return (
        job.id,
        job.queue,
        job.priority,
        lane_of(job.target),
        micros(job.due_at),
        micros_or_none(job.start_by),
        job.unique,
        job.schedule_id,
        micros_or_none(job.occurrence),
        overlap_text(job.overlap),
        job.group or None,
        spec_of(job),
        micros(job.created_at),
    )


def columns(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """The rows turned on their side, one array for each parameter; there is at least one row."""
    return list(zip(*rows, strict=True))


def read_claimed(row: Sequence[Any], worker: str, now: int, lease_until: int | None) -> Job:
    """A job from what the claim gave back that has just started it."""
    *what, reason = row
    return read_job((*what, "running", now, reason, None, 0, worker, lease_until, None))


def read_job(row: Sequence[Any]) -> Job:
    (
        id,
        queue,
        priority,
        lane,
        created_at,
        due_at,
        start_by,
        unique,
        schedule_id,
        occurrence,
        overlap,
        token,
        attempt,
        lost,
        released,
        reason,
        result,
        error,
        text,
        cursor,
        state,
        started_at,
        cancel_reason,
        progress,
        blocked_by,
        worker,
        lease_until,
        finished_at,
    ) = row
    spec = PLAIN_SPEC if text == PLAIN else SPEC.decode(text)
    return Job(
        id=JobId(str(id)),
        target=spec.http or spec.message or HandlerTarget(lane, spec.args, spec.kwargs),
        created_at=instant(created_at),
        due_at=instant(due_at),
        queue=queue,
        priority=priority,
        unique=unique,
        retry=spec.retry,
        timeout=spec.timeout,
        expires_at=spec.expires_at,
        start_by=instant_or_none(start_by),
        after=spec.after,
        labels=spec.labels,
        schedule_id=None if schedule_id is None else ScheduleId(str(schedule_id)),
        occurrence=instant_or_none(occurrence),
        overlap=OVERLAPS[overlap],
        group=spec.group,
        state=STATES[state],
        reason=reason,
        blocked_by=blocked_by,
        token=Token(token),
        worker=worker,
        lease_until=None if lease_until is None else instant(lease_until),
        attempt=attempt,
        lost=lost,
        released=released,
        started_at=instant_or_none(started_at),
        finished_at=instant_or_none(finished_at),
        cancel_reason=cancel_reason,
        result=None if result is None else msgspec.Raw(result.encode()),
        error=error,
        progress=None if progress is None else PROGRESS.decode(progress),
        cursor=None if cursor is None else msgspec.Raw(cursor.encode()),
    )


def read_jobs(rows: Sequence[Sequence[Any]]) -> list[Job]:
    return [read_job(row) for row in rows]
