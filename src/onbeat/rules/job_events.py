"""Onbeat's own events about jobs: which ends are told, and what they say."""

from collections.abc import Container
from datetime import datetime, timedelta
from typing import Final

import msgspec

from onbeat.model.event import OWN_SOURCE, Event, EventCause
from onbeat.model.job import Job
from onbeat.model.limits import EVENT_DEPTH_MAX, REASON_CHARS_MAX
from onbeat.model.target import HandlerTarget, lane_of

JOB_TYPES: Final = ("onbeat.job.failed", "onbeat.job.cancelled", "onbeat.job.succeeded")
DEPTH: Final = "onbeatdepth"
"""The extension that counts how many of Onbeat's own events led to an event."""

MICROSECOND: Final = timedelta(microseconds=1)
EPOCH: Final = datetime.fromisoformat("1970-01-01T00:00:00+00:00")


class JobEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The data of an event about an ended job. `task` is null for callbacks and messages."""

    job: str
    state: str
    task: str | None
    target: str
    queue: str
    group: str | None
    schedule_id: str | None
    occurrence: datetime | None
    reason: str | None
    error: str | None
    attempt: int
    attempts_max: int
    lost: int
    labels: dict[str, str]
    unique: str | None
    created_at: datetime
    run_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


def type_of_end(state: str) -> str:
    return f"onbeat.job.{state}"


def end_event(job: Job, wanted: Container[str]) -> Event | None:
    """The event about the end of the job, where its type is wanted and it may cause another one.

    Its id says which end of the job it was, so that one end has one event.
    """
    type = type_of_end(job.state)
    if type not in wanted or not may_cause(job.cause, type) or job.finished_at is None:
        return None
    ended_at = (job.finished_at - EPOCH) // MICROSECOND
    return Event(
        id=f"{job.id}/{job.token}/{ended_at}",
        source=OWN_SOURCE,
        type=type,
        time=job.finished_at,
        subject=job.id,
        data=msgspec.Raw(msgspec.json.encode(end_of(job))),
        extensions={DEPTH: depth_of(job.cause) + 1},
    )


def may_cause(cause: EventCause | None, type: str) -> bool:
    """Whether a job with this cause may make an own event: of another type, and not for ever."""
    return cause is None or (cause.type != type and cause.depth < EVENT_DEPTH_MAX)


def depth_of(cause: EventCause | None) -> int:
    return 0 if cause is None else cause.depth


def end_of(job: Job) -> JobEnd:
    task = job.target.task if isinstance(job.target, HandlerTarget) else None
    return JobEnd(
        job=job.id,
        state=job.state.value,
        task=task,
        target=lane_of(job.target),
        queue=job.queue,
        group=job.group,
        schedule_id=job.schedule_id,
        occurrence=job.occurrence,
        reason=job.reason,
        error=None if job.error is None else job.error[-REASON_CHARS_MAX:],
        attempt=job.attempt,
        attempts_max=job.retry.attempts_max,
        lost=job.lost,
        labels=job.labels,
        unique=job.unique,
        created_at=job.created_at,
        run_at=job.due_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
    )
