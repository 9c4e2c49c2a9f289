"""How jobs end, and what their end does to those that waited for it."""

from collections.abc import Iterable
from datetime import datetime

from msgspec.structs import replace

from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.ports.store import Hint
from onbeat.stores.memory.tables import Tables


def end(tables: Tables, ended: Job, at: datetime) -> None:
    """Store a job that has ended; those that waited for it become free, or end with it."""
    endings = [ended]
    while endings:
        job = endings.pop()
        tables.unblock(job.id)
        tables.put_job(job)
        endings += freed_by(tables, job, at)


def freed_by(tables: Tables, ended: Job, at: datetime) -> Iterable[Job]:
    """Free the jobs that waited for this one; answers with those that must end because of it.

    A job that waits by its `after` needs success; one that waits for its turn in a schedule is
    free whatever the end was.
    """
    doomed: list[Job] = []
    for id in tables.awaited_by.pop(ended.id, ()):
        job = tables.jobs[id]
        tables.awaits[id].discard(ended.id)
        if ended.state is not JobState.SUCCEEDED and ended.id in job.after:
            reason = cause_of(ended)
            tables.note(id, at, JobState.CANCELLED, reason)
            doomed.append(cancelled(job, reason, at))
        else:
            tables.put_job(replace(job, blocked_by=len(tables.awaits[id])))
    return doomed


def cause_of(ended: Job) -> str:
    """Why a job is cancelled that waited for this one's success."""
    was = "failed" if ended.state is JobState.FAILED else "was cancelled"
    return f"job {ended.id} it waited for {was}"


def cancelled(job: Job, reason: str, at: datetime) -> Job:
    return replace(
        job,
        state=JobState.CANCELLED,
        reason=reason,
        finished_at=at,
        start_by=None,
        blocked_by=0,
        worker=None,
        lease_until=None,
        cursor=None,
    )


def cancel(tables: Tables, job: Job, reason: str, at: datetime) -> None:
    """A waiting job ends, a running one is asked to stop, an ended one stays as it is."""
    match job.state:
        case JobState.WAITING:
            cancel_waiting(tables, job, reason, at)
        case JobState.RUNNING:
            ask_to_stop(tables, job, reason, at)
        case _:
            return


def cancel_waiting(tables: Tables, job: Job, reason: str, at: datetime) -> None:
    tables.note(job.id, at, JobState.CANCELLED, reason)
    end(tables, cancelled(job, reason, at), at)


def ask_to_stop(tables: Tables, job: Job, reason: str, at: datetime) -> None:
    """The first reason stands: the attempt may be acting on it already."""
    if job.cancel_reason is None:
        tables.put_job(replace(job, cancel_reason=reason))
        tables.note(job.id, at, "cancel requested", reason)
        tables.hints.add(Hint.CANCELS)


def never_started(tables: Tables, id: JobId) -> Job | None:
    """The job, if it still waits for its first attempt; one that came back unstarted is bounded."""
    job = tables.jobs.get(id)
    if job is None or job.state is not JobState.WAITING:
        return None
    return job if job.started_at is None or job.start_by is not None else None
