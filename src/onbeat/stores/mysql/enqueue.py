"""New jobs."""

import hashlib
from collections.abc import Collection, Sequence
from operator import attrgetter

import msgspec

from onbeat.model.errors import Invalid
from onbeat.model.ids import JobId, ScheduleId
from onbeat.model.job import Job
from onbeat.ports.store import Enqueued, Hint
from onbeat.stores.mysql.ends import (
    ENDED_BADLY,
    block,
    cancel_waiting,
    cause,
    leave,
    lock_jobs,
)
from onbeat.stores.mysql.rows import NEW_COLUMNS, job_row
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import micros


class NewJob(msgspec.Struct, frozen=True, gc=False):
    """A job made ready outside the transaction, to keep that short."""

    id: JobId
    row: Row
    unique: str | None
    after: tuple[JobId, ...]
    schedule_id: ScheduleId | None
    created_at: int


def new_job(job: Job) -> NewJob:
    return NewJob(
        job.id, job_row(job), job.unique, job.after, job.schedule_id, micros(job.created_at)
    )


async def enqueue(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued | None]:
    """Many callers' jobs at once. Repeating one that was stored, even if it ended, is harmless.

    None where a live job held the unique key and ended before it could be named.
    """
    if await insert_new(transaction, jobs) == len(jobs):
        answers: list[Enqueued | None] = [Enqueued(one.id, created=True) for one in jobs]
    else:
        answers = await find_holders(transaction, jobs)
    if any(job.after for job in jobs):
        created = {answer.id for answer in answers if answer is not None and answer.created}
        await wait_for_others(transaction, jobs, created)
    return answers


async def insert_new(transaction: Transaction, jobs: Sequence[NewJob]) -> int:
    paused = await hold_schedules(transaction, {one.schedule_id for one in jobs if one.schedule_id})
    rows = [(*one.row, one.schedule_id in paused) for one in in_key_order(jobs)]
    return await insert(transaction, rows)


def in_key_order(jobs: Sequence[NewJob]) -> Sequence[NewJob]:
    """Two that add the same keys in one order do not lock each other out."""
    if all(job.unique is None for job in jobs):
        return jobs
    return sorted(jobs, key=lambda job: job.unique or "")


async def hold_schedules(transaction: Transaction, ids: Collection[ScheduleId]) -> set[ScheduleId]:
    """Let nobody pause them until the commit, or a new job would miss it; says which are."""
    if not ids:
        return set()
    sql = """
        SELECT id, status
        FROM schedules FORCE INDEX (PRIMARY)
        WHERE id IN %s
        ORDER BY id
        LOCK IN SHARE MODE
    """
    found = await transaction.rows(sql, (tuple(ids),))
    return {id for id, status in found if status == "paused"}


async def insert(transaction: Transaction, rows: Sequence[Row]) -> int:
    """Add those that are new and whose unique key is free; answers with how many.

    IGNORE would also swallow values that do not fit. Those that ended are looked for last: who ends
    a job has it locked, so that a new row of the same id is written only once that can be seen.
    """
    if not rows:
        return 0
    inserted = await transaction.insert(
        f"""
        INSERT INTO jobs ({NEW_COLUMNS}, held)
        VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
        ON DUPLICATE KEY UPDATE id = id
        """,  # noqa: S608  values are bound
        rows,
    )
    ids = (tuple(row[0] for row in rows),)
    ended = await transaction.column("SELECT id FROM finished WHERE id IN %s", ids)
    if ended:
        inserted -= await leave(transaction, ended)
    if inserted:
        transaction.hints.add(Hint.JOBS)
    return inserted


async def find_holders(transaction: Transaction, jobs: Sequence[NewJob]) -> list[Enqueued | None]:
    """Who has each job's place: itself, or the live job with its unique key."""
    hashes = tuple(hash_of(job.unique) for job in jobs if job.unique is not None)
    stored = await find_stored(transaction, [job.id for job in jobs])
    by_key = "SELECT unique_key, id FROM jobs FORCE INDEX (jobs_unique) WHERE unique_hash IN %s"
    found = await transaction.rows(by_key, (hashes,)) if hashes else ()
    holders: dict[str | None, JobId] = dict(found)
    return [
        Enqueued(job.id, created=True)
        if job.id in stored
        else Enqueued(holders[job.unique], created=False)
        if job.unique in holders
        else None
        for job in jobs
    ]


async def find_stored(transaction: Transaction, ids: Sequence[JobId]) -> set[JobId]:
    """Which of the jobs there are, live or ended."""
    if not ids:
        return set()
    asked = {"ids": tuple(ids)}
    live, ended = await transaction.tables(
        ("SELECT id FROM jobs WHERE id IN %(ids)s", "SELECT id FROM finished WHERE id IN %(ids)s"),
        asked,
    )
    return {id for (id,) in (*live, *ended)}


def hash_of(key: str) -> str:
    """As the server computes `unique_hash`."""
    return hashlib.sha256(key.encode()).hexdigest()


async def wait_for_others(
    transaction: Transaction, jobs: Sequence[NewJob], created: Collection[JobId]
) -> None:
    """A job may wait for those stored, and for those that stand before it in the same call."""
    pairs = [(job.id, other) for job in jobs for other in job.after]
    live = await lock_jobs(transaction, {other for _, other in pairs})
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
    sql = "SELECT id, state FROM finished WHERE id IN %s"
    return dict(await transaction.rows(sql, (tuple(ids),)))


def refuse_unknown(jobs: Sequence[NewJob], known: Collection[JobId]) -> None:
    places = {job.id: place for place, job in enumerate(jobs)}
    for job in jobs:
        for other in job.after:
            if other not in known or places.get(other, -1) >= places[job.id]:
                raise Invalid(f"job {other} does not exist; name jobs that do", field="after")
