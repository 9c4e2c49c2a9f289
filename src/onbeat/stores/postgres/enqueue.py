"""New jobs."""

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from onbeat.model.errors import Invalid, Unavailable
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Hint
from onbeat.stores.postgres.ends import ENDED_BADLY, block, cancel_waiting, cause, keep_alive
from onbeat.stores.postgres.hints import Notice
from onbeat.stores.postgres.rows import Row, columns, job_row
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import micros


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job made ready outside the transaction, to keep that short."""

    id: JobId
    row: Row
    unique: str | None
    after: tuple[JobId, ...]
    schedule_id: ScheduleId | None
    created_at: int

    @property
    def looks_around(self) -> bool:
        """Whether other rows must stay as they are while this one is added."""
        return bool(self.after) or self.schedule_id is not None


def new_job(job: Job) -> NewJob:
    return NewJob(
        job.id, job_row(job), job.unique, job.after, job.schedule_id, micros(job.created_at)
    )


# Whether a job has ended already is asked in a subquery of its own for each: as an anti-join it
# took a third more of the server's time.
INSERT = """
    INSERT INTO jobs (id, queue, priority, lane, due_at, start_by, unique_key,
                      schedule_id, occurrence, overlap, grp, spec, created_at, held)
    SELECT new.*,
           new.schedule_id IS NOT NULL AND EXISTS (
             SELECT 1 FROM schedules WHERE schedules.id = new.schedule_id AND status = 'paused')
    FROM unnest($1::uuid[], $2::text[], $3::smallint[], $4::text[], $5::bigint[], $6::bigint[],
                $7::text[], $8::uuid[], $9::bigint[], $10::text[], $11::text[], $12::text[],
                $13::bigint[])
         AS new (id, queue, priority, lane, due_at, start_by, unique_key,
                 schedule_id, occurrence, overlap, grp, spec, created_at)
    WHERE (SELECT 1 FROM finished WHERE finished.id = new.id) IS NULL
"""


async def enqueue_new(
    transaction: Transaction, asked: tuple[Sequence[NewJob], Notice | None]
) -> int:
    """Add jobs that are probably all new; raises the driver's error where one is not.

    Rows that may meet a conflict are written twice over to the WAL, and that is seldom needed. A
    notice is told by the commit of one plain job, and else left to those who tell of hints.
    """
    jobs, notice = asked
    rows = [job.row for job in jobs]
    sql, values = insertion(rows)
    if len(rows) == 1 and sql is INSERT_ALIKE:
        sql, values = INSERT_ONE, [value for value in rows[0] if value is not None]
        if notice is not None:
            sql, values = INSERT_ONE_AND_TELL, [*values, *notice]
            transaction.noticed.add(Hint.JOBS)
    inserted = await transaction.run(sql, *values)
    if inserted:
        transaction.hints.add(Hint.JOBS)
    return inserted


def insertion(rows: Sequence[Row]) -> tuple[str, Sequence[Any]]:
    """The statement that adds these jobs, unless they have ended, and what is bound in it."""
    values = columns(rows)
    return (INSERT_ALIKE, alike(values)) if is_alike(values) else (INSERT, values)


INSERT_ALIKE = """
    INSERT INTO jobs (id, due_at, spec, created_at, queue, priority, lane)
    SELECT new.*, $5, $6, $7
    FROM unnest($1::uuid[], $2::bigint[], $3::text[], $4::bigint[])
         AS new (id, due_at, spec, created_at)
    WHERE (SELECT 1 FROM finished WHERE finished.id = new.id) IS NULL
"""
# Without arrays, which take a tenth of the time of a caller who sends one job after the other.
INSERT_ONE = """
    INSERT INTO jobs (id, queue, priority, lane, due_at, spec, created_at)
    SELECT $1::uuid, $2, $3::smallint, $4, $5::bigint, $6, $7::bigint
    WHERE (SELECT 1 FROM finished WHERE finished.id = $1) IS NULL
