"""New jobs, and retries by hand."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.ports.store import Enqueued
from onbeat.rules.dependents import cancelled_on_arrival, is_lost, refuse_unknown
from onbeat.stores.memory.dependents import as_cancelled
from onbeat.stores.memory.tables import Tables


def enqueue(tables: Tables, jobs: Sequence[Job]) -> Sequence[Enqueued]:
    refuse_unknown_predecessors(tables, jobs)
    return tuple(enqueue_one(tables, job) for job in jobs)


def refuse_unknown_predecessors(tables: Tables, jobs: Sequence[Job]) -> None:
    """A job may wait for stored jobs, and for earlier jobs of the same call."""
    coming: set[JobId] = set()
    taken: set[str] = set()
    for job in jobs:
        if job.unique is None or (job.unique not in tables.holders and job.unique not in taken):
            coming.add(job.id)
        if job.unique is not None:
            taken.add(job.unique)
    awaited = {id for job in jobs for id in job.after}
    refuse_unknown(jobs, {id for id in awaited if id in tables.jobs or id in coming})


def enqueue_one(tables: Tables, job: Job) -> Enqueued:
    if job.id in tables.jobs:
        # A repeated call: the first one took effect, but its answer was lost.
        return Enqueued(job.id, created=True)
    holder = find_existing(tables, job)
    if holder is not None:
        return Enqueued(holder, created=False)
    add_new(tables, job)
    return Enqueued(job.id, created=True)


def find_existing(tables: Tables, job: Job) -> JobId | None:
    """The live job with the same unique key."""
    return None if job.unique is None else tables.holders.get(job.unique)


def add_new(tables: Tables, job: Job) -> None:
    awaited = [tables.jobs[id] for id in job.after]
    states = {other.id: other.state for other in awaited}
    for reasons in cancelled_on_arrival([job], {job.id}, states).values():
        tables.put_job(as_cancelled(job, reasons[job.id], job.created_at))
        tables.note(job.id, job.created_at, JobState.CANCELLED, reasons[job.id])
        return
    tables.put_job(
        tables.add_dependencies(job, {other.id for other in awaited if not other.is_final})
    )


def retry(tables: Tables, ids: Sequence[JobId], now: datetime) -> Sequence[Job | None]:
    known = (tables.jobs.get(id) for id in dict.fromkeys(ids))
    chosen = [job for job in known if job is not None and is_lost(job.state)]
    refuse_taken_unique(tables, chosen)
    for job in chosen:
        tables.note(job.id, now, "retried", "by hand")
        tables.put_job(
            tables.add_dependencies(as_waiting_again(job, now), still_awaited(tables, job))
        )
    return tuple(tables.jobs.get(id) for id in ids)


def refuse_taken_unique(tables: Tables, chosen: Sequence[Job]) -> None:
    taken = dict(tables.holders)
    for job in chosen:
        if job.unique is None:
            continue
        if job.unique in taken:
            raise Conflict(
                f"job {taken[job.unique]} is live and has the same unique key as {job.id}"
            )
        taken[job.unique] = job.id


def still_awaited(tables: Tables, job: Job) -> set[JobId]:
    """Predecessors that have not ended. A retry by hand does not wait for failed ones."""
    known = (tables.jobs.get(id) for id in job.after)
    return {other.id for other in known if other is not None and not other.is_final}


def as_waiting_again(job: Job, now: datetime) -> Job:
    """The job as waiting again, with a new budget of attempts; keeps its history and token."""
    return replace(
        job,
        state=JobState.WAITING,
        due_at=now,
        start_by=None,
        expires_at=None,
        worker=None,
        attempt=0,
        lost=0,
        released=0,
        finished_at=None,
        result=None,
        error=None,
        progress=None,
        cursor=None,
        suspicion=None,
        reason=None,
        cancel_reason=None,
    )
