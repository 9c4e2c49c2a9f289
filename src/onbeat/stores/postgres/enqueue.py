"""New jobs, and the idempotency keys of requests for them."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import asyncpg

from onbeat.model.errors import Conflict
from onbeat.model.idempotency import KeyedRequest
from onbeat.model.ids import JobId, Token
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Hint
from onbeat.rules.dependents import Holders, flows_of, repeats_a_key
from onbeat.stores.postgres import bulk
from onbeat.stores.postgres.hints import Notice
from onbeat.stores.postgres.rows import Row, columns, job_row
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.verbs.dependents import add_waiting, stored_among, wait_for_others
from onbeat.stores.sql.verbs.enqueue import (
    FanOutBatch,
    Lease,
    NewJob,
    awaited_unstored,
    blockers_of,
    holders_of,
    in_key_order,
    jobs_of,
    last_places,
    until_stored,
    waits_of,
)
from onbeat.stores.sql.verbs.event_waits import put_waits
from onbeat.stores.sql.verbs.held_keys import take_back
from onbeat.stores.sql.verbs.idempotency import KeyVerbs, insert_requests
from onbeat.stores.sql.verbs.schedules import hold_schedules

HOLDERS_READ_MAX = 6


def new_job(job: Job) -> NewJob:
    return NewJob.of(job, (*job_row(job), blockers_of(job)))


# Live and ended jobs are looked for in one snapshot. Otherwise an INSERT could wait for a
# settlement that deletes the live row, and store the job again, since it does not see yet that it
# has ended. Subqueries for each job: an anti-join took a third more of the server's time.
INSERT = """
    INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key,
                      schedule_id, occurrence, overlap, grp, flow, spec, created_at, blocked_by,
                      held)
    SELECT new.*,
           new.schedule_id IS NOT NULL AND EXISTS (
             SELECT 1 FROM schedules WHERE schedules.id = new.schedule_id AND status = 'paused')
    FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[],
                $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::uuid[],
                $13::text[], $14::bigint[], $15::integer[])
         AS new (id, queue, priority, lane, due_at, start_by, unique_key,
                 schedule_id, occurrence, overlap, grp, flow, spec, created_at, blocked_by)
    WHERE (SELECT 1 FROM finished WHERE finished.id = new.id) IS NULL
      AND (SELECT 1 FROM jobs AS live WHERE live.id = new.id) IS NULL
"""


async def enqueue_new(
    transaction: Transaction, jobs: Sequence[NewJob], notice: Notice | None
) -> int:
    """Add jobs that are probably all new; returns how many were.

    Raises the driver's error if another transaction adds one of them at the same time.

    ON CONFLICT writes rows to the WAL twice, and is seldom needed. A single plain job sends the
    notice with its commit; otherwise `Hints` sends it.
    """
    rows = [job.row for job in jobs]
    sql, values = insert_statement(rows)
    if len(rows) == 1 and sql is INSERT_ALIKE and rows[0][FLOW] is None:
        sql, values = INSERT_ONE, [value for value in rows[0][:-1] if value is not None]
        if notice is not None:
            sql, values = INSERT_ONE_AND_TELL, [*values, *notice]
            transaction.noticed.add(Hint.JOBS)
    inserted = await transaction.run(sql, *values)
    if inserted:
        transaction.hints.add(Hint.JOBS)
        transaction.lone_job = jobs[0].id if len(jobs) == 1 else None
    return inserted


def insert_statement(rows: Sequence[Row]) -> tuple[str, Sequence[Any]]:
    """The statement that adds these jobs, unless they have ended, and its parameters."""
    values = columns(rows)
    return (INSERT_ALIKE, common_values(values)) if has_common_values(values) else (INSERT, values)


INSERT_ALIKE = """
    INSERT INTO jobs (id, due_at, spec, created_at, queue, priority, lane, flow)
    SELECT new.*, $5, $6, $7, $8::uuid
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[])
         AS new (id, due_at, spec, created_at)
    WHERE (SELECT 1 FROM finished WHERE finished.id = new.id) IS NULL
      AND (SELECT 1 FROM jobs AS live WHERE live.id = new.id) IS NULL
"""
# Without arrays, which take a tenth of the time of a caller that enqueues jobs one by one.
INSERT_ONE = """
    INSERT INTO jobs (id, queue, priority, lane, due_at, spec, created_at)
    SELECT $1::uuid, $2, $3::smallint, $4, $5::bigint, $6, $7::bigint
    WHERE (SELECT 1 FROM finished WHERE finished.id = $1) IS NULL
      AND (SELECT 1 FROM jobs WHERE jobs.id = $1) IS NULL
