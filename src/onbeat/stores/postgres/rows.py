"""Records and the rows that keep them."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onbeat.model.ids import JobId, ScheduleId, Token
from onbeat.model.job import Job, JobState, Progress
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import Overlap
from onbeat.model.target import NO_ARGS, NO_KWARGS, HandlerTarget, HttpTarget, lane_of

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Row = tuple[Any, ...]


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a job is, as far as no query needs it; a task is named by the job's lane."""

    args: msgspec.Raw = NO_ARGS
    kwargs: msgspec.Raw = NO_KWARGS
    http: HttpTarget | None = None
    retry: RetryPolicy = RetryPolicy()
    timeout: timedelta | None = None
    expires_at: datetime | None = None
    after: tuple[JobId, ...] = ()
    labels: dict[str, str] = {}


SPEC = msgspec.json.Decoder(Spec)
PLAIN = "{}"
PLAIN_SPEC = Spec()
PROGRESS = msgspec.json.Decoder(Progress)
STATES = {state.value: state for state in JobState}
OVERLAPS: dict[str | None, Overlap] = {overlap.value: overlap for overlap in Overlap}
OVERLAPS[None] = Overlap.ALLOW

WHAT_COLUMNS = """
    queue, priority, lane, created_at, due_at, start_by, unique_key, schedule_id, occurrence,
    overlap, token, attempt, lost, released, reason, result, error, spec
"""
CLAIMED_COLUMNS = f"jobs.id, {WHAT_COLUMNS}"
LIVE_COLUMNS = f"""
    jobs.id, {WHAT_COLUMNS}, CASE WHEN running THEN 'running' ELSE 'waiting' END AS state,
    started_at, cancel_reason, progress, blocked_by, worker, NULL::bigint AS finished_at
"""
ENDED_COLUMNS = f"""
    finished.id, {WHAT_COLUMNS}, state,
    started_at, cancel_reason, progress, 0 AS blocked_by, NULL::text AS worker, finished_at
"""
"""What `read_job` takes, from `jobs` and from `finished`; a claim knows the rest by itself."""


def micros(instant: datetime) -> int:
    """Exactly; a float would lose the last digits."""
    span = instant - EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def micros_or_none(instant: datetime | None) -> int | None:
    return None if instant is None else micros(instant)


def instant(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def instant_or_none(value: int | None) -> datetime | None:
    return None if value is None else EPOCH + timedelta(microseconds=value)


def to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def spec_of(job: Job) -> str:
    target = job.target
    args, kwargs, http = NO_ARGS, NO_KWARGS, None
    match target:
        case HandlerTarget():
            args, kwargs = target.args, target.kwargs
        case HttpTarget():
            http = target
    return to_json(
        Spec(
            args=args,
            kwargs=kwargs,
            http=http,
            retry=job.retry,
            timeout=job.timeout,
            expires_at=job.expires_at,
            after=job.after,
            labels=job.labels,
        )
    )


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
        spec_of(job),
        micros(job.created_at),
    )


def overlap_text(overlap: Overlap) -> str | None:
    """None for the usual rule, which then takes no room."""
    return None if overlap is Overlap.ALLOW else overlap.value


def columns(rows: Sequence[Row]) -> list[tuple[Any, ...]]:
    """The rows turned on their side, one array for each parameter; there is at least one row."""
    return list(zip(*rows, strict=True))


def read_claimed(row: Sequence[Any], worker: str, now: int) -> Job:
    """A job from what the claim gave back that has just started it."""
    return read_job((*row, "running", now, None, None, 0, worker, None))


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
        state,
        started_at,
        cancel_reason,
        progress,
        blocked_by,
        worker,
        finished_at,
    ) = row
    spec = PLAIN_SPEC if text == PLAIN else SPEC.decode(text)
    return Job(
        id=JobId(str(id)),
        target=spec.http or HandlerTarget(lane, spec.args, spec.kwargs),
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
        state=STATES[state],
        reason=reason,
        blocked_by=blocked_by,
        token=Token(token),
        worker=worker,
        attempt=attempt,
        lost=lost,
        released=released,
        started_at=instant_or_none(started_at),
        finished_at=instant_or_none(finished_at),
        cancel_reason=cancel_reason,
        result=None if result is None else msgspec.Raw(result.encode()),
        error=error,
        progress=None if progress is None else PROGRESS.decode(progress),
    )


def read_jobs(rows: Sequence[Sequence[Any]]) -> list[Job]:
    return [read_job(row) for row in rows]
