"""Records and the rows that keep them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import Overlap, Schedule
from onbeat.model.target import Target, lane_of
from onbeat.stores.sqlite.transaction import Row

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

JOBS = msgspec.json.Decoder(list[Job])
NO_RESULT = msgspec.Raw()


class Result(msgspec.Struct, frozen=True):
    result_json: msgspec.Raw = NO_RESULT


RESULTS = msgspec.json.Decoder(list[Result])
SCHEDULES = msgspec.json.Decoder(list[Schedule])


class Spec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What a job is, as kept in `spec`; where it stands is in columns."""

    target: Target
    created_at: datetime
    queue: str = "default"
    priority: int = 0
    unique: str | None = None
    retry: RetryPolicy = RetryPolicy()
    timeout: timedelta | None = None
    expires_at: datetime | None = None
    after: tuple[JobId, ...] = ()
    labels: dict[str, str] = {}
    schedule_id: ScheduleId | None = None
    occurrence: datetime | None = None
    overlap: Overlap = Overlap.ALLOW


def micros(instant: datetime) -> int:
    """Exactly; a float would lose the last digits."""
    span = instant - EPOCH
    return (span.days * 86_400 + span.seconds) * 1_000_000 + span.microseconds


def micros_or_none(instant: datetime | None) -> int | None:
    return None if instant is None else micros(instant)


def instant(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def to_json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def spec_of(job: Job) -> str:
    return to_json(
        Spec(
            target=job.target,
            created_at=job.created_at,
            queue=job.queue,
            priority=job.priority,
            unique=job.unique,
            retry=job.retry,
            timeout=job.timeout,
            expires_at=job.expires_at,
            after=job.after,
            labels=job.labels,
            schedule_id=job.schedule_id,
            occurrence=job.occurrence,
            overlap=job.overlap,
        )
    )


def job_row(job: Job) -> Row:
    """A new job, as `enqueue.INSERT` takes it."""
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
        job.overlap.value,
        spec_of(job),
    )


def read_jobs(text: str | None) -> list[Job]:
    """Jobs from a JSON array of `record`s, None standing for none."""
    if not text:
        return []
    jobs = JOBS.decode(text)
    # msgspec has no optional raw JSON, so that results come under another name and in a second
    # look, which the many reads of jobs without one are spared.
    if '"result_json":' in text:
        for place, found in enumerate(RESULTS.decode(text)):
            if found.result_json != NO_RESULT:
                result = msgspec.Raw(bytes(found.result_json))
                jobs[place] = msgspec.structs.replace(jobs[place], result=result)
    return jobs


def read_schedules(text: str | None) -> list[Schedule]:
    return SCHEDULES.decode(text) if text else []
