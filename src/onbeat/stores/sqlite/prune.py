"""Pruning by age, and jobs that may no longer start."""

from collections.abc import Sequence

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.stores.sql.verbs.prune import prune_dead_letters, prune_dispositions, prune_meters
from onbeat.stores.sqlite.coroutines import finish
from onbeat.stores.sqlite.rows import read_jobs
from onbeat.stores.sqlite.transaction import Transaction, json_array


def prune(transaction: Transaction, finished_before: int, failed_before: int, limit: int) -> int:
    sql = """
        SELECT json_group_array(id)
        FROM (
          SELECT * FROM (SELECT id, finished_at FROM onbeat_finished
                         WHERE state = 'succeeded' AND finished_at < :finished_before
                         ORDER BY finished_at LIMIT :limit)
          UNION ALL
          SELECT * FROM (SELECT id, finished_at FROM onbeat_finished
                         WHERE state = 'cancelled' AND finished_at < :finished_before
                         ORDER BY finished_at LIMIT :limit)
          UNION ALL
          SELECT * FROM (SELECT id, finished_at FROM onbeat_finished
                         WHERE state = 'failed' AND finished_at < :failed_before
                         ORDER BY finished_at LIMIT :limit)
          ORDER BY finished_at, id
          LIMIT :limit
        )
    """
    bounds = {"finished_before": finished_before, "failed_before": failed_before, "limit": limit}
    ids = transaction.values(sql, bounds)
    if ids:
        delete_jobs(transaction, ids)
    finish(prune_dispositions(transaction, failed_before, limit))
    finish(prune_dead_letters(transaction, failed_before, limit))
    finish(prune_meters(transaction, finished_before, limit))
    return len(ids)


def delete_jobs(transaction: Transaction, ids: Sequence[JobId]) -> None:
    chosen = (json_array(ids),)
    for sql in (
        "DELETE FROM onbeat_finished WHERE id IN (SELECT value FROM json_each(?))",
        "DELETE FROM onbeat_attempts WHERE job_id IN (SELECT value FROM json_each(?))",
        "DELETE FROM onbeat_transitions WHERE job_id IN (SELECT value FROM json_each(?))",
    ):
        transaction.run(sql, chosen)


def overdue_jobs(transaction: Transaction, now: int, limit: int) -> Sequence[Job]:
    """Lapsed jobs, both those that claims have flagged and those not flagged yet."""
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT onbeat_live_jobs.record
          FROM (
            SELECT * FROM (SELECT seq, start_by FROM onbeat_jobs INDEXED BY onbeat_jobs_bounded
                           WHERE lapsed = 1 AND start_by < ?1 AND start_by IS NOT NULL
                             AND state = 'waiting'
                           ORDER BY start_by LIMIT ?2)
            UNION ALL
            SELECT * FROM (SELECT seq, start_by FROM onbeat_jobs INDEXED BY onbeat_jobs_bounded
                           WHERE lapsed = 0 AND start_by < ?1 AND start_by IS NOT NULL
                             AND state = 'waiting'
                           ORDER BY start_by LIMIT ?2)
          ) AS found
          CROSS JOIN onbeat_live_jobs USING (seq)
          ORDER BY found.start_by, onbeat_live_jobs.id
          LIMIT ?2
        )
    """
    return read_jobs(transaction.value(sql, (now, limit)))
