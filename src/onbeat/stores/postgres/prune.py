"""Pruning by age, and jobs that may no longer start."""

from collections.abc import Sequence

from onbeat.model.job import Job
from onbeat.stores.postgres.rows import LIVE_COLUMNS, read_jobs
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.verbs.prune import prune_dead_letters, prune_dispositions, prune_meters


async def prune_rest(
    transaction: Transaction, finished_before: int, failed_before: int, limit: int
) -> int:
    """Row by row, and only jobs without a partition for their day."""
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
    past = await transaction.column(sql, finished_before, failed_before, limit)
    # A job that was retried meanwhile is gone from here, and keeps its history.
    gone = await transaction.column(
        "DELETE FROM finished_rest WHERE id = ANY($1::uuid[]) RETURNING id", past
    )
    for table in ("attempts", "transitions"):
        await transaction.run(
            f"DELETE FROM {table} WHERE job_id = ANY($1::uuid[])",  # noqa: S608  no value in it
            gone,
        )
    await prune_dispositions(transaction, failed_before, limit)
    await prune_dead_letters(transaction, failed_before, limit)
    await prune_meters(transaction, finished_before, limit)
    return len(gone)


async def overdue_jobs(transaction: Transaction, now: int, limit: int) -> Sequence[Job]:
    """Lapsed jobs, both those that claims have flagged and those not flagged yet."""
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
    return read_jobs(await transaction.rows(sql, now, limit))