"""
INSERT_ONE_AND_TELL = INSERT_ONE + "AND (SELECT pg_notify($8, $9)::text) IS NOT NULL"
LINE = slice(1, 4)  # queue, priority and lane
RARE = slice(5, 11)  # start_by, unique_key, schedule_id, occurrence, overlap, grp
FLOW = 11


def has_common_values(values: Sequence[Sequence[Any]]) -> bool:
    """Whether all jobs share queue, priority, lane and flow; none waits or has a rare field.

    Most of the cost of enqueueing here is to put values into arrays, one by one.
    """
    shared = (*values[LINE], values[FLOW])
    return (
        all(column.count(column[0]) == len(column) for column in shared)
        and all(column.count(None) == len(column) for column in values[RARE])
        and not any(values[-1])
    )


def common_values(values: Sequence[Sequence[Any]]) -> list[Any]:
    id, _, _, _, due_at, *_, flow, spec, created_at, _ = values
    line = (column[0] for column in values[LINE])
    return [id, due_at, spec, created_at, *line, flow[0]]


async def enqueue_plain(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued | None]:
    """Add the jobs of many callers. Repeating a stored one, even an ended one, is harmless.

    None for a job whose unique key was held by a live job that ended before it could be read. Needs
    a transaction where a job has a unique key.
    """
    answers, _ = await add_jobs(transaction, jobs)
    return answers


async def add_jobs(
    transaction: Transaction, jobs: Sequence[NewJob]
) -> tuple[list[Enqueued | None], bool]:
    """As `enqueue_plain`; also whether all of the jobs are new."""
    added = await insert(transaction, [job.row for job in in_key_order(jobs)])
    held = await take_back(transaction, jobs)
    if added == len(jobs) and not held:
        return [Enqueued(job.id, created=True) for job in jobs], True
    return await find_existing(transaction, jobs, held), False


async def insert(transaction: Transaction, rows: Sequence[Row]) -> int:
    """Add jobs that are new and whose unique key is free; returns how many."""
    if not rows:
        return 0
    inserted = await transaction.run(INSERT + "ON CONFLICT DO NOTHING", *columns(rows))
    if inserted:
        transaction.hints.add(Hint.JOBS)
    return inserted


async def find_existing(
    transaction: Transaction, jobs: Sequence[NewJob], held: Mapping[str, JobId]
) -> list[Enqueued | None]:
    """The job stored for each: itself, the live job with its unique key, or that in `held`."""
    sql = """
        SELECT CASE WHEN EXISTS (SELECT 1 FROM jobs WHERE jobs.id = new.id)
                      OR EXISTS (SELECT 1 FROM finished WHERE finished.id = new.id)
                    THEN new.id
                    ELSE (SELECT jobs.id FROM jobs WHERE jobs.unique_key = new.unique_key)
               END
        FROM unnest($1::uuid[], $2::text[]) WITH ORDINALITY AS new (id, unique_key, place)
        ORDER BY place
    """
    ids, keys = [job.id for job in jobs], [job.unique for job in jobs]
    rows = await transaction.column(sql, ids, keys)
    holders = [
        held.get(job.unique or "") if holder is None else JobId(str(holder))
        for job, holder in zip(jobs, rows, strict=True)
    ]
    return [
        None if holder is None else Enqueued(holder, created=holder == job.id)
        for job, holder in zip(jobs, holders, strict=True)
    ]


async def enqueue(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """As `enqueue_plain`, for jobs that wait for others or belong to schedules."""
    await hold_schedules(transaction, {job.schedule_id for job in jobs if job.schedule_id})
    answers = await add_waiting(transaction, jobs, partial(add_jobs, transaction))
    return [answer for answer in answers if answer is not None]


ROWS_MAX = 5_000  # added in one statement; larger ones gain nothing


async def enqueue_from(transaction: Transaction, sendings: Sequence[FanOutBatch]) -> list[bool]:
    """Store the jobs of many senders; the last cursor of a sender counts."""
    valid = await keep_places(transaction, sendings)
    await put_waits(transaction, waits_of(sendings, valid))
    await add_sent(transaction, jobs_of(sendings, valid))
    return [sending.lease in valid for sending in sendings]


async def keep_places(transaction: Transaction, sendings: Sequence[FanOutBatch]) -> set[Lease]:
    """As the shared verb, in one statement. Rows are locked in the order of ids."""
    places = last_places(sendings)
    sql = """
        UPDATE jobs
        SET cursor = coalesce(place.cursor, jobs.cursor),
            progress = coalesce(place.progress, jobs.progress)
        FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::text[])
             AS place (id, token, cursor, progress)
        WHERE jobs.id = place.id
          AND jobs.token = place.token
          AND jobs.running IS NOT DISTINCT FROM TRUE
        RETURNING jobs.id, jobs.token
    """
    rows = [(*lease, *places[lease]) for lease in sorted(places)]
    found_rows = await transaction.rows(sql, *columns(rows))
    return {(JobId(str(id)), Token(token)) for id, token in found_rows}


async def add_sent(transaction: Transaction, jobs: Sequence[NewJob]) -> None:
    """Store the jobs that do not exist and whose unique key is free."""
    if repeats_a_key(jobs):
        there = await stored_among(transaction, [job.id for job in jobs])
        await enqueue(transaction, [job for job in jobs if job.id not in there])
        return
    await hold_schedules(transaction, {job.schedule_id for job in jobs if job.schedule_id})
    created: set[JobId] = set()
    held: dict[str, JobId] = {}
    for start in range(0, len(jobs), ROWS_MAX):
        part = jobs[start : start + ROWS_MAX]
        inserted = await insert_sent(transaction, part)
        here = await take_back(transaction, part)
        held |= here
        created |= {
            job.id
            for job in part
            if job.id in inserted and here.get(job.unique or "", job.id) == job.id
        }
    if created:
        transaction.hints.add(Hint.JOBS)
    waiting = [job for job in jobs if job.waits and job.id in created]
    if waiting:
        missing = awaited_unstored(jobs, created)
        stored = await find_existing(transaction, missing, held) if missing else ()
        holders = Holders.among(flows_of(jobs), holders_of(missing, stored))
        await wait_for_others(transaction, waiting, created, all_new=True, holders=holders)


async def insert_sent(transaction: Transaction, jobs: Sequence[NewJob]) -> set[JobId]:
    """Returns the ids of the added jobs. Some may have to be taken back.

    No other transaction adds jobs with these ids: they derive from the ids of senders that we hold
    locked. Only unique keys may conflict, so only rows with one take ON CONFLICT.
    """
    created: set[JobId] = set()
    for keyed in (False, True):
        new = in_key_order([job for job in jobs if (job.unique is not None) is keyed])
        if new:
            sql, values = insert_statement([job.row for job in new])
            unless = "ON CONFLICT DO NOTHING" if keyed else ""
            found_rows = await transaction.column(f"{sql} {unless} RETURNING jobs.id", *values)
            created.update(JobId(str(id)) for id in found_rows)
    return created


async def take(transaction: Transaction, requests: Sequence[KeyedRequest]) -> list[bool]:
    """Which of the keys are free; those are locked until the end of the transaction.

    With these locks other requests fail at once, without waiting. A transaction can take its own
    lock twice, so of two requests with one key only the first counts.
    """
    sql = """
        SELECT pg_try_advisory_xact_lock(lock)
           AND NOT EXISTS (SELECT 1 FROM idempotency_keys
                           WHERE idempotency_keys.digest = asked.digest)
        FROM unnest($1::bigint[], $2::bytea[]) WITH ORDINALITY AS asked (lock, digest, place)
        ORDER BY place
    """
    digests = [request.digest for request in requests]
    locks = [int.from_bytes(digest[:8], signed=True) for digest in digests]
    rows = await transaction.column(sql, locks, digests)
    first = {digest: place for place, digest in reversed(tuple(enumerate(digests)))}
    return [free and first[digests[place]] == place for place, free in enumerate(rows)]


async def enqueue_in_one(transaction: Transaction, jobs: Sequence[Job]) -> Sequence[Enqueued]:
    """As `LoopConnections.enqueue`, within one transaction."""
    if not jobs:
        return []
    if bulk.may_be_copied(jobs) and await is_copied(transaction, jobs):
        return [Enqueued(job.id, created=True) for job in jobs]
    new = list(map(new_job, jobs))
    if any(job.needs_locks for job in new):
        return await enqueue(transaction, new)
    return await until_stored(partial(enqueue_plain, transaction, new), HOLDERS_READ_MAX)


async def is_copied(transaction: Transaction, jobs: Sequence[Job]) -> bool:
    """Add the jobs by COPY. False, with no job added, if some exist already."""
    await transaction.db.execute("SAVEPOINT copied")
    try:
        await bulk.copy_new(transaction, jobs)
    except (Conflict, asyncpg.UniqueViolationError):
        await transaction.db.execute("ROLLBACK TO copied")
        return False
    return True


KEYS: Final = KeyVerbs[Transaction, Job](take=take, keep=insert_requests, enqueue=enqueue_in_one)
