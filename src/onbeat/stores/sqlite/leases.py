"""Leases: holders, takeovers, renewals and expiry."""

from collections.abc import Collection, Sequence
from datetime import datetime

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.worker import CARRIER, RECEIVER, REMOTE
from onbeat.ports.store import HeldLease
from onbeat.stores.sql.values import micros
from onbeat.stores.sqlite.rows import read_jobs
from onbeat.stores.sqlite.transaction import Transaction, json_array

StartRow = tuple[JobId, Token, WorkerId, int]
RenewRow = tuple[JobId, Token, int]


def start_row(worker: WorkerId, id: JobId, token: Token, now: datetime) -> StartRow:
    return (id, token, worker, micros(now))


def start(transaction: Transaction, rows: Sequence[StartRow]) -> list[Job | None]:
    """Take over the leases of many callers; of two callers for one lease only one gets it."""
    transaction.run_rows(
        """
        UPDATE onbeat_jobs
        SET worker = column3, started_at = column4, lease_until = NULL
        FROM :rows
        WHERE id = column1 AND token = column2 AND state = 'running'
          AND (lease_until IS NOT NULL OR substr(worker, 1, length(:carrier)) = :carrier)
          AND worker != :receiver
        """.replace(":carrier", f"'{CARRIER}'").replace(":receiver", f"'{RECEIVER}'"),
        rows,
    )
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM onbeat_live_jobs
        WHERE state = 'running' AND id IN (SELECT value FROM json_each(?))
    """
    value = read_jobs(transaction.value(sql, (json_array(id for id, *_ in rows),)))
    held = {(job.id, job.token, job.worker): job for job in value}
    return [held.get((id, token, worker)) for id, token, worker, _ in rows]


def renew_row(id: JobId, token: Token, until: datetime) -> RenewRow:
    return (id, token, micros(until))


def renew(transaction: Transaction, rows: Sequence[RenewRow]) -> list[HeldLease | None]:
    transaction.run_rows(
        """
        UPDATE onbeat_jobs
        SET lease_until = column3,
            worker = CASE substr(worker, 1, length(:carrier))
                       WHEN :carrier THEN :remote || substr(worker, length(:carrier) + 1)
                       ELSE worker
                     END
        FROM :rows
        WHERE id = column1 AND token = column2 AND state = 'running' AND lease_until IS NOT NULL
        """.replace(":carrier", f"'{CARRIER}'").replace(":remote", f"'{REMOTE}'"),
        rows,
    )
    sql = """
        SELECT json_group_array(json_array(id, token, cancel_reason))
        FROM onbeat_jobs
        WHERE id IN (SELECT value FROM json_each(?)) AND state = 'running'
          AND lease_until IS NOT NULL
    """
    found_rows = transaction.values(sql, (json_array(id for id, *_ in rows),))
    held = {(id, token): HeldLease(id, token, reason) for id, token, reason in found_rows}
    return [held.get((id, token)) for id, token, _ in rows]


async def abandoned_jobs(
    transaction: Transaction, dead: Collection[WorkerId], now: int, limit: int
) -> Sequence[Job]:
    """By distinct worker and queue first, so that the jobs of live workers cost nothing."""
    sql = """
        WITH RECURSIVE heads (head) AS (
          SELECT (SELECT seq FROM onbeat_jobs INDEXED BY onbeat_jobs_running WHERE state = 'running'
                  ORDER BY worker, queue, lease_until LIMIT 1)
          UNION ALL
          SELECT (
            SELECT next.seq FROM onbeat_jobs AS next INDEXED BY onbeat_jobs_running
            WHERE next.state = 'running'
              AND (next.worker, next.queue, next.lease_until)
                  > (+here.worker, +here.queue, 9223372036854775807)
            ORDER BY next.worker, next.queue, next.lease_until
            LIMIT 1)
          FROM heads
          CROSS JOIN onbeat_jobs AS here ON here.seq = head
        ),
        holders AS MATERIALIZED (
          SELECT worker, queue FROM heads CROSS JOIN onbeat_jobs ON onbeat_jobs.seq = head
        )
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT onbeat_live_jobs.record
          FROM (
            SELECT onbeat_jobs.seq, onbeat_jobs.id
            FROM holders
            CROSS JOIN onbeat_jobs INDEXED BY onbeat_jobs_running USING (worker, queue)
            WHERE onbeat_jobs.lease_until IS NULL
              AND onbeat_jobs.state = 'running'
              AND (holders.worker IN (SELECT value FROM json_each(:dead))
                   OR holders.worker NOT IN (SELECT id FROM onbeat_workers))
            UNION ALL
            SELECT onbeat_jobs.seq, onbeat_jobs.id
            FROM holders
            CROSS JOIN onbeat_jobs INDEXED BY onbeat_jobs_running USING (worker, queue)
            WHERE onbeat_jobs.lease_until < :now AND onbeat_jobs.state = 'running'
            ORDER BY id
            LIMIT :limit
          ) AS lost
          CROSS JOIN onbeat_live_jobs USING (seq)
          ORDER BY lost.id
        )
    """
    return read_jobs(transaction.value(sql, {"dead": json_array(dead), "now": now, "limit": limit}))
