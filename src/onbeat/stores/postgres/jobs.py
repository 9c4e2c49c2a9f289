"""What a caller does to jobs."""

from collections.abc import Sequence

import asyncpg
from msgspec.structs import replace

from onbeat.model.errors import Conflict
from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.ports.store import Hint
from onbeat.stores.postgres.dependents import add_dependencies, cancel_waiting, lock_live
from onbeat.stores.postgres.enqueue import hold_schedules
from onbeat.stores.postgres.history import note
from onbeat.stores.postgres.overlap import ask_to_stop
from onbeat.stores.postgres.rows import (
    ENDED_COLUMNS,
    read_jobs,
    spec_of,
)
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.values import to_json
from onbeat.stores.sql.verbs.history import add_attempts, attempts_of
from onbeat.stores.sql.verbs.jobs import jobs_by_id


async def cancel(
    transaction: Transaction, ids: Sequence[JobId], reason: str, now: int
) -> list[Job | None]:
    """Running ones first: a job that is released meanwhile is then found as a waiting one."""
    await ask_to_stop(transaction, ids, reason, now)
    await cancel_waiting(transaction, dict.fromkeys(ids, reason), now)
    # Jobs that were claimed between the two.
    await ask_to_stop(transaction, ids, reason, now)
    jobs = await jobs_by_id(transaction, ids)
    return [jobs.get(id) for id in ids]


async def retry(transaction: Transaction, ids: Sequence[JobId], now: int) -> list[Job | None]:
    sql = f"""
        SELECT {ENDED_COLUMNS}
        FROM finished
        WHERE id = ANY($1::uuid[])
          AND state IN ('failed', 'cancelled')
        ORDER BY id
        FOR UPDATE
    """  # noqa: S608  no value in it
    chosen = read_jobs(await transaction.rows(sql, list(ids)))
    if chosen:
        await hold_schedules(transaction, {one.schedule_id for one in chosen if one.schedule_id})
        by_hand = {one.id: "by hand" for one in chosen}
        await note(transaction, by_hand, now, "retried")
        await move_back(transaction, chosen, now)
        pairs = [(one.id, other) for one in chosen for other in one.after]
        live = await lock_live(transaction, {other for _, other in pairs})
        await add_dependencies(transaction, [pair for pair in pairs if pair[1] in live])
        transaction.hints.add(Hint.JOBS)
    jobs = await jobs_by_id(transaction, ids)
    return [jobs.get(id) for id in ids]


async def move_back(transaction: Transaction, chosen: Sequence[Job], now: int) -> None:
    """Make ended jobs live again, as new but for `started_at` and the token, which never falls."""
    kept = await attempts_of(transaction, [one.id for one in chosen])
    last = [attempts[-1] for attempts in kept.values()]
    await add_attempts(transaction, [(one.job_id, one.token, to_json(one)) for one in last])
    try:
        await transaction.run(
            """
            WITH back AS (
              DELETE FROM finished
              USING unnest($1::uuid[], $2::text[], $4::text[]) AS again (id, spec, grp)
              WHERE finished.id = again.id
              RETURNING finished.id, queue, priority, lane, unique_key, schedule_id, occurrence,
                        overlap, token, started_at, again.grp, again.spec, created_at
            )
            INSERT INTO jobs (id, queue, priority, lane, due_at, unique_key, schedule_id,
                              occurrence, overlap, token, started_at, grp, spec, created_at,
                              held, awaited)
            SELECT id, queue, priority, lane, $3, unique_key, schedule_id,
                   occurrence, overlap, token, started_at, grp, spec, created_at,
                   EXISTS (SELECT 1 FROM schedules
                           WHERE schedules.id = schedule_id AND status = 'paused'),
                   EXISTS (SELECT 1 FROM waits WHERE waits.awaits = back.id)
            FROM back
            """,
            [one.id for one in chosen],
            [spec_of(replace(one, expires_at=None)) for one in chosen],
            now,
            [one.group or None for one in chosen],
        )
    except asyncpg.UniqueViolationError as error:
        raise Conflict("a live job has the same unique key; cancel it or let it end") from error
