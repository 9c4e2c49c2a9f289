"""New jobs, and the idempotency keys of requests for them."""

from collections.abc import Sequence
from typing import Final

from onbeat.model.idempotency import KeyedRequest
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Hint
from onbeat.stores.sql.values import micros
from onbeat.stores.sql.verbs.dependents import wait_for_others
from onbeat.stores.sql.verbs.enqueue import FanOutBatch, NewJob, jobs_of, keep_places
from onbeat.stores.sql.verbs.idempotency import KeyVerbs, insert_requests, keyed_answers
from onbeat.stores.sqlite.rows import job_row
from onbeat.stores.sqlite.transaction import Row, Transaction, finish, in_thread, json_array


def new_job(job: Job) -> NewJob:
    return NewJob(
        job.id, job_row(job), job.unique, job.after, job.schedule_id, micros(job.created_at)
    )


def enqueue(transaction: Transaction, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
    """Add the jobs of many callers. Repeating a stored one, even an ended one, is harmless."""
    if insert(transaction, [job.row for job in jobs]) == len(jobs):
        answers = [Enqueued(job.id, created=True) for job in jobs]
    else:
        answers = find_existing(transaction, jobs)
    if any(job.after for job in jobs):
        created = {answer.id for answer in answers if answer.created}
        finish(wait_for_others(transaction, jobs, created))
    return answers


def insert(transaction: Transaction, rows: Sequence[Row]) -> int:
    """Add jobs that are new and whose unique key is free; returns how many."""
    sql = """
        INSERT INTO onbeat_jobs (id, queue, priority, lane, due_at, start_by, unique_key,
                          schedule_id, occurrence, overlap, grp, spec, held)
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


def enqueue_from(transaction: Transaction, sendings: Sequence[FanOutBatch]) -> list[bool]:
    """Store the jobs of many senders; the last cursor of a sender counts."""
    valid = finish(keep_places(transaction, sendings))
    if jobs := without_stored(transaction, jobs_of(sendings, valid)):
        enqueue(transaction, jobs)
    return [sending.lease in valid for sending in sendings]


def without_stored(transaction: Transaction, jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Jobs sent before are not changed: the jobs that they waited for may be deleted since."""
    if not any(job.after for job in jobs):
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
