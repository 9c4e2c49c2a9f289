"""Records and the rows that keep them."""

from datetime import datetime, timedelta

import msgspec

from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.model.retry import RetryPolicy
from onbeat.model.schedule import Overlap, Schedule
from onbeat.model.target import Target, lane_of
from onbeat.stores.sql.values import micros, micros_or_none, to_json
from onbeat.stores.sqlite.transaction import Row

JOBS = msgspec.json.Decoder(list[Job])
NOTHING = msgspec.Raw()


class RawFields(msgspec.Struct, frozen=True):
    """The fields of a job that are JSON themselves."""

    result_json: msgspec.Raw = NOTHING
    cursor_json: msgspec.Raw = NOTHING


RAW_FIELDS = msgspec.json.Decoder(list[RawFields])
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
    group: str | None = None


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
            group=job.group,
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
        job.group,
    )


def read_jobs(text: str | None) -> list[Job]:
    """Jobs from a JSON array of `record`s, None standing for none."""
    if not text:
        return []
    jobs = JOBS.decode(text)
    # msgspec has no optional raw JSON, so that such fields come under other names and in a second
    # look, which the many reads of jobs without them are spared.
    if '_json":' in text:
        for place, found in enumerate(RAW_FIELDS.decode(text)):
            jobs[place] = with_raw_fields(jobs[place], found)
    return jobs


def with_raw_fields(job: Job, found: RawFields) -> Job:
    if found.result_json == found.cursor_json == NOTHING:
        return job
    return msgspec.structs.replace(
        job, result=copied(found.result_json), cursor=copied(found.cursor_json)
    )


def copied(raw: msgspec.Raw) -> msgspec.Raw | None:
    """Apart from the text that it was found in, which would stay in memory with it."""
    return None if raw == NOTHING else msgspec.Raw(bytes(raw))


def read_schedules(text: str | None) -> list[Schedule]:
    return SCHEDULES.decode(text) if text else []
