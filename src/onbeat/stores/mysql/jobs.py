"""What a caller does to jobs."""

from collections.abc import Sequence

from asyncmy import errors
from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Hint
from onbeat.stores.mysql.dependents import add_dependencies, cancel_waiting, lock_jobs
from onbeat.stores.mysql.enqueue import hold_schedules
from onbeat.stores.mysql.errors import DUPLICATE, code_of
from onbeat.stores.mysql.overlap import ask_to_stop
from onbeat.stores.mysql.rows import (
    ENDED_COLUMNS,
    NEW_COLUMNS,
    job_row,
    read_job,
)
from onbeat.stores.mysql.transaction import Row, Transaction
from onbeat.stores.sql.values import instant, micros_or_none
from onbeat.stores.sql.verbs.history import add_attempts, add_transitions
from onbeat.stores.sql.verbs.jobs import jobs_by_id


async def cancel(
    transaction: Transaction, ids: Sequence[JobId], reason: str, now: int
) -> list[Job | None]:
    """All are locked first, so that none is claimed or released between the reads."""
    await lock_jobs(transaction, ids)
    await ask_to_stop(transaction, ids, reason, now)
    await cancel_waiting(transaction, dict.fromkeys(ids, reason), now)
    jobs = await jobs_by_id(transaction, ids)
    return [jobs.get(id) for id in ids]


async def retry(transaction: Transaction, ids: Sequence[JobId], now: int) -> list[Job | None]:
    sql = f"""
        SELECT {ENDED_COLUMNS}, last_attempt
        FROM finished FORCE INDEX (PRIMARY)
        WHERE id IN %s AND state IN ('failed', 'cancelled')
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  values are bound
    chosen = await transaction.rows(sql, (tuple(ids),)) if ids else ()
    if chosen:
        again = [read_job(row[:-1]) for row in chosen]
        steps = [(one.id, now, "retried", "by hand", one.attempt, None) for one in again]
        await add_transitions(transaction, steps)
        await move_back(transaction, chosen, again, now)
        pairs = [(one.id, other) for one in again for other in one.after]
        live = await lock_jobs(transaction, {other for _, other in pairs})
        await add_dependencies(transaction, [pair for pair in pairs if pair[1] in live])
        transaction.hints.add(Hint.JOBS)
    jobs = await jobs_by_id(transaction, ids)
    return [jobs.get(id) for id in ids]


async def move_back(
    transaction: Transaction, chosen: Sequence[Row], again: Sequence[Job], now: int
) -> None:
    """Make ended jobs live again, as new but for `started_at` and the token, which never falls."""
    ids = (tuple(one.id for one in again),)
    await transaction.run("DELETE finished FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s", ids)
    kept = [(row[0], one.token, row[-1]) for one, row in zip(again, chosen, strict=True) if row[-1]]
    await add_attempts(transaction, kept)
    paused = await hold_schedules(
        transaction, {one.schedule_id for one in again if one.schedule_id}
    )
    rows = [row_again(one, now, held=one.schedule_id in paused) for one in again]
    try:
        await transaction.insert(
            f"""
            INSERT INTO jobs ({NEW_COLUMNS}, token, started_at, held)
            VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            """,  # noqa: S608  values are bound
            rows,
        )
    except errors.IntegrityError as error:
        if code_of(error) not in DUPLICATE:
            raise
        raise Conflict("a live job has the same unique key; cancel it or let it end") from error


def row_again(job: Job, now: int, *, held: bool) -> Row:
    fresh = replace(job, due_at=instant(now), start_by=None, expires_at=None)
    return (*job_row(fresh), job.token, micros_or_none(job.started_at), held)
