"""New jobs, and the idempotency keys of requests for them."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final

from asyncmy import errors

from onbeat.model.errors import RequestInFlight
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Hint
from onbeat.stores.mysql.connection import LOCK_SECONDS
from onbeat.stores.mysql.errors import LOCK_WAIT, code_of
from onbeat.stores.mysql.rows import job_row
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.forms import NEW_COLUMNS
from onbeat.stores.sql.verbs.dependents import add_waiting
from onbeat.stores.sql.verbs.enqueue import (
    FanOutBatch,
    NewJob,
    blockers_of,
    in_key_order,
    jobs_of,
    keep_places,
    until_stored,
    waits_of,
)
from onbeat.stores.sql.verbs.event_waits import put_waits
from onbeat.stores.sql.verbs.held_keys import take_back
from onbeat.stores.sql.verbs.idempotency import DIGEST, KeyVerbs, insert_requests
from onbeat.stores.sql.verbs.jobs import delete_live
from onbeat.stores.sql.verbs.schedules import hold_schedules

TAKE_SECONDS = 1  # the server's minimum for a lock timeout
HOLDERS_READ_MAX = 10


def new_job(job: Job) -> NewJob:
    return NewJob.of(job, (*job_row(job), blockers_of(job)))


async def enqueue(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued | None]:
    """Add the jobs of many callers. Repeating a stored one, even an ended one, is harmless.

    None for a job whose unique key was held by a live job that ended before it could be read; where
    jobs wait for others, this raises `Unavailable`.
    """
    if any(job.waits for job in jobs):
        return await add_waiting(transaction, jobs, partial(add, transaction))
    answers, _ = await add(transaction, jobs)
    return answers


async def add(
    transaction: Transaction, jobs: Sequence[NewJob]
) -> tuple[list[Enqueued | None], bool]:
    """Add jobs as if they waited for none; also returns whether all of them are new."""
    added = await insert_new(transaction, jobs)
    held = await take_back(transaction, jobs)
    if added == len(jobs) and not held:
        return [Enqueued(one.id, created=True) for one in jobs], True
    return await find_existing(transaction, jobs, held), False


async def insert_new(transaction: Transaction, jobs: Sequence[NewJob]) -> int:
    paused = await hold_schedules(transaction, {job.schedule_id for job in jobs if job.schedule_id})
    rows = [(*job.row, job.schedule_id in paused) for job in in_key_order(jobs)]
    return await insert(transaction, rows)


async def insert(transaction: Transaction, rows: Sequence[Row]) -> int:
    """Add jobs that are new and whose unique key is free; returns how many.

    IGNORE would also hide values that do not fit. Ended jobs are looked for last: a job is locked
    while it ends, so a new row with its id is written only when its end is visible.
    """
    if not rows:
        return 0
    inserted = await transaction.insert(
        f"""
        INSERT INTO jobs ({", ".join(NEW_COLUMNS)}, blocked_by, held)
        VALUES ({", ".join(["%s"] * (len(NEW_COLUMNS) + 2))})
        ON DUPLICATE KEY UPDATE id = id
        """,  # noqa: S608  values are bound
        rows,
    )
    ids = (tuple(row[0] for row in rows),)
    ended = await transaction.column("SELECT id FROM finished WHERE id IN %s", ids)
    if ended:
        inserted -= await delete_live(transaction, ended)
    if inserted:
        transaction.hints.add(Hint.JOBS)
    return inserted


async def find_existing(
    transaction: Transaction, jobs: Sequence[NewJob], held: Mapping[str, JobId]
) -> list[Enqueued | None]:
    """The job stored for each: itself, the live job with its unique key, or that in `held`."""
    hashes = tuple(hash_of(job.unique) for job in jobs if job.unique is not None)
    stored = await find_stored(transaction, [job.id for job in jobs])
    by_key = "SELECT unique_key, id FROM jobs FORCE INDEX (jobs_unique) WHERE unique_hash IN %s"
    rows = await transaction.rows(by_key, (hashes,)) if hashes else ()
    holders: dict[str | None, JobId] = dict(held.items())
    holders.update(rows)
    return [
        Enqueued(job.id, created=True)
        if job.id in stored
        else Enqueued(holders[job.unique], created=False)
        if job.unique in holders
        else None
        for job in jobs
    ]


async def find_stored(transaction: Transaction, ids: Sequence[JobId]) -> set[JobId]:
    """Which of the jobs exist, live or ended."""
    if not ids:
        return set()
    request = {"ids": tuple(ids)}
    live, ended = await transaction.tables(
        ("SELECT id FROM jobs WHERE id IN %(ids)s", "SELECT id FROM finished WHERE id IN %(ids)s"),
        request,
    )
    return {id for (id,) in (*live, *ended)}


def hash_of(key: str) -> str:
    """The same value as the generated column `unique_hash`."""
    return hashlib.sha256(key.encode()).hexdigest()


async def enqueue_from(transaction: Transaction, sendings: Sequence[FanOutBatch]) -> list[bool]:
    """Store the jobs of many senders; the last cursor of a sender counts."""
    await hold_schedules(
        transaction,
        {job.schedule_id for sending in sendings for job in sending.jobs if job.schedule_id},
    )
    valid = await keep_places(transaction, sendings)
    await put_waits(transaction, waits_of(sendings, valid))
    await add_missing(transaction, jobs_of(sendings, valid))
    return [sending.lease in valid for sending in sendings]


async def add_missing(transaction: Transaction, jobs: Sequence[NewJob]) -> None:
    """Jobs sent before are not changed: the jobs that they waited for may be deleted since."""
    there = await find_stored(transaction, [job.id for job in jobs])
    if new := [job for job in jobs if job.id not in there]:
        await enqueue(transaction, new)


async def take(transaction: Transaction, requests: Sequence[KeyedRequest]) -> list[bool]:
    """Insert the keys without answers: other requests with one of them wait for its row.

    Raises `RequestInFlight` if one is taken.
    """
    await wait_for_locks(transaction, TAKE_SECONDS)
    try:
        await insert_requests(transaction, [(request, b"") for request in requests])
    except errors.MySQLError as error:
        if code_of(error) == LOCK_WAIT:
            raise RequestInFlight from error
        raise
    finally:
        if transaction.db.connected:
            await wait_for_locks(transaction, LOCK_SECONDS)
    return [True] * len(requests)


async def keep(transaction: Transaction, answered: Sequence[tuple[KeyedRequest, bytes]]) -> None:
    rows = [(request.digest, answer) for request, answer in answered]
    await transaction.update_rows("idempotency_keys", DIGEST, {"answer": "bytea"}, rows)


async def wait_for_locks(transaction: Transaction, seconds: int) -> None:
    await transaction.run(f"SET SESSION innodb_lock_wait_timeout = {seconds}")


async def enqueue_in_one(transaction: Transaction, jobs: Sequence[NewJob]) -> Sequence[Enqueued]:
    """As `LoopConnections.enqueue`, within one transaction."""
    return await until_stored(partial(enqueue, transaction, jobs), HOLDERS_READ_MAX)


KEYS: Final = KeyVerbs[Transaction, NewJob](take=take, keep=keep, enqueue=enqueue_in_one)
