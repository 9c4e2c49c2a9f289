"""Conversion between records and rows."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.dead_letter import DeadLetter
from onbeat.model.ids import DeadLetterId, JobId, ScheduleId, Token
from onbeat.model.job import FINAL_STATES, Job, JobState, Progress, Suspicion
from onbeat.model.retry import RetryPolicy
from onbeat.model.target import (
    NO_ARGS,
    NO_KWARGS,
    HandlerTarget,
    HttpTarget,
    MessageTarget,
    Target,
    lane_of,
)
from onbeat.ports.access import TargetChange
from onbeat.stores.sql.forms import (
    ATTEMPT,
    BY_FIRST,
    TRANSITION_COLUMNS,
    AttemptForm,
    Form,
    Forms,
    JobForm,
    plain_table,
)
from onbeat.stores.sql.values import (
    OVERLAPS,
    STATES,
    instant,
    instant_or_none,
    micros,
    micros_or_none,
    overlap_text,
    to_json,
)

Row = tuple[Any, ...]
Value = TypeVar("Value")


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """The fields of a job that no query needs; the name of a task is in the job's lane."""

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
SUSPICION = msgspec.json.Decoder(Suspicion)

WHAT_COLUMNS = """
    queue, priority, lane, created_at, due_at, start_by, unique_key, schedule_id, occurrence,
    overlap, token, attempt, lost, released, reason, result, error, spec
"""
CLAIMED_COLUMNS = f"jobs.id, {WHAT_COLUMNS}, cursor, suspicion, cancel_reason"
LIVE_COLUMNS = f"""
    jobs.id, {WHAT_COLUMNS}, cursor, suspicion,
    CASE WHEN running THEN 'running' ELSE 'waiting' END AS state, started_at, cancel_reason,
    progress, blocked_by, worker, lease_until,
    NULL::bigint AS finished_at
"""
ENDED_COLUMNS = """
    finished.id, queue, priority, lane, coalesce(created_at, due_at) AS created_at, due_at,
    start_by, unique_key, schedule_id, occurrence, overlap, token,
    coalesce(attempt, token) AS attempt, coalesce(lost, 0::smallint) AS lost,
    coalesce(released, 0::smallint) AS released, reason, result, error, spec,
    NULL::text AS cursor, NULL::text AS suspicion, state,
    started_at, cancel_reason, progress, 0 AS blocked_by, NULL::text AS worker,
    NULL::bigint AS lease_until, finished_at
"""
"""The columns for `read_job`, from `jobs` and from `finished`; a claim knows the others."""


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


def target_of(spec: Spec, lane: str) -> Target:
    return spec.http or spec.message or HandlerTarget(lane, spec.args, spec.kwargs)


def with_job_target(text: str, change: TargetChange) -> str | None:
    """The text with the new target; None if its target has changed since it was read."""
    spec, before, after = SPEC.decode(text), change.before, change.after
    if target_of(spec, lane_of(before)) != before:
        return None
    match after:
        case HandlerTarget():
            spec = msgspec.structs.replace(spec, args=after.args, kwargs=after.kwargs)
        case HttpTarget():
            spec = msgspec.structs.replace(spec, http=after)
        case MessageTarget():
            spec = msgspec.structs.replace(spec, message=after)
    return ENCODER.encode(spec).decode()


def or_default(value: Value, default: Value) -> Value:
    """The shared default for an equal value: msgspec omits it only by identity."""
    return default if value == default else value


def job_row(job: Job) -> Row:
    """The row of a new job, for `enqueue.insert`."""
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
    """Transpose the rows, at least one, into one array for each parameter."""
    return list(zip(*rows, strict=True))


def read_claimed(row: Sequence[Any], worker: str, now: int, lease_until: int | None) -> Job:
    """Read a job from the row that a claim returned when it started the job."""
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
        suspicion,
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
        target=target_of(spec, lane),
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
        suspicion=None if suspicion is None else SUSPICION.decode(suspicion),
    )


def read_jobs(rows: Sequence[Sequence[Any]]) -> list[Job]:
    return [read_job(row) for row in rows]


class DeadLetterRecord(msgspec.Struct, frozen=True, array_like=True):
    """What no query needs of a dead letter."""

    reason: str
    headers: dict[str, str]


RECORD = msgspec.json.Decoder(DeadLetterRecord)


def dead_letter_row(letter: DeadLetter) -> Row:
    record = to_json(DeadLetterRecord(letter.reason, letter.headers))
    return letter.id, micros(letter.at), letter.source, record, letter.body


def read_dead_letter(row: Sequence[Any]) -> DeadLetter:
    id, at, source, text, body = row
    record = RECORD.decode(text)
    return DeadLetter(
        id=DeadLetterId(str(id)),
        at=instant(at),
        source=source,
        reason=record.reason,
        body=body,
        headers=record.headers,
    )


OUTCOMES = {
    "succeeded": OutcomeName.SUCCEEDED,
    "failed": OutcomeName.FAILED,
    "cancelled": OutcomeName.CANCELLED,
}
"""The outcome of an attempt that brought a job to each state, unless `last_attempt` says more."""


def read_attempt(row: Sequence[Any]) -> Attempt:
    id, token, record, worker, state, number, started_at, finished_at, error = row
    if record is not None:
        return ATTEMPT.decode(record)
    return Attempt(
        job_id=JobId(str(id)),
        token=Token(token),
        number=number,
        worker=worker,
        started_at=instant(started_at),
        finished_at=instant(finished_at),
        outcome=OUTCOMES[state],
        error=error,
    )


FORMS = Forms(
    attempts=AttemptForm(
        columns="job_id, token, record, worker, state, attempt, started_at, finished_at, error",
        kept="""
            job_id, token, record, NULL AS worker, NULL AS state, 0 AS attempt,
            NULL::bigint AS started_at, NULL::bigint AS finished_at, NULL AS error
        """,
        ending="""
            id, token, last_attempt, last_worker, state, coalesce(attempt, token), started_at,
            finished_at, error
        """,
        has_ending="(last_attempt IS NOT NULL OR last_worker IS NOT NULL)",
        read=read_attempt,
    ),
    dispositions=BY_FIRST,
    jobs=JobForm(
        live=plain_table("jobs", LIVE_COLUMNS),
        ended=plain_table("finished", ENDED_COLUMNS),
        states={
            JobState.WAITING: "NOT running",
            JobState.RUNNING: "running",
            **{state: f"state = '{state.value}'" for state in FINAL_STATES},
        },
        read=read_job,
    ),
    transitions=TRANSITION_COLUMNS,
    with_job_target=with_job_target,
    limit_assignments="""
        limits = ?::text,
        limited_at = CASE WHEN ?::text IS NOT NULL THEN coalesce(limited_at, now()) END,
        is_counted = is_counted AND ?::text IS NOT NULL
    """,
    dead_letters=Form(
        columns={"id": "uuid", "at": "bigint", "source": "text", "record": "text", "body": "bytea"},
        row=dead_letter_row,
        read=read_dead_letter,
    ),
)
