"""Leases: who holds them, how they pass on, and which have run out."""

from collections.abc import Collection, Sequence
from datetime import datetime

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.worker import CARRIER
from onbeat.ports.store import Held
from onbeat.stores.sql.values import micros
from onbeat.stores.sqlite.rows import read_jobs
from onbeat.stores.sqlite.transaction import Transaction, listed

StartRow = tuple[JobId, Token, WorkerId, int]
RenewRow = tuple[JobId, Token, int]


def start_row(worker: WorkerId, id: JobId, token: Token, now: datetime) -> StartRow:
    return (id, token, worker, micros(now))


def start(transaction: Transaction, rows: Sequence[StartRow]) -> list[Job | None]:
    """Many callers' leases at once; of two callers who want the same one gets it."""
    transaction.run_rows(
        """
        UPDATE jobs
        SET worker = column3, started_at = column4, lease_until = NULL
        FROM :rows
        WHERE id = column1 AND token = column2 AND state = 'running'
          AND (lease_until IS NOT NULL OR substr(worker, 1, length(:carrier)) = :carrier)
        """.replace(":carrier", f"'{CARRIER}'"),
        rows,
    )
    sql = """
        SELECT '[' || group_concat(record, ',') || ']'
        FROM live_jobs
        WHERE state = 'running' AND id IN (SELECT value FROM json_each(?))
    """
    found = read_jobs(transaction.value(sql, (listed(id for id, *_ in rows),)))
    held = {(job.id, job.token, job.worker): job for job in found}
    return [held.get((id, token, worker)) for id, token, worker, _ in rows]


def held(transaction: Transaction, worker: WorkerId) -> list[Held]:
    sql = """
        SELECT json_group_array(json_array(id, token, cancel_reason) ORDER BY id)
        FROM jobs
        WHERE worker = ? AND state = 'running'
    """
    return [Held(*row) for row in transaction.values(sql, (worker,))]


def renew_row(id: JobId, token: Token, until: datetime) -> RenewRow:
    return (id, token, micros(until))


def renew(transaction: Transaction, rows: Sequence[RenewRow]) -> list[Held | None]:
    transaction.run_rows(
        """
        UPDATE jobs
        SET lease_until = column3
        FROM :rows
        WHERE id = column1 AND token = column2 AND state = 'running' AND lease_until IS NOT NULL
        """,
        rows,
    )
    sql = """
        SELECT json_group_array(json_array(id, token, cancel_reason))
        FROM jobs
        WHERE id IN (SELECT value FROM json_each(?)) AND state = 'running'
          AND lease_until IS NOT NULL
    """
    found = transaction.values(sql, (listed(id for id, *_ in rows),))
    held = {(id, token): Held(id, token, reason) for id, token, reason in found}
    return [held.get((id, token)) for id, token, _ in rows]


def abandoned(
    transaction: Transaction, asked: tuple[Collection[WorkerId], int, int]
) -> Sequence[Job]:
    """By distinct worker and queue first, so that the jobs of the living cost nothing."""
    sql = """
        WITH RECURSIVE heads (head) AS (
          SELECT (SELECT seq FROM jobs INDEXED BY jobs_running WHERE state = 'running'
                  ORDER BY worker, queue, lease_until LIMIT 1)
          UNION ALL
          SELECT (
            SELECT next.seq FROM jobs AS next INDEXED BY jobs_running
            WHERE next.state = 'running'
              AND (next.worker, next.queue, next.lease_until)
                  > (+here.worker, +here.queue, 9223372036854775807)
            ORDER BY next.worker, next.queue, next.lease_until
            LIMIT 1)
          FROM heads
          CROSS JOIN jobs AS here ON here.seq = head
        ),
        holders AS MATERIALIZED (
          SELECT worker, queue FROM heads CROSS JOIN jobs ON jobs.seq = head
        )
        SELECT '[' || group_concat(record, ',') || ']'
        FROM (
          SELECT live_jobs.record
          FROM (
            SELECT jobs.seq, jobs.id
            FROM holders
            CROSS JOIN jobs INDEXED BY jobs_running USING (worker, queue)
            WHERE jobs.lease_until IS NULL
              AND jobs.state = 'running'
              AND (holders.worker IN (SELECT value FROM json_each(:dead))
                   OR holders.worker NOT IN (SELECT id FROM workers))
            UNION ALL
            SELECT jobs.seq, jobs.id
            FROM holders
            CROSS JOIN jobs INDEXED BY jobs_running USING (worker, queue)
            WHERE jobs.lease_until < :now AND jobs.state = 'running'
            ORDER BY id
            LIMIT :limit
          ) AS lost
          CROSS JOIN live_jobs USING (seq)
          ORDER BY lost.id
        )
    """
    dead, now, limit = asked
    return read_jobs(transaction.value(sql, {"dead": listed(dead), "now": now, "limit": limit}))
