"""The effects of jobs that end: they leave `jobs`; dependents are freed or cancelled.

`blocked_by` changes only by the number of rows of `waits` written or deleted: two jobs that end at
once would both write the same count if they recounted.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from onbeat.model.ids import JobId
from onbeat.model.job import JobState
from onbeat.model.limits import DEPENDENTS_MAX
from onbeat.ports.store import Hint
from onbeat.rules.dependents import Cascade, Wait
from onbeat.stores.postgres.history import note
from onbeat.stores.postgres.transaction import Transaction


async def cancel_waiting(
    transaction: Transaction,
    reasons: Mapping[JobId, str],
    now: int,
    *,
    started_too: bool = True,
) -> list[JobId]:
    """Cancel the waiting ones among the jobs, each with its reason; returns their ids."""
    ids = await move_cancelled(transaction, reasons, now, started_too=started_too)
    await cascade(transaction, dict.fromkeys(ids, JobState.CANCELLED), now)
    return ids


async def move_cancelled(
    transaction: Transaction, reasons: Mapping[JobId, str], now: int, *, started_too: bool
) -> list[JobId]:
    """Rows are locked in the order of ids, so that concurrent cancels cannot deadlock."""
    if not reasons:
        return []
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
    rows = await transaction.column(sql, list(reasons), texts, now, started_too)
    ids = [JobId(str(id)) for id in rows]
    if ids:
        await note(transaction, {id: reasons[id] for id in ids}, now, "cancelled")
        await transaction.run("DELETE FROM waits WHERE job_id = ANY($1::uuid[])", ids)
    return ids


async def cascade(transaction: Transaction, ended: Mapping[JobId, str], now: int) -> None:
    """Free or cancel the dependents of these jobs, and the dependents of those it cancels.

    The ended jobs are locked, so that no new job waits for them. Dependents are locked before their
    own dependents are read.
    """
    cascade_state = Cascade(ended)
    while cascade_state.level:
        waits = await waits_for(transaction, cascade_state.level, cascade_state.room)
        waiting = await lock_waiting(transaction, {wait.job_id for wait in waits})
        cascade_state.take((wait for wait in waits if wait.job_id in waiting), len(waits))
    await free(transaction, cascade_state.freed_waits())
    await move_cancelled(transaction, cascade_state.cancelled, now, started_too=True)
    if cascade_state.unfinished:
        await keep_cascade(transaction, cascade_state.unfinished)


async def waits_for(transaction: Transaction, ended: Collection[JobId], limit: int) -> list[Wait]:
    sql = "SELECT job_id, awaits, any_end FROM waits WHERE awaits = ANY($1::uuid[]) LIMIT $2"
    return [
        Wait(JobId(str(id)), JobId(str(awaits)), any_end)
        for id, awaits, any_end in await transaction.rows(sql, list(ended), limit)
    ]


async def lock_waiting(transaction: Transaction, ids: Collection[JobId]) -> set[JobId]:
    """The waiting ones among the jobs; transactions that ended others handle their dependents."""
    if not ids:
        return set()
    sql = "SELECT id FROM jobs WHERE id = ANY($1::uuid[]) AND NOT running ORDER BY id FOR UPDATE"
    return {JobId(str(id)) for id in await transaction.column(sql, list(ids))}


async def free(transaction: Transaction, waits: Sequence[Wait]) -> None:
    """Delete these waits and unblock their jobs."""
    if not waits:
        return
    sql = """
        DELETE FROM waits
        USING unnest($1::uuid[], $2::uuid[]) AS over (awaits, job_id)
        WHERE waits.awaits = over.awaits
          AND waits.job_id = over.job_id
        RETURNING waits.job_id
    """
    awaited, waiting = [wait.awaits for wait in waits], [wait.job_id for wait in waits]
    ended = await transaction.column(sql, awaited, waiting)
    await add_blocks(transaction, (JobId(str(id)) for id in ended), -1)
    transaction.hints.add(Hint.JOBS)


async def keep_cascade(transaction: Transaction, ended: Mapping[JobId, str]) -> None:
    await transaction.run(
        """
        INSERT INTO cascades (job_id, state)
        SELECT * FROM unnest($1::uuid[], $2::text[])
        ON CONFLICT (job_id) DO UPDATE SET state = excluded.state
        """,
        list(ended),
        list(ended.values()),
    )


async def has_cascades(transaction: Transaction) -> bool:
    return bool(await transaction.value("SELECT EXISTS (SELECT 1 FROM cascades)"))


async def continue_cascades(transaction: Transaction, now: int) -> int:
    """A job that was retried meanwhile is skipped: its dependents wait for it again."""
    sql = """
        DELETE FROM cascades
        WHERE job_id IN (SELECT job_id FROM cascades LIMIT $1 FOR UPDATE SKIP LOCKED)
        RETURNING job_id, state
    """
    rows = await transaction.rows(sql, DEPENDENTS_MAX)
    begun = {JobId(str(id)): state for id, state in rows}
    if begun:
        # A retry locks the row of the ended job, so it comes entirely before or after this.
        ids = list(begun)
        await transaction.rows("SELECT 1 FROM finished WHERE id = ANY($1::uuid[]) FOR UPDATE", ids)
        live = await transaction.column("SELECT id FROM jobs WHERE id = ANY($1::uuid[])", ids)
        for id in live:
            del begun[JobId(str(id))]
        await cascade(transaction, begun, now)
    return len(rows)


async def lock_live(transaction: Transaction, ids: Collection[JobId]) -> set[JobId]:
    """The live ones among the jobs, locked until the end of the transaction.

    A transaction that ends one of them later finds it marked as awaited, and looks for dependents.
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


async def add_dependencies(
    transaction: Transaction, pairs: Sequence[tuple[JobId, JobId]], *, any_end: bool = False
) -> None:
    """Let the first of each pair wait for the second, which `lock_live` has locked."""
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
