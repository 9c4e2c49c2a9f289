"""What is deleted for age, and jobs that may no longer start."""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.stores.postgres.days import Bounds
from onbeat.stores.postgres.ends import cancel_waiting
from onbeat.stores.postgres.rows import LIVE_COLUMNS, read_jobs
from onbeat.stores.postgres.transaction import Transaction


async def prune_rest(transaction: Transaction, bounds: Bounds) -> int:
    """Row by row, and only where a job has no day of its own."""
    sql = """
        SELECT id
        FROM (
          (SELECT id, finished_at FROM finished_rest
           WHERE state = 'succeeded' AND finished_at < $1 ORDER BY finished_at LIMIT $3)
          UNION ALL
          (SELECT id, finished_at FROM finished_rest
           WHERE state = 'cancelled' AND finished_at < $1 ORDER BY finished_at LIMIT $3)
          UNION ALL
          (SELECT id, finished_at FROM finished_rest
           WHERE state = 'failed' AND finished_at < $2 ORDER BY finished_at LIMIT $3)
        ) AS past
        ORDER BY finished_at, id
        LIMIT $3
    """
    past = await transaction.column(sql, bounds.finished_before, bounds.failed_before, bounds.limit)
    # One that was retried meanwhile is not there any more, and keeps what belongs to it.
    gone = await transaction.column(
        "DELETE FROM finished_rest WHERE id = ANY($1::uuid[]) RETURNING id", past
    )
    for table in ("attempts", "transitions"):
        await transaction.run(
            f"DELETE FROM {table} WHERE job_id = ANY($1::uuid[])",  # noqa: S608  no value in it
            gone,
        )
    await prune_dispositions(transaction, bounds)
    await prune_letters(transaction, bounds)
    await prune_meters(transaction, bounds)
    return len(gone)


async def prune_dispositions(transaction: Transaction, bounds: Bounds) -> None:
    """Not those of jobs that have not ended: they still say what became of their occurrence."""
    await transaction.run(
        """
        DELETE FROM dispositions
        USING (
          SELECT schedule_id, first
          FROM dispositions
          WHERE last < $1
            AND (job_id IS NULL OR NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = job_id))
          ORDER BY last
          LIMIT $2
        ) AS past
        WHERE dispositions.schedule_id = past.schedule_id
          AND dispositions.first = past.first
        """,
        bounds.failed_before,
        bounds.limit,
    )


async def prune_letters(transaction: Transaction, bounds: Bounds) -> None:
    await transaction.run(
        """
        DELETE FROM dead_letters
        WHERE id = ANY(ARRAY(SELECT id FROM dead_letters WHERE at < $1 ORDER BY at LIMIT $2))
        """,
        bounds.failed_before,
        bounds.limit,
    )


async def prune_meters(transaction: Transaction, bounds: Bounds) -> None:
    """Buckets that have long been full. A claim may be about to draw from one: that is left."""
    await transaction.run(
        """
        WITH full_ones AS MATERIALIZED (
          SELECT queue, grp FROM meters WHERE full_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED
        )
        DELETE FROM meters
        USING full_ones
        WHERE meters.queue = full_ones.queue
          AND meters.grp = full_ones.grp
        """,
        bounds.finished_before,
        bounds.limit,
    )


async def lapsed(transaction: Transaction, asked: tuple[int, int]) -> Sequence[Job]:
    """Those that claims have set aside, and those that they have not met yet."""
    sql = f"""
        SELECT {LIVE_COLUMNS}
        FROM (
          (SELECT id FROM jobs
           WHERE lapsed IS TRUE AND start_by < $1
             AND start_by IS NOT NULL AND NOT running
           ORDER BY start_by LIMIT $2)
          UNION ALL
          (SELECT id FROM jobs
           WHERE NOT lapsed AND start_by < $1 AND start_by IS NOT NULL AND NOT running
           ORDER BY start_by LIMIT $2)
        ) AS found
        JOIN jobs ON jobs.id = found.id
        ORDER BY start_by, jobs.id
        LIMIT $2
    """  # noqa: S608  no value in it
    return read_jobs(await transaction.rows(sql, *asked))


class CancelLapsed(msgspec.Struct, frozen=True):
    ids: Sequence[JobId]
    reason: str
    now: int


async def cancel_lapsed(transaction: Transaction, request: CancelLapsed) -> int:
    reasons = dict.fromkeys(request.ids, request.reason)
    return len(await cancel_waiting(transaction, reasons, request.now, started_too=False))
