"""New jobs."""

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Hint
from onbeat.stores.sql.values import micros
from onbeat.stores.sqlite.ends import ENDED_BADLY, block, cancel_waiting, cause
from onbeat.stores.sqlite.rows import job_row
from onbeat.stores.sqlite.transaction import Row, Transaction, listed


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job made ready outside the transaction, to keep that short."""

    id: JobId
    row: Row
    unique: str | None
    after: tuple[JobId, ...]
    created_at: datetime


def new_job(job: Job) -> NewJob:
    return NewJob(job.id, job_row(job), job.unique, job.after, job.created_at)


def enqueue(transaction: Transaction, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
    """Many callers' jobs at once. Repeating one that was stored, even if it ended, is harmless."""
    if insert(transaction, [job.row for job in jobs]) == len(jobs):
        answers = [Enqueued(job.id, created=True) for job in jobs]
    else:
        answers = find_holders(transaction, jobs)
    if any(job.after for job in jobs):
        created = {answer.id for answer in answers if answer.created}
        wait_for_others(transaction, jobs, created)
    return answers


def insert(transaction: Transaction, rows: Sequence[Row]) -> int:
    """Add those that are new and whose unique key is free; answers with how many."""
    sql = """
        INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key,
                          schedule_id, occurrence, overlap, spec, grp, held)
        SELECT *, column8 IS NOT NULL AND EXISTS (
                    SELECT 1 FROM schedules WHERE id = column8 AND status = 'paused')
        FROM :rows
        WHERE column1 IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM finished WHERE id = column1)
        ON CONFLICT DO NOTHING
    """
    inserted = transaction.run_rows(sql, rows)
    if inserted:
        transaction.hints.add(Hint.JOBS)
    return inserted


def find_holders(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """Who has each job's place: itself, or the live job with its unique key."""
    sql = """
        SELECT json_group_array(
                 CASE WHEN EXISTS (SELECT 1 FROM jobs WHERE id = value ->> 0)
                        OR EXISTS (SELECT 1 FROM finished WHERE id = value ->> 0)
                      THEN value ->> 0
                      ELSE (SELECT id FROM jobs WHERE unique_key = value ->> 1)
                 END)
        FROM json_each(?)
    """
    holders = transaction.values(sql, (listed((job.id, job.unique) for job in jobs),))
    return [
        Enqueued(holder, created=holder == job.id)
        for job, holder in zip(jobs, holders, strict=True)
    ]


def wait_for_others(
    transaction: Transaction, jobs: Sequence[NewJob], created: Collection[JobId]
) -> None:
    """A job may wait for those stored, and for those that stand before it in the same call."""
    sql = """
        SELECT json_group_array(json_array(
                 value ->> 0,
                 value ->> 1,
                 coalesce((SELECT 'live' FROM jobs WHERE id = value ->> 1),
                          (SELECT state FROM finished WHERE id = value ->> 1))))
        FROM json_each(?)
    """
    pairs = listed((job.id, other) for job in jobs for other in job.after)
    others: list[tuple[JobId, JobId, str | None]] = transaction.values(sql, (pairs,))
    refuse_unknown(jobs, others)
    live = [(job, other) for job, other, state in others if job in created and state == "live"]
    block(transaction, live)
    doomed = {job: cause(other, state) for job, other, state in others if state in ENDED_BADLY}
    for job in jobs:
        if job.id in doomed and job.id in created:
            cancel_waiting(transaction, {job.id: doomed[job.id]}, micros(job.created_at))


def refuse_unknown(
    jobs: Sequence[NewJob], others: Sequence[tuple[JobId, JobId, str | None]]
) -> None:
    places = {job.id: place for place, job in enumerate(jobs)}
    for job, other, state in others:
        if state is None or places.get(other, -1) >= places[job]:
            raise Invalid(f"job {other} does not exist; name jobs that do", field="after")
