"""New jobs."""

from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Hint
from onbeat.rules.dependents import cancelled_on_arrival, refuse_unknown
from onbeat.stores.sql.values import micros
from onbeat.stores.sqlite.dependents import add_dependencies, cancel_waiting
from onbeat.stores.sqlite.rows import job_row
from onbeat.stores.sqlite.transaction import Row, Transaction, json_array


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job prepared outside the transaction, to keep that short."""

    id: JobId
    row: Row
    unique: str | None
    after: tuple[JobId, ...]
    created_at: datetime


def new_job(job: Job) -> NewJob:
    return NewJob(job.id, job_row(job), job.unique, job.after, job.created_at)


def enqueue(transaction: Transaction, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
    """Add the jobs of many callers. Repeating a stored one, even an ended one, is harmless."""
    if insert(transaction, [job.row for job in jobs]) == len(jobs):
        answers = [Enqueued(job.id, created=True) for job in jobs]
    else:
        answers = find_existing(transaction, jobs)
    if any(job.after for job in jobs):
        created = {answer.id for answer in answers if answer.created}
        wait_for_others(transaction, jobs, created)
    return answers


def insert(transaction: Transaction, rows: Sequence[Row]) -> int:
    """Add jobs that are new and whose unique key is free; returns how many."""
    sql = """
        INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, start_by, unique_key,
                          schedule_id, occurrence, overlap, spec, grp, held)
        SELECT *, column8 IS NOT NULL AND EXISTS (
                    SELECT 1 FROM onbeat_schedules WHERE id = column8 AND status = 'paused')
        FROM :rows
        WHERE column1 IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM onbeat_finished WHERE id = column1)
        ON CONFLICT DO NOTHING
    """
    inserted = transaction.run_rows(sql, rows)
    if inserted:
        transaction.hints.add(Hint.JOBS)
    return inserted


def find_existing(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """The job stored for each: itself, or the live job with its unique key."""
    sql = """
        SELECT json_group_array(
                 CASE WHEN EXISTS (SELECT 1 FROM onbeat_jobs WHERE id = value ->> 0)
                        OR EXISTS (SELECT 1 FROM onbeat_finished WHERE id = value ->> 0)
                      THEN value ->> 0
                      ELSE (SELECT id FROM onbeat_jobs WHERE unique_key = value ->> 1)
                 END)
        FROM json_each(?)
    """
    holders = transaction.values(sql, (json_array((job.id, job.unique) for job in jobs),))
    return [
        Enqueued(holder, created=holder == job.id)
        for job, holder in zip(jobs, holders, strict=True)
    ]


def wait_for_others(
    transaction: Transaction, jobs: Sequence[NewJob], created: Collection[JobId]
) -> None:
    """A job may wait for stored jobs, and for earlier jobs of the same call."""
    sql = """
        SELECT json_group_array(json_array(
                 value ->> 0,
                 value ->> 1,
                 coalesce((SELECT 'live' FROM onbeat_jobs WHERE id = value ->> 1),
                          (SELECT state FROM onbeat_finished WHERE id = value ->> 1))))
        FROM json_each(?)
    """
    pairs = json_array((job.id, other) for job in jobs for other in job.after)
    others: list[tuple[JobId, JobId, str | None]] = transaction.values(sql, (pairs,))
    states = {other: state for _, other, state in others if state is not None}
    refuse_unknown(jobs, states)
    live = [(job, other) for job, other, state in others if job in created and state == "live"]
    add_dependencies(transaction, live)
    for at, reasons in cancelled_on_arrival(jobs, created, states).items():
        cancel_waiting(transaction, reasons, micros(at))
