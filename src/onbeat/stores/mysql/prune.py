"""Pruning by age, and jobs that may no longer start."""

from collections.abc import Sequence

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.stores.mysql.rows import LIVE_COLUMNS, read_jobs
from onbeat.stores.mysql.transaction import Transaction
from onbeat.stores.sql.verbs.prune import prune_dead_letters, prune_dispositions, prune_meters


async def prune(
    transaction: Transaction, finished_before: int, failed_before: int, limit: int
) -> int:
    sql = " UNION ALL ".join(
        f"""
        (SELECT id, finished_at
         FROM finished FORCE INDEX (finished_by_end)
         WHERE state = '{state}' AND finished_at < %({before})s
         ORDER BY finished_at, id
         LIMIT %(limit)s)
        """  # noqa: S608  values are bound
        for state, before in (
            ("succeeded", "finished_before"),
            ("cancelled", "finished_before"),
            ("failed", "failed_before"),
        )
    )
    sql += " ORDER BY finished_at, id LIMIT %(limit)s"
    bounds = {"finished_before": finished_before, "failed_before": failed_before, "limit": limit}
    ids = await transaction.column(sql, bounds)
    gone = await delete_jobs(transaction, ids) if ids else 0
    await prune_dispositions(transaction, failed_before, limit)
    await prune_dead_letters(transaction, failed_before, limit)
    await prune_meters(transaction, finished_before, limit)
    return gone


async def delete_jobs(transaction: Transaction, ids: Sequence[JobId]) -> int:
    """Delete those of the jobs that still exist: one may have been retried meanwhile."""
    sql = "SELECT id FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s ORDER BY id FOR UPDATE"
    there = await transaction.column(sql, (tuple(ids),))
    if there:
        chosen = (tuple(there),)
        for delete in (
            "DELETE finished FROM finished FORCE INDEX (PRIMARY) WHERE id IN %s",
            "DELETE attempts FROM attempts FORCE INDEX (PRIMARY) WHERE job_id IN %s",
            "DELETE FROM transitions WHERE job_id IN %s",
        ):
            await transaction.run(delete, chosen)
    return len(there)


async def overdue_jobs(transaction: Transaction, now: int, limit: int) -> Sequence[Job]:
    """Lapsed jobs, both those that claims have flagged and those not flagged yet."""
    sql = " UNION ALL ".join(
        f"""
        (SELECT {LIVE_COLUMNS}, bound_by
         FROM jobs FORCE INDEX (jobs_bounded)
         WHERE lapsed = {lapsed} AND bound_by < %(now)s
         ORDER BY bound_by, id
         LIMIT %(limit)s)
        """  # noqa: S608  values are bound
        for lapsed in (0, 1)
    )
    sql += " ORDER BY bound_by, id LIMIT %(limit)s"
    rows = await transaction.rows(sql, {"now": now, "limit": limit})
    return read_jobs(row[:-1] for row in rows)
