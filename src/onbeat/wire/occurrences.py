"""Occurrences of a schedule as events with status history, in a legacy format."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from onbeat.model.attempt import Attempt, OutcomeName
from onbeat.model.job import Job, JobState
from onbeat.model.target import HttpTarget
from onbeat.wire.answer import AnswerRecord

QUEUED = "ready_queue"
STARTED = "worker_queue"


class EventStatus(msgspec.Struct, frozen=True):
    """A status of the event, with time and reason."""

    time: datetime
    status: str
    message: str


class ScheduleEvent(AnswerRecord, frozen=True, kw_only=True, rename={"id": "_id"}):
    """One occurrence; its id is that of its job."""

    id: str
    schedule_id: str
    run_time: datetime
    status: tuple[EventStatus, ...]
    created_at: datetime


class EventsAnswer(msgspec.Struct, frozen=True):
    events: tuple[ScheduleEvent, ...]
    page: int
    limit: int


def event_of(job: Job, attempts: Sequence[Attempt]) -> ScheduleEvent:
    return ScheduleEvent(
        id=job.id,
        schedule_id=job.schedule_id or "",
        run_time=job.run_time,
        status=tuple(status_history(job, attempts)),
        created_at=job.created_at,
    )


def status_history(job: Job, attempts: Sequence[Attempt]) -> list[EventStatus]:
    """Queued, started and ended; an attempt that did not end the job leads back to the queue."""
    history = [EventStatus(job.created_at, QUEUED, "Event pre-queued for ready queue")]
    for attempt in attempts:
        history.append(started_status(attempt.started_at))
        if not attempt.ended(job):
            history.append(EventStatus(attempt.finished_at, QUEUED, retry_message(attempt)))
    if job.state is JobState.RUNNING and job.started_at is not None:
        history.append(started_status(job.started_at))
    if job.is_final:
        history.append(ended_status(job))
    return history


def started_status(at: datetime) -> EventStatus:
    return EventStatus(at, STARTED, "Event dispatched to worker queue")


def retry_message(attempt: Attempt) -> str:
    match attempt.outcome:
        case OutcomeName.SNOOZED:
            return f"Attempt {attempt.number} asked to be run again later"
        case OutcomeName.RELEASED:
            return f"Attempt {attempt.number} was handed back by its worker"
        case outcome:
            return f"Attempt {attempt.number} {outcome}: {attempt.error or 'no reason given'}"


def ended_status(job: Job) -> EventStatus:
    at = job.finished_at or job.created_at
    match job.state:
        case JobState.SUCCEEDED:
            return EventStatus(at, "completed", "Event successfully processed")
        case JobState.CANCELLED:
            reason = job.reason or job.cancel_reason or "no reason given"
            return EventStatus(at, "cancelled", f"Event cancelled: {reason}")
        case _:
            return EventStatus(at, "error", failure_message(job))


def failure_message(job: Job) -> str:
    """Why it failed permanently. Some failures are final at once and leave attempts unused."""
    what = "Callback" if isinstance(job.target, HttpTarget) else "Task"
    tries = " after max retries" if job.attempt >= job.retry.attempts_max else ""
    return f"{what} failed{tries}: {job.error or job.reason or 'no reason given'}"


SINGLE = {
    JobState.SUCCEEDED: OutcomeName.SUCCEEDED,
    JobState.FAILED: OutcomeName.FAILED,
}


def known_attempts(job: Job) -> tuple[Attempt, ...] | None:
    """The attempts that the job itself implies; None when they must be looked up."""
    if job.token == 0:
        return ()
    if job.token > 1 or job.started_at is None or job.finished_at is None:
        return () if job.token == 1 and job.state is JobState.RUNNING else None
    if job.state not in SINGLE:
        return None
    return (
        Attempt(
            job_id=job.id,
            token=job.token,
            number=job.attempt,
            worker=job.worker,
            started_at=job.started_at,
            finished_at=job.finished_at,
            outcome=SINGLE[job.state],
            error=job.error,
        ),
    )
