"""New jobs, and the idempotency keys of requests for them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.model.schedule import Overlap
from onbeat.ports.store import Enqueued, Hint
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs.dependents import add_waiting
from onbeat.stores.sql.verbs.enqueue import (
    FanOutBatch,
    NewJob,
    blockers_of,
    jobs_of,
    keep_places,
    waits_of,
)
from onbeat.stores.sql.verbs.event_waits import put_waits
from onbeat.stores.sql.verbs.held_keys import take_back
from onbeat.stores.sql.verbs.idempotency import KeyVerbs, insert_requests, keyed_answers
from onbeat.stores.sqlite.rows import job_row, plain_row
from onbeat.stores.sqlite.transaction import Row, Transaction, finish, in_thread, json_array

PLAIN: Final = 7
"""The length of the row of a plain job, with `blocked_by`: it has no values that are rare."""
DUE_AT: Final = 4


def new_job(job: Job) -> NewJob:
    if not is_plain(job):
        return NewJob.of(job, (*job_row(job), blockers_of(job)))
    row = plain_row(job)
    due_at = row[DUE_AT]
    created_at = due_at if job.created_at == job.due_at else micros(job.created_at)
    return NewJob(job.id, row, created_at)


def is_plain(job: Job) -> bool:
    return (
        job.start_by is None
        and job.unique is None
        and job.schedule_id is None
        and job.occurrence is None
        and job.group is None
        and job.flow is None
        and job.overlap is Overlap.ALLOW
        and not job.after
        and job.awaits_flow is None
    )


def enqueue(transaction: Transaction, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
    """Add the jobs of many callers. Repeating a stored one, even an ended one, is harmless."""
    if any(job.waits for job in jobs):
        return finish(add_waiting(transaction, jobs, partial(in_thread(add), transaction)))
    answers, _ = add(transaction, jobs)
    return answers


def add(transaction: Transaction, jobs: Sequence[NewJob]) -> tuple[list[Enqueued], bool]:
    """Add jobs as if they waited for none; also returns whether all of them are new."""
    added = insert(transaction, [job.row for job in jobs])
    held = finish(take_back(transaction, jobs))
    if added == len(jobs) and not held:
        return [Enqueued(job.id, created=True) for job in jobs], True
    return find_existing(transaction, jobs, held), False


def insert(transaction: Transaction, rows: Sequence[Row]) -> int:
    """Add jobs that are new and whose unique key is free; returns how many."""
    plain = [row for row in rows if len(row) == PLAIN]
    others = [row for row in rows if len(row) > PLAIN]
    inserted = insert_plain(transaction, plain) + insert_others(transaction, others)
    if inserted:
        transaction.hints.add(Hint.JOBS)
    return inserted


def insert_plain(transaction: Transaction, rows: Sequence[Row]) -> int:
    """To bind the NULLs of the other columns would be a quarter of the cost of a row."""
    sql = """
        INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, spec, blocked_by, overlap)
        SELECT *, 'allow'
        FROM :rows
        WHERE column1 IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM onbeat_finished WHERE id = column1)
        ON CONFLICT DO NOTHING
    """
    return transaction.run_rows(sql, rows)


def insert_others(transaction: Transaction, rows: Sequence[Row]) -> int:
    sql = """
        INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, start_by, unique_key,
                          schedule_id, occurrence, overlap, grp, flow, spec, blocked_by, held)
        SELECT *, column8 IS NOT NULL AND EXISTS (
                    SELECT 1 FROM onbeat_schedules WHERE id = column8 AND status = 'paused')
        FROM :rows
        WHERE column1 IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM onbeat_finished WHERE id = column1)
        ON CONFLICT DO NOTHING
    """
    return transaction.run_rows(sql, rows)


def find_existing(
    transaction: Transaction, jobs: Sequence[NewJob], held: Mapping[str, JobId]
) -> list[Enqueued]:
    """The job stored for each: itself, the live job with its unique key, or that in `held`."""
    sql = """
        SELECT json_group_array(
                 CASE WHEN EXISTS (SELECT 1 FROM onbeat_jobs WHERE id = value ->> 0)
                        OR EXISTS (SELECT 1 FROM onbeat_finished WHERE id = value ->> 0)
                      THEN value ->> 0
                      ELSE (SELECT id FROM onbeat_jobs WHERE unique_key = value ->> 1)
                 END)
        FROM json_each(?)
    """
    stored = transaction.values(sql, (json_array((job.id, job.unique) for job in jobs),))
    holders = (holder or held[job.unique or ""] for job, holder in zip(jobs, stored, strict=True))
    return [
        Enqueued(holder, created=holder == job.id)
        for job, holder in zip(jobs, holders, strict=True)
    ]


def enqueue_from(transaction: Transaction, sendings: Sequence[FanOutBatch]) -> list[bool]:
    """Store the jobs of many senders; the last cursor of a sender counts."""
    valid = finish(keep_places(transaction, sendings))
    finish(put_waits(transaction, waits_of(sendings, valid)))
    if jobs := without_stored(transaction, jobs_of(sendings, valid)):
        enqueue(transaction, jobs)
    return [sending.lease in valid for sending in sendings]


def without_stored(transaction: Transaction, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Jobs sent before are not changed: the jobs that they waited for may be deleted since."""
    if not any(job.waits for job in jobs):
        return jobs
    sql = """
        SELECT json_group_array(
                 EXISTS (SELECT 1 FROM onbeat_jobs WHERE id = value)
                 OR EXISTS (SELECT 1 FROM onbeat_finished WHERE id = value))
        FROM json_each(?)
    """
    stored = transaction.values(sql, (json_array(job.id for job in jobs),))
    return [job for job, is_stored in zip(jobs, stored, strict=True) if not is_stored]


async def free_keys(transaction: Transaction, requests: Sequence[KeyedRequest]) -> list[bool]:
    """There is only one writer, so a free key stays free until the commit."""
    known = await keyed_answers(transaction, [request.digest for request in requests])
    return [answer is None for answer in known]


KEYS: Final = KeyVerbs[Transaction, NewJob](
    take=free_keys, keep=insert_requests, enqueue=in_thread(enqueue)
)
