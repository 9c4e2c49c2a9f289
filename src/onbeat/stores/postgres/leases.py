"""Leases: holders, takeovers and renewals."""

from collections.abc import Collection, Sequence
from typing import Any

from onbeat.model.ids import JobId, Token, WorkerId
from onbeat.model.job import Job
from onbeat.model.worker import CARRIER, FIRST_BEAT, RECEIVER, REMOTE, WorkerRecord
from onbeat.ports.store import HeldLease, Hint
from onbeat.stores.postgres.rows import LIVE_COLUMNS, columns, read_jobs
from onbeat.stores.postgres.transaction import Transaction
from onbeat.stores.sql.verbs.workers import worker_text

Start = tuple[JobId, Token, WorkerId, int]
"""A lease to take over, the worker, and the instant."""
Renewal = tuple[JobId, Token, int]
"""A timed lease, and its new expiry."""


async def heartbeat(transaction: Transaction, worker: WorkerRecord) -> list[HeldLease]:
    """One statement; it sees no lease that its own writing could touch."""
    sql = """
        WITH kept AS (
          INSERT INTO workers (id, record) VALUES ($1, $2)
          ON CONFLICT (id) DO UPDATE SET record = excluded.record
        )
        SELECT id, token, cancel_reason FROM jobs WHERE worker = $1 AND running ORDER BY id
    """
    if worker.beat == FIRST_BEAT:
        transaction.hints.add(Hint.WORKERS)
    return read_held(await transaction.rows(sql, worker.id, worker_text(worker)))


def read_held(rows: Sequence[Any]) -> list[HeldLease]:
    return [
        HeldLease(job_id=JobId(str(id)), token=Token(token), cancel_reason=reason)
        for id, token, reason in rows
    ]


START = f"""
    UPDATE jobs
    SET worker = asked.starter, started_at = asked.at, timed = NULL, lease_until = NULL
    FROM unnest($1::uuid[], $2::integer[], $3::text[], $4::bigint[])
         AS asked (job_id, lease, starter, at)
    WHERE jobs.id = asked.job_id
      AND jobs.token = asked.lease
      AND running IS NOT DISTINCT FROM TRUE
      AND (timed OR starts_with(worker, '{CARRIER}'))
      AND worker <> '{RECEIVER}'
    RETURNING {LIVE_COLUMNS}
"""  # noqa: S608  no value in it
STARTED_BEFORE = f"""
    SELECT {LIVE_COLUMNS}
    FROM unnest($1::uuid[], $2::integer[], $3::text[]) AS asked (job_id, lease, starter)
    JOIN jobs ON jobs.id = asked.job_id
    WHERE jobs.token = asked.lease
      AND running IS NOT DISTINCT FROM TRUE
      AND worker IS NOT DISTINCT FROM asked.starter
"""  # noqa: S608  as above


async def start(transaction: Transaction, starts: Sequence[Start]) -> list[Job | None]:
    """One statement; a second only for leases not obtained, which the workers may hold already.

    Rows are locked in the order of ids, so that concurrent starts cannot deadlock.
    """
    ordered = sorted(set(starts))
    rows = by_lease(await transaction.rows(START, *columns(ordered)))
    missing = [one[:3] for one in ordered if one[:3] not in rows]
    if missing:
        rows |= by_lease(await transaction.rows(STARTED_BEFORE, *columns(missing)))
    return [rows.get(one[:3]) for one in starts]


def by_lease(rows: Sequence[Any]) -> dict[tuple[str, int, str | None], Job]:
    return {(job.id, job.token, job.worker): job for job in read_jobs(rows)}


RENEW = f"""
    UPDATE jobs
    SET lease_until = asked.until,
        worker = CASE WHEN starts_with(worker, '{CARRIER}')
                      THEN '{REMOTE}' || substr(worker, {len(CARRIER) + 1})
                      ELSE worker
                 END
    FROM unnest($1::uuid[], $2::integer[], $3::bigint[]) AS asked (job_id, lease, until)
    WHERE jobs.id = asked.job_id
      AND jobs.token = asked.lease
      AND running IS NOT DISTINCT FROM TRUE
      AND timed IS NOT DISTINCT FROM TRUE
    RETURNING id, token, cancel_reason
"""  # noqa: S608  no value in it


async def renew(transaction: Transaction, renewals: Sequence[Renewal]) -> list[HeldLease | None]:
    """Of several renewals of one lease the last counts. The UPDATE changes no index.

    Except for the first of a carried job, which then has another holder.
    """
    last = {(id, token): until for id, token, until in renewals}
    rows = [(*lease, last[lease]) for lease in sorted(last)]
    found_rows = read_held(await transaction.rows(RENEW, *columns(rows)))
    kept = {(one.job_id, one.token): one for one in found_rows}
    return [kept.get((id, token)) for id, token, _ in renewals]


async def abandoned_jobs(
    transaction: Transaction, dead: Collection[WorkerId], now: int, limit: int
) -> Sequence[Job]:
    """By distinct worker first, so that the jobs of the living cost nothing.

    All are found before the first are chosen: else all jobs would be read in the order of ids.
    """
    sql = f"""
        WITH RECURSIVE holders (worker) AS (
          SELECT (SELECT min(worker) FROM jobs WHERE running)
          UNION ALL
          SELECT (SELECT min(jobs.worker) FROM jobs
                  WHERE running AND jobs.worker > holders.worker)
          FROM holders
          WHERE holders.worker IS NOT NULL
        ),
        dead AS MATERIALIZED (
          SELECT worker
          FROM holders
          WHERE worker = ANY($1::text[])
             OR NOT EXISTS (SELECT 1 FROM workers WHERE workers.id = holders.worker)
        ),
        lost AS MATERIALIZED (
          SELECT id
          FROM jobs
          WHERE running AND timed AND lease_until < $2
          UNION ALL
          SELECT id
          FROM jobs
          WHERE running AND timed IS NULL AND worker = ANY(ARRAY(SELECT worker FROM dead))
        )
        SELECT {LIVE_COLUMNS}
        FROM lost
        JOIN jobs ON jobs.id = lost.id
        ORDER BY jobs.id
        LIMIT $3
    """  # noqa: S608  no value in it
    return read_jobs(await transaction.rows(sql, list(dead), now, limit))