"""
INSERT_ONE_AND_TELL = INSERT_ONE + "AND (SELECT pg_notify($8, $9)::text) IS NOT NULL"
LINE = slice(1, 4)  # queue, priority and lane
RARE = slice(5, 11)  # start_by, unique_key, schedule_id, occurrence, overlap, grp


def is_alike(values: Sequence[Sequence[Any]]) -> bool:
    """Whether all jobs stand in one line, with nothing that most jobs do not have.

    Most of what enqueueing costs here is to put values into arrays, one by one.
    """
    return all(column.count(column[0]) == len(column) for column in values[LINE]) and all(
        column.count(None) == len(column) for column in values[RARE]
    )


def alike(values: Sequence[Sequence[Any]]) -> list[Any]:
    id, _, _, _, due_at, *_, spec, created_at = values
    return [id, due_at, spec, created_at, *(column[0] for column in values[LINE])]


async def enqueue_plain(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued | None]:
    """Many callers' jobs at once. Repeating one that was stored, even if it ended, is harmless.

    None where a live job held the unique key and ended before it could be named.
    """
    if await insert(transaction, in_key_order(jobs)) == len(jobs):
        return [Enqueued(job.id, created=True) for job in jobs]
    return await find_holders(transaction, jobs)


def in_key_order(jobs: Sequence[NewJob]) -> list[Row]:
    """Two that add the same keys in one order do not lock each other out."""
    if all(job.unique is None for job in jobs):
        return [job.row for job in jobs]
    return [job.row for job in sorted(jobs, key=lambda job: job.unique or "")]


async def insert(transaction: Transaction, rows: Sequence[Row]) -> int:
    """Add those that are new and whose unique key is free; answers with how many."""
    if not rows:
        return 0
    inserted = await transaction.run(INSERT + "ON CONFLICT DO NOTHING", *columns(rows))
    if inserted:
        transaction.hints.add(Hint.JOBS)
    return inserted


async def find_holders(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued | None]:
    """Who has each job's place: itself, or the live job with its unique key."""
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
    found = await transaction.column(sql, ids, keys)
    holders = [None if holder is None else JobId(str(holder)) for holder in found]
    return [
        None if holder is None else Enqueued(holder, created=holder == job.id)
        for job, holder in zip(jobs, holders, strict=True)
    ]


async def enqueue(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued]:
    """As `enqueue_plain`, where jobs wait for others or belong to schedules."""
    await hold_schedules(transaction, {job.schedule_id for job in jobs if job.schedule_id})
    found = await enqueue_plain(transaction, jobs)
    answers = [answer for answer in found if answer is not None]
    if len(answers) < len(found):
        raise Unavailable("its unique key was freed meanwhile; try again")
    if any(job.after for job in jobs):
        created = {answer.id for answer in answers if answer.created}
        await wait_for_others(transaction, jobs, created)
    return answers


async def hold_schedules(transaction: Transaction, ids: Collection[ScheduleId]) -> None:
    """Let nobody pause them until the commit, or a new job would miss it."""
    if ids:
        await transaction.rows(
            "SELECT 1 FROM schedules WHERE id = ANY($1::uuid[]) ORDER BY id FOR SHARE", list(ids)
        )


async def wait_for_others(
    transaction: Transaction, jobs: Sequence[NewJob], created: Collection[JobId]
) -> None:
    """A job may wait for those stored, and for those that stand before it in the same call."""
    pairs = [(job.id, other) for job in jobs for other in job.after]
    live = await keep_alive(transaction, {other for _, other in pairs})
    states = await ended_states(transaction, {other for _, other in pairs} - live)
    refuse_unknown(jobs, live | states.keys())
    await block(transaction, [pair for pair in pairs if pair[0] in created and pair[1] in live])
    doomed = {
        job: cause(other, states[other])
        for job, other in pairs
        if states.get(other) in ENDED_BADLY and job in created
    }
    for job in sorted(jobs, key=attrgetter("created_at")):
        if job.id in doomed:
            await cancel_waiting(transaction, {job.id: doomed[job.id]}, job.created_at)


async def ended_states(transaction: Transaction, ids: Collection[JobId]) -> dict[JobId, str]:
    if not ids:
        return {}
    sql = "SELECT id, state FROM finished WHERE id = ANY($1::uuid[])"
    return {JobId(str(id)): state for id, state in await transaction.rows(sql, list(ids))}


def refuse_unknown(jobs: Sequence[NewJob], known: Collection[JobId]) -> None:
    places = {job.id: place for place, job in enumerate(jobs)}
    for job in jobs:
        for other in job.after:
            if other not in known or places.get(other, -1) >= places[job.id]:
                raise Invalid(f"job {other} does not exist; name jobs that do", field="after")
