"""What is deleted for age, and jobs that may no longer start."""

from collections.abc import Sequence

import msgspec

from onbeat.model.ids import JobId
from onbeat.model.job import Job
from onbeat.stores.sqlite.ends import cancel_waiting
from onbeat.stores.sqlite.rows import read_jobs
from onbeat.stores.sqlite.transaction import Transaction, listed


class Prune(msgspec.Struct, frozen=True):
    finished_before: int
    failed_before: int
    limit: int


def prune(transaction: Transaction, request: Prune) -> int:
    sql = """
        SELECT json_group_array(id)
        FROM (
          SELECT * FROM (SELECT id, finished_at FROM finished
                         WHERE state = 'succeeded' AND finished_at < :finished_before
                         ORDER BY finished_at LIMIT :limit)
          UNION ALL
          SELECT * FROM (SELECT id, finished_at FROM finished
                         WHERE state = 'cancelled' AND finished_at < :finished_before
                         ORDER BY finished_at LIMIT :limit)
          UNION ALL
          SELECT * FROM (SELECT id, finished_at FROM finished
                         WHERE state = 'failed' AND finished_at < :failed_before
                         ORDER BY finished_at LIMIT :limit)
          ORDER BY finished_at, id
          LIMIT :limit
        )
    """
    ids = transaction.values(sql, msgspec.structs.asdict(request))
    if ids:
        delete_jobs(transaction, ids)
    prune_dispositions(transaction, request)
    prune_letters(transaction, request)
    prune_meters(transaction, request)
    return len(ids)


def delete_jobs(transaction: Transaction, ids: Sequence[JobId]) -> None:
    chosen = (listed(ids),)
    for sql in (
        "DELETE FROM finished WHERE id IN (SELECT value FROM json_each(?))",
        "DELETE FROM attempts WHERE job_id IN (SELECT value FROM json_each(?))",
        "DELETE FROM transitions WHERE job_id IN (SELECT value FROM json_each(?))",
    ):
        transaction.run(sql, chosen)


def prune_dispositions(transaction: Transaction, request: Prune) -> None:
    """Not those of jobs that have not ended: they still say what became of their occurrence."""
    transaction.run(
        """
        DELETE FROM dispositions
        WHERE (schedule_id, first) IN (
          SELECT schedule_id, first
          FROM dispositions INDEXED BY dispositions_by_age
          WHERE last < ?
            AND (job_id IS NULL OR NOT EXISTS (SELECT 1 FROM jobs WHERE id = job_id))
          ORDER BY last
          LIMIT ?
        )
        """,
        (request.failed_before, request.limit),
    )


def prune_letters(transaction: Transaction, request: Prune) -> None:
    transaction.run(
        """
        DELETE FROM dead_letters
        WHERE seq IN (SELECT seq FROM dead_letters WHERE at < ? ORDER BY at LIMIT ?)
        """,
        (request.failed_before, request.limit),
    )


def prune_meters(transaction: Transaction, request: Prune) -> None:
    """A bucket that is full is as one that was never used."""
    transaction.run(
        """
        DELETE FROM meters
        WHERE (queue, grp) IN (SELECT queue, grp FROM meters WHERE full_at <= ? LIMIT ?)
        """,
        (request.finished_before, request.limit),
    )


def lapsed(transaction: Transaction, asked: tuple[int, int]) -> Sequence[Job]:
    """Those that claims have set aside, and those that they have not met yet."""
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT live_jobs.record
          FROM (
            SELECT * FROM (SELECT seq, start_by FROM jobs INDEXED BY jobs_bounded
                           WHERE lapsed = 1 AND start_by < ?1 AND start_by IS NOT NULL
                             AND state = 'waiting'
                           ORDER BY start_by LIMIT ?2)
            UNION ALL
            SELECT * FROM (SELECT seq, start_by FROM jobs INDEXED BY jobs_bounded
                           WHERE lapsed = 0 AND start_by < ?1 AND start_by IS NOT NULL
                             AND state = 'waiting'
                           ORDER BY start_by LIMIT ?2)
          ) AS found
          CROSS JOIN live_jobs USING (seq)
          ORDER BY found.start_by, live_jobs.id
          LIMIT ?2
        )
    """
    return read_jobs(transaction.value(sql, asked))


class CancelLapsed(msgspec.Struct, frozen=True):
    ids: Sequence[JobId]
    reason: str
    now: int


def cancel_lapsed(transaction: Transaction, request: CancelLapsed) -> int:
    reasons = dict.fromkeys(request.ids, request.reason)
    ended = cancel_waiting(transaction, reasons, request.now, started_too=False)
    return len(ended)
