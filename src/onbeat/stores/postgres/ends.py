"""What follows when jobs end: they leave `jobs`, and what waited for them goes on or ends too.

A count of what blocks a job is only ever moved by as many as there were rows of `waits` written or
deleted: two that end at once would both write the same count if they counted anew.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from onbeat.model.ids import JobId
from onbeat.ports.store import Hint
from onbeat.stores.postgres.history import note
from onbeat.stores.postgres.transaction import Transaction

ENDED_BADLY = frozenset({"failed", "cancelled"})


async def cancel_waiting(
    transaction: Transaction,
    reasons: Mapping[JobId, str],
    now: int,
    *,
    started_too: bool = True,
) -> list[JobId]:
    """End those of the jobs that wait, with each its reason; answers with which did."""
    if not reasons:
        return []
    ids = await move_cancelled(transaction, reasons, now, started_too=started_too)
    if ids:
        await note(transaction, {id: reasons[id] for id in ids}, now, "cancelled")
        await transaction.run("DELETE FROM waits WHERE job_id = ANY($1::uuid[])", ids)
        await free_waiting(transaction, ids, now)
    return ids


async def move_cancelled(
    transaction: Transaction, reasons: Mapping[JobId, str], now: int, *, started_too: bool
) -> list[JobId]:
    """Rows are locked in the order of their ids, so that two that cancel do not lock each other."""
    sql = """
        WITH asked AS MATERIALIZED (
          SELECT jobs.id, asked.reason
          FROM unnest($1::uuid[], $2::text[]) AS asked (id, reason)
          JOIN jobs ON jobs.id = asked.id
          ORDER BY jobs.id
          FOR UPDATE OF jobs
        ),
        gone AS (
          DELETE FROM jobs
          USING asked
          WHERE jobs.id = asked.id
            AND NOT jobs.running
            AND (jobs.token = 0 OR jobs.start_by IS NOT NULL OR $4)
          RETURNING jobs.*, asked.reason AS cancelled_for
        )
        INSERT INTO finished (
          id, state, queue, priority, lane, due_at, unique_key, schedule_id, occurrence, overlap,
          token, attempt, lost, released, started_at, finished_at, reason, cancel_reason, result,
          error, progress, spec, created_at)
        SELECT
          id, 'cancelled', queue, priority, lane, due_at, unique_key, schedule_id, occurrence,
          overlap, token, attempt, lost, released, started_at, $3, cancelled_for, cancel_reason,
          result, error, progress, spec, created_at
        FROM gone
        RETURNING id
    """
    texts = list(reasons.values())
    found = await transaction.column(sql, list(reasons), texts, now, started_too)
    return [JobId(str(id)) for id in found]


async def free_waiting(transaction: Transaction, ended: Sequence[JobId], now: int) -> None:
    """Free what waited for these jobs, or cancel it where it needed a success that did not come."""
    sql = """
        DELETE FROM waits
        USING finished
        WHERE waits.awaits = ANY($1::uuid[])
          AND finished.id = waits.awaits
        RETURNING job_id, awaits, any_end OR state = 'succeeded' AS freed, state
    """
    waiting = await transaction.rows(sql, list(ended))
    if not waiting:
        return
    await add_blocks(transaction, (JobId(str(row[0])) for row in waiting), -1)
    transaction.hints.add(Hint.JOBS)
    doomed = {
        JobId(str(job)): cause(JobId(str(other)), state)
        for job, other, freed, state in waiting
        if not freed
    }
    await cancel_waiting(transaction, doomed, now)


def cause(other: JobId, state: str | None) -> str:
    """Why a job is cancelled that needed the success of another."""
    return f"job {other} it waited for {'failed' if state == 'failed' else 'was cancelled'}"


async def keep_alive(transaction: Transaction, ids: Collection[JobId]) -> set[JobId]:
    """Those of the jobs that have not ended, nor will before this transaction has.

    Who ends one of them later finds it marked as awaited, and looks for who waits.
    """
    if not ids:
        return set()
    sql = """
        WITH awaited AS MATERIALIZED (
          SELECT id FROM jobs WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE
        )
        UPDATE jobs
        SET awaited = TRUE
        FROM awaited
        WHERE jobs.id = awaited.id
        RETURNING jobs.id
    """
    return {JobId(str(id)) for id in await transaction.column(sql, list(ids))}


async def block(
    transaction: Transaction, pairs: Sequence[tuple[JobId, JobId]], *, any_end: bool = False
) -> None:
    """The first of each pair waits for the second, which `keep_alive` has named."""
    if not pairs:
        return
    sql = """
        INSERT INTO waits (awaits, job_id, any_end)
        SELECT pair.awaits, pair.job_id, $3
        FROM unnest($1::uuid[], $2::uuid[]) AS pair (awaits, job_id)
        WHERE EXISTS (SELECT 1 FROM jobs WHERE jobs.id = pair.job_id AND NOT running)
        ON CONFLICT DO NOTHING
        RETURNING job_id
    """
    awaited, waiting = [other for _, other in pairs], [job for job, _ in pairs]
    added = await transaction.column(sql, awaited, waiting, any_end)
    await add_blocks(transaction, (JobId(str(id)) for id in added), 1)


async def add_blocks(transaction: Transaction, ids: Iterable[JobId], each: int) -> None:
    counts = Counter(ids)
    if counts:
        await transaction.run(
            """
            UPDATE jobs
            SET blocked_by = blocked_by + change.count
            FROM unnest($1::uuid[], $2::integer[]) AS change (id, count)
            WHERE jobs.id = change.id
              AND NOT running
            """,
            sorted(counts),
            [counts[id] * each for id in sorted(counts)],
        )
