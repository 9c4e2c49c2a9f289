"""Another due time for a job that waits, or that is tried again."""

from datetime import datetime, timedelta

from msgspec.structs import replace

from onbeat.model.errors import Conflict, Invalid
from onbeat.model.job import Job, JobState
from onbeat.rules.calendar import shifted
from onbeat.rules.windows import opening_at_or_after


def new_due_time(
    job: Job, run_at: datetime | None, delay: timedelta | None, now: datetime
) -> datetime:
    """When the job is to be due: at the instant, or so long from now; its windows put it off.

    Raises `Conflict` for a job that does not wait, and `Invalid` where it would expire before.
    """
    if job.state is not JobState.WAITING:
        raise Conflict(f"Job {job.id} is {job.state}; only waiting jobs can be rescheduled")
    field = "delay" if run_at is None else "run_at"
    wanted = shifted(now, delay or timedelta()) if run_at is None else run_at
    due_at = opening_at_or_after(job.window, wanted)
    # An expiry bounds the first start only.
    still_expires = job.start_by is not None or job.started_at is None
    if still_expires and job.expires_at is not None and job.expires_at <= max(due_at, now):
        raise Invalid(f"{field}: the job expires before, at {job.expires_at.isoformat()}", field)
    return due_at


def with_due_time(job: Job, due_at: datetime) -> Job:
    """The waiting job with another due time, which lifts the misfire bound of its occurrence.

    Its expiry stays. A job that was tried already has no bound for its start.
    """
    starts_by = job.expires_at if job.start_by is not None else None
    return replace(job, due_at=due_at, start_by=starts_by)


def as_tried_again(job: Job, now: datetime, *, at_once: bool) -> Job:
    """The ended job with the times of another try.

    It is due now and may start whenever. One that has never started is only so where somebody wants
    it `at_once`; else it keeps its own due time and its expiry, as far as they have not passed.
    """
    if at_once or job.started_at is not None:
        return replace(job, due_at=now, start_by=None, expires_at=None)
    expires_at = None if job.expires_at is None or job.expires_at <= now else job.expires_at
    due_at = max(job.due_at, now)
    return replace(job, due_at=due_at, start_by=expires_at, expires_at=expires_at)
