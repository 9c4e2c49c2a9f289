"""How jobs come in, and come back by hand."""

from collections.abc import Sequence
from datetime import datetime

from msgspec.structs import replace

from onbeat.model.errors import Conflict, Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import Job, JobState
from onbeat.ports.store import Enqueued
from onbeat.stores.memory.ending import cancelled, cause_of
from onbeat.stores.memory.tables import Tables


def enqueue(tables: Tables, jobs: Sequence[Job]) -> Sequence[Enqueued]:
    refuse_unknown_predecessors(tables, jobs)
    return tuple(enqueue_one(tables, job) for job in jobs)


def refuse_unknown_predecessors(tables: Tables, jobs: Sequence[Job]) -> None:
    """A job may wait for those stored, and for those that stand before it in the same call."""
    coming: set[JobId] = set()
    taken: set[str] = set()
    for job in jobs:
        for id in job.after:
            if id not in tables.jobs and id not in coming:
                raise Invalid(f"job {id} does not exist; name jobs that do", field="after")
        if job.unique is None or (job.unique not in tables.holders and job.unique not in taken):
            coming.add(job.id)
        if job.unique is not None:
            taken.add(job.unique)


def enqueue_one(tables: Tables, job: Job) -> Enqueued:
    if job.id in tables.jobs:
        # A repeated call: the first one was heard, only its answer was not.
        return Enqueued(job.id, created=True)
    holder = holder_of(tables, job)
    if holder is not None:
        return Enqueued(holder, created=False)
    add_new(tables, job)
    return Enqueued(job.id, created=True)


def holder_of(tables: Tables, job: Job) -> JobId | None:
    """The live job that has the same unique key."""
    return None if job.unique is None else tables.holders.get(job.unique)


def add_new(tables: Tables, job: Job) -> None:
    awaited = [tables.jobs[id] for id in job.after]
    lost = next((other for other in awaited if is_lost(other)), None)
    if lost is not None:
        reason = cause_of(lost)
        tables.put_job(cancelled(job, reason, job.created_at))
        tables.note(job.id, job.created_at, JobState.CANCELLED, reason)
        return
    tables.put_job(tables.block(job, {other.id for other in awaited if not other.is_final}))


def is_lost(job: Job) -> bool:
    """Whether it ended in a way that takes with it those that wait for its success."""
    return job.is_final and job.state is not JobState.SUCCEEDED


def retry(tables: Tables, ids: Sequence[JobId], now: datetime) -> Sequence[Job | None]:
    chosen = [job for id in dict.fromkeys(ids) if (job := tables.jobs.get(id)) and is_lost(job)]
    refuse_taken_unique(tables, chosen)
    for job in chosen:
        tables.note(job.id, now, "retried", "by hand")
        tables.put_job(tables.block(afresh(job, now), still_awaited(tables, job)))
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
    """Predecessors that have not ended. Those that failed hold back nothing that a hand frees."""
    known = (tables.jobs.get(id) for id in job.after)
    return {other.id for other in known if other is not None and not other.is_final}


def afresh(job: Job, now: datetime) -> Job:
    """The job as it waits again, with a fresh budget. Its history and its fence stay."""
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
        reason=None,
        cancel_reason=None,
    )
